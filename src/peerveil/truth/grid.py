"""One-coin and two-coin models: posteriors of abilities on a grid, with the known channel inside."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from peerveil.core.arrays import Floats, Ints
from peerveil.core.lazy import njit
from peerveil.truth.em import CoinWeights, Counted, EMModel, ExpectedCounts, Parameters
from peerveil.truth.kernels import exponentiate
from peerveil.truth.models import STRENGTH, ClassPrior

if TYPE_CHECKING:
    from peerveil.truth.channels import Channels

BIAS: Final = 5.0  # answers that a general ability is worth for the ability in a class
_MEANS: Final = np.linspace(0.02, 0.98, 97)  # of abilities
_BETA_OF_MEAN: Final = (4.0, 2.0)
_OFFSETS: Final = np.linspace(-2.5, 2.5, 41)  # of the logit of the ability, by class, in the model of a common bias
_MAX_MEAN_STEPS: Final = 4  # that the prior mean may move in one iteration
_GENERAL_CELLS: Final = 41  # of the grid of general abilities, where there is another for the classes
_NEGLIGIBLE, _OVERLAP = -40.0, -15.0  # logarithms: of likelihoods that are left out, and when they are not
_VECTOR: Final = 16  # numbers that compiled loops take at once
_CHUNK_CELLS: Final = 4_000_000  # grid cells at once


class GridModel(EMModel):
    """One-coin and two-coin, with or without a bias that all workers share, by posteriors of abilities on a grid.

    The prior is put on the ability a, not on p(a): that is what makes strong privacy workable (docs/truth.md). In the mean-field
    approximation the posterior of an ability, given h expected correct answers of n, is proportional to
    prior(a) p(a)^h ((1 - p(a))/(k - 1))^(n - h), exactly. It is one-dimensional, so it is summed over a grid fine enough for the
    largest n. A task needs the expected logarithms of the two probabilities.

    A worker's general ability u is Beta(s m, s (1 - m)). One-coin: it is the ability in every class. Two-coin: the ability in a
    class is Beta(b u, b (1 - u)), the same b for all; large b is one-coin, and with small b a worker's ability in one class says
    little of that in another. The mean m, which all workers share, is chosen by the same lower bound (type-II likelihood), with
    Beta(4, 2) on m; s too (:mod:`peerveil.truth.choose`). A large s makes all abilities equal: private majority voting.

    Parameters
    ----------
    channel, class_prior, loads
        The channel, the shares of the classes, and the number of answers of each worker.
    strength
        How many answers the prior on a general ability is worth (s above).
    bias
        How many answers a general ability is worth for the ability in a class (b above); ``None`` is one-coin.
    shift
        Whether the logits of abilities are shifted, for everybody alike, by class.
    mean
        Where the search for the prior mean begins.
    history : [worker, 2], optional
        Correct and wrong answers of each worker in earlier work.
    cells
        Of the grid; by default fine enough for the busiest worker.
    """

    def __init__(
        self,
        channel: Channels,
        class_prior: ClassPrior,
        loads: Ints,
        strength: float = STRENGTH,
        bias: float | None = None,
        *,
        shift: bool = False,
        mean: float = 0.7,
        history: Floats | None = None,
        cells: int | None = None,
    ) -> None:
        self.channel, self.class_prior = channel, class_prior
        # workers of one channel stand together, so that each part of them has one channel
        self.order = None if channel.single is not None else np.argsort(channel.of_worker, kind="stable")
        self.history = history if history is None or self.order is None else history[self.order]
        self.strength, self.bias, self.shift = float(strength), bias, shift
        self.counted: Counted = "correct" if bias is None and not shift else "correct by class"
        self.grid = _grid(cells or int(np.clip(4 * math.sqrt(float(loads.max(initial=1))), 41, 801)))
        self.general = self.grid if bias is None else _grid(_GENERAL_CELLS)
        self.log_prior = _log_beta(_MEANS, self.strength, self.general)  # [mean, general]
        in_class = np.zeros((0, 0)) if bias is None else np.exp(_log_beta(self.general, bias, self.grid)).T
        padding = (0, 0), (0, -in_class.shape[1] % _VECTOR)  # zeros up to whole vectors
        self.in_class = np.ascontiguousarray(np.pad(in_class, padding))  # [grid, general]
        # hyperpriors, relative to their peaks: models with more of them must not pay for the fineness of our grids
        on_mean = (_BETA_OF_MEAN[0] - 1) * np.log(_MEANS) + (_BETA_OF_MEAN[1] - 1) * np.log1p(-_MEANS)
        self.on_mean = on_mean - on_mean.max()
        self.mean = int(np.abs(_MEANS - mean).argmin())
        offsets = _OFFSETS if shift else np.zeros(1)
        shifted = 1 / (1 + np.exp(-(np.log(self.grid / (1 - self.grid)) + offsets[:, None])))
        other, contrast, wrong_share = (
            part[:, None, None] for part in channel.of_levels("other", "contrast", "wrong_share")
        )
        shown = np.clip(other + contrast * shifted, 1e-300, 1 - 1e-16)
        self.log_correct, self.log_wrong = np.log(shown), np.log((1 - shown) * wrong_share)  # [level, offset, grid]
        self.on_offset = -0.5 * offsets**2
        self.offsets = np.full(channel.k, offsets.size // 2)

    def m_step(self, counts: ExpectedCounts) -> Parameters:
        """Update the prior mean, all posteriors of abilities, and the common shift."""
        workers, order = len(counts.loads), slice(None) if self.order is None else self.order
        hits = counts.by_worker.reshape(workers, -1)
        misses, columns = (counts.loads.reshape(workers, -1) - hits)[order], hits.shape[1]
        hits, offsets = hits[order], self.offsets[:columns]
        chunks = [
            (
                part,
                level,
                Answers(hits[part], misses[part], self.log_correct[level, offsets], self.log_wrong[level, offsets]),
            )
            for part, level in self._chunks(workers, columns * self.grid.size)
        ]
        mean_before = self.mean  # the prior of scores: those that are not kept are computed again below
        scores = (self._score(answers, part, mean_before) for part, _, answers in chunks)
        only_score = next(scores) if len(chunks) == 1 else None
        ratio = self._update_mean(scores if only_score is None else [only_score])
        correct, wrong, mean, square = (np.empty((workers, columns)) for _ in range(4))
        hits_on_grid, misses_on_grid = np.zeros((2, *self.log_correct.shape[:1], columns, self.grid.size))
        penalty = 0.0
        for part, level, answers in chunks:
            score = self._score(answers, part, mean_before) if only_score is None else only_score
            out = Expectations(
                correct[part], wrong[part], mean[part], square[part], hits_on_grid[level], misses_on_grid[level]
            )
            penalty += expect(answers, self.in_class, self.grid, ratio, score, self.shift, out)
            penalty -= float(score.log_scale[0])
        penalty -= float(self.on_mean[self.mean] + self.on_offset[self.offsets].sum())
        self.settled = abs(self.mean - mean_before) < _MAX_MEAN_STEPS
        if self.shift:  # the shifts under which the posteriors are likeliest: the bound cannot fall by it
            by_offset = np.einsum("log,lcg->oc", self.log_correct, hits_on_grid)
            by_offset += np.einsum("log,lcg->oc", self.log_wrong, misses_on_grid)
            likeliest = np.asarray((by_offset + self.on_offset[:, None]).argmax(axis=0))
            self.settled = self.settled and bool((likeliest == self.offsets).all())
            self.offsets = likeliest
        if self.order is not None:
            back = np.argsort(self.order)
            correct, wrong, mean, square = (part[back] for part in (correct, wrong, mean, square))
        variance = np.maximum(square - mean**2, 0)
        weights = CoinWeights(correct[:, 0], wrong[:, 0]) if columns == 1 else CoinWeights(correct, wrong)
        log_prior, prior_penalty = self.class_prior.m_step(counts.by_class)
        prior_strength = self.strength if self.bias is None else self.bias
        return Parameters(
            weights,
            log_prior,
            penalty + prior_penalty,
            abilities=mean.mean(axis=1),
            standard_errors=np.sqrt(variance.sum(axis=1)) / columns,
            details={"by_class": mean, "prior_mean": float(_MEANS[self.mean]), "prior_strength": prior_strength},
        )

    def _score(self, answers: Answers, part: slice, mean: int) -> Score:
        """Posteriors of general abilities under a prior mean (its place)."""
        workers, columns = answers.hits.shape
        near, ratios = self._means_nearby(mean)
        in_classes = columns if self.in_class.size else 0
        score = Score(
            general=np.empty((workers, self.general.size)),
            likelihood=np.empty((workers, in_classes, self.grid.size)),
            spans=np.empty((workers, in_classes, 2), dtype=np.int64),
            inside=np.empty((workers, in_classes, self.general.size)),
            log_sums=np.zeros(near.size),
            log_scale=np.zeros(1),
        )
        weigh(answers, self.in_class, self._log_history(part) + self.log_prior[mean], ratios, score)
        return score

    def _chunks(self, workers: int, width: int) -> list[tuple[slice, int]]:
        """Parts of the ordered workers that are small enough, each with the place of its channel."""
        size, sizes = max(1, _CHUNK_CELLS // width), np.array([workers])
        if self.channel.single is None:
            sizes = np.bincount(self.channel.of_worker, minlength=len(self.channel.levels))
        ends = np.cumsum(sizes)
        return [
            (slice(first, min(first + size, int(end))), level)
            for level, end in enumerate(ends)
            for first in range(int(end - sizes[level]), int(end), size)
        ]

    def _means_nearby(self, mean: int) -> tuple[Ints, Floats]:
        """Prior means to which one iteration may move from one, and the ratios of their priors to that one."""
        near = np.arange(max(0, mean - _MAX_MEAN_STEPS), min(_MEANS.size, mean + _MAX_MEAN_STEPS + 1))
        return near, np.exp(np.clip(self.log_prior[near] - self.log_prior[mean], -600, 600))

    def _update_mean(self, scores: Iterable[Score]) -> Floats:
        """Move to the prior mean nearby under which the counts are likeliest; returns the ratio of the new and old prior."""
        near, ratios = self._means_nearby(self.mean)
        value = self.on_mean[near].copy()
        for score in scores:
            value += score.log_sums
        best = int(value.argmax())
        self.mean = int(near[best])
        return np.asarray(ratios[best])

    def _log_history(self, part: slice) -> Floats:
        """The log-likelihood of earlier work, over general abilities."""
        if self.history is None:
            return np.zeros((1, self.general.size))
        correct, wrong = self.history[part].T
        return np.asarray(correct[:, None] * np.log(self.general) + wrong[:, None] * np.log1p(-self.general))


class Answers(NamedTuple):
    """Correct and wrong answers, [worker, class or one column], and logarithms of their probabilities, [column, ability]."""

    hits: Floats
    misses: Floats
    log_correct: Floats
    log_wrong: Floats


class Score(NamedTuple):
    """Posteriors of general abilities [worker, general], scaled; ``log_scale`` is the sum of logarithms of the scales.

    For two-coin also the likelihoods of abilities in each class, the first and the last that matter (``spans``), and their sums
    over these given the general ability.
    ``log_sums`` has the sums over workers of the logarithms of what the posteriors would add up to under other prior means.
    """

    general: Floats
    likelihood: Floats
    spans: Ints
    inside: Floats
    log_sums: Floats
    log_scale: Floats


class Expectations(NamedTuple):
    """By worker and column the expected logarithms of the probabilities, the mean ability and its square; and answers by ability
    [column, ability].
    """

    correct: Floats
    wrong: Floats
    mean: Floats
    square: Floats
    hits_on_grid: Floats
    misses_on_grid: Floats


@njit(cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _lower_to_zero(row: Floats) -> float:
    """Subtract the largest number of a row from all; returns it."""
    top: float = row[0]
    for g in range(1, row.size):
        top = max(top, row[g])
    for g in range(row.size):
        row[g] -= top
    return top


@njit(cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def weigh(answers: Answers, in_class: Floats, log_prior: Floats, ratios: Floats, score: Score) -> None:
    """Fill a score from the answers of each worker, under a prior of general abilities and its ``ratios`` to those nearby.

    ``log_prior`` has one row, or one per worker. Loops instead of small matrix products, which libraries spread over threads.

    Two-coin leaves out abilities whose likelihood in a class is below e^-40 of its peak, so at most k e^-40 of any cell of the
    posterior of a general ability, that is k e^-25 of the largest if this is above e^-15. Where the likelihoods of the classes
    overlap less, the worker is computed again with all cells.
    """
    hits, misses, log_correct, log_wrong = answers
    general, likelihood, spans, inside, log_sums, _ = score
    workers, columns = hits.shape
    classes, cells, abilities, log_scale = likelihood.shape[1], general.shape[1], log_correct.shape[1], 0.0
    for w in range(workers):
        row = general[w]
        row[:] = log_prior[w if len(log_prior) > 1 else 0]
        for z in range(columns):
            of_ability = likelihood[w, z] if classes else row
            if classes:
                of_ability[:] = 0.0
            for a in range(abilities):
                of_ability[a] += hits[w, z] * log_correct[z, a] + misses[w, z] * log_wrong[z, a]
            if classes:
                log_scale += _lower_to_zero(of_ability)
                first, end = 0, abilities
                while of_ability[first] < _NEGLIGIBLE:
                    first += 1
                while of_ability[end - 1] < _NEGLIGIBLE:
                    end -= 1
                spans[w, z, 0], spans[w, z, 1] = first, end
        log_scale += _lower_to_zero(row)
    exponentiate(general.reshape(-1))
    exponentiate(likelihood.reshape(-1))
    sums, before, products = np.empty(in_class.shape[1]), np.empty(cells), np.ones(len(ratios))
    for w in range(workers):
        row = general[w]
        before[:] = row
        for full in range(2 if classes else 0):
            # given u the classes are independent: a product of sums over abilities, then a sum over u
            log_peak = 0.0
            for z in range(classes):
                p = likelihood[w, z]
                if full:
                    spans[w, z, 0], spans[w, z, 1] = 0, abilities
                first, end = spans[w, z]
                whole = end - (end - first) % 4
                sums[:] = 1e-300
                for a in range(first, whole, 4):  # four at once, so that sums are loaded and stored less often
                    p0, p1, p2, p3 = p[a], p[a + 1], p[a + 2], p[a + 3]
                    r0, r1, r2, r3 = in_class[a], in_class[a + 1], in_class[a + 2], in_class[a + 3]
                    for g in range(sums.size):
                        sums[g] += p0 * r0[g] + p1 * r1[g] + p2 * r2[g] + p3 * r3[g]
                for a in range(whole, end):
                    for g in range(sums.size):
                        sums[g] += p[a] * in_class[a, g]
                largest = 0.0
                for g in range(cells):
                    inside[w, z, g] = sums[g]
                    row[g] *= sums[g]
                    largest = max(largest, row[g])
                scale = 1.0 / largest
                for g in range(cells):
                    row[g] *= scale
                log_peak += math.log(largest)
            if full or log_peak > _OVERLAP:
                log_scale += log_peak
                break
            row[:] = before
        for m in range(len(ratios)):
            total = 0.0
            for g in range(cells):
                total += row[g] * ratios[m, g]
            if 1e-100 < total < 1e100:
                products[m] *= total  # one logarithm for many workers
            else:
                log_sums[m] += math.log(max(total, 1e-300))
            if not 1e-150 < products[m] < 1e150:
                log_sums[m] += math.log(products[m])
                products[m] = 1.0
    for m in range(len(ratios)):
        log_sums[m] += math.log(products[m])
    score.log_scale[0] = log_scale


@njit(cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def expect(
    answers: Answers, in_class: Floats, grid: Floats, ratio: Floats, score: Score, shifted: bool, out: Expectations
) -> float:
    """Expectations over the posteriors of a score under a prior whose ``ratio`` to that of the score is given.

    Returns what the answers are expected to weigh, minus the logarithms of the normalizers. Answers by ability are added, if
    models are ``shifted``: only these need them.
    """
    hits, misses, log_correct, log_wrong = answers
    general, likelihood, spans, inside, _, _ = score
    workers, columns = hits.shape
    cells, abilities, classes, penalty = general.shape[1], grid.size, likelihood.shape[1], 0.0
    u, given_rest, q = np.empty(cells), np.zeros(in_class.shape[1]), np.empty(abilities)
    for w in range(workers):
        total = 0.0
        for g in range(cells):
            u[g] = general[w, g] * ratio[g]
            total += u[g]
        penalty -= math.log(total)
        for g in range(cells):
            u[g] /= total
        for z in range(columns):
            if classes:
                for g in range(cells):
                    given_rest[g] = u[g] / inside[w, z, g]
                first, end = spans[w, z]
                q[:] = 0.0
                for a in range(first, end):
                    given_all = 0.0
                    for g in range(given_rest.size):
                        given_all += given_rest[g] * in_class[a, g]
                    q[a] = given_all * likelihood[w, z, a]
                total = 0.0
                for a in range(abilities):
                    total += q[a]
                for a in range(abilities):
                    q[a] /= total
            else:
                q[:] = u
            log_p, log_q, average, second = 0.0, 0.0, 0.0, 0.0
            for a in range(abilities):
                log_p += q[a] * log_correct[z, a]
                log_q += q[a] * log_wrong[z, a]
                average += q[a] * grid[a]
                second += q[a] * grid[a] * grid[a]
            for a in range(abilities if shifted else 0):
                out.hits_on_grid[z, a] += hits[w, z] * q[a]
                out.misses_on_grid[z, a] += misses[w, z] * q[a]
            out.correct[w, z], out.wrong[w, z], out.mean[w, z], out.square[w, z] = log_p, log_q, average, second
            penalty += hits[w, z] * log_p + misses[w, z] * log_q
    return penalty


def _grid(cells: int) -> Floats:
    return (np.arange(cells) + 0.5) / cells


def _log_beta(means: Floats, strength: float, grid: Floats) -> Floats:
    """Logarithms of Beta weights on a grid, one row per mean."""
    raw = (strength * means[:, None] - 1) * np.log(grid) + (strength * (1 - means[:, None]) - 1) * np.log1p(-grid)
    top = raw.max(axis=-1, keepdims=True)
    return np.asarray(raw - top - np.log(np.exp(raw - top).sum(axis=-1, keepdims=True)))
