"""A strategy is data: for every candidate assignment, how likely each decision is.

It is computed from what is public, may be published itself (the adversary is assumed to know it), and is executed once,
with the true assignment and secure randomness. What is published afterwards is the decision.

**What is promised, and the proof.** Let p_A be the posterior of assignment A given the scores, g(D|A) the table. Seeing
D, the best guess of a function c(A) of the assignment (the whole of it, or the writer of one review) is the value j
with the largest sum of p_A g(D|A) over A with c(A) = j, so it is right with probability
sum_D max_j sum_{A: c(A) = j} p_A g(D|A), and wrong with one minus that. No rule that sees only scores, functions, the
table and D does better (it is the Bayes rule). :attr:`Strategy.adversary_error` is that number, recomputed from the
table that is executed, never taken from a solver. The probability is over the assignment given the scores, and the
conference's coins; it rests on the model of scores being right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from peerveil.calibration.checks import numbers, secure_unless_given
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import whole
from peerveil.core.guarantee import Guarantee
from peerveil.core.result import Result, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from peerveil.core.randomness import Randomness
    from peerveil.ledger import Account

    Floats = NDArray[np.float64]

ADVERSARIES = ("paper", "assignment")
_ROUNDING = 1e-12  # sums of floats are good to this much; promises are rounded down by it


@dataclass(frozen=True, kw_only=True)
class Decision(Result):
    """What is published: which papers are accepted."""

    accepted: tuple[int, ...]
    papers: int

    def summary(self) -> str:
        """Which papers are accepted, counted from 0."""
        names = ", ".join(str(paper) for paper in self.accepted) or "none"
        return f"accepted of {self.papers} papers: {names}"

    def draw(self, ax: Axes) -> None:
        """A bar a paper."""
        from peerveil.calibration.figures import draw_decision

        draw_decision(ax, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """Decision probabilities for each candidate assignment.

    Attributes
    ----------
    assignments : tuple of tuples of int
        Each gives the reviewer of every review, paper by paper.
    decisions : tuple of tuples of int
        Each is a set of accepted papers.
    posterior : array
        How likely each assignment is once the scores are known.
    errors : array (assignments, decisions)
        The conference's error of each decision under each assignment.
    table : array (assignments, decisions)
        How likely each decision is made under each assignment; rows add up to 1.
    adversary : str
        ``"paper"``: guesses who wrote one review; ``"assignment"``: guesses all of it.
    conference_error, adversary_error : float
        What the table achieves. For ``"paper"``, the adversary error is that of the review that is guessed best.
    review_errors : array
        The adversary's error for every review (one number for ``"assignment"``).
    papers : int
        How many papers are decided together; the last accepted one's place if it is not said.
    """

    assignments: tuple[tuple[int, ...], ...]
    decisions: tuple[tuple[int, ...], ...]
    posterior: Floats = field(repr=False)
    errors: Floats = field(repr=False)
    table: Floats = field(repr=False)
    adversary: str = "paper"
    unit: str = "the writer of one review (chosen before the decision is known)"
    papers: int = 0
    conference_error: float = field(init=False)
    adversary_error: float = field(init=False)
    review_errors: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.adversary not in ADVERSARIES:
            raise BadInput("adversary", got=self.adversary, want="'paper' or 'assignment'")
        shape = len(self.assignments), len(self.decisions)
        table = numbers("table", self.table)
        posterior, errors = numbers("posterior", self.posterior), numbers("errors", self.errors)
        if table.shape != shape or errors.shape != shape or posterior.shape != shape[:1]:
            raise BadInput(
                "table", got=Verbatim(f"shape {table.shape}"), want=f"shape {shape}, as posterior and errors"
            )
        if (table < 0).any() or (np.abs(table.sum(axis=1) - 1) > 1e-9).any():
            raise BadInput("table", got=Verbatim("rows that are no probabilities"), want="rows that add up to 1")
        if (posterior < 0).any() or abs(float(posterior.sum()) - 1) > 1e-9:
            raise BadInput("posterior", got=Verbatim("no probabilities"), want="probabilities that add up to 1")
        named = 1 + max((paper for decision in self.decisions for paper in decision), default=-1)
        if self.papers and whole(self.papers, "papers", 1) < named:
            raise BadInput("papers", got=self.papers, want=f"at least {named}: a decision accepts paper {named - 1}")
        caught = guess_errors(self.assignments, posterior, table, self.adversary)
        for name, value in (
            ("table", table),
            ("posterior", posterior),
            ("errors", errors),
            ("conference_error", float((posterior[:, None] * table * errors).sum())),
            ("adversary_error", float(caught.min())),
            ("review_errors", caught),
            ("papers", self.papers or named),
        ):
            object.__setattr__(self, name, value)

    @property
    def guarantee(self) -> Guarantee:
        """The promise, in words; proved above."""
        return Guarantee.map_error(
            max(0.0, math.floor((self.adversary_error - _ROUNDING) * 1e12) / 1e12),
            unit=self.unit,
            neighbors=f"{len(self.assignments)} candidate assignments, likely as the published scores make them "
            "under the stated miscalibration functions and noise",
        )

    @property
    def privacy_loss(self) -> float:
        """The largest log-likelihood ratio of a decision between two candidate assignments; often infinite."""
        high, low = self.table.max(axis=0), self.table.min(axis=0)
        seen = high > 0
        if (low[seen] == 0).any():
            return math.inf
        return float(np.log(high[seen] / low[seen]).max())

    def index(self, assignment: int | Sequence[int]) -> int:
        """Which row of the table an assignment is: given by its number, or by itself."""
        if isinstance(assignment, int | np.integer) and not isinstance(assignment, bool):
            if not 0 <= assignment < len(self.assignments):
                want = f"a number from 0 to {len(self.assignments) - 1}, or an assignment"
                raise BadInput("assignment", got=assignment, want=want)
            return int(assignment)
        try:
            wanted = tuple(int(reviewer) for reviewer in assignment)  # type: ignore[union-attr]
            return self.assignments.index(wanted)
        except (TypeError, ValueError):
            want = f"one of the {len(self.assignments)} candidate assignments, such as {self.assignments[0]}"
            raise BadInput("assignment", got=assignment, want=want) from None

    def identity(self, true: int) -> Floats:
        """What a ledger knows these papers by: the same for every strategy of the same scores and true assignment."""
        return np.concatenate([self.posterior, np.asarray(self.assignments[true], dtype=np.float64)])

    def decide(
        self, assignment: int | Sequence[int], *, randomness: Randomness | None = None, account: Account | None = None
    ) -> Decision:
        """Draw the decision for the true assignment: the only step that sees it, and the only random one.

        Parameters
        ----------
        assignment
            The true one: its number, or itself.
        randomness
            Secure unless given.
        account
            An account of a ledger. It records the decision before anything is drawn, and refuses a second one.
        """
        randomness = secure_unless_given(randomness)
        true = self.index(assignment)
        guarantee = randomness.stamp(self.guarantee)
        if account is not None:
            account.spend(guarantee, purpose="a decision", data=self.identity(true), randomness=randomness)
        drawn = int(randomness.choose(self.table[true])[0])
        return Decision(guarantee=guarantee, accepted=self.decisions[drawn], papers=self.papers)

    def summary(self) -> str:
        """The two errors in one line."""
        return f"conference error {self.conference_error:.4f}, adversary error {self.adversary_error:.4f} ({self.unit})"

    def __str__(self) -> str:
        return f"{self.summary()}\n{self.guarantee}"

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values. Nothing in it depends on the true assignment."""
        names = ("assignments", "decisions", "posterior", "errors", "table", "adversary", "unit", "papers")
        own = tuple(one.name for one in fields(self) if one.name == "keep")  # of a pair
        return {name: plain(getattr(self, name)) for name in (*names, *own)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The strategy that :meth:`to_dict` wrote; its errors are computed anew."""
        names = {"assignments", "decisions", "posterior", "errors", "table", "adversary", "unit"}
        if not isinstance(data, Mapping) or not names <= set(data):
            raise BadInput("data", got=data, want="what Strategy.to_dict() returns")
        given: dict[str, Any] = {name: data[name] for name in names}
        for name in ("assignments", "decisions"):
            given[name] = tuple(tuple(row) for row in data[name])
        if any(one.name == "keep" for one in fields(cls)):
            if "keep" not in data:
                raise BadInput("data", got=Verbatim("no keep"), want="what PairStrategy.to_dict() returns")
            given["keep"] = tuple(data["keep"])
        return cls(papers=data.get("papers", 0), **given)


def guess_errors(
    assignments: Sequence[Sequence[int]] | NDArray[np.int64], posterior: Floats, table: Floats, adversary: str
) -> Floats:
    """The MAP adversary's error for every review, or for the whole assignment; see the proof above."""
    joint = posterior[:, None] * table
    if adversary == "assignment":
        return np.array([1.0 - joint.max(axis=0).sum()]).clip(0.0)
    who = np.asarray(assignments)
    found = np.empty(who.shape[1])
    for review in range(who.shape[1]):
        held = (np.arange(who[:, review].max() + 1)[:, None] == who[:, review]).astype(np.float64)
        found[review] = 1.0 - (held @ joint).max(axis=0).sum()  # a reviewer who never wrote it has row 0
    return found.clip(0.0)
