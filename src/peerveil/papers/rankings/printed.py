"""The tests and sample sizes as printed, for reproduction only. None of these tests is private.

What is wrong with each stands in ``docs/errata.md``. ``level`` is the paper's delta, ``tolerance`` its epsilon.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerveil.core.lazy import ndtri
from peerveil.rankings.kernels import distances
from peerveil.rankings.variation import spread_at, total_variation


def bias_as_printed(items: int, tolerance: float) -> float:
    """The paper's mu = (1 - q)/(1 + q), q = phi_epsilon^(m/8) (Algorithm 2, line 4)."""
    power = spread_at(items, tolerance) ** (items / 8)
    return float((1 - power) / (1 + power))


def two_sample_threshold_as_printed(items: int, level: float) -> float:
    """Algorithm 1, line 6: reject if the distance is not above this."""
    return items * (items - 1) / 4 - math.sqrt(items**3 * math.log(1 / level) / 12)


def unif_threshold_as_printed(items: int, level: float) -> float:
    """Algorithm 2, line 10: reject unless Y is below this."""
    return items / 2 + 2 * math.sqrt(items * math.log(1 / level))


def unif_as_printed(sums: NDArray[np.int64], rankings: int, items: int, level: float) -> tuple[float, float, bool]:
    """UNIF from the signed sums of pairs."""
    y, bound = squares_mean(sums, rankings), unif_threshold_as_printed(items, level)
    return y, bound, y >= bound


def laplace_threshold_as_printed(items: int, level: float, epsilon: float) -> float:
    """Algorithm 4, line 9."""
    return items / 2 + 2 * math.sqrt(items * (1 + (8 * items / epsilon) ** 2) * math.log(1 / level))


def laplace_proof_threshold_as_printed(items: int, level: float, epsilon: float) -> float:
    """Appendix C's proof uses another one."""
    return items / 2 + 2 * math.sqrt(items * (1 + 8 * items / epsilon**2) * math.log(1 / level))


def mallows_as_printed(rows: Any, level: float) -> tuple[float, float, bool]:
    """MA: the mean distance to a fixed center (0, 1, 2, ...) against a normal law, two-sided (section 7.2)."""
    k, m = rows.shape
    mean = float(distances(np.arange(m), rows).mean())
    z = (mean - m * (m - 1) / 4) / math.sqrt(m * (m - 1) * (2 * m + 5) / 72 / k)
    bound = float(ndtri(1 - level / 2))
    return abs(z), bound, abs(z) >= bound


def bucket_batches_as_printed(epsilon: float) -> int:
    """ceil(1/epsilon) batches (section 5); 0.33 gives 4, though section 7.3 calls it 3."""
    return math.ceil(1 / epsilon - 1e-9)


def squares_mean(sums: NDArray[np.int64], rankings: int) -> float:
    """Y: the sum over pairs of (sum of signs)^2 / k."""
    return sum(int(s) ** 2 for s in sums) / rankings


def trunc_share(y: float, rankings: int, items: int, bias: float) -> float:
    """Line 15 of Algorithm 3: min(1, 16 (Y - m/2) / (m mu^2 (k-1))); clipped below too, since it can be negative."""
    return min(1.0, max(0.0, 16 * (y - items / 2) / (items * bias**2 * (rankings - 1))))


def trunc_reject_probability_as_printed(
    sums: NDArray[np.int64],
    rankings: int,
    items: int,
    bias: float,
    epsilon: float,
    level: float,
    *,
    literal: bool = False,
) -> float:
    """P[TRUNC rejects] on given sums, exactly; ``literal`` reads line 16 as printed (B = 1 accepts)."""
    b = 4 / (rankings * level * epsilon)
    limit = b * math.log(1 / level)
    center = 2 * float(np.sum(sums)) / (items * rankings)
    bound = math.sqrt(2 * math.log(2 / level) / (items * rankings)) + limit
    early = _between(bound - center, limit, b) + _between(-limit, -bound - center, b)  # line 10
    share = trunc_share(squares_mean(sums, rankings), rankings, items, bias)
    if literal:
        share = 1 - share
    return level / 2 + early + (1 - level - early) * share


def _between(low: float, high: float, scale: float) -> float:
    """P[low < Laplace(scale) < high]."""
    return max(0.0, _below(high, scale) - _below(low, scale))


def _below(x: float, scale: float) -> float:
    return 0.5 * math.exp(x / scale) if x < 0 else 1 - 0.5 * math.exp(-x / scale)


# ---- sample sizes (sufficient, by the paper's proofs) --------------------------------------------------------------------


def unif_rankings_as_printed(items: int, tolerance: float, level: float) -> float:
    """Theorem 5 (Algorithm 2, line 5); infinite where m_1 is not positive."""
    good = items / 8 - math.sqrt(items * math.log(2 / level) / 16)
    if good <= 0:
        return math.inf
    mu = bias_as_printed(items, tolerance)
    size = math.log(2 / level) * items / good**2
    return 1 + math.ceil((12 * size + 10 * math.sqrt(size)) / mu**2)


def two_sample_allowed_as_printed(items: int, tolerance: float, level: float) -> bool:
    """Theorem 4's guard: whether 2SAMP promises anything. For 28 items and fewer it is vacuous at level 0.05."""
    denominator = items + 7 - math.sqrt(12 * math.log(2 / level) * items)
    return denominator > 0 and spread_at(items, tolerance) <= 1 - 8 / denominator


def trunc_rankings_as_printed(items: int, tolerance: float, level: float, epsilon: float) -> float:
    """Theorem 6 with the constants of Appendix D."""
    mu = bias_as_printed(items, tolerance)
    correct = max(
        math.ceil(45 / (level**1.5 * mu**2 * math.sqrt(items))),
        math.ceil(221184 / (level**3 * mu**2 * items)) + math.ceil(576 / (level**1.5 * mu**2 * math.sqrt(items))),
    )
    private = max(
        math.ceil(
            67 * math.log(12 / level) ** (1 / 3) / (mu ** (4 / 3) * items ** (1 / 3) * (epsilon * level) ** (2 / 3))
        ),
        math.ceil(96 * math.sqrt(math.log(6 / level)) / (mu * epsilon * level)),
    )
    return float(1 + max(correct, private))


def laplace_rankings_as_printed(items: int, tolerance: float, level: float, epsilon: float) -> int:
    """Theorem 9, with mu' = (1 - phi)/(1 + phi)."""
    phi = spread_at(items, tolerance)
    size = 48 / items * math.log(1 / level) + 6 * items / epsilon * math.sqrt(math.log(1 / level))
    return math.ceil((1 + phi) ** 2 / (1 - phi) ** 2 * size)


def local_rankings_as_printed(items: int, tolerance: float, level: float, epsilon: float) -> float:
    """Theorem 7 with Theorem 5's constants and mu times tanh(gamma/2), gamma = 2 epsilon/m."""
    plain = unif_rankings_as_printed(items, tolerance, level)
    return float(plain / math.tanh(epsilon / items) ** 2)


def theorems_as_printed(items: int, spread: float, level: float, epsilon: float) -> dict[str, float]:
    """How many rankings Theorems 4 to 7 and 9 ask for at the tolerance of this spread; infinite where they promise nothing."""
    tolerance = total_variation(items, spread)
    return {
        "Theorem 4": 2.0 if two_sample_allowed_as_printed(items, tolerance, level) else math.inf,
        "Theorem 5": unif_rankings_as_printed(items, tolerance, level),
        "Theorem 6": trunc_rankings_as_printed(items, tolerance, level, epsilon),
        "Theorem 7": local_rankings_as_printed(items, tolerance, level, epsilon),
        "Theorem 9": float(laplace_rankings_as_printed(items, tolerance, level, epsilon)),
    }
