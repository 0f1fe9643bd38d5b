"""Decisions in simulation: what was guaranteed against what happens, and what an adversary gets.

- :func:`simulate_pairs` and :func:`simulate_panels` go from end to end: qualities, an assignment and scores are drawn
  anew, the papers are decided, and an adversary is handed scores, functions, the strategy and the decision. It computes
  its own posterior from the densities of scores, by other formulas than the conference's.
- :func:`simulate_panel` and :func:`simulate_conference` hold the published scores fixed and draw what they leave
  possible, so that millions of draws are cheap and the guarantee *for these scores* is tested.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from peerveil.calibration.adversary import MapAdversary
from peerveil.calibration.functions import Affine, Monotone, log_prior, noise_level, read_functions
from peerveil.calibration.losses import Threshold
from peerveil.calibration.pair import PairFrontiers, pair_frontiers
from peerveil.calibration.panel import Panel
from peerveil.calibration.problem import DecisionProblem, all_assignments
from peerveil.core.arrays import Floats, Ints
from peerveil.core.errors import BadInput
from peerveil.core.exact import number, probability, whole
from peerveil.core.guarantee import SIMULATION_MARK
from peerveil.core.lazy import logsumexp
from peerveil.core.progress import progress_bar
from peerveil.core.randomness import Randomness
from peerveil.core.result import Pictured
from peerveil.report.figures import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.calibration.conference import Conference
    from peerveil.calibration.strategy import Strategy


@dataclass(frozen=True, slots=True)
class ErrorCheck:
    """A guaranteed error and what was observed."""

    name: str
    guaranteed: float
    observed: float
    standard_error: float

    @property
    def distance(self) -> float:
        """How many standard errors apart the two are."""
        if self.standard_error == 0:
            return 0.0 if abs(self.observed - self.guaranteed) < 1e-12 else math.inf
        return (self.observed - self.guaranteed) / self.standard_error

    def __str__(self) -> str:
        return (
            f"{self.name}: guaranteed {self.guaranteed:.5f}, observed {self.observed:.5f} "
            f"({self.distance:+.1f} standard errors)"
        )


@dataclass(frozen=True, slots=True)
class Simulation(Pictured):
    """Guaranteed and observed errors of a simulation."""

    draws: int
    conference: ErrorCheck
    adversary: ErrorCheck

    @property
    def mark(self) -> str:
        """Everybody in it is synthetic."""
        return SIMULATION_MARK

    @property
    def farthest(self) -> float:
        """How many standard errors guaranteed and observed errors are apart at most."""
        return max(abs(self.conference.distance), abs(self.adversary.distance))

    def summary(self) -> str:
        """Both errors, guaranteed and observed."""
        return f"{self.draws:,} draws\n{self.conference}\n{self.adversary}"

    def draw(self, ax: Axes) -> None:
        """Guaranteed errors as lines, observed ones as points with five standard errors."""
        for place, check in enumerate((self.conference, self.adversary)):
            ax.hlines(check.guaranteed, place - 0.3, place + 0.3, color=COLORS["truth"], linewidth=2)
            width = 5 * check.standard_error
            ax.errorbar([place], [check.observed], yerr=[width], fmt="o", color=COLORS["private"], capsize=4)
        ax.set_xticks([0, 1], ["error of the conference", "error of the adversary"])
        ax.set(xlim=(-0.6, 1.6), ylim=(0.0, None), ylabel="guaranteed (line), observed (point)")


def _simulation(conference: tuple[Any, Any], adversary: tuple[Any, Any]) -> Simulation:
    """Mean guaranteed against mean observed errors; the standard error is that of their difference."""
    checks = []
    for name, (guaranteed, observed) in (("conference error", conference), ("adversary error", adversary)):
        guaranteed = np.broadcast_to(guaranteed, np.shape(observed))
        difference = np.asarray(observed, dtype=np.float64) - guaranteed
        error = float(difference.std() / math.sqrt(len(difference)))
        checks.append(ErrorCheck(name, float(guaranteed.mean()), float(np.mean(observed)), error))
    return Simulation(len(adversary[1]), *checks)


def simulate_decisions(
    functions: Sequence[Affine],
    *,
    noise: float,
    share: float,
    accept: int,
    adversary_error: float,
    draws: int | None = None,
    seed: int = 0,
) -> Simulation:
    """Pairs of two reviewers (:func:`simulate_pairs`, with ``share``), or panels of more (:func:`simulate_panels`).

    By default 100,000 pairs, or 1,000 panels.
    """
    if len(functions) == 2:
        return simulate_pairs(functions, noise=noise, share=share, draws=draws or 100_000, seed=seed)
    demands: dict[str, Any] = {"accept": accept, "adversary_error": adversary_error}
    return simulate_panels(functions, noise=noise, **demands, draws=draws or 1000, seed=seed, progress=False)


def simulate_pairs(
    functions: Sequence[Affine], *, noise: float, share: float, draws: int = 100_000, seed: int = 0
) -> Simulation:
    """Fresh pairs of papers, each decided by its own optimal strategy.

    Parameters
    ----------
    functions
        How the two reviewers score.
    noise
        The standard deviation of scores.
    share
        How much of each pair's adversary error to buy, from 0 (always use the assignment) to 1 (scores alone).
    """
    (pair,) = read_functions(list(functions), (0.0, 1.0), count=2)
    if not all(isinstance(function, Affine) for function in pair):
        raise BadInput("functions", got=functions, want="two Affine functions")
    part = number(share, "share", 0.0, 1.0, want="a share from 0 to 1")
    count = whole(draws, "draws", 1)
    return play_pairs(pair, noise_level(noise), lambda frontiers: part * frontiers.end[:, 1], count, seed)


def play_pairs(
    functions: Sequence[Affine], sigma: float, bought: Callable[[PairFrontiers], Floats], count: int, seed: int
) -> Simulation:
    """Draw pairs of papers, buy so much adversary error of each torn pair, decide, and let the adversary guess."""
    rng = np.random.default_rng(seed)
    scales, biases = np.array([[f.scale, f.bias] for f in functions]).T
    quality = rng.standard_normal((count, 2))
    swapped = rng.random(count) < 0.5
    own = np.where(swapped[:, None], [1, 0], [0, 1])
    scores = scales[own] * quality + biases[own] + sigma * rng.standard_normal((count, 2))
    frontiers = pair_frontiers(scores, scales=scales, biases=biases, noise=sigma)
    torn = frontiers.end[:, 1] > frontiers.start[:, 1]
    mass = np.where(torn, bought(frontiers), 0.0)
    favorite = frontiers.favorite.astype(np.float64)
    favorite = np.where(favorite < 0, favorite[:, ::-1], favorite)  # a tie goes to the other's favorite, or to a coin
    favorite = np.where(favorite < 0, 0.5, favorite)
    second = np.empty((2, count))  # the chance that paper 2 is accepted, under either assignment
    for index, posterior in enumerate((frontiers.odds, 1.0 - frontiers.odds)):
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = np.where(frontiers.cheaper == index, mass / posterior, np.where(frontiers.cheaper < 0, mass, 0.0))
        keep = np.clip(np.nan_to_num(1 - moved, nan=1.0), 0.0, 1.0)
        second[index] = keep * favorite[:, index] + (1 - keep) * favorite[:, 1 - index]
    accepted = (rng.random(count) < np.where(swapped, second[1], second[0])).astype(np.int64)
    rows = np.arange(count)
    wrong = quality[rows, accepted] < quality[rows, 1 - accepted]
    # the adversary computes its own posterior from the published scores, by the densities as they stand
    deviation = np.hypot(scales, sigma)
    z = (scores[:, :, None] - biases) / deviation
    log_density = -0.5 * z * z - np.log(deviation)
    with np.errstate(divide="ignore"):
        log_second = np.log(np.where(accepted == 1, second, 1 - second))
    as_listed = log_density[:, 0, 0] + log_density[:, 1, 1] + log_second[0]
    exchanged = log_density[:, 0, 1] + log_density[:, 1, 0] + log_second[1]
    guess = np.where(np.abs(as_listed - exchanged) < 1e-9, rng.random(count) < 0.5, exchanged > as_listed)
    return _simulation(
        (frontiers.start[:, 0] + mass * frontiers.price, wrong),
        (np.where(torn, mass, frontiers.end[:, 1]), guess != swapped),
    )


def simulate_panels(
    functions: Sequence[Affine | Monotone],
    *,
    noise: float,
    accept: int | Threshold,
    adversary_error: float,
    reviews: Sequence[int] | None = None,
    adversary: str = "paper",
    draws: int = 1000,
    seed: int = 0,
    progress: bool | None = None,
) -> Simulation:
    """Fresh panels from end to end; the adversary attacks the first review (or the whole assignment).

    Parameters
    ----------
    functions
        How each reviewer scores.
    noise
        The standard deviation of scores.
    accept
        How many papers to accept, or a :class:`Threshold`.
    adversary_error
        Demanded of every panel, as far as its scores allow.
    reviews
        How many reviews each paper has; one for every reviewer's own paper if left out.
    draws
        How many panels; each costs a linear program.

    Examples
    --------
    >>> trio = [Affine(1.2, 0.3), Affine(0.8, -0.6), Affine(1.0, 0.4)]
    >>> simulation = simulate_panels(trio, noise=0.4, accept=1, adversary_error=0.4, draws=200, seed=1)
    >>> abs(simulation.adversary.distance) < 5
    True
    """
    (people,) = read_functions(list(functions), (0.0, 1.0))
    demand = probability(adversary_error, "adversary_error")
    count, counts = whole(draws, "draws", 1), list(reviews or [1] * len(people))
    candidates = np.array(all_assignments(counts, len(people)))
    guessed = candidates[:, 0] if adversary == "paper" else np.arange(len(candidates))
    paper = np.repeat(np.arange(len(counts)), counts)
    rng = np.random.default_rng(seed)
    outcome = np.empty((4, count))
    with progress_bar("playing panels", count, show=progress) as advance:
        for row in range(count):
            true = int(rng.integers(len(candidates)))
            quality = rng.standard_normal(len(counts))
            exact = [float(people[j].score(quality[i])) for i, j in zip(paper, candidates[true], strict=True)]
            scores = np.array(exact) + noise * rng.standard_normal(len(paper))
            listed = [scores[paper == i].tolist() for i in range(len(counts))]
            panel = Panel(listed, people, noise, accept, candidates.tolist(), adversary)
            strategy = panel.strategy(adversary_error=demand, capped=True)
            decision = _drawn(strategy.table[[true]], rng.random(1))
            # from here on nothing but scores, functions, noise, the strategy and the decision is used
            log_posterior = _log_densities(scores, paper, candidates, people, noise)
            chance = np.exp(log_posterior - logsumexp(log_posterior)) * strategy.table[:, decision[0]]
            weight = np.bincount(guessed, weights=chance)
            guess = rng.choice(np.flatnonzero(weight >= weight.max() * (1 - 1e-9)))
            wrong = float(_wrong(panel, decision, quality[None, :])[0])
            outcome[:, row] = strategy.conference_error, wrong, strategy.review_errors[0], guess != guessed[true]
            advance(1)
    return _simulation((outcome[0], outcome[1]), (outcome[2], outcome[3]))


def _log_densities(scores: Floats, paper: Ints, candidates: Ints, functions: list[Any], noise: float) -> Floats:
    """The log density of all scores under every candidate, as the adversary computes it: straight from the model."""
    total = np.zeros(len(candidates))
    for i in range(int(paper.max()) + 1):
        places = np.flatnonzero(paper == i)
        committees, index = np.unique(candidates[:, places], axis=0, return_inverse=True)
        known = [_log_density(scores[places], [functions[j] for j in committee], noise) for committee in committees]
        total += np.array(known)[index.ravel()]
    return total


def _log_density(scores: Floats, functions: Sequence[Any], noise: float) -> float:
    """The log density of a paper's scores, given who wrote them.

    Affine scores of a paper are jointly normal with covariance a a^T + noise^2 I; with other functions the quality is
    integrated out by the trapezoidal rule; without noise the density is carried through the inverse function.
    """
    if noise == 0:
        exact = float(functions[0].quality(scores[0]))
        return float(log_prior(exact)) - math.log(float(functions[0].slope(exact)))
    if all(isinstance(function, Affine) for function in functions):
        a, b = np.array([[function.scale, function.bias] for function in functions]).T
        covariance = np.outer(a, a) + noise**2 * np.eye(len(a))
        residual = scores - b
        _, log_determinant = np.linalg.slogdet(2 * np.pi * covariance)
        return float(-0.5 * residual @ np.linalg.solve(covariance, residual) - 0.5 * log_determinant)
    quality = np.linspace(-9.0, 9.0, 6001)
    value = log_prior(quality)
    for score, function in zip(scores, functions, strict=True):
        value = value - 0.5 * np.square((score - function.score(quality)) / noise) - math.log(noise)
    return float(logsumexp(value)) + math.log(quality[1] - quality[0]) - 0.5 * len(functions) * math.log(2 * math.pi)


# ---- published scores stay ------------------------------------------------------------------------------------------


def simulate_panel(problem: DecisionProblem, *, strategy: Strategy, draws: int = 100_000, seed: int = 0) -> Simulation:
    """A pair or a panel: the published scores stay, assignments and qualities are drawn from what they leave possible."""
    if not isinstance(problem, DecisionProblem):
        raise BadInput("problem", got=problem, want="a Pair or a Panel")
    wrong, missed = _played(problem, strategy, whole(draws, "draws", 1), np.random.default_rng(seed), seed)
    weakest = missed[:, int(strategy.review_errors.argmin())]
    return _simulation((strategy.conference_error, wrong), (strategy.adversary_error, weakest))


def simulate_conference(
    conference: Conference, *, adversary_error: float, draws: int = 100_000, seed: int = 0, progress: bool | None = None
) -> Simulation:
    """Decide a conference over and over, scores fixed: papers on the wrong side, and writers that are not named.

    Both are shares, of all papers and of all reviews; they are the sums over groups that the conference guarantees.
    """
    demand = probability(adversary_error, "adversary_error")
    count = whole(draws, "draws", 1)
    rng = np.random.default_rng(seed)
    sizes, expected, observed = np.zeros((2, 1)), np.zeros((2, 1)), np.zeros((2, count))  # of papers, and of reviews
    with progress_bar("playing groups", len(conference), show=progress) as advance:
        for index, group in enumerate(conference.groups()):
            strategy = group.panel.strategy(adversary_error=demand, capped=True)
            wrong, missed = _played(group.panel, strategy, count, rng, seed + index)
            papers, reviews = len(group.papers), missed.shape[1]
            sizes += [[papers], [reviews]]
            expected += [[strategy.conference_error * papers], [strategy.review_errors.sum()]]
            observed += [wrong * papers, missed.sum(axis=1)]
            advance(1)
    conference_errors, adversary_errors = zip(expected / sizes, observed / sizes, strict=True)
    return _simulation(conference_errors, adversary_errors)


def _played(
    problem: DecisionProblem, strategy: Strategy, count: int, rng: np.random.Generator, seed: int
) -> tuple[Floats, NDArray[np.bool_]]:
    """How wrong each decision is, and whether each guess misses: one column per review, or one for the assignment."""
    true = rng.choice(len(problem.assignments), count, p=problem.posterior)
    decision = _drawn(strategy.table[true], rng.random(count))
    wrong = _wrong(problem, decision, _qualities(problem, true, rng))
    guesses = MapAdversary(strategy).attack(decision, randomness=Randomness.simulation(seed))
    secret = np.array(problem.assignments)[true] if strategy.adversary == "paper" else true[:, None]
    return wrong, guesses != secret


def _drawn(chances: Floats, uniform: Floats) -> Ints:
    """A column for every row of probabilities, by inversion."""
    columns = (uniform[:, None] >= np.cumsum(chances, axis=1)).sum(axis=1)
    return np.asarray(columns.clip(max=chances.shape[1] - 1), dtype=np.int64)


def _wrong(problem: DecisionProblem, decision: Ints, quality: Floats) -> Floats:
    """The conference's error of decisions, given qualities (standardized)."""
    chosen = np.array([np.isin(range(problem.papers), accepted) for accepted in problem.decisions])[decision]
    if isinstance(problem.accept, Threshold):
        line = (problem.accept.quality - problem.prior[0]) / problem.prior[1]
        return np.asarray((chosen != (quality > line)).mean(axis=1), dtype=np.float64)
    if problem.accept in {0, problem.papers}:
        return np.zeros(len(decision))
    last = np.sort(quality, axis=1)[:, -problem.accept][:, None]
    return np.asarray((chosen & (quality < last)).sum(axis=1) / problem.accept, dtype=np.float64)


def _qualities(problem: DecisionProblem, true: Ints, rng: np.random.Generator) -> Floats:
    """Qualities from the posterior under the drawn assignments, with the draw of uncertain reviewers drawn too."""
    drawn = _drawn(problem.draw_weights[:, true].T, rng.random(len(true)))
    quality = np.empty((len(true), problem.papers))
    for draw, beliefs in enumerate(problem.beliefs):
        rows = np.flatnonzero(drawn == draw)
        for paper, known in enumerate(beliefs):
            held = problem.which[true[rows], paper]
            for index, belief in enumerate(known):
                here = rows[held == index]
                quality[here, paper] = belief.sample(len(here), rng)
    return quality
