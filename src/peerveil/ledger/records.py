"""Rows of the database as values, and the two statements that a spend consists of."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from peerveil.core.errors import BadInput
from peerveil.core.guarantee import Guarantee, Notion
from peerveil.ledger.database import accounts, bindings, entries
from peerveil.ledger.entry import Entry, canonical, seal, timestamp
from peerveil.ledger.refusals import DataBound, LedgerError

_PAGE: Final = 2000

# built once: SQLAlchemy takes longer to build a statement than SQLite to run it
_SELECT: Final = select(accounts).where(accounts.c.number == bindparam("which"))
_LOCK: Final = _SELECT.with_for_update()
_INSERT: Final = insert(entries)
_UPDATE: Final = (
    update(accounts)
    .where(accounts.c.number == bindparam("which"))
    .values({name: bindparam(name) for name in ("spent", "entries", "head")})
)
_BIND: Final = {  # a second account waits here until the first has committed, then finds its row
    kind.dialect().name: kind.insert(bindings).on_conflict_do_nothing() for kind in (sqlite, postgresql)
}
_OWNER: Final = (
    select(accounts)
    .join(bindings, bindings.c.account == accounts.c.number)
    .where(bindings.c.fingerprint == bindparam("data"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountState:
    """An account's row: its budget and what has been spent."""

    number: int
    name: str
    epsilon: Fraction
    opened: datetime
    spent: Fraction
    entries: int
    head: str

    @property
    def remaining(self) -> Fraction:
        """What is left."""
        return self.epsilon - self.spent

    @property
    def serial_and_head(self) -> str:
        """``serial:digest`` of its last entry."""
        return f"{self.entries}:{self.head}"

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> AccountState:
        """The account with the values of :meth:`to_record`."""
        values = {field.name: record[field.name] for field in fields(cls)}
        exact = {name: Fraction(record[name]) for name in ("epsilon", "spent")}
        return cls(**values | exact | {"opened": datetime.fromisoformat(record["opened"])})

    @classmethod
    def from_row(cls, row: Row[Any]) -> AccountState:
        """The account in a row; a damaged row is a :class:`LedgerError`."""
        try:
            return cls.from_record(row._asdict())
        except (ValueError, TypeError, ArithmeticError):
            raise LedgerError(f"the row of account {row.name!r} cannot be read: run verify()") from None

    def to_record(self) -> dict[str, Any]:
        """All values as its row holds them."""
        texts = {"epsilon": str(self.epsilon), "opened": timestamp(self.opened), "spent": str(self.spent)}
        return {**asdict(self), **texts}

    def opening_seal(self, ledger: str) -> str:
        """The digest that its first entry continues."""
        record = self.to_record()
        opening = {name: record[name] for name in ("number", "epsilon", "opened")}
        return seal({"ledger": ledger, "account": self.name, **opening})


def find_account(connection: Connection, name: str) -> AccountState | None:
    """The account of this name."""
    row = connection.execute(select(accounts).where(accounts.c.name == name)).one_or_none()
    return None if row is None else AccountState.from_row(row)


def read_account(connection: Connection, number: int, *, lock: bool = False) -> AccountState:
    """The account of this number; ``lock`` keeps others from spending on it until the transaction ends."""
    # SQLite has no FOR UPDATE (SQLAlchemy leaves it out): BEGIN IMMEDIATE has locked its whole file
    row = connection.execute(_LOCK if lock else _SELECT, {"which": number}).one_or_none()
    if row is None:
        raise LedgerError(f"account number {number} is gone from the ledger: run verify()")
    return AccountState.from_row(row)


def all_accounts(connection: Connection) -> list[AccountState]:
    """Every account, in the order in which they were opened."""
    return [AccountState.from_row(row) for row in connection.execute(select(accounts).order_by(accounts.c.number))]


def append(
    connection: Connection,
    state: AccountState,
    *,
    guarantee: Guarantee,
    exact_debit: Fraction,
    key: str | None,
    fingerprint: str,
    **fields: str,
) -> Entry:
    """Bind the data, write the next entry and the account's new total; the caller holds the lock and checked the budget."""
    if key is not None and (earlier := find_entry(connection, state, key)) is not None:
        want = f"a key of no earlier entry (entry {earlier.serial} of account {state.name!r} has it); nothing was spent"
        raise BadInput("key", got=key, want=want)
    _bind(connection, state, fingerprint)
    if guarantee.notion is Notion.MAP_ERROR:
        refuse_second(connection, state, fingerprint)
    entry = Entry.sealed(
        account=state.name,
        serial=state.entries + 1,
        when=datetime.now(UTC),
        key=key,
        guarantee=guarantee,
        exact_debit=exact_debit,
        fingerprint=fingerprint,
        previous=state.head,
        **fields,
    )
    connection.execute(_INSERT, {"account": state.number, **entry_row(entry)})
    total = {"spent": str(state.spent + exact_debit), "entries": entry.serial, "head": entry.digest}
    connection.execute(_UPDATE, {"which": state.number, **total})
    return entry


def find_owner(connection: Connection, fingerprint: str) -> AccountState | None:
    """The account that a data set belongs to."""
    row = connection.execute(_OWNER, {"data": fingerprint}).one_or_none()
    return None if row is None else AccountState.from_row(row)


def _bind(connection: Connection, state: AccountState, fingerprint: str) -> None:
    """Give a data set to the account that spends on it first; refuse every other account."""
    connection.execute(_BIND[connection.dialect.name], {"fingerprint": fingerprint, "account": state.number})
    owner = find_owner(connection, fingerprint)
    if owner is None or owner.number != state.number:
        raise DataBound.elsewhere(state.name, "unknown" if owner is None else owner.name)


def refuse_second(connection: Connection, state: AccountState, fingerprint: str, *, key: str | None = None) -> None:
    """The error of a MAP adversary is bounded for one decision; nothing is known of two, so there is no second one.

    The entry with ``key`` does not count.
    """
    earlier = connection.execute(
        select(entries.c.serial, entries.c.at, entries.c.key)
        .where(entries.c.account == state.number, entries.c.fingerprint == fingerprint)
        .where(entries.c.notion == Notion.MAP_ERROR.value)
    ).all()
    for entry in earlier:
        if key is None or entry.key != key:
            raise DataBound.decided(state.name, entry.serial, entry.at[:10])


def entry_row(entry: Entry) -> dict[str, Any]:
    """An entry as its row holds it, all but the account's number."""
    row = entry.to_dict()
    del row["account"], row["debited"]
    row["at"] = row.pop("when")
    row["guarantee"] = canonical(row["guarantee"])
    return row


def entry_from_row(row: Row[Any], account: str) -> Entry | None:
    """The entry in a row; ``None`` if the row does not hold exactly what :func:`entry_row` writes."""
    stored = row._mapping
    try:
        entry = Entry.read({**stored, "account": account, "when": row.at}, _guarantee(row.guarantee))
        written = entry_row(entry)
    except (ValueError, TypeError, ArithmeticError):
        return None
    return entry if all(stored[name] == value for name, value in written.items()) else None


@lru_cache(maxsize=256)
def _guarantee(text: str) -> Guarantee:
    """The guarantee in a row; many entries of an account guarantee the same."""
    return Guarantee.from_dict(json.loads(text))


def entry_rows(connection: Connection, number: int, *, after: int = 0) -> Iterator[Row[Any]]:
    """The rows of an account in order, in pages, so that a long account does not fill the memory."""
    while True:
        page = connection.execute(
            select(entries)
            .where(entries.c.account == number, entries.c.serial > after)
            .order_by(entries.c.serial)
            .limit(_PAGE)
        ).all()
        yield from page
        if len(page) < _PAGE:
            return
        after = page[-1].serial


def find_entry(connection: Connection, state: AccountState, key: str) -> Entry | None:
    """The entry of an account with this key."""
    query = select(entries).where(entries.c.account == state.number, entries.c.key == key)
    row = connection.execute(query).one_or_none()
    return None if row is None else _readable(row, state)


def read_entries(connection: Connection, state: AccountState, *, after: int = 0) -> Iterator[Entry]:
    """The entries of an account; one that cannot be read is a :class:`LedgerError`."""
    for row in entry_rows(connection, state.number, after=after):
        yield _readable(row, state)


def _readable(row: Row[Any], state: AccountState) -> Entry:
    entry = entry_from_row(row, state.name)
    if entry is None:
        raise LedgerError(f"entry {row.serial} of account {state.name!r} is damaged: run verify()")
    return entry
