"""One declaration per action: commands, study keys, console forms, JSON schema and reference are generated from it.

An action is a frozen dataclass whose fields are its parameters::

    class PublishMeans(Action["Reviews"]):
        name = "release.publish"  # in a study: action = "release.publish"; as a command: peerveil release publish
        ...
        epsilon: Annotated[Epsilon, Setting("Privacy budget (epsilon) for this release.", common=True)]

Each module has one file here with its actions. Declaring them imports nothing heavy: help needs only this file and
:mod:`peerveil.study.declared`, a check imports pydantic, and a run imports the module that does the work.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, NamedTuple, TypeVar, get_args

from peerveil.core.errors import unknown
from peerveil.study.declared import Declared
from peerveil.study.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from peerveil.core.guarantee import Guarantee
    from peerveil.core.randomness import Randomness
    from peerveil.core.result import Plan
    from peerveil.ledger import Account
    from peerveil.study.inputs import DataFile, Inputs

Kind = Literal["reviews", "events", "rankings", "labels"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
MODULES: Final = ("data", "release", "timing", "calibration", "rankings", "truth", "audit")
"""Where actions are declared: ``peerveil.study.<module>.ACTIONS``."""

Table = TypeVar("Table")


class SuggestedStep(NamedTuple):
    """What ``peerveil new`` proposes for a table: settings with remarks, and why, in a sentence or two."""

    why: str
    settings: Mapping[str, Any]
    remarks: Mapping[str, str] = {}
    commented: bool = False
    """Whether it has to be completed first, and is written as a comment."""


def no_progress(share: float, text: str = "") -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Context:
    """What a run is given beside its data: the source of noise, the account to debit, and where to show progress."""

    randomness: Randomness
    account: Account | None = None
    progress: Callable[[float, str], None] = field(default=no_progress)


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

    # ---- what an action does ---------------------------------------------------------------------------------

    @classmethod
    def suggest(cls, table: Table) -> SuggestedStep | None:  # noqa: ARG003
        """What a new study proposes for a table; None if this action is not for it."""
        return None

    def extra_columns(self) -> tuple[str, ...]:
        """Further columns of the data that it needs."""
        return ()

    def in_memory(self, source: DataFile) -> bool:  # noqa: ARG002
        """Whether it wants its data as a table; otherwise it opens the file itself."""
        return True

    def guarantee(self, inputs: Inputs[Table]) -> Guarantee | None:  # noqa: ARG002
        """What would be debited; draws and spends nothing. Refuses what could not be run."""
        return None

    def cautions(self, inputs: Inputs[Table]) -> list[str]:  # noqa: ARG002
        """What the operator should know before it runs, in sentences that are not for publication."""
        return []

    def run(self, inputs: Inputs[Table], context: Context) -> Outcome:  # noqa: ARG002
        """Do it. It may spend once, through the account of its context."""
        raise TypeError(f"{type(self).__name__} declares no run")

    # ---- its names -------------------------------------------------------------------------------------------

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

    def run(self, inputs: Inputs[Table], context: Context) -> Outcome:
        """Report the plan: its recommendation, table and figure."""
        plan, outcome = self.plan(inputs, context), Outcome(self.question, self.costs_nothing)
        outcome.add_result("plan", plan, plan.recommendation, self.caption, public=bool(self.publishes))
        return outcome


# ---- all of them -----------------------------------------------------------------------------------------------------


def actions_of(module: str) -> dict[str, type[Action[Any]]]:
    """The actions of one module, by what they do."""
    return {kind.verb(): kind for kind in getattr(import_module(f"peerveil.study.{module}"), "ACTIONS", ())}


def all_actions() -> dict[str, type[Action[Any]]]:
    """Everything that a user can do, by name."""
    return {kind.name: kind for module in MODULES for kind in actions_of(module).values()}


def find_action(name: object) -> type[Action[Any]]:
    """An action by its name."""
    module, _, verb = str(name).partition(".")
    kind = actions_of(module).get(verb) if module in MODULES else None
    if kind is None:
        raise unknown("action", name, all_actions(), "actions")
    return kind
