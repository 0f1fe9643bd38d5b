"""Epsilon of a person is the sum over their own reports, also where a task was answered several times."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from peerveil.core.randomness import Randomness
from peerveil.data import Labels
from peerveil.papers.reproduce.truth import read_set
from peerveil.study import run_study
from peerveil.truth import PrivateDawidSkene, PrivateMajority, randomize_answers
from peerveil.truth.wire import Client, collect, invitation, read_answers, write_answers

if TYPE_CHECKING:
    from pathlib import Path

EPSILON = 2
LOADS = [5, 3, 3]  # of ann, bo and cy; the first task of ann stands there twice
STUDY = """
[study]
title = "Repeats"
[accounts.main]
epsilon = 100
[data.answers]
path = "answers.csv"
kind = "labels"
[[steps]]
action = "truth.randomize"
data = "answers"
account = "main"
epsilon = 2
classes = [0, 1]
"""


@pytest.fixture(scope="module")
def answers() -> Labels:
    tasks = [1, 1, 2, 3, 4, 1, 2, 3, 2, 3, 4]
    return Labels(task=tasks, worker=list(np.repeat(["ann", "bo", "cy"], LOADS)), label=[0, 1] * 5 + [0])


def test_a_repeated_task_is_not_counted_twice(answers: Labels, tmp_path: Path) -> None:
    """By hand: ann sent five reports of epsilon 2, the other two three each."""
    sent, collected = randomize_answers(answers, epsilon=EPSILON, classes=2, randomness=Randomness.simulation(1))
    read = read_answers(write_answers(collected, tmp_path / "reports.jsonl"))
    majority = PrivateMajority(epsilon=EPSILON).fit(sent.answers, guarantee=sent.guarantee)
    assert sent.guarantee.epsilon == 2 * EPSILON  # one task of ann: two reports
    for found in (sent, sent.fit(), read.fit().public, majority):
        assert found.person_guarantee.epsilon == 5 * EPSILON
        assert found.guarantee_of(3).epsilon == 3 * EPSILON
        assert found.person_guarantee.simulated


def test_collected_lines_are_counted_as_often_as_they_came() -> None:
    terms = invitation(epsilon=EPSILON, classes=[0, 1])
    # two devices of one person, each with a draw of its own for task 1
    lines = [Client(terms, worker="ann").randomize(task, 1) for task in (1, 1, 2)]
    found = collect(terms, lines)
    assert found.guarantee.epsilon == 2 * EPSILON
    assert found.fit(model="one-coin").public.person_guarantee.epsilon == 3 * EPSILON


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("promised", [True, False])
def test_engines_add_up_alike(answers: Labels, engine: str, promised: bool) -> None:
    sent, _ = randomize_answers(answers, epsilon=EPSILON, classes=2)
    more: dict[str, Any] = {"guarantee": sent.guarantee} if promised else {}
    result = PrivateDawidSkene(epsilon=EPSILON, model="one-coin", classes=2).fit(sent.answers, engine=engine, **more)
    assert sorted(result.loads.tolist(), reverse=True) == LOADS
    assert result.person_guarantee.epsilon == 5 * EPSILON
    assert result.guarantee_of(int(np.median(result.loads))).epsilon == 3 * EPSILON
    assert (result.person_guarantee.assumption is None) == promised
    assert "add up to epsilon 10" in str(result)


def test_hidden_answers_count_too() -> None:
    """Everybody reports on all four tasks, "no answer" included."""
    few = Labels(task=[1, 2, 3], worker=["ann", "ann", "bo"], label=[0, 1, 1])
    hidden: dict[str, Any] = {"hide_tasks": True, "tasks": [1, 2, 3, 4], "randomness": Randomness.simulation(3)}
    sent, _ = randomize_answers(few, epsilon=EPSILON, classes=2, **hidden)
    assert sent.person_guarantee.epsilon == sent.fit(model="one-coin").person_guarantee.epsilon == 4 * EPSILON


def test_the_report_counts_typical_and_busiest_in_one_unit(answers: Labels, tmp_path: Path) -> None:
    answers.write(tmp_path / "answers.csv")
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    done = run_study(tmp_path / "study.toml", tmp_path / "out", progress=False)
    page = html.unescape(re.sub(r"<[^>]+>", " ", (done.folder / "public" / "report.html").read_text(encoding="utf-8")))
    stated = {what: re.search(rf"{what}[^:]*:[^(]*\(epsilon ([\d.]+)\)", page) for what in ("a typical", "the busiest")}
    assert {what: found and float(found[1]) for what, found in stated.items()} == {"a typical": 6, "the busiest": 10}
    assert re.search(r"one task of one person, answered up to 2 times\W+weakly protected \(epsilon 4\)", page)


@pytest.mark.parametrize("repeated", ["all", "first", "last"])
def test_reports_that_are_not_used_count_too(repeated: str) -> None:
    answers = {"task": [t for t in range(8) for _ in range(3)], "worker": ["ann"] * 24, "label": [0, 1, 0] * 8}
    sent, _ = randomize_answers(answers, epsilon=1, classes=[0, 1], randomness=Randomness.simulation(1))
    assert sent.fit(model="one-coin", repeated=repeated).person_guarantee.epsilon == 24


@pytest.mark.parametrize("name", ["zencrowd_us", "adult_content2"])
def test_real_answers_with_repeats_add_up_once(name: str) -> None:
    """Tasks that somebody answered several times: the person's epsilon is that of their rows, for typical and busiest alike."""
    labels = read_set(name)
    assert labels.repeated
    answers = Labels.from_frame(labels.frame.select("task", "worker", "label"))
    loads = answers.frame["worker"].value_counts()["count"].to_numpy()
    most, often = int(loads.max()), int(answers.frame.group_by("task", "worker").len()["len"].to_numpy().max())
    sent, _ = randomize_answers(answers, epsilon=EPSILON, classes=sorted(answers.frame["label"].unique().to_list()))
    result = PrivateMajority(epsilon=EPSILON).fit(sent.answers, guarantee=sent.guarantee)
    assert sent.guarantee.epsilon == EPSILON * often
    for found in (sent, result):
        assert found.person_guarantee.epsilon == EPSILON * most
        assert str(found).count(f"All {most:,} answers of the busiest person add up to epsilon {EPSILON * most}:") == 1
    assert result.most == most
    assert result.typical == int(np.median(loads))
    assert result.guarantee_of(result.most).epsilon == EPSILON * most
