"""Agreement as an action: of a table, of a file that states its terms, of a database; of raw answers for the operator alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from peerveil.core.errors import BadInput
from peerveil.core.randomness import Randomness
from peerveil.study.actions import find_action
from peerveil.study.execute import StudyFile, execute
from peerveil.study.outcome import Outcome
from peerveil.truth import randomize_answers, simulate_crowd
from peerveil.truth.wire import write_answers

KIND = find_action("truth.agreement")


def run(folder: Path, file: Path | str, **settings: object) -> Outcome:
    out = folder / f"out-{len(list(folder.iterdir()))}"
    return execute(KIND.check(settings), StudyFile(path=Path(file)), out).outcome


def test_a_table_a_stated_file_and_a_database_agree(tmp_path: Path) -> None:
    answers = simulate_crowd(tasks=150, workers=15, answers=6, ability=(20, 4), epsilon=None, seed=1).answers
    sent, collected = randomize_answers(answers, epsilon=2, classes=2, randomness=Randomness.secure())
    write_answers(collected, tmp_path / "reports.jsonl")
    sent.answers.write(tmp_path / "reports.parquet")
    stated = run(tmp_path, tmp_path / "reports.jsonl")
    table = run(tmp_path, tmp_path / "reports.parquet", randomized=True, epsilon="2", classes="0,1")
    duck = run(tmp_path, tmp_path / "*.parquet", randomized=True, epsilon="2", classes="0,1", engine="duckdb")
    values = [outcome.public.results["alpha"]["value"] for outcome in (stated, table, duck)]
    assert values == pytest.approx([values[0]] * 3)
    assert "If these answers were randomized" in table.guarantee_text
    assert "If" not in stated.guarantee_text[:3]  # peerveil drew them and says so
    assert all("annotators.csv" in outcome.private.files for outcome in (stated, table, duck))
    with pytest.raises(BadInput, match="epsilon: got '1', need nothing"):
        run(tmp_path, tmp_path / "reports.jsonl", randomized=True, epsilon="1")


def test_raw_answers_are_for_the_operator_alone(tmp_path: Path) -> None:
    answers = simulate_crowd(tasks=150, workers=15, answers=6, ability=(20, 1), epsilon=None, seed=1).answers
    answers.write(tmp_path / "answers.csv")
    given = run(tmp_path, tmp_path / "answers.csv")
    claimed = run(tmp_path, tmp_path / "answers.csv", randomized=True, epsilon="1")
    for outcome in (given, claimed):
        assert outcome.public.is_empty
        assert outcome.guarantee is None
        assert "agreement.json" in outcome.private.files
    assert any("do not look randomized" in str(line) for line in claimed.private.findings)
    for settings in ({"epsilon": "1"}, {"randomized": True}, {"level": 0.2}):
        with pytest.raises(BadInput):
            KIND.check(settings)
