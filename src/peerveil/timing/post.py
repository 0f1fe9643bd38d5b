"""Posting a log under a mechanism: what the public then sees, and, apart from it, what only the operator may see.

A posting is prepared without randomness (:class:`PreparedPosting`: checked, with its guarantee), then drawn once.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from peerveil.core.arrays import Flags, Floats, Ints
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.guarantee import Guarantee
from peerveil.core.randomness import Randomness
from peerveil.core.result import Outputs, Result
from peerveil.timing.base import DelayMechanism, check_mechanism
from peerveil.timing.batches import in_place
from peerveil.timing.delays import Queue
from peerveil.timing.durations import TICKS, Duration, in_words, read_duration
from peerveil.timing.log import ORDER_UNKNOWN, codes, file_order, parents_of, read_log, shuffle_ties
from peerveil.timing.plan import read_gaps
from peerveil.timing.schedule import PostingSchedule, behind_parents

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.data import Events
    from peerveil.ledger import Account

Gaps: TypeAlias = Mapping[Any, float] | str | os.PathLike[str]
"""The gap in seconds of each value of a column, or a file of them (:func:`peerveil.timing.plan.read_gaps`)."""


@dataclass(frozen=True, kw_only=True)
class Posted(Result):
    """What the public sees, with its guarantee. It holds nothing else.

    Attributes
    ----------
    posts : polars.DataFrame
        Columns id, thread, author, time and reply_to, in the order of posting
        (see :meth:`PostingSchedule.public_posts`).
    mechanism : str
        How posts were delayed.
    """

    posts: pl.DataFrame = field(repr=False, compare=False)
    mechanism: str

    def __len__(self) -> int:
        return self.posts.height

    def frame(self) -> pl.DataFrame:
        """What is published, one row per post."""
        return self.posts

    def summary(self) -> str:
        """The result in one line."""
        return f"{len(self):,} comments posted by {self.mechanism}"

    def draw(self, ax: Axes) -> None:
        """Public posts over time."""
        when = self.posts["time"].cast(pl.Int64).to_numpy() / 3.6e9
        ax.hist(when - when[0], bins=min(72, max(10, int(np.ptp(when)) + 1)), color="#2b7bba")
        ax.set(xlabel="hours since the first post", ylabel="posts")


def post(
    events: Any,
    *,
    mechanism: DelayMechanism | Queue,
    hold: Duration | None = None,
    causal: bool = True,
    declared: ArrayLike | None = None,
    adopters: Collection[Any] | None = None,
    gaps: Gaps | None = None,
    by: str = "thread",
    columns: Mapping[str, str] | None = None,
    account: Account | None = None,
    randomness: Randomness | None = None,
) -> Outputs[Posted, PostingSchedule]:
    """Post a log: draw every delay once; return what the public sees and, apart from it, the operator's schedule.

    Parameters
    ----------
    events, columns
        The log as it arrived, as in :func:`find_batches`. Equal times are taken in the order of its rows, or at random where
        these cannot say: see :mod:`peerveil.timing.log`.
    mechanism
        :class:`FollowUp` (the default choice), one of the symmetric mechanisms, or :class:`Queue`.
    hold
        Seconds: hold every comment that long to see whether it is batched (Algorithm 3). Only symmetric mechanisms
        need it; it is then also their window, and their noise is built for gap + window, as the guarantee needs.
    causal
        A reply is posted no earlier than what it answers: at max(its own time, its parent's). This looks only at
        posted times and at the public reply tree, so it is post-processing, and the guarantee is untouched.
    declared
        One boolean per event: the author said on posting "more will follow within the window". That comment and theirs
        within the window after it count as batched, and nothing is held (§5.2). For symmetric mechanisms; the
        guarantee then rests on people's answers.
    adopters
        The actors who use the mechanism; comments of all others are posted at once. Everybody by default.
    gaps, by
        Another gap for each value of the column ``by`` (such as :func:`choose_gaps` returns), or a file that names the
        column itself (as ``peerveil timing plan --per`` writes it); events whose value is not in it keep the mechanism's
        own. Use gaps from earlier data: they are part of the public protocol.
    account
        An account of a ledger, debited before any delay is drawn. It refuses the :class:`Queue`, which guarantees no
        differential privacy.
    randomness
        Secure randomness by default.

    Examples
    --------
    >>> from peerveil import Randomness
    >>> from peerveil.data import Events
    >>> from peerveil.timing import FollowUp
    >>> log = Events(actor=["ann", "ann"], thread=["A", "B"], time=[1_700_000_000, 1_700_000_060])
    >>> mechanism = FollowUp(epsilon=1, gap=600, window=300)
    >>> posted, schedule = post(log, mechanism=mechanism, randomness=Randomness.simulation(1))
    >>> posted.frame().columns, bool((schedule.delay >= 0).all())
    (['id', 'thread', 'author', 'time', 'reply_to'], True)
    """
    group = read_gaps(gaps)[0] if isinstance(gaps, (str, os.PathLike)) else None if gaps is None else by
    log = read_log(events, "events", columns=columns, group=group)
    source = Randomness.of(randomness)
    posting = PreparedPosting(log, mechanism, causal, gaps, by, hold, declared, adopters)
    if account is not None:
        account.spend(posting.guarantee, purpose="delayed posts", data=log, randomness=source)
    schedule = posting.draw(source)
    guarantee = source.stamp(posting.guarantee)
    return Outputs(
        Posted(guarantee=guarantee, posts=schedule.public_posts(), mechanism=repr(posting.mechanism)), schedule
    )


@dataclass(repr=False, eq=False)
class PreparedPosting:
    """A posting that is checked and has its guarantee; nothing is drawn yet. Parameters as in :func:`post`."""

    events: Events
    mechanism: DelayMechanism | Queue
    causal: bool = True
    gaps: Gaps | None = None
    by: str = "thread"
    hold: Duration | None = None
    declared: Any = None
    adopters: Collection[Any] | None = None

    def __post_init__(self) -> None:
        self.order, self.order_known = file_order(self.events)
        self.adopted = _adopted(self.events, self.adopters)
        self.gap: Floats | None = None
        if isinstance(self.mechanism, Queue):
            if any(option is not None for option in (self.hold, self.declared, self.gaps, self.adopters)):
                want = "no hold, declared, adopters or gaps: the queue takes none"
                raise BadInput("mechanism", got=self.mechanism, want=want)
            return
        check_mechanism(self.mechanism)
        self.mechanism, self.hold_micros = _held(self.mechanism, self.hold, self.declared is not None)
        if self.declared is not None:
            self.declared = _declared(self.declared, self.mechanism, len(self.events))
        if isinstance(self.gaps, (str, os.PathLike)):
            self.by, self.gaps = _gaps_from_file(self.events, self.gaps)
        if self.gaps is not None:
            self.gap = _gap_of_each(self.events, self.mechanism, self.gaps, self.by)
            self._by_gap = {gap: _with_gap(self.mechanism, gap, self.by) for gap in np.unique(self.gap).tolist()}

    @cached_property
    def guarantee(self) -> Guarantee:
        """What posting the log guarantees."""
        guarantee = self.mechanism.guarantee
        if isinstance(self.mechanism, Queue):
            return guarantee
        by_arrival = self.declared is not None or self.mechanism.follow_ups_only
        conditions = {
            "if everybody declares their batches truthfully": self.declared is not None,
            "the gap is that of the later comment's group, at least the one stated": self.gap is not None,
            "for people who use the mechanism for all of their comments": self.adopters is not None,
            ORDER_UNKNOWN: by_arrival and not self.order_known,
        }
        if not any(conditions.values()):
            return guarantee
        return Guarantee.one_sided_dp(
            self.mechanism.exact_epsilon,
            gap=self.mechanism.gap if self.gap is None else float(self.gap.min()),
            unit=guarantee.unit,
            neighbors="; ".join([guarantee.neighbors, *(text for text, holds in conditions.items() if holds)]),
        )

    def draw(self, randomness: Randomness) -> PostingSchedule:
        """Draw every delay, once."""
        actor, thread, times = codes(self.events)
        if isinstance(self.mechanism, Queue):
            batched, own = self.mechanism.schedule(actor, times, randomness)
        else:
            order = self.order if self.order_known else shuffle_ties(self.order, times, randomness)
            batched = self._status(self.mechanism, order)
            ticks = self._ticks(self.mechanism, batched, randomness)
            own = np.where(self.adopted, times + self.hold_micros + -(-ticks // 1000), times)
        parent = parents_of(self.events)
        return PostingSchedule(
            actor=actor,
            thread=thread,
            arrival=times,
            posted=behind_parents(own, parent) if self.causal else own,
            own=own,
            parent=parent,
            shuffle=randomness.permutation(times.size),
            batched=batched,
            adopted=self.adopted,
            window=self.mechanism.window,
            gap=self.gap,
            threads=self.events.numbered("thread")[1],
            ids=self.events.frame["id"],
            rows=pl.Series(self.events.rows),
        )

    def _status(self, mechanism: DelayMechanism, order: Ints) -> Flags:
        """Which events get the long delay, by the order of arrival."""
        actor, thread, times = (column[order] for column in codes(self.events))
        if self.declared is None:
            batched = mechanism.status(actor, thread, times)
        else:
            batched = _follows_declaration(self.declared[order], actor, times, mechanism.window)
        return np.asarray(in_place(batched, order))

    def _ticks(self, mechanism: DelayMechanism, batched: Flags, randomness: Randomness) -> Ints:
        """Delays in ticks, each drawn once."""
        if self.gap is None:
            return mechanism.draw_ticks(batched, randomness)
        ticks = np.empty(batched.size, dtype=np.int64)
        order = np.argsort(self.gap, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(self.gap[order])) + 1):
            ticks[part] = self._by_gap[float(self.gap[part[0]])].draw_ticks(batched[part], randomness)
        return ticks


def waits_in_words(mechanism: DelayMechanism, *, gaps: Gaps | None = None, causal: bool = True) -> tuple[str, str]:
    """How long posts wait on average, and at most: what follows from the protocol alone, which is public.

    Parameters are those of :func:`post`.

    >>> from peerveil.timing import FollowUp
    >>> waits_in_words(FollowUp(epsilon=1, gap=600, window=300), causal=False)
    ('Follow-ups wait 12 min 55 s on average, all others 7 min 55 s', 'none longer than 15 min 49 s')
    """
    by_value = read_gaps(gaps)[1] if isinstance(gaps, (str, os.PathLike)) else gaps or {}
    longest = mechanism.hold + mechanism.replace(gap=max(mechanism.gap, *by_value.values(), 0.0)).max_delay
    replies = " (replies may wait for the post that they answer)" if causal else ""
    limit = f"none longer than {in_words(longest)}{replies}" if np.isfinite(longest) else "without an upper limit"
    kind = "Follow-ups" if mechanism.follow_ups_only else "Posts of one sitting"
    means = (mechanism.mean_batched, mechanism.mean_unbatched)
    batched, unbatched = (in_words(mechanism.hold + mean) for mean in means)
    where = f" at a gap of {in_words(mechanism.gap)}" if by_value else ""
    return f"{kind} wait {batched} on average{where}, all others {unbatched}", limit


def _held(mechanism: DelayMechanism, hold: Duration | None, declared: bool) -> tuple[DelayMechanism, int]:
    """The mechanism to draw from, and the hold in microseconds."""
    needs_hold = not (declared or mechanism.follow_ups_only)
    if hold is None:
        return mechanism, mechanism.window_ticks // 1000 if needs_hold else 0
    ticks = read_duration(hold, "hold", zero=True)
    if ticks and not needs_hold:
        want = "none where people declare their batches" if declared else "none: follow-ups depend on the past only"
        raise BadInput("hold", got=hold, want=want)
    if mechanism.follow_ups_only:
        return mechanism, 0
    if mechanism.window_ticks not in (0, ticks):
        raise BadInput("hold", got=hold, want=f"the mechanism's window, {mechanism.window:g}")
    if ticks and not mechanism.window_ticks:
        mechanism = mechanism.replace(window=ticks / TICKS)
    return mechanism, ticks // 1000


def _adopted(events: Events, adopters: Collection[Any] | None) -> Flags:
    if adopters is None:
        return np.ones(len(events), dtype=np.bool_)
    if isinstance(adopters, (str, bytes)) or not isinstance(adopters, Collection):
        raise BadInput("adopters", got=adopters, want="a collection of actors")
    column = events.frame["actor"]
    try:
        return column.is_in(pl.Series(list(adopters), dtype=column.dtype).implode()).to_numpy()
    except (TypeError, pl.exceptions.PolarsError):
        raise BadInput("adopters", got=adopters, want=f"actors of the log ({column.dtype})") from None


def _declared(declared: ArrayLike, mechanism: DelayMechanism, size: int) -> Flags:
    flags = np.asarray(declared)
    if flags.dtype != np.bool_ or flags.shape != (size,):
        got = f"an array of {flags.dtype}, shape {flags.shape}"
        raise BadInput("declared", got=Verbatim(got), want=f"one boolean for each of the {size:,} events")
    if mechanism.follow_ups_only:
        raise BadInput("declared", got=Verbatim("declarations"), want="a symmetric mechanism: FollowUp needs none")
    return flags


def _follows_declaration(declared: Flags, actor: Any, times: Ints, window: float) -> Flags:
    """Which comments are declared, or follow a declared one of the same person within the window."""
    order = np.argsort(actor, kind="stable")
    last = np.maximum.accumulate(np.where(declared[order], np.arange(times.size), -1))
    covered = (last >= 0) & (actor[order][last] == actor[order])
    covered &= times[order] - times[order][last] <= round(window * 1e6)
    return np.asarray(in_place(covered, order))


def _gaps_from_file(events: Events, path: str | os.PathLike[str]) -> tuple[str, dict[Any, float]]:
    """The column of a file of gaps, and the gap in seconds of each of its values in the log."""
    by, seconds = read_gaps(path)
    gaps = {value: seconds[str(value)] for value in events.numbered(by)[1].to_list() if str(value) in seconds}
    if not gaps:
        got = Verbatim(f"{os.fspath(path)}, which has none of them")
        raise BadInput("gaps", got=got, want=f"a gap for at least one {by} of the log")
    return by, gaps


def _gap_of_each(events: Events, mechanism: DelayMechanism, gaps: Mapping[Any, float], by: str) -> Floats:
    """The gap of every event in seconds."""
    if not isinstance(gaps, Mapping):
        raise BadInput("gaps", got=gaps, want="a mapping of values of the column to seconds")
    group, values = events.numbered(by)
    gap_of_value = np.array([gaps.get(value, mechanism.gap) for value in values.to_list()], dtype=np.float64)
    return np.asarray(gap_of_value[group])


def _with_gap(mechanism: DelayMechanism, gap: float, by: str) -> DelayMechanism:
    if gap == mechanism.gap:
        return mechanism
    if not mechanism.window < gap < np.inf:
        want = f"gaps above the mechanism's window ({in_words(mechanism.window)}) for every {by}"
        raise BadInput("gaps", got=gap, want=want)
    return mechanism.replace(gap=gap)
