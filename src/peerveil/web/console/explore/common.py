"""What all explorations share: the epsilon slider, percentages, the attacker's bound, and sweeps over settings.

**Why one formula serves every prior.** Let an attacker consider several cases possible before anything is published, the
likeliest with probability p: that guess is correct with probability p. Whatever is published is at most e^epsilon times as
likely in one case as in another, so after it no case is likelier than p e^epsilon/(p e^epsilon + 1 - p), which grows with p.
The best guess is therefore correct at most that often. Values are rounded up.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.optimize import isotonic_regression

from peerveil.core.exact import exp_bounds
from peerveil.core.guarantee import read_epsilon
from peerveil.core.guarantee.wording import rounded
from peerveil.web.console.explore.exploration import Chart, Control, Series

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

EPSILONS: Final = ("0.1", "0.2", "0.3", "0.5", "1", "2", "3", "5", "10")
"""The values of epsilon sliders."""
SMOOTHED: Final = " Simulated values use a few draws per setting, and their curves are smoothed."
"""Added wherever a curve was smoothed."""
_MAX_EPSILON: Final = 30  # nothing is guaranteed above it
_EPSILON_HELP: Final = (
    "Strength of the guarantee. A smaller epsilon reveals less about one person and makes the result less accurate."
)


def epsilon_control(label: str) -> Control:
    """The epsilon slider."""
    return Control("epsilon", label, EPSILONS, "1", _EPSILON_HELP)


def success_bound(epsilon: str, prior: Fraction) -> Fraction:
    """How often an attacker is correct at most, who is correct with probability ``prior`` without the release."""
    exact = read_epsilon(epsilon)
    if exact > _MAX_EPSILON:
        return Fraction(1)
    high = exp_bounds(exact)[1]
    return prior * high / (1 - prior + prior * high)


def success_percent(epsilon: str, prior: Fraction) -> str:
    """The bound in percent, rounded up.

    >>> success_percent("0.2", Fraction(1, 10)), success_percent("1", Fraction(1, 2))
    ('12%', '73.2%')
    """
    return f"{rounded(100 * success_bound(epsilon, prior), math.ceil)}%"


def success_chart(prior: Fraction, target: str) -> Chart:
    """How often an attacker can be correct, against epsilon; exact."""
    return Chart(
        f"How often the best attacker can be correct about {target}.",
        "correct guesses (%)",
        (
            Series("at most, with\nthis guarantee", [float(success_bound(e, prior)) for e in EPSILONS], "leak"),
            Series("today", float(prior), "truth", dashed=True),
        ),
    )


def percent(share: float) -> str:
    """A simulated share in percent.

    >>> percent(0.2514), percent(1.0), percent(0.004), percent(0.0)
    ('25%', '100%', '0.4%', '0%')
    """
    value = 100 * share
    return f"{value:.1f}".removesuffix(".0") + "%" if 0 < value < 9.95 else f"{value:.0f}%"


def first_epsilon(suffices: Iterable[bool]) -> str | None:
    """The smallest epsilon that suffices, if one does."""
    return next((epsilon for epsilon, enough in zip(EPSILONS, suffices, strict=True) if enough), None)


def sweep(progress: Callable[[float], None], compute: Callable[..., Any], *values: Iterable[str]) -> dict[str, Any]:
    """A function at every combination of values, by the values joined with spaces; reports progress."""
    settings = list(product(*values))
    results = {}
    for done, setting in enumerate(settings):
        progress(done / len(settings))
        results[" ".join(setting)] = compute(*setting)
    return results


def rising(values: Sequence[float]) -> list[float]:
    """The nearest values (least squares) that never fall.

    A few draws may suggest that more epsilon makes a result worse. It never does: whoever has more epsilon can add noise
    until they have less.

    >>> rising([1.0, 3.0, 2.0, 4.0])
    [1.0, 2.5, 2.5, 4.0]
    """
    return [float(value) for value in isotonic_regression(np.asarray(values, dtype=np.float64)).x]


def falling(values: Sequence[float]) -> list[float]:
    """The nearest values that never rise."""
    return [-value for value in rising([-value for value in values])]
