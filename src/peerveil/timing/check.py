"""Checks that can fail: the privacy loss of a mechanism, exactly or on a grid, and the best attack on a pair of comments.

Lemma A.1: delays that are drawn independently keep the guarantee for a pair if and only if

    (sup over t of b(t)/u(t)) * (sup over t and shifts 0 <= s <= reach of b(t)/u(t - s)) <= e^epsilon.

Where only follow-ups count, one comment alone changes its status, and the second factor alone counts.

**The best attack there is on one pair** is the likelihood-ratio test. The attacker knows the mechanism, the arrival of the
earlier comment and how far apart lone comments arrive. By Neyman and Pearson no test has more power at any type-I error than
rejecting where the likelihood ratio is largest. Both hypotheses are products of known densities, so the whole curve is
computed, not simulated.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from peerveil.audit import Claim, Neighbors
from peerveil.core.errors import one_of
from peerveil.core.exact import exp_bounds, number, numbers, whole
from peerveil.core.result import Pictured
from peerveil.data import Events
from peerveil.timing.base import DelayMechanism, check_mechanism
from peerveil.timing.batches import check_suspects
from peerveil.timing.distributions import WHOLE, Delay, Steps
from peerveil.timing.post import PreparedPosting

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.core.arrays import Floats
    from peerveil.core.randomness import Randomness


@dataclass(frozen=True)
class LossCheck(Pictured):
    """The computed loss against the claimed one, epsilon."""

    still: float
    """ln sup b/u without a shift."""
    shifted: float
    """The same over all shifts that neighbors allow."""
    total: float
    """What a pair of comments loses."""
    claimed: float
    passed: bool
    """Whether the claim holds; decided in exact arithmetic where ``exact`` is True."""
    exact: bool

    def summary(self) -> str:
        """Whether the claim holds, with both numbers."""
        how = "in exact arithmetic" if self.exact else "on a grid"
        verdict = "holds" if self.passed else "does not hold"
        return f"a pair of comments loses {self.total:.6g}, {self.claimed:.6g} is claimed: the claim {verdict} ({how})"

    def draw(self, ax: Axes) -> None:
        """The loss beside the claim; an infinite loss has no bar."""
        loss = self.total if math.isfinite(self.total) else math.nan
        ax.bar(["computed", "claimed"], [loss, self.claimed], color=["#2b7bba", "#c98a00"])
        ax.set_ylabel("epsilon of a pair of comments")


def exact_check(mechanism: DelayMechanism) -> LossCheck:
    """Lemma A.1's condition in exact arithmetic, for mechanisms made of uniform pieces; on a grid for the others.

    >>> from peerveil.timing import FollowUp
    >>> check = exact_check(FollowUp(epsilon=1, gap=600, window=300))
    >>> check.passed, check.exact, round(check.total, 6)
    (True, True, 1.0)
    """
    b, u = mechanism.batched, mechanism.unbatched
    if not (isinstance(b, Steps) and isinstance(u, Steps)):
        return grid_check(mechanism)
    still, shifted = _worst(b, u, 0), _worst(b, u, mechanism.reach_ticks)
    if still is None or shifted is None:
        return LossCheck(math.inf, math.inf, math.inf, mechanism.epsilon, False, True)
    product = shifted if mechanism.follow_ups_only else still * shifted
    passed = product <= exp_bounds(mechanism.exact_epsilon)[0] or product <= 1
    return LossCheck(_log(still), _log(shifted), _log(product), mechanism.epsilon, passed, True)


def grid_check(mechanism: DelayMechanism, *, shifts: int = 33, tolerance: float = 1e-6) -> LossCheck:
    """Lemma A.1's condition on a grid of shifts; between the breaks of both densities every stretch is checked."""
    steps = np.linspace(0.0, mechanism.reach, shifts).tolist()
    worst = [_grid_worst(mechanism.batched, mechanism.unbatched, shift) for shift in steps]
    still, shifted = worst[0], max(worst)
    total = shifted if mechanism.follow_ups_only else still + shifted
    return LossCheck(still, shifted, total, mechanism.epsilon, total <= mechanism.epsilon + tolerance, False)


def delay_claim(mechanism: DelayMechanism, *, fault: str | None = None) -> Claim:
    """What :func:`peerveil.timing.post` does with a mechanism: many people, each with one pair of comments.

    The sensitive input has both comments in one sitting (for symmetric mechanisms in the worst place, the second one a
    window *before* the first); the harmless ones have them half a gap and a whole gap apart. Outputs are both public times.
    """
    # the largest shift: from the first comment's moment, or from a window before it
    sitting = 0.0 if mechanism.follow_ups_only else -mechanism.window
    apart = max(mechanism.gap / 2, math.nextafter(mechanism.window, math.inf) + 1e-3)
    return Claim(
        name=f"delays, {type(mechanism).__name__}{', shortened' if fault else ''}, epsilon {mechanism.epsilon:g}",
        covers=("timing.post", f"timing.{type(mechanism).__name__}"),
        mechanism=partial(posted_pairs, mechanism),
        pairs=(
            Neighbors("one sitting, or half a gap apart", sitting, min(apart, mechanism.gap)),
            Neighbors("one sitting, or a gap apart", sitting, mechanism.gap),
        ),
        guarantee=mechanism.guarantee,
        samples=20_000,
        fault=fault,
    )


def shortened(mechanism: DelayMechanism, by: float = 0.1, *, others_too: bool = True) -> DelayMechanism:
    """A deliberately broken mechanism: every delay (or only that of batched comments) is cut by a share."""
    number(by, "by", 1e-9, 1 - 1e-9, want="a share between 0 and 1")
    broken = copy.copy(mechanism)
    broken.batched = mechanism.batched.scaled(1 - by)
    if others_too:
        broken.unbatched = mechanism.unbatched.scaled(1 - by)
    return broken


def posted_pairs(mechanism: DelayMechanism, offset: float, count: int, randomness: Randomness) -> Floats:
    """Public times of two comments c and c', for many people at once: seconds since c's arrival, one row per person.

    c' arrives ``offset`` seconds after c, on another thread. ``mechanism.guarantee`` says what the times may reveal.

    >>> from peerveil import Randomness
    >>> from peerveil.timing import FollowUp
    >>> times = posted_pairs(FollowUp(epsilon=1, gap=600, window=60), 30.0, 1000, Randomness.simulation(1))
    >>> times.shape, bool((times[:, 1] > 600).all())
    ((1000, 2), True)
    """
    far = round(4e6 * (mechanism.gap + mechanism.window)) + 10
    first = 1_700_000_000_000_000 + np.arange(count, dtype=np.int64) * far
    second = first + round(offset * 1e6)
    events = Events(
        actor=np.concatenate([np.arange(count), np.arange(count)]),
        thread=np.repeat([0, 1], count),
        time=np.concatenate([first, second]).astype("datetime64[us]"),
        id=np.arange(2 * count),
    )
    posted = np.empty(2 * count, dtype=np.int64)
    posted[events.column("id")] = PreparedPosting(events, mechanism).draw(randomness).posted
    return np.stack([posted[:count] - first, posted[count:] - first], axis=1) / 1e6


def _worst(b: Steps, u: Steps, reach: int) -> Fraction | None:
    """The largest ratio of one tick's probability under b to any tick up to ``reach`` earlier under u; None: infinite."""
    worst = Fraction(0)
    for low, high, weight in b.pieces:
        least = u.least_mass(low + 1 - reach, high)
        if least == 0:
            return None
        worst = max(worst, Fraction(weight, WHOLE * (high - low)) / least)
    return worst


def _log(ratio: Fraction) -> float:
    return math.log(ratio.numerator) - math.log(ratio.denominator)


def _grid_worst(b: Delay, u: Delay, shift: float) -> float:
    """Ln sup of b(t)/u(t - shift), at both ends and the middle of every stretch between breaks."""
    end = b.horizon
    edges: Any = np.unique(np.concatenate([b.breaks, np.add(u.breaks, shift), [0.0, end]]))
    edges = edges[(edges >= 0) & (edges <= end)]
    wide = np.flatnonzero(np.diff(edges) > 1e-9 * max(end, 1e-9))
    points = np.concatenate([edges[wide] + part * np.diff(edges)[wide] for part in (1e-6, 0.5, 1 - 1e-6)])
    top, bottom = b.density(points), u.density(points - shift)
    here = top > 0
    with np.errstate(divide="ignore"):
        return float(np.log(top[here] / bottom[here]).max()) if here.any() else 0.0


@dataclass(frozen=True)
class OptimalAttack(Pictured):
    """Power against type-I error of the best test: a curve from (0, 0) to (1, 1)."""

    type_one: Floats
    power: Floats
    crossover: float
    """Where type-I error and 1 - power are equal: 0 means exposed, 1/2 means guessing."""
    covered: float
    """F(g): how probable it is that lone comments are within the gap."""
    epsilon: float
    """What the mechanism claims."""
    order: str
    """What the attacker knows about the order of the two comments."""
    ratio: float
    """The largest likelihood ratio of any output; at most e^epsilon where lone comments are within the gap."""

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
    one_of(order, "order", ("unknown", "known", "known in batches"))
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
    values = numbers(separation, "separation", low=0, dimensions=(0, 1), want=want)
    if values.ndim == 0:
        return values[None]
    if isinstance(separation, tuple) and values.size == 2 and values[0] < values[1]:
        return np.asarray(values[0] + (values[1] - values[0]) * (np.arange(2000) + 0.5) / 2000)
    if values.size > 2000:  # equally likely quantiles stand for a long sample
        return np.asarray(np.quantile(values, (np.arange(2000) + 0.5) / 2000))
    return np.sort(values)


def _cells(delays: tuple[Delay, ...], away: Floats, sitting: float, cells: int) -> tuple[Floats, Floats]:
    """Where posting times are cut: at every break, and evenly between; and the moments that have a point mass."""
    count = whole(cells, "cells", 8, 2000)
    shifts = {0.0, float(sitting), *(away.tolist() if away.size <= 8 else [float(away[0]), float(away[-1])])}
    end = max(d.horizon for d in delays)
    breaks = {edge + shift for d in delays for edge in d.breaks[:64] for shift in shifts}
    even = np.linspace(0.0, end + max(shifts), count + 1)
    edges = np.unique(np.round(np.concatenate([even, sorted(breaks), [0.0]]), 9))
    return edges, np.array(sorted(shifts if away.size <= 8 else {0.0}))


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
