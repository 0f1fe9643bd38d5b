"""Advice in errors works when it is followed: every function that takes a table, given columns of other names."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from peerveil import calibration, data, release, timing, truth
from peerveil.data import BadTable, synthetic_conference

CONFERENCE = synthetic_conference(papers=12, reviewers=8)
MISNAMED = {  # names that are suggested, never taken
    "Reviews": CONFERENCE.reviews.frame.rename({"paper": "item", "score": "grade"}),
    "Events": CONFERENCE.events.frame.rename({"actor": "member", "thread": "title"}),
    "Labels": CONFERENCE.labels.frame.rename({"task": "item", "worker": "user", "label": "vote"}),
}
STRICTNESS = {reviewer: calibration.Affine(1) for reviewer in CONFERENCE.reviews.frame["reviewer"]}
FUNCTIONS: dict[str, tuple[str, Callable[..., object]]] = {
    "data.Reviews.of": ("Reviews", data.Reviews.of),
    "data.Events.of": ("Events", data.Events.of),
    "data.Labels.of": ("Labels", data.Labels.of),
    "release.publish": ("Reviews", partial(release.publish, epsilon=1)),
    "release.plan_release": ("Reviews", partial(release.plan_release, epsilons=[1], strictness=[0], trials=2)),
    "release.review_weights": ("Reviews", release.review_weights),
    "release.PublicScores.of": ("Reviews", release.PublicScores.of),
    "calibration.Conference": ("Reviews", partial(calibration.Conference, functions=STRICTNESS, noise=1, accept=3)),
    "calibration.fit_miscalibration": ("Reviews", calibration.fit_miscalibration),
    "calibration.plan_decisions": (
        "Reviews",
        partial(calibration.plan_decisions, functions=STRICTNESS, noise=1, accept=3, group_size=2),
    ),
    "timing.audit_log": ("Events", partial(timing.audit_log, window=300)),
    "timing.audit_table": ("Events", timing.audit_table),
    "timing.choose_gap": ("Events", partial(timing.choose_gap, percentile=50)),
    "timing.choose_gaps": ("Events", partial(timing.choose_gaps, percentile=50)),
    "timing.find_batches": ("Events", partial(timing.find_batches, window=300)),
    "timing.plan_delays": ("Events", timing.plan_delays),
    "timing.post": ("Events", partial(timing.post, mechanism=timing.FollowUp(epsilon=1, gap=2700, window=300))),
    "truth.randomize_answers": ("Labels", partial(truth.randomize_answers, epsilon=1, classes=[0, 1])),
    "truth.compare_truth": ("Labels", partial(truth.compare_truth, epsilons=[1], draws=2, model="one-coin")),
    "truth.PrivateDawidSkene.fit": ("Labels", truth.PrivateDawidSkene(epsilon=1, model="one-coin").fit),
    "truth.PrivateMajority.fit": ("Labels", truth.PrivateMajority(epsilon=1).fit),
}


def advised(message: str) -> dict[str, str]:
    """The columns that an error advises to name."""
    advice = re.search(r"pass columns=(\{[^}]*\})", message)
    assert advice, message
    return dict(re.findall(r"'(\w+)': '([^']+)'", advice[1]))


@pytest.mark.parametrize("source", ["frame", "file"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_renaming_as_the_error_says_works(name: str, source: str, tmp_path: Path) -> None:
    kind, function = FUNCTIONS[name]
    data: pl.DataFrame | Path = MISNAMED[kind]
    if source == "file":
        MISNAMED[kind].write_csv(tmp_path / "data.csv")
        data = tmp_path / "data.csv"
    with pytest.raises(BadTable) as error:
        function(data)
    function(data, columns=advised(str(error.value)))
