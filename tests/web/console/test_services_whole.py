"""An operator's whole way in a real browser: from a new campaign, through real people's answers, to labels, and on into Truth."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.web.collect.server import Server
from tests.web.console.server import ConsoleServer

from peerveil.data import Labels
from peerveil.web.collect import CollectClient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

PEOPLE, TASKS, PATIENCE = 24, 10, 60_000
TRUTH = {f"picture {i}": "yes" if i % 3 else "no" for i in range(TASKS)}


@pytest.fixture
def console(tmp_path: Path) -> Iterator[ConsoleServer]:
    made = ConsoleServer(tmp_path / "console")
    yield made
    made.stop()


@pytest.fixture
def page(chromium: Browser, console: ConsoleServer) -> Iterator[Page]:
    """An operator's browser; it speaks to the console alone, and no script fails."""
    context = chromium.new_context(accept_downloads=True)
    context.set_default_timeout(PATIENCE)
    made = context.new_page()
    problems: list[str] = []
    made.on("pageerror", lambda error: problems.append(str(error)))
    made.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    made.on("request", lambda request: problems.append(request.url))
    made.goto(f"{console.base}/services")
    yield made
    context.close()
    # a browser writes down that a form was refused, which is what one of the steps is about
    ours = (console.base, "data:", "Failed to load resource: the server responded with a status of 422")
    assert not [problem for problem in problems if not problem.startswith(ours)]


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def make_campaign(page: Page) -> None:
    page.click("a:text-is('New campaign')")
    page.fill("[name=id]", "lake")
    page.fill("[name=title]", "Birds of the lake")
    page.fill("[name=question]", "Is there a bird?")
    page.fill("[name=tasks]", "\n".join(TRUTH))
    page.fill("[name=epsilon]", "-3")
    press(page, "Preview the guarantee")
    assert "epsilon: got" in page.inner_text("[role=alert]")
    assert page.input_value("[name=title]") == "Birds of the lake"  # what was typed is still there
    page.fill("[name=epsilon]", "3")
    press(page, "Preview the guarantee")
    page.wait_for_selector("text=Not created yet")
    assert "sent unchanged 95.2% of the time" in page.inner_text("main")
    assert "are in effect not protected" in page.inner_text("main")
    press(page, "Create this campaign")
    page.wait_for_selector("text=The campaign was created")


def invite(page: Page, site: str) -> list[str]:
    page.fill("[name=count]", str(PEOPLE))
    page.fill("[name=site]", site)
    with page.expect_download() as download:
        press(page, "Create and download")
    lines = download.value.path().read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("http")]


def answer_by_program(links: list[str], site: str, device: Path) -> None:
    rng = np.random.default_rng(3)
    for link in links:
        client = CollectClient(site, "lake", link.split("#")[1], device=device, new_person=True)
        for task, truth in TRUTH.items():
            wrong = "no" if truth == "yes" else "yes"
            client.answer(task, truth if rng.random() < 0.9 else wrong)


def answer_in_the_browser(browser: Browser, link: str) -> None:
    """One person, at the page that the link leads to."""
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(link)
    page.click("#begin")
    for _ in range(TASKS):
        page.wait_for_selector("#question:visible")
        task = next(name for name in TRUTH if re.search(rf"{name}$", page.inner_text("#about")))
        place = page.inner_text("#place")
        page.click(f"#choices >> text={TRUTH[task]}")
        page.click("#send")
        page.wait_for_function("(old) => document.getElementById('place').textContent !== old"
                               " || !document.getElementById('done').hidden", arg=place)  # fmt: skip
    page.wait_for_selector("#done:visible")
    context.close()


def labels_of(page: Page) -> dict[str, str]:
    rows = page.locator("h2#labels ~ div table").first.locator("tbody tr")
    return {row.locator("td").nth(0).inner_text(): row.locator("td").nth(1).inner_text() for row in rows.all()}


@pytest.mark.slow
def test_from_a_new_campaign_to_labels_and_on_into_truth(
    chromium: Browser, console: ConsoleServer, page: Page, tmp_path: Path
) -> None:
    make_campaign(page)
    service = Server(str(console.folder / "collect.db"), tmp_path)
    try:
        links = invite(page, service.base)
        assert len(links) == PEOPLE
        answer_in_the_browser(chromium, links[0])
        answer_by_program(links[1:], service.base, tmp_path / "device.db")
    finally:
        service.stop()  # so that the console, not the service, infers at the end
    page.reload()
    assert f"{PEOPLE * TASKS} (100% of those possible)" in page.inner_text("main")
    press(page, "Compute an estimate")
    page.wait_for_selector("text=more answers needed for the target")
    press(page, "Close this campaign")  # the browser asks for the box first
    assert page.locator("text=Close this campaign").count() == 1
    page.check("[name=sure]")
    press(page, "Close this campaign")
    page.wait_for_selector("text=The campaign is closed")
    press(page, "Infer")
    page.wait_for_selector("h2#labels")
    labels = labels_of(page)
    # each of 10 labels rests on 24 answers, right 9 in 10 times and sent unchanged 95 in 100 times
    assert labels == TRUTH
    with page.expect_download() as download:
        page.click("a:has-text('Download labels')")
    assert len(download.value.path().read_text(encoding="utf-8").splitlines()) == 1 + TASKS
    into_truth(page, console)


def into_truth(page: Page, console: ConsoleServer) -> None:
    press(page, "Use these answers in Truth")
    page.wait_for_selector("text=Read as labels")
    file = page.url.split("?")[0].rsplit("/", 1)[1]
    assert len(Labels.read(next((console.folder / "files" / file).iterdir()))) == PEOPLE * TASKS
    page.click(f"a[href='/truth?data={file}']")
    form = page.locator('[id="form-truth.infer"]')
    page.evaluate("() => { for (const one of document.querySelectorAll('details')) one.open = true; }")
    form.locator("[name=randomized]").select_option(label="yes")
    form.locator("[name=epsilon]").fill("3")
    form.locator("button:text-is('Check')").click()
    page.wait_for_url("**/runs/*")
    press(page, "Run")
    page.wait_for_selector("text=Results")
    with page.expect_download() as download:
        page.locator("a:has-text('.csv')").first.evaluate("link => link.click()")
    text = download.value.path().read_text(encoding="utf-8")
    for task, label in TRUTH.items():
        assert re.search(rf"^{task},{label}\b", text, re.MULTILINE), text
    page.goto(f"{console.base}/users")
    trail = page.inner_text("main")
    for what in (
        "created a campaign",
        "made invitations",
        "closed a campaign",
        "started an inference",
        "added answers of a campaign to the data",
    ):
        assert what in trail
