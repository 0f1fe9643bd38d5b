"""Theorems 2 to 4 beside practice: abilities, wisdom, bounds, and whether the conditions hold on this data.

They usually do not. Theorem 2 asks lambda to be at least (16/v) sqrt(log m / m) and at most 1/8 - (1/2) sqrt(log m / m): no
lambda does so for any m below 213,800, even if v = 1 (erratum). Its proof also needs a condition that it does not list, and that
the instance of Theorem 4 cannot meet, so that Theorem 4 is unproven as stated; the reproduction shows it by experiment.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from peerveil.core.arrays import Floats
from peerveil.core.errors import BadInput
from peerveil.core.guarantee import read_epsilon

if TYPE_CHECKING:
    from peerveil.core.exact import Number


def effective_ability(abilities: ArrayLike) -> Floats:
    """Equation (12): how far from chance, in either direction; somebody who is always wrong tells as much.

    >>> effective_ability([0.9, 0.2]).tolist()
    [0.9, 0.8]
    """
    p = _abilities(abilities)
    return np.maximum(p, 1 - p)


def private_effective_ability(abilities: ArrayLike, epsilon: Number | None) -> Floats:
    """Equation (11): what is left of it after the response.

    >>> private_effective_ability([1.0, 0.5], 1).round(4).tolist()
    [0.7311, 0.5]
    """
    return 0.5 + _contrast(epsilon) * (effective_ability(abilities) - 0.5)


def collective_private_wisdom(abilities: ArrayLike, epsilon: Number | None) -> float:
    """Equation (13), the mean of (2 mu - 1)^2.

    >>> round(collective_private_wisdom([1.0, 0.5], 1), 4)
    0.1068
    """
    return float(np.mean((2 * private_effective_ability(abilities, epsilon) - 1) ** 2))


def lambda_interval(tasks: int, wisdom: float) -> tuple[float, float]:
    """Theorem 2: the two ends of (15); it is empty if the first is above the second.

    >>> [lambda_interval(m, 1.0)[0] <= lambda_interval(m, 1.0)[1] for m in (213_700, 213_900)]
    [False, True]
    """
    root = math.sqrt(math.log(tasks) / tasks)
    return (math.inf if wisdom <= 0 else 16 / wisdom * root), 0.125 - 0.5 * root


def fewest_tasks(wisdom: float) -> int:
    """Theorem 2: the smallest number of tasks at which (15) allows any lambda: sqrt(log m / m) falls with m.

    >>> fewest_tasks(1.0)
    213845
    """
    low, high = 3, 10**12
    while low < high:
        middle = (low + high) // 2
        first, last = lambda_interval(middle, wisdom)
        low, high = (low, middle) if first <= last else (middle + 1, high)
    return low


def label_error_bound(workers: int, wisdom: float) -> float:
    """Theorem 2, (16): 2 exp(-n v / 2). At epsilon 0 it is 2, not 1/2 as the paper says.

    >>> label_error_bound(100, 0.0)
    2.0
    """
    return 2 * math.exp(-0.5 * workers * wisdom)


def ability_error_bound(tasks: int, epsilon: Number) -> float:
    """Theorem 3, (17): 6 sqrt(log m / (m epsilon^2)), for epsilon at most 1."""
    value = float(read_epsilon(epsilon))
    if value > 1:
        raise BadInput("epsilon", got=epsilon, want="at most 1: Theorem 3 is for strong privacy")
    return 6 * math.sqrt(math.log(tasks) / tasks) / value


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of Theorem 2: what it asks, what the data have, and whether that is enough."""

    name: str
    asks: str
    has: str
    holds: bool


@dataclass(frozen=True, slots=True)
class TheoremCheck:
    """Theorem 2 on given data.

    Attributes
    ----------
    bound
        (16), which holds only if every condition does.
    """

    tasks: int
    workers: int
    wisdom: float
    bound: float
    conditions: tuple[Condition, ...]

    @property
    def holds(self) -> bool:
        """Whether the theorem speaks about these data at all."""
        return all(c.holds for c in self.conditions)

    def __str__(self) -> str:
        lines = [
            f"{'holds' if c.holds else 'FAILS':>5}  {c.name}: asks {c.asks}; here {c.has}" for c in self.conditions
        ]
        verdict = (
            f"Theorem 2 applies: at most {100 * self.bound:.3g}% of the labels are wrong, with high probability."
            if self.holds
            else "Theorem 2 does not apply to these data: "
            + ", ".join(c.name for c in self.conditions if not c.holds)
            + (" fails." if sum(not c.holds for c in self.conditions) == 1 else " fail.")
        )
        return "\n".join([*lines, verdict])

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values."""
        rows = [{"name": c.name, "asks": c.asks, "has": c.has, "holds": c.holds} for c in self.conditions]
        return {
            "tasks": self.tasks,
            "workers": self.workers,
            "wisdom": self.wisdom,
            "bound": self.bound,
            "holds": self.holds,
            "conditions": rows,
        }


def check_theorem_2(
    tasks: int, abilities: ArrayLike, epsilon: Number | None, *, answered: float = 1.0, start_error: float | None = None
) -> TheoremCheck:
    """Which conditions of Theorem 2 hold.

    Parameters
    ----------
    tasks
        How many there are (m).
    abilities
        True abilities, or estimates of them; one a worker (n of them).
    answered
        The share of all (task, worker) pairs that was answered.
    start_error
        The share of wrong labels at the start, if it is known.

    Notes
    -----
    Steps (33) to (34) of the proof need (4n/lambda) sqrt(log m/m) + 4 log(1/lambda) sqrt(n log m) <= n v/2. The range (15) of
    lambda takes care of the first term only, with n v/4; the second needs n v^2 >= 256 log^2(1/lambda) log m then, and at
    least 64 log^2(1/lambda) log m in any case. We check the weaker one, at the largest lambda that (15) can allow.

    Examples
    --------
    >>> found = check_theorem_2(1000, [0.8] * 100, 1)
    >>> found.holds, [c.name for c in found.conditions if not c.holds]
    (False, ['lambda', 'the unlisted one'])
    """
    p = _abilities(abilities)
    n, m = p.size, int(tasks)
    if m < 2:
        raise BadInput("tasks", got=tasks, want="at least 2")
    wisdom = collective_private_wisdom(p, epsilon)
    low, high = lambda_interval(m, wisdom)
    log = math.log(m)
    needed = 64 * math.log(8) ** 2 * log  # no lambda above 1/8 is allowed
    rows = [
        Condition("every worker answers every task", "100%", f"{100 * answered:.3g}%", answered >= 1),
        Condition("sizes", "n <= m <= e^n", f"n = {n:,}, m = {m:,}", n <= m and log <= n),
        Condition("wisdom", f"log(m)/n = {log / n:.3g} at most v", f"v = {wisdom:.3g}", log / n <= wisdom),
        Condition(
            "lambda", "16/v sqrt(log m/m) <= lambda <= 1/8 - sqrt(log m/m)/2", f"{low:.3g} and {high:.3g}", low <= high
        ),
        Condition("the unlisted one", f"n v^2 >= {needed:.3g}", f"{n * wisdom**2:.3g}", n * wisdom**2 >= needed),
    ]
    if start_error is not None:
        limit = math.sqrt(log / m)
        rows.append(Condition("start", f"error at most {limit:.3g}", f"{start_error:.3g}", start_error <= limit))
    return TheoremCheck(m, n, wisdom, label_error_bound(n, wisdom), tuple(rows))


def _abilities(abilities: ArrayLike) -> Floats:
    p = np.asarray(abilities, dtype=np.float64).ravel()
    if p.size == 0 or not np.isfinite(p).all() or (p < 0).any() or (p > 1).any():
        raise BadInput("abilities", got=abilities, want="numbers from 0 to 1, at least one")
    return p


def _contrast(epsilon: Number | None) -> float:
    return 1.0 if epsilon is None else math.tanh(float(read_epsilon(epsilon)) / 2)
