from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from peerveil.core.errors import BadInput
from peerveil.data import BadTable, Reviews

DATA = Path(__file__).parent / "data"


def small(**changes: object) -> Reviews:
    columns: dict[str, object] = {"paper": [1, 1, 2], "reviewer": ["a", "b", "a"], "score": [6.0, 8.0, 3.0]}
    columns.update(changes)
    return Reviews(**columns)  # type: ignore[arg-type]


def test_columns_and_arrays() -> None:
    reviews = small(criteria={"soundness": [3, 4, 2], "clarity": [1, 2, 3]}, time=[3e9, 1e9, 2e9])
    assert reviews.frame.columns == ["paper", "reviewer", "score", "time", "soundness", "clarity"]
    assert reviews.criteria == ("soundness", "clarity")
    assert reviews.criteria_scores.tolist() == [[3, 1], [4, 2], [2, 3]]
    assert reviews.scores.tolist() == [6, 8, 3]
    codes, values = reviews.numbered("reviewer")
    assert (codes.tolist(), values.to_list()) == ([0, 1, 0], ["a", "b"])
    assert reviews.has_times
    assert reviews.has_reviewers
    reviews.require_criteria("x")
    reviews.require_reviewers("x")
    reviews.require_times("x")


def test_nothing_can_be_changed_through_the_table() -> None:
    reviews = small(criteria={"soundness": [3, 4, 2]})
    before = reviews.fingerprint
    for array in (reviews.scores, reviews.criteria_scores, reviews.column("paper"), reviews.numbered("paper")[0]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9
    frame = reviews.frame
    frame[0, "score"] = 100.0
    frame.insert_column(0, pl.Series("x", [1, 2, 3]))
    with pytest.raises(AttributeError):
        reviews._frame = frame
    with pytest.raises(AttributeError):
        del reviews._frame
    assert reviews.scores[0] == 6.0
    assert reviews.frame.columns[0] == "paper"
    assert Reviews.from_frame(reviews.frame).fingerprint == before


def test_source_arrays_stay_the_callers() -> None:
    score = np.array([6.0, 8.0, 3.0])
    reviews = small(score=score)
    score[0] = 100.0
    assert reviews.scores[0] == 6.0


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), None])
def test_bad_scores_are_named(bad: float | None) -> None:
    with pytest.raises(BadTable) as caught:
        small(score=[6.0, bad, 3.0])
    assert [(problem.row, problem.column) for problem in caught.value.problems] == [(2, "score")]


def test_bad_criteria_are_named() -> None:
    with pytest.raises(BadTable, match=r"row 3 \(index 2\), column soundness: got nan.*criteria="):
        small(criteria={"soundness": [1, 2, float("nan")]})


def test_repeated_pairs_are_named_with_the_first_row() -> None:
    with pytest.raises(BadTable, match=r"row 3 \(index 2\), column reviewer: got 'a'.*row 1 is another"):
        small(paper=[1, 1, 1])


def test_partly_missing_reviewers_are_refused_and_wholly_missing_ones_are_not() -> None:
    with pytest.raises(BadTable, match="in every row, or in none"):
        small(reviewer=["a", None, "b"])
    assert not small(reviewer=[None, None, None]).has_reviewers
    assert not small(reviewer=["", "", ""]).has_reviewers


def test_requirements_say_what_needs_them() -> None:
    bare = Reviews(paper=[1], score=[5])
    for require in (bare.require_reviewers, bare.require_criteria, bare.require_times):
        with pytest.raises(BadInput, match="the great method"):
            require("the great method")
    assert "reviewers unknown" in str(bare)


@pytest.mark.parametrize(
    "changes",
    [
        {"paper": 5},
        {"paper": "abc"},
        {"paper": [1, "a", 2]},
        {"paper": [1.5, 2.0, 3.0]},
        {"paper": [[1], [2], [3]]},
        {"paper": []},
        {"paper": [1, 2]},
        {"paper": np.zeros((3, 1))},
        {"paper": np.zeros(3, dtype=complex)},
        {"score": ["a", "b", "c"]},
        {"score": [True, False, True]},
        {"criteria": [1, 2, 3]},
        {"criteria": {"score": [1, 2, 3]}},
        {"criteria": {"": [1, 2, 3]}},
        {"criteria": {"soundness": [1, 2]}},
    ],
)
def test_wrong_kinds_of_argument(changes: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        small(**changes)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint64, np.float32, np.float16])
def test_every_width_of_number_is_the_same_table(dtype: type) -> None:
    assert small(paper=np.array([1, 1, 2], dtype=dtype), score=np.array([6, 8, 3], dtype=dtype)) == small()


def test_ids_of_plain_whole_numbers_are_numbers_and_others_stay_text() -> None:
    assert small(paper=["1", "1", "2"]) == small()
    assert small(paper=["01", "01", "2"]).frame["paper"].to_list() == ["01", "01", "2"]
    huge = small(paper=[2**70, 2**70, 1])
    assert huge.frame["paper"].to_list() == [str(2**70), str(2**70), "1"]


class PandasLike:
    """The part of a pandas frame that we lean on."""

    def __init__(self, **columns: list[object]) -> None:
        self._columns = columns
        self.columns = list(columns)

    def __getitem__(self, name: str) -> Any:
        return np.array(self._columns[name], dtype=object)


def test_from_frames() -> None:
    mapping = {"paper": "submission", "score": "rating"}
    polars = pl.DataFrame({"submission": [1, 1, 2], "reviewer": ["a", "b", "a"], "rating": [6, 8, 3], "t": ["x"] * 3})
    pandas = PandasLike(submission=[1, 1, 2], reviewer=["a", "b", "a"], rating=[6, 8, 3])
    for frame in (polars, polars.lazy(), pandas, polars.to_dict(as_series=False)):
        assert Reviews.from_frame(frame, mapping) == small()
    with pytest.raises(BadInput, match="frame"):
        Reviews.from_frame(7)
    with pytest.raises(BadInput, match="columns"):
        Reviews.from_frame(polars, {"paper": 3})  # type: ignore[dict-item]
    with pytest.raises(BadInput, match="a name for 'author'"):
        Reviews.from_frame(polars, {"author": "reviewer"})
    assert Reviews.from_frame(polars) == small()
    with pytest.raises(BadTable, match=r"columns=\{'paper': 'item', 'score': 'grade'\}"):
        Reviews.from_frame(polars.rename({"submission": "item", "rating": "grade"}))


def test_criteria_are_chosen_or_taken_by_kind() -> None:
    frame = pl.DataFrame({"paper": [1, 2], "score": [1, 2], "a": [1, 2], "b": [3, 4], "title": ["x", "y"]})
    assert Reviews.from_frame(frame).criteria == ("a", "b")
    assert Reviews.from_frame(frame, criteria=["b"]).criteria == ("b",)
    assert Reviews.from_frame(frame, criteria=[]).criteria == ()
    with pytest.raises(BadTable, match="no column c, need some of a, b, title"):
        Reviews.from_frame(frame, criteria=["c"])
    for wrong in ("b", ["b", "b"], [1]):
        with pytest.raises(BadInput, match="criteria"):
            Reviews.from_frame(frame, criteria=wrong)


def test_real_conference() -> None:
    reviews = Reviews.read(DATA / "iclr2026_head.csv.gz")
    assert reviews.notes == ("column 'rating' was read as score",)
    assert len(reviews) == 2_000
    assert reviews.criteria == ("soundness", "presentation", "contribution", "confidence")
    assert not reviews.has_reviewers
    assert Reviews.read(DATA / "iclr2026_head.csv.gz", columns={"score": "rating"}) == reviews
