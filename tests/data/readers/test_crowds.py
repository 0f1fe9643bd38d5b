"""MTurk's batch results and Toloka's assignments, against small files in their layouts (see data/README.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from peerveil.core.errors import BadInput
from peerveil.data import BadTable, Labels, recognize

DATA = Path(__file__).parents[1] / "data"
MTURK, TOLOKA = DATA / "mturk_batch.csv", DATA / "toloka_assignments.tsv"
HEAD = "HITId,AssignmentId,WorkerId,AssignmentStatus"


def batch(folder: Path, columns: str, *rows: str) -> Path:
    """An MTurk batch with these answer columns: each row is HIT, worker, status, cells."""
    path = folder / "batch.csv"
    cells = [f"{hit},x{number},{rest}" for number, (hit, rest) in enumerate(row.split(",", 1) for row in rows)]
    path.write_text("\n".join([f"{HEAD},{columns}", *cells]) + "\n")
    return path


def test_mturk() -> None:
    labels = Labels.read(MTURK)
    assert labels.frame.rows() == [
        ("3AAA", "A1SYNTH", "sparrow"),
        ("3AAA", "A2SYNTH", "finch, or\nperhaps a sparrow"),
        ("3BBB", "A1SYNTH", "finch"),
    ]
    assert labels.notes == (
        "left out 2 of 6 assignments: rejected",  # one rejected, one that is to be
        "left out 1 of 4 rows: no answer in Answer.category.label",
    )
    named = Labels.read(MTURK, columns={"task": "Input.image_url", "truth": "Input.gold"})
    assert named.frame["task"].unique().sort().to_list() == ["https://example.org/1.jpg", "https://example.org/2.jpg"]
    assert named.truths().rows() == [("https://example.org/1.jpg", "sparrow")]


@pytest.mark.parametrize("columns", ["Answer.mood.good,Answer.mood.bad", "Answer.a.good,Answer.b.bad"])
def test_mturk_radio_buttons_with_one_name_or_several(tmp_path: Path, columns: str) -> None:
    path = batch(
        tmp_path, columns, "h1,w1,Approved,true,false", "h1,w2,Approved,FALSE,true", "h2,w1,Submitted,false,false"
    )
    labels = Labels.read(path)
    assert labels.frame["label"].to_list() == ["good", "bad"]
    (note,) = labels.notes
    assert note.startswith("left out 1 of 3 rows: no answer in Answer.")


def test_mturk_check_boxes_are_questions_of_their_own(tmp_path: Path) -> None:
    path = batch(tmp_path, "Answer.tag.cat,Answer.tag.dog", "h1,w1,Approved,true,true", "h1,w2,Approved,true,false")
    with pytest.raises(BadTable, match="2 answers per row: Answer.tag.cat, Answer.tag.dog"):
        Labels.read(path)
    assert Labels.read(path, columns={"label": "Answer.tag.dog"}).frame["label"].to_list() == [True, False]
    single = batch(tmp_path, "Answer.adult.on,Answer.agree.on", "h1,w1,Approved,true,false", "h1,w2,,false,false")
    assert Labels.read(single, columns={"label": "Answer.adult.on"}).frame["label"].to_list() == [True, False]


def test_of_several_answers_one_must_be_named_and_the_advice_works(tmp_path: Path) -> None:
    path = batch(tmp_path, "Answer.q1,Answer.q2.x,Answer.q2.y", "h1,w1,Approved,a,true,false", "h1,w2,,b,false,true")
    with pytest.raises(BadTable, match=r"--column label=Answer\.q1") as refused:
        Labels.read(path)
    suggestion = refused.value.problems[0].suggestion
    assert suggestion is not None
    assert Labels.read(path, columns=suggestion).frame["label"].to_list() == ["a", "b"]
    assert Labels.read(path, columns={"label": "Answer.q2"}).frame["label"].to_list() == ["x", "y"]
    with pytest.raises(BadTable, match="no answer Answer.q3, need some of Answer.q1, Answer.q2"):
        Labels.read(path, columns={"label": "Answer.q3"})
    with pytest.raises(BadTable, match="no column Input.url"):
        Labels.read(path, columns={"label": "Answer.q1", "task": "Input.url"})
    with pytest.raises(BadInput, match="label or task or truth only"):
        Labels.read(path, columns={"worker": "AssignmentId"})


def test_toloka(tmp_path: Path) -> None:
    with pytest.raises(BadTable, match="2 answers per row: OUTPUT:result, OUTPUT:comment"):
        Labels.read(TOLOKA)
    labels = Labels.read(TOLOKA, columns={"label": "OUTPUT:result"})
    assert labels.frame.rows() == [
        ("0001--t1", "w1", "cat", "cat"),
        ("0001--t2", "w1", "dog", None),
        ("0001--t1", "w2", "dog", "cat"),
        ("0001--t2", "w2", "dog", None),
    ]
    assert labels.notes == (
        "left out 2 of 7 answers: rejected, skipped or unfinished",
        "left out 1 of 5 rows: no answer in OUTPUT:result",
    )
    by_input = Labels.read(TOLOKA, columns={"label": "OUTPUT:result", "task": "INPUT:image"})
    assert by_input.truths().rows() == [("/a.jpg", "cat")]
    assert Labels.read(TOLOKA, columns={"label": "OUTPUT:comment"}).frame["label"].to_list() == ['says "meow"']
    comma = tmp_path / "frame.csv"  # as a frame of the client library is saved
    comma.write_text("INPUT:image,OUTPUT:result,ASSIGNMENT:worker_id\n/a.jpg,cat,w1\n/a.jpg,dog,w2\n")
    with pytest.raises(BadTable, match="--column task=INPUT:image"):
        Labels.read(comma)
    assert len(Labels.read(comma, columns={"task": "INPUT:image"})) == 2


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("b.csv", f"{HEAD}\nh,x,w,Approved\n", "no answers among the columns"),
        ("b.csv", f"{HEAD},Answer.q\n", "a header and no rows"),
        ("b.csv", f"{HEAD},Answer.q\nh,x,w,Rejected,a\n", r"no rows \(left out 1 of 1 assignments: rejected\)"),
        ("b.csv", f"{HEAD},Answer.q\nh,x,w,Approved,\n", "no answer in Answer.q"),
        ("b.csv", f"{HEAD},Answer.q\nh,x,w,Approved\n", "4 cells in row 1"),
        ("b.csv", f"{HEAD},Answer.q\n,x,w,Approved,a\n", r"row 1 \(line 2\), column HITId: got nothing"),
        ("b.csv", f"{HEAD},Answer.q\nh,x,,Approved,a\n", "column WorkerId: got nothing"),
        ("b.csv", f"{HEAD},Answer.q,Answer.q\nh,x,w,Approved,a,b\n", "Answer.q twice"),
        ("b.csv", f"{HEAD},Answer.q\nh,x,w,Approved,a\0\n", "zero byte"),
        ("b.tsv", "OUTPUT:r\tASSIGNMENT:worker_id\na\tw\n", "no column ASSIGNMENT:task_id"),
        ("b.tsv", "OUTPUT:r\tASSIGNMENT:worker_id\tASSIGNMENT:task_id\na\tw\tt\tx\n", "4 cells in row 1"),
        ("b.tsv", "INPUT:r\tASSIGNMENT:worker_id\tASSIGNMENT:task_id\na\tw\tt\n", "no answers among the columns"),
    ],
)
def test_faults_are_named(tmp_path: Path, name: str, content: str, words: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(BadTable, match=f"{name}.*{words}"):
        Labels.read(path)


def test_a_huge_answer_and_repeated_assignments_are_read(tmp_path: Path) -> None:
    path = batch(tmp_path, "Answer.q", f"h1,w1,Approved,{'x' * 300_000}", "h1,w1,Approved,y", "h1,w1,Approved,y")
    labels = Labels.read(path)
    assert labels.repeated == 2
    assert recognize(path)[:2] == ("mturk", ("Labels",))
