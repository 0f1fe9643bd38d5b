"""Bradley-Terry, Plackett-Luce and Kemeny, openly and with noise; tables of comparisons."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize
from scipy.stats import kendalltau

from peerveil import BadInput, Randomness
from peerveil.core.randomness import MaxNormNoise, PermutohedronNoise
from peerveil.data import Rankings
from peerveil.ledger import Ledger
from peerveil.rankings import Mallows, consensus
from peerveil.rankings.adversary import judge_moves, pairs_loss
from peerveil.rankings.comparisons import Comparisons
from peerveil.rankings.intervals import component_bounds, luce_rows
from peerveil.rankings.kernels import add_signs, places_of
from peerveil.rankings.models import _program, fit_pairs, fit_plackett_luce, kemeny_order, tie_components

METHODS = ("borda", "bradley-terry", "plackett-luce", "kemeny")


def margins_of(m: int, seed: int) -> np.ndarray[Any, Any]:
    upper = np.triu(np.random.default_rng(seed).integers(-6, 7, (m, m)), 1).astype(float)
    return np.asarray(upper - upper.T)


def agreement(margins: np.ndarray[Any, Any], order: Any) -> float:
    ordered = margins[np.ix_(order, order)]
    return float(np.triu(ordered, 1).sum())


@pytest.mark.parametrize("m", [2, 3, 5, 6])
def test_kemeny_is_the_best_of_all_orders(m: int) -> None:
    for seed in range(20):
        margins = margins_of(m, seed)
        order, proven = kemeny_order(margins)
        assert proven
        assert agreement(margins, order) == max(agreement(margins, list(o)) for o in permutations(range(m)))


@pytest.mark.parametrize("m", [8, 12, 16])
def test_the_linear_program_agrees_with_the_dynamic_program(m: int) -> None:
    for seed in range(3):
        margins = margins_of(m, seed) + 0.1 * margins_of(m, seed + 50)
        rounded, proven = _program(margins)
        best = agreement(margins, kemeny_order(margins)[0])
        assert agreement(margins, rounded) <= best + 1e-9
        assert not proven or agreement(margins, rounded) == pytest.approx(best)
    large = np.triu(np.random.default_rng(1).normal(size=(70, 70)), 1)
    assert kemeny_order(large - large.T)[1] is False  # too many for the program: said so


def test_components_stay_together_in_every_best_order() -> None:
    for seed in range(40):
        margins = margins_of(5, seed)
        groups = tie_components(margins > 0)
        best = max(agreement(margins, list(o)) for o in permutations(range(5)))
        low, high = component_bounds(margins > 0)
        for order in permutations(range(5)):
            if agreement(margins, list(order)) == best:
                assert [set(order[: sum(len(g) for g in groups[: k + 1])]) for k in range(len(groups))] == [
                    set(np.concatenate(groups[: k + 1]).tolist()) for k in range(len(groups))
                ]
                assert all(low[i] <= order.index(i) + 1 <= high[i] for i in range(5))


def test_strengths_from_pairs_solve_the_likelihood_equation() -> None:
    rng = np.random.default_rng(1)
    wins = rng.poisson(20, (8, 8)).astype(float)
    np.fill_diagonal(wins, 0)

    def negative(t: Any) -> float:
        return float((wins * np.log1p(np.exp(t[None] - t[:, None]))).sum() + 1e-6 * (t**2).sum())

    expected = minimize(negative, np.zeros(8), method="BFGS", options={"gtol": 1e-9}).x
    strengths, slope = fit_pairs(wins)
    assert strengths == pytest.approx(expected - expected.mean(), abs=1e-4)
    assert np.linalg.eigvalsh(slope)[1] > 0


def test_noise_leaves_the_strengths_unbiased() -> None:
    truth = np.linspace(1, -1, 6)
    counts = 400 / (1 + np.exp(truth[None] - truth[:, None]))
    np.fill_diagonal(counts, 0)
    rng = np.random.default_rng(2)
    fitted = []
    for _ in range(400):
        noise = rng.laplace(scale=30, size=(6, 6))
        np.fill_diagonal(noise, 0)
        fitted.append(fit_pairs(counts + noise)[0])
    error = np.std(fitted, axis=0) / 20
    assert (np.abs(np.mean(fitted, axis=0) - truth) < 5 * error + 0.01).all()
    drowned = fit_pairs(counts * 0 + rng.laplace(scale=1000, size=(6, 6)) * (1 - np.eye(6)))[0]
    assert np.isfinite(drowned).all()


@pytest.mark.parametrize("last", [True, False])
def test_plackett_luce_maximizes_the_likelihood(last: bool) -> None:
    truth = np.array([0.8, 0.3, -0.1, -0.4, -0.6])
    rows = luce_rows(truth, 800)
    partial = np.where(rows >= 3, -1, rows)

    def negative(t: Any) -> float:
        total = 0.0
        for row in partial:
            order = [int(np.flatnonzero(row == place)[0]) for place in range(3)]
            rest = [i for i in range(5) if row[i] < 0] if last else []
            for k in range(3):
                total += t[order[k]] - np.log(np.exp(t[order[k:] + rest]).sum())
        return -total

    fitted = fit_plackett_luce([(partial, np.ones(len(rows)))], 5, last=last)
    start = minimize(negative, fitted, method="BFGS").x
    assert fitted == pytest.approx(start - start.mean(), abs=1e-3)
    if last:
        assert fitted == pytest.approx(truth - truth.mean(), abs=0.25)


@pytest.mark.parametrize("unranked", ["last", "unknown"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("epsilon", [None, 2])
def test_every_method_takes_partial_tied_and_weighted_rankings(method: str, unranked: str, epsilon: int | None) -> None:
    votes = np.asarray(Mallows(5, 0.5).sample(600, seed=1))
    votes = np.where((votes == 4) & (np.arange(600)[:, None] % 2 == 0), -1, np.where(votes == 1, 0, votes))
    table = Rankings(votes, counts=1 + np.arange(600) % 3)
    result = consensus(
        table, method=method, epsilon=epsilon, unranked=unranked, weight_cap=2, randomness=Randomness.simulation(1)
    )
    truth = [-i for i in range(5)]
    assert kendalltau([result.scores[i] for i in map(str, range(5))] if "0" in result.scores
                      else [result.scores[i] for i in range(5)], truth)[0] >= 0.6  # fmt: skip
    assert result.rankings == 600
    assert result.proven is (True if method == "kemeny" else None)


@pytest.mark.parametrize("last", [True, False])
def test_places_are_half_the_sums_of_signs_and_stay_in_the_permutohedron(last: bool) -> None:
    rng = np.random.default_rng(3)
    rows = (
        Rankings(rng.integers(-1, 6, (500, 6))[:, :]).ranks if last else Rankings(rng.integers(-1, 6, (500, 6))).ranks
    )
    for row in rows:
        signs = np.zeros((6, 6), dtype=np.int64)
        add_signs(row[None], np.ones(1, dtype=np.int64), last, signs)
        (places,) = places_of(row[None], last)
        assert places.tolist() == (5 - signs.sum(axis=1)).tolist()
        largest = np.sort(places - 5)[::-1].cumsum()[:-1]
        assert (largest <= np.arange(1, 6) * (6 - np.arange(1, 6))).all()


def test_noise_is_made_for_the_largest_weight() -> None:
    votes = Mallows(4, 0.7).sample(300, seed=1)
    sd = {cap: consensus(votes, epsilon=1, weight_cap=cap).noise_sd for cap in (1, 5)}
    assert sd[5] == pytest.approx(5 * (sd[1] or 0), rel=0.2)
    assert consensus(votes, epsilon=1, method="kemeny").noise_sd == pytest.approx(
        MaxNormNoise(6, "1/2").variance ** 0.5
    )
    assert sd[1] == pytest.approx(PermutohedronNoise(4, 1).sd / 2)


def test_exact_losses() -> None:
    assert pairs_loss(3) == 1
    assert pairs_loss(3, noise_epsilon=2) == 2
    assert judge_moves(1) == 4
    assert judge_moves(2) == 8  # 4c, which the noise is made for


# ---- comparisons of judges -------------------------------------------------------------------------------------------


def battles(judges: int, each: int, seed: int = 1) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    truth = np.linspace(1, -1, 6)
    n = judges * each
    a = rng.integers(0, 6, n)
    b = (a + rng.integers(1, 6, n)) % 6
    won = rng.random(n) < 1 / (1 + np.exp(truth[b] - truth[a]))
    names = np.array(["ann", "bob", "cyd", "dan", "eve", "fay"])
    return pl.DataFrame(
        {
            "winner": names[np.where(won, a, b)],
            "loser": names[np.where(won, b, a)],
            "judge": np.repeat(np.arange(judges), each),
        }
    )


@pytest.mark.parametrize("epsilon", [None, 1])
def test_a_leaderboard(epsilon: int | None, tmp_path: Path) -> None:
    frame = battles(800, 8)
    frame.write_csv(tmp_path / "battles.csv")
    for data in (frame, tmp_path / "battles.csv"):
        result = consensus(data, per_judge=8, epsilon=epsilon, randomness=Randomness.simulation(1))
        assert result.order == ("ann", "bob", "cyd", "dan", "eve", "fay")
        assert result.method == "bradley-terry"
        assert result.rankings == 800  # judges: how many comparisons there are is not public
    assert result.guarantee.epsilon == epsilon
    assert "one judge" in str(result.guarantee) or epsilon is None


def test_of_each_judge_so_many_are_used_whatever_others_do() -> None:
    frame = battles(50, 30)
    names, counts, (winner, _, judge, _) = Comparisons.of(frame).wins(7, Randomness.simulation(1))
    assert np.bincount(judge).tolist() == [7] * 50
    assert counts.sum() == 2 * 7 * 50
    assert len(names) == 6
    assert len(set(winner.tolist())) > 1
    drawn = [Comparisons.of(frame).wins(1, Randomness.simulation(s))[1] for s in range(200)]
    everything = Comparisons.of(frame).wins(30, Randomness.simulation(1))[1]
    mean = np.mean(drawn, axis=0) * 30
    assert np.abs(mean - everything).max() < 5 * 30 * np.sqrt(
        everything.max() / 2 / 30 * 4 / 200
    )  # no comparison is favored


def test_ties_count_half_for_both() -> None:
    frame = pl.DataFrame({"winner": ["a", "a"], "loser": ["b", "b"], "judge": [1, 2], "tie": [1, None]})
    assert Comparisons.of(frame).wins(1, Randomness.simulation(1))[1].tolist() == [[0, 3], [1, 0]]


def test_judges_are_sampled_together() -> None:
    """Judges who repeat themselves ten times make intervals no shorter."""
    one = battles(400, 1)
    ten = pl.concat([one] * 10)
    widths = [np.ptp(consensus(frame, per_judge=10).score_intervals["ann"]) for frame in (one, ten)]
    assert widths[1] == pytest.approx(widths[0], rel=0.05)


def test_refusals_and_the_account(tmp_path: Path) -> None:
    frame = battles(40, 3)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"method": "kemeny"}, "method"),
        ({"weight_cap": 2}, "weight_cap"),
        ({"layout": "orders"}, "layout"),
        ({"unranked": "unknown"}, "unranked"),
        ({"per_judge": 0}, "per_judge"),
    ]
    for settings, named in wrong:
        with pytest.raises(BadInput, match=named):
            consensus(frame, **({"per_judge": 3} | settings))
    with pytest.raises(BadInput, match="two different items"):
        consensus(pl.DataFrame({"winner": ["a"], "loser": ["a"], "judge": [1]}), per_judge=1)
    with pytest.raises(BadInput, match="kemeny"):
        consensus(Mallows(25, 0.9).sample(50, seed=1), method="kemeny", epsilon=1)
    with Ledger.open(tmp_path / "budget.db") as ledger:
        account = ledger.account("battles", epsilon=1)
        consensus(frame, per_judge=3, epsilon=1, account=account)
        assert account.remaining == 0


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("epsilon", [None, 1])
def test_intervals_of_every_model_cover(method: str, epsilon: int | None) -> None:
    """Plackett-Luce rankings of 8 items, 500 people: the truth is known for every model."""
    truth, trials = np.linspace(0.8, -0.8, 8), 400
    chance = 1 / (1 + np.exp(truth[None] - truth[:, None]))
    places = chance.sum(axis=1) - 0.5 - 3.5
    expected = truth if method in ("bradley-terry", "plackett-luce") else places
    scores = ranks = 0
    for seed in range(trials):
        gumbel = np.random.default_rng(seed).gumbel(size=(500, 8))
        votes = np.argsort(np.argsort(-(truth + gumbel), axis=1), axis=1)
        result = consensus(votes, method=method, epsilon=epsilon, randomness=Randomness.simulation(seed))
        ends, places = (np.array([by[i] for i in range(8)]) for by in (result.score_intervals, result.rank_intervals))
        scores += bool(((ends[:, 0] <= expected) & (expected <= ends[:, 1])).all())
        ranks += bool(((places[:, 0] <= np.arange(1, 9)) & (np.arange(1, 9) <= places[:, 1])).all())
    error = np.sqrt(0.95 * 0.05 / trials)
    assert scores / trials > 0.93 - 3 * error
    assert ranks / trials > 0.93 - 3 * error
