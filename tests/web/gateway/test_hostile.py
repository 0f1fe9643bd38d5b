"""Requests that Schemathesis invents, a full disk, a database that goes away: refused, nothing lost, recovered."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event
from tests.web.common.client import Client
from tests.web.gateway.helpers import FakeTime, everything, job, open_gateway, submit, work

from peerveil.web.common import Journal
from peerveil.web.common.errors import Unavailable
from peerveil.web.gateway import create_app

if TYPE_CHECKING:
    from pathlib import Path

    from tests.postgres import Server


def test_no_request_makes_the_gateway_fail(sqlite_url: str, time: FakeTime) -> None:
    """Schemathesis over the OpenAPI document: no 5xx, and answers of the documented shape."""
    gateway = open_gateway(sqlite_url, time)
    app = create_app(gateway, Journal("test"), worker=False)
    client = Client(app)
    token = {
        "author": gateway.issue_token(role="author", space="forum", actor="kim"),
        "operator": gateway.issue_token(role="operator", space="*"),
    }
    known = submit(gateway)["receipt"]
    schema = schemathesis.openapi.from_dict(app.openapi())
    every: Any = schema.get_all_operations()
    operations = [found.ok() for found in every]
    assert len(operations) >= 9
    statuses: set[int] = set()
    try:
        for operation in operations:

            @settings(
                max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
            )
            @given(case=operation.as_strategy(), role=st.sampled_from(["author", "operator", None]), real=st.booleans())
            def once(case: Any, role: str | None, real: bool) -> None:
                if real and "space" in (case.path_parameters or {}):
                    case.path_parameters["space"] = "forum"
                if real and "receipt" in (case.path_parameters or {}):
                    case.path_parameters["receipt"] = known
                sent = case.as_transport_kwargs(base_url="http://test")
                headers = {k: v for k, v in dict(sent.get("headers") or {}).items() if k.lower() != "authorization"}
                if role is not None:
                    headers["Authorization"] = f"Bearer {token[role]}"
                sent = {k: v for k, v in sent.items() if k in ("params", "json", "data", "method", "url")}
                content = sent.pop("data", None)
                if isinstance(content, bytes | str):
                    sent["content"] = content
                try:
                    answer = client.request(sent.pop("method"), sent.pop("url"), headers=headers, **sent)
                except (UnicodeEncodeError, ValueError):  # nothing that a client could send
                    return
                is_unready = case.path == "/readyz" and answer.status_code == 503  # nothing publishes here
                assert answer.status_code < 500 or is_unready, (case.method, case.path, answer.text)
                statuses.add(answer.status_code)
                if answer.status_code >= 400:
                    assert set(answer.json()) == {"error", "message"}

            once()
    finally:
        client.close()
        gateway.close()
    assert {200, 202, 401, 403, 404, 422} <= statuses


def test_a_full_disk_refuses_and_loses_nothing(sqlite_url: str, time: FakeTime) -> None:
    gateway = open_gateway(sqlite_url, time)
    try:
        submit(gateway, "t", "before")
        with gateway.database.engine.connect() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        gateway.database.engine.dispose()

        def small(raw: Any, _: Any) -> None:
            raw.execute(f"PRAGMA max_page_count = {pages + 2}")

        event.listen(gateway.database.engine, "connect", small)
        refused = 0
        for k in range(40):
            try:
                submit(gateway, "t", "x" * 3000, actor=f"a{k}")
            except Unavailable as error:
                refused += "disk is full" in str(error)
        assert refused > 30
        event.remove(gateway.database.engine, "connect", small)
        gateway.database.engine.dispose()
        submit(gateway, "t", "after")
        time.advance(1000)
        work(gateway)
        contents = [item.content for item in everything(gateway)]
        assert {"before", "after"} <= set(contents)
        assert len(contents) == 2 + 40 - refused
    finally:
        gateway.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    """A real file system of one megabyte, where that is permitted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("mounting a tmpfs is not permitted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow  # needs the right to mount; `make test` fills a database by its limit of pages instead, everywhere
def test_a_disk_that_really_is_full(small_disk: Path, time: FakeTime) -> None:
    gateway = open_gateway(str(small_disk / "gateway.db"), time)
    try:
        taken, refused = 0, 0
        for k in range(200):
            try:
                submit(gateway, "t", os.urandom(4000).hex(), actor=f"a{k}")
                taken += 1
            except Unavailable:
                refused += 1
        assert taken
        assert refused
        subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
        submit(gateway, "t", "after")
        time.advance(1000)
        work(gateway)
        assert len(everything(gateway)) == taken + 1
    finally:
        gateway.close()


@pytest.mark.slow
def test_a_database_that_goes_away_and_comes_back(postgres_server: Server, time: FakeTime) -> None:
    gateway = open_gateway(postgres_server.fresh(), time)
    try:
        again = job(gateway, "t", "during", key="k")
        submit(gateway, "t", "before")
        postgres_server.stop("immediate")
        try:
            with pytest.raises(Unavailable):
                gateway.take(again)
            with pytest.raises(Unavailable):
                work(gateway)
            with pytest.raises(Unavailable):
                gateway.read("forum")
        finally:
            postgres_server.start()
        gateway.take(again)
        time.advance(1000)
        work(gateway)
        assert sorted(item.content for item in everything(gateway)) == ["before", "during"]
    finally:
        gateway.close()
