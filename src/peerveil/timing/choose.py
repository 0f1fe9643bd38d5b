"""Choosing the gap from history: by the share to cover, or by the error to leave the attacker."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data import Events
from peerveil.data.table import is_frame
from peerveil.timing.batches import codes
from peerveil.timing.durations import read_duration
from peerveil.timing.reading import read_log

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from peerveil.core.exact import Number
    from peerveil.timing.durations import Duration

    Floats = NDArray[np.float64]
    Between = Literal["actor", "thread", "all"]


def intervals(
    history: Any, *, between: Between = "actor", beta: Duration = 0, columns: Mapping[str, str] | None = None
) -> Floats:
    """Seconds between consecutive events, from which a gap is chosen.

    Parameters
    ----------
    history
        Earlier events: last year's conference, last week's edits.
    between
        ``"actor"``: one person's consecutive posts on different threads, which is what neighbors are made of;
        ``"thread"``: consecutive posts of a thread, whoever wrote them; ``"all"``: consecutive posts of the log.
    beta
        Leave out intervals up to this, which are sittings. (With 0 only simultaneous posts are left out.)
    columns
        Our names for columns that a frame or file calls otherwise: ``{"actor": "user"}``.
    """
    return _intervals(Events.of(history, "history", columns=columns), between, beta)[0]


def choose_gap(
    history: Any,
    *,
    percentile: float | None = None,
    crossover: float | None = None,
    epsilon: Number | None = None,
    between: Between = "actor",
    beta: Duration = 0,
    columns: Mapping[str, str] | None = None,
) -> float:
    """The gap in seconds, from history and either a percentile or the attacker's error that is wanted.

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
    between, beta, columns
        As in :func:`intervals`, where history is a log.

    Examples
    --------
    A cross-over of 1/4 at epsilon 0.8 asks for the 75th percentile, the paper's example:

    >>> choose_gap(range(1, 101), crossover=0.25, epsilon=0.8)
    75.0
    >>> choose_gap(range(1, 101), crossover=0.4, epsilon=0.8)
    Traceback (most recent call last):
        ...
    peerveil.core.errors.BadInput: crossover: got 0.4, need at most 1/(1 + e^epsilon) = 0.310026: no gap does more
    """
    values = _sample(history, between, beta, columns)
    return _quantile(values, _share(percentile, crossover, epsilon))


def choose_gaps(
    history: Any,
    *,
    percentile: float | None = None,
    per: str = "thread",
    crossover: float | None = None,
    epsilon: Number | None = None,
    between: Between = "thread",
    beta: Duration = 0,
    least: int = 5,
    default: Duration | None = None,
    columns: Mapping[str, str] | None = None,
) -> dict[Any, float]:
    """One gap for each thread, or for each value of another column of the log, as :func:`peerveil.timing.post` takes them.

    Groups with fewer than ``least`` intervals get ``default`` (seconds), or the gap of the whole history.
    """
    history = read_log(history, "history", columns=columns, group=per)
    share = _share(percentile, crossover, epsilon)
    values, rows = _intervals(history, between, beta)
    if not values.size and default is None:
        raise BadInput("history", got=Verbatim("no intervals"), want="events that follow one another, or default=")
    codes_, names = history.numbered(per)
    fallback = read_duration(default, "default") / 1e9 if default is not None else _quantile(values, share)
    group = codes_[rows]
    order = np.lexsort((values, group))
    group, values = group[order], values[order]
    edges = np.searchsorted(group, np.arange(len(names) + 1))
    counts = np.diff(edges)
    # the smallest value that at least the wanted share of a group does not exceed
    place = edges[:-1] + np.maximum(np.ceil(share * counts - 1e-9).astype(np.int64) - 1, 0)
    enough = counts >= max(least, 1)
    gaps = np.full(len(names), fallback)
    gaps[enough] = values[place[enough]]
    return dict(zip(names.to_list(), gaps.tolist(), strict=True))


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


def read_gaps_of(events: Events, path: str | os.PathLike[str]) -> tuple[str, dict[Any, float]]:
    """The column of a file of gaps, and the gap of each of its values in a log, as :func:`peerveil.timing.post` takes them."""
    by, seconds = read_gaps(path)
    values = events.numbered(by)[1].to_list()
    gaps = {value: seconds[str(value)] for value in values if str(value) in seconds}
    if not gaps:
        want = f"a gap for at least one {by} of the log"
        raise BadInput("gaps", got=Verbatim(f"{os.fspath(path)}, which has none of them"), want=want)
    return by, gaps


def covered(
    history: Any,
    *,
    gap: Duration,
    between: Between = "actor",
    beta: Duration = 0,
    columns: Mapping[str, str] | None = None,
) -> float:
    """F(g): the share of history's intervals that a gap covers."""
    values = _sample(history, between, beta, columns)
    return float(np.mean(values <= read_duration(gap, "gap") / 1e9))


def _intervals(history: Events, between: str, beta: Duration) -> tuple[Floats, NDArray[np.int64]]:
    """Intervals in seconds, and the row of the later event of each."""
    micro = read_duration(beta, "beta", zero=True) // 1000
    actor, thread, times = codes(history)
    if between == "all":
        order = np.arange(times.size)
        follows = np.ones(max(times.size - 1, 0), dtype=np.bool_)
    elif between == "thread":
        order = np.argsort(thread, kind="stable")
        follows = thread[order][1:] == thread[order][:-1]
    elif between == "actor":
        order = np.argsort(actor, kind="stable")
        follows = (actor[order][1:] == actor[order][:-1]) & (thread[order][1:] != thread[order][:-1])
    else:
        raise BadInput("between", got=between, want="'actor', 'thread' or 'all'")
    waits = np.diff(times[order])
    chosen = follows & (waits > micro)
    return waits[chosen] / 1e6, order[1:][chosen]


def _sample(history: Any, between: str, beta: Duration, columns: Mapping[str, str] | None) -> Floats:
    if isinstance(history, Events | str | os.PathLike) or is_frame(history):
        values = _intervals(Events.of(history, "history", columns=columns), between, beta)[0]
        if not values.size:
            got = Verbatim("no two events that follow one another outside a sitting")
            raise BadInput("history", got=got, want="a longer history, or intervals in seconds")
        return values
    values = np.asarray(list(history) if isinstance(history, range) else history, dtype=float)
    if values.ndim != 1 or not values.size or not np.isfinite(values).all() or (values <= 0).any():
        raise BadInput("history", got=history, want="an Events table, or intervals in seconds above 0")
    return values


def _share(percentile: float | None, crossover: float | None, epsilon: Number | None) -> float:
    """The share of history that the gap has to cover."""
    if (percentile is None) is (crossover is None):
        raise BadInput("percentile", got=percentile, want="either percentile= or crossover= with epsilon=")
    if percentile is not None:
        if isinstance(percentile, bool) or not 0 < percentile <= 100:
            raise BadInput("percentile", got=percentile, want="a number above 0, at most 100")
        return float(percentile) / 100
    if epsilon is None:
        raise BadInput("epsilon", got=None, want="the epsilon of the mechanism, with crossover=")
    from peerveil.core.guarantee import read_epsilon

    growth = math.exp(read_epsilon(epsilon))
    assert crossover is not None
    if not 0 < crossover < 1:
        raise BadInput("crossover", got=crossover, want="an error between 0 and 1/2")
    share = crossover * growth / (1 - crossover)
    if share > 1:
        want = f"at most 1/(1 + e^epsilon) = {1 / (1 + growth):.6g}: no gap does more"
        raise BadInput("crossover", got=crossover, want=want)
    return share


def _quantile(values: Floats, share: float) -> float:
    """The smallest value that at least this share of the sample does not exceed."""
    place = max(math.ceil(share * values.size - 1e-9) - 1, 0)
    return float(np.partition(values, place)[place])
