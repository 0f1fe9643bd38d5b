"""Bounds by chains: equal to the printed definition, valid for every assignment, exact where the axioms say so."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import chain, permutations, product
from typing import Any

import numpy as np
import pytest
from tests.release import oracle

from peerveil.core.errors import BadInput
from peerveil.papers.release.chains import MOST_TUPLES, chain_bounds, list_omega, predicted_tuples, walk
from peerveil.release import PublicScores

NOISE = 1e-12  # of weights of at most 6


def instances(count: int, seed: int, **limits: Any) -> Iterator[PublicScores]:
    rng = np.random.default_rng(seed)
    return (oracle.random_public(rng, **limits) for _ in range(count))


def larger(seed: int, shapes: list[tuple[int, int, int]]) -> Iterator[PublicScores]:
    """Equal loads (n, m, l), and the same with one review moved; continuous weights, ratings, and one odd paper."""
    rng = np.random.default_rng(seed)
    for n, m, load in shapes:
        size = n * load // m
        ratings = rng.integers(1, 6, (m, size)) / 1.0
        for weights in (rng.random((m, size)).round(6), ratings, ratings * (np.arange(m) == m // 2)[:, None]):
            moved = [load] * (n - 2) + [load - 1, load + 1]
            for loads in ([load] * n, moved) if 1 < load < m else ([load] * n,):
                public = PublicScores(weights, loads)
                if predicted_tuples(public) <= MOST_PRINTED:
                    yield public


SHAPES = [(6, 6, 2), (10, 10, 2), (16, 16, 2), (9, 3, 2), (7, 7, 3), (6, 4, 2), (12, 4, 1), (4, 6, 3), (4, 5, 5)]
LARGE = [(30, 30, 2), (12, 12, 2), (10, 10, 3), (6, 6, 3), (6, 6, 4), (8, 4, 3), (4, 6, 6), (3, 7, 7), (40, 8, 2)]
MOST_PRINTED = 5_000  # tuples, for the printed algorithm


def assert_as_printed(public: PublicScores) -> None:
    """The bounds, Omega's order, and the lengths of all chains, which the bounds show only in part."""
    ours, printed = list_omega(public), oracle.omega(public)
    graph = printed.disjoint()
    left, right = oracle.longest_left_chains(graph), oracle.longest_right_chains(graph)
    expected = oracle.printed_bounds(public, printed, (left, right))
    for bound, side in zip(chain_bounds(public), expected, strict=True):
        np.testing.assert_allclose(bound, np.array(side, float), rtol=0, atol=NOISE, err_msg=oracle.shape(public))
    plenty = ours.order.size + 1  # so many reviewers never cut a chain short
    for order, lengths in ((ours.order, left), (ours.order[::-1].copy(), right[::-1])):
        _, found = walk(order, ours.tuples, ours.papers, public.sizes, plenty)
        np.testing.assert_array_equal(found, lengths, err_msg=oracle.shape(public))
        _, found = walk(
            order, ours.tuples, ours.papers, public.sizes, plenty, 3
        )  # gives up searches: slower, not wrong
        np.testing.assert_array_equal(found, lengths, err_msg=oracle.shape(public))


def assert_contains_all(public: PublicScores) -> None:
    lower, upper = chain_bounds(public)
    rows = oracle.sorted_means(public)
    assert rows.shape[0] > 0
    assert (rows >= lower - NOISE).all(), oracle.shape(public)
    assert (rows <= upper + NOISE).all(), oracle.shape(public)


def test_equal_to_the_printed_definition() -> None:
    for public in chain(instances(200, seed=1), larger(2, SHAPES)):
        assert_as_printed(public)


@pytest.mark.slow
def test_equal_to_the_printed_definition_on_many() -> None:
    for public in chain(instances(3_000, seed=5), larger(6, LARGE)):
        assert_as_printed(public)


def test_every_assignment_is_within() -> None:
    for public in instances(200, seed=7):
        assert_contains_all(public)


@pytest.mark.slow
def test_every_assignment_is_within_on_many() -> None:
    for public in instances(2_500, seed=8, reviews=13):
        assert_contains_all(public)


def test_instances_are_what_they_should_be() -> None:
    """Enough of them have unequal loads, unequal sizes, ties, negative weights, and more than one possible vector."""
    seen = list(instances(200, seed=1))
    assert sum(public.uniform_load is None for public in seen) > 50
    assert sum(public.uniform_load is not None and public.uniform_load > 1 for public in seen) > 30
    assert sum(len(set(public.sizes.tolist())) > 1 for public in seen) > 50
    assert sum(len(set(public.values.tolist())) < public.values.size for public in seen) > 100
    assert sum(bool((public.values < 0).any()) for public in seen) > 50
    assert sum(len(oracle.sorted_means(public)) > 5 for public in seen) > 75


def test_enumeration_against_trying_everything() -> None:
    """Each paper's weights handed to every choice of reviewers, those kept whose loads come out right."""
    for public in instances(120, seed=9, reviewers=4, papers=3, reviews=8):
        found = set()
        exact, n = oracle.exact_weights(public), public.reviewers
        for holders in product(*(permutations(range(n), len(row)) for row in exact)):
            given: list[list[Fraction]] = [[] for _ in range(n)]
            for row, people in zip(exact, holders, strict=True):
                for weight, person in zip(row, people, strict=True):
                    given[person].append(weight)
            if sorted(map(len, given)) == public.loads.tolist():
                found.add(tuple(sorted(float(sum(one, Fraction(0)) / len(one)) for one in given)))
        np.testing.assert_allclose(oracle.sorted_means(public), np.unique(sorted(found), axis=0), rtol=0, atol=1e-9)


def test_hull_projection() -> None:
    """Onto a segment by hand; its own check of optimality runs on the others; onto a point of the set it is the point."""
    segment = np.array([[0.0, 2.0], [1.0, 1.0]])
    np.testing.assert_allclose(oracle.hull_projection(segment, np.array([0.9, 2.1])), [0.4, 1.6], atol=1e-12)
    rng = np.random.default_rng(10)
    for public in instances(60, seed=10):
        rows = oracle.sorted_means(public)
        oracle.hull_projection(rows, rng.normal(scale=3, size=public.reviewers))
        middle = rows.mean(axis=0)
        np.testing.assert_allclose(oracle.hull_projection(rows, middle), middle, atol=1e-7)


# What the paper promises


def test_appendix_b() -> None:
    lower, upper = chain_bounds(PublicScores([[0, 0, 0], [1, 2, 3], [0, 0, 0], [0, 0, 0]], loads=[3] * 4))
    assert lower.tolist() == upper.tolist() == [0, 1 / 3, 2 / 3, 1]


@pytest.mark.parametrize("weight", [0.1, -0.7, 0.0, 1e-300, 3e12])
def test_axiom_a1_all_weights_equal(weight: float) -> None:
    for public in instances(20, seed=11, reviews=16):
        same = PublicScores([np.full(size, weight) for size in public.sizes], public.loads)
        lower, upper = chain_bounds(same)
        assert set(lower.tolist()) == set(upper.tolist()) == {weight}


def test_axiom_a2_one_review_each() -> None:
    rng = np.random.default_rng(12)
    for _ in range(40):
        sizes = rng.integers(1, 6, rng.integers(1, 12))
        papers = [rng.normal(size=size).round(1) for size in sizes]  # with ties
        lower, upper = chain_bounds(PublicScores(papers, np.ones(sizes.sum(), dtype=int)))
        assert lower.tolist() == upper.tolist() == np.sort(np.concatenate(papers)).tolist()


@pytest.mark.parametrize("low", [0, -3])
def test_axiom_a3_one_paper_not_zero(low: int) -> None:
    """Equal weights in that paper and, beyond the paper's claim, negative ones included."""
    rng = np.random.default_rng(13)
    for _ in range(60):
        m = int(rng.integers(2, 7))
        load = int(rng.integers(1, min(m, 4) + 1))
        size = int(rng.integers(1, 4)) * load
        n = m * size // load
        if size > n:
            continue
        weights = np.zeros((m, size))
        weights[rng.integers(m)] = rng.integers(low, 4, size) / 10
        truth = np.sort(np.append(weights.sum(axis=0), np.zeros(n - size))) / load
        for bound in chain_bounds(PublicScores(weights, [load] * n)):
            np.testing.assert_allclose(bound, truth, rtol=0, atol=NOISE)


def test_axiom_a3_needs_a_tie_rule() -> None:
    """Erratum to Theorem 4.8: ties broken arbitrarily, the bounds still hold but are not exact.

    Here ties go by the zero entries first, so that tuples with the two ones alternate in a right chain of length 3.
    """
    public = PublicScores([[1, 1], [0, 0], [0, 0], [0, 0]], loads=[2] * 4)
    _, upper = oracle.printed_bounds(public, oracle.omega(public, tie=lambda numbers: numbers[::-1]))
    assert [float(bound) for bound in upper] == [0.5, 0.5, 0.5, 0.5]
    assert oracle.sorted_means(public).tolist() == [[0, 0, 0.5, 0.5]]
    assert [bound.tolist() for bound in chain_bounds(public)] == [[0, 0, 0.5, 0.5]] * 2


# Faults that the checks above must see


def test_algorithm_2_as_printed_bounds_nobody() -> None:
    for public in instances(40, seed=14):
        tuples = oracle.omega(public)
        right = oracle.longest_right_chains(tuples.disjoint())
        as_printed = oracle.upper_bounds(public, tuples, right, start=(1, 0))
        assert len(as_printed) <= 1
        assert public.reviewers == 1 or len(as_printed) < public.reviewers


@pytest.mark.parametrize("slack", [-1, 1])
def test_c2_off_by_one_is_seen(slack: int) -> None:
    """One entry too few allowed: some truth falls outside. One too many: valid, but not the printed bounds."""
    unlike, outside = 0, 0
    for public in instances(60, seed=15):
        tuples = oracle.omega(public)
        left = oracle.longest_left_chains(tuples.disjoint())
        faulty = np.array(oracle.lower_bounds(public, tuples, left, slack=slack), dtype=float)
        right = chain_bounds(public)[0][: faulty.size]  # too strict a walk comes to the end of the list before i = n
        unlike += not np.allclose(faulty, right, rtol=0, atol=NOISE)
        outside += bool((oracle.sorted_means(public)[:, : faulty.size] < faulty - NOISE).any())
    assert unlike > 5
    assert outside > 5 if slack < 0 else outside == 0


def test_chains_off_by_one_are_seen() -> None:
    unlike = 0
    for public in instances(60, seed=16):
        tuples = oracle.omega(public)
        left = oracle.longest_left_chains(tuples.disjoint())
        faulty = np.array(oracle.lower_bounds(public, tuples, left + 1), dtype=float)
        unlike += bool(np.abs(faulty - chain_bounds(public)[0]).max() > NOISE)
    assert unlike > 5


# Cost and edges


def test_tuples_are_counted_without_listing_them() -> None:
    for public in instances(100, seed=17):
        assert predicted_tuples(public) == len(oracle.omega(public).means) == list_omega(public).order.size


def test_too_many_tuples_are_refused() -> None:
    public = PublicScores(np.zeros((1_000, 4)), [4] * 1_000)
    assert predicted_tuples(public) == 41_417_124_750 * 4**4 > MOST_TUPLES
    with pytest.raises(BadInput, match=r"chains of 10,602,783,936,000 tuples, need at most 20,000,000"):
        chain_bounds(public)
    huge = PublicScores(np.zeros((3_000, 40)), [40] * 3_000)
    with pytest.raises(BadInput, match=r"about 10\^155 tuples"):
        chain_bounds(huge)


def test_reviewers_of_everything_are_listed_without_dead_ends() -> None:
    """One tuple, but 2^60 beginnings of it if entries could be passed over."""
    lower, upper = chain_bounds(PublicScores(np.arange(60.0)[:, None], [60]))
    assert lower.tolist() == upper.tolist() == [29.5]


def test_bounds_are_sorted_and_in_order() -> None:
    for public in instances(100, seed=18):
        lower, upper = chain_bounds(public)
        assert (lower <= upper).all()
        assert (np.diff(lower) >= 0).all()
        assert (np.diff(upper) >= 0).all()


def test_order_of_papers_and_reviews_does_not_matter_without_ties() -> None:
    rng = np.random.default_rng(19)
    weights = rng.random((8, 3))
    first = chain_bounds(PublicScores(weights, [3] * 8))
    again = chain_bounds(PublicScores(rng.permuted(weights[rng.permutation(8)], axis=1), [3] * 8))
    np.testing.assert_allclose(first, again, rtol=0, atol=NOISE)
