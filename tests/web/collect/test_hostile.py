"""Invented requests, a full disk, a database that goes away, a lost commit: nothing is lost or counted twice."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event, select
from tests.web.collect.test_service import Bench
from tests.web.common.client import Client as Http

from peerveil.web.collect.service import build_app
from peerveil.web.common import Journal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.postgres import Server


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(str(tmp_path / "collect.db"))
    yield made
    made.close()


def test_no_request_makes_the_service_fail(lite: Bench) -> None:
    """Schemathesis over the OpenAPI document: no 5xx, and errors of one shape."""
    person = lite.token()
    tokens = [person, lite.store.appoint("lake"), lite.store.appoint("*"), None]
    schema = schemathesis.openapi.from_dict(build_app(lite.store, Journal("collect", io.StringIO())).openapi())
    every: Any = schema.get_all_operations()
    operations = [found.ok() for found in every]
    assert len(operations) >= 6
    statuses: set[int] = set()
    for operation in operations:

        @settings(max_examples=20, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
        @given(case=operation.as_strategy(), token=st.sampled_from(tokens), real=st.booleans(), fits=st.booleans())
        def once(case: Any, token: str | None, real: bool, fits: bool) -> None:
            whole = fits and case.method.upper() == "POST"
            if (real or whole) and "campaign" in (case.path_parameters or {}):
                case.path_parameters["campaign"] = "lake"
            sent = case.as_transport_kwargs(base_url="http://test")
            headers = {k: v for k, v in dict(sent.get("headers") or {}).items() if k.lower() != "authorization"}
            if token is not None or whole:
                headers["Authorization"] = f"Bearer {person if whole else token}"
            more = {k: v for k, v in sent.items() if k in ("params", "json")}
            if isinstance(sent.get("data"), bytes | str):
                more["content"] = sent["data"]
            if whole:
                more = {"content": lite.line(7)}
                headers = {"Authorization": headers["Authorization"], "Idempotency-Key": "a good one"}
            try:
                answer = lite.http.request(sent["method"], sent["url"], headers=headers, **more)
            except (UnicodeEncodeError, ValueError):  # nothing that a client could send
                return
            assert answer.status_code < 500, (case.method, case.path, answer.text)
            statuses.add(answer.status_code)
            if answer.status_code >= 400:
                assert set(answer.json()) == {"error", "message"}

        once()
    assert statuses >= {200, 202, 401, 404, 422}


def test_a_full_disk_refuses_and_loses_nothing(lite: Bench) -> None:
    engine = lite.store.database.engine
    tokens = lite.store.invite(lite.known, 60)
    with engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    engine.dispose()

    def small(raw: Any, _: Any) -> None:
        raw.execute(f"PRAGMA max_page_count = {pages}")

    event.listen(engine, "connect", small)
    asked = [lite.request(token, lite.line(task), f"{n}-{task}") for n, token in enumerate(tokens) for task in range(5)]
    codes = [lite.http.request(m, p, **more).status_code for m, p, more in asked]
    assert set(codes) == {202, 503}
    assert lite.stored() == (codes.count(202), 300 - codes.count(202))
    event.remove(engine, "connect", small)
    engine.dispose()
    # the same requests again: those that were taken are not taken twice, the others are taken now
    assert {lite.http.request(m, p, **more).status_code for m, p, more in asked} == {202}
    assert lite.stored() == (300, 0)


def test_a_database_that_goes_away_and_comes_back(postgres_server: Server) -> None:
    bench = Bench(postgres_server.fresh())
    try:
        token = bench.token()
        assert bench.send(token, bench.line(1), "before").status_code == 202
        during = bench.line(2)
        postgres_server.stop("immediate")
        try:
            for path in ("/v1/campaigns/lake", "/healthz", "/v1/campaigns/lake/results"):
                assert bench.http.get(path).status_code == 503
            gone = bench.send(token, during, "during")
            assert gone.status_code == 503
            assert gone.headers["retry-after"]
        finally:
            postgres_server.start()
        assert bench.send(token, during, "during").status_code == 202
        assert bench.stored() == (2, 3)
        assert "label" not in bench.log.getvalue()
    finally:
        bench.close()


def test_a_commit_whose_answer_is_lost_is_found_again(lite: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report is in, the acknowledgment is not: the same request finds it, and the budget is used once."""
    token, line = lite.token(), lite.line(1)
    commit = lite.store.database._commit

    def lost(connection: Any, action: str) -> None:
        commit(connection, action)
        raise lite.store.database.lost(action, "lost")

    monkeypatch.setattr(lite.store.database, "_commit", lost)
    assert lite.send(token, line, "k").status_code == 503
    monkeypatch.undo()
    assert lite.send(token, line, "k").status_code == 202
    assert lite.stored() == (1, 4)


def test_the_journal_says_what_failed_but_not_what_was_sent(lite: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("my secret")

    monkeypatch.setattr(type(lite.known.reader), "read", fail)
    answer = lite.send(lite.token(), lite.line(1))
    assert answer.status_code == 500
    assert "my secret" not in answer.text + lite.log.getvalue()
    assert "RuntimeError" in lite.log.getvalue()


def test_a_budget_read_without_its_lock_would_be_exceeded(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deliberate fault: two servers that read the budget without locking it take more than it allows."""
    import time

    from peerveil.web.collect import tables

    bench = Bench(postgres_url)
    second = Http(build_app(bench.store, Journal("collect", io.StringIO())))
    real = tables.used_keys

    def slow(connection: Any, keys: Any) -> Any:
        time.sleep(0.3)  # time enough for the other server to read the same budget
        return real(connection, keys)

    def race() -> int:
        token = bench.token()
        for task in range(4):
            assert bench.send(token, bench.line(task)).status_code == 202
        monkeypatch.setattr(tables, "used_keys", slow)
        pair = [(client, bench.request(token, bench.line(task))) for client, task in ((bench.http, 5), (second, 6))]
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(lambda one: one[0].request(one[1][0], one[1][1], **one[1][2]).status_code, pair))
        monkeypatch.setattr(tables, "used_keys", real)
        return answers.count(202)

    try:
        assert race() == 1

        def unlocked(connection: Any, hashes: list[str]) -> dict[str, Any]:
            rows = connection.execute(select(tables.people).where(tables.people.c.hash.in_(hashes)))
            return {row.hash: row for row in rows}

        monkeypatch.setattr(tables, "locked_people", unlocked)
        assert race() == 2
    finally:
        second.close()
        bench.close()
