"""Where a paper is wrong: the printed form fails, the correct form passes (docs/errata.md)."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from peerveil import Guarantee, Response
from peerveil.audit import exact_loss
from peerveil.core.exact import exp_bounds


def test_calibration_appendix_b_keeps_an_answer_more_often_than_it_flips_it() -> None:
    low, _ = exp_bounds(Fraction(1))
    printed = 1 / (1 + low)
    assert printed < Fraction(1, 2)  # as printed, a report points away from the answer
    response = Response(1, 2)
    assert response.exact_keep > Fraction(1, 2)
    # both are private to the same degree
    as_printed = exact_loss([printed, 1 - printed], [1 - printed, printed])
    assert as_printed.within(1)
    assert exact_loss(response.probabilities(0), response.probabilities(1)).within(1)


def test_truth_definition_3_two_reports_of_one_answer_cost_twice() -> None:
    """If x and x' merely differ in coordinate i, they may differ elsewhere too, and lose more."""
    response = Response(1, 2)

    def sheet(*answers: int) -> dict[tuple[int, ...], Fraction]:
        parts = [response.probabilities(answer) for answer in answers]
        outcomes = product(range(2), repeat=len(answers))
        return {out: Fraction(parts[0][out[0]] * parts[1][out[1]]) for out in outcomes}

    only_one = exact_loss(sheet(0, 0), sheet(1, 0))
    also_another = exact_loss(sheet(0, 0), sheet(1, 1))
    assert only_one.within(1)
    assert not also_another.within("1.99")
    assert also_another.within(2)
    assert Guarantee.local_attribute_dp(1).group(2).epsilon == 2
