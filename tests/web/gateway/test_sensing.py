"""Does the time of an answer tell anybody without a token that somebody else posted just then?

The attacker knows the moments at which posts may have come (2,000; at half of them three long ones have), sends requests of
its own at that moment, on connections of its own, and scores each moment by the answers' times: their sum, their latest
place within a slot, and how the requests that came first fared. Every score counts, with its interval (DeLong).
"""

from __future__ import annotations

import json
import os
import secrets
import select
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from peerveil.web.common import Vault
from peerveil.web.gateway import Gateway, Space
from peerveil.web.gateway.pace import SLOT_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

EVENTS = 2000
AT_MOST = 0.58
PROBES = 8
PROBE = b"GET /v1/nothing HTTP/1.1\r\nHost: x\r\n\r\n"
SERVER = """
import sys, time
from peerveil.web.common import Journal, Vault
from peerveil.web.common.serving import serve
from peerveil.web.gateway import Gateway, create_app
from peerveil.web.gateway.pace import serve_paced
url, key, mode = sys.argv[1:]
def busy(app):
    async def run(scope, receive, send):  # a post is five milliseconds of work for the event loop
        end = time.monotonic() + 0.005 * (scope.get("method") == "POST" and "busy" in mode)
        while time.monotonic() < end:
            pass
        await app(scope, receive, send)
    return run
with Gateway(url, Vault.read(key)) as gateway:
    run = serve_paced if "paced" in mode else serve
    run(busy(create_app(gateway, Journal("test"))), "127.0.0.1", 0, Journal("test"), ready=lambda port: print(port, flush=True))
"""
AUTHOR = """
import socket, sys
# one request for each line; those of moments without a post go to nobody, at the same cost for this machine
servers = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(3)]
nobody, sink = zip(*(socket.socketpair() for _ in servers))
for line in sys.stdin:
    kind, text = line.rstrip().split(" ", 1)
    raw = bytes.fromhex(text)
    for k in range(len(servers)):
        (servers if kind == "post" else nobody)[k].sendall(raw.replace(b"KEY", b"KEY%d" % k, 1))
    print("sent", flush=True)
    for sock in servers if kind == "post" else sink:
        sock.recv(65536)
    print("done", flush=True)
"""


def auc_with_limits(scores: Floats, events: NDArray[np.bool_]) -> tuple[float, float, float]:
    """The area under the curve, and its 95% limits (DeLong)."""
    hit, miss = scores[events], scores[~events]
    above = (hit[:, None] > miss[None, :]) + 0.5 * (hit[:, None] == miss[None, :])
    auc = float(above.mean())
    spread = float(np.sqrt(above.mean(1).var(ddof=1) / hit.size + above.mean(0).var(ddof=1) / miss.size))
    return auc, auc - 1.96 * spread, auc + 1.96 * spread


def attack(port: int, token: str, count: int, pause: float) -> dict[str, tuple[float, float, float]]:
    """Probe at moments at which a post may have come."""
    environment = {**os.environ}
    author = subprocess.Popen(
        [sys.executable, "-c", AUTHOR, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    assert author.stdin is not None
    assert author.stdout is not None
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(PROBES)]
    for sock in sockets:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    rng = np.random.default_rng(7)
    events = rng.permutation(np.arange(count) % 2 == 0)
    sent, received = np.zeros((count, PROBES)), np.zeros((count, PROBES))
    for number in range(count):
        time.sleep(rng.random() * SLOT_SECONDS)
        body = json.dumps({"thread": f"t{number}", "content": "x" * 18_000}).encode()
        head = (
            f"POST /v1/spaces/forum/posts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
            f"Idempotency-Key: KEY{secrets.token_hex(8)}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        kind = "post" if events[number] else "none"
        author.stdin.write(f"{kind} {(head.encode() + body).hex()}\n".encode())
        author.stdin.flush()
        author.stdout.readline()  # now it is sent
        open_probes = {}
        for k, sock in enumerate(sockets):
            sent[number, k] = time.monotonic()
            sock.sendall(PROBE)
            open_probes[sock] = k
            time.sleep(0.0003)
        while open_probes:
            for sock in select.select(list(open_probes), [], [], 30)[0]:
                sock.recv(65536)
                received[number, open_probes.pop(sock)] = time.monotonic()
        author.stdout.readline()
        time.sleep(pause)
    author.stdin.close()
    author.wait(30)
    for sock in sockets:
        sock.close()
    waits, places = received - sent, received / SLOT_SECONDS % 1
    scores = {
        "sum": waits.sum(1), "longest": waits.max(1), "first": waits[:, 0], "second": waits[:, 1],
        "shortest": waits.min(1), "early": waits[:, :4].sum(1),
        "latest in its slot": places.max(1), "last answer": received.max(1) - sent[:, 0],
    }  # fmt: skip
    return {name: auc_with_limits(score, events) for name, score in scores.items()}


@pytest.fixture
def gateway_at(tmp_path: Path) -> tuple[str, str, str]:
    url, key = str(tmp_path / "gateway.db"), Vault.new_key()
    with Gateway(url, Vault.read(key), create=True) as gateway:
        gateway.configure([Space.read("forum", {"gap": "45m", "window": "5m"})], tick_ms=50)
        token = gateway.issue_token(role="author", space="forum", actor="kim")
    return url, key, token


def run(gateway_at: tuple[str, str, str], paced: str, busy: int, count: int) -> dict[str, tuple[float, float, float]]:
    url, key, token = gateway_at
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, url, key, paced], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    try:
        assert server.stdout is not None
        return attack(int(server.stdout.readline()), token, count, 0.0)
    finally:
        for process in (*load, server):
            process.terminate()
            process.wait(30)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "busy"), [("paced", 0), ("paced", 2), ("busy paced", 0)])
def test_no_answers_time_tells_of_another_persons_post(gateway_at: tuple[str, str, str], mode: str, busy: int) -> None:
    measured = run(gateway_at, mode, busy, EVENTS)
    print(busy, measured)
    assert all(upper <= AT_MOST for _, _, upper in measured.values()), measured
    assert all(low >= 1 - AT_MOST for _, low, _ in measured.values()), measured


@pytest.mark.slow
def test_answers_at_once_are_caught(gateway_at: tuple[str, str, str]) -> None:
    measured = run(gateway_at, "busy at once", 0, 600)
    print(measured)
    assert any(low > AT_MOST or upper < 1 - AT_MOST for _, low, upper in measured.values()), measured


def test_the_interval_knows_what_it_measures() -> None:
    rng = np.random.default_rng(3)
    events = np.arange(2000) % 2 == 0
    _, low, upper = auc_with_limits(rng.normal(size=2000), events)
    assert low < 0.5 < upper
    assert auc_with_limits(rng.normal(size=2000) + events, events)[1] > AT_MOST
