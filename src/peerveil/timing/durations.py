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
from peerveil.core.text import duration_step, duration_words

Duration: TypeAlias = "Number | timedelta | np.timedelta64"

TICKS: Final = 1_000_000_000  # ticks in a second
LONGEST_SECONDS: Final = 10 * 366 * 86_400  # ten years: nobody waits longer
_UNITS: Final = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "days": 86_400}


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
    """Seconds from a duration as users type it: ``90s``, ``5m``, ``1.5h``, ``12m36s``, ``2d``.

    >>> parse_duration("1.5h", "--gap"), parse_duration("12 min 36 s", "--gap")
    (5400.0, 756.0)
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text.lower())
    if not re.fullmatch(r"(?:\s*\d+(?:\.\d+)?\s*[a-z]+)+\s*", text.lower()) or any(u not in _UNITS for _, u in parts):
        raise BadInput(argument, got=text, want="a duration with its unit: 90s, 5m, 1.5h, 12m36s or 2d")
    return float(sum(Fraction(count) * _UNITS[unit] for count, unit in parts))


def typed(seconds: float) -> str:
    """A duration as commands take it: in the units of :func:`in_words`, or in seconds if these are too coarse.

    >>> typed(756), typed(300), typed(14_820), typed(756.5), parse_duration(typed(367_200), "gap")
    ('12min36s', '5min', '4h07min', '756.5s', 367200.0)
    """
    text = in_words(seconds).replace(" ", "")
    return text if parse_duration(text, "duration") == seconds else f"{seconds:.15g}s"


def rounded_up(seconds: float) -> float:
    """The next duration that is written without rounding: a gap is the same in a sentence and in a command.

    >>> rounded_up(755.2), rounded_up(14_761)
    (756.0, 14820.0)
    """
    step = duration_step(seconds)
    return float(math.ceil(seconds / step) * step)


def in_words(seconds: float) -> str:
    """A duration in words.

    >>> in_words(4810), in_words(756), in_words(19.5), in_words(0), in_words(float("inf"))
    ('1 h 20 min', '12 min 36 s', '19.5 s', '0 s', 'without bound')
    """
    if not np.isfinite(seconds):
        return "without bound"
    return f"{seconds:.3g} s" if seconds < 100 else duration_words(seconds, round)


def percent(share: float) -> str:
    """A share as a percentage with about two digits.

    >>> percent(1.0), percent(0.352), percent(0.0421), percent(0.000123), percent(0.0)
    ('100%', '35%', '4.2%', '0.012%', '0%')
    """
    value = 100 * share
    if value >= 9.95 or value == 0:
        return f"{value:.0f}%"
    return f"{value:.{max(1 - int(np.floor(np.log10(value))), 1)}f}%"
