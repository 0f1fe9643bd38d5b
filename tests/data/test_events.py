from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerveil.core.errors import BadInput
from peerveil.data import BadTable, Events

DATA = Path(__file__).parent / "data"


def test_sorted_by_time_and_stable_in_ties() -> None:
    events = Events(actor=["c", "a", "b", "d"], thread=[1] * 4, time=[20, 10, 10, 5], id=["w", "x", "y", "z"])
    assert events.frame["id"].to_list() == ["z", "x", "y", "w"]
    assert (np.diff(events.times) >= 0).all()
    with pytest.raises(ValueError, match="read-only"):
        events.times[0] = 0


def test_ids_are_given_by_content_not_by_row_order() -> None:
    first = Events(actor=["b", "a", "a"], thread=[1, 2, 1], time=[10, 10, 5])
    second = Events(actor=["a", "a", "b"], thread=[1, 2, 1], time=[5, 10, 10])
    assert first == second
    assert first.frame["id"].to_list() == [0, 2, 1]  # rows of one moment stay as they came
    assert second.frame["id"].to_list() == [0, 1, 2]


def test_one_event() -> None:
    events = Events(actor=["a"], thread=["t"], time=[0])
    assert str(events) == "1 event by 1 actor in 1 thread, 1970-01-01 00:00 to 1970-01-01 00:00 UTC"


def test_repeated_ids_are_named() -> None:
    with pytest.raises(BadTable) as caught:
        Events(actor=[1, 2, 3], thread=[1, 1, 1], time=[1, 2, 3], id=["x", "y", "x"])
    assert [(problem.row, problem.got) for problem in caught.value.problems] == [(3, "x")]


def test_replies() -> None:
    columns: dict[str, Any] = {
        "actor": ["a", "b", "a"],
        "thread": [1, 1, 1],
        "time": [1, 2, 3],
        "id": ["x", "y", "z"],
    }
    events = Events(**columns, reply_to=[None, "x", "y"])
    assert events.has_replies
    assert str(events).endswith("2 replies")
    assert not Events(**columns, reply_to=[None, None, None]).has_replies
    with pytest.raises(BadTable, match=r"row 3 .*column reply_to: got 'gone'.*unknown_replies='drop'"):
        Events(**columns, reply_to=[None, "x", "gone"])
    dropped = Events(**columns, reply_to=[None, "x", "gone"], unknown_replies="drop")
    assert dropped.frame["reply_to"].to_list() == [None, "x", None]
    assert dropped.notes == ("taken as answering nothing, since the post is not in the table: 1",)
    with pytest.raises(BadInput, match="unknown_replies"):
        Events(**columns, unknown_replies="ignore")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="reply_to"):
        Events(actor=[1], thread=[1], time=[1], reply_to=["x"])


@pytest.mark.parametrize("reply_to", [["x", None, None], ["y", "z", "x"], [None, "z", "y"]])
def test_circles_of_replies_are_refused(reply_to: list[str | None]) -> None:
    with pytest.raises(BadTable, match="answer itself"):
        Events(actor=[1, 2, 3], thread=[1, 1, 1], time=[1, 2, 3], id=["x", "y", "z"], reply_to=reply_to)


def test_a_long_chain_is_no_circle() -> None:
    size = 5_000
    parents = [None, *range(size - 1)]
    events = Events(actor=[1] * size, thread=[1] * size, time=range(size), id=range(size), reply_to=parents)
    assert events.frame["reply_to"].null_count() == 1


@given(st.lists(st.integers(-1, 7), min_size=1, max_size=8))
def test_circle_search_agrees_with_walking(parents: list[int]) -> None:
    parents = [min(parent, len(parents) - 1) for parent in parents]
    ids = [f"n{row}" for row in range(len(parents))]
    reply_to = [None if parent < 0 else f"n{parent}" for parent in parents]

    def reaches_the_top(row: int) -> bool:
        for _ in range(len(parents) + 1):
            if row < 0:
                return True
            row = parents[row]
        return False

    rows = [1] * len(parents)
    if all(reaches_the_top(row) for row in range(len(parents))):
        Events(actor=rows, thread=rows, time=rows, id=ids, reply_to=reply_to)
    else:
        with pytest.raises(BadTable) as caught:
            Events(actor=rows, thread=rows, time=rows, id=ids, reply_to=reply_to)
        stuck = [row + 1 for row in range(len(parents)) if not reaches_the_top(row)]
        assert [problem.row for problem in caught.value.problems] == stuck


def test_second_clocks_and_counters_are_kept() -> None:
    frame = pl.DataFrame(
        {
            "actor": [1, 2],
            "thread": [1, 1],
            "time": [1_700_000_000_000, 1_700_000_100_000],
            "tcdate": [1_699_000_000_123, None],
            "number": [2, 1],
            "wiki": ["en", "de"],
        }
    )
    events = Events.from_frame(frame)
    assert events.extra == ("tcdate", "number")
    assert events.frame["tcdate"].to_list()[1] is None
    assert events.frame["tcdate"][0].microsecond == 123_000
    assert Events.from_frame(frame, extra=["wiki"]).extra == ("wiki",)
    with pytest.raises(BadTable, match="no column planet"):
        Events.from_frame(frame, extra=["planet"])
    with pytest.raises(BadInput, match="extra"):
        Events(actor=[1], thread=[1], time=[1], extra={"id": [1]})


def test_real_edits() -> None:
    events = Events.read(DATA / "wikipedia_edits_head.csv.gz")
    assert events.notes[:2] == ("column 'user' was read as actor", "column 'page' was read as thread")
    assert len(events) == 2_000
    assert events.frame["time"][0].isoformat() == "2015-09-12T00:46:58.771000+00:00"
    named = Events.read(DATA / "wikipedia_edits_head.csv.gz", columns={"actor": "user", "thread": "page"})
    assert named == events
