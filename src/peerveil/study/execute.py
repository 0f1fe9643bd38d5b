"""One action by itself, as a command runs it: its data are read, its account is debited, its results are written.

What is public and what is not go to different folders. A study (:mod:`peerveil.study.run`) does the same for many actions.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.files import check_out
from peerveil.study.actions import Context, no_progress
from peerveil.study.inputs import read_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from peerveil.ledger import Account
    from peerveil.study.actions import Action
    from peerveil.study.inputs import DataFile
    from peerveil.study.outcome import Outcome


@dataclass(frozen=True)
class Executed:
    """What an action gave, and where it was written: each path with whether it may be published."""

    outcome: Outcome
    written: list[tuple[Path, bool]]


def execute(
    action: Action[Any],
    source: DataFile | None,
    out: Path,
    *,
    others: Mapping[str, Sequence[DataFile]] | None = None,
    ledger: str | None = None,
    account: str | None = None,
    seed: int | None = None,
    force: bool = False,
    progress: Callable[[float, str], None] = no_progress,
) -> Executed:
    """Run an action into a folder: ``public/`` may be published, ``private/`` must not.

    Nothing is read before the folder and the account are known to be usable, and nothing is spent before the data are known
    to allow the action.
    """
    from peerveil.core.randomness import Randomness

    check_spending(action, ledger, account, seed)
    if action.drawn_once and out.is_dir() and any(out.iterdir()):
        want = "a new or empty folder: this is drawn once, and a second draw from the same data reveals more"
        raise BadInput("--out", got=Verbatim(f"{out}, which is not empty"), want=want)
    check_out(out, force, again="; doing it again costs its own epsilon" if action.spends else "")
    inputs = read_inputs(action, source, others or {})
    action.guarantee(inputs)  # refuses what could not be run
    randomness = Randomness.secure() if seed is None else Randomness.simulation(seed)
    with _opened(ledger, account) as debited:
        outcome = action.run(inputs, Context(randomness, debited, progress))
    public = out / ("public" if seed is None else "simulated")
    return Executed(outcome, outcome.write(public, out / "private", simulated=seed is not None))


@contextmanager
def _opened(ledger: str | None, account: str | None) -> Iterator[Account | None]:
    """The account to debit, if one was named."""
    if ledger is None:
        yield None
        return
    from peerveil.ledger import Ledger

    with Ledger.open(ledger, create=False) as opened:
        yield opened.account(str(account))


def check_spending(action: Action[Any], ledger: str | None, account: str | None, seed: int | None) -> None:
    """Refuse what would let a release go uncounted: a ledger without an account, or an account without a ledger."""
    if (ledger is None) is not (account is None):
        missing = "--ledger FILE beside it" if ledger is None else "--account NAME beside --ledger"
        raise BadInput("--account", got=account if account is not None else Verbatim("nothing"), want=missing)
    if ledger is not None and not action.spends:
        raise BadInput("--account", got=account, want=f"no account: {action.name} spends nothing")
    if ledger is not None and seed is not None:
        raise BadInput("--seed", got=seed, want="no seed with a ledger: a simulation is never debited")
