"""Randomized answers: kinds kept, distributions right, promises exact, the wire strict."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pytest

from peerveil import BadInput, BudgetExceeded, Ledger, Randomness, Response
from peerveil.audit import exact_loss
from peerveil.data import BadTable, Labels
from peerveil.truth import randomize, randomize_answers, simulate_crowd
from peerveil.truth.models import Channel
from peerveil.truth.randomize import answered_share, answers_per_person, effective_epsilon
from peerveil.truth.wire import Client, collect, invitation, read_answers, write_answers


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (np.array([0, 1, 1, 0]), 2),
        (np.array([0, 2, 1], dtype=np.int8), 3),
        (np.array([True, False]), 2),
        (np.array([True, False]), [False, True]),
        (np.array(["a", "b"]), ["a", "b"]),
        (["a", "b", "b"], ["a", "b"]),
        ((0, 1), 2),
        ([True, False], [True, False]),
        (pl.Series("x", ["a", "b"]), ["a", "b"]),
        (pl.Series("x", [0, 1, 1]), 2),
        (pl.Series("x", [True, False]), [False, True]),
        (pd.Series(["a", "b"], index=[7, 9], name="x"), ["a", "b"]),
        (pd.Series([1, 0], name="x"), 2),
    ],
    ids=lambda v: type(v).__name__,
)
def test_the_same_kind_comes_back(labels: Any, classes: Any) -> None:
    sent = randomize(
        labels, epsilon="30", classes=classes, randomness=Randomness.simulation(1)
    )  # at epsilon 30 nothing changes
    assert type(sent) is type(labels)
    assert list(sent) == list(labels)
    if hasattr(labels, "dtype"):
        assert sent.dtype == labels.dtype
    if isinstance(labels, pd.Series):
        assert sent.index.equals(labels.index)
        assert sent.name == "x"


@pytest.mark.parametrize(
    ("labels", "epsilon", "classes", "argument"),
    [
        (["a", "z"], 1, ["a", "b"], "answers[1]"),
        ([0, 2], 1, 2, "answers[1]"),
        ([], 1, 2, "answers"),
        ([0.5], 1, 2, "answers"),
        ([0, 1], 0, 2, "epsilon"),
        ([0, 1], float("nan"), 2, "epsilon"),
        ([0, 1], None, 2, "epsilon"),
        ([0, 1], 1, 1, "classes"),
        (["a"], 1, "ab", "classes"),
        (pl.Series([0, None]), 1, 2, "values"),
        (pd.Series([0.0, None]), 1, 2, "values"),
    ],
)
def test_bad_input_is_named(labels: Any, epsilon: Any, classes: Any, argument: str) -> None:
    with pytest.raises(BadInput) as error:
        randomize(labels, epsilon=epsilon, classes=classes)
    assert error.value.argument.startswith(argument)


@pytest.mark.parametrize("k", [2, 5])
def test_reports_have_the_distribution_of_the_response(k: int) -> None:
    n, response = 200_000, Response(1, k)
    sent = randomize(np.full(n, 1), epsilon=1, classes=k, randomness=Randomness.simulation(3))
    seen = np.bincount(sent, minlength=k) / n
    want = np.full(k, response.other)
    want[1] = response.keep
    assert np.all(np.abs(seen - want) < 5 * np.sqrt(want * (1 - want) / n))
    off = Response("1.3", k)  # a scale that is 30% off is noticed
    assert abs(seen[1] - off.keep) > 5 * math.sqrt(off.keep * (1 - off.keep) / n)


def test_the_secure_lane_is_the_default() -> None:
    sent, _ = randomize_answers(Labels(task=[1, 2], worker=[1, 1], label=[0, 1]), epsilon=1, classes=2)
    assert sent.mark is None
    assert "All 2 answers of the busiest person add up to epsilon 2: a 50:50 guess" in str(sent)
    assert randomize_answers(
        Labels(task=[1], worker=[1], label=[0]), epsilon=1, classes=2, randomness=Randomness.simulation(1)
    ).public.mark == ("simulation, not private")


def test_how_many_reports_tell_most() -> None:
    """By brute force over the mutual information, computed from the channel's matrix."""

    def told(m: int, epsilon: float, k: int) -> float:
        matrix = Channel.of(epsilon / m, k).matrix / k
        return float(m * (matrix * np.log(matrix / (matrix.sum(0) / k * 1.0))).sum())

    for epsilon in (0.3, 1, 3, 8, 20):
        for k in (2, 4):
            best = max(range(1, 31), key=lambda m: told(m, epsilon, k))
            assert answers_per_person(epsilon=epsilon, answers=30, classes=k) == best
    assert answers_per_person(epsilon=20, answers=3, classes=2) == 3  # never more than there are answers
    with pytest.raises(BadInput):
        answers_per_person(epsilon=1, answers=0, classes=2)


def test_a_person_never_costs_more_than_epsilon() -> None:
    """All sheets of three answers: pick m of them without looking, report each with epsilon/m; enumerated exactly."""
    for budget, m in ((Fraction(1), 1), (Fraction(8), 2)):
        response = Response(budget / m, 2)

        def outputs(sheet: tuple[int, ...], m: int = m, response: Response = response) -> dict[Any, Fraction]:
            found: dict[Any, Fraction] = {}
            picks = list(combinations(range(3), m))
            for pick in picks:
                for bits in np.ndindex(*(2,) * m):
                    chance = Fraction(1, len(picks))
                    for place, bit in zip(pick, bits, strict=True):
                        chance *= response.probabilities(sheet[place])[bit]
                    found[pick, bits] = found.get((pick, bits), Fraction(0)) + chance
            return found

        loss = exact_loss(outputs((0, 0, 0)), outputs((1, 1, 1)))
        assert loss.within(budget)
        assert not loss.within(budget * Fraction(99, 100))


def test_a_task_that_was_answered_twice_costs_twice() -> None:
    """Erratum to Definition 3: somebody who changes their mind changes both reports."""
    answers = Labels(task=[1, 1, 2], worker=["ann", "ann", "bo"], label=[0, 0, 1])
    sent, _ = randomize_answers(answers, epsilon=1, classes=2, randomness=Randomness.simulation(1))
    assert sent.guarantee.epsilon == 2
    assert "answered up to 2 times" in str(sent.guarantee)
    person, _ = randomize_answers(answers, epsilon=1, classes=2, unit="person", randomness=Randomness.simulation(1))
    assert person.guarantee.epsilon == 1


def test_per_person_sends_the_few_that_the_budget_allows() -> None:
    crowd = simulate_crowd(tasks=60, workers=8, answers=4, epsilon=None, seed=2)
    sent, collected = randomize_answers(
        crowd.answers, epsilon=8, classes=2, unit="person", randomness=Randomness.simulation(4)
    )
    each = sent.answers.frame.group_by("worker").len()["len"]
    load = int(np.bincount(crowd.answers.numbered("worker")[0]).max())
    m = answers_per_person(epsilon=8, answers=load, classes=2)
    assert set(each) == {m}
    assert sent.response.exact_epsilon == Fraction(8, m)
    assert sent.guarantee.epsilon == 8
    assert sent.person_guarantee == sent.guarantee
    asked = crowd.answers.frame.select("task", "worker")
    assert collected.answers.frame.select("task", "worker").join(asked, on=["task", "worker"], how="anti").height == 0
    with pytest.raises(BadInput, match="somebody gave so many"):
        randomize_answers(crowd.answers, epsilon=8, classes=2, unit="person", most=2)


def test_hidden_tasks_look_alike_and_can_still_be_read() -> None:
    crowd = simulate_crowd(tasks=300, workers=30, answers=12, epsilon=None, seed=5)
    tasks = list(crowd.truth)
    sent, _ = randomize_answers(
        crowd.answers, epsilon=3, classes=2, hide_tasks=True, tasks=tasks, randomness=Randomness.simulation(6)
    )
    assert len(sent.answers) == 300 * 30  # everybody reports on everything
    assert sent.missing == -1
    assert "that there is none" in sent.guarantee.unit
    share = answered_share(sent.answers, sent.response, sent.missing)
    assert abs(share - 12 / 30) < 5 * 0.5 / math.sqrt(9000) / (sent.response.keep - sent.response.other)
    result = sent.fit()
    assert result.accuracy(crowd.truth)[0] > 0.75
    assert set(result.labels.tolist()) <= {0, 1}
    assert result.guarantee == sent.guarantee
    with pytest.raises(BadInput, match="public list"):
        randomize_answers(crowd.answers, epsilon=1, classes=2, hide_tasks=True)
    with pytest.raises(BadInput, match="third value"):
        randomize_answers(
            {"task": [1], "worker": [1], "label": [True]}, epsilon=1, classes=[False, True], hide_tasks=True, tasks=[1]
        )


def test_the_effective_epsilon_is_that_of_the_kept_reports() -> None:
    """P[class | report is a class], from the k+1 class response, is a k-class response of that epsilon."""
    epsilon, s, k = 1.4, 0.3, 3
    full = Channel.of(epsilon, k + 1)
    same, other = s * full.keep + (1 - s) * full.other, full.other
    kept = Channel.of(effective_epsilon(epsilon, s), k)
    total = same + (k - 1) * other
    assert math.isclose(kept.keep, same / total, rel_tol=1e-12)
    assert math.isclose(kept.other, other / total, rel_tol=1e-12)


def test_an_impossible_answer_costs_nothing(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "b.db") as ledger:
        account = ledger.account("study", epsilon=1)
        labels = Labels(task=[1, 2], worker=["ann", "bo"], label=["cat", "cow"])
        with pytest.raises(BadTable, match="'cow'"):
            randomize_answers(labels, epsilon=1, classes=["cat", "dog"], account=account)
        assert account.remaining == 1
        good = Labels(task=[1, 2], worker=["ann", "bo"], label=["cat", "dog"])
        randomize_answers(good, epsilon=1, classes=["cat", "dog"], account=account)
        with pytest.raises(BudgetExceeded):
            randomize_answers(good, epsilon=1, classes=["cat", "dog"], account=account)


def test_the_client_sends_what_the_response_says() -> None:
    """Every threshold and its neighbors: the client and Response agree on all of them."""
    for k in (2, 3):
        response = Response("1/2", k)
        places = [0, response.keep_below - 1]
        for i in range(k - 1):
            first = response.keep_below + i * response.share
            places += [first, first + response.share - 1]
        for answer in range(k):
            others = [c for c in range(k) if c != answer]
            want = [answer, answer] + [c for c in others for _ in range(2)]
            for place, expected in zip(places, want, strict=True):
                client = Client(invitation(epsilon="1/2", classes=k), worker="w", bits=lambda _, place=place: place)  # type: ignore[misc]
                assert json.loads(client.randomize("t", answer))["label"] == expected


def test_the_client_refuses_a_dishonest_invitation() -> None:
    honest = json.loads(invitation(epsilon=1, classes=["no", "yes"]))
    Client(honest)
    loose = json.loads(invitation(epsilon=2, classes=["no", "yes"]))
    for lie in (
        {**honest, "response": loose["response"]},  # thresholds of a larger epsilon
        {**honest, "response": {**honest["response"], "share": honest["response"]["share"] - 1}},
        {**honest, "classes": ["no", "yes", "maybe"]},
        {**honest, "classes": ["no", "no"]},
        {**honest, "epsilon": "0"},
        {**honest, "format": "other/1"},
        {},
    ):
        with pytest.raises(BadInput):
            Client(lie)
    for text in ("", "[]", "nonsense", "{"):
        with pytest.raises(BadInput):
            Client(text)


def test_the_client_keeps_its_first_report() -> None:
    drawn: list[int] = []

    def bits(width: int) -> int:
        drawn.append(width)
        return (1 << width) - 1

    client = Client(invitation(epsilon=1, classes=["no", "yes"]), worker="ann", bits=bits)
    first = client.randomize(7, "yes")
    assert client.randomize(7, "no") == first
    assert len(drawn) == 1
    assert json.loads(first) == {"format": "peerveil-truth/1", "task": 7, "worker": "ann", "label": "no"}
    with pytest.raises(BadInput, match="answer"):
        client.randomize(8, True)


def test_over_the_wire_and_back(tmp_path: Path) -> None:
    asked = invitation(epsilon=2, classes=["no", "yes"])
    lines = [Client(asked, worker=w).randomize(t, "yes") for w in range(5) for t in range(3)]
    found = collect(asked, [*lines, ""])
    assert len(found.answers) == 15
    assert found.fit(model="one-coin").public.labels.size == 3
    crowd = simulate_crowd(tasks=20, workers=5, answers=3, seed=1)
    sent, collected = randomize_answers(crowd.answers, epsilon="1/3", classes=2, randomness=Randomness.simulation(1))
    back = read_answers(write_answers(collected, tmp_path / "r.jsonl"))
    assert back.answers == collected.answers
    assert back.guarantee == sent.guarantee
    assert back.guarantee.simulated
    assert back.response == sent.response


@pytest.mark.parametrize(
    "line",
    [
        "x",
        "[]",
        '{"task": 1}',
        '{"format": "peerveil-truth/1", "task": 1, "worker": 2, "label": 7}',
        '{"format": "peerveil-truth/1", "task": 1, "worker": 2, "label": true}',
        '{"format": "peerveil-truth/1", "task": 1, "worker": 2, "label": "' + "x" * 20_000 + '"}',
    ],
)
def test_a_line_that_is_no_report_is_refused(line: str) -> None:
    with pytest.raises(BadInput, match="line 2"):
        collect(
            invitation(epsilon=1, classes=2),
            ['{"format": "peerveil-truth/1", "task": 1, "worker": 2, "label": 1}', line],
        )
