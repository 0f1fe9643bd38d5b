"""A study is read, checked, run, interrupted, gone on with, and never spends twice."""

from __future__ import annotations

import json
import stat
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.study.helpers import AUDIT, DECIDE, PAST, TITLE, means, write_past, write_study

from peerveil import BadInput, BudgetExceeded, Ledger, PeerveilError, Randomness
from peerveil.study import Checked, Declined, Study, all_actions, check_study, new_study, run_study
from peerveil.study.execute import StudyFile, execute
from peerveil.study.folder import Folder
from peerveil.study.outcome import Outcome


def spent(folder: Path) -> Fraction:
    with Ledger.open(folder / "peerveil-ledger.db", create=False) as book:
        return book.account("chairs").exact_spent


# ---- the whole way -----------------------------------------------------------------------------------------------


def test_a_study_from_beginning_to_end(tmp_path: Path) -> None:
    file = write_study(tmp_path, means(1), means("'1/3'", "miscalibration", 'name = "strictness"'), AUDIT)
    asked = []

    def agree(checked: Checked) -> bool:
        asked.append(checked.spends)
        return True

    done = run_study(file, tmp_path / "out", confirm=agree)
    assert asked == [{"chairs": Fraction(4, 3)}]
    assert spent(tmp_path) == Fraction(4, 3)
    public, private = done.folder / "public", done.folder / "private"
    names = {str(path.relative_to(public)) for path in public.rglob("*") if path.is_file()}
    assert names == {
        "report.html", "results.json", "ledger.csv", "release-publish/means-rating.csv", "release-publish/means-rating.json",
        "release-publish/figure-1.svg", "strictness/means-miscalibration.csv", "strictness/means-miscalibration.json",
        "strictness/figure-1.svg", "release-publish/shares.csv", "strictness/shares.csv",
    }  # fmt: skip
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert sorted(path.name for path in done.folder.iterdir()) == ["private", "public", "report.html"]
    for path in (done.report, *(path for path in private.rglob("*") if path.is_file())):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    whole, shown = done.report.read_text(), (public / "report.html").read_text()
    assert TITLE in whole
    assert "must not be published" in whole.lower()
    assert "must not be published" not in shown.lower()
    assert "pairs written in one sitting" not in shown  # the audit's findings
    assert "Differential privacy with epsilon 1 " in shown
    assert "linking posts" in whole
    assert "linking posts" not in shown
    results = json.loads((public / "results.json").read_text())
    assert [step["name"] for step in results["steps"]] == ["release-publish", "strictness", "timing-audit"]
    assert results["steps"][2]["found"] == []
    assert results["steps"][2]["results"] == {}
    lines = (public / "ledger.csv").read_text().splitlines()
    assert len(lines) == 3


def test_a_second_run_of_the_same_folder_repeats_nothing(tmp_path: Path) -> None:
    file = write_study(tmp_path, means(1))
    first = run_study(file, tmp_path / "out")
    before = (first.folder / "public" / "release-publish" / "means-rating.csv").read_text()
    (first.folder / "public" / "release-publish" / "means-rating.csv").unlink()

    def never(_: Any) -> bool:
        raise AssertionError("nothing would be spent, so nobody is asked")

    again = run_study(file, tmp_path / "out", confirm=never)
    assert again.repeated == ("release-publish",)
    assert (first.folder / "public" / "release-publish" / "means-rating.csv").read_text() == before
    assert spent(tmp_path) == 1


def test_another_folder_is_another_run_and_is_debited(tmp_path: Path) -> None:
    file = write_study(tmp_path, means(1))
    run_study(file, tmp_path / "a")
    run_study(file, tmp_path / "b")
    assert spent(tmp_path) == 2


def test_a_simulation_spends_nothing_and_is_marked(tmp_path: Path) -> None:
    file = write_study(tmp_path, means(1), extra="seed = 3")
    done = run_study(file, tmp_path / "out")
    assert not (tmp_path / "peerveil-ledger.db").exists()
    assert not (done.folder / "public").exists()
    assert done.public is None
    figure = done.folder / "simulated" / "release-publish" / "simulated-figure-1.svg"
    assert "simulation, not private" in figure.read_text()
    files = [path.name for path in (done.folder / "simulated").rglob("*") if path.is_file()]
    assert len(files) == 6
    assert all(name.startswith("simulated-") for name in files)
    for page in (done.report, done.folder / "simulated" / "simulated-report.html"):
        assert "<h1>SIMULATION: " in page.read_text()
        assert "May be published" not in page.read_text()
    again = run_study(file, tmp_path / "again")
    where = "simulated/release-publish/simulated-means-rating.csv"
    assert (done.folder / where).read_text() == (again.folder / where).read_text()


def test_decisions_are_public_and_the_sheet_is_not(tmp_path: Path) -> None:
    write_past(tmp_path)
    done = run_study(write_study(tmp_path, PAST, DECIDE), tmp_path / "out")
    rows = (done.folder / "public" / "calibration-decide" / "decisions.csv").read_text().splitlines()
    assert sum(row.endswith(",true") for row in rows) == 8
    assert (done.folder / "private" / "calibration-decide" / "sheet.csv").exists()
    reviewers = {row.split(",")[1] for row in (tmp_path / "data" / "reviews.csv").read_text().splitlines()[1:]}
    for path in (done.folder / "public").rglob("*"):
        if path.is_file():
            assert not any(name in path.read_text() for name in reviewers), path


# ---- interrupted -------------------------------------------------------------------------------------------------


class Killed(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("moment", ["keep", "make_files", "pin_data"])
def test_a_run_that_was_killed_goes_on_and_never_spends_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    file = write_study(tmp_path, means(1), means(1, "miscalibration", 'name = "second"'), budget=2)
    with monkeypatch.context() as patch:

        def die(*_: Any) -> None:
            raise Killed

        patch.setattr(Folder, moment, die)
        with pytest.raises(Killed):
            run_study(file, tmp_path / "out")
    if moment == "keep":
        # the debit stands, what was drawn is lost, nothing was written
        assert spent(tmp_path) == 1
        assert not (tmp_path / "out" / "public").exists()
    done = run_study(file, tmp_path / "out")
    assert spent(tmp_path) == 2
    assert set(done.outcomes) == {"release-publish", "second"}
    assert done.repeated == (("release-publish",) if moment == "make_files" else ())


def test_an_account_that_forgets_the_debit_would_be_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: debit again after a kill. The test above must then fail, that is: more is spent."""
    file = write_study(tmp_path, means(1), budget=3)
    with monkeypatch.context() as patch:
        patch.setattr(Folder, "keep", lambda *_: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            run_study(file, tmp_path / "out")
    monkeypatch.setattr(Folder, "key", lambda self, step: f"forgotten/{step}")
    run_study(file, tmp_path / "out")
    assert spent(tmp_path) == 2


def test_somebody_else_who_names_the_run_in_words_does_not_pay_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_study(tmp_path, means(1), budget=3)
    with monkeypatch.context() as patch:
        patch.setattr(Folder, "pin_data", lambda *_: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            run_study(file, tmp_path / "out")
    run = json.loads((tmp_path / "out" / "private" / "journal.json").read_text())["run"]
    checked = check_study(Study.read(file))
    with Ledger.open(tmp_path / "peerveil-ledger.db") as book:
        account, one = book.account("chairs", epsilon=3), checked.planned[0]
        assert one.guarantee is not None
        words = f"a title of somebody else's [run {run}] [step release-publish]"
        account.spend(one.guarantee, purpose=words, data=one.inputs.table, randomness=Randomness.secure())
    done = run_study(file, tmp_path / "out")
    with Ledger.open(tmp_path / "peerveil-ledger.db") as book:
        assert [entry.key for entry in book.account("chairs").entries()] == [None, f"{run}/release-publish"]
    assert "spent before" in done.report.read_text()
    assert spent(tmp_path) == 2


def test_saying_no_leaves_nothing_behind(tmp_path: Path) -> None:
    file = write_study(tmp_path, means(1))
    with pytest.raises(Declined):
        run_study(file, tmp_path / "out", confirm=lambda _: False)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "peerveil-ledger.db").exists()


def test_two_at_once_in_one_folder_are_refused(tmp_path: Path) -> None:
    file = write_study(tmp_path, means(1))
    study = Study.read(file)
    with Folder.opened(tmp_path / "out", study), pytest.raises(PeerveilError, match="another process"):
        run_study(file, tmp_path / "out")


# ---- refused before the first step ----------------------------------------------------------------------------------


def test_overspending_in_the_last_step_is_refused_before_the_first(tmp_path: Path) -> None:
    file = write_study(tmp_path, means(1), means("1.0000001", "miscalibration", 'name = "last"'), budget=2)
    with pytest.raises(BudgetExceeded, match="requested 2.0000001, remaining 2"):
        run_study(file, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    other = write_study(tmp_path, means(1), name="other.toml", budget=2)
    run_study(other, tmp_path / "first")
    run_study(other, tmp_path / "second")
    with pytest.raises(BudgetExceeded):
        run_study(other, tmp_path / "third")
    assert not (tmp_path / "third").exists()
    assert spent(tmp_path) == 2


def test_an_account_that_was_opened_with_another_budget_is_refused(tmp_path: Path) -> None:
    run_study(write_study(tmp_path, means(1), budget=3), tmp_path / "out")
    more = write_study(tmp_path, means(1), budget=30, name="more.toml")
    with pytest.raises(BadInput, match=r"accounts\.chairs\.epsilon: got '30', need 3"):
        run_study(more, tmp_path / "more")


def test_data_that_change_between_check_and_run_or_while_read_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_study(tmp_path, means(1), means(1, "miscalibration", 'name = "second"'), budget=9)
    reviews = tmp_path / "data" / "reviews.csv"
    with monkeypatch.context() as patch:
        calls = iter(range(9))
        keep = Folder.keep

        def second_time_dies(folder: Folder, step: str, outcome: Outcome) -> None:
            if next(calls):
                raise Killed
            keep(folder, step, outcome)

        patch.setattr(Folder, "keep", second_time_dies)
        with pytest.raises(Killed):
            run_study(file, tmp_path / "out")
    lines = reviews.read_text().splitlines()
    reviews.write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(BadInput, match=r"data\.reviews: got 'another file"):
        run_study(file, tmp_path / "out")
    # what is used is what was checked: a change after the check changes nothing
    checked = check_study(Study.read(file))
    size = len(checked.planned[0].inputs.table)
    reviews.write_text("paper,reviewer,score\n1,a,3\n")
    assert len(checked.planned[0].inputs.table) == size


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("epsilon = 1\n", "epsilon = 0\n"), r"steps\[1\]\.epsilon"),
        (("epsilon = 1\n", "epsilon = true\n"), r"steps\[1\]\.epsilon"),
        (("epsilon = 1\n", "epsilon = nan\n"), r"steps\[1\]\.epsilon"),
        (("epsilon = 1\n", "epsilom = 1\n"), r"'epsilom', need 'epsilon'"),
        (('weight = "rating"', 'weight = "fame"'), r"steps\[1\]\.weight"),
        (("[1, 10]", "[10, 1]"), r"steps\[1\]\.scale"),
        (("[1, 10]", "[2, 3]"), r"steps\[1\]: .*score"),
        (('"release.publish"', '"release.publish; rm -rf /"'), r"steps\[1\]\.action: got 'release.publish; rm -rf /'"),
        (('data = "reviews"', 'data = "nobody"'), r"steps\[1\]\.data"),
        (('data = "reviews"', 'data = "events"'), r"steps\[1\]\.data: got events, which holds events, need reviews"),
        (('account = "chairs"', 'account = "nobody"'), r"steps\[1\]\.account"),
        (('account = "chairs"\n', ""), r"steps\[1\]\.account"),
        (("data/reviews.csv", "data/none.csv"), r"data\.reviews\.path"),
        (("data/reviews.csv", "/dev/zero"), "regular file"),
        (("data/reviews.csv", "data"), "regular file"),
        (("data/reviews.csv", r"a\u0000b"), "one line"),
        ((f'title = "{TITLE}"', ""), r"study\.title"),
        ((f'title = "{TITLE}"', r'title = "a\nb"'), r"study\.title"),
        (("[1, 10]\n", '[1, 10]\nname = "../../etc/passwd"\n'), r"steps\[1\]\.name"),
        (("[1, 10]\n", '[1, 10]\nname = "a b; $(rm x)"\n'), r"steps\[1\]\.name"),
        (("[study]", "[stdy]"), "'stdy', need 'study'"),
        (("[study]", "[study"), "TOML"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    file = write_study(tmp_path, means(1))
    text = file.read_text()
    assert change[0] in text
    file.write_text(text.replace(change[0], change[1], 1))
    with pytest.raises(BadInput, match=message):
        run_study(file, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "peerveil-ledger.db").exists()


def test_folders_of_others_and_links_are_refused(tmp_path: Path) -> None:
    file = write_study(tmp_path, means(1))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(BadInput, match="new or empty folder"):
        run_study(file, tmp_path / "mine")
    (tmp_path / "link").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link" / "private").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "journal.json").write_text("{}")
    with pytest.raises(BadInput, match="not links"):
        run_study(file, tmp_path / "link")
    changed = write_study(tmp_path, means(2), name="changed.toml")
    run_study(file, tmp_path / "out")
    with pytest.raises(BadInput, match="the study that this folder was begun with"):
        run_study(changed, tmp_path / "out")
    assert spent(tmp_path) == 1


def test_what_changed_in_a_study_is_named(tmp_path: Path) -> None:
    file = write_study(tmp_path, means(1), extra='ledger = "budget.db"')
    run_study(file, tmp_path / "out")
    text = file.read_text()
    for old, new, change in (
        ("epsilon = 1\n", "epsilon = 2\n", r"changed: steps\[1\].epsilon \(was 1, is 2\)\)"),
        ('weight = "rating"\n', "", r"changed: steps\[1\].weight \(removed\)\)"),
        ('ledger = "budget.db"', 'ledger = "postgresql://me:secret@db/x"', r"changed: study.ledger\)"),
        ("[study]", "# a remark\n[study]", r"changed: comments or spaces\)"),
    ):
        assert old in text
        file.write_text(text.replace(old, new))
        with pytest.raises(BadInput, match=change):
            run_study(file, tmp_path / "out")
    file.write_text(text)
    run_study(file, tmp_path / "out")


def test_a_lost_ledger_is_named_and_no_new_one_is_begun(tmp_path: Path) -> None:
    file = write_study(tmp_path, means(1))
    run_study(file, tmp_path / "out")
    ledger = tmp_path / "peerveil-ledger.db"
    kept = ledger.read_bytes()
    ledger.unlink()
    lost = r"peerveil-ledger.db was lost or replaced: .* step release-publish .* account 'chairs'. Restore it from a backup"
    with pytest.raises(PeerveilError, match=lost):
        run_study(file, tmp_path / "out")
    assert not ledger.exists()
    with Ledger.open(ledger) as other:
        other.account("chairs", epsilon=3)
    with pytest.raises(PeerveilError, match=lost):
        run_study(file, tmp_path / "out")
    ledger.write_bytes(kept)
    assert run_study(file, tmp_path / "out").repeated == ("release-publish",)
    assert spent(tmp_path) == 1


def test_why_a_step_spends_more_than_its_epsilon_is_said(tmp_path: Path) -> None:
    """Somebody answered a task twice: that costs twice the epsilon of an answer."""
    rows = ["task,worker,label", *(f"{t},{w},{(t + w) % 2}" for t in range(6) for w in range(4)), "0,0,1"]
    (tmp_path / "answers.csv").write_text("\n".join(rows) + "\n")
    file = tmp_path / "study.toml"
    text = """
[study]
title = "Birds"
[accounts.crowd]
epsilon = 2
[data.answers]
path = "answers.csv"
[[steps]]
action = "truth.randomize"
data = "answers"
account = "crowd"
epsilon = 1
classes = [0, 1]
"""
    file.write_text(text)
    reason = "2 times epsilon 1, for one task of one person, answered up to 2 times"
    assert check_study(Study.read(file)).rows()[0][2] == f"epsilon 2 from crowd ({reason})"
    file.write_text(text.replace("epsilon = 2", "epsilon = 1"))
    with pytest.raises(BudgetExceeded, match=f"requested 2, remaining 1, .* \\(truth-randomize: {reason}\\)"):
        check_study(Study.read(file))
    with Ledger.open(tmp_path / "budget.db") as ledger:
        ledger.account("crowd", epsilon=1)
    action = all_actions()["truth.randomize"].check({"epsilon": 1, "classes": [0, 1]})
    source = StudyFile(path=tmp_path / "answers.csv")
    with pytest.raises(BudgetExceeded, match=reason):
        execute(action, source, tmp_path / "out", ledger=str(tmp_path / "budget.db"), account="crowd")


def test_a_hostile_title_stays_text(tmp_path: Path) -> None:
    file = write_study(tmp_path, means(1))
    file.write_text(file.read_text().replace(TITLE, "<script>alert(1)</script> $(rm -rf /)"))
    done = run_study(file, tmp_path / "out")
    assert "<script>" not in done.report.read_text()


# ---- new ---------------------------------------------------------------------------------------------------------


def test_a_new_study_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_study(tmp_path)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "fresh.toml"
    file.write_text(new_study("data"))
    checked = check_study(Study.read(file))
    assert {planned.action.module() for planned in checked.planned} >= {"release", "timing"}
    assert checked.spends == {"main": checked.study.accounts["main"]}


def test_strange_folders(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="a folder of data"):
        new_study(tmp_path / "none")
    with pytest.raises(BadInput, match="it is empty"):
        new_study(tmp_path)
    (tmp_path / "two\nlines.csv").write_text("paper,reviewer,score\n1,a,3\n")
    (tmp_path / 'a "b" $(c).csv').write_text("paper,reviewer,score\n1,a,3\n1,b,4\n2,a,5\n2,b,1\n")
    (tmp_path / "broken.csv").write_text("paper,score\n1,zwei\n")
    text = new_study(tmp_path)
    assert "broken.csv:" in text
    file = tmp_path / "study.toml"
    file.write_text(text)
    assert list(Study.read(file).data) == ["a--b----c"]
    assert "two lines.csv: give it a name on one line first" in text


def test_actions_that_publish_nothing_are_these() -> None:
    silent = {name for name, kind in all_actions().items() if not kind.publishes}
    assert silent == {
        "data.describe",
        "timing.audit",
        "timing.plan",
        "calibration.calibrate",
        "calibration.leak",
        "calibration.plan",
        "truth.label",
        "truth.choose-gold",
        "truth.preview-labels",
        "truth.compare",
    }


def test_a_comparison_debits_every_conference_once_however_often_it_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_past(tmp_path)
    step = '[[steps]]\naction = "release.ask"\ndata = "reviews"\ncompare = ["past"]\naccount = "chairs"\nepsilon = 1\n'
    file = write_study(tmp_path, step, budget=2, extra=PAST)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "keep", killed)
        with pytest.raises(KeyboardInterrupt):
            run_study(file, tmp_path / "out")
    assert spent(tmp_path) == 2
    done = run_study(file, tmp_path / "out")
    assert spent(tmp_path) == 2
    assert [cost.ours for cost in done.costs] == [2]
    too_little = write_study(tmp_path, step, budget=1, extra=f'ledger = "other.db"\n{PAST}', name="little.toml")
    with pytest.raises(BudgetExceeded):
        check_study(Study.read(too_little))
