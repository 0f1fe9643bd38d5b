"""Settings declared once: a dataclass whose fields carry their type, limits, default and help.

Pydantic says *which* value is wrong; the declaration says, in one sentence used by errors, help, schema and reference, what
would be right (:attr:`Parameter.want`).
"""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass, fields
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Self,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from annotated_types import Ge, Gt, Le, Lt

from peerveil.core.errors import BadInput, Verbatim, unknown
from peerveil.study.refusals import Refusals
from peerveil.study.spelling import Refers, Spelling

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import TypeAdapter


class Setting(NamedTuple):
    """What a parameter is for, in a sentence; forms show common ones at once and fold the others away."""

    help: str
    label: str = ""
    common: bool = False


@dataclass(frozen=True)
class Parameter:
    """One parameter, as every surface shows it."""

    name: str
    setting: Setting
    many: bool
    required: bool
    default: Any
    choices: tuple[str, ...]
    want: str
    """What it may be: the same words in errors, help, schema and reference."""
    is_flag: bool
    refers: Refers | None
    spelling: Spelling | None

    @classmethod
    def of(cls, name: str, hint: Any, default: Any) -> Parameter:
        """A field's declaration, read from its type."""
        kind, *metadata = get_args(hint)
        if get_origin(kind) in (Union, UnionType):
            (kind,) = (part for part in get_args(kind) if part is not type(None))
        many = get_origin(kind) is tuple and get_args(kind)[-1:] == (...,)
        if many:
            kind = get_args(kind)[0]
        if get_origin(kind) is Annotated:
            kind, *more = get_args(kind)
            metadata = [*more, *metadata]
        setting, spelling, refers = (
            next((item for item in metadata if isinstance(item, wanted)), None) for wanted in (Setting, Spelling, Refers)
        )
        choices = get_args(kind) if get_origin(kind) is Literal else ()
        required = default is MISSING
        want = refers.want if refers else spelling.want if spelling else _want(kind, choices, metadata)
        return cls(
            name=name,
            setting=setting,  # type: ignore[arg-type]
            many=many,
            required=required,
            default=None if required else default,
            choices=choices,
            want=f"one or more, each {want}" if many else want,
            is_flag=kind is bool,
            refers=refers,
            spelling=spelling,
        )

    @property
    def flag(self) -> str:
        """The option of the command line; one that may be repeated is in the singular (``epsilons``: ``--epsilon``)."""
        name = self.name.removesuffix("s") if self.many else self.name
        return f"--{name.replace('_', '-')}"

    @property
    def label(self) -> str:
        """What a form calls it."""
        return self.setting.label or self.name.replace("_", " ").capitalize()

    @property
    def want_sentence(self) -> str:
        """What it may be, as a sentence."""
        return f"{sentence_case(self.want)}."

    @property
    def named_data(self) -> str | None:
        """The kind of the further data that it names, if it names some."""
        return None if self.refers is None else self.refers.kind

    def text(self, value: Any) -> str:
        """A value as a form or a command line holds it; empty for none."""
        if value is None:
            return ""
        return ", ".join(map(self._text, value)) if self.many else self._text(value)

    def _text(self, value: Any) -> str:
        if self.spelling is not None:
            return self.spelling.write(value)
        return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)

    def plain(self, value: Any) -> Any:
        """A value as a study file or JSON holds it."""
        if value is None:
            return None
        write = self.spelling.plain if self.spelling is not None else lambda item: item
        return [write(item) for item in value] if self.many else write(value)

    def from_text(self, text: str) -> Any:
        """What a form or a command line says, to be checked; several values are separated by commas."""
        if not self.many:
            return text.strip()
        return [part.strip() for part in text.replace("\n", ",").split(",") if part.strip()]

    def values(self, owner: Declared) -> list[Any]:
        """Its values in a declaration that was checked: one, several or none."""
        value = getattr(owner, self.name)
        return [] if value is None else list(value) if self.many else [value]


def _want(kind: Any, choices: tuple[str, ...], metadata: list[Any]) -> str:
    if choices:
        return f"one of {', '.join(choices)}"
    if kind is bool:
        return "true or false"
    noun = {int: "a whole number", float: "a number"}.get(kind, "text")
    limits = {type(item).__name__.lower(): item for item in metadata if isinstance(item, (Ge, Gt, Le, Lt))}
    values = {name: f"{getattr(limit, name):,}" for name, limit in limits.items()}
    if values.keys() == {"ge", "le"}:
        return f"{noun} from {values['ge']} to {values['le']}"
    words = {"ge": "of at least", "gt": "above", "le": "of at most", "lt": "below"}
    return f"{noun} {' and '.join(f'{word} {values[name]}' for name, word in words.items() if name in values)}".strip()


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Declared:
    """A table of settings. Subclasses declare them as annotated fields, each with a :class:`Setting`."""

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "allow_inf_nan": False}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(frozen=True, kw_only=True)(cls)

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """Its parameters, in the order of their declaration."""
        if "_parameters" not in cls.__dict__:
            hints = get_type_hints(cls, include_extras=True)
            parameters = tuple(Parameter.of(f.name, hints[f.name], f.default) for f in fields(cls))  # type: ignore[arg-type]
            cls._parameters = parameters  # type: ignore[attr-defined]
        return cls._parameters  # type: ignore[attr-defined,no-any-return]

    @classmethod
    def adapter(cls) -> TypeAdapter[Self]:
        """Pydantic's view of the parameters, made once."""
        from pydantic import TypeAdapter

        if "_adapter" not in cls.__dict__:
            cls._adapter = TypeAdapter(cls)  # type: ignore[attr-defined]
        return cls._adapter  # type: ignore[attr-defined,no-any-return]

    @classmethod
    def check(cls, values: Mapping[str, Any], *, strict: bool = False, place: Callable[[str], str] = str) -> Self:
        """The declaration with these values; all that is wrong with them is refused at once.

        Parameters
        ----------
        values : mapping
            Values by parameter: texts (of options and forms), or values of a TOML or JSON file if ``strict``.
        place : callable, optional
            What an error calls a parameter.
        """
        from pydantic import ValidationError

        try:
            if strict:  # through JSON, as strict mode refuses tuples for lists in Python
                whole = {name: _whole(value) for name, value in values.items()}
                return cls.adapter().validate_json(json.dumps(whole, default=str), strict=True)
            return cls.adapter().validate_python(dict(values))
        except ValidationError as error:
            refusals = Refusals()
            for item in error.errors():
                refusals.add(cls._refusal(item, values, place))
            refusals.raise_any()
            raise AssertionError(error) from None  # pydantic refused, and named nothing

    @classmethod
    def _refusal(cls, item: Any, values: Mapping[str, Any], place: Callable[[str], str]) -> BadInput:
        """One refusal of pydantic in the words of the declaration."""
        known = {parameter.name: parameter for parameter in cls.parameters()}
        cause = item.get("ctx", {}).get("error")
        if isinstance(cause, BadInput) and not item["loc"]:  # a rule over several parameters, of __post_init__
            return BadInput(place(cause.argument), got=cause.got, want=cause.want)
        name = str(item["loc"][0]) if item["loc"] else ""
        if name not in known:
            return unknown(place(name), name, known, "settings")
        parameter = known[name]
        if name not in values:
            return BadInput(place(name), got=Verbatim("nothing"), want=f"{parameter.want} ({parameter.setting.help})")
        want = cause.want if isinstance(cause, BadInput) else parameter.want
        return BadInput(place(name), got=values[name], want=want)

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """The JSON schema of its parameters, by name, with their help and what they may be."""
        made = cls.adapter().json_schema()
        properties = {
            parameter.name: {
                **{key: value for key, value in made["properties"][parameter.name].items() if key not in ("title", "default")},
                "description": f"{parameter.setting.help} {parameter.want_sentence}",
                **({} if parameter.default is None else {"default": parameter.plain(parameter.default)}),
            }
            for parameter in cls.parameters()
        }
        required = [parameter.name for parameter in cls.parameters() if parameter.required]
        definitions = {"$defs": made["$defs"]} if "$defs" in made else {}
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False, **definitions}

    def arguments(self, *, but: tuple[str, ...] = ()) -> dict[str, Any]:
        """Its parameters by name, for the function that does the work; without those that it does not take."""
        return {item.name: getattr(self, item.name) for item in self.parameters() if item.name not in but}

    def settings(self) -> dict[str, Any]:
        """Every parameter that is not at its default, as a study file or JSON holds it."""
        return {
            parameter.name: parameter.plain(getattr(self, parameter.name))
            for parameter in self.parameters()
            if getattr(self, parameter.name) != parameter.default
        }


def _whole(value: Any) -> Any:
    """20.0 is a whole number, as in JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def sentence_case(text: str) -> str:
    """A text that begins with a capital."""
    return f"{text[0].upper()}{text[1:]}"
