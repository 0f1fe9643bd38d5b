"""Errors that say what came, and what would be right.

Every refusal in peerveil is one of these. :class:`BadInput` is also a :class:`ValueError`, so code that knows
nothing of peerveil catches it as usual.

>>> raise BadInput("epsilon", got=-1, want="a number above 0")
Traceback (most recent call last):
    ...
peerveil.core.errors.BadInput: epsilon: got -1, need a number above 0
"""

from __future__ import annotations

import copyreg
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Any

_LONGEST_SHOWN = 80


class PeerveilError(Exception):
    """The root of everything that peerveil raises on purpose. It can be pickled, whatever its constructor takes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class BadInput(PeerveilError, ValueError):
    """An argument that cannot be used. Nothing was written, spent or drawn.

    Attributes
    ----------
    argument : str
        Which argument (or file, row and column) is wrong.
    """

    def __init__(self, argument: str, *, got: object, want: str) -> None:
        self.argument, self.got, self.want = argument, got, want
        super().__init__(f"{argument}: got {show(got)}, need {want}")

    def __reduce__(self) -> tuple[Any, ...]:
        *made, fields = super().__reduce__()
        return *made, fields | {"got": Verbatim(show(self.got))}  # what came may not be picklable


def unknown(place: str, name: object, known: Iterable[str], noun: str) -> BadInput:
    """The refusal of a name that nothing bears, with the one that was probably meant.

    >>> print(unknown("study", "titel", ["title", "seed"], "keys"))
    study: got 'titel', need 'title'? The keys are: title, seed
    """
    names = list(known)
    near = get_close_matches(str(name), names, n=1)
    listed = ", ".join(names) or "none"
    want = f"{near[0]!r}? The {noun} are: {listed}" if near else f"one of the {noun}: {listed}"
    return BadInput(place, got=name, want=want)


def one_of(value: str, argument: str, choices: Collection[str]) -> str:
    """One of a few texts; anything else is refused, with the texts.

    >>> one_of("latest", "order", ("first", "last"))
    Traceback (most recent call last):
        ...
    peerveil.core.errors.BadInput: order: got 'latest', need 'first' or 'last'
    """
    if value not in choices:
        *others, last = map(repr, choices)
        raise BadInput(argument, got=value, want=f"{', '.join(others)} or {last}")
    return value


class Verbatim(str):
    """Text that an error message shows as it is, without quotation marks."""


def show(value: object) -> str:
    """A value as it appears in an error message: short, on one line.

    >>> show("a" * 200)[-12:]
    "aaaaaaaa...'"
    """
    try:
        text = str(value) if isinstance(value, Verbatim) else " ".join(repr(value).split())
    except Exception:  # a number of a million digits, an object with a broken repr
        text = f"a {type(value).__name__} that cannot be shown"
    if len(text) > _LONGEST_SHOWN:
        closing = text[-1] if text[-1] in "'\")]}>" else ""
        text = text[: _LONGEST_SHOWN - 4] + "..." + closing
    return text
