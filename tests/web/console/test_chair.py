"""A chair's whole way, in a browser: from an OpenReview export to a published histogram, and a timing audit for the chair."""

from __future__ import annotations

import io
import shutil
import subprocess
import zipfile
from typing import TYPE_CHECKING

import pytest
from tests.web.common.process import COMMAND
from tests.web.console.browser import BrowserSession
from tests.web.console.export import openreview_export
from tests.web.console.server import ConsoleServer

from peerveil.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

ACCOUNT = "Kites 2026"


@pytest.fixture(scope="module")
def chair(
    tmp_path_factory: pytest.TempPathFactory, chromium: Browser
) -> Iterator[tuple[BrowserSession, Path, set[str]]]:
    """A chair who has brought an export and opened an account of 2; the console's folder; the reviewers' names."""
    server = ConsoleServer(tmp_path_factory.mktemp("chair") / "console")
    console = BrowserSession(server.base, chromium, viewport={"width": 1100, "height": 900})
    content, names = openreview_export()
    console.open("/")
    console.page.get_by_role("link", name="Upload a file").click()
    export = {"name": "kites-notes.json", "mimeType": "application/json", "buffer": content}
    console.page.get_by_label("File, at most").set_input_files(export)  # type: ignore[arg-type]
    console.press("Upload")
    console.page.locator("[data-poll]").wait_for(state="detached")
    console.open_account(ACCOUNT, "2")
    yield console, server.folder, names
    console.close()
    server.stop()


def spent(folder: Path) -> float:
    with Ledger.open(folder / "ledger.db") as book:
        (account,) = book.accounts()
        return float(account.spent)


def the_export_is_recognized(chair: tuple[BrowserSession, Path, set[str]]) -> None:
    console, _, _ = chair
    console.open("/data")
    console.page.get_by_role("link", name="kites-notes.json").click()
    text = console.page.locator("main").inner_text()
    assert "OpenReview notes" in text
    assert "180 reviews of 60 papers by 40 reviewers" in text
    assert "Read as events." in text
    modules = console.page.locator(".cards strong").all_inner_texts()
    assert modules == ["Release", "Timing", "Calibration"]


@pytest.mark.slow
def test_exploring_costs_nothing_and_answers_the_keyboard(chair: tuple[BrowserSession, Path, set[str]]) -> None:
    console, folder, names = chair
    console.open("/data")
    console.page.get_by_role("link", name="kites-notes.json").click()
    console.page.get_by_role("link", name="Release Publish").click()
    console.page.locator("[data-poll]").wait_for(state="detached")
    console.page.locator("#exploration .headline").wait_for()
    shown = console.page.locator("#exploration")
    before, epsilon = shown.inner_html(), console.page.locator("output").inner_text()
    console.page.evaluate("() => { window.stayed = true; }")
    console.page.get_by_role("slider").focus()
    console.page.keyboard.press("ArrowRight")
    console.page.wait_for_function("(old) => document.getElementById('exploration').innerHTML !== old", arg=before)
    chosen = console.page.locator("output").inner_text()
    assert float(chosen) > float(epsilon)
    assert f"epsilon {chosen} of the account" in shown.inner_text()
    assert shown.locator("svg[role=img]").count() >= 2
    assert console.page.evaluate("window.stayed")  # nothing was loaded anew
    assert f"epsilon={chosen}" in console.page.url
    # what was explored is what the form begins with
    assert console.page.locator('[id="form-release.publish"] [name=epsilon]').input_value() == chosen
    assert spent(folder) == 0
    assert not any(name in console.page.content() for name in names)


def from_the_export_to_a_published_histogram(chair: tuple[BrowserSession, Path, set[str]], tmp_path: Path) -> None:
    console, folder, names = chair
    console.prepare("release.publish", "kites-notes.json", weight="miscalibration", epsilon="1/2")
    text = console.page.locator("main").inner_text()
    assert "0.5 of the 2 left in Kites 2026" in text
    assert "without names" in text
    assert spent(folder) == 0  # a cost that is shown is not a cost that is spent
    console.carry_out("Spend and run")
    assert spent(folder) == 0.5
    assert console.page.locator("main figure svg[role=img]").count() >= 1
    assert "strict" in console.page.locator("main").inner_text()
    with zipfile.ZipFile(io.BytesIO(console.save("All public files"))) as archive:
        published = {name: archive.read(name) for name in archive.namelist()}
    table = next(content for name, content in published.items() if name.endswith("means-miscalibration.csv"))
    assert len(table.decode().strip().splitlines()) == 1 + 40  # the names of the columns, and a line for each reviewer
    assert any(name.endswith("report.html") for name in published)
    assert any(name.endswith(".svg") for name in published)
    everything = b"\n".join(published.values()).decode()
    assert not [name for name in names if name in everything]
    assert "Kestrel" not in everything
    study = console.save("Study file")
    assert b"kites-notes" in study

    console.open("/ledger")
    row = console.page.get_by_role("row", name=ACCOUNT).inner_text().split()
    assert row[-3:] == ["2", "0.5", "1.5"]
    console.page.get_by_role("link", name=ACCOUNT).click()
    assert "Release: publish the distribution" in console.page.locator("tbody").inner_text()
    console.open("/ledger/verify")
    assert console.page.locator("h1").inner_text() == "The ledger is intact"

    # the study file does the same once more, without a browser: here with a copy of the ledger
    copied = tmp_path / "ledger.db"
    shutil.copy(folder / "ledger.db", copied)
    (tmp_path / "study.toml").write_bytes(study.replace(str(folder / "ledger.db").encode(), str(copied).encode()))
    command = [*COMMAND, "run", "study.toml", "--yes"]
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    with Ledger.open(copied) as book:
        assert [float(account.spent) for account in book.accounts()] == [1.0]
    assert spent(folder) == 0.5
    assert next(tmp_path.rglob("means-miscalibration.csv")).read_bytes() != table  # new noise


def a_timing_audit_is_for_the_chair_alone(chair: tuple[BrowserSession, Path, set[str]]) -> None:
    console, folder, names = chair
    before = spent(folder)
    console.prepare("timing.audit", "kites-notes.json")
    assert "publishes\nnothing" in console.page.locator("main").inner_text()
    console.carry_out("Run")
    console.page.locator("main details").evaluate_all("(parts) => parts.forEach((part) => (part.open = true))")
    whole = console.page.locator("main").inner_text()
    assert "must not be published" in whole.lower()
    assert "nothing of this step is published" in whole.lower()
    console.page.get_by_role("link", name="Show the public view").click()
    public = console.page.locator("main").inner_text()
    assert console.page.locator("main figure").count() == 0
    figures = [line for line in whole.splitlines() if line.startswith("Without protection")]
    assert figures  # what the chair sees of the attack
    assert not any(line in public for line in figures)
    assert console.page.get_by_role("link", name="All public files").count() == 0  # nothing may
    (out,) = [path.parent for path in (folder / "runs").glob("*/out/public") if not list(path.rglob("*.svg"))]
    everything = "\n".join(path.read_text(encoding="utf-8") for path in (out / "public").rglob("*") if path.is_file())
    assert not any(line in everything for line in figures)
    assert not any(name in everything for name in names)
    assert spent(folder) == before


@pytest.mark.slow
def test_a_chair_from_the_export_to_a_published_histogram_and_a_private_audit(
    chair: tuple[BrowserSession, Path, set[str]], tmp_path: Path
) -> None:
    """One test, so that two workers do not start two consoles."""
    the_export_is_recognized(chair)
    from_the_export_to_a_published_histogram(chair, tmp_path)
    a_timing_audit_is_for_the_chair_alone(chair)
