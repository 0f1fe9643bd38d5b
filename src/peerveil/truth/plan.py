"""How many answers for an accuracy at an epsilon: simulated, so that choosing costs nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import printed, whole
from peerveil.core.guarantee import read_epsilon
from peerveil.core.progress import progress_bar
from peerveil.core.result import Plan
from peerveil.truth.estimate import PrivateDawidSkene
from peerveil.truth.majority import PrivateMajority
from peerveil.truth.result import TruthResult
from peerveil.truth.simulate import simulate_crowd

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

    from peerveil.core.exact import Number

EPSILONS: Final = ("0.5", "1", "2", "4")
ANSWERS: Final = (3, 5, 9, 15, 25, 45, 80)
_ANSWERS_OF_A_WORKER: Final = 60
_HALVINGS: Final = 5  # at most so many between two neighbors of ANSWERS


@dataclass(frozen=True, slots=True)
class TruthPlanRow:
    """Accuracy that was reached with so many answers a task at one epsilon (``None``: no privacy), with its standard error."""

    epsilon: float | None
    answers: int
    accuracy: float
    majority: float
    error: float


@dataclass(frozen=True, slots=True)
class TruthPlan(Plan):
    """What each epsilon costs in answers.

    Attributes
    ----------
    needed
        For each epsilon (``None``: no privacy) the smallest number of answers a task that reached the accuracy, to about a
        twentieth; ``None`` if none that was tried did.
    """

    accuracy: float
    classes: int
    ability: tuple[float, float]
    rows: tuple[TruthPlanRow, ...]
    needed: dict[float | None, int | None]

    @property
    def recommendation(self) -> str:
        """How many answers per task each epsilon takes."""
        parts = [
            f"{'no privacy' if e is None else f'epsilon {e:g}'}: "
            f"{'more than ' + str(max(r.answers for r in self.rows)) if n is None else n}"
            for e, n in self.needed.items()
        ]
        return f"Answers per task for {100 * self.accuracy:g}% correct labels: " + "; ".join(parts) + "."

    def __str__(self) -> str:
        lines = [f"{'epsilon':>8} {'answers':>8} {'accuracy':>9} {'majority':>9}"]
        lines += [f"{_name(r.epsilon):>8} {r.answers:>8} {r.accuracy:>9.3f} {r.majority:>9.3f}" for r in self.rows]
        return "\n".join([*lines, self.recommendation])

    def table(self) -> pl.DataFrame:
        """One row per epsilon (null: no privacy) and number of answers per task that was tried."""
        columns = {name: [getattr(row, name) for row in self.rows] for name in TruthPlanRow.__slots__}
        return pl.DataFrame(columns, schema_overrides={"epsilon": pl.Float64})

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {**Plan.to_dict(self), "needed": {str(e).lower(): n for e, n in self.needed.items()}}

    def draw(self, ax: Axes) -> None:
        """Accuracy against answers a task, one line an epsilon."""
        from peerveil.truth.figures import draw_plan

        draw_plan(self, ax)


def _name(epsilon: float | None) -> str:
    return "none" if epsilon is None else f"{epsilon:g}"


def plan_truth(
    *,
    accuracy: float = 0.9,
    epsilons: Sequence[Number | None] = EPSILONS,
    classes: int = 2,
    ability: tuple[float, float] = (4.0, 2.0),
    answers: Sequence[int] = ANSWERS,
    tasks: int = 300,
    trials: int = 3,
    seed: int = 0,
    progress: bool | None = None,
) -> TruthPlan:
    """How many answers a task an accuracy takes, by simulation of a one-coin crowd.

    Parameters
    ----------
    accuracy
        The share of right labels to reach.
    epsilons
        Which to try; ``None`` (or ``"none"``) is no privacy, for comparison.
    ability
        The Beta distribution of abilities, two numbers a and b: on average a/(a + b) of a person's answers are right, and
        people differ less the larger a + b is. (4, 2) has mean 2/3, which is what real crowds have in the middle;
        :func:`abilities_like` takes them from an earlier run.
    answers
        Which numbers of answers a task to try, rising. Between the first that is enough and the one before it, the search
        goes on by halving.
    tasks, trials
        The size of a simulated crowd (everybody answers about 60 tasks), and how many.

    Examples
    --------
    >>> plan = plan_truth(accuracy=0.8, epsilons=[1, 4], answers=(5, 15, 45), tasks=150, trials=2)
    >>> plan.needed[4.0] < plan.needed[1.0]
    True
    """
    whole(classes, "classes", 2)
    if not (isinstance(accuracy, (int, float)) and 1 / classes < accuracy < 1):
        raise BadInput("accuracy", got=accuracy, want=f"a share between chance (1/{classes}) and 1")
    whole(trials, "trials", 1)
    tried = [int(n) for n in answers]
    if not tried or tried != sorted(set(tried)) or tried[0] < 1:
        raise BadInput("answers", got=answers, want="rising numbers of answers a task")
    wanted = [_read(e) for e in epsilons]
    if not wanted or len(set(wanted)) < len(wanted):
        raise BadInput("epsilons", got=epsilons, want="at least one epsilon, and each once")
    rows: list[TruthPlanRow] = []
    needed: dict[float | None, int | None] = {}
    steps = len(tried) + _HALVINGS
    with progress_bar("planning", total=len(wanted) * steps * trials, show=progress) as advance:
        for epsilon in wanted:
            done = 0

            def reached(n: int, epsilon: float | None = epsilon) -> bool:
                rows.append(_row(epsilon, n, classes, ability, tasks, trials, seed, advance))
                return rows[-1].accuracy >= accuracy

            low, high = 0, None
            for n in tried:
                done += 1
                if reached(n):
                    high = n
                    break
                low = n
            while high is not None and low > 0 and high - low > max(1, high // 20):
                middle = (low + high) // 2
                done += 1
                low, high = (low, middle) if reached(middle) else (middle, high)
            needed[epsilon] = high
            advance(max(0, steps - done) * trials)
    order = {epsilon: place for place, epsilon in enumerate(wanted)}
    rows.sort(key=lambda row: (order[row.epsilon], row.answers))
    return TruthPlan(float(accuracy), int(classes), ability, tuple(rows), needed)


def _read(epsilon: Number | None) -> float | None:
    if epsilon is None or (isinstance(epsilon, str) and epsilon.strip().lower() == "none"):
        return None
    return printed(read_epsilon(epsilon, "epsilons"), "up")


def _row(
    epsilon: float | None,
    n: int,
    classes: int,
    ability: tuple[float, float],
    tasks: int,
    trials: int,
    seed: int,
    advance: Callable[[int], None],
) -> TruthPlanRow:
    """Accuracy with n answers a task, over simulated crowds."""
    scores = []
    for trial in range(trials):
        workers = max(n, tasks * n // _ANSWERS_OF_A_WORKER)
        crowd = simulate_crowd(
            tasks=tasks,
            workers=workers,
            answers=n,
            classes=classes,
            ability=ability,
            epsilon=epsilon,
            seed=seed + trial,
        )
        estimators = [kind(epsilon=epsilon, classes=classes) for kind in (PrivateDawidSkene, PrivateMajority)]
        scores.append([e.fit(crowd.randomized, guarantee=crowd.guarantee).accuracy(crowd.truth)[0] for e in estimators])
        advance(1)
    mean = np.mean(scores, axis=0)
    error = float(np.sqrt(mean[0] * (1 - mean[0]) / (tasks * trials)))
    return TruthPlanRow(epsilon, n, float(mean[0]), float(mean[1]), error)


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
    want = "a table of workers with columns ability and standard_error, as `peerveil truth infer` writes workers.csv"
    if isinstance(table, (str, os.PathLike)):
        from peerveil.data.readers.files import InputFile

        path = InputFile.open(table).path
        try:
            table = pl.read_csv(path, columns=["ability", "standard_error"])
        except pl.exceptions.PolarsError:
            raise BadInput(str(table), got=Verbatim("another table"), want=want) from None
    try:
        means, errors = (np.asarray(table[name], dtype=np.float64) for name in ("ability", "standard_error"))
    except (KeyError, TypeError, ValueError, pl.exceptions.PolarsError):
        raise BadInput("workers", got=workers, want=want) from None
    good = means.size >= 2 and np.isfinite(means).all() and np.isfinite(errors).all() and (errors >= 0).all()
    if not good or means.min() < 0 or means.max() > 1:
        raise BadInput(
            "workers", got=means, want="at least two workers, abilities from 0 to 1 and finite standard errors"
        )
    mean = float(np.clip(means.mean(), 0.01, 0.99))
    spread = float(means.var(ddof=1) + (errors**2).mean())
    size = float(np.clip(mean * (1 - mean) / max(spread, 1e-6) - 1, 0.5, 500.0))
    return mean * size, (1 - mean) * size
