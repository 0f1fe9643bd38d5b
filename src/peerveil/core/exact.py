"""Exact numbers for budgets: floats read as printed, conversions that round in a stated direction.

The rule: **a float is read as its printed decimal**. ``0.1`` is one tenth, not the binary fraction
0.1000000000000000055 that the machine stores, so ten spends of 0.1 exhaust a budget of 1 exactly. Inside, all
arithmetic on epsilons is done on :class:`fractions.Fraction`.

>>> exact(0.1, "epsilon") * 10
Fraction(1, 1)
>>> exact("1/3", "epsilon")
Fraction(1, 3)
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerveil.core.arrays import Flags, Floats
from peerveil.core.errors import BadInput, Verbatim

Number: TypeAlias = "int | float | str | Decimal | Fraction | np.integer | np.floating"
"""What may be given for an exact parameter."""

_DIGITS: Final = 60
_LONGEST_NUMBER: Final = 400
LARGEST: Final = 1e100
"""Numbers beyond this are refused where nothing else limits them: their squares would overflow."""
_SMALLEST, _LARGEST = Fraction(1, 10**300), Fraction(10**300)
_MOST_BITS: Final = 4096


def exact(value: Number, argument: str, *, want: str = "a finite number") -> Fraction:
    """The exact value of a number, a float being read as its printed decimal.

    Parameters
    ----------
    value
        An integer, float, decimal or fraction, or a string such as ``"0.1"`` or ``"1/3"``.
    argument
        The name to use in an error.

    Examples
    --------
    >>> exact(0.3, "epsilon"), exact(np.float32(0.3), "epsilon")
    (Fraction(3, 10), Fraction(3, 10))
    """
    kinds = (Rational, np.integer, float, np.floating, Decimal, str)
    if isinstance(value, (bool, np.timedelta64)) or not isinstance(value, kinds):
        raise BadInput(argument, got=value, want=want)
    if isinstance(value, (Rational, np.integer)):
        return _in_range(Fraction(int(value.numerator), int(value.denominator)), value, argument)
    # np.float64 is a float whose own repr is not a number
    text = float.__repr__(float(value)) if isinstance(value, float) else str(value).strip()
    try:
        if len(text) > _LONGEST_NUMBER or abs(Decimal(text.split("/")[0]).adjusted()) > _LONGEST_NUMBER:
            raise ValueError(text)
        number = Fraction(text)
    except (ValueError, ArithmeticError):
        raise BadInput(argument, got=value, want=want) from None
    return _in_range(number, value, argument)


def _in_range(number: Fraction, given: object, argument: str) -> Fraction:
    """Refuse what no float can hold, and fractions of absurd length."""
    size = abs(number)
    if size and not (_SMALLEST <= size <= _LARGEST and size.denominator.bit_length() <= _MOST_BITS):
        raise BadInput(argument, got=given, want="a number between 1e-300 and 1e300 in size")
    return number


def exact_positive(value: Number, argument: str, *, want: str = "a finite number above 0") -> Fraction:
    """Like :func:`exact`, refusing zero and negative numbers."""
    number = exact(value, argument, want=want)
    if number <= 0:
        raise BadInput(argument, got=value, want=want)
    return number


def printed(value: Fraction, rounding: Literal["up", "down"]) -> float:
    """The float whose *printed decimal* is on the safe side of an exact number, and closest to it.

    It is the inverse of :func:`exact` for every float, and rounds the rest in the stated direction: ``"up"`` for
    what is spent, ``"down"`` for what remains.

    >>> printed(Fraction(3, 10), "up"), printed(Fraction(1, 3), "up"), printed(Fraction(1, 3), "down")
    (0.3, 0.33333333333333337, 0.3333333333333333)
    """
    result, outward = _nearest(value), 1 if rounding == "up" else -1
    while outward * (value - Fraction(repr(result))) > 0:
        result = math.nextafter(result, outward * math.inf)
    return result


def at_least(value: Fraction) -> float:
    """The smallest float whose *stored binary value* is not below an exact number: for noise scales.

    >>> at_least(Fraction(1, 10)), Fraction(at_least(Fraction(3, 10))) >= Fraction(3, 10)
    (0.1, True)
    """
    result = _nearest(value)
    while Fraction(result) < value:
        result = math.nextafter(result, math.inf)
    return result


def _nearest(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        raise BadInput("value", got=value, want="a number within the range of floats") from None


def safe_sensitivity(value: Number) -> Fraction:
    """An exact sensitivity that is not below the float's printed *nor* its stored value.

    A sensitivity is a bound that was often computed in floats; whichever way it was meant, this is at least it.
    """
    printed_value = exact_positive(value, "sensitivity")
    stored = Fraction(*value.as_integer_ratio()) if isinstance(value, (float, np.floating)) else printed_value
    return max(printed_value, stored)


def exp_bounds(exponent: Fraction, *, digits: int = _DIGITS) -> tuple[Fraction, Fraction]:
    """Two rationals with ``low <= e**exponent <= high``, equal to about as many digits.

    The standard library's decimal ``exp`` is correctly rounded, so one step down from e to the rounded-down exponent
    is a lower bound, and one step up from e to the rounded-up exponent an upper bound.

    >>> low, high = exp_bounds(Fraction(1))
    >>> float(low), high - low < Fraction(1, 10**50)
    (2.718281828459045, True)
    """
    if abs(exponent) > 10_000:
        raise BadInput("epsilon", got=exponent, want="at most 10000")
    below, above = _decimals(exponent, digits)
    context = Context(prec=digits)
    return Fraction(context.next_minus(below.exp(context))), Fraction(context.next_plus(above.exp(context)))


def log_above(ratio: Fraction) -> float:
    """A float that is not below the natural logarithm of an exact positive ratio, and within 2 ulp of it.

    >>> log_above(Fraction(1)), log_above(Fraction(3)) >= 1.0986122886681098
    (0.0, True)
    """
    if ratio == 1:
        return 0.0
    context = Context(prec=_DIGITS)
    _, above = _decimals(ratio)
    return at_least(Fraction(context.next_plus(above.ln(context))))


def _decimals(value: Fraction, digits: int = _DIGITS) -> tuple[Decimal, Decimal]:
    """An exact number between two decimals of so many digits."""
    down = Context(prec=digits, rounding=ROUND_FLOOR)
    up = Context(prec=digits, rounding=ROUND_CEILING)
    top, bottom = Decimal(value.numerator), Decimal(value.denominator)
    return down.divide(top, bottom), up.divide(top, bottom)


def words(value: Fraction, rounding: Literal["up", "down"] = "up") -> str:
    """An exact number as people write it: a short decimal or fraction where there is one, else rounded as stated.

    >>> words(Fraction(1, 10)), words(Fraction(1, 3)), words(Fraction(5))
    ('0.1', '1/3', '5')
    """
    decimal = printed(value, rounding)
    if Fraction(repr(decimal)) == value:
        return f"{decimal:g}" if Fraction(f"{decimal:g}") == value else repr(decimal)
    if value.denominator < 1_000_000:
        return f"{value.numerator}/{value.denominator}"
    return repr(decimal)


def as_array(values: ArrayLike, argument: str) -> NDArray[Any]:
    """Anything array-like as an array; lists of unequal length and masked arrays are refused."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise BadInput(argument, got=values, want="an array, or lists of equal length") from None
    if isinstance(values, np.ma.MaskedArray):
        raise BadInput(argument, got=Verbatim("a masked array"), want="an array without a mask")
    return array


def refuse_first(wrong: Flags, values: NDArray[Any], argument: str, want: str) -> None:
    """Refuse an array in which something is wrong, naming the first such value and its position."""
    if wrong.any():
        first = int(wrong.argmax())
        raise BadInput(f"{argument}[{first}]", got=values.item(first), want=want)


def whole(value: object, argument: str, low: int, high: int | None = None, *, want: str = "") -> int:
    """A whole number within limits; ``want`` says what would be right where the limits alone do not.

    >>> whole(np.int64(3), "trials", 2)
    3
    >>> whole(True, "trials", 2)
    Traceback (most recent call last):
        ...
    peerveil.core.errors.BadInput: trials: got True, need a whole number of at least 2
    """
    if (
        isinstance(value, (int, np.integer))
        and not isinstance(value, bool)
        and low <= value <= (value if high is None else high)
    ):
        return int(value)
    limits = f"of at least {low:,}" if high is None else f"from {low:,} to {high:,}"
    raise BadInput(argument, got=value, want=want or f"a whole number {limits}")


def number(value: Any, argument: str, low: float = -LARGEST, high: float = LARGEST, *, want: str = "") -> float:
    """A finite number within limits, as a float."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not is_number or not low <= value <= high:
        raise BadInput(argument, got=value, want=want or f"a number from {low:g} to {high:g}")
    return float(value)


def numbers(
    values: Any,
    argument: str,
    *,
    low: float = -LARGEST,
    high: float = LARGEST,
    dimensions: tuple[int, ...] = (0, 1, 2),
    empty: bool = False,
    want: str = "finite numbers up to 1e100",
) -> Floats:
    """An array of finite numbers within limits; of none only where ``empty`` allows it."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput(argument, got=values, want=want) from None
    inside = (array >= low) & (array <= high)
    if array.ndim not in dimensions or not (array.size or empty) or not inside.all():
        raise BadInput(argument, got=values, want=want)
    return array


def probability(value: object, argument: str) -> float:
    """A number from 0 to 1."""
    return number(value, argument, 0.0, 1.0, want="a probability")
