"""Actions of the timing module: see how exposed people are by when they post, choose delays, and post with them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import peerveil
from peerveil.core.errors import Verbatim
from peerveil.study.actions import Action, PlanAction, Setting, common
from peerveil.study.outcome import NOT_PUBLISHED, Outcome, OutcomePart
from peerveil.study.spelling import Duration, Epsilon, File, InnerShare, Name, Range, Share, require
from peerveil.study.toml import SuggestedStep

if TYPE_CHECKING:
    from peerveil.data import Events
    from peerveil.study.execute import Context, Inputs, StudyFile
    from peerveil.timing.base import DelayMechanism

Window = Annotated[
    Duration, common("Posts of one person on different threads this close together are one sitting.", "One sitting")
]
PairEpsilon = Annotated[
    Epsilon, common("Privacy parameter (epsilon) for a pair of posts. Smaller is more private, and delays are longer.")
]
Suspects = Annotated[
    int, Range(ge=2, le=100_000), Setting("How many people an observer suspects before looking at times.")
]
Epsilons = Annotated[tuple[Epsilon, ...], common("Privacy parameters (epsilon) to try.", "Epsilons to try")]


def _require_wider(gap: float, window: float) -> None:
    from peerveil.timing.durations import in_words

    require(gap > window, "gap", got=Verbatim(in_words(gap)), want="more than the window of one sitting")


def _further(column: str | None) -> tuple[str, ...]:
    """A column that a log is not always read with."""
    return () if column in (None, "actor", "thread") else (column,)


class AuditLog(Action["Events"]):
    """How exposed people are by when they post. For the operator alone."""

    name, title = "timing.audit", "Audit a log"
    about = "Measure how exposed people are by when they post, and what delays would change."
    details = (
        "Reports how many posts of one person appear close together on different threads, how well an attack that links posts "
        "by time works before and after delays, how long posts would wait, and other columns that reveal the order of arrival. "
        "For logs larger than memory, --engine duckdb or spark counts the leak in a database, without trying delays."
    )
    operator = "the audit, which states facts about the people in the log"
    kinds = ("events",)
    calls = "peerveil.timing:audit_log"
    examples = ("events.csv --percentile 25", "events.csv --gap 45m", "'log/*.parquet' --engine duckdb --memory 2GB")

    window: Window = 300.0
    gap: Annotated[
        Duration | None, common("How far apart lone posts may be and still be covered; by default taken from the log.")
    ] = None
    percentile: Annotated[
        float, Range(gt=0, le=100), Setting("Without a gap: the percentile of the log's intervals to take as the gap.")
    ] = 50.0
    epsilons: Epsilons = ("0.5", "1", "2")
    within: Annotated[
        Name | None, Setting("Compare only posts with the same value of this column.", "Compare within")
    ] = None
    community: Annotated[
        Name | None,
        Setting("A column that says where a post was written: counts what each community by itself would miss."),
    ] = None
    suspects: Suspects = 10
    engine: Annotated[
        Literal["memory", "duckdb", "spark"],
        Setting("Where to count. A database takes Parquet files larger than memory, and tries no delays."),
    ] = "memory"
    memory: Annotated[Name | None, Setting("With a database: memory limit, such as 2GB.", "Memory limit")] = None
    posted: Annotated[
        Name | None,
        Setting("With a database: the column of posting times, to attack these instead.", "Column of posting times"),
    ] = None

    def __post_init__(self) -> None:
        if self.gap is not None:
            _require_wider(self.gap, self.window)
        settings = self.settings()
        if self.engine == "memory":
            for name in ("memory", "posted"):
                require(name not in settings, name, got=getattr(self, name), want="engine duckdb or spark with it")
            return
        for name in ("gap", "within", "community", "percentile", "epsilons", "suspects"):
            want = f"no {name} beside it: a database counts, and draws no delays"
            require(name not in settings, "engine", got=self.engine, want=want)

    @classmethod
    def suggest(cls, table: Events) -> SuggestedStep:  # noqa: ARG003
        """An audit, for every log."""
        return SuggestedStep(
            "How exposed are people by when they post? For the operator only: nothing of it is published.",
            {"window": "5m"},
            {"window": "posts of one person this close together are one sitting"},
        )

    def extra_columns(self) -> tuple[str, ...]:
        """The columns within which posts are compared, and follow-ups recognized."""
        return tuple(dict.fromkeys((*_further(self.within), *_further(self.community))))

    def in_memory(self, source: StudyFile) -> bool:  # noqa: ARG002
        """Databases open the file themselves."""
        return self.engine == "memory"

    def guarantee(self, inputs: Inputs[Events]) -> None:
        """None: nothing is published."""
        if self.engine != "memory":
            want = "nothing: a database reads Parquet and CSV, and times without a zone as UTC"
            inputs.file.refuse(("format", "time_zone"), want)

    def run(self, inputs: Inputs[Events], context: Context) -> Outcome:
        """Audit the log."""
        outcome = Outcome(
            "How exposed are people by when they post, and what would delays change?",
            "Nothing of this may be published: it states facts about people.",
        )
        outcome.protect("everybody in the log", NOT_PUBLISHED)
        if self.engine == "memory":
            context.progress(0.0, "auditing the log")
            self._audit(outcome, inputs, context)
        else:
            self._count(outcome, inputs.file)
        return outcome

    def _audit(self, outcome: Outcome, inputs: Inputs[Events], context: Context) -> None:
        from peerveil.timing.figures import audit_page, audit_sketches

        audit = self.call(inputs.table, but=("engine", "memory", "posted"), randomness=context.randomness)
        audit = replace(audit, log=inputs.file.as_typed())
        findings = [f"{audit.headline}.", f"{audit.batches}.", f"Without protection: {audit.raw}.", *audit.advice]
        if audit.protected:
            findings.insert(0, f"Outside the guarantee: {audit.outside_in_words}")
        files = {"audit.html": audit_page(audit, inputs.table).html()}
        outcome.private = part = OutcomePart(audit.summary(), findings, audit.to_dict(), files=files)
        if audit.protected:
            head, rows = audit.comparison()
            part.table(head[:9], [row[:9] for row in rows])
        for draw, alt, caption, columns in audit_sketches(audit, inputs.table):
            outcome.figure(draw, alt, caption, public=False, columns=columns)
        part.json("audit.json", audit)

    def _count(self, outcome: Outcome, source: StudyFile) -> None:
        """The rates and the attack, counted in a database."""
        settings = {name: getattr(self, name) for name in ("window", "engine", "memory", "posted")}
        audit = peerveil.timing.audit_table(source.path, **settings, columns=source.columns or {})
        results = {**audit.to_dict(), "engine": self.engine}
        outcome.private = OutcomePart(f"{audit.summary()}.", [f"{audit.attack}."], results)
        caption = "Precision and recall of linking posts by time."
        outcome.figure(audit.plot, caption, caption, public=False)
        outcome.private.json("audit.json", audit)


class PlanDelays(PlanAction["Events"]):
    """A gap from an earlier log, and the delays that it means."""

    name, title = "timing.plan", "Plan delays"
    about = "Choose a gap from an earlier log, and show how long posts would wait under each mechanism."
    details = (
        "Use an earlier log, never the one that will be posted: the gap becomes part of the public protocol, and a gap chosen "
        "from the log itself would reveal something about it. With --per, gaps.csv holds a gap for each value of a column, as "
        "`peerveil timing post --gaps` takes them."
    )
    operator = "the plan; its gap is computed from the log without noise, and becomes public only when you use it"
    kinds = ("events",)
    calls = "peerveil.timing:plan_delays"
    examples = ("last-year.csv --percentile 25", "last-year.csv --crossover 0.25 --epsilon 0.8 --per thread")
    question = "How long should posts be delayed?"
    caption = "Mean delays under each mechanism, holds included."
    costs_nothing = "Nothing is posted or spent. The gap becomes part of the public protocol when you use it."

    epsilon: PairEpsilon = "1"
    window: Window = 300.0
    percentile: Annotated[
        float | None,
        Range(gt=0, le=100),
        common("Cover this percentage of the log's intervals; 50 if no crossover is given either."),
    ] = None
    crossover: Annotated[
        InnerShare | None,
        Setting("Instead of a percentile: the error that every test for one sitting is left with.", "Crossover error"),
    ] = None
    per: Annotated[
        Name | None,
        Setting(
            "Also choose a gap for each value of this column: thread, or another column of the log.", "Gaps by column"
        ),
    ] = None

    suspects: Suspects = 10

    def __post_init__(self) -> None:
        is_single = self.percentile is None or self.crossover is None
        require(is_single, "crossover", got=self.crossover, want="either a percentile or a crossover")

    def extra_columns(self) -> tuple[str, ...]:
        """The column that has a gap for each of its values."""
        return _further(self.per)

    def guarantee(self, inputs: Inputs[Events]) -> None:
        """None: nothing is published. What no gap can give is refused."""
        self.call(inputs.table)

    def run(self, inputs: Inputs[Events], context: Context) -> Outcome:  # noqa: ARG002
        """Choose the gap."""
        from peerveil.timing.durations import in_words, typed
        from peerveil.timing.sittings import policy_table

        plan = self.call(inputs.table)
        outcome = self.report(plan, cells=plan.comparison())  # durations in words, not seconds
        part = outcome.private
        part.findings += plan.findings()
        part.table(*policy_table(plan.policies))
        part.findings.append(f"Use it for what comes next, for example: --gap {typed(plan.gap)}.")
        if self.per is not None:
            shortest, longest = (in_words(limit(plan.gaps.values())) for limit in (min, max))
            part.findings.append(
                f"{len(plan.gaps):,} values of {self.per} have gaps from {shortest} to {longest}; gaps.csv holds all of them."
            )
            part.csv("gaps.csv", plan.gaps_frame())
        return outcome


class PostLog(Action["Events"]):
    """Delay a log, and publish what the public then sees."""

    name, title = "timing.post", "Post a log with delays"
    about = "Delay every post of a log by a random time, once, and write what the public sees."
    details = (
        "Do not draw delays again for the same log: two draws together reveal more. `peerveil timing plan` chooses a gap from "
        "an earlier log."
    )
    publishes = "the posts' threads, new ids, delayed times, and authors numbered within each thread"
    operator = "the schedule, which links your ids to the public ids, and how long posts wait"
    kinds = ("events",)
    spends = recorded = drawn_once = True
    calls = "peerveil.timing:post"
    examples = ("events.csv --gap 45m --epsilon 1", "events.csv --gap 45m --ledger budget.db --account forum")

    mechanism: Annotated[
        Literal["follow-up", "zero-inflated", "uniform", "exponential", "staircase", "queue"],
        Setting(
            "How posts are delayed; follow-up has the shortest delays. The queue promises no differential privacy."
        ),
    ] = "follow-up"
    epsilon: PairEpsilon = "1"
    gap: Annotated[
        Duration | None,
        common(
            "How far apart two lone posts may be and still be covered; every mechanism but the queue needs it. Choose it from "
            "an earlier log, since a gap chosen from this one would reveal something about it."
        ),
    ] = None
    window: Window = 300.0
    weight: Annotated[
        Share,
        Setting(
            "For follow-up and zero-inflated: the weight of batched posts in the mean delay that is minimized.",
            "Weight of batched posts",
        ),
    ] = 1.0
    step: Annotated[
        Duration, Setting("For the queue: one post appears in each step of this length.", "Step of the queue")
    ] = 60.0
    gaps: Annotated[
        File | None,
        Setting("A CSV file with a gap for each value of a column, as `peerveil timing plan --per` writes it."),
    ] = None
    causal: Annotated[bool, Setting("Never post a reply before what it answers.", "Keep replies in order")] = True

    def __post_init__(self) -> None:
        if self.mechanism == "queue":
            require(self.gaps is None, "gaps", got=str(self.gaps), want="none: the queue has no gap")
            return
        want = "a duration such as 45m; `peerveil timing plan` chooses one from an earlier log"
        require(self.gap is not None, "gap", got=Verbatim("nothing"), want=want)
        _require_wider(self.gap or 0, self.window)
        is_weighted = self.weight == 1 or self.mechanism in ("follow-up", "zero-inflated")
        require(is_weighted, "weight", got=self.weight, want="mechanism follow-up or zero-inflated with it")

    @classmethod
    def suggest(cls, table: Events) -> SuggestedStep:  # noqa: ARG003
        """Delays, once there is a gap."""
        return SuggestedStep(
            "To post with delays, take a gap from an earlier log (`peerveil timing plan`) and remove the signs in front:",
            {"epsilon": 1, "gap": "45m"},
            commented=True,
        )

    def extra_columns(self) -> tuple[str, ...]:
        """The column that has a gap for each of its values."""
        from peerveil.timing.plan import read_gaps

        return _further(None if self.gaps is None else read_gaps(self.gaps)[0])

    def _mechanism(self) -> DelayMechanism | peerveil.timing.Queue:
        from peerveil.timing.delays import named_mechanism

        if self.mechanism == "queue":
            return peerveil.timing.Queue(step=self.step)
        settings = {name: getattr(self, name) for name in ("epsilon", "gap", "window", "weight")}
        return named_mechanism(self.mechanism, **settings)

    def guarantee(self, inputs: Inputs[Events]) -> peerveil.Guarantee:
        """What posting this log would guarantee."""
        from peerveil.timing.post import PreparedPosting

        return PreparedPosting(inputs.table, self._mechanism(), causal=self.causal, gaps=self.gaps).guarantee

    def run(self, inputs: Inputs[Events], context: Context) -> Outcome:
        """Debit, draw every delay once, and attack what the public sees."""
        posted, schedule = peerveil.timing.post(
            inputs.table,
            mechanism=self._mechanism(),
            causal=self.causal,
            gaps=self.gaps,
            account=context.account,
            randomness=context.randomness,
        )
        outcome = Outcome.guaranteed("What does the public see if posts are delayed?", posted.guarantee)
        outcome.public.results = {"posts": len(posted), "mechanism": posted.mechanism}
        self._describe(outcome, posted)
        outcome.public.csv("posted.csv", posted.frame())
        # how well linking posts by time works before and after, and how long posts wait: for the operator
        before, after = (peerveil.timing.linkage_attack(log, window=self.window) for log in (inputs.table, schedule))
        outcome.private = OutcomePart(
            findings=[f"Before: {before}.", f"After, in this draw of the delays: {after}.", f"{schedule}."],
            results={name: value for name, value in schedule.to_dict().items() if name != "schedule"},
        )
        outcome.private.csv("schedule.csv", schedule.frame())
        return outcome

    def _describe(self, outcome: Outcome, posted: peerveil.timing.Posted) -> None:
        """What is known of the delays from the protocol alone, which is public."""
        from peerveil.timing.check import best_test_in_words
        from peerveil.timing.figures import draw_delays
        from peerveil.timing.post import waits_in_words

        part, mechanism, posts = outcome.public, self._mechanism(), f"{len(posted):,} posts"
        one_sitting = "whether two posts of one person were written in one sitting"
        if isinstance(mechanism, peerveil.timing.Queue):
            part.answer = f"{posts} with new ids; {mechanism.pace}."
            part.findings = [part.answer, mechanism.guarantee_in_words]
            outcome.protect(one_sitting, "no differential privacy")
            caption = "Public posts over time."
            outcome.figure(posted.plot, caption, caption, public=True)
            return
        waits, limit = waits_in_words(mechanism, gaps=self.gaps, causal=self.causal)
        part.answer = f"{posts} with new ids, each delayed by a random time, {limit}."
        part.findings = [f"{posts}. {waits}; {limit}."]
        caption = "The share of posts that has appeared after each time, by the protocol alone, which is public."
        outcome.figure(lambda ax: draw_delays(ax, mechanism), f"{caption} {waits}.", caption, public=True)
        outcome.attack = [best_test_in_words(mechanism)]
        outcome.protect(one_sitting, posted.guarantee)
        outcome.protect("everything one person posts", "not guaranteed: each pair of posts by itself")


ACTIONS: Final[tuple[type[Action[Any]], ...]] = (AuditLog, PlanDelays, PostLog)
