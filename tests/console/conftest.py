"""A console for one person, without a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.console.services_desk import Desk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A console in a new folder, without either service."""
    monkeypatch.chdir(tmp_path)
    for name in ("PEERVEIL_KEY", "PEERVEIL_COLLECT_DB", "PEERVEIL_GATEWAY_CONFIG", "PEERVEIL_LEDGER"):
        monkeypatch.delenv(name, raising=False)
    made = Desk(tmp_path)
    yield made
    made.close()
