"""Nothing public names a person: every action runs on marked ids, and everything that others may read is searched for them.

What identifies a person: a reviewer (reviews), an actor and the own id of a post (events), a voter (rankings), a worker
(labels). What does not: the number of an author within one thread, and the number of a worker within one published file
of reports; both are new in every publication and are found in no other table.

A file is public unless only its owner may read it (mode 0600), whatever its name and folder.
"""

from __future__ import annotations

import gzip
import html
import io
import os
import stat
import zipfile
from typing import TYPE_CHECKING

import polars as pl
import pytest
from tests.cli.runner import every_command, run
from tests.web.console.clients import LocalConsole, where

from peerveil.core.randomness import Randomness
from peerveil.data import synthetic_conference
from peerveil.ledger import Ledger
from peerveil.rankings import randomize_rankings
from peerveil.study import all_actions, run_study
from peerveil.truth import randomize_answers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MARK = "CANARY"
PERSON = {"reviews": ("reviewer",), "past": ("reviewer",), "events": ("actor", "id", "reply_to"),
          "labels": ("worker",), "reports": ("worker",)}  # fmt: skip

# the settings of one run of every step that reads data
STEPS: dict[str, str] = {
    "data.describe": 'data = "reviews"',
    "release.publish": 'data = "reviews"\naccount = "main"\nepsilon = 1\nscale = [1, 10]\nattack = true',
    "release.ask": 'data = "reviews"\naccount = "main"\nepsilon = 1\nscale = [1, 10]\ncompare = ["past"]',
    "release.plan": 'data = "reviews"\nepsilons = [1]\ntrials = 2\nscale = [1, 10]',
    "timing.audit": 'data = "events"\nepsilons = [1]\npercentile = 25',
    "timing.plan": 'data = "events"\nper = "actor"',
    "timing.post": 'data = "events"\naccount = "main"\nepsilon = 1\ngap = "45m"',
    "calibration.calibrate": 'data = "reviews"\naccept = 6\nhistory = ["past"]',
    "calibration.decide": 'data = "reviews"\nhistory = ["past"]\naccount = "main"\nadversary_error = 0.4\naccept = 6\n'
    "capped = true\ndraws = 1\niterations = 600",
    "calibration.plan": 'data = "reviews"\nhistory = ["past"]\naccept = 6\ndraws = 1\niterations = 600',
    "calibration.leak": 'data = "reviews"\nhistory = ["past"]\naccept = 6\ndraws = 1\niterations = 600\nconferences = 2',
    "rankings.consensus": 'data = "votes"\naccount = "main"\nepsilon = 1',
    "rankings.compare": 'data = "votes"\nother = "voters"\naccount = "main"\nepsilon = 1',
    "rankings.test": 'data = "votes"\naccount = "main"\nepsilon = 1\nmethod = "rank-norm"',
    "rankings.randomize": 'data = "votes"\naccount = "main"\nepsilon = 1',
    "rankings.aggregate": 'data = "voted"',
    "truth.infer": 'data = "reports"\nrandomized = true\nepsilon = 2\nclasses = [0, 1]',
    "truth.randomize": 'data = "labels"\naccount = "main"\nepsilon = 2\nclasses = [0, 1]',
    "truth.label": 'data = "labels"\nclasses = [0, 1]',
    "truth.choose-gold": 'data = "labels"\nnumber = 10',
    "truth.shares": 'data = "reports"\nrandomized = true\nepsilon = 2\nclasses = [0, 1]',
    "truth.agreement": 'data = "reports"\nrandomized = true\nepsilon = 2\nclasses = [0, 1]',
    "truth.publish-labels": 'data = "labels"\naccount = "main"\nepsilon = 2\nclasses = [0, 1]',
    "truth.preview-labels": 'data = "labels"\nepsilons = [1]\ndraws = 2',
    "truth.compare": 'data = "labels"\nepsilons = [1]\ndraws = 2',
}
PRIVATELY = {
    "timing.plan",
    "timing.post",
    "calibration.calibrate",
    "calibration.decide",
    "truth.infer",
    "truth.randomize",
    "truth.label",
    "truth.agreement",
}

# the arguments of one run of every command that writes something about people; DATA is the folder of marked tables
COMMANDS: dict[str, tuple[str, ...]] = {
    "data describe": ("DATA/reviews.csv", "--out", "OUT"),
    "release publish": ("DATA/reviews.csv", "--epsilon", "1", "--scale", "1:10", "--out", "OUT"),
    "release ask": ("DATA/reviews.csv", "--epsilon", "1", "--scale", "1:10", "--compare", "DATA/past.csv", "--out", "OUT"),
    "release plan": ("DATA/reviews.csv", "--epsilon", "1", "--trials", "2", "--scale", "1:10", "--out", "OUT"),
    "timing audit": ("DATA/events.csv", "--epsilon", "1", "--out", "OUT"),
    "timing plan": ("DATA/events.csv", "--per", "actor", "--out", "OUT"),
    "timing post": ("DATA/events.csv", "--gap", "45m", "--out", "OUT"),
    "calibration calibrate": ("DATA/reviews.csv", "--accept", "6", "--out", "OUT"),
    "calibration plan": ("DATA/reviews.csv", "--history", "DATA/past.csv", "--accept", "6", "--out", "OUT"),
    "calibration decide": ("DATA/reviews.csv", "--history", "DATA/past.csv", "--accept", "6", "--adversary-error", "0.4",
                           "--capped", "--out", "OUT"),
    "calibration leak": ("DATA/reviews.csv", "--history", "DATA/past.csv", "--accept", "6", "--conferences", "2", "--out", "OUT"),
    "rankings consensus": ("DATA/votes.csv", "--epsilon", "1", "--out", "OUT"),
    "rankings compare": ("DATA/votes.csv", "--other", "DATA/voters.csv", "--epsilon", "1", "--out", "OUT"),
    "rankings test": ("DATA/votes.csv", "--epsilon", "1", "--out", "OUT"),
    "rankings randomize": ("DATA/ballots.csv", "--epsilon", "1", "--out", "OUT"),
    "truth randomize": ("DATA/labels.csv", "--epsilon", "2", "--classes", "0,1", "--out", "OUT"),
    "truth infer": ("DATA/reports.csv", "--randomized", "--epsilon", "2", "--out", "OUT"),
    "truth choose-gold": ("DATA/labels.csv", "--number", "10", "--out", "OUT"),
    "truth shares": ("DATA/reports.csv", "--randomized", "--epsilon", "2", "--classes", "0,1", "--out", "OUT"),
    "truth agreement": ("DATA/reports.csv", "--randomized", "--epsilon", "2", "--out", "OUT"),
    "truth publish-labels": ("DATA/labels.csv", "--epsilon", "2", "--classes", "0,1", "--out", "OUT"),
    "truth preview-labels": ("DATA/labels.csv", "--epsilon", "1", "--draws", "2", "--out", "OUT"),
    "truth label": ("DATA/labels.csv", "--classes", "0,1", "--out", "OUT"),
    "truth compare": ("DATA/labels.csv", "--epsilon", "1", "--draws", "2", "--out", "OUT"),
}  # fmt: skip
NO_PEOPLE, NO_FILE = "reads no table of people", "writes no file that says something about people"
OPERATOR = "writes a file or database for the operator of a service, who runs it"
OTHERS: dict[str, str] = {
    **dict.fromkeys(("demo", "new", "schema", "reproduce", "audit run", "audit list", "calibration simulate", "data synthetic",
                     "rankings aggregate", "rankings plan", "truth simulate", "truth plan", "truth plan-shares"), NO_PEOPLE),
    **dict.fromkeys(("data check", "data recognize"), NO_FILE),
    **dict.fromkeys((f"collect {name}" for name in ("init", "campaign", "token", "export", "infer", "serve")), OPERATOR),
    **dict.fromkeys((f"gateway {name}" for name in ("init", "serve", "work", "token", "doctor", "backup", "restore", "page",
                                                    "reveal", "tokens list", "tokens revoke", "key new", "key rotate", "webhooks list",
                                                    "webhooks replay")), OPERATOR),
    **dict.fromkeys(("ledger add-account", "ledger show", "ledger export", "ledger verify"), "holds fingerprints, no ids"),
    "run": "test_no_step_of_a_study_names_anybody_in_public",
    "console serve": "test_no_page_or_archive_of_the_console_names_anybody_in_public",
}  # fmt: skip


def marked(table: pl.DataFrame, columns: tuple[str, ...]) -> pl.DataFrame:
    """Every id of a person as ``CANARY-...``."""
    return table.with_columns(pl.format(f"{MARK}-{{}}", pl.col(name)).alias(name) for name in columns)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of a small conference; few enough workers that a figure could show a name for each."""
    folder = tmp_path_factory.mktemp("marked")
    now, past = synthetic_conference(24, 16, seed=4), synthetic_conference(48, 16, seed=5, people_seed=4)
    sent = randomize_answers(now.labels, epsilon=2, classes=2, randomness=Randomness.simulation(1)).operator.answers
    tables = {"reviews": now.reviews, "past": past.reviews, "events": now.events, "labels": now.labels, "reports": sent}
    for name, table in tables.items():
        table.write(folder / f"{name}.csv")
        frame = pl.read_csv(folder / f"{name}.csv", infer_schema_length=None)
        marked(frame, PERSON[name]).write_csv(folder / f"{name}.csv")
    places = now.rankings.frame.drop("count")
    voter = pl.Series("voter", [f"{MARK}-voter-{n}" for n in range(places.height)])
    places.insert_column(0, voter).write_csv(folder / "votes.csv")
    places.head(places.height // 2).write_csv(folder / "voters.csv")
    long = places.unpivot(index="voter", variable_name="item", value_name="rank").rename({"voter": "ranking"})
    long.write_csv(folder / "ballots.csv")
    randomize_rankings(folder / "votes.csv", epsilon=1).frame().write_csv(folder / "voted.csv")
    return folder


@pytest.fixture(autouse=True)
def readable() -> Iterator[None]:
    """Files that are not made private can be read by others, whatever the machine's habit."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def study(data: Path, folder: Path) -> Path:
    """A study of every step."""
    head = '[study]\ntitle = "Marked"\n[accounts.main]\nepsilon = 100\n'
    kinds = {"reviews": "reviews", "past": "reviews", "events": "events", "votes": "rankings", "voted": "rankings",
             "voters": "rankings",
             "labels": "labels", "reports": "labels"}  # fmt: skip
    sources = [f'[data.{name}]\npath = "{data / name}.csv"\nkind = "{kind}"\n' for name, kind in kinds.items()]
    steps = [f'[[steps]]\naction = "{action}"\n{rest}\n' for action, rest in STEPS.items()]
    file = folder / "study.toml"
    file.write_text(head + "".join(sources + steps), encoding="utf-8")
    return file


# ---- the search ----------------------------------------------------------------------------------------------------


def names(content: bytes, name: str = "") -> bool:
    """Whether a file names a marked person: in its name or content, in an archive, escaped or in another encoding."""
    if name.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return any(names(archive.read(one), one) for one in archive.namelist())
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    texts = [name, *(content.decode(encoding, errors="ignore") for encoding in ("utf-8", "utf-16-le", "utf-16-be"))]
    return any(MARK.casefold() in html.unescape(text).casefold() for text in texts)


def split(folder: Path) -> tuple[list[Path], list[Path]]:
    """Files that others may read, and files that only their owner may."""
    files = [path for path in folder.rglob("*") if path.is_file() and "ledger" not in path.name]
    public = [path for path in files if stat.S_IMODE(path.stat().st_mode) & 0o077]
    return public, [path for path in files if path not in public]


def naming(files: list[Path], folder: Path) -> list[str]:
    """Which of the files name somebody."""
    return [str(path.relative_to(folder)) for path in files if names(path.read_bytes(), path.name)]


def test_the_search_finds_what_is_hidden() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.svg", "<title>c&#97;nary-7</title>")
    for content, name in ((packed.getvalue(), "a.zip"), (gzip.compress(b"Canary-7"), "a.gz"),
                          ("CANARY".encode("utf-16"), "a.csv"), (b"", "canary-7.csv")):  # fmt: skip
        assert names(content, name)
    assert not names(b"nobody", "a.csv")


# ---- the actions ---------------------------------------------------------------------------------------------------


def test_no_step_of_a_study_names_anybody_in_public(data: Path, tmp_path: Path) -> None:
    assert set(STEPS) == {name for name, kind in all_actions().items() if kind.kinds}, "a new action needs an entry"
    done = run_study(study(data, tmp_path), tmp_path / "out", progress=False)
    for planned in done.checked.planned:  # what the operator is told beforehand
        assert all(isinstance(text, str) and text for text in planned.action.cautions(planned.inputs))
    public, private = split(done.folder)
    assert {path.relative_to(done.folder).parts[0] for path in public} == {"public"}
    assert naming(public, done.folder) == []
    # the search sees the marks where they belong: with the operator
    inside = {name.split("/")[1] for name in naming(private, done.folder) if "/" in name}
    assert {name.replace(".", "-") for name in PRIVATELY} <= inside


def test_no_command_writes_a_name_for_others_to_read(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = set(every_command())
    assert known == set(COMMANDS) | set(OTHERS), known ^ (set(COMMANDS) | set(OTHERS))
    monkeypatch.chdir(tmp_path)
    found: dict[str, list[str]] = {}
    told: set[str] = set()
    for command, arguments in COMMANDS.items():
        out = tmp_path / command.replace(" ", "-")
        out.mkdir()
        fill = {"DATA": str(data), "OUT": str(out / "out")}
        given = arguments
        for key, value in fill.items():
            given = tuple(one.replace(key, value) for one in given)
        code, _, err = run(capsys, *command.split(), *given)
        assert code == 0, (command, err)
        public, private = split(out)
        assert public or private, command
        found[command] = naming(public, out)
        told |= {command} if naming(private, out) else set()
    assert {command: files for command, files in found.items() if files} == {}
    assert told


@pytest.fixture
def console(tmp_path: Path) -> Iterator[LocalConsole]:
    """A console for several people."""
    made = LocalConsole(tmp_path, local=False)
    yield made
    made.close()


@pytest.mark.parametrize("do", ["infer", "randomize"])
def test_no_page_or_archive_of_the_console_names_anybody_in_public(console: LocalConsole, data: Path, do: str) -> None:
    """The run of an analyst: its archive, and what a reader to whom it was shown can open."""
    analyst, reader = console.joined("analyst", "analyst"), console.joined("reader", "reader")
    table = "reports" if do == "infer" else "labels"
    file = where(analyst.add(f"{table}.csv", (data / f"{table}.csv").read_bytes())).rsplit("/", 1)[1]
    console.work("checks")
    with Ledger.open(console.settings.ledger) as book:
        book.account("main", epsilon=100)
    fields = {"action": f"truth.{do}", "data": file, "account": "main", "epsilon": "2", "classes": "0, 1"}
    fields |= {"randomized": "true"} if do == "infer" else {}
    page = where(analyst.send("/truth", "/truth/prepare", fields))
    console.work()
    analyst.send(page, f"{page}/start")
    console.work()
    analyst.send(page, f"{page}/share", {"shared": "yes"})
    opened = {path: reader.get(f"{page}{path}") for path in ("", "?view=public", "/public.zip", "/report.html")}
    assert {path: answer.status_code for path, answer in opened.items()} == dict.fromkeys(opened, 200)
    with zipfile.ZipFile(io.BytesIO(opened["/public.zip"].content)) as archive:
        listed = archive.namelist()
    assert f"truth-{do}/labels.csv" in listed
    opened |= {f"/public/{name}": reader.get(f"{page}/public/{name}") for name in listed}
    assert [path for path, answer in opened.items() if names(answer.content, path)] == []
