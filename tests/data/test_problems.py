import pickle

import pytest

from peerveil.core.errors import BadInput
from peerveil.data import BadTable, Labels, Problem, Reviews
from peerveil.data.problems import ProblemLog, TableSource


def test_message_points_to_file_row_line_and_column() -> None:
    problem = Problem("reviews.csv", "abc", "a number", row=17, line=18, column="score")
    error = BadTable([problem])
    assert str(error) == "reviews.csv, row 17 (line 18), column score: got 'abc', need a number"
    assert isinstance(error, BadInput)
    assert isinstance(error, ValueError)
    assert error.argument == "reviews.csv, row 17 (line 18), column score"


def test_at_most_twenty_are_kept_and_all_are_counted() -> None:
    with pytest.raises(BadTable) as caught:
        Reviews(paper=list(range(50)), score=[float("inf")] * 50)
    assert len(caught.value.problems) == 20
    assert caught.value.total == 50
    assert [problem.row for problem in caught.value.problems[:3]] == [1, 2, 3]
    assert str(caught.value).endswith("and 45 more")


def test_problems_of_several_columns_come_in_order_of_rows() -> None:
    with pytest.raises(BadTable) as caught:
        Labels(task=[1, 2, None], worker=[None, 1, 1], label=["a", None, "b"])
    assert [(problem.row, problem.column) for problem in caught.value.problems] == [
        (1, "worker"),
        (2, "label"),
        (3, "task"),
    ]


def test_survives_pickling() -> None:
    error = BadTable([Problem("x.csv", 1, "two", row=1)], total=7)
    again = pickle.loads(pickle.dumps(error))
    assert (again.problems, again.total, str(again)) == (error.problems, 7, str(error))


def test_no_problem_is_no_error() -> None:
    ProblemLog(TableSource("x")).raise_any()
    with pytest.raises(BadInput):
        BadTable([])
