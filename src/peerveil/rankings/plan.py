"""Power and sample sizes, by simulation before anybody is asked: simulated rankings, exact noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np
import polars as pl

from peerveil.core.arrays import Floats
from peerveil.core.errors import BadInput, one_of
from peerveil.core.exact import Number, number, whole
from peerveil.core.guarantee import read_epsilon
from peerveil.core.progress import progress_bar
from peerveil.core.randomness import PermutohedronNoise, Randomness, Response
from peerveil.core.result import Plan
from peerveil.rankings.central import PairsNorm, central_test
from peerveil.rankings.figures import draw_power
from peerveil.rankings.kernels import top_half
from peerveil.rankings.laws import laplace_tail, squares_null
from peerveil.rankings.local import QUESTIONS, LocalProtocol
from peerveil.rankings.mallows import Mallows, read_items, read_spread, sample_rankings
from peerveil.rankings.naming import named_scores
from peerveil.rankings.uniformity import METHODS, check_epsilon, read_level, uniformity_test

LOCAL: Final = {"local": "items", "local-pairs": "pairs"}
"""Local tests by name, and what their questions are about."""

CONSENSUS: Final = ("open", "central", "local")  # for plans to tell the first items

_MOST_ITEMS, _MOST_VOTES = 2_000, 4_000_000  # of a consensus: items, and ranks that are simulated
_MOST_CENTRAL, _MOST_LOCAL = 2**22, 2**40  # people
_MOST_RANKS: Final = 400_000_000  # in one simulated data set
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


@dataclass(frozen=True, slots=True)
class PowerCurve(Plan):
    """Power against the number of people, and how many are needed.

    Attributes
    ----------
    needed
        For each test the number of people for the power wanted, to about 5%; ``None`` if it is more than can be simulated.
    """

    items: int
    spread: float
    epsilon: float | None
    level: float
    wanted: float
    rows: tuple[Power, ...]
    needed: dict[str, int | None]
    first: int | None = None

    def __str__(self) -> str:
        goal = f"level {self.level:g}, power" if self.first is None else f"first {self.first}, probability"
        head = f"{self.items:,} items, spread {self.spread:g}, {goal} {self.wanted:g} wanted"
        lines = [
            f"  {method:<16} {'more than can be simulated' if people is None else f'{people:,} people'}"
            for method, people in self.needed.items()
        ]
        return "\n".join([head if self.epsilon is None else f"{head}, epsilon {self.epsilon:.4g}", *lines])

    @property
    def recommendation(self) -> str:
        """The test, or the kind of consensus, that needs the fewest people, and how many."""
        if self.first is not None:
            return self._first_needed(self.first)
        enough = {method: people for method, people in self.needed.items() if people is not None}
        signal = f"a signal of spread {self.spread:g} in rankings of {self.items:,} items with power {self.wanted:g}"
        if not enough:
            return f"No test found {signal}: plan for a stronger signal, a larger epsilon or less power."
        best = min(enough, key=lambda method: enough[method])
        private = "without privacy" if self.epsilon is None else f"at epsilon {self.epsilon:.4g}"
        return f"Recommended: {best} with {enough[best]:,} people: it finds {signal} {private}."

    def _first_needed(self, first: int) -> str:
        people = {
            "open": "without privacy",
            "central": f"with epsilon {self.epsilon or 0:.4g} added by a trusted operator",
            "local": f"with epsilon {self.epsilon or 0:.4g} on each person's device",
        }
        counts = [
            f"{'more people than can be planned' if needed is None else f'{needed:,} people'} {people[method]}"
            for method, needed in self.needed.items()
        ]
        goal = f"the first {first} of {self.items:,} items" if first > 1 else f"the first of {self.items:,} items"
        return f"Recommended, to tell {goal} with probability {self.wanted:g} (spread {self.spread:g}): {'; '.join(counts)}."

    def table(self) -> pl.DataFrame:
        """One row per test and number of people that was simulated, with the power and its standard error."""
        rows = pl.DataFrame([asdict(row) for row in self.rows])
        return rows.select("method", pl.col("rankings").alias("people"), "power", standard_error="error")

    draw = draw_power


def plan_rankings(
    *,
    items: int,
    spread: float,
    epsilon: Number | None = None,
    first: int | None = None,
    level: float = 0.05,
    power: float = 0.8,
    methods: Sequence[str] | None = None,
    trials: int = 100,
    seed: int = 0,
    progress: bool | None = None,
) -> PowerCurve:
    """How many people a test needs to find a Mallows signal of this spread, or the consensus to tell the first items.

    Parameters
    ----------
    items, spread
        The signal to be found: a Mallows model of so many items with this spread; 1 is uniform.
    epsilon : number, optional
        Privacy budget for one person's ranking. Default: ``None``, for tests without privacy.
    first : int, optional
        Plan for the consensus instead: that its first so many items are the right ones (in any order).
    level : float, optional
        Significance level. Default: 0.05.
    power : float, optional
        The probability with which the signal is to be found. Default: 0.8.
    methods : sequence of str, optional
        Tests to compare (see :func:`power_of`). Default: ``"auto"`` and ``"local"`` with an epsilon, ``"friedman"`` without. For
        the first items: ``"open"``, ``"central"`` (:func:`~peerveil.rankings.consensus`) and ``"local"`` (one item named).
    trials : int, optional
        Simulated data sets for each number of people. Default: 100.
    seed : int, optional
        Seed of the simulation. Default: 0.
    progress : bool, optional
        Whether to show a progress bar. Default: only on a terminal.

    Examples
    --------
    >>> plan = plan_rankings(items=20, spread=0.9, epsilon=1, methods=["rank-norm"], trials=20)
    >>> 10 < plan.needed["rank-norm"] < 200
    True
    >>> plan.table().columns
    ['method', 'people', 'power', 'standard_error']
    >>> plan = plan_rankings(items=10, spread=0.8, epsilon=1, first=3)
    >>> plan.needed["open"] < plan.needed["central"] < plan.needed["local"]
    True
    """
    m, q, alpha = read_items(items), read_spread(spread), read_level(level)
    if q == 1.0:
        raise BadInput("spread", got=spread, want="below 1: in uniform rankings there is nothing to find")
    number(power, "power", alpha + 1e-12, 1 - 1e-12, want=f"a probability above the level ({alpha:g}) and below 1")
    if first is not None:
        return _plan_first(m, q, epsilon, first, power, methods, 40 * whole(trials, "trials", 2), seed)
    chosen = list(methods) if methods is not None else (["friedman"] if epsilon is None else ["auto", "local"])
    if not chosen:
        raise BadInput("methods", got=methods, want="at least one")
    rows: list[Power] = []
    needed: dict[str, int | None] = {}
    settings = {"spread": q, "epsilon": epsilon, "level": alpha, "trials": trials}
    with progress_bar("planning", total=len(chosen), show=progress) as advance:
        for method in chosen:
            needed[method], simulated = _search(method, power, items=m, seed=seed, **settings)
            rows += sorted(simulated, key=lambda row: row.rankings)
            advance(1)
    return PowerCurve(m, q, rows[0].epsilon, alpha, float(power), tuple(rows), needed)


def _plan_first(
    m: int, spread: float, epsilon: Number | None, first: int, wanted: float, methods: Any, draws: int, seed: int
) -> PowerCurve:
    """How many people until the first items are right, for each kind of consensus; the errors are drawn once."""
    k = whole(first, "first", 1, m - 1)
    exact = None if epsilon is None else read_epsilon(epsilon)
    able = CONSENSUS[:1] if exact is None else CONSENSUS
    chosen = list(able if methods is None else methods)
    if not chosen or not set(chosen) <= set(able):
        want = f"of {', '.join(able)}" + (" (the others need an epsilon)" if exact is None else "")
        raise BadInput("methods", got=methods, want=want)
    if m > _MOST_ITEMS:
        raise BadInput("items", got=m, want=f"at most {_MOST_ITEMS:,} to plan a consensus")
    size, rows = None if exact is None else float(exact), list[Power]()
    needed: dict[str, int | None] = {}
    for method in chosen:
        scores, sampled, noise = _score_errors(method, m, spread, exact, draws, seed)
        simulated: dict[int, float] = {}

        def reaches(n: int, parts: Any = (scores, sampled, noise), into: dict[int, float] = simulated) -> bool:
            drawn = parts[0] + parts[1] / math.sqrt(n) + parts[2] / n
            into[n] = float((drawn[:, :k].min(axis=1) > drawn[:, k:].max(axis=1)).mean())
            return into[n] >= wanted

        needed[method] = _smallest(reaches, _MOST_LOCAL)
        for n, right in sorted(simulated.items()):
            rows.append(Power(method, n, m, spread, size, right, math.sqrt(right * (1 - right) / draws)))
    return PowerCurve(m, spread, size, math.nan, float(wanted), tuple(rows), needed, k)


def _score_errors(
    method: str, m: int, spread: float, epsilon: Fraction | None, draws: int, seed: int
) -> tuple[Floats, Floats, Floats | float]:
    """Mean scores of the items of a Mallows model, best first; errors for one person, and the noise of a sum."""
    rng, source = np.random.default_rng(seed), Randomness.simulation(seed)
    votes = sample_rankings(Mallows(m, spread), _MOST_VOTES // m, source)
    noise: Floats | float = 0.0
    if method == "local":
        scores, covariance = named_scores(votes, Response(epsilon or 1, classes=2))
    else:
        apart = np.arange(m)[None] - np.arange(m)[:, None]
        scores = (np.sign(apart) * pair_bias(spread, np.abs(apart) + (apart == 0))).sum(axis=1) / 2
        covariance = np.atleast_2d(np.cov(votes, rowvar=False))
        noise = PermutohedronNoise(m, epsilon or 1).simulate(rng, draws) / 2 if method == "central" else 0.0
    values, axes = np.linalg.eigh(covariance)
    scores = (scores - scores[::-1]) / 2  # the model is the same upside down
    return scores, (rng.standard_normal((draws, m)) * np.sqrt(np.maximum(values, 0))) @ axes.T, noise


def people_needed(
    method: str,
    *,
    items: int,
    spread: float,
    epsilon: Number | None = None,
    level: float = 0.05,
    power: float = 0.8,
    trials: int = 200,
    seed: int = 0,
) -> int | None:
    """How many people a test needs for the power wanted, to about 5%; ``None`` beyond what can be simulated.

    Examples
    --------
    >>> people_needed("local", items=100, spread=0.95, epsilon="1/3", trials=400) < 2500
    True
    """
    settings = {"spread": spread, "epsilon": epsilon, "level": level, "trials": trials}
    return _search(method, power, items=items, seed=seed, **settings)[0]


def _search(method: str, wanted: float, *, items: int, seed: int, **settings: Any) -> tuple[int | None, list[Power]]:
    """Double until the power is there, then halve the interval on a logarithmic scale; settings of :func:`power_of`."""
    simulated: list[Power] = []

    def reaches(k: int) -> bool:
        simulated.append(power_of(method, rankings=k, items=items, seed=seed + k, **settings))
        return simulated[-1].power >= wanted

    most = _MOST_LOCAL if method in LOCAL else min(_MOST_CENTRAL, _MOST_RANKS // items)
    return _smallest(reaches, most), simulated


def _smallest(reaches: Callable[[int], bool], most: int) -> int | None:
    """The smallest number of people that reaches it, to about 5%; None if it is more than this."""
    low, high = 2, 8
    while not reaches(high):
        if 2 * high > most:
            return None
        low, high = high, 2 * high
    while high / low > 1.05 and high - low > 1:
        middle = min(high - 1, max(low + 1, math.isqrt(low * high)))
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


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
    epsilon, level, seed
        As of :func:`plan_rankings`.
    trials : int, optional
        Simulated data sets. Default: 200. The noise is not drawn but averaged exactly, so that a few are enough.
    questions : int, optional
        Of local tests: how many questions are shared. Default: 3.

    Examples
    --------
    >>> estimate = power_of("rank-norm", rankings=400, items=20, spread=0.96, epsilon=1, trials=20)
    >>> 0.8 < estimate.power <= 1
    True
    """
    one_of(method, "method", (*METHODS, *LOCAL))
    k, repeats = whole(rankings, "rankings", 2), whole(trials, "trials", 2)
    m, q, alpha = read_items(items, 2), read_spread(spread), read_level(level)
    exact = None if epsilon is None else read_epsilon(epsilon, or_none=True)
    check_epsilon(method, exact)
    if method in LOCAL:
        assert exact is not None
        protocol = LocalProtocol(m, epsilon=exact, ask=LOCAL[method], questions=questions or QUESTIONS)
        rejections = local_rejections(protocol, k, q, alpha, repeats, seed)
    else:
        rejections = _central_rejections(method, k, m, q, exact, alpha, repeats, seed)
    power, error = float(np.mean(rejections)), float(np.std(rejections, ddof=1) / math.sqrt(repeats))
    return Power(method, k, m, q, None if exact is None else float(exact), power, error)


def _central_rejections(
    method: str, k: int, m: int, spread: float, epsilon: Fraction | None, level: float, trials: int, seed: int
) -> Floats:
    """The probability of rejection for each simulated data set: the noise is integrated out."""
    source = Randomness.simulation(seed)
    rejections = np.empty(trials)
    for trial in range(trials):
        rows = sample_rankings(Mallows(m, spread, source.permutation(m)), k, source)
        if epsilon is None:
            rejections[trial] = uniformity_test(rows, method=method, level=level, randomness=source).reject
            continue
        test = central_test(method, k, m, float(epsilon))
        value = test.from_rows(rows[:, source.permutation(m)] if isinstance(test, PairsNorm) else rows)
        rejections[trial] = laplace_tail(_noisy_critical(method, k, m, epsilon, level) - value, test.scale(epsilon))
    return rejections


@lru_cache(maxsize=256)
def _noisy_critical(method: str, k: int, m: int, epsilon: Fraction, level: float) -> float:
    """Where a central test rejects: the same for every spread, and slower to find than a trial."""
    return float(central_test(method, k, m, float(epsilon)).noisy_null(epsilon).critical(level))


# ---- local tests: biases of answers are known exactly --------------------------------------------------------------------


def local_rejections(
    protocol: LocalProtocol, people: int, spread: float, level: float, trials: int, seed: int
) -> Floats:
    """Whether a local test rejects, for each simulated set of answers; the people are divided among the questions."""
    rng = np.random.default_rng(seed)
    m, questions = protocol.items, protocol.questions
    counts = np.full(questions, people // questions) + (np.arange(questions) < people % questions)
    critical = squares_null(tuple(counts[counts > 0].tolist())).critical(level)
    rejections = np.empty(trials)
    for trial in range(trials):
        order = rng.permutation(m)
        if protocol.ask == "items":
            bias = np.interp(order[:questions], *half_biases(m, spread))
        else:
            first, second = order[: 2 * questions].reshape(questions, 2).T
            bias = np.sign(second - first) * pair_bias(spread, np.abs(second - first))
        sums = 2 * rng.binomial(counts, (1 + protocol.attenuation * bias) / 2) - counts
        rejections[trial] = float((sums.astype(float) ** 2).sum()) >= critical
    return rejections


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
    first, second = (n / -np.expm1(n * x) for n in (q + 1, q))
    close = q * -x < 1e-3  # there the difference cancels: (1 + x-series)
    return np.where(close, -x * (2 * q + 1) / 6, 2 * (first - second) - 1)


@lru_cache(maxsize=64)
def half_biases(items: int, spread: float) -> tuple[Floats, Floats]:
    """The bias of "in the upper half?" at places across the center (0 to 1), exactly."""
    places = np.unique(np.linspace(0, items - 1, min(items, _PLACES)).astype(int))
    half = places[places <= (items - 1) / 2]
    values = np.array([top_half(items, int(p), math.log(spread)) for p in half])
    mirrored = np.concatenate([half, items - 1 - half[::-1]])
    return mirrored.astype(np.float64), np.concatenate([values, -values[::-1]])
