"""Draw the README's picture anew: `.venv/bin/python scripts/pictures.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from peerveil.core.files import write_text
from peerveil.data import synthetic_conference
from peerveil.rankings import consensus
from peerveil.release import publish, review_weights
from peerveil.report import COLORS, figure_style, new_axes, svg

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
GRAY = "#7a828c"  # reads on white and on black


def main() -> None:
    """Write docs/pictures/result.svg: a release with the truth that it hides, and a consensus."""
    conference = synthetic_conference(papers=600, reviewers=400, seed=3)
    published = publish(conference.reviews, epsilon=1, scale=(1, 10))
    person = conference.reviews.numbered("reviewer")[0]
    weights = review_weights(conference.reviews, weight="miscalibration", scale=(1, 10)).values
    truth = np.sort(np.bincount(person, weights) / np.bincount(person))
    order = consensus(conference.rankings, epsilon=1)
    left, right = new_axes(width=9, height=3.6, columns=2)
    with figure_style():
        published.plot(left)
        share = 100 * (np.arange(truth.size) + 0.5) / truth.size
        left.plot(share, truth, color=COLORS["leak"], lw=1.8, ls=":", label="truth (not published)")
        left.legend(loc="upper left", fontsize="small", frameon=False)
        left.set_title("How strict are 400 reviewers?", loc="left", fontsize="medium")
        order.plot(right)
        right.set_title("Which papers do they prefer?", loc="left", fontsize="medium")
        right.set_xlabel("mean place above the middle (possible ranks in brackets)", fontsize="small")
        alt = "Left: published strictness of reviewers with a band that holds the truth. Right: ranked papers with intervals."
        picture = svg(left.figure, alt)
    write_text(PICTURES / "result.svg", picture.alone(GRAY, background=None))


if __name__ == "__main__":
    main()
