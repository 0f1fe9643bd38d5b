"""What a mechanism hands out: a value with its guarantee, which prints, plots and becomes JSON with its mark.

Rooms derive their results from :class:`Result`, so that no result can be shown without saying what protects it:

>>> from dataclasses import dataclass
>>> from peerveil.guarantee import Guarantee
>>> from peerveil.randomness import Randomness
>>> @dataclass(frozen=True)
... class Mean(Result):
...     value: float
...
...     def summary(self) -> str:
...         return f"mean {self.value}"
>>> promise = Guarantee.pure_dp(1, unit="one review", neighbours="one review has another score")
>>> result = Mean(guarantee=Randomness.simulation(1).stamp(promise), value=5.0)
>>> print(str(result).splitlines()[0])
mean 5.0 [simulation, not private]
>>> result.to_dict()["mark"]
'simulation, not private'
"""

from __future__ import annotations

import dataclasses
import json
import math
from datetime import date
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.errors import BadInput, PeerveilError
from peerveil.guarantee import Guarantee

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Pictured:
    """The base of every finding that people look at: plans, frontiers, attacks, simulations and, with a promise, results.

    Subclasses are dataclasses that draw on axes; :meth:`plot` and :meth:`to_dict` come from here.
    """

    __slots__ = ()

    @property
    def mark(self) -> str | None:
        """The words that must stand beside this; ``None`` if there are none."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Every field as JSON values, and the mark if there is one."""
        found = {f.name: plain(getattr(self, f.name)) for f in dataclasses.fields(self)}  # type: ignore[arg-type]
        return {**found, "mark": self.mark} if self.mark else found

    def to_json(self, *, indent: int | None = None) -> str:
        """:meth:`to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def draw(self, ax: Axes) -> None:  # noqa: ARG002
        """Draw the finding; subclasses that have a picture override this."""
        raise PeerveilError(f"{type(self).__name__} has no picture")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the finding, with the mark across it if there is one; ``plot().figure.savefig("x.png")`` saves it."""
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(7, 4), layout="constrained").add_subplot()
        self.draw(ax)
        if self.mark:
            stamp_axes(ax, self.mark)
        return ax


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result(Pictured):
    """The base of every public output. Subclasses are frozen dataclasses with a :meth:`summary`."""

    guarantee: Guarantee

    def __post_init__(self) -> None:
        if not isinstance(self.guarantee, Guarantee):
            raise BadInput("guarantee", got=self.guarantee, want="a Guarantee")

    @property
    def simulated(self) -> bool:
        """Whether this was made in the simulation lane."""
        return self.guarantee.simulated

    @property
    def mark(self) -> str | None:
        """The words that must stand beside this result; ``None`` if it is private."""
        return self.guarantee.mark

    def summary(self) -> str:
        """The finding in one line, without the guarantee."""
        return type(self).__name__

    def __str__(self) -> str:
        # the promise in one plain sentence; str(guarantee), JSON and files have the whole of it
        mark = f" [{self.mark}]" if self.mark else ""
        return f"{self.summary()}{mark}\n{self.guarantee.short}"

    def to_dict(self) -> dict[str, Any]:
        """Every field as JSON values, the guarantee as data and in words, and the mark."""
        fields = {f.name: plain(getattr(self, f.name)) for f in dataclasses.fields(self) if f.name != "guarantee"}
        return {
            **fields,
            "guarantee": self.guarantee.to_dict(),
            "guarantee_in_words": str(self.guarantee),
            "mark": self.mark,
        }


def stamp_axes(ax: Axes, mark: str) -> None:
    """Write a mark across a figure, large enough that it cannot be overlooked and pale enough to read through."""
    ax.text(
        0.5,
        0.5,
        mark,
        transform=ax.transAxes,
        ha="center",
        va="center",
        rotation=20,
        fontsize=22,
        color="0.5",
        alpha=0.35,
        gid="mark",
        zorder=10,
    )


def plain(value: Any) -> Any:
    """A value as JSON can hold it: arrays become lists, exact numbers strings, infinities words.

    >>> plain({"a": np.arange(2), "b": Fraction(1, 3), "c": float("inf")})
    {'a': [0, 1], 'b': '1/3', 'c': 'Infinity'}
    """
    result: Any
    match value:
        case None | bool() | int() | str():
            result = value
        case np.floating():
            result = plain(float(value))
        case float() if math.isfinite(value):
            result = float(value)
        case float():
            result = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Guarantee():
            result = value.to_dict()
        case Enum():
            result = value.value
        case Fraction():
            result = str(value)
        case np.datetime64() | np.timedelta64():
            result = str(value)
        case np.ndarray() if value.dtype.kind in "mM" or value.dtype == np.longdouble:
            result = [plain(item) for item in value] if value.ndim else plain(value[()])
        case np.ndarray() if value.dtype.kind in "biu" or (value.dtype.kind == "f" and np.isfinite(value).all()):
            result = value.tolist()  # as it is, without a look at each number
        case np.ndarray() | np.generic():
            result = plain(value.tolist())
        case date():
            result = value.isoformat()
        case dict():
            result = {str(k): plain(v) for k, v in value.items()}
            if len(result) < len(value):
                raise BadInput("value", got=value, want="keys that stay different as text")
        case list() | tuple() | set() | frozenset():
            result = [plain(v) for v in value]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            result = {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        case _ if hasattr(value, "to_dicts"):  # a Polars frame: a list of rows
            result = plain(value.to_dicts())
        case _ if hasattr(value, "to_list"):
            result = plain(value.to_list())
        case _ if hasattr(value, "to_dict"):
            result = plain(value.to_dict())
        case _:
            result = str(value)
    return result
