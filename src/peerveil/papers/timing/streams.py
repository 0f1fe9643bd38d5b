"""Synthetic streams with the rates that the paper prints; its own data are not public."""

from __future__ import annotations

from typing import Any

import numpy as np

from peerveil.core.errors import BadInput
from peerveil.core.exact import whole
from peerveil.data import Events

_START = np.datetime64("2022-01-01T00:00:00", "us")


def wikipedia_like(
    events: int = 13_430,
    *,
    days: float = 31.0,
    batched: float = 0.2,
    quick: float = 0.92,
    burst: float = 0.35,
    pause: float = 3.2,
    seed: int = 0,
) -> Events:
    """Revisions in one category of pages: the paper's number of events, days and share in batches (§6.1).

    A share ``batched`` of the events comes in sittings on different pages. Of the pauses between two of them a share
    ``quick`` is short, ``pause`` seconds on average, and the others are longer than five minutes, with the quartiles that the
    paper's gaps have (11, 33 and 79 minutes). All other events stand alone, a share ``burst`` of them together with
    further revisions of the same page by the same editor. The size of sittings (eight, typically) and the short pauses are
    what the paper does not print; they were chosen so that an attack without protection does about as well as it reports
    (85% recall at 80% precision). Synthetic; the paper's log is not public.
    """
    _positive(events, days)
    rng = np.random.default_rng(seed)
    seconds = days * 86_400
    pages = max(events // 3, 4)
    size = 1 + rng.geometric(1 / 7, max(round(events * batched / 8), 1))
    total, sittings = int(size.sum()), size.size
    owner = np.repeat(np.arange(sittings), size)
    first = np.concatenate([[0], np.cumsum(size)[:-1]])
    long = 60 * np.exp(np.interp(rng.random(total), np.linspace(0, 1, 5), np.log([5.01, 10.908, 32.532, 78.54, 360])))
    pauses = np.where(rng.random(total) < quick, rng.exponential(pause, total) % 300, long)
    pauses[first] = 0
    passed = np.cumsum(pauses)
    together = _hours(rng, sittings, days, seconds)[owner] + passed - passed[first][owner]
    lone = max(events - total, 1)
    again = rng.random(lone) < burst  # a further revision of the same page by the same editor
    again[0] = False
    before = np.maximum.accumulate(np.where(again, 0, np.arange(lone)))
    alone = _hours(rng, lone, days, seconds)[before] + np.where(again, rng.exponential(400, lone), 0)
    return _events(
        np.concatenate([owner, sittings + before]),
        np.concatenate([_pages(rng, total, pages), _pages(rng, lone, pages)[before]]),
        np.concatenate([together, alone]),
    )


def bitcoin_like(
    transfers: int = 300_000,
    *,
    days: float = 14.0,
    batched: float = 0.012,
    fresh: float = 0.97,
    known: float = 0.8,
    pace: float = 67 * 60.0,
    spread: float = 1.2,
    seed: int = 0,
) -> Events:
    """Transfers to receiving addresses, a share of them in pairs within a minute, with the paper's rates (§6.2).

    As in the paper, whoever sends to one receiver from several addresses within a minute is taken to be one person, so
    the actor is the receiver and the thread the sending address.

    Parameters
    ----------
    transfers, days
        How many, over how long. (The paper has 250,000 a day.)
    batched
        The share of transfers that come in a pair: 1.2%.
    fresh
        Of the others, the share that goes to an address without history ("more than 90%").
    known
        Of those in pairs, the share that goes to an address with history: 80%.
    pace, spread
        Seconds between transfers to an address with history, as a pair typically finds it (a median), and the standard
        deviation of its logarithm. Not in the paper; chosen so that at epsilon 1 about 70% of the pairs wait less than two
        hours, as it reports.
    """
    _positive(transfers, days)
    rng = np.random.default_rng(seed)
    seconds = days * 86_400
    pairs = max(round(transfers * batched / 2), 2)
    lone = transfers - 2 * pairs
    want = max((1 - fresh) * lone, 10.0)
    # an address is found by a pair in proportion to its traffic, 1/pace, which shifts a log-normal pace by spread^2
    typical = pace * np.exp(spread**2)
    each = seconds / typical * np.exp(spread**2 / 2)
    paces = typical * np.exp(spread * rng.standard_normal(max(round(want / each), 3)))
    paces = np.maximum(paces, 120.0)
    visits = rng.poisson(seconds / paces)
    visits[0] += 1
    busy = np.repeat(np.arange(paces.size), visits)
    single = max(lone - busy.size, 0)
    share = visits / visits.sum()
    at_known = rng.random(pairs) < known
    target = np.where(at_known, rng.choice(paces.size, pairs, p=share), paces.size + single + np.arange(pairs))
    moment = rng.random(pairs) * (seconds - 60)
    actor = np.concatenate([busy, paces.size + np.arange(single), target, target])
    when = np.concatenate([rng.random(busy.size + single) * seconds, moment, moment + rng.random(pairs) * 60])
    return _events(actor, np.arange(actor.size), when)


def _hours(rng: Any, count: int, days: float, seconds: float) -> Any:
    """Moments with a daily rhythm: fewer in the small hours."""
    moment = rng.random(3 * count + 20) * seconds
    moments = moment[rng.random(moment.size) < 0.65 + 0.35 * np.sin(moment / 86_400 * 2 * np.pi)]
    if moments.size < count:
        moments = np.concatenate([moments, rng.random(count) * days * 86_400])
    return moments[:count]


def _pages(rng: Any, count: int, pages: int) -> Any:
    return (pages * rng.random(count) ** 2).astype(np.int64)


def _positive(count: int, days: float) -> None:
    whole(count, "events", 4)
    if not 0 < days <= 10_000:
        raise BadInput("days", got=days, want="a number of days above 0")


def _events(actor: Any, thread: Any, seconds: Any) -> Events:
    time = _START + (seconds * 1e6).astype(np.int64).astype("timedelta64[us]")
    return Events(actor=actor.astype(np.int64), thread=thread.astype(np.int64), time=time)
