"""How far a Mallows model is from uniform, at any number of items: one Fourier inversion instead of Mahonian numbers."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

import numpy as np

from peerveil.core.arrays import Floats
from peerveil.core.errors import BadInput
from peerveil.core.lazy import njit, roots_legendre
from peerveil.rankings.mallows import distance_moments, log_thinning, read_items, read_share, read_spread

NODES: Final = 400
_WIDTH: Final = 9.0  # standard deviations of frequency: the characteristic function is below 1e-17 beyond
_SMALL: Final = 64  # few items: frequencies fade more slowly than a normal variable's, so all of them are used
_MOST_EXACT: Final = 200  # Mahonian numbers are served up to this many items


def mahonian(items: int) -> list[int]:
    """How many rankings of ``items`` items have Kendall distance 0, 1, 2, ... to a fixed one; exact.

    Multiplying by 1 + x + ... + x^i for i = 1, 2, ... costs O(items^3) in all (the paper says items^2).

    >>> mahonian(4)
    [1, 3, 5, 6, 5, 3, 1]
    """
    m = read_items(items)
    if m > _MOST_EXACT:
        raise BadInput("items", got=items, want=f"at most {_MOST_EXACT}: use total_variation() beyond")
    counts = [1]
    for i in range(1, m):
        sums = list(accumulate(counts + [0] * i))
        counts = [high - low for high, low in zip(sums, [0] * (i + 1) + sums, strict=False)]
    return counts


@njit(cache=True, nogil=True)
def _log_characteristic(items: int, log_spread: float, t: Any, real: Any, imag: Any) -> None:
    """The logarithm of the characteristic function of the Kendall distance, a product over truncated geometric jumps.

    Jump i (0..i-1) contributes (1 + z + ... + z^(i-1)) over the same at t = 0, with z = spread e^(it). The sums are added
    up, so nothing cancels; the product is folded into its logarithm every 32 factors, before it can underflow.
    """
    q = np.exp(log_spread)
    for node in range(t.size):
        z = q * (np.cos(t[node]) + 1j * np.sin(t[node]))
        power, size = z, q
        above, below = 1.0 + 0.0j, 1.0
        total, product = 0.0 + 0.0j, 1.0 + 0.0j
        for i in range(2, items + 1):
            above += power
            below += size
            product *= above / below
            if i % 32 == 0:  # also no drift of the powers
                total += np.log(product)
                product = 1.0 + 0.0j
                size = np.exp(i * log_spread)
                power = size * (np.cos(i * t[node]) + 1j * np.sin(i * t[node]))
            else:
                power *= z
                size *= q
        total += np.log(product)
        real[node] = total.real
        imag[node] = total.imag


def distance_cdf(items: int, spread: float, points: Any, *, nodes: int = 2 * NODES) -> Floats:
    """P[D <= x] for the Kendall distance D to the center.

    For a lattice variable with characteristic function c, P[D <= x] = 1/2 - 1/(2 pi) * integral from 0 to pi of
    Im(e^(-it(x + 1/2)) c(t)) / sin(t/2) dt (Gil-Pelaez, 1951). The integrand is negligible beyond 9 standard deviations of
    frequency; Gauss-Legendre nodes see it exactly enough, and half as many nodes tell by how much they may be wrong.

    >>> np.round(distance_cdf(4, 1.0, [0, 2, 6]) * 24).tolist()
    [1.0, 9.0, 24.0]
    """
    x = np.atleast_1d(np.asarray(points, dtype=np.float64))
    mean, variance = distance_moments(items, spread)
    deviation = math.sqrt(variance)
    if items < 2 or deviation < 0.3:
        return _few(items, spread, x)
    top = math.pi if items < _SMALL else min(math.pi, _WIDTH / deviation)
    t, weight, real, imag = _nodes(items, spread, top, nodes)
    size = weight * np.exp(real) / np.sin(t / 2)
    # sin(phase - t(x + 1/2)), the large common part t*mean taken off both before they are multiplied out
    phase = imag - t * mean
    blocks = np.split(x[:, None], range(2048, x.size, 2048))
    sums = [(size * np.sin(phase - t * (block + 0.5 - mean))).sum(axis=1) for block in blocks]
    return np.clip(0.5 - np.concatenate(sums) / (2 * math.pi), 0.0, 1.0)


@lru_cache(maxsize=256)
def _nodes(items: int, spread: float, top: float, nodes: int) -> tuple[Any, Any, Any, Any]:
    place, weight = roots_legendre(nodes)
    t = (place + 1) * top / 2
    real, imag = np.empty(nodes), np.empty(nodes)
    _log_characteristic(items, math.log(spread), t, real, imag)
    return t, weight * top / 2, real, imag


def _few(items: int, spread: float, x: Floats) -> Floats:
    """Where nearly all mass is at distance 0 the first few probabilities are convolved directly."""
    longest = 64
    law = np.zeros(longest)
    law[0] = 1.0
    log_spread = math.log(spread)
    for i in range(2, items + 1):
        jump = np.exp(np.arange(min(i, longest)) * log_spread)
        law = np.convolve(law, jump / math.fsum(np.exp(np.arange(min(i, 400)) * log_spread)))[:longest]
    total = np.cumsum(law)
    at = np.clip(np.floor(x), -1, longest - 1).astype(int)
    return np.where(at < 0, 0.0, np.minimum(total[at], 1.0))


def total_variation(items: int, spread: float) -> float:
    """The total variation distance between a Mallows model and the uniform distribution.

    The likelihood ratio spread^d m!/Z falls with the distance d, so the total variation is the difference of the two
    distribution functions at the last d where the ratio is at least 1: d <= ln(m!/Z) / -ln(spread).

    Examples
    --------
    >>> round(total_variation(3, 0.5), 6)  # (1 + 2/2 + 2/4 + 1/8) = 21/8: 8/21 + 8/21 - 3/6
    0.261905
    """
    return variation_by(2 * NODES, read_items(items), read_spread(spread))


def variation_by(nodes: int, items: int, spread: float) -> float:
    """:func:`total_variation`, with so many nodes."""
    if items < 2 or spread == 1.0:
        return 0.0
    last = math.floor(log_thinning(items, spread) / math.log(spread))
    model, uniform = (distance_cdf(items, s, [last], nodes=nodes)[0] for s in (spread, 1.0))
    return float(min(1.0, max(0.0, model - uniform)))


def spread_at(items: int, tolerance: float) -> float:
    """The spread at which a Mallows model is at total variation ``tolerance`` from uniform: the paper's phi_epsilon.

    The total variation falls continuously from 1 - 1/m! to 0 as the spread rises to 1, so a bracketing root finder finds it.

    Examples
    --------
    >>> round(spread_at(100, 0.5), 4), round(total_variation(100, spread_at(100, 0.5)), 6)
    (0.992, 0.5)
    """
    m = read_items(items, 2)
    distance = read_share(tolerance, "tolerance", "a total variation distance between 0 and 1")
    if tolerance >= 1 - 1.0 / math.factorial(min(m, 20)):
        raise BadInput("tolerance", got=tolerance, want=f"less: {m} items allow only distances below 1 - 1/{m}!")
    return _spread_at(m, distance)


@lru_cache(maxsize=1024)
def _spread_at(items: int, tolerance: float) -> float:
    from scipy.optimize import brentq

    def excess(x: float) -> float:
        return variation_by(NODES, items, math.exp(-math.exp(x))) - tolerance

    low, high = math.log(1e-9 / items**2), math.log(700.0)  # of ln(-ln spread)
    guess = math.log(3 * tolerance) - 1.5 * math.log(items)  # the right order unless the tolerance is near 1
    if excess(guess) > 0:
        high = guess
    else:
        low, high = guess, min(high, guess + (4 if tolerance < 0.99 else 12))
    return math.exp(-math.exp(float(brentq(excess, low, high, xtol=1e-13))))
