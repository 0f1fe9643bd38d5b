"""Inference, the Python client, the command line, and inference at closing time."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.runner import run
from tests.web.collect.server import Server

from peerveil.core.errors import BadInput
from peerveil.web.collect import Campaign, CollectClient, Store, infer
from peerveil.web.collect.results import stored_result
from peerveil.web.common.client import Refused
from peerveil.web.common.errors import Conflict

if TYPE_CHECKING:
    from pathlib import Path


TERMS: dict[str, Any] = {
    "id": "lake",
    "title": "Lake",
    "classes": ["no", "yes"],
    "tasks": ["a", "b", "c"],
    "epsilon": 1,
}


def test_inference_waits_for_the_end_and_for_reports(tmp_path: Path) -> None:
    with Store(str(tmp_path / "c.db"), create=True) as store:
        store.add(Campaign.from_dict(TERMS))
        known = store.known("lake")
        with pytest.raises(BadInput, match="a closed campaign, or --so-far"):
            infer(store, known)
        store.end(known, now=True)
        with pytest.raises(BadInput, match="no answers"):
            infer(store, known)
        assert store.participation(known)["inference"]["state"] == "done"
        assert stored_result(store, known, "final") is None


def test_one_inference_at_a_time_unless_it_has_died(tmp_path: Path) -> None:
    from sqlalchemy import update

    from peerveil.web.collect.tables import campaigns

    with Store(str(tmp_path / "c.db"), create=True) as store:
        store.add(Campaign.from_dict(TERMS))
        known = store.known("lake")
        _report(store, 6)
        store.end(known, now=True)
        with store.database.writing("open") as connection:
            connection.execute(update(campaigns).values(job="running", beat=time.time_ns() // 1000))
        with pytest.raises(Conflict):
            infer(store, known)
        with store.database.writing("open") as connection:
            connection.execute(update(campaigns).values(beat=0))
        assert store.due() == ["lake"]
        assert infer(store, known)["reports"] == 18
        assert store.due() == []


def _report(store: Store, count: int) -> None:
    from peerveil.truth.wire import Client
    from peerveil.web.collect.store import Submission, hash_key
    from peerveil.web.common.tokens import hash_token

    known = store.known("lake")
    jobs = []
    for token in store.invite(known, count):
        digest = hash_token(token)
        for task in ("a", "b", "c"):
            line = Client(known.campaign.described()).randomize(task, "yes")
            jobs.append(Submission(known, digest, hash_key(digest, task), known.reader.read(line.encode())))
    with store.database.writing("take") as connection:
        assert store.take(connection, jobs) == [True] * len(jobs)


@pytest.mark.slow
def test_from_the_first_command_to_the_published_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an operator does it, with the Python client, an own server process, and inference when the campaign is over."""
    monkeypatch.chdir(tmp_path)
    db = str(tmp_path / "collect.db")
    assert run(capsys, "collect", "init", "--db", db)[0] == 0
    code, out, _ = run(capsys, "collect", "campaign", "--example", "labels")
    assert code == 0
    closes = datetime.now(UTC) + timedelta(hours=1)
    (tmp_path / "campaign.toml").write_text(f"{out}closes = {closes.isoformat()}\n", encoding="utf-8")
    assert run(capsys, "collect", "campaign", "campaign.toml", "--db", db)[0] == 0
    votes = run(capsys, "collect", "campaign", "--example", "rankings")[1]
    (tmp_path / "votes.toml").write_text(votes, encoding="utf-8")
    assert run(capsys, "collect", "campaign", "votes.toml", "--db", db)[0] == 0
    tokens = json.loads(run(capsys, "collect", "token", "--campaign", "birds-2026", "--count", "9", "--db", db, "--json")[1])["tokens"]  # fmt: skip  # noqa: E501
    links = run(capsys, "collect", "token", "--campaign", "drinks-2026", "--links", "https://x.org/", "--db", db)[1]
    assert links.startswith("https://x.org/c/drinks-2026#pv_")
    server = Server(db, tmp_path)
    try:
        for token in tokens:
            client = CollectClient(server.base, "birds-2026", token, device=tmp_path / "device.db", new_person=True)
            assert "epsilon 1" in client.promise
            for task, _ in client.tasks:
                line = client.answer(task, "yes")
                assert client.answer(task, "no") == line  # sent before: the same bytes, and no second draw
            assert client.budget()["left"] == 0
        voter = CollectClient(server.base, "drinks-2026", links.strip().split("#")[1], device=tmp_path / "device.db")
        assert voter.vote([0, 1, 2, 3, 4, 5]) == voter.vote([5, 4, 3, 2, 1, 0])
        stranger = CollectClient(server.base, "birds-2026", "pv_" + "A" * 43, device=tmp_path / "other.db")
        with pytest.raises(Refused, match="unknown token"):
            stranger.answer("1", "yes")
        with pytest.raises(BadInput, match="this campaign is about labels"):
            client.vote([0, 1])
        with Store(db) as store:
            known = store.known("birds-2026")
            assert run(capsys, "collect", "infer", "--campaign", "birds-2026", "--so-far", "--db", db)[0] == 0
            store.end(known, now=True)
            assert store.due() == ["birds-2026"]  # an estimate so far is not the end
            patience = time.monotonic() + 120
            while stored_result(store, known, "final") is None and time.monotonic() < patience:
                time.sleep(0.2)
            final = stored_result(store, known, "final")
            assert final is not None
            assert final.content["reports"] == 27
    finally:
        server.stop()
    listed = json.loads(run(capsys, "collect", "campaign", "--db", db, "--json")[1])
    assert [(one["campaign"], one["state"], one["reports"]) for one in listed] == [
        ("birds-2026", "closed", 27),
        ("drinks-2026", "open", 1),
    ]
    told = json.loads(
        run(capsys, "collect", "export", "--campaign", "birds-2026", "--to", "r.csv", "--db", db, "--json")[1]
    )
    assert run(capsys, *told["next"].split()[1:])[0] == 0  # straight into peerveil truth infer
    told = json.loads(run(capsys, "collect", "export", "--campaign", "drinks-2026", "--to", "v.parquet", "--db", db, "--json")[1])  # fmt: skip  # noqa: E501
    assert run(capsys, *told["next"].split()[1:])[0] == 0  # straight into peerveil rankings aggregate
    assert run(capsys, "collect", "campaign", "--close", "drinks-2026", "--db", db)[0] == 0
    assert "error: there is no such campaign" in run(capsys, "collect", "infer", "--campaign", "pond", "--db", db)[2]
    assert "the file is missing" in run(capsys, "collect", "campaign", "--db", str(tmp_path / "none.db"))[2]
