"""Scores of affine reviewers in closed form, for a whole conference at once: what scores say about qualities and writers.

A review of paper i by j has the score a_j q_i + b_j + noise, with qualities q N(0, 1) (functions are standardized for another
prior) and noise N(0, s^2). Given who wrote what, qualities are independent: precision 1 + sum a^2/s^2, mean sum a (score - b)/s^2
over precision. The scores of a paper are jointly normal with covariance a a^T + s^2 I, so that, up to what does not depend on
the writers, log evidence = -(sum (score - b)^2/s^2 - (sum a (score - b)/s^2)^2 / precision + log precision) / 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.calibration.functions import Affine, Uncertain, noise_level, quality_prior
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.lazy import brentq, ndtr

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats, Ints
    from peerveil.data import Reviews


@dataclass(frozen=True)
class AffineScores:
    """Who scores which paper, and how: papers and reviewers are numbers."""

    paper: Ints
    writer: Ints
    scale: Floats
    bias: Floats
    noise: float

    @classmethod
    def of(
        cls, reviews: Reviews, functions: Mapping[Any, Any], noise: float, prior: tuple[float, float] = (0.0, 1.0)
    ) -> AffineScores:
        """The reviews of a conference; an uncertain reviewer is taken by the mean of what is credible."""
        if not noise_level(noise) > 0:
            raise BadInput("noise", got=noise, want="a standard deviation above 0")
        paper, _ = reviews.numbered("paper")
        writer, people = reviews.numbered("reviewer")
        known = [_mean_function(functions.get(who), who).standardized(*quality_prior(prior)) for who in people]
        scale, bias = np.array([[one.scale, one.bias] for one in known]).T
        return cls(np.asarray(paper), np.asarray(writer), scale, bias, float(noise))

    @property
    def papers(self) -> int:
        """How many papers there are."""
        return int(self.paper.max()) + 1

    def _sum(self, values: Floats) -> Floats:
        return np.asarray(np.bincount(self.paper, weights=values, minlength=self.papers), dtype=np.float64)

    def plain_means(self, scores: Floats) -> Floats:
        """The plain mean of every paper's scores."""
        return self._sum(scores) / np.bincount(self.paper, minlength=self.papers)

    def draw(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Qualities, and the noise of every review."""
        return rng.standard_normal(self.papers), self.noise * rng.standard_normal(len(self.paper))

    def scored(self, quality: Floats, noise: Floats, writer: Ints | None = None) -> Floats:
        """The scores that these writers give."""
        who = self.writer if writer is None else writer
        return self.scale[who] * quality[self.paper] + self.bias[who] + noise

    def beliefs(self, scores: Floats, writer: Ints | None = None) -> tuple[Floats, Floats, Floats]:
        """Mean and standard deviation of every paper's quality, and the log evidence of its scores."""
        who = self.writer if writer is None else writer
        scale, rest = self.scale[who], scores - self.bias[who]
        precision = 1.0 + self._sum(scale * scale) / self.noise**2
        pull = self._sum(scale * rest) / self.noise**2
        evidence = -0.5 * (self._sum(rest * rest) / self.noise**2 - pull * pull / precision + np.log(precision))
        return pull / precision, 1.0 / np.sqrt(precision), evidence


def among_best(mean: Floats, deviation: Floats, places: int) -> Floats:
    """How likely each paper is above the line that so many are expected to pass."""
    if places in (0, len(mean)):
        return np.full(len(mean), places / len(mean))
    low, high = float((mean - 9 * deviation).min()), float((mean + 9 * deviation).max())
    line = brentq(lambda x: float(ndtr((mean - x) / deviation).sum()) - places, low, high)
    return np.asarray(ndtr((mean - line) / deviation))


def best_papers(values: Floats, places: int) -> Floats:
    """1 for the papers with the largest values, the first of equal ones; else 0."""
    accepted = np.zeros(len(values))
    accepted[np.argsort(-values, kind="stable")[:places]] = 1.0
    return accepted


def _mean_function(function: Any, who: Any) -> Affine:
    parts: Any = function.draws if isinstance(function, Uncertain) else [function]
    if not all(isinstance(part, Affine) for part in parts):
        got = Verbatim(type(function).__name__)
        raise BadInput(f"functions[{who!r}]", got=got, want="an Affine, or an Uncertain of several")
    return Affine(*np.mean([[part.scale, part.bias] for part in parts], axis=0).tolist())
