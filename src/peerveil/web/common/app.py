"""The web application that every service begins with: errors of one shape, limits, headers, an API page that works offline.

Every error is ``{"error": name, "message": sentence}``. Messages name the field and what would be right, and never
repeat what was sent. There is no access log.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException

from peerveil import __version__
from peerveil.core.errors import BadInput
from peerveil.web.common.errors import ServiceError, Unprocessable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from fastapi import FastAPI, Request
    from pydantic import ValidationError
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from peerveil.report import Page
    from peerveil.web.common.journal import Journal

    Answer = Callable[[Mapping[str, str], Mapping[str, str], bytes], Awaitable[tuple[int, bytes]]]

BODY_LIMIT: Final = 256 * 1024
"""Bytes that a request may have, unless a service says otherwise."""

_DIGITS: Final = 18  # a length with more digits is too long, and too long to be read as a number

_PAGE: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'"
_API_PAGE: Final = (
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
ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    code: {
        "description": HTTPStatus(code).phrase,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
    for code in (400, 401, 403, 404, 405, 409, 410, 411, 413, 415, 422, 503)
}
"""For the OpenAPI page: the answers that any route may give."""


def new_app(
    title: str,
    description: str,
    *,
    journal: Journal,
    body_limit: int = BODY_LIMIT,
    lanes: Sequence[Lane] = (),
    **more: Any,
) -> FastAPI:
    """A FastAPI application with the house's errors, limits and headers; the API page is at ``/docs``.

    Requests that fit one of the ``lanes`` are answered without the framework's machinery, which costs several times as
    much as the work itself. Their routes are still declared as usual, for the API page, with the same function behind.
    """
    app = FastAPIOffline(
        title=title,
        description=description,
        version=__version__,
        redoc_url=None,
        responses=ERRORS,
        separate_input_output_schemas=False,
        **more,
    )
    _describe_errors(app)

    async def refused(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, ServiceError)
        return error_answer(error)

    async def bad_input(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, BadInput)
        return error_answer(Unprocessable(f"{error.argument}: need {error.want}"))

    async def invalid(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return error_answer(Unprocessable(describe(error.errors())))

    async def http(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        phrase = HTTPStatus(error.status_code).phrase
        name = phrase.lower().replace(" ", "_")
        return JSONResponse({"error": name, "message": phrase}, error.status_code, headers=error.headers)

    app.add_exception_handler(ServiceError, refused)
    app.add_exception_handler(BadInput, bad_input)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_middleware(Gatekeeper, body_limit=body_limit, journal=journal, lanes=tuple(lanes))
    return app


def error_answer(error: ServiceError) -> JSONResponse:
    """A refusal as an answer."""
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse({"error": error.name, "message": str(error)}, error.status, headers=headers)


def describe(problems: Any) -> str:
    """What is wrong with a body, field by field, without repeating any of it."""
    said = []
    for problem in list(problems)[:5]:
        where = ".".join(str(part) for part in problem["loc"] if part not in ("body", "query", "path", "header"))
        known = where if where.isascii() and len(where) <= 60 else "a field"
        said.append(f"{known or 'body'}: {problem['msg']}" if problem["type"] != "extra_forbidden" else "unknown field")
    return "; ".join(dict.fromkeys(said)) or "the request cannot be read"


def refused_body(error: ValidationError) -> Unprocessable:
    """A body that does not fit its model."""
    return Unprocessable(describe(error.errors(include_url=False, include_context=False, include_input=False)))


def page_answer(page: Page) -> HTMLResponse:
    """A page of the house as an answer."""
    return HTMLResponse(page.html())


def _describe_errors(app: FastAPI) -> None:
    original = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = original()
            parts = schema.setdefault("components", {})
            parts.setdefault("schemas", {})["Error"] = {
                "type": "object",
                "required": ["error", "message"],
                "properties": {"error": {"type": "string"}, "message": {"type": "string"}},
            }
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


class Lane:
    """A short way for the one request that comes most often.

    Parameters
    ----------
    method, pattern
        What fits: a method, and a pattern of the whole path.
    answer
        Called with the parts of the path that the pattern names, the headers (names in small letters) and the body;
        returns the status and the JSON to send. Refusals are raised.
    """

    def __init__(self, method: str, pattern: str, answer: Answer) -> None:
        self._method = method
        self._pattern = re.compile(pattern)
        self._answer = answer

    def fits(self, scope: Scope) -> bool:
        """Whether a request goes this way."""
        return bool(scope["method"] == self._method and self._pattern.fullmatch(scope["path"]))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read, answer, send."""
        found = self._pattern.fullmatch(scope["path"])
        assert found is not None
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            status, content = await self._answer(found.groupdict(), headers, body)
        except ServiceError as error:
            await error_answer(error)(scope, receive, send)
            return
        length = str(len(content)).encode()
        head = [(b"content-type", b"application/json"), (b"content-length", length)]
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": content})


class Gatekeeper:
    """Refuses bodies that are too long, before they are read, and addresses that nothing behind it could use; puts the
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
        lanes: tuple[Lane, ...] = (),
        *,
        policy: str | None = None,
        limits: Mapping[str, int] | None = None,
        answer: Callable[[int, str, str], ASGIApp] | None = None,
    ) -> None:
        self._lanes = lanes
        self._journal = journal
        self._app = app
        self._limit = body_limit
        self._policy = policy
        self._limits = limits or {}
        self._answer = answer or (lambda status, name, said: JSONResponse({"error": name, "message": said}, status))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stand between the server and the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limits.get(scope["path"], self._limit)
        api_page = scope["path"].startswith(("/docs", "/static-offline-docs"))
        policy = self._policy or (_API_PAGE if api_page else _PAGE)
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                given = {name.lower() for name, _ in message["headers"]}
                extra = [*_HEADERS, (b"content-security-policy", policy.encode())]
                message["headers"] = [*message["headers"], *(pair for pair in extra if pair[0] not in given)]
            await send(message)

        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
        if length.isdigit() and (len(length) > _DIGITS or int(length) > limit):
            await self._too_long(limit, scope, receive, sending)
            return
        if "\0" in scope["path"]:  # PostgreSQL cannot even be asked for it
            await self._answer(404, "not_found", "Not Found")(scope, receive, sending)
            return
        if not scope["query_string"].isascii():
            said = "a query in ASCII, with everything else percent-encoded, please"
            await self._answer(400, "bad_request", said)(scope, receive, sending)
            return
        seen = 0

        async def receiving() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > limit:
                raise _TooLong
            return message

        try:
            lane = next((lane for lane in self._lanes if lane.fits(scope)), None)
            if lane is None:
                await self._app(scope, receiving, sending)
            else:
                await lane(scope, receiving, sending)
        except _TooLong:
            if started:
                raise
            await self._too_long(limit, scope, receive, sending)
        except Exception as error:
            self._journal.error("failed", error)
            if started:
                raise
            answer = self._answer(500, "internal", "an error in the service; it is in the journal")
            await answer(scope, receive, sending)

    async def _too_long(self, limit: int, scope: Scope, receive: Receive, send: Send) -> None:
        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)

        await self._answer(413, "too_long", f"a body of at most {limit} bytes, please")(scope, receive, closing)


class _TooLong(Exception):
    """The body grew beyond the limit while it was read."""
