"""Whether reports look randomized: sound for randomized ones, found out for raw answers, and a promise that says "if"."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

from peerveil import BadInput, Ledger, Randomness
from peerveil.data import Labels
from peerveil.truth import NotRandomized, PrivateDawidSkene, PrivateMajority, randomize_answers, simulate_crowd
from peerveil.truth.guarantee import LARGEST_Z, _divergence, agreement, device_guarantee, doubt, largest_agreement
from peerveil.truth.wire import read_answers, write_answers


@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_bound_is_the_largest_agreement_over_all_pairs_of_answers(k: int) -> None:
    keep = math.e / (math.e + k - 1)
    matrix = np.full((k, k), (1 - keep) / (k - 1))
    np.fill_diagonal(matrix, keep)
    assert largest_agreement(1.0, k) == pytest.approx((matrix @ matrix.T).max(), abs=1e-12)


def test_agreement_is_that_of_all_pairs() -> None:
    votes = np.array([[3.0, 1.0, 0.0], [0.0, 0.0, 1.0], [2.0, 2.0, 1.0]])
    first, second = 3 / 6, 2 / 10  # agreeing pairs among 4 and among 5 reports, each with two disjoint pairs
    found, pairs = agreement(votes)
    assert found == pytest.approx((2 * first + 2 * second) / 4)
    assert pairs == 4
    assert agreement(np.array([[1.0, 0.0]])) == (0.0, 0)
    assert doubt(np.array([[1.0, 0.0]]), 1.0) is None
    assert doubt(votes, None) is None


def test_chernoff_bounds_the_worst_case_exactly() -> None:
    """All answers equal is the worst case. With three reports a task the whole law can be enumerated."""
    keep = math.e / (math.e + 1)
    alike = keep**3 + (1 - keep) ** 3  # all three agree: U = 1, otherwise U = 1/3
    bound, tasks = largest_agreement(1.0, 2), 200
    for some in range(tasks + 1):
        u = (some + (tasks - some) / 3) / tasks
        if u > bound:
            tail = sum(math.comb(tasks, i) * alike**i * (1 - alike) ** (tasks - i) for i in range(some, tasks + 1))
            assert tail <= math.exp(-tasks * _divergence(u, bound)) * (1 + 1e-9)


@pytest.mark.parametrize(("k", "epsilon"), [(2, 1.0), (2, 3.0), (4, 2.0)])
def test_randomized_reports_of_perfect_workers_are_never_doubted(k: int, epsilon: float) -> None:
    """500 sets of the reports that agree most; a false alarm is rarer than one in 60 million sets."""
    rng = np.random.default_rng(1)
    keep = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    law = [keep] + [(1 - keep) / (k - 1)] * (k - 1)
    largest = 0.0
    for _ in range(500):
        votes = rng.multinomial(7, law, size=100).astype(float)
        assert doubt(votes, epsilon) is None
        found, pairs = agreement(votes)
        bound = largest_agreement(epsilon, k)
        largest = max(largest, math.sqrt(2 * pairs * _divergence(found, bound)) if found > bound else 0.0)
    assert 1 < largest < LARGEST_Z  # the bound is nearly reached, so that the test is not vacuous
    half = math.exp(epsilon * 1.5) / (math.exp(epsilon * 1.5) + k - 1)
    planted = [half] + [(1 - half) / (k - 1)] * (k - 1)  # a device that draws with half as much again
    assert doubt(rng.multinomial(7, planted, size=2000).astype(float), epsilon) is not None


def test_raw_answers_get_a_condition_and_a_warning() -> None:
    crowd = simulate_crowd(tasks=200, workers=20, answers=6, ability=(9, 1), epsilon=None, seed=1)
    for estimator in (PrivateDawidSkene(epsilon=1), PrivateMajority(epsilon=1)):
        with pytest.warns(NotRandomized, match="do not look randomized at epsilon 1"):
            result = estimator.fit(crowd.answers)
        assert result.doubt is not None
        assert str(result).startswith("warning: these do not look randomized")
        assert result.to_dict()["doubt"] == result.doubt
        assert result.to_dict()["mark"] == result.mark == "not private"
        assert any(text.get_gid() == "mark" for text in result.plot().texts)
        assert "If these answers were randomized at epsilon 1 on each person's device" in str(result)
    assert PrivateDawidSkene(epsilon=None).fit(crowd.answers).guarantee.assumption is None
    with pytest.warns(NotRandomized):
        assert PrivateDawidSkene(epsilon=1, model="one-coin").fit(crowd.answers, engine="duckdb").doubt is not None


def test_reports_that_peerveil_made_keep_the_promise_without_a_condition(tmp_path: Path) -> None:
    crowd = simulate_crowd(tasks=200, workers=20, answers=6, ability=(9, 1), epsilon=1, seed=1)
    assert PrivateDawidSkene(epsilon=1).fit(crowd.randomized).doubt is None
    assert PrivateDawidSkene(epsilon=1).fit(crowd.randomized).mark is None
    sent, collected = randomize_answers(crowd.answers, epsilon=1, classes=2)
    assert sent.fit().guarantee.assumption is None
    assert read_answers(write_answers(collected, tmp_path / "reports.jsonl")).fit().public.guarantee == sent.guarantee


def test_a_conditional_promise_is_not_entered_in_a_ledger(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "b.db") as ledger:
        account = ledger.account("x", epsilon=5)
        with pytest.raises(BadInput, match="holds only if these answers were randomized"):
            account.spend(device_guarantee(1), purpose="infer", data="x", randomness=Randomness.secure())
        assert account.remaining == 5


def test_frames_are_taken_wherever_a_table_is() -> None:
    frame = pd.DataFrame({"item": [1, 1, 2], "who": ["a", "b", "a"], "said": ["yes", "no", "yes"]})
    names = {"task": "item", "worker": "who", "label": "said"}
    ours = frame.rename(columns={theirs: name for name, theirs in names.items()})
    assert len(randomize_answers(ours, epsilon=1, classes=["yes", "no"]).public.answers) == 3
    assert PrivateMajority(epsilon=1).fit(frame, columns=names).labels.size == 2
    assert PrivateDawidSkene(epsilon=1, model="one-coin").fit(frame, columns=names).labels.size == 2
    with pytest.raises(BadInput, match=r"^labels: got 3, need Labels, a file name, or a pandas or Polars frame"):
        randomize_answers(3, epsilon=1, classes=2)
    with pytest.raises(BadInput, match="have their columns already"):
        Labels.of(Labels.of(ours), columns=names)


def test_right_answers_come_in_many_shapes() -> None:
    labels = Labels(task=[1, 1, 2, 2], worker=[1, 2, 1, 2], label=[0, 0, 1, 1], truth=[0, 0, 0, 0])
    with warnings.catch_warnings():
        result = PrivateMajority(epsilon=None).fit(labels)
    known = {1: 0, 2: 0, 9: 1}
    shapes = [
        known,
        labels,
        labels.truths(),
        labels.truths().to_pandas(),
        pd.Series(known),
        list(known.items()),
    ]
    for truth in shapes:
        assert result.accuracy(truth) == (0.5, 0.5)
    for bad in ([0, 1], 3, None, pd.DataFrame({"a": [1]})):
        with pytest.raises(BadInput, match="^truth: got .* need correct answers by task"):
            result.accuracy(bad)
    with pytest.raises(BadInput, match="^truth: got correct answers to 1 other tasks"):
        result.accuracy({7: 1})


def test_a_count_of_classes_means_numbers() -> None:
    words = Labels(task=[1, 2], worker=[1, 1], label=["yes", "no"])
    with pytest.raises(BadInput, match="--classes no,yes.*2 means the labels 0 and 1"):
        randomize_answers(words, epsilon=1, classes=2)


def test_what_a_person_is_told() -> None:
    crowd = simulate_crowd(tasks=200, workers=20, answers=6, epsilon=None, seed=1)
    lane = Randomness.simulation(1)
    one = str(randomize_answers(crowd.answers, epsilon=2, classes=2, randomness=lane).public)
    assert "1,200 randomized answers, epsilon 2 each" in one
    assert "of the busiest person add up to epsilon" in one
    assert one.count("Local differential privacy") == 1
    small = str(randomize_answers(crowd.answers, epsilon="0.05", classes=2, randomness=lane).public)
    assert "a 50:50 guess between two sheets of answers is at most 9" in small
    whole, _ = randomize_answers(crowd.answers, epsilon=4, classes=2, unit="person", randomness=lane)
    assert f"At this epsilon a person sends 2 answers, and {whole.unsent} of 200 tasks get none." in str(whole)
    assert whole.unsent == 200 - whole.answers.frame["task"].n_unique() > 100
    assert str(whole).count("Local differential privacy") == 1
    assert whole.to_dict()["tasks_without_answer"] == whole.unsent
