"""Gain against leak on synthetic conferences, as in docs/calibration.md: python -m benchmarks.calibration_leak [conferences].

240 papers with three reviews each by 160 reviewers, qualities and noise N(0, 1), biases N(0, sd), the best quarter accepted.
Also measured, beside what the product offers: groups that exchange whole committees, lotteries with other weights, and balance
that may exchange reviews only within areas.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

from peerveil.calibration import Affine, plan_leak
from peerveil.calibration.affine import AffineScores, among_best, best_papers
from peerveil.calibration.conference import Conference
from peerveil.calibration.exchange import Exchanges, balance_odds, balanced
from peerveil.calibration.panel import group_strategy
from peerveil.calibration.quota import QuotaLottery
from peerveil.data import Reviews

PAPERS, PEOPLE, EACH, PLACES = 240, 160, 3, 60


def setting(deviation: float, seed: int = 0) -> tuple[Reviews, dict[int, Affine]]:
    """A random assignment with nearly equal loads, and reviewers."""
    rng = np.random.default_rng(seed)
    load = -(-PAPERS * EACH // PEOPLE)
    writer = np.concatenate([rng.permutation(PEOPLE) for _ in range(load)])[: PAPERS * EACH].reshape(PAPERS, EACH)
    while any(len(set(row)) < EACH for row in writer):
        for i in range(PAPERS):
            while len(set(writer[i])) < EACH:
                j, (a, b) = rng.integers(PAPERS), rng.integers(EACH, size=2)
                writer[i, a], writer[j, b] = writer[j, b], writer[i, a]
    bias = deviation * rng.standard_normal(PEOPLE)
    paper = np.repeat(np.arange(PAPERS), EACH)
    reviews = Reviews(paper=paper, reviewer=writer.ravel(), score=np.zeros(PAPERS * EACH))
    return reviews, {j: Affine(1.0, float(bias[j])) for j in range(PEOPLE)}


def tried(reviews: Reviews, people: dict[int, Affine], conferences: int) -> dict[str, list[float]]:
    """Gains of what is not offered; for balance within areas also the share of right guesses."""
    model = AffineScores.of(reviews, people, 1.0)
    rows: dict[str, list[float]] = {}
    for seed in np.random.SeedSequence(1).spawn(conferences):
        rng = np.random.default_rng(seed)
        quality, noise = model.draw(rng)
        scores = model.scored(quality, noise)
        mean, deviation, _ = model.beliefs(scores)
        best = among_best(mean, deviation, PLACES) / PLACES
        plain = float(best_papers(model.plain_means(scores), PLACES) @ best)
        table = Reviews(paper=model.paper, reviewer=model.writer, score=scores)
        for size in (2, 5):
            accepted = np.zeros(PAPERS)
            for group in Conference(table, functions=people, noise=1.0, accept=PLACES, group_size=size).groups():
                strategy = group_strategy(group.panel, None, True)
                chosen = strategy.decisions[int(strategy.table[0].argmax())]
                accepted[[group.papers[i] for i in chosen]] = 1
            rows.setdefault(f"committees exchanged, groups of {size}", []).append(float(accepted @ best) - plain)
        for epsilon in (2, 4, 8, 16):
            for weight in (1.0, 2.0, 3.0, 4.0, 6.0, 8.0):
                chances = replace(QuotaLottery(model, scores, PLACES, epsilon), weight=weight).chances()
                rows.setdefault(f"lottery, epsilon {epsilon}, weight {weight:g}", []).append(
                    float(chances @ best) - plain
                )
        for areas in (1, 12, 40):
            area = np.arange(PAPERS) * areas // PAPERS
            writer = balanced(model, 1.0, rng, area)
            other = replace(model, writer=writer)
            seen = other.scored(quality, noise)
            middle, spread, _ = other.beliefs(seen)
            plainly = best_papers(other.plain_means(seen), PLACES)
            gain = float(plainly @ among_best(middle, spread, PLACES)) / PLACES - plain
            exchanges = Exchanges.of(other, [np.arange(i, i + 2) for i in range(0, PAPERS, 2)])
            odds = exchanges.log_odds(other, seen, writer) + balance_odds(other, exchanges, writer, 1.0)
            rows.setdefault(f"balance 1 within {areas} areas", []).append(gain)
            rows.setdefault(f"balance 1 within {areas} areas, right guesses", []).append(
                float(np.mean(1 / (1 + np.exp(-np.abs(odds)))))
            )
    return rows


def main() -> None:
    """Print a table for each deviation of biases."""
    conferences = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    for deviation in (0.5, 1.0):
        reviews, people = setting(deviation)
        plan = plan_leak(reviews, functions=people, noise=1.0, accept=PLACES, conferences=conferences)
        print(f"\nbias SD {deviation:g}, {conferences} conferences\n{plan.recommendation}")
        for one in plan.options:
            shares = " ".join(f"{share:.3f}" for share in one.guesses)
            print(f"{one.name:45s} gain {one.gain:+.4f} ± {one.gain_error:.4f}  guesses {shares}")
        for name, values in tried(reviews, people, min(conferences, 8)).items():
            print(f"  {name:48s} {np.mean(values):+.4f} ± {np.std(values) / np.sqrt(len(values)):.4f}")


if __name__ == "__main__":
    main()
