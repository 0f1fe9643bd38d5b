"""The web application's shell: errors of one shape, bodies of limited length, headers, an API page without a network."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import pytest
from fastapi import FastAPI, Request
from tests.web.common.client import Client

from peerveil.web.common.app import new_app
from peerveil.web.common.errors import Unavailable
from peerveil.web.common.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def log() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def client(log: io.StringIO) -> Iterator[Client]:
    app: FastAPI = new_app("test", "a test", journal=Journal("test", log), body_limit=100)

    @app.post("/echo")
    async def echo(request: Request) -> dict[str, int]:
        return {"length": len(await request.body())}

    @app.get("/number/{n}")
    async def number(n: int) -> int:
        return n

    @app.get("/broken")
    async def broken() -> None:
        raise RuntimeError("my secret")

    @app.get("/down")
    async def down() -> None:
        raise Unavailable("not now")

    found = Client(app)
    yield found
    found.close()


def test_errors_have_one_shape_and_do_not_repeat_what_was_sent(client: Client, log: io.StringIO) -> None:
    for path, status in [("/none", 404), ("/number/secret", 422), ("/broken", 500), ("/down", 503)]:
        answer = client.get(path)
        assert answer.status_code == status
        assert set(answer.json()) == {"error", "message"}
        assert "secret" not in answer.text
    assert client.post("/down").status_code == 405
    assert client.get("/down").headers["retry-after"] == "5"
    assert "secret" not in log.getvalue()
    assert '"error": "RuntimeError"' in log.getvalue()


def test_long_bodies_are_refused_with_and_without_a_length(client: Client) -> None:
    assert client.post("/echo", content=b"x" * 100).json() == {"length": 100}
    assert client.post("/echo", content=b"x" * 101).status_code == 413

    async def parts() -> Any:
        for _ in range(11):
            yield b"x" * 10

    assert client.post("/echo", content=parts()).status_code == 413


def test_every_answer_has_the_security_headers(client: Client) -> None:
    for path in ("/number/1", "/none", "/docs", "/broken"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "server" not in headers


def test_the_api_page_loads_nothing_from_outside(client: Client) -> None:
    page = client.get("/docs").text
    links = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert links
    assert all(link.startswith("/") for link in links)
    for link in links:
        assert client.get(link).status_code == 200
    assert "#/components/schemas/Error" in client.get("/openapi.json").text
