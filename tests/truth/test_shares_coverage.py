"""What is promised of intervals of shares: 20 settings with 500 repetitions each, and what is built on shares."""

from __future__ import annotations

import pytest
from benchmarks.truth_shares import SETTINGS, further, measure

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("number", range(len(SETTINGS)), ids=lambda n: "-".join(map(str, SETTINGS[n])))
def test_intervals_of_95_percent_hold_and_are_as_narrow_as_possible(number: int) -> None:
    people, epsilon, k, kind = SETTINGS[number]
    row = measure(people, epsilon, k, kind, 500, seed=number)
    assert 0.93 <= row["coverage"] <= 0.99
    if people >= 1000 and row["width/limit"] is not None:
        assert row["width/limit"] < 1.05


def test_what_is_built_on_shares_holds() -> None:
    """300 repetitions, five standard errors: at least .887 of the intervals, at most .113 of true hypotheses rejected."""
    shares = further(300)
    assert all(share > 0.887 for name, share in shares.items() if not name.startswith("rejected")), shares
    assert all(share < 0.113 for name, share in shares.items() if name.startswith("rejected")), shares
