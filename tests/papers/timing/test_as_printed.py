"""Printed forms: noise without room for beta, and a mean that is wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

from peerveil import BadInput, Randomness
from peerveil.data import Events
from peerveil.papers.timing.as_printed import WithoutRoom, mean_batched_as_printed
from peerveil.timing import FollowUp, Uniform, ZeroInflatedUniform, exact_check, post
from peerveil.timing.check import grid_check


@pytest.mark.parametrize("inner", [ZeroInflatedUniform(epsilon=1, gap=660), Uniform(epsilon=1, gap=660)], ids=repr)
def test_a_noise_for_the_gap_alone_fails_where_sittings_have_a_width(inner: ZeroInflatedUniform) -> None:
    """Section 5.2 needs g + beta: the tables' variant is caught by the exact check."""
    assert exact_check(inner.replace(window=300)).passed
    printed = WithoutRoom(inner, 300)
    assert not exact_check(printed).passed
    assert not grid_check(printed).passed
    assert (printed.mean_batched, printed.mean_unbatched) == (inner.mean_batched, inner.mean_unbatched)


def test_it_holds_for_beta_and_draws_for_the_gap() -> None:
    events = Events(actor=[0, 0, 1], thread=[0, 1, 2], time=[1e9, 1e9 + 240, 1e9 + 1800])
    inner = Uniform(epsilon=1, gap=660)
    posted, schedule = post(events, mechanism=WithoutRoom(inner, 300), randomness=Randomness.simulation(2))
    assert schedule.batched.tolist() == [True, True, False]
    assert (schedule.delay[schedule.batched] >= 300 + 660).all()
    assert schedule.delay.min() >= 300
    assert schedule.delay.max() <= 300 + inner.max_delay + 1e-5
    assert schedule.window == 300
    assert "without the margin for the window" in str(posted.guarantee)
    for other in (FollowUp(epsilon=1, gap=600, window=60), Uniform(epsilon=1, gap=600, window=60)):
        with pytest.raises(BadInput, match="inner: got"):
            WithoutRoom(other, 60)


def test_the_gap_can_differ_by_group() -> None:
    events = Events(actor=[0, 0, 1, 1], thread=[0, 1, 2, 3], time=[1e9, 1e9 + 10, 1e9, 1e9 + 10])
    mechanism = WithoutRoom(Uniform(epsilon=1, gap=660), 60)
    _, schedule = post(events, mechanism=mechanism, gaps={0: 90_000.0}, by="actor", randomness=Randomness.simulation(1))
    delay = {actor: schedule.delay[schedule.actor == actor] for actor in (0, 1)}
    assert delay[0].min() >= 60 + 90_000
    assert delay[1].max() <= 60 + Uniform(epsilon=1, gap=660).max_delay + 1e-5


def test_the_printed_mean_of_batched_comments_is_wrong() -> None:
    """Erratum, Theorem 4.3 (4)."""
    mechanism = ZeroInflatedUniform(epsilon=4, gap=600, weight=0.25)
    drawn = mechanism.draw(np.ones(200_000, dtype=bool), Randomness.simulation(3))
    error = 6 * float(drawn.std()) / math.sqrt(drawn.size)
    assert abs(float(drawn.mean()) - mechanism.mean_batched) < error
    assert abs(float(drawn.mean()) - mean_batched_as_printed(mechanism)) > 10 * error
