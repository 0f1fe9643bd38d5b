"""Panels: the linear program against brute force, random search, simulation; quotas, thresholds, candidates."""

from __future__ import annotations

import json

import numpy as np
import pytest

from peerveil.audit import exact_loss
from peerveil.calibration import (
    Affine,
    MapAdversary,
    Monotone,
    Pair,
    Panel,
    Strategy,
    Threshold,
    Uncertain,
    respond_assignment,
)
from peerveil.calibration.pair import PairStrategy
from peerveil.calibration.problem import all_assignments
from peerveil.calibration.program import LinearProgramFailed
from peerveil.calibration.simulate import simulate_panel, simulate_panels
from peerveil.calibration.strategy import guess_errors
from peerveil.core.errors import BadInput
from peerveil.core.randomness import Randomness

FOUR = [Affine(1.2, 0.3), Affine(0.8, -0.6), Affine(1.0, 0.4), Affine(0.9, 0.0)]
SCORES = [0.4, 0.1, 0.9, -0.2]


def halfway(panel: Panel) -> Strategy:
    frontier = panel.frontier(most=10)
    return panel.strategy(adversary_error=(frontier.start[1] + frontier.end[1]) / 2)


@pytest.mark.parametrize("adversary", ["paper", "assignment"])
def test_the_frontier_is_convex_met_and_not_beaten(adversary: str) -> None:
    panel = Panel(SCORES, FOUR, 0.4, 2, adversary=adversary)
    frontier = panel.frontier(tolerance=1e-7)
    cost, gain = (np.array(part) for part in zip(*frontier.points, strict=True))
    slopes = np.diff(cost) / np.diff(gain)
    assert (np.diff(slopes) > -1e-6).all()
    for share in (0.2, 0.7):
        asked = float(gain[0] + share * (gain[-1] - gain[0]))
        made = panel.strategy(adversary_error=asked)
        assert made.adversary_error >= asked - 1e-12
        assert made.conference_error == pytest.approx(frontier.conference_error(asked), abs=2e-7)
        back = panel.strategy(conference_error=made.conference_error)
        assert back.adversary_error == pytest.approx(made.adversary_error, abs=1e-6)
    rng = np.random.default_rng(1)
    for _ in range(500):
        table = rng.dirichlet(np.full(len(panel.decisions), 0.2), len(panel.assignments))
        mix = rng.random()
        table = mix * table + (1 - mix) * panel.program.greedy().table
        paid = float((panel.posterior[:, None] * table * panel.errors).sum())
        caught = guess_errors(panel.assignments, panel.posterior, table, adversary).min()
        assert caught <= frontier.adversary_error(paid) + frontier.gap + 1e-6


def test_column_generation_finds_what_the_whole_program_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    for adversary in ("paper", "assignment"):
        panel = Panel([0.4, 0.1, 0.9, -0.2, 0.5], [*FOUR, Affine(1.1, -0.2)], 0.4, 2, adversary=adversary)
        asked = np.full(len(panel.ceilings), 0.97 * float(panel.ceilings.min()))
        whole = panel.program.solve(asked)
        with monkeypatch.context() as patch:
            patch.setattr("peerveil.calibration.program._SMALL", 0)
            patch.setattr("peerveil.calibration.program._FEW", 1)
            part = panel.program.solve(asked)
        assert part.conference_error == pytest.approx(whole.conference_error, abs=1e-8)
        assert (part.adversary_errors >= asked - 1e-9).all()


def test_top_probabilities_agree_with_sampling() -> None:
    panel = Panel(SCORES, FOUR, 0.4, 2)
    rng = np.random.default_rng(2)
    row = 5
    order = panel.assignments[row]
    mean = [f.scale * (s - f.bias) / (f.scale**2 + 0.16) for s, f in zip(SCORES, (FOUR[j] for j in order), strict=True)]
    deviation = [0.4 / np.hypot(FOUR[j].scale, 0.4) for j in order]
    quality = np.array(mean) + np.array(deviation) * rng.normal(size=(400_000, 4))
    best = np.argsort(-quality, axis=1)[:, :2]
    for column, decision in enumerate(panel.decisions):
        wrong = 1 - np.isin(best, decision).sum(axis=1) / 2
        assert abs(wrong.mean() - panel.errors[row, column]) < 5 * wrong.std() / np.sqrt(len(wrong))


def test_guessing_the_whole_hides_what_guessing_one_shows() -> None:
    """A table that gives paper 0's reviewer away, while the whole assignment is guessed badly: both are computed."""
    panel = Panel(SCORES, FOUR, 0.4, 2)
    table = np.zeros(panel.errors.shape)
    for row, order in enumerate(panel.assignments):
        table[row, order[0]] = 1.0
    uniform = np.full(24, 1 / 24)
    assert guess_errors(panel.assignments, uniform, table, "paper").min() == pytest.approx(0.0)
    assert guess_errors(panel.assignments, uniform, table, "assignment")[0] == pytest.approx(1 - 4 / 24)


@pytest.mark.parametrize("adversary", ["paper", "assignment"])
@pytest.mark.parametrize("accept", [2, Threshold(0.3)])
def test_simulation_meets_the_promise(adversary: str, accept: int | Threshold) -> None:
    panel = Panel(SCORES, FOUR, 0.4, accept, adversary=adversary)
    found = simulate_panel(panel, strategy=halfway(panel), draws=100_000, seed=4)
    assert abs(found.conference.distance) < 5
    assert abs(found.adversary.distance) < 5


@pytest.mark.slow
@pytest.mark.parametrize("adversary", ["paper", "assignment"])
@pytest.mark.parametrize("kind", ["quota", "threshold", "curved", "uncertain", "several", "noiseless"])
def test_simulation_meets_the_promise_in_every_mode(adversary: str, kind: str) -> None:
    accept: int | Threshold = Threshold(0.3) if kind == "threshold" else 2
    people: list[Affine | Monotone | Uncertain] = list(FOUR)
    scores: list[float] | list[list[float]] = SCORES
    if kind == "curved":
        people[0] = Monotone(points=[(-2, -1.5), (0, 0.4), (2, 1.5)])
    if kind == "uncertain":
        people = [Uncertain((one, Affine(one.scale * 1.2, one.bias + 0.2))) for one in FOUR]
    if kind == "several":
        scores, people, accept = [[0.4, 0.2], [0.1, 0.5]], list(FOUR), 1
    panel = Panel(scores, people, 0.0 if kind == "noiseless" else 0.4, accept, adversary=adversary)
    found = simulate_panel(panel, strategy=halfway(panel), draws=1_000_000, seed=5)
    assert abs(found.conference.distance) < 5
    assert abs(found.adversary.distance) < 5


def test_a_planted_fault_is_caught_by_simulation() -> None:
    """A table that leans on the assignment more than the promised one: the count refutes the promise."""
    panel = Panel(SCORES, FOUR, 0.4, 2)
    honest = halfway(panel)
    data = honest.to_dict()
    data["table"] = (0.8 * honest.table + 0.2 * panel.program.greedy().table).tolist()
    faulty = Strategy.from_dict(data)
    found = simulate_panel(panel, strategy=faulty, draws=400_000, seed=6)
    claimed = honest.adversary_error
    assert (found.adversary.observed - claimed) / found.adversary.standard_error < -5
    assert abs(found.adversary.distance) < 5  # and the recomputed error is right


def test_quota_of_none_or_all_leaks_nothing() -> None:
    for accept in (0, 4):
        panel = Panel(SCORES, FOUR, 0.4, accept)
        frontier = panel.frontier()
        assert len(frontier.points) == 1
        assert frontier.start == pytest.approx((0.0, float(panel.ceilings.min())))
        assert panel.strategy(conference_error=0.0).decide(3, randomness=Randomness.simulation(1)).accepted == tuple(
            range(accept)
        )


def test_without_noise_ties_for_the_last_place_are_equally_right() -> None:
    same = [Affine(1.0), Affine(1.0), Affine(1.0)]
    panel = Panel([3.0, 2.0, 2.0], same, 0.0, 2)
    assert panel.decisions == ((0, 1), (0, 2), (1, 2))
    assert panel.errors[0].tolist() == [0.0, 0.0, 0.5]


def test_a_threshold_settles_what_does_not_depend_on_the_reviewer() -> None:
    panel = Panel([3.0, 0.5, -3.0, 0.6], FOUR, 0.3, Threshold(0.4))
    assert set(panel.pivotal) == {1, 3}
    assert all(0 in decision and 2 not in decision for decision in panel.decisions)
    assert len(panel.decisions) == 4


def test_a_decision_counts_all_papers() -> None:
    """The last paper is settled and rejected in every decision; none is accepted at all: the papers are still there."""
    panel = Panel([3.0, 0.5, 0.6, -3.0], FOUR, 0.3, Threshold(0.4))
    assert panel.strategy(adversary_error=0.0).decide(0, randomness=Randomness.simulation(1)).papers == 4
    assert (
        "of 4 papers: none"
        in Panel(SCORES, FOUR, 0.4, 0)
        .strategy(conference_error=0.0)
        .decide(0, randomness=Randomness.simulation(1))
        .summary()
    )
    with pytest.raises(BadInput, match="at least 2"):
        Strategy.from_dict({**Panel(SCORES[:2], FOUR[:2], 0.4, 1).strategy(adversary_error=0.1).to_dict(), "papers": 1})


def test_strategies_survive_storage() -> None:
    pair = Pair((0.6, 0.5), (Affine(1, 0.5), Affine(1, -0.5)), 0.5).strategy(adversary_error=0.3)
    for one in (pair, halfway(Panel(SCORES, FOUR, 0.4, Threshold(0.2)))):
        again = type(one).from_dict(json.loads(json.dumps(one.to_dict())))
        assert np.array_equal(again.table, one.table)
        assert (again.papers, again.adversary_error) == (one.papers, one.adversary_error)
    assert PairStrategy.from_dict(pair.to_dict()).keep == pair.keep
    with pytest.raises(BadInput, match="keep"):
        PairStrategy.from_dict(Strategy.to_dict(halfway(Panel(SCORES[:2], FOUR[:2], 0.4, 1))))


def test_a_line_with_places_fills_exactly_these() -> None:
    scores = [3.0, 0.5, -3.0, 0.6]
    panel = Panel(scores, FOUR, 0.3, Threshold(0.4, places=2))
    assert panel.decisions == ((0, 1), (0, 3))
    assert panel.pivotal == (1, 3)
    assert Panel(scores, FOUR, 0.3, Threshold(0.4, places=1)).pivotal == ()
    # two places, but at most one paper is above the line: the better of the others, depending on the reviewer, fills up
    assert Panel(scores, FOUR, 0.3, Threshold(1.5, places=2)).decisions == ((0, 1), (0, 3))
    wide = Panel(scores, FOUR, 0.3, Threshold(0.4))
    column = wide.decisions.index((0, 1))
    assert np.allclose(wide.errors[:, column], panel.errors[:, 0])
    with pytest.raises(BadInput, match="places"):
        Panel(scores, FOUR, 0.3, Threshold(0.4, places=5))


@pytest.mark.parametrize("accept", [1, Threshold(0.3)])
def test_fresh_panels_meet_the_promise_from_end_to_end(accept: int | Threshold) -> None:
    """Nothing is shared between conference and adversary but what is published: its densities are its own."""
    for noise in (0.0, 0.4):
        found = simulate_panels(FOUR[:3], noise=noise, accept=accept, adversary_error=0.4, draws=150, seed=9)
        assert abs(found.conference.distance) < 5
        assert abs(found.adversary.distance) < 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["affine", "noiseless", "curved", "noiseless curved", "uncertain", "response"])
def test_simulation_meets_the_promise_of_a_pair_in_every_mode(kind: str) -> None:
    people: list[Affine | Monotone | Uncertain] = [Affine(1.0, 0.5), Affine(0.8, -0.5)]
    if "curved" in kind:
        people[0] = Monotone(points=[(-2, -1.5), (0, 0.4), (2, 1.5)])
    if kind == "uncertain":
        people = [Uncertain((Affine(1.0, b), Affine(1.3, b + 0.2))) for b in (0.5, -0.5)]
    pair = Pair((0.55, 0.5), people, 0.0 if "noiseless" in kind else 0.5, odds=(0.4, 0.6))
    assert pair.torn
    made = respond_assignment(pair, epsilon=1).strategy if kind == "response" else None
    made = made or pair.strategy(adversary_error=0.6 * pair.frontier().end[1])
    found = simulate_panel(pair, strategy=made, draws=1_000_000, seed=8)
    assert abs(found.conference.distance) < 5
    assert abs(found.adversary.distance) < 5


@pytest.mark.slow
@pytest.mark.parametrize("adversary", ["paper", "assignment"])
@pytest.mark.parametrize("kind", ["quota", "threshold", "curved", "several", "noiseless", "noiseless curved"])
def test_fresh_panels_meet_the_promise_in_every_mode(adversary: str, kind: str) -> None:
    people: list[Affine | Monotone] = list(FOUR[:3])
    if "curved" in kind:
        people[0] = Monotone(points=[(-2, -1.5), (0, 0.4), (2, 1.5)])
    found = simulate_panels(
        people if kind != "several" else FOUR,
        noise=0.0 if "noiseless" in kind else 0.4,
        accept=Threshold(0.3) if kind == "threshold" else 1,
        adversary_error=0.4,
        reviews=[2, 2] if kind == "several" else None,
        adversary=adversary,
        draws=1_500,
        seed=10,
    )
    assert abs(found.conference.distance) < 5
    assert abs(found.adversary.distance) < 5


def test_plugging_in_means_promises_what_is_not_kept() -> None:
    """A table built from mean functions, judged under all credible ones: conference errors are understated, and on
    some panels the adversary errs less than promised. With the draws carried along both promises are exact."""
    rng = np.random.default_rng(0)
    paid, broken = [], 0.0
    for _ in range(15):
        middle = [(float(np.exp(0.2 * rng.normal())), float(0.5 * rng.normal())) for _ in range(4)]
        drawn = [
            [Affine(a * float(np.exp(0.25 * x)), b + 0.3 * float(y)) for x, y in rng.normal(size=(12, 2))]
            for a, b in middle
        ]
        means = [Affine(float(np.mean([d.scale for d in u])), float(np.mean([d.bias for d in u]))) for u in drawn]
        scores = (0.2 + 0.6 * rng.normal(size=4)).tolist()
        known = Panel(scores, [Uncertain(tuple(u)) for u in drawn], 0.4, 2)
        naive = Panel(scores, means, 0.4, 2).strategy(adversary_error=0.5, capped=True)
        real = guess_errors(known.assignments, known.posterior, naive.table, "paper").min()
        broken = max(broken, naive.adversary_error - float(real))
        paid.append(float((known.posterior[:, None] * naive.table * known.errors).sum()) - naive.conference_error)
    assert broken > 0.01
    assert np.mean(paid) > 0.02


def test_capped_asks_each_review_for_what_its_scores_leave() -> None:
    panel = Panel(SCORES, FOUR, 0.4, 2)
    made = panel.strategy(adversary_error=0.99, capped=True)
    assert np.allclose(made.review_errors, panel.ceilings, atol=1e-8)


def test_several_reviews_a_paper_and_candidates() -> None:
    assert len(all_assignments([2, 2], 4)) == 24
    panel = Panel([[0.4, 0.6], [0.2, 0.9]], FOUR, 0.5, 1)
    assert len(panel.assignments) == 24
    assert panel.frontier(most=3).end[1] == pytest.approx(float(panel.ceilings.min()), abs=1e-9)
    few = Panel(SCORES, FOUR, 0.4, 2, assignments=[(0, 1, 2, 3), (1, 0, 3, 2)], odds=[3, 1])
    assert few.posterior.shape == (2,)
    alone = Panel(SCORES, FOUR, 0.4, 2, assignments=[(0, 1, 2, 3)])
    assert alone.frontier().points[0][1] == 0.0


def test_randomized_response_is_private_exactly_and_as_printed_keeps_too_little() -> None:
    for problem in (Pair((0.6, 0.5), (Affine(1, 0.5), Affine(1, -0.5)), 0.5), Panel(SCORES, FOUR, 0.4, 2)):
        made = respond_assignment(problem, epsilon="1.5")
        rows = made.strategy.table
        for other in rows[1:]:
            assert exact_loss(rows[0].tolist(), other.tolist()).epsilon <= 1.5 + 1e-9
        assert made.response.exact_keep > made.response.probabilities(0)[1]
        assert made.decide(0, randomness=Randomness.secure()).guarantee.epsilon == 1.5
    best = Pair((0.6, 0.5), (Affine(1, 0.5), Affine(1, -0.5)), 0.5).strategy(adversary_error=0.3)
    assert best.privacy_loss == np.inf  # optimal, and not differentially private


def test_the_adversary_guesses_the_likeliest() -> None:
    panel = Panel(SCORES, FOUR, 0.4, 2)
    adversary = MapAdversary(halfway(panel))
    assert adversary.error == adversary.strategy.adversary_error
    decision = panel.decisions[int((panel.posterior @ adversary.strategy.table).argmax())]
    share = adversary.posterior(decision)
    assert share.sum() == pytest.approx(1.0)
    guess = adversary.guess(decision)
    who = np.array(panel.assignments)
    for review, reviewer in enumerate(guess):
        assert share[who[:, review] == reviewer].sum() == pytest.approx(
            max(share[who[:, review] == j].sum() for j in range(4))
        )


def test_a_solver_that_does_not_finish_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    panel = Panel(SCORES, FOUR, 0.4, 2)

    class Answer:
        status, message = 1, "iteration limit"

    monkeypatch.setattr("peerveil.calibration.program.linprog", lambda *_, **__: Answer())
    with pytest.raises(LinearProgramFailed, match="iteration limit"):
        panel.strategy(adversary_error=0.5)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Panel(SCORES, FOUR, 0.4, 5), "accept"),
        (lambda: Panel(SCORES, FOUR[:3], 0.4, 2), "cannot be shared equally"),
        (lambda: Panel(SCORES, FOUR, 0.4, 2, adversary="me"), "'paper' or 'assignment'"),
        (lambda: Panel(SCORES, FOUR, 0.4, 2, assignments=[(0, 1, 2)]), "one for every review"),
        (lambda: Panel(SCORES, FOUR, 0.4, 2, assignments=[(0, 1, 2, 3)] * 2), "every candidate once"),
        (lambda: Panel([[0.1, 0.2], [0.3]], FOUR[:3], 0.4, 1, assignments=[(0, 0, 1)]), "twice on one paper"),
        (lambda: Panel([[0.1, 0.2], [0.3, 0.4]], FOUR, 0.0, 1), "above 0"),
        (lambda: Panel([0.0] * 12, [Affine(1.0)] * 12, 0.4, 3), "candidates"),
        (lambda: Panel(SCORES, FOUR, 0.4, 2).strategy(adversary_error=0.99), "to 0.6"),
        (lambda: Panel(SCORES, FOUR, 0.4, 2).strategy(conference_error=0.01), "from 0.2"),
        (lambda: Threshold.share(1.0), "accepted"),
    ],
)
def test_bad_input_is_named(call: object, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        call()  # type: ignore[operator]
