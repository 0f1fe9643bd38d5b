"""Test whether rankings differ from chance, with differential privacy, from two rankings to ten thousand items.

From Busa-Fekete, Fotakis and Zampetakis, *Private and Non-private Uniformity Testing for Ranking Data* (2021), corrected
and improved.

- **The consensus**: :func:`consensus` gives a :class:`Consensus`: an order of the items with intervals.
- **Two groups**: :func:`compare` gives a :class:`RankingComparison`: whether they rank differently, and which items moved.
- **Test**: :func:`uniformity_test` gives a :class:`UniformityTest` with a p-value that may be published.
- **Ask people without ever seeing their rankings**: devices follow a :class:`LocalProtocol` and send a
  :class:`RandomizedRanking` each; from these alone :func:`local_consensus` finds the consensus and :func:`aggregate_rankings`
  tests. :func:`next_protocol` says what to ask in a next round, :func:`choose_questions` how many questions a test shares.
  :func:`randomize_rankings` randomizes a whole table, giving :class:`RandomizedRankings`.
- **Plan**: :func:`plan_rankings` gives a :class:`PowerCurve`; :func:`people_needed` and :func:`power_of` are its parts.
- **The model**: :class:`Mallows`, :func:`kendall_distance`; more in :mod:`peerveil.rankings.variation`.
- **Attack it**: :mod:`peerveil.rankings.adversary`.

>>> votes = Mallows(50, 0.98).sample(400, seed=1)
>>> uniformity_test(votes).reject  # without privacy
True
"""

from peerveil.rankings.aggregate import aggregate_rankings, choose_questions
from peerveil.rankings.compare import RankingComparison, compare
from peerveil.rankings.consensus import Consensus, consensus
from peerveil.rankings.local import (
    LocalProtocol,
    RandomizedRanking,
    RandomizedRankings,
    randomize_rankings,
)
from peerveil.rankings.local_consensus import local_consensus, next_protocol
from peerveil.rankings.mallows import Mallows, kendall_distance
from peerveil.rankings.plan import PowerCurve, people_needed, plan_rankings, power_of
from peerveil.rankings.uniformity import UniformityTest, uniformity_test

__all__ = [
    "Consensus",
    "LocalProtocol",
    "Mallows",
    "PowerCurve",
    "RandomizedRanking",
    "RandomizedRankings",
    "RankingComparison",
    "UniformityTest",
    "aggregate_rankings",
    "choose_questions",
    "compare",
    "consensus",
    "kendall_distance",
    "local_consensus",
    "next_protocol",
    "people_needed",
    "plan_rankings",
    "power_of",
    "randomize_rankings",
    "uniformity_test",
]
