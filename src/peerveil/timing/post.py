"""Posting a log under a mechanism: what the public then sees, and, apart from it, what only the operator may see."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from peerveil.errors import BadInput
from peerveil.randomness import Randomness
from peerveil.result import Outputs, Result
from peerveil.timing.reading import read_log
from peerveil.timing.schedule import PostingSchedule, prepare_posting

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from peerveil.ledger import Account
    from peerveil.timing.durations import Duration
    from peerveil.timing.mechanism import DelayMechanism
    from peerveil.timing.queue import Queue


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
        """The finding in one line."""
        return f"{len(self):,} comments posted by {self.mechanism}"

    def draw(self, ax: Axes) -> None:
        """Public posts over time."""
        when = self.posts["time"].cast(pl.Int64).to_numpy() / 3.6e9
        ax.hist(when - when[0], bins=min(72, max(10, int(np.ptp(when)) + 1)), color="#2b7bba")
        ax.set_xlabel("hours since the first post")
        ax.set_ylabel("posts")


def post(
    events: Any,
    *,
    mechanism: DelayMechanism | Queue,
    hold: Duration | None = None,
    causal: bool = True,
    declared: ArrayLike | None = None,
    adopters: Collection[Any] | None = None,
    gaps: Mapping[Any, float] | None = None,
    by: str = "thread",
    columns: Mapping[str, str] | None = None,
    account: Account | None = None,
    randomness: Randomness | None = None,
) -> Outputs[Posted, PostingSchedule]:
    """Post a log: draw every delay once; return what the public sees and, apart from it, the operator's schedule.

    Parameters
    ----------
    events
        The log, as it arrived: Events, a pandas or Polars frame with its columns, or a file name. Equal times are
        taken in the order of its rows, or at random where these cannot say: see :mod:`peerveil.timing.order`.
    mechanism
        :class:`FollowUp` (status by predecessor, the default choice), one of the symmetric mechanisms, or
        :class:`Queue`.
    hold
        Seconds: hold every comment that long to see whether it is batched (Algorithm 3). Only symmetric mechanisms
        need it; it is then also their beta, and their noise is built for gap + beta, as the guarantee needs.
    causal
        A reply is posted no earlier than what it answers: at max(its own time, its parent's). This looks only at
        posted times and at the public reply tree, so it is post-processing, and the guarantee is untouched.
    declared
        One boolean per event: the author said on posting "more will follow within beta". That comment and theirs
        within beta after it count as batched, and nothing is held (§5.2). For symmetric mechanisms; the guarantee
        then rests on people's answers.
    adopters
        The actors who use the mechanism; comments of all others are posted at once. Everybody unless given.
    gaps, by
        Another gap for each value of the column ``by`` (such as :func:`choose_gaps` returns); events whose value is
        not in it keep the mechanism's own. Give gaps from earlier data: they are part of the public protocol.
    columns
        Our names for columns that a frame or file calls otherwise: ``{"actor": "user"}``.
    account
        An account of a ledger, debited before any delay is drawn. It refuses the :class:`Queue`, which promises no
        differential privacy.
    randomness
        The secure lane unless given.

    Examples
    --------
    >>> from peerveil.judgements import Events
    >>> from peerveil.timing import FollowUp
    >>> log = Events(actor=["ann", "ann"], thread=["A", "B"], time=[1_700_000_000, 1_700_000_060])
    >>> mechanism = FollowUp(epsilon=1, gap=600, beta=300)
    >>> posted, schedule = post(log, mechanism=mechanism, randomness=Randomness.simulation(1))
    >>> posted.frame().columns, bool((schedule.delay >= 0).all())
    (['id', 'thread', 'author', 'time', 'reply_to'], True)
    """
    log = read_log(events, "events", columns=columns, group=None if gaps is None else by)
    source = Randomness.secure() if randomness is None else randomness
    if not isinstance(source, Randomness):
        raise BadInput("randomness", got=source, want="Randomness.secure() or Randomness.simulation(seed)")
    prepared = prepare_posting(
        log, mechanism, hold=hold, causal=causal, declared=declared, adopters=adopters, gaps=gaps, by=by
    )
    if account is not None:
        account.spend(prepared.guarantee, purpose="delayed posts", data=log, randomness=source)
    schedule = prepared.draw(source)
    posted = Posted(
        guarantee=source.stamp(prepared.guarantee), posts=schedule.public_posts(), mechanism=repr(prepared.mechanism)
    )
    return Outputs(posted, schedule)
