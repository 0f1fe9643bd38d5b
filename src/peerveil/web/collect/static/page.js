// The person's page. Questions come one after another in a random order; an answer is randomized by the module, and only the report
// is kept or sent. The answer itself lives in the form until it is sent, and nowhere else.
import { Client, Refused, newKey, request } from "/peerveil-client.js";

const $ = (id) => document.getElementById(id);
const show = (id, yes = true) => { $(id).hidden = !yes; };
const say = (words) => { $("status").textContent = words; };
const id = decodeURIComponent(location.pathname.split("/").filter(Boolean).pop());
const api = `/v1/campaigns/${encodeURIComponent(id)}`;

let terms, digest, client, token, device, queue, current, budget;

// What this device keeps for the person who uses it: the terms they agreed to, by campaign, and every draw, by what was asked. The
// service can change neither. A draw is stored before it is sent. Tabs share the record through IndexedDB, whose transactions wait for
// each other; localStorage would not do, since a tab may still see there what another tab has already replaced.
class Device {
  static async open() {
    const device = new Device();
    const person = localStorage.getItem("peerveil:person") ?? "0";
    localStorage.setItem("peerveil:person", person); // fails where nothing can be kept
    device.name = `peerveil:${person}`;
    device.database = await new Promise((resolve, reject) => {
      const opening = indexedDB.open("peerveil", 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore("records");
      opening.onsuccess = () => resolve(opening.result);
      opening.onerror = () => reject(opening.error);
    });
    await device.change(() => {});
    return device;
  }
  #load({ agreed = [], draws = [] } = {}) {
    this.agreements = new Map(agreed);
    this.draws = new Map(draws);
  }
  // Reads what other tabs did, changes it, and stores it, in one transaction; a change that cannot be stored did not happen.
  change(action) {
    return new Promise((resolve, reject) => {
      const transaction = this.database.transaction("records", "readwrite", { durability: "strict" });
      const records = transaction.objectStore("records");
      let before, result, refusal;
      records.get(this.name).onsuccess = (event) => {
        before = event.target.result;
        this.#load(before);
        try {
          result = action();
          records.put({ agreed: [...this.agreements], draws: [...this.draws] }, this.name);
        } catch (error) { refusal = error; transaction.abort(); }
      };
      transaction.oncomplete = () => resolve(result);
      transaction.onabort = transaction.onerror = () => { this.#load(before); reject(refusal ?? transaction.error); };
    });
  }
  get agreed() { return this.agreements.get(id); }
  // The most answers in all: as the terms say, and never more than was agreed to before.
  most(answers) { return Math.min(answers, this.agreed?.answers ?? answers); }
  check(epsilon) {
    if (this.agreed && larger(epsilon, this.agreed.epsilon)) throw new Refused(`epsilon ${epsilon}, and you agreed to ${this.agreed.epsilon}`);
  }
  agree({ answers, epsilon }) {
    this.check(epsilon);
    this.agreements.set(id, { digest, answers: this.most(answers), epsilon });
  }
  // This campaign's draws, as the module wants them.
  get size() { return [...this.draws.values()].filter((draw) => draw.campaign === id).length; }
  has(question) { return this.draws.has(question); }
  get(question) { return this.draws.get(question)?.line; }
  set(question, line) { this.draws.set(question, { campaign: id, line, key: newKey(), done: false }); }
  pending() { return [...this.draws].filter(([, draw]) => draw.campaign === id && !draw.done).map(([question]) => question); }
}

function larger(a, b) {
  const [[p, q], [r, s]] = [a, b].map((number) => `${number}/1`.split("/").map(BigInt));
  return p * s > r * q;
}

function fail(words, again) {
  say("");
  $("failure").textContent = words;
  show("failed");
  show("again", Boolean(again));
  $("again").onclick = () => { show("failed", false); again?.(); };
}

async function begin() {
  const nothing = "so nothing will be sent from this device";
  let answer;
  if (!window.isSecureContext) return fail(`This page was not opened over https, ${nothing}.`);
  try { device = await Device.open(); } catch { return fail(`This browser keeps nothing for this page and could not keep count of your answers, ${nothing}.`); }
  try { answer = await fetch(api, { credentials: "omit", referrerPolicy: "no-referrer" }); }
  catch { return fail("The campaign could not be reached.", begin); }
  if (!answer.ok) return fail(answer.status === 404 ? "There is no such campaign." : "The campaign cannot be shown now.", begin);
  terms = await answer.json();
  try { client = new Client(terms); }
  catch (error) {
    if (!(error instanceof Refused)) throw error;
    return fail(`This campaign promises more than its settings keep, ${nothing} (${error.message}).`);
  }
  digest = await sha256(JSON.stringify({ ...terms, state: undefined }));
  try { device.check(terms.epsilon); }
  catch (error) {
    if (!(error instanceof Refused)) throw error;
    return fail(`This campaign now reveals more than you agreed to on this device, ${nothing} (${error.message}).`);
  }
  explain(device.most(terms.answers));
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

function explain(most) {
  show("changed", device.agreed !== undefined && device.agreed.digest !== digest);
  const { kept, guess } = client.inHundred, ranking = terms.kind === "rankings";
  document.title = $("title").textContent = terms.title;
  $("kept").textContent = `Your answer is changed at random on this device. With this setting it is sent unchanged ${kept}% of the time.`;
  $("otherwise").textContent = ranking || terms.classes.length === 2
    ? "Otherwise the opposite is sent." : "Otherwise one of the other answers, drawn at random, is sent in its place.";
  $("reveals").textContent = `So what is sent does not say for certain what you think: somebody who sees it, and guesses between two answers, is right at
    most ${guess}% of the time; a coin would be right 50% of the time.`;
  $("together").textContent = most === 1 ? "You give one answer."
    : `You may give up to ${most} answers. Each of them is randomized by itself; the guarantee below says what all of them reveal together.`;
  $("promise").textContent = terms.promise;
  $("person-promise").textContent = terms.person_promise === terms.promise ? "" : terms.person_promise;
  show("terms");
}

const askBudget = () => fetch(`${api}/budget`, { headers: { Authorization: `Bearer ${token}` }, credentials: "omit", cache: "no-store" });

// What this invitation was used for, here or on another device. The service may say less than the device allows, never more.
function learn({ left, reported }) {
  budget = { left: Number.isSafeInteger(left) ? left : 0, reported: new Set(Array.isArray(reported) ? reported : []) };
}

const remaining = () => Math.max(0, Math.min(device.most(terms.answers) - device.size, budget.left - device.pending().length));

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
  queue = nextOf(client.order(terms.kind === "labels" ? terms.tasks.length : terms.questions));
  await device.change(() => {
    for (const question of device.pending()) if (budget.reported.has(numberOf(JSON.parse(device.get(question))))) finished(question);
  });
  show("invitation", false);
  show("other", device.draws.size > 0);
  const left = remaining(), waiting = device.pending().length;
  if (left + waiting === 0) return finish();
  show("begin");
  $("begin").onclick = agree;
  say(left === 1 ? "You may give one answer." : `You may give ${left} answers.`);
}

// Beginning is agreeing to the terms shown.
async function agree() {
  if (!await changed(() => device.agree(terms))) return;
  show("terms", false);
  show("other", false);
  say("");
  next();
}

// A change of what is kept; says so, and gives undefined, where it cannot be made.
async function changed(action) {
  try { return [await device.change(action)]; }
  catch (error) { fail(`This device could not keep what it has to keep, so it sends nothing more (${error.message}).`); }
}

async function sha256(text) {
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function* nextOf(order) {
  for (const number of order) if (!budget.reported.has(number) && !device.has(client.key(nameOf(number)))) yield number;
}

const finished = (question) => device.draws.set(question, { ...device.draws.get(question), done: true });
const numberOf = ({ task, question }) => (terms.kind === "labels" ? terms.tasks.findIndex(({ id }) => id === task) : question);
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
  const [waiting] = device.pending();  // drawn before, but not known to have arrived: the same bytes go first
  if (waiting !== undefined) return deliver(waiting);
  const { value, done } = queue.next();
  const left = remaining();
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

async function answered() {
  const picked = $("question").querySelector("input:checked");
  if (!picked) return say("Please choose an answer first.");
  const name = nameOf(current), value = choices(current)[Number(picked.value)][1], question = client.key(name);
  $("send").disabled = $("skip").disabled = true;
  const drawn = await changed(() => {
    if (device.agreed?.digest !== digest) throw new Refused("in another tab other terms were agreed to; load this page again");
    if (device.has(question) || device.size >= device.agreed.answers) return; // another tab was quicker
    const drawing = new Client({ ...terms, answers: device.agreed.answers }, { sent: device });
    if (terms.kind === "labels") drawing.report(name, value); else drawing.vote(name, value);
  });
  $("choices").replaceChildren(); // the answer itself is gone; only the report is left
  show("question", false);
  if (drawn) next();
}

async function deliver(question) {
  const { line, key } = device.draws.get(question), options = request(token, key, line);
  reveal(options);
  say("Sending …");
  let answer;
  try { answer = await fetch(`${api}/reports`, options); } catch { answer = null; }
  if (answer === null || answer.status >= 500 || answer.status === 429)
    return fail("The report could not be sent yet. It stays as it was drawn; trying again sends the same bytes.", () => deliver(question));
  if (answer.status === 202 || answer.status === 409 || answer.status === 403) {
    if (!await changed(() => finished(question))) return;
    if (answer.status === 403) budget.left = 0;
    budget.left -= answer.status === 202 ? 1 : 0;
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
  $("thanks").textContent = remaining() === 0 ? "You have given all answers that you agreed to, or that this invitation is good for."
    : "There are no more questions. A question that was answered on this device is not asked again.";
  show("done");
  show("other");
  $("done-title").focus();
}

$("question").addEventListener("submit", (event) => { event.preventDefault(); answered(); });
$("forget").addEventListener("click", () => {
  localStorage.setItem("peerveil:person", String(Number(localStorage.getItem("peerveil:person")) + 1));
  location.reload();
});
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
