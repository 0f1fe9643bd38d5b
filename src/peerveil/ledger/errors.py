"""What a ledger refuses, and how it says what became of the budget.

>>> from fractions import Fraction
>>> print(BudgetExceeded("iclr", requested=Fraction("0.5"), remaining=Fraction("0.3")))
account 'iclr': requested 0.5, remaining 0.3, 0.2 too much; nothing was spent
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from peerveil.core.errors import PeerveilError
from peerveil.core.exact import printed, words

_SHORT_DENOMINATOR = 1_000_000


class LedgerError(PeerveilError):
    """The ledger could not be opened, read or written.

    Attributes
    ----------
    maybe_spent : bool
        False: nothing was spent, it is safe to try again. True: the connection broke while the debit was
        being committed, so it may stand in the ledger. Treat it as spent, and release nothing for it.
    """

    def __init__(self, message: str, *, maybe_spent: bool = False) -> None:
        self.maybe_spent = maybe_spent
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_ledger_error, (type(self), str(self), self.maybe_spent)


def _rebuild_ledger_error(kind: type[LedgerError], message: str, maybe_spent: bool) -> LedgerError:
    return kind(message, maybe_spent=maybe_spent)


class SimulationRefused(PeerveilError):
    """A simulated result can never be entered in a ledger; nothing was written."""


class BudgetExceeded(PeerveilError):
    """A spend that the account cannot cover; nothing was spent.

    Attributes
    ----------
    account : str
        The name of the account.
    requested, remaining, difference : float
        What was asked for (rounded up), what is left (rounded down), and how much is missing (rounded up).
    exact_requested, exact_remaining, exact_difference : fractions.Fraction
        The same, exactly.
    """

    def __init__(self, account: str, *, requested: Fraction, remaining: Fraction) -> None:
        self.account = account
        self.exact_requested = requested
        self.exact_remaining = remaining
        self.exact_difference = requested - remaining
        super().__init__(
            f"account {account!r}: requested {safe_words(requested, 'up')}, "
            f"remaining {safe_words(remaining, 'down')}, "
            f"{safe_words(self.exact_difference, 'up')} too much; nothing was spent"
        )

    @property
    def requested(self) -> float:
        """The epsilon that was asked for, rounded up."""
        return printed(self.exact_requested, "up")

    @property
    def remaining(self) -> float:
        """The epsilon that is left, rounded down."""
        return printed(self.exact_remaining, "down")

    @property
    def difference(self) -> float:
        """The epsilon that is missing, rounded up."""
        return printed(self.exact_difference, "up")

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_exceeded, (type(self), self.account, self.exact_requested, self.exact_remaining)


def _rebuild_exceeded(
    kind: type[BudgetExceeded], account: str, requested: Fraction, remaining: Fraction
) -> BudgetExceeded:
    return kind(account, requested=requested, remaining=remaining)


class DataBound(PeerveilError):
    """The data belong to another account, or were decided already; nothing was spent.

    Attributes
    ----------
    account : str
        The account that was asked to spend.
    owner : str
        The account that the data belong to.
    """

    def __init__(self, message: str, *, account: str, owner: str) -> None:
        self.account = account
        self.owner = owner
        super().__init__(message)

    @classmethod
    def elsewhere(cls, account: str, owner: str) -> DataBound:
        """Another account spent on these data first."""
        message = (
            f"account {account!r}: these data belong to account {owner!r}, which spent on them first; nothing was "
            f"spent. Spend from account {owner!r}: all releases about the same data add up in one budget"
        )
        return cls(message, account=account, owner=owner)

    @classmethod
    def decided(cls, account: str, serial: int, when: str) -> DataBound:
        """A guarantee that holds for one release only was given for these data before."""
        message = (
            f"account {account!r}: these data were decided on {when} (entry {serial}); nothing was drawn. Publish that "
            "decision: two decisions of the same reviews together say more about who wrote what than either "
            "guarantee allows"
        )
        return cls(message, account=account, owner=account)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_bound, (type(self), str(self), self.account, self.owner)


def _rebuild_bound(kind: type[DataBound], message: str, account: str, owner: str) -> DataBound:
    return kind(message, account=account, owner=owner)


def safe_words(value: Fraction, rounding: Literal["up", "down"]) -> str:
    """An exact number as people write it, and rounded in the stated direction where it is too long for that.

    >>> safe_words(Fraction(1, 3), "down"), safe_words(Fraction(1, 3) + Fraction(1, 10**9 + 7), "down")
    ('1/3', '0.3333333343333333')
    """
    decimal = printed(value, rounding)
    if value.denominator < _SHORT_DENOMINATOR or Fraction(repr(decimal)) == value:
        return words(value)
    return repr(decimal)
