"""Logs that cannot hold content, keys, tokens or people: one JSON object per line, fields from a list of allowed ones.

An allow-list, not a block-list: every field has a name and a shape that are known here. Whatever does not fit is
dropped, and its name is counted. Texts are short names of the service's own making (an event, a class of error, a
space of the configuration), never what somebody sent.
"""

import json
import logging
import re
import sys
import time
from traceback import walk_tb
from typing import Any, Final, TextIO

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_PLACE: Final = re.compile(r"[A-Za-z0-9_./<>-]{1,120}:\d{1,6}")

# fields whose value is a short name, and fields whose value is a number or a truth value
_NAMES: Final = frozenset({"event", "service", "space", "campaign", "hook", "error", "reason", "level", "state"})
_NUMBERS: Final = frozenset({"count", "seconds", "status", "port", "process", "attempt", "step_seconds"})


class Journal:
    """Writes lines for machines to read.

    >>> journal = Journal("gateway", sys.stdout, clock=lambda: 0.0)
    >>> journal.write(
    ...     "released", space="iclr", content="my secret", reason="pv_secret token!"
    ... )  # doctest: +NORMALIZE_WHITESPACE
    {"time": "1970-01-01T00:00:00Z", "level": "info", "service": "gateway", "event": "released",
     "space": "iclr", "dropped": 2}
    """

    def __init__(self, service: str, stream: TextIO | None = None, clock: Any = time.time) -> None:
        self._service = service
        self._stream = stream
        self._clock = clock

    def write(self, event: str, *, level: str = "info", **fields: Any) -> None:
        """One line."""
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock())),
            "level": level if level in {"info", "warning", "error"} else "error",
            "service": self._service,
            "event": event if _NAME.fullmatch(event) else "unnamed",
        }
        present = {name: value for name, value in fields.items() if value is not None}
        allowed = {name: value for name, value in present.items() if _allowed(name, value)}
        line |= {name: round(value, 6) if isinstance(value, float) else value for name, value in allowed.items()}
        if len(allowed) < len(present):
            line["dropped"] = len(present) - len(allowed)
        stream = sys.stderr if self._stream is None else self._stream
        stream.write(json.dumps(line) + "\n")
        stream.flush()

    def error(self, event: str, error: BaseException, **fields: Any) -> None:
        """An error's class and place; never its message, which may repeat what somebody sent."""
        self.write(event, level="error", error=type(error).__name__, place=_place(error), **fields)


def _allowed(name: str, value: Any) -> bool:
    if name in _NAMES:
        return isinstance(value, str) and _NAME.fullmatch(value) is not None and not value.startswith("pv_")
    if name == "place":
        return isinstance(value, str) and _PLACE.fullmatch(value) is not None
    return name in _NUMBERS and isinstance(value, int | float)


def _place(error: BaseException) -> str:
    """The file and line of our own code where an error came from."""
    calls = ((frame.f_code.co_filename.replace("\\", "/"), line) for frame, line in walk_tb(error.__traceback__))
    places = [f"{path.rsplit('/peerveil/', 1)[1]}:{line}" for path, line in calls if "/peerveil/" in path]
    return places[-1] if places else "unknown:0"


class LoggingBridge(logging.Handler):
    """Sends what libraries log through the journal: which library and how bad, never the message."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(logging.WARNING)
        self._journal = journal

    def emit(self, record: logging.LogRecord) -> None:
        """One line without the message."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            self._journal.error("library", error, reason=record.name)
        else:
            self._journal.write("library", level=record.levelname.lower(), reason=record.name)


def quiet_libraries(journal: Journal) -> None:
    """Send the web server's and the database's own logs through the journal."""
    bridge = LoggingBridge(journal)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "fastapi", "sqlalchemy", "psycopg", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = [bridge]
        logger.propagate = False
        logger.setLevel(logging.WARNING)
