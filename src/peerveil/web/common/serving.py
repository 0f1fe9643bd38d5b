"""Running an application: one or more processes on one port, no access log, a graceful stop."""

import gc
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final

from peerveil.core.errors import BadInput
from peerveil.web.common.journal import Journal, quiet_libraries

_GRACE_SECONDS: Final = 10  # for requests under way when the service stops
Door = Callable[[socket.socket, str, Callable[[], None]], AbstractContextManager[None]]
"""Listens in the place of a process: given the socket, the path of the process's own, and what to call if the door dies."""


def listen(host: str, port: int) -> socket.socket:
    """A socket on a port that several processes may share."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "SO_REUSEPORT"):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        sock.bind((host, port))
    except (OSError, OverflowError) as error:
        sock.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput("--port", got=f"{host}:{port}", want=f"an address that is free ({reason})") from None
    sock.listen(2048)
    sock.setblocking(False)
    return sock


def serve(
    app: Any,
    host: str,
    port: int,
    journal: Journal,
    *,
    ready: Callable[[int], None] | None = None,
    door: Door | None = None,
) -> None:
    """Serve until a signal to stop comes; then finish what is under way, and return.

    ``ready`` is called with the port. A ``door`` listens in the place of this process, which then serves on a socket in a
    directory of its own.
    """
    import uvicorn

    with ExitStack() as stack:
        stack.callback(journal.write, "stopped")
        sock = stack.enter_context(listen(host, port))
        bound = sock.getsockname()[1]
        config = uvicorn.Config(
            app,
            ws="none",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            timeout_keep_alive=30,
            lifespan="on",
        )
        quiet_libraries(journal)
        on_signal(lambda: None)  # the server raises the signal again when it has stopped; it has done its work by then
        if door is not None:
            sock = stack.enter_context(_behind(door, sock, journal))
        journal.write("listening", port=bound)
        if ready is not None:
            ready(bound)
        uvicorn.Server(config).run(sockets=[sock])


@contextmanager
def _behind(door: Door, listener: socket.socket, journal: Journal) -> Iterator[socket.socket]:
    """A socket that only the owner of this process can reach, to which the door passes what comes."""

    def died() -> None:
        journal.write("door_died", level="error")
        os.kill(os.getpid(), signal.SIGTERM)

    with (
        tempfile.TemporaryDirectory(prefix="peerveil-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock,
    ):
        path = f"{folder}/gateway"
        sock.bind(path)
        sock.listen(2048)
        sock.setblocking(False)
        with door(listener, path, died):
            listener.close()
            yield sock


def run_processes(
    commands: Sequence[Sequence[str]], journal: Journal, environment: Mapping[str, str] | None = None
) -> int:
    """Run several processes; when one ends, or a signal comes, stop all of them gracefully.

    Secrets belong into the ``environment``, which only their owner can read, never into the commands.
    """
    inherited = {**os.environ, **(environment or {})}
    children = [subprocess.Popen(command, env=inherited) for command in commands]  # noqa: S603
    stopping = threading.Event()
    on_signal(stopping.set)
    while not stopping.wait(0.2) and all(child.poll() is None for child in children):
        pass
    codes = end_processes(children, _GRACE_SECONDS + 5)
    journal.write("all_stopped", count=len(children))
    return 0 if stopping.is_set() else max((abs(code) for code in codes), default=0) or 1


def end_processes(processes: Collection[subprocess.Popen[bytes]], seconds: float) -> list[int]:
    """Ask processes to stop, and kill those that take longer; their exit codes."""
    for process in processes:
        process.terminate()
    codes = []
    for process in processes:
        try:
            codes.append(process.wait(seconds))
        except subprocess.TimeoutExpired:
            process.kill()
            codes.append(process.wait())
    return codes


def on_signal(act: Callable[[], None]) -> None:
    """Call a function when this process is asked to stop."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: act())


def this_command() -> list[str]:
    """How to start peerveil again with other arguments."""
    return [sys.executable, "-c", "from peerveil.cli import main; main()"]


def collect_seldom() -> None:
    """Look for unreachable cycles seldom, and never in what is there now. Call it once, in a process that serves.

    Python looks after every 700 new objects. That is 40% of the processor time of a busy gateway, in pauses that grow with what
    it holds.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
