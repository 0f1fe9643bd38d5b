"""Every figure and table of the five papers has an experiment, and one command makes all of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.runner import run

from peerveil.reproduce import Comparison, Reproduction, experiments
from peerveil.reproduce.experiment import KINDS
from peerveil.reproduce.illustrations import ILLUSTRATIONS
from peerveil.reproduce.page import write_page

# as the papers number them; Wang and Xu have none
PRINTED = {
    "release": ["figure-1", *(f"figure-2{panel}" for panel in "abcdefgh")],
    "timing": [*(f"figure-{n}" for n in range(1, 13)), "table-1", "table-2"],
    "calibration": [*(f"figure-{n}" for n in range(1, 7)), "table-1"],
    "rankings": [*(f"figure-1{p}" for p in "abc"), *(f"figure-{n}{p}" for n in (2, 3) for p in "abcd")],
    "truth": [],
}


def test_nothing_that_the_papers_number_is_left_out() -> None:
    made = set(experiments())
    wanted = {f"{room}/{name}" for room, names in PRINTED.items() for name in names}
    assert wanted <= made
    # what we add is named after what it shows, never like a figure of the paper
    assert not [name for name in made - wanted if name.split("/")[1].startswith(("figure", "table"))]


@pytest.mark.parametrize("name", ILLUSTRATIONS)
def test_illustrations_agree_with_our_own_code(name: str) -> None:
    found = experiments()[name](True, False)
    assert found.name == name
    assert found.counts["differs"] == 0
    assert found.counts["agrees"] >= 2


@pytest.mark.parametrize(
    ("paper", "verdict", "kind"),
    [
        ("31 min", "agrees as printed; erratum: the guarantee needs g + beta", "agrees"),
        ("-0.1", "erratum: the printed one is negative", "erratum"),
        ("80% to 60%", "differs by +12 points", "differs"),
        ("at most 2 by (16)", "ABOVE", "differs"),
        ("no experiment", "default -3.0 points, BELOW majority", "nothing printed"),
        ("curves without numbers", "best: Friedman", "nothing printed"),
    ],
)
def test_verdicts_in_a_word(paper: str, verdict: str, kind: str) -> None:
    assert Comparison("x", paper, "1", verdict).kind == kind


def test_the_page_shows_all_and_says_when_it_was_quick() -> None:
    rows = (Comparison("mean", "<31>", "31", "agrees"), Comparison("q", "-1", "2", "erratum: no probability"))
    done = [(Reproduction("room/figure-1", "a figure", rows, "a note"), 1.25)]
    text = write_page(done, quick=True).html()
    assert "Few trials" in text
    assert "&lt;31&gt;" in text
    assert "Few trials" not in write_page(done, quick=False).html()
    assert done[0][0].counts == dict(zip(KINDS, (1, 1, 0, 0), strict=True))


def test_one_command_for_a_room_and_for_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "reproduce", "all", "--list", "--json")
    assert code == 0
    assert json.loads(out) == list(experiments())
    code, out, err = run(capsys, "reproduce", "release/proposition-4.1", "--quick", "--out", tmp_path)
    assert code == 0, err
    kept = json.loads((tmp_path / "release" / "proposition-4.1.json").read_text())
    assert kept["quick"] is True
    assert kept["counts"]["agrees"] == 1
    assert not (tmp_path / "index.html").exists()
    code, _, err = run(capsys, "reproduce", "nothing")
    assert code == 2
    assert "'all', a room or one of" in err


def test_several_at_once_are_set_side_by_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import peerveil.reproduce

    monkeypatch.setattr(peerveil.reproduce, "experiments", lambda: ILLUSTRATIONS)
    code, out, err = run(capsys, "reproduce", "all", "--out", tmp_path)
    assert code == 0, err
    assert "side by side" in out
    page = (tmp_path / "index.html").read_text()
    for name in ILLUSTRATIONS:
        assert f"<h2>{name}:" in page
        assert (tmp_path / f"{name}.json").exists()
    assert page.count("<figure>") == 3
