"""A synthetic conference: reviews, events, rankings and labels of the same people on the same papers.

Papers have a true quality. Reviewers stretch and shift what they see (scale and bias), write in sittings, rank a shared
set of papers and answer questions about papers with their own skill. All four tables come from one hidden truth,
which is kept beside them, so that a method can be told how right it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
from scipy.special import ndtr, ndtri

from peerveil.core.errors import BadInput
from peerveil.core.files import write_text
from peerveil.data.assignment import Whole, balanced_assignment
from peerveil.data.events import Events
from peerveil.data.labels import Labels
from peerveil.data.rankings import Rankings
from peerveil.data.reviews import Reviews
from peerveil.data.table import read_only
from peerveil.data.writing import write_frame

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

Floats = np.ndarray[Any, np.dtype[np.float64]]

_BATCH = 300.0  # seconds: posts of one person this close are a batch
_TYPICAL_PAUSE, _LONGEST_PAUSE = 120.0, 3600.0  # seconds between posts of a sitting
_QUICK = 0.8  # of the pauses in a sitting, the share below five minutes (where the rates allow it)
_README = """# A synthetic conference

Made by `peerveil.data.synthetic_conference` with seed {seed}. **Nobody in these files exists.**

{summary}

`reviews`, `events`, `rankings` and `labels` are what a platform would hold; the files that begin with `truth` are what
nobody would know: the papers' quality and right answer, the reviewers' scale, bias and skill, and who wrote what in
which sitting.
"""


@dataclass(frozen=True, eq=False)
class HiddenTruth:
    """What the tables were made from.

    Attributes
    ----------
    papers : polars.DataFrame
        paper, quality (standard normal), answer (the right class of the crowd's question)
    reviewers : polars.DataFrame
        reviewer, scale, bias, ability (the chance of a right answer, averaged over classes)
    confusion : array (reviewers, classes, classes)
        the chance that a reviewer answers the second index when the first is right; read-only
    sittings : polars.DataFrame
        event, sitting: events with one sitting were written in one go
    noise : float
        standard deviation of what no model explains in a score
    """

    papers: pl.DataFrame
    reviewers: pl.DataFrame
    confusion: Floats
    sittings: pl.DataFrame
    noise: float


@dataclass(frozen=True)
class SyntheticConference:
    """Four consistent tables and the truth behind them; ``synthetic`` is always True."""

    reviews: Reviews
    events: Events
    rankings: Rankings
    labels: Labels
    truth: HiddenTruth = field(compare=False)
    seed: int

    synthetic: ClassVar[bool] = True

    def __str__(self) -> str:
        tables = (self.reviews, self.events, self.rankings, self.labels)
        return "\n".join(["synthetic conference (nobody in it exists)", *(f"  {table}" for table in tables)])

    def write(self, folder: str | os.PathLike[str], format: str = "csv") -> Path:  # noqa: A002
        """Write the four tables, the truth and a README that says what they are; returns the folder."""
        if format not in ("csv", "tsv", "jsonl", "parquet"):
            raise BadInput("format", got=format, want="csv, tsv, jsonl or parquet")
        target = Path(folder)
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput("folder", got=str(folder), want=f"a folder ({error.strerror})") from error
        for name in ("reviews", "events", "rankings", "labels"):
            getattr(self, name).write(target / f"{name}.{format}")
        for name in ("papers", "reviewers", "sittings"):
            write_frame(getattr(self.truth, name), target / f"truth_{name}.{format}")
        tables = (self.reviews, self.events, self.rankings, self.labels)
        text = _README.format(seed=self.seed, summary="\n".join(f"- {table}" for table in tables))
        write_text(target / "README.md", text)
        return target


def synthetic_conference(
    papers: int = 200,
    reviewers: int = 150,
    reviews_per_paper: int | Sequence[int] = 3,
    *,
    scale: tuple[int, int] = (1, 10),
    criteria: Sequence[str] = ("soundness", "presentation", "contribution"),
    criteria_scale: tuple[int, int] = (1, 4),
    criteria_noise: float = 0.4,
    bias: float = 0.3,
    stretch: float = 0.2,
    noise: float = 0.5,
    comments_per_review: float = 0.5,
    reply_rate: float = 0.8,
    batch_rate: float = 0.3,
    days: float = 60.0,
    start: datetime = datetime(2026, 1, 5, tzinfo=UTC),
    ranked_items: int = 10,
    ranking_noise: float = 0.5,
    tasks: int | None = None,
    answers_per_task: int = 5,
    classes: int = 2,
    ability: tuple[float, float] = (0.55, 0.95),
    gold_rate: float = 0.1,
    seed: int = 0,
    people_seed: int | None = None,
) -> SyntheticConference:
    """Make a conference out of nothing, the same one for the same seed.

    Parameters
    ----------
    papers, reviewers
        how many of each
    reviews_per_paper
        one number for all, or one a paper; loads of reviewers differ by at most one
    scale
        lowest and highest overall score, whole numbers
    criteria, criteria_scale, criteria_noise
        names, range and noise of the scores on criteria; each rises with
        what the reviewer thinks of the paper
    bias, stretch
        how much reviewers differ in mean (standard deviation) and in range (of its logarithm)
    noise
        standard deviation of the rest; quality has standard deviation 1
    comments_per_review
        mean number of comments that follow a review, by its author on its paper
    reply_rate
        share of comments that answer the post before them in the thread
    batch_rate
        chance that a reviewer's next post follows within five minutes
    days, start
        the period; sittings are spread evenly over it
    ranked_items, ranking_noise
        how many papers every reviewer puts in order, and how noisily
    tasks
        how many papers the crowd's question is asked about (all unless given)
    answers_per_task, classes
        answers a task, each by another reviewer, and how many classes there are
    ability
        lowest and highest chance of a right answer
    gold_rate
        share of tasks whose right answer is in the labels' truth column
    people_seed
        two conferences with the same one have the same reviewers, as strict and as lenient in both: last year's and this
        year's

    Examples
    --------
    >>> conference = synthetic_conference(papers=20, reviewers=15, seed=7)
    >>> print(conference.reviews)
    60 reviews of 20 papers by 15 reviewers; scores 1 to 10, mean 6.15; criteria soundness, presentation, \
contribution; 2026-01-05 to 2026-03-03
    >>> conference.synthetic, conference == synthetic_conference(papers=20, reviewers=15, seed=7)
    (True, True)
    """
    _whole("papers", papers, 1)
    _whole("reviewers", reviewers, 1)
    demand = _demand(reviews_per_paper, papers)
    for name, value in (("bias", bias), ("stretch", stretch), ("noise", noise), ("criteria_noise", criteria_noise)):
        _number(name, value, 0.0, np.inf)
    for name, value in (("batch_rate", batch_rate), ("reply_rate", reply_rate), ("gold_rate", gold_rate)):
        _number(name, value, 0.0, 1.0)
    _number("comments_per_review", comments_per_review, 0.0, 1_000.0)
    _number("ranking_noise", ranking_noise, 0.0, np.inf)
    _number("days", days, 0.01, 100_000.0)
    _whole("seed", seed, 0)
    # a stream a table: changing the size of one leaves the others as they were
    streams = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(6)]
    names = _names("paper", papers)
    people = _names("reviewer", reviewers)
    quality = streams[0].standard_normal(papers)
    lengths = np.exp(stretch * streams[0].standard_normal(reviewers))
    shifts = bias * streams[0].standard_normal(reviewers)
    if people_seed is not None:
        _whole("people_seed", people_seed, 0)
        people_stream = np.random.default_rng([people_seed, 1])
        lengths = np.exp(stretch * people_stream.standard_normal(reviewers))
        shifts = bias * people_stream.standard_normal(reviewers)

    paper, person = balanced_assignment(demand, reviewers, streams[1])
    seen = lengths[person] * quality[paper] + shifts[person] + noise * streams[1].standard_normal(len(paper))
    score = _graded(seen, scale, "scale")
    graded = {
        name: _graded(seen + criteria_noise * streams[2].standard_normal(len(paper)), criteria_scale, "criteria_scale")
        for name in criteria
    }
    posts = _posts(paper, person, comments_per_review, batch_rate, days * 86_400.0, streams[3])
    micro = _start(start) + (posts["time"] * 1e6).astype(np.int64)
    when = pl.Series("time", micro).cast(pl.Datetime("us", "UTC"))
    events, sittings = _events(posts, when, names, people, reply_rate, streams[3])
    reviews = Reviews(
        paper=names.gather(paper),
        reviewer=people.gather(person),
        score=score,
        criteria=graded,
        time=when.gather(np.argsort(posts["review"], kind="stable")[: len(paper)]),
    )
    rankings = _rankings(quality, names, reviewers, ranked_items, ranking_noise, streams[4])
    right, labels, confusion = _labels(
        quality, names, people, tasks, answers_per_task, classes, ability, gold_rate, streams[5]
    )
    truth = HiddenTruth(
        pl.DataFrame({"paper": names, "quality": quality, "answer": right}),
        pl.DataFrame(
            {
                "reviewer": people,
                "scale": lengths,
                "bias": shifts,
                "ability": confusion[:, range(classes), range(classes)].mean(axis=1),
            }
        ),
        read_only(confusion),
        sittings,
        float(noise),
    )
    return SyntheticConference(reviews, events, rankings, labels, truth, seed)


def _posts(
    paper: Whole, person: Whole, comments: float, batch_rate: float, seconds: float, rng: np.random.Generator
) -> dict[str, Any]:
    """Reviews and comments with times: each person's posts in sittings, reviews before comments.

    The first ``len(paper)`` posts by the column ``review`` are the reviews, in the order of the pairs.
    """
    follow = rng.poisson(comments, len(paper))
    pair = np.concatenate([np.arange(len(paper)), np.repeat(np.arange(len(paper)), follow)])
    is_comment = np.arange(len(pair)) >= len(paper)
    order = np.lexsort((rng.random(len(pair)), is_comment, person[pair]))
    pair, is_comment = pair[order], is_comment[order]
    who = person[pair]
    joined = np.zeros(len(pair), dtype=np.bool_)
    sitting_rate = min(1.0, batch_rate / _QUICK)
    joined[1:] = (who[1:] == who[:-1]) & (rng.random(len(pair) - 1) < sitting_rate)
    sitting = np.cumsum(~joined) - 1
    gap = np.where(joined, _pauses(len(pair), batch_rate / max(sitting_rate, 1e-300), rng), 0.0)
    passed = np.cumsum(gap)
    opening = np.flatnonzero(~joined)
    offset = passed - passed[opening][sitting]
    owner = who[opening]
    length = np.zeros(len(opening))
    np.maximum.at(length, sitting, offset)
    # sittings of one person are evenly spread and never overlap: draw the idle time, then add the busy time
    first = np.searchsorted(owner, owner)
    before = np.cumsum(length) - length
    busy = before - before[first]
    total = np.bincount(owner, weights=length)[owner]
    idle = rng.random(len(opening))
    idle = idle[np.lexsort((idle, owner))] * np.maximum(seconds - total, 0.0)
    time = (idle + busy)[sitting] + offset
    review = np.where(is_comment, len(paper), pair)
    return {"pair": pair, "review": review, "time": time, "sitting": sitting, "paper": paper[pair], "person": who}


def _pauses(count: int, quick: float, rng: np.random.Generator) -> Floats:
    """Seconds between two posts of a sitting: log-normal around two minutes, a share ``quick`` of them below five."""
    edge, longest = (np.log(np.array([_BATCH, _LONGEST_PAUSE]) / _TYPICAL_PAUSE)).tolist()
    below, end = ndtr(edge), ndtr(longest)
    share = np.where(rng.random(count) < quick, rng.uniform(0, below, count), rng.uniform(below, end, count))
    pauses: Floats = _TYPICAL_PAUSE * np.exp(ndtri(share))
    return np.maximum(pauses, 1.0)


def _events(
    posts: dict[str, Any],
    when: pl.Series,
    names: pl.Series,
    people: pl.Series,
    reply_rate: float,
    rng: np.random.Generator,
) -> tuple[Events, pl.DataFrame]:
    """The posts as events. Ids are drawn and say nothing about the order; ``number`` does, as on platforms."""
    size = len(when)
    ids = pl.Series("id", [f"post-{number:0{len(str(size))}d}" for number in rng.permutation(size).tolist()])
    order = np.lexsort((posts["time"], posts["paper"]))
    thread = posts["paper"][order]
    opens = np.ones(size, dtype=np.bool_)
    opens[1:] = thread[1:] != thread[:-1]
    number = np.empty(size, dtype=np.int64)
    number[order] = np.arange(size) - np.flatnonzero(opens)[np.cumsum(opens) - 1] + 1
    before = np.full(size, -1)
    before[order[1:]] = np.where(opens[1:], -1, order[:-1])
    is_comment = posts["review"] == posts["review"].max() if (posts["review"] > posts["pair"]).any() else None
    comment = np.zeros(size, dtype=np.bool_) if is_comment is None else is_comment
    replies = (before >= 0) & comment & (rng.random(size) < reply_rate)
    parent = ids.gather(np.where(replies, before, 0)).set(pl.Series(~replies), None)
    events = Events(
        actor=people.gather(posts["person"]),
        thread=names.gather(posts["paper"]),
        time=when,
        id=ids,
        reply_to=parent,
        extra={"number": number},
    )
    return events, pl.DataFrame({"event": ids, "sitting": posts["sitting"]})


def _rankings(
    quality: Floats, names: pl.Series, reviewers: int, items: int, noise: float, rng: np.random.Generator
) -> Rankings:
    """Every reviewer's order of the same papers, best first."""
    _whole("ranked_items", items, 1, len(quality))
    chosen = np.sort(rng.permutation(len(quality))[:items])
    perceived = quality[chosen] + noise * rng.standard_normal((reviewers, items))
    ranks = np.argsort(np.argsort(-perceived, axis=1), axis=1)
    return Rankings(ranks, items=names.gather(chosen).to_list())


def _labels(
    quality: Floats,
    names: pl.Series,
    people: pl.Series,
    tasks: int | None,
    answers: int,
    classes: int,
    ability: tuple[float, float],
    gold_rate: float,
    rng: np.random.Generator,
) -> tuple[Whole, Labels, Floats]:
    """Which part of the field is this paper in? Answered with each person's confusion matrix."""
    number = len(quality) if tasks is None else tasks
    _whole("tasks", number, 1, len(quality))
    _whole("answers_per_task", answers, 1)
    _whole("classes", classes, 2)
    low, high = ability
    _number("ability[0]", low, 0.0, 1.0)
    _number("ability[1]", high, low, 1.0)
    place = np.argsort(np.argsort(quality))
    right = (place * classes) // len(quality)
    skill = rng.uniform(low, high, len(people))
    diagonal = np.clip(skill[:, None] + rng.uniform(-0.05, 0.05, (len(people), classes)), low, high)
    confusion = rng.dirichlet(np.full(classes, 2.0), (len(people), classes))
    confusion[:, range(classes), range(classes)] = 0.0
    confusion *= ((1.0 - diagonal) / confusion.sum(axis=2))[:, :, None]
    confusion[:, range(classes), range(classes)] = diagonal
    chosen = np.sort(rng.permutation(len(quality))[:number])
    task, worker = balanced_assignment(np.full(number, answers), len(people), rng, what="answers_per_task")
    asked = right[chosen[task]]
    bounds = np.cumsum(confusion[worker, asked], axis=1)
    answer = np.minimum((rng.random(len(task))[:, None] >= bounds).sum(axis=1), classes - 1)
    known = rng.random(number) < gold_rate
    truth = pl.Series("truth", asked).set(pl.Series(~known[task]), None)
    labels = Labels(
        task=names.gather(chosen[task]), worker=people.gather(worker), label=answer.astype(np.int64), truth=truth
    )
    return right, labels, confusion


def _graded(seen: Floats, scale: tuple[int, int], argument: str) -> Floats:
    """Impressions as whole scores: the middle of the scale is average, its ends two and a half deviations out."""
    if len(scale) != 2 or scale[0] >= scale[1]:
        raise BadInput(argument, got=scale, want="a lowest and a highest score")
    low, high = scale
    return np.clip(np.rint((low + high) / 2 + seen * (high - low) / 5.0), low, high)


def _demand(reviews_per_paper: int | Sequence[int], papers: int) -> Whole:
    demand = np.asarray(reviews_per_paper)
    if demand.dtype.kind not in "iu" or (demand < 1).any() or demand.ndim > 1:
        raise BadInput("reviews_per_paper", got=reviews_per_paper, want="a whole number of at least 1, or one a paper")
    if demand.ndim == 1 and len(demand) != papers:
        raise BadInput("reviews_per_paper", got=reviews_per_paper, want=f"{papers} numbers, one a paper")
    return np.broadcast_to(demand, (papers,)).astype(np.int64)


def _start(start: datetime) -> int:
    if not isinstance(start, datetime) or start.tzinfo is None:
        raise BadInput("start", got=start, want="a datetime with a time zone")
    return int(start.timestamp()) * 1_000_000


def _names(what: str, count: int) -> pl.Series:
    width = len(str(count))
    return pl.Series(what, [f"{what}-{number:0{width}d}" for number in range(1, count + 1)])


def _whole(argument: str, value: object, low: int, high: int | None = None) -> None:
    bound = f"from {low} to {high}" if high is not None else f"of at least {low}"
    good = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not good or value < low or (high is not None and value > high):  # type: ignore[operator]
        raise BadInput(argument, got=value, want=f"a whole number {bound}")


def _number(argument: str, value: object, low: float, high: float) -> None:
    good = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not good or not low <= value <= high or not np.isfinite(float(value)):  # type: ignore[operator, arg-type]
        raise BadInput(argument, got=value, want=f"a number from {low:g} to {high:g}")
