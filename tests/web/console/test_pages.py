"""Every page, wide and narrow, light and dark: our accessibility rules, the keyboard, no errors, nobody else asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.web.console.accessibility import faults, walk
from tests.web.console.browser import BrowserSession
from tests.web.console.server import ConsoleServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow

WIDTHS = (1100, 380)
PLACES: dict[str, str] = {}
"""Addresses that only the fixture knows, by the names that stand in PAGES."""

MODULES = ("release", "timing", "calibration", "rankings", "truth")
PAGES = {
    "front": "/",
    "data": "/data",
    "file": "{reviews}",
    "columns": "{reviews}?kind=labels",
    "not readable": "{bad}",
    **{module: f"/{module}" for module in MODULES},
    "runs": "/runs",
    "ready": "{ready}",
    "refused": "{refused}",
    "simulation": "{simulated}",
    "done": "{done}",
    "done, public": "{done}?view=public",
    "audit": "{audit}",
    "ledger": "/ledger",
    "account": "/ledger/account?name=Synthetic%202026",
    "verify": "/ledger/verify",
    "people": "/users",
    "me": "/me",
    "services": "/services",
}
REFUSALS = {"/nowhere": 404, "/runs/nothing": 404, "/release?data=nothing": 404, "/release?epsilon=7": 422}
WITH_DATA = {
    "release": "reviews",
    "calibration": "reviews",
    "timing": "events",
    "rankings": "rankings",
    "truth": "labels",
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, chromium: Browser) -> Iterator[BrowserSession]:
    """A console with a synthetic conference, an account, and a run in each state that stays."""
    server = ConsoleServer(tmp_path_factory.mktemp("pages") / "console")
    console = BrowserSession(server.base, chromium)
    console.add_synthetic()
    for kind in set(WITH_DATA.values()):
        link = console.page.get_by_role("link", name=f"synthetic: {kind}")
        PLACES[kind] = str(link.get_attribute("href"))
    broken = {"name": "broken.csv", "mimeType": "text/csv", "buffer": b"a,b\n1,\n"}
    console.page.get_by_label("File, at most").set_input_files(broken)  # type: ignore[arg-type]
    console.press("Upload")
    console.page.locator("[data-poll]").wait_for(state="detached")
    PLACES["bad"] = console.path
    console.open_account("Synthetic 2026", "2")
    PLACES["ready"] = console.prepare("release.publish", "synthetic: reviews", epsilon="1")
    PLACES["refused"] = console.prepare("release.publish", "synthetic: reviews", epsilon="5")
    PLACES["simulated"] = console.prepare("release.publish", "synthetic: reviews", simulate=True, epsilon="5")
    console.carry_out("Simulate")
    PLACES["done"] = console.prepare("release.publish", "synthetic: reviews", epsilon="1/2", weight="miscalibration")
    console.carry_out("Spend and run")
    PLACES["audit"] = console.prepare("timing.audit", "synthetic: events")
    console.carry_out("Run")
    yield console
    console.close()
    server.stop()


def examine(console: BrowserSession, tabbing: bool = True) -> list[str]:
    """What the rules find on the page that is open, in all four ways to show it."""
    console.page.wait_for_load_state("load")  # unstyled pages break every rule
    found = []
    for width in WIDTHS:
        console.page.set_viewport_size({"width": width, "height": 900})
        for scheme in ("light", "dark"):
            console.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            found += [f"{width} {scheme}: {fault}" for fault in faults(console.page)]
        if tabbing and width == WIDTHS[0]:
            found += walk(console.page)
    return found


@pytest.mark.parametrize("name", PAGES)
def test_page(session: BrowserSession, name: str) -> None:
    if name in MODULES:
        session.explored(name)
    answer = session.open(PAGES[name].format(**PLACES))
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not examine(session)
    assert session.wrong == []


@pytest.mark.parametrize(("path", "status"), REFUSALS.items())
def test_refusals_are_pages_too(session: BrowserSession, path: str, status: int) -> None:
    session.explored("release")  # settings are checked where there is something to show
    session.open(path, status)
    assert not examine(session)
    assert session.wrong == []


def test_titles_distinguish_pages(session: BrowserSession) -> None:
    titles: dict[str, str] = {}
    for name, path in PAGES.items():
        if name in ("columns", "done, public"):  # other views of the same page
            continue
        session.open(path.format(**PLACES))
        title = session.page.title()
        assert title not in titles, (name, titles[title])
        titles[title] = name


def test_a_module_whose_simulation_is_running(session: BrowserSession) -> None:
    session.page.route(
        "**/rankings*", lambda route: route.continue_() if route.request.is_navigation_request() else None
    )
    try:
        session.open(f"/rankings?data={PLACES['rankings'].rsplit('/', 1)[1]}")
        assert not examine(session, tabbing=False)
    finally:
        session.page.unroute_all(behavior="ignoreErrors")


@pytest.mark.slow
@pytest.mark.parametrize(("module", "kind"), WITH_DATA.items())
def test_module_with_data(session: BrowserSession, module: str, kind: str) -> None:
    session.explored(module, PLACES[kind].rsplit("/", 1)[1])
    session.page.locator("#exploration").wait_for()
    assert not examine(session)
    session.page.set_viewport_size({"width": WIDTHS[1], "height": 700})
    assert walk(session.page) == []
    assert session.wrong == []


# ---- with people ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleServer]:
    server = ConsoleServer(tmp_path_factory.mktemp("signed") / "console", "--sign-in")
    yield server
    server.stop()


def join(console: BrowserSession, link: str, name: str) -> None:
    console.open(link.removeprefix(console.base))
    assert not examine(console)
    console.page.get_by_label("Name").fill(name)
    console.page.get_by_label("Password").fill("kites fly over lakes")
    console.press("Join")
    console.page.get_by_role("button", name="Sign out").wait_for()


def invite(console: BrowserSession) -> None:
    """Create invitation, and wait until its page is there with its style."""
    console.press("Create invitation")
    console.page.get_by_text("Send this link").wait_for()
    console.page.wait_for_load_state("load")


def test_pages_of_people(signed: ConsoleServer, chromium: Browser) -> None:
    operator, reader = BrowserSession(signed.base, chromium), BrowserSession(signed.base, chromium)
    link = next(word for word in signed.said().split() if "/join/" in word)
    join(operator, link, "Ada")
    examined: list[Callable[[], object]] = [
        lambda: operator.open("/users"),
        lambda: invite(operator),
        lambda: operator.open("/me"),
        lambda: operator.open("/"),
    ]
    for step in examined:
        step()
        assert not examine(operator)
    operator.open("/users")
    invite(operator)
    join(reader, operator.page.locator(".callout pre code").inner_text(), "Rita")
    for path in ("/", "/release", "/ledger", "/runs", "/me"):
        reader.open(path)
        assert not examine(reader)
    reader.open("/data", 403)
    assert not examine(reader)
    operator.open("/users")
    operator.page.get_by_label("Role of rita").wait_for()
    assert not examine(operator)
    reader.open("/")
    reader.press("Sign out")
    reader.page.get_by_label("Password").wait_for()
    assert not examine(reader)
    reader.expected = 403
    reader.page.get_by_label("Name").fill("Rita")
    reader.page.get_by_label("Password").fill("birds fly over lakes")
    reader.press("Sign in")
    reader.page.get_by_text("the name or the password is wrong").wait_for()
    assert not examine(reader)
    operator.close()
    reader.close()
