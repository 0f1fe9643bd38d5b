"""What is known about reviewers beforehand: a table of how they score, or conferences in which they reviewed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from peerveil.calibration.functions import Affine
from peerveil.core.errors import BadInput, Verbatim

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Sequence

    from peerveil.data import Reviews


def read_miscalibration(path: str | os.PathLike[str], *, reviewers: Collection[Any] | None = None) -> dict[Any, Affine]:
    """Functions from a table with the columns ``reviewer``, ``scale`` and ``bias`` (CSV or Parquet).

    Parameters
    ----------
    path : path
        The table.
    reviewers : collection, optional
        The functions of these reviewers only, each of whom must have a row; 7 and ``"7"`` are the same person. By default
        those of everybody in the table.
    """
    name = str(path)
    if not Path(name).is_file():
        raise BadInput(name, got=Verbatim("no such file"), want="a table with the columns reviewer, scale and bias")
    frame = pl.read_parquet(name) if name.endswith(".parquet") else pl.read_csv(name)
    missing = {"reviewer", "scale", "bias"} - set(frame.columns)
    if missing:
        raise BadInput(name, got=frame.columns, want=f"a column {min(missing)}")
    functions: dict[Any, Affine] = {}
    for row, (reviewer, scale, bias) in enumerate(frame.select("reviewer", "scale", "bias").iter_rows()):
        if reviewer in functions:
            raise BadInput(f"{name}, row {row + 1}", got=reviewer, want="every reviewer once")
        try:
            functions[reviewer] = Affine(scale, bias)
        except BadInput as error:
            raise BadInput(f"{name}, row {row + 1}, {error.argument}", got=error.got, want=error.want) from None
    return functions if reviewers is None else _of_these(functions, reviewers)


def _of_these(functions: dict[Any, Affine], reviewers: Collection[Any]) -> dict[Any, Affine]:
    by_text = {str(name): function for name, function in functions.items()}
    missing = sum(str(who) not in by_text for who in reviewers)
    if missing:
        got = Verbatim(f"no row for {missing} of {len(reviewers)} reviewers")
        raise BadInput("reviewers", got=got, want="a row for every reviewer of the data")
    return {who: by_text[str(who)] for who in reviewers}


def known_reviewers(reviews: Reviews, history: Sequence[Reviews]) -> int:
    """How many of the reviewers have a past; a past that says nothing about them is refused."""
    known: set[str] = set()
    for past in history:
        if past.fingerprint == reviews.fingerprint:
            got = Verbatim("the reviews that are to be decided")
            raise BadInput("history", got=got, want="an earlier conference")
        past.require_reviewers("history")
        known |= set(map(str, past.frame["reviewer"].unique().to_list()))
    count = len(known & set(map(str, reviews.frame["reviewer"].unique().to_list())))
    if not count:
        want = "a past conference, in which at least some of these reviewers wrote under the same names"
        raise BadInput("history", got=Verbatim("reviews by other people"), want=want)
    return count


def history_in_words(reviews: Reviews, history: Sequence[Reviews]) -> str:
    """How many of the reviewers have a past, in a sentence."""
    known, reviewers = known_reviewers(reviews, history), reviews.frame["reviewer"].n_unique()
    others = "; the others are assumed to be average" if known < reviewers else ""
    return f"The history covers {known} of the {reviewers} reviewers{others}."
