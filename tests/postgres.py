"""A PostgreSQL server of our own for tests and benchmarks: one temporary directory, a socket, no network, fsync on.

Tests keep its files in memory where there is room (what they kill are processes, not the machine); benchmarks on the disk.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

MISSING = "no PostgreSQL server was found; install one (Debian: apt install postgresql), it need not be running"

_OTHERS = b"FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


def binaries() -> Path | None:
    """The directory of ``initdb`` and ``pg_ctl``: on the PATH, or where Debian keeps them, the newest first."""
    found = shutil.which("initdb")
    if found is not None and shutil.which("pg_ctl"):
        return Path(found).parent
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda place: place.parent.name.zfill(4))
    return next((place for place in reversed(places) if (place / "initdb").exists()), None)


def _place(in_memory: bool) -> str:
    """Not pytest's own directories: they are closed to the user postgres; and a socket's path must be short."""
    memory = Path("/dev/shm")
    return str(memory) if in_memory and memory.is_dir() and shutil.disk_usage(memory).free > 2**31 else "/tmp"


class Server:
    """A server that can be stopped, killed and started again; its data stay until :meth:`remove`."""

    def __init__(self, programs: Path, *, in_memory: bool = False) -> None:
        self._programs = programs
        self.root = Path(tempfile.mkdtemp(prefix="pv-pg-", dir=_place(in_memory)))
        self._as: list[str] = []
        if os.geteuid() == 0:
            shutil.chown(self.root, "postgres", "postgres")
            self._as = ["runuser", "-u", "postgres", "--"]
        self.data = self.root / "data"
        self._run("initdb", "-D", self.data, "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
        self.start()
        self._databases = 0
        self._emptied: list[str] = []

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return f"postgresql://tester@/{database}?host={quote(str(self.root))}"

    def fresh(self) -> str:
        """The address of an empty database."""
        import psycopg

        if self._emptied:
            return self._emptied.pop()
        self._databases += 1
        name = f"test{self._databases}_{os.getpid()}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"'.encode())
        return self.url_of(name)

    def recycle(self, url: str) -> None:
        """Empty a database, so that :meth:`fresh` can give it out again: much faster than to make one."""
        import psycopg

        with contextlib.suppress(psycopg.Error), psycopg.connect(url, autocommit=True) as connection:
            connection.execute(b"SELECT pg_terminate_backend(pid) " + _OTHERS)
            connection.execute(b"DROP SCHEMA public CASCADE")
            connection.execute(b"CREATE SCHEMA public")
            self._emptied.append(url)

    def start(self) -> None:
        options = f"-c listen_addresses='' -c unix_socket_directories='{self.root}' -c fsync=on"
        # after a kill, the old processes need a moment to let go of the shared memory; on a busy machine a long one
        patience = time.monotonic() + 120
        while True:
            try:
                self._run("pg_ctl", "-D", self.data, "-w", "-l", self.root / "log", "-o", options, "start")
            except RuntimeError:
                if time.monotonic() > patience:
                    raise
                time.sleep(0.3)
            else:
                return

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-D", self.data, "-w", "-m", mode, "stop")

    def kill(self) -> None:
        """kill -9 of the server's main process; its children notice and leave."""
        os.kill(self.main_process(), signal.SIGKILL)

    def main_process(self) -> int:
        return int((self.data / "postmaster.pid").read_text().splitlines()[0])

    def backends(self, url: str) -> list[int]:
        """The server's processes that serve the database at an address."""
        import psycopg

        patience = time.monotonic() + 60
        while True:
            try:
                with psycopg.connect(url) as connection:
                    return [row[0] for row in connection.execute(b"SELECT pid " + _OTHERS)]
            except psycopg.OperationalError:  # after a kill the server recovers, on a busy machine for a while
                if time.monotonic() > patience:
                    raise
                time.sleep(0.1)

    def remove(self) -> None:
        with contextlib.suppress(RuntimeError):  # it may be down already
            self.stop("immediate")
        shutil.rmtree(self.root, ignore_errors=True)

    def _run(self, program: str, *arguments: object) -> None:
        command = [*self._as, str(self._programs / program), *(str(argument) for argument in arguments)]
        with (Path(tempfile.gettempdir()) / f"{self.root.name}.out").open("w+") as out:
            # a file, not a pipe: the server inherits it and would keep a pipe open
            done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, cwd="/", check=False, timeout=60)
            out.seek(0)
            said = out.read()
        Path(out.name).unlink()
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed: {said}")


def free_port() -> int:
    """A port that is free now."""
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
