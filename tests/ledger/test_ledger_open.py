"""Addresses, refusals, versions: what happens before the first spend."""

from __future__ import annotations

import re
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from peerveil.core.errors import BadInput, PeerveilError
from peerveil.ledger import Ledger, LedgerError
from peerveil.storage import Address


def test_every_way_to_name_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "not yet" / "there" / "budget 100%?#.db"
    names: list[str | Path] = [path, str(path), path.relative_to(tmp_path)]
    for name in names:
        with Ledger.open(name) as ledger:
            ledger.account("iclr", epsilon=1)
            monkeypatch.chdir("/")
            assert len(ledger.accounts()) == 1  # wherever the process goes afterwards
            monkeypatch.chdir(tmp_path)
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    Ledger.open(f"sqlite:///{tmp_path}/absolute.db").close()
    Ledger.open("sqlite:///relative 100%.db").close()
    assert {p.name for p in tmp_path.glob("*.db")} == {"absolute.db", "relative 100%.db"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_file_is_durable_and_alone(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "l.db") as ledger, ledger._database.reading() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "delete"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 3  # EXTRA
    raw = sqlite3.connect(tmp_path / "l.db")
    raw.execute("PRAGMA journal_mode = WAL")  # somebody meant well
    raw.close()
    with Ledger.open(tmp_path / "l.db") as ledger:
        ledger.account("iclr", epsilon=1)
        assert [p.name for p in tmp_path.iterdir()] == ["l.db"]


def test_a_server_that_does_not_wait_for_its_disk_is_told_to(postgres_url: str) -> None:
    def setting(url: str) -> Any:
        with Ledger.open(url) as ledger, ledger._database.reading() as connection:
            return connection.exec_driver_sql("SHOW synchronous_commit").scalar()

    assert setting(f"{postgres_url}&options=-c%20synchronous_commit%3Doff") == "on"
    assert setting(f"{postgres_url}&options=-c%20synchronous_commit%3Dremote_apply") == "remote_apply"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "a path"),
        ("  ", "a path"),
        ("a\0b", "a path"),
        (5, "a path"),
        (b"ledger.db", "a path"),
        ("n" * 300, "name too long"),
        (":memory:", "would forget"),
        ("sqlite://", "sqlite:///path"),
        ("sqlite:///", "a path"),
        ("sqlite://host/a", "sqlite:///path"),
        ("sqlite:///:memory:", "would forget"),
        ("sqlite:///a?mode=ro", "sqlite:///path"),
        ("mysql://root:swordfish@db/x", "begins with mysql:"),
        ("postgresql+asyncpg://u:swordfish@db/x", "begins with postgresql"),
        ("postgresql://u:swordfish:swordfish@db:swordfish/x", "unreadable postgresql address"),
        ("file:ledger.db", "begins with file:"),
    ],
)
def test_addresses_that_cannot_be(url: Any, words: str) -> None:
    with pytest.raises(BadInput, match=f"(?i){re.escape(words)}") as refusal:
        Ledger.open(url)
    assert "swordfish" not in str(refusal.value)


def test_files_that_are_no_ledgers(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not a directory"):
        Ledger.open(tmp_path)
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear authors,\n" * 100)
    with pytest.raises(BadInput, match="not a SQLite database"):
        Ledger.open(letter)
    assert letter.read_text() == "Dear authors,\n" * 100
    with pytest.raises(PeerveilError, match="letter"):
        Ledger.open(letter / "ledger.db")
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE reviews (score)")
    other.close()
    with pytest.raises(BadInput, match="other tables"):
        Ledger.open(tmp_path / "other.db")
    with pytest.raises(LedgerError, match="missing"):
        Ledger.open(tmp_path / "mistyped.db", create=False)
    assert not (tmp_path / "mistyped.db").exists()
    (tmp_path / "empty.db").touch()
    with pytest.raises(LedgerError, match="no ledger"):
        Ledger.open(tmp_path / "empty.db", create=False)


def test_a_server_that_is_not_there_and_a_password_that_stays_secret(tmp_path: Path) -> None:
    addresses = [
        f"postgresql://chair:swordfish@/x?host={tmp_path}",
        f"postgresql://chair@/x?host={tmp_path}&password=swordfish",
        "postgres://chair:swordfish@127.0.0.1:1/x",
    ]
    for url in addresses:
        with pytest.raises(LedgerError, match=r"the ledger at postgresql://.*/x: .*nothing was changed") as refusal:
            Ledger.open(url)
        shown = f"{refusal.value} {refusal.value!r} {refusal.value.__cause__} {Address.read(url)!r}"
        assert "swordfish" not in shown
        assert refusal.value.__suppress_context__
        assert not refusal.value.maybe_spent


def test_a_database_that_does_not_exist(postgres_url: str) -> None:
    with pytest.raises(LedgerError, match="does not exist"):
        Ledger.open(postgres_url.replace("/test", "/untest"))
    with pytest.raises(LedgerError, match="no ledger"):
        Ledger.open(postgres_url, create=False)


def test_a_repr_without_the_password(postgres_url: str) -> None:
    with Ledger.open(postgres_url.replace("tester@", "tester:swordfish@")) as ledger:
        assert "swordfish" not in repr(ledger)
        assert "swordfish" not in repr(ledger.account("iclr", epsilon=1))


def test_a_newer_ledger_is_left_alone(ledger_url: str) -> None:
    with Ledger.open(ledger_url) as ledger:
        with ledger._database.writing("open") as connection:
            connection.execute(text("UPDATE peerveil_ledger SET version = 99"))
        with pytest.raises(LedgerError, match="newer peerveil .version 99"):
            Ledger.open(ledger_url)


def test_a_ledger_of_a_version_without_keys_is_refused(ledger_url: str) -> None:
    with Ledger.open(ledger_url) as ledger, ledger._database.writing("open") as connection:
        connection.execute(text("UPDATE peerveil_ledger SET version = 2"))
    with pytest.raises(
        LedgerError, match=r"older peerveil .version 2.*this library knows 3.*begin with a new database"
    ):
        Ledger.open(ledger_url)


@pytest.mark.parametrize("patience", [-1, float("nan"), "soon", 1e9, None])
def test_patience(tmp_path: Path, patience: Any) -> None:
    with pytest.raises(BadInput, match="patience"):
        Ledger.open(tmp_path / "l.db", patience=patience)
