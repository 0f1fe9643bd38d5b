"""Limits such as ``20/1h``: how many posts, and within which time."""

from functools import lru_cache
from typing import Any, Final

from peerveil.core.errors import BadInput
from peerveil.timing.durations import parse_duration
from peerveil.web.common.database import DAY, SECOND

_HIGHEST_LIMIT: Final = 1_000_000  # posts of one author


def read_limit(value: Any, where: str) -> str:
    """A limit as the configuration has it; nothing for none."""
    try:
        most, micros = parse_limit(value) if value else (1, SECOND)
        usable = 1 <= most <= _HIGHEST_LIMIT and SECOND <= micros <= 7 * DAY
    except (ValueError, TypeError, AttributeError):  # BadInput is a ValueError
        usable = False
    if not usable:
        want = f'a number up to {_HIGHEST_LIMIT:,} and a duration of a second to a week, such as "20/1h"'
        raise BadInput(where, got=value, want=want)
    return str(value)


@lru_cache(maxsize=1000)
def parse_limit(text: str) -> tuple[int, int]:
    """How many, and within how many microseconds.

    >>> parse_limit("20/1h")
    (20, 3600000000)
    """
    most, slash, duration = text.partition("/")
    if not slash or not most.isdecimal() or len(most) > len(str(_HIGHEST_LIMIT)):
        raise ValueError(text)
    return int(most), round(parse_duration(duration, "limit") * SECOND)
