"""What an account's releases guarantee together, unit by unit, in words."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from peerveil.core.exact import printed, words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from peerveil.core.guarantee import Notion
    from peerveil.ledger.entry import Entry
    from peerveil.ledger.records import AccountState

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
        return {
            "notion": self.notion.value,
            "unit": self.unit,
            "neighbors": self.neighbors,
            "releases": self.releases,
            "data_sets": self.data_sets,
            "epsilon": None if self.exact_epsilon is None else str(self.exact_epsilon),
        }

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
    data_sets = set()
    for entry in entries:
        guarantee = entry.guarantee
        data_sets.add(entry.fingerprint)
        groups.setdefault((guarantee.notion, guarantee.unit, guarantee.neighbors), []).append(entry)
    return Statement(
        account=state.name,
        exact_epsilon=state.epsilon,
        exact_spent=state.spent,
        data_sets=len(data_sets),
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
