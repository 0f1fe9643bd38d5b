"""Pairs in simulation: what was promised against what happens, and what an adversary gets.

Every function draws qualities, an assignment and scores, lets the conference decide, hands scores and decisions to the
adversary, and counts. Nothing that the adversary uses comes from the assignment.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp

from peerveil.calibration.arrays import pair_frontiers
from peerveil.calibration.checks import noise_level, number
from peerveil.calibration.functions import Affine, log_prior, read_functions
from peerveil.core.errors import BadInput
from peerveil.core.exact import whole
from peerveil.core.guarantee import SIMULATION_MARK
from peerveil.core.result import Pictured

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from peerveil.calibration.arrays import PairFrontiers

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
            f"{self.name}: guaranteed {self.promised:.5f}, observed {self.observed:.5f} "
            f"({self.distance:+.1f} standard errors)"
        )


@dataclass(frozen=True, slots=True)
class Simulation(Pictured):
    """What a simulation counted."""

    draws: int
    conference: Tally
    adversary: Tally

    @property
    def mark(self) -> str:
        """Everybody in it is invented."""
        return SIMULATION_MARK

    @property
    def farthest(self) -> float:
        """How many standard errors guaranteed and observed errors are apart at most."""
        return max(abs(self.conference.distance), abs(self.adversary.distance))

    def summary(self) -> str:
        """Both errors, promised and observed."""
        return f"{self.draws:,} draws\n{self.conference}\n{self.adversary}"

    def __str__(self) -> str:
        return self.summary()

    def draw(self, ax: Axes) -> None:
        """Promised and observed, side by side."""
        from peerveil.calibration.figures import draw_simulation

        draw_simulation(ax, self)


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
    from peerveil.calibration.replay import simulate_panels

    return simulate_panels(
        functions,
        noise=noise,
        accept=accept,
        adversary_error=adversary_error,
        draws=draws or 1000,
        seed=seed,
        progress=False,
    )


def simulate_pairs(
    functions: Sequence[Affine],
    *,
    noise: float,
    share: float,
    draws: int = 100_000,
    seed: int = 0,
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
    part = number("share", share, low=0.0, high=1.0, want="a share from 0 to 1")
    return play_pairs(pair, noise_level(noise), lambda found: part * found.end[:, 1], whole(draws, "draws", 1), seed)


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
    found = pair_frontiers(scores, scales=scales, biases=biases, noise=sigma)
    u = found.odds
    v = 1.0 - u
    torn = found.end[:, 1] > found.start[:, 1]
    mass = np.where(torn, bought(found), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        keep0 = np.where(found.cheaper == 0, 1 - mass / u, np.where(found.cheaper < 0, 1 - mass, 1.0))
        keep1 = np.where(found.cheaper == 1, 1 - mass / v, np.where(found.cheaper < 0, 1 - mass, 1.0))
    keep0, keep1 = (np.clip(np.nan_to_num(keep, nan=1.0), 0.0, 1.0) for keep in (keep0, keep1))
    liked = found.favorite.astype(np.float64)
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
        tally("conference error", cost, wrong),
        tally("adversary error", np.where(torn, mass, found.end[:, 1]), missed),
    )


def density_of_scores(scores: Floats, functions: Sequence[Any], noise: float) -> float:
    """The log density of a paper's scores, given who wrote them, as an adversary computes it: straight from the model.

    Affine scores of a paper are jointly normal with covariance a a^T + noise^2 I; with other functions the quality is
    integrated out by the trapezoidal rule; without noise the density is carried through the inverse function.
    """
    if noise == 0:
        exact = float(functions[0].quality(scores[0]))
        return float(log_prior(exact)) - math.log(float(functions[0].slope(exact)))
    if all(isinstance(one, Affine) for one in functions):
        a, b = np.array([[one.scale, one.bias] for one in functions]).T
        covariance = np.outer(a, a) + noise**2 * np.eye(len(a))
        residual = scores - b
        sign_and_log = np.linalg.slogdet(2 * np.pi * covariance)
        return float(-0.5 * residual @ np.linalg.solve(covariance, residual) - 0.5 * sign_and_log[1])
    quality = np.linspace(-9.0, 9.0, 6001)
    value = log_prior(quality)
    for score, one in zip(scores, functions, strict=True):
        value = value - 0.5 * np.square((score - one.score(quality)) / noise) - math.log(noise)
    return float(logsumexp(value)) + math.log(quality[1] - quality[0]) - 0.5 * len(functions) * math.log(2 * math.pi)


def tally(name: str, promised: Any, happened: Any) -> Tally:
    """The mean promise against the mean outcome; the standard error is that of their difference."""
    promised = np.broadcast_to(promised, np.shape(happened))
    difference = np.asarray(happened, dtype=np.float64) - promised
    error = float(difference.std() / math.sqrt(len(difference)))
    return Tally(name, float(promised.mean()), float(np.mean(happened)), error)
