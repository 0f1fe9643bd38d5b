"""More than two classes: models of which classes are confused, and when the automatic choice takes them.

One-coin spreads a worker's errors evenly over the wrong classes. Two models do not: :class:`SharedErrorsModel` (one ability per
worker, and errors go where the crowd's errors go) and :class:`~peerveil.truth.models.ConfusionModel` (a matrix for every worker).
They are estimated without a correct answer in sight, so they can be likelier than one-coin and yet wrong: what the crowd confuses
cannot be distinguished from classes of other sizes, and a model that is free to renames classes. On real answers to four classes
of very different sizes, shared errors were 830 nats likelier on held-out reports at epsilon 1, and had 18% of the labels right
instead of 57%. Hence two conditions, both on a sample:

- *held-out reports*: fitted on three quarters of the reports, the model predicts the others clearly better than one-coin does;
- *class shares*: its labels give the classes nearly the same shares of the tasks as those of one-coin (total variation at most
  10%). Models that rename classes move shares by 20% and more.

A model that meets both is averaged with the default, which keeps half of the weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from peerveil.truth.em import EMModel, ExpectedCounts, Limits, Parameters
from peerveil.truth.memory import MemoryEngine
from peerveil.truth.models import FLOOR, INNER_STEPS, ClassPrior, ConfusionModel

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats
    from peerveil.truth.answers import EncodedAnswers
    from peerveil.truth.channels import Channels

SHARED, PERSONAL = "shared errors", "confusion"
_SHAPE_STRENGTH: Final = 20.0  # errors that the prior on the shape of errors is worth, by correct class
_SAMPLE: Final = 100_000  # answers from which models are chosen
_HELD_OUT: Final = 0.25  # of the answers
_CLEAR: Final = 10.0  # nats that held-out reports must be likelier
_MOST_MOVED: Final = 0.10  # total variation between the class shares of two models
_LIMITS: Final = Limits(40, 1e-5, must_converge=False)  # of fits that are only compared


class SharedErrorsModel(EMModel):
    """One ability per worker; an error is class b rather than another with a probability that all workers share.

    A worker of ability a answers b on a task of class z with probability a if b = z, and (1 - a) e[z, b] otherwise. The M-step is
    that of :class:`~peerveil.truth.models.ConfusionModel`, an EM over the answers behind the channel, with abilities pooled over
    classes and errors pooled over workers.

    Parameters
    ----------
    channel, class_prior, workers
        The channel, the shares of the classes, and the number of workers.
    strength, mean
        How many answers the prior on an ability is worth, and its mean.
    history : [worker, 2], optional
        Correct and wrong answers of each worker in earlier work.
    """

    counted = "answers by class"

    def __init__(
        self,
        channel: Channels,
        class_prior: ClassPrior,
        workers: int,
        strength: float,
        mean: float,
        history: Floats | None = None,
    ) -> None:
        k = channel.k
        self.channel, self.class_prior, self.strength = channel, class_prior, strength
        self.pseudo = np.tile([strength * mean, strength * (1 - mean)], (workers, 1))  # [worker, correct or wrong]
        if history is not None:
            self.pseudo = self.pseudo + history
        self.wrong = ~np.eye(k, dtype=bool)
        self.errors = self.wrong / (k - 1)
        self.ability = self.pseudo[:, 0] / self.pseudo.sum(axis=1)

    @property
    def theta(self) -> Floats:
        """``theta[worker, class, answer]``: the probabilities of answers."""
        a = self.ability[:, None, None]
        return np.asarray(np.where(self.wrong, np.maximum((1 - a) * self.errors, FLOOR), a))

    def m_step(self, counts: ExpectedCounts) -> Parameters:
        """Update abilities and the shape of errors."""
        by_class, matrix = counts.by_worker.transpose(0, 2, 1), self.channel.matrix  # [worker, class, report]
        for _ in range(INNER_STEPS if self.channel.randomized else 1):
            theta = self.theta
            answers = theta * ((by_class / np.maximum(theta @ matrix, FLOOR)) @ matrix)  # E-step over the answers
            correct = np.einsum("wzz->w", answers) + self.pseudo[:, 0]
            total = answers.sum(axis=(1, 2)) + self.pseudo.sum(axis=1)
            self.ability = np.clip(correct / total, FLOOR, 1 - FLOOR)
            errors = np.where(self.wrong, answers.sum(axis=0), 0.0) + self._shape_pseudo()
            self.errors = errors / errors.sum(axis=1, keepdims=True)
        shown = np.maximum(self.theta @ matrix, FLOOR)
        other, contrast = (self.channel.column(name)[:, 0] for name in ("other", "contrast"))
        p = other + contrast * self.ability
        log_prior, prior_penalty = self.class_prior.m_step(counts.by_class)
        on_ability = self.pseudo[:, 0] @ np.log(self.ability) + self.pseudo[:, 1] @ np.log1p(-self.ability)
        on_shape = (self._shape_pseudo() * np.log(np.where(self.wrong, self.errors, 1.0))).sum()
        return Parameters(
            np.ascontiguousarray(np.log(shown).transpose(0, 2, 1)),
            log_prior,
            prior_penalty - float(on_ability + on_shape),
            abilities=self.ability,
            standard_errors=np.sqrt(p * (1 - p) / np.maximum(total, 1)) / contrast,
            details={"errors": self.errors, "confusion": self.theta, "prior_strength": self.strength},
        )

    def _shape_pseudo(self) -> Floats:
        return _SHAPE_STRENGTH * self.wrong / (self.channel.k - 1)


def candidates(
    channel: Channels, class_prior: ClassPrior, workers: int, strength: float, mean: float, history: Floats | None
) -> Mapping[str, EMModel]:
    """The models of confusions, by name."""
    return {
        SHARED: SharedErrorsModel(channel, class_prior, workers, strength, mean, history),
        PERSONAL: ConfusionModel(channel, class_prior, workers, history=history),
    }


def accepted(
    answers: EncodedAnswers, one_coin: EMModel, models: Mapping[str, EMModel], channel: Channels
) -> dict[str, float]:
    """The models that meet both conditions, and by how many nats they predict held-out reports better than one-coin."""
    sample = answers.sample(_SAMPLE)
    held_out = np.random.default_rng(0).random(len(sample)) < _HELD_OUT  # the same on every engine
    task = np.repeat(np.arange(len(sample.tasks)), np.diff(sample.start))
    start = np.concatenate([[0], np.cumsum(np.bincount(task[~held_out], minlength=len(sample.tasks)))])
    fitted_to = replace(sample, start=start, worker=sample.worker[~held_out], label=sample.label[~held_out])
    engine = MemoryEngine(fitted_to)
    other, contrast = (channel.column(name)[:, 0] for name in ("other", "contrast"))
    test = task[held_out], sample.worker[held_out], sample.label[held_out]

    def fit(model: EMModel) -> tuple[float, Floats]:
        """The log-likelihood of the held-out reports, and the shares of the classes."""
        result = model.fit(engine, _LIMITS)
        posterior, (tasks, workers, labels) = result.posterior, test
        if "confusion" in result.details:
            likelihood = (np.asarray(result.details["confusion"]) @ channel.matrix)[workers, :, labels]
        else:
            p = (other + contrast * result.abilities)[workers, None]
            likelihood = np.where(np.arange(channel.k) == labels[:, None], p, (1 - p) / (channel.k - 1))
        predicted = (posterior[tasks] * likelihood).sum(axis=1)
        shares = np.bincount(posterior.argmax(axis=1), minlength=channel.k) / len(posterior)
        return float(np.log(np.maximum(predicted, FLOOR)).sum()), shares

    least, shares = fit(one_coin)
    gains: dict[str, float] = {}
    for name, model in models.items():
        log_likelihood, own_shares = fit(model)
        moved = 0.5 * float(np.abs(own_shares - shares).sum())
        if log_likelihood - least > _CLEAR and moved <= _MOST_MOVED:
            gains[name] = log_likelihood - least
    return gains
