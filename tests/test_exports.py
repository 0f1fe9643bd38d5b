"""The public face: names, where they come from, and that they are documented."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import peerveil
from peerveil import (
    audit,
    calibration,
    data,
    ledger,
    rankings,
    release,
    report,
    study,
    timing,
    truth,
)
from peerveil.core import randomness
from peerveil.web import gateway

ROOT = Path(__file__).parents[1]


def test_the_public_names_are_these() -> None:
    assert peerveil.__all__ == [
        "BadInput",
        "BudgetExceeded",
        "Guarantee",
        "Ledger",
        "PeerveilError",
        "Randomness",
        "Response",
        "Result",
        "__version__",
        "audit",
        "calibration",
        "data",
        "laplace_scale",
        "rankings",
        "release",
        "timing",
        "truth",
    ]
    assert dir(peerveil) == sorted(peerveil.__all__)
    for name in peerveil.__all__:
        assert getattr(peerveil, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Magic'"):
        peerveil.Magic  # noqa: B018


MODULES = [audit, calibration, gateway, data, ledger, randomness, rankings, release, report, study, timing, truth]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_every_exported_name_exists_has_a_docstring_and_stands_in_the_map(module: object) -> None:
    for name in module.__all__:  # type: ignore[attr-defined]
        value = getattr(module, name)
        if name != "COLORS":
            assert value.__doc__, name
        assert re.search(rf"\b{name}\b", module.__doc__ or ""), name


def test_every_public_name_is_in_the_reference() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    public = [f"peerveil.{name}" for name in peerveil.__all__ if name[0].isupper()]
    for module in (audit, ledger, data, release, timing, calibration, rankings, truth, study, gateway):
        public += [f"{module.__name__}.{name}" for name in module.__all__]
    missing = [name for name in public if name not in pages and f"peerveil.{name.rsplit('.', 1)[1]}" not in pages]
    assert not missing


def test_importing_peerveil_loads_nothing_heavy() -> None:
    heavy = ("ibis", "numpy", "polars", "matplotlib", "scipy", "sqlalchemy")
    code = f"import sys, peerveil; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_version_is_written_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/peerveil/__init__.py"
    assert f"## {peerveil.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_nothing_reads_what_a_strangers_clone_does_not_have() -> None:
    for folder in ("src", "tests", "benchmarks", "scripts", "docs"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".sh", ".md", ".toml"} and path != Path(__file__) and "_build" not in path.parts:
                assert "../shared" not in path.read_text(encoding="utf-8"), path


def test_lock_files_hold_versions_and_hashes_but_no_addresses() -> None:
    for path in (ROOT / "requirements").glob("*.lock"):
        text = path.read_text(encoding="utf-8")
        assert "://" not in text, path
        assert "index-url" not in text, path
        assert text.count("--hash=sha256:") >= text.count("==") // 2, path
