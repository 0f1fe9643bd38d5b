"""One contract over everything public: guarantee, adversary, check, mark, picture, JSON and documentation.

Mechanisms, results and findings are found through the exports of the five modules, so that a new public class without these
fails here. What they are tried with stands in ``tests/contract.py``.
"""

from __future__ import annotations

import inspect
import json
import re
from functools import cache
from typing import Any

import pytest
from matplotlib.figure import Figure
from tests import contract
from tests.contract import Entry, delay, lane, pair, panel, strategy_entry

from peerveil import Guarantee, Randomness, Result, calibration, rankings, release, timing, truth
from peerveil.core.guarantee import SIMULATION_MARK, Notion
from peerveil.core.result import Pictured
from peerveil.report import svg
from peerveil.timing.check import grid_check
from peerveil.truth import wire

MODULES = {"release": release, "timing": timing, "calibration": calibration, "rankings": rankings, "truth": truth}
PUBLIC = {**MODULES, "truth.wire": wire}


def exported() -> dict[str, Any]:
    return {f"{own}.{name}": getattr(module, name) for own, module in PUBLIC.items() for name in module.__all__}


def takes_randomness(value: Any) -> bool:
    try:
        return "randomness" in inspect.signature(value).parameters
    except (TypeError, ValueError):
        return False


def is_mechanism(value: Any) -> bool:
    """Draws noise, or carries a promise of its own without being a result."""
    if not inspect.isclass(value):
        return takes_randomness(value)
    if issubclass(value, (Result, Exception)):
        return False
    methods = [member for name, member in inspect.getmembers(value, callable) if not name.startswith("_")]
    return hasattr(value, "guarantee") or any(takes_randomness(member) for member in methods)


# found by the rule above, and yet no mechanism
OTHERS = {
    "timing.audit_log": "for the operator: it publishes nothing",
    "timing.Queue": "promises no differential privacy, and marks its results as not private",
    "calibration.MapAdversary": "the adversary: it tosses coins for ties",
    "truth.randomize": "arrays, which can carry no mark; randomize_answers is the same on tables",
}
MECHANISMS: dict[str, Entry] = {
    "release.NoisyCounts": contract.COUNTS,
    "release.publish": contract.RELEASE,
    "release.ask": contract.ASK,
    "timing.FollowUp": delay(timing.FollowUp(epsilon=1, gap=2700, window=300)),
    "timing.ZeroInflatedUniform": delay(timing.ZeroInflatedUniform(epsilon=1, gap=2700, window=300)),
    "timing.Uniform": delay(timing.Uniform(epsilon=1, gap=2700, window=300)),
    "timing.Exponential": delay(timing.Exponential(epsilon=1, gap=2700, window=300), grid_check),
    "timing.Staircase": delay(timing.Staircase(epsilon=1, gap=2700, window=300), grid_check),
    "timing.post": delay(timing.FollowUp(epsilon=2, gap=3600, window=60)),
    "calibration.Conference": contract.conference_entry(),
    "calibration.Strategy": strategy_entry(panel().strategy(adversary_error=0.55)),
    "rankings.LocalProtocol": contract.LOCAL,
    "rankings.randomize_rankings": contract.RANDOMIZED,
    "rankings.consensus": contract.CONSENSUS,
    "rankings.compare": contract.COMPARED,
    "rankings.uniformity_test": contract.CENTRAL,
    "truth.publish_labels": contract.PUBLISHED,
    "truth.randomize_answers": contract.ANSWERS,
}
# not found by the rule, and yet used like one: devices draw by themselves, estimates hand out the result
MORE: dict[str, Entry] = {
    "calibration.Pair": strategy_entry(pair().strategy(adversary_error=0.3)),
    "calibration.respond_assignment": contract.response_entry(),
    "rankings.aggregate_rankings": contract.LOCAL,
    "rankings.local_consensus": contract.NAMED,
    "truth.wire.Client": contract.CLIENT,
    "truth.PrivateDawidSkene": contract.FITTED,
}
EVERY = {**MECHANISMS, **MORE}


@cache
def made(name: str) -> Result:
    """What a mechanism makes with secure randomness."""
    return EVERY[name].make(Randomness.secure())


each = pytest.mark.parametrize("name", EVERY)


def test_every_mechanism_has_an_entry() -> None:
    found = {name for name, value in exported().items() if is_mechanism(value)}
    assert found == set(MECHANISMS) | set(OTHERS)
    assert set(MORE) <= set(exported())


def test_a_new_mechanism_without_an_entry_would_be_found() -> None:
    class Draws:
        def perturb(self, value: float, randomness: Randomness) -> float:
            return value

    class Promises:
        guarantee = None

    def publishes(value: float, randomness: Randomness | None = None) -> float:
        return value

    assert all(is_mechanism(new) for new in (Draws, Promises, publishes))
    assert not is_mechanism(ValueError)
    assert not is_mechanism(release.PublishedMeans)


def check_promise(guarantee: Guarantee) -> None:
    assert guarantee.unit
    assert len(guarantee.neighbors) > 20
    assert guarantee.neighbors in str(guarantee)
    value = guarantee.error if guarantee.notion is Notion.MAP_ERROR else guarantee.epsilon
    assert value is not None
    assert value > 0


def check_result(result: Result, mark: str | None) -> None:
    check_promise(result.guarantee)
    assert result.mark == mark
    said = str(result)
    assert result.guarantee.short in said
    assert (f"[{mark}]" in said) is (mark is not None)
    data = result.to_dict()
    assert json.loads(result.to_json()) == data
    assert data["mark"] == mark
    assert data["guarantee_in_words"] == str(result.guarantee)
    check_picture(result)


def check_picture(thing: Pictured) -> None:
    axes = Figure().add_subplot()
    assert thing.plot(axes) is axes
    assert axes.has_data()
    marks = [text.get_text() for text in axes.texts if text.get_gid() == "mark"]
    assert marks == ([thing.mark] if thing.mark else [])
    assert "<svg " in svg(thing.plot(), alt="a picture")


@each
def test_what_it_makes_has_promise_mark_picture_and_json(name: str) -> None:
    entry = EVERY[name]
    check_result(made(name), None)
    if entry.has_lanes:
        check_result(entry.make(lane()), SIMULATION_MARK)


@each
def test_its_check_passes_and_finds_a_deliberate_fault(name: str) -> None:
    assert EVERY[name].honest()
    assert not EVERY[name].broken()


@each
def test_its_adversary_lives_in_its_module_and_stays_within_the_promise(name: str) -> None:
    entry = EVERY[name]
    own, place = name.split(".")[0], entry.adversary.__module__
    assert place.startswith(f"peerveil.{own}.")
    success, most = entry.attack()
    assert 0.5 - contract.SLACK - 0.2 < success <= most


def test_every_result_is_made_by_an_entry() -> None:
    types = {type(made(name)) for name in EVERY}
    wanted = {value for value in exported().values() if inspect.isclass(value) and issubclass(value, Result)}
    promises_nothing = {truth.TruthComparison}  # computed without noise, marked: see below
    assert wanted - promises_nothing <= types


def test_a_comparison_on_private_answers_is_marked_as_not_private() -> None:
    crowd = truth.simulate_crowd(tasks=20, workers=5, answers=3, epsilon=None, seed=1)
    found = truth.compare_truth(crowd.answers, epsilons=[2], draws=2, progress=False)
    assert found.mark == "not private"
    assert "[not private]" in str(found)
    assert json.loads(found.to_json())["mark"] == "not private"
    check_picture(found)


def test_the_queue_is_marked_as_not_private() -> None:
    posted = timing.post(contract.log(), mechanism=timing.Queue(step=60), randomness=Randomness.secure()).public
    assert posted.mark == "not private"
    assert "[not private]" in str(posted)
    assert json.loads(posted.to_json())["mark"] == "not private"
    check_picture(posted)


# ---- what has a picture and no promise: plans, frontiers, attacks, simulations -------------------------------------------


def findings() -> dict[str, Any]:
    follow_up = timing.FollowUp(epsilon=1, gap=2700, window=300)
    meeting = contract.conference()
    public = release.PublicScores.of(contract.reviews(), weight="rating", scale=(1, 10))
    return {
        "release.ReleasePlan": release.plan_release(
            public, epsilons=[1, 4], strictness=[0, 1], trials=2, progress=False
        ),
        "timing.DelayPlan": timing.plan_delays(contract.log(), percentile=25),
        "timing.PostingSchedule": timing.post(contract.log(), mechanism=follow_up, randomness=lane()).operator,
        "timing.TimingAudit": timing.audit_log(
            contract.log(), window=300, percentile=25, epsilons=[1], randomness=lane()
        ),
        "calibration.CalibratedScores": calibration.calibrate(contract.reviews(), accept=5),
        "calibration.ChairSheet": meeting.decide(adversary_error=0.5, capped=True, randomness=lane()).operator,
        "calibration.Frontier": panel().frontier(),
        "rankings.PowerCurve": rankings.plan_rankings(items=6, spread=0.5, epsilon=1, methods=["rank-norm"], trials=4),
        "truth.TruthPlan": truth.plan_truth(
            accuracy=0.7, epsilons=[4], answers=(5,), tasks=20, trials=1, progress=False
        ),
    }


def test_every_finding_with_a_picture_has_plot_and_json() -> None:
    classes = {name: value for name, value in exported().items() if inspect.isclass(value)}
    drawn = {name for name, value in classes.items() if hasattr(value, "plot") and not issubclass(value, Result)}
    axes = {
        name for name, value in classes.items()
        if hasattr(value, "draw") and "ax" in inspect.signature(value.draw).parameters
    }  # fmt: skip
    shown: dict[str, Any] = findings()
    assert set(shown) == drawn
    assert all(issubclass(classes[name], Pictured) for name in drawn | axes)
    for name, finding in shown.items():
        check_picture(finding)
        assert json.loads(finding.to_json()) == finding.to_dict(), name
        assert type(finding) is classes[name]


# ---- documentation -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", exported())
def test_it_is_documented(name: str) -> None:
    module, _, own = name.rpartition(".")
    assert inspect.getdoc(exported()[name])
    assert re.search(rf"\b{own}\b", str(PUBLIC[module].__doc__))
