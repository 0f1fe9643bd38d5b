"""One action by itself, as a command runs it: read, check, debit, run, and write what is public apart from what is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from peerveil.errors import BadInput, Verbatim
from peerveil.files import check_out
from peerveil.study.actions import Context, no_progress
from peerveil.study.inputs import read_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from peerveil.study.actions import Action
    from peerveil.study.inputs import Inputs, Source
    from peerveil.study.outcome import Outcome


@dataclass(frozen=True)
class Executed:
    """What an action gave, and where it was written: each path with whether it may be published."""

    outcome: Outcome
    written: list[tuple[Path, bool]]


def execute(
    action: Action[Any],
    source: Source | None,
    out: Path,
    *,
    others: Mapping[str, Sequence[Source]] | None = None,
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
    check_spending(action, ledger, account, seed)
    check_out(out, force, again="; doing it again costs its own epsilon" if action.spends else "")
    inputs = read_inputs(action, source, others or {})
    action.guarantee(inputs)  # refuses what could not be run
    outcome = _run(action, inputs, ledger, account, seed, progress)
    simulated = seed is not None
    public = out / ("simulated" if simulated else "public")
    parts: list[Any] = [*outcome.files, *outcome.pictures]
    if not all(part.public for part in parts):
        (out / "private").mkdir(parents=True, exist_ok=True, mode=0o700)
    return Executed(outcome, outcome.write(public, out / "private", simulated=simulated))


def _run(
    action: Action[Any],
    inputs: Inputs[Any],
    ledger: str | None,
    account: str | None,
    seed: int | None,
    progress: Callable[[float, str], None],
) -> Outcome:
    from peerveil.randomness import Randomness

    randomness = Randomness.secure() if seed is None else Randomness.simulation(seed)
    if ledger is None:
        return action.run(inputs, Context(randomness, None, progress))
    from peerveil.ledger import Ledger

    with Ledger.open(ledger, create=False) as book:
        return action.run(inputs, Context(randomness, book.account(str(account)), progress))


def check_spending(action: Action[Any], ledger: str | None, account: str | None, seed: int | None) -> None:
    """Refuse what would let a release go uncounted: a ledger without an account, or an account without a ledger."""
    if (ledger is None) is not (account is None):
        missing = "--ledger FILE beside it" if ledger is None else "--account NAME beside --ledger"
        raise BadInput("--account", got=account if account is not None else Verbatim("nothing"), want=missing)
    if ledger is not None and not action.spends:
        raise BadInput("--account", got=account, want=f"no account: {action.name} spends nothing")
    if ledger is not None and seed is not None:
        raise BadInput("--seed", got=seed, want="no seed with a ledger: a simulation is never debited")
