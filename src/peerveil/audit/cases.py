"""The ground's own mechanisms under audit, and planted faults that the audit must catch.

Each :class:`Case` is a mechanism, neighboring inputs and the guarantee that is claimed. The cases of
:func:`house_cases` must pass. Those of :func:`planted_faults` are broken on purpose, and must be refuted: an audit that
passes everything proves nothing. ``make audit`` runs both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.audit.driver import Pair, Report, check
from peerveil.audit.events import granularity
from peerveil.audit.exact import exact_loss
from peerveil.core.guarantee import Guarantee
from peerveil.core.randomness import Randomness, Response, laplace_scale

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike, NDArray

    from peerveil.audit.driver import Mechanism


@dataclass(frozen=True, slots=True)
class Case:
    """A mechanism with its claim, ready to be audited.

    Attributes
    ----------
    samples : int
        How many outputs a side the audit takes by default.
    fault : str or None
        What is wrong with it, for a planted fault.
    """

    name: str
    mechanism: Mechanism
    pairs: tuple[Pair, ...]
    guarantee: Guarantee
    samples: int = 50_000
    event: Callable[[NDArray[Any]], ArrayLike] | None = None
    fault: str | None = None

    def audit(
        self,
        samples: int | None = None,
        *,
        confidence: float = 0.999999,
        randomness: Randomness | None = None,
        progress: bool | None = None,
    ) -> Report:
        """Audit it. The default confidence makes a false alarm rarer than one in a million runs."""
        return check(
            self.mechanism,
            self.pairs,
            self.guarantee,
            name=self.name,
            samples=samples or self.samples,
            confidence=confidence,
            event=self.event,
            randomness=randomness,
            progress=progress,
        )


_COUNT = Guarantee.pure_dp(1, unit="one vote", neighbors="one vote more or less")
_VECTOR = Guarantee.pure_dp(1, unit="one review", neighbors="one review moves two entries by at most 1/2 each")
_ANSWER = Guarantee.local_dp(1, unit="one answer", neighbors="any two answers of one person")
_PAIR = Guarantee.one_sided_dp(
    1,
    gap=1,
    gap_unit="minutes",
    unit="a pair of comments",
    neighbors="the second comment is written in the same sitting as the first, or by itself at most one gap later",
)


def _laplace(scale: float) -> Mechanism:
    def mechanism(value: float, count: int, randomness: Randomness) -> NDArray[np.float64]:
        return randomness.laplace(np.full(count, float(value)), scale=scale)

    return mechanism


def _laplace_vector(value: tuple[float, ...], count: int, randomness: Randomness) -> NDArray[np.float64]:
    return randomness.laplace(np.tile(value, (count, 1)), scale=laplace_scale(sensitivity=1, epsilon=1))


def _discrete(value: int, count: int, randomness: Randomness) -> NDArray[np.int64]:
    return randomness.discrete_laplace(np.full(count, value), scale=laplace_scale(sensitivity=1, epsilon=1))


def _respond(epsilon: str, classes: int) -> Mechanism:
    response = Response(epsilon, classes)

    def mechanism(answer: int, count: int, randomness: Randomness) -> NDArray[Any]:
        return randomness.respond(np.full(count, answer), response)

    return mechanism


def house_cases() -> Iterator[Case]:
    """Every mechanism of the ground floor with what it claims."""
    number = (Pair("0 and 1", 0, 1), Pair("1000 and 1001", 1000, 1001))
    yield Case("Laplace, epsilon 1", _laplace(laplace_scale(sensitivity=1, epsilon=1)), number, _COUNT)
    yield Case(
        "Laplace, epsilon 1, in the last bits",
        _laplace(laplace_scale(sensitivity=1, epsilon=1)),
        (Pair("0 and 1", 0, 1), Pair("0 and 1/3", 0, 1 / 3)),
        _COUNT,
        event=granularity,
    )
    vectors = (Pair("two entries move", (0.0, 0.5, 1.0), (0.5, 0.0, 1.0)),)
    yield Case("Laplace on vectors, epsilon 1", _laplace_vector, vectors, _VECTOR, samples=20_000)
    yield Case("discrete Laplace, epsilon 1", _discrete, number, _COUNT)
    yield Case("response, 2 classes, epsilon 1", _respond("1", 2), (Pair("yes and no", 1, 0),), _ANSWER, 500_000)
    yield Case("response, 5 classes, epsilon 1", _respond("1", 5), (Pair("first and last", 0, 4),), _ANSWER, 500_000)


def planted_faults() -> Iterator[Case]:
    """Mechanisms that break their claim."""
    yield Case(
        "Laplace at half scale",
        _laplace(0.5),
        (Pair("0 and 1", 0, 1),),
        _COUNT,
        fault="the noise has half the scale that epsilon 1 asks",
    )
    yield Case(
        "response off by 20%",
        _respond("1.2", 2),
        (Pair("yes and no", 1, 0),),
        _ANSWER,
        fault="the thresholds belong to epsilon 1.2, the claim is 1",
    )
    yield Case(
        "leak on one rare input",
        _leaks_on_seven,
        (Pair("0 and 1", 0, 1), Pair("6 and 7", 6, 7)),
        _COUNT,
        fault="the count 7 gets noise of a fifth of the scale; no other input shows it",
    )
    yield Case(
        "one-sided violation",
        _short_delay,
        (Pair("same sitting and alone", "sitting", "alone"),),
        _PAIR,
        fault="the delay of a sitting was shortened by 10%",
    )
    yield Case(
        "one noise for two entries",
        _shared_noise,
        (Pair("two entries move", (0.0, 0.5), (0.5, 0.0)),),
        _VECTOR,
        fault="both entries get the same noise, so that their difference is exact",
    )
    yield Case(
        "noise added in floating point",
        _porous,
        (Pair("0 and 1", 0, 1),),
        _COUNT,
        event=granularity,
        fault="x - ln(u) in double precision: the last bits tell x",
    )


def _leaks_on_seven(value: int, count: int, randomness: Randomness) -> NDArray[np.float64]:
    return randomness.laplace(np.full(count, float(value)), scale=0.2 if value == 7 else 1.0)


def _short_delay(case: str, count: int, randomness: Randomness) -> NDArray[np.float64]:
    """Delays that are one-sided epsilon-private for a gap of 1 when ``shorten`` is 1 (checked by a test)."""
    return one_sided_delay(case, count, randomness, shorten=0.9)


def one_sided_delay(case: str, count: int, randomness: Randomness, *, shorten: float = 1.0) -> NDArray[np.float64]:
    """When the second comment appears, for a one-sided guarantee with epsilon 1 and gap 1.

    In a sitting (written at time 0) it waits uniformly on (1, 2). Alone (written at time 1, one gap later) it appears
    at once with probability 1 - 1/e, and else after a wait that puts it uniformly on (1, 2): the density there is 1/e,
    so that no time is more than e times as likely in a sitting. The other way the ratio is unbounded, which one-sided
    privacy allows: to appear at exactly 1 tells that one was alone.
    """
    u = randomness.uniform((2, count))
    waited = 1 + u[0]
    if case == "sitting":
        return np.asarray(shorten * waited)
    return np.where(u[1] < 1 - np.exp(-1), 1.0, waited)


def _shared_noise(value: tuple[float, float], count: int, randomness: Randomness) -> NDArray[np.float64]:
    noise = randomness.laplace(np.zeros(count), scale=1.0)
    return np.asarray(np.array(value) + noise[:, None])


def _porous(value: float, count: int, randomness: Randomness) -> NDArray[np.float64]:
    u = randomness.uniform((2, count))
    return np.asarray(value + np.where(u[0] < 0.5, -1, 1) * -np.log1p(-u[1]))


def samples_needed(case: Case, *, start: int = 100, most: int = 2_000_000, confidence: float = 0.99) -> int | None:
    """The smallest sample (doubling from ``start``) at which an audit in the secure lane refutes a planted fault.

    ``None`` if even ``most`` samples do not.
    """
    samples = start
    while samples <= most:
        if not case.audit(samples, confidence=confidence, progress=False).passed:
            return samples
        samples *= 2
    return None


@dataclass(frozen=True, slots=True)
class ExactCheck:
    """The exact loss of a randomized response against its claim."""

    name: str
    claimed: float
    loss: float
    passed: bool


def response_losses() -> Iterator[ExactCheck]:
    """Randomized response over a range of epsilons and class counts, computed without sampling."""
    for epsilon in ("0.01", "0.1", "0.5", "1", "2", "4", "8"):
        for classes in (2, 3, 10, 1000):
            response = Response(epsilon, classes)
            loss = exact_loss(response.probabilities(0), response.probabilities(1))
            name = f"response, {classes} classes, epsilon {epsilon}"
            yield ExactCheck(name, response.epsilon, loss.epsilon, loss.within(epsilon))
