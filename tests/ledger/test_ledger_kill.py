"""kill -9 at random moments never leaves a release without its debit."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from peerveil.core.guarantee import Guarantee
from peerveil.core.randomness import Randomness
from peerveil.ledger import Ledger, LedgerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.postgres import Server

SPENDER = Path(__file__).with_name("spender.py")
EPSILON: Final = "1/7"
RIGHT, WRONG = "debit first", "release first"


class Harness:
    """A child that spends and releases without end, and a parent that kills it."""

    def __init__(self, url: str, folder: Path, *, budget: str, order: str = RIGHT) -> None:
        self.url = url
        self.budget = Fraction(budget)
        self.releases = folder / "releases"
        self.releases.touch()
        command = [sys.executable, str(SPENDER), "loop", url, budget, EPSILON, order, str(self.releases)]
        self._parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.kills = 0

    def kill_after(
        self, seconds: float, meanwhile: Callable[[], None] = lambda: None, *, released: bool = False
    ) -> None:
        """Let the child run for a moment, from before it opens the ledger (or from its first release), and kill it."""
        before = self.releases.stat().st_size
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write("go\n")
        self._parent.stdin.flush()
        child = int(self._parent.stdout.readline())
        patience = time.monotonic() + 60
        while released and self.releases.stat().st_size == before and time.monotonic() < patience:
            time.sleep(0.001)
        time.sleep(seconds)
        try:
            meanwhile()
        finally:
            os.kill(child, signal.SIGKILL)
        assert int(self._parent.stdout.readline()) == -signal.SIGKILL
        self.kills += 1

    def close(self) -> None:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.close()
        self._parent.wait(timeout=120)
        self._parent.stdout.close()

    def problems(self) -> list[str]:
        """Compare what was released with what was debited."""
        lines = [line.split() for line in self.releases.read_text().splitlines()]
        found: list[str] = []
        with patient_open(self.url) as ledger:
            account = ledger.account("shared", epsilon=self.budget)
            entries = account.entries()
            by_token = {entry.purpose: entry for entry in entries}
            for token, *receipt in lines:
                entry = by_token.get(token)
                if entry is None:
                    found.append(f"release {token} was never debited")
                elif receipt and receipt != [str(entry.serial), entry.digest]:
                    found.append(f"release {token} has another receipt")
            total = sum((entry.exact_debit for entry in entries), Fraction(0))
            if total != account.exact_spent or total != len(entries) * Fraction(EPSILON):
                found.append("the total is not the sum of the entries")
            if total > self.budget:
                found.append("overspent")
            found += ledger.verify().problems
            # and it works on
            promise = Guarantee.one_sided_dp(1, gap=1, unit="a pair", neighbors="the pair in the other order")
            account.spend(promise, purpose="afterwards", data="reviews", randomness=Randomness.secure())
            found += ledger.verify().problems
        return found

    def counts(self) -> tuple[int, int, int]:
        """Kills, releases and entries, to be reported."""
        with patient_open(self.url) as ledger:
            entries = len(ledger.account("shared")) - 1
        return self.kills, len(self.releases.read_text().splitlines()), entries


def patient_open(url: str) -> Ledger:
    """A server that has just been killed may still be recovering."""
    for _ in range(100):
        try:
            return Ledger.open(url)
        except LedgerError:
            time.sleep(0.1)
    return Ledger.open(url)


def report(name: str, harness: Harness) -> None:
    kills, releases, entries = harness.counts()
    print(f"{name}: {kills} kills, {releases} releases, {entries} entries")
    assert releases > 0


def test_kills_on_sqlite(tmp_path: Path) -> None:
    moments = random.Random(1)
    harness = Harness(str(tmp_path / "ledger.db"), tmp_path, budget="60")
    try:
        for _ in range(20):
            harness.kill_after(moments.uniform(0, 0.1))
    finally:
        harness.close()
    assert harness.problems() == []
    report("SQLite", harness)


def test_kills_on_postgresql(postgres_url: str, tmp_path: Path) -> None:
    moments = random.Random(2)
    harness = Harness(postgres_url, tmp_path, budget="60")
    try:
        for _ in range(8):
            harness.kill_after(moments.uniform(0, 0.3))
    finally:
        harness.close()
    assert harness.problems() == []
    report("PostgreSQL", harness)


def test_releasing_before_the_debit_is_caught(tmp_path: Path) -> None:
    moments = random.Random(3)
    harness = Harness(str(tmp_path / "ledger.db"), tmp_path, budget="1000", order=WRONG)
    try:
        for _ in range(25):
            harness.kill_after(moments.uniform(0, 0.02), released=True)
    finally:
        harness.close()
    found = harness.problems()
    assert found
    assert all("never debited" in problem for problem in found)


@pytest.mark.slow
def test_two_hundred_kills_on_sqlite(tmp_path: Path) -> None:
    moments = random.Random(4)
    harness = Harness(str(tmp_path / "ledger.db"), tmp_path, budget="400")
    try:
        for _ in range(200):
            harness.kill_after(moments.expovariate(1 / 0.1))
    finally:
        harness.close()
    assert harness.problems() == []
    report("SQLite", harness)


@pytest.mark.slow
def test_a_hundred_kills_on_postgresql_with_its_own_deaths(postgres_server: Server, tmp_path: Path) -> None:
    """Besides the client: one server process at a time (the server then recovers), and the server as a whole."""
    moments = random.Random(5)
    url = postgres_server.fresh()
    harness = Harness(url, tmp_path, budget="2000")

    def kill_backend() -> None:
        backends = postgres_server.backends(url)
        if backends:
            os.kill(moments.choice(backends), signal.SIGKILL)
            time.sleep(0.3)

    def kill_server() -> None:
        postgres_server.kill()
        time.sleep(0.05)
        postgres_server.start()
        time.sleep(0.2)

    try:
        for i in range(100):
            if i % 10 == 4:
                harness.kill_after(moments.uniform(0.2, 0.5), kill_backend)
            elif i % 20 == 9:
                harness.kill_after(moments.uniform(0.2, 0.5), kill_server)
            else:
                harness.kill_after(moments.expovariate(1 / 0.25))
    finally:
        harness.close()
    assert harness.problems() == []
    report("PostgreSQL", harness)
