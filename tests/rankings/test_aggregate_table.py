"""Randomized rankings as a table that states its own protocol, and several answers per person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from peerveil.core.errors import BadInput
from peerveil.core.randomness import Randomness
from peerveil.rankings import LocalProtocol, Mallows, aggregate_rankings
from peerveil.rankings.aggregate import aggregate_sums

if TYPE_CHECKING:
    from pathlib import Path

PROTOCOL = LocalProtocol(20, epsilon=1, ask="pairs", questions=3, seed=7)


def table(**changes: Any) -> pl.DataFrame:
    sent = PROTOCOL.randomize_all(Mallows(20, 0.7).sample(400, seed=1), randomness=Randomness.simulation(2))
    frame = pl.DataFrame({"question": [r.question for r in sent], "bits": [r.bits for r in sent]})
    constant = {**PROTOCOL.to_dict(), "protocol": PROTOCOL.fingerprint, "answers": 1, **changes}
    return frame.with_columns(**{name: pl.lit(value) for name, value in constant.items() if value is not None})


def test_a_table_gives_the_test_of_its_lines(tmp_path: Path) -> None:
    sent = PROTOCOL.randomize_all(Mallows(20, 0.7).sample(400, seed=1), randomness=Randomness.simulation(2))
    expected = aggregate_rankings(sent, protocol=PROTOCOL)
    table().write_csv(tmp_path / "votes.csv")
    table().write_parquet(tmp_path / "votes.parquet")
    for name in ("votes.csv", "votes.parquet"):
        result = aggregate_rankings(tmp_path / name)
        assert (result.pvalue, result.statistic, result.rankings) == (expected.pvalue, expected.statistic, 400)
        assert result.guarantee == expected.guarantee
    table(answers=3).write_csv(tmp_path / "three.csv")
    assert aggregate_rankings(tmp_path / "three.csv").guarantee.exact_epsilon == 3


@pytest.mark.parametrize(
    "changes",
    [{"protocol": "00000000"}, {"seed": None}, {"answers": 4}, {"answers": 0}, {"method": "bits"}, {"items": 1}],
)
def test_a_table_that_contradicts_itself_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    table(**changes).write_csv(tmp_path / "votes.csv")
    with pytest.raises(BadInput):
        aggregate_rankings(tmp_path / "votes.csv")


def test_two_protocols_no_rankings_and_wrong_bits_are_refused(tmp_path: Path) -> None:
    pl.concat([table(), table(seed=8)]).write_csv(tmp_path / "two.csv")
    table().clear().write_csv(tmp_path / "none.csv")
    table().with_columns(bits=pl.lit(2)).write_csv(tmp_path / "bits.csv")
    for name in ("two.csv", "none.csv", "bits.csv", "missing.csv"):
        with pytest.raises(BadInput):
            aggregate_rankings(tmp_path / name)


def test_several_answers_per_person_need_disjoint_pairs() -> None:
    """Orders of disjoint pairs in uniform rankings are independent: the null of all answers is that of as many people."""
    ranks = np.argsort(np.random.default_rng(1).random((40_000, 6)), axis=1)
    signs = np.sign(ranks[:, 1::2] - ranks[:, 0::2])
    for i in range(3):
        for j in range(i):
            assert abs(float((signs[:, i] * signs[:, j]).mean())) < 5 / 200
    protocol = LocalProtocol(6, epsilon=1)
    with pytest.raises(BadInput, match="answers"):
        aggregate_sums(protocol, np.array([5, 5, 5]), np.array([1, 1, 1]), 0.05, answers=2)
