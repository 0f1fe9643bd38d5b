"""Locks that stay, disks that are full, servers that go away: the error says what became of the budget."""

from __future__ import annotations

import os
import pickle
import shutil
import sqlite3
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from peerveil.core.guarantee import Guarantee
from peerveil.core.randomness import Randomness
from peerveil.ledger import Account, Ledger, LedgerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.postgres import Server

PROMISE = Guarantee.pure_dp("0.1", unit="one review", neighbors="one review has another score")
NOBODY = 65534


def spend(account: Account, purpose: str = "mean") -> None:
    account.spend(PROMISE, purpose=purpose, data="reviews", randomness=Randomness.secure())


def spend_without_end(account: Account) -> None:
    while True:
        spend(account, "p" * 500)


def refusal(account: Account, purpose: str = "mean") -> LedgerError:
    with pytest.raises(LedgerError) as caught:
        spend(account, purpose)
    assert caught.value.__suppress_context__  # no driver's traceback before ours
    return caught.value


def test_a_file_that_stays_locked(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "l.db", patience=0.2) as ledger:
        account = ledger.account("iclr", epsilon=1)
        other = sqlite3.connect(tmp_path / "l.db", isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        error = refusal(account)
        assert "locked for more than 0.2 s; nothing was spent" in str(error)
        assert not error.maybe_spent
        other.execute("ROLLBACK")
        # a reader who stays keeps the debit from being committed: rolled back, not half done
        other.execute("BEGIN")
        other.execute("SELECT * FROM peerveil_accounts").fetchall()
        error = refusal(account)
        assert "nothing was spent" in str(error)
        assert not error.maybe_spent
        other.close()
        assert account.entries() == []
        spend(account)
        assert ledger.verify().ok


def test_an_account_that_stays_locked_on_the_server(postgres_url: str) -> None:
    with Ledger.open(postgres_url, patience=0.2) as ledger, psycopg.connect(postgres_url) as other:
        account = ledger.account("iclr", epsilon=1)
        other.execute("SELECT * FROM peerveil_accounts FOR UPDATE")
        error = refusal(account)
        assert "locked for more than 0.2 s; nothing was spent" in str(error)
        other.rollback()
        spend(account)


def test_a_write_protected_file_can_be_read_but_not_spent() -> None:
    folder = Path(tempfile.mkdtemp())  # pytest's own directories are closed to other users
    try:
        with Ledger.open(folder / "l.db") as ledger:
            account = ledger.account("iclr", epsilon=1)
            spend(account)
            folder.chmod(0o555)
            (folder / "l.db").chmod(0o444)
            if os.geteuid() == 0:
                os.seteuid(NOBODY)  # root may write everywhere
            try:
                assert account.remaining == 0.9
                with Ledger.open(folder / "l.db") as copy:
                    assert copy.verify().ok
                error = refusal(account)
                with pytest.raises(LedgerError, match="cannot make a ledger"):
                    Ledger.open(folder / "new" / "l.db")
            finally:
                if os.getuid() == 0:
                    os.seteuid(0)
        assert "it is write-protected; nothing was spent" in str(error)
        assert not error.maybe_spent
    finally:
        folder.chmod(0o700)
        shutil.rmtree(folder)


def test_a_full_disk(tmp_path: Path) -> None:
    """``max_page_count`` makes SQLite fail just as the disk does, with SQLITE_FULL."""
    with Ledger.open(tmp_path / "l.db") as ledger:
        account = ledger.account("iclr", epsilon=1000)

        @event.listens_for(ledger._database.engine, "connect")
        def small(connection: Any, _: Any) -> None:
            connection.execute("PRAGMA max_page_count = 24")

        with pytest.raises(LedgerError, match="the disk is full; nothing was spent") as caught:
            spend_without_end(account)
        assert not caught.value.maybe_spent
        done = len(account.entries())
        assert 10 < done < 100
        assert account.exact_spent == done * Fraction(1, 10)
        assert ledger.verify().ok
        event.remove(ledger._database.engine, "connect", small)
        spend(account, "p" * 500)
        assert ledger.verify().ok


def test_a_file_that_was_removed_is_not_begun_anew(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "l.db") as ledger:
        account = ledger.account("iclr", epsilon=1)
        (tmp_path / "l.db").unlink()
        assert "the file is missing" in str(refusal(account))
        assert not (tmp_path / "l.db").exists()


def test_a_damaged_row_is_not_spent_from(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "l.db") as ledger:
        account = ledger.account("iclr", epsilon=1)
        raw = sqlite3.connect(tmp_path / "l.db")
        raw.execute("UPDATE peerveil_accounts SET spent = 'nothing at all'")
        raw.commit()
        raw.close()
        assert "cannot be read: run verify()" in str(refusal(account))
        assert not ledger.verify()


def test_a_server_that_is_stopped_and_started(postgres_server: Server) -> None:
    url = postgres_server.fresh()
    with Ledger.open(url) as ledger:
        account = ledger.account("iclr", epsilon=1)
        spend(account)
        postgres_server.stop()
        error = refusal(account)
        assert "nothing was spent" in str(error)
        assert not error.maybe_spent
        postgres_server.start()
        spend(account)  # with a fresh connection, without opening the ledger again
        postgres_server.stop()
        postgres_server.start()
        spend(account)  # a pooled connection that died unnoticed
        assert account.remaining == 0.7
        assert ledger.verify().ok


def before(ledger: Ledger, statement: str, act: Callable[[Any], None]) -> Callable[[], None]:
    """Do something just before a statement of the ledger runs; call the result to stop that."""

    def listener(connection: Any, cursor: Any, said: str, *_: Any) -> None:
        if said.startswith(statement):
            act(cursor)

    event.listen(ledger._database.engine, "before_cursor_execute", listener)
    return lambda: event.remove(ledger._database.engine, "before_cursor_execute", listener)


def test_a_connection_lost_before_the_commit(postgres_url: str) -> None:
    def end_session(cursor: Any) -> None:
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", [cursor.connection.info.backend_pid])

    with Ledger.open(postgres_url) as ledger:
        account = ledger.account("iclr", epsilon=1)
        stop = before(ledger, "INSERT", end_session)
        error = refusal(account)
        stop()
        assert "nothing was spent" in str(error)
        assert not error.maybe_spent
        assert account.entries() == []
        spend(account)


@pytest.mark.parametrize("committed", [False, True])
def test_a_connection_lost_in_the_commit_must_be_taken_as_spent(postgres_url: str, committed: bool) -> None:
    def end_session(cursor: Any) -> None:
        if committed:
            cursor.connection.execute("COMMIT")
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", [cursor.connection.info.backend_pid])

    with Ledger.open(postgres_url) as ledger:
        account = ledger.account("iclr", epsilon=1)
        stop = before(ledger, "COMMIT", end_session)
        error = refusal(account)
        stop()
        assert error.maybe_spent
        assert pickle.loads(pickle.dumps(error)).maybe_spent
        assert "it may have been spent. Treat it as spent and release nothing for it" in str(error)
        assert "nothing was spent" not in str(error)
        assert len(account.entries()) == committed
        assert ledger.verify().ok
        spend(account)


class DiskError(sqlite3.OperationalError):
    """What SQLite raises when the directory cannot be synchronized: the commit may have happened."""

    sqlite_errorname = "SQLITE_IOERR_DIR_FSYNC"


def test_a_disk_error_in_the_commit_must_be_taken_as_spent(tmp_path: Path) -> None:
    def fail(cursor: Any) -> None:
        cursor.execute("COMMIT")
        raise OperationalError("COMMIT", None, DiskError("disk I/O error"))

    with Ledger.open(tmp_path / "l.db") as ledger:
        account = ledger.account("iclr", epsilon=1)
        stop = before(ledger, "COMMIT", fail)
        error = refusal(account)
        stop()
        assert error.maybe_spent
        assert "may have been spent" in str(error)
        assert len(account.entries()) == 1


def test_an_interrupt_before_the_commit_spends_nothing(ledger_url: str) -> None:
    def interrupt(cursor: Any) -> None:
        raise KeyboardInterrupt

    with Ledger.open(ledger_url) as ledger:
        account = ledger.account("iclr", epsilon=1)
        for statement in ("INSERT", "UPDATE", "COMMIT", "BEGIN"):
            stop = before(ledger, statement, interrupt)
            with pytest.raises(KeyboardInterrupt):
                spend(account)
            stop()
            assert account.entries() == []
        spend(account)
        assert ledger.verify().ok
