from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerveil.core.errors import BadInput
from peerveil.data import Events, Labels, Rankings, Reviews, SyntheticConference, synthetic_conference
from peerveil.data.synthetic import balanced_assignment

FIVE_MINUTES = 300 * 1_000_000


@pytest.fixture(scope="module")
def conference() -> SyntheticConference:
    return synthetic_conference(papers=600, reviewers=450, seed=11)


def own_rate(events: Events) -> float:
    """Appendix B of the timing paper: consecutive posts of one person on different papers, within five minutes."""
    frame = events.frame.sort("actor", "time").with_columns(
        gap=pl.col("time").diff().over("actor").dt.total_microseconds(),
        moved=pl.col("thread") != pl.col("thread").shift().over("actor"),
    )
    pairs = frame.filter(pl.col("moved"))
    return (pairs["gap"] <= FIVE_MINUTES).mean()  # type: ignore[return-value]


def pair_rate(events: Events) -> float:
    """The share of pairs of people of whom any two posts are within five minutes."""
    codes, values = events.numbered("actor")
    times, met = events.times, set()
    for row in range(len(times)):
        last = np.searchsorted(times, times[row] + FIVE_MINUTES, side="right")
        for other in range(row + 1, int(last)):
            if codes[row] != codes[other]:
                met.add((min(codes[row], codes[other]), max(codes[row], codes[other])))
    return len(met) / (len(values) * (len(values) - 1) / 2)


def test_batching_habits(conference: SyntheticConference) -> None:
    assert 0.27 < own_rate(conference.events) < 0.33
    assert pair_rate(conference.events) < 0.01
    assert own_rate(synthetic_conference(papers=600, reviewers=450, batch_rate=0.0).events) < 0.02
    assert own_rate(synthetic_conference(papers=600, reviewers=450, batch_rate=0.9).events) > 0.85


def test_sittings_are_who_wrote_what_in_one_go(conference: SyntheticConference) -> None:
    joined = conference.events.frame.join(conference.truth.sittings, left_on="id", right_on="event")
    assert joined.height == len(conference.events)
    by_sitting = joined.group_by("sitting").agg(pl.col("actor").n_unique(), pl.col("time").sort().diff().max())
    assert by_sitting["actor"].max() == 1
    pauses = by_sitting["time"].drop_nulls()
    assert pauses.max() <= pl.Series([12 * FIVE_MINUTES]).cast(pl.Duration("us"))[0]  # an hour


def test_tables_agree_with_each_other(conference: SyntheticConference) -> None:
    reviews = conference.reviews.frame
    posts = conference.events.frame
    pairs = set(reviews.select("paper", "reviewer").rows())
    assert set(posts.select("thread", "actor").rows()) == pairs
    first = posts.group_by("thread", "actor").agg(pl.col("time").min())
    merged = reviews.join(first, left_on=["paper", "reviewer"], right_on=["thread", "actor"])
    assert merged.height == reviews.height
    assert (merged["time"] == merged["time_right"]).all()
    assert set(conference.labels.frame["worker"]) <= set(reviews["reviewer"])
    assert set(conference.labels.frame["task"]) == set(conference.truth.papers["paper"])
    assert set(conference.rankings.items) <= set(reviews["paper"])
    parents = posts.join(posts, left_on="reply_to", right_on="id", suffix="_parent")
    assert parents.height > 0
    assert (parents["time"] >= parents["time_parent"]).all()
    assert (parents["thread"] == parents["thread_parent"]).all()


def test_scores_follow_quality_and_criteria_follow_scores(conference: SyntheticConference) -> None:
    merged = conference.reviews.frame.join(conference.truth.papers, on="paper")
    assert 0.6 < np.corrcoef(merged["score"], merged["quality"])[0, 1] < 0.95
    for name in conference.reviews.criteria:
        assert np.corrcoef(merged["score"], merged[name])[0, 1] > 0.6
    assert set(np.unique(conference.reviews.scores)) <= set(range(1, 11))
    assert set(np.unique(conference.reviews.criteria_scores)) <= {1, 2, 3, 4}


def test_bias_is_real() -> None:
    strong = synthetic_conference(papers=400, reviewers=40, bias=2.0, noise=0.1, stretch=0.0)
    merged = strong.reviews.frame.join(strong.truth.papers, on="paper").join(strong.truth.reviewers, on="reviewer")
    left = merged["score"] - merged["score"].mean() - merged["quality"] * 1.8
    assert np.corrcoef(left, merged["bias"])[0, 1] > 0.9


def test_rankings_follow_quality(conference: SyntheticConference) -> None:
    assert conference.rankings.is_complete
    assert len(conference.rankings) == 450
    quality = dict(conference.truth.papers.select("paper", "quality").rows())
    mean = conference.rankings.ranks.mean(axis=0)
    assert np.corrcoef(mean, [-quality[item] for item in conference.rankings.items])[0, 1] > 0.9


def test_answers_are_as_right_as_the_ability_says(conference: SyntheticConference) -> None:
    truth = conference.truth
    merged = conference.labels.frame.join(truth.papers, left_on="task", right_on="paper").join(
        truth.reviewers, left_on="worker", right_on="reviewer"
    )
    right = (merged["label"] == merged["answer"]).mean()
    assert right == pytest.approx(merged["ability"].mean(), abs=0.03)
    assert np.allclose(truth.confusion.sum(axis=2), 1.0)
    known = merged.drop_nulls("truth")
    assert (known["truth"] == known["answer"]).all()
    many = synthetic_conference(papers=50, reviewers=40, classes=5, tasks=30, answers_per_task=7, gold_rate=0)
    assert set(many.labels.codes(5).tolist()) == set(range(5))
    assert len(many.labels) == 210
    assert not many.labels.has_truth
    with pytest.raises(ValueError, match="read-only"):
        truth.confusion[0, 0, 0] = 1


def test_same_seed_same_conference_and_marked_synthetic() -> None:
    one, two = (synthetic_conference(papers=30, reviewers=20, seed=5) for _ in range(2))
    assert one == two
    assert one != synthetic_conference(papers=30, reviewers=20, seed=6)
    assert one.truth.papers.equals(two.truth.papers)
    assert one.synthetic is True
    assert "nobody in it exists" in str(one)


def test_the_same_people_in_another_year() -> None:
    last, now = (synthetic_conference(30, 20, seed=seed, people_seed=5) for seed in (1, 2))
    columns = ["reviewer", "scale", "bias"]
    assert last.truth.reviewers.select(columns).equals(now.truth.reviewers.select(columns))
    assert last.reviews != now.reviews
    other = synthetic_conference(30, 20, seed=2, people_seed=6)
    assert not other.truth.reviewers.select(columns).equals(now.truth.reviewers.select(columns))
    with pytest.raises(BadInput, match="people_seed"):
        synthetic_conference(30, 20, people_seed=-1)


def test_written_with_a_readme(tmp_path: Path) -> None:
    made = synthetic_conference(papers=12, reviewers=9)
    for format_ in ("csv", "parquet"):
        folder = made.write(tmp_path / format_, format=format_)
        assert Reviews.read(folder / f"reviews.{format_}") == made.reviews
        assert Events.read(folder / f"events.{format_}") == made.events
        assert Rankings.read(folder / f"rankings.{format_}") == made.rankings
        assert Labels.read(folder / f"labels.{format_}") == made.labels
        assert "Nobody in these files exists" in (folder / "README.md").read_text()
    with pytest.raises(BadInput, match="format"):
        made.write(tmp_path, format="xlsx")


@given(st.lists(st.integers(0, 6), min_size=1, max_size=20), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_assignments_are_balanced(demand: list[int], people: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    if max(demand) > people:
        with pytest.raises(BadInput, match="at most"):
            balanced_assignment(np.array(demand), people, rng)
        return
    papers, persons = balanced_assignment(np.array(demand), people, rng)
    assert np.bincount(papers, minlength=len(demand)).tolist() == demand
    assert len(set(zip(papers.tolist(), persons.tolist(), strict=True))) == len(papers)
    loads = np.bincount(persons, minlength=people)
    assert loads.max() - loads.min() <= 1


def test_unequal_demand_and_the_smallest_conference() -> None:
    unequal = synthetic_conference(
        papers=3, reviewers=3, reviews_per_paper=[1, 2, 3], ranked_items=2, answers_per_task=2
    )
    assert unequal.reviews.frame.group_by("paper").len().sort("paper")["len"].to_list() == [1, 2, 3]
    smallest = synthetic_conference(
        papers=1, reviewers=1, reviews_per_paper=1, ranked_items=1, answers_per_task=1, comments_per_review=0
    )
    assert (len(smallest.reviews), len(smallest.events), len(smallest.rankings), len(smallest.labels)) == (1, 1, 1, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"papers": 0},
        {"papers": 2.5},
        {"reviewers": True},
        {"reviews_per_paper": 200},
        {"reviews_per_paper": 0},
        {"reviews_per_paper": [1, 2]},
        {"reviews_per_paper": "3"},
        {"scale": (5, 5)},
        {"noise": -1},
        {"noise": float("nan")},
        {"bias": float("inf")},
        {"batch_rate": 1.1},
        {"days": 0},
        {"start": datetime(2026, 1, 1)},
        {"ranked_items": 0},
        {"ranked_items": 300},
        {"tasks": 300},
        {"answers_per_task": 151},
        {"classes": 1},
        {"ability": (0.9, 0.5)},
        {"seed": -1},
        {"criteria": ["score"]},
    ],
)
def test_impossible_wishes(wrong: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        synthetic_conference(**wrong)  # type: ignore[arg-type]


def test_start_is_where_it_starts() -> None:
    start = datetime(2030, 5, 1, tzinfo=UTC)
    events = synthetic_conference(papers=20, reviewers=20, start=start, days=2).events.frame
    assert start <= events["time"][0] < events["time"][-1] < start + timedelta(days=2)


@pytest.mark.slow
def test_large_conference() -> None:
    made = synthetic_conference(papers=20_000, reviewers=15_000)
    assert len(made.reviews) == 60_000
