"""What every attack by guessing between two worlds reports: how often it was right, and how often it may be."""

from __future__ import annotations

import math
from typing import Any

from peerveil.core.guarantee import SIMULATION_MARK, odds_in_words, read_epsilon
from peerveil.core.result import plain


class GuessingAttack:
    """The base of attack results; they are dataclasses with the fields ``epsilon``, ``trials`` and ``simulated``."""

    __slots__ = ()

    epsilon: float
    trials: int
    simulated: bool

    @property
    def bound(self) -> float:
        """No adversary can be right more often between two equally likely worlds: e^epsilon / (1 + e^epsilon)."""
        return 1 / (1 + math.exp(-self.epsilon))

    @property
    def error(self) -> float:
        """The standard error of a share of right guesses is at most this."""
        return 0.5 / math.sqrt(self.trials)

    @property
    def mark(self) -> str | None:
        """The words that must stand beside a simulation."""
        return SIMULATION_MARK if self.simulated else None

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {**plain(self), "bound": self.bound, "mark": self.mark}

    @property
    def allowed(self) -> str:
        """The percentage of guesses that may be right, rounded up as in the guarantee itself."""
        return odds_in_words(read_epsilon(self.epsilon))[1]
