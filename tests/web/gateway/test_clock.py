"""A clock that steps stops everything; nothing is early, whatever the clock does."""

from __future__ import annotations

import contextlib
import time as real_time
from typing import Any

import pytest
from hypothesis import given, settings, strategies
from sqlalchemy import create_engine, insert, select
from tests.web.gateway.helpers import SECOND, START, FakeTime, everything, open_gateway, schedule, submit, work

from peerveil.core.errors import BadInput
from peerveil.web.gateway import Gateway, examine, tables
from peerveil.web.gateway.tables import clock
from peerveil.web.gateway.watch import LONGEST_PAUSE, TOLERANCE, Halted, Stopwatch, Watch, synchronized_time

DAY = 86_400


def due(gateway: Gateway) -> list[int]:
    with gateway.database.reading() as connection:
        gateway.leader.shift = int(connection.execute(select(clock.c.shift)).scalar_one())
    return sorted(schedule(gateway).values())


def confirm(gateway: Gateway, what: str) -> int:
    with gateway.database.writing("confirm", whole=True) as connection:
        return gateway.watch.confirm(connection, what)


def state(gateway: Gateway) -> str:
    with gateway.database.reading() as connection:
        return str(connection.execute(select(clock.c.state)).scalar_one())


@pytest.mark.parametrize("seconds", [3600, -3600, 11, -11])
def test_a_step_halts_and_a_confirmed_step_keeps_every_delay(
    url: str, make: Any, time: FakeTime, seconds: float
) -> None:
    gateway = make(url)
    submit(gateway)
    work(gateway)
    before = due(gateway)
    time.step(seconds)
    for _ in range(2):
        with pytest.raises(Halted, match="clock moved"):
            work(gateway)
        with pytest.raises(Halted):
            submit(gateway, "other")
    assert everything(gateway) == []
    assert state(gateway) == "step"
    gateway.leader.drop()
    other = make(url)  # another process is told, too
    with pytest.raises(Halted):
        work(other)
    other.leader.drop()
    assert confirm(gateway, "step") == seconds * SECOND
    assert due(gateway) == [moment + seconds * SECOND for moment in before]
    time.advance((before[0] + seconds * SECOND - time.now) / SECOND - 0.001)
    work(gateway)
    assert everything(gateway) == []  # not early
    time.advance(0.001)
    work(gateway)
    assert len(everything(gateway)) == 1
    with pytest.raises(BadInput, match="not in doubt"):
        confirm(gateway, "step")


def test_without_the_watch_a_step_would_release_early(
    sqlite_url: str, make: Any, time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deliberate fault: a watch that believes the clock."""
    gateway = make(sqlite_url)
    monkeypatch.setattr(Watch, "_follow", lambda _self, shown, *_: shown)
    submit(gateway)
    work(gateway)
    time.step(3600)
    work(gateway)
    assert len(everything(gateway)) == 1


def test_small_steps_are_borne_and_time_never_runs_back(url: str, make: Any, time: FakeTime) -> None:
    gateway = make(url)
    work(gateway)
    for step in (1, -2, 9, -9.5):  # a leap second, slewing
        time.step(step)
        with gateway.database.reading() as connection:
            now = gateway.watch.now(connection)
            high = connection.execute(select(clock.c.high)).scalar_one()
        assert now >= high
        work(gateway)
    assert state(gateway) == "running"


def test_a_restart_is_measured_by_the_stopwatch(url: str, make: Any, time: FakeTime) -> None:
    gateway = make(url)
    submit(gateway)
    work(gateway)
    gateway.close()
    time.advance(30 * DAY)  # switched off for a month, the machine went on
    again = make(url)
    work(again)
    assert len(everything(again)) == 1
    submit(again, "b")
    work(again)
    again.close()
    time.step(3600)  # moved between two processes
    third = make(url)
    with pytest.raises(Halted):
        work(third)
    assert state(third) == "step"


def test_after_a_reboot_days_are_believed_and_more_is_asked(url: str, make: Any, time: FakeTime) -> None:
    gateway = make(url)
    submit(gateway)
    work(gateway)
    gateway.leader.drop()
    time.advance(2 * DAY)
    second = open_gateway(url, time, boot="boot 2")
    work(second)
    assert len(everything(second)) == 1
    submit(second, "b")
    work(second)
    second.close()
    time.step(400 * DAY)  # a battery ran out and the clock is somewhere
    third = open_gateway(url, time, boot="boot 3")
    with pytest.raises(Halted, match="pause"):
        work(third)
    assert confirm(third, "pause") == 0
    work(third)
    assert len(everything(third)) == 2
    third.close()
    time.step(-30)
    fourth = open_gateway(url, time, boot="boot 4")
    with pytest.raises(Halted):
        work(fourth)
    fourth.close()


def test_late_is_counted(url: str, make: Any, time: FakeTime) -> None:
    gateway = make(url)
    submit(gateway)
    time.advance(5000)
    work(gateway)
    counts = gateway.tallies()["forum"]
    assert (counts["released"], counts["late"]) == (1, 1)
    assert counts["lateness_sum"] > 4000 * SECOND


# ---- attacks on the clock ---------------------------------------------------------------------------------------


def test_a_clock_that_gains_less_than_the_tolerance_at_every_reading_releases_nothing_early(
    url: str, make: Any, time: FakeTime
) -> None:
    gateway = make(url)
    for k in range(50):
        submit(gateway, "t", str(k), actor=f"a{k}")
    for _ in range(30):
        time.step(9)
        with contextlib.suppress(Halted):
            work(gateway)
    assert everything(gateway) == []
    assert state(gateway) == "step"


def test_a_clock_days_ahead_after_a_reboot_releases_nothing_early(url: str, make: Any, time: FakeTime) -> None:
    gateway = make(url)
    for k in range(50):
        submit(gateway, "t", str(k), actor=f"a{k}")
    work(gateway)
    gateway.close()
    time.step(2 * DAY)
    time.is_synchronized = False  # the hardware's clock was wrong, and NTP has not answered yet
    again = open_gateway(url, time, boot="boot 2")
    for _ in range(2):
        with pytest.raises(Halted, match="waiting for NTP"):
            work(again)
    assert state(again) == "running"  # other machines go on
    time.step(-2 * DAY)
    time.advance(60)
    time.is_synchronized = True
    work(again)  # by itself
    due_now = [moment for moment in due(again) if moment <= time.now]
    assert due_now == []
    again.close()


def test_an_operator_confirms_a_reboot_without_ntp(url: str, make: Any, time: FakeTime) -> None:
    time.is_synchronized = False
    gateway = make(url)
    submit(gateway)
    work(gateway)
    gateway.close()
    time.advance(3600)
    again = open_gateway(url, time, boot="boot 2")
    with pytest.raises(Halted, match="waiting for NTP"):
        work(again)
    assert "waiting" in next(one for one in examine(again) if one.what == "clock").found
    before = due(again)
    assert confirm(again, "step") == pytest.approx(3600 * SECOND, abs=SECOND)
    assert due(again) == [moment + 3600 * SECOND for moment in before]  # as if no time had passed
    work(again)
    assert everything(again) == []
    again.close()


def test_a_confirmed_step_is_what_the_clock_is_off_by_now(sqlite_url: str, make: Any, time: FakeTime) -> None:
    """The clock goes back an hour, the gateway halts, the clock is set right again: only then the operator looks."""
    gateway = make(sqlite_url)
    submit(gateway)
    work(gateway)
    before = due(gateway)
    time.step(-3600)
    with pytest.raises(Halted):
        work(gateway)
    time.step(3600)
    assert confirm(gateway, "step") == 0
    assert due(gateway) == before


def test_other_processes_go_on_after_a_confirmed_step(sqlite_url: str, make: Any, time: FakeTime) -> None:
    gateway, other = make(sqlite_url), make(sqlite_url)
    work(gateway)
    other.read_clock()
    time.step(3600)
    with pytest.raises(Halted):
        work(gateway)
    confirm(gateway, "step")
    assert other.read_clock().now == time.now
    work(gateway)
    assert state(gateway) == "running"


def test_a_process_that_was_stopped_between_two_readings_does_not_halt(sqlite_url: str, make: Any) -> None:
    class Slow(FakeTime):
        def watch_for(self, boot: str = "boot 1", **more: Any) -> Watch:
            watch = super().watch_for(boot, **more)

            def source(_: Any) -> int:
                shown = self.now
                self.advance(60)  # stopped for a minute before the stopwatch is read again
                return shown

            watch.source = source
            return watch

    time = Slow()
    gateway = open_gateway(sqlite_url, time)
    work(gateway)
    work(gateway)
    assert state(gateway) == "running"
    gateway.close()


def test_the_stopwatch_and_the_kernel_are_read() -> None:
    first, second = Stopwatch(), Stopwatch()
    assert first.boot == second.boot
    earlier = first.read()
    assert 0 <= second.read() - earlier < 60 * SECOND
    assert synchronized_time() is None or abs(synchronized_time() - real_time.time_ns() // 1000) < SECOND  # type: ignore[operator]


class World:
    """True time; a database's clock that is stepped and slewed; machines with stopwatches and processes on them."""

    def __init__(self, errors: tuple[int, int]) -> None:
        self.true, self.clock, self.rate = START, START + 5 * SECOND, 1.0
        self.machines = [Machine(self, error) for error in errors]
        self.engine = create_engine("sqlite://")
        tables.clock.create(self.engine)
        self.connection = self.engine.connect()
        first = {"id": 1, "high": 0, "boot": "", "stopwatch": 0, "ahead": 0, "sure": 0, "state": "running"}
        self.connection.execute(insert(tables.clock).values(**first, step=0, confirmed=0, shift=0))
        self.processes = [self.machines[0].process(), self.machines[0].process(), self.machines[1].process()]
        self.held: list[tuple[int, int, int]] = []  # true arrival, due, delay
        self.changes = 0
        self.worst = 0.0

    def go_on(self, seconds: float) -> None:
        micros = round(seconds * SECOND)
        self.true += micros
        self.clock += round(micros * self.rate)

    def read(self, process: int) -> int | None:
        watch = self.processes[process]
        if watch._last is None:
            boot = self.connection.execute(select(tables.clock.c.boot)).scalar_one()
            self.changes += boot != watch.stopwatch.boot
        try:
            now = watch.now(self.connection)
        except Halted:
            return None
        watch.keep(self.connection, now)
        return now

    def take(self, process: int, delay: int) -> None:
        now = self.read(process)
        if now is not None:
            self.held.append((self.true, now + delay, delay))

    def publish(self, process: int) -> None:
        now = self.read(process)
        for post in [one for one in self.held if now is not None and one[1] <= now]:
            self.held.remove(post)
            arrival, _, delay = post
            allowed = delay / 1000 + self.changes * TOLERANCE
            self.worst = max(self.worst, delay - (self.true - arrival) - allowed)


class Machine:
    """A machine whose stopwatch is some parts in a million wrong."""

    def __init__(self, world: World, error: int) -> None:
        self.world, self.error = world, error
        self.started, self.starts, self.stood, self.is_synchronized = world.true, 0, 0, True

    def process(self) -> Watch:
        stopwatch = Stopwatch()
        stopwatch.boot = f"{id(self)} {self.starts}"
        stopwatch.read = lambda: round(  # type: ignore[method-assign]
            (self.world.true - self.started - self.stood) * (1 + self.error / 1e6)
        )
        reference = lambda: self.world.true + SECOND // 2 if self.is_synchronized else None  # noqa: E731
        return Watch(source=lambda _: self.world.clock, stopwatch=stopwatch, reference=reference)


EVENTS = strategies.one_of(
    strategies.tuples(strategies.just("go on"), strategies.floats(0, 4000)),
    strategies.tuples(strategies.just("step"), strategies.floats(-20, 20)),
    strategies.tuples(strategies.just("far step"), strategies.floats(-3e5, 3e5)),
    strategies.tuples(strategies.just("creep"), strategies.floats(-9.9, 9.9)),
    strategies.tuples(strategies.just("slew"), strategies.integers(-500, 500)),
    strategies.tuples(strategies.just("restart"), strategies.integers(0, 2)),
    strategies.tuples(strategies.just("reboot"), strategies.floats(0, 2e5)),
    strategies.tuples(strategies.just("reboot with a wrong clock"), strategies.floats(-3e5, 3e5)),
    strategies.tuples(strategies.just("stand still"), strategies.floats(0, 4000)),
    strategies.tuples(strategies.just("take"), strategies.integers(0, 2)),
)


def simulate(events: list[tuple[str, Any]], errors: tuple[int, int]) -> float:
    """By how much the earliest post was earlier than the bound allows, in microseconds; 0 if none was."""
    world = World(errors)
    world.take(0, 4000 * SECOND)
    for kind, size in events:
        machine = world.machines[int(abs(size)) % 2]
        if kind == "go on":
            world.go_on(size)
        elif kind in ("step", "far step"):
            world.clock += round(size * SECOND)
        elif kind == "creep":
            for _ in range(8):
                world.clock += round(size * SECOND)
                world.publish(0)
        elif kind == "slew":
            world.rate = 1 + size / 1e6
        elif kind == "restart":
            world.processes[size] = world.machines[size // 2].process()
        elif kind == "stand still":  # the host stops the machine; its stopwatch does not notice
            machine.stood += round(size * SECOND)
            world.go_on(size)
        elif kind == "take":
            world.take(size, 600 * SECOND)
        else:  # all machines start again; NTP sets the clock right, or has not answered yet
            is_wrong = kind != "reboot"
            world.go_on(0 if is_wrong else size)
            world.clock = world.true + (round(size * SECOND) if is_wrong else 0)
            for one in world.machines:
                one.starts, one.started, one.stood, one.is_synchronized = one.starts + 1, world.true, 0, not is_wrong
            world.processes = [world.machines[k // 2].process() for k in range(3)]
        for process in range(3):
            world.publish(process)
    world.connection.close()
    world.engine.dispose()
    return world.worst


@pytest.mark.parametrize("examples", [20, pytest.param(3000, marks=pytest.mark.slow)])
def test_no_post_is_early_beyond_the_stated_bound(examples: int) -> None:
    @settings(max_examples=examples, deadline=None, derandomize=True, database=None)
    @given(
        strategies.lists(EVENTS, max_size=20),
        strategies.tuples(strategies.integers(-100, 100), strategies.integers(-100, 100)),
    )
    def check(events: list[tuple[str, Any]], errors: tuple[int, int]) -> None:
        assert simulate(events, errors) == 0

    check()


@pytest.mark.parametrize(
    "fault",
    [
        ("_follow", lambda _self, shown, *_: shown),
        ("_after_restart", lambda self, row, shown: shown if shown - row.high < LONGEST_PAUSE else row.high),
        ("_agrees", lambda *_: True),
    ],
    ids=["believes the clock", "believes a reboot", "believes without NTP"],
)
def test_the_simulation_finds_a_watch_that_believes_too_much(
    fault: tuple[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watch, *fault)
    creeping: list[tuple[str, Any]] = [("creep", 9.0)] * 60
    assert max(simulate(creeping, (0, 0)), simulate([("reboot with a wrong clock", 2e5)], (0, 0))) > 0
