"""The interface of both randomness sources, the samplers that they share, both sources, and the scale of noise.

A source supplies uniform bits and Laplace noise; all the rest is built here, once, on those bits. So both sources
draw from the same distributions, and a test of one is a test of the other's code.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any, ClassVar, Final, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerveil.core.arrays import Floats, Ints
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import Number, as_array, at_least, number, refuse_first, safe_sensitivity, whole
from peerveil.core.guarantee import Guarantee, read_epsilon
from peerveil.core.randomness.exponential import WORD, add_laplace, draw_discrete_laplace
from peerveil.core.randomness.ordered import NumberResponse, OrderedResponse
from peerveil.core.randomness.response import Response
from peerveil.core.randomness.subsets import SubsetResponse

AnyResponse: TypeAlias = Response | SubsetResponse | OrderedResponse | NumberResponse

_BLOCK: Final = 1 << 17  # values handled at once: stays in the processor's cache
_LARGEST_SCALE: Final = 10**300
_LARGEST_SIMULATED_SCALE: Final = 1e15
_LARGEST_INTEGER: Final = 2**53  # whole numbers up to here are exact as floats
_LARGEST_INT64: Final = 2**63 - 1


class Randomness(ABC):
    """A source of randomness. Make one with :meth:`secure` or :meth:`simulation`."""

    __slots__ = ()
    lane: ClassVar[str]

    @staticmethod
    def secure() -> Randomness:
        """For real people: operating-system entropy and exact samplers, never seeded."""
        return SecureRandomness()

    @staticmethod
    def simulation(seed: int | np.random.SeedSequence) -> SimulationRandomness:
        """For studies and tests: NumPy, repeatable from a seed; its results are marked."""
        return SimulationRandomness(seed)

    @staticmethod
    def of(randomness: Randomness | None) -> Randomness:
        """The given source, or the secure one; anything else is refused."""
        if randomness is None:
            return Randomness.secure()
        if not isinstance(randomness, Randomness):
            raise BadInput("randomness", got=randomness, want="Randomness.secure() or Randomness.simulation(seed)")
        return randomness

    @property
    def is_secure(self) -> bool:
        """Whether what is drawn here protects anybody."""
        return self.lane == "secure"

    def stamp(self, guarantee: Guarantee) -> Guarantee:
        """The guarantee of what was drawn here: as it is if secure, marked if simulated."""
        if not isinstance(guarantee, Guarantee):
            raise BadInput("guarantee", got=guarantee, want="a Guarantee")
        return guarantee if self.is_secure else guarantee.as_simulated()

    # ---- what a source supplies -----------------------------------------------------------------------------------

    @abstractmethod
    def _bits(self, count: int, bits: int) -> NDArray[Any]:
        """``count`` independent uniform words of 32 or 64 bits."""

    @abstractmethod
    def _laplace(self, values: Floats, scale: float) -> Floats: ...

    @abstractmethod
    def _discrete_laplace(self, values: Ints, scale: float) -> Ints: ...

    # ---- noise for numbers --------------------------------------------------------------------------------------

    def laplace(self, values: ArrayLike, *, scale: float) -> Floats:
        """Add independent Laplace noise to every number; the shape is kept.

        Get the scale from :func:`peerveil.core.randomness.laplace_scale`. If secure, the noise is an exact
        real number and the sum is rounded once (:mod:`~peerveil.core.randomness.exponential`); about 400,000 numbers a second.
        """
        array = as_array(values, "values")
        if array.dtype.kind in "iu" and array.size and max(int(array.max()), -int(array.min())) > _LARGEST_INTEGER:
            raise BadInput("values", got=Verbatim("whole numbers beyond 2^53"), want="numbers that floats can hold")
        array = _numbers(array, "values", np.float64)
        noisy = self._laplace(array.ravel(), _scale(scale))
        return noisy.reshape(array.shape)

    def discrete_laplace(self, values: ArrayLike, *, scale: float) -> Ints:
        """Add independent discrete Laplace noise (mass proportional to exp(-abs(z)/scale)) to whole numbers."""
        array = as_array(values, "values")
        if array.dtype.kind not in "iu":
            raise BadInput("values", got=Verbatim(f"an array of {array.dtype}"), want="whole numbers")
        if array.size and (int(array.max()) > 2**62 or int(array.min()) < -(2**62)):
            raise BadInput("values", got=Verbatim("numbers beyond 2^62"), want="whole numbers up to 2^62")
        array = _numbers(array, "values", np.int64)
        return self._discrete_laplace(array.ravel(), _scale(scale)).reshape(array.shape)

    # ---- randomized response ------------------------------------------------------------------------------------

    def respond(self, answers: ArrayLike, response: AnyResponse) -> NDArray[Any]:
        """Randomize every answer independently; an array of the same kind comes back, of a subset with one more dimension.

        >>> r = Randomness.simulation(1)
        >>> r.respond(["yes", "no", "no"], Response("0.5", classes=["no", "yes"])).tolist()
        ['no', 'no', 'yes']
        """
        if not isinstance(response, (Response, SubsetResponse, OrderedResponse, NumberResponse)):
            raise BadInput("response", got=response, want="a Response, such as Response(1, classes=2)")
        array = as_array(answers, "answers")
        codes = np.atleast_1d(response.encode(array))
        flat = codes.ravel()
        block = max(1, _BLOCK // response.width)
        parts = [response.draw(flat[start : start + block], self) for start in range(0, flat.size, block)]
        out = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return response.decode(out.reshape((*array.shape, *out.shape[1:])))

    def uniform_words(self, count: int, bits: int) -> NDArray[Any]:
        """Independent uniform words of 32 or 64 bits, which responses compare with their thresholds."""
        return self._bits(count, bits)

    # ---- uniforms -----------------------------------------------------------------------------------------------

    def uniform(self, size: int | Sequence[int]) -> Floats:
        """Uniform numbers in [0, 1), multiples of 2^-53."""
        shape = _shape(size)
        words = self._bits(math.prod(shape), 64)
        return np.asarray((words >> np.uint64(11)) * 2.0**-53, dtype=np.float64).reshape(shape)

    def integers(self, low: int, high: int, size: int | Sequence[int]) -> Ints:
        """Whole numbers from ``low`` up to, but not including, ``high``, exactly uniform (by rejection)."""
        for name, value in (("low", low), ("high", high)):
            whole(value, name, -(2**62), 2**62, want="a whole number up to 2^62")
        span = int(high) - int(low)
        if span < 1:
            raise BadInput("high", got=high, want=f"a whole number above low = {low}")
        shape = _shape(size)
        mask = np.uint64((1 << (span - 1).bit_length()) - 1)
        out = np.empty(math.prod(shape), dtype=np.int64)
        filled = 0
        while filled < out.size:
            drawn = self._bits(out.size - filled, 64) & mask
            accepted = drawn[drawn < np.uint64(span)]
            out[filled : filled + accepted.size] = accepted.astype(np.int64) + int(low)
            filled += accepted.size
        return out.reshape(shape)

    def permutation(self, n: int) -> Ints:
        """A uniformly random order of 0 .. n-1.

        Sorting n independent 64-bit keys gives every order equally often, provided that no two keys are equal; if two
        are, all are drawn again.
        """
        count = whole(n, "n", 0)
        while True:
            keys = self._bits(count, 64)
            order = np.argsort(keys, kind="stable")
            ordered = keys[order]
            if not (ordered[1:] == ordered[:-1]).any():
                return order.astype(np.int64)

    def choose(self, probabilities: Sequence[float | Fraction] | NDArray[Any], size: int | Sequence[int] = 1) -> Ints:
        """Indices drawn with exactly the given probabilities.

        The probabilities (floats at their stored value, or fractions) become whole weights a_i over a common
        denominator; a uniform whole number below their sum, drawn by rejection, decides. So P[i] = a_i / sum(a)
        without any rounding, however small it is, and an index of probability 0 never comes.

        >>> Randomness.simulation(3).choose([0.5, 0.0, 0.5], 6).tolist()
        [2, 0, 0, 0, 0, 2]
        """
        edges = list(accumulate(_whole_weights(probabilities)))
        shape = _shape(size)
        if edges[-1] <= 2**62:
            drawn = self.integers(0, edges[-1], shape)
            return np.asarray(np.searchsorted(np.array(edges), drawn, side="right"), dtype=np.int64)
        chosen = [bisect_right(edges, self.below(edges[-1])) for _ in range(math.prod(shape))]
        return np.array(chosen, dtype=np.int64).reshape(shape)

    def below(self, limit: int) -> int:
        """A uniform whole number below a limit of any size."""
        words = -(-limit.bit_length() // 64)
        while True:
            drawn = int.from_bytes(self._bits(words, 64).tobytes(), "little") >> (64 * words - limit.bit_length())
            if drawn < limit:
                return drawn


def _whole_weights(probabilities: Any) -> list[int]:
    want = "non-negative numbers that add up to 1"
    listed = probabilities.tolist() if isinstance(probabilities, np.ndarray) else probabilities
    if not isinstance(listed, (list, tuple)) or not listed:
        raise BadInput("probabilities", got=probabilities, want=want)
    exact_values = []
    for i, p in enumerate(listed):
        if isinstance(p, bool) or not isinstance(p, (int, float, Fraction, np.integer, np.floating)) or not 0 <= p <= 1:
            raise BadInput(f"probabilities[{i}]", got=p, want=want)
        exact_values.append(Fraction(int(p)) if isinstance(p, np.integer) else Fraction(*p.as_integer_ratio()))
    total = sum(exact_values, Fraction(0))
    if abs(total - 1) > Fraction(1, 10**9):
        raise BadInput("probabilities", got=Verbatim(f"numbers that add up to {float(total):.12g}"), want=want)
    denominator = math.lcm(*(p.denominator for p in exact_values))
    return [int(p * denominator) for p in exact_values]


def _numbers(array: NDArray[Any], argument: str, dtype: Any) -> NDArray[Any]:
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise BadInput(argument, got=Verbatim(f"an array of {array.dtype}"), want="an array of numbers")
    if array.size == 0:
        raise BadInput(argument, got=Verbatim("nothing"), want="at least one number")
    array = array.astype(dtype)
    refuse_first(~np.isfinite(array), array, argument, "a finite number")
    return array


def _scale(scale: float) -> float:
    number(scale, "scale", 1e-300, 1e300, want="a finite number above 0")
    return at_least(Fraction(*scale.as_integer_ratio()))


def _shape(size: int | Sequence[int]) -> tuple[int, ...]:
    parts = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    return tuple(whole(p, "size", 0, want="a whole number, or a sequence of them, not negative") for p in parts)


@final
class SecureRandomness(Randomness):
    """See :meth:`peerveil.Randomness.secure`. It has no state: there is nothing to seed, to copy or to fork."""

    __slots__ = ()
    lane: ClassVar[str] = "secure"

    def _bits(self, count: int, bits: int) -> NDArray[Any]:
        return np.frombuffer(os.urandom(count * (bits // 8)), dtype=f"<u{bits // 8}")

    def _words(self, values: int) -> Iterator[int]:
        """Uniform words of 64 bits without end; a value takes about 5 (Laplace) or 9 (discrete)."""
        block = min(8 * values + 8, _BLOCK // 8)
        while True:
            yield from self._bits(block, WORD).tolist()

    def _laplace(self, values: Floats, scale: float) -> Floats:
        words = self._words(values.size)
        return np.array([add_laplace(value, scale, words) for value in values.tolist()])

    def _discrete_laplace(self, values: Ints, scale: float) -> Ints:
        words, exact = self._words(values.size), Fraction(scale)
        noisy = (value + draw_discrete_laplace(exact, words) for value in values.tolist())
        return np.array([max(-_LARGEST_INT64, min(_LARGEST_INT64, number)) for number in noisy], dtype=np.int64)

    def __repr__(self) -> str:
        return "Randomness.secure()"


@final
class SimulationRandomness(Randomness):
    """NumPy, seeded: fast and repeatable; it protects nobody. See :meth:`peerveil.Randomness.simulation`.

    Attributes
    ----------
    generator : numpy.random.Generator
        For whatever a simulation needs beyond the shared interface.
    """

    __slots__ = ("_seeds", "generator")
    lane: ClassVar[str] = "simulation"

    def __init__(self, seed: int | np.random.SeedSequence) -> None:
        if not isinstance(seed, np.random.SeedSequence):
            want = "a whole number, 0 or more: a simulation can be repeated"
            seed = np.random.SeedSequence(whole(seed, "seed", 0, want=want))
        self._seeds = seed
        self.generator = np.random.Generator(np.random.PCG64DXSM(self._seeds))

    def spawn(self, count: int) -> list[SimulationRandomness]:
        """Independent sources for parallel or nested simulations, repeatable from the same seed."""
        return [SimulationRandomness(child) for child in self._seeds.spawn(whole(count, "count", 0))]

    def _bits(self, count: int, bits: int) -> NDArray[Any]:
        return np.frombuffer(self.generator.bytes(count * (bits // 8)), dtype=f"<u{bits // 8}")

    def _laplace(self, values: Floats, scale: float) -> Floats:
        return values + self.generator.laplace(scale=scale, size=values.size)

    def _discrete_laplace(self, values: Ints, scale: float) -> Ints:
        # the difference of two geometric variables has mass proportional to exp(-abs(z)/scale)
        if scale > _LARGEST_SIMULATED_SCALE:
            raise BadInput("scale", got=scale, want="at most 1e15 in a simulation (NumPy saturates beyond)")
        success = -np.expm1(-1.0 / scale)
        first, second = self.generator.geometric(success, size=(2, values.size))
        return np.asarray(values + first - second)

    def __repr__(self) -> str:
        return f"Randomness.simulation({self._seeds.entropy})"


def laplace_scale(*, sensitivity: Number, epsilon: Number) -> float:
    """The smallest float scale at which Laplace noise is epsilon-DP for an L1 sensitivity.

    Proof. Adding noise with density (or mass) proportional to exp(-abs(z)/b) to two vectors at L1 distance at most s
    changes any likelihood by a factor of at most exp(s/b). The float returned is, as a rational number, at least
    s/epsilon, so s/b <= epsilon. ``s`` is at least the sensitivity given, whether a float was meant as printed or as
    stored. ∎

    >>> laplace_scale(sensitivity=1, epsilon=0.1)
    10.0
    >>> from fractions import Fraction
    >>> scale = laplace_scale(sensitivity=1, epsilon=0.3)
    >>> scale, 1 / Fraction(scale) <= Fraction("0.3")
    (3.3333333333333335, True)
    """
    needed = safe_sensitivity(sensitivity) / read_epsilon(epsilon)
    if needed > _LARGEST_SCALE:
        raise BadInput("sensitivity", got=sensitivity, want="a scale (sensitivity / epsilon) of at most 1e300")
    return at_least(needed)
