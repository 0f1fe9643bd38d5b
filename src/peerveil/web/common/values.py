"""Values of configuration files, read with messages that name their place."""

from datetime import UTC, datetime
from typing import Any

from peerveil.core.errors import BadInput, Verbatim


def read_flag(value: Any, where: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise BadInput(where, got=value, want="true or false")
    return value


def read_time(value: Any, where: str) -> datetime:
    """A time with its zone, in UTC; TOML has times of its own, JSON has them as texts."""
    want = "a date and time with its zone, such as 2027-01-31T23:59:00Z"
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise BadInput(where, got=value, want=want) from None
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise BadInput(where, got=Verbatim(str(value)), want=want)
    return value.astimezone(UTC)
