"""What a study's report says first, what it keeps back, and what it says about money."""

from __future__ import annotations

import html
import json
import pickle
import re
from fractions import Fraction
from pathlib import Path

import pytest
from scripts.reference import write_reference
from tests.study.helpers import AUDIT, means, write_study

from peerveil import BadInput, Guarantee, Ledger
from peerveil.report import Line, Page
from peerveil.report.page import WORDS
from peerveil.study import Study, check_study, run_study
from peerveil.study.report import cost_of, saved_page
from peerveil.study.spelling import BadStudy

TRUTH = """
[data.answers]
path = "data/labels.csv"
[[steps]]
action = "truth.randomize"
data = "answers"
account = "chairs"
epsilon = 1
classes = [0, 1]
"""


def words_of(path: Path) -> str:
    """A page as a reader sees it, without pictures."""
    text = re.sub(r"<(style|svg)\b.*?</\1>", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def test_answers_come_first_and_what_is_hidden_is_said(tmp_path: Path) -> None:
    done = run_study(write_study(tmp_path, means(1, "miscalibration"), AUDIT, TRUTH), tmp_path / "out")
    whole, public = words_of(done.report), words_of(done.folder / "public" / "report.html")
    assert (
        whole.index("How strict are reviewers?")
        < whole.index("Details, guarantee and tables")
        < whole.index("What it cost")
    )
    assert re.search(r"How strict are reviewers\? .{0,400}\d+% of 20 reviewers \(\d+% to \d+%\)", public)
    assert "the standard deviation of reviewers' strictness is about" in public
    assert "One step is not shown here: it is not for publication." in public
    # the operator's page leads to the public one; inside another page, where it would lead nowhere, it does not
    assert '<a href="public/report.html">' in done.report.read_text()
    assert "public/report.html" not in saved_page(done.folder, public=False).html()
    assert "not shown here" not in whole
    # the plain answer that the command prints
    sure = (
        r"An observer with 10 suspects who sees two comments within 5 min of each other is \d+(\.\d+)?% sure who it is"
    )
    assert re.search(sure, whole)
    assert not re.search(sure, public)
    # one review, and everything one person wrote
    assert "who wrote one review: protected (epsilon 1)" in public
    assert re.search(r"everything the busiest reviewer wrote \(5 reviews\): weakly protected \(epsilon 5\)", public)
    assert "one answer: protected (epsilon 1)" in public
    for word in WORDS:
        assert word in public
    # the promise in one sentence, the whole of it folded away
    assert "between two neighboring cases is right at most 73.2% of the time. The full guarantee" in public
    assert "73.1" not in whole
    assert "how many reviews each wrote stays as it is" in public
    folder = done.folder / "private" / "truth-randomize"
    assert (folder / "workers.csv").read_text().startswith("worker,")
    assert not (done.folder / "public" / "truth-randomize" / "workers.csv").exists()
    assert "reports.csv numbers the workers at random" in public
    # the command to post with names the real file
    assert f"peerveil timing post {tmp_path / 'data' / 'events.csv'} --epsilon 1 " in whole
    assert "not for this one: the gap was taken from it" in whole


def test_what_had_been_spent_before_is_said(tmp_path: Path) -> None:
    first = write_study(tmp_path, means(1), budget=3)
    run_study(first, tmp_path / "one")
    other = write_study(tmp_path, means("1/2").replace("1/2", "'1/2'"), TRUTH, budget=3, name="other.toml")
    done = run_study(other, tmp_path / "two")
    page = words_of(done.report)
    assert "spent before spent by this study remaining chairs 3 1 1.5 0.5" in page
    assert "The 1 spent before from chairs went for the same data" in page
    assert "adds up with what this study spent to 2.5" in page
    with Ledger.open(tmp_path / "peerveil-ledger.db") as book:
        account = book.account("chairs")
        keys = [entry.key for entry in account.entries() if entry.key]
        costs = [cost_of(account, keys[:1]), cost_of(account, keys[1:])]
    # what came later does not change the first
    assert [one.before for one in costs] == [0, 1]
    assert [one.ours for one in costs] == [1, Fraction(3, 2)]
    assert [one.remaining for one in costs] == [2, Fraction(1, 2)]
    assert "Nothing had been spent" in costs[0].about_before()
    checked = check_study(Study.read(write_study(tmp_path, means("'1/4'"), budget=3, name="third.toml")))
    assert checked.due == {"chairs": Fraction(1, 4)}
    assert checked.remaining == {"chairs": Fraction(1, 2)}


def test_other_data_are_told_apart_in_the_cost(tmp_path: Path) -> None:
    run_study(write_study(tmp_path, TRUTH, budget=3), tmp_path / "one")
    done = run_study(write_study(tmp_path, means(1), budget=3, name="other.toml"), tmp_path / "two")
    assert "Of the 1 spent before from chairs, none of it went for the same data" in words_of(done.report)


def test_all_problems_of_a_study_are_named_at_once(tmp_path: Path) -> None:
    file = write_study(tmp_path, means(1), AUDIT)
    text = file.read_text().replace("epsilon = 1\n", "epsilom = 1\n").replace("percentile = 25", "percentile = 250")
    text = text.replace("data/reviews.csv", "data/none.csv").replace("[study]", "[study]\nsed = 1", 1)
    file.write_text(text)
    with pytest.raises(BadStudy) as caught:
        Study.read(file)
    said = str(caught.value)
    assert said.startswith("5 problems:")
    for part in (
        "'sed', need 'seed'?", "data.reviews.path", "'epsilom', need 'epsilon'?", "steps[1].epsilon: got nothing",
        "steps[2].percentile: got 250",
    ):  # fmt: skip
        assert part in said
    assert str(pickle.loads(pickle.dumps(caught.value))) == said
    # one problem is raised as it is, and data that cannot be read are named together too
    file.write_text(write_study(tmp_path, means(1), AUDIT).read_text())
    for name in ("reviews", "events"):
        (tmp_path / "data" / f"{name}.csv").write_text("a,b\n1,2\n")
    with pytest.raises(BadInput, match=r"(?s)2 problems:.*reviews.*events"):
        check_study(Study.read(file))


@pytest.mark.parametrize("epsilon", ["1/3", "2", "5", "28"])
def test_verdicts_and_short_promises_are_never_stronger(epsilon: str) -> None:
    promise = Guarantee.pure_dp(epsilon, unit="one review", neighbors="one review has another score")
    how = promise.verdict.split(" (")[0]
    assert (
        how == {"1/3": "protected", "2": "protected", "5": "weakly protected", "28": "in effect not protected"}[epsilon]
    )
    assert f"(epsilon {epsilon})" in promise.verdict
    figures = re.findall(r"at most ([\d.,]+)% of the time", promise.short)
    assert figures == re.findall(r"right at most ([\d.,]+)% of the time", str(promise))
    simulated = promise.as_simulated()
    for text in (simulated.short, simulated.verdict):
        assert "simulation, not private" in text
    none = Guarantee.pure_dp(None, unit="one review", neighbors="one review has another score")
    assert none.short.startswith("No privacy")
    assert none.verdict == "not protected (not private)"


def test_short_promises_of_the_other_notions() -> None:
    late = Guarantee.one_sided_dp(1, gap=60, unit="a pair", neighbors="they were written apart")
    assert late.short.endswith("nothing is guaranteed in the other direction.")
    assert late.verdict == "protected (epsilon 1, one way)"
    guess = Guarantee.map_error("0.1239", unit="the writer", neighbors="every exchange")
    assert guess.short.endswith("guesses the writer wrongly at least 12.3% of the time, if the stated model holds.")
    assert guess.verdict == "the best guess is wrong at least 12.3% of the time"


def test_short_promises_are_built_and_not_cut_out_of_the_whole_ones() -> None:
    """Words of the unit that look like the rest of a sentence stay in it."""
    unit = "a score (to be distinguished: any) or a mark (neighbors: none)"
    guess = Guarantee.map_error("0.1239", unit=unit, neighbors="every exchange")
    assert guess.short.endswith(f"guesses {unit} wrongly at least 12.3% of the time, if the stated model holds.")
    large = Guarantee.pure_dp(188, unit=unit, neighbors="another (neighbors: of these)")
    end = "protects nothing in effect: a 50:50 guess between two cases may be right almost every time."
    assert large.short == f"Differential privacy with epsilon 188 for {unit} {end}"


def test_pages_stack_fold_and_leave_out() -> None:
    page = Page("A page")
    page.table(["a", "b", "c"], [[1, "-", "x\ny"], [2, "", "z"]])
    page.guarantee("short", "long <b>")
    page.warning("Careful", [Line("first", "peerveil run <file>"), "second"])
    text = page.html()
    assert '<td data-label="a">1</td>' in text
    assert ">b</th>" not in text  # not a single entry
    assert "<p>x</p><p>y</p>" in text
    assert "<details><summary>The full guarantee</summary><p>long &lt;b&gt;</p></details>" in text
    assert "<pre><code>peerveil run &lt;file&gt;</code></pre>" in text


def test_the_glossary_of_the_docs_is_that_of_the_report(tmp_path: Path) -> None:
    write_reference(tmp_path)
    glossary = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text(encoding="utf-8")
    included = re.findall(r"```\{include\} (\S+)\n```", glossary)
    text = "".join((tmp_path / name).read_text(encoding="utf-8") for name in included)
    assert dict(re.findall(r"^- \*\*(.+?)\*\*: (.+)$", text, flags=re.MULTILINE)) == dict(WORDS)
    assert 10 <= len(WORDS) <= 20


def test_results_for_programs_carry_the_mark(tmp_path: Path) -> None:
    done = run_study(write_study(tmp_path, means(1), extra="seed = 3"), tmp_path / "out")
    data = json.loads((done.folder / "simulated" / "simulated-results.json").read_text())
    assert data["simulated"] is True
    assert data["steps"][0]["mark"] == "simulation, not private"
