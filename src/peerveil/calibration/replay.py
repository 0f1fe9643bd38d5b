"""Panels and conferences in simulation: what was promised against what happens, and what an adversary gets.

- :func:`simulate_panels` plays from end to end: qualities, an assignment and scores are drawn anew, the panel is
  solved and decided, and an adversary is handed scores, functions, the strategy and the decision. It computes its own
  posterior from the densities of scores, by other formulas than the panel's.
- :func:`simulate_panel` and :func:`simulate_conference` hold the published scores fixed and draw what they leave
  possible, so that millions of draws are cheap and the promise *for these scores* is tested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp

from peerveil.calibration.adversary import MapAdversary
from peerveil.calibration.assignments import all_assignments
from peerveil.calibration.beliefs import Curve, Normal, Point
from peerveil.calibration.checks import number
from peerveil.calibration.functions import Affine, Monotone, read_functions
from peerveil.calibration.losses import Threshold
from peerveil.calibration.pair import Pair
from peerveil.calibration.panel import Panel
from peerveil.calibration.simulate import Simulation, density_of_scores, tally
from peerveil.core.errors import BadInput
from peerveil.core.exact import whole
from peerveil.core.progress import progress_bar
from peerveil.core.randomness import Randomness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from peerveil.calibration.conference import Conference
    from peerveil.calibration.strategy import Strategy

    Floats = NDArray[np.float64]
    Whole = NDArray[np.int64]


def simulate_panel(problem: Panel | Pair, *, strategy: Strategy, draws: int = 100_000, seed: int = 0) -> Simulation:
    """The published scores stay; assignments and qualities are drawn from what they leave possible."""
    count = whole(draws, "draws", 1)
    panel = _as_panel(problem)
    rng = np.random.default_rng(seed)
    true, decision, wrong = _played(panel, strategy.table, count, rng)
    guesses = MapAdversary(strategy).attack(decision, randomness=Randomness.simulation(seed))
    if strategy.adversary == "assignment":
        missed = guesses[:, 0] != true
    else:
        weakest = int(strategy.review_errors.argmin())
        missed = guesses[:, weakest] != np.array(panel.assignments)[true, weakest]
    return Simulation(
        count,
        tally("conference error", strategy.conference_error, wrong),
        tally("adversary error", strategy.adversary_error, missed),
    )


def simulate_conference(
    conference: Conference, *, adversary_error: float, draws: int = 100_000, seed: int = 0, progress: bool | None = None
) -> Simulation:
    """Decide a conference over and over, scores fixed: papers on the wrong side, and writers that are not named.

    Both are shares, of all papers and of all reviews; they are the sums over groups that the conference promises.
    """
    asked = number("adversary_error", adversary_error, low=0.0, high=1.0, want="a probability")
    count = whole(draws, "draws", 1)
    rng = np.random.default_rng(seed)
    wrong, missed = np.zeros(count), np.zeros(count)
    paid = kept = 0.0
    papers = reviews = 0
    with progress_bar("playing groups", len(conference), show=progress) as advance:
        for index, group in enumerate(conference.groups()):
            strategy = group.panel.strategy(adversary_error=asked, capped=True)
            true, decision, off = _played(group.panel, strategy.table, count, rng)
            guesses = MapAdversary(strategy).attack(decision, randomness=Randomness.simulation(seed + index))
            size, written = len(group.papers), len(group.panel.assignments[0])
            wrong += off * size
            missed += (guesses != np.array(group.panel.assignments)[true]).sum(axis=1)
            paid += strategy.conference_error * size
            kept += float(strategy.review_errors.sum())
            papers, reviews = papers + size, reviews + written
            advance(1)
    return Simulation(
        count,
        tally("conference error", paid / papers, wrong / papers),
        tally("adversary error", kept / reviews, missed / reviews),
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
        Asked of every panel, as far as its scores allow.
    reviews
        How many reviews each paper has; one for every reviewer's own paper if left out.
    draws
        How many panels; each costs a linear program.

    Examples
    --------
    >>> trio = [Affine(1.2, 0.3), Affine(0.8, -0.6), Affine(1.0, 0.4)]
    >>> found = simulate_panels(trio, noise=0.4, accept=1, adversary_error=0.4, draws=200, seed=1)
    >>> abs(found.adversary.distance) < 5
    True
    """
    (people,) = read_functions(list(functions), (0.0, 1.0))
    asked = number("adversary_error", adversary_error, low=0.0, high=1.0, want="a probability")
    count, counts = whole(draws, "draws", 1), list(reviews or [1] * len(people))
    candidates = np.array(all_assignments(counts, len(people)))
    paper = np.repeat(np.arange(len(counts)), counts)
    rng = np.random.default_rng(seed)
    outcome = np.empty((count, 4))
    with progress_bar("playing panels", count, show=progress) as advance:
        for row in range(count):
            true = int(rng.integers(len(candidates)))
            quality = rng.standard_normal(len(counts))
            exact = [float(people[j].score(quality[i])) for i, j in zip(paper, candidates[true], strict=True)]
            scores = np.array(exact) + noise * rng.standard_normal(len(paper))
            panel = Panel(
                [scores[paper == i].tolist() for i in range(len(counts))],
                people,
                noise,
                accept,
                candidates.tolist(),
                adversary,
            )
            strategy = panel.strategy(adversary_error=asked, capped=True)
            decision = int(
                (rng.random() >= np.cumsum(strategy.table[true])).sum().clip(max=strategy.table.shape[1] - 1)
            )
            # from here on nothing but scores, functions, noise, the strategy and the decision is used
            log_posterior = _densities(scores, paper, candidates, people, noise)
            chance = np.exp(log_posterior - logsumexp(log_posterior)) * strategy.table[:, decision]
            who = candidates[:, 0] if adversary == "paper" else np.arange(len(candidates))
            weight = np.bincount(who, weights=chance)
            best = np.flatnonzero(weight >= weight.max() * (1 - 1e-9))
            missed = float(rng.choice(best) != who[true])
            wrong = float(_wrong(panel, np.array([decision]), quality[None, :])[0])
            outcome[row] = strategy.conference_error, wrong, strategy.review_errors[0], missed
            advance(1)
    return Simulation(
        count,
        tally("conference error", outcome[:, 0], outcome[:, 1]),
        tally("adversary error", outcome[:, 2], outcome[:, 3]),
    )


def _densities(scores: Floats, paper: Whole, candidates: Whole, functions: list[Any], noise: float) -> Floats:
    """The log density of all scores under every candidate, as the adversary computes it: straight from the model."""
    known: dict[tuple[int, ...], float] = {}
    total = np.zeros(len(candidates))
    for row, candidate in enumerate(candidates.tolist()):
        for i in range(int(paper.max()) + 1):
            places = np.flatnonzero(paper == i)
            key = (i, *(candidate[k] for k in places))
            if key not in known:
                known[key] = density_of_scores(scores[places], [functions[candidate[k]] for k in places], noise)
            total[row] += known[key]
    return total


def _as_panel(problem: Panel | Pair) -> Panel:
    if isinstance(problem, Pair):
        return Panel(
            list(problem.scores),
            list(problem.functions),
            problem.noise,
            1,
            adversary="assignment",
            odds=problem.odds,
            prior=problem.prior,
        )
    if not isinstance(problem, Panel):
        raise BadInput("problem", got=problem, want="a Pair or a Panel")
    return problem


def _played(panel: Panel, table: Floats, count: int, rng: np.random.Generator) -> tuple[Whole, Whole, Floats]:
    """True assignments, decisions, and how wrong each decision is."""
    true = rng.choice(len(panel.assignments), count, p=panel.posterior)
    chances = np.cumsum(table, axis=1)
    decision = (rng.random(count)[:, None] >= chances[true]).sum(axis=1).clip(max=table.shape[1] - 1)
    return true, decision, _wrong(panel, decision, _qualities(panel, true, rng))


def _wrong(panel: Panel, decision: Whole, quality: Floats) -> Floats:
    """The conference's error of decisions, given qualities (standardized)."""
    inside = np.zeros((len(panel.decisions), panel.papers), dtype=np.bool_)
    for row, accepted in enumerate(panel.decisions):
        inside[row, list(accepted)] = True
    chosen = inside[decision]
    if isinstance(panel.accept, Threshold):
        line = (panel.accept.quality - panel.prior[0]) / panel.prior[1]
        return np.asarray((chosen != (quality > line)).mean(axis=1), dtype=np.float64)
    if panel.accept in {0, panel.papers}:
        return np.zeros(len(decision))
    last = np.sort(quality, axis=1)[:, -panel.accept][:, None]
    return np.asarray((chosen & (quality < last)).sum(axis=1) / panel.accept, dtype=np.float64)


def _qualities(panel: Panel, true: Any, rng: np.random.Generator) -> Floats:
    """Qualities from the posterior under the drawn assignments, with the draw of uncertain reviewers drawn too."""
    weights = panel.draw_weights[:, true]
    which_draw = (rng.random(len(true)) >= np.cumsum(weights, axis=0)).sum(axis=0).clip(max=len(weights) - 1)
    quality = np.empty((len(true), panel.papers))
    for draw, (_, beliefs, which) in enumerate(panel.belief_draws):
        rows = np.flatnonzero(which_draw == draw)
        for paper, known in enumerate(beliefs):
            held = which[true[rows], paper]
            for index, one in enumerate(known):
                here = rows[held == index]
                quality[here, paper] = _sample(one, len(here), rng)
    return quality


def _sample(one: Any, count: int, rng: np.random.Generator) -> Any:
    if isinstance(one, Point):
        return np.full(count, one.value)
    if isinstance(one, Normal):
        return one.mean + one.deviation * rng.standard_normal(count)
    assert isinstance(one, Curve)
    grid = np.unique(np.concatenate([np.linspace(a, b, 40) for a, b in zip(one.edges, one.edges[1:], strict=False)]))
    density = np.exp(one.log_density(grid))
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(grid))])
    return np.interp(rng.random(count) * mass[-1], mass, grid)
