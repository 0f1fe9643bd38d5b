"""How an attacker's chances are said, the same way in every room: today, and with a setting.

**Why one formula serves every prior.** Let an attacker hold possible cases for likely before anything is published, the
likeliest with probability p: that guess is right p of the time. Whatever is published is at most e^epsilon times as likely
in one case as in another, so after it no case is likelier than p e^epsilon/(p e^epsilon + 1 - p), which grows with p. The best
guess is therefore right at most that often. Roundings are upwards.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from peerveil.core.exact import exp_bounds
from peerveil.core.guarantee import read_epsilon
from peerveil.core.guarantee.wording import rounded

EPSILONS: Final = ("0.1", "0.2", "0.3", "0.5", "1", "2", "3", "5", "10")
"""What the sliders of epsilon offer."""

_ANYTHING: Final = 30  # beyond this nothing is promised

EPSILON_HELP: Final = (
    "How strong the promise is: the smaller, the less anybody can learn about one person, and the less exact "
    "the result."
)


def right_at_most(epsilon: str, today: Fraction) -> str:
    """How often in 100 an attacker is then right, at most, who is right with probability ``today`` without the release.

    >>> right_at_most("0.2", Fraction(1, 10)), right_at_most("1", Fraction(1, 2))
    ('12', '73.2')
    """
    return rounded(100 * _most(epsilon, today), math.ceil)


def chance(epsilon: str, today: Fraction) -> float:
    """The same as a share, for curves."""
    return float(_most(epsilon, today))


def attack(what: str, today: str, after: str, *, most: bool = True) -> str:
    """The sentence about the attacker: today, and with this setting.

    >>> print(attack("one person's ranking", "10", "12")[:88])
    An attacker who is right 10 times in 100 today about one person's ranking would be right
    """
    return (
        f"An attacker who is right {times(today)} in 100 today about {what} would be right {'at most' if most else 'about'} "
        f"{times(after)} in 100 with this setting."
    )


def times(count: str) -> str:
    """So often.

    >>> times("1"), times("12")
    ('1 time', '12 times')
    """
    return f"{count} time{'' if count == '1' else 's'}"


def in_hundred(share: float) -> str:
    """A simulated share as a count in 100.

    >>> in_hundred(0.2514), in_hundred(1.0), in_hundred(0.004), in_hundred(0.0)
    ('25', '100', '0.4', '0')
    """
    value = 100 * share
    if 0 < value < 9.95:
        return f"{value:.1f}".removesuffix(".0")
    return f"{value:.0f}"


def _most(epsilon: str, today: Fraction) -> Fraction:
    exact = read_epsilon(epsilon)
    if exact > _ANYTHING:
        return Fraction(1)
    high = exp_bounds(exact)[1]
    return today * high / (1 - today + today * high)


SMOOTHED: Final = " What is simulated rests on a few draws for each setting, and its curves are smoothed."
"""Said wherever a curve was made smooth."""
