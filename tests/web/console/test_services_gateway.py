"""The gateway's page in the console: how to set one up, what is shown, and a clock in doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select, update
from tests.web.console.operator_client import OperatorConsole
from tests.web.console.test_services import said
from tests.web.gateway.helpers import KEY, SETTINGS, submit

from peerveil.web.common import Vault
from peerveil.web.gateway import Gateway, Space
from peerveil.web.gateway.tables import clock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = "/services/gateway"
SECRET = "what-nobody-may-read"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A gateway with one space, and one post that waits."""
    where = str(tmp_path / "gateway.db")
    with Gateway(where, Vault.read(KEY), create=True) as gateway:
        gateway.configure([Space.read("forum", SETTINGS)])
        submit(gateway, "a-secret-thread", SECRET, actor="a-secret-author")
    return where


@pytest.fixture
def gate(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OperatorConsole]:
    """A console that was told of it, and has its key."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PEERVEIL_KEY", KEY)
    made = OperatorConsole(tmp_path, gateway=url)
    yield made
    made.close()


def halt(url: str, seconds: int) -> list[int]:
    """The clock moved, as a worker has noticed; when posts are due."""
    with Gateway(url, Vault.read(KEY)) as gateway:
        with gateway.database.writing("halt") as connection:
            connection.execute(update(clock).values(state="step", step=seconds * 1_000_000))
        return due(gateway)


def due(gateway: Gateway) -> list[int]:
    with gateway.database.reading() as connection:
        shift = int(connection.execute(select(clock.c.shift)).scalar_one())
    with gateway.leader.looking() as memory:
        return sorted(post.due + shift for post in memory.held.values())


def test_the_page_is_the_gateways_own_and_shows_nothing_that_is_held(gate: OperatorConsole, url: str) -> None:
    page = gate.get(PAGE)
    assert page.status_code == 200
    assert Space.read("forum", SETTINGS).in_words() in said(page)
    assert "Nothing has been published yet" in said(page)
    assert "Confirm and continue" not in page.text
    assert f"peerveil gateway serve --db {url}" in said(page)
    for path in (PAGE, "/services"):
        text = gate.get(path).text
        assert not any(word in text for word in (SECRET, "a-secret-thread", "a-secret-author", KEY.split(":")[1]))


@pytest.mark.parametrize(("what", "moved"), [("step", 3600), ("pause", 0)])
def test_an_operator_confirms_a_clock_in_doubt(gate: OperatorConsole, url: str, what: str, moved: int) -> None:
    before = halt(url, 3600)
    assert "It moved by 3,600 seconds" in said(gate.get(PAGE))
    assert "Its clock is in doubt" in said(gate.get("/services"))
    for wrong in ({}, {"what": "nothing"}, {"what": ""}):
        assert gate.send(f"{PAGE}/clock", wrong).status_code == 422
    with Gateway(url, Vault.read(KEY)) as gateway:
        assert due(gateway) == before
        assert gate.send(f"{PAGE}/clock", {"what": what}).headers["location"] == f"{PAGE}?done=clock"
        assert due(gateway) == [moment + moved * 1_000_000 for moment in before]
        assert gateway.in_doubt() is None
    assert "Confirm and continue" not in gate.get(PAGE).text
    assert gate.send(f"{PAGE}/clock", {"what": what}).status_code == 409
    assert [about for did, about in gate.activity() if did == "confirmed the gateway's clock"] == [
        f"{'the clock was moved' if moved else 'time has really passed'}; held posts moved by {moved:,} s"
    ]


@pytest.mark.parametrize("key", [None, "nonsense", Vault.new_key("test")], ids=["none", "nonsense", "another"])
def test_without_its_key_the_page_says_what_to_do(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PEERVEIL_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("PEERVEIL_KEY", key)
    operator = OperatorConsole(tmp_path, gateway=url)
    try:
        page = operator.get(PAGE)
        assert page.status_code == 200
        assert "PEERVEIL_KEY: got" in said(page)
        assert "How to set it up" in said(page)
        assert operator.send(f"{PAGE}/clock", {"what": "step"}).status_code == 422
        (tmp_path / "gateway.toml").write_text('key_file = "gateway.key"\n', encoding="utf-8")
        (tmp_path / "gateway.key").write_text(KEY, encoding="utf-8")
        # the environment wins over the file, as it does for the gateway's own commands
        assert ("How to set it up" in said(operator.get(PAGE))) is (key is not None)
    finally:
        operator.close()
