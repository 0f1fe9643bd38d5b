"""A console without a network, for the tests of the services' pages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.services.client import Client

from peerveil.console import Settings
from peerveil.console.people import begin, register
from peerveil.console.web.app import Console, create_app
from peerveil.console.web.visit import COOKIE
from peerveil.services import Journal

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


class Desk:
    """A console, and somebody who sends its forms."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self.console = Console(Settings.make(folder / "console", **more))
        self.client = Client(create_app(self.console, Journal("console"), workers=False), "http://127.0.0.1")
        self.cookie = ""

    def close(self) -> None:
        self.client.close()

    def get(self, path: str) -> httpx.Response:
        return self.client.get(path, headers=self._who())

    def send(self, path: str, form: dict[str, str], **more: Any) -> httpx.Response:
        """Send a form with its token, as the page has it."""
        return self.client.post(path, data={"form_token": self.token(), **form}, headers=self._who(), **more)

    def token(self) -> str:
        found = re.search(
            r'name="form_token" value="([0-9a-f]{64})"', self.get("/runs" if self.cookie else "/data").text
        )
        assert found is not None
        return found[1]

    def become(self, role: str) -> None:
        """Somebody else is signed in."""
        house = self.console.house
        with house.database.writing("take") as connection:
            person = register(house, f"the {role}", "a sentence that is long", role, connection, "")
            self.cookie = begin(connection, person)

    def make(self, form: dict[str, str]) -> None:
        """A new campaign."""
        answer = self.send("/services/new-campaign", {**form, "step": "make"})
        assert answer.headers.get("location") == f"/services/collect/{form['id']}?done=campaign", answer.text

    def trail(self) -> list[tuple[str, str]]:
        return [(line.what, line.about) for line in self.console.house.trail()]

    def _who(self) -> dict[str, str]:
        return {"cookie": f"{COOKIE}={self.cookie}"} if self.cookie else {}
