"""Columns under other names: capitals and signs are no difference, everything else is asked, and the question helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from peerveil.data import BadTable, Reviews
from peerveil.data.readers.recognize import nearest, recognize


def test_capitals_and_signs_are_read_and_noted(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("Paper #,Reviewer,Score\n1,ann,3\n1,bob,4\n")
    reviews = Reviews.read(path)
    assert reviews.has_reviewers
    assert "column 'Paper #' was read as paper" in reviews.notes
    assert recognize(path).kinds == ("Reviews",)


def test_two_columns_that_look_alike_are_not_chosen_between(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("Paper #,PAPER,score\n1,2,3\n")
    with pytest.raises(BadTable, match="no column paper"):
        Reviews.read(path)


def test_a_given_name_is_never_overruled(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("Paper,submission,score\n1,7,3\n2,8,4\n")
    assert Reviews.read(path, columns={"paper": "submission"}).frame["paper"].to_list() == [7, 8]


def test_optional_columns_are_suggested_too(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("Paper #,Reviewer,Overall merit\n1,ann,3\n")
    with pytest.raises(
        BadTable, match=r"--column paper='Paper #' --column reviewer=Reviewer --column score='Overall merit'"
    ):
        Reviews.read(path)


@pytest.mark.parametrize(
    ("header", "kind", "columns"),
    [
        ("Paper #,Reviewer,Overall merit", "Reviews", {"paper": "Paper #", "score": "Overall merit", "reviewer": "Reviewer"}),
        ("Paper #,Reviewer,Submitted at", "Events", {"actor": "Reviewer", "thread": "Paper #", "time": "Submitted at"}),
        ("image,annotator,has_bird", "Labels", {"task": "image", "worker": "annotator", "label": "has_bird"}),
        ("a,b,c", None, {}),
    ],
)  # fmt: skip
def test_the_nearest_kind(tmp_path: Path, header: str, kind: str | None, columns: dict[str, str]) -> None:
    path = tmp_path / "table.csv"
    path.write_text(f"{header}\n1,2,3\n")
    guess = nearest(path)
    if kind is None:
        assert guess is None
    else:
        assert guess is not None
        assert guess[0] == kind
        assert guess[1] == columns
