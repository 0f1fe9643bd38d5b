"""What every action writes the same way: protections of a person, best guesses, and outcomes that are kept back."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from peerveil.core.guarantee import Guarantee
from peerveil.study.outcome import Outcome, person_cautions, typical_and_most

ONE = Guarantee.pure_dp(1, unit="one review", neighbors="two reviewers exchange one review each")


def protections(loads: tuple[int, int]) -> list[list[str]]:
    outcome = Outcome("How strict are reviewers?")
    outcome.protect_person("one review", "reviewer", "wrote ({} reviews)", loads, ONE.group)
    return outcome.protects


def test_one_thing_a_typical_person_and_the_busiest_are_told_apart() -> None:
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
    outcome = Outcome("Correct labels", answer="9 of 10", found=["9 of 10"], results={"share": 0.9}, attack=["none"])
    outcome.promises(ONE)
    outcome.protect("one answer", ONE)
    outcome.table(["share"], [[0.9]], public=True)
    outcome.csv("labels.csv", pl.DataFrame({"task": [1]}), public=True)
    outcome.picture(lambda ax: ax.plot([1, 2]), "a line", "A line.", public=True)
    outcome.keep_back("Not for publication.", "everybody who answered")
    for parts in (outcome.tables, outcome.files, outcome.pictures):
        (part,) = parts
        assert not part.public
    assert (outcome.answer, outcome.found, outcome.results, outcome.attack, outcome.guarantee) == ("", [], {}, [], None)
    assert outcome.promise == outcome.promise_short == "Not for publication."
    assert outcome.protects == [["everybody who answered", "nothing of this step is published"]]
    assert (outcome.private_answer, outcome.private_results) == ("9 of 10", {"share": 0.9})
    assert outcome.private_found == ["Not for publication.", "9 of 10"]
