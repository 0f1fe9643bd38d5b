"""The ledger's database: its tables, the triggers that guard them, what its errors say, and how its file is kept.

Exact numbers are text (``"1/10"``): no database rounds them. The triggers are a seat belt against accidents;
what tells of a deliberate change is the chain of digests (:mod:`peerveil.ledger.verify`).

**SQLite** runs with ``journal_mode=DELETE`` and ``synchronous=EXTRA``: when a spend returns, the file and its
directory are on the disk, and the ledger is one file that can be copied. WAL would be faster, but recent
spends would live in a second file: a copy of the first alone would forget them, and WAL does not work on
network file systems.

**PostgreSQL** locks the account's row (``SELECT ... FOR UPDATE``); spends on other accounts go on beside it.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from sqlalchemy import Column, ForeignKey, Integer, LargeBinary, MetaData, Table, Text, UniqueConstraint

from peerveil.ledger.entry import timestamp
from peerveil.ledger.refusals import LedgerError
from peerveil.storage import Database, Schema, guard, keys, required, version_table

if TYPE_CHECKING:
    from peerveil.core.errors import PeerveilError

metadata = MetaData()
# "ledger" is a random name, covered by every opening digest
header = version_table("peerveil_ledger", metadata, *required(ledger=Text, created=Text, accounts=Integer))
# keys the fingerprints; never exported
secret = Table("peerveil_secret", metadata, *keys(id=Integer), *required(key=LargeBinary))
accounts = Table(
    "peerveil_accounts",
    metadata,
    *keys(number=Integer),
    Column("name", Text, nullable=False, unique=True),
    *required(epsilon=Text, opened=Text, spent=Text, entries=Integer, head=Text),
)
entries = Table(
    "peerveil_entries",
    metadata,
    Column("account", Integer, ForeignKey(accounts.c.number), primary_key=True, autoincrement=False),
    *keys(serial=Integer),
    *required(at=Text, purpose=Text, notion=Text, debit=Text, guarantee=Text, words=Text, fingerprint=Text),
    *required(lane=Text, library=Text, previous=Text, digest=Text),
    Column("key", Text),
    Column("epsilon", Text),
    UniqueConstraint("account", "key"),  # what has a key is debited once
)
bindings = Table(
    "peerveil_bindings",
    metadata,
    *keys(fingerprint=Text),  # of a data set; unique, so that only one account can ever own it
    Column("account", Integer, ForeignKey(accounts.c.number), nullable=False),
)

_APPEND_ONLY: Final = "peerveil: entries of a ledger are append-only"
_FIXED: Final = "peerveil: an account keeps its name and budget, and is never removed"
# INSERT OR REPLACE removes a row without asking the trigger on DELETE
_NO_REPLACE: Final = """CREATE TRIGGER peerveil_entries_no_replace BEFORE INSERT ON peerveil_entries
    WHEN EXISTS (SELECT 1 FROM peerveil_entries WHERE account = NEW.account AND (serial = NEW.serial OR key = NEW.key))
    BEGIN SELECT RAISE(ABORT, 'peerveil: entries of a ledger are append-only'); END"""


def _first_rows() -> dict[Table, dict[str, Any]]:
    return {
        header: {"ledger": os.urandom(16).hex(), "created": timestamp(datetime.now(UTC)), "accounts": 0},
        secret: {"key": os.urandom(32)},
    }


SCHEMA: Final = Schema(
    version=3,
    header=header,
    first=_first_rows,
    guards=(
        guard("peerveil_entries", _APPEND_ONLY),
        guard("peerveil_accounts", _FIXED, fixed="number, name, epsilon, opened"),
        guard("peerveil_bindings", "peerveil: a data set stays with its account"),
        {"sqlite": [_NO_REPLACE]},
    ),
)


class LedgerDatabase(Database):
    """A ledger's database."""

    noun: ClassVar[str] = "ledger"
    error: ClassVar[type[PeerveilError]] = LedgerError
    nothing: ClassVar = {**Database.nothing, "spend": "nothing was spent", "account": "no account was made"}

    @property
    def remedy(self) -> str:
        """How to make a ledger where there is none."""
        return f" ('peerveil ledger add-account {self.shown} --account NAME --epsilon BUDGET' makes one)"

    def lost(self, action: str, message: str) -> PeerveilError:
        """A spend whose outcome is not known may have been spent."""
        if action != "spend":
            return super().lost(action, message)
        return LedgerError(
            f"{message}: it may have been spent. Treat it as spent and release nothing for it; the entries show "
            "whether it was",
            maybe_spent=True,
        )
