"""Do reviewers differ more than by chance? A test of the noisy counts, whose null distribution is public."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from peerveil.core.arrays import Floats
from peerveil.release.estimate import CountModel
from peerveil.release.family import counts_at

LEVEL: Final = 0.01
"""The level of the test."""
_POWER: Final = 0.8
_NULL: Final = 20_000  # simulated releases
_TOWARDS: Final = 0.32  # the strength that the test is made for


@dataclass(frozen=True, slots=True)
class SpreadTest:
    """Whether the counts are spread wider than chance assignments of the public weights and the noise would spread them.

    Attributes
    ----------
    statistic : float
        How far the counts are from what chance gives, towards what they would be if reviewers differed.
    pvalue : float
        How often chance alone would spread them this much.
    noticeable : float
        The smallest standard deviation of strictness that would be noticed in at least 80% of releases; infinite if none would.
    """

    statistic: float
    pvalue: float
    noticeable: float

    @property
    def reject(self) -> bool:
        """Whether reviewers differ, at a level of 1%."""
        return self.pvalue < LEVEL


class SpreadStatistic:
    """The linear statistic w'(y - m) with w = (C + vI)^-1 (m' - m): m, C mean counts and covariance by chance, m' mean counts
    if reviewers differ, v the variance of the noise. Its null distribution is simulated from public data.
    """

    def __init__(self, model: CountModel) -> None:
        plain = np.isinf(model.worth)
        chance = np.array([counts_at(row, model.thresholds) for row in model.family.by_chance])
        differ = model.mean[plain & (model.shape == 0)]
        strengths = model.strength[plain & (model.shape == 0)]
        self._center = chance.mean(axis=0)
        covariance = np.atleast_2d(np.cov(chance, rowvar=False)) + model.noise.variance * np.eye(self._center.size)
        towards = differ[np.abs(strengths - _TOWARDS).argmin()] - self._center
        self._direction = np.linalg.solve(covariance, towards)
        rng = np.random.default_rng(0)
        radius = rng.choice(model.noise.radii.size, size=_NULL, p=model.noise.radii)
        noise = rng.integers(-radius[:, None], radius[:, None] + 1, (_NULL, self._center.size))
        self._noise = np.sort(noise @ self._direction)
        luck = (chance - self._center) @ self._direction
        self._null = np.sort(luck[rng.integers(0, len(luck), _NULL)] + rng.permutation(self._noise))
        critical = self._null[int(np.ceil((1 - LEVEL) * _NULL)) - 1]
        shifts = (differ - self._center) @ self._direction
        power = 1 - np.searchsorted(self._null, critical - shifts) / _NULL
        enough = strengths[power >= _POWER]
        self.noticeable = float(enough.min() * model.family.weight_sd) if enough.size else float("inf")

    def test(self, counts: Floats) -> SpreadTest:
        """Whether published counts are spread wider than by chance."""
        value = float((counts - self._center) @ self._direction)
        beyond = _NULL - int(np.searchsorted(self._null, value - 1e-9))
        return SpreadTest(value, (1 + beyond) / (1 + _NULL), self.noticeable)
