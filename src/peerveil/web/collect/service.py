"""The web service: descriptions, randomized answers, budgets, results, and the pages.

What the service can see, and says so: that a token was used, when, from which address (the network sees that; it is
neither logged nor stored), and which questions it answered. What it cannot see: an unrandomized answer. There is no
access log, and errors never repeat what was sent.
"""

import asyncio
import json
import os
import subprocess
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Annotated, Any, Final

from fastapi import FastAPI, Header, Path, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.concurrency import run_in_threadpool

from peerveil.web.collect.answers import LONGEST_BYTES
from peerveil.web.collect.results import operator_page, published_results, stored_result
from peerveil.web.collect.store import Known, Store, Submission, hash_key
from peerveil.web.common import GroupCommit, Journal
from peerveil.web.common.app import check_alive, fast_route, new_app, request_body
from peerveil.web.common.errors import ServiceError, Unauthorized
from peerveil.web.common.records import read_key
from peerveil.web.common.serving import this_command
from peerveil.web.common.tokens import hash_token, read_token

Name = Annotated[str, Path(description="The campaign's id.", max_length=40, pattern="^[a-z0-9-]+$")]
Bearer = Annotated[str | None, Header(alias="Authorization", description="Bearer pv_...")]
Key = Annotated[str | None, Header(alias="Idempotency-Key", description="Random, new for every new answer.")]

_DATABASE: Final = "PEERVEIL_COLLECT_DB"  # processes find its address here: not among arguments, it may hold a password
_STATIC: Final = files("peerveil.web.collect") / "static"
_MEDIA_TYPES: Final = {"js": "text/javascript", "css": "text/css", "html": "text/html"}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; require-trusted-types-for 'script'; frame-ancestors {ancestors}"
)


def _object_schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": [*properties], "additionalProperties": False, "properties": properties}


_TEXT: Final = {"type": "string"}
_ANSWER: Final = {
    "description": "A randomized answer, in the wire format of the truth or the rankings module.",
    "oneOf": [
        _object_schema(format={"const": "peerveil-truth/1"}, task=_TEXT, label=_TEXT),
        _object_schema(protocol=_TEXT, question={"type": "integer", "minimum": 0}, bits=_TEXT),
    ],
}


def build_app(
    store: Store, journal: Journal | None = None, *, after_close: Callable[[str], bool] | None = None, look: float = 2.0
) -> FastAPI:
    """The application on an open store.

    ``after_close`` is called with the id of each campaign that is over and whose inference has not begun, looked for every
    ``look`` seconds; it says whether it started one.
    """
    log = Journal("collect") if journal is None else journal
    writer: GroupCommit[Submission, bool] = GroupCommit(store.database, store.take)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        writer.start()
        watching = None if after_close is None else asyncio.create_task(_watch(store, log, after_close, look))
        app.state.background = lambda: {"writer": writer.is_alive(), "watch": watching is None or not watching.done()}
        yield
        if watching is not None:
            watching.cancel()
        await run_in_threadpool(writer.stop)

    app = new_app(
        "peerveil collect",
        "Collects answers that were randomized on the person's device. It never sees an unrandomized one.",
        journal=log,
        body_limit=2 * LONGEST_BYTES,
        lifespan=lifespan,
    )
    _person_routes(app, store, writer)
    _operator_routes(app, store)
    _page_routes(app, store)
    return app


def _person_routes(app: FastAPI, store: Store, writer: GroupCommit[Submission, bool]) -> None:
    @app.get("/v1/campaigns/{campaign}", summary="What is asked, and under which terms")
    async def describe(campaign: Name) -> Response:
        known = await _known(store, campaign)
        state = await run_in_threadpool(store.state, known)
        text = f'{known.described[:-1]}, "state": {json.dumps(state)}}}'
        return Response(text, media_type="application/json")

    async def take(request: Request) -> Response:
        digest = hash_token(read_token(request.headers.get("authorization")))
        key = read_key(request.headers.get("idempotency-key"))
        known = await _known(store, request.path_params["campaign"])
        answer = known.reader.read(await request.body())
        await writer.submit(Submission(known, digest, hash_key(digest, key), answer))
        return Response(b'{"accepted": true}', 202, media_type="application/json")

    path = "/v1/campaigns/{campaign}/reports"
    fast_route(app, path, take)

    shown: Any = {"openapi_extra": request_body(_ANSWER), "response_class": JSONResponse}

    @app.post(path, status_code=202, summary="Send one randomized answer", **shown)
    async def take_documented(
        request: Request,
        campaign: Name,  # noqa: ARG001
        authorization: Bearer = None,  # noqa: ARG001
        idempotency_key: Key = None,  # noqa: ARG001
    ) -> Response:
        """Taken, durably, with the budget that it uses up. The same key and answer again: the same reply, and no change."""
        return await take(request)

    @app.get("/v1/campaigns/{campaign}/budget", summary="What a token may still do")
    async def budget(campaign: Name, authorization: Bearer = None) -> dict[str, Any]:
        """Answers left, and the numbers of the questions that were answered with this token."""
        digest = hash_token(read_token(authorization))
        return await run_in_threadpool(store.budget, await _known(store, campaign), digest)

    @app.get("/v1/campaigns/{campaign}/results", summary="Results, once the campaign is closed and they are published")
    async def results(
        campaign: Name,
        after: Annotated[int, Query(ge=-1, le=2**31 - 1, description="The last task's number that you have.")] = -1,
        limit: Annotated[int, Query(ge=1, le=10_000, description="How many labels at most.")] = 1000,
    ) -> dict[str, Any]:
        return await run_in_threadpool(published_results, store, await _known(store, campaign), after, limit)

    @app.get("/healthz", summary="Whether the database answers and the background tasks run")
    async def health() -> dict[str, bool]:
        check_alive(app.state.background())
        await run_in_threadpool(store.database.check)
        return {"ok": True}


def _operator_routes(app: FastAPI, store: Store) -> None:
    def admit(name: str, header: str | None, *, basic: bool = False) -> Known:
        store.tokens.check(header, basic=basic).require(["operator"], name)
        return store.known(name)

    @app.get("/v1/campaigns/{campaign}/status", summary="Participation and estimates, for operators")
    async def status(campaign: Name, authorization: Bearer = None) -> dict[str, Any]:
        """Counts, and what was estimated from randomized answers, which are private already."""

        def read() -> dict[str, Any]:
            known = admit(campaign, authorization)
            stored = {"so_far": stored_result(store, known, "so far"), "final": stored_result(store, known, "final")}
            contents = {name: None if result is None else result.content for name, result in stored.items()}
            return {**store.participation(known), **contents}

        return await run_in_threadpool(read)

    @app.get("/operate/{campaign}", include_in_schema=False)
    async def operate(campaign: Name, authorization: Bearer = None) -> Response:
        """The operator's page. A browser asks for a password: it is the operator's token, the name does not matter."""
        try:
            known = await run_in_threadpool(admit, campaign, authorization, basic=True)
        except Unauthorized:
            realm = 'Basic realm="peerveil: the password is the operator\'s token", charset="UTF-8"'
            return Response(
                "The operator's token is needed, as the password.", 401, headers={"WWW-Authenticate": realm}
            )
        page = await run_in_threadpool(operator_page, store, known)
        return HTMLResponse(page.html())


def _page_routes(app: FastAPI, store: Store) -> None:
    def static(path: str, *, anywhere: bool = False) -> None:
        name = path.rpartition("/")[2]
        body, kind = (_STATIC / name).read_bytes(), _MEDIA_TYPES[name.rpartition(".")[2]]
        headers = {"Cache-Control": "no-cache"} | ({"Cross-Origin-Resource-Policy": "cross-origin"} if anywhere else {})

        async def serve() -> Response:
            return Response(body, media_type=kind, headers=headers)

        app.get(path, include_in_schema=False)(serve)

    static("/peerveil-client.js", anywhere=True)
    static("/embed.js", anywhere=True)
    static("/collect/page.js")
    static("/collect/page.css")
    page = (_STATIC / "page.html").read_bytes()

    @app.get("/c/{campaign}", include_in_schema=False)
    async def person(campaign: Name) -> Response:
        try:
            known = await _known(store, campaign)
            ancestors = " ".join(known.campaign.embed) or "'none'"
        except ServiceError:  # the page itself says that there is no such campaign
            ancestors = "'none'"
        headers = {"Content-Security-Policy": _POLICY.format(ancestors=ancestors)}
        return Response(page, media_type=_MEDIA_TYPES["html"], headers=headers)


async def _known(store: Store, name: str) -> Known:
    known = store.remembered(name)
    return known if known is not None else await run_in_threadpool(store.known, name)


async def _watch(store: Store, log: Journal, after_close: Callable[[str], bool], interval_seconds: float) -> None:
    """Start inference for campaigns whose time is over."""
    while True:
        try:
            for name in await run_in_threadpool(store.due):
                if await run_in_threadpool(after_close, name):
                    log.write("inference", campaign=name)
        except Exception as error:  # tried again: one campaign that fails must not end the others' inference
            log.error("watching", error)
        await asyncio.sleep(interval_seconds)


class Inferrer:
    """Starts ``peerveil collect infer`` for a campaign, on the database at ``url`` or else at the environment's address.

    Each inference is a process of its own, so that the service's memory stays small. Several servers may start one for the
    same campaign: the first to claim it works, the others end at once.
    """

    def __init__(self, url: str | None = None) -> None:
        self._url = url
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.RLock()

    def __call__(self, campaign: str, *, so_far: bool = False) -> bool:
        """Start it, unless it runs already; whether it was started."""
        with self._lock:
            if self.state(campaign) == "running":
                return False
            command = [*this_command(), "collect", "infer", "--campaign", campaign, *(["--so-far"] if so_far else [])]
            environment = os.environ if self._url is None else {**os.environ, _DATABASE: self._url}
            quiet = subprocess.DEVNULL
            self._processes[campaign] = subprocess.Popen(  # noqa: S603
                command, env=environment, stdin=quiet, stdout=quiet, stderr=quiet
            )
            return True

    def state(self, campaign: str) -> str:
        """What became of the last process that was started here: ``"none"``, ``"running"``, ``"done"`` or ``"failed"``."""
        with self._lock:
            process = self._processes.get(campaign)
            code = None if process is None else process.poll()
        return "none" if process is None else "running" if code is None else "failed" if code else "done"
