"""The gateway's configuration file: the service's own options, and one table for each space."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from peerveil.core.errors import BadInput
from peerveil.web.common import Vault, read_config
from peerveil.web.common.clock import SECOND
from peerveil.web.gateway.space import Space, read_seconds
from peerveil.web.gateway.watch import LONGEST_PAUSE, TOLERANCE, Watch

if TYPE_CHECKING:
    import os

PREFIX: Final = "PEERVEIL_GATEWAY"
DEFAULT: Final = Path("gateway.toml")
"""The configuration file, if none is named."""
_OPTIONS: Final = {
    "db": str,
    "host": str,
    "port": int,
    "processes": int,
    "key_file": str,
    "clock_tolerance": str,
    "longest_pause": str,
}

EXAMPLE: Final = """\
# A peerveil gateway. Everything can also be set in the environment: PEERVEIL_GATEWAY_PORT=8080 wins over port = ...
db = "gateway.db"            # or postgresql://user@host/database
host = "127.0.0.1"           # put a web server with TLS in front
port = 8711
key_file = "gateway.key"     # used where the environment has no PEERVEIL_KEY

[spaces.forum]
epsilon = 1                  # smaller is more private
gap = "45m"                  # how far apart two lone comments may be and still look like a sitting
window = "5m"                # comments of one person this close are one sitting
grid = "1m"                  # posts appear at whole minutes
# quiet = { start = "22:00", end = "07:00", zone = "Europe/Zurich" }
# deadline = 2027-01-31T23:59:00Z
# public = true              # the feed needs no token
# webhooks = [{ url = "https://forum.example.org/incoming", secret_env = "FORUM_SECRET" }]
# gaps learned from an earlier log, instead of gap: history = "lastyear.csv", percentile = 25, per = "thread"
"""


@dataclass(frozen=True)
class Settings:
    """What the configuration says."""

    db: str = "gateway.db"
    host: str = "127.0.0.1"
    port: int = 8711
    processes: int = 1
    key_file: str | None = None
    clock_tolerance: float = TOLERANCE / SECOND
    longest_pause: float = LONGEST_PAUSE / SECOND
    spaces: tuple[Space, ...] = ()

    @classmethod
    def read(cls, path: str | os.PathLike[str] | None, db: str | None = None) -> Settings:
        """The settings of a file and of the environment; an address given on the command line wins."""
        found = read_config(path, prefix=PREFIX, options=_OPTIONS, tables=("spaces",))
        folder = Path(path).parent if path is not None else Path()
        listed = found.pop("spaces", {})
        for name, table in listed.items():
            if not isinstance(table, dict):
                raise BadInput(f"{path}: spaces.{name}", got=table, want="a table [spaces.name]")
        made = tuple(Space.read(name, table, str(folder)) for name, table in listed.items())
        for name in ("clock_tolerance", "longest_pause"):
            if name in found:
                found[name] = read_seconds(found[name], name)
        if found.get("key_file"):
            found["key_file"] = str(folder / found["key_file"])
        if db is not None:
            found["db"] = db
        elif "db" in found and ":" not in found["db"]:
            found["db"] = str(folder / found["db"])  # a path in the file is meant from where the file is
        settings = cls(**found, spaces=made)
        if not 0 <= settings.port <= 65_535:
            raise BadInput("port", got=settings.port, want="a port from 0 to 65535")
        if not 1 <= settings.processes <= 64:
            raise BadInput("processes", got=settings.processes, want="1 to 64 processes")
        return settings

    @classmethod
    def find(cls, config: str | os.PathLike[str] | None = None, db: str | None = None) -> Settings:
        """The settings of a file, or else of ``gateway.toml`` where the command was started, if there is one."""
        return cls.read(config if config is not None else DEFAULT if DEFAULT.exists() else None, db)

    def vault(self) -> Vault:
        """The keys."""
        return Vault.find(self.key_file)

    def watch(self) -> Watch:
        """The watch on time."""
        return Watch(tolerance=round(self.clock_tolerance * SECOND), longest_pause=round(self.longest_pause * SECOND))
