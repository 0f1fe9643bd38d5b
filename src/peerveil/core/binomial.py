"""Exact confidence bounds for a probability from counts (Clopper and Pearson, 1934)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaincinv

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def lower_confidence(successes: ArrayLike, trials: ArrayLike, alpha: float) -> NDArray[np.float64]:
    """A bound that is above the true probability with probability at most ``alpha``; 0 where nothing was seen.

    >>> round(float(lower_confidence(50, 100, 0.025)), 4)
    0.3983
    """
    k, n = np.broadcast_arrays(np.asarray(successes, float), np.asarray(trials, float))
    inverse = betaincinv(np.maximum(k, 1), n - np.maximum(k, 1) + 1, alpha)
    return np.asarray(np.where(k > 0, inverse, 0.0))


def upper_confidence(successes: ArrayLike, trials: ArrayLike, alpha: float) -> NDArray[np.float64]:
    """A bound that is below the true probability with probability at most ``alpha``.

    >>> round(float(upper_confidence(0, 100, 0.05)), 4)  # the "rule of three"
    0.0295
    """
    k, n = np.broadcast_arrays(np.asarray(successes, float), np.asarray(trials, float))
    return 1.0 - lower_confidence(n - k, n, alpha)
