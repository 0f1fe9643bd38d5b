"""Descriptions of tables: correct counts, whatever the names and numbers are."""

from __future__ import annotations

import json
import statistics
import warnings
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerveil import BadInput
from peerveil.data import Events, Labels, Rankings, Reviews, describe, synthetic_conference
from peerveil.data.describe import MOST_BINS, TableDescription

CONFERENCE = synthetic_conference(papers=20, reviewers=12, seed=1)
HOSTILE = (
    "$\\frac{1}$",
    "<script>alert(1)</script>",
    '=cmd|"/c calc"!A1',
    "a\nb\x1b[31m\x00",
    "{0!r}%s",
    "\u202eevil",
    "x" * 500,
)
ONE_ROW: list[Any] = [
    Reviews(paper=[1], score=[5]),
    Events(actor=["ann"], thread=[1], time=["2026-03-01T10:00Z"]),
    Rankings([[0]]),
    Labels(task=[1], worker=["ann"], label=[True]),
]


def check(description: TableDescription) -> dict[str, str]:
    """What holds for every description; returns its facts by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert json.loads(description.to_json()) == description.to_dict()
        assert description.plot().has_data()
    assert len(description.summary().splitlines()) == 1
    assert len(str(description).splitlines()) == description.frame().height + 1
    frame = description.frame()
    assert frame.schema == {"name": pl.String, "value": pl.String}
    assert frame.null_count().row(0) == (0, 0)
    assert len(description.distribution.bins) == len(description.distribution.counts) <= MOST_BINS + 1
    return dict(frame.rows())


@pytest.mark.parametrize(
    "table", [CONFERENCE.reviews, CONFERENCE.events, CONFERENCE.rankings, CONFERENCE.labels, *ONE_ROW], ids=repr
)
def test_every_table_has_a_description(table: Any, tmp_path: Path) -> None:
    description = describe(table)
    facts = check(description)
    assert facts["table"] == type(table).__name__
    assert facts["rows"] == str(len(table))
    assert [column.name for column in description.columns] == table.frame.columns
    assert sum(description.distribution.counts) == len(table)
    assert {path.name for path in description.save(tmp_path)} == {"result.json", "figure.svg", "table.csv"}
    assert pl.read_csv(tmp_path / "table.csv", infer_schema=False).equals(description.frame())


@settings(max_examples=25, deadline=None)
@given(
    st.dictionaries(
        st.tuples(st.integers(0, 8), st.integers(0, 8)), st.integers(-3, 3) | st.floats(-100, 100), min_size=1
    )
)
def test_reviews_are_counted(given_scores: dict[tuple[int, int], float]) -> None:
    papers, reviewers = zip(*given_scores, strict=True)
    scores = [float(score) for score in given_scores.values()]
    description = describe(Reviews(paper=papers, reviewer=reviewers, score=scores))
    check(description)
    facts = description.facts
    for column, groups in (("paper", papers), ("reviewer", reviewers)):
        sizes = list(Counter(groups).values())
        assert facts[f"{column}s"] == len(sizes)
        assert facts[f"reviews per {column} (min)"] == min(sizes)
        assert facts[f"reviews per {column} (median)"] == statistics.median(sizes)
        assert facts[f"reviews per {column} (max)"] == max(sizes)
    assert (facts["score (min)"], facts["score (max)"]) == (min(scores), max(scores))
    assert facts["score (median)"] == pytest.approx(statistics.median(scores), abs=1e-12)
    assert facts["score (mean)"] == pytest.approx(statistics.fmean(scores), rel=1e-5, abs=1e-9)
    assert facts["distinct scores"] == len(set(scores))
    assert sum(description.distribution.counts) == len(scores)
    if len(set(scores)) <= MOST_BINS:
        assert description.distribution.counts == tuple(n for _, n in sorted(Counter(scores).items()))


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 6).flatmap(
        lambda items: st.lists(
            st.tuples(st.lists(st.integers(-1, items - 1), min_size=items, max_size=items), st.integers(1, 9)),
            min_size=1,
        )
    )
)
def test_rankings_count_as_often_as_they_occurred(rows: list[tuple[list[int], int]]) -> None:
    rows = [(ranks, count) for ranks, count in rows if max(ranks) >= 0] or [([0] * len(rows[0][0]), 1)]
    table = Rankings([ranks for ranks, _ in rows], counts=[count for _, count in rows])
    description = describe(table)
    check(description)
    once = [list(ranks) for ranks, count in zip(table.ranks.tolist(), table.counts, strict=True) for _ in range(count)]
    lengths = [sum(rank >= 0 for rank in ranks) for ranks in once]
    facts = description.facts
    assert facts["rankings"] == len(once)
    assert facts["complete rankings"] == sum(sorted(ranks) == list(range(len(ranks))) for ranks in once)
    assert facts["rankings that leave items out"] == sum(min(ranks) < 0 for ranks in once)
    assert facts["items per ranking (median)"] == statistics.median(lengths)
    assert facts["rankings with ties"] == sum(
        len({rank for rank in ranks if rank >= 0}) < length for ranks, length in zip(once, lengths, strict=True)
    )
    first = dict(zip(description.distribution.bins, description.distribution.counts, strict=True))
    missing = {column.name: column.missing for column in description.columns}
    for place, item in enumerate(table.items):
        assert first[item] == sum(ranks[place] == 0 for ranks in once)
        assert missing[item] == sum(ranks[place] < 0 for ranks in once)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 60)), min_size=1))
def test_answers_are_counted_by_class(rows: list[tuple[int, int, int]]) -> None:
    task, worker, label = zip(*rows, strict=True)
    description = describe(Labels(task=task, worker=worker, label=label))
    check(description)
    assert description.facts["classes"] == len(set(label))
    assert description.facts["answers per task (median)"] == statistics.median(Counter(task).values())
    assert description.facts["answers per worker (max)"] == max(Counter(worker).values())
    assert sum(description.distribution.counts) == len(rows)
    assert ("others)" in description.distribution.bins[-1]) is (len(set(label)) > MOST_BINS)


def test_all_equal_scores_are_one_bar() -> None:
    description = describe(Reviews(paper=[1, 2, 3], score=[5, 5, 5]))
    facts = check(description)
    assert description.summary() == "3 reviews of 3 papers, reviewers unknown, 1 per paper; scores 5, median 5"
    assert (description.distribution.bins, description.distribution.counts) == (("5",), (3,))
    assert facts["score (standard deviation)"] == "0.0"


@pytest.mark.parametrize(
    "scores",
    [
        np.linspace(-1.0, 1.0, 30) * 1.7e308,
        np.full(3, 1.7e308),
        np.arange(30) * 5e-324,
        2.0**53 - 10 + np.arange(30),  # neighbors in floating point
        np.array([0.0, -0.0]),
    ],
    ids=["range beyond a float", "sum beyond a float", "smallest numbers", "neighbors", "zeros"],
)
def test_extreme_scores(scores: np.ndarray[Any, Any]) -> None:
    description = describe(Reviews(paper=np.arange(scores.size), score=scores))
    check(description)
    assert sum(description.distribution.counts) == scores.size
    assert len(set(description.distribution.bins)) == len(description.distribution.bins)
    exact = sum(map(Fraction, scores.tolist())) / scores.size
    assert description.facts["score (mean)"] == pytest.approx(float(exact), rel=1e-5, abs=float(scores.max()) * 1e-9)


@pytest.mark.parametrize("seconds", [0, 1e-6, 0.5, 90, 86_400 * 365 * 900])
def test_time_spans_of_every_length(seconds: float) -> None:
    moments = 1_700_000_000 + np.linspace(0, seconds, 50)
    times = pl.Series((moments * 1e6).round().astype(np.int64)).cast(pl.Datetime("us", "UTC"))
    description = describe(Events(actor=["ann"] * 50, thread=[1] * 50, time=times))
    check(description)
    assert description.facts["time span (seconds)"] == pytest.approx(seconds, abs=2e-6)
    assert sum(description.distribution.counts) == 50
    assert len(set(description.distribution.bins)) == len(description.distribution.bins)


def test_missing_values_are_counted() -> None:
    time = [f"2026-03-01T10:0{minute}Z" for minute in range(4)]
    events = Events(actor=[1] * 4, thread=[1] * 4, time=time, id=list("abcd"), reply_to=[None, "a", None, "a"])
    facts = check(describe(events))
    assert (facts["missing values"], facts["missing values in column reply_to"], facts["replies"]) == ("2", "2", "2")
    labels = Labels(task=[1, 1, 2], worker=[1, 2, 1], label=[0, 1, 1], truth=[1, 1, None])
    facts = check(describe(labels))
    assert (facts["missing values in column truth"], facts["tasks with a known correct answer"]) == ("1", "1")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(name: str, tmp_path: Path) -> None:
    tables: list[Any] = [
        Rankings([[0, 1]], items=[name, "tea"]),
        Labels(task=[name], worker=[name], label=[name]),
        Events(actor=[name], thread=[name], time=["2026-03-01T10:00Z"], extra={name: [1]}),
        Reviews(paper=[name], reviewer=[name], score=[5], criteria={name: [1]}),
    ]
    for number, table in enumerate(tables):
        description = describe(table)
        check(description)
        assert name not in description.summary()
        assert any(name in row for row in description.frame()["name"])
        assert not any(row.startswith(("=", "+", "-", "@")) for row in description.frame()["name"])
        paths = {path.name: path for path in description.save(tmp_path / str(number))}
        figure = paths["figure.svg"].read_text(encoding="utf-8")
        ElementTree.fromstring(figure)
        assert "<script" not in figure
        assert pl.read_csv(paths["table.csv"], infer_schema=False).equals(description.frame())


def test_another_object_is_refused_with_advice_that_works() -> None:
    frame = CONFERENCE.reviews.frame
    with pytest.raises(BadInput, match=r"^table: got .* need .*Reviews\.of\(data\)"):
        describe(frame)  # type: ignore[arg-type]
    assert describe(Reviews.of(frame)) == describe(CONFERENCE.reviews)


def test_a_description_names_no_person() -> None:
    frame = CONFERENCE.reviews.frame.with_columns(reviewer=pl.format("MARKED-{}", "reviewer"))
    description = describe(Reviews.of(frame))
    assert "MARKED" not in str(description) + repr(description) + description.to_json()
