from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerveil.core.errors import BadInput
from peerveil.data import BadTable, Rankings
from peerveil.data.orders import complete_rows, without_gaps


def test_complete() -> None:
    rankings = Rankings([[0, 1, 2], [2, 0, 1]], counts=[3, 1], items=["a", "b", "c"])
    assert rankings.is_complete
    assert not rankings.has_missing
    assert not rankings.has_ties
    assert (rankings.total, len(rankings)) == (4, 2)
    assert rankings.ranks.dtype == np.int16
    assert rankings.frame.to_dicts()[0] == {"count": 3, "a": 0, "b": 1, "c": 2}
    assert rankings.column("b").tolist() == [1, 0]
    rankings.require_complete("x")
    for array in (rankings.ranks, rankings.counts, rankings.column("a")):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError):
        rankings._ranks = rankings.ranks


@pytest.mark.parametrize(
    ("ranks", "missing", "ties", "words"),
    [
        ([[0, 1, 2], [0, -1, 1]], True, False, "leave items out, the first in row 2"),
        ([[0, 0, 1], [0, 1, 2]], False, True, "have ties, the first in row 1"),
        ([[0, 0, -1], [0, 1, 2]], True, True, "leave items out or have ties, the first in row 1"),
    ],
)
def test_partial_and_tied(ranks: list[list[int]], missing: bool, ties: bool, words: str) -> None:
    rankings = Rankings(ranks, counts=[2, 5])
    assert (rankings.has_missing, rankings.has_ties, rankings.is_complete) == (missing, ties, False)
    with pytest.raises(BadInput, match=f"of 7 rankings that {words}.*the rank-norm test"):
        rankings.require_complete("the rank-norm test")


def test_gaps_are_closed() -> None:
    assert Rankings([[0, 0, 2, 3], [3, -1, 1, 1]]).ranks.tolist() == [[0, 0, 1, 2], [1, -1, 0, 0]]
    assert Rankings(np.array([[0.0, np.nan, 1.0]])).ranks.tolist() == [[0, -1, 1]]


@pytest.mark.parametrize(
    "ranks",
    [[[0, 3, 1]], [[0, -2, 1]], [[0, 0.5, 1]], [[0, float("inf"), 1]], [[-1, -1, -1]], [[0, 10**12, 1]]],
)
def test_bad_ranks_are_named(ranks: list[list[float]]) -> None:
    with pytest.raises(BadTable) as caught:
        Rankings([[0, 1, 2], *ranks])
    assert caught.value.problems[0].row == 2


@pytest.mark.parametrize(
    "arguments",
    [
        {"ranks": [[0, 1], [0]]},
        {"ranks": [0, 1]},
        {"ranks": []},
        {"ranks": [[]]},
        {"ranks": [["a"]]},
        {"ranks": None},
        {"ranks": [[0, 1]], "counts": [0]},
        {"ranks": [[0, 1]], "counts": [-1]},
        {"ranks": [[0, 1]], "counts": [1.5]},
        {"ranks": [[0, 1]], "counts": [1, 1]},
        {"ranks": [[0, 1]], "counts": [float("nan")]},
        {"ranks": [[0, 1]], "items": ["a"]},
        {"ranks": [[0, 1]], "items": ["a", "a"]},
        {"ranks": [[0, 1]], "items": ["a", "count"]},
        {"ranks": [[0, 1]], "items": ["a", ""]},
        {"ranks": [[0, 1]], "items": "ab"},
        {"ranks": [[0, 1]], "items": [1, 2]},
    ],
)
def test_bad_arguments(arguments: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        Rankings(**arguments)  # type: ignore[arg-type]


def test_small_sizes() -> None:
    assert Rankings([[0]]).is_complete
    assert str(Rankings([[0]])) == "1 complete ranking of 1 item"
    assert Rankings([[1, 0]]).items == ("0", "1")


def test_many_items_take_wider_numbers() -> None:
    assert Rankings(np.arange(40_000)[None, :]).ranks.dtype == np.int32


def test_from_orders() -> None:
    rankings = Rankings.from_orders([["b", "a"], [["a", "c"], "b"]], ["a", "b", "c"], counts=[2, 1])
    assert rankings.ranks.tolist() == [[1, 0, -1], [0, 1, 0]]
    for orders, words in (
        ([["a"], ["a", "b", "a"]], "row 2 .*the item 'a' twice"),
        ([["a"], ["z"]], "row 2 .*got 'z', need one of the 3 items"),
        ([["a"], []], "row 2 .*no ranked item"),
        ([["a"], "abc"], "row 2 .*a list of items"),
    ):
        with pytest.raises(BadTable, match=words):
            Rankings.from_orders(orders, ["a", "b", "c"])
    with pytest.raises(BadInput, match="orders"):
        Rankings.from_orders([], ["a"])


def test_fingerprint_counts_people_not_rows() -> None:
    counted = Rankings([[0, 1], [1, 0]], counts=[2, 1], items=["a", "b"])
    repeated = Rankings([[1, 0], [0, 1], [0, 1]], items=["a", "b"])
    turned = Rankings([[1, 0], [0, 1]], counts=[2, 1], items=["b", "a"])
    assert counted == repeated == turned
    assert hash(counted) == hash(repeated)
    assert counted != Rankings([[0, 1], [1, 0]], counts=[1, 2], items=["a", "b"])
    assert counted != Rankings([[0, 1], [1, 0]], counts=[2, 1], items=["a", "c"])
    assert counted != "something else"


def test_wide_and_long_frames_from_zero_and_from_one() -> None:
    expected = Rankings([[0, 1, -1], [2, 0, 1]], items=["a", "b", "c"])
    for base in (0, 1):
        wide = pl.DataFrame({"a": [base, base + 2], "b": [base + 1, base], "c": [None, base + 1]})
        assert Rankings.from_frame(wide) == expected
        long = pl.DataFrame(
            {
                "voter": ["x", "x", "y", "y", "y"],
                "item": ["a", "b", "a", "b", "c"],
                "rank": [base, base + 1, base + 2, base, base + 1],
            }
        )
        assert Rankings.from_frame(long, {"ranking": "voter"}) == expected
        counted = long.with_columns(count=pl.Series([3, 3, 1, 1, 1]))
        assert Rankings.from_frame(counted, {"ranking": "voter"}).total == 4
    with pytest.raises(BadTable, match="one count per ranking"):
        Rankings.from_frame(long.with_columns(count=pl.Series([3, 2, 1, 1, 1])), {"ranking": "voter"})
    assert Rankings.from_frame(wide, items=["a", "b"]).items == ("a", "b")
    with pytest.raises(BadTable, match="no column z, need some of a, b, c"):
        Rankings.from_frame(wide, items=["a", "z"])


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ({"a": [1, 2], "b": [2, 3]}, r"row 2 .*column b: got 3, need a rank from 1 to 2"),
        ({"a": [0, 2], "b": [1, 0]}, r"row 2 .*column a: got 2, need a rank from 0 to 1"),
        ({"a": [1.5, 1], "b": [2, 2]}, r"row 1 .*column a: got 1.5"),
        ({"a": ["x", "y"], "b": [1, 2]}, r"words in column a, such as 'x', need one of three layouts"),
        ({"a": [1, None], "b": [2, None]}, r"row 2 .*no ranked item"),
        ({"a": [1, 2], "b": [2, 1], "count": [1, 0]}, r"row 2 .*column count: got 0"),
        ({"ranking": [1, 1], "item": ["a", "a"], "rank": [0, 1]}, r"row 2 .*column item: got 'a', need every item"),
        (
            {"ranking": [1, 1], "item": ["a", "b"], "rank": [1, 5]},
            r"row 2 .*column rank: got 5, need a rank from 1 to 2",
        ),
        ({"ranking": [1, None], "item": ["a", "b"], "rank": [0, 1]}, r"row 2 .*column ranking: got nothing"),
        ({"ranking": [1, 1], "item": ["a", "b"], "rank": [0, None]}, r"row 2 .*column rank: got nothing"),
    ],
)
def test_bad_frames_are_named(frame: dict[str, list[object]], words: str) -> None:
    with pytest.raises(BadTable, match=words):
        Rankings.from_frame(frame)


@settings(max_examples=60)
@given(st.integers(1, 6), st.integers(1, 8), st.randoms(use_true_random=False))
def test_written_and_read_again(
    tmp_path_factory: pytest.TempPathFactory, rows: int, items: int, random: object
) -> None:
    seed = random.randrange(2**32)  # type: ignore[attr-defined]
    rng = np.random.default_rng(seed)
    ranks = rng.integers(-1, items, (rows, items))
    ranks[:, 0] = np.maximum(ranks[:, 0], 0)
    rankings = Rankings(ranks, counts=rng.integers(1, 5, rows), items=[f"item {n}" for n in range(items)])
    folder = tmp_path_factory.mktemp("rankings")
    for suffix in ("csv", "tsv", "jsonl", "parquet", "csv.gz", "toi"):
        path = rankings.write(folder / f"x.{suffix}")
        again = Rankings.read(path)
        assert again == rankings, suffix
        if suffix != "jsonl":
            assert np.array_equal(again.ranks, rankings.ranks)


@given(st.lists(st.lists(st.integers(-1, 4), min_size=5, max_size=5), min_size=1, max_size=6))
def test_closing_gaps_keeps_every_comparison(rows: list[list[int]]) -> None:
    before = np.array(rows, dtype=np.int16)
    after = without_gaps(before.copy())
    assert np.array_equal(before < 0, after < 0)
    for old, new in zip(before, after, strict=True):
        known = old >= 0
        for left in np.flatnonzero(known):
            for right in np.flatnonzero(known):
                assert np.sign(old[left] - old[right]) == np.sign(new[left] - new[right])
        assert sorted(set(new[known].tolist())) == list(range(len(set(new[known].tolist()))))
    assert complete_rows(before).tolist() == [sorted(row) == [0, 1, 2, 3, 4] for row in rows]


def test_a_preflib_file_keeps_its_promise(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"\.soc"):
        Rankings([[0, -1]]).write(tmp_path / "x.soc")
    with pytest.raises(BadInput, match=r"\.soi"):
        Rankings([[0, 0]]).write(tmp_path / "x.soi")
    with pytest.raises(BadInput, match="line breaks"):
        Rankings([[0]], items=["a\nb"]).write(tmp_path / "x.soc")
    assert not list(tmp_path.iterdir())
