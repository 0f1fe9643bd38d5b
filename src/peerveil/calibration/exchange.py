"""Two reviewers exchange a review each: what scores say about it, and committees that are balanced by such exchanges.

**Committees balanced before review**: the assignment itself is drawn, by exchanges of reviews (Metropolis), with probability
proportional to exp(-strength * sum over papers of k (mean bias of its committee)^2 / variance of biases). Then the plain mean
decides. An attacker who knows the rule has prior odds instead of 50:50: the change of that exponent by the exchange. It is
exact, and it is what the balance gives away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from peerveil.calibration.affine import AffineScores

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats, Ints

_SWEEPS: Final = 30  # proposed exchanges per review when committees are balanced


@dataclass(frozen=True)
class Exchanges:
    """The exchanges within groups: row numbers of the two reviews of each, and their papers."""

    first: Ints
    second: Ints
    papers: Ints

    @classmethod
    def of(cls, model: AffineScores, groups: Sequence[Ints]) -> Exchanges:
        """The k-th reviews of neighboring papers of a group, for every k."""
        rows = [np.flatnonzero(model.paper == paper) for paper in range(model.papers)]
        committees = [set(model.writer[own].tolist()) for own in rows]
        pairs = []
        for group in groups:
            for i, j in zip(group[:-1].tolist(), group[1:].tolist(), strict=True):
                for a, b in zip(rows[i], rows[j], strict=True):
                    # nobody twice on a paper, also after the exchange
                    if model.writer[b] not in committees[i] and model.writer[a] not in committees[j]:
                        pairs.append((a, b))
        first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        return cls(first, second, np.column_stack([model.paper[first], model.paper[second]]))

    def writers(self, writer: Ints, index: int) -> Ints:
        """The writers after an exchange."""
        other = writer.copy()
        a, b = self.first[index], self.second[index]
        other[a], other[b] = writer[b], writer[a]
        return other

    def log_odds(self, model: AffineScores, scores: Floats, writer: Ints) -> Floats:
        """How much likelier the scores are under the true writers than after each exchange."""
        mine = model.beliefs(scores, writer)[2]
        odds = np.empty(len(self.first))
        for index in range(len(odds)):
            both = np.isin(model.paper, self.papers[index])
            part = AffineScores(model.paper[both], model.writer[both], model.scale, model.bias, model.noise)
            after = part.beliefs(scores[both], self.writers(writer, index)[both])[2][self.papers[index]]
            odds[index] = float((mine[self.papers[index]] - after).sum())
        return odds


def balanced(model: AffineScores, strength: float, rng: np.random.Generator, area: Ints | None = None) -> Ints:
    """Writers drawn with committees balanced by bias; reviews are exchanged only between papers of the same ``area``.

    Metropolis from the writers at hand: an exchange of two reviews is proposed, and accepted with probability
    min(1, exp(-strength * change)); exchanges that would give somebody a paper twice are not.
    """
    writer, bias = model.writer.copy(), (model.bias - model.bias.mean()) / (float(model.bias.std()) or 1.0)
    count = np.bincount(model.paper, minlength=model.papers)
    committees = [set(writer[model.paper == paper].tolist()) for paper in range(model.papers)]
    total = np.bincount(model.paper, weights=bias[writer], minlength=model.papers)
    proposals = rng.integers(len(writer), size=(_SWEEPS * len(writer), 2))
    coins = np.log(rng.random(len(proposals)))
    for (a, b), coin in zip(proposals.tolist(), coins.tolist(), strict=True):
        i, j, x, y = int(model.paper[a]), int(model.paper[b]), int(writer[a]), int(writer[b])
        if i == j or y in committees[i] or x in committees[j] or (area is not None and area[i] != area[j]):
            continue
        d = bias[y] - bias[x]
        change = ((total[i] + d) ** 2 - total[i] ** 2) / count[i] + ((total[j] - d) ** 2 - total[j] ** 2) / count[j]
        if coin < -strength * change:
            writer[a], writer[b] = y, x
            committees[i] ^= {x, y}
            committees[j] ^= {x, y}
            total[i] += d
            total[j] -= d
    return writer


def balance_odds(model: AffineScores, exchanges: Exchanges, writer: Ints, strength: float) -> Floats:
    """What the rule of balance says for the true writers, against each exchange."""
    bias = (model.bias - model.bias.mean()) / (float(model.bias.std()) or 1.0)
    count = np.bincount(model.paper, minlength=model.papers)
    total = np.bincount(model.paper, weights=bias[writer], minlength=model.papers)
    d = bias[writer[exchanges.second]] - bias[writer[exchanges.first]]
    i, j = exchanges.papers.T
    change = ((total[i] + d) ** 2 - total[i] ** 2) / count[i] + ((total[j] - d) ** 2 - total[j] ** 2) / count[j]
    return np.asarray(strength * change)
