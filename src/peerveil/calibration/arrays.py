"""Frontiers of millions of pairs at once: Theorem 4.5, all eight cases, as one line.

Write u, v for the posterior probabilities of the two assignments (u + v = 1), Phi_i for P[paper 1 is worse] under
assignment i, w_i = abs(1 - 2 Phi_i). If both assignments favor the same paper, accept it: one point,
(u min(Phi_1, 1 - Phi_1) + v min(Phi_2, 1 - Phi_2), min(u, v)). If they favor different papers, the frontier is the
segment from that conference error and adversary error 0 to plus (min(u, v) min(w_1, w_2), min(u, v)).

*Proof.* Let x, y be the probabilities of going against the favorite under assignment 1 and 2. The conference pays
u w_1 x + v w_2 y above its least error. One paper is accepted by u(1 - x) and v y, the other by u x and v(1 - y), so
the adversary's error is min(u(1 - x), v y) + min(u x, v(1 - y)) <= min(u, v, u x + v y). To reach an adversary error t
the moved mass u x + v y must be at least t, which costs at least t min(w_1, w_2); moving t under the cheaper
assignment reaches it, since t <= min(u, v). The sign of Phi_i - 1/2, which of u, v and which of w_1, w_2 is smaller
make the paper's eight cases; none of them enters.

The odds: f_1(s_1) f_2(s_2) / (f_2(s_1) f_1(s_2)) with f_j = N(b_j, V_j), V_j = a_j^2 + sigma^2. The factors in front of
the exponentials cancel, and log(u/v) = (s_2 - s_1)/2 * ((s_1 + s_2 - 2 b_1)/V_1 - (s_1 + s_2 - 2 b_2)/V_2): no 0/0,
however unlikely the scores are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from peerveil.calibration.checks import noise_level, numbers
from peerveil.core.errors import BadInput, Verbatim

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

_BLOCK = 1 << 14  # instances handled at once: temporary arrays stay in the processor's cache


@dataclass(frozen=True, slots=True)
class PairFrontiers:
    """One frontier a row.

    Attributes
    ----------
    start, end : arrays (n, 2)
        (conference error, adversary error); equal where there is nothing to trade.
    odds : array (n,)
        The posterior probability u of assignment 1.
    price : array (n,)
        Conference error a unit of adversary error; 0 where there is nothing to trade.
    cheaper : array (n,)
        Under which assignment (0 or 1) going against the favorite costs less; -1 where both cost the same.
    favorite : array (n, 2)
        The paper (0 or 1) favored under each assignment; -1 for a tie.
    """

    start: Floats
    end: Floats
    odds: Floats
    price: Floats
    cheaper: NDArray[np.int8]
    favorite: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.odds)


def pair_frontiers(scores: ArrayLike, *, scales: ArrayLike, biases: ArrayLike, noise: float = 0.0) -> PairFrontiers:
    """Frontiers of many pairs of papers with affine reviewers.

    Parameters
    ----------
    scores
        (n, 2), or (2,) for one pair.
    scales, biases
        (n, 2), or (2,) for the same two reviewers everywhere. Scales are above 0.
    noise
        A standard deviation, 0 for none: the limit of Theorem 4.2, ties included.

    Examples
    --------
    >>> found = pair_frontiers([[0.6, 0.5], [2.0, -1.0]], scales=[1.0, 1.0], biases=[0.5, -0.5], noise=0.5)
    >>> found.start.round(3).tolist()
    [[0.106, 0.0], [0.005, 0.083]]
    >>> found.end.round(3).tolist()
    [[0.463, 0.48], [0.005, 0.083]]
    """
    s = np.atleast_2d(numbers("scores", scores, columns=2))
    if s.ndim != 2:
        raise BadInput("scores", got=Verbatim(f"shape {s.shape}"), want="one pair of scores a row")
    a, b = (_rows(name, given, len(s)) for name, given in (("scales", scales), ("biases", biases)))
    if not (a > 1e-100).all():
        raise BadInput("scales", got=float(a[~(a > 1e-100)][0]), want="numbers above 0")
    sigma = noise_level(noise)
    n = len(s)
    out = PairFrontiers(
        np.empty((n, 2)), np.empty((n, 2)), np.empty(n), np.empty(n), np.empty(n, np.int8), np.empty((n, 2), np.int8)
    )
    for first in range(0, n, _BLOCK):
        rows = slice(first, min(first + _BLOCK, n))
        shared = len(a) == 1, len(b) == 1
        _fill(out, rows, s[rows], a if shared[0] else a[rows], b if shared[1] else b[rows], sigma)
    return out


def _rows(name: str, given: ArrayLike, count: int) -> Floats:
    array = np.atleast_2d(numbers(name, given, columns=2))
    if array.ndim != 2 or len(array) not in {1, count}:
        raise BadInput(name, got=Verbatim(f"shape {np.shape(given)}"), want=f"(2,) or ({count}, 2)")
    return array


def log_odds(s1: Any, s2: Any, a: tuple[Any, Any], b: tuple[Any, Any], sigma: float) -> Any:
    """log(u/v) of two affine reviewers, without ever dividing 0 by 0."""
    v1, v2 = np.hypot(a[0], sigma), np.hypot(a[1], sigma)
    total = s1 + s2
    first = (s2 - s1) / v1 * ((total - 2 * b[0]) / v1)
    second = (s2 - s1) / v2 * ((total - 2 * b[1]) / v2)
    return 0.5 * (first - second)


def _fill(out: PairFrontiers, rows: slice, s: Floats, a: Floats, b: Floats, sigma: float) -> None:
    s1, s2 = s[:, 0], s[:, 1]
    a1, a2, b1, b2 = a[:, 0], a[:, 1], b[:, 0], b[:, 1]
    with np.errstate(over="ignore", invalid="ignore"):
        logit = log_odds(s1, s2, (a1, a2), (b1, b2), sigma)
    if np.isnan(logit).any():
        raise BadInput("scores", got=Verbatim("scores beyond arithmetic"), want="smaller scores, or a larger noise")
    rarer = 1.0 / (1.0 + np.exp(np.minimum(np.abs(logit), 700.0)))
    u = np.where(logit > 0, 1.0 - rarer, rarer)
    v1, v2 = a1 * a1 + sigma * sigma, a2 * a2 + sigma * sigma
    # posterior means: of paper 1 and 2 under assignment 1, then under assignment 2
    gap1 = a2 * (s2 - b2) / v2 - a1 * (s1 - b1) / v1
    gap2 = a1 * (s2 - b1) / v1 - a2 * (s1 - b2) / v2
    if sigma > 0:
        spread = sigma * np.sqrt(1.0 / v1 + 1.0 / v2)
        least1, least2 = ndtr(-np.abs(gap1) / spread), ndtr(-np.abs(gap2) / spread)
        w1, w2 = 1.0 - 2.0 * least1, 1.0 - 2.0 * least2
        lowest = u * least1 + (1.0 - u) * least2
    else:  # known qualities; a tie is no error
        w1, w2 = np.abs(np.sign(gap1)), np.abs(np.sign(gap2))
        lowest = np.zeros_like(u)
    torn = ((gap1 < 0) & (gap2 > 0)) | ((gap1 > 0) & (gap2 < 0))
    price = np.where(torn, np.minimum(w1, w2), 0.0)
    out.odds[rows] = u
    out.price[rows] = price
    out.cheaper[rows] = np.where(w1 == w2, -1, np.where(w1 < w2, 0, 1))
    out.favorite[rows, 0] = np.where(gap1 == 0, -1, gap1 > 0)
    out.favorite[rows, 1] = np.where(gap2 == 0, -1, gap2 > 0)
    out.start[rows, 0] = lowest
    out.start[rows, 1] = np.where(torn, 0.0, rarer)
    out.end[rows, 0] = lowest + rarer * price
    out.end[rows, 1] = rarer
