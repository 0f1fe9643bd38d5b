"""Calibrated scores of this year: tables, refusals, comparisons, and what calibration gains."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from benchmarks.calibration_gain import conference, run
from scipy.optimize import minimize
from scipy.special import stdtrit

from peerveil.calibration import CalibratedScores, Threshold, calibrate, plan_decisions
from peerveil.calibration.calibrated import CalibrationGain
from peerveil.calibration.compare import isotonic, least_squares, with_confidence, z_scores
from peerveil.core.errors import BadInput
from peerveil.data import Rankings, Reviews


def reviews(strictness: float = 1.0, seed: int = 0) -> Reviews:
    return conference(np.random.default_rng(seed), strictness).reviews


@pytest.fixture(scope="module")
def strict() -> CalibratedScores:
    return calibrate(reviews(), accept=60)


# ---- tables ----------------------------------------------------------------------------------------------------------


def test_scores_say_rank_interval_decision_and_change(strict: CalibratedScores) -> None:
    scores = strict.scores
    assert scores["rank"].to_list() == list(range(1, 241))
    assert (scores["calibrated"].diff().drop_nulls() <= 0).all()
    assert ((scores["lower"] < scores["calibrated"]) & (scores["calibrated"] < scores["upper"])).all()
    assert ((scores["rank_lower"] <= scores["rank"]) & (scores["rank"] <= scores["rank_upper"])).all()
    assert scores["accepted"].to_list() == [rank <= 60 for rank in range(1, 241)]
    assert abs(float(scores["chance"].to_numpy().sum()) - 60) < 1e-9  # every draw has 60 best papers
    line = scores["mean"].sort(descending=True)[59]
    changed = scores.filter(pl.col("change") == "accepted")
    assert changed.height > 3
    assert (changed["mean"] < line).all()
    assert (scores.filter(pl.col("change") == "rejected")["mean"] >= line).all()
    assert f"{changed.height} would not be accepted by the plain mean" in strict.summary()
    assert "accepted" not in calibrate(reviews()).scores.columns
    assert int(calibrate(reviews(), accept=Threshold.share(0.25)).scores["accepted"].sum()) == 60


def test_it_is_for_the_operator_alone(strict: CalibratedScores, tmp_path: Path) -> None:
    assert strict.operator_only
    paths = strict.save(tmp_path / "out")
    assert {path.name for path in paths} == {"result.json", "figure.svg", "table.csv"}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in paths)
    assert "_reviews" not in strict.to_dict()


def test_strictness_of_reviewers_is_found(strict: CalibratedScores) -> None:
    frame = reviews().frame
    table = strict.reviewers.join(
        frame.join(strict.scores.select("paper", "calibrated"), on="paper")
        .group_by("reviewer")
        .agg((pl.col("score") - pl.col("calibrated")).mean().alias("above")),
        on="reviewer",
    )
    assert np.corrcoef(table["bias"], table["above"])[0, 1] > 0.95
    assert (table["lower"] < table["bias"]).all()
    assert table.height == frame["reviewer"].n_unique()


def test_reviewers_who_score_at_random_are_named() -> None:
    frame = reviews(0.5, seed=3).frame
    rng = np.random.default_rng(1)
    loads = frame.group_by("reviewer").len().sort("len", "reviewer", descending=True)
    wild = loads["reviewer"][:3].to_list()
    noise = pl.Series(rng.normal(0, 4, frame.height))
    mixed = frame.with_columns(
        pl.when(pl.col("reviewer").is_in(wild)).then(pl.col("score") + noise).otherwise(pl.col("score")).alias("score")
    )
    named = calibrate(mixed).reviewers.filter("disagrees")["reviewer"].to_list()
    assert set(wild) <= set(named)
    assert len(named) <= 6
    assert calibrate(frame).reviewers["disagrees"].sum() <= 1


def test_what_one_more_review_brings(strict: CalibratedScores) -> None:
    """The expected chance of a wrong decision, against a simulation of the review itself."""
    table = strict.more_reviews
    assert table.height > 20
    assert (table["gain"].diff().drop_nulls() <= 0).all()
    np.testing.assert_allclose(table["wrong"] - table["after"], table["gain"])
    line = strict.scores["calibrated"][59:61].mean()
    for row in table.head(20).iter_rows(named=True):
        paper = strict.scores.row(by_predicate=pl.col("paper") == row["paper"], named=True)
        deviation = (paper["upper"] - paper["lower"]) / 2 / stdtrit(strict.reviewers.height - 1, 0.975)
        rng, count = np.random.default_rng(3), 100_000
        quality = paper["calibrated"] + deviation * rng.standard_normal(count)
        review = quality + np.hypot(strict.noise, strict.strictness) * rng.standard_normal(count)
        precision = 1 / deviation**2, 1 / (strict.noise**2 + strict.strictness**2)
        mean = (paper["calibrated"] * precision[0] + review * precision[1]) / sum(precision)
        wrong = float(((quality > line) != (mean > line)).mean())
        assert abs(wrong - row["after"]) < 5 * np.sqrt(0.25 / count)
    assert calibrate(reviews()).more_reviews.is_empty()


def test_a_history_makes_strictness_better_known() -> None:
    rng = np.random.default_rng(8)
    bias = rng.standard_normal(160)
    years = []
    for _ in range(2):
        people = np.concatenate([rng.choice(160, 3, replace=False) for _ in range(240)])
        quality = rng.standard_normal(240)
        score = np.repeat(quality, 3) + bias[people] + rng.standard_normal(720)
        years.append((Reviews(paper=np.repeat(np.arange(240), 3), reviewer=people, score=score), quality))
    (past, _), (now, quality) = years
    known = {"alone": calibrate(now), "history": calibrate(now, history=past)}
    widths = {name: (r.reviewers["upper"] - r.reviewers["lower"]).mean() for name, r in known.items()}
    assert widths["history"] < 0.85 * widths["alone"]  # type: ignore[operator]
    errors = {
        name: np.square(result.scores.sort("paper")["calibrated"].to_numpy() - quality).mean()
        for name, result in known.items()
    }
    assert errors["history"] < errors["alone"]
    # another scale: the same strictness is read from it
    stretched = past.frame.with_columns(pl.col("score") * 20 + 50)
    other = calibrate(now, history=[stretched]).reviewers.sort("reviewer")["bias"]
    assert np.corrcoef(other, known["history"].reviewers.sort("reviewer")["bias"])[0, 1] > 0.99
    assert set(known["history"].scores["paper"]) == set(range(240))


def test_parts_without_a_common_reviewer_are_named() -> None:
    whole = reviews().frame
    seats = [(1_000 + i, 1_000 + (i + k) % 6) for i in range(20) for k in range(3)]
    other = pl.DataFrame(seats, schema=["paper", "reviewer"], orient="row").with_columns(score=whole["score"][:60])
    lone = pl.DataFrame({"paper": [5_000], "reviewer": [5_000], "score": [9.0]})
    result = calibrate(pl.concat([whole, other, lone]), accept=60)
    assert result.scores.group_by("part").len()["len"].sort().to_list() == [1, 20, 240]
    assert "3 parts that share no reviewer (240, 20, 1 papers)" in result.notes[0]
    assert any("1 paper with a single review" in note for note in result.notes)
    paper = result.scores.row(by_predicate=pl.col("paper") == 5_000, named=True)
    assert paper["calibrated"] < 6  # one review of 9 by an unknown reviewer: drawn toward the mean of 0


@pytest.mark.parametrize(
    ("table", "settings", "text"),
    [
        ({"paper": [1, 1, 2, 2], "score": [1, 2, 3, 4]}, {}, "without reviewers"),
        ({"paper": [1, 1, 2, 2], "reviewer": [1, 2, 1, 2], "score": [3, 3, 3, 3]}, {}, "all equal"),
        ({"paper": [1, 2, 3], "reviewer": [1, 1, 2], "score": [1, 2, 3]}, {}, "one review of every paper"),
        ({"paper": [1, 1, 2], "reviewer": [1, 2, 3], "score": [1, 2, 3]}, {}, "one review by every reviewer"),
        ({"paper": [1, 1, 2, 2], "reviewer": [1, 2, 1, 2], "score": [1, 2, 3, 5]}, {"accept": 3}, "accept"),
        ({"paper": [1, 1, 2, 2], "reviewer": [1, 2, 1, 2], "score": [1, 2, 3, 5]}, {"level": 2}, "level"),
        ({"paper": [1, 1, 2, 2], "reviewer": [1, 2, 1, 2], "score": [1, 2, 3, 5]}, {"confidence": "c"}, "confidence"),
        (
            {"paper": [1, 1, 2, 2], "reviewer": [1, 2, 1, 2], "score": [1, 2, 3, 5]},
            {"history": Reviews(paper=[1, 1], reviewer=[8, 9], score=[1, 2])},
            "reviews by other people",
        ),
    ],
)
def test_what_cannot_be_calibrated_is_refused(table: dict[str, object], settings: dict[str, object], text: str) -> None:
    with pytest.raises(BadInput, match=text):
        calibrate(Reviews(**table), **settings)  # type: ignore[arg-type]


# ---- methods that chairs know ----------------------------------------------------------------------------------------


def test_least_squares_reaches_the_minimum() -> None:
    rng = np.random.default_rng(2)
    paper, who = np.repeat(np.arange(6), 3), np.concatenate([rng.choice(5, 3, replace=False) for _ in range(6)])
    score = rng.integers(1, 6, 18).astype(float)
    # t of each reviewer's levels: a free start and rises of at least the scores'
    keys = sorted(set(zip(who.tolist(), score.tolist(), strict=True)))
    index = {key: number for number, key in enumerate(keys)}
    level = np.array([index[key] for key in zip(who.tolist(), score.tolist(), strict=True)])

    def loss(t: np.ndarray) -> float:
        means = np.bincount(paper, t[level]) / 3
        return float(np.square(t[level] - means[paper]).sum())

    rises = [
        {"type": "ineq", "fun": lambda t, a=a, b=b, r=keys[b][1] - keys[a][1]: t[b] - t[a] - r}
        for a, b in zip(range(len(keys) - 1), range(1, len(keys)), strict=True)
        if keys[a][0] == keys[b][0]
    ]
    start = np.array([height for _, height in keys])
    best = minimize(loss, start, method="SLSQP", constraints=rises, options={"maxiter": 2000, "ftol": 1e-14})
    values = least_squares(paper, who, score)

    def given(t: np.ndarray) -> float:
        return float(np.square(t[level] - values[paper]).sum())

    ours = minimize(given, start, method="SLSQP", constraints=rises, options={"maxiter": 2000, "ftol": 1e-14})
    assert ours.fun == pytest.approx(best.fun, abs=1e-4)
    assert ours.fun < 0.9 * loss(start)  # monotone reviewers fit better than shifts of the scores as they are


def test_calibration_with_confidence_solves_its_equations() -> None:
    paper, who = np.array([0, 0, 1, 1, 2, 2, 3, 3]), np.array([0, 1, 1, 2, 0, 2, 3, 4])  # papers 0-2, and 3 by itself
    score, weight = np.array([1.0, 4, 6, 5, 2, 7, 3, 5]), np.array([1.0, 2, 1, 3, 1, 1, 2, 1])
    values = with_confidence(paper, who, score, weight)
    matrix = np.zeros((10, 9))
    matrix[np.arange(8), paper], matrix[np.arange(8), 4 + who] = 1, 1
    root = np.sqrt(np.append(weight, [1e6, 1e6]))
    matrix[8, 4:7], matrix[9, 7:] = 1, 1  # biases add up to 0 in each part
    exact = np.linalg.lstsq(matrix * root[:, None], np.append(score, [0, 0]) * root)[0]
    np.testing.assert_allclose(values, exact[:4], atol=1e-6)


def test_z_scores_forget_mean_and_spread() -> None:
    paper, who = np.array([0, 1, 2, 0, 1, 2, 0]), np.array([0, 0, 0, 1, 1, 1, 2])
    first, second = np.array([1.0, 2, 3]), np.array([10.0, 30, 50])
    values = z_scores(paper, who, np.concatenate([first, second, [4.0]]))
    np.testing.assert_allclose(values[1:], [0, np.sqrt(1.5)])
    np.testing.assert_allclose(values[0], -2 * np.sqrt(1.5) / 3)  # the third reviewer gave one score


def test_the_isotonic_mechanism_agrees_with_authors() -> None:
    names, means = ["a", "b", "c", "d"], np.array([5.0, 7.0, 6.0, 1.0])
    rankings = Rankings.from_orders([["a", "b", "c"]], names)
    np.testing.assert_allclose(isotonic(rankings, names, means, np.array([2, 2, 2, 2])), [6, 6, 6, 1])
    tied = Rankings.from_orders([[["a", "b"], "c"]], names)  # 6 and 6: nothing to move
    np.testing.assert_allclose(isotonic(tied, names, means, np.array([2, 2, 2, 2])), means)
    two = Rankings.from_orders([["a", "b"], ["d", "a"]], names)
    np.testing.assert_allclose(isotonic(two, names, means, np.array([2, 2, 2, 2])), [4.5, 6, 6, 3])
    with pytest.raises(BadInput, match="rankings of other things"):
        isotonic(Rankings.from_orders([["x", "y"]], ["x", "y"]), names, means, np.array([2, 2, 2, 2]))


def test_methods_stand_beside_each_other(strict: CalibratedScores) -> None:
    table = strict.compare(Rankings.from_orders([["7", "3", "1"]], ["1", "3", "7"]))
    assert table.columns == ["paper", "calibrated", "mean", "z_score", "with_confidence", "least_squares", "isotonic"]
    assert table["paper"].to_list() == strict.scores["paper"].to_list()
    assert table.null_count().sum_horizontal().item() == 0
    means = table.filter(pl.col("paper").is_in([7, 3, 1])).sort("paper")["isotonic"].to_list()
    assert means[0] <= means[1] <= means[2]


# ---- would it help? --------------------------------------------------------------------------------------------------


def test_a_plan_says_whether_calibration_would_help() -> None:
    helps, useless = (plan_decisions(reviews(strictness, 2), accept=60) for strictness in (1.0, 0.0))
    assert isinstance(helps, CalibrationGain)
    assert isinstance(useless, CalibrationGain)
    assert helps.helps
    assert helps.lower < helps.gain < helps.upper
    assert not useless.helps
    assert useless.recommendation.startswith("Calibration would not change this conference")
    assert 0.7 < helps.strictness < 1.3 > useless.strictness
    with pytest.raises(BadInput, match="functions without noise"):
        plan_decisions(reviews(), functions={}, accept=60)


@pytest.mark.slow
@pytest.mark.parametrize(("strictness", "target"), [(0.0, -0.004), (0.5, 0.01), (1.0, 0.045)])
def test_gains_of_calibration(strictness: float, target: float) -> None:
    table = run(200, strictness)
    gain, known, covered, predicted = table.T
    error = gain.std() / np.sqrt(len(gain))
    assert gain.mean() > target - 2 * error
    # nothing is lost against known variances, which is all that can be had
    assert (gain - known).mean() > -0.002 - 5 * (gain - known).std() / np.sqrt(len(gain))
    assert 0.93 < covered.mean() < 0.97
    assert abs(np.nanmean(predicted - gain)) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("strictness", [0.5, 1.0])
def test_intervals_cover_with_rounded_scores_uneven_loads_and_heavy_tails(strictness: float) -> None:
    gain, _, covered, predicted = run(100, strictness, rounded=True).T
    assert 0.93 < covered.mean() < 0.97
    assert abs(np.nanmean(predicted - gain)) < 0.01
    assert gain.mean() > -0.004
