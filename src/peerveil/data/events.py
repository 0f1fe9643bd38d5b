"""Events: who posted in which thread, when, and in answer to what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from peerveil.core.arrays import Flags, Ints
from peerveil.core.errors import BadInput, Verbatim, one_of
from peerveil.data.check import ColumnCheck, check_columns
from peerveil.data.schema import EVENTS, ORDER_LEAKS, RawTable, TableSchema
from peerveil.data.table import Table, plural, read_only
from peerveil.data.times import check_moment

UnknownReplies = Literal["refuse", "drop"]
_ROW = "row of the input"


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
        other columns that can give an order away are what it is for. For ``read`` and ``from_frame`` the names of the columns
        to keep; without them those that can give an order away
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
    >>> events
    Events(rows=2, actors=2, threads=1)
    >>> events.frame["actor"].to_list()
    ['ann', 'bo']
    >>> print(events)
    2 events by 2 actors in 1 thread, 2026-03-01 10:00 to 2026-03-01 10:05 UTC
    """

    _schema: ClassVar[TableSchema] = EVENTS
    _rows: Ints

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
        columns = {"actor": actor, "thread": thread, "time": time, "id": id, "reply_to": reply_to}
        raw = RawTable.in_memory(EVENTS, columns, extra)
        self._fill(*self._checked(raw, time_zone, now, unknown_replies))

    @classmethod
    def _checked(
        cls, raw: RawTable, time_zone: str | None = None, now: datetime | None = None, unknown_replies: str = "refuse"
    ) -> tuple[pl.DataFrame, list[str]]:
        one_of(unknown_replies, "unknown_replies", ("refuse", "drop"))
        columns, log = check_columns(EVENTS, raw, time_zone)
        if now is not None:
            latest = check_moment(now, "now")
            want = f"a time not after {latest:%Y-%m-%dT%H:%M:%SZ}"
            ColumnCheck(EVENTS["time"], columns["time"], log).refuse(columns["time"] > latest, want)
        log.raise_any()
        notes = list(raw.notes)
        if "reply_to" in columns:
            if "id" not in columns:
                raise BadInput("reply_to", got=Verbatim("replies"), want="an id column that they refer to")
            check = ColumnCheck(EVENTS["reply_to"], columns["reply_to"], log)
            columns["reply_to"] = _known_replies(check, columns["id"], unknown_replies, notes)
            log.raise_any()
        order = [name for name in (*EVENTS.names, *raw.further) if name in columns]
        frame = pl.DataFrame([columns[name] for name in order]).with_row_index(_ROW, offset=1)
        if "id" not in columns:
            # numbered by content, so that the numbers do not depend on the order the rows came in
            frame = frame.sort("time", "actor", "thread", *sorted(raw.further)).with_row_index("id")
            frame = frame.select(_ROW, "actor", "thread", "time", pl.col("id").cast(pl.Int64), *raw.further).sort(_ROW)
        if not frame["time"].is_sorted():
            frame = frame.sort("time", maintain_order=True)
        return frame.rechunk(), notes

    @classmethod
    def _keeps(cls, name: str, values: Any) -> bool:  # noqa: ARG003
        return name in ORDER_LEAKS

    def _fill(self, frame: pl.DataFrame, notes: Sequence[str] = ()) -> None:
        """The row of the input is kept beside the content, of which it is no part."""
        super()._fill(frame.drop(_ROW), notes)
        vars(self)["_rows"] = read_only(frame[_ROW].cast(pl.Int64).to_numpy())

    def __reduce__(self) -> tuple[Any, ...]:
        """With the rows of the input, which say in which order posts of one moment came."""
        return type(self)._wrap, (self._frame.with_columns(pl.Series(_ROW, self.rows)), self._notes)

    @property
    def rows(self) -> Ints:
        """The row of the input that each event came from, counted from 1 over the rows that were read; read-only.

        >>> Events(actor=["bo", "ann"], thread=[7, 7], time=["2026-03-01T10:05Z", "2026-03-01T10:00Z"]).rows.tolist()
        [2, 1]
        """
        return self._rows

    @property
    def times(self) -> Ints:
        """Microseconds since 1970, in order, as a read-only array."""
        return self.column("time").view(np.int64)

    @property
    def extra(self) -> tuple[str, ...]:
        """The names of the further columns that were kept."""
        return self._further

    @property
    def has_replies(self) -> bool:
        """Whether any event answers another."""
        return "reply_to" in self._frame.columns

    @property
    def headline(self) -> str:
        """The log in one line, without notes on how it was read."""
        first, last = self._frame["time"][0], self._frame["time"][-1]
        text = f"{plural(len(self), 'event')} by {self._plural('actor')} in {self._plural('thread')}"
        text += f", {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC"
        if self.has_replies:
            text += f"; {plural(self._frame['reply_to'].count(), 'reply', 'replies')}"
        return text


def _known_replies(check: ColumnCheck, ids: pl.Series, unknown_replies: str, notes: list[str]) -> pl.Series:
    reply_to = check.series
    if reply_to.dtype != ids.dtype:
        reply_to, ids = reply_to.cast(pl.String), ids.cast(pl.String)
    rows = pl.DataFrame({"id": ids}).with_row_index("row")
    parent = pl.DataFrame({"id": reply_to}).join(rows, on="id", how="left", maintain_order="left")["row"].cast(pl.Int64)
    unknown = parent.is_null() & reply_to.is_not_null()
    if unknown_replies == "refuse":
        check.refuse(unknown, "the id of an event in this table (or say unknown_replies='drop')")
    elif unknown.any():
        notes.append(f"taken as answering nothing, since the post is not in the table: {int(unknown.sum()):,}")
    circle = _in_circle(parent.fill_null(-1).to_numpy())
    check.refuse(pl.Series(circle), "a post that does not, in the end, answer itself")
    return reply_to.set(unknown, None)


def _in_circle(parent: Ints) -> Flags:
    """Which rows never reach a post that answers nothing, by doubling the step until all others have."""
    above = parent.copy()
    for _ in range(len(parent).bit_length() + 1):
        going = np.flatnonzero(above >= 0)
        if not len(going):
            break
        above[going] = above[above[going]]
    return above >= 0
