"""Each person chooses an epsilon: inference uses the channel of each, and the guarantee says so."""

from __future__ import annotations

import json
import math
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.cli.runner import run

from peerveil import BadInput
from peerveil.data import Labels
from peerveil.truth import NotRandomized, PrivateDawidSkene, PrivateMajority, grid, simulate_crowd
from peerveil.truth.source import fit_source
from peerveil.truth.wire import Client, collect, invitation, read_answers, write_answers

LEVELS = ["1/2", "1", "3"]
CROWD = simulate_crowd(tasks=80, workers=15, answers=8, epsilon=LEVELS * 5, seed=1)


@pytest.mark.parametrize(
    "model", [pytest.param("auto", marks=pytest.mark.slow), "one-coin", "two-coin", "confusion", "majority"]
)
@pytest.mark.parametrize("prior", ["auto", None])
def test_equal_levels_are_one_epsilon(model: str, prior: str | None) -> None:
    """The code for levels, with levels that differ by nothing that matters, against the code for one epsilon."""
    crowd = simulate_crowd(tasks=80, workers=12, answers=6, classes=3, epsilon=2, seed=5)
    same = {w: 2 if w % 2 else 2 + 1e-12 for w in range(12)}
    estimator: Any = PrivateMajority if model == "majority" else PrivateDawidSkene
    prior = "auto" if model == "auto" else prior
    exactly = {"tolerance": 1e-12, "iterations": 3000}  # both start EM at slightly different places
    settings: dict[str, Any] = {} if model == "majority" else {"model": model, "ability_prior": prior, **exactly}
    one = estimator(epsilon=2, classes=3, **settings).fit(crowd.randomized)
    each = estimator(epsilon=same, classes=3, **settings).fit(crowd.randomized)
    np.testing.assert_allclose(one.probabilities, each.probabilities, atol=2e-3)
    np.testing.assert_allclose(one.abilities, each.abilities, atol=2e-3)
    np.testing.assert_allclose(one.standard_errors, each.standard_errors, atol=2e-3)
    exact = estimator(epsilon=dict.fromkeys(range(12), 2), classes=3, **settings).fit(crowd.randomized)
    assert (exact.probabilities == one.probabilities).all()


@pytest.mark.parametrize("classes", [2, 10])
def test_own_channels_beat_the_most_cautious_one_and_the_boldest(classes: int) -> None:
    """Mixed crowds; all inferred with each worker's epsilon, or as if everybody had the smallest; five standard errors."""
    gains = []
    for seed in range(10):
        levels = ["1/2", "1/2", "4"] * 15
        crowd = simulate_crowd(
            tasks=200, workers=45, answers=9, classes=classes, epsilon=levels, response="k-ary", seed=seed
        )
        fits = [PrivateDawidSkene(epsilon=e, classes=classes, model="one-coin") for e in ("column", "1/2")]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotRandomized)
            accuracy = [fit.fit(crowd.randomized).accuracy(crowd.truth)[0] for fit in fits]
        gains.append(accuracy[0] - accuracy[1])
    assert np.mean(gains) > 5 * np.std(gains, ddof=1) / math.sqrt(len(gains)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 6])
def test_engines_agree_on_levels(classes: int, tmp_path: Path) -> None:
    crowd = simulate_crowd(tasks=60, workers=15, answers=8, classes=classes, epsilon=LEVELS * 5, seed=2)
    path = crowd.randomized.write(tmp_path / "reports.parquet")
    for model in ("one-coin", "two-coin"):
        estimators = [PrivateDawidSkene(epsilon="column", classes=classes, model=model, tolerance=1e-5) for _ in "12"]
        memory, tables = estimators[0].fit(crowd.randomized), estimators[1].fit(path, engine="duckdb")
        np.testing.assert_allclose(memory.probabilities, tables.probabilities, atol=1e-10)
        np.testing.assert_allclose(memory.standard_errors, tables.standard_errors, atol=1e-10)


def test_column_and_mapping_agree(tmp_path: Path) -> None:
    mapping = {w: LEVELS[w % 3] for w in range(15)}
    results = [
        PrivateDawidSkene(epsilon="column", model="one-coin").fit(CROWD.randomized),
        PrivateDawidSkene(epsilon=mapping, model="one-coin").fit(CROWD.randomized),
        fit_source(CROWD.randomized, epsilon="column", model="one-coin").public,
        fit_source(CROWD.randomized.write(tmp_path / "reports.jsonl"), epsilon="column", model="one-coin").public,
    ]
    for other in results[1:]:
        np.testing.assert_allclose(results[0].probabilities, other.probabilities, atol=1e-10)
        assert other.epsilon == 3


def test_the_guarantee_says_whose_epsilon_is_which() -> None:
    estimator = PrivateDawidSkene(epsilon="column", model="one-coin")
    result = estimator.fit(CROWD.randomized)
    assert "1/2: 5 persons; 1: 5 persons; 3: 5 persons" in str(result)
    frame = estimator.workers_.frame()
    assert frame["epsilon"].to_list() == LEVELS * 5
    totals = [n * Fraction(e) for n, e in frame.select("answers", "epsilon").iter_rows()]
    assert result.person_guarantee.exact_epsilon == max(totals)


def test_people_choose_over_the_wire(tmp_path: Path) -> None:
    terms = invitation(epsilon=["1/2", 1, 4], classes=[f"c{i}" for i in range(10)])
    chosen = ["1/2", "1/2", 1, 4]
    lines = [Client(terms, worker=w, epsilon=e).randomize(t, "c3") for w, e in enumerate(chosen) for t in range(6)]
    assert [Client(terms, epsilon=e).size for e in ("1/2", 1, 4)] == [4, 3, 1]
    assert [json.loads(line)["epsilon"] for line in lines[::6]] == ["1/2", "1/2", "1", "4"]
    collected = collect(terms, lines)
    assert [response.size for response in collected.levels] == [4, 3, 1]
    assert "1/2: 2 persons" in collected.guarantee.unit
    path = write_answers(collected, tmp_path / "reports.jsonl")
    assert read_answers(path).answers == collected.answers
    assert read_answers(path).levels == collected.levels
    result = fit_source(path, model="one-coin")
    assert result.public.tasks.len() == 6
    assert result.operator.frame()["epsilon"].to_list() == ["1/2", "1/2", "1", "4"]
    assert fit_source(path, model="majority").public.tasks.len() == 6
    with pytest.raises(BadInput, match="epsilon: got 2, need one of the levels"):
        Client(terms, epsilon=2)
    with pytest.raises(BadInput, match="epsilon"):
        Client(terms)
    with pytest.raises(BadInput, match="line 1, epsilon"):
        collect(terms, [lines[0].replace('"1/2"', '"1/3"')])


def test_a_level_that_loses_more_than_it_says_is_refused() -> None:
    terms = json.loads(invitation(epsilon=["1/2", 1], classes=2))
    terms["levels"][0]["response"] = terms["levels"][1]["response"]
    with pytest.raises(BadInput, match="loses more than epsilon 1/2"):
        Client(terms, epsilon="1/2")


def test_what_cannot_be_is_refused() -> None:
    frame = CROWD.randomized.frame
    with pytest.raises(BadInput, match="no epsilon for worker 14"):
        PrivateDawidSkene(epsilon=dict.fromkeys(range(14), 1)).fit(CROWD.randomized)
    with pytest.raises(BadInput, match=r"epsilon\[3\]"):
        PrivateDawidSkene(epsilon={w: -1 if w == 3 else 1 for w in range(15)}).fit(CROWD.randomized)
    with pytest.raises(BadInput, match="a column epsilon"):
        PrivateDawidSkene(epsilon="column").fit(frame.drop("epsilon"))
    two = frame.with_columns(epsilon=pl.when(pl.int_range(pl.len()) == 0).then(pl.lit("2")).otherwise("epsilon"))
    with pytest.raises(BadInput, match="one epsilon in all answers of a worker"):
        PrivateDawidSkene(epsilon="column").fit(two)
    with pytest.raises(BadInput, match="column epsilon"):
        PrivateDawidSkene(epsilon="column").fit(frame.with_columns(epsilon=pl.lit("many")))
    with pytest.raises(BadInput, match="one for each of the 15 workers"):
        simulate_crowd(tasks=5, workers=15, answers=2, epsilon=[1, 2])


def test_raw_answers_of_a_level_are_doubted() -> None:
    crowd = simulate_crowd(tasks=200, workers=20, answers=10, epsilon=1, seed=2, ability=(30, 2))
    raw = Labels.from_frame(crowd.answers.frame.with_columns(epsilon=pl.col("worker") % 2 + 1))
    with pytest.warns(NotRandomized):
        PrivateDawidSkene(epsilon="column", model="one-coin").fit(raw)


def test_a_crowd_in_several_parts_is_fitted_as_one_in_a_single_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """The prior mean moves once for all parts: the objective never falls, and the fit is that of one part."""
    crowd = simulate_crowd(tasks=80, workers=20, answers=8, epsilon=1, seed=4)
    fits = []
    for cells in (4_000_000, 200):
        monkeypatch.setattr(grid, "_CHUNK_CELLS", cells)
        estimator = PrivateDawidSkene(epsilon=1, model="one-coin", ability_prior=60.0, tolerance=1e-9)
        fits.append(estimator.fit(crowd.randomized))
    np.testing.assert_allclose(fits[0].probabilities, fits[1].probabilities, atol=1e-9)
    assert (np.diff(fits[1].details["objectives"]) > -1e-7).all()


def test_the_command_states_the_largest_total_and_estimates_shares(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A person with fewer answers may have the larger total; fractions are read as they are written."""
    crowd = simulate_crowd(tasks=60, workers=3, answers=2, epsilon=["1/2", "1/2", "4"], seed=1)
    kept = crowd.randomized.frame.filter((pl.col("worker") < 2) | (pl.col("task") % 3 == 0))
    kept.write_csv(tmp_path / "levels.csv")
    answers = kept.filter(pl.col("worker") == 2).height
    assert answers < kept.filter(pl.col("worker") == 0).height
    stated = str(tmp_path / "levels.csv"), "--randomized", "--classes", "0,1"
    code, text, _ = run(capsys, "truth", "infer", *stated, "--epsilon", "column", "--out", str(tmp_path / "labels"))
    assert code == 0
    assert f"All {answers} answers of the busiest person add up to epsilon {4 * answers}:" in text
    code, text, _ = run(capsys, "truth", "shares", *stated, "--out", str(tmp_path / "shares"))
    assert code == 0
    assert "(3 people)" in text
