"""The ledger's database: what its errors say, and how its file is kept.

**SQLite** runs with ``journal_mode=DELETE`` and ``synchronous=EXTRA``: when a spend returns, the file and its
directory are on the disk, and the ledger is one file that can be copied. WAL would be faster, but recent
spends would live in a second file: a copy of the first alone would forget them, and WAL does not work on
network file systems.

**PostgreSQL** locks the account's row (``SELECT ... FOR UPDATE``); spends on other accounts go on beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from peerveil.ledger.errors import LedgerError
from peerveil.storage import Database

if TYPE_CHECKING:
    from collections.abc import Mapping

    from peerveil.core.errors import PeerveilError


class LedgerDatabase(Database):
    """A ledger's database."""

    noun: ClassVar[str] = "ledger"
    error: ClassVar[type[PeerveilError]] = LedgerError
    nothing: ClassVar[Mapping[str, str]] = {
        "spend": "nothing was spent",
        "account": "no account was made",
        "open": "nothing was changed",
    }

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
