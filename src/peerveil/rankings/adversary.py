"""Attacks on the tests, and their exact privacy losses on small data.

An adversary who knows every ranking but one sees what is published (a noisy statistic, one bit, one randomized ranking)
and asks which of two rankings the last person has. The output's probabilities are known, so that the loss can be computed
over *all* neighboring data sets of a small size:

- :func:`central_loss`: the largest loss of a central test over all data sets of k rankings of m items;
  :func:`noisy_loss`: of any statistic with Laplace noise.
- :func:`consensus_loss`, :func:`pairs_loss`: the largest loss of a consensus (Kemeny: of pairs), over all replacements of a
  ranking; :func:`judge_moves`: how far one judge's comparisons can move the counts.
- :func:`local_loss`: the largest loss of one randomized ranking over all pairs of rankings.
- :func:`guess_last_ranking`: the attack itself, and how often it is right.
- :func:`claims`: whole tests, sound and deliberately broken, for the audit's registry.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from itertools import combinations_with_replacement, permutations, product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.audit import ExactLoss, exact_loss
from peerveil.audit.check import Neighbors
from peerveil.audit.claims import Claim, register
from peerveil.core.exact import Number, whole
from peerveil.core.guarantee import read_epsilon
from peerveil.core.randomness import PermutohedronNoise, Randomness
from peerveil.rankings.central import PRIVATE, CentralTest, ClippedBatches, central_test
from peerveil.rankings.compare import compare_guarantee, published
from peerveil.rankings.comparisons import judge_guarantee
from peerveil.rankings.kernels import add_places, add_signs, places_of
from peerveil.rankings.laws import NoisyLaw, laplace_tail
from peerveil.rankings.local import LocalProtocol
from peerveil.rankings.naming import is_own, name_chances
from peerveil.rankings.statistics import noise_for, noisy_wins
from peerveil.rankings.uniformity import ranking_guarantee

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats, Ints

_EPSILON: Final = 1


def all_rankings(items: int) -> Ints:
    """Every ranking of a few items."""
    whole(items, "items", 1, 7, want="from 1 to 7: all rankings are gone through")
    return np.array(list(permutations(range(items))), dtype=np.int64)


def neighbor_pairs(rankings: int, items: int) -> Iterator[tuple[Any, Any]]:
    """All pairs of data sets of ``rankings`` rankings that differ in the last one."""
    kinds = all_rankings(items)
    for rest in combinations_with_replacement(range(len(kinds)), rankings - 1):
        for a in range(len(kinds)):
            for b in range(a):
                yield kinds[[*rest, a]], kinds[[*rest, b]]


@dataclass(frozen=True, slots=True)
class CentralLoss:
    """The largest loss over all neighbors."""

    noisy: float
    """Of the published statistic: the largest move of the exact statistic over the scale of its Laplace noise."""
    decision: float
    """Of "rejected or not" alone, from exact probabilities."""
    claimed: float
    """What the guarantee allows."""

    @property
    def passed(self) -> bool:
        """Whether neither exceeds the claim (up to the rounding of this computation)."""
        return max(self.noisy, self.decision) <= self.claimed * (1 + 1e-9)


def central_loss(
    method: str, rankings: int, items: int, *, epsilon: Number = 1, level: float = 0.05, shrink: float = 1.0
) -> CentralLoss:
    """The exact loss of a central test with its noise over all neighboring data sets.

    ``shrink`` multiplies the noise: below 1 the mechanism is deliberately broken. For the pair tests all pairings are the
    same up to the names of items, so one is enough; for batches every order of rankings is a data set of its own.

    >>> central_loss("rank-norm", 2, 3).passed, central_loss("rank-norm", 2, 3, shrink=0.5).passed
    (True, False)
    """
    size = read_epsilon(epsilon)
    test = central_test(method, rankings, items, float(size))
    if isinstance(test, ClippedBatches):
        test = ClippedBatches(rankings, items, min(2, rankings), test.clip)
    return noisy_loss(test, epsilon=size, level=level, shrink=shrink)


def noisy_loss(test: CentralTest, *, epsilon: Number = 1, level: float = 0.05, shrink: float = 1.0) -> CentralLoss:
    """The exact loss of a statistic (of its own numbers of rankings and items) with Laplace noise, as above."""
    size = read_epsilon(epsilon)
    scale = shrink * test.scale(size)
    critical = NoisyLaw(test.null(), scale).critical(level)
    statistic = cache(lambda rows: test.from_rows(np.array(rows)))
    pairs = neighbor_pairs(test.rankings, test.items)
    # many pairs of data sets have the same two statistics
    statistics = {tuple(statistic(tuple(map(tuple, rows))) for rows in pair) for pair in pairs}
    moved = max(abs(first - second) for first, second in statistics)
    rejected = (laplace_tail(critical - np.array(pair), scale).tolist() for pair in statistics)
    return CentralLoss(moved / scale, max(loss_of_bits(*pair).epsilon for pair in rejected), float(size))


def loss_of_bits(first: float | Fraction, second: float | Fraction) -> ExactLoss:
    """The exact loss of "rejected or not", from the two probabilities of rejection."""
    return exact_loss(*({"reject": Fraction(p), "accept": 1 - Fraction(p)} for p in (first, second)))


def local_distribution(protocol: LocalProtocol, ranking: Any) -> dict[Any, Fraction]:
    """The exact probabilities of everything that a device may send for one ranking."""
    keep, other = protocol.response.exact_keep, protocol.response.exact_other
    row = np.asarray(ranking).reshape(1, -1)
    law: dict[Any, Fraction] = {}
    for q in range(protocol.questions):
        if protocol.ask == "name":
            items, own, last = protocol.block(q)
            chances = name_chances(is_own(row[:, list(items)], own, last=last)[0], protocol.response)
            law |= {(q, item): chance / protocol.questions for item, chance in zip(items, chances, strict=True)}
            continue
        yes = {1: keep, -1: other, 0: Fraction(1, 2)}[int(protocol.answers(row, np.array([q]))[0])]
        law[q, 1], law[q, 0] = yes / protocol.questions, (1 - yes) / protocol.questions
    return law


def local_loss(protocol: LocalProtocol) -> float:
    """The largest loss of one randomized ranking over all pairs of rankings of a few items.

    >>> local_loss(LocalProtocol(4, epsilon=1)) <= 1
    True
    """
    laws = (local_distribution(protocol, ranking) for ranking in all_rankings(protocol.items))
    distinct = {tuple(law.values()): law for law in laws}.values()  # many rankings have the same
    return max(exact_loss(a, b).epsilon for a in distinct for b in distinct)


def guess_last_ranking(
    method: str, known: Any, a: Any, b: Any, *, epsilon: Number, trials: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """The likelihood attack: how often a 50:50 guess between two last rankings is right, and how often it may be.

    >>> rng = np.random.default_rng(1)
    >>> known = np.array([rng.permutation(5) for _ in range(9)])
    >>> up = np.arange(5)
    >>> right, most = guess_last_ranking("rank-norm", known, up, up[::-1], epsilon=1, trials=2000, seed=1)
    >>> right < most + 0.05
    True
    """
    source = Randomness.simulation(seed)
    data = [np.vstack([known, last]) for last in (a, b)]
    size = read_epsilon(epsilon)
    test = central_test(method, len(data[0]), data[0].shape[1], float(size))
    values = [test.from_rows(rows) for rows in data]
    world = source.integers(0, 2, trials)
    published = source.laplace(np.array(values)[world], scale=test.scale(size))
    guess = (np.abs(published - values[1]) < np.abs(published - values[0])).astype(int)
    return float((guess == world).mean()), 1 / (1 + math.exp(-float(size)))


def _noisy(rows: Any, count: int, randomness: Randomness, *, method: str, share: float = 1.0) -> Floats:
    test = central_test(method, len(rows), rows.shape[1], _EPSILON)
    return randomness.laplace(np.full(count, test.from_rows(rows)), scale=share * test.scale(_EPSILON))


def _randomized(
    ranking: Any, count: int, randomness: Randomness, *, ask: str = "items", epsilon: Number = _EPSILON
) -> list[str]:
    protocol = LocalProtocol(6, epsilon=epsilon, ask=ask)
    question, bits = protocol.draw(np.tile(ranking, (count, 1)), randomness=randomness)
    return [f"{q}:{b}" for q, b in zip(question.tolist(), bits.tolist(), strict=True)]


def _named_by_place(ranking: Any, count: int, randomness: Randomness) -> list[str]:
    """The normalizer is the same for every ranking, but the ratio of two weights is not at most e^epsilon."""
    weights = np.exp(-float(_EPSILON) * np.asarray(ranking))
    return [str(item) for item in randomness.choose((weights / weights.sum()).tolist(), count).tolist()]


def _randomized_twice(ranking: Any, count: int, randomness: Randomness) -> list[str]:
    return [a + b for a, b in zip(*(_randomized(ranking, count, randomness) for _ in range(2)), strict=True)]


def consensus_loss(
    items: int = 3, *, epsilon: Number = 1, noise_epsilon: Number | None = None, reach: int = 4
) -> float:
    """The largest loss of :func:`~peerveil.rankings.consensus`, exactly, over all replacements and noise up to a radius.

    The loss of an output is epsilon (ceil(norm(z - d)) - ceil(norm(z))), z the noise and d twice the difference of two rankings.
    ``noise_epsilon`` makes the noise for another epsilon, which is a fault if it is larger.
    """
    noise = PermutohedronNoise(items, epsilon if noise_epsilon is None else noise_epsilon)
    size = float(read_epsilon(noise.epsilon))
    kinds = all_rankings(items)
    moves = np.unique(2 * (kinds[:, None] - kinds[None]).reshape(-1, items), axis=0)
    span = range(-2 * items * reach, 2 * items * reach + 1)
    points = [np.array([*rest, -sum(rest)]) for rest in product(span, repeat=items - 1)]
    inside = [point for point in points if noise.norm(point) <= reach]
    loss = max(math.ceil(noise.norm(point - move)) - math.ceil(noise.norm(point)) for point in inside for move in moves)
    return size * loss


def _consensus_sums(rows: Any, count: int, randomness: Randomness, *, epsilon: Number = _EPSILON) -> Ints:
    sums = np.zeros(rows.shape[1], dtype=np.int64)
    add_places(rows, np.ones(len(rows), dtype=np.int64), sums)
    noise = PermutohedronNoise(rows.shape[1], epsilon)
    return np.array([sums + noise.draw(randomness) for _ in range(count)])


def pairs_loss(items: int = 3, *, epsilon: Number = 1, noise_epsilon: Number | None = None, reach: int = 6) -> float:
    """The largest loss of a Kemeny consensus, exactly: epsilon/2 (max abs(z - d) - max abs(z)), d a difference of signs."""
    half = read_epsilon(epsilon if noise_epsilon is None else noise_epsilon) / 2
    kinds = all_rankings(items)
    first, second = np.triu_indices(items, 1)
    signs = np.sign(kinds[:, second] - kinds[:, first])
    moves = np.unique((signs[:, None] - signs[None]).reshape(-1, first.size), axis=0)
    points = np.array(list(product(range(-reach, reach + 1), repeat=first.size)))
    return float(half) * max(int((np.abs(points - d).max(axis=1) - np.abs(points).max(axis=1)).max()) for d in moves)


def judge_moves(per_judge: int, items: int = 3) -> int:
    """How far all comparisons of one judge, replaced by any others, move the doubled counts of wins in all."""
    pairs = [(i, j) for i in range(items) for j in range(items) if i != j]
    tables = []
    for chosen in combinations_with_replacement(range(2 * len(pairs)), per_judge):  # wins and ties
        counts = np.zeros((items, items), dtype=np.int64)
        for one in chosen:
            i, j = pairs[one % len(pairs)]
            counts[i, j] += 2 if one < len(pairs) else 1
            counts[j, i] += 0 if one < len(pairs) else 1
        tables.append(counts)
    return max(int(np.abs(a - b).sum()) for a in tables for b in tables)


def _kemeny_sums(rows: Any, count: int, randomness: Randomness, *, epsilon: Number = _EPSILON) -> Ints:
    m = rows.shape[1]
    sums = np.zeros((m, m), dtype=np.int64)
    add_signs(rows, np.ones(len(rows), dtype=np.int64), True, sums)
    return np.asarray(sums[np.triu_indices(m, 1)] + noise_for("kemeny", m, epsilon).draw(randomness, count))


def _compared(groups: Any, count: int, randomness: Randomness, *, epsilon: Number = _EPSILON) -> Floats:
    """What :func:`~peerveil.rankings.compare` computes from: both groups' noisy sums, and the noisy concentration."""
    places, counts = [places_of(rows) for rows in groups], [np.ones(len(rows), dtype=np.int64) for rows in groups]
    size = read_epsilon(epsilon)
    return np.array([np.concatenate(published(places, counts, size, randomness)) for _ in range(count)])


def _judged(wins: Any, count: int, randomness: Randomness, *, per_judge: int = 4) -> Ints:
    return np.array([noisy_wins(wins, per_judge, Fraction(_EPSILON), randomness).ravel() for _ in range(count)])


@register
def claims() -> Iterator[Claim]:
    """Every kind of output of the module for epsilon 1, and some that break their claim."""
    # everybody agrees but one, who agrees too or is the opposite: what moves norms most
    agreed = np.tile(np.arange(20), (6, 1))
    opposed = np.vstack([agreed[1:], np.arange(20)[::-1]])
    central = partial(
        Claim,
        covers=("rankings.uniformity_test",),
        pairs=(Neighbors("the last agrees or opposes", agreed, opposed),),
        guarantee=ranking_guarantee(_EPSILON),
        samples=20_000,
    )
    local = partial(
        Claim,
        covers=("rankings.LocalProtocol", "rankings.randomize_rankings", "rankings.aggregate_rankings"),
        pairs=(Neighbors("a ranking and its reverse", np.arange(6), np.arange(6)[::-1]),),
        guarantee=LocalProtocol(6, epsilon=1).guarantee,
        samples=200_000,
    )
    for method in PRIVATE:
        yield central(name=f"rankings, {method}, epsilon 1", mechanism=partial(_noisy, method=method))
    few = np.tile(np.arange(4), (3, 1))
    summed = partial(
        Claim,
        covers=("rankings.consensus",),
        pairs=(Neighbors("the last agrees or opposes", few, np.vstack([few[1:], few[0][::-1]])),),
        guarantee=ranking_guarantee(_EPSILON),
        samples=10_000,
    )
    yield summed(name="rankings, consensus, epsilon 1", mechanism=_consensus_sums)
    yield summed(
        name="rankings, consensus with half the noise",
        mechanism=partial(_consensus_sums, epsilon=2 * _EPSILON),
        fault="the noise is made for epsilon 2",
    )
    yield summed(name="rankings, Kemeny consensus, epsilon 1", mechanism=_kemeny_sums)
    yield summed(
        name="rankings, Kemeny consensus with half the noise",
        mechanism=partial(_kemeny_sums, epsilon=2 * _EPSILON),
        fault="the noise is made for signs that move by 1, not by 2",
    )
    up, down = np.array([[0, 4, 4], [0, 0, 0], [0, 0, 0]]), np.array([[0, 0, 0], [4, 0, 0], [4, 0, 0]])
    judged = partial(
        summed,
        pairs=(Neighbors("one judge's four comparisons are turned around", up, down),),
        guarantee=judge_guarantee(_EPSILON),
    )
    yield judged(name="rankings, comparisons of judges, epsilon 1", mechanism=_judged)
    yield judged(
        name="rankings, comparisons of judges with noise for one of four",
        mechanism=partial(_judged, per_judge=1),
        fault="the noise protects one comparison, though the judge has four",
    )
    others = np.tile(np.arange(4), (3, 1))
    compared = partial(
        summed,
        covers=("rankings.compare",),
        pairs=(Neighbors("the last agrees or opposes", (few, others), (np.vstack([few[1:], few[0][::-1]]), others)),),
        guarantee=compare_guarantee(_EPSILON),
        samples=4_000,
    )
    yield compared(name="rankings, two groups compared, epsilon 1", mechanism=_compared)
    yield compared(
        name="rankings, two groups compared with a third of the noise",
        mechanism=partial(_compared, epsilon=3 * _EPSILON),
        fault="the noise is made for epsilon 3",
    )
    yield local(name="rankings, one randomized ranking, epsilon 1", mechanism=_randomized)
    naming = partial(local, covers=("rankings.LocalProtocol", "rankings.local_consensus"))
    yield naming(name="rankings, one item named, epsilon 1", mechanism=partial(_randomized, ask="name"))
    yield naming(
        name="rankings, an item named by its place",
        mechanism=_named_by_place,
        fault="the weight falls by e^epsilon with every place, so that first and last differ by e^(5 epsilon)",
    )
    yield central(
        name="rankings, noise for one ranking less",
        mechanism=partial(_noisy, method="rank-norm", share=0.5),
        fault="noise for adding a ranking (sensitivity 1), though one is replaced by its opposite (2)",
    )
    yield local(
        name="rankings, randomized twice", mechanism=_randomized_twice, fault="a person answers twice and pays once"
    )
