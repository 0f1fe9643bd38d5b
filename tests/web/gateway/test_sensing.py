"""Does the time of an answer tell anybody without a token that somebody else posted just then?

**The attacker** has no token. It keeps :data:`CONNECTIONS` connections busy with a request that gets a 404, half of them without
a pause, the others at random moments, and knows to the microsecond when each was sent and answered, and when the slots of
the gateway begin. Time is cut into turns; in half of them, at a random moment, somebody posts, and in the others, at a random
moment, the same bytes go to nobody, at the same cost for this machine. The attacker scores each of these moments by what was
measured behind it: several windows, and in each the longest wait, the mean, what exceeds the usual wait, how many were late,
how many came, the longest silence, how late answers were in their slot, how many took another number of slots, and all of these
together (ridge regression on ranks). The best score is chosen on one half of the turns and measured on the other, and the
other way round: one AUC over all events, with its interval (DeLong).

``python -m tests.web.gateway.test_sensing paced one 0 2000`` measures one case: how answers leave (``paced`` or ``at-once``),
what is posted, how many other processes keep the machine busy, how many events.
"""

from __future__ import annotations

import contextlib
import gc
import heapq
import json
import math
import os
import secrets
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from scipy.stats import rankdata

from peerveil.core.errors import BadInput
from peerveil.web.common import Vault
from peerveil.web.gateway import Gateway, Space, pace
from peerveil.web.gateway.pace import SLOT_SECONDS, Door

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

EVENTS = int(os.environ.get("PEERVEIL_EVENTS", "600"))
AT_MOST = 0.58
CONNECTIONS = 24
WINDOWS = (0.003, 0.006, 0.012, 0.025, 0.05, 0.1, 0.15, 0.3)  # seconds behind a moment
PROBE = b"GET /v1/nothing HTTP/1.1\r\nHost: x\r\n\r\n"
POSTS = {"one": (1, 2_000), "longest": (1, 190_000), "burst": (20, 2_000)}
"""What is posted at once: how many, of how many characters."""
TURN_SECONDS = {"one": 0.065, "longest": 0.09, "burst": 0.12}
FRAME_BYTES = 2**20
SERVER = """
import sys
from peerveil.web.common import Journal, Vault
from peerveil.web.common.serving import serve
from peerveil.web.gateway import Gateway, create_app
from peerveil.web.gateway.pace import serve_paced
url, key, mode = sys.argv[1:]
with Gateway(url, Vault.read(key)) as gateway:
    run = serve_paced if mode == "paced" else serve
    run(create_app(gateway, Journal("test")), "127.0.0.1", 0, Journal("test"), ready=lambda port: print(port, flush=True))
"""
AUTHOR = """
import json, secrets, select, socket, sys, time
task = json.load(sys.stdin)
body = json.dumps({"thread": "t", "content": "x" * task["length"]})
head = ("POST /v1/spaces/forum/posts HTTP/1.1\\r\\nHost: x\\r\\nAuthorization: Bearer %s\\r\\n" % task["token"]
    + "Idempotency-Key: %s\\r\\nContent-Type: application/json\\r\\nContent-Length: " + str(len(body)) + "\\r\\n\\r\\n" + body)
free = [socket.create_connection(("127.0.0.1", task["port"])) for _ in range(task["count"] * 8)]
nobody, sink = zip(*(socket.socketpair() for _ in range(task["count"])))
for sock in (*nobody, *sink):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**20)
waiting, sent, refused = [], [], 0
def drain(seconds):
    global refused
    if not waiting:
        time.sleep(seconds)
        return
    for sock in select.select(waiting, [], [], seconds)[0]:
        text = sock.recv(65536)
        refused += text.startswith(b"HTTP/1.1 ") and not text.startswith(b"HTTP/1.1 202")
        if not text.endswith(b"}"):
            continue
        waiting.remove(sock)
        free.append(sock)
for moment, is_event in task["turns"]:
    raw = [(head % secrets.token_hex(16)).encode() for _ in range(task["count"])]
    while (left := moment - time.monotonic()) > 0.004:
        drain(left - 0.003)
    while len(free) < task["count"]:
        drain(0.01)
    chosen = [free.pop(0) for _ in raw] if is_event else nobody
    while time.monotonic() < moment:
        pass
    sent.append(time.monotonic())
    for sock, text in zip(chosen, raw):
        sock.sendall(text)
    if is_event:
        waiting += chosen
    else:
        for other, text in zip(sink, raw):
            left = len(text)
            while left:
                left -= len(other.recv(min(left, 65536)))
end = time.monotonic() + 3
while waiting and time.monotonic() < end:
    drain(0.1)
print(json.dumps({"sent": sent, "refused": refused + len(waiting)}))
"""


class Probes(NamedTuple):
    """When requests of the attacker were sent and answered, in the order of the answers."""

    sent: Floats
    answered: Floats


def probe(port: int, connections: int, until: float) -> Probes:
    """Keep connections busy until a moment of the monotonic clock."""
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
    by_number = {sock.fileno(): (k, sock) for k, sock in enumerate(sockets)}
    begun, rows = [0.0] * connections, []
    rng = np.random.default_rng(11)
    poll = select.epoll()
    for sock in sockets:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        poll.register(sock, select.EPOLLIN)
    later = [(time.monotonic() + 0.001 * k, k) for k in range(connections)]
    gc.disable()
    try:
        while time.monotonic() < until:
            while later and later[0][0] <= time.monotonic():
                k = heapq.heappop(later)[1]
                begun[k] = time.monotonic()
                sockets[k].send(PROBE)
            wait = max(0.0, later[0][0] - time.monotonic()) if later else 1.0
            for number, _ in poll.poll(min(wait, 1.0)):
                k, sock = by_number[number]
                now = time.monotonic()
                if not sock.recv(65536).endswith(b'"Not Found"}'):
                    continue  # head and body come one by one
                rows.append((begun[k], now))
                if k % 2:
                    heapq.heappush(later, (now + SLOT_SECONDS * rng.random(), k))
                else:
                    begun[k] = time.monotonic()
                    sock.send(PROBE)
    finally:
        gc.enable()
        for sock in sockets:
            sock.close()
    sent, answered = np.array(rows).T
    return Probes(sent, answered)


def scores_of(probes: Probes, moments: Floats) -> dict[str, Floats]:
    """What the attacker sees behind each moment."""
    sent, answered = probes
    waits = answered - sent
    usual, late_from = np.median(waits), np.quantile(waits, 0.95)
    place = (answered + SLOT_SECONDS / 2) / SLOT_SECONDS % 1 - 0.5
    slots = np.floor(answered / SLOT_SECONDS + 0.1) - np.floor(sent / SLOT_SECONDS)
    odd = slots != np.median(slots)
    by_sent = np.argsort(sent)
    found: dict[str, list[float]] = {}

    def see(name: str, value: float) -> None:
        found.setdefault(name, []).append(value)

    for moment in moments:
        for window in WINDOWS:
            for kind, order, times in (("answered", None, answered), ("sent", by_sent, sent[by_sent])):
                low, high = np.searchsorted(times, [moment, moment + window])
                which = slice(low, high) if order is None else order[low:high]
                part, label = waits[which], f"{kind} within {window * 1000:g} ms: "
                is_empty = part.size == 0
                see(label + "longest", usual if is_empty else part.max())
                see(label + "mean", usual if is_empty else part.mean())
                see(label + "excess", np.maximum(part - usual, 0).sum())
                see(label + "late", (part > late_from).sum())
                see(label + "how many", part.size)
                see(label + "latest in its slot", 0.0 if is_empty else place[which].max())
                see(label + "mean place", 0.0 if is_empty else place[which].mean())
                see(label + "other slots", odd[which].sum())
                if order is None:
                    see(label + "silence", np.diff(answered[max(low - 1, 0) : high + 1]).max(initial=0.0))
    return {name: np.array(values, float) for name, values in found.items()}


def auc_with_spread(scores: Floats, events: NDArray[np.bool_]) -> tuple[float, float]:
    """The area under the curve, and its variance (DeLong)."""
    hit, miss = scores[events], scores[~events]
    above = (hit[:, None] > miss[None, :]) + 0.5 * (hit[:, None] == miss[None, :])
    return float(above.mean()), float(above.mean(1).var(ddof=1) / hit.size + above.mean(0).var(ddof=1) / miss.size)


class Found(NamedTuple):
    """What the attack reached: the AUC with its 95% limits, by the scores that were best on the other halves."""

    auc: float
    low: float
    high: float
    chosen: tuple[str, ...]


def best_attack(scores: dict[str, Floats], events: NDArray[np.bool_]) -> Found:
    """Choose on one half, measure on the other, both ways."""
    names = list(scores)
    every = np.array([rankdata(scores[name]) for name in names]).T / events.size - 0.5
    half, areas, spreads, chosen = np.arange(events.size) % 4 < 2, [], [], []
    for learn in (half, ~half):
        mean, scale = every[learn].mean(0), every[learn].std(0) + 1e-9
        inputs = (every - mean) / scale
        learned = inputs[learn].T @ inputs[learn] + 0.3 * learn.sum() * np.eye(len(names))
        weights = np.linalg.solve(learned, inputs[learn].T @ (events[learn] - 0.5))
        # what a regression says of the turns from which it was made is no measure of it: it is learned on a half of them
        inner = learn & (np.arange(events.size) % 2 == 0)
        first = inputs[inner].T @ inputs[inner] + 0.3 * inner.sum() * np.eye(len(names))
        trial = inputs @ np.linalg.solve(first, inputs[inner].T @ (events[inner] - 0.5))
        check = learn & ~inner
        reached = {name: auc_with_spread(scores[name][learn], events[learn])[0] - 0.5 for name in names}
        together = auc_with_spread(trial[check], events[check])[0] - 0.5
        best = max(reached, key=lambda name: abs(reached[name]))
        if together >= abs(reached[best]):
            best, value = "all together", inputs @ weights
        else:
            value = scores[best] * math.copysign(1, reached[best])
        area, spread = auc_with_spread(value[~learn], events[~learn])
        areas.append(area)
        spreads.append(spread)
        chosen.append(best)
    auc, error = float(np.mean(areas)), math.sqrt(sum(spreads)) / 2
    return Found(auc, auc - 1.96 * error, auc + 1.96 * error, tuple(chosen))


@contextlib.contextmanager
def served(folder: Path, mode: str) -> Iterator[tuple[int, str]]:
    """A gateway in a process of its own: its port, and a token of a platform."""
    url, key = str(folder / "gateway.db"), Vault.new_key()
    with Gateway(url, Vault.read(key), create=True) as gateway:
        gateway.configure(
            [Space.read("forum", {"gap": "45m", "window": "5m", "longest": 200_000})], frame_bytes=FRAME_BYTES
        )
        token = gateway.issue_token(role="author", space="forum", actor="kim")
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, url, key, mode], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert server.stdout is not None
        yield int(server.stdout.readline()), token
    finally:
        server.terminate()
        server.communicate(timeout=30)


def attack(mode: str, posts: str, busy: int, events: int, turn: float, connections: int = CONNECTIONS) -> Found:
    """The whole attack; ``turn`` is the seconds of one turn."""
    count, length = POSTS[posts]
    rng = np.random.default_rng(secrets.randbits(64))
    is_event = rng.permutation(np.arange(2 * events) % 2 == 0)
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    try:
        with tempfile.TemporaryDirectory() as folder, served(Path(folder), mode) as (port, token):
            begin = time.monotonic() + 2.0
            moments = begin + turn * (np.arange(2 * events) + rng.random(2 * events) * 0.9)
            author = subprocess.Popen(
                [sys.executable, "-c", AUTHOR], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            assert author.stdin is not None
            turns = [[float(m), bool(e)] for m, e in zip(moments, is_event, strict=True)]
            task = {"port": port, "token": token, "count": count, "length": length, "turns": turns}
            author.stdin.write(json.dumps(task))
            author.stdin.close()
            probes = probe(port, connections, moments[-1] + 1.0)
            assert author.stdout is not None
            told = json.loads(author.stdout.read())
            author.stdout.close()
            author.wait(30)
    finally:
        for process in load:
            process.kill()
            process.wait(30)
    sent = np.array(told["sent"])
    waits = (probes.answered - probes.sent) * 1000
    print(
        f"{mode}, {posts}, {busy} busy, {events} events: {waits.size} probes, wait p50 {np.median(waits):.2f} p99 "
        f"{np.quantile(waits, 0.99):.2f} ms; posts refused {told['refused']}; turns late by at "
        f"most {(sent - moments).max() * 1000:.1f} ms"
    )
    found = best_attack(scores_of(probes, sent), is_event)
    print(f"AUC {found.auc:.3f} [{found.low:.3f}, {found.high:.3f}], chosen: {'; '.join(found.chosen)}", flush=True)
    return found


# ---- the attack -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("posts", "busy"), [("one", 0), ("one", 1), ("longest", 0), ("burst", 0)])
def test_no_answers_time_tells_of_another_persons_post(posts: str, busy: int) -> None:
    assert attack("paced", posts, busy, EVENTS, TURN_SECONDS[posts]).auc < AT_MOST


@pytest.mark.slow
def test_answers_at_once_are_caught() -> None:
    assert attack("at once", "one", 0, EVENTS, TURN_SECONDS["one"], connections=4).low > 0.52  # .79 on an idle machine


def test_the_attack_finds_what_is_there_and_nothing_else() -> None:
    rng = np.random.default_rng(3)
    events = rng.permutation(np.arange(1200) % 2 == 0)
    noise = {f"noise {k}": rng.normal(size=1200) for k in range(20)}
    assert abs(best_attack(noise, events).auc - 0.5) < 5 * 0.0167
    assert best_attack(noise | {"tells": rng.normal(size=1200) - events}, events).low > AT_MOST


# ---- the door ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def door(folder: Path, answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A door before a service that answers each connection; its port."""
    listener, inner = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)
    inner.bind(str(folder / "s"))
    inner.listen()
    reads, writes = os.pipe()
    running = threading.Thread(target=Door(listener, str(folder / "s"), reads).run)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                answer(inner.accept()[0])

    port = listener.getsockname()[1]
    running.start()
    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    try:
        yield port
    finally:
        os.close(writes)
        running.join(5)
        assert not running.is_alive()
        inner.shutdown(socket.SHUT_RDWR)
        inner.close()
        serving.join(5)
        os.close(reads)


def until_end(sock: socket.socket) -> bytes:
    return b"".join(iter(lambda: sock.recv(65536), b""))


def test_the_door_passes_every_byte_to_slow_readers_too(tmp_path: Path) -> None:
    text = secrets.token_bytes(3_000_000)

    def echo(sock: socket.socket) -> None:
        with sock:
            time.sleep(0.1)  # the door must wait for this side
            sock.sendall(until_end(sock))

    with door(tmp_path, echo) as port, socket.create_connection(("127.0.0.1", port)) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 20_000)
        sock.sendall(text)
        sock.shutdown(socket.SHUT_WR)
        time.sleep(0.2)  # and for that one
        assert until_end(sock) == text


@pytest.mark.parametrize(("status", "is_paced"), [("404 Not Found", True), ("200 OK", True), ("202 Accepted", False)])
def test_all_answers_but_that_a_post_was_taken_wait_for_the_grid(tmp_path: Path, status: str, is_paced: bool) -> None:
    def respond(sock: socket.socket) -> None:
        with sock:
            while sock.recv(65536):
                sock.sendall(f"HTTP/1.1 {status}\r\n\r\n".encode())
                sock.sendall(b"end")

    places, waits = [], []
    with door(tmp_path, respond) as port, socket.create_connection(("127.0.0.1", port)) as sock:
        for k in range(15):
            time.sleep(0.0031 * k)
            begun = time.monotonic()
            sock.sendall(PROBE)
            answer = b""
            while not answer.endswith(b"end"):
                answer += sock.recv(65536)
            now = time.monotonic()
            waits.append(now - begun)
            places.append(now % SLOT_SECONDS)
    if is_paced:  # on a machine that is busy, many are late, and some were read late
        assert np.median(waits) >= SLOT_SECONDS
        assert np.quantile(places, 0.2) < 0.2 * SLOT_SECONDS
    else:
        assert min(waits) < SLOT_SECONDS / 2


def test_the_last_answers_are_sent_when_the_gateway_goes(tmp_path: Path) -> None:
    def respond(sock: socket.socket) -> None:
        with sock:
            sock.recv(65536)
            sock.sendall(b"HTTP/1.1 200 OK\r\n\r\nend")

    with contextlib.ExitStack() as stack:
        sock = stack.enter_context(contextlib.closing(socket.socket()))
        with door(tmp_path, respond) as port:
            sock.connect(("127.0.0.1", port))
            sock.sendall(PROBE)
            time.sleep(SLOT_SECONDS / 2)
        assert until_end(sock).endswith(b"end")


def test_without_a_door_only_a_demonstration_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    app: Any = None
    journal: Any = None
    served: list[Any] = []
    monkeypatch.setattr(pace, "CAN_PACE", False)  # as on other systems than Linux
    monkeypatch.setattr("peerveil.web.common.serving.serve", lambda *_, door, **__: served.append(door))
    with pytest.raises(BadInput, match="need Linux"):
        pace.serve_paced(app, "127.0.0.1", 0, journal)
    assert served == []
    pace.serve_paced(app, "127.0.0.1", 0, journal, is_private=False)
    assert served == [None]


def test_a_door_without_a_gateway_closes(tmp_path: Path) -> None:
    def leave(sock: socket.socket) -> None:
        sock.close()

    with door(tmp_path, leave) as port:
        with socket.create_connection(("127.0.0.1", port)) as sock:
            assert until_end(sock) == b""
        (tmp_path / "s").unlink()
        with socket.create_connection(("127.0.0.1", port)) as sock, contextlib.suppress(ConnectionResetError):
            assert until_end(sock) == b""
        time.sleep(2 * SLOT_SECONDS)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


if __name__ == "__main__":
    how, what, others, number = sys.argv[1].replace("-", " "), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    attack(how, what, others, number, TURN_SECONDS[what], CONNECTIONS if how == "paced" else 4)
