"""The actions of the rankings module in a study: what is debited, what is published, and what is refused beforehand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from peerveil.core.errors import BadInput
from peerveil.data import Rankings
from peerveil.ledger import Ledger
from peerveil.rankings import Mallows, randomize_rankings
from peerveil.study import Study, check_study, run_study
from peerveil.study.rankings import RankingsTest

if TYPE_CHECKING:
    from pathlib import Path

VOTES = Rankings(Mallows(6, 0.6).sample(80, seed=1))
HEAD = """
[study]
title = "Votes"
[accounts.main]
epsilon = 3
[data.votes]
path = "votes.csv"
kind = "rankings"
[data.reports]
path = "reports.jsonl"
"""
TEST = '[[steps]]\naction = "rankings.test"\ndata = "votes"\naccount = "main"\n'
AGGREGATE = '[[steps]]\naction = "rankings.aggregate"\ndata = "reports"\n'


def study(folder: Path, *steps: str) -> Path:
    VOTES.write(folder / "votes.csv")
    if not (folder / "reports.jsonl").exists():
        (folder / "reports.jsonl").write_text(randomize_rankings(VOTES, epsilon=2).text(), encoding="utf-8")
    (folder / "study.toml").write_text(HEAD + "".join(steps), encoding="utf-8")
    return folder / "study.toml"


def test_what_is_private_is_debited_and_what_is_not_is_not_published(tmp_path: Path) -> None:
    randomize = '[[steps]]\naction = "rankings.randomize"\ndata = "votes"\naccount = "main"\nepsilon = "1/2"\n'
    file = study(tmp_path, f"{TEST}epsilon = 1\n", f'{TEST}epsilon = "none"\nname = "plain"\n', randomize, AGGREGATE)
    done = run_study(file, tmp_path / "out", progress=False)
    with Ledger.open(tmp_path / "peerveil-ledger.db", create=False) as book:
        assert [entry.debit for entry in book.account("main").entries()] == [1, 0.5]
    public = {
        path.relative_to(tmp_path / "out" / "public").as_posix() for path in (tmp_path / "out").rglob("public/*/*")
    }
    assert public == {
        "rankings-test/test.json", "rankings-test/figure-1.svg", "rankings-randomize/reports.jsonl",
        "rankings-randomize/figure-1.svg", "rankings-aggregate/aggregate.json", "rankings-aggregate/figure-1.svg",
    }  # fmt: skip
    plain = done.outcomes["plain"]
    assert (plain.public.answer, plain.public.findings, plain.public.results, plain.mark) == ("", [], {}, "not private")
    assert plain.private.answer.startswith("Yes, the rankings differ from chance")


def test_reports_that_name_items_give_the_consensus_first_and_others_say_why_not(tmp_path: Path) -> None:
    randomize = (
        '[[steps]]\naction = "rankings.randomize"\ndata = "votes"\naccount = "main"\nepsilon = 2\nask = "name"\n'
    )
    done = run_study(study(tmp_path, randomize, AGGREGATE), tmp_path / "out", progress=False)
    plain = done.outcomes["rankings-aggregate"]
    assert plain.question == "Do the rankings differ from chance?"
    assert any("leave the order of the items open" in str(line) for line in plain.public.findings)
    (tmp_path / "named").mkdir()
    text = (tmp_path / "out" / "public" / "rankings-randomize" / "reports.jsonl").read_text(encoding="utf-8")
    (tmp_path / "named" / "reports.jsonl").write_text(text, encoding="utf-8")
    named = run_study(study(tmp_path / "named", AGGREGATE), tmp_path / "more", progress=False)
    outcome = named.outcomes["rankings-aggregate"]
    assert outcome.question == "Which items do people prefer?"
    assert set(outcome.public.files) == {"consensus.csv", "consensus.json", "aggregate.json"}
    assert len(outcome.public.figures) == 2
    assert sorted(outcome.public.results["order"]) == sorted(VOTES.items)
    assert "differ from chance" in outcome.public.answer


def test_a_file_without_reports_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    (tmp_path / "reports.jsonl").write_text("{}\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"steps\[2\]: .*line 1"):
        check_study(Study.read(study(tmp_path, f"{TEST}epsilon = 1\n", AGGREGATE)))
    assert not (tmp_path / "peerveil-ledger.db").exists()


@pytest.mark.parametrize("step", [TEST, TEST.replace("rankings.test", "rankings.consensus")])
def test_partial_rankings_are_taken(tmp_path: Path, step: str) -> None:
    partial = Rankings([[0, 1, -1], [0, -1, 1], [0, 0, 1]])
    assert RankingsTest.suggest(partial).settings == RankingsTest.suggest(VOTES).settings == {"epsilon": 1}
    file = study(tmp_path, f"{step}epsilon = 1\n")
    partial.write(tmp_path / "votes.csv")
    assert check_study(Study.read(file)).spends == {"main": 1}
