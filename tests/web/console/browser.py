"""Somebody at a browser: opens pages, fills in forms, waits as people wait, and writes down whatever goes wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Locator, Page, Response

WAIT = 120_000  # milliseconds; machines are shared


class BrowserSession:
    """A browser at a console. ``wrong`` collects errors of scripts, requests that failed, and those to anywhere else."""

    def __init__(self, base: str, browser: Browser, **options: Any) -> None:
        self.base = base
        self.context: BrowserContext = browser.new_context(**options)
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(WAIT)
        self.wrong: list[str] = []
        self.expected = 200
        self.page.on("console", lambda said: self._said(said.type, said.text))
        self.page.on("pageerror", lambda error: self.wrong.append(f"script: {error}"))
        self.page.on("requestfailed", lambda request: self._failed(request))
        self.page.on("request", lambda request: self._asked(request.url))
        self.page.on("response", lambda response: self._answered(response))

    def _said(self, kind: str, text: str) -> None:
        # browsers write the status of the page itself into the console, too: `_answered` judges that
        if kind in ("error", "warning") and "Failed to load resource" not in text:
            self.wrong.append(f"console: {text}")

    def _failed(self, request: Any) -> None:
        # leaving a page ends what it was still asking for, and a download ends the navigation that began it
        if request.failure != "net::ERR_ABORTED":
            self.wrong.append(f"failed: {request.url} ({request.failure})")

    def _asked(self, url: str) -> None:
        if not url.startswith((f"{self.base}/", "data:")):
            self.wrong.append(f"elsewhere: {url}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400 and response.status != self.expected:
            self.wrong.append(f"status {response.status}: {response.url}")

    def open(self, path: str, status: int = 200) -> Response:
        """Go to a page, which answers with ``status``."""
        self.expected = status
        answer = self.page.goto(f"{self.base}{path}")
        assert answer is not None
        assert answer.status == status, (path, answer.status)
        return answer

    @property
    def path(self) -> str:
        """Where we are."""
        return urlsplit(self.page.url).path

    def press(self, name: str, within: Locator | None = None) -> None:
        """Press a button by its name."""
        (within or self.page).get_by_role("button", name=name, exact=True).click()

    # ---- what people do -------------------------------------------------------------------------------------------

    def add_synthetic(self) -> None:
        """Add a synthetic conference, and wait until its files are read."""
        self.open("/data")
        self.press("Add a synthetic conference")
        self.page.get_by_text("labels by 150 workers").wait_for()
        self.page.get_by_text("being read").first.wait_for(state="detached")

    def open_account(self, name: str, epsilon: str) -> None:
        """Open an account."""
        self.open("/ledger")
        self.page.get_by_label("Name").fill(name)
        self.page.get_by_label("Whole budget").fill(epsilon)
        self.press("Open account")
        self.page.get_by_role("link", name=name).wait_for()

    def explored(self, module: str, data: str = "") -> None:
        """Open a module, and wait until its simulation is there (or could not be made)."""
        self.open(f"/{module}{f'?data={data}' if data else ''}")
        self.page.locator("[data-poll]").wait_for(state="detached")

    def prepare(self, action: str, file: str, *, simulate: bool = False, **settings: str) -> str:
        """Fill in the form of an action once the page no longer changes, and wait until it was checked; the path of the run."""
        self.explored(action.partition(".")[0])
        form = self.page.locator(f'[id="form-{action}"]')
        self.page.evaluate("() => { for (const one of document.querySelectorAll('details')) one.open = true; }")
        form.locator("[name=data]").select_option(label=file)
        for name, value in settings.items():
            field = form.locator(f"[name={name}]")
            if field.evaluate("(one) => one.localName") == "select":
                field.select_option(value)
            else:
                field.fill(value)
        form.locator("button[name=simulate]" if simulate else "button:not([name])").click()
        return self.checked()

    def checked(self) -> str:
        """Wait until the run on this page was checked; its path."""
        self.page.wait_for_url("**/runs/*")
        self.page.locator("[data-poll]").wait_for(state="detached")
        return self.path

    def carry_out(self, button: str) -> None:
        """Start the run on this page, and wait for its end."""
        self.press(button)
        self.page.locator(".results").wait_for()

    def save(self, link: str) -> bytes:
        """What a link gives to be saved."""
        with self.page.expect_download() as waited:
            self.page.get_by_role("link", name=link, exact=True).click()
        return waited.value.path().read_bytes()

    def close(self) -> None:
        """Leave; nothing may have gone wrong."""
        self.context.close()
        assert self.wrong == []
