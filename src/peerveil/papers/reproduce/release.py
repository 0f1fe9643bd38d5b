"""Ding, Shah and Wang (2021): Figure 2a to 2h, and Propositions 4.1 and 4.2 as experiments.

The paper shows its errors as curves without numbers, and its text does not say from which beta distributions panels a to e
were drawn (the subcaptions are lost): ours are five of different shapes, beta(1, 1) and beta(0.5, 0.5) among them. Its
methods are run here beside ours on the same conferences, so that the comparison does not depend on reading a plot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.progress import progress_bar
from peerveil.papers.release.region import chain_region
from peerveil.papers.release.simulate import simulate_conference
from peerveil.papers.reproduce.experiment import Comparison, Reproduction, Verdict
from peerveil.papers.reproduce.illustrations import of_module
from peerveil.release import feasible_region
from peerveil.release.expectation import public_prior
from peerveil.release.mechanism import estimate_means
from peerveil.report import COLORS, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SEED: Final = 20210202
_SCALE: Final = 1.0  # Laplace noise of variance 2: epsilon 1 for an exchange of two reviews (erratum to section 3.2)
METHODS: Final = ("noisy", "baseline", "paper", "counting", "default", "public")
_LABELS: Final = {
    "noisy": "noisy",
    "baseline": "baseline projection (paper)",
    "paper": "paper's algorithm (chains)",
    "counting": "our projection",
    "default": "our default (shrinkage)",
    "public": "public data alone",
}


@dataclass(frozen=True, slots=True)
class _Setting:
    """One panel of Figure 2."""

    panel: str
    title: str
    axis: str
    points: tuple[float, ...]
    settings: Callable[[float], dict[str, Any]]


def _iid(a: float, b: float) -> Callable[[float], dict[str, Any]]:
    return lambda n: {"reviewers": int(n), "beta": (a, b)}


_SIZES: Final = (10.0, 20.0, 30.0, 40.0, 50.0)
_PANELS: Final = (
    _Setting("2a", "weights from beta(1, 1)", "reviewers", _SIZES, _iid(1, 1)),
    _Setting("2b", "weights from beta(0.5, 0.5)", "reviewers", _SIZES, _iid(0.5, 0.5)),
    _Setting("2c", "weights from beta(2, 2)", "reviewers", _SIZES, _iid(2, 2)),
    _Setting("2d", "weights from beta(1, 3)", "reviewers", _SIZES, _iid(1, 3)),
    _Setting("2e", "weights from beta(2, 5)", "reviewers", _SIZES, _iid(2, 5)),
    _Setting(
        "2f",
        "weights from beta(a, a), ten reviewers",
        "a",
        (0.5, 1, 2, 4, 7, 10),
        lambda a: {"reviewers": 10, "beta": (a, a)},
    ),
    _Setting(
        "2g",
        "paper i: beta(1, i) and beta(2, i)",
        "reviewers",
        _SIZES,
        lambda n: {"reviewers": int(n), "pattern": "by-paper"},
    ),
    _Setting(
        "2h",
        "paper i, reviewer j: beta(i, j)",
        "reviewers",
        _SIZES,
        lambda n: {"reviewers": int(n), "pattern": "by-pair"},
    ),
)


def errors_at(
    settings: dict[str, Any], trials: int, seed: int, advance: Callable[[int], None], scale: float = _SCALE
) -> np.ndarray[Any, Any]:
    """Squared errors, one row per trial and one column per method."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(trials):
        conference = simulate_conference(rng=rng, **settings)
        public, truth = conference.public, conference.true_means
        noisy = truth + rng.laplace(scale=scale, size=truth.size)
        region, prior = feasible_region(public), public_prior(public)
        guesses = {
            "noisy": noisy,
            "baseline": feasible_region(public, bounds="range").project(noisy),
            "paper": chain_region(public).project(noisy),
            "counting": region.project(noisy),
            "default": estimate_means(noisy, 2 * scale**2, region, "shrinkage", prior),
            "public": prior.means[0].mean(axis=0),
        }
        rows.append([float(np.sum((guesses[name] - truth) ** 2)) for name in METHODS])
        advance(1)
    return np.array(rows)


def figure_2(panel: _Setting, quick: bool = False, progress: bool | None = None) -> Reproduction:
    """One panel of Figure 2: the paper's three methods and ours, with standard errors."""
    trials = 12 if quick else 60
    points = panel.points[:: len(panel.points) - 1] if quick else panel.points
    means, spreads = [], []
    with progress_bar(f"figure {panel.panel}", total=trials * len(points), show=progress) as advance:
        for i, point in enumerate(points):
            errors = errors_at(panel.settings(point), trials, _SEED + i, advance)
            means.append(errors.mean(axis=0))
            spreads.append(errors.std(axis=0, ddof=1) / np.sqrt(trials))
    table, spread = np.array(means), np.array(spreads)
    rows = []
    for i, point in enumerate(points):
        by = dict(zip(METHODS, table[i], strict=True))
        order = by["noisy"] > by["baseline"] >= by["paper"]
        rows.append(
            Comparison(
                what=f"{panel.axis} {point:g}: noisy / baseline / paper's algorithm",
                paper="each below the one before (curves without numbers)",
                ours=" / ".join(f"{by[name]:.3g}" for name in ("noisy", "baseline", "paper")),
                verdict=Verdict.of(order),
            )
        )
        rows.append(
            Comparison(
                what=f"{panel.axis} {point:g}: our projection, our default, public data alone",
                paper="-",
                ours=" / ".join(f"{by[name]:.3g}" for name in ("counting", "default", "public")),
                verdict=Verdict.NOTHING_PRINTED,
                explanation=f"{by['counting'] / by['paper']:.2f} and {by['default'] / by['paper']:.2f} of the paper's error",
            )
        )
    lost = "The paper's text does not name this panel's distribution; ours is one of five shapes. "
    unknown = lost if panel.panel < "2f" else ""
    note = (
        f"{unknown}{trials} trials a point, bars are standard errors. Noise of variance 2 as in the paper, which is epsilon = "
        "1 for an exchange of one review between two reviewers; the paper gives no sensitivity (erratum)."
    )
    axes = _draw(panel, list(points), table, spread)
    return Reproduction(f"release/figure-{panel.panel}", panel.title, tuple(rows), note, axes)


def _draw(panel: _Setting, points: list[float], table: np.ndarray[Any, Any], spread: np.ndarray[Any, Any]) -> Axes:
    (ax,) = new_axes(height=4)
    styles = {
        "noisy": (COLORS["truth"], ":"),
        "baseline": (COLORS["truth"], "--"),
        "paper": (COLORS["leak"], "-"),
        "counting": (COLORS["private"], "--"),
        "default": (COLORS["private"], "-"),
        "public": (COLORS["accent"], "--"),
    }
    for j, name in enumerate(METHODS):
        color, line = styles[name]
        ax.errorbar(points, table[:, j], yerr=spread[:, j], color=color, ls=line, marker="o", ms=3, label=_LABELS[name])
    ax.set_yscale("log")
    ax.set_xlabel(panel.axis)
    ax.set_ylabel("mean squared error (sum over reviewers)")
    ax.set_title(f"Figure {panel.panel}: {panel.title}", loc="left", fontsize="medium")
    ax.legend(fontsize="small")
    return ax


def less_noise(quick: bool = False, progress: bool | None = None) -> Reproduction:
    """Figure 2a's setting with less noise and with biased reviewers: where does a release beat what is public?"""
    trials, reviewers = (6, 10) if quick else (200, 30)
    scales, biases = ((1.0, 0.03), (0.0, 0.3)) if quick else ((1.0, 0.3, 0.1, 0.03), (0.0, 0.1, 0.3))
    rows, table, spread = [], [], []
    with progress_bar("less noise", total=trials * len(scales) * len(biases), show=progress) as advance:
        for bias in biases:
            for scale in scales:
                errors = errors_at({"reviewers": reviewers, "bias": bias}, trials, _SEED, advance, scale)
                by = dict(zip(METHODS, errors.mean(axis=0), strict=True))
                best = min(by["counting"], by["public"])
                rows.append(
                    Comparison(
                        what=f"noise scale {scale:g}, bias {bias:g}: noisy / {' / '.join(METHODS[2:])}",
                        paper="-",
                        ours=" / ".join(f"{by[name]:.2g}" for name in METHODS if name != "baseline"),
                        verdict=Verdict.NOTHING_PRINTED,
                        explanation=f"default is {by['default'] / best:.2f} of the better of projection and public",
                    )
                )
                if bias == biases[-1]:
                    table.append(errors.mean(axis=0))
                    spread.append(errors.std(axis=0, ddof=1) / np.sqrt(trials))
    panel = _Setting("2a", f"but reviewers are biased by {biases[-1]:g}, less noise", "noise scale", scales, _iid(1, 1))
    axes = _draw(panel, list(scales), np.array(table), np.array(spread))
    axes.set_xscale("log")
    note = f"{trials} conferences of {reviewers} reviewers a line, weights from beta(1, 1), two reviews each; not in the paper."
    return Reproduction("release/less-noise", "less noise, biased reviewers", tuple(rows), note, axes)


def proposition_4_1(quick: bool = False, progress: bool | None = None) -> Reproduction:  # noqa: ARG001
    """Projecting on the set of possible values, which is not convex, can increase the error."""
    rng = np.random.default_rng(_SEED)
    noise = rng.laplace(size=200_000 if quick else 4_000_000)
    nearest = np.clip(2 * np.round(noise / 2), -4, 4)
    found, plain_error = float(np.mean(nearest**2)), float(np.mean(noise**2))
    exact = 16 * np.exp(-3) + 4 * (np.exp(-1) - np.exp(-3))
    row = Comparison(
        "expected error after / before projecting on {-4, -2, 0, 2, 4}",
        "2.06896 / 2",
        f"{found:.4f} / {plain_error:.4f} (exactly {exact:.5f} / 2)",
        Verdict.AGREES,
    )
    return Reproduction(
        "release/proposition-4.1", "projection on a set that is not convex hurts", (row,), "Appendix D.1."
    )


def proposition_4_2(quick: bool = False, progress: bool | None = None) -> Reproduction:
    """Projecting on a convex set that holds the truth never increases the error."""
    trials, rng, worst = (20 if quick else 300), np.random.default_rng(_SEED), 0.0
    with progress_bar("proposition 4.2", total=trials, show=progress) as advance:
        for _ in range(trials):
            conference = simulate_conference(12, rng=rng)
            scale = float(10 ** rng.uniform(-2, 1))
            noisy = conference.true_means + rng.laplace(scale=scale, size=12)
            before = float(np.sum((noisy - conference.true_means) ** 2))
            public = conference.public
            regions = (
                feasible_region(public, bounds="range"),
                chain_region(public),
                feasible_region(public),
                chain_region(public, start="counting"),
            )
            for region in regions:
                worst = max(worst, float(np.sum((region.project(noisy) - conference.true_means) ** 2)) / before)
            advance(1)
    row = Comparison(
        "largest error after projection, as a share of before", "at most 1", f"{worst:.3f}", Verdict.of(0 < worst <= 1)
    )
    return Reproduction(
        "release/proposition-4.2", "projection on a convex set never hurts", (row,), f"{trials} conferences."
    )


EXPERIMENTS: Final = {
    **of_module("release"),
    **{f"release/figure-{panel.panel}": partial(figure_2, panel) for panel in _PANELS},
    "release/less-noise": less_noise,
    "release/proposition-4.1": proposition_4_1,
    "release/proposition-4.2": proposition_4_2,
}
