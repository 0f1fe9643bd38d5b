"""The rankings room: is there any signal in these rankings, privately, from two rankings to ten thousand items?

From Busa-Fekete, Fotakis and Zampetakis, *Private and Non-private Uniformity Testing for Ranking Data* (2021), corrected
and improved.

- **Test**: :func:`uniformity_test` gives a :class:`UniformityTest` with a p-value that may be published.
- **Ask people without ever seeing their rankings**: :class:`LocalReporter` makes a :class:`Report` on the person's side,
  :func:`aggregate_reports` tests from reports alone; both follow a :class:`LocalProtocol`;
  :func:`choose_questions` says how many questions to share. :func:`randomize_rankings` makes the reports of a whole table,
  as :class:`RandomizedRankings`.
- **Plan**: :func:`plan_rankings` gives a :class:`PowerCurve`; :func:`people_needed` and :func:`power_of` are its parts.
- **The model**: :class:`Mallows`, :func:`kendall_distance`, :func:`total_variation`, :func:`spread_at`, :func:`mahonian`.
- **Attack it**: :mod:`peerveil.rankings.adversary`.

>>> votes = Mallows(50, 0.98).sample(400, seed=1)
>>> uniformity_test(votes).reject  # without privacy
True
"""

from peerveil.rankings.aggregate import aggregate_reports
from peerveil.rankings.local import LocalProtocol, LocalReporter, Report, choose_questions
from peerveil.rankings.mallows import Mallows, kendall_distance
from peerveil.rankings.planning import PowerCurve, people_needed, plan_rankings
from peerveil.rankings.randomize import RandomizedRankings, randomize_rankings
from peerveil.rankings.simulate import power_of
from peerveil.rankings.uniformity import UniformityTest, uniformity_test
from peerveil.rankings.variation import mahonian, spread_at, total_variation

__all__ = [
    "LocalProtocol",
    "LocalReporter",
    "Mallows",
    "PowerCurve",
    "RandomizedRankings",
    "Report",
    "UniformityTest",
    "aggregate_reports",
    "choose_questions",
    "kendall_distance",
    "mahonian",
    "people_needed",
    "plan_rankings",
    "power_of",
    "randomize_rankings",
    "spread_at",
    "total_variation",
    "uniformity_test",
]
