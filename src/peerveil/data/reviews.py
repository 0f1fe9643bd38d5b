"""Reviews: who scored which paper, how, on which criteria, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data import columns as col
from peerveil.data.problems import Problems, Source
from peerveil.data.readers.files import Raw
from peerveil.data.readers.recognize import read_raw
from peerveil.data.readers.tabular import shown
from peerveil.data.table import Table, check_names, make_wish, plural, read_only, same_length
from peerveil.data.times import check_zone, time_series, utc

if TYPE_CHECKING:
    import os

_RESERVED = ("paper", "reviewer", "score", "time")
_HINT = " (or choose the criteria to keep with criteria=[...])"


class Reviews(Table):
    """Scores that reviewers gave to papers.

    Parameters
    ----------
    paper
        ids, whole numbers or text
    score
        finite numbers
    reviewer
        ids, or None where an export does not say who wrote what
    criteria
        mapping of names to finite numbers, optional
    time
        when each review was written, optional; see :mod:`peerveil.data.times` for what is understood
    time_zone
        the zone of times that do not say theirs; UTC unless given

    Notes
    -----
    A reviewer reviews a paper once: a repeated pair is refused, and so is anything missing.

    Examples
    --------
    >>> reviews = Reviews(paper=[1, 1, 2], reviewer=["ann", "bo", "ann"], score=[6, 8, 3])
    >>> print(reviews)
    3 reviews of 2 papers by 2 reviewers; scores 3 to 8, mean 5.67
    >>> reviews
    Reviews(rows=3, papers=2, reviewers=2)
    >>> Reviews(paper=[1, 1], reviewer=["ann", "ann"], score=[6, float("nan")])
    Traceback (most recent call last):
        ...
    peerveil.data.problems.BadTable: Reviews, row 2 (index 1), column score: got nan, need a finite number
      Reviews, row 2 (index 1), column reviewer: got 'ann', need one review a person and paper (row 1 is another)
    """

    _required: ClassVar[tuple[str, ...]] = ("paper", "score")
    _optional: ClassVar[dict[str, str]] = {"reviewer": "who wrote it", "time": "when"}
    _kinds: ClassVar[dict[str, str]] = {"paper": "id", "reviewer": "id", "score": "number", "time": "time"}
    _core: ClassVar[tuple[str, str, str]] = ("reviewer", "paper", "score")

    def __init__(
        self,
        *,
        paper: Any,
        score: Any,
        reviewer: Any = None,
        criteria: Mapping[str, Any] | None = None,
        time: Any = None,
        time_zone: str | None = None,
    ) -> None:
        values = {"paper": paper, "reviewer": reviewer, "score": score, "time": time}
        given = {name: value for name, value in values.items() if value is not None}
        if criteria is not None and not isinstance(criteria, Mapping):
            raise BadInput("criteria", got=criteria, want="a mapping of names to numbers")
        raw = Raw(given, Source("Reviews", in_memory=True), dict(criteria or {}))
        self._fill(_checked(raw, check_zone(time_zone)))

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        columns: Mapping[str, str] | None = None,
        *,
        criteria: Sequence[str] | None = None,
        time_zone: str | None = None,
    ) -> Self:
        """From a Polars or pandas frame, or a mapping of columns.

        ``columns`` says what our columns are called there. Without ``criteria``, every further column of numbers
        is a criterion.

        >>> frame = pl.DataFrame({"submission": [1, 2], "score": [6, 8], "soundness": [3, 4]})
        >>> Reviews.from_frame(frame, columns={"paper": "submission"})
        Reviews(rows=2, papers=2, criteria=['soundness'])
        """
        raw = cls._from_any_frame(frame, columns)
        chosen = _choose_criteria(raw, check_names("criteria", criteria))
        return cls._wrap(_checked(chosen, check_zone(time_zone)))

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        format: str | None = None,  # noqa: A002
        *,
        columns: Mapping[str, str] | None = None,
        criteria: Sequence[str] | None = None,
        time_zone: str | None = None,
    ) -> Self:
        """Read a file: CSV, TSV, JSON lines, Parquet, OpenReview, HotCRP or EasyChair.

        The format is recognized unless it is given. ``columns`` says what our columns are called in the file,
        ``criteria`` which further columns of numbers to keep (without it: all of them).
        """
        zone = check_zone(time_zone)
        raw = read_raw(cls, path, format, make_wish(columns, "criteria", criteria))
        chosen = _choose_criteria(raw, check_names("criteria", criteria))
        return cls._wrap(_checked(chosen, zone), raw.notes)

    @property
    def scores(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The scores, one a row, as a read-only array."""
        return self.column("score")

    @property
    def criteria(self) -> tuple[str, ...]:
        """The names of the criteria."""
        return tuple(name for name in self._frame.columns if name not in _RESERVED)

    @property
    def criteria_scores(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The scores on the criteria, a row a review and a column a criterion, as a read-only array."""
        if "criteria scores" not in self._cache:
            stacked = self._frame.select(self.criteria).to_numpy() if self.criteria else np.empty((len(self), 0))
            self._cache["criteria scores"] = read_only(stacked)
        array: np.ndarray[Any, np.dtype[np.float64]] = self._cache["criteria scores"]
        return array

    @property
    def has_reviewers(self) -> bool:
        """Whether the table says who wrote what."""
        return "reviewer" in self._frame.columns

    @property
    def has_times(self) -> bool:
        """Whether the table says when each review was written."""
        return "time" in self._frame.columns

    def require_reviewers(self, method: str) -> None:
        """Refuse to go on without reviewers; ``method`` says what needs them.

        >>> Reviews(paper=[1], score=[5]).require_reviewers("the miscalibration weight")
        Traceback (most recent call last):
            ...
        peerveil.core.errors.BadInput: reviews: got reviews without reviewers, need reviewers: the miscalibration weight \
has to know which reviews one person wrote, and this table does not say
        """
        if not self.has_reviewers:
            raise BadInput(
                "reviews",
                got=Verbatim("reviews without reviewers"),
                want=f"reviewers: {method} has to know which reviews one person wrote, and this table does not say",
            )

    def require_criteria(self, method: str) -> None:
        """Refuse to go on without criteria; ``method`` says what needs them."""
        if not self.criteria:
            raise BadInput(
                "reviews",
                got=Verbatim("reviews without criteria"),
                want=f"at least one criterion: {method} compares the overall score with the criteria",
            )

    def require_times(self, method: str) -> None:
        """Refuse to go on without times; ``method`` says what needs them."""
        if not self.has_times:
            raise BadInput(
                "reviews",
                got=Verbatim("reviews without times"),
                want=f"a time a review: {method} has to know when each was written",
            )

    def __repr__(self) -> str:
        parts = [f"rows={len(self)}", f"papers={self._frame['paper'].n_unique()}"]
        if self.has_reviewers:
            parts.append(f"reviewers={self._frame['reviewer'].n_unique()}")
        if self.criteria:
            parts.append(f"criteria={list(self.criteria)!r}")
        return f"Reviews({', '.join(parts)})"

    def __str__(self) -> str:
        score = self.scores
        text = f"{plural(len(self), 'review')} of {plural(self._frame['paper'].n_unique(), 'paper')}"
        text += (
            f" by {plural(self._frame['reviewer'].n_unique(), 'reviewer')}"
            if self.has_reviewers
            else ", reviewers unknown"
        )
        text += f"; scores {score.min():g} to {score.max():g}, mean {score.mean():.3g}"
        if self.criteria:
            text += f"; criteria {', '.join(self.criteria)}"
        if self.has_times:
            times = self._frame["time"].sort()
            text += f"; {times[0]:%Y-%m-%d} to {times[-1]:%Y-%m-%d}"
        return "\n".join([text, *self.notes])


def _choose_criteria(raw: Raw, criteria: tuple[str, ...] | None) -> Raw:
    """Named columns must be there; otherwise take every further column of numbers."""
    if criteria is None:
        taken = {name: values for name, values in raw.further.items() if _looks_numeric(name, values)}
        return Raw(raw.columns, raw.source, taken, raw.notes)
    absent = [name for name in criteria if name not in raw.further]
    if absent:
        raise raw.source.refusal(Verbatim(f"no column {', '.join(absent)}"), f"some of {shown(list(raw.further))}")
    return Raw(raw.columns, raw.source, {name: raw.further[name] for name in criteria}, raw.notes)


def _looks_numeric(name: str, values: Any) -> bool:
    """Numbers, or text most of which is numbers: the odd one out is then named, not silently left out."""
    try:
        series = col.as_series(name, values)
    except BadInput:
        return False
    if series.dtype.is_numeric():
        return series.null_count() < len(series)
    if series.dtype != pl.String:
        return False
    known = series.drop_nulls().head(10_000)
    parsed = known.str.strip_chars().cast(pl.Float64, strict=False)
    return parsed.null_count() * 2 < len(known)


def _checked(raw: Raw, zone: str) -> pl.DataFrame:
    values = {
        name: time_series(name, value) if name == "time" else col.as_series(name, value)
        for name, value in raw.columns.items()
    }
    criteria = {name: col.as_series(name, value) for name, value in raw.further.items()}
    for name in criteria:
        if not isinstance(name, str) or not name.strip() or name in _RESERVED:
            raise BadInput("criteria", got=name, want=f"a name other than {', '.join(_RESERVED)}")
    same_length(raw.source.name, {**values, **criteria})
    problems = Problems(raw.source)
    series = {"paper": col.identifiers("paper", values["paper"], problems, want="a paper's id")}
    if not _absent(values.get("reviewer")):
        series["reviewer"] = col.identifiers(
            "reviewer", values["reviewer"], problems, want="a reviewer's id in every row, or in none"
        )
    series["score"] = col.numbers("score", values["score"], problems)
    for name, value in criteria.items():
        series[name] = col.numbers(name, value, problems, hint=_HINT)
    if not _absent(values.get("time")):
        series["time"] = utc("time", values["time"], problems, zone=zone)
    frame = pl.DataFrame([value.alias(name) for name, value in series.items()])
    if "reviewer" in series:
        _refuse_repeats(frame, problems)
    problems.raise_any()
    return frame.rechunk()


def _absent(series: pl.Series | None) -> bool:
    """Whether an optional column is not there, or has nothing in it."""
    if series is None or series.null_count() == len(series):
        return True
    return series.dtype == pl.String and bool((series == "").all(ignore_nulls=True))


def _refuse_repeats(frame: pl.DataFrame, problems: Problems) -> None:
    pairs = frame.select("paper", "reviewer")
    if not pairs.is_duplicated().any():
        return
    rows = pairs.with_row_index("row").with_columns(first=pl.col("row").min().over("paper", "reviewer"))
    repeated = rows.filter((pl.col("row") != pl.col("first")) & pl.all_horizontal(pl.all().is_not_null()))
    for row, first in repeated.select("row", "first").iter_rows():
        earlier, _ = problems.source.locate(first)
        problems.add(
            "reviewer",
            [row],
            got=lambda position: frame["reviewer"][position],
            want=f"one review a person and paper (row {earlier} is another)",
        )
