"""The set of sorted mean vectors that the public data allow (a convex set that contains them all)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from peerveil.errors import BadInput, Verbatim
from peerveil.release.counting import counting_bounds
from peerveil.release.projection import project

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from peerveil.release.public import PublicScores

    Floats = NDArray[np.float64]

BOUNDS: Final = ("counting", "range")
_SLACK: Final = 1e-12  # bounds are widened by this share of the range, to cover rounding
_TOLERANCE: Final = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class FeasibleRegion:
    """Sorted vectors within boxes, with bounded sums.

    Attributes
    ----------
    bounds : str
        How it was made: ``"counting"`` or ``"range"``.
    lower, upper
        Boxes for each sorted mean.
    lowest_sums, highest_sums
        Bounds on the sums of the i lowest and of the i highest means; ``None`` where there are none.
    total
        The sum of all means, where it is public.
    """

    bounds: str
    lower: Floats
    upper: Floats
    lowest_sums: Floats | None
    highest_sums: Floats | None
    total: float | None

    def __len__(self) -> int:
        return self.lower.size

    def contains(self, theta: ArrayLike) -> bool:
        """Whether a vector lies in the region, up to rounding."""
        t = self._vector(theta, "theta")
        room = _TOLERANCE * max(1.0, float(self.upper[-1] - self.lower[0]))
        inside = bool((np.diff(t) >= -room).all() and (t >= self.lower - room).all() and (t <= self.upper + room).all())
        if inside and self.lowest_sums is not None:
            inside = bool((np.cumsum(t) >= self.lowest_sums - room * t.size).all())
        if inside and self.highest_sums is not None:
            inside = bool((np.cumsum(t[::-1]) <= self.highest_sums + room * t.size).all())
        if inside and self.total is not None:
            inside = abs(float(t.sum()) - self.total) <= room * t.size
        return inside

    def project(self, noisy: ArrayLike) -> Floats:
        """The closest point of the region: never farther from any feasible truth than ``noisy`` is.

        The projection on a convex set is non-expansive, and the truth is its own projection (Proposition 4.2). It is
        proved optimal before it is returned (:mod:`peerveil.release.projection`).
        """
        values = self._vector(noisy, "noisy")
        sums = self.lowest_sums
        if sums is None and self.total is not None:  # only the total is known: every other sum is free
            sums = np.cumsum(self.lower)
            sums[-1] = self.total
        return project(values, self.lower, self.upper, sums, self.highest_sums, total_known=self.total is not None)

    def _vector(self, values: ArrayLike, argument: str) -> Floats:
        array = np.asarray(values)
        if array.dtype.kind not in "iuf" or array.shape != self.lower.shape:
            got = Verbatim(f"an array of {array.dtype}, shape {array.shape}")
            raise BadInput(argument, got=got, want=f"{len(self)} numbers, one a reviewer")
        array = array.astype(np.float64)
        if not np.isfinite(array).all():
            raise BadInput(argument, got=Verbatim("NaN or infinity"), want="finite numbers")
        return array


def feasible_region(public: PublicScores, *, bounds: str = "counting") -> FeasibleRegion:
    """The region that the public data allow.

    Parameters
    ----------
    public : PublicScores
        The public side of the conference.
    bounds : str, optional
        ``"counting"`` (default): as tight as the counting arguments of :mod:`peerveil.release.counting` allow.
        ``"range"``: only the range of the weights.

    Examples
    --------
    >>> from peerveil.release.public import PublicScores
    >>> public = PublicScores([[0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 2, 3]], loads=[3, 3, 3, 3])  # Appendix B
    >>> feasible_region(public).project([5, -1, 2, 0]).round(6).tolist()
    [0.0, 0.333333, 0.666667, 1.0]
    """
    if bounds not in BOUNDS:
        raise BadInput("bounds", got=bounds, want=f"one of {', '.join(BOUNDS)}")
    n = public.reviewers
    low, high = public.bounds
    lower, upper = np.full(n, low), np.full(n, high)
    lowest = highest = None
    if bounds == "counting":
        counted = counting_bounds(public)
        lower, upper = np.maximum(lower, counted.lower), np.minimum(upper, counted.upper)
        lowest = counted.lowest_sums
        highest = counted.highest_sums if public.total is None else None
    slack = _SLACK * max(float(np.abs(public.values).max()), 1e-300)
    lower = np.maximum.accumulate(lower) - slack
    upper = np.minimum.accumulate(upper[::-1])[::-1] + slack
    if public.total is not None and lowest is not None:
        lowest = lowest - slack * np.arange(1, n + 1)
        lowest[-1] = public.total
    elif lowest is not None and highest is not None:
        lowest = lowest - slack * np.arange(1, n + 1)
        highest = highest + slack * np.arange(1, n + 1)
    return FeasibleRegion(bounds, lower, np.maximum(upper, lower), lowest, highest, public.total)
