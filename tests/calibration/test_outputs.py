"""What is public, what is for the chair alone, and that a plan says what a decision would cost."""

from __future__ import annotations

import json
import pickle
import stat
from pathlib import Path

import polars as pl
import pytest

from peerveil import BadInput, Randomness
from peerveil.calibration import (
    Affine,
    Conference,
    Frontier,
    Pair,
    Threshold,
    plan_decisions,
    respond_assignment,
)
from peerveil.calibration.fit import fit_miscalibration
from peerveil.calibration.plan import Tradeoff
from peerveil.core.result import Plan
from peerveil.data import Reviews, synthetic_conference
from peerveil.ledger import DataBound, Ledger

NAMES = ("Zuse-marked", "Yao-marked", "Xenakis-marked", "Wu-marked")
PEOPLE = {name: Affine(1.0, bias) for name, bias in zip(NAMES, (0.6, -0.5, 0.3, 0.0), strict=True)}
REVIEWS = Reviews(paper=[1, 2, 3, 4], reviewer=NAMES, score=[0.9, 0.4, 0.7, -1.0])


@pytest.fixture(scope="module")
def conference() -> Conference:
    return Conference(REVIEWS, functions=PEOPLE, noise=0.3, accept=Threshold(0.5))


def test_the_public_part_names_no_reviewer_wherever_it_is_written(conference: Conference, tmp_path: Path) -> None:
    public, operator = conference.decide(adversary_error=0.5, capped=True)
    written = [path.read_bytes() for path in public.save(tmp_path / "public")]
    texts = (repr(public), str(public), public.to_json(), public.frame().write_csv())
    for content in (*written, pickle.dumps(public), *(text.encode() for text in texts)):
        assert b"marked" not in content
    assert public.frame().columns == ["paper", "accepted"]
    assert json.loads(public.to_json())["mark"] is None
    assert b"marked" in pickle.dumps(operator)  # the marks would be found
    assert "marked" not in repr(operator) + str(operator)  # a log line names nobody


def test_the_sheet_is_written_for_its_owner_alone(conference: Conference, tmp_path: Path) -> None:
    public, sheet = conference.decide(adversary_error=0.5, capped=True, randomness=Randomness.simulation(1))
    paths = sheet.save(tmp_path / "chair")
    assert {path.name for path in paths} == {"result.json", "table.csv", "figure.svg"}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in paths)
    assert pl.read_csv(tmp_path / "chair" / "table.csv")["reviewer"].to_list() == list(NAMES)
    assert sheet.to_dict()["mark"] == public.mark == "simulation, not private"
    with pytest.raises(BadInput, match="force=True"):
        sheet.save(tmp_path / "chair")


@pytest.mark.parametrize("kind", ["strategy", "response"])
def test_an_account_records_the_decision_of_a_pair(kind: str, tmp_path: Path) -> None:
    pair = Pair((0.6, 0.5), (Affine(1, 0.5), Affine(1, -0.5)), 0.5)
    mechanism = pair.strategy(adversary_error=0.3) if kind == "strategy" else respond_assignment(pair, epsilon="0.7")
    with Ledger.open(tmp_path / "l.db") as ledger:
        account, other = ledger.account("pair", epsilon=1), ledger.account("other", epsilon=1)
        decision = mechanism.decide((0, 1), account=account)
        (entry,) = account.entries()
        assert entry.guarantee == decision.guarantee
        assert account.remaining == (1 if kind == "strategy" else pytest.approx(0.3))
        with pytest.raises(DataBound):  # another strategy of the same pair is the same data
            pair.strategy(adversary_error=0.1).decide((0, 1), account=other)


def test_a_few_papers_are_planned_exactly() -> None:
    plan = plan_decisions(REVIEWS.frame, functions=PEOPLE, noise=0.3, accept=2, adversary="assignment")
    assert isinstance(plan, Frontier)
    assert plan.what == "the whole assignment"
    assert plan.table().rows() == list(plan.points)
    asked = float(plan.recommendation.split("adversary_error=")[1].split(". ")[0])
    assert plan.start[1] < asked < plan.end[1]


def test_a_conference_is_planned_by_groups() -> None:
    table = synthetic_conference(papers=12, reviewers=10, seed=2).reviews.frame.rename({"paper": "submission"})
    people = {name: Affine(1.0, 5 + index / 5) for index, name in enumerate(sorted(set(table["reviewer"])))}
    given = {"functions": people, "noise": 1.5, "accept": 4, "columns": {"paper": "submission"}}
    plan = plan_decisions(table, **given, demands=[0, 0.4, 1])  # type: ignore[arg-type]
    assert isinstance(plan, Tradeoff)
    assert plan.table()["demand"].to_list() == [0, 0.4, 1]
    assert plan.of == 3  # groups of at most five of 12 papers
    assert plan.recommendation.startswith("Recommended: adversary_error=")
    assert plan.to_dict()["recommendation"] == plan.recommendation
    with pytest.raises(BadInput, match="group by group"):
        plan_decisions(table, **given, adversary="assignment")  # type: ignore[arg-type]


def test_plans_are_plans_where_nothing_is_to_be_traded() -> None:
    far = Reviews(paper=[1, 2], reviewer=["a", "b"], score=[5.0, -5.0])
    plan = plan_decisions(far, functions={"a": Affine(1, 0.1), "b": Affine(1, 0)}, noise=0.5, accept=1)
    assert isinstance(plan, Plan)
    assert "costs nothing" in plan.recommendation


def test_a_fit_is_saved_without_its_draws(tmp_path: Path) -> None:
    past = synthetic_conference(papers=40, reviewers=12, seed=3).reviews
    fit = fit_miscalibration(past, iterations=600, progress=False)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in fit.save(tmp_path / "fit"))
    data = json.loads((tmp_path / "fit" / "result.json").read_text())
    assert set(data) == {"noise", "rhat", "table"}
    assert fit.frame().height == 12
    assert fit.functions(["x"], draws=1) == {"x": fit.function("x")}


def test_public_json_has_numbers_and_no_units_of_time() -> None:
    """It said "gap_unit": "seconds" and "error": "22331715317/1000000000000"."""
    conference = Conference(REVIEWS, functions=PEOPLE, noise=0.3, accept=2)
    data = conference.decide(adversary_error=0.1, capped=True, randomness=Randomness.simulation(1)).public.to_dict()
    assert "gap_unit" not in data["guarantee"]
    assert "gap" not in data["guarantee"]
    assert isinstance(data["guarantee"]["error"], float)
    assert 0 <= data["conference_error"] <= data["plain_error"] <= 1
