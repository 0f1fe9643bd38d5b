"""What can be decided, and how likely a paper is on the wrong side: of a line, or of a quota."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations, compress, product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from peerveil.calibration.beliefs import Belief, NormalBelief, below, on_grid
from peerveil.calibration.functions import quality_prior
from peerveil.core.arrays import Floats, Ints
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import number, whole
from peerveil.core.lazy import ndtri

Sets: TypeAlias = tuple[tuple[tuple[int, ...], ...], tuple[int, ...], Ints]

_BLOCK = 256  # candidates handled at once
_MOST_DECISIONS = 20_000


@dataclass(frozen=True, slots=True)
class Threshold:
    """Accept the papers whose quality is above a line: however many they are, or exactly ``places`` of a panel.

    >>> round(Threshold.share(0.25).quality, 4)  # the best quarter, if qualities are N(0, 1)
    0.6745
    """

    quality: float
    places: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "quality", number(self.quality, "quality"))
        if self.places is not None:
            object.__setattr__(self, "places", whole(self.places, "places", 0))

    @classmethod
    def share(cls, accepted: float, prior: tuple[float, float] = (0.0, 1.0)) -> Threshold:
        """The line that this share of all papers is expected to pass: public, since it uses the prior alone."""
        share = number(accepted, "accepted", 1e-9, 1 - 1e-9, want="a share between 0 and 1")
        mean, deviation = quality_prior(prior)
        return cls(mean - deviation * float(ndtri(share)))


def sets_by_line(wrong: Floats, possible: NDArray[np.bool_], places: int | None) -> Sets:
    """Decisions, pivotal papers and members, for a line.

    ``wrong`` holds, for rejecting and accepting, how wrong that is for every candidate and paper; v is the difference,
    what is gained by accepting. Decisions are left out only where this provably costs nothing:

    - **Without places**, a paper whose v has the same sign under every possible candidate stands on that side.
    - **With places**, paper i *dominates* j if v_i >= v_j under every possible candidate (the first of two equal papers
      does). Only sets that hold every paper dominating one of their own are kept. The side of the line does not matter
      here: a paper that is above it for certain may still have to give its place to another.

    *Proof.* Map a decision that is left out to a better one: put every settled paper on its side, or exchange a
    dominated paper for one that dominates it and was left out (dominance is a partial order, so this ends, in a set that
    is kept). The map never looks at the assignment, so a table followed by it is post-processing: the adversary errs at
    least as much. Errors are sums over papers, so under every candidate the conference errs at most as much. Hence some
    optimal table uses only what is kept, for every demand.
    """
    gain = (wrong[0] - wrong[1])[possible]
    papers = gain.shape[1]
    if places is None:
        yes, no = (gain > 0).any(axis=0), (gain < 0).any(axis=0)
        settled, free = np.flatnonzero(yes & ~no).tolist(), np.flatnonzero(yes & no).tolist()
        if 2 ** len(free) > _MOST_DECISIONS:
            raise BadInput("scores", got=Verbatim(f"{len(free)} papers near the line"), want="at most 14 in a panel")
        chosen = [tuple(compress(free, row)) for row in product((0, 1), repeat=len(free))]
        return _members([(*settled, *one) for one in chosen], papers)
    places = whole(places, "places", 0, papers)
    above = np.array([(gain[:, [i]] >= gain).all(axis=0) for i in range(papers)])  # i dominates j
    above &= ~(above.T & np.tri(papers, dtype=np.bool_))
    settled = np.flatnonzero(above.sum(axis=1) >= papers - places).tolist()
    free = np.flatnonzero((above.sum(axis=1) < papers - places) & (above.sum(axis=0) < places)).tolist()
    sets, _, inside = _members([(*settled, *one) for one in _subsets(free, places - len(settled))], papers)
    undominated = [not above[np.ix_(row == 0, row == 1)].any() for row in inside]
    return _members(list(compress(sets, undominated)), papers)


def sets_by_quota(papers: int, places: int) -> Sets:
    """Decisions, pivotal papers and members, for a number of places."""
    return _members(_subsets(list(range(papers)), places), papers)


def _subsets(free: list[int], places: int) -> list[tuple[int, ...]]:
    if math.comb(len(free), places) > _MOST_DECISIONS:
        raise BadInput("accept", got=places, want=f"a quota with at most {_MOST_DECISIONS:,} possible decisions")
    return list(combinations(free, places))


def _members(decisions: list[tuple[int, ...]], papers: int) -> Sets:
    """Decisions in order, papers that some of them accept and others do not, and who is in which."""
    inside = np.zeros((len(decisions), papers), dtype=np.int64)
    for row, accepted in enumerate(decisions):
        inside[row, list(accepted)] = 1
    pivotal = tuple(np.flatnonzero(np.ptp(inside, axis=0)).tolist())
    return tuple(tuple(np.flatnonzero(row).tolist()) for row in inside), pivotal, inside


def wrong_sides(beliefs: list[list[Belief]], which: Ints, line: float) -> Floats:
    """How wrong rejecting (first) and accepting (second) is, for every candidate and paper."""
    wrong = np.empty((2, *which.shape))
    for paper, known in enumerate(beliefs):
        wrong[:, :, paper] = np.array([one.sides(line)[::-1] for one in known])[which[:, paper]].T
    return wrong


def quota_errors(beliefs: list[list[Belief]], which: Ints, sets: Ints, noise: float) -> Floats:
    """The expected share of places that should have gone to another paper, for every candidate and decision."""
    places = sets.shape[1]
    if noise == 0:
        return _known_errors(beliefs, which, sets)
    if len(beliefs) == 2 and places == 1:  # in closed form
        pairs, index = np.unique(which, axis=0, return_inverse=True)
        return np.array([below(beliefs[0][i], beliefs[1][j]) for i, j in pairs])[index.ravel()]
    return np.asarray(1.0 - _top_probabilities(beliefs, which, places)[:, sets].sum(axis=2) / places, dtype=np.float64)


def _known_errors(beliefs: list[list[Belief]], which: Ints, sets: Ints) -> Floats:
    """Errors when qualities are known: papers that tie for the last place are equally right."""
    quality = np.column_stack(
        [np.array([one.mean for one in known])[column] for known, column in zip(beliefs, which.T, strict=True)]
    )
    places = sets.shape[1]
    last = np.sort(quality, axis=1)[:, -places][:, None]
    above, level = quality > last, quality == last
    right = above[:, sets].sum(axis=2) + np.minimum(level[:, sets].sum(axis=2), places - above.sum(axis=1)[:, None])
    return np.where(np.isnan(quality).any(axis=1)[:, None], 0.0, 1.0 - right / places)


def _top_probabilities(beliefs: list[list[Belief]], which: Ints, places: int) -> Floats:
    """P[paper is among the best ``places``] for every candidate and paper.

    Given paper i's quality x, the number of better papers is a sum of independent coins with chances 1 - F_k(x): its
    distribution by convolution, truncated at ``places``, at all nodes and candidates of a block together.
    """
    flat = [one for known in beliefs for one in known]
    usable = [one if math.isfinite(one.log_evidence) else NormalBelief(0.0, 1.0, -math.inf) for one in flat]
    node_weights, density, cumulative = on_grid(usable)
    rows = which + np.cumsum([0, *(len(known) for known in beliefs[:-1])])
    top = np.empty(which.shape)
    for start in range(0, len(which), _BLOCK):
        block = rows[start : start + _BLOCK]
        under = cumulative[block]  # candidate, paper, node
        for paper in range(len(beliefs)):
            fewer = np.zeros((places, len(block), cumulative.shape[1]))
            fewer[0] = 1.0
            for worse in np.delete(under, paper, axis=1).transpose(1, 0, 2):
                for better in range(places - 1, 0, -1):
                    fewer[better] = fewer[better] * worse + fewer[better - 1] * (1.0 - worse)
                fewer[0] *= worse
            top[start : start + _BLOCK, paper] = (fewer.sum(axis=0) * density[block[:, paper]]) @ node_weights
    return top.clip(0.0, 1.0)
