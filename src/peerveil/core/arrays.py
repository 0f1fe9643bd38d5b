"""Short names for the arrays that numerical code passes around; for annotations only."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.integer]
"""Whole numbers of any width, such as positions in a list of classes."""
