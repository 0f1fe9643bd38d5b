"""Labels: which worker gave which answer to which task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data.check import ColumnCheck
from peerveil.data.problems import ProblemLog, TableSource
from peerveil.data.schema import LABELS, PLAIN_INTEGER, RawTable, TableSchema
from peerveil.data.table import Table, plural, read_only

_MOST_SHOWN = 6  # classes that an error names


class Labels(Table):
    """Answers that workers gave to tasks.

    Parameters
    ----------
    task, worker
        ids, whole numbers or text
    label
        whole numbers, text or booleans; for a subset response (:class:`peerveil.core.randomness.SubsetResponse`) a list of
        different ones in every row
    epsilon
        where people chose protection levels of their own: with which epsilon each label was randomized
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

    _schema: ClassVar[TableSchema] = LABELS

    def __init__(self, *, task: Any, worker: Any, label: Any, truth: Any = None, epsilon: Any = None) -> None:
        columns = {"task": task, "worker": worker, "label": label, "truth": truth, "epsilon": epsilon}
        self._fill(*self._checked(RawTable.in_memory(LABELS, columns)))

    @property
    def has_truth(self) -> bool:
        """Whether any right answer is known."""
        return "truth" in self._frame.columns

    @property
    def has_subsets(self) -> bool:
        """Whether every row names a list of classes, as a subset response does."""
        return isinstance(self._frame.schema["label"], pl.List)

    @cached_property
    def members(self) -> Labels:
        """A row for each label that an answer names: this table itself, if every answer names one."""
        return Labels.from_frame(self._frame.explode("label")) if self.has_subsets else self

    @cached_property
    def repeated(self) -> int:
        """How many rows repeat a (task, worker) pair that an earlier row has."""
        return len(self) - self._frame.select("task", "worker").n_unique()

    def codes(self, classes: int | Sequence[Any]) -> np.ndarray[Any, np.dtype[np.int32]]:
        """The labels as positions in ``classes``: a list, or a count k for the labels 0 to k - 1.

        An answer that is not among them is refused by row. Lists of labels have no single position.
        """
        if self.has_subsets:
            want = "one label in every row (the estimators of peerveil.truth read lists)"
            raise BadInput("labels", got=Verbatim("lists of labels, from a subset response"), want=want)
        return self._encode("label", classes)

    def truth_codes(self, classes: int | Sequence[Any]) -> np.ndarray[Any, np.dtype[np.int32]]:
        """The right answers as positions in ``classes``, -1 where unknown, one per row."""
        self._require_truth()
        return self._encode("truth", classes)

    def truths(self) -> pl.DataFrame:
        """The tasks whose right answer is known, each once, with the answer; two answers are refused.

        >>> Labels(task=[1, 1, 2], worker=[1, 2, 1], label=[0, 1, 1], truth=[1, 1, None]).truths().rows()
        [(1, 1)]
        """
        self._require_truth()
        known = self._frame.select("task", "truth").drop_nulls().unique().sort("task")
        twice = known.filter(pl.col("task").is_duplicated())
        if twice.height:
            raise BadInput("truth", got=twice["truth"].to_list()[:2], want=f"one answer to task {twice['task'][0]}")
        return known

    def _require_truth(self) -> None:
        if not self.has_truth:
            raise BadInput("labels", got=Verbatim("labels without right answers"), want="a truth column")

    def _encode(self, column: str, classes: int | Sequence[Any]) -> np.ndarray[Any, np.dtype[np.int32]]:
        series = self._frame[column]
        listed = check_classes(classes)
        if series.dtype == pl.String and listed == list(range(len(listed))):
            examples = series.drop_nulls().unique().sort().head(3).to_list()
            words = examples if len(examples) == 2 else ["yes", "no"]
            numbers = {1: "0 alone", 2: "0 and 1"}.get(len(listed), f"0 to {len(listed) - 1}")
            want = (
                f"the words themselves, {words} (on the command line: --classes {','.join(words)}), since labels are words "
                f"such as {examples[0]!r}: {len(listed)} means the labels {numbers}"
            )
            raise BadInput("classes", got=classes, want=want)
        codes = _positions(series, listed)
        log = ProblemLog(TableSource("Labels", in_memory=True))
        shown = ", ".join(map(str, listed[:_MOST_SHOWN])) + (", ..." if len(listed) > _MOST_SHOWN else "")
        want = f"one of the {plural(len(listed), 'class', 'classes')}: {shown}"
        ColumnCheck(LABELS[column], series, log).refuse(codes.is_null() & series.is_not_null(), want)
        log.raise_any()
        return read_only(codes.fill_null(-1).to_numpy())

    @property
    def _known_tasks(self) -> int:
        """The number of tasks whose right answer is known."""
        return self._frame.drop_nulls("truth")["task"].n_unique() if self.has_truth else 0

    @property
    def headline(self) -> str:
        """The labels in one line, without notes on how they were read."""
        text = f"{plural(len(self), 'label')} by {self._plural('worker')} on {self._plural('task')}"
        if self.repeated:
            text += f"; {self.repeated:,} by a worker who had answered the task before"
        if self.has_truth:
            text += f"; right answer known for {plural(self._known_tasks, 'task')}"
        return text


def check_classes(classes: int | Sequence[Any]) -> list[Any]:
    """The list of classes that a count or a list stands for.

    >>> check_classes(3)
    [0, 1, 2]
    """
    names: list[Any] = []
    if isinstance(classes, int | np.integer) and not isinstance(classes, bool):
        names = list(range(int(classes)))
    elif isinstance(classes, Iterable) and not isinstance(classes, str | bytes):
        names = [value.item() if isinstance(value, np.generic) else value for value in classes]
    kinds = {type(value) for value in names}
    if len(kinds) != 1 or not kinds <= {int, str, bool} or len(set(names)) < len(names):
        want = "a count of at least 1, or a list of distinct whole numbers, texts or booleans"
        raise BadInput("classes", got=classes, want=want)
    return names


def _positions(series: pl.Series, classes: list[Any]) -> pl.Series:
    """Where each label stands in the list; null if it does not."""
    if series.dtype == pl.Boolean and isinstance(classes[0], int):
        series = series.cast(pl.Int64)
        classes = [int(value) for value in classes]
    if series.dtype == pl.Int64 and not isinstance(classes[0], bool):
        # a column of plain whole numbers is held as numbers: "7" in the list means 7
        if pl.Series(map(str, classes)).str.contains(PLAIN_INTEGER).all():
            classes = [int(value) for value in classes]
        in_range = series.is_between(0, len(classes) - 1).all(ignore_nulls=True)
        if classes == list(range(len(classes))) and in_range:
            return series.cast(pl.Int32)
    try:
        old = pl.Series(classes, dtype=series.dtype)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        return pl.repeat(None, len(series), dtype=pl.Int32, eager=True)
    new = pl.Series(range(len(classes)), dtype=pl.Int32)
    return series.replace_strict(old, new, default=None, return_dtype=pl.Int32)
