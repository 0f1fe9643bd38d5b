"""Whole conferences in simulation: what was promised against what happens, and what an adversary gets.

Every function draws qualities, an assignment and scores, lets the conference decide, hands scores and decisions to the
adversary, and counts. Nothing that the adversary uses comes from the assignment.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.calibration.adversary import MapAdversary
from peerveil.calibration.arrays import pair_frontiers
from peerveil.calibration.beliefs import Curve, Normal, Point
from peerveil.calibration.checks import noise_level, number, whole
from peerveil.calibration.functions import Affine, read_reviewers
from peerveil.calibration.panel import Panel, Threshold
from peerveil.errors import BadInput
from peerveil.randomness import Randomness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from peerveil.calibration.average import AverageStrategy
    from peerveil.calibration.strategy import Strategy

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Tally:
    """A promised error and what was counted."""

    name: str
    promised: float
    observed: float
    standard_error: float

    @property
    def distance(self) -> float:
        """How many standard errors apart the two are."""
        if self.standard_error == 0:
            return 0.0 if abs(self.observed - self.promised) < 1e-12 else math.inf
        return (self.observed - self.promised) / self.standard_error

    def __str__(self) -> str:
        return (
            f"{self.name}: promised {self.promised:.5f}, observed {self.observed:.5f} "
            f"({self.distance:+.1f} standard errors)"
        )


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a simulation counted."""

    draws: int
    conference: Tally
    adversary: Tally

    def summary(self) -> str:
        """Both errors, promised and observed."""
        return f"{self.draws:,} draws\n{self.conference}\n{self.adversary}"

    def __str__(self) -> str:
        return self.summary()

    def draw(self, ax: Axes) -> None:
        """Promised and observed, side by side."""
        from peerveil.calibration.figures import draw_simulation

        draw_simulation(ax, self)


def simulate_pairs(
    reviewers: Sequence[Affine],
    noise: float,
    share: float,
    *,
    draws: int = 100_000,
    seed: int = 0,
    price: float = 1.0,
) -> Simulation:
    """Fresh pairs of papers, each decided by its own optimal strategy.

    Parameters
    ----------
    share
        How much of each pair's adversary error to buy, from 0 (always use the assignment) to 1 (scores alone).
    price
        Buy only from pairs at this price or below: 1 for all of them.
    """
    (functions,) = read_reviewers(list(reviewers), (0.0, 1.0), count=2)
    if not all(isinstance(one, Affine) for one in functions):
        raise BadInput("reviewers", got=reviewers, want="two Affine functions")
    sigma = noise_level(noise)
    part = number("share", share, low=0.0, high=1.0, want="a share from 0 to 1")
    count = whole("draws", draws, 1)
    rng = np.random.default_rng(seed)
    scales, biases = np.array([[f.scale, f.bias] for f in functions]).T
    quality = rng.standard_normal((count, 2))
    swapped = rng.random(count) < 0.5
    own = np.where(swapped[:, None], [1, 0], [0, 1])
    scores = scales[own] * quality + biases[own] + sigma * rng.standard_normal((count, 2))
    found = pair_frontiers(scores, scales, biases, sigma)
    u = found.odds
    v = 1.0 - u
    torn = found.end[:, 1] > found.start[:, 1]
    mass = np.where(torn & (found.price <= price), part * found.end[:, 1], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        keep0 = np.where(found.cheaper == 0, 1 - mass / u, np.where(found.cheaper < 0, 1 - mass, 1.0))
        keep1 = np.where(found.cheaper == 1, 1 - mass / v, np.where(found.cheaper < 0, 1 - mass, 1.0))
    keep0, keep1 = (np.clip(np.nan_to_num(keep, nan=1.0), 0.0, 1.0) for keep in (keep0, keep1))
    liked = found.favourite.astype(np.float64)
    liked = np.where(liked < 0, liked[:, ::-1], liked)
    liked = np.where(liked < 0, 0.5, liked)
    second0 = keep0 * liked[:, 0] + (1 - keep0) * liked[:, 1]  # paper 2 is accepted, under either assignment
    second1 = keep1 * liked[:, 1] + (1 - keep1) * liked[:, 0]
    accepted = (rng.random(count) < np.where(swapped, second1, second0)).astype(np.int64)
    rows = np.arange(count)
    wrong = quality[rows, accepted] < quality[rows, 1 - accepted]
    # the adversary computes its own posterior from the published scores, by the densities as they stand
    deviation = np.hypot(scales, sigma)
    z = (scores[:, :, None] - biases) / deviation
    log_density = -0.5 * z * z - np.log(deviation)
    as_listed = log_density[:, 0, 0] + log_density[:, 1, 1]
    exchanged = log_density[:, 0, 1] + log_density[:, 1, 0]
    with np.errstate(divide="ignore"):
        as_listed = as_listed + np.log(np.where(accepted == 1, second0, 1 - second0))
        exchanged = exchanged + np.log(np.where(accepted == 1, second1, 1 - second1))
    tie = np.abs(as_listed - exchanged) < 1e-9
    guess = np.where(tie, rng.random(count) < 0.5, exchanged > as_listed)
    missed = guess != swapped
    cost = found.start[:, 0] + mass * found.price
    return Simulation(
        count,
        _tally("conference error", cost, wrong),
        _tally("adversary error", np.where(torn, mass, found.end[:, 1]), missed),
    )


def simulate_average(strategy: AverageStrategy, *, draws: int = 100_000, seed: int = 0) -> Simulation:
    """Fresh pairs of papers, all decided by one average-case strategy."""
    case = strategy.case
    if case.prior != (0.0, 1.0):
        raise BadInput("strategy", got=case.prior, want="qualities of mean 0 and standard deviation 1")
    share = strategy.share if case.noise == 0 else 1.0
    found = simulate_pairs(
        [one for one in case.reviewers if isinstance(one, Affine)],
        case.noise,
        share,
        draws=draws,
        seed=seed,
        price=strategy.price,
    )

    def against(tally: Tally, promised: float) -> Tally:
        error = math.sqrt(tally.observed * (1 - tally.observed) / draws)
        return Tally(tally.name, promised, tally.observed, error)

    return Simulation(
        draws,
        against(found.conference, strategy.conference_error),
        against(found.adversary, strategy.adversary_error),
    )


def simulate_panel(panel: Panel, strategy: Strategy, *, draws: int = 100_000, seed: int = 0) -> Simulation:
    """The published scores of a panel stay; assignments and qualities are drawn from what they leave possible."""
    count = whole("draws", draws, 1)
    rng = np.random.default_rng(seed)
    true = rng.choice(len(panel.assignments), count, p=panel.posterior)
    chances = np.cumsum(strategy.table, axis=1)
    decision = (rng.random(count)[:, None] >= chances[true]).sum(axis=1).clip(max=strategy.table.shape[1] - 1)
    quality = _qualities(panel, true, rng)
    inside = np.zeros((len(panel.decisions), panel.papers), dtype=np.bool_)
    for row, accepted in enumerate(panel.decisions):
        inside[row, list(accepted)] = True
    chosen = inside[decision]
    if isinstance(panel.accept, Threshold):
        line = (panel.accept.quality - panel.prior[0]) / panel.prior[1]
        wrong = (chosen != (quality > line)).mean(axis=1)
    elif panel.accept in {0, panel.papers}:
        wrong = np.zeros(count)
    else:
        last = np.sort(quality, axis=1)[:, -panel.accept][:, None]
        wrong = (chosen & (quality < last)).sum(axis=1) / panel.accept
    guesses = MapAdversary(strategy).attack(decision, Randomness.simulation(seed))
    if strategy.adversary == "assignment":
        missed = guesses[:, 0] != true
    else:
        weakest = int(strategy.review_errors.argmin())
        missed = guesses[:, weakest] != np.array(panel.assignments)[true, weakest]
    return Simulation(
        count,
        _tally("conference error", np.full(count, strategy.conference_error), wrong),
        _tally("adversary error", np.full(count, strategy.adversary_error), missed),
    )


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


def _tally(name: str, promised: Floats, happened: Any) -> Tally:
    """The mean promise against the mean outcome; the standard error is that of their difference."""
    difference = np.asarray(happened, dtype=np.float64) - promised
    error = float(difference.std() / math.sqrt(len(difference)))
    return Tally(name, float(promised.mean()), float(np.mean(happened)), error)
