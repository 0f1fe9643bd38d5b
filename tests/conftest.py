"""What tests of all floors share."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # so that tests can say "from tests.postgres import ..."

# tests start hundreds of Python processes, and none should compile every library anew: where bytecode may not stand
# beside its source, it has a folder of its own, which `make clean` removes
if sys.dont_write_bytecode:
    sys.dont_write_bytecode, sys.pycache_prefix = False, str(ROOT / ".pytest_cache" / "bytecode")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser
    from tests.postgres import Server

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The browser of this session; without one, tests are skipped here and fail in CI."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        missing = "no Chromium was found; install one (Debian: apt install chromium)"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    with tempfile.TemporaryDirectory(prefix="pv-chromium-") as home, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS, env={**os.environ, "HOME": home})
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A PostgreSQL server for this session. This is the only place that decides what happens without one."""
    from tests.postgres import MISSING, Server, binaries

    programs = binaries()
    if programs is None:
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    server = Server(programs, in_memory=True)
    yield server
    server.remove()


@pytest.fixture
def postgres_url(postgres_server: Server) -> Iterator[str]:
    """The address of an empty PostgreSQL database."""
    url = postgres_server.fresh()
    yield url
    postgres_server.recycle(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a ledger that does not exist yet, once for each kind of database."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def spark(spark_session: Any) -> Iterator[Any]:
    """The local Spark session. What PySpark leaves unclosed is collected while the test's own filters stand."""
    import gc

    yield spark_session
    gc.collect()


@pytest.fixture(scope="session")
def needs_spark() -> None:
    """For slow tests only: skipped where Java or PySpark is missing (`make test-slow` installs both), a failure in CI."""
    from importlib.util import find_spec

    if find_spec("pyspark") is None or shutil.which("java") is None:
        missing = "Spark's tests need PySpark and Java 17: make .venv/slow.stamp"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)


@pytest.fixture(scope="session")
def spark_session(needs_spark: None) -> Iterator[Any]:
    """A local Spark session."""
    from pyspark.sql import SparkSession

    from peerveil.data.engines import SPARK_SETTINGS

    builder = SparkSession.builder.master("local[2]").appName("tests")
    for key, value in SPARK_SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


# machines are shared and noisy: a slow moment is no failure
settings.register_profile("house", deadline=None)
settings.load_profile("house")
