// What pages do beyond links and forms. Everything works without it: sliders are lists, progress is a page that reloads.
"use strict";
document.documentElement.classList.add("js");

// ---- sliders: a list of values becomes a range with the value beside it; the answer is fetched and put in place
const form = document.querySelector("form[data-explore]");
let asked = 0;

function sliders() {
  for (const label of document.querySelectorAll("label[data-slider]")) {
    const list = label.querySelector("select");
    const range = document.createElement("input");
    range.type = "range";
    range.min = 0;
    range.max = list.options.length - 1;
    range.step = 1;
    range.value = list.selectedIndex;
    range.setAttribute("aria-describedby", list.getAttribute("aria-describedby"));
    const shown = document.createElement("output");
    const say = () => {
      list.selectedIndex = Number(range.value);
      shown.textContent = list.value;
      range.setAttribute("aria-valuetext", list.value);
    };
    range.addEventListener("input", () => { say(); explore(); });
    list.hidden = true;
    range.id = `range-${list.name}`;
    label.htmlFor = range.id; // a label names the first field in it, unless it says which
    list.before(shown, range);
    say();
  }
}

function choices() {
  const found = new URLSearchParams(new FormData(form));
  if (!found.get("data")) found.delete("data");
  return found;
}

let timer;
function explore() {
  clearTimeout(timer);
  timer = setTimeout(async () => {
    const number = ++asked;
    const wanted = choices();
    const answer = await fetch(`${form.dataset.explore}?${wanted}&part=exploration`, { credentials: "same-origin" });
    if (!answer.ok || number !== asked) return;
    const text = await answer.text();
    if (number !== asked) return;
    document.getElementById("exploration").innerHTML = text;
    history.replaceState(null, "", `${form.dataset.explore}?${wanted}`);
    fill();
  }, 60);
}

// The settings that are explored fill in the forms of the steps that they are proposed for, and no other form: in another form a
// setting of the same name can be a statement about the data, which only a person can make.
function fill() {
  for (const one of form.elements) {
    if (!("fills" in one.dataset)) continue;
    const forms = one.dataset.fills.split(" ").map((step) => `#form-${CSS.escape(step)} [name="${CSS.escape(one.name)}"]`);
    for (const field of document.querySelectorAll(forms.join(", "))) {
      if (!field.dataset.touched) field.value = one.value;
    }
  }
}

if (form) {
  sliders();
  form.addEventListener("change", (event) => {
    if (event.target.matches("[data-reload]")) form.requestSubmit();
    else if (event.target.type !== "range") explore();
  });
  for (const field of document.querySelectorAll('form[id^="form-"] [name]')) {
    field.addEventListener("input", () => { field.dataset.touched = "yes"; });
  }
}

// ---- work under way: ask how far it is; when its state changes, load the page anew
const work = document.querySelector("[data-progress]");
if (work) {
  const ask = async () => {
    try {
      const answer = await fetch(work.dataset.progress, { credentials: "same-origin" });
      if (answer.ok) {
        const found = await answer.json();
        if (found.state !== work.dataset.state) { location.replace(location.pathname); return; }
        work.querySelector("progress").value = found.share;
        if (found.saying) work.querySelector("p").textContent = `${found.saying[0].toUpperCase()}${found.saying.slice(1)}…`;
      }
    } catch { /* the server is away; ask again */ }
    setTimeout(ask, 700);
  };
  setTimeout(ask, 500);
}

// ---- pages that wait for something to be read or simulated
if (document.querySelector("[data-poll]")) {
  let typed = false; // what somebody has begun to fill in must not be lost to a reload
  document.addEventListener("input", () => { typed = true; });
  const look = async () => {
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (!page.querySelector("[data-poll]")) {
        const part = page.getElementById("exploration"), shown = document.getElementById("exploration");
        if (typed && part && shown) shown.replaceWith(part); else location.reload();
        return;
      }
      const now = page.querySelector("progress"), here = document.querySelector("progress");
      if (now && here) here.value = now.value;
      const said = page.querySelector("[data-poll]"), old = document.querySelector("[data-poll]");
      if (said.matches("[role=status]")) old.textContent = said.textContent;
    } catch { /* the server is away; ask again */ }
    setTimeout(look, 900);
  };
  setTimeout(look, 700);
}

// ---- back from a refusal: the form as it was filled in, if the browser still has it
const back = document.querySelector("[data-back]");
if (back && history.length > 1) {
  back.addEventListener("click", (event) => { event.preventDefault(); history.back(); });
}
