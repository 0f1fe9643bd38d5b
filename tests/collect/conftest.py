"""A real Chromium for the tests of pages and of the JavaScript module."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

STATIC = Path(__file__).parents[2] / "src" / "peerveil" / "collect" / "static"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The browser of this session; without one, tests are skipped here and fail in CI."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        missing = "no Chromium was found; install one (Debian: apt install chromium)"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    with tempfile.TemporaryDirectory(prefix="pv-chromium-") as home, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS, env={**os.environ, "HOME": home})
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def module(chromium: Browser) -> Iterator[Page]:
    """A page on which ``peerveil`` is the module, loaded under the page's own strict policy; nothing else can be reached."""
    context = chromium.new_context()
    page = context.new_page()
    policy = "default-src 'none'; script-src 'self'"

    def serve(route: Any) -> None:
        name = route.request.url.rsplit("/", 1)[1]
        if name == "":
            body = '<!doctype html><title>module</title><script type="module" src="start.js"></script>'
            route.fulfill(body=body, content_type="text/html", headers={"Content-Security-Policy": policy})
        elif name == "start.js":
            body = 'import * as peerveil from "./peerveil-client.js"; window.peerveil = peerveil;'
            route.fulfill(body=body, content_type="text/javascript")
        elif name == "peerveil-client.js":
            route.fulfill(path=STATIC / name, content_type="text/javascript")
        else:
            route.abort()

    page.route("**/*", serve)
    page.goto("http://module.test/")
    page.wait_for_function("window.peerveil")
    yield page
    context.close()
