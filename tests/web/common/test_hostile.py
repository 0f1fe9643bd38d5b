"""Headers, paths and queries that no browser sends: every service answers them with a refusal, never with a failure."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

import pytest
from tests.web.common.client import Client
from tests.web.gateway.helpers import KEY

from peerveil.cli.collect import LABELS_EXAMPLE
from peerveil.web.collect import Campaign, Store
from peerveil.web.collect.service import build_app
from peerveil.web.common import Journal, Vault
from peerveil.web.gateway import Gateway, Space, create_app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Headers = list[tuple[bytes, bytes]]
KNOWN = {"gateway": "forum", "collect": "birds-2026"}
PATHS = {
    "gateway": [
        "POST /v1/spaces/{}/posts", "GET /v1/posts/{}", "PATCH /v1/posts/{}", "DELETE /v1/posts/{}",
        "GET /v1/spaces/{}/feed", "GET /v1/spaces/{}/feed.atom", "GET /v1/spaces/{}/feed.rss", "GET /v1/spaces/{}/feed/",
        "GET /healthz", "GET /metrics", "GET /operator", "GET /docs", "GET /{}", "GET /static-offline-docs/{}",
    ],
    "collect": [
        "GET /v1/campaigns/{}", "POST /v1/campaigns/{}/reports", "GET /v1/campaigns/{}/budget",
        "GET /v1/campaigns/{}/results", "GET /v1/campaigns/{}/status", "GET /operate/{}", "GET /c/{}", "GET /c/{}/",
        "GET /healthz", "GET /docs", "GET /{}", "GET /static-offline-docs/{}",
    ],
}  # fmt: skip
HEADERS: Headers = [
    *((b"authorization", value) for value in (
        b"", b" ", b"Basic", b"Basic \xe9", "Basic é".encode(), "Basic ٣".encode(), b"Basic ====", b"Basic /w==", b"Basic YTo=",
        b"Basic " + b"A" * 5001, b"Bearer", b"Bearer \xff", "Bearer pv_é".encode(), b"bearer pv_" + b"A" * 43, b"\x00",
    )),
    *((b"host", value) for value in (
        b"", b"[", b"]", b"[::1", b"[::1]:x", b"x:99999999", b"a b", b"\xff", b"@", b"x/../y", b"[v1.x]", b"x?y#z",
    )),
    *((b"origin", value) for value in (b"", b"null", b"http://[", b"http://[::1", b"\xff", b"://")),
    *((b"referer", value) for value in (b"http://[", b"\xff")),
    *((b"content-length", value) for value in (b"-1", b"\xb2", b"x", b"9" * 30, b"9" * 5000)),
    *((b"content-type", value) for value in (b"\xff", b"multipart/form-data; boundary=\xff", b"text/plain")),
    *((b"idempotency-key", value) for value in (b"", b"\xff", b"x" * 300, b"\x00")),
    *((b"range", value) for value in (b"bytes=\xff", b"bytes=0-" + b"9" * 30, b"bytes=5-1")),
    (b"if-modified-since", b"\xff"), (b"cookie", b'a=\xff; "=;'), (b"accept-language", b"\xff"),
]  # fmt: skip
NAMES = ["%00", "%ff", "%D9%A3", "..", "%2e%2e%2f", "%5B", "%ED%A0%80", "%F0%9F%98%80", "*", "a" * 3000, "%0a", ""]
QUERIES = [
    b"after=%00", b"after=%ff", b"after=\xff", b"after=%D9%A3", b"limit=%D9%A3", b"limit=1e9", b"limit=" + b"9" * 5000,
    b"after=" + b"A" * 24, b"after=" + b"=" * 24, b"limit=nan", b"%ff=%ff", b"&&=;", b"limit=1&limit=x", b"after=-99",
]  # fmt: skip
BODIES = [
    b"", b"{}", b"\xff\xfe", b"[" * 3000, b"NaN", b'{"a": ' + b"1" * 5000 + b"}",
    b'{"thread": "t", "content": "\\ud800"}', b'{"thread": "t", "content": "x", "reply_to": "\\u0000"}',
    b'{"thread": "t", "content": "x", "reply_to": "\\ud800"}', b'{"content": "\\ud800"}',
    b'{"format": "peerveil-truth/1", "task": "\\u0000", "label": "\\ud800"}',
    b'{"protocol": "x", "question": 1e400, "bits": "\\ud800"}',
]  # fmt: skip


class Service:
    """An application, tokens for all its roles, and a way to send what no client would."""

    def __init__(self, name: str, app: Any, tokens: list[str], log: io.StringIO) -> None:
        self.name, self.app, self.log = name, app, log
        self.tokens = [token.encode() for token in tokens]
        self.client = Client(app)

    def send(self, method: str, path: str, headers: Headers, query: bytes = b"", body: bytes = b"") -> int:
        raw = path.encode()
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": unquote_to_bytes(raw).decode("utf-8", "replace"), "raw_path": raw, "query_string": query,
            "root_path": "", "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        }  # fmt: skip
        statuses: list[int] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        self.client._run(self.app(scope, receive, sending))
        return statuses[0]


@pytest.fixture(params=["gateway-sqlite", "gateway-postgresql", "collect-sqlite", "collect-postgresql"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    name, _, kind = str(request.param).partition("-")
    url = str(tmp_path / "service.db") if kind == "sqlite" else request.getfixturevalue("postgres_url")
    log = io.StringIO()
    if name == "gateway":
        gateway = Gateway(url, Vault.read(KEY), create=True)
        gateway.configure([Space.read("forum", {"gap": "45m"})])
        tokens = [
            gateway.issue_token(role=role, space="forum", actor="kim") for role in ("author", "reader", "operator")
        ]
        found = Service(name, create_app(gateway, Journal("test", log), worker=False), tokens, log)
        yield found
        found.client.close()
        gateway.close()
        return
    (tmp_path / "campaign.toml").write_text(LABELS_EXAMPLE)
    store = Store(url, create=True)
    store.add(Campaign.read(tmp_path / "campaign.toml"))
    tokens = [*store.invite(store.known("birds-2026"), 1), store.appoint("birds-2026")]
    found = Service(name, build_app(store, Journal("test", log)), tokens, log)
    yield found
    found.client.close()
    store.close()


def test_no_header_path_query_or_body_makes_a_service_fail(service: Service) -> None:
    seen: set[int] = set()
    failures: set[str] = set()

    def send(method: str, path: str, token: bytes, *more: tuple[bytes, bytes], **rest: bytes) -> None:
        usual = {b"host": b"localhost", b"authorization": b"Bearer " + token, b"idempotency-key": b"k"}
        try:
            status = service.send(method, path, list({**usual, **dict(more)}.items()), **rest)
        except Exception as error:
            failures.add(f"{method} {path[:60]} {more!r:.60} {rest!r:.60}: {error!r:.60}")
            return
        seen.add(status)
        if status >= 500:
            failures.add(f"{method} {path[:60]} {more!r:.60} {rest!r:.60}: {status}")

    for pattern in PATHS[service.name]:
        method, _, path = pattern.partition(" ")
        for token in service.tokens:
            for header in HEADERS:
                send(method, path.format(KNOWN[service.name]), token, header)
            for query in QUERIES:
                send(method, path.format(KNOWN[service.name]), token, query=query)
            for name in NAMES if "{}" in path else ():
                send(method, path.format(name), token)
            for body in BODIES if method in ("POST", "PATCH") else ():
                send(method, path.format(KNOWN[service.name]), token, body=body)
    assert failures == set()
    assert {200, 400, 401, 404, 413, 422} <= seen  # the requests came as far as that
