"""An operator at a console: forms of the services' pages, sent as somebody with a role."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.web.console.clients import LocalConsole, token_of

from peerveil.web.console.pages.request import COOKIE

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

LABELS: dict[str, str] = {
    "kind": "labels",
    "id": "lake",
    "title": "Birds of the lake",
    "question": "Is there a bird?",
    "classes": "no\nyes",
    "tasks": "a\nb\nc",
    "epsilon": "1",
    "unit": "answer",
    "answers": "2",
    "accuracy": "0.8",
    "publish": "yes",
}
RANKINGS: dict[str, str] = {
    "kind": "rankings",
    "id": "drinks",
    "title": "Drinks",
    "items": "tea\nmilk\njuice\nwine",
    "method": "pairs",
    "questions": "2",
    "seed": "7",
    "epsilon": "1/2",
    "unit": "answer",
    "answers": "1",
    "publish": "yes",
}


class OperatorConsole(LocalConsole):
    """A console, and somebody who sends its forms."""

    def __init__(self, folder: Path, **more: Any) -> None:
        super().__init__(folder, **more)
        self.client = self.browser("http://127.0.0.1")

    def get(self, path: str) -> httpx.Response:
        return self.client.get(path)

    def send(self, path: str, form: dict[str, str], **more: Any) -> httpx.Response:
        """Send a form with its token, as the page has it."""
        return self.client.post(path, data={"form_token": self.token(), **form}, **more)

    def token(self) -> str:
        page = self.get("/users")
        token = token_of(page.text if page.status_code == 200 else self.get("/me").text)
        assert token
        return token

    def become(self, role: str) -> None:
        """Somebody else is signed in."""
        self.client = self.joined(f"the {role}", role)

    def carry(self, cookie: str) -> None:
        """The browser's cookie is another one."""
        self.client.http.cookies.set(COOKIE, cookie)

    def make(self, form: dict[str, str]) -> None:
        """A new campaign."""
        answer = self.send("/services/new-campaign", {**form, "step": "create"})
        assert answer.headers.get("location") == f"/services/collect/{form['id']}?done=campaign", answer.text

    def activity(self) -> list[tuple[str, str]]:
        return [(entry.action, entry.subject) for entry in self.app.activity()]
