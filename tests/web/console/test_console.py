"""The console's work from file to report: data, drafts, runs, the ledger; on both databases."""

from __future__ import annotations

import html
import io
import json
import re
import shutil
import tomllib
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from tests.web.console.clients import Browser, LocalConsole, said, where

from peerveil.core.randomness import Randomness
from peerveil.data import synthetic_conference
from peerveil.study import Study, run_study
from peerveil.study.actions import KINDS, all_actions
from peerveil.truth import randomize_answers, simulate_crowd
from peerveil.truth.wire import answers_text
from peerveil.web.console import files, jobs
from peerveil.web.console.app import LOCAL_USER
from peerveil.web.console.explore import MODULES
from peerveil.web.console.pages.modules import NOT_OFFERED
from peerveil.web.console.users import User

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONFERENCE = synthetic_conference(60, 40, seed=3, people_seed=5)


@pytest.fixture(params=["sqlite", "postgresql"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalConsole]:
    """A console on each kind of database; on PostgreSQL the ledger is there too."""
    db = None if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))
    made = LocalConsole(tmp_path, db=db)
    yield made
    made.close()


def reviews_file(folder: Path) -> bytes:
    return CONFERENCE.reviews.write(folder / "reviews.csv").read_bytes()


def bring(console: LocalConsole, browser: Browser, name: str, content: bytes) -> str:
    """Upload a file and have it read; its id."""
    answer = browser.add(name, content)
    console.work("checks")
    return where(answer).rsplit("/", 1)[1]


def publish(browser: Browser, file: str, account: str = "main", epsilon: str = "1", **more: str) -> str:
    """Draft a release; the run's page."""
    fields = {
        "action": "release.publish",
        "data": file,
        "account": account,
        "epsilon": epsilon,
        "weight": "miscalibration",
        "scale": "1, 10",
    }
    return where(browser.send("/release", "/release/prepare", {**fields, **more}))


def test_from_file_to_report(either: LocalConsole, tmp_path: Path) -> None:
    """Upload, account, draft, cost, run, report, downloads, ledger, and the same study once more from the command line."""
    me = either.browser()
    file = bring(either, me, "reviews.csv", reviews_file(tmp_path))
    assert "180 reviews of 60 papers by 40 reviewers" in said(me.get(f"/data/{file}"))
    assert where(me.send("/ledger", "/ledger/open", {"name": "main", "epsilon": "5/2"})) == "/ledger"
    run = publish(me, file, attack="true")
    assert "being checked" in said(me.get(run))
    either.work()
    ready = said(me.get(run))
    assert "1 of the 2.5 left in main" in ready
    assert "Spend and run" in ready
    assert "0 of 2.5 spent" in said(me.get("/ledger/account?name=main"))
    assert where(me.send(run, f"{run}/start")) == run
    either.work()
    done = me.get(run)
    assert "How strict are reviewers?" in said(done)
    assert "<svg" in done.text
    assert "Must not be published" in said(done)
    assert "Must not be published" not in said(me.get(f"{run}?view=public"))
    assert "1 of 2.5 spent; 1.5 left" in said(me.get("/ledger/account?name=main"))
    archive = zipfile.ZipFile(io.BytesIO(me.get(f"{run}/public.zip").content))
    assert {"report.html", "results.json", "release-publish/means-miscalibration.csv"} <= set(archive.namelist())
    everything = b"".join(archive.read(name) for name in archive.namelist()).decode()
    assert not any(
        f'"{reviewer}"' in everything for reviewer in CONFERENCE.reviews.frame["reviewer"].unique().to_list()
    )
    study = me.get(f"{run}/study.toml")
    assert study.headers["content-disposition"].startswith("attachment")
    again = tmp_path / "again.toml"
    again.write_bytes(study.content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PEERVEIL_LEDGER", either.settings.ledger)
        run_study(Study.read(again), tmp_path / "again", progress=False)
    assert "2 of 2.5 spent" in said(me.get("/ledger/account?name=main"))
    whole = me.get("/runs/all.toml").text
    assert [step["action"] for step in tomllib.loads(whole)["steps"]] == ["release.publish"]
    trail = said(me.get("/users"))
    assert all(words in trail for words in ("added a file", "opened an account", "drafted a run", "started a run"))


def test_overspending_is_refused_kindly(console: LocalConsole, tmp_path: Path) -> None:
    me = console.browser()
    file = bring(console, me, "reviews.csv", reviews_file(tmp_path))
    me.send("/ledger", "/ledger/open", {"name": "main", "epsilon": "1"})
    run = publish(me, file, epsilon="1.5")
    console.work()
    text = said(me.get(run))
    assert "has 1 left, and this would spend 1.5" in text
    assert "Nothing was spent" in text
    assert "never refilled" in text
    assert "Spend it" not in text


def test_two_tabs_cannot_spend_twice(console: LocalConsole, tmp_path: Path) -> None:
    """One draft started twice runs once; two drafts that do not both fit: the second is refused, nothing is overspent."""
    me = console.browser()
    file = bring(console, me, "reviews.csv", reviews_file(tmp_path))
    me.send("/ledger", "/ledger/open", {"name": "main", "epsilon": "1.5"})
    first, second = publish(me, file), publish(me, file)
    console.work()
    assert me.send(first, f"{first}/start").status_code == 303
    assert me.send(second, f"{first}/start").status_code == 409
    assert me.send(second, f"{second}/start").status_code == 303
    console.work()
    assert "How strict are reviewers?" in said(me.get(first))
    late = said(me.get(second))
    assert "The run failed" in late
    assert "has 0.5 left" in late
    assert "1 of 1.5 spent" in said(me.get("/ledger/account?name=main"))


def test_simulation_spends_nothing_and_is_marked(console: LocalConsole, tmp_path: Path) -> None:
    me = console.browser()
    file = bring(console, me, "reviews.csv", reviews_file(tmp_path))
    run = publish(me, file, account="", simulate="yes")
    console.work()
    assert "none of it may be published" in said(me.get(run))
    me.send(run, f"{run}/start")
    console.work()
    text = said(me.get(run))
    assert "A simulation: none of it may be published" in text
    assert "SIMULATION" in text
    names = zipfile.ZipFile(io.BytesIO(me.get(f"{run}/public.zip").content)).namelist()
    assert names
    assert all("simulated-" in name for name in names)


def test_every_action_of_every_module(console: LocalConsole) -> None:
    """The form of each action, filled in as the page fills it, becomes a study that is accepted."""
    me = console.browser()
    me.send("/data", "/data/synthetic")
    console.work("checks")
    me.send("/ledger", "/ledger/open", {"name": "main", "epsilon": "50", "sure": "yes"})
    listed = files.listed(console.app, User(LOCAL_USER, "you", "operator"))
    ids: dict[str, str] = {
        kind: next(file.id for file in listed if file.name == f"synthetic: {kind}") for kind in KINDS
    }
    past = next(file.id for file in listed if file.name == "synthetic last year: reviews")
    decided = {"history": past, "draws": "1", "iterations": "600"}
    reports = {"randomized": "true", "epsilon": "1", "classes": "0\n1"}
    typed: dict[str, dict[str, str]] = {
        "release.publish": {"epsilon": "1/3"},
        "release.ask": {"epsilon": "1/3", "stricter_than": "1", "compare": past},
        "release.plan": {"epsilons": "1, 10", "trials": "2"},
        "timing.post": {"gap": "45m"},
        "calibration.calibrate": {"accepted": "0.25"},
        "calibration.decide": {
            **decided,
            "accept": "20",
            "accepted": "0.25",
            "adversary_error": "0.3",
            "capped": "true",
        },
        "calibration.plan": {**decided, "accepted": "0.25"},
        "calibration.leak": {**decided, "accepted": "0.25", "conferences": "1"},
        "rankings.consensus": {"epsilon": "1"},
        "rankings.compare": {"epsilon": "1", "other": ids["rankings"]},
        "rankings.test": {"epsilon": "1"},
        "rankings.plan": {"items": "5", "spread": "0.8", "methods": "friedman, pairs-norm"},
        "rankings.randomize": {"epsilon": "1"},
        "truth.randomize": {"epsilon": "1"},
        "truth.publish-labels": {"epsilon": "1"},
        "truth.infer": reports,
        "truth.shares": reports,
        "truth.agreement": reports,
    }
    found = {}
    for module, kind in ((name, module.kind) for name, module in MODULES.items()):
        page = me.get(f"/{module}?data={ids[kind]}").text
        for action, form in forms_of(page).items():
            found[module, action] = where(me.send(f"/{module}", f"/{module}/prepare", form | typed.get(action, {})))
    shown = {action for _, action in found}
    assert shown == {name for name in all_actions() if not name.startswith("audit.") and name not in NOT_OFFERED}
    console.work("checks")
    with_itself = found.pop(("rankings", "rankings.compare"))  # the only rankings that there are
    assert "another table than the first" in said(me.get(with_itself))
    for name, run in found.items():
        assert "Before you start" in said(me.get(run)), (name, said(me.get(run))[150:600])
    assert steps_of(me, found["calibration", "calibration.decide"])[0]["accept"] == 20  # what was typed, not the share
    assert steps_of(me, found["calibration", "calibration.plan"])[0]["accept"] == 50  # a quarter of 200 papers


def forms_of(page: str) -> dict[str, dict[str, str]]:
    """The forms of a module's page by action, with the values that stand in them."""
    forms = {}
    for action, form in re.findall(r'id="form-([a-z.-]+)">(.*?)</form>', page, flags=re.DOTALL):
        values = {
            name: html.unescape(value) for name, value in re.findall(r'<input name="(\w+)" value="([^"]*)"', form)
        }
        for name, options in re.findall(r'<select name="(\w+)"[^>]*>(.*?)</select>', form, flags=re.DOTALL):
            chosen = re.search(r'value="([^"]*)" selected', options) or re.search(r'value="([^"]*)"', options)
            values[name] = html.unescape(chosen[1]) if chosen else ""
        forms[action] = {"action": action, **values}
    return forms


def steps_of(browser: Browser, run: str) -> list[dict[str, Any]]:
    """The steps of a run's study file."""
    steps: list[dict[str, Any]] = tomllib.loads(browser.get(f"{run}/study.toml").text)["steps"]
    return steps


def test_settings_are_read_or_refused(console: LocalConsole, tmp_path: Path) -> None:
    me = console.browser()
    file = bring(console, me, "reviews.csv", reviews_file(tmp_path))
    me.send("/ledger", "/ledger/open", {"name": "main", "epsilon": "1"})
    base = {"action": "release.publish", "data": file, "account": "main", "epsilon": "1"}
    for fields, words in (
        ({"epsilon": "0"}, "epsilon"),
        ({"epsilon": "nan"}, "epsilon"),
        ({"epsilon": "-1"}, "epsilon"),
        ({"epsilon": ""}, "epsilon"),
        ({"epsilon": "9" * 20_000}, "epsilon"),
        ({"weight": "length"}, "what is measured"),
        ({"scale": "10, 1"}, "lowest and highest score"),
        ({"account": "other"}, "account"),
        ({"account": ""}, "account"),
        ({"data": ""}, "data"),
        ({"data": "0" * 16}, "no such file"),
        ({"action": "everything"}, "action"),
        ({"action": "timing.audit"}, "action"),
        ({"title": "x" * 200}, "title"),
    ):
        answer = me.send("/release", "/release/prepare", {**base, **fields})
        assert answer.status_code in (404, 422), fields
        assert words in said(answer).lower()
        assert "Nothing was changed" in said(answer)
    assert not jobs.waiting(console.app, "checks")
    assert "None yet" in said(me.get("/runs"))


def test_unknown_columns_are_named_by_hand(console: LocalConsole) -> None:
    me = console.browser()
    file = bring(console, me, "scores.csv", b"x,who,points\n1,ann,3\n1,bob,4\n2,ann,5\n2,cid,1\n")
    page = said(me.get(f"/data/{file}?kind=reviews"))
    assert "Map columns" in page
    assert "points" in page
    fields = {
        "kind": "reviews",
        "column-paper": "x",
        "column-reviewer": "who",
        "column-score": "points",
        "column-time": "",
    }
    me.send(f"/data/{file}?kind=reviews", f"/data/{file}/columns", fields)
    console.work("checks")
    assert "4 reviews of 2 papers by 3 reviewers" in said(me.get(f"/data/{file}"))
    me.send("/ledger", "/ledger/open", {"name": "main", "epsilon": "1"})
    run = publish(me, file)
    console.work()
    text = me.get(f"{run}/study.toml").text
    assert tomllib.loads(text)["data"]["scores"]["columns"] == {"paper": "x", "reviewer": "who", "score": "points"}


def test_a_poll_needs_no_tasks_and_a_crowd_export_says_which_answer(console: LocalConsole) -> None:
    me = console.browser()
    poll = bring(console, me, "poll.csv", b"label,region\n" + b"yes,north\nno,south\nno,north\nyes,south\n" * 30)
    page = said(me.get(f"/data/{poll}"))
    assert "CSV with a header" in page
    assert "120 reports without tasks" in page
    form = {"action": "truth.shares", "data": poll, "epsilon": "2", "randomized": "true", "classes": "yes,no"}
    assert re.search(rf'id="form-truth.shares".*?{poll}', me.get("/truth").text, re.DOTALL)
    run = where(me.send("/truth", "/truth/prepare", form | {"group": "region"}))
    console.work("checks")
    me.send(run, f"{run}/start")
    console.work("runs")
    assert "yes 50.0% [" in said(me.get(run))
    refused = me.send("/truth", "/truth/prepare", form | {"action": "truth.infer"})
    assert "need a file that can be read as labels" in said(refused)
    head, row = "HITId,AssignmentId,WorkerId,AssignmentStatus,Answer.a,Answer.b", "h{0},x{0},w,Approved,cat,sure\n"
    mturk = bring(console, me, "batch.csv", "\n".join([head, *(row.format(i).strip() for i in range(3))]).encode())
    assert "Answer.a, Answer.b, need one answer" in said(me.get(f"/data/{mturk}"))
    me.send(f"/data/{mturk}", f"/data/{mturk}/columns", {"kind": "labels", "column-label": "Answer.a"})
    console.work("checks")
    assert "3 labels by 1 worker on 3 tasks" in said(me.get(f"/data/{mturk}"))
    answers = simulate_crowd(tasks=3, workers=3, answers=2, epsilon=None).answers
    lines = answers_text(randomize_answers(answers, epsilon=2, classes=2, randomness=Randomness.simulation(1)).operator)
    stated = bring(console, me, "reports.jsonl", lines.encode())
    assert "peerveil truth infer" in said(me.get(f"/data/{stated}"))


def test_problems_are_named_by_row(console: LocalConsole) -> None:
    me = console.browser()
    file = bring(console, me, "reviews.csv", b"paper,reviewer,score\n1,a,3\n1,b,much\n2,a,nan\n")
    text = said(me.get(f"/data/{file}"))
    assert "Not readable as reviews" in text
    assert "row 2" in text
    assert "much" in text


def test_files_can_be_pointed_to(console: LocalConsole, tmp_path: Path) -> None:
    me = console.browser()
    path = CONFERENCE.reviews.write(tmp_path / "mine.csv")
    file = where(me.send("/data", "/data/path", {"path": str(path)})).rsplit("/", 1)[1]
    console.work("checks")
    assert "not copied" in said(me.get("/data"))
    me.send(f"/data/{file}", f"/data/{file}/remove")
    assert path.exists()
    assert me.get(f"/data/{file}").status_code == 404


def test_a_process_that_dies_again_and_again_is_given_up(console: LocalConsole, tmp_path: Path) -> None:
    """Killed while it looks: taken up again by whoever gets the queue; after three times the page says so."""
    me = console.browser()
    answer = me.add("reviews.csv", reviews_file(tmp_path))
    for _ in range(jobs.MAX_ATTEMPTS):
        assert jobs.claim(console.app, "checks") is not None  # and then the process is gone
        jobs.recover(console.app, "checks")
    console.work("checks")
    assert "died 3 times" in said(me.get(where(answer)))


def test_an_interrupted_run_goes_on_without_a_second_debit(
    console: LocalConsole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies between the debit and the outcome: the run is taken up again, and the debit stands once."""
    from peerveil.study.folder import Folder

    me = console.browser()
    file = bring(console, me, "reviews.csv", reviews_file(tmp_path))
    me.send("/ledger", "/ledger/open", {"name": "main", "epsilon": "1"})
    run = publish(me, file)
    console.work("checks")
    me.send(run, f"{run}/start")

    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "keep", die)
        with pytest.raises(Killed):
            console.work("runs")
    assert "1 of 1 spent" in said(me.get("/ledger/account?name=main"))
    assert "running" in said(me.get(run))
    jobs.recover(console.app, "runs")
    console.work("runs")
    assert "How strict are reviewers?" in said(me.get(run))
    assert "1 of 1 spent; 0 left" in said(me.get("/ledger/account?name=main"))


def test_a_failed_run_can_go_on(console: LocalConsole, tmp_path: Path) -> None:
    me = console.browser()
    content = reviews_file(tmp_path)
    file = bring(console, me, "reviews.csv", content)
    me.send("/ledger", "/ledger/open", {"name": "main", "epsilon": "1"})
    run = publish(me, file)
    console.work("checks")
    kept = next((console.app.files_folder / file).iterdir())
    shutil.move(kept, tmp_path / "away.csv")
    me.send(run, f"{run}/start")
    console.work("runs")
    assert "The run failed" in said(me.get(run))
    shutil.move(tmp_path / "away.csv", kept)
    assert where(me.send(run, f"{run}/resume")) == run
    console.work("runs")
    assert "How strict are reviewers?" in said(me.get(run))


def test_explorations_are_simulated_once(console: LocalConsole, monkeypatch: pytest.MonkeyPatch) -> None:
    me = console.browser()
    assert "Simulating" in said(me.get("/release"))
    console.work("simulations")
    first = me.get("/release")
    assert 'class="headline"' in first.text
    other = me.get("/release?epsilon=0.1&part=exploration")
    assert "<html" not in other.text
    assert 'class="headline"' in other.text
    assert other.text not in first.text
    assert me.get("/release?epsilon=banana").status_code == 422
    assert not jobs.waiting(console.app, "simulations")
    monkeypatch.setattr("peerveil.web.console.explore.VERSION", 0)  # as after an upgrade
    assert "Simulating" in said(me.get("/release"))
    assert jobs.waiting(console.app, "simulations")


def test_the_ledger_can_be_verified_and_saved(console: LocalConsole) -> None:
    me = console.browser()
    me.send("/ledger", "/ledger/open", {"name": "main / of 2026", "epsilon": "1"})
    assert "The ledger is intact" in said(me.get("/ledger/verify"))
    assert json.loads(me.get("/ledger/export.json").text)["accounts"][0]["name"] == "main / of 2026"
    assert "main / of 2026" in said(me.get("/ledger/account?name=main%20/%20of%202026"))
    assert me.get("/ledger/account?name=other").status_code == 404
    for fields in (
        {"name": "large", "epsilon": "11"},
        {"name": "main / of 2026", "epsilon": "2"},
        {"name": "", "epsilon": "1"},
        {"name": "b", "epsilon": "much"},
    ):
        assert me.send("/ledger", "/ledger/open", fields).status_code == 422


def test_a_form_does_not_state_that_answers_were_randomized(console: LocalConsole, tmp_path: Path) -> None:
    """The form for randomized answers with raw ones: as it is, it is refused, and no slider fills it in."""
    answers = simulate_crowd(tasks=40, workers=12, answers=4, ability=(3, 2), epsilon=None, seed=2).answers.write(
        tmp_path / "answers.csv"
    )
    me = console.browser()
    file = bring(console, me, "answers.csv", answers.read_bytes())
    me.get(f"/truth?data={file}")
    fields = forms_of(me.get(f"/truth?data={file}").text)["truth.infer"]
    assert (fields["epsilon"], fields["randomized"]) == ("", "false")
    for stated in ("", "false", "no"):
        answer = me.send("/truth", "/truth/prepare", {**fields, "epsilon": "2", "randomized": stated})
        assert answer.status_code == 422
        assert "randomized on devices: got an epsilon alone" in html.unescape(said(answer))
        assert "truth.randomize randomizes each once" in html.unescape(said(answer))
    run = where(me.send("/truth", "/truth/prepare", fields))
    console.work()
    assert "This cannot be run" in said(me.get(run))
    assert me.send(run, f"{run}/start").status_code == 409
