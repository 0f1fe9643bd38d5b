"""A start from the leading singular vector of the table of reports (Zhang, Chen, Zhou and Jordan, 2016, in spirit).

For one class c, x = 1 for a report of c and -1/(k-1) for any other. If abilities differ, votes should be weighted by them: the
leading singular vectors of the sparse table of x weight workers and tasks by each other, without any model, in a few passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from peerveil.truth.reports import Reports

    Floats = NDArray[np.float64]

_PASSES: Final = 30


def spectral_start(reports: Reports) -> Floats:
    """Posteriors to begin with, one row a task.

    >>> from peerveil.truth.reports import Reports
    >>> table = {"task": [0, 0, 0, 1, 1, 1], "worker": [0, 1, 2] * 2, "label": [0, 0, 1, 1, 1, 0]}
    >>> spectral_start(Reports.of(table)).argmax(axis=1).tolist()
    [0, 1]
    """
    tasks, workers, k = len(reports.tasks), len(reports.workers), reports.k
    task = np.repeat(np.arange(tasks), np.diff(reports.start))
    weight = np.ones(workers)
    sizes = np.maximum(np.diff(reports.start), 1)
    loads = np.maximum(reports.loads, 1)
    score = np.zeros((tasks, k))
    for _ in range(_PASSES):
        for c in range(k):
            x = np.where(reports.label == c, 1.0, -1.0 / (k - 1))
            score[:, c] = np.bincount(task, x * weight[reports.worker], minlength=tasks) / sizes
        shown = score[task, reports.label]
        own = weight[reports.worker] / sizes[task]  # a worker is not judged by their own vote
        new = np.bincount(reports.worker, shown - own, minlength=workers) / loads
        length = float(np.sqrt((new**2).sum()))
        if length == 0:
            break
        new = new / length
        if float(new.sum()) < 0:  # the sign is free; most workers are better than chance
            new = -new
        done = float(np.abs(new - weight).max()) < 1e-8
        weight = new
        if done:
            break
    top = np.abs(score).max() or 1.0
    raised = np.exp(3 * score / top)
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))
