"""What a step of a study is: settings that are read before anything runs, a promise known beforehand, and the work.

Each room has a module here with its steps. A step is a class with

- ``room``, ``do``, ``about``, ``output``: its name, what it is for and what it publishes, in words;
- ``wants``: the kind of data that it needs;
- ``options``: its settings, each an :class:`Option`;
- :meth:`Step.promise`: what would be debited. It looks at settings and public facts only, draws nothing, spends nothing;
- :meth:`Step.carry_out`: the work. It may spend once, through the account that it is given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from peerveil.errors import BadInput
from peerveil.guarantee import Guarantee, read_epsilon
from peerveil.study.problems import Problems
from peerveil.study.spec import only

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from peerveil.ledger import Account
    from peerveil.randomness import Randomness
    from peerveil.study.outcome import Outcome
    from peerveil.study.spec import DataFile, StepSpec

REQUIRED: Final = object()


@dataclass(frozen=True)
class Option:
    """A setting of a step: its name, what it may be, what it is if left out, and what it is for."""

    name: str
    read: Callable[[Any], Any]
    default: Any
    about: str


class Step(ABC):
    """One step of a study, its settings read."""

    room: ClassVar[str]
    do: ClassVar[str]
    about: ClassVar[str]
    output: ClassVar[str]
    publishes: ClassVar[bool] = True
    """Whether it publishes anything that depends on the data; ``output`` says what, or why nothing."""
    wants: ClassVar[str | None] = None
    also: ClassVar[Mapping[str, str]] = {}
    """Settings that name further data, and the kind that each must be."""
    options: ClassVar[tuple[Option, ...]] = ()
    spends: ClassVar[bool] = False
    """Whether it debits an account, which must then be named (unless the study simulates)."""
    once: ClassVar[bool] = False
    """Whether its guarantee holds for a single release, so that the ledger refuses a second one on the same data."""

    def __init__(self, spec: StepSpec) -> None:
        self.spec = spec
        problems = Problems()
        problems.attempt(only, spec.settings, [option.name for option in self.options], spec.place)
        self.settings: dict[str, Any] = {}
        self.file: DataFile | None = None  # where its data came from, filled likewise
        self.tables: dict[str, Any] = {}  # further data by setting, filled when the data are read
        for option in self.options:
            place = f"{spec.place}.{option.name}"
            if option.name not in spec.settings:
                if option.default is REQUIRED:
                    problems.add(BadInput(place, got=None, want=option.about))
                self.settings[option.name] = option.default
                continue
            try:
                self.settings[option.name] = option.read(spec.settings[option.name])
            except BadInput as error:
                problems.add(BadInput(place, got=error.got, want=error.want))
        if self.wants and spec.data is None:
            problems.add(BadInput(f"{spec.place}.data", got=None, want=f"the name of {self.wants} under [data]"))
        if not self.wants and spec.data is not None:
            problems.add(BadInput(f"{spec.place}.data", got=spec.data, want="nothing: this step reads no data"))
        problems.raise_any()

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["settings"][name]
        except KeyError:
            raise AttributeError(name) from None

    @classmethod
    def suggest(cls, data: str, table: Any) -> str | None:  # noqa: ARG003
        """The lines that ``peerveil new`` proposes for a table, or None if this step is not for it."""
        return None

    def cautions(self, table: Any) -> list[str]:  # noqa: ARG002
        """What somebody should know before it runs, in sentences that are not for publication."""
        return []

    @abstractmethod
    def promise(self, table: Any) -> Guarantee | None:
        """What the step would promise (and debit); None if it publishes nothing that depends on private data."""

    @abstractmethod
    def carry_out(self, table: Any, randomness: Randomness, account: Account | None) -> Outcome:
        """Do it."""


# ---- what settings may be ------------------------------------------------------------------------------------------


def epsilon(value: object) -> str:
    """An epsilon as it stands in the file: a number, or text such as "1/3"."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise BadInput("epsilon", got=value, want="a number above 0, or text such as '1/3'")
    text = value if isinstance(value, str) else repr(value)
    read_epsilon(text)
    return text


def number(low: float, high: float) -> Callable[[object], float]:
    """A number in a range."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            raise BadInput("value", got=value, want=f"a number from {low:g} to {high:g}")
        return float(value)

    return read


def whole(low: int, high: int) -> Callable[[object], int]:
    """A whole number in a range."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise BadInput("value", got=value, want=f"a whole number from {low} to {high}")
        return value

    return read


@dataclass(frozen=True)
class OneOf:
    """One of several words, which forms can offer."""

    names: tuple[str, ...]

    def __call__(self, value: object) -> str:
        """The word, if it is one of them."""
        if not isinstance(value, str) or value not in self.names:
            raise BadInput("value", got=value, want=f"one of {', '.join(self.names)}")
        return value


def one_of(*names: str) -> OneOf:
    """One of several words."""
    return OneOf(names)


def yes_or_no(value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise BadInput("value", got=value, want="true or false")
    return value


def pair_of_numbers(value: object) -> tuple[float, float]:
    """Two numbers, the lower one first."""
    good = isinstance(value, list) and len(value) == 2 and all(
        isinstance(item, (int, float)) and not isinstance(item, bool) for item in value
    )  # fmt: skip
    if not good or not value[0] < value[1]:  # type: ignore[index]
        raise BadInput("value", got=value, want="two numbers, the lower one first, such as [1, 10]")
    return float(value[0]), float(value[1])  # type: ignore[index]


def list_of(read: Callable[[Any], Any]) -> Callable[[object], list[Any]]:
    """A list, each item of a kind."""

    def read_all(value: object) -> list[Any]:
        if not isinstance(value, list) or not value:
            raise BadInput("value", got=value, want="a list with at least one entry")
        return [read(item) for item in value]

    return read_all


def text(value: object) -> str:
    """Text."""
    if not isinstance(value, str) or not value:
        raise BadInput("value", got=value, want="text")
    return value


def settings_of(steps: Mapping[tuple[str, str], type[Step]]) -> list[tuple[str, str, str, str]]:
    """Every setting of every step: step, name, default, what it is for. For the documentation."""
    return [
        (f"{room}/{do}", option.name, "needed" if option.default is REQUIRED else repr(option.default), option.about)
        for (room, do), kind in steps.items()
        for option in kind.options
    ]
