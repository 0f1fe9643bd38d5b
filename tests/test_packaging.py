"""What is installed is what was written: wheel and source archive, built and used in a clean environment."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import peerveil

ROOT = Path(__file__).parents[1]


def build(kind: str, out: Path) -> Path:
    """With the build backend that the project names; nothing is downloaded."""
    code = f"import sys; from hatchling.build import build_{kind} as build; print(build(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, str(out)], cwd=ROOT, capture_output=True, text=True, check=True)
    return out / done.stdout.strip().splitlines()[-1]


def test_the_wheel_works_from_an_empty_folder(tmp_path: Path) -> None:
    wheel = build("wheel", tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "site")
    assert "peerveil/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(part in name for name in names for part in ("tests/", "benchmarks/", ".pyc"))
    packages = {name.split("/")[1] for name in names if name.startswith("peerveil/") and name.count("/") > 1}
    assert packages >= {"release", "timing", "calibration", "ledger", "audit", "data", "study", "cli"}
    # the installed copy comes first; everything that it needs is already here
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    code = "import peerveil, sys; from peerveil.cli import main; print(peerveil.__file__); main(['--version'])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    where, version = done.stdout.strip().splitlines()
    assert where.startswith(str(tmp_path / "site"))
    assert version == f"peerveil {peerveil.__version__}"


def test_the_source_archive_holds_what_a_reader_needs(tmp_path: Path) -> None:
    with tarfile.open(build("sdist", tmp_path)) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "src/peerveil/__init__.py"} <= names
    assert not any(name.startswith((".venv", "out/")) for name in names)


def test_the_citation_names_this_version() -> None:
    assert f"version: {peerveil.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@pytest.mark.slow
def test_installed_with_its_dependencies_in_a_clean_environment(tmp_path: Path) -> None:
    """From the wheel and the lock alone, as a user would."""
    wheel = build("wheel", tmp_path)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    uv = Path(sys.executable).with_name("uv")
    for arguments in (["--require-hashes", "-r", str(ROOT / "requirements" / "use.lock")], ["--no-deps", str(wheel)]):
        subprocess.run([str(uv), "pip", "install", "--quiet", "--python", str(python), *arguments], check=True)
    command = [str(tmp_path / "venv" / "bin" / "peerveil"), "data", "synthetic", str(tmp_path / "conference")]
    subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
    assert (tmp_path / "conference" / "reviews.csv").exists()
