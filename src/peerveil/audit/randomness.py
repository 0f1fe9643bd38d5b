"""Claims about :mod:`peerveil.core.randomness` itself: noise and randomized response, sound and deliberately broken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from peerveil.audit.check import Neighbors
from peerveil.audit.claims import Claim, register
from peerveil.audit.events import granularity
from peerveil.audit.exact import exact_loss
from peerveil.core.arrays import Floats, Ints
from peerveil.core.guarantee import Guarantee
from peerveil.core.randomness import (
    NumberResponse,
    OrderedResponse,
    Randomness,
    Response,
    SubsetResponse,
    laplace_scale,
)

if TYPE_CHECKING:
    from peerveil.core.randomness.source import AnyResponse

_COUNT = Guarantee.pure_dp(1, unit="one vote", neighbors="one vote more or less")
_VECTOR = Guarantee.pure_dp(1, unit="one review", neighbors="one review moves two entries by at most 1/2 each")
_ANSWER = Guarantee.local_dp(1, unit="one answer", neighbors="any two answers of one person")


def _laplace(scale: float, value: float | tuple[float, ...], count: int, randomness: Randomness) -> Floats:
    shape = (count, *np.shape(value))
    return randomness.laplace(np.broadcast_to(np.asarray(value, dtype=np.float64), shape), scale=scale)


def _discrete(value: int, count: int, randomness: Randomness) -> Ints:
    return randomness.discrete_laplace(np.full(count, value), scale=_RIGHT)


def _respond(response: AnyResponse, answer: float, count: int, randomness: Randomness) -> NDArray[Any]:
    return randomness.respond(np.full(count, answer), response)


def _respond_subset(response: SubsetResponse, answer: int, count: int, randomness: Randomness) -> Ints:
    """Subsets as whole numbers: bit c is set if class c is named."""
    return np.asarray((1 << randomness.respond(np.full(count, answer), response)).sum(axis=1))


def _answer_always_named(answer: int, count: int, randomness: Randomness) -> Ints:
    others = randomness.integers(0, 4, count)
    others += others >= answer
    return np.asarray((1 << answer) + (1 << others))


def _nearest_level(value: float, count: int, randomness: Randomness) -> Ints:
    """The count of reports is right, but a report on the answer itself comes with twice the chance."""
    response = OrderedResponse(1, 5, reach=1)
    reports = randomness.respond(np.full(count, value), response)
    return np.where(randomness.uniform(count) < 0.2, int(value) + response.reach, reports)


def _rounded_level(value: float, count: int, randomness: Randomness) -> Ints:
    """The bit of a number, with its rounding drawn from the number after the response instead of before."""
    bit = randomness.respond(np.full(count, value), NumberResponse(1, low=0, high=1))
    return np.where(randomness.uniform(count) < abs(value - 0.5) / 2, np.asarray(value > 0.5, dtype=np.int64), bit)


_NOISE = ("randomness.laplace",)
_NUMBER = Neighbors("0 and 1", 0, 1)
_RIGHT = laplace_scale(sensitivity=1, epsilon=1)


@register
def claims() -> Iterator[Claim]:
    """Every source of noise with what it claims, and mechanisms that break their claim."""
    yes_no = (Neighbors("yes and no", 1, 0),)
    numbers = (_NUMBER, Neighbors("1000 and 1001", 1000, 1001))
    count = partial(Claim, covers=_NOISE, guarantee=_COUNT)
    vector = partial(Claim, covers=_NOISE, guarantee=_VECTOR)
    answer = partial(Claim, covers=("randomness.respond",), guarantee=_ANSWER)
    right = partial(_laplace, _RIGHT)
    bits = (_NUMBER, Neighbors("0 and 1/3", 0, 1 / 3))
    entries = (Neighbors("two entries move", (0.0, 0.5, 1.0), (0.5, 0.0, 1.0)),)
    yield count(name="Laplace, epsilon 1", mechanism=right, pairs=numbers)
    yield count(name="Laplace, epsilon 1, in the last bits", mechanism=right, pairs=bits, event=granularity)
    yield vector(name="Laplace on vectors, epsilon 1", mechanism=right, pairs=entries, samples=20_000)
    discrete = partial(Claim, covers=("randomness.discrete_laplace",), guarantee=_COUNT)
    yield discrete(name="discrete Laplace, epsilon 1", mechanism=_discrete, pairs=numbers)
    for classes, pairs in ((2, yes_no), (5, (Neighbors("first and last", 0, 4),))):
        name, mechanism = f"response, {classes} classes, epsilon 1", partial(_respond, Response(1, classes))
        yield answer(name=name, mechanism=mechanism, pairs=pairs, samples=500_000)
    far = (Neighbors("first and last", 0, 4), Neighbors("first and second", 0, 1))
    bounds = (Neighbors("0 and 1", 0.0, 1.0), Neighbors("1/3 and 1", 1 / 3, 1.0))
    subset, ordered = SubsetResponse(1, 5, size=2), OrderedResponse(1, 5, reach=1)
    yield answer(
        name="response, 2 of 5 classes, epsilon 1",
        mechanism=partial(_respond_subset, subset),
        pairs=far,
        samples=100_000,
    )
    yield answer(name="response, 5 ordered classes, epsilon 1", mechanism=partial(_respond, ordered), pairs=far)
    for levels in (2, 4):
        name, response = (
            f"response, numbers on {levels} levels, epsilon 1",
            NumberResponse(1, low=0, high=1, levels=levels),
        )
        yield answer(name=name, mechanism=partial(_respond, response), pairs=bounds)
    stronger = partial(_respond_subset, SubsetResponse("1.5", 5, size=2))
    in_all = "the answer is in every report, and only the other class is random"
    more = "the answer is named with the probability that belongs to epsilon 1.5, the claim is 1"
    peak = "a fifth of the reports is the answer itself, added to the near ones"
    late = "a quarter of the bits is set by the number itself, after the response"
    for name, broken, pair, fault in (
        ("subset that always names the answer", _answer_always_named, far[0], in_all),
        ("subset with the threshold of epsilon 1.5", stronger, far[0], more),
        ("ordered response with a peak", _nearest_level, far[0], peak),
        ("number rounded after the response", _rounded_level, bounds[0], late),
    ):
        yield answer(name=name, mechanism=broken, pairs=(pair,), fault=fault)
    yield count(
        name="Laplace at half scale",
        mechanism=partial(_laplace, 0.5),
        pairs=(_NUMBER,),
        fault="the noise has half the scale that epsilon 1 needs",
    )
    yield answer(
        name="response off by 20%",
        mechanism=partial(_respond, Response("1.2", 2)),
        pairs=yes_no,
        fault="the thresholds belong to epsilon 1.2, the claim is 1",
    )
    yield count(
        name="leak on one rare input",
        mechanism=_leaks_on_seven,
        pairs=(_NUMBER, Neighbors("6 and 7", 6, 7)),
        fault="the count 7 gets noise of a fifth of the scale; no other input shows it",
    )
    yield vector(
        name="one noise for two entries",
        mechanism=_shared_noise,
        pairs=(Neighbors("two entries move", (0.0, 0.5), (0.5, 0.0)),),
        fault="both entries get the same noise, so that their difference is exact",
    )
    yield count(
        name="noise added in floating point",
        mechanism=_porous,
        pairs=(_NUMBER,),
        event=granularity,
        fault="x - ln(u) in double precision: the last bits reveal x",
    )


def _leaks_on_seven(value: int, count: int, randomness: Randomness) -> Floats:
    return _laplace(0.2 if value == 7 else 1.0, value, count, randomness)


def _shared_noise(value: tuple[float, float], count: int, randomness: Randomness) -> Floats:
    noise = randomness.laplace(np.zeros(count), scale=1.0)
    return np.asarray(np.array(value) + noise[:, None])


def _porous(value: float, count: int, randomness: Randomness) -> Floats:
    u = randomness.uniform((2, count))
    return np.asarray(value + np.where(u[0] < 0.5, -1, 1) * -np.log1p(-u[1]))


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
