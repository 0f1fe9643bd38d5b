"""What an estimator of the truth room hands out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from peerveil.guarantee import Guarantee, Notion
from peerveil.result import Result, plain
from peerveil.truth.theory import TheoremCheck, check_theorem_2

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from peerveil.truth.choose import Evidence
    from peerveil.truth.reports import Reports

    Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class TruthResult(Result):
    """Labels, abilities and confidence, with the guarantee of the reports that they were computed from.

    Attributes
    ----------
    tasks
        The tasks' ids, sorted; everything about tasks is in this order.
    labels
        The likeliest class of every task.
    probabilities
        One row a task, one column a class (in the order of ``classes``).
    workers
        The workers' ids, sorted.
    abilities
        The probability that a worker's own answer, before it was randomised, is the true class.
    standard_errors
        Of the abilities.
    model
        Which model made them, and for the default how much two-coin weighs (``evidence``).
    class_shares
        The shares of the classes that the labels were computed with.
    objective
        What the iteration climbed; ``iterations`` steps.
    loads
        How many reports each worker sent.
    """

    tasks: pl.Series
    classes: tuple[Any, ...]
    labels: NDArray[Any]
    probabilities: Floats
    workers: pl.Series
    abilities: Floats
    standard_errors: Floats
    loads: NDArray[np.int64]
    model: str
    class_shares: Floats
    objective: float
    iterations: int
    converged: bool
    epsilon: float | None
    evidence: Evidence | None = None
    details: dict[str, Any] = field(default_factory=dict, repr=False)
    reports: Reports | None = field(default=None, repr=False)

    @property
    def confidence(self) -> Floats:
        """The probability of every task's label."""
        return np.asarray(self.probabilities.max(axis=1))

    @property
    def person_guarantee(self) -> Guarantee:
        """What the reports of the busiest worker add up to, if the guarantee is for one answer."""
        most = int(self.loads.max(initial=1))
        if self.guarantee.notion is not Notion.LOCAL_ATTRIBUTE_DP or most <= 1:
            return self.guarantee
        return self.guarantee.group(most, unit=f"all {most:,} answers of the person who gave most")

    def frame(self) -> pl.DataFrame:
        """A table of tasks: task, label, confidence."""
        return pl.DataFrame({"task": self.tasks, "label": self.labels, "confidence": self.confidence})

    def worker_frame(self) -> pl.DataFrame:
        """A table of workers: worker, reports, ability, standard error."""
        return pl.DataFrame(
            {
                "worker": self.workers,
                "reports": self.loads,
                "ability": self.abilities,
                "standard_error": self.standard_errors,
            }
        )

    def history(self) -> dict[Any, tuple[float, float]]:
        """What is now known of each worker, as right and wrong answers that would say as much: a prior for later work.

        A Beta distribution with the ability's mean and standard error, minus what the prior alone would give.
        """
        spread = np.maximum(self.standard_errors**2, 1e-9)
        mean = np.clip(self.abilities, 1e-3, 1 - 1e-3)
        size = np.clip(mean * (1 - mean) / spread - 1 - float(self.details.get("prior_strength", 0.0)), 0.0, None)
        return {
            worker: (float(m * n), float((1 - m) * n))
            for worker, m, n in zip(self.workers.to_list(), mean, size, strict=True)
        }

    def theory(self) -> TheoremCheck:
        """Theorem 2 on these data, with the estimated abilities: which conditions fail."""
        answered = float(self.loads.sum()) / max(1, len(self.tasks) * len(self.workers))
        abilities = np.clip(self.abilities, 0, 1)
        return check_theorem_2(max(len(self.tasks), 2), abilities, self.epsilon, answered=min(answered, 1.0))

    def accuracy(self, truth: Any) -> tuple[float, float]:
        """Accuracy and balanced accuracy against right answers: a mapping of tasks, or :meth:`Labels.truths`."""
        known = dict(truth.rows()) if isinstance(truth, pl.DataFrame) else dict(truth)
        given = dict(zip(self.tasks.to_list(), self.labels.tolist(), strict=True))
        pairs = [(right, given[task] == right) for task, right in known.items() if task in given]
        by_class: dict[Any, list[bool]] = {}
        for right, hit in pairs:
            by_class.setdefault(right, []).append(hit)
        return float(np.mean([hit for _, hit in pairs])), float(np.mean([np.mean(v) for v in by_class.values()]))

    def summary(self) -> str:
        """The finding in one line."""
        sure = int((self.confidence >= 0.9).sum())
        return (
            f"{len(self.tasks):,} tasks labelled from {int(self.loads.sum()):,} reports of {len(self.workers):,} workers "
            f"({self.model}); {sure:,} with a probability of at least 90%; median ability {float(np.median(self.abilities)):.2f}"
        )

    def __str__(self) -> str:
        return f"{super().__str__()}\nFor a whole person: {self.person_guarantee}"

    def to_dict(self) -> dict[str, Any]:
        """Everything but the reports, as JSON values."""
        names = ("classes", "model", "class_shares", "objective", "iterations", "converged", "epsilon")
        return {
            **{name: plain(getattr(self, name)) for name in names},
            "tasks": plain(self.frame()),
            "workers": plain(self.worker_frame()),
            "probabilities": plain(self.probabilities),
            "personal_biases": None if self.evidence is None else self.evidence.probabilities,
            "guarantee": self.guarantee.to_dict(),
            "guarantee_in_words": str(self.guarantee),
            "person_guarantee_in_words": str(self.person_guarantee),
            "mark": self.mark,
        }

    def write(self, path: str | Path) -> Path:
        """Write the table of tasks (with one column a class) to CSV, JSON lines or Parquet."""
        from peerveil.judgements.writing import write_frame

        columns = {f"p_{c}": self.probabilities[:, i] for i, c in enumerate(self.classes)}
        return write_frame(self.frame().with_columns(**{n: pl.Series(v) for n, v in columns.items()}), path)

    def draw(self, ax: Axes) -> None:
        """Abilities with intervals of two standard errors, from the lowest to the highest."""
        from peerveil.truth.figures import draw_abilities

        draw_abilities(self, ax)
