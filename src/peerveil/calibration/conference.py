"""A whole conference: find where the decision depends on who reviewed, and protect that.

Papers are grouped by what is public (their order and number of reviews), a few a group. The candidate assignments of a
group are all ways to exchange its committees. In most groups a paper's better side of the line is the same whoever
reviewed it: such papers are *settled*, decided as usual, and leak nothing. (With places, a paper is settled if enough
others of its group are better, or worse, whoever reviewed them; the side of the line alone does not settle it, see
:func:`peerveil.calibration.losses.sets_by_line`.) The other papers of a group form a cluster, solved as a panel.

**What is assumed of the adversary**: knows the groups, the committees that sit in them (in the order of their reviews),
all functions and the noise, and holds every exchange within a group equally likely, independently of other groups. With
``exchange="reviews"`` it does not know who in a committee wrote which review either; with ``exchange="single"`` it knows, for
every k, who wrote the k-th reviews of a group's papers, but not which of them.

**Three guarantees.** ``adversary_error``: the best guess of a writer errs at least that often, after every decision
(``per_decision``) or on average over decisions. ``epsilon``: differential privacy (:mod:`peerveil.calibration.quota`).
Neither: every group is decided by the scores alone, averaging over its candidates. The decision is then a function of what
is public, and gives nothing away, to anybody who already knows the groups and who sits in them.

**Groups, line, places and tables are functions of what is public.** *Proof.* A group is cut from the sorted paper ids
and their numbers of reviews. Its candidates are the orbit of the true assignment under exchanges; the orbit of every
other candidate is the same set, and it is sorted. Posterior, errors, settled papers, expected qualities and tables are
computed from scores, functions and this set alone, and so are the line and the places of a quota. The true assignment
enters once: as the row of the table from which the decision is drawn.

**A quota** (``accept`` is a number): papers are ranked by expected quality given the scores (an average over
candidates: public), the line is put between the last that fits and the next, and every group gets as many places as it
has papers above. So exactly that many papers are accepted, and no group's assignment moves another's decision. Places
that cannot move between groups cost some error; with ``exactly=False`` the same line is used without places, which
costs none, and the number accepted varies about the quota.

**What composes.** Qualities and exchanges of different groups are independent, and functions are known, so the
posterior of the whole assignment is the product of the groups'. Therefore (1) the guarantee for a review is not weakened
by the decisions of other groups; (2) the expected number of writers guessed right is the sum over reviews of one minus
their errors; (3) the chance to guess every group is the product of the groups' chances.

**What does not.** (1) On average over decisions (``per_decision=False``), an adversary who *picks* the review to attack
after seeing all decisions does better than on a review fixed before. (2) A reviewer in several groups is linked if any
of them is. (3) The best papers by the assignment, wherever they are, would let one group's assignment move another's
decision: hence places per group. (4) A group of one paper hides nobody. (5) With uncertain functions, groups are
independent if reviewers' functions are independent of each other and nobody sits in two groups; otherwise the guarantee
is about an adversary who looks at each group by itself, and says so. (6) Two runs on the same papers show two
decisions. A MAP-adversary error does not add up, so there is nothing that a ledger could debit for the second: it is
refused, and without a ledger the conference returns its first decision. With ``epsilon`` every decision is debited.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.calibration.affine import AffineScores, best_papers
from peerveil.calibration.decision import ChairSheet, ConferenceDecision
from peerveil.calibration.functions import Reviewer, Uncertain, noise_level, quality_prior
from peerveil.calibration.losses import Threshold
from peerveil.calibration.panel import Panel, PaperGroup, group_strategy
from peerveil.calibration.problem import committees_exchanged, reviews_exchanged
from peerveil.calibration.quota import QuotaLottery, decide_by_lottery
from peerveil.calibration.strategy import LIKELY_AS_SCORED, guess_guarantee, over_decisions
from peerveil.core.errors import BadInput, Verbatim, one_of
from peerveil.core.exact import Number, probability, whole
from peerveil.core.progress import progress_bar
from peerveil.core.randomness import Randomness
from peerveil.core.result import Outputs
from peerveil.data import Reviews

if TYPE_CHECKING:
    from peerveil.core.guarantee import Guarantee
    from peerveil.ledger import Account

GROUP_SIZE: Final = 5
"""Papers of a group. On synthetic conferences of 400 papers with fitted functions the best adversary names 36% of the
writers, with groups of three 52%; the conference errs no more (.084, .086), and deciding takes 0.9 s instead of 0.5 s."""
_MOST_CANDIDATES = 5_040


class Conference:
    """A conference with an accept line, or a number of papers to accept.

    Parameters
    ----------
    reviews
        Who scored which paper (Reviews, a pandas or Polars frame, or a file name): stays with the chair. Scores are
        assumed public.
    functions
        How every reviewer scores, by reviewer; public. Uncertain ones are integrated over.
    noise
        The standard deviation of scores.
    accept
        The line (a :class:`Threshold`), or how many papers to accept.
    group_size
        How many papers a group has at most, 2 to 6. Larger groups hide a writer among more people, and take longer.
    exactly
        With a number: accept exactly that many, or about as many, by the line alone.
    exchange
        ``"committees"``: the k-th of a committee wrote the k-th review of the paper that it got; ``"reviews"``: its
        members may have exchanged their reviews too; ``"single"``: the k-th reviews of papers may have been exchanged, each
        k by itself (more candidates: for small groups).
    prior
        Mean and standard deviation of qualities.
    columns
        Our names for columns that a frame or file calls otherwise: ``{"paper": "submission"}``.

    Examples
    --------
    >>> reviews = Reviews(paper=[1, 2, 3, 4], reviewer=["ann", "bo", "cy", "di"], score=[0.9, 0.4, 0.7, -1.0])
    >>> from peerveil.calibration import Affine
    >>> from peerveil.core.randomness import Randomness
    >>> people = {"ann": Affine(1, 0.6), "bo": Affine(1, -0.5), "cy": Affine(1, 0.3), "di": Affine(1, 0.0)}
    >>> conference = Conference(reviews, functions=people, noise=0.3, accept=2)
    >>> decision, sheet = conference.decide(adversary_error=0.2, capped=True, randomness=Randomness.simulation(1))
    >>> int(decision.decisions["accepted"].sum()), decision.decisions["accepted"][3]
    (2, False)
    >>> sheet.frame().columns
    ['group', 'paper', 'reviewer', 'settled', 'adversary_error', 'from_scores']
    """

    def __init__(
        self,
        reviews: Any,
        *,
        functions: Mapping[Any, Reviewer],
        noise: float,
        accept: int | Threshold,
        group_size: int = GROUP_SIZE,
        exactly: bool = True,
        exchange: str = "committees",
        prior: tuple[float, float] = (0.0, 1.0),
        columns: Mapping[str, str] | None = None,
    ) -> None:
        reviews = Reviews.of(reviews, "reviews", columns=columns)
        reviews.require_reviewers("exchanging committees")
        if not isinstance(functions, Mapping):
            raise BadInput("functions", got=functions, want="a mapping of reviewers to functions")
        for who in sorted(reviews.frame["reviewer"].unique().to_list(), key=str):
            if not isinstance(functions.get(who), Reviewer):
                want = "an Affine, a Monotone or an Uncertain"
                raise BadInput(f"functions[{who!r}]", got=functions.get(who), want=want)
        self.reviews, self.functions = reviews, functions
        self.exchange = one_of(exchange, "exchange", ("committees", "reviews", "single"))
        self.noise, self.prior = noise_level(noise), quality_prior(prior)
        self.group_size = whole(group_size, "group_size", 2, 6)
        papers = reviews.frame.sort("paper", maintain_order=True).group_by("paper", maintain_order=True)
        self._papers: dict[Hashable, tuple[list[Any], list[float]]] = {  # committee and scores of each paper
            paper: (committee, scores) for paper, committee, scores in papers.agg("reviewer", "score").iter_rows()
        }
        if not isinstance(accept, Threshold):
            accept = whole(accept, "accept", 0, len(self._papers))
        elif accept.places is not None:
            raise BadInput("accept", got=accept, want="a Threshold without places, or a number of papers")
        self.accept: int | Threshold = accept
        self.exactly = bool(exactly)
        self._plan = self._grouped()
        self._decided: tuple[Any, Outputs[ConferenceDecision, Any]] | None = None

    def _grouped(self) -> list[tuple[Hashable, ...]]:
        """Papers with equally many reviews, in the order of their ids, split evenly."""
        counts = {paper: len(committee) for paper, (committee, _) in self._papers.items()}
        plan = []
        for count in sorted(set(counts.values())):
            papers = [paper for paper in counts if counts[paper] == count]
            parts = math.ceil(len(papers) / self.group_size)
            plan += [tuple(papers[i * len(papers) // parts : (i + 1) * len(papers) // parts]) for i in range(parts)]
            largest = len(plan[-1])
            within = math.factorial(largest) * math.factorial(count) ** largest
            many = within if self.exchange == "reviews" else math.factorial(largest) ** count
            if self.exchange != "committees" and many > _MOST_CANDIDATES:
                got = Verbatim(f"{largest} papers of {count} reviews per group, {many:,} candidates")
                want = f"smaller groups (at most {_MOST_CANDIDATES:,} candidates), or exchange='committees'"
                raise BadInput("group_size", got=got, want=want)
        return plan

    def __len__(self) -> int:
        return len(self._plan)

    @property
    def alone(self) -> int:
        """How many papers share their number of reviews with no other: an exchange of committees hides nobody."""
        return sum(len(papers) == 1 for papers in self._plan)

    @cached_property
    def linked(self) -> int:
        """How many uncertain reviewers sit in several groups."""
        groups = ({who for paper in papers for who in self._papers[paper][0]} for papers in self._plan)
        seats = Counter(who for group in groups for who in group)
        return sum(n > 1 and isinstance(self.functions[who], Uncertain) for who, n in seats.items())

    @property
    def not_covered(self) -> list[str]:
        """What the guarantee does not cover, where this conference has it, in sentences."""
        sentences = {
            f"Not covered: {self.alone} papers share their number of reviews with no other paper, so that nothing hides "
            "their reviewers.": self.alone and self.exchange != "reviews",
            f"Not covered: {self.linked} reviewers sit in several groups and their strictness is uncertain, so that the "
            "scores of one group reveal something about them in another.": self.linked,
        }
        return [sentence for sentence, applies in sentences.items() if applies]

    # ---- what is public -----------------------------------------------------------------------------------------

    def _group(self, papers: tuple[Hashable, ...], rule: Threshold) -> PaperGroup:
        committees = [self._papers[paper][0] for paper in papers]
        people = tuple(sorted({who for committee in committees for who in committee}, key=str))
        index = {who: number for number, who in enumerate(people)}
        numbered = [tuple(index[who] for who in committee) for committee in committees]
        if self.exchange == "single":
            candidates = reviews_exchanged(numbered)
        else:
            candidates = committees_exchanged(numbered, within=self.exchange == "reviews")
        panel = Panel(
            [self._papers[paper][1] for paper in papers],
            [self.functions[who] for who in people],
            self.noise,
            rule,
            candidates,
            prior=self.prior,
        )
        return PaperGroup(papers, people, panel, candidates.index(tuple(who for row in numbered for who in row)))

    @cached_property
    def rules(self) -> tuple[Threshold, ...]:
        """The rule of every group: the line, and for a quota the group's places. Public, as proved above."""
        if isinstance(self.accept, Threshold):
            return (self.accept,) * len(self)
        anywhere = Threshold(self.prior[0])
        expected = []
        with progress_bar("placing the line", len(self)) as advance:
            for papers in self._plan:
                expected.append(self._group(papers, anywhere).panel.expected())
                advance(1)
        flat = np.concatenate(expected)
        order = np.argsort(-flat, kind="stable")
        inside = np.isin(np.arange(len(flat)), order[: self.accept])
        last, following = max(self.accept - 1, 0), min(self.accept, len(flat) - 1)
        line = float((flat[order[last]] + flat[order[following]]) / 2)
        groups = np.split(inside, np.cumsum([len(papers) for papers in self._plan])[:-1])
        return tuple(Threshold(line, places=int(group.sum()) if self.exactly else None) for group in groups)

    def groups(self, chosen: Sequence[int] | None = None) -> Iterator[PaperGroup]:
        """Every group, or the chosen ones, with its panel; candidates are sorted."""
        for index in range(len(self)) if chosen is None else chosen:
            yield self._group(self._plan[index], self.rules[index])

    # ---- the mechanism ------------------------------------------------------------------------------------------

    def decide(
        self,
        *,
        adversary_error: float | None = None,
        epsilon: Number | None = None,
        per_decision: bool = True,
        capped: bool = False,
        randomness: Randomness | None = None,
        account: Account | None = None,
        progress: bool | None = None,
    ) -> Outputs[ConferenceDecision, Any]:
        """Decide everything, once. With neither of the first two: by the scores alone, which gives nothing away.

        Parameters
        ----------
        adversary_error
            How often the best guess of a review's writer shall be wrong, for every review.
        epsilon
            Instead: differential privacy for an exchange of two reviews. Needs a number of papers to accept, exactly.
        per_decision
            With an adversary error: after every decision that can be taken, or only on average over decisions. (The average
            gains 3% more on synthetic conferences, but 82 of 131 random panels then name somebody for certain now and then.)
        capped
            With an adversary error: where the scores of a review leave less, protect it as far as they allow, instead of
            refusing.
        randomness
            Secure unless given.
        account
            An account of a ledger, debited or written to before anything is drawn. An adversary error holds for one decision: a
            second one of the same reviews is refused (:class:`peerveil.ledger.DataBound`). Without an account this object returns
            its first decision again, and refuses other settings; of other objects it knows nothing.
        progress
            Whether to show a bar; ``None`` shows it on a terminal.

        Returns
        -------
        Outputs
            ``public``, the decisions, and ``operator``, the sheet for the chair alone.
        """
        randomness = Randomness.of(randomness)
        if adversary_error is not None and epsilon is not None:
            raise BadInput("epsilon", got=epsilon, want="no adversary_error beside it: one guarantee for one decision")
        demand = None if adversary_error is None else probability(adversary_error, "adversary_error")
        settings = (demand, epsilon, per_decision, capped)
        if account is None and randomness.is_secure and self._decided is not None:
            first, outputs = self._decided
            if first != settings:
                want = f"what was first decided with, {first}: a second decision of the same reviews reveals more"
                raise BadInput("adversary_error, epsilon, per_decision, capped", got=settings, want=want)
            return outputs
        if demand is not None and not capped:
            self.require_possible(demand)
        if epsilon is None:
            outputs = self._by_groups(demand, per_decision, randomness, account, progress)
        else:
            outputs = decide_by_lottery(self.lottery(epsilon), list(self._papers), self.reviews, randomness, account)
        if randomness.is_secure:
            self._decided = settings, outputs
        return outputs

    def _by_groups(
        self,
        demand: float | None,
        per_decision: bool,
        randomness: Randomness,
        account: Account | None,
        progress: bool | None,
    ) -> Outputs[ConferenceDecision, ChairSheet]:
        chances: list[tuple[tuple[Any, ...], Any, Any]] = []  # papers, possible decisions, their probabilities
        rows: list[tuple[Any, ...]] = []
        above: list[Any] = []
        error = least = 0.0
        with progress_bar("deciding groups", len(self), show=progress) as advance:
            for index, group in enumerate(self.groups()):
                strategy = group_strategy(group.panel, demand, per_decision)
                chances.append((group.papers, strategy.decisions, strategy.table[group.true].copy()))
                error += strategy.conference_error * len(group.papers)
                least += float(strategy.posterior @ strategy.errors.min(axis=1)) * len(group.papers)
                above += zip(group.papers, group.panel.above, strict=True)
                errors = strategy.worst_errors if strategy.per_decision else strategy.review_errors
                rows += [(index, *row) for row in group.protection(errors)]
                advance(1)
        names = ("group", "paper", "reviewer", "settled", "adversary_error", "from_scores")
        sheet = pl.DataFrame(rows, schema=names, orient="row")
        guarantee = randomness.stamp(self._guarantee(sheet, demand is None or per_decision))
        if account is not None:
            account.spend(guarantee, purpose="decisions of a conference", data=self.reviews, randomness=randomness)
        accepted: dict[Hashable, bool] = {}
        for papers, decisions, row in chances:
            # the one random step; the row is that of the true assignment
            chosen = decisions[0 if len(decisions) == 1 else int(randomness.choose(row)[0])]
            accepted |= {name: paper in chosen for paper, name in enumerate(papers)}
        count = len(self._papers)
        shares = {"conference_error": error / count, "plain_error": self._plain_error(dict(above))}
        decision = ConferenceDecision(
            guarantee=guarantee,
            decisions=pl.DataFrame({"paper": list(self._papers), "accepted": [accepted[p] for p in self._papers]}),
            demand=demand,
            line=self.rules[0].quality,
            **shares,
        )
        least, simulated = least / count, guarantee.simulated
        return Outputs(
            decision, ChairSheet(reviews=sheet, least_error=least, demand=demand, simulated=simulated, **shares)
        )

    def _plain_error(self, above: Mapping[Hashable, float]) -> float:
        """The share of papers on the wrong side if as many were accepted by their plain means."""
        chance = np.array([above[paper] for paper in self._papers])
        means = np.array([float(np.mean(scores)) for _, scores in self._papers.values()])
        places = round(float(chance.sum())) if isinstance(self.accept, Threshold) else self.accept
        return float(np.where(best_papers(means, places) > 0, 1 - chance, chance).mean())

    def require_possible(self, adversary_error: float) -> None:
        """Refuse what the scores of some review make impossible, with the best that is possible."""
        hidden = [group.panel for group in self.groups() if len(group.papers) > 1 or self.exchange == "reviews"]
        left = np.concatenate([panel.ceilings for panel in hidden]) if hidden else np.zeros(0)
        if left.size and float(left.min()) < adversary_error - 1e-9:
            possible = int((left >= adversary_error - 1e-9).sum())
            want = (
                f"at most {math.floor(1e4 * float(left.min())) / 1e4:g}, what the scores leave of the review that is easiest to "
                f"guess ({possible} of {left.size} reviews could be protected as demanded), or capped: each as far as its scores "
                "allow"
            )
            raise BadInput("adversary_error", got=adversary_error, want=want)

    def lottery(self, epsilon: Number) -> QuotaLottery:
        """The differentially private lottery of this conference; it holds who wrote what, so it stays with the chair."""
        if isinstance(self.accept, Threshold) or not self.exactly:
            raise BadInput("accept", got=self.accept, want="a number of papers, exactly, with an epsilon")
        model = AffineScores.of(self.reviews, self.functions, self.noise, self.prior)
        return QuotaLottery(model, self.reviews.scores, self.accept, epsilon)

    def _guarantee(self, sheet: pl.DataFrame, per_decision: bool) -> Guarantee:
        """The error of the review that is guessed best, in groups that can hide anybody."""
        covered = [len(self._plan[index]) > 1 or self.exchange == "reviews" for index in sheet["group"].to_list()]
        errors = sheet["adversary_error"].to_numpy()[covered]
        weakest = min(float(errors.min()), 1 - 1e-9) if errors.size else 0.0
        when = over_decisions(per_decision)
        if self.linked:
            when += "; guessed from its own group's scores and decisions"
        what = {
            "committees": "committees",
            "reviews": "committees, and of reviews within a committee,",
            "single": "single reviews (the k-th of one paper for the k-th of another)",
        }[self.exchange]
        neighbors = f"every exchange of {what} within groups of at most {self.group_size} papers, {LIKELY_AS_SCORED}"
        if self.alone and self.exchange != "reviews":
            neighbors += f"; {self.alone} papers that share their number of reviews with no other are left out"
        return guess_guarantee(weakest, f"the writer of one review ({when})", neighbors)
