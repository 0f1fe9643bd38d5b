"""The compiled steps against plain NumPy: posteriors, counts, log-likelihood, and a whole fit against textbook EM."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from peerveil import BadInput
from peerveil.core.arrays import Floats
from peerveil.truth import PrivateDawidSkene, simulate_crowd
from peerveil.truth.answers import EncodedAnswers
from peerveil.truth.channels import Channel, Channels
from peerveil.truth.em import CoinWeights, ExpectedCounts, Parameters
from peerveil.truth.grid import GridModel
from peerveil.truth.kernels import exponentiate
from peerveil.truth.memory import MemoryEngine
from peerveil.truth.models import ClassPrior, common_ability, majority_posterior


def answers_of(rng: np.random.Generator, tasks: int, workers: int, size: int, k: int) -> EncodedAnswers:
    """Random answers; some tasks have none."""
    table = {
        "task": rng.integers(0, tasks, size),
        "worker": rng.integers(0, workers, size),
        "label": rng.integers(0, k, size),
    }
    return EncodedAnswers.of(table, k, tasks=list(range(tasks)))


def slow_e_step(
    answers: EncodedAnswers, table: Floats, log_prior: Floats, gold: np.ndarray[Any, Any]
) -> tuple[float, Floats, Floats]:
    """Log-likelihood, posteriors and counts [worker, answer, class], one answer after the other."""
    k, total = answers.k, 0.0
    posterior, counts = np.empty((len(answers.tasks), k)), np.zeros_like(table)
    for t in range(len(answers.tasks)):
        rows = slice(answers.start[t], answers.start[t + 1])
        score = log_prior + sum(
            (table[w, r] for w, r in zip(answers.worker[rows], answers.label[rows], strict=True)), np.zeros(k)
        )
        normalizer = score.max() + math.log(np.exp(score - score.max()).sum())
        posterior[t] = np.exp(score - normalizer) if gold[t] < 0 else np.eye(k)[gold[t]]
        total += normalizer if gold[t] < 0 else score[gold[t]]
        for w, r in zip(answers.worker[rows], answers.label[rows], strict=True):
            counts[w, r] += posterior[t]
    return total, posterior, counts


def weights_of(rng: np.random.Generator, workers: int, k: int, kind: str, extreme: float) -> CoinWeights | Floats:
    def draw(*shape: int) -> Floats:
        return extreme * rng.choice([-1.0, 1.0], shape) if extreme else rng.normal(-1, 1, shape)

    if kind == "answers by class":
        return draw(workers, k, k)
    return (
        CoinWeights(draw(workers), draw(workers))
        if kind == "correct"
        else CoinWeights(draw(workers, k), draw(workers, k))
    )


def check_e_step(
    seed: int, tasks: int, workers: int, size: int, k: int, kind: Any, extreme: float, share: float
) -> None:
    rng = np.random.default_rng(seed)
    answers = answers_of(rng, tasks, workers, size, k)
    workers = len(answers.workers)
    gold = np.where(rng.random(tasks) < share, rng.integers(0, k, tasks), -1).astype(np.int32)
    weights, log_prior = weights_of(rng, workers, k, kind, extreme), np.log(rng.dirichlet(np.ones(k)))
    engine = MemoryEngine(answers, gold)
    step = engine.e_step(Parameters(weights, log_prior, 0.0, np.zeros(workers), np.zeros(workers)), kind)
    table = weights.table(k) if isinstance(weights, CoinWeights) else weights
    total, posterior, counts = slow_e_step(answers, table, log_prior, gold)
    # scores are sums in another order: what they lose is relative to the largest sum
    loss = 1e-13 * max(1.0, extreme) * max(4, int(np.diff(answers.start).max()))
    assert step.log_likelihood == pytest.approx(total, rel=1e-12, abs=loss * tasks)
    assert np.abs(engine.posterior()[1] - posterior).max() < loss
    want = ExpectedCounts.of_table(posterior.sum(axis=0), counts, np.bincount(answers.worker).astype(float), kind)
    for name in ("by_class", "by_worker", "loads"):
        assert getattr(step.counts, name) == pytest.approx(getattr(want, name), abs=loss * max(tasks, size)), name
    again = engine.start(posterior, kind)  # the counts that belong to these posteriors
    for name in ("by_class", "by_worker", "loads"):
        assert getattr(again, name) == pytest.approx(getattr(want, name), abs=loss * max(tasks, size)), name


KINDS = ["correct", "correct by class", "answers by class"]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32),
    tasks=st.integers(1, 150),
    workers=st.integers(1, 8),
    size=st.integers(1, 200),
    k=st.sampled_from([2, 3, 10]),
    kind=st.sampled_from(KINDS),
    extreme=st.sampled_from([0.0, 0.0, 30.0, 700.0]),
    share=st.sampled_from([0.0, 0.3, 1.0]),
)
@example(seed=1, tasks=1, workers=1, size=1, k=2, kind="correct", extreme=700.0, share=0.0)
@example(seed=2, tasks=1, workers=5, size=50, k=2, kind="answers by class", extreme=700.0, share=0.0)
@example(seed=3, tasks=300, workers=1, size=10, k=10, kind="correct by class", extreme=700.0, share=0.3)
def test_an_e_step_is_that_of_plain_numpy(**case: Any) -> None:
    """With gold, tasks without answers, one task, one worker, and log weights of 700."""
    check_e_step(**case)


def test_a_wrong_kernel_would_be_noticed() -> None:
    """The comparison above distinguishes weights that differ by one part in a million."""
    rng = np.random.default_rng(5)
    answers, gold = answers_of(rng, 50, 4, 200, 2), np.full(50, -1)
    table = rng.normal(-1, 1, (4, 2, 2))
    right, wrong = (slow_e_step(answers, part, np.log([0.5, 0.5]), gold)[1] for part in (table, table * (1 + 1e-6)))
    assert np.abs(right - wrong).max() > 1e-9


def test_more_codes_than_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peerveil.truth.memory._MOST_CODES", 9)
    with pytest.raises(BadInput, match="5 workers and 2 classes, need at most 9 pairs of a worker and a class"):
        MemoryEngine(EncodedAnswers.of({"task": [1] * 5, "worker": range(5), "label": [0, 1, 0, 1, 0]}))


def test_exponentials_are_exact_to_the_last_digits() -> None:
    rng = np.random.default_rng(6)
    x = np.concatenate([rng.uniform(-700, 0, 50_000), rng.uniform(-1, 1, 50_000), [0.0, -0.0, 700.0, -700.0]])
    value = x.copy()
    exponentiate(value)
    assert np.abs(value / np.exp(x.astype(np.longdouble)) - 1).max() < 2.5e-16
    lowest = np.array([-701.0, -1e300, -math.inf])
    exponentiate(lowest)
    assert (lowest < 1e-303).all()
    assert (lowest > 0).all()


def slow_m_step(model: GridModel, hits: Floats, misses: Floats) -> tuple[Floats, Floats, Floats, float]:
    """Expected log-probabilities, mean abilities and the penalty, one worker and cell after the other; the mean stays."""
    prior, columns = np.exp(model.log_prior[model.mean]), hits.shape[1]
    correct, wrong, mean = (np.empty_like(hits) for _ in range(3))
    penalty = -float(model.on_mean[model.mean])
    for w in range(len(hits)):
        logs = [hits[w, z] * model.log_correct[0, 0] + misses[w, z] * model.log_wrong[0, 0] for z in range(columns)]
        penalty -= sum(float(part.max()) for part in logs)
        likelihood = [np.exp(part - part.max()) for part in logs]
        in_class = model.in_class[:, : model.general.size] if model.in_class.size else np.eye(model.grid.size)
        inside = [part @ in_class for part in likelihood]  # [general]
        joint = prior * np.prod(inside, axis=0)
        penalty -= math.log(joint.sum())
        for z in range(columns):
            q = likelihood[z] * (in_class @ (joint / joint.sum() / inside[z]))
            correct[w, z], wrong[w, z], mean[w, z] = (
                q @ model.log_correct[0, 0],
                q @ model.log_wrong[0, 0],
                q @ model.grid,
            )
    penalty += float((hits * correct + misses * wrong).sum())
    return correct, wrong, mean, penalty


@pytest.mark.parametrize(
    ("bias", "k", "most"), [(None, 2, 40), (None, 5, 40), (2.0, 2, 40), (10.0, 3, 40), (2.0, 2, 900), (300.0, 2, 900)]
)
def test_an_m_step_is_that_of_plain_numpy(bias: float | None, k: int, most: int) -> None:
    """Many answers make likelihoods narrow; with little bias, those of two classes may then hardly overlap."""
    rng = np.random.default_rng(k)
    workers, columns = 30, 1 if bias is None else k
    answers = rng.integers(0, most, (workers, columns)).astype(float)
    hits = answers * rng.random((workers, columns))
    loads = answers.sum(axis=1).astype(int)
    model = GridModel(Channels.of(2.0, k, loads.size), ClassPrior.even(k), loads, bias=bias)
    counts = ExpectedCounts(
        np.ones(k), hits[:, 0] if bias is None else hits, answers[:, 0] if bias is None else answers
    )
    before = model.mean
    parameters = model.m_step(counts)
    while model.mean != before:  # until the mean stays, so that the posteriors are those under it
        before, parameters = model.mean, model.m_step(counts)
    correct, wrong, mean, penalty = slow_m_step(model, hits, answers - hits)
    assert isinstance(parameters.weights, CoinWeights)
    assert parameters.weights.correct.reshape(workers, -1) == pytest.approx(correct, abs=1e-11)
    assert parameters.weights.wrong.reshape(workers, -1) == pytest.approx(wrong, abs=1e-11)
    assert parameters.details["by_class"] == pytest.approx(mean, abs=1e-12)
    assert parameters.penalty == pytest.approx(penalty, abs=1e-8)


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("model", ["one-coin", "two-coin"])
def test_a_whole_fit_is_textbook_em(k: int, model: str) -> None:
    """A prior of a fixed strength, gold tasks and even classes; E- and M-steps as in the tests above."""
    crowd = simulate_crowd(tasks=60, workers=12, answers=6, classes=k, epsilon=2, seed=k)
    gold = {task: crowd.truth[task] for task in range(5)}
    estimator = PrivateDawidSkene(
        epsilon=2, model=model, classes=k, ability_prior=3.0, class_prior="uniform", known=gold,
        iterations=12, tolerance=0, must_converge=False,
    )  # fmt: skip
    result = estimator.fit(crowd.randomized)
    answers = EncodedAnswers.of(crowd.randomized, k)
    known = answers.known_codes(gold)
    assert known is not None
    posterior = answers.vote_shares
    posterior[:5] = np.eye(k)[known[:5]]
    strength, bias = (3.0, None) if model == "one-coin" else (6.0, 3.0)
    slow = GridModel(
        Channels.of(2.0, k, answers.loads.size), ClassPrior.even(k), answers.loads, strength, bias, mean=0.7
    )
    task = np.repeat(np.arange(60), np.diff(answers.start))
    for _ in range(12):
        hits, loads = np.zeros((2, len(answers.workers), k))
        np.add.at(hits, (answers.worker, answers.label), posterior[task, answers.label])
        np.add.at(loads, answers.worker, posterior[task])
        if bias is None:
            hits, loads = hits.sum(axis=1, keepdims=True), loads.sum(axis=1, keepdims=True)
        correct = ExpectedCounts(
            np.ones(k), hits[:, 0] if bias is None else hits, loads[:, 0] if bias is None else loads
        )
        slow.m_step(correct)  # moves the mean of the prior; the posteriors under it follow
        right, wrong, mean, _ = slow_m_step(slow, hits, loads - hits)
        table = CoinWeights(right, wrong).table(k)
        _, posterior, _ = slow_e_step(answers, table, np.log(np.full(k, 1 / k)), known)
    assert np.abs(result.probabilities - posterior).max() < 1e-10
    assert result.abilities == pytest.approx(mean.mean(axis=1), abs=1e-10)


def test_the_common_ability_needs_distinct_rows_only() -> None:
    """Few distinct rows of votes, and rows that are too long to be told apart by a number, give the same."""
    rng = np.random.default_rng(9)
    votes = rng.integers(0, 4, (400, 3)).astype(float)
    channel = Channel.of(1.0, 3)
    shown = [common_ability(votes, channel), majority_posterior(votes, channel)[1]]
    # a class that nobody votes for, far away, only changes the channel; many such columns leave the number's range
    wide = np.hstack([votes, np.zeros((400, 60))])
    wide_channel = Channel(channel.keep, (1 - channel.keep) / 62, 63)
    direct = majority_posterior(wide, wide_channel)[1]
    again = common_ability(wide[rng.permutation(400)], wide_channel)
    assert shown[0] == shown[1]
    assert direct == pytest.approx(again, abs=1e-9)
