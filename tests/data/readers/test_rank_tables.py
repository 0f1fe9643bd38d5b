"""Wide tables of rankings, whichever way round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pytest

from peerveil import BadInput
from peerveil.data import BadTable, Rankings, recognize
from peerveil.rankings import uniformity_test

ORDERS = [["tea", "milk", "juice"], ["milk", "juice", "tea"], ["juice", "tea", "milk"]]
WANTED = Rankings.from_orders(ORDERS, ["juice", "milk", "tea"])


def write(tmp_path: Path, header: str, rows: list[list[Any]], name: str = "votes.csv") -> Path:
    path = tmp_path / name
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "header",
    [
        "rank1,rank2,rank3",
        "Rank 1,Rank 2,Rank 3",
        "choice_1,choice_2,choice_3",
        "1st,2nd,3rd",
        "1st choice,2nd choice,3rd choice",
        "first,second,third",
        "First choice,Second choice,Third choice",
        "rank0,rank1,rank2",
    ],
)
@pytest.mark.parametrize("people", ["", "voter,", "Respondent ID,", "id,"])
def test_columns_of_places_that_hold_items(header: str, people: str, tmp_path: Path) -> None:
    rows = [[*([f"p{i}"] if people else []), *order] for i, order in enumerate(ORDERS)]
    file = write(tmp_path, people + header, rows)
    assert Rankings.read(file) == WANTED
    assert recognize(file).kinds == ("Rankings",)


def test_the_order_of_the_columns_does_not_matter_and_gaps_are_left_out(tmp_path: Path) -> None:
    file = write(tmp_path, "voter,rank2,rank1,rank3,count", [[1, "milk", "tea", "juice", 2], [2, "", "milk", "tea", 1]])
    rankings = Rankings.read(file)
    assert rankings == Rankings.from_orders(
        [["tea", "milk", "juice"], ["milk", "tea"]], ["juice", "milk", "tea"], [2, 1]
    )
    assert "voter" in rankings.notes[0]


def test_numbers_under_places_are_a_question_and_never_a_guess(tmp_path: Path) -> None:
    file = write(tmp_path, "voter,rank1,rank2,rank3", [[1, 3, 1, 2], [2, 2, 3, 1]])
    with pytest.raises(BadTable, match=r"numbers in the columns rank1, rank2, .*--layout orders.*--layout places"):
        Rankings.read(file)
    orders, places = Rankings.read(file, layout="orders"), Rankings.read(file, layout="places")
    assert orders.items == ("1", "2", "3")
    assert places.items == ("rank1", "rank2", "rank3")
    assert orders.ranks.tolist() == [[1, 2, 0], [2, 0, 1]]
    assert places.ranks.tolist() == [[2, 0, 1], [1, 2, 0]]  # the inverse permutations
    assert np.array_equal(np.argsort(orders.ranks, axis=1), places.ranks)


def test_words_among_numbers_are_items(tmp_path: Path) -> None:
    rankings = Rankings.read(write(tmp_path, "rank1,rank2", [["7up", 42], [42, "7up"]]))
    assert rankings.items == ("42", "7up")
    with pytest.raises(BadTable, match="numbers in the columns rank1, rank2"):
        Rankings.read(write(tmp_path, "rank1,rank2,rank3", [[1, 2, 3], [3, 2, "x"]]))
    with pytest.raises(BadTable, match="no cell with an item in the column rank1"):
        Rankings.read(write(tmp_path, "voter,rank1,rank2", [[1, "", ""], [2, "", ""]]))


def test_forms_and_long_tables_of_people(tmp_path: Path) -> None:
    rows = [[f"2024-01-0{i + 1}", f"p{i}", *order] for i, order in enumerate(ORDERS)]
    rankings = Rankings.read(write(tmp_path, "Timestamp,Email Address,1st choice,2nd choice,3rd choice", rows))
    assert rankings == WANTED
    assert rankings.notes == ("left out Timestamp, Email Address: by its name no item",)
    long = [[f"p{i}", item, place + 1] for i, order in enumerate(ORDERS) for place, item in enumerate(order)]
    rankings = Rankings.read(write(tmp_path, "voter,item,rank", long))
    assert rankings == WANTED
    assert "voter" in rankings.notes[0]


def test_people_beside_items_are_left_out(tmp_path: Path) -> None:
    file = write(tmp_path, "voter,tea,milk,juice", [["ann", 1, 2, 3], ["bo", 3, 1, 2]])
    assert Rankings.read(file).items == ("tea", "milk", "juice")
    numbered = write(tmp_path, "voter,tea,milk,juice", [[17, 1, 2, 3], [18, 3, 1, 2]])
    assert Rankings.read(numbered) == Rankings.read(file)


@pytest.mark.parametrize(
    ("header", "rows", "message"),
    [
        ("a,b", [["x", "y"], ["y", "x"]], "words in column a, such as 'x', need one of three layouts"),
        ("rank1,rank2", [["x", "x"], ["y", "x"]], "column rank2: got 'x', need every item once in a row"),
        ("tea,milk", [[1, 2], [2, "often"]], "row 2 .*column milk: got 'often', need a rank"),
    ],
)
def test_what_cannot_be_read_says_what_could(header: str, rows: list[list[Any]], message: str, tmp_path: Path) -> None:
    with pytest.raises(BadTable, match=message):
        Rankings.read(write(tmp_path, header, rows))


def test_frames_and_bad_layouts(tmp_path: Path) -> None:
    frame = pd.DataFrame(ORDERS, columns=["rank1", "rank2", "rank3"])
    frame.insert(0, "voter", [7, 8, 9])
    assert Rankings.from_frame(frame) == WANTED == Rankings.of(frame) == Rankings.from_frame(pl.from_pandas(frame))
    assert uniformity_test(frame).items == 3
    assert uniformity_test(pl.DataFrame({"tea": [1, 2], "milk": [2, 1]})).rankings == 2
    gaps = pd.DataFrame({"rank1": [3, 1], "rank2": [1, None]})  # pandas turns these into 1.0 and NaN
    assert Rankings.from_frame(gaps, layout="orders").items == ("1", "3")
    with pytest.raises(BadInput, match="^layout: got 'upside down'"):
        Rankings.from_frame(frame, layout="upside down")
    preflib = WANTED.write(tmp_path / "votes.soc")
    with pytest.raises(BadInput, match="PrefLib has only one"):
        Rankings.read(preflib, layout="orders")
    with pytest.raises(BadTable, match=r"row 2 .*no item in the row"):
        Rankings.from_frame({"rank1": ["x", None], "rank2": ["y", ""]})
    known = Rankings.from_frame(frame, items=["tea", "milk", "juice", "water"])
    assert known.items == ("tea", "milk", "juice", "water")
    with pytest.raises(BadTable, match="column rank1: got 'tea', need one of the 2 items given"):
        Rankings.from_frame(frame, items=["milk", "juice"])
