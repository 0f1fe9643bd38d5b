// The person's page. Questions come one after another in a random order; an answer is randomised by the module, and only the report
// is kept or sent. The answer itself lives in the form until it is sent, and nowhere else.
import { Client, Refused, newKey, request } from "/peerveil-client.js";

const $ = (id) => document.getElementById(id);
const show = (id, yes = true) => { $(id).hidden = !yes; };
const say = (words) => { $("status").textContent = words; };
const id = decodeURIComponent(location.pathname.split("/").filter(Boolean).pop());
const api = `/v1/campaigns/${encodeURIComponent(id)}`;

let terms, client, token, sent, queue, current, left, reported;

// What was sent, by question. Kept on the device where it can be, so that a reload does not randomise an answer anew.
class Sent {
  constructor(name) {
    this.name = name;
    this.kept = new Map();
    try { this.kept = new Map(JSON.parse(localStorage.getItem(name) ?? "[]")); } catch { /* storage is closed here: memory must do */ }
  }
  has(question) { return this.kept.get(String(question))?.line !== undefined; }
  get(question) { return this.kept.get(String(question))?.line; }
  set(question, line) { this.#put(question, { line, key: newKey(), done: false }); }
  entry(question) { return this.kept.get(String(question)); }
  pending() { return [...this.kept].filter(([, entry]) => !entry.done).map(([question]) => question); }
  finish(question) { this.#put(question, { ...this.entry(question), done: true }); }
  #put(question, entry) {
    this.kept.set(String(question), entry);
    try { localStorage.setItem(this.name, JSON.stringify([...this.kept])); } catch { /* as above */ }
  }
}

function fail(words, again) {
  say("");
  $("failure").textContent = words;
  show("failed");
  show("again", Boolean(again));
  $("again").onclick = () => { show("failed", false); again?.(); };
}

async function begin() {
  let answer;
  try { answer = await fetch(api, { credentials: "omit", referrerPolicy: "no-referrer" }); }
  catch { return fail("The campaign could not be reached.", begin); }
  if (!answer.ok) return fail(answer.status === 404 ? "There is no such campaign." : "The campaign cannot be shown now.", begin);
  terms = await answer.json();
  try { client = new Client(terms); }
  catch (error) {
    if (!(error instanceof Refused)) throw error;
    return fail(`This campaign promises more than its settings keep, so nothing will be sent from this device (${error.message}).`);
  }
  explain();
  token = takeToken();
  if (terms.state !== "open") return say(terms.state === "closed" ? "This campaign is closed." : `This campaign opens at ${terms.opens}.`);
  if (token) return admit();
  say("You need an invitation to take part.");
  show("invitation");
}

// From the address behind the # (which no server sees), then gone from it.
function takeToken() {
  const name = `peerveil:${id}:invitation`, given = location.hash.slice(1);
  try {
    if (given) {
      history.replaceState(null, "", location.pathname);
      sessionStorage.setItem(name, given);
    }
    return given || sessionStorage.getItem(name);
  } catch { return given; }
}

function explain() {
  const { kept, guess } = client.inHundred, ranking = terms.kind === "rankings";
  document.title = $("title").textContent = terms.title;
  $("kept").textContent = `Your answer is changed at random on this device. With this setting it is sent as given ${kept} times in 100.`;
  $("otherwise").textContent = ranking || terms.classes.length === 2
    ? "Otherwise the opposite is sent." : "Otherwise one of the other answers, drawn at random, is sent in its place.";
  $("reveals").textContent = `So a report does not say for certain what you think: somebody who sees it, and guesses between two answers, is right at
    most ${guess} times in 100, where a coin would be right 50 times.`;
  $("together").textContent = terms.answers === 1 ? "You give one answer."
    : `You may give up to ${terms.answers} answers. Each of them is randomised by itself; the promise below says what all of them reveal together.`;
  $("promise").textContent = terms.promise;
  $("person-promise").textContent = terms.person_promise === terms.promise ? "" : terms.person_promise;
  show("terms");
}

const askBudget = () => fetch(`${api}/budget`, { headers: { Authorization: `Bearer ${token}` }, credentials: "omit", cache: "no-store" });

// What this invitation was used for, here or on another device.
function learn(budget) {
  left = budget.left;
  reported = new Set(budget.reported);
}

async function admit() {
  let answer;
  try { answer = await askBudget(); } catch { return fail("The campaign could not be reached.", admit); }
  if (answer.status === 401) {
    token = null;
    try { sessionStorage.removeItem(`peerveil:${id}:invitation`); } catch { /* nothing was kept */ }
    show("invitation");
    return say("This invitation is not known here. Please check it.");
  }
  if (!answer.ok) return fail("The campaign cannot be reached now.", admit);
  learn(await answer.json());
  sent = new Sent(`peerveil:${id}:${await tag(token)}`);
  client = new Client(terms, { sent });
  queue = nextOf(client.order(terms.kind === "labels" ? terms.tasks.length : terms.questions));
  show("invitation", false);
  show("begin");
  $("begin").onclick = () => { show("terms", false); say(""); next(); };
  for (const name of sent.pending()) if (reported.has(numberOf(name))) sent.finish(name);
  if (left === 0) { show("begin", false); return finish(); }
  say(left === 1 ? "You may give one answer." : `You may give ${left} answers.`);
}

async function tag(secret) {
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(secret)));
  return Array.from(bytes.slice(0, 8), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function* nextOf(order) {
  for (const number of order) if (!reported.has(number) && !sent.entry(nameOf(number))?.done) yield number;
}

const numberOf = (name) => (terms.kind === "labels" ? terms.tasks.findIndex((task) => task.id === name) : Number(name));
const nameOf = (number) => (terms.kind === "labels" ? terms.tasks[number].id : number);

// The answers to choose from: what is shown, and what the module is given.
function choices(number) {
  if (terms.kind === "labels") return terms.classes.map((name) => [name, name]);
  const about = terms.asked[number];
  if (terms.method === "pairs") return [[terms.names[about[0]], 1], [terms.names[about[1]], -1]];
  return [["Yes", 1], ["No", -1], ...(terms.items % 2 ? [["It is exactly in the middle", 0]] : [])];
}

function ask(number) {
  if (terms.kind === "labels") return [terms.question, terms.tasks[number].text];
  const about = terms.asked[number];
  if (terms.method === "pairs") return [terms.question, `Which do you put first: ${terms.names[about[0]]} or ${terms.names[about[1]]}?`];
  return [terms.question, `Is ${terms.names[about]} in the upper half of your ranking of ${terms.items}?`];
}

function next() {
  const [waiting] = sent.pending();  // drawn before, but not known to have arrived: the same bytes go first
  if (waiting !== undefined) return deliver(waiting);
  const { value, done } = queue.next();
  if (done || left === 0) return finish();
  current = value;
  const [asked, about] = ask(current);
  $("asked").textContent = asked === about ? "" : asked;
  $("about").textContent = about;
  $("place").textContent = left === 1 ? "One answer left" : `Up to ${left} answers left`;
  $("choices").replaceChildren(...choices(current).map(([name], i) => {
    const label = document.createElement("label"), input = document.createElement("input"), words = document.createElement("span");
    label.className = "choice";
    Object.assign(input, { type: "radio", name: "answer", value: String(i), required: true, autocomplete: "off" });
    words.textContent = name;
    label.append(input, words);
    if (i < 9) {
      const key = document.createElement("kbd");
      key.textContent = String(i + 1);
      key.setAttribute("aria-hidden", "true");
      label.append(key);
    }
    return label;
  }));
  if (terms.kind === "rankings" && terms.method === "items" && !$("names").children.length) {
    $("names").append(...terms.names.map((name) => Object.assign(document.createElement("li"), { textContent: name })));
    show("all");
  }
  $("send").disabled = $("skip").disabled = false;
  show("question");
  $("legend").focus();
}

function answered() {
  const picked = $("question").querySelector("input:checked");
  if (!picked) return say("Please choose an answer first.");
  const name = nameOf(current), value = choices(current)[Number(picked.value)][1];
  $("send").disabled = $("skip").disabled = true;
  if (terms.kind === "labels") client.report(name, value); else client.vote(name, value);
  $("choices").replaceChildren(); // the answer itself is gone; only the report is left
  show("question", false);
  deliver(name);
}

async function deliver(name) {
  const { line, key } = sent.entry(name), options = request(token, key, line);
  reveal(options);
  say("Sending …");
  let answer;
  try { answer = await fetch(`${api}/reports`, options); } catch { answer = null; }
  if (answer === null || answer.status >= 500 || answer.status === 429)
    return fail("The report could not be sent yet. It stays as it was drawn; trying again sends the same bytes.", () => deliver(name));
  if (answer.status === 202 || answer.status === 409 || answer.status === 403) {
    sent.finish(name);
    if (answer.status === 403) left = 0;
    left -= answer.status === 202 ? 1 : 0;
    if (answer.status === 409) { // another device was quicker, or the campaign was closed
      const again = await askBudget().catch(() => null);
      if (again?.ok) learn(await again.json());
    }
    say(answer.status === 202 ? "Sent." : "The campaign did not take this report: it is closed, or the question was answered before.");
    return next();
  }
  const said = await answer.json().catch(() => ({}));
  fail(said.message ?? "The report was refused.");
}

function reveal(options) {
  const hidden = { ...options.headers, Authorization: "Bearer (your invitation code)" };
  const head = Object.entries(hidden).map(([name, value]) => `${name}: ${value}`).join("\n");
  $("text").textContent = `POST ${api}/reports\n${head}\n\n${options.body}`;
  const length = new TextEncoder().encode(options.body).length;
  $("size").textContent = `The last line is the report: ${length} bytes, whatever the answer was.`;
  show("wire");
}

function finish() {
  show("question", false);
  show("terms", false);
  say("");
  $("thanks").textContent = left === 0 ? "You have given all answers that this invitation is good for." : "There are no more questions.";
  show("done");
  $("done-title").focus();
}

$("question").addEventListener("submit", (event) => { event.preventDefault(); answered(); });
$("skip").addEventListener("click", () => { say("Skipped. Nothing was sent."); next(); });
$("invitation").addEventListener("submit", (event) => { event.preventDefault(); token = $("token").value.trim(); $("token").value = ""; admit(); });
$("show").addEventListener("click", () => {
  const open = $("bytes").hidden;
  show("bytes", open);
  $("show").setAttribute("aria-expanded", String(open));
  $("show").textContent = open ? "Hide the bytes" : "Show the very bytes";
});
document.addEventListener("keydown", (event) => {
  if ($("question").hidden || event.ctrlKey || event.metaKey || event.altKey) return;
  const input = $("choices").querySelectorAll("input")[Number(event.key) - 1];
  if (/^[1-9]$/.test(event.key) && input) { input.checked = true; input.focus(); }
  if (event.key === "Enter" && event.target.type === "radio") { event.preventDefault(); $("question").requestSubmit(); }
});

begin();
