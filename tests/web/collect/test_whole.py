"""A whole campaign, slowly: 300 tasks and 60 people through the browser's module; and servers and databases that are killed."""

from __future__ import annotations

import json
import random
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest
from sqlalchemy import select
from tests.web.collect.server import Server

from peerveil.data import Labels
from peerveil.truth import PrivateDawidSkene, simulate_crowd
from peerveil.truth.wire import Client
from peerveil.web.collect import Campaign, Store, export
from peerveil.web.collect.results import stored_result
from peerveil.web.collect.tables import abilities, answers, people

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser
    from tests.postgres import Server as Postgres

pytestmark = pytest.mark.slow

# one person: a client of the page's own module, whose reports go out as the page sends them
PERSON = """
async ({campaign, token, answers}) => {
  const { Client, newKey, request } = await import("/peerveil-client.js");
  const terms = await (await fetch(`/v1/campaigns/${campaign}`)).json();
  const client = new Client(terms), lines = [];
  for (const [task, answer] of answers) {
    const line = client.report(task, answer);
    const sent = await fetch(`/v1/campaigns/${campaign}/reports`, request(token, newKey(), line));
    if (sent.status !== 202) throw new Error(String(sent.status));
    lines.push(line);
  }
  return lines;
}
"""


def test_three_hundred_tasks_and_sixty_people_through_the_browser(tmp_path: Path, chromium: Browser) -> None:
    crowd = simulate_crowd(tasks=300, workers=60, answers=20, classes=2, epsilon=None, seed=5)
    db, classes = str(tmp_path / "collect.db"), ["no", "yes"]
    terms = {"id": "whole", "title": "Whole", "classes": classes, "tasks": [str(i) for i in range(300)], "epsilon": 2}
    mine: dict[int, list[tuple[str, str]]] = {}
    for task, worker, label in crowd.answers.frame.select("task", "worker", "label").rows():
        mine.setdefault(worker, []).append((str(task), classes[label]))
    with Store(db, create=True) as store:
        store.add(Campaign.from_dict({**terms, "answers": max(len(given) for given in mine.values())}))
        known = store.known("whole")
        tokens = store.invite(known, 60)
        server = Server(db, tmp_path)
        try:
            page = chromium.new_context().new_page()
            page.goto(f"{server.base}/c/whole")
            lines: list[str] = []
            for token, given in zip(tokens, mine.values(), strict=True):
                lines += page.evaluate(PERSON, {"campaign": "whole", "token": token, "answers": given})
            store.end(known, now=True)
            patience = time.monotonic() + 300
            while stored_result(store, known, "final") is None and time.monotonic() < patience:
                time.sleep(0.5)
            with urlopen(f"{server.base}/v1/campaigns/whole/results?limit=300") as answer:
                published = json.loads(answer.read())
        finally:
            server.stop()
        path = export(store, known, tmp_path / "reports.parquet")
        with store.database.reading() as connection:
            rows = connection.execute(select(abilities).order_by(abilities.c.person)).all()
    table = Labels.read(path)
    assert len(lines) == len(table) == len(crowd.answers) == 6000
    # what was stored is what the browser sent, line for line
    sent = sorted((json.loads(line)["task"], json.loads(line)["label"]) for line in lines)
    assert sorted((str(task), label) for task, label in table.frame.select("task", "label").rows()) == sent
    estimator = PrivateDawidSkene(epsilon=2, classes=classes)
    result = estimator.fit(table)
    library = {str(task): (label, confidence) for task, label, confidence in result.frame().rows()}
    assert {one["task"]: (one["label"], one["confidence"]) for one in published["labels"]} == library
    kept = [(row.person, row.reports, row.ability, row.standard_error) for row in rows]
    assert kept == estimator.workers_.frame().rows()
    right = result.accuracy({task: classes[label] for task, label in crowd.truth.items()})[0]
    assert published["mean_confidence"] == float(result.confidence.mean())
    assert right > 0.85


class Crowd:
    """Threads that hand in reports, each again and again with its key until it is acknowledged."""

    def __init__(self, terms: dict[str, Any], tokens: list[str], answers: int) -> None:
        self.port, self.acknowledged, self.refused = 0, {}, []  # type: tuple[int, dict[tuple[str, str], str], list[int]]
        self._jobs = [(token, str(task)) for token in tokens for task in range(answers)]
        random.Random(1).shuffle(self._jobs)
        self._lines = {job: Client(terms).randomize(job[1], "yes") for job in self._jobs}
        self._lock = threading.Lock()
        self.threads = [threading.Thread(target=self._work, daemon=True) for _ in range(6)]

    @property
    def expected(self) -> int:
        return len(self._lines)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    return
                token, task = self._jobs.pop()
            line = self._lines[token, task]
            headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": f"{task}", "Connection": "close"}
            while True:
                url = f"http://127.0.0.1:{self.port}/v1/campaigns/lake/reports"
                try:
                    with urlopen(Request(url, line.encode(), headers, method="POST"), timeout=30) as answer:
                        assert answer.status == 202
                except HTTPError as error:
                    with error:
                        if error.code != 503:
                            self.refused.append(error.code)
                            break
                    time.sleep(0.05)
                except (URLError, OSError):
                    time.sleep(0.05)
                else:
                    self.acknowledged[token, task] = line
                    break


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_kills_lose_nothing_and_count_nothing_twice(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Eight kill -9 of the server, and on PostgreSQL two of the database's main process, under load."""
    postgres: Postgres | None = None
    if kind == "sqlite":
        db = str(tmp_path / "collect.db")
    else:
        postgres = request.getfixturevalue("postgres_server")
        db = postgres.fresh()
    terms = {
        "id": "lake",
        "title": "Lake",
        "classes": ["no", "yes"],
        "tasks": [str(i) for i in range(40)],
        "epsilon": 1,
    }
    with Store(db, create=True) as store:
        store.add(Campaign.from_dict({**terms, "answers": 25}))
        known = store.known("lake")
        tokens = store.invite(known, 60)
    crowd = Crowd(known.campaign.described(), tokens, 25)
    server = Server(db, tmp_path)
    crowd.port = server.port
    for thread in crowd.threads:
        thread.start()
    rng = random.Random(2)
    for number in range(8):
        before = len(crowd.acknowledged)
        patience = time.monotonic() + 60
        while len(crowd.acknowledged) < min(before + 60, crowd.expected) and time.monotonic() < patience:
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 0.1))
        if postgres is not None and number % 3 == 2:
            postgres.kill()
            time.sleep(0.5)
            postgres.start()
        server.kill()
        server = Server(db, tmp_path)
        crowd.port = server.port
    for thread in crowd.threads:
        thread.join(300)
    server.stop()
    assert not crowd.refused
    assert len(crowd.acknowledged) == crowd.expected == 1500
    with Store(db) as store, store.database.reading() as connection:
        rows = connection.execute(select(answers.c.person, answers.c.question, answers.c.code)).all()
        left = [row.left for row in connection.execute(select(people.c.left))]
        numbers = {row.hash: row.person for row in connection.execute(select(people))}
    from peerveil.web.common.tokens import hash_token

    codes = {"no": 0, "yes": 1}
    sent = {
        (numbers[hash_token(token)], int(task)): codes[json.loads(line)["label"]]
        for (token, task), line in crowd.acknowledged.items()
    }
    assert {(row.person, row.question): row.code for row in rows} == sent
    assert len(rows) == 1500
    assert left == [0] * 60
