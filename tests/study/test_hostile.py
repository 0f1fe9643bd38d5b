"""Hostile use of studies: shell characters and paths as text, data that change while somebody is asked, one account for two."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.study.helpers import means, write_study
from tests.study.test_kill import finish, start

from peerveil import BadInput, BudgetExceeded, Ledger
from peerveil.data import Reviews, synthetic_conference
from peerveil.study import Checked, Study, check_study, new_study, run_study

SHELL = [
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned",
    "| touch pwned",
    "&& touch pwned",
    "'\" touch pwned",
    "%s{0}",
]


@pytest.mark.parametrize("trick", SHELL)
def test_shell_characters_are_only_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trick: str) -> None:
    """In the name of a data file, in a title, in the name of a ledger: nothing is ever run, or formatted."""
    monkeypatch.chdir(tmp_path)
    file = write_study(tmp_path, means(1), extra=f"ledger = '''{trick}.db'''")
    (tmp_path / "data" / "reviews.csv").rename(tmp_path / "data" / f"{trick}.csv")
    text = (
        file.read_text()
        .replace('"data/reviews.csv"', f"'''data/{trick}.csv'''")
        .replace("How strict", trick.replace('"', ""))
    )
    file.write_text(text)
    done = run_study(file, tmp_path / "out")
    assert trick.split("touch")[0].strip("'\" ") in done.report.read_text().replace("&amp;", "&")
    assert (tmp_path / f"{trick}.db").exists()
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.parametrize("path", ["../../../../etc/shadow-not-there", "data/../data/none.csv", "~/reviews.csv", "file:///etc/passwd",
                                  "http://localhost/reviews.csv", "data/reviews.csv/..", "\\\\server\\share"])  # fmt: skip
def test_paths_lead_to_files_or_nowhere(tmp_path: Path, path: str) -> None:
    file = write_study(tmp_path, means(1))
    file.write_text(file.read_text().replace('"data/reviews.csv"', f"'{path}'"))
    with pytest.raises(BadInput, match=r"data\.reviews\.path"):
        run_study(file, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_no_table_is_named_and_nothing_is_spent(tmp_path: Path) -> None:
    file = write_study(tmp_path, means(1))
    file.write_text(file.read_text().replace('"data/reviews.csv"', "'/etc/passwd'"))
    with pytest.raises(BadInput):
        run_study(file, tmp_path / "out")
    assert not (tmp_path / "peerveil-ledger.db").exists()


def test_data_that_change_while_somebody_is_asked_change_nothing(tmp_path: Path) -> None:
    """What is published and debited is what was checked and shown, whatever happens to the file meanwhile."""
    file = write_study(tmp_path, means(1))
    reviews = tmp_path / "data" / "reviews.csv"
    text, before = reviews.read_text(), Reviews.read(reviews)

    def agree_and_change(_: Checked) -> bool:
        reviews.write_text("paper,reviewer,score\n1,a,3\n1,b,3\n")
        return True

    done = run_study(file, tmp_path / "out", confirm=agree_and_change)
    rows = (done.folder / "public" / "release-publish" / "means-rating.csv").read_text().splitlines()
    assert len(rows) - 1 == before.frame["reviewer"].n_unique()
    reviews.write_text(text)
    run_study(file, tmp_path / "again")
    with Ledger.open(tmp_path / "peerveil-ledger.db") as book:
        first, second = book.account("chairs").entries()
    assert first.fingerprint == second.fingerprint  # of the data as they were checked


def test_a_study_that_changes_while_somebody_is_asked_changes_nothing(tmp_path: Path) -> None:
    file = write_study(tmp_path, means(1))

    def agree_and_change(_: Checked) -> bool:
        file.write_text(file.read_text().replace("epsilon = 1\n", "epsilon = 2\n"))
        return True

    run_study(file, tmp_path / "out", confirm=agree_and_change)
    with Ledger.open(tmp_path / "peerveil-ledger.db") as book:
        assert book.account("chairs").exact_spent == 1
    with pytest.raises(BadInput, match="the study that this folder was begun with"):
        run_study(file, tmp_path / "out")


def test_money_that_goes_while_somebody_is_asked_is_noticed(tmp_path: Path) -> None:
    """The check saw enough; then another study spends. The ledger refuses, and nothing is published."""
    file = write_study(tmp_path, means(2), budget=3)
    other = write_study(tmp_path, means(2, "miscalibration"), budget=3, name="other.toml")

    def agree_too_late(_: Checked) -> bool:
        run_study(other, tmp_path / "other")
        return True

    with pytest.raises(BudgetExceeded, match="requested 2, remaining 1"):
        run_study(file, tmp_path / "out", confirm=agree_too_late)
    assert not (tmp_path / "out" / "public" / "release-publish").exists()


@pytest.mark.slow
def test_two_studies_at_once_on_one_account_in_postgresql(tmp_path: Path, postgres_url: str) -> None:
    ledger = f'ledger = "{postgres_url}"'
    with Ledger.open(postgres_url) as book:
        book.account("chairs", epsilon=3)
    first = write_study(tmp_path, means(2), budget=3, extra=ledger)
    second = write_study(tmp_path, means(2, "miscalibration"), budget=3, extra=ledger, name="second.toml")
    ended = [finish(process) for process in [start(first, tmp_path / "a"), start(second, tmp_path / "b")]]
    assert sorted(code for code, _ in ended) == [0, 1]
    with Ledger.open(postgres_url) as book:
        assert book.account("chairs").exact_spent == 2


# ---- new, on folders as people have them ---------------------------------------------------------------------------------


def test_the_budget_of_a_new_study_is_what_its_steps_debit(tmp_path: Path) -> None:
    """Somebody answered one task three times: that costs three times epsilon, and the new study says so and can be run."""
    rows = ["task,worker,label", *(f"{t},{w},{(t + w) % 2}" for t in range(6) for w in range(4)), "0,0,1", "0,0,0"]
    (tmp_path / "answers.csv").write_text("\n".join(rows) + "\n")
    text = new_study(tmp_path)
    assert "\nepsilon = 3\n" in text.split("[data.")[0]
    (tmp_path / "study.toml").write_text(text)
    checked = check_study(Study.read(tmp_path / "study.toml"))
    assert checked.spends == {"main": 3}


def test_columns_of_other_names_are_guessed_and_offered(tmp_path: Path) -> None:
    conference = synthetic_conference(30, 20, seed=4)
    events = conference.events.frame.rename({"actor": "User", "thread": "page", "time": "timestamp"})
    events.select("User", "page", "timestamp").write_csv(tmp_path / "edits.csv")
    (tmp_path / "odd.csv").write_text("a,b\n1,2\n")
    conference.reviews.frame.write_csv(tmp_path / "reviews.csv")
    text = new_study(tmp_path)
    assert "guessed from the header: please check" in text
    assert "odd.csv: its columns are a, b. State which is which" in text
    (tmp_path / "study.toml").write_text(text)
    read = Study.read(tmp_path / "study.toml").data["edits"]
    assert (read.kind, read.columns) == ("events", {"actor": "User", "thread": "page", "time": "timestamp"})
