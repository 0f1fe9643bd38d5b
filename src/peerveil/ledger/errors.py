"""What a ledger refuses, and how it says what became of the budget.

>>> from fractions import Fraction
>>> print(BudgetExceeded("iclr", requested=Fraction("0.5"), remaining=Fraction("0.3")))
account 'iclr': requested 0.5, remaining 0.3, 0.2 too much; nothing was spent
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from peerveil.core.errors import PeerveilError
from peerveil.core.exact import printed, words

if TYPE_CHECKING:
    from fractions import Fraction


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
        return partial(type(self), str(self), maybe_spent=self.maybe_spent), ()


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
        self.exact_requested, self.exact_remaining = requested, remaining
        self.exact_difference = requested - remaining
        self.requested, self.remaining = printed(requested, "up"), printed(remaining, "down")
        self.difference = printed(self.exact_difference, "up")
        super().__init__(
            f"account {account!r}: requested {words(requested, 'up')}, remaining {words(remaining, 'down')}, "
            f"{words(self.exact_difference, 'up')} too much; nothing was spent"
        )

    def __reduce__(self) -> tuple[object, ...]:
        exact = {"requested": self.exact_requested, "remaining": self.exact_remaining}
        return partial(type(self), self.account, **exact), ()


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
        return partial(type(self), str(self), account=self.account, owner=self.owner), ()
