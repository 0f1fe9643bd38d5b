"""The same labels from wherever the same reports are kept; what a file of reports states must not be given again."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from peerveil import Randomness
from peerveil.core.errors import BadInput
from peerveil.data import Labels
from peerveil.truth import PrivateDawidSkene, randomize_answers, simulate_crowd
from peerveil.truth.answers import read_tasks
from peerveil.truth.source import fit_source
from peerveil.truth.wire import stated_answers, write_answers

CROWD = simulate_crowd(tasks=40, workers=8, answers=5, epsilon=None, seed=1)
SENT, COLLECTED = randomize_answers(CROWD.answers, epsilon=2, classes=2, randomness=Randomness.secure())


@pytest.mark.parametrize("model", ["one-coin", "majority"])
def test_a_table_files_of_a_database_and_a_file_of_reports_give_the_same_labels(model: str, tmp_path: Path) -> None:
    frame = COLLECTED.answers.frame
    for name, part in (("a", frame.head(70)), ("b", frame.tail(-70))):
        part.write_parquet(tmp_path / f"{name}.parquet")
    terms = {"epsilon": 2, "classes": ["0", "1"], "model": model}
    table, workers = fit_source(COLLECTED.answers, **terms)  # type: ignore[arg-type]
    files, _ = fit_source(tmp_path / "*.parquet", **terms)  # type: ignore[arg-type]
    stated, _ = fit_source(write_answers(COLLECTED, tmp_path / "reports.jsonl"), model=model)
    assert table.labels.tolist() == files.labels.tolist() == stated.labels.tolist()
    assert workers.workers.len() == 8
    assert table.guarantee.assumption is not None
    assert stated.guarantee == COLLECTED.guarantee  # nothing is assumed: the file says how reports were made


def test_a_table_is_fitted_as_the_estimator_does() -> None:
    ours = fit_source(COLLECTED.answers, epsilon=2).public
    assert ours.objective == PrivateDawidSkene(epsilon=2).fit(COLLECTED.answers).objective


def test_raw_answers_are_doubted_in_the_result_without_a_warning() -> None:
    sure = simulate_crowd(tasks=100, workers=12, answers=6, ability=(20, 1), epsilon=None, seed=2).answers
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit_source(sure, epsilon=1).public.doubt is not None


def test_what_a_file_of_reports_states_is_refused(tmp_path: Path) -> None:
    path = write_answers(COLLECTED, tmp_path / "reports.jsonl")
    assert stated_answers(path) == COLLECTED
    assert stated_answers(COLLECTED.answers) is None
    assert stated_answers(tmp_path / "*.parquet") is None
    for terms in ({"epsilon": 2}, {"classes": 2}):
        with pytest.raises(BadInput, match="the file of randomized answers states it"):
            fit_source(path, **terms)  # type: ignore[arg-type]
    _, hidden = randomize_answers(
        CROWD.answers, epsilon=2, classes=2, hide_tasks=True, tasks=range(40), randomness=Randomness.simulation(1)
    )
    write_answers(hidden, path)
    assert len(fit_source(path).public.tasks) == 40
    with pytest.raises(BadInput, match="another model"):
        fit_source(path, model="majority")


def test_everybody_reports_on_every_task_where_tasks_are_hidden() -> None:
    answers = Labels(task=[1, 2, 3, 1], worker=["ann", "ann", "ann", "bo"], label=[0, 1, 1, 0])
    _, hidden = randomize_answers(
        answers, epsilon=9, classes=2, hide_tasks=True, tasks=[1, 2, 3, 4], randomness=Randomness.simulation(1)
    )
    result = hidden.fit(model="one-coin").public
    assert result.typical == result.most == 4


def test_tasks_are_read_as_the_kind_of_id_that_the_answers_have(tmp_path: Path) -> None:
    path = tmp_path / "tasks.txt"
    path.write_text("1\n\n 2 \n", encoding="utf-8")
    assert read_tasks(path, CROWD.answers) == [1, 2]
    assert read_tasks(path, Labels(task=["a"], worker=[1], label=[0])) == ["1", "2"]
    path.write_text("one\n", encoding="utf-8")
    with pytest.raises(BadInput, match="whole numbers"):
        read_tasks(path, CROWD.answers)
