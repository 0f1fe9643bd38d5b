"""The same way without a mouse, and without scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.web.console.browser import BrowserSession
from tests.web.console.server import ConsoleServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

_FOCUSED = """() => {
  const one = document.activeElement;
  const label = one.labels && one.labels.length ? one.labels[0].textContent : one.textContent;
  const form = one.closest("form");
  return `${form ? form.id || form.className : ""}: ${(label || "").trim().replace(/\\s+/g, " ")}`;
}"""


def tab_to(page: Page, form: str, label: str) -> None:
    """Press Tab until something whose label begins so, in a form whose id or class begins so, has the focus."""
    for _ in range(150):
        page.keyboard.press("Tab")
        if page.evaluate(_FOCUSED).startswith(f"{form}: {label}"):
            return
    pytest.fail(f"Tab never comes to {label}")


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory, chromium: Browser) -> Iterator[ConsoleServer]:
    server = ConsoleServer(tmp_path_factory.mktemp("keyboard") / "console")
    console = BrowserSession(server.base, chromium)
    console.add_synthetic()
    console.open_account("Synthetic 2026", "2")
    console.close()
    yield server
    server.stop()


def test_from_the_first_page_to_a_run_by_keys_alone(console: ConsoleServer, chromium: Browser) -> None:
    browser = BrowserSession(console.base, chromium)
    page = browser.page
    browser.explored("release")
    browser.open("/")
    page.keyboard.press("Tab")
    assert page.evaluate(_FOCUSED) == ": Skip to content"
    page.keyboard.press("Enter")  # over the navigation at once
    assert page.evaluate("document.activeElement.id") == "main"
    tab_to(page, "", "Release")
    page.keyboard.press("Enter")
    page.wait_for_url("**/release")
    headline = page.locator("#exploration .facts").inner_text()
    tab_to(page, "explore", "Epsilon")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("(old) => document.querySelector('#exploration .facts').innerText !== old", arg=headline)
    tab_to(page, "form-release.publish", "Data")
    page.keyboard.type("synthetic: reviews")
    tab_to(page, "form-release.publish", "Epsilon")
    page.keyboard.press("Control+A")
    page.keyboard.type("0.25")
    tab_to(page, "form-release.publish", "What is measured")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    tab_to(page, "form-release.publish", "Check the cost")
    page.keyboard.press("Enter")
    browser.checked()
    assert "0.25 of the" in page.locator("main").inner_text()
    tab_to(page, "inline", "Spend and run")
    page.keyboard.press("Enter")
    page.locator(".results").wait_for()
    assert "means-rating.csv" in (page.locator("main").text_content() or "")  # the second choice; files are folded
    browser.close()


def test_the_same_without_scripts(console: ConsoleServer, chromium: Browser) -> None:
    browser = BrowserSession(console.base, chromium, java_script_enabled=False)
    page = browser.page
    browser.open("/")
    page.get_by_role("link", name="Release Publish").click()
    page.locator("#exploration .headline").wait_for()
    page.get_by_label("Epsilon, for").select_option("2")
    browser.press("Show")
    page.get_by_text("epsilon 2 of the account").wait_for()
    form = page.locator('[id="form-release.publish"]')
    assert form.locator("[name=epsilon]").input_value() == "2"
    form.locator("[name=data]").select_option(label="synthetic: reviews")
    form.locator("[name=epsilon]").fill("0.25")
    browser.press("Check the cost", form)
    page.get_by_role("button", name="Spend and run").click()  # the page reloads itself until it was checked
    page.locator(".results").wait_for()
    assert page.locator("main figure svg").count() >= 1
    browser.close()
