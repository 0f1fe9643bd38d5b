"""One declaration per action: commands, study keys, console forms, JSON schema and reference are generated from it.

An action is a frozen dataclass whose fields are its parameters, each with type, limits, default and help::

    class PublishMeans(Action["Reviews"]):
        name = "release.publish"  # in a study: action = "release.publish"; as a command: peerveil release publish
        ...
        epsilon: Annotated[Epsilon, common("Privacy budget (epsilon) for this release.")]

Each module has one file here with its actions. Declaring them imports nothing heavy: help needs only this file, a check imports
pydantic, and a run imports the module that does the work. Pydantic says *which* value is wrong; the declaration says, in one
sentence used by errors, help, schema and reference, what would be right (:attr:`Parameter.want`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from importlib import import_module
from pkgutil import resolve_name
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    NamedTuple,
    Self,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from peerveil.core.errors import BadInput, Verbatim, unknown
from peerveil.study.outcome import Outcome
from peerveil.study.spelling import Range, Refers, Refusals, Spelling

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from peerveil.core.guarantee import Guarantee
    from peerveil.core.result import Plan
    from peerveil.study.execute import Context, Inputs, StudyFile
    from peerveil.study.toml import SuggestedStep

Kind = Literal["reviews", "events", "rankings", "labels"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
MODULES: Final = ("data", "release", "timing", "calibration", "rankings", "truth", "audit")
"""Where actions are declared: ``peerveil.study.<module>.ACTIONS``."""

Table = TypeVar("Table")

# ---- settings --------------------------------------------------------------------------------------------------------


class Setting(NamedTuple):
    """What a parameter is for, in a sentence; forms show common ones at once and fold the others away."""

    help: str
    label: str = ""
    common: bool = False


def common(help: str, label: str = "") -> Setting:  # noqa: A002
    """A setting that forms show at once."""
    return Setting(help, label, common=True)


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
        if type(None) in get_args(kind):
            (kind,) = (part for part in get_args(kind) if part is not type(None))
        many = get_origin(kind) is tuple and get_args(kind)[-1:] == (...,)
        if many:
            kind = get_args(kind)[0]
        if get_origin(kind) is Annotated:
            kind, *more = get_args(kind)
            metadata = [*more, *metadata]
        parts: dict[type, Any] = {type(item): item for item in metadata}
        spelling, refers = parts.get(Spelling), parts.get(Refers)
        choices = get_args(kind) if get_origin(kind) is Literal else ()
        required = default is MISSING
        want = refers.want if refers else spelling.want if spelling else _want(kind, choices, parts.get(Range, Range()))
        return cls(
            name=name,
            setting=parts[Setting],
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
        name = self.name.removesuffix("s") if self.many and not self.name.endswith("ss") else self.name
        return f"--{name.replace('_', '-')}"

    @property
    def label(self) -> str:
        """What a form calls it."""
        return self.setting.label or self.name.replace("_", " ").capitalize()

    @property
    def want_sentence(self) -> str:
        """What it may be, as a sentence."""
        return f"{self.want[0].upper()}{self.want[1:]}."

    @property
    def named_data(self) -> str | None:
        """The kind of the further data that it names, if it names some."""
        return None if self.refers is None else self.refers.kind

    def text(self, value: Any) -> str:
        """A value as a form or a command line holds it; empty for none."""
        return "" if value is None else ", ".join(map(self._text, value)) if self.many else self._text(value)

    def _text(self, value: Any) -> str:
        if self.spelling is not None:
            return self.spelling.write(value)
        return json.dumps(value) if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)

    def plain(self, value: Any) -> Any:
        """A value as a study file or JSON holds it."""
        if value is None:
            return None
        write = self.spelling.plain if self.spelling is not None else lambda item: item
        return [write(item) for item in value] if self.many else write(value)

    def from_text(self, text: str) -> Any:
        """What a form or a command line says, to be checked; several values are separated by commas."""
        parts = [part.strip() for part in text.replace("\n", ",").split(",") if part.strip()]
        return parts if self.many else text.strip()

    def values(self, owner: Declared) -> list[Any]:
        """Its values in a declaration that was checked: one, several or none."""
        value = getattr(owner, self.name)
        return [] if value is None else list(value) if self.many else [value]


def _want(kind: Any, choices: tuple[str, ...], limits: Range) -> str:
    if choices:
        return f"one of {', '.join(choices)}"
    if kind is bool:
        return "true or false"
    noun = {int: "a whole number", float: "a number"}.get(kind, "text")
    return f"{noun} {limits.in_words()}".strip()


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Declared:
    """A table of settings. Subclasses declare them as annotated fields, each with a :class:`Setting`."""

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "allow_inf_nan": False}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(frozen=True, kw_only=True)(cls)

    @classmethod
    @cache
    def parameters(cls) -> tuple[Parameter, ...]:
        """Its parameters, in the order of their declaration."""
        hints = get_type_hints(cls, include_extras=True)
        return tuple(Parameter.of(f.name, hints[f.name], f.default) for f in fields(cls))  # type: ignore[arg-type]

    @classmethod
    @cache
    def adapter(cls) -> TypeAdapter[Self]:
        """Pydantic's view of the parameters, made once."""
        from pydantic import TypeAdapter

        return TypeAdapter(cls)

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


# ---- actions ---------------------------------------------------------------------------------------------------------


class Action(Declared, Generic[Table]):
    """One thing that a user can do. Subclasses declare parameters as fields, and at least :meth:`run`."""

    name: ClassVar[str]
    title: ClassVar[str]
    """The heading of its form: a few words."""
    about: ClassVar[str]
    """What it does, in one sentence."""
    details: ClassVar[str] = ""
    """More, for the help of its command and the reference."""
    publishes: ClassVar[str] = ""
    """What may be published afterwards; empty if nothing may."""
    operator: ClassVar[str] = ""
    """What only the operator may see; empty if there is nothing."""
    kinds: ClassVar[tuple[Kind, ...]] = ()
    """The kinds of data that it reads; empty if it reads none."""
    reads_polls: ClassVar[bool] = False
    """Whether labels without tasks and people will do."""
    spends: ClassVar[bool] = False
    """Whether it debits an account, which a study must then name (unless it simulates)."""
    once: ClassVar[bool] = False
    """Whether its guarantee holds for a single release, so that the ledger refuses a second one on the same data."""
    drawn_once: ClassVar[bool] = False
    """Whether a second draw from the same data would reveal more than both guarantees: results are then never replaced."""
    recorded: ClassVar[bool] = False
    """Whether its guarantee is only written down in the account: such guarantees do not add up, so nothing is debited."""
    calls: ClassVar[str] = ""
    """The function that does the work, such as ``peerveil.release.publish``: defaults of the two are compared by a test."""
    examples: ClassVar[tuple[str, ...]] = ()
    """Arguments of the command, such as ``reviews.csv --epsilon 1``."""

    @classmethod
    def suggest(cls, table: Table) -> SuggestedStep | None:  # noqa: ARG003
        """What a new study proposes for a table; None if this action is not for it."""
        return None

    def extra_columns(self) -> tuple[str, ...]:
        """Further columns of the data that it needs."""
        return ()

    def in_memory(self, source: StudyFile) -> bool:  # noqa: ARG002
        """Whether it wants its data as a table; otherwise it opens the file itself."""
        return True

    def guarantee(self, inputs: Inputs[Table]) -> Guarantee | None:  # noqa: ARG002
        """What would be debited; draws and spends nothing. Refuses what could not be run."""
        return None

    def debited(self, inputs: Inputs[Table]) -> list[Any]:
        """The data sets on which it spends: an account is debited its guarantee for each of them."""
        return [inputs.table]

    def cautions(self, inputs: Inputs[Table]) -> list[str]:  # noqa: ARG002
        """What the operator should know before it runs, in sentences that are not for publication."""
        return []

    def run(self, inputs: Inputs[Table], context: Context) -> Outcome:  # noqa: ARG002
        """Do it. It may spend once on each of :meth:`debited`, through the account of its context."""
        raise TypeError(f"{type(self).__name__} declares no run")

    @classmethod
    def module(cls) -> str:
        """The module it belongs to."""
        return cls.name.partition(".")[0]

    @classmethod
    def verb(cls) -> str:
        """What it does there: the name of its command."""
        return cls.name.partition(".")[2]

    @classmethod
    def command_lines(cls) -> list[str]:
        """Its examples as typed on a command line."""
        return [f"peerveil {cls.module()} {cls.verb()} {arguments}".rstrip() for arguments in cls.examples]

    @classmethod
    def facts(cls) -> list[str]:
        """What may be published and what may not, in sentences."""
        public = f"May be published: {cls.publishes}." if cls.publishes else "Nothing of this may be published."
        return [public, *([f"For the operator only: {cls.operator}."] if cls.operator else [])]

    def call(self, *data: Any, but: tuple[str, ...] = (), **arguments: Any) -> Any:
        """Call the function that does the work with these data and the parameters, except ``but``."""
        return resolve_name(self.calls)(*data, **self.arguments(but=(*but, *arguments)), **arguments)


class PlanAction(Action[Table]):
    """An action that computes a plan. Nothing is spent; the plan is public if the action publishes something."""

    question: ClassVar[str]
    """The heading of its section in a report."""
    caption: ClassVar[str]
    """What its figure shows."""
    costs_nothing: ClassVar[str]
    """Why there is no guarantee to state."""

    def plan(self, inputs: Inputs[Table], context: Context) -> Plan:  # noqa: ARG002
        """Compute the plan."""
        plan: Plan = self.call(*([inputs.table] if self.kinds else []))
        return plan

    def report(self, plan: Plan, **options: Any) -> Outcome:
        """The plan's recommendation, table and figure; options as of :meth:`Outcome.add_result`."""
        frame = plan.frame()
        rows = [
            ["none" if pair == ("epsilon", None) else pair[1] for pair in row.items()] for row in frame.rows(named=True)
        ]
        filled: dict[str, Any] = {"public": bool(self.publishes), "cells": (frame.columns, rows)} | options
        outcome = Outcome(self.question, self.costs_nothing)
        outcome.add_result("plan", plan, plan.recommendation, self.caption, **filled)
        return outcome

    def run(self, inputs: Inputs[Table], context: Context) -> Outcome:
        """Report the plan."""
        return self.report(self.plan(inputs, context))


# ---- all of them -----------------------------------------------------------------------------------------------------


def actions_of(module: str) -> dict[str, type[Action[Any]]]:
    """The actions of one module, by what they do."""
    return {kind.verb(): kind for kind in getattr(import_module(f"peerveil.study.{module}"), "ACTIONS", ())}


def all_actions() -> dict[str, type[Action[Any]]]:
    """Everything that a user can do, by name."""
    return {kind.name: kind for module in MODULES for kind in actions_of(module).values()}


def find_action(name: object) -> type[Action[Any]]:
    """An action by its name."""
    kinds = all_actions()
    if str(name) not in kinds:
        raise unknown("action", name, kinds, "actions")
    return kinds[str(name)]
