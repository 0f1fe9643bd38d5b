"""The person's page in a real Chromium, on a real server: what goes over the wire, and where the answer does not stay."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import delete, select
from tests.web.collect.server import Server
from tests.web.collect.test_campaign import width

from peerveil.web.collect import Campaign, Store
from peerveil.web.collect.tables import answers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

# the true answers are words that stand nowhere else; the terms name them, the person gives them
SECRETS = ["certainly-not-so", "it-is-indeed", "who-can-tell"]
TERMS: dict[str, Any] = {
    "id": "lake",
    "title": "Birds of the lake",
    "question": "Is there a bird?",
    "classes": SECRETS,
    "tasks": [{"id": str(i), "text": f"picture {i}"} for i in range(12)],
    "epsilon": "1/10",
    "answers": 8,
}
RECORDS = """async () => {
  const names = (await indexedDB.databases()).map((one) => one.name);
  if (names.join() !== "peerveil") throw new Error(names);
  const done = (request) => new Promise((resolve) => { request.onsuccess = () => resolve(request.result); });
  const records = (await done(indexedDB.open("peerveil", 1))).transaction("records").objectStore("records");
  const [keys, values] = await Promise.all([done(records.getAllKeys()), done(records.getAll())]);
  return Object.fromEntries(keys.map((key, place) => [key, values[place]]));
}"""
"""Everything that the page keeps in IndexedDB."""


class Desk:
    """A server with two campaigns, and a browser that writes down all that it sends."""

    def __init__(self, folder: Path, browser: Browser) -> None:
        self.folder, self.browser = folder, browser
        self.url = str(folder / "collect.db")
        with Store(self.url, create=True) as store:
            store.add(Campaign.from_dict(TERMS))
            votes = {"items": ["tea", "milk", "juice", "wine", "beer"], "method": "items", "questions": 2, "epsilon": 1}
            store.add(
                Campaign.from_dict({"id": "drinks", "title": "Drinks", "kind": "rankings", "answers": 1, **votes})
            )
        self.server = Server(self.url, folder)
        self.requests: list[Any] = []

    def invite(self, campaign: str = "lake") -> str:
        with Store(self.url) as store:
            return store.invite(store.known(campaign), 1)[0]

    def open(self, token: str, campaign: str = "lake", context: Any = None) -> Page:
        page: Page = (context or self.browser.new_context()).new_page()
        page.on("request", lambda request: self.requests.append(request))
        page.on("pageerror", lambda error: pytest.fail(str(error)))
        page.goto(f"{self.server.base}/c/{campaign}#{token}")
        return page

    def posts(self) -> list[Any]:
        return [request for request in self.requests if request.method == "POST"]

    def stored(self) -> list[tuple[int, int]]:
        with Store(self.url) as store, store.database.reading() as connection:
            rows = connection.execute(select(answers.c.question, answers.c.code))
            return [(row.question, row.code) for row in rows]

    def count(self, campaign: str) -> int:
        with Store(self.url) as store:
            return int(store.participation(store.known(campaign))["reports"])


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory, chromium: Browser) -> Iterator[Desk]:
    made = Desk(tmp_path_factory.mktemp("desk"), chromium)
    yield made
    made.server.stop()


@pytest.fixture
def desk(serving: Desk, chromium: Browser) -> Iterator[Desk]:
    """The server as if nobody had reported yet."""
    serving.requests = []
    with Store(serving.url) as store, store.database.writing("open") as connection:
        connection.execute(delete(answers))
    yield serving
    for context in [c for c in chromium.contexts if any("127.0.0.1" in p.url for p in c.pages)]:
        context.close()


def answer(page: Page, choice: int) -> None:
    page.wait_for_selector("#question:visible")
    before = page.inner_text("#place")
    page.keyboard.press(str(choice + 1))
    page.keyboard.press("Enter")
    page.wait_for_function("(old) => document.getElementById('place').textContent !== old"
                           " || !document.getElementById('done').hidden", arg=before)  # fmt: skip


def test_a_person_answers_by_keyboard_and_only_reports_leave(desk: Desk) -> None:
    page = desk.open(desk.invite())
    page.wait_for_selector("#begin:visible")
    assert "sent unchanged 35.5% of the time" in page.inner_text("#kept")
    assert page.url.endswith("/c/lake")  # the invitation is gone from the address
    page.focus("#begin")
    page.keyboard.press("Enter")
    for _ in range(8):
        answer(page, 1)
    page.wait_for_selector("#done:visible")
    widths = set(width(Campaign.from_dict(TERMS)).values())
    bodies = [request.post_data_buffer for request in desk.posts()]
    assert len(bodies) == 8
    assert {len(body) for body in bodies} <= widths
    labels = [json.loads(body)["label"] for body in bodies]
    assert all(set(json.loads(body)) == {"format", "task", "label"} for body in bodies)
    assert len({len(request.headers["idempotency-key"]) for request in desk.posts()}) == 1
    # with epsilon 1/10 an answer is kept 36 times in 100: eight reports that all show it would be a scandal
    assert labels.count(SECRETS[1]) < 8
    assert sorted(desk.stored()) == sorted(
        (int(json.loads(b)["task"]), SECRETS.index(json.loads(b)["label"])) for b in bodies
    )
    # all places that the answer could have gone to: addresses, other requests, storage, the page itself, the journal
    kept = json.loads(page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})"))
    assert set(kept) == {"peerveil:person", "peerveil:lake:invitation"}
    records = page.evaluate(RECORDS)
    assert list(records) == ["peerveil:0"]
    record = records["peerveil:0"]
    assert set(record) == {"agreed", "draws"}
    assert sorted(draw["line"].encode() for _, draw in record["draws"]) == sorted(bodies)
    assert all(set(draw) == {"campaign", "line", "key", "done"} for _, draw in record["draws"])
    assert page.evaluate("document.cookie") == ""
    for request in desk.requests:
        assert not any(secret in request.url for secret in SECRETS)
        if request.method != "POST":
            assert request.post_data is None
    text = page.content() + desk.server.log.read_text(encoding="utf-8")
    shown = page.inner_text("#text") if page.is_visible("#text") else page.text_content("#text")
    rest = text.replace(str(shown), "")
    assert not any(secret in rest for secret in SECRETS)
    for one in desk.requests:
        assert one.url.startswith(desk.server.base)  # no third party


def test_what_was_sent_is_shown_byte_by_byte(desk: Desk) -> None:
    page = desk.open(desk.invite())
    page.click("#begin")
    answer(page, 0)
    page.click("#show")
    assert page.get_attribute("#show", "aria-expanded") == "true"
    body = desk.posts()[0].post_data
    assert page.inner_text("#text").split("\n\n", 1)[1] == body.rstrip() or page.text_content("#text").endswith(body)  # type: ignore[union-attr]
    assert f"{len(body)} bytes" in page.inner_text("#size")


def test_a_reload_and_a_second_device_do_not_ask_again(desk: Desk) -> None:
    token = desk.invite()
    page = desk.open(token)
    page.click("#begin")
    for _ in range(3):
        answer(page, 2)
    page.reload()
    page.wait_for_selector("#begin:visible")
    assert page.inner_text("#status") == "You may give 5 answers."
    page.click("#begin")
    answer(page, 2)
    other = desk.open(token)  # a context of its own: nothing of the first device is known there
    other.click("#begin")
    for _ in range(4):
        answer(other, 0)
    other.wait_for_selector("#done:visible")
    tasks = [json.loads(request.post_data)["task"] for request in desk.posts()]
    assert len(tasks) == len(set(tasks)) == 8
    # the first device believes that answers are left; the service does not, and says so at the first attempt
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    page.wait_for_selector("#done:visible")
    assert len(desk.stored()) == 8


def test_a_lost_connection_sends_the_same_bytes_again(desk: Desk) -> None:
    page = desk.open(desk.invite())
    page.click("#begin")
    page.wait_for_selector("#question:visible")
    page.context.set_offline(True)
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    page.wait_for_selector("#failed:visible")
    page.context.set_offline(False)
    page.click("#again")
    page.wait_for_selector("#question:visible")
    first, second = desk.posts()[:2]
    assert first.post_data == second.post_data
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert len(desk.stored()) == 1


def test_a_service_that_promises_too_much_gets_nothing(desk: Desk) -> None:
    page = desk.browser.new_context().new_page()

    def lie(route: Any) -> None:
        terms = route.fetch().json()
        k = len(terms["classes"])
        terms["response"]["keep_below"] = str(int(terms["response"]["keep_below"]) + k - 1)
        terms["response"]["share"] = str(int(terms["response"]["share"]) - 1)
        route.fulfill(json=terms)

    page.route("**/v1/campaigns/lake", lie)
    page.goto(f"{desk.server.base}/c/lake#{desk.invite()}")
    page.wait_for_selector("#failed:visible")
    assert "nothing will be sent" in page.inner_text("#failure")
    assert not page.is_visible("#begin")


def test_votes_and_an_unknown_invitation(desk: Desk) -> None:
    page = desk.open("pv_" + "A" * 43, "drinks")
    page.wait_for_selector("#invitation:visible")
    assert "not known" in page.inner_text("#status")
    page.fill("#token", desk.invite("drinks"))
    page.keyboard.press("Enter")
    page.wait_for_selector("#begin:visible")
    page.click("#begin")
    page.wait_for_selector("#question:visible")
    assert "in the upper half of your ranking of 5?" in page.inner_text("#about")
    page.click("text=It is exactly in the middle")
    page.click("#send")
    page.wait_for_selector("#done:visible")
    assert set(json.loads(desk.posts()[0].post_data)) == {"protocol", "question", "bits"}


def test_every_control_has_a_name_and_an_order(desk: Desk) -> None:
    """What a screen reader gets: named controls in one group, the question announced, nothing hidden behind a picture."""
    page = desk.open(desk.invite())
    page.click("#begin")
    page.wait_for_selector("#question:visible")
    tree = page.locator("main").aria_snapshot()
    assert 'group "Is there a bird? picture' in tree
    assert tree.count("- radio ") == 3
    for name in SECRETS:
        assert f'radio "{name}"' in tree
    assert 'button "Send"' in tree
    assert page.evaluate("document.activeElement.id") == "legend"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.type") == "radio"
    assert page.evaluate("document.documentElement.lang") == "en"


def test_it_fits_a_phone(desk: Desk) -> None:
    context = desk.browser.new_context(viewport={"width": 320, "height": 640}, is_mobile=True, has_touch=True)
    page = desk.open(desk.invite(), context=context)
    page.wait_for_selector("#begin:visible")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.tap("#begin")
    page.wait_for_selector("#question:visible")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert page.locator(".choice").first.bounding_box()["height"] >= 44  # type: ignore[index]


def test_another_site_shows_it_by_one_tag_if_the_campaign_allows_it(desk: Desk) -> None:
    """The site around it is on another port: another origin, which cannot look inside."""
    token = ""

    class Forum(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            tag = f'<script src="{desk.server.base}/embed.js" data-campaign="shown" data-invitation="{token}"></script>'
            body = f"<!doctype html><title>Forum</title><p>Forum</p>{tag}".encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Forum) as forum:
        threading.Thread(target=forum.serve_forever, daemon=True).start()
        port = forum.server_address[1]
        with Store(desk.url) as store:
            store.add(Campaign.from_dict({**TERMS, "id": "shown", "embed": [f"http://127.0.0.1:{port}"]}))
            token = store.invite(store.known("shown"), 1)[0]
        for host, works in (("127.0.0.1", True), ("localhost", False)):
            around = desk.browser.new_context().new_page()
            around.goto(f"http://{host}:{port}/")
            frame = around.frame_locator("iframe")
            if works:
                frame.locator("#begin").click()
                frame.locator(".choice").first.click()
                frame.locator("#send").click()
                frame.locator("#show").wait_for()
                assert around.evaluate("document.querySelector('iframe').contentDocument") is None
            else:
                around.wait_for_timeout(500)
                assert frame.locator("#begin").count() == 0
        forum.shutdown()
    assert desk.count("shown") == 1
