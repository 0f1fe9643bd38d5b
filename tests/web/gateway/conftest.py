"""Gateways on both databases, with a clock that tests can move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.web.gateway.helpers import FakeTime, open_gateway

from peerveil.web.gateway import Gateway

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database without a gateway, once for each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "gateway.db")
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return str(tmp_path / "gateway.db")


@pytest.fixture
def make(time: FakeTime) -> Iterator[Callable[..., Gateway]]:
    """Opens gateways, and closes them."""
    opened: list[Gateway] = []

    def one(where: str, kind: type[Gateway] = Gateway, **settings: Any) -> Gateway:
        found = open_gateway(where, time, kind, **settings)
        opened.append(found)
        return found

    yield one
    for gateway in opened:
        gateway.close()
