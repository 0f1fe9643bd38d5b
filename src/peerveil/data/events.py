"""Events: who posted in which thread, when, and in answer to what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data import columns as col
from peerveil.data.problems import Problems, Source
from peerveil.data.readers.files import Raw
from peerveil.data.readers.recognize import read_raw
from peerveil.data.readers.tabular import shown
from peerveil.data.table import Table, check_names, make_wish, plural, read_only, same_length
from peerveil.data.times import check_now, check_zone, time_series, utc

if TYPE_CHECKING:
    import os
    from datetime import datetime

UnknownReplies = Literal["refuse", "drop"]
_ROW = "row of the input"
_OWN = ("actor", "thread", "time", "id", "reply_to")
# second clocks and counters that platforms publish beside the time: they can give an order away
SECOND_CLOCKS = ("tcdate", "tmdate", "cdate", "mdate", "pdate", "odate", "submitted_at")
ORDER_LEAKS = ("number", "letter", "vtag", *SECOND_CLOCKS)


class Events(Table):
    """Posts in threads, in order of time.

    Parameters
    ----------
    actor
        ids of the people (or pseudonyms) who posted
    thread
        ids of what they posted on: a paper, a page, a topic
    time
        when; see :mod:`peerveil.data.times` for what is understood
    id
        ids of the posts, each once; numbered in order of time (then actor, then thread) if left out
    reply_to
        the id of the post that is answered; missing where there is none
    extra
        mapping of names to further columns, kept as they come (gaps allowed); ``tcdate``, ``number`` and
        other columns that can give an order away are what it is for
    time_zone
        the zone of times that do not say theirs; UTC unless given
    now
        if given, a later event is refused; without it no event is too late
    unknown_replies
        a reply to a post that is not in the table is refused, or with ``"drop"`` becomes a post
        that answers nothing (the notes say how many)

    Notes
    -----
    Events may come in any order; the table holds them sorted by time, equal times in the order they came.

    Examples
    --------
    >>> events = Events(actor=["bo", "ann"], thread=[7, 7], time=["2026-03-01T10:05Z", "2026-03-01T10:00Z"])
    >>> events.frame["actor"].to_list()
    ['ann', 'bo']
    >>> print(events)
    2 events by 2 actors in 1 thread, 2026-03-01 10:00 to 2026-03-01 10:05 UTC
    """

    _required: ClassVar[tuple[str, ...]] = ("actor", "thread", "time")
    _optional: ClassVar[dict[str, str]] = {"id": "which post", "reply_to": "answers what"}
    _kinds: ClassVar[dict[str, str]] = {"time": "time"}
    _core: ClassVar[tuple[str, str, str]] = ("actor", "thread", "time")

    def __init__(
        self,
        *,
        actor: Any,
        thread: Any,
        time: Any,
        id: Any = None,  # noqa: A002
        reply_to: Any = None,
        extra: Mapping[str, Any] | None = None,
        time_zone: str | None = None,
        now: datetime | None = None,
        unknown_replies: UnknownReplies = "refuse",
    ) -> None:
        values = {"actor": actor, "thread": thread, "time": time, "id": id, "reply_to": reply_to}
        given = {name: value for name, value in values.items() if value is not None}
        if extra is not None and not isinstance(extra, Mapping):
            raise BadInput("extra", got=extra, want="a mapping of names to columns")
        raw = Raw(given, Source("Events", in_memory=True), dict(extra or {}))
        self._fill(*_checked(raw, check_zone(time_zone), now, unknown_replies))

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        columns: Mapping[str, str] | None = None,
        *,
        extra: Sequence[str] | None = None,
        time_zone: str | None = None,
        now: datetime | None = None,
        unknown_replies: UnknownReplies = "refuse",
    ) -> Self:
        """From a Polars or pandas frame, or a mapping of columns; ``columns`` gives their names for ours.

        >>> frame = {"user": ["ann"], "page": ["Bird"], "time": [1_700_000_000]}
        >>> Events.from_frame(frame, columns={"actor": "user", "thread": "page"})
        Events(rows=1, actors=1, threads=1)
        """
        raw = _choose_extra(cls._from_any_frame(frame, columns), check_names("extra", extra))
        return cls._wrap(*_checked(raw, check_zone(time_zone), now, unknown_replies))

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        format: str | None = None,  # noqa: A002
        *,
        columns: Mapping[str, str] | None = None,
        extra: Sequence[str] | None = None,
        time_zone: str | None = None,
        now: datetime | None = None,
        unknown_replies: UnknownReplies = "refuse",
    ) -> Self:
        """Read a file: CSV, TSV, JSON lines, Parquet, OpenReview, HotCRP, EasyChair or MediaWiki.

        The format is recognized unless it is given. ``extra`` names further columns to keep; without it those
        that can give an order away (``number``, ``tcdate``, ``letter``, ...) are kept and the others are not.
        """
        zone = check_zone(time_zone)
        raw = read_raw(cls, path, format, make_wish(columns, "extra", extra))
        chosen = _choose_extra(raw, check_names("extra", extra))
        return cls._wrap(*_checked(chosen, zone, now, unknown_replies))

    def _fill(self, frame: pl.DataFrame, notes: Sequence[str] = ()) -> None:
        """The row of the input is kept beside the content: it says nothing about what happened."""
        super()._fill(frame.drop(_ROW, strict=False), notes)
        if _ROW in frame.columns:
            self._cache["rows"] = read_only(frame[_ROW].cast(pl.Int64).to_numpy())

    def __reduce__(self) -> tuple[Any, ...]:
        """With the rows of the input, which say in which order posts of one moment came."""
        rebuild, (kind, frame, notes) = super().__reduce__()
        return rebuild, (kind, frame.with_columns(pl.Series(_ROW, self.rows)), notes)

    @property
    def rows(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The row of the input that each event came from, counted from 1 over the rows that were read; read-only.

        >>> Events(actor=["bo", "ann"], thread=[7, 7], time=["2026-03-01T10:05Z", "2026-03-01T10:00Z"]).rows.tolist()
        [2, 1]
        """
        found: np.ndarray[Any, np.dtype[np.int64]] = self._cache["rows"]
        return found

    @property
    def times(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Microseconds since 1970, in order, as a read-only array."""
        return self.column("time").view(np.int64)

    @property
    def extra(self) -> tuple[str, ...]:
        """The names of the further columns that were kept."""
        return tuple(name for name in self._frame.columns if name not in _OWN)

    @property
    def has_replies(self) -> bool:
        """Whether any event answers another."""
        return "reply_to" in self._frame.columns

    def __repr__(self) -> str:
        parts = [
            f"rows={len(self)}",
            f"actors={self._frame['actor'].n_unique()}",
            f"threads={self._frame['thread'].n_unique()}",
        ]
        if self.extra:
            parts.append(f"extra={list(self.extra)!r}")
        return f"Events({', '.join(parts)})"

    @property
    def headline(self) -> str:
        """The log in one line, without notes on how it was read."""
        first, last = self._frame["time"][0], self._frame["time"][-1]
        text = (
            f"{plural(len(self), 'event')} by {plural(self._frame['actor'].n_unique(), 'actor')} in "
            f"{plural(self._frame['thread'].n_unique(), 'thread')}, "
            f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC"
        )
        if self.has_replies:
            replies = len(self) - self._frame["reply_to"].null_count()
            text += "; " + (f"{replies:,} replies" if replies != 1 else "1 reply")
        return text

    def __str__(self) -> str:
        return "\n".join([self.headline, *self.notes])


def _choose_extra(raw: Raw, extra: tuple[str, ...] | None) -> Raw:
    if extra is None:
        taken = {name: values for name, values in raw.further.items() if name in ORDER_LEAKS}
        return Raw(raw.columns, raw.source, taken, raw.notes)
    absent = [name for name in extra if name not in raw.further]
    if absent:
        raise raw.source.refusal(Verbatim(f"no column {', '.join(absent)}"), f"some of {shown(list(raw.further))}")
    return Raw(raw.columns, raw.source, {name: raw.further[name] for name in extra}, raw.notes)


def _checked(
    raw: Raw, zone: str, now: datetime | None, unknown_replies: UnknownReplies
) -> tuple[pl.DataFrame, list[str]]:
    latest = check_now(now)
    if unknown_replies not in ("refuse", "drop"):
        raise BadInput("unknown_replies", got=unknown_replies, want="'refuse' or 'drop'")
    values = {
        name: time_series(name, value) if name == "time" else col.as_series(name, value)
        for name, value in raw.columns.items()
    }
    extras = {name: _extra_series(name, value) for name, value in raw.further.items()}
    same_length(raw.source.name, {**values, **extras})
    problems = Problems(raw.source)
    series = {
        "actor": col.identifiers("actor", values["actor"], problems, want="an actor's id"),
        "thread": col.identifiers("thread", values["thread"], problems, want="a thread's id"),
        "time": utc("time", values["time"], problems, zone=zone),
    }
    if latest is not None:
        late = series["time"] > latest
        want = f"a time not after {latest:%Y-%m-%dT%H:%M:%SZ}"
        col.refuse_where("time", late, problems, want, lambda row: Verbatim(series["time"][row]))
    for name, value in extras.items():
        series[name] = (
            utc(name, value, problems, zone=zone, nullable=True) if name in SECOND_CLOCKS else col.secondary(value)
        )
    if "id" in values:
        series["id"] = col.identifiers("id", values["id"], problems, want="an event's id")
        _refuse_repeated_ids(series["id"], problems)
    notes = list(raw.notes)
    if "reply_to" in values:
        reply_to = col.identifiers("reply_to", values["reply_to"], problems, nullable=True)
        if reply_to.null_count() < len(reply_to):
            if "id" not in series:
                raise BadInput("reply_to", got=Verbatim("replies"), want="an id column that they refer to")
            problems.raise_any()
            series["reply_to"] = _known_replies(reply_to, series["id"], problems, unknown_replies, notes)
    problems.raise_any()
    order = [name for name in (*_OWN, *extras) if name in series]
    frame = pl.DataFrame([series[name].alias(name) for name in order]).with_row_index(_ROW, offset=1)
    if "id" not in series:
        # numbered by content, so that the numbers do not depend on the order the rows came in
        by = ["time", "actor", "thread", *sorted(extras)]
        frame = frame.sort(by).with_row_index("id").with_columns(pl.col("id").cast(pl.Int64))
        frame = frame.select(_ROW, "actor", "thread", "time", "id", *extras).sort(_ROW)
    if not frame["time"].is_sorted():
        frame = frame.sort("time", maintain_order=True)
    return frame.rechunk(), notes


def _extra_series(name: str, value: Any) -> pl.Series:
    if not isinstance(name, str) or not name.strip() or name in _OWN:
        raise BadInput("extra", got=name, want=f"a name other than {', '.join(_OWN)}")
    return time_series(name, value) if name in SECOND_CLOCKS else col.as_series(name, value)


def _refuse_repeated_ids(ids: pl.Series, problems: Problems) -> None:
    if ids.n_unique() == len(ids):
        return
    repeated = ids.is_duplicated() & ~ids.is_first_distinct() & ids.is_not_null()
    col.refuse_where("id", repeated, problems, "every id once", lambda row: ids[row])


def _known_replies(
    reply_to: pl.Series, ids: pl.Series, problems: Problems, unknown_replies: str, notes: list[str]
) -> pl.Series:
    if reply_to.dtype != ids.dtype:
        reply_to, ids = reply_to.cast(pl.String), ids.cast(pl.String)
    frame = pl.DataFrame({"id": reply_to})
    rows = pl.DataFrame({"id": ids}).with_row_index("row")
    parent = frame.join(rows, on="id", how="left", maintain_order="left")["row"].cast(pl.Int64)
    unknown = parent.is_null() & reply_to.is_not_null()
    if unknown.any():
        if unknown_replies == "refuse":
            want = "the id of an event in this table (or say unknown_replies='drop')"
            col.refuse_where("reply_to", unknown, problems, want, lambda row: reply_to[row])
            return reply_to
        reply_to = reply_to.set(unknown, None)
        notes.append(f"taken as answering nothing, since the post is not in the table: {int(unknown.sum()):,}")
    circle = _in_circle(parent.fill_null(-1).to_numpy())
    if circle.any():
        want = "a post that does not, in the end, answer itself"
        problems.add("reply_to", np.flatnonzero(circle).tolist(), got=lambda row: reply_to[row], want=want)
    return reply_to


def _in_circle(parent: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which rows never reach a post that answers nothing, by doubling the step until all others have."""
    above = parent.copy()
    for _ in range(len(parent).bit_length() + 1):
        going = np.flatnonzero(above >= 0)
        if not len(going):
            break
        above[going] = above[above[going]]
    inside: np.ndarray[Any, np.dtype[np.bool_]] = above >= 0
    return inside
