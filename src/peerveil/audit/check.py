"""Audit a mechanism over neighboring inputs: what is claimed against what is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from peerveil.audit.bound import LowerBound, lower_bound, read_confidence
from peerveil.core.errors import BadInput, PeerveilError, Verbatim
from peerveil.core.exact import whole
from peerveil.core.guarantee import Guarantee, Notion
from peerveil.core.progress import progress_bar
from peerveil.core.randomness import Randomness
from peerveil.core.result import Pictured, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

Mechanism = Callable[[Any, int, Randomness], "ArrayLike"]


class PrivacyViolation(PeerveilError):
    """An audit measured more than was claimed. ``.result`` has the details."""

    def __init__(self, result: AuditResult) -> None:
        self.result = result
        super().__init__(str(result))


@dataclass(frozen=True, slots=True)
class Neighbors:
    """Two neighboring inputs. For a one-sided guarantee ``a`` is the sensitive one."""

    name: str
    a: Any
    b: Any


@dataclass(frozen=True, slots=True)
class GuessingRate:
    """A certified lower bound on the share of correct guesses."""

    share: float
    correct: int
    rounds: int

    def __str__(self) -> str:
        return f"at least {self.share:.4g} of all guesses are correct ({self.correct:,} of {self.rounds:,} were)"


@dataclass(frozen=True, slots=True)
class PairResult:
    """What the audit measured for one pair of neighbors."""

    pair: str
    bound: LowerBound | GuessingRate
    violated: bool

    @property
    def measured(self) -> float:
        """The certified privacy loss, or the certified share of correct guesses."""
        return self.bound.epsilon if isinstance(self.bound, LowerBound) else self.bound.share


@dataclass(frozen=True, slots=True)
class AuditResult(Pictured):
    """Claimed against measured, pair by pair; prints as a table."""

    name: str
    guarantee: Guarantee
    samples: int
    confidence: float
    pairs: tuple[PairResult, ...]

    @property
    def claimed(self) -> float:
        """The epsilon that is claimed; for an error of the best guess, the share of correct guesses that it allows."""
        if self.guarantee.notion is Notion.MAP_ERROR:
            assert self.guarantee.error is not None
            return 1 - self.guarantee.error
        assert self.guarantee.epsilon is not None
        return self.guarantee.epsilon

    @property
    def measured(self) -> float:
        """The largest certified value over all pairs."""
        return max(row.measured for row in self.pairs)

    @property
    def passed(self) -> bool:
        """Whether nothing contradicts the claim."""
        return not any(row.violated for row in self.pairs)

    def raise_if_violated(self) -> None:
        """Raise :class:`PrivacyViolation` if the claim is false."""
        if not self.passed:
            raise PrivacyViolation(self)

    def __str__(self) -> str:
        verdict = "consistent with the claim" if self.passed else "CLAIM REFUTED"
        simulated = " [simulation: secure randomness was not audited]" if self.guarantee.simulated else ""
        head = (
            f"{self.name}: claimed {self.claimed:g}, measured at least {self.measured:.4g} "
            f"({self.samples:,} samples per side, confidence {self.confidence:.6g} over all pairs): {verdict}{simulated}"
        )
        width = max(len(row.pair) for row in self.pairs)
        rows = [f"  {row.pair:<{width}}  {'REFUTED' if row.violated else 'ok':<7}  {row.bound}" for row in self.pairs]
        return "\n".join([head, *rows])

    @property
    def mark(self) -> str | None:
        """The words that must stand beside a simulation."""
        return self.guarantee.mark

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values."""
        names = ("name", "claimed", "measured", "passed", "samples", "confidence", "mark", "pairs")
        return {**{name: plain(getattr(self, name)) for name in names}, "guarantee": str(self.guarantee)}

    def draw(self, ax: Axes) -> None:
        """Bars of what was measured, against the line of what is claimed."""
        colors = ["#b2182b" if row.violated else "#2166ac" for row in self.pairs]
        ax.barh([row.pair for row in self.pairs], [row.measured for row in self.pairs], color=colors)
        ax.axvline(self.claimed, color="0.2", linestyle="--", label=f"claimed: {self.claimed:g}")
        ax.set_xlabel("certified lower bound on the privacy loss")
        ax.set_xlim(0, 1.25 * max(self.claimed, self.measured))
        ax.invert_yaxis()
        ax.legend(loc="lower right")


def check(
    mechanism: Mechanism,
    pairs: Iterable[Neighbors | tuple[str, Any, Any]],
    guarantee: Guarantee,
    *,
    name: str = "mechanism",
    samples: int = 100_000,
    confidence: float = 0.99,
    event: Callable[[NDArray[Any]], ArrayLike] | None = None,
    randomness: Randomness | None = None,
    progress: bool | None = None,
) -> AuditResult:
    """Audit a mechanism over a list of neighboring inputs.

    Parameters
    ----------
    mechanism
        ``mechanism(input, count, randomness)`` returns ``count`` independent outputs. For one that makes a single
        output per call, wrap it with :func:`repeated`.
    pairs
        The neighboring inputs, named. Leaks on rare inputs are found only if a pair names them.
    guarantee
        What is claimed. One-sided DP is audited in its own direction, from ``a`` over ``b``.
    confidence
        The probability that no pair is called violated wrongly is at least this (shared equally among the pairs).
    randomness
        Secure by default, since that is what people are guaranteed.

    Examples
    --------
    >>> import numpy as np
    >>> claim = Guarantee.pure_dp(1, unit="one vote", neighbors="one vote more or less")
    >>> def count_votes(votes, count, randomness):
    ...     return randomness.laplace(np.full(count, float(votes)), scale=0.5)  # should be 1
    >>> result = check(
    ...     count_votes,
    ...     [Neighbors("10 and 11 votes", 10, 11)],
    ...     claim,
    ...     samples=20_000,
    ...     randomness=Randomness.simulation(5),
    ... )
    >>> result.passed, result.measured > 1.5
    (False, True)
    """
    if not callable(mechanism):
        raise BadInput("mechanism", got=mechanism, want="a function of (input, count, randomness)")
    listed = _read_pairs(pairs)
    if not isinstance(guarantee, Guarantee) or guarantee.exact_epsilon is None:
        raise BadInput("guarantee", got=guarantee, want="a Guarantee with an epsilon to audit")
    count = whole(samples, "samples", 40)
    confidence = read_confidence(confidence)
    randomness = Randomness.of(randomness)
    each = 1 - (1 - confidence) / len(listed)
    rows = []
    with progress_bar(f"auditing {name}", total=len(listed), show=progress) as advance:
        for pair in listed:
            a, b = (_outputs(mechanism, side, count, randomness) for side in (pair.a, pair.b))
            bound = lower_bound(a, b, each, guarantee.notion is Notion.ONE_SIDED_DP, event=event)
            rows.append(PairResult(pair.name, bound, violated=Fraction(bound.epsilon) > guarantee.exact_epsilon))
            advance(1)
    return AuditResult(name, randomness.stamp(guarantee), count, confidence, tuple(rows))


def _outputs(mechanism: Mechanism, value: Any, samples: int, randomness: Randomness) -> ArrayLike:
    outputs: Any = mechanism(value, samples, randomness)
    if not hasattr(outputs, "__len__") or len(outputs) != samples:
        got = f"{len(outputs)} outputs" if hasattr(outputs, "__len__") else f"a {type(outputs).__name__}"
        raise BadInput("mechanism", got=Verbatim(got), want=f"a function that returns {samples} outputs when asked to")
    return outputs  # type: ignore[no-any-return]


def _read_pairs(pairs: Iterable[Neighbors | tuple[str, Any, Any]]) -> list[Neighbors]:
    want = "pairs of neighboring inputs: Neighbors(name, a, b), or (name, a, b)"
    try:
        listed = [pair if isinstance(pair, Neighbors) else Neighbors(*pair) for pair in pairs]
    except TypeError:
        raise BadInput("pairs", got=pairs, want=want) from None
    if not listed or not all(isinstance(pair.name, str) for pair in listed):
        raise BadInput("pairs", got=listed, want=want)
    return listed


def repeated(single: Callable[[Any, Randomness], Any]) -> Mechanism:
    """A mechanism of one output per call, as :func:`check` wants it."""
    return lambda value, count, randomness: [single(value, randomness) for _ in range(count)]
