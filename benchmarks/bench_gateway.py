"""Gateway: releases against a task queue on the same PostgreSQL, lateness, intake through HTTP, a million held posts, leaks.

The peer is procrastinate (``make .venv/bench.stamp``), a task queue for PostgreSQL that many use. It does nothing in its tasks:
it only takes them, runs them and marks them done.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.postgres import Server, binaries, free_port

from benchmarks.load import Answered, Load
from benchmarks.timing import Row
from peerveil.web.common import Journal, Vault
from peerveil.web.common.database import SECOND, database_time
from peerveil.web.gateway import Gateway, GatewayWorker, Space
from peerveil.web.gateway.intake import Submit
from peerveil.web.gateway.watch import Stopwatch, Watch

if TYPE_CHECKING:
    from collections.abc import Iterator

RELEASES = 20_000
PEER_JOBS = 1_500
LEAK = 10_000
LEAK_RUNS = 10
DUE_A_SECOND = 500
SECONDS = 10
HELD = 1_000_000
INTAKE = 12_000
CONNECTIONS = 800  # an answer waits for the tick, so more of them wait at a time
TICK_MS, FRAME_BYTES = 100, 524_288
"""Chosen for this load: room for 5 MB of posts per second."""
SPACE = {"epsilon": 1, "gap": "45m", "window": "5m"}


class Ahead:
    """A clock that can be set forward before anything looks at it, so that posts are due without waiting."""

    def __init__(self) -> None:
        self.by = 0

    def watch(self) -> Watch:
        outer = self

        class AheadStopwatch(Stopwatch):
            """Set forward with the clock: what both say is believed."""

            def read(self) -> int:
                return super().read() + outer.by

        return Watch(source=lambda connection: database_time(connection) + self.by, stopwatch=AheadStopwatch())


def bench() -> Iterator[Row]:
    programs = binaries()
    if programs is None:
        return
    server = Server(programs)
    try:
        yield from releases(server)
        yield lateness(server)
        yield from many_held(server)
        yield intake("SQLite", None, 1, 1000)
        yield intake("PostgreSQL", server.fresh(), 2, 1500)
        yield leak(server)
    finally:
        server.remove()


def opened(url: str, ahead: Ahead, **settings: Any) -> Gateway:
    gateway = Gateway(url, Vault.read(Vault.new_key()), create=True, watch=ahead.watch())
    gateway.configure([Space.read("forum", SPACE | settings)], tick_ms=TICK_MS, frame_bytes=FRAME_BYTES)
    return gateway


def fill(gateway: Gateway, count: int, **settings: Any) -> None:
    """Take posts, 500 at once; the text is the number of the arrival. With settings: long texts, for another space."""
    space = Space.read("other", SPACE | settings) if settings else gateway.space("forum")
    if settings:
        gateway.configure([space])
    length = 300 if settings else 1
    for start in range(0, count, 500):
        jobs = [
            Submit(space, f"a{k}", f"k{k}", "b", f"t{k % 50}", str(k).ljust(length))
            for k in range(start, min(start + 500, count))
        ]
        gateway.take_all(jobs)


def release_all(gateway: Gateway, ahead: Ahead) -> float:
    """Seconds to release all that is held in the space forum."""
    ahead.by = 6 * 3600 * SECOND
    start = time.perf_counter()
    GatewayWorker(gateway, Journal("bench")).step()
    return time.perf_counter() - start


def order_of(gateway: Gateway) -> list[int]:
    found: list[int] = []
    cursor = None
    while True:
        items, cursor = gateway.read("forum", cursor, 500)
        if not items:
            return found
        found += [int(item.content) for item in items]


def releases(server: Server) -> Iterator[Row]:
    ahead = Ahead()
    gateway = opened(server.fresh(), ahead)
    fill(gateway, RELEASES)
    ours = RELEASES / release_all(gateway, ahead)
    assert len(order_of(gateway)) == RELEASES
    gateway.close()
    peer, order = task_queue(server.fresh(), PEER_JOBS)
    note = f"wanted: 20 times; {RELEASES:,} and {PEER_JOBS:,} overdue posts, the same PostgreSQL"
    yield Row("releases a second", ours, peer, "/s", note)
    rho = rank_correlation(order, range(PEER_JOBS))
    yield Row("rank correlation of arrival and release, task queue", rho, None, "", "wanted: above 0.9, the leak")


def task_queue(url: str, count: int) -> tuple[float, list[int]]:
    """Jobs a second of procrastinate on overdue jobs, and the order in which they ran."""
    from datetime import UTC, datetime, timedelta

    library: Any = import_module("procrastinate")  # only in the bench lock

    async def run() -> tuple[float, list[int]]:
        order: list[int] = []
        app = library.App(connector=library.PsycopgConnector(conninfo=url))

        async def one(number: int) -> None:
            order.append(number)

        release = app.task(name="publishing", queue="posts")(one)

        async with app.open_async():
            await app.schema_manager.apply_schema_async()
            past = datetime.now(UTC) - timedelta(hours=1)
            for number in range(count):
                await release.configure(schedule_at=past).defer_async(number=number)
            start = time.perf_counter()
            await app.run_worker_async(wait=False, concurrency=10, listen_notify=False)
            return count / (time.perf_counter() - start), order

    return asyncio.run(run())


def lateness(server: Server) -> Row:
    """Posts spread over ten seconds; from when each was due until a reader sees it."""
    ahead = Ahead()
    gateway = opened(server.fresh(), ahead, grid="10ms")
    gateway.group.start()  # frames are written meanwhile, as in a server
    count = DUE_A_SECOND * SECONDS
    fill(gateway, count)
    start = time.time_ns() // 1000 // 10_000 * 10_000 + 3 * SECOND  # when all this is done
    due = {}
    with gateway.leader.lock:
        for k, post in enumerate(gateway.leader.memory.held.values()):
            post.due = due[post.id] = start + -(-(k * SECOND // DUE_A_SECOND) // 10_000) * 10_000
            gateway.leader.memory.schedule(post, 0)
    worker = GatewayWorker(gateway, Journal("bench"))
    thread = threading.Thread(target=worker.run)
    thread.start()
    late: list[float] = []
    cursor = None
    patience = time.monotonic() + SECONDS + 60
    while len(late) < count and time.monotonic() < patience:
        items, cursor = gateway.read("forum", cursor, 500)
        now = time.time_ns() // 1000
        late += [(now - due[item.id]) / 1e6 for item in items]
        time.sleep(0.005)
    worker.stop()
    thread.join()
    gateway.group.stop()
    gateway.close()
    p99 = float(np.percentile(late, 99))
    return Row(
        f"lateness p99, {DUE_A_SECOND} due a second",
        p99,
        0.1,
        "s",
        f"limit: 0.1 s; {len(late):,} posts, seen by a reader",
    )


def many_held(server: Server) -> Iterator[Row]:
    """Releasing 2,000 posts with few and with a million others held; memory, restart and compaction with a million."""
    took = []
    with opened(server.fresh(), Ahead()) as gateway:
        idle = frame(gateway, "forum")
    for others in (0, HELD):
        ahead = Ahead()
        gateway = opened(server.fresh(), ahead)
        if others:
            before = resident()
            fill(gateway, others, gap="50000h")  # of these next to none are due
            yield Row("memory per held post of 300 bytes", (resident() - before) / others, None, "B", "of the process")
            start = time.perf_counter()
            gateway.leader.compact()
            yield Row(f"compaction, {others:,} held", time.perf_counter() - start, None, "s", "unpaced")
            gateway.leader.drop()
            start = time.perf_counter()
            with gateway.leader.lock:
                assert len(gateway.leader.memory.held) == others
            yield Row(f"restart, {others:,} held", time.perf_counter() - start, None, "s", "")
            yield Row(
                f"a frame with 10 posts, {others:,} held, p50", frame(gateway, "other"), idle, "s", "peer: with none"
            )
        fill(gateway, 2000)
        took.append(release_all(gateway, ahead))
        assert len(order_of(gateway)) == 2000
        gateway.close()
    yield Row(f"2,000 releases with {HELD:,} others held", took[1], took[0], "s", "peer: with none; flat: ratio near 1")


def frame(gateway: Gateway, space: str) -> float:
    """Seconds to decide ten posts and have them on the disk, as in every tick: the median of 200."""
    waits = []
    for number in range(200):
        some = [Submit(gateway.space(space), f"f{number} {k}", "k", "b", f"t{k}", "0") for k in range(10)]
        start = time.perf_counter()
        gateway.take_all(some)
        waits.append(time.perf_counter() - start)
    return float(np.median(waits))


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def intake(kind: str, url: str | None, processes: int, wanted: int) -> Row:
    """Posts a second, each acknowledged when it is on the disk, through real HTTP."""
    with tempfile.TemporaryDirectory() as folder:
        address = f"{folder}/gateway.db" if url is None else url
        key, port = Vault.new_key(), free_port()
        with Gateway(address, Vault.read(key), create=True) as gateway:
            gateway.configure([Space.read("forum", SPACE)], tick_ms=TICK_MS, frame_bytes=FRAME_BYTES)
            tokens = [gateway.issue_token(role="author", space="forum", actor=f"a{k}") for k in range(200)]
        command = [sys.executable, "-c", "from peerveil.cli import main; main()", "gateway", "serve", "--db", address]
        command += ["--port", str(port), "--processes", str(processes)]
        serving = subprocess.Popen(command, env=os.environ | {"PEERVEIL_KEY": key}, cwd=folder)
        try:
            _wait(port)
            for count in (INTAKE // 6, INTAKE):
                load = Load(
                    port, "/v1/spaces/forum/posts", tokens, {"thread": "p1", "content": "x" * 300}, count, CONNECTIONS
                )
                said = subprocess.run(
                    [sys.executable, "-m", "benchmarks.load"], input=json.dumps(asdict(load)), capture_output=True,
                    text=True, check=True,
                )  # fmt: skip
                done = Answered(**json.loads(said.stdout))
        finally:
            serving.send_signal(signal.SIGTERM)
            serving.wait(30)
    assert done.refused == 0
    answer = f"answer p50 {done.p50 * 1000:.0f}, p99 {done.p99 * 1000:.0f} ms"
    note = f"wanted: {wanted:,}; {processes} process(es), {CONNECTIONS} connections, {answer}; "
    note += f"frames of {FRAME_BYTES // 1024} KiB, tick {TICK_MS} ms"
    return Row(f"intake a second, {kind}", done.accepted / done.seconds, float(wanted), "/s", note)


def _wait(port: int) -> None:
    patience = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5):
                return
        except OSError:
            if time.monotonic() > patience:
                raise
            time.sleep(0.2)


def leak(server: Server) -> Row:
    """Ten thousand posts at once, released after downtime: does the feed's order tell that of arrival?"""
    found = []
    for _ in range(LEAK_RUNS):
        ahead = Ahead()
        gateway = opened(server.fresh(), ahead)
        fill(gateway, LEAK)
        release_all(gateway, ahead)
        found.append(rank_correlation(order_of(gateway), range(LEAK)))
        gateway.close()
    note = f"limit: 0.02; mean of {LEAK_RUNS} runs of {LEAK:,} posts; largest {max(map(abs, found)):.3f}"
    return Row("rank correlation of arrival and release, gateway", abs(float(np.mean(found))), 0.02, "", note)


def rank_correlation(a: Any, b: Any) -> float:
    first, second = (np.argsort(np.argsort(np.array(x))) for x in (a, b))
    return float(np.corrcoef(first, second)[0, 1])
