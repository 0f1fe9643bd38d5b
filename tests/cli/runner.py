"""Running a command as a user would, and looking at what it printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peerveil.cli import base

if TYPE_CHECKING:
    import pytest


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    given = [str(a) for a in arguments]
    code = base.run(given, debug="--debug" in given, as_json="--json" in given)
    out, err = capsys.readouterr()
    return code, out, err
