"""The release module: how near published curves come to the truth, how often intervals cover it, and seconds at scale.

Errors are root mean squares over all reviewers, as shares of the error of public data alone. The peer is a histogram on
the same thresholds and with the same epsilon, made with OpenDP. Targets and standard errors stand in the notes.
"""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.timing import Row, best_of
from peerveil import Randomness
from peerveil.data import Reviews
from peerveil.release import PublicScores, PublishedMeans, ask, feasible_region, publish, review_weights
from peerveil.release.expectation import draw_assignment
from peerveil.release.family import counts_at
from peerveil.release.projection import isotonic
from peerveil.release.public import sorted_means

Floats = NDArray[np.float64]
DATA: Final = Path(__file__).parents[1] / "tests" / "release" / "data" / "iclr2026_review_scores.csv.gz"
CONFERENCES: Final = 100
LOAD: Final = 4  # reviews by each reviewer, and of each paper
TARGETS: Final = {
    80: {0.0: 1.03, 0.3: 1.03, 1.0: 0.55},
    400: {0.0: 0.97, 0.3: 0.80, 1.0: 0.21},
    2_000: {0.0: 0.92, 0.3: 0.46, 1.0: 0.11},
}
"""The largest error relative to public data, by reviewers and standard deviation of strictness, at epsilon 1."""
REAL_TARGETS: Final = {0.0: 0.70, 0.5: 0.27}
SHAPES: Final = ("no strictness", "normal", "t3", "two groups", "uniform")


def bench() -> list[Row]:
    return [*targets(), *half_epsilon(), *coverage(), *questions(), *real_scores(), *seconds(), *projection()]


# ---- conferences -----------------------------------------------------------------------------------------------------


def strictness(shape: str, size: int, rng: np.random.Generator) -> Floats:
    """Strictness of reviewers, of variance 1 (or 0)."""
    if shape == "normal":
        return rng.normal(size=size)
    if shape == "t3":
        return np.asarray(rng.standard_t(3, size) / np.sqrt(3))
    if shape == "two groups":  # 20% are stricter than 80%
        return np.asarray(((rng.random(size) < 0.2) - 0.2) / 0.4)
    if shape == "uniform":
        return np.asarray(rng.uniform(-1, 1, size) * np.sqrt(3))
    return np.zeros(size)


def conference(reviewers: int, spread: float, seed: int, shape: str = "normal") -> Reviews:
    """Scores clip(round(5.5 + 1.2 q + spread b + e), 1, 10) of papers of quality q by reviewers of leniency b."""
    rng = np.random.default_rng(seed)
    paper = np.repeat(np.arange(reviewers), LOAD)
    reviewer = _assignment(reviewers, seed)
    quality, leniency = rng.normal(size=reviewers), -strictness(shape, reviewers, rng)
    score = 5.5 + 1.2 * quality[paper] + spread * leniency[reviewer] + rng.normal(size=paper.size)
    return Reviews(paper=paper, reviewer=reviewer, score=np.clip(np.round(score), 1, 10))


def _assignment(reviewers: int, seed: int) -> NDArray[np.int64]:
    offsets = np.arange(reviewers + 1) * LOAD
    return draw_assignment(offsets, np.full(reviewers, LOAD), seed=seed)


def real_conference(spread: float, seed: int) -> Reviews:
    """Four scores of every real paper that has so many, by simulated reviewers; with strictness, rounded to even grades again."""
    rng = np.random.default_rng(seed)
    frame = pl.read_csv(DATA).filter(pl.len().over("paper") >= LOAD)
    frame = frame.with_columns(luck=pl.Series(rng.random(frame.height))).sort("paper", "luck")
    score = frame.group_by("paper", maintain_order=True).head(LOAD)["rating"].to_numpy().astype(float)
    papers = score.size // LOAD
    reviewer = _assignment(papers, seed)
    if spread:
        score = score + spread * rng.normal(size=papers)[reviewer] + rng.uniform(-1, 1, score.size)
        score = np.clip(2 * np.round(score / 2), 0, 10)
    return Reviews(paper=np.repeat(np.arange(papers), LOAD), reviewer=reviewer, score=score)


# ---- errors ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trial:
    """One release, the truth behind it, and the peer's curve."""

    result: PublishedMeans
    truth: Floats
    peer: Floats

    @property
    def squares(self) -> tuple[float, float, float]:
        """Mean squared errors: ours, the peer's and that of public data alone."""
        ours, peer, public = (
            float(np.mean((guess - self.truth) ** 2))
            for guess in (self.result.means, self.peer, self.result.expectation)
        )
        return ours, peer, public

    @property
    def band(self) -> float:
        """The share of reviewers whose mean lies in its interval."""
        return float(np.mean((self.result.lower <= self.truth + 1e-9) & (self.truth <= self.result.upper + 1e-9)))

    @property
    def joint(self) -> bool:
        """Whether all shares lie in their intervals."""
        shares = self.result.shares
        below = counts_at(self.truth, self.result.thresholds) / self.truth.size
        low, high = shares["below_lower"].to_numpy(), shares["below_upper"].to_numpy()
        return bool(((low <= below + 1e-12) & (below <= high + 1e-12)).all())


def trial(reviews: Reviews, epsilon: float, seed: int, scale: tuple[float, float] = (1, 10)) -> Trial:
    result = publish(reviews, epsilon=epsilon, scale=scale, randomness=Randomness.simulation(seed))
    weights = review_weights(reviews, weight="miscalibration", scale=scale).values
    truth = sorted_means(weights, reviews.numbered("reviewer")[0])
    return Trial(result, truth, histogram(truth, result.thresholds, result.expectation, epsilon))


def histogram(truth: Floats, thresholds: Floats, expectation: Floats, epsilon: float) -> Floats:
    """The peer: cell counts with discrete Laplace noise, and reviewers spread evenly over every cell.

    An exchange moves two reviewers by one cell or more each: the counts change by at most 4 in all.
    """
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    release = dp.m.make_laplace(*space, scale=4 / epsilon)
    below = np.concatenate([[0], counts_at(truth, thresholds), [truth.size]])
    cells = np.maximum(release(np.diff(below).astype(int).tolist()), 0)
    places = np.concatenate([[0], np.cumsum(cells)]) * truth.size / max(sum(cells), 1)
    ends = min(expectation[0], thresholds[0]), max(expectation[-1], thresholds[-1])
    knots = np.concatenate([ends[:1], thresholds, ends[1:]])
    return np.asarray(np.interp(np.arange(truth.size) + 0.5, places, knots))


def ratio(squares: Any) -> tuple[float, float]:
    """The root of the first column's mean over that of the second's, with its standard error (jackknife)."""
    table = np.asarray(squares)
    rest = (table.sum(axis=0) - table) / max(len(table) - 1, 1)
    left_out = np.sqrt(rest[:, 0] / rest[:, 1]) if len(table) > 1 else np.zeros(1)
    error = np.sqrt((len(table) - 1) * np.var(left_out))
    return float(np.sqrt(table[:, 0].mean() / table[:, 1].mean())), float(error)


def compared(what: str, trials: list[Trial], target: float | None, note: str = "") -> Row:
    squares = np.array([trial.squares for trial in trials])
    ours, error = ratio(squares[:, [0, 2]])
    peer, _ = ratio(squares[:, [1, 2]])
    root = np.sqrt(squares.mean(axis=0))
    reach = "" if target is None else f"must reach {target:g}: {'yes' if ours <= target else 'NO'}; "
    text = f"{reach}standard error {error:.3f}; RMSE {root[0]:.4f}, public alone {root[2]:.4f}"
    return Row(what, ours, peer, "", f"{text}{note}")


def covered(what: str, trials: list[Trial], spread: float) -> Row:
    band, joint = (np.array([getattr(trial, name) for trial in trials], dtype=float) for name in ("band", "joint"))
    sd = np.array([(trial.result.strictness_sd, *trial.result.strictness_interval) for trial in trials])
    inside = np.mean((sd[:, 1] <= spread + 1e-9) & (spread <= sd[:, 2]))
    note = (
        f"pointwise band {band.mean():.3f} (standard error {band.std() / np.sqrt(band.size):.3f}); SD of strictness "
        f"{spread:g}: RMSE {np.sqrt(np.mean((sd[:, 0] - spread) ** 2)):.3f}, covered {inside:.2f}; {len(trials)} conferences"
    )
    return Row(what, float(joint.mean()), None, "", note)


def targets() -> list[Row]:
    rows = []
    for reviewers, wanted in TARGETS.items():
        for spread, target in wanted.items():
            trials = [trial(conference(reviewers, spread, seed), 1, seed) for seed in range(1, CONFERENCES + 1)]
            name = f"{reviewers:,} reviewers, strictness {spread:g}, epsilon 1"
            rows += [compared(f"error / public, {name}", trials, target)]
            rows += [covered(f"joint coverage of shares, {name}", trials, spread)]
    return rows


def half_epsilon() -> list[Row]:
    rows = []
    for reviewers in (80, 400):
        trials = [trial(conference(reviewers, 0.3, seed), 0.5, seed) for seed in range(1, CONFERENCES + 1)]
        rows.append(compared(f"error / public, {reviewers} reviewers, strictness 0.3, epsilon 0.5", trials, None))
    return rows


def coverage() -> list[Row]:
    """Family-free intervals against truths inside and outside of the family that estimates assume."""
    rows = []
    for shape in SHAPES:
        spread = 0.0 if shape == "no strictness" else 0.6
        trials = [trial(conference(400, spread, seed, shape), 1, seed) for seed in range(101, 101 + CONFERENCES)]
        rows.append(covered(f"joint coverage of shares, 400 reviewers, {shape}", trials, spread))
    return rows


def questions() -> list[Row]:
    """How strict reviewers are overall, from two counts."""
    rows = []
    for reviewers in (80, 400):
        for spread in (0.3, 1.0):
            errors, inside = [], []
            for seed in range(1, CONFERENCES + 1):
                randomness = Randomness.simulation(seed)
                answer = ask(conference(reviewers, spread, seed), epsilon=1, scale=(1, 10), randomness=randomness)
                sd = answer.groups[0].strictness_sd
                errors.append(sd.estimate - spread)
                inside.append(sd.lower <= spread <= sd.upper)
            note = f"RMSE, in points; interval covers {np.mean(inside):.2f}; {CONFERENCES} conferences"
            what = f"SD of strictness from two counts, {reviewers} reviewers, strictness {spread:g}"
            rows.append(Row(what, float(np.sqrt(np.mean(np.square(errors)))), None, "", note))
    return rows


def real_scores() -> list[Row]:
    rows = []
    for spread, target in REAL_TARGETS.items():
        trials = [trial(real_conference(spread, seed), 1, seed, (0, 10)) for seed in range(1, 5)]
        name = f"{trials[0].truth.size:,} real papers, strictness {spread:g}"
        rows.append(compared(f"error / public, {name}", trials, target, "; 4 random assignments"))
        rows.append(covered(f"joint coverage of shares, {name}", trials, spread))
    return rows


# ---- seconds ---------------------------------------------------------------------------------------------------------


def unequal(reviewers: int, seed: int = 0) -> Reviews:
    """A conference with loads of 1 to 7."""
    rng = np.random.default_rng(seed)
    loads = rng.integers(1, 8, reviewers)
    loads[-1] += -loads.sum() % LOAD
    papers = int(loads.sum()) // LOAD
    reviewer = draw_assignment(np.arange(papers + 1) * LOAD, np.sort(loads), seed=seed)
    paper = np.repeat(np.arange(papers), LOAD)
    score = np.clip(np.round(rng.normal(5.5, 1.5, papers)[paper] + rng.normal(0, 1.2, reviewer.size)), 1, 10)
    return Reviews(paper=paper, reviewer=reviewer, score=score)


def seconds() -> list[Row]:
    rows = []
    publish(unequal(200), epsilon=1)  # compile
    tables = {
        "1,000 reviewers": partial(unequal, 1_000),
        "16,210 reviewers, real scores": partial(real_conference, 0.5, 1),
        "100,000 reviewers": partial(unequal, 100_000),
    }
    for name, table in tables.items():
        reviews = table()
        start = time.perf_counter()
        publish(reviews, epsilon=1, scale=(0, 10))
        elapsed = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        note = f"secure randomness, {len(reviews):,} reviews; process peak {peak:.2f} GB"
        rows.append(Row(f"publish, {name}", elapsed, None, "s", note))
    return rows


def projection() -> list[Row]:
    rows = []
    for reviewers in (1_000, 10_000, 100_000):
        public = PublicScores.of(unequal(reviewers), weight="miscalibration")
        region, rng = feasible_region(public), np.random.default_rng(2)
        noisy = np.sort(rng.normal(0, public.values.std() / 2, reviewers)) + rng.laplace(size=reviewers)
        region.project(noisy)
        (elapsed,) = best_of(3, partial(region.project, noisy))
        (plain,) = best_of(3, partial(isotonic, noisy))
        note = "peer: isotonic regression alone"
        rows.append(Row(f"projection with boxes and sums, {reviewers:,}", elapsed, plain, "s", note))
    return rows
