"""The linkage attack: whoever posts twice within a cut-off is taken to be one person (§6 of the paper).

The attacker sees threads and posting times, nothing else, and flags every pair of posts on different threads that
appeared within the cut-off. The *informed* attacker also knows the gap that each group was given, and scales the
cut-off with it. Neither lists pairs: they are counted, so that a month of Wikipedia takes seconds.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from peerveil.audit.claims import register
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.result import Pictured, Result
from peerveil.timing.batches import codes
from peerveil.timing.check import delay_claim, shortened
from peerveil.timing.durations import in_words, read_duration
from peerveil.timing.follow_up import FollowUp
from peerveil.timing.pairs import count_joint, count_within
from peerveil.timing.reading import read_log
from peerveil.timing.schedule import PostingSchedule
from peerveil.timing.unbounded import Exponential, Staircase
from peerveil.timing.zero_inflated import Uniform, ZeroInflatedUniform

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

    from peerveil.audit.claims import Claim
    from peerveil.timing.durations import Duration

    Floats = NDArray[np.float64]
    Whole = NDArray[np.int64]


@dataclass(frozen=True)
class LinkageAttack(Pictured):
    """How well the attack does at each cut-off; arrays of one length.

    Attributes
    ----------
    threshold : array of float
        Cut-offs in seconds, or in gaps for an informed attack.
    flagged, right : arrays of int
        Pairs that the attacker flags, and those of them that were written in one sitting.
    batched : int
        Pairs that were written in one sitting.
    """

    operator_only: ClassVar[bool] = True

    threshold: Floats
    flagged: Whole
    right: Whole
    batched: int
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
    def best(self) -> tuple[float, float, float]:
        """Cut-off, precision and recall where their harmonic mean is largest."""
        i = int(np.argmax(self.f1))
        return float(self.threshold[i]), float(self.precision[i]), float(self.recall[i])

    def precision_at(self, recall: float) -> float:
        """The best precision among cut-offs that reach this recall; 0 if none does."""
        enough = self.recall >= recall
        return float(self.precision[enough].max()) if enough.any() else 0.0

    def frame(self) -> pl.DataFrame:
        """One row per cut-off."""
        return pl.DataFrame(
            {
                "threshold": self.threshold,
                "flagged": self.flagged,
                "right": self.right,
                "precision": self.precision,
                "recall": self.recall,
            }
        )

    def __str__(self) -> str:
        return self.summary()

    def summary(self) -> str:
        """Precision and recall at the best cut-off."""
        cut, precision, recall = self.best
        unit = f"{cut:.3g} gaps" if self.informed else in_words(cut)
        return (
            f"linking posts within {unit} of each other: {100 * precision:.3g}% of the links are correct, and "
            f"{100 * recall:.3g}% of {self.batched:,} pairs written in one sitting are found"
        )

    def draw(self, ax: Axes, label: str = "", **style: Any) -> None:
        """Precision against recall."""
        ax.plot(self.recall, self.precision, label=label or None, **style)
        ax.set(
            xlabel="true pairs found (recall)",
            ylabel="links that are correct (precision)",
            xlim=(0, 1.02),
            ylim=(0, 1.02),
        )


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
    """Attack what was posted, and compare with the truth.

    Parameters
    ----------
    log
        The operator's :class:`PostingSchedule` that :func:`peerveil.timing.post` returned; or a log as it is (Events, a
        frame, a file name), to see the leak without any protection.
    thresholds
        Cut-offs in seconds (for an informed attack in gaps); a useful range unless given.
    window
        Seconds: two comments of one person on different threads that *arrived* this close are a batched pair. The
        mechanism's beta unless given; a raw log needs it.
    within
        One value per event (an array, or the name of a column of a raw log): the attacker compares only posts with
        the same value, such as one category of pages, or one receiving address.
    gaps
        Seconds, one per event and the same within each group of ``within``: an informed attack. ``True`` takes those
        that the log was posted with.
    among
        ``"everybody"``, or ``"adopters"`` / ``"others"``: count as right only pairs of people who did (did not) use
        the mechanism. The attacker, who cannot distinguish them, still flags all.
    columns
        Our names for columns that a frame or file calls otherwise: ``{"actor": "user"}``.

    Examples
    --------
    >>> from peerveil.data import Events
    >>> log = Events(actor=["a", "a", "b"], thread=[1, 2, 3], time=[1e9, 1e9 + 60, 1e9 + 3600])
    >>> attack = linkage_attack(log, thresholds=[120, 7200], window=300)
    >>> attack.precision.round(3).tolist(), attack.recall.tolist()
    ([1.0, 0.333], [1.0, 1.0])
    """
    if isinstance(log, Result):
        want = "a log, or the PostingSchedule that post() returned beside it: what is public does not say who is right"
        raise BadInput("log", got=Verbatim(type(log).__name__), want=want)
    if isinstance(log, PostingSchedule):
        actor, thread, arrival, seen = log.actor, log.thread, log.arrival, log.posted
        adopted, beta, used = log.adopted, log.window, log.gap
    else:
        events = read_log(log, "log", columns=columns, group=within if isinstance(within, str) else None)
        actor, thread, arrival = codes(events)
        seen, adopted, beta, used = arrival, np.ones(arrival.size, dtype=np.bool_), None, None
        if isinstance(within, str):
            within = events.numbered(within)[0]
    if window is None and beta is None:
        raise BadInput("window", got=window, want="seconds within which two comments are a batch, such as 300")
    micro = read_duration(beta if window is None else window, "window", zero=True) // 1000  # type: ignore[arg-type]
    group = _per_event(within, arrival.size)
    scale = _scales(used if gaps is True else gaps, group, arrival.size)
    limits = _limits(thresholds, scale is not None, micro)
    value = (seen - seen.min()).astype(np.float64)
    if scale is not None:
        value /= 1e6 * scale
    cut = limits if scale is not None else limits * 1e6
    counted = _counted(among, adopted)
    owner = joined((group, actor))
    by_value = np.argsort(value, kind="stable")
    with ThreadPoolExecutor(2) as pool:  # sorting and counting leave the interpreter free
        close = pool.submit(_close, group, value, cut, by_value)
        close_here = pool.submit(_close, joined((group, thread)), value, cut, by_value)
        one = pool.submit(_joint, owner, arrival, value, micro, cut, counted)
        one_here = pool.submit(_joint, joined((owner, thread)), arrival, value, micro, cut, counted)
        flagged = close.result() - close_here.result()
        right = one.result() - one_here.result()
    return LinkageAttack(limits, flagged, right[:-1], int(right[-1]), scale is not None)


def _close(key: Whole, value: Floats, cut: Floats, by_value: Whole) -> Whole:
    """Pairs within each cut-off with the same key."""
    ordered = key[by_value]
    if ordered.min() != ordered.max():
        again = np.argsort(ordered, kind="stable")
        by_value, ordered = by_value[again], ordered[again]
    return np.asarray(count_within(ordered, value[by_value], cut))


def _joint(key: Whole, arrival: Whole, value: Floats, micro: int, cut: Floats, counted: Any) -> Whole:
    """Pairs that arrived within the window, by cut-off of their posting times; the last entry is all of them."""
    rows = np.flatnonzero(counted)
    order = rows[np.argsort(key[rows], kind="stable")]  # the log is in order of arrival
    return np.asarray(count_joint(key[order], arrival[order], value[order], micro, cut))


def joined(keys: tuple[Any, ...]) -> Whole:
    """Several columns of codes as one."""
    out = np.asarray(keys[0], dtype=np.int64)
    for key in keys[1:]:
        if not out.any():
            out = np.asarray(key, dtype=np.int64)
            continue
        more = np.asarray(key, dtype=np.int64)
        span = int(more.max()) + 1
        if int(out.max()) > (2**62) // span:
            out = np.unique(out, return_inverse=True)[1].astype(np.int64)
        out = out * span + more
    return out


def _per_event(within: Any, size: int) -> Whole:
    if within is None:
        return np.zeros(size, dtype=np.int64)
    values = np.asarray(within)
    if values.shape != (size,):
        raise BadInput("within", got=Verbatim(f"shape {values.shape}"), want=f"one value for each of {size:,} events")
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _scales(gaps: Any, group: Whole, size: int) -> Floats | None:
    if gaps is None or gaps is False:
        return None
    values = np.asarray(gaps, dtype=float)
    if values.shape != (size,) or not (values > 0).all():
        raise BadInput("gaps", got=Verbatim(f"shape {values.shape}"), want=f"a gap above 0 for each of {size:,} events")
    most = np.zeros(int(group.max()) + 1)
    np.maximum.at(most, group, values)
    if not np.array_equal(most[group], values):
        raise BadInput("gaps", got=Verbatim("several gaps in one group"), want="one gap a group of within=")
    return values


def _limits(thresholds: ArrayLike | None, informed: bool, micro: int) -> Floats:
    if thresholds is None:
        middle = 1.0 if informed else max(micro / 1e6, 1.0)
        return np.unique(np.append(np.geomspace(middle / 100, middle * 100, 25), middle))
    limits = np.atleast_1d(np.asarray(thresholds, dtype=float))
    if limits.ndim != 1 or not limits.size or not (limits >= 0).all():
        raise BadInput("thresholds", got=thresholds, want="seconds, 0 or more")
    return np.unique(limits)


def _counted(among: str, adopted: Any) -> Any:
    if among not in ("everybody", "adopters", "others"):
        raise BadInput("among", got=among, want="'everybody', 'adopters' or 'others'")
    return adopted if among == "adopters" else ~adopted if among == "others" else np.ones(adopted.size, dtype=np.bool_)


@register
def claims() -> Iterator[Claim]:
    """Posting with every mechanism, as it is and with delays that are too short, for the audit's registry."""
    for kind in (FollowUp, ZeroInflatedUniform, Uniform, Exponential, Staircase):
        mechanism = kind(epsilon=1, gap=2700, beta=300)
        yield delay_claim(mechanism)
        yield delay_claim(shortened(mechanism, 0.5), fault="every delay is cut by half")
