"""A gateway of version 3 becomes one of today: nothing that was held is lost, and nothing is left of the old tables."""

from __future__ import annotations

import base64
import json
import secrets
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine, text
from tests.cli.runner import run
from tests.web.gateway.helpers import (
    KEY,
    SECOND,
    SETTINGS,
    FakeTime,
    everything,
    held,
    job,
    open_gateway,
    schedule,
    work,
)

from peerveil.core.errors import PeerveilError
from peerveil.storage import Address
from peerveil.web.common import Digests, Identity, Vault
from peerveil.web.gateway import Gateway, Space

if TYPE_CHECKING:
    from sqlalchemy import Connection

TABLES = """
gateway_book id INTEGER PRIMARY KEY, version INTEGER, epoch TEXT, secret BLOB
gateway_clock id INTEGER PRIMARY KEY, high BIGINT, boot TEXT, stopwatch BIGINT, state TEXT, step BIGINT, confirmed INTEGER, shift BIGINT
gateway_spaces name TEXT PRIMARY KEY, settings TEXT, last BIGINT
gateway_tokens hash TEXT PRIMARY KEY, role TEXT, scope TEXT, actor TEXT, state TEXT
gateway_records key TEXT PRIMARY KEY, body TEXT, answer BLOB, expires BIGINT
gateway_held id TEXT PRIMARY KEY, receipt TEXT, space TEXT, due_at BIGINT, shuffle BIGINT, waits INTEGER, body BLOB, batched_at BIGINT
gateway_recent person TEXT PRIMARY KEY, body BLOB, forget BIGINT
gateway_receipts receipt TEXT PRIMARY KEY, owner TEXT, space TEXT, state TEXT, expires BIGINT
gateway_feed space TEXT, position BIGINT, id TEXT UNIQUE, thread TEXT, content TEXT, posted_at BIGINT, reply_to TEXT, PRIMARY KEY (space, position)
gateway_hooks name TEXT PRIMARY KEY, space TEXT, url TEXT, secret BLOB, after BIGINT, attempts INTEGER, next_try BIGINT, active INTEGER
gateway_tally space TEXT, name TEXT, value BIGINT, PRIMARY KEY (space, name)
gateway_audit number INTEGER PRIMARY KEY, at BIGINT, action TEXT, request INTEGER, body BLOB
gateway_beats part TEXT, process TEXT, state TEXT, at BIGINT, PRIMARY KEY (part, process)
"""  # noqa: E501


class Old:
    """A database of version 3, written as its gateway wrote it."""

    def __init__(self, url: str, time: FakeTime) -> None:
        self.vault, self.secret = Vault.read(KEY), secrets.token_bytes(32)
        self.digests, self.now = Digests(self.secret), time.now
        self.due: dict[str, int] = {}
        address = Address.read(url)
        self.engine = create_engine(f"sqlite:///{address.path}" if address.url is None else address.url)
        with self.engine.begin() as connection:
            for line in TABLES.strip().splitlines():
                name, columns = line.split(" ", 1)
                blob = "BLOB" if address.url is None else "BYTEA"
                connection.execute(text(f"CREATE TABLE {name} ({columns.replace('BLOB', blob)})"))
            sealed = self.vault.seal(self.secret, about="gateway secret")
            self.insert(connection, "book", id=1, version=3, epoch="00" * 8, secret=sealed)
            clock = {"boot": "boot 1", "stopwatch": 0, "state": "running", "step": 0, "confirmed": 0, "shift": 0}
            self.insert(connection, "clock", id=1, high=time.now, **clock)
            settings = Space.read("forum", SETTINGS).to_json()
            self.insert(connection, "spaces", name="forum", settings=settings, last=0)
            self.receipts = [self.post(connection, k) for k in range(4)]
            self.arrive(connection)
        self.engine.dispose()

    def insert(self, connection: Connection, table: str, **values: Any) -> None:
        names = ", ".join(values)
        marks = ", ".join(f":{name}" for name in values)
        connection.execute(text(f"INSERT INTO gateway_{table} ({names}) VALUES ({marks})"), values)

    def post(self, connection: Connection, k: int) -> str:
        """0 and 1 are held, 2 was posted, 3 was withdrawn; 1 answers 0."""
        receipt, request = secrets.token_urlsafe(32), job_fields(k)
        digest = sha256(receipt.encode()).hexdigest()
        person = self.digests("person", "forum", "kim")
        key = self.digests("key", person, f"k{k}")
        until = self.now + 8 * 86_400 * SECOND
        answer = self.vault.seal(json.dumps({"receipt": receipt, "longest_delay": 160}).encode(), about=key)
        body_hash = sha256(json.dumps(request).encode()).hexdigest()
        self.insert(
            connection, "records", key=key, body=self.digests("body", key, body_hash), answer=answer, expires=until
        )
        owner = self.digests("owner", digest, "forum", "kim")
        state = "withdrawn" if k == 3 else "taken"
        self.insert(connection, "receipts", receipt=digest, owner=owner, space="forum", state=state, expires=until)
        if k < 2:
            name = f"{k:032x}"
            told = {"t": "t", "c": f"text {k}", "f": [3], "r": None, "k": [f"{1:032x}"] if k == 0 else []}
            due = self.now + (20 + k) * SECOND
            self.due[self.digests("public", name)[:32]] = due
            body = self.vault.seal(json.dumps(told).encode(), about=name)
            row = {"id": name, "receipt": digest, "space": "forum", "due_at": due, "batched_at": None}
            self.insert(connection, "held", **row, shuffle=7 + k, waits=k, body=body)
        return receipt

    def arrive(self, connection: Connection) -> None:
        """The sitting of the first post is under way, and a token names its author."""
        names = Vault({"names": self.digests.key("names")})
        actor = base64.b64encode(names.seal_text("kim", about="hash")).decode()
        self.insert(connection, "tokens", hash="hash", role="author", scope="forum", actor=actor, state="good")
        person = self.digests("person", "forum", "kim")
        name = self.digests("sitting", person, str(self.now // (86_400 * SECOND)))
        arrival = [self.digests("thread", "forum", "t")[:32], self.now, False, f"{0:032x}"]
        body = self.vault.seal_text(json.dumps([arrival]), about=name)
        self.insert(connection, "recent", person=name, body=body, forget=self.now + 20 * SECOND)


def job_fields(k: int) -> list[Any]:
    return ["forum", "t", f"text {k}", None, False]


def test_nothing_is_lost_from_version_3_and_nothing_left_of_it(url: str, time: FakeTime, tmp_path: Any) -> None:
    old = Old(url, time)
    with pytest.raises(PeerveilError):  # only those who may write bring tables up to date
        Gateway(url, Vault.read(KEY))
    with pytest.raises(PeerveilError, match="PEERVEIL_KEY"):  # another key: nothing is changed
        Gateway(url, Vault.read(Vault.new_key("other")), create=True)
    gateway = open_gateway(url, time)
    try:
        assert schedule(gateway) == old.due
        me = Identity("author", "forum", "kim", "")
        assert [gateway.status(me, receipt) for receipt in old.receipts] == ["held", "held", "posted", "withdrawn"]
        with pytest.raises(PeerveilError, match="no post of yours"):
            gateway.status(Identity("author", "forum", "lee", ""), old.receipts[0])
        again = json.loads(gateway.take(job(gateway, "t", "text 0", key="k0")))
        assert again == {"receipt": old.receipts[0], "longest_delay": 160}
        gateway.take(job(gateway, "elsewhere", "of the same sitting"))
        (new,) = (post for post in held(gateway).values() if post.thread == "elsewhere")
        assert new.due - time.now >= 100 * SECOND  # a follow-up of what came before
        if gateway.database.is_sqlite:
            gateway.leader.drop()
            files = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
            assert (
                old.digests("owner", sha256(old.receipts[0].encode()).hexdigest(), "forum", "kim").encode() not in files
            )
        for _ in range(150):
            time.advance(5)
            work(gateway)
        items = [item for item in everything(gateway) if item.thread == "t"]
        assert [item.content for item in items] == ["text 0", "text 1"]
        assert (items[0].id, items[1].reply_to) == (next(iter(old.due)), items[0].id)
    finally:
        gateway.close()


def test_init_says_that_old_backups_must_be_destroyed(
    sqlite_url: str, time: FakeTime, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PEERVEIL_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    Old(sqlite_url, time)
    status, _, told = run(capsys, "gateway", "doctor", "--db", sqlite_url)
    assert status == 2
    assert "peerveil gateway init" in told
    for is_first in (True, False):
        status, _, told = run(capsys, "gateway", "init", "--db", sqlite_url)
        assert (status, "upgraded from version 3" in told, "destroy all backups" in told) == (0, is_first, is_first)
