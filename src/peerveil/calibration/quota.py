"""Exactly so many papers, corrected for strictness, with differential privacy for who reviewed what.

- **Public**: the scores of every paper, how many reviews it has, how every reviewer scores (``functions``), the quota.
  **Secret**: who wrote which review.
- **Neighbors**: two reviewers exchange one review each; scores stay where they are.

A reviewer's *strictness* c_j is the score that the average reviewer would give to a paper at the line, minus the score that j
would give: public, clipped, and whole numbers on a grid. Papers are dealt into blocks by the order of their plain means, and
each block gets as many places as it has papers among the best by plain mean: both public. In a block,

    P(D) is proportional to the product over i in D of W(n_i),   n_i = public part of i's mean + sum over i's reviews of c_j/k_i,

over all sets D of that many papers, where W(n) is floor(2^64 e^(gamma n)) for a public step gamma: a *conditional Bernoulli*
lottery in which the plain mean, and the strictness of those who gave it, count as much as epsilon allows.

**Loss at most epsilon.** *Proof.* Let R be the largest difference that another reviewer makes to one n_i (public: over all
reviewers and the least number of reviews). An exchange raises one n_i by at most R and lowers another n_j by at most R, and
W(n + R) <= e^(epsilon/2) W(n): gamma R <= epsilon/2 - 1e-6 epsilon, and rounding down adds less than 2^-63. *Same block*: the
product of any D changes by a factor between e^(-epsilon/2) and e^(epsilon/2) (a D that holds both papers gets one factor
above and one below 1), and so does their sum, by which it is divided. *Two blocks*: in each of them one weight changes, by f
say; the product changes by f or not at all, the sum by a factor between 1 and f, so the ratio by f at most, in each of
the two blocks: e^(epsilon/2) each. Blocks and places are public; blocks are drawn independently. The sampler is exact: weights,
their elementary symmetric polynomials and the uniform numbers compared with them are whole numbers. ∎

The plain mean counts ``weight`` times as much as the strictness that corrects it: the larger, the fewer decisions are left to
the lottery. By default 48/(epsilon k), 1 at least, for k reviews a paper: the best of 1, 2, 3, 4, 6 and 8 (up to .003 of the
best accepted) at epsilon 2, 4, 8 and 16 on synthetic conferences with strictness SD 0.5 and 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.calibration.affine import AffineScores, among_best, best_papers
from peerveil.calibration.decision import ConferenceDecision, LotterySheet
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import Number, exp_bounds, whole
from peerveil.core.guarantee import Guarantee, read_epsilon
from peerveil.core.lazy import ndtri
from peerveil.core.result import Outputs

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats, Ints
    from peerveil.core.randomness import Randomness
    from peerveil.data import Reviews
    from peerveil.ledger import Account

_SHARPNESS: Final = 48.0  # measured, see above
CLIP: Final = 1.5
"""Strictness is clipped at so many standard deviations of the reviewers': less would correct less, more costs more noise."""
_BLOCK: Final = 250  # papers that are drawn together; the table of whole numbers then takes about 50 MB
_LEVELS: Final = 64  # the grid of strictness
_REACH: Final = 15.0  # exponents beyond this many from the line are as good as decided
_LEAST_EPSILON: Final = Fraction(1, 10**6)


@dataclass(frozen=True)
class QuotaLottery:
    """The lottery of one conference.

    Parameters
    ----------
    model : AffineScores
        Who wrote what (**private**), and how everybody scores (public).
    scores : array
        The score of every review: public.
    places : int
        How many papers are accepted.
    epsilon : Number
        The loss that an exchange of two reviews may cause.
    """

    model: AffineScores
    scores: Floats
    places: int
    epsilon: Number
    weight: float | None = None

    def __post_init__(self) -> None:
        if read_epsilon(self.epsilon) < _LEAST_EPSILON:
            raise BadInput("epsilon", got=self.epsilon, want="at least 1e-6")
        whole(self.places, "places", 0, self.model.papers)
        if self.weight is None:
            weight = _SHARPNESS / (float(read_epsilon(self.epsilon)) * int(self.reviews.min()))
            object.__setattr__(self, "weight", max(1.0, weight))

    @cached_property
    def means(self) -> Floats:
        """The plain mean of every paper."""
        return self.model.plain_means(self.scores)

    @cached_property
    def reviews(self) -> Ints:
        """How many reviews every paper has."""
        return np.bincount(self.model.paper, minlength=self.model.papers)

    @cached_property
    def strictness(self) -> Floats:
        """The strictness of every reviewer, at the quality that the prior expects so many papers to pass."""
        share = min(max(self.places / self.model.papers, 0.01), 0.99)
        return np.asarray(float(ndtri(share)) * self.model.scale - self.model.bias)

    @property
    def guarantee(self) -> Guarantee:
        """Pure differential privacy, for any adversary whatever else they know; proved above."""
        return Guarantee.pure_dp(
            self.epsilon,
            unit="one exchange of two reviews between their writers",
            neighbors="two reviewers exchange one review each, the scores of every paper unchanged",
        )

    def exponents(self, writer: Ints | None = None) -> Ints:
        """The n of every paper, relative to the line; of other writers if given."""
        middle, spread = float(self.strictness.mean()), CLIP * float(self.strictness.std())
        low, high = np.clip([self.strictness.min(), self.strictness.max()], middle - spread, middle + spread).tolist()
        step = (high - low) / _LEVELS or 1.0
        least = int(self.reviews.min())
        share = (least / self.reviews)[self.model.paper]
        own = self.strictness[self.model.writer if writer is None else writer]
        # by review, from 0 to R: an exchange changes two whole numbers by at most R each, in opposite directions
        steps = np.clip(np.rint((own - low) / step * share), 0, np.rint(_LEVELS * share))
        order = np.sort(self.means)[::-1]
        line = (order[max(self.places - 1, 0)] + order[min(self.places, len(order) - 1)]) / 2
        assert self.weight is not None
        public = np.rint((self.weight * (self.means - line) - (middle - low)) / step * least)
        reach = int(_REACH / float(self.gamma))
        total = public + np.bincount(self.model.paper, weights=steps, minlength=self.model.papers)
        return np.asarray(np.clip(total, -reach, reach), dtype=np.int64)

    @property
    def gamma(self) -> Fraction:
        """The step of the exponent: epsilon / 2 is R of them, and a little."""
        return read_epsilon(self.epsilon) * (Fraction(1, 2) - Fraction(1, 10**6)) / _LEVELS

    @property
    def blocks(self) -> list[tuple[Ints, int]]:
        """Papers of every block, and its places: by the order of plain means, so public."""
        order = np.argsort(-self.means, kind="stable")
        count = -(-len(order) // _BLOCK)
        return [(order[i::count], len(range(i, self.places, count))) for i in range(count)]

    def chances(self) -> Floats:
        """How likely each paper is accepted. **Private**: it depends on who wrote what."""
        exponents, chances = self._floats(), np.zeros(len(self.means))
        for papers, places in self.blocks:
            chances[papers] = inclusion(exponents[papers], places)
        return chances

    def _floats(self, writer: Ints | None = None) -> Floats:
        return np.asarray(self.exponents(writer) * float(self.gamma), dtype=np.float64)

    def log_probability(self, accepted: Floats, writer: Ints | None = None) -> float:
        """The log probability of a decision (1 for accepted papers), under the true writers or others."""
        exponents = self._floats(writer)
        sums = (log_sums(exponents[papers], places)[-1, places] for papers, places in self.blocks)
        return float(exponents @ accepted) - float(sum(sums))

    def draw(self, randomness: Randomness) -> Ints:
        """The accepted papers."""
        exponents = self.exponents()
        chosen = []
        for papers, places in self.blocks:
            weights = _whole_weights(exponents[papers], self.gamma)
            chosen += papers[conditional_bernoulli(weights, places, randomness)].tolist()
        return np.array(sorted(chosen), dtype=np.int64)


def decide_by_lottery(
    lottery: QuotaLottery, papers: list[Any], reviews: Reviews, randomness: Randomness, account: Account | None
) -> Outputs[ConferenceDecision, LotterySheet]:
    """Debit the account, draw once, and tell the chair what was likely."""
    guarantee = randomness.stamp(lottery.guarantee)
    if account is not None:
        account.spend(guarantee, purpose="decisions of a conference", data=reviews, randomness=randomness)
    accepted = np.isin(np.arange(len(papers)), lottery.draw(randomness))
    table = pl.DataFrame({"paper": papers, "accepted": accepted})
    mean, deviation, _ = lottery.model.beliefs(np.asarray(reviews.scores))
    best, plain = among_best(mean, deviation, lottery.places), best_papers(lottery.means, lottery.places)
    columns = {"plain_mean": lottery.means, "by_plain_mean": plain > 0, "chance": lottery.chances(), "among_best": best}
    sheet = LotterySheet(
        papers=table.with_columns(**{name: pl.Series(values) for name, values in columns.items()}),
        best_possible=float(best_papers(mean, lottery.places) @ best) / max(lottery.places, 1),
        simulated=guarantee.simulated,
    )
    return Outputs(ConferenceDecision(guarantee=guarantee, decisions=table), sheet)


def _whole_weights(exponents: Ints, gamma: Fraction) -> list[int]:
    """W(n), with at least 64 bits: floor(2^s e^(gamma n)) for a common s."""
    shift = 64 + int(_REACH * 1.4427) + 1
    known = {n: int(exp_bounds(n * gamma)[0] * 2**shift) for n in set(exponents.tolist())}
    return [known[n] for n in exponents.tolist()]


def conditional_bernoulli(weights: Sequence[int], places: int, randomness: Randomness) -> Ints:
    """A set of so many indices, with probability proportional to the product of their whole weights, exactly.

    With e_k(i) the sum over sets of k of the indices from i on, index i is taken with probability w_i e_{k-1}(i+1) / e_k(i) if
    k places are left: the product of these telescopes to the product of weights over e_places(0).

    >>> from peerveil import Randomness
    >>> conditional_bernoulli([0, 5, 5], 2, Randomness.simulation(1)).tolist()
    [1, 2]
    """
    sums = [[1] + [0] * places]  # of the indices from the end on
    for weight in reversed(weights):
        last = sums[-1]
        sums.append([1] + [last[k] + weight * last[k - 1] for k in range(1, places + 1)])
    if places and not sums[-1][places]:
        want = f"at least {places} weights above 0"
        raise BadInput("weights", got=Verbatim(f"{sum(w > 0 for w in weights)} of them"), want=want)
    chosen, left = [], places
    for i, weight in enumerate(weights):
        here, after = sums[len(weights) - i], sums[len(weights) - i - 1]
        if left and randomness.below(here[left]) < weight * after[left - 1]:
            chosen.append(i)
            left -= 1
    return np.array(chosen, dtype=np.int64)


# ---- the law of the lottery in floats, for plans and attacks ---------------------------------------------------------


def log_sums(exponents: Floats, places: int) -> Floats:
    """The logarithms of the elementary symmetric polynomials of e^exponents up to ``places``; row i: of the first i of them."""
    table = np.full((len(exponents) + 1, places + 1), -np.inf)
    table[0, 0] = 0.0
    for i, v in enumerate(exponents.tolist()):
        table[i + 1, 0] = 0.0
        table[i + 1, 1:] = np.logaddexp(table[i, 1:], table[i, :-1] + v)
    return table


def inclusion(exponents: Floats, places: int) -> Floats:
    """How likely each index is chosen."""
    if places == 0:
        return np.zeros(len(exponents))
    before, behind = log_sums(exponents, places), log_sums(exponents[::-1], places)
    total = before[-1, places]
    others = np.array(
        [np.logaddexp.reduce(before[i, :places] + behind[-2 - i, places - 1 :: -1]) for i in range(len(exponents))]
    )
    return np.asarray(np.exp(exponents + others - total).clip(0.0, 1.0))
