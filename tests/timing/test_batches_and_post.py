"""Batches, rates, posting, causal release, the queue, hostile logs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerveil import BadInput, Randomness
from peerveil.data import Events, synthetic_conference
from peerveil.timing import FollowUp, Queue, Uniform, ZeroInflatedUniform, find_batches, post
from peerveil.timing import batches as batches_module
from peerveil.timing.base import DelayMechanism
from peerveil.timing.batches import posterior
from peerveil.timing.log import find_leaks
from peerveil.timing.schedule import behind_parents

LOGS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 60)), min_size=1, max_size=25)


def log_of(rows: list[tuple[int, int, int]]) -> Events:
    actor, thread, minute = zip(*rows, strict=True)
    return Events(actor=actor, thread=thread, time=[1_600_000_000 + 60 * m for m in minute])


@given(LOGS, st.integers(0, 20))
@settings(max_examples=60, deadline=None)
def test_batches_and_rates_agree_with_a_direct_transcription(rows: list[tuple[int, int, int]], minutes: int) -> None:
    events = log_of(rows)
    batches = find_batches(events, window=60 * minutes)
    a, t, s = events.column("actor"), events.column("thread"), events.times // 1_000_000
    near = [
        any(a[i] == a[j] and t[i] != t[j] and abs(s[i] - s[j]) <= 60 * minutes for j in range(len(a)))
        for i in range(len(a))
    ]
    assert batches.batched.tolist() == near
    assert (batches.follow_up <= batches.batched).all()
    assert batches.sizes.sum() == batches.batched.sum()
    steps, close = 0, 0
    for person in set(a.tolist()):
        own = sorted((i for i in range(len(a)) if a[i] == person), key=lambda i: (s[i], t[i]))
        for i, j in pairwise(own):
            steps += t[i] != t[j]
            close += t[i] != t[j] and s[j] - s[i] <= 60 * minutes
    assert batches.steps == steps
    assert batches.same_rate == pytest.approx(close / steps if steps else 0)
    people = sorted(set(a.tolist()))
    met = sum(
        any(abs(s[i] - s[j]) <= 60 * minutes for i in range(len(a)) for j in range(len(a)) if a[i] == p and a[j] == q)
        for p, q in combinations(people, 2)
    )
    pairs = len(people) * (len(people) - 1) // 2
    assert batches.pairs == pairs
    assert batches.other_rate == pytest.approx(met / pairs if pairs else 0)


def test_the_last_comment_of_a_batch_is_batched_too() -> None:
    """Erratum, Algorithm 3: its partner comes before it."""
    events = log_of([(0, 0, 0), (0, 1, 4), (0, 2, 30)])
    batches = find_batches(events, window=300)
    assert batches.batched.tolist() == [True, True, False]
    assert batches.follow_up.tolist() == [False, True, False]
    assert Uniform(epsilon=1, gap=600, window=300).status(np.zeros(3), np.arange(3), events.times).tolist() == [
        True,
        True,
        False,
    ]
    assert FollowUp(epsilon=1, gap=600, window=300).status(np.zeros(3), np.arange(3), events.times).tolist() == [
        False,
        True,
        False,
    ]
    assert batches.cost(1.0) == (1.0, 1.0)


def test_a_sample_of_people_estimates_the_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    events = synthetic_conference(papers=1500, reviewers=4000, seed=3).events
    exact = find_batches(events, window=3600)
    monkeypatch.setattr(batches_module, "_LONGEST_WALK", 1)
    sampled = find_batches(events, window=3600)
    assert exact.other_error == 0
    assert 0 < sampled.other_error < 0.2 * exact.other_rate
    assert abs(sampled.other_rate - exact.other_rate) < 6 * sampled.other_error


def test_the_old_partner_is_why_neighbors_were_corrected() -> None:
    """Erratum, Definition 3.1: if c' leaves a batch of two, its partner's status changes as well, and its delay's support."""
    mechanism = Uniform(epsilon=1, gap=600)
    threads = np.array([0, 1, 2])
    together = mechanism.status(np.zeros(3, dtype=int), threads, np.array([0, 300_000_000, 300_000_000]))
    moved = mechanism.status(np.zeros(3, dtype=int), threads, np.array([0, 0, 300_000_000]))
    assert together.tolist() == [False, True, True]
    assert moved.tolist() == [True, True, False]  # the third comment went from batched to unbatched
    # U can post the third at once, B never before the gap: the ratio of "posted within half a gap" is infinite
    assert float(mechanism.batched.below(300.0)) == 0
    assert float(mechanism.unbatched.below(300.0)) > 0.1


def test_posting_delays_only_and_shows_only_what_is_public() -> None:
    events = synthetic_conference(papers=80, reviewers=60, seed=5).events
    mechanisms: list[DelayMechanism | Queue] = [
        FollowUp(epsilon=1, gap=3600, window=300),
        ZeroInflatedUniform(epsilon=1, gap=3600, window=300),
        Queue(step=60),
    ]
    for mechanism in mechanisms:
        posted, schedule = post(events, mechanism=mechanism, randomness=Randomness.simulation(1))
        assert (schedule.posted >= schedule.arrival).all()
        assert posted.frame().columns == ["id", "thread", "author", "time", "reply_to"]
        assert posted.frame()["time"].is_sorted()
        assert posted.frame()["id"].to_list() == list(range(1, len(events) + 1))
        assert posted.mark in ("simulation, not private", "not private")
        assert "posted by" in str(posted)
        posted.plot()
        # authors are one a thread and actor, numbered by first appearance
        per = posted.frame().group_by("thread").agg(pl.col("author").n_unique(), pl.col("author").max().alias("most"))
        assert (per["author"] == per["most"]).all()
    secure = post(events, mechanism=FollowUp(epsilon=1, gap=3600, window=300))
    assert secure.public.mark is None


def test_holds() -> None:
    events = log_of([(0, 0, 0), (0, 1, 4), (1, 2, 30)])
    simulation = Randomness.simulation(2)
    held = post(events, mechanism=Uniform(epsilon=1, gap=660), hold=300, randomness=simulation)
    assert held.public.mechanism == "Uniform(epsilon=1, gap=660, window=300)"  # noise for gap + window
    assert (held.operator.delay[held.operator.batched] >= 300 + 960).all()
    for mechanism, hold, declared in (
        (FollowUp(epsilon=1, gap=660, window=300), 300, None),
        (Uniform(epsilon=1, gap=660, window=60), 300, None),
        (Uniform(epsilon=1, gap=660, window=60), 60, [True] * 3),
    ):
        with pytest.raises(BadInput, match="hold"):
            post(events, mechanism=mechanism, hold=hold, declared=declared)


def test_declared_batches_need_no_hold() -> None:
    events = log_of([(0, 0, 0), (0, 1, 4), (0, 2, 9), (1, 2, 30)])
    mechanism, declared = Uniform(epsilon=1, gap=660, window=300), np.array([True, False, False, False])
    posted, schedule = post(events, mechanism=mechanism, declared=declared, randomness=Randomness.simulation(2))
    assert schedule.batched.tolist() == [True, True, False, False]
    assert (schedule.delay[:2] >= 960).all()
    assert "truthfully" in str(posted.guarantee)
    with pytest.raises(BadInput, match="declared"):
        post(events, mechanism=Uniform(epsilon=1, gap=660, window=300), declared=[True])
    with pytest.raises(BadInput, match="declared"):
        post(events, mechanism=FollowUp(epsilon=1, gap=660, window=300), declared=[True] * 4)


def test_gaps_by_group_and_adopters() -> None:
    events = log_of([(a, a, 10 * a) for a in range(20)] * 2)
    gaps = {a: 600.0 if a < 10 else 6000.0 for a in range(20)}
    posted, schedule = post(
        events,
        mechanism=FollowUp(epsilon=1, gap=300),
        gaps=gaps,
        randomness=Randomness.simulation(1),
        adopters=range(5, 20),
    )
    assert schedule.gap is not None
    assert set(np.unique(schedule.gap)) == {600.0, 6000.0}
    actor = events.column("actor")
    assert (schedule.delay[actor < 5] == 0).all()
    assert schedule.delay[actor >= 10].max() > FollowUp(epsilon=1, gap=600).max_delay
    assert posted.guarantee.gap == 600
    with pytest.raises(BadInput, match="adopters"):
        post(events, mechanism=FollowUp(epsilon=1, gap=300), adopters="everybody")
    with pytest.raises(BadInput, match="gaps"):
        post(events, mechanism=FollowUp(epsilon=1, gap=300), gaps=[1])  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(-1, 30)), min_size=1, max_size=40))
@settings(max_examples=60, deadline=None)
def test_causal_release_is_the_latest_time_on_the_way_up(rows: list[tuple[int, int]]) -> None:
    own = np.array([r[0] for r in rows], dtype=np.int64)
    parent = np.array([min(r[1], i - 1) for i, r in enumerate(rows)], dtype=np.int64)
    got = behind_parents(own, parent)
    for i in range(len(rows)):
        best, j = own[i], i
        while parent[j] >= 0:
            j = parent[j]
            best = max(best, own[j])
        assert got[i] == best


def test_ids_of_replies_that_waited_for_one_parent_do_not_tell_the_order_of_arrival() -> None:
    """A parent that waits long, and two replies (its author's first) that then appear in the same moment."""
    start = 1_700_000_000
    log = Events(
        actor=["p", "p", "p", "b"], thread=["T", "S", "S", "S"], id=["0", "1", "2", "3"],
        time=[start, start, start + 5, start + 6], reply_to=[None, None, "1", "1"],
    )  # fmt: skip
    swapped = [0, 0]
    for seed in range(400):
        posted, schedule = post(log, mechanism=FollowUp(epsilon=1, gap=600), randomness=Randomness.simulation(seed))
        if schedule.posted[2] == schedule.posted[3]:
            authors = posted.frame().filter(pl.col("thread") == "S")["author"].to_list()
            assert authors[0] == 1
            overtaken = bool(schedule.own[3] < schedule.own[2])
            assert authors[1:] == ([2, 1] if overtaken else [1, 2])
            swapped[overtaken] += 1
    assert min(swapped) > 50  # by rows, which stand in the order of arrival, nobody would ever be overtaken


def test_posts_of_one_moment_stand_in_random_order() -> None:
    log = Events(actor=["a", "b"], thread=["S", "T"], time=[1_700_000_000] * 2)
    mechanism = FollowUp(epsilon=1, gap=600)
    made = [post(log, mechanism=mechanism, adopters=[], randomness=Randomness.simulation(s)) for s in range(400)]
    first = [posted.frame()["thread"][0] for posted, _ in made]
    assert 100 < first.count("S") < 300


def test_no_reply_before_its_parent() -> None:
    events = synthetic_conference(papers=150, reviewers=80, comments_per_review=2, seed=5).events
    mechanism = FollowUp(epsilon="0.5", gap=20 * 86_400, window=300)
    causal = post(events, mechanism=mechanism, randomness=Randomness.simulation(1))
    free = post(events, mechanism=mechanism, causal=False, randomness=Randomness.simulation(1))
    assert causal.operator.early_replies[0] == free.operator.early_replies[1] > 20
    assert causal.operator.early_replies[1] == 0
    assert (causal.operator.posted >= free.operator.posted).all()
    public = causal.public.frame()
    assert (public["reply_to"].drop_nulls() < public.filter(pl.col("reply_to").is_not_null())["id"]).all()
    assert 0 < causal.operator.overtaken < 1


def test_the_queue_keeps_the_order_of_steps_and_its_worst_delay() -> None:
    # one a minute, and three extra in minute 2
    minutes = [0, 1, 2, 2, 2, 2, 3, 4, 5, 6]
    events = Events(actor=[9] * 10, thread=range(10), time=[1_600_000_000 + 60 * m for m in minutes], id=range(10))
    queue = Queue(step=60)
    _, schedule = post(events, mechanism=queue, randomness=Randomness.simulation(1))
    steps = schedule.posted // 60_000_000 - schedule.arrival[0] // 60_000_000 - 1
    assert sorted(steps.tolist()) == list(range(10))
    assert (steps - np.array(minutes)).max() == 3  # Proposition C.3: as many steps as extra comments
    assert steps[:2].tolist() == [0, 1]
    assert steps[6:].tolist() == [6, 7, 8, 9]
    assert "assumption" in queue.guarantee_in_words
    assert post(events, mechanism=queue).public.mark == "not private"
    with pytest.raises(BadInput):
        post(events, mechanism=queue, hold=3)


def _outputs(batch: bool, count: int, seed: int, *, broken: bool = False) -> Any:
    """Which of two kinds of comment leaves in each of three steps, under i.i.d. arrivals with or without a batch."""
    rng = np.random.default_rng(seed)
    minutes = np.array([0, 0, 1, 2]) if batch else np.array([0, 1, 2])
    outcomes = []
    for k in range(count):
        kind = rng.integers(0, 2, minutes.size)
        _, out = Queue(step=60).schedule(np.arange(minutes.size), minutes * 60_000_000, Randomness.simulation(seed + k))
        if broken:  # the whole batch at once
            out = (minutes + 1) * 60_000_000
        outcomes.append(tuple(tuple(sorted(kind[out == 60_000_000 * s])) for s in (1, 2, 3)))
    return outcomes


def test_proposition_c2_by_counting_and_a_queue_that_posts_batches_at_once_is_caught() -> None:
    count = 3000
    plain, batched, broken = (
        _outputs(b, count, s, broken=x) for b, s, x in ((False, 1, False), (True, 9, False), (True, 5, True))
    )
    for outcome in set(plain) | set(batched):
        assert abs(plain.count(outcome) - batched.count(outcome)) < 6 * np.sqrt(count / 4)
    assert all(len(step) == 1 for one in batched for step in one)
    assert any(len(step) != 1 for one in broken for step in one)


# ---- hostile logs ------------------------------------------------------------------------------------------------


def test_one_event_and_unsorted_and_duplicate_times() -> None:
    log = Events(actor=["a"], thread=[1], time=[1_600_000_000])
    batches = find_batches(log, window=300)
    assert (len(batches), batches.same_rate, batches.other_rate, batches.pairs) == (0, 0, 0, 0)
    assert len(post(log, mechanism=FollowUp(epsilon=1, gap=60)).public) == 1
    unsorted = Events(actor=["a", "a"], thread=[1, 2], time=[1_600_000_100, 1_600_000_000])
    assert find_batches(unsorted, window=300).follow_up.tolist() == [False, True]
    same = Events(actor=["a"] * 4, thread=[1, 2, 1, 3], time=[1_600_000_000] * 4)
    assert find_batches(same, window=0).batched.all()
    assert find_batches(same, window=0).follow_up.tolist() == [False, True, False, True]  # counted in order of thread


def test_mixed_zones_future_and_missing_times() -> None:
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    zones = [moment, (moment + timedelta(minutes=2)).astimezone(timezone(timedelta(hours=9)))]
    mixed = Events(actor=["a", "a"], thread=[1, 2], time=zones)
    assert find_batches(mixed, window=120).batched.all()
    with pytest.raises(BadInput):
        Events(actor=["a"], thread=[1], time=[moment + timedelta(days=1)], now=moment)
    with pytest.raises(BadInput):
        Events(actor=["a", "b"], thread=[1, 2], time=["2026-03-01T10:00Z", None])


def test_an_actor_with_a_million_events() -> None:
    size = 1_000_000
    rng = np.random.default_rng(0)
    when = np.sort(rng.integers(0, 3_000_000, size)) * 1_000_000 + 1_600_000_000_000_000
    events = Events(actor=np.zeros(size, dtype=int), thread=rng.integers(0, 1000, size), time=when)
    batches = find_batches(events, window=300)
    assert batches.batched.mean() > 0.999
    assert (
        post(
            events, mechanism=FollowUp(epsilon=1, gap=600, window=300), randomness=Randomness.simulation(1)
        ).operator.posted.size
        == size
    )


def test_wrong_things_are_named() -> None:
    for bad, argument in (
        (lambda: find_batches([1], window=3), "events"),
        (lambda: find_batches(log_of([(0, 0, 0)]), window=-1), "window"),
        (lambda: post([1], mechanism=FollowUp(epsilon=1, gap=60)), "events"),
        (lambda: post(log_of([(0, 0, 0)]), mechanism="fast"), "mechanism"),  # type: ignore[arg-type]
        (lambda: post(log_of([(0, 0, 0)]), mechanism=FollowUp(epsilon=1, gap=60), randomness=3), "randomness"),  # type: ignore[arg-type]
        (lambda: posterior(0.3, 0.01, 1), "suspects"),
    ):
        with pytest.raises(BadInput) as error:
            bad()
        assert error.value.argument == argument


@pytest.mark.parametrize(
    ("file", "columns"),
    [("openreview_api1.json", {"number", "tcdate", "cdate"}), ("openreview_api2.json", {"tcdate", "cdate"}),
     ("openreview_details.jsonl", {"cdate"}), ("hotcrp_reviewcsv.csv", {"letter"})],
)  # fmt: skip
def test_leaks_of_platforms_are_found(file: str, columns: set[str]) -> None:
    """Shapes of real exports, synthetic content: second clocks and serial numbers stand beside the time."""
    log = Events.read(Path(__file__).parents[1] / "data" / "data" / file)
    assert {leak.column for leak in find_leaks(log)} == columns


def test_leaks_are_found() -> None:
    events = Events(
        actor=list("abcdef"), thread=[1, 1, 1, 2, 2, 2], time=[1e9 + k for k in range(6)],
        extra={"tcdate": [1e12 + 1000 * k for k in range(6)], "number": [1, 2, 3, 1, 2, 3], "letter": list("ABCABC")},
    )  # fmt: skip
    assert [(leak.column, leak.scope) for leak in find_leaks(events)] == [
        ("tcdate", "log"),
        ("number", "thread"),
        ("letter", "thread"),
    ]
    assert "publish the posting time" in str(find_leaks(events)[0])
    harmless = Events(actor=list("abc"), thread=[1, 1, 1], time=[1e9, 2e9, 3e9], extra={"number": [2, 3, 1]})
    assert find_leaks(harmless) == []
