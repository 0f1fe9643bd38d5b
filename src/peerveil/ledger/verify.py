"""Whether a ledger is what it was when it was written.

Noticed: an entry that was changed, removed, reordered or inserted, a changed total, count, name or budget, a
removed account, data that were moved to another account or that two accounts spent on. Not noticed from the
inside: somebody who can rewrite the whole database can also compute a whole new chain, or put back an older copy.
Keep ``account.head`` elsewhere (in a mail, in the minutes): with it, that is noticed too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, func, select

from peerveil.core.errors import BadInput
from peerveil.ledger.database import accounts, bindings, entries, header
from peerveil.ledger.entry import Entry
from peerveil.ledger.records import AccountState, entry_from_row, entry_rows
from peerveil.ledger.refusals import LedgerError


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The outcome of a check: true in a condition if nothing is wrong.

    Attributes
    ----------
    problems : tuple[str, ...]
        One sentence for each thing that is wrong.
    accounts, entries : int
        How much was checked.
    heads : dict[str, str]
        The last ``serial:digest`` of each account, to be kept outside the ledger.
    """

    problems: tuple[str, ...]
    accounts: int
    entries: int
    heads: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        checked = f"entries checked: {self.entries}, accounts: {self.accounts}"
        if self.ok:
            return f"{checked}; every digest and every total is right"
        return "\n".join([f"{checked}; problems: {len(self.problems)}", *(f"- {problem}" for problem in self.problems)])


def verify_database(connection: Connection, ledger: str, known: Mapping[str, str] | None) -> Verification:
    """Check every account of a ledger, in one consistent view of it."""
    check = _Check(ledger, read_heads(known))
    rows = connection.execute(select(accounts).order_by(accounts.c.number)).all()
    written = connection.execute(select(header.c.accounts)).scalar_one()
    numbers = [row.number for row in rows]
    if numbers != list(range(1, written + 1)):
        check.problems.append(f"{written} accounts were opened, but the ledger holds numbers {numbers}")
    for row in rows:
        try:
            state = AccountState.from_row(row)
        except LedgerError as error:
            check.problems.append(str(error))
            continue
        check.account(state, ((r.serial, entry_from_row(r, state.name)) for r in entry_rows(connection, state.number)))
    check.problems += _check_bindings(connection, check.owners)
    strays = connection.execute(
        select(func.count()).where(entries.c.account.not_in(numbers) | (entries.c.serial < 1))
    ).scalar_one()
    if strays:
        check.problems.append(f"{strays} entries belong to no account")
    return check.result(len(rows))


def verify_export(data: Mapping[str, Any], *, known: Mapping[str, str] | None = None) -> Verification:
    """Check what :meth:`Ledger.to_dict` wrote, without the ledger: for whoever receives the exported JSON."""
    heads = read_heads(known)
    try:
        check = _Check(data["ledger"], heads)
        for record in data["accounts"]:
            state = AccountState.from_record({**record, "entries": record["count"], "head": record["digest"]})
            check.account(state, ((item["serial"], _exported(item)) for item in record["entries"]))
            named = dict.fromkeys(item["fingerprint"] for item in record["entries"])
            if record["data"] != list(named):
                check.problems.append(f"account {state.name!r}: the data sets listed are not those of its entries")
        numbers = [record["number"] for record in data["accounts"]]
    except (KeyError, TypeError, ValueError, ArithmeticError):
        raise BadInput("data", got=data, want="what Ledger.to_dict() returns") from None
    if numbers != list(range(1, len(numbers) + 1)):
        check.problems.append(f"the export holds accounts number {numbers}")
    return check.result(len(numbers))


def _exported(item: Mapping[str, Any]) -> Entry | None:
    try:
        entry = Entry.from_dict(item)
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return None
    return entry if entry.to_dict() == item else None


@dataclass
class _Check:
    """What was found so far; ``owners`` gathers which account has which data."""

    ledger: str
    known: Mapping[str, tuple[int, str]]
    heads: dict[str, str] = field(default_factory=dict)
    entries: int = 0
    problems: list[str] = field(default_factory=list)
    owners: dict[str, str] = field(default_factory=dict)

    def result(self, count: int) -> Verification:
        """The outcome, after all accounts."""
        gone = [f"account {name!r}, whose head was kept, is gone" for name in self.known if name not in self.heads]
        problems = (*self.problems, *gone)
        return Verification(problems=problems, accounts=count, entries=self.entries, heads=self.heads)

    def account(self, state: AccountState, chain: Iterable[tuple[int, Entry | None]]) -> None:
        """Walk one account's chain from its opening to its head."""
        name, problems = f"account {state.name!r}", self.problems
        known_serial, known_head = self.known.get(state.name, (None, None))
        digest = state.opening_seal(self.ledger)
        known_digest = digest if known_serial == 0 else None
        total, keys, last = Fraction(0), dict[str, int](), 0
        for serial, entry in chain:
            self.entries += 1
            where = f"{name}, entry {serial}"
            if serial != last + 1:
                problems.append(f"{name}: entry {last + 1} is missing, entry {serial} stands in its place")
            last = serial
            if entry is None:
                problems.append(f"{where} was changed: it cannot be read")
                continue
            earlier = serial if entry.key is None else keys.setdefault(entry.key, serial)
            owner = self.owners.setdefault(entry.fingerprint, state.name)
            owed = entry.exact_epsilon if entry.notion.adds_up else Fraction(0)
            continues = entry.previous == digest
            wrong = {
                "was changed: its digest does not fit its fields": entry.digest != entry.true_digest(),
                "does not continue what stands before it: changed, removed, reordered or inserted": not continues,
                f"has the key of entry {earlier}: what has a key is debited once": earlier != serial,
                f"spends on data of account {owner!r}: the budgets of both add up for these data": owner != state.name,
                f"debits {entry.exact_debit}, its guarantee says {owed}": entry.exact_debit != owed,
            }
            problems += [f"{where} {problem}" for problem, found in wrong.items() if found]
            digest = entry.digest
            total += entry.exact_debit
            if serial == known_serial:
                known_digest = digest
        wrong = {
            f"{state.entries} entries were written, the last one here is number {last}": state.entries != last,
            "its last digest is not that of its last entry, or its name or budget was changed": state.head != digest,
            f"its row says {state.spent} spent, its entries add up to {total}": state.spent != total,
            f"{total} is spent, more than its budget of {state.epsilon}": total > state.epsilon,
            f"entry {known_serial} is not the one whose digest was kept": known_digest != known_head,
        }
        problems += [f"{name}: {problem}" for problem, found in wrong.items() if found]
        self.heads[state.name] = state.serial_and_head


def _check_bindings(connection: Connection, owners: Mapping[str, str]) -> list[str]:
    """The table of bindings must say what the entries say, which the chains cover."""
    query = select(bindings.c.fingerprint, accounts.c.name).outerjoin(accounts, bindings.c.account == accounts.c.number)
    written = {row.fingerprint: row.name for row in connection.execute(query)}
    template = "the table of bindings gives data {}... to account {!r}, its entries to account {!r}"
    return [
        f"account {owners.get(data, written.get(data))!r}: {template.format(data[:8], written.get(data), owners.get(data))}"
        for data in sorted({*owners, *written})
        if owners.get(data) != written.get(data)
    ]


def read_heads(known: Mapping[str, str] | None) -> dict[str, tuple[int, str]]:
    """The kept ``serial:digest`` of each account, taken apart."""
    result: dict[str, tuple[int, str]] = {}
    for name, head in (known or {}).items():
        serial, colon, digest = str(head).partition(":")
        if not (colon and serial.isascii() and serial.isdigit() and len(digest) == 64):
            raise BadInput(f"known[{name!r}]", got=head, want="an account's head, serial:digest")
        result[name] = int(serial), digest
    return result
