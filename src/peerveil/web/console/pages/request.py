"""A request: its user, its form, and its answer. All checks that protect pages are here.

- **User**: from the session cookie, or, on a console without registered users, the single user of the machine. Requests of
  that user are only accepted at the machine's own address, so that no other site's name can be pointed at it.
- **Forms**: every form carries a token that is derived from the session; a form from another site is refused before anything
  is read from it.
- **Answers**: pages are templates in which everything is escaped; scripts and styles come only from files of the console.
"""

import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, urlencode, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from peerveil import __version__
from peerveil.core.errors import BadInput, PeerveilError
from peerveil.web.common.errors import Forbidden, NotFound, ServiceError
from peerveil.web.console import users
from peerveil.web.console.app import LOCAL_USER, ConsoleApp
from peerveil.web.console.users import User

COOKIE: Final = "peerveil_session"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_DOWNLOAD_POLICY: Final = "sandbox; default-src 'none'"
_LOCAL_HOSTS: Final = {"127.0.0.1", "localhost", "::1"}
_MAX_FIELDS: Final = 200
_TITLES: Final = {
    403: "Not allowed",
    404: "Not found",
    409: "Conflict",
    413: "Too large",
    429: "Too many requests",
    500: "Internal error",
}
DONE: Final = {
    "added": "The file was added.",
    "synthetic": "A synthetic conference was added. Nobody in it exists: try whatever you like.",
    "mapped": "The columns were mapped; the file is being read again.",
    "removed": "Removed.",
    "opened": "The account is open.",
    "start": "The run has started.",
    "resume": "The run continues.",
    "check": "The draft is being checked again.",
    "discarded": "The draft was deleted. Nothing had been spent.",
    "registered": "You are registered as an operator. From now on everybody signs in.",
    "changed": "Changed.",
    "shared": "Readers and other analysts can now see the public part.",
    "unshared": "Only you and operators can see it now.",
    "password": "Your password was changed; all your other sessions were signed out.",
    "signed-out": "You are signed out.",
    "campaign": "The campaign was created.",
    "closed": "The campaign is closed. No more answers are accepted.",
    "inferring": "Inference has started; reload the page in a moment.",
    "estimating": "An estimate is being computed; only operators see it, and it costs no privacy.",
    "reports": "The answers were added to your files. When they have been read, choose Truth below.",
    "clock": "The clock was confirmed. The gateway continues.",
}
"""What a page may say was done: only these, so that no link can make the console say anything else."""


class SignInFirst(ServiceError, status=401, name="sign_in"):
    """Nobody is signed in."""


@dataclass
class PageRequest:
    """A request whose user is known, and the ways to answer it."""

    app: ConsoleApp
    http: Request
    user: User
    form: Mapping[str, str] = field(default_factory=dict)
    upload: UploadFile | None = None
    new_token: str | None = None  # a new session's token for the browser's cookie; empty: delete the cookie

    def path(self, name: str) -> str:
        """A part of the path."""
        value = str(self.http.path_params[name])
        if "\0" in value:  # nothing has such a name, and PostgreSQL refuses to look for it
            raise NotFound("there is no such page")
        return value

    def query(self, name: str, default: str = "") -> str:
        """A parameter of the query."""
        return str(self.http.query_params.get(name, default))

    def field(self, name: str) -> str:
        """A field of the form; empty if it is missing."""
        return self.form.get(name, "")

    def log(self, action: str, subject: str) -> None:
        """Add to the activity log what the user did elsewhere: in the ledger, or with a service."""
        with self.app.logged(self.user.id, action, subject):
            pass

    @property
    def form_token(self) -> str:
        """The token in the forms of this page."""
        return users.form_token(self.app, self.user.token if self.new_token is None else self.new_token)

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """A page."""
        done = DONE.get(self.query("done"))
        common = {"user": self.user, "form_token": self.form_token, "path": self.http.scope["path"], "done": done}
        return self.finish(HTMLResponse(templates().get_template(template).render(**common, **values), status))

    def redirect(self, path: str, done: str = "", **query: str) -> Response:
        """To another page, which says what was done."""
        parameters = {**query, **({"done": done} if done else {})}
        return self.finish(RedirectResponse(f"{path}?{urlencode(parameters)}" if parameters else path, 303))

    def download(
        self, content: str | bytes | Path, name: str, kind: str, *, afterwards: Callable[[], object] | None = None
    ) -> Response:
        """A file to be saved, never shown as a page of this site; ``afterwards`` is called when it was sent."""
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Security-Policy": _DOWNLOAD_POLICY}
        task = None if afterwards is None else BackgroundTask(afterwards)
        if isinstance(content, Path):  # it may be too large for the memory
            return self.finish(FileResponse(content, media_type=kind, headers=headers, background=task))
        return self.finish(Response(content, media_type=kind, headers=headers, background=task))

    def finish(self, response: Response) -> Response:
        """An answer with the cookie that it needs."""
        response.headers["Referrer-Policy"] = "same-origin"  # otherwise browsers hide where our own forms come from
        if self.new_token:
            https = self.app.settings.https
            response.set_cookie(COOKIE, self.new_token, httponly=True, samesite="strict", secure=https, path="/")
        elif self.new_token is not None:
            response.delete_cookie(COOKIE, path="/")
        return response


def operation(call: Callable[..., object], *names: str, to: str, done: str) -> Callable[[PageRequest], Response]:
    """A handler that calls a function of the console with fields of the form or parts of the path, and opens another page.

    ``to`` may name parts of the path, and ``{result}``.
    """

    def handler(request: PageRequest) -> Response:
        parts = request.http.path_params
        result = call(request.app, request.user, *(request.path(n) if n in parts else request.field(n) for n in names))
        return request.redirect(to.format(result=result, **parts), done)

    return handler


# ---- checks ----------------------------------------------------------------------------------------------------------


def endpoint(
    app: ConsoleApp, handler: Callable[[PageRequest], Response], role: str | None
) -> Callable[[Request], Awaitable[Response]]:
    """A handler behind all checks; ``role`` None admits everybody."""

    async def answer(http: Request) -> Response:
        request = None
        try:
            request = await run_in_threadpool(authenticate, app, http)
            if role is not None:
                if not request.user.id:
                    raise SignInFirst("sign in first")
                request.user.require(role)
            if http.method != "POST":
                return await run_in_threadpool(handler, request)
            async with http.form(max_files=1, max_fields=_MAX_FIELDS, max_part_size=1_000_000) as content:
                read_form(request, content)
                return await run_in_threadpool(handler, request)
        except (PeerveilError, MultiPartException) as error:
            return await run_in_threadpool(refusal, http, error, request)
        finally:
            await http.close()  # an uploaded file is a file on the disk, or memory

    return answer


def authenticate(app: ConsoleApp, http: Request) -> PageRequest:
    """Find the user. Whoever is not signed in gets a cookie, from which the token of the sign-in form is derived."""
    check_origin(http)
    token = http.cookies.get(COOKIE, "")
    new_token = None if token else secrets.token_urlsafe(32)
    if app.single_user():
        if split_address(f"//{http.headers.get('host', '')}").hostname not in _LOCAL_HOSTS:
            raise Forbidden(
                "this console is for one user on this machine: open it at http://127.0.0.1 or http://localhost"
            )
        user = User(LOCAL_USER, "you", "operator", token or str(new_token))
    else:
        user = users.session_user(app, token) or User("", "", "reader", token or str(new_token))
    return PageRequest(app, http, user, new_token=new_token)


def check_origin(http: Request) -> None:
    """A request that changes something must come from a page of this site."""
    if http.method in ("GET", "HEAD"):
        return
    origin, site = http.headers.get("origin"), http.headers.get("sec-fetch-site")
    elsewhere = origin not in (None, "null") and split_address(origin).netloc != http.headers.get("host", "")
    if site not in (None, "same-origin", "none") or elsewhere:
        raise Forbidden("this form was sent by another site; nothing was done")
    if origin == "null" and site is None:
        raise Forbidden("this form was sent by a page without a site; nothing was done")


def split_address(text: str) -> SplitResult:
    """The parts of an address from a request; all empty if it is malformed, such as ``http://[``."""
    try:
        return urlsplit(text)
    except ValueError:
        return SplitResult("", "", "", "", "")


def read_form(request: PageRequest, content: FormData) -> None:
    """The fields of a form, and its file if there is one; refused without the session's token."""
    texts = {name: value for name, value in content.multi_items() if isinstance(value, str)}
    if not hmac.compare_digest(texts.pop("form_token", "").encode(), request.form_token.encode()):
        raise Forbidden("this form is too old, or not from this console; reload the page and send it again")
    if any("\0" in value for value in texts.values()):
        raise BadInput("form", got="a zero byte", want="text")
    request.form = texts
    request.upload = next((value for _, value in content.multi_items() if isinstance(value, UploadFile)), None)


# ---- errors ----------------------------------------------------------------------------------------------------------


def refusal(http: Request, error: Exception, request: PageRequest | None = None) -> Response:
    """An error as a page that says what was wrong and where to go."""
    if isinstance(error, SignInFirst):
        target = http.scope["path"] if http.method == "GET" else "/"
        return RedirectResponse("/sign-in?" + urlencode({"next": target}), 303)
    lines = str(error).split("\n") if not isinstance(error, MultiPartException) else ["this form cannot be read"]
    status = error.status if isinstance(error, ServiceError) else 422
    answer = problem_page(status, lines, http.headers.get("referer"), request)
    if isinstance(error, ServiceError) and error.retry_after is not None:
        answer.headers["Retry-After"] = str(error.retry_after)
    return answer


def problem_page(
    status: int, lines: list[str], came_from: str | None = None, request: PageRequest | None = None
) -> Response:
    """An error page; with ``request``, it has the navigation."""
    back = split_address(came_from or "/").path
    text = templates().get_template("problem.html").render(
        user=request and request.user, done=None, path="", form_token=request.form_token if request else "", status=status,
        title=_TITLES.get(status, "This did not work"), lines=lines, back=back if back.startswith("/") else "/",
    )  # fmt: skip
    return HTMLResponse(text, status)


# ---- templates -------------------------------------------------------------------------------------------------------


@cache
def templates() -> Environment:
    """The templates; everything inserted is escaped, except pages and figures of :mod:`peerveil.report`."""
    environment = Environment(
        loader=PackageLoader("peerveil.web.console", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(clock=clock, with_article=users.with_article)
    environment.globals.update(version=__version__)
    return environment


def clock(microseconds: int) -> str:
    """A time in UTC."""
    return f"{datetime.fromtimestamp(microseconds / 1e6, UTC):%Y-%m-%d %H:%M} UTC"
