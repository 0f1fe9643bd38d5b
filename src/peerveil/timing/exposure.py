"""The audit: how exposed people in a log are, what a mechanism would cost and take from the attacker, in plain words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.errors import BadInput
from peerveil.judgements import Events
from peerveil.randomness import Randomness
from peerveil.result import plain
from peerveil.timing.adversary import LinkageAttack, linkage_attack
from peerveil.timing.batches import Batches, find_batches
from peerveil.timing.choose import choose_gap, intervals
from peerveil.timing.durations import in_words, read_duration
from peerveil.timing.follow_up import FollowUp
from peerveil.timing.leaks import Leak, find_leaks
from peerveil.timing.optimal import OptimalAttack, optimal_attack
from peerveil.timing.post import post

if TYPE_CHECKING:
    from collections.abc import Sequence

    from peerveil.numerics.exact import Number
    from peerveil.timing.durations import Duration
    from peerveil.timing.mechanism import DelayMechanism


@dataclass(frozen=True)
class Protected:
    """One mechanism tried on the log."""

    mechanism: DelayMechanism
    mean_delay: float
    median_delay: float
    max_delay: float
    attack: LinkageAttack
    best_attack: OptimalAttack
    known_order: OptimalAttack
    early_replies: tuple[int, int]
    overtaken: float
    batch_cost: tuple[float, float]

    def to_dict(self) -> dict[str, Any]:
        """Figures for programs."""
        cut, precision, recall = self.attack.best
        return {
            "mechanism": repr(self.mechanism),
            "epsilon": self.mechanism.epsilon,
            "mean_delay": self.mean_delay,
            "median_delay": self.median_delay,
            "max_delay": self.max_delay,
            "linkage": {"cut_off": cut, "precision": precision, "recall": recall},
            "crossover": self.best_attack.crossover,
            "crossover_when_order_is_known": self.known_order.crossover,
            "guaranteed_crossover": self.best_attack.least_crossover,
            "early_replies": self.early_replies[0],
            "early_replies_with_causal_release": self.early_replies[1],
            "overtaken_in_thread": self.overtaken,
            "cost_of_a_whole_batch": {"mean": self.batch_cost[0], "largest": self.batch_cost[1]},
            "guarantee": str(self.mechanism.guarantee),
        }


@dataclass(frozen=True)
class TimingAudit:
    """What :func:`audit_log` found. For the operator: it contains facts about people that must not be published."""

    summary: str
    events: int
    actors: int
    gap: float
    percentile: float
    intervals: int
    batches: Batches
    raw: LinkageAttack
    protected: tuple[Protected, ...]
    leaks: tuple[Leak, ...]
    suspects: int
    has_replies: bool

    @property
    def recommended(self) -> Protected | None:
        """The least delay with which the best attack on a pair errs at least a quarter of the time; else the strongest."""
        good = [one for one in self.protected if one.best_attack.crossover >= 0.25]
        if good:
            return min(good, key=lambda one: one.mean_delay)
        return max(self.protected, key=lambda one: one.best_attack.crossover, default=None)

    @property
    def recommendation(self) -> str:
        """What to do, in plain words."""
        lines = []
        chosen = self.recommended
        if not len(self.batches):
            lines.append("Nobody in this log commented on two threads in one sitting; delays would protect nothing.")
        elif chosen is None:
            lines.append("Too little history to choose a gap: give one with --gap.")
        else:
            m = chosen.mechanism
            _, before, found = self.raw.best
            lines.append(
                f"Delay posts by status by predecessor with epsilon {m.epsilon:g} and gap {in_words(m.gap)}: follow-ups "
                f"wait {in_words(m.mean_batched)} on average, all other posts {in_words(m.mean_unbatched)}, nobody longer "
                f"than {in_words(m.max_delay)}. The best possible test on a pair of comments is then wrong "
                f"{100 * chosen.best_attack.crossover:.0f} times in 100 (a coin: 50), and linking by time falls from "
                f"{100 * before:.2g}% precision at {100 * found:.2g}% recall to {100 * chosen.attack.best[1]:.2g}% at "
                f"{100 * chosen.attack.best[2]:.2g}%."
            )
            if self.batches.largest > 3:
                lines.append(
                    f"This covers pairs. A whole sitting costs more: the largest here, {self.batches.largest} comments, is "
                    f"linked at epsilon {chosen.batch_cost[1]:.3g}. Ask people to spread very long sittings."
                )
            if self.has_replies and chosen.early_replies[0]:
                lines.append("Release replies causally (the default), so that none appears before what it answers.")
        lines += [f"Close another leak first: {leak}." for leak in self.leaks]
        if self.leaks:
            lines.append("Hold posts before they reach the platform: what it publishes beside a post is beyond recall.")
        return " ".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values."""
        b = self.batches
        cut, precision, recall = self.raw.best
        return dict(plain({
            "log": self.summary,
            "window": b.window,
            "gap": self.gap,
            "batches": len(b),
            "batched_share": float(b.batched.mean()),
            "largest_batch": b.largest,
            "same_rate": b.same_rate,
            "other_rate": b.other_rate,
            "posterior": {"suspects": self.suspects, "probability": float(b.risk(self.suspects)) if b.same_rate else 0.0},
            "linkage_without_protection": {"cut_off": cut, "precision": precision, "recall": recall},
            "protected": [one.to_dict() for one in self.protected],
            "leaks": [{"column": k.column, "kind": k.kind, "agreement": k.agreement, "scope": k.scope} for k in self.leaks],
            "recommendation": self.recommendation,
        }))  # fmt: skip

    def __str__(self) -> str:
        lines = [self.summary, str(self.batches)]
        if self.batches.same_rate:
            lines.append(
                f"An observer with {self.suspects} suspects who sees two comments arrive that close is "
                f"{100 * float(self.batches.risk(self.suspects)):.1f}% sure who it is."
            )
        lines.append(f"Without protection: {self.raw}.")
        lines += [
            (
                f"epsilon {one.mechanism.epsilon:g}: delay mean {in_words(one.mean_delay)}, median "
                f"{in_words(one.median_delay)}, longest {in_words(one.max_delay)}; {one.attack}; cross-over of the best "
                f"attack {one.best_attack.crossover:.3f} ({one.known_order.crossover:.3f} if the order is known)"
            )
            for one in self.protected
        ]
        return "\n".join([*lines, "", self.recommendation])


def audit_log(
    events: Events,
    window: Duration = 300,
    *,
    gap: Duration | None = None,
    percentile: float = 50.0,
    epsilons: Sequence[Number] = ("0.5", 1, 2),
    within: Any = None,
    suspects: int = 10,
    randomness: Randomness | None = None,
    baseline: bool = True,
) -> TimingAudit:
    """Audit a log: rates, attack before and after, delays, re-ordered replies, other leaks, and what to do.

    Parameters
    ----------
    events
        The log as it arrived.
    window
        Seconds: comments of one person on different threads this close are one sitting.
    gap, percentile
        Seconds; or the percentile of the log's own intervals to take it from.
    epsilons
        Strengths to try, with :class:`FollowUp`.
    within
        Compare only posts with the same value (see :func:`linkage_attack`).
    suspects
        For the posterior of Figure 2.
    randomness
        The secure lane unless given. Delays are drawn to be measured; nothing is posted.
    baseline
        False leaves out the rate of close pairs of different persons.
    """
    if not isinstance(events, Events):
        raise BadInput("events", got=events, want="an Events table")
    seconds = read_duration(window, "window", zero=True) / 1e9
    source = Randomness.secure() if randomness is None else randomness
    batches = find_batches(events, seconds, baseline=baseline)
    waits = intervals(events, beta=seconds)
    history = choose_gap(waits, percentile) if waits.size else 0.0
    chosen = history if gap is None else read_duration(gap, "gap") / 1e9
    groups = events.numbered(within)[0] if isinstance(within, str) else within
    raw = linkage_attack(events, window=seconds, within=groups)
    if chosen > seconds:
        share = waits if waits.size else np.array([chosen])
        tried = tuple(_try(events, FollowUp(e, chosen, seconds), batches, share, groups, source) for e in epsilons)
    else:
        tried = ()
    return TimingAudit(
        summary=str(events).split("\n")[0],
        events=len(events),
        actors=len(events.numbered("actor")[1]),
        gap=chosen,
        percentile=percentile,
        intervals=int(waits.size),
        batches=batches,
        raw=raw,
        protected=tried,
        leaks=tuple(find_leaks(events)),
        suspects=suspects,
        has_replies=events.has_replies,
    )


def _try(
    events: Events, mechanism: DelayMechanism, batches: Batches, waits: Any, groups: Any, source: Randomness
) -> Protected:
    posted = post(events, mechanism, randomness=source)
    delay = posted.truth.delay
    near = waits[waits <= mechanism.gap]
    # what the attacker believes about lone comments: history up to the gap, to which the guarantee applies
    away = near if near.size else np.array([mechanism.gap])
    return Protected(
        mechanism=mechanism,
        mean_delay=float(delay.mean()),
        median_delay=float(np.median(delay)),
        max_delay=float(delay.max()),
        attack=linkage_attack(posted, window=batches.window, within=groups),
        best_attack=optimal_attack(mechanism, away, cells=100),
        known_order=optimal_attack(mechanism, away, order="known", cells=100),
        early_replies=posted.truth.early_replies,
        overtaken=posted.truth.overtaken,
        batch_cost=batches.cost(mechanism.epsilon),
    )
