"""Actions of the rankings module: the consensus, and the comparison of two groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from peerveil.study.actions import Action, Setting, common
from peerveil.study.outcome import Outcome, OutcomePart
from peerveil.study.spelling import EpsilonOrNone, InnerShare, OtherRankings, Range, require
from peerveil.study.toml import SuggestedStep

if TYPE_CHECKING:
    import polars as pl

    import peerveil
    from peerveil.data import Rankings
    from peerveil.study.execute import Context, Inputs, StudyFile

_MOST_NAMES: Final = 20
BUDGET: Final = common("Privacy budget (epsilon) for one person's ranking. Smaller is more private.")
Level = Annotated[
    InnerShare, common("The probability that rankings made by pure chance are called different.", "Significance level")
]
GUESS: Final = "Somebody who knows every ranking but one guesses between two candidates for the last one"
Unranked = Annotated[
    Literal["last", "unknown"],
    Setting("What leaving an item out says: it comes after those ranked, or nothing is known.", "Items left out"),
]
WeightCap = Annotated[
    int | None,
    Range(ge=1, le=1_000_000),
    Setting(
        "Every row is one person, who counts as often as the column count says, at most this often; by default a row stands for "
        "so many people.",
        "Largest weight of a person",
    ),
]


class RankConsensus(Action["Rankings"]):
    """What do people prefer on the whole?"""

    name, title = "rankings.consensus", "Find the consensus"
    about = "Rank the items by all people's rankings, with intervals that may be published."
    details = (
        "Whole, partial and tied rankings are taken, or with --per-judge comparisons (winner, loser, judge). borda orders "
        "the items by their mean ranks; bradley-terry and plackett-luce give strengths, whose differences are log-odds of "
        "preferring one item to another; kemeny gives the order that agrees with most pairs. The intervals hold for all items "
        "at once."
    )
    publishes = "scores and ranks of the items with intervals (nothing without an epsilon)"
    operator = "how many rankings and items were read"
    kinds = ("rankings",)
    spends = True
    calls = "peerveil.rankings:consensus"
    examples = (
        "rankings.csv --epsilon 1",
        "rankings.csv --epsilon 1 --ledger budget.db --account survey-2026",
        "rankings.csv --epsilon none --method bradley-terry",
        "battles.csv --epsilon 1 --per-judge 10",
    )

    epsilon: Annotated[EpsilonOrNone, BUDGET]
    method: Annotated[
        Literal["auto", "borda", "bradley-terry", "plackett-luce", "kemeny"],
        Setting("How items are scored; auto takes borda, and bradley-terry for comparisons.", "Scores"),
    ] = "auto"
    level: Annotated[InnerShare, common("The probability with which all intervals hold at once.", "Confidence")] = 0.95
    unranked: Unranked = "last"
    weight_cap: WeightCap = None
    per_judge: Annotated[
        int | None,
        Range(ge=1, le=1_000_000),
        Setting(
            "The file holds comparisons (winner, loser, judge): at most so many of each judge are used, and each judge is "
            "protected.",
            "Comparisons per judge",
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.per_judge is not None:
            require(
                self.method in ("auto", "bradley-terry"), "method", got=self.method, want="bradley-terry with per_judge"
            )
            require(self.weight_cap is None, "weight_cap", got=self.weight_cap, want="nothing with per_judge")
            require(self.unranked == "last", "unranked", got=self.unranked, want="nothing with per_judge")

    @classmethod
    def suggest(cls, table: Rankings) -> SuggestedStep:  # noqa: ARG003
        """For every table of rankings."""
        return SuggestedStep("Which items do people prefer? An order with intervals.", {"epsilon": 1})

    def guarantee(self, inputs: Inputs[Rankings]) -> peerveil.Guarantee | None:
        """The mechanism's own; none without an epsilon."""
        from peerveil.rankings.comparisons import judge_guarantee
        from peerveil.rankings.statistics import noise_for
        from peerveil.rankings.uniformity import ranking_guarantee

        table = self._table(inputs)
        if self.epsilon == "none":
            return None
        if self.per_judge is not None:
            return judge_guarantee(self.epsilon)
        noise_for(self.method, len(table.items), self.epsilon, self.weight_cap)
        return ranking_guarantee(self.epsilon, weighted=self.weight_cap is not None)

    def in_memory(self, source: StudyFile) -> bool:  # noqa: ARG002
        """Comparisons are no rankings: their file is opened here."""
        return self.per_judge is None

    def debited(self, inputs: Inputs[Rankings]) -> list[Any]:
        """The rankings or the comparisons."""
        return [self._table(inputs)]

    def _table(self, inputs: Inputs[Rankings]) -> Any:
        from peerveil.rankings.comparisons import Comparisons

        if self.per_judge is None:
            return inputs.table
        inputs.file.refuse(("layout",), "nothing: comparisons have one layout")
        return Comparisons.read(inputs.file.path, inputs.file.format, columns=inputs.file.columns)

    def run(self, inputs: Inputs[Rankings], context: Context) -> Outcome:
        """Find it once."""
        private = self.epsilon != "none"
        result = self.call(
            self._table(inputs),
            epsilon=self.epsilon if private else None,
            randomness=context.randomness,
            account=context.account if private else None,
        )
        outcome = consensus_outcome(result, public=private)
        if private and self.per_judge is not None:
            outcome.protect("everything one judge said", result.guarantee)
            outcome.best_guess(
                "Somebody who knows all other judges guesses between two possible ones", result.guarantee
            )
        elif private:
            protect_ranking(outcome, result.guarantee, GUESS)
        if self.per_judge is None:
            add_items(outcome, inputs.table)
        return outcome


class CompareRankings(Action["Rankings"]):
    """Do two groups rank differently?"""

    name, title = "rankings.compare", "Compare two groups"
    about = "Test whether two groups of people rank the same items differently, and say which items moved."
    details = (
        "Two tables of the same items, such as two groups or two years, with nobody in both. Without an epsilon group labels are "
        "permuted; with one the null is simulated from the published sums. The intervals hold for all items at once. An "
        "account is debited for each of the two tables."
    )
    publishes = (
        "the statistic, its p-value and by how many places each item moved, with intervals (nothing without an epsilon)"
    )
    operator = "how many rankings and items were read"
    kinds = ("rankings",)
    spends = True
    calls = "peerveil.rankings:compare"
    examples = (
        "rankings.csv --other last-year.csv --epsilon 1",
        "rankings.csv --other last-year.csv --epsilon none",
    )

    epsilon: Annotated[EpsilonOrNone, BUDGET]
    other: Annotated[OtherRankings, common("The rankings of the second group.", "Second group")]
    level: Annotated[
        InnerShare, common("The probability that groups which rank alike are called different.", "Significance level")
    ] = 0.05
    confidence: Annotated[
        InnerShare, Setting("The probability with which the intervals of all items hold at once.", "Confidence")
    ] = 0.95
    unranked: Unranked = "last"

    def debited(self, inputs: Inputs[Rankings]) -> list[Any]:
        """Both groups."""
        return [inputs.table, *inputs.others["other"]]

    def guarantee(self, inputs: Inputs[Rankings]) -> peerveil.Guarantee | None:
        """The mechanism's own; none without an epsilon."""
        from peerveil.rankings.compare import compare_guarantee, same_items
        from peerveil.rankings.statistics import noise_for

        first, second = self.debited(inputs)
        same_items(first.items, second.items)
        require(first.identity != second.identity, "other", got=self.other, want="another table than the first")
        if self.epsilon == "none":
            return None
        noise_for("borda", len(first.items), self.epsilon)
        return compare_guarantee(self.epsilon)

    def run(self, inputs: Inputs[Rankings], context: Context) -> Outcome:
        """Compare once."""
        private = self.epsilon != "none"
        result: peerveil.rankings.RankingComparison = self.call(
            inputs.table,
            *inputs.others["other"],
            but=("other",),
            epsilon=self.epsilon if private else None,
            randomness=context.randomness,
            account=context.account if private else None,
        )
        summary = f"{result.summary()}."
        verdict = "Yes" if result.reject else "No evidence"
        fields = ("reject", "pvalue", "statistic", "level", "confidence")
        results = {**{field: getattr(result, field) for field in fields}, "moved": [str(item) for item in result.moved]}
        part = OutcomePart(f"{verdict}: {summary}", [summary], results)
        cells = [
            (
                row["item"],
                f"{row['difference']:+.2f} ({row['lower']:+.2f} to {row['upper']:+.2f})",
                "yes" if row["moved"] else "",
            )
            for row in result.frame().head(_MOST_NAMES).to_dicts()
        ]
        part.table(["item", "places better in the second group, with interval", "moved for certain"], cells)
        part.csv("compare.csv", result.frame())
        part.json("compare.json", result)
        parts = {"public" if private else "private": part}
        outcome = Outcome.guaranteed("Do the two groups rank differently?", result.guarantee, **parts)
        caption = (
            "How many places better the second group ranks each item, with intervals that hold for all of them at once."
        )
        outcome.figure(result.plot, f"{caption} {summary}", caption, public=private)
        if private:
            protect_ranking(outcome, result.guarantee, GUESS)
        add_items(outcome, inputs.table)
        return outcome


def protect_ranking(outcome: Outcome, guarantee: peerveil.Guarantee, guess: str) -> None:
    """One ranking is everything that a person gives."""
    outcome.protect("one person's ranking", guarantee)
    outcome.protect("everything one person gave (one ranking)", guarantee)
    outcome.best_guess(guess, guarantee)


def consensus_outcome(result: peerveil.rankings.Consensus, *, public: bool) -> Outcome:
    """A consensus: its answer, table, figure and files."""
    first = result.top(min(3, len(result.order)))
    certain = ", ".join(map(str, first.surely)) or "no item"
    part = OutcomePart(
        f"People prefer {', '.join(map(str, result.order[:3]))}, in this order; certainly among the first three: {certain}.",
        [f"{result.summary()}."],
        {"order": [str(item) for item in result.order], "method": result.method, "rankings": result.rankings},
    )
    part.table(*_table_of(result.frame().head(_MOST_NAMES)))
    part.csv("consensus.csv", result.frame())
    part.json("consensus.json", result)
    parts = {"public" if public else "private": part}
    outcome = Outcome.guaranteed("Which items do people prefer?", result.guarantee, **parts)
    caption = (
        "Scores of the items with intervals that hold for all of them at once; in brackets the ranks that are possible."
    )
    outcome.figure(result.plot, f"{caption} {result.summary()}.", caption, public=public)
    return outcome


def test_outcome(test: peerveil.rankings.UniformityTest, name: str, *, public: bool) -> Outcome:
    """A test's answer, figures and files."""
    pvalue = f"p-value {test.pvalue:.2g}" if test.pvalue >= 1e-6 else "p-value below 0.000001"
    verdict = "Yes, the rankings" if test.reject else "No evidence that the rankings"
    summary = f"{test.summary()[0].upper()}{test.summary()[1:]}."
    fields = ("reject", "pvalue", "statistic", "critical", "level", "method", "rankings", "items")
    part = OutcomePart(
        f"{verdict} differ from chance ({pvalue}, level {test.level:g}).",
        [summary],
        {field: getattr(test, field) for field in fields},
    )
    part.json(name, test)
    parts = {"public" if public else "private": part}
    outcome = Outcome.guaranteed("Do the rankings differ from chance?", test.guarantee, **parts)
    caption = "The statistic under pure chance (curve), the critical value, and the observed statistic."
    outcome.figure(test.plot, f"{caption} {summary}", caption, public=public)
    return outcome


def _table_of(frame: pl.DataFrame) -> tuple[list[str], list[tuple[object, ...]]]:
    """Headers and cells of the consensus in a report."""
    rows: list[tuple[object, ...]] = [
        (row["rank"], row["item"], f"{row['score']:.2f} ({row['score_lower']:.2f} to {row['score_upper']:.2f})",
         f"{row['rank_lower']} to {row['rank_upper']}")
        for row in frame.to_dicts()
    ]  # fmt: skip
    return ["rank", "item", "score with interval", "possible ranks"], rows


def add_items(outcome: Outcome, table: Rankings) -> None:
    """The items as they were read, so that the operator notices a misread table."""
    names = ", ".join(table.items[:_MOST_NAMES])
    more = f", ... ({len(table.items):,} in all)" if len(table.items) > _MOST_NAMES else ""
    outcome.private.findings.append(f"Read {table.total:,} rankings of the items {names}{more}.")
    outcome.private.results["item_names"] = list(table.items)
