"""The container file: its steps are run as commands in a temporary folder. No container engine runs here."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import peerveil

ROOT = Path(__file__).parents[1]


def steps() -> list[tuple[str, str]]:
    """Instructions and their arguments, in order."""
    lines = (ROOT / "Containerfile").read_text(encoding="utf-8").splitlines()
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines if line and not line.startswith("#")]


def of(kind: str) -> list[str]:
    return [rest for name, rest in steps() if name == kind]


def test_what_it_copies_is_there_and_not_ignored() -> None:
    ignored = (ROOT / ".containerignore").read_text(encoding="utf-8").splitlines()
    assert ignored[0] == "*"
    for rest in of("COPY"):
        if not rest.startswith("--from"):
            for name in rest.split()[:-1]:
                assert (ROOT / name).exists(), name
                assert f"!{name}" in ignored


def test_it_runs_as_nobody_special_and_its_program_comes_from_the_build() -> None:
    kinds = [name for name, _ in steps()]
    assert of("USER") == ["peerveil"]
    assert kinds.index("USER") < kinds.index("ENTRYPOINT")
    assert json.loads(of("ENTRYPOINT")[0]) == ["/opt/peerveil/bin/peerveil"]
    assert json.loads(of("CMD")[0]) == ["--help"]
    assert "useradd" in of("RUN")[-1]
    assert not re.search(r"(?i)password|secret|token", (ROOT / "Containerfile").read_text(encoding="utf-8"))


def test_versions_come_from_the_locks() -> None:
    installs = [rest for rest in of("RUN") if " install " in rest]
    assert len(installs) == 2
    assert all("--require-hashes" in rest or "--constraint requirements/" in rest for rest in installs)


@pytest.mark.slow
def test_its_steps_work_as_commands(tmp_path: Path) -> None:
    """Everything up to the second stage, with /src and /opt under a temporary folder; then the entry point."""
    source = tmp_path / "src"
    source.mkdir()

    def here(text: str) -> str:
        return text.replace("/opt/peerveil", str(tmp_path / "opt"))

    for kind, rest in _first_stage():
        if kind == "COPY":
            *names, target = rest.split()
            for name in names:
                into = source / target if target != "./" else source / name
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
                copy(ROOT / name, into)
        elif kind == "RUN":
            done = subprocess.run(shlex.split(here(rest)), cwd=source, capture_output=True, text=True, check=False)
            assert done.returncode == 0, (rest, done.stderr[-2000:])
    program = here(json.loads(of("ENTRYPOINT")[0])[0])
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert said.stdout == f"peerveil {peerveil.__version__}\n"
    code = "import fastapi, uvicorn, cryptography; from peerveil.core.optional import need; need('services')"
    subprocess.run([str(Path(program).with_name("python")), "-c", code], check=True, cwd=tmp_path)
    assert not Path(program).with_name("uv").exists()


def _first_stage() -> list[tuple[str, str]]:
    found = steps()
    second = [i for i, (kind, _) in enumerate(found) if kind == "FROM"][1]
    return found[:second]
