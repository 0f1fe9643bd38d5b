"""The exact sampler behind Laplace noise, by enumerating its bits; and sampled, at a fixed seed."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from peerveil import Randomness
from peerveil.core.randomness import exponential
from peerveil.core.randomness.exponential import (
    add_laplace,
    draw_discrete_laplace,
    draw_exponential,
    draw_run,
    evaluate,
)

Run = Callable[[Iterator[int], int], tuple[int, int, int]]


def enumerated(run: Run, *, word: int, bits: int) -> tuple[dict[tuple[bool, int], Fraction], Fraction]:
    """The exact mass of (is the length odd, first word of the first uniform) within so many bits, and of all that takes more."""
    mass: Counter[tuple[bool, int]] = Counter()
    unfinished = Fraction(0)
    prefixes: list[tuple[int, ...]] = [()]
    while prefixes:
        prefix = prefixes.pop()
        try:
            length, first, precision = run(iter(prefix), word)
            mass[length % 2 == 1, first >> (precision - word)] += 1 << (bits - word * len(prefix))
        except StopIteration:
            if word * (len(prefix) + 1) > bits:
                unfinished += Fraction(1, 2 ** (word * len(prefix)))
            else:
                prefixes += [(*prefix, more) for more in range(2**word)]
    return {outcome: Fraction(weight, 2**bits) for outcome, weight in mass.items()}, unfinished


def agrees(run: Run, *, word: int, bits: int, rate: float = 1.0) -> bool:
    """Whether the chance of every outcome lies between its mass and that mass plus what is unfinished."""
    mass, unfinished = enumerated(run, word=word, bits=bits)
    assert sum(mass.values()) + unfinished == 1
    assert unfinished < 0.06

    def fits(outcome: tuple[bool, int], chance: float) -> bool:
        least = float(mass.get(outcome, 0))
        return least - 1e-12 <= chance <= least + float(unfinished) + 1e-12

    cells = []
    for cell in range(2**word):  # P(odd, a <= U < b) is the integral of e^-u
        odd = (math.exp(-rate * cell / 2**word) - math.exp(-rate * (cell + 1) / 2**word)) / rate
        cells += [fits((True, cell), odd), fits((False, cell), 2.0**-word - odd)]
    return all(cells)


@pytest.mark.parametrize(("word", "bits"), [(1, 18), (2, 18), (3, 21)])
def test_the_mass_of_every_outcome_is_that_of_the_proof(word: int, bits: int) -> None:
    """Words of a few bits, so that equal uniforms, which 64 bits never show, are the rule."""
    assert agrees(draw_run, word=word, bits=bits)


def test_this_enumeration_notices_another_law_and_uniforms_that_are_not_compared_to_the_end() -> None:
    assert not agrees(draw_run, word=2, bits=18, rate=1.3)

    def ties_decided(words: Iterator[int], word: int) -> tuple[int, int, int]:
        """The same run without more bits for equal uniforms."""
        first = last = next(words)
        length = 1
        while (rival := next(words)) < last:
            last, length = rival, length + 1
        return length, first, word

    assert not agrees(ties_decided, word=2, bits=18)


def words(seed: int) -> Iterator[int]:
    source = Randomness.simulation(seed)
    while True:
        yield from source._bits(1024, 64).tolist()


def test_the_exponential_variable_by_chi_square() -> None:
    supply, n = words(5), 40_000
    drawn = [draw_exponential(supply) for _ in range(n)]
    values = np.array([numerator / 2**bits for numerator, bits in drawn])
    counts = np.histogram(-np.expm1(-values), bins=50, range=(0, 1))[0]
    assert stats.chisquare(counts).pvalue > 1e-7
    assert stats.chisquare(np.histogram(-np.expm1(-values / 1.1), bins=50, range=(0, 1))[0]).pvalue < 1e-7


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(7, 2)])
def test_discrete_noise_by_chi_square(scale: Fraction) -> None:
    supply, n, support = words(6), 40_000, np.arange(-12, 13)
    noise = np.array([draw_discrete_laplace(scale, supply) for _ in range(n)])
    for factor, fits in ((1.0, True), (0.9, False)):
        inside = stats.dlaplace.pmf(support, 1 / (factor * float(scale)))
        likely = n * inside >= 5
        counts = np.array([(noise == z).sum() for z in support[likely]])
        observed = np.append(counts, n - counts.sum())
        expected = np.append(n * inside[likely], n * (1 - inside[likely].sum()))
        assert (stats.chisquare(observed, expected).pvalue > 1e-7) == fits


@pytest.mark.parametrize("value", [0.0, 0.1, -7.25, 1e300, 5e-324, -1e-300])
@pytest.mark.parametrize("scale", [1.0, 0.3, 1e-300, 1e290])
def test_the_sum_is_rounded_once_and_to_the_nearest_float(value: float, scale: float) -> None:
    """Against 6,000 further bits of the same draw, in fractions."""
    for seed in range(40):
        supply = words(seed)
        sign = -1 if next(supply) & 1 else 1
        n, bits = draw_exponential(supply)
        for _ in range(94):
            n, bits = n << 64 | next(supply), bits + 64
        exact = Fraction(value) + sign * Fraction(scale) * Fraction(n, 2**bits)
        assert add_laplace(value, scale, words(seed)) == float(exact)


def test_undecided_roundings_get_more_bits() -> None:
    """64 bits of a uniform leave the last bits of a sum near 0 open."""
    asked: list[int] = []

    def nearest(n: int, bits: int) -> float:
        asked.append(bits)
        return (n - (n >> 12 << 12)) / 2**bits if bits == 64 else 0.5

    assert evaluate(nearest, words(1)) == 0.5
    assert asked == [64, 64, 128, 128]


def test_noise_beyond_the_floats_is_the_largest_float() -> None:
    largest = sys.float_info.max
    ends = {add_laplace(1.7e308, 1e300, words(seed)) for seed in range(3)}
    assert all(math.isfinite(end) for end in ends)
    assert exponential._nearest(10**400, 1) == largest
    assert exponential._nearest(-(10**400), 1) == -largest
    assert Randomness.secure().discrete_laplace([2**62] * 20, scale=1e290).min() >= -(2**63)
