"""The linkage attack: posts that appear within a cut-off of each other are taken to be one person's (§6 of the paper).

The attacker sees threads and posting times, nothing else, and flags every pair of posts on different threads that
appeared within the cut-off. The *informed* attacker also knows the gap of each group, and scales the cut-off with it.
Pairs are counted, not listed, so that a month of Wikipedia takes seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from peerveil.audit import Neighbors
from peerveil.audit.claims import Claim, register
from peerveil.core.arrays import Floats, Ints
from peerveil.core.errors import BadInput, Verbatim, one_of
from peerveil.core.exact import number, numbers
from peerveil.core.randomness import Randomness
from peerveil.core.result import Pictured, Result
from peerveil.timing.batches import count_joint, count_within
from peerveil.timing.check import delay_claim, shortened
from peerveil.timing.delays import MECHANISMS, FollowUp
from peerveil.timing.durations import Duration, in_words, read_duration
from peerveil.timing.log import codes, groups_of, read_log
from peerveil.timing.post import PreparedPosting
from peerveil.timing.schedule import PostingSchedule
from peerveil.timing.sittings import Escalation, escalated_posts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.timing.base import DelayMechanism


class CutOff(NamedTuple):
    """A cut-off, and what the attack achieves with it."""

    cut_off: float
    precision: float
    recall: float


@dataclass(frozen=True)
class LinkageAttack(Pictured):
    """Success of the attack at each cut-off; arrays of one length."""

    operator_only: ClassVar[bool] = True

    threshold: Floats
    """Cut-offs in seconds, or in gaps for an informed attack."""
    flagged: Ints
    """Pairs that the attacker flags."""
    right: Ints
    """Those of them that were written in one sitting."""
    batched: int
    """Pairs that were written in one sitting."""
    informed: bool = False

    @property
    def precision(self) -> Floats:
        """Of the flagged pairs, the share that was written in one sitting; 1 where nothing is flagged."""
        return np.where(self.flagged > 0, self.right / np.maximum(self.flagged, 1), 1.0)

    @property
    def recall(self) -> Floats:
        """Of the pairs written in one sitting, the share that is flagged; 0 if there are none."""
        return self.right / max(self.batched, 1)

    @property
    def f1(self) -> Floats:
        """The harmonic mean of both."""
        return 2.0 * self.right / np.maximum(self.flagged + self.batched, 1)

    @property
    def best(self) -> CutOff:
        """Cut-off, precision and recall where their harmonic mean is largest."""
        i = int(np.argmax(self.f1))
        return CutOff(float(self.threshold[i]), float(self.precision[i]), float(self.recall[i]))

    @property
    def at_half(self) -> CutOff:
        """The most precise cut-off that finds half of the true pairs: attacks are compared at equal recall.

        The longest cut-off if none finds half of them.
        """
        enough = self.recall >= 0.5
        i = int(np.argmax(np.where(enough, self.precision, -1.0))) if enough.any() else -1
        return CutOff(float(self.threshold[i]), float(self.precision[i]), float(self.recall[i]))

    def precision_at(self, recall: float) -> float:
        """The best precision among cut-offs that reach this recall; 0 if none does."""
        enough = self.recall >= recall
        return float(self.precision[enough].max()) if enough.any() else 0.0

    def frame(self) -> pl.DataFrame:
        """One row per cut-off."""
        names = ("threshold", "flagged", "right", "precision", "recall")
        return pl.DataFrame({name: getattr(self, name) for name in names})

    def summary(self) -> str:
        """Precision and recall, if about half of the true pairs are found."""
        cut, precision, recall = self.at_half
        unit = f"{cut:.3g} gaps" if self.informed else in_words(cut)
        return (
            f"linking posts within {unit} of each other: {100 * precision:.3g}% of the links are correct, and "
            f"{100 * recall:.3g}% of {self.batched:,} pairs written in one sitting are found"
        )

    def draw(self, ax: Axes, label: str = "", **style: Any) -> None:
        """Precision against recall."""
        ax.plot(self.recall, self.precision, label=label or None, **style)
        words = {"xlabel": "true pairs found (recall)", "ylabel": "links that are correct (precision)"}
        ax.set(**words, xlim=(0, 1.02), ylim=(0, 1.02))


def linkage_attack(
    log: Any,
    *,
    thresholds: ArrayLike | None = None,
    window: Duration | None = None,
    within: Any = None,
    gaps: ArrayLike | None = None,
    among: str = "everybody",
    columns: Mapping[str, str] | None = None,
) -> LinkageAttack:
    """Attack public posting times, and count how many of the links are correct.

    Parameters
    ----------
    log, columns
        The operator's :class:`PostingSchedule` that :func:`peerveil.timing.post` returned; or a log as it is, as in
        :func:`find_batches`, to see the leak without any protection.
    thresholds
        Cut-offs in seconds (for an informed attack in gaps); a useful range by default.
    window
        Seconds: two comments of one person on different threads that *arrived* this close are a batched pair. The
        mechanism's window by default; a raw log needs it.
    within
        One value per event (an array, or the name of a column of a raw log): the attacker compares only posts with
        the same value, such as one category of pages, or one receiving address.
    gaps
        Seconds, one per event and the same within each group of ``within``: an informed attack. ``True`` takes those
        that the log was posted with.
    among
        ``"everybody"``, or ``"adopters"`` / ``"others"``: count as right only pairs of people who did (did not) use
        the mechanism. The attacker, who cannot distinguish them, still flags all.

    Examples
    --------
    >>> from peerveil.data import Events
    >>> log = Events(actor=["a", "a", "b"], thread=[1, 2, 3], time=[1e9, 1e9 + 60, 1e9 + 3600])
    >>> attack = linkage_attack(log, thresholds=[120, 7200], window=300)
    >>> attack.precision.round(3).tolist(), attack.recall.tolist()
    ([1.0, 0.333], [1.0, 1.0])
    """
    if isinstance(log, Result):
        want = "a log, or the PostingSchedule that post() returned beside it: public data alone cannot score an attack"
        raise BadInput("log", got=Verbatim(type(log).__name__), want=want)
    if isinstance(log, PostingSchedule):
        actor, thread, arrival, public, adopted = log.actor, log.thread, log.arrival, log.posted, log.adopted
        window, own_gaps = log.window if window is None else window, log.gap
    else:
        events = read_log(log, "log", columns=columns, group=within)
        actor, thread, arrival = codes(events)
        public, adopted, own_gaps = arrival, np.ones(arrival.size, dtype=np.bool_), None
        within = groups_of(events, within)
    if window is None:
        raise BadInput("window", got=window, want="seconds within which two comments are a batch, such as 300")
    micros = read_duration(window, "window", zero=True) // 1000
    group = _groups(within, arrival.size)
    scale = _scales(own_gaps if gaps is True else gaps, group)
    reach = float((public - arrival).max() + micros) / 1e6 / (1 if scale is None else float(scale.min()))
    limits = _limits(thresholds, scale is not None, micros, reach)
    value, cut = (public - public.min()).astype(np.float64), limits * 1e6
    if scale is not None:
        value, cut = value / (1e6 * scale), limits
    # the events whose pairs count as right
    scored = {"everybody": np.ones(adopted.size, dtype=np.bool_), "adopters": adopted, "others": ~adopted}
    rows = np.flatnonzero(scored[one_of(among, "among", scored)])
    owner = joined_codes(group, actor)
    by_value = np.argsort(value, kind="stable")

    def close(key: Ints) -> Ints:
        """Pairs within each cut-off with the same key."""
        order = by_value[np.argsort(key[by_value], kind="stable")]
        return np.asarray(count_within(key[order], value[order], cut))

    def batched(key: Ints) -> Ints:
        """Pairs that arrived within the window, by cut-off of their posting times; the last entry is all of them."""
        order = rows[np.argsort(key[rows], kind="stable")]  # the log is in order of arrival
        return np.asarray(count_joint(key[order], arrival[order], value[order], micros, cut))

    with ThreadPoolExecutor(2) as pool:  # sorting and counting leave the interpreter free
        pairs = [pool.map(count, (key, joined_codes(key, thread))) for count, key in ((close, group), (batched, owner))]
        flagged, right = (everywhere - on_thread for everywhere, on_thread in pairs)
    return LinkageAttack(limits, flagged, right[:-1], int(right[-1]), scale is not None)


def joined_codes(first: Any, second: Any) -> Ints:
    """Two columns of codes as one."""
    first, second = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
    span = int(second.max()) + 1
    if int(first.max()) > (2**62) // span:
        first = np.unique(first, return_inverse=True)[1].astype(np.int64)
    return np.asarray(first * span + second)


def _groups(within: Any, size: int) -> Ints:
    if within is None:
        return np.zeros(size, dtype=np.int64)
    values = np.asarray(within)
    if values.shape != (size,):
        raise BadInput("within", got=Verbatim(f"shape {values.shape}"), want=f"one value for each of {size:,} events")
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _scales(gaps: Any, group: Ints) -> Floats | None:
    if gaps is None or gaps is False:
        return None
    values = np.asarray(gaps, dtype=float)
    if values.shape != group.shape or not (values > 0).all():
        want = f"a gap above 0 for each of {group.size:,} events"
        raise BadInput("gaps", got=Verbatim(f"shape {values.shape}"), want=want)
    gap_of_group = np.zeros(int(group.max()) + 1)
    gap_of_group[group] = values
    if not np.array_equal(gap_of_group[group], values):
        raise BadInput("gaps", got=Verbatim("several gaps in one group"), want="one gap per group of within=")
    return values


def _limits(thresholds: ArrayLike | None, informed: bool, micros: int, reach: float) -> Floats:
    """The cut-offs; by default up to ``reach``, within which every true pair appears."""
    if thresholds is None:
        middle = 1.0 if informed else max(micros / 1e6, 1.0)
        return np.unique(np.append(np.geomspace(middle / 100, max(middle * 100, reach), 25), middle))
    return np.unique(numbers(thresholds, "thresholds", low=0, want="seconds, 0 or more"))


@dataclass(frozen=True)
class Adoption:
    """Success of the attack when a share of the people uses the mechanism."""

    share: float
    adopters: float
    """The share of their batched pairs that the attack finds, at the cut-off that is best for it overall."""
    others: float
    """The same of everybody else."""
    precision: float
    """Of the pairs that it flags, the share that was written in one sitting."""
    mean_delay: float
    """Seconds, over all posts."""


def partial_adoption(
    events: Any,
    *,
    mechanism: DelayMechanism,
    shares: Sequence[float] = (0.1, 0.5, 1.0),
    window: float | None = None,
    within: Any = None,
    columns: Mapping[str, str] | None = None,
    seed: int = 0,
) -> list[Adoption]:
    """Attack a log of which only some people use the mechanism. A simulation: the delays protect nobody."""
    log = read_log(events, "events", columns=columns, group=within)
    options: dict[str, Any] = {
        "window": mechanism.window if window is None else window,
        "within": groups_of(log, within),
    }
    people = log.frame["actor"].unique().sort()
    rng = np.random.default_rng(seed)
    rows = []
    for share in shares:
        number(share, "shares", 0, 1, want="shares from 0 to 1")
        users = people.gather(np.sort(rng.permutation(len(people))[: round(share * len(people))])).to_list()
        schedule = PreparedPosting(log, mechanism, adopters=users).draw(Randomness.simulation(seed))
        cut, precision, _ = linkage_attack(schedule, **options).best
        adopters, others = (
            float(linkage_attack(schedule, thresholds=[cut], among=among, **options).recall[0])
            for among in ("adopters", "others")
        )
        rows.append(Adoption(share, adopters, others, precision, float(schedule.delay.mean())))
    return rows


@register
def claims() -> Iterator[Claim]:
    """Posting with every mechanism, as it is and with delays that are too short, for the audit's registry."""
    for kind in MECHANISMS.values():
        mechanism = kind(epsilon=1, gap=2700, window=300)
        yield delay_claim(mechanism)
        yield delay_claim(shortened(mechanism, 0.5), fault="every delay is cut by half")
    policy = Escalation(FollowUp(epsilon=1, gap=2700, window=300))
    for fault in (None, "the level counts follow-ups"):
        yield Claim(
            name=f"delays by level{', of follow-ups' if fault else ''}, epsilon {policy.mechanism.epsilon:g}",
            covers=("timing.FollowUp",),  # of which a policy chooses one for every post
            mechanism=partial(escalated_posts, policy, fault is not None),
            pairs=(Neighbors("one sitting, or a gap apart", 0.0, policy.mechanism.gap),),
            guarantee=policy.guarantee,
            samples=20_000,
            fault=fault,
        )
