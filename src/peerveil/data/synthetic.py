"""A synthetic conference: reviews, events, rankings and labels of the same people on the same papers.

Papers have a true quality. Reviewers stretch and shift what they see (scale and bias), write in sittings, rank a shared
set of papers and answer questions about papers with their own skill. All four tables come from one hidden truth,
which is kept beside them, so that a method can be told how right it was.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import numpy as np
import polars as pl

from peerveil.core.arrays import Floats, Ints
from peerveil.core.errors import BadInput, one_of
from peerveil.core.exact import number, whole
from peerveil.core.files import write_text
from peerveil.data import simulation
from peerveil.data.events import Events
from peerveil.data.labels import Labels
from peerveil.data.rankings import Rankings
from peerveil.data.reviews import Reviews
from peerveil.data.table import Table, read_only, write_frame
from peerveil.data.times import check_moment

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

    @property
    def _tables(self) -> dict[str, Table]:
        return {name: getattr(self, name) for name in ("reviews", "events", "rankings", "labels")}

    def __str__(self) -> str:
        lines = [f"  {table}" for table in self._tables.values()]
        return "\n".join(["synthetic conference (nobody in it exists)", *lines])

    def write(self, folder: str | os.PathLike[str], format: str = "csv") -> Path:  # noqa: A002
        """Write the four tables, the truth and a README that says what they are; returns the folder."""
        one_of(format, "format", ("csv", "tsv", "jsonl", "parquet"))
        target = Path(folder)
        for name, table in self._tables.items():
            table.write(target / f"{name}.{format}")
        for name in ("papers", "reviewers", "sittings"):
            write_frame(getattr(self.truth, name), target / f"truth_{name}.{format}")
        summary = "\n".join(f"- {table}" for table in self._tables.values())
        write_text(target / "README.md", _README.format(seed=self.seed, summary=summary))
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
        one number for all, or one per paper; loads of reviewers differ by at most one
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
        answers per task, each by another reviewer, and how many classes there are
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
    demand = _demand(reviews_per_paper, whole(papers, "papers", 1))
    whole(reviewers, "reviewers", 1)
    whole(seed, "seed", 0)
    asked = whole(papers if tasks is None else tasks, "tasks", 1, papers)
    whole(ranked_items, "ranked_items", 1, papers)
    whole(answers_per_task, "answers_per_task", 1)
    whole(classes, "classes", 2)
    deviations = {"bias": bias, "stretch": stretch, "noise": noise, "criteria_noise": criteria_noise}
    for name, value in {**deviations, "ranking_noise": ranking_noise}.items():
        number(value, name, 0.0)
    rates = {"batch_rate": batch_rate, "reply_rate": reply_rate, "gold_rate": gold_rate, "ability[0]": ability[0]}
    for name, value in rates.items():
        number(value, name, 0.0, 1.0)
    number(ability[1], "ability[1]", ability[0], 1.0)
    number(comments_per_review, "comments_per_review", 0.0, 1_000.0)
    number(days, "days", 0.01, 100_000.0)
    # one stream per table: changing the size of one leaves the others as they were
    people_rng, review_rng, criteria_rng, post_rng, ranking_rng, label_rng = map(
        np.random.default_rng, np.random.SeedSequence(seed).spawn(6)
    )
    names, people = _names("paper", np.arange(papers) + 1), _names("reviewer", np.arange(reviewers) + 1)
    quality = people_rng.standard_normal(papers)
    if people_seed is not None:
        people_rng = np.random.default_rng([whole(people_seed, "people_seed", 0), 1])
    lengths = np.exp(stretch * people_rng.standard_normal(reviewers))
    shifts = bias * people_rng.standard_normal(reviewers)

    paper, person = simulation.balanced_assignment(demand, reviewers, review_rng)
    impressions = lengths[person] * quality[paper] + shifts[person] + noise * review_rng.standard_normal(len(paper))
    criterion_impressions = {
        name: impressions + criteria_noise * criteria_rng.standard_normal(len(paper)) for name in criteria
    }
    posts = simulation.draw_posts(paper, person, comments_per_review, batch_rate, days * 86_400.0, post_rng)
    moments = int(check_moment(start, "start").timestamp()) * 1_000_000 + (posts.seconds * 1e6).astype(np.int64)
    times = pl.Series(moments).cast(pl.Datetime("us", "UTC"))
    # ids say nothing about the order; the number in the thread does, as on platforms
    ids = _names("post", post_rng.permutation(len(times)))
    places, before = simulation.thread_order(posts)
    replies = (before >= 0) & posts.is_comment & (post_rng.random(len(times)) < reply_rate)
    events = Events(
        actor=people.gather(posts.person),
        thread=names.gather(posts.paper),
        time=times,
        id=ids,
        reply_to=ids.gather(np.where(replies, before, 0)).set(pl.Series(~replies), None),
        extra={"number": places},
    )
    reviews = Reviews(
        paper=names.gather(paper),
        reviewer=people.gather(person),
        score=simulation.graded(impressions, scale, "scale"),
        criteria={
            name: simulation.graded(impression, criteria_scale, "criteria_scale")
            for name, impression in criterion_impressions.items()
        },
        time=times.gather(posts.reviews()),
    )
    ranked = np.sort(ranking_rng.permutation(papers)[:ranked_items])
    ranks = simulation.draw_ranks(quality[ranked], reviewers, ranking_noise, ranking_rng)
    rankings = Rankings(ranks, items=names.gather(ranked).to_list())

    # the crowd's question: which part of the field is this paper in?
    answer = (np.argsort(np.argsort(quality)) * classes) // papers
    confusion = simulation.draw_confusion(reviewers, classes, ability, label_rng)
    questions = np.sort(label_rng.permutation(papers)[:asked])
    demand = np.full(asked, answers_per_task)
    task, worker = simulation.balanced_assignment(demand, reviewers, label_rng, what="answers_per_task")
    correct = answer[questions[task]]
    label = simulation.draw_answers(confusion, worker, correct, label_rng)
    is_gold = label_rng.random(asked) < gold_rate
    labels = Labels(
        task=names.gather(questions[task]),
        worker=people.gather(worker),
        label=label.astype(np.int64),
        truth=pl.Series("truth", correct).set(pl.Series(~is_gold[task]), None),
    )
    skills = confusion[:, range(classes), range(classes)].mean(axis=1)
    truth = HiddenTruth(
        pl.DataFrame({"paper": names, "quality": quality, "answer": answer}),
        pl.DataFrame({"reviewer": people, "scale": lengths, "bias": shifts, "ability": skills}),
        read_only(confusion),
        pl.DataFrame({"event": ids, "sitting": posts.sitting}),
        float(noise),
    )
    return SyntheticConference(reviews, events, rankings, labels, truth, seed)


def _demand(reviews_per_paper: int | Sequence[int], papers: int) -> Ints:
    demand = np.asarray(reviews_per_paper)
    if demand.dtype.kind not in "iu" or (demand < 1).any() or demand.shape not in ((), (papers,)):
        want = f"a whole number of at least 1, or {papers} of them, one per paper"
        raise BadInput("reviews_per_paper", got=reviews_per_paper, want=want)
    return np.broadcast_to(demand, (papers,)).astype(np.int64)


def _names(noun: str, numbers: Ints) -> pl.Series:
    width = len(str(len(numbers)))
    return pl.Series([f"{noun}-{number:0{width}d}" for number in numbers.tolist()])
