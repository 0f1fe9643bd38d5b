"""The gateway's web interface, version 1."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse
from pydantic import BaseModel, ValidationError
from sqlalchemy import select

from peerveil.web.common.app import Lane, new_app, page_answer, refused_body
from peerveil.web.common.errors import BadRequest, Unauthorized, Unavailable, Unprocessable
from peerveil.web.common.records import read_key
from peerveil.web.gateway.feed import MOST
from peerveil.web.gateway.intake import Edit, Submit, Withdraw
from peerveil.web.gateway.models import Change, Feed, Health, Post, State, Taken
from peerveil.web.gateway.pulse import Pulse
from peerveil.web.gateway.syndication import atom, rss
from peerveil.web.gateway.tables import clock
from peerveil.web.gateway.tally import metrics
from peerveil.web.gateway.watch import Halted
from peerveil.web.gateway.worker import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from peerveil.web.common import Identity, Journal
    from peerveil.web.gateway.core import Gateway

_DESCRIPTION: Final = (
    "Takes posts, answers at once, and makes each visible at a random later time, so that nobody can tell from the times "
    "which posts one person wrote in one sitting. Send `Authorization: Bearer pv_...` with every request."
)
_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": True,
    "description": "A new random key for every new post. The same key with the same body gives the same answer.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
}
_Model = TypeVar("_Model", bound=BaseModel)
_BEARER: Final[list[dict[str, list[str]]]] = [{"token": []}]


def _body(model: type[BaseModel], *parameters: dict[str, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": model.model_json_schema()}}
    extra: dict[str, Any] = {"requestBody": {"required": True, "content": content}, "security": _BEARER}
    return extra | ({"parameters": list(parameters)} if parameters else {})


def create_app(gateway: Gateway, journal: Journal, *, worker: bool = True) -> FastAPI:
    """The application for a gateway. With ``worker`` it also releases posts, in a thread."""
    beside = Worker(gateway, journal) if worker else None

    def parts() -> dict[str, bool]:
        return {"intake": gateway.group.is_alive(), **({} if beside is None else beside.alive())}

    pulse = Pulse(gateway, journal, parts)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        gateway.group.start()
        if beside is not None:
            beside.start()
        pulse.start()
        yield
        await asyncio.to_thread(pulse.stop)
        if beside is not None:
            await asyncio.to_thread(beside.stop)
        await asyncio.to_thread(gateway.group.stop)

    async def who(headers: Mapping[str, str], *, basic: bool = False) -> Identity:
        header = headers.get("authorization")
        found = gateway.tokens.remembered(header)
        return found if found is not None else await asyncio.to_thread(gateway.tokens.check, header, basic=basic)

    async def hand_in(job: Submit | Edit | Withdraw) -> bytes:
        try:
            return await gateway.group.submit(job)
        except Halted as halted:
            await asyncio.to_thread(gateway.watch.record, gateway.database, halted)
            raise

    async def take(parts: Mapping[str, str], headers: Mapping[str, str], raw: bytes) -> tuple[int, bytes]:
        space = parts["space"]
        identity = await who(headers)
        identity.require(("author",), space)
        found = gateway.space(space)
        key = read_key(headers.get("idempotency-key"))
        body = _read(headers, raw, Post)
        if len(body.content) > found.longest:
            raise Unprocessable(f"content: at most {found.longest} characters in this space")
        canonical = json.dumps([space, body.thread, body.content, body.reply_to, body.batch])
        job = Submit(
            space=found,
            actor=identity.actor,
            key=key,
            body_hash=sha256(canonical.encode()).hexdigest(),
            thread=body.thread,
            content=body.content,
            reply_to=body.reply_to,
            batch=body.batch,
        )
        return 202, await hand_in(job)

    app = new_app(
        "peerveil gateway",
        _DESCRIPTION,
        journal=journal,
        body_limit=6 * 200_000 + 10_000,
        lifespan=lifespan,
        lanes=[Lane("POST", r"/v1/spaces/(?P<space>[^/]+)/posts", take)],
    )
    _describe_tokens(app)

    @app.post(
        "/v1/spaces/{space}/posts",
        status_code=202,
        response_model=Taken,
        openapi_extra=_body(Post, _KEY),
        summary="Submit a post",
    )
    async def submit(space: str, request: Request) -> Response:
        status, content = await take({"space": space}, request.headers, await request.body())
        return Response(content, status, media_type="application/json")

    @app.patch("/v1/posts/{receipt}", response_model=State, openapi_extra=_body(Change), summary="Edit a held post")
    async def edit(receipt: str, request: Request) -> Response:
        identity = await who(request.headers)
        identity.require(("author",))
        body = _read(request.headers, await request.body(), Change)
        longest = gateway.space(identity.scope).longest
        if len(body.content) > longest:
            raise Unprocessable(f"content: at most {longest} characters in this space")
        job = Edit({identity.scope: identity.actor}, receipt, body.content)
        return Response(await hand_in(job), media_type="application/json")

    @app.delete(
        "/v1/posts/{receipt}",
        response_model=State,
        openapi_extra={"security": _BEARER},
        summary="Withdraw a held post",
    )
    async def withdraw(receipt: str, request: Request) -> Response:
        identity = await who(request.headers)
        identity.require(("author",))
        job = Withdraw({identity.scope: identity.actor}, receipt)
        return Response(await hand_in(job), media_type="application/json")

    @app.get("/v1/posts/{receipt}", response_model=State, openapi_extra={"security": _BEARER}, summary="Ask for a post")
    async def status(receipt: str, request: Request) -> dict[str, str]:
        identity = await who(request.headers)
        identity.require(("author",))
        return {"state": await asyncio.to_thread(gateway.status, identity, receipt)}

    async def may_read(space: str, request: Request) -> None:
        if space in gateway.spaces and gateway.space(space).public:
            return
        identity = await who(request.headers)
        identity.require(("author", "reader", "operator"), space)
        gateway.space(space)

    @app.get(
        "/v1/spaces/{space}/feed", response_model=Feed, openapi_extra={"security": _BEARER}, summary="Read the feed"
    )
    async def read_feed(
        space: str,
        request: Request,
        after: Annotated[str | None, Query(max_length=64, description="The 'next' of the answer before.")] = None,
        limit: Annotated[int, Query(ge=1, le=MOST)] = 100,
    ) -> Response:
        await may_read(space, request)
        items, cursor = await asyncio.to_thread(gateway.read, space, after, limit)
        said = {"items": [item.to_dict() for item in items], "next": cursor}
        return Response(json.dumps(said, ensure_ascii=False).encode(), media_type="application/json")

    def syndicated(path: str, kind: str, make: Callable[..., str], summary: str) -> None:
        content: dict[int | str, dict[str, Any]] = {200: {"content": {kind: {"schema": {"type": "string"}}}}}

        @app.get(path, response_class=Response, responses=content, openapi_extra={"security": _BEARER}, summary=summary)
        async def syndicate(space: str, request: Request) -> Response:
            await may_read(space, request)
            items = await asyncio.to_thread(gateway.latest, space)
            return Response(make(space, items, str(request.base_url)), media_type=kind)

    syndicated("/v1/spaces/{space}/feed.atom", "application/atom+xml", atom, "The newest posts as Atom")
    syndicated("/v1/spaces/{space}/feed.rss", "application/rss+xml", rss, "The newest posts as RSS")

    @app.get("/healthz", response_model=Health, summary="Is it up?")
    async def healthz() -> dict[str, str]:
        def look() -> str:
            with gateway.database.reading() as connection:
                return str(connection.execute(select(clock.c.state)).scalar_one())

        dead = pulse.dead()
        if dead:
            raise Unavailable(f"not running any more in this process: {', '.join(dead)}; restart it")
        state = await asyncio.to_thread(look)
        if state != "running":
            raise Unavailable("halted: the database's clock is in doubt")
        return {"status": "ok"}

    def visible(identity: Identity) -> list[str]:
        return sorted(name for name in gateway.spaces if identity.scope in ("*", name))

    @app.get(
        "/metrics",
        response_class=PlainTextResponse,
        openapi_extra={"security": _BEARER},
        summary="Release-side figures",
    )
    async def read_metrics(request: Request) -> str:
        identity = await who(request.headers)
        identity.require(("operator",))

        def look() -> str:
            with gateway.database.reading() as connection:
                return metrics(connection, visible(identity))

        return await asyncio.to_thread(look)

    @app.get("/operator", response_class=HTMLResponse, include_in_schema=False)
    async def operator(request: Request) -> Response:
        from peerveil.web.gateway.page import operator_page

        try:
            identity = await who(request.headers, basic=True)
        except Unauthorized:
            headers = {"WWW-Authenticate": 'Basic realm="operator token as password"'}
            return PlainTextResponse("an operator's token, as password, please", 401, headers=headers)
        identity.require(("operator",))
        return page_answer(await asyncio.to_thread(operator_page, gateway, visible(identity)))

    return app


def _read(headers: Mapping[str, str], raw: bytes, model: type[_Model]) -> _Model:
    kind = headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise BadRequest("Content-Type: application/json, please")
    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        raise refused_body(error) from None


def _describe_tokens(app: FastAPI) -> None:
    original = app.openapi

    def openapi() -> dict[str, Any]:
        document = original()
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        return document

    app.openapi = openapi  # type: ignore[method-assign]
