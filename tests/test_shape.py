"""One shape for the API: what is true of one module's functions is true of all."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from peerveil import Result, calibration, rankings, release, timing, truth
from peerveil.core.result import Pictured, Plan, Tabular
from peerveil.release.spread import SpreadTest
from peerveil.truth import wire

MODULES = {"release": release, "timing": timing, "calibration": calibration, "rankings": rankings, "truth": truth}
PUBLIC = {**MODULES, "truth.wire": wire}
EVERY = {f"{name}.{own}": getattr(module, own) for name, module in PUBLIC.items() for own in module.__all__}
TABLES = {"reviews", "events", "rankings", "labels", "history"}

# value types and formulas, whose arguments have an order that everybody knows
POSITIONAL = {
    "release.PublicScores", "calibration.Affine", "calibration.MapAdversary", "calibration.Monotone", "calibration.Pair",
    "calibration.Panel", "calibration.Threshold", "rankings.Mallows", "rankings.RandomizedRanking", "rankings.kendall_distance",
    "timing.optimal_attack", "truth.wire.collect", "truth.wire.write_answers",
    "truth.CollectedAnswers", "rankings.compare",
}  # fmt: skip


def signature(value: Any) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(value).parameters)


def callables() -> dict[str, Any]:
    """Functions, classes that a user makes, and methods that draw or fit; results and errors are not made by users."""
    made = {
        name: value
        for name, value in EVERY.items()
        if callable(value)
        and not (inspect.isclass(value) and issubclass(value, (Pictured, Exception)))
        and name != "release.FeasibleRegion"
    }
    methods = {
        "calibration.Conference.decide": calibration.Conference.decide,
        "calibration.Strategy.decide": calibration.Strategy.decide,
        "truth.PrivateDawidSkene.fit": truth.PrivateDawidSkene.fit,
        "truth.PrivateMajority.fit": truth.PrivateMajority.fit,
        "rankings.Mallows.sample": rankings.Mallows.sample,
    }
    return {**made, **methods}


EACH = pytest.mark.parametrize("name", callables())


@pytest.mark.parametrize("name", MODULES)
def test_a_module_exports_at_most_twenty_names(name: str) -> None:
    assert len(MODULES[name].__all__) <= 20


@EACH
def test_all_but_the_data_is_named(name: str) -> None:
    parameters = [p for p in signature(callables()[name]).values() if p.name != "self"]
    positional = [p.name for p in parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert len(positional) <= 1 or name in POSITIONAL or name.endswith(".decide")


@EACH
def test_whoever_takes_a_table_takes_columns(name: str) -> None:
    parameters = signature(callables()[name])
    first = next((p for p in parameters.values() if p.name != "self"), None)
    if first is not None and first.name in TABLES and first.kind is not inspect.Parameter.KEYWORD_ONLY:
        assert parameters["columns"].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters["columns"].default is None


@EACH
def test_privacy_parameters_and_sources_are_named(name: str) -> None:
    parameters = signature(callables()[name])
    for own in ("epsilon", "epsilons", "randomness", "account", "adversary_error", "seed", "level"):
        if own in parameters:
            assert parameters[own].kind is inspect.Parameter.KEYWORD_ONLY, own


def test_what_draws_from_a_table_can_be_debited() -> None:
    """``audit_log`` publishes nothing; arrays and single reports are drawn on people's own devices."""
    drawing = {name for name, value in callables().items() if "randomness" in signature(value)}
    paying = {name for name, value in callables().items() if "account" in signature(value)}
    assert paying <= drawing
    assert drawing - paying == {"timing.audit_log", "truth.randomize"}


PLANS = {kind.__name__: kind for kind in Plan.__subclasses__()}


def test_plans_are_plans() -> None:
    planning = [name for name in EVERY if name.split(".")[1].startswith("plan_")]
    assert {name.split(".")[0] for name in planning} == set(MODULES)
    for name in planning:
        hint = str(inspect.signature(EVERY[name]).return_annotation)
        for kind in (PLANS[own.strip()] for own in hint.split("|")):
            assert issubclass(kind, Plan), name
            assert kind.recommendation is not Plan.recommendation
            assert kind.table is not Plan.table
            assert kind.draw is not Pictured.draw


def test_simulators_take_a_seed() -> None:
    simulators = [name for name in callables() if "simulate" in name or name.endswith(".sample")]
    assert len(simulators) >= 3
    for name in simulators:
        assert "seed" in signature(callables()[name]), name
        assert "randomness" not in signature(callables()[name]), name


@pytest.mark.parametrize("name", [n for n, v in EVERY.items() if inspect.isclass(v) and issubclass(v, Pictured)])
def test_a_result_has_summary_dict_and_save(name: str) -> None:
    kind = EVERY[name]
    assert kind.summary is not Pictured.summary
    for method in ("to_dict", "to_json", "save", "plot"):
        assert callable(getattr(kind, method))
    if issubclass(kind, Result):
        assert not {"truth", "chair", "schedule", "workers", "ids"} & set(signature(kind))


def test_tabular_results_have_a_frame() -> None:
    tabular = {name for name, value in EVERY.items() if inspect.isclass(value) and issubclass(value, Pictured)
               and issubclass(value, Tabular)}  # fmt: skip
    assert tabular >= {"release.PublishedMeans", "release.StrictnessAnswer", "timing.Posted",
                       "calibration.ConferenceDecision", "truth.TruthResult",
                       "truth.RandomizedAnswers", "rankings.RandomizedRankings"}  # fmt: skip


def test_tests_have_statistic_and_pvalue_as_in_scipy() -> None:
    assert {"statistic", "pvalue"} <= set(signature(rankings.UniformityTest))
    assert {"statistic", "pvalue"} <= set(signature(SpreadTest))
