"""Randomized response: thresholds that keep their promise exactly, and a kernel that keeps to the thresholds."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from peerveil import BadInput, Randomness, Response
from peerveil.audit import exact_loss
from peerveil.core.exact import exp_bounds
from peerveil.core.randomness.response import _thresholds
from peerveil.core.randomness.source import SimulationRandomness


class Dictated(SimulationRandomness):  # type: ignore[misc]  # a lane whose words are given, to enumerate them all
    def __init__(self, words: NDArray[Any]) -> None:
        super().__init__(0)
        self.words = words

    def _bits(self, count: int, bits: int) -> NDArray[Any]:
        taken, self.words = self.words[:count], self.words[count:]
        return taken


@given(
    st.fractions(min_value=Fraction(1, 10**6), max_value=60),
    st.integers(2, 5000),
)
@settings(max_examples=300)
def test_the_exact_loss_never_exceeds_epsilon(epsilon: Fraction, k: int) -> None:
    response = Response(epsilon, k)
    assert response.keep_below + (k - 1) * response.share == 2**response.bits
    ratio = Fraction(response.keep_below, response.share)
    assert 1 < ratio <= exp_bounds(epsilon)[0]
    assert response.loss <= response.epsilon


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1, 2, 4, 8, 16])
@pytest.mark.parametrize("k", [2, 3, 10, 1000])
def test_hardly_anything_of_epsilon_is_given_away(epsilon: float, k: int) -> None:
    response = Response(epsilon, k)
    assert response.loss >= epsilon * (1 - 2e-6)
    loss = exact_loss(response.probabilities(0), response.probabilities(1))
    assert loss.within(epsilon)
    assert loss.ratio == Fraction(response.keep_below, response.share)


def test_thresholds_off_by_a_fifth_are_seen() -> None:
    response = Response(1.2, 2)
    assert not exact_loss(response.probabilities(0), response.probabilities(1)).within(1)


@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.uint64])
def test_the_kernel_owns_exactly_the_shares_of_the_proof(k: int, dtype: Any) -> None:
    """Every one of 2^16 possible words is used once: the outputs must be counted by the thresholds exactly."""
    keep_below, share = _thresholds(Fraction(1), k, 16)
    response = Response(1, k)
    object.__setattr__(response, "keep_below", keep_below)
    object.__setattr__(response, "share", share)
    for answer in range(k):
        lane = Dictated(np.arange(2**16, dtype=np.uint32))
        out = lane.respond(np.full(2**16, answer, dtype=dtype), response)
        assert out.dtype == dtype
        counts = np.bincount(out.astype(int), minlength=k).tolist()
        assert counts == [keep_below if code == answer else share for code in range(k)]


@pytest.mark.parametrize(
    ("dtype", "k"), [(np.int8, 128), (np.int8, 129), (np.int8, 200), (np.uint8, 256), (np.uint8, 257), (np.uint8, 1000)]
)
def test_classes_beyond_the_range_of_the_answers_own_dtype(dtype: Any, k: int) -> None:
    """Codes that wrapped around would fall outside the classes, or pile up on a few: a false promise."""
    n = 60_000
    out = Randomness.simulation(5).respond(np.full(n, 5, dtype=dtype), Response("0.1", k))
    assert out.min() >= 0
    counts = np.bincount(out.astype(int), minlength=k)
    assert counts.size == k
    expected = n * np.array([float(p) for p in Response("0.1", k).probabilities(5)])
    assert (np.abs(counts - expected) / np.sqrt(expected)).max() < 7


@pytest.mark.parametrize("bits_from", [(1, 32), (30, 64)])
def test_the_edges_of_the_thresholds(bits_from: tuple[int, int]) -> None:
    epsilon, bits = bits_from
    response = Response(epsilon, 3)
    assert response.bits == bits
    t, q = response.keep_below, response.share
    words = np.array([0, t - 1, t, t + q - 1, t + q, 2**bits - 1], dtype=f"u{bits // 8}")
    assert Dictated(words).respond([1] * 6, response).tolist() == [1, 1, 0, 0, 2, 2]


@pytest.mark.parametrize("lane", ["secure", "simulation"])
@pytest.mark.parametrize(("epsilon", "k"), [(0.1, 2), (1, 2), (4, 2), (0.5, 3), (2, 10), (25, 4)])
def test_frequencies(lane: str, epsilon: float, k: int) -> None:
    randomness = Randomness.secure() if lane == "secure" else Randomness.simulation(11)
    response, n = Response(epsilon, k), 2_000_000
    for answer in (0, k - 1):
        counts = np.bincount(randomness.respond(np.full(n, answer), response), minlength=k)
        expected = n * np.array([float(p) for p in response.probabilities(answer)])
        errors = np.abs(counts - expected) / np.sqrt(expected + 1)
        assert errors.max() < 6
    # a lane of the wrong epsilon is seen
    if epsilon < 10:
        wrong = np.bincount(randomness.respond(np.full(n, 0), Response(epsilon * 1.3, k)), minlength=k)
        expected = n * np.array([float(p) for p in response.probabilities(0)])
        assert (np.abs(wrong - expected) / np.sqrt(expected + 1)).max() > 6


@pytest.mark.parametrize(
    ("classes", "answers"),
    [
        (["no", "yes"], ["yes", "no", "yes"]),
        ([10, 20, 30], [30, 10, 20]),
        ([False, True], [True, False, True]),
        (["a", 1, 2], ["a", 1, 2]),
        ([0.5, 1.5], [0.5, 1.5, 0.5]),
    ],
)
def test_answers_come_back_as_the_same_kind(classes: list[Any], answers: list[Any]) -> None:
    given_ = np.array(answers, dtype=object) if len({type(a) for a in answers}) > 1 else np.array(answers)
    # so large an epsilon that nothing moves (keep probability 1 - 2^-64 or so)
    out = Randomness.secure().respond(given_, Response(60, classes))
    assert out.tolist() == answers
    assert out.dtype.kind == given_.dtype.kind
    assert out.shape == given_.shape


def test_shapes_and_scalars() -> None:
    response, randomness = Response(60, 2), Randomness.secure()
    assert randomness.respond(np.zeros((3, 4), int), response).shape == (3, 4)
    assert randomness.respond(1, response).shape == ()
    assert int(randomness.respond(1, response)) == 1


@pytest.mark.parametrize(
    ("classes", "answers", "message"),
    [
        (2, [], "at least one answer"),
        (2, [0, 1, 2], r"answers\[2\]: got 2, need a whole number from 0 to 1"),
        (2, [-1], r"answers\[0\]: got -1"),
        (2, [0.5], "array of float64"),
        (3, [True], "array of bool"),
        (2, ["yes"], "whole numbers from 0 to 1"),
        (["no", "yes"], ["maybe"], r"answers\[0\]: got .*maybe.*, need one of \['no', 'yes'\]"),
        (["no", "yes"], [1], "got whole numbers, need strings, like the classes"),
        ([0, 1], [False], "got booleans, need whole numbers"),
        ([0, 1], [0, 7], r"answers\[1\]"),
        ([0.0, 1.0], [math.nan], r"answers\[0\]: got .*nan"),
        (["a", "a\0"], ["b"], r"answers\[0\]"),
        ([str(i) for i in range(500)], ["x"], r"\.\.\. 500 in all\]$"),
        (2, [[0], [0, 1]], "lists of equal length"),
        ([1, "1"], np.array([1, "1", 1.0], dtype=object), r"answers\[2\]"),
    ],
)
def test_answers_that_are_no_class_are_refused(classes: Any, answers: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Randomness.secure().respond(answers, Response(1, classes))


@pytest.mark.parametrize(
    "bad",
    [
        0,
        1,
        -3,
        True,
        2.0,
        "yes",
        [],
        ["one"],
        ["a", "a"],
        [None, 1],
        [math.nan, 1.0],
        [[1], [2]],
        None,
        2**40,
    ],
)
def test_classes_that_cannot_be(bad: Any) -> None:
    with pytest.raises(BadInput, match="^classes: got "):
        Response(1, bad)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, None, "x", True])
def test_epsilons_that_cannot_be(bad: Any) -> None:
    with pytest.raises(BadInput, match="^epsilon: got "):
        Response(bad, 2)


def test_an_epsilon_too_small_for_64_bits_is_refused_not_rounded_up() -> None:
    with pytest.raises(BadInput, match="nothing would be left"):
        Response(1e-30, 2)


def test_estimates_are_unbiased() -> None:
    response = Response("0.7", 4)
    truth = np.array([500, 300, 200, 0])
    expected = [sum(truth[a] * float(response.probabilities(a)[y]) for a in range(4)) for y in range(4)]
    assert response.unbiased(expected) == pytest.approx(truth, abs=1e-6)
    for bad in ([1, 2], ["a"] * 4, [1, 2, 3, math.nan], [-1, 2, 3, 4]):
        with pytest.raises(BadInput, match="4 counts"):
            response.unbiased(bad)
    assert Response("1e-16", 2).unbiased([600, 400])[0] == pytest.approx(2e18, rel=0.2)
    for wrong in (4, -1, "a", True):
        with pytest.raises(BadInput, match="^answer: got "):
            response.probabilities(wrong)  # type: ignore[arg-type]


def test_words() -> None:
    assert str(Response(1, 2)) == (
        "Randomized response with epsilon 1 on 2 classes: an answer is sent unchanged 73.1% of the time"
    )
    assert eval(repr(Response("1/3", ["a", "b"]))) == Response("1/3", ["a", "b"])
