"""From the noisy vector to the best estimate. Post-processing: it sees the noisy vector and public data only.

``"projection"`` is the closest point of the feasible region, which can never be farther from the truth than the noisy
vector was. ``"shrinkage"`` first draws the noisy vector towards what the public data let expect, as far as the noisy
vector itself does not speak against it, and then projects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.fft import dct, idct
from scipy.special import logsumexp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from peerveil.release.expectation import PublicPrior

    Floats = NDArray[np.float64]

_SURPRISE: Final = (0.0, 0.01, 0.1, 1.0, 10.0, 1e3, 1e6)  # variance beyond the simulated one, in units of the noise's
_PLAIN: Final = 0.8  # weight of "reviewers do not differ" before anything is seen
_DOUBT: Final = 3.0  # a surprise has to explain the noisy vector e^3 times better than none


def prior_weights(degrees: int) -> Floats:
    """How much each degree of leniency counts before the noisy vector is seen: mostly the first, nobody differing."""
    weights = np.full(degrees, (1 - _PLAIN) / max(degrees - 1, 1))
    weights[0] = _PLAIN if degrees > 1 else 1.0
    return weights


def blind_guess(prior: PublicPrior) -> Floats:
    """The estimate that infinite noise leaves: the simulated centres, weighted by :func:`prior_weights`."""
    centres = np.array([means.mean(axis=0) for means in prior.means])
    guess: Floats = prior_weights(len(prior.means)) @ centres
    return guess


def signal_share(noise_variance: float, prior: PublicPrior) -> float:
    """Between 0 (the noise drowns everything) and 1: how much of a noisy coefficient is signal, on average.

    With little noise, plain projection uses what shrinkage cannot see (ties, atoms, the exact shape of the region), so
    the two estimates are averaged with this weight for projection. Both lie in the region, which is convex.
    """
    variance = dct(prior.means[0], axis=1, norm="ortho").var(axis=0, ddof=1)
    return float(np.mean(variance / (variance + noise_variance)))


def shrink(noisy: Floats, noise_variance: float, prior: PublicPrior, lower: Floats, upper: Floats) -> Floats:
    """Draw a noisy vector towards the public expectation, by empirical Bayes in the cosine domain.

    For every degree of leniency d the simulated sorted means have a centre c_d and, coefficient by coefficient of their
    discrete cosine transform, a variance v_d. The true vector is modelled as normal around c_d with variance v_d +
    kappa, where kappa >= 0 allows for what no simulation foresaw; the noise adds its known variance s. Given (d, kappa)
    the best estimate of each coefficient is c + (v + kappa)/(v + kappa + s) (r - c). The pairs are weighted by how well
    they predict the noisy vector. With much noise all weight and all shrinkage goes to the simulated centres; with
    little noise, or for a truth unlike all simulations, kappa >> s wins and the noisy vector is left as it is. Smooth
    deviations (a wider or narrower spread of reviewers) sit in a few low coefficients, where v is large. No truth can be
    farther from a centre than the region's boxes allow, which bounds kappa: loud noise is not taken for a surprise.
    """
    room = float(np.mean((upper - lower) ** 2))
    spectrum = dct(noisy, norm="ortho")
    estimates, evidence = [], []
    belief = np.log(prior_weights(len(prior.means)))
    for degree, means in enumerate(prior.means):
        coefficients = dct(means, axis=1, norm="ortho")
        centre, variance = coefficients.mean(axis=0), coefficients.var(axis=0, ddof=1)
        away = spectrum - centre
        for kappa in np.unique(np.minimum(np.array(_SURPRISE) * noise_variance, room)):
            signal = variance + kappa
            both = signal + noise_variance
            doubt = _DOUBT if kappa > 0 else 0.0
            evidence.append(belief[degree] - 0.5 * float(np.sum(np.log(both) + away**2 / both)) - doubt)
            estimates.append(centre + signal / both * away)
    weights = np.exp(np.array(evidence) - logsumexp(evidence))
    chosen = np.flatnonzero(weights > 1e-12)
    mixed = sum(weights[i] * estimates[i] for i in chosen)
    result: Floats = idct(np.asarray(mixed), norm="ortho")
    return result
