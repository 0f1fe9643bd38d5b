"""Publishing: guarantees, debits, accuracy, intervals, and the public expectation beside it."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from tests.release import oracle

from peerveil import BadInput, BudgetExceeded, Ledger, Randomness
from peerveil.data import Reviews, synthetic_conference
from peerveil.ledger import SimulationRefused
from peerveil.papers.release.simulate import simulate_conference
from peerveil.release import NoisyCounts, PublicScores, feasible_region, public_expectation, publish
from peerveil.release import estimate as estimate_module
from peerveil.release.estimate import CountModel, estimate
from peerveil.release.expectation import draw_means
from peerveil.release.family import Family, counts_at
from peerveil.release.mechanism import count_bounds
from peerveil.release.public import reviewer_means, sorted_means
from peerveil.release.weights import WEIGHTS, review_weights
from peerveil.report import svg

REVIEWS = synthetic_conference(papers=60, reviewers=40, seed=4, bias=0.8).reviews
SIMULATION = Randomness.simulation(1)


def private_counts(reviews: Reviews, thresholds: NDArray[np.float64], weight: str = "miscalibration") -> Any:
    weights = review_weights(reviews, weight=weight).values
    return counts_at(reviewer_means(weights, reviews.numbered("reviewer")[0]), thresholds)


@pytest.mark.parametrize("weight", WEIGHTS)
def test_every_weight(weight: str) -> None:
    result = publish(REVIEWS, epsilon=1, weight=weight, randomness=Randomness.simulation(3))
    assert result.means.shape == result.expectation.shape == result.lower.shape == result.upper.shape == (40,)
    assert feasible_region(PublicScores.of(REVIEWS, weight=weight)).contains(result.means)
    assert (result.lower <= result.upper).all()
    assert (np.diff(result.means) >= 0).all()
    assert result.counts.shape == result.thresholds.shape
    low, high = result.strictness_interval
    assert 0 <= low <= result.strictness_sd <= high
    assert result.guarantee.epsilon == 1
    assert result.reviewer_guarantee.epsilon == 1 * np.bincount(REVIEWS.numbered("reviewer")[0]).max()
    assert "two reviewers exchange one review each" in str(result.guarantee)
    assert result.guarantee.short in str(result)
    data = json.loads(result.to_json())
    assert data["mark"] == "simulation, not private"
    assert len(data["means"]) == 40
    assert "simulation, not private" in svg(result.plot(), alt="published means")


# ---- spending ----------------------------------------------------------------------------------------------------------


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
        for arguments in ({"thresholds": [0, 0]}, {"level": 1}, {"weight": "beauty"}, {"scale": (1, 5)}):
            with pytest.raises(BadInput):
                publish(REVIEWS, epsilon=0.1, account=account, **arguments)
        with pytest.raises(BadInput, match="epsilon"):
            publish(REVIEWS, epsilon="1/2000", account=account)
        assert account.remaining == 0.3
        assert len(account.entries()) == 1
        assert "reviewers' mean miscalibration" in account.entries()[0].purpose


def test_nothing_is_spent_if_what_is_public_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, *_: object) -> None:
            raise MemoryError

    monkeypatch.setattr("peerveil.release.mechanism.SpreadStatistic", Broken)
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        account = ledger.account("conference", epsilon=1)
        with pytest.raises(MemoryError):
            publish(REVIEWS, epsilon=0.7, account=account)
        assert account.spent == 0


def test_the_debit_stands_when_the_noise_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed while it draws has paid: noise that somebody may have seen is never free."""
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        account = ledger.account("conference", epsilon=1)
        left = []

        def killed(*_: object) -> None:
            left.append(account.remaining)
            raise KeyboardInterrupt

        monkeypatch.setattr(NoisyCounts, "release", killed)
        with pytest.raises(KeyboardInterrupt):
            publish(REVIEWS, epsilon=0.7, account=account)
        assert left == [0.3]
        assert account.remaining == 0.3


@pytest.mark.parametrize("kind", ["one review each", "one reviewer", "equal scores"])
def test_what_is_public_anyway_costs_nothing(kind: str, tmp_path: Path) -> None:
    scores = np.random.default_rng(1).integers(1, 11, 12)
    reviews = {
        "one review each": Reviews(paper=np.repeat(np.arange(6), 2), reviewer=np.arange(12), score=scores),
        "one reviewer": Reviews(paper=np.arange(12), reviewer=np.zeros(12, int), score=scores),
        "equal scores": Reviews(paper=np.repeat(np.arange(6), 2), reviewer=np.tile([0, 1], 6), score=np.full(12, 5)),
    }[kind]
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        account = ledger.account("conference", epsilon=1)
        result = publish(reviews, epsilon=0.5, weight="rating", account=account)
        assert account.spent == 0
    truth = sorted_means(reviews.scores, reviews.numbered("reviewer")[0])
    assert result.means.tolist() == result.lower.tolist() == result.upper.tolist() == truth.tolist()
    assert result.spread is None
    assert "nothing was spent" in result.beyond_public()
    assert (result.half_width, result.strictness_interval) == (0, (0.0, 0.0))
    assert json.loads(result.to_json())["shares"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0}, "^epsilon: got 0"),
        ({"epsilon": -1}, "^epsilon: got -1"),
        ({"epsilon": float("nan")}, "^epsilon: got nan"),
        ({"epsilon": None}, "^epsilon: got None"),
        ({"epsilon": 0.0009}, "^epsilon: got 0.0009.*at least 0.001"),
        ({"epsilon": 1, "weight": "beauty"}, "^weight: got 'beauty'"),
        ({"epsilon": 1, "scale": (1, 5)}, "scale"),
        ({"epsilon": 1, "thresholds": []}, "^thresholds"),
        ({"epsilon": 1, "thresholds": [0, 1, 0]}, "^thresholds"),
        ({"epsilon": 1, "thresholds": [float("nan")]}, "^thresholds"),
        ({"epsilon": 1, "thresholds": [0, float("inf")]}, "^thresholds"),
        ({"epsilon": 1, "thresholds": ["low"]}, "^thresholds"),
        ({"epsilon": 1, "thresholds": -1}, "^thresholds"),
        ({"epsilon": 1, "thresholds": [[0, 1], [2, 3]]}, "^thresholds"),
        ({"epsilon": 1, "thresholds": range(201)}, "^thresholds"),
        ({"epsilon": 1, "level": 1}, "^level: got 1"),
        ({"epsilon": 1, "level": -0.1}, "^level"),
        ({"epsilon": 1, "level": float("nan")}, "^level"),
        ({"epsilon": 1, "level": "high"}, "^level"),
    ],
)
def test_bad_input(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        publish(REVIEWS, randomness=SIMULATION, **arguments)


def test_reviewers_must_be_known() -> None:
    with pytest.raises(BadInput, match="reviewer"):
        publish(Reviews(paper=[1, 1], score=[3, 4]), epsilon=1)


# ---- what may be asked of any conference -------------------------------------------------------------------------------


def test_one_threshold() -> None:
    result = publish(REVIEWS, epsilon=1, thresholds=[-1], randomness=SIMULATION)
    (row,) = result.shares.rows(named=True)
    assert row["below_lower"] <= row["below"] <= row["below_upper"]
    assert row["above"] == pytest.approx(1 - row["below"])
    assert result.half_width == 3  # of 40 reviewers, at epsilon 1


def test_unequal_loads_and_few_grades() -> None:
    rng = np.random.default_rng(3)
    paper, reviewer = np.nonzero(rng.random((40, 25)) < rng.uniform(0.05, 0.6, 25))
    reviews = Reviews(paper=paper, reviewer=reviewer, score=rng.integers(0, 2, paper.size))
    loads = np.bincount(reviewer)
    assert loads[loads > 0].max() > 3 * loads[loads > 0].min()
    for weight in ("rating", "miscalibration"):
        result = publish(reviews, epsilon=1, weight=weight, randomness=SIMULATION)
        assert feasible_region(PublicScores.of(reviews, weight=weight)).contains(result.means)
        assert np.isfinite(result.lower).all()
        assert np.isfinite(result.upper).all()


def test_thresholds_come_in_ascending_order_and_counts_do_too_without_noise() -> None:
    result = publish(REVIEWS, epsilon=1000, thresholds=[1, -1, 0], randomness=SIMULATION)
    assert result.thresholds.tolist() == [-1, 0, 1]
    assert result.counts.tolist() == private_counts(REVIEWS, result.thresholds).tolist()
    assert result.half_width == 0
    shares = result.shares
    assert (shares["below_lower"] * 40).round(9).to_list() == result.counts.tolist()


def test_equal_seeds_give_equal_results_and_other_seeds_others() -> None:
    one, same, other = (publish(REVIEWS, epsilon=1, randomness=Randomness.simulation(s)) for s in (1, 1, 2))
    assert one.to_json() == same.to_json()
    assert one.counts.tolist() != other.counts.tolist()


def test_the_result_depends_on_the_data_only_through_the_noisy_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Post-processing: another assignment with the same public side and, by luck, the same counts gives the same bits."""
    first = Reviews(paper=[1, 1, 2, 2, 3, 3], reviewer=[1, 2, 2, 3, 3, 1], score=[1, 9, 2, 8, 3, 7])
    other = Reviews(paper=[1, 1, 2, 2, 3, 3], reviewer=[2, 1, 3, 2, 1, 3], score=[1, 9, 2, 8, 3, 7])
    drawn = [publish(reviews, epsilon=1, randomness=SIMULATION) for reviews in (first, other)]
    assert drawn[0].expectation.tolist() == drawn[1].expectation.tolist()
    assert drawn[0].thresholds.tolist() == drawn[1].thresholds.tolist()
    fixed = np.array([drawn[0].counts])
    monkeypatch.setattr(NoisyCounts, "release", lambda *_: fixed)
    same = [publish(reviews, epsilon=1, randomness=SIMULATION).to_json() for reviews in (first, other)]
    assert same[0] == same[1]


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
    public = PublicScores([[0.0, 1.0], [10.0, 100.0], [1000.0, 10000.0]], loads=[2, 2, 2])
    drawn = draw_means(public, 24_000, 5)
    _, counts = np.unique(drawn.round(6), axis=0, return_counts=True)
    # three papers, two of three reviewers each, every reviewer leaves out one paper: 3! ways times 2^3 orders, over 3! names
    assert counts.size == 8
    assert np.abs(counts - 3000).max() < 6 * np.sqrt(3000)


# ---- intervals and accuracy ----------------------------------------------------------------------------------------------


SHAPES = ("no strictness", "normal", "t3", "two groups", "uniform")


def truth_of(shape: str, reviewers: int, rng: np.random.Generator, spread: float = 0.8) -> tuple[PublicScores, Any]:
    """The public side and the sorted means of a conference of four reviews by each and of each."""
    strict = {
        "no strictness": np.zeros(reviewers),
        "normal": rng.normal(size=reviewers),
        "t3": rng.standard_t(3, reviewers) / np.sqrt(3),
        "two groups": ((rng.random(reviewers) < 0.2) - 0.2) / 0.4,
        "uniform": rng.uniform(-1, 1, reviewers) * np.sqrt(3),
    }[shape]
    paper = np.repeat(np.arange(reviewers), 4)
    reviewer = (paper + np.tile([0, 1, 3, 7], reviewers)) % reviewers
    score = 5.5 + 1.2 * rng.normal(size=reviewers)[paper] - spread * strict[reviewer] + rng.normal(size=paper.size)
    reviews = Reviews(paper=paper, reviewer=reviewer, score=np.clip(np.round(score), 1, 10))
    weights = review_weights(reviews, weight="miscalibration").values
    return PublicScores.of(reviews, weight="miscalibration"), sorted_means(weights, reviewer)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("thresholds", [(-1.0,), (-1.5, -0.5, 0.0, 0.5, 1.5)])
def test_joint_intervals_of_shares_cover_whatever_the_truth(shape: str, thresholds: tuple[float, ...]) -> None:
    rng, releases, level = np.random.default_rng(8), 4000, 0.95
    _, truth = truth_of(shape, 60, rng)
    mechanism = NoisyCounts(thresholds=thresholds, epsilon=1)
    exact, half = counts_at(truth, np.array(thresholds)), mechanism.noise.half_width(level)
    drawn = mechanism.release(truth, Randomness.simulation(5), releases)
    bounds = [count_bounds(row, half, 60) for row in drawn]
    covered = np.mean([((low <= exact) & (exact <= high)).all() for low, high in bounds])
    error = np.sqrt(level * (1 - level) / releases)
    assert covered > level - 5 * error
    assert all((low <= high).all() and (np.diff(low) >= 0).all() and (np.diff(high) >= 0).all() for low, high in bounds)
    # the fault: intervals that are one reviewer too narrow
    narrow = [count_bounds(row, half - 1, 60) for row in drawn]
    assert np.mean([((low <= exact) & (exact <= high)).all() for low, high in narrow]) < level


def test_shares_are_those_of_the_counts() -> None:
    result = publish(REVIEWS, epsilon=1, randomness=Randomness.simulation(3))
    low, high = count_bounds(result.counts, result.half_width, 40)
    shares = result.shares
    assert (shares["below_lower"] * 40).round(9).to_list() == low.tolist()
    assert (shares["above_lower"] * 40).round(9).to_list() == (40 - high).tolist()
    for row in shares.rows(named=True):
        assert row["below_lower"] <= row["below"] <= row["below_upper"]
        assert row["above_lower"] <= row["above"] + 1e-12


def releases(shape: str, count: int, reviewers: int = 80) -> list[tuple[Any, Any, Any]]:
    """Truth, estimate and public expectation of several releases at epsilon 1."""
    rng, listed = np.random.default_rng(21), []
    for seed in range(count):
        public, truth = truth_of(shape, reviewers, rng)
        family = Family(public)
        mechanism = NoisyCounts(thresholds=(-1.5, -0.7, 0.7, 1.5), epsilon=1)
        model = CountModel(family, np.array(mechanism.thresholds), mechanism.noise)
        counts = mechanism.release(truth, Randomness.simulation(seed))[0].astype(np.float64)
        listed.append((truth, estimate(model, counts, level=0.95), family.expectation))
    return listed


@pytest.mark.parametrize(("shape", "share"), [("normal", 0.5), ("t3", 0.8)])
def test_a_release_is_nearer_to_the_truth_than_public_data_and_its_intervals_cover(shape: str, share: float) -> None:
    trials = releases(shape, 24)
    ours = np.mean([np.mean((guess.means - truth) ** 2) for truth, guess, _ in trials])
    public = np.mean([np.mean((expectation - truth) ** 2) for truth, _, expectation in trials])
    assert ours < share * public
    band = np.array([np.mean((guess.lower <= truth) & (truth <= guess.upper)) for truth, guess, _ in trials])
    assert band.mean() > 0.93 - 5 * band.std() / np.sqrt(len(trials))
    inside = np.mean([guess.strictness_interval[0] <= 0.8 <= guess.strictness_interval[1] for _, guess, _ in trials])
    assert inside > 0.95 - 5 * np.sqrt(0.95 * 0.05 / len(trials))


def test_where_nobody_is_strict_a_release_is_hardly_worse_than_public_data() -> None:
    trials = releases("no strictness", 24)
    ours = np.mean([np.mean((guess.means - truth) ** 2) for truth, guess, _ in trials])
    public = np.mean([np.mean((expectation - truth) ** 2) for truth, _, expectation in trials])
    assert ours < 1.3 * public
    assert np.mean([guess.strictness_interval[0] for _, guess, _ in trials]) < 0.2


def test_annealing_leads_to_the_exact_posterior() -> None:
    """One count: the posterior is computed on a grid, part by part, and compared with what is drawn."""
    public, truth = truth_of("normal", 40, np.random.default_rng(2))
    mechanism = NoisyCounts(thresholds=(-0.8,), epsilon=1)
    model = CountModel(Family(public), np.array(mechanism.thresholds), mechanism.noise)
    noisy = counts_at(truth, model.thresholds) + 4
    prior = estimate_module.BAND_PRIOR
    draws = model.sample(noisy, prior, 20_000)
    grid = np.linspace(-60, 100, 8001)
    variance = model._variance[:, 0]
    density = np.exp(-0.5 * (grid - model.mean) ** 2 / variance[:, None]) / np.sqrt(variance[:, None])
    density *= np.exp(model.log_prior(prior))[:, None] * np.exp(-np.abs(noisy[0] - grid))
    expected = (density.sum(axis=0) @ np.clip(grid, 0, 40)) / density.sum()
    spread = np.sqrt((density.sum(axis=0) @ (np.clip(grid, 0, 40) - expected) ** 2) / density.sum())
    # the noise lives on whole numbers, the grid does not: a tenth of the spread; draws repeat, so 5 errors at a fifth of them
    assert abs(draws.counts.mean() - expected) < 0.1 * spread + 5 * spread / np.sqrt(4000)
    chance = density.sum(axis=1)[model.shape < 0].sum() / density.sum()
    assert abs((draws.shape < 0).mean() - chance) < 0.02 + 5 * np.sqrt(chance / 4000)


@pytest.mark.parametrize("weight", WEIGHTS)
def test_equal_data_in_another_row_order_give_equal_bits(weight: str) -> None:
    """The order of rows may follow who wrote what. Added as rows come, 8 of 8 orders changed the mean ratings."""
    rng = np.random.default_rng(7)
    frame = REVIEWS.frame.with_columns(score=REVIEWS.scores + rng.normal(size=len(REVIEWS)).round(3))
    counts, by_rows = set(), set()
    for order in (np.arange(len(frame)), *(rng.permutation(len(frame)) for _ in range(4))):
        reviews = Reviews.from_frame(frame[order.tolist()])
        weights, reviewer = review_weights(reviews, weight=weight).values, reviews.numbered("reviewer")[0]
        result = publish(reviews, epsilon=2, weight=weight, randomness=Randomness.simulation(3))
        arrays = (sorted_means(weights, reviewer), result.counts, result.means, result.expectation, result.thresholds)
        counts.add((*(array.tobytes() for array in arrays), result.to_json(), result.to_csv()))
        by_rows.add(np.sort(np.bincount(reviewer, weights=weights)).tobytes())
    assert len(counts) == 1
    assert len(by_rows) > 1  # the deliberately broken sum: these data would show the order of rows


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
