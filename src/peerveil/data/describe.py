"""What is in a table: counts, spreads, the distribution of what was judged, and what is missing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.arrays import Floats, Ints
from peerveil.core.errors import BadInput
from peerveil.core.result import Pictured
from peerveil.data.events import Events
from peerveil.data.labels import Labels
from peerveil.data.orders import tied_rows
from peerveil.data.rankings import Rankings
from peerveil.data.reviews import Reviews
from peerveil.data.table import Table, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST_BINS: Final = 20
_LONGEST_LABEL: Final = 24  # characters of a name in a figure
Facts = dict[str, int | float | str]


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """A column, its meaning, and how many of its values are missing."""

    name: str
    meaning: str
    missing: int


@dataclass(frozen=True, slots=True)
class Distribution:
    """How many reviews (``counted``) have which score (``by``): one count per value or range of values."""

    counted: str
    by: str
    bins: tuple[str, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class TableDescription(Pictured):
    """What :func:`describe` found.

    For the operator alone: the figures are exact, so they are not protected and must not be published.
    """

    kind: str  #: ``"Reviews"``, ``"Events"``, ``"Rankings"`` or ``"Labels"``.
    headline: str  #: The table in one line.
    facts: Facts  #: Numbers, and times as text, by name.
    columns: tuple[ColumnDescription, ...]
    distribution: Distribution  #: Of scores, times, first places or answers, in at most 20 bins and one for all others.
    notes: tuple[str, ...]  #: What the reader left out of the file.

    def summary(self) -> str:
        """The table in one line."""
        return self.headline

    def __str__(self) -> str:
        return "\n".join([self.headline, *(_printable(f"{name}: {value}") for name, value in self.frame().rows())])

    def frame(self) -> pl.DataFrame:
        """One row per fact: its name and its value, as text."""
        shares = self.distribution
        bins = zip(shares.bins, shares.counts, strict=True)
        rows: list[tuple[str, Any]] = [
            ("table", self.kind),
            *self.facts.items(),
            *((f"column {column.name}", column.meaning) for column in self.columns),
            ("missing values", sum(column.missing for column in self.columns)),
            *((f"missing values in column {column.name}", column.missing) for column in self.columns if column.missing),
            *((f"{shares.counted} with {shares.by} {value}", count) for value, count in bins),
            *(("note", note) for note in self.notes),
        ]
        return pl.DataFrame({"name": [name for name, _ in rows], "value": [str(value) for _, value in rows]})

    def draw(self, ax: Axes) -> None:
        """The distribution as bars."""
        names = map(_printable, self.distribution.bins)
        labels = [name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 1]}…" for name in names]
        slanted: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        ax.bar(range(len(labels)), self.distribution.counts)
        ax.set_xticks(range(len(labels)), labels, parse_math=False, **(slanted if max(map(len, labels)) > 4 else {}))
        ax.set_xlabel(self.distribution.by)
        ax.set_ylabel(self.distribution.counted)


Described = tuple[str, Facts, Distribution]  # headline, facts, and how the values are spread


def describe(table: Reviews | Events | Rankings | Labels) -> TableDescription:
    """Describe a table: its size, who and what is in it, the distribution of its values, and what is missing.

    For the operator alone: the figures are exact, so they are not protected and must not be published.

    Parameters
    ----------
    table : Reviews, Events, Rankings or Labels
        ``Reviews.of(data)`` and the like make one of a DataFrame or a path.

    Examples
    --------
    >>> reviews = Reviews(paper=[1, 1, 2], reviewer=["ann", "bo", "ann"], score=[6, 8, 3])
    >>> print(describe(reviews).summary())
    3 reviews of 2 papers by 2 reviewers, 1 to 2 per paper; scores 3 to 8, median 6
    >>> describe(reviews).facts["reviews per paper (median)"]
    1.5
    """
    if type(table) not in _KINDS:
        want = "Reviews, Events, Rankings or Labels (Reviews.of(data) makes reviews of a DataFrame or a path)"
        raise BadInput("table", got=table, want=want)
    headline, facts, distribution = _KINDS[type(table)](table)
    facts = {"rows": len(table), **facts}
    return TableDescription(type(table).__name__, headline, facts, _columns(table), distribution, table.notes)


def _columns(table: Table) -> tuple[ColumnDescription, ...]:
    if not isinstance(table, Rankings):
        return tuple(
            ColumnDescription(column.name, table._schema[column.name].meaning, column.null_count())
            for column in table.frame
        )
    missing = zip(table.items, (table.counts @ (table.ranks < 0)).tolist(), strict=True)
    ranks = (ColumnDescription(name, "rank of this item; 0 is the best", count) for name, count in missing)
    return ColumnDescription("count", "how often the ranking occurred", 0), *ranks


def _reviews(table: Reviews) -> Described:
    facts = {**_groups(table, "reviews"), **_score_facts(table.scores), "criteria": len(table.criteria)}
    if table.has_times:
        facts |= _time_facts(table, "review")
    scores = f"scores {_range(facts, 'score')}, median {facts['score (median)']:g}"
    headline = f"{table._size}, {_range(facts, 'reviews per paper')} per paper; {scores}"
    return headline, facts, _score_distribution(table.scores)


def _events(table: Events) -> Described:
    replies = table.frame["reply_to"].count() if table.has_replies else 0
    facts = {**_groups(table, "events"), "replies": replies, **_time_facts(table, "event")}
    return table.headline, facts, _time_distribution(table.times)


def _rankings(table: Rankings) -> Described:
    ranks, counts = table.ranks, table.counts
    partial, tied = (ranks < 0).any(axis=1), tied_rows(ranks)
    facts: Facts = {
        "rankings": table.total,
        "items": len(table.items),
        "complete rankings": int(counts[~partial & ~tied].sum()),
        "rankings that leave items out": int(counts[partial].sum()),
        "rankings with ties": int(counts[tied].sum()),
        **_spread("items per ranking", (ranks >= 0).sum(axis=1), counts),
    }
    first_places = dict(zip(table.items, (counts @ (ranks == 0)).tolist(), strict=True))
    return table.headline, facts, _most_frequent("rankings", "first place", first_places)


def _labels(table: Labels) -> Described:
    answers = table.members.frame["label"].value_counts().sort("label")
    again = {"answers by a worker who had answered the task before": table.repeated}
    facts = {**_groups(table, "answers"), "classes": answers.height, **again}
    if table.has_truth:
        facts["tasks with a known correct answer"] = table._known_tasks
    counts = dict(zip(map(str, answers["label"]), answers["count"], strict=True))
    headline = f"{table.headline}; {plural(answers.height, 'class', 'classes')}"
    return headline, facts, _most_frequent("answers", "label", counts)


_KINDS: Final[dict[type, Any]] = {Reviews: _reviews, Events: _events, Rankings: _rankings, Labels: _labels}


def _groups(table: Table, rows: str) -> Facts:
    """How many people and things there are, and how many rows for each of them."""
    facts: Facts = {}
    for name in table._counted:
        codes, values = table.numbered(name)
        sizes = np.bincount(codes)
        facts |= {f"{name}s": len(values), **_spread(f"{rows} per {name}", sizes, np.ones_like(sizes))}
    return facts


def _spread(name: str, values: Ints, counts: Ints) -> dict[str, int | float]:
    """Minimum, median and maximum of values that occurred ``counts`` times each."""
    order = np.argsort(values)
    until = np.cumsum(counts[order])
    middle = [int(values[order[np.searchsorted(until, place)]]) for place in ((until[-1] + 1) // 2, until[-1] // 2 + 1)]
    median = sum(middle) / 2
    return {
        f"{name} (min)": int(values.min()),
        f"{name} (median)": int(median) if median.is_integer() else median,
        f"{name} (max)": int(values.max()),
    }


def _range(facts: Facts, name: str) -> str:
    low, high = facts[f"{name} (min)"], facts[f"{name} (max)"]
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _score_facts(scores: Floats) -> dict[str, int | float]:
    scaled, unit = _scaled(scores)
    return {
        "score (min)": float(scores.min()),
        "score (median)": float(np.median(scaled)) * unit,
        "score (mean)": float(f"{float(scaled.mean()) * unit:.6g}"),
        "score (max)": float(scores.max()),
        "score (standard deviation)": float(f"{float(scaled.std()) * unit:.6g}"),
        "distinct scores": np.unique(scores).size,
    }


def _scaled(scores: Floats) -> tuple[Floats, float]:
    """Scores as multiples (at most 2) of a power of two: exact, and their sum and range can be computed."""
    largest = float(np.abs(scores).max())
    unit = 2.0 ** (math.frexp(largest)[1] - 1) if largest else 1.0
    return scores / unit, unit


def _time_facts(table: Table, noun: str) -> Facts:
    times = table.frame["time"].sort()
    first, last = times[0], times[-1]
    return {
        f"first {noun}": first.isoformat(),
        f"last {noun}": last.isoformat(),
        "time span (seconds)": (last - first).total_seconds(),
    }


def _score_distribution(scores: Floats) -> Distribution:
    values, counts = np.unique(scores, return_counts=True)
    if values.size <= MOST_BINS:
        return Distribution("reviews", "score", _numbers(values.tolist()), tuple(counts.tolist()))
    scaled, unit = _scaled(scores)
    edges = np.unique(np.linspace(scaled.min(), scaled.max(), MOST_BINS + 1))
    written = _numbers((edges * unit).tolist())
    ranges = tuple(f"{low} to {high}" for low, high in pairwise(written))
    return Distribution("reviews", "score", ranges, tuple(np.histogram(scaled, edges)[0].tolist()))


def _numbers(values: Sequence[float]) -> tuple[str, ...]:
    """Numbers as text, short if that keeps them apart."""
    short = tuple(f"{value:.6g}" for value in values)
    return short if len(set(short)) == len(values) else tuple(repr(value) for value in values)


def _time_distribution(times: Ints) -> Distribution:
    """Events in intervals of equal length, each named by its start (microseconds since 1970)."""
    first, length = int(times[0]), int(times[-1]) - int(times[0])
    starts = np.unique([first + length * i // MOST_BINS for i in range(MOST_BINS)])
    counts = np.bincount(np.searchsorted(starts, times, side="right") - 1, minlength=starts.size)
    texts = (np.datetime_as_string(starts.astype("datetime64[us]"), unit=unit) for unit in ("D", "m", "s", "us"))
    labels = next(labels for labels in texts if len(set(labels)) == starts.size)  # as short as keeps them apart
    return Distribution("events", "time from", tuple(labels.tolist()), tuple(counts.tolist()))


def _most_frequent(counted: str, by: str, counts: Mapping[str, int]) -> Distribution:
    """The most frequent values, and all others together."""
    order = sorted(counts, key=lambda value: -counts[value])
    shown, rest = order[:MOST_BINS], order[MOST_BINS:]
    others = {f"({len(rest):,} others)": sum(counts[value] for value in rest)} if rest else {}
    bins = {value: counts[value] for value in shown} | others
    return Distribution(counted, by, tuple(bins), tuple(bins.values()))


def _printable(text: str) -> str:
    """On one line, without control characters."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
