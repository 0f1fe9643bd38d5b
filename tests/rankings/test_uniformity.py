"""The whole test: every method, every kind of input, budgets, marks, pictures and refusals."""

from __future__ import annotations

import json
import math
from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, friedmanchisquare

from peerveil import Ledger, Randomness
from peerveil.core.errors import BadInput
from peerveil.data import Rankings
from peerveil.rankings import Mallows, UniformityTest, uniformity_test
from peerveil.rankings import ballots as ballots_module
from peerveil.rankings.ballots import Ballots, fair_signs
from peerveil.rankings.central import PRIVATE, PairsNorm, RankNorm
from peerveil.rankings.kernels import complete_at_random
from peerveil.rankings.uniformity import METHODS, WITHOUT_EPSILON
from peerveil.report import svg

SIGNAL = Mallows(12, 0.8).sample(300, seed=1)
NOISE = Mallows(12, 1.0).sample(300, seed=2)
EVERY = [("friedman", None), ("pairs-norm", None), *((method, 2) for method in PRIVATE)]


def run(rankings: Any, method: str = "auto", epsilon: Any = None, **more: Any) -> UniformityTest:
    size = 2 if epsilon is None and method not in WITHOUT_EPSILON else epsilon
    more.setdefault("randomness", Randomness.simulation(7))
    return uniformity_test(rankings, method=method, epsilon=size, **more)


@pytest.mark.parametrize(("method", "epsilon"), EVERY)
def test_every_method_finds_a_strong_signal_and_reads_well(method: str, epsilon: int | None) -> None:
    result = run(SIGNAL, method, epsilon)
    assert result.method == method
    assert result.reject
    assert result.pvalue <= result.level
    assert result.statistic >= result.critical
    assert (result.rankings, result.items) == (300, 12)
    private = epsilon is not None
    assert result.mark == ("simulation, not private" if private else "not private")
    data = json.loads(result.to_json())
    assert data["method"] == method
    assert data["mark"] == result.mark
    assert result.mark in svg(result.plot(), alt="test")
    assert "300 rankings of 12 items" in str(result)


@pytest.mark.parametrize(("method", "epsilon"), [("auto", 1), *EVERY])
def test_noise_is_not_called_signal(method: str, epsilon: int | None) -> None:
    result = run(NOISE, method, epsilon)
    assert result.pvalue > result.level
    assert result.statistic < result.critical
    assert not result.reject
    assert result.summary().startswith("no sign that")


def test_auto_is_friedman_without_and_the_chosen_test_with_epsilon() -> None:
    assert run(SIGNAL).method == "friedman"
    assert run(SIGNAL, epsilon=1).method in PRIVATE
    assert run(SIGNAL, epsilon="1/3").guarantee.exact_epsilon is not None


def test_friedman_agrees_with_scipy() -> None:
    result = run(SIGNAL, "friedman")
    assert result.statistic == pytest.approx(friedmanchisquare(*SIGNAL.T).statistic)
    few = Mallows(6, 0.9).sample(8, seed=3)
    assert run(few, "friedman").statistic == pytest.approx(friedmanchisquare(*few.T).statistic)


def test_few_methods_are_offered_and_the_paper_s_are_not_among_them() -> None:
    assert METHODS == ("auto", "friedman", "rank-norm", "clipped-norm", "clipped-batches", "pairs-norm")
    for gone in ("trunc", "bucket", "laplace", "unif", "two-sample", "unif-as-printed"):
        with pytest.raises(BadInput, match="'auto', 'friedman', 'rank-norm'"):
            run(SIGNAL, gone, 1)


@pytest.mark.parametrize(("k", "m"), [(3, 4), (6, 5), (40, 12)])
def test_pair_sums_without_noise_have_an_exact_pvalue(k: int, m: int) -> None:
    """Against 200,000 simulated data sets."""
    result = run(Mallows(m, 0.9).sample(k, seed=5), "pairs-norm")
    signs = 2 * np.random.default_rng(1).binomial(k, 0.5, (200_000, m // 2)) - k
    share = float((np.sqrt((signs.astype(float) ** 2).sum(axis=1)) >= result.statistic - 1e-9).mean())
    assert result.pvalue == pytest.approx(share, abs=5 * math.sqrt(0.25 / 200_000))


# ---- inputs ---------------------------------------------------------------------------------------------------------------


def test_tables_arrays_files_and_pieces_say_the_same(tmp_path: Path) -> None:
    table = Rankings(SIGNAL)
    kinds: list[Any] = [table, SIGNAL, SIGNAL.tolist(), [SIGNAL[:100], SIGNAL[100:]], iter([table])]
    kinds += [table.write(tmp_path / name) for name in ("votes.soc", "votes.csv", "votes.parquet")]
    long = tmp_path / "long.csv"
    rows = ["ranking,item,rank"] + [f"{i},{j},{int(r) + 1}" for i, row in enumerate(SIGNAL) for j, r in enumerate(row)]
    long.write_text("\n".join(rows), encoding="utf-8")
    kinds.append(str(long))
    values = {run(kind, "friedman").statistic for kind in kinds}
    assert len(values) == 1
    assert len({run(kind, "rank-norm", 1).statistic for kind in [table, SIGNAL, table.write(tmp_path / "b.soc")]}) == 1


def test_counts_are_people() -> None:
    table = Rankings([[0, 1, 2], [2, 1, 0]], counts=[40, 2])
    assert run(table, "friedman").rankings == 42
    assert run(table, "clipped-batches").rankings == 42


def test_a_long_stream_is_read_once_and_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ballots_module, "MOST_HELD", 2000)
    pieces = (SIGNAL[i : i + 50] for i in range(0, 300, 50))
    result = run(pieces, epsilon=1)
    assert (result.method, result.rankings) == ("rank-norm", 300)
    assert result.statistic == run([SIGNAL], "rank-norm", 1).statistic
    for method, epsilon in (("friedman", None), ("pairs-norm", None), ("pairs-norm", 2)):
        result = run((SIGNAL[i : i + 50] for i in range(0, 300, 50)), method, epsilon)
        assert (result.rankings, result.reject) == (300, True)
    with pytest.raises(BadInput, match="one pass"):
        run((SIGNAL[i : i + 50] for i in range(0, 300, 50)), "clipped-norm")
    bad = [SIGNAL[:250], np.zeros((1, 12), dtype=int) + 20]
    with pytest.raises(BadInput, match="piece 2"):
        run(iter(bad), epsilon=1)


def test_partial_rankings_and_ties() -> None:
    """Whole items are missing at random: the order of the rest is what it was."""
    rng = np.random.default_rng(1)
    partial = np.where(rng.random(SIGNAL.shape) < 0.2, -1, SIGNAL)
    partial[:, 0] = np.where(partial.max(axis=1) < 0, 0, partial[:, 0])
    table = Rankings(partial)
    result = run(table, "pairs-norm", epsilon=2)
    assert result.reject
    assert "complete or not" in result.guarantee.neighbors
    assert run(table, "pairs-norm").reject
    assert run(SIGNAL, "pairs-norm", 2).guarantee.neighbors == result.guarantee.neighbors  # gaps must not show in it
    assert run(table, epsilon=2).method == run(SIGNAL, epsilon=2).method  # gaps must not show in the choice either
    tied = Rankings(SIGNAL // 2)
    for method, epsilon in EVERY:
        assert run(tied, method, epsilon).reject
        assert run(table, method, epsilon).pvalue < 0.2


def test_open_pairs_are_decided_by_fair_coins() -> None:
    source = Randomness.simulation(1)
    drawn = np.array([fair_signs(101, source) for _ in range(4000)])
    assert set(np.unique(drawn % 2)) == {1}
    assert abs(drawn.mean()) < 5 * math.sqrt(101 / 4000)
    assert drawn.var() == pytest.approx(101, rel=0.12)
    assert fair_signs(0, source) == 0
    ballots = Ballots.of(Rankings([[0, -1], [-1, 0], [0, 0]] * 50), unranked="unknown")
    sums = np.array([ballots.pair_sums(np.arange(2), source)[0] for _ in range(400)])
    assert sums.var() == pytest.approx(150, rel=0.4)


@pytest.mark.parametrize("unranked", ["last", "unknown"])
@pytest.mark.parametrize("row", [[0, 0, 1, -1], [0, 1, -1, -1], [0, 0, 0, 0], [0, 1, 2, 3]])
def test_what_is_left_open_is_decided_uniformly(row: list[int], unranked: str) -> None:
    """All orders of the items that agree with the ranking, and no others, equally often."""
    ranks, last, count = np.array(row), unranked == "last", 24_000
    drawn = Counter(map(tuple, complete_at_random(np.tile(ranks, (count, 1)), last, 1).tolist()))
    ranked = [i for i in range(4) if row[i] >= 0]
    agreeing = {
        order
        for order in permutations(range(4))
        if all(order[i] < order[j] for i in ranked for j in ranked if row[i] < row[j])
        and (not last or all(order[i] < order[j] for i in ranked for j in range(4) if row[j] < 0))
    }
    assert set(drawn) == agreeing
    expected = count / len(agreeing)
    statistic = sum((value - expected) ** 2 for value in drawn.values()) / expected
    assert len(agreeing) == 1 or statistic < chi2.isf(1e-7, len(agreeing) - 1)


@pytest.mark.parametrize(
    ("method", "epsilon"), [("auto", None), ("rank-norm", 1), ("pairs-norm", None), ("pairs-norm", 1)]
)
def test_weights(method: str, epsilon: int | None) -> None:
    """Weights that are all equal change nothing but the noise; the cap bounds what one person counts."""
    table = Rankings(SIGNAL, counts=np.full(len(SIGNAL), 7))
    plain, weighted = (
        uniformity_test(data, method=method, epsilon=epsilon, weight_cap=cap, randomness=Randomness.simulation(3))
        for data, cap in ((SIGNAL, None), (table, 3))
    )
    assert weighted.rankings == plain.rankings == len(SIGNAL)
    assert weighted.pvalue == pytest.approx(plain.pvalue, abs=0.02)
    if epsilon is not None:
        assert weighted.noise_scale == pytest.approx(3 * (plain.noise_scale or 0))
        assert "how much each person counts" in weighted.guarantee.neighbors


def test_a_changed_ranking_moves_a_weighted_statistic_by_no_more_than_its_sensitivity() -> None:
    rng, cap = np.random.default_rng(1), 4
    counts = rng.integers(1, 9, 12)
    largest = {"rank-norm": 0.0, "pairs-norm": 0.0}
    for _ in range(300):
        rows = np.array([rng.permutation(6)] * 12)
        rows[counts < cap] = rng.permutation(6)
        other = rows.copy()
        other[0] = rows[0][::-1]
        for kind in (RankNorm, PairsNorm):
            values = []
            for data in (rows, other):
                ballots = Ballots.of(Rankings(data, counts=counts), weight_cap=cap)
                test = kind(ballots.total, 6, weights=ballots.weights)
                source = Randomness.simulation(1)
                sums = ballots.rank_sums(source) if kind is RankNorm else ballots.pair_sums(np.arange(6), source)
                values.append(test.statistic(sums))
            assert abs(values[0] - values[1]) <= float(test.sensitivity)
            largest[kind.name] = max(largest[kind.name], abs(values[0] - values[1]))
    assert largest["rank-norm"] > 2  # noise for a person who counts once would be too little


def test_weights_need_a_test_that_takes_them() -> None:
    with pytest.raises(BadInput, match="with weights"):
        uniformity_test(SIGNAL, method="clipped-norm", epsilon=1, weight_cap=2)
    with pytest.raises(BadInput, match="weight_cap"):
        uniformity_test(SIGNAL, weight_cap=0)
    with pytest.raises(BadInput, match="unranked"):
        uniformity_test(SIGNAL, unranked="first")


@pytest.mark.parametrize("m", [2, 3, 5])
@pytest.mark.parametrize(("method", "epsilon"), EVERY)
def test_few_items_and_odd_numbers(m: int, method: str, epsilon: int | None) -> None:
    result = run(Mallows(m, 1.0).sample(2, seed=4), method, epsilon)
    assert 0 < result.pvalue <= 1
    assert math.isfinite(result.statistic)


@pytest.mark.parametrize(
    ("rankings", "more", "message"),
    [
        ([[0, 1, 2]], {}, "one ranking"),
        ([[0], [0]], {}, "one item"),
        ([], {}, "no rankings"),
        (np.empty((0, 3), dtype=int), {}, "at least one ranking"),
        ([[0, 1, 7], [0, 1, 2]], {}, "need a rank from 0 to 2"),
        ([[0.5, 1, 2], [0, 1, 2]], {}, "rank"),
        ([[math.inf, 1, 2], [0, 1, 2]], {}, "rank"),
        (3, {}, "^rankings: got 3"),
        ({"a": 1}, {}, "^a: got 1, need a list"),
        (SIGNAL, {"method": "magic"}, "^method: got 'magic'"),
        (SIGNAL, {"epsilon": 0}, "^epsilon: got 0"),
        (SIGNAL, {"epsilon": math.nan}, "^epsilon: got nan"),
        (SIGNAL, {"epsilon": -1}, "^epsilon: got -1"),
        (SIGNAL, {"level": 0}, "^level: got 0"),
        (SIGNAL, {"level": 1.5}, "^level: got 1.5"),
        (SIGNAL, {"method": "rank-norm"}, "^epsilon: got None"),
        (SIGNAL, {"method": "friedman", "epsilon": 1}, "friedman is not private"),
        (SIGNAL, {"randomness": 5}, "^randomness: got 5"),
        ("nowhere.soc", {}, "nowhere.soc"),
        ([SIGNAL, SIGNAL[:, :5]], {}, "piece 2"),
    ],
)
def test_bad_input_is_named(rankings: Any, more: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        uniformity_test(rankings, **{"randomness": Randomness.simulation(1), **more})


def test_nothing_is_spent_on_bad_input_and_the_debit_comes_first(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "book.db") as ledger:
        account = ledger.account("survey", epsilon=1)
        for bad in ([[0, 1, 7], [0, 1, 2]], [[0, 1, 2]], SIGNAL[:, :1]):
            with pytest.raises(BadInput):
                uniformity_test(bad, epsilon=1, account=account)
        with pytest.raises(BadInput):
            uniformity_test(SIGNAL, method="clipped-norm", epsilon=1, weight_cap=2, account=account)
        with pytest.raises(BadInput, match="not private cannot be entered"):
            uniformity_test(SIGNAL, account=account)
        assert account.remaining == 1
        result = uniformity_test(SIGNAL, epsilon=0.75, account=account)
        assert (account.remaining, result.mark) == (0.25, None)
        with pytest.raises(Exception, match="requested 0.75, remaining 0.25"):
            uniformity_test(SIGNAL, epsilon=0.75, account=account)
        assert uniformity_test((SIGNAL[i : i + 100] for i in (0, 100)), epsilon=0.25, account=account).rankings == 200


@pytest.mark.slow
def test_a_bad_line_among_ten_million_is_named(tmp_path: Path) -> None:
    path = tmp_path / "huge.soc"
    lines = 10_000_000
    with path.open("w", encoding="utf-8") as file:
        file.write("# DATA TYPE: soc\n# NUMBER ALTERNATIVES: 3\n")
        block = "1: 1,2,3\n1: 3,2,1\n" * 50_000
        for _ in range(lines // 100_000 - 1):
            file.write(block)
        file.write(block[: len(block) // 2] + "1: 1,2,2\n" + block[len(block) // 2 + 9 :])
    with pytest.raises(BadInput, match=rf"line {2 + lines - 50_000 + 1}\b"):
        uniformity_test(path, epsilon=1)
