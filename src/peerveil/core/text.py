"""Checks of what people write, and durations as people read them."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable
from fractions import Fraction
from typing import Final

_JOINERS: Final = "\u200c\u200d"  # Persian and Hindi words and joined emoji need these two invisible characters


def on_one_line(text: str) -> bool:
    """No control, format, private or unassigned characters, no line or paragraph separators."""
    return all(
        char in _JOINERS or not (kind.startswith("C") or kind in {"Zl", "Zp"})
        for char, kind in ((char, unicodedata.category(char)) for char in text)
    )


def duration_step(seconds: float | Fraction) -> int:
    """The smallest unit in which a duration is written: a second, from an hour on a minute, from two days on an hour."""
    return 1 if seconds < 3600 else 60 if seconds < 2 * 86_400 else 3600


def duration_words(seconds: float | Fraction, rounding: Callable[[Fraction], int] = math.floor) -> str:
    """A duration from 100 seconds on, in its two largest units.

    >>> duration_words(756), duration_words(14_820), duration_words(Fraction(367_300)), duration_words(7200)
    ('12 min 36 s', '4 h 07 min', '4 days 6 h', '2 h')
    """
    step = duration_step(seconds)
    whole = rounding(Fraction(seconds) / step) * step
    step = duration_step(whole)
    unit, name, small = {1: (60, "min", "s"), 60: (3600, "h", "min"), 3600: (86_400, "days", "h")}[step]
    large, rest = divmod(whole // step, unit // step)
    return f"{large} {name}" + (f" {rest:0{1 if step == 3600 else 2}d} {small}" if rest else "")
