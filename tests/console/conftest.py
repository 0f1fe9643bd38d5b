"""Consoles for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.console.desk import Desk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A console for one person."""
    made = Desk(tmp_path)
    yield made
    made.close()
