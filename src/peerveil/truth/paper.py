"""Algorithm 1 of the paper, the projected one-coin method, on sparse answers of two classes.

What differs from the print, and why (docs/errata.md): sums run over the tasks that a worker answered, since nobody answers all
of them; the last sum of (4) has 1 - y_j; lambda is chosen by a rule, because Theorem 2's interval for it is empty for
all but enormous data.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.errors import BadInput, Verbatim
from peerveil.truth.confusion import CoinModel
from peerveil.truth.loop import ClassPrior, Engine, Fit, iterate
from peerveil.truth.theory import lambda_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from peerveil.truth.abilities import Channel

    Floats = NDArray[np.float64]


def choose_lambda(rule: str | float, channel: Channel, tasks: int, wisdom: float | None = None) -> float:
    """The lambda of the projection (10).

    Parameters
    ----------
    rule
        ``"rule"``: 1/(1 + e^epsilon), the least share of hits that the response can produce; ``"theorem"``: the smallest that
        (15) allows, refused if there is none; or a number.
    wisdom
        The collective private wisdom, for ``"theorem"``.

    Examples
    --------
    >>> from peerveil.truth.abilities import Channel
    >>> round(choose_lambda("rule", Channel.of(1.0, 2), 1000), 4)
    0.2689
    """
    if rule == "rule":
        return max(channel.other, 1e-6)
    if rule == "theorem":
        low, high = lambda_interval(tasks, 1.0 if wisdom is None else wisdom)
        if low > high:
            got = Verbatim(
                f"{tasks:,} tasks, for which (15) asks lambda to be at least {low:.3g} and at most {high:.3g}"
            )
            raise BadInput("lambda_", got=got, want="more tasks, or lambda_='rule'")
        return low
    if isinstance(rule, bool) or not isinstance(rule, (int, float)) or not 0 < rule < 0.5:
        raise BadInput("lambda_", got=rule, want="'rule', 'theorem', or a number between 0 and 1/2")
    return float(rule)


def fit_as_printed(
    engine: Engine, channel: Channel, lambda_: str | float, tasks: int, start: Floats | None, settings: dict[str, Any]
) -> Fit:
    """Iterate (10), (7) and (8), then step 7. Convergence is judged by F of (4), which is what the iteration climbs.

    With y at its maximum given p, F(p, y) is the logarithm of (2) plus m ln 2: the sum of log normalisers.
    """
    if channel.k != 2:
        raise BadInput("model", got="as-printed", want=f"two classes for the paper's method; there are {channel.k}")
    if lambda_ == "theorem":
        first = fit_as_printed(engine, channel, "rule", tasks, start, settings)
        wisdom = float(np.mean((2 * np.asarray(first.summary.details["shown"]) - 1) ** 2))
        lambda_ = choose_lambda("theorem", channel, tasks, wisdom)
    least = choose_lambda(lambda_, channel, tasks)
    uniform = ClassPrior(np.array([0.5, 0.5]), 2, 0.0)
    fit = iterate(engine, CoinModel(channel, (least, 1 - least)), uniform, start=start, **settings)
    fit.summary.details["lambda"] = least
    return fit


def objective_of_equation_4(shown: Floats, y: Floats, task: Any, worker: Any, report: Any) -> float:
    """F(p, y) with 1 - y_j in its second sum, for reports given as three columns."""
    p, soft = shown[worker], y[task]
    own, other = np.where(report == 1, np.log(p), np.log1p(-p)), np.where(report == 1, np.log1p(-p), np.log(p))
    entropy = [-v * math.log(v) if v > 0 else 0.0 for v in np.concatenate([y, 1 - y])]
    return float((soft * own + (1 - soft) * other).sum() + math.fsum(entropy))


def objective_of_equation_4_as_printed(shown: Floats, y: Floats, task: Any, worker: Any, report: Any) -> float:
    """F(p, y) with 1 - y_i in its second sum: the worker's index on a task's label (needs as many tasks as workers)."""
    p, soft, odd = shown[worker], y[task], y[worker]
    own, other = np.where(report == 1, np.log(p), np.log1p(-p)), np.where(report == 1, np.log1p(-p), np.log(p))
    entropy = [-v * math.log(v) if v > 0 else 0.0 for v in np.concatenate([y, 1 - y])]
    return float((soft * own + (1 - odd) * other).sum() + math.fsum(entropy))
