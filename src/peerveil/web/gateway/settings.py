"""The gateway's configuration: its own options, and one table for each space.

Options come from a TOML file; ``PEERVEIL_GATEWAY_NAME`` in the environment wins over ``name`` in the file. Unknown names
are refused, and secrets come from the environment only.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from peerveil.core.errors import BadInput
from peerveil.core.exact import whole
from peerveil.core.files import read_toml, table
from peerveil.study.spelling import only
from peerveil.web.common import Vault
from peerveil.web.common.database import SECOND
from peerveil.web.gateway.space import Space, read_seconds
from peerveil.web.gateway.watch import LONGEST_PAUSE, TOLERANCE, Watch, machine_time, synchronized_time

if TYPE_CHECKING:
    from peerveil.web.gateway.core import Gateway

PREFIX: Final = "PEERVEIL_GATEWAY"
DEFAULT: Final = Path("gateway.toml")
"""The configuration file, if none is named."""
_OPTIONS: Final = {"port": int, "processes": int, "frame_kib": int, "clock_synchronized": bool} | dict.fromkeys(
    ("db", "host", "relay_host", "key_file", "clock_tolerance", "longest_pause", "tick"), str
)
_DURATIONS: Final = ("clock_tolerance", "longest_pause", "tick")
_TICKS_MS: Final = (20, 60_000)
_FRAMES_KIB: Final = (1, 16_384)

_FLAGS: Final = {"true": True, "false": False}

_HEAD: Final = """\
# A peerveil gateway. Everything can also be set in the environment: PEERVEIL_GATEWAY_PORT=8080 wins over port = ...
"""
_REST: Final = """\
host = "127.0.0.1"           # put a web server with TLS in front
port = 8711
# relay_host = "10.0.0.5"    # with several machines: this one's address among them
key_file = "gateway.key"     # used if the environment has no PEERVEIL_KEY
# tick = "250ms"             # one sealed frame is written per tick, whatever came: authors wait for up to two ticks
# frame_kib = 16             # 64 KiB per second: some 70 posts of 500 characters; more wait. Restart after a change

[spaces.forum]
epsilon = 1                  # smaller is more private
gap = "45m"                  # how far apart two lone comments may be and still look like a sitting
window = "5m"                # comments of one person this close are one sitting
grid = "1m"                  # posts appear at whole minutes
# quiet = { start = "22:00", end = "07:00", zone = "Europe/Zurich" }
# deadline = 2027-01-31T23:59:00Z
# escalate = { every = 2, epsilon_factor = "1/2", levels = 3 }  # later posts of a person and week: half, a quarter of epsilon
# weekly_budget = "4"         # of epsilon, for the posts of one person since Monday; more is refused with 429
# limit = "20/1h"             # of one author; more is refused with 429
# public = true              # the feed needs no token
# webhooks = [{ url = "https://forum.example.org/incoming", secret_env = "FORUM_SECRET" }]  # allow = ["10.0.0.0/8"]
# gaps learned from an earlier log, instead of gap: history = "lastyear.csv", percentile = 25, per = "thread"
"""


def example(db: str = "gateway.db") -> str:
    """A configuration to begin with; a path in it is meant from where the file is."""
    return f"{_HEAD}db = {json.dumps(db)}  # a file, or postgresql://user@host/database\n{_REST}"


@dataclass(frozen=True)
class GatewaySettings:
    """The settings of a gateway. ``clock_tolerance`` and ``longest_pause`` are in seconds."""

    db: str = "gateway.db"
    host: str = "127.0.0.1"
    port: int = 8711
    relay_host: str = "127.0.0.1"
    """Where the process that leads listens to the others: with several machines, this one's own address."""
    processes: int = 1
    key_file: str | None = None
    clock_synchronized: bool = False
    """Whether the machine's clock is right after each start, although its kernel does not say so."""
    clock_tolerance: float = TOLERANCE / SECOND
    longest_pause: float = LONGEST_PAUSE / SECOND
    tick: float | None = None
    """Seconds from one frame of the journal to the next; by default what the database has, at first .25."""
    frame_kib: int | None = None
    """How much a frame holds; by default what the database has, at first 16 KiB."""
    spaces: tuple[Space, ...] = ()

    @classmethod
    def read(cls, path: str | os.PathLike[str] | None, db: str | None = None, *, demo: bool = False) -> Self:
        """The settings of a file and of the environment; an address given on the command line wins.

        For a demonstration, the spaces are public and their minutes become seconds.
        """
        content = {} if path is None else read_toml(path, "--config")[1]
        only(content, (*_OPTIONS, "spaces"), str(path))
        folder = Path() if path is None else Path(path).parent
        spaces = table(content, "spaces")
        options = _read_options(content, str(path))
        for name in set(_DURATIONS) & set(options):
            options[name] = read_seconds(options[name], name)
        if options.get("key_file"):
            options["key_file"] = str(folder / options["key_file"])
        if db is not None:
            options["db"] = db
        elif "db" in options and ":" not in options["db"]:
            options["db"] = str(folder / options["db"])  # a path in the file is meant from where the file is
        read = tuple(Space.read(name, table(spaces, name), str(folder), demo=demo) for name in spaces)
        return cls(**options, spaces=read)

    def __post_init__(self) -> None:
        whole(self.port, "port", 0, 65_535)
        whole(self.processes, "processes", 1, 64)
        if self.tick is not None:
            whole(round(self.tick * 1000), "tick (milliseconds)", *_TICKS_MS)
        if self.frame_kib is not None:
            whole(self.frame_kib, "frame_kib", *_FRAMES_KIB)

    @classmethod
    def find(cls, config: str | os.PathLike[str] | None = None, db: str | None = None) -> Self:
        """The settings of a file, or else of ``gateway.toml`` where the command was started, if there is one."""
        return cls.read(config if config is not None else DEFAULT if DEFAULT.exists() else None, db)

    def configure(self, gateway: Gateway) -> None:
        """Write spaces and journal as they are set."""
        tick_ms = None if self.tick is None else round(self.tick * 1000)
        frame_bytes = None if self.frame_kib is None else self.frame_kib * 1024
        gateway.configure(self.spaces, tick_ms=tick_ms, frame_bytes=frame_bytes)

    def vault(self) -> Vault:
        """The keys."""
        return Vault.find(self.key_file)

    def watch(self) -> Watch:
        """The watch on time."""
        reference = machine_time if self.clock_synchronized else synchronized_time
        tolerance, pause = round(self.clock_tolerance * SECOND), round(self.longest_pause * SECOND)
        return Watch(tolerance=tolerance, longest_pause=pause, reference=reference)


def _read_options(content: dict[str, Any], path: str) -> dict[str, Any]:
    variables = {name: f"{PREFIX}_{name.upper()}" for name in _OPTIONS}
    environment = {name: os.environ[variable] for name, variable in variables.items() if variable in os.environ}
    options = {name: content[name] for name in _OPTIONS if name in content}
    for name, text in environment.items():
        options[name] = int(text) if _OPTIONS[name] is int and text.isdecimal() else _FLAGS.get(text, text)
    for name, value in options.items():
        if type(value) is not _OPTIONS[name]:
            place = variables[name] if name in environment else f"{path}: {name}"
            raise BadInput(place, got=value, want=f"a value of type {_OPTIONS[name].__name__}")
    return options
