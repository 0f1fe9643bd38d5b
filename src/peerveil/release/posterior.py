"""Who wrote a review, to an adversary who sees the published counts and all that is public: exact, or sampled.

Before the release every assignment that fits the public data is equally likely to this adversary (nobody reviews a
paper twice; every load and every paper's weights are as known). The published counts y make a world with counts N
exp(-epsilon max abs(y - N)) times as likely. The probability that person j wrote a review is the weight of all worlds
in which they did.

**What such an adversary must know to learn anything.** The published counts carry no names. If nothing about anybody
is known, renaming two people with equal loads turns each world into another with the same counts, so both are
equally likely to have written any review, whatever was published (a test shows it). Names enter through side
knowledge: people tell which reviews they wrote, or are known by their style. That is what ``known`` is for. Knowing
some reviews of A and of B, the adversary asks which of them wrote a further one, and the means of both help.

**What limits it.** If all authors are known but those of two reviews, two worlds are left, one exchange apart, and
the odds between them change by a factor of at most e^epsilon: that is the guarantee. If less is known, an answer ("A
wrote it") collects many worlds, and those of two answers may be several exchanges apart; the log-odds of two answers
then change by at most ``reach``, epsilon times the largest difference of counts that is possible: both likelihoods are
means of numbers no two of which differ by more than that factor. Averaging over what is unknown usually leaves far less.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerveil.core.arrays import Floats, Ints
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import numbers, whole
from peerveil.core.guarantee import read_epsilon
from peerveil.core.lazy import njit
from peerveil.core.randomness import Randomness
from peerveil.release.public import PublicScores, reviewer_means

if TYPE_CHECKING:
    Known = Mapping[tuple[int, int], int]

MOST_WORLDS: Final = 1_000_000
"""More assignments than this are not enumerated: use :func:`sampled_posterior`."""
_MOST_ORDERS: Final = 10_000  # ways to staff one paper
_MOST_CELLS: Final = 20_000_000  # reviews times reviewers
_STEPS: Final = 1 << 17  # of the random walk, drawn at once


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """Who wrote which review, before and after the release.

    Attributes
    ----------
    prior, posterior : array
        One row per review (in the order of ``public.values``), one column per reviewer (in that of ``public.loads``).
    worlds : int
        How many assignments were enumerated, or sampled.
    reach : float
        By how much the log-odds of two answers can change at most; infinite if it is not known.
    error : float
        The largest standard error of an entry of ``posterior``; 0 if it is exact.
    """

    public: PublicScores
    prior: Floats
    posterior: Floats
    worlds: int
    reach: float
    error: float

    def authors(self, paper: int, place: int) -> Floats:
        """The probability of each reviewer to have written the review of this paper with the place-th lowest weight."""
        return np.asarray(self.posterior[_slot(self.public, paper, place)])

    def shift(self, paper: int, place: int, a: int, b: int) -> float:
        """By how much the release changed the log-odds of reviewer a against b; NaN if one of them is impossible."""
        slot = _slot(self.public, paper, place)
        after, before = self.posterior[slot, [a, b]], self.prior[slot, [a, b]]
        if min(after.min(), before.min()) <= 0:
            return math.nan
        return float(math.log(after[0] / after[1]) - math.log(before[0] / before[1]))

    @property
    def largest_shift(self) -> float:
        """The largest change of log-odds over all reviews and all pairs of possible authors; NaN if it was sampled.

        (The largest of many estimated ratios depends more on the sampling than on the release.)
        """
        if self.error:
            return math.nan
        possible = (self.prior > 0) & (self.posterior > 0)
        ratio = np.log(np.where(possible, self.posterior, 1) / np.where(possible, self.prior, 1))
        top, bottom = np.where(possible, ratio, -np.inf).max(axis=1), np.where(possible, ratio, np.inf).min(axis=1)
        return float((top - bottom).max())

    def __repr__(self) -> str:
        if self.error:
            return f"Posterior({self.worlds:,} worlds sampled, standard error at most {self.error:.2g})"
        return f"Posterior({self.worlds:,} worlds, largest change of log-odds {self.largest_shift:.3g})"


def posterior_over_assignments(
    public: PublicScores, counts: ArrayLike, thresholds: ArrayLike, epsilon: float, *, known: Known | None = None
) -> Posterior:
    """The exact posterior, by enumeration of all assignments; for small conferences.

    Parameters
    ----------
    public
        What everybody knows. Reviewers are numbered by ascending load.
    counts, thresholds, epsilon
        What was published: noisy counts of reviewers whose mean is at most each threshold, and the privacy parameter.
    known
        Authors that the adversary knows: ``known[paper, place] = reviewer`` for the review of ``paper`` with the
        place-th lowest weight (from 0).

    Examples
    --------
    >>> from peerveil.release.public import PublicScores
    >>> public = PublicScores([[0.0], [0.1], [0.9], [1.0]], loads=[2, 2])
    >>> posterior = posterior_over_assignments(public, [1], [0.3], 2.0, known={(0, 0): 0, (3, 0): 1})
    >>> posterior.authors(1, 0).round(2).tolist()  # one mean is low: who wrote 0.0 wrote 0.1
    [0.88, 0.12]
    """
    noisy, at, size = _read_release(counts, thresholds, epsilon)
    author = _enumerate(public, _read_known(public, known))
    means = np.zeros((len(author), public.reviewers))
    every = np.arange(len(author))
    for slot in np.argsort(public.values, kind="stable"):  # in ascending order, as the mechanism adds them
        means[every, author[:, slot]] += public.values[slot]
    below = (means[:, :, None] / public.loads[:, None] <= at).sum(axis=1)
    likelihood = -size * np.abs(noisy - below).max(axis=1)
    share = np.exp(likelihood - likelihood.max())

    def authors(weights: Floats) -> Floats:
        return np.array([np.bincount(slot, weights, minlength=public.reviewers) for slot in author.T])

    prior, posterior = authors(np.full(len(author), 1 / len(author))), authors(share / share.sum())
    reach = size * float(np.ptp(below, axis=0).max())
    return Posterior(public, prior, posterior, len(author), reach, 0.0)


def _enumerate(public: PublicScores, fixed: Ints) -> NDArray[np.int8]:
    """All valid assignments: a row each, the author of every review; paper by paper, dropping what cannot be finished.

    Two reviews of one paper with equal weights make two rows of what is one world, but as many of every world: the
    uniform prior stays uniform.
    """
    author, left = np.empty((1, 0), dtype=np.int8), public.loads[None].astype(np.int16)
    for paper, (start, end) in enumerate(zip(public.offsets[:-1], public.offsets[1:], strict=True)):
        if math.perm(public.reviewers, int(end - start)) > _MOST_ORDERS:
            raise _too_many(public)
        authors, lefts, count = [], [], 0
        for order in permutations(range(public.reviewers), int(end - start)):
            staff = np.array(order, dtype=np.int8)
            if ((fixed[start:end] >= 0) & (fixed[start:end] != staff)).any():
                continue
            now = left.copy()
            now[:, staff] -= 1
            fits = ((now >= 0) & (now <= public.papers - paper - 1)).all(axis=1)
            authors.append(np.column_stack([author[fits], np.tile(staff, (int(fits.sum()), 1))]))
            lefts.append(now[fits])
            count += len(lefts[-1])
            if count > MOST_WORLDS:
                raise _too_many(public)
        if not count:
            raise _impossible()
        author, left = np.concatenate(authors), np.concatenate(lefts)
    return author


def _too_many(public: PublicScores) -> BadInput:
    return BadInput(
        "public",
        got=Verbatim(f"a conference with more than {MOST_WORLDS:,} (partial) assignments: {public!r}"),
        want="one of about 5 reviewers; for a larger one use sampled_posterior",
    )


def _impossible() -> BadInput:
    return BadInput("known", got=Verbatim("authors that no assignment has"), want="authors that can be true")


def sampled_posterior(
    public: PublicScores,
    counts: ArrayLike,
    thresholds: ArrayLike,
    epsilon: float,
    *,
    known: Known | None = None,
    sweeps: int = 2000,
    chains: int = 4,
    randomness: Randomness | None = None,
) -> Posterior:
    """The posterior by a random walk over assignments (Metropolis): approximate.

    A step proposes to exchange the authors of two reviews, or to pass those of three around, and is taken with
    probability min(1, likelihood ratio) if nobody then reviews a paper twice. Proposals are symmetric, so the walk
    settles at the posterior. Exchanges reach every assignment from every other if nothing is known (Ryser, 1957); with
    known authors three are sometimes needed, and rarely more, which the walk does not try. Each chain starts from an
    assignment of its own, after as many steps without looking at the release, which also give the prior. ``error`` is
    estimated from the differences between chains: it cannot see what no chain has reached.

    Parameters
    ----------
    sweeps
        Steps per chain, in multiples of the number of reviews with unknown author; the first fifth is not counted.
    """
    noisy, at, size = _read_release(counts, thresholds, epsilon)
    fixed = _read_known(public, known)
    sweeps, chains = whole(sweeps, "sweeps", 10), whole(chains, "chains", 2)
    if public.values.size * public.reviewers > _MOST_CELLS:
        raise BadInput("public", got=public, want=f"reviews times reviewers at most {_MOST_CELLS:,}")
    randomness = Randomness.secure() if randomness is None else randomness
    free = np.flatnonzero(fixed < 0)
    start = _any_assignment(public, fixed)
    priors, posteriors = [], []
    for _ in range(chains):
        author = start.copy()
        priors.append(_chain(public, author, free, (noisy, at, 0.0), sweeps, randomness))
        posteriors.append(_chain(public, author, free, (noisy, at, size), sweeps, randomness))
    error = max(float(np.std(posteriors, axis=0, ddof=1).max() / math.sqrt(chains)), 1 / (sweeps * chains))
    return Posterior(public, np.mean(priors, axis=0), np.mean(posteriors, axis=0), sweeps * chains, math.inf, error)


def _chain(
    public: PublicScores,
    author: Ints,
    free: Ints,
    release: tuple[Floats, Floats, float],
    sweeps: int,
    randomness: Randomness,
) -> Floats:
    """How often each reviewer was each review's author; ``author`` is left where the walk ended."""
    paper = np.repeat(np.arange(public.papers), public.sizes)
    counts = np.zeros((author.size, public.reviewers))
    held = np.zeros((public.reviewers, public.papers), dtype=np.int8)
    held[author, paper] = 1
    means = reviewer_means(public.values, author)
    own = np.zeros((public.reviewers, int(public.loads[-1])), dtype=np.int64)  # the reviews of each reviewer
    for person, slots in enumerate(np.split(np.argsort(author, kind="stable"), np.cumsum(public.loads)[:-1])):
        own[person, : slots.size] = slots
    noisy, thresholds, epsilon = release
    below = (means[:, None] <= thresholds).sum(axis=0).astype(np.float64)
    thin = max(free.size, 1)
    total, burn = sweeps * thin, sweeps // 5 * thin
    for begin in range(0, total, _STEPS):
        steps = min(_STEPS, total - begin)
        picks = free[randomness.integers(0, free.size, (steps, 3))] if free.size else np.zeros((steps, 3), np.int64)
        chance, kinds = np.log1p(-randomness.uniform(steps)), randomness.uniform(steps) < 0.5
        _walk(
            author, paper, public.values, public.loads, held, own, means, below, noisy, thresholds, epsilon,
            picks, kinds, chance, counts, burn - begin, thin,
        )  # fmt: skip
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


@njit(cache=True, nogil=True)
def _walk(
    author: Any, paper: Any, values: Any, loads: Any, held: Any, own: Any, means: Any, below: Any, noisy: Any,
    thresholds: Any, epsilon: float, picks: Any, kinds: Any, chance: Any, counts: Any, burn: int, thin: int,
) -> None:  # fmt: skip
    """Steps of the walk, in place: each review of a cycle of two or three goes to the author of the next one."""
    for step in range(picks.shape[0]):
        size = 3 if kinds[step] and picks[step, 2] != picks[step, 0] and picks[step, 2] != picks[step, 1] else 2
        slots = picks[step, :size]
        if slots[0] != slots[1]:
            givers = author[slots]
            takers = np.roll(givers, -1)
            received = np.roll(slots, 1)
            for c in range(size):
                held[givers[c], paper[slots[c]]] -= 1
                held[takers[c], paper[slots[c]]] += 1
                _replace(own, loads, givers[c], slots[c], received[c])
            taken = True
            for c in range(size):
                taken &= held[takers[c], paper[slots[c]]] == 1
            if taken:
                new_means, new_below = np.empty(size), below.copy()
                for c in range(size):
                    person = givers[c]
                    new_means[c] = _mean(values, own[person, : loads[person]])
                    if person not in givers[:c]:
                        for k in range(thresholds.size):
                            new_below[k] += (new_means[c] <= thresholds[k]) - (means[person] <= thresholds[k])
                grown = np.abs(noisy - new_below).max() - np.abs(noisy - below).max()
                taken = chance[step] <= -grown * epsilon
            if taken:
                author[slots], means[givers], below[:] = takers, new_means, new_below
            else:
                for c in range(size - 1, -1, -1):
                    held[takers[c], paper[slots[c]]] -= 1
                    held[givers[c], paper[slots[c]]] += 1
                    _replace(own, loads, givers[c], received[c], slots[c])
        if step >= burn and (step - burn) % thin == 0:
            for slot in range(author.size):
                counts[slot, author[slot]] += 1


@njit(cache=True, nogil=True)
def _replace(own: Any, loads: Any, person: int, before: int, after: int) -> None:
    for place in range(loads[person]):
        if own[person, place] == before:
            own[person, place] = after
            return


@njit(cache=True, nogil=True)
def _mean(values: Any, slots: Any) -> float:
    """The mean as the mechanism computes it, to the last bit: weights are added in ascending order."""
    total = 0.0
    for value in np.sort(values[slots]):
        total += value
    return float(total / slots.size)


def _any_assignment(public: PublicScores, fixed: Ints) -> Ints:
    """Some assignment with the known authors, by a maximum flow from papers to reviewers."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    n, m = public.reviewers, public.papers
    paper = np.repeat(np.arange(m), public.sizes)
    author, known = fixed.copy(), fixed >= 0
    allowed = np.ones((m, n), dtype=bool)
    allowed[paper[known], author[known]] = False
    missing = np.bincount(paper[~known], minlength=m)
    left = public.loads - np.bincount(author[known], minlength=n)
    if (left >= 0).all():
        ends = np.nonzero(allowed)
        tail = np.concatenate([np.full(m, m + n), ends[0], m + np.arange(n)])
        head = np.concatenate([np.arange(m), m + ends[1], np.full(n, m + n + 1)])
        capacity = np.concatenate([missing, np.ones(ends[0].size, dtype=np.int64), left]).astype(np.int32)
        flow = maximum_flow(csr_array((capacity, (tail, head)), shape=(m + n + 2, m + n + 2)), m + n, m + n + 1)
        if flow.flow_value == int(missing.sum()):
            used = flow.flow.tocsr()[:m, m : m + n]
            used.data = np.maximum(used.data, 0)
            used.eliminate_zeros()
            used.sort_indices()
            author[~known] = used.indices  # paper by paper, as the free reviews are
            return author
    raise _impossible()


def _slot(public: PublicScores, paper: int, place: int) -> int:
    if not (0 <= paper < public.papers and 0 <= place < public.sizes[paper]):
        raise BadInput("paper, place", got=(paper, place), want="a paper and the place of one of its reviews, from 0")
    return int(public.offsets[paper]) + int(place)


def _read_known(public: PublicScores, known: Known | None) -> Ints:
    """For each review its known author, or -1."""
    if known is not None and not isinstance(known, Mapping):
        raise BadInput("known", got=known, want="a mapping of (paper, place) to a reviewer")
    fixed = np.full(public.values.size, -1, dtype=np.int64)
    for (paper, place), reviewer in (known or {}).items():
        if not 0 <= reviewer < public.reviewers:
            raise BadInput(f"known[{paper}, {place}]", got=reviewer, want=f"a reviewer, 0 to {public.reviewers - 1}")
        slot = _slot(public, paper, place)
        start, end = public.offsets[paper], public.offsets[paper + 1]
        if (fixed[start:end] == reviewer).any():
            raise BadInput(f"known[{paper}, {place}]", got=reviewer, want="at most one review of a paper by one person")
        fixed[slot] = reviewer
    return fixed


def _read_release(counts: ArrayLike, thresholds: ArrayLike, epsilon: float) -> tuple[Floats, Floats, float]:
    noisy = numbers(counts, "counts", dimensions=(1,), want="finite numbers, one per threshold")
    at = numbers(thresholds, "thresholds", dimensions=(1,), want="finite numbers")
    if noisy.shape != at.shape:
        raise BadInput("counts", got=counts, want=f"{at.size} numbers, one per threshold")
    return noisy, at, float(read_epsilon(epsilon))
