// Answers are randomized here, on the person's device, before anything leaves it. No dependencies, no third party.
//
// The arithmetic is that of peerveil's Response and Client in Python, on whole numbers: a uniform word u of 32 or 64 bits keeps
// the answer if u < keep_below, and otherwise names the ((u - keep_below) / share)-th of the other classes. The largest likelihood
// ratio is keep_below / share. A subset response reports `size` = w of the k classes, the answer among them if u < inside_below; the
// ratio is inside_below (k - w) / ((2^bits - inside_below) w). The ratio is checked here against e^epsilon before any answer is taken: a service cannot talk this module
// into less privacy than it shows. Both languages make the same bytes from the same random bytes (clients/vectors.json).

const LABELS = "peerveil-truth/1", RANKINGS = "peerveil-rankings/1", SCALE = 256n;

export class Refused extends Error {}

const refuse = (what, got, want) => { throw new Refused(`${what}: got ${JSON.stringify(got)}, need ${want}`); };

function whole(value, name) {
  const text = typeof value === "string" ? value : Number.isSafeInteger(value) ? String(value) : "";
  return /^\d{1,20}$/.test(text) ? BigInt(text) : refuse(name, value, "a whole number, as text beyond 2^53");
}

// A whole number below e^(p/q) 2^SCALE: every term of the series is positive and rounded down.
function expBelow(p, q) {
  let sum = 0n, term = 1n << SCALE;
  for (let i = 1n; term > 0n && i < 2000n; i++) {
    sum += term;
    term = term * p / (q * i);
  }
  return sum;
}

// The terms of a campaign, checked: thresholds that belong to k classes, and lose at most the epsilon that is promised.
export function readTerms(terms) {
  const labels = terms?.format === LABELS;
  if (!labels && terms?.format !== RANKINGS) refuse("format", terms?.format, `${LABELS} or ${RANKINGS}`);
  const classes = labels ? terms.classes : [0, 1];
  const kinds = Array.isArray(classes) && classes.every((c) => ["string", "number", "boolean"].includes(typeof c));
  if (!kinds || classes.length < 2 || new Set(classes).size < classes.length) refuse("classes", classes, "different classes");
  const parts = /^(\d{1,40})(?:\/(\d{1,40}))?$/.exec(terms.epsilon) ?? refuse("epsilon", terms.epsilon, "a number such as 1/2");
  const p = BigInt(parts[1]), q = BigInt(parts[2] ?? 1), bits = Number(terms.response?.bits), k = BigInt(classes.length);
  if (p === 0n || q === 0n || p > 64n * q) refuse("epsilon", terms.epsilon, "more than 0 and at most 64");
  if (bits !== 32 && bits !== 64) refuse("bits", terms.response?.bits, "32 or 64");
  const { kind = "k-ary", size = 1 } = terms.response, subset = labels && kind === "subset", total = 1n << BigInt(bits);
  const keepBelow = whole(terms.response[subset ? "inside_below" : "keep_below"], subset ? "inside_below" : "keep_below");
  if (subset && !(Number.isSafeInteger(size) && size > 1 && BigInt(size) < k)) refuse("size", size, `from 2 to ${k - 1n} classes`);
  const share = subset ? 0n : whole(terms.response.share, "share");
  const inside = subset ? keepBelow * (k - BigInt(size)) : keepBelow, outside = subset ? (total - keepBelow) * BigInt(size) : share;
  const whose = subset || (kind === "k-ary" && size === 1 && keepBelow + (k - 1n) * share === total);
  if (!whose || inside <= outside || outside <= 0n) refuse("response", String(keepBelow), `thresholds of a response on ${k} classes`);
  if (inside << SCALE > outside * expBelow(p, q))
    refuse("response", String(keepBelow), `thresholds that lose at most epsilon ${terms.epsilon}`);
  const questions = labels ? 0 : Number(whole(terms.questions, "questions"));
  const asked = terms.asked, pairs = terms.method === "pairs", listed = pairs ? 2 * questions : questions;
  const known = Number.isSafeInteger(terms.items) && terms.items > 1 && ["items", "pairs"].includes(terms.method);
  if (!labels && !(known && questions > 0 && Array.isArray(asked) && asked.flat().length === listed))
    refuse("asked", asked, "the items of every question");
  if (!Number.isSafeInteger(terms.answers) || terms.answers < 1) refuse("answers", terms.answers, "how many answers a person may give");
  return { ...terms, labels, classes, bits, keepBelow, share, size, inside, outside, questions, pairs };
}

const word = (random, bytes) => random(new Uint8Array(bytes)).reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n);

// A uniform whole number below n. Words of 64 bits are cut to the bits of n - 1; one that is too large is drawn again.
export function below(n, random) {
  const mask = (1n << BigInt(n === 1 ? 0 : (n - 1).toString(2).length)) - 1n;
  for (;;) {
    const drawn = Number(word(random, 8) & mask);
    if (drawn < n) return drawn;
  }
}

// One answer through the response: always one word, whatever the answer is.
export function respond(terms, code, random) {
  const drawn = word(random, terms.bits / 8);
  if (drawn < terms.keepBelow) return code;
  const other = Number((drawn - terms.keepBelow) / terms.share);
  return other >= code ? other + 1 : other;
}

// A subset of `size` classes: so many of the others, the last one replaced by the answer below the threshold; in order. The same
// numbers are drawn for every answer, whether it is named or not.
export function respondSubset(terms, code, random) {
  const named = word(random, terms.bits / 8) < terms.keepBelow, others = Array.from({ length: terms.classes.length - 1 }, (_, i) => i);
  for (let place = 0; place < terms.size; place++) {
    const chosen = place + below(others.length - place, random);
    [others[place], others[chosen]] = [others[chosen], others[place]];
  }
  const report = others.slice(0, terms.size).map((other) => (other >= code ? other + 1 : other));
  if (named) report[terms.size - 1] = code;
  return report.sort((a, b) => a - b);
}

// JSON in ASCII, with Python's spaces: one form of bytes in both languages.
const text = (value) => JSON.stringify(value).replace(/[^ -~]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
const list = (values) => "[" + values.map(text).join(", ") + "]";
const form = (value) => (Array.isArray(value) ? list(value) : text(value));
const line = (fields) => "{" + Object.entries(fields).map(([name, value]) => `${text(name)}: ${form(value)}`).join(", ") + "}";

// A question as a person sees it. Another id, other spaces or invisible characters do not make another question.
export const seen = (...parts) => parts.join(" ").normalize("NFKC")
  .replace(/(?![\t-\r])[\p{C}\p{Default_Ignorable_Code_Point}\u2800]/gu, "").replace(/\s+/g, " ").trim();

const secure = (bytes) => crypto.getRandomValues(bytes);

// One person's side of a campaign. `sent` keeps the report of every question, so that an answer is never randomized twice:
// a second report would cost epsilon again. It never holds more than the terms' `answers`. Only reports are kept, never answers.
// In memory by default: whoever can be reloaded passes something that lasts (has, get, set, size), as /collect/page.js does.
export class Client {
  constructor(terms, { random = secure, sent = new Map() } = {}) {
    this.terms = readTerms(terms);
    this.random = random;
    this.sent = sent;
    this.texts = new Map(Array.from(terms.tasks ?? [], (task) => [task.id, task.text]));
  }

  // What identifies a question: what is asked, not its id. For comparisons, in whichever order.
  key(question) {
    const { labels, question: asked, names } = this.terms, about = [this.terms.asked?.[question]].flat();
    if (labels) return seen(asked, this.texts.has(question) ? this.texts.get(question) : question);
    return seen(asked, ...about.map((i) => seen(names?.[i] ?? i)).sort());
  }

  // A random order of n questions, drawn without looking at any answer.
  *order(n) {
    const moved = new Map();
    for (let i = 0; i < n; i++) {
      const j = i + below(n - i, this.random);
      yield moved.get(j) ?? j;
      moved.set(j, moved.get(i) ?? i);
    }
  }

  // The report on a task. Spaces at the end make it as long as the longest classes would.
  report(task, answer) {
    return this.#once(task, () => {
      const { classes } = this.terms;
      const code = this.terms.labels ? classes.indexOf(answer) : -1;
      if (code < 0) refuse("answer", typeof answer, "one of the classes");
      const { size } = this.terms, lengths = classes.map((c) => text(c).length).sort((a, b) => b - a);
      const width = lengths.slice(0, size).reduce((sum, length) => sum + length + 2, size > 1 ? 0 : -2); // [, ] and commas
      const codes = size > 1 ? respondSubset(this.terms, code, this.random) : [respond(this.terms, code, this.random)];
      const label = size > 1 ? codes.map((c) => classes[c]) : classes[codes[0]];
      return line({ format: LABELS, task, label }) + " ".repeat(width - form(label).length);
    });
  }

  // The report on a question about a ranking: sign is 1 for yes, -1 for no, 0 where a fair coin must decide.
  vote(question, sign) {
    return this.#once(question, () => {
      if (this.terms.labels || ![-1, 0, 1].includes(sign) || !(question >= 0 && question < this.terms.questions))
        refuse("question", question, `a question below ${this.terms.questions}, and a sign`);
      const coin = below(2, this.random);
      const bit = respond(this.terms, sign === 0 ? coin : Number(sign > 0), this.random);
      return line({ protocol: this.terms.protocol, question, bits: String(bit) });
    });
  }

  // The one report of a whole ranking (the place of every item, from 0): a random question, answered from it.
  voteRanking(places) {
    const { items, asked, questions, pairs } = this.terms;
    if (!Array.isArray(places) || [...places].sort((a, b) => a - b).some((place, i) => place !== i) || places.length !== items)
      refuse("places", places?.length, `the places 0 to ${items - 1}, one an item`);
    const question = below(questions, this.random), about = asked[question];
    return this.vote(question, Math.sign(pairs ? places[about[1]] - places[about[0]] : items - 1 - 2 * places[about]));
  }

  #once(question, make) {
    const key = this.key(question), { answers } = this.terms;
    if (!this.sent.has(key)) {
      if (this.sent.size >= answers) refuse("answers", this.sent.size + 1, `at most ${answers}, as the terms say`);
      this.sent.set(key, make());
    }
    return this.sent.get(key);
  }

  // Percent of answers that are sent unchanged, or named in a subset (rounded down), and of right 50:50 guesses from a randomized answer (rounded up).
  get inHundred() {
    const { keepBelow: keep, inside, outside, bits } = this.terms, pair = inside + outside;
    return { kept: Number((1000n * keep) >> BigInt(bits)) / 10, guess: Number((1000n * inside + pair - 1n) / pair) / 10 };
  }
}

export const newKey = () => Array.from(secure(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

// What goes over the wire: these headers and this body, nothing else. The same key and body may be sent again.
export const request = (token, key, body) => ({
  method: "POST",
  headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json", "Idempotency-Key": key },
  body, credentials: "omit", cache: "no-store", referrerPolicy: "no-referrer", redirect: "error",
});
