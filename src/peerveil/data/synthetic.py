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
from typing import ClassVar, NamedTuple

import numpy as np
import polars as pl

from peerveil.core.arrays import Flags, Floats, Ints
from peerveil.core.errors import BadInput, one_of
from peerveil.core.exact import number, whole
from peerveil.core.files import write_text
from peerveil.core.lazy import ndtr, ndtri
from peerveil.data.events import Events
from peerveil.data.labels import Labels
from peerveil.data.rankings import Rankings
from peerveil.data.reviews import Reviews
from peerveil.data.table import Table, read_only, write_frame
from peerveil.data.times import check_moment

_SWAP_ROUNDS = 100
_BATCH_SECONDS = 300.0  # posts of one person this close are a batch
_TYPICAL_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 120.0, 3600.0  # between posts of a sitting
_QUICK_SHARE = 0.8  # of the pauses in a sitting, the share below five minutes (where the rates allow it)
_README = """# A synthetic conference

Made by `peerveil.data.synthetic_conference` with seed {seed}. **Nobody in these files exists.**

{summary}

`reviews`, `events`, `rankings` and `labels` are what a platform would hold; the files that begin with `truth` are what
nobody would know: the papers' quality and right answer, the reviewers' scale, bias and skill, and who wrote what in
which sitting.
"""


@dataclass(frozen=True, eq=False)
class HiddenTruth:
    """What the tables were made from."""

    papers: pl.DataFrame  #: paper, quality (standard normal), answer (the right class of the crowd's question)
    reviewers: pl.DataFrame  #: reviewer, scale, bias, ability (the chance of a right answer, averaged over classes)
    confusion: Floats  #: the chance that a reviewer answers the third index when the second is right; read-only
    sittings: pl.DataFrame  #: event, sitting: events with one sitting were written in one go
    noise: float  #: standard deviation of what no model explains in a score


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
    task_count = whole(papers if tasks is None else tasks, "tasks", 1, papers)
    whole(ranked_items, "ranked_items", 1, papers)
    whole(answers_per_task, "answers_per_task", 1)
    whole(classes, "classes", 2)
    spreads = {"bias": bias, "stretch": stretch, "noise": noise, "criteria_noise": criteria_noise}
    for name, value in {**spreads, "ranking_noise": ranking_noise}.items():
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

    paper, person = balanced_assignment(demand, reviewers, review_rng)
    impressions = lengths[person] * quality[paper] + shifts[person] + noise * review_rng.standard_normal(len(paper))
    deviations = {name: criteria_noise * criteria_rng.standard_normal(len(paper)) for name in criteria}
    posts = draw_posts(paper, person, comments_per_review, batch_rate, days * 86_400.0, post_rng)
    moments = int(check_moment(start, "start").timestamp()) * 1_000_000 + (posts.seconds * 1e6).astype(np.int64)
    times = pl.Series(moments).cast(pl.Datetime("us", "UTC"))
    # ids say nothing about the order; the number in the thread does, as on platforms
    ids = _names("post", post_rng.permutation(len(times)))
    places, before = thread_order(posts)
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
        score=graded(impressions, scale, "scale"),
        criteria={name: graded(impressions + deviations[name], criteria_scale, "criteria_scale") for name in criteria},
        time=times.gather(posts.reviews()),
    )
    ranked = np.sort(ranking_rng.permutation(papers)[:ranked_items])
    views = quality[ranked] + ranking_noise * ranking_rng.standard_normal((reviewers, ranked_items))
    ranks = np.argsort(np.argsort(-views, axis=1), axis=1)
    rankings = Rankings(ranks, items=names.gather(ranked).to_list())

    # the crowd's question: which part of the field is this paper in?
    answer = (np.argsort(np.argsort(quality)) * classes) // papers
    confusion = draw_confusion(reviewers, classes, ability, label_rng)
    questions = np.sort(label_rng.permutation(papers)[:task_count])
    demand = np.full(task_count, answers_per_task)
    task, worker = balanced_assignment(demand, reviewers, label_rng, what="answers_per_task")
    correct = answer[questions[task]]
    label = draw_answers(confusion, worker, correct, label_rng)
    is_gold = label_rng.random(task_count) < gold_rate
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


def balanced_assignment(
    demand: Ints, people: int, rng: np.random.Generator, *, what: str = "reviews_per_paper"
) -> tuple[Ints, Ints]:
    """Pairs (paper, person): paper p gets ``demand[p]`` different people, and loads differ by at most one.

    >>> papers, people = balanced_assignment(np.array([2, 2, 2]), 4, np.random.default_rng(1))
    >>> sorted(np.bincount(people, minlength=4).tolist())
    [1, 1, 2, 2]
    """
    most = int(demand.max(initial=0))
    if most > people:
        raise BadInput(what, got=most, want=f"at most {people}, one per person: nobody does the same one twice")
    paper = np.repeat(np.arange(len(demand)), demand)
    slots = len(paper)
    # one shuffled list of everybody after the other: equal loads, up to one
    everybody = np.tile(np.arange(people), (-(-slots // people), 1))
    person = rng.permuted(everybody, axis=1).ravel()[:slots]
    for _ in range(_SWAP_ROUNDS):
        keys = paper * people + person
        order = np.argsort(keys, kind="stable")
        twice = order[1:][keys[order][1:] == keys[order][:-1]]  # where a pair occurs that occurred before
        if not len(twice):
            return paper, person
        for slot, other in zip(twice.tolist(), rng.integers(0, slots, len(twice)).tolist(), strict=True):
            person[slot], person[other] = person[other], person[slot]
    # too tight for chance: neighbors in a circle never meet a paper twice
    return paper, rng.permutation(people)[np.arange(slots) % people]


def graded(impressions: Floats, scale: tuple[int, int], argument: str) -> Floats:
    """Impressions as whole scores: the middle of the scale is average, its ends two and a half deviations out."""
    if len(scale) != 2 or scale[0] >= scale[1]:
        raise BadInput(argument, got=scale, want="a lowest and a highest score")
    low, high = scale
    return np.clip(np.rint((low + high) / 2 + impressions * (high - low) / 5.0), low, high)


class Posts(NamedTuple):
    """Reviews and comments, by author; ``pair`` is the place of the review's (paper, person) pair."""

    pair: Ints
    paper: Ints
    person: Ints
    is_comment: Flags
    seconds: Floats
    sitting: Ints

    def reviews(self) -> Ints:
        """The positions of the reviews, in the order of the pairs."""
        positions = np.flatnonzero(~self.is_comment)
        return positions[np.argsort(self.pair[positions])]


def draw_posts(
    paper: Ints, person: Ints, comments: float, batch_rate: float, seconds: float, rng: np.random.Generator
) -> Posts:
    """Reviews and comments with times: each person's posts in sittings, reviews before comments."""
    follow = rng.poisson(comments, len(paper))
    pair = np.concatenate([np.arange(len(paper)), np.repeat(np.arange(len(paper)), follow)])
    is_comment = np.arange(len(pair)) >= len(paper)
    order = np.lexsort((rng.random(len(pair)), is_comment, person[pair]))
    pair, is_comment = pair[order], is_comment[order]
    author = person[pair]
    joined = np.zeros(len(pair), dtype=np.bool_)
    sitting_rate = min(1.0, batch_rate / _QUICK_SHARE)
    joined[1:] = (author[1:] == author[:-1]) & (rng.random(len(pair) - 1) < sitting_rate)
    sitting = np.cumsum(~joined) - 1
    pause = np.where(joined, _pauses(len(pair), batch_rate / max(sitting_rate, 1e-300), rng), 0.0)
    passed = np.cumsum(pause)
    opening = np.flatnonzero(~joined)
    offset = passed - passed[opening][sitting]
    owner = author[opening]
    length = np.zeros(len(opening))
    np.maximum.at(length, sitting, offset)
    # sittings of one person are evenly spread and never overlap: draw the idle time, then add the busy time
    before = np.cumsum(length) - length
    busy = before - before[np.searchsorted(owner, owner)]
    total = np.bincount(owner, weights=length)[owner]
    idle = rng.random(len(opening))
    idle = idle[np.lexsort((idle, owner))] * np.maximum(seconds - total, 0.0)
    return Posts(pair, paper[pair], author, is_comment, (idle + busy)[sitting] + offset, sitting)


def _pauses(count: int, quick: float, rng: np.random.Generator) -> Floats:
    """Seconds between two posts of a sitting: log-normal around two minutes, a share ``quick`` of them below five."""
    edges = np.log(np.array([_BATCH_SECONDS, _LONGEST_PAUSE_SECONDS]) / _TYPICAL_PAUSE_SECONDS)
    below, end = ndtr(edges).tolist()
    share = np.where(rng.random(count) < quick, rng.uniform(0, below, count), rng.uniform(below, end, count))
    return np.asarray(np.maximum(_TYPICAL_PAUSE_SECONDS * np.exp(ndtri(share)), 1.0))


def thread_order(posts: Posts) -> tuple[Ints, Ints]:
    """The number of every post in its thread, from 1, and the position of the post before it, -1 for the first."""
    order = np.lexsort((posts.seconds, posts.paper))
    thread = posts.paper[order]
    opens = np.append(True, thread[1:] != thread[:-1])
    number, before = np.empty(len(order), dtype=np.int64), np.full(len(order), -1)
    number[order] = np.arange(len(order)) - np.flatnonzero(opens)[np.cumsum(opens) - 1] + 1
    before[order[1:]] = np.where(opens[1:], -1, order[:-1])
    return number, before


def draw_confusion(people: int, classes: int, ability: Sequence[float], rng: np.random.Generator) -> Floats:
    """Everybody's confusion matrix: the chance of each answer (last index) for each correct one."""
    low, high = ability
    skill = rng.uniform(low, high, people)
    diagonal = np.clip(skill[:, None] + rng.uniform(-0.05, 0.05, (people, classes)), low, high)
    confusion = rng.dirichlet(np.full(classes, 2.0), (people, classes))
    confusion[:, range(classes), range(classes)] = 0.0
    confusion *= ((1.0 - diagonal) / confusion.sum(axis=2))[:, :, None]
    confusion[:, range(classes), range(classes)] = diagonal
    return confusion


def draw_answers(confusion: Floats, worker: Ints, correct: Ints, rng: np.random.Generator) -> Ints:
    """What each worker answers where ``correct`` is right."""
    bounds = np.cumsum(confusion[worker, correct], axis=1)
    drawn = (rng.random(len(worker))[:, None] >= bounds).sum(axis=1)
    return np.asarray(np.minimum(drawn, confusion.shape[1] - 1))
