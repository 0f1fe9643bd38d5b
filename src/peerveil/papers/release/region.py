"""The feasible region of Algorithms 1 and 2."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from peerveil.papers.release.chains import chain_bounds
from peerveil.release import FeasibleRegion, PublicScores, feasible_region

_SLACK = 1e-12  # bounds are widened by this share of the largest weight, to cover rounding


def chain_region(public: PublicScores, *, start: str = "range") -> FeasibleRegion:
    """The region that the chains allow, within the region of :func:`peerveil.release.feasible_region`.

    Examples
    --------
    >>> from peerveil.release import PublicScores
    >>> public = PublicScores([[0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 2, 3]], loads=[3, 3, 3, 3])
    >>> chain_region(public).project([5, -1, 2, 0]).round(6).tolist()
    [0.0, 0.333333, 0.666667, 1.0]
    """
    region, (lower, upper) = feasible_region(public, bounds=start), chain_bounds(public)
    slack = _SLACK * max(float(np.abs(public.values).max()), 1e-300)
    lower = np.maximum(region.lower, lower - slack)
    return replace(
        region, bounds="chains", lower=lower, upper=np.maximum(np.minimum(region.upper, upper + slack), lower)
    )
