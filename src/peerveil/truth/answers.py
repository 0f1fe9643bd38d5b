"""Randomized answers as the estimators hold them: ids replaced by numbers, sorted by task."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data import Labels
from peerveil.data.labels import check_classes
from peerveil.data.readers.files import InputFile
from peerveil.truth import kernels

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

REPEATED: Final = ("all", "first", "last", "refuse")
_TRUE_WORDS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_LOOKUP: Final = 8  # ids that span at most so many numbers an answer are coded by a table


@dataclass(frozen=True, eq=False)
class EncodedAnswers:
    """EncodedAnswers, encoded.

    Attributes
    ----------
    tasks, workers
        The ids, sorted; positions in them are the codes.
    classes
        The list of classes; positions in it are the codes.
    start, worker, label
        The reports of task t are those from ``start[t]`` to ``start[t + 1]``. Up to 256 classes a label is one byte.
    """

    tasks: pl.Series
    workers: pl.Series
    classes: tuple[Any, ...]
    start: NDArray[np.int64]
    worker: NDArray[np.int32]
    label: NDArray[np.uint8] | NDArray[np.int32]
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def k(self) -> int:
        """How many classes there are."""
        return len(self.classes)

    @property
    def loads(self) -> NDArray[np.int64]:
        """How many reports each worker sent."""
        if "loads" not in self._cache:
            self._cache["loads"] = np.bincount(self.worker, minlength=len(self.workers))
        loads: NDArray[np.int64] = self._cache["loads"]
        return loads

    @property
    def votes(self) -> Floats:
        """How many reports of each class every task has, one row a task."""
        if "votes" not in self._cache:
            votes = np.empty((len(self.tasks), self.k))
            kernels.votes_of(self.start, self.label, votes)
            self._cache["votes"] = votes
        found: Floats = self._cache["votes"]
        return found

    def __len__(self) -> int:
        return self.label.size

    @classmethod
    def of(
        cls,
        labels: Any,
        classes: int | Sequence[Any] | None = None,
        *,
        tasks: Sequence[Any] | None = None,
        repeated: str = "all",
    ) -> EncodedAnswers:
        """Encode a table of reports.

        Parameters
        ----------
        labels
            A :class:`~peerveil.data.Labels` table, a pandas or Polars frame with columns task, worker and label, or a
            mapping of such columns.
        classes
            The classes, or how many there are. Left out, they are read off the reports: these are public already.
        tasks
            All tasks, if some may have no report.
        repeated
            What to do with several reports of one worker on one task: count ``"all"`` of them (each was randomized and paid
            for), only the ``"first"`` or the ``"last"``, or ``"refuse"``.

        Examples
        --------
        >>> reports = EncodedAnswers.of({"task": [2, 1, 2], "worker": ["b", "a", "a"], "label": [1, 0, 1]})
        >>> reports.tasks.to_list(), reports.start.tolist(), reports.label.tolist()
        ([1, 2], [0, 1, 3], [0, 1, 1])
        """
        if repeated not in REPEATED:
            raise BadInput("repeated", got=repeated, want=f"one of {', '.join(REPEATED)}")
        if isinstance(labels, EncodedAnswers):
            return labels
        table = Labels.of(labels, "labels")
        if repeated != "all" and table.repeated:
            if repeated == "refuse":
                got = Verbatim(f"{table.repeated:,} reports by a worker who had reported on the task before")
                raise BadInput(
                    "labels", got=got, want="one report for each task and worker, or another rule for repeated"
                )
            kept = table.frame.unique(
                ["task", "worker"], keep="first" if repeated == "first" else "last", maintain_order=True
            )
            table = Labels.from_frame(kept)
        frame = table.frame
        listed = _classes(table, classes)
        task_codes, task_ids = _numbered(frame["task"])
        worker_codes, worker_ids = _numbered(frame["worker"])
        if tasks is not None:
            task_codes, task_ids = _with_all(task_codes, task_ids, tasks)
        label_codes = table.codes(listed).astype(np.uint8 if len(listed) <= 256 else np.int32, copy=False)
        del frame, table  # a converted copy of the caller's frame need not stay while the sorted one is made
        start, worker, label = kernels.sort_by_task(task_codes, worker_codes, label_codes, len(task_ids))
        return cls(task_ids, worker_ids, tuple(listed), start, worker, label)

    def codes_of_tasks(self, ids: Sequence[Any], argument: str) -> NDArray[np.int64]:
        """Where tasks stand; an unknown one is refused."""
        return _positions(self.tasks, ids, argument, "task")

    def codes_of_workers(self, ids: Sequence[Any], argument: str) -> NDArray[np.int64]:
        """Where workers stand; an unknown one is refused."""
        return _positions(self.workers, ids, argument, "worker")


def seen_classes(labels: pl.Series) -> list[Any]:
    """The classes that reports show. NaN is what programs write for nothing: as a class of its own it would change what a
    randomized answer means, so it must be named to be one.
    """
    listed = labels.unique().sort().to_list()
    if len(listed) < 2:
        got = Verbatim(f"reports that are all {listed[0]!r}")
        raise BadInput("classes", got=got, want="the list of classes: it cannot be seen from equal reports")
    if none := [value for value in listed if str(value).lower() == "nan"]:
        raise BadInput("labels", got=none[0], want="a label in every report, or the list of classes if that is one")
    return listed


def read_classes(classes: Any, labels: Labels | None = None) -> Any:
    """Classes that may have been written as text, of the kind that the labels hold; a count stays a count.

    >>> read_classes(["0", "1"]), read_classes(["0", "1"], Labels(task=[1], worker=[1], label=["a"]))
    ([0, 1], ['0', '1'])
    >>> read_classes(["yes", "no"], Labels(task=[1], worker=[1], label=[True]))
    [True, False]
    """
    if classes is None or isinstance(classes, int):
        return classes
    dtype = pl.Int64 if labels is None else labels.frame["label"].dtype
    if dtype == pl.Boolean:
        return [_TRUE_WORDS.get(str(name).lower(), name) for name in classes]
    texts = [str(name) for name in classes if not isinstance(name, bool)]
    whole = len(texts) == len(classes) and all(text.lstrip("-").isdecimal() for text in texts)
    return [int(text) for text in texts] if whole and dtype == pl.Int64 else list(classes)


def read_tasks(path: str | os.PathLike[str], labels: Labels) -> list[Any]:
    """The ids of all tasks from a file with one per line, of the kind that the labels hold."""
    lines = InputFile.open(path).path.read_text(encoding="utf-8").splitlines()
    ids = [line.strip() for line in lines if line.strip()]
    if labels.frame["task"].dtype != pl.Int64:
        return ids
    try:
        return [int(task) for task in ids]
    except ValueError:
        raise BadInput("tasks", got=ids[:3], want="whole numbers, as in the answers") from None


def _classes(table: Labels, classes: int | Sequence[Any] | None) -> list[Any]:
    if classes is None:
        return seen_classes(table.frame["label"])
    listed = check_classes(classes)
    if len(listed) < 2:
        raise BadInput("classes", got=classes, want="at least two classes")
    return listed


def _numbered(series: pl.Series) -> tuple[NDArray[np.int32], pl.Series]:
    """Codes and sorted ids, by a table where ids are small whole numbers, else by hashing."""
    if series.dtype == pl.Int64:
        values = series.to_numpy()
        low, high = int(values.min()), int(values.max())
        if high - low < max(_LOOKUP * values.size, 1024):
            shifted = values - low if low else values
            seen = np.zeros(high - low + 1, dtype=np.bool_)
            seen[shifted] = True
            ids = np.flatnonzero(seen)
            lookup = np.cumsum(seen, dtype=np.int32) - np.int32(1)
            return np.asarray(lookup[shifted], dtype=np.int32), pl.Series(series.name, ids + low)
        ids, codes = np.unique(values, return_inverse=True)
        return np.asarray(codes, dtype=np.int32), pl.Series(series.name, ids)
    distinct = series.unique().sort()
    hashed = series.cast(pl.Enum(distinct)).to_physical().cast(pl.Int32).to_numpy()
    return np.asarray(hashed, dtype=np.int32), distinct


def _with_all(codes: NDArray[np.int32], ids: pl.Series, tasks: Sequence[Any]) -> tuple[NDArray[np.int32], pl.Series]:
    try:
        everything = pl.Series("task", list(tasks), dtype=ids.dtype)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        raise BadInput("tasks", got=tasks, want="ids of the same kind as in the reports") from None
    everything = everything.unique().sort()
    missing = ids.filter(~ids.is_in(everything.implode()))
    if missing.len():
        raise BadInput("tasks", got=Verbatim(f"a list without {missing[0]!r}"), want="every task that has a report")
    return _positions(everything, ids.to_list(), "tasks", "task").astype(np.int32)[codes], everything


def _positions(known: pl.Series, ids: Sequence[Any], argument: str, noun: str) -> NDArray[np.int64]:
    lookup = {value: i for i, value in enumerate(known.to_list())}
    try:
        return np.array([lookup[v.item() if isinstance(v, np.generic) else v] for v in ids], dtype=np.int64)
    except (KeyError, TypeError) as error:
        raise BadInput(argument, got=error.args[0], want=f"ids of {noun}s that occur in the reports") from None
