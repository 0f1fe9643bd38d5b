"""A guarantee in words. Every rounding is to the safe side: it never sounds stronger than it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from peerveil.core.exact import exp_bounds, words
from peerveil.core.guarantee.notion import TAKES_EPSILON, WORTHLESS, Notion
from peerveil.core.text import duration_words

if TYPE_CHECKING:
    from peerveil.core.guarantee.value import Guarantee


def short_sentence(g: Guarantee) -> str:
    """The sentence without what is meant by neighbors, nowhere stronger than the whole one."""
    if g.exact_epsilon is None and g.notion in TAKES_EPSILON:
        return whole_sentence(g)
    if g.notion is Notion.ONE_SIDED_DP:
        return f"{_one_sided(g)}, which the full guarantee describes; nothing is guaranteed in the other direction."
    if g.notion is Notion.MAP_ERROR:
        return f"{_map_error(g)}, if the stated model holds."
    assert g.exact_epsilon is not None
    if g.exact_epsilon > WORTHLESS:
        return f"{_worthless(g)}."
    return (
        f"{_opening(g)}: a 50:50 guess between two neighboring cases is "
        f"right at most {odds_in_words(g.exact_epsilon)[1]}% of the time."
    )


def whole_sentence(g: Guarantee) -> str:
    """What is guaranteed about what, and which cases are neighbors."""
    if g.notion is Notion.MAP_ERROR:
        return f"{_map_error(g)} (to be distinguished: {g.neighbors})."
    if g.exact_epsilon is None:
        return f"No privacy: this was computed without noise (nothing protects {g.unit})."
    factor, guess = odds_in_words(g.exact_epsilon)
    if g.exact_epsilon > WORTHLESS and g.notion is not Notion.ONE_SIDED_DP:
        return f"{_worthless(g)} (neighbors: {g.neighbors})."
    if g.notion is Notion.ONE_SIDED_DP:
        return f"{_one_sided(g)}; nothing is guaranteed in the other direction (neighbors: {g.neighbors})."
    if g.notion is Notion.PURE_DP:
        subject, places = "whatever is published", "on one data set as on its neighbor"
    else:
        subject, places = "whatever leaves the person's device", "in one case as in the other"
    return (
        f"{_opening(g)}: {subject} is at most {factor} times as likely {places}, and a "
        f"50:50 guess between the two is right at most {guess}% of the time, whatever else a reader knows "
        f"(neighbors: {g.neighbors})."
    )


def _opening(g: Guarantee) -> str:
    assert g.exact_epsilon is not None
    name = "Differential privacy" if g.notion is Notion.PURE_DP else "Local differential privacy"
    return f"{name} with epsilon {words(g.exact_epsilon)} for {g.unit}"


def _one_sided(g: Guarantee) -> str:
    assert g.exact_epsilon is not None
    assert g.exact_gap is not None
    gap = _duration(g.exact_gap, g.gap_unit)
    return (
        f"One-sided privacy with epsilon {words(g.exact_epsilon)} and gap {gap} for {g.unit}: what is seen is at most "
        f"{odds_in_words(g.exact_epsilon)[0]} times as likely in the sensitive case as in its harmless neighbor"
    )


def _worthless(g: Guarantee) -> str:
    return f"{_opening(g)} protects nothing in effect: a 50:50 guess between two cases may be right almost every time"


def _map_error(g: Guarantee) -> str:
    assert g.exact_error is not None
    return (
        f"An adversary who knows the protocol and sees all that is published guesses {g.unit} wrongly at least "
        f"{rounded(100 * g.exact_error, math.floor)}% of the time"
    )


def odds_in_words(epsilon: Fraction) -> tuple[str, str]:
    """e^epsilon, and the percentage of 50:50 guesses that are then right, both rounded up.

    >>> odds_in_words(Fraction(1))
    ('2.72', '73.2')
    """
    if epsilon > 30:
        return f"10^{math.ceil(epsilon / Fraction('2.30258509299404'))}", "100"
    low, high = exp_bounds(epsilon)
    return rounded(high, math.ceil, 2), rounded(100 * high / (1 + low), math.ceil)


def _duration(gap: Fraction, unit: str) -> str:
    """A gap as reports and commands write it, rounded down.

    >>> _duration(Fraction(185_363), "seconds"), _duration(Fraction(90), "seconds"), _duration(Fraction(5000), "posts")
    ('2 days 3 h', '90 seconds', '5000 posts')
    """
    if unit == "seconds" and gap >= 100:
        return duration_words(gap)
    return f"{words(gap, 'down')} {unit}"


def rounded(value: Fraction, direction: Callable[[Fraction], int], digits: int = 1) -> str:
    """An exact number with a few decimals (three leading digits if it is large), rounded in one direction."""
    if value >= 1000:
        digits = 3 - len(str(int(value)))
    scale = Fraction(10) ** digits
    return f"{float(direction(value * scale) / scale):,.10g}"
