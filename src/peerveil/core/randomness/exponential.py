"""Exact Laplace noise from uniform bits: comparisons and whole-number arithmetic, one rounding at the end.

**The exponential variable** (von Neumann, 1951). Let U be uniform on [0, 1) and compare it with further uniforms as long as
they decrease: U > U_2 > ... > U_n, U_(n+1) >= U_n. Given U = u, the run has at least n numbers with probability
u^(n-1) / (n-1)!, so its length is odd with probability sum over odd n of u^(n-1) / (n-1)! - u^n / n! = e^-u. If it is odd, keep
U; else count one failure and start again. A failure has probability 1/e, so W failures have probability e^-W (1 - 1/e); U has
density proportional to e^-u and is independent of W. Hence W + U has density e^-t: it is exponential. ∎

**Infinitely many bits.** Of every uniform only the bits that a comparison needs are drawn; where two are equal so far, both
get more. So W + U is the real number of the proof, known up to an interval, and :func:`evaluate` draws bits until a monotone
function has one value on the whole interval. What comes out is that function of an exactly exponential variable. ∎

**Noise.** ± b E is Laplace with scale b: as a real number it is added to the value, and the sum is rounded once, to the nearest
float. Rounding is post-processing, so the guarantee of real-valued Laplace noise holds for the floats. floor(b E) is n with
probability e^(-n/b) (1 - e^(-1/b)): geometric; the difference of two has mass proportional to e^(-abs(z)/b). ∎
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Final, NamedTuple, TypeVar

WORD: Final = 64  # bits drawn at once

T = TypeVar("T")


class Exponential(NamedTuple):
    """An exponential variable between ``numerator`` and ``numerator + 1``, over 2^bits."""

    numerator: int
    bits: int


def draw_exponential(words: Iterator[int], word: int = WORD) -> Exponential:
    """An exponential variable of mean 1, to the bits that its draw took. ``words`` are uniform below 2^word."""
    failures = 0
    while True:
        length, uniform, bits = draw_run(words, word)
        if length % 2:
            return Exponential(failures << bits | uniform, bits)
        failures += 1


def draw_run(words: Iterator[int], word: int = WORD) -> tuple[int, int, int]:
    """The length of a decreasing run of uniforms; the first of them, over 2^bits; and these bits."""
    first = last = next(words)
    length, bits, precision = 1, word, word
    while True:
        rival = next(words)
        for _ in range(precision - word, 0, -word):
            rival = rival << word | next(words)
        while rival == last:
            last, rival, precision = last << word | next(words), rival << word | next(words), precision + word
            if length == 1:
                first, bits = last, precision
        if rival > last:
            return length, first, bits
        last, length = rival, length + 1


def evaluate(function: Callable[[int, int], T], words: Iterator[int], word: int = WORD) -> T:
    """``function(n, bits)``, monotone in t = n / 2^bits, at an exponential t."""
    n, bits = draw_exponential(words, word)
    while (value := function(n, bits)) != function(n + 1, bits):
        n, bits = n << word | next(words), bits + word
    return value


def add_laplace(value: float, scale: float, words: Iterator[int]) -> float:
    """The float nearest to value + Laplace noise, at most the largest float in size."""
    (x, x_unit), (b, b_unit) = value.as_integer_ratio(), scale.as_integer_ratio()
    unit = max(x_unit, b_unit)  # both are powers of 2
    x, b = x * (unit // x_unit), b * (unit // b_unit)
    if next(words) & 1:
        b = -b
    return evaluate(lambda n, bits: _nearest((x << bits) + b * n, unit << bits), words) + 0.0  # no -0.0


def draw_discrete_laplace(scale: Fraction, words: Iterator[int], word: int = WORD) -> int:
    """A whole number with mass proportional to exp(-abs(z) / scale)."""
    p, q = scale.numerator, scale.denominator

    def floor(n: int, bits: int) -> int:
        return p * n // (q << bits)

    return evaluate(floor, words, word) - evaluate(floor, words, word)


def _nearest(numerator: int, denominator: int) -> float:
    try:
        return numerator / denominator  # Python divides whole numbers with one rounding, to the nearest float
    except OverflowError:
        return sys.float_info.max if numerator > 0 else -sys.float_info.max
