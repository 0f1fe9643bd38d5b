"""The console as a web application: its routes and static files, and the workers that it starts."""

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.resources import files as package_files
from ipaddress import ip_address
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from peerveil.report import new_axes, svg
from peerveil.report.page import CSS
from peerveil.study.actions import all_actions
from peerveil.web.common import Journal
from peerveil.web.common.app import Gatekeeper
from peerveil.web.common.serving import serve
from peerveil.web.console import users
from peerveil.web.console.app import ConsoleApp, ConsoleSettings
from peerveil.web.console.explore import MODULES
from peerveil.web.console.pages import PAGES
from peerveil.web.console.pages.request import POLICY, endpoint, problem_page
from peerveil.web.console.worker import WorkerProcesses

_BODY_LIMIT: Final = 2_000_000  # bytes
_STATIC: Final = {"console.css": "text/css", "console.js": "text/javascript"}
_MESSAGES: Final = {404: "There is no such page.", 405: "This page does not accept this kind of request."}


def create_app(app: ConsoleApp, journal: Journal, *, workers: bool = True) -> Starlette:
    """The web application; with ``workers`` it also starts the processes that do background jobs."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        processes = WorkerProcesses(app, journal)
        if workers:
            processes.start()
        threading.Thread(target=_preload, daemon=True).start()
        yield
        if workers:
            processes.stop()
        app.close()

    def healthz(_: Request) -> Response:
        app.database.check()
        return JSONResponse({"status": "ok"})

    async def http_error(http: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        message = _MESSAGES.get(error.status_code, error.detail)
        return problem_page(error.status_code, [message], http.headers.get("referer"))

    guard = Middleware(
        Gatekeeper,
        body_limit=_BODY_LIMIT,
        journal=journal,
        policy=POLICY,
        limits={"/data/upload": app.settings.upload_limit + 100_000},
        answer=lambda status, _, message: problem_page(status, [message[0].upper() + message[1:] + "."]),
    )
    pages = [Route(page.path, endpoint(app, page.handler, page.role), methods=[page.method]) for page in PAGES]
    return Starlette(
        routes=[Route("/healthz", healthz), Route("/static/{name}", _static), *pages],
        lifespan=lifespan,
        middleware=[guard],
        exception_handlers={HTTPException: http_error},
    )


def _static(http: Request) -> Response:
    name = http.path_params["name"]
    headers = {"Cache-Control": "no-cache"}
    if name == "report.css":
        return Response(CSS, media_type="text/css", headers=headers)
    if name not in _STATIC:
        raise HTTPException(404)
    content = (package_files("peerveil.web.console") / "static" / name).read_bytes()
    return Response(content, media_type=_STATIC[name], headers=headers)


def _preload() -> None:
    """Import what the first request of a module's page would have to wait for."""
    all_actions()
    for name in MODULES:
        import_module(f"peerveil.web.console.explore.{name}")
    import_module("peerveil.web.console.pages.campaigns")
    svg(new_axes()[0], "nothing")


def is_local(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def run_console(
    settings: ConsoleSettings, host: str, port: int, journal: Journal, *, say: Callable[[str], object]
) -> None:
    """Serve a console until it is stopped; ``say`` prints where it is."""
    app = ConsoleApp(settings, local=is_local(host))

    def ready(bound: int) -> None:
        address = f"http{'s' if settings.https else ''}://{f'[{host}]' if ':' in host else host}:{bound}"
        say(f"The console is at {address} (Ctrl+C stops it). Its files are in {settings.folder}.")
        if app.single_user():
            say("It is for one user on this machine: no sign-in is needed, and nobody else can reach it.")
        elif not app.has_users():
            token = users.invite(app, users.User("", "", "operator"), "operator")
            say(
                f"Nobody is registered yet. The first operator registers here, within three days: {address}/join/{token}"
            )
        if not app.local and not settings.https:
            say("Passwords would be sent unencrypted: put a TLS proxy in front, and start with --https.")

    serve(create_app(app, journal), host, port, journal, ready=ready)
