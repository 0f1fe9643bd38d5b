"""Consoles for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.console.desk import Desk
from tests.console.office import Office

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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
