"""The ledger itself: opening it, its accounts, its check and its exports."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Self

from sqlalchemy import Connection, insert, select, update

from peerveil.core.errors import BadInput
from peerveil.core.exact import Number, exact, words
from peerveil.core.guarantee import read_epsilon
from peerveil.ledger.account import LIBRARY, Account, account_dict
from peerveil.ledger.database import SCHEMA, LedgerDatabase, accounts, header, secret
from peerveil.ledger.records import AccountState, all_accounts, find_account, find_owner, read_entries, refuse_second
from peerveil.ledger.refusals import DataBound, fingerprint, read_name
from peerveil.ledger.verify import Verification, verify_database
from peerveil.storage import Closable, open_tables

if TYPE_CHECKING:
    from peerveil.ledger.entry import Entry

_LARGEST_BUDGET: Final = 10**300
_LONGEST_PATIENCE: Final = 86_400  # seconds
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would run a text that begins so
_COLUMNS: Final = (
    *("account", "entry", "when", "purpose", "notion", "unit"),
    *("epsilon", "debited", "remaining", "guarantee", "data", "digest"),
)


class Ledger(Closable):
    """Budgets and what was spent of them; no crash, race or restart can overspend. See :meth:`open`."""

    def __init__(self, database: LedgerDatabase, name: str, secret: bytes) -> None:
        self._database = database
        self._id = name
        self._secret = secret

    @classmethod
    def open(cls, url: str | os.PathLike[str], *, create: bool = True, patience: float = 30.0) -> Self:
        """Open the ledger at an address, making it if it does not exist.

        Parameters
        ----------
        url
            A path or ``sqlite:///path`` for a SQLite file, or ``postgresql://user@host/database``.
        create
            False: a ledger that does not exist is an error.
        patience
            How many seconds to wait for others who hold the lock.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Ledger.open(f"{folder}/budget.db") as ledger:
        ...     account = ledger.account("iclr", epsilon=1)
        ...     [account.name for account in ledger.accounts()], account.remaining
        (['iclr'], 1.0)
        """
        seconds = exact(patience, "patience", want="a number of seconds")
        if not 0 <= seconds <= _LONGEST_PATIENCE:
            raise BadInput("patience", got=patience, want="a number of seconds, from 0 to a day")
        database = open_tables(LedgerDatabase, url, SCHEMA, create=create, patience=float(seconds))
        with database.reading("open") as connection:
            name = connection.execute(select(header.c.ledger)).scalar_one()
            key = connection.execute(select(secret.c.key)).scalar_one()
        return cls(database, str(name), bytes(key))

    def close(self) -> None:
        """Give all connections back; the ledger can no longer be used through this object."""
        self._database.close()

    @property
    def id(self) -> str:
        """A random public name, made with the ledger."""
        return self._id

    # ---- accounts ------------------------------------------------------------------------------------------

    def account(self, name: str, *, epsilon: Number | None = None) -> Account:
        """Open an account, making it with a budget of ``epsilon`` if there is none of this name.

        An account's budget never changes: opening it again with another epsilon is an error. ``epsilon=None``
        opens one that exists.
        """
        name = read_name(name)
        budget = None if epsilon is None else read_epsilon(epsilon)
        if budget is not None and not Fraction(1, _LARGEST_BUDGET) <= budget <= _LARGEST_BUDGET:
            raise BadInput("epsilon", got=epsilon, want="a budget within the range of floats")
        with self._database.reading() as connection:
            state = find_account(connection, name)
            known = [other.name for other in all_accounts(connection)] if state is None and budget is None else []
        if state is None:
            if budget is None:
                listed = ", ".join(repr(other) for other in known) or "none yet"
                raise BadInput("name", got=name, want=f"an existing account ({listed}), or an epsilon to open one")
            with self._database.writing("account") as connection:
                state = find_account(connection, name) or self._new_account(connection, name, budget)
        if budget is not None and budget != state.epsilon:
            want = f"{words(state.epsilon, 'up')}, with which account {name!r} was opened, or None"
            raise BadInput("epsilon", got=epsilon, want=want)
        return self._account(state)

    def _new_account(self, connection: Connection, name: str, epsilon: Fraction) -> AccountState:
        # on PostgreSQL the header row is the lock under which accounts are numbered
        count = connection.execute(select(header.c.accounts).where(header.c.id == 1).with_for_update()).scalar_one()
        present = find_account(connection, name)
        if present is not None:
            return present
        opened = {"number": count + 1, "name": name, "epsilon": epsilon, "opened": datetime.now(UTC)}
        state = AccountState(**opened, spent=Fraction(0), entries=0, head="")
        state = replace(state, head=state.opening_seal(self._id))
        connection.execute(insert(accounts).values(**state.to_record()))
        connection.execute(update(header).where(header.c.id == 1).values(accounts=count + 1))
        return state

    def accounts(self) -> list[Account]:
        """All accounts, in the order in which they were opened."""
        with self._database.reading() as connection:
            states = all_accounts(connection)
        return [self._account(state) for state in states]

    def require_free(self, account: str, data: Any, *, once: bool = False, key: str | None = None) -> None:
        """Refuse now what a spend would refuse later: data of another account and, with ``once``, a second decision.

        ``account`` need not exist yet. The entry with ``key`` does not count as an earlier decision.
        """
        what = fingerprint(data, self._secret)
        with self._database.reading() as connection:
            owner = find_owner(connection, what)
            if owner is not None and owner.name != account:
                raise DataBound.elsewhere(account, owner.name)
            if owner is not None and once:
                refuse_second(connection, owner, what, key=key)

    def _account(self, state: AccountState) -> Account:
        return Account(self._database, self._secret, number=state.number, name=state.name)

    # ---- check and export ----------------------------------------------------------------------------------

    def verify(self, *, known: Mapping[str, str] | None = None) -> Verification:
        """Check every digest and every total; see :mod:`peerveil.ledger.verify` for what is noticed.

        Parameters
        ----------
        known
            For each account's name, an :attr:`Account.head` that was kept outside the ledger: a ledger that
            was rewritten as a whole, or put back from an older copy, does not fit it.
        """
        with self._database.reading() as connection:
            return verify_database(connection, self._id, known)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the secret, as JSON values; :func:`peerveil.ledger.verify_export` checks it."""
        with self._database.reading() as connection:
            states = all_accounts(connection)
            return {
                "ledger": self._id,
                "version": SCHEMA.version,
                "library": LIBRARY,
                "accounts": [account_dict(connection, state) for state in states],
            }

    def to_json(self, *, indent: int | None = None) -> str:
        """:meth:`to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def table(self, account: str | None = None) -> list[dict[str, Any]]:
        """One row per entry, for display: numbers as people write them, what was left after each entry.

        ``account`` restricts it to one account.
        """
        with self._database.reading() as connection:
            states = [state for state in all_accounts(connection) if account in (None, state.name)]
            return [row for state in states for row in _table_rows(state, read_entries(connection, state))]

    def to_csv(self, *accounts: str) -> str:
        """:meth:`table` as CSV, of some accounts or of all. A text that a spreadsheet would take for a formula gets a ``'``."""
        rows = [row for account in accounts or (None,) for row in self.table(account)]
        out = io.StringIO()
        writer = csv.DictWriter(out, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        safe = ({k: f"'{v}" if str(v).startswith(_FORMULA) else v for k, v in row.items()} for row in rows)
        writer.writerows(safe)
        return out.getvalue()

    def __repr__(self) -> str:
        return f"<Ledger at {self._database.shown}>"


def _table_rows(state: AccountState, entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    left = state.epsilon
    for entry in entries:
        left -= entry.exact_debit
        when = f"{entry.when:%Y-%m-%d %H:%M:%S}"
        epsilon = "" if entry.exact_epsilon is None else words(entry.exact_epsilon, "up")
        about = (entry.purpose, entry.notion.value, entry.guarantee.unit)
        budget = (epsilon, words(entry.exact_debit, "up"), words(left, "down"))
        values = (entry.account, entry.serial, when, *about, *budget, entry.words, entry.fingerprint, entry.digest)
        yield dict(zip(_COLUMNS, values, strict=True))
