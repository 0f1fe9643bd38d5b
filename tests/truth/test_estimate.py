"""The estimators: against slow transcriptions, on hostile input, and in what they promise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pytest
from tests.truth import oracle

from peerveil import BadInput, Guarantee, PeerveilError
from peerveil.data import BadTable, Labels
from peerveil.truth import EMNotConverged, PrivateDawidSkene, PrivateMajority, TruthResult, choose, simulate_crowd
from peerveil.truth.answers import EncodedAnswers
from peerveil.truth.channels import Channels
from peerveil.truth.em import EMModel, EMRun, first_counts
from peerveil.truth.grid import GridModel
from peerveil.truth.guarantee import device_guarantee
from peerveil.truth.memory import MemoryEngine
from peerveil.truth.models import ClassPrior, ConfusionModel
from peerveil.truth.simulate import CROWDS

MODELS = ["auto", "one-coin", "two-coin", "confusion"]


def rows(labels: Labels) -> oracle.Answers:
    return [(t, w, int(x)) for t, w, x in labels.frame.select("task", "worker", "label").rows()]


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("iterations", [1, 10])
def test_without_privacy_it_is_dawid_and_skene(k: int, iterations: int) -> None:
    """Same start, same rules: posteriors equal to those of crowd-kit, whose updates these are, within 1e-6."""
    crowd = simulate_crowd(tasks=80, workers=15, answers=6, classes=k, kind="confusion", epsilon=None, seed=k)
    settings: dict[str, Any] = {"class_prior": "estimated", "ability_prior": None}
    result = PrivateDawidSkene(
        epsilon=None, model="confusion", **settings, iterations=iterations, tolerance=0, must_converge=False
    ).fit(crowd.randomized)
    slow = oracle.dawid_skene(rows(crowd.randomized), k, iterations)
    want = np.array([slow[t] for t in result.tasks.to_list()])
    assert np.abs(result.probabilities - want).max() < 1e-9
    assert result.mark == "not private"


@pytest.mark.parametrize("model", MODELS[1:])
@pytest.mark.parametrize("prior", ["shrunk", "uniform", "estimated"])
def test_the_objective_never_falls(model: str, prior: str) -> None:
    for seed, kind in enumerate(CROWDS):
        crowd = simulate_crowd(tasks=120, workers=20, answers=8, classes=2, kind=kind, epsilon=1, seed=seed)
        result = PrivateDawidSkene(epsilon=1, model=model, class_prior=prior, tolerance=1e-9, iterations=5000).fit(
            crowd.randomized
        )
        steps = np.diff(result.details["objectives"])
        assert steps.min() > -1e-8 * abs(result.objective), (kind, steps.min())


@pytest.mark.parametrize("name", ["one-coin", "two-coin", "confusion"])
def test_the_objective_before_an_e_step_is_known(name: str) -> None:
    """A run that goes on where another ended knows by how much its first E-step raises the objective."""
    crowd = simulate_crowd(tasks=200, workers=20, answers=6, classes=3, epsilon=2, seed=4)
    answers = EncodedAnswers.of(crowd.randomized)
    engine = MemoryEngine(answers, answers.known_codes({0: 1, 1: 2}))
    data = Channels.of(2.0, 3, len(answers.workers)), ClassPrior(3, pseudo=2.0)
    models: dict[str, EMModel] = {
        "one-coin": GridModel(*data, answers.loads),
        "two-coin": GridModel(*data, answers.loads, bias=5.0),
        "confusion": ConfusionModel(*data, len(answers.workers)),
    }
    model = models[name]
    run = EMRun(model, engine, first_counts(engine, model.counted))
    for _ in range(4):
        run.step()
    again = EMRun(model, engine, run.counts)
    again.step()
    assert run.objective < again.before < again.objective
    assert again.rise == (math.inf if name == "confusion" else 2 * (again.objective - again.before))


def test_a_strong_prior_is_majority_voting() -> None:
    """Private majority is the limit of one-coin for equal abilities: no tie is broken, no order changed."""
    crowd = simulate_crowd(tasks=300, workers=30, answers=7, epsilon=1, seed=5)
    strong = PrivateDawidSkene(epsilon=1, model="one-coin", ability_prior=1e5, class_prior="uniform").fit(
        crowd.randomized
    )
    votes = PrivateMajority(epsilon=1).fit(crowd.randomized)
    assert (strong.labels == votes.labels).all()


@pytest.mark.parametrize("kind", ["one-coin", "experts", "spammers"])
def test_it_beats_majority_where_abilities_differ(kind: str) -> None:
    """Paired over ten crowds; experts among coin-flippers are the instance of Theorem 4."""
    gains = []
    for seed in range(10):
        crowd = simulate_crowd(tasks=200, workers=30, answers=15, kind=kind, epsilon=3, seed=seed)
        ours, votes = (
            e.fit(crowd.randomized).accuracy(crowd.truth)[0]
            for e in (PrivateDawidSkene(epsilon=3), PrivateMajority(epsilon=3))
        )
        gains.append(ours - votes)
    assert np.mean(gains) > 5 * np.std(gains, ddof=1) / math.sqrt(10) or np.mean(gains) > 0.1
    assert np.mean(gains) > 0.005


def test_personal_biases_are_noticed_and_common_ones_are_not() -> None:
    own = PrivateDawidSkene(epsilon=3).fit(
        simulate_crowd(tasks=300, workers=40, answers=15, kind="spammers", epsilon=3, seed=1).randomized
    )
    common = PrivateDawidSkene(epsilon=3).fit(
        simulate_crowd(tasks=300, workers=40, answers=15, kind="biased", epsilon=3, seed=1).randomized
    )
    assert own.evidence is not None
    assert common.evidence is not None
    assert own.evidence.weight > 0.9
    assert common.evidence.weight == 0


@pytest.mark.parametrize("kind", CROWDS)
def test_candidates_that_end_early_would_not_have_won(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = simulate_crowd(tasks=900, workers=60, answers=8, epsilon=3, kind=kind, seed=2)
    early = PrivateDawidSkene(epsilon=3).fit(crowd.randomized)
    monkeypatch.setattr(choose, "_HOPELESS", math.inf)  # nothing is left out, everything climbs to its end
    full = PrivateDawidSkene(epsilon=3).fit(crowd.randomized)
    assert early.details["prior_strength"] == full.details["prior_strength"]
    assert early.evidence is not None
    assert full.evidence is not None
    assert early.evidence.weights == pytest.approx(full.evidence.weights, abs=0.02)
    assert (
        min(early.evidence.bounds.values()) <= min(full.evidence.bounds.values()) + 1
    )  # what ends early is a lower bound
    assert (early.labels == full.labels).mean() > 0.998


def test_starts_lead_to_the_same_place() -> None:
    crowd = simulate_crowd(tasks=200, workers=25, answers=9, classes=3, epsilon=2, seed=2)
    first = PrivateDawidSkene(epsilon=2, model="one-coin", tolerance=1e-10).fit(crowd.randomized)
    start = np.full((200, 3), 1 / 3) + np.eye(3)[[crowd.truth[task] for task in first.tasks.to_list()]]
    second = PrivateDawidSkene(epsilon=2, model="one-coin", tolerance=1e-10, start=start).fit(crowd.randomized)
    assert np.abs(first.probabilities - second.probabilities).max() < 1e-3
    with pytest.raises(BadInput, match="start: got 'spectral', need 'majority', or an array"):
        PrivateDawidSkene(epsilon=2, model="one-coin", start="spectral")
    with pytest.raises(BadInput, match="shape"):
        PrivateDawidSkene(epsilon=2, model="one-coin", start=np.ones((3, 3))).fit(crowd.randomized)


def test_known_answers_are_kept_and_teach() -> None:
    crowd = simulate_crowd(tasks=200, workers=10, answers=4, epsilon=2, ability=(2, 2), seed=3)
    known = {t: crowd.truth[t] for t in range(100)}
    plain = PrivateDawidSkene(epsilon=2, model="one-coin").fit(crowd.randomized)
    taught = PrivateDawidSkene(epsilon=2, model="one-coin", known=known).fit(crowd.randomized)
    assert all(taught.labels[t] == crowd.truth[t] for t in range(100))
    assert np.abs(taught.abilities - crowd.abilities).mean() < np.abs(plain.abilities - crowd.abilities).mean()
    with pytest.raises(BadInput, match=r"known"):
        PrivateDawidSkene(epsilon=2, known={"nobody": 1}).fit(crowd.randomized)
    with pytest.raises(BadInput, match=r"known\[1\]"):
        PrivateDawidSkene(epsilon=2, known={1: 7}).fit(crowd.randomized)


@pytest.mark.parametrize("model", ["one-coin", "two-coin", "confusion", "auto"])
def test_history_is_a_prior(model: str) -> None:
    crowd = simulate_crowd(tasks=60, workers=10, answers=3, epsilon=1, seed=6)
    past: dict[int | str, tuple[float, float]] = {"somebody else": (1.0, 2.0)}
    past |= {w: (1000 * a, 1000 * (1 - a)) for w, a in enumerate(crowd.abilities.tolist())}
    known = PrivateDawidSkene(epsilon=1, model=model, history=past).fit(crowd.randomized)
    assert np.abs(known.abilities - crowd.abilities).max() < 0.1
    for bad in ((1.0,), (-1.0, 2.0), (math.nan, 1.0), "ab"):
        with pytest.raises(BadInput, match="history"):
            PrivateDawidSkene(epsilon=1, model=model, history={0: bad}).fit(crowd.randomized)  # type: ignore[arg-type]


def test_history_of_a_result_carries_over() -> None:
    old = simulate_crowd(tasks=400, workers=12, answers=8, epsilon=2, seed=7)
    estimator = PrivateDawidSkene(epsilon=2, model="one-coin")
    estimator.fit(old.randomized)
    learned = estimator.workers_.history()
    assert all(right >= 0 and wrong >= 0 for right, wrong in learned.values())
    sizes = np.array([sum(pair) for pair in learned.values()])
    assert 10 < np.median(sizes) < 270  # what 267 randomized answers are worth, at most themselves


def test_updates_give_the_answer_of_all_at_once() -> None:
    crowd = simulate_crowd(tasks=150, workers=20, answers=8, epsilon=2, seed=8)
    frame = crowd.randomized.frame
    first, rest = frame[:700], frame[700:]
    estimator = PrivateDawidSkene(epsilon=2, model="one-coin", tolerance=1e-9)
    with pytest.raises(BadInput, match="before it"):
        estimator.update(rest)
    once, workers = estimator.fit(frame), estimator.workers_
    estimator.fit(first)
    twice = estimator.update(rest.rename({"task": "item"}), columns={"task": "item"})
    assert np.abs(once.probabilities - twice.probabilities).max() < 1e-3
    assert twice.iterations <= once.iterations + 1
    assert estimator.workers_.workers.to_list() == workers.workers.to_list()
    with pytest.raises(BadTable):
        estimator.update({"task": [1], "worker": [1], "label": [9]})
    with pytest.raises(BadInput, match="same kinds"):
        estimator.update({"task": ["x"], "worker": [1], "label": [1]})


def test_non_convergence_is_raised() -> None:
    crowd = simulate_crowd(tasks=100, workers=20, answers=5, epsilon=1, seed=1)
    with pytest.raises(EMNotConverged) as error:
        PrivateDawidSkene(epsilon=1, model="one-coin", iterations=2, tolerance=1e-12).fit(crowd.randomized)
    assert error.value.iterations == 2
    assert isinstance(error.value, PeerveilError)
    kept = PrivateDawidSkene(epsilon=1, model="one-coin", iterations=2, tolerance=1e-12, must_converge=False).fit(
        crowd.randomized
    )
    assert not kept.converged


# ---- hostile input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_a_worker_with_one_answer_and_a_task_with_none(model: str) -> None:
    table = {"task": [1, 1, 2, 2, 3], "worker": ["a", "b", "a", "b", "once"], "label": [0, 0, 1, 1, 1]}
    result = PrivateDawidSkene(epsilon=1, model=model).fit(table, tasks=[1, 2, 3, 99])
    assert result.tasks.to_list() == [1, 2, 3, 99]
    assert np.allclose(result.probabilities.sum(axis=1), 1)
    assert np.allclose(result.probabilities[3], result.class_shares)
    assert np.isfinite(result.standard_errors).all()
    with pytest.raises(BadInput, match="every task"):
        PrivateDawidSkene(epsilon=1, model=model).fit(table, tasks=[1, 2])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("epsilon", [None, "0.001", 1, 30])
def test_all_answers_equal(model: str, epsilon: Any) -> None:
    table = {"task": [1, 1, 2, 2], "worker": [1, 2, 1, 2], "label": ["x"] * 4}
    result = PrivateDawidSkene(epsilon=epsilon, model=model, classes=["x", "y"]).fit(table)
    assert result.labels.tolist() == ["x", "x"] or epsilon == "0.001"
    assert np.isfinite(result.probabilities).all()
    with pytest.raises(BadInput, match="cannot be seen from equal answers"):
        PrivateDawidSkene(epsilon=epsilon, model=model).fit(table)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["a", "b", "a", "b"], ["a", "b"]),
        ([1, 0, 1, 0], 2),
        ([True, False, True, False], [False, True]),
        ([7, 9, 7, 9], [7, 9]),
    ],
)
def test_labels_of_every_kind(labels: list[Any], classes: Any) -> None:
    table = {"task": [1, 2, 1, 2], "worker": [1, 1, 2, 2], "label": labels}
    result = PrivateDawidSkene(epsilon=3, model="one-coin", classes=classes).fit(table)
    assert result.labels.tolist() == labels[:2]
    assert type(result.labels.tolist()[0]) is type(labels[0])
    assert PrivateMajority(epsilon=3, classes=classes).fit(table).labels.tolist() == labels[:2]


@pytest.mark.parametrize(
    "table",
    [
        {"task": [1, None], "worker": [1, 2], "label": [0, 1]},
        {"task": [1, 2], "worker": [1, 2], "label": [0, None]},
        {"task": [1, 2], "worker": [1, 2], "label": [0, math.nan]},
        {"task": [1, 2], "worker": [1], "label": [0, 1]},
        {"task": [], "worker": [], "label": []},
        {"task": [1], "label": [0]},
        5,
        "no-such-file.parquet",
    ],
)
def test_what_is_no_table_of_reports_is_refused(table: Any) -> None:
    with pytest.raises(BadInput):
        PrivateDawidSkene(epsilon=1, model="one-coin", classes=2).fit(table)


def test_an_impossible_label_is_refused_by_row() -> None:
    with pytest.raises(BadTable, match="row 2"):
        PrivateDawidSkene(epsilon=1, classes=["cat", "dog"]).fit(
            {"task": [1, 1], "worker": [1, 2], "label": ["cat", "cow"]}
        )


def test_repeated_reports_follow_the_stated_rule() -> None:
    table = {"task": [1, 1, 1, 2], "worker": ["a", "a", "b", "b"], "label": [0, 1, 1, 0]}
    loads = {
        rule: PrivateDawidSkene(epsilon=1, model="one-coin", repeated=rule).fit(table).loads.tolist()
        for rule in ("all", "first", "last")
    }
    assert loads == {"all": [2, 2], "first": [1, 2], "last": [1, 2]}
    first, last = (EncodedAnswers.of(table, repeated=r) for r in ("first", "last"))
    assert sorted(first.label.tolist()) == [0, 0, 1]
    assert sorted(last.label.tolist()) == [0, 1, 1]
    with pytest.raises(BadInput, match="1 answers by a worker"):
        PrivateDawidSkene(epsilon=1, repeated="refuse").fit(table)
    with pytest.raises(BadInput, match="repeated"):
        PrivateDawidSkene(epsilon=1, repeated="some").fit(table)


@pytest.mark.slow
def test_a_hundred_thousand_workers() -> None:
    rng = np.random.default_rng(1)
    n = 300_000
    table = pl.DataFrame(
        {"task": rng.integers(0, 20_000, n), "worker": rng.integers(0, 100_000, n), "label": rng.integers(0, 2, n)}
    )
    result = PrivateDawidSkene(epsilon=1, model="one-coin").fit(table)
    assert result.abilities.size == table["worker"].n_unique()


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": 0},
        {"epsilon": -1},
        {"epsilon": math.inf},
        {"model": "magic"},
        {"class_prior": "magic"},
        {"class_prior": [0.5, 0.6]},
        {"class_prior": [1.0, 0.0]},
        {"model": "one-coin", "ability_prior": -1.0},
        {"ability_prior": 3.0},
        {"iterations": 0},
        {"tolerance": -1},
        {"start": "magic"},
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any]) -> None:
    crowd = simulate_crowd(tasks=10, workers=4, answers=2)
    given = {"epsilon": 1, **settings}
    with pytest.raises(BadInput) as error:
        PrivateDawidSkene(**given).fit(crowd.randomized)
    assert error.value.argument in settings


# ---- what comes out ---------------------------------------------------------------------------------------------------------


def test_frames_of_both_kinds() -> None:
    crowd = simulate_crowd(tasks=40, workers=8, answers=4, epsilon=3, seed=1)
    polars = crowd.randomized.frame
    pandas = pd.DataFrame({name: polars[name].to_numpy() for name in ("task", "worker", "label")})
    estimator = PrivateDawidSkene(epsilon=3)
    ours = estimator.fit_predict(polars)
    assert isinstance(ours, pl.DataFrame)
    series = estimator.fit_predict(pandas)
    assert isinstance(series, pd.Series)
    assert series.index.name == "task"
    assert series.tolist() == ours["label"].to_list()
    chances = estimator.fit_predict_proba(pandas)
    assert list(chances.columns) == [0, 1]
    assert estimator.fit_predict_proba(polars).columns == ["task", "0", "1"]
    assert len(PrivateMajority(epsilon=3).fit_predict(pandas)) == 40


def test_the_result_says_what_protects_it() -> None:
    crowd = simulate_crowd(tasks=40, workers=8, answers=4, epsilon=2, seed=1)
    result = PrivateDawidSkene(epsilon=2).fit(crowd.randomized)
    assert isinstance(result, TruthResult)
    assert result.guarantee == device_guarantee(2)
    assert result.guarantee != Guarantee.local_attribute_dp(2)
    most = int(result.loads.max())
    assert result.person_guarantee.epsilon == 2 * most
    assert f"All {most} answers of the busiest person add up to epsilon {2 * most}: no meaningful guarantee" in str(
        result
    )
    marked = PrivateDawidSkene(epsilon=2).fit(crowd.randomized, guarantee=crowd.guarantee)
    assert marked.mark == "simulation, not private"
    data = marked.to_dict()
    assert data["mark"] == marked.mark
    assert len(data["tasks"]) == 40
    ax = marked.plot()
    assert any(text.get_gid() == "mark" for text in ax.texts)
    with pytest.raises(BadInput, match="guarantee"):
        PrivateDawidSkene(epsilon=2).fit(crowd.randomized, guarantee="trust me")  # type: ignore[arg-type]


def test_ties_are_broken_evenly_and_repeatably() -> None:
    n = 2000
    table = {"task": np.repeat(np.arange(n), 2), "worker": np.tile([0, 1], n), "label": np.tile([0, 1], n)}
    first, second = (PrivateMajority(epsilon=1).fit(table).labels for _ in range(2))
    assert (first == second).all()
    assert abs(first.mean() - 0.5) < 5 * 0.5 / math.sqrt(n)
