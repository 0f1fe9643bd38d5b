"""Kill -9 of the server, of its workers, of all of them, at random moments of runs: each run ends, and is paid once."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.web.console.clients import said, token_of, where
from tests.web.console.server import ConsoleServer

from peerveil.data import synthetic_conference
from peerveil.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 300.0


class Tab:
    """A browser without scripts, on a server that comes and goes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = ConsoleServer(folder)
        self.http = httpx.Client(base_url=self.server.base, timeout=60)

    def workers(self) -> list[int]:
        """The processes beside the server."""
        own = self.server.process.pid
        text = Path(f"/proc/{own}/task/{own}/children").read_text(encoding="ascii")
        return [int(number) for number in text.split()]

    def again(self) -> None:
        """Start the console anew in the same folder."""
        self.http.close()
        self.server = ConsoleServer(self.folder)
        self.http = httpx.Client(base_url=self.server.base, timeout=60)

    def send(self, page: str, action: str, fields: dict[str, str] | None = None, **more: object) -> httpx.Response:
        token = token_of(self.http.get(page).text)
        return self.http.post(action, data={"form_token": token, **(fields or {})}, **more)  # type: ignore[arg-type]

    def wait(self, page: str, *words: str) -> str:
        """The page, once it says one of some words."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            text = said(self.http.get(page))
            if any(word in text for word in words):
                return text
            time.sleep(0.2)
        raise AssertionError(text)


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[Tab]:
    made = Tab(tmp_path / "console")
    yield made
    made.server.stop()
    made.http.close()


def ready(tab: Tab, rounds: int) -> str:
    """A file and an account that pays for all rounds; the file's id."""
    content = synthetic_conference(60, 40, seed=2).reviews.frame.select("paper", "reviewer", "score").write_csv()
    answer = tab.send("/data", "/data/upload", files={"file": ("reviews.csv", content.encode())})
    file = where(answer).rsplit("/", 1)[1]
    tab.wait(f"/data/{file}", "Read as reviews")
    tab.send("/ledger", "/ledger/open", {"name": "main", "epsilon": str(rounds), "sure": "yes"})
    return file


def one_round(tab: Tab, file: str, victims: str, moment: float) -> None:
    """Draft, start, kill at a moment, start the console again if it is gone, and wait for the end of the run."""
    fields = {"action": "release.publish", "data": file, "account": "main", "epsilon": "1", "scale": "1, 10"}
    run = where(tab.send("/release", "/release/prepare", fields))
    tab.wait(run, "Spend and run")
    assert where(tab.send(run, f"{run}/start")) == run
    time.sleep(moment)
    workers = tab.workers()
    if victims != "workers":
        tab.server.kill()
    if victims != "server":
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
    if victims != "workers":
        tab.again()
    text = tab.wait(run, "Results", "The run failed")
    assert "Results" in text, text


def paid(tab: Tab) -> tuple[float, int, bool]:
    """What was spent, in how many debits, and whether the ledger is whole."""
    with Ledger.open(tab.folder / "ledger.db") as book:
        account = book.account("main")
        return account.spent, len(account.entries()), book.verify().ok


@pytest.mark.slow
def test_a_run_survives_the_death_of_the_console(tab: Tab) -> None:
    """The server and its workers are killed while a run is under way: it goes on at the next start, paid once."""
    file = ready(tab, 1)
    one_round(tab, file, "all", 0.3)
    assert paid(tab) == (1.0, 1, True)
    assert re.search(r"1 of 1 spent", said(tab.http.get("/ledger/account?name=main")))


@pytest.mark.slow
def test_thirty_kills(tab: Tab) -> None:
    """At random moments: the server alone (its workers finish), the workers alone (they are started again), everything."""
    rounds, chance = 30, random.Random(20261116)
    file = ready(tab, rounds)
    for number in range(rounds):
        victims = ("server", "workers", "all")[number % 3]
        one_round(tab, file, victims, chance.uniform(0, 2.5))
        assert paid(tab) == (float(number + 1), number + 1, True), (number, victims)
