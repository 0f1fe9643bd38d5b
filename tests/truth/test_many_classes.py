"""Answers that name several classes: from the response to labels, on every engine, and what is refused."""

from __future__ import annotations

import json
import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from peerveil import BadInput, Randomness, Response
from peerveil.core.randomness import SubsetResponse
from peerveil.data import Labels
from peerveil.truth import (
    NotRandomized,
    PrivateDawidSkene,
    PrivateMajority,
    compare_truth,
    randomize_answers,
    simulate_crowd,
)
from peerveil.truth.answers import EncodedAnswers
from peerveil.truth.channels import Channel
from peerveil.truth.source import fit_source
from peerveil.truth.wire import Client, collect, invitation, read_answers, write_answers

CROWD = simulate_crowd(tasks=60, workers=15, answers=8, classes=10, epsilon=1, seed=3)


def test_the_channel_is_that_of_the_response() -> None:
    for k, size, epsilon in ((5, 2, 1), (10, 4, "1/2"), (7, 1, 2)):
        response = SubsetResponse(epsilon, k, size=size) if size > 1 else Response(epsilon, k)
        channel = Channel.of(float(response.exact_epsilon), k, size)
        np.testing.assert_allclose([channel.keep, channel.other], [response.keep, response.other], rtol=1e-6)


def test_the_likelihood_of_a_set_is_that_of_the_proof() -> None:
    """P(S | truth, ability), summed over answers, against p(a)/C(k-1, w-1) and (1 - p(a))/C(k-1, w)."""
    k, w, ability = 6, 3, 0.7
    response, channel = SubsetResponse(1, k, size=w), Channel.of(1.0, k, w)
    p = channel.other + channel.contrast * ability
    for report in combinations(range(k), w):
        answers = [ability if answer == 2 else (1 - ability) / (k - 1) for answer in range(k)]
        exact = math.fsum(share * float(response.probability(report, a)) for a, share in enumerate(answers))
        inside = p / math.comb(k - 1, w - 1)
        assert exact == pytest.approx(inside if 2 in report else inside / p * (1 - p) * channel.wrong_share, rel=1e-6)


def posterior_by_hand(crowd: Labels, ability: float, k: int, size: int) -> Any:
    """Bayes' theorem for workers of one known ability, by counting supports."""
    channel = Channel.of(1.0, k, size)
    p = channel.other + channel.contrast * ability
    score = np.zeros((crowd.frame["task"].n_unique(), k))
    for task, report in crowd.frame.select("task", "label").iter_rows():
        score[task, report] += math.log(p / ((1 - p) * channel.wrong_share))
    weight = np.exp(score - score.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def test_majority_counts_supports_with_the_right_weight() -> None:
    majority = PrivateMajority(epsilon=1, classes=10)
    result = majority.fit(CROWD.randomized)
    ability = float(result.abilities[0])
    np.testing.assert_allclose(result.probabilities, posterior_by_hand(CROWD.randomized, ability, 10, 3), atol=1e-9)


@pytest.mark.parametrize("model", ["one-coin", pytest.param("two-coin", marks=pytest.mark.slow)])
def test_engines_give_equal_results(model: str, tmp_path: Path) -> None:
    crowd = simulate_crowd(tasks=40, workers=10, answers=6, classes=5, epsilon=1, seed=3)
    path = crowd.randomized.write(tmp_path / "reports.parquet")
    settings: dict[str, Any] = {"epsilon": 1, "classes": 5, "model": model, "tolerance": 1e-4}
    memory = PrivateDawidSkene(**settings).fit(crowd.randomized)
    tables = PrivateDawidSkene(**settings).fit(path, engine="duckdb")
    np.testing.assert_allclose(memory.probabilities, tables.probabilities, atol=1e-10)
    np.testing.assert_allclose(memory.abilities, tables.abilities, atol=1e-10)
    np.testing.assert_allclose(memory.standard_errors, tables.standard_errors, atol=1e-10)
    assert memory.loads.tolist() == tables.loads.tolist()
    assert int(memory.loads.sum()) == len(crowd.randomized) == 240


def test_lists_of_one_label_are_labels() -> None:
    crowd = simulate_crowd(tasks=50, workers=10, answers=6, classes=4, epsilon=2, seed=1)
    wrapped = Labels.from_frame(crowd.randomized.frame.with_columns(label=pl.concat_list("label")))
    for model in ("one-coin", "two-coin", "auto"):
        plain = PrivateDawidSkene(epsilon=2, classes=4, model=model).fit(crowd.randomized)
        lists = PrivateDawidSkene(epsilon=2, classes=4, model=model).fit(wrapped)
        np.testing.assert_allclose(plain.probabilities, lists.probabilities, atol=1e-9)


def test_a_table_survives_encoding_and_updates_continue() -> None:
    encoded = EncodedAnswers.of(CROWD.randomized, 10)
    assert len(encoded) == 480
    assert encoded.frame().sort("task", "worker").equals(CROWD.randomized.frame.sort("task", "worker"))
    halves = [Labels.from_frame(CROWD.randomized.frame.filter(pl.col("task") % 2 == rest)) for rest in (0, 1)]
    estimator = PrivateDawidSkene(epsilon=1, classes=10, model="one-coin")
    estimator.fit(halves[0])
    both = estimator.update(halves[1])
    whole = PrivateDawidSkene(epsilon=1, classes=10, model="one-coin").fit(CROWD.randomized)
    assert (both.labels == whole.labels).mean() > 0.9


def test_subsets_beat_one_class_at_the_same_epsilon() -> None:
    """The seeds of the slow measurement in docs; here the majority vote, five standard errors."""
    gains = []
    for seed in range(8):
        kinds = [
            simulate_crowd(tasks=300, workers=40, answers=15, classes=10, epsilon=1, seed=seed, response=response)
            for response in ("auto", "k-ary")
        ]
        accuracy = [PrivateMajority(epsilon=1, classes=10).fit(c.randomized).accuracy(c.truth)[0] for c in kinds]
        gains.append(accuracy[0] - accuracy[1])
    assert np.mean(gains) > 5 * np.std(gains, ddof=1) / math.sqrt(len(gains)) > 0


def test_from_a_table_of_answers_to_labels() -> None:
    names = [f"c{i}" for i in range(10)]
    sent, collected = randomize_answers(
        CROWD.named(names), epsilon=1, classes=names, randomness=Randomness.simulation(1)
    )
    assert sent.response.size == 3
    assert "of 3 of the 10 classes" in sent.summary()
    assert sent.fit().labels.size == collected.fit().public.labels.size == 60
    assert sent.to_dict()["classes_of_an_answer"] == 3
    assert sent.plot() is not None
    single, _ = randomize_answers(CROWD.answers, epsilon=1, classes=10, response="k-ary")
    assert single.response.size == 1
    hidden, _ = randomize_answers(CROWD.answers, epsilon=1, classes=10, hide_tasks=True, tasks=list(range(60)))
    assert hidden.response.size == 1
    assert compare_truth(CROWD.answers, epsilons=[1], draws=2, classes=10, model="confusion", progress=False).rows


def test_over_the_wire(tmp_path: Path) -> None:
    terms = invitation(epsilon="1/2", classes=10)
    lines = [Client(terms, worker=w).randomize(t, (t + w) % 10) for w in range(4) for t in range(5)]
    assert {len(line) for line in lines} == {len(lines[0])}
    collected = collect(terms, lines)
    assert isinstance(collected.response, SubsetResponse)
    path = write_answers(collected, tmp_path / "reports.jsonl")
    again = read_answers(path)
    assert again.answers == collected.answers
    assert again.response == collected.response
    assert fit_source(path).public.labels.size == 5
    assert fit_source(path, model="majority").public.labels.size == 5


def test_a_file_without_the_kind_of_the_response_still_reads() -> None:
    terms = json.loads(invitation(epsilon=1, classes=["no", "yes"]))
    del terms["response"]["kind"]
    line = Client(terms, worker=1).randomize("t", "yes")
    assert collect(json.dumps(terms), [line]).response == Response(1, ["no", "yes"])


@pytest.mark.parametrize("label", [3, [3, 4], [3, 3, 4], [3, 4, 17], [3, 4, 5, 6], ["3", "4", "5"], [], None])
def test_a_line_with_another_set_is_refused(label: object) -> None:
    terms = invitation(epsilon=1, classes=10)
    line = json.loads(Client(terms, worker=1).randomize("t", 3)) | {"label": label}
    with pytest.raises(BadInput, match="line 1, label"):
        collect(terms, [json.dumps(line)])


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    frame = CROWD.randomized.frame
    with pytest.raises(BadInput, match="response='k-ary'"):
        PrivateDawidSkene(epsilon=1, classes=10, model="confusion").fit(CROWD.randomized)
    with pytest.raises(BadInput, match="fewer labels in a list"):
        PrivateDawidSkene(epsilon=1, classes=3).fit({"task": [1, 2], "worker": [1, 1], "label": [[0, 1, 2]] * 2})
    mixed = {"task": [1, 2], "worker": [1, 2], "label": [[0, 1], [0, 1, 2]]}
    with pytest.raises(BadInput, match="equally many labels in every list"):
        PrivateDawidSkene(epsilon=1, classes=5).fit(mixed)
    with pytest.raises(BadInput, match="equally many labels in all lists of a worker"):
        PrivateDawidSkene(epsilon=1, classes=5).fit({**mixed, "worker": [1, 1]})
    with pytest.raises(BadInput, match="epsilon"):
        PrivateDawidSkene(epsilon=None, classes=10).fit(CROWD.randomized)
    with pytest.raises(BadInput, match="one of the 9 classes"):
        PrivateDawidSkene(epsilon=1, classes=9).fit(frame)
    with pytest.raises(BadInput, match=r"jsonl or \.parquet"):
        CROWD.randomized.write(tmp_path / "reports.csv")
    with pytest.raises(BadInput, match="response"):
        randomize_answers(CROWD.answers, epsilon=1, classes=10, response="subset")


def test_raw_sets_are_doubted_and_randomized_ones_are_not() -> None:
    settings: dict[str, Any] = {"epsilon": 1, "classes": 10, "model": "one-coin"}
    assert PrivateDawidSkene(**settings).fit(CROWD.randomized).doubt is None
    raw = simulate_crowd(tasks=60, workers=15, answers=8, classes=10, epsilon=30, seed=3, ability=(30, 1)).answers
    sets = [[code, (code + 1) % 10, (code + 2) % 10] for code in raw.frame["label"].to_list()]
    with pytest.warns(NotRandomized, match="do not look randomized at epsilon 1"):
        PrivateDawidSkene(**settings).fit(Labels.from_frame(raw.frame.with_columns(label=pl.Series(sets))))
