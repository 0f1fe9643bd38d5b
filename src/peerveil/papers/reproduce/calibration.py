"""Figures 1, 2, 3, 4 and 6, Algorithm 2 and Proposition B.3 of *Calibration with Privacy in Peer Review*.

Figures 1, 2, 4 and 6 are drawn in the paper without numbers on the axes: what can be read is the coordinates in
symbols, which are evaluated here on an instance and compared with what our code finds. Figure 3 is a simulation whose
values can be compared with the errata's measurements. (Figure 5 and Table 1: illustrations.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.calibration import Affine, Pair, Strategy, fit_miscalibration, respond_assignment
from peerveil.calibration.fit import FitNotConverged
from peerveil.calibration.strategy import best_decisions
from peerveil.core.progress import progress_bar
from peerveil.data import Reviews
from peerveil.papers.calibration.average import AverageCase, simulate_average
from peerveil.papers.calibration.methods import (
    kendall_distance,
    least_squares,
    messy_middle_error,
    uncalibrated,
    with_fit,
    with_known,
    within_conference,
)
from peerveil.papers.calibration.printed import keep_as_printed, response_as_printed
from peerveil.papers.reproduce.experiment import Comparison, Reproduction, Verdict
from peerveil.papers.reproduce.illustrations import instance, of_module
from peerveil.report.figures import COLORS, figure_style, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _row(what: str, paper: float, ours: float, tolerance: float = 1e-9) -> Comparison:
    return Comparison(what, f"{paper:.6g}", f"{ours:.6g}", Verdict.of(abs(paper - ours) <= tolerance))


def _made(
    name: str,
    title: str,
    rows: Sequence[Comparison],
    note: str,
    draw: Callable[[list[Axes]], None],
    columns: int = 1,
) -> Reproduction:
    axes = new_axes(4.2 * columns + 1, 3.6, columns)
    with figure_style():
        draw(axes)
    return Reproduction(f"calibration/{name}", title, tuple(rows), note, axes[0])


def most_for_adversary(u: float, w1: float, w2: float, least: float, error: float) -> float:
    """The largest adversary error at *exactly* a conference error, not at most: the trapezoids of Figures 4 and 6.

    Moving x and y of the two assignments' masses costs w1 x + w2 y; the adversary errs by
    min(u - x, y) + min(x, v - y). For each cost the best split is found on a fine grid of x.
    """
    v = 1.0 - u
    paid = error - least
    x = np.linspace(0.0, u, 4001)
    y = (paid - w1 * x) / w2
    good = (y >= -1e-12) & (y <= v + 1e-12)
    value = np.minimum(u - x, y) + np.minimum(x, v - y)
    return float(value[good].max()) if good.any() else float("nan")


def figure_1(quick: bool = False, progress: bool | None = None) -> Reproduction:  # noqa: ARG001
    """Figure 1: the noiseless frontier, a segment of slope 1 from the origin."""
    pair = Pair((0.3, 0.2), (Affine(1.0, 0.5), Affine(1.0, -0.5)), noise=0.0)
    frontier = pair.frontier()
    least = min(pair.posterior)
    rows = (
        _row("start, conference error", 0.0, frontier.start[0]),
        _row("start, adversary error", 0.0, frontier.start[1]),
        _row("end, conference error: min(u,v)/(u+v)", least, frontier.end[0]),
        _row("end, adversary error: min(u,v)/(u+v)", least, frontier.end[1]),
    )
    return _made(
        "figure-1", "The noiseless frontier", rows, "Theorem 4.2 holds as printed.", lambda axes: frontier.draw(axes[0])
    )


def figure_2(quick: bool = False, progress: bool | None = None) -> Reproduction:  # noqa: ARG001
    """Figure 2: the noisy frontier in the case that the paper draws."""
    pair, u, v, phi1, phi2 = instance()
    frontier = pair.frontier()
    keep = pair.strategy(adversary_error=frontier.end[1]).keep
    printed = keep_as_printed(u, v, phi2)
    rows = (
        _row("start, conference error: u Phi1 + v (1 - Phi2)", u * phi1 + v * (1 - phi2), frontier.start[0]),
        _row(
            "end, conference error: u (Phi1 + 2 Phi2 - 1) + v (1 - Phi2)",
            u * (phi1 + 2 * phi2 - 1) + v * (1 - phi2),
            frontier.end[0],
        ),
        _row("end, adversary error: u", u, frontier.end[1]),
        Comparison(
            "q2 at the end (Algorithm 3, fourth branch)",
            f"{printed:.6g}",
            f"{keep[1]:.6g}",
            Verdict.ERRATUM,
            "erratum: the printed one is negative",
        ),
        _row("q2 at the end: 1 - u/v (Appendix C.5)", 1 - u / v, keep[1]),
    )
    note = (
        "The frontier is right; Algorithm 3's q2 at its end is not a probability. The text of C.5 gives the right one."
    )
    return _made("figure-2", "A noisy frontier", rows, note, lambda axes: frontier.draw(axes[0]))


def _study(
    kendall: dict[str, list[float]], messy: dict[str, list[float]], variance: float, rng: Any, fitted: bool
) -> None:
    count, load = 100, 3
    quality = rng.standard_normal(count)
    scale = np.maximum(rng.exponential(1.0, count), 1e-6)
    bias = np.sqrt(0.5) * rng.standard_normal(count)
    while True:  # three permutations that agree nowhere: three reviewers a paper, three papers a reviewer
        who = np.array([rng.permutation(count) for _ in range(load)])
        if ((who[0] != who[1]) & (who[0] != who[2]) & (who[1] != who[2])).all():
            break
    paper = np.tile(np.arange(count), load)
    person = who.ravel()
    score = scale[person] * quality[paper] + bias[person] + np.sqrt(variance) * rng.standard_normal(count * load)
    reviews = Reviews(paper=paper, reviewer=person, score=score)
    known = {j: Affine(float(scale[j]), float(bias[j])) for j in range(count)}
    results = {
        "none": uncalibrated(reviews),
        "within": within_conference(reviews),
        "known": with_known(reviews, known),
        "least squares": least_squares(reviews),
    }
    if fitted:
        for iterations in (2000, 8000):  # without noise three reviews a reviewer leave several modes; see the note
            with suppress(FitNotConverged):
                fit = fit_miscalibration(reviews, iterations=iterations, progress=False)
                results["hierarchical"] = with_fit(reviews, fit)
                break
    for name, estimate in results.items():
        kendall.setdefault(name, []).append(kendall_distance(quality, estimate))
        messy.setdefault(name, []).append(messy_middle_error(quality, estimate))


def figure_3(quick: bool = False, progress: bool | None = None) -> Reproduction:
    """Figure 3: calibration with and without knowledge of the reviewers, under the model as the paper states it."""
    runs, fits = (10, 0) if quick else (100, 3)
    variances = (0.0, 0.1, 0.25, 0.5, 1.0)
    tables: list[tuple[float, dict[str, float], dict[str, float]]] = []
    for variance in variances:
        kendall: dict[str, list[float]] = {}
        messy: dict[str, list[float]] = {}
        rng = np.random.default_rng(20220101)
        with progress_bar(f"figure 3, variance {variance:g}", runs, show=progress) as advance:
            for run in range(runs):
                _study(kendall, messy, variance, rng, run < fits)
                advance(1)
        tables.append(
            (
                variance,
                {k: float(np.mean(v)) for k, v in kendall.items()},
                {k: float(np.mean(v)) for k, v in messy.items()},
            )
        )
    measured = {0.0: {"none": 0.168, "within": 0.146, "known": 0.0}}
    rows: list[Comparison] = []
    for variance, kendall_means, messy_means in tables:
        for name, value in kendall_means.items():
            known = measured.get(variance, {}).get(name)
            beside = "no number printed" if known is None else "agrees" if abs(known - value) < 0.015 else "differs"
            shown = "curve only" if known is None else f"curve only; {known:g} in an earlier measurement of ours"
            rows.append(
                Comparison(
                    f"Kendall tau distance, variance {variance:g}, {name}",
                    shown,
                    f"{value:.3f}",
                    Verdict.NOTHING_PRINTED,
                    beside,
                )
            )
        for name, value in messy_means.items():
            rows.append(
                Comparison(
                    f"messy middle error, variance {variance:g}, {name}",
                    "curve only",
                    f"{value:.3f}",
                    Verdict.NOTHING_PRINTED,
                    "no number printed",
                )
            )
    high = tables[-1][1]
    claim = "refuted" if high["within"] > high["none"] else "holds"
    rows.append(
        Comparison(
            f"Kendall, within minus none at variance {variances[-1]:g}",
            "below 0 (claimed)",
            f"{high['within'] - high['none']:+.3f}",
            Verdict.ERRATUM,
            f"erratum: the claim is {claim}",
        )
    )
    note = (
        "The paper claims that within-conference calibration reduces the error significantly. Under its stated model "
        "that is "
        "so only without noise: from a small variance on it does harm. (The authors' script reads variances as "
        "standard deviations.) A hierarchical model fitted to the same scores does what is claimed of normalizing: it "
        "errs less than no calibration at every variance here. Where its chains do not agree it shows no point."
    )

    def draw(axes: list[Axes]) -> None:
        looks = {
            "none": ("truth", "o-"),
            "within": ("leak", "s-"),
            "known": ("private", "^-"),
            "least squares": ("accent", "v--"),
            "hierarchical": ("good", "d--"),
        }
        x = [variance for variance, _, _ in tables]
        kendall_curves, messy_curves = [one for _, one, _ in tables], [one for _, _, one in tables]
        panels = ((axes[0], kendall_curves, "Kendall tau distance"), (axes[1], messy_curves, "messy middle error"))
        for ax, curves, label in panels:
            for name in dict.fromkeys(name for one in curves for name in one):
                color, style = looks[name]
                points = [(place, one[name]) for place, one in zip(x, curves, strict=True) if name in one]
                ax.plot(*zip(*points, strict=True), style, color=COLORS[color], label=name)
            ax.set_xlabel("variance of the noise")
            ax.set_ylabel(label)
            ax.set_ylim(bottom=0.0)
        axes[0].legend(fontsize=8)

    return _made("figure-3", "Calibration with and without known parameters", rows, note, draw, columns=2)


def figure_4(quick: bool = False, progress: bool | None = None) -> Reproduction:  # noqa: ARG001
    """Figure 4: without noise, the adversary's largest error is a trapezoid in the conference's error."""
    rows: list[Comparison] = []
    curves = []
    for label, u in (("u > v", 0.65), ("u <= v", 0.35)):
        least = min(u, 1 - u)
        for error, paper in ((0.0, 0.0), (least / 2, least / 2), (least, least), (1 - least, least), (1.0, 0.0)):
            ours = most_for_adversary(u, 1.0, 1.0, 0.0, error)
            rows.append(_row(f"{label}: adversary error at conference error {error:g}", paper, ours, 1e-3))
        x = np.linspace(0, 1, 201)
        curves.append((label, u, x, [most_for_adversary(u, 1.0, 1.0, 0.0, e) for e in x.tolist()]))

    def draw(axes: list[Axes]) -> None:
        for ax, (label, u, x, y) in zip(axes, curves, strict=True):
            ax.plot(x, y, color=COLORS["private"])
            ax.axhline(min(u, 1 - u), color=COLORS["truth"], linestyle="--", linewidth=1)
            ax.set_title(label, fontsize=10)
            ax.set_xlabel("error of the conference")
            ax.set_ylabel("largest error of the adversary")
            ax.set_ylim(0, 0.5)

    return _made("figure-4", "Adversary error against conference error, no noise", rows, "As printed.", draw, columns=2)


def figure_6(quick: bool = False, progress: bool | None = None) -> Reproduction:  # noqa: ARG001
    """Figure 6: the same with noise, in the case of Figure 2."""
    pair, u, v, phi1, phi2 = instance()
    w1, w2 = abs(1 - 2 * phi1), abs(1 - 2 * phi2)
    least = pair.least_error
    corners = (
        ("u Phi1 + v (1 - Phi2)", u * phi1 + v * (1 - phi2), 0.0),
        ("u (Phi1 + 2 Phi2 - 1) + v (1 - Phi2)", u * (phi1 + 2 * phi2 - 1) + v * (1 - phi2), u),
        ("u (2 - Phi1 - 2 Phi2) + v Phi2", u * (2 - phi1 - 2 * phi2) + v * phi2, u),
        ("u (1 - Phi1) + v Phi2", u * (1 - phi1) + v * phi2, 0.0),
    )
    rows = tuple(
        _row(f"adversary error at conference error {name}", height, most_for_adversary(u, w1, w2, least, place), 2e-3)
        for name, place, height in corners
    )
    x = np.linspace(corners[0][1], corners[-1][1], 301)
    y = [most_for_adversary(u, w1, w2, least, e) for e in x.tolist()]

    def draw(axes: list[Axes]) -> None:
        axes[0].plot(x, y, color=COLORS["private"])
        axes[0].plot(
            [c[1] for c in corners], [c[2] for c in corners], "o", color=COLORS["accent"], label="printed corners"
        )
        axes[0].set_xlabel("error of the conference")
        axes[0].set_ylabel("largest error of the adversary")
        axes[0].legend(fontsize=9)

    return _made(
        "figure-6",
        "Adversary error against conference error, noise",
        rows,
        "The corners agree with the printed coordinates.",
        draw,
    )


def algorithm_2(quick: bool = False, progress: bool | None = None) -> Reproduction:  # noqa: ARG001
    """Algorithm 2: without noise, a coin with chance E_C/zeta between Algorithm 1 at its end and the true assignment."""
    case, draws = AverageCase([Affine(1, 0.5), Affine(1, -0.5)], noise=0.0), 20_000 if quick else 1_000_000
    (_, eta), zeta = case.ends[0], case.zeta
    rows: list[Comparison] = []
    points = []
    for share in (0.25, 0.5, 1.0, 1.5):
        allowed = share * zeta
        strategy = case.strategy(conference_error=allowed)
        played = simulate_average(strategy, draws=draws, seed=1)
        errors = min(allowed, zeta), min(allowed, zeta) + eta
        for name, paper, check in zip(
            ("conference", "adversary"), errors, (played.conference, played.adversary), strict=True
        ):
            label = f"{name} error, {share:g} zeta allowed" + (
                " (more than zeta: operate at zeta)" if share > 1 else ""
            )
            rows.append(_row(f"{label}: computed", paper, getattr(strategy, f"{name}_error"), 1e-6))
            rows.append(_row(f"{label}: {draws:,} pairs played", paper, check.observed, 5 * check.standard_error))
        points.append((played.conference.observed, played.adversary.observed))

    def draw(axes: list[Axes]) -> None:
        case.frontier().draw(axes[0])
        axes[0].plot(*zip(*points, strict=True), "o", color=COLORS["accent"], label="played")
        axes[0].legend(fontsize=9)

    note = f"Theorem 4.4 holds as printed: on average E_C and E_C + eta, up to zeta = {zeta:.4f} (eta = {eta:.4f})."
    return _made("algorithm-2", "Errors on average over pairs, no noise", rows, note, draw)


def proposition_b3(quick: bool = False, progress: bool | None = None) -> Reproduction:  # noqa: ARG001
    """Proposition B.3: randomized response with parameter e^epsilon is epsilon-DP; as printed it mostly flips."""
    pair, *_ = instance()
    best = best_decisions(pair.posterior, pair.errors)
    rows, curves = [], []
    for epsilon in (0.25, 0.5, 1.0, 2.0, 4.0):
        keep, ours = response_as_printed(epsilon), respond_assignment(pair, epsilon=epsilon)
        printed = Strategy(
            table=np.array([[keep, 1 - keep], [1 - keep, keep]]) @ np.eye(2)[best], **pair.strategy_fields
        )
        rows += [
            _row(f"loss of the response, epsilon {epsilon:g}, as printed", epsilon, printed.privacy_loss),
            _row(
                f"loss of the response, epsilon {epsilon:g}, keeping e^epsilon/(1 + e^epsilon)",
                epsilon,
                ours.strategy.privacy_loss,
                1e-6,
            ),
            Comparison(
                f"chance to keep the true assignment, epsilon {epsilon:g}",
                f"{keep:.4g}",
                f"{ours.response.keep:.4g}",
                Verdict.ERRATUM,
                "erratum: the printed one flips more often than it keeps; both are private",
            ),
        ]
        curves.append((epsilon, printed.conference_error, ours.strategy.conference_error))
    optimal = pair.strategy(adversary_error=pair.frontier().end[1] / 2)
    loss = optimal.privacy_loss
    rows.append(
        Comparison(
            "loss of an optimal strategy (Algorithm 3)", "not epsilon-DP", f"{loss:.4g}", Verdict.of(loss == np.inf)
        )
    )

    def draw(axes: list[Axes]) -> None:
        epsilon, printed, ours = zip(*curves, strict=True)
        axes[0].plot(epsilon, printed, "s-", color=COLORS["leak"], label="as printed")
        axes[0].plot(epsilon, ours, "o-", color=COLORS["private"], label="kept with e^ε/(1 + e^ε)")
        axes[0].set(xlabel="epsilon", ylabel="error of the conference", ylim=(0, None))
        axes[0].legend(fontsize=9)

    note = (
        "The claim of privacy holds. The printed probabilities are exchanged: more epsilon then makes decisions worse."
    )
    return _made("proposition-b3", "Randomized response on the assignment", rows, note, draw)


EXPERIMENTS: dict[str, Callable[[bool, bool | None], Reproduction]] = {
    "calibration/figure-1": figure_1,
    "calibration/figure-2": figure_2,
    "calibration/figure-3": figure_3,
    "calibration/figure-4": figure_4,
    "calibration/figure-6": figure_6,
    "calibration/algorithm-2": algorithm_2,
    "calibration/proposition-b3": proposition_b3,
    **of_module("calibration"),
}
