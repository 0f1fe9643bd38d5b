"""Draw the pictures of the README and of the modules' pages anew: `.venv/bin/python scripts/pictures.py [NAME ...]`.

Each is computed by the product, from data in the repository, with a fixed seed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from peerveil import Randomness
from peerveil.audit import granularity
from peerveil.audit.randomness import claims
from peerveil.core.files import write_text
from peerveil.data import synthetic_conference
from peerveil.papers.reproduce.truth import EPSILONS, read_set, scores
from peerveil.release import publish, review_weights
from peerveil.release.figures import draw_published
from peerveil.report import COLORS, figure_style, new_axes, svg
from peerveil.study.audit import draw_audit
from peerveil.timing import FollowUp, linkage_attack, post

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
SMALL = {"width": 4.8, "height": 3.2}  # inches: legible at a width of 400 pixels


def audit() -> tuple[Axes, str]:
    """Claimed against measured privacy loss."""
    # the bits of simulated noise do leak; that claim is drawn with secure randomness, as users get it
    audits = [
        claim.audit(
            20_000,
            randomness=Randomness.secure()
            if claim.event is granularity and not claim.fault
            else Randomness.simulation(1),
        )
        for claim in claims()
    ]
    (ax,) = new_axes(height=0.9 + 0.32 * len(audits))
    draw_audit(ax, audits)
    return ax, "Certified privacy loss of six sound mechanisms and five broken ones, each claiming 1"


def release() -> tuple[Axes, str]:
    """A published curve beside the true one, which nobody is shown otherwise."""
    reviews = synthetic_conference(papers=400, reviewers=300, bias=1.0, seed=1).reviews
    settings = {"weight": "miscalibration", "scale": (1, 10)}
    published = publish(reviews, epsilon=1, randomness=Randomness.simulation(1), **settings)
    codes = reviews.numbered("reviewer")[0]
    truth = np.sort(np.bincount(codes, review_weights(reviews, **settings).values) / np.bincount(codes))
    (ax,) = new_axes(**SMALL)
    draw_published(published, ax)
    ax.plot(100 * (np.arange(truth.size) + 0.5) / truth.size, truth, color=COLORS["truth"], lw=1.2, label="truth")
    ax.legend(loc="upper left", frameon=False)
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
    drawings = {drawing.__name__: drawing for drawing in (audit, release, timing, truth)}
    for name in sys.argv[1:] or drawings:
        with figure_style():
            picture = svg(*drawings[name]())
        # an image of its own has no page to take its text color from; this gray reads on white and on black
        write_text(PICTURES / f"{name}.svg", picture.alone("#7a828c", background=None))


if __name__ == "__main__":
    main()
