"""How many answers for an accuracy at an epsilon: simulated, so that choosing costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.errors import BadInput
from peerveil.guarantee import read_epsilon
from peerveil.numerics.exact import printed
from peerveil.progress import progress_bar
from peerveil.result import Pictured, plain
from peerveil.truth.estimate import PrivateDawidSkene, PrivateMajority
from peerveil.truth.simulate import simulate_crowd

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from peerveil.numerics.exact import Number

EPSILONS: Final = (0.5, 1, 2, 4)
ANSWERS: Final = (3, 5, 9, 15, 25, 45, 80)
_ANSWERS_OF_A_WORKER: Final = 60


@dataclass(frozen=True, slots=True)
class PlanRow:
    """Accuracy that was reached with so many answers a task at one epsilon, with its standard error."""

    epsilon: float
    answers: int
    accuracy: float
    majority: float
    error: float


@dataclass(frozen=True, slots=True)
class TruthPlan(Pictured):
    """What each epsilon costs in answers.

    Attributes
    ----------
    needed
        For each epsilon the smallest number of answers a task that reached the accuracy; ``None`` if none that was tried did.
    """

    accuracy: float
    classes: int
    ability: tuple[float, float]
    rows: tuple[PlanRow, ...]
    needed: dict[float, int | None]

    def advice(self) -> str:
        """The plan in a sentence."""
        parts = [
            f"epsilon {e:g}: {'more than ' + str(max(r.answers for r in self.rows)) if n is None else n}"
            for e, n in self.needed.items()
        ]
        return f"Answers a task for {100 * self.accuracy:g}% right labels: " + "; ".join(parts) + "."

    def __str__(self) -> str:
        lines = [f"{'epsilon':>8} {'answers':>8} {'accuracy':>9} {'majority':>9}"]
        lines += [f"{r.epsilon:>8g} {r.answers:>8} {r.accuracy:>9.3f} {r.majority:>9.3f}" for r in self.rows]
        return "\n".join([*lines, self.advice()])

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {
            "accuracy": self.accuracy,
            "classes": self.classes,
            "ability": list(self.ability),
            "rows": [plain(row) for row in self.rows],
            "needed": plain(self.needed),
            "advice": self.advice(),
        }

    def draw(self, ax: Axes) -> None:
        """Accuracy against answers a task, one line an epsilon."""
        from peerveil.truth.figures import draw_plan

        draw_plan(self, ax)


def plan_truth(
    accuracy: float = 0.9,
    epsilons: Sequence[Number] = EPSILONS,
    *,
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
    ability
        The Beta distribution of abilities; (4, 2) has mean 2/3, which is what real crowds have in the middle.
    answers
        Which numbers of answers a task to try, rising.
    tasks, trials
        The size of a simulated crowd (everybody answers about 60 tasks), and how many.

    Examples
    --------
    >>> plan = plan_truth(0.8, [1, 4], answers=(5, 15, 45), tasks=150, trials=2)
    >>> plan.needed[4.0] < plan.needed[1.0]
    True
    """
    if not (isinstance(accuracy, (int, float)) and 1 / classes < accuracy < 1):
        raise BadInput("accuracy", got=accuracy, want=f"a share between chance (1/{classes}) and 1")
    if isinstance(trials, bool) or not isinstance(trials, int) or trials < 1:
        raise BadInput("trials", got=trials, want="a whole number, at least 1")
    tried = [int(n) for n in answers]
    if not tried or tried != sorted(set(tried)) or tried[0] < 1:
        raise BadInput("answers", got=answers, want="rising numbers of answers a task")
    wanted = [printed(read_epsilon(e, "epsilons"), "up") for e in epsilons]
    rows: list[PlanRow] = []
    needed: dict[float, int | None] = {}
    with progress_bar("planning", total=len(wanted) * len(tried) * trials, show=progress) as advance:
        for epsilon in wanted:
            needed[epsilon] = None
            for n in tried:
                scores = []
                for trial in range(trials):
                    workers = max(n, tasks * n // _ANSWERS_OF_A_WORKER)
                    crowd = simulate_crowd(
                        tasks, workers, n, classes, ability=ability, epsilon=epsilon, seed=seed + trial
                    )
                    best = PrivateDawidSkene(epsilon, classes=classes).fit(crowd.reports).accuracy(crowd.truth)[0]
                    plain_ = PrivateMajority(epsilon, classes=classes).fit(crowd.reports).accuracy(crowd.truth)[0]
                    scores.append((best, plain_))
                    advance(1)
                mean = np.mean(scores, axis=0)
                error = float(np.sqrt(mean[0] * (1 - mean[0]) / (tasks * trials)))
                rows.append(PlanRow(epsilon, n, float(mean[0]), float(mean[1]), error))
                if mean[0] >= accuracy and needed[epsilon] is None:
                    needed[epsilon] = n
                    advance(trials * (len(tried) - tried.index(n) - 1))
                    break
    return TruthPlan(float(accuracy), int(classes), ability, tuple(rows), needed)
