"""Optional parts: named once, missed with a clear error, and never imported before they are used."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from peerveil import BadInput
from peerveil.cli import base
from peerveil.core import lazy
from peerveil.core.optional import MissingExtra, missing_parts, need, parts_of

HEAVY = ("scipy", "scipy.stats", "matplotlib", "matplotlib.pyplot", "numba", "ibis", "duckdb", "pyspark", "polars",
         "fastapi", "uvicorn", "cryptography", "jinja2", "sqlalchemy", "psycopg")  # fmt: skip


@pytest.fixture
def without_fastapi(monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.distributions
    monkeypatch.setattr(metadata, "distributions", lambda name: [] if name == "fastapi" else real(name=name))


def test_an_extra_is_what_the_package_says() -> None:
    assert {"fastapi", "uvicorn", "cryptography", "jinja2"} <= set(parts_of("services"))
    assert set(parts_of("duckdb")) < set(parts_of("spark"))
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


# a base install: without the extras, as far as imports and metadata can tell
BASE = """
import sys
from importlib import metadata
GONE = {"argon2", "cryptography", "duckdb", "fastapi", "fastapi_offline", "httptools", "ibis", "jinja2", "opendp", "pandas",
        "psycopg", "pyarrow", "pyspark", "python_multipart", "uvicorn", "uvloop"}
class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in GONE:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Gone())
real = metadata.distributions
def present(name=None, **more):
    if name is None:
        return real(**more)
    short = name.replace("-", "_").removesuffix("_framework").removesuffix("_cffi").removesuffix("_binary")
    return [] if short in GONE else real(name=name, **more)
metadata.distributions = present
from peerveil.cli.base import run
def cli(line):
    code = run(line.split(), debug=False, as_json=False)
    print("code", code, line, flush=True)
    return code
"""


def in_base(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BASE + code], cwd=folder, capture_output=True, text=True, check=False)


def test_a_base_install_does_the_main_job_of_all_five_modules(tmp_path: Path) -> None:
    work = """
assert cli("data synthetic conf --papers 60 --reviewers 40 --seed 2") == 0
assert cli("data synthetic past --papers 60 --reviewers 40 --seed 3") == 0
assert cli("release publish conf/reviews.csv --scale 1:10 --epsilon 1 --seed 1 --out release") == 0
assert cli("timing post conf/events.csv --epsilon 1 --gap 45m --seed 1 --out timing") == 0
assert cli("rankings consensus conf/rankings.csv --epsilon 1 --seed 1 --out rankings") == 0
assert cli("truth randomize conf/labels.csv --classes 0,1 --epsilon 1 --seed 1 --out truth") == 0
assert cli("truth infer truth/simulated/simulated-reports.csv --randomized --epsilon 1 --out infer") == 0
decide = "calibration decide conf/reviews.csv --history past/reviews.csv --accept 12 --adversary-error 0.3 --capped --seed 1"
assert cli(decide + " --out calibration") == 0
"""
    done = in_base(work, tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.parametrize(
    ("line", "extra"),
    [
        ("timing audit events.csv --engine duckdb", "duckdb"),
        ("ledger show postgresql://chair@localhost/budget", "postgresql"),
        ("gateway init", "services"),
        ("console serve", "services"),
    ],
)
def test_without_its_extra_a_command_names_it_and_writes_nothing(line: str, extra: str, tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text("actor,thread,time\n1,1,2026-01-01T00:00:00Z\n")
    done = in_base(f"cli({line!r})", tmp_path)
    assert f"pip install 'peerveil[{extra}]'" in done.stderr, done.stdout + done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["events.csv"]


def test_a_kernel_is_compiled_where_no_folder_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container with a read-only file system: slower, not broken."""
    from numba.core import caching

    def read_only(*_: Any) -> Any:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(caching, "FunctionCache", read_only)
    monkeypatch.setattr("numba.core.dispatcher.FunctionCache", read_only)
    assert lazy.njit(cache=True)(lambda x: x + 1)(2) == 3


def test_this_check_would_notice() -> None:
    code = f"import sys, peerveil; peerveil.rankings; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "polars" in done.stdout
