"""What a mechanism hands out: a value with its guarantee, which prints, plots and becomes JSON with its mark.

Modules derive their results from :class:`Result`, so that no result can be shown without saying what protects it:

>>> from dataclasses import dataclass
>>> from peerveil.core.guarantee import Guarantee
>>> from peerveil.core.randomness import Randomness
>>> @dataclass(frozen=True)
... class Mean(Result):
...     value: float
...
...     def summary(self) -> str:
...         return f"mean {self.value}"
>>> guarantee = Guarantee.pure_dp(1, unit="one review", neighbors="one review has another score")
>>> result = Mean(guarantee=Randomness.simulation(1).stamp(guarantee), value=5.0)
>>> print(str(result).splitlines()[0])
mean 5.0 [simulation, not private]
>>> result.to_dict()["mark"]
'simulation, not private'
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from datetime import date
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from peerveil.core.errors import BadInput, PeerveilError, Verbatim
from peerveil.core.files import write_text
from peerveil.core.guarantee import Guarantee

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

PublicPart = TypeVar("PublicPart")
OperatorPart = TypeVar("OperatorPart")


class Outputs(NamedTuple, Generic[PublicPart, OperatorPart]):
    """What a mechanism hands out where the operator sees more than the public.

    The public part may be printed, pickled, saved and published; nothing of the operator's part may.
    """

    public: PublicPart
    operator: OperatorPart


@runtime_checkable
class Tabular(Protocol):
    """A result that is a table."""

    def frame(self) -> pl.DataFrame:
        """The table, one row per item."""


class Pictured:
    """The base of every finding that people look at: plans, frontiers, attacks, simulations and, with a guarantee, results.

    Subclasses are dataclasses that draw on axes; :meth:`plot`, :meth:`to_dict` and :meth:`save` come from here.
    """

    __slots__ = ()

    operator_only: ClassVar[bool] = False
    """Whether this states facts about people that must not be published; its files are then readable by their owner alone."""

    def summary(self) -> str:
        """The finding in one line, without the guarantee."""
        return type(self).__name__

    def __str__(self) -> str:
        return self.summary()

    @property
    def mark(self) -> str | None:
        """The words that must stand beside this; ``None`` if there are none."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Every field as JSON values, and the mark if there is one."""
        return {**plain(self), "mark": self.mark} if self.mark else plain(self)

    def to_json(self, *, indent: int | None = None) -> str:
        """:meth:`to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def save(self, folder: str | os.PathLike[str], *, force: bool = False) -> list[Path]:
        """Write ``result.json``, ``figure.svg`` and, for a table, ``table.csv`` into a folder; returns the paths.

        Parameters
        ----------
        folder : path
            Created if it does not exist.
        force : bool, optional
            Replace files of these names; by default they are kept, and :class:`BadInput` is raised.
        """
        contents = {"result.json": self.to_json(indent=2) + "\n", "figure.svg": self._figure_text()}
        if isinstance(self, Tabular):
            contents["table.csv"] = self.frame().write_csv()
        existing = [name for name in contents if (Path(folder) / name).exists()]
        if existing and not force:
            got = Verbatim(f"{folder}, which holds {existing[0]}")
            raise BadInput("folder", got=got, want="a new or empty folder, or force=True to replace what is in it")
        return [write_text(Path(folder) / name, text, private=self.operator_only) for name, text in contents.items()]

    def _figure_text(self) -> str:
        import io

        import matplotlib as mpl

        text = io.StringIO()
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "peerveil", "text.parse_math": False}):
            self.plot().get_figure(root=True).savefig(text, format="svg", metadata={"Date": None})  # type: ignore[union-attr]
        return text.getvalue()

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


class Plan(Pictured):
    """What settings would give and cost, computed from public data or by simulation before anything is spent.

    Subclasses are dataclasses with a :attr:`recommendation` and a :meth:`table`.
    """

    __slots__ = ()

    @property
    def recommendation(self) -> str:
        """What we would choose, and why, in a sentence or two."""
        raise PeerveilError(f"{type(self).__name__} has no recommendation")

    def summary(self) -> str:
        """The recommendation."""
        return self.recommendation

    def table(self) -> pl.DataFrame:
        """One row per setting that was tried."""
        raise PeerveilError(f"{type(self).__name__} has no table")

    def frame(self) -> pl.DataFrame:
        """The same as :meth:`table`, as every tabular result has it."""
        return self.table()

    def to_dict(self) -> dict[str, Any]:
        """Every field as JSON values, with the recommendation and the mark if there is one."""
        return {"recommendation": self.recommendation, **super().to_dict()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result(Pictured):
    """The base of every public output. Subclasses are frozen dataclasses with a :meth:`summary`."""

    guarantee: Guarantee

    def __post_init__(self) -> None:
        if not isinstance(self.guarantee, Guarantee):
            raise BadInput("guarantee", got=self.guarantee, want="a Guarantee")

    @property
    def simulated(self) -> bool:
        """Whether this was a simulation."""
        return self.guarantee.simulated

    @property
    def mark(self) -> str | None:
        """The words that must stand beside this result; ``None`` if it is private."""
        return self.guarantee.mark

    def __str__(self) -> str:
        # the guarantee in one plain sentence; str(guarantee), JSON and files have the whole of it
        mark = f" [{self.mark}]" if self.mark else ""
        return f"{self.summary()}{mark}\n{self.guarantee.short}"

    def to_dict(self) -> dict[str, Any]:
        """Every field as JSON values, the guarantee as data and in words, and the mark."""
        return {**plain(self), "guarantee_in_words": str(self.guarantee), "mark": self.mark}


def stamp_axes(ax: Axes, mark: str) -> None:
    """Write a mark across a figure, large enough that it cannot be overlooked and pale enough to read through."""
    center: dict[str, Any] = {"ha": "center", "va": "center", "transform": ax.transAxes}
    ax.text(0.5, 0.5, mark, **center, rotation=20, fontsize=22, color="0.5", alpha=0.35, gid="mark", zorder=10)


def plain(value: Any) -> Any:
    """A value as JSON can hold it: arrays become lists, exact numbers strings, infinities words.

    >>> plain({"a": np.arange(2), "b": Fraction(1, 3), "c": float("inf")})
    {'a': [0, 1], 'b': '1/3', 'c': 'Infinity'}
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float() | np.floating() if math.isfinite(value):
            return float(value)
        case float() | np.floating():
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Guarantee():  # for readers; Guarantee.to_dict is the exact record
            record = {"error": value.error} if value.error is not None else {}
            unused = {"gap", "gap_unit"} if value.gap is None else set()
            return {name: item for name, item in (value.to_dict() | record).items() if name not in unused}
        case Enum():
            return value.value
        case Fraction() | np.datetime64() | np.timedelta64():
            return str(value)
        case np.ndarray() if value.dtype.kind in "mM" or value.dtype == np.longdouble:
            return [plain(item) for item in value] if value.ndim else plain(value[()])
        case np.ndarray() if value.dtype.kind in "biu" or (value.dtype.kind == "f" and np.isfinite(value).all()):
            return value.tolist()  # as it is, without a look at each number
        case np.ndarray() | np.generic():
            return plain(value.tolist())
        case date():
            return value.isoformat()
        case dict():
            items = {str(k): plain(v) for k, v in value.items()}
            if len(items) < len(value):
                raise BadInput("value", got=value, want="keys that stay different as text")
            return items
        case list() | tuple() | set() | frozenset():
            return [plain(v) for v in value]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        case _:  # a Polars frame (a list of rows) or series, or anything that says how
            convert = next((name for name in ("to_dicts", "to_list", "to_dict") if hasattr(value, name)), None)
            return str(value) if convert is None else plain(getattr(value, convert)())
