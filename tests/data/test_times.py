from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerveil.core.errors import BadInput
from peerveil.data import BadTable, Events

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def one(time: object, **options: object) -> datetime:
    events = Events(actor=["a"], thread=["t"], time=time, **options)  # type: ignore[arg-type]
    moment: datetime = events.frame["time"][0]
    return moment


@pytest.mark.parametrize(
    "time",
    [
        ["2026-03-01T12:00:00Z"],
        ["2026-03-01T12:00Z"],
        ["2026-03-01 12:00:00+00:00"],
        ["2026-03-01T14:00:00+0200"],
        ["2026-03-01T07:00:00.000-05:00"],
        ["2026-03-01T12:00:00.000000"],
        ["2026-03-01 12:00"],
        [1772366400],
        [1772366400.0],
        [1772366400000],
        [1772366400000000],
        [1772366400000000000],
        ["1772366400"],
        [NOON],
        [datetime(2026, 3, 1, 12)],
        [datetime(2026, 3, 1, 14, tzinfo=timezone(timedelta(hours=2)))],
        np.array(["2026-03-01T12:00:00"], dtype="datetime64[ns]"),
        np.array(["2026-03-01T12:00:00"], dtype="datetime64[s]"),
        pl.Series([NOON]).dt.convert_time_zone("Asia/Tokyo"),
    ],
)
def test_every_way_of_saying_noon(time: object) -> None:
    assert one(time) == NOON


def test_dates_are_midnight() -> None:
    assert one(["2026-03-01"]) == datetime(2026, 3, 1, tzinfo=UTC)
    assert one([date(2026, 3, 1)]) == datetime(2026, 3, 1, tzinfo=UTC)


def test_bare_times_are_read_in_the_zone_that_is_given() -> None:
    assert one(["2026-07-01 12:00:00"], time_zone="Europe/Zurich") == datetime(2026, 7, 1, 10, tzinfo=UTC)
    assert one(["2026-07-01T12:00:00Z"], time_zone="Europe/Zurich") == datetime(2026, 7, 1, 12, tzinfo=UTC)


def test_python_times_of_several_zones_meet_in_utc() -> None:
    events = Events(
        actor=["a", "b"],
        thread=["t", "t"],
        time=[NOON, datetime(2026, 3, 1, 12, tzinfo=timezone(timedelta(hours=2)))],
    )
    assert (events.frame["time"][1] - events.frame["time"][0]) == timedelta(hours=2)
    assert events.frame["actor"].to_list() == ["b", "a"]


@pytest.mark.parametrize("clock", ["2026-03-29 02:30:00", "2025-10-26 02:30:00"])
def test_times_that_happened_never_or_twice_are_refused(clock: str) -> None:
    with pytest.raises(BadTable, match="exactly once in Europe/Zurich"):
        one([clock], time_zone="Europe/Zurich")


@pytest.mark.parametrize(
    ("times", "row"),
    [
        (["2026-03-01T12:00:00Z", "2026-03-01T12:00:00Z", "2026-03-01T13:00:00"], 3),
        (["2026-03-01T12:00:00", "2026-03-01T12:00:00+01:00", "2026-03-01T13:00:00"], 2),
        (["2026-03-01T12:00:00Z", "2026-13-01T12:00:00Z", "2026-03-01T13:00:00Z"], 2),
        (["2026-03-01T12:00:00Z", "noon", "2026-03-01T13:00:00Z"], 2),
        (["2026-03-01T12:00:00Z", None, "2026-03-01T13:00:00Z"], 2),
        (["2026-03-01T12:00:00Z", "", "2026-03-01T13:00:00Z"], 2),
        ([1772366400, 1772366400, 1772366400000], 1),
        ([1772366400.0, float("nan"), 1772366400.0], 2),
        ([1772366400.0, float("inf"), 1772366400.0], 2),
    ],
)
def test_bad_times_are_named_by_row(times: list[object], row: int) -> None:
    with pytest.raises(BadTable) as caught:
        Events(actor=[1, 2, 3], thread=[1, 1, 1], time=times)
    assert caught.value.problems[0].row == row
    assert caught.value.problems[0].column == "time"


def test_mixed_python_times_are_refused_by_row() -> None:
    with pytest.raises(BadTable, match=r"row 2 \(index 1\), column time"):
        Events(actor=[1, 2], thread=[1, 1], time=[NOON, datetime(2026, 3, 1, 12)])


@pytest.mark.parametrize("time", [[True], [["x"]], [{"a": 1}], [2**80], ["99999-01-01T00:00:00Z"], [9e25]])
def test_what_is_no_time_is_refused(time: object) -> None:
    with pytest.raises(BadInput):
        one(time)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", 5])
def test_unknown_zone(zone: object) -> None:
    with pytest.raises(BadInput, match="time_zone"):
        one(["2026-03-01T12:00:00"], time_zone=zone)


def test_future_is_refused_only_when_now_is_given() -> None:
    later = ["2126-03-01T12:00:00Z"]
    assert one(later).year == 2126
    with pytest.raises(BadTable, match="not after 2026-03-01"):
        one(later, now=NOON)
    assert one([NOON], now=NOON) == NOON
    with pytest.raises(BadInput, match="now"):
        one(later, now=datetime(2026, 3, 1))


@given(st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1), timezones=st.timezones()))
def test_text_with_a_zone_means_that_moment(moment: datetime) -> None:
    utc = moment.astimezone(UTC)
    assert one([utc.isoformat()]) == utc
    assert one([moment]) == utc
