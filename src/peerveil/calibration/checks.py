"""Arguments of this room, checked once and in one wording."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.randomness import Randomness

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST: Final = 1e100
"""Scores, scales and biases beyond this are refused: their squares would overflow."""


def number(argument: str, value: object, *, low: float = -LARGEST, high: float = LARGEST, want: str = "") -> float:
    """A finite number within bounds."""
    good = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not good or not low <= float(value) <= high:  # type: ignore[arg-type]
        raise BadInput(argument, got=value, want=want or f"a number from {low:g} to {high:g}")
    return float(value)  # type: ignore[arg-type]


def positive(argument: str, value: object) -> float:
    """A finite number above 0."""
    return number(argument, value, low=1 / LARGEST, want="a finite number above 0")


def noise_level(value: object, argument: str = "noise") -> float:
    """A standard deviation of 0 or more."""
    level = number(argument, value, low=0.0, want="a standard deviation: a finite number, 0 or more")
    if 0 < level < 1 / LARGEST:
        raise BadInput(argument, got=value, want="0 (no noise), or a standard deviation of at least 1e-100")
    return level


def quality_prior(prior: object) -> tuple[float, float]:
    """Mean and standard deviation of papers' qualities."""
    if not isinstance(prior, tuple | list) or len(prior) != 2:
        raise BadInput("prior", got=prior, want="the mean and the standard deviation of qualities, such as (0, 1)")
    return number("prior[0]", prior[0]), positive("prior[1]", prior[1])


def numbers(argument: str, values: Any, *, columns: int | None = None) -> NDArray[np.float64]:
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


def weights(argument: str, values: Any, count: int) -> NDArray[np.float64]:
    """Prior probabilities, made to add up to 1."""
    array = numbers(argument, values)
    if array.shape != (count,) or (array < 0).any() or not array.sum() > 0:
        raise BadInput(argument, got=values, want=f"{count} weights, none negative and not all 0")
    return np.asarray(array / array.sum(), dtype=np.float64)


def secure_unless_given(randomness: Randomness | None) -> Randomness:
    """The given source, or the secure one."""
    if randomness is None:
        return Randomness.secure()
    if not isinstance(randomness, Randomness):
        raise BadInput("randomness", got=randomness, want="Randomness.secure(), or Randomness.simulation(seed)")
    return randomness


def one_demand(conference_error: object, adversary_error: object) -> None:
    """Exactly one of the two errors is asked for."""
    if (conference_error is None) == (adversary_error is None):
        raise BadInput(
            "conference_error, adversary_error",
            got=Verbatim("both" if conference_error is not None else "neither"),
            want="exactly one of them",
        )


def infeasible(argument: str, asked: float, low: float, high: float, why: str) -> BadInput:
    """The refusal of a demand that no strategy meets; it names what can be had."""
    return BadInput(argument, got=asked, want=f"a number from {low:.6g} to {high:.6g} ({why})")
