"""Files that nobody meant well: every one is refused with the file's name, never with a bare traceback."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from peerveil.core.errors import BadInput
from peerveil.data import BadTable, Events, Labels, Rankings, Reviews, recognize

DATA = Path(__file__).parent / "data"
KINDS: tuple[Any, ...] = (Reviews, Events, Rankings, Labels)
GOOD = b"task,worker,label\n1,2,a\n3,4,b\n"
PACKED = gzip.compress(GOOD * 500, mtime=0)
DEEP = b"[" * 100_000 + b"]" * 100_000


def parquet() -> bytes:
    import io

    buffer = io.BytesIO()
    pl.DataFrame({"task": range(500), "worker": range(500), "label": range(500)}).write_parquet(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.csv", b""),
        ("empty.csv.gz", gzip.compress(b"", mtime=0)),
        ("empty.jsonl", b""),
        ("empty.parquet", b""),
        ("empty.soc", b""),
        ("blank.csv", b"\n\n\n"),
        ("spaces.csv", b"   \n"),
        ("header.csv", b"task,worker,label\n"),
        ("header.csv", b"paper,score\n"),
        ("commas.csv", b",,,\n,,,\n"),
        ("twice.csv", b"task,task,worker,label,paper,score\n1,1,2,3,4,5\n"),
        ("zero.csv", b"task,worker,label\n1,\x002,3\n"),
        ("garbage.csv", bytes(random.Random(1).randbytes(5_000))),
        ("garbage.jsonl", bytes(random.Random(2).randbytes(5_000))),
        ("garbage.parquet", bytes(random.Random(3).randbytes(5_000))),
        ("garbage.soc", bytes(random.Random(4).randbytes(5_000))),
        ("garbage.json", bytes(random.Random(5).randbytes(5_000))),
        ("latin.csv", "task,worker,label,paper,score\n1,caf\xe9,x,1,2\n".encode("latin-1")),
        ("utf16.csv", "task,worker,label\n1,2,3\n".encode("utf-16")),
        ("cut.csv.gz", PACKED[: len(PACKED) // 2]),
        ("cut.csv.gz", PACKED[:5]),
        ("notgzip.csv.gz", b"\x1f\x8bnope"),
        ("cut.parquet", parquet()[:700]),
        ("magic.parquet", b"PAR1"),
        ("cut.jsonl", b'{"task": 1, "worker": 2, "label": 3}\n{"task": 1, "wor'),
        ("cut.json", b'{"notes": [{"id": "a", "forum": "b", "content": {'),
        ("cut.json", b'{"query": {"recentchanges": [{"title": "a", "user": "b", "timestamp": '),
        ("deep.json", DEEP),
        ("deep.jsonl", b'{"task": ' + DEEP + b"}\n"),
        ("deepnotes.json", b'[{"forum": "a", "content": ' + DEEP + b"}]"),
        ("digits.json", b'[{"forum": "a", "content": {"rating": ' + b"9" * 6_000 + b"}}]"),
        ("digits.jsonl", b'{"task": ' + b"9" * 6_000 + b', "worker": 1, "label": ""}\n'),
        ("numbers.json", b"[1, 2, 3]"),
        ("null.json", b"null"),
        ("scalar.jsonl", b"1\n2\n"),
        ("notes.json", b'{"notes": "none", "forum": 1, "content": 2}'),
        ("notes.json", b'[{"forum": 1, "content": 2}, 7]'),
        ("changes.json", b'{"query": {"recentchanges": {"a": 1}}}'),
        ("changes.json", b'[{"title": 1, "user": 2, "timestamp": 3}, []]'),
        ("pid.csv", b"pid,review,email,status,field,data\n"),
        ("member.csv", b"submission #,member #\n"),
        ("quote.csv", b'task,worker,label,paper,score\n1,"2,3,4,5\n6,7,8,9,10\n'),
    ],
)
def test_refused_by_name(tmp_path: Path, kind: Any, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(BadTable) as caught:
        kind.read(path)
    assert caught.value.problems[0].file == name
    assert len(str(caught.value)) < 3_000


@pytest.mark.parametrize("kind", KINDS)
def test_no_file_at_all(tmp_path: Path, kind: Any) -> None:
    for path in (tmp_path, tmp_path / "nowhere.csv", str(tmp_path / "nowhere.csv"), "x\0y"):
        with pytest.raises(BadTable) as caught:
            kind.read(path)
        assert str(caught.value).count("need ") == 1
    for wrong in (None, 5, b"x.csv", ["x.csv"]):
        with pytest.raises(BadInput, match="path"):
            kind.read(wrong)
    with pytest.raises(BadInput):
        recognize(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"task,worker,label\n1,2,3\n1,2,3,4\n", r"row 2 \(line 3\): got 4 cells, need at most 3"),
        (b"task,worker,label\n1,2,3\n1,2\n", r"row 2 \(line 3\), column label: got nothing"),
        (b"task,worker,label\n1,2,3\n\n1,2,3\n", r"row 2 \(line 3\), column task: got nothing"),
        (b"task,worker,label\n1,,3\n", r"row 1 \(line 2\), column worker: got nothing"),
        (b'task,worker,label\n1,"",3\n', r"row 1 \(line 2\), column worker: got nothing"),
        (b"task,worker,label,task\n1,2,3,4\n", r"line 1: got the header names task twice"),
        (b"task,worker,vote\n1,2,3\n", r"columns=\{'label': 'vote'\}"),
        (
            b"image,annotator,has_bird\n1,2,3\n",
            r"--column task=image --column worker=annotator --column label=has_bird",
        ),
        (b"task,worker,label\n1,caf\xe9,x\n", r"line 2: got the byte 0xe9, which is not UTF-8"),
        (b"task,worker,label\n" + b"1,2,x\n" * 20_000 + b"1,2,\xe9\n", r"line 20002: got the byte 0xe9"),
        (b"task,worker,label\n" + b"1,2,3\n" * 20_000 + b"1,2,\x00\n", r"line 20002|row 20001|zero byte"),
    ],
)
def test_labels_csv(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes(content)
    with pytest.raises(BadTable, match=words):
        Labels.read(path)


@pytest.mark.parametrize(
    "word", ["nan", "NaN", "inf", "-inf", "Infinity", "", "abc", "1,5", "0x10", "1_000", "٣", "--3"]
)
def test_scores_that_are_no_numbers(tmp_path: Path, word: str) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text(f'paper,score\n1,3\n2,"{word}"\n3,4\n')
    with pytest.raises(BadTable, match=r"row 2 \(line 3\), column score"):
        Reviews.read(path)


def test_one_row_is_enough(tmp_path: Path) -> None:
    for kind, text in (
        (Reviews, "paper,score\n1,3\n"),
        (Events, "actor,thread,time\n1,3,0\n"),
        (Rankings, "a,b\n0,1\n"),
        (Labels, "task,worker,label\n1,2,3\n"),
    ):
        path = tmp_path / "one.csv"
        path.write_text(text.rstrip("\n"))
        assert len(kind.read(path)) == 1


def test_every_cut_of_every_fixture_is_read_or_refused(tmp_path: Path) -> None:
    readers = {"json": (Reviews, Events), "jsonl": (Reviews, Events), "csv": (Reviews, Events), "toi": (Rankings,)}
    names = ["openreview_api2.json", "openreview_details.jsonl", "mediawiki.json", "hotcrp_web.csv"]
    names += ["hotcrp_reviewcsv.csv", "easychair_review.csv", "votes.toi", "votes.soc"]
    refused = 0
    for name in names:
        content = (DATA / name).read_bytes()
        for end in range(1, len(content), max(1, len(content) // 40)):
            path = tmp_path / name
            path.write_bytes(content[:end])
            for kind in readers.get(name.rsplit(".", 1)[1], (Rankings,)):
                try:
                    kind.read(path)
                except BadInput:
                    refused += 1
    assert refused > 200


def test_huge_cells_and_many_columns(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    names = ",".join(f"c{column}" for column in range(3_000))
    path.write_text(f"task,worker,label,{names}\n1,2,{'x' * 300_000}" + ",1" * 3_000 + "\n")
    assert len(Labels.read(path)) == 1
    path.write_text(json.dumps({"task": 1, "worker": 2, "label": 2**100}) + "\n")
    assert Labels.read(path, format="jsonl").frame["label"].to_list() == [str(2**100)]
