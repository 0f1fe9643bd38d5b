"""The process that spends while others spend too, or until it is killed. Run as a script by the tests.

``spender.py race URL BUDGET EPSILON FAULT`` starts eight processes that open the ledger at the same moment and spend
until each was refused twice; prints what happened as JSON.

``spender.py claim URL COUNT`` starts eight processes with accounts of their own that spend on the same data sets.

``spender.py loop URL BUDGET EPSILON ORDER RELEASES`` forks, for every line on its input, a child that opens the ledger
and then spends and releases without end; prints the child's process number, and another line when it is dead.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

from peerveil.core.guarantee import Guarantee
from peerveil.core.randomness import Randomness
from peerveil.ledger import Account, BudgetExceeded, DataBound, Ledger, LedgerError
from peerveil.ledger.records import append, read_account
from peerveil.ledger.refusals import refuse_overspending

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction
    from multiprocessing.synchronize import Barrier

    from peerveil.ledger import Entry

NAME = "shared"
EIGHT = 8
SECURE = Randomness.secure()


class UnlockedAccount(Account):
    """Deliberately broken: look first, lock afterwards."""

    __slots__ = ()

    def _debit(self, debit: Fraction, **fields: Any) -> Entry:
        with self._database.reading() as connection:
            state = read_account(connection, self._number)
            refuse_overspending(state.name, debit, spent=state.spent, remaining=state.remaining)
        time.sleep(0.01)
        with self._database.writing("spend") as connection:
            state = read_account(connection, self._number, lock=True)
            return append(connection, state, exact_debit=debit, **fields)


def promise(epsilon: str) -> Guarantee:
    return Guarantee.pure_dp(epsilon, unit="one review", neighbors="one review has another score")


def run(start: Barrier, url: str, budget: str, epsilon: str, fault: str) -> dict[str, float]:
    start.wait(timeout=60)
    began = time.perf_counter()
    spent = refused = 0
    with Ledger.open(url) as ledger:
        account = ledger.account(NAME, epsilon=budget)
        if fault == "unlocked":
            account.__class__ = UnlockedAccount
        while refused < 2:
            try:
                account.spend(promise(epsilon), purpose=f"by {os.getpid()}", data="reviews", randomness=SECURE)
                spent += 1
            except BudgetExceeded:
                refused += 1
    return {"spent": spent, "refused": refused, "seconds": time.perf_counter() - began}


def claim(start: Barrier, url: str, name: str, data_sets: str) -> dict[str, Any]:
    """Spend on each data set at the same moment as all others, each from an account of one's own."""
    owned = []
    with Ledger.open(url) as ledger:
        account = ledger.account(name)
        for number in range(int(data_sets)):
            start.wait(timeout=60)
            try:
                account.spend(promise("1"), purpose="claim", data=f"data {number}", randomness=SECURE)
                owned.append(number)
            except DataBound:
                continue
    return {"name": name, "owned": owned}


def warm_up() -> None:
    """Import everything once, before any fork, so that the children's time goes into spending."""
    importlib.import_module("sqlalchemy.dialects.postgresql.psycopg")
    importlib.import_module("psycopg")
    with tempfile.TemporaryDirectory() as folder, Ledger.open(f"{folder}/warm.db") as ledger:
        ledger.account(NAME, epsilon=1).spend(promise("1"), purpose="warm", data="up", randomness=SECURE)


def race(work: Callable[..., dict[str, Any]], *arguments: list[str]) -> list[dict[str, Any]]:
    """Eight processes; each gets the arguments of its number."""
    fork = multiprocessing.get_context("fork")  # this script has no threads; imports are paid once
    start = fork.Barrier(EIGHT)
    results = fork.SimpleQueue()
    children = [fork.Process(target=lambda own=own: results.put(work(start, *own))) for own in arguments]
    for child in children:
        child.start()
    told = []
    for child in children:
        child.join()
        if child.exitcode != 0:
            raise SystemExit(1)
        told.append(results.get())
    return told


def spend_and_release(url: str, budget: str, epsilon: str, order: str, releases: str) -> None:
    """The right order is "debit first"; "release first" is the planted fault."""
    file = os.open(releases, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def release(*words: Any) -> None:
        # one write, so that a kill leaves a whole line or none
        os.write(file, (" ".join(map(str, words)) + "\n").encode())
        os.fsync(file)

    while True:
        try:
            with Ledger.open(url) as ledger:
                account = ledger.account(NAME, epsilon=budget)
                while True:
                    token = os.urandom(8).hex()
                    if order == "release first":
                        release(token)
                    receipt = account.spend(promise(epsilon), purpose=token, data="reviews", randomness=SECURE)
                    if order == "debit first":
                        release(token, receipt.serial, receipt.digest)
        except BudgetExceeded:
            time.sleep(0.005)
        except LedgerError:
            time.sleep(0.02)  # the server is down: release nothing, try again


def loop(*arguments: str) -> None:
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                spend_and_release(*arguments)
            finally:
                os._exit(1)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    warm_up()
    if sys.argv[1] == "race":
        print(json.dumps(race(run, *[sys.argv[2:]] * EIGHT)), flush=True)
    elif sys.argv[1] == "claim":
        address, count = sys.argv[2:]
        print(json.dumps(race(claim, *([address, f"account {one}", count] for one in range(EIGHT)))), flush=True)
    else:
        loop(*sys.argv[2:])
