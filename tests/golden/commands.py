"""Every command of ``peerveil``, run on a tiny conference: exit code, what is printed, what is written.

A group of commands is run in order in one new folder, so that later ones can use what earlier ones wrote.
"""

from __future__ import annotations

import io
import os
import random
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from tests.cli.runner import every_command
from tests.golden.normal import clean, describe_file
from tests.golden.seeded import seeded

from peerveil import demo
from peerveil.cli import base
from peerveil.judgements import synthetic_conference

GROUPS: Final[dict[str, list[str]]] = {
    "data": [
        "data synthetic made --papers 8 --reviewers 6 --seed 3",
        "data synthetic made --json",
        "data recognize data/reviews.csv",
        "data check data/events.csv",
        "data check data/labels.csv --json",
        "data check data/rankings.csv --kind reviews",
        "data check missing.csv",
        "data describe data/reviews.csv --out described",
    ],
    "release": [
        "release publish data/reviews.csv --epsilon 2 --weight miscalibration --scale 1:10 --seed 1 --out seeded",
        "release publish data/reviews.csv --epsilon 1/3 --scale 1:10 --out unseeded",
        "ledger add-account budget.db --account chairs --epsilon 2",
        "release publish data/reviews.csv --epsilon 2 --scale 1:10 --ledger budget.db --account chairs --out paid --json",
        "release publish data/reviews.csv --epsilon 1 --scale 1:10 --ledger budget.db --account chairs --out more",
        "release plan data/reviews.csv --scale 1:10 --epsilon 1 --epsilon 10 --trials 2 --out plan",
    ],
    "timing": [
        "timing audit data/events.csv --percentile 25 --epsilon 1 --out audit",
        "timing audit data/events.csv --engine duckdb --out counted --json",
        "timing plan past/events.csv --percentile 25 --per thread --out plan",
        "timing post data/events.csv --gap 45m --gaps plan/private/gaps.csv --seed 1 --out seeded",
        "ledger add-account budget.db --account forum --epsilon 2",
        "timing post data/events.csv --gap 45m --ledger budget.db --account forum --out posted",
        "timing post data/events.csv --mechanism queue --out queue --json",
        "timing post data/events.csv --out public",
    ],
    "calibration": [
        "calibration plan few.csv --reviewers people.csv --noise 0.5 --accept 1 --out few",
        "calibration plan data/reviews.csv --reviewers data/truth_reviewers.csv --noise 0.5 --accepted 0.3 --out plan --json",
        "calibration plan few.csv --reviewers data/truth_reviewers.csv --noise 0.5 --accept 1 --out refused",
        "calibration decide data/reviews.csv --reviewers data/truth_reviewers.csv --noise 0.5 --accept 8 "
        "--adversary-error 0.4 --seed 1 --out decisions",
        "calibration simulate --draws 300 --out pairs",
        "calibration simulate --function 1:0.5 --function 0.7:-0.5 --function 1.2:0 --draws 10 --out panels --json",
    ],
    "rankings": [
        "rankings test data/rankings.csv --epsilon 0.5 --seed 1 --out seeded",
        "rankings test data/rankings.csv --epsilon none --method friedman --json --out plain",
        "rankings plan --items 6 --spread 0.7 --epsilon 1 --method local --trials 4 --out plan",
        "rankings randomize data/rankings.csv --epsilon 1 --public-seed 7 --seed 1 --out reports",
        "rankings aggregate reports/simulated/simulated-reports.jsonl --out aggregate",
    ],
    "truth": [
        "truth simulate --tasks 20 --workers 6 --answers 4 --classes yes,no --out crowd",
        "truth randomize crowd/public/answers.csv --epsilon 2 --classes yes,no --seed 1 --out sent",
        "truth infer sent/private/reports.jsonl --out inferred",
        "truth label crowd/public/answers.csv --model majority --out raw",
        "truth compare crowd/public/answers.csv --epsilon 1 --epsilon 4 --draws 2 --out compared",
        "truth plan --accuracy 0.7 --epsilon none --epsilon 2 --tasks 20 --trials 1 --out planned",
    ],
    "ledger": [
        "ledger add-account budget.db --account chairs --epsilon 1",
        "truth randomize data/labels.csv --epsilon 0.5 --classes 2 --ledger budget.db --account chairs --out sent",
        "truth randomize data/labels.csv --epsilon 0.75 --classes 2 --ledger budget.db --account chairs --out more",
        "ledger show budget.db",
        "ledger show budget.db --json",
        "ledger verify budget.db",
        "ledger export budget.db --out ledger",
        "ledger export budget.db --out ledger --json",
        "ledger export budget.db --out ledger.csv",
    ],
    "audit": ["audit list", "audit run --samples 100 --no-broken --out audit"],
    "reproduce": [
        "reproduce --list",
        "reproduce release/proposition-4.2 --quick",
        "reproduce truth/bounds --quick --json",
    ],
    "study": [
        "new data",
        "run small.toml --check",
        "run small.toml",
        "run small.toml --yes --out result",
    ],
    "collect": [
        "collect init --db collect.db",
        "collect campaign --example labels",
        "collect campaign --example rankings",
        "collect campaign campaign.toml --db collect.db",
        "collect token --campaign birds-2026 --count 2 --links https://collect.example.org --db collect.db",
        "(six people answer)",
        "collect infer --campaign birds-2026 --so-far --db collect.db",
        "collect campaign --close birds-2026 --db collect.db",
        "collect campaign --db collect.db",
        "collect export --campaign birds-2026 --to reports.csv --db collect.db",
        "collect infer --campaign birds-2026 --db collect.db --json",
    ],
    "gateway": [
        "gateway init",
        "gateway token --space forum --role author --actor user-17",
        "(an author posts)",
        "gateway doctor",
        "gateway page",
        "gateway reveal --receipt RECEIPT --reason 'a threat, case 12'",
        "gateway reveal --approve 1",
        "gateway reveal --log --json",
        "gateway backup --to copy.backup",
        "gateway restore copy.backup --db new.db",
    ],
}
WITHOUT: Final = {
    "schema": "tests/study/test_actions.py compares it with every action",
    "demo": "tests/test_demo.py runs it, and study-steps every action",
    "console serve": "runs until it is stopped (tests/console)",
    "gateway serve": "runs until it is stopped (tests/gateway/test_served.py)",
    "gateway work": "runs until it is stopped (tests/gateway/test_operating.py)",
    "collect serve": "runs until it is stopped (tests/collect/test_service.py)",
}

FEW: Final = "paper,reviewer,score\n1,0,6\n2,1,4\n3,2,7\n4,3,5\n"
PEOPLE: Final = "reviewer,scale,bias\n0,1.2,5\n1,0.8,4.5\n2,1,6\n3,1,5\n"
SMALL: Final = """
[study]
title = "Small"
[accounts.chairs]
epsilon = 3
[data.answers]
path = "data/labels.csv"
kind = "labels"
[[steps]]
action = "truth.randomize"
data = "answers"
account = "chairs"
epsilon = 2
classes = [0, 1]
"""


def surface() -> Iterator[tuple[str, str]]:
    """Every command's arguments and options with their defaults."""
    for name, command in every_command().items():
        lines = []
        for option in command.params:
            shown = "/".join([*option.opts, *option.secondary_opts])
            default = repr(option.to_info_dict()["default"]).replace("PosixPath", "Path")
            default = "required" if option.required else default
            lines.append(f"{shown}: {default}")
        yield name, clean("\n".join(lines))


def run_group(group: str, root: Path) -> Iterator[tuple[str, str]]:
    """What every command of a group printed and wrote."""
    with _place(root):
        _prepare(group, root)
        few = partial(demo.run_demo, samples=200)  # its audit takes most of its time, and has a case of its own
        for number, line in enumerate(GROUPS[group]):
            with seeded(number), patch.object(demo, "run_demo", few):
                act = _ACTS.get(line)
                revealing = line.startswith("gateway reveal")
                text = act(root) if act else _reveal(line, root) if revealing else _run(line, root)
            yield line, _masked(text, group)


@contextmanager
def _place(root: Path) -> Iterator[None]:
    """In a folder of its own, without settings from outside."""
    before, mask = Path.cwd(), os.umask(0o022)
    own = {name: value for name, value in os.environ.items() if not name.startswith("PEERVEIL_")}
    os.chdir(root)
    try:
        with patch.dict(os.environ, own, clear=True):
            yield
    finally:
        os.chdir(before)
        os.umask(mask)


def _prepare(group: str, root: Path) -> None:
    synthetic_conference(24, 16, ranked_items=4, seed=4, people_seed=4).write(root / "data")
    if group == "timing":
        synthetic_conference(24, 16, seed=5, people_seed=4).write(root / "past")
    (root / "few.csv").write_text(FEW, encoding="utf-8")
    (root / "people.csv").write_text(PEOPLE, encoding="utf-8")
    (root / "small.toml").write_text(SMALL, encoding="utf-8")


def _run(line: str, root: Path) -> str:
    """One command: its exit code, its output, and the files that it made or changed."""
    given = shlex.split(line)
    before = _files(root)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = base.run(given, debug=False, as_json="--json" in given)
    parts = [f"exit code {code}", clean(out.getvalue(), root)]
    if err.getvalue().strip():
        parts.append(f"standard error:\n{clean(err.getvalue(), root)}")
    if group_example(line):
        (root / "campaign.toml").write_text(out.getvalue(), encoding="utf-8")
    seen: dict[str, Path] = {}
    for path, state in _files(root).items():
        if (
            before.get(path) == state
            or path.name.endswith(("-wal", "-shm"))
            or (path.suffix == ".db" and path in before)
        ):
            continue  # of a database, only that it was made
        private = " (owner only)" if not path.stat().st_mode & 0o077 else ""
        name = path.relative_to(root)
        text = describe_file(path, root) if _compared(name) else "(not compared)"
        parts.append(f"--- {name}{private}\n" + (f"as {seen[text].relative_to(root)}" if text in seen else text))
        seen.setdefault(text, path)
    return "\n".join(parts)


def _compared(name: Path) -> bool:
    """Not what other files hold too, nor the demo's data and the steps of its study, which have cases of their own."""
    shown = {"study.toml", "results.json", "ledger.csv"} if name.parts[0] == "demo" else {name.name}
    return name.name != "outcome.json" and name.name in shown


def group_example(line: str) -> bool:
    """The campaign that later commands use is the one that this command prints."""
    return line == "collect campaign --example labels"


def _files(root: Path) -> dict[Path, tuple[int, int]]:
    found = sorted(path for path in root.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in found}


def _masked(text: str, group: str) -> str:
    """Without what is new in every run: tokens, keys, durations, and hashes of what holds the time."""
    text = re.sub(r"pv_[\w-]{20,}", "<token>", text)
    if group in ("ledger", "study", "release", "gateway", "collect", "demo"):
        text = re.sub(r"\b(?=\d*[a-f])[0-9a-f]{12,}\b", "<hex>", text)
    if group == "gateway":
        text = re.sub(r"'k[0-9a-f]{6}'", "<key>", re.sub(r"-?\d\.\d s from", "<seconds> from", text))
    if group == "reproduce":
        text = re.sub(r'("?seconds"?: )[\d.]+', r"\1<seconds>", text)
    return text


# ---- what happens between commands --------------------------------------------------------------------------------


def _answer(root: Path) -> str:
    from peerveil.collect import Store
    from peerveil.collect.store import Job, report_key
    from peerveil.services.tokens import hash_token
    from peerveil.truth import Client

    with Store(str(root / "collect.db")) as store:
        known = store.known("birds-2026")
        jobs, bits = [], random.Random(1).getrandbits
        for token in store.invite(known, 6):
            digest = hash_token(token)
            for task in ("1", "2", "3"):
                line = Client(known.campaign.described(), bits=bits).report(task, "yes" if task == "1" else "no")
                jobs.append(Job(known, digest, report_key(digest, task), known.intake.read(line.encode())))
        with store.database.writing("take") as connection:
            return f"taken: {store.take(connection, jobs)}"


def _post(root: Path) -> str:
    from tests.gateway.house import submit

    from peerveil.gateway import Gateway
    from peerveil.services import Vault

    key = (root / "gateway.key").read_text(encoding="utf-8").strip()
    with Gateway(str(root / "gateway.db"), Vault.read(key)) as gateway:
        answer = submit(gateway, thread="t", content="the text", actor="user-17", key="once")
        tokens = [gateway.issue_token(role="operator", space="*", actor="") for _ in range(2)]
    _REVEAL["RECEIPT"], (_REVEAL["asks"], _REVEAL["approves"]) = answer["receipt"], tokens
    return f"answered: {sorted(answer)}"


def _reveal(line: str, root: Path) -> str:
    """A step of a reveal, with the token of the operator who takes it."""
    own = "approves" if "--approve" in line else "asks"
    with patch.dict(os.environ, {"PEERVEIL_TOKEN": _REVEAL[own]}):
        return _run(line.replace("RECEIPT", _REVEAL["RECEIPT"]), root).replace(_REVEAL["RECEIPT"], "<receipt>")


_REVEAL: Final[dict[str, str]] = {}
_ACTS: Final[dict[str, Any]] = {"(six people answer)": _answer, "(an author posts)": _post}
