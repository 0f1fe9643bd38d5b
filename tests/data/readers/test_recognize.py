from pathlib import Path

import pytest

from peerveil.core.errors import BadInput
from peerveil.data import BadTable, Events, Labels, Rankings, Reviews, recognize

DATA = Path(__file__).parents[1] / "data"
EVERY = ("Reviews", "Events", "Rankings", "Labels")


@pytest.mark.parametrize(
    ("name", "format_", "kinds"),
    [
        ("openreview_api1.json", "openreview", ("Reviews", "Events")),
        ("openreview_api2.json", "openreview", ("Reviews", "Events")),
        ("openreview_details.jsonl", "openreview", ("Reviews", "Events")),
        ("hotcrp_web.csv", "hotcrp", ("Reviews",)),
        ("hotcrp_reviewcsv.csv", "hotcrp", ("Reviews", "Events")),
        ("easychair_review.csv", "easychair", ("Reviews", "Events")),
        ("votes.soc", "preflib", ("Rankings",)),
        ("votes.toi", "preflib", ("Rankings",)),
        ("mediawiki.json", "mediawiki", ("Events",)),
        ("mturk_batch.csv", "mturk", ("Labels",)),
        ("toloka_assignments.tsv", "toloka", ("Labels",)),
        ("crowd_bluebirds.csv.gz", "csv", ("Labels",)),
        ("iclr2026_head.csv.gz", "csv", ("Reviews",)),
    ],
)
def test_every_format_is_recognized(name: str, format_: str, kinds: tuple[str, ...]) -> None:
    recognized = recognize(DATA / name)
    assert recognized[:2] == (format_, kinds)
    assert recognized.why


def test_content_wins_over_the_suffix(tmp_path: Path) -> None:
    for name, format_ in (("votes.soc", "preflib"), ("mediawiki.json", "mediawiki"), ("hotcrp_web.csv", "hotcrp")):
        path = tmp_path / "export.txt"
        path.write_bytes((DATA / name).read_bytes())
        assert recognize(path).format == format_
    table = Labels(task=[1], worker=[1], label=[1])
    unnamed = table.write(tmp_path / "x.parquet").rename(tmp_path / "unnamed")
    assert recognize(unnamed) == ("parquet", ("Labels",), "it begins with PAR1")
    assert Labels.read(unnamed) == table
    lines = table.write(tmp_path / "x.jsonl").rename(tmp_path / "lines")
    assert recognize(lines)[:2] == ("jsonl", ("Labels",))


@pytest.mark.parametrize("text", ["just a sentence", '{"a": ', "[1, 2]", '{\n "a": 1\n}'])
def test_unknown_formats_say_what_is_accepted(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mystery.dat"
    path.write_text(text)
    with pytest.raises(BadTable, match="mystery.dat: .*openreview.*hotcrp.*easychair.*preflib.*mediawiki"):
        recognize(path)


def test_a_file_of_the_wrong_kind() -> None:
    with pytest.raises(BadTable, match="a file that holds Labels: csv, tsv, jsonl, parquet"):
        Labels.read(DATA / "votes.soc")
    with pytest.raises(BadTable, match="a file that holds Rankings"):
        Rankings.read(DATA / "openreview_api2.json")
    with pytest.raises(BadInput, match="one of csv, tsv, jsonl, parquet, openreview, hotcrp, easychair for Reviews"):
        Reviews.read(DATA / "hotcrp_web.csv", format="xlsx")
    with pytest.raises(BadInput, match="format"):
        Events.read(DATA / "hotcrp_web.csv", format="preflib")
