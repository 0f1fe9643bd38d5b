"""The gateway's web interface, version 1."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Annotated, Any, Final, TypeVar

from fastapi import FastAPI, Query, Request, Response, Security
from fastapi.responses import HTMLResponse, PlainTextResponse
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field, field_validator

from peerveil.core.text import on_one_line
from peerveil.web.common import Identity, Journal
from peerveil.web.common.app import check_alive, fast_route, new_app, request_body
from peerveil.web.common.errors import BadRequest, Forbidden, Unauthorized, Unavailable, Unprocessable
from peerveil.web.common.records import read_key
from peerveil.web.common.tokens import ACTOR, is_actor
from peerveil.web.gateway.core import Gateway
from peerveil.web.gateway.feed import Item, atom, rss
from peerveil.web.gateway.health import Heartbeat
from peerveil.web.gateway.intake import AuthorRequest, Edit, Submit, Withdraw
from peerveil.web.gateway.management import management_routes
from peerveil.web.gateway.metrics import metrics
from peerveil.web.gateway.publish import GatewayWorker
from peerveil.web.gateway.space import NOT_PRIVATE
from peerveil.web.gateway.tally import operator_page
from peerveil.web.gateway.watch import Halted
from peerveil.web.gateway.weeks import Ask

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
_AUTHOR: Final = {
    "name": "Peerveil-Author",
    "in": "header",
    "required": False,
    "description": "With a token of role platform, and only then: the author's account on the platform (UTF-8).",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
}
_LATER_KEY: Final = _KEY | {
    "required": False,
    "description": "Needed once it is published: the change then appears later.",
}
_LONGEST: Final = 200_000  # characters of a post
_LONGEST_METADATA: Final = 2000  # characters as JSON
_MOST_ITEMS: Final = 500  # of the feed in one answer
_TOKEN: Final = [Security(HTTPBearer(scheme_name="token", auto_error=False))]


class Change(BaseModel):
    """Another text for a post. A change of a published one appears later, like a post."""

    model_config = ConfigDict(extra="forbid", strict=True)

    content: Annotated[str, Field(min_length=1, max_length=_LONGEST, description="The text, as readers will see it.")]

    metadata: Annotated[
        dict[str, Any] | None,
        Field(
            description=f"Anything that shall come out with the post, at most {_LONGEST_METADATA:,} characters as JSON. It is "
            "sealed as long as the post is held, and not interpreted. In an edit, null leaves what is there."
        ),
    ] = None

    @field_validator("metadata")
    @classmethod
    def _writable(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        try:
            length = (
                0 if value is None else len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode().decode())
            )
        except (ValueError, RecursionError):
            raise ValueError("JSON with finite numbers and valid text") from None
        if length > _LONGEST_METADATA:
            raise ValueError(f"at most {_LONGEST_METADATA:,} characters as JSON")
        return value

    @property
    def metadata_text(self) -> str | None:
        """The metadata as JSON."""
        return None if self.metadata is None else json.dumps(self.metadata, ensure_ascii=False, sort_keys=True)

    @field_validator("content")
    @classmethod
    def _storable(cls, value: str) -> str:
        if "\0" in value:
            raise ValueError("text without the character NUL")
        return value


class NewPost(Change):
    """A new post. Its author is known from the token."""

    thread: Annotated[str, Field(min_length=1, max_length=200, description="Where it belongs: a paper, a topic.")]
    reply_to: Annotated[
        str | None,
        Field(
            max_length=64,
            description="The public id of a post, or the receipt of a held post of yours; it then appears after that one.",
        ),
    ] = None
    batch: Annotated[
        bool,
        Field(
            description="More will follow within the sitting. Counts in spaces with declared sittings; changes nothing "
            "elsewhere."
        ),
    ] = False

    @field_validator("thread", "reply_to")
    @classmethod
    def _on_one_line(cls, value: str | None) -> str | None:
        if value is not None and not on_one_line(value):
            raise ValueError("one line without control characters")
        return value


class Taken(BaseModel):
    """A post was taken, durably. It appears at some time within the longest delay."""

    receipt: Annotated[str, Field(description="For you alone: to edit, withdraw or ask. It is not the public id.")]
    longest_delay: Annotated[int, Field(description="Seconds. The same for all posts on a thread, whatever was drawn.")]
    notice: Annotated[str, Field(description="Only in a demonstration: that nobody is protected.")] = ""


class Advice(BaseModel):
    """What would become of a post now. It depends on nothing but the asker's own posts."""

    follow_up: Annotated[
        bool,
        Field(
            description="Warn the author: together with a post of some minutes ago, it hints at one person behind both."
        ),
    ]
    seconds: Annotated[int, Field(description="After which it is no follow-up any more; 0 if it is none.")]
    longest_delay: Annotated[int, Field(description="Seconds, if it is posted now.")]
    posts_this_week: Annotated[int, Field(description="Since Monday, 0:00 UTC, where the space counts them.")]
    posts_left: Annotated[int | None, Field(description="In the week's budget; null if there is none.")]


class State(BaseModel):
    """Where a post of yours is: held, posted or withdrawn. (Who changes a published post gets a receipt instead.)"""

    state: str


class Feed(BaseModel):
    """A part of the feed, and the cursor behind it."""

    items: list[Item]
    next: str
    notice: Annotated[str, Field(description="Only in a demonstration: that nobody is protected.")] = ""


class Health(BaseModel):
    """Whether the gateway takes and publishes posts."""

    status: str


_Body = TypeVar("_Body", bound=Change)


def create_app(gateway: Gateway, journal: Journal, *, worker: bool = True) -> FastAPI:
    """The application for a gateway. With ``worker`` it also publishes posts, in a thread."""
    publishing = GatewayWorker(gateway, journal) if worker else None

    def parts() -> dict[str, bool]:
        return {"intake": gateway.group.is_alive(), **({} if publishing is None else publishing.alive())}

    heartbeat = Heartbeat(gateway, journal, parts)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        for space in gateway.spaces.values():
            if space.demo:
                journal.write("demonstration_not_private", level="warning", space=space.name)
        started = [part for part in (gateway.group, publishing, heartbeat) if part is not None]
        for part in started:
            part.start()
        yield
        for part in reversed(started):
            await asyncio.to_thread(part.stop)

    app = new_app(
        "peerveil gateway", _DESCRIPTION, journal=journal, body_limit=6 * _LONGEST + 10_000, lifespan=lifespan
    )
    _author_routes(app, gateway)
    _reader_routes(app, gateway)
    _operator_routes(app, gateway, heartbeat)
    management_routes(app, gateway, partial(_identity, gateway))
    return app


async def _identity(gateway: Gateway, request: Request, *, basic: bool = False) -> Identity:
    header = request.headers.get("authorization")
    identity = gateway.tokens.remembered(header)
    return identity if identity is not None else await asyncio.to_thread(gateway.tokens.check, header, basic=basic)


def _author_routes(app: FastAPI, gateway: Gateway) -> None:
    async def author(request: Request, space: str | None = None) -> Identity:
        identity = await _identity(gateway, request)
        identity.require(("author", "platform"), space)
        named = request.headers.getlist("peerveil-author")
        if identity.role == "platform":
            return replace(identity, actor=_read_author(named))
        if named:
            raise Forbidden("Peerveil-Author: only with a token of role platform; leave it out")
        return identity

    async def hand_in(request: AuthorRequest) -> Response:
        try:
            answer = await gateway.group.submit(request)
        except Halted as halted:
            await asyncio.to_thread(gateway.watch.record, gateway.database, halted)
            raise
        status = 202 if b'"receipt"' in answer else 200  # an event that appears later
        return Response(answer, status, media_type="application/json")

    async def submit(request: Request) -> Response:
        name = request.path_params["space"]
        identity = await author(request, name)
        space = gateway.space(name)
        key = read_key(request.headers.get("idempotency-key"))
        post = await _read_body(request, NewPost, space.longest)
        fields, metadata = (post.thread, post.content, post.reply_to, post.batch), post.metadata_text
        hashed = [name, *fields, *([] if metadata is None else [metadata])]
        body_hash = sha256(json.dumps(hashed).encode()).hexdigest()
        answer = await hand_in(Submit(space, identity.actor, key, body_hash, *fields, metadata))
        if space.demo:
            marked = json.loads(bytes(answer.body)) | {"notice": NOT_PRIVATE}
            return Response(json.dumps(marked), 202, media_type="application/json")
        return answer

    path = "/v1/spaces/{space}/posts"
    fast_route(app, path, submit)

    @app.post(
        path,
        status_code=202,
        response_model=Taken,
        openapi_extra=request_body(NewPost.model_json_schema(), _KEY, _AUTHOR),
        dependencies=_TOKEN,
        summary="Submit a post",
    )
    async def submit_documented(space: str, request: Request) -> Response:  # noqa: ARG001
        return await submit(request)

    @app.get(
        "/v1/spaces/{space}/advice",
        response_model=Advice,
        openapi_extra={"parameters": [_AUTHOR]},
        dependencies=_TOKEN,
        summary="Ask before posting: would it be a follow-up?",
    )
    async def advise(space: str, request: Request, thread: Annotated[str, Query(max_length=200)]) -> Response:
        identity = await author(request, space)
        return await hand_in(Ask(gateway.space(space), identity.actor, thread))

    receipt_path = "/v1/posts/{receipt}"
    shared: Any = {"response_model": State, "dependencies": _TOKEN}
    later: Any = {"responses": {202: {"model": Taken, "description": "It is published; the change appears later."}}}
    change_body = request_body(Change.model_json_schema(), _LATER_KEY, _AUTHOR)

    def later_key(request: Request) -> str:
        key = request.headers.get("idempotency-key")
        return "" if key is None else read_key(key)

    @app.patch(receipt_path, summary="Edit a post", openapi_extra=change_body, **later, **shared)
    async def edit(receipt: str, request: Request) -> Response:
        identity = await author(request)
        change = await _read_body(request, Change, _LONGEST)
        key = later_key(request)
        return await hand_in(Edit(identity.scope, identity.actor, receipt, change.content, change.metadata_text, key))

    named: Any = {"openapi_extra": {"parameters": [_LATER_KEY, _AUTHOR]}}

    @app.delete(receipt_path, summary="Withdraw a held post, or remove a published one", **named, **later, **shared)
    async def withdraw(receipt: str, request: Request) -> Response:
        identity = await author(request)
        return await hand_in(Withdraw(identity.scope, identity.actor, receipt, later_key(request)))

    @app.get(receipt_path, summary="Read the state of a post", openapi_extra={"parameters": [_AUTHOR]}, **shared)
    async def status(receipt: str, request: Request) -> dict[str, str]:
        identity = await author(request)
        return {"state": await asyncio.to_thread(gateway.status, identity, receipt)}


def _reader_routes(app: FastAPI, gateway: Gateway) -> None:
    async def check_reader(space: str, request: Request) -> None:
        if space in gateway.spaces and gateway.space(space).public:
            return
        identity = await _identity(gateway, request)
        identity.require(("author", "reader", "operator", "platform"), space)
        gateway.space(space)

    @app.get("/v1/spaces/{space}/feed", response_model=Feed, dependencies=_TOKEN, summary="Read the feed")
    async def read_feed(
        space: str,
        request: Request,
        after: Annotated[str | None, Query(max_length=64, description="The 'next' of the answer before.")] = None,
        limit: Annotated[int, Query(ge=1, le=_MOST_ITEMS)] = 100,
    ) -> Response:
        await check_reader(space, request)
        items, cursor = await asyncio.to_thread(gateway.read, space, after, limit)
        content: dict[str, Any] = {"items": [vars(item) for item in items], "next": cursor}
        content |= {"notice": NOT_PRIVATE} if gateway.space(space).demo else {}
        return Response(json.dumps(content, ensure_ascii=False).encode(), media_type="application/json")

    def syndicated(kind: str, write: Callable[..., str], summary: str) -> None:
        media_type = f"application/{kind}+xml"
        content: dict[int | str, dict[str, Any]] = {200: {"content": {media_type: {"schema": {"type": "string"}}}}}
        path = f"/v1/spaces/{{space}}/feed.{kind}"

        @app.get(path, response_class=Response, responses=content, dependencies=_TOKEN, summary=summary)
        async def syndicate(space: str, request: Request) -> Response:
            await check_reader(space, request)
            items = await asyncio.to_thread(gateway.latest, space)
            title = f"{space} ({NOT_PRIVATE})" if gateway.space(space).demo else space
            return Response(write(space, items, str(request.base_url), title), media_type=media_type)

    syndicated("atom", atom, "The newest posts as Atom")
    syndicated("rss", rss, "The newest posts as RSS")


def _operator_routes(app: FastAPI, gateway: Gateway, heartbeat: Heartbeat) -> None:
    @app.get("/healthz", response_model=Health, summary="Does this process run?")
    async def healthz() -> dict[str, str]:
        check_alive(heartbeat.alive())
        return {"status": "ok"}

    @app.get("/readyz", response_model=Health, summary="Will posts be published?")
    async def readyz() -> dict[str, str]:
        if problems := heartbeat.problems():
            raise Unavailable(f"not ready: {'; '.join(problems)}")
        return {"status": "ready"}

    async def operated_spaces(request: Request, *, basic: bool = False) -> list[str]:
        identity = await _identity(gateway, request, basic=basic)
        identity.require(("operator",))
        return sorted(name for name in gateway.spaces if identity.scope in ("*", name))

    @app.get("/metrics", response_class=PlainTextResponse, dependencies=_TOKEN, summary="Figures of what was published")
    async def read_metrics(request: Request) -> str:
        names = await operated_spaces(request)

        def read() -> str:
            tallies = gateway.tallies()
            with gateway.database.reading() as connection:
                return metrics(connection, tallies, names, gateway.watch.source(connection))

        return await asyncio.to_thread(read)

    @app.get("/operator", response_class=HTMLResponse, include_in_schema=False)
    async def operator(request: Request) -> Response:
        try:
            names = await operated_spaces(request, basic=True)
        except Unauthorized:
            headers = {"WWW-Authenticate": 'Basic realm="operator token as password"'}
            return PlainTextResponse("an operator's token, as password, please", 401, headers=headers)
        page = await asyncio.to_thread(operator_page, gateway, names)
        return HTMLResponse(page.html())


def _read_author(values: Sequence[str]) -> str:
    """Whom a platform posts for. The value goes nowhere but into the person's MAC: no message or log repeats it."""
    if len(values) != 1:
        raise BadRequest("Peerveil-Author: a platform's request needs this header once: the account it posts for")
    try:
        actor = values[0].encode("latin-1").decode()  # servers read headers as Latin-1
    except ValueError:
        actor = ""
    if not actor or not is_actor(actor):
        raise BadRequest(f"Peerveil-Author: {ACTOR}, in UTF-8")
    return actor


async def _read_body(request: Request, model: type[_Body], longest: int) -> _Body:
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise BadRequest("Content-Type: application/json, please")
    body = model.model_validate_json(await request.body())
    if len(body.content) > longest:
        raise Unprocessable(f"content: at most {longest} characters in this space")
    return body
