"""Tampering directly in SQL, of every kind, is noticed."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

from peerveil.core.errors import BadInput
from peerveil.core.guarantee import Guarantee
from peerveil.core.randomness import Randomness
from peerveil.ledger import Ledger, LedgerError, verify_export

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    """Two accounts, three entries each."""
    with Ledger.open(ledger_url) as opened:
        for name in ("iclr", "kdd"):
            account = opened.account(name, epsilon=1)
            for i in range(3):
                promise = Guarantee.pure_dp("0.1", unit="one review", neighbors="one review has another score")
                account.spend(
                    promise, purpose=f"release {i}", data=f"reviews of {name}", randomness=Randomness.secure()
                )
        yield opened


def tamper(ledger: Ledger, *statements: str, belt: bool = False) -> None:
    """Run SQL on the ledger's own database, with the triggers out of the way unless ``belt``."""
    with ledger._database.writing("open") as connection:
        if not belt:
            sqlite = connection.dialect.name == "sqlite"
            for table in ("entries", "accounts", "bindings"):
                if sqlite:
                    triggers = f"SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name LIKE '%{table}'"
                    for name in connection.execute(text(triggers)).scalars().all():
                        connection.execute(text(f"DROP TRIGGER {name}"))
                else:
                    connection.execute(text(f"ALTER TABLE peerveil_{table} DISABLE TRIGGER USER"))
        for statement in statements:
            connection.execute(text(statement))


ENTRIES, ACCOUNTS = "peerveil_entries", "peerveil_accounts"
SECOND = "WHERE account = 1 AND serial = 2"
COPY = "at, purpose, key, notion, epsilon, debit, guarantee, words, fingerprint, lane, library, previous, digest"
CHANGES = {
    "at": "'2020-01-01T00:00:00.000000+00:00'",
    "purpose": "'another'",
    "key": "'another'",
    "notion": "'local DP'",
    "epsilon": "'1/20'",
    "debit": "'1/20'",
    "guarantee": "replace(guarantee, '1/10', '1/20')",
    "words": "'nothing to see'",
    "fingerprint": "'00'",
    "lane": "'simulation'",
    "library": "'9.9'",
    "previous": "digest",
    "digest": "previous",
}


def test_a_ledger_left_alone_is_right(ledger: Ledger) -> None:
    outcome = ledger.verify()
    assert outcome.ok
    assert outcome
    assert (outcome.accounts, outcome.entries, outcome.problems) == (2, 6, ())
    assert outcome.heads == {account.name: account.head for account in ledger.accounts()}
    assert "every digest and every total is right" in str(outcome)


@pytest.mark.parametrize("column", CHANGES)
def test_a_changed_entry(ledger: Ledger, column: str) -> None:
    tamper(ledger, f"UPDATE {ENTRIES} SET {column} = {CHANGES[column]} {SECOND}")
    outcome = ledger.verify()
    assert not outcome
    assert all("account 'iclr'" in problem for problem in outcome.problems)
    assert "entry 2" in str(outcome)


def test_a_changed_entry_with_a_digest_that_fits(ledger: Ledger) -> None:
    """Digests need no key: whoever changes an entry can seal it anew, and only the next entry tells."""
    second = ledger.account("iclr").entries()[1]
    forged = replace(second, purpose="another")
    tamper(ledger, f"UPDATE {ENTRIES} SET purpose = 'another', digest = '{forged.true_digest()}' {SECOND}")
    (problem,) = ledger.verify().problems
    assert "entry 3 does not continue what stands before it" in problem


def test_a_changed_form_with_the_same_value(ledger: Ledger) -> None:
    tamper(ledger, f"UPDATE {ENTRIES} SET debit = '2/20' {SECOND}")
    assert not ledger.verify()
    with pytest.raises(LedgerError, match="entry 2 of account 'iclr' is damaged"):
        ledger.account("iclr").entries()


@pytest.mark.parametrize("serial", [1, 2, 3])
def test_a_removed_entry(ledger: Ledger, serial: int) -> None:
    tamper(ledger, f"DELETE FROM {ENTRIES} WHERE account = 1 AND serial = {serial}")
    assert not ledger.verify()


def test_a_removed_entry_with_the_gap_closed(ledger: Ledger) -> None:
    tamper(
        ledger,
        f"DELETE FROM {ENTRIES} {SECOND}",
        f"UPDATE {ENTRIES} SET serial = 2 WHERE account = 1 AND serial = 3",
        f"UPDATE {ACCOUNTS} SET entries = 2, spent = '1/5' WHERE number = 1",
    )
    assert not ledger.verify()


def test_the_last_entry_removed_and_the_row_put_back(ledger: Ledger) -> None:
    kept = ledger.account("iclr").head
    second = ledger.account("iclr").entries()[1]
    tamper(
        ledger,
        f"DELETE FROM {ENTRIES} WHERE account = 1 AND serial = 3",
        f"UPDATE {ACCOUNTS} SET entries = 2, spent = '1/5', head = '{second.digest}' WHERE number = 1",
    )
    # a perfect forgery from the inside ...
    assert ledger.verify().ok
    # ... which the kept head unmasks
    outcome = ledger.verify(known={"iclr": kept})
    assert outcome.problems == ("account 'iclr': entry 3 is not the one whose digest was kept",)
    assert ledger.verify(known={"iclr": second.head}).ok


def test_reordered_entries(ledger: Ledger) -> None:
    tamper(
        ledger,
        f"UPDATE {ENTRIES} SET serial = 9 WHERE account = 1 AND serial = 1",
        f"UPDATE {ENTRIES} SET serial = 1 WHERE account = 1 AND serial = 2",
        f"UPDATE {ENTRIES} SET serial = 2 WHERE account = 1 AND serial = 9",
    )
    assert not ledger.verify()


@pytest.mark.parametrize("serial", [0, 4, 7])
def test_an_inserted_entry(ledger: Ledger, serial: int) -> None:
    copied = f"SELECT 1, {serial}, {COPY} FROM {ENTRIES} {SECOND}"
    tamper(ledger, f"INSERT INTO {ENTRIES} (account, serial, {COPY}) {copied}", belt=True)
    assert not ledger.verify()


def test_entries_that_changed_places_between_accounts(ledger: Ledger) -> None:
    tamper(
        ledger,
        f"UPDATE {ENTRIES} SET serial = 9 WHERE account = 1 AND serial = 3",
        f"UPDATE {ENTRIES} SET account = 1 WHERE account = 2 AND serial = 3",
        f"UPDATE {ENTRIES} SET account = 2, serial = 3 WHERE account = 1 AND serial = 9",
    )
    outcome = ledger.verify()
    assert any("'iclr'" in problem for problem in outcome.problems)
    assert any("'kdd'" in problem for problem in outcome.problems)


@pytest.mark.parametrize(
    "change",
    [
        "spent = '1/10'",
        "spent = 'garbage'",
        "entries = 2",
        "head = 'ff'",
        "epsilon = '2'",
        "name = 'other'",
        "opened = at0",
    ],
)
def test_a_changed_account(ledger: Ledger, change: str) -> None:
    change = change.replace("at0", CHANGES["at"])
    tamper(ledger, f"UPDATE {ACCOUNTS} SET {change} WHERE number = 1")
    assert not ledger.verify()


@pytest.mark.parametrize("number", [1, 2])
def test_a_removed_account(ledger: Ledger, number: int) -> None:
    rows = (f"{ENTRIES} WHERE account", "peerveil_bindings WHERE account", f"{ACCOUNTS} WHERE number")
    tamper(ledger, *(f"DELETE FROM {row} = {number}" for row in rows))
    assert not ledger.verify()


def test_a_rewritten_ledger_does_not_know_an_account(ledger: Ledger) -> None:
    assert ledger.verify(known={"gone": f"1:{'a' * 64}"}).problems == ("account 'gone', whose head was kept, is gone",)
    for wrong in ("", "1", "x:" + "a" * 64, 5):
        with pytest.raises(BadInput, match="known"):
            ledger.verify(known={"iclr": wrong})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "statement",
    [
        f"UPDATE {ENTRIES} SET purpose = 'x'",
        f"DELETE FROM {ENTRIES}",
        f"DELETE FROM {ACCOUNTS}",
        f"UPDATE {ACCOUNTS} SET epsilon = '5'",
        f"UPDATE {ACCOUNTS} SET name = 'x' WHERE number = 1",
    ],
)
def test_the_seat_belt(ledger: Ledger, statement: str) -> None:
    with pytest.raises(LedgerError, match="append-only|keeps its name"):
        tamper(ledger, statement, belt=True)
    special = (
        f"INSERT OR REPLACE INTO {ENTRIES} SELECT * FROM {ENTRIES} {SECOND}"
        if ledger._database.is_sqlite
        else f"TRUNCATE {ENTRIES}"
    )
    with pytest.raises(LedgerError, match="append-only"):
        tamper(ledger, special, belt=True)
    if ledger._database.is_sqlite:  # a row that replaces another of the same key would be removed without a trigger
        promise = Guarantee.pure_dp("1/10", unit="one review", neighbors="another score")
        ledger.account("iclr").spend(
            promise, purpose="x", data="reviews of iclr", randomness=Randomness.secure(), key="k"
        )
        values = f"SELECT account, 9, {COPY} FROM {ENTRIES} WHERE key = 'k'"
        with pytest.raises(LedgerError, match="append-only"):
            tamper(ledger, f"INSERT OR REPLACE INTO {ENTRIES} (account, serial, {COPY}) {values}", belt=True)
    assert ledger.verify().ok


def test_an_export_can_be_checked_without_the_ledger(ledger: Ledger) -> None:
    data = json.loads(ledger.to_json())
    outcome = verify_export(data, known={"kdd": ledger.account("kdd").head})
    assert outcome.ok
    assert (outcome.accounts, outcome.entries) == (2, 6)

    def changed(change: Any) -> dict[str, Any]:
        other: dict[str, Any] = copy.deepcopy(data)
        change(other)
        return other

    forgeries = [
        lambda d: d["accounts"][0]["entries"][1].update(purpose="x"),
        lambda d: d["accounts"][0]["entries"][1].update(key="x"),
        lambda d: d["accounts"][0]["entries"][1].update(debited=False),
        lambda d: d["accounts"][0]["entries"].pop(1),
        lambda d: d["accounts"][0]["entries"].reverse(),
        lambda d: d["accounts"][0].update(spent="0"),
        lambda d: d["accounts"][0].update(epsilon="5"),
        lambda d: d["accounts"].pop(0),
        lambda d: d.update(ledger="another"),
    ]
    for forgery in forgeries:
        assert not verify_export(changed(forgery))
    assert not verify_export(changed(lambda d: d["accounts"].pop(1)), known={"kdd": ledger.account("kdd").head})
    twice = changed(lambda d: [item.update(key="x") for item in d["accounts"][0]["entries"][:2]])
    assert "entry 2 has the key of entry 1: what has a key is debited once" in str(verify_export(twice))
    with pytest.raises(BadInput, match="to_dict"):
        verify_export({"accounts": [{}]})
