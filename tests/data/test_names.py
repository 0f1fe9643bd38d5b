"""Columns under other names: those that can hardly mean anything else are taken and noted, the others are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from peerveil.data import BadTable, Rankings, Reviews
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


def test_a_usual_name_is_taken_and_noted(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("Submission,PC member,Overall merit,created at\n1,ann,3,2026-01-05\n")
    reviews = Reviews.read(path)
    assert reviews == Reviews(paper=[1], reviewer=["ann"], score=[3], time=["2026-01-05"])
    assert reviews.notes == (
        "column 'Submission' was read as paper",
        "column 'PC member' was read as reviewer",
        "column 'Overall merit' was read as score",
        "column 'created at' was read as time",
    )
    assert recognize(path).kinds == ("Reviews",)


def test_our_own_name_comes_before_usual_ones(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("paper,submission,score,rating\n1,7,3,4\n")
    reviews = Reviews.read(path)
    assert reviews.notes == ()
    assert reviews.criteria == ("submission", "rating")


def test_two_usual_names_are_not_chosen_between(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("submission,paper_id,score\n1,2,3\n")
    with pytest.raises(BadTable, match=r"no column paper, need one among .* columns=\{'paper': 'submission'\}"):
        Reviews.read(path)
    path.write_text("paper,score,reviewer_name,reviewer_email\n1,2,ann,a@b.org\n")
    reviews = Reviews.read(path)
    assert not reviews.has_reviewers
    assert reviews.notes == (
        "no column was read as reviewer, since reviewer_name and reviewer_email could be meant: name one in columns= "
        "(on the command line: --column reviewer=reviewer_name)",
    )
    assert Reviews.read(path, columns={"reviewer": "reviewer_email"}).has_reviewers


def test_a_name_with_other_meanings_is_only_suggested(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("paper,grade\n1,2\n")
    with pytest.raises(BadTable, match=r"no column score, .* columns=\{'score': 'grade'\}"):
        Reviews.read(path)
    path.write_text("paper,score,email\n1,2,a@b.org\n")  # an optional column is left out, as it always was
    assert not Reviews.read(path).has_reviewers
    assert Reviews.read(path).notes == ()


def test_names_of_rankings_are_never_taken() -> None:
    """They could be items of a wide table."""
    with pytest.raises(BadTable):
        Rankings.from_frame({"voter": ["a", "a"], "candidate": ["x", "y"], "position": [1, 2]})
    wide = Rankings.from_frame({"position": [1], "candidate": [2]})
    assert wide.items == ("position", "candidate")


def test_optional_columns_are_suggested_too(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("Paper #,Reviewer,Grade\n1,ann,3\n")
    with pytest.raises(BadTable, match=r"--column paper='Paper #' --column reviewer=Reviewer --column score=Grade"):
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
