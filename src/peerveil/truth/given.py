"""What an estimator is told beside the reports: checked, and in the form that the iteration reads.

Shares of classes, a start, known answers, and what earlier work says about workers. Each is refused by the name that a user
gave it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.errors import BadInput
from peerveil.truth.loop import ClassPrior

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl
    from numpy.typing import NDArray

    from peerveil.truth.answers import EncodedAnswers
    from peerveil.truth.result import TruthResult

    Floats = NDArray[np.float64]

_PSEUDO: Final = 5.0  # tasks of every class that an estimate of shares begins with
_SHRINK: Final = 0.2  # how far class shares are estimated


def given_shares(given: str | Sequence[float], k: int, *, skewed: bool, likeliest: bool) -> ClassPrior:
    """The shares of the classes.

    Parameters
    ----------
    given
        ``"shrunk"``, ``"uniform"``, ``"estimated"``, or numbers.
    skewed
        Whether the reports speak for classes of different sizes, for ``"shrunk"``.
    likeliest
        Whether estimated shares are those of maximum likelihood, without pseudo-counts.
    """
    if isinstance(given, str):
        if given == "shrunk":
            return ClassPrior(None, k, shrink=_SHRINK) if skewed else ClassPrior(np.full(k, 1 / k), k)
        if given == "uniform":
            return ClassPrior(np.full(k, 1 / k), k, 0.0)
        if given == "estimated":
            return ClassPrior(None, k, 0.0 if likeliest else _PSEUDO)
    else:
        shares = np.asarray(given, dtype=np.float64)
        if shares.shape == (k,) and (shares > 0).all() and abs(float(shares.sum()) - 1) < 1e-6:
            return ClassPrior(shares, k, 0.0)
    raise BadInput("class_prior", got=given, want=f"'shrunk', 'uniform', 'estimated', or {k} shares that add up to 1")


def given_start(given: str | Floats, reports: EncodedAnswers, warm: TruthResult | None = None) -> Floats | None:
    """Posteriors to start from, ``None`` for the votes; those of an earlier result where there is one."""
    if warm is not None:
        start = np.full((len(reports.tasks), reports.k), 1 / reports.k)
        total = reports.votes.sum(axis=1, keepdims=True)
        np.divide(reports.votes, total, out=start, where=total > 0)
        start[reports.codes_of_tasks(warm.tasks.to_list(), "result")] = warm.probabilities
        return start
    if isinstance(given, str):
        return None
    start = np.asarray(given, dtype=np.float64)
    shape = (len(reports.tasks), reports.k)
    if start.shape != shape or not np.isfinite(start).all() or (start < 0).any():
        raise BadInput("start", got=start, want=f"probabilities of shape {shape}")
    return start


def given_gold(gold: Mapping[Any, Any] | None, reports: EncodedAnswers) -> NDArray[np.int32] | None:
    """The class of every task whose answer is known, -1 for the others."""
    if gold is None:
        return None
    known = np.full(len(reports.tasks), -1, dtype=np.int32)
    places = reports.codes_of_tasks(list(gold), "gold")
    known[places] = gold_codes(gold, reports.classes)
    return known


def gold_codes(gold: Mapping[Any, Any], classes: Sequence[Any]) -> NDArray[np.int32]:
    """Known answers as codes."""
    lookup = {c: i for i, c in enumerate(classes)}
    codes = []
    for task, answer in gold.items():
        value = answer.item() if isinstance(answer, np.generic) else answer
        if value not in lookup:
            raise BadInput(f"gold[{task!r}]", got=answer, want=f"one of the classes {list(classes)}")
        codes.append(lookup[value])
    return np.array(codes, dtype=np.int32)


def given_history(history: Mapping[Any, tuple[float, float]] | None, workers: pl.Series) -> Floats | None:
    """Right and wrong answers of each worker in earlier work, two columns; workers who are not here are left out."""
    if history is None:
        return None
    past = np.zeros((len(workers), 2))
    lookup = {worker: i for i, worker in enumerate(workers.to_list())}
    for worker, pair in history.items():
        try:
            right, wrong = (float(x) for x in pair)
        except (TypeError, ValueError):
            raise BadInput(f"history[{worker!r}]", got=pair, want="right and wrong answers, two numbers") from None
        if not (math.isfinite(right) and math.isfinite(wrong) and right >= 0 and wrong >= 0):
            raise BadInput(f"history[{worker!r}]", got=pair, want="two finite numbers, not negative")
        if worker in lookup:
            past[lookup[worker]] = right, wrong
    return past
