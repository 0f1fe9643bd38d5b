"""Every figure and table of the five papers has an experiment, and one command makes all of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.runner import run

from peerveil.papers.reproduce import Comparison, Reproduction, Verdict, experiments
from peerveil.papers.reproduce.illustrations import ILLUSTRATIONS
from peerveil.papers.reproduce.page import write_page
from peerveil.papers.reproduce.release import METHODS, explain_ours, explain_win

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
    wanted = {f"{module}/{name}" for module, names in PRINTED.items() for name in names}
    assert wanted <= made
    # what we add is named after what it shows, never like a figure of the paper
    assert not [name for name in made - wanted if name.split("/")[1].startswith(("figure", "table"))]


def test_theorems_of_rankings_hold_or_are_errata() -> None:
    found = {n: experiments()[f"rankings/theorem-{n}"](True, False) for n in (5, 6, 7, 9)}
    assert all(result.counts[Verdict.DIFFERS] == 0 for result in found.values())
    assert {n: result.counts[Verdict.ERRATUM] for n, result in found.items()} == {5: 0, 6: 2, 7: 2, 9: 0}
    losses = [float(row.ours) for row in found[6].rows]
    assert losses[0] > 1 / 3 > losses[1]  # at the sizes of the experiments, and where the theorem asks for


@pytest.mark.parametrize("name", ILLUSTRATIONS)
def test_illustrations_agree_with_our_own_code(name: str) -> None:
    found = experiments()[name](True, False)
    assert found.name == name
    assert found.counts[Verdict.DIFFERS] == 0
    assert found.counts[Verdict.AGREES] >= 2


def test_projection_on_a_convex_set_never_hurts() -> None:
    (row,) = experiments()["release/proposition-4.2"](True, False).rows
    assert row.verdict is Verdict.AGREES
    assert 0.1 < float(row.ours) <= 1  # the largest error of all trials


def test_theorems_of_release_hold_and_the_tie_rule_is_an_erratum() -> None:
    results = {name: experiments()[f"release/theorem-{name}"](True, False) for name in ("4.3", "4.6", "4.7", "4.8")}
    assert all(result.counts[Verdict.DIFFERS] == 0 for result in results.values())
    assert {
        name: result.counts[Verdict.ERRATUM] for name, result in results.items() if result.counts[Verdict.ERRATUM]
    } == {"4.8": 1}
    split = results["4.3"].rows[1].ours
    assert split.startswith("10 of 10, ")  # both answers occur
    assert 0 < int(split.split(", ")[1].split()[0]) < 10


def test_theorems_of_truth_are_exact_and_their_errata_are_seen() -> None:
    first, second = (experiments()[f"truth/theorem-{number}"](True, False) for number in (1, 2))
    assert [row.verdict for row in first.rows] == [Verdict.AGREES, Verdict.AGREES, Verdict.ERRATUM]
    assert [row.ours for row in first.rows] == ["1.000000", "3.000000", "3.000000"]
    assert [row.verdict for row in second.rows] == [*[Verdict.ERRATUM] * 3, Verdict.AGREES]
    assert second.rows[0].ours == "213,845 / 5,661,018"


@pytest.mark.parametrize(
    ("paper", "public", "sentence"),
    [
        (8.0, 1.0, "public data alone do better"),
        (1.0, 8.0, "they do not explain the win"),
        (1.0, 1.0, "public data alone do as well"),
    ],
)
def test_every_panel_says_whether_public_data_explain_the_win(paper: float, public: float, sentence: str) -> None:
    rng = np.random.default_rng(1)
    errors = np.ones((40, len(METHODS))) + rng.normal(scale=0.1, size=(40, len(METHODS)))
    errors[:, METHODS.index("paper")] *= paper
    errors[:, METHODS.index("public")] *= public
    assert sentence in explain_win(errors)
    assert ("the release says more" in explain_ours(errors)) is (public > 1)


def test_a_panel_of_figure_2_has_our_release_and_public_data() -> None:
    result = experiments()["release/figure-2f"](True, False)
    assert [row.verdict for row in result.rows] == [Verdict.AGREES, Verdict.NOTHING_PRINTED] * 2
    # at epsilon 1 ten reviewers tell nothing: public data alone are several times better than the paper's algorithm
    for row in result.rows[::2]:
        assert "the win is no evidence for the mechanism" in row.explanation
    for row in result.rows[1::2]:
        projection, counts, public = (float(value) for value in row.ours.split(" / "))
        assert public < projection / 2
        assert counts < projection / 2


def test_verdicts_are_written_as_data_and_read_back() -> None:
    rows = (
        Comparison("mean", "31 min", "31", Verdict.AGREES, "agrees as printed; erratum: the guarantee needs g + beta"),
        Comparison("q2", "-0.1", "0.3", Verdict.of(False)),
    )
    made = json.loads(json.dumps(Reproduction("module/figure-1", "a figure", rows, "a note").to_dict()))
    assert made["counts"] == {"agrees": 1, "erratum": 0, "differs": 1, "nothing printed": 0}
    assert [Comparison(**row | {"verdict": Verdict(row["verdict"])}) for row in made["rows"]] == list(rows)
    # a table shows the explanation; no word in it counts as a verdict
    assert [row.text for row in rows] == [rows[0].explanation, "differs"]


def test_the_page_shows_all_and_says_when_it_was_quick() -> None:
    rows = (
        Comparison("mean", "<31>", "31", Verdict.AGREES),
        Comparison("q", "-1", "2", Verdict.ERRATUM, "no probability"),
    )
    done = [(Reproduction("module/figure-1", "a figure", rows, "a note"), 1.25)]
    text = write_page(done, quick=True).html()
    assert "Few trials" in text
    assert "&lt;31&gt;" in text
    assert "Few trials" not in write_page(done, quick=False).html()
    assert done[0][0].counts == dict(zip(Verdict, (1, 1, 0, 0), strict=True))


def test_one_command_for_a_module_and_for_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "reproduce", "all", "--list", "--json")
    assert code == 0
    listed = json.loads(out)
    assert [row["name"] for row in listed] == list(experiments())
    assert all(row["title"] and row["seconds"] is not None for row in listed)
    code, out, err = run(capsys, "reproduce", "release/proposition-4.1", "--quick", "--out", tmp_path)
    assert code == 0, err
    kept = json.loads((tmp_path / "release" / "proposition-4.1.json").read_text())
    assert kept["quick"] is True
    assert kept["counts"]["agrees"] == 1
    assert not (tmp_path / "index.html").exists()
    code, _, err = run(capsys, "reproduce", "nothing")
    assert code == 2
    assert "'all', a module or one of" in err
    code, _, err = run(capsys, "reproduce", "release/proposition-4.1", "--quick", "--out", tmp_path)
    assert code == 2
    assert "--force" in err
    assert run(capsys, "reproduce", "release/proposition-4.1", "--quick", "--out", tmp_path, "--force")[0] == 0


def test_several_at_once_are_set_side_by_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import peerveil.papers.reproduce

    monkeypatch.setattr(peerveil.papers.reproduce, "experiments", lambda: ILLUSTRATIONS)
    code, out, err = run(capsys, "reproduce", "all", "--out", tmp_path)
    assert code == 0, err
    assert "side by side" in out
    page = (tmp_path / "index.html").read_text()
    for name in ILLUSTRATIONS:
        assert f"<h2>{name}:" in page
        assert (tmp_path / f"{name}.json").exists()
    assert page.count("<figure>") == 3
