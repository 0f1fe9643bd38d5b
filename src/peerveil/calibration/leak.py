"""What calibrated decisions would gain, and what they would give away: every option on one footing, before any decision.

**One attack.** Two papers of a group have the k-th of their reviews by two known reviewers; which of the two wrote which is a
50:50 secret, and everything else is known: scores, groups, all other writers, how everybody scores, the rule. After scores and
decisions the attacker guesses. With l the log-likelihood ratio of scores and decision, the guess is right with probability
1/(1 + e^-|l|) (the larger posterior), averaged over exchanges and conferences. The plain mean looks at scores only, so its
decisions add nothing: what the scores alone give away is the origin.

**One gain.** The expected share of the truly best papers that are accepted, minus that of the plain mean: given scores and
writers, paper i is among the best with probability among_best_i, so a rule that accepts it with probability c_i accepts
sum c_i among_best_i / places of them.

**Conferences** are simulated on the assignment at hand: qualities and noise are drawn, reviewers score as stated. Neither the
actual scores nor any decision enter, so the page can be made before the first review.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.calibration.affine import AffineScores, among_best, best_papers
from peerveil.calibration.conference import Conference
from peerveil.calibration.exchange import Exchanges, balance_odds, balanced
from peerveil.calibration.figures import draw_leak
from peerveil.calibration.functions import Affine
from peerveil.calibration.losses import Threshold
from peerveil.calibration.panel import group_strategy
from peerveil.calibration.quota import QuotaLottery
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import Number, numbers, whole
from peerveil.core.guarantee import read_epsilon
from peerveil.core.lazy import ndtr
from peerveil.core.progress import progress_bar
from peerveil.core.randomness import Randomness
from peerveil.core.result import Plan
from peerveil.data import Reviews

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.calibration.functions import Reviewer
    from peerveil.calibration.panel import PaperGroup
    from peerveil.calibration.strategy import Strategy
    from peerveil.core.arrays import Floats, Ints

WORTH: Final = 0.01
"""A gain below one point of the best papers is not worth a change of the rule."""
_HARMLESS: Final = 0.01  # an option that lets a guess near the line be right this much more often than the scores do
_CERTAIN: Final = 0.99
_NEAR: Final = 0.2  # the share of papers that counts as near the line
_ATTACKED: Final = 60  # exchanges of a conference on which the lottery is attacked: each needs its law anew
_EPSILONS: Final = (4, 8, 16)
_DEMANDS: Final = (0.3,)
_STRENGTHS: Final = (0.5, 1.0, 2.0)


@dataclass(frozen=True, slots=True)
class LeakOption:
    """One way to decide: ``gain`` over the plain mean, and how often the 50:50 guess is right.

    ``leak`` and ``near_line`` are the shares of right guesses, of all exchanges and of those with a paper near the line;
    ``certain`` and ``certain_near_line`` are shares of exchanges of which the guess is 99% sure.
    """

    name: str
    kind: str
    setting: str
    gain: float
    gain_error: float
    leak: float
    near_line: float
    certain: float
    certain_near_line: float

    @property
    def guesses(self) -> tuple[float, float, float, float]:
        """The four shares of guesses."""
        return self.leak, self.near_line, self.certain, self.certain_near_line


@dataclass(frozen=True, slots=True)
class Leak(Plan):
    """Gain against leak of every option; the first is the plain mean, the second open calibration."""

    options: tuple[LeakOption, ...]
    papers: int
    conferences: int

    @property
    def scores_alone(self) -> float:
        """How often the guess is right from the scores alone."""
        return self.options[0].leak

    @property
    def recommended(self) -> LeakOption | None:
        """The best private option that can still be chosen after review; None if none is worth it.

        Announced groups, which provably add nothing, unless another option gains a point more.
        """
        least = self.options[0].near_line + _HARMLESS
        worth = [one for one in self.options if one.gain >= WORTH and one.near_line <= least]
        private = [one for one in worth if one.kind not in ("plain", "open", "balance")]
        return max(private, key=lambda one: one.gain + WORTH * (one.kind == "groups"), default=None)

    @property
    def recommendation(self) -> str:
        """What to do, and why."""
        plain, calibrated, best = self.options[0], self.options[1], self.recommended
        scores = f"Scores alone let a 50:50 guess of who wrote a review be right {plain.leak:.0%} of the time."
        if calibrated.gain < WORTH:
            return (
                f"Recommended: the plain mean. Even open calibration gains only {calibrated.gain:+.3f} here. {scores}"
            )
        opened = (
            f"Open calibration gains {calibrated.gain:+.3f} of the best papers; the guess is then right {calibrated.leak:.0%} of "
            f"the time ({calibrated.near_line:.0%} near the line, where {calibrated.certain_near_line:.0%} of exchanges become "
            "certain)."
        )
        if best is None:
            return f"Recommended: the plain mean. No private option gains {WORTH:g} or more here. {opened} {scores}"
        added = best.leak - plain.leak
        adds = "adds nothing" if added < 5e-4 else f"adds {100 * added:.1f} points"
        return f"Recommended: {best.name}. It gains {best.gain:+.3f} and {adds} to what scores give away. {opened} {scores}"

    def table(self) -> pl.DataFrame:
        """One row per option."""
        names = LeakOption.__slots__
        return pl.DataFrame(
            [[getattr(one, name) for name in names] for one in self.options], schema=names, orient="row"
        )

    def draw(self, ax: Axes) -> None:
        """Gain against leak near the line, from the plain mean at the origin."""
        draw_leak(ax, self.options)


# ---- simulated conferences --------------------------------------------------------------------------------------------


class _Measured:
    """Gains and guesses of the options, conference by conference; guesses relative to those from the same scores alone."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str, str], list[Floats]] = {}

    def add(self, names: tuple[str, str, str], gain: float, guesses: Floats, scores: Floats) -> None:
        self.rows.setdefault(names, []).append(np.array([gain, *(guesses - scores)]))

    def options(self, scores: Floats) -> tuple[LeakOption, ...]:
        options = []
        for names, rows in self.rows.items():
            gain, *added = np.mean(rows, axis=0).tolist()
            error = float(np.std([row[0] for row in rows]) / math.sqrt(len(rows)))
            options.append(LeakOption(*names, gain, error, *(scores + added).clip(0.0, 1.0).tolist()))
        return tuple(options)


def _guesses(odds: Floats, near: Any) -> Floats:
    """Shares of right and of certain guesses, each of all exchanges and of those near the line: as in LeakOption."""
    right = 1.0 / (1.0 + np.exp(-np.minimum(np.abs(odds), 700.0)))
    chosen = near if near.any() else np.ones_like(near)
    sure = right >= _CERTAIN
    return np.array([right.mean(), right[chosen].mean(), sure.mean(), sure[chosen].mean()])


class _Simulated:
    """One conference on the assignment at hand: scores, what they say, and how each option would decide."""

    def __init__(self, model: AffineScores, places: int, measured: _Measured, rng: np.random.Generator) -> None:
        self.model, self.places, self.measured, self.rng = model, places, measured, rng
        self.quality, self.noise = model.draw(rng)
        self.scores = model.scored(self.quality, self.noise)
        self.mean, deviation, _ = model.beliefs(self.scores)
        self.best = among_best(self.mean, deviation, places) / max(places, 1)
        means = model.plain_means(self.scores)
        self.plain = float(best_papers(means, places) @ self.best)
        order = np.sort(means)[::-1]
        line = (order[max(places - 1, 0)] + order[min(places, len(order) - 1)]) / 2
        distance = np.abs(means - line)
        self.near = distance <= np.quantile(distance, _NEAR)
        self.alone = np.zeros(4)
        self.conferences: dict[int, tuple[list[PaperGroup], Exchanges, Floats]] = {}

    def grouped(self, size: int) -> tuple[list[PaperGroup], Exchanges, Floats]:
        """Groups of so many papers, the exchanges within them, and what the scores say of each."""
        if size not in self.conferences:
            model = self.model
            table = Reviews(paper=model.paper, reviewer=model.writer, score=self.scores)
            people = {j: Affine(a, b) for j, (a, b) in enumerate(zip(model.scale, model.bias, strict=True))}
            rule: dict[str, Any] = {"accept": self.places, "group_size": size, "exchange": "single"}
            groups = list(Conference(table, functions=people, noise=model.noise, **rule).groups())
            exchanges = Exchanges.of(model, [np.array(group.papers) for group in groups])
            self.conferences[size] = groups, exchanges, exchanges.log_odds(model, self.scores, model.writer)
        return self.conferences[size]

    def add(
        self, names: tuple[str, str, str], chances: Floats, after_decisions: Floats, odds: Floats, papers: Ints
    ) -> None:
        """Measure an option that accepts papers with these chances, from the odds after decisions and from scores alone."""
        near = self.near[papers].any(axis=1)
        self.measured.add(
            names, float(chances @ self.best) - self.plain, _guesses(after_decisions, near), _guesses(odds, near)
        )

    def open(self, size: int) -> None:
        """The plain mean, which adds nothing to the scores, and open calibration."""
        _, exchanges, odds = self.grouped(size)
        accepted = best_papers(self.mean, self.places)
        self.alone = _guesses(odds, self.near[exchanges.papers].any(axis=1))
        self.measured.add(("plain mean", "plain", ""), 0.0, self.alone, self.alone)
        after_decisions = odds.copy()
        for index in range(len(odds)):
            after = self.model.beliefs(self.scores, exchanges.writers(self.model.writer, index))[0]
            if (best_papers(after, self.places) != accepted).any():
                after_decisions[index] = math.inf  # the other writers would have decided otherwise
        self.add(("open calibration", "open", ""), accepted, after_decisions, odds, exchanges.papers)

    def groups(self, size: int) -> None:
        """Decisions from the scores and the announced groups alone."""
        groups, exchanges, odds = self.grouped(size)
        chances = np.zeros(self.model.papers)
        for group in groups:
            strategy = group_strategy(group.panel, None, True)
            chances[list(group.papers)] = _accepted(strategy, group.true)
        self.add((f"announced groups of {size}", "groups", f"of {size}"), chances, odds, odds, exchanges.papers)

    def panels(self, size: int, demand: float, each: bool) -> None:
        """The paper's panels, group by group."""
        groups, exchanges, odds = self.grouped(size)
        chances, after_decisions = np.zeros(self.model.papers), odds.copy()
        rank = np.concatenate([np.arange(n) for n in np.bincount(self.model.paper)])  # of a review in its paper, sorted
        place = np.empty(len(rank), dtype=np.int64)
        place[np.argsort(self.model.paper, kind="stable")] = rank
        of_group = {paper: number for number, group in enumerate(groups) for paper in group.papers}
        inside: list[list[int]] = [[] for _ in groups]
        for index, paper in enumerate(exchanges.papers[:, 0].tolist()):
            inside[of_group[paper]].append(index)
        for group, attacked in zip(groups, inside, strict=True):
            strategy = group_strategy(group.panel, demand, each)
            chances[list(group.papers)] = _accepted(strategy, group.true)
            if len(strategy.decisions) == 1:
                continue
            row = strategy.table[group.true]
            drawn = int(self.rng.choice(len(row), p=row / row.sum()))
            width = len(group.panel.scores[0])
            for index in attacked:
                spots = [
                    group.papers.index(int(self.model.paper[review])) * width + int(place[review])
                    for review in (exchanges.first[index], exchanges.second[index])
                ]
                other = list(group.panel.assignments[group.true])
                other[spots[0]], other[spots[1]] = other[spots[1]], other[spots[0]]
                with np.errstate(divide="ignore"):
                    after_decisions[index] += np.log(row[drawn]) - np.log(strategy.table[strategy.index(other), drawn])
        kind, words = ("panel each", "every decision") if each else ("panel", "on average")
        self.add(
            (f"panels, adversary error {demand:g}, {words}", kind, f"{demand:g}"),
            chances,
            after_decisions,
            odds,
            exchanges.papers,
        )

    def lottery(self, size: int, epsilon: Number) -> None:
        """Differential privacy for the exact quota."""
        _, exchanges, odds = self.grouped(size)
        lottery = QuotaLottery(self.model, self.scores, self.places, epsilon)
        accepted = np.zeros(self.model.papers)
        accepted[lottery.draw(Randomness.simulation(int(self.rng.integers(2**31))))] = 1.0
        chosen = self.rng.permutation(len(odds))[:_ATTACKED]
        mine = lottery.log_probability(accepted)
        others = [lottery.log_probability(accepted, exchanges.writers(self.model.writer, i)) for i in chosen.tolist()]
        names = f"differential privacy, epsilon {epsilon}", "lottery", f"{epsilon}"
        after_decisions = odds[chosen] + mine - np.array(others)
        self.add(names, lottery.chances(), after_decisions, odds[chosen], exchanges.papers[chosen])

    def balance(self, size: int, strength: float) -> None:
        """Committees balanced before review, then the plain mean."""
        groups, _, _ = self.grouped(size)
        writer = balanced(self.model, strength, self.rng)
        model = replace(self.model, writer=writer)
        scores = model.scored(self.quality, self.noise)
        mean, deviation, _ = model.beliefs(scores)
        chances = best_papers(model.plain_means(scores), self.places)
        gain = float(chances @ among_best(mean, deviation, self.places)) / max(self.places, 1) - self.plain
        exchanges = Exchanges.of(model, [np.array(group.papers) for group in groups])
        odds = exchanges.log_odds(model, scores, writer) + balance_odds(model, exchanges, writer, strength)
        names = f"balanced committees, strength {strength:g}", "balance", f"{strength:g}"
        self.measured.add(names, gain, _guesses(odds, self.near[exchanges.papers].any(axis=1)), self.alone)


def _accepted(strategy: Strategy, true: int) -> Floats:
    """How likely each paper of a group is accepted."""
    inside = np.array([np.isin(np.arange(strategy.papers), decision) for decision in strategy.decisions])
    return np.asarray(strategy.table[true] @ inside)


def plan_leak(
    reviews: Any,
    *,
    functions: Mapping[Any, Reviewer],
    noise: float,
    accept: int | Threshold,
    group_sizes: Sequence[int] = (2, 3),
    epsilons: Sequence[Number] = _EPSILONS,
    demands: Sequence[float] = _DEMANDS,
    strengths: Sequence[float] = _STRENGTHS,
    conferences: int = 20,
    most_papers: int = 240,
    seed: int = 0,
    columns: Mapping[str, str] | None = None,
    progress: bool | None = None,
) -> Leak:
    """What open and private calibration would gain and give away on this assignment, by simulation.

    Parameters
    ----------
    reviews
        Who reviews which paper (Reviews, a pandas or Polars frame, or a file name). Scores are not used.
    functions, noise, accept, columns
        As of a :class:`Conference`; functions must be affine, and uncertain ones are taken by their means.
    group_sizes
        Sizes of announced groups; panels and attacks use the first.
    epsilons, demands, strengths
        Of the differentially private lottery, of the paper's panels (adversary errors, as far as the scores allow), and of the
        balance of committees.
    conferences
        How many conferences to simulate.
    most_papers
        Of a larger conference so many papers are taken, evenly, with their share of the places.
    seed
        The same seed gives the same plan.
    progress
        Whether to show a bar; ``None`` shows it on a terminal.

    Examples
    --------
    >>> from peerveil.calibration import Affine
    >>> from peerveil.data import Reviews
    >>> table = Reviews(
    ...     paper=[p for p in range(20) for _ in range(2)], reviewer=[*range(20), *range(20)], score=[0] * 40
    ... )
    >>> people = {j: Affine(1, j % 3 - 1) for j in range(20)}
    >>> plan = plan_leak(table, functions=people, noise=1, accept=5, epsilons=(8,), strengths=(), conferences=3)
    >>> plan.options[0].name, plan.options[0].gain, 0.5 < plan.scores_alone < plan.options[1].leak
    ('plain mean', 0.0, True)
    """
    table = Reviews.of(reviews, "reviews", columns=columns)
    table.require_reviewers("attacking who wrote what")
    whole(conferences, "conferences", 1)
    sizes = [whole(size, "group_sizes", 2, 6) for size in group_sizes]
    if not sizes:
        raise BadInput("group_sizes", got=group_sizes, want="at least one size")
    settings = [read_epsilon(epsilon) and epsilon for epsilon in epsilons]
    levels = numbers(demands, "demands", low=0, high=1, dimensions=(1,), empty=True, want="probabilities").tolist()
    powers = numbers(strengths, "strengths", low=0, dimensions=(1,), empty=True, want="numbers from 0").tolist()
    model = AffineScores.of(table, functions, noise)
    total, papers = model.papers, min(model.papers, whole(most_papers, "most_papers", 4))
    if total < 4:
        raise BadInput("reviews", got=Verbatim(f"{total} papers"), want="at least 4 papers")
    share = float(ndtr(-accept.quality)) if isinstance(accept, Threshold) else whole(accept, "accept", 0, total) / total
    sampled = np.isin(model.paper, np.linspace(0, total - 1, papers).astype(int))
    model = replace(model, paper=np.unique(model.paper[sampled], return_inverse=True)[1], writer=model.writer[sampled])
    measured, places, alone = _Measured(), round(share * papers), []
    seeds = np.random.SeedSequence(whole(seed, "seed", 0)).spawn(conferences)
    with progress_bar("simulating conferences", conferences, show=progress) as advance:
        for child in seeds:
            conference = _Simulated(model, places, measured, np.random.default_rng(child))
            conference.open(sizes[0])
            alone.append(conference.alone)
            for size in sizes:
                conference.groups(size)
            for demand in levels:
                for each in (False, True):
                    conference.panels(sizes[0], demand, each)
            for epsilon in settings:
                conference.lottery(sizes[0], epsilon)
            for strength in powers:
                conference.balance(sizes[0], strength)
            advance(1)
    return Leak(measured.options(np.mean(alone, axis=0)), papers, conferences)
