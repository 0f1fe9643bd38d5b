"""Posting a log under a mechanism: what the public then sees, and, apart from it, what only the operator may see."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput
from peerveil.core.randomness import Randomness
from peerveil.core.result import Outputs, Result
from peerveil.timing.choose import read_gaps
from peerveil.timing.durations import in_words
from peerveil.timing.follow_up import FollowUp
from peerveil.timing.reading import read_log
from peerveil.timing.schedule import Gaps, PostingSchedule, prepare_posting
from peerveil.timing.unbounded import Exponential, Staircase
from peerveil.timing.zero_inflated import Uniform, ZeroInflatedUniform

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from peerveil.core.exact import Number
    from peerveil.ledger import Account
    from peerveil.timing.durations import Duration
    from peerveil.timing.mechanism import DelayMechanism
    from peerveil.timing.queue import Queue


MECHANISMS: Final[Mapping[str, Any]] = {
    "follow-up": FollowUp,
    "zero-inflated": ZeroInflatedUniform,
    "uniform": Uniform,
    "exponential": Exponential,
    "staircase": Staircase,
}
WEIGHTED: Final = ("follow-up", "zero-inflated")
"""Those that can minimize a weighted mean of the delays of batched and of other comments."""


def named_mechanism(
    name: str, *, epsilon: Number, gap: Duration, beta: Duration, weight: float = 1.0
) -> DelayMechanism:
    """A delay mechanism by its name; ``weight`` is for those that are :data:`WEIGHTED`.

    >>> named_mechanism("uniform", epsilon=1, gap=600, beta=300)
    Uniform(epsilon=1, gap=600, beta=300)
    """
    if name not in MECHANISMS:
        raise BadInput("mechanism", got=name, want=f"one of {', '.join(MECHANISMS)}")
    options = {"weight": weight} if name in WEIGHTED else {}
    mechanism: DelayMechanism = MECHANISMS[name](epsilon=epsilon, gap=gap, beta=beta, **options)
    return mechanism


def waits_in_words(mechanism: DelayMechanism, *, gaps: Gaps | None = None, causal: bool = True) -> tuple[str, str]:
    """How long posts wait on average, and at most: what follows from the protocol alone, which is public.

    Parameters are those of :func:`post`.

    >>> waits_in_words(FollowUp(epsilon=1, gap=600, beta=300), causal=False)
    ('Follow-ups wait 12.9 min on average, all others 7.91 min', 'none longer than 15.8 min')
    """
    by_value = read_gaps(gaps)[1] if isinstance(gaps, (str, os.PathLike)) else gaps
    longest = mechanism.hold + mechanism.with_gap(max(mechanism.gap, *(by_value or {}).values(), 0.0)).max_delay
    replies = " (replies may wait for the post that they answer)" if causal else ""
    limit = f"none longer than {in_words(longest)}{replies}" if np.isfinite(longest) else "without an upper limit"
    first = "Follow-ups" if mechanism.by_predecessor else "Posts of one sitting"
    batched, unbatched = (
        in_words(mechanism.hold + mean) for mean in (mechanism.mean_batched, mechanism.mean_unbatched)
    )
    where = f" at a gap of {in_words(mechanism.gap)}" if by_value else ""
    return f"{first} wait {batched} on average{where}, all others {unbatched}", limit


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
    gaps: Gaps | None = None,
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
        Another gap for each value of the column ``by`` (such as :func:`choose_gaps` returns), or a file that names the
        column itself (as ``peerveil timing plan --per`` writes it); events whose value is not in it keep the mechanism's
        own. Give gaps from earlier data: they are part of the public protocol.
    columns
        Our names for columns that a frame or file calls otherwise: ``{"actor": "user"}``.
    account
        An account of a ledger, debited before any delay is drawn. It refuses the :class:`Queue`, which promises no
        differential privacy.
    randomness
        The secure lane unless given.

    Examples
    --------
    >>> from peerveil.data import Events
    >>> from peerveil.timing import FollowUp
    >>> log = Events(actor=["ann", "ann"], thread=["A", "B"], time=[1_700_000_000, 1_700_000_060])
    >>> mechanism = FollowUp(epsilon=1, gap=600, beta=300)
    >>> posted, schedule = post(log, mechanism=mechanism, randomness=Randomness.simulation(1))
    >>> posted.frame().columns, bool((schedule.delay >= 0).all())
    (['id', 'thread', 'author', 'time', 'reply_to'], True)
    """
    group = read_gaps(gaps)[0] if isinstance(gaps, (str, os.PathLike)) else None if gaps is None else by
    log = read_log(events, "events", columns=columns, group=group)
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
