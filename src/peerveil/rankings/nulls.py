"""What statistics look like when rankings are uniform: exact laws, large public simulations, and one verified limit.

Nothing here depends on data beyond the public numbers of rankings and items. Laws are kept in memory, and on disk too if
the environment variable ``PEERVEIL_CACHE`` names a folder.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.stats import beta, binom

from peerveil.core.files import write_atomically
from peerveil.rankings.kernels import batch_norms_of_shuffles

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_SEED: Final = 2_021_061_2  # public: whoever repeats the simulation gets the same law
_DRAWS: Final = 200_000
_CELLS_SIMULATED: Final = 400  # up to this many ranks a draw, concordance is simulated; beyond, its limit is used
_FEW_ITEMS: Final = 4  # up to this many items, rankings are counted by kind: any number of rankings is quick
_NODES: Final = 20_000
_LONGEST: Final = 1 << 20
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Law:
    """A distribution as atoms: values in ascending order with probabilities.

    Attributes
    ----------
    kind : str
        ``"exact"``, ``"simulated"`` (from ``draws`` public draws), ``"limit"``, or ``"convolved"`` from one of these.
    width : float
        How far a value may have been rounded: tails are taken from so much below, so that they never err downwards.
    """

    values: Floats
    chances: Floats
    kind: str
    draws: int = 0
    width: float = 0.0

    def tail(self, x: float) -> float:
        """P[value >= x], never too small: for a simulated law (1 + hits) / (draws + 1)."""
        first = int(np.searchsorted(self.values, x - self.width - 1e-9 * max(1.0, abs(x))))
        if self.kind == "simulated":
            return (1 + self.values.size - first) / (self.draws + 1)
        return float(min(1.0, max(self.chances[first:].sum(), 1e-15)))

    def critical(self, level: float) -> float:
        """The smallest value whose tail is at most ``level``; infinite if there is none."""
        low, high = 0, self.values.size
        while low < high:
            middle = (low + high) // 2
            if self.tail(float(self.values[middle])) <= level:
                high = middle
            else:
                low = middle + 1
        return float(self.values[low]) if low < self.values.size else math.inf

    def mapped(self, function: Callable[[Floats], Floats]) -> Law:
        """The law of an increasing function of the value."""
        return Law(function(self.values), self.chances, self.kind, self.draws, 0.0)


def squares_null(counts: tuple[int, ...]) -> Law:
    """The law of the sum of A_d^2 over d, A_d the sum of n_d independent fair signs: exact, or exact up to small cells.

    Whole numbers up to a million are convolved as they are. Beyond, each A_d^2 is split over two neighboring cells so that
    its mean is kept; the tail is then taken from two cells below.
    """
    return _squares_null(tuple(sorted(counts)))


@lru_cache(maxsize=64)
def _squares_null(counts: tuple[int, ...]) -> Law:
    sizes, times = np.unique(np.array(counts, dtype=np.int64), return_counts=True)
    mean = float(np.dot(sizes, times))
    deviation = math.sqrt(2 * float(np.dot(sizes.astype(float) ** 2, times)))
    top = min(mean + 14 * deviation + 90.0 * float(sizes.max()), float(np.dot(sizes.astype(float) ** 2, times)))
    step = max(1.0, top / (_LONGEST // 2))
    length = 1 << max(4, math.ceil(math.log2(top / step + 3)))
    transform = np.ones(length // 2 + 1, dtype=np.complex128)
    for size, number in zip(sizes.tolist(), times.tolist(), strict=True):
        reach = min(size, math.isqrt(int(top)) + 2)
        sums = np.arange(size - 2 * ((size + reach) // 2), reach + 1, 2)
        chance = binom.pmf((sums + size) // 2, size, 0.5)
        place = np.minimum(sums.astype(np.float64) ** 2 / step, length - 1.0)
        left = np.floor(place)
        share = place - left
        single = np.bincount(left.astype(int), chance * (1 - share), minlength=length)
        single += np.bincount(np.minimum(left + 1, length - 1).astype(int), chance * share, minlength=length)
        transform *= np.fft.rfft(single) ** number
    chances = np.maximum(np.fft.irfft(transform, length), 0.0)
    keep = np.flatnonzero(chances > 1e-17)
    values = keep.astype(np.float64) * step
    return Law(values, chances[keep] / chances[keep].sum(), "exact", width=0.0 if step == 1.0 else 2 * step)


def concordance_null(rankings: int, items: int) -> Law:
    """The law of Kendall's W: the squared length of the mean of the rankings' unit vectors, from 0 to 1.

    For two items it is exact. For up to four items, or few ranks in all, it is simulated with 200,000 draws. Beyond, W is
    taken to follow the beta law with W's exact mean 1/k and variance 2(k-1)/(k^3 (m-1)) (Kendall and Babington Smith,
    1939), on [0, 1]: its tails were found within 4% of the truth down to level 0.001 from 400 ranks on, far closer than the
    chi-square limit (a slow test repeats this).
    """
    return _concordance_null(int(rankings), int(items))


@lru_cache(maxsize=64)
def _concordance_null(k: int, m: int) -> Law:
    if m == 2:
        return squares_null((k,)).mapped(lambda v: v / float(k) ** 2)
    if m <= _FEW_ITEMS or k * m <= _CELLS_SIMULATED:
        values = _kept(f"concordance-{k}-{m}", lambda: _simulate_concordance(k, m))
        return Law(values, np.full(values.size, 1 / values.size), "simulated", draws=values.size)
    a, b = beta_parameters(k, m)
    nodes = beta.ppf((np.arange(_NODES) + 0.5) / _NODES, a, b)
    return Law(nodes, np.full(_NODES, 1 / _NODES), "limit")


def beta_parameters(rankings: int, items: int) -> tuple[float, float]:
    """The beta law with W's exact mean and variance."""
    a = (items - 1) / 2 - 1 / rankings
    return a, (rankings - 1) * a


def concordance_tail(rankings: int, items: int, w: float) -> float:
    """P[W >= w] when rankings are uniform."""
    law = concordance_null(rankings, items)
    if law.kind == "limit":
        a, b = beta_parameters(rankings, items)
        return float(max(beta.sf(w, a, b), 1e-15))
    return law.tail(w)


def concordance_critical(rankings: int, items: int, level: float) -> float:
    """The smallest W at which the tail is at most ``level``."""
    law = concordance_null(rankings, items)
    if law.kind == "limit":
        a, b = beta_parameters(rankings, items)
        return float(beta.isf(level, a, b))
    return law.critical(level)


def _simulate_concordance(k: int, m: int) -> Floats:
    most = m * (m * m - 1) / 3 * float(k) ** 2  # of four times the squared norm of summed centered ranks
    if k * m > _CELLS_SIMULATED:  # few items, many rankings: count the rankings of each kind
        kinds = 2 * np.array(list(permutations(range(m)))) - (m - 1)
        rng = np.random.default_rng(_SEED)
        drawn = rng.multinomial(k, np.full(len(kinds), 1 / len(kinds)), size=_DRAWS)
        return np.sort(((drawn @ kinds).astype(np.float64) ** 2).sum(axis=1) / most)
    out = np.empty(_DRAWS)
    batch_norms_of_shuffles(k, m, _SEED, out)
    return np.sort(out / most)


def batches_null(batches: int, size: int, items: int, clip: float) -> Law:
    """The law of the sum over batches of the clipped standardized concordance: a convolution power of one batch's law.

    A batch of two has a symmetric law (reverse one ranking), which is enforced, so its mean is exactly 0.
    """
    return _batches_null(int(batches), int(size), int(items), float(clip))


@lru_cache(maxsize=64)
def _batches_null(g: int, b: int, m: int, clip: float) -> Law:
    w = concordance_null(b, m)
    standard = np.clip((w.values * b - 1) * b / math.sqrt(2 * b * (b - 1) / (m - 1)), -clip, clip)
    cells = max(8, min(1024, (_LONGEST - 1) // g))
    place = (standard + clip) / (2 * clip) * cells
    left = np.floor(place)
    share = place - left
    single: Any = np.bincount(left.astype(int), w.chances * (1 - share), minlength=cells + 2)
    single += np.bincount((left + 1).astype(int), w.chances * share, minlength=cells + 2)
    single = single[: cells + 1]
    if b == 2:
        single = (single + single[::-1]) / 2
    length = 1 << math.ceil(math.log2(g * cells + 2))
    chances = np.maximum(np.fft.irfft(np.fft.rfft(single, length) ** g, length), 0.0)[: g * cells + 1]
    keep = np.flatnonzero(chances > 1e-17)
    values = (keep / cells - g / 2) * 2 * clip
    return Law(values, chances[keep] / chances[keep].sum(), "convolved", width=2 * clip / cells)


def _kept(name: str, make: Callable[[], Floats]) -> Floats:
    """A public simulation, from the cache folder if there is one."""
    folder = os.environ.get("PEERVEIL_CACHE")
    if not folder:
        return make()
    path = Path(folder) / f"rankings-{_VERSION}-{name}-{_DRAWS}.npy"
    if path.is_file():
        try:
            found: Any = np.load(path, allow_pickle=False)
            if found.shape == (_DRAWS,) and found.dtype == np.float64:
                return np.asarray(found)
        except (OSError, ValueError):
            pass  # a broken file is made anew
    values = make()
    write_atomically(path, lambda handle: np.save(handle, values))
    return values
