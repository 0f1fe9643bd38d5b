import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerveil.core.errors import BadInput
from peerveil.data import BadTable, Rankings

DATA = Path(__file__).parents[1] / "data"


def test_the_four_kinds() -> None:
    soc = Rankings.read(DATA / "votes.soc")
    assert soc.ranks.tolist() == [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    assert soc.counts.tolist() == [6, 3, 1]
    assert soc.items == ("Tea", "Milk", "Juice: orange")
    assert soc.is_complete
    soi = Rankings.read(DATA / "votes.soi")
    assert soi.ranks.tolist() == [[1, -1, -1, 0], [-1, 0, -1, -1], [0, 1, 2, 3]]
    toc = Rankings.read(DATA / "votes.toc")
    assert toc.ranks.tolist() == [[1, 0, 2, 1], [0, 0, 0, 0]]
    toi = Rankings.read(DATA / "votes.toi")
    assert toi.ranks[:, [0, 1, 2, 9, 10, 11]].tolist() == [[-1, -1, 1, 0, -1, 0], [1, 1, -1, -1, 0, -1]]
    assert toi.items[-1] == "12"


def preflib(folder: Path, kind: str, items: int, *lines: str, header: str = "") -> Path:
    path = folder / f"x.{kind}"
    path.write_text(f"# DATA TYPE: {kind}\n# NUMBER ALTERNATIVES: {items}\n{header}" + "\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("kind", "line", "words"),
    [
        ("soc", "1: 1,2,2", "alternative 2 twice"),
        ("soc", "1: 1,2,4", "got '4', need an alternative from 1 to 3"),
        ("soc", "1: 0,1,2", "got '0', need an alternative from 1 to 3"),
        ("soc", "1: 1,2", "got 2 of 3 alternatives, need complete orders"),
        ("soc", "1: 1,{2,3}", "a tie"),
        ("soi", "1: {1,2}", "a tie"),
        ("toc", "1: {1,2}", "2 of 3 alternatives"),
        ("toi", "1: {1,2", "a line such as"),
        ("toi", "1: {1,{2,3}}", "a line such as"),
        ("toi", "1: 1,,2", "a line such as"),
        ("toi", "1: {},1", "need an alternative"),
        ("toi", "1:", "an empty order|a line such as|alternative"),
        ("toi", "1 1,2,3", "a line such as"),
        ("toi", "0: 1,2,3", "a line such as"),
        ("toi", "-1: 1,2,3", "a line such as"),
        ("toi", "1: 1;2", "got '1;2'"),
        ("toi", "1: 1: 2", "got '1:2'"),
        ("toi", "1: x", "got 'x'"),
        ("toi", "99999999999999999999: 1", "a line such as"),
        ("toi", "1: 99999999999999999999", "an alternative from 1 to 3"),
        ("toi", "\x00\x01", "a line such as"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, kind: str, line: str, words: str) -> None:
    good = {"soc": "1: 1,2,3", "soi": "1: 1,2", "toc": "1: 1,{2,3}", "toi": "1: {1,2}"}[kind]
    path = preflib(tmp_path, kind, 3, good, good, line, good)
    with pytest.raises(BadTable, match=words) as caught:
        Rankings.read(path)
    assert caught.value.problems[0].line == 5
    assert caught.value.total == 1


def test_unusual_spacing_and_line_ends_are_fine(tmp_path: Path) -> None:
    path = preflib(tmp_path, "toi", 3, " 2 :  1 , { 2,3 }\r", "", "1: 3\t", "")
    assert Rankings.read(path).ranks.tolist() == [[0, 1, 1], [-1, -1, 0]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty file"),
        ("# DATA TYPE: soc\n1: 1,2\n", "NUMBER ALTERNATIVES"),
        ("# DATA TYPE: soc\n# NUMBER ALTERNATIVES: many\n1: 1\n", "got 'many'"),
        ("# DATA TYPE: soc\n# NUMBER ALTERNATIVES: 0\n1: 1\n", "at least 1"),
        ("# DATA TYPE: wmd\n# NUMBER ALTERNATIVES: 2\n1: 1\n", "got 'wmd'"),
        ("# DATA TYPE: soc\n# NUMBER ALTERNATIVES: 2\n", "no orders"),
        ("# DATA TYPE: soc\n# NUMBER ALTERNATIVES: 2\nnothing of use\n", "line 3: got 'nothing of use'"),
        ("# NUMBER ALTERNATIVES: 2\n# NUMBER VOTERS: 5\n1: 1,2\n", "NUMBER VOTERS"),
        ("# NUMBER ALTERNATIVES: 2\n# NUMBER UNIQUE ORDERS: 2\n1: 1,2\n", "cut short"),
        ("3\n1,a\n2,b\n3,c\n5,5,1\n5,1,2,3\n", "old layout"),
    ],
)
def test_bad_headers(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "x.soc"
    path.write_text(text)
    with pytest.raises(BadTable, match=words):
        Rankings.read(path)


def test_repeated_names_fall_back_to_numbers(tmp_path: Path) -> None:
    header = "# ALTERNATIVE NAME 1: x\n# ALTERNATIVE NAME 2: x\n"
    assert Rankings.read(preflib(tmp_path, "soc", 2, "1: 1,2", header=header)).items == ("1", "2")


def test_stream_gives_the_same_in_pieces(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    whole = Rankings(np.argsort(rng.random((250, 7)), axis=1))
    path = whole.write(tmp_path / "x.soc")
    pieces = list(Rankings.stream(path, rows=100))
    assert [len(piece) for piece in pieces] == [100, 100, 50]
    assert np.array_equal(np.concatenate([piece.ranks for piece in pieces]), whole.ranks)
    with pytest.raises(BadInput, match="rows"):
        list(Rankings.stream(path, rows=0))
    with pytest.raises(BadTable, match="PrefLib"):
        list(Rankings.stream(whole.write(tmp_path / "x.csv")))


WHOLE_ENTRY = r"(?:[0-9]+|\{[0-9]+(?:,[0-9]+)*\})"
ENTRY = r"([1-5]|\{[1-5](,[1-5]){0,2}\})"


@settings(max_examples=200)
@given(
    st.lists(
        st.one_of(
            st.from_regex(r"\A[0-9]{1,2}: ([1-5],){0,3}[1-5]\Z"),
            st.from_regex(rf"\A[1-9]: ({ENTRY},){{0,2}}{ENTRY}\Z"),
            st.text("0123456789,:{} ", max_size=8),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(["soc", "soi", "toc", "toi"]),
)
def test_a_file_says_what_its_lines_say(tmp_path_factory: pytest.TempPathFactory, lines: list[str], kind: str) -> None:
    folder = tmp_path_factory.mktemp("preflib")
    orders = [one_by_one(line, kind) for line in lines if line.strip()]
    path = preflib(folder, kind, 5, "1: 1,2,3,4,5", *lines)
    if None in orders:
        with pytest.raises(BadTable) as caught:
            Rankings.read(path)
        assert caught.value.total == orders.count(None)
    else:
        table = Rankings.read(path)
        assert list(zip(table.counts.tolist(), table.ranks.tolist(), strict=True))[1:] == orders


def one_by_one(line: str, kind: str) -> tuple[int, list[int]] | None:
    """A count and ranks, read by the book; ``None`` if a rule is broken."""
    match = re.fullmatch(rf"([0-9]{{1,15}}):({WHOLE_ENTRY}(?:,{WHOLE_ENTRY})*)", line.replace(" ", ""))
    if match is None or int(match[1]) < 1:
        return None
    ranks = [-1] * 5
    for rank, entry in enumerate(re.findall(WHOLE_ENTRY, match[2])):
        for name in map(int, entry.strip("{}").split(",")):
            if not 1 <= name <= 5 or ranks[name - 1] >= 0:
                return None
            ranks[name - 1] = rank
    tied, complete = len(set(ranks) - {-1}) < 5 - ranks.count(-1), -1 not in ranks
    return None if (kind[0] == "s" and tied) or (kind[2] == "c" and not complete) else (int(match[1]), ranks)


@pytest.mark.slow
def test_one_bad_line_among_a_million(tmp_path: Path) -> None:
    lines = ["1: 1,2,3,4,5"] * 1_000_000
    lines[765_432] = "1: 1,2,3,3,5"
    path = preflib(tmp_path, "soc", 5, *lines)
    with pytest.raises(BadTable, match="line 765435: got alternative 3 twice"):
        Rankings.read(path)
