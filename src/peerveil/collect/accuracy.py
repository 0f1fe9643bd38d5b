"""How many of the labels are right, when no right answer is known: two halves of the crowd, asked against each other.

An estimator's own confidence is no honest answer: it was fitted to the same reports, and in simulated crowds it
claimed 2 to 15 points too much. So the people are split at random into two halves, labels are inferred from each half
alone, and their agreement is turned into an accuracy.

**Two halves.** Given the truth, the halves are independent (different people, different noise). If a label of either
half is right with probability a, and wrong labels are spread evenly over the other k - 1 classes, two labels agree
with probability A = a^2 + (1 - a)^2/(k - 1): a quadratic equation for a.

**From half to whole.** What a task's reports tell adds up over people; take it for a normal signal of strength d for
the true class against k - 1 classes of pure noise, so that a = E[Phi(Z + d)^(k-1)]. Twice the people raise d by
sqrt(2).

**Interval.** Tasks are independent, so that the agreement of one split has a standard error of sqrt(A(1 - A)/tasks).
Splits share the tasks: averaging over them does not lower it by much, and is not counted as if it did. The ends of
2.5 standard errors go through the same two steps. Where tasks differ in how hard they are, agreement overstates
accuracy: the interval holds if they do not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.truth import PrivateDawidSkene

if TYPE_CHECKING:
    from collections.abc import Callable

    from peerveil.numerics.exact import Number

SPLITS: Final = 4
_ERRORS: Final = 2.5
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
_STRONGEST: Final = 12.0


def half_accuracy(agreement: float, k: int) -> float:
    """The accuracy of two equally good, independent labellings that agree so often; chance where they agree no more than that.

    >>> half_accuracy(0.9**2 + 0.1**2, 2), half_accuracy(0.4, 2)
    (0.9, 0.5)
    """
    q = 1 / (k - 1)
    root = q * q - (1 + q) * (q - agreement)
    return round((q + math.sqrt(max(root, 0.0))) / (1 + q), 12)


def accuracy_of(strength: float, k: int) -> float:
    """How often the true class wins, with a normal signal of this strength: E[Phi(Z + d)^(k-1)].

    >>> round(accuracy_of(0, 4), 6), round(accuracy_of(2**0.5, 2), 4)
    (0.25, 0.8413)
    """
    from scipy.special import ndtr

    return float(np.sum(_WEIGHTS * ndtr(_NODES + strength) ** (k - 1)) / math.sqrt(2 * math.pi))


def strength_of(accuracy: float, k: int) -> float:
    """The inverse of :func:`accuracy_of`, from 0 to 12."""
    from scipy.optimize import brentq

    if accuracy <= accuracy_of(0.0, k):
        return 0.0
    if accuracy >= accuracy_of(_STRONGEST, k):
        return _STRONGEST
    return float(brentq(lambda d: accuracy_of(d, k) - accuracy, 0.0, _STRONGEST))


def whole_accuracy(agreement: float, k: int) -> float:
    """The accuracy with all people, from how often two halves of them agree."""
    return accuracy_of(math.sqrt(2) * strength_of(half_accuracy(min(agreement, 1.0), k), k), k)


def estimate_accuracy(
    frame: pl.DataFrame,
    epsilon: Number,
    k: int,
    size: int,
    model: str = "auto",
    *,
    seed: int = 0,
    advance: Callable[[int], None] = lambda _: None,
) -> tuple[float, float, float]:
    """The estimated share of right labels among ``size`` tasks, and the ends of its interval.

    ``frame`` holds reports as whole numbers: task, worker, label. A task without a report in both halves agrees by chance.
    """
    people = frame["worker"].unique().sort().to_numpy()
    rng = np.random.default_rng(seed)
    agreements = []
    for _ in range(SPLITS):
        half = pl.Series(rng.permutation(people)[: len(people) // 2])
        inside = frame["worker"].is_in(half.implode())
        found = [_labels(part, epsilon, k, model) for part in (frame.filter(inside), frame.filter(~inside))]
        both = found[0].join(found[1], on="task")
        agree = int((both["label"] == both["label_right"]).sum()) + (size - both.height) / k
        agreements.append(agree / size)
        advance(1)
    mean = float(np.mean(agreements))
    error = _ERRORS * math.sqrt(max(mean * (1 - mean), 1 / size) / size)
    low, estimate, high = (whole_accuracy(a, k) for a in (mean - error, mean, mean + error))
    return estimate, low, high


def _labels(part: pl.DataFrame, epsilon: Number, k: int, model: str) -> pl.DataFrame:
    if part.height == 0:
        return pl.DataFrame(schema={"task": pl.Int64, "label": pl.Int64})
    settings: dict[str, Any] = {"classes": k, "must_converge": False}
    result = PrivateDawidSkene(epsilon, model, **settings).fit(part)
    return pl.DataFrame({"task": result.tasks.cast(pl.Int64), "label": pl.Series(result.labels, dtype=pl.Int64)})
