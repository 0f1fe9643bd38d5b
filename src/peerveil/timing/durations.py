"""Durations: seconds in the API, whole nanoseconds ("ticks") inside.

Delays are drawn as whole ticks, so that a mechanism is a distribution on whole numbers whose privacy loss can be
computed without rounding. Posted times are then rounded up to the microseconds that :class:`peerveil.data.Events`
holds, which is post-processing.
"""

from __future__ import annotations

import math
import re
from datetime import timedelta
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np

from peerveil.core.errors import BadInput
from peerveil.core.exact import Number, exact

Duration: TypeAlias = "Number | timedelta | np.timedelta64"

TICKS: Final = 1_000_000_000  # ticks in a second
LONGEST_SECONDS: Final = 10 * 366 * 86_400  # ten years: nobody waits longer
_UNITS: Final = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}


def read_duration(value: Duration, argument: str, *, zero: bool = False) -> int:
    """Ticks, rounded up. Numbers are seconds; a ``timedelta`` says its own unit.

    >>> read_duration(0.5, "gap"), read_duration(timedelta(minutes=5), "window") // TICKS
    (500000000, 300)
    """
    want = f"seconds (or a timedelta){', 0 or more,' if zero else ' above 0'} and at most ten years"
    if isinstance(value, np.timedelta64):
        value = Fraction(int(value.astype("timedelta64[ns]").astype(np.int64)), TICKS)
    elif isinstance(value, timedelta):
        value = Fraction(value // timedelta(microseconds=1), 1_000_000)
    elif isinstance(value, str):
        raise BadInput(argument, got=value, want=want)
    seconds = exact(value, argument, want=want)
    if not (0 <= seconds <= LONGEST_SECONDS) or (seconds == 0 and not zero):
        raise BadInput(argument, got=value, want=want)
    return math.ceil(seconds * TICKS)


def parse_duration(text: str, argument: str) -> float:
    """Seconds from a duration as users type it: ``90s``, ``5m``, ``1.5h``, ``2d``.

    >>> parse_duration("1.5h", "--gap")
    5400.0
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", text.lower())
    if match is None or match[2] not in _UNITS:
        raise BadInput(argument, got=text, want="a duration with its unit: 90s, 5m, 1.5h or 2d")
    return float(Fraction(match[1]) * _UNITS[match[2]])


def in_words(seconds: float) -> str:
    """A duration in words.

    >>> in_words(4830), in_words(19.5), in_words(0), in_words(float("inf"))
    ('1 h 20 min', '19.5 s', '0 s', 'without bound')
    """
    if not np.isfinite(seconds):
        return "without bound"
    if seconds < 100:
        return f"{seconds:.3g} s"
    if seconds < 3600:
        return f"{seconds / 60:.3g} min"
    minutes = int(seconds / 60)
    if seconds < 2 * 86_400:
        return f"{minutes // 60} h {minutes % 60:02d} min" if minutes % 60 else f"{minutes // 60} h"
    return f"{seconds / 86_400:.3g} days"


def percent(share: float) -> str:
    """A share as a percentage with about two digits.

    >>> percent(1.0), percent(0.352), percent(0.0421), percent(0.000123), percent(0.0)
    ('100%', '35%', '4.2%', '0.012%', '0%')
    """
    value = 100 * share
    if value >= 9.95 or value == 0:
        return f"{value:.0f}%"
    return f"{value:.{max(1 - int(np.floor(np.log10(value))), 1)}f}%"
