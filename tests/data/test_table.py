"""What all four tables share: round trips, fingerprints, equality, files that are whole or not there."""

import os
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from peerveil.core.errors import BadInput
from peerveil.data import Events, Labels, Rankings, Reviews
from peerveil.data.table import Table

FORMATS = ("csv", "tsv", "jsonl", "ndjson", "parquet", "csv.gz", "tsv.gz", "jsonl.gz")
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=6)
IDS = st.one_of(TEXT, st.from_regex(r"\A-?[0-9]{1,3}\Z"), st.sampled_from(["nan", "null", "True", "1.0", "1e5", " a"]))
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)).map(lambda when: when.replace(tzinfo=UTC))


@st.composite
def reviews_tables(draw: st.DrawFn) -> Reviews:
    pairs = draw(st.lists(st.tuples(IDS, IDS), min_size=1, max_size=6, unique=True))
    size = len(pairs)
    return Reviews(
        paper=[paper for paper, _ in pairs],
        reviewer=draw(st.sampled_from([[reviewer for _, reviewer in pairs], None])),
        score=draw(st.lists(NUMBERS, min_size=size, max_size=size)),
        criteria={
            name: draw(st.lists(NUMBERS, min_size=size, max_size=size))
            for name in draw(st.lists(st.sampled_from(["soundness", "clarity, style", 'a "b"']), unique=True))
        },
        time=draw(st.one_of(st.none(), st.lists(MOMENTS, min_size=size, max_size=size))),
    )


@st.composite
def labels_tables(draw: st.DrawFn) -> Labels:
    size = draw(st.integers(1, 6))
    answers: Any = draw(st.sampled_from([st.integers(-(2**62), 2**62), IDS, st.booleans()]))
    truth = draw(st.one_of(st.none(), st.lists(st.one_of(st.none(), answers), min_size=size, max_size=size)))
    ids = st.lists(st.integers(-5, 2**62), min_size=size, max_size=size)
    label = draw(st.lists(answers, min_size=size, max_size=size))
    kinds = {type(value) for value in [*label, *(truth or [])] if value is not None}
    if kinds == {str} and truth is not None:
        truth = [None if value is None else label[0] for value in truth]
    return Labels(task=draw(ids), worker=draw(ids), label=label, truth=truth)


@st.composite
def events_tables(draw: st.DrawFn) -> Events:
    ids = draw(st.lists(IDS, min_size=1, max_size=6, unique=True))
    size = len(ids)
    parents = [draw(st.sampled_from([None, *ids[:row]])) for row in range(size)]
    return Events(
        actor=draw(st.lists(IDS, min_size=size, max_size=size)),
        thread=draw(st.lists(st.integers(), min_size=size, max_size=size)),
        time=draw(st.lists(MOMENTS, min_size=size, max_size=size)),
        id=ids,
        reply_to=parents,
        extra={
            "number": draw(st.lists(st.one_of(st.none(), st.integers(0, 99)), min_size=size, max_size=size)),
            "tcdate": draw(st.lists(st.one_of(st.none(), MOMENTS), min_size=size, max_size=size)),
        },
    )


TABLES = st.one_of(reviews_tables(), labels_tables(), events_tables())


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TABLES, st.sampled_from(FORMATS))
def test_written_and_read_again_is_the_same_table(
    tmp_path_factory: pytest.TempPathFactory, table: Reviews | Labels | Events, suffix: str
) -> None:
    folder = tmp_path_factory.mktemp("tables")
    again = type(table).read(table.write(folder / f"table.{suffix}"))
    assert again.frame.schema == table.frame.schema
    assert again == table
    assert again.fingerprint == table.fingerprint


@settings(max_examples=60, deadline=None)
@given(TABLES, st.integers(0, 2**32 - 1))
def test_fingerprint_forgets_the_order_of_rows_and_columns(table: Table, seed: int) -> None:
    from peerveil.data.digest import fingerprint_of

    frame = table.frame
    mixed = frame.sample(fraction=1, shuffle=True, seed=seed).select(reversed(frame.columns))
    assert fingerprint_of(type(table).__name__, mixed) == table.fingerprint


@settings(max_examples=60, deadline=None)
@given(reviews_tables(), st.data())
def test_fingerprint_notices_a_changed_cell(table: Reviews, data: st.DataObject) -> None:
    row = data.draw(st.integers(0, len(table) - 1))
    score = data.draw(NUMBERS)
    frame = table.frame
    before = frame[row, "score"]
    frame[row, "score"] = score
    assert (Reviews.from_frame(frame).fingerprint == table.fingerprint) == (score == before)


def test_fingerprint_notices_a_repeated_row_and_where_text_ends() -> None:
    labels = Labels(task=[1, 2], worker=[1, 1], label=["a", "b"])
    assert labels != Labels(task=[1, 2, 2], worker=[1, 1, 1], label=["a", "b", "b"])
    left = Labels(task=["ab", "c"], worker=["x", "x"], label=["p", "q"])
    assert left != Labels(task=["a", "bc"], worker=["x", "x"], label=["p", "q"])
    assert labels != Labels(task=[1, 2], worker=[1, 1], label=["a", "b"], truth=["a", None])
    assert Labels(task=[1], worker=[1], label=[1]) != Labels(task=[1], worker=[1], label=[True])
    assert Reviews(paper=[1], score=[0.0]) == Reviews(paper=[1], score=[-0.0])


def test_fingerprint_is_fixed_for_ever() -> None:
    # computed once with this code on 2026-11-15; ledgers keep fingerprints, so they may never change
    assert Labels(task=[1, 2], worker=["x", "y"], label=[True, False]).fingerprint == FIXED_LABELS
    assert Rankings([[0, 1], [1, 0]], items=["a", "b"]).fingerprint == FIXED_RANKINGS


FIXED_LABELS = "3968b1a301aec9520c9c54ab3180b965615ce1362933f36f80fc6c292affc7c9"
FIXED_RANKINGS = "8ee3522899b0d9f350b31bbc1e711554e945dc940ebb07369165967b071bb3a9"


def test_tables_of_other_kinds_are_never_equal() -> None:
    labels = Labels(task=[1], worker=[1], label=[1])
    assert labels != Reviews(paper=[1], score=[1])
    assert labels != Rankings([[0]])
    assert labels != 1
    assert len({labels, Labels(task=[1], worker=[1], label=[1])}) == 1


def test_survives_pickling() -> None:
    for table in (
        Reviews(paper=[1], score=[1]),
        Events(actor=[1], thread=[1], time=[1]),
        Labels(task=[1], worker=[1], label=[1]),
        Rankings([[0, 1]], counts=[3]),
    ):
        assert pickle.loads(pickle.dumps(table)) == table


def test_unknown_column() -> None:
    labels = Labels(task=[1], worker=[1], label=[1])
    for ask in (labels.column, labels.numbered):
        with pytest.raises(BadInput, match="task, worker, label"):
            ask("color")


@pytest.mark.parametrize("name", ["x.xlsx", "x", "x.parquet.gz", "x.gz"])
def test_only_known_suffixes_are_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match=r"\.csv, \.tsv"):
        Labels(task=[1], worker=[1], label=[1]).write(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Labels(task=[1], worker=[1], label=[1])
    path = table.write(tmp_path / "x.csv")
    old = path.read_bytes()

    def full(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_csv", full)
    with pytest.raises(BadInput, match="No space left"):
        table.write(path)
    assert path.read_bytes() == old
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.csv"]


def test_writing_where_one_cannot(tmp_path: Path) -> None:
    table = Labels(task=[1], worker=[1], label=[1])
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "file" / "x.csv"):
        with pytest.raises(BadInput, match="path"):
            table.write(place)
    with pytest.raises(BadInput, match="path"):
        table.write(5)  # type: ignore[arg-type]


def test_compressed_files_are_equal_for_equal_tables(tmp_path: Path) -> None:
    table = Labels(task=[1], worker=[1], label=[1])
    one, two = table.write(tmp_path / "a.csv.gz"), table.write(tmp_path / "b.csv.gz")
    assert one.read_bytes() == two.read_bytes()
    assert one.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
