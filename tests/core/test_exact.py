"""Exact numbers: read as printed, rounded in a stated direction."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerveil.core.errors import BadInput
from peerveil.core.exact import (
    at_least,
    exact,
    exact_positive,
    exp_bounds,
    log_above,
    printed,
    safe_sensitivity,
    words,
)

positive = st.fractions(min_value=Fraction(1, 10**9), max_value=10**6)
floats = st.floats(-1e300, 1e300, width=64).filter(lambda x: x == 0 or abs(x) >= 1e-300)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (0.1, Fraction(1, 10)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.float32(0.1), Fraction(1, 10)),
        (np.int64(3), Fraction(3)),
        ("1/3", Fraction(1, 3)),
        (" 2.5 ", Fraction(5, 2)),
        ("1e-3", Fraction(1, 1000)),
        (Decimal("0.30"), Fraction(3, 10)),
        (Fraction(2, 7), Fraction(2, 7)),
        (1e-300, Fraction(1, 10**300)),
        (np.longdouble("0.1"), Fraction(1, 10)),
    ],
)
def test_a_float_is_read_as_printed(value: Any, number: Fraction) -> None:
    assert exact(value, "x") == number


@pytest.mark.parametrize(
    "bad",
    [
        math.nan,
        math.inf,
        -math.inf,
        np.float32("nan"),
        True,
        np.True_,
        None,
        "",
        "one",
        "1/0",
        "nan",
        "1e999999999",
        1j,
        [1],
    ],
)
def test_what_is_not_a_finite_number_is_refused_by_name(bad: Any) -> None:
    with pytest.raises(BadInput, match="^epsilon: got .*need a finite number") as caught:
        exact(bad, "epsilon")
    assert caught.value.argument == "epsilon"


@pytest.mark.parametrize("bad", [0, -1, -0.0, "-1/3", Fraction(0)])
def test_positive_refuses_zero_and_below(bad: Any) -> None:
    with pytest.raises(BadInput, match="above 0"):
        exact_positive(bad, "epsilon")


@given(floats)
def test_printed_inverts_exact(value: float) -> None:
    number = exact(value, "x")
    assert printed(number, "up") == value
    assert printed(number, "down") == value


@given(positive)
def test_printed_rounds_in_the_stated_direction(value: Fraction) -> None:
    up, down = printed(value, "up"), printed(value, "down")
    assert exact(down, "x") <= value <= exact(up, "x")
    assert up <= math.nextafter(math.nextafter(down, math.inf), math.inf)


@given(positive)
def test_at_least_is_the_smallest_float_not_below(value: Fraction) -> None:
    result = at_least(value)
    assert Fraction(result) >= value
    assert Fraction(math.nextafter(result, -math.inf)) < value


@given(floats.filter(lambda x: 1e-299 < x < 1e299))
def test_a_sensitivity_covers_both_readings_of_a_float(value: float) -> None:
    safe = safe_sensitivity(value)
    assert safe >= Fraction(value)
    assert safe >= Fraction(repr(value))
    extended = np.longdouble(value) * np.longdouble("1.0000000000000000001")
    assert safe_sensitivity(extended) >= Fraction(*extended.as_integer_ratio())


@given(st.fractions(min_value=-50, max_value=50, max_denominator=1000))
def test_exp_bounds_enclose(exponent: Fraction) -> None:
    low, high = exp_bounds(exponent)
    # an independent enclosure by Taylor's series: for |x| <= 50, 200 terms leave less than 1e-30
    series, term = Fraction(0), Fraction(1)
    for k in range(1, 250):
        series += term
        term *= exponent / k
    remainder = 2 * abs(term)
    assert low <= series + remainder
    assert high >= series - remainder
    assert remainder < Fraction(1, 10**30)
    assert low <= high
    assert (high - low) * 10**50 < high


@given(positive)
def test_log_above_is_above_and_close(ratio: Fraction) -> None:
    result = log_above(ratio)
    if ratio == 1:
        assert result == 0
        return
    assert exp_bounds(Fraction(result))[1] >= ratio
    below = math.nextafter(math.nextafter(math.nextafter(result, -math.inf), -math.inf), -math.inf)
    assert exp_bounds(Fraction(below))[0] < ratio


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(1, 10), "0.1"),
        (Fraction(3), "3"),
        (Fraction(1, 3), "1/3"),
        (Fraction(123456789, 1000), "123456.789"),
        (Fraction(1, 2**70), "8.470329472543005e-22"),
    ],
)
def test_words(value: Fraction, text: str) -> None:
    assert words(value) == text
