"""Clopper-Pearson bounds against the definition and an outside value."""

from __future__ import annotations

import pytest
from scipy.stats import binom, binomtest

from peerveil.audit.events import lower_confidence, upper_confidence


@pytest.mark.parametrize(("k", "n"), [(1, 1), (3, 10), (50, 100), (99, 100), (700, 100_000)])
@pytest.mark.parametrize("alpha", [0.025, 1e-6])
def test_the_bound_is_where_the_tail_equals_alpha(k: int, n: int, alpha: float) -> None:
    low = float(lower_confidence(k, n, alpha))
    assert binom.sf(k - 1, n, low) == pytest.approx(alpha, rel=1e-6)
    if k < n:
        high = float(upper_confidence(k, n, alpha))
        assert binom.cdf(k, n, high) == pytest.approx(alpha, rel=1e-6)


def test_against_scipy() -> None:
    interval = binomtest(7, 50).proportion_ci(0.95, method="exact")
    assert float(lower_confidence(7, 50, 0.025)) == pytest.approx(interval.low, abs=1e-12)
    assert float(upper_confidence(7, 50, 0.025)) == pytest.approx(interval.high, abs=1e-12)


def test_edges() -> None:
    assert lower_confidence(0, 10, 0.01) == 0
    assert upper_confidence(10, 10, 0.01) == 1
