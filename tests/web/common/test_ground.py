"""The ground of the services: tokens, keys, records, group commit, logs, configuration, limits."""

from __future__ import annotations

import base64
import io
import json
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Column, Connection, Integer, MetaData, Table, Text, func, insert, select

from peerveil.core.errors import BadInput
from peerveil.storage import Schema, version_table
from peerveil.web.common import (
    Digests,
    GroupCommit,
    Journal,
    Record,
    Records,
    Tokens,
    Vault,
    open_database,
)
from peerveil.web.common.database import end_of_day
from peerveil.web.common.errors import Clash, Forbidden, Unauthorized, Unavailable, Unprocessable
from peerveil.web.common.records import read_key, record_table
from peerveil.web.common.tokens import token_table
from peerveil.web.common.vault import CannotOpen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from peerveil.web.common import ServiceDatabase

metadata = MetaData()
book = version_table("test_book", metadata)
tokens = token_table("test_tokens", metadata)
records = record_table("test_records", metadata)
things = Table("test_things", metadata, Column("id", Integer, primary_key=True), Column("name", Text, unique=True))


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServiceDatabase]:
    url = str(tmp_path / "service.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    found = open_database(url, Schema(1, book), create=True)
    yield found
    found.close()


def test_a_token_is_known_by_its_hash_alone(database: ServiceDatabase) -> None:
    keeper = Tokens(database, tokens, ("author", "reader"), Vault.read(Vault.new_key()))
    with database.writing("open") as connection:
        token = keeper.issue(connection, role="author", scope="iclr", actor="kim")
        stored = connection.execute(select(tokens)).one()
        with pytest.raises(BadInput, match="no key"):
            Tokens(database, tokens, ("author",)).issue(connection, role="author", scope="iclr", actor="kim")
    assert token not in str(stored)
    assert stored.actor
    assert b"kim" not in base64.b64decode(stored.actor)
    identity = keeper.check(f"Bearer {token}")
    assert (identity.role, identity.scope, identity.actor) == ("author", "iclr", "kim")
    with pytest.raises(Forbidden):
        identity.require(["operator"])
    with pytest.raises(Forbidden):
        identity.require(["author"], "neurips")
    other = f"pv_{'B' if token[3] == 'A' else 'A'}{token[4:]}"
    for wrong in (None, "", "Bearer", f"Basic {token}", f"Bearer {other}", "Bearer pv_é", f"Bearer {token} x"):
        with pytest.raises(Unauthorized):
            keeper.check(wrong)
    with database.writing("open") as connection:
        assert keeper.withdraw(connection, token)
    keeper._known.clear()  # what REMEMBERED seconds would do
    with pytest.raises(Unauthorized):
        keeper.check(f"Bearer {token}")
    with pytest.raises(BadInput, match="role"), database.writing("open") as connection:
        keeper.issue(connection, role="king", scope="iclr")


def test_keys_rotate_and_what_is_sealed_stays_where_it_belongs() -> None:
    old, new = Vault.new_key("old"), Vault.new_key("new")
    sealed = Vault.read(old).seal(b"text", about="row 1")
    both = Vault.read(f"{new},{old}")
    assert both.open(sealed, about="row 1") == b"text"
    assert Vault.key_of(both.seal(b"text", about="row 1")) == "new"
    assert b"text" not in sealed
    for vault, about, data in [
        (Vault.read(new), "row 1", sealed),
        (both, "row 2", sealed),
        (both, "row 1", sealed[:-1]),
        (both, "row 1", b""),
    ]:
        with pytest.raises(CannotOpen):
            vault.open(data, about=about)
    for bad in ("", "k1", "k1:abc", f"{old},{old}", "K!:" + old[4:]):
        with pytest.raises(BadInput, match="PEERVEIL_KEY"):
            Vault.read(bad)
    assert old[4:] not in repr(both)
    assert Digests(b"x" * 32)("a", "b") != Digests(b"y" * 32)("a", "b")


def test_a_vault_without_a_key_says_where_it_looked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PEERVEIL_KEY", raising=False)
    with pytest.raises(
        BadInput, match=r"PEERVEIL_KEY: got no key, need .* run `peerveil gateway init`, which writes both"
    ):
        Vault.find(tmp_path / "none.key")
    (tmp_path / "a.key").write_text(Vault.new_key("file"))
    assert Vault.find(tmp_path / "a.key").current == "file"
    monkeypatch.setenv("PEERVEIL_KEY", Vault.new_key("env"))
    assert Vault.find(tmp_path / "a.key").current == "env"


def test_the_same_key_with_another_body_is_refused(database: ServiceDatabase) -> None:
    kept = Records(records, Vault.read(Vault.new_key()))
    with database.writing("take") as connection:
        kept.keep(connection, [Record("k", "body 1", b"answer")], until={"k": 5})
        assert b"answer" not in bytes(connection.execute(select(records.c.answer)).scalar_one())
        found = kept.find(connection, ["k", "other"])
    assert found["k"].answer_for("body 1") == b"answer"
    with pytest.raises(Unprocessable, match="another body"):
        found["k"].answer_for("body 2")
    with pytest.raises(Clash), database.writing("take") as connection:
        kept.keep(connection, [Record("k", "body 1", b"answer")], until={"k": 5})
    with database.writing("take") as connection:
        kept.forget(connection, end_of_day(5) - 1)
        assert kept.find(connection, ["k"])
        kept.forget(connection, end_of_day(5))
        assert not kept.find(connection, ["k"])
    for bad in (None, " ", "x" * 201, "caf\xe9"):
        with pytest.raises(Exception, match="Idempotency-Key"):
            read_key(bad)


def writer(database: ServiceDatabase, sizes: list[int]) -> GroupCommit[str, str]:
    def work(connection: Connection, jobs: Any) -> list[Any]:
        sizes.append(len(jobs))
        answers: list[Any] = []
        for job in jobs:
            if job == "refuse":
                answers.append(Unprocessable("no"))
            elif job == "poison":
                raise RuntimeError("a fault in the work")
            else:
                connection.execute(insert(things).values(name=job))
                answers.append(f"took {job}")
        return answers

    return GroupCommit(database, work)


def test_requests_that_come_together_share_a_transaction(database: ServiceDatabase) -> None:
    sizes: list[int] = []
    group = writer(database, sizes)
    release = threading.Event()
    inner = group._work
    group._work = lambda connection, jobs: (release.wait(30), inner(connection, jobs))[1]
    group.start()
    futures: list[Future[str]] = [group.put("first")]
    futures += [group.put(job) for job in ["a", "b", "refuse", "c"]]
    release.set()
    group.stop()
    assert sum(sizes) == 5
    assert max(sizes) >= 4
    assert [f.exception() is None for f in futures] == [True, True, True, False, True]
    with database.reading() as connection:
        assert connection.execute(select(func.count()).select_from(things)).scalar_one() == 4
    with pytest.raises(Unavailable, match="stopping"):
        group.put("late")


def test_one_bad_job_harms_no_other(database: ServiceDatabase) -> None:
    sizes: list[int] = []
    group = writer(database, sizes)
    jobs = ["a", "poison", "b", "a"]  # the last one clashes with the first: a unique name
    futures: list[Future[str]] = [Future() for _ in jobs]
    group._write(list(zip(jobs, futures, strict=True)))
    assert [type(f.exception()).__name__ for f in futures] == ["NoneType", "RuntimeError", "NoneType", "Clash"]
    with database.reading() as connection:
        assert sorted(connection.execute(select(things.c.name)).scalars()) == ["a", "b"]


def test_too_many_at_once_are_refused_at_once(database: ServiceDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    group = GroupCommit[str, str](database, lambda _, jobs: list(jobs), waiting=2)
    release = threading.Event()
    monkeypatch.setattr(group, "run", lambda: release.wait(30))  # a writer that never comes
    group.start()
    group.put("a")
    group.put("b")
    with pytest.raises(Unavailable, match="too many"):
        group.put("c")
    release.set()


def test_the_journal_cannot_hold_what_people_send() -> None:
    out = io.StringIO()
    journal = Journal("gateway", out)
    secret = "pv_" + "s" * 43
    journal.write(
        "released", content="text", space=secret, reason="two words", count="7", error="ValueError", status=503
    )
    try:
        raise ValueError(f"{secret} was sent")
    except ValueError as error:
        journal.error("failed", error, token=secret)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert secret not in out.getvalue()
    assert "text" not in out.getvalue()
    assert lines[0] | {"time": ""} == {
        "time": "", "level": "info", "service": "gateway", "event": "released", "error": "ValueError", "status": 503,
        "dropped": 4,
    }  # fmt: skip
    assert lines[1]["error"] == "ValueError"
