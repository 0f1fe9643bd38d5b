"""Randomized rankings of a whole table: what is public in them, what is counted, and what aggregators read."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pytest

from peerveil import BudgetExceeded, Ledger, Randomness
from peerveil.core.errors import BadInput
from peerveil.data import Rankings
from peerveil.rankings import LocalProtocol, Mallows, aggregate_rankings, randomize_rankings, uniformity_test

if TYPE_CHECKING:
    from pathlib import Path

VOTES = Mallows(6, 0.6).sample(300, seed=1)
VOTERS = [f"voter-{i:03d}-Zx" for i in range(len(VOTES))]
MARKED = pl.DataFrame({"voter": VOTERS} | {f"item {i}": VOTES[:, i] + 1 for i in range(6)})


def simulated(**settings: Any) -> Any:
    return randomize_rankings(
        VOTES, randomness=Randomness.simulation(2), **{"epsilon": 2, "public_seed": 7, **settings}
    )


def test_every_form_of_randomized_rankings_gives_the_same_test(tmp_path: Path) -> None:
    randomized = simulated(ask="pairs")
    randomized.save(tmp_path / "out")
    frame = randomized.frame()
    expected = aggregate_rankings(randomized.rankings, protocol=randomized.protocol, simulated=True)
    forms = [randomized, tmp_path / "out" / "reports.jsonl", str(tmp_path / "out" / "table.csv")]
    forms += [frame, frame.lazy(), pd.DataFrame(frame.to_dict(as_series=False))]
    for form in forms:
        test = aggregate_rankings(form)
        assert test.to_dict() == expected.to_dict()
        assert test.mark == "simulation, not private"
        with pytest.raises(BadInput, match="^protocol: "):
            aggregate_rankings(form, protocol=LocalProtocol(6, epsilon=1))
        with pytest.raises(BadInput, match="^answers: "):
            aggregate_rankings(form, answers=2)
    assert expected.reject


def test_the_file_states_the_protocol_and_holds_one_line_per_person() -> None:
    randomized = simulated(epsilon="1/3", questions=2)
    header, *lines = (json.loads(line) for line in randomized.text().splitlines())
    assert header == {
        "peerveil": "rankings reports 1", "items": 6, "epsilon": "1/3", "method": "items", "questions": 2, "seed": 7,
        "simulated": True,
    }  # fmt: skip
    assert len(lines) == len(randomized.rankings) == 300
    assert {line["question"] for line in lines} == {0, 1}
    assert randomized.to_dict()["rankings"] == 300
    assert sum(randomized.to_dict()["questions"]["answers"]) == 300


def test_the_order_is_independent_of_the_order_of_people() -> None:
    """The first half of the people agrees, the second half disagrees; they are mixed."""
    up = np.arange(6)
    votes = np.vstack([np.tile(up, (500, 1)), np.tile(up[::-1], (500, 1))])
    randomized = randomize_rankings(votes, epsilon=8, questions=1, randomness=Randomness.simulation(3))
    bits = np.array([ranking.bits for ranking in randomized.rankings])
    assert abs(bits[:500].sum() - bits[500:].sum()) < 5.5 * np.sqrt(250)


def test_public_results_hold_no_id_of_a_person(tmp_path: Path) -> None:
    MARKED.write_csv(tmp_path / "votes.csv")
    results: list[Any] = [
        randomize_rankings(MARKED, epsilon=1),
        uniformity_test(tmp_path / "votes.csv", epsilon=1),
        uniformity_test(MARKED.to_dict(as_series=False), epsilon=1),
    ]
    for number, result in enumerate(results):
        written = result.save(tmp_path / str(number))
        texts = [pickle.dumps(result), *(text.encode() for text in (str(result), repr(result), result.to_json()))]
        texts += [path.read_bytes() for path in written]
        assert all(b"-Zx" not in text for text in texts)
        assert pickle.loads(pickle.dumps(result)).to_dict() == result.to_dict()


def test_the_account_is_debited_before_anything_is_drawn(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "book.db") as ledger:
        account = ledger.account("survey", epsilon=1)
        for bad in ({"ask": "magic"}, {"questions": 0}, {"layout": "orders"}, {"randomness": 3}):
            with pytest.raises(BadInput):
                randomize_rankings(VOTES, epsilon=1, account=account, **bad)
        with pytest.raises(BadInput, match="complete rankings"):
            randomize_rankings(Rankings([[0, -1, 1], [0, 1, 2]]), epsilon=1, account=account)
        assert account.remaining == 1
        randomized = randomize_rankings(VOTES, epsilon="3/4", account=account)
        assert (account.remaining, randomized.mark) == (0.25, None)
        with pytest.raises(BudgetExceeded):
            randomize_rankings(Rankings(VOTES[::-1]), epsilon="3/4", account=account)


def test_columns_and_layout_are_read_from_frames_and_files(tmp_path: Path) -> None:
    long = pl.DataFrame({"ballot": [1, 1, 2, 2], "candidate": ["tea", "milk", "tea", "milk"], "place": [1, 2, 2, 1]})
    columns = {"ranking": "ballot", "item": "candidate", "rank": "place"}
    long.write_csv(tmp_path / "long.csv")
    wide = pl.DataFrame({"rank1": [2, 1, 2], "rank2": [1, 2, 1]})
    named: dict[str, Any] = {"columns": columns}
    forms: list[tuple[Any, dict[str, Any]]] = [
        (long, named),
        (tmp_path / "long.csv", named),
        (wide, {"layout": "orders"}),
    ]
    for data, settings in forms:
        assert uniformity_test(data, **settings).items == 2
        assert len(randomize_rankings(data, epsilon=1, **settings).rankings) >= 2
    for table in (VOTES, Rankings(VOTES)):
        with pytest.raises(BadInput, match=r"^columns: .*only a frame or a file"):
            uniformity_test(table, columns=columns)
        with pytest.raises(BadInput, match=r"^layout: .*only a frame or a file"):
            uniformity_test(table, layout="places")


def test_saving_twice_needs_force(tmp_path: Path) -> None:
    randomized = simulated()
    names = {path.name for path in randomized.save(tmp_path)}
    assert names == {"reports.jsonl", "result.json", "figure.svg", "table.csv"}
    for path in tmp_path.iterdir():
        if path.name != "reports.jsonl":
            path.unlink()
    with pytest.raises(BadInput, match="^folder: got .*need a new or empty folder"):
        randomized.save(tmp_path)
    assert len(randomized.save(tmp_path, force=True)) == 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1"),
        ('{"peerveil": "something else", "simulated": false}', "line 1: got 'something else'"),
        ('{"peerveil": "rankings reports 1", "simulated": false}', "protocol"),
        ("[]", "line 1"),
        ("\udcff", "line 1"),
    ],
)
def test_a_file_that_is_none_of_ours_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "x.jsonl").write_text(content, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(BadInput, match=message):
        aggregate_rankings(tmp_path / "x.jsonl")
    with pytest.raises(BadInput, match="file of randomized rankings"):
        aggregate_rankings(tmp_path / "missing.jsonl")
    with pytest.raises(BadInput, match="^protocol: got None"):
        aggregate_rankings(simulated().rankings)
