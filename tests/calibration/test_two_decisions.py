"""The attack: decide the same conference twice, and read both decisions together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from peerveil.calibration import Affine, Conference
from peerveil.calibration.strategy import guess_errors
from peerveil.core.errors import BadInput
from peerveil.core.randomness import Randomness
from peerveil.data import Reviews
from peerveil.ledger import DataBound, Ledger

if TYPE_CHECKING:
    from pathlib import Path

PEOPLE = {"ann": Affine(1, 1.7), "bo": Affine(1, -1.2), "cy": Affine(1, -0.7)}


@pytest.fixture(scope="module")
def conference() -> Conference:
    reviews = Reviews(paper=[1, 2, 3], reviewer=["ann", "bo", "cy"], score=[1.7, 0.5, -0.3])
    return Conference(reviews, functions=PEOPLE, noise=0.5, accept=1, group_size=3)


def test_two_decisions_together_break_the_guarantee(conference: Conference) -> None:
    """Why a second decision is refused: exactly computed, the best guess from two is better than what was promised."""
    (group,) = conference.groups()
    panel = group.panel
    strategy = panel.strategy(adversary_error=0.45, capped=True)
    errors, table = strategy.review_errors, strategy.table
    both = (table[:, :, None] * table[:, None, :]).reshape(len(table), -1)
    twice = guess_errors(panel.assignments, panel.posterior, both, panel.adversary)
    assert np.all(twice <= errors + 1e-9)
    assert np.max(errors - twice) > 0.02


def test_an_account_allows_one_decision(conference: Conference, tmp_path: Path) -> None:
    secure = Randomness.secure()
    with Ledger.open(tmp_path / "l.db") as ledger:
        account = ledger.account("conference", epsilon=1)
        first = conference.decide(adversary_error=0.3, capped=True, randomness=secure, account=account)
        for asked in (0.3, 0.1):  # other settings are no way around
            with pytest.raises(DataBound, match="entry 1.*Publish that decision"):
                conference.decide(adversary_error=asked, capped=True, randomness=secure, account=account)
        (entry,) = account.entries()
        assert entry.guarantee == first.public.guarantee
        with pytest.raises(DataBound, match="belong to account 'conference'"):
            conference.decide(
                adversary_error=0.3, capped=True, randomness=secure, account=ledger.account("other", epsilon=1)
            )


def test_without_an_account_the_first_decision_comes_back() -> None:
    """A second draw would give an attacker more; a simulation may be repeated."""
    rng = np.random.default_rng(1)
    bias = rng.standard_normal(24)
    reviews = Reviews(paper=range(24), reviewer=range(24), score=rng.standard_normal(24) + bias)
    people = {j: Affine(1.0, float(bias[j])) for j in range(24)}
    meeting = Conference(reviews, functions=people, noise=1.0, accept=8)
    first = meeting.decide(adversary_error=0.3, capped=True)
    assert meeting.decide(adversary_error=0.3, capped=True) is first
    with pytest.raises(BadInput, match="what was first decided with, .*0.3"):
        meeting.decide(adversary_error=0.2, capped=True)
    with pytest.raises(BadInput, match="a second decision of the same reviews reveals more"):
        meeting.decide(epsilon=1)
    lanes = [Randomness.simulation(seed) for seed in (1, 2)]
    assert (
        len({str(meeting.decide(epsilon=1, randomness=lane).public.decisions["accepted"].to_list()) for lane in lanes})
        == 2
    )
