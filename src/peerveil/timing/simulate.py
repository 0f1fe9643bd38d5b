"""Streams made up to look like the paper's, whose data cannot be had; and adoption by a part of the people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.errors import BadInput
from peerveil.judgements import Events
from peerveil.randomness import Randomness
from peerveil.timing.adversary import linkage_attack
from peerveil.timing.post import post

if TYPE_CHECKING:
    from collections.abc import Sequence

    from peerveil.timing.mechanism import DelayMechanism

_START = np.datetime64("2022-01-01T00:00:00", "us")


def wikipedia_like(
    events: int = 13_430,
    *,
    days: float = 31.0,
    batched: float = 0.2,
    quick: float = 0.92,
    burst: float = 0.35,
    seed: int = 0,
) -> Events:
    """Revisions in one category of pages: the paper's number of events, days and share in batches (§6.1).

    A share ``batched`` of the events comes in sittings on different pages (a typical editor goes through eight of them),
    with pauses of seconds, of which a share ``quick`` is below five minutes; the others stand alone, a share ``burst`` of
    them together with further revisions of the same page by the same editor. Made so that an attack without protection
    does about as well as the paper reports (85% recall at 80% precision). Invented; the paper's log is not public.
    """
    _positive(events, days)
    rng = np.random.default_rng(seed)
    seconds = days * 86_400
    editors, pages = max(events // 4, 3), max(events // 3, 4)
    who, where, when = [], [], []
    sittings = max(round(events * batched / 8), 1)
    size = 1 + rng.geometric(1 / 7, sittings)
    total = int(size.sum())
    owner = np.repeat(np.arange(size.size), size)
    first = np.concatenate([[0], np.cumsum(size)[:-1]])
    pause = np.where(rng.random(total) < quick, rng.exponential(7, total) % 300, 300 + rng.exponential(1200, total))
    pause[first] = 0
    passed = np.cumsum(pause)
    start = _hours(rng, size.size, days, seconds)
    who.append(rng.integers(0, editors, size.size)[owner])
    where.append(_pages(rng, total, pages))
    when.append(start[owner] + passed - passed[first][owner])
    lone = max(events - total, 1)
    who.append(rng.integers(0, editors, lone))
    where.append(_pages(rng, lone, pages))
    moments = _hours(rng, lone, days, seconds)
    again = rng.random(lone) < burst
    again[0] = False
    before = np.maximum.accumulate(np.where(again, 0, np.arange(lone)))
    who[1], where[1] = who[1][before], where[1][before]
    when.append(moments[before] + np.where(again, rng.exponential(400, lone), 0))
    return _events(np.concatenate(who), np.concatenate(where), np.concatenate(when))


def bitcoin_like(
    addresses: int = 4_000, *, days: float = 7.0, batched: float = 0.012, busy: float = 0.1, seed: int = 0
) -> Events:
    """Transfers to receiving addresses, a share of them in batches within a minute (§6.2).

    As in the paper, whoever sends to one receiver from several addresses within a minute is taken to be one person, so
    the actor is the receiver and the thread the sending address. A share ``busy`` of receivers gets transfers all
    the time, at their own pace (minutes to days); the others a single one. ``batched`` is the share of all transfers
    that come in a pair, most of them to busy receivers. Invented; the paper's data are not public.
    """
    _positive(addresses, days)
    rng = np.random.default_rng(seed)
    seconds = days * 86_400
    many = max(round(addresses * busy), 1)
    # the paper leaves out addresses with an unusual volume: nobody gets more than two an hour
    pace = np.maximum(np.exp(rng.normal(np.log(3 * 3600), 1.6, many)), 1800.0)
    count = np.maximum(rng.poisson(seconds / pace), 1)
    receiver = np.repeat(np.arange(many), count)
    when = rng.random(receiver.size) * seconds
    lone = addresses - many
    receiver = np.concatenate([receiver, many + np.arange(lone)])
    when = np.concatenate([when, rng.random(lone) * seconds])
    pairs = max(round(batched / 2 * receiver.size), 1)
    to_busy = rng.random(pairs) < 0.8
    target = np.where(to_busy, rng.integers(0, many, pairs), many + rng.integers(0, max(lone, 1), pairs))
    moment = rng.random(pairs) * seconds
    partner = moment + rng.random(pairs) * 60
    actor = np.concatenate([receiver, target, target])
    return _events(actor, np.arange(actor.size), np.concatenate([when, moment, partner]))


def many_events(events: int, *, days: float = 31.0, seed: int = 0) -> Events:
    """A large log for measuring speed: half of the events in sittings of one editor, heavy-tailed editors and pages."""
    _positive(events, days)
    rng = np.random.default_rng(seed)
    editors = max(events // 8, 2)
    sittings = max(events * 2 // 3, 1)
    owner = np.sort(rng.integers(0, sittings, events))
    start = rng.random(sittings) * days * 86_400
    who = (editors * rng.random(sittings) ** 2).astype(np.int64)
    pause = rng.exponential(90, events)
    pause[np.concatenate([[True], owner[1:] != owner[:-1]])] = 0
    passed = np.cumsum(pause)
    opening = np.searchsorted(owner, owner)
    when = start[owner] + passed - passed[opening]
    return _events(who[owner], (max(events // 3, 2) * rng.random(events) ** 2).astype(np.int64), when)


@dataclass(frozen=True)
class Adoption:
    """What the attack does when a part of the people uses the mechanism.

    Attributes
    ----------
    share : float
        The share of people who do.
    adopters, others : float
        The share of their batched pairs that the attack finds, at the cut-off that is best for it overall.
    precision : float
        Of the pairs that it flags, the share that was written in one sitting.
    """

    share: float
    adopters: float
    others: float
    precision: float
    mean_delay: float


def partial_adoption(
    events: Events,
    mechanism: DelayMechanism,
    shares: Sequence[float] = (0.1, 0.5, 1.0),
    *,
    window: float | None = None,
    within: Any = None,
    seed: int = 0,
) -> list[Adoption]:
    """Attack a log of which only some people use the mechanism. A simulation: the delays protect nobody."""
    window = mechanism.beta if window is None else window
    people = events.frame["actor"].unique().sort()
    rng = np.random.default_rng(seed)
    found = []
    for share in shares:
        if not 0 <= share <= 1:
            raise BadInput("shares", got=shares, want="shares from 0 to 1")
        users = people.gather(np.sort(rng.permutation(len(people))[: round(share * len(people))])).to_list()
        posted = post(events, mechanism, adopters=users, randomness=Randomness.simulation(seed))
        attack = linkage_attack(posted, window=window, within=within)
        cut, precision, _ = attack.best
        mine, theirs = (
            linkage_attack(posted, [cut], window=window, within=within, among=among) for among in ("adopters", "others")
        )
        found.append(
            Adoption(share, float(mine.recall[0]), float(theirs.recall[0]), precision, float(posted.truth.delay.mean()))
        )
    return found


def _hours(rng: Any, count: int, days: float, seconds: float) -> Any:
    """Moments with a daily rhythm: fewer in the small hours."""
    moment = rng.random(3 * count + 20) * seconds
    kept = moment[rng.random(moment.size) < 0.65 + 0.35 * np.sin(moment / 86_400 * 2 * np.pi)]
    if kept.size < count:
        kept = np.concatenate([kept, rng.random(count) * days * 86_400])
    return kept[:count]


def _pages(rng: Any, count: int, pages: int) -> Any:
    return (pages * rng.random(count) ** 2).astype(np.int64)


def _positive(count: int, days: float) -> None:
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 4:
        raise BadInput("events", got=count, want="a whole number, at least 4")
    if not 0 < days <= 10_000:
        raise BadInput("days", got=days, want="a number of days above 0")


def _events(actor: Any, thread: Any, seconds: Any) -> Events:
    time = _START + (seconds * 1e6).astype(np.int64).astype("timedelta64[us]")
    return Events(actor=actor.astype(np.int64), thread=thread.astype(np.int64), time=time)
