"""Public objects name no worker: printed, pickled or saved; the operator's objects do."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from peerveil import Randomness, Result
from peerveil.data import Labels
from peerveil.truth import PrivateDawidSkene, PrivateMajority, compare_truth, randomize_answers, simulate_crowd
from peerveil.truth.wire import read_answers, write_answers

MARK = "CANARY"


def answers() -> Labels:
    frame = simulate_crowd(tasks=40, workers=10, answers=5, epsilon=None, seed=3).answers.frame
    return Labels.from_frame(frame.with_columns(worker=pl.format(f"{MARK}-{{}}", "worker")))


def shown(result: Result, folder: Path) -> bytes:
    """Everything that somebody gets who is given a result."""
    texts = [str(result), repr(result), result.summary(), result.to_json(), str(result.frame())]  # type: ignore[attr-defined]
    files = [path.read_bytes() for path in result.save(folder)]
    return b"".join([pickle.dumps(result), *(text.encode() for text in texts), *files])


def test_public_results_name_no_worker(tmp_path: Path) -> None:
    sent, collected = randomize_answers(answers(), epsilon=2, classes=2, randomness=Randomness.simulation(1))
    fitted, workers = collected.fit(model="one-coin")
    results = {
        "sent": sent,
        "fitted": fitted,
        "numbered": sent.fit(model="one-coin"),
        "majority": PrivateMajority(epsilon=2).fit(collected.answers),
        "duckdb": PrivateDawidSkene(epsilon=2, model="one-coin").fit(collected.answers, engine="duckdb"),
        "compared": compare_truth(answers(), epsilons=[2], draws=2, progress=False),
    }
    for name, result in results.items():
        assert MARK.encode() not in shown(result, tmp_path / name), name
    for private in (collected, workers):
        assert MARK.encode() in pickle.dumps(private)


def test_numbers_of_workers_are_random_and_reports_stay_together() -> None:
    sent, collected = randomize_answers(answers(), epsilon=2, classes=2, randomness=Randomness.simulation(1))
    other, same = randomize_answers(answers(), epsilon=2, classes=2, randomness=Randomness.simulation(2))

    def loads(reports: Labels) -> list[int]:
        return [int(load) for load in np.bincount(reports.numbered("worker")[0])]

    assert sorted(loads(sent.answers)) == sorted(loads(collected.answers))
    assert loads(collected.answers) == loads(same.answers)
    assert loads(sent.answers) != loads(other.answers)
    assert sent.frame()["worker"].unique().sort().to_list() == list(range(1, 11))
    assert sent.frame().equals(sent.frame().sort("task", "worker", "label"))


@pytest.mark.parametrize("hide_tasks", [False, True])
def test_the_operator_can_name_the_abilities(hide_tasks: bool, tmp_path: Path) -> None:
    table = answers()
    tasks = table.frame["task"].unique().to_list() if hide_tasks else None
    _, collected = randomize_answers(table, epsilon=6, classes=2, hide_tasks=hide_tasks, tasks=tasks)
    result, workers = read_answers(write_answers(collected, tmp_path / "reports.jsonl")).fit(model="one-coin")
    frame = workers.frame()
    assert frame["worker"].to_list() == sorted(set(table.frame["worker"].to_list()))
    assert frame["answers"].to_list() == result.loads.tolist()
    assert frame["ability"].to_numpy() == pytest.approx(result.abilities)
    assert set(workers.history()) == set(frame["worker"])
