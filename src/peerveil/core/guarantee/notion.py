"""The kinds of guarantee, the marks of results without one, and the error of guarantees that do not combine."""

from __future__ import annotations

from enum import Enum
from typing import Final

from peerveil.core.errors import PeerveilError

ONE_ANSWER: Final = "one answer of one person"
"""The unit of local attribute privacy, unless another is stated."""

SIMULATION_MARK: Final = "simulation, not private"
"""The mark on everything that was drawn by a simulation."""

NOT_PRIVATE_MARK: Final = "not private"
"""The mark on everything that was made without any noise (``epsilon=None``)."""

WORTHLESS: Final = 10
"""Above this epsilon a 50:50 guess may be right 99.995% of the time: the words then say so instead of large numbers."""


class Notion(Enum):
    """The kinds of guarantee that peerveil gives."""

    PURE_DP = "pure DP"
    LOCAL_DP = "local DP"
    LOCAL_ATTRIBUTE_DP = "local attribute DP"
    ONE_SIDED_DP = "one-sided DP"
    MAP_ERROR = "MAP-adversary error"

    @property
    def adds_up(self) -> bool:
        """Whether uses on the same data add up in epsilon, so that a budget can be debited."""
        return self in {Notion.PURE_DP, Notion.LOCAL_DP, Notion.LOCAL_ATTRIBUTE_DP}


TAKES_EPSILON: Final = frozenset(Notion) - {Notion.MAP_ERROR}
"""Guarantees that bound a likelihood ratio."""


class DoesNotCompose(PeerveilError):
    """Two guarantees that cannot be combined into one; the message says which rule was missing."""
