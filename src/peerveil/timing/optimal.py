"""The best attack there is on one pair of comments: the likelihood-ratio test, against what the guarantee allows.

The attacker knows the mechanism, the arrival of the earlier comment and how far apart lone comments arrive. By Neyman and
Pearson no test has more power at any type-I error than rejecting where the likelihood ratio is largest. Both hypotheses
are products of known densities, so the whole curve is computed, not simulated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput
from peerveil.core.exact import whole
from peerveil.core.result import Pictured
from peerveil.timing.batches import check_suspects
from peerveil.timing.mechanism import check_mechanism

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from peerveil.timing.delays import Delay
    from peerveil.timing.durations import Floats
    from peerveil.timing.mechanism import DelayMechanism

ORDERS: Final = ("unknown", "known", "known in batches")


@dataclass(frozen=True)
class OptimalAttack(Pictured):
    """Power against type-I error of the best test.

    Attributes
    ----------
    type_one, power : arrays
        The curve, from (0, 0) to (1, 1).
    crossover : float
        Where type-I error and 1 - power are equal: 0 means exposed, 1/2 means guessing.
    covered : float
        F(g): how probable it is that lone comments are within the gap.
    epsilon : float
        What the mechanism claims.
    order : str
        What the attacker knows about the order of the two comments.
    ratio : float
        The largest likelihood ratio of any output; at most e^epsilon where lone comments are within the gap.
    """

    type_one: Floats
    power: Floats
    crossover: float
    covered: float
    epsilon: float
    order: str
    ratio: float

    def bound(self, type_one: ArrayLike) -> Floats:
        """Proposition 5.1: power <= e^epsilon / F(g) * type-I error, and never above 1."""
        allowed = math.exp(self.epsilon) / max(self.covered, 1e-300) * np.asarray(type_one, dtype=float)
        return np.minimum(allowed, 1.0)

    @property
    def least_crossover(self) -> float:
        """The cross-over that Proposition 5.1 guarantees: F / (F + e^epsilon)."""
        return self.covered / (self.covered + math.exp(self.epsilon))

    def posterior(self, suspects: ArrayLike) -> Floats:
        """The most that an attacker with K equally likely suspects can be sure of, after the most telling output."""
        others = check_suspects(suspects) - 1
        return np.ones(others.shape) if math.isinf(self.ratio) else np.asarray(self.ratio / (self.ratio + others))

    def frame(self) -> pl.DataFrame:
        """The curve, one row per point."""
        return pl.DataFrame({"type_one": self.type_one, "power": self.power})

    def summary(self) -> str:
        """The cross-over error, and what the guarantee alone leaves."""
        return (
            f"the best attack has a cross-over error of {self.crossover:.3f} (order of the two {self.order}; "
            f"the guarantee alone: at least {self.least_crossover:.3f})"
        )

    def draw(self, ax: Axes, label: str = "", **style: Any) -> None:
        """The curve, under its bound."""
        (line,) = ax.plot(self.type_one, self.power, label=label or None, **style)
        x = np.linspace(0, 1, 400)
        # broad and pale: the best test often attains the bound, and would cover a thin line
        ax.plot(x, self.bound(x), color=line.get_color(), linewidth=6, alpha=0.25, zorder=1)
        ax.set(xlabel="false alarms (type-I error)", ylabel="sittings detected (power)", xlim=(0, 1), ylim=(0, 1.02))


def optimal_attack(
    mechanism: DelayMechanism,
    separation: float | tuple[float, float] | ArrayLike,
    *,
    order: str = "unknown",
    sitting: float = 0.0,
    cells: int = 160,
) -> OptimalAttack:
    """The likelihood-ratio test of "written together" against "written apart".

    Parameters
    ----------
    mechanism
        Any delay mechanism.
    separation
        Seconds between lone comments: one number (known exactly), ``(low, high)`` for anything in between equally
        likely, or a sample of several such as history gives.
    order
        Which comment came first: ``"unknown"`` (either, equally likely, under both hypotheses), ``"known"``, or
        ``"known in batches"`` but not without, the case in which ordered neighbors guarantee least.
    sitting
        Seconds between the two comments of one sitting.
    cells
        The resolution of posting times where a separation is not known exactly. Coarser cells can only make the attack
        weaker; for one known separation and uniform pieces the result is exact.

    Examples
    --------
    >>> from peerveil.timing import FollowUp, Uniform
    >>> mechanisms = FollowUp(epsilon=1, gap=660), Uniform(epsilon=1, gap=660)
    >>> [round(optimal_attack(m, (0, 660), cells=120).crossover, 3) for m in mechanisms]
    [0.293, 0.269]
    """
    check_mechanism(mechanism)
    if order not in ORDERS:
        raise BadInput("order", got=order, want="'unknown', 'known' or 'known in batches'")
    away = _separations(separation)
    b, u = mechanism.batched, mechanism.unbatched
    first = u if mechanism.follow_ups_only else b
    edges, points = _cells((b, u), away, sitting, cells)
    mass_first, mass_second = (_masses(d, np.array([s]), edges, points) for d, s in ((first, 0.0), (b, sitting)))
    lone, moved = _masses(u, np.array([0.0]), edges, points), _masses(u, away, edges, points)
    together, apart = np.outer(mass_first, mass_second), np.outer(lone, moved)
    if order == "unknown":
        together = (together + together.T) / 2
    if order != "known":
        apart = (apart + apart.T) / 2
    type_one, power, crossover, ratio = _curve(together.ravel(), apart.ravel())
    # a hold delays both hypotheses alike and reveals nothing, so it is left out
    covered = float(np.mean(away <= mechanism.gap * (1 + 1e-12)))
    if order == "known in batches":
        covered /= 2
    return OptimalAttack(type_one, power, crossover, covered, mechanism.epsilon, order, ratio)


def best_test_in_words(mechanism: DelayMechanism) -> str:
    """How often the best possible test of one pair of posts is wrong, at most the gap apart."""
    unknown, known = (
        100 * optimal_attack(mechanism, (0, mechanism.gap), order=order).crossover for order in ("unknown", "known")
    )
    return (
        f"The best possible test of whether two posts were written in one sitting is wrong {unknown:.1f}% of the time "
        f"({known:.1f}% if the order of the two is known; guessing: 50%)."
    )


def _separations(separation: Any) -> Floats:
    """Equally likely separations, ascending; an interval becomes the midpoints of many equal parts."""
    want = "seconds: a number, (low, high), or a sample of them, none negative"
    try:
        values = np.asarray(separation, dtype=float)
    except (TypeError, ValueError):
        raise BadInput("separation", got=separation, want=want) from None
    if not values.size or values.ndim > 1 or not np.isfinite(values).all() or (values < 0).any():
        raise BadInput("separation", got=separation, want=want)
    if values.ndim == 0:
        return values[None]
    if isinstance(separation, tuple) and values.size == 2 and values[0] < values[1]:
        return np.asarray(values[0] + (values[1] - values[0]) * (np.arange(2000) + 0.5) / 2000)
    if values.size > 2000:  # equally likely quantiles stand for a long sample
        return np.asarray(np.quantile(values, (np.arange(2000) + 0.5) / 2000))
    return np.sort(values)


def _cells(delays: tuple[Delay, ...], away: Floats, sitting: float, cells: int) -> tuple[Floats, Floats]:
    """Where posting times are cut: at every break, and evenly between; and the moments that have a point mass."""
    whole(cells, "cells", 8, 2000)
    shifts = {0.0, float(sitting), *(away.tolist() if away.size <= 8 else [float(away[0]), float(away[-1])])}
    end = max(d.horizon for d in delays)
    breaks = {edge + shift for d in delays for edge in d.breaks[:64] for shift in shifts}
    even = np.linspace(0.0, end + max(shifts), cells + 1)
    edges = np.unique(np.round(np.concatenate([even, sorted(breaks), [0.0]]), 9))
    points = np.array(sorted(shifts if away.size <= 8 else {0.0}))
    return edges, points


def _masses(delay: Delay, shifts: Floats, edges: Floats, points: Floats) -> Floats:
    """Probabilities of each cell, of everything beyond the last, and of each point, for equally likely shifts."""
    out = np.zeros(edges.size + points.size)
    for block in np.array_split(shifts, max(1, shifts.size // 250)):
        inside = delay.smooth_below(edges[None, :] - block[:, None])
        inside = np.where(edges[None, :] >= block[:, None], inside, 0.0)
        out[: edges.size - 1] += np.diff(inside, axis=1).sum(axis=0)
        out[edges.size - 1] += (1 - delay.atom - inside[:, -1]).sum()
        if delay.atom:
            at = np.searchsorted(points, block)
            exact = (at < points.size) & (np.abs(points[np.minimum(at, points.size - 1)] - block) < 1e-9)
            np.add.at(out, edges.size + at[exact], delay.atom)
            cell = np.clip(np.searchsorted(edges, block[~exact], side="left") - 1, 0, edges.size - 1)
            np.add.at(out, cell, delay.atom)
    return np.asarray(np.maximum(out, 0.0) / shifts.size)


def _curve(together: Floats, apart: Floats) -> tuple[Floats, Floats, float, float]:
    """Reject where the ratio is largest first; ties are one step. At most 2,003 points are returned."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(apart > 1e-15, together / np.maximum(apart, 1e-300), np.where(together > 1e-15, np.inf, -1.0))
    possible = ratio >= 0
    order = np.argsort(-ratio[possible], kind="stable")
    x, y = (np.concatenate([[0.0], np.cumsum(mass[possible][order])]) for mass in (apart, together))
    x, y = (np.minimum(sums / max(sums[-1], 1e-300), 1.0) for sums in (x, y))
    reached = int(np.argmax(x + y >= 1))
    before = max(reached - 1, 0)
    step = (x[reached] + y[reached]) - (x[before] + y[before])
    share = (1 - x[before] - y[before]) / step if step > 0 else 0.0
    crossover = float(x[before] + share * (x[reached] - x[before]))
    even = np.linspace(0, 1, 1000)
    points = np.concatenate([[0, reached, x.size - 1], np.searchsorted(y, even), np.searchsorted(x, even)])
    points = np.unique(np.minimum(points, x.size - 1))
    return x[points], y[points], crossover, float(ratio[together > 1e-12].max())
