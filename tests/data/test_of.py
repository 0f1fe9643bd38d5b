"""Frames of pandas and Polars wherever a table is taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from peerveil import BadInput, Randomness
from peerveil.calibration import fit_miscalibration
from peerveil.data import Events, Labels, Rankings, Reviews, synthetic_conference
from peerveil.release import PublicScores, publish
from peerveil.timing import FollowUp, choose_gap, find_batches, post

CONFERENCE = synthetic_conference(papers=20, reviewers=12, seed=1)
TABLES = [CONFERENCE.reviews, CONFERENCE.events, CONFERENCE.rankings, CONFERENCE.labels]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: type(table).__name__)
def test_a_table_comes_from_whatever_holds_one(table: Any, tmp_path: Path) -> None:
    kind = type(table)
    assert kind.of(table) is table
    assert kind.of(table.frame) == table
    assert kind.of(table.frame.to_pandas()) == table
    assert kind.of(table.frame.lazy()) == table
    assert kind.of(table.frame.to_dict(as_series=False)) == table
    assert kind.of(table.write(tmp_path / "table.parquet")) == table
    assert kind.of(str(table.write(tmp_path / "table.csv"))) == table
    name = kind.__name__
    for bad in (3, None, [1, 2], b"x"):
        with pytest.raises(BadInput, match=f"^it: got .*, need {name}, a file name, or a pandas or Polars frame"):
            kind.of(bad, "it")


@pytest.mark.parametrize("kind", [Reviews, Events, Rankings, Labels])
def test_a_missing_file_is_named(kind: Any) -> None:
    with pytest.raises(BadInput, match="no such file"):
        kind.of("nowhere.csv")


@pytest.mark.parametrize("shape", ["polars", "pandas"])
def test_the_rooms_take_frames(shape: str) -> None:
    def given(table: Any) -> Any:
        return table.frame if shape == "polars" else table.frame.to_pandas()

    reviews, events = CONFERENCE.reviews, CONFERENCE.events
    lane = Randomness.simulation
    ours = publish(reviews, epsilon=1, scale=(1, 10), randomness=lane(1))
    theirs = publish(given(reviews), epsilon=1, scale=(1, 10), randomness=lane(1))
    assert theirs.means.tolist() == ours.means.tolist()
    assert PublicScores.of(given(reviews), scale=(1, 10)).bounds == (1, 10)
    assert find_batches(given(events), window=300).steps == find_batches(events, window=300).steps
    assert choose_gap(given(events), percentile=50) == choose_gap(events, percentile=50)
    mechanism = FollowUp(epsilon=1, gap=600, window=300)
    assert (
        post(given(events), mechanism=mechanism, randomness=lane(1))
        .public.frame()
        .equals(post(events, mechanism=mechanism, randomness=lane(1)).public.frame())
    )
    few = given(reviews)[:3]  # read as a table, and refused for what it says
    for history in (few, [few]):
        with pytest.raises(BadInput, match="^history: got .* need at least four reviews"):
            fit_miscalibration(history)
    for function in (
        lambda: publish(3, epsilon=1),
        lambda: find_batches(3, window=300),
        lambda: post(3, mechanism=mechanism),
    ):
        with pytest.raises(BadInput, match="a pandas or Polars frame"):
            function()
    assert isinstance(given(reviews), pl.DataFrame) is (shape == "polars")


def test_a_table_exported_again_is_the_same_data() -> None:
    first = Labels(task=["Q 1", "q2"], worker=["Zoë", "bo"], label=["yes", "no"])
    again = Labels(task=["q 1 ", "q2"], worker=["Zoe\u0308", " BO"], label=["Yes", "no"])
    assert first.identity == again.identity
    assert first.identity != Labels(task=["q1", "q2"], worker=["zoë", "bo"], label=["yes", "yes"]).identity
