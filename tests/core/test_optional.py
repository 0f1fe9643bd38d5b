"""Optional parts: named once, missed with a clear error, and never imported before they are used."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from typing import Any

import pytest

from peerveil import BadInput
from peerveil.cli import base
from peerveil.core.optional import MissingExtra, missing_parts, need, parts_of

HEAVY = ("opendp", "scipy", "scipy.stats", "matplotlib", "matplotlib.pyplot", "numba", "ibis", "duckdb", "pyspark", "polars",
         "fastapi", "uvicorn", "cryptography", "jinja2", "sqlalchemy", "psycopg")  # fmt: skip


@pytest.fixture
def without_fastapi(monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.distributions
    monkeypatch.setattr(metadata, "distributions", lambda name: [] if name == "fastapi" else real(name=name))


def test_an_extra_is_what_the_package_says() -> None:
    assert {"fastapi", "uvicorn", "cryptography", "jinja2"} <= set(parts_of("services"))
    assert parts_of("spark") == ["ibis-framework"]
    assert "numpy" not in parts_of("services")
    with pytest.raises(BadInput, match="'magic', need an extra that peerveil has"):
        parts_of("magic")


def test_here_nothing_is_missing() -> None:
    assert missing_parts("services") == []
    need("services")


def test_a_missing_extra_says_how_to_get_it(without_fastapi: None) -> None:
    with pytest.raises(
        MissingExtra, match=r"fastapi is not installed; need pip install 'peerveil\[services\]'"
    ) as error:
        need("services")
    assert error.value.missing == ["fastapi"]
    assert isinstance(error.value, ImportError)


def test_on_the_command_line_too(
    without_fastapi: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command whose import fails for want of an extra ends with a line, not with a traceback."""

    def broken() -> Any:
        raise ModuleNotFoundError("No module named 'fastapi'", name="fastapi")

    monkeypatch.setattr(base, "build_app", broken)
    assert base.run(["gateway"], debug=False, as_json=False) == base.BAD_INPUT
    assert "pip install 'peerveil[services]'" in capsys.readouterr().err


def test_a_module_of_no_extra_is_an_error_of_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> Any:
        raise ModuleNotFoundError("No module named 'peerveil.nothing'", name="peerveil.nothing")

    monkeypatch.setattr(base, "build_app", broken)
    assert base.run(["demo"], debug=False, as_json=False) == base.INTERNAL
    assert "an error in peerveil" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [[], ["--help"], ["release", "--help"], ["truth", "infer", "--help"], ["--version"]]
)
def test_nothing_heavy_is_imported_before_it_is_used(command: list[str]) -> None:
    """Structural, so that it cannot depend on a busy machine; the seconds are in benchmarks/bench_import.py."""
    use = f"from peerveil.cli.base import run; run({command!r}, debug=False, as_json=False)" if command else ""
    code = f"import sys, peerveil\n{use}\nprint('found', [m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "found []"


def test_this_check_would_notice() -> None:
    code = f"import sys, peerveil; peerveil.rankings; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "polars" in done.stdout
