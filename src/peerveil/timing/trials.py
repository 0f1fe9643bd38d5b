"""One mechanism, tried on a log: what its delays cost, and what every attack still finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.timing.adversary import LinkageAttack, linkage_attack
from peerveil.timing.check import OptimalAttack, optimal_attack
from peerveil.timing.sittings import ranked_first

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats
    from peerveil.timing.base import DelayMechanism
    from peerveil.timing.batches import Batches
    from peerveil.timing.schedule import PostingSchedule

COLUMNS: Final = (
    "protection", "epsilon", "mean_delay", "median_delay", "max_delay", "precision", "recall", "linked_within", "crossover",
    "crossover_when_order_is_known", "crossover_over_all_history", "overtaken",
)  # fmt: skip


@dataclass(frozen=True)
class DelayTrial:
    """One mechanism, tried on the log in one draw of its delays."""

    mechanism: DelayMechanism
    mean_delay: float
    median_delay: float
    max_delay: float
    attack: LinkageAttack
    best_attack: OptimalAttack
    """The best test against lone comments up to the gap apart, which the guarantee covers."""
    known_order: OptimalAttack
    """The same where the order of the two comments is known."""
    all_history: OptimalAttack
    """The best test against lone comments as far apart as in the whole log, beyond the gap too."""
    covered_first: tuple[float, ...]
    """How often the best attacker ranks the right suspect first after 1, 2, ... shared sittings: pauses up to the gap."""
    history_first: tuple[float, ...]
    """The same with pauses as long as in the whole log, beyond the gap too."""
    early_replies: tuple[int, int]
    overtaken: float
    batch_cost: tuple[float, float]

    def row(self) -> tuple[Any, ...]:
        """The entries of :meth:`TimingAudit.frame`."""
        cut, precision, recall = self.attack.at_half
        errors = (attack.crossover for attack in (self.best_attack, self.known_order, self.all_history))
        delays = (self.mean_delay, self.median_delay, self.max_delay)
        return ("delays", self.mechanism.epsilon, *delays, precision, recall, cut, *errors, self.overtaken)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {
            "mechanism": repr(self.mechanism),
            "epsilon": self.mechanism.epsilon,
            "mean_delay": self.mean_delay,
            "median_delay": self.median_delay,
            "max_delay": self.max_delay,
            "linkage": self.attack.at_half._asdict(),
            "crossover": self.best_attack.crossover,
            "crossover_when_order_is_known": self.known_order.crossover,
            "guaranteed_crossover": self.best_attack.least_crossover,
            "crossover_over_all_history": self.all_history.crossover,
            "history_within_the_gap": self.all_history.covered,
            "right_suspect_first": {"pauses_within_the_gap": self.covered_first, "all_pauses": self.history_first},
            "early_replies": self.early_replies[0],
            "early_replies_with_causal_release": self.early_replies[1],
            "overtaken_in_thread": self.overtaken,
            "cost_of_a_whole_batch": {"mean": self.batch_cost[0], "largest": self.batch_cost[1]},
            "guarantee": str(self.mechanism.guarantee),
        }


def trial_of(
    mechanism: DelayMechanism, schedule: PostingSchedule, batches: Batches, waits: Floats, groups: Any, suspects: int
) -> DelayTrial:
    """Measure one draw of a mechanism's delays."""
    # what the attacker believes about lone comments: history up to the gap, to which the guarantee applies
    near = waits[waits <= mechanism.gap]
    away = near if near.size else np.array([mechanism.gap])
    return DelayTrial(
        mechanism=mechanism,
        mean_delay=float(schedule.delay.mean()),
        median_delay=float(np.median(schedule.delay)),
        max_delay=float(schedule.delay.max()),
        attack=linkage_attack(schedule, window=batches.window, within=groups),
        best_attack=optimal_attack(mechanism, away, cells=100),
        known_order=optimal_attack(mechanism, away, order="known", cells=100),
        all_history=optimal_attack(mechanism, waits, cells=100),
        covered_first=ranked_first(mechanism, away, suspects=suspects),
        history_first=ranked_first(mechanism, waits, suspects=suspects),
        early_replies=schedule.early_replies,
        overtaken=schedule.overtaken,
        batch_cost=batches.cost(mechanism.epsilon),
    )
