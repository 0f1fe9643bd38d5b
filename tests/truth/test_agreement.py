"""Agreement from randomized answers: classical without randomization, unbiased with it, equal on every engine."""

from __future__ import annotations

import itertools
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from peerveil import BadInput, Randomness
from peerveil.data.engines import connect
from peerveil.truth import NotRandomized, agreement, randomize, randomize_answers, simulate_crowd
from peerveil.truth.coefficients import _coefficients, _gradients, _statistics, agreement_by_person, agreement_of
from peerveil.truth.models import Channel
from peerveil.truth.pairs import Gradient, PairCounts, count_in_memory

pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Ibis 12 on DuckDB 2
Rows = list[tuple[int, str, int]]

# Krippendorff (2011), Computing Krippendorff's alpha-reliability: examples A and C (a dot: no answer)
EXAMPLE_A = "0100000010|1110010000"
EXAMPLE_C = "123321412...|1233224125.3|.33323422 51.|123324412 51.".replace(" ", "")
# Fleiss (1971)'s coefficient on the table that textbooks use: 10 subjects, 14 raters, 5 classes
FLEISS = [
    [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
]  # fmt: skip


def table(rows: Rows) -> dict[str, list[Any]]:
    return dict(zip(("task", "worker", "label"), map(list, zip(*rows, strict=True)), strict=True))


def observers(text: str) -> dict[str, list[Any]]:
    cells = [(t, f"o{o}", c) for o, line in enumerate(text.split("|")) for t, c in enumerate(line)]
    return table([(t, o, int(c)) for t, o, c in cells if c != "."])


@pytest.mark.parametrize(("text", "alpha"), [(EXAMPLE_A, 0.095), (EXAMPLE_C, 0.743)])
def test_alpha_of_published_examples(text: str, alpha: float) -> None:
    assert agreement(observers(text), epsilon=None).alpha == pytest.approx(alpha, abs=5e-4)


def test_kappa_of_a_published_example() -> None:
    rows = [
        (t, f"r{j}", c)
        for t, votes in enumerate(FLEISS)
        for j, c in enumerate(c for c, n in enumerate(votes) for _ in range(n))
    ]
    assert agreement(table(rows), epsilon=None).kappa == pytest.approx(0.210, abs=5e-4)


# ---- an independent transcription, in loops --------------------------------------------------------------------------


def oracle(rows: Rows, k: int, epsilon: float | None) -> dict[str, Any]:
    """Both coefficients from all pairs of different people, each pair corrected as for k-ary response."""
    keep = 1.0 if epsilon is None else math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    a = (k * keep - 1) / (k - 1)

    def same(x: int, y: int) -> float:
        return ((x == y) - (1 - a * a) / k) / (a * a)

    sheets: dict[int, dict[str, list[int]]] = {}
    for task, worker, label in rows:
        sheets.setdefault(task, {}).setdefault(worker, []).append(label)
    shared = [people for people in sheets.values() if len(people) >= 2]

    def mean_same(x: list[int], y: list[int]) -> float:
        return float(np.mean([same(i, j) for i in x for j in y]))

    def with_itself(x: list[int]) -> float:  # the same report agrees with itself, whatever was sent
        return float(np.mean([1.0 if i == j else same(x[i], x[j]) for i in range(len(x)) for j in range(len(x))]))

    pairs = [sum(mean_same(x, y) for x, y in itertools.permutations(p.values(), 2)) for p in shared]
    size = [len(p) for p in shared]
    every = [(t, x) for t, p in enumerate(shared) for x in p.values()]
    observed = sum(s / (n - 1) for s, n in zip(pairs, size, strict=True)) / sum(size)
    chance = np.mean([mean_same(x[1], y[1]) for x, y in itertools.permutations(every, 2)])
    kappa_observed = np.mean([s / (n * (n - 1)) for s, n in zip(pairs, size, strict=True)])
    kappa_chance = (
        sum(
            (with_itself(x) if i == j else mean_same(x, y)) / (size[s] * size[t])
            for i, (s, x) in enumerate(every)
            for j, (t, y) in enumerate(every)
        )
        / len(shared) ** 2
    )
    person = {
        worker: [
            float(np.mean([mean_same(p[worker], y) for other, y in p.items() if other != worker]))
            for p in shared
            if worker in p
        ]
        for worker in {w for p in shared for w in p}
    }
    return {
        "alpha": (observed - chance) / (1 - chance),
        "kappa": (kappa_observed - kappa_chance) / (1 - kappa_chance),
        "person": {worker: float(np.mean(values)) for worker, values in person.items()},
    }


def small_table(seed: int, k: int) -> Rows:
    """Gaps, tasks of one person, and people who answered a task twice or three times."""
    rng = np.random.default_rng(seed)
    return [
        (t, f"w{w}", int(rng.choice([t % k, int(rng.integers(k))], p=[0.7, 0.3])))
        for t in range(14)
        for w in range(4)
        for _ in range(rng.choice([0, 1, 2, 3], p=[0.3, 0.5, 0.1, 0.1]))
    ]


@pytest.mark.parametrize(("k", "epsilon"), [(3, None), (2, 3.0), (4, 4.0)])
def test_every_engine_agrees_with_all_pairs_written_out(k: int, epsilon: float | None) -> None:
    rows = small_table(7 + k, k)
    wanted = oracle(rows, k, epsilon)
    for engine in ("memory", "duckdb"):
        public, people = agreement_by_person(table(rows), epsilon=epsilon, classes=k, engine=engine)
        assert public.alpha == pytest.approx(min(1.0, wanted["alpha"]), abs=1e-9)
        assert public.kappa == pytest.approx(min(1.0, wanted["kappa"]), abs=1e-9)
        assert dict(zip(people.annotators, people.agreement, strict=True)) == pytest.approx(wanted["person"], abs=1e-9)
        assert public.reports == len(rows)


def test_a_file_gives_equal_answers_in_memory_and_on_duckdb(tmp_path: Path) -> None:
    sent = simulate_crowd(tasks=200, workers=20, answers=6, classes=3, epsilon=2, seed=4).randomized.frame
    named = sent.select(
        "task", pl.format("w{}", "worker").alias("worker"), pl.format("class {}", "label").alias("label")
    )
    named.write_parquet(tmp_path / "reports.parquet")
    memory = agreement_by_person(named, epsilon=2)
    duck = agreement_by_person(str(tmp_path / "*.parquet"), epsilon=2, engine="duckdb")
    assert memory.public.classes == duck.public.classes == ("class 0", "class 1", "class 2")
    assert (memory.public.tasks, memory.public.most) == (duck.public.tasks, duck.public.most)
    for name in ("krippendorff", "fleiss", "observed"):
        assert vars(getattr(memory.public, name)) == pytest.approx(vars(getattr(duck.public, name)), abs=1e-9)
    assert memory.operator.frame().drop("worker").to_numpy() == pytest.approx(
        duck.operator.frame().drop("worker").to_numpy(), abs=1e-9
    )


# ---- with randomization ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "assumed", "is_unbiased"), [(2, 1.0, True), (2, 1.3, False)])
def test_sums_over_pairs_are_unbiased_exactly(k: int, assumed: float, is_unbiased: bool) -> None:
    """Over all reports that could be sent at epsilon 1; a wrong epsilon is noticed. One person answered task 0 twice."""
    answers: Rows = [(0, "a", 0), (0, "a", 1), (0, "b", 0), (1, "a", k - 1), (1, "b", 0)]
    sent, other = Channel.of(1.0, k), Channel.of(assumed, k)
    names = ("alpha_observed", "alpha_chance", "kappa_observed", "kappa_chance")
    mean = dict.fromkeys(names, 0.0)
    for reports in itertools.product(range(k), repeat=len(answers)):
        chance = math.prod(sent.matrix[x, y] for (_, _, x), y in zip(answers, reports, strict=True))
        rows = [(t, w, y) for (t, w, _), y in zip(answers, reports, strict=True)]
        found = _statistics(count_in_memory(table(rows), k), other)
        for name in names:
            mean[name] += chance * float(found[name])
    truth = _statistics(count_in_memory(table(answers), k), Channel.of(None, k))
    errors = [abs(mean[name] - float(truth[name])) for name in names]
    assert max(errors) < 1e-12 if is_unbiased else min(errors) > 0.01


def test_sums_over_pairs_are_unbiased_for_a_response_that_shows_several_classes() -> None:
    """Two of three classes, the answer among them with probability .8; the other pairs of classes are equally likely."""
    answers, k = [(0, 0), (0, 0), (1, 2), (1, 0), (1, 2)], 3  # task and class, of different people
    channel = Channel(0.8, (2 - 0.8) / 2, k)
    names = ("alpha_observed", "alpha_chance", "kappa_observed", "kappa_chance")

    def counts(shown: list[np.ndarray[Any, Any]]) -> PairCounts:
        by_task = [[u for (t, _), u in zip(answers, shown, strict=True) if t == task] for task in (0, 1)]
        votes = np.array([np.sum(us, axis=0) for us in by_task])
        pairs = (votes**2).sum(axis=1) - [sum(float(u @ u) for u in us) for us in by_task]
        n = np.array([2.0, 3.0])
        return PairCounts((0, 1, 2), np.ones(2), n, pairs, n, votes, pl.DataFrame(), np.ones(1, int))

    subsets = [np.array([float(c != out) for c in range(k)]) for out in range(k)]
    mean = dict.fromkeys(names, 0.0)
    for reports in itertools.product(subsets, repeat=len(answers)):
        chance = math.prod(0.4 if u[x] else 0.2 for (_, x), u in zip(answers, reports, strict=True))
        found = _statistics(counts(list(reports)), channel)
        for name in names:
            mean[name] += chance * float(found[name])
    truth = _statistics(counts([np.eye(k)[x] for _, x in answers]), Channel.of(None, k))
    assert {name: mean[name] - float(truth[name]) for name in names} == pytest.approx(
        dict.fromkeys(names, 0.0), abs=1e-12
    )


def test_uncorrected_an_alpha_of_56_reads_as_12() -> None:
    answers = simulate_crowd(tasks=4000, workers=60, answers=6, ability=(70, 10), epsilon=None, seed=1).answers
    raw = agreement(answers, epsilon=None).alpha
    sent = randomize_answers(answers, epsilon=1, classes=2, randomness=Randomness.simulation(2)).public
    result, _ = agreement_of(sent)
    assert raw == pytest.approx(0.56, abs=0.02)
    assert result.krippendorff.of_reports == pytest.approx(0.12, abs=0.01)
    assert result.alpha == pytest.approx(raw, abs=5 * result.krippendorff.standard_error)
    assert result.kappa == pytest.approx(raw, abs=5 * result.fleiss.standard_error)
    assert 0.05 < result.krippendorff.upper - result.krippendorff.lower < 0.12


def test_hidden_tasks_are_corrected_too() -> None:
    answers = simulate_crowd(tasks=600, workers=30, answers=20, ability=(70, 10), epsilon=None, seed=1).answers
    tasks = answers.frame["task"].unique().to_list()
    hidden: dict[str, Any] = {"hide_tasks": True, "tasks": tasks, "randomness": Randomness.simulation(1)}
    result, _ = agreement_of(randomize_answers(answers, epsilon=3, classes=2, **hidden).operator)
    assert result.alpha == pytest.approx(
        agreement(answers, epsilon=None).alpha, abs=5 * result.krippendorff.standard_error
    )
    assert result.krippendorff.standard_error < 0.05
    assert "no answer" not in result.classes
    assert -1 not in result.classes


def test_a_persons_agreement_with_the_others_is_corrected_and_names_stay_with_the_operator(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    truth = rng.integers(2, size=1500)
    abilities = {"CANARY-good": 0.95, "CANARY-fair": 0.8, "CANARY-random": 0.5, "CANARY-other": 0.8}
    rows = [
        (t, w, int(truth[t] if rng.random() < a else 1 - truth[t])) for t in range(1500) for w, a in abilities.items()
    ]
    raw = agreement_by_person(table(rows), epsilon=None).operator.frame()
    reports = pl.DataFrame(table(rows)).with_columns(
        label=randomize(pl.Series([row[2] for row in rows]), epsilon=1, classes=2, randomness=Randomness.simulation(3))
    )
    public, people = agreement_by_person(reports, epsilon=1)
    frame = people.frame()
    assert frame["worker"].to_list() == sorted(abilities)
    z = (frame["agreement"] - raw["agreement"]) / frame["standard_error"]
    assert float(z.abs().max()) < 5  # type: ignore[arg-type]
    assert frame.sort("agreement")["worker"][0] == "CANARY-random"
    shown = [str(public), public.to_json(), str(public.frame()), *(p.read_text() for p in public.save(tmp_path))]
    assert not any("CANARY" in text for text in shown)
    assert b"CANARY" not in pickle.dumps(public)
    assert b"CANARY" in pickle.dumps(people)


def test_raw_answers_passed_for_reports_are_noticed() -> None:
    crowd = simulate_crowd(tasks=200, workers=20, answers=6, ability=(20, 1), epsilon=None, seed=1)
    with pytest.warns(NotRandomized):
        result = agreement(crowd.answers, epsilon=1)
    assert result.mark == "not private"
    assert result.alpha <= 1
    assert result.alpha_interval[0] <= result.alpha_interval[1] <= 1
    assert "If these answers were randomized at epsilon 8" in agreement(crowd.answers, epsilon=8).guarantee.short


@pytest.mark.parametrize(
    ("rows", "settings", "message"),
    [
        ([(1, "a", 0), (2, "a", 1)], {}, "reports: got 0 tasks that at least two people answered"),
        ([(1, "a", 0), (1, "b", 1)], {}, "got 1 task that at least two people answered"),
        ([(1, "a", 0), (1, "a", 1), (2, "a", 0), (2, "a", 0)], {}, "got 0 tasks"),  # one person, twice
        (
            [(1, "a", 0), (1, "b", 0), (2, "a", 0), (2, "b", 0)],
            {"classes": 2},
            "reports: got answers of one class only",
        ),
        ([(1, "a", 0), (1, "b", 0), (2, "a", 0), (2, "b", 0)], {}, "classes: got answers that are all 0"),
        (
            [(t, w, int((t * t + ord(w)) % 3 == 0)) for t in range(30) for w in "abc"],
            {"epsilon": 0.1},
            "reports: got too few reports for this epsilon",
        ),
        ([(1, "a", 0), (1, "b", 5)], {"classes": 2}, "got 5"),
        ([(1, "a", 0), (1, "b", 1)], {"level": 95}, "level: got 95"),
        ([(1, "a", 0), (1, "b", 1)], {"epsilon": -1}, "epsilon"),
        ([(1, "a", 0), (1, "b", 1)], {"epsilon": float("nan")}, "epsilon"),
        ([(1, "a", 0), (1, "b", 1)], {"engine": "abacus"}, "engine"),
    ],
)
def test_what_is_not_defined_is_refused(rows: Rows, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        agreement(table(rows), **{"epsilon": None, **settings})
    if message.startswith("reports"):
        with pytest.raises(BadInput, match=message):
            agreement(table(rows), **{"epsilon": None, "engine": "duckdb", **settings})


def test_an_interval_that_hangs_on_one_task_is_unlimited() -> None:
    """Without the only task of the second class there would be no agreement beyond chance to speak of."""
    rows = [(t, w, int(t == 0 and w == "a")) for t in range(10) for w in "ab"]
    assert agreement(table(rows), epsilon=None).alpha_interval == (-1.0, 1.0)


@pytest.mark.parametrize(("k", "seed"), [(2, 1), (3, 2)])
def test_what_people_add_is_what_leaving_them_out_takes_away(k: int, seed: int) -> None:
    """Against tables without one person's reports on one task, and the slopes of each coefficient; on every engine alike."""
    rng = np.random.default_rng(seed)
    rows = [(t, f"w{w}", int(rng.integers(k))) for t in range(12) for w in rng.permutation(6)[: 2 + t % 4]]
    rows += [(0, rows[0][1], int(rng.integers(k)))]  # somebody answered twice
    channel = Channel.of(2.0, k)

    def gradients(counts: PairCounts) -> dict[str, Gradient]:
        return _gradients(counts, channel)

    counts = count_in_memory(table(rows), k, gradients)
    sums = counts.tasks @ counts.features
    for name, gradient in gradients(counts).items():
        slope = np.r_[gradient[:6], gradient.votes, gradient.shares]
        influence: dict[tuple[int, str], float] = {}
        for task, worker in {row[:2] for row in rows}:
            rest = count_in_memory(table([row for row in rows if row[:2] != (task, worker)]), k)
            influence[task, worker] = float(slope @ (sums - rest.tasks @ rest.features))
        people = [sum(value for pair, value in influence.items() if pair[1] == f"w{w}") for w in range(6)]
        squares = [float(np.var(values) * len(values)) for values in (people, list(influence.values()))]
        spread = counts.spreads[name]
        assert (spread.people, spread.answers) == (6, len(influence))
        assert [spread.by_person, spread.by_answer] == pytest.approx(squares, rel=1e-6)
        variance = spread.people / (spread.people - 1) * squares[0] - spread.answers / (spread.answers - 1) * squares[1]
        assert spread.variance == pytest.approx(variance, rel=1e-5, abs=1e-9)


def test_people_who_differ_widen_the_interval() -> None:
    """Half of the people always agree, half answer by chance: other people could agree far more or less."""
    rng = np.random.default_rng(3)
    people = [(t, f"w{w}", t % 2 if w < 5 else int(rng.integers(2))) for t in range(200) for w in range(10)]
    alike = [(t, f"w{w}", t % 2 if rng.random() < 0.75 else 1 - t % 2) for t in range(200) for w in range(10)]
    widths = [np.subtract(*agreement(table(rows), epsilon=None).alpha_interval[::-1]) for rows in (people, alike)]
    assert widths[0] > 5 * widths[1]


def test_two_people_cannot_show_how_much_people_differ() -> None:
    rows = [(t, f"w{w}", int(np.random.default_rng(t).integers(2))) for t in range(30) for w in range(2)]
    result = agreement(table(rows), epsilon=None)
    assert result.is_for_same_people
    assert not agreement(table(small_table(3, 3)), epsilon=None).is_for_same_people


# ---- coverage ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tasks", "people", "n", "k", "epsilon", "ability"),
    [
        (200, 40, 5, 2, 1.0, (4, 2)),
        (300, 30, 5, 5, 2.0, (4, 2)),
        (400, 10, 5, 2, None, (2, 1)),
        (60, 20, 5, 2, 2.0, (4, 2)),
    ],
)
def test_intervals_cover_for_the_same_people(
    tasks: int, people: int, n: int, k: int, epsilon: float | None, ability: tuple[float, float]
) -> None:
    """95% intervals, 1,500 crowds; the lower limit is 5 standard errors below .92."""
    rng, channel, runs = np.random.default_rng(11), Channel.of(epsilon, k), 1500
    hits = 0
    for _ in range(runs):
        a = rng.beta(*ability, people)
        truth = rng.integers(k, size=tasks)[:, None]
        who = np.argsort(rng.random((tasks, people)), axis=1)[:, :n]
        shape = (tasks, n)
        answers = np.where(rng.random(shape) < a[who], truth, (truth + rng.integers(1, k, shape)) % k)
        reports = np.where(rng.random(shape) < channel.keep, answers, (answers + rng.integers(1, k, shape)) % k)
        votes = np.zeros((tasks, k))
        np.add.at(votes, (np.arange(tasks)[:, None], reports), 1.0)
        each = np.full(tasks, float(n))
        pairs = (votes**2).sum(axis=1) - n
        counts = PairCounts(tuple(range(k)), np.ones(tasks), each, pairs, each, votes, pl.DataFrame(), np.ones(1, int))
        found = _coefficients(counts, channel, 0.95)["krippendorff"]
        # pairs of different people of this crowd: both right, or both wrong in the same way
        same, wrong = a.sum() ** 2 - (a**2).sum(), (1 - a).sum() ** 2 - ((1 - a) ** 2).sum()
        observed = (same + wrong / (k - 1)) / (people * (people - 1))
        hits += found.lower <= (observed - 1 / k) / (1 - 1 / k) <= found.upper
    assert 0.92 - 5 * math.sqrt(0.92 * 0.08 / runs) < hits / runs < 0.98


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # PySpark warns of the pandas it finds
@pytest.mark.usefixtures("needs_spark")
def test_spark_agrees(tmp_path: Path) -> None:
    rows = small_table(3, 3)
    pl.DataFrame(table(rows)).write_parquet(tmp_path / "reports.parquet")
    connection = connect("spark", master="local[2]")
    try:
        spark = agreement_by_person(
            tmp_path / "reports.parquet", epsilon=4, classes=3, engine="spark", connection=connection
        )
        memory = agreement_by_person(table(rows), epsilon=4, classes=3)
        for name in ("krippendorff", "fleiss", "observed"):
            assert vars(getattr(memory.public, name)) == pytest.approx(vars(getattr(spark.public, name)), abs=1e-9)
        assert memory.operator.agreement == pytest.approx(spark.operator.agreement, abs=1e-9)
    finally:
        connection._session.stop()
