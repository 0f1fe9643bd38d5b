"""Reviews: who scored which paper, how, on which criteria, and when."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data.check import as_series
from peerveil.data.schema import REVIEWS, RawTable, TableSchema
from peerveil.data.table import Table, plural, read_only


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
        mapping of names to finite numbers, optional; for ``read`` and ``from_frame`` the names of the columns to keep (without
        them every further column of numbers is a criterion)
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
    >>> frame = pl.DataFrame({"submission": [1, 2], "score": [6, 8], "soundness": [3, 4]})
    >>> Reviews.from_frame(frame, columns={"paper": "submission"})
    Reviews(rows=2, papers=2, criteria=['soundness'])
    >>> Reviews(paper=[1, 1], reviewer=["ann", "ann"], score=[6, float("nan")])
    Traceback (most recent call last):
        ...
    peerveil.data.problems.BadTable: Reviews, row 2 (index 1), column reviewer: got 'ann', need one review per person and paper \
(row 1 is another)
      Reviews, row 2 (index 1), column score: got nan, need a finite number
    """

    _schema: ClassVar[TableSchema] = REVIEWS

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
        columns = {"paper": paper, "reviewer": reviewer, "score": score, "time": time}
        self._fill(*self._checked(RawTable.in_memory(REVIEWS, columns, criteria), time_zone))

    @classmethod
    def _keeps(cls, name: str, values: Any) -> bool:
        """Numbers, or text most of which is numbers: the odd one out is then named, not silently left out."""
        try:
            series = as_series(name, values)
        except BadInput:
            return False
        if series.dtype != pl.String:
            return series.dtype.is_numeric() and series.null_count() < len(series)
        known = series.drop_nulls().head(10_000).str.strip_chars()
        return known.cast(pl.Float64, strict=False).null_count() * 2 < len(known)

    @property
    def scores(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The scores, one per row, as a read-only array."""
        return self.column("score")

    @property
    def criteria(self) -> tuple[str, ...]:
        """The names of the criteria."""
        return self._further

    @cached_property
    def criteria_scores(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The scores on the criteria, one row per review and one column per criterion, as a read-only array."""
        return read_only(self._frame.select(self.criteria).to_numpy() if self.criteria else np.empty((len(self), 0)))

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
        why = "has to know which reviews one person wrote, and this table does not say"
        _require(self.has_reviewers, "reviewers", f"reviewers: {method} {why}")

    def require_criteria(self, method: str) -> None:
        """Refuse to go on without criteria; ``method`` says what needs them."""
        want = f"at least one criterion: {method} compares the overall score with the criteria"
        _require(bool(self.criteria), "criteria", want)

    def require_times(self, method: str) -> None:
        """Refuse to go on without times; ``method`` says what needs them."""
        _require(self.has_times, "times", f"a time per review: {method} has to know when each was written")

    @property
    def _size(self) -> str:
        """How many reviews, papers and reviewers there are, in words."""
        people = f" by {self._plural('reviewer')}" if self.has_reviewers else ", reviewers unknown"
        return f"{plural(len(self), 'review')} of {self._plural('paper')}{people}"

    @property
    def headline(self) -> str:
        """The reviews in one line, without notes on how they were read."""
        score = self.scores
        text = f"{self._size}; scores {score.min():g} to {score.max():g}, mean {score.mean():.3g}"
        if self.criteria:
            text += f"; criteria {', '.join(self.criteria)}"
        if self.has_times:
            times = self._frame["time"].sort()
            text += f"; {times[0]:%Y-%m-%d} to {times[-1]:%Y-%m-%d}"
        return text


def _require(present: bool, what: str, want: str) -> None:
    if not present:
        raise BadInput("reviews", got=Verbatim(f"reviews without {what}"), want=want)
