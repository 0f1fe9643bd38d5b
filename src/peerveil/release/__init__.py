"""Publish the distribution of reviewers' mean scores with differential privacy.

From Ding, Shah and Wang, *On the Privacy-Utility Tradeoff in Peer-Review Data Analysis* (2021), corrected and improved.

- **Publish**: :func:`publish` gives a :class:`PublishedMeans`; weights are ratings, miscalibration, normalized scores or
  subjectivity (:func:`review_weights`).
- **Choose epsilon first**, from public data alone: :func:`plan_release` gives a :class:`ReleasePlan`.
- **What is public**: :class:`PublicScores`, :func:`feasible_region` (a :class:`FeasibleRegion` with ``.project``) and
  :func:`public_expectation`.
- **What is protected, and how far the means can move**: :func:`swap_sensitivity`, :class:`LaplaceMeans`; a
  mechanism of your own: :class:`Perturbation`.
- **Attack it**: :mod:`peerveil.release.adversary`.

>>> from peerveil.data import synthetic_conference
>>> reviews = synthetic_conference(papers=60, reviewers=40, seed=1).reviews
>>> public = PublicScores.of(reviews, weight="rating", scale=(1, 10))
>>> region = feasible_region(public)
>>> bool((region.lower <= public_expectation(public)).all())
True
"""

from peerveil.release.expectation import public_expectation
from peerveil.release.mechanism import LaplaceMeans, Perturbation, PublishedMeans, publish, swap_sensitivity
from peerveil.release.plan import ReleasePlan, plan_release
from peerveil.release.public import PublicScores
from peerveil.release.region import FeasibleRegion, feasible_region
from peerveil.release.weights import review_weights

__all__ = [
    "FeasibleRegion",
    "LaplaceMeans",
    "Perturbation",
    "PublicScores",
    "PublishedMeans",
    "ReleasePlan",
    "feasible_region",
    "plan_release",
    "public_expectation",
    "publish",
    "review_weights",
    "swap_sensitivity",
]
