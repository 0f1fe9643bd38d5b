"""Subset selection: a randomized response for many classes, whose report names several of them.

With k classes k-ary response sends the answer itself hardly more often than any other class, once k is large beside
e^epsilon. A report that names about k/(e^epsilon + 1) classes at once, the answer more likely among them than not,
contains more information at the same epsilon (Wang et al., 2016; Ye and Barg, 2018).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from peerveil.core.errors import BadInput
from peerveil.core.exact import Number, log_above, whole, words
from peerveil.core.guarantee import read_epsilon
from peerveil.core.randomness.response import NamingResponse, Response, UniformSource, inside_threshold, read_classes

MOST_CLASSES: Final = 256  # with more classes a report would be too long; k-ary response is used


@dataclass(frozen=True, slots=True, init=False, repr=False)
class SubsetResponse(NamingResponse):
    """A randomized response whose report is a set of ``size`` classes.

    Parameters
    ----------
    epsilon
        What is guaranteed; the loss of the response never exceeds it.
    classes
        How many classes there are (answers are then the numbers 0, 1, ...), or the public list of them.
    size
        How many classes a report names, w below: from 2 to k - 1. By default :func:`subset_size`.

    Notes
    -----
    A uniform whole number u below N = 2^bits decides. If u < inside_below (I below) the report is the answer and w - 1 of the
    other k - 1 classes, else w of the other classes; both uniformly, and in the order of the classes.

    **Neighbors**: any two answers of one person. **Unit**: one answer. **Proof.** A set S that contains the answer has
    probability (I/N) / C(k-1, w-1), any other (1 - I/N) / C(k-1, w), whatever the answer is. So the ratio of P[S | a] and
    P[S | a'] is 1 if S contains both answers or neither, and otherwise r or 1/r with
    r = I/(N - I) C(k-1, w)/C(k-1, w-1) = I (k - w) / ((N - I) w). The constructor takes the largest I for which r is at most a
    rational number not above e^epsilon, and makes sure that r > 1. ∎

    **Drawing.** The first w places of a random order of the other classes are drawn in any case, and the last one is
    replaced by the answer if it goes in. So the number of draws, and with it the time, depends on neither the answer nor u, but
    only on how often uniform whole numbers (by rejection) had to be drawn again.

    Examples
    --------
    >>> response = SubsetResponse(1, classes=10)
    >>> response.size, round(response.keep, 3), round(response.other, 3), response.loss <= 1
    (3, 0.538, 0.274, True)
    """

    exact_epsilon: Fraction
    labels: tuple[Any, ...] | None
    k: int
    size: int
    bits: int
    inside_below: int

    def __init__(self, epsilon: Number, classes: int | Iterable[Any], *, size: int | None = None) -> None:
        exact_epsilon = read_epsilon(epsilon)
        k, labels = read_classes(classes)
        if not 3 <= k <= MOST_CLASSES:
            raise BadInput("classes", got=k, want=f"from 3 to {MOST_CLASSES} classes, or a Response")
        chosen = max(2, subset_size(exact_epsilon, k)) if size is None else size
        w = whole(chosen, "size", 2, k - 1, want=f"how many classes a report names, from 2 to {k - 1}")
        self._set(exact_epsilon, labels, k, w, *inside_threshold(exact_epsilon, w, k - w))

    @property
    def exact_ratio(self) -> Fraction:
        """The likelihood ratio of a report that contains one of two answers: at most e^epsilon."""
        outside = 2**self.bits - self.inside_below
        return Fraction(self.inside_below * (self.k - self.size), outside * self.size)

    @property
    def loss(self) -> float:
        """The privacy loss that the threshold really has, rounded up: at most :attr:`epsilon` (exactly so)."""
        return min(log_above(self.exact_ratio), self.epsilon)

    @property
    def exact_keep(self) -> Fraction:
        """The probability that a report contains the answer."""
        return Fraction(self.inside_below, 2**self.bits)

    @property
    def exact_other(self) -> Fraction:
        """The probability that a report contains any single other class: the w places are shared by k classes."""
        return (self.size - self.exact_keep) / (self.k - 1)

    @property
    def width(self) -> int:
        """Numbers that a draw holds at once."""
        return self.k

    def probability(self, report: Iterable[int], answer: int) -> Fraction:
        """The exact probability of a report (codes) for an answer (code).

        >>> from itertools import combinations
        >>> sum(SubsetResponse(1, 5, size=2).probability(report, 0) for report in combinations(range(5), 2))
        Fraction(1, 1)
        """
        members = set(report)
        if len(members) != self.size or not members <= set(range(self.k)):
            raise BadInput("report", got=sorted(members), want=f"{self.size} different codes from 0 to {self.k - 1}")
        if whole(answer, "answer", 0, self.k - 1) in members:
            return self.exact_keep / math.comb(self.k - 1, self.size - 1)
        return (1 - self.exact_keep) / math.comb(self.k - 1, self.size)

    def draw(self, codes: NDArray[Any], source: UniformSource) -> NDArray[Any]:
        """A report for every code of a flat array: ``size`` codes per row, rising."""
        drawn, inside_below = self._words(codes.size, source, self.inside_below)
        inside = drawn < inside_below
        rows = np.arange(codes.size)
        others = np.tile(np.arange(self.k - 1), (codes.size, 1))
        for place in range(self.size):  # Fisher and Yates, as far as it is needed
            chosen = place + source.integers(0, self.k - 1 - place, codes.size)
            others[rows, chosen], others[:, place] = others[:, place].copy(), others[rows, chosen]
        report = others[:, : self.size]
        own = codes.astype(np.int64)[:, None]
        report += report >= own  # positions among the other classes as codes
        report[:, -1:] = np.where(inside[:, None], own, report[:, -1:])
        return np.sort(report, axis=1)

    def __repr__(self) -> str:
        return self._written(size=self.size)

    def __str__(self) -> str:
        inside = math.floor(1000 * self.exact_keep) / 10
        return (
            f"Subset response with epsilon {words(self.exact_epsilon)} on {self.k} classes: a report names {self.size} of "
            f"them, and the answer is among them {inside:g}% of the time"
        )


def subset_size(epsilon: Number, k: int) -> int:
    """How many classes a report shall name: 1 (k-ary response), or about k/(e^epsilon + 1).

    Of floor and ceiling, the one with more mutual information of an evenly spread answer and the report,
    p ln(p k/w) + (1 - p) ln((1 - p) k/(k - w)) with p = w e^epsilon / (w e^epsilon + k - w); the smaller one where they are
    equal to 9 digits. It follows from k and epsilon alone, so that all clients and readers agree.

    >>> [[subset_size(epsilon, k) for epsilon in ("0.5", 1, 2, 4)] for k in (2, 4, 10, 20)]
    [[1, 1, 1, 1], [2, 1, 1, 1], [4, 3, 2, 1], [8, 6, 3, 1]]
    """
    odds = math.exp(min(float(read_epsilon(epsilon)), 64.0))
    if not 3 <= k <= MOST_CLASSES:
        return 1
    smaller = min(max(1, math.floor(k / (odds + 1))), k - 1)
    larger = min(max(1, math.ceil(k / (odds + 1))), k - 1)
    return larger if _information(odds, k, larger) > _information(odds, k, smaller) * (1 + 1e-9) else smaller


def _information(odds: float, k: int, w: int) -> float:
    p = w * odds / (w * odds + k - w)
    return p * math.log(p * k / w) + (1 - p) * math.log((1 - p) * k / (k - w)) if p < 1 else math.log(k / w)


def best_response(epsilon: Number, classes: int | Iterable[Any]) -> Response | SubsetResponse:
    """The response with more information: subset selection where :func:`subset_size` is above 1, else k-ary response.

    >>> best_response(1, 10).size, best_response(1, 2).size
    (3, 1)
    """
    listed = classes if isinstance(classes, int) else list(classes)
    k, _ = read_classes(listed)
    return Response(epsilon, listed) if subset_size(epsilon, k) == 1 else SubsetResponse(epsilon, listed)
