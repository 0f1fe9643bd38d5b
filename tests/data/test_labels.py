from pathlib import Path

import numpy as np
import pytest

from peerveil.core.errors import BadInput
from peerveil.data import BadTable, Labels

DATA = Path(__file__).parent / "data"


def of(labels: list[object], truth: list[object] | None = None) -> Labels:
    return Labels(task=list(range(len(labels))), worker=[1] * len(labels), label=labels, truth=truth)


@pytest.mark.parametrize(
    ("labels", "classes", "codes"),
    [
        (["b", "a"], ["a", "b", "c"], [1, 0]),
        ([0, 2, 1], 3, [0, 2, 1]),
        ([5, 9], [9, 5], [1, 0]),
        (["5", "9"], ["9", "5"], [1, 0]),
        (["5", "9"], [9, 5], [1, 0]),
        ([True, False], [True, False], [0, 1]),
        ([True, False], 2, [1, 0]),
        (["true", "False"], [False, True], [1, 0]),
        ([1.0, 0.0], 2, [1, 0]),
        ([1, 0], [True, False], [0, 1]),
    ],
)
def test_codes(labels: list[object], classes: object, codes: list[int]) -> None:
    encoded = of(labels).codes(classes)  # type: ignore[arg-type]
    assert encoded.tolist() == codes
    assert encoded.dtype == np.int32
    with pytest.raises(ValueError, match="read-only"):
        encoded[0] = 0


@pytest.mark.parametrize(
    ("labels", "classes", "row"),
    [
        (["a", "z"], ["a", "b"], 2),
        ([0, 1, 3], 3, 3),
        ([0, -1], 3, 2),
        ([1, 2], ["a", "b"], 1),
        (["x", "y"], [1, 2], 1),
        ([True, False], ["yes", "no"], 1),
    ],
)
def test_answers_outside_the_classes_are_named(labels: list[object], classes: object, row: int) -> None:
    with pytest.raises(BadTable) as caught:
        of(labels).codes(classes)  # type: ignore[arg-type]
    assert caught.value.problems[0].row == row
    assert caught.value.problems[0].column == "label"


@pytest.mark.parametrize("classes", [0, -1, True, [], ["a", "a"], ["a", 1], "ab", None, 1.5, [1.5]])
def test_bad_classes(classes: object) -> None:
    with pytest.raises(BadInput, match="classes"):
        of([0, 1]).codes(classes)  # type: ignore[arg-type]


def test_no_way_to_learn_the_classes_from_the_table() -> None:
    assert not [name for name in dir(Labels) if "class" in name and not name.startswith("__")]
    assert "dog" not in str(of(["cat", "dog"])) + repr(of(["cat", "dog"]))


def test_repeated_pairs_are_counted() -> None:
    labels = Labels(task=[1, 1, 1, 2], worker=[1, 1, 1, 1], label=[0, 1, 0, 0])
    assert labels.repeated == 2
    assert "2 by a worker who had answered the task before" in str(labels)


def test_truth() -> None:
    labels = of(["a", "b", "a"], ["a", None, "b"])
    assert labels.truth_codes(["a", "b"]).tolist() == [0, -1, 1]
    assert labels.truths().rows() == [(0, "a"), (2, "b")]
    assert "right answer known for 2 tasks" in str(labels)
    assert of([1, 0], ["1.0", None]).frame["truth"].to_list() == [1, None]
    assert of([1, 0], [1.0, float("nan")]).frame["truth"].to_list() == [1, None]
    assert not of([1, 0], [None, None]).has_truth
    for none in (of([1, 0]).truths, lambda: of([1, 0]).truth_codes(2)):
        with pytest.raises(BadInput, match="truth"):
            none()
    with pytest.raises(BadTable, match="of the labels' kind"):
        of([1, 0], ["yes", None])
    with pytest.raises(BadTable, match="of the labels' kind"):
        of([True, False], [5, None])
    with pytest.raises(BadInput, match="one answer to task 1"):
        Labels(task=[1, 1], worker=[1, 2], label=[0, 1], truth=[0, 1]).truths()


@pytest.mark.parametrize("bad", [None, ""])
def test_missing_cells_are_named(bad: object) -> None:
    with pytest.raises(BadTable, match=r"row 2 \(index 1\), column label: got nothing, need a label"):
        of(["a", bad])


@pytest.mark.parametrize(
    "label",
    [[1.5, 2.0], [[1.5], [2]], [[1, 1], [2]], [[[1]], [[2]]], [[], [1]], [1, "a"], [b"a", b"b"], [float("inf"), 1.0]],
)
def test_wrong_kinds_of_label(label: list[object]) -> None:
    with pytest.raises(BadInput):
        of(label)


def test_real_crowds() -> None:
    birds = Labels.read(DATA / "crowd_bluebirds.csv.gz")
    assert (len(birds), birds.repeated) == (4_212, 0)
    majority = (birds.codes(2) == birds.truth_codes(2)).mean()
    assert 0.6 < majority < 0.8
    adult = Labels.read(DATA / "crowd_adult_content2_head.csv.gz")
    assert adult.repeated > 0
    assert set(adult.codes(["G", "P", "R", "X"]).tolist()) == {0, 1, 2, 3}
    assert adult.truths().height == 10
