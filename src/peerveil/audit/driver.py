"""Auditing a mechanism over neighboring inputs: what is claimed against what is found."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from peerveil.audit.bound import LowerBound, lower_bound, read_confidence
from peerveil.core.errors import BadInput, PeerveilError, Verbatim
from peerveil.core.exact import whole
from peerveil.core.guarantee import Guarantee, Notion
from peerveil.core.progress import progress_bar
from peerveil.core.randomness import Randomness
from peerveil.core.result import plain, stamp_axes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

    Mechanism = Callable[[Any, int, Randomness], ArrayLike]


class PrivacyViolation(PeerveilError):
    """An audit found more loss than was claimed. ``.report`` has the details."""

    def __init__(self, report: Report) -> None:
        self.report = report
        super().__init__(str(report))


@dataclass(frozen=True, slots=True)
class Pair:
    """Two neighboring inputs. For a one-sided guarantee ``a`` is the sensitive one."""

    name: str
    a: Any
    b: Any


@dataclass(frozen=True, slots=True)
class Finding:
    """What the audit found for one pair."""

    pair: str
    found: LowerBound
    violated: bool


@dataclass(frozen=True, slots=True)
class Report:
    """Claimed against found, pair by pair; prints as a table."""

    name: str
    guarantee: Guarantee
    samples: int
    confidence: float
    findings: tuple[Finding, ...] = field(default=())

    @property
    def claimed(self) -> float:
        """The epsilon that is claimed."""
        assert self.guarantee.epsilon is not None
        return self.guarantee.epsilon

    @property
    def found(self) -> float:
        """The largest certified loss over all pairs."""
        return max(finding.found.epsilon for finding in self.findings)

    @property
    def passed(self) -> bool:
        """Whether nothing contradicts the claim."""
        return not any(finding.violated for finding in self.findings)

    def raise_if_violated(self) -> None:
        """Raise :class:`PrivacyViolation` if the claim is false."""
        if not self.passed:
            raise PrivacyViolation(self)

    def __str__(self) -> str:
        verdict = "consistent with the claim" if self.passed else "CLAIM REFUTED"
        lines = [
            f"{self.name}: claimed {self.claimed:g}, found at least {self.found:.4g} "
            f"({self.samples:,} samples a side, confidence {self.confidence:.6g} over all pairs): {verdict}"
            + (" [simulation: the secure lane was not audited]" if self.guarantee.simulated else "")
        ]
        width = max(len(finding.pair) for finding in self.findings)
        lines += [
            f"  {finding.pair:<{width}}  {'REFUTED' if finding.violated else 'ok':<7}  {finding.found}"
            for finding in self.findings
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {
            "name": self.name,
            "claimed": self.claimed,
            "found": self.found,
            "passed": self.passed,
            "samples": self.samples,
            "confidence": self.confidence,
            "guarantee": str(self.guarantee),
            "mark": self.guarantee.mark,
            "findings": [plain(finding) for finding in self.findings],
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """Bars of what was found, against the line of what is claimed."""
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(7, 1.2 + 0.4 * len(self.findings)), layout="constrained").add_subplot()
        names = [finding.pair for finding in self.findings]
        colors = ["#b2182b" if finding.violated else "#2166ac" for finding in self.findings]
        ax.barh(names, [finding.found.epsilon for finding in self.findings], color=colors)
        ax.axvline(self.claimed, color="0.2", linestyle="--", label=f"claimed: {self.claimed:g}")
        ax.set_xlabel("certified lower bound on the privacy loss")
        ax.set_xlim(0, 1.25 * max(self.claimed, self.found))
        ax.invert_yaxis()
        ax.legend(loc="lower right")
        if self.guarantee.mark:
            stamp_axes(ax, self.guarantee.mark)
        return ax


def check(
    mechanism: Mechanism,
    pairs: Iterable[Pair | tuple[str, Any, Any]],
    guarantee: Guarantee,
    *,
    name: str = "mechanism",
    samples: int = 100_000,
    confidence: float = 0.99,
    event: Callable[[NDArray[Any]], ArrayLike] | None = None,
    randomness: Randomness | None = None,
    progress: bool | None = None,
) -> Report:
    """Audit a mechanism over a list of neighboring inputs.

    Parameters
    ----------
    mechanism
        ``mechanism(input, count, randomness)`` returns ``count`` independent outputs. For one that makes a single
        output a call, wrap it with :func:`repeated`.
    pairs
        The neighboring inputs, named. Leaks on rare inputs are found only if a pair names them.
    guarantee
        What is claimed. One-sided DP is audited in its own direction, from ``a`` over ``b``.
    confidence
        The probability that no pair is called violated wrongly is at least this (shared equally among the pairs).
    randomness
        The secure lane by default, since that is what people are promised.

    Examples
    --------
    >>> import numpy as np
    >>> claim = Guarantee.pure_dp(1, unit="one vote", neighbors="one vote more or less")
    >>> def count_votes(votes, count, randomness):
    ...     return randomness.laplace(np.full(count, float(votes)), scale=0.5)  # should be 1
    >>> report = check(
    ...     count_votes,
    ...     [Pair("10 and 11 votes", 10, 11)],
    ...     claim,
    ...     samples=20_000,
    ...     randomness=Randomness.simulation(5),
    ... )
    >>> report.passed, report.found > 1.5
    (False, True)
    """
    if not callable(mechanism):
        raise BadInput("mechanism", got=mechanism, want="a function of (input, count, randomness)")
    listed = _read_pairs(pairs)
    if not isinstance(guarantee, Guarantee) or guarantee.exact_epsilon is None:
        raise BadInput("guarantee", got=guarantee, want="a Guarantee with an epsilon to audit")
    whole(samples, "samples", 40)
    confidence = read_confidence(confidence)
    randomness = Randomness.secure() if randomness is None else randomness
    if not isinstance(randomness, Randomness):
        raise BadInput("randomness", got=randomness, want="Randomness.secure() or Randomness.simulation(seed)")
    each = 1 - (1 - confidence) / len(listed)
    findings = []
    with progress_bar(f"auditing {name}", total=len(listed), show=progress) as advance:
        for pair in listed:
            a, b = (_outputs(mechanism, side, int(samples), randomness) for side in (pair.a, pair.b))
            found = lower_bound(a, b, each, guarantee.notion is Notion.ONE_SIDED_DP, event=event)
            violated = Fraction(found.epsilon) > guarantee.exact_epsilon
            findings.append(Finding(pair.name, found, violated=violated))
            advance(1)
    return Report(name, randomness.stamp(guarantee), int(samples), confidence, tuple(findings))


def _outputs(mechanism: Mechanism, given: Any, samples: int, randomness: Randomness) -> ArrayLike:
    outputs: Any = mechanism(given, samples, randomness)
    if not hasattr(outputs, "__len__") or len(outputs) != samples:
        got = f"{len(outputs)} outputs" if hasattr(outputs, "__len__") else f"a {type(outputs).__name__}"
        raise BadInput("mechanism", got=Verbatim(got), want=f"a function that returns {samples} outputs when asked to")
    checked: ArrayLike = outputs
    return checked


def _read_pairs(pairs: Iterable[Pair | tuple[str, Any, Any]]) -> list[Pair]:
    want = "pairs of neighboring inputs: Pair(name, a, b), or (name, a, b)"
    try:
        listed = [pair if isinstance(pair, Pair) else Pair(*pair) for pair in pairs]
    except TypeError:
        raise BadInput("pairs", got=pairs, want=want) from None
    if not listed or not all(isinstance(pair.name, str) for pair in listed):
        raise BadInput("pairs", got=listed, want=want)
    return listed


def repeated(single: Callable[[Any, Randomness], Any]) -> Mechanism:
    """A mechanism of one output a call, as :func:`check` wants it."""

    def mechanism(given: Any, count: int, randomness: Randomness) -> list[Any]:
        return [single(given, randomness) for _ in range(count)]

    return mechanism
