"""What operators change over HTTP: tokens, and posts that must go at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from fastapi import Request, Security
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field

from peerveil.web.common.errors import Forbidden, NotFound
from peerveil.web.common.tokens import EVERYWHERE, hash_token
from peerveil.web.gateway.changes import take_down

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fastapi import FastAPI

    from peerveil.web.common import Identity
    from peerveil.web.gateway.core import Gateway

_MOST_TOKENS: Final = 1000  # issued by one request
_TOKEN: Final = [Security(HTTPBearer(scheme_name="token", auto_error=False))]
_STRICT: Final = ConfigDict(extra="forbid", strict=True)


class NewTokens(BaseModel):
    """Tokens to issue together. Operators' tokens are issued at the command line: two operators must be two people."""

    model_config = _STRICT

    space: Annotated[str, Field(max_length=40, description="One space; * for a platform that posts in all.")]
    role: Literal["author", "reader", "platform"]
    actors: Annotated[
        list[str],
        Field(
            min_length=1,
            max_length=_MOST_TOKENS,
            description="One token for each: for authors the account on your platform, for others an empty text.",
        ),
    ]


class IssuedToken(BaseModel):
    """A new token. It is shown once."""

    id: str
    actor: str
    token: str


class Issued(BaseModel):
    """The new tokens, in the order of the actors."""

    tokens: list[IssuedToken]


class ListedToken(BaseModel):
    """A token, without its secret."""

    id: str
    role: str
    space: str
    actor: str
    state: Annotated[str, Field(description="good or withdrawn")]


class Listed(BaseModel):
    """The tokens that an operator may see, in the order of their random ids."""

    tokens: list[ListedToken]


class TakeDown(BaseModel):
    """A published post that must go at once."""

    model_config = _STRICT

    id: Annotated[str, Field(pattern="^[0-9a-f]{32}$", description="Its public id.")]
    reason: Annotated[str, Field(min_length=10, max_length=500, description="Why; kept on record, sealed.")]


class Done(BaseModel):
    """What became of it."""

    state: str


def management_routes(app: FastAPI, gateway: Gateway, identify: Callable[[Request], Awaitable[Identity]]) -> None:
    """Add the requests to an application."""
    shared: Any = {"dependencies": _TOKEN}

    async def operator(request: Request, space: str | None = None) -> Identity:
        identity = await identify(request)
        identity.require(("operator",), space)
        return identity

    @app.post("/v1/tokens", status_code=201, response_model=Issued, summary="Issue tokens", **shared)
    async def issue(request: Request, wanted: NewTokens) -> dict[str, Any]:
        identity = await operator(request)
        if identity.scope not in (EVERYWHERE, wanted.space):
            raise Forbidden("space: your token is for another one")

        def work() -> list[str]:
            return gateway.issue_tokens(role=wanted.role, space=wanted.space, actors=wanted.actors)

        tokens = await asyncio.to_thread(work)
        rows = zip(tokens, wanted.actors, strict=True)
        return {"tokens": [{"id": hash_token(t)[:16], "actor": actor, "token": t} for t, actor in rows]}

    @app.get("/v1/tokens", response_model=Listed, summary="List tokens", **shared)
    async def list_tokens(request: Request) -> dict[str, Any]:
        identity = await operator(request)
        rows = await asyncio.to_thread(gateway.tokens.read_all, identity.scope)
        return {
            "tokens": [
                {"id": row.id, "role": row.role, "space": row.scope, "actor": row.actor, "state": row.state}
                for row in rows
            ]
        }

    @app.delete("/v1/tokens/{token_id}", response_model=Done, summary="Revoke a token", **shared)
    async def revoke(token_id: str, request: Request) -> dict[str, str]:
        identity = await operator(request)
        if not await asyncio.to_thread(gateway.revoke_token, token_id, identity.scope):
            raise NotFound("no token of yours has this id; see GET /v1/tokens")
        return {"state": "withdrawn"}

    @app.post(
        "/v1/spaces/{space}/removals", response_model=Done, summary="Take a published post down at once", **shared
    )
    async def remove(space: str, request: Request, wanted: TakeDown) -> dict[str, str]:
        identity = await operator(request, space)
        await asyncio.to_thread(take_down, gateway, identity, space, wanted.id, wanted.reason)
        return {"state": "removed"}
