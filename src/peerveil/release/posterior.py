"""Who wrote a review, to an adversary who sees the published means and all that is public: exact, or sampled.

Before the release every assignment that fits the public data is equally likely to this adversary (nobody reviews a
paper twice; every load and every paper's weights are as known). The published vector r makes a world with sorted
means theta exp(-sum(abs(r - theta)) / scale) times as likely. The probability that person j wrote a review is the
weight of all worlds in which they did.

**What such an adversary must know to learn anything.** The published means carry no names. If nothing about anybody
is known, renaming two people with equal loads turns each world into another with the same sorted means, so both are
equally likely to have written any review, whatever was published (a test shows it). Names enter through side
knowledge: people tell which reviews they wrote, or are known by their style. That is what ``known`` is for. Knowing
some reviews of A and of B, the adversary asks which of them wrote a further one, and the means of both, somewhere in
the sorted vector, help.

**What limits it.** If all authors are known but those of two reviews, two worlds are left, one exchange apart, and
the odds between them change by a factor of at most e^epsilon: that is the guarantee. If less is known, an answer ("A
wrote it") collects many worlds, and those of two answers may be several exchanges apart; the log-odds of two answers
then change by at most ``reach``, the L1 diameter of what is possible over the scale: both likelihoods are means of
numbers no two of which differ by more than that factor. Averaging over what is unknown usually leaves far less.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numba import njit

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import whole
from peerveil.core.randomness import Randomness

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from peerveil.release.public import PublicScores

    Floats = NDArray[np.float64]
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
        A row a review (in the order of ``public.values``) and a column a reviewer (in the order of ``public.loads``).
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

        (The largest of many estimated ratios says more about the sampling than about the release.)
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
    public: PublicScores, noisy: ArrayLike, scale: float, *, known: Known | None = None
) -> Posterior:
    """The exact posterior, by enumeration of all assignments; for small conferences.

    Parameters
    ----------
    public
        What everybody knows. Reviewers are numbered by ascending load.
    noisy
        The published vector: sorted means with independent Laplace noise.
    scale
        The scale of the noise, which is public.
    known
        Authors that the adversary knows: ``known[paper, place] = reviewer`` for the review of ``paper`` with the
        place-th lowest weight (from 0).

    Examples
    --------
    >>> from peerveil.release.public import PublicScores
    >>> public = PublicScores([[0.0], [0.1], [0.9], [1.0]], loads=[2, 2])
    >>> found = posterior_over_assignments(public, [0.1, 0.9], scale=0.5, known={(0, 0): 0, (3, 0): 1})
    >>> found.authors(1, 0).round(2).tolist()  # who wrote 0.0 wrote 0.1, since the means lie far apart
    [0.77, 0.23]
    """
    vector, noise = _read_release(public, noisy, scale)
    author = _enumerate(public, _read_known(public, known))
    theta = np.zeros((len(author), public.reviewers))
    every = np.arange(len(author))
    for slot, weight in enumerate(public.values):
        theta[every, author[:, slot]] += weight
    theta = np.sort(theta / public.loads, axis=1)
    likelihood = -np.abs(theta - vector).sum(axis=1) / noise
    share = np.exp(likelihood - likelihood.max())
    share /= share.sum()
    tables = [
        np.array(
            [
                np.bincount(author[:, slot], weights=weights, minlength=public.reviewers)
                for slot in range(author.shape[1])
            ]
        )
        for weights in (np.full(len(author), 1 / len(author)), share)
    ]
    reach = float(np.ptp(theta, axis=0).sum() / noise)  # at least the L1 diameter over the scale
    return Posterior(public, tables[0], tables[1], len(author), reach, 0.0)


def _enumerate(public: PublicScores, fixed: NDArray[np.int64]) -> NDArray[np.int8]:
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
            raise BadInput("known", got=Verbatim("authors that no assignment has"), want="authors that can be true")
        author, left = np.concatenate(authors), np.concatenate(lefts)
    return author


def _too_many(public: PublicScores) -> BadInput:
    return BadInput(
        "public",
        got=Verbatim(f"a conference with more than {MOST_WORLDS:,} (partial) assignments: {public!r}"),
        want="one of about 5 reviewers; for a larger one use sampled_posterior",
    )


def sampled_posterior(
    public: PublicScores,
    noisy: ArrayLike,
    scale: float,
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
        Steps a chain, in multiples of the number of reviews with unknown author; the first fifth is not counted.
    """
    vector, noise = _read_release(public, noisy, scale)
    fixed = _read_known(public, known)
    for name, count, least in (("sweeps", sweeps, 10), ("chains", chains, 2)):
        whole(count, name, least)
    if public.values.size * public.reviewers > _MOST_CELLS:
        raise BadInput("public", got=public, want=f"reviews times reviewers at most {_MOST_CELLS:,}")
    randomness = Randomness.secure() if randomness is None else randomness
    free = np.flatnonzero(fixed < 0)
    start = _any_assignment(public, fixed)
    tables: list[list[Floats]] = [[], []]
    for _ in range(int(chains)):
        author = start.copy()
        for inverse, kept in zip((0.0, 1 / noise), tables, strict=True):
            kept.append(_chain(public, author, free, vector, inverse, int(sweeps), randomness))
    prior, posterior = (np.mean(kept, axis=0) for kept in tables)
    error = float(np.std(tables[1], axis=0, ddof=1).max() / math.sqrt(int(chains)))
    return Posterior(public, prior, posterior, int(sweeps) * int(chains), math.inf, max(error, 1 / (sweeps * chains)))


def _chain(
    public: PublicScores,
    author: NDArray[np.int64],
    free: NDArray[np.int64],
    vector: Floats,
    inverse: float,
    sweeps: int,
    randomness: Randomness,
) -> Floats:
    """How often each reviewer was each review's author; ``author`` is left where the walk ended."""
    paper = np.repeat(np.arange(public.papers), public.sizes)
    counts = np.zeros((author.size, public.reviewers))
    held = np.zeros((public.reviewers, public.papers), dtype=np.bool_)
    held[author, paper] = True
    sums = np.bincount(author, weights=public.values, minlength=public.reviewers)
    theta = np.sort(sums / public.loads)
    total, burn = sweeps * max(free.size, 1), sweeps // 5 * max(free.size, 1)
    for begin in range(0, total, _STEPS):
        steps = min(_STEPS, total - begin)
        picks = free[randomness.integers(0, free.size, (steps, 3))] if free.size else np.zeros((steps, 3), np.int64)
        chance, kinds = randomness.uniform(steps), randomness.uniform(steps) < 0.5
        _walk(
            author, paper, public.values, public.loads, held, sums, theta, vector,
            inverse, picks, kinds, np.log1p(-chance), counts, burn - begin, max(free.size, 1),
        )  # fmt: skip
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


@njit(cache=True, nogil=True)
def _move(theta: Any, vector: Any, old: float, new: float) -> Any:
    """Replace one entry of a sorted vector; returns by how much its L1 distance to another grows."""
    i = np.searchsorted(theta, old)
    grown = 0.0
    while i + 1 < theta.size and theta[i + 1] < new:
        grown += abs(vector[i] - theta[i + 1]) - abs(vector[i] - theta[i])
        theta[i] = theta[i + 1]
        i += 1
    while i > 0 and theta[i - 1] > new:
        grown += abs(vector[i] - theta[i - 1]) - abs(vector[i] - theta[i])
        theta[i] = theta[i - 1]
        i -= 1
    grown += abs(vector[i] - new) - abs(vector[i] - theta[i])
    theta[i] = new
    return grown


@njit(cache=True, nogil=True)
def _walk(
    author: Any, paper: Any, values: Any, loads: Any, held: Any, sums: Any, theta: Any, vector: Any,
    inverse: float, picks: Any, kinds: Any, chance: Any, counts: Any, burn: int, thin: int,
) -> None:  # fmt: skip
    """Steps of the walk, in place."""
    slots, before = np.empty(3, dtype=np.int64), np.empty(3, dtype=np.int64)
    added, old = np.empty(3, dtype=np.bool_), np.empty(3)
    for step in range(picks.shape[0]):
        slots[:] = picks[step]
        size = 3 if kinds[step] and slots[2] != slots[0] and slots[2] != slots[1] else 2
        if slots[0] != slots[1]:
            for c in range(size):
                before[c] = author[slots[c]]
                held[before[c], paper[slots[c]]] = False
            valid = True
            for c in range(size):  # each review goes to the author of the next
                added[c] = not held[before[(c + 1) % size], paper[slots[c]]]
                held[before[(c + 1) % size], paper[slots[c]]] = True
                valid &= added[c]
            taken = False
            if valid:
                grown = 0.0
                for c in range(size):
                    person = before[c]
                    old[c] = sums[person]
                    sums[person] += values[slots[(c - 1) % size]] - values[slots[c]]
                    grown += _move(theta, vector, old[c] / loads[person], sums[person] / loads[person])
                taken = chance[step] <= -grown * inverse
                for back in range(0 if taken else size):
                    c = size - 1 - back
                    person = before[c]
                    _move(theta, vector, sums[person] / loads[person], old[c] / loads[person])
                    sums[person] = old[c]
            if taken:
                for c in range(size):
                    author[slots[c]] = before[(c + 1) % size]
            else:
                for c in range(size):
                    if added[c]:
                        held[before[(c + 1) % size], paper[slots[c]]] = False
                for c in range(size):
                    held[before[c], paper[slots[c]]] = True
        if step >= burn and (step - burn) % thin == 0:
            for slot in range(author.size):
                counts[slot, author[slot]] += 1


def _any_assignment(public: PublicScores, fixed: NDArray[np.int64]) -> NDArray[np.int64]:
    """Some assignment with the known authors, by a maximum flow from papers to reviewers."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    n, m = public.reviewers, public.papers
    paper = np.repeat(np.arange(m), public.sizes)
    author, given = fixed.copy(), fixed >= 0
    allowed = np.ones((m, n), dtype=bool)
    allowed[paper[given], author[given]] = False
    wanted = np.bincount(paper[~given], minlength=m)
    left = public.loads - np.bincount(author[given], minlength=n)
    if (left >= 0).all():
        ends = np.nonzero(allowed)
        tail = np.concatenate([np.full(m, m + n), ends[0], m + np.arange(n)])
        head = np.concatenate([np.arange(m), m + ends[1], np.full(n, m + n + 1)])
        room = np.concatenate([wanted, np.ones(ends[0].size, dtype=np.int64), left]).astype(np.int32)
        flow = maximum_flow(csr_array((room, (tail, head)), shape=(m + n + 2, m + n + 2)), m + n, m + n + 1)
        if flow.flow_value == int(wanted.sum()):
            used = flow.flow.tocsr()[:m, m : m + n]
            used.data = np.maximum(used.data, 0)
            used.eliminate_zeros()
            used.sort_indices()
            author[~given] = used.indices  # paper by paper, as the free reviews are
            return author
    raise BadInput("known", got=Verbatim("authors that no assignment has"), want="authors that can be true")


def _slot(public: PublicScores, paper: int, place: int) -> int:
    if not (0 <= paper < public.papers and 0 <= place < public.sizes[paper]):
        raise BadInput("paper, place", got=(paper, place), want="a paper and the place of one of its reviews, from 0")
    return int(public.offsets[paper]) + int(place)


def _read_known(public: PublicScores, known: Known | None) -> NDArray[np.int64]:
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


def _read_release(public: PublicScores, noisy: ArrayLike, scale: float) -> tuple[Floats, float]:
    vector = np.asarray(noisy, dtype=np.float64)
    if vector.shape != (public.reviewers,) or not np.isfinite(vector).all():
        raise BadInput("noisy", got=vector, want=f"{public.reviewers} finite numbers, one a reviewer")
    if not (math.isfinite(scale) and scale > 0):
        raise BadInput("scale", got=scale, want="a finite number above 0")
    return vector, float(scale)
