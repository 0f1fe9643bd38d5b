"""What composes over the groups of a conference and what does not: exact joint adversaries, quotas, simulations."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from peerveil.calibration import Affine, Conference, Monotone, Threshold, Uncertain, simulate_conference
from peerveil.calibration.plan import plan_conference
from peerveil.core.errors import BadInput
from peerveil.core.randomness import Randomness
from peerveil.data import Reviews

Reviewer = Affine | Monotone | Uncertain


def made(
    papers: int,
    each: int,
    accept: int | Threshold,
    *,
    seed: int = 0,
    size: int = 3,
    kind: str = "affine",
    exchange: str = "committees",
    exactly: bool = True,
) -> Conference:
    rng = np.random.default_rng(seed)
    people = papers * each
    scale, bias = np.exp(0.3 * rng.normal(size=people)), 0.6 * rng.normal(size=people)
    paper = np.repeat(np.arange(papers), each)
    score = scale * (0.3 + 0.3 * rng.normal(size=papers))[paper] + bias + 0.3 * rng.normal(size=people)
    functions: dict[int, Reviewer] = {j: Affine(float(scale[j]), float(bias[j])) for j in range(people)}
    if kind == "uncertain":
        functions = {
            j: Uncertain(tuple(Affine(float(scale[j] * f), float(bias[j] + g)) for f, g in ((1, 0), (1.2, 0.2))))
            for j in range(people)
        }
    if kind == "curved":
        functions[0] = Monotone(points=[(-2, -1.5), (0, 0.4), (2, 1.5)])
    reviews = Reviews(paper=paper, reviewer=rng.permutation(people), score=score)
    return Conference(
        reviews, functions=functions, noise=0.3, accept=accept, group_size=size, exchange=exchange, exactly=exactly
    )


def exchanged(conference: Conference, seed: int) -> Conference:
    """The same public data with another true assignment: a random candidate in every group."""
    rng = np.random.default_rng(seed)
    rows: list[tuple[object, object, float]] = []
    for group in conference.groups():
        other = group.panel.assignments[int(rng.integers(len(group.panel.assignments)))]
        who = iter(other)
        for paper, scores in zip(group.papers, group.panel.scores, strict=True):
            rows += [(paper, group.reviewers[next(who)], score) for score in scores]
    paper, reviewer, score = zip(*rows, strict=True)
    again = Reviews(paper=paper, reviewer=reviewer, score=score)
    return Conference(
        again,
        functions=conference.functions,
        noise=conference.noise,
        accept=conference.accept,
        group_size=conference.group_size,
        exchange=conference.exchange,
    )


@pytest.mark.parametrize(
    ("each", "accept", "kind", "exchange"),
    [
        (1, 5, "affine", "committees"),
        (2, 5, "affine", "committees"),
        (2, 5, "affine", "reviews"),
        (2, Threshold(0.3), "uncertain", "committees"),
        (1, 4, "curved", "committees"),
    ],
)
def test_clusters_line_places_and_tables_depend_on_public_data_only(
    each: int, accept: int | Threshold, kind: str, exchange: str
) -> None:
    first = made(12, each, accept, kind=kind, exchange=exchange)
    second = exchanged(first, 7)
    assert [g.true for g in first.groups()] != [g.true for g in second.groups()]
    assert first.rules == second.rules
    for one, two in zip(first.groups(), second.groups(), strict=True):
        assert (one.papers, one.reviewers) == (two.papers, two.reviewers)
        assert (one.panel.assignments, one.panel.decisions) == (two.panel.assignments, two.panel.decisions)
        assert one.panel.pivotal == two.panel.pivotal
        tables = [g.panel.strategy(adversary_error=0.5, capped=True).table for g in (one, two)]
        assert np.array_equal(tables[0], tables[1])
    outputs = [c.decide(adversary_error=0.5, capped=True, randomness=Randomness.simulation(1)) for c in (first, second)]
    published = [output.public.to_dict() for output in outputs]
    for data in published:
        del data["decisions"]  # what is drawn is the only thing that may differ
    assert published[0] == published[1]
    sheets = [output.operator.reviews.drop("reviewer") for output in outputs]
    assert sheets[0].equals(sheets[1])  # only that column of the sheet depends on who wrote what


@pytest.mark.parametrize("accept", [0, 1, 4, 7, 12])
def test_a_quota_is_met_exactly(accept: int) -> None:
    conference = made(12, 1, accept)
    assert sum(rule.places or 0 for rule in conference.rules) == accept
    for seed in range(3):
        decision, sheet = conference.decide(adversary_error=0.5, capped=True, randomness=Randomness.simulation(seed))
        assert int(decision.decisions["accepted"].sum()) == accept
        wanted = np.minimum(0.5, sheet.reviews["from_scores"].to_numpy())
        assert (sheet.reviews["adversary_error"].to_numpy() >= wanted - 1e-8).all()


def test_what_an_exact_quota_costs() -> None:
    """The same line with and without places: exactness costs error, leaving it out lets the number vary about it."""
    exact, about = (made(60, 1, 20, seed=3, size=5, exactly=one) for one in (True, False))
    assert {rule.quality for rule in exact.rules} == {rule.quality for rule in about.rules}
    least = [
        c.decide(adversary_error=0.4, capped=True, randomness=Randomness.simulation(1)).operator.least_error
        for c in (exact, about)
    ]
    assert least[1] <= least[0] < least[1] + 0.1
    counts = [
        about.decide(adversary_error=0.4, capped=True, randomness=Randomness.simulation(seed))
        .public.decisions["accepted"]
        .sum()
        for seed in range(4)
    ]
    assert all(12 <= count <= 28 for count in counts)


def joint(conference: Conference, asked: float) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Every combination of candidates of two groups: probabilities, writers, decisions' probabilities, sheet."""
    one, two = conference.groups()
    made_by = [g.panel.strategy(adversary_error=asked, capped=True) for g in (one, two)]
    p = np.multiply.outer(one.panel.posterior, two.panel.posterior).ravel()
    who = [
        np.array([one.panel.assignments[a] for a, _ in product(*map(range, (len(one.panel.assignments),) * 2))]),
        np.array([two.panel.assignments[b] for _, b in product(*map(range, (len(one.panel.assignments),) * 2))]),
    ]
    tables = [
        np.repeat(made_by[0].table, len(two.panel.assignments), axis=0),
        np.tile(made_by[1].table, (len(one.panel.assignments), 1)),
    ]
    return p, who, tables, np.concatenate([s.review_errors for s in made_by])


@pytest.mark.parametrize("accept", [3, Threshold(0.3)])
def test_what_composes_against_an_exact_adversary_of_the_whole_conference(accept: int | Threshold) -> None:
    """An adversary who sees the decisions of both groups gets no further than the sheet says; chances multiply."""
    p, who, tables, promised = joint(made(6, 1, accept, seed=5), 0.4)
    assert (promised < 0.6).any()
    decisions = (tables[0][:, :, None] * tables[1][:, None, :]).reshape(len(p), -1)
    seen = p[:, None] * decisions
    found = [
        1 - np.array([seen[column == j].sum(axis=0) for j in range(3)]).max(axis=0).sum()
        for part in who
        for column in part.T
    ]
    assert np.allclose(found, promised, atol=1e-12)
    everything = seen.max(axis=0).sum()
    n = round(len(p) ** 0.5)
    marginal = [p.reshape(n, n).sum(axis=1), p.reshape(n, n).sum(axis=0)]
    alone = [(m[:, None] * t).max(axis=0).sum() for m, t in zip(marginal, (tables[0][::n], tables[1][:n]), strict=True)]
    assert everything == pytest.approx(alone[0] * alone[1], abs=1e-12)


def test_the_best_papers_wherever_they_are_would_break_the_promise() -> None:
    """Why a quota is given out by group: accepting the best by the true assignment lets groups tell on each other.

    Two groups share one place; which group gets it depends on both assignments, so that a decision about the second
    group speaks of the first. With places fixed from public data the same adversary stays where the sheet puts it.
    """
    conference = made(4, 1, 2, seed=0, size=2)
    one, two = conference.groups()
    p = np.multiply.outer(one.panel.posterior, two.panel.posterior)
    means = [
        np.array([[known[w[i]].mean for i, known in enumerate(beliefs)] for w in g.panel.which])
        for g in (one, two)
        for beliefs in g.panel.beliefs
    ]
    best = {
        (a, b): tuple(sorted(np.argsort(-np.concatenate([means[0][a], means[1][b]]))[:2].tolist()))
        for a, b in product(range(2), repeat=2)
    }
    seen = {d: np.array([[p[a, b] * (best[a, b] == d) for b in range(2)] for a in range(2)]) for d in best.values()}
    wrong = 1 - sum(m.sum(axis=1).max() for m in seen.values())  # about the first group
    own: dict[tuple[int, ...], np.ndarray] = {}
    for d, m in seen.items():
        part = tuple(i for i in d if i < 2)
        own[part] = own.get(part, np.zeros((2, 2))) + m
    from_own = 1 - sum(m.sum(axis=1).max() for m in own.values())
    assert wrong < from_own - 0.01  # the other group's decision helped


@pytest.mark.parametrize("each", [1, 2])
def test_simulated_conferences_meet_their_promise(each: int) -> None:
    found = simulate_conference(made(6, each, 3), adversary_error=0.45, draws=40_000, seed=1)
    assert abs(found.conference.distance) < 5
    assert abs(found.adversary.distance) < 5


@pytest.mark.slow
@pytest.mark.parametrize("accept", [3, Threshold(0.3)])
@pytest.mark.parametrize(
    ("each", "kind", "exchange"),
    [
        (1, "affine", "committees"),
        (2, "affine", "committees"),
        (2, "affine", "reviews"),
        (1, "curved", "committees"),
        (1, "uncertain", "committees"),
    ],
)
def test_simulated_conferences_meet_their_promise_in_every_mode(
    each: int, kind: str, exchange: str, accept: int | Threshold
) -> None:
    conference = made(6, each, accept, kind=kind, exchange=exchange)
    found = simulate_conference(conference, adversary_error=0.45, draws=1_000_000, seed=2)
    assert abs(found.conference.distance) < 5
    assert abs(found.adversary.distance) < 5


def test_reviews_may_be_exchanged_within_a_committee_too() -> None:
    whole, within = made(6, 2, 3, size=2), made(6, 2, 3, size=2, exchange="reviews")
    assert [len(g.panel.assignments) for g in whole.groups()] == [2, 2, 2]
    assert [len(g.panel.assignments) for g in within.groups()] == [8, 8, 8]
    drawn = [c.decide(adversary_error=0.4, capped=True, randomness=Randomness.simulation(1)) for c in (whole, within)]
    assert drawn[1].operator.named_from_scores < drawn[0].operator.named_from_scores  # there is more to tell apart
    assert "within a committee" in str(drawn[1].public.guarantee)
    with pytest.raises(BadInput, match="smaller groups"):
        made(8, 3, 3, size=4, exchange="reviews")


def test_uncertain_functions_are_carried_through_and_shared_reviewers_are_named_in_the_promise() -> None:
    conference = made(6, 1, 3, kind="uncertain")
    assert conference.linked == 0
    drawn = conference.decide(adversary_error=0.5, capped=True, randomness=Randomness.simulation(1)).public
    assert "own group" not in str(drawn.guarantee)
    reviews = Reviews(paper=[1, 2, 3, 4], reviewer=["a", "b", "a", "c"], score=[0.2, 0.4, 0.1, 0.3])
    people = {name: Uncertain((Affine(1, b), Affine(1.3, b))) for name, b in (("a", 0.4), ("b", -0.4), ("c", 0.0))}
    shared = Conference(reviews, functions=people, noise=0.3, accept=Threshold(0.2), group_size=2)
    assert shared.linked == 1
    drawn = shared.decide(adversary_error=0.3, capped=True, randomness=Randomness.simulation(1)).public
    assert "guessed from its own group's scores" in str(drawn.guarantee)


def test_a_paper_with_a_number_of_reviews_of_its_own_does_not_empty_the_promise() -> None:
    reviews = Reviews(paper=[1, 2, 3, 3], reviewer=["a", "b", "c", "d"], score=[0.5, 0.45, 0.3, 0.2])
    people = {name: Affine(1, b) for name, b in (("a", 0.2), ("b", -0.1), ("c", 0.0), ("d", 0.1))}
    conference = Conference(reviews, functions=people, noise=0.5, accept=Threshold(0.3))
    drawn, sheet = conference.decide(adversary_error=0.4, capped=True, randomness=Randomness.simulation(1))
    assert conference.alone == 1
    assert drawn.guarantee.error is not None
    assert drawn.guarantee.error > 0.3
    assert "1 papers that share their number" in str(drawn.guarantee)
    assert sheet.reviews["adversary_error"].to_list()[2:] == [0.0, 0.0]


def test_the_tradeoff_rises_and_the_decision_lies_on_it() -> None:
    conference = made(30, 1, 10)
    plan = plan_conference(conference, demands=[0.0, 0.3, 0.6, 1.0])
    assert (np.diff(plan.conference_error) >= -1e-9).all()
    assert (np.diff(plan.adversary_error) >= -1e-9).all()
    assert plan.groups == plan.of == len(conference)
    decision, sheet = conference.decide(adversary_error=0.3, capped=True, randomness=Randomness.simulation(1))
    assert decision.conference_error == pytest.approx(float(plan.conference_error[1]))
    assert 1 - sheet.named <= float(plan.adversary_error[1])  # after the worst decision, and on average
    assert plan_conference(conference, demands=[0.3], most_groups=2).groups == 2
    with pytest.raises(BadInput, match="demands"):
        plan_conference(conference, demands=[1.4])
