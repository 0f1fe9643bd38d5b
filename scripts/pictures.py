"""Draw the pictures of the README and of the modules' pages anew: `.venv/bin/python scripts/pictures.py [NAME ...]`.

Each is computed by the product, from data in the repository, with a fixed seed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil import Randomness
from peerveil.core.files import write_text
from peerveil.data import synthetic_conference
from peerveil.papers.reproduce.truth import EPSILONS, read_set, scores
from peerveil.rankings import consensus
from peerveil.release import publish, review_weights
from peerveil.release.figures import draw_published
from peerveil.report import COLORS, figure_style, new_axes, svg
from peerveil.timing import FollowUp, linkage_attack, post

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.data import Reviews

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
SMALL = {"width": 4.8, "height": 3.2}  # inches: legible at a width of 400 pixels


def result() -> tuple[Axes, str]:
    """The README's picture: a release beside the truth that it hides, and a consensus; with real noise, as users get it."""
    conference = synthetic_conference(papers=600, reviewers=400, seed=3)
    left, right = new_axes(width=9, height=3.6, columns=2)
    publish(conference.reviews, epsilon=1, scale=(1, 10)).plot(left)
    _draw_truth(left, conference.reviews, weight="miscalibration", scale=(1, 10))
    left.set_title("How strict are 400 reviewers?", loc="left", fontsize="medium")
    consensus(conference.rankings, epsilon=1).plot(right)
    right.set_title("Which papers do they prefer?", loc="left", fontsize="medium")
    return (
        left,
        "Left: published strictness with a band that holds the truth. Right: papers ranked by preference, with intervals.",
    )


def _draw_truth(ax: Axes, reviews: Reviews, **settings: Any) -> None:
    codes = reviews.numbered("reviewer")[0]
    truth = np.sort(np.bincount(codes, review_weights(reviews, **settings).values) / np.bincount(codes))
    share = 100 * (np.arange(truth.size) + 0.5) / truth.size
    ax.plot(share, truth, color=COLORS["leak"], lw=1.8, ls=":", label="truth (not published)")
    ax.legend(loc="upper left", fontsize="small", frameon=False)


def release() -> tuple[Axes, str]:
    """A published curve beside the true one, which nobody is shown otherwise."""
    reviews = synthetic_conference(papers=400, reviewers=300, bias=1.0, seed=1).reviews
    settings = {"weight": "miscalibration", "scale": (1, 10)}
    published = publish(reviews, epsilon=1, randomness=Randomness.simulation(1), **settings)
    (ax,) = new_axes(**SMALL)
    draw_published(published, ax)
    _draw_truth(ax, reviews, **settings)
    return ax, "Strictness of 300 synthetic reviewers: published curve and band, true curve, and what chance would give"


def timing() -> tuple[Axes, str]:
    """Linking the posts of a conference by time, without delays and with them."""
    log = synthetic_conference(papers=400, reviewers=300, seed=2).events
    (ax,) = new_axes(**SMALL)
    attacks = {"no delays": (linkage_attack(log, window=300), "-", "leak")}
    for hours, style, color in ((1, "--", "accent"), (12, "-", "private")):
        mechanism = FollowUp(epsilon=1, gap=3600 * hours, window=300)
        schedule = post(log, mechanism=mechanism, randomness=Randomness.simulation(1))[1]
        attacks[f"gap {hours} h"] = (linkage_attack(schedule), style, color)
    for label, (attack, style, color) in attacks.items():
        # few pairs make the left end noisy, and longer cut-offs than the first that finds every pair only add errors
        rows = (attack.recall > 0.05) & (np.cumsum(attack.recall == 1) <= 1)
        ax.plot(attack.recall[rows], attack.precision[rows], color=COLORS[color], ls=style, lw=2, label=label)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    for set_ticks in (ax.set_xticks, ax.set_yticks):
        set_ticks([0, 0.25, 0.5, 0.75, 1], ["0%", "25%", "50%", "75%", "100%"])
    ax.set(xlabel="true pairs found", ylabel="links that are correct")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False)
    return (
        ax,
        "Share of correct links against share of true pairs found: without delays, and with gaps of 1 and 12 hours",
    )


def truth() -> tuple[Axes, str]:
    """Accuracy on real randomized answers, against epsilon."""
    labels = read_set("bluebirds")
    rows = [scores(labels, epsilon, 20) for epsilon in EPSILONS]
    (ax,) = new_axes(**SMALL)
    for name, label, color, style in (
        ("default", "peerveil", "private", "-"),
        ("majority", "majority vote", "truth", "--"),
        ("as-printed", "paper's method", "leak", ":"),
    ):
        means = [100 * row[name][:, 0].mean() for row in rows]
        ax.plot(EPSILONS, means, ls=style, marker="o", ms=5, lw=2, color=COLORS[color], label=label)
    ax.set_xscale("log")
    ax.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    ax.minorticks_off()
    ax.set(xlabel="epsilon of one answer", ylabel="correct labels (%)", ylim=(50, 100))
    ax.legend(loc="upper left", frameon=False)
    return ax, "Correct labels on bluebirds against epsilon: peerveil above majority vote and the paper's method"


def main() -> None:
    """Write the pictures that are named, or all of them, to docs/pictures."""
    drawings = {drawing.__name__: drawing for drawing in (result, release, timing, truth)}
    for name in sys.argv[1:] or drawings:
        with figure_style():
            ax, alt = drawings[name]()
            picture = svg(ax.figure, alt)
        # an image of its own has no page to take its text color from; this gray reads on white and on black
        write_text(PICTURES / f"{name}.svg", picture.alone("#7a828c", background=None))


if __name__ == "__main__":
    main()
