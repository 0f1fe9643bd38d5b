"""Find the event that distinguishes two samples best.

An *event* is a set of outputs. A family turns outputs into a score and considers the sets "score at least t" and
"score at most t". What has to be learned (bins with their likelihood ratios, directions in space) is learned on one
part of the sample, the best event is chosen on another; the certificate (in :mod:`peerveil.audit.bound`) uses a third
part that neither has seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerveil.core.arrays import Floats, Ints
from peerveil.core.lazy import betaincinv

Score: TypeAlias = Callable[[NDArray[Any]], Floats]
"""A number for each output."""

_BINS: Final = 64
_CAUTION: Final = 1e-5  # each bound that is compared is wrong this rarely
_MOST_CATEGORIES: Final = 4096
_MOST_THRESHOLDS: Final = 512
_MOST_COORDINATES: Final = 32
_ATOM_COUNT: Final = 8  # a value seen this often while learning is an outcome of its own


@dataclass(frozen=True, slots=True)
class Event:
    """Outputs whose score is on one side of a threshold."""

    score: Score
    threshold: float
    at_least: bool
    words: str

    def count(self, sample: NDArray[Any]) -> int:
        """How many outputs are in the event; a score of NaN never is."""
        scores = self.score(sample)
        return int(np.count_nonzero(scores >= self.threshold if self.at_least else scores <= self.threshold))

    def __str__(self) -> str:
        return f"{self.words} {'at least' if self.at_least else 'at most'} {self.threshold:.6g}"


def choose_event(
    learn: tuple[NDArray[Any], NDArray[Any]],
    select: tuple[NDArray[Any], NDArray[Any]],
    *,
    one_sided: bool,
    score: Score | None,
) -> tuple[Event, bool]:
    """The event with the largest cautious bound, and whether it is likelier under a.

    Thousands of events are tried; the most promising of many rare ones would be a lucky one. So the bounds that are
    compared are far more cautious than the certificate will be.
    """
    best: tuple[float, Event, bool] | None = None
    for words, function in families(*learn, score=score):
        scores = [np.sort(part[~np.isnan(part)]) for part in map(function, select)]
        thresholds = _thresholds(np.concatenate(scores))
        for at_least in (True, False):
            hits = [_counts(part, thresholds, at_least) for part in scores]
            counts = list(zip(hits, map(len, select), strict=True))
            for a_over_b in (True,) if one_sided else (True, False):
                top, bottom = counts if a_over_b else counts[::-1]
                with np.errstate(divide="ignore"):
                    low = np.log(lower_confidence(*top, _CAUTION))
                value = low - np.log(upper_confidence(*bottom, _CAUTION))
                if value.size and (best is None or value.max() > best[0]):
                    i = int(value.argmax())
                    event = Event(function, float(thresholds[i]), at_least, words)
                    best = float(value[i]), event, a_over_b
    if best is None:  # no output has a score
        return Event(function, np.inf, True, words), True
    return best[1:]


def _thresholds(pooled: Floats) -> Floats:
    """Distinct scores to try: all if there are few, else evenly spaced in rank, with both tails in full."""
    values = np.unique(pooled)
    if values.size > _MOST_THRESHOLDS:
        tail = np.arange(_MOST_THRESHOLDS // 8)
        even = np.linspace(0, pooled.size - 1, _MOST_THRESHOLDS * 3 // 4).astype(int)
        ordered = np.sort(pooled)
        values = np.unique(np.concatenate([values[tail], ordered[even], values[-1 - tail]]))
    return values


def _counts(ordered: Floats, thresholds: Floats, at_least: bool) -> Floats:
    if at_least:
        return np.asarray(ordered.size - np.searchsorted(ordered, thresholds, side="left"), dtype=float)
    return np.asarray(np.searchsorted(ordered, thresholds, side="right"), dtype=float)


# ---- families ---------------------------------------------------------------------------------------------------


def families(a: NDArray[Any], b: NDArray[Any], *, score: Score | None = None) -> Iterator[tuple[str, Score]]:
    """Every way of scoring outputs of this kind, learned from two samples."""
    if score is not None:
        yield "the given score", score
    elif a.ndim == 2:
        yield from _vector_families(a, b) if a.dtype.kind == "f" else _table_families(a, b)
    elif a.dtype.kind == "O":
        yield "learned log-likelihood ratio of the category", _binned(_Categories, a, b)
    else:
        yield "output", lambda x: x
        yield "learned log-likelihood ratio of the output", _binned(_Bins, a, b)


def _table_families(a: NDArray[Any], b: NDArray[Any]) -> Iterator[tuple[str, Score]]:
    """For vectors of categories: the whole row, each column, and the columns' evidence added up."""
    rows = _binned(_Categories, _rows(a), _rows(b))
    yield "learned log-likelihood ratio of the whole row", lambda x: rows(_rows(x))
    columns = [_binned(_Categories, a[:, j], b[:, j]) for j in range(a.shape[1])]
    yield "sum of the columns' learned log-likelihood ratios", partial(_added, columns)
    for j, part in enumerate(columns[:_MOST_COORDINATES]):
        yield f"learned log-likelihood ratio of column {j}", partial(_of_column, j, part)


def _added(columns: list[Score], x: NDArray[Any]) -> Floats:
    return np.asarray(np.sum([part(x[:, j]) for j, part in enumerate(columns)], axis=0))


def _of_column(j: int, part: Score, x: NDArray[Any]) -> Floats:
    return part(x[:, j])


def _rows(table: NDArray[Any]) -> NDArray[Any]:
    return np.fromiter(map(tuple, table.tolist()), dtype=object)


def _vector_families(a: Floats, b: Floats) -> Iterator[tuple[str, Score]]:
    scale = a.std(axis=0) + b.std(axis=0) + 1e-300
    shift = np.abs(a.mean(axis=0) - b.mean(axis=0)) / scale
    spread = np.abs(a.std(axis=0) - b.std(axis=0)) / scale
    for j in np.argsort(-(shift + spread), kind="stable")[:_MOST_COORDINATES].tolist():
        yield f"coordinate {j}", partial(_of_column, j, np.asarray)
    yield "sum of the output", lambda x: x.sum(axis=1)
    parts = [_binned(_Bins, a[:, j], b[:, j]) for j in range(a.shape[1])]
    yield "sum of the coordinates' learned log-likelihood ratios", partial(_added, parts)
    # Fisher's linear discriminant
    direction = np.linalg.solve(_covariance(a, b), a.mean(axis=0) - b.mean(axis=0))
    yield "learned linear combination", lambda x: x @ direction
    bins = _binned(_Bins, a @ direction, b @ direction)
    yield "learned log-likelihood ratio of a linear combination", lambda x: bins(x @ direction)
    quadratic = [_gaussian(part) for part in (a, b)]
    yield "learned quadratic score", lambda x: quadratic[0](x) - quadratic[1](x)


class _Bins:
    """Numbers into bins: about equally full, with every frequent value a bin of its own, and one bin for NaN."""

    def __init__(self, a: Floats, b: Floats) -> None:
        pooled = np.concatenate([a, b])
        pooled = pooled[~np.isnan(pooled)]
        values, counts = np.unique(pooled, return_counts=True)
        few = values.size <= _MOST_CATEGORIES and counts.mean() >= 2 if values.size else False
        frequent = counts >= (1 if few else _ATOM_COUNT)
        self.atoms = values[frequent]
        if self.atoms.size > _MOST_CATEGORIES:
            self.atoms = np.sort(values[np.argsort(-counts, kind="stable")[:_MOST_CATEGORIES]])
        quantiles = np.linspace(0, 1, _BINS + 1)[1:-1]
        self.edges = np.unique(np.quantile(pooled, quantiles)) if pooled.size else np.zeros(1)

    def __call__(self, x: Floats) -> Ints:
        place = np.searchsorted(self.edges, x)
        if self.atoms.size:
            at = np.minimum(np.searchsorted(self.atoms, x), self.atoms.size - 1)
            place = np.where(self.atoms[at] == x, self.edges.size + 1 + at, place)
        return np.where(np.isnan(x), self.edges.size + 1 + self.atoms.size, place)


class _Categories:
    """Arbitrary hashable outputs into bins; what was not seen while learning is one bin of its own."""

    def __init__(self, a: NDArray[Any], b: NDArray[Any]) -> None:
        frequent = Counter([*a.tolist(), *b.tolist()]).most_common(_MOST_CATEGORIES)
        self.codes = {value: code for code, (value, _) in enumerate(frequent, start=1)}

    def __call__(self, x: NDArray[Any]) -> Ints:
        return np.array([self.codes.get(value, 0) for value in x.tolist()], dtype=np.int64)


def _binned(kind: type[_Bins | _Categories], a: NDArray[Any], b: NDArray[Any]) -> Score:
    """Score an output by the log-ratio of its bin's frequencies in the two samples, half a count added to each."""
    bins = kind(a, b)
    in_a, in_b = bins(a), bins(b)
    size = int(max(in_a.max(), in_b.max())) + 2
    freq_a, freq_b = (np.bincount(part, minlength=size) + 0.5 for part in (in_a, in_b))
    ratio = np.log(freq_a / a.shape[0]) - np.log(freq_b / b.shape[0])
    return lambda x: ratio[np.minimum(bins(x), size - 1)]


def _gaussian(sample: Floats) -> Score:
    """The log-density of a normal distribution fitted to a sample, up to a constant."""
    center, root = sample.mean(axis=0), np.linalg.cholesky(_covariance(sample))
    return lambda x: -0.5 * np.square(np.linalg.solve(root, (x - center).T)).sum(axis=0)


def _covariance(*samples: Floats) -> Floats:
    """The sum of the samples' covariances, with a little ridge."""
    total = np.sum([np.atleast_2d(np.cov(sample, rowvar=False)) for sample in samples], axis=0)
    ridge = 1e-9 * np.trace(total) / total.shape[0] + 1e-300
    return np.asarray(total + ridge * np.eye(total.shape[0]))


def granularity(outputs: NDArray[Any]) -> Floats:
    """The exponent of the lowest set bit of each output (the smallest over a vector): an event for :func:`lower_bound`.

    Noise that is added in floating point leaves the grid of the input's floats visible in the last bits of the output
    (Mironov, CCS 2012): at a true epsilon of 1 this event shows losses of 6 and more. By default outputs are audited as
    real numbers; pass ``event=granularity`` to audit the bits. Secure randomness passes, simulated randomness does not.

    >>> granularity(np.array([1.0, 0.75, 6.0, 0.0])).tolist()
    [0.0, -2.0, 1.0, 1100.0]
    """
    mantissa, exponent = np.frexp(np.asarray(outputs, dtype=float))
    whole = np.abs(np.ldexp(np.where(np.isfinite(mantissa), mantissa, 0.0), 53)).astype(np.int64)
    lowest = np.where(whole > 0, whole & -whole, 1)
    exponents = np.where(whole > 0, exponent - 53 + np.log2(lowest), 1100.0)
    return exponents if exponents.ndim == 1 else exponents.min(axis=1)


# ---- exact confidence bounds for a probability from counts (Clopper and Pearson, 1934) --------------------------------


def lower_confidence(successes: ArrayLike, trials: ArrayLike, alpha: float) -> Floats:
    """A bound that is above the true probability with probability at most ``alpha``; 0 where nothing was seen.

    >>> round(float(lower_confidence(50, 100, 0.025)), 4)
    0.3983
    """
    k, n = np.broadcast_arrays(np.asarray(successes, float), np.asarray(trials, float))
    inverse = betaincinv(np.maximum(k, 1), n - np.maximum(k, 1) + 1, alpha)
    return np.asarray(np.where(k > 0, inverse, 0.0))


def upper_confidence(successes: ArrayLike, trials: ArrayLike, alpha: float) -> Floats:
    """A bound that is below the true probability with probability at most ``alpha``.

    >>> round(float(upper_confidence(0, 100, 0.05)), 4)  # the "rule of three"
    0.0295
    """
    return 1.0 - lower_confidence(np.subtract(trials, successes), trials, alpha)
