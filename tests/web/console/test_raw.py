"""Raw answers in the form for randomized ones: unless somebody states that devices randomized them, nothing is published."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.web.console.browser import BrowserSession
from tests.web.console.server import ConsoleServer

from peerveil.truth import simulate_crowd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow  # the simulation that the slider needs takes most of a minute


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleServer]:
    server = ConsoleServer(tmp_path_factory.mktemp("raw") / "console")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Answers as people gave them, on tasks so hard that nothing in them tells that they were not randomized."""
    crowd = simulate_crowd(tasks=40, workers=12, answers=4, ability=(3, 2), epsilon=None, seed=2)
    return crowd.answers.write(tmp_path_factory.mktemp("answers") / "answers.csv").read_bytes()


def published(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("labels.csv") if "public" in path.parts]


def test_the_form_for_randomized_answers_as_it_is_publishes_nothing_of_raw_answers(
    console: ConsoleServer, chromium: Browser, raw: bytes
) -> None:
    browser = BrowserSession(console.base, chromium)
    browser.open("/data")
    answers = {"name": "answers.csv", "mimeType": "text/csv", "buffer": raw}
    browser.page.get_by_label("File, at most").set_input_files(answers)  # type: ignore[arg-type]
    browser.press("Upload")
    browser.page.locator("[data-poll]").wait_for(state="detached")
    browser.explored("truth", browser.path.rsplit("/", 1)[1])
    form = browser.page.locator('[id="form-truth.infer"]')
    browser.page.evaluate("() => { for (const one of document.querySelectorAll('details')) one.open = true; }")
    # somebody looks at another epsilon, as the page invites them to, and sends this form
    browser.page.evaluate(
        "() => { const one = document.querySelector('[data-explore] [name=epsilon]'); one.selectedIndex += 1;"
        " one.dispatchEvent(new Event('change', { bubbles: true })); }"
    )
    browser.page.wait_for_url("**epsilon=**")
    assert form.locator("[name=epsilon]").input_value() == ""
    assert form.locator("[name=randomized]").input_value() == "false"
    assert browser.page.locator('[id="form-truth.randomize"] [name=epsilon]').input_value() != ""
    form.locator("[name=epsilon]").fill("2")
    browser.expected = 422
    browser.press("Check", form)
    browser.page.get_by_role("alert").wait_for()
    assert "randomized" in browser.page.get_by_role("alert").inner_text()
    assert not published(console.folder)
    browser.close()
