"""Do reviewers differ from each other more than by chance? A test on what was published, so it costs nothing more.

Under chance the public scores of a paper go to its reviewers at random. The sorted means of such assignments are simulated
from public data (:mod:`peerveil.release.expectation`); the noise that was added has a known variance. Strict and lenient
reviewers spread the sorted means, so the statistic is the slope of the noisy vector on the expected one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LEVEL: Final = 0.01
"""How often reviewers who do not differ are said to."""


@dataclass(frozen=True, slots=True)
class SpreadTest:
    """How much wider the means are spread than chance assignments of the public scores would be.

    Attributes
    ----------
    wider
        The share, 0.3 for 30% wider; negative if narrower.
    standard_error
        Of the same, under chance: the noise and the luck of the assignment together.
    freedom
        Degrees of freedom behind the standard error: the luck is estimated from simulated assignments, the noise is known.
    """

    wider: float
    standard_error: float
    freedom: float

    @property
    def statistic(self) -> float:
        """How much wider, in standard errors."""
        if self.standard_error == 0.0:
            return float("inf") if self.wider > 0 else 0.0
        return self.wider / self.standard_error

    @property
    def pvalue(self) -> float:
        """How often chance alone would spread them this much."""
        from scipy.stats import t

        if self.standard_error == 0.0:
            return 1.0 if self.wider <= 0 else 0.0
        return float(t.sf(self.statistic, self.freedom))

    @property
    def detectable(self) -> float:
        """The smallest widening that would have been told from chance."""
        from scipy.stats import t

        return float(t.isf(LEVEL, self.freedom)) * self.standard_error

    def __str__(self) -> str:
        found = f"{abs(self.wider):.0%} {'wider' if self.wider >= 0 else 'narrower'}"
        measured = f"{found} than chance assignments of the public scores (standard error {self.standard_error:.0%})"
        if self.pvalue < LEVEL:
            return f"Reviewers differ from each other more than by chance: their means are spread {measured}."
        if self.detectable <= 0.1:
            return f"No sign of strict or lenient reviewers: their means are spread {measured}."
        return (
            "Whether reviewers differ from each other more than by chance cannot be told at this epsilon: only a spread "
            f"at least {self.detectable:.0%} wider than chance would have been noticed."
        )


def spread_test(noisy: Floats, variance: float, chance: Floats) -> SpreadTest | None:
    """Test the noisy means against chance.

    Parameters
    ----------
    noisy
        What the mechanism put out.
    variance
        Of the noise on each entry.
    chance
        Sorted means of assignments by chance, one row a draw; at least two rows.

    Returns
    -------
    SpreadTest or None
        ``None`` where nobody's mean can differ, whatever the assignment.

    Notes
    -----
    Let e be the mean of the chance draws, centred. T(x) = <x, e> / <e, e> - 1 is 0 on average under chance, as it is linear and
    e is the mean of the draws. Its variance is that of T over draws, times 1 + 1/draws for the estimated mean, plus
    variance / <e, e> for the noise; Satterthwaite's rule gives the degrees of freedom.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> draws = np.sort(rng.normal(size=(100, 50)), axis=1)
    >>> wide = np.sort(rng.normal(scale=2, size=50))
    >>> spread_test(wide, 0.0, draws).pvalue < 0.01, spread_test(wide, 1e4, draws).pvalue < 0.01
    (True, False)
    """
    direction = chance.mean(axis=0)
    direction = direction - direction.mean()
    length = float(direction @ direction)
    if length <= 1e-18 * chance.shape[1] * max(1.0, float(np.abs(chance).max()) ** 2):
        return None
    luck = float(np.var(chance @ direction / length, ddof=1)) * (1 + 1 / chance.shape[0])
    noise = variance / length
    total = luck + noise
    freedom = total**2 / (luck**2 / (chance.shape[0] - 1)) if luck > 1e-12 * total else 1e6
    wider = float(noisy @ direction) / length - 1.0
    return SpreadTest(wider, float(np.sqrt(total)), min(freedom, 1e6))
