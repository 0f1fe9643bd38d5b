r"""Bounds on each sorted mean by chains of weight tuples: Ding, Shah and Wang (2021), Algorithms 1 and 2, made fast.

*Definition.* An entry is one public weight: one review of one paper. A tuple is a set of entries of distinct papers
whose size is somebody's load (Remark 4.5); Omega lists all tuples in the order of their means. A left chain of a tuple
runs from it to ever earlier tuples, neighbors having no entry in common; its length counts its tuples. Right chains run
to later ones. Algorithm 1 walks up Omega with i = 1 at first, marks the entries of each tuple that it comes to, and stops
for i, taking the tuple's mean as lower bound of theta_i, at a tuple where

* C1: the longest left chain has length at least i, and
* C2: no paper has more than n - i unmarked entries.

Then it goes on with i + 1 at the next tuple. Algorithm 2 is the same walk from the last tuple downwards, for
i = n, n - 1, ... (as printed it starts at the first tuple with i = 1, from where there is nothing to walk to: erratum).

*Valid* (Theorem 4.6; the printed proof leaves out that the walk may have passed a tuple before it asks for i). Take any
assignment and call its reviewers' tuples tau_1, ..., tau_n in the order of Omega, so that theta_i is the mean of tau_i.
Loads may differ: every tau_i is in Omega all the same. No entry belongs to two reviewers, so (tau_i, ..., tau_1) is a
left chain of length i, and C1 holds at tau_i. When the walk has come to tau_i, the unmarked entries belong to
tau_(i+1), ..., tau_n, each with at most one entry of a paper, and C2 holds. Hence, if the walk stops for i - 1 at
tau_(i-1) or before, it stops for i at tau_i or before: by induction for every i, and the bound is at most theta_i. The
order of tuples with equal means does not matter for this, and the upper bounds are the mirror image.

*The tie rule* does matter for axiom A3. Number all entries by decreasing absolute weight (then by paper, then by
place); tuples of equal mean come in lexicographic order of their ascending entry numbers, a beginning before its
continuations. With all papers zero but one, tuples of the same non-zero mean then come grouped by their non-zero entry,
members of a group are never neighbors in a chain, and A3 holds for weights of any sign. "Breaking ties arbitrarily", as
printed, it fails if the non-zero paper has two equal weights: its tuples can alternate in one long chain.
Numbers count as equal when they follow each other within 1e-12 of the largest absolute weight; a lower bound is the least
mean among such equals, an upper bound the largest, so that rounding cannot separate equals.

*Fast.* The longest chain has length 1 + the greatest length of an earlier disjoint tuple. So keep the tuples by length,
and look for a disjoint one from the greatest length down; most tuples are disjoint, so this ends almost at once. Lengths
above n are never asked for. Of each length keep only tuples that can still matter: a tuple u is dropped if no set of at
most l entries (l the largest load) meets all kept ones and avoids u, since then whatever is disjoint from u is disjoint
from a kept one too. At most C(2l, l) are kept (Frankl's skew form of Bollobas's theorem on set pairs): 6 for l = 2, 20
for l = 3. Often a part of u is enough to say so; such parts are remembered, and later tuples that have them are dropped
without a search. T tuples take O(T log T) time for sorting and O(T l) memory; up to load 4 walking took less than that
on all structures tried (ties, stars, one or two dominant papers). From load 6 on searches may be given up: nothing
becomes wrong, but with many ties millions of tuples can then take minutes. The printed graph takes O(T^2) in every case.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.lazy import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from peerveil.release.public import PublicScores

    Floats = NDArray[np.float64]
    Longs = NDArray[np.int64]
    Ints = NDArray[np.int32]
    Flags = NDArray[np.bool_]

MOST_TUPLES = 20_000_000
"""More tuples are refused: they would not fit into 2 GB."""
_EQUAL = 1e-12  # relative to the largest absolute weight
_PATIENCE = 4_000  # steps in one search for a blocking set: 1 + 5 + ... + 5^5 = 3,906 make it complete up to load 5
_LITTLE_PATIENCE = 400  # for larger loads, where complete searches take longer than they save
_KERNELS = 16  # remembered for each length


def chain_bounds(public: PublicScores) -> tuple[Floats, Floats]:
    """Lower and upper bounds on the sorted means, from public data alone.

    Every valid assignment's sorted means are between them, up to rounding in the last place.

    Examples
    --------
    >>> from peerveil.release import PublicScores
    >>> lower, upper = chain_bounds(PublicScores([[0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 2, 3]], loads=[3, 3, 3, 3]))
    >>> (3 * lower).tolist(), (3 * upper).tolist()  # Appendix B
    ([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0])
    """
    total = predicted_tuples(public)
    if total > MOST_TUPLES:
        shown = f"{total:,}" if total < 10**15 else f"about 10^{math.log10(total):.0f}"
        raise BadInput("public", got=Verbatim(f"chains of {shown} tuples"), want=f"at most {MOST_TUPLES:,} tuples")
    omega = list_omega(public)
    patience = _PATIENCE if int(public.loads[-1]) <= 5 else _LITTLE_PATIENCE
    arguments = omega.tuples, omega.papers, public.sizes, public.reviewers, patience
    rising, _ = walk(omega.order, *arguments)
    falling, _ = walk(omega.order[::-1].copy(), *arguments)
    lower, _ = omega.means_at(rising)
    _, upper = omega.means_at(total - 1 - falling[::-1])
    low, high = float(public.values.min()), float(public.values.max())  # a mean is between, even after rounding
    return np.clip(lower, low, high), np.clip(upper, low, high)


def predicted_tuples(public: PublicScores) -> int:
    """How many tuples Omega has: the cost of :func:`chain_bounds`, found without listing them.

    The number of tuples of l entries is the coefficient of x^l in the product of (1 + k_p x) over the papers.

    >>> from peerveil.release import PublicScores
    >>> predicted_tuples(PublicScores([[0.0, 1.0]] * 50, loads=[2] * 50))
    4900
    """
    loads = np.unique(public.loads).tolist()
    longest = loads[-1]
    ways = [1] + [0] * longest
    for size, papers in zip(*np.unique(public.sizes, return_counts=True), strict=True):
        k, c = int(size), int(papers)
        factor = [1]  # of (1 + k x)^c
        for j in range(1, min(longest, c) + 1):
            factor.append(factor[-1] * k * (c - j + 1) // j)
        ways = [sum(ways[d - j] * factor[j] for j in range(min(d + 1, len(factor)))) for d in range(longest + 1)]
    return sum(ways[load] for load in loads)


class Omega(NamedTuple):
    """All tuples, and their order."""

    papers: Longs
    """The paper of each entry, in the order of the entries' numbers."""
    tuples: Ints
    """A row of ascending entry numbers for each tuple, filled up with -1."""
    order: Longs
    """The rows of ``tuples`` by mean, equal ones by the tie rule."""
    means: Floats
    """All means, ascending."""
    starts: Longs
    """Where in ``means`` each group of equal means starts."""

    def means_at(self, places: Longs) -> tuple[Floats, Floats]:
        """The least and the largest mean that counts as equal to the one at each place of ``order``."""
        group = np.searchsorted(self.starts, places, side="right")
        return self.means[self.starts[group - 1]], self.means[np.append(self.starts, self.means.size)[group] - 1]


def list_omega(public: PublicScores) -> Omega:
    """List and sort all tuples."""
    tolerance = _EQUAL * float(np.abs(public.values).max())
    sizes = np.abs(public.values)
    rising = np.argsort(sizes)
    sizes[rising] = np.cumsum(np.diff(sizes[rising], prepend=0.0) > tolerance)  # ranks: equal but for rounding is equal
    numbers = np.argsort(-sizes, kind="stable")
    papers = np.repeat(np.arange(public.papers), public.sizes)[numbers]
    wanted = np.zeros(int(public.loads[-1]) + 1, dtype=np.bool_)
    wanted[public.loads] = True
    total = predicted_tuples(public)
    tuples, means = _list_tuples(public.values[numbers], papers, public.papers, wanted, total)
    order = np.argsort(means)
    means = means[order]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(means) > tolerance) + 1])
    if starts.size < total:  # equals into the order of their listing
        group = total * np.repeat(np.arange(starts.size), np.diff(starts, append=total))
        order = np.sort(group + order) - group
    return Omega(papers, tuples, order, means, starts)


@njit(cache=True, nogil=True)
def _list_tuples(weights: Floats, papers: Longs, paper_count: int, wanted: Flags, total: int) -> tuple[Ints, Floats]:
    """All tuples of the wanted sizes in lexicographic order, and their means."""
    entries, width = weights.size, wanted.size - 1
    tuples = np.full((total, width), -1, np.int32)
    means = np.empty(total)
    aim = np.zeros(width, np.int64)  # the next wanted size above d
    for d in range(width - 1, -1, -1):
        aim[d] = d + 1 if wanted[d + 1] else aim[d + 1]
    last = np.zeros(paper_count, np.int64)
    for e in range(entries):
        last[papers[e]] = e
    ahead = np.zeros(entries + 1, np.int64)  # papers with an entry from e on
    for p in range(paper_count):
        ahead[last[p]] += 1
    for e in range(entries - 1, -1, -1):
        ahead[e] += ahead[e + 1]
    chosen = np.zeros(width, np.int64)
    used = np.zeros(paper_count, np.bool_)
    sums = np.zeros(width + 1)
    filled, depth, e = 0, 0, 0
    while True:
        possible = depth < width
        if possible:
            while e < entries and used[papers[e]]:
                e += 1
            free = ahead[e]  # unused papers that can still follow; else dead ends could be exponentially many
            for d in range(depth):
                if last[papers[chosen[d]]] >= e:
                    free -= 1
            possible = depth + free >= aim[depth]
        if possible:
            chosen[depth] = e
            used[papers[e]] = True
            sums[depth + 1] = sums[depth] + weights[e]
            depth += 1
            if wanted[depth]:
                for d in range(depth):
                    tuples[filled, d] = chosen[d]
                means[filled] = sums[depth] / depth
                filled += 1
        elif depth == 0:
            return tuples, means
        else:
            depth -= 1
            e = chosen[depth]
            used[papers[e]] = False
        e += 1


@njit(cache=True, nogil=True)
def walk(
    order: Longs, tuples: Ints, papers: Longs, sizes: Longs, reviewers: int, patience: int = _PATIENCE
) -> tuple[Longs, Ints]:
    """Walk through the tuples in the given order: Algorithm 1, and in the reverse order Algorithm 2.

    Returns the places in ``order`` where the walk stops for i = 1, ..., n, and for each place that it came to the length
    of the longest chain of earlier tuples, n standing for all lengths from n on.
    """
    total, width = tuples.shape
    highest = reviewers - 1  # these are kept together with chains of length n: both make the next one n
    first = np.full(highest + 1, -1, np.int32)  # of the kept tuples with chains of one length
    after = np.full(total, -1, np.int32)  # the next of these
    common = np.full((highest + 1, width), -1, np.int32)  # the entries that all of them have
    full = np.zeros(highest + 1, np.bool_)  # whatever tuple comes, one of these is disjoint from it
    hard = np.zeros(highest + 1, np.bool_)  # too many to search: keep all
    kernels = np.full((highest + 1, _KERNELS if width > 1 else 1, width), -1, np.int32)
    newest = np.zeros(highest + 1, np.int8)
    held = np.full(papers.size, -1, np.int64)  # the place of the last tuple that held the entry, which marks it
    met = np.zeros(papers.size, np.bool_)
    marks = np.zeros(papers.size + 1, np.int64)
    unmarked = sizes.copy()
    having = np.zeros(unmarked.max() + 1, np.int64)  # how many papers have so many unmarked entries
    for size in sizes:
        having[size] += 1
    most = having.size - 1
    stops = np.full(reviewers, -1, np.int64)
    lengths = np.zeros(total, np.int32)
    top, i = 0, 1
    for place in range(total):
        v = order[place]
        for c in range(width):  # mark
            e = tuples[v, c]
            if e < 0:
                break
            if held[e] < 0:
                having[unmarked[papers[e]]] -= 1
                unmarked[papers[e]] -= 1
                having[unmarked[papers[e]]] += 1
            held[e] = place
        while most > 0 and having[most] == 0:
            most -= 1
        level = top
        while level > 0 and not full[level]:
            if not _holds_any(common[level], held, place):
                u = first[level]
                while u >= 0 and _holds_any(tuples[u], held, place):
                    u = after[u]
                if u >= 0:
                    break
            level -= 1
        lengths[place] = level + 1
        if lengths[place] >= i and most <= reviewers - i:  # C1 and C2
            stops[i - 1] = place
            i += 1
            if i > reviewers:
                break
        level = min(level + 1, highest)
        if level == 0 or full[level] or _covered(kernels[level], held, place):
            continue
        top = max(top, level)
        outcome = 1
        if not hard[level]:
            outcome = _blocking_set(tuples, first[level], after, held, place, met, marks, patience)
        if outcome == 0:
            kernel = kernels[level, newest[level]]
            newest[level] = (newest[level] + 1) % kernels.shape[1]
            _shrink(kernel, tuples, v, first[level], after, held, place, met, marks, patience)
            full[level] = kernel[0] < 0
        else:
            for c in range(width):
                e = tuples[v, c] if first[level] < 0 else common[level, c]
                common[level, c] = e if e >= 0 and held[e] == place else -1
            after[v] = first[level]
            first[level] = v
            hard[level] |= outcome == 2
    return stops, lengths


@njit(cache=True, nogil=True)
def _covered(kernels: Ints, held: Longs, place: int) -> bool:
    """Whether all entries of one of the kernels are held at this place."""
    for k in range(kernels.shape[0]):
        inside = kernels[k, 0] >= 0
        for c in range(kernels.shape[1]):
            e = kernels[k, c]
            if e < 0 or not inside:
                break
            inside = held[e] == place
        if inside:
            return True
    return False


@njit(cache=True, nogil=True)
def _shrink(
    part: Ints, tuples: Ints, v: int, u: int, after: Ints, held: Longs, place: int, met: Flags, mark: Longs, steps: int
) -> None:
    """Find a kernel, a part of v that no blocking set avoids, so that every tuple with that part can be dropped too."""
    part[:] = -1
    size, width = 0, tuples.shape[1]
    for c in range(width - 1, -1, -1):
        e = tuples[v, c]
        if e >= 0:
            held[e] = place - 1  # still marked, but not held now
            if _blocking_set(tuples, u, after, held, place, met, mark, steps) != 0:
                held[e] = place
                part[size] = e
                size += 1


@njit(cache=True, nogil=True)
def _holds_any(entries: Ints, held: Longs, place: int) -> bool:
    for e in entries:  # noqa: SIM110 - the loop compiles faster
        if e >= 0 and held[e] == place:
            return True
    return False


@njit(cache=True, nogil=True)
def _blocking_set(
    tuples: Ints, first: int, after: Ints, held: Longs, place: int, met: Flags, mark: Longs, patience: int
) -> int:
    """Whether a set of at most l entries meets all tuples of the list from the first on, using none held at this place.

    0: no; 1: yes; 2: undecided after so many steps. Try each entry of a tuple not met yet, then each of another, and so
    on; but if more tuples without a common entry are left than entries may be chosen, there is no need to try.
    ``seen[-1]`` counts the steps of all searches, so that nothing needs to be cleared.
    """
    width = tuples.shape[1]
    branch = np.empty(width + 1, np.int64)  # the tuple to meet at each depth
    column = np.zeros(width + 1, np.int64)  # the next of its entries to try; 0: the tuple is to be found first
    depth, answer = 0, 0
    while depth >= 0:
        if column[depth] == 0:
            patience -= 1
            mark[-1] += 1
            apart, fewest, branch[depth] = 0, width + 1, -1
            u = first
            while u >= 0 and apart <= width - depth and fewest > 0:
                if not _meets(tuples, u, met):
                    usable, common = 0, False
                    for c in range(width):
                        e = tuples[u, c]
                        if e >= 0 and held[e] != place:
                            usable += 1
                            common |= mark[e] == mark[-1]
                    if not common:
                        apart += 1
                        for c in range(width):
                            if tuples[u, c] >= 0:
                                mark[tuples[u, c]] = mark[-1]
                    if usable < fewest:
                        fewest, branch[depth] = usable, u
                u = after[u]
            if branch[depth] < 0 or patience < 0:
                answer = 1 if branch[depth] < 0 else 2
                break
            if apart > width - depth:
                column[depth] = width
        c = column[depth]
        while c < width and (tuples[branch[depth], c] < 0 or held[tuples[branch[depth], c]] == place):
            c += 1
        if c < width:
            met[tuples[branch[depth], c]] = True
            column[depth] = c + 1
            depth += 1
            column[depth] = 0
        else:
            depth -= 1
            if depth >= 0:
                met[tuples[branch[depth], column[depth] - 1]] = False
    for d in range(depth):  # leave no entry behind
        met[tuples[branch[d], column[d] - 1]] = False
    return answer


@njit(cache=True, nogil=True)
def _meets(tuples: Ints, u: int, met: Flags) -> bool:
    for c in range(tuples.shape[1]):
        e = tuples[u, c]
        if e < 0:
            return False
        if met[e]:
            return True
    return False
