"""What the papers illustrate without measuring: who sees which scores, a sitting on a time line, notation, a diagram.

Release Figure 1, timing Figure 1, calibration Table 1 and Figure 5. Each is made from our own code, and each has at least one row
that could come out wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from peerveil.calibration import Affine, Pair
from peerveil.core.randomness import Randomness
from peerveil.core.result import stamp_axes
from peerveil.data import Events
from peerveil.papers.release.simulate import simulate_conference
from peerveil.papers.reproduce.experiment import Comparison, Experiment, Reproduction, Verdict
from peerveil.report import COLORS, new_axes
from peerveil.timing import FollowUp, find_batches, linkage_attack, optimal_attack, post

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_SEED: Final = 20210202


def release_figure_1(quick: bool = False, progress: bool | None = None) -> Reproduction:  # noqa: ARG001
    """Private and public data: with and without the edges between reviewers and scores."""
    made = simulate_conference(4, rng=np.random.default_rng(_SEED))
    public, papers = made.public, made.public.offsets.size - 1
    paper = np.repeat(np.arange(papers), np.diff(public.offsets))
    fields = sorted(name for name in type(public).__dataclass_fields__ if "reviewer" in name)
    rows = (
        Comparison("scores of each paper", "public, as a multiset", f"public: {public.values.size} sorted within papers",
                   Verdict.of(all(np.all(np.diff(public.values[paper == p]) >= 0) for p in range(papers)))),
        Comparison("who wrote which score", "private", f"fields of PublicScores that name a reviewer: {len(fields)}",
                   Verdict.of(not fields)),
        Comparison("how many reviews each reviewer wrote", "the same for all", f"loads {sorted(public.loads.tolist())}",
                   Verdict.of(np.ptp(public.loads) == 0)),
    )  # fmt: skip
    axes = new_axes(height=3.4, columns=2)
    for ax, title in zip(axes, ("(a) what the chairs hold", "(b) what the public sees"), strict=True):
        ax.set_title(title, loc="left", fontsize="medium")
        ax.axis("off")
        for p in range(papers):
            ax.text(-0.05, -p, f"paper {p + 1}", ha="right", va="center")
        for index, p in enumerate(paper.tolist()):
            ends = (0.85, -float(made.reviewer[index])) if ax is axes[0] else (0.25, -p + 0.16 * (-1) ** index)
            ax.plot((0, ends[0]), (-p, ends[1]), color=COLORS["leak" if ax is axes[0] else "truth"], lw=1)
            twin = (
                index ^ 1
            )  # the paper's other review: the label of the upper edge stands above, that of the lower below
            above = made.reviewer[index] < made.reviewer[twin] if ax is axes[0] else index % 2 == 0
            spot = (0.02, -p + (0.2 if above else -0.2)) if ax is axes[0] else (1.06 * ends[0], ends[1])
            ax.text(*spot, f"{made.weights[index]:.2f}", fontsize=8, va="center")
        for r in range(4):
            ax.text(0.9, -r, f"reviewer {r + 1}", va="center")
        ax.set(xlim=(-0.35, 1.35), ylim=(-3.5, 0.5))
    return Reproduction("release/figure-1", "What is private and what is public", rows,
                        "An illustration: four reviewers, two reviews each, synthetic.", axes[0])  # fmt: skip


def timing_figure_1(quick: bool = False, progress: bool | None = None) -> Reproduction:  # noqa: ARG001
    """One sitting links two pseudonyms; with delays it does not."""
    times = ["2026-01-05T09:00:00", "2026-01-05T09:02:00", "2026-01-05T10:30:00", "2026-01-05T12:10:00"]
    who = ["Ana", "Ana", "Ben", "Cid"]
    events = Events(time=times, actor=who, thread=[1, 2, 1, 2])
    together = int(find_batches(events, window=300, baseline=False).batched.sum())
    mechanism = FollowUp(epsilon=1, gap=45 * 60, window=300)
    schedule = post(events, mechanism=mechanism, randomness=Randomness.simulation(_SEED)).operator
    raw = linkage_attack(events, thresholds=[300], window=300)
    errs = optimal_attack(mechanism, (0, 45 * 60)).crossover
    rows = (
        Comparison("comments of the sitting", "two, on two papers, at nearly the same time", f"{together}",
                   Verdict.of(together == 2)),
        Comparison("linking what appears within five minutes, unprotected", "the reviewer is named",
                   f"precision {raw.precision[0]:.0%}, recall {raw.recall[0]:.0%}",
                   Verdict.of(raw.precision[0] == raw.recall[0] == 1)),
        Comparison("the best test on the pair, delayed (epsilon 1, gap 45 min)", "-",
                   f"errs {100 * errs:.0f}% of the time both ways", Verdict.NOTHING_PRINTED, "ours"),
    )  # fmt: skip
    axes = new_axes(height=2.6, columns=2)
    start = schedule.arrival.min()
    for ax, (title, when) in zip(axes, (("as written", schedule.arrival), ("as posted", schedule.posted)), strict=True):
        hours = (when - start) / 3.6e9
        for hour, name, thread in zip(hours, who, (1, 2, 1, 2), strict=True):
            ax.plot(hour, -thread, "o", color=COLORS["leak" if name == "Ana" else "truth"])
        ax.set_yticks([-1, -2], ["paper 1", "paper 2"])
        ax.set(title=title, xlabel="hours", xlim=(-0.3, 6), ylim=(-2.6, -0.4))
    stamp_axes(axes[1], "simulation")
    return Reproduction("timing/figure-1", "A sitting on a time line", rows,
                        "An illustration: red are two comments of one person in one sitting. Simulation, not private.",
                        axes[0])  # fmt: skip


_NOTATION: Final = (
    ("i", "index of a paper", "position in scores", ""),
    ("j", "index of a reviewer", "position in reviewers", ""),
    ("theta*", "true quality of a paper", "quality, N(0, 1) unless prior= says otherwise", ""),
    ("A1, A2", "the two assignments", "(0, 1) and (1, 0)", ""),
    ("s", "score of a paper", "Pair.scores", "scores"),
    ("beta_j", "miscalibration function", "Affine, Monotone, Uncertain", ""),
    ("epsilon_j", "noise of a reviewer", "noise, a standard deviation; epsilon is privacy here", "noise"),
    ("f_j", "density of beta_j(theta*)", "density of beta_j(theta*) plus noise", ""),
    ("E_C", "error of the conference", "conference_error", "least_error"),
    ("E_A", "error of the adversary", "adversary_error", ""),
)


def calibration_table_1(quick: bool = False, progress: bool | None = None) -> Reproduction:  # noqa: ARG001
    """Table 1: notation, the paper's and ours."""
    pair, *_ = instance()
    missing = [name for *_, name in _NOTATION if name and not hasattr(pair, name)]
    strategy = pair.strategy(adversary_error=0.1)
    missing += [name for name in ("conference_error", "adversary_error") if not hasattr(strategy, name)]
    rows = tuple(
        Comparison(symbol, meaning, ours, Verdict.ERRATUM, "erratum: with noise the density must hold it")
        if symbol == "f_j"
        else Comparison(symbol, meaning, ours, Verdict.of(not missing), f"differs: {missing}" if missing else "")
        for symbol, meaning, ours, _ in _NOTATION
    )  # fmt: skip
    return Reproduction("calibration/table-1", "Notation", rows, "The paper's symbols and our names.")


def instance() -> tuple[Pair, float, float, float, float]:
    """The case that Figures 2, 5 and 6 draw: u < v, Phi_1 < 1/2 < Phi_2, Phi_2 nearer to 1/2. With u, v, Phi_1, Phi_2."""
    pair = Pair((0.55, 0.25), (Affine(1.0, -0.3), Affine(0.8, 0.5)), noise=0.5)
    u, v = pair.posterior
    return pair, u, v, pair.errors[0][0], pair.errors[1][0]


def calibration_figure_5(quick: bool = False, progress: bool | None = None) -> Reproduction:  # noqa: ARG001
    """Figure 5: where in the square of (q1, q2) the adversary errs most, and the conference's extremes there."""
    from scipy.optimize import linprog

    _, u, v, phi1, phi2 = instance()
    # E_C is affine in (q1, q2); the adversary errs by u on the band u <= u q1 + v q2 <= v (Appendix C.5)
    slope, start = (u * (2 * phi1 - 1), v * (1 - 2 * phi2)), u * (1 - phi1) + v * phi2
    band = {"A_ub": [[u, v], [-u, -v]], "b_ub": [v, -u], "bounds": [(0, 1), (0, 1)], "method": "highs"}
    lowest, highest = linprog(slope, **band), linprog([-s for s in slope], **band)
    corners = (
        ("least", (1, 1 - u / v), u * (phi1 + 2 * phi2 - 1) + v * (1 - phi2), lowest),
        ("largest", (0, u / v), u * (2 - phi1 - 2 * phi2) + v * phi2, highest),
    )
    rows = []
    for name, (q1, q2), printed, found in corners:
        ours = start + float(np.dot(slope, found.x))
        at = abs(found.x[0] - q1) + abs(found.x[1] - q2) < 1e-9
        rows.append(
            Comparison(
                f"{name} conference error where the adversary errs most",
                f"{printed:.6f} at ({q1:.4g}, {q2:.4g})",
                f"{ours:.6f} at ({found.x[0]:.4g}, {found.x[1]:.4g})",
                Verdict.of(at and abs(ours - printed) < 1e-9),
            )
        )
    (ax,) = new_axes(width=5, height=4)
    x, y = np.meshgrid(np.linspace(0, 1, 101), np.linspace(0, 1, 101))
    error = np.minimum(u * x, v - v * y) + np.minimum(u - u * x, v * y)
    rows.append(
        Comparison("largest adversary error in the square", f"u = {u:.4f}", f"{error.max():.4f}",
                   Verdict.of(abs(error.max() - u) < 1e-9))
    )  # fmt: skip
    ax.contourf(x, y, error, levels=8, cmap="Blues", alpha=0.55)
    lines = ax.contour(x, y, start + slope[0] * x + slope[1] * y, levels=7, colors=COLORS["leak"], linewidths=0.8)
    ax.clabel(lines, fontsize=8)
    ax.plot([1, 0], [1 - u / v, u / v], "o", color=COLORS["accent"], label="the two extremes", clip_on=False)
    ax.set(xlabel="q1", ylabel="q2")
    ax.legend(loc="upper right", fontsize=8)
    note = "Blue: error of the adversary, darkest on the band. Red: lines of equal conference error."
    return Reproduction("calibration/figure-5", "The program behind Figure 6", tuple(rows), note, _named(ax))


def _named(ax: Axes) -> Axes:
    ax.set_title("adversary's error over (q1, q2)", loc="left", fontsize="medium")
    return ax


ILLUSTRATIONS: Final[dict[str, Experiment]] = {
    "release/figure-1": release_figure_1,
    "timing/figure-1": timing_figure_1,
    "calibration/table-1": calibration_table_1,
    "calibration/figure-5": calibration_figure_5,
}


def of_module(module: str) -> dict[str, Experiment]:
    """The illustrations of one module."""
    return {name: made for name, made in ILLUSTRATIONS.items() if name.startswith(f"{module}/")}
