"""A clock that steps stops everything; nothing is early, whatever the clock does."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select
from tests.web.gateway.helpers import SECOND, FakeTime, everything, open_gateway, schedule, submit, work

from peerveil.core.errors import BadInput
from peerveil.web.gateway import Gateway
from peerveil.web.gateway.tables import clock
from peerveil.web.gateway.watch import Halted

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


def test_without_the_watch_a_step_would_release_early(sqlite_url: str, make: Any, time: FakeTime) -> None:
    """The planted fault: a watch that tolerates everything."""
    gateway = make(sqlite_url)
    gateway.watch._tolerance = 10**18
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
