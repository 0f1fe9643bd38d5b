"""How likely a paper is on the wrong side: of a line, or of a quota."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from peerveil.calibration.beliefs import Curve, Normal, Point, below, integrate, on_grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from peerveil.calibration.beliefs import Belief

    Floats = NDArray[np.float64]
    Whole = NDArray[np.int64]

_BLOCK = 256  # candidates handled at once


def sides_of_line(one: Belief, line: float) -> tuple[float, float]:
    """P[quality below the line], P[above]; both 0 for a known quality that is on it."""
    if isinstance(one, Point):
        return float(one.value < line), float(one.value > line)
    if isinstance(one, Normal):
        z = (line - one.mean) / one.deviation
        return float(ndtr(z)), float(ndtr(-z))
    assert isinstance(one, Curve)
    if not math.isfinite(one.log_evidence):
        return 0.0, 0.0
    low, high = float(one.edges[0]), float(one.edges[-1])
    if not low < line < high:
        return float(line >= high), float(line <= low)
    masses = []
    for side in (one.edges[one.edges < line], one.edges[one.edges > line]):
        _, mass = integrate(lambda x: np.exp(one.log_density(x))[None, :], np.append(side, line))
        masses.append(float(mass[0]))
    return masses[0] / sum(masses), masses[1] / sum(masses)


def known_errors(beliefs: list[list[Belief]], which: Whole, sets: Whole) -> Floats:
    """Errors when qualities are known: papers that tie for the last place are equally right."""
    values = np.column_stack(
        [
            np.array([one.value for one in known if isinstance(one, Point)])[which[:, paper]]
            for paper, known in enumerate(beliefs)
        ]
    )
    places = sets.shape[1]
    last = np.sort(values, axis=1)[:, -places][:, None]
    above, level = values > last, values == last
    right = above[:, sets].sum(axis=2) + np.minimum(level[:, sets].sum(axis=2), places - above.sum(axis=1)[:, None])
    return np.where(np.isnan(values).any(axis=1)[:, None], 0.0, 1.0 - right / places)


def top_probabilities(beliefs: list[list[Belief]], which: Whole, places: int) -> Floats:
    """P[paper is among the best ``places``] for every candidate and paper.

    Given paper i's quality x, the number of better papers is a sum of independent coins with chances 1 - F_k(x): its
    distribution by convolution, truncated at ``places``, at all nodes and candidates of a block together.
    """
    papers = len(beliefs)
    if papers == 2 and places == 1:  # in closed form
        pairs = {
            (i, j): below(beliefs[0][i], beliefs[1][j])[1] for i, j in map(tuple, np.unique(which, axis=0).tolist())
        }
        first = np.array([pairs[i, j] for i, j in which.tolist()])
        return np.column_stack([first, 1.0 - first])
    offsets = np.cumsum([0, *(len(known) for known in beliefs[:-1])])
    flat = [one for known in beliefs for one in known]
    usable = [one if math.isfinite(one.log_evidence) else Normal(0.0, 1.0, -math.inf) for one in flat]
    _, node_weights, density, cumulative = on_grid(usable)
    rows = which + offsets
    top = np.empty(which.shape)
    for start in range(0, len(which), _BLOCK):
        block = rows[start : start + _BLOCK]
        under = cumulative[block]  # candidate, paper, node
        for paper in range(papers):
            fewer = np.zeros((places, len(block), cumulative.shape[1]))
            fewer[0] = 1.0
            for other in range(papers):
                if other == paper:
                    continue
                worse, better_chance = under[:, other], 1.0 - under[:, other]
                for better in range(places - 1, 0, -1):
                    fewer[better] = fewer[better] * worse + fewer[better - 1] * better_chance
                fewer[0] *= worse
            top[start : start + _BLOCK, paper] = (fewer.sum(axis=0) * density[block[:, paper]]) @ node_weights
    return top.clip(0.0, 1.0)
