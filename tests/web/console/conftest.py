"""Consoles for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from argon2 import PasswordHasher
from tests.web.console.desk import Desk
from tests.web.console.office import Office

from peerveil.web.console import people

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="module", autouse=True)
def hasher() -> Iterator[Callable[[], Any]]:
    """Passwords are hashed quickly while tests run; this is what hashes them otherwise."""
    genuine = people._hasher
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(people, "_hasher", lambda: PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
        yield genuine


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A console for one person."""
    made = Desk(tmp_path)
    yield made
    made.close()


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Office]:
    """A console for one person, without either service."""
    monkeypatch.chdir(tmp_path)
    for name in ("PEERVEIL_KEY", "PEERVEIL_COLLECT_DB", "PEERVEIL_GATEWAY_CONFIG", "PEERVEIL_LEDGER"):
        monkeypatch.delenv(name, raising=False)
    made = Office(tmp_path)
    yield made
    made.close()
