"""How often a test finds a Mallows signal: simulated rankings, exact noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.errors import BadInput
from peerveil.core.exact import whole
from peerveil.core.guarantee import read_epsilon
from peerveil.core.randomness import Randomness, laplace_scale
from peerveil.rankings.central import PairsNorm, RankNorm
from peerveil.rankings.intake import Ballots
from peerveil.rankings.kernels import add_ranks, top_half
from peerveil.rankings.local import QUESTIONS, LocalProtocol
from peerveil.rankings.mallows import Mallows, read_items, read_spread, sample_rankings
from peerveil.rankings.noise import NoisyLaw, laplace_tail
from peerveil.rankings.nulls import squares_null
from peerveil.rankings.uniformity import METHODS, central_test, check_epsilon, read_level, uniformity_test

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from fractions import Fraction

    from numpy.typing import NDArray

    from peerveil.core.exact import Number
    from peerveil.core.randomness.simulation import SimulationRandomness

    Floats = NDArray[np.float64]

LOCAL: Final = {"local": "items", "local-pairs": "pairs"}
"""Local tests by name, and what their questions are about."""

_PLACES: Final = 33


@dataclass(frozen=True, slots=True)
class Power:
    """How often a test rejects, with its standard error."""

    method: str
    rankings: int
    items: int
    spread: float
    epsilon: float | None
    power: float
    error: float


def power_of(
    method: str,
    *,
    rankings: int,
    items: int,
    spread: float,
    epsilon: Number | None = None,
    level: float = 0.05,
    trials: int = 200,
    questions: int | None = None,
    seed: int = 0,
) -> Power:
    """How often a test rejects rankings of a Mallows model with this spread.

    Parameters
    ----------
    method
        A method of :func:`~peerveil.rankings.uniformity_test`, or ``"local"`` or ``"local-pairs"``.
    rankings, items, spread
        Size and signal of the simulated data.
    epsilon : number, optional
        Privacy budget for one person's ranking. Default: ``None``, for tests without privacy.
    level : float, optional
        Significance level. Default: 0.05.
    trials : int, optional
        Simulated data sets. Default: 200. The noise is not drawn but averaged exactly, so that a few are enough.
    questions : int, optional
        Of local tests: how many questions are shared. Default: 3.
    seed : int, optional
        Seed of the simulation. Default: 0.

    Examples
    --------
    >>> found = power_of("rank-norm", rankings=400, items=20, spread=0.96, epsilon=1, trials=20)
    >>> 0.8 < found.power <= 1
    True
    """
    known = (*METHODS, *LOCAL)
    if method not in known:
        raise BadInput("method", got=method, want=f"one of {', '.join(known)}")
    for name, value, least in (("rankings", rankings, 2), ("trials", trials, 2)):
        whole(value, name, least)
    m, q, alpha = read_items(items), read_spread(spread), read_level(level)
    if m < 2:
        raise BadInput("items", got=items, want="at least 2")
    exact = None if epsilon is None else read_epsilon(epsilon, or_none=True)
    check_epsilon(method, exact)
    if method in LOCAL:
        assert exact is not None
        chances = _local(LOCAL[method], int(rankings), m, q, exact, alpha, int(trials), questions or QUESTIONS, seed)
    else:
        source = Randomness.simulation(seed)
        chance = _chance(method, int(rankings), m, exact, alpha, source)
        chances = np.array([chance(rows) for rows in _samples(int(rankings), m, q, int(trials), source)])
    size = None if exact is None else float(exact)
    error = float(np.std(chances, ddof=1) / math.sqrt(len(chances)))
    return Power(method, int(rankings), m, q, size, float(chances.mean()), error)


def _samples(k: int, m: int, spread: float, trials: int, source: SimulationRandomness) -> Iterator[Any]:
    for _ in range(trials):
        yield sample_rankings(Mallows(m, spread, source.permutation(m)), k, source)


def _chance(
    method: str, k: int, m: int, epsilon: Fraction | None, level: float, source: SimulationRandomness
) -> Callable[[Any], float]:
    """P[reject] given rankings: the noise is integrated out."""
    if epsilon is None:
        return lambda rows: float(uniformity_test(rows, method=method, level=level, randomness=source).reject)
    test = central_test(method, k, m, float(epsilon))
    scale = laplace_scale(sensitivity=test.sensitivity, epsilon=epsilon)
    critical = _critical_with_noise(method, k, m, epsilon, level)

    def noised(rows: Any) -> float:
        if isinstance(test, RankNorm):
            sums = np.zeros(m, dtype=np.int64)
            add_ranks(rows, np.ones(len(rows), np.int64), sums)
            value = test.statistic(sums)
        elif isinstance(test, PairsNorm):
            value = test.statistic(Ballots.of(rows).pair_sums(source.permutation(m), source))
        else:
            value = test.statistic(rows)
        return float(laplace_tail(np.array([critical - value]), scale)[0])

    return noised


@lru_cache(maxsize=256)
def _critical_with_noise(method: str, k: int, m: int, epsilon: Fraction, level: float) -> float:
    """Where a central test rejects: the same whatever spread is imagined, and slower to find than a trial."""
    test = central_test(method, k, m, float(epsilon))
    return NoisyLaw(test.null(), laplace_scale(sensitivity=test.sensitivity, epsilon=epsilon)).critical(level)


# ---- local tests: biases of answers are known exactly --------------------------------------------------------------------


def pair_bias(spread: float, gap: Any) -> Any:
    """P[i before j] - P[j before i] for items ``gap`` places apart in the center: 2 (h(q+1) - h(q)) - 1, h(k) = k/(1 - phi^k).

    (The paper prints 1/(1 + phi^q) for P[i before j], which is right only for neighbors: see the errata.)

    >>> round(float(pair_bias(0.5, 1)), 6)  # 1/(1 + 1/2) = 2/3
    0.333333
    """
    q = np.asarray(gap, dtype=np.float64)
    if spread == 1.0:
        return np.zeros_like(q)
    x = math.log(spread)
    first, second = ((q + 1) / -np.expm1((q + 1) * x), q / -np.expm1(q * x))
    close = q * -x < 1e-3  # there the difference cancels: (1 + x-series)
    return np.where(close, -x * (2 * q + 1) / 6, 2 * (first - second) - 1)


@lru_cache(maxsize=64)
def half_biases(items: int, spread: float) -> tuple[Floats, Floats]:
    """The bias of "in the upper half?" at places across the center (0 to 1), exactly."""
    places = np.unique(np.linspace(0, items - 1, min(items, _PLACES)).astype(int))
    half = places[places <= (items - 1) / 2]
    values = np.array([top_half(items, int(p), math.log(spread)) for p in half])
    mirrored = np.concatenate([half, items - 1 - half[::-1]])
    whole = np.concatenate([values, -values[::-1]])
    return mirrored.astype(np.float64), whole


def _local(
    ask: str, n: int, m: int, spread: float, epsilon: Fraction, level: float, trials: int, questions: int, seed: int
) -> Floats:
    protocol = LocalProtocol(m, epsilon=epsilon, ask=ask, questions=questions)
    rng = np.random.default_rng(seed)
    number, kept = protocol.questions, protocol.attenuation
    counts = np.full(number, n // number) + (np.arange(number) < n % number)
    critical = squares_null(tuple(counts[counts > 0].tolist())).critical(level)
    rejected = np.empty(trials)
    for trial in range(trials):
        order = rng.permutation(m)
        if ask == "items":
            bias = np.interp(order[:number], *half_biases(m, spread))
        else:
            first, second = order[0 : 2 * number : 2], order[1 : 2 * number : 2]
            bias = np.sign(second - first) * pair_bias(spread, np.abs(second - first))
        sums = 2 * rng.binomial(counts, (1 + kept * bias) / 2) - counts
        rejected[trial] = float((sums.astype(float) ** 2).sum()) >= critical
    return rejected
