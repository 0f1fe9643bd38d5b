"""The paper's local test (Algorithm 5, curator; Algorithm 6, peer; Theorem 7): a randomized bit for each disjoint pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from peerveil.core.guarantee import read_epsilon
from peerveil.core.randomness import Randomness, Response
from peerveil.rankings.laws import squares_null
from peerveil.rankings.plan import pair_bias

if TYPE_CHECKING:
    from peerveil.core.exact import Number


def bit_response(items: int, epsilon: Number) -> Response:
    """The randomized response to one pair (Algorithm 6, line 9): floor(m/2) independent ones lose epsilon in all."""
    return Response(read_epsilon(epsilon) / (items // 2), classes=2)


def bit_sums(ranks: Any, order: Any, epsilon: Number, randomness: Randomness) -> NDArray[np.int64]:
    """The signed sums of all people's randomized bits (Algorithm 6, lines 8 to 10; Algorithm 5, line 6).

    The pairs are (order[0], order[1]), (order[2], order[3]), ...
    """
    pairs = ranks.shape[1] // 2
    first, second = order[0 : 2 * pairs : 2], order[1 : 2 * pairs : 2]
    answers = (ranks[:, first] < ranks[:, second]).astype(np.int64)
    bits = randomness.respond(answers, bit_response(ranks.shape[1], epsilon))
    return np.asarray((2 * bits.astype(np.int64) - 1).sum(axis=0))


def bits_power(
    people: int, items: int, spread: float, epsilon: Number, *, level: float = 0.05, trials: int = 200, seed: int = 0
) -> float:
    """How often the test rejects Mallows rankings, with its exact null; biases of bits are known exactly."""
    pairs, kept = items // 2, 2 * bit_response(items, epsilon).keep - 1
    counts = np.full(pairs, people)
    critical = squares_null(tuple(counts.tolist())).critical(level)
    rng = np.random.default_rng(seed)
    rejected = np.empty(trials)
    for trial in range(trials):
        order = rng.permutation(items)
        first, second = order[0 : 2 * pairs : 2], order[1 : 2 * pairs : 2]
        bias = np.sign(second - first) * pair_bias(spread, np.abs(second - first))
        sums = 2 * rng.binomial(counts, (1 + kept * bias) / 2) - counts
        rejected[trial] = float((sums.astype(float) ** 2).sum()) >= critical
    return float(rejected.mean())
