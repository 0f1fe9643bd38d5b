"""Randomized response on integer thresholds, with an epsilon that is known exactly.

Warner (1965) for two classes, and its k-class form: keep the answer with probability p, else answer with one of the
others, each equally likely. The probabilities are whole numbers over 2^32 or 2^64, so that what a computer can draw
is what the proof is about.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar, Final, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerveil.core.arrays import Floats
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import Number, as_array, exp_bounds, log_above, printed, refuse_first, whole, words
from peerveil.core.guarantee import read_epsilon

_LARGEST_USEFUL: Final = Fraction(64)  # e^64 is beyond what 64 bits can express
_CLOSE_ENOUGH: Final = 1e-6  # accept 32 bits if they reach epsilon up to this fraction
_MOST_CLASSES: Final = 2**31


class UniformSource(Protocol):
    """What a response draws from: either source of randomness."""

    def uniform_words(self, count: int, bits: int) -> NDArray[Any]:
        """Independent uniform words of 32 or 64 bits."""

    def integers(self, low: int, high: int, size: int) -> NDArray[np.int64]:
        """Whole numbers from ``low`` up to, but not including, ``high``, exactly uniform."""


class ClassResponse:
    """What responses on a public list of classes share: an exact epsilon, answers as codes and back, and what a word decides."""

    __slots__ = ()
    exact_epsilon: Fraction
    labels: tuple[Any, ...] | None
    k: int
    bits: int

    def _set(self: Any, *values: Any) -> None:
        """Set all fields, in their order; afterwards they never change."""
        for field, value in zip(fields(self), values, strict=True):
            object.__setattr__(self, field.name, value)

    @property
    def epsilon(self) -> float:
        """The epsilon that was asked for."""
        return printed(self.exact_epsilon, "up")

    def _words(self, count: int, source: UniformSource, threshold: int) -> tuple[NDArray[Any], Any]:
        """Uniform words of the width of this response, and a threshold of the same kind."""
        word: Any = np.uint32 if self.bits == 32 else np.uint64
        return source.uniform_words(count, self.bits), word(threshold)

    def encode(self, answers: ArrayLike, argument: str = "answers") -> NDArray[Any]:
        """Answers as codes 0 .. k-1; an answer that is not one of the classes is refused."""
        values = as_array(answers, argument)
        if values.size == 0:
            raise BadInput(argument, got=answers, want="at least one answer")
        if self.labels is None:
            return _codes(values, self.k, argument)
        table = _as_array(self.labels)
        mixed = "O" in (values.dtype.kind, table.dtype.kind)
        if values.dtype.kind != table.dtype.kind and not mixed:
            names = {"b": "booleans", "i": "whole numbers", "u": "whole numbers", "f": "floats", "U": "strings"}
            got, want = (names.get(array.dtype.kind, str(array.dtype)) for array in (values, table))
            raise BadInput(argument, got=Verbatim(got), want=f"{want}, like the classes")
        if mixed:
            lookup = {(type(label), label): code for code, label in enumerate(self.labels)}
            listed = [lookup.get((type(v), v), -1) for v in values.ravel().tolist()]
            codes = np.array(listed, dtype=np.int64).reshape(values.shape)
        else:
            order = np.argsort(table)
            place = np.minimum(np.searchsorted(table, values, sorter=order), self.k - 1)
            codes = np.where(table[order[place]] == values, order[place], -1)
        refuse_first(codes < 0, values, argument, f"one of {_listed(self.labels)}")
        return codes

    def decode(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Codes as answers: the inverse of :meth:`encode`."""
        return codes if self.labels is None else _as_array(self.labels)[codes]

    def _written(self, **more: int) -> str:
        """The expression that makes this response."""
        classes: object = self.k if self.labels is None else list(self.labels)
        rest = "".join(f", {name}={value}" for name, value in more.items())
        return f"{type(self).__name__}({str(self.exact_epsilon)!r}, classes={classes!r}{rest})"


class NamingResponse(ClassResponse):
    """A response whose report names ``size`` classes: the answer with probability ``keep``, any other class with ``other``."""

    __slots__ = ()
    size: int

    @property
    @abstractmethod
    def exact_keep(self) -> Fraction:
        """The probability that a report names the answer."""

    @property
    @abstractmethod
    def exact_other(self) -> Fraction:
        """The probability that a report names any single other class."""

    @property
    def keep(self) -> float:
        """:attr:`exact_keep` as a float."""
        return float(self.exact_keep)

    @property
    def other(self) -> float:
        """:attr:`exact_other` as a float."""
        return float(self.exact_other)

    def matrix(self) -> Floats:
        """``matrix[answer, class]``: the probability that a report names the class, as floats. Rows add up to ``size``.

        The shares of reports that name each class have the expectation shares @ matrix.

        >>> Response(1, classes=2).matrix().round(3).tolist()
        [[0.731, 0.269], [0.269, 0.731]]
        """
        return np.where(np.eye(self.k, dtype=bool), self.keep, self.other)

    def unbiased(self, counts: ArrayLike) -> Floats:
        """Unbiased estimates of how many people gave each answer, from how many reports name it.

        E[reports that name y] = n other + (keep - other) answers of y; this solves for the answers.

        >>> Response(1, classes=2).unbiased([600, 400]).round(1).tolist()
        [716.4, 283.6]
        """
        shown = as_array(counts, "counts")
        if shown.dtype.kind not in "iuf" or shown.shape != (self.k,) or not (np.isfinite(shown) & (shown >= 0)).all():
            raise BadInput("counts", got=counts, want=f"{self.k} counts, one per class")
        reports = shown.sum() / self.size
        return np.asarray((shown - reports * self.other) / float(self.exact_keep - self.exact_other))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Response(NamingResponse):
    """A k-class randomized response for an epsilon, on integer thresholds.

    Parameters
    ----------
    epsilon
        What is guaranteed; the loss of the response never exceeds it.
    classes
        How many classes there are (answers are then the numbers 0, 1, ...), or the list of them. It is always
        given: a set of classes that was taken from private answers would itself tell about them.

    Notes
    -----
    A uniform whole number u below N = 2^bits decides. If u < keep_below the answer x is kept; otherwise the answer
    is the ((u - keep_below) // share)-th of the other classes.

    **Neighbors**: any two answers of one person. **Proof.** ``keep_below + (k-1) * share = N``, so every other class
    owns exactly ``share`` of the N equally likely numbers: P[y | x] is keep_below/N for y = x and share/N otherwise.
    The largest ratio of P[y | x] to P[y | x'] is keep_below/share = N/share - (k-1). The constructor takes share =
    ceil(N / (L + k - 1)) with a rational L <= e^epsilon, so that this ratio is at most L. It also makes sure that
    keep_below > share, so the inverse ratio is below 1. ∎

    The width is 32 bits where these come within a millionth of epsilon, else 64: a rule on (epsilon, k) alone, so
    that clients in other languages derive the same thresholds.

    Examples
    --------
    >>> response = Response(1, classes=2)
    >>> response.bits, response.keep_below, response.share
    (32, 3139872686, 1155094610)
    >>> response.loss <= 1, round(response.keep, 4)
    (True, 0.7311)
    """

    exact_epsilon: Fraction
    labels: tuple[Any, ...] | None
    k: int
    bits: int
    keep_below: int
    share: int

    def __init__(self, epsilon: Number, classes: int | Iterable[Any]) -> None:
        exact_epsilon = read_epsilon(epsilon)
        k, labels = read_classes(classes)
        for bits in (32, 64):
            keep_below, share = _thresholds(exact_epsilon, k, bits)
            enough = keep_below > share and (
                bits == 64 or math.log(keep_below / share) >= (1 - _CLOSE_ENOUGH) * float(exact_epsilon)
            )
            if enough:
                break
        else:
            raise BadInput("epsilon", got=epsilon, want=f"more: with {k} classes nothing would be left of an answer")
        self._set(exact_epsilon, labels, k, bits, keep_below, share)

    @property
    def loss(self) -> float:
        """The privacy loss that the thresholds really have, rounded up: at most :attr:`epsilon` (exactly so)."""
        return min(log_above(Fraction(self.keep_below, self.share)), self.epsilon)

    @property
    def exact_keep(self) -> Fraction:
        """The probability that an answer is sent unchanged."""
        return Fraction(self.keep_below, 2**self.bits)

    @property
    def exact_other(self) -> Fraction:
        """The probability of each single other class."""
        return Fraction(self.share, 2**self.bits)

    size: ClassVar[int] = 1  # type: ignore[misc]  # classes in a report: the same for all
    width: ClassVar[int] = 1  # numbers that a draw holds at once

    def probabilities(self, answer: int) -> list[Fraction]:
        """The exact distribution of what is sent for the answer with this code.

        >>> sum(Response(1, classes=3).probabilities(0))
        Fraction(1, 1)
        """
        whole(answer, "answer", 0, self.k - 1, want=f"a code from 0 to {self.k - 1}")
        return [self.exact_keep if code == answer else self.exact_other for code in range(self.k)]

    def draw(self, codes: NDArray[Any], source: UniformSource) -> NDArray[Any]:
        """A randomized code for every code of a flat array."""
        drawn, keep_below = self._words(codes.size, source, self.keep_below)
        moved = drawn >= keep_below
        out = np.empty_like(codes)
        if self.k == 2:
            np.bitwise_xor(codes, moved, out=out, casting="unsafe")
            return out
        # the index among the other classes, skipping the answer itself; meaningless (and unused) where kept
        other = ((drawn - keep_below) // type(keep_below)(self.share)).astype(codes.dtype)
        other += other >= codes
        np.copyto(out, codes)
        np.copyto(out, other, where=moved)
        return out

    def __repr__(self) -> str:
        return self._written()

    def __str__(self) -> str:
        sent = math.floor(1000 * self.exact_keep) / 10
        return (
            f"Randomized response with epsilon {words(self.exact_epsilon)} on {self.k} classes: "
            f"an answer is sent unchanged {sent:g}% of the time"
        )


def _listed(labels: tuple[Any, ...]) -> str:
    shown = ", ".join(repr(label) for label in labels[:10])
    return f"[{shown}]" if len(labels) <= 10 else f"[{shown}, ... {len(labels):,} in all]"


def _thresholds(epsilon: Fraction, k: int, bits: int) -> tuple[int, int]:
    """keep_below and share; see the proof in :class:`Response`."""
    n = 2**bits
    low, _ = exp_bounds(min(epsilon, _LARGEST_USEFUL))
    share = math.ceil(n / (low + k - 1))
    return n - (k - 1) * share, share


def inside_threshold(epsilon: Fraction, inside: int, outside: int) -> tuple[int, int]:
    """Width and threshold of a response whose report is one of ``inside`` equal parts, or one of ``outside`` equal parts.

    A uniform whole number below N = 2^bits decides: below the threshold I the report is inside, where each part then has I/(N
    inside), else outside, where each has (N - I)/(N outside). The ratio r = I outside / ((N - I) inside) rises with I, and I =
    floor(N L inside / (L inside + outside)) makes it at most L, a rational number not above e^epsilon. The width is 32 bits if
    ln r comes within a millionth of epsilon, else 64, as of :class:`Response`.
    """
    low, _ = exp_bounds(min(epsilon, _LARGEST_USEFUL))
    for bits in (32, 64):
        n = 2**bits
        below = math.floor(n * low * inside / (low * inside + outside))
        useful = n > below and below * outside > (n - below) * inside
        if useful and (
            bits == 64
            or log_above(Fraction(below * outside, (n - below) * inside)) >= (1 - _CLOSE_ENOUGH) * float(epsilon)
        ):
            return bits, below
    raise BadInput("epsilon", got=epsilon, want="more: nothing would be left of an answer")


def read_classes(classes: int | Iterable[Any]) -> tuple[int, tuple[Any, ...] | None]:
    """How many classes there are, and their list if one was given."""
    want = "a count of at least 2, or a list of at least 2 different classes"
    if isinstance(classes, (int, np.integer)) and not isinstance(classes, bool):
        return whole(classes, "classes", 2, _MOST_CLASSES, want=want), None
    if isinstance(classes, (str, bytes)):
        raise BadInput("classes", got=classes, want=want)
    try:
        labels = tuple(v.item() if isinstance(v, np.generic) else v for v in classes)  # type: ignore[union-attr]
        distinct = {(type(v), v) for v in labels}
    except TypeError:
        raise BadInput("classes", got=classes, want=want) from None
    if len(labels) < 2 or len(distinct) < len(labels) or any(v is None or v != v for v in labels):
        raise BadInput("classes", got=list(labels), want=want)
    return len(labels), labels


def _as_array(labels: tuple[Any, ...]) -> NDArray[Any]:
    """Labels as an array that keeps their types (a mixture stays a mixture)."""
    plain = len({type(v) for v in labels}) == 1 and isinstance(labels[0], (bool, int, float, str))
    if plain and not (isinstance(labels[0], str) and any("\0" in v for v in labels)):  # NumPy drops trailing NULs
        return np.array(labels)
    return np.fromiter(labels, dtype=object)


def _codes(values: NDArray[Any], k: int, argument: str) -> NDArray[Any]:
    if values.dtype == np.bool_ and k == 2:
        return values
    if values.dtype.kind not in "iu":
        raise BadInput(argument, got=Verbatim(f"an array of {values.dtype}"), want=f"whole numbers from 0 to {k - 1}")
    if np.iinfo(values.dtype).max < k - 1:  # the other classes must fit in the answer's own kind of number
        values = values.astype(np.int64)
    refuse_first((values < 0) | (values >= k), values, argument, f"a whole number from 0 to {k - 1}")
    return values
