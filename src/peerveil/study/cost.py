"""What a run took from an account, beside what others had taken before."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from peerveil.core.exact import printed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from peerveil.ledger import Account, Entry


@dataclass(frozen=True)
class Cost:
    """One account, as it stood when the run had made its last debit.

    Attributes
    ----------
    before : fractions.Fraction
        What others had spent until then; ``before_on_these_data`` is the part of it on the same tables.
    ours : fractions.Fraction
        What this run spent.
    """

    account: str
    budget: Fraction
    before: Fraction
    before_on_these_data: Fraction
    ours: Fraction

    @property
    def remaining(self) -> Fraction:
        """What was left."""
        return self.budget - self.before - self.ours

    def row(self) -> list[str]:
        """For the report: account, whole budget, spent before, by this study, remaining; rounded to the safe side."""
        figures = ((self.budget, "down"), (self.before, "up"), (self.ours, "up"), (self.remaining, "down"))
        return [self.account, *(f"{printed(amount, side):g}" for amount, side in figures)]  # type: ignore[arg-type]

    def about_before(self) -> str:
        """Whether what had gone before went for the same data."""
        if not self.before:
            return f"Nothing had been spent from {self.account} before."
        same = printed(self.before_on_these_data, "up")
        before = f"{printed(self.before, 'up'):g}"
        if self.before_on_these_data == self.before:
            return (
                f"The {before} spent before from {self.account} went for the same data: for everybody in them it adds up "
                f"with what this study spent to {printed(self.before + self.ours, 'up'):g}."
            )
        part = f"{same:g} of it" if self.before_on_these_data else "none of it"
        return (
            f"Of the {before} spent before from {self.account}, {part} went for the same data; the rest for other data."
        )


def cost_of(account: Account, keys: Collection[str]) -> Cost:
    """What the run whose debits have these keys took, and what others had taken until its last debit.

    What is spent later does not change the answer, so that a report that is made again says the same.
    """
    entries = list(account.entries())
    own = [place for place, entry in enumerate(entries) if entry.key in keys]
    earlier = entries[: own[-1]] if own else entries
    others = [entry for entry in earlier if entry.key not in keys]
    tables = {entries[place].fingerprint for place in own}
    return Cost(
        account=account.name,
        budget=account.exact_epsilon,
        before=_sum(others),
        before_on_these_data=_sum(entry for entry in others if entry.fingerprint in tables),
        ours=_sum(entries[place] for place in own),
    )


def _sum(entries: Iterable[Entry]) -> Fraction:
    return sum((entry.exact_debit for entry in entries), Fraction(0))
