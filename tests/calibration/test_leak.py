"""Gain and leak of every option: the attack against closed forms and enumeration, and what the page says."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from peerveil.calibration import Affine, Panel, Threshold, Uncertain, plan_leak
from peerveil.calibration.affine import AffineScores, among_best, best_papers
from peerveil.calibration.exchange import Exchanges, balance_odds, balanced
from peerveil.core.errors import BadInput
from peerveil.data import Reviews


def setting(deviation: float, papers: int = 60, each: int = 3, seed: int = 0) -> tuple[Reviews, dict[int, Affine]]:
    """Every reviewer writes as many reviews as every paper has: one order of reviewers, shifted."""
    rng = np.random.default_rng(seed)
    writers = rng.permutation(papers)
    table = np.array([np.roll(writers, 7 * k + 1) for k in range(each)]).T
    bias = deviation * rng.standard_normal(papers)
    reviews = Reviews(paper=np.repeat(np.arange(papers), each), reviewer=table.ravel(), score=np.zeros(papers * each))
    return reviews, {j: Affine(1.0, float(bias[j])) for j in range(papers)}


def test_evidence_and_beliefs_agree_with_panels() -> None:
    """The closed forms against the panel's own beliefs: posterior of two candidates, and expected qualities."""
    rng = np.random.default_rng(1)
    people = [Affine(float(a), float(b)) for a, b in zip(rng.uniform(0.5, 1.5, 4), rng.normal(size=4), strict=True)]
    scale, bias = np.array([[one.scale, one.bias] for one in people]).T
    scores = rng.standard_normal(4)
    model = AffineScores(np.array([0, 0, 1, 1]), np.arange(4), scale, bias, 0.7)
    other = np.array([0, 3, 2, 1])
    panel = Panel([scores[:2].tolist(), scores[2:].tolist()], people, 0.7, Threshold(0.0), [(0, 1, 2, 3), (0, 3, 2, 1)])
    odds = float((model.beliefs(scores)[2] - model.beliefs(scores, other)[2]).sum())
    assert np.log(panel.posterior[0] / panel.posterior[1]) == pytest.approx(odds, abs=1e-9)
    expected = panel.posterior @ np.array([model.beliefs(scores)[0], model.beliefs(scores, other)[0]])
    assert panel.expected() == pytest.approx(expected, abs=1e-9)
    exchanges = Exchanges.of(model, [np.array([0, 1])])
    place = exchanges.first.tolist().index(1)
    assert exchanges.log_odds(model, scores, model.writer)[place] == pytest.approx(odds, abs=1e-9)


@pytest.mark.parametrize("deviation", [0.5, 1.0])
def test_scores_alone_give_away_what_theory_says(deviation: float) -> None:
    """Quality and noise 1, three reviews: the guess is right with probability 1/2 + arctan(c)/pi, c^2 = 3 deviation^2 / 4.

    The score of a review, given the two others of its paper, has variance 4/3; the log-odds of an exchange of biases that
    differ by d have mean m = 3 d^2/4 and variance 2 m, and d is N(0, 2 deviation^2).
    """
    reviews, people = setting(deviation, papers=240)
    few: dict[str, object] = {"epsilons": (), "demands": (), "strengths": (), "group_sizes": (2,)}
    plan = plan_leak(reviews, functions=people, noise=1.0, accept=60, conferences=6, **few)  # type: ignore[arg-type]
    theory = 0.5 + np.arctan(np.sqrt(0.75) * deviation) / np.pi
    assert plan.scores_alone == pytest.approx(theory, abs=0.03)  # 2,160 exchanges of the same 240 reviewers
    plain, opened, groups = plan.options
    assert opened.leak > plain.leak
    assert opened.certain_near_line > plain.certain_near_line + 0.05
    assert opened.gain > groups.gain > 0
    assert groups.leak == plain.leak


def test_the_plan_compares_all_options_and_says_what_to_do() -> None:
    reviews, people = setting(1.2)
    plan = plan_leak(reviews, functions=people, noise=1.0, accept=15, conferences=4, group_sizes=(2,))
    kinds = [one.kind for one in plan.options]
    assert kinds == ["plain", "open", "groups", "panel", "panel each", *["lottery"] * 3, *["balance"] * 3]
    assert "Recommended: " in plan.recommendation
    assert "Scores alone" in plan.recommendation
    rows = {one.name: one for one in plan.options}
    assert rows["balanced committees, strength 2"].leak > rows["balanced committees, strength 0.5"].leak
    assert plan.table().height == len(plan.options)
    assert plan.plot().get_title(loc="left").startswith("Scores alone")
    again = plan_leak(reviews, functions=people, noise=1.0, accept=15, conferences=4, group_sizes=(2,))
    assert again == plan


def test_where_nothing_is_to_be_gained_it_says_so() -> None:
    reviews, people = setting(0.0)
    plan = plan_leak(reviews, functions=people, noise=1.0, accept=15, conferences=3, group_sizes=(2,), strengths=())
    assert plan.recommendation.startswith("Recommended: the plain mean. Even open calibration gains only")
    assert plan.recommended is None
    assert all(abs(one.leak - 0.5) < 1e-9 for one in plan.options)
    poor = replace(plan, options=(plan.options[0], replace(plan.options[1], gain=0.05)))
    assert "No private option gains 0.01 or more" in poor.recommendation


def test_balanced_committees_follow_their_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two papers of two reviews: the chain visits the 24 orders as often as the law says; the odds are that law's."""
    monkeypatch.setattr("peerveil.calibration.exchange._SWEEPS", 200)  # so few orders lie far apart
    rng = np.random.default_rng(3)
    model = AffineScores(np.array([0, 0, 1, 1]), np.arange(4), np.ones(4), np.array([1.0, -1.2, 0.7, -0.4]), 1.0)
    bias = (model.bias - model.bias.mean()) / model.bias.std()
    orders = [np.array(order) for order in permutations(range(4))]
    weight = np.array([np.exp(-0.8 * sum(bias[o[i : i + 2]].sum() ** 2 / 2 for i in (0, 2))) for o in orders])
    weight /= weight.sum()
    counts = np.zeros(24)
    for _ in range(1500):
        drawn = tuple(balanced(model, 0.8, rng).tolist())
        counts[[tuple(o) for o in orders].index(drawn)] += 1
    assert (np.abs(counts - 1500 * weight) <= 5 * np.sqrt(1500 * weight * (1 - weight)) + 1).all()
    exchanges = Exchanges.of(model, [np.array([0, 1])])
    odds = balance_odds(model, exchanges, model.writer, 0.8)
    listed = [tuple(o) for o in orders]
    for index in range(len(odds)):
        other = tuple(exchanges.writers(model.writer, index).tolist())
        assert odds[index] == pytest.approx(np.log(weight[listed.index((0, 1, 2, 3))] / weight[listed.index(other)]))


def test_limits_on_who_may_review_what_are_kept() -> None:
    reviews, people = setting(1.0)
    model = AffineScores.of(reviews, people, 1.0)
    area = np.arange(60) % 4
    writer = balanced(model, 2.0, np.random.default_rng(1), area)
    for one in range(4):
        inside = area[model.paper] == one
        assert sorted(writer[inside]) == sorted(model.writer[inside])
    assert all(len(set(writer[model.paper == paper])) == 3 for paper in range(60))


def test_among_best_adds_up_and_ties_go_to_the_first() -> None:
    chances = among_best(np.array([0.3, -0.1, 0.8]), np.array([0.5, 0.5, 0.2]), 2)
    assert chances.sum() == pytest.approx(2)
    assert best_papers(np.array([1.0, 1.0, 0.0]), 1).tolist() == [1, 0, 0]
    assert among_best(np.zeros(3), np.ones(3), 0).tolist() == [0, 0, 0]


def test_bad_settings_are_refused() -> None:
    reviews, people = setting(1.0, papers=12)
    good = {"functions": people, "noise": 1.0, "accept": 3, "conferences": 1}
    for wrong, match in (
        ({"noise": 0}, "noise"),
        ({"group_sizes": ()}, "group_sizes"),
        ({"group_sizes": (9,)}, "group_sizes"),
        ({"epsilons": (-1,)}, "epsilon"),
        ({"demands": (2,)}, "demands"),
        ({"strengths": (-1,)}, "strengths"),
        ({"accept": 13}, "accept"),
        ({"conferences": 0}, "conferences"),
        ({"functions": {}}, "functions"),
    ):
        with pytest.raises(BadInput, match=match):
            plan_leak(reviews, **(good | wrong))  # type: ignore[arg-type]
    uncertain = {j: Uncertain((one, one)) for j, one in people.items()}
    few = {"epsilons": (), "strengths": (), "group_sizes": (2,)}
    assert plan_leak(reviews, **(good | few | {"functions": uncertain})) == plan_leak(reviews, **(good | few))  # type: ignore[arg-type]
