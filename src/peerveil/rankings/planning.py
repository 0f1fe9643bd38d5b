"""Power curves and sample sizes, by simulation before anybody is asked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from peerveil.core.errors import BadInput
from peerveil.core.progress import progress_bar
from peerveil.core.result import Plan
from peerveil.rankings.mallows import read_items, read_spread
from peerveil.rankings.simulate import LOCAL, Power, power_of
from peerveil.rankings.uniformity import read_level

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl
    from matplotlib.axes import Axes

    from peerveil.core.exact import Number

_MOST: Final = {"central": 2**22, "local": 2**40}
_MOST_RANKS: Final = 400_000_000  # in one simulated data set


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

    def __str__(self) -> str:
        head = f"{self.items:,} items, spread {self.spread:g}, level {self.level:g}, power {self.wanted:g} wanted"
        lines = [head if self.epsilon is None else f"{head}, epsilon {self.epsilon:.4g}"]
        for method, people in self.needed.items():
            lines.append(f"  {method:<16} {'more than can be simulated' if people is None else f'{people:,} people'}")
        return "\n".join(lines)

    @property
    def recommendation(self) -> str:
        """The test that needs the fewest people, and how many."""
        enough = {method: people for method, people in self.needed.items() if people is not None}
        signal = f"a signal of spread {self.spread:g} in rankings of {self.items:,} items with power {self.wanted:g}"
        if not enough:
            return f"No test found {signal}: plan for a stronger signal, a larger epsilon or less power."
        best = min(enough, key=lambda method: enough[method])
        private = "without privacy" if self.epsilon is None else f"at epsilon {self.epsilon:.4g}"
        return f"Recommended: {best} with {enough[best]:,} people: it finds {signal} {private}."

    def table(self) -> pl.DataFrame:
        """One row per test and number of people that was simulated, with the power and its standard error."""
        import polars as pl

        columns: dict[str, list[Any]] = {
            "method": [row.method for row in self.rows],
            "people": [row.rankings for row in self.rows],
            "power": [row.power for row in self.rows],
            "standard_error": [row.error for row in self.rows],
        }
        return pl.DataFrame(columns)

    def draw(self, ax: Axes) -> None:
        """Power against people, one line per test."""
        from peerveil.rankings.figures import draw_power

        draw_power(self, ax)


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
    return _search(method, items, spread, epsilon, level, power, trials, seed)[0]


def _search(
    method: str,
    items: int,
    spread: float,
    epsilon: Number | None,
    level: float,
    wanted: float,
    trials: int,
    seed: int,
) -> tuple[int | None, list[Power]]:
    """Double until the power is there, then halve the interval on a logarithmic scale."""
    tried: list[Power] = []

    def reaches(k: int) -> bool:
        data: dict[str, Any] = {"rankings": k, "items": items, "spread": spread, "seed": seed + k}
        tried.append(power_of(method, epsilon=epsilon, level=level, trials=trials, **data))
        return tried[-1].power >= wanted

    most = _MOST["local"] if method in LOCAL else min(_MOST["central"], _MOST_RANKS // items)
    low, high = 2, 8
    while not reaches(high):
        if 2 * high > most:
            return None, tried
        low, high = high, 2 * high
    while high / low > 1.05 and high - low > 1:
        middle = min(high - 1, max(low + 1, math.isqrt(low * high)))
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high, tried


def plan_rankings(
    *,
    items: int,
    spread: float,
    epsilon: Number | None = None,
    level: float = 0.05,
    power: float = 0.8,
    methods: Sequence[str] | None = None,
    trials: int = 100,
    seed: int = 0,
    progress: bool | None = None,
) -> PowerCurve:
    """How many people each test needs to find a Mallows signal of this spread.

    Parameters
    ----------
    items, spread
        The signal to be found: a Mallows model of so many items with this spread; 1 is uniform.
    epsilon : number, optional
        Privacy budget for one person's ranking. Default: ``None``, for tests without privacy.
    level : float, optional
        Significance level. Default: 0.05.
    power : float, optional
        The probability with which the signal is to be found. Default: 0.8.
    methods : sequence of str, optional
        Tests to compare (see :func:`power_of`). Default: ``"auto"`` and ``"local"`` with an epsilon, ``"friedman"`` without.
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
    """
    m, q, alpha = read_items(items), read_spread(spread), read_level(level)
    if q == 1.0:
        raise BadInput("spread", got=spread, want="below 1: in uniform rankings there is nothing to find")
    if not 0 < power < 1 or power <= alpha:
        raise BadInput("power", got=power, want=f"a probability above the level ({alpha:g}) and below 1")
    chosen = list(methods) if methods is not None else (["friedman"] if epsilon is None else ["auto", "local"])
    if not chosen:
        raise BadInput("methods", got=methods, want="at least one")
    rows: list[Power] = []
    needed: dict[str, int | None] = {}
    with progress_bar("planning", total=len(chosen), show=progress) as advance:
        for method in chosen:
            needed[method], tried = _search(method, m, q, epsilon, alpha, power, trials, seed)
            rows += sorted(tried, key=lambda row: row.rankings)
            advance(1)
    size = rows[0].epsilon if rows else None
    return PowerCurve(m, q, size, alpha, float(power), tuple(rows), needed)
