"""Gold tasks: an interval that holds the accuracy, confidences that are what they say, and answers that never enter inference."""

from __future__ import annotations

import html
import json
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from benchmarks.truth_gold import LEAST_TASKS, calibration_error, chosen_priors, measure
from scipy.stats import binomtest
from tests.cli.runner import run
from tests.truth.test_confidence import misled

from peerveil import BadInput
from peerveil.core.randomness import Randomness
from peerveil.data import Labels
from peerveil.papers.reproduce.truth import SETS, read_set
from peerveil.study import run_study
from peerveil.truth import PrivateDawidSkene, PrivateMajority, choose_gold, randomize_answers, simulate_crowd
from peerveil.truth.gold import _likeness, read_gold, wilson
from peerveil.truth.gold_fit import PRIOR, spread_over_classes

if TYPE_CHECKING:
    from pathlib import Path

STUDY = """
[study]
title = "Birds"
[data.reports]
path = "reports.csv"
kind = "labels"
[data.expert]
path = "expert.csv"
kind = "labels"
[[steps]]
action = "truth.infer"
data = "reports"
randomized = true
epsilon = 4
classes = [0, 1]
gold = "expert"
"""


def sent(epsilon: float = 4) -> tuple[Labels, dict[int, int]]:
    """Reports of a crowd that shares errors, and the correct answers."""
    answers, truth = misled()
    public = randomize_answers(answers, epsilon=epsilon, classes=2, randomness=Randomness.simulation(1)).public
    return public.answers, truth


def chosen(truth: dict[int, int], number: int = 30, seed: int = 1) -> dict[Any, Any]:
    return {task: truth[task] for task in choose_gold(list(truth), number=number, seed=seed)}


def test_confidences_come_down_to_the_accuracy_where_people_share_errors() -> None:
    reports, truth = sent()
    gold = chosen(truth)
    plain = PrivateDawidSkene(epsilon=4, model="one-coin").fit(reports)
    result = PrivateDawidSkene(epsilon=4, model="one-coin", gold=gold).fit(reports)
    right = np.array([label == truth[task] for task, label in result.frame().select("task", "label").iter_rows()])
    others = np.array([task not in gold for task in result.tasks.to_list()])
    check = result.gold
    assert check is not None
    assert check.interval[0] <= right.mean() <= check.interval[1]
    assert plain.confidence[others].mean() - right[others].mean() > 0.1
    error = 5 * math.sqrt(right.mean() * (1 - right.mean()) / 30)  # of the gold tasks
    assert abs(result.confidence[others].mean() - right[others].mean()) < error
    before, after = (calibration_error(r.confidence[others], right[others]) for r in (plain, result))
    assert after < before - 0.05
    assert check.slope < 0.7
    assert "95% interval" in str(result)
    assert "if people err independently" in str(plain)
    assert result.to_dict()["gold"]["correct"] == check.correct
    assert json.loads(check.to_json()) == check.to_dict()


def test_gold_answers_never_enter_inference() -> None:
    reports, truth = sent()
    gold = chosen(truth)
    wrong = {task: 1 - answer for task, answer in gold.items()}
    fits = [PrivateDawidSkene(epsilon=4, gold=answers).fit(reports) for answers in (None, gold, wrong)]
    for fit in fits[1:]:
        assert (fit.labels == fits[0].labels).all()
        assert fit.objective == fits[0].objective
        assert np.allclose(fit.probabilities.sum(axis=1), 1)
        assert (fit.probabilities[np.arange(300), fit.labels] == fit.confidence).all()
    assert fits[1].gold is not None
    assert fits[2].gold is not None
    assert fits[1].gold.correct + fits[2].gold.correct == 30
    assert fits[2].confidence.max() < fits[1].confidence.max()


def test_gold_is_read_from_whatever_holds_it() -> None:
    reports, truth = sent()
    gold = chosen(truth)
    expert = Labels(task=list(gold), worker=["expert"] * 30, label=list(gold.values()))
    table = Labels(task=[*gold, 999], worker=[1] * 31, label=[0] * 31, truth=[*gold.values(), None])
    frame = pl.DataFrame({"task": list(gold), "truth": list(gold.values())})
    text = {str(task): str(answer) for task, answer in gold.items()}
    twice = pl.concat([expert.frame, expert.frame.with_columns(worker=pl.lit("another"))])
    found = [
        PrivateMajority(epsilon=4, gold=source).fit(reports).gold
        for source in (gold, expert, table, frame, frame.to_pandas(), text, twice)
    ]
    assert {check and (check.tasks, check.correct) for check in found} == {(30, found[0] and found[0].correct)}
    assert read_gold(table) == gold


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda gold: dict(list(gold.items())[:9]), r"gold: got 9 gold tasks, need at least 10; 30 or more"),
        (lambda gold: gold | {"nobody": 0}, r"gold: got 'nobody', need tasks that have answers, such as 0"),
        (lambda gold: gold | {next(iter(gold)): 7}, r"gold\[\d+\]: got 7, need one of the classes \[0, 1\]"),
        (lambda gold: gold | {next(iter(gold)): math.nan}, r"gold\[\d+\]: got nan"),
        (lambda gold: pl.DataFrame({"task": [1, 1], "label": [0, 1]}), r"0 and 1 for task 1, need one correct answer"),
        (lambda gold: pl.DataFrame({"question": [1], "label": [0]}), r"need columns task and truth, or task and label"),
        (lambda gold: gold | {str(task): 1 - answer for task, answer in gold.items()}, r"two answers for task"),
        (lambda gold: "gold.csv", r"need correct answers by task"),
    ],
)
def test_gold_that_cannot_be_used_is_refused(change: Any, wanted: str) -> None:
    reports, truth = sent()
    with pytest.raises(BadInput, match=wanted):
        PrivateMajority(epsilon=4, gold=change(chosen(truth))).fit(reports)


def test_an_answer_that_entered_inference_cannot_check_it() -> None:
    reports, truth = sent()
    gold = chosen(truth)
    task = next(iter(gold))
    with pytest.raises(BadInput, match=r"other tasks than in known="):
        PrivateDawidSkene(epsilon=4, gold=gold, known={task: gold[task]}).fit(reports)
    apart = {t: truth[t] for t in truth if t not in gold}
    assert PrivateDawidSkene(epsilon=4, gold=gold, known=apart).fit(reports).gold is not None


@pytest.mark.parametrize("case", ["all right", "all wrong", "one class"])
def test_extreme_gold_gives_finite_confidences(case: str) -> None:
    reports, truth = sent()
    labels = dict(PrivateMajority(epsilon=4).fit(reports).frame().select("task", "label").iter_rows())
    hits = [task for task in truth if (labels[task] == truth[task]) == (case != "all wrong")]
    tasks = [task for task in hits if case != "one class" or truth[task] == 1][:12]
    result = PrivateMajority(epsilon=4, gold={task: truth[task] for task in tasks}).fit(reports)
    check = result.gold
    assert check is not None
    assert np.isfinite(result.probabilities).all()
    assert (result.confidence >= 0.5).all()
    assert (result.confidence < 1).all()
    assert result.ability_intervals is not None
    assert np.isfinite(result.ability_intervals).all()
    assert (check.interval[1] == 1.0) == (case != "all wrong")
    assert any("12 gold tasks" in line for line in check.cautions)
    assert any("same class" in line for line in check.cautions) == (case == "one class")


def test_engines_calibrate_alike() -> None:
    crowd = simulate_crowd(tasks=150, workers=20, answers=6, classes=3, epsilon=2, seed=4)
    estimator = PrivateDawidSkene(epsilon=2, model="one-coin", gold={task: crowd.truth[task] for task in range(40)})
    memory, duck = (estimator.fit(crowd.randomized, engine=engine) for engine in ("memory", "duckdb"))
    assert np.abs(memory.probabilities - duck.probabilities).max() < 1e-6
    assert np.abs(memory.abilities - duck.abilities).max() < 1e-6
    assert memory.gold is not None
    assert duck.gold is not None
    assert memory.gold.to_dict() == pytest.approx(duck.gold.to_dict())


def test_confidences_that_were_right_stay_nearly_right() -> None:
    errors = []
    for seed in range(4):
        crowd = simulate_crowd(tasks=600, workers=40, answers=8, classes=3, epsilon=4, seed=seed)
        gold = {task: crowd.truth[task] for task in choose_gold(range(600), number=30, seed=seed)}
        result = PrivateDawidSkene(epsilon=4, model="one-coin", gold=gold).fit(crowd.randomized)
        right = np.array([label == crowd.truth[t] for t, label in result.frame().select("task", "label").iter_rows()])
        errors.append(calibration_error(result.confidence, right))
    assert np.mean(errors) < 0.06


def test_probabilities_keep_the_label_likeliest() -> None:
    rng = np.random.default_rng(1)
    for k in (2, 3, 10):
        model = rng.dirichlet(np.full(k, 0.3), 400)
        label = model.argmax(axis=1)
        confidence = rng.uniform(1 / k, 1, 400)
        p = spread_over_classes(model, label, confidence)
        assert np.allclose(p.sum(axis=1), 1)
        assert np.allclose(p[np.arange(400), label], confidence)
        assert (p.max(axis=1) <= confidence + 1e-9).all()
        assert (p >= 0).all()


@pytest.mark.parametrize(("correct", "tasks"), [(0, 10), (24, 30), (30, 30), (71, 100)])
def test_the_interval_is_wilsons(correct: int, tasks: int) -> None:
    expected = binomtest(correct, tasks).proportion_ci(0.95, "wilson")
    assert wilson(correct, tasks) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_every_task_is_equally_likely_to_be_gold() -> None:
    counts = np.zeros(50)
    for seed in range(1000):
        counts[choose_gold(np.repeat(np.arange(50), 2).tolist(), number=10, seed=seed)] += 1
    assert np.abs(counts / 1000 - 0.2).max() < 5 * math.sqrt(0.2 * 0.8 / 1000)
    assert len({tuple(choose_gold(range(1000))) for _ in range(3)}) == 3  # nobody can compute which tasks are checked
    for number in (9, 51, 10.5):
        with pytest.raises(BadInput, match="number"):
            choose_gold(range(50), number=number)  # type: ignore[arg-type]


def test_commands_choose_gold_tasks_and_use_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    reports, truth = sent()
    reports.write(tmp_path / "reports.csv")
    code, text, _ = run(capsys, "truth", "choose-gold", "reports.csv")
    assert code == 0
    assert "63% to 90%" in text  # 24 of 30
    sheet = pl.read_csv("out/truth-choose-gold/private/gold.csv")
    assert sheet.columns == ["task", "worker", "label"]
    (seed,) = re.findall(r"with seed (\d+)", " ".join(text.split()))
    assert sheet["task"].to_list() == choose_gold(reports, seed=int(seed))
    stated = "truth", "infer", "reports.csv", "--randomized", "--epsilon", "4", "--gold"
    code, _, error = run(capsys, *stated, "out/truth-choose-gold/private/gold.csv")
    assert code != 0  # not filled in
    assert "need a label" in error
    assert not (tmp_path / "out" / "truth-infer").exists()
    expert = sheet.with_columns(label=pl.col("task").replace_strict(truth))
    expert.write_csv("expert.csv")
    code, text, _ = run(capsys, *stated, "expert.csv")
    assert code == 0
    assert re.search(r"\d+ of 30 gold tasks are labeled correctly: \d+% \(95% interval", text)
    assert "of the busiest person add up to epsilon" in text
    private = pl.read_csv("out/truth-infer/private/gold-check.csv")
    assert private.columns == ["task", "label", "confidence", "truth"]
    assert dict(private.select("task", "truth").iter_rows()) == dict(expert.select("task", "label").iter_rows())
    code, _, error = run(capsys, *stated, "reports.csv", "--out", "other")
    assert code != 0
    assert "need one correct answer for each gold task" in error
    code, _, error = run(capsys, "truth", "choose-gold", "reports.csv", "--number", "301", "--out", "third")
    assert code != 0
    assert "at most the number of tasks: 300" in error


def test_a_study_reports_accuracy_with_gold_tasks(tmp_path: Path) -> None:
    reports, truth = sent()
    reports.write(tmp_path / "reports.csv")
    gold = chosen(truth)
    Labels(task=list(gold), worker=["expert"] * 30, label=list(gold.values())).write(tmp_path / "expert.csv")
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    done = run_study(tmp_path / "study.toml", tmp_path / "out", progress=False)
    page = html.unescape((done.folder / "public" / "report.html").read_text(encoding="utf-8"))
    check = PrivateDawidSkene(epsilon=4, gold=gold).fit(reports).gold
    assert check is not None
    assert check.summary() in page
    assert check.about_confidence in page
    assert page.count("<svg") >= 2  # abilities, and confidences against shares
    results = json.loads((done.folder / "public" / "results.json").read_text(encoding="utf-8"))
    assert f'"correct": {check.correct}' in json.dumps(results)
    assert not list((done.folder / "public").rglob("gold-check.csv"))


def test_gold_tasks_of_other_classes_than_the_rest_are_noticed() -> None:
    reports, truth = sent()
    labels = dict(PrivateMajority(epsilon=4).fit(reports).frame().select("task", "label").iter_rows())
    picked = [task for task in truth if labels[task] == 1][:30]
    for tasks, noticed in ((picked, True), (choose_gold(list(truth), seed=3), False)):
        check = PrivateMajority(epsilon=4, gold={task: truth[task] for task in tasks}).fit(reports).gold
        assert check is not None
        assert any("other classes than those of all tasks" in line for line in check.cautions) == noticed
    rng, shares = np.random.default_rng(1), np.array([700, 250, 50])
    drawn = rng.multivariate_hypergeometric(shares, 30, 2000)
    chance = np.mean([_likeness(row, shares) < 1e-3 for row in drawn])
    assert chance < 0.01


def test_abilities_have_an_interval_with_gold_tasks_alone() -> None:
    """It holds the share of correct answers even of people who make the errors of the labels, or never do."""
    answers, truth = misled()
    reports = randomize_answers(answers, epsilon=4, classes=2, randomness=Randomness.simulation(1)).operator.answers
    right = pl.col("label") == pl.col("task").replace_strict(truth)
    share = dict(answers.frame.group_by("worker").agg(right.mean()).iter_rows())
    fits = [PrivateDawidSkene(epsilon=4, gold=gold) for gold in (None, chosen(truth), chosen(truth, 200))]
    before, after, much = (fit.fit(reports) for fit in fits)
    assert before.ability_intervals is None
    assert after.ability_intervals is not None
    assert much.ability_intervals is not None
    widths = [np.median(ends @ [-1, 1]) for ends in (after.ability_intervals, much.ability_intervals)]
    assert widths[1] < 0.75 * widths[0]  # own gold answers count
    assert (before.standard_errors == after.standard_errors).all()
    assert "Abilities have no interval" in str(before)
    assert "Intervals of abilities" in str(after)
    drawn = [[str(artist.get_label()) for artist in fit.plot().collections] for fit in (before, after)]
    assert ["95% interval" in texts for texts in drawn] == [False, True]
    frame = (
        fits[0]
        .workers_.frame()
        .with_columns(
            lower=pl.col("ability") - 2 * pl.col("standard_error"),
            upper=pl.col("ability") + 2 * pl.col("standard_error"),
        )
    )
    held = [
        np.mean([row["lower"] <= share[row["worker"]] <= row["upper"] for row in rows.iter_rows(named=True)])
        for rows in (frame, *(fit.workers_.frame() for fit in fits[1:]))
    ]
    assert held[0] < 0.9
    assert min(held[1:]) > 0.96


@pytest.mark.slow
def test_the_priors_are_those_that_the_sets_choose() -> None:
    names = [name for name in SETS if len(read_set(name).truths()) >= LEAST_TASKS]
    priors = chosen_priors(names, 8, 30, 4.0)
    assert priors[""] == PRIOR


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["weather_cf_amt", "music_genre", "zencrowd_us", "sentiment_polarity_amt", "adult_content2"]
)
def test_thirty_gold_tasks_calibrate_real_sets(name: str) -> None:
    found = measure(name, seeds=10)
    assert found.after <= 0.09
    assert found.after < found.before
    assert found.interval >= 0.95 - 5 * math.sqrt(0.95 * 0.05 / 100)
    assert found.abilities_after >= 0.93
    assert found.abilities_after > found.abilities_before
