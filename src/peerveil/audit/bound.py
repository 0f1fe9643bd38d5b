"""A certified lower bound on the privacy loss between two inputs, from samples of the outputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerveil.audit.events import Score, choose_event, lower_confidence, upper_confidence
from peerveil.core.arrays import Floats
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import number

_FEWEST: Final = 40
_SPLIT_SEED: Final = 20261115


@dataclass(frozen=True, slots=True)
class LowerBound:
    """What was certified.

    Attributes
    ----------
    epsilon : float
        With the stated confidence, the true privacy loss is at least this.
    event : str
        The event that shows it.
    direction : str
        ``"a over b"`` or ``"b over a"``.
    probabilities : tuple of float
        A lower bound on the event's probability on the likelier side, and an upper bound on the other.
    counts : tuple of (int, int)
        How often it happened among how many outputs, on the likelier side and on the other.
    """

    epsilon: float
    confidence: float
    event: str
    direction: str
    probabilities: tuple[float, float]
    counts: tuple[tuple[int, int], tuple[int, int]]

    def __str__(self) -> str:
        (hit, n), (miss, m) = self.counts
        return (
            f"privacy loss at least {self.epsilon:.4g} with confidence {self.confidence:.6g} ({self.direction}): "
            f"{self.event} in {hit:,} of {n:,} outputs against {miss:,} of {m:,}"
        )


def lower_bound(
    sample_a: ArrayLike,
    sample_b: ArrayLike,
    confidence: float = 0.99,
    one_sided: bool = False,
    *,
    event: Callable[[NDArray[Any]], ArrayLike] | None = None,
) -> LowerBound:
    """A certified lower bound on the privacy loss between the inputs a and b.

    Parameters
    ----------
    sample_a, sample_b
        Independent outputs of the mechanism on each input: numbers, an (n, d) array of vectors, or categories
        (strings, booleans, or any hashable objects). At least 40 on each side; 10,000 and more to see anything fine.
    confidence
        The probability with which ``.epsilon`` does not exceed the true loss is at least this.
    one_sided
        Bound only how much likelier an output is under a than under b.
    event
        What to look at: a function from an array of outputs to booleans, or to numbers of which a threshold is
        searched. It must judge each output by itself, whatever stands beside it (this is checked). Without it the
        event is learned.

    Notes
    -----
    Each sample is shuffled and cut in two. On the first halves an event E and a direction are chosen (never looking at
    the second). **Certificate.** On the second halves, Clopper-Pearson gives P[E|a] >= low and P[E|b] <= high, each
    wrong with probability at most (1 - confidence)/2 whatever the event, since these outputs are independent of its
    choice. So ln(low/high) exceeds the loss ln(P[E|a]/P[E|b]), hence the mechanism's epsilon, with probability at most
    1 - confidence. ∎  (The shuffle is seeded: the same samples give the same bound.)

    Examples
    --------
    >>> heads = ["yes"] * 9000 + ["no"] * 1000
    >>> tails = ["yes"] * 1000 + ["no"] * 9000
    >>> 2.0 < lower_bound(heads, tails).epsilon < math.log(9)
    True
    """
    confidence = read_confidence(confidence)
    if not isinstance(one_sided, (bool, np.bool_)):
        raise BadInput("one_sided", got=one_sided, want="True or False")
    if event is not None and not callable(event):
        raise BadInput("event", got=event, want="a function from an array of outputs to booleans or numbers")
    a, b = _same_kind(_sample(sample_a, "sample_a"), _sample(sample_b, "sample_b"))
    rng = np.random.default_rng(_SPLIT_SEED)
    # an eighth to learn from, three eighths to choose on, half to certify on
    (learn_a, select_a, certify_a), (learn_b, select_b, certify_b) = (
        np.split(part[rng.permutation(len(part))], [len(part) // 8, len(part) // 2]) for part in (a, b)
    )
    alpha = 1.0 - confidence
    score = None if event is None else _checked(event, learn_a)
    chosen, a_over_b = choose_event((learn_a, learn_b), (select_a, select_b), one_sided=bool(one_sided), score=score)
    likelier, other = (certify_a, certify_b) if a_over_b else (certify_b, certify_a)
    counts = tuple((chosen.count(part), part.shape[0]) for part in (likelier, other))
    low = float(lower_confidence(*counts[0], alpha / 2))
    high = float(upper_confidence(*counts[1], alpha / 2))
    return LowerBound(
        epsilon=max(0.0, math.log(low / high)) if low > 0 else 0.0,
        confidence=confidence,
        event=str(chosen),
        direction="a over b" if a_over_b else "b over a",
        probabilities=(low, high),
        counts=(counts[0], counts[1]),
    )


def read_confidence(confidence: float) -> float:
    """A probability strictly between 0 and 1."""
    return number(confidence, "confidence", 1e-15, 1 - 1e-15, want="a probability between 0 and 1, such as 0.99")


def _sample(values: ArrayLike, argument: str) -> NDArray[Any]:
    """Outputs as floats or as categories (objects), in one dimension or, for vectors, in two."""
    want = f"at least {_FEWEST} outputs: numbers, an (n, d) array of vectors, or categories"
    try:
        array = np.asarray(values)
    except ValueError:  # outputs of different lengths: compare them as wholes
        array = _objects(values, argument)
    if array.dtype.kind == "U" and isinstance(values, (list, tuple)) and not all(isinstance(v, str) for v in values):
        array = _objects(values, argument)  # NumPy would have taken 1 and "1" for the same
    if array.ndim not in (1, 2) or array.dtype.kind not in "biufUSO" or array.size == 0:
        raise BadInput(argument, got=Verbatim(f"an array of {array.dtype}, shape {array.shape}"), want=want)
    if array.shape[0] < _FEWEST:
        raise BadInput(argument, got=Verbatim(f"{array.shape[0]} outputs"), want=want)
    if array.dtype.kind in "iuf" or (array.dtype.kind == "b" and array.ndim == 2):
        numbers = array.astype(np.float64)
        if array.ndim == 2 and np.isnan(numbers).any():
            raise BadInput(
                argument, got=Verbatim("vectors with NaN"), want="vectors without NaN, or event= to look at it"
            )
        if np.array_equal(numbers.astype(array.dtype), array, equal_nan=array.dtype.kind == "f"):
            return numbers
    # categories; or whole numbers (or long floats) that doubles cannot distinguish
    return _objects(array.ravel().tolist(), argument).reshape(array.shape)


def _same_kind(a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Both samples as the same kind of outputs."""
    if a.ndim != b.ndim or a.shape[1:] != b.shape[1:]:
        want = f"outputs like sample_a's, of shape {a.shape}"
        raise BadInput("sample_b", got=Verbatim(f"shape {b.shape}"), want=want)
    if a.dtype.kind != b.dtype.kind:
        kinds = {"f": "numbers", "O": "categories"}
        mixed = {type(value) for part in (a, b) if part.dtype.kind == "O" for value in part.ravel().tolist()}
        if not mixed <= {int}:  # only whole numbers beyond the range of doubles may stand beside numbers
            raise BadInput("sample_b", got=Verbatim(kinds[b.dtype.kind]), want=f"{kinds[a.dtype.kind]}, like sample_a")
        a, b = a.astype(object), b.astype(object)
    return a, b


def _objects(values: Any, argument: str) -> NDArray[Any]:
    """A one-dimensional array of hashable objects."""
    return np.fromiter((_hashable(value, argument) for value in values), dtype=object)


def _hashable(value: Any, argument: str) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return tuple(_hashable(item, argument) for item in value)
    try:
        hash(value)
    except TypeError:
        raise BadInput(argument, got=value, want="outputs that can be compared: numbers, text, tuples") from None
    return value


def _checked(event: Callable[[NDArray[Any]], ArrayLike], some: NDArray[Any]) -> Score:
    """A given event, made sure to be one: a function of each output by itself."""

    def score(outputs: NDArray[Any]) -> Floats:
        scores = np.asarray(event(outputs))
        if scores.shape != (outputs.shape[0],) or scores.dtype.kind not in "biuf":
            got = Verbatim(f"a result of {scores.dtype}, shape {scores.shape}")
            raise BadInput("event", got=got, want=f"one boolean or number for each of the {outputs.shape[0]} outputs")
        return scores.astype(float)

    whole, part = score(some), score(some[: some.shape[0] // 2])
    turned = score(some[::-1])[::-1]
    if not (np.array_equal(whole, turned, equal_nan=True) and np.array_equal(whole[: part.size], part, equal_nan=True)):
        raise BadInput("event", got=event, want="a function that judges each output by itself, whatever its neighbors")
    return score
