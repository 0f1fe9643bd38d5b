"""Before anything is spent: read all data, read all settings, and say what would be spent and published."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from peerveil import judgements
from peerveil.errors import BadInput, Verbatim
from peerveil.ledger import BudgetExceeded, Ledger
from peerveil.numerics.exact import printed
from peerveil.study.problems import Problems
from peerveil.study.spec import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from peerveil.guarantee import Guarantee
    from peerveil.study.spec import DataFile, StepSpec, Study
    from peerveil.study.step import Step

_ROOMS: Final = ("release", "timing", "calibration", "rankings", "truth", "audit")


def all_steps() -> dict[tuple[str, str], type[Step]]:
    """Every step that a study can have, by room and what it does."""
    found: dict[tuple[str, str], type[Step]] = {}
    for room in _ROOMS:
        for kind in import_module(f"peerveil.study.{room}").STEPS:
            found[kind.room, kind.do] = kind
    return found


@dataclass(frozen=True)
class Planned:
    """A step that was checked against its data."""

    step: Step
    table: Any
    guarantee: Guarantee | None

    @property
    def debit(self) -> Fraction:
        """What it takes from its account: its epsilon, where its notion of privacy adds up."""
        if self.guarantee is None or self.step.spec.account is None or not self.guarantee.notion.adds_up:
            return Fraction(0)
        return self.guarantee.exact_epsilon or Fraction(0)


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
    def spends(self) -> dict[str, Fraction]:
        """What each account would be debited."""
        total: dict[str, Fraction] = defaultdict(Fraction)
        for one in self.planned:
            if one.step.spec.account is not None and not self.simulated:
                total[one.step.spec.account] += one.debit
        return {name: amount for name, amount in total.items() if amount}

    @property
    def due(self) -> dict[str, Fraction]:
        """What each account has still to pay."""
        return {name: amount - self.paid.get(name, Fraction(0)) for name, amount in self.spends.items()}

    @property
    def simulated(self) -> bool:
        """Whether the study asks for a simulation."""
        return self.study.seed is not None

    def rows(self) -> list[tuple[str, str, str, str]]:
        """A row a step: name, what it does, what it spends, what it publishes."""
        out = []
        for one in self.planned:
            spec = one.step.spec
            spent = f"recorded in {spec.account}, not debited" if spec.account and not self.simulated else "nothing"
            if one.guarantee is not None:
                epsilon = one.guarantee.exact_epsilon
                spent = f"epsilon {printed(epsilon, 'up'):g}" if epsilon is not None else one.guarantee.notion.value
                if spec.account and not self.simulated:
                    spent += f" from {spec.account}" if one.debit else f", recorded in {spec.account}, not debited"
                else:
                    spent += ", no account"
            out.append((spec.name, one.step.about, spent, one.step.output))
        return out


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
    steps = make_steps(study)
    tables, digests = _read_all(study, steps)
    planned, problems = [], Problems()
    for step in steps:
        table = tables[step.spec.data] if step.spec.data else None
        step.file = study.data[step.spec.data] if step.spec.data else None
        for setting in step.also:
            if (name := step.settings[setting]) is not None:
                step.tables[setting] = tables[name]
        try:
            planned.append(Planned(step, table, step.promise(table)))
        except BadInput as error:
            problems.add(BadInput(f"{step.spec.place}: {error.argument}", got=error.got, want=error.want))
    problems.raise_any()
    return _afford(Checked(study, tuple(planned), digests), key)


def make_steps(study: Study) -> list[Step]:
    """The steps with their settings read; all that is wrong with them is refused at once."""
    kinds, problems = all_steps(), Problems()
    steps = [problems.attempt(_make_step, spec, kinds, study.seed is not None) for spec in study.steps]
    problems.raise_any()
    return steps


def _make_step(spec: StepSpec, kinds: Mapping[tuple[str, str], type[Step]], simulated: bool) -> Step:
    kind = kinds.get((spec.room, spec.do))
    if kind is None:
        known = ", ".join(f"{room}/{do}" for room, do in kinds)
        raise BadInput(spec.place, got=f"{spec.room}/{spec.do}", want=f"one of {known}")
    problems = Problems()
    step = problems.attempt(kind, spec)
    place = f"{spec.place}.account"
    if kind.spends and spec.account is None and not simulated:
        problems.add(BadInput(place, got=None, want="the account to debit, a name under [accounts]"))
    if not kind.spends and spec.account is not None:
        problems.add(BadInput(place, got=spec.account, want="no account: this step spends nothing"))
    problems.raise_any()
    return step


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _read_all(study: Study, steps: list[Step]) -> tuple[dict[str, Any], dict[str, str]]:
    wanted: dict[str, str] = {}
    problems = Problems()
    for step in steps:
        names = [(step.spec.data, step.wants, "data")]
        names += [(step.settings[setting], kind, setting) for setting, kind in step.also.items()]
        for name, kind, setting in names:
            if name is None or kind is None:
                continue
            place = f"{step.spec.place}.{setting}"
            if name not in study.data:
                want = f"one of the names under [data] ({', '.join(study.data)})"
                problems.add(BadInput(place, got=name, want=want))
                continue
            stated = study.data[name].kind or wanted.get(name)
            if stated not in (None, kind):
                problems.add(BadInput(place, got=Verbatim(f"{name}, which holds {stated}"), want=kind))
            else:
                wanted[name] = kind
    problems.raise_any()
    tables, digests = {}, {}
    for name, kind in wanted.items():
        tables[name], digests[name] = problems.attempt(_read, study.data[name], kind, default=(None, ""))
    problems.raise_any()
    return tables, digests


def _read(file: DataFile, kind: str) -> tuple[Any, str]:
    """The table, and the digest of the file it came from, which must not change while it is read."""
    assert kind in KINDS
    before = digest(file.path)
    table: Any = getattr(judgements, kind.capitalize())
    options = {"columns": dict(file.columns)} if file.columns else {}
    found = table.read(file.path, format=file.format, **options)
    if digest(file.path) != before:
        raise BadInput(f"data.{file.name}", got=str(file.path), want="a file that nobody changes while it is read")
    return found, before


def _afford(checked: Checked, key: Callable[[str], str] | None) -> Checked:
    """Refuse before the first step what would be refused in the last. Debits of an interrupted run count as paid."""
    study, spending = checked.study, _spending(checked)
    if not spending:
        return checked
    remaining, paid = dict(study.accounts), dict.fromkeys(study.accounts, Fraction(0))
    exists = "://" in study.ledger or Path(study.ledger).exists()
    with Ledger.open(study.ledger) if exists else nullcontext() as book:
        for account in book.accounts() if book is not None else ():
            if account.name not in remaining:
                continue
            if account.exact_epsilon != remaining[account.name]:
                raise BadInput(f"accounts.{account.name}.epsilon", got=str(remaining[account.name]),
                               want=f"{account.exact_epsilon}, with which it was opened in the ledger")  # fmt: skip
            remaining[account.name] = account.exact_remaining
            if key is not None:
                ours = {key(one.step.spec.name) for one in spending}
                paid[account.name] = sum((e.exact_debit for e in account.entries() if e.key in ours), Fraction(0))
        known = replace(checked, remaining=remaining, paid=paid)
        for name, amount in known.due.items():
            if amount > remaining[name]:
                raise BudgetExceeded(name, requested=amount, remaining=remaining[name])
        if book is not None:
            for one in spending:
                spec = one.step.spec
                own = None if key is None else key(spec.name)
                book.require_free(str(spec.account), one.table, once=one.step.once, key=own)
    return known


def _spending(checked: Checked) -> list[Planned]:
    """The steps that would be entered in the ledger; two accounts for the same data are refused."""
    spending = [one for one in checked.planned if one.step.spec.account is not None and not checked.simulated]
    owners: dict[str, str] = {}
    decided: set[str] = set()
    for one in spending:
        account = str(one.step.spec.account)
        owner = owners.setdefault(one.table.identity, account)
        if owner != account:
            want = f"account {owner!r}, from which an earlier step spends on the same data"
            raise BadInput(f"{one.step.spec.place}.account", got=account, want=want)
        if one.step.once and one.table.identity in decided:
            want = "one decision of the same reviews: two together say more about who wrote what"
            raise BadInput(one.step.spec.place, got=Verbatim("a second decision"), want=want)
        if one.step.once:
            decided.add(one.table.identity)
    return spending
