"""Which classes are confused: the model of shared errors, and when the automatic choice takes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from peerveil.core.arrays import Floats
from peerveil.core.randomness import Randomness
from peerveil.truth import PrivateDawidSkene, PrivateMajority, randomize
from peerveil.truth.answers import EncodedAnswers
from peerveil.truth.channels import Channels
from peerveil.truth.confusions import SHARED, SharedErrorsModel, accepted
from peerveil.truth.em import EMFit, EMModel, Limits
from peerveil.truth.memory import MemoryEngine
from peerveil.truth.models import ClassPrior

NEIGHBORS = np.array([[0, 1, 0, 0], [0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5], [0, 0, 1, 0]])  # errors are one class off
EVEN = (1 - np.eye(4)) / 3


def crowd(
    errors: Floats, *, seed: int, tasks: int = 600, workers: int = 40, answers: int = 9
) -> tuple[pl.DataFrame, Any]:
    """Answers of workers with one ability each, whose errors have a given shape, and the correct answers."""
    rng = np.random.default_rng(seed)
    truth, ability = rng.integers(0, 4, tasks), rng.beta(4, 2, workers)
    task = np.repeat(np.arange(tasks), answers)
    worker = np.concatenate([rng.choice(workers, answers, replace=False) for _ in range(tasks)])
    wrong = np.array([rng.choice(4, p=errors[z]) for z in truth[task]])
    label = np.where(rng.random(task.size) < ability[worker], truth[task], wrong)
    return pl.DataFrame({"task": task, "worker": worker, "label": label}), dict(enumerate(truth.tolist()))


def randomized(frame: pl.DataFrame, epsilon: float, seed: int) -> pl.DataFrame:
    lane = Randomness.simulation(seed)
    return frame.with_columns(label=randomize(frame["label"], epsilon=epsilon, classes=4, randomness=lane))


@pytest.mark.parametrize("epsilon", [None, 2.0])
def test_em_of_shared_errors_never_lowers_its_objective_and_finds_their_shape(epsilon: float | None) -> None:
    frame, _ = crowd(NEIGHBORS, seed=1, tasks=1500)
    frame = frame if epsilon is None else randomized(frame, epsilon, 1)
    answers = EncodedAnswers.of(frame, 4)
    channel = Channels.of(epsilon, 4, len(answers.workers))
    model = SharedErrorsModel(channel, ClassPrior.even(4), len(answers.workers), strength=6.0, mean=0.7)
    fit = model.fit(MemoryEngine(answers), Limits(60, 1e-7, must_converge=False))
    assert np.diff(fit.objectives).min() > -1e-6
    assert np.abs(model.errors - NEIGHBORS).max() < (0.12 if epsilon is None else 0.35)
    assert np.abs(model.errors - NEIGHBORS).sum() < 0.5 * np.abs(EVEN - NEIGHBORS).sum()


def test_shared_errors_are_averaged_where_classes_are_confused_and_labels_gain() -> None:
    gains = []
    for seed in range(4):
        frame, truth = crowd(NEIGHBORS, seed=seed)
        reports = randomized(frame, 4, seed)
        auto = PrivateDawidSkene(epsilon=4, classes=4).fit(reports)
        assert auto.evidence is not None
        assert SHARED in auto.evidence.confusions
        assert SHARED in auto.model
        one_coin = PrivateDawidSkene(epsilon=4, classes=4, model="one-coin").fit(reports)
        gains.append(auto.accuracy(truth)[0] - one_coin.accuracy(truth)[0])
    assert np.mean(gains) > 0


@pytest.mark.parametrize("epsilon", [1, 4])
def test_a_crowd_whose_errors_are_even_is_left_to_one_coin(epsilon: float) -> None:
    for seed in range(3):
        frame, _ = crowd(EVEN, seed=seed)
        auto = PrivateDawidSkene(epsilon=epsilon, classes=4).fit(randomized(frame, epsilon, seed))
        assert auto.evidence is not None
        assert auto.evidence.confusions == {}


def test_two_classes_have_no_confusions() -> None:
    frame, _ = crowd(EVEN, seed=1, tasks=200)
    auto = PrivateDawidSkene(epsilon=None, classes=2).fit(frame.with_columns(pl.col("label") % 2))
    assert auto.evidence is not None
    assert auto.evidence.confusions == {}


class Fitted(EMModel):
    """A model that was fitted elsewhere."""

    counted = "correct"

    def __init__(self, posterior: Floats, theta: Floats) -> None:
        self.fitted, self.theta = posterior, theta

    def m_step(self, counts: Any) -> Any:
        raise AssertionError

    def fit(self, engine: Any, limits: Limits, start: Any = None, counts: Any = None) -> EMFit:
        empty = np.zeros(1)
        return EMFit(
            engine.answers.tasks, self.fitted, empty, empty, empty, [0.0], True, 0.0, {"confusion": self.theta}
        )


def test_a_likelier_model_that_moves_the_class_shares_is_refused() -> None:
    """The guard: on held-out reports both are much better than the first; one has renamed a class."""
    frame, truth = crowd(EVEN, seed=3)
    answers, workers = EncodedAnswers.of(frame, 4), 40
    correct = np.eye(4)[[truth[t] for t in answers.tasks.to_list()]]
    theta = np.tile(0.6 * np.eye(4) + 0.4 * EVEN, (workers, 1, 1))
    dull = Fitted(0.99 * correct + 0.0025, np.full((workers, 4, 4), 0.25))
    renaming = [0, 1, 2, 2]  # class 3 is called 2: its tasks are answered with 3 all the same
    renamed = theta.copy()
    renamed[:, 2] = 0.5 * (theta[:, 2] + theta[:, 3])
    models: dict[str, EMModel] = {
        "good": Fitted(correct, theta),
        "renamed": Fitted(correct @ np.eye(4)[renaming], renamed),
    }
    gains = accepted(answers, dull, models, Channels.of(None, 4, workers))
    assert set(gains) == {"good"}
    assert gains["good"] > 100
    same_shares = Fitted(np.eye(4)[answers.votes.argmax(axis=1)], np.full((workers, 4, 4), 0.25))
    assert accepted(answers, dull, {"no better": same_shares}, Channels.of(None, 4, workers)) == {}


@pytest.mark.slow
def test_on_average_confusions_add_to_labels_and_no_kind_of_crowd_loses_a_point() -> None:
    gains: dict[str, list[float]] = {"neighbors": [], "even": []}
    for name, errors in (("neighbors", NEIGHBORS), ("even", EVEN)):
        for seed in range(12):
            frame, truth = crowd(errors, seed=50 + seed)
            for epsilon in (1, 2, 4):
                reports = randomized(frame, epsilon, seed)
                auto, coin = (
                    PrivateDawidSkene(epsilon=epsilon, classes=4, model=model).fit(reports).accuracy(truth)[0]
                    for model in ("auto", "one-coin")
                )
                votes = PrivateMajority(epsilon=epsilon, classes=4).fit(reports).accuracy(truth)[0]
                assert auto > votes - 0.05
                gains[name].append(auto - coin)
    neighbors, even = (np.array(gains[name]) for name in ("neighbors", "even"))
    assert neighbors.mean() > 5 * neighbors.std(ddof=1) / len(neighbors) ** 0.5
    assert even.mean() > -0.005
