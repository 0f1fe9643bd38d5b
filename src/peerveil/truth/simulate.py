"""Synthetic crowds with known correct answers: for tests, plans and experiments."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
import polars as pl

from peerveil.core.arrays import Floats, Ints
from peerveil.core.errors import BadInput, one_of
from peerveil.core.exact import Number, whole
from peerveil.core.guarantee import Guarantee, read_epsilon
from peerveil.core.randomness import Randomness, Response, SubsetResponse, best_response
from peerveil.data import Labels
from peerveil.data.readers.files import InputFile
from peerveil.truth.randomize import RESPONSES
from peerveil.truth.result import TruthResult

CROWDS: Final = ("one-coin", "two-coin", "biased", "confusion", "spammers", "experts", "hard-tasks")


@dataclass(frozen=True)
class SimulatedCrowd:
    """A synthetic crowd."""

    answers: Labels
    randomized: Labels
    """What people sent."""
    truth: dict[int, int]
    """The correct class of every task."""
    abilities: Floats
    """The probability that a worker's answer is correct, by worker."""
    classes: int
    guarantee: Guarantee

    def named(self, classes: Sequence[Any]) -> Labels:
        """The answers with these names for the classes, and the correct label beside each."""
        frame = self.answers.frame
        label, truth = frame["label"].to_list(), [self.truth[task] for task in frame["task"].to_list()]
        names = {"label": [classes[code] for code in label], "truth": [classes[code] for code in truth]}
        return Labels.from_frame(frame.with_columns(**{name: pl.Series(values) for name, values in names.items()}))


def simulate_crowd(
    *,
    tasks: int = 500,
    workers: int = 50,
    answers: int = 10,
    classes: int = 2,
    kind: str = "one-coin",
    ability: tuple[float, float] = (4.0, 2.0),
    shares: Sequence[float] | None = None,
    epsilon: Number | Sequence[Number] | None = 1,
    response: str = "auto",
    seed: int = 0,
) -> SimulatedCrowd:
    """Draw a synthetic crowd, and randomize its answers.

    Parameters
    ----------
    answers
        How many different workers answer each task.
    kind
        ``"one-coin"``: abilities from Beta ``ability``, errors even. ``"two-coin"``: an ability for every worker and class.
        ``"biased"``: everybody leans to the first class alike. ``"confusion"``: matrices with Dirichlet rows.
        ``"spammers"``: half of the workers always give one class of their own. ``"experts"``: Theorem 4, ceil(n^0.4) perfect
        workers among coin-flippers. ``"hard-tasks"``: a third of the tasks is answered by chance.
    shares
        Of the classes; even if left out.
    epsilon
        Of every answer; or the protection levels that people chose, one per worker.
    response
        ``"auto"`` or ``"k-ary"``, as of :func:`peerveil.truth.randomize_answers`.

    Examples
    --------
    >>> crowd = simulate_crowd(tasks=20, workers=5, answers=3, seed=1)
    >>> len(crowd.answers), len(crowd.truth), crowd.guarantee.simulated
    (60, 20, True)
    """
    tasks, workers, k = whole(tasks, "tasks", 1), whole(workers, "workers", 1), whole(classes, "classes", 2)
    answers = whole(answers, "answers", 1, workers, want=f"at most one answer per worker: {workers}")
    one_of(kind, "kind", CROWDS)
    rng = np.random.default_rng(seed)
    weights = None if shares is None else np.asarray(shares, dtype=float)
    truth = rng.choice(k, tasks, p=weights)
    matrices = _matrices(kind, workers, k, ability, rng)
    task = np.repeat(np.arange(tasks), answers)
    worker = _distinct(tasks, workers, answers, rng).ravel()
    rows = matrices[worker, truth[task]]
    if kind == "hard-tasks":
        rows[rng.random(tasks)[task] < 1 / 3] = 1 / k
    answer = (rng.random(task.size)[:, None] > np.cumsum(rows, axis=1)[:, :-1]).sum(axis=1)
    randomness = Randomness.simulation(seed + 1)
    one_of(response, "response", RESPONSES)
    form: Callable[[Number, int], Response | SubsetResponse] = Response if response == "k-ary" else best_response
    columns: dict[str, Any] = {"task": task, "worker": worker, "label": answer}
    largest: Number | None
    sent: Any = answer
    if isinstance(epsilon, (list, tuple)):
        levels = [read_epsilon(level) for level in epsilon]
        if len(levels) != workers:
            raise BadInput("epsilon", got=epsilon, want=f"one epsilon, or one for each of the {workers} workers")
        sent, largest = _respond_by_level(answer, worker, levels, form, k, randomness), max(levels)
        columns["epsilon"] = [str(levels[w]) for w in worker.tolist()]
    else:
        largest = None if epsilon is None else read_epsilon(epsilon)  # type: ignore[arg-type]  # no sequence
        sent = answer if largest is None else randomness.respond(answer, form(largest, k))
    right = matrices[:, np.arange(k), np.arange(k)]
    return SimulatedCrowd(
        answers=Labels(task=task, worker=worker, label=answer),
        randomized=Labels(**{**columns, "label": sent}),
        truth=dict(enumerate(truth.tolist())),
        abilities=right @ (np.full(k, 1 / k) if weights is None else weights),
        classes=k,
        guarantee=randomness.stamp(Guarantee.local_attribute_dp(largest)),
    )


def _respond_by_level(
    answer: Ints,
    worker: Ints,
    levels: Sequence[Fraction],
    form: Callable[[Number, int], Response | SubsetResponse],
    k: int,
    randomness: Randomness,
) -> list[Any]:
    """What workers with different epsilons send: labels, or lists of them if any level has lists."""
    of_worker = np.array([sorted(set(levels)).index(level) for level in levels])
    sent: list[Any] = [None] * answer.size
    responses = [form(level, k) for level in sorted(set(levels))]
    for place, used in enumerate(responses):
        rows = np.flatnonzero(of_worker[worker] == place)
        drawn = randomness.respond(answer[rows], used) if rows.size else answer[rows]
        if drawn.ndim == 1 and any(response.size > 1 for response in responses):
            drawn = drawn[:, None]
        for row, value in zip(rows.tolist(), drawn.tolist(), strict=True):
            sent[row] = value
    return sent


def abilities_like(workers: Any) -> tuple[float, float]:
    """The Beta distribution of abilities that fits the workers of an earlier run.

    Parameters
    ----------
    workers
        A result of this module, or a table of workers (:meth:`WorkerAbilities.frame`): a file name such as
        ``workers.csv``, or a frame with columns ability and standard_error.

    Notes
    -----
    Abilities are means of what is known of each worker, so the variance over workers is that of the means plus the mean of
    the squared standard errors (the law of total variance). Mean and variance then give a and b.

    Examples
    --------
    >>> a, b = abilities_like({"ability": [0.5, 0.6, 0.7, 0.8, 0.9], "standard_error": [0.1] * 5})
    >>> round(a / (a + b), 2), round(a + b, 1)
    (0.7, 5.0)
    """
    table = workers
    if isinstance(workers, TruthResult):
        table = {"ability": workers.abilities, "standard_error": workers.standard_errors}
    path = InputFile.open(workers).path if isinstance(workers, (str, os.PathLike)) else None
    try:
        table = table if path is None else pl.read_csv(path)
        means, errors = (np.asarray(table[name], dtype=np.float64) for name in ("ability", "standard_error"))
    except (KeyError, TypeError, ValueError, pl.exceptions.PolarsError):
        columns = "columns ability and standard_error, as `peerveil truth infer` writes workers.csv"
        raise BadInput("workers", got=workers, want=f"a table of workers with {columns}") from None
    valid = means.size >= 2 and np.isfinite(errors).all() and (errors >= 0).all()
    if not valid or not ((means >= 0) & (means <= 1)).all():
        want = "at least two workers, abilities from 0 to 1 and finite standard errors"
        raise BadInput("workers", got=means, want=want)
    mean = float(np.clip(means.mean(), 0.01, 0.99))
    variance = float(means.var(ddof=1) + (errors**2).mean())
    size = float(np.clip(mean * (1 - mean) / max(variance, 1e-6) - 1, 0.5, 500.0))
    return mean * size, (1 - mean) * size


def _matrices(kind: str, workers: int, k: int, ability: tuple[float, float], rng: np.random.Generator) -> Floats:
    """Confusion matrices, one per worker."""
    a, b = ability
    if kind == "confusion":
        rows = np.where(np.eye(k, dtype=bool), a, b / (k - 1))
        return np.stack([np.stack([rng.dirichlet(row) for row in rows]) for _ in range(workers)])
    if kind == "two-coin":
        return _even(rng.beta(a, b, (workers, k)))
    if kind == "experts":
        p = np.full(workers, 1 / k)
        p[: math.ceil(workers**0.4)] = 1.0
        return _even(np.repeat(p[:, None], k, axis=1))
    skill = np.repeat(rng.beta(a, b, workers)[:, None], k, axis=1)
    if kind == "biased":
        skill = 1 / (1 + np.exp(-(np.log(skill / (1 - skill)) + np.linspace(1, -1, k))))
    full = _even(skill)
    if kind == "spammers":
        lazy = np.flatnonzero(rng.random(workers) < 0.5)
        full[lazy] = 0.05 / (k - 1)
        full[lazy, :, rng.integers(0, k, lazy.size)] = 0.95
    return full


def _even(skill: Floats) -> Floats:
    """Matrices with the given diagonal and even errors."""
    k = skill.shape[1]
    return np.where(np.eye(k, dtype=bool), skill[:, :, None], ((1 - skill) / (k - 1))[:, :, None])


def _distinct(tasks: int, workers: int, answers: int, rng: np.random.Generator) -> Ints:
    """Different workers for every task, uniformly."""
    if answers * 4 > workers:
        return np.asarray(rng.random((tasks, workers)).argpartition(answers - 1, axis=1)[:, :answers])
    chosen = rng.integers(0, workers, (tasks, answers))
    while (again := np.flatnonzero((np.diff(np.sort(chosen, axis=1), axis=1) == 0).any(axis=1))).size:
        chosen[again] = rng.integers(0, workers, (again.size, answers))
    return np.asarray(chosen)
