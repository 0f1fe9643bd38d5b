"""Joint noise for counts: its exact law, the certified sampling behind it, and its privacy loss by enumeration."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from peerveil import BadInput, Randomness
from peerveil.core.randomness import MaxNormNoise, radius
from peerveil.core.randomness.max_norm import MOST_COUNTS, _Cube
from peerveil.core.randomness.radius import cumulative_bounds

Ints = NDArray[np.int64]
LEVEL = 1e-7  # a false alarm in one of ten million runs


def volumes(size: int, epsilon: float) -> NDArray[np.float64]:
    """How many vectors have each size of the largest entry: (2m + 1)^size - (2m - 1)^size."""
    most = math.ceil((size + 60 + 12 * math.sqrt(size)) / epsilon) + 10
    return np.array([float((2 * m + 1) ** size - max(2 * m - 1, 0) ** size) for m in range(most)])


def weight_of_largest(size: int, epsilon: float) -> NDArray[np.float64]:
    """The law of max abs(z_k), up to a constant: the number of vectors times e^(-epsilon m)."""
    volume = volumes(size, epsilon)
    return np.asarray(volume * np.exp(-epsilon * np.arange(volume.size)))


def law_of_largest(size: int, epsilon: float) -> NDArray[np.float64]:
    weight = weight_of_largest(size, epsilon)
    return np.asarray(weight / weight.sum())


def law_of_one(size: int, epsilon: float, reach: int) -> NDArray[np.float64]:
    """P(z_1 = x) for abs(x) <= reach, by adding over the largest of the other entries."""
    volume = volumes(size - 1, epsilon) if size > 1 else np.ones(1)
    rest, values = np.arange(volume.size), np.abs(np.arange(-reach, reach + 1))
    joint = volume * np.exp(-epsilon * np.maximum(rest, values[:, None]))
    return np.asarray(joint.sum(axis=1) / weight_of_largest(size, epsilon).sum())


def pooled_pvalue(observed: Ints, probabilities: NDArray[np.float64]) -> float:
    """Chi-square of counts, with the remainder and rare outcomes in one cell."""
    total = observed.sum()
    often = probabilities * total >= 10
    expected = np.append(probabilities[often] * total, max(total * (1 - probabilities[often].sum()), 1e-9))
    counts = np.append(observed[: probabilities.size][often], total - observed[: probabilities.size][often].sum())
    if expected[-1] < 5:
        counts, expected = counts[:-1], expected[:-1] * counts[:-1].sum() / expected[:-1].sum()
    return float(stats.chisquare(counts, expected).pvalue)


def fits(noise: Ints, epsilon: float) -> bool:
    """Whether the largest entry and every single coordinate have their exact laws."""
    count, size = noise.shape
    largest = np.bincount(np.abs(noise).max(axis=1))
    law = law_of_largest(size, epsilon)
    largest = np.pad(largest, (0, max(0, law.size - largest.size)))
    reach = int(4 * (size + 1) / epsilon) + 2
    one = law_of_one(size, epsilon, reach)
    clipped = np.clip(noise, -reach - 1, reach + 1) + reach + 1
    pvalues = [pooled_pvalue(largest, law)]
    for column in clipped.T:
        counts = np.bincount(column, minlength=2 * reach + 3)
        inside = np.append(counts[1:-1], count - counts[1:-1].sum())
        pvalues.append(pooled_pvalue(inside, one))
    return min(pvalues) > LEVEL


@pytest.mark.parametrize("lane", ["secure", "simulation"])
@pytest.mark.parametrize(("size", "epsilon"), [(1, 1.0), (2, 0.3), (4, 1.0), (12, 2.0), (20, 0.7)])
def test_noise_has_its_exact_law_and_one_30_percent_off_is_rejected(lane: str, size: int, epsilon: float) -> None:
    randomness = Randomness.secure() if lane == "secure" else Randomness.simulation(11)
    assert fits(MaxNormNoise(size, epsilon).draw(randomness, 8000), epsilon)
    for wrong in (0.7, 1.3):
        assert not fits(MaxNormNoise(size, round(wrong * epsilon, 6)).draw(randomness, 8000), epsilon)


def test_the_law_of_a_vector_is_exact() -> None:
    """Every vector of two small numbers comes as often as the formula says."""
    noise = MaxNormNoise(2, 1).draw(Randomness.simulation(4), 40_000)
    total = weight_of_largest(2, 1.0).sum()
    for z in product(range(-2, 3), repeat=2):
        share = np.exp(-max(map(abs, z))) / total
        assert abs((noise == z).all(axis=1).mean() - share) < 5 * math.sqrt(share / 40_000)


@pytest.mark.parametrize(("size", "epsilon"), [(1, "1"), (3, "0.1"), (8, "2"), (20, "1"), (40, "0.5")])
@pytest.mark.parametrize("level", [0, 1])
def test_certified_bounds_are_bounds_and_tight(size: int, epsilon: str, level: int) -> None:
    bits = radius._BITS << level
    lows, highs = cumulative_bounds(_Cube(size), Fraction(epsilon), level)
    with localcontext() as context:
        context.prec = 260
        q = (-Decimal(epsilon)).exp()
        weights = [Decimal(2 * j + 1) ** size * q**j for j in range(3 * len(lows))]
        total, partial = sum(weights), Decimal(0)
        for low, high, weight in zip(lows, highs, weights, strict=False):
            partial += weight
            scaled = partial / total * 2**bits
            assert low <= scaled <= high
            assert high - low <= 1 << 40
    assert highs[-1] == 1 << bits
    assert lows[-1] >= (1 << bits) - (1 << 40)


def test_more_bits_are_drawn_where_the_first_do_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    cumulative_bounds.cache_clear()
    monkeypatch.setattr(radius, "_BITS", 3)
    levels = []

    def watched(body: _Cube, epsilon: Fraction, level: int) -> tuple[list[int], list[int]]:
        levels.append(level)
        return cumulative_bounds(body, epsilon, level)

    monkeypatch.setattr(radius, "cumulative_bounds", watched)
    noise = MaxNormNoise(3, 1).draw(Randomness.simulation(5), 6000)
    cumulative_bounds.cache_clear()  # these bounds have too few bits for anybody else
    assert max(levels) >= 3
    assert fits(noise, 1.0)


def test_whoever_stops_at_the_first_bits_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault of the test above: the first 3 bits decide."""
    cumulative_bounds.cache_clear()
    monkeypatch.setattr(radius, "_BITS", 3)

    def careless(body: _Cube, epsilon: Fraction, level: int) -> tuple[list[int], list[int]]:
        lows, _ = cumulative_bounds(body, epsilon, level)
        return [*lows, 1 << 3], lows

    monkeypatch.setattr(radius, "cumulative_bounds", careless)
    noise = MaxNormNoise(3, 1).draw(Randomness.simulation(5), 6000)
    cumulative_bounds.cache_clear()
    assert not fits(noise, 1.0)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_privacy_loss_is_at_most_epsilon_and_reaches_it(size: int, epsilon: float) -> None:
    """All neighboring counts (changes of -1, 0 or 1 each) against all outputs on a grid."""
    outputs = np.array(list(product(range(-6, 7), repeat=size)))
    log_mass = -epsilon * np.abs(outputs).max(axis=1)
    losses = {
        change: (log_mass + epsilon * np.abs(outputs - change).max(axis=1)).max()
        for change in product((-1, 0, 1), repeat=size)
    }
    assert max(losses.values()) == pytest.approx(epsilon, abs=1e-12)
    assert all(loss == pytest.approx(epsilon if any(change) else 0, abs=1e-12) for change, loss in losses.items())
    # the fault: a sensitivity of 2
    twice = (log_mass + epsilon * np.abs(outputs - 2).max(axis=1)).max()
    assert twice == pytest.approx(2 * epsilon)


@pytest.mark.parametrize(("size", "epsilon"), [(1, 1), (4, 1), (10, "1/3"), (20, 2)])
def test_variance_and_half_width_follow_from_the_law(size: int, epsilon: Any) -> None:
    noise, value = MaxNormNoise(size, epsilon), float(Fraction(epsilon))
    law = np.cumsum(law_of_largest(size, value))
    for level in (0.5, 0.95, 0.999):
        assert noise.half_width(level) == int(np.searchsorted(law, level))
    drawn = noise.draw(Randomness.simulation(2), 8000).astype(float)
    square = (drawn**2).mean(axis=1)
    assert abs(square.mean() - noise.variance) < 5 * square.std() / math.sqrt(8000)
    assert noise.radii.sum() == pytest.approx(1)


def test_equal_seeds_give_equal_noise() -> None:
    first, second = (MaxNormNoise(5, 1).draw(Randomness.simulation(3), 4) for _ in range(2))
    assert first.tolist() == second.tolist()
    assert first.dtype == np.int64


@pytest.mark.parametrize(
    ("size", "epsilon", "message"),
    [
        (0, 1, "^size: got 0"),
        (MOST_COUNTS + 1, 1, "^size: got 201"),
        (1.5, 1, "^size"),
        (2, 0, "^epsilon: got 0"),
        (2, -1, "^epsilon: got -1"),
        (2, math.nan, "^epsilon: got nan"),
        (2, math.inf, "^epsilon: got inf"),
        (2, "0.0009", "^epsilon: got '0.0009'.*at least 0.001"),
    ],
)
def test_bad_input(size: Any, epsilon: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        MaxNormNoise(size, epsilon)


@pytest.mark.parametrize("epsilon", ["1/1000", 50, 1000])
def test_extreme_epsilons_draw(epsilon: Any) -> None:
    noise = MaxNormNoise(6, epsilon)
    drawn = noise.draw(Randomness.simulation(1), 3)
    assert np.abs(drawn).max() <= noise.half_width(0.999999)
    with pytest.raises(BadInput, match="level"):
        noise.half_width(1.0)
