"""Formulas as printed; what is wrong with each is in ``docs/errata.md``."""

from __future__ import annotations

import math


def keep_as_printed(u: float, v: float, phi2: float) -> float:
    """Algorithm 3's fourth branch: the probability q2, negative whenever u < v and Phi_2 > 1/2."""
    return (v - u) * (1 - 2 * phi2) / (u + v)


def response_as_printed(epsilon: float) -> float:
    """Definition B.2 with parameter e^epsilon: the probability of keeping the true assignment, below 1/2."""
    return 1 / (1 + math.exp(epsilon))
