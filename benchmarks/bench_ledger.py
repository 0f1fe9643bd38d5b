"""How fast a durable spend is, beside the least that any durable insert costs."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from sqlalchemy import insert, text

from peerveil.core.guarantee import Guarantee
from peerveil.core.randomness import Randomness
from peerveil.ledger import Ledger
from peerveil.ledger.database import entries
from peerveil.ledger.entry import Entry
from peerveil.ledger.records import entry_row

if TYPE_CHECKING:
    from collections.abc import Callable

    from peerveil.ledger import Account

ROOT = Path(__file__).parents[1]

SPENDS = 300
TINY = Guarantee.pure_dp("1e-6", unit="one review", neighbors="one review has another score")
SECURE = Randomness.secure()
PAYLOAD = "x" * 1100  # about as many bytes as one entry


def spend(account: Account) -> Entry:
    return account.spend(TINY, purpose="benchmark", data="reviews", randomness=SECURE)


def rate(act: Callable[[], object], count: int = SPENDS) -> float:
    act()
    start = time.perf_counter()
    for _ in range(count):
        act()
    return count / (time.perf_counter() - start)


def bare_sqlite(path: Path) -> float:
    """One insert, one commit, as durable as ours (one connection, kept open)."""
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("PRAGMA synchronous = EXTRA")
    raw.execute("CREATE TABLE t (a TEXT)")

    def act() -> None:
        raw.execute("BEGIN IMMEDIATE")
        raw.execute("INSERT INTO t VALUES (?)", [PAYLOAD])
        raw.execute("COMMIT")

    result = rate(act)
    raw.close()
    return result


def bare_postgresql(url: str) -> float:
    with psycopg.connect(url) as raw:
        raw.execute("CREATE TABLE t (a TEXT)")
        raw.commit()

        def act() -> None:
            raw.execute("INSERT INTO t VALUES (%s)", [PAYLOAD])
            raw.commit()

        return rate(act)


def lengthen(ledger: Ledger, account: Account, upto: int) -> None:
    """Fill an account with valid entries, many in one commit (only a benchmark may do that)."""
    last = account.entries(last=1)[0]
    with ledger._database.writing("spend") as connection:
        for first in range(last.serial + 1, upto + 1, 1000):
            rows = []
            for serial in range(first, min(first + 1000, upto + 1)):
                last = Entry.sealed(
                    account=last.account,
                    serial=serial,
                    when=last.when,
                    purpose=last.purpose,
                    key=None,
                    guarantee=last.guarantee,
                    exact_debit=last.exact_debit,
                    words=last.words,
                    fingerprint=last.fingerprint,
                    lane=last.lane,
                    library=last.library,
                    previous=last.digest,
                )
                rows.append({"account": 1, **entry_row(last)})
            connection.execute(insert(entries), rows)
        connection.execute(
            text("UPDATE peerveil_accounts SET entries = :n, spent = :spent, head = :head"),
            {"n": last.serial, "spent": str(last.serial * last.exact_debit), "head": last.digest},
        )


def crowd(url: str) -> float:
    """Spends a second of eight processes together, from their common start until the account is empty."""
    command = [sys.executable, str(ROOT / "tests" / "ledger" / "spender.py"), "race", url, "100", "0.1", "none"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    told = json.loads(done.stdout)
    return float(sum(one["spent"] for one in told) / max(one["seconds"] for one in told))


def bench() -> list[tuple[str, float, float, str]]:
    """Rows of (name, ours, peer, note); rates in spends a second, then costs in milliseconds."""
    from tests.postgres import Server, binaries

    rows: list[tuple[str, float, float, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        with Ledger.open(f"{folder}/l.db") as ledger:
            account = ledger.account("bench", epsilon=1)
            ours, peer = rate(lambda: spend(account)), bare_sqlite(Path(folder) / "bare.db")
            rows.append(("SQLite, spends/s", ours, peer, "peer: bare sqlite3 insert + durable commit"))
        with Ledger.open(f"{folder}/long.db") as ledger:
            account = ledger.account("bench", epsilon=1)
            spend(account)
            costs: list[float] = []
            for length in (10, 1_000, 100_000):
                lengthen(ledger, account, length)
                costs.append(1000 / rate(lambda: spend(account)))
                rows.append((f"SQLite, ms a spend from {length:,} entries on", costs[-1], costs[0], "peer: from 10 on"))
            start = time.perf_counter()
            outcome = ledger.verify()
            took = time.perf_counter() - start
            assert outcome.ok
            rows.append(("verify, entries/s", outcome.entries / took, float("nan"), f"{outcome.entries:,} entries"))
        alone = rows[0][1]
        rows.append(("SQLite, 8 processes, spends/s", crowd(f"{folder}/crowd.db"), alone, "peer: one process"))
    programs = binaries()
    if programs is None:
        return rows
    server = Server(programs)
    try:
        with Ledger.open(server.fresh()) as ledger:
            account = ledger.account("bench", epsilon=1)
            ours, peer = rate(lambda: spend(account)), bare_postgresql(server.fresh())
            rows.append(("PostgreSQL, spends/s", ours, peer, "peer: bare psycopg insert + commit"))
        rows.append(("PostgreSQL, 8 processes, spends/s", crowd(server.fresh()), ours, "peer: one process"))
    finally:
        server.remove()
    return rows


if __name__ == "__main__":
    for name, ours, peer, note in bench():
        print(f"{name:45} {ours:12,.2f} {peer:12,.2f}  {note}")
