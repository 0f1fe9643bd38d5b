"""The consensus from randomized rankings alone, and which items to ask about next.

**Model.** Item i has a strength t_i; a person ranks the items by t_i plus noise, independent and logistic. Near chance a
person's ranks then carry all that is known of the strengths, as in Mallows' model, and first and last places mirror each
other. The chance that i is among the first c of a block, and its slopes, are integrals over i's utility u of the
chance that fewer than c of the others are above u (a Poisson binomial law, by its Fourier transform): exact to about 1e-9.

**Estimate.** A report's law is linear in these chances. Strengths are found by maximum likelihood with a prior that is
centered at 0; its variance is that of the strengths beyond their errors. There the model is linearized, and one step of maximum
likelihood *without* the prior gives scores (mean places) that are unbiased to first order, however noisy the reports are.

**Intervals** follow from the information of the reports, which counts both the sampling of people and the randomization.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.arrays import Floats, Ints
from peerveil.core.errors import BadInput, Verbatim, one_of
from peerveil.core.exact import probability, whole
from peerveil.core.guarantee import Guarantee
from peerveil.core.lazy import expit, ndtr
from peerveil.rankings.aggregate import AnswerCounts, count_answers, read_rankings
from peerveil.rankings.consensus import Consensus, consensus_of
from peerveil.rankings.local import LocalProtocol, RandomizedRankings
from peerveil.rankings.models import strength_slope, strengths_of
from peerveil.rankings.naming import own_items
from peerveil.rankings.statistics import Fit

if TYPE_CHECKING:
    from collections.abc import Hashable

_MOST_ITEMS: Final = 200
_STEP, _REACH = 0.5, 25.0  # of the integrals over utilities: logistic tails beyond are below 1e-10
_ITERATIONS, _CLOSE, _LONGEST_STEP = 60, 1e-4, 1.0
_LARGEST_VARIANCE: Final = 100.0  # of strengths: ten times the variance of the logistic noise is 33
_FREEDOM: Final = 50.0  # the last prior's variance in units of that of the estimate
_SIMULATED, _SEED = 4_000, 1785  # errors of the scores; the seed is public: equal reports give equal intervals
_SIZES: Final = (12, 8, 6, 5, 4, 3, 2)  # of blocks in later rounds
_WORTH_IT: Final = 0.97  # smaller blocks must shorten the distance of the predicted tau to 1 so far


@dataclass(frozen=True, slots=True)
class _Estimate:
    """Scores with their covariance, the strengths at which the model was linearized, and the information on these."""

    scores: Floats
    covariance: Floats
    strengths: Floats
    information: Floats
    prior: float


def local_consensus(
    randomized: Any,
    *,
    protocol: LocalProtocol | Sequence[LocalProtocol] | None = None,
    method: str = "auto",
    level: float = 0.95,
    simulated: bool = False,
) -> Consensus:
    """The consensus of people who sent one randomized ranking each: an order of the items with simultaneous intervals.

    Parameters
    ----------
    randomized
        As in :func:`~peerveil.rankings.aggregate_rankings`. Of several rounds: a list of files, tables or
        :class:`RandomizedRankings`, or all lines together with ``protocol`` as a list.
    protocol : LocalProtocol or sequence, optional
        What people followed, with ``ask="name"``; one per round. Files and tables state theirs. Yes-or-no questions about
        *every* item will do, too; those about a few items or pairs leave the order open and are refused.
    method, level : optional
        As in :func:`~peerveil.rankings.consensus`.
    simulated : bool, optional
        Whether the answers were drawn in a simulation. Default: ``False``, unless a file or table says so.

    Notes
    -----
    What a later round asks may depend on the reports of earlier ones: these are public. So each report is
    epsilon-private whatever the others say, and everything is, provided that **each person answers in one round only**.

    Examples
    --------
    >>> from peerveil.core.randomness import Randomness
    >>> from peerveil.rankings import Mallows
    >>> protocol = LocalProtocol(5, epsilon=2, ask="name", names=["tea", "milk", "juice", "water", "beer"])
    >>> source = Randomness.simulation(1)
    >>> sent = [
    ...     protocol.randomize(votes, randomness=source).to_json() for votes in Mallows(5, 0.5).sample(2000, seed=1)
    ... ]
    >>> result = local_consensus(sent, protocol=protocol, simulated=True)
    >>> result.order[0], result.guarantee.epsilon
    ('tea', 2.0)
    """
    one_of(method, "method", ("auto", "borda", "bradley-terry"))
    probability(level, "level")
    rounds = _rounds(randomized, protocol)
    estimate = _estimate(rounds)
    first = rounds[0].protocol
    rng = np.random.default_rng(_SEED)
    values, axes = np.linalg.eigh(estimate.covariance)
    errors = (rng.standard_normal((_SIMULATED, values.size)) * np.sqrt(np.maximum(values, 0))) @ axes.T
    names: tuple[Hashable, ...] = first.names or tuple(range(first.items))
    guarantee = _guarantee(rounds)
    drawn = simulated or any(counted.simulated for counted in rounds)
    method = "borda" if method == "auto" else method
    strengths = strengths_of((first.items - 1) / 2 - estimate.scores)
    fit = Fit(estimate.scores, errors, strengths)
    if method == "bradley-terry":
        fit = Fit(strengths, errors @ strength_slope(strengths), strengths)
    people = int(sum(counted.tally.sum() for counted in rounds))
    guarantee = guarantee.as_simulated() if drawn else guarantee
    return consensus_of(names, people, fit, method=method, level=level, guarantee=guarantee)


def next_protocol(
    randomized: Any,
    *,
    protocol: LocalProtocol | Sequence[LocalProtocol] | None = None,
    people: int | None = None,
) -> LocalProtocol:
    """What to ask the next people, from the reports so far: blocks of items that are neighbors in the order.

    Where people agree, the order of distant items is soon known, and smaller blocks tell more about near ones; where they
    hardly do, all items are asked about again. The size of the blocks is the one with the largest predicted Kendall's tau,
    if that brings it noticeably nearer to 1 than all items do (to adapt to mere noise would bias the scores).

    Parameters
    ----------
    randomized, protocol
        As in :func:`local_consensus`: the reports of all rounds so far.
    people : int, optional
        How many will be asked in the next round. Default: as many as in the last one.

    Examples
    --------
    >>> from peerveil.core.randomness import Randomness
    >>> from peerveil.rankings import Mallows
    >>> first, source = LocalProtocol(8, epsilon=2, ask="name"), Randomness.simulation(1)
    >>> sent = first.randomize_all(Mallows(8, 0.3).sample(2000, seed=1), randomness=source)
    >>> second = next_protocol(sent, protocol=first)
    >>> len(first.blocks), len(second.blocks) > 1
    (1, True)
    """
    rounds = _rounds(randomized, protocol)
    last = rounds[-1].protocol
    people = int(rounds[-1].tally.sum()) if people is None else whole(people, "people", 1)
    estimate = _estimate(rounds)
    order = np.argsort(-estimate.scores, kind="stable")
    designs: list[tuple[float, LocalProtocol]] = []
    for size in (last.items, *(g for g in _SIZES if g < last.items)):
        blocks = [sorted(order[i : i + size].tolist()) for i in range(last.items - size + 1)]
        settings: dict[str, Any] = {"blocks": blocks, "names": last.names or None}
        design = LocalProtocol(last.items, epsilon=last.exact_epsilon, ask="name", **settings)
        information = estimate.information + people * expected_information(design, estimate.strengths)
        designs.append((predicted_tau(estimate, information), design))
    everything, best = designs[0], max(designs, key=lambda row: row[0])
    return (best if 1 - best[0] < _WORTH_IT * (1 - everything[0]) else everything)[1]


# ---- the model -------------------------------------------------------------------------------------------------------


def top_chances(strengths: Floats, numbers: Sequence[int]) -> list[tuple[Floats, Floats]]:
    """For each c: every item's chance to be among the first c of these, and its slopes in all strengths (rows: items)."""
    size = strengths.size
    u = np.arange(strengths.min() - _REACH, strengths.max() + _REACH, _STEP)
    below = expit(u - strengths[:, None])
    density = below * (1 - below)
    points = size + 1 + size % 2  # odd, so that no factor vanishes
    roots = np.exp(2j * np.pi * np.arange(points) / points)
    factors = below[..., None] + (1 - below)[..., None] * roots  # generating function of how many are above u
    whole_law = _STEP / points * factors.prod(axis=0)
    without = density[..., None] / factors  # the item itself is at u
    chances = []
    for c in numbers:
        fewer = (roots.conj()[None] ** np.arange(c)[:, None]).sum(axis=0)
        value = np.einsum("iuk,uk->i", without, whole_law * fewer).real
        flat = without.reshape(size, -1)
        slopes = -((flat * (whole_law * roots.conj() ** (c - 1)).ravel()) @ flat.T).real
        chances.append((value, _laplacian(slopes)))
    return chances


def scores_at(strengths: Floats) -> tuple[Floats, Floats]:
    """Places above the middle on average, and their slopes in the strengths."""
    u = np.arange(strengths.min() - _REACH, strengths.max() + _REACH, _STEP)
    below = expit(u - strengths[:, None])
    density = below * (1 - below)
    before = _STEP * density @ below.T
    return before.sum(axis=1) - np.diag(before) - (strengths.size - 1) / 2, _laplacian(-_STEP * density @ density.T)


def _laplacian(slopes: Floats) -> Floats:
    """Slopes with a diagonal that makes the rows sum to 0: adding a constant to all strengths changes nothing."""
    np.fill_diagonal(slopes, 0.0)
    np.fill_diagonal(slopes, -slopes.sum(axis=1))
    return slopes


def _laws(protocol: LocalProtocol, strengths: Floats) -> Iterable[tuple[Ints, Ints, Floats, Floats]]:
    """For each question: the items it depends on, the answers, their probabilities, and slopes in these strengths."""
    response, m = protocol.response, protocol.items
    gain = response.keep - response.other
    if protocol.ask == "name":
        for block in protocol.blocks:
            items, own = np.array(block), own_items(len(block), response)
            total = own * response.keep + (items.size - own) * response.other
            (first, rises), (others, falls) = top_chances(strengths[items], (own, items.size - own))
            yield items, items, (response.other + gain * first) / total, gain / total * rises
            yield items, items, (response.other + gain * (1 - others)) / total, -gain / total * falls
        return
    answers, order = np.arange(2), protocol.order()
    if protocol.ask == "items":  # in the upper half; the middle of an odd number counts half
        halves = top_chances(strengths, (m // 2, m - m // 2))
        upper, slopes = (sum(parts) / 2 for parts in zip(*halves, strict=True))
        cases = [(np.arange(m), upper[item], slopes[item]) for item in order[: protocol.questions]]
    else:
        pairs = order[: 2 * protocol.questions].reshape(-1, 2)
        cases = [(pair, *(part[0] for part in top_chances(strengths[pair], (1,))[0])) for pair in pairs]
    for items, yes, slope in cases:
        shown = response.other + gain * yes
        yield items, answers, np.array([1 - shown, shown]), gain * np.array([-slope, slope])


def expected_information(protocol: LocalProtocol, strengths: Floats) -> Floats:
    """The expected information of one report on the strengths."""
    total = np.zeros((protocol.items, protocol.items))
    for items, _, chances, slopes in _laws(protocol, strengths):
        total[np.ix_(items, items)] += (slopes.T / chances) @ slopes / protocol.questions
    return total


def predicted_tau(estimate: _Estimate, information: Floats) -> float:
    """Kendall's tau to be expected once the reports carry this information, given those that the estimate has seen.

    A difference of two scores is normal given the reports so far; the next ones move its mean and narrow it. Its sign will then
    be right with probability P(pair ordered right) = Phi(abs(mean) / sd), averaged over where the mean may move.
    """
    now, later = (
        np.linalg.inv(part + estimate.prior * np.eye(len(part))) for part in (estimate.information, information)
    )
    scores, slopes = scores_at(estimate.strengths)
    i, j = np.triu_indices(scores.size, 1)
    before, after = ((slopes[i] - slopes[j]) @ part for part in (now, later))
    variance, left = (np.einsum("pk,pk->p", part, slopes[i] - slopes[j]) for part in (before, after))
    moves, weights = np.polynomial.hermite_e.hermegauss(15)
    means = (scores[i] - scores[j])[:, None] + np.sqrt(np.maximum(variance - left, 0))[:, None] * moves
    right = ndtr(np.abs(means) / np.sqrt(left)[:, None]) @ weights / weights.sum()
    return float((2 * right - 1).mean())


def _inverse(information: Floats) -> Floats:
    """The inverse for strengths that sum to 0."""
    return np.asarray(np.linalg.pinv(information, rcond=1e-10, hermitian=True))


# ---- the estimate ----------------------------------------------------------------------------------------------------


def _estimate(rounds: Sequence[AnswerCounts]) -> _Estimate:
    """Scores from all reports; see the module's text."""
    m = rounds[0].protocol.items
    if not identified(rounds):
        got = Verbatim("answers to questions that leave the order of the items open")
        want = "reports of LocalProtocol(items, epsilon=epsilon, ask='name'), or answers about every item"
        raise BadInput("randomized", got=got, want=want)
    strengths, prior = np.zeros(m), 1.0
    for _ in range(_ITERATIONS):
        information, gradient = _likelihood(rounds, strengths)
        inverse = _inverse(information)
        free = strengths + inverse @ gradient  # one step of maximum likelihood
        spread = (float(free @ free) - float(np.trace(inverse))) / (m - 1)
        prior = 1 / min(max(spread, 1e-4), _LARGEST_VARIANCE)
        step = np.linalg.solve(information + prior * np.eye(m), information @ free) - strengths
        step *= min(1.0, _LONGEST_STEP / max(float(np.abs(step).max()), 1e-12))
        strengths = strengths + step - step.mean()
        if np.abs(step).max() < _CLOSE:
            break
    information, gradient = _likelihood(rounds, strengths)
    typical = 1 / float(np.median(np.linalg.eigvalsh(information)[1:]))  # variance of a direction
    loose = 1 / max(1 / prior, _FREEDOM * typical)
    covariance, (scores, slopes) = np.linalg.inv(information + loose * np.eye(m)), scores_at(strengths)
    moved = slopes @ covariance @ (gradient - loose * strengths)
    return _Estimate(scores + moved, slopes @ covariance @ slopes.T, strengths, information, prior)


def _likelihood(rounds: Sequence[AnswerCounts], strengths: Floats) -> tuple[Floats, Floats]:
    """The information of all reports at these strengths, and the gradient of their log likelihood."""
    information, gradient = np.zeros((strengths.size, strengths.size)), np.zeros(strengths.size)
    for counted in rounds:
        for row, (items, answers, chances, slopes) in zip(
            counted.tally, _laws(counted.protocol, strengths), strict=True
        ):
            information[np.ix_(items, items)] += row.sum() * (slopes.T / chances) @ slopes
            gradient[items] += slopes.T @ (row[answers] / chances)
    return information, gradient


def identified(rounds: Sequence[AnswerCounts]) -> bool:
    """Whether the questions that were answered identify an order of all items."""
    information = _likelihood(rounds, np.zeros(rounds[0].protocol.items))[0]
    values = np.linalg.eigvalsh(information)
    return bool(values[1] > 1e-9 * values[-1])


def _rounds(randomized: Any, protocol: LocalProtocol | Sequence[LocalProtocol] | None) -> list[AnswerCounts]:
    """The reports of every round, counted; all about the same items."""
    if isinstance(protocol, (list, tuple)):
        known = {own.fingerprint: own for own in protocol if isinstance(own, LocalProtocol)}
        if not known or len(known) < len(protocol):
            raise BadInput("protocol", got=protocol, want="a LocalProtocol, or a list of different ones, one per round")
        sent: dict[str, list[Any]] = {name: [] for name in known}
        for place, ranking in read_rankings(randomized, "randomized"):
            if ranking.protocol not in sent:
                raise BadInput(place, got=ranking.protocol, want=f"one of the protocols {', '.join(sent)}")
            sent[ranking.protocol].append(ranking)
        rounds = [count_answers(sent[name], own) for name, own in known.items() if sent[name]]
    elif isinstance(randomized, (list, tuple)) and randomized and all(map(_is_round, randomized)):
        rounds = [count_answers(part, None) for part in randomized]
    else:
        rounds = [count_answers(randomized, protocol)]  # type: ignore[arg-type]  # which checks it
    if not rounds:
        raise BadInput("randomized", got=Verbatim("no randomized rankings"), want="at least one")
    first = rounds[0].protocol
    if any((own.protocol.items, own.protocol.names) != (first.items, first.names) for own in rounds):
        raise BadInput("randomized", got=Verbatim("rounds about different items"), want="the same items in all rounds")
    if first.items > _MOST_ITEMS:
        raise BadInput("randomized", got=Verbatim(f"{first.items:,} items"), want=f"at most {_MOST_ITEMS}")
    return rounds


def _is_round(part: Any) -> bool:
    """Whether this is a file, a table or randomized rankings, which state their protocol; a line of JSON is none."""
    if isinstance(part, str):
        return Path(part).suffix != ""
    return isinstance(part, (RandomizedRankings, os.PathLike)) or hasattr(part, "columns")


def _guarantee(rounds: Sequence[AnswerCounts]) -> Guarantee:
    """The largest of the rounds'; with several, for people who answer in one of them."""
    largest = max((counted.protocol.guarantee for counted in rounds), key=lambda own: own.exact_epsilon or 0)
    if len(rounds) == 1:
        return largest
    neighbors = "one person, who answers in one round only, has any other ranking of the items"
    return Guarantee.local_dp(largest.exact_epsilon, unit=largest.unit, neighbors=neighbors)
