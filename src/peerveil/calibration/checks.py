"""Arguments of this module, checked once and in one wording."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.randomness import Randomness

Floats: TypeAlias = NDArray[np.float64]
Whole: TypeAlias = NDArray[np.int64]

LARGEST: Final = 1e100
"""Scores, scales and biases beyond this are refused: their squares would overflow."""
SLACK: Final = 1e-9
"""A demand this close to what can be reached is taken as reached: solvers are not more exact."""


def number(argument: str, value: object, *, low: float = -LARGEST, high: float = LARGEST, want: str = "") -> float:
    """A finite number within bounds."""
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not is_number or not low <= float(value) <= high:  # type: ignore[arg-type]
        raise BadInput(argument, got=value, want=want or f"a number from {low:g} to {high:g}")
    return float(value)  # type: ignore[arg-type]


def positive(argument: str, value: object) -> float:
    """A finite number above 0."""
    return number(argument, value, low=1 / LARGEST, want="a finite number above 0")


def probability(argument: str, value: object) -> float:
    """A number from 0 to 1."""
    return number(argument, value, low=0.0, high=1.0, want="a probability")


def noise_level(value: object) -> float:
    """A standard deviation of 0 or more."""
    level = number("noise", value, low=0.0, want="a standard deviation: a finite number, 0 or more")
    if 0 < level < 1 / LARGEST:
        raise BadInput("noise", got=value, want="0 (no noise), or a standard deviation of at least 1e-100")
    return level


def quality_prior(prior: object) -> tuple[float, float]:
    """Mean and standard deviation of papers' qualities."""
    if not isinstance(prior, tuple | list) or len(prior) != 2:
        raise BadInput("prior", got=prior, want="the mean and the standard deviation of qualities, such as (0, 1)")
    return number("prior[0]", prior[0]), positive("prior[1]", prior[1])


def numbers(argument: str, values: Any, *, columns: int | None = None) -> Floats:
    """A finite array of numbers that are not too large."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput(argument, got=values, want="an array of numbers") from None
    if columns is not None and (array.ndim == 0 or array.shape[-1] != columns):
        raise BadInput(argument, got=Verbatim(f"shape {array.shape}"), want=f"{columns} numbers in the last dimension")
    wrong = ~(np.abs(array) <= LARGEST)
    if wrong.any():
        raise BadInput(argument, got=float(array[wrong][0]), want="finite numbers up to 1e100")
    return array


def secure_unless_given(randomness: Randomness | None) -> Randomness:
    """The given source, or the secure one."""
    if randomness is None:
        return Randomness.secure()
    if not isinstance(randomness, Randomness):
        raise BadInput("randomness", got=randomness, want="Randomness.secure(), or Randomness.simulation(seed)")
    return randomness


def one_demand(conference_error: object, adversary_error: object) -> None:
    """Require exactly one of the two errors."""
    if (conference_error is None) == (adversary_error is None):
        got = Verbatim("both" if conference_error is not None else "neither")
        raise BadInput("conference_error, adversary_error", got=got, want="exactly one of them")


def reachable_conference_error(value: object, least: float) -> float:
    """A conference error that some strategy reaches."""
    error = probability("conference_error", value)
    if error < least - SLACK:
        want = f"a number from {least:.6g} to 1 (less is impossible even with full use of the assignment)"
        raise BadInput("conference_error", got=error, want=want)
    return error


def reachable_adversary_error(value: object, most: float) -> float:
    """An adversary error that some strategy reaches."""
    error = probability("adversary_error", value)
    if error > most + SLACK:
        want = f"a number from 0 to {most:.6g} (the published scores alone already let the adversary guess that well)"
        raise BadInput("adversary_error", got=error, want=want)
    return error
