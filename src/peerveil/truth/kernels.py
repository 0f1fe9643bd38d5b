"""Compiled loops over answers that are sorted by task.

Both passes of an iteration are done at once: the posterior of a task needs its own answers only, and is added to the
tallies of the workers who gave them before the next task is looked at. So an iteration reads every answer twice while it is
in the processor's cache, and nothing of the size of the data is made.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@nb.njit(cache=True)
def sort_by_task(task: Any, worker: Any, label: Any, tasks: int) -> Any:
    """A counting sort by task: where each task begins, and workers and labels in that order (stable)."""
    start = np.zeros(tasks + 1, np.int64)
    for i in range(task.size):
        start[task[i] + 1] += 1
    for t in range(tasks):
        start[t + 1] += start[t]
    place = start[:-1].copy()
    by_worker = np.empty(task.size, np.int32)
    by_label = np.empty_like(label)
    for i in range(task.size):
        at = place[task[i]]
        by_worker[at] = worker[i]
        by_label[at] = label[i]
        place[task[i]] = at + 1
    return start, by_worker, by_label


@nb.njit(cache=True)
def _normalize(score: Any, top: float) -> float:
    """Scores to probabilities in place; returns the logarithm of their sum of exponentials."""
    total = 0.0
    for z in range(score.size):
        score[z] = math.exp(score[z] - top)
        total += score[z]
    for z in range(score.size):
        score[z] /= total
    return top + math.log(total)


@nb.njit(cache=True)
def table_pass(
    start: Any, worker: Any, label: Any, table: Any, log_prior: Any, gold: Any, posterior: Any, tally: Any
) -> float:
    """One iteration for any model. ``table[w, r, z]`` is the logarithm of the weight of report r by worker w if z is true.

    Writes the posteriors and ``tally[w, r, z]``, the expected number of reports r of worker w on tasks of class z. Returns
    the sum over tasks of ln sum_z prior(z) prod weights. ``gold[t]`` is a known answer or -1.
    """
    k = np.uint64(log_prior.size)  # unsigned, so that no index can be negative and none is checked for it
    tally[:] = 0.0
    weights, counts = table.reshape(-1), tally.reshape(-1)
    score = np.empty(k)
    total = 0.0
    for t in range(start.size - 1):
        for z in range(k):
            score[z] = log_prior[z]
        for i in range(start[t], start[t + 1]):
            cell = (np.uint64(worker[i]) * k + np.uint64(label[i])) * k
            for z in range(k):
                score[z] += weights[cell + z]
        if gold[t] >= 0:
            total += score[gold[t]]
            for z in range(k):
                score[z] = 1.0 if z == gold[t] else 0.0
        else:
            top = score[0]
            for z in range(1, k):
                top = max(top, score[z])
            total += _normalize(score, top)
        for z in range(k):
            posterior[t, z] = score[z]
        for i in range(start[t], start[t + 1]):
            cell = (np.uint64(worker[i]) * k + np.uint64(label[i])) * k
            for z in range(k):
                counts[cell + z] += score[z]
    return total


@nb.njit(cache=True)
def coin_pass(start: Any, worker: Any, label: Any, crowd: Any, log_prior: Any, gold: Any, posterior: Any) -> float:
    """:func:`table_pass` for one-coin models, at a cost that does not grow with the number of classes.

    A report that shows the true class weighs ``crowd[w, 0]`` more than any other (logarithms; what it weighs otherwise is the
    same whatever is true, and is added by the caller). ``crowd[w, 1]`` becomes the expected number of reports of worker w
    that show the true class. Both stand beside each other, so that a worker is fetched from memory once a task.
    """
    k = log_prior.size
    crowd[:, 1] = 0.0
    score = np.empty(k)
    total = 0.0
    for t in range(start.size - 1):
        for z in range(k):
            score[z] = log_prior[z]
        for i in range(start[t], start[t + 1]):
            score[label[i]] += crowd[worker[i], 0]
        if gold[t] >= 0:
            total += score[gold[t]]
            for z in range(k):
                score[z] = 1.0 if z == gold[t] else 0.0
        else:
            top = score[0]
            for z in range(1, k):
                top = max(top, score[z])
            total += _normalize(score, top)
        for z in range(k):
            posterior[t, z] = score[z]
        for i in range(start[t], start[t + 1]):
            crowd[worker[i], 1] += score[label[i]]
    return total


@nb.njit(cache=True)
def tally_of(start: Any, worker: Any, label: Any, posterior: Any, tally: Any) -> None:
    """The tally that belongs to given posteriors."""
    tally[:] = 0.0
    for t in range(start.size - 1):
        for i in range(start[t], start[t + 1]):
            row = tally[worker[i], label[i]]
            for z in range(posterior.shape[1]):
                row[z] += posterior[t, z]


@nb.njit(cache=True)
def hits_of(start: Any, worker: Any, label: Any, posterior: Any, hits: Any) -> None:
    """The expected hits that belong to given posteriors."""
    hits[:] = 0.0
    for t in range(start.size - 1):
        for i in range(start[t], start[t + 1]):
            hits[worker[i]] += posterior[t, label[i]]


@nb.njit(cache=True)
def doubt_of(start: Any, worker: Any, label: Any, posterior: Any, doubt: Any) -> None:
    """For every worker the sum of c (1 - c) over reports, with c the probability that a report shows the true class."""
    doubt[:] = 0.0
    for t in range(start.size - 1):
        for i in range(start[t], start[t + 1]):
            c = posterior[t, label[i]]
            doubt[worker[i]] += c * (1.0 - c)


@nb.njit(cache=True)
def votes_of(start: Any, label: Any, votes: Any) -> None:
    """How many reports of each class every task has."""
    votes[:] = 0.0
    for t in range(start.size - 1):
        for i in range(start[t], start[t + 1]):
            votes[t, label[i]] += 1.0
