"""From the noisy vector to the best estimate. Post-processing: it sees the noisy vector and public data only.

``"projection"`` is the closest point of the feasible region, which can never be farther from the truth than the noisy
vector was. ``"shrinkage"`` first draws the noisy vector toward what public data predict, as far as the noisy vector
itself does not contradict it, and then projects.

Do reviewers differ from each other more than by chance? A test on what was published, so it costs nothing more.

Under chance the public scores of a paper go to its reviewers at random. The sorted means of such assignments are simulated
from public data (:mod:`peerveil.release.expectation`); the noise that was added has a known variance. Strict and lenient
reviewers spread the sorted means, so the statistic is the slope of the noisy vector on the expected one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.fft import dct, idct
from scipy.special import logsumexp

from peerveil.core.arrays import Floats

if TYPE_CHECKING:
    from peerveil.release.expectation import PublicPrior


_SURPRISE: Final = (0.0, 0.01, 0.1, 1.0, 10.0, 1e3, 1e6)  # variance beyond the simulated one, in units of the noise's
_PLAIN: Final = 0.8  # weight of "reviewers do not differ" before anything is seen
_DOUBT: Final = 3.0  # a surprise has to explain the noisy vector e^3 times better than none

LEVEL: Final = 0.01
"""How often reviewers who do not differ are said to."""


def prior_weights(degrees: int) -> Floats:
    """How much each degree of leniency counts before the noisy vector is seen: mostly the first, nobody differing."""
    weights = np.full(degrees, (1 - _PLAIN) / max(degrees - 1, 1))
    weights[0] = _PLAIN if degrees > 1 else 1.0
    return weights


def blind_guess(prior: PublicPrior) -> Floats:
    """The estimate that infinite noise leaves: the simulated centers, weighted by :func:`prior_weights`."""
    centers = np.array([means.mean(axis=0) for means in prior.means])
    return np.asarray(prior_weights(len(prior.means)) @ centers)


def signal_share(noise_variance: float, prior: PublicPrior) -> float:
    """Between 0 (the noise drowns everything) and 1: how much of a noisy coefficient is signal, on average.

    With little noise, plain projection uses what shrinkage cannot see (ties, atoms, the exact shape of the region), so
    the two estimates are averaged with this weight for projection. Both lie in the region, which is convex.
    """
    variance = dct(prior.means[0], axis=1, norm="ortho").var(axis=0, ddof=1)
    return float(np.mean(variance / (variance + noise_variance)))


def shrink(noisy: Floats, noise_variance: float, prior: PublicPrior, lower: Floats, upper: Floats) -> Floats:
    """Draw a noisy vector toward the public expectation, by empirical Bayes in the cosine domain.

    For every degree of leniency d the simulated sorted means have a center c_d and, coefficient by coefficient of their
    discrete cosine transform, a variance v_d. The true vector is modeled as normal around c_d with variance v_d +
    kappa, where kappa >= 0 allows for what no simulation foresaw; the noise adds its known variance s. Given (d, kappa)
    the best estimate of each coefficient is c + (v + kappa)/(v + kappa + s) (r - c). The pairs are weighted by how well
    they predict the noisy vector. With much noise all weight and all shrinkage goes to the simulated centers; with
    little noise, or for a truth unlike all simulations, kappa >> s wins and the noisy vector is left as it is. Smooth
    deviations (a wider or narrower spread of reviewers) sit in a few low coefficients, where v is large. No truth can be
    farther from a center than the region's boxes allow, which bounds kappa: loud noise is not taken for a surprise.
    """
    widest = float(np.mean((upper - lower) ** 2))
    spectrum = dct(noisy, norm="ortho")
    estimates, evidence = [], []
    belief = np.log(prior_weights(len(prior.means)))
    for degree, means in enumerate(prior.means):
        coefficients = dct(means, axis=1, norm="ortho")
        center, variance = coefficients.mean(axis=0), coefficients.var(axis=0, ddof=1)
        away = spectrum - center
        for kappa in np.unique(np.minimum(np.array(_SURPRISE) * noise_variance, widest)):
            signal = variance + kappa
            both = signal + noise_variance
            doubt = _DOUBT if kappa > 0 else 0.0
            evidence.append(belief[degree] - 0.5 * float(np.sum(np.log(both) + away**2 / both)) - doubt)
            estimates.append(center + signal / both * away)
    weights = np.exp(np.array(evidence) - logsumexp(evidence))
    mixed = sum(weight * estimate for weight, estimate in zip(weights, estimates, strict=True) if weight > 1e-12)
    return np.asarray(idct(np.asarray(mixed), norm="ortho"))


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
        """The smallest widening that would have been distinguished from chance."""
        from scipy.stats import t

        return float(t.isf(LEVEL, self.freedom)) * self.standard_error

    def __str__(self) -> str:
        spread = f"{abs(self.wider):.0%} {'wider' if self.wider >= 0 else 'narrower'}"
        measured = f"{spread} than chance assignments of the public scores (standard error {self.standard_error:.0%})"
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
        Sorted means of assignments by chance, one row per draw; at least two rows.

    Returns
    -------
    SpreadTest or None
        ``None`` where nobody's mean can differ, whatever the assignment.

    Notes
    -----
    Let e be the mean of the chance draws, centered. T(x) = <x, e> / <e, e> - 1 is 0 on average under chance, as it is linear and
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
