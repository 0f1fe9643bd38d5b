"""Pairs: closed form, printed theorems and linear program agree; ties, boundaries, refusals."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from peerveil.calibration import Affine, Monotone, Pair, Panel, Uncertain
from peerveil.calibration.pair import pair_frontiers
from peerveil.calibration.simulate import simulate_pairs
from peerveil.calibration.strategy import guess_errors
from peerveil.core.errors import BadInput
from peerveil.core.randomness import Randomness

REVIEWERS = (Affine(1, 0.5), Affine(1, -0.5))


def instances(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores near each other, so that most pairs are torn."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(count, 1)) + 0.5 * rng.normal(size=(count, 2))
    return scores, np.exp(0.5 * rng.normal(size=(count, 2))), rng.normal(size=(count, 2))


def printed_theorem(
    s: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    sigma: float,
) -> tuple[tuple[float, float], tuple[float, float], tuple[bool, bool, bool]]:
    """Theorem 4.5 case by case, from (4.1) with its formulas as they stand; densities with the noise in them."""
    v1, v2 = a[0] ** 2 + sigma**2, a[1] ** 2 + sigma**2
    root = math.sqrt(sigma**2 * (a[0] ** 2 + a[1] ** 2 + 2 * sigma**2) * v1 * v2)
    p1 = norm.cdf((a[1] * v1 * (s[1] - b[1]) - a[0] * v2 * (s[0] - b[0])) / root)
    p2 = norm.cdf((a[0] * v2 * (s[1] - b[0]) - a[1] * v1 * (s[0] - b[1])) / root)
    f = [[norm.pdf(s[i], b[j], math.sqrt((v1, v2)[j])) for j in (0, 1)] for i in (0, 1)]
    u, v = f[0][0] * f[1][1], f[0][1] * f[1][0]
    u, v = u / (u + v), v / (u + v)
    low = min(u, v)
    case = bool(u < v), bool(p1 < 0.5), bool(abs(p2 - 0.5) < abs(p1 - 0.5))
    if p1 <= 0.5 and p2 <= 0.5:
        point = u * p1 + v * p2, low
        return point, point, case
    if p1 >= 0.5 and p2 >= 0.5:
        point = u * (1 - p1) + v * (1 - p2), low
        return point, point, case
    if p1 < 0.5:  # the printed case u < v, near Phi_2, and its three mirror images in u, v and nearness
        start = u * p1 + v * (1 - p2)
        cost = (2 * p2 - 1) if case[2] else (1 - 2 * p1)
    else:
        start = u * (1 - p1) + v * p2
        cost = (1 - 2 * p2) if case[2] else (2 * p1 - 1)
    return (start, 0.0), (start + low * cost, low), case


def test_closed_form_theorems_and_program_agree_on_all_eight_cases_and_without_noise() -> None:
    """5,600 instances: the array form against the case-by-case theorem; every tenth against the linear program too."""
    seen: dict[tuple[bool, ...], int] = {}
    worst = 0.0
    for seed, sigma in enumerate((0.02, 0.2, 0.5, 1.0)):
        s, a, b = instances(1400, seed)
        found = pair_frontiers(s, scales=a, biases=b, noise=sigma)
        for i in range(len(s)):
            start, end, case = printed_theorem(s[i], a[i], b[i], sigma)
            worst = max(worst, float(np.abs([*found.start[i], *found.end[i]] - np.array([*start, *end])).max()))
            if end[1] > start[1]:
                seen[case] = seen.get(case, 0) + 1
    assert worst < 1e-9
    assert set(seen) == set(product((False, True), repeat=3))
    assert min(seen.values()) > 30


@pytest.mark.parametrize("sigma", [0.0, 1e-7, 0.1, 0.7])
def test_pair_array_and_panel_agree(sigma: float) -> None:
    s, a, b = instances(100, 11)
    found = pair_frontiers(s, scales=a, biases=b, noise=sigma)
    torn = 0
    for i in range(len(s)):
        people = [Affine(*one) for one in zip(a[i], b[i], strict=True)]
        pair, panel = Pair(s[i], people, sigma).frontier(), Panel(s[i], people, sigma, 1).frontier()
        torn += len(pair.points) == 2
        for mine, other in ((pair.start, panel.start), (pair.end, panel.end)):
            assert np.allclose(mine, other, atol=1e-9, rtol=0)
        assert np.allclose(pair.start, found.start[i], atol=1e-9, rtol=0)
        assert np.allclose(pair.end, found.end[i], atol=1e-9, rtol=0)
    assert torn > 20


@pytest.mark.slow
def test_program_agrees_on_five_thousand_instances() -> None:
    for seed, sigma in enumerate((0.0, 1e-8, 0.1, 0.4, 1.0)):
        s, a, b = instances(1000, 100 + seed)
        found = pair_frontiers(s, scales=a, biases=b, noise=sigma)
        for i in range(len(s)):
            panel = Panel(s[i], [Affine(*one) for one in zip(a[i], b[i], strict=True)], sigma, 1).frontier()
            assert np.allclose(panel.start, found.start[i], atol=1e-9, rtol=0)
            assert np.allclose(panel.end, found.end[i], atol=1e-9, rtol=0)


def test_noise_to_zero_is_the_noiseless_theorem() -> None:
    s, a, b = instances(2000, 5)
    tiny, none = (pair_frontiers(s, scales=a, biases=b, noise=noise) for noise in (1e-9, 0.0))
    assert np.allclose(tiny.start, none.start, atol=1e-6)
    assert np.allclose(tiny.end, none.end, atol=1e-6)
    torn = none.end[:, 1] > none.start[:, 1]
    assert torn.sum() > 500
    assert np.allclose(none.end[torn, 0], none.end[torn, 1])  # slope 1 from the origin
    assert (none.start[:, 0] == 0).all()


def test_strategies_reach_what_they_promise() -> None:
    s, a, b = instances(200, 6)
    for i in range(len(s)):
        for sigma in (0.0, 0.3):
            pair = Pair(s[i], [Affine(*one) for one in zip(a[i], b[i], strict=True)], sigma)
            frontier = pair.frontier()
            asked = 0.4 * frontier.end[1]
            made = pair.strategy(adversary_error=asked)
            assert made.adversary_error >= asked - 1e-12
            assert made.conference_error == pytest.approx(frontier.conference_error(asked), abs=1e-12)
            again = pair.strategy(conference_error=made.conference_error)
            assert again.adversary_error == pytest.approx(made.adversary_error, abs=1e-9)
            assert all(0 <= q <= 1 for q in made.keep)
            assert pair.strategy(conference_error=1.0).adversary_error == pytest.approx(frontier.end[1], abs=1e-12)


def test_no_random_strategy_beats_the_frontier() -> None:
    rng = np.random.default_rng(7)
    s, a, b = instances(60, 8)
    for i in range(len(s)):
        for sigma in (0.0, 0.4):
            pair = Pair(s[i], [Affine(*one) for one in zip(a[i], b[i], strict=True)], sigma)
            frontier, p = pair.frontier(), np.array(pair.posterior)
            for accept in rng.beta(0.5, 0.5, size=(200, 2)):
                table = np.column_stack([accept, 1 - accept])
                cost = float((p[:, None] * table * np.array(pair.errors)).sum())
                assert (
                    guess_errors(((0, 1), (1, 0)), p, table, "assignment")[0] <= frontier.adversary_error(cost) + 1e-9
                )


def test_densities_must_hold_the_noise() -> None:
    """Section 3's f_j without noise gives another posterior than Bayes' rule by simulation; ours gives the same."""
    pair = Pair((1.0, -0.4), (Affine(1.0, 0.5), Affine(0.6, -0.5)), noise=0.8)
    rng = np.random.default_rng(3)
    quality = rng.normal(size=(2_000_000, 2))
    noise = 0.8 * rng.normal(size=quality.shape)
    near = []
    for order in ((0, 1), (1, 0)):
        scale, bias = np.array([1.0, 0.6])[list(order)], np.array([0.5, -0.5])[list(order)]
        near.append(int((np.abs(scale * quality + bias + noise - [1.0, -0.4]) < 0.1).all(axis=1).sum()))
    share = near[0] / sum(near)
    error = math.sqrt(share * (1 - share) / sum(near))
    assert abs(pair.posterior[0] - share) < 5 * error + 0.002
    u = norm.pdf(1.0, 0.5, 1.0) * norm.pdf(-0.4, -0.5, 0.6)
    v = norm.pdf(1.0, -0.5, 0.6) * norm.pdf(-0.4, 0.5, 1.0)
    assert abs(u / (u + v) - share) > 10 * error


def test_ties_are_no_errors_without_noise() -> None:
    first, second = Affine(2.0, 0.0), Affine(1.0, 0.0)
    pair = Pair((2.0, 1.0), (first, second))  # equal qualities under assignment 0, paper 0 better under assignment 1
    assert pair.favorites == (None, 0)
    assert len(pair.frontier().points) == 1
    assert pair.frontier().start == pytest.approx((0.0, min(pair.posterior)))
    made = pair.strategy(adversary_error=0.0)
    assert made.table.tolist() == [[1.0, 0.0], [1.0, 0.0]]
    both = Pair((0.3, 0.3), (first, first))
    assert both.favorites == (None, None)
    assert both.strategy(conference_error=0.0).table.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert both.frontier().start == (0.0, 0.5)


def line(scale: float, bias: float) -> Monotone:
    return Monotone(lambda x: scale * x + bias, lambda y: (y - bias) / scale)


def test_general_functions_by_quadrature_agree_with_the_closed_form() -> None:
    rng = np.random.default_rng(9)
    for sigma in (0.003, 0.05, 0.4, 1.5):
        for _ in range(6):
            a, b, s = np.exp(0.5 * rng.normal(size=2)), rng.normal(size=2), 1.5 * rng.normal(size=2)
            straight = [Affine(*one) for one in zip(a, b, strict=True)]
            general = [line(*one) for one in zip(a.tolist(), b.tolist(), strict=True)]
            mine, other = Pair(s.tolist(), general, sigma), Pair(s.tolist(), straight, sigma)
            assert np.allclose(mine.posterior, other.posterior, atol=1e-9)
            assert np.allclose(mine.errors, other.errors, atol=1e-9)


def test_a_prior_and_uncertain_reviewers() -> None:
    moved = Pair((0.6, 0.5), (Affine(1, 0.5), Affine(0.5, -0.5)), 0.4, prior=(2.0, 3.0))
    plain = Pair((0.6, 0.5), (Affine(3, 2.5), Affine(1.5, 0.5)), 0.4)
    assert moved.posterior == pytest.approx(plain.posterior)
    assert np.allclose(moved.errors, plain.errors)
    known = Pair((0.6, 0.5), REVIEWERS, 0.5)
    same = Pair((0.6, 0.5), [Uncertain((one, one, one)) for one in REVIEWERS], 0.5)
    assert same.posterior == pytest.approx(known.posterior, abs=1e-12)
    wide = Pair((0.6, 0.5), [Uncertain((Affine(0.5, one.bias), Affine(1, one.bias))) for one in REVIEWERS], 0.5)
    assert max(wide.posterior) <= 1
    assert not np.allclose(wide.errors, known.errors)


def test_decisions_follow_the_table_and_carry_the_promise() -> None:
    strategy = Pair((0.6, 0.5), REVIEWERS, 0.5).strategy(adversary_error=0.3)
    drawn = strategy.decide((0, 1))
    assert drawn.guarantee.private
    assert drawn.guarantee.error is not None
    assert drawn.guarantee.error <= 0.3 + 1e-12
    assert (
        "guesses which of the two reviewers wrote which review (chosen before decisions are known; on average over"
        in str(drawn)
    )
    again = type(strategy).__mro__[1].from_dict(strategy.to_dict())  # type: ignore[attr-defined]
    assert again.adversary_error == strategy.adversary_error
    randomness, count = Randomness.simulation(2), 4000
    hits = sum(strategy.decide(0, randomness=randomness).accepted == (0,) for _ in range(count))
    chance = strategy.table[0, 0]
    assert abs(hits / count - chance) < 5 * math.sqrt(chance * (1 - chance) / count)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Affine(0.0), "scale: got 0.0"),
        (lambda: Affine(-1.0), "a finite number above 0"),
        (lambda: Affine(1.0, float("nan")), "bias"),
        (lambda: Monotone(lambda x: -x, lambda y: -y), "increases"),
        (lambda: Monotone(np.exp, lambda y: y), "the inverse of function"),
        (lambda: Monotone(points=[(0, 1), (1, 1)]), "strictly increasing"),
        (lambda: Monotone(), "a function with its inverse, or points"),
        (lambda: Pair((1.0, 2.0), REVIEWERS, -0.1), "standard deviation"),
        (lambda: Pair((1.0, 2.0, 3.0), REVIEWERS), "two scores"),
        (lambda: Pair((1.0, float("inf")), REVIEWERS), "finite"),
        (lambda: Pair((1.0, 2.0), REVIEWERS[:1]), "functions"),
        (lambda: Pair((0.6, 0.5), REVIEWERS, 0.5).strategy(), "exactly one"),
        (lambda: Pair((0.6, 0.5), REVIEWERS, 0.5).strategy(conference_error=0.01), "from 0.105"),
        (lambda: Pair((0.6, 0.5), REVIEWERS, 0.5).strategy(adversary_error=0.49), "to 0.4800"),
        (lambda: Pair((-1.0, -2.0), (Monotone(np.exp, np.log),) * 2), "at least one assignment can explain"),
        (lambda: pair_frontiers([[0.0, 1.0]], scales=[1.0, 0.0], biases=[0.0, 0.0]), "scales"),
        (lambda: pair_frontiers([[0.0, 1.0, 2.0]], scales=[1.0, 1.0], biases=[0.0, 0.0]), "scores"),
    ],
)
def test_bad_input_is_named(call: object, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        call()  # type: ignore[operator]


def test_unlikely_scores_do_not_divide_nothing_by_nothing() -> None:
    for scores in ((1e6, -1e6), (1e20, 1e20), (300.0, 299.0)):
        for noise in (0.0, 0.3):
            pair = Pair(scores, (Affine(1, 0.5), Affine(0.7, -0.5)), noise)
            assert sum(pair.posterior) == pytest.approx(1.0)
            assert np.isfinite(pair.frontier().points).all()
    half = Pair((0.5, 2.0), (Monotone(np.tanh, np.arctanh), Affine(1.0)))  # a score of 2 is beyond the first
    assert half.posterior.tolist() == [1.0, 0.0]
    assert half.frontier().points == ((0.0, 0.0),)


def test_points_are_interpolated_monotonically_and_inverted() -> None:
    curve = Monotone(points=[(-2, 1), (-1, 1.1), (0, 5), (0.5, 5.01), (2, 9)])
    x = np.linspace(-5, 5, 2001)
    y = curve.score(x)
    assert (np.diff(y) > 0).all()
    assert np.allclose(curve.quality(y), x, atol=1e-7)
    assert np.allclose([float(curve.quality(one)) for one in y], x, atol=1e-7)  # also one score at a time
    middle = (curve.score(x + 1e-6) - curve.score(x - 1e-6)) / 2e-6
    assert np.allclose(curve.slope(x), middle, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.05, 0.4, 1.0])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_simulation_meets_the_promise_of_every_pair_strategy(noise: float, share: float) -> None:
    found = simulate_pairs([Affine(1.0, 0.5), Affine(0.7, -0.5)], noise=noise, share=share, draws=1_000_000, seed=3)
    assert abs(found.conference.distance) < 5
    assert abs(found.adversary.distance) < 5
