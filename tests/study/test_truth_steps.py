"""Actions of the truth module in a study: what must not be published is not, and raw answers are noticed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from peerveil.core.errors import PeerveilError
from peerveil.study import Study, run_study
from peerveil.study.new import new_study
from peerveil.truth import simulate_crowd

STUDY = """
[study]
title = "Answers"
[data.answers]
path = "answers.csv"
kind = "labels"
[[steps]]
action = "truth.compare"
data = "answers"
epsilons = [1, 4]
draws = 2
[[steps]]
action = "truth.infer"
randomized = true
data = "answers"
epsilon = 1
classes = [0, 1]
[[steps]]
action = "truth.label"
data = "answers"
classes = [0, 1]
"""


def test_a_comparison_stays_private_and_raw_answers_are_noticed(tmp_path: Path) -> None:
    simulate_crowd(tasks=100, workers=12, answers=6, ability=(20, 1), epsilon=None, seed=2).answers.write(
        tmp_path / "answers.csv"
    )
    file = tmp_path / "study.toml"
    file.write_text(STUDY, encoding="utf-8")
    done = run_study(file, tmp_path / "out", confirm=lambda _: True)
    public, private = done.folder / "public", done.folder / "private"
    assert not list(public.rglob("*compare*"))
    assert json.loads(next(private.rglob("compare.json")).read_text(encoding="utf-8"))["mark"] == "not private"
    whole, shown = (path.read_text(encoding="utf-8") for path in (done.report, public / "report.html"))
    assert "stay as they are without privacy" in whole
    assert "stay as they are without privacy" not in shown
    assert "these do not look randomized at epsilon 1" in whole
    assert not list(public.rglob("labels.csv"))  # neither of answers that were not randomized, nor of those held
    assert len(list(private.rglob("labels.csv"))) == 2
    assert "tasks labeled from" in whole
    assert "tasks labeled from" not in shown


@pytest.mark.parametrize("stated", ["", "randomized = false", 'randomized = "yes"'])
def test_an_epsilon_is_no_statement_that_answers_were_randomized(tmp_path: Path, stated: str) -> None:
    """Hard tasks and a large epsilon: nothing in these raw answers tells that they were not randomized."""
    simulate_crowd(tasks=40, workers=12, answers=4, ability=(3, 2), epsilon=None, seed=2).answers.write(
        tmp_path / "answers.csv"
    )
    file = tmp_path / "study.toml"
    step = 'randomized = true\ndata = "answers"\nepsilon = 1'
    assert step in STUDY
    file.write_text(STUDY.replace(step, f'{stated}\ndata = "answers"\nepsilon = 2'), encoding="utf-8")
    with pytest.raises(PeerveilError, match="randomized") as refused:
        run_study(file, tmp_path / "out", confirm=lambda _: True)
    assert not list((tmp_path / "out").rglob("labels.csv"))
    if "yes" not in stated:
        assert "truth.randomize" in str(refused.value)
        assert "truth.label" in str(refused.value)


def test_a_drafted_study_does_not_take_labels_for_randomized(tmp_path: Path) -> None:
    simulate_crowd(tasks=40, workers=12, answers=4, ability=(3, 2), epsilon=None, seed=2).answers.write(
        tmp_path / "answers.csv"
    )
    file = tmp_path / "study.toml"
    file.write_text(new_study(tmp_path), encoding="utf-8")
    done = [step.action.name for step in Study.read(file).steps]
    assert done == ["truth.randomize"]  # each answer is randomized, and debited, before anything is published
