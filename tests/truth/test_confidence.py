"""No result and no report states how many labels are correct, and all say when confidences are too high."""

from __future__ import annotations

import html
import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.cli.runner import run

from peerveil.core.randomness import Randomness
from peerveil.data import Labels
from peerveil.study import run_study
from peerveil.truth import randomize_answers
from peerveil.truth.result import CONFIDENCE
from peerveil.truth.wire import Client
from peerveil.web.collect import Campaign, Store, infer
from peerveil.web.collect.results import operator_page
from peerveil.web.collect.store import Submission, hash_key
from peerveil.web.common.tokens import hash_token

if TYPE_CHECKING:
    from pathlib import Path

CLAIM = re.compile(
    r"(share|number|fraction) of (right|correct) labels|labels are (right|correct)\b(?!\.)|accura|\bbetween \d",
    re.IGNORECASE,
)
STUDY = """
[study]
title = "Birds"
[data.reports]
path = "reports.csv"
kind = "labels"
[[steps]]
action = "truth.infer"
data = "reports"
randomized = true
epsilon = 2
classes = [0, 1]
"""


def misled(tasks: int = 300, workers: int = 60, each: int = 15) -> tuple[Labels, dict[int, int]]:
    """A crowd that shares errors: a fifth of the tasks mislead 70% of the people; on the others 85% are right."""
    rng = np.random.default_rng(1)
    truth = rng.integers(2, size=tasks)
    right = np.where(rng.random(tasks) < 0.2, 0.3, 0.85)
    task = np.repeat(np.arange(tasks), each)
    worker = np.concatenate([rng.choice(workers, each, replace=False) for _ in range(tasks)])
    label = np.where(rng.random(task.size) < right[task], truth[task], 1 - truth[task])
    return Labels(task=task, worker=worker, label=label), dict(enumerate(truth.tolist()))


@pytest.mark.parametrize("epsilon", [2, 4])
def test_confidences_are_too_high_where_people_share_errors(epsilon: int) -> None:
    answers, truth = misled()
    result = randomize_answers(answers, epsilon=epsilon, classes=2, randomness=Randomness.simulation(1)).public.fit()
    right = result.accuracy(truth)[0]
    assert result.confidence.mean() - right > 5 * (right * (1 - right) / 300) ** 0.5
    assert CONFIDENCE in str(result)
    assert "confidence" in result.summary()
    assert not keys(result.to_dict()) & {"low", "high", "estimate", "accuracy", "estimated_accuracy"}


def test_the_public_report_of_a_study_claims_no_share_of_correct_labels(tmp_path: Path) -> None:
    answers, _ = misled(60, 20, 8)
    sent, _ = randomize_answers(answers, epsilon=2, classes=2, randomness=Randomness.simulation(1))
    sent.answers.write(tmp_path / "reports.csv")
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    done = run_study(tmp_path / "study.toml", tmp_path / "out", progress=False)
    results = json.loads((done.folder / "public" / "results.json").read_text(encoding="utf-8"))
    for text in (said((done.folder / "public" / "report.html").read_text(encoding="utf-8")), json.dumps(results)):
        assert "mean confidence" in text
        assert CONFIDENCE in text
        assert not CLAIM.search(text.replace(CONFIDENCE, "")), CLAIM.search(text.replace(CONFIDENCE, ""))


def test_a_campaign_claims_no_share_of_correct_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """While it is open and after it: what is stored and published, the operator's page, the command's words."""
    db = str(tmp_path / "c.db")
    terms: dict[str, Any] = {
        "id": "lake",
        "title": "Lake",
        "classes": ["no", "yes"],
        "tasks": ["a", "b", "c"],
        "epsilon": 1,
    }
    with Store(db, create=True) as store:
        store.add(Campaign.from_dict(terms))
        known = store.known("lake")
        jobs = []
        for token in store.invite(known, 6):
            digest = hash_token(token)
            for task in terms["tasks"]:
                line = Client(known.campaign.described()).randomize(task, "yes")
                jobs.append(Submission(known, digest, hash_key(digest, task), known.reader.read(line.encode())))
        with store.database.writing("take") as connection:
            assert all(store.take(connection, jobs))
        for so_far in (True, False):
            if not so_far:
                store.end(known, now=True)
            found = infer(store, known, so_far=so_far)
            assert found["about_confidence"] == CONFIDENCE
            assert not keys(found) & {"low", "high", "estimate", "accuracy", "estimated_accuracy"}
            page = said(operator_page(store, known).html())
            assert "mean confidence of the labels" in page
            assert CONFIDENCE in page
            assert not re.search(r"share of (right|correct) labels|\(between", page)
    code, text, _ = run(capsys, "collect", "infer", "--campaign", "lake", "--db", db)
    assert code == 0
    assert CONFIDENCE in text
    assert not CLAIM.search(text.replace(CONFIDENCE, ""))


def keys(value: Any) -> set[str]:
    """All keys of a nested JSON value."""
    if isinstance(value, dict):
        return {str(key) for key in value} | {one for inner in value.values() for one in keys(inner)}
    return {one for inner in value for one in keys(inner)} if isinstance(value, list) else set()


def said(page: str) -> str:
    """What a page says, without its tags, styles and pictures."""
    text = re.sub(r"<(style|svg)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())
