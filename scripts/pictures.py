"""Draw the README's picture anew: `.venv/bin/python scripts/pictures.py`."""

from __future__ import annotations

from pathlib import Path

from peerveil import Randomness
from peerveil.audit import granularity
from peerveil.audit.cases import house_cases, planted_faults
from peerveil.core.files import write_text
from peerveil.report import figure_style, new_axes, svg
from peerveil.study.audit import draw_audit

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"


def main() -> None:
    """Write docs/pictures/audit.svg."""
    cases = [*house_cases(), *planted_faults()]
    # the bits of the simulation lane do leak; that case is drawn from the secure lane, as users get it
    lanes = [
        Randomness.secure() if case.event is granularity and not case.fault else Randomness.simulation(1)
        for case in cases
    ]
    reports = [case.audit(20_000, randomness=lane) for case, lane in zip(cases, lanes, strict=True)]
    (ax,) = new_axes(height=0.9 + 0.32 * len(reports))
    with figure_style():
        draw_audit(ax, reports)
        picture = svg(ax, "Certified privacy loss of six honest mechanisms and six broken ones, each claiming 1")
    # an image of its own has no page to take its text color from; this grey reads on white and on black
    write_text(PICTURES / "audit.svg", picture.alone("#7a828c", background=None))


if __name__ == "__main__":
    main()
