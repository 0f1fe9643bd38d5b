"""Is there anything better? Linear programs over all piecewise-constant densities, to check the frontiers against."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from peerveil.core.errors import BadInput, PeerveilError


@dataclass(frozen=True)
class BestPair:
    """The best densities on a grid; means in gaps."""

    mean_batched: float
    mean_unbatched: float
    value: float
    batched: NDArray[np.float64]
    unbatched: NDArray[np.float64]
    atom: float


def best_pair(
    rho_still: float, rho_shifted: float, weight: float, *, cells: int = 20, horizon: float = 4.0
) -> BestPair:
    """Minimize weight E[B] + (1 - weight) E[U] subject to b <= rho_still u, and b <= rho_shifted u shifted by up to a gap.

    Parameters
    ----------
    rho_still, rho_shifted
        The two factors of Lemma A.1. Both e^(epsilon/2) is the paper's problem (Theorem 4.6 restricted to
        (epsilon/2, g)-indistinguishable pairs); rho and e^epsilon/rho an uneven split.
    cells
        Cells a gap; densities are constant on each. U may have a point mass at 0 besides.
    horizon
        The longest delay, in gaps.

    Notes
    -----
    For t in cell k, t - s with 0 <= s <= g runs over cells k - cells, ..., k, so the constraints are those for all real
    shifts. What the program finds can be had; the true optimum is at most a cell better.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    if min(rho_still, rho_shifted) <= 1 or not 0 <= weight <= 1 or cells < 2:
        raise BadInput(
            "rho_still", got=(rho_still, rho_shifted, weight, cells), want="factors above 1, a weight in [0, 1]"
        )
    size = math.ceil(horizon * cells)
    above = size - cells  # b is 0 below the gap (Lemma A.9)
    middle = (np.arange(size) + 0.5) / cells
    # variables: masses of b on cells cells..size-1, masses of u on all cells, the mass of u at 0
    cost = np.concatenate([weight * middle[cells:], (1 - weight) * middle, [0.0]])
    k = np.arange(above)
    shift = np.arange(cells + 1)
    kk, ss = (part.ravel() for part in np.meshgrid(k, shift, indexing="ij"))
    row = np.arange(kk.size)
    factor = np.where(ss == 0, min(rho_still, rho_shifted), rho_shifted)
    rows, columns = np.concatenate([row, row]), np.concatenate([kk, above + kk + cells - ss])
    values = np.concatenate([np.ones(kk.size), -factor])
    limits = coo_array((values, (rows, columns)), shape=(kk.size, above + size + 1)).tocsr()
    ones = np.zeros((2, above + size + 1))
    ones[0, :above], ones[1, above:] = 1, 1
    solution = linprog(
        cost, A_ub=limits, b_ub=np.zeros(kk.size), A_eq=ones, b_eq=[1, 1], bounds=(0, None), method="highs"
    )
    if solution.status != 0:
        raise PeerveilError(f"the linear program was not solved: {solution.message}")
    b, u, atom = solution.x[:above], solution.x[above:-1], float(solution.x[-1])
    return BestPair(
        float(b @ middle[cells:]), float(u @ middle), float(solution.fun), np.concatenate([np.zeros(cells), b]), u, atom
    )
