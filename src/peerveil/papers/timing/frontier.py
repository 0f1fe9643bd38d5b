"""Figure 4: the mean delays of batched and other comments that can be had together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.core.arrays import Floats
from peerveil.core.errors import BadInput
from peerveil.papers.timing.uneven import UnevenSplit
from peerveil.timing import ZeroInflatedUniform

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.core.exact import Number


@dataclass(frozen=True)
class DelayFrontier:
    """Mean delays of batched and other comments that can be had at one epsilon, in gaps; one entry a weight."""

    epsilon: float
    weight: Floats
    mean_batched: Floats
    mean_unbatched: Floats
    family: str

    def draw(self, ax: Axes, label: str = "", **style: Any) -> None:
        """E[U] against E[B]."""
        style.setdefault("marker", "o" if np.ptp(self.mean_batched) < 1e-9 else None)
        ax.plot(self.mean_batched, self.mean_unbatched, label=label or None, **style)
        ax.set(xlabel="mean delay of batched comments, in gaps", ylabel="mean delay of others, in gaps")


def frontier(epsilon: Number, *, family: str = "zero-inflated", points: int = 61) -> DelayFrontier:
    """The best pairs of mean delays at one epsilon, for weights from 0 to 1.

    ``family="zero-inflated"`` is the paper's (Theorem 4.6), best among (epsilon/2, g)-indistinguishable pairs;
    ``"uneven"`` splits epsilon unevenly between the two comments, and passes below it for epsilon > 2 ln 2.

    >>> paper, ours = frontier(4), frontier(4, family="uneven")
    >>> round(float(paper.mean_batched.min()), 3), round(float(ours.mean_batched.min()), 3)
    (1.078, 1.037)
    """
    kinds = {"zero-inflated": ZeroInflatedUniform, "uneven": UnevenSplit}
    if family not in kinds:
        raise BadInput("family", got=family, want="'zero-inflated' or 'uneven'")
    weights = np.linspace(0, 1, points)
    kind: Any = kinds[family]
    mechanisms = [kind(epsilon=epsilon, gap=1, weight=float(w)) for w in weights]
    means = np.array([(m.mean_batched, m.mean_unbatched) for m in mechanisms])
    return DelayFrontier(mechanisms[0].epsilon, weights, means[:, 0], means[:, 1], family)
