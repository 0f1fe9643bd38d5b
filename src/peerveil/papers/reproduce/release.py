"""Ding, Shah and Wang (2021): Figure 2a to 2h.

The paper shows its errors as curves without numbers, and its text does not say from which beta distributions panels a to e
were drawn (the subcaptions are lost): ours are five of different shapes, beta(1, 1) and beta(0.5, 0.5) among them. Its
methods are run here beside ours on the same conferences, so that the comparison does not depend on reading a plot. Our
release is by noisy counts, for the epsilon that the panel's noise gives; and beside all of them stands what public data alone
predict: where that is better than a method, the method's win over noisy means is no evidence for its mechanism.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.progress import progress_bar
from peerveil.core.randomness import Randomness
from peerveil.papers.release.laplace import SCALE_AS_PRINTED, swap_sensitivity
from peerveil.papers.release.region import chain_region
from peerveil.papers.release.simulate import simulate_conference
from peerveil.papers.reproduce.experiment import Comparison, Reproduction, Verdict
from peerveil.papers.reproduce.illustrations import of_module
from peerveil.papers.reproduce.release_theorems import THEOREMS
from peerveil.release import FeasibleRegion, NoisyCounts, feasible_region
from peerveil.release.estimate import CountModel, default_thresholds, estimate
from peerveil.release.family import Family
from peerveil.report import COLORS, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.core.arrays import Floats

_SEED: Final = 20210202
METHODS: Final = ("noisy", "baseline", "paper", "projection", "counts", "public")
_LABELS: Final = {
    "noisy": "noisy",
    "baseline": "baseline projection (paper)",
    "paper": "paper's algorithm (chains)",
    "projection": "our projection of the noisy means",
    "counts": "our release by counts",
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
    settings: dict[str, Any], trials: int, seed: int, advance: Callable[[int], None], scale: float = SCALE_AS_PRINTED
) -> Floats:
    """Squared errors, one row per trial and one column per method."""
    # different generators (PCG64 and PCG64DXSM): the noise is unrelated to the conferences
    rng, randomness = np.random.default_rng(seed), Randomness.simulation(seed)
    rows = []
    for _ in range(trials):
        conference = simulate_conference(rng=rng, **settings)
        public, truth = conference.public, conference.true_means
        noisy = truth + rng.laplace(scale=scale, size=truth.size)
        region, family = feasible_region(public), Family(public)
        # what the printed noise gives on this conference, rounded down
        epsilon = Fraction(int(100 * swap_sensitivity(public) / Fraction(str(scale))), 100)
        guesses = {
            "noisy": noisy,
            "baseline": feasible_region(public, bounds="range").project(noisy),
            "paper": chain_region(public).project(noisy),
            "projection": region.project(noisy),
            "counts": release_counts(family, region, truth, epsilon, randomness),
            "public": family.expectation,
        }
        rows.append([float(np.sum((guesses[name] - truth) ** 2)) for name in METHODS])
        advance(1)
    return np.array(rows)


def release_counts(
    family: Family, region: FeasibleRegion, truth: Floats, epsilon: Fraction, randomness: Randomness
) -> Floats:
    """The means that :func:`peerveil.release.publish` would publish."""
    thresholds = default_thresholds(family, float(epsilon))
    mechanism = NoisyCounts(thresholds=tuple(thresholds.tolist()), epsilon=epsilon)
    counts = mechanism.release(truth, randomness)[0].astype(np.float64)
    return region.project(estimate(CountModel(family, thresholds, mechanism.noise), counts, level=0.95).means)


@dataclass(frozen=True, slots=True)
class _Contrast:
    """The error of one method as a share of another's, and whether they differ by more than two standard errors."""

    ratio: float
    difference: float
    error: float

    @classmethod
    def of(cls, errors: Floats, method: str, other: str = "public") -> _Contrast:
        own, others = errors[:, METHODS.index(method)], errors[:, METHODS.index(other)]
        difference = own - others
        error = float(difference.std(ddof=1) / np.sqrt(difference.size))
        return cls(float(own.mean() / others.mean()), float(difference.mean()), error)

    @property
    def better(self) -> bool:
        return self.difference < -2 * self.error

    @property
    def worse(self) -> bool:
        return self.difference > 2 * self.error


def explain_win(errors: Floats) -> str:
    """Whether public data alone explain that the paper's algorithm is better than noisy means."""
    paper = _Contrast.of(errors, "paper")
    if paper.worse:
        return (
            f"public data alone do better (the paper's algorithm has {paper.ratio:.3g} times their error): "
            "the win is no evidence for the mechanism"
        )
    if paper.better:
        return f"the algorithm has {paper.ratio:.2f} of the error of public data alone: they do not explain the win"
    return "public data alone do as well: they explain the win"


def explain_ours(errors: Floats) -> str:
    """Whether our release says more than public data alone, and whether the projection of noisy means does better."""
    counts = _Contrast.of(errors, "counts")
    sentence = f"counts have {counts.ratio:.2f} of the error of public data alone: "
    if counts.better:
        sentence += "the release says more"
    else:
        sentence += "noise costs more than it tells" if counts.worse else "no difference beyond two standard errors"
    projection = _Contrast.of(errors, "projection", "counts")
    return f"{sentence}; our projection does better ({projection.ratio:.2f})" if projection.better else sentence


def _rows(setting: str, errors: Floats, printed: str | None) -> list[Comparison]:
    """The paper's methods, then ours and public data alone, each with what public data explain."""
    by = dict(zip(METHODS, errors.mean(axis=0), strict=True))
    verdict = Verdict.NOTHING_PRINTED
    if printed:
        verdict = Verdict.of(bool(by["noisy"] > by["baseline"] >= by["paper"]))
    return [
        Comparison(
            what=f"{setting}: noisy / baseline / paper's algorithm",
            paper=printed or "-",
            ours=" / ".join(f"{by[name]:.3g}" for name in ("noisy", "baseline", "paper")),
            verdict=verdict,
            explanation=f"{verdict.value}; {explain_win(errors)}" if printed else explain_win(errors),
        ),
        Comparison(
            what=f"{setting}: our projection / our release by counts / public data alone",
            paper="-",
            ours=" / ".join(f"{by[name]:.3g}" for name in ("projection", "counts", "public")),
            verdict=Verdict.NOTHING_PRINTED,
            explanation=explain_ours(errors),
        ),
    ]


def _how_often(every: list[Floats]) -> str:
    """For a note: at how many points public data alone explain the win, and at how many our release says more."""
    explained = sum(not _Contrast.of(errors, "paper").better for errors in every)
    more = sum(_Contrast.of(errors, "counts").better for errors in every)
    return (
        f"Public data alone explain the win of the paper's algorithm at {explained} of {len(every)} points; our release says "
        f"more than they do at {more}."
    )


def figure_2(panel: _Setting, quick: bool = False, progress: bool | None = None) -> Reproduction:
    """One panel of Figure 2: the paper's three methods and ours, with standard errors."""
    trials = 12 if quick else 60
    points = panel.points[:: len(panel.points) - 1] if quick else panel.points
    with progress_bar(f"figure {panel.panel}", total=trials * len(points), show=progress) as advance:
        every = [errors_at(panel.settings(point), trials, _SEED + i, advance) for i, point in enumerate(points)]
    printed = "each below the one before (curves without numbers)"
    rows = [
        row
        for point, errors in zip(points, every, strict=True)
        for row in _rows(f"{panel.axis} {point:g}", errors, printed)
    ]
    lost = "The paper's text does not name this panel's distribution; ours is one of five shapes. "
    unknown = lost if panel.panel < "2f" else ""
    note = (
        f"{_how_often(every)} {unknown}{trials} trials per point, bars are standard errors. Noise of variance 2 as in the "
        "paper, which gives no sensitivity (erratum): for an exchange of one review between two reviewers of two papers "
        "each it is private with epsilon = the range of the weights, at most 1, and our counts are released for the same."
    )
    return Reproduction(f"release/figure-{panel.panel}", panel.title, tuple(rows), note, _draw(panel, points, every))


def _draw(panel: _Setting, points: tuple[float, ...], every: list[Floats]) -> Axes:
    (ax,) = new_axes(height=4)
    styles = {
        "noisy": (COLORS["truth"], ":"),
        "baseline": (COLORS["truth"], "--"),
        "paper": (COLORS["leak"], "-"),
        "projection": (COLORS["private"], "--"),
        "counts": (COLORS["private"], "-"),
        "public": (COLORS["accent"], "--"),
    }
    for j, name in enumerate(METHODS):
        color, line = styles[name]
        means = [errors[:, j].mean() for errors in every]
        bars = [errors[:, j].std(ddof=1) / np.sqrt(len(errors)) for errors in every]
        ax.errorbar(points, means, yerr=bars, color=color, ls=line, marker="o", ms=3, label=_LABELS[name])
    ax.set_yscale("log")
    ax.set_xlabel(panel.axis)
    ax.set_ylabel("mean squared error (sum over reviewers)")
    ax.set_title(f"Figure {panel.panel}: {panel.title}", loc="left", fontsize="medium")
    ax.legend(fontsize="small")
    return ax


def less_noise(quick: bool = False, progress: bool | None = None) -> Reproduction:
    """Figure 2a's setting with less noise and with biased reviewers: where does a release beat what is public?"""
    trials, reviewers = (6, 10) if quick else (100, 30)
    scales, biases = ((1.0, 0.03), (0.0, 0.3)) if quick else ((1.0, 0.3, 0.1, 0.03), (0.0, 0.1, 0.3))
    every: dict[tuple[float, float], Floats] = {}
    with progress_bar("less noise", total=trials * len(scales) * len(biases), show=progress) as advance:
        for bias in biases:
            for scale in scales:
                settings = {"reviewers": reviewers, "bias": bias}
                every[bias, scale] = errors_at(settings, trials, _SEED, advance, scale)
    rows = [
        row
        for (bias, scale), errors in every.items()
        for row in _rows(f"noise scale {scale:g}, bias {bias:g}", errors, None)
    ]
    panel = _Setting("2a", f"but reviewers are biased by {biases[-1]:g}, less noise", "noise scale", scales, _iid(1, 1))
    axes = _draw(panel, scales, [every[biases[-1], scale] for scale in scales])
    axes.set_xscale("log")
    note = (
        f"{_how_often(list(every.values()))} {trials} conferences of {reviewers} reviewers per setting, weights from "
        "beta(1, 1), two reviews each; not in the paper. Counts are released for the epsilon that the noise gives: the range "
        "of the weights divided by its scale."
    )
    return Reproduction("release/less-noise", "less noise, biased reviewers", tuple(rows), note, axes)


EXPERIMENTS: Final = {
    **of_module("release"),
    **{f"release/figure-{panel.panel}": partial(figure_2, panel) for panel in _PANELS},
    "release/less-noise": less_noise,
    **THEOREMS,
}
