"""One request: who asks, what was sent, and what is answered. All that guards pages is here.

- **Who**: the cookie of a session, or, on a console that nobody registered at, the one person of the machine. That person
  is only believed at the machine's own address, so that no other site's name can be pointed at it.
- **Forms**: every form carries a token that is derived from the session; what comes from another site is refused
  before anything is read from it.
- **Answers**: pages are templates in which everything is escaped; scripts and styles come from files of the console alone.
"""

from __future__ import annotations

import hmac
import json
import secrets
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, urlencode, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response

from peerveil import __version__
from peerveil.core.errors import BadInput, PeerveilError
from peerveil.web.common.errors import Forbidden, NotFound, ServiceError
from peerveil.web.console import people
from peerveil.web.console.house import LOCAL
from peerveil.web.console.pages.words import DONE, ago, clock, size_in_words
from peerveil.web.console.people import Asker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from starlette.requests import Request

    from peerveil.web.console.house import House
    from peerveil.web.console.pages.app import Console

COOKIE: Final = "peerveil_session"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_LOCAL_NAMES: Final = {"127.0.0.1", "localhost", "::1"}
_MOST_FIELDS: Final = 200


class SignInFirst(ServiceError):
    """Nobody is signed in."""

    status = 401
    name = "sign_in"


def templates() -> Environment:
    """The templates; everything that is put into them is escaped, but for pages and figures of :mod:`peerveil.report`."""
    found = Environment(
        loader=PackageLoader("peerveil.web.console", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(ago=ago, clock=clock, bytes=size_in_words, with_article=people.with_article)
    found.globals.update(version=__version__)
    return found


@dataclass
class Visit:
    """A request that was let in."""

    console: Console
    request: Request
    asker: Asker
    form: Mapping[str, str] = field(default_factory=dict)
    upload: UploadFile | None = None
    fresh: str | None = None  # a new session's token, to be put into the browser's cookie; empty: forget it

    @property
    def house(self) -> House:
        """The console's house."""
        return self.console.house

    def part(self, name: str) -> str:
        """A part of the path."""
        part = str(self.request.path_params[name])
        if "\0" in part:  # nothing has such a name, and PostgreSQL refuses to look for it
            raise NotFound("there is no such page")
        return part

    def asked(self, name: str, default: str = "") -> str:
        """A value after the question mark."""
        return str(self.request.query_params.get(name, default))

    @cached_property
    def form_token(self) -> str:
        """What the forms of this page carry."""
        token = self.fresh if self.fresh is not None else self.asker.token
        return people.form_token(self.house, token)

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """A page."""
        shown = self.console.templates.get_template(template).render(
            asker=self.asker,
            form_token=self.form_token,
            path=self.request.scope["path"],
            done=DONE.get(self.asked("done")),
            **values,
        )
        return self._kept(HTMLResponse(shown, status))

    def go(self, path: str, done: str = "", **query: str) -> Response:
        """On to another page, with a word about what was done."""
        asked = {**query, **({"done": done} if done else {})}
        return self._kept(RedirectResponse(f"{path}?{urlencode(asked)}" if asked else path, 303))

    def json(self, content: Any) -> Response:
        """Data for the page's script."""
        return self._kept(JSONResponse(json.loads(json.dumps(content))))

    def file(self, content: bytes, name: str, kind: str = "application/octet-stream") -> Response:
        """Something to be saved; never shown as a page of this site."""
        headers = {
            "Content-Disposition": f'attachment; filename="{name}"',
            "Content-Security-Policy": "sandbox; default-src 'none'",
        }
        return self._kept(Response(content, media_type=kind, headers=headers))

    def saved(self, path: Path, name: str, kind: str, *, afterwards: Callable[[], object]) -> Response:
        """A file that may be too large for the memory; ``afterwards`` is called when it was sent."""
        headers = {"Content-Security-Policy": "sandbox; default-src 'none'"}
        task = BackgroundTask(afterwards)
        return self._kept(FileResponse(path, media_type=kind, filename=name, headers=headers, background=task))

    def _kept(self, response: Response) -> Response:
        response.headers["Referrer-Policy"] = "same-origin"  # without it, browsers hide where our own forms come from
        if self.fresh is not None:
            https = self.console.settings.https
            if self.fresh:
                response.set_cookie(COOKIE, self.fresh, httponly=True, samesite="strict", secure=https, path="/")
            else:
                response.delete_cookie(COOKIE, path="/")
        return response


def endpoint(
    console: Console, handler: Callable[[Visit], Response], role: str | None = "reader"
) -> Callable[[Request], Awaitable[Response]]:
    """A handler behind the guards; ``role`` None lets everybody in."""

    async def answer(request: Request) -> Response:
        visit = None
        try:
            visit = await run_in_threadpool(enter, console, request)
            require(visit, role)
            if request.method != "POST":
                return await run_in_threadpool(handler, visit)
            async with request.form(max_files=1, max_fields=_MOST_FIELDS, max_part_size=1_000_000) as content:
                read_form(visit, content)
                return await run_in_threadpool(handler, visit)
        except (PeerveilError, MultiPartException) as error:
            return await run_in_threadpool(refusal, console, request, error, visit)
        finally:
            await request.close()  # an uploaded file is a file on the disk, or memory

    return answer


def enter(console: Console, request: Request) -> Visit:
    """Who asks. Whoever is not signed in gets a cookie, from which the token of the form to sign in is derived."""
    check_origin(request)
    token = request.cookies.get(COOKIE, "")
    fresh = None if token else secrets.token_urlsafe(32)
    if console.one_person():
        check_local(request)
        return Visit(console, request, Asker(LOCAL, "you", "operator", token or str(fresh)), fresh=fresh)
    asker = people.recognize(console.house, token)
    if asker is None:
        return Visit(console, request, Asker("", "", "reader", token or str(fresh)), fresh=fresh)
    return Visit(console, request, asker)


def require(visit: Visit, role: str | None) -> None:
    """Whether they may; everybody may where no role is asked for."""
    if role is not None:
        if not visit.asker.id:
            raise SignInFirst("sign in first")
        visit.asker.require(role)


def check_local(request: Request) -> None:
    """The one person of a machine comes by its own address; a name that was pointed at it is refused."""
    host = split_address(f"//{request.headers.get('host', '')}").hostname
    if host not in _LOCAL_NAMES:
        raise Forbidden(
            "this console is for one person on this machine: open it at http://127.0.0.1 or http://localhost"
        )


def split_address(text: str) -> SplitResult:
    """The parts of an address that a stranger sent; all empty if it is none, such as ``http://[``."""
    try:
        return urlsplit(text)
    except ValueError:
        return SplitResult("", "", "", "", "")


def check_origin(request: Request) -> None:
    """What changes something must come from a page of this site."""
    if request.method in ("GET", "HEAD"):
        return
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    host = request.headers.get("host", "")
    elsewhere = origin not in (None, "null") and split_address(origin).netloc != host
    if site not in (None, "same-origin", "none") or elsewhere:
        raise Forbidden("this form was sent by another site; nothing was done")
    if origin == "null" and site is None:
        raise Forbidden("this form was sent by a page of no site; nothing was done")


def read_form(visit: Visit, content: FormData) -> None:
    """The fields of a form, and its file if there is one; refused without the session's token."""
    texts = {name: value for name, value in content.multi_items() if isinstance(value, str)}
    if not hmac.compare_digest(texts.pop("form_token", "").encode(), visit.form_token.encode()):
        raise Forbidden("this form is too old, or not from this console; load the page again and send it once more")
    if any("\0" in value for value in texts.values()):
        raise BadInput("form", got="a zero byte", want="text")
    visit.form = texts
    visit.upload = next((value for _, value in content.multi_items() if isinstance(value, UploadFile)), None)


def refusal(console: Console, request: Request, error: Exception, visit: Visit | None = None) -> Response:
    """A refusal as a page that says what was wrong and where to go."""
    status = error.status if isinstance(error, ServiceError) else 422
    if isinstance(error, SignInFirst):
        target = request.scope["path"] if request.method == "GET" else "/"
        return RedirectResponse("/sign-in?" + urlencode({"next": target}), 303)
    lines = str(error).split("\n") if not isinstance(error, MultiPartException) else ["this form cannot be read"]
    retry = error.retry_after if isinstance(error, ServiceError) else None
    headers = {"Retry-After": str(retry)} if retry is not None else None
    return problem_page(console, status, lines, request.headers.get("referer"), headers, visit)


def problem_page(
    console: Console,
    status: int,
    lines: list[str],
    came_from: str | None = None,
    headers: Mapping[str, str] | None = None,
    visit: Visit | None = None,
) -> Response:
    """A page about something that did not work; with ``visit``, the way to the other pages is on it."""
    titles = {
        403: "Not allowed",
        404: "Not found",
        409: "Too late",
        413: "Too large",
        429: "Slow down",
        500: "Our fault",
    }
    back = split_address(came_from).path if came_from else "/"
    text = console.templates.get_template("problem.html").render(
        asker=visit and visit.asker, done=None, path="", form_token=visit.form_token if visit else "",
        title=titles.get(status, "That did not work"), lines=lines, back=back if back.startswith("/") else "/",
    )  # fmt: skip
    return HTMLResponse(text, status, headers=dict(headers or {}))
