"""Names that a drawing library could take for something else: shown as they are, and never a reason to fail after a debit."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

import polars as pl
import pytest
from tests.cli.runner import run
from tests.web.console.clients import LocalConsole, said, where

from peerveil.ledger import Ledger
from peerveil.report import figure_style, new_axes, safe_svg, svg
from peerveil.study import run_study
from peerveil.study.outcome import Outcome

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

NAMES = [
    r"$\frac{$",
    "$a_{b$ costs $5",
    "$$",
    "_x",
    "[bold]a[/bold]",
    "[/]",
    "{0} %s %(x)s",
    "\\",
    "'=1+1",
    "a\x0bb",
    "a\x00b",
    "\u202eabc",
    "a\u2028b",
    "\uffff",
    "n" * 3000,
    "日本語 ❤",
]
PRINTABLE = [name for name in NAMES if name.isprintable() and len(name) <= 100]


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_shows_names_as_they_are(name: str) -> None:
    (ax,) = new_axes()
    with figure_style():
        ax.barh([0], [1])
        ax.set_yticks([0], [name])
        ax.set_title(name)
    root = ElementTree.fromstring(svg(ax, name))
    texts = {element.text for element in root.iter() if element.text}
    if name in PRINTABLE:
        assert name in texts


def test_powers_are_written_without_formulas() -> None:
    (ax,) = new_axes()
    with figure_style():
        ax.plot([1, 10, 1000], [0.001, 1, 10])
        ax.set_xscale("log")
        ax.set_yscale("log")
    text = svg(ax, "two logarithmic axes")
    assert "$" not in text
    assert ">1000<" in text


@pytest.mark.parametrize("name", ["x\ud800y", None])
def test_a_figure_that_fails_says_so(name: str | None) -> None:
    def draw(ax: Axes) -> Axes:
        if name is None:
            raise ValueError("secret of ann")
        ax.set_title(name)
        return ax

    text = safe_svg(lambda: draw(new_axes()[0]), f"a curve of {name}")
    assert ElementTree.fromstring(text).get("role") == "img"
    assert "could not be drawn" in text
    assert "ann" not in text
    outcome = Outcome("Would it fail?")
    outcome.figure(draw, "a curve", "A curve.", public=True)
    assert "could not be drawn" in outcome.public.figures[0].svg
    text.encode()


def test_the_ledger_page_and_a_run_with_such_accounts(console: LocalConsole) -> None:
    me = console.browser()
    for name in PRINTABLE:
        opened = me.send("/ledger", "/ledger/open", {"name": name, "epsilon": "5"})
        assert opened.status_code == 303, name
    page = me.get("/ledger")
    assert page.status_code == 200
    assert "could not be drawn" not in page.text
    tasks, workers = 12, 6
    classes = [r"$\frac{$", "_x", "[bold]"]
    rows = [(f"$task_{t}$", f"[w{w}]", classes[(t + w) % 3]) for t in range(tasks) for w in range(workers)]
    table = pl.DataFrame(rows, schema=["task", "worker", "label"], orient="row")
    for number, name in enumerate(PRINTABLE):
        copy = table.with_columns(task=pl.col("task") + str(number))  # other data for every account
        file = where(me.add(f"{name[:40]}.csv", copy.write_csv().encode())).rsplit("/", 1)[1]
        console.work("checks")
        fields = {
            "action": "truth.randomize",
            "data": file,
            "account": name,
            "epsilon": "1",
            "classes": "\n".join(classes),
        }
        run = where(me.send("/truth", "/truth/prepare", {**fields, "title": name}))
        console.work("checks")
        me.send(run, f"{run}/start")
        console.work("runs")
        done = me.get(run)
        assert "Results" in said(done), (name, said(done)[:900])
        assert "could not be drawn" not in done.text
    for name in PRINTABLE:
        assert me.get("/ledger/account", params={"name": name}).status_code == 200


def test_a_study_whose_figure_fails_after_the_debit_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.study.helpers import means, write_study

    def broken(*_: object) -> None:
        raise RuntimeError("no such font")

    monkeypatch.setattr("peerveil.release.figures.draw_release", broken)
    done = run_study(write_study(tmp_path, means()), tmp_path / "out")
    assert done.public is not None
    assert "This figure could not be drawn: RuntimeError" in (done.public / "report.html").read_text()
    assert list(done.public.rglob("means-*.csv"))
    with Ledger.open(tmp_path / "peerveil-ledger.db") as book:
        assert book.account("chairs").spent == 1


def test_the_command_line_with_such_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    classes = [r"$\frac{$", "_x", "[bold]", "a\x0bb"]
    frame = pl.DataFrame(
        [(f"$t{t}$", f"[/w{w}]", classes[(t + w) % 4]) for t in range(9) for w in range(5)],
        schema=["$task", "[worker]", "_label"],
        orient="row",
    )
    frame.write_parquet(tmp_path / "answers.parquet")
    for number, account in enumerate(PRINTABLE[:3]):
        with Ledger.open(tmp_path / f"{number}.db") as book:
            book.account(account, epsilon=5)
        columns = ["--column", "task=$task", "--column", "worker=[worker]", "--column", "label=_label"]
        arguments = [
            "randomize",
            str(tmp_path / "answers.parquet"),
            "--epsilon",
            "1",
            "--classes",
            ",".join(classes),
            *columns,
        ]
        spent = [
            "--ledger",
            str(tmp_path / f"{number}.db"),
            "--account",
            account,
            "--out",
            str(tmp_path / f"{number}"),
        ]
        code, _, err = run(capsys, "truth", *arguments, *spent)
        assert code == 0, err
