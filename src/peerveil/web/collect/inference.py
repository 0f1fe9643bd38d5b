"""Inference from stored randomized answers: in a process of its own, with progress, and as often as one likes.

Everything here is post-processing: answers left people's devices randomized, so that whatever is computed from them
reveals no more than they do. It may be done again, with another model, without asking anybody anything.

Answers go to a Parquet file piece by piece, and from there into the engine that their number asks for
(:meth:`peerveil.truth.PrivateDawidSkene.fit`). The service's own process never holds them.
"""

from __future__ import annotations

import math
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
from peerveil.truth import PrivateDawidSkene, TruthPlan, TruthResult, plan_truth
from peerveil.truth.result import CONFIDENCE
from peerveil.web.collect.answers import count_answers, raw_pieces, write_parquet
from peerveil.web.collect.results import store_result
from peerveil.web.collect.store import SILENT, Known, Store
from peerveil.web.collect.tables import campaigns
from peerveil.web.common import database_time
from peerveil.web.common.errors import Conflict

if TYPE_CHECKING:
    from peerveil.core.guarantee import Guarantee
    from peerveil.rankings import UniformityTest
    from peerveil.web.collect.campaign import Campaign

_BEAT_SECONDS: Final = 10.0
_INTERVAL: Final = 3.0  # standard errors of a share of answers to a comparison
_IN_MEMORY: Final = 20_000_000  # answers; more are worked on from the disk
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
    """Infer from all randomized answers of a campaign, and store the result.

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
    job = _Job(store, known, so_far, count_answers(store, known), advance)
    if job.total == 0:
        if not so_far:
            job.record(job="done", stage="no answers", done=0, total=0)
        raise BadInput("campaign", got=Verbatim("no answers"), want="at least one answer")
    with job.claimed():
        if known.campaign.kind == "labels":
            return _infer_labels(job, model, engine)
        return _infer_rankings(job, level)


class _Job:
    """One inference of a campaign: its answers, its progress in the database, and its result."""

    def __init__(self, store: Store, known: Known, so_far: bool, total: int, advance: Callable[[int], None]) -> None:
        self.store, self.known = store, known
        self.kind = "so far" if so_far else "final"
        self.total, self._done = total, 0
        self._advance = advance

    @property
    def campaign(self) -> Campaign:
        return self.known.campaign

    def answers(self) -> Iterator[pl.DataFrame]:
        """The answers as numbers, piece by piece."""
        for raw in raw_pieces(self.store, self.known):
            yield raw
            self._done += raw.height
            self.record(done=self._done)
            self._advance(raw.height)

    def record(self, **values: Any) -> None:
        """Say in the database how far the work is, and that it is alive."""
        with self.store.database.writing("open") as connection:
            values["beat"] = database_time(connection)
            connection.execute(update(campaigns).where(campaigns.c.number == self.known.number).values(**values))

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Only one process infers; another one's work is not disturbed unless it has fallen silent.

        An estimate so far leaves no trace but its result: the inference at the end is still to be done.
        """
        with self.store.database.writing("open") as connection:
            now = database_time(connection)
            free = (campaigns.c.job != "running") | (campaigns.c.beat < now - SILENT)
            claim = update(campaigns).where(campaigns.c.number == self.known.number, free)
            begun = {"job": "running", "beat": now, "stage": "reading", "done": 0, "total": self.total}
            if connection.execute(claim.values(**begun)).rowcount == 0:
                raise Conflict("an inference of this campaign is under way; wait for it, or a minute if it has died")
        stopped = threading.Event()

        def beat() -> None:
            while not stopped.wait(_BEAT_SECONDS):
                self.record()

        heart = threading.Thread(target=beat, daemon=True)
        heart.start()
        try:
            yield
        except BaseException:
            with suppress(PeerveilError):
                self.record(job="failed" if self.kind == "final" else "")
            raise
        else:
            self.record(job="done" if self.kind == "final" else "", stage="")
        finally:
            stopped.set()
            heart.join()


# ---- labels -----------------------------------------------------------------------------------------------------------


def _infer_labels(job: _Job, model: str, engine: str) -> dict[str, Any]:
    campaign = job.campaign
    rank, questions = _task_order(campaign)
    with tempfile.TemporaryDirectory(prefix="peerveil-collect-") as folder:
        path = Path(folder) / "answers.parquet"
        with path.open("wb") as handle:
            write_parquet(
                _spooled(job, rank), pl.DataFrame(schema=dict.fromkeys(("task", "worker", "label"), pl.Int64)), handle
            )
        job.record(stage="inferring")
        estimator = PrivateDawidSkene(epsilon=campaign.each, model=model, classes=len(campaign.classes))
        result = _fit(estimator, path, engine, job.total, campaign.guarantee)
        workers = estimator.workers_.frame()
    job.record(stage="storing")
    plan = _plan(campaign, result) if job.kind == "so far" else None
    content = _label_content(campaign, result, plan)
    labels = (
        {"question": int(question), "code": int(code), "confidence": float(confidence)}
        for question, code, confidence in zip(
            questions[result.tasks.to_numpy()], result.labels, result.confidence, strict=True
        )
    )
    abilities = workers.rename({"worker": "person", "answers": "reports"}).iter_rows(named=True)
    figure = _figure(result, plan, content)
    store_result(job.store, job.known, job.kind, content, figure, label_rows=labels, ability_rows=abilities)
    return content


def _fit(estimator: PrivateDawidSkene, path: Path, engine: str, total: int, guarantee: Guarantee) -> TruthResult:
    """On the engine that the number of answers asks for, unless one is named."""
    chosen = ("memory" if total <= _IN_MEMORY else "duckdb") if engine == "auto" else engine
    if chosen == "memory":
        return estimator.fit(pl.read_parquet(path), engine="memory", guarantee=guarantee)
    with quiet():
        return estimator.fit(str(path), engine=chosen, guarantee=guarantee)


def _task_order(campaign: Campaign) -> tuple[Any, Any]:
    """Each question's place in the order in which the truth module sorts its id, and the inverse.

    Sums over tasks then run in the same order as on an exported table, and come out equal to the last bit.
    """
    ids = [task for task, _ in campaign.tasks]
    table = Labels(task=ids, worker=[0] * len(ids), label=[0] * len(ids)).frame
    questions = table["task"].arg_sort().to_numpy().astype(np.int64)
    return np.argsort(questions), questions


def _spooled(job: _Job, rank: Any) -> Iterator[pl.DataFrame]:
    for raw in job.answers():
        task = pl.Series(rank[raw["question"].to_numpy()], dtype=pl.Int64)
        yield pl.DataFrame({"task": task, "worker": raw["person"], "label": raw["code"].cast(pl.Int64)})


def _plan(campaign: Campaign, result: TruthResult) -> TruthPlan:
    """How many answers per task the campaign's target takes, for a crowd of the abilities that were estimated."""
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


def _label_content(campaign: Campaign, result: TruthResult, plan: TruthPlan | None) -> dict[str, Any]:
    size, count = len(campaign.tasks), int(result.loads.sum())
    content: dict[str, Any] = {
        "kind": "labels",
        "reports": count,
        "people": result.loads.size,
        "tasks": size,
        "tasks_with_reports": len(result.tasks),
        "answers_a_task": count / size,
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
            "more_answers": None if needed is None else max(0, needed * size - count),
            "advice": plan.recommendation,
        }
    return content


def _figure(result: TruthResult, plan: TruthPlan | None, content: dict[str, Any]) -> Svg:
    if plan is None:
        alt = f"Abilities of {content['people']:,} people with intervals; {result.summary()}"
        return safe_svg(lambda: result.plot(new_axes(height=3.6)[0]), alt)
    x = max(content["answers_a_task"], 0.1)

    def drawn() -> Any:
        (ax,) = new_axes(height=3.6)
        plan.plot(ax)
        ax.axvline(x, color="#c98a00", lw=1.5, label="this campaign")
        ax.legend(fontsize="small", loc="lower right")
        return ax

    return safe_svg(drawn, f"This campaign has {x:.1f} answers per task. {plan.recommendation}")


# ---- rankings ---------------------------------------------------------------------------------------------------------


def _infer_rankings(job: _Job, level: float) -> dict[str, Any]:
    campaign = job.campaign
    counts, sums = (np.zeros(campaign.questions, dtype=np.int64) for _ in range(2))
    for raw in job.answers():
        question, bits = raw["question"].to_numpy(), raw["code"].to_numpy().astype(np.int64)
        counts += np.bincount(question, minlength=campaign.questions)
        np.add.at(sums, question, 2 * bits - 1)
    job.record(stage="testing")
    test = aggregate_sums(campaign.protocol, counts, sums, level, answers=campaign.answers)
    content = _ranking_content(campaign, test, counts, sums)
    figure = safe_svg(lambda: test.plot(new_axes(height=3.6)[0]), test.summary())
    store_result(job.store, job.known, job.kind, content, figure)
    return content


def _ranking_content(campaign: Campaign, test: UniformityTest, counts: Any, sums: Any) -> dict[str, Any]:
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
