"""Responses for ordered classes and for bounded numbers: what is near the answer is more likely to be reported.

Both publish a report whose expectation is linear in the answer, so that means need no matrix inversion: every report stands
for an unbiased number, ``values[report]``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerveil.core.arrays import Floats
from peerveil.core.errors import BadInput
from peerveil.core.exact import Number, as_array, log_above, number, refuse_first, whole, words
from peerveil.core.guarantee import read_epsilon
from peerveil.core.randomness.response import ClassResponse, UniformSource, inside_threshold, read_classes

MOST_CLASSES: Final = 256
_MOST_LEVELS: Final = 33  # that numbers are rounded to
_ROUNDING_BITS: Final = 53


@dataclass(frozen=True, slots=True, init=False, repr=False)
class OrderedResponse(ClassResponse):
    """A randomized response for classes with an order, such as a scale from 1 to 10.

    Parameters
    ----------
    epsilon
        What is guaranteed; the loss of the response never exceeds it.
    classes
        How many classes there are, or the public list of them in their order.
    reach
        How far from the answer a report still counts as near it, b below; 0 is k-ary response. By default the one that
        estimates best how many people are at or below each class, a rule on epsilon and k alone; a larger one is better for
        means.

    Notes
    -----
    Answers have the codes 0 to k - 1. A report is a whole number y from 0 to k - 1 + 2b: y is near the answer a if
    a <= y <= a + 2b. A uniform whole number u below N = 2^bits decides: if u < inside_below (I below) y is one of the 2b + 1
    near numbers, else one of the k - 1 others, each equally likely (a discrete form of the square wave of Li et al., 2020).

    **Neighbors**: any two answers of one person. **Unit**: one answer. **Proof.** Whatever the answer is, 2b + 1 reports are
    near it and have probability (I/N)/(2b + 1) each, and k - 1 are not and have (1 - I/N)/(k - 1). So the ratio of P[y | a] and
    P[y | a'] is 1, r or 1/r with r = I (k - 1)/((N - I)(2b + 1)), which the constructor makes at most e^epsilon and more than
    1. ∎

    Two probabilities suffice: where a report has more than two, splitting it never loses information (Kairouz, Oh and
    Viswanath, 2014). The expectation of a report is linear in the answer, because near numbers move with it.

    Examples
    --------
    >>> response = OrderedResponse(1, classes=10)
    >>> response.reach, response.reports, response.loss <= 1
    (1, 12, True)
    """

    exact_epsilon: Fraction
    labels: tuple[Any, ...] | None
    k: int
    reach: int
    bits: int
    inside_below: int

    def __init__(self, epsilon: Number, classes: int | Iterable[Any], *, reach: int | None = None) -> None:
        exact_epsilon = read_epsilon(epsilon)
        k, labels = read_classes(classes)
        if k > MOST_CLASSES:
            raise BadInput("classes", got=k, want=f"at most {MOST_CLASSES} ordered classes; for more, a NumberResponse")
        chosen = _best_reach(float(exact_epsilon), k) if reach is None else reach
        b = whole(chosen, "reach", 0, k, want=f"a whole number from 0 to {k}")
        self._set(exact_epsilon, labels, k, b, *inside_threshold(exact_epsilon, 2 * b + 1, k - 1))

    @property
    def reports(self) -> int:
        """How many different reports there are: the numbers from 0 up to, but not including, this one."""
        return self.k + 2 * self.reach

    @property
    def width(self) -> int:
        """Numbers that a draw holds at once."""
        return 1

    @property
    def exact_near(self) -> Fraction:
        """The probability of every single report near the answer."""
        return Fraction(self.inside_below, 2**self.bits * (2 * self.reach + 1))

    @property
    def exact_far(self) -> Fraction:
        """The probability of every single other report."""
        return Fraction(2**self.bits - self.inside_below, 2**self.bits * (self.k - 1))

    @property
    def loss(self) -> float:
        """The privacy loss that the threshold really has, rounded up: at most :attr:`epsilon` (exactly so)."""
        return min(log_above(self.exact_near / self.exact_far), self.epsilon)

    def probabilities(self, answer: int) -> list[Fraction]:
        """The exact distribution of the report for the answer with this code.

        >>> sum(OrderedResponse(1, 5).probabilities(0))
        Fraction(1, 1)
        """
        whole(answer, "answer", 0, self.k - 1, want=f"a code from 0 to {self.k - 1}")
        near = range(answer, answer + 2 * self.reach + 1)
        return [self.exact_near if report in near else self.exact_far for report in range(self.reports)]

    def matrix(self) -> Floats:
        """``matrix[answer, report]``: the probabilities, as floats."""
        distance = np.arange(self.reports) - np.arange(self.k)[:, None]
        near = (distance >= 0) & (distance <= 2 * self.reach)
        return np.where(near, float(self.exact_near), float(self.exact_far))

    @property
    def values(self) -> Floats:
        """The unbiased code that each report stands for: their mean estimates the mean of the codes.

        With q and p the probabilities of a far and a near report, E[y | a] = q sum of all y + (p - q)(2b + 1)(a + b); solved
        for a.

        >>> response = OrderedResponse(1, classes=5)
        >>> (response.matrix() @ response.values + 1).round(9).tolist()
        [1.0, 2.0, 3.0, 4.0, 5.0]
        """
        m, far = self.reports, float(self.exact_far)
        slope = float(self.exact_near - self.exact_far) * (2 * self.reach + 1)
        return np.asarray((np.arange(m) - far * m * (m - 1) / 2) / slope - self.reach)

    def draw(self, codes: NDArray[Any], source: UniformSource) -> NDArray[Any]:
        """A report for every code of a flat array. Both numbers are drawn in any case, so that time tells nothing."""
        drawn, inside_below = self._words(codes.size, source, self.inside_below)
        near = codes.astype(np.int64) + source.integers(0, 2 * self.reach + 1, codes.size)
        far = source.integers(0, self.k - 1, codes.size)
        far += np.where(far >= codes, 2 * self.reach + 1, 0)
        return np.where(drawn < inside_below, near, far)

    def decode(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Reports are whole numbers, not classes."""
        return codes

    def __repr__(self) -> str:
        return self._written(reach=self.reach)

    def __str__(self) -> str:
        inside = math.floor(1000 * Fraction(self.inside_below, 2**self.bits)) / 10
        return (
            f"Ordered response with epsilon {words(self.exact_epsilon)} on {self.k} classes: a report is at most "
            f"{self.reach} from the answer {inside:g}% of the time"
        )


@lru_cache
def _best_reach(epsilon: float, k: int) -> int:
    """The reach with the smallest sum of variances of the shares of people at or below each class; the smallest one of those
    equal to 9 digits. Answers are evenly spread, and the variances are those of the Cramer-Rao bound.
    """
    best, least = 0, math.inf
    contrast = np.eye(k)[:, :-1] - np.eye(k)[:, -1:]  # shares add up to 1
    for reach in range(k // 2 + 1):
        matrix = _matrix(k, reach, epsilon)
        information = matrix / matrix.mean(axis=0) @ matrix.T
        covariance = contrast @ np.linalg.inv(contrast.T @ information @ contrast) @ contrast.T
        error = float(np.diag(covariance.cumsum(axis=0).cumsum(axis=1)).sum())
        if error < least * (1 - 1e-9):
            best, least = reach, error
    return best


def _matrix(k: int, reach: int, epsilon: float) -> Floats:
    """``matrix[answer, report]`` without the rounding of thresholds, for choosing."""
    odds = math.exp(min(epsilon, 64.0))
    distance = np.arange(k + 2 * reach) - np.arange(k)[:, None]
    weight = np.where((distance >= 0) & (distance <= 2 * reach), odds, 1.0)
    return np.asarray(weight / ((2 * reach + 1) * odds + k - 1))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class NumberResponse:
    """A randomized response for numbers between two public bounds.

    Parameters
    ----------
    epsilon
        What is guaranteed; the loss of the response never exceeds it.
    low, high
        The bounds, known beforehand; a number outside is refused.
    levels
        How many evenly spaced levels numbers are rounded to, at random so that the expectation stays. By default the count,
        from 2 to 33, with the smallest variance of an unbiased number in the worst case, a rule on epsilon alone. 2 levels are
        one bit per number (Duchi, Jordan and Wainwright, 2018), best for small epsilon.

    Notes
    -----
    **Neighbors**: any two numbers of one person between the bounds. **Unit**: one number. **Proof.** The number is
    rounded to a level with some distribution over the levels, and the level goes through :class:`OrderedResponse`. So P[y | x]
    is an average of the P[y | level], each at most e^epsilon times any other, and so is at most e^epsilon times any other
    average of them. This holds whatever the distribution is: floats decide only about the rounding, never about the loss. ∎

    Examples
    --------
    >>> response = NumberResponse(1, low=0, high=10)
    >>> response.levels, response.loss <= 1
    (2, True)
    >>> response.values.round(2).tolist()
    [-5.82, 15.82]
    """

    low: float
    high: float
    ordered: OrderedResponse

    def __init__(self, epsilon: Number, *, low: float, high: float, levels: int | None = None) -> None:
        exact_epsilon = read_epsilon(epsilon)
        bottom = number(low, "low", -1e150, 1e150, want="a finite number")
        top = number(high, "high", -1e150, 1e150, want="a finite number")
        if not bottom < top:
            raise BadInput("high", got=high, want=f"a number above low = {low}")
        if levels is None:
            count, reach = _best_levels(float(exact_epsilon))
        else:
            count, reach = _best_levels(float(exact_epsilon), levels, whole(levels, "levels", 2, MOST_CLASSES))
        ordered = OrderedResponse(exact_epsilon, count, reach=reach)
        ClassResponse._set(self, bottom, top, ordered)

    @property
    def levels(self) -> int:
        """How many levels numbers are rounded to."""
        return self.ordered.k

    @property
    def reports(self) -> int:
        """How many different reports there are."""
        return self.ordered.reports

    @property
    def epsilon(self) -> float:
        """The epsilon that was asked for."""
        return self.ordered.epsilon

    @property
    def exact_epsilon(self) -> Fraction:
        """The epsilon that was asked for, exactly."""
        return self.ordered.exact_epsilon

    @property
    def loss(self) -> float:
        """The privacy loss that the thresholds really have, rounded up: at most :attr:`epsilon` (exactly so)."""
        return self.ordered.loss

    @property
    def width(self) -> int:
        """Numbers that a draw holds at once."""
        return 1

    def matrix(self) -> Floats:
        """``matrix[level, report]``: the probabilities, as floats, for numbers that are levels."""
        return self.ordered.matrix()

    @property
    def values(self) -> Floats:
        """The unbiased number that each report stands for: their mean estimates the mean of the numbers."""
        return np.asarray(self.low + (self.high - self.low) * (self.ordered.values / (self.levels - 1)))

    def encode(self, answers: ArrayLike, argument: str = "answers") -> NDArray[Any]:
        """Numbers as places between the bounds, from 0 to levels - 1."""
        values = as_array(answers, argument)
        want = f"a number from {self.low:g} to {self.high:g}"
        if values.size == 0 or values.dtype.kind not in "iuf":
            raise BadInput(argument, got=answers, want=f"at least one number, each from {self.low:g} to {self.high:g}")
        floats = values.astype(np.float64)
        refuse_first(~((floats >= self.low) & (floats <= self.high)), values, argument, want)
        return np.asarray((self.levels - 1) * ((floats - self.low) / (self.high - self.low)))

    def draw(self, codes: NDArray[Any], source: UniformSource) -> NDArray[Any]:
        """A report for every place: round up with a probability that is the fraction, then respond."""
        lower = np.minimum(np.floor(codes), self.levels - 2)
        up = ((codes - lower) * 2.0**_ROUNDING_BITS).astype(np.int64)
        level = lower.astype(np.int64) + (source.integers(0, 2**_ROUNDING_BITS, codes.size) < up)
        return self.ordered.draw(level, source)

    def decode(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Reports are whole numbers; ``values[report]`` is the number that one stands for."""
        return codes

    def __repr__(self) -> str:
        bounds = f"low={self.low!r}, high={self.high!r}"
        return f"NumberResponse({str(self.exact_epsilon)!r}, {bounds}, levels={self.levels})"

    def __str__(self) -> str:
        return (
            f"Response for numbers from {self.low:g} to {self.high:g} with epsilon {words(self.exact_epsilon)}: rounded to "
            f"{self.levels} levels, one of {self.reports} reports is sent"
        )


@lru_cache
def _best_levels(epsilon: float, most: int = _MOST_LEVELS, least: int = 2) -> tuple[int, int]:
    """Levels and reach with the smallest variance of an unbiased number in the worst case."""
    options = [(levels, reach) for levels in range(least, most + 1) for reach in range(levels // 2 + 1)]
    return min(options, key=lambda option: _worst_variance(option[0], option[1], epsilon))


def _worst_variance(levels: int, reach: int, epsilon: float) -> float:
    """The largest variance of an unbiased number, over numbers from 0 to 1."""
    matrix, reports = _matrix(levels, reach, epsilon), np.arange(levels + 2 * reach)
    mean = matrix @ reports
    values = (reports - mean[0]) / (mean[-1] - mean[0])
    squares = matrix @ values**2  # by level
    place = np.linspace(0, 1, 8 * (levels - 1) + 1)
    return float((np.interp(place, np.linspace(0, 1, levels), squares) - place**2).max())
