"""A console without a network or processes of its own: browsers are clients with cookies, the workers work when told."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.web.common.client import Client

from peerveil.web.common import Journal
from peerveil.web.console import ConsoleApp, ConsoleSettings
from peerveil.web.console.jobs import QUEUES
from peerveil.web.console.server import create_app
from peerveil.web.console.worker import JobWorker

if TYPE_CHECKING:
    from pathlib import Path

    import httpx
    from starlette.applications import Starlette

ADDRESS = "http://127.0.0.1:8000"
SENTENCE = "a sentence that nobody guesses"


class Browser(Client):
    """Somebody's browser: its own cookies, forms sent with the token of the page that they stand on."""

    def __init__(self, app: Starlette, address: str) -> None:
        super().__init__(app, address, start=False)

    def send(self, page: str, action: str, fields: dict[str, str] | None = None, **more: Any) -> httpx.Response:
        """Open a page, and send one of its forms."""
        return self.post(action, data={"form_token": token_of(self.get(page).text), **(fields or {})}, **more)

    def add(self, name: str, content: bytes) -> httpx.Response:
        """Upload a file."""
        return self.send("/data", "/data/upload", files={"file": (name, content)})


class LocalConsole:
    """A console in a folder."""

    def __init__(self, folder: Path, *, local: bool = True, db: str | None = None, **settings: Any) -> None:
        self.settings = ConsoleSettings.make(folder / "console", db, **settings)
        self.journal = io.StringIO()
        self.app = ConsoleApp(self.settings, local=local)
        self._browsers: list[Browser] = []
        self.asgi = create_app(self.app, Journal("console", self.journal), workers=False)

    def browser(self, address: str = ADDRESS) -> Browser:
        """A new browser."""
        made = Browser(self.asgi, address)
        self._browsers.append(made)
        return made

    def close(self) -> None:
        for browser in self._browsers:
            browser.close()
        self.app.close()

    def work(self, *queues: str) -> None:
        """Do all jobs of some queues: files and checks, and runs; simulations only if they are named."""
        for queue in queues or ("checks", "runs"):
            assert queue in QUEUES.values()
            worker = JobWorker(self.app, queue, Journal("console", self.journal))
            while worker.work():
                pass

    def joined(self, name: str, role: str) -> Browser:
        """The browser of somebody new with a role, signed in."""
        from peerveil.web.console import users

        token = users.invite(self.app, users.User("", "", "operator"), role)
        browser = self.browser()
        answer = browser.send(f"/join/{token}", f"/join/{token}", {"name": name, "password": SENTENCE})
        assert answer.status_code == 303, answer.text
        return browser


def token_of(page: str) -> str:
    """The token that the forms of a page carry."""
    match = re.search(r'name="form_token" value="([0-9a-f]+)"', page)
    return match[1] if match else ""


def where(answer: httpx.Response) -> str:
    """Where an answer leads."""
    assert answer.status_code == 303, (answer.status_code, said(answer))
    return urlsplit(answer.headers["location"]).path


def said(answer: httpx.Response) -> str:
    """What a page says, without its tags."""
    text = re.sub(r"<(script|style|svg).*?</\1>", " ", answer.text, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())
