"""What noisy counts say about the sorted means: draws from a posterior under the public family.

Privacy does not depend on anything here: it is post-processing of the published counts and of public data. The intervals
of counts that need no family are those of :meth:`peerveil.core.randomness.MaxNormNoise.half_width`.

**The model.** A *part* is a shape of leniency, a strength, and how far the truth may be off the family. Given the
part, the counts N are normal with the simulated mean m and covariance C of the family (the luck of the assignment),
plus n^2 / (a + 1) times the covariance of a Brownian bridge at m / n where the truth may be off it, as if the
family's shape were worth a reviewers. The published counts are y = N + z with the law of the noise known.

**Sampling.** Given its radius r the noise is uniform on a cube, of variance r(r + 1)/3 in each coordinate. With
normal noise of that variance, averaged over the radius, the posterior of the part and of N is a mixture of normals:
drawn exactly. Annealed importance sampling (Neal, 2001) then leads to the exact likelihood exp(-epsilon max abs(y -
N)), with elliptical slice sampling (Murray, Adams and MacKay, 2010) as the move within a part.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from peerveil.core.arrays import Floats, Ints
from peerveil.core.lazy import isotonic_regression, logsumexp, njit
from peerveil.core.randomness import MaxNormNoise
from peerveil.release.family import HEAVY_TAILS, SHAPES, STRENGTHS, Family, counts_at

_SEED: Final = 1999  # public: equal counts give equal estimates
_FINER: Final = 4  # strengths between two simulated ones
_WORTH: Final = (np.inf, 30_000.0, 3_000.0, 300.0, 60.0, 15.0)  # how many reviewers the family's shape is worth
_PARTICLES: Final = 600
_STEPS: Final = 8  # of the annealing
_NODES: Final = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.97, 0.99, 0.999, 1.0)  # quantiles between which radii are pooled
_BASES: Final = 2_000_000  # reviews simulated for the curves of one shape and strength
_TAIL: Final = 60  # reviewers beyond the outermost thresholds at epsilon 1: several times the noise
_LARGE: Final = 5_000  # reviewers, from which the luck between thresholds is most of the error
_STORED_RANKS: Final = 2_000  # bands are computed at so many ranks, and interpolated


class Prior(NamedTuple):
    """What is believed before the counts are seen.

    ``chance`` is the probability that reviewers do not differ at all; ``other_shapes`` the weight of each shape but
    the normal one, relative to it; ``small`` the share of the rest that prefers small strengths.
    """

    chance: float
    other_shapes: float
    small: float


def point_prior(reviewers: int, epsilon: float) -> Prior:
    """For the curve: cautious where counts say little, to be hardly worse than public data if reviewers do not differ."""
    return Prior(1 - 0.45 * min(1.0, reviewers * epsilon / 90), 1 / 30, 0.5)


BAND_PRIOR: Final = Prior(0.1, 2 / 3, 0.0)
"""For intervals: nearly flat, with all shapes."""


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws from the posterior: the part of each, and its counts."""

    shape: Ints  # index of SHAPES; -1 for chance
    strength: Floats
    counts: Floats


class CountModel:
    """The posterior of the counts of one group of reviewers, for noise that may cover other groups' counts too."""

    def __init__(self, family: Family, thresholds: Floats, noise: MaxNormNoise) -> None:
        self.family, self.thresholds, self.noise = family, thresholds, noise
        self._nodes, self._node_variance = _pooled_radii(noise.radii)
        self._worth = [worth for worth in _WORTH if worth <= max(300, 5 * family.size) or np.isinf(worth)]
        shapes, strengths, worth, means, covariances = zip(*self._parts(), strict=True)
        self.shape, self.strength, self.worth = np.array(shapes), np.array(strengths), np.array(worth)
        self.mean = np.array(means)
        values, self._axes = np.linalg.eigh(np.array(covariances))
        self._variance = np.maximum(values, 0.0)

    def _parts(self) -> Any:
        """Shape, strength, worth, mean and covariance of every part; strengths between simulated ones are interpolated."""
        chance = np.array([counts_at(row, self.thresholds) for row in self.family.by_chance])
        start = self._moments(chance)
        yield from self._bent(-1, 0.0, start)
        simulated = self.family.counts(self.thresholds)
        for index, shape in enumerate(SHAPES):
            before, low = start, 0.0
            for high in STRENGTHS:
                after = self._moments(simulated[shape, high])
                for step in range(1, _FINER + 1):
                    share = step / _FINER
                    moments = tuple((1 - share) * a + share * b for a, b in zip(before, after, strict=True))
                    yield from self._bent(index, low + share * (high - low), moments)
                before, low = after, high

    def _moments(self, counts: Floats) -> tuple[Floats, Floats]:
        """Mean and covariance of simulated counts, the latter shrunken towards that of a Brownian bridge."""
        mean, draws = counts.mean(axis=0), len(counts)
        covariance = np.atleast_2d(np.cov(counts, rowvar=False))
        bridge = self._bridge(mean)
        share = self.thresholds.size / (self.thresholds.size + draws)
        pooled = (1 - share) * covariance + share * np.trace(covariance) / max(np.trace(bridge), 1e-12) * bridge
        return mean, pooled * (1 + 1 / draws)

    def _bridge(self, mean: Floats) -> Floats:
        share = np.clip(mean / self.family.size, 1e-4, 1 - 1e-4)
        return np.asarray(np.minimum.outer(share, share) - np.outer(share, share))

    def _bent(self, shape: int, strength: float, moments: Any) -> Any:
        mean, covariance = moments
        for worth in self._worth:
            off = self.family.size**2 / (worth + 1) * self._bridge(mean)
            yield shape, strength, worth, mean, covariance + off

    def log_prior(self, prior: Prior) -> Floats:
        """The logarithm of each part's prior probability."""
        chance, plain = self.shape < 0, np.isinf(self.worth)
        rest = np.where(self.shape > 0, prior.other_shapes, 1.0)
        for some, share in (
            (chance & plain, 0.0),
            (chance & ~plain, 0.2),
            (~chance & plain, 0.5),
            (~chance & ~plain, 0.3),
        ):
            rest[some] *= share / rest[some].sum()
        small = rest * np.exp(-self.strength / 0.12)
        rest = (1 - prior.small) * rest + prior.small * small / small.sum()
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.where(chance & plain, prior.chance, (1 - prior.chance) * rest)))

    def sample(self, counts: Floats, prior: Prior, size: int = _PARTICLES, *, steps: int = _STEPS) -> Draws:
        """Draws from the posterior given the published counts; without steps, as if the noise were normal given its radius."""
        rng = np.random.default_rng(_SEED)
        part, current = self._normal_posterior(counts, prior, size, rng)
        weight, before = np.zeros(size), 0.0
        for share in np.linspace(0, 1, steps + 1)[1:]:
            normal, exact = self._likelihoods(counts, current)
            weight += (share - before) * (exact - normal)
            current = self._move(counts, part, current, share, rng)
            before = share
        chosen = rng.choice(size, size=size, p=np.exp(weight - logsumexp(weight)))
        ordered = np.array([isotonic_regression(row).x for row in current[chosen]])
        return Draws(self.shape[part[chosen]], self.strength[part[chosen]], np.clip(ordered, 0, self.family.size))

    def _normal_posterior(
        self, counts: Floats, prior: Prior, size: int, rng: np.random.Generator
    ) -> tuple[Ints, Floats]:
        """Parts and counts drawn as if the noise were normal given its radius."""
        away = np.einsum("pji,pj->pi", self._axes, counts - self.mean)
        total = self._variance[:, None, :] + self._node_variance[:, None] + 1e-9
        evidence = -0.5 * (away[:, None, :] ** 2 / total + np.log(total)).sum(axis=2) + np.log(self._nodes)
        evidence += self.log_prior(prior)[:, None]
        mass = np.exp(evidence - evidence.max()).ravel()
        part, node = np.divmod(rng.choice(mass.size, size=size, p=mass / mass.sum()), self._nodes.size)
        gain = self._variance[part] / total[part, node]
        spread = np.sqrt(gain * self._node_variance[node][:, None])
        drawn = gain * away[part] + spread * rng.standard_normal((size, counts.size))
        return part, self.mean[part] + np.einsum("sij,sj->si", self._axes[part], drawn)

    def _likelihoods(self, counts: Floats, candidates: Floats) -> tuple[Floats, Floats]:
        """Log-likelihoods of candidate counts: with normal noise, and with the noise that was added."""
        noise = np.abs(counts - candidates)
        squares, variance = (noise**2).sum(axis=-1), np.maximum(self._node_variance, 1e-9)
        normal = np.log(self._nodes) - 0.5 * (counts.size * np.log(variance) + squares[..., None] / variance)
        return logsumexp(normal, axis=-1), self._exact(noise.max(axis=-1))

    @cached_property
    def _exact_table(self) -> Floats:
        """Ln P(noise of this group) by the size of its largest entry, up to a constant: radii below it are impossible."""
        radius = np.arange(self.noise.radii.size)
        weight = np.log(np.maximum(self.noise.radii, 1e-300)) - self.thresholds.size * np.log(2 * radius + 1)
        return np.asarray(np.logaddexp.accumulate(weight[::-1])[::-1])

    def _exact(self, largest: Floats) -> Floats:
        table = self._exact_table
        inside = np.interp(largest, np.arange(table.size), table)
        return np.asarray(inside - float(self.noise.epsilon) * np.maximum(largest - (table.size - 1), 0.0))

    def _move(self, counts: Floats, part: Ints, current: Floats, share: float, rng: np.random.Generator) -> Floats:
        """One elliptical slice step for every particle, under the geometric mean of both likelihoods."""

        def likelihood(candidates: Floats) -> Floats:
            normal, exact = self._likelihoods(counts, candidates)
            return np.asarray((1 - share) * normal + share * exact)

        center = self.mean[part]
        other = rng.standard_normal(current.shape) * np.sqrt(self._variance[part])
        other = np.einsum("sij,sj->si", self._axes[part], other)
        here = current - center
        floor = likelihood(current) + np.log(rng.random(len(current)))
        angle = rng.uniform(0, 2 * np.pi, len(current))
        low, high = angle - 2 * np.pi, angle.copy()
        moved, left = current.copy(), np.arange(len(current))
        for _ in range(60):
            turn = angle[left][:, None]
            proposal = center[left] + here[left] * np.cos(turn) + other[left] * np.sin(turn)
            accepted = likelihood(proposal) > floor[left]
            moved[left[accepted]] = proposal[accepted]
            left = left[~accepted]
            if not left.size:
                break
            low[left] = np.where(angle[left] < 0, angle[left], low[left])
            high[left] = np.where(angle[left] < 0, high[left], angle[left])
            angle[left] = rng.uniform(low[left], high[left])
        return moved

    def curves(self, draws: Draws, ranks: Ints) -> tuple[Floats, Floats]:
        """The mean of the drawn curves at every rank, and all of them at some ranks.

        A drawn curve is a simulated vector of sorted means of the same shape and strength, its ranks moved so that as
        many are below each threshold as the draw says.
        """
        n, family = self.family.size, self.family
        most = int(np.clip(_BASES // family.public.values.size, 1, 25))
        total, some = np.zeros(n), np.empty((len(draws.strength), ranks.size))
        keys = np.column_stack([draws.shape, np.round(draws.strength, 6)])
        row = 0
        for shape, strength in np.unique(keys, axis=0):
            members = np.flatnonzero((keys == (shape, strength)).all(axis=1))
            bases = len(family.by_chance) if shape < 0 and n > _LARGE else most  # those by chance are there anyway
            for base_index, group in enumerate(np.array_split(members, min(bases, members.size))):
                if shape < 0:
                    base = family.by_chance[base_index % len(family.by_chance)]
                else:
                    base = family.means(SHAPES[int(shape)], float(strength), base_index)
                own = counts_at(base, self.thresholds)
                for member in group:
                    curve = _moved(base, own, draws.counts[member])
                    total += curve
                    some[row] = curve[ranks]
                    row += 1
        return total / len(draws.strength), some


@njit(cache=True, nogil=True)
def _moved(base: Any, own: Any, wanted: Any) -> Any:
    """A sorted vector whose ranks are moved so that ``wanted`` instead of ``own`` entries are below the thresholds."""
    n, knots = base.size, own.size + 2
    old, new = np.zeros(knots), np.zeros(knots)
    for k in range(own.size):
        old[k + 1] = max(own[k], old[k] + 1e-9)
        new[k + 1] = max(wanted[k], new[k] + 1e-9)
    old[-1], new[-1] = max(float(n), old[-2] + 1e-9), max(float(n), new[-2] + 1e-9)
    out = np.empty(n)
    k = 1
    for i in range(n):
        rank = i + 0.5
        while k < knots - 1 and rank > new[k]:
            k += 1
        place = old[k - 1] + (rank - new[k - 1]) / (new[k] - new[k - 1]) * (old[k] - old[k - 1]) - 0.5
        place = min(max(place, 0.0), n - 1.0)
        left = int(place)
        right = min(left + 1, n - 1)
        out[i] = base[left] + (place - left) * (base[right] - base[left])
    return out


def _pooled_radii(radii: Floats) -> tuple[Floats, Floats]:
    """A few typical radii: their probabilities, and the variance of noise given each."""
    radius = np.arange(radii.size)
    edges = np.searchsorted(np.cumsum(radii), _NODES[1:-1])
    parts = [part for part in np.split(radius, edges) if part.size and radii[part].sum() > 0]
    mass = np.array([radii[part].sum() for part in parts])
    variance = np.array([radii[part] @ (part * (part + 1) / 3) for part in parts]) / mass
    return mass, variance


@dataclass(frozen=True, eq=False)
class Estimate:
    """What the counts say about the sorted means.

    Attributes
    ----------
    means : array
        The estimated sorted means.
    lower, upper : array
        Pointwise intervals for each of them; they assume the family.
    strictness_sd : float
        The standard deviation of reviewers' strictness, in the unit of the weight.
    strictness_interval : tuple of float
        Its interval, if strictness is roughly normal.
    """

    means: Floats
    lower: Floats
    upper: Floats
    strictness_sd: float
    strictness_interval: tuple[float, float]


def with_normal_tails(draws: Draws) -> Draws:
    """Draws for the curve: no count shows what is beyond the outermost thresholds, so it takes normal tails there.

    Heavy tails would err far more if strictness is normal than normal ones if it is not. Intervals allow for both.
    """
    return replace(draws, shape=np.where(draws.shape == HEAVY_TAILS, 0, draws.shape))


def estimate(model: CountModel, counts: Floats, *, level: float) -> Estimate:
    """The posterior mean of the sorted means, with intervals."""
    n, tail = model.family.size, (1 - level) / 2
    ranks = np.unique(np.linspace(0, n - 1, min(n, _STORED_RANKS)).round().astype(np.int64))
    epsilon = float(model.noise.epsilon)
    means, _ = model.curves(with_normal_tails(model.sample(counts, point_prior(n, epsilon))), ranks[:1])
    wide = model.sample(counts, BAND_PRIOR)
    _, curves = model.curves(wide, ranks)
    low, high = np.quantile(curves, [tail, 1 - tail], axis=0)
    every = np.arange(n)
    sd, *ends = strictness_of(wide, model.family.weight_sd, level)
    return Estimate(
        np.maximum.accumulate(means),
        np.interp(every, ranks, low),
        np.interp(every, ranks, high),
        sd,
        (ends[0], ends[1]),
    )


def strictness_of(draws: Draws, weight_sd: float, level: float) -> tuple[float, float, float]:
    """The median and an interval of the standard deviation of strictness; strengths are a grid, so they are spread out."""
    half_step = STRENGTHS[0] / _FINER / 2
    jitter = np.random.default_rng(_SEED).uniform(-half_step, half_step, draws.strength.size)
    spread = np.where(draws.shape < 0, 0.0, np.clip(draws.strength + jitter, 0, 1)) * weight_sd
    middle, low, high = np.quantile(spread, [0.5, (1 - level) / 2, (1 + level) / 2])
    return float(middle), float(low), float(high)


# ---- thresholds ------------------------------------------------------------------------------------------------------


def default_thresholds(family: Family, epsilon: float, count: int | None = None) -> Floats:
    """Where to count, from public data alone: closer where means are dense.

    About 0.7 (n epsilon)^(1/3) thresholds, an even number: one in the middle would say nothing about how far reviewers differ.
    Where few means are possible (few grades, equal loads), thresholds are halfway between two of them.
    """
    n = family.size
    wanted = 2 * int(np.clip(round(0.34 * (n * epsilon) ** (1 / 3)), 2, 10)) if count is None else count
    possible = np.unique(np.round(family.by_chance[:8], 9))
    center = family.expectation.mean()
    wider = [center + scale * (family.expectation - center) for scale in (1, 1, 1, 1, 1.3, 1.7, 2.3)]
    pooled = np.sort(np.clip(np.concatenate(wider), family.public.values.min(), family.public.values.max()))
    if pooled[0] == pooled[-1]:
        return pooled[:1]
    grid = np.linspace(pooled[0], pooled[-1], 400)
    density = np.convolve(np.diff(np.searchsorted(pooled, grid) / pooled.size), np.ones(15) / 15, "same")
    # measured: where many reviewers share each possible mean, the middle matters more
    power = 0.85 if n > 50 * possible.size else 0.5
    mass = np.concatenate([[0.0], np.cumsum(density**power)])
    thresholds = np.interp(np.arange(1, wanted + 1) / (wanted + 1), mass / mass[-1], grid)
    few = int(_TAIL / epsilon)
    if count is None and few < n // 100:  # the outermost say how heavy the tails are
        thresholds[[0, -1]] = family.expectation[[few, n - 1 - few]]
    if 1 < possible.size < 40 * wanted:
        halves = (possible[1:] + possible[:-1]) / 2
        thresholds = np.unique(halves[np.abs(halves[:, None] - thresholds).argmin(axis=0)])
    return np.asarray(thresholds)
