"""One contract for both lanes; what only one of them promises follows below."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from peerveil import BadInput, Guarantee, Randomness, laplace_scale
from peerveil.core.randomness.source import SecureRandomness

LANES = ["secure", "simulation"]
LEVEL = 1e-7  # a test of this kind gives a false alarm in one of ten million runs


@pytest.fixture(params=LANES)
def lane(request: pytest.FixtureRequest) -> Randomness:
    return Randomness.secure() if request.param == "secure" else Randomness.simulation(42)


# ---- noise --------------------------------------------------------------------------------------------------------


def laplace_fits(noise: NDArray[np.float64], scale: float) -> bool:
    """Chi-square over 40 equally likely bins, and the size of the noise."""
    counts = np.histogram(stats.laplace.cdf(noise, scale=scale), bins=40, range=(0, 1))[0]
    sized = abs(np.abs(noise).mean() / scale - 1) * math.sqrt(noise.size) < 5.4
    return bool(stats.chisquare(counts).pvalue > LEVEL and sized)


def discrete_fits(noise: NDArray[np.int64], scale: float) -> bool:
    support = np.arange(-3 * math.ceil(scale) - 3, 3 * math.ceil(scale) + 4)
    inside = stats.dlaplace.pmf(support, 1 / scale)
    counts = np.array([np.count_nonzero(noise == z) for z in support])
    observed = np.append(counts, noise.size - counts.sum())
    expected = noise.size * np.append(inside, 1 - inside.sum())
    return bool(stats.chisquare(observed, expected).pvalue > LEVEL)


@pytest.mark.parametrize("scale", [0.3, 1.0, 250.0])
def test_laplace_has_its_scale_and_one_30_percent_off_is_rejected(lane: Randomness, scale: float) -> None:
    n = 12_000
    noise = lane.laplace(np.full(n, 7.25), scale=scale) - 7.25
    assert laplace_fits(noise, scale)
    for wrong in (0.7, 1.3):
        assert not laplace_fits(lane.laplace(np.zeros(n), scale=wrong * scale), scale)


@pytest.mark.parametrize("scale", [0.5, 1.0, 6.0])
def test_discrete_laplace_has_its_scale_and_one_30_percent_off_is_rejected(lane: Randomness, scale: float) -> None:
    n = 20_000
    noise = lane.discrete_laplace(np.full(n, -3), scale=scale) + 3
    assert noise.dtype == np.int64
    assert discrete_fits(noise, scale)
    for wrong in (0.7, 1.3):
        assert not discrete_fits(lane.discrete_laplace(np.zeros(n, int), scale=wrong * scale), scale)


def test_noise_is_independent_across_entries(lane: Randomness) -> None:
    pairs = lane.laplace(np.zeros((8000, 2)), scale=1)
    assert pairs.shape == (8000, 2)
    assert abs(stats.spearmanr(pairs[:, 0], pairs[:, 1]).statistic) < 5.4 / math.sqrt(8000)


@pytest.mark.parametrize(
    ("epsilon", "sensitivity"),
    [(0.1, 1), (0.3, 1), ("1/3", 0.1), (1e-9, 12345.678), (7.7, Fraction(1, 3)), (0.7, 0.3)],
)
def test_scales_round_up(epsilon: Any, sensitivity: Any) -> None:
    scale = laplace_scale(sensitivity=sensitivity, epsilon=epsilon)
    needed = Fraction(str(sensitivity)) / Fraction(str(epsilon))
    assert Fraction(scale) >= needed
    assert scale <= float(needed) * (1 + 1e-15)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.laplace([1.0, math.nan], scale=1), r"^values\[1\]: got nan, need a finite number"),
        (lambda r: r.laplace([math.inf], scale=1), r"^values\[0\]: got inf"),
        (lambda r: r.laplace([], scale=1), "^values: got nothing"),
        (lambda r: r.laplace(["a"], scale=1), "^values: got an array of <U1, need an array of numbers"),
        (lambda r: r.laplace([True], scale=1), "^values: got an array of bool"),
        (lambda r: r.laplace([1j], scale=1), "^values: got an array of complex128"),
        (lambda r: r.laplace([2**60], scale=1), "beyond 2"),
        (lambda r: r.laplace([1.0], scale=0), "^scale: got 0"),
        (lambda r: r.laplace([1.0], scale=-1), "^scale: got -1"),
        (lambda r: r.laplace([1.0], scale=math.nan), "^scale: got nan"),
        (lambda r: r.laplace([1.0], scale=math.inf), "^scale: got inf"),
        (lambda r: r.laplace([1.0], scale="1"), "^scale: got '1'"),
        (
            lambda r: r.discrete_laplace([1.5], scale=1),
            "^values: got an array of float64, need whole numbers",
        ),
        (lambda r: r.discrete_laplace([2**63 - 1], scale=1), "beyond 2"),
        (lambda r: r.discrete_laplace(np.array([], dtype=int), scale=1), "^values: got nothing"),
        (lambda r: r.uniform(-1), "^size: got -1"),
        (lambda r: r.uniform(2.5), "^size: got 2.5"),
        (lambda r: r.integers(3, 3, 5), "^high: got 3, need a whole number above low = 3"),
        (lambda r: r.integers(0.5, 3, 5), "^low: got 0.5"),
        (lambda r: r.permutation(-2), "^n: got -2"),
        (lambda r: r.choose([0.5, 0.6]), "^probabilities: got numbers that add up to 1.1"),
        (lambda r: r.choose([1.5, -0.5]), r"^probabilities\[0\]: got 1.5"),
        (lambda r: r.choose([[0.5, 0.5]]), r"^probabilities\[0\]: got \[0.5"),
        (lambda r: r.choose([]), r"^probabilities: got \[\]"),
        (lambda r: r.choose(None), "^probabilities: got None"),
        (lambda r: r.laplace([[1.0], [1.0, 2.0]], scale=1), "^values: got .*lists of equal length"),
        (lambda r: r.laplace(np.ma.masked_array([1.0], [True]), scale=1), "^values: got a masked array"),
        (lambda r: r.laplace(np.array([1], dtype=np.longdouble), scale=1), "^values: got an array of"),
        (lambda r: r.laplace([1.0], scale=10**400), "^scale: got 1000"),
        (lambda r: r.permutation((2, 3)), r"^n: got \(2, 3\)"),
        (lambda r: r.respond([1], "x"), "^response: got 'x'"),
        (lambda r: r.stamp(None), "^guarantee: got None"),
        (lambda r: r.choose([math.nan, 1]), r"^probabilities\[0\]: got nan"),
    ],
)
def test_bad_input_is_refused_by_both(lane: Randomness, call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        call(lane)


# ---- uniforms -----------------------------------------------------------------------------------------------------


def test_uniform(lane: Randomness) -> None:
    u = lane.uniform((50_000, 2))
    assert u.shape == (50_000, 2)
    assert u.min() >= 0
    assert u.max() < 1
    assert stats.kstest(u[:, 0], "uniform").pvalue > LEVEL
    assert stats.kstest(np.sqrt(u[:, 0]), "uniform").pvalue < LEVEL  # the test can fail
    assert lane.uniform(0).shape == (0,)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-5, 2), (0, 6), (10**15, 10**15 + 3)])
def test_integers_are_uniform(lane: Randomness, low: int, high: int) -> None:
    drawn = lane.integers(low, high, 30_000)
    counts = np.bincount(drawn - low, minlength=high - low)
    assert counts.size == high - low
    if counts.size > 1:
        assert stats.chisquare(counts).pvalue > LEVEL


def test_permutations_are_uniform(lane: Randomness) -> None:
    orders = [tuple(lane.permutation(4).tolist()) for _ in range(12_000)]
    counts = [orders.count(order) for order in sorted(set(orders))]
    assert len(counts) == math.factorial(4)
    assert stats.chisquare(counts).pvalue > LEVEL
    assert lane.permutation(0).tolist() == []
    assert sorted(lane.permutation(1000).tolist()) == list(range(1000))


def test_equal_keys_are_drawn_again() -> None:
    class Sticky(type(Randomness.simulation(0))):  # type: ignore[misc]
        draws = 0

        def _bits(self, count: int, bits: int) -> NDArray[Any]:
            self.draws += 1
            return np.zeros(count, np.uint64) if self.draws < 3 else super()._bits(count, bits)

    sticky = Sticky(1)
    assert sorted(sticky.permutation(5).tolist()) == [0, 1, 2, 3, 4]
    assert sticky.draws == 3


def test_choose(lane: Randomness) -> None:
    p = np.array([0.0, 0.2, 0.0, 0.5, 0.3, 0.0])
    counts = np.bincount(lane.choose(p, 40_000), minlength=6)
    assert counts[p == 0].sum() == 0
    assert stats.chisquare(counts[p > 0], 40_000 * p[p > 0]).pvalue > LEVEL
    assert lane.choose([1.0]).tolist() == [0]
    assert lane.choose([Fraction(1, 3), Fraction(2, 3)], (4, 2)).shape == (4, 2)


@pytest.mark.parametrize("tiny", [1.6e-16, 1e-40])
def test_choices_keep_probabilities_that_floats_would_lose(tiny: float) -> None:
    """A cumulative sum in floats loses 1.6e-16 or doubles it, and with it every promise about ratios."""
    from peerveil.core.randomness.source import _whole_weights

    weights = _whole_weights([1.0, tiny])
    assert Fraction(weights[1], weights[0]) == Fraction(tiny)

    class Last(type(Randomness.simulation(0))):  # type: ignore[misc]
        def _bits(self, count: int, bits: int) -> NDArray[Any]:
            return np.full(count, 2**bits - 1, dtype=np.uint64)

        def integers(self, low: int, high: int, size: Any) -> NDArray[np.int64]:
            return np.full(size, high - 1)

        def below(self, limit: int) -> int:
            return limit - 1

    assert Last(0).choose([1.0, tiny]).tolist() == [1]


def test_big_choices_are_drawn_by_rejection(lane: Randomness) -> None:
    third = Fraction(1, 3**60)
    p = [Fraction(1, 2), Fraction(1, 2) - third, third]
    counts = np.bincount(lane.choose(p, 4000), minlength=3)
    assert counts[2] == 0
    assert stats.chisquare(counts[:2]).pvalue > LEVEL


# ---- what only one lane promises ------------------------------------------------------------------------------------


def test_a_simulation_repeats_and_its_children_do_too() -> None:
    first, second = Randomness.simulation(3), Randomness.simulation(3)
    assert first.laplace([0.0] * 5, scale=1).tolist() == second.laplace([0.0] * 5, scale=1).tolist()
    a, b = (r.spawn(2) for r in (first, second))
    assert a[1].uniform(3).tolist() == b[1].uniform(3).tolist()
    assert a[0].uniform(3).tolist() != a[1].uniform(3).tolist()


def test_the_secure_lane_never_repeats_and_ignores_seeds() -> None:
    np.random.seed(0)
    first = Randomness.secure().uniform(4).tolist()
    np.random.seed(0)
    assert Randomness.secure().uniform(4).tolist() != first


def test_limits_of_the_simulation_lane() -> None:
    with pytest.raises(BadInput, match="in a simulation"):
        Randomness.simulation(0).discrete_laplace([1], scale=1e200)
    with pytest.raises(BadInput, match="^count: got -1"):
        Randomness.simulation(0).spawn(-1)


@pytest.mark.parametrize(
    ("sensitivity", "epsilon", "argument"),
    [
        (1, None, "epsilon"),
        (1e300, 1e-300, "sensitivity"),
        (0, 1, "sensitivity"),
        (np.timedelta64(3), 1, "sensitivity"),
    ],
)
def test_scales_that_cannot_be(sensitivity: Any, epsilon: Any, argument: str) -> None:
    with pytest.raises(BadInput, match=f"^{argument}: got ") as caught:
        laplace_scale(sensitivity=sensitivity, epsilon=epsilon)
    assert "None for no privacy" not in str(caught.value)


@pytest.mark.parametrize("bad", [None, -1, 1.5, "7", True])
def test_a_simulation_needs_a_seed(bad: Any) -> None:
    with pytest.raises(BadInput, match="^seed: got "):
        Randomness.simulation(bad)


def test_the_stamp() -> None:
    promise = Guarantee.local_dp(1)
    assert Randomness.secure().stamp(promise) is promise
    assert Randomness.simulation(1).stamp(promise).mark == "simulation, not private"
    assert Randomness.secure().is_secure
    assert not Randomness.simulation(1).is_secure
    assert [repr(r) for r in (Randomness.secure(), Randomness.simulation(5))] == [
        "Randomness.secure()",
        "Randomness.simulation(5)",
    ]
    assert type(Randomness.secure()) is SecureRandomness
