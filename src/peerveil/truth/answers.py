"""Answers as the estimators hold them, randomized or not: ids replaced by numbers, sorted by task."""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from peerveil.core.arrays import Codes, Floats, Ints
from peerveil.core.errors import BadInput, Verbatim, one_of
from peerveil.core.exact import numbers
from peerveil.core.lazy import njit
from peerveil.data import Labels
from peerveil.data.labels import check_classes
from peerveil.data.readers.files import InputFile

_Value = TypeVar("_Value")
ById: TypeAlias = Mapping[int, _Value] | Mapping[str, _Value] | Mapping[int | str, _Value]
"""One value for each of some tasks or workers, by their ids."""

REPEATED: Final = ("all", "first", "last", "refuse")
_TRUTH_VALUES: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_LOOKUP_RATIO: Final = 8  # ids that span at most so many numbers per answer are coded by a table


@dataclass(frozen=True, eq=False)
class EncodedAnswers:
    """Answers, encoded: those to task t are the rows from ``start[t]`` to ``start[t + 1]``.

    Codes are positions in the sorted ``tasks`` and ``workers`` and in ``classes``. Up to 256 classes a label is one byte. An
    answer that names several classes (a subset response) has a row for each, one after the other; ``sizes`` says by worker how
    many.
    """

    tasks: pl.Series
    workers: pl.Series
    classes: tuple[Any, ...]
    start: Codes
    worker: Codes
    label: Codes
    most_sent: int | None = None  # by the busiest worker, if a rule for repeated answers leaves some out
    sizes: Ints | None = None  # [worker]: classes that an answer names; None is 1
    epsilons: tuple[Any, ...] | None = None  # [worker]: the column epsilon, if there is one

    sample_size: ClassVar[int] = 2_000_000

    @property
    def k(self) -> int:
        """The number of classes."""
        return len(self.classes)

    @cached_property
    def loads(self) -> Ints:
        """The number of answers of each worker."""
        rows = np.bincount(self.worker, minlength=len(self.workers))
        return rows if self.sizes is None else rows // self.sizes

    @cached_property
    def answer_starts(self) -> Ints:
        """The first row of every answer."""
        if self.sizes is None:
            return np.arange(self.label.size)
        share = 1 / self.sizes[self.worker]  # of an answer that a row is
        answer = np.floor(np.cumsum(share) - share + 1e-6)
        return np.flatnonzero(np.diff(answer, prepend=-1))

    @cached_property
    def votes(self) -> Floats:
        """The number of answers by task and class."""
        votes = np.zeros((len(self.tasks), self.k))
        _count_votes(self.start, self.label, votes)
        return votes

    @property
    def vote_shares(self) -> Floats:
        """The share of each class among the answers to each task; even for a task without answers."""
        total = np.diff(self.start)
        shares = self.votes * (1 / np.maximum(total, 1))[:, None]
        if not total.all():
            shares[total == 0] = 1 / self.k
        return shares

    def __len__(self) -> int:
        return self.label.size if self.sizes is None else int(self.loads.sum())

    @classmethod
    def of(
        cls,
        labels: object,
        classes: int | Sequence[Hashable] | None = None,
        *,
        tasks: Sequence[Hashable] | None = None,
        repeated: str = "all",
    ) -> EncodedAnswers:
        """Encode a table of answers.

        Parameters
        ----------
        labels
            A :class:`~peerveil.data.Labels` table, a pandas or Polars frame with columns task, worker and label, or a
            mapping of such columns.
        classes
            The classes, or how many there are; by default those among the answers.
        tasks
            All tasks, if some may have no answer.
        repeated
            What to do with several answers of one worker to one task: use ``"all"`` (each was randomized and paid for), only
            the ``"first"`` or the ``"last"``, or ``"refuse"``.

        Examples
        --------
        >>> answers = EncodedAnswers.of({"task": [2, 1, 2], "worker": ["b", "a", "a"], "label": [1, 0, 1]})
        >>> answers.tasks.to_list(), answers.start.tolist(), answers.label.tolist()
        ([1, 2], [0, 1, 3], [0, 1, 1])
        """
        one_of(repeated, "repeated", REPEATED)
        if isinstance(labels, EncodedAnswers):
            return labels
        table = Labels.of(labels, "labels")
        most_sent = None if repeated == "all" else int(np.bincount(table.numbered("worker")[0]).max())
        table = _without_repeats(table, repeated)
        frame, sizes = table.frame, None
        epsilons = _by_worker(frame, "epsilon") if "epsilon" in frame.columns else None
        if table.has_subsets:
            sizes = np.array(_by_worker(frame.with_columns(label=pl.col("label").list.len()), "label"))
            table = table.members
            frame = table.frame
        class_list = observed_classes(frame["label"]) if classes is None else check_classes(classes)
        if len(class_list) < 2:
            raise BadInput("classes", got=classes, want="at least two classes")
        task_codes, task_ids = _encode(frame["task"])
        worker_codes, worker_ids = _encode(frame["worker"])
        if tasks is not None:
            answered, task_ids = task_ids, all_tasks(tasks, task_ids)
            task_codes = task_ids.search_sorted(answered).to_numpy().astype(np.int32)[task_codes]
        label_codes: Codes = table.codes(class_list).astype(
            np.uint8 if len(class_list) <= 256 else np.int32, copy=False
        )
        del frame, table  # a converted copy of the caller's frame need not stay while the sorted one is made
        start, worker, label = _sort_by_task(task_codes, worker_codes, label_codes, len(task_ids))
        if sizes is not None and sizes.max() >= len(class_list):
            got = Verbatim(f"lists of {sizes.max()} labels, with {len(class_list)} classes")
            raise BadInput("labels", got=got, want="fewer labels in a list than there are classes")
        return cls(task_ids, worker_ids, tuple(class_list), start, worker, label, most_sent, sizes, epsilons)

    def sample(self, size: int | None = None) -> EncodedAnswers:
        """Whole tasks, evenly spaced, with about ``size`` answers (default: ``sample_size``); the same on every engine."""
        size = self.sample_size if size is None else size
        if len(self) <= size:
            return self
        chosen = np.arange(0, len(self.tasks), math.ceil(len(self) / size))
        sizes = np.diff(self.start)[chosen]
        start = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.repeat(self.start[chosen] - start[:-1], sizes) + np.arange(start[-1])
        tasks = self.tasks.gather(chosen)
        data = start, self.worker[rows], self.label[rows]
        return EncodedAnswers(tasks, self.workers, self.classes, *data, sizes=self.sizes, epsilons=self.epsilons)

    def frame(self) -> pl.DataFrame:
        """The answers as a table: task, worker and label; and epsilon, if it was given by worker."""
        first, label = self.answer_starts, pl.Series(decode_classes(self.label, self.classes))
        if self.sizes is not None:
            answer = np.repeat(np.arange(first.size), np.diff(first, append=self.label.size))
            label = pl.DataFrame({"a": answer, "label": label}).group_by("a", maintain_order=True).agg("label")["label"]
        columns = {
            "task": self.tasks.gather(np.repeat(np.arange(len(self.tasks)), np.diff(self.start))[first]),
            "worker": self.workers.gather(self.worker[first]),
            "label": label,
        }
        if self.epsilons is not None:
            columns["epsilon"] = pl.Series(list(self.epsilons)).gather(self.worker[first])
        return pl.DataFrame(columns)

    def task_codes(self, ids: Iterable[Hashable], argument: str) -> Ints:
        """The positions of tasks; an unknown id is refused."""
        lookup = {value: i for i, value in enumerate(self.tasks.to_list())}
        try:
            return np.array([lookup[_plain(task)] for task in ids], dtype=np.int64)
        except (KeyError, TypeError) as error:
            raise BadInput(argument, got=error.args[0], want="ids of tasks that have answers") from None

    def known_codes(self, answers: ById[Hashable] | None) -> NDArray[np.int32] | None:
        """The class of every task whose correct answer is known, -1 for the others."""
        if answers is None:
            return None
        known = np.full(len(self.tasks), -1, dtype=np.int32)
        known[self.task_codes(answers, "known")] = encode_known(answers, self.classes)
        return known


def _by_worker(frame: pl.DataFrame, column: str) -> tuple[Any, ...]:
    """The value that a column has in all rows of a worker, by worker in the order of their ids."""
    what = {
        "epsilon": "one epsilon in all answers of a worker",
        "label": "equally many labels in all lists of a worker",
    }
    values = frame.group_by("worker").agg(pl.col(column).unique().sort()).sort("worker")
    several = values.filter(pl.col(column).list.len() > 1)
    if several.height:
        got = Verbatim(f"{several[column][0].to_list()} from worker {several['worker'][0]!r}")
        raise BadInput("epsilon" if column == "epsilon" else "labels", got=got, want=what[column])
    return tuple(values[column].list.first().to_list())


def encode_known(answers: ById[Hashable], classes: Sequence[Hashable]) -> NDArray[np.int32]:
    """Known correct answers as codes."""
    for task, answer in answers.items():
        if _plain(answer) not in classes:
            raise BadInput(f"known[{task!r}]", got=answer, want=f"one of the classes {list(classes)}")
    return np.array([classes.index(_plain(answer)) for answer in answers.values()], dtype=np.int32)


def history_counts(history: ById[tuple[float, float]] | None, workers: pl.Series) -> Floats | None:
    """Correct and wrong answers of each worker in earlier work, two columns; other workers are left out."""
    if history is None:
        return None
    counts = np.zeros((len(workers), 2))
    lookup = {worker: i for i, worker in enumerate(workers.to_list())}
    want = "correct and wrong answers: two finite numbers, not negative"
    for worker, pair in history.items():
        answers = numbers(pair, f"history[{worker!r}]", low=0, dimensions=(1,), want=want)
        if answers.size != 2:
            raise BadInput(f"history[{worker!r}]", got=pair, want=want)
        if worker in lookup:
            counts[lookup[worker]] = answers
    return counts


def _plain(value: Hashable) -> Hashable:
    """A number of NumPy as one of Python, since only these are ids and classes."""
    return value.item() if isinstance(value, np.generic) else value


def decode_classes(codes: Codes, classes: Sequence[Hashable]) -> NDArray[Any]:
    """Codes as the classes that they stand for."""
    return np.asarray(np.array(list(classes))[codes])


def observed_classes(labels: pl.Series) -> list[Any]:
    """The classes among the answers.

    NaN is what programs write for nothing: as a class of its own it would change what a randomized answer means, so it must be
    named to be one.
    """
    classes = labels.unique().sort().to_list()
    if len(classes) < 2:
        got = Verbatim(f"answers that are all {classes[0]!r}")
        raise BadInput("classes", got=got, want="the list of classes: it cannot be seen from equal answers")
    if nan := [value for value in classes if str(value).lower() == "nan"]:
        raise BadInput("labels", got=nan[0], want="a label in every answer, or the list of classes if that is one")
    return classes


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
        return [_TRUTH_VALUES.get(str(name).lower(), name) for name in classes]
    texts = [str(name) for name in classes if not isinstance(name, bool)]
    whole = len(texts) == len(classes) and all(text.lstrip("-").isdecimal() for text in texts)
    return [int(text) for text in texts] if whole and dtype == pl.Int64 else list(classes)


def read_tasks(path: str | os.PathLike[str], labels: Labels) -> list[Any]:
    """The ids of all tasks from a file with one per line, of the kind that the labels hold."""
    text = InputFile.open(path).path.read_text(encoding="utf-8")
    ids = [line.strip() for line in text.splitlines() if line.strip()]
    if labels.frame["task"].dtype != pl.Int64:
        return ids
    try:
        return [int(task) for task in ids]
    except ValueError:
        raise BadInput("tasks", got=ids[:3], want="whole numbers, as in the answers") from None


def all_tasks(tasks: Sequence[Hashable], answered: pl.Series) -> pl.Series:
    """A list of all tasks, sorted; it must have ids of the same kind as the answered tasks, and hold all of these."""
    try:
        ids = pl.Series("task", list(tasks), dtype=answered.dtype).unique().sort()
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        raise BadInput("tasks", got=tasks, want="ids of the same kind as in the answers") from None
    unlisted = answered.filter(~answered.is_in(ids.implode()))
    if unlisted.len():
        raise BadInput("tasks", got=Verbatim(f"a list without {unlisted[0]!r}"), want="every task that has an answer")
    return ids


def missing_class(classes: list[Any]) -> Any:
    """A class for "no answer" that is none of the others."""
    if isinstance(classes[0], bool):
        want = "numbers or texts with hide_tasks: true and false leave no third value"
        raise BadInput("classes", got=classes, want=want)
    if isinstance(classes[0], int):
        return min(classes) - 1
    marker = "no answer"
    while marker in classes:
        marker = f"({marker})"
    return marker


def full_sheet(labels: Labels, tasks: Sequence[Hashable] | None, missing: Any) -> pl.DataFrame:
    """A row for every worker and task, with the marker where there is no answer."""
    if tasks is None:
        raise BadInput("tasks", got=tasks, want="the public list of all tasks: without it, the list itself would tell")
    if labels.repeated:
        want = "one answer per task and person, to hide whether there is one"
        raise BadInput("labels", got=Verbatim("repeated answers"), want=want)
    frame = labels.frame.select("task", "worker", "label")
    listed = all_tasks(tasks, frame["task"]).to_frame()
    grid = pl.DataFrame({"worker": frame["worker"].unique().sort()}).join(listed, how="cross")
    return grid.join(frame, on=["task", "worker"], how="left").with_columns(pl.col("label").fill_null(missing))


def _without_repeats(table: Labels, repeated: str) -> Labels:
    if repeated == "all" or not table.repeated:
        return table
    if repeated == "refuse":
        got = Verbatim(f"{table.repeated:,} answers by a worker who had answered the task before")
        raise BadInput("labels", got=got, want="one answer for each task and worker, or another rule for repeated")
    rule: Literal["first", "last"] = "first" if repeated == "first" else "last"
    return Labels.from_frame(table.frame.unique(["task", "worker"], keep=rule, maintain_order=True))


def _encode(series: pl.Series) -> tuple[NDArray[np.int32], pl.Series]:
    """Codes and sorted ids, by a table where ids are small whole numbers, else by hashing."""
    if series.dtype == pl.Int64:
        values = series.to_numpy()
        low, high = int(values.min()), int(values.max())
        if high - low < max(_LOOKUP_RATIO * values.size, 1024):
            shifted = values - low if low else values
            present = np.zeros(high - low + 1, dtype=np.bool_)
            present[shifted] = True
            lookup = np.cumsum(present, dtype=np.int32) - np.int32(1)
            return np.asarray(lookup[shifted], dtype=np.int32), pl.Series(series.name, np.flatnonzero(present) + low)
        ids, codes = np.unique(values, return_inverse=True)
        return np.asarray(codes, dtype=np.int32), pl.Series(series.name, ids)
    distinct = series.unique().sort()
    return series.cast(pl.Enum(distinct)).to_physical().cast(pl.Int32).to_numpy(), distinct


@njit(cache=True)
def _sort_by_task(task: Codes, worker: Codes, label: Codes, tasks: int) -> tuple[Codes, Codes, Codes]:
    """A counting sort by task: where each task begins, and workers and labels in that order (stable)."""
    start, is_sorted = np.zeros(tasks + 1, np.int64), True
    for i in range(task.size):
        start[task[i] + 1] += 1
        is_sorted = is_sorted and (i == 0 or task[i - 1] <= task[i])
    start = np.cumsum(start)
    if is_sorted:
        return start, worker.copy(), label.copy()
    place = start[:-1].copy()
    by_worker = np.empty(task.size, np.int32)
    by_label = np.empty_like(label)
    for i in range(task.size):
        at = place[task[i]]
        by_worker[at] = worker[i]
        by_label[at] = label[i]
        place[task[i]] = at + 1
    return start, by_worker, by_label


@njit(cache=True)
def _count_votes(start: Codes, label: Codes, votes: Floats) -> None:
    """Add every answer to the votes of its task and class."""
    for t in range(start.size - 1):
        for i in range(start[t], start[t + 1]):
            votes[t, label[i]] += 1.0
