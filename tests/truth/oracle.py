"""Slow, independent transcriptions of published updates, in dictionaries and loops."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

Answers = list[tuple[Any, Any, int]]  # task, worker, class


def majority(answers: Answers, k: int) -> dict[Any, list[float]]:
    votes: dict[Any, Counter[int]] = {}
    for task, _, label in answers:
        votes.setdefault(task, Counter())[label] += 1
    return {t: [c[z] / sum(c.values()) for z in range(k)] for t, c in votes.items()}


def dawid_skene(answers: Answers, k: int, iterations: int) -> dict[Any, list[float]]:
    """Dawid and Skene (1979), equations (2.3) to (2.5), started from the shares of votes; zero counts become 1e-10."""
    soft = majority(answers, k)
    for _ in range(iterations):
        prior = [max(1e-10, sum(p[z] for p in soft.values()) / len(soft)) for z in range(k)]
        counts: dict[tuple[Any, int], list[float]] = {}
        for task, worker, label in answers:
            row = counts.setdefault((worker, label), [0.0] * k)
            for z in range(k):
                row[z] += soft[task][z]
        error = {}
        for worker in {w for _, w, _ in answers}:
            rows = {r: [max(x, 1e-10) for x in counts[worker, r]] for r in range(k) if (worker, r) in counts}
            for r, row in rows.items():
                error[worker, r] = [row[z] / sum(other[z] for other in rows.values()) for z in range(k)]
        score = {t: [math.log(prior[z]) for z in range(k)] for t in soft}
        for task, worker, label in answers:
            for z in range(k):
                score[task][z] += math.log(error[worker, label][z])
        soft = {}
        for task, row in score.items():
            weight = [math.exp(x - max(row)) for x in row]
            soft[task] = [x / sum(weight) for x in weight]
    return soft
