"""Refusals: one condition at a time, or all that is wrong with a study, collected and raised together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from peerveil.core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    _T = TypeVar("_T")


def require(condition: object, argument: str, *, got: object, want: str) -> None:
    """Refuse an argument unless a condition holds.

    >>> require(2 > 1, "percentile", got=2, want="either a percentile or a crossover")
    """
    if not condition:
        raise BadInput(argument, got=got, want=want)


class BadStudy(BadInput):
    """Several things are wrong with a study. Nothing was written, spent or drawn.

    Attributes
    ----------
    problems : tuple of peerveil.BadInput
        What is wrong, in the order of the file.
    """

    def __init__(self, problems: Sequence[BadInput]) -> None:
        self.problems = tuple(problems)
        first = self.problems[0]
        super().__init__(first.argument, got=first.got, want=first.want)
        lines = "".join(f"\n  {problem}" for problem in self.problems)
        self.args = (f"{len(self.problems)} problems:{lines}",)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.problems,)


class Refusals:
    """Tries one thing after another, keeps what is refused, and raises all of it at the end.

    >>> problems = Refusals()
    >>> def refuse(name):
    ...     raise BadInput(name, got=0, want="a number above 0")
    >>> problems.attempt(refuse, "epsilon", default=1), problems.attempt(refuse, "scale")
    (1, None)
    >>> problems.raise_any()
    Traceback (most recent call last):
        ...
    peerveil.study.refusals.BadStudy: 2 problems:
      epsilon: got 0, need a number above 0
      scale: got 0, need a number above 0
    """

    def __init__(self) -> None:
        self.found: list[BadInput] = []

    def attempt(self, work: Callable[..., _T], *arguments: Any, default: Any = None) -> _T:
        """What ``work`` returns; the default if it refuses."""
        try:
            return work(*arguments)
        except BadInput as error:
            self.add(error)
            return default  # type: ignore[no-any-return]

    def add(self, error: BadInput) -> None:
        """Keep a problem, or all those of a refusal that has several."""
        for one in error.problems if isinstance(error, BadStudy) else (error,):
            if str(one) not in {str(known) for known in self.found}:
                self.found.append(one)

    def raise_any(self) -> None:
        """Refuse, if anything was found: one problem as it was, several together."""
        if len(self.found) == 1:
            raise self.found[0]
        if self.found:
            raise BadStudy(self.found)
