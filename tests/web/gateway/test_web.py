"""The web interface: roles, refusals, and what hostile requests get."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

import pytest
from tests.web.common.client import Client
from tests.web.gateway.helpers import FakeTime, work

from peerveil.web.common import Journal
from peerveil.web.gateway import Gateway, create_app

if TYPE_CHECKING:
    from collections.abc import Iterator

POSTS = "/v1/spaces/forum/posts"


class Site:
    """A gateway with tokens, and a log to look into."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.log = io.StringIO()
        self.tokens = {
            name: gateway.issue_token(role=name.partition(" ")[0], space="forum", actor=name)
            for name in ("author", "author 2", "reader", "operator")
        }
        self.client = Client(create_app(gateway, Journal("test", self.log), worker=False))

    def call(self, method: str, path: str, who: str | None = "author", **more: Any) -> Any:
        headers = dict(more.pop("headers", {}))
        if who is not None:
            headers["Authorization"] = f"Bearer {self.tokens[who]}"
        return self.client.request(method, path, headers=headers, **more)

    def post(self, key: str = "k", who: str | None = "author", **body: Any) -> Any:
        sent = {"thread": "t", "content": "text"} | body
        return self.call("POST", POSTS, who, json=sent, headers={"Idempotency-Key": key})


@pytest.fixture
def site(sqlite_url: str, make: Any) -> Iterator[Site]:
    found = Site(make(sqlite_url))
    yield found
    found.client.close()


def test_the_way_of_a_post(site: Site, time: FakeTime) -> None:
    taken = site.post()
    assert taken.status_code == 202
    receipt = taken.json()["receipt"]
    assert site.post().content == taken.content
    assert site.post(content="other").status_code == 422
    where = f"/v1/posts/{receipt}"
    assert site.call("GET", where).json() == {"state": "held"}
    assert site.call("PATCH", where, json={"content": "better"}).json() == {"state": "held"}
    assert site.call("GET", "/v1/spaces/forum/feed", "reader").json()["items"] == []
    time.advance(1000)
    work(site.gateway)
    answer = site.call("GET", "/v1/spaces/forum/feed", "reader").json()
    (item,) = answer["items"]
    assert set(item) == {"id", "thread", "content", "reply_to", "posted_at", "kind", "changes", "metadata"}
    assert (item["content"], item["posted_at"][-1]) == ("better", "Z")
    again = site.call("GET", f"/v1/spaces/forum/feed?after={answer['next']}&limit=5", "reader").json()
    assert again == {"items": [], "next": answer["next"]}
    assert site.call("GET", where).json() == {"state": "posted"}
    assert site.call("DELETE", where).status_code == 409
    second = site.post("k2").json()["receipt"]
    assert site.call("DELETE", f"/v1/posts/{second}").json() == {"state": "withdrawn"}


def test_roles(site: Site) -> None:
    receipt = site.post().json()["receipt"]
    for who in ("reader", "operator", None):
        assert site.post("x", who).status_code == (401 if who is None else 403)
        for method in ("GET", "DELETE"):
            assert site.call(method, f"/v1/posts/{receipt}", who).status_code in (401, 403)
    for method in ("GET", "DELETE"):  # another author does not even learn that it exists
        assert site.call(method, f"/v1/posts/{receipt}", "author 2").status_code == 404
    assert site.call("PATCH", f"/v1/posts/{receipt}", "author 2", json={"content": "x"}).status_code == 404
    for who, code in [("author", 403), ("reader", 403), ("operator", 200), (None, 401)]:
        assert site.call("GET", "/metrics", who).status_code == code
        assert site.call("GET", "/operator", who).status_code == code
    for who, code in [("author", 200), ("reader", 200), ("operator", 200), (None, 401)]:
        assert site.call("GET", "/v1/spaces/forum/feed", who).status_code == code
    assert site.call("GET", "/v1/spaces/other/feed").status_code == 403
    assert site.call("GET", "/healthz", None).json() == {"status": "ok"}


def test_a_browser_opens_the_operators_page_with_the_token_as_password(site: Site) -> None:
    answer = site.client.get("/operator")
    assert answer.status_code == 401
    assert "Basic" in answer.headers["www-authenticate"]
    page = site.client.request("GET", "/operator", auth=("operator", site.tokens["operator"]))
    assert page.status_code == 200
    assert "One-sided privacy" in page.text


BAD: list[tuple[Any, int]] = [
    ({}, 422),
    ({"thread": "t"}, 422),
    ({"thread": "t", "content": ""}, 422),
    ({"thread": "", "content": "x"}, 422),
    ({"thread": "a\nb", "content": "x"}, 422),
    ({"thread": "t" * 201, "content": "x"}, 422),
    ({"thread": "t", "content": "x" * 20_001}, 422),
    ({"thread": "t", "content": "a\0b"}, 422),
    ({"thread": 1, "content": "x"}, 422),
    ({"thread": "t", "content": "x", "actor": "eve"}, 422),
    ({"thread": "t", "content": "x", "reply_to": "unknown"}, 422),
    ({"thread": "t", "content": "x", "reply_to": "é" * 60}, 422),
    ({"thread": "t", "content": "x", "batch": "yes"}, 422),
    ([], 422),
    (None, 422),
]


@pytest.mark.parametrize(("body", "status"), BAD)
def test_bad_bodies_are_refused_and_write_nothing(site: Site, body: Any, status: int) -> None:
    answer = site.call("POST", POSTS, json=body, headers={"Idempotency-Key": "k"})
    assert answer.status_code == status
    assert set(answer.json()) == {"error", "message"}
    assert site.post("k").status_code == 202  # the key is still free


def test_bytes_that_are_no_text_and_bodies_without_end(site: Site) -> None:
    headers = {"Idempotency-Key": "k", "Content-Type": "application/json"}
    for raw in (b"", b"{", b'{"thread": "t", "content": "\xff"}', b'{"thread":"t","content":"\\ud800"}', b"[" * 10_000):
        assert site.call("POST", POSTS, content=raw, headers=headers).status_code == 422
    assert site.call("POST", POSTS, content=b"x" * 2_000_000, headers=headers).status_code == 413
    assert site.call("POST", POSTS, content=b"a=b", headers=headers | {"Content-Type": "text/plain"}).status_code == 400
    assert site.call("POST", POSTS, json={"thread": "t", "content": "x"}).status_code == 400  # no key
    deep = json.dumps({"thread": "t", "content": "x", "reply_to": None})
    assert site.call("POST", POSTS, content=deep, headers=headers).status_code == 202


@pytest.mark.parametrize("query", ["limit=0", "limit=501", "limit=x", "after=x", "after=" + "A" * 65, "after=%00"])
def test_bad_questions(site: Site, query: str) -> None:
    assert site.call("GET", f"/v1/spaces/forum/feed?{query}").status_code in (410, 422)


def test_the_log_holds_nothing_of_what_was_sent(site: Site, time: FakeTime) -> None:
    receipt = site.post("key-SECRET", content="content-SECRET", thread="thread-SECRET").json()["receipt"]
    site.call("GET", "/v1/posts/receipt-SECRET")
    site.call("GET", "/v1/spaces/SECRET/feed?after=cursor-SECRET")
    time.advance(1000)
    work(site.gateway)
    said = site.log.getvalue()
    assert not any(word in said for word in ("SECRET", receipt, *site.tokens.values()))


def test_atom_and_rss(site: Site, time: FakeTime) -> None:
    site.post(content="a <b> & \x01 ]]> 🙂", thread="x & <y>")
    time.advance(1000)
    work(site.gateway)
    for kind in ("atom", "rss"):
        answer = site.call("GET", f"/v1/spaces/forum/feed.{kind}", "reader")
        assert answer.headers["content-type"].startswith(f"application/{kind}+xml")
        tree = ET.fromstring(answer.text)
        assert "a <b> &  ]]> 🙂" in "".join(tree.itertext())


def test_a_public_space_needs_no_token_to_be_read(sqlite_url: str, make: Any) -> None:
    site = Site(make(sqlite_url, public=True))
    try:
        assert site.call("GET", "/v1/spaces/forum/feed", None).status_code == 200
        assert site.call("GET", "/v1/spaces/none/feed", None).status_code == 401
        assert site.post(who=None).status_code == 401
    finally:
        site.client.close()


def test_many_at_once_are_all_taken(site: Site, time: FakeTime) -> None:
    head = {"Authorization": f"Bearer {site.tokens['author']}"}
    requests = [
        (
            "POST",
            POSTS,
            {"json": {"thread": "t", "content": str(k)}, "headers": head | {"Idempotency-Key": f"k{k // 2}"}},
        )
        for k in range(100)
    ]
    answers = site.client.together(requests)
    assert sorted(answer.status_code for answer in answers) == [202] * 50 + [422] * 50
    time.advance(1000)
    work(site.gateway)
    assert len(site.call("GET", "/v1/spaces/forum/feed?limit=500").json()["items"]) == 50


def test_a_halted_clock_is_a_refusal_for_everybody(site: Site, time: FakeTime) -> None:
    work(site.gateway)
    time.step(3600)
    answers = (site.post(f"k{k}") for k in range(50))  # the clock is read once per tick
    answer = next(answer for answer in answers if answer.status_code != 202)
    assert (answer.status_code, answer.json()["error"]) == (503, "halted")
    assert site.call("GET", "/healthz", None).status_code == 200  # a restart would not help
    assert "Halted" in site.call("GET", "/operator", "operator").text
