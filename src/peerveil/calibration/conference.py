"""A whole conference: find where the decision depends on who reviewed, and protect that.

Papers are grouped by what is public (their order and number of reviews), a few a group. The candidate assignments of a
group are all ways to exchange its committees. In most groups a paper's better side of the line is the same whoever
reviewed it: such papers are *settled*, decided as usual, and leak nothing. The other papers of a group form a cluster,
solved as a panel with a threshold.

**What is assumed of the adversary**: knows the groups, the committees that sit in them, all functions and the noise,
and holds every exchange within a group equally likely, independently of other groups.

**What composes.** Qualities and exchanges of different groups are independent, and functions are known, so the
posterior
of the whole assignment is the product of the groups'. Therefore (1) the promise for a review is not weakened by the
decisions of other groups; (2) the expected number of writers guessed right is the sum over reviews of one minus their
errors; (3) the chance to guess every group is the product of the groups' chances.

**What does not.** (1) An adversary who *picks* the review to attack after seeing all decisions does better than on a
review fixed before. (2) A reviewer in several groups is linked if any of them is. (3) Functions that are uncertain and
shared between groups make groups dependent. (4) A quota for the whole conference would let one group's assignment move
another's decision: the line is therefore fixed before, from the prior. (5) A group of one paper hides nobody.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from peerveil.calibration.assignments import committees_exchanged
from peerveil.calibration.checks import noise_level, number, quality_prior, whole
from peerveil.calibration.functions import Affine, Monotone
from peerveil.calibration.panel import Panel, Threshold
from peerveil.calibration.strategy import guess_errors
from peerveil.errors import BadInput
from peerveil.files import write_text
from peerveil.guarantee import Guarantee
from peerveil.judgements import Reviews
from peerveil.progress import progress_bar
from peerveil.randomness import Randomness
from peerveil.result import Result

if TYPE_CHECKING:
    import os
    from collections.abc import Hashable, Iterator

    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class Group:
    """Papers whose committees could have been exchanged. ``panel`` is public; ``true`` stays with the chair."""

    papers: tuple[Any, ...]
    reviewers: tuple[Any, ...]
    panel: Panel
    true: int


@dataclass(frozen=True, kw_only=True)
class ConferenceDecision(Result):
    """Decisions for every paper. ``decisions`` may be published; ``chair`` must not.

    Attributes
    ----------
    decisions : polars.DataFrame
        ``paper``, ``accepted``: for everybody.
    chair : polars.DataFrame
        A row a review: ``group``, ``paper``, ``reviewer``, ``settled``, ``adversary_error``, ``from_scores``. It
        names reviewers: for the chair alone.
    conference_error : float
        The expected share of papers on the wrong side of the line.
    asked : float
        The adversary error that was asked for.
    """

    decisions: pl.DataFrame
    chair: pl.DataFrame
    conference_error: float
    least_error: float
    asked: float

    def summary(self) -> str:
        """How many are accepted, what is settled, what is protected how well."""
        accepted, papers = int(self.decisions["accepted"].sum()), self.decisions.height
        settled = self.chair.unique("paper")["settled"].sum()
        met = int((self.chair["adversary_error"] >= self.asked - 1e-9).sum())
        return (
            f"{accepted} of {papers} papers accepted; {settled} settled whoever reviewed them; "
            f"expected error {self.conference_error:.4f} (at least {self.least_error:.4f}); "
            f"{met} of {self.chair.height} reviews protected as asked, the others as far as their scores allow; "
            f"expected number of writers guessed right {float((1 - self.chair['adversary_error']).sum()):.1f}"
        )

    def to_dict(self) -> dict[str, Any]:
        """What may be published, and nothing else: the chair's table is left out on purpose."""
        return {
            "decisions": self.decisions.to_dicts(),
            "conference_error": self.conference_error,
            "guarantee": self.guarantee.to_dict(),
            "guarantee_in_words": str(self.guarantee),
            "mark": self.mark,
        }

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """``public/`` may be published; ``chair/`` must stay with the chair (readable by its owner alone)."""
        where = Path(folder)
        mark = f"# {self.mark}\n" if self.mark else ""
        write_text(where / "public" / "decisions.csv", mark + self.decisions.write_csv())
        write_text(where / "public" / "decisions.json", json.dumps(self.to_dict(), indent=2, allow_nan=False))
        secret = where / "chair"
        secret.mkdir(parents=True, exist_ok=True, mode=0o700)
        secret.chmod(0o700)
        write_text(secret / "sheet.csv", self.chair.write_csv())
        write_text(secret / "README", "Names reviewers: for the chair alone. What may be published is in ../public.\n")
        return where

    def draw(self, ax: Axes) -> None:
        """How well reviews are protected, sorted, against what the scores alone leave."""
        from peerveil.calibration.figures import draw_conference

        draw_conference(ax, self)


class Conference:
    """A conference with an accept line.

    Parameters
    ----------
    reviews
        Who scored which paper: stays with the chair. Scores are assumed public.
    reviewers
        A function for every reviewer; public.
    noise
        The standard deviation of scores.
    accept
        The line.
    size
        How many papers a group has at most, 2 to 6.
    prior
        Mean and standard deviation of qualities.

    Examples
    --------
    >>> reviews = Reviews(paper=[1, 2, 3, 4], reviewer=["ann", "bo", "cy", "di"], score=[0.9, 0.4, 0.7, -1.0])
    >>> people = {"ann": Affine(1, 0.6), "bo": Affine(1, -0.5), "cy": Affine(1, 0.3), "di": Affine(1, 0.0)}
    >>> conference = Conference(reviews, people, noise=0.3, accept=Threshold(0.5), size=4)
    >>> decision = conference.decide(adversary_error=0.6, randomness=Randomness.simulation(1))
    >>> decision.decisions.height, decision.decisions["accepted"][3]
    (4, False)
    """

    def __init__(
        self,
        reviews: Reviews,
        reviewers: Mapping[Any, Affine | Monotone],
        noise: float,
        accept: Threshold,
        *,
        size: int = 5,
        prior: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        if not isinstance(reviews, Reviews):
            raise BadInput("reviews", got=reviews, want="Reviews")
        reviews.require_reviewers("exchanging committees")
        if not isinstance(accept, Threshold):
            raise BadInput("accept", got=accept, want="a Threshold: a quota for all would link the groups")
        if not isinstance(reviewers, Mapping):
            raise BadInput("reviewers", got=reviewers, want="a mapping of reviewers to functions")
        people = reviews.frame["reviewer"].unique().to_list()
        missing = sorted(str(one) for one in people if not isinstance(reviewers.get(one), Affine | Monotone))
        if missing:
            raise BadInput(f"reviewers[{missing[0]!r}]", got=reviewers.get(missing[0]), want="an Affine or a Monotone")
        self.reviews, self.reviewers, self.accept = reviews, reviewers, accept
        self.noise, self.prior = noise_level(noise), quality_prior(prior)
        self.size = whole("size", size, 2, 6)
        self._papers = self._read()
        self._plan = self._grouped()

    def _read(self) -> dict[Hashable, tuple[tuple[Any, ...], tuple[float, ...]]]:
        frame = self.reviews.frame.sort("paper", maintain_order=True)
        table = frame.group_by("paper", maintain_order=True).agg("reviewer", "score")
        return {row["paper"]: (tuple(row["reviewer"]), tuple(row["score"])) for row in table.iter_rows(named=True)}

    def _grouped(self) -> list[tuple[Hashable, ...]]:
        """Papers with equally many reviews, in the order of their ids, split evenly."""
        by_count: dict[int, list[Hashable]] = {}
        for paper, (committee, _) in self._papers.items():
            by_count.setdefault(len(committee), []).append(paper)
        plan = []
        for papers in by_count.values():
            parts = math.ceil(len(papers) / self.size)
            plan += [tuple(papers[i * len(papers) // parts : (i + 1) * len(papers) // parts]) for i in range(parts)]
        return plan

    def __len__(self) -> int:
        return len(self._plan)

    def groups(self) -> Iterator[Group]:
        """Every group with its panel. Candidates are sorted: their order says nothing about the true one."""
        for papers in self._plan:
            committees = [self._papers[paper][0] for paper in papers]
            people = tuple(sorted({one for committee in committees for one in committee}, key=str))
            place = {one: index for index, one in enumerate(people)}
            numbered = [tuple(place[one] for one in committee) for committee in committees]
            true = tuple(one for committee in numbered for one in committee)
            candidates = sorted(committees_exchanged(numbered))
            panel = Panel(
                [list(self._papers[paper][1]) for paper in papers],
                [self.reviewers[one] for one in people],
                self.noise,
                self.accept,
                candidates,
                prior=self.prior,
            )
            yield Group(papers, people, panel, candidates.index(true))

    def decide(
        self, *, adversary_error: float, randomness: Randomness, progress: bool | None = None
    ) -> ConferenceDecision:
        """Decide everything: every review as well protected as asked, or as its scores allow."""
        asked = number("adversary_error", adversary_error, low=0.0, high=1.0, want="a probability")
        if not isinstance(randomness, Randomness):
            raise BadInput("randomness", got=randomness, want="Randomness.secure(), or Randomness.simulation(seed)")
        accepted: dict[Hashable, bool] = {}
        rows: list[tuple[Any, ...]] = []
        error = least = 0.0
        weakest = 1.0
        with progress_bar("deciding groups", len(self), show=progress) as advance:
            for index, group in enumerate(self.groups()):
                panel, count = group.panel, len(group.papers)
                if panel.pivotal:
                    strategy = panel.strategy(adversary_error=asked, capped=True)
                    chosen = set(strategy.decide(group.true, randomness).accepted)
                    caught, paid = strategy.review_errors, strategy.conference_error
                else:
                    chosen = set(panel.decisions[0])
                    paid = float(panel.posterior @ panel.errors[:, 0])
                    caught = ceilings(panel)
                left = ceilings(panel)
                error += paid * count
                least += float(panel.posterior @ panel.errors.min(axis=1)) * count
                weakest = min(weakest, float(caught.min()))
                place = 0
                for paper, name in enumerate(group.papers):
                    accepted[name] = paper in chosen
                    for who in self._papers[name][0]:
                        settled = paper not in panel.pivotal
                        rows.append((index, name, who, settled, float(caught[place]), float(left[place])))
                        place += 1
                advance(1)
        names = ("group", "paper", "reviewer", "settled", "adversary_error", "from_scores")
        promise = Guarantee.map_error(
            max(0.0, math.floor((min(weakest, 1 - 1e-9) - 1e-12) * 1e12) / 1e12),
            unit="the writer of one review (chosen before the decisions are known)",
            neighbours=f"every exchange of committees within groups of at most {self.size} papers, likely as the "
            "published scores make them under the stated miscalibration functions and noise",
        )
        return ConferenceDecision(
            guarantee=randomness.stamp(promise),
            decisions=pl.DataFrame({"paper": list(self._papers), "accepted": [accepted[p] for p in self._papers]}),
            chair=pl.DataFrame(rows, schema=list(names), orient="row"),
            conference_error=error / len(self._papers),
            least_error=least / len(self._papers),
            asked=asked,
        )


def ceilings(panel: Panel) -> np.ndarray[Any, np.dtype[np.float64]]:
    """What the scores alone leave of each review's secret, without building a linear program."""
    same = np.ones((len(panel.assignments), 1))
    return guess_errors(panel.assignments, panel.posterior, same, panel.adversary)
