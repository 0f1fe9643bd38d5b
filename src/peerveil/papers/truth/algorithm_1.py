"""Algorithm 1 of the paper, the projected one-coin method, on sparse answers of two classes.

What differs from the print, and why (docs/errata.md): sums run over the tasks that a worker answered, since nobody answers all
of them; the last sum of (4) has 1 - y_j; lambda is chosen by a rule, because Theorem 2's interval for it is empty for
all but enormous data.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.core.arrays import Floats
from peerveil.core.errors import BadInput, Verbatim
from peerveil.papers.truth.theory import lambda_interval
from peerveil.truth import PrivateDawidSkene, TruthResult
from peerveil.truth.answers import EncodedAnswers
from peerveil.truth.models import ClassPrior, CoinModel

if TYPE_CHECKING:
    from peerveil.core.exact import Number
    from peerveil.truth.channels import Channels
    from peerveil.truth.em import Engine, ExpectedCounts, Parameters


class ProjectedCoin(CoinModel):
    """Algorithm 1, line 5: update (6) with the projection (10), the share of hits kept between lambda and 1 - lambda."""

    def __init__(self, channel: Channels, class_prior: ClassPrior, lambda_: float) -> None:
        super().__init__(channel, class_prior)
        self.bounds = lambda_, 1 - lambda_

    def m_step(self, counts: ExpectedCounts) -> Parameters:
        """Update all abilities, and note lambda."""
        parameters = super().m_step(counts)
        parameters.details["lambda"] = self.bounds[0]
        return parameters


class AlgorithmOne(PrivateDawidSkene):
    """Algorithm 1, lines 4 to 9: iterate (10), (7) and (8), rescale (line 7), by the product's one-coin model without a prior.

    Convergence is judged by F of (4), which is what the iteration climbs: with y at its maximum given p, F(p, y) is the
    logarithm of (2) plus m ln 2, the sum of log normalizers.

    Parameters
    ----------
    epsilon
        Of the response for one answer.
    lambda_
        ``"rule"``: 1/(1 + e^epsilon), the least share of hits that the response can produce; ``"theorem"``: the smallest that
        (15) allows, refused if there is none; or a number.
    settings
        ``iterations``, ``tolerance`` and ``must_converge`` of :class:`peerveil.truth.PrivateDawidSkene`.

    Examples
    --------
    >>> from peerveil.truth import simulate_crowd
    >>> crowd = simulate_crowd(tasks=100, workers=20, answers=6, epsilon=1, seed=1)
    >>> round(AlgorithmOne(epsilon=1).fit(crowd.randomized).details["lambda"], 4)
    0.2689
    """

    def __init__(self, *, epsilon: Number | None, lambda_: str | float = "rule", **settings: Any) -> None:
        super().__init__(epsilon=epsilon, model="one-coin", class_prior="uniform", ability_prior=None, **settings)
        number = isinstance(lambda_, (int, float)) and not isinstance(lambda_, bool) and 0 < lambda_ < 0.5
        if not number and lambda_ not in ("rule", "theorem"):
            raise BadInput("lambda_", got=lambda_, want="'rule', 'theorem', or a number between 0 and 1/2")
        self.lambda_ = lambda_

    def fit(self, labels: Any) -> TruthResult:  # type: ignore[override]
        """Infer labels and abilities from reports that fit in memory."""
        reports = EncodedAnswers.of(labels)
        if reports.k != 2:
            raise BadInput("labels", got=Verbatim(f"{reports.k} classes"), want="two classes for the paper's method")
        if self.lambda_ != "theorem":
            return super().fit(reports)
        first = AlgorithmOne(epsilon=self.exact_epsilon, **asdict(self.limits)).fit(reports)
        wisdom = float(np.mean((2 * np.asarray(first.details["shown"]) - 1) ** 2))
        low, high = lambda_interval(len(reports.tasks), wisdom)
        if low > high:
            got = f"{len(reports.tasks):,} tasks, for which (15) asks lambda to be at least {low:.3g} and at most {high:.3g}"
            raise BadInput("lambda_", got=Verbatim(got), want="more tasks, or lambda_='rule'")
        second = AlgorithmOne(epsilon=self.exact_epsilon, lambda_=low, **asdict(self.limits))
        result = second.fit(reports)
        self.workers_ = second.workers_
        return result

    def _model(self, _engine: Engine, channel: Channels, class_prior: ClassPrior, *_: object) -> ProjectedCoin:
        rule = max(channel.levels[0].other, 1e-6)
        return ProjectedCoin(channel, class_prior, rule if isinstance(self.lambda_, str) else float(self.lambda_))


def objective_of_equation_4(shown: Floats, y: Floats, task: Any, worker: Any, report: Any) -> float:
    """F(p, y) with 1 - y_j in its second sum, for reports given as three columns."""
    p, soft = shown[worker], y[task]
    own, other = np.where(report == 1, np.log(p), np.log1p(-p)), np.where(report == 1, np.log1p(-p), np.log(p))
    entropy = [-v * math.log(v) if v > 0 else 0.0 for v in np.concatenate([y, 1 - y])]
    return float((soft * own + (1 - soft) * other).sum() + math.fsum(entropy))


def objective_of_equation_4_as_printed(shown: Floats, y: Floats, task: Any, worker: Any, report: Any) -> float:
    """F(p, y) with 1 - y_i in its second sum: the worker's index on a task's label (needs as many tasks as workers)."""
    p, soft, odd = shown[worker], y[task], y[worker]
    own, other = np.where(report == 1, np.log(p), np.log1p(-p)), np.where(report == 1, np.log1p(-p), np.log(p))
    entropy = [-v * math.log(v) if v > 0 else 0.0 for v in np.concatenate([y, 1 - y])]
    return float((soft * own + (1 - odd) * other).sum() + math.fsum(entropy))
