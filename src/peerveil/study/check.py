"""Before anything is spent: read all data, read all settings, and say what would be spent and published."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, Any

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import printed
from peerveil.ledger import BudgetExceeded, Ledger
from peerveil.study.execute import Inputs, StudyFile, kind_of, read_inputs, reason_of
from peerveil.study.spelling import Refusals, require

if TYPE_CHECKING:
    from peerveil.core.guarantee import Guarantee
    from peerveil.study.actions import Action
    from peerveil.study.spec import StepSpec, Study


def debit_of(guarantee: Guarantee | None) -> Fraction:
    """What a guarantee takes from an account: its epsilon, where its notion of privacy adds up."""
    return (guarantee.exact_epsilon if guarantee is not None and guarantee.notion.adds_up else None) or Fraction(0)


def debit_key(key: str, number: int) -> str:
    """The key of a step's debit for one of its data sets; the first has that of the step."""
    return f"{key}/{number + 1}" if number else key


@dataclass(frozen=True)
class Planned:
    """A step that was checked against its data."""

    step: StepSpec
    inputs: Inputs[Any]
    guarantee: Guarantee | None

    @property
    def action(self) -> Action[Any]:
        """What it does."""
        return self.step.action

    @property
    def debit(self) -> Fraction:
        """What it takes from its account."""
        return Fraction(0) if self.step.account is None else len(self.tables) * debit_of(self.guarantee)

    @property
    def tables(self) -> list[Any]:
        """The data sets on which it spends."""
        return self.action.debited(self.inputs)

    def keys(self, key: str) -> list[str]:
        """The keys of its debits in the ledger, one per data set."""
        return [debit_key(key, number) for number in range(len(self.tables))]

    @property
    def reason(self) -> str:
        """Why it costs another epsilon than its setting says; empty if it does not."""
        return reason_of(self.action, self.guarantee)


@dataclass(frozen=True)
class Checked:
    """A study that could be run: nothing has been spent, drawn or written."""

    study: Study
    planned: tuple[Planned, ...]
    digests: Mapping[str, str]
    """SHA-256 of every data file, as it was read."""
    remaining: Mapping[str, Fraction] = field(default_factory=dict)
    """What each account has left before the run, or before what is left of it."""
    paid: Mapping[str, Fraction] = field(default_factory=dict)
    """What an interrupted run has paid already."""

    @property
    def names(self) -> list[str]:
        """The names of all steps."""
        return [planned.step.name for planned in self.planned]

    @property
    def spends(self) -> dict[str, Fraction]:
        """What each account would be debited."""
        total: dict[str, Fraction] = defaultdict(Fraction)
        for planned in self.planned:
            if planned.debit and not self.simulated:
                total[str(planned.step.account)] += planned.debit
        return dict(total)

    @property
    def due(self) -> dict[str, Fraction]:
        """What each account has still to pay."""
        return {name: amount - self.paid.get(name, Fraction(0)) for name, amount in self.spends.items()}

    @property
    def simulated(self) -> bool:
        """Whether the study asks for a simulation."""
        return self.study.seed is not None

    @property
    def notes(self) -> list[str]:
        """How data were read, where that is not as the files say; each with the step that reads them."""
        return [f"{planned.step.name}: {note}" for planned in self.planned for note in planned.inputs.notes]

    def rows(self) -> list[tuple[str, str, str, str]]:
        """One row per step: name, what it does, what it spends, what it publishes."""
        return [
            (planned.step.name, planned.action.about, self._spent(planned), planned.action.publishes or "nothing")
            for planned in self.planned
        ]

    def _spent(self, planned: Planned) -> str:
        """What a step spends, in words."""
        account = None if self.simulated else planned.step.account
        if planned.guarantee is None:
            return f"recorded in {account}, not debited" if account else "nothing"
        epsilon = planned.guarantee.exact_epsilon
        spent = planned.guarantee.notion.value if epsilon is None else f"epsilon {printed(epsilon, 'up'):g}"
        spent += f" on each of {len(planned.tables)} data sets" if len(planned.tables) > 1 else ""
        if account is None:
            return f"{spent}, no account"
        reason = f" ({planned.reason})" if planned.reason else ""
        return f"{spent} from {account}{reason}" if planned.debit else f"{spent}, recorded in {account}, not debited"


def check_study(study: Study, *, key: Callable[[str], str] | None = None) -> Checked:
    """Read everything that the study names, and refuse what could not be run to its end.

    Parameters
    ----------
    study
        The study.
    key
        For an interrupted run, whose debits stand already: the key of a step's debit in the ledger, by its name.

    Raises
    ------
    BadInput
        Settings, files or names are wrong: the message names all of them, each with its place in the study.
    BudgetExceeded
        The steps together ask for more than an account has left; none of them has run.
    """
    inputs, digests = _read_all(study)
    planned, refusals = [], Refusals()
    for step, step_inputs in zip(study.steps, inputs, strict=True):
        try:
            planned.append(Planned(step, step_inputs, step.action.guarantee(step_inputs)))
        except BadInput as error:
            refusals.add(BadInput(f"{step.place}: {error.argument}", got=error.got, want=error.want))
    refusals.raise_any()
    return _afford(Checked(study, tuple(planned), digests), key)


def _read_all(study: Study) -> tuple[list[Inputs[Any]], dict[str, str]]:
    """What every step is given, and the digest of every file that is read; each table is read once."""
    refusals, digests = Refusals(), dict[str, str]()
    tables: dict[tuple[str, str, tuple[str, ...]], Any] = {}
    kinds: dict[str, str] = {}
    names = {file.path: name for name, file in study.data.items()}

    def read(file: StudyFile, kind: str, extra: tuple[str, ...]) -> Any:
        key, name = (repr(file), kind, extra), names[file.path]
        if key not in tables:
            digests.setdefault(name, file.digest())
            tables[key] = file.read(kind, extra)
            is_same = file.digest() == digests[name]
            require(is_same, f"data.{name}", got=str(file.path), want="a file that does not change while it is read")
        return tables[key]

    inputs = [refusals.attempt(_read_step, study, step, read, kinds, digests) for step in study.steps]
    refusals.raise_any()
    return inputs, digests


def _read_step(
    study: Study, step: StepSpec, read: Callable[..., Any], kinds: dict[str, str], digests: dict[str, str]
) -> Inputs[Any]:
    """The table of a step and its further tables. A name of [data] stands for one kind of data in the whole study."""
    action = step.action

    def file_of(name: str, wanted: tuple[str, ...], setting: str) -> StudyFile:
        file = study.data[name]
        stated = file.kind or kinds.get(name)
        got = Verbatim(f"{name}, which holds {stated}")
        require(stated is None or stated in wanted, f"{step.place}.{setting}", got=got, want=" or ".join(wanted))
        kinds[name] = stated or (wanted[0] if len(wanted) == 1 else kind_of(action, file))
        return replace(file, kind=kinds[name])  # type: ignore[arg-type]

    others: dict[str, list[StudyFile]] = {}
    for parameter in action.parameters():
        for value in parameter.values(action) if parameter.refers is not None else ():
            if parameter.named_data:
                file = file_of(value, (parameter.named_data,), parameter.name)
                others.setdefault(parameter.name, []).append(file)
            else:
                digests[f"{step.name}.{parameter.name}"] = StudyFile(path=value).digest()
    source = None if step.data is None else file_of(step.data, action.kinds, "data")
    if source is not None and not action.in_memory(source):
        digests.setdefault(str(step.data), source.digest())
    return read_inputs(action, source, others, read)


def _afford(checked: Checked, key: Callable[[str], str] | None) -> Checked:
    """Refuse before the first step what would be refused in the last. Debits of an interrupted run count as paid."""
    study, spending = checked.study, _spending(checked)
    if not spending:
        return checked
    remaining, paid = dict(study.accounts), dict.fromkeys(study.accounts, Fraction(0))
    keys = {} if key is None else {planned.step.name: planned.keys(key(planned.step.name)) for planned in spending}
    own_keys = set(chain.from_iterable(keys.values()))
    with Ledger.open(study.ledger) if study.ledger_exists else nullcontext() as ledger:
        opened_accounts = ledger.accounts() if ledger is not None else []
        for account in (account for account in opened_accounts if account.name in study.accounts):
            budget = study.accounts[account.name]
            opened = f"{account.exact_epsilon}, with which it was opened in the ledger"
            require(account.exact_epsilon == budget, f"accounts.{account.name}.epsilon", got=str(budget), want=opened)
            remaining[account.name] = account.exact_remaining
            own = (entry.exact_debit for entry in account.entries() if entry.key in own_keys)
            paid[account.name] = sum(own, Fraction(0))
        known = replace(checked, remaining=remaining, paid=paid)
        for name, amount in known.due.items():
            if amount > remaining[name]:
                reasons = [
                    f"{step.step.name}: {step.reason}" for step in spending if step.step.account == name and step.reason
                ]
                raise BudgetExceeded(name, requested=amount, remaining=remaining[name], reason="; ".join(reasons))
        for step, number, table in ((p.step, n, table) for p in spending for n, table in enumerate(p.tables)):
            if ledger is not None:
                own_key = keys[step.name][number] if keys else None
                ledger.require_free(str(step.account), table, once=step.action.once, key=own_key)
    return known


def _spending(checked: Checked) -> list[Planned]:
    """The steps that would be entered in the ledger; two accounts for the same data are refused."""
    spending = [planned for planned in checked.planned if planned.step.account is not None and not checked.simulated]
    owners: dict[str, str] = {}
    decided: set[str] = set()
    for planned in spending:
        account = str(planned.step.account)
        for identity in (table.identity for table in planned.tables):
            owner = owners.setdefault(identity, account)
            other = f"account {owner!r}, from which an earlier step spends on the same data"
            require(owner == account, f"{planned.step.place}.account", got=account, want=other)
            if planned.action.once:
                once = "one decision of the same reviews: two together say more about who wrote what"
                require(identity not in decided, planned.step.place, got=Verbatim("a second decision"), want=once)
                decided.add(identity)
    return spending
