"""Scale and bias of every reviewer from past conferences, with what is not known of them.

Model: score = a_j theta_i + b_j + noise, theta_i ~ N(0, 1), a_j ~ N(m_a, t_a^2) above 0, b_j ~ N(m_b, t_b^2),
noise ~ N(0, sigma^2). Reviewers with many past reviews are judged by them, those with few are drawn toward everybody's
mean, those with none have the population's distribution. Nothing is plugged in: the posterior is sampled (Gibbs, with a
Metropolis step for the population of scales, since these are cut at 0), four chains, and chains that disagree are
refused. Scores do not change when all qualities move and all biases follow, or all qualities shrink and all scales
grow: without steps along these two directions chains crawl, and stand still as noise goes to 0.

What is fitted from past reviews tells about past reviews. The guarantees of this module take the fitted functions as
public; they do not protect the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import polars as pl

from peerveil.calibration.functions import Affine, Uncertain
from peerveil.core.errors import BadInput, PeerveilError, Verbatim
from peerveil.core.exact import number, whole
from peerveil.core.lazy import log_ndtr, ndtr, ndtri
from peerveil.core.progress import progress_bar
from peerveil.core.result import Pictured, plain
from peerveil.data import Reviews
from peerveil.report.figures import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.core.arrays import Floats


_CHAINS: Final = 4
_WORST_RHAT: Final = 1.1
_SMALLEST: Final = 1e-3  # a scale, in units of the scores' spread
_MOST_KEPT: Final = 8_000_000  # draws of all reviewers together; beyond, only every so many-th is kept


class FitNotConverged(PeerveilError):
    """The chains of a fit disagree: more iterations, or more data, are needed."""


@dataclass(frozen=True)
class MiscalibrationFit(Pictured):
    """Fitted miscalibration. It names reviewers: for the chair."""

    operator_only: ClassVar[bool] = True

    noise: float
    """Posterior mean of the noise's standard deviation."""
    table: pl.DataFrame = field(repr=False)
    """One row per reviewer: reviewer, reviews, scale, bias (posterior means), scale_deviation, bias_deviation."""
    rhat: float
    """The largest ratio of between-chain to within-chain spread over population parameters (1 is perfect)."""
    noise_draws: Floats = field(repr=False)
    scale_draws: Floats = field(repr=False)
    bias_draws: Floats = field(repr=False)
    population: Floats = field(repr=False)
    _rows: dict[str, int] = field(repr=False)

    def function(self, reviewer: Any) -> Affine:
        """The posterior mean function; the population's, one for all, for a reviewer without a past."""
        if not self.knows(reviewer):
            mean, deviation, bias_mean, _ = self.population.T
            at = mean / deviation  # the mean of a normal that is cut at 0
            hazard = np.exp(-0.5 * at * at - log_ndtr(at)) / np.sqrt(2 * np.pi)
            return Affine(float((mean + deviation * hazard).mean()), float(bias_mean.mean()))
        scale, bias = self.draws(reviewer)
        return Affine(float(scale.mean()), float(bias.mean()))

    def knows(self, reviewer: Any) -> bool:
        """Whether this reviewer has a past; 7 and ``"7"`` are the same person."""
        return str(reviewer) in self._rows

    def uncertain(self, reviewer: Any, draws: int = 20) -> Uncertain:
        """Several equally credible functions. Draw k of all reviewers belongs together."""
        count = whole(draws, "draws", 1, len(self.noise_draws))
        scale, bias = self.draws(reviewer)
        picks = np.linspace(0, len(scale) - 1, count).astype(int)
        return Uncertain(tuple(Affine(float(scale[k]), float(bias[k])) for k in picks))

    def functions(self, reviewers: Iterable[Any], *, draws: int = 8) -> dict[Any, Affine | Uncertain]:
        """A function for each of these reviewers: so many credible ones, or the posterior mean if ``draws`` is 1."""
        return {who: self.function(who) if draws == 1 else self.uncertain(who, draws) for who in reviewers}

    def interval(self, reviewer: Any, level: float = 0.9) -> tuple[tuple[float, float], tuple[float, float]]:
        """Credible intervals of scale and bias."""
        share = number(level, "level", 0.01, 0.999)
        ends = [(1 - share) / 2, (1 + share) / 2]
        (low, least), (high, most) = np.quantile(self.draws(reviewer), ends, axis=1).tolist()
        return (low, high), (least, most)

    def draws(self, reviewer: Any) -> tuple[Floats, Floats]:
        """Posterior draws of one reviewer's scale and bias; for a stranger, draws from the population."""
        row = self._rows.get(str(reviewer))
        if row is not None:
            return self.scale_draws[:, row], self.bias_draws[:, row]
        # nobody knows this reviewer: one draw from each draw of the population, the same every time it is asked, and
        # independent of every other stranger's
        rng = np.random.default_rng(int.from_bytes(sha256(str(reviewer).encode()).digest()))
        mean, deviation, bias_mean, bias_deviation = self.population.T
        scale = _cut_normal(mean, deviation, rng, _SMALLEST * float(self.scale_draws.mean()))
        return scale, bias_mean + bias_deviation * rng.standard_normal(len(mean))

    def summary(self) -> str:
        """What was found, in one line."""
        scale, bias = self.table["scale"].to_numpy(), self.table["bias"].to_numpy()
        return (
            f"{self.table.height} reviewers: scales {scale.min():.3g} to {scale.max():.3g}, biases {bias.min():.3g} "
            f"to {bias.max():.3g}, noise {self.noise:.3g}"
        )

    def frame(self) -> pl.DataFrame:
        """One row per reviewer, with posterior means and deviations."""
        return self.table

    def to_dict(self) -> dict[str, Any]:
        """Noise, convergence and the table as JSON values, without the draws."""
        return {name: plain(getattr(self, name)) for name in ("noise", "rhat", "table")}

    def draw(self, ax: Axes) -> None:
        """Scale and bias of every reviewer, with a standard deviation of each."""
        x, y, wide, high = (self.table[name] for name in ("bias", "scale", "bias_deviation", "scale_deviation"))
        ax.errorbar(x, y, xerr=wide, yerr=high, fmt="o", markersize=4, linewidth=0.6, color=COLORS["private"])
        ax.set(xlabel="bias (lower is stricter)", ylabel="scale")


def fit_miscalibration(
    history: Any,
    *,
    iterations: int = 1500,
    seed: int = 0,
    columns: Mapping[str, str] | None = None,
    progress: bool | None = None,
) -> MiscalibrationFit:
    """Fit scale, bias and noise from past reviews.

    Parameters
    ----------
    history
        One past conference (Reviews, a pandas or Polars frame, or a file name), or a list of several; papers of
        different conferences are different.
    iterations
        Of each of four chains; the first third is thrown away.
    seed
        Fitting is simulation, repeatable from a seed; it protects nobody.
    columns
        Our names for columns that a frame or file calls otherwise: ``{"paper": "submission"}``.
    progress
        Whether to show a bar; ``None`` shows it on a terminal.

    Examples
    --------
    >>> from peerveil.data import synthetic_conference
    >>> past = synthetic_conference(papers=80, reviewers=30, seed=3)
    >>> fit = fit_miscalibration(past.reviews, iterations=600)
    >>> fit.table.height, 0.5 < fit.noise < 3
    (30, True)
    """
    several = isinstance(history, Sequence) and not isinstance(history, str)
    tables = [Reviews.of(table, "history", columns=columns) for table in (history if several else [history])]
    if not tables:
        raise BadInput("history", got=history, want="Reviews (or a frame, or a file name), or a list of them")
    count = whole(iterations, "iterations", 60)
    paper, reviewers, score, papers = joined_reviews(tables)
    names = reviewers.unique().sort()
    who = np.searchsorted(names.to_numpy(), reviewers.to_numpy())
    center, spread = float(score.mean()), float(score.std())
    if len(score) < 4 or spread == 0:
        raise BadInput("history", got=history, want="at least four reviews whose scores differ")
    thin = max(1, -(-2 * count * _CHAINS * len(names) // (3 * _MOST_KEPT)))
    sizes = papers, len(names), count, thin
    with progress_bar("fitting reviewers", _CHAINS * count, show=progress) as advance:
        chains = [
            _chain((score - center) / spread, paper, who, sizes, np.random.default_rng(child), advance)
            for child in np.random.SeedSequence(seed).spawn(_CHAINS)
        ]
    scales, biases, populations = (np.array(part) for part in zip(*chains, strict=True))  # chain, draw, parameter
    rhat = max(
        float(_rhat(populations).max()),
        # of hundreds of reviewers some look odd by chance: the worst are left out of the judgment
        *(float(np.quantile(_rhat(part), 0.98)) for part in (scales, biases)),
    )
    if rhat > _WORST_RHAT:
        raise FitNotConverged(
            f"the chains disagree (R-hat {rhat:.2f}, at most {_WORST_RHAT:g} is accepted): use more than {count} "
            f"iterations, or more past reviews than these {len(score)} by {len(names)} reviewers"
        )
    scale = np.concatenate(scales) * spread
    bias = np.concatenate(biases) * spread + center
    population = np.concatenate(populations)
    noise = np.sqrt(population[:, 4]) * spread
    table = pl.DataFrame(
        {
            "reviewer": names.cast(tables[0].frame["reviewer"].dtype),
            "reviews": np.bincount(who, minlength=len(names)),
            "scale": scale.mean(axis=0),
            "bias": bias.mean(axis=0),
            "scale_deviation": scale.std(axis=0),
            "bias_deviation": bias.std(axis=0),
        }
    )
    rows = {str(name): row for row, name in enumerate(table["reviewer"].to_list())}
    population = population[:, :4] * spread + [0.0, 0.0, center, 0.0]
    return MiscalibrationFit(float(noise.mean()), table, float(rhat), noise, scale, bias, population, rows)


def joined_reviews(tables: Sequence[Reviews]) -> tuple[Any, pl.Series, Floats, int]:
    """Papers (numbered through), reviewers (as texts) and scores of all conferences, and how many papers there are."""
    papers, offset = [], 0
    for table in tables:
        table.require_reviewers("fitting miscalibration")
        code, names = table.numbered("paper")
        papers.append(np.asarray(code) + offset)
        offset += len(names)
    columns = [table.frame["reviewer"] for table in tables]
    if len({column.dtype.is_numeric() for column in columns}) > 1:
        got = Verbatim("reviewers that are numbers in one conference and texts in another")
        raise BadInput("history", got=got, want="the same kind of reviewer ids in all conferences")
    reviewers = pl.concat([column.cast(pl.String) for column in columns])
    return np.concatenate(papers), reviewers, np.concatenate([table.scores for table in tables]), offset


def known_reviewers(reviews: Reviews, history: Sequence[Reviews]) -> int:
    """How many of the reviewers have a past; a past without any of them is refused."""
    known: set[str] = set()
    for past in history:
        if past.fingerprint == reviews.fingerprint:
            raise BadInput("history", got=Verbatim("the reviews that are to be decided"), want="an earlier conference")
        past.require_reviewers("history")
        known |= set(map(str, past.frame["reviewer"].unique().to_list()))
    count = len(known & set(map(str, reviews.frame["reviewer"].unique().to_list())))
    if not count:
        want = "a past conference, in which at least some of these reviewers wrote under the same names"
        raise BadInput("history", got=Verbatim("reviews by other people"), want=want)
    return count


def history_in_words(reviews: Reviews, history: Sequence[Reviews]) -> str:
    """How many of the reviewers have a past, in a sentence."""
    known, reviewers = known_reviewers(reviews, history), reviews.frame["reviewer"].n_unique()
    others = "; the others are assumed to be average" if known < reviewers else ""
    return f"The history covers {known} of the {reviewers} reviewers{others}."


def _chain(
    y: Floats,
    paper: Any,
    who: Any,
    sizes: tuple[int, int, int, int],
    rng: np.random.Generator,
    advance: Callable[[int], None],
) -> tuple[Floats, Floats, Floats]:
    """One Gibbs chain on standardized scores; returns draws of scales, biases and population parameters."""
    papers, people, iterations, thin = sizes
    a = np.abs(0.7 + 0.2 * rng.standard_normal(people))
    b = 0.3 * rng.standard_normal(people)
    hyper = np.array([0.7, 0.3, 0.0, 0.5])  # m_a, t_a, m_b, t_b
    variance = 0.4
    burn = iterations // 3
    draws: tuple[list[Floats], list[Floats], list[Floats]] = ([], [], [])
    reviews = np.bincount(who, minlength=people)
    for step in range(iterations):
        weight = a[who]
        precision = 1.0 + np.bincount(paper, weights=weight * weight, minlength=papers) / variance
        pull = np.bincount(paper, weights=weight * (y - b[who]), minlength=papers) / variance
        theta = pull / precision + rng.standard_normal(papers) / np.sqrt(precision)
        t = theta[paper]
        # (a_j, b_j) given qualities: a two-dimensional normal cut at a > 0; a from its margin, then b given a
        s_tt = np.bincount(who, weights=t * t, minlength=people) / variance + hyper[1] ** -2
        s_t = np.bincount(who, weights=t, minlength=people) / variance
        s_1 = reviews / variance + hyper[3] ** -2
        r_t = np.bincount(who, weights=t * y, minlength=people) / variance + hyper[0] / hyper[1] ** 2
        r_1 = np.bincount(who, weights=y, minlength=people) / variance + hyper[2] / hyper[3] ** 2
        determinant = s_tt * s_1 - s_t * s_t
        mean_a = (s_1 * r_t - s_t * r_1) / determinant
        a = _cut_normal(mean_a, np.sqrt(s_1 / determinant), rng, _SMALLEST)
        b = (r_1 - s_t * a) / s_1 + rng.standard_normal(people) / np.sqrt(s_1)
        hyper[2] = b.mean() + hyper[3] / np.sqrt(people) * rng.standard_normal()
        hyper[3] = np.sqrt((0.05 + 0.5 * np.square(b - hyper[2]).sum()) / rng.gamma(1.0 + 0.5 * people))
        hyper[:2] = _population_of_scales(a, hyper[:2], rng)
        theta, b, hyper[2] = _shifted(theta, a, b, hyper, rng)
        theta, a, hyper[:2] = _stretched(theta, a, hyper, rng)
        t = theta[paper]
        residual = y - a[who] * t - b[who]
        variance = float((0.05 + 0.5 * np.square(residual).sum()) / rng.gamma(1.0 + 0.5 * len(y)))
        advance(1)
        if step >= burn and (step - burn) % thin == 0:
            for store, value in zip(draws, (a, b, np.append(hyper, variance)), strict=True):
                store.append(value.copy())
    return np.array(draws[0]), np.array(draws[1]), np.array(draws[2])


def _shifted(
    theta: Floats, a: Floats, b: Floats, hyper: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats, float]:
    """Move all qualities by -d and all biases by a_j d: no score changes, so that data never slow the chain down here.

    Given everything else d is normal (m_b integrated out, then drawn): Liu and Sabatti's generalized Gibbs step, whose
    Jacobian is 1.
    """
    slope, rest = a - a.mean(), b - b.mean()
    precision = len(theta) + float(slope @ slope) / hyper[3] ** 2
    d = (float(theta.sum()) - float(slope @ rest) / hyper[3] ** 2) / precision
    d += rng.standard_normal() / np.sqrt(precision)
    b = b + a * d
    return theta - d, b, float(b.mean() + hyper[3] / np.sqrt(len(b)) * rng.standard_normal())


def _stretched(theta: Floats, a: Floats, hyper: Floats, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Divide all qualities by c and multiply all scales, and their population, by c: again no score changes.

    A generalized Gibbs step by Metropolis on log c. The Jacobian c^(people + 2 - papers) and the densities leave the
    prior of qualities, that of the population, and the cut at 0.
    """
    mean, deviation, size = float(hyper[0]), float(hyper[1]), len(theta)
    squares, smallest = float(theta @ theta), float(a.min())

    def log_density(log_c: float) -> float:
        c = np.exp(log_c)
        if c * smallest < _SMALLEST * (1 - 1e-12):
            return -np.inf
        population = _log_population(c * mean, c * deviation, len(a))
        return float(-0.5 * squares / c**2 + (2 - size) * log_c + population)

    c = float(np.exp(_metropolis(log_density, 0.0, lambda x: x + 1.5 / np.sqrt(size) * rng.standard_normal(), rng)))
    return theta / c, a * c, np.array([mean * c, deviation * c])


def _population_of_scales(a: Floats, now: Floats, rng: np.random.Generator) -> Floats:
    """Mean and deviation of scales, whose density is cut at 0 and so renormalized, by Metropolis steps."""
    width = 1.7 / np.sqrt(len(a))

    def log_density(state: tuple[float, float]) -> float:
        mean, deviation = state
        z = (a - mean) / deviation
        likelihood = -0.5 * (z * z).sum() - len(a) * np.log(deviation)
        return float(likelihood + _log_population(mean, deviation, len(a)) + np.log(deviation))

    def propose(state: tuple[float, float]) -> tuple[float, float]:
        mean, deviation = state
        new_mean = mean + width * deviation * rng.standard_normal()
        return float(new_mean), float(deviation * np.exp(width * rng.standard_normal()))

    return np.array(_metropolis(log_density, (float(now[0]), float(now[1])), propose, rng))


def _log_population(mean: float, deviation: float, people: int) -> float:
    """The prior of the population of scales, and the cut of its density at the smallest scale."""
    prior = -0.5 * ((mean - 0.7) / 0.7) ** 2 - 3 * np.log(deviation) - 0.05 / deviation**2
    return float(prior - people * log_ndtr((mean - _SMALLEST) / deviation))


def _metropolis(
    log_density: Callable[[Any], float], state: Any, propose: Callable[[Any], Any], rng: np.random.Generator
) -> Any:
    """Three Metropolis steps."""
    here = log_density(state)
    for _ in range(3):
        new = propose(state)
        there = log_density(new)
        if np.log(rng.random()) < there - here:
            state, here = new, there
    return state


def _cut_normal(mean: Any, deviation: Any, rng: np.random.Generator, low: float) -> Floats:
    """Normal numbers above a bound, by inversion of the upper tail."""
    tail = ndtr((np.asarray(mean) - low) / deviation)
    u = rng.random(np.shape(tail)) * np.maximum(tail, 1e-300)
    drawn = mean - deviation * ndtri(np.clip(u, 1e-300, 1.0))
    return np.asarray(np.maximum(np.where(np.isfinite(drawn), drawn, low), low), dtype=np.float64)


def _rhat(chains: Floats) -> Floats:
    """Gelman and Rubin's ratio for every parameter (last axis), on halves of chains."""
    half = chains.shape[1] // 2
    parts = np.concatenate([chains[:, :half], chains[:, half : 2 * half]])
    within = parts.var(axis=1, ddof=1).mean(axis=0)
    between = parts.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.sqrt((within * (half - 1) / half + between) / within)
    return np.asarray(np.where(within > 0, ratio, 1.0), dtype=np.float64)
