"""The shape of the API: public and operator's objects apart, the account debited first, plans and results alike."""

from __future__ import annotations

import json
import pickle
import stat
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from peerveil import BadInput, Randomness, timing
from peerveil.data import Events, synthetic_conference
from peerveil.ledger import DataBound, Ledger, SimulationRefused
from peerveil.timing import (
    FollowUp,
    audit_log,
    audit_table,
    choose_gap,
    find_batches,
    linkage_attack,
    plan_delays,
    post,
)
from peerveil.timing.adversary import partial_adoption
from peerveil.timing.delays import MECHANISMS, WEIGHTED, named_mechanism
from peerveil.timing.durations import in_words, parse_duration, rounded_up, typed
from peerveil.timing.log import find_leaks
from peerveil.timing.plan import covered, intervals

if TYPE_CHECKING:
    from pathlib import Path

MARK = "canary-7f3a"
MECHANISM = FollowUp(epsilon=1, gap=3600, window=300)


def marked_log() -> pl.DataFrame:
    """A log whose actors, ids and further columns carry a mark; threads, which are public, do not."""
    frame = synthetic_conference(papers=20, reviewers=12, seed=1).events.frame
    ids = {name: f"{MARK}-id-{name}" for name in frame["id"].to_list()}
    return frame.with_columns(
        actor=pl.format(f"{MARK}-{{}}", "actor"),
        id=frame["id"].replace_strict(ids, return_dtype=pl.String),
        reply_to=frame["reply_to"].replace_strict(ids, default=None, return_dtype=pl.String),
    )


def contents(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


def test_the_public_object_can_be_pickled_printed_and_saved_without_an_id_of_the_log(tmp_path: Path) -> None:
    posted, schedule = post(marked_log(), mechanism=MECHANISM)
    shown = [str(posted), repr(posted), posted.summary(), posted.to_json(), posted.frame().write_csv()]
    assert not any(MARK in text for text in shown)
    assert MARK.encode() not in pickle.dumps(posted)
    posted.save(tmp_path / "public")
    assert MARK.encode() not in contents(tmp_path / "public")
    assert str(posted.frame()["time"][0].year) in (tmp_path / "public" / "table.csv").read_text()
    # the same search finds the mark in what the operator holds
    assert MARK.encode() in pickle.dumps(schedule)
    paths = schedule.save(tmp_path / "operator")
    assert MARK.encode() in contents(tmp_path / "operator")
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
    assert MARK not in repr(schedule)
    assert MARK not in str(schedule)


def test_posting_debits_the_account_before_it_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = synthetic_conference(papers=20, reviewers=12, seed=1).events
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        first, second = (ledger.account(name, epsilon=1) for name in ("first", "second"))
        posted, _ = post(log, mechanism=MECHANISM, account=first)
        (entry,) = first.entries()
        assert entry.purpose == "delayed posts"
        assert entry.guarantee == posted.guarantee
        with pytest.raises(SimulationRefused):
            post(log, mechanism=MECHANISM, account=first, randomness=Randomness.simulation(1))
        with pytest.raises(BadInput, match="a release without privacy"):
            post(log, mechanism=timing.Queue(step=60), account=first)
        with pytest.raises(BadInput, match="gaps above the mechanism's window"):  # refused before anything is entered
            post(log, mechanism=MECHANISM, account=first, gaps={log.frame["thread"][0]: 1.0})

        def no_draw(*_: Any) -> None:
            raise AssertionError("drawn although the account refused")

        monkeypatch.setattr(Randomness, "integers", no_draw)
        monkeypatch.setattr(Randomness, "permutation", no_draw)
        with pytest.raises(AssertionError, match="drawn"):
            post(log, mechanism=MECHANISM)
        with pytest.raises(DataBound, match="'first'"):
            post(log, mechanism=MECHANISM, account=second)
        assert len(first.entries()) == 1


def test_another_gap_for_each_group_is_entered_as_the_shortest(tmp_path: Path) -> None:
    log = synthetic_conference(papers=20, reviewers=12, seed=1).events
    gaps = dict.fromkeys(log.frame["thread"].unique().to_list(), 7200.0) | {log.frame["thread"][0]: 1800.0}
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        account = ledger.account("main", epsilon=1)
        posted, _ = post(log, mechanism=MECHANISM, gaps=gaps, account=account)
        assert account.entries()[0].guarantee == posted.guarantee
        assert posted.guarantee.gap == 1800


@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanisms_are_known_by_name(name: str) -> None:
    mechanism = named_mechanism(name, epsilon=4, gap=7200, window=300, weight=0.1)
    assert type(mechanism) is MECHANISMS[name]
    plain = MECHANISMS[name](epsilon=4, gap=7200, window=300)
    assert (mechanism != plain) is (name in WEIGHTED)
    with pytest.raises(BadInput, match="need 'follow-up', 'zero-inflated', "):
        named_mechanism("queue", epsilon=1, gap=7200, window=300)


def test_a_plan_holds_the_gap_what_it_covers_and_the_delays() -> None:
    history = synthetic_conference(papers=60, reviewers=40, seed=1).events
    plan = plan_delays(history, epsilon="0.8", window=300, crossover=0.25)
    exact = choose_gap(history, crossover=0.25, epsilon="0.8", window=300)
    assert exact <= plan.gap == rounded_up(exact) < 1.02 * exact
    # one gap, written alike in the advice, in a command and in the guarantee
    assert parse_duration(typed(plan.gap), "gap") == plan.gap
    assert f"a gap of {in_words(plan.gap)}," in plan.recommendation
    assert f"gap {in_words(plan.gap)} for" in str(FollowUp(epsilon=1, gap=plan.gap, window=300).guarantee)
    assert plan.covered == covered(history, gap=plan.gap, window=300)
    assert plan_delays(history).gap == rounded_up(choose_gap(history, percentile=50, window=300))
    table = plan.table()
    assert table["mechanism"].to_list() == ["FollowUp", "ZeroInflatedUniform", "Staircase", "Exponential"]
    best = FollowUp(epsilon="0.8", gap=plan.gap, window=300)
    assert table.row(0) == ("FollowUp", best.mean_batched, best.mean_unbatched, best.max_delay)
    held = timing.Exponential(epsilon="0.8", gap=plan.gap, window=300)
    assert table.row(3) == ("Exponential", 300 + held.mean_batched, 300 + held.mean_unbatched, None)
    assert plan.recommendation == plan.summary() == plan.to_dict()["recommendation"]
    assert "FollowUp with epsilon 0.8" in plan.recommendation
    with pytest.raises(BadInput, match="either percentile= or crossover="):
        plan_delays(history, percentile=50, crossover=0.2)


def test_a_plan_has_a_gap_for_each_group_that_posting_takes(tmp_path: Path) -> None:
    events = synthetic_conference(papers=60, reviewers=40, seed=1).events
    frame = events.frame.with_columns(track=pl.int_range(pl.len()) % 2)
    plan = plan_delays(frame, percentile=25, per="track")
    assert plan.per == "track"
    assert set(plan.gaps) == {0, 1}
    mechanism = FollowUp(epsilon=1, gap=plan.gap, window=300)
    _, schedule = post(frame, mechanism=mechanism, gaps=plan.gaps, by=plan.per, randomness=Randomness.simulation(1))
    assert schedule.gap is not None
    assert set(schedule.gap.tolist()) == set(plan.gaps.values())
    file = tmp_path / "gaps.csv"
    plan.gaps_frame().write_csv(file)
    same = post(frame, mechanism=mechanism, gaps=file, randomness=Randomness.simulation(1))  # the file names the column
    assert same.operator.posted.tolist() == schedule.posted.tolist()
    assert plan_delays(events, percentile=25, per="thread").gaps == timing.choose_gaps(
        events, percentile=25, window=300
    )


@pytest.mark.parametrize("form", ["events", "frame", "file"])
def test_every_function_takes_a_table_a_frame_or_a_file(form: str, tmp_path: Path) -> None:
    events = Events.from_frame(synthetic_conference(papers=30, reviewers=20, seed=1).events.frame)
    renamed = events.frame.rename({"actor": "user"})
    renamed.write_parquet(tmp_path / "log.parquet")
    data: Any = {"events": events, "frame": renamed, "file": tmp_path / "log.parquet"}[form]
    columns = None if form == "events" else {"actor": "user"}
    simulation = Randomness.simulation

    def results(data: Any, columns: Any) -> list[Any]:
        return [
            post(data, mechanism=MECHANISM, columns=columns, randomness=simulation(1)).public.to_dict(),
            audit_log(data, percentile=25, epsilons=[1], columns=columns, randomness=simulation(1)).to_dict(),
            audit_table(data, columns=columns).to_dict(),
            plan_delays(data, columns=columns).to_dict(),
            find_batches(data, window=300, columns=columns).to_dict(),
            linkage_attack(data, window=300, columns=columns).to_dict(),
            partial_adoption(data, mechanism=MECHANISM, shares=[0.5], columns=columns),
            choose_gap(data, percentile=25, columns=columns),
            timing.choose_gaps(data, percentile=25, columns=columns),
            intervals(data, columns=columns).tolist(),
            covered(data, gap=3600, columns=columns),
            find_leaks(data, columns=columns),
        ]

    assert results(data, columns) == results(events, None)


def test_every_result_has_a_summary_json_a_table_and_files(tmp_path: Path) -> None:
    log = Events.from_frame(marked_log())
    posted, schedule = post(log, mechanism=MECHANISM, randomness=Randomness.simulation(1))
    results = [
        posted, schedule, plan_delays(log), audit_log(log, percentile=25, epsilons=[1]), audit_table(log),
        find_batches(log, window=300), linkage_attack(log, window=300), timing.exact_check(MECHANISM),
        timing.optimal_attack(MECHANISM, (0, 3600), cells=20),
    ]  # fmt: skip
    for number, result in enumerate(results):
        assert result.summary() != type(result).__name__
        assert json.loads(result.to_json()) == result.to_dict()
        paths = result.save(tmp_path / str(number))
        if not isinstance(result, timing.check.LossCheck):
            assert result.frame().height  # type: ignore[attr-defined]
        modes = {stat.S_IMODE(path.stat().st_mode) for path in paths}
        assert (modes == {0o600}) is result.operator_only
