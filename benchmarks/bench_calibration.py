"""Calibration: this year's scores, frontiers of pairs a second, panels, a conference of 10,000 papers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.timing import Row, best_of
from peerveil.calibration import Affine, Conference, Pair, Panel, Threshold, calibrate, plan_decisions
from peerveil.calibration.mixed import Design, Equations, Variances, fit_variances
from peerveil.calibration.pair import pair_frontiers
from peerveil.core.randomness import Randomness
from peerveil.data import Reviews

if TYPE_CHECKING:
    from collections.abc import Callable

PAIRS = 2_000_000


def bench() -> list[Row]:
    return [
        *this_year(),
        against_statsmodels(),
        *pairs(),
        *panels(),
        conference(Threshold.share(0.25)),
        conference(2_500),
    ]


def scored(papers: int, reviewers: int, each: int) -> Reviews:
    """Reviews with strictness of standard deviation 0.5, quality and noise of 1."""
    rng = np.random.default_rng(0)
    people = np.concatenate([rng.choice(reviewers, each, replace=False) for _ in range(papers)])
    paper = np.repeat(np.arange(papers), each)
    score = rng.standard_normal(papers)[paper] + 0.5 * rng.standard_normal(reviewers)[people]
    return Reviews(paper=paper, reviewer=people, score=score + rng.standard_normal(len(paper)))


def this_year() -> list[Row]:
    reviews = scored(10_000, 8_000, 4)
    calibrated, planned = best_of(
        2, lambda: calibrate(reviews, accept=2_500), lambda: plan_decisions(reviews, accept=2_500)
    )
    what = "10,000 papers, 8,000 reviewers, 40,000 reviews"
    return [
        Row(f"calibrate {what}", calibrated, None, "s", "models chosen, intervals, ranks, reviewers"),
        Row(f"plan {what}", planned, None, "s", "expected gain with its interval"),
    ]


def against_statsmodels(papers: int = 1_000) -> Row:
    """REML with crossed effects on the same scores; predictions at the same variances must agree."""
    try:
        from statsmodels.regression.mixed_linear_model import MixedLM
    except ImportError:
        return Row(f"REML, {papers:,} papers", np.nan, None, "s", "statsmodels is not installed")
    reviews = scored(papers, 4 * papers // 5, 3)
    frame = reviews.frame.to_pandas().assign(all=1)
    design = Design(frame["paper"].to_numpy(), frame["reviewer"].to_numpy(), papers, 4 * papers // 5)
    ours = best_of(3, lambda: fit_variances(design, reviews.scores))[0]
    effects = {"paper": "0 + C(paper)", "reviewer": "0 + C(reviewer)"}
    model = MixedLM.from_formula("score ~ 1", groups="all", vc_formula=effects, data=frame)
    start = time.perf_counter()
    fit = model.fit(reml=True)
    took = time.perf_counter() - start
    paper, reviewer = fit.vcomp.tolist()  # in the order of the formulas
    same = Variances(paper, reviewer, float(fit.scale))
    mine = Equations(design, same).solve(reviews.scores)
    theirs = fit.random_effects[1]
    quality = np.array([theirs[f"paper[C(paper)[{number}]]"] for number in range(papers)])
    apart = float(np.abs(mine.paper - mine.people[0] - quality).max())
    assert apart < 1e-6, apart
    note = (
        f"peer: statsmodels MixedLM; {took / ours:.0f} times faster, predictions at its variances agree to {apart:.0e}"
    )
    return Row(f"REML, {papers:,} papers, {4 * papers // 5} reviewers", ours, took, "s", note)


def pairs() -> list[Row]:
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((PAIRS, 2))
    shared = PAIRS / best_of(3, lambda: pair_frontiers(scores, scales=[1.0, 0.7], biases=[0.2, -0.3], noise=0.4))[0]
    scales, biases = np.exp(0.4 * rng.standard_normal((PAIRS, 2))), 0.5 * rng.standard_normal((PAIRS, 2))
    own = PAIRS / best_of(3, lambda: pair_frontiers(scores, scales=scales, biases=biases, noise=0.4))[0]
    few = scores[:300].tolist()
    two = (Affine(1.0, 0.2), Affine(0.7, -0.3))
    single = len(few) / best_of(2, lambda: [Pair(s, two, 0.4).frontier() for s in few])[0]
    return [
        Row("pair frontiers, the same two reviewers", shared, single, "instances/s", "peer: one Pair at a time"),
        Row("pair frontiers, reviewers of their own", own, single, "instances/s", "peer: one Pair at a time"),
    ]


def panels() -> list[Row]:
    rows = []
    for papers, places in ((6, 3), (7, 3)):
        seconds, slowest = [], 0.0
        for seed in range(3 if papers == 6 else 2):
            took = _seconds(lambda s=seed, n=papers, k=places: _solve(s, n, k))  # type: ignore[misc]
            seconds.append(took)
            slowest = max(slowest, took)
        note = (
            f"per-paper adversary, halfway up the frontier; median of {len(seconds)} panels {np.median(seconds):.2f} s"
        )
        rows.append(Row(f"panel of {papers}, {places} accepted, slowest", slowest, None, "s", note))
    return rows


def _solve(seed: int, papers: int, places: int) -> None:
    rng = np.random.default_rng(seed)
    people = [
        Affine(float(a), float(b))
        for a, b in zip(np.exp(0.4 * rng.standard_normal(papers)), 0.6 * rng.standard_normal(papers), strict=True)
    ]
    panel = Panel(rng.standard_normal(papers), people, 0.4, places)  # type: ignore[arg-type]
    low = float(panel.program.greedy().adversary_errors.min())
    panel.strategy(adversary_error=(low + float(panel.ceilings.min())) / 2)


def conference(accept: int | Threshold, papers: int = 10_000) -> Row:
    rng = np.random.default_rng(0)
    scale, bias = np.exp(0.3 * rng.standard_normal(papers)), 0.5 * rng.standard_normal(papers)
    score = scale * rng.standard_normal(papers) + bias + 0.3 * rng.standard_normal(papers)
    reviews = Reviews(paper=np.arange(papers), reviewer=np.arange(papers), score=score)
    people = {j: Affine(float(scale[j]), float(bias[j])) for j in range(papers)}
    secure = Randomness.secure()
    took = _seconds(
        lambda: Conference(reviews, functions=people, noise=0.3, accept=accept, group_size=5).decide(
            adversary_error=0.6, capped=True, randomness=secure, progress=False
        )
    )
    rule = "a line" if isinstance(accept, Threshold) else f"exactly {accept:,}"
    name = f"conference of {papers:,} papers, 5 reviewers a cluster, {rule}"
    return Row(name, took, None, "s", "secure randomness, all groups")


def _seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


if __name__ == "__main__":
    for row in bench():
        print("  ".join(row.cells()))
