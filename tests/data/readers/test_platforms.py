"""Every platform's export, against small files in its layout (see data/README.md)."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from peerveil.core.errors import BadInput
from peerveil.data import BadTable, Events, Reviews

DATA = Path(__file__).parents[1] / "data"


def test_openreview_api2_reviews() -> None:
    reviews = Reviews.read(DATA / "openreview_api2.json")
    assert reviews.frame.select("paper", "score", "soundness", "confidence").rows() == [
        ("subA", 6.0, 3.0, 4.0),
        ("subA", 8.0, 2.0, 5.0),
    ]
    assert reviews.frame["reviewer"][0] == "Venue.cc/2026/Conference/Submission12/Reviewer_AbCd"
    assert reviews.frame["time"][0] == datetime(2025, 10, 20, 22, 40, 0, 123_000, tzinfo=UTC)
    assert reviews.notes == (
        "left out 3 of 5 notes: not reviews",
        "left out the criterion 'novelty': empty in 1 of 2 reviews",
    )
    assert Reviews.read(DATA / "openreview_api2.json", criteria=["confidence"]).criteria == ("confidence",)
    assert Reviews.read(DATA / "openreview_api2.json", columns={"score": "confidence"}).scores.tolist() == [4, 5]
    with pytest.raises(BadTable, match="row 3, column novelty: got nothing"):
        Reviews.read(DATA / "openreview_api2.json", criteria=["novelty"])
    with pytest.raises(BadTable, match="no field beauty, need some of summary, soundness"):
        Reviews.read(DATA / "openreview_api2.json", columns={"score": "beauty"})
    with pytest.raises(BadInput, match="names for score or time only"):
        Reviews.read(DATA / "openreview_api2.json", columns={"paper": "forum"})


def test_openreview_api2_events_keep_what_leaks() -> None:
    events = Events.read(DATA / "openreview_api2.json")
    assert events.frame["id"].to_list() == ["rev1", "rev2", "com1", "meta"]
    assert events.frame["reply_to"].to_list() == [None, None, "rev1", None]
    assert {"number", "tcdate", "tmdate"} <= set(events.extra)
    assert events.frame["number"].to_list() == [1, 2, 3, 1]
    modified = Events.read(DATA / "openreview_api2.json", columns={"time": "tcdate"})
    assert modified.frame["time"].to_list() == events.frame["tcdate"].to_list()


def test_openreview_api1() -> None:
    reviews = Reviews.read(DATA / "openreview_api1.json")
    assert reviews.frame.select("paper", "score", "confidence").rows() == [("p1", 6, 4), ("p1", 3, 5), ("p2", 8, 3)]
    assert reviews.frame["reviewer"].n_unique() == 3
    events = Events.read(DATA / "openreview_api1.json")
    assert events.frame["reply_to"].to_list() == [None, None, None, "p1r2"]


def test_openreview_lists_lines_and_details_agree(tmp_path: Path) -> None:
    notes = json.loads((DATA / "openreview_api2.json").read_text())["notes"]
    listed = tmp_path / "list.json"
    listed.write_text(json.dumps(notes))
    lines = tmp_path / "lines.jsonl"
    lines.write_text("\n".join(json.dumps(note) for note in notes))
    for path in (listed, lines):
        assert Reviews.read(path) == Reviews.read(DATA / "openreview_api2.json")
        assert Events.read(path) == Events.read(DATA / "openreview_api2.json")
    nested = Reviews.read(DATA / "openreview_details.jsonl")
    assert nested.scores.tolist() == [5, 7]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"content": {"rating": {"value": "strong"}}}, "row 1, column rating: got 'strong'"),
        ({"content": {"rating": {"value": None}}}, "row 1, column rating: got nothing"),
        ({"content": {"rating": {"value": 10**400}}}, "column rating"),
        ({"content": {"grade": {"value": 5}}}, r"columns=\{'score': 'grade'\}"),
        ({"content": None}, "no overall score"),
        ({"forum": None}, "row 1, column forum: got nothing, need a paper's id"),
        ({"invitations": ["V/-/Comment"]}, "no review"),
        ({"cdate": "yesterday"}, "row 1, column cdate: got 'yesterday'"),
    ],
)
def test_openreview_faults_are_named(tmp_path: Path, change: dict[str, object], words: str) -> None:
    note = {
        "id": "r",
        "forum": "f",
        "replyto": "f",
        "invitations": ["V/Submission1/-/Official_Review"],
        "signatures": ["V/Submission1/Reviewer_a"],
        "content": {"rating": {"value": 5}},
        "cdate": 1758700000000,
        **change,
    }
    path = tmp_path / "notes.json"
    path.write_text(json.dumps([note]))
    with pytest.raises(BadTable, match=words):
        Reviews.read(path, format="openreview")


def test_hotcrp_web() -> None:
    reviews = Reviews.read(DATA / "hotcrp_web.csv")
    assert reviews.frame.rows() == [
        (12, "ann@example.org", 4.0, 3.0),
        (12, "bo@example.org", 2.0, 2.0),
        (15, "ann@example.org", 5.0, 4.0),
    ]
    assert reviews.criteria == ("Reviewer expertise",)
    assert reviews.notes == ("left out the criterion 'Optional score': empty in 1 of 3 reviews",)
    with pytest.raises(BadTable, match=r"row 1 \(line 2\), column Optional score: got nothing"):
        Reviews.read(DATA / "hotcrp_web.csv", criteria=["Optional score"])
    with pytest.raises(BadTable, match="the web CSV has no times"):
        Events.read(DATA / "hotcrp_web.csv", format="hotcrp")


def test_hotcrp_without_identities(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("paper,title,review,reviewername,email,Overall merit\n1,T,1A,,,3\n2,T,2A,,,4\n")
    assert not Reviews.read(path).has_reviewers


def test_hotcrp_long() -> None:
    reviews = Reviews.read(DATA / "hotcrp_reviewcsv.csv")
    assert reviews.frame.select("paper", "reviewer", "score", "Reviewer expertise").rows() == [
        (12, "ann@example.org", 4, 3),
        (12, "bo@example.org", 2, 1),
        (15, "ann@example.org", 5, 4),
    ]
    assert reviews.frame["time"][0] == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    events = Events.read(DATA / "hotcrp_reviewcsv.csv")
    assert events.frame["id"].to_list() == ["12/12A", "15/15A", "12/12B", "12/c1", "15/c1", "15/c2"]
    assert events.frame["letter"].to_list() == ["A", "A", "B", None, None, None]
    assert events.notes == ("left out drafts: 1",)


def test_hotcrp_long_faults_are_named_by_line(tmp_path: Path) -> None:
    text = (DATA / "hotcrp_reviewcsv.csv").read_text()
    path = tmp_path / "r.csv"
    path.write_text(text.replace("15A,ann@example.org,R1,1700000120", "15A,ann@example.org,R1,never"))
    with pytest.raises(BadTable, match=r"row 8 \(line 10\), column submitted_at: got 'never'"):
        Events.read(path)
    path.write_text(text.replace("Overall merit,,5", "Overall merit,,B"))
    with pytest.raises(BadTable, match=r"row 8 \(line 10\), column Overall merit: got 'B'"):
        Reviews.read(path)
    path.write_text(text + "17,17A,x\n")
    with pytest.raises(BadTable, match=r"line 15: got 3 cells in row 13"):
        Reviews.read(path)


def test_easychair() -> None:
    reviews = Reviews.read(DATA / "easychair_review.csv")
    assert reviews.frame.drop("time").rows() == [(3, 101, 2.0, 4.0), (3, 102, -1.0, 3.0), (5, 101, 3.0, 5.0)]
    assert reviews.criteria == ("Reviewer's confidence",)
    assert reviews.notes == ("left out earlier versions of reviews: 1",)
    swiss = Reviews.read(DATA / "easychair_review.csv", time_zone="Europe/Zurich")
    assert swiss.frame["time"][0] == datetime(2026, 2, 3, 17, 40, tzinfo=UTC)
    events = Events.read(DATA / "easychair_review.csv")
    assert events.frame["actor"].to_list() == [101, 102, 101, 101]
    assert events.extra == ("number",)


def test_easychair_faults_are_named_by_line(tmp_path: Path) -> None:
    text = (DATA / "easychair_review.csv").read_text()
    path = tmp_path / "review.csv"
    path.write_text(text.replace("2026-02-02,11:00", "2026-02-30,11:00"))
    with pytest.raises(BadTable, match=r"row 3 \(line 6\), column date: got '2026-02-30 11:00'"):
        Reviews.read(path)


def test_mediawiki(tmp_path: Path) -> None:
    events = Events.read(DATA / "mediawiki.json")
    assert events.frame.select("actor", "thread", "id").rows() == [("192.0.2.7", "Kite", 733), ("Ann", "Bird", 734)]
    assert events.notes == ("left out 1 of 4 changes: not edits", "left out 1 of 4 changes: user hidden")
    answer = json.loads((DATA / "mediawiki.json").read_text())
    changes = answer["query"]["recentchanges"]
    for name, text in (
        ("list.json", json.dumps(changes)),
        ("lines.jsonl", "\n".join(json.dumps(change) for change in changes)),
        ("answers.jsonl", "\n".join(json.dumps({"query": {"recentchanges": [change]}}) for change in changes)),
    ):
        path = tmp_path / name
        path.write_text(text)
        assert Events.read(path) == events, name
    assert Events.read(DATA / "mediawiki.json", extra=["pageid"]).extra == ("pageid",)
    changes[0]["timestamp"] = "soon"
    path.write_text(json.dumps(changes))
    with pytest.raises(BadTable, match="row 1, column timestamp: got 'soon'"):
        Events.read(path)
