"""The paper's figures and tables: exact where they are formulas, directions and rates where the data cannot be had."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path

import pytest

from peerveil.papers.reproduce import Reproduction, Verdict, experiments
from peerveil.papers.reproduce import timing as module
from peerveil.papers.reproduce import timing_streams as streams
from peerveil.papers.reproduce import timing_theorems as theorems
from peerveil.papers.timing.streams import bitcoin_like, wikipedia_like
from peerveil.report import svg
from peerveil.timing import choose_gap, find_batches, linkage_attack

EXACT = ("figure-2", "figure-3", "figure-4", "table-1", "table-2")
STREAMS = [f"figure-{n}" if n < 9 else pytest.param(f"figure-{n}", marks=pytest.mark.slow) for n in range(5, 13)]


@cache
def run(name: str) -> Reproduction:
    return module.EXPERIMENTS[f"timing/{name}"](True, False)


def test_nothing_is_left_out() -> None:
    figures = {f"timing/figure-{n}" for n in range(1, 13)}
    assert set(module.EXPERIMENTS) == figures | {"timing/table-1", "timing/table-2", *theorems.THEOREMS}
    assert set(module.EXPERIMENTS) <= set(experiments())


@pytest.mark.parametrize("name", theorems.THEOREMS)
def test_theorems_hold_where_they_are_no_erratum(name: str) -> None:
    found = module.EXPERIMENTS[name](True, False)
    assert found.name == name
    assert found.counts[Verdict.DIFFERS] == 0
    assert found.counts[Verdict.AGREES] >= 1
    assert found.counts[Verdict.ERRATUM] == (1 if name == "timing/theorem-4.8" else 0)


def test_a_queue_that_posts_the_newest_first_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two deliberately wrong queues: the last one in goes first; and nobody waits in a queue that sorts by reviewer."""

    def newest_first(arrivals: Iterable[Sequence[int]]) -> Iterator[int]:
        waiting: list[int] = []
        for batch in arrivals:
            waiting.extend(batch)
            yield waiting.pop()

    monkeypatch.setattr(theorems, "printed_queue", newest_first)
    row = theorems.algorithm_4(True, False).rows[0]
    assert row.verdict is Verdict.DIFFERS

    def sorted_queue(arrivals: Iterable[Sequence[int]]) -> Iterator[int]:
        waiting: list[int] = []
        for batch in arrivals:
            waiting = sorted([*waiting, *batch])
            yield waiting.pop(0)

    monkeypatch.setattr(theorems, "printed_queue", sorted_queue)
    assert theorems.proposition_c_2(True, False).rows[0].verdict is Verdict.DIFFERS


@pytest.mark.parametrize("name", EXACT)
def test_formulas_agree(name: str) -> None:
    found = run(name)
    assert found.axes is not None
    assert "<svg " in svg(found.axes, found.note)
    for row in found.rows:
        assert row.verdict in {Verdict.AGREES, Verdict.ERRATUM}, row


def test_every_printed_cell_of_the_tables_is_there() -> None:
    rows = [*run("table-1").rows, *run("table-2").rows]
    printed = [row.paper.removesuffix(" min") for row in rows]
    assert printed[::2] == [str(n) for n in (118, 31, 20, 15, 343, 83, 50, 35, 820, 192, 115, 77)]  # means
    assert printed[1::2] == [str(n) for n in (229, 54, 33, 22, 672, 152, 88, 56, 1615, 360, 205, 129)]  # maxima
    for row in rows:
        as_printed, full, ours = (int(part.split()[0]) for part in row.ours.split(";"))
        assert abs(as_printed - int(row.paper.removesuffix(" min"))) <= 1
        assert ours < as_printed < full


@pytest.mark.parametrize("name", STREAMS)
def test_figures_on_streams_say_what_they_stand_on(name: str) -> None:
    found = run(name)
    assert "cannot be had" in found.note
    assert "not private" in found.note
    assert {row.what.split(",")[0] for row in found.rows} >= {"synthetic", "real edits"}
    picture = svg(found.axes, found.note) if found.axes is not None else ""
    assert picture.count("simulation") >= 2  # marked across every panel
    if name in ("figure-11", "figure-12"):
        assert "75th percentile" in found.note


@pytest.mark.parametrize("name", ["figure-5", "figure-8"])
def test_precision_falls_on_both_logs(name: str) -> None:
    rows = [row for row in run(name).rows if row.paper == "falls"]
    assert len(rows) >= 5
    assert {(row.verdict, row.text) for row in rows} == {(Verdict.AGREES, "same direction")}


@pytest.mark.parametrize(
    "name", ["figure-6", *(pytest.param(n, marks=pytest.mark.slow) for n in ("figure-9", "figure-11"))]
)
def test_an_informed_attacker_of_transfers_does_better(name: str) -> None:
    rows = [row for row in run(name).rows if row.what.startswith("synthetic, epsilon")]
    assert len(rows) == 3
    assert all(row.text.endswith("informed above basic") for row in rows)


@pytest.mark.slow
def test_delays_of_transfers_grow_with_the_percentile() -> None:
    under = [
        [int(row.ours.split("%")[0]) for row in run(f"figure-{n}").rows if row.what.startswith("synthetic")]
        for n in (10, 7, 12)
    ]
    assert all(a > b > c for a, b, c in zip(*under, strict=True))
    assert all(one == sorted(one) for one in under)  # and fall with epsilon


def test_streams_have_the_rates_that_the_paper_prints() -> None:
    edits = wikipedia_like()
    found = find_batches(edits, window=300, baseline=False)
    assert len(edits) == pytest.approx(13_430, rel=0.02)
    assert found.batched.mean() == pytest.approx(0.2, abs=0.03)
    assert found.same_rate == pytest.approx(0.92, abs=0.02)
    for percentile, gap in ((25, 10.908), (50, 32.532), (75, 78.54)):
        assert choose_gap(edits, percentile=percentile, window=300) == pytest.approx(60 * gap, rel=0.35)
    attack = linkage_attack(edits, window=300)
    assert attack.precision_at(0.85) == pytest.approx(0.8, abs=0.05)
    transfers = bitcoin_like()
    pairs = find_batches(transfers, window=60, baseline=False)
    assert pairs.batched.mean() == pytest.approx(0.012, abs=0.002)
    split = streams.split("", transfers, timedelta(days=7), "actor", 60.0)
    before = set(split.history.frame["actor"].unique().to_list())
    seen = split.log.frame["actor"].is_in(list(before)).to_numpy()
    late = find_batches(split.log, window=60, baseline=False).batched
    assert seen[~late].mean() < 0.1  # more than 90% of the others go to addresses without history
    assert seen[late].mean() == pytest.approx(0.8, abs=0.06)


def test_without_the_repository_only_synthetic_streams_are_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(streams, "_LOG", tmp_path / "nothing.csv.gz")
    assert streams.real_log() is None
    for name in ("figure-8", "figure-7"):
        assert {row.what.split(",")[0] for row in run.__wrapped__(name).rows} == {"synthetic"}
