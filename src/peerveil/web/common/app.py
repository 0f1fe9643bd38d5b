"""The web application that every service begins with: errors of one shape, limits, headers, an API page that works offline.

Every error is ``{"error": name, "message": sentence}``. Messages name the field and what would be right, and never
repeat what was sent. There is no access log.
"""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi_offline import FastAPIOffline
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from peerveil import __version__
from peerveil.core.errors import BadInput
from peerveil.web.common.errors import ServiceError, Unavailable, Unprocessable
from peerveil.web.common.journal import Journal

_BODY_LIMIT_BYTES: Final = 256 * 1024
_LENGTH_DIGITS: Final = 18  # a length with more digits is too long, and too long to be read as a number

_PAGE_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'"
_API_PAGE_POLICY: Final = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; font-src 'self' data:; worker-src 'self' blob:; frame-ancestors 'none'"
)
_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Error(BaseModel):
    """A refusal: a short name, and a sentence that says what would be right."""

    error: str
    message: str


def new_app(
    title: str, description: str, *, journal: Journal, body_limit: int = _BODY_LIMIT_BYTES, **options: Any
) -> FastAPI:
    """A FastAPI application with the services' errors, limits and headers; the API page is at ``/docs``."""
    codes = (400, 401, 403, 404, 405, 409, 410, 411, 413, 415, 422, 429, 503)  # any route may give these
    app = FastAPIOffline(
        title=title,
        description=description,
        version=__version__,
        redoc_url=None,
        responses={code: {"model": Error, "description": HTTPStatus(code).phrase} for code in codes},
        separate_input_output_schemas=False,
        **options,
    )
    for kind in (ServiceError, BadInput, ValidationError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _error_response)
    app.add_middleware(Gatekeeper, body_limit=body_limit, journal=journal)
    return app


def fast_route(app: FastAPI, path: str, handler: Callable[[Request], Awaitable[Response]]) -> None:
    """Answer POST requests at a path without FastAPI's handling of parameters, which costs more than the work itself.

    For the one busy route of a service. Declare the route as usual too: that is its documentation.
    """
    app.router.routes.insert(0, Route(path, handler, methods=["POST"]))


def request_body(schema: Mapping[str, Any], *parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON body and the headers of a request, for the API page of a route whose handler reads them itself."""
    content = {"application/json": {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}, "parameters": list(parameters)}


def check_alive(parts: Mapping[str, bool]) -> None:
    """Refuse if a background part of this process has ended."""
    dead = sorted(name for name, alive in parts.items() if not alive)
    if dead:
        raise Unavailable(f"not running any more in this process: {', '.join(dead)}; restart it")


async def _error_response(_: Request, error: Exception) -> JSONResponse:
    match error:
        case HTTPException():
            phrase = HTTPStatus(error.status_code).phrase
            content = {"error": phrase.lower().replace(" ", "_"), "message": phrase}
            return JSONResponse(content, error.status_code, headers=error.headers)
        case BadInput():
            error = Unprocessable(f"{error.argument}: need {error.want}")
        case RequestValidationError() | ValidationError():
            error = Unprocessable(_describe(error.errors()))
    assert isinstance(error, ServiceError)
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse({"error": error.name, "message": error.shown or str(error)}, error.status, headers=headers)


def _describe(problems: Any) -> str:
    """What is wrong with a body, field by field, without repeating any of it."""
    sentences = []
    for problem in list(problems)[:5]:
        where = ".".join(str(part) for part in problem["loc"] if part not in ("body", "query", "path", "header"))
        field = (where or "body") if where.isascii() and len(where) <= 60 else "a field"
        extra = problem["type"] == "extra_forbidden"
        sentences.append("unknown field" if extra else f"{field}: {problem['msg']}")
    return "; ".join(dict.fromkeys(sentences)) or "the request cannot be read"


class Gatekeeper:
    """Refuses bodies that are too long before they are read, and addresses that nothing behind it could use; puts the
    security headers on every answer.

    ``limits`` allows other lengths on single paths; ``policy`` is the content security policy, if it is not the pages';
    ``answer`` makes an answer of a status, a short name and a message, if it shall not be JSON.

    An error that nothing else caught ends here too, as a line in the journal and an answer without details.
    """

    def __init__(
        self,
        app: ASGIApp,
        body_limit: int,
        journal: Journal,
        *,
        policy: str | None = None,
        limits: Mapping[str, int] | None = None,
        answer: Callable[[int, str, str], ASGIApp] | None = None,
    ) -> None:
        self._app, self._journal = app, journal
        self._limit, self._limits = body_limit, limits or {}
        self._policy = policy
        self._answer = answer or (
            lambda status, name, message: JSONResponse({"error": name, "message": message}, status)
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stand between the server and the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limits.get(scope["path"], self._limit)
        api_page = scope["path"].startswith(("/docs", "/static-offline-docs"))
        policy = self._policy or (_API_PAGE_POLICY if api_page else _PAGE_POLICY)
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                names = {name.lower() for name, _ in message["headers"]}
                extra = [*_HEADERS, (b"content-security-policy", policy.encode())]
                extra += [(b"connection", b"close")] * (message["status"] == 413)  # the rest of the body is not read
                message["headers"] = [*message["headers"], *(pair for pair in extra if pair[0] not in names)]
            await send(message)

        received = 0

        async def receiving() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise _TooLong
            return message

        async def refuse(status: int, name: str, message: str) -> None:
            await self._answer(status, name, message)(scope, receive, sending)

        too_long = (413, "too_long", f"a body of at most {limit} bytes, please")
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
        if length.isdigit() and (len(length) > _LENGTH_DIGITS or int(length) > limit):
            await refuse(*too_long)
        elif "\0" in scope["path"]:  # PostgreSQL cannot even be asked for it
            await refuse(404, "not_found", "Not Found")
        elif not scope["query_string"].isascii():
            await refuse(400, "bad_request", "a query in ASCII, with everything else percent-encoded, please")
        else:
            try:
                await self._app(scope, receiving, sending)
            except _TooLong:
                if started:
                    raise
                await refuse(*too_long)
            except Exception as error:
                self._journal.error("failed", error)
                if started:
                    raise
                await refuse(500, "internal", "an error in the service; it is in the journal")


class _TooLong(Exception):
    """The body grew beyond the limit while it was read."""
