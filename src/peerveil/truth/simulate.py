"""Crowds of many shapes, with the truth known: for tests, plans and experiments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput
from peerveil.core.exact import whole
from peerveil.core.guarantee import Guarantee
from peerveil.core.randomness import Randomness, Response
from peerveil.data import Labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from peerveil.core.exact import Number

    Floats = NDArray[np.float64]

CROWDS: Final = ("one-coin", "two-coin", "biased", "confusion", "spammers", "experts", "hard-tasks")


@dataclass(frozen=True)
class SimulatedCrowd:
    """A crowd that was invented, with its truth.

    Attributes
    ----------
    answers, randomized
        What people thought, and what they sent.
    truth
        The true class of every task.
    abilities
        The true probability that a worker's answer is right, by worker.
    """

    answers: Labels
    randomized: Labels
    truth: dict[int, int]
    abilities: Floats
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
    epsilon: Number | None = 1,
    seed: int = 0,
) -> SimulatedCrowd:
    """Invent a crowd, and randomize its answers in the simulation lane.

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

    Examples
    --------
    >>> crowd = simulate_crowd(tasks=20, workers=5, answers=3, seed=1)
    >>> len(crowd.answers), len(crowd.truth), crowd.guarantee.simulated
    (60, 20, True)
    """
    for name, value, least in (
        ("tasks", tasks, 1),
        ("workers", workers, 1),
        ("answers", answers, 1),
        ("classes", classes, 2),
    ):
        whole(value, name, least)
    if answers > workers:
        raise BadInput("answers", got=answers, want=f"at most one answer a worker: {workers}")
    if kind not in CROWDS:
        raise BadInput("kind", got=kind, want=f"one of {', '.join(CROWDS)}")
    rng = np.random.default_rng(seed)
    k = int(classes)
    truth = rng.choice(k, int(tasks), p=None if shares is None else np.asarray(shares, dtype=float))
    matrices = _matrices(kind, int(workers), k, ability, rng)
    task = np.repeat(np.arange(tasks), answers)
    worker = _distinct(int(tasks), int(workers), int(answers), rng).ravel()
    rows = matrices[worker, truth[task]]
    if kind == "hard-tasks":
        rows[rng.random(tasks)[task] < 1 / 3] = 1 / k
    given = (rng.random(task.size)[:, None] > np.cumsum(rows, axis=1)[:, :-1]).sum(axis=1)
    randomness = Randomness.simulation(seed + 1)
    sent = given if epsilon is None else randomness.respond(given, Response(epsilon, k))
    right = matrices[:, np.arange(k), np.arange(k)]
    weights = np.full(k, 1 / k) if shares is None else np.asarray(shares, dtype=float)
    return SimulatedCrowd(
        answers=Labels(task=task, worker=worker, label=given),
        randomized=Labels(task=task, worker=worker, label=sent),
        truth=dict(enumerate(truth.tolist())),
        abilities=right @ weights,
        classes=k,
        guarantee=randomness.stamp(Guarantee.local_attribute_dp(epsilon)),
    )


def _matrices(kind: str, workers: int, k: int, ability: tuple[float, float], rng: Any) -> Floats:
    """Confusion matrices, one a worker."""
    a, b = ability
    if kind == "confusion":
        rows = np.full((k, k), b / (k - 1))
        np.fill_diagonal(rows, a)
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
    full = np.repeat(((1 - skill) / (k - 1))[:, :, None], k, axis=2)
    full[:, np.arange(k), np.arange(k)] = skill
    return full


def _distinct(tasks: int, workers: int, answers: int, rng: Any) -> NDArray[np.int64]:
    """Different workers for every task, uniformly."""
    if answers * 4 > workers:
        return np.asarray(rng.random((tasks, workers)).argpartition(answers - 1, axis=1)[:, :answers])
    chosen = rng.integers(0, workers, (tasks, answers))
    while True:
        ordered = np.sort(chosen, axis=1)
        again = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if not again.size:
            return np.asarray(chosen)
        chosen[again] = rng.integers(0, workers, (again.size, answers))
