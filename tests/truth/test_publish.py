"""Labels for publication: only what was randomized leaves, the card's code runs, and nothing that was paid for is lost."""

from __future__ import annotations

import json
import math
import pickle
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from peerveil import BadInput, BudgetExceeded, Ledger, Randomness
from peerveil.data import Labels
from peerveil.study import run_study
from peerveil.truth import publish_labels, randomize_answers, simulate_crowd
from peerveil.truth.publish import PublishedLabels, preview_labels

MARK = "CANARY"
STUDY = """
[study]
title = "Labels"
ledger = "budget.db"
[accounts.main]
epsilon = 3
[data.answers]
path = "answers.csv"
kind = "labels"
[[steps]]
action = "truth.publish-labels"
data = "answers"
account = "main"
epsilon = 2
classes = ["yes", "no"]
[[steps]]
action = "truth.preview-labels"
data = "answers"
epsilons = [1, 4]
draws = 2
[[steps]]
action = "truth.agreement"
data = "answers"
"""


def crowd(tasks: int = 40, names: tuple[Any, ...] = ("yes", "no")) -> Labels:
    """Answers with ids that must not get out, and with correct answers."""
    made = simulate_crowd(tasks=tasks, workers=10, answers=5, classes=len(names), epsilon=None, seed=3).named(names)
    return Labels.from_frame(made.frame.with_columns(worker=pl.format(f"{MARK}-{{}}", "worker")))


def run_code(card: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run every block of Python in a card, in the folder of the data set, as a reader would."""
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", card, flags=re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, names)
    return names


@pytest.mark.parametrize(
    ("names", "unit", "format_"),
    [(("yes", "no"), "answer", "csv"), ((0, 1, 2), "person", "parquet"), ((True, False), "answer", "csv")],
)
def test_the_code_of_the_card_runs_and_estimates(
    names: tuple[Any, ...], unit: str, format_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    answers = crowd(200, names)
    published = publish_labels(answers, epsilon=6, classes=names, unit=unit, randomness=Randomness.simulation(5))
    published.write(tmp_path / "data", format=format_)
    ran = run_code((tmp_path / "data" / "README.md").read_text(), tmp_path / "data", monkeypatch)
    n, response = len(published.frame()), published.sent.response
    for name, share in ran["shares"].items():
        raw = float((answers.frame["label"] == name).mean())
        assert share == pytest.approx(raw, abs=5 * 0.5 / math.sqrt(n) / (response.keep - response.other))
    shown = capsys.readouterr().out
    assert "confidence" in shown
    assert ("Krippendorff's alpha" in shown) is (published.agreement is not None)
    if published.agreement is None:  # few labels of each person: hardly a task has two
        assert unit == "person"
        return
    assert f"alpha {published.agreement.alpha:.3f}" in published.card()
    assert ran["agreement"](published.frame(), epsilon=response.exact_epsilon, classes=names).alpha == pytest.approx(
        published.agreement.alpha
    )


def test_nothing_of_the_source_but_tasks_and_classes_gets_out(tmp_path: Path) -> None:
    answers = crowd()
    published = publish_labels(answers, epsilon=1, classes=["yes", "no"])
    files = [path.read_bytes() for path in published.write(tmp_path / "a")]
    files += [path.read_bytes() for path in published.write(tmp_path / "b", format="parquet")]
    texts = [str(published), repr(published), published.to_json(), str(published.frame())]
    assert not any(
        MARK.encode() in data for data in [*files, *(text.encode() for text in texts), pickle.dumps(published)]
    )
    frame = published.frame()
    assert frame.columns == ["task", "worker", "label"]
    assert frame.equals(frame.sort("task", "worker", "label"))
    assert frame["worker"].unique().sort().to_list() == list(range(1, 11))
    assert len(frame) == len(answers)
    other = publish_labels(answers, epsilon=1, classes=["yes", "no"]).frame()
    assert not other.select("task", "worker").equals(frame.select("task", "worker"))  # numbers are drawn anew


def test_the_card_states_the_guarantee_and_what_is_not_protected() -> None:
    published = publish_labels(crowd(), epsilon=1, classes=["yes", "no"])
    card = published.card("labels.csv")
    assert str(published.guarantee) in card
    busiest = int(crowd().frame.group_by("worker").len()["len"].max())  # type: ignore[arg-type]
    assert (
        f"All {busiest} labels of the busiest annotator together are in effect not protected (epsilon {busiest})"
        in card
    )
    assert "Which tasks an annotator answered" in card
    assert "simulation" not in card
    trial = publish_labels(crowd(), epsilon=1, classes=["yes", "no"], randomness=Randomness.simulation(1))
    assert "do not publish them" in trial.card()
    whole = publish_labels(crowd(), epsilon=1, classes=["yes", "no"], unit="person")
    assert "This covers everything that one annotator sent." in whole.card()


def test_labels_without_a_defined_agreement_are_published_all_the_same(tmp_path: Path) -> None:
    account = Ledger.open(tmp_path / "l.db").account("a", epsilon=1)
    single = Labels(task=[1, 2], worker=["a", "b"], label=["yes", "no"])
    published = publish_labels(single, epsilon=1, classes=["yes", "no"], account=account)
    assert published.agreement is None
    assert "cannot be estimated from these labels (reports: got 0 tasks" in published.card()
    assert list(published.contents()) == ["labels.csv", "README.md"]
    assert published.tasks_of_one == 2
    assert published.plot().has_data()
    with pytest.raises(BudgetExceeded):  # a second draw of the same answers costs its own epsilon
        publish_labels(single, epsilon=1, classes=["yes", "no"], account=account)


def test_what_cannot_be_published_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    published = publish_labels(crowd(), epsilon=1, classes=["yes", "no"])
    published.write(tmp_path / "x")
    with pytest.raises(BadInput, match="folder: .*not empty"):
        published.write(tmp_path / "x")
    with pytest.raises(BadInput, match="format: got 'xlsx'"):
        published.write(tmp_path / "y", format="xlsx")
    with pytest.raises(BadInput, match="got 'no', need one of the 2 classes: yes, maybe"):
        publish_labels(crowd(), epsilon=1, classes=["yes", "maybe"])
    tasks = crowd().frame["task"].unique().to_list()
    hidden = randomize_answers(crowd(), epsilon=1, classes=["yes", "no"], hide_tasks=True, tasks=tasks).public
    with pytest.raises(BadInput, match="without hidden tasks"):
        PublishedLabels.of(hidden)


def test_a_preview_is_for_the_operator_and_repeatable() -> None:
    preview = preview_labels(crowd(60), epsilons=[1, 8], draws=2, progress=False)
    assert preview.mark == "not private"
    first, last = preview.rows
    assert first.alpha_width is not None
    assert last.alpha_width is not None
    assert first.alpha_width > last.alpha_width > 0
    assert last.same > first.same
    assert last.alpha == pytest.approx(preview.alpha, abs=0.05)
    assert "in effect not protected" in last.person
    again = preview_labels(crowd(60), epsilons=[8], draws=2, seed=1_000_003, progress=False)
    assert again.rows == (last,)  # the same draws
    assert [len(row) for row in preview.cells()] == [7, 7, 7]


def test_a_study_draws_once_and_keeps_previews_private(tmp_path: Path) -> None:
    crowd().write(tmp_path / "answers.csv")
    file = tmp_path / "study.toml"
    file.write_text(STUDY, encoding="utf-8")
    done = run_study(file, tmp_path / "out", confirm=lambda _: True)
    public, private = done.folder / "public", done.folder / "private"
    (labels,) = public.rglob("labels.csv")
    drawn, spent = labels.read_bytes(), spending(tmp_path)
    assert len(list(public.rglob("README.md"))) == 1
    assert len(list(public.rglob("agreement.json"))) == 1  # of the published labels, not of the answers as given
    assert len(list(private.rglob("agreement.json"))) == 1
    assert not list(public.rglob("preview*"))
    assert json.loads(next(private.rglob("preview.json")).read_text())["mark"] == "not private"
    assert not any(MARK in path.read_text(errors="replace") for path in public.rglob("*") if path.is_file())
    labels.unlink()
    run_study(file, tmp_path / "out", confirm=lambda _: True)
    assert labels.read_bytes() == drawn
    assert spending(tmp_path) == spent


def spending(folder: Path) -> Any:
    """What is left in the study's account."""
    with Ledger.open(str(folder / "budget.db"), create=False) as ledger:
        return ledger.account("main").exact_remaining
