"""How many reports a second are acknowledged durably over real HTTP, and what ten million stored ones ask of the service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.timing import Row
from peerveil.truth.wire import Client
from peerveil.web.collect import Campaign, Store
from peerveil.web.collect.answers import count_answers

ROOT = Path(__file__).parents[1]

REPORTS = 20_000
ANSWERS = 10
CONNECTIONS = 128
ASKED = 1500.0
STORED = 10_000_000
TASKS = 100_000


def campaign(name: str, tasks: int, answers: int) -> Campaign:
    terms = {"classes": ["no", "yes"], "tasks": [str(i) for i in range(tasks)], "epsilon": 2, "answers": answers}
    return Campaign.from_dict({"id": name, "title": name, **terms})


def intake(url: str, folder: Path) -> tuple[dict[str, float], float]:
    """A load of reports on a server of one process; how it went, and the server's own processor seconds a report."""
    from tests.web.collect.server import Server

    with Store(url, create=True) as store:
        store.add(campaign("load", 1000, ANSWERS))
        known = store.known("load")
        tokens = store.invite(known, REPORTS // ANSWERS)
        terms = known.campaign.described()
        # request k comes from token k modulo their number: each token reports on ANSWERS different tasks
        tasks = [str((k * 7 + k // len(tokens)) % 1000) for k in range(REPORTS)]
        seen: dict[tuple[int, str], None] = {}
        for k, task in enumerate(tasks):
            mine, number = k % len(tokens), int(task)
            while (mine, str(number)) in seen:
                number = (number + 1) % 1000
            seen[mine, str(number)] = None
            tasks[k] = str(number)
        bodies = [Client(terms).randomize(task, "yes") for task in tasks]
    server = Server(url, folder)
    try:
        before = _processor(server.process.pid)
        load = {"port": server.port, "path": "/v1/campaigns/load/reports", "tokens": tokens, "body": bodies}
        given = json.dumps({**load, "requests": REPORTS, "connections": CONNECTIONS})
        command = [sys.executable, "-m", "benchmarks.load"]
        done = subprocess.run(command, input=given, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
        spent = _processor(server.process.pid) - before
    finally:
        server.stop()
    told: dict[str, float] = json.loads(done.stdout)
    with Store(url) as store:
        assert told["accepted"] == count_answers(store, store.known("load")) == REPORTS
    return told, spent / REPORTS


def one_by_one(url: str, seconds: float = 3.0) -> float:
    """What a careful programmer writes first: one transaction a report, by the fastest driver, without any HTTP."""
    with psycopg.connect(url) as raw:
        raw.execute("CREATE TABLE b (hash text PRIMARY KEY, budget int)")
        raw.execute("CREATE TABLE r (person int, question int, code int, PRIMARY KEY (person, question))")
        raw.execute("INSERT INTO b SELECT g::text, 1000000 FROM generate_series(1, 1000) g")
        raw.commit()
        count, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            person = count % 1000 + 1
            raw.execute("SELECT budget FROM b WHERE hash = %s FOR UPDATE", [str(person)])
            raw.execute("INSERT INTO r VALUES (%s, %s, 1)", [person, count])
            raw.execute("UPDATE b SET budget = budget - 1 WHERE hash = %s", [str(person)])
            raw.commit()
            count += 1
        return count / (time.perf_counter() - start)


def fill(url: str) -> None:
    """Ten million reports of a hundred thousand people, made inside the database as if they had been collected."""
    each = STORED // TASKS
    with Store(url, create=True) as store:
        store.add(campaign("large", TASKS, each))
        number = store.known("large").number
    # the true class of a task is a bit of its hash; a person's reports show it 60 to 85 times in 100
    rows = f"""
        INSERT INTO collect_reports (campaign, person, question, code, key)
        SELECT {number}, p, q, ((hashint4(q) & 1) + (random() > 0.6 + 0.25 * (p % 100) / 100.0)::int) % 2,
               decode(md5(p || ' ' || i), 'hex')
        FROM (SELECT p, i, ((p::bigint * 7919 + i * 997) % {TASKS})::int AS q
              FROM generate_series(0, {TASKS - 1}) p, generate_series(0, {each - 1}) i) made
    """
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute(rows.encode())
        raw.execute("ANALYZE collect_reports")


def large(url: str, folder: Path) -> tuple[float, float, float, dict[str, Any]]:
    """Seconds from the end of the campaign to its published result, the service's memory before and after, the result."""
    from urllib.request import urlopen

    from tests.web.collect.server import Server

    server = Server(url, folder)
    try:
        with urlopen(f"{server.base}/v1/campaigns/large") as answer:
            answer.read()
        before = _memory(server.process.pid)
        start = time.perf_counter()
        with Store(url) as store:
            known = store.known("large")
            store.end(known, now=True)  # the service notices, and starts the inference in a process of its own
            most = before
            while (state := store.participation(known)["inference"]["state"]) not in ("done", "failed"):
                most = max(most, _memory(server.process.pid))
                time.sleep(0.5)
        seconds = time.perf_counter() - start
        assert state == "done"
        with urlopen(f"{server.base}/v1/campaigns/large/results?limit=1000") as answer:
            found = json.loads(answer.read())
    finally:
        server.stop()
    return seconds, before, most, found


def _memory(process: int) -> float:
    """Megabytes that a process holds."""
    pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _processor(process: int) -> float:
    """Seconds that a process has had of a processor."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def bench() -> list[Row]:
    from tests.postgres import Server, binaries

    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        told, cost = intake(str(folder / "collect.db"), folder)
        note = f"{REPORTS:,} reports, p99 {1000 * told['p99']:.0f} ms; server's processor {1e6 * cost:.0f} µs a report"
        rows.append(Row("SQLite, reports/s acknowledged", REPORTS / told["seconds"], ASKED, "/s", note))
        programs = binaries()
        if programs is None:
            return rows
        server = Server(programs)
        try:
            told, cost = intake(server.fresh(), folder)
            rate = REPORTS / told["seconds"]
            note = f"asked for {ASKED:.0f}; p99 {1000 * told['p99']:.0f} ms; server's processor {1e6 * cost:.0f} µs a report"
            rows.append(Row("PostgreSQL, reports/s acknowledged", rate, ASKED, "/s", note))
            peer = one_by_one(server.fresh())
            rows.append(Row("PostgreSQL, against one transaction a report", rate, peer, "/s", "peer: psycopg, no HTTP"))
            url = server.fresh()
            fill(url)
            seconds, before, most, found = large(url, folder)
            note = f"{found['reports']:,} reports, {found['people']:,} people, {found['model']}"
            rows.append(Row("10^7 stored reports, closed to published", seconds, None, "s", note))
            rows.append(
                Row("the service's memory meanwhile", most, before, "MB", "peer: before; reports are not in it")
            )
        finally:
            server.remove()
    return rows


if __name__ == "__main__":
    for row in bench():
        print(*row.cells(), sep=" | ")
