"""Several processes, threads and forks at once: nobody overspends, no entry is lost."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from peerveil.core.errors import BadInput
from peerveil.core.guarantee import Guarantee
from peerveil.core.randomness import Randomness
from peerveil.ledger import BudgetExceeded, Ledger

if TYPE_CHECKING:
    from tests.postgres import Server

SPENDER = Path(__file__).with_name("spender.py")
EIGHT = 8


def run_race(url: str, *, budget: str, epsilon: str, fault: str = "none") -> list[dict[str, float]]:
    """Eight processes that open (and make) the ledger and spend from one account until it is empty."""
    command = [sys.executable, str(SPENDER), "race", url, budget, epsilon, fault]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    told: list[dict[str, float]] = json.loads(done.stdout)
    return told


def problems(url: str, budget: str, epsilon: str, told: list[dict[str, float]]) -> list[str]:
    """What the eight processes say, what the ledger says and what arithmetic says, compared."""
    found: list[str] = []
    with Ledger.open(url) as ledger:
        account = ledger.account("shared")
        entries = account.entries()
        possible = Fraction(budget) // Fraction(epsilon)
        successes = sum(one["spent"] for one in told)
        if not successes == len(entries) == possible:
            found.append(f"{successes} receipts, {len(entries)} entries, {possible} affordable")
        if sum(entry.exact_debit for entry in entries) != account.exact_spent:
            found.append("the total is not the sum")
        if account.exact_spent > Fraction(budget):
            found.append("overspent")
        if [entry.serial for entry in entries] != list(range(1, len(entries) + 1)):
            found.append("serials")
        found += ledger.verify().problems
    return found


def test_eight_processes_never_overspend_and_lose_nothing(ledger_url: str) -> None:
    told = run_race(ledger_url, budget="20", epsilon="1/7")
    assert problems(ledger_url, "20", "1/7", told) == []
    assert [one["refused"] for one in told] == [2] * EIGHT


@pytest.mark.slow
def test_eight_processes_for_a_long_time(ledger_url: str) -> None:
    told = run_race(ledger_url, budget="300", epsilon="0.1")
    assert problems(ledger_url, "300", "0.1", told) == []
    # fair enough: nobody is kept waiting forever while the others spend
    assert min(one["spent"] for one in told) >= 3000 / EIGHT / 4


def test_a_ledger_that_looks_before_it_locks_is_caught(ledger_url: str) -> None:
    told = run_race(ledger_url, budget="5", epsilon="1/7", fault="unlocked")
    assert any("overspent" in problem for problem in problems(ledger_url, "5", "1/7", told))


def test_eight_processes_open_a_new_ledger_at_once(tmp_path: Path, postgres_server: Server) -> None:
    for url in (str(tmp_path / "1.db"), str(tmp_path / "new" / "2.db"), postgres_server.fresh()):
        told = run_race(url, budget="2", epsilon="1")
        assert problems(url, "2", "1", told) == []


def spend(ledger: Ledger, epsilon: str) -> None:
    promise = Guarantee.pure_dp(epsilon, unit="one review", neighbors="one review has another score")
    ledger.account("shared").spend(promise, purpose="a", data="b", randomness=Randomness.secure())


def test_one_ledger_in_eight_threads(ledger_url: str) -> None:
    counts: Counter[str] = Counter()
    with Ledger.open(ledger_url) as ledger:
        ledger.account("shared", epsilon=3)

        def work() -> None:
            for _ in range(6):
                try:
                    spend(ledger, "0.1")
                    counts["spent"] += 1
                except BudgetExceeded:
                    counts["refused"] += 1

        threads = [threading.Thread(target=work) for _ in range(EIGHT)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert counts == {"spent": 30, "refused": 18}
        assert ledger.account("shared").exact_remaining == 0
        assert ledger.verify().ok


def test_accounts_opened_at_once_with_different_budgets(ledger_url: str) -> None:
    outcomes: list[Any] = []
    with Ledger.open(ledger_url) as ledger:

        def work(epsilon: int) -> None:
            try:
                outcomes.append(ledger.account("new", epsilon=epsilon).exact_epsilon)
            except BadInput as error:
                outcomes.append(error)

        threads = [threading.Thread(target=work, args=(1 + i % 2,)) for i in range(EIGHT)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kept = ledger.account("new").exact_epsilon
        assert [one for one in outcomes if not isinstance(one, BadInput)] == [kept] * 4
        assert len(ledger.accounts()) == 1
        assert ledger.verify().ok


def test_a_forked_child_and_its_parent_share_a_ledger(ledger_url: str) -> None:
    script = f"""
import os, sys
from peerveil.ledger import Ledger
from peerveil.core.guarantee import Guarantee
from peerveil.core.randomness import Randomness
promise = Guarantee.pure_dp(1, unit="one review", neighbors="one review has another score")
def spend(n):
    for _ in range(n):
        account.spend(promise, purpose="a", data="b", randomness=Randomness.secure())
ledger = Ledger.open({ledger_url!r})
account = ledger.account("shared", epsilon=100)
spend(2)
silent = os.fork()
if silent == 0:
    sys.exit(0)  # never uses the ledger: its clean-up must leave the parent's connection alone
os.waitpid(silent, 0)
child = os.fork()
spend(10)
if child == 0:
    sys.exit(0)
_, status = os.waitpid(child, 0)
spend(1)
assert status == 0
print(account.spent, ledger.verify().ok)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "23.0 True", done.stderr


def test_the_servers_row_lock_does_not_stop_other_accounts(postgres_server: Server) -> None:
    url = postgres_server.fresh()
    with Ledger.open(url, patience=0.5) as ledger:
        ledger.account("first", epsilon=1)
        ledger.account("shared", epsilon=1)
        with ledger._database.engine.connect() as other:
            other.exec_driver_sql("BEGIN")
            other.exec_driver_sql("SELECT * FROM peerveil_accounts WHERE name = 'first' FOR UPDATE")
            spend(ledger, "0.5")
            other.exec_driver_sql("ROLLBACK")
        assert ledger.account("shared").remaining == 0.5
