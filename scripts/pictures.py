"""Draw the README's picture anew: `.venv/bin/python scripts/pictures.py`."""

from __future__ import annotations

from pathlib import Path

from peerveil import Randomness
from peerveil.audit import granularity
from peerveil.audit.randomness import claims
from peerveil.core.files import write_text
from peerveil.report import figure_style, new_axes, svg
from peerveil.study.audit import draw_audit

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"


def main() -> None:
    """Write docs/pictures/audit.svg."""
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
    with figure_style():
        draw_audit(ax, audits)
        picture = svg(ax, "Certified privacy loss of six sound mechanisms and five broken ones, each claiming 1")
    # an image of its own has no page to take its text color from; this gray reads on white and on black
    write_text(PICTURES / "audit.svg", picture.alone("#7a828c", background=None))


if __name__ == "__main__":
    main()
