"""The JavaScript module in a real Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

STATIC = Path(__file__).parents[3] / "src" / "peerveil" / "web" / "collect" / "static"


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
