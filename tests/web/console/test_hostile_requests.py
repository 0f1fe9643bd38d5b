"""Hostile requests: headers, paths, queries and forms that no browser sends. No route may answer with an error of its own."""

from __future__ import annotations

import asyncio
import itertools
import re
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import pytest
from tests.web.console.clients import ADDRESS, LocalConsole, said, token_of
from tests.web.console.operator_client import LABELS

from peerveil.study.actions import all_actions
from peerveil.web.console import files as console_files
from peerveil.web.console.users import User

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.postgres import Server

VALUES = {
    "zero byte": b"a\x00b",
    "lone surrogate": b"\xed\xa0\x80",
    "not UTF-8": b"\xff\xfe",
    "Arabic digit": "٣".encode(),
    "superscript digit": "²".encode(),
    "huge whole number": b"9" * 5000,
    "huge exponent": b"1e999999999",
    "fraction of huge numbers": b"1/" + b"9" * 4999,
    "not a number": b"NaN",
    "infinity": b"-inf",
    "path": b"../../../etc/passwd",
    "right to left, then more": "\u202e\u2066x\u2028y".encode(),
    "braces": b"{{ 7*7 }} {% raw %} ${7} %s %(x)s {0.__class__}",
    "mathematics": rb"$\frac{",
    "bracket": b"http://[",
    "new line": b"a\r\nSet-Cookie: x=1",
    "list": b"[[[[" * 200,
}
HEADERS = [
    ("authorization", b"Basic \xe9\xff"),
    ("authorization", "Basic ٣".encode()),
    ("authorization", b"Bearer \x00"),
    ("origin", b"http://["),
    ("origin", b"http://[::1"),
    ("origin", b"http://\xff"),
    ("origin", b"//["),
    ("host", b"[::1"),
    ("host", b"["),
    ("host", b""),
    ("host", b"\xff"),
    ("host", b"127.0.0.1:99999999"),
    ("host", b"127.0.0.1:\xc2\xb2"),
    ("host", b"a@[::1"),
    ("referer", b"http://["),
    ("referer", b"http://[::1/\xff"),
    ("cookie", b"peerveil_session=\xff\x00; =; ;;"),
    ("cookie", b'peerveil_session="\\777"'),
    ("sec-fetch-site", b"\xff"),
    ("content-length", "٣".encode()),
    ("content-length", b"\xb2"),
    ("content-length", b"-1"),
    ("content-length", b"9" * 50),
    ("content-type", b"multipart/form-data"),
    ("content-type", b"multipart/form-data; boundary=\xff"),
    ("content-type", b"application/x-www-form-urlencoded; charset=nothing"),
    ("content-type", b"\x00"),
    ("accept", b"\xff"),
    ("transfer-encoding", b"\xff"),
]


async def ask(
    console: LocalConsole,
    method: str,
    path: bytes,
    query: bytes = b"",
    headers: list[tuple[bytes, bytes]] | None = None,
    body: bytes = b"",
) -> int:
    """The status of one request, sent as bytes, past every check of a client library."""
    given = {
        b"host": b"127.0.0.1:8000",
        b"content-type": b"application/x-www-form-urlencoded",
        **dict(headers or []),
    }
    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path.decode("utf-8", "replace"),
        "raw_path": quote(path).encode(),
        "root_path": "",
        "query_string": query,
        "headers": list(given.items()),
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
    }
    status = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            status.append(message["status"])

    await console.asgi(scope, receive, send)
    return int(status[0])


def routes(console: LocalConsole) -> list[tuple[str, str]]:
    found = [
        (method, route.path)
        for route in console.asgi.routes
        for method in sorted(getattr(route, "methods", None) or ())
        if method != "HEAD" and hasattr(route, "path")
    ]
    assert len(found) > 50
    return found


def fields() -> list[str]:
    """Every name that a form of the console may have."""
    folder = files("peerveil.web.console") / "templates"
    texts = "".join(page.read_text() for page in folder.iterdir())
    named = re.findall(r'name="([\w-]+)"', texts)
    settings = [parameter.name for kind in all_actions().values() for parameter in kind.parameters()]
    return sorted({*named, *settings, *LABELS, "data", "action", "kind", "part", "view"} - {"form_token", "simulate"})


@pytest.fixture(params=["sqlite", "postgresql"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[LocalConsole, dict[bytes, bytes], bytes]]:
    """A console, the cookie of somebody at it, and the token of their forms."""
    db = None
    if request.param == "postgresql":
        server: Server = request.getfixturevalue("postgres_server")
        db = server.fresh()
    console = LocalConsole(tmp_path, db=db)
    browser = console.browser()
    token = token_of(browser.get("/ledger").text).encode()
    cookie = f"peerveil_session={browser.http.cookies['peerveil_session']}".encode()
    yield console, {b"cookie": cookie}, token
    console.close()


def hostile(
    console: LocalConsole, token: bytes
) -> Iterator[tuple[str, str, str, bytes, bytes, dict[bytes, bytes], bytes]]:
    """Every hostile header on a few routes, and every hostile value in path, query and form of all routes."""
    empty = b"form_token=" + token
    names = [name.encode() for name in fields()]
    for method, path in [("GET", "/nothing"), *routes(console)]:
        plain = re.sub(r"\{[^}]+\}", "x", path).encode()
        if path in ("/", "/nothing", "/ledger/open", "/static/{name}", "/data/upload", "/users/invite", "/runs/{run}"):
            for header, value in HEADERS:
                yield method, path, f"{header}: {value!r}", plain, b"", {header.encode(): value}, empty
        for value in VALUES.values() if "{" in path else ():
            at = re.sub(rb"\{[^}]+\}", value.replace(b"\\", b"\\\\"), path.encode())
            yield method, path, f"path: {value!r}", at, b"", {}, empty
        for shift in range(3):  # each name gets other values in each round
            values = itertools.islice(itertools.cycle(VALUES.values()), shift * 5, None)
            query = b"&".join(name + b"=" + quote(value).encode() for name, value in zip(names, values, strict=False))
            yield method, path, f"query, round {shift}", plain, query, {}, empty
            if method == "POST":
                yield method, path, f"form, round {shift}", plain, b"", {}, empty + b"&" + query


def test_no_request_fails(target: tuple[LocalConsole, dict[bytes, bytes], bytes]) -> None:
    console, cookie, token = target

    async def failures() -> list[tuple[str, str, str]]:
        return [
            (method, path, what)
            for method, path, what, at, query, headers, body in hostile(console, token)
            if await ask(console, method, at, query, list({**cookie, **headers}.items()), body) >= 500
        ]

    with ThreadPoolExecutor(1) as thread:  # a browser of another test may have left an event loop running in this one
        assert thread.submit(asyncio.run, failures()).result() == [], console.journal.getvalue()[-3000:]


@pytest.mark.slow
def test_each_field_by_itself(console: LocalConsole) -> None:
    """Forms whose other fields are right get further."""
    browser = console.browser()
    browser.send("/data", "/data/synthetic")
    console.work("checks")
    browser.send("/ledger", "/ledger/open", {"name": "main", "epsilon": "5"})
    asker = User("local", "you", "operator")
    listed = {file.name: file.id for file in console_files.listed(console.app, asker)}
    forms: dict[str, dict[str, str]] = {
        "/ledger/open": {"name": "x", "epsilon": "1", "sure": "yes", "next": ""},
        "/data/path": {"path": "x"},
        "/services/new-campaign": dict(LABELS),
        "/users/invite": {"role": "analyst"},
        "/users/register": {"name": "x", "password": "y"},
    }
    for name, kind in all_actions().items():
        if kind.module() in ("audit", "data"):
            continue
        forms[f"/{kind.module()}/prepare?{name}"] = {
            "action": name,
            "data": listed[f"synthetic: {kind.kinds[0]}"] if kind.kinds else "",
            "account": "main",
            "title": "t",
            **{parameter.name: "1" for parameter in kind.parameters()},
        }
    failed = []
    for path, right in forms.items():
        token = token_of(browser.get("/ledger").text)
        for name in right:
            for what, value in VALUES.items():
                sent = {**right, name: value, "form_token": token}
                body = urlencode(sent).encode()
                headers = {"Content-Type": "application/x-www-form-urlencoded"}
                answer = browser.post(path.split("?")[0], content=body, headers=headers)
                if answer.status_code >= 500:
                    failed.append((path, name, what))
    assert failed == [], console.journal.getvalue()[-3000:]


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_exports_are_of_two_kinds(console: LocalConsole, kind: str) -> None:
    browser = console.browser()
    assert browser.get(f"/ledger/export.{kind}").status_code == 200
    for other in ("%D9%A3", "pdf", "", "csv%00", "%0d%0aX:%20y"):
        assert browser.get(f"{ADDRESS}/ledger/export.{other}").status_code == 404, other


def test_an_address_that_cannot_be_read_is_refused_in_words(console: LocalConsole) -> None:
    assert "for one user on this machine" in said(console.browser().get("/", headers={"Host": "[::1"}))
    answer = console.browser().post("/ledger/open", headers={"Origin": "http://["})
    assert answer.status_code == 403
    assert "another site" in said(answer)
