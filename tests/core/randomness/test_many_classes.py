"""Responses for many classes, ordered classes and bounded numbers: exact probabilities, draws, and what is refused."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest

from peerveil import BadInput, Randomness
from peerveil.audit import exact_loss
from peerveil.core.exact import exp_bounds
from peerveil.core.randomness import NumberResponse, OrderedResponse, Response, SubsetResponse, best_response
from peerveil.core.randomness.subsets import subset_size

SETTINGS = [(k, epsilon) for k in (3, 4, 7) for epsilon in ("1/100", "1/2", "1", "3", "20")]


@pytest.mark.parametrize(("k", "epsilon"), SETTINGS)
def test_subsets_lose_at_most_epsilon_exactly(k: int, epsilon: str) -> None:
    for size in range(2, k):
        response = SubsetResponse(epsilon, k, size=size)
        reports = list(combinations(range(k), size))
        rows = [{report: response.probability(report, answer) for report in reports} for answer in range(k)]
        assert all(sum(row.values()) == 1 for row in rows)
        for other in rows[1:]:
            loss = exact_loss(rows[0], other)
            assert loss.within(epsilon)
            assert not loss.within(Fraction(epsilon) * Fraction(999, 1000))  # and no budget is left unused
        inside = [sum(p for report, p in row.items() if answer in report) for answer, row in enumerate(rows)]
        assert set(inside) == {response.exact_keep}
        assert sum(p for report, p in rows[0].items() if 1 in report) == response.exact_other


def test_a_subset_threshold_one_higher_would_break_the_guarantee() -> None:
    for size in (2, 3):
        response = SubsetResponse(1, 7, size=size)
        inside, outside = response.inside_below, 2**response.bits - response.inside_below
        limit = exp_bounds(Fraction(1))[1]
        assert Fraction(inside * (7 - size), outside * size) <= limit
        assert Fraction((inside + 1) * (7 - size), (outside - 1) * size) > limit


def test_drawn_subsets_have_the_exact_probabilities() -> None:
    response, count = SubsetResponse(1, 5, size=2), 60_000
    for answer in (0, 2, 4):
        drawn = Randomness.simulation(answer).respond(np.full(count, answer), response)
        assert (drawn[:, 0] < drawn[:, 1]).all()
        for report in combinations(range(5), 2):
            p = float(response.probability(report, answer))
            share = float((drawn == report).all(axis=1).mean())
            assert abs(share - p) < 5 * math.sqrt(p * (1 - p) / count)


class Counted:
    """Words of a counter in place of random ones; notes how many numbers were asked for."""

    def __init__(self, word: int) -> None:
        self.word, self.asked = word, [0]

    def uniform_words(self, count: int, bits: int) -> Any:
        self.asked.append(bits)
        return np.full(count, self.word % 2**bits, dtype=f"u{bits // 8}")

    def integers(self, low: int, high: int, size: int) -> Any:
        self.asked.append(high - low)
        return np.full(size, low)


@pytest.mark.parametrize("response", [SubsetResponse(1, 10), OrderedResponse(1, 10)], ids=["subset", "ordered"])
def test_the_draws_asked_for_depend_on_nothing(response: SubsetResponse | OrderedResponse) -> None:
    asked = set()
    for answer in range(10):
        for word in (0, 2**32 - 1):
            source = Counted(word)
            response.draw(np.array([answer]), source)
            asked.add(tuple(source.asked))
    assert len(asked) == 1


def test_the_size_follows_from_k_and_epsilon() -> None:
    assert [subset_size(1, k) for k in (2, 3, 4, 5, 10, 20, 256, 257)] == [1, 1, 1, 2, 3, 6, 69, 1]
    assert isinstance(best_response(1, 2), Response)
    assert isinstance(best_response(4, 10), Response)
    best = best_response(1, [f"c{i}" for i in range(10)])
    assert isinstance(best, SubsetResponse)
    assert Randomness.simulation(1).respond(["c3", "c4"], best).shape == (2, 3)


@pytest.mark.parametrize(("k", "epsilon"), SETTINGS)
def test_ordered_reports_lose_at_most_epsilon_exactly(k: int, epsilon: str) -> None:
    for reach in (None, 0, 1, k):
        response = OrderedResponse(epsilon, k, reach=reach)
        rows = [dict(enumerate(response.probabilities(answer))) for answer in range(k)]
        assert all(sum(row.values()) == 1 for row in rows)
        assert all(exact_loss(first, second).within(epsilon) for first in rows for second in rows if first != second)
        floats = [[float(p) for p in row.values()] for row in rows]
        np.testing.assert_allclose(response.matrix(), floats)
        np.testing.assert_allclose(response.matrix() @ response.values, np.arange(k), atol=1e-7)


def test_ordered_draws_have_the_exact_probabilities() -> None:
    response, count = OrderedResponse(1, 6, reach=1), 60_000
    for answer in (0, 3, 5):
        drawn = np.bincount(Randomness.simulation(answer).respond(np.full(count, answer), response), minlength=8)
        p = np.array(response.probabilities(answer), dtype=float)
        assert (abs(drawn / count - p) < 5 * np.sqrt(p * (1 - p) / count)).all()


@pytest.mark.parametrize("epsilon", ["1/2", "1", "2", "4"])
def test_numbers_lose_at_most_epsilon_however_they_are_rounded(epsilon: str) -> None:
    response = NumberResponse(epsilon, low=-3, high=5)
    levels = [response.ordered.probabilities(level) for level in range(response.levels)]
    shares = [Fraction(i, 7) for i in range(8)]
    rows = [  # any rounding between two neighboring levels
        {y: (1 - share) * low[y] + share * high[y] for y in range(response.reports)}
        for low, high in pairwise(levels)
        for share in shares
    ]
    assert all(exact_loss(rows[0], row).within(epsilon) for row in rows[1:])


@pytest.mark.parametrize("epsilon", ["1/2", "2", "4"])
def test_numbers_are_unbiased(epsilon: str) -> None:
    response, count = NumberResponse(epsilon, low=-3, high=5), 50_000
    for value in (-3.0, -0.7, 1.9, 5.0):
        numbers = response.values[Randomness.simulation(7).respond(np.full(count, value), response)]
        assert abs(numbers.mean() - value) < 5 * numbers.std() / math.sqrt(count)


def test_one_bit_for_numbers_is_best_at_small_epsilon() -> None:
    assert NumberResponse("1/2", low=0, high=1).reports == 2
    assert NumberResponse(4, low=0, high=1).levels > 4


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: SubsetResponse(1, 2), "classes"),
        (lambda: SubsetResponse(1, 300), "classes"),
        (lambda: SubsetResponse(1, 5, size=5), "size"),
        (lambda: SubsetResponse(1, 5, size=1), "size"),
        (lambda: SubsetResponse(float("nan"), 5), "epsilon"),
        (lambda: SubsetResponse(1, 5, size=2).probability([1, 1], 0), "report"),
        (lambda: OrderedResponse(1, 300), "classes"),
        (lambda: OrderedResponse(1, 5, reach=6), "reach"),
        (lambda: NumberResponse(1, low=1, high=1), "high"),
        (lambda: NumberResponse(1, low=float("nan"), high=1), "low"),
        (lambda: NumberResponse(1, low=0, high=1, levels=1), "levels"),
        (lambda: Randomness.secure().respond([2.0], NumberResponse(1, low=0, high=1)), "answers"),
        (lambda: Randomness.secure().respond([float("nan")], NumberResponse(1, low=0, high=1)), "answers"),
        (lambda: Randomness.secure().respond([7], OrderedResponse(1, 5)), "answers"),
        (lambda: Randomness.secure().respond([7], SubsetResponse(1, 5)), "answers"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, argument: str) -> None:
    with pytest.raises(BadInput, match=f"^{argument}"):
        make()
