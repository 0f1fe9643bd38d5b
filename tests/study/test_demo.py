"""The demo: whole, self-contained, and honest about what it shows."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.runner import run
from tests.web.console.accessibility import faults

from peerveil import BadInput, Ledger
from peerveil.cli.study import own_name
from peerveil.data import Reviews, synthetic_conference
from peerveil.study import Study
from peerveil.study.demo import Demo, run_demo

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TALLEST = 5000  # pixels of the summary, at 1,280 pixels of width
STEPS: list[tuple[int, int, str]] = []


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """A small demo, run once."""
    folder = tmp_path_factory.mktemp("demo") / "demo"
    return run_demo(folder, papers=30, reviewers=24, seed=3, samples=400, on_step=lambda *step: STEPS.append(step))


def test_the_demo(done: Demo) -> None:
    text = done.report.read_text(encoding="utf-8")
    assert "deliberately broken mechanisms were detected" in text
    assert "must not be published" in text
    assert "requested" in done.refusal
    assert "nothing was spent" in done.refusal
    modules = {step.action.module() for step in Study.read(done.study).steps}
    assert modules == {"release", "timing", "calibration", "rankings", "truth", "audit"}
    with Ledger.open(done.study.parent / "peerveil-ledger.db") as ledger:
        assert ledger.account("chairs").spent >= 2
        assert ledger.verify().ok
    assert Reviews.read(done.study.parent / "data" / "reviews.csv").fingerprint
    public = (done.result / "public" / "report.html").read_text(encoding="utf-8")
    assert "must not be published" not in public.lower()
    assert (done.report.parent / "result" / "public" / "report.html").exists()
    assert 'href="result/public/report.html"' in text
    # each step is announced, and the writing of the report
    assert [number for number, _, _ in STEPS] == list(range(8))
    assert {total for _, total, _ in STEPS} == {7}
    assert done.spent == "epsilon 2 of 3 from chairs, epsilon 2.5 of 3 from crowd"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_report_starts_with_findings_of_one_screen_each(
    done: Demo, chromium: Browser, width: int, scheme: str
) -> None:
    page = chromium.new_page(
        viewport={"width": width, "height": 900}, color_scheme="dark" if scheme == "dark" else "light"
    )
    page.goto(done.report.as_uri())
    findings = page.locator(".finding")
    assert findings.count() == 7
    for number in range(7):
        finding = findings.nth(number)
        assert finding.locator("figure").count() == 1
        assert finding.locator(".answer").inner_text().endswith((".", ".)"))
        if width == 1280:
            assert finding.evaluate("element => element.offsetHeight") <= 720
    if width == 1280:
        assert page.evaluate("document.documentElement.scrollHeight") <= TALLEST
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("details").first.locator("summary").first.click()
    assert page.locator("details").first.locator(".callout").is_visible()
    assert faults(page) == []
    page.close()


@pytest.mark.slow
def test_the_hints_at_the_end_work_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "peerveil.study.demo.run_demo",
        lambda out, **_: Demo(out / "r", out / "study/s.toml", out, "nothing", "refused"),
    )
    synthetic_conference(20, 12, seed=1).write("out/demo/study/data")
    with Ledger.open("out/demo/study/peerveil-ledger.db") as ledger:
        ledger.account("chairs", epsilon=1)
    code, text, _ = run(capsys, "demo")
    assert code == 0
    assert "about a minute" in text
    *_, opened, publish, spent, refused, own = text.splitlines()
    assert str(Path("out/demo/r")) in opened
    assert str(Path("out/demo/public")) in publish
    assert "refused" in refused
    for hint in (
        spent.partition("see ")[2],
        own.partition(":")[2].partition("&&")[0],
    ):  # what follows asks before it spends
        assert own_name() in hint
        subprocess.run(hint, shell=True, check=True, capture_output=True)
    assert "[[steps]]" in Path("study.toml").read_text()
    assert run(capsys, "run", "study.toml", "--check")[0] == 0


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("mine", encoding="utf-8")
    with pytest.raises(BadInput, match="--out"):
        run_demo(tmp_path / "demo", papers=30, reviewers=24)
    assert (tmp_path / "demo").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("papers", [0, 30])
def test_somebody_elses_folder_and_budget_are_left_alone(tmp_path: Path, papers: int) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        ledger.account("real", epsilon=1)
    before = (tmp_path / "ledger.db").read_bytes()
    with pytest.raises(BadInput, match="^--out|^papers"):
        run_demo(tmp_path, papers=papers, reviewers=24)
    assert (tmp_path / "ledger.db").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]
