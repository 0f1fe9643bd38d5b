"""Who is protected when only some people use a mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.core.errors import BadInput
from peerveil.core.randomness import Randomness
from peerveil.timing.adversary import linkage_attack
from peerveil.timing.reading import read_log
from peerveil.timing.schedule import prepare_posting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from peerveil.timing.mechanism import DelayMechanism


@dataclass(frozen=True)
class Adoption:
    """What the attack does when a part of the people uses the mechanism.

    Attributes
    ----------
    share : float
        The share of people who do.
    adopters, others : float
        The share of their batched pairs that the attack finds, at the cut-off that is best for it overall.
    precision : float
        Of the pairs that it flags, the share that was written in one sitting.
    """

    share: float
    adopters: float
    others: float
    precision: float
    mean_delay: float


def partial_adoption(
    events: Any,
    *,
    mechanism: DelayMechanism,
    shares: Sequence[float] = (0.1, 0.5, 1.0),
    window: float | None = None,
    within: Any = None,
    columns: Mapping[str, str] | None = None,
    seed: int = 0,
) -> list[Adoption]:
    """Attack a log of which only some people use the mechanism. A simulation: the delays protect nobody."""
    events = read_log(events, "events", columns=columns, group=within if isinstance(within, str) else None)
    groups = events.numbered(within)[0] if isinstance(within, str) else within
    window = mechanism.beta if window is None else window
    people = events.frame["actor"].unique().sort()
    rng = np.random.default_rng(seed)
    found = []
    for share in shares:
        if not 0 <= share <= 1:
            raise BadInput("shares", got=shares, want="shares from 0 to 1")
        users = people.gather(np.sort(rng.permutation(len(people))[: round(share * len(people))])).to_list()
        schedule = prepare_posting(events, mechanism, adopters=users).draw(Randomness.simulation(seed))
        attack = linkage_attack(schedule, window=window, within=groups)
        cut, precision, _ = attack.best
        mine, theirs = (
            linkage_attack(schedule, thresholds=[cut], window=window, within=groups, among=among)
            for among in ("adopters", "others")
        )
        found.append(
            Adoption(share, float(mine.recall[0]), float(theirs.recall[0]), precision, float(schedule.delay.mean()))
        )
    return found
