"""Consoles for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from argon2 import PasswordHasher
from tests.web.console.clients import LocalConsole
from tests.web.console.operator_client import OperatorConsole

from peerveil.web.console import users

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module", autouse=True)
def hasher() -> Iterator[PasswordHasher]:
    """Passwords are hashed quickly while tests run; this is what hashes them otherwise."""
    genuine = users._HASHER
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(users, "_HASHER", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
        yield genuine


@pytest.fixture
def console(tmp_path: Path) -> Iterator[LocalConsole]:
    """A console for one person."""
    made = LocalConsole(tmp_path)
    yield made
    made.close()


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OperatorConsole]:
    """A console for one person, without either service."""
    monkeypatch.chdir(tmp_path)
    for name in ("PEERVEIL_KEY", "PEERVEIL_COLLECT_DB", "PEERVEIL_GATEWAY_CONFIG", "PEERVEIL_LEDGER"):
        monkeypatch.delenv(name, raising=False)
    made = OperatorConsole(tmp_path)
    yield made
    made.close()
