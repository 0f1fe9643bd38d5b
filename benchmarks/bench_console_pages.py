"""How long the console takes to answer: pages, and the module in which a slider moves, over real HTTP on a real server."""

from __future__ import annotations

import http.client
import re
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.timing import Row

PAGE, EXPLORED = 0.2, 0.3  # seconds that were asked for
TIMES = 20
PATHS = ("/", "/data", "/release", "/runs", "/ledger", "/users", "/services")
EPSILONS = ("0.1", "0.2", "0.3", "0.5", "1", "2", "3", "5", "10")


class Visitor:
    """One connection that keeps its cookie, as a browser does."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        self._cookie = ""

    def ask(self, path: str, form: dict[str, str] | None = None) -> tuple[float, str]:
        """Seconds until the whole answer is there, and its text."""
        headers = {"Cookie": self._cookie} if self._cookie else {}
        body = None
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            body = urlencode(form)
        begun = time.perf_counter()
        self._connection.request("GET" if form is None else "POST", path, body, headers)
        answer = self._connection.getresponse()
        text = answer.read().decode()
        taken = time.perf_counter() - begun
        if answer.status >= 400:
            raise RuntimeError(f"{path}: {answer.status}")
        self._cookie = (answer.getheader("Set-Cookie") or self._cookie).partition(";")[0]
        return taken, text

    def send(self, page: str, path: str, form: dict[str, str]) -> None:
        """Send a form of a page."""
        token = re.search(r'name="form_token" value="([^"]+)"', self.ask(page)[1])
        assert token is not None
        self.ask(path, {**form, "form_token": token[1]})

    def wait(self, path: str, word: str) -> str:
        """Ask until a word is gone from the page."""
        while word in (text := self.ask(path)[1]):
            time.sleep(0.2)
        return text


def bench() -> list[Row]:
    from tests.web.console.server import ConsoleServer

    with tempfile.TemporaryDirectory() as folder:
        server = ConsoleServer(Path(folder) / "console")
        try:
            return _measured(server)
        finally:
            server.stop()


def _measured(server: Any) -> list[Row]:
    visitor = Visitor(server.port)
    visitor.send("/data", "/data/synthetic", {})
    visitor.send("/ledger", "/ledger/open", {"name": "bench", "epsilon": "2"})
    visitor.wait("/data", "being read")
    for module in ("release", "timing", "calibration", "rankings", "truth"):
        visitor.wait(f"/{module}", "Simulating")  # so that nothing else works while we measure
    rows = []
    for path in PATHS:
        taken = [visitor.ask(path)[0] for _ in range(TIMES)]
        rows.append(
            Row(f"page {path}", statistics.median(taken), PAGE, "s", f"median of {TIMES}; worst {max(taken):.3f} s")
        )
    wanted = [f"/release?part=exploration&weight={weight}&epsilon={epsilon}"
              for weight in ("rating", "normalized") for epsilon in EPSILONS]  # fmt: skip
    for what in ("a setting never asked before", "a setting asked before"):
        taken = [visitor.ask(path)[0] for path in wanted]
        note = f"median of {len(taken)}; worst {max(taken):.3f} s"
        rows.append(Row(f"release: {what}", statistics.median(taken), EXPLORED, "s", note))
    return rows
