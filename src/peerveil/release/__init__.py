"""Publish the distribution of reviewers' mean scores with differential privacy.

From Ding, Shah and Wang, *On the Privacy-Utility Tradeoff in Peer-Review Data Analysis* (2021), corrected and improved.

- **Publish**: :func:`publish` gives a :class:`PublishedMeans`; weights are miscalibration (strictness), ratings,
  normalized scores or subjectivity (:func:`review_weights`).
- **Ask**: :func:`ask` how many reviewers are strict, and whether groups or years differ (a :class:`StrictnessAnswer`).
- **Choose epsilon first**, from public data alone: :func:`plan_release` gives a :class:`ReleasePlan`.
- **What is public**: :class:`PublicScores`, :func:`feasible_region` (a :class:`FeasibleRegion` with ``.project``) and
  :func:`public_expectation`.
- **The mechanism**: :class:`NoisyCounts`.
- **Attack it**: :mod:`peerveil.release.adversary`.
"""

from peerveil.release.ask import StrictnessAnswer, ask
from peerveil.release.expectation import public_expectation
from peerveil.release.mechanism import NoisyCounts, PublishedMeans, publish
from peerveil.release.plan import ReleasePlan, plan_release
from peerveil.release.public import PublicScores
from peerveil.release.region import FeasibleRegion, feasible_region
from peerveil.release.weights import review_weights

__all__ = [
    "FeasibleRegion",
    "NoisyCounts",
    "PublicScores",
    "PublishedMeans",
    "ReleasePlan",
    "StrictnessAnswer",
    "ask",
    "feasible_region",
    "plan_release",
    "public_expectation",
    "publish",
    "review_weights",
]
