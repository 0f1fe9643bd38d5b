"""The web service: descriptions, reports, budgets, results, and the pages.

What the service can see, and says so: that a token was used, when, from which address (the network sees that; it is
neither logged nor stored), and which questions it reported on. What it cannot see: an unrandomized answer. There is no
access log, and errors never repeat what was sent.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import FastAPI, Header, Path, Query, Request
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from peerveil.web.collect.operator import operator_page
from peerveil.web.collect.outcomes import published_results, stored_result
from peerveil.web.collect.reports import LONGEST
from peerveil.web.collect.store import ALL, Job, Store, report_key
from peerveil.web.common import GroupCommit, Journal
from peerveil.web.common.app import new_app, page_answer
from peerveil.web.common.errors import ServiceError, Unauthorized, Unavailable
from peerveil.web.common.records import read_key
from peerveil.web.common.tokens import hash_token

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from peerveil.web.collect.store import Known

Name = Annotated[str, Path(description="The campaign's id.", max_length=40, pattern="^[a-z0-9-]+$")]
Bearer = Annotated[str | None, Header(alias="Authorization", description="Bearer pv_...")]
Key = Annotated[str | None, Header(alias="Idempotency-Key", description="Random, new for every new report.")]

_TOKEN: Final = re.compile(r"Bearer (pv_[A-Za-z0-9_-]{43})")
_BODY_LIMIT: Final = 2 * LONGEST
_STATIC: Final = files("peerveil.web.collect") / "static"
_KINDS: Final = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; require-trusted-types-for 'script'; frame-ancestors {ancestors}"
)
_REPORT: Final = {
    "requestBody": {
        "required": True,
        "description": "A report in the wire format of the truth or the rankings room, already randomized.",
        "content": {
            "application/json": {
                "schema": {
                    "oneOf": [
                        {
                            "type": "object",
                            "required": ["format", "task", "label"],
                            "additionalProperties": False,
                            "properties": {
                                "format": {"const": "peerveil-truth/1"},
                                "task": {"type": "string"},
                                "label": {"type": "string"},
                            },
                        },
                        {
                            "type": "object",
                            "required": ["protocol", "question", "bits"],
                            "additionalProperties": False,
                            "properties": {
                                "protocol": {"type": "string"},
                                "question": {"type": "integer", "minimum": 0},
                                "bits": {"type": "string"},
                            },
                        },
                    ]
                }
            }
        },
    }
}
_ACCEPTED: Final = json.dumps({"accepted": True}).encode()


def build_app(
    store: Store, journal: Journal | None = None, *, after_close: Callable[[str], bool] | None = None, look: float = 2.0
) -> FastAPI:
    """The application on an open store.

    ``after_close`` is called with the id of each campaign that is over and whose inference has not begun, looked for every
    ``look`` seconds; it says whether it started one.
    """
    log = Journal("collect") if journal is None else journal
    writer: GroupCommit[Job, bool] = GroupCommit(store.database, store.take)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        writer.start()
        watching = asyncio.create_task(_watch(store, log, after_close, look)) if after_close is not None else None
        app.state.background = lambda: {"writer": writer.is_alive(), "watch": watching is None or not watching.done()}
        yield
        if watching is not None:
            watching.cancel()
        await run_in_threadpool(writer.stop)

    app = new_app(
        "peerveil collect",
        "Collects answers that were randomized on the person's device. It never sees an unrandomized one.",
        journal=log,
        body_limit=_BODY_LIMIT,
        lifespan=lifespan,
    )
    _person_routes(app, store, writer)
    _operator_routes(app, store)
    _page_routes(app, store)
    return app


def _person_routes(app: FastAPI, store: Store, writer: GroupCommit[Job, bool]) -> None:
    @app.get("/v1/campaigns/{campaign}", summary="What is asked, and under which terms")
    async def describe(campaign: Name) -> Response:
        known = await _known(store, campaign)
        state = await run_in_threadpool(store.state, known)
        text = f'{known.described[:-1]}, "state": {json.dumps(state)}}}'
        return Response(text, media_type="application/json")

    async def take(request: Request) -> Response:
        digest = digest_of(request.headers.get("authorization"))
        key = read_key(request.headers.get("idempotency-key"))
        known = await _known(store, request.path_params["campaign"])
        received = known.intake.read(await request.body())
        await writer.submit(Job(known, digest, report_key(digest, key), received))
        return Response(_ACCEPTED, 202, media_type="application/json")

    # the one busy route is matched first and reads its request itself; the other registration is its documentation
    app.router.routes.insert(0, Route("/v1/campaigns/{campaign}/reports", take, methods=["POST"]))

    @app.post(
        "/v1/campaigns/{campaign}/reports",
        status_code=202,
        summary="Hand in one report",
        openapi_extra=_REPORT,
        response_class=JSONResponse,
    )
    async def report(
        request: Request,
        campaign: Name,  # noqa: ARG001
        authorization: Bearer = None,  # noqa: ARG001
        idempotency_key: Key = None,  # noqa: ARG001
    ) -> Response:
        """Taken, durably, with the budget that it uses up. The same key and report again: the same answer, and no change."""
        return await take(request)

    @app.get("/v1/campaigns/{campaign}/budget", summary="What a token may still do")
    async def budget(campaign: Name, authorization: Bearer = None) -> dict[str, Any]:
        """Answers left, and the numbers of the questions that were answered with this token."""
        digest = digest_of(authorization)
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
        dead = sorted(name for name, alive in app.state.background().items() if not alive)
        if dead:
            raise Unavailable(f"not running any more in this process: {', '.join(dead)}; restart it")
        await run_in_threadpool(_touch, store)
        return {"ok": True}


def _operator_routes(app: FastAPI, store: Store) -> None:
    @app.get("/v1/campaigns/{campaign}/status", summary="Participation and estimates, for operators")
    async def status(campaign: Name, authorization: Bearer = None) -> dict[str, Any]:
        """Counts, and what was estimated from reports, which are private already."""
        known = await run_in_threadpool(_admit, store, campaign, authorization, basic=False)
        counts = await run_in_threadpool(store.participation, known)
        found = await run_in_threadpool(_estimates, store, known)
        return {**counts, "so_far": found["so far"], "final": found["final"]}

    @app.get("/operate/{campaign}", include_in_schema=False)
    async def operate(campaign: Name, authorization: Bearer = None) -> Response:
        """The operator's page. A browser asks for a password: it is the operator's token, the name does not matter."""
        try:
            known = await run_in_threadpool(_admit, store, campaign, authorization, basic=True)
        except Unauthorized:
            headers = {
                "WWW-Authenticate": 'Basic realm="peerveil: the password is the operator\'s token", charset="UTF-8"'
            }
            return Response("The operator's token is needed, as the password.", 401, headers=headers)
        return page_answer(await run_in_threadpool(operator_page, store, known))


def _page_routes(app: FastAPI, store: Store) -> None:
    def static(path: str, name: str, *, anywhere: bool = False) -> None:
        body = (_STATIC / name).read_bytes()
        headers = {"Cache-Control": "no-cache"}
        if anywhere:
            headers["Cross-Origin-Resource-Policy"] = "cross-origin"

        async def serve() -> Response:
            return Response(body, media_type=_KINDS[name.rsplit(".", 1)[1]], headers=headers)

        app.get(path, include_in_schema=False)(serve)

    static("/peerveil-client.js", "peerveil-client.js", anywhere=True)
    static("/embed.js", "embed.js", anywhere=True)
    static("/collect/page.js", "page.js")
    static("/collect/page.css", "page.css")
    page = (_STATIC / "page.html").read_bytes()

    @app.get("/c/{campaign}", include_in_schema=False)
    async def person(campaign: Name) -> Response:
        try:
            known = await _known(store, campaign)
            ancestors = " ".join(known.campaign.embed) or "'none'"
        except ServiceError:  # the page itself says that there is no such campaign
            ancestors = "'none'"
        headers = {"Content-Security-Policy": _POLICY.format(ancestors=ancestors)}
        return Response(page, media_type=_KINDS["html"], headers=headers)


def digest_of(header: str | None) -> str:
    """The hash of a bearer token; whether it is known is found out with its budget, under lock."""
    found = _TOKEN.fullmatch(header or "")
    if found is None:
        raise Unauthorized("send a token: Authorization: Bearer pv_...")
    return hash_token(found[1])


async def _known(store: Store, name: str) -> Known:
    found = store.remembered(name)
    return found if found is not None else await run_in_threadpool(store.known, name)


def _admit(store: Store, name: str, header: str | None, *, basic: bool) -> Known:
    identity = store.tokens.check(header, basic=basic)
    identity.require(["operator"], None if identity.scope == ALL else name)
    return store.known(name)


def _estimates(store: Store, known: Known) -> dict[str, Any]:
    found = {kind: stored_result(store, known, kind) for kind in ("so far", "final")}
    return {kind: None if one is None else one.content for kind, one in found.items()}


def _touch(store: Store) -> None:
    with store.database.reading() as connection:
        connection.exec_driver_sql("SELECT 1")


async def _watch(store: Store, log: Journal, after_close: Callable[[str], bool] | None, look: float) -> None:
    """Start inference for campaigns whose time is over."""
    assert after_close is not None
    while True:
        try:
            for name in await run_in_threadpool(store.due):
                if await run_in_threadpool(after_close, name):
                    log.write("inference", campaign=name)
        except Exception as error:  # tried again: one campaign that fails must not end the others' inference
            log.error("watching", error)
        await asyncio.sleep(look)
