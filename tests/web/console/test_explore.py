"""Exploring: every module answers in words and curves, from public facts alone, and what it proposes can be run."""

from __future__ import annotations

import json
import math
import os
import re
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from peerveil.core.errors import BadInput
from peerveil.core.guarantee import odds_in_words
from peerveil.core.randomness import Response
from peerveil.data import Labels, Rankings, Reviews, synthetic_conference
from peerveil.rankings import Mallows
from peerveil.study import Study, check_study
from peerveil.study.actions import find_action
from peerveil.web.console.explore import MODULES, Exploration, explore, public_facts, simulate
from peerveil.web.console.explore import release as release_module
from peerveil.web.console.explore.calibration import SIZES
from peerveil.web.console.explore.common import EPSILONS, success_bound, success_percent
from peerveil.web.console.explore.rankings import AGREEMENTS, LEVELS, spread_of
from peerveil.web.console.explore.timing import GAPS
from peerveil.web.console.studies import form_text, offered, read_settings

CONFERENCE = synthetic_conference(40, 30, answers_per_task=4, ranked_items=14, seed=3)
PAST = synthetic_conference(40, 30, seed=4, people_seed=3)
TABLES: dict[str, Any] = {
    "release": CONFERENCE.reviews,
    "timing": CONFERENCE.events,
    "calibration": CONFERENCE.reviews,
    "rankings": CONFERENCE.rankings,
    "truth": CONFERENCE.labels,
}


SHARED: list[Path] = []


def float_bound(epsilon: str, prior: Fraction) -> float:
    return float(success_bound(epsilon, prior))


@pytest.fixture(scope="module", autouse=True)
def shared(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where simulations are kept, so that those of all processes of one test run are made once."""
    base = tmp_path_factory.getbasetemp()
    SHARED[:] = [base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base]


@cache
def simulated(module: str) -> dict[str, Any]:
    """As it comes back from a database: through JSON."""
    kept = SHARED[0] / f"explored-{module}.json"
    if not kept.exists():
        made = kept.with_suffix(f".{os.getpid()}")
        made.write_text(json.dumps(simulate(module, TABLES[module]), allow_nan=False))
        made.replace(kept)
    found: dict[str, Any] = json.loads(kept.read_text())
    return found


@cache
def settings(module: str) -> tuple[dict[str, str], ...]:
    """Every value of every control, the others at their defaults."""
    controls = explore(module, simulated(module), {}).controls
    return tuple({control.name: value} for control in controls for value in control.values)


@cache
def explored(module: str) -> tuple[Exploration, ...]:
    return tuple(explore(module, simulated(module), choices) for choices in settings(module))


def texts(found: Exploration) -> list[str]:
    controls = [text for one in found.controls for text in (one.label, one.help)]
    facts = [text for pair in found.facts for text in pair]
    captions = [figure.caption for figure in found.figures]
    return [*sentences(found), found.attack.fact, *facts, *captions, *controls]


def sentences(found: Exploration) -> list[str]:
    return [found.headline, found.reason, found.about, found.attack.sentence]


# ---- what is shown -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_every_setting_is_answered_in_clean_sentences(module: str) -> None:
    for choices, found in zip(settings(module), explored(module), strict=True):
        assert choices.items() <= found.chosen.items()
        assert set(found.chosen) == set(found.recommended) == {one.name for one in found.controls}
        assert all(found.recommended[one.name] in one.values and one.default in one.values for one in found.controls)
        assert 3 <= 1 + len(found.facts) <= 6
        assert len(found.figures) in (1, 2)
        for text in texts(found):
            assert text.strip() == text
            assert text
            assert not re.search(r"None|nan|\binf\b|  |\{|\}|\.\.", text), text
        for sentence in sentences(found):
            assert sentence.endswith(".")
        for figure in found.figures:
            assert figure.svg.startswith("<svg ")
            assert 'role="img"' in figure.svg
            assert re.search(r"chosen: [\w.]+", figure.svg)


@pytest.mark.parametrize("module", MODULES)
def test_the_attacker_is_described_alike_everywhere(module: str) -> None:
    sentence = explore(module, simulated(module), {}).attack.sentence
    assert re.match(
        r"An attacker who is correct [\d.]+% of the time today about .* would be correct (at most|about) [\d.]+% of the time",
        sentence,
    )


@pytest.mark.parametrize("module", MODULES)
def test_the_mark_moves_with_the_choice_and_the_default_is_what_is_shown_without_one(module: str) -> None:
    slider = explore(module, simulated(module), {}).controls[0]
    for value in (slider.values[0], slider.values[-1]):
        found = explore(module, simulated(module), {slider.name: value, "something else": "x"})
        assert all(f"chosen: {value}<" in figure.svg for figure in found.figures)
    assert explore(module, simulated(module), {}) == explore(module, simulated(module), {slider.name: slider.default})


@pytest.mark.parametrize("module", MODULES)
def test_bad_choices_are_refused(module: str) -> None:
    for control in explore(module, simulated(module), {}).controls:
        with pytest.raises(BadInput, match=control.name):
            explore(module, simulated(module), {control.name: "12345"})
    with pytest.raises(BadInput, match="simulation"):
        explore(module, {**simulated(module), "version": 0}, {})
    with pytest.raises(BadInput, match="simulation"):
        explore(module, simulated(next(name for name in MODULES if name != module)), {})
    with pytest.raises(BadInput, match="module"):
        explore("kitchen", simulated(module), {})


# ---- what changes with what ----------------------------------------------------------------------------------------


def test_what_an_attacker_may_reach_is_what_the_guarantee_says_and_grows_with_epsilon() -> None:
    for one in EPSILONS:
        assert success_percent(one, Fraction(1, 2)) == f"{odds_in_words(Fraction(one))[1]}%"
    for today in (Fraction(1, 2), Fraction(1, 10), Fraction(1, 4)):
        values = [float_bound(one, today) for one in EPSILONS]
        assert values == sorted(set(values))
        assert float(today) < values[0]
        assert values[-1] < 1


@pytest.mark.parametrize("classes", [2, 4])
def test_the_best_guess_from_a_randomized_answer_reaches_the_bound_and_never_passes_it(classes: int) -> None:
    for one in EPSILONS:
        keep = float(Response(one, classes).keep)  # an attacker who believes the report is right as often as it is kept
        assert keep <= float_bound(one, Fraction(1, classes)) + 1e-15
        assert keep == pytest.approx(float_bound(one, Fraction(1, classes)), rel=1e-6)


def test_an_unequal_prior_gains_no_more_than_the_formula_allows() -> None:
    prior, epsilon = np.array([0.5, 0.3, 0.2]), "1"
    response = Response(epsilon, 3)
    keep, other = float(response.keep), (1 - float(response.keep)) / 2
    likely = np.where(np.eye(3, dtype=bool), keep, other) * prior[:, None]
    assert likely.max(axis=0).sum() <= float_bound(epsilon, Fraction(1, 2))
    assert likely.max(axis=0).sum() > 0.5  # and does gain


def test_release_errs_less_with_more_epsilon_and_proposes_what_the_plan_advises() -> None:
    simulation = simulated("release")
    assert set(simulation["plans"]) == {"rating", "miscalibration", "normalized", "subjectivity"}
    for weight, plan in simulation["plans"].items():
        for errors in plan["published"].values():
            assert errors[-1] < errors[0]
        found = explore("release", simulation, {"weight": weight})
        worthwhile = [one for one in plan["worthwhile"].values() if one is not None]
        small = worthwhile and float(worthwhile[0]) <= 2  # beyond that, hardly anybody is protected: never recommended
        assert found.recommended["epsilon"] == (worthwhile[0] if small else "1")
        assert ("Publishing is not recommended: only" in found.reason) is (bool(worthwhile) and not small)
        assert plan["advice"] in found.reason or (worthwhile and not small)
        assert "public scores" in plan["advice"]
        assert plan["spread"]["moderately"] < plan["spread"]["strongly"]


def test_posts_wait_longer_for_less_epsilon_and_a_longer_gap_and_are_linked_less() -> None:
    simulation = simulated("timing")
    for key, links in simulation["after"].items():
        before = simulation["before"][key.split()[0]]
        assert max(links) < before
        assert links[0] < links[-1]
    for window in simulation["before"]:
        first = [simulation["after"][f"{window} {gap}"][EPSILONS.index("1")] for gap in GAPS]
        assert first[-1] < first[0]
    bounds = [1 / (1 + math.exp(float(one))) for one in EPSILONS]  # Proposition 5.1 with F(g) = 1
    assert simulation["crossover"] == pytest.approx(bounds, abs=1e-6)
    delays = [_delay(simulation, {"epsilon": one}) for one in EPSILONS]
    assert delays == sorted(delays, reverse=True)
    delays = [_delay(simulation, {"gap": one}) for one in GAPS]
    assert delays == sorted(delays)
    stricter = explore("timing", simulation, {"tolerated": "40"}).recommended["epsilon"]
    assert float(stricter) < float(explore("timing", simulation, {"tolerated": "10"}).recommended["epsilon"])


def _delay(simulation: dict[str, Any], choices: dict[str, str]) -> float:
    longest = dict(explore("timing", simulation, choices).facts)["Longest delay"].split(";")[0]
    units = {"s": 1.0, "min": 60.0, "h": 3600.0, "days": 86_400.0}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+) (s|min|h|days)", longest))


def test_asking_more_hides_the_writer_better_and_costs_papers() -> None:
    for tradeoff in simulated("calibration")["tradeoffs"].values():
        # what is promised of the worst review rises; the mean over reviews that is shown may waver a little
        assert (np.diff(tradeoff["guessed"]) <= 0.005).all()
        assert (np.diff(tradeoff["wrong"]) >= -1e-9).all()
        assert tradeoff["guessed"][-1] < tradeoff["guessed"][0]
    larger = [simulated("calibration")["tradeoffs"][f"0.25 {size}"]["guessed"][0] for size in SIZES]
    assert larger == sorted(larger, reverse=True)  # more committees, more suspects


def test_a_signal_is_found_more_often_with_more_epsilon_agreement_and_level() -> None:
    power = simulated("rankings")["power"]
    for found in power.values():
        assert found[0] <= found[-1] <= 1
    for level in LEVELS:
        strongest = [power[f"{level} {one}"][-1] for one in AGREEMENTS]
        assert strongest[-1] > strongest[0]
        assert power[f"{level} {AGREEMENTS[-1]}"][-1] > 2 * power[f"{level} {AGREEMENTS[-1]}"][0]
    for agreement in AGREEMENTS:
        by_level = [power[f"{level} {agreement}"][0] for level in LEVELS]
        assert by_level == sorted(set(by_level))


def test_agreement_is_the_share_of_pairs_in_the_common_order() -> None:
    for items, wanted in ((5, 0.6), (12, 0.55)):
        rows = Mallows(items, spread_of(items, wanted)).sample(40_000, seed=1)
        upper = np.triu_indices(items, 1)
        share = (np.asarray(rows)[:, upper[0]] < np.asarray(rows)[:, upper[1]]).mean(axis=1)
        assert abs(share.mean() - wanted) < 5 * share.std() / math.sqrt(len(share))


def test_more_labels_come_out_right_with_more_epsilon_answers_and_ability() -> None:
    simulation = simulated("truth")
    correct = simulation["correct"]
    for key, shares in correct.items():
        assert all(shares[unit][0] <= shares[unit][-1] <= 1 for unit in ("answer", "person")), key
    by_answer = {key: shares["answer"] for key, shares in correct.items()}
    assert by_answer["70 20 2"][-1] > by_answer["70 3 2"][-1] > by_answer["70 3 2"][0]
    assert by_answer["80 10 2"][-1] > by_answer["60 10 2"][-1]
    assert correct["80 10 2"]["person"][4] < by_answer["80 10 2"][-1]


# ---- privacy -------------------------------------------------------------------------------------------------------


def exchanged(reviews: Reviews, seed: int) -> Reviews:
    """Another conference with the same public side: who wrote what within papers is permuted, and rows are shuffled."""
    rng = np.random.default_rng(seed)
    frame = reviews.frame.with_columns(pl.Series("coin", rng.random(len(reviews))))
    parts = [
        part.with_columns(part["reviewer"].gather(rng.permutation(part.height).tolist()))
        for part in frame.sort("coin").drop("coin").partition_by("paper", maintain_order=True)
    ]
    return Reviews.from_frame(pl.concat(parts), criteria=reviews.criteria)


def test_who_wrote_which_review_changes_nothing_that_release_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does another run of the same simulation; and its progress rises to the end."""
    reviews = TABLES["release"]
    other = exchanged(reviews, 1)
    joined = reviews.frame.join(other.frame, on=["paper", "reviewer"], suffix="_other")
    assert (joined["score"] != joined["score_other"]).any()  # it is another assignment
    assert public_facts("release", other) == public_facts("release", reviews)
    seen: list[float] = []
    found = json.loads(json.dumps(simulate("release", other, seen.append)))
    assert found == simulated("release")
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0.0, 1.0)
    assert explore("release", found, {}) == explore("release", simulated("release"), {})

    # a fault: the spread of reviewers' own means, which only the assignment gives, slips into the facts
    honest = release_module.public_facts

    def leaky(table: Any) -> dict[str, Any]:
        means = table.frame.group_by("reviewer").agg(pl.col("score").mean())["score"]
        return {**honest(table), "spread": round(float(means.std()), 6)}

    monkeypatch.setattr(release_module, "public_facts", leaky)
    assert public_facts("release", other) != public_facts("release", reviews)


def test_an_exchange_of_reviews_between_papers_changes_nothing_either() -> None:
    frame = TABLES["release"].frame
    held = set(zip(frame["reviewer"].to_list(), frame["paper"].to_list(), strict=True))
    people, papers = frame["reviewer"].to_list(), frame["paper"].to_list()
    i, j = next(
        (i, j)
        for i in range(len(people))
        for j in range(i)
        if (people[i], papers[j]) not in held and (people[j], papers[i]) not in held
    )
    people[i], people[j] = people[j], people[i]
    neighbor = Reviews.from_frame(
        frame.with_columns(pl.Series("reviewer", people)), criteria=TABLES["release"].criteria
    )
    assert public_facts("release", neighbor) == public_facts("release", TABLES["release"])


def test_scores_and_loads_are_public_and_do_change_what_is_shown() -> None:
    frame = TABLES["release"].frame
    scores = frame["score"].to_list()
    scores[0] = 1.0 if scores[0] != 1.0 else 2.0
    other = Reviews.from_frame(frame.with_columns(pl.Series("score", scores)), criteria=TABLES["release"].criteria)
    assert public_facts("release", other) != public_facts("release", TABLES["release"])


@pytest.mark.parametrize("module", ["timing", "calibration"])
def test_nothing_of_a_log_or_of_a_conference_is_used(module: str) -> None:
    other = {"timing": PAST.events, "calibration": PAST.reviews}[module]
    assert public_facts(module, TABLES[module]) == public_facts(module, other) == public_facts(module, None)


def test_only_how_many_rankings_of_how_many_items_there_are_is_used() -> None:
    table: Rankings = TABLES["rankings"]
    other = Rankings(Mallows(len(table.items), 0.3).sample(table.total, seed=5))
    assert other != table
    assert public_facts("rankings", other) == public_facts("rankings", table)
    fewer = Rankings(other.ranks[1:])
    assert public_facts("rankings", fewer) != public_facts("rankings", table)


def test_neither_answers_nor_who_gave_them_are_used() -> None:
    table: Labels = TABLES["truth"]
    frame = table.frame
    flipped = frame.with_columns(1 - pl.col("label")) if frame["label"].dtype.is_integer() else frame.with_columns(
        pl.col("label").reverse())  # fmt: skip
    names = frame["worker"].unique().sort()
    renamed = dict(zip(names.to_list(), names.reverse().to_list(), strict=True))
    other = Labels.from_frame(flipped.with_columns(pl.col("worker").replace(renamed)).select("task", "worker", "label"))
    assert other != table
    assert public_facts("truth", other) == public_facts("truth", table)
    fewer = Labels.from_frame(frame.head(len(frame) - 1))
    assert public_facts("truth", fewer) != public_facts("truth", table)


def test_every_module_says_what_it_was_computed_from() -> None:
    said = {module: explore(module, simulated(module), {}).about for module in MODULES}
    assert all("public" in said[module] for module in ("release", "rankings", "truth"))
    assert all("synthetic" in said[module] for module in ("timing", "calibration", "rankings", "truth"))
    assert "please check" in said["release"]
    assert "40 papers" in said["release"]


# ---- tables as they come -------------------------------------------------------------------------------------------


def test_without_criteria_only_two_weights_are_offered_and_without_reviewers_nothing() -> None:
    frame = TABLES["release"].frame.select("paper", "reviewer", "score")
    simulation = simulate("release", Reviews.from_frame(frame))
    found = explore("release", simulation, {})
    assert found.controls[1].values == ["rating", "miscalibration"]
    assert "criteria" not in found.about
    with pytest.raises(BadInput, match="weight"):
        explore("release", simulation, {"weight": "subjectivity"})
    with pytest.raises(BadInput, match="reviewer"):
        public_facts("release", Reviews.from_frame(frame.drop("reviewer")))


def test_a_conference_in_which_all_scores_are_equal_has_no_scale() -> None:
    reviews = Reviews(paper=[1, 1, 2, 2], reviewer=["a", "b", "a", "b"], score=[3, 3, 3, 3])
    scale = release_module.public_facts(reviews)["scale"]
    assert "scale" not in explore("release", {**simulated("release"), "scale": scale}, {}).steps[0]


def test_tables_of_another_kind_are_refused() -> None:
    for module in ("rankings", "truth"):
        with pytest.raises(BadInput, match="table"):
            public_facts(module, TABLES["release"])


# ---- what is proposed can be run -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explored")
    CONFERENCE.write(folder)
    PAST.reviews.write(folder / "past.csv")
    return folder


ADDED: dict[str, dict[str, Any]] = {
    "calibration.decide": {"history": ["past"]},
    "truth.randomize": {"classes": CONFERENCE.labels.frame["label"].unique().sort().to_list()},
}
"""What a person adds to a proposal, since it depends on their data."""


def test_every_module_proposes_actions_of_its_own() -> None:
    proposed = {module: [step["action"] for step in explore(module, simulated(module), {}).steps] for module in MODULES}
    assert proposed == {
        "release": ["release.publish"],
        "timing": ["timing.post", "timing.audit"],
        "calibration": ["calibration.decide"],
        "rankings": ["rankings.test"],
        "truth": ["truth.randomize"],
    }


@pytest.mark.parametrize("module", MODULES)
def test_every_setting_is_taken_by_the_forms_and_by_a_study(module: str, files: Path) -> None:
    """Nothing that is proposed is unknown, misspelled or out of bounds, and a form shows it as it was chosen."""
    wanted: list[dict[str, Any]] = []
    for choices, exploration in zip(settings(module), explored(module), strict=True):
        for step in exploration.steps:
            kind = find_action(step["action"])
            proposed = {name: value for name, value in step.items() if name != "action"}
            given = {**proposed, **ADDED.get(step["action"], {})}
            texts = {parameter.name: form_text(parameter, given.get(parameter.name)) for parameter in offered(kind)}
            by_form = kind.check(read_settings(kind, texts), strict=True)
            by_study = kind.check(given, strict=True)
            assert all(getattr(by_form, name) == getattr(by_study, name) for name in proposed)
            assert all(texts[name] == value for name, value in choices.items() if name in proposed)
            full = {"action": step["action"], "data": "mine", **given, **({"account": "main"} if kind.spends else {})}
            if full not in wanted:
                wanted.append(full)
    kind_of_data = find_action(wanted[0]["action"]).kinds[0]
    lines = ["[study]", 'title = "Explored"', "[accounts.main]", "epsilon = 10000"]
    lines += ["[data.mine]", f'path = "{kind_of_data}.csv"', f'kind = "{kind_of_data}"']
    if module == "calibration":
        lines += ["[data.past]", 'path = "past.csv"', 'kind = "reviews"']
    steps = [[f"{name} = {json.dumps(value)}" for name, value in step.items()] for step in wanted]
    blocks = ["\n".join(["[[steps]]", f'name = "step-{number}"', *step]) for number, step in enumerate(steps)]
    study = files / f"{module}.toml"
    study.write_text("\n".join([*lines, *blocks]))
    assert len(Study.read(study).steps) == len(wanted)  # every setting is known and within its bounds
    few = blocks[: 1 if module == "calibration" else 4]  # against the data themselves, which takes time
    study.write_text("\n".join([*lines, *few]))
    assert len(check_study(Study.read(study)).planned) == len(few)
