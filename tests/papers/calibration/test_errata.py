"""Where the paper is wrong, and Figures 1 to 6 and Table 1 (docs/errata.md)."""

from __future__ import annotations

import pytest

from peerveil.calibration import Affine, Pair
from peerveil.papers.calibration.printed import keep_as_printed
from peerveil.papers.reproduce.calibration import EXPERIMENTS, figure_3
from peerveil.report.figures import svg


def test_the_printed_keep_probability_is_negative_and_ours_is_not() -> None:
    pair = Pair((0.55, 0.25), (Affine(1.0, -0.3), Affine(0.8, 0.5)), noise=0.5)
    (u, v), phi2 = pair.posterior, pair.errors[1][0]
    assert u < v
    assert phi2 > 0.5
    assert keep_as_printed(u, v, phi2) < 0
    assert pair.strategy(adversary_error=pair.frontier().end[1]).keep == pytest.approx((1.0, 1 - u / v))


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_figures_are_reproduced(name: str) -> None:
    made = EXPERIMENTS[name](True, False)
    assert made.name == name
    assert made.rows
    assert not [row for row in made.rows if row.verdict == "differs"]
    assert (made.axes is None) is (name == "calibration/table-1")
    if made.axes is not None:
        assert "<svg" in svg(made.axes, alt=made.title)


def test_figure_3_refutes_the_claim_and_keeps_what_is_true() -> None:
    """Appendix A claims that normalizing helps significantly: only without noise, under the model as stated."""
    rows = {row.what: row for row in figure_3(True, False).rows}

    def tau(variance: str, method: str) -> float:
        return float(rows[f"Kendall tau distance, variance {variance}, {method}"].ours)

    assert tau("0", "within") < tau("0", "none")
    assert tau("0.5", "within") > tau("0.5", "none")
    assert tau("0.5", "known") < tau("0.5", "none")
    assert tau("0", "known") == pytest.approx(0.0, abs=1e-9)
