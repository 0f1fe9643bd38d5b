"""Checks that can fail: the privacy loss of a mechanism, computed exactly, on a grid, and certified from samples.

Lemma A.1: delays that are drawn independently keep the guarantee for a pair if and only if

    (sup over t of b(t)/u(t)) * (sup over t and shifts 0 <= s <= reach of b(t)/u(t - s)) <= e^epsilon.

Where only follow-ups count, one comment alone changes its status, and the second factor alone counts.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.audit import Claim, Neighbors
from peerveil.core.errors import BadInput
from peerveil.core.exact import exp_bounds
from peerveil.core.result import Pictured
from peerveil.data import Events
from peerveil.timing.delays import WHOLE, Steps
from peerveil.timing.post import PreparedPosting

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.core.randomness import Randomness
    from peerveil.timing.delays import Delay
    from peerveil.timing.durations import Floats
    from peerveil.timing.mechanism import DelayMechanism


@dataclass(frozen=True)
class LossCheck(Pictured):
    """The computed loss against the claimed one.

    Attributes
    ----------
    still, shifted : float
        ln sup b/u without a shift, and over all shifts that neighbors allow.
    total : float
        What a pair of comments loses.
    claimed : float
        Epsilon.
    passed : bool
        Whether the claim holds; decided in exact arithmetic where ``exact`` is True.
    """

    still: float
    shifted: float
    total: float
    claimed: float
    passed: bool
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
    b, u = mechanism.batched, mechanism.unbatched
    worst = [_grid_worst(b, u, shift) for shift in np.linspace(0.0, mechanism.reach, shifts).tolist()]
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
    if not 0 < by < 1:
        raise BadInput("by", got=by, want="a share between 0 and 1")
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
    if not here.any():
        return 0.0
    if (bottom[here] <= 0).any():
        return math.inf
    return float(np.log(top[here] / bottom[here]).max())
