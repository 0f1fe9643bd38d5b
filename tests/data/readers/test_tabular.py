import gzip
import json
import pickle
from pathlib import Path

import polars as pl
import pytest

from peerveil.data import BadTable, Events, Labels, Rankings, Reviews
from peerveil.web.console.files import DataFile, inspect


def put(folder: Path, text: str, name: str = "labels.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_bad_cell_is_named_by_row_line_and_column(tmp_path: Path) -> None:
    rows = "".join(f"{row},r{row},{row % 5}\n" for row in range(16))
    path = put(tmp_path, f"paper,reviewer,score\n{rows}99,r99,abc\n", "reviews.csv")
    with pytest.raises(BadTable) as caught:
        Reviews.read(path)
    assert str(caught.value) == "reviews.csv, row 17 (line 18), column score: got 'abc', need a number"


def test_a_suggestion_is_data_that_the_console_words_in_its_own_way(tmp_path: Path) -> None:
    path = put(tmp_path, "item,grade\n1,2\n", "reviews.csv")
    with pytest.raises(BadTable) as caught:
        Reviews.read(path)
    (problem,) = pickle.loads(pickle.dumps(caught.value)).problems
    assert problem.suggestion == {"paper": "item", "score": "grade"}
    before = "reviews.csv: got no column paper, score, need one of each among item, grade: if they have other names"
    options = "--column paper=item --column score=grade"
    python = "columns={'paper': 'item', 'score': 'grade'}"
    assert str(caught.value) == f"{before}, pass {python} (on the command line: {options})"
    assert caught.value.want.endswith(options + ")")  # also where a study repeats it
    file = DataFile("1", "me", "reviews.csv", path, True, 1, "looking", "reviews", {}, {}, 0)
    assert inspect(file)["problems"]["reviews"]["lines"] == [f"{before}, choose the columns below"]


def test_bad_cell_far_below_the_sample_is_named(tmp_path: Path) -> None:
    rows = "".join(f"{row},{row},1\n" for row in range(30_000))
    path = put(tmp_path, f"paper,reviewer,score\n{rows}7,x,abc\n", "reviews.csv")
    with pytest.raises(BadTable, match=r"row 30001 \(line 30002\), column score: got 'abc'"):
        Reviews.read(path)


def test_a_late_word_makes_the_column_text(tmp_path: Path) -> None:
    rows = "".join(f"{row},w,1\n" for row in range(20_000))
    labels = Labels.read(put(tmp_path, f"task,worker,label\n{rows}last,w,1\n"))
    assert labels.frame["task"].to_list()[-2:] == ["19999", "last"]


def test_lines_count_line_breaks_inside_cells(tmp_path: Path) -> None:
    text = 'paper,comment,score\n1,"two\nlines",3\n2,"a ""b""",4\n3,plain,x\n'
    with pytest.raises(BadTable, match=r"row 3 \(line 5\), column score: got 'x'"):
        Reviews.read(put(tmp_path, text, "reviews.csv"))


def test_criterion_with_a_stray_word_is_not_silently_left_out(tmp_path: Path) -> None:
    text = "paper,score,clarity,title\n1,2,3,a\n2,3,good,b\n3,4,5,c\n"
    with pytest.raises(BadTable, match=r"row 2 \(line 3\), column clarity: got 'good'.*criteria="):
        Reviews.read(put(tmp_path, text))
    assert Reviews.read(put(tmp_path, text), criteria=[]).criteria == ()


def test_errors_use_the_names_in_the_file(tmp_path: Path) -> None:
    with pytest.raises(BadTable, match="column rating: got 'x'"):
        Reviews.read(put(tmp_path, "paper,rating\n1,x\n"), columns={"score": "rating"})


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators_are_seen(tmp_path: Path, separator: str) -> None:
    text = "task,worker,label\n1,2,3\n".replace(",", separator)
    assert Labels.read(put(tmp_path, text)).codes([3]).tolist() == [0]


def test_bom_crlf_blank_end_and_odd_names(tmp_path: Path) -> None:
    path = tmp_path / "a [1]*.csv"
    path.write_bytes(b"\xef\xbb\xbftask,worker,label\r\n1,2,3\r\n4,5,6\r\n\r\n\n")
    assert Labels.read(path).frame.rows() == [(1, 2, 3), (4, 5, 6)]


def test_leading_zeros_and_numbers_like_text_stay_text(tmp_path: Path) -> None:
    labels = Labels.read(put(tmp_path, "task,worker,label\n007,1.0,1e3\n010,2.0,nan\n"))
    assert labels.frame.rows() == [("007", "1.0", "1e3"), ("010", "2.0", "nan")]


def test_the_same_table_from_every_format(tmp_path: Path) -> None:
    rows = [{"task": "7", "worker": 1, "label": True}, {"task": "12", "worker": 2, "label": False}]
    lines = put(tmp_path, "\n\n".join(json.dumps(row) for row in rows), "a.jsonl")
    comma = put(tmp_path, "task,worker,label\n7,1,True\n12,2,False\n", "a.csv")
    parquet = tmp_path / "a.parquet"
    pl.DataFrame({"task": [7, 12], "worker": [1, 2], "label": [True, False]}).cast(
        {"task": pl.UInt16, "worker": pl.Int8}
    ).write_parquet(parquet)
    packed = tmp_path / "a.csv.gz"
    packed.write_bytes(gzip.compress(comma.read_bytes()))
    tables = [Labels.read(path) for path in (lines, comma, parquet, packed)]
    assert len({table.fingerprint for table in tables}) == 1


def test_json_lines_of_mixed_kinds(tmp_path: Path) -> None:
    text = '{"paper": 1, "score": 1.5}\n{"paper": 2, "score": 2, "extra": [1]}\n\n{"paper": 3, "score": NaN}\n'
    with pytest.raises(BadTable, match=r"row 3 \(line 4\), column score: got nan"):
        Reviews.read(put(tmp_path, text, "a.jsonl"))
    with pytest.raises(BadTable, match=r"row 2 \(line 2\), column score: got 'x'"):
        Reviews.read(put(tmp_path, '{"paper": 1, "score": 1}\n{"paper": 2, "score": "x"}\n', "a.jsonl"))
    with pytest.raises(BadTable, match=r"column score: got \[1\]"):
        Reviews.read(put(tmp_path, '{"paper": 1, "score": [1]}\n', "a.jsonl"))


def test_rankings_wide_and_long(tmp_path: Path) -> None:
    wide = Rankings.read(put(tmp_path, "count,tea,milk\n3,1,2\n1,2,1\n", "wide.csv"))
    long = Rankings.read(
        put(tmp_path, "ranking,item,rank,count\n1,tea,1,3\n1,milk,2,3\n2,tea,2,1\n2,milk,1,1\n", "long.csv")
    )
    assert wide == long
    with pytest.raises(BadTable, match=r"bad.csv, row 2 \(line 3\), column milk: got 3, need a rank from 1 to 2"):
        Rankings.read(put(tmp_path, "tea,milk\n1,2\n1,3\n", "bad.csv"))
    with pytest.raises(BadTable, match=r"bad.csv, row 2 \(line 3\), column item: got 'tea'"):
        Rankings.read(put(tmp_path, "ranking,item,rank\n1,tea,1\n1,tea,2\n", "bad.csv"))


def test_events_from_epoch_columns(tmp_path: Path) -> None:
    seconds = Events.read(put(tmp_path, "actor,thread,time\n1,1,1700000000\n1,2,1700000060\n"))
    milliseconds = Events.read(put(tmp_path, "actor,thread,time\n1,1,1700000000000\n1,2,1700000060000\n"))
    text = Events.read(put(tmp_path, "actor,thread,time\n1,1,2023-11-14T22:13:20Z\n1,2,2023-11-14T23:14:20+01:00\n"))
    assert seconds == milliseconds == text
