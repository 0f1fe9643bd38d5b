"""How many people do I need? Power curves and sample sizes, before anybody is asked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from peerveil.errors import BadInput
from peerveil.progress import progress_bar
from peerveil.rankings.mallows import read_items, read_spread
from peerveil.rankings.simulate import LOCAL, Power, power_of
from peerveil.rankings.uniformity import read_level
from peerveil.result import Pictured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from peerveil.numerics.exact import Number

_MOST: Final = {"central": 2**22, "local": 2**40}
_MOST_RANKS: Final = 400_000_000  # in one simulated data set


@dataclass(frozen=True, slots=True)
class PowerCurve(Pictured):
    """Power against the number of people, and how many are needed.

    Attributes
    ----------
    needed
        For each test the number of people for the power wanted, to about 5%; ``None`` if it was not found.
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

    def draw(self, ax: Axes) -> None:
        """Power against people, one line a test."""
        from peerveil.rankings.figures import draw_power

        draw_power(self, ax)


def people_needed(
    method: str,
    items: int,
    spread: float,
    *,
    epsilon: Number | None = None,
    level: float = 0.05,
    power: float = 0.8,
    trials: int = 200,
    seed: int = 0,
) -> int | None:
    """How many people a test needs for the power wanted, to about 5%; ``None`` beyond what can be simulated.

    Examples
    --------
    >>> people_needed("local", 100, 0.95, epsilon="1/3", trials=400) < 2500
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
        found = power_of(method, k, items, spread, epsilon=epsilon, level=level, trials=trials, seed=seed + k)
        tried.append(found)
        return found.power >= wanted

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
    items: int,
    spread: float,
    *,
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
        The signal to be found: 1 is uniform.
    epsilon
        The privacy of one person's ranking; ``None`` plans tests without privacy.
    power
        How often the signal shall be found.
    methods
        ``"auto"`` and ``"local"`` with an epsilon, ``"friedman"`` without, unless given.

    Examples
    --------
    >>> plan = plan_rankings(20, 0.9, epsilon=1, methods=["rank-norm"], trials=20)
    >>> 10 < plan.needed["rank-norm"] < 200
    True
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
