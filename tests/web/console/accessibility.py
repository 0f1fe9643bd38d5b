"""What pages owe to everybody: our own rules, evaluated in the page (``accessibility.js``), and a walk with the Tab key.

Not judged: text on pictures (reported as a fault, for there is none) and on gradients, of which only the color below is
taken: the ones here are shadows at the edges of tables.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

RULES = Path(__file__).with_name("accessibility.js").read_text(encoding="utf-8")
MOST_STOPS = 400

_FROM_THE_TOP = """() => {
  window.focusStops = [];
  document.body.tabIndex = -1;
  document.body.focus({ preventScroll: true });
  document.body.removeAttribute("tabindex");
  window.scrollTo(0, 0);
}"""
_STOPS = """() => {
  const wanted = "a[href], button, select, textarea, summary, input:not([type=hidden]), [tabindex='0']";
  return [...document.querySelectorAll(wanted)].filter((one) => !one.disabled && one.tabIndex >= 0
    && one.checkVisibility({ visibilityProperty: true }) && one.getClientRects().length).length;
}"""
_WHERE = """() => {
  const one = document.activeElement;
  if (!one || one === document.body || one === document.documentElement) return null;
  const style = getComputedStyle(one), box = one.getBoundingClientRect();
  window.focusStops = window.focusStops || [];
  let number = window.focusStops.indexOf(one);
  const again = number >= 0;
  if (!again) number = window.focusStops.push(one) - 1;
  const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 && style.outlineColor !== "rgba(0, 0, 0, 0)";
  const there = box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  const text = (one.textContent || "").trim().slice(0, 40);
  return { number, again, ring, there, what: `${one.localName}[${one.name || ""}] "${text}"` };
}"""


def faults(page: Page) -> list[str]:
    """Everything that the rules find on the page as it is shown now."""
    return [f"{rule}: {where}: {why}" for rule, where, why in page.evaluate(RULES)]


def broken(page: Page) -> set[str]:
    """The names of the rules that the page breaks."""
    return {str(rule) for rule, _, _ in page.evaluate(RULES)}


def walk(page: Page) -> list[str]:
    """Press Tab until the page is left: everything must be reached, be on the screen then, and show that it is."""
    found: list[str] = []
    page.evaluate(_FROM_THE_TOP)
    wanted = page.evaluate(_STOPS)
    reached = 0
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        stop: dict[str, Any] | None = page.evaluate(_WHERE)
        if stop is None or (stop["again"] and stop["number"] == 0):
            break
        if stop["again"]:
            found.append(f"trap: {stop['what']} is never left")
            break
        reached += 1
        if not stop["ring"]:
            found.append(f"focus: {stop['what']} does not show that it has the focus")
        if not stop["there"]:
            found.append(f"focus: {stop['what']} has the focus and is not on the screen")
    page.evaluate("() => document.activeElement?.blur()")
    if reached < wanted:  # boxes that scroll are stops too
        found.append(f"reach: Tab reaches {reached} of {wanted} things")
    return found
