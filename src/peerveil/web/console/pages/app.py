"""The console as a web application: its routes, its files, and the workers beside it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from importlib.resources import files as package_files
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from peerveil.core.errors import PeerveilError
from peerveil.report.page import CSS
from peerveil.web.common.app import Gatekeeper
from peerveil.web.common.serving import serve
from peerveil.web.console import jobs, people
from peerveil.web.console.annex import Annex
from peerveil.web.console.house import House, Settings
from peerveil.web.console.jobs import LANES
from peerveil.web.console.pages import data, home, ledger, persons, rooms, runs, services
from peerveil.web.console.pages.visit import POLICY, endpoint, problem_page, templates
from peerveil.web.console.work import environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

    from peerveil.web.common import Journal

_BODY: Final = 2_000_000
_BEFORE: Final = {"runs": "desk"}  # a lane whose work comes shortly before another's
_STATIC: Final = {"console.css": "text/css", "console.js": "text/javascript"}


class Console:
    """What all pages of a console share."""

    def __init__(self, settings: Settings, *, local: bool = True) -> None:
        self.settings = settings
        self.house = House(settings)
        self.annex = Annex(settings)
        self.templates = templates()
        self.local = local
        self._anybody = False

    def one_person(self) -> bool:
        """Whether this is one person's console, at which nobody signs in: served to this machine alone, nobody registered."""
        if not self.local or self.settings.sign_in:
            return False
        self._anybody = self._anybody or people.anybody(self.house)
        return not self._anybody

    def close(self) -> None:
        """Give everything back."""
        self.annex.close()
        self.house.close()


class Workers:
    """The processes beside the server, one a lane: started when there is work, and again when one dies.

    The desk is there from the beginning, since the first thing that anybody does is to bring a file. Runs are made ready
    for while a draft is checked.
    """

    def __init__(self, console: Console, journal: Journal) -> None:
        self._settings, self._house, self._journal = console.settings, console.house, journal
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Watch over all lanes from now on."""
        self._thread.start()

    def _watch(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            pause = 0.5
            try:
                for lane in sorted(set(LANES.values())):
                    self._attend(lane)
            except (PeerveilError, OSError) as error:  # the database is away, or no process can be made: try again
                self._journal.error("workers", error)
                pause = 5.0

    def _attend(self, lane: str) -> None:
        """Start a lane's process, if it is needed and not there."""
        worker = self._running.get(lane)
        if worker is not None and worker.poll() is None:
            return
        if lane != "desk" and not any(jobs.waiting(self._house, one) for one in {lane, _BEFORE.get(lane, lane)}):
            return
        if worker is not None:
            self._journal.write("worker", level="warning", reason=lane, status=worker.returncode)
        command = [sys.executable, "-m", "peerveil.web.console.work", lane]
        self._running[lane] = subprocess.Popen(  # noqa: S603
            command, env=environment(self._settings), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )

    def stop(self) -> None:
        """End all of them; a run that is under way goes on when the console is started again."""
        self._stop.set()
        self._thread.join(5)
        for worker in self._running.values():
            worker.send_signal(signal.SIGTERM)
        for worker in self._running.values():
            try:
                worker.wait(5)
            except subprocess.TimeoutExpired:
                worker.kill()


def create_app(console: Console, journal: Journal, *, workers: bool = True) -> Starlette:
    """The application; with ``workers`` it also starts the processes that look, simulate and run."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        beside = Workers(console, journal) if workers else None
        if beside is not None:
            beside.start()
        threading.Thread(target=_warm, daemon=True).start()
        yield
        if beside is not None:
            beside.stop()
        console.close()

    def page(path: str, handler: Any, role: str | None = "reader", method: str = "GET") -> Route:
        return Route(path, endpoint(console, handler, role), methods=[method])

    post = partial(page, method="POST")

    def healthz(_: Request) -> Response:
        with console.house.database.reading() as connection:
            connection.exec_driver_sql("SELECT 1")
        return JSONResponse({"status": "ok"})

    def static(request: Request) -> Response:
        name = request.path_params["name"]
        headers = {"Cache-Control": "no-cache"}
        if name == "house.css":
            return Response(CSS, media_type="text/css", headers=headers)
        if name not in _STATIC:
            raise HTTPException(404)
        content = (package_files("peerveil.web.console") / "static" / name).read_bytes()
        return Response(content, media_type=_STATIC[name], headers=headers)

    async def not_found(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        said = {404: "There is no such page.", 405: "This page takes no such request."}
        return problem_page(
            console, error.status_code, [said.get(error.status_code, error.detail)], request.headers.get("referer")
        )

    routes = [
        Route("/healthz", healthz),
        Route("/static/{name}", static),
        page("/", home.front),
        *data.routes(page, post),
        *rooms.routes(page, post),
        *runs.routes(page, post),
        *ledger.routes(page, post),
        *persons.routes(page, post),
        *services.routes(page, post),
    ]
    guard = Middleware(
        Gatekeeper,
        body_limit=_BODY,
        journal=journal,
        policy=POLICY,
        limits={"/data/upload": console.settings.upload_limit + 100_000},
        answer=lambda status, _, said: problem_page(console, status, [said[0].upper() + said[1:] + "."]),
    )
    return Starlette(
        routes=routes, lifespan=lifespan, middleware=[guard], exception_handlers={HTTPException: not_found}
    )


def _warm() -> None:
    """Load beforehand what the first visitor of a room would have to wait for."""
    import peerveil.web.console.explore
    import peerveil.web.console.pages.collect  # noqa: F401
    from peerveil.report import new_axes, svg
    from peerveil.study.actions import all_actions

    all_actions()
    for module in home.ROOMS:
        import_module(f"peerveil.{module}")
    svg(new_axes()[0], "nothing")


def is_local(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def run_console(settings: Settings, host: str, port: int, journal: Journal, *, say: Callable[[str], object]) -> None:
    """Serve a console until it is stopped; ``say`` tells whoever started it where it is."""
    console = Console(settings, local=is_local(host))

    def ready(bound: int) -> None:
        address = f"http{'s' if settings.https else ''}://{f'[{host}]' if ':' in host else host}:{bound}"
        say(f"The console is at {address} (Ctrl+C stops it). Everything is kept in {settings.folder}.")
        if console.one_person():
            say("It is for one person on this machine: nobody signs in, and nobody else can reach it.")
        elif not people.anybody(console.house):
            token = people.invite(console.house, people.Asker("", "", "operator"), "operator")
            say(
                f"Nobody is registered yet. The first operator joins here, once, within three days: {address}/join/{token}"
            )
        if not console.local and not settings.https:
            say("Passwords would travel in the clear: put a server with TLS in front, and start with --https.")

    serve(create_app(console, journal), host, port, journal, ready=ready)
