"""Values that have a spelling of their own: the same on the command line, in a study file, in a form and in a schema.

Values that cannot be used are refused by :func:`require`; :class:`Refusals` collects all that is wrong with a study.

>>> from typing import get_args
>>> get_args(Duration)[1].read("1.5h"), get_args(Duration)[1].write(5400.0)
(5400.0, '1.5h')
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from peerveil.core.errors import BadInput, unknown

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class Spelling:
    """How a value is read and written. ``read`` raises ValueError, TypeError, LookupError or ArithmeticError to refuse."""

    want: str
    """What would be right, in words that follow "need"."""
    schema: dict[str, Any]
    read: Callable[[Any], Any]
    write: Callable[[Any], str] = str
    """As text, for a command line or a form."""
    plain: Callable[[Any], Any] = str
    """As a value of a study file or of JSON."""

    def validate(self, value: Any) -> Any:
        """Read a value; pydantic takes a ValueError for a refusal, and any other error would end the program."""
        try:
            return self.read(value)
        except (ArithmeticError, LookupError, TypeError, AttributeError):
            raise ValueError from None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self.validate)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return dict(self.schema)


@dataclass(frozen=True)
class Refers:
    """A parameter that names further data: a name under [data] in a study, a file on the command line.

    ``kind`` is a kind of table; None means a file that the action opens itself. Those are not offered in the console, whose
    users may not name files of the server. A form may leave out what ``is_optional``.
    """

    kind: str | None
    want: str
    is_optional: bool = False


class Range(NamedTuple):
    """Range of a number, as pydantic calls them."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic import Field

        return handler.generate_schema(Annotated[source, Field(ge=self.ge, gt=self.gt, le=self.le, lt=self.lt)])

    def in_words(self) -> str:
        """What they allow, such as "from 0 to 1".

        >>> Range(ge=2, le=1000).in_words(), Range(gt=0, lt=1).in_words()
        ('from 2 to 1,000', 'above 0 and below 1')
        """
        values = {name: f"{limit:,}" for name, limit in self._asdict().items() if limit is not None}
        if values.keys() == {"ge", "le"}:
            return f"from {values['ge']} to {values['le']}"
        words = {"ge": "of at least", "gt": "above", "le": "of at most", "lt": "below"}
        return " and ".join(f"{word} {values[name]}" for name, word in words.items() if name in values)


# ---- epsilon ---------------------------------------------------------------------------------------------------------

# at most six digits before the point, and not zero: the schema's words and the reader's are the same
_EPSILON_TEXT: Final = r"\s*((?=[\d.]*[1-9])\d{0,6}(\.\d{1,40})?|0*[1-9]\d{0,5}/0*[1-9]\d{0,11})\s*"
_EPSILON_LIMIT: Final = 10**6
_EPSILON_LEAST: Final = 1e-12


def _epsilon(value: Any) -> str:
    """An epsilon as text, so that it stays exact."""
    if isinstance(value, str):
        return re.fullmatch(_EPSILON_TEXT, value, flags=re.ASCII)[1]  # type: ignore[index]
    if isinstance(value, bool) or not _EPSILON_LEAST <= value < _EPSILON_LIMIT:
        raise ValueError
    return format(Decimal(repr(value)), "f")


EPSILON_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [
        {"type": "number", "minimum": _EPSILON_LEAST, "exclusiveMaximum": _EPSILON_LIMIT},
        {"type": "string", "pattern": f"^{_EPSILON_TEXT}$"},
    ]
}
Epsilon = Annotated[str, Spelling("a number above 0, such as 1, 0.5 or '1/3'", EPSILON_SCHEMA, _epsilon)]


def _epsilon_or(word: str, meaning: str) -> Spelling:
    """An epsilon, or a word in its place."""
    letters = "".join(f"[{letter}{letter.upper()}]" for letter in word)
    return Spelling(
        f"a number above 0, such as 1, 0.5 or '1/3', or '{word}' {meaning}",
        {"anyOf": [*EPSILON_SCHEMA["anyOf"], {"type": "string", "pattern": rf"^\s*{letters}\s*$"}]},
        lambda value: word if isinstance(value, str) and value.strip().lower() == word else _epsilon(value),
    )


EpsilonOrNone = Annotated[str, _epsilon_or("none", "for no privacy")]
EpsilonOrColumn = Annotated[str, _epsilon_or("column", "where a column epsilon says it for each answer")]

Share = Annotated[float, Range(ge=0, le=1)]
InnerShare = Annotated[float, Range(gt=0, lt=1)]

# ---- durations, scales, pairs ----------------------------------------------------------------------------------------

_UNITS: Final = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_DURATION: Final = r"\s*(?:\d{1,9}(?:\.\d{1,9})?\s*(?:s|m|h|d|sec|min|days)\s*){1,4}"


def _duration(value: Any) -> float:
    """Seconds; a number without a unit is refused, since its unit would be a guess."""
    parts = re.findall(r"([\d.]+)\s*([a-z])", re.fullmatch(_DURATION, value)[0])  # type: ignore[index]
    return float(sum(Fraction(number) * _UNITS[unit] for number, unit in parts))


def write_duration(seconds: float) -> str:
    """Seconds with the largest unit that leaves a short number.

    >>> write_duration(5400.0), write_duration(2700.0), write_duration(90.5)
    ('1.5h', '45m', '90.5s')
    """
    for unit, size in _UNITS.items():
        if seconds >= size and round(seconds / size, 2) * size == seconds:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"


Duration = Annotated[
    float,
    Spelling(
        "a duration with its unit: 90s, 5m, 1.5h, 12m36s or 2d",
        {"type": "string", "pattern": f"^{_DURATION}$"},
        _duration,
        write_duration,
        write_duration,
    ),
]


_LARGEST_NUMBER: Final = 10**15
_NUMBER: Final = r"-?\d{1,15}(?:\.\d{1,15})?"
_POSITIVE: Final = r"(?=[\d.]*[1-9])\d{1,15}(?:\.\d{1,15})?"


def _pair(want: str, separator: str, *are_positive: bool, is_rising: bool = False) -> Spelling:
    """Two numbers, as a list or as text. That the second is the larger one cannot be said in a schema."""
    first, second = (_POSITIVE if is_positive else _NUMBER for is_positive in are_positive)
    pattern = rf"\s*({first})\s*[:,]\s*({second})\s*"
    least = [0 if is_positive else -_LARGEST_NUMBER for is_positive in are_positive]

    def read(value: Any) -> tuple[float, float]:
        if isinstance(value, str):
            value = [float(part) for part in re.fullmatch(pattern, value, flags=re.ASCII).groups()]  # type: ignore[union-attr]
        if not all(isinstance(number, (int, float)) and not isinstance(number, bool) for number in value):
            raise TypeError
        low, high = (float(number) for number in value)
        are_in_range = least[0] < low < _LARGEST_NUMBER and least[1] < high < _LARGEST_NUMBER
        if not are_in_range or (is_rising and not low < high):
            raise ValueError
        return low, high

    numbers = [{"type": "number", "exclusiveMinimum": n, "exclusiveMaximum": _LARGEST_NUMBER} for n in least]
    schema = {
        "anyOf": [
            {"type": "array", "prefixItems": numbers, "minItems": 2, "maxItems": 2},
            {"type": "string", "pattern": f"^{pattern}$"},
        ]
    }
    return Spelling(want, schema, read, lambda pair: f"{pair[0]:g}{separator}{pair[1]:g}", list)


Scale = Annotated[
    tuple[float, float],
    _pair(
        "the lowest and highest possible score, such as 1:10 (in a study file [1, 10])",
        ":",
        False,
        False,
        is_rising=True,
    ),
]
PositivePair = Annotated[
    tuple[float, float], _pair("two numbers above 0, such as 4,2 (in a study file [4, 2])", ",", True, True)
]
ScaleAndBias = Annotated[
    tuple[float, float],
    _pair("a scale above 0 and a bias, such as 0.7:-0.5 (in a study file [0.7, -0.5])", ":", True, False),
]
"""How a reviewer scores: scale * quality + bias."""

# ---- classes ---------------------------------------------------------------------------------------------------------

_MOST_CLASSES: Final = 1000


def _classes(value: Any) -> int | tuple[str | int | bool, ...]:
    """How many classes there are, or all of them. Texts of a command line or form stay texts: the data say what they are."""
    if isinstance(value, str):
        parts = [part.strip() for part in re.split("[,\n]", value)]
        value = int(re.fullmatch(r"\d{1,4}", parts[0], flags=re.ASCII)[0]) if len(parts) == 1 else parts  # type: ignore[index]
    is_count = isinstance(value, int) and not isinstance(value, bool)
    are_names = is_count or (
        isinstance(value, (list, tuple))
        and all(isinstance(item, (str, int)) and item != "" for item in value)
        and len(set(map(str, value))) == len(value)
    )
    if not are_names or not 2 <= (value if is_count else len(value)) <= _MOST_CLASSES:
        raise ValueError
    return value if is_count else tuple(value)


Classes = Annotated[
    "int | tuple[str | int | bool, ...]",
    Spelling(
        'all possible answers, such as yes,no (in a study file ["yes", "no"]), or how many: 3 stands for 0, 1 and 2',
        {
            "anyOf": [
                {"type": "integer", "minimum": 2, "maximum": _MOST_CLASSES},
                {
                    "type": "array",
                    "items": {"anyOf": [{"type": "string", "minLength": 1}, {"type": "integer"}, {"type": "boolean"}]},
                    "minItems": 2,
                    "maxItems": _MOST_CLASSES,
                    "uniqueItems": True,
                },
                {"type": "string", "pattern": r"^\s*0*([2-9]|[1-9]\d{1,2}|1000)\s*$"},
                {"type": "string", "pattern": r"^[^,\n]*[^,\s][^,\n]*([,\n][^,\n]*[^,\s][^,\n]*)+$"},
            ]
        },
        _classes,
        lambda value: str(value) if isinstance(value, int) else ", ".join(map(str, value)),
        lambda value: value if isinstance(value, int) else list(value),
    ),
]

# ---- names and files ---------------------------------------------------------------------------------------------------


def _line(want: str, longest: int, kind: type = str, *, is_printable: bool = False) -> Spelling:
    """A text on one line, without control characters; what else cannot be printed is refused if ``is_printable``."""
    pattern = r"[^\x00-\x1f]*[^\x00-\x20][^\x00-\x1f]*"

    def read(value: Any) -> Any:
        text = str(value) if isinstance(value, Path) else value
        if not re.fullmatch(pattern, text) or len(text) > longest or (is_printable and not text.isprintable()):
            raise ValueError
        return kind(text.strip())

    return Spelling(want, {"type": "string", "maxLength": longest, "pattern": f"^{pattern}$"}, read)


Name = Annotated[str, _line("a name on one line", 200)]
Title = Annotated[str, _line("a text on one line, of 1 to 200 characters", 200, is_printable=True)]
Address = Annotated[str, _line("a text on one line, of 1 to 500 characters", 500, is_printable=True)]
DataPath = Annotated[Path, _line("the path of a file, on one line", 4000, Path, is_printable=True)]
File = Annotated[Path, _line("", 4000, Path), Refers(None, "the path of a file")]
_FILE: Final = _line("", 4000)


def _table(kind: str, what: str, *, is_optional: bool = False) -> Refers:
    """Further data of a kind, by a name under [data] or as a file."""
    return Refers(kind, f"{what}: a file (in a study a name under [data])", is_optional)


ReviewsName = Annotated[str, _FILE, _table("reviews", "reviews of a past conference")]
OtherReviews = Annotated[str, _FILE, _table("reviews", "reviews of another conference", is_optional=True)]
OtherRankings = Annotated[str, _FILE, _table("rankings", "rankings of another group")]
AuthorRankings = Annotated[str, _FILE, _table("rankings", "rankings", is_optional=True)]
GoldAnswers = Annotated[
    str, _FILE, _table("labels", "an expert's answers, or labels with a truth column", is_optional=True)
]


def _columns(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value.values()):
        raise TypeError
    return value


Columns = Annotated[
    "dict[str, str]",
    Spelling(
        'a table such as { paper = "submission" }',
        {"type": "object", "additionalProperties": {"type": "string", "minLength": 1}},
        _columns,
        plain=dict,
    ),
]

# ---- refusals --------------------------------------------------------------------------------------------------------


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
        self.args = (f"{len(self.problems)} problems:" + "".join(f"\n  {problem}" for problem in self.problems),)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.problems,)


@dataclass
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
    peerveil.study.spelling.BadStudy: 2 problems:
      epsilon: got 0, need a number above 0
      scale: got 0, need a number above 0
    """

    problems: list[BadInput] = field(default_factory=list)

    def attempt(self, work: Callable[..., _T], *arguments: Any, default: Any = None) -> _T:
        """What ``work`` returns; the default if it refuses."""
        try:
            return work(*arguments)
        except BadInput as error:
            self.add(error)
            return default  # type: ignore[no-any-return]

    def add(self, error: BadInput) -> None:
        """Keep a problem, or all those of a refusal that has several."""
        for problem in error.problems if isinstance(error, BadStudy) else (error,):
            if str(problem) not in map(str, self.problems):
                self.problems.append(problem)

    def raise_any(self) -> None:
        """Refuse, if anything was found: one problem as it was, several together."""
        if self.problems:
            raise self.problems[0] if len(self.problems) == 1 else BadStudy(self.problems)


# ---- tables of a TOML file ------------------------------------------------------------------------------------------


def only(content: Mapping[str, Any], known: Iterable[str], place: str) -> None:
    """Refuse keys that nobody would read; a misspelled key must not be passed over in silence."""
    names = list(known)
    Refusals([unknown(place, key, names, "keys") for key in content if key not in names]).raise_any()
