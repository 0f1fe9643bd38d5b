"""An account: a budget of epsilon for one body of data, the entries that have used it, and its statement.

The statement says what the account's releases guarantee together, unit by unit, in words.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from fractions import Fraction
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from peerveil.core.errors import BadInput
from peerveil.core.exact import printed, words
from peerveil.ledger.records import AccountState, append, find_entry, read_account, read_entries
from peerveil.ledger.refusals import (
    fingerprint,
    read_guarantee,
    read_key,
    read_purpose,
    refuse_overspending,
    require_secure,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from peerveil.core.guarantee import Guarantee, Notion
    from peerveil.core.randomness import Randomness
    from peerveil.ledger.database import LedgerDatabase
    from peerveil.ledger.entry import Entry

LIBRARY = version("peerveil")

EXPLANATION = (
    "What adds up is the subtotal of one line: all releases of that line together keep its guarantee, with the "
    "subtotal as epsilon, for the unit and the neighbors named there. Releases under another line protect "
    "something else and are not bounded by it. The account is debited by the plain sum, so no subtotal can "
    "exceed its budget."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtotal:
    """The releases of an account that share a notion, a unit and neighbors."""

    notion: Notion
    unit: str
    neighbors: str
    releases: int
    data_sets: int
    exact_epsilon: Fraction | None

    @property
    def epsilon(self) -> float | None:
        """The sum of the debited epsilons, rounded up; ``None`` where they do not add up."""
        return None if self.exact_epsilon is None else printed(self.exact_epsilon, "up")

    def to_dict(self) -> dict[str, Any]:
        """Everything, exactly, as JSON values."""
        values = asdict(self)
        epsilon = values.pop("exact_epsilon")
        return values | {"notion": self.notion.value, "epsilon": None if epsilon is None else str(epsilon)}

    def __str__(self) -> str:
        count = f"{self.releases} release{'s' if self.releases != 1 else ''}"
        whom = f"{self.unit} ({self.notion.value}; neighbors: {self.neighbors})"
        if self.exact_epsilon is not None:
            together = " together" if self.releases > 1 else ""
            return f"{whom}: {count}, epsilon {words(self.exact_epsilon, 'up')}{together}"
        each = "it holds" if self.releases == 1 else "each holds by itself, they do not add up"
        return f"{whom}: {count} recorded, nothing debited ({each})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """An account's budget and its subtotals; ``str()`` is for a program chair."""

    account: str
    exact_epsilon: Fraction
    exact_spent: Fraction
    data_sets: int
    subtotals: tuple[Subtotal, ...]

    @property
    def exact_remaining(self) -> Fraction:
        """What is left."""
        return self.exact_epsilon - self.exact_spent

    def to_dict(self) -> dict[str, Any]:
        """Everything, exactly, as JSON values."""
        return {
            "account": self.account,
            "epsilon": str(self.exact_epsilon),
            "spent": str(self.exact_spent),
            "remaining": str(self.exact_remaining),
            "data_sets": self.data_sets,
            "subtotals": [subtotal.to_dict() for subtotal in self.subtotals],
            "explanation": EXPLANATION,
        }

    def __str__(self) -> str:
        lines = [
            f"Account {self.account!r}: epsilon {words(self.exact_spent, 'up')} of "
            f"{words(self.exact_epsilon, 'up')} is spent, "
            f"{words(self.exact_remaining, 'down')} remains."
        ]
        lines += [f"- {subtotal}" for subtotal in self.subtotals]
        if self.subtotals:
            which, it = (
                ("1 data set belongs", "it") if self.data_sets == 1 else (f"{self.data_sets} data sets belong", "them")
            )
            lines += [EXPLANATION, f"{which} to this account: no other account can spend on {it}."]
        return "\n".join(lines)


def make_statement(state: AccountState, entries: Iterable[Entry]) -> Statement:
    """Group an account's entries by what they guarantee to whom."""
    groups: dict[tuple[Notion, str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.notion, entry.guarantee.unit, entry.guarantee.neighbors), []).append(entry)
    return Statement(
        account=state.name,
        exact_epsilon=state.epsilon,
        exact_spent=state.spent,
        data_sets=len({entry.fingerprint for group in groups.values() for entry in group}),
        subtotals=tuple(
            Subtotal(
                notion=notion,
                unit=unit,
                neighbors=neighbors,
                releases=len(group),
                data_sets=len({entry.fingerprint for entry in group}),
                exact_epsilon=sum((entry.exact_debit for entry in group), Fraction(0)) if notion.adds_up else None,
            )
            for (notion, unit, neighbors), group in groups.items()
        ),
    )


class Account:
    """An account of a ledger, from :meth:`Ledger.account`. It holds no numbers: it says what the ledger says now."""

    __slots__ = ("_database", "_name", "_number", "_secret")

    def __init__(self, database: LedgerDatabase, secret: bytes, *, number: int, name: str) -> None:
        self._database = database
        self._secret = secret
        self._number = number
        self._name = name

    @property
    def name(self) -> str:
        """The account's name."""
        return self._name

    def spend(
        self, guarantee: Guarantee, *, purpose: str, data: Any, randomness: Randomness, key: str | None = None
    ) -> Entry:
        """Debit the account, durably, **before** the noise is drawn; the receipt is the right to draw it.

        Parameters
        ----------
        guarantee
            What the release will guarantee. A notion that adds up debits its epsilon; the others are recorded.
        purpose
            What is released, for whom, in 1 to 500 characters.
        data
            The data set: a table of judgments, bytes, an array of numbers, or a text that stands for it.
            Only a keyed fingerprint of it is stored. The first spend binds it to this account for good.
        randomness
            What will draw the noise: ``Randomness.secure()``.
        key
            A name for this debit that the account has not seen, in 1 to 200 characters. A second spend with the same
            key is refused; :meth:`find` gives the first, also after a crash.

        Raises
        ------
        BudgetExceeded
            The account cannot cover it; nothing was spent.
        DataBound
            Another account spent on the same data before, or the guarantee is one that holds for a single release
            (the error of a MAP adversary) and was given for these data before; nothing was spent.
        SimulationRefused
            The guarantee or the randomness is simulated; nothing was spent.
        LedgerError
            The database failed. Its ``maybe_spent`` says whether the debit may stand; either way, release
            nothing.

        >>> import tempfile
        >>> from peerveil.core.guarantee import Guarantee
        >>> from peerveil.ledger import Ledger
        >>> from peerveil.core.randomness import Randomness
        >>> guarantee = Guarantee.pure_dp(0.4, unit="one review", neighbors="one review has another score")
        >>> secure = Randomness.secure()
        >>> with tempfile.TemporaryDirectory() as folder, Ledger.open(f"{folder}/budget.db") as ledger:
        ...     account = ledger.account("iclr", epsilon=1)
        ...     receipt = account.spend(guarantee, purpose="mean score", data="reviews 2026", randomness=secure)
        ...     print(receipt.serial, receipt.debit, account.remaining)
        1 0.4 0.6
        """
        guarantee = read_guarantee(guarantee)
        lane = require_secure(randomness)
        why, key = read_purpose(purpose), None if key is None else read_key(key)
        what = fingerprint(data, self._secret)
        debit = guarantee.exact_epsilon if guarantee.notion.adds_up else Fraction(0)
        assert debit is not None  # read_guarantee refused it
        texts = {"purpose": why, "words": str(guarantee), "lane": lane, "library": LIBRARY}  # here, not under the lock
        return self._debit(debit, guarantee=guarantee, key=key, fingerprint=what, **texts)

    def _debit(self, debit: Fraction, **fields: Any) -> Entry:
        """Look and write under one lock, in one transaction."""
        with self._database.writing("spend") as connection:
            state = read_account(connection, self._number, lock=True)
            refuse_overspending(self.name, debit, spent=state.spent, remaining=state.remaining)
            return append(connection, state, exact_debit=debit, **fields)

    # ---- what it says --------------------------------------------------------------------------------------

    @property
    def exact_epsilon(self) -> Fraction:
        """The budget."""
        return self._state().epsilon

    @property
    def exact_spent(self) -> Fraction:
        """What has been debited."""
        return self._state().spent

    @property
    def exact_remaining(self) -> Fraction:
        """What is left."""
        return self._state().remaining

    @property
    def epsilon(self) -> float:
        """The budget as a float, rounded up: the guarantee that the account keeps."""
        return printed(self.exact_epsilon, "up")

    @property
    def spent(self) -> float:
        """What has been debited as a float, rounded up."""
        return printed(self.exact_spent, "up")

    @property
    def remaining(self) -> float:
        """What is left as a float, rounded down."""
        return printed(self.exact_remaining, "down")

    @property
    def head(self) -> str:
        """``serial:digest`` of the last entry. Keep it outside the ledger for :meth:`Ledger.verify`."""
        return self._state().serial_and_head

    def entries(self, *, last: int | None = None) -> list[Entry]:
        """The account's entries in order, or the last few of them."""
        if last is not None and (type(last) is not int or last < 1):
            raise BadInput("last", got=last, want="how many entries, at least 1, or None for all")
        with self._database.reading() as connection:
            state = read_account(connection, self._number)
            after = 0 if last is None else max(0, state.entries - last)
            return list(read_entries(connection, state, after=after))

    def find(self, key: str) -> Entry | None:
        """The entry that was spent with this key, or None.

        It is the right to one draw: who finds it may draw only if nothing that was drawn for it was ever seen.
        """
        wanted = read_key(key)
        with self._database.reading() as connection:
            return find_entry(connection, read_account(connection, self._number), wanted)

    def statement(self) -> Statement:
        """What the releases guarantee together, unit by unit; ``str()`` of it is for a program chair."""
        with self._database.reading() as connection:
            state = read_account(connection, self._number)
            return make_statement(state, read_entries(connection, state))

    def to_dict(self) -> dict[str, Any]:
        """The account with its statement and all its entries as JSON values."""
        with self._database.reading() as connection:
            return account_dict(connection, read_account(connection, self._number))

    def _state(self) -> AccountState:
        with self._database.reading() as connection:
            return read_account(connection, self._number)

    def __len__(self) -> int:
        return self._state().entries

    def __bool__(self) -> bool:
        return True  # an account without entries is still an account

    def __repr__(self) -> str:
        return f"<Account {self._name!r} of the ledger at {self._database.shown}>"

    def __str__(self) -> str:
        return str(self.statement())


def account_dict(connection: Connection, state: AccountState) -> dict[str, Any]:
    """An account as JSON values: exact numbers as strings, and nothing that is secret."""
    entries = list(read_entries(connection, state))
    record = state.to_record()
    return {
        "remaining": str(state.remaining),
        "count": record.pop("entries"),
        "digest": record.pop("head"),
        **record,
        "statement": make_statement(state, entries).to_dict(),
        "data": list(dict.fromkeys(entry.fingerprint for entry in entries)),
        "entries": [entry.to_dict() for entry in entries],
    }
