"""Webhooks, adapters, copies, two-step reading, configuration and commands."""

from __future__ import annotations

import contextlib
import json
import os
import ssl
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select, text
from tests.cli.runner import run
from tests.web.gateway.helpers import KEY, SECOND, FakeTime, everything, open_gateway, schedule, submit, work

from peerveil.core.errors import BadInput
from peerveil.web.common import Identity, Journal, Vault
from peerveil.web.common.errors import Forbidden, Gone, NotFound, Unavailable
from peerveil.web.common.vault import CannotOpen
from peerveil.web.gateway import (
    Gateway,
    GatewaySettings,
    Space,
    approve_reveal,
    backup,
    check_signature,
    examine,
    operator_page,
    request_reveal,
    restore,
)
from peerveil.web.gateway.intake import Withdraw
from peerveil.web.gateway.receivers import Attempt
from peerveil.web.gateway.tables import frames, hooks
from peerveil.web.gateway.watch import Halted
from peerveil.web.gateway.webhooks import Deliveries, sign

if TYPE_CHECKING:
    from collections.abc import Iterator


# ---- webhooks ---------------------------------------------------------------------------------------------------


class Receiver:
    """A platform that takes webhooks, and fails when it is told to."""

    def __init__(self, certificate: Path | None = None) -> None:
        self.seen: list[dict[str, Any]] = []
        self.headers: list[Any] = []
        self.answer = 200
        self.refuses = "\0"  # a word that no item may hold
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.headers.append((body, self.headers["Peerveil-Timestamp"], self.headers["Peerveil-Signature"]))
                answer = 500 if outer.refuses.encode() in body else outer.answer
                if answer == 200:
                    outer.seen += json.loads(body)["items"]
                self.send_response(answer)
                if outer.answer == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self._scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            self._scheme = "https"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.server.server_port}/hook"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.close()


def test_webhooks_are_signed_in_order_and_tried_again(
    url: str, make: Any, time: FakeTime, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "a secret of the platform")
    gateway = make(url, webhooks=[{"url": receiver.url, "secret_env": "HOOK_SECRET", "allow": ["127.0.0.1"]}])
    deliveries = Deliveries(gateway, Journal("test"))
    for k in range(5):
        submit(gateway, "t", str(k), actor=f"a{k}")
    assert deliveries.step() == 0  # nothing was released
    assert receiver.headers == []
    time.advance(1000)
    work(gateway)
    receiver.answer = 500
    assert deliveries.step() == 0
    assert deliveries.step() == 0  # not before the pause is over
    assert len(receiver.headers) == 1
    with gateway.database.reading() as connection:
        row = connection.execute(select(hooks)).one()
    assert (row.attempts, row.after) == (1, 0)
    assert time.now < row.next_try <= time.now + 3 * SECOND
    receiver.answer = 302  # a signed body goes nowhere else
    time.advance(4)
    assert deliveries.step() == 0
    receiver.answer = 200
    time.advance(10)
    assert deliveries.step() == 5
    assert [item["id"] for item in receiver.seen] == [item.id for item in everything(gateway)]
    assert deliveries.step() == 0
    body, stamp, signature = receiver.headers[-1]
    check_signature("a secret of the platform", body, stamp, signature)
    ours = "a secret of the platform"
    for wrong in [
        ("another secret of them", body, stamp, signature),
        (ours, body + b" ", stamp, signature),
        (ours, body, str(int(stamp) + 1), signature),
        (ours, body, "x", "y"),
    ]:
        with pytest.raises(BadInput):
            check_signature(*wrong)
    old = sign("a secret of the platform", b"x", at=0)
    with pytest.raises(BadInput):
        check_signature("a secret of the platform", b"x", old["Peerveil-Timestamp"], old["Peerveil-Signature"])


def test_two_workers_do_not_deliver_the_same(
    sqlite_url: str, make: Any, time: FakeTime, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "a secret of the platform")
    gateway = make(sqlite_url, webhooks=[{"url": receiver.url, "secret_env": "HOOK_SECRET", "allow": ["127.0.0.1"]}])
    submit(gateway)
    time.advance(1000)
    work(gateway)
    with gateway.database.reading() as connection:
        row = connection.execute(select(hooks)).one()
    first, second = Deliveries(gateway, Journal("a")), Deliveries(gateway, Journal("b"))
    for deliveries, sent in ((first, 1), (second, 0)):
        attempt = Attempt("a", 60.0, partial(deliveries._deliver, row, time.now))
        attempt.run()
        assert attempt.accepted == sent
    assert len(receiver.seen) == 1


def test_a_webhook_without_a_secret_is_refused(sqlite_url: str, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SECRET", raising=False)
    with pytest.raises(BadInput, match="NO_SECRET"):
        make(sqlite_url, webhooks=[{"url": "https://x", "secret_env": "NO_SECRET"}])


# ---- copies -----------------------------------------------------------------------------------------------------


def test_backup_and_restore_into_either_database(
    url: str, make: Any, time: FakeTime, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    gateway = make(url)
    posted, kept = submit(gateway, "a", "posted"), submit(gateway, "b", "held", actor="lee")
    moments = sorted(schedule(gateway).values())
    time.advance((moments[0] - time.now) / SECOND)
    work(gateway)
    time.advance(0 if moments[0] < moments[1] else 1)
    cursor = gateway.read("forum")[1]
    file = tmp_path / "copy.backup"
    counts = backup(gateway, file)
    assert counts["gateway_spaces"] == 1
    assert file.stat().st_mode & 0o077 == 0
    with pytest.raises(BadInput, match="in use"):
        restore(url, Vault.read(KEY), file)
    other = str(tmp_path / "other.db") if "postgres" in url else request.getfixturevalue("postgres_url")
    with pytest.raises(CannotOpen):
        restore(other, Vault.read(Vault.new_key()), file)
    restore(other, Vault.read(KEY), file)
    time.advance(1000)
    copied = make(other)
    copied.confirm_restore("release")
    for one in (gateway, copied):
        work(one)
    # the same ids in both, so that whoever knows one drops the repetition
    assert {item.id for item in everything(copied)} == {item.id for item in everything(gateway)}
    assert len(everything(copied)) == 2
    with pytest.raises(Gone):
        copied.read("forum", cursor)
    assert {posted["longest_delay"], kept["longest_delay"]} == {160}


@pytest.mark.parametrize("what", ["release", "discard"])
def test_a_restored_copy_publishes_nothing_that_was_withdrawn_after_the_backup(
    url: str, make: Any, time: FakeTime, tmp_path: Path, what: str
) -> None:
    gateway = make(url)
    receipt = submit(gateway, "a", "regretted")["receipt"]
    backup(gateway, tmp_path / "copy.backup")
    gateway.take(Withdraw("forum", "kim", receipt))
    gateway.close()
    other = str(tmp_path / "other.db")
    restore(other, Vault.read(KEY), tmp_path / "copy.backup")
    time.advance(1000)
    copied = make(other)
    for attempt in (lambda: work(copied), lambda: submit(copied)):
        with pytest.raises(Halted, match="--confirm-restore"):
            attempt()
    clock = next(check for check in examine(copied) if check.what == "clock")
    assert not clock.ok
    assert "--confirm-restore" in clock.do
    with pytest.raises(BadInput, match="--confirm-restore first"):
        copied.confirm_clock("pause")
    assert everything(copied) == []
    assert copied.confirm_restore(what) == (what == "discard")
    with pytest.raises(BadInput, match="no restored copy"):
        copied.confirm_restore(what)
    work(copied)
    assert [item.content for item in everything(copied)] == (["regretted"] if what == "release" else [])
    copied.leader.drop()
    work(copied)  # from the disk
    assert copied.status(Identity("author", "forum", "kim", ""), receipt) == (
        "posted" if what == "release" else "withdrawn"
    )


def test_a_damaged_backup_changes_nothing(sqlite_url: str, make: Any, tmp_path: Path) -> None:
    gateway = make(sqlite_url)
    submit(gateway)
    file = tmp_path / "copy.backup"
    backup(gateway, file)
    raw = file.read_bytes()
    new = tmp_path / "new.db"
    for damaged in (raw[:-20], raw[:100], b"", b"text", raw[:200] + b"\0\0" + raw[202:]):
        file.write_bytes(damaged)
        with pytest.raises(BadInput):
            restore(str(new), Vault.read(KEY), file)
        assert not new.exists()
    with pytest.raises(BadInput, match="No such file"):
        restore(str(new), Vault.read(KEY), tmp_path / "none")


def test_tables_of_another_version_are_refused_in_words(url: str, make: Any, tmp_path: Path) -> None:
    gateway: Gateway = make(url)
    with gateway.database.writing("x") as connection:
        connection.execute(text("UPDATE gateway_book SET version = 1"))
    for create in (True, False):
        with pytest.raises(Unavailable, match="older peerveil .version 1.*no migration"):
            Gateway(url, Vault.read(KEY), create=create)


def test_an_old_key_can_be_taken_away_once_its_posts_are_out(url: str, make: Any, time: FakeTime) -> None:
    gateway: Gateway = make(url)
    token = gateway.issue_token(role="author", space="forum", actor="kim")
    receipt = submit(gateway, "t", "before")["receipt"]
    time.advance(1000)
    work(gateway)
    new = Vault.new_key("new")
    gateway.leader.drop()
    with Gateway(url, Vault.read(f"{new},{KEY}"), watch=time.watch_for()) as both:
        both.configure([both.space("forum")])
    with Gateway(url, Vault.read(new), watch=time.watch_for()) as later:
        identity = later.tokens.check(f"Bearer {token}")
        assert identity.actor == "kim"
        assert later.status(identity, receipt) == "posted"
        assert [item.content for item in everything(later)] == ["before"]


# ---- two steps --------------------------------------------------------------------------------------------------


def test_nobody_reads_a_held_post_alone(url: str, make: Any, time: FakeTime) -> None:
    gateway: Gateway = make(url)
    one, two = (gateway.tokens.check(f"Bearer {gateway.issue_token(role='operator', space='forum')}") for _ in "ab")
    reader = gateway.tokens.check(f"Bearer {gateway.issue_token(role='reader', space='forum')}")
    receipt = submit(gateway, "t", "the text")["receipt"]
    with pytest.raises(BadInput, match="reason"):
        request_reveal(gateway, one, receipt, "short")
    with pytest.raises(NotFound):
        request_reveal(gateway, one, "x" * 43, "a threat, case 12")
    with pytest.raises(Forbidden):
        request_reveal(gateway, reader, receipt, "a threat, case 12")
    number = request_reveal(gateway, one, receipt, "a threat, case 12")
    for who in (one, reader):
        with pytest.raises(Forbidden):
            approve_reveal(gateway, who, number)
    with pytest.raises(NotFound):
        approve_reveal(gateway, two, 99)
    assert approve_reveal(gateway, two, number) == {"space": "forum", "thread": "t", "content": "the text"}
    with pytest.raises(Forbidden, match="already"):
        approve_reveal(gateway, two, number)
    for statement in ("UPDATE gateway_audit SET action = 'x'", "DELETE FROM gateway_audit"):
        with pytest.raises(Unavailable, match="append-only|two writers"), gateway.database.writing("x") as connection:
            connection.execute(text(statement))
    late = request_reveal(gateway, one, receipt, "a threat, case 13")
    time.advance(1000)
    work(gateway)
    with pytest.raises(NotFound):
        approve_reveal(gateway, two, late)


# ---- configuration, page, doctor --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "gap"),
        ({"gap": 45}, "unit"),
        ({"gap": "45"}, "unit"),
        ({"gap": "1m"}, "window"),
        ({"gap": "45m", "epsilon": -1}, "epsilon"),
        ({"gap": "45m", "epsilon": "nan"}, "epsilon"),
        ({"gap": "45m", "mechanism": "exponential"}, "mechanism"),
        ({"gap": "45m", "grid": "0s"}, "grid"),
        ({"gap": "45m", "grdi": "1s"}, "'grid'?"),
        ({"gap": "45m", "declared": True}, "declared"),
        ({"gap": "45m", "declared": "no"}, "declared"),
        ({"gap": "45m", "quiet": "night"}, "quiet"),
        ({"gap": "45m", "quiet": {"start": "25:00", "end": "07:00"}}, "quiet"),
        ({"gap": "45m", "quiet": {"start": "07:00", "end": "07:00"}}, "quiet"),
        ({"gap": "45m", "quiet": {"start": "22:00", "end": "07:00", "zone": "Mars/Base"}}, "zone"),
        ({"gap": "45m", "deadline": "tomorrow"}, "deadline"),
        ({"gap": "45m", "deadline": "2027-01-01T00:00:00"}, "zone"),
        ({"gap": "45m", "longest": 0}, "longest"),
        ({"gap": "45m", "webhooks": [{"url": "ftp://x", "secret_env": "A"}]}, "https"),
        ({"gap": "45m", "webhooks": [{"url": "https://x"}]}, "secret_env"),
        ({"gap": "45m", "webhooks": [{"url": "https://u:p@x", "secret_env": "A"}]}, "without a name"),
        ({"gap": "45m", "webhooks": [{"url": "https://x", "secret_env": "A", "allow": ["home"]}]}, "networks"),
    ],
)
def test_bad_spaces_are_refused(table: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Space.read("forum", table)


def test_a_space_survives_the_database() -> None:
    table = {
        "gap": "45m", "gaps": {"t": "2h"}, "quiet": {"start": "22:00", "end": "07:00", "zone": "Europe/Zurich"},
        "deadline": "2027-01-31T23:59:00Z", "mechanism": "uniform", "declared": True, "epsilon": "1/3",
    }  # fmt: skip
    hook = {"url": "https://forum.example.org/in", "secret_env": "A", "allow": ["10.0.0.0/8"]}
    space = Space.read("forum", table | {"webhooks": hook})
    assert Space.from_json(space.to_json()) == space
    old = json.loads(space.to_json()) | {"webhooks": [["https://forum.example.org/in", "A"]]}
    del old["demo"]
    assert Space.from_json(json.dumps(old)).webhooks[0].allow == ()
    assert space.longest_delay("t") > space.longest_delay("u")
    assert "everything still held appears at once" in space.in_words()
    with pytest.raises(BadInput, match="small letters"):
        Space.read("My Forum", table)


def test_quiet_hours_over_midnight_and_over_a_change_of_clocks() -> None:
    space = Space.read("forum", {"gap": "45m", "quiet": {"start": "22:00", "end": "07:00", "zone": "Europe/Zurich"}})
    assert space.quiet is not None
    for moment, ends in [  # 2027-03-28: clocks go forward at 01:00 UTC
        (1_806_181_200, 1_806_210_000),  # 27 March 22:00 UTC = 23:00 local; 28 March 07:00 local is 05:00 UTC
        (1_806_206_400, 1_806_210_000),
        (1_806_210_000, None),
        (1_806_170_400, None),
    ]:
        found = space.quiet.end_after(moment * SECOND)
        assert found == (None if ends is None else ends * SECOND)


def test_gaps_are_learned_from_history(tmp_path: Path) -> None:
    from peerveil.data import synthetic_conference

    events = synthetic_conference(papers=40, reviewers=30, seed=1).events
    events.frame.write_csv(tmp_path / "last.csv")
    base = {"history": "last.csv", "percentile": 25, "window": "5m"}
    one = Space.read("forum", base, str(tmp_path))
    each = Space.read("forum", base | {"per": "thread"}, str(tmp_path))
    assert one.gaps == {}
    assert one.gap > 300
    assert set(each.gaps) == {str(thread) for thread in events.frame["thread"].unique()}
    assert all(gap > 300 for gap in each.gaps.values())
    with pytest.raises(BadInput, match="per"):
        Space.read("forum", base | {"per": "color"}, str(tmp_path))


def test_the_page_says_whether_delays_fit(sqlite_url: str, make: Any, time: FakeTime) -> None:
    from tests.web.gateway.test_closures import take_many

    from peerveil.web.gateway.tally import BINS, fit_verdict

    gateway = make(sqlite_url)
    assert "Nothing has been published yet" in operator_page(gateway, ["forum"]).html()
    take_many(gateway, 400)
    time.advance(1000)
    work(gateway)
    page = operator_page(gateway, ["forum"]).html()
    assert "They fit" in page
    assert "<script" not in page
    fits, words = fit_verdict({f"fit_{k}": 100 for k in range(BINS)})
    assert fits
    assert "fit (p" in words
    fits, words = fit_verdict({f"fit_{k}": 100 + 40 * (k == 3) * 3 for k in range(BINS)})
    assert not fits
    assert "NOT" in words


def test_the_doctor_names_what_is_wrong(url: str, time: FakeTime) -> None:
    gateway = open_gateway(url, time)
    try:
        submit(gateway)
        with gateway.database.writing("x") as connection:
            body = bytes(connection.execute(select(frames.c.body)).scalars().first() or b"")
            connection.execute(frames.update().values(body=b"\x04othr" + body[5:]))
        found = {one.what: one for one in examine(gateway)}
        assert not found["sealed posts"].ok
        assert not found["tokens"].ok
        assert found["durability"].ok
        work(gateway)
        time.step(3600)
        with pytest.raises(Unavailable):
            work(gateway)
        assert "halted" in {one.what: one for one in examine(gateway)}["clock"].found
    finally:
        gateway.close()


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PEERVEIL_KEY", raising=False)
    assert run(capsys, "gateway", "doctor")[0] == 2  # nothing there yet, and it says so
    code, out, _ = run(capsys, "gateway", "init")
    assert code == 0
    assert "written: gateway.toml" in out
    assert (tmp_path / "gateway.key").stat().st_mode & 0o077 == 0
    assert run(capsys, "gateway", "init")[0] == 0  # again
    token = run(capsys, "gateway", "token", "--space", "forum", "--role", "author", "--actor", "kim")[1].strip()
    assert token.startswith("pv_")
    for wrong in (
        ["--space", "none", "--role", "reader"],
        ["--space", "forum", "--role", "author"],
        ["--space", "*", "--role", "reader"],
    ):
        assert run(capsys, "gateway", "token", *wrong)[0] == 2
    code, out, _ = run(capsys, "gateway", "doctor", "--json")
    assert code == 0
    assert {row["what"] for row in json.loads(out)} >= {"clock", "key", "tables"}
    assert run(capsys, "gateway", "doctor", "--confirm-clock", "step")[0] == 2
    assert run(capsys, "gateway", "backup", "--to", "b.backup")[0] == 0
    assert run(capsys, "gateway", "restore", "b.backup")[0] == 2  # in use
    assert run(capsys, "gateway", "restore", "b.backup", "--db", "new.db")[0] == 0
    assert run(capsys, "gateway", "page", "--out", "page")[0] == 0
    assert (tmp_path / "page" / "operator.html").exists()
    accounts = Path("accounts.txt")
    accounts.write_text("lee\n\nmax, jr\n", encoding="utf-8")
    bulk = ("gateway", "token", "--space", "forum", "--role", "author", "--actors", str(accounts))
    lines = run(capsys, *bulk)[1].splitlines()
    assert [line.rpartition(",")[0] for line in lines] == ["actor", "lee", '"max, jr"']
    assert run(capsys, *bulk, "--actor", "kim")[0] == 2
    rows = json.loads(run(capsys, "gateway", "tokens", "list", "--json")[1])
    (lee,) = [row["id"] for row in rows if row["actor"] == "lee"]
    assert run(capsys, "gateway", "tokens", "revoke", lee)[0] == 0
    assert run(capsys, "gateway", "tokens", "revoke", "nobody")[0] == 2
    operator = run(capsys, "gateway", "token", "--space", "*", "--role", "operator")[1].strip()
    monkeypatch.setenv("PEERVEIL_TOKEN", operator)
    assert run(capsys, "gateway", "reveal")[0] == 2
    assert run(capsys, "gateway", "reveal", "--receipt", "x", "--reason", "a long reason")[0] == 2
    assert run(capsys, "gateway", "reveal", "--log", "--json")[:2] == (0, "[]\n")
    code, _, err = run(capsys, "gateway", "doctor", "--db", "postgresql://chair:swordfish@db/gateway")
    assert code == 2
    assert "PGPASSWORD" in err
    assert "swordfish" not in err
    (tmp_path / "gateway.key").write_text(Vault.new_key())
    code, _, err = run(capsys, "gateway", "doctor")
    assert code == 2
    assert "PEERVEIL_KEY" in err


def test_settings_come_from_the_file_and_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "g.toml"
    file.write_text('port = 80\ndb = "my.db"\nclock_tolerance = "3s"\n[spaces.a]\ngap = "1h"\n')
    monkeypatch.setenv("PEERVEIL_GATEWAY_PORT", "81")
    found = GatewaySettings.read(file)
    assert (found.port, found.db, found.clock_tolerance) == (81, str(tmp_path / "my.db"), 3.0)
    assert GatewaySettings.read(file, "postgresql://u@h/d").db == "postgresql://u@h/d"
    monkeypatch.delenv("PEERVEIL_GATEWAY_PORT")
    for line, message in [
        ("port = 99999", "port: got 99999"),
        ("processes = 0", "processes"),
        ("[spaces]\nx = 1", "a table"),
        ("spaces = 1", "a table"),
        ("prot = 1", r"'port'\?"),
        ('port = "x"', "type int"),
        ("port = true", "type int"),
        ("=", "a TOML file"),
    ]:
        file.write_text(line)
        with pytest.raises(BadInput, match=message):
            GatewaySettings.read(file)
    with pytest.raises(BadInput, match="a file that exists"):
        GatewaySettings.read(tmp_path / "none")
    monkeypatch.setenv("PEERVEIL_GATEWAY_PORT", "x")
    with pytest.raises(BadInput, match="PEERVEIL_GATEWAY_PORT"):
        GatewaySettings.read(None)


def test_serving_before_init_says_to_run_init_and_that_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PEERVEIL_KEY", raising=False)
    for command in ("serve", "doctor", "work"):
        code, _, err = run(capsys, "gateway", command)
        assert code == 2
        assert "run `peerveil gateway init`" in err
        assert "new_key" not in err
    assert list(tmp_path.iterdir()) == []
    assert run(capsys, "gateway", "init")[0] == 0
    code, out, _ = run(capsys, "gateway", "doctor")  # what is not started or made yet is the next step, and no fault
    assert code == 0
    assert "WRONG" not in out
    assert {"publishing thread", "intake thread", "tokens"} <= {
        line.split("│")[2].strip() for line in out.splitlines() if line.startswith("│ next")
    }
    assert run(capsys, "gateway", "token", "--space", "forum", "--role", "reader")[0] == 0


# ---- keys, databases, dead letters and the demonstration, by commands -------------------------------------------------


def test_a_key_is_rotated_and_the_old_one_removed_only_when_nothing_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PEERVEIL_KEY", raising=False)
    assert run(capsys, "gateway", "key", "rotate")[0] == 2  # nothing there yet
    assert run(capsys, "gateway", "init")[0] == 0
    key_file = tmp_path / "gateway.key"
    old = key_file.read_text().strip()
    name = old.partition(":")[0]
    with Gateway("gateway.db", Vault.read(old)) as gateway:
        receipt = submit(gateway, "t", "held over the change")["receipt"]
    code, out, _ = run(capsys, "gateway", "key", "rotate", "--json")
    assert code == 0
    new = json.loads(out)["key"]
    assert key_file.read_text().strip().endswith(f",{old}")
    assert key_file.stat().st_mode & 0o077 == 0
    for wrong, said in ((name, "still seals"), (new, "an old key"), ("other", "an old key")):
        code, _, err = run(capsys, "gateway", "key", "rotate", "--drop", wrong)
        assert code == 2
        assert said in err
    rows = {row["what"]: row for row in json.loads(run(capsys, "gateway", "doctor", "--json")[1])}
    assert "still seals" in rows[f"old key {name}"]["found"]
    assert run(capsys, "gateway", "init")[0] == 0  # or serve: seals anew
    rows = {row["what"]: row for row in json.loads(run(capsys, "gateway", "doctor", "--json")[1])}
    assert rows[f"old key {name}"]["do"].endswith(f"--drop {name}")
    assert run(capsys, "gateway", "key", "rotate", "--drop", name)[0] == 0
    assert name not in key_file.read_text()
    with Gateway("gateway.db", Vault.read(key_file.read_text())) as gateway:
        token = gateway.issue_token(role="author", space="forum", actor="kim")
        assert gateway.status(gateway.tokens.check(f"Bearer {token}"), receipt) == "held"
    with pytest.raises(BadInput, match="key"):
        Gateway("gateway.db", Vault.read(old))
    monkeypatch.setenv("PEERVEIL_KEY", key_file.read_text().strip())
    assert "peerveil gateway key new" in run(capsys, "gateway", "key", "rotate")[2]
    printed = run(capsys, "gateway", "key", "new")[1]
    assert len(Vault.read(printed).names) == 1


def test_init_writes_the_database_that_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from peerveil.web.gateway.settings import example

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PEERVEIL_KEY", raising=False)
    assert run(capsys, "gateway", "init", "--db", "elsewhere.db")[0] == 0
    assert not (tmp_path / "gateway.db").exists()
    assert GatewaySettings.find().db == str(tmp_path / "elsewhere.db")
    assert run(capsys, "gateway", "doctor")[0] == 0  # without --db
    file = tmp_path / "two.toml"
    file.write_text(example("postgresql://gateway@db.example.org/gateway"))
    assert GatewaySettings.read(file).db == "postgresql://gateway@db.example.org/gateway"
    code, _, err = run(capsys, "gateway", "init", "--db", "postgresql://u:swordfish@h/d", "--config", "three.toml")
    assert code == 2
    assert "swordfish" not in err
    assert not (tmp_path / "three.toml").exists()


def test_dead_letters_are_listed_and_replayed_by_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from peerveil.web.gateway.tables import letters

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PEERVEIL_KEY", raising=False)
    monkeypatch.setenv("FORUM_SECRET", "a secret of the platform")
    assert run(capsys, "gateway", "init")[0] == 0
    text = (tmp_path / "gateway.toml").read_text().replace("# webhooks", "webhooks")
    (tmp_path / "gateway.toml").write_text(text)
    assert run(capsys, "gateway", "init")[0] == 0
    (state,) = json.loads(run(capsys, "gateway", "webhooks", "list", "--json")[1])
    assert (state["host"], state["waiting"], state["dead"]) == ("forum.example.org", 0, 0)
    with Gateway("gateway.db", Vault.find("gateway.key")) as gateway, gateway.database.writing("x") as connection:
        row = {
            "hook": state["name"],
            "after": 0,
            "sent": 0,
            "last": 7,
            "given_up_at": 1,
            "problem": "x",
            "state": "dead",
        }
        connection.execute(letters.insert().values(**row))
    assert "7" in run(capsys, "gateway", "webhooks", "list")[1]
    code, out, _ = run(capsys, "gateway", "doctor")
    assert code == 1
    assert "webhooks replay" in out
    assert "7 items" in run(capsys, "gateway", "webhooks", "replay", state["name"])[1]
    assert run(capsys, "gateway", "webhooks", "replay", "nobody")[0] == 2


def test_a_demonstration_says_everywhere_that_it_is_none_of_the_real_thing(tmp_path: Path) -> None:
    import io

    from tests.web.common.client import Client

    from peerveil.web.gateway import create_app
    from peerveil.web.gateway.demo import demo_settings

    (space,) = demo_settings(None).spaces
    assert (space.gap, space.window, space.grid) == (45, 5, 1)
    assert space.longest_delay("t") < 80
    log = io.StringIO()
    with Gateway(str(tmp_path / "demo.db"), Vault.read(KEY), create=True) as gateway:
        gateway.configure([space])
        assert gateway.space("forum").demo
        token = gateway.issue_token(role="author", space="forum", actor="kim")
        operator = gateway.issue_token(role="operator", space="*")
        client = Client(create_app(gateway, Journal("test", log)))
        try:
            headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "k"}
            answer = client.post("/v1/spaces/forum/posts", json={"thread": "t", "content": "x"}, headers=headers)
            seen = [answer.text, *(client.get(f"/v1/spaces/forum/feed{kind}").text for kind in ("", ".atom", ".rss"))]
            seen.append(client.get("/operator", headers={"Authorization": f"Bearer {operator}"}).text)
        finally:
            client.close()
    assert answer.status_code == 202
    assert all("not private" in text for text in seen)
    assert "demonstration_not_private" in log.getvalue()
    assert "not private" in str(space)


@pytest.mark.slow
def test_a_key_is_rotated_through_kills_and_no_post_is_lost(tmp_path: Path) -> None:
    """Killed before the new key is used, while it is, and after the old one is gone; all posts come out once."""
    import subprocess
    import time as real_time

    from tests.web.common.process import COMMAND, Served

    from peerveil.web.gateway import GatewayClient

    def command(*words: str) -> str:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PEERVEIL_")}
        done = subprocess.run(
            [*COMMAND, *words], cwd=tmp_path, env=inherited, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    command("gateway", "init")
    file = tmp_path / "gateway.toml"
    settings = file.read_text().replace('"45m"', '"12s"').replace('"5m"', '"2s"').replace('"1m"', '"1s"')
    file.write_text(settings.replace("# public", "public"))
    command("gateway", "init")
    author = command("gateway", "token", "--space", "forum", "--role", "author", "--actor", "kim")
    old = (tmp_path / "gateway.key").read_text().partition(":")[0]
    serve = ["gateway", "serve", "--port", "0"]
    sent: list[str] = []

    def post(served: Served, count: int) -> None:
        client = GatewayClient(served.base, author)
        for _ in range(count):
            sent.append(f"post {len(sent)}")
            client.submit("forum", f"t{len(sent)}", sent[-1])
            assert client.advice("forum", "t")["longest_delay"] > 0

    served = Served(serve, tmp_path, tmp_path, {})
    post(served, 5)
    command("gateway", "key", "rotate")  # while it runs
    post(served, 5)
    served.kill()
    for _ in range(3):  # each start seals anew, and is killed in the middle of something
        served = Served(serve, tmp_path, tmp_path, {})
        post(served, 5)
        served.kill()
    command("gateway", "init")
    command("gateway", "key", "rotate", "--drop", old)
    assert old not in (tmp_path / "gateway.key").read_text()
    served = Served(serve, tmp_path, tmp_path, {})
    try:
        post(served, 5)
        client, end = GatewayClient(served.base), real_time.monotonic() + 120
        while len(list(client.feed("forum"))) < len(sent) and real_time.monotonic() < end:
            real_time.sleep(0.5)
        assert sorted(item["content"] for item in client.feed("forum")) == sorted(sent)
    finally:
        served.stop()


@pytest.mark.slow
@pytest.mark.usefixtures("postgres_url")
def test_no_process_shows_the_password_of_the_database(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of several processes: what everybody on the machine can read of them, /proc/PID/cmdline, has no password."""
    from tests.web.common.process import Served

    address = postgres_url.replace("tester@", "tester:swordfish@")
    environment = {"PEERVEIL_GATEWAY_DB": address, "PEERVEIL_KEY": KEY, "PYTHONUNBUFFERED": "1"}
    (tmp_path / "gateway.toml").write_text('[spaces.forum]\ngap = "45m"\n')
    import socket

    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    served = Served(["gateway", "serve", "--processes", "2", "--port", str(port)], tmp_path, tmp_path, environment)
    try:
        lines = {}
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                lines[process.name] = (process / "cmdline").read_bytes()
        ours = [line for line in lines.values() if str(port).encode() in line]
        assert len(ours) == 3  # the one that watches, and two that serve
        assert not any(b"swordfish" in line for line in lines.values())
        assert "swordfish" not in served.said()
    finally:
        served.stop()
