"""The registry of privacy claims: every mechanism with what it guarantees, and deliberately broken mechanisms.

The registry starts empty. The ``adversary.py`` of each module registers a function that yields the module's claims; whoever
wants to audit them imports these modules first (``peerveil audit run`` does, with those of the services). A claim with a
``fault`` is broken on purpose and must be refuted: an audit that passes everything proves nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any, Final

from peerveil.audit.check import AuditResult, GuessingRate, Mechanism, Neighbors, PairResult, check
from peerveil.audit.events import lower_confidence
from peerveil.core.randomness import Randomness

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from peerveil.core.guarantee import Guarantee

CONFIDENCE: Final = 0.999999  # a false alarm is rarer than one in a million audits


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyClaim(ABC):
    """A mechanism with what it claims, ready to be audited.

    Attributes
    ----------
    covers : tuple of str
        The public names whose code is run, such as ``"release.publish"``.
    samples : int
        How many outputs per side, or rounds of guessing, the audit takes by default.
    fault : str or None
        What is wrong with it, if it is broken on purpose.
    """

    name: str
    covers: tuple[str, ...]
    guarantee: Guarantee
    samples: int
    fault: str | None = None

    @property
    def module(self) -> str:
        """The module that it belongs to."""
        return self.covers[0].partition(".")[0]

    def audit(
        self, samples: int | None = None, *, confidence: float = CONFIDENCE, randomness: Randomness | None = None
    ) -> AuditResult:
        """Measure what the mechanism gives away, against what it claims."""
        return self._measure(samples or self.samples, confidence, Randomness.of(randomness))

    @abstractmethod
    def _measure(self, samples: int, confidence: float, randomness: Randomness) -> AuditResult: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(AnyClaim):
    """A mechanism that claims an epsilon: the privacy loss is measured over all pairs of neighbors (:func:`check`)."""

    mechanism: Mechanism
    pairs: tuple[Neighbors, ...]
    samples: int = 50_000
    event: Callable[[NDArray[Any]], ArrayLike] | None = None

    def _measure(self, samples: int, confidence: float, randomness: Randomness) -> AuditResult:
        options: dict[str, Any] = {"name": self.name, "event": self.event, "progress": False}
        claim = self.mechanism, self.pairs, self.guarantee
        return check(*claim, samples=samples, confidence=confidence, randomness=randomness, **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuessClaim(AnyClaim):
    """A mechanism that claims an error of the best guess (:meth:`Guarantee.map_error`).

    ``attack(count, randomness)`` plays ``count`` independent rounds (draw the secret, run the mechanism, let the adversary
    guess) and returns in how many the guess was correct. The share of correct guesses is bounded from below (Clopper and
    Pearson), against 1 minus the claimed error.
    """

    attack: Callable[[int, Randomness], int]
    samples: int = 5_000

    def _measure(self, samples: int, confidence: float, randomness: Randomness) -> AuditResult:
        correct = int(self.attack(samples, randomness))
        share = float(lower_confidence(correct, samples, 1 - confidence))
        assert self.guarantee.error is not None
        violated = Fraction(share) > 1 - Fraction(self.guarantee.error)
        rows = (PairResult("the best guess", GuessingRate(share, correct, samples), violated=violated),)
        return AuditResult(self.name, randomness.stamp(self.guarantee), samples, confidence, rows)


_SOURCES: Final[list[Callable[[], Iterable[AnyClaim]]]] = []


def register(claims: Callable[[], Iterable[AnyClaim]]) -> Callable[[], Iterable[AnyClaim]]:
    """Decorate a function that yields claims: they join the registry."""
    _SOURCES.append(claims)
    return claims


def registered(*, broken: bool) -> list[AnyClaim]:
    """The claims of all modules that were imported, or their deliberately broken mechanisms."""
    return [claim for source in _SOURCES for claim in source() if (claim.fault is not None) is broken]


def samples_needed(claim: AnyClaim, *, start: int = 100, most: int = 2_000_000) -> int | None:
    """The smallest sample (doubling from ``start``) at which an audit refutes a broken mechanism; None beyond ``most``."""
    sizes = takewhile(lambda samples: samples <= most, (start << doublings for doublings in count()))
    return next((samples for samples in sizes if not claim.audit(samples, confidence=0.99).passed), None)
