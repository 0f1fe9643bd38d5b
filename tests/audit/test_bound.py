"""Certified lower bounds: valid, sharp, and for outputs of every kind."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from peerveil import BadInput, Randomness
from peerveil.audit import granularity, lower_bound

N = 200_000


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(2026)


def test_a_true_epsilon_of_one_is_found_almost_whole(rng: np.random.Generator) -> None:
    bound = lower_bound(rng.laplace(0, 1, N), rng.laplace(1, 1, N))
    assert 0.94 < bound.epsilon <= 1
    assert bound.probabilities[0] / bound.probabilities[1] == pytest.approx(math.exp(bound.epsilon))
    assert "privacy loss at least" in str(bound)


def test_twice_the_claim_is_found(rng: np.random.Generator) -> None:
    assert 1.9 < lower_bound(rng.laplace(0, 0.5, N), rng.laplace(1, 0.5, N)).epsilon <= 2


def test_the_same_samples_give_the_same_bound(rng: np.random.Generator) -> None:
    a, b = rng.laplace(0, 1, 5000), rng.laplace(1, 1, 5000)
    assert lower_bound(a, b) == lower_bound(a.tolist(), b.tolist())


def test_sorted_samples_are_no_different_in_kind(rng: np.random.Generator) -> None:
    """The split is shuffled, so that the order in which outputs are handed over does not matter."""
    same = rng.normal(size=20_000), rng.normal(size=20_000)
    assert lower_bound(np.sort(same[0]), np.sort(same[1])).epsilon < 0.3


def test_one_sided_looks_one_way_only(rng: np.random.Generator) -> None:
    wide, narrow = rng.uniform(0, 2, N), rng.uniform(0, 1, N)
    assert lower_bound(narrow, wide, one_sided=True).epsilon == pytest.approx(math.log(2), abs=0.05)
    assert lower_bound(narrow, wide, one_sided=True).epsilon <= math.log(2)
    assert lower_bound(narrow, wide).epsilon > 8  # the other way: outputs above 1 happen on one side only
    assert lower_bound(wide, narrow, one_sided=True).epsilon > 8


@pytest.mark.parametrize("as_kind", [list, np.array, lambda x: np.array(x, dtype=object)])
def test_categories(rng: np.random.Generator, as_kind: Any) -> None:
    names = np.array(["accept", "reject", "discuss"])
    a = names[rng.choice(3, N, p=[0.6, 0.3, 0.1])].tolist()
    b = names[rng.choice(3, N, p=[0.2, 0.5, 0.3])].tolist()
    bound = lower_bound(as_kind(a), as_kind(b))
    assert math.log(3) - 0.06 < bound.epsilon <= math.log(3)


def test_booleans_tuples_and_ragged_outputs(rng: np.random.Generator) -> None:
    a, b = rng.random(20_000) < 0.75, rng.random(20_000) < 0.25
    assert math.log(3) - 0.15 < lower_bound(a, b).epsilon <= math.log(3)
    ragged: Any = [[("x",) * (1 + int(hit)) for hit in side] for side in (a, b)]
    assert math.log(3) - 0.15 < lower_bound(*ragged).epsilon <= math.log(3)


@pytest.mark.parametrize("kind", [bool, str, object])
def test_one_leaking_column_among_many(rng: np.random.Generator, kind: Any) -> None:
    a, b = rng.random((4000, 30)) < 0.5, rng.random((4000, 30)) < 0.5
    a[:, 0], b[:, 0] = True, False
    assert lower_bound(a.astype(kind), b.astype(kind)).epsilon > 5


def test_outputs_that_doubles_cannot_tell_apart() -> None:
    assert lower_bound(np.full(2000, 2**60), np.full(2000, 2**60 + 1)).epsilon > 4
    assert lower_bound(np.full(2000, 2**63, np.uint64), np.full(2000, 2**63 + 1, np.uint64)).epsilon > 4
    assert lower_bound(np.full(2000, 2**60), np.full(2000, 2**60 + 256)).epsilon > 4
    mixed: Any = [1, "1"] * 500
    assert lower_bound(mixed, ["1", "1"] * 500).epsilon > 3


def test_an_event_that_looks_at_its_neighbors_is_refused(rng: np.random.Generator) -> None:
    """Such an event is no set of outputs; it would be certified falsely in a third of all runs."""
    same = rng.normal(size=4000), rng.normal(size=4000)
    for event in (np.cumsum, lambda z: np.full(len(z), z[0] > 0), lambda z: z > z.mean()):
        with pytest.raises(BadInput, match="^event: got .*judges each output by itself"):
            lower_bound(*same, event=event)
    with pytest.raises(BadInput, match="^event: got 3"):
        lower_bound(*same, event=3)  # type: ignore[arg-type]
    assert lower_bound(*same, event=lambda z: np.full(len(z), np.nan)).epsilon == 0


def test_an_outcome_that_only_one_side_has(rng: np.random.Generator) -> None:
    a, b = rng.laplace(0, 1, N), rng.laplace(0, 1, N)
    a[rng.random(N) < 0.001] = 0.125  # an atom that no threshold shows
    bound = lower_bound(a, b)
    assert bound.epsilon > 2
    assert "learned" in bound.event


def test_nan_as_an_output_is_an_outcome(rng: np.random.Generator) -> None:
    a, b = rng.normal(size=4000), rng.normal(size=4000)
    a[::10] = np.nan
    assert lower_bound(a, b).epsilon > 3


@pytest.mark.parametrize(
    "leak",
    ["one coordinate", "many coordinates", "difference", "covariance"],
    ids=lambda s: s.replace(" ", "-"),
)
def test_vectors(rng: np.random.Generator, leak: str) -> None:
    n, d = 60_000, 6
    a, b = rng.laplace(0, 1, (n, d)), rng.laplace(0, 1, (n, d))
    if leak == "one coordinate":
        b[:, 3] += 2
    elif leak == "many coordinates":
        b += 0.5  # true loss 3
    elif leak == "difference":
        a[:, 1], b[:, 1] = a[:, 0] + 0.01 * a[:, 2], b[:, 0] + 0.05 + 0.01 * b[:, 2]
    else:
        a[:, 1] = a[:, 0] + 0.5 * a[:, 2]
    found = lower_bound(a, b).epsilon
    assert found > 1.2
    if leak == "one coordinate":
        assert found <= 2
    if leak == "many coordinates":
        assert found <= 3


def test_a_chosen_event(rng: np.random.Generator) -> None:
    a, b = rng.laplace(0, 1, (20_000, 40)), rng.laplace(0, 1, (20_000, 40))
    b[:, 7] *= -1
    b[:, 11] = np.abs(b[:, 11])
    chosen = lower_bound(a, b, event=lambda x: x[:, 11] < 0)
    assert chosen.epsilon > 5
    scored = lower_bound(a, b, event=lambda x: x[:, 11])
    assert scored.epsilon > 5
    with pytest.raises(BadInput, match="^event: got a result of"):
        lower_bound(a, b, event=lambda x: x)


def test_the_last_bits_betray_noise_in_floating_point() -> None:
    """At a true epsilon of 1, NumPy's Laplace shows a loss of 6 and more to those who read the bits (Mironov 2012)."""
    zeros, ones = np.zeros(15_000), np.ones(15_000)
    naive, secure = Randomness.simulation(1), Randomness.secure()
    found = {
        name: lower_bound(r.laplace(zeros, scale=1), r.laplace(ones, scale=1), 0.999999, event=granularity).epsilon
        for name, r in (("naive", naive), ("secure", secure))
    }
    assert found["naive"] > 4
    assert found["secure"] <= 1
    assert lower_bound(naive.laplace(zeros, scale=1), naive.laplace(ones, scale=1)).epsilon <= 1


def test_nothing_is_found_where_nothing_is(rng: np.random.Generator) -> None:
    assert lower_bound(np.ones(100), np.ones(100)).epsilon == 0
    assert lower_bound(["a"] * 50, ["a"] * 50).epsilon == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["numbers", "categories", "vectors"])
def test_the_certificate_holds_as_often_as_it_says(kind: str) -> None:
    """At confidence 0.9 over 2,000 audits of a true loss of 1, at most 10% (and 5 standard errors) may exceed it."""
    rng = np.random.default_rng(7)
    runs, n, exceeded = 2000, 400, 0
    for _ in range(runs):
        if kind == "numbers":
            a, b = rng.laplace(0, 1, n), rng.laplace(1, 1, n)
        elif kind == "categories":
            p = math.e / (1 + math.e)
            a, b = (rng.random(n) < p).astype(str), (rng.random(n) < 1 - p).astype(str)
        else:
            a, b = rng.laplace(0, 1, (n, 2)), rng.laplace(0.5, 1, (n, 2))
        exceeded += lower_bound(a, b, 0.9).epsilon > 1
    assert exceeded <= 0.1 * runs + 5 * math.sqrt(0.1 * 0.9 * runs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0] * 10, [1.0] * 100), "^sample_a: got 10 outputs, need at least 40"),
        (([1.0] * 100, []), "^sample_b: got "),
        (([1.0] * 100, ["a"] * 100), "^sample_b: got categories, need numbers"),
        ((np.zeros((50, 2)), np.zeros((50, 3))), "^sample_b: got shape .50, 3."),
        ((np.full((50, 2), np.nan), np.zeros((50, 2))), "vectors with NaN"),
        ((np.zeros((50, 2, 2)), np.zeros((50, 2, 2))), "^sample_a: got an array"),
        (([1.0] * 50, [1.0] * 50, True), "^confidence: got True"),
        (([1.0] * 50, [1.0] * 50, 1.0), "^confidence: got 1.0"),
        (([1.0] * 50, [1.0] * 50, 0), "^confidence: got 0"),
        (([1.0] * 50, [1.0] * 50, math.nan), "^confidence: got nan"),
        (([1.0] * 50, [1.0] * 50, "high"), "^confidence: got 'high'"),
        (([1.0] * 50, [1.0] * 50, 0.9, "a"), "^one_sided: got 'a'"),
        (([{1}] * 50, [{1}] * 50), "^sample_a: got .1., need outputs that can be compared"),
        ((5, 6), "^sample_a: got "),
    ],
)
def test_bad_input(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        lower_bound(*arguments)
