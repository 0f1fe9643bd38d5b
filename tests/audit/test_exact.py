"""Exact losses of finite distributions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerveil import BadInput
from peerveil.audit import exact_loss


def test_randomized_response_by_hand() -> None:
    loss = exact_loss([0.75, 0.25], [0.25, 0.75])
    assert loss.epsilon == pytest.approx(math.log(3))
    assert loss.epsilon >= math.log(3)
    assert loss.ratio == 3
    assert loss.within("1.0987")
    assert not loss.within("1.0986")


def test_impossible_outcomes_cost_everything_in_one_direction_only() -> None:
    some, none = {"seen": 0.5, "not": 0.5}, {"not": 1.0}
    assert exact_loss(some, none).epsilon == math.inf
    assert exact_loss(some, none, one_sided=True).epsilon == math.inf
    assert exact_loss(some, none).outcome == "seen"
    assert not exact_loss(some, none).within(1000)
    assert exact_loss(none, some, one_sided=True).ratio == 2


def test_equal_distributions_lose_nothing() -> None:
    loss = exact_loss([Fraction(1, 3)] * 3, [Fraction(1, 3)] * 3)
    assert loss.epsilon == 0
    assert loss.within("1e-9")


@given(
    st.lists(st.integers(1, 50), min_size=2, max_size=5),
    st.data(),
)
def test_it_is_the_largest_ratio_of_any_set(p_weights: list[int], data: Any) -> None:
    q_weights = data.draw(st.lists(st.integers(1, 50), min_size=len(p_weights), max_size=len(p_weights)))
    p = [Fraction(w, sum(p_weights)) for w in p_weights]
    q = [Fraction(w, sum(q_weights)) for w in q_weights]
    worst = max(
        max(a / b, b / a)
        for mask in range(1, 2 ** len(p))
        for a, b in [[sum(d[i] for i in range(len(p)) if mask >> i & 1) for d in (p, q)]]
    )
    assert exact_loss(p, q).ratio == worst
    assert exact_loss(p, q).epsilon == exact_loss(q, p).epsilon


@pytest.mark.parametrize(
    ("p", "q", "message"),
    [
        ([0.5, 0.4], [0.5, 0.5], "^p: got probabilities adding up to 0.9"),
        ([0.5, 0.5], [1.5, -0.5], r"^q\[1\]: got -0.5"),
        ([math.nan, 1], [0.5, 0.5], r"^p\[0\]: got nan"),
        ([math.inf, 1], [0.5, 0.5], r"^p\[0\]: got inf"),
        ([], [1], "adding up to 0"),
        ([1.0], [0.5, 0.5], "^q: got 2 probabilities, need 1, as many as p has"),
        (3, [1], "^p: got 3"),
        ("10", "10", "^p: got '10'"),
        ([0.5, 0.5], {"yes": 0.5, "no": 0.5}, "^q: got .*same kind as p"),
        (["a", "b"], [1], r"^p\[0\]: got 'a'"),
    ],
)
def test_what_is_no_distribution(p: Any, q: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        exact_loss(p, q)
