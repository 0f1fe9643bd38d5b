"""Publishing: promises, debits, accuracy, and the public expectation beside it."""

from __future__ import annotations

import io
import json
import pickle
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from tests.release import oracle

from peerveil import BadInput, BudgetExceeded, Guarantee, Ledger, Randomness
from peerveil.data import Reviews, synthetic_conference
from peerveil.ledger import SimulationRefused
from peerveil.papers.release.simulate import simulate_conference
from peerveil.release import (
    LaplaceMeans,
    PublicScores,
    feasible_region,
    plan_release,
    public_expectation,
    publish,
)
from peerveil.release.expectation import public_prior
from peerveil.release.mechanism import estimate_means
from peerveil.report import svg

REVIEWS = synthetic_conference(papers=60, reviewers=40, seed=4, bias=0.8).reviews
SIMULATION = Randomness.simulation(1)


@pytest.mark.parametrize("weight", ["rating", "miscalibration", "normalized", "subjectivity"])
@pytest.mark.parametrize("estimate", ["auto", "projection", "none"])
def test_every_weight_and_estimate(weight: str, estimate: str) -> None:
    result = publish(REVIEWS, epsilon=1, weight=weight, estimate=estimate, randomness=Randomness.simulation(3))
    assert result.means.shape == result.noisy.shape == result.expectation.shape == (40,)
    if estimate != "none":
        assert result.region.contains(result.means)
    assert result.guarantee.epsilon == 1
    assert result.reviewer_guarantee.epsilon == 1 * np.bincount(REVIEWS.numbered("reviewer")[0]).max()
    assert "two reviewers exchange one review each" in str(result.guarantee)
    assert result.guarantee.short in str(result)
    data = json.loads(result.to_json())
    assert data["mark"] == "simulation, not private"
    assert len(data["means"]) == 40
    picture = svg(result.plot(), alt="published means")
    assert "simulation, not private" in picture


def test_the_ledger_is_debited_once_and_nothing_is_spent_on_bad_input(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        account = ledger.account("conference", epsilon=1)
        result = publish(REVIEWS, epsilon=0.7, account=account)
        assert account.remaining == 0.3
        assert result.mark is None
        with pytest.raises(BudgetExceeded):
            publish(REVIEWS, epsilon=0.7, account=account)
        with pytest.raises(SimulationRefused):
            publish(REVIEWS, epsilon=0.1, account=account, randomness=SIMULATION)
        with pytest.raises(BadInput):
            publish(REVIEWS, epsilon=0.1, account=account, bounds="magic")
        with pytest.raises(BadInput, match="scale|score"):
            publish(REVIEWS, epsilon=0.1, account=account, scale=(1, 5))
        assert account.remaining == 0.3
        assert "reviewers' mean rating" in account.entries()[0].purpose


def test_the_debit_stands_when_the_noise_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed while it draws has paid: noise that somebody may have seen is never free."""
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        account = ledger.account("conference", epsilon=1)
        left = []

        def killed(*_: object) -> None:
            left.append(account.remaining)
            raise KeyboardInterrupt

        monkeypatch.setattr(LaplaceMeans, "perturb", killed)
        with pytest.raises(KeyboardInterrupt):
            publish(REVIEWS, epsilon=0.7, account=account)
        assert left == [0.3]
        assert account.remaining == 0.3


def test_one_review_each_is_public_and_costs_nothing(tmp_path: Path) -> None:
    scores = np.random.default_rng(1).integers(1, 11, 12)
    reviews = Reviews(paper=np.repeat(np.arange(6), 2), reviewer=np.arange(12), score=scores)
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        account = ledger.account("conference", epsilon=1)
        result = publish(reviews, epsilon=0.5, account=account)
        assert account.spent == 0
    assert result.means == pytest.approx(np.sort(scores), abs=1e-6)


def test_another_perturbation_with_its_own_guarantee() -> None:
    class Rounded:
        def guarantee(self, public: PublicScores) -> Guarantee:
            return Guarantee.pure_dp(None, unit="nothing", neighbors="no noise at all")

        def variance(self, public: PublicScores) -> float:
            return 0.0

        def perturb(
            self, means: NDArray[np.float64], public: PublicScores, randomness: Randomness
        ) -> NDArray[np.float64]:
            return means.round(1)

    result = publish(REVIEWS, mechanism=Rounded(), estimate="projection")
    assert result.mark == "not private"
    assert result.noisy == pytest.approx(result.noisy.round(1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0}, "^epsilon: got 0"),
        ({"epsilon": -1}, "^epsilon: got -1"),
        ({"epsilon": float("nan")}, "^epsilon: got nan"),
        ({}, "^epsilon: got None"),
        ({"epsilon": 1, "mechanism": LaplaceMeans(epsilon=1)}, "^epsilon: got 1"),
        ({"epsilon": 1, "weight": "beauty"}, "^weight: got 'beauty'"),
        ({"epsilon": 1, "estimate": "guess"}, "^estimate: got 'guess'"),
        ({"epsilon": 1, "bounds": "guess"}, "^bounds: got 'guess'"),
        ({"epsilon": 1, "scale": (1, 5)}, "scale"),
    ],
)
def test_bad_input(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        publish(REVIEWS, randomness=SIMULATION, **arguments)


def test_reviewers_must_be_known() -> None:
    with pytest.raises(BadInput, match="reviewer"):
        publish(Reviews(paper=[1, 1], score=[3, 4]), epsilon=1)


# ---- the public expectation ---------------------------------------------------------------------------------------


def test_the_expectation_is_the_mean_over_all_assignments() -> None:
    rng = np.random.default_rng(6)
    for _ in range(5):
        public = simulate_conference(4, rng=rng).public
        means = oracle.every_assignment(public)
        expected = public_expectation(public, draws=4000)
        assert (np.abs(expected - means.mean(axis=0)) < 6 * means.std(axis=0) / np.sqrt(4000)).all()


def test_assignments_are_drawn_nearly_uniformly() -> None:
    """Two papers of two reviews, four reviewers' slots of two: every possible vector comes as often as it should."""
    from peerveil.release.expectation import draw_means

    public = PublicScores([[0.0, 1.0], [10.0, 100.0], [1000.0, 10000.0]], loads=[2, 2, 2])
    drawn = draw_means(public, np.zeros(24_000), seed=5)
    _, counts = np.unique(drawn.round(6), axis=0, return_counts=True)
    # three papers, two of three reviewers each, every reviewer leaves out one paper: 3! ways times 2^3 orders, over 3! names
    assert counts.size == 8
    assert np.abs(counts - 3000).max() < 6 * np.sqrt(3000)


def test_it_uses_no_private_data() -> None:
    """Two conferences with equal public sides and different assignments give the same region, expectation and noise."""
    swapped = Reviews(paper=[1, 1, 2, 2, 3, 3], reviewer=[1, 2, 2, 3, 3, 1], score=[1, 9, 2, 8, 3, 7])
    other = Reviews(paper=[1, 1, 2, 2, 3, 3], reviewer=[2, 1, 3, 2, 1, 3], score=[1, 9, 2, 8, 3, 7])
    a, b = (publish(r, epsilon=1, randomness=Randomness.simulation(2), estimate="none") for r in (swapped, other))
    assert a.expectation.tolist() == b.expectation.tolist()
    assert a.region.lower.tolist() == b.region.lower.tolist()
    assert a.noise_variance == b.noise_variance
    assert a.noisy.tolist() != b.noisy.tolist()


# ---- accuracy -----------------------------------------------------------------------------------------------------


def mean_errors(n: int, scale: float, bias: float, trials: int, seed: int, **how: Any) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    sums = {"noisy": 0.0, "projection": 0.0, "shrinkage": 0.0, "expectation": 0.0}
    for _ in range(trials):
        conference = simulate_conference(n, bias=bias, rng=rng, **how)
        region, prior = feasible_region(conference.public), public_prior(conference.public)
        noisy = conference.true_means + rng.laplace(scale=scale, size=n)
        guesses = {
            "noisy": noisy,
            "projection": estimate_means(noisy, 2 * scale**2, region, "projection", prior),
            "shrinkage": estimate_means(noisy, 2 * scale**2, region, "shrinkage", prior),
            "expectation": prior.means[0].mean(axis=0),
        }
        for name, guess in guesses.items():
            sums[name] += float(np.sum((guess - conference.true_means) ** 2)) / trials
    return sums


@pytest.mark.parametrize("bias", [0.0, 0.3])
@pytest.mark.parametrize("scale", [1.0, 0.03])
def test_the_default_is_near_the_better_of_both(bias: float, scale: float) -> None:
    errors = mean_errors(20, scale, bias, trials=15, seed=5)
    if scale == 1.0:
        assert errors["shrinkage"] < 3 * errors["expectation"]
    else:
        assert errors["shrinkage"] < 1.1 * min(errors["projection"], errors["expectation"])
    assert errors["shrinkage"] < errors["noisy"]


@pytest.mark.slow
@pytest.mark.parametrize("bias", [0.0, 0.1, 0.2, 0.3])
@pytest.mark.parametrize("n", [10, 30])
def test_the_default_over_three_decades_of_noise(n: int, bias: float) -> None:
    for scale in (1.0, 0.3, 0.1, 0.03):
        errors = mean_errors(n, scale, bias, trials=40, seed=7)
        assert errors["shrinkage"] < 3 * errors["expectation"]
        if scale <= 0.1:
            assert errors["shrinkage"] < 1.1 * min(errors["projection"], errors["expectation"])
        assert errors["projection"] < errors["noisy"]


@pytest.mark.slow
def test_shrinkage_does_not_hurt_even_for_the_worst_truth() -> None:
    """D1 in expectation: over all possible truths of small conferences, the error stays below the noise's own."""
    rng = np.random.default_rng(9)
    for _ in range(12):
        conference = simulate_conference(5, rng=rng)
        region, prior = feasible_region(conference.public), public_prior(conference.public)
        truths = oracle.sorted_means(conference.public)
        extreme = truths[np.argsort(-((truths - prior.means[0].mean(axis=0)) ** 2).sum(axis=1))[:4]]
        for truth in extreme:
            for scale in (1.0, 0.1, 0.03, 0.01):
                noise = rng.laplace(scale=scale, size=(150, 5))
                errors = [
                    np.sum((estimate_means(truth + z, 2 * scale**2, region, "shrinkage", prior) - truth) ** 2)
                    for z in noise
                ]
                assert np.mean(errors) < np.mean(np.sum(noise**2, axis=1)) * 1.05


def test_the_sensitivity_covers_the_rounding_of_the_means() -> None:
    """Weights that are large beside their range: the rounding is relative to the weights, not to the range."""
    from fractions import Fraction

    from peerveil.release.mechanism import laplace_sensitivity, swap_sensitivity
    from peerveil.release.public import sorted_means

    rng = np.random.default_rng(1)
    reviewer, beyond = np.array([0, 0, 0, 1, 1, 1]), 0
    for _ in range(200):
        low = float(rng.uniform(1e5, 1e6))
        weights = np.array([low, low, low, low, low + 1e-6, low + 1e-6])
        swapped = weights[[4, 1, 2, 3, 0, 5]]
        public = PublicScores(weights.reshape(6, 1), loads=[3, 3])
        means = [[Fraction(float(x)) for x in sorted_means(w, reviewer)] for w in (weights, swapped)]
        moved = sum(abs(x - y) for x, y in zip(*means, strict=True))
        assert moved <= laplace_sensitivity(public)
        beyond += moved > swap_sensitivity(public)
    assert beyond > 0  # without the margin the promise would be false here


@pytest.mark.parametrize("weight", ["rating", "miscalibration", "normalized", "subjectivity"])
def test_equal_data_in_another_row_order_give_equal_bits(weight: str) -> None:
    """The order of rows may follow who wrote what. Added as rows come, 8 of 8 orders changed the mean ratings."""
    from peerveil.release.public import sorted_means
    from peerveil.release.weights import review_weights

    rng = np.random.default_rng(7)
    frame = REVIEWS.frame.with_columns(score=REVIEWS.scores + rng.normal(size=len(REVIEWS)).round(3))
    counts, by_rows = set(), set()
    for order in (np.arange(len(frame)), *(rng.permutation(len(frame)) for _ in range(4))):
        reviews = Reviews.from_frame(frame[order.tolist()])
        weights, reviewer = review_weights(reviews, weight=weight).values, reviews.numbered("reviewer")[0]
        result = publish(reviews, epsilon=2, weight=weight, randomness=Randomness.simulation(3))
        arrays = (sorted_means(weights, reviewer), result.noisy, result.means, result.expectation, result.region.lower)
        counts.add((*(array.tobytes() for array in arrays), result.to_json(), result.to_csv()))
        by_rows.add(np.sort(np.bincount(reviewer, weights=weights)).tobytes())
    assert len(counts) == 1
    assert len(by_rows) > 1  # the deliberately broken sum: these data would show the order of rows


def test_planning_costs_nothing_and_names_the_epsilon_that_pays() -> None:
    public = PublicScores.of(REVIEWS, weight="rating", scale=(1, 10))
    plan = plan_release(public, epsilons=[1, 300], leniency=[0, 1], trials=6, progress=False)
    assert [row.epsilon for row in plan.rows] == [1, 300, 1, 300]
    assert plan.rows[0].shrinkage < plan.rows[0].projection < plan.rows[0].noisy
    assert plan.worthwhile[1.0] == 300
    assert "from epsilon 300 on" in plan.recommendation
    assert json.loads(json.dumps(plan.to_dict()))["rows"]
    assert "published" in svg(plan.plot(), alt="plan")
    for arguments, message in (
        ({"scale": (1, 10)}, r"^scale: got \(1, 10\), need None"),
        ({"columns": {"paper": "submission"}}, "^columns: got .* need None"),
        ({"seed": -1}, "^seed: got -1"),
        ({"trials": 1}, "^trials: got 1"),
        ({"epsilons": [0]}, "^epsilons: got 0"),
        ({"leniency": [-1]}, "^leniency: got -1"),
    ):
        with pytest.raises(BadInput, match=message):
            plan_release(public, **arguments)


def test_a_plan_takes_any_table_and_its_frame_has_one_row_per_setting() -> None:
    settings: dict[str, Any] = {"epsilons": [1, 10], "leniency": [0, 1], "trials": 2, "progress": False}
    frame = REVIEWS.frame.rename({"paper": "submission", "score": "points"})
    columns = {"paper": "submission", "score": "points"}
    plan = plan_release(frame, weight="miscalibration", scale=(1, 10), columns=columns, **settings)
    public = PublicScores.of(REVIEWS, weight="miscalibration", scale=(1, 10))
    assert plan == plan_release(public, weight="miscalibration", **settings)
    assert plan != plan_release(public, weight="miscalibration", seed=1, **settings)
    assert plan.table().rows(named=True) == [asdict(row) for row in plan.rows]
    assert plan.summary() == plan.recommendation == plan.to_dict()["recommendation"]


def test_a_table_with_other_column_names_is_published_alike() -> None:
    frame = REVIEWS.frame.rename({"paper": "submission", "score": "points"})
    columns = {"paper": "submission", "score": "points"}
    renamed = publish(frame, epsilon=1, columns=columns, randomness=Randomness.simulation(3))
    assert renamed.to_json() == publish(REVIEWS, epsilon=1, randomness=Randomness.simulation(3)).to_json()


def test_the_published_result_holds_nobody(tmp_path: Path) -> None:
    frame = REVIEWS.frame.with_columns(
        reviewer=pl.format("MARKED-{}", "reviewer"), paper=pl.format("MARKED-{}", "paper")
    )
    result = publish(frame, epsilon=1)
    texts = [str(result), repr(result), result.to_csv(), result.to_json()]
    contents = [path.read_bytes() for path in result.save(tmp_path)]
    assert len(contents) == 3
    assert not any(b"MARKED" in content for content in (pickle.dumps(result), *contents, *(t.encode() for t in texts)))


def test_the_csv_holds_the_frame_exactly() -> None:
    result = publish(REVIEWS, epsilon=1, randomness=Randomness.simulation(3))
    frame = result.frame()
    assert frame.height == result.means.size
    assert frame["published_mean"].to_list() == result.means.tolist()
    assert pl.read_csv(io.StringIO(result.to_csv())).equals(frame)


def test_bounds_in_the_table_are_short_and_on_the_safe_side() -> None:
    result = publish(REVIEWS, epsilon=1, weight="miscalibration", randomness=Randomness.simulation(3))
    rows = [line.split(",") for line in result.to_csv().splitlines()[1:]]
    for row, low, high in zip(rows, result.region.lower, result.region.upper, strict=True):
        assert float(row[4]) <= low <= float(row[4]) + 2e-9
        assert float(row[5]) - 2e-9 <= high <= float(row[5])
        assert all(len(bound) <= 13 for bound in row[4:])
