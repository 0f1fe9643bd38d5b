// What a page owes to people who see, hear, point or type differently. Gives the faults it finds: [rule, place, why].
// All folded parts are opened first: what is folded away is part of the page.
(() => {
  const faults = [];
  const say = (rule, element, why) => faults.push([rule, place(element), why]);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  for (const folded of all("details")) folded.open = true;

  function place(element) {
    if (!element || element === document) return "page";
    const id = element.id ? `#${element.id}` : "";
    const kind = typeof element.className === "string" && element.className ? `.${element.className.split(" ").join(".")}` : "";
    const text = (element.textContent || "").trim().replace(/\s+/g, " ").slice(0, 40);
    return `${element.localName}${id}${kind}${element.name ? `[name=${element.name}]` : ""} "${text}"`;
  }

  // ---- what is there for eyes, and what is there for a screen reader
  const box = (element) => element.getBoundingClientRect();
  function drawn(element) {
    return element.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && box(element).width > 0 && box(element).height > 0;
  }
  function clipped(element) {
    for (let one = element; one; one = one.parentElement) {
      const style = getComputedStyle(one);
      if (style.clipPath !== "none" || box(one).right < 0 || box(one).bottom + scrollY < 0) return true;
    }
    return false;
  }
  const seen = (element) => drawn(element) && !clipped(element);
  const heard = (element) => element.checkVisibility({ visibilityProperty: true }) && !element.closest('[aria-hidden="true"]');
  const words = (text) => (text || "").replace(/\s+/g, " ").trim();

  function said(element, except = null) {
    let text = "";
    for (const node of element.childNodes) {
      if (node.nodeType === Node.TEXT_NODE) text += node.data;
      else if (node.nodeType === Node.ELEMENT_NODE && node !== except && heard(node)) {
        if (node.matches("select, textarea, output, input")) continue;
        text += ` ${node.getAttribute("aria-label") || node.getAttribute("alt") || said(node, except)} `;
      }
    }
    return words(text);
  }
  function name(element) {
    const by = (element.getAttribute("aria-labelledby") || "").split(/\s+/).filter(Boolean).map((id) => document.getElementById(id));
    if (by.some(Boolean)) return words(by.filter(Boolean).map((one) => said(one)).join(" "));
    const direct = words(element.getAttribute("aria-label")) || words(element.getAttribute("alt"));
    if (direct) return direct;
    if (element.labels && element.labels.length) return words([...element.labels].map((one) => said(one, element)).join(" "));
    if (element.matches("input[type=submit], input[type=button]")) return words(element.value);
    const title = element.localName === "svg" ? words(element.querySelector(":scope > title")?.textContent) : "";
    return title || (element.matches("input, select, textarea, svg") ? "" : said(element)) || words(element.title);
  }

  // ---- colors
  function color(text) {
    let found = /^rgba?\(([^)]+)\)$/.exec(text);
    if (found) {
      const [r, g, b, a = 1] = found[1].split(/[\s,/]+/).map(Number);
      return [r, g, b, a];
    }
    found = /^color\(srgb ([^)]+)\)$/.exec(text);
    if (!found) return null;
    const [r, g, b, a = 1] = found[1].split(/[\s/]+/).filter(Boolean).map(Number);
    return [255 * r, 255 * g, 255 * b, a];
  }
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  function light([r, g, b]) {
    const [x, y, z] = [r, g, b].map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  }
  function contrast(one, other) {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  }
  function behind(element) { // the color that text stands on; null if it cannot be told (a picture)
    const layers = [];
    for (let one = element; one; one = one.parentElement) {
      const style = getComputedStyle(one);
      if (/url\(/.test(style.backgroundImage)) return null;
      const found = color(style.backgroundColor);
      if (found && found[3] > 0) layers.push(found);
      if (found && found[3] === 1) break;
    }
    const dark = matchMedia("(prefers-color-scheme: dark)").matches && /dark/.test(getComputedStyle(document.documentElement).colorScheme);
    return layers.reverse().reduce((below, top) => over(top, below), dark ? [18, 18, 18, 1] : [255, 255, 255, 1]);
  }
  function opacity(element) {
    let product = 1;
    for (let one = element; one; one = one.parentElement) product *= Number(getComputedStyle(one).opacity);
    return product;
  }
  function legible(element, style, what) {
    const ground = behind(element);
    const paint = element.closest("svg") ? style.fill : style.color;
    const ink = color(paint);
    if (!ground || !ink) return say("contrast", element, `${what}: the colors cannot be told (${paint})`);
    const solid = over([ink[0], ink[1], ink[2], ink[3] * opacity(element)], ground);
    const size = parseFloat(style.fontSize), bold = Number(style.fontWeight) >= 700;
    const least = size >= 24 || (bold && size >= 18.66) ? 3 : 4.5;
    const found = contrast(solid, ground);
    if (found < least) say("contrast", element, `${what}: ${found.toFixed(2)} of ${least} (${paint} on ${ground.slice(0, 3).map(Math.round)})`);
  }

  // ---- the page as a whole
  if (!words(document.documentElement.lang)) say("language", document.documentElement, "html has no lang");
  if (!words(document.title)) say("title", document, "no title");
  if (/user-scalable\s*=\s*no|maximum-scale/.test(document.querySelector("meta[name=viewport]")?.content || ""))
    say("zoom", document, "the page forbids zooming");
  if (all("main").filter(heard).length !== 1) say("landmarks", document, `${all("main").length} main elements`);
  for (const nav of all("nav").filter(heard)) if (!words(nav.getAttribute("aria-label")) && !nav.hasAttribute("aria-labelledby")) say("landmarks", nav, "nav without a label");
  for (const one of document.body.children)
    if (drawn(one) && !clipped(one) && said(one) && !one.matches("header, nav, main, footer, aside, script, noscript")) say("landmarks", one, "text outside of all landmarks");

  const headings = all("h1, h2, h3, h4, h5, h6").filter(heard);
  const tops = headings.filter((one) => one.localName === "h1").length;
  if (tops !== 1) say("headings", document, `${tops} headings of the first level`);
  let level = 0;
  for (const one of headings) {
    const now = Number(one.localName[1]);
    if (!said(one)) say("headings", one, "an empty heading");
    if (level && now > level + 1) say("headings", one, `level ${now} after ${level}`);
    level = now;
  }

  // ---- names
  for (const one of all("input:not([type=hidden]), select, textarea").filter(heard)) if (!name(one)) say("control-name", one, "no name");
  for (const one of all("progress, meter, output, [role=progressbar]").filter(heard))
    if (one.localName !== "output" && !name(one)) say("control-name", one, "no name");
  for (const one of all("img").filter(heard)) if (!one.hasAttribute("alt")) say("image-name", one, "no alt");
  for (const one of all("svg, [role=img]").filter(heard))
    if (one.getAttribute("role") !== "img" || !name(one)) say("image-name", one, "a picture without a role or a name");
  for (const one of all("a[href], [role=link]").filter(heard)) if (!name(one)) say("link-name", one, "no name");
  for (const one of all("button, summary, [role=button], input[type=submit], input[type=button]").filter(heard)) if (!name(one)) say("button-name", one, "no name");

  // ---- references and structure
  const ids = all("[id]").map((one) => one.id);
  for (const id of new Set(ids.filter((one, i) => ids.indexOf(one) !== i))) say("unique-ids", document.getElementById(id), `several elements have the id ${id}`);
  for (const one of all("*")) {
    for (const attribute of ["aria-labelledby", "aria-describedby", "aria-controls", "aria-owns", "aria-activedescendant", "aria-errormessage", "aria-details", "for"]) {
      if (attribute === "for" && !one.matches("label, output")) continue;
      for (const id of (one.getAttribute(attribute) || "").split(/\s+/).filter(Boolean))
        if (!document.getElementById(id)) say("references", one, `${attribute} names ${id}, which is not there`);
    }
    if (one.tabIndex > 0) say("tab-order", one, `tabindex ${one.tabIndex}`);
    if (one.closest('[aria-hidden="true"]') && one.tabIndex >= 0 && drawn(one)) say("tab-order", one, "can be reached, and is hidden from screen readers");
  }
  for (const link of all('a[href^="#"]')) if (link.hash && !document.getElementById(link.hash.slice(1))) say("references", link, `there is no ${link.hash}`);
  for (const table of all("table").filter(heard)) {
    if (!table.querySelector("th")) say("table-headers", table, "no headers");
    for (const head of all("th", table)) if (!["col", "row", "colgroup", "rowgroup"].includes(head.scope)) say("table-headers", head, "a header without scope");
  }
  for (const one of all("ul > *, ol > *")) if (!one.matches("li, script, template")) say("lists", one, "in a list, and no item");
  for (const one of all("li")) if (!one.parentElement.matches("ul, ol, menu")) say("lists", one, "an item of no list");
  for (const one of all("dt, dd")) if (!one.parentElement.matches("dl, dl > div")) say("lists", one, "a term outside of dl");

  // ---- contrast of every text, of what stands in fields, of hints in fields, and of texts that styles put in
  const MARK = "simulation, not private"; // lies across figures, pale on purpose; the page says it in words, too
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const done = new Set();
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!words(walker.currentNode.data) || done.has(element) || !element || element.matches("script, style, noscript, option, title, defs *")) continue;
    if (element.closest("svg") && words(element.textContent) === MARK) continue;
    done.add(element);
    if (seen(element)) legible(element, getComputedStyle(element), "text");
  }
  for (const one of all("input:not([type=hidden], [type=range], [type=checkbox], [type=radio]), select, textarea").filter(seen)) {
    if (one.disabled) continue;
    legible(one, getComputedStyle(one), "what stands in it");
    if (one.placeholder) legible(one, getComputedStyle(one, "::placeholder"), "the hint in it");
  }
  for (const one of all("body *").filter(seen)) {
    for (const part of ["::before", "::after"]) {
      const style = getComputedStyle(one, part);
      if (/["'][^"']*\w[^"']*["']/.test(style.content) && style.display !== "none") legible(one, style, part);
    }
  }

  // ---- fingers: 24 by 24, but for links that stand in a sentence
  for (const one of all("a[href], button, select, textarea, summary, input:not([type=hidden]), [tabindex='0'], [role=button]").filter(seen)) {
    const { width, height } = box(one);
    if (width >= 23.9 && height >= 23.9) continue;
    const block = one.parentElement.closest("p, li, td, th, dd, dt, figcaption, small, div, label") || one.parentElement;
    const sentence = one.localName === "a" && getComputedStyle(one).display === "inline" && said(block).length > said(one).length + 3;
    if (!sentence) say("target-size", one, `${width.toFixed(0)} by ${height.toFixed(0)}`);
  }

  // ---- width: nothing may need scrolling sideways, but inside a box of its own
  const page = document.scrollingElement;
  if (page.scrollWidth > page.clientWidth + 1) {
    const wide = all("body *").filter((one) => box(one).right > page.clientWidth + 1).slice(0, 3).map(place);
    say("sideways", document, `${page.scrollWidth} of ${page.clientWidth}: ${wide.join("; ")}`);
  }
  return faults;
})()
