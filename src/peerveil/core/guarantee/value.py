"""The guarantee itself: an exact value that composes without rounding."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

from peerveil.core.errors import BadInput
from peerveil.core.exact import Number, exact, exact_positive, printed, whole, words
from peerveil.core.guarantee.notion import (
    NOT_PRIVATE_MARK,
    ONE_ANSWER,
    SIMULATION_MARK,
    TAKES_EPSILON,
    DoesNotCompose,
    Notion,
)
from peerveil.core.guarantee.wording import rounded, short_sentence, whole_sentence

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Guarantee:
    """A frozen guarantee: notion, parameters, unit protected, neighbors in one sentence.

    Parameters
    ----------
    notion
        One of :class:`Notion`, or its printed name.
    epsilon
        The bound on the log-likelihood ratio. A float is read as its printed decimal. ``None`` says that the
        method ran without privacy.
    gap
        One-sided DP only: how far apart in time two events may be and still be covered.
    gap_unit
        The unit of ``gap`` in words.
    error
        MAP-adversary error only: the best adversary's guess is wrong at least this often.
    unit
        What is protected: "one review", "everything one person reports", "the pair of two comments".
    neighbors
        In one sentence: which two inputs are hard to distinguish.
    simulated
        True for what was drawn by a simulation. Use :meth:`peerveil.Randomness.stamp` to set it.
    assumption
        What must have happened for the guarantee to hold, where peerveil did not do it itself: "these answers were
        randomized before they were collected". ``None`` if nothing is assumed.

    Notes
    -----
    Composition (proofs: a likelihood ratio of independent draws is the product of their ratios, so epsilons add;
    if a step between neighbors can change t of several disjoint sets of people, at most t ratios differ from 1, so the
    t largest epsilons add up; b steps from neighbor to neighbor multiply at most b ratios):

    - ``a + b``: both were computed **from the same data** (sequential).
    - ``Guarantee.parallel(a, b, touched=1)``: each from **disjoint people**.
    - ``a.group(b)``: the same guarantee read for b units at once.

    What is composed holds if all that any part assumes is true: assumptions are joined.
    """

    notion: Notion
    exact_epsilon: Fraction | None
    exact_gap: Fraction | None
    gap_unit: str
    exact_error: Fraction | None
    unit: str
    neighbors: str
    simulated: bool
    assumption: str | None

    def __init__(
        self,
        notion: Notion | str,
        *,
        epsilon: Number | None = None,
        gap: Number | None = None,
        gap_unit: str = "seconds",
        error: Number | None = None,
        unit: str,
        neighbors: str,
        simulated: bool = False,
        assumption: str | None = None,
    ) -> None:
        try:
            notion = Notion(notion)
        except ValueError:
            names = ", ".join(repr(n.value) for n in Notion)
            raise BadInput("notion", got=notion, want=f"one of {names}") from None
        texts: dict[str, object] = {"unit": unit, "neighbors": neighbors, "gap_unit": gap_unit}
        for name, text in (texts if assumption is None else texts | {"assumption": assumption}).items():
            if not isinstance(text, str) or not text.strip(" .") or not text.isprintable():
                raise BadInput(name, got=text, want="a short text on one line")
        if not isinstance(simulated, bool):
            raise BadInput("simulated", got=simulated, want="True or False")
        if epsilon is not None and notion not in TAKES_EPSILON:
            raise BadInput("epsilon", got=epsilon, want=f"None: {notion.value} is given by error=")
        if (gap is not None) is not (notion is Notion.ONE_SIDED_DP):
            raise BadInput("gap", got=gap, want="a number for one-sided DP, None for every other notion")
        if (error is not None) is not (notion is Notion.MAP_ERROR):
            raise BadInput("error", got=error, want="a probability for MAP-adversary error, None otherwise")
        values: dict[str, object] = {
            "notion": notion,
            "exact_epsilon": None if epsilon is None else read_epsilon(epsilon, or_none=True),
            "exact_gap": None if gap is None else exact_positive(gap, "gap"),
            "gap_unit": "seconds" if gap is None else gap_unit.strip(),
            "exact_error": None if error is None else _probability(error),
            "unit": unit.strip(),
            "neighbors": neighbors.strip().rstrip("."),
            "simulated": simulated,
            "assumption": None if assumption is None else assumption.strip().rstrip("."),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    # ---- the five notions ---------------------------------------------------------------------------------------

    @classmethod
    def pure_dp(cls, epsilon: Number | None, *, unit: str, neighbors: str) -> Guarantee:
        """Central differential privacy without delta: P[out | x] <= e^epsilon P[out | x'] both ways."""
        return cls(Notion.PURE_DP, epsilon=epsilon, unit=unit, neighbors=neighbors)

    @classmethod
    def local_dp(
        cls,
        epsilon: Number | None,
        *,
        unit: str = "everything one person reports",
        neighbors: str = "one person holds any other data",
    ) -> Guarantee:
        """Noise is added on the person's own device; every report may be seen by everybody."""
        return cls(Notion.LOCAL_DP, epsilon=epsilon, unit=unit, neighbors=neighbors)

    @classmethod
    def local_attribute_dp(
        cls,
        epsilon: Number | None,
        *,
        unit: str = ONE_ANSWER,
        neighbors: str = "one person gives another answer to one task and the same answers to all others; "
        "which tasks were answered is not hidden",
    ) -> Guarantee:
        """Local DP for each answer by itself; k answers of a person add up to ``group(k)``."""
        return cls(Notion.LOCAL_ATTRIBUTE_DP, epsilon=epsilon, unit=unit, neighbors=neighbors)

    @classmethod
    def one_sided_dp(
        cls, epsilon: Number | None, *, gap: Number, gap_unit: str = "seconds", unit: str, neighbors: str
    ) -> Guarantee:
        """P[out | sensitive] <= e^epsilon P[out | harmless neighbor]; nothing is guaranteed in the other direction."""
        return cls(Notion.ONE_SIDED_DP, epsilon=epsilon, gap=gap, gap_unit=gap_unit, unit=unit, neighbors=neighbors)

    @classmethod
    def map_error(cls, error: Number, *, unit: str, neighbors: str) -> Guarantee:
        """The best guess of an adversary who knows the protocol and the prior is wrong at least this often."""
        return cls(Notion.MAP_ERROR, error=error, unit=unit, neighbors=neighbors)

    # ---- parameters as floats -----------------------------------------------------------------------------------

    @property
    def epsilon(self) -> float | None:
        """Epsilon as a float, rounded up; ``None`` where there is none."""
        return None if self.exact_epsilon is None else printed(self.exact_epsilon, "up")

    @property
    def gap(self) -> float | None:
        """The covered gap as a float, rounded down."""
        return None if self.exact_gap is None else printed(self.exact_gap, "down")

    @property
    def error(self) -> float | None:
        """The adversary's least error as a float, rounded down."""
        return None if self.exact_error is None else printed(self.exact_error, "down")

    @property
    def private(self) -> bool:
        """Whether anything is guaranteed at all: not for ``epsilon=None``, and not in a simulation."""
        return self.mark is None

    @property
    def mark(self) -> str | None:
        """The words that must stand beside every result: ``None`` for a private one."""
        if self.simulated:
            return SIMULATION_MARK
        if self.notion in TAKES_EPSILON and self.exact_epsilon is None:
            return NOT_PRIVATE_MARK
        return None

    # ---- composition --------------------------------------------------------------------------------------------

    def __add__(self, other: Guarantee) -> Guarantee:
        """Both results come from the same data: epsilons add up exactly."""
        if not isinstance(other, Guarantee):
            return NotImplemented
        if self.notion is other.notion is Notion.MAP_ERROR:
            raise DoesNotCompose(
                "MAP-adversary errors of two results from the same data do not add up: an adversary who sees both "
                "must be computed anew"
            )
        return _composed((self, other), 2, "added")

    def __radd__(self, other: object) -> Guarantee:
        return self if other == 0 else NotImplemented  # sum() starts from 0

    @staticmethod
    def parallel(*guarantees: Guarantee, touched: int | np.integer[Any]) -> Guarantee:
        """Each result comes from the data of *disjoint people*, split by what is public.

        Parameters
        ----------
        guarantees
            One for each set of people.
        touched
            How many of the sets one step between neighbors can change: 1 if it changes one person's data, 2 if two
            people exchange something. The ``touched`` largest epsilons add up. It has no default, since forgetting
            the second person would be a false guarantee.
        """
        if not guarantees or not all(isinstance(g, Guarantee) for g in guarantees):
            raise BadInput("guarantees", got=guarantees, want="one or more guarantees, each as an argument of its own")
        whole(touched, "touched", 1, want="how many of the sets one step can change, at least 1")
        if len(guarantees) > 1 and all(g.notion is Notion.MAP_ERROR for g in guarantees):
            raise DoesNotCompose(
                "MAP-adversary errors do not compose over people either: their secrets may depend on each other, so "
                "that what is published of one tells about another. Compute the adversary for all of them"
            )
        return _composed(guarantees, int(touched), "combined in parallel")

    def group(self, size: int | np.integer[Any], *, unit: str | None = None, neighbors: str | None = None) -> Guarantee:
        """The same guarantee for ``size`` units at once: epsilon is multiplied by ``size``."""
        whole(size, "size", 1, want="a whole number of units, at least 1")
        if self.notion is Notion.MAP_ERROR:
            raise DoesNotCompose("a MAP-adversary error does not extend to groups: compute it for the group")
        if size == 1 and unit is None and neighbors is None:
            return self
        steps = f"at most {size} steps, each of this kind: {self.neighbors}"
        return self._with(
            epsilon=None if self.exact_epsilon is None else self.exact_epsilon * int(size),
            unit=unit or f"any {size} of this: {self.unit}",
            neighbors=neighbors or steps,
        )

    def _with(self, **changes: Any) -> Guarantee:
        """A copy with other parameters."""
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("epsilon", "gap", "error"):
            values[name] = values.pop(f"exact_{name}")
        return Guarantee(**(values | changes))

    def as_simulated(self) -> Guarantee:
        """The same guarantee, marked as a simulation (for which it does not hold)."""
        return self._with(simulated=True)

    def assuming(self, assumption: str) -> Guarantee:
        """The same guarantee, on a condition that peerveil cannot check: words that follow "if".

        >>> print(Guarantee.local_dp(1).assuming("the app drew with epsilon 1"))  # doctest: +ELLIPSIS
        If the app drew with epsilon 1: local differential privacy with epsilon 1 for everything one person reports: ...
        """
        further = self._with(assumption=assumption)
        return self._with(assumption=_all_of(self, further))

    # ---- as words and as data -----------------------------------------------------------------------------------

    def __str__(self) -> str:
        return self._marked(whole_sentence(self))

    @property
    def short(self) -> str:
        """One plain sentence: what is guaranteed about what, with its mark. ``str()`` also says which cases are neighbors.

        >>> guarantee = Guarantee.pure_dp(1, unit="one review", neighbors="one review has another score")
        >>> print(guarantee.short)  # doctest: +NORMALIZE_WHITESPACE
        Differential privacy with epsilon 1 for one review: a 50:50 guess between two neighboring cases is right at most
        73.2% of the time.
        """
        return self._marked(short_sentence(self))

    @property
    def verdict(self) -> str:
        """How much that is, in a few words for a table: up to epsilon 2 protected, up to 5 weakly, beyond in effect not.

        >>> Guarantee.pure_dp(28, unit="all reviews", neighbors="one reviewer wrote others").verdict
        'in effect not protected (epsilon 28)'
        """
        if self.mark is not None:
            return f"not protected ({self.mark})"
        if self.exact_error is not None:
            return f"the best guess is wrong at least {rounded(100 * self.exact_error, math.floor)}% of the time"
        assert self.exact_epsilon is not None
        sides = ", one way" if self.notion is Notion.ONE_SIDED_DP else ""
        how = "" if self.exact_epsilon <= 2 else "weakly " if self.exact_epsilon <= 5 else "in effect not "
        supposed = "" if self.assumption is None else f", if {self.assumption}"
        return f"{how}protected (epsilon {words(self.exact_epsilon)}{sides}){supposed}"

    def _marked(self, sentence: str) -> str:
        if self.assumption is not None:
            sentence = f"If {self.assumption}: {sentence[0].lower()}{sentence[1:]}"
        return f"[{SIMULATION_MARK}] {sentence}" if self.simulated else sentence

    def __repr__(self) -> str:
        shown = {name: value for name, value in self.to_dict().items() if value not in (None, False)}
        if self.exact_gap is None:
            del shown["gap_unit"]
        rest = (f"{name}={value!r}" for name, value in shown.items() if name != "notion")
        return f"Guarantee({', '.join([repr(self.notion.value), *rest])})"

    def to_dict(self) -> dict[str, str | bool | None]:
        """Everything, exactly, as JSON values; :meth:`from_dict` reads it back."""
        numbers = {"epsilon": self.exact_epsilon, "gap": self.exact_gap, "error": self.exact_error}
        # without an assumption the record is what it was before there were any: ledgers that exist stay readable
        assumed = {} if self.assumption is None else {"assumption": self.assumption}
        return {
            "notion": self.notion.value,
            **{name: None if value is None else str(value) for name, value in numbers.items()},
            "gap_unit": self.gap_unit,
            "unit": self.unit,
            "neighbors": self.neighbors,
            "simulated": self.simulated,
            **assumed,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Guarantee:
        """The guarantee that :meth:`to_dict` wrote."""
        names = {"notion", "epsilon", "gap", "error", "gap_unit", "unit", "neighbors", "simulated"}
        # nothing may be left out, the mark least of all
        if not isinstance(data, Mapping) or set(data) - {"assumption"} != names:
            raise BadInput("data", got=data, want="what Guarantee.to_dict() returns")
        return cls(**data)


def read_epsilon(epsilon: Number, argument: str = "epsilon", *, or_none: bool = False) -> Fraction:
    """An exact epsilon; NaN, infinity, zero and negative numbers are refused."""
    want = "a finite number above 0"
    return exact_positive(epsilon, argument, want=f"{want} (or None for no privacy)" if or_none else want)


def _probability(error: Number) -> Fraction:
    want = "a probability from 0 up to, but not including, 1"
    value = exact(error, "error", want=want)
    if not 0 <= value < 1:
        raise BadInput("error", got=error, want=want)
    return value


def _composed(guarantees: Sequence[Guarantee], touched: int, verb: str) -> Guarantee:
    """The largest epsilons of those that one step can touch, added up; all of them where they come from the same data."""
    first, *others = guarantees
    for other, name in product(others, ("notion", "unit", "neighbors", "gap_unit")):
        if getattr(first, name) != getattr(other, name):
            raise DoesNotCompose(
                f"guarantees can be {verb} only for one {name}; got {getattr(first, name)!r} and {getattr(other, name)!r}. "
                "Restate one of them first, for instance with group()"
            )
    epsilons = [g.exact_epsilon for g in guarantees]
    known = sorted((e for e in epsilons if e is not None), reverse=True)
    return first._with(
        epsilon=sum(known[:touched], Fraction(0)) if len(known) == len(epsilons) else None,
        gap=min((g.exact_gap for g in guarantees if g.exact_gap is not None), default=None),
        simulated=any(g.simulated for g in guarantees),
        assumption=_all_of(*guarantees),
    )


def _all_of(*guarantees: Guarantee) -> str | None:
    """What several guarantees assume together, each assumption once."""
    assumed = dict.fromkeys(g.assumption for g in guarantees if g.assumption is not None)
    return ", and if ".join(assumed) or None
