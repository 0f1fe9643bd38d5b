"""Plans: from public data alone, the same for every assignment, and better with more epsilon."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from peerveil import BadInput
from peerveil.data import Reviews, synthetic_conference
from peerveil.release import PublicScores, plan_release
from peerveil.release.plan import TELLS
from peerveil.report import svg

REVIEWS = synthetic_conference(papers=60, reviewers=40, seed=4, bias=0.8).reviews
FEW: dict[str, Any] = {"epsilons": [1, 10], "strictness": [0, 1], "trials": 4, "progress": False}


def test_a_plan_is_the_same_whoever_wrote_what() -> None:
    """Reviewers with equal loads exchange all their names, and two exchange a review: the public side stays."""
    reviewer, paper = REVIEWS.frame["reviewer"].to_numpy().copy(), REVIEWS.frame["paper"].to_numpy()
    held = set(zip(reviewer.tolist(), paper.tolist(), strict=True))
    exchanged = 0
    for i in range(0, len(reviewer) - 1, 2):
        a, b, p, q = reviewer[i], reviewer[i + 1], paper[i], paper[i + 1]
        if a != b and (a, q) not in held and (b, p) not in held:
            held -= {(a, p), (b, q)}
            held |= {(a, q), (b, p)}
            reviewer[i], reviewer[i + 1] = b, a
            exchanged += 1
    assert exchanged > 10
    other = Reviews.from_frame(REVIEWS.frame.with_columns(reviewer=reviewer))
    assert plan_release(REVIEWS, **FEW) == plan_release(other, **FEW)


def test_planning_names_the_epsilon_that_pays() -> None:
    plan = plan_release(REVIEWS, epsilons=[0.01, 20], strictness=[0, 1], trials=10, progress=False)
    assert [(row.strictness, row.epsilon) for row in plan.rows] == [(0, 0.01), (0, 20), (1, 0.01), (1, 20)]
    assert plan.rows[3].published < TELLS * plan.rows[3].public
    assert plan.worthwhile(1.0) == 20
    assert "from epsilon 20 on" in plan.recommendation
    assert not plan.rows[0].tells
    hopeless = plan_release(REVIEWS, epsilons=[0.01], strictness=[0], trials=10, progress=False)
    assert "tells nothing that public scores do not" in hopeless.recommendation
    assert json.loads(json.dumps(plan.to_dict()))["rows"]
    assert "public" in svg(plan.plot(), alt="plan")


def test_more_epsilon_is_never_worse() -> None:
    """The same conferences and draws for every epsilon; five standard errors of a difference of about 60 trials."""
    plan = plan_release(REVIEWS, epsilons=[0.3, 1, 3, 10], strictness=[0, 1], trials=60, progress=False)
    for strictness in (0, 1):
        errors = np.array([row.published for row in plan.rows if row.strictness == strictness])
        public = next(row.public for row in plan.rows if row.strictness == strictness)
        assert (np.diff(errors) < 5 * 0.25 * public / np.sqrt(60)).all()
    assert errors[-1] < errors[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scale": (1, 10)}, r"^scale: got \(1, 10\), need None"),
        ({"columns": {"paper": "submission"}}, "^columns: got .* need None"),
        ({"seed": -1}, "^seed: got -1"),
        ({"trials": 1}, "^trials: got 1"),
        ({"epsilons": [0]}, "^epsilons: got 0"),
        ({"strictness": [-1]}, "^strictness"),
        ({"strictness": [float("nan")]}, "^strictness"),
        ({"strictness": [1e9]}, "^strictness"),
        ({"thresholds": [1, 1]}, "^thresholds"),
    ],
)
def test_bad_input(arguments: dict[str, Any], message: str) -> None:
    public = PublicScores.of(REVIEWS, weight="miscalibration", scale=(1, 10))
    with pytest.raises(BadInput, match=message):
        plan_release(public, **arguments)


def test_a_plan_takes_any_table_and_its_frame_has_one_row_per_setting() -> None:
    frame = REVIEWS.frame.rename({"paper": "submission", "score": "points"})
    plan = plan_release(frame, scale=(1, 10), columns={"paper": "submission", "score": "points"}, **FEW)
    public = PublicScores.of(REVIEWS, weight="miscalibration", scale=(1, 10))
    assert plan == plan_release(public, **FEW)
    assert plan != plan_release(public, seed=1, **FEW)
    assert plan.table().rows(named=True) == [{**asdict(row), "tells_more": row.tells} for row in plan.rows]
    assert plan.summary() == plan.recommendation == plan.to_dict()["recommendation"]
