"""Attacks: counted pairs against listed ones, the optimal test against its bound, choosing a gap."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from benchmarks.logs import many_events

from peerveil import BadInput, Randomness
from peerveil.data import Events
from peerveil.papers.timing.streams import wikipedia_like
from peerveil.timing import (
    Exponential,
    FollowUp,
    Staircase,
    Uniform,
    ZeroInflatedUniform,
    audit_log,
    choose_gap,
    choose_gaps,
    find_batches,
    linkage_attack,
    optimal_attack,
    post,
)
from peerveil.timing.adversary import partial_adoption
from peerveil.timing.batches import count_joint
from peerveil.timing.figures import audit_page
from peerveil.timing.plan import covered, intervals

LOG = Path(__file__).parent / "data" / "wikipedia_edits_2015_09_12.csv.gz"


@pytest.fixture(scope="module")
def edits() -> Events:
    return Events.read(LOG, columns={"actor": "user", "thread": "page"}, extra=["wiki"])


@pytest.mark.parametrize("informed", [False, True])
def test_counted_pairs_are_the_listed_ones(informed: bool) -> None:
    rng = np.random.default_rng(5)
    n = 120
    events = Events(
        actor=rng.integers(0, 8, n), thread=rng.integers(0, 5, n), time=1_600_000_000 + rng.integers(0, 4000, n)
    )
    _, schedule = post(
        events,
        mechanism=FollowUp(epsilon=1, gap=600, window=120),
        randomness=Randomness.simulation(1),
        adopters=range(4),
    )
    group = rng.integers(0, 3, n)
    gap = np.array([100.0, 200.0, 400.0])[group]
    cuts = np.array([0.3, 1.0, 3.0]) if informed else np.array([0.0, 30.0, 300.0, 900.0])
    for among in ("everybody", "adopters", "others"):
        attack = linkage_attack(schedule, thresholds=cuts, within=group, gaps=gap if informed else None, among=among)
        for k, cut in enumerate(cuts):
            flagged = right = batched = 0
            for i, j in combinations(range(n), 2):
                if group[i] != group[j] or schedule.thread[i] == schedule.thread[j]:
                    continue
                close = abs(schedule.posted[i] - schedule.posted[j]) / 1e6 <= cut * (gap[i] if informed else 1)
                pair = (
                    schedule.actor[i] == schedule.actor[j]
                    and abs(schedule.arrival[i] - schedule.arrival[j]) <= 120_000_000
                )
                pair &= among == "everybody" or bool(schedule.adopted[i]) is (among == "adopters")
                flagged, right, batched = flagged + close, right + (close and pair), batched + pair
            assert (attack.flagged[k], attack.right[k], attack.batched) == (flagged, right, batched)
    assert linkage_attack(schedule, within=group).informed is False


def test_a_crowded_group_is_counted_with_a_tree() -> None:
    rng = np.random.default_rng(1)
    n = 3000
    arrival, value = np.sort(rng.integers(0, 1000, n)), rng.random(n) * 500
    limits = np.array([1.0, 10.0, 100.0])
    got = count_joint(np.zeros(n, dtype=np.int64), arrival, value, 900, limits)
    near = np.abs(arrival[:, None] - arrival) <= 900
    apart = np.abs(value[:, None] - value)
    upper = np.triu(near, 1)
    assert got.tolist() == [*(int((upper & (apart <= x)).sum()) for x in limits), int(upper.sum())]


def test_a_million_events_of_one_actor_in_one_second() -> None:
    n = 1_000_000  # 5 * 10^11 pairs: listing them would take hours
    events = Events(actor=np.zeros(n, dtype=int), thread=np.arange(n), time=np.full(n, 1_600_000_000))
    attack = linkage_attack(events, thresholds=[1.0], window=300)
    assert attack.batched == n * (n - 1) // 2
    assert (attack.precision[0], attack.recall[0]) == (1.0, 1.0)


def test_wrong_attacks_are_named(edits: Events) -> None:
    posted, schedule = post(
        edits, mechanism=FollowUp(epsilon=1, gap=600, window=60), randomness=Randomness.simulation(1)
    )
    for bad, argument in (
        (lambda: linkage_attack(edits), "window"),
        (lambda: linkage_attack([1]), "log"),
        (lambda: linkage_attack(posted), "log"),
        (lambda: linkage_attack(schedule, thresholds=[-1.0]), "thresholds"),
        (lambda: linkage_attack(schedule, within=[1, 2]), "within"),
        (lambda: linkage_attack(schedule, gaps=np.ones(3)), "gaps"),
        (lambda: linkage_attack(schedule, gaps=np.arange(1.0, 20_026.0)), "gaps"),
        (lambda: linkage_attack(schedule, among="all"), "among"),
        (lambda: optimal_attack(FollowUp(epsilon=1, gap=60), -1), "separation"),
        (lambda: optimal_attack(FollowUp(epsilon=1, gap=60), 1, order="random"), "order"),
        (lambda: optimal_attack(FollowUp(epsilon=1, gap=60), 1, cells=2), "cells"),
        (lambda: optimal_attack("x", 1), "mechanism"),  # type: ignore[arg-type]
        (lambda: choose_gap([1.0]), "percentile"),
        (lambda: choose_gap([1.0], percentile=50, crossover=0.1), "percentile"),
        (lambda: choose_gap([1.0], crossover=0.1), "epsilon"),
        (lambda: choose_gap([-1.0], percentile=50), "history"),
        (lambda: intervals(edits, between="people"), "between"),  # type: ignore[arg-type]
    ):
        with pytest.raises(BadInput) as error:
            bad()
        assert error.value.argument == argument


# ---- the best attack ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_the_best_attack_stays_under_proposition_5_1(epsilon: float) -> None:
    gap = 660.0
    plain = [kind(epsilon=epsilon, gap=gap) for kind in (FollowUp, Uniform, Exponential, Staircase)]
    for mechanism in (*plain, ZeroInflatedUniform(epsilon=epsilon, gap=gap, weight=0.2)):
        for separation in (gap, gap / 3, (0, gap), (0, 2 * gap)):
            for order in ("unknown", "known", "known in batches"):
                attack = optimal_attack(mechanism, separation, order=order, cells=60)
                assert (attack.power <= attack.bound(attack.type_one) + 1e-6).all(), (mechanism, separation, order)
                assert attack.crossover >= attack.least_crossover - 1e-6
                assert (np.diff(attack.power) >= -1e-12).all()


def test_the_attack_agrees_with_a_simulated_likelihood_ratio_test() -> None:
    """For one known separation b, u are uniform pieces: count outputs in the region where the ratio is e^epsilon."""
    mechanism = FollowUp(epsilon=1, gap=660)
    attack = optimal_attack(mechanism, 660.0, order="known")
    drawn = mechanism.draw(np.zeros(200_000, dtype=bool), Randomness.simulation(1)) + 660.0
    type_one = float(np.mean(drawn <= mechanism.max_delay))  # b > 0 there, so that power is 1
    assert float(attack.type_one[np.argmax(attack.power >= 1 - 1e-9)]) == pytest.approx(type_one, abs=0.006)


def test_a_shorter_delay_helps_the_attacker() -> None:
    from peerveil.timing.check import shortened

    honest = FollowUp(epsilon=1, gap=660)
    broken = optimal_attack(shortened(honest), 660.0, order="known")
    assert broken.crossover < optimal_attack(honest, 660.0, order="known").crossover - 0.02
    assert float(broken.posterior(10)) == 1.0
    assert float(optimal_attack(honest, 660.0, order="known").posterior(10)) == pytest.approx(
        math.e / (math.e + 9), rel=1e-3
    )


# ---- choosing ----------------------------------------------------------------------------------------------------


def test_choosing_a_gap(edits: Events) -> None:
    assert choose_gap(range(1, 101), percentile=25) == 25
    assert choose_gap(range(1, 101), crossover=0.25, epsilon=0.8) == 75
    with pytest.raises(BadInput, match="no gap does more"):
        choose_gap(range(1, 101), crossover=0.32, epsilon=0.8)
    gap = choose_gap(edits, percentile=50, window=300)
    assert gap > 300
    assert covered(edits, gap=gap, window=300) == pytest.approx(0.5, abs=0.01)
    wanted = choose_gap(edits, crossover=0.2, epsilon=1, window=300)
    share = covered(edits, gap=wanted, window=300)
    assert share / (share + math.e) >= 0.2  # Proposition 5.1 then leaves at least this
    per = choose_gaps(edits, percentile=50, per="wiki", between="actor", window=300)
    assert set(per) == set(edits.frame["wiki"].unique().to_list())
    log = edits.frame.filter(edits.frame["wiki"] == "de.wikipedia")
    threads = choose_gaps(Events.from_frame(log), percentile=50, default=600)
    assert 600 in threads.values()
    with pytest.raises(BadInput, match="history"):
        choose_gap(Events(actor=["a"], thread=[1], time=[1e9]), percentile=50)


# ---- the whole ---------------------------------------------------------------------------------------------------


def test_the_real_edits_end_to_end_with_a_picture(edits: Events, tmp_path: Path) -> None:
    audit = audit_log(edits, within="wiki", randomness=Randomness.simulation(1))
    assert audit.events == 20_025
    assert audit.actors == 7_463
    assert 0.3 < audit.batches.same_rate < 0.35
    assert audit.raw.precision_at(0.5) > 5 * audit.protected[0].attack.precision_at(0.5)
    assert audit.recommended is not None
    assert audit.recommended.best_attack.crossover >= 0.25
    assert "Delay every post once" in audit.recommendation
    assert "by predecessor" not in audit.recommendation  # plain words
    assert str(audit).count("epsilon") >= 3
    page = audit_page(audit, edits).write(tmp_path / "audit.html").read_text()
    assert page.count("<svg ") == 3
    assert audit.to_dict()["batches"] == len(find_batches(edits, window=300))


def test_audits_of_small_and_strange_logs() -> None:
    log = Events(actor=["a"], thread=[1], time=[1e9])
    audit = audit_log(log)
    assert "No name appears on two threads" in audit.recommendation
    assert audit.summary().startswith("This log cannot tell.")
    apart = audit_log(Events(actor=["a", "a"], thread=[1, 2], time=[1e9, 1e9 + 86_400]))
    assert "Nobody in this log commented on two threads in one sitting" in apart.recommendation
    assert apart.summary().startswith("Not by this")
    assert audit.protected == ()
    audit_page(audit, log)
    pair = Events(actor=["a", "a"], thread=[1, 2], time=[1e9, 1e9 + 60], extra={"number": [1, 2]})
    assert "Too little history" in audit_log(pair).recommendation
    audit = audit_log(pair, gap=3600)
    assert len(audit.protected) == 3
    assert "number" in audit.recommendation
    audit_page(audit, pair)


def test_partial_adoption_protects_those_who_adopt() -> None:
    rows = partial_adoption(
        wikipedia_like(3000, days=7), mechanism=FollowUp(epsilon=1, gap=1800, window=300), shares=(0.0, 0.5, 1.0)
    )
    assert rows[0].mean_delay == 0
    assert rows[1].adopters < 0.5 * rows[1].others
    assert rows[2].precision < 0.5 * rows[0].precision


@pytest.mark.slow
def test_an_audit_of_a_month_of_wikipedia() -> None:
    audit = audit_log(many_events(3_500_000), randomness=Randomness.simulation(1))
    assert audit.events == 3_500_000
    assert 0 < audit.batches.other_error < 0.01 * audit.batches.other_rate
    assert audit.raw.at_half.precision > 100 * audit.protected[0].attack.at_half.precision
