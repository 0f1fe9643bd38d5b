"""Simulated randomness: NumPy, seeded. Fast and repeatable; it protects nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, final

import numpy as np

from peerveil.core.errors import BadInput
from peerveil.core.exact import whole
from peerveil.core.randomness.source import Randomness

if TYPE_CHECKING:
    from numpy.typing import NDArray


_LARGEST_SCALE: Final = 1e15


@final
class SimulationRandomness(Randomness):
    """See :meth:`peerveil.Randomness.simulation`.

    Attributes
    ----------
    generator : numpy.random.Generator
        For whatever a simulation needs beyond the shared interface.
    """

    __slots__ = ("_seeds", "generator")
    lane: ClassVar[str] = "simulation"

    def __init__(self, seed: int | np.random.SeedSequence) -> None:
        if not isinstance(seed, np.random.SeedSequence):
            want = "a whole number, 0 or more: a simulation can be repeated"
            seed = np.random.SeedSequence(whole(seed, "seed", 0, want=want))
        self._seeds = seed
        self.generator = np.random.Generator(np.random.PCG64DXSM(self._seeds))

    def spawn(self, count: int) -> list[SimulationRandomness]:
        """Independent sources for parallel or nested simulations, repeatable from the same seed."""
        return [SimulationRandomness(child) for child in self._seeds.spawn(whole(count, "count", 0))]

    def _bits(self, count: int, bits: int) -> NDArray[Any]:
        return np.frombuffer(self.generator.bytes(count * (bits // 8)), dtype=f"<u{bits // 8}")

    def _laplace(self, values: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
        return values + self.generator.laplace(scale=scale, size=values.size)

    def _discrete_laplace(self, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        # the difference of two geometric variables has mass proportional to exp(-abs(z)/scale)
        if scale > _LARGEST_SCALE:
            raise BadInput("scale", got=scale, want="at most 1e15 in a simulation (NumPy saturates beyond)")
        success = -np.expm1(-1.0 / scale)
        first, second = self.generator.geometric(success, size=(2, values.size))
        return np.asarray(values + first - second)

    def __repr__(self) -> str:
        return f"Randomness.simulation({self._seeds.entropy})"
