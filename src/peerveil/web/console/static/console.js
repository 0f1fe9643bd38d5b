// Optional behavior of pages. Everything works without it: sliders are lists, and pages with progress reload themselves.
"use strict";
document.documentElement.classList.add("js");

// ---- sliders: a list of values becomes a range with its value; the exploration is fetched and replaced
const form = document.querySelector("form[data-explore]");
let latest = 0; // number of the newest request

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
    const output = document.createElement("output");
    const update = () => {
      list.selectedIndex = Number(range.value);
      output.textContent = list.value;
      range.setAttribute("aria-valuetext", list.value);
    };
    range.addEventListener("input", () => { update(); explore(); });
    list.hidden = true;
    range.id = `range-${list.name}`;
    label.htmlFor = range.id; // otherwise the label would name the hidden list
    list.before(output, range);
    update();
  }
}

function choices() {
  const parameters = new URLSearchParams(new FormData(form));
  if (!parameters.get("data")) parameters.delete("data");
  return parameters;
}

let timer;
function explore() {
  clearTimeout(timer);
  timer = setTimeout(async () => {
    const number = ++latest;
    const parameters = choices();
    const response = await fetch(`${form.dataset.explore}?${parameters}&part=exploration`, { credentials: "same-origin" });
    if (!response.ok || number !== latest) return;
    const text = await response.text();
    if (number !== latest) return;
    document.getElementById("exploration").innerHTML = text;
    history.replaceState(null, "", `${form.dataset.explore}?${parameters}`);
    fill();
  }, 60);
}

// Explored settings fill in the forms of the steps that they are proposed for, and no other form: there a setting of the same
// name can be a statement about the data, which only a person can make.
function fill() {
  for (const control of form.elements) {
    if (!("fills" in control.dataset)) continue;
    const forms = control.dataset.fills.split(" ").map((step) => `#form-${CSS.escape(step)} [name="${CSS.escape(control.name)}"]`);
    for (const field of document.querySelectorAll(forms.join(", "))) {
      if (!field.dataset.touched) field.value = control.value;
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

// ---- what was done is said once, not again when the page is loaded again
const address = new URL(location.href);
if (address.searchParams.has("done")) {
  address.searchParams.delete("done");
  history.replaceState(null, "", address);
}

// ---- pages that wait for a file to be read, a simulation or a run
if (document.querySelector("[data-poll]")) {
  let typed = false; // a reload must not lose what the user has typed
  document.addEventListener("input", () => { typed = true; });
  const poll = async () => {
    try {
      const response = await fetch(location.href, { credentials: "same-origin" });
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      if (!page.querySelector("[data-poll]")) {
        const loaded = page.getElementById("exploration"), shown = document.getElementById("exploration");
        if (typed && loaded && shown) shown.replaceWith(loaded); else location.reload();
        return;
      }
      const progress = page.querySelector("progress"), bar = document.querySelector("progress");
      if (progress && bar) bar.value = progress.value;
      const status = page.querySelector("[data-poll]");
      if (status.matches("[role=status]")) document.querySelector("[data-poll]").innerHTML = status.innerHTML;
    } catch { /* the server does not answer; try again */ }
    setTimeout(poll, 900);
  };
  setTimeout(poll, 700);
}

// ---- back from an error page: the form as it was filled in, if the browser still has it
const back = document.querySelector("[data-back]");
if (back && history.length > 1) {
  back.addEventListener("click", (event) => { event.preventDefault(); history.back(); });
}
