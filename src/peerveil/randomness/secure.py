"""The secure lane: operating-system entropy, and OpenDP's exact samplers behind our own input check."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from peerveil.randomness.lanes import Randomness

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


@final
class SecureRandomness(Randomness):
    """See :meth:`peerveil.Randomness.secure`. It has no state: there is nothing to seed, to copy or to fork."""

    __slots__ = ()
    lane: ClassVar[str] = "secure"

    def _bits(self, count: int, bits: int) -> NDArray[Any]:
        return np.frombuffer(os.urandom(count * (bits // 8)), dtype=f"<u{bits // 8}")

    def _laplace(self, values: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
        return np.array(_laplace_measurement("float", scale)(values), dtype=np.float64)

    def _discrete_laplace(self, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        return np.array(_laplace_measurement("i64", scale)(values), dtype=np.int64)

    def __repr__(self) -> str:
        return "Randomness.secure()"


@lru_cache(maxsize=64)
def _laplace_measurement(kind: str, scale: float) -> Callable[[NDArray[Any]], list[float]]:
    """OpenDP's (discrete) Laplace mechanism on vectors; imported on first use, since that takes a second."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    if kind == "float":
        space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    else:
        space = dp.vector_domain(dp.atom_domain(T=dp.i64)), dp.l1_distance(T=dp.i64)
    measurement: Callable[[NDArray[Any]], list[float]] = space >> dp.m.then_laplace(scale=scale)
    return measurement
