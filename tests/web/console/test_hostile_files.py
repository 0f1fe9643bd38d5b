"""Settings that name files of the server: no form offers them, and whoever posts them anyway has no file opened."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

import polars as pl
import pytest
from tests.web.console.clients import LocalConsole, said, where

from peerveil.study import Study, check_study
from peerveil.study.actions import actions_of
from peerveil.web.console import files
from peerveil.web.console.app import LOCAL_USER
from peerveil.web.console.explore import MODULES
from peerveil.web.console.users import User

if TYPE_CHECKING:
    from pathlib import Path

NAMED = {
    name: [parameter.name for parameter in kind.parameters() if parameter.refers and parameter.refers.kind is None]
    for module in MODULES
    for name, kind in ((kind.name, kind) for kind in actions_of(module).values())
    if any(parameter.refers and parameter.refers.kind is None for parameter in kind.parameters())
}
"""The settings that name files, by action."""
SETTINGS: dict[str, dict[str, str]] = {
    "release.ask": {"epsilon": "1"},
    "timing.post": {"gap": "45m"},
    "calibration.decide": {
        "accept": "5",
        "adversary_error": "0.3",
        "capped": "true",
        "draws": "1",
        "iterations": "600",
    },
    "calibration.plan": {"accept": "5", "draws": "1", "iterations": "600", "demands": "0, 1", "most_groups": "2"},
    "calibration.leak": {"accept": "5", "draws": "1", "iterations": "600", "conferences": "1"},
    "truth.randomize": {"epsilon": "1", "classes": "0, 1"},
    "truth.plan": {"epsilons": "2", "tasks": "20", "trials": "1"},
}
_OPENED = 0x20  # IN_OPEN of inotify(7)


class Watch:
    """Whether anybody has opened a file, in whatever language: asked of the kernel."""

    def __init__(self, path: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor = libc.inotify_init1(os.O_NONBLOCK)
        assert libc.inotify_add_watch(self.descriptor, os.fsencode(path), _OPENED) >= 0, os.strerror(ctypes.get_errno())

    def opened(self) -> bool:
        try:
            return bool(os.read(self.descriptor, 4096))
        except BlockingIOError:
            return False


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of the server."""
    path = tmp_path / "secret.csv"
    path.write_text("thread,gap\nsecret-thread,2700\n", encoding="utf-8")
    return path


def ids(console: LocalConsole) -> dict[str, str]:
    """The files of a synthetic conference."""
    files.add_synthetic(console.app, User(LOCAL_USER, "you", "operator"), papers=24, reviewers=18)
    console.work("checks")
    return {file.name: file.id for file in files.listed(console.app, User(LOCAL_USER, "you", "operator"))}


def test_these_actions_name_files() -> None:
    assert set(NAMED) == set(SETTINGS)


def test_the_watch_sees_every_way_to_open_a_file(secret: Path) -> None:
    watch = Watch(secret)
    assert not watch.opened()
    secret.read_text(encoding="utf-8")
    assert watch.opened()
    pl.read_csv(secret)  # opened by a library that is not written in Python
    assert watch.opened()


@pytest.mark.parametrize("action", NAMED)
def test_a_posted_file_is_not_opened(console: LocalConsole, secret: Path, action: str) -> None:
    me, module = console.browser(), action.partition(".")[0]
    known = ids(console)
    me.send("/ledger", "/ledger/open", {"name": "main", "epsilon": "5"})
    page = me.get(f"/{module}").text
    form = page[page.index(f'id="form-{action}"') :].split("</form>")[0]
    assert not any(f'name="{name}"' in form for name in NAMED[action])
    data = known[f"synthetic: {MODULES[module].kind}"]
    base = {"action": action, "data": data, "account": "main", "history": known["synthetic last year: reviews"]}
    watch = Watch(secret)
    run = where(
        me.send(f"/{module}", f"/{module}/prepare", base | SETTINGS[action] | dict.fromkeys(NAMED[action], str(secret)))
    )
    console.work("checks")
    study = me.get(f"{run}/study.toml").text
    assert "secret" not in study
    assert "Before you start" in said(me.get(run)), said(me.get(run))
    me.send(run, f"{run}/start")
    console.work("runs")
    assert "Results" in said(me.get(run))
    assert not watch.opened()


def test_the_same_setting_in_a_study_file_does_open_it(console: LocalConsole, tmp_path: Path, secret: Path) -> None:
    """So the test above can fail."""
    me, known = console.browser(), ids(console)
    me.send("/ledger", "/ledger/open", {"name": "main", "epsilon": "5"})
    base = {"action": "timing.post", "data": known["synthetic: events"], "account": "main", "gap": "45m"}
    run = where(me.send("/timing", "/timing/prepare", base))
    frame = pl.read_csv(files.find(console.app, User(LOCAL_USER, "you", "operator"), known["synthetic: events"]).path)
    secret.write_text(f"thread,gap\n{frame['thread'][0]},2700\n", encoding="utf-8")
    watch = Watch(secret)
    path = tmp_path / "by-hand.toml"
    path.write_text(f"{me.get(f'{run}/study.toml').text}\ngaps = '{secret}'\n", encoding="utf-8")
    check_study(Study.read(path))
    assert watch.opened()


def test_further_data_are_files_of_the_console(tmp_path: Path, secret: Path) -> None:
    """A path where a file's id belongs, or the id of somebody else's file, is not there."""
    console = LocalConsole(tmp_path, sign_in=True)
    ann, bob = (console.joined(name, "analyst") for name in ("ann", "bob"))
    own, past = (
        where(browser.add("reviews.csv", b"paper,reviewer,score\n1,a,3\n1,b,4\n2,a,5\n2,b,1\n")).rsplit("/", 1)[1]
        for browser in (ann, bob)
    )
    console.work("checks")
    watch = Watch(secret)
    fields = {"action": "calibration.plan", "data": own, **SETTINGS["calibration.plan"]}
    for history in (str(secret), f"../../{secret.name}", past, f"{past}, {secret}"):
        answer = ann.send("/calibration", "/calibration/prepare", {**fields, "history": history})
        assert answer.status_code == 404, history
    assert not watch.opened()
    console.close()
