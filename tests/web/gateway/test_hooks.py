"""Receivers that answer badly, slowly or never: they harm no other receiver, and no shutdown. Parts that die are seen."""

from __future__ import annotations

import contextlib
import http.client
import io
import socket
import ssl
import threading
import time as real_time
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import select, update
from tests.web.common.client import Client
from tests.web.gateway.helpers import SETTINGS, FakeTime, everything, job, open_gateway, submit, work
from tests.web.gateway.test_operating import Receiver

from peerveil.core.errors import BadInput
from peerveil.web.common import Journal
from peerveil.web.common.errors import Unavailable
from peerveil.web.gateway import GatewayWorker, Space, create_app, examine
from peerveil.web.gateway.health import Heartbeat
from peerveil.web.gateway.metrics import metrics
from peerveil.web.gateway.receivers import Attempt, is_allowed
from peerveil.web.gateway.tables import hooks
from peerveil.web.gateway.watch import Halted
from peerveil.web.gateway.webhooks import Deliveries, WebhookState, read_webhooks, replay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from peerveil.web.gateway import Gateway
    from peerveil.web.gateway.health import HealthCheck

PATIENCE = 60.0  # for what should happen at once, on a busy machine
SECRET = "a secret of the platform"
BAD: dict[str, bytes] = {
    "no status line": b"\x00\xff garbage\r\n\r\n",
    "a status that is no number": b"HTTP/1.1 OK fine\r\n\r\n",
    "an unknown version": b"HTTP/9.9 200 OK\r\n\r\n",
    "bad chunks": b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\nx\r\n",
    "too many headers": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
    "a huge header": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 300_000 + b"\r\n\r\n",
    "a bad length": b"HTTP/1.1 500 No\r\nContent-Length: -5\r\n\r\n",
    "a bad redirect": b"HTTP/1.1 302 Found\r\nLocation: http://[\r\n\r\n",
    "nothing": b"",
}


class RawReceiver:
    """Reads each request and lets a function answer on the bare socket."""

    def __init__(self, answer: Callable[[socket.socket, threading.Event], None]) -> None:
        self.asked = threading.Event()
        self.cut_off = threading.Event()
        self._done = threading.Event()
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/hook"

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self._threads.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
                self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                more = connection.recv(65536)
                if not more:
                    return
                head += more
            self.asked.set()
            try:
                self._answer(connection, self._done)
            except OSError:
                self.cut_off.set()

    def close(self) -> None:
        self._done.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join(PATIENCE)


def publish_one(gateway: Gateway, time: FakeTime) -> None:
    """A post of somebody, until it is in the feed."""
    submit(gateway)
    time.advance(1000)
    work(gateway)


def state_of(gateway: Gateway, time: FakeTime) -> WebhookState:
    """How the only webhook stands."""
    with gateway.database.reading() as connection:
        (state,) = read_webhooks(connection, time.now)
    return state


def says(raw: bytes) -> Callable[[socket.socket, threading.Event], None]:
    return lambda connection, _: connection.sendall(raw)


def drips(connection: socket.socket, done: threading.Event) -> None:
    """One byte after the other, forever: no single read waits for long."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    while not done.wait(0.1):
        connection.sendall(b"y")


def is_silent(connection: socket.socket, done: threading.Event) -> None:
    connection.settimeout(0.1)
    while not done.is_set():
        with contextlib.suppress(TimeoutError):
            if not connection.recv(65536):
                raise ConnectionResetError


def floods(connection: socket.socket, done: threading.Event) -> None:
    """Continue, continue, continue: an answer without end."""
    while not done.is_set():
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)


@pytest.fixture
def receivers() -> Iterator[Callable[[Any], Any]]:
    made: list[Any] = []

    def one(answer: Callable[[socket.socket, threading.Event], None] | None) -> Any:
        made.append(Receiver() if answer is None else RawReceiver(answer))
        return made[-1]

    yield one
    for receiver in made:
        receiver.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that look again at once instead of after a second."""
    monkeypatch.setattr("peerveil.web.gateway.webhooks._IDLE_SECONDS", 0.05)
    monkeypatch.setattr("peerveil.web.gateway.publish._LONGEST_PAUSE_SECONDS", 0.05)


def hook(url: str, *allow: str) -> dict[str, Any]:
    return {"url": url, "secret_env": "HOOK_SECRET", "allow": list(allow or ["127.0.0.0/8"])}


def with_hooks(url: str, time: FakeTime, monkeypatch: pytest.MonkeyPatch, *urls: str) -> Gateway:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    return open_gateway(url, time, webhooks=[hook(one) for one in urls])


def until(condition: Callable[[], Any]) -> bool:
    end = real_time.monotonic() + PATIENCE
    while real_time.monotonic() < end:
        if condition():
            return True
        real_time.sleep(0.02)
    return False


def attempts(gateway: Gateway, url: str) -> int:
    with gateway.database.reading() as connection:
        return int(connection.execute(select(hooks.c.attempts).where(hooks.c.url == url)).scalar_one())


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("hangs", [False, True], ids=["bad answers", "no end"])
def test_bad_receivers_harm_no_other_and_no_shutdown(
    sqlite_url: str, time: FakeTime, monkeypatch: pytest.MonkeyPatch, receivers: Any, hangs: bool
) -> None:
    bad = [receivers(answer) for answer in ((drips, is_silent, floods) if hangs else map(says, BAD.values()))]
    good = receivers(None)
    gateway = with_hooks(sqlite_url, time, monkeypatch, *(one.url for one in bad), good.url)
    worker = GatewayWorker(gateway, Journal("test"))
    worker.start()
    stopping = threading.Thread(target=worker.stop, daemon=True)
    try:
        submit(gateway, "t", "first")
        time.advance(1000)
        assert all(one.asked.wait(PATIENCE) for one in bad)
        assert hangs or until(lambda: all(attempts(gateway, one.url) >= 1 for one in bad))  # each counts as a failure
        submit(gateway, "t", "second")
        time.advance(1000)
        assert until(lambda: [item["content"] for item in good.seen] == ["first", "second"])
    finally:
        stopping.start()
        stopping.join(PATIENCE)
        stopped = not stopping.is_alive()
        if stopped:
            gateway.close()
    assert stopped  # also while receivers hang


@pytest.mark.parametrize("answer", [drips, is_silent, floods], ids=["drips", "silent", "floods"])
def test_a_request_is_cut_off_at_its_deadline_and_tried_again(
    sqlite_url: str, time: FakeTime, monkeypatch: pytest.MonkeyPatch, receivers: Any, answer: Any
) -> None:
    slow = receivers(answer)
    gateway = with_hooks(sqlite_url, time, monkeypatch, slow.url)
    try:
        publish_one(gateway, time)
        assert Deliveries(gateway, Journal("test"), deadline=0.5).step() == 0
        assert slow.cut_off.wait(PATIENCE)
        assert attempts(gateway, slow.url) == 1
        time.advance(10)
        assert Deliveries(gateway, Journal("test"), deadline=0.5).step() == 0
        assert attempts(gateway, slow.url) == 2
    finally:
        gateway.close()


def test_operators_read_in_words_what_is_wrong_with_a_receiver(
    sqlite_url: str, time: FakeTime, monkeypatch: pytest.MonkeyPatch, receivers: Any
) -> None:
    urls = [receivers(says(BAD["no status line"])).url, receivers(is_silent).url, "http://127.0.0.1:1/hook"]
    gateway = with_hooks(sqlite_url, time, monkeypatch, *urls)
    try:
        publish_one(gateway, time)
        Deliveries(gateway, Journal("test"), deadline=0.5).step()
        with gateway.database.reading() as connection:
            problems = {state.problem: state.in_words() for state in read_webhooks(connection, time.now)}
        assert problems.keys() == {"an answer that is no HTTP", "no answer in time", "connection refused"}
        assert problems["connection refused"].startswith("127.0.0.1:1: failing for 0 s (1 attempt, connection refused)")
    finally:
        gateway.close()


def test_what_is_cut_off_had_no_answer_in_time(receivers: Any) -> None:
    silent = receivers(is_silent)
    errors: list[type[Exception]] = []

    def work(attempt: Attempt) -> int:
        try:
            return attempt.post(silent.url, b"{}", {}, ssl.create_default_context(), ["127.0.0.0/8"])
        except (OSError, http.client.HTTPException) as error:
            errors.append(type(error))
            return 0

    attempt = Attempt("one", 60, work)
    attempt.start()
    assert silent.asked.wait(PATIENCE)
    attempt.cut()
    attempt.join(PATIENCE)
    assert errors == [TimeoutError]


def test_tls_that_never_begins_is_cut_off(
    sqlite_url: str, time: FakeTime, monkeypatch: pytest.MonkeyPatch, receivers: Any
) -> None:
    slow = receivers(drips)  # reads what should be a greeting, and waits for the end of its head
    gateway = with_hooks(sqlite_url, time, monkeypatch, slow.url.replace("http:", "https:"))
    try:
        publish_one(gateway, time)
        assert Deliveries(gateway, Journal("test"), deadline=0.5).step() == 0
        assert attempts(gateway, slow.url.replace("http:", "https:")) == 1
    finally:
        gateway.close()


@pytest.mark.usefixtures("quick")
def test_slow_receivers_that_fail_again_leave_room_for_others(
    sqlite_url: str, time: FakeTime, monkeypatch: pytest.MonkeyPatch, receivers: Any
) -> None:
    slow, good = [receivers(is_silent) for _ in range(4)], receivers(None)
    gateway = with_hooks(sqlite_url, time, monkeypatch, *(one.url for one in slow), good.url)
    deliveries, stop = Deliveries(gateway, Journal("test"), deadline=PATIENCE, most=4), threading.Event()
    with gateway.database.writing("x") as connection:
        connection.execute(update(hooks).where(hooks.c.url != good.url).values(attempts=1))
    running = threading.Thread(target=deliveries.run, args=(stop,), daemon=True)
    try:
        publish_one(gateway, time)
        running.start()
        assert until(lambda: sum(one.asked.is_set() for one in slow) == 2)  # half of the room, and no more
        assert until(lambda: len(good.seen) == 1)
        publish_one(gateway, time)
        assert until(lambda: len(good.seen) == 2)
        assert sum(one.asked.is_set() for one in slow) == 2
    finally:
        stop.set()
        running.join(PATIENCE)
        gateway.close()
    assert not running.is_alive()


# ---- addresses --------------------------------------------------------------------------------------------------

INSIDE = [
    "127.0.0.1", "10.0.0.1", "172.16.5.5", "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.100.100.200", "0.0.0.0",
    "224.0.0.1", "255.255.255.255", "192.0.0.192", "168.63.129.16", "198.18.0.1", "240.0.0.1", "::1", "::", "fe80::1",
    "fe80::1%eth0", "fd00:ec2::254", "ff02::1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2001:0:7f00:1::", "::127.0.0.1",
]  # fmt: skip


def test_addresses_inside_are_refused_however_they_are_written() -> None:
    assert [address for address in INSIDE if is_allowed(address)] == []
    outside = ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "::ffff:93.184.215.14", "64:ff9b::5db8:d70e"]
    assert all(is_allowed(address) for address in outside)
    assert is_allowed("::ffff:10.1.2.3", ["10.1.0.0/16"])
    assert not is_allowed("10.2.0.1", ["10.1.0.0/16"])
    assert is_allowed("fd00::7", ["10.1.0.0/16", "fd00::/64"])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"])
def test_a_receiver_inside_gets_no_connection_unless_it_is_allowed(
    sqlite_url: str, time: FakeTime, monkeypatch: pytest.MonkeyPatch, receivers: Any, host: str
) -> None:
    inside = receivers(None)
    url = inside.url.replace("127.0.0.1", host)
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    gateway = open_gateway(sqlite_url, time, webhooks=[hook(url, "10.0.0.0/8")])
    try:
        publish_one(gateway, time)
        assert Deliveries(gateway, Journal("test")).step() == 0
        assert inside.headers == []
        found = state_of(gateway, time)
        assert "private or reserved" in found.problem
        gateway.configure([Space.read("forum", SETTINGS | {"webhooks": [hook(url)]})])
        time.advance(10)
        assert Deliveries(gateway, Journal("test")).step() == 1
    finally:
        gateway.close()


def test_the_connection_goes_to_the_address_that_was_checked(
    sqlite_url: str, time: FakeTime, monkeypatch: pytest.MonkeyPatch, receivers: Any
) -> None:
    """DNS rebinding: the name has an allowed address when it is looked up first, and another one ever after."""
    good = receivers(None)
    port, real = int(good.url.split(":")[2].split("/")[0]), socket.getaddrinfo
    answers = iter(["127.0.0.1"])  # a second look-up of one attempt would get the address inside
    asked: list[str] = []

    def resolve(host: Any, *arguments: Any, **options: Any) -> Any:
        asked.append(str(host))
        return real(next(answers, "127.9.9.9") if host == "rebinding.example" else host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    url = f"http://rebinding.example:{port}/hook"
    gateway = open_gateway(sqlite_url, time, webhooks=[hook(url, "127.0.0.1/32")])
    try:
        for sent in (1, 0):
            publish_one(gateway, time)
            assert Deliveries(gateway, Journal("test")).step() == sent
        assert asked == ["rebinding.example"] * 2  # one look-up for each attempt
    finally:
        gateway.close()


def test_a_certificate_that_nobody_signed_is_a_failure_like_any_other(
    sqlite_url: str, time: FakeTime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    certificate = self_signed(tmp_path)
    good = Receiver(certificate)
    gateway = with_hooks(sqlite_url, time, monkeypatch, good.url)
    try:
        publish_one(gateway, time)
        deliveries = Deliveries(gateway, Journal("test"))
        assert deliveries.step() == 0
        assert "self-signed" in state_of(gateway, time).problem
        deliveries._context.load_verify_locations(certificate)
        time.advance(10)
        assert deliveries.step() == 1
    finally:
        gateway.close()
        good.close()


def self_signed(folder: Path) -> Path:
    """A certificate for 127.0.0.1 and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    built = built.serial_number(1).not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    raw = built.add_extension(names, critical=False).sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    path = folder / "test.pem"
    path.write_bytes(raw + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return path


# ---- dead letters -----------------------------------------------------------------------------------------------


def fail_for(deliveries: Deliveries, time: FakeTime, days: float) -> None:
    for _ in range(round(days * 24)):
        time.advance(3600)
        time.advance(3600)  # beyond the longest pause
        deliveries.step()


def test_what_a_receiver_does_not_take_for_days_is_set_aside_and_sent_again_when_asked(
    url: str, time: FakeTime, monkeypatch: pytest.MonkeyPatch, receivers: Any
) -> None:
    good = receivers(None)
    gateway = with_hooks(url, time, monkeypatch, good.url)
    deliveries = Deliveries(gateway, Journal("test"))

    def post(*texts: str) -> None:
        for text in texts:
            submit(gateway, "t", text, actor=text)
        time.advance(1000)
        work(gateway)

    try:
        good.answer = 500
        post("a", "b", "c")
        fail_for(deliveries, time, 1.4)
        assert (state_of(gateway, time).waiting, state_of(gateway, time).dead, state_of(gateway, time).problem) == (
            3,
            0,
            "status 500",
        )
        fail_for(deliveries, time, 0.3)
        assert (state_of(gateway, time).waiting, state_of(gateway, time).dead) == (0, 3)
        post("young")  # what is younger is still tried
        fail_for(deliveries, time, 0.1)
        assert (state_of(gateway, time).waiting, state_of(gateway, time).dead) == (1, 3)
        good.answer = 200
        time.advance(7200)
        assert deliveries.step() == 1
        assert [item["content"] for item in good.seen] == ["young"]
        assert (state_of(gateway, time).attempts, state_of(gateway, time).problem) == (0, "")
        good.answer = 500
        with gateway.database.writing("replay") as connection:
            assert replay(connection, state_of(gateway, time).name) == 3
        assert deliveries.step() == 0
        assert deliveries.step() == 0
        assert (state_of(gateway, time).dead, state_of(gateway, time).attempts) == (
            3,
            0,
        )  # dead again; the queue goes on as before
        good.answer = 200
        assert deliveries.step() == 0
        monkeypatch.setattr("peerveil.web.gateway.webhooks._MOST_ITEMS", 2)
        with gateway.database.writing("replay") as connection:
            assert replay(connection) == 3
        assert [deliveries.step() for _ in range(3)] == [2, 1, 0]
        assert state_of(gateway, time).dead == 0
        contents = [item.content for item in everything(gateway)]
        assert [item["content"] for item in good.seen] == [contents[-1], *contents[:-1]]
        with pytest.raises(BadInput, match="one of forum-"), gateway.database.writing("replay") as connection:
            replay(connection, "nobody")
    finally:
        gateway.close()


def test_one_item_that_is_never_taken_does_not_hold_the_others_back_for_ever(
    sqlite_url: str, time: FakeTime, monkeypatch: pytest.MonkeyPatch, receivers: Any
) -> None:
    good = receivers(None)
    good.refuses = "poison"
    gateway = with_hooks(sqlite_url, time, monkeypatch, good.url)
    deliveries = Deliveries(gateway, Journal("test"))
    try:
        submit(gateway, "t", "poison")
        time.advance(1000)
        work(gateway)
        deliveries.step()
        time.advance(7200)
        for k in range(20):
            submit(gateway, "t", f"fine {k}", actor=f"a{k}")
        time.advance(1000)
        work(gateway)
        fail_for(deliveries, time, 1.6)
        found = state_of(gateway, time)
        assert (found.dead, found.waiting, found.attempts) == (1, 0, 0)
        assert sorted(item["content"] for item in good.seen) == sorted(f"fine {k}" for k in range(20))
    finally:
        gateway.close()


# ---- parts that die ---------------------------------------------------------------------------------------------


class Deadly(BaseException):
    """What no handler of ours catches: the thread ends."""


def _dies(*_: Any, **__: Any) -> Any:
    raise Deadly


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("part", ["publishing", "webhooks", "intake"])
def test_a_dead_thread_is_seen_by_healthz_and_by_the_doctor(
    url: str, time: FakeTime, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr("peerveil.web.gateway.health._INTERVAL_SECONDS", 0.05)
    gateway, log = open_gateway(url, time), io.StringIO()
    token = gateway.issue_token(role="author", space="forum", actor="kim")
    assert {one.what: (one.ok, one.fails) for one in examine(gateway)}[f"{part} thread"] == (
        False,
        False,
    )  # not started
    client = Client(create_app(gateway, Journal("test", log)))
    try:
        assert client.get("/healthz").status_code == 200
        assert until(lambda: _finding(gateway, part).ok)
        target = {
            "publishing": (GatewayWorker, "step"),
            "webhooks": (Deliveries, "begin"),
            "intake": (gateway.leader, "take"),
        }
        monkeypatch.setattr(*target[part], _dies)
        if part == "intake":
            with pytest.raises(Deadly):  # the request under way is answered all the same
                gateway.group.put(job(gateway)).result(PATIENCE)
        assert until(lambda: client.get("/healthz").status_code == 503)
        assert part in client.get("/healthz").json()["message"]
        assert until(lambda: _finding(gateway, part).found.startswith("dead"))
        found = _finding(gateway, part)
        assert not found.ok
        assert found.fails
        assert '"part_dead"' in log.getvalue()
        if part == "intake":  # nobody waits for a writer that is not there
            headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "k"}
            answer = client.post("/v1/spaces/forum/posts", json={"thread": "t", "content": "x"}, headers=headers)
            assert answer.status_code == 503
    finally:
        client.close()
        gateway.close()


@pytest.mark.usefixtures("quick")
def test_readyz_says_whether_posts_will_be_published(url: str, time: FakeTime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peerveil.web.gateway.health._INTERVAL_SECONDS", 0.05)
    monkeypatch.setattr("peerveil.web.gateway.health._STALE_SECONDS", 0.5)
    gateway = open_gateway(url, time)
    client = Client(create_app(gateway, Journal("test"), worker=False))

    def answers(word: str) -> bool:
        return word in client.get("/readyz").text

    try:
        assert until(lambda: answers("not ready: publishing is not started"))
        other = Heartbeat(gateway, Journal("test"), lambda: {"publishing": True})
        other.start()
        assert until(lambda: client.get("/readyz").json() == {"status": "ready"})
        work(gateway)
        time.step(3600)
        with pytest.raises(Halted):
            work(gateway)
        assert until(lambda: answers("halted: the clock is in doubt"))
        gateway.confirm_clock("step")
        assert until(lambda: answers('"ready"'))
        monkeypatch.setattr(gateway.database, "writing", _dies_softly)
        assert until(lambda: answers("the database does not answer"))
        assert client.get("/healthz").status_code == 200
        monkeypatch.undo()
        other.stop()
    finally:
        client.close()
        gateway.close()


def _dies_softly(*_: Any, **__: Any) -> Any:
    raise Unavailable("the database is away")


def test_metrics_count_what_readers_and_receivers_know(
    url: str, time: FakeTime, monkeypatch: pytest.MonkeyPatch, receivers: Any
) -> None:
    bad = receivers(says(b""))
    gateway = with_hooks(url, time, monkeypatch, bad.url)

    def read() -> dict[str, float]:
        with gateway.database.reading() as connection:
            families = text_string_to_metric_families(metrics(connection, gateway.tallies(), ["forum"], time.now))
        return {
            sample.name.removeprefix("peerveil_gateway_") + sample.labels.get("le", ""): sample.value
            for family in families
            for sample in family.samples
        }

    try:
        submit(gateway)
        Heartbeat(gateway, Journal("test"), lambda: {"publishing": True})._beat(stopping=False)
        before = read()
        assert (before["released_total"], before["part_up"], before["clock_halted"]) == (0, 1, 0)
        time.advance(1000)
        work(gateway)
        Deliveries(gateway, Journal("test")).step()
        after = read()
        assert (after["released_total"], after["late_total"], after["lateness_seconds_count"]) == (1, 1, 1)
        assert after["lateness_seconds_bucket60"] == 0 < after["lateness_seconds_bucket+Inf"]
        assert (after["webhook_waiting"], after["webhook_failures"], after["webhook_dead_letters"]) == (1, 1, 0)
        assert (after["part_up"], after["heartbeat_seconds"]) == (0, 1000)  # silent
        time.step(3600)
        with pytest.raises(Halted):
            work(gateway)
        assert (read()["clock_halted"], read()["clock_step_seconds"]) == (1, 3600)
    finally:
        gateway.close()


def _finding(gateway: Gateway, part: str) -> HealthCheck:
    return next(one for one in examine(gateway) if one.what == f"{part} thread")


def test_a_process_that_was_killed_falls_silent_and_one_that_was_stopped_does_not(url: str, time: FakeTime) -> None:
    gateway = open_gateway(url, time)
    try:
        killed = Heartbeat(gateway, Journal("test"), lambda: {"publishing": True})
        killed._beat(stopping=False)  # and never again
        assert _finding(gateway, "publishing").ok
        time.advance(61)
        assert (_finding(gateway, "publishing").found, _finding(gateway, "publishing").fails) == (
            "silent, 61 s ago",
            True,
        )
        other = Heartbeat(gateway, Journal("test"), lambda: {"publishing": True})
        other.start()
        assert until(lambda: _finding(gateway, "publishing").ok)  # another one does the work
        other.stop()
        time.advance(61)
        assert (_finding(gateway, "publishing").ok, _finding(gateway, "publishing").fails) == (False, False)
    finally:
        gateway.close()
