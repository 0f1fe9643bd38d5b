"""Inference from stored reports: in a process of its own, with progress, and as often as one likes.

Everything here is post-processing: reports left people's devices randomized, so that whatever is computed from them
reveals no more than they do. It may be done again, with another model, without asking anybody anything.

Reports go to a Parquet file piece by piece, and from there into the engine that their number asks for
(:meth:`peerveil.truth.PrivateDawidSkene.fit`). The service's own process never holds them.
"""

from __future__ import annotations

import math
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from sqlalchemy import update

from peerveil.core.errors import BadInput, PeerveilError, Verbatim
from peerveil.data import Labels
from peerveil.data.engines import quiet
from peerveil.rankings.aggregate import aggregate_sums
from peerveil.report import Svg, new_axes, safe_svg
from peerveil.truth import PrivateDawidSkene, plan_truth
from peerveil.truth.result import CONFIDENCE
from peerveil.web.collect.exporting import count_reports, raw_pieces, write_parquet
from peerveil.web.collect.outcomes import store_result
from peerveil.web.collect.schema import campaigns
from peerveil.web.collect.store import SILENT
from peerveil.web.common import database_time
from peerveil.web.common.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from matplotlib.axes import Axes

    from peerveil.core.guarantee import Guarantee
    from peerveil.rankings import UniformityTest
    from peerveil.truth import TruthPlan, TruthResult
    from peerveil.web.collect.store import Known, Store

_BEAT: Final = 10.0  # seconds between two signs of life
_SPOOLED: Final = {"task": pl.Int64, "worker": pl.Int64, "label": pl.Int64}
_INTERVAL: Final = 3.0  # standard errors of a share of answers to a comparison
_IN_MEMORY: Final = 20_000_000  # reports; more are worked on from the disk
_PRIOR: Final = 6.0  # answers that the spread of abilities is worth, as in the estimator


def infer(
    store: Store,
    known: Known,
    *,
    so_far: bool = False,
    model: str = "auto",
    engine: str = "auto",
    level: float = 0.05,
    advance: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:
    """Infer from all reports of a campaign, and store the result.

    Parameters
    ----------
    so_far
        While the campaign is open: an estimate for the operator, which is never published. Without it the campaign must be
        closed.
    model, engine
        As in :class:`peerveil.truth.PrivateDawidSkene`.
    level
        Of the test of rankings.
    """
    if not so_far and store.end(known, now=False) != "closed":
        raise BadInput("campaign", got=known.campaign.id, want="a closed campaign, or --so-far for an estimate")
    total = count_reports(store, known)
    if total == 0:
        if not so_far:
            _set_job(store, known, job="done", stage="no reports", done=0, total=0)
        raise BadInput("campaign", got=Verbatim("no reports"), want="at least one report")
    with _claimed(store, known, total, so_far=so_far) as progress:

        def step(count: int) -> None:
            progress.add(count)
            advance(count)

        work = _labels if known.campaign.kind == "labels" else _rankings
        return work(store, known, "so far" if so_far else "final", progress, step, model, engine, level)


def _labels(
    store: Store,
    known: Known,
    kind: str,
    progress: Progress,
    step: Callable[[int], None],
    model: str,
    engine: str,
    _: float,
) -> dict[str, Any]:
    campaign = known.campaign
    rank, questions = _task_order(known)
    with tempfile.TemporaryDirectory(prefix="peerveil-collect-") as folder:
        path = Path(folder) / "reports.parquet"
        with path.open("wb") as handle:
            write_parquet(_spooled(store, known, rank, step), pl.DataFrame(schema=_SPOOLED), handle)
        progress.stage("inferring")
        estimator = PrivateDawidSkene(epsilon=campaign.each, model=model, classes=len(campaign.classes))
        result = _fit(estimator, path, engine, progress.total, campaign.guarantee)
        workers = estimator.workers_.frame()
    progress.stage("storing")
    found = questions[result.tasks.to_numpy()]
    plan = _plan(known, result) if kind == "so far" else None
    content = _label_content(known, result, plan)
    labels = (
        {"question": int(q), "code": int(code), "confidence": float(p)}
        for q, code, p in zip(found, result.labels, result.confidence, strict=True)
    )
    columns = workers.rename({"worker": "person"})
    store_result(
        store,
        known,
        kind,
        content,
        _figure(result, plan, content),
        label_rows=labels,
        ability_rows=columns.iter_rows(named=True),
    )
    return content


def _fit(estimator: PrivateDawidSkene, path: Path, engine: str, total: int, promise: Guarantee) -> TruthResult:
    """On the engine that the number of reports asks for, unless one is named."""
    chosen = ("memory" if total <= _IN_MEMORY else "duckdb") if engine == "auto" else engine
    if chosen == "memory":
        return estimator.fit(pl.read_parquet(path), engine="memory", guarantee=promise)
    with quiet():
        return estimator.fit(str(path), engine=chosen, guarantee=promise)


def _task_order(known: Known) -> tuple[Any, Any]:
    """Each question's place in the order in which the truth room sorts its id, and the inverse.

    Sums over tasks then run in the same order as on an exported table, and come out equal to the last bit.
    """
    ids = [task for task, _ in known.campaign.tasks]
    table = Labels(task=ids, worker=[0] * len(ids), label=[0] * len(ids)).frame
    questions = table["task"].arg_sort().to_numpy().astype(np.int64)
    rank = np.empty(len(ids), dtype=np.int64)
    rank[questions] = np.arange(len(ids))
    return rank, questions


def _spooled(store: Store, known: Known, rank: Any, step: Callable[[int], None]) -> Iterator[pl.DataFrame]:
    for raw in raw_pieces(store, known):
        yield pl.DataFrame(
            {
                "task": pl.Series(rank[raw["question"].to_numpy()], dtype=pl.Int64),
                "worker": raw["person"],
                "label": raw["code"].cast(pl.Int64),
            }
        )
        step(raw.height)


def _plan(known: Known, result: TruthResult) -> TruthPlan:
    """How many answers a task the campaign's aim takes, for a crowd of the abilities that were found."""
    campaign = known.campaign
    k = len(campaign.classes)
    ability = float(np.clip(np.average(result.abilities, weights=result.loads), 1 / k + 0.02, 0.98))
    spread = (_PRIOR * ability, _PRIOR * (1 - ability))
    return plan_truth(
        accuracy=campaign.accuracy,
        epsilons=[campaign.each],
        classes=k,
        ability=spread,
        tasks=150,
        trials=2,
        progress=False,
    )


def _label_content(known: Known, result: TruthResult, plan: TruthPlan | None) -> dict[str, Any]:
    campaign = known.campaign
    size, reports = len(campaign.tasks), int(result.loads.sum())
    content: dict[str, Any] = {
        "kind": "labels",
        "reports": reports,
        "people": result.loads.size,
        "tasks": size,
        "tasks_with_reports": len(result.tasks),
        "answers_a_task": reports / size,
        "model": result.model,
        "converged": result.converged,
        "mean_confidence": float(result.confidence.mean()),
        "about_confidence": CONFIDENCE,
        "median_ability": float(np.median(result.abilities)),
        "class_shares": [float(share) for share in result.class_shares],
        "guarantee": str(campaign.guarantee),
        "person_guarantee": str(campaign.person_guarantee),
    }
    if plan is not None:
        needed = next(iter(plan.needed.values()))
        tried = max(row.answers for row in plan.rows)
        content["needed"] = {
            "answers_a_task": needed,
            "more_than": None if needed is not None else tried,
            "more_answers": None if needed is None else max(0, needed * size - reports),
            "advice": plan.recommendation,
        }
    return content


def _figure(result: TruthResult, plan: TruthPlan | None, content: dict[str, Any]) -> Svg:
    if plan is None:
        alt = f"Abilities of {content['people']:,} people with intervals; {result.summary()}"
        return safe_svg(lambda: result.plot(new_axes(height=3.6)[0]), alt)
    x = max(content["answers_a_task"], 0.1)

    def drawn() -> Axes:
        (ax,) = new_axes(height=3.6)
        plan.plot(ax)
        ax.axvline(x, color="#c98a00", lw=1.5, label="this campaign")
        ax.legend(fontsize="small", loc="lower right")
        return ax

    return safe_svg(drawn, f"This campaign has {x:.1f} answers a task. {plan.recommendation}")


def _rankings(
    store: Store,
    known: Known,
    kind: str,
    progress: Progress,
    step: Callable[[int], None],
    _: str,
    __: str,
    level: float,
) -> dict[str, Any]:
    campaign = known.campaign
    counts, sums = (np.zeros(campaign.questions, dtype=np.int64) for _ in range(2))
    for raw in raw_pieces(store, known):
        question, bits = raw["question"].to_numpy(), raw["code"].to_numpy().astype(np.int64)
        counts += np.bincount(question, minlength=campaign.questions)
        np.add.at(sums, question, 2 * bits - 1)
        step(raw.height)
    progress.stage("testing")
    test = aggregate_sums(campaign.protocol, counts, sums, level, answers=campaign.answers)
    content = _ranking_content(known, test, counts, sums)
    figure = safe_svg(lambda: test.plot(new_axes(height=3.6)[0]), test.summary())
    store_result(store, known, kind, content, figure)
    return content


def _ranking_content(known: Known, test: UniformityTest, counts: Any, sums: Any) -> dict[str, Any]:
    campaign = known.campaign
    attenuation = campaign.protocol.attenuation
    questions = []
    for q, about in enumerate(campaign.asked()):
        n = int(counts[q])
        # of randomized answers a share f is yes; of answers (f - other)/(keep - other), and so is its interval
        shown = (int(sums[q]) + n) / (2 * n) if n else 0.5
        share = 0.5 + (shown - 0.5) / attenuation
        error = _INTERVAL * math.sqrt(0.25 / n) / attenuation if n else math.inf
        items = [about] if isinstance(about, int) else about
        questions.append(
            {
                "about": [campaign.items[i] for i in items],
                "reports": n,
                "yes": min(1.0, max(0.0, share)),
                "low": max(0.0, share - error),
                "high": min(1.0, share + error),
            }
        )
    return {
        "kind": "rankings",
        "reports": int(counts.sum()),
        "reject": bool(test.reject),
        "pvalue": test.pvalue,
        "statistic": test.statistic,
        "critical": test.critical,
        "level": test.level,
        "finding": test.summary(),
        "questions": questions,
        "guarantee": str(campaign.guarantee),
        "person_guarantee": str(campaign.person_guarantee),
    }


# ---- one at a time, with signs of life --------------------------------------------------------------------------------


class Progress:
    """Says in the database how far the work is."""

    def __init__(self, store: Store, known: Known, total: int) -> None:
        self._store, self._known = store, known
        self.total = total
        self._done = 0

    def add(self, count: int) -> None:
        """So many more reports were read."""
        self._done += count
        _set_job(self._store, self._known, done=self._done)

    def stage(self, name: str) -> None:
        """The next stage begins."""
        _set_job(self._store, self._known, stage=name)


@contextmanager
def _claimed(store: Store, known: Known, total: int, *, so_far: bool) -> Iterator[Progress]:
    """The one who infers; somebody else's work is not disturbed unless it has fallen silent.

    An estimate so far leaves no trace but its result: the inference at the end is still to be done.
    """
    with store.database.writing("open") as connection:
        now = database_time(connection)
        free = (campaigns.c.job != "running") | (campaigns.c.beat < now - SILENT)
        claim = update(campaigns).where(campaigns.c.number == known.number, free)
        begun = {"job": "running", "beat": now, "stage": "reading", "done": 0, "total": total}
        if connection.execute(claim.values(**begun)).rowcount == 0:
            raise Conflict("an inference of this campaign is under way; wait for it, or a minute if it has died")
    stopped = threading.Event()

    def beat() -> None:
        while not stopped.wait(_BEAT):
            _set_job(store, known)

    heart = threading.Thread(target=beat, daemon=True)
    heart.start()
    try:
        yield Progress(store, known, total)
    except BaseException:
        _quietly(lambda: _set_job(store, known, job="" if so_far else "failed"))
        raise
    else:
        _set_job(store, known, job="" if so_far else "done", stage="")
    finally:
        stopped.set()
        heart.join()


def _set_job(store: Store, known: Known, **values: Any) -> None:
    with store.database.writing("open") as connection:
        values["beat"] = database_time(connection)
        connection.execute(update(campaigns).where(campaigns.c.number == known.number).values(**values))


def _quietly(act: Callable[[], None]) -> None:
    try:
        act()
    except PeerveilError:
        return
