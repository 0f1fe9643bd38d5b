"""Planning delays from an earlier log: the gap, and how long posts would wait under each mechanism.

A gap is chosen by the share of history to cover, or by the error that every attack is left with.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import numpy as np
import polars as pl

from peerveil.core.arrays import Floats, Ints
from peerveil.core.errors import BadInput, Verbatim, one_of
from peerveil.core.exact import Number, number, numbers
from peerveil.core.guarantee import read_epsilon
from peerveil.core.result import Plan
from peerveil.data import Events
from peerveil.data.table import is_frame
from peerveil.timing.batches import find_batches
from peerveil.timing.delays import Exponential, FollowUp, Staircase, ZeroInflatedUniform
from peerveil.timing.durations import Duration, in_words, percent, read_duration, rounded_up
from peerveil.timing.log import codes, read_log

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.timing.base import DelayMechanism
    from peerveil.timing.noon import NoonBaseline
    from peerveil.timing.sittings import SittingPolicy

    Between = Literal["actor", "thread", "all"]

NOON: Final = "none; times moved to noon (HotCRP)"
PERCENTILE: Final = 50.0
"""Of the history, if neither a percentile nor a cross-over is given."""


@dataclass(frozen=True)
class DelayCost:
    """How long posts wait under one mechanism, in seconds, holds included."""

    mechanism: str
    """The name of its class."""
    mean_batched: float
    """The expected delay of a batched comment (for :class:`FollowUp`: a follow-up)."""
    mean_unbatched: float
    """The expected delay of any other."""
    max_delay: float
    """The longest delay; infinity if there is none."""

    @classmethod
    def of(cls, mechanism: DelayMechanism) -> DelayCost:
        """The closed forms of a mechanism."""
        delays = (mechanism.mean_batched, mechanism.mean_unbatched, mechanism.max_delay)
        return cls(type(mechanism).__name__, *(mechanism.hold + delay for delay in delays))


@dataclass(frozen=True)
class DelayPlan(Plan):
    """Result of :func:`plan_delays`.

    Attributes
    ----------
    epsilon, window : float
        The guarantee for a pair of comments, and the seconds of one sitting.
    gap : float
        Seconds: how far apart lone comments may be and still be covered; rounded up to be written in two units.
    covered : float
        The share of history that the gap covers.
    outside : float
        Of a person's posts that follow one on another thread, the share that comes later than the gap: not guaranteed.
    mechanisms : tuple of DelayCost
        How long posts would wait, the recommended mechanism first.
    per : str or None
        The column whose values have a gap of their own in ``gaps``.
    gaps : dict
        The gap of each value of ``per`` in seconds, as :func:`peerveil.timing.post` takes them.
    suspects : int
        How many people an observer suspects, of whom the right one shares several sittings.
    policies : tuple of SittingPolicy
        What several shared sittings give away under each policy, by simulation, the plan as it stands first.
    noon : NoonBaseline
        What HotCRP's rule, times moved to noon, would still reveal.
    """

    epsilon: float
    window: float
    gap: float
    covered: float
    outside: float
    mechanisms: tuple[DelayCost, ...]
    per: str | None
    gaps: dict[Any, float]
    suspects: int
    policies: tuple[SittingPolicy, ...]
    noon: NoonBaseline

    @property
    def recommendation(self) -> str:
        """The gap and the mechanism, and how long posts would wait."""
        best = self.mechanisms[0]
        return (
            f"Outside the guarantee: {percent(self.outside)} of one person's posts that follow one on another thread come "
            f"later than the gap. Recommended: {best.mechanism} with epsilon {self.epsilon:g} and a gap of "
            f"{in_words(self.gap)}, which covers {percent(self.covered)} of the history. Follow-ups wait "
            f"{in_words(best.mean_batched)} on average, other posts {in_words(best.mean_unbatched)}, no post longer than "
            f"{in_words(best.max_delay)}."
        )

    def table(self) -> pl.DataFrame:
        """One row per mechanism, delays in seconds; ``max_delay`` is null where there is no longest delay."""
        longest = pl.col("max_delay")
        return pl.DataFrame(self.mechanisms).with_columns(pl.when(longest.is_finite()).then(longest))

    def comparison(self) -> tuple[list[str], list[list[str]]]:
        """The mechanisms in words: column heads, and one row per mechanism."""
        rows = [
            [cost.mechanism, *map(in_words, (cost.mean_batched, cost.mean_unbatched, cost.max_delay))]
            for cost in self.mechanisms
        ]
        rows.append([NOON, "0 s", "0 s", "0 s"])
        return ["mechanism", "batched posts, mean", "other posts, mean", "longest"], rows

    def findings(self) -> list[str]:
        """What several sittings give away, what helps, and what HotCRP's rule reveals."""
        from peerveil.timing.sittings import first_in_words

        policy = self.policies[0]
        first = first_in_words(policy.covered_first, self.suspects)
        return [
            f"Several sittings add up: s of them cost s times epsilon. With this plan {first} by the best attacker if all pauses "
            f"are within the gap, and {', '.join(map(percent, policy.history_first))} with all pauses of the history.",
            self.noon.in_words(),
        ]

    def gaps_frame(self) -> pl.DataFrame:
        """The gap of each value of ``per``, as :func:`read_gaps` reads it from a CSV file."""
        return pl.DataFrame({str(self.per): [str(name) for name in self.gaps], "gap": list(self.gaps.values())})

    def draw(self, ax: Axes) -> None:
        """Mean delays under each mechanism."""
        costs = self.table()
        place = np.arange(costs.height)
        batched, others = costs["mean_batched"] / 60, costs["mean_unbatched"] / 60
        ax.bar(place - 0.2, batched, width=0.4, label="batched", color="#c98a00")
        ax.bar(place + 0.2, others, width=0.4, label="others", color="#2b7bba")
        ax.set(ylabel="mean delay in minutes", xticks=place, xticklabels=costs["mechanism"].to_list())
        ax.legend()


def plan_delays(
    history: Any,
    *,
    epsilon: Number = "1",
    window: Duration = 300,
    percentile: float | None = None,
    crossover: float | None = None,
    per: str | None = None,
    suspects: int = 10,
    columns: Mapping[str, str] | None = None,
) -> DelayPlan:
    """Choose a gap from history, and compute how long posts would wait under each mechanism.

    Parameters
    ----------
    history, columns
        An earlier log, as in :func:`find_batches`, never the one to be posted: the gap is part of the public protocol, and
        would reveal something about it.
    epsilon
        The guarantee for a pair of comments.
    window
        Seconds: comments of one person on different threads this close are one sitting.
    percentile, crossover
        Cover this percentage of the history (by default 50), or leave every test this cross-over error: see
        :func:`choose_gap`.
    per
        Also choose a gap for each value of this column: ``"thread"``, or another column of the log.
    suspects
        How many people an observer suspects, for what several shared sittings give away.

    Examples
    --------
    >>> from peerveil.data import synthetic_conference
    >>> plan = plan_delays(synthetic_conference(papers=60, reviewers=40, seed=1).events, percentile=25)
    >>> plan.table().columns, plan.covered >= 0.25
    (['mechanism', 'mean_batched', 'mean_unbatched', 'max_delay'], True)
    >>> print(plan.recommendation)  # doctest: +ELLIPSIS
    Outside the guarantee: ... Recommended: FollowUp with epsilon 1 and a gap of 33 h 14 min, which covers ...
    """
    from peerveil.timing.noon import noon_baseline
    from peerveil.timing.sittings import compare_policies

    log = read_log(history, "history", columns=columns, group=per)
    seconds = read_duration(window, "window", zero=True) / 1e9
    target: dict[str, Any] = {"window": seconds, "percentile": PERCENTILE if percentile is None else percentile}
    if crossover is not None:
        target |= {"percentile": percentile, "crossover": crossover, "epsilon": epsilon}
    gap = rounded_up(choose_gap(log, **target))
    between: Between = "thread" if per == "thread" else "actor"
    kinds: tuple[Any, ...] = (FollowUp, ZeroInflatedUniform, Staircase, Exponential)
    mechanisms: list[DelayMechanism] = [kind(epsilon=epsilon, gap=gap, window=seconds) for kind in kinds]
    waits, steps = intervals(log, window=seconds), find_batches(log, window=seconds, baseline=False).steps
    return DelayPlan(
        epsilon=mechanisms[0].epsilon,
        window=seconds,
        gap=gap,
        covered=covered(log, gap=gap, window=seconds),
        outside=float(np.sum(waits > gap)) / max(steps, 1),
        mechanisms=tuple(map(DelayCost.of, mechanisms)),
        per=per,
        gaps={} if per is None else choose_gaps(log, per=per, between=between, **target),
        suspects=suspects,
        policies=compare_policies(cast("FollowUp", mechanisms[0]), waits, suspects=suspects),
        noon=noon_baseline(log, window=seconds, gap=gap),
    )


def intervals(
    history: Any, *, between: Between = "actor", window: Duration = 0, columns: Mapping[str, str] | None = None
) -> Floats:
    """Seconds between consecutive events, from which a gap is chosen.

    Parameters
    ----------
    history, columns
        Earlier events, as in :func:`find_batches`: last year's conference, last week's edits.
    between
        ``"actor"``: one person's consecutive posts on different threads, which is what neighbors are made of;
        ``"thread"``: consecutive posts of a thread, whoever wrote them; ``"all"``: consecutive posts of the log.
    window
        Leave out intervals up to this, which are sittings. (With 0 only simultaneous posts are left out.)
    """
    return _intervals(Events.of(history, "history", columns=columns), between, window)[0]


def choose_gap(
    history: Any,
    *,
    percentile: float | None = None,
    crossover: float | None = None,
    epsilon: Number | None = None,
    between: Between = "actor",
    window: Duration = 0,
    columns: Mapping[str, str] | None = None,
) -> float:
    """The gap in seconds, from history and either a percentile or the error that attackers are left with.

    Parameters
    ----------
    history
        Earlier events (Events, a frame, a file name), or intervals in seconds.
    percentile
        Cover this percentage of the intervals.
    crossover, epsilon
        Leave every test for batching a cross-over error (type-I error = 1 - power) of at least this: Proposition 5.1
        gives power <= e^epsilon/F(g) type-I error, hence F(g) >= c e^epsilon/(1 - c). For c > 1/(1 + e^epsilon) no gap
        is enough.
    between, window, columns
        As in :func:`intervals`, where history is a log.

    Examples
    --------
    A cross-over of 1/4 at epsilon 0.8 needs the 75th percentile, the paper's example:

    >>> choose_gap(range(1, 101), crossover=0.25, epsilon=0.8)
    75.0
    >>> choose_gap(range(1, 101), crossover=0.4, epsilon=0.8)
    Traceback (most recent call last):
        ...
    peerveil.core.errors.BadInput: crossover: got 0.4, need at most 1/(1 + e^epsilon) = 0.310026: no gap does more
    """
    return _quantile(_sample(history, between, window, columns), _share(percentile, crossover, epsilon))


def choose_gaps(
    history: Any,
    *,
    percentile: float | None = None,
    per: str = "thread",
    crossover: float | None = None,
    epsilon: Number | None = None,
    between: Between = "thread",
    window: Duration = 0,
    least: int = 5,
    default: Duration | None = None,
    columns: Mapping[str, str] | None = None,
) -> dict[Any, float]:
    """One gap for each thread, or for each value of another column of the log, as :func:`peerveil.timing.post` takes them.

    Groups with fewer than ``least`` intervals get ``default`` (seconds), or the gap of the whole history.
    """
    history = read_log(history, "history", columns=columns, group=per)
    share = _share(percentile, crossover, epsilon)
    values, rows = _intervals(history, between, window)
    if not values.size and default is None:
        raise BadInput("history", got=Verbatim("no intervals"), want="events that follow one another, or default=")
    fallback = read_duration(default, "default") / 1e9 if default is not None else _quantile(values, share)
    group_codes, names = history.numbered(per)
    group = group_codes[rows]
    order = np.argsort(group, kind="stable")
    parts = np.split(values[order], np.searchsorted(group[order], np.arange(1, len(names))))
    gaps = [_quantile(part, share) if part.size >= max(least, 1) else fallback for part in parts]
    return dict(zip(names.to_list(), gaps, strict=True))


def covered(
    history: Any,
    *,
    gap: Duration,
    between: Between = "actor",
    window: Duration = 0,
    columns: Mapping[str, str] | None = None,
) -> float:
    """F(g): the share of history's intervals that a gap covers."""
    return float(np.mean(_sample(history, between, window, columns) <= read_duration(gap, "gap") / 1e9))


def read_gaps(path: str | os.PathLike[str]) -> tuple[str, dict[str, float]]:
    """The column of a file of gaps, and the gap in seconds of each of its values, which are texts.

    `peerveil timing plan --per` writes such a file.
    """
    want = "a CSV file with two columns, a name and gap (seconds), as `peerveil timing plan --per` writes it"
    try:
        frame = pl.read_csv(os.fspath(path), infer_schema=False)
        if len(frame.columns) != 2 or frame.columns[1] != "gap":
            raise BadInput("gaps", got=frame.columns, want=want)
        seconds = frame["gap"].cast(pl.Float64).to_list()
    except (OSError, pl.exceptions.PolarsError):
        raise BadInput("gaps", got=os.fspath(path), want=want) from None
    return frame.columns[0], dict(zip(frame.to_series(0).to_list(), seconds, strict=True))


def _intervals(history: Events, between: str, window: Duration) -> tuple[Floats, Ints]:
    """Intervals in seconds, and the row of the later event of each."""
    actor, thread, times = codes(history)
    keys = {"actor": actor, "thread": thread, "all": np.zeros(times.size, dtype=np.int64)}
    key = keys[one_of(between, "between", keys)]
    order = np.argsort(key, kind="stable")
    follows = np.diff(key[order]) == 0
    if between == "actor":
        follows &= np.diff(thread[order]) != 0
    waits = np.diff(times[order])
    chosen = follows & (waits > read_duration(window, "window", zero=True) // 1000)
    return waits[chosen] / 1e6, order[1:][chosen]


def _sample(history: Any, between: str, window: Duration, columns: Mapping[str, str] | None) -> Floats:
    if isinstance(history, Events | str | os.PathLike) or is_frame(history):
        values = _intervals(Events.of(history, "history", columns=columns), between, window)[0]
        if not values.size:
            got = Verbatim("no two events that follow one another outside a sitting")
            raise BadInput("history", got=got, want="a longer history, or intervals in seconds")
        return values
    want = "an Events table, or intervals in seconds above 0"
    return numbers(history, "history", low=1e-9, dimensions=(1,), want=want)


def _share(percentile: float | None, crossover: float | None, epsilon: Number | None) -> float:
    """The share of history that the gap has to cover."""
    if percentile is not None and crossover is None:
        return number(percentile, "percentile", 1e-300, 100, want="a number above 0, at most 100") / 100
    if crossover is None or percentile is not None:
        raise BadInput("percentile", got=percentile, want="either percentile= or crossover= with epsilon=")
    if epsilon is None:
        raise BadInput("epsilon", got=None, want="the epsilon of the mechanism, with crossover=")
    growth = math.exp(read_epsilon(epsilon))
    number(crossover, "crossover", 1e-300, 1 - 2**-53, want="an error between 0 and 1/2")
    share = crossover * growth / (1 - crossover)
    if share > 1:
        want = f"at most 1/(1 + e^epsilon) = {1 / (1 + growth):.6g}: no gap does more"
        raise BadInput("crossover", got=crossover, want=want)
    return share


def _quantile(values: Floats, share: float) -> float:
    """The smallest value that at least this share of the sample does not exceed."""
    place = max(math.ceil(share * values.size - 1e-9) - 1, 0)
    return float(np.partition(values, place)[place])
