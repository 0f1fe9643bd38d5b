"""Test whether rankings differ from chance, with differential privacy, from two rankings to ten thousand items.

From Busa-Fekete, Fotakis and Zampetakis, *Private and Non-private Uniformity Testing for Ranking Data* (2021), corrected
and improved.

- **The consensus**: :func:`consensus` gives a :class:`Consensus`: an order of the items with intervals.
- **Two groups**: :func:`compare` gives a :class:`RankingComparison`: whether they rank differently, and which items moved.
- **Test**: :func:`uniformity_test` gives a :class:`UniformityTest` with a p-value that may be published.
- **Ask people without ever seeing their rankings**: devices follow a :class:`LocalProtocol` and send a
  :class:`RandomizedRanking` each; :func:`aggregate_rankings` tests from these alone; :func:`choose_questions` says how many
  questions to share. :func:`randomize_rankings` does the same to a whole table, giving :class:`RandomizedRankings`.
- **Plan**: :func:`plan_rankings` gives a :class:`PowerCurve`; :func:`people_needed` and :func:`power_of` are its parts.
- **The model**: :class:`Mallows`, :func:`kendall_distance`, :func:`total_variation`, :func:`spread_at`.
- **Attack it**: :mod:`peerveil.rankings.adversary`.

>>> votes = Mallows(50, 0.98).sample(400, seed=1)
>>> uniformity_test(votes).reject  # without privacy
True
"""

from peerveil.rankings.aggregate import aggregate_rankings
from peerveil.rankings.compare import RankingComparison, compare
from peerveil.rankings.consensus import Consensus, consensus
from peerveil.rankings.local import (
    LocalProtocol,
    RandomizedRanking,
    RandomizedRankings,
    choose_questions,
    randomize_rankings,
)
from peerveil.rankings.mallows import Mallows, kendall_distance
from peerveil.rankings.plan import PowerCurve, people_needed, plan_rankings, power_of
from peerveil.rankings.uniformity import UniformityTest, uniformity_test
from peerveil.rankings.variation import spread_at, total_variation

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
    "people_needed",
    "plan_rankings",
    "power_of",
    "randomize_rankings",
    "spread_at",
    "total_variation",
    "uniformity_test",
]
