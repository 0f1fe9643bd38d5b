"""A hostile service against the devices of honest people: it gets what the first terms said, and never a second draw.

The service is the real application with lies in front of it: other terms, any budget, and every report accepted. Requests
are counted at the service, by their keys: one key is one draw.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from starlette.responses import JSONResponse
from starlette.routing import Route
from tests.web.collect.test_page import answer

from peerveil.core.errors import BadInput, PeerveilError
from peerveil.web.collect import Campaign, CollectClient, Store
from peerveil.web.collect.client import TermsChanged, _service_of
from peerveil.web.collect.service import build_app
from peerveil.web.common import Journal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext, Page
    from starlette.requests import Request

PICTURE = "the picture by the lake"
ONE = {"title": "One", "question": "Is there a bird?", "classes": ["no", "yes"], "epsilon": "1/100", "answers": 1}
TWENTY = [{"id": str(i), "text": PICTURE} for i in range(20)]
DIFFERENT = [{"id": str(i), "text": f"picture {i}"} for i in range(20)]
TOKENS = ["pv_" + letter * 43 for letter in "ABC"]


class Liar:
    """The real application, whose descriptions, budgets and answers to reports are whatever the test says."""

    def __init__(self, folder: Path) -> None:
        import uvicorn

        self.store = Store(str(folder / "collect.db"), create=True)
        app = build_app(self.store, Journal("collect", io.StringIO()))
        for path, lie, method in (("", self._terms, "GET"), ("/budget", self._budget, "GET"), ("/reports", self._take, "POST")):  # fmt: skip  # noqa: E501
            app.router.routes.insert(0, Route("/v1/campaigns/{campaign}" + path, lie, methods=[method]))
        sock = socket.create_server(("127.0.0.1", 0))
        self.base = f"http://127.0.0.1:{sock.getsockname()[1]}"
        self.server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on"))
        self.thread = threading.Thread(target=self.server.run, args=([sock],), daemon=True)
        self.thread.start()
        self.tell()

    def tell(self, *, tasks: list[dict[str, str]] = TWENTY, left: Any = 50, status: int = 202, **terms: Any) -> None:
        """From now on, lie like this; what came before is forgotten only by :meth:`forget`."""
        real = Campaign.from_dict({"id": "lake", **ONE, "tasks": DIFFERENT}).described()
        self.terms: dict[str, Any] = {**real, "tasks": tasks, "state": "open", **terms}
        self.left, self.status = left, status

    def forget(self) -> None:
        self.received: list[tuple[str, dict[str, Any]]] = []
        self.tell()

    @property
    def draws(self) -> int:
        """Different draws that came: a request that is sent again has the same key."""
        return len({key for key, _ in self.received})

    async def _terms(self, _: Request) -> JSONResponse:
        return JSONResponse(self.terms)

    async def _budget(self, _: Request) -> JSONResponse:
        return JSONResponse({"left": self.left, "reported": []})

    async def _take(self, request: Request) -> JSONResponse:
        self.received.append((request.headers["idempotency-key"], json.loads(await request.body())))
        return JSONResponse({"accepted": True, "message": "a lie"}, self.status)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(30)
        self.store.close()


@pytest.fixture(scope="module")
def listening(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Liar]:
    made = Liar(tmp_path_factory.mktemp("liar"))
    yield made
    made.stop()


@pytest.fixture
def liar(listening: Liar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Liar:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    listening.forget()
    return listening


@pytest.fixture
def device(chromium: Browser) -> Iterator[BrowserContext]:
    context = chromium.new_context()
    context.set_default_timeout(20_000)
    yield context
    context.close()


def opened(liar: Liar, device: BrowserContext, token: str = TOKENS[0], campaign: str = "lake") -> Page:
    page = device.new_page()
    page.on("pageerror", lambda error: pytest.fail(str(error)))
    page.goto(f"{liar.base}/c/{campaign}#{token}")
    page.wait_for_selector("#begin:visible, #done:visible, #failed:visible")
    return page


def give_all(page: Page, most: int = 12) -> None:
    """Answer whatever is asked."""
    if page.is_visible("#begin"):
        page.click("#begin")
    for _ in range(most):
        page.wait_for_selector("#question:visible, #done:visible, #failed:visible")
        if not page.is_visible("#question"):
            return
        answer(page, 1)


def answer_all(liar: Liar, token: str = TOKENS[0], **more: Any) -> list[str]:
    """Answer whatever is listed, by a new client object; what was sent."""
    client, lines = CollectClient(liar.base, "lake", token, **more), []
    for task, _ in client.tasks[:12]:
        try:
            lines.append(client.answer(task, "yes"))
        except PeerveilError:
            continue
    return lines


def stored() -> list[str]:
    """The lines that the Python device keeps."""
    with contextlib.closing(sqlite3.connect(Path(os.environ["XDG_STATE_HOME"]) / "peerveil" / "device.db")) as db:
        return [line for (line,) in db.execute("SELECT line FROM draws")]


def test_one_picture_under_twenty_ids_is_one_question_on_the_page(liar: Liar, device: BrowserContext) -> None:
    give_all(opened(liar, device))
    assert liar.draws == 1


def test_one_picture_under_twenty_ids_is_one_question_in_python(liar: Liar) -> None:
    lines = answer_all(liar)
    assert liar.draws == 1
    assert len(lines) == 12
    assert len(set(lines)) == 1


def test_twenty_pictures_and_a_large_budget_give_what_the_terms_say_on_the_page(
    liar: Liar, device: BrowserContext
) -> None:
    liar.tell(tasks=DIFFERENT)
    give_all(opened(liar, device))
    assert liar.draws == 1


def test_twenty_pictures_and_a_large_budget_give_what_the_terms_say_in_python(liar: Liar) -> None:
    liar.tell(tasks=DIFFERENT)
    answer_all(liar)
    assert liar.draws == 1


def test_neither_a_reload_nor_a_fresh_invitation_draws_again_on_the_page(liar: Liar, device: BrowserContext) -> None:
    page = opened(liar, device)
    give_all(page)
    page.reload()
    page.wait_for_selector("#begin:visible, #done:visible")
    give_all(page)
    give_all(opened(liar, device, TOKENS[1]))
    assert liar.draws == 1


def test_neither_a_new_client_nor_a_fresh_invitation_draws_again_in_python(liar: Liar) -> None:
    lines = answer_all(liar) + answer_all(liar) + answer_all(liar, TOKENS[1])
    assert liar.draws == 1
    assert len(set(lines)) == 1


def test_a_question_that_only_looks_the_same_is_the_same(liar: Liar, device: BrowserContext) -> None:
    """Spaces, invisible characters and other ids: a person sees one question."""
    same = [PICTURE, f" {PICTURE}", PICTURE.replace(" ", "\u00a0\n"), f"the\u200b{PICTURE[3:]}", f"{PICTURE}\ufe0f"]
    liar.tell(tasks=[{"id": str(i), "text": text} for i, text in enumerate(same)], answers=5)
    give_all(opened(liar, device))
    assert liar.draws == 1
    answer_all(liar)
    assert liar.draws == 2  # the two devices' own


def test_terms_that_grow_after_consent_give_no_more_on_the_page(liar: Liar, device: BrowserContext) -> None:
    liar.tell(tasks=DIFFERENT, answers=2)
    give_all(opened(liar, device), most=1)
    liar.tell(tasks=DIFFERENT, answers=50)
    page = opened(liar, device)
    assert "terms of this campaign have changed" in page.inner_text("#changed")
    assert "up to 2 answers" in page.inner_text("#together")
    give_all(page)
    assert liar.draws == 2
    bolder = Campaign.from_dict({"id": "lake", **ONE, "epsilon": 5, "tasks": DIFFERENT}).described()
    liar.tell(**{key: bolder[key] for key in ("epsilon", "response", "tasks")}, answers=50)
    page = opened(liar, device)
    assert "nothing will be sent" in page.inner_text("#failure")
    assert liar.draws == 2


def test_terms_that_grow_after_consent_give_no_more_in_python(liar: Liar) -> None:
    liar.tell(tasks=DIFFERENT, answers=2)
    CollectClient(liar.base, "lake", TOKENS[0]).answer("0", "yes")
    liar.tell(tasks=DIFFERENT, answers=50)
    answer_all(liar)
    assert liar.draws == 1  # refused: nobody agreed to these terms
    client = CollectClient(liar.base, "lake", TOKENS[0])
    with pytest.raises(TermsChanged, match="agree"):
        client.answer("1", "yes")
    client.agree()
    assert client.budget()["left"] == 1
    answer_all(liar)
    assert liar.draws == 2
    bolder = Campaign.from_dict({"id": "lake", **ONE, "epsilon": 5, "tasks": DIFFERENT}).described()
    liar.tell(**{key: bolder[key] for key in ("epsilon", "response", "tasks")}, answers=50)
    with pytest.raises(TermsChanged, match="epsilon"):
        CollectClient(liar.base, "lake", TOKENS[0]).agree()


def test_a_campaign_under_another_name_does_not_ask_the_same_again(liar: Liar, device: BrowserContext) -> None:
    give_all(opened(liar, device))
    give_all(opened(liar, device, campaign="pond"))
    assert liar.draws == 1
    answer_all(liar)
    with pytest.raises(BadInput, match="answered on this device before"):
        CollectClient(liar.base, "pond", TOKENS[0]).answer("3", "no")
    assert liar.draws == 2  # the two devices' own


def test_two_tabs_share_one_cap(liar: Liar, device: BrowserContext) -> None:
    liar.tell(tasks=DIFFERENT)
    pages = [opened(liar, device) for _ in range(2)]
    for page in pages:
        page.click("#begin")
        page.wait_for_selector("#question:visible")
        page.keyboard.press("1")
    # both submit in one moment: neither waits for what the other did
    for page in pages:
        page.evaluate("setTimeout(() => document.getElementById('question').requestSubmit(), 0)")
    for page in pages:
        page.wait_for_selector("#done:visible, #failed:visible")
    assert liar.draws == 1


def test_two_processes_share_one_cap(liar: Liar) -> None:
    liar.tell(tasks=DIFFERENT, answers=3)
    clients = [CollectClient(liar.base, "lake", TOKENS[0]) for _ in range(8)]

    def work(place: int) -> None:
        with contextlib.suppress(BadInput):
            clients[place].answer(str(place), "yes")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert liar.draws == 3


def test_a_draw_that_could_not_be_sent_is_sent_as_it_was_drawn_on_the_page(liar: Liar, device: BrowserContext) -> None:
    liar.tell(status=503)
    page = opened(liar, device)
    page.click("#begin")
    page.wait_for_selector("#question:visible")
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    page.wait_for_selector("#failed:visible")
    page.close()  # as if it was killed after the draw
    liar.tell()
    page = opened(liar, device)
    page.click("#begin")
    page.wait_for_selector("#done:visible")
    assert len(liar.received) == 2
    assert liar.received[0] == liar.received[1]


def test_a_draw_that_could_not_be_sent_is_sent_as_it_was_drawn_in_python(liar: Liar) -> None:
    """The process ends between the draw and the request; the next one sends what was drawn, whatever is answered now."""
    client = CollectClient(liar.base, "lake", TOKENS[0])
    process = os.fork()
    if process == 0:
        client._deliver = lambda *_: os._exit(9)  # type: ignore[method-assign]
        with contextlib.suppress(BaseException):
            client.answer("0", "yes")
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 9
    assert liar.draws == 0
    (drawn,) = stored()
    assert CollectClient(liar.base, "lake", TOKENS[0]).answer("5", "no") == drawn
    assert liar.draws == 1


def test_somebody_else_on_the_device_answers_for_themselves(liar: Liar, device: BrowserContext) -> None:
    give_all(opened(liar, device))
    page = opened(liar, device, TOKENS[1])
    assert page.is_visible("#done")
    page.click("#other summary")
    page.click("#forget")
    page.wait_for_selector("#begin:visible")
    give_all(page)
    assert liar.draws == 2
    first = answer_all(liar)
    before = CollectClient(liar.base, "lake", TOKENS[0])
    answer_all(liar, TOKENS[1], new_person=True)
    answer_all(liar, TOKENS[1])
    assert liar.draws == 4
    assert before.answer("1", "yes") == first[0]  # an object of the person before keeps to that person's record
    assert liar.draws == 4


def test_a_budget_that_is_no_number_opens_nothing(liar: Liar, device: BrowserContext) -> None:
    page = device.new_page()
    for left in ("50", None, {"a": 1}, -3, 1.5):
        liar.tell(tasks=DIFFERENT, left=left)
        page.goto(f"{liar.base}/c/lake#{TOKENS[0]}")
        page.reload()
        page.wait_for_selector("#done:visible")
        assert CollectClient(liar.base, "lake", TOKENS[0]).budget()["left"] <= 0
    assert liar.draws == 0


def test_terms_without_a_cap_get_nothing(liar: Liar, device: BrowserContext) -> None:
    liar.tell(answers=None)  # other kinds: test_module
    assert "nothing will be sent" in opened(liar, device).inner_text("#failure")
    for answers in ("50", None, 0, 1.5, True):
        liar.tell(answers=answers)
        with pytest.raises(BadInput, match="answers"):
            CollectClient(liar.base, "lake", TOKENS[0])


@pytest.mark.parametrize("storage", ["localStorage", "indexedDB"])
def test_a_browser_that_keeps_nothing_sends_nothing(liar: Liar, device: BrowserContext, storage: str) -> None:
    device.add_init_script(f"Object.defineProperty(window, '{storage}', {{ get() {{ throw new Error('closed'); }} }})")
    page = opened(liar, device)
    assert "nothing will be sent" in page.inner_text("#failure")


def test_a_comparison_asked_both_ways_is_one_question_on_the_page(liar: Liar, device: BrowserContext) -> None:
    votes = {"id": "lake", "title": "Drinks", "kind": "rankings", "epsilon": 1, "method": "pairs", "questions": 2}
    described = Campaign.from_dict({**votes, "items": ["tea", "milk", "juice", "wine"], "answers": 2}).described()
    liar.terms = {**described, "state": "open", "asked": [[0, 1], [1, 0]]}
    give_all(opened(liar, device))
    assert liar.draws == 1


def test_one_ranking_is_one_report_whatever_the_protocol(liar: Liar) -> None:
    """The same items again, in another order and with other shared questions: the first report is all there is."""
    items = ["tea", "milk", "juice", "wine"]
    votes = {"id": "lake", "title": "Drinks", "kind": "rankings", "epsilon": 1, "method": "pairs", "questions": 2}
    lines = []
    for seed, names in enumerate((items, items[::-1])):
        described = Campaign.from_dict({**votes, "items": names, "seed": seed, "answers": 2}).described()
        liar.terms = {**described, "state": "open"}
        client = CollectClient(liar.base, "lake", TOKENS[0])
        client.agree()
        lines.append(client.vote([0, 1, 2, 3]))
    assert lines[0] == lines[1]
    assert liar.draws == 1


def test_a_service_has_one_spelling() -> None:
    spellings = ("http://a.org", "HTTP://A.org/", "http://a.org:80", "http://a.org:080")
    assert len({_service_of(url) for url in spellings}) == 1
    assert _service_of("http://a.org/?") == "http://a.org:80"
    for url in ("http://a.org/x/..", "http://a.org/./", "http://a.org//x", "http://me@a.org", "http://[::1"):
        with pytest.raises(BadInput, match="url"):
            _service_of(url)
