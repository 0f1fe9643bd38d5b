"""Campaigns and reports as pure functions: what is read, what is promised, what is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from peerveil.core.errors import BadInput
from peerveil.rankings import RandomizedRanking
from peerveil.truth.client import FORMAT
from peerveil.truth.wire import Client
from peerveil.web.collect import Campaign
from peerveil.web.collect.answers import LONGEST_BYTES, AnswerReader, RandomizedAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LABELS: dict[str, Any] = {
    "id": "lake",
    "title": "Birds of the lake",
    "question": "Is there a bird?",
    "classes": ["no", "yes", "perhaps"],
    "tasks": [{"id": "1", "text": "picture 1"}, {"id": "zwölf", "text": "picture 12"}],
    "epsilon": "1/2",
}
RANKINGS: dict[str, Any] = {
    "id": "drinks",
    "title": "Drinks",
    "kind": "rankings",
    "items": ["tea", "milk", "juice", "water", "wine", "beer"],
    "epsilon": 1,
    "answers": 1,
}


def width(campaign: Campaign) -> Mapping[int, int]:
    """For every question, how many bytes each of its randomized answers has: the same for all answers."""
    if campaign.kind == "rankings":
        name = campaign.protocol.fingerprint
        return {q: len(RandomizedRanking(name, q, 0).to_json()) for q in range(campaign.questions)}
    longest = max(campaign.classes, key=lambda c: len(json.dumps(c)))
    return {
        number: len(json.dumps({"format": FORMAT, "task": task, "label": longest}))
        for number, (task, _) in enumerate(campaign.tasks)
    }


def test_a_campaign_reads_what_it_wrote() -> None:
    for terms in (LABELS, {**RANKINGS, "opens": "2026-11-16T08:00:00+01:00", "embed": ["https://example.org:8443"]}):
        campaign = Campaign.from_dict(terms)
        assert Campaign.from_dict(json.loads(json.dumps(campaign.to_dict()))) == campaign


def test_a_file_with_its_tasks_in_a_table(tmp_path: Path) -> None:
    (tmp_path / "tasks.csv").write_text("task,text\n007,a hawk?\n008,a duck?\n", encoding="utf-8")
    lines = ['id = "a"', 'title = "A"', 'classes = ["no", "yes"]', 'tasks = "tasks.csv"', "epsilon = 0.1"]
    (tmp_path / "campaign.toml").write_text("\n".join([*lines, "closes = 2026-12-01T00:00:00Z"]), encoding="utf-8")
    campaign = Campaign.read(tmp_path / "campaign.toml")
    assert campaign.tasks == (("007", "a hawk?"), ("008", "a duck?"))
    assert campaign.exact_epsilon == Fraction(1, 10)
    assert campaign.closes == datetime(2026, 12, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"id": "Lake"}, "id"),
        ({"id": "../lake"}, "id"),
        ({"id": None}, "id"),
        ({"title": ""}, "title"),
        ({"title": "two\nlines"}, "title"),
        ({"classes": ["no"]}, "classes"),
        ({"classes": ["no", "no"]}, "classes"),
        ({"classes": [0, 1]}, "classes\\[1\\]"),
        ({"classes": ["no", " no"]}, "classes"),
        ({"classes": [str(i) for i in range(101)]}, "classes"),
        ({"tasks": []}, "tasks"),
        ({"tasks": ["1", "1"]}, "tasks\\[2\\]"),
        ({"tasks": [{"id": "1", "picture": "x"}]}, "tasks\\[1\\]"),
        ({"tasks": [None]}, "tasks\\[1\\]"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": float("inf")}, "epsilon"),
        ({"epsilon": "1e-40"}, "epsilon"),
        ({"unit": "task"}, "unit"),
        ({"answers": 0}, "answers"),
        ({"answers": 3}, "answers"),
        ({"answers": True}, "answers"),
        ({"opens": "2026-11-16"}, "opens"),
        ({"opens": "2026-11-16T00:00:00Z", "closes": "2026-11-16T00:00:00Z"}, "closes"),
        ({"publish": 1}, "publish"),
        ({"accuracy": 0.2}, "accuracy"),
        ({"embed": ["https://example.org/path"]}, "embed"),
        ({"embed": ["*"]}, "embed"),
        ({"kind": "scores"}, "kind"),
        ({"closs": "x"}, "a campaign of labels"),
        ({"items": ["a", "b"]}, "a campaign of labels"),
    ],
)
def test_what_cannot_be_a_campaign_is_refused_by_its_key(change: dict[str, Any], argument: str) -> None:
    with pytest.raises(BadInput, match=f"^{argument}: got"):
        Campaign.from_dict({**LABELS, **change})


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"items": ["tea"]}, "items"),
        ({"items": ["tea", "tea"]}, "items"),
        ({"method": "own"}, "method"),
        ({"questions": 4}, "questions"),
        ({"seed": -1}, "seed"),
        ({"method": "items", "questions": 3, "answers": 2}, "answers"),
    ],
)
def test_what_cannot_be_a_campaign_of_rankings_is_refused(change: dict[str, Any], argument: str) -> None:
    with pytest.raises(BadInput, match=f"^{argument}: got"):
        Campaign.from_dict({**RANKINGS, **change})


def test_a_persons_budget_is_split_and_adds_up() -> None:
    for terms in (LABELS, {**RANKINGS, "answers": 2}):
        by_person = Campaign.from_dict({**terms, "unit": "person", "epsilon": 1, "answers": 2})
        assert by_person.each == Fraction(1, 2)
        assert by_person.person_guarantee.exact_epsilon == 1
        assert by_person.guarantee.exact_epsilon == 1
        by_answer = Campaign.from_dict({**terms, "epsilon": 1, "answers": 2})
        assert by_answer.each == 1
        assert by_answer.person_guarantee.exact_epsilon == 2
    assert Campaign.from_dict(LABELS).guarantee.unit == "one answer of one person"
    assert Campaign.from_dict(RANKINGS).guarantee.unit == "one person's ranking"


def test_a_campaign_opens_and_closes_on_the_second() -> None:
    start = datetime(2026, 11, 16, 8, tzinfo=UTC)
    end, tick = start + timedelta(days=1), timedelta(microseconds=1)
    campaign = Campaign.from_dict({**LABELS, "opens": start.isoformat(), "closes": end.isoformat()})
    states = [campaign.state(t) for t in (start - tick, start, end - tick, end)]
    assert states == ["not open yet", "open", "open", "closed"]
    assert campaign.state(start, closed=True) == "closed"
    assert Campaign.from_dict(LABELS).state(start) == "open"


def test_what_the_python_clients_send_is_understood() -> None:
    campaign = Campaign.from_dict(LABELS)
    intake, widths = AnswerReader(campaign), width(campaign)
    client = Client(campaign.described(), bits=lambda _: 0)  # 0 keeps every answer
    for number, (task, _) in enumerate(campaign.tasks):
        for code, answer in enumerate(campaign.classes):
            line = Client(campaign.described(), bits=lambda _: 0).randomize(task, answer)
            assert intake.read(line.encode()) == RandomizedAnswer(number, code)
            assert len(line.encode()) == widths[number]
    assert client.classes == list(campaign.classes)
    votes = Campaign.from_dict(RANKINGS)
    for _ in range(20):
        line = votes.protocol.randomize([0, 1, 2, 3, 4, 5]).to_json()
        received = AnswerReader(votes).read(line.encode())
        assert (received.question, received.code) == (json.loads(line)["question"], int(json.loads(line)["bits"]))
        assert len(line.encode()) == width(votes)[received.question]


GOOD = {"format": "peerveil-truth/1", "task": "1", "label": "yes"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"yes"',
        b"\xff\xfe",
        b"NaN",
        b"[" * 4000,
        b"9" * 4000,
        b'{"format": "peerveil-truth/1", "task": "1", "label": "yes", "label": "no"}',
        b'{"format": "peerveil-truth/1", "task": "1", "label": NaN}',
        json.dumps({**GOOD, "format": "peerveil-truth/2"}).encode(),
        json.dumps({**GOOD, "worker": "ann"}).encode(),
        json.dumps({**GOOD, "task": "2"}).encode(),
        json.dumps({**GOOD, "task": 1}).encode(),
        json.dumps({**GOOD, "task": ["1"]}).encode(),
        json.dumps({**GOOD, "label": "maybe"}).encode(),
        json.dumps({**GOOD, "label": 1}).encode(),
        json.dumps({**GOOD, "label": None}).encode(),
        json.dumps({**GOOD, "label": {"yes": 1}}).encode(),
        json.dumps(GOOD).encode() + b" " * LONGEST_BYTES,
    ],
)
def test_what_is_no_report_of_the_campaign_is_refused(body: bytes) -> None:
    with pytest.raises(BadInput) as refused:
        AnswerReader(Campaign.from_dict(LABELS)).read(body)
    assert "maybe" not in str(refused.value)
    assert "ann" not in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [
        {"protocol": "00000000"},
        {"question": 3},
        {"question": -1},
        {"question": True},
        {"bits": "2"},
        {"bits": 1},
        {"x": 1},
    ],
)
def test_what_is_no_vote_of_the_campaign_is_refused(change: dict[str, Any]) -> None:
    campaign = Campaign.from_dict(RANKINGS)
    good = {"protocol": campaign.protocol.fingerprint, "question": 2, "bits": "1"}
    assert AnswerReader(campaign).read(json.dumps(good).encode()) == RandomizedAnswer(2, 1)
    with pytest.raises(BadInput):
        AnswerReader(campaign).read(json.dumps({**good, **change}).encode())
