"""What every action writes the same way: protections of a person, best guesses, and outcomes that are kept back."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from peerveil.core.guarantee import Guarantee
from peerveil.report import Line
from peerveil.study.outcome import Outcome, OutcomePart, person_cautions, typical_and_most

ONE = Guarantee.pure_dp(1, unit="one review", neighbors="two reviewers exchange one review each")


def protections(loads: tuple[int, int]) -> list[list[str]]:
    outcome = Outcome("How strict are reviewers?")
    outcome.protect_person("one review", "reviewer", "wrote ({} reviews)", loads, ONE.group)
    return outcome.protections


def test_one_thing_a_typical_person_and_the_busiest_are_distinguished() -> None:
    assert protections((3, 9)) == [
        ["one review", "protected (epsilon 1)"],
        ["everything a typical reviewer wrote (3 reviews)", "weakly protected (epsilon 3)"],
        ["everything the busiest reviewer wrote (9 reviews)", "in effect not protected (epsilon 9)"],
    ]


@pytest.mark.parametrize(("loads", "who"), [((4, 4), "any"), ((1, 4), "the busiest")])
def test_a_typical_person_is_left_out_where_nothing_is_added(loads: tuple[int, int], who: str) -> None:
    _, (what, _) = protections(loads)
    assert what == f"everything {who} reviewer wrote (4 reviews)"


def test_cautions_name_the_busiest_only_where_somebody_did_more() -> None:
    for loads in ([1, 2, 9], np.array([1, 2, 9]), pl.Series([1, 2, 9])):
        assert typical_and_most(loads) == (2, 9)
    both = person_cautions("person", "reports ({} answers)", (2, 9), ONE.group)
    assert both == [
        "Everything that a typical person reports (2 answers) is protected (epsilon 2).",
        "Everything that the busiest reports (9 answers) is in effect not protected (epsilon 9).",
    ]
    assert person_cautions("person", "reports ({} answers)", (2, 2), ONE.group) == both[:1]


def test_the_best_guess_is_that_of_the_guarantee() -> None:
    outcome = Outcome("How strict are reviewers?")
    outcome.best_guess("Somebody who knows all but two guesses these two", ONE)
    assert outcome.attack == ["Somebody who knows all but two guesses these two correctly at most 73.2% of the time."]


def test_nothing_that_is_kept_back_stays_public() -> None:
    outcome = Outcome.guaranteed("Correct labels", ONE, public=OutcomePart("9 of 10", ["9 of 10"], {"share": 0.9}))
    outcome.attack = ["none"]
    outcome.protect("one answer", ONE)
    outcome.public.table(["share"], [[0.9]])
    outcome.public.csv("labels.csv", pl.DataFrame({"task": [1]}))
    outcome.figure(lambda ax: ax.plot([1, 2]), "a line", "A line.", public=True)
    outcome.withhold("Not for publication.", "everybody who answered")
    assert outcome.public == OutcomePart()
    assert (outcome.attack, outcome.guarantee) == ([], None)
    assert outcome.guarantee_text == outcome.guarantee_short == "Not for publication."
    assert outcome.protections == [["everybody who answered", "nothing of this step is published"]]
    private = outcome.private
    assert (private.answer, private.results) == ("9 of 10", {"share": 0.9})
    assert private.findings == ["Not for publication.", "9 of 10"]
    assert [len(items) for items in (private.tables, private.files, private.figures)] == [1, 1, 1]


def test_an_outcome_survives_its_file() -> None:
    outcome = Outcome("Correct labels", mark="simulation, not private")
    outcome.figure(lambda ax: ax.plot([1, 2]), "a line", "A line.", public=True)
    outcome.private.findings = ["as it is", Line("do this", "peerveil run study.toml")]
    outcome.private.table(["share"], [[0.9]])
    again = Outcome.from_dict(json.loads(json.dumps(outcome.to_dict())))
    assert again == outcome
    assert isinstance(again.private.findings[1], Line)
    assert "simulation, not private" in again.public.figures[0].svg
