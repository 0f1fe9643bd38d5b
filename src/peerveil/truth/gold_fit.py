"""How likely a label is correct, from its probability under the model and gold tasks.

With f the log odds of a label (its probability against that of all other classes together), the label c of a task is correct
with probability sigma(a + u_c + b f). Confidences that need no calibration have a = u = 0 and b = 1; where people share errors
b is about .2 to .5. Thirty tasks with few wrong labels say little about three parameters, so that these have priors
(:data:`PRIOR`). Confidences are posterior means, over a grid of b and, given b, by Laplace's approximation for a and u, with
sigma(m / sqrt(1 + pi v / 8)) for the mean of sigma over N(m, v) (MacKay, 1992). A temperature of the log posteriors is the
case of two classes with a = u = 0; with more classes it must fit the odds between the wrong ones too, and is worse (``python
-m benchmarks.truth_gold`` compares them). A label stays the likeliest class of its task, and the ratios of the other classes
stay, unless one would become likelier than the label.

**How the priors were chosen.** Of 360 combinations, the one under which labels of tasks that are not gold are likeliest, over
six real sets and synthetic crowds without shared errors, at epsilon 2 and 4. Chosen without one of these sets and measured on
it, calibration does as well there (column "left out" of ``python -m benchmarks.truth_gold``).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats, Ints

_TINY: Final = 1e-12  # of probabilities whose logarithm is taken
_LOG_SLOPES: Final = np.linspace(-3.5, 1.0, 19)
_NEWTON_STEPS: Final = 25


class GoldPrior(NamedTuple):
    """What is assumed of a, u and b above before gold tasks are seen."""

    intercept: float
    """The standard deviation of a."""
    classes: float
    """The standard deviation of each u."""
    shared: tuple[float, float]
    """Mean and standard deviation of ln b where people share errors."""
    independent: float
    """The probability that they hardly do: ln b ~ N(0, .25^2)."""

    def log_slope(self, x: Floats) -> Floats:
        """The logarithm of the density of ln b, up to a constant."""
        (mean, spread), w = self.shared, self.independent
        parts = ((1 - w, mean, spread), (w, 0.0, 0.25))
        return np.asarray(np.log(sum(share / s * np.exp(-0.5 * ((x - m) / s) ** 2) for share, m, s in parts)))


PRIOR: Final = GoldPrior(0.4, 0.7, (-1.6, 0.35), 0.2)


def label_odds(model: Floats, label: Ints) -> tuple[Floats, Floats]:
    """The probability of each label under the model, and its log odds against all other classes."""
    own = model[np.arange(label.size), label]
    rest = other_classes(model, label).sum(axis=1)  # 1 - own would have lost its digits
    return own, np.log(np.maximum(own, _TINY)) - np.log(np.maximum(rest, _TINY))


def calibrated_confidences(
    odds: Floats,
    label: Ints,
    gold_odds: Floats,
    gold_label: Ints,
    right: np.ndarray[Any, np.dtype[np.bool_]],
    prior: GoldPrior = PRIOR,
) -> tuple[Floats, float]:
    """The probability that each label is correct, and the mean slope b, from labels that are known to be right or wrong.

    >>> odds = np.linspace(0, 10, 40)
    >>> labels, right = np.zeros(40, dtype=int), np.arange(40) % 4 > 0  # a quarter are wrong, however sure the model is
    >>> confidences, slope = calibrated_confidences(odds, labels, odds, labels, right)
    >>> bool(0.68 < confidences.mean() < 0.85), bool(slope < 0.5)
    (True, True)
    """
    log_evidence, means = confidences_by_slope(odds, label, gold_odds, gold_label, right, prior)
    weight = weigh_slopes(log_evidence, prior)
    return weight @ means, float(weight @ np.exp(_LOG_SLOPES))


def weigh_slopes(log_evidence: Floats, prior: GoldPrior) -> Floats:
    """The posterior probability of every slope of the grid."""
    score = log_evidence + prior.log_slope(_LOG_SLOPES)
    weight = np.exp(score - score.max())
    return np.asarray(weight / weight.sum())


def confidences_by_slope(
    odds: Floats, label: Ints, gold_odds: Floats, gold_label: Ints, right: Any, prior: GoldPrior
) -> tuple[Floats, Floats]:
    """For every slope b of the grid: the log evidence of the gold tasks, and the probability that each label is correct."""
    seen, group = np.unique(gold_label, return_inverse=True)
    design = np.column_stack([np.ones(right.size), group[:, None] == np.arange(seen.size)]).astype(np.float64)
    precision = np.diag(np.r_[prior.intercept**-2.0, np.full(seen.size, prior.classes**-2.0)])
    place = np.minimum(np.searchsorted(seen, label), seen.size - 1)
    at = np.where(seen[place] == label, place, seen.size)  # the last: a class without a gold task
    evidence, means = np.empty(_LOG_SLOPES.size), np.empty((_LOG_SLOPES.size, label.size))
    for row, slope in enumerate(np.exp(_LOG_SLOPES)):
        offset, evidence[row], covariance = _laplace(design, slope * gold_odds, right, precision)
        mean = offset[0] + np.r_[offset[1:], 0.0]
        own = covariance[0, 0] + 2 * covariance[0, 1:] + np.diag(covariance)[1:]
        variance = np.r_[own, covariance[0, 0] + prior.classes**2]
        means[row] = _sigmoid((mean[at] + slope * odds) / np.sqrt(1 + math.pi * variance[at] / 8))
    return evidence, means


def _laplace(design: Floats, fixed: Floats, right: Any, precision: Floats) -> tuple[Floats, float, Floats]:
    """Laplace's approximation of a logistic regression with normal priors: mode, log evidence, covariance."""
    mode = np.zeros(precision.shape[0])
    for _ in range(_NEWTON_STEPS):
        p = _sigmoid(design @ mode + fixed)
        gradient = design.T @ (right - p) - precision @ mode
        hessian = (design.T * (p * (1 - p))) @ design + precision
        step = np.linalg.solve(hessian, gradient)
        mode = mode + step / max(1.0, float(np.abs(step).max()))  # no step longer than 1: then every fit converged
        if np.abs(step).max() < 1e-9:
            break
    score = design @ mode + fixed
    log_likelihood = -float(np.logaddexp(0, np.where(right, -score, score)).sum())
    log_evidence = log_likelihood - 0.5 * float(mode @ precision @ mode) - 0.5 * float(np.linalg.slogdet(hessian)[1])
    return mode, log_evidence, np.asarray(np.linalg.inv(hessian), dtype=np.float64)


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -700, 700))))


def spread_over_classes(model: Floats, label: Ints, confidence: Floats) -> Floats:
    """Probabilities in which each label has its confidence and stays the likeliest; the others keep their ratios if they can.

    >>> spread_over_classes(np.array([[0.90, 0.08, 0.02]]), np.array([0]), np.array([0.5])).round(3).tolist()
    [[0.5, 0.4, 0.1]]
    >>> spread_over_classes(np.array([[0.90, 0.08, 0.02]]), np.array([0]), np.array([0.4])).round(3).tolist()
    [[0.4, 0.4, 0.2]]
    """
    rows, k = np.arange(label.size), model.shape[1]
    others = other_classes(model, label)
    total = others.sum(axis=1, keepdims=True)
    even = np.full_like(others, 1 / (k - 1))
    even[rows, label] = 0.0
    others = np.where(total > 0, others / np.where(total > 0, total, 1.0), even)
    # a share m of the even distribution, as small as keeps (1 - c) ((1 - m) top + m / (k - 1)) at c or below
    top, left = others.max(axis=1), 1 - confidence
    excess = np.maximum(left * top - confidence, 0.0)
    spare = np.maximum(left * (top - 1 / (k - 1)), _TINY)
    mixed = np.minimum(excess / spare, 1.0)[:, None]
    probabilities = left[:, None] * ((1 - mixed) * others + mixed * even)
    probabilities[rows, label] = confidence
    return np.asarray(probabilities)


def other_classes(model: Floats, label: Ints) -> Floats:
    """The probabilities of all classes but the label."""
    others = model.copy()
    others[np.arange(label.size), label] = 0.0
    return others
