"""Labels: which worker gave which answer to which task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data import columns as col
from peerveil.data.problems import Problems, Source
from peerveil.data.readers.files import Raw
from peerveil.data.readers.recognize import read_raw
from peerveil.data.table import Table, make_wish, plural, read_only, same_length

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

_SHOWN = 6  # classes that an error names
_TYPE_WORDS = {pl.Int64: "whole numbers", pl.String: "text", pl.Boolean: "true/false"}


class Labels(Table):
    """Answers that workers gave to tasks.

    Parameters
    ----------
    task, worker
        ids, whole numbers or text
    label
        whole numbers, text or booleans
    truth
        the right answer where it is known, of the same kind as the labels; gaps allowed

    Notes
    -----
    A worker may answer a task more than once; ``repeated`` counts it. The table never says which classes there
    are: a list read off private answers would leak. Give the classes to :meth:`codes`.

    Examples
    --------
    >>> labels = Labels(task=[1, 1, 2], worker=["ann", "bo", "ann"], label=["cat", "dog", "cat"])
    >>> print(labels)
    3 labels by 2 workers on 2 tasks
    >>> labels.codes(["cat", "dog"])
    array([0, 1, 0], dtype=int32)
    >>> labels.codes(["cat", "cow"])
    Traceback (most recent call last):
        ...
    peerveil.data.problems.BadTable: Labels, row 2 (index 1), column label: got 'dog', need one of the 2 classes: cat, cow
    """

    _required: ClassVar[tuple[str, ...]] = ("task", "worker", "label")
    _optional: ClassVar[dict[str, str]] = {"truth": "the right answer"}
    _kinds: ClassVar[dict[str, str]] = {"label": "label", "truth": "label"}
    _core: ClassVar[tuple[str, str, str]] = ("worker", "task", "label")

    def __init__(self, *, task: Any, worker: Any, label: Any, truth: Any = None) -> None:
        values = {"task": task, "worker": worker, "label": label}
        if truth is not None:
            values["truth"] = truth
        self._fill(_checked(Raw(values, Source("Labels", in_memory=True))))

    @classmethod
    def from_frame(cls, frame: Any, columns: Mapping[str, str] | None = None) -> Self:
        """From a Polars or pandas frame, or a mapping of columns; ``columns`` gives their names for ours.

        >>> Labels.from_frame({"item": [1], "worker": [2], "label": [True]}, columns={"task": "item"})
        Labels(rows=1, tasks=1, workers=1)
        """
        return cls._wrap(_checked(cls._from_any_frame(frame, columns)))

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        format: str | None = None,  # noqa: A002
        *,
        columns: Mapping[str, str] | None = None,
    ) -> Self:
        """Read a file: CSV, TSV, JSON lines or Parquet. The format is recognized unless it is given."""
        raw = read_raw(cls, path, format, make_wish(columns, "columns", None))
        return cls._wrap(_checked(raw), raw.notes)

    @property
    def has_truth(self) -> bool:
        """Whether any right answer is known."""
        return "truth" in self._frame.columns

    @property
    def repeated(self) -> int:
        """How many rows repeat a (task, worker) pair that an earlier row has."""
        if "repeated" not in self._cache:
            pairs = self._frame.select("task", "worker").n_unique()
            self._cache["repeated"] = len(self) - pairs
        return int(self._cache["repeated"])

    def codes(self, classes: int | Sequence[Any]) -> np.ndarray[Any, np.dtype[np.int32]]:
        """The labels as positions in ``classes``: a list, or a count k for the labels 0 to k - 1.

        An answer that is not among them is refused by row.
        """
        return self._encode("label", classes)

    def truth_codes(self, classes: int | Sequence[Any]) -> np.ndarray[Any, np.dtype[np.int32]]:
        """The right answers as positions in ``classes``, -1 where unknown, one a row."""
        if not self.has_truth:
            raise BadInput("labels", got=Verbatim("labels without right answers"), want="a truth column")
        return self._encode("truth", classes)

    def truths(self) -> pl.DataFrame:
        """The tasks whose right answer is known, each once, with the answer; two answers are refused.

        >>> Labels(task=[1, 1, 2], worker=[1, 2, 1], label=[0, 1, 1], truth=[1, 1, None]).truths().rows()
        [(1, 1)]
        """
        if not self.has_truth:
            raise BadInput("labels", got=Verbatim("labels without right answers"), want="a truth column")
        known = self._frame.select("task", "truth").drop_nulls().unique().sort("task")
        twice = known.filter(pl.col("task").is_duplicated())
        if twice.height:
            raise BadInput("truth", got=twice["truth"].to_list()[:2], want=f"one answer to task {twice['task'][0]}")
        return known

    def _encode(self, column: str, classes: int | Sequence[Any]) -> np.ndarray[Any, np.dtype[np.int32]]:
        series = self._frame[column]
        listed = check_classes(classes)
        if series.dtype == pl.String and listed == list(range(len(listed))):
            seen = series.drop_nulls().unique().sort().head(3).to_list()
            words = seen if len(seen) == 2 else ["yes", "no"]
            numbers = {1: "0 alone", 2: "0 and 1"}.get(len(listed), f"0 to {len(listed) - 1}")
            want = (
                f"the words themselves, {words} (on the command line: --classes {','.join(words)}), since labels are words "
                f"such as {seen[0]!r}: {len(listed)} means the labels {numbers}"
            )
            raise BadInput("classes", got=classes, want=want)
        codes = _positions(series, listed)
        unknown = codes.is_null() & series.is_not_null()
        if unknown.any():
            problems = Problems(Source("Labels", in_memory=True))
            shown = ", ".join(map(str, listed[:_SHOWN])) + (", ..." if len(listed) > _SHOWN else "")
            want = f"one of the {plural_classes(len(listed))}: {shown}"
            col.refuse_where(column, unknown, problems, want, lambda row: series[row])
            problems.raise_any()
        return read_only(codes.fill_null(-1).to_numpy())

    def __repr__(self) -> str:
        tasks, workers = self._frame["task"].n_unique(), self._frame["worker"].n_unique()
        return f"Labels(rows={len(self)}, tasks={tasks}, workers={workers})"

    def __str__(self) -> str:
        tasks, workers = self._frame["task"].n_unique(), self._frame["worker"].n_unique()
        text = f"{plural(len(self), 'label')} by {plural(workers, 'worker')} on {plural(tasks, 'task')}"
        if self.repeated:
            text += f"; {self.repeated:,} by a worker who had answered the task before"
        if self.has_truth:
            known = self._frame.filter(pl.col("truth").is_not_null())["task"].n_unique()
            text += f"; right answer known for {plural(known, 'task')}"
        return "\n".join([text, *self.notes])


def plural_classes(count: int) -> str:
    """A number of classes in words."""
    return f"{count} classes" if count != 1 else "1 class"


def check_classes(classes: int | Sequence[Any]) -> list[Any]:
    """The list of classes that a count or a list stands for.

    >>> check_classes(3)
    [0, 1, 2]
    """
    want = "a count of at least 1, or a list of distinct whole numbers, texts or booleans"
    if isinstance(classes, bool | str | bytes):
        raise BadInput("classes", got=classes, want=want)
    if isinstance(classes, int | np.integer):
        if classes < 1:
            raise BadInput("classes", got=classes, want=want)
        return list(range(int(classes)))
    try:
        listed = [value.item() if isinstance(value, np.generic) else value for value in classes]
    except TypeError:
        raise BadInput("classes", got=classes, want=want) from None
    kinds = {type(value) for value in listed}
    if len(kinds) != 1 or not kinds <= {int, str, bool} or len(set(listed)) < len(listed):
        raise BadInput("classes", got=classes, want=want)
    return listed


def _positions(series: pl.Series, classes: list[Any]) -> pl.Series:
    """Where each label stands in the list; null if it does not."""
    if series.dtype == pl.Boolean and isinstance(classes[0], int):
        series = series.cast(pl.Int64)
        classes = [int(value) for value in classes]
    if series.dtype == pl.Int64 and not isinstance(classes[0], bool):
        # a column of plain whole numbers is held as numbers: "7" in the list means 7
        numbers = [_plain(value) for value in classes]
        if all(value is not None for value in numbers):
            if numbers == list(range(len(numbers))):
                inside = (series >= 0) & (series < len(numbers))
                if inside.all(ignore_nulls=True):
                    return series.cast(pl.Int32)
            classes = numbers
    try:
        old = pl.Series(classes, dtype=series.dtype)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        return pl.Series(series.name, [None], dtype=pl.Int32).new_from_index(0, len(series))
    new = pl.Series(range(len(classes)), dtype=pl.Int32)
    return series.replace_strict(old, new, default=None, return_dtype=pl.Int32)


def _plain(value: object) -> int | None:
    if isinstance(value, int):
        return value
    if isinstance(value, str) and (value == "0" or (value.lstrip("-").isdecimal() and not value.startswith("0"))):
        return int(value)
    return None


def _checked(raw: Raw) -> pl.DataFrame:
    values = {name: col.as_series(name, value) for name, value in raw.columns.items()}
    same_length(raw.source.name, values)
    problems = Problems(raw.source)
    series = [
        col.identifiers("task", values["task"], problems, want="a task's id").alias("task"),
        col.identifiers("worker", values["worker"], problems, want="a worker's id").alias("worker"),
        col.answers("label", values["label"], problems).alias("label"),
    ]
    truth = values.get("truth")
    if truth is not None and truth.null_count() < len(truth):
        if series[2].dtype == pl.String and truth.dtype == pl.String:
            checked = truth.set(truth == "", None)  # text as it stands: "True" among text labels is text
        else:
            checked = _as_label(col.answers("truth", truth, problems, nullable=True), series[2], problems)
        if checked.null_count() < len(checked):
            series.append(checked.alias("truth"))
    problems.raise_any()
    return pl.DataFrame(series)


def _as_label(truth: pl.Series, label: pl.Series, problems: Problems) -> pl.Series:
    """Right answers as the same kind of value as the labels."""
    if truth.dtype == label.dtype:
        return truth
    if label.dtype == pl.Int64 and truth.dtype == pl.String:
        floats = truth.cast(pl.Float64, strict=False)  # 1.0 is what a whole number with gaps turns into
        whole = floats.set((floats != floats.floor()).fill_null(value=False), None).cast(pl.Int64, strict=False)
        fits = whole
    elif label.dtype == pl.String and truth.dtype == pl.Int64:
        return truth.cast(pl.String)
    else:
        fits = pl.Series("truth", [None], dtype=label.dtype).new_from_index(0, len(truth))
    want = f"a right answer of the labels' kind ({_TYPE_WORDS[type(label.dtype)]})"
    col.refuse_where("truth", fits.is_null() & truth.is_not_null(), problems, want, lambda row: truth[row])
    return fits
