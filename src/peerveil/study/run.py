"""Run a study: check, ask, carry out step by step, write the folder. A killed run goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from peerveil.core.errors import PeerveilError
from peerveil.core.files import write_text
from peerveil.core.progress import progress_bar
from peerveil.core.randomness import Randomness
from peerveil.ledger import Account, Entry, Ledger
from peerveil.storage import Address
from peerveil.study.check import Checked, check_study, debit_key
from peerveil.study.execute import Context
from peerveil.study.folder import Folder
from peerveil.study.outcome import Outcome, public_name
from peerveil.study.report import Cost, cost_of, write_reports
from peerveil.study.spec import Study

if TYPE_CHECKING:
    from peerveil.core.guarantee import Guarantee

_LONGEST_PURPOSE: Final = 400


@dataclass(frozen=True)
class StudyRun:
    """A study that ran to its end.

    Attributes
    ----------
    folder : pathlib.Path
        Where everything was written.
    outcomes : dict
        What every step found, by its name.
    costs : list
        What each account paid.
    repeated : tuple of str
        Steps that an earlier, interrupted run had already finished.
    """

    checked: Checked
    folder: Path
    outcomes: dict[str, Outcome]
    costs: list[Cost]
    repeated: tuple[str, ...]

    @property
    def report(self) -> Path:
        """The page for whoever ran the study."""
        return self.folder / "report.html"

    @property
    def public(self) -> Path | None:
        """What may be published; None for a simulation, of which nothing may be."""
        return None if self.checked.simulated else self.folder / "public"


class Declined(PeerveilError):
    """Somebody was asked before spending, and said no."""


class _Once:
    """An account that debits each data set of a step at most once in a run, however often the step is begun.

    If the debit of this step stands in the ledger although the step has no outcome, an earlier process was killed
    between the two. Nothing that it drew was ever written, so the debit still covers one draw.
    """

    def __init__(self, account: Account, title: str, folder: Folder, step: str) -> None:
        self._account, self._title, self._folder, self._step = account, title, folder, step
        self._debits = 0

    def spend(self, guarantee: Guarantee, *, purpose: str, data: Any, randomness: Randomness) -> Entry:
        """Debit, unless this step's debit for the data set stands already; a step names its data sets in the same order."""
        key = debit_key(self._folder.key(self._step), self._debits)
        self._debits += 1
        entry = self._account.find(key)
        if entry is not None and entry.guarantee != guarantee:
            raise PeerveilError(f"the ledger holds another guarantee for this step ({entry.words}); nothing was spent")
        words = f"{self._title}: {purpose}"[:_LONGEST_PURPOSE] + f" [run {self._folder.run}] [step {self._step}]"
        return entry or self._account.spend(guarantee, purpose=words, data=data, randomness=randomness, key=key)


def run_study(
    study: Study | str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    confirm: Callable[[Checked], bool] | None = None,
    progress: bool | None = None,
    on_step: Callable[[int, int, str], None] | None = None,
) -> StudyRun:
    """Run a study to its end, or go on with a run that was interrupted.

    Parameters
    ----------
    study
        A study, or the path of its file.
    out
        The folder to write to; ``out/<name of the study file>`` by default. One folder is one run.
    confirm
        Asked once, after everything was checked and before anything is spent; if it answers False, nothing happens.
        Not asked if nothing (more) would be spent.
    progress
        Show a bar; by default on a terminal only.
    on_step
        Called before each step with how many are done, how many there are, and what it does; and once at the end.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from peerveil.data import synthetic_conference
    >>> text = '''
    ... [study]
    ... title = "How strict are we?"
    ... [accounts.chairs]
    ... epsilon = 3
    ... [data.reviews]
    ... path = "data/reviews.csv"
    ... [[steps]]
    ... action = "release.publish"
    ... data = "reviews"
    ... account = "chairs"
    ... epsilon = 2
    ... weight = "miscalibration"
    ... scale = [1, 10]
    ... '''
    >>> with TemporaryDirectory() as folder:
    ...     _ = synthetic_conference(40, 30).write(f"{folder}/data")
    ...     file = Path(folder) / "study.toml"
    ...     _ = file.write_text(text)
    ...     done = run_study(file, f"{folder}/out")
    ...     sorted(path.name for path in (done.folder / "public" / "release-publish").iterdir())
    ['figure-1.svg', 'means-miscalibration.csv', 'means-miscalibration.json', 'shares.csv']
    """
    plan = study if isinstance(study, Study) else Study.read(study)
    target = Path(out) if out is not None else Path("out") / plan.path.stem
    # everything is read and checked first; only then is a folder begun
    first = None if Folder(target).journal.exists() else check_study(plan)
    if first is not None and first.spends and confirm is not None and not confirm(first):
        raise Declined("nothing was spent, nothing was written")
    with Folder.opened(target, plan) as folder:
        checked = first or check_study(plan, key=folder.key)
        folder.pin_data(checked.digests)
        saved = {name: outcome for name in checked.names if (outcome := folder.outcome(name)) is not None}
        _require_debits(checked, folder, saved)
        left = [planned for planned in checked.planned if planned.step.name not in saved]
        if first is None and any(planned.debit for planned in left) and confirm is not None and not confirm(checked):
            raise Declined("nothing more was spent")
        outcomes, costs = _run_steps(checked, folder, saved, progress, on_step or (lambda *_: None))
        write_reports(folder, checked, outcomes, costs)
    return StudyRun(checked, target, outcomes, costs, tuple(saved))


def _require_debits(checked: Checked, folder: Folder, saved: Collection[str]) -> None:
    """Refuse to go on if the ledger does not hold what the finished steps of this run spent: it was lost or replaced."""
    study = checked.study
    finished = [
        planned for planned in checked.planned if planned.step.name in saved and planned.step.account is not None
    ]
    if not finished or checked.simulated:
        return
    with Ledger.open(study.ledger, create=False) if study.ledger_exists else nullcontext() as ledger:
        accounts = {} if ledger is None else {account.name: account for account in ledger.accounts()}
        for planned in finished:
            account = accounts.get(str(planned.step.account))
            if account is None or (planned.debit and account.find(folder.key(planned.step.name)) is None):
                raise PeerveilError(
                    f"the ledger at {Address.read(study.ledger).shown} was lost or replaced: it does not hold what step "
                    f"{planned.step.name} of this run spent from account {planned.step.account!r}. Restore it from a backup. "
                    "Without one, a run in another --out spends anew, and what was published still counts. Nothing was spent now"
                )


def _run_steps(
    checked: Checked, folder: Folder, saved: dict[str, Outcome], progress: bool | None, on_step: Callable[..., None]
) -> tuple[dict[str, Outcome], list[Cost]]:
    study, total = checked.study, len(checked.planned)
    outcomes: dict[str, Outcome] = {}
    costs: list[Cost] = []
    with ExitStack() as stack:
        accounts = sorted({planned.step.account for planned in checked.planned if planned.step.account is not None})
        ledger = stack.enter_context(Ledger.open(study.ledger)) if accounts and not checked.simulated else None
        advance = stack.enter_context(progress_bar("steps", total=total, show=progress))
        for number, planned in enumerate(checked.planned):
            step = planned.step
            on_step(number, total, planned.action.about)
            if step.name in saved:
                outcomes[step.name] = saved[step.name]
                folder.make_files(step.name, saved[step.name])
            else:
                seed = study.seed
                randomness = Randomness.secure() if seed is None else Randomness.simulation(seed * 1000 + number)
                account: Any = None
                if ledger is not None and step.account is not None:
                    real = ledger.account(step.account, epsilon=study.accounts[step.account])
                    account = _Once(real, study.title, folder, step.name)
                outcomes[step.name] = planned.action.run(planned.inputs, Context(randomness, account))
                folder.keep(step.name, outcomes[step.name])
            advance(1)
        on_step(total, total, "writing the report")
        if ledger is not None:
            write_text(folder.public / "ledger.csv", ledger.to_csv(*accounts))
            keys = {key for planned in checked.planned for key in planned.keys(folder.key(planned.step.name))}
            costs = [cost_of(ledger.account(name), keys) for name in accounts]
    _write_results(folder, checked, outcomes)
    return outcomes, costs


def _write_results(folder: Folder, checked: Checked, outcomes: dict[str, Outcome]) -> None:
    """What programs may read: public parts only."""
    steps = [
        {"name": planned.step.name, "action": planned.action.name, **outcomes[planned.step.name].public_results()}
        for planned in checked.planned
    ]
    data = {"study": checked.study.title, "simulated": checked.simulated, "steps": steps}
    text = json.dumps(data, indent=2, allow_nan=False) + "\n"
    write_text(folder.public / public_name("results.json", folder.simulated), text)
