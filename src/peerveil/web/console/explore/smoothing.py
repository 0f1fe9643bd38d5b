"""Simulated curves without the wiggles of chance.

A few simulated draws say here and there that more epsilon makes a result worse. In truth it never does: who has more could
always add noise until they have less. So a curve is replaced by the nearest one that never turns back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import isotonic_regression

if TYPE_CHECKING:
    from collections.abc import Sequence


def rising(values: Sequence[float]) -> list[float]:
    """The nearest values (by least squares) that never fall.

    >>> rising([1.0, 3.0, 2.0, 4.0])
    [1.0, 2.5, 2.5, 4.0]
    """
    return [float(one) for one in isotonic_regression(np.asarray(values, dtype=np.float64)).x]


def falling(values: Sequence[float]) -> list[float]:
    """The nearest values that never rise."""
    return [-one for one in rising([-one for one in values])]
