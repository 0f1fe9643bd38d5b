"""Advice in errors works when it is followed: every function that takes a table, given columns of other names."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from peerveil import calibration, judgements, release, timing, truth
from peerveil.judgements import BadTable, synthetic_conference

CONFERENCE = synthetic_conference(papers=12, reviewers=8)
MISNAMED = {
    "Reviews": CONFERENCE.reviews.frame.rename({"paper": "submission", "score": "rating"}),
    "Events": CONFERENCE.events.frame.rename({"actor": "user", "thread": "page"}),
    "Labels": CONFERENCE.labels.frame.rename({"task": "item", "worker": "annotator", "label": "answer"}),
}
STRICTNESS = {reviewer: calibration.Affine(1) for reviewer in CONFERENCE.reviews.frame["reviewer"]}
FUNCTIONS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "release.publish": ("Reviews", lambda data: release.publish(data, epsilon=1)),
    "release.plan_release": ("Reviews", lambda data: release.plan_release(data, epsilons=[1], leniency=[0], trials=2)),
    "release.review_weights": ("Reviews", release.review_weights),
    "release.PublicScores.of": ("Reviews", release.PublicScores.of),
    "calibration.Conference": (
        "Reviews",
        lambda data: calibration.Conference(data, functions=STRICTNESS, noise=1, accept=3),
    ),
    "calibration.fit_miscalibration": ("Reviews", calibration.fit_miscalibration),
    "calibration.plan_decisions": (
        "Reviews",
        lambda data: calibration.plan_decisions(data, functions=STRICTNESS, noise=1, accept=3, group_size=2),
    ),
    "timing.audit_log": ("Events", lambda data: timing.audit_log(data, window=300)),
    "timing.choose_gap": ("Events", lambda data: timing.choose_gap(data, percentile=50)),
    "timing.find_batches": ("Events", lambda data: timing.find_batches(data, window=300)),
    "timing.post": ("Events", lambda data: timing.post(data, mechanism=timing.FollowUp(epsilon=1, gap=2700, beta=300))),
    "truth.randomize_answers": ("Labels", lambda data: truth.randomize_answers(data, epsilon=1, classes=[0, 1])),
    "truth.PrivateDawidSkene.fit": (
        "Labels",
        lambda data: truth.PrivateDawidSkene(epsilon=1, model="one-coin").fit(data),
    ),
    "truth.PrivateMajority.fit": ("Labels", lambda data: truth.PrivateMajority(epsilon=1).fit(data)),
}


def follow(message: str, data: object) -> object:
    """What an error's advice makes of the data."""
    advice = re.search(r"pass (\w+)\.of\(data, columns=(\{[^}]*\})\)", message)
    assert advice, message
    mapping = dict(re.findall(r"'(\w+)': '([^']+)'", advice[2]))
    return getattr(judgements, advice[1]).of(data, columns=mapping)


CASES = [(name, source) for name in FUNCTIONS for source in ("frame", "file")]
CASES.remove(("truth.PrivateDawidSkene.fit", "file"))  # DuckDB reads files there; its error lists the columns it needs


@pytest.mark.parametrize(("name", "source"), CASES)
def test_renaming_as_the_error_says_works(name: str, source: str, tmp_path: Path) -> None:
    kind, function = FUNCTIONS[name]
    data: pl.DataFrame | Path = MISNAMED[kind]
    if source == "file":
        MISNAMED[kind].write_csv(tmp_path / "data.csv")
        data = tmp_path / "data.csv"
    with pytest.raises(BadTable) as error:
        function(data)
    function(follow(str(error.value), data))
