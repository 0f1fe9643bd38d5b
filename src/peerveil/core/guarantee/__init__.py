"""What is guaranteed, to whom: a value that prints as one readable sentence and composes without rounding.

>>> swap = Guarantee.pure_dp(
...     0.1, unit="one review", neighbors="two reviewers exchange one review each, all that is public unchanged"
... )
>>> print(swap.group(4, unit="one reviewer's four reviews"))  # doctest: +NORMALIZE_WHITESPACE
Differential privacy with epsilon 0.4 for one reviewer's four reviews: whatever is published is at most 1.5 times as
likely on one data set as on its neighbor, and a 50:50 guess between the two is right at most 59.9% of the time,
whatever else a reader knows (neighbors: at most 4 steps, each of this kind: two reviewers exchange one review each,
all that is public unchanged).
>>> sum([swap] * 10).epsilon  # ten releases from the same data: exactly 1, not 0.9999999999999999
1.0
"""

from peerveil.core.guarantee.notion import (
    NOT_PRIVATE_MARK,
    ONE_ANSWER,
    SIMULATION_MARK,
    WORTHLESS,
    DoesNotCompose,
    Notion,
)
from peerveil.core.guarantee.value import Guarantee, read_epsilon
from peerveil.core.guarantee.wording import odds_in_words

__all__ = [
    "NOT_PRIVATE_MARK",
    "ONE_ANSWER",
    "SIMULATION_MARK",
    "WORTHLESS",
    "DoesNotCompose",
    "Guarantee",
    "Notion",
    "odds_in_words",
    "read_epsilon",
]
