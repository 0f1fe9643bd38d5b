"""Every engine gives the answer of memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ibis
import numpy as np
import polars as pl
import pytest

from peerveil import BadInput
from peerveil.data.engines import connect
from peerveil.truth import PrivateDawidSkene, TruthResult, simulate_crowd
from peerveil.truth.answers import EncodedAnswers

pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Ibis 12 on DuckDB 2


def same(a: TruthResult, b: TruthResult) -> None:
    assert a.tasks.to_list() == b.tasks.to_list()
    assert np.abs(a.probabilities - b.probabilities).max() < 1e-9
    assert np.abs(a.abilities - b.abilities).max() < 1e-9
    assert (a.labels == b.labels).all()
    assert a.iterations == b.iterations
    assert a.objective == pytest.approx(b.objective, rel=1e-12)
    assert a.loads.tolist() == b.loads.tolist()


@pytest.mark.parametrize(("model", "k"), [("auto", 2), ("one-coin", 3), ("two-coin", 2), ("confusion", 3)])
def test_duckdb_agrees(model: str, k: int, tmp_path: Path) -> None:
    crowd = simulate_crowd(tasks=150, workers=20, answers=6, classes=k, epsilon=2, seed=k)
    frame = crowd.randomized.frame.with_columns(worker=pl.format("w{}", "worker"))
    path = tmp_path / "reports.parquet"
    frame.write_parquet(path)
    estimator = PrivateDawidSkene(epsilon=2, model=model, tolerance=1e-4)
    memory, workers = estimator.fit(frame), estimator.workers_.frame()
    same(memory, estimator.fit(frame, engine="duckdb"))
    assert estimator.workers_.frame()["worker"].equals(workers["worker"])
    same(memory, estimator.fit(path, engine="duckdb"))
    same(memory, estimator.fit(str(tmp_path / "*.parquet")))  # small enough for memory


def test_two_coin_is_chosen_alike(tmp_path: Path) -> None:
    crowd = simulate_crowd(tasks=200, workers=30, answers=12, kind="spammers", epsilon=3, seed=1)
    estimator = PrivateDawidSkene(epsilon=3)
    memory, duck = estimator.fit(crowd.randomized), estimator.fit(crowd.randomized, engine="duckdb")
    assert memory.evidence is not None
    assert memory.evidence.weight > 0
    same(memory, duck)


def test_known_answers_history_and_class_shares_on_tables() -> None:
    crowd = simulate_crowd(tasks=120, workers=15, answers=5, classes=3, epsilon=2, seed=4)
    known = {t: crowd.truth[t] for t in range(30)}
    settings: dict[str, Any] = {"known": known, "history": {0: (9.0, 1.0)}, "class_prior": "estimated"}
    for model in ("one-coin", "confusion"):
        estimator = PrivateDawidSkene(epsilon=2, model=model, tolerance=1e-3, **settings)
        same(estimator.fit(crowd.randomized), estimator.fit(crowd.randomized, engine="duckdb"))


def test_the_choice_looks_at_the_same_sample_on_every_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = simulate_crowd(tasks=400, workers=20, answers=6, epsilon=2, seed=4)
    monkeypatch.setattr(EncodedAnswers, "sample_size", 500)
    estimator = PrivateDawidSkene(epsilon=2)
    a, b = estimator.fit(crowd.randomized), estimator.fit(crowd.randomized, engine="duckdb")
    assert a.evidence is not None
    assert b.evidence is not None
    assert a.evidence.bounds == pytest.approx(b.evidence.bounds, abs=1e-6)
    same(a, b)


def test_a_connection_of_ones_own_is_left_open() -> None:
    crowd = simulate_crowd(tasks=50, workers=10, answers=4, epsilon=2, seed=4)
    connection = connect("duckdb", memory="1GB")
    table = ibis.memtable(crowd.randomized.frame.to_arrow())
    duck = PrivateDawidSkene(epsilon=2, model="one-coin").fit(table, engine="duckdb", connection=connection)
    same(PrivateDawidSkene(epsilon=2, model="one-coin").fit(crowd.randomized), duck)
    names = connection.con.execute("SELECT table_name FROM information_schema.tables").fetchall()
    assert not [name for (name,) in names if name.startswith("peerveil_")]
    connection.disconnect()


@pytest.mark.parametrize(
    ("frame", "settings", "message"),
    [
        ({"task": [1], "worker": [1], "answer": [1]}, {}, "label"),
        ({"task": [1, 1], "worker": [1, 2], "label": [1, 1]}, {}, "equal answers"),
        ({"task": [1, 1], "worker": [1, 2], "label": [0, 5]}, {"classes": 2}, "got 5"),
        ({"task": [1, 1], "worker": [1, None], "label": [0, 1]}, {"classes": 2}, "labels: .*1 rows without worker"),
        ({"task": [1, 1], "worker": [1, 2], "label": [0, 1]}, {"start": np.full((1, 2), 0.5)}, "engine='memory'"),
    ],
)
def test_bad_tables_are_refused(frame: dict[str, Any], settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    pl.DataFrame(frame).write_parquet(path)
    with pytest.raises(BadInput, match=message):
        PrivateDawidSkene(epsilon=1, model="one-coin", **settings).fit(path, engine="duckdb")


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_nan_is_no_class_unless_it_is_named(engine: str) -> None:
    """As one more class it would silently change what a randomized answer means."""
    frame = pl.DataFrame({"task": [1, 1, 2], "worker": [1, 2, 1], "label": ["yes", "no", "NaN"]})
    with pytest.raises(BadInput, match="got 'NaN', need a label in every answer"):
        PrivateDawidSkene(epsilon=1, model="one-coin").fit(frame, engine=engine)
    named = PrivateDawidSkene(epsilon=1, model="one-coin", classes=["yes", "no", "NaN"]).fit(frame, engine=engine)
    assert named.classes == ("yes", "no", "NaN")


def test_engines_are_named() -> None:
    crowd = simulate_crowd(tasks=10, workers=4, answers=2)
    with pytest.raises(BadInput, match="'duckdb' or 'spark'"):
        PrivateDawidSkene(epsilon=1).fit(crowd.randomized, engine="abacus")
    with pytest.raises(BadInput, match="engine"):
        connect("abacus")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # PySpark warns of the pandas it finds
@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]"])
@pytest.mark.usefixtures("needs_spark")
def test_spark_agrees(tmp_path: Path, master: str) -> None:
    crowd = simulate_crowd(tasks=300, workers=30, answers=8, epsilon=2, seed=9)
    path = tmp_path / "reports.parquet"
    crowd.randomized.frame.write_parquet(path)
    connection = connect("spark", master=master)
    connection._session.conf.set("spark.sql.shuffle.partitions", "4")
    known = {t: crowd.truth[t] for t in range(10)}
    try:
        for model in ("one-coin", "two-coin") if master == "local[2]" else ("one-coin",):
            estimator = PrivateDawidSkene(epsilon=2, model=model, known=known, tolerance=1e-3)
            same(estimator.fit(crowd.randomized), estimator.fit(path, engine="spark", connection=connection))
    finally:
        connection._session.stop()
