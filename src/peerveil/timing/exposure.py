"""The audit: how exposed the people in a log are, and what delays would cost and prevent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput
from peerveil.core.progress import progress_bar
from peerveil.core.randomness import Randomness
from peerveil.core.result import Pictured, plain
from peerveil.report import Line
from peerveil.timing.adversary import LinkageAttack, linkage_attack
from peerveil.timing.batches import Batches, find_batches
from peerveil.timing.communities import Communities, missed_follow_ups
from peerveil.timing.delays import FollowUp
from peerveil.timing.durations import Duration, in_words, percent, read_duration, rounded_up, typed
from peerveil.timing.log import FACTS_ABOUT_PEOPLE, Leak, find_leaks, groups_of, read_log
from peerveil.timing.noon import NoonBaseline, noon_baseline
from peerveil.timing.plan import NOON, choose_gap, intervals
from peerveil.timing.post import PreparedPosting
from peerveil.timing.sittings import first_in_words
from peerveil.timing.trials import COLUMNS, DelayTrial, trial_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.core.exact import Number

NO_NAME_TWICE: Final = (
    "No name appears on two threads: names that are new on every thread are pseudonyms, and who is behind two of them is not "
    "in this log."
)
"""Why some logs cannot be audited."""


@dataclass(frozen=True)
class TimingAudit(Pictured):
    """Result of :func:`audit_log`. For the operator: it contains facts about people that must not be published."""

    operator_only: ClassVar[bool] = True

    headline: str
    events: int
    actors: int
    gap: float
    batches: Batches
    raw: LinkageAttack
    protected: tuple[DelayTrial, ...]
    leaks: tuple[Leak, ...]
    suspects: int
    has_replies: bool
    several: bool = True
    """Whether anybody posted on two threads at all."""
    outside: float = 0.0
    """Of a person's posts that follow one on another thread, the share that comes later than the gap: no guarantee."""
    outside_alone: float = 0.0
    """The same among those that were not written in one sitting."""
    noon: NoonBaseline | None = None
    """What times moved to noon, HotCRP's rule, still reveal."""
    communities: Communities | None = None
    """What would be missed if every community were delayed by itself."""
    own_gap: bool = True
    """Whether the gap was taken from this very log."""
    log: str = "LOG"
    """The arguments of ``peerveil timing post`` that read a log like this one: the file and the options."""

    @property
    def recommended(self) -> DelayTrial | None:
        """The least delay with which the best attack on a pair errs at least a quarter of the time; else the strongest."""
        strong = [trial for trial in self.protected if trial.best_attack.crossover >= 0.25]
        if strong:
            return min(strong, key=lambda trial: trial.mean_delay)
        return max(self.protected, key=lambda trial: trial.best_attack.crossover, default=None)

    @property
    def advice(self) -> list[Line]:
        """What to do, in plain words: one paragraph per entry, with its command if it has one, the most urgent first."""
        lines = (
            [] if self.communities is None else [Line(f"Delay all communities together: {self.communities.summary()}.")]
        )
        lines += [Line(f"Close another leak first: {leak}.") for leak in self.leaks]
        if self.leaks:
            held = "Hold posts before they reach the platform: what it publishes beside a post cannot be taken back."
            lines.append(Line(held))
        if not self.several:
            other = f"{NO_NAME_TWICE} To audit them, take a log in which a person has one name, such as the account."
            return [*lines, Line(other)]
        if not len(self.batches):
            nobody = "Nobody in this log commented on two threads in one sitting; delays would protect nothing."
            return [*lines, Line(nobody)]
        if self.recommended is None:
            return [*lines, Line("Too little history to choose a gap: give one with --gap.")]
        return lines + self._advice_on(self.recommended)

    def _advice_on(self, chosen: DelayTrial) -> list[Line]:
        m = chosen.mechanism
        use = "The command:"
        if self.own_gap:
            use = (
                "Use this for the next log, not for this one: the gap was taken from it, and would reveal something about it. "
                "Put the next log in place of this one:"
            )
        lines: list[str | Line] = [
            f"Delay every post once, by a random time (epsilon {m.epsilon:g}, gap {in_words(m.gap)}): posts that follow one of "
            f"the same person on another thread within {in_words(m.window)} wait {in_words(m.mean_batched)} on average, all "
            f"others {in_words(m.mean_unbatched)}, and no post longer than {in_words(m.max_delay)}.",
            Line(use, self.command),
            "Delays do not protect times that are already public: stop publishing them, or round them to days.",
            "The best possible test of whether two comments were written together, or apart by up to the gap, is then "
            f"wrong {100 * chosen.best_attack.crossover:.0f}% of the time (guessing: 50%), "
            f"{100 * chosen.known_order.crossover:.0f}% if it is known which of the two came first.",
            f"To find half of the true pairs by time, an attacker links pairs of which {percent(self.raw.at_half.precision)} are "
            f"correct without delays, and {percent(chosen.attack.at_half.precision)} with them (in one random draw of the "
            "delays; results vary from run to run).",
        ]
        further = {
            f"Counting pauses longer than the gap too, the best test is wrong {100 * chosen.all_history.crossover:.0f}% of the "
            "time. A longer gap covers more, and delays more.": chosen.all_history.covered < 0.995,
            f"Several sittings add up: s of them cost s times epsilon. At epsilon {m.epsilon:g} "
            f"{first_in_words(chosen.covered_first, self.suspects)} by the best attacker if all pauses are within the gap, "
            f"and {', '.join(map(percent, chosen.history_first))} with the pauses of this log. `peerveil timing plan` "
            "compares what helps.": True,
            f"All this is about pairs. A whole sitting costs more: the largest here, {self.batches.largest} comments, "
            f"is linked at epsilon {chosen.batch_cost[1]:.3g}. Ask people to spread very long sittings.": (
                self.batches.largest > 3
            ),
            "Post replies causally (the default), so that none appears before what it answers.": self.has_replies,
        }
        lines += [text for text, applies in further.items() if applies]
        lines += [] if self.noon is None else [self.noon.in_words()]
        return [line if isinstance(line, Line) else Line(line) for line in lines]

    @property
    def outside_in_words(self) -> str:
        """What the gap does not cover."""
        return (
            f"{percent(self.outside)} of one person's posts that follow one on another thread come later than the gap of "
            f"{in_words(self.gap)} ({percent(self.outside_alone)} of those that were not written in one sitting)."
        )

    @property
    def command(self) -> str:
        """How to post with what is recommended; empty if nothing is."""
        if self.recommended is None:
            return ""
        m = self.recommended.mechanism
        return (
            f"peerveil timing post {self.log} --epsilon {m.epsilon:g} --gap {typed(m.gap)} --window {typed(m.window)} "
            "--out delayed-posts"
        )

    @property
    def recommendation(self) -> str:
        """The advice in one text."""
        return " ".join(text for line in self.advice for text in line if text)

    def draw(self, ax: Axes) -> None:
        """Precision and recall of linking posts by time, before and after. For the operator."""
        from peerveil.timing.figures import draw_attacks

        draw_attacks(ax, self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values."""
        b = self.batches
        return dict(plain({
            "for": FACTS_ABOUT_PEOPLE,
            "outside_the_guarantee": {"share": self.outside, "of_posts_that_stand_alone": self.outside_alone},
            "log": self.headline,
            "window": b.window,
            "gap": self.gap,
            "batches": len(b),
            "batched_share": float(b.batched.mean()),
            "largest_batch": b.largest,
            "same_rate": b.same_rate,
            "other_rate": b.other_rate,
            "posterior": {"suspects": self.suspects, "probability": float(b.risk(self.suspects)) if b.same_rate else 0.0},
            "linkage_without_protection": self.raw.at_half._asdict(),
            "protected": [trial.to_dict() for trial in self.protected],
            "noon": None if self.noon is None else {
                "linkage": self.noon.attack.at_half._asdict(),
                "crossover": self.noon.crossover,
                "crossover_over_all_history": self.noon.crossover_all,
            },
            "communities": None if self.communities is None else {
                "missed_share": self.communities.share, "each": self.communities.frame().to_dicts(),
            },
            "leaks": [asdict(leak) for leak in self.leaks],
            "recommendation": self.recommendation,
        }))  # fmt: skip

    def frame(self) -> pl.DataFrame:
        """What delays would do, in seconds: one row per strength, after one without protection and one of HotCRP's rule."""
        cut, precision, recall = self.raw.at_half
        rows: list[tuple[Any, ...]] = [("none", None, 0.0, 0.0, 0.0, precision, recall, cut, None, None, None, 0.0)]
        if self.noon is not None:
            _, precision, recall = self.noon.attack.at_half
            errors = (self.noon.crossover, self.noon.crossover, self.noon.crossover_all)
            rows.append(("noon", None, 0.0, 0.0, 0.0, precision, recall, 0.0, *errors, 0.0))
        rows += (trial.row() for trial in self.protected)
        schema = {"protection": pl.String, **dict.fromkeys(COLUMNS[1:], pl.Float64)}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def comparison(self) -> tuple[list[str], list[list[str]]]:
        """The same for people, as head and rows of text."""
        delays, links = (
            ["delay: mean", "median", "longest"],
            ["correct links if half of the true pairs are found", "linked within"],
        )
        tests = ["best test wrong, up to the gap", "order known", "all history"]
        others = ["replies too early", "if causal", "overtaken", "whole sitting: mean", "largest"]
        cut, precision, _ = self.raw.at_half
        rows = [["none", "0 s", "0 s", "0 s", percent(precision), in_words(cut), *["-"] * 8]]
        if self.noon is not None:
            precision = self.noon.attack.at_half.precision
            wrong = map(percent, (self.noon.crossover, self.noon.crossover, self.noon.crossover_all))
            rows.append([NOON, "0 s", "0 s", "0 s", percent(precision), "the same day", *wrong, *["-"] * 5])
        for trial in self.protected:
            _, epsilon, mean, median, longest, precision, _, cut, *errors, overtaken = trial.row()
            early = [f"{n:,}" for n in trial.early_replies] if self.has_replies else ["-", "-"]
            costs = [f"epsilon {cost:.3g}" for cost in trial.batch_cost]
            waits = map(in_words, (mean, median, longest))
            rows.append(
                [
                    f"{epsilon:g}",
                    *waits,
                    percent(precision),
                    in_words(cut),
                    *map(percent, errors),
                    *early,
                    percent(overtaken),
                    *costs,
                ]
            )
        return ["epsilon", *delays, *links, *tests, *others], rows

    def summary(self) -> str:
        """How exposed people are, in one sentence."""
        window = in_words(self.batches.window)
        if not self.several:
            return f"This log cannot tell. {NO_NAME_TWICE}"
        if not len(self.batches):
            return f"Not by this: nobody posted on two threads within {window}."
        if not self.batches.same_rate or math.isnan(self.batches.other_rate):
            return f"{len(self.batches):,} times somebody posted on several threads within {window}."
        sure = percent(float(self.batches.risk(self.suspects)))
        return (
            f"An observer with {self.suspects} suspects who sees two comments within {window} of each other is {sure} sure "
            "who it is."
        )

    @property
    def leak(self) -> str:
        """How exposed people are, in words."""
        return f"{self.batches}. {self.summary()}"

    def __str__(self) -> str:
        head, rows = self.comparison()
        parts = [self.outside_in_words] if self.several else []
        parts += [
            "; ".join(f"{name} {cell}" for name, cell in zip(head, row, strict=True) if cell != "-") for row in rows
        ]
        advice = [text for line in self.advice for text in line.paragraphs()]
        return "\n".join([self.headline, self.leak, *parts, "", *advice])


def audit_log(
    events: Any,
    *,
    window: Duration = 300,
    gap: Duration | None = None,
    percentile: float = 50.0,
    epsilons: Sequence[Number] = ("0.5", "1", "2"),
    within: Any = None,
    community: str | None = None,
    suspects: int = 10,
    baseline: bool = True,
    columns: Mapping[str, str] | None = None,
    randomness: Randomness | None = None,
    progress: bool | None = False,
) -> TimingAudit:
    """Audit a log: rates, attack before and after, delays, re-ordered replies, other leaks, and what to do.

    Parameters
    ----------
    events, columns
        The log as it arrived, as in :func:`find_batches`.
    window
        Seconds: comments of one person on different threads this close are one sitting.
    gap, percentile
        Seconds; or the percentile of the log's own intervals to take it from.
    epsilons
        Strengths to try, with :class:`FollowUp`.
    within
        Compare only posts with the same value (see :func:`linkage_attack`).
    community
        The column that says where a post was written, to count the follow-ups that every community by itself would miss.
    suspects
        For the posterior of Figure 2, and for ranking suspects after several sittings.
    baseline
        False leaves out the rate of close pairs of different persons.
    randomness
        Secure randomness by default. Delays are drawn to be measured; nothing is posted.
    progress
        Show a bar on standard error; None shows it on a terminal only.
    """
    several = [name for name in (within, community) if isinstance(name, str)]
    log = read_log(events, "events", columns=columns, group=several)
    window_seconds = read_duration(window, "window", zero=True) / 1e9
    source = Randomness.of(randomness)
    waits = intervals(log, window=window_seconds)
    if gap is not None:
        gap_seconds = read_duration(gap, "gap") / 1e9
        if gap_seconds <= window_seconds:
            raise BadInput("gap", got=gap, want=f"more than the window of one sitting ({in_words(window_seconds)})")
    else:
        gap_seconds = rounded_up(choose_gap(waits, percentile=percentile)) if waits.size else 0.0
    tried = epsilons if gap_seconds > window_seconds else ()
    mechanisms = [FollowUp(epsilon=epsilon, gap=gap_seconds, window=window_seconds) for epsilon in tried]
    groups = groups_of(log, within)
    trials = []
    with progress_bar("auditing", 2 + len(mechanisms), show=progress) as advance:
        batches = find_batches(log, window=window_seconds, baseline=baseline)
        advance(1)
        raw = linkage_attack(log, window=window_seconds, within=groups)
        advance(1)
        history = waits if waits.size else np.array([gap_seconds])
        for mechanism in mechanisms:
            trials.append(
                trial_of(mechanism, PreparedPosting(log, mechanism).draw(source), batches, history, groups, suspects)
            )
            advance(1)
    return TimingAudit(
        headline=log.headline,
        events=len(log),
        actors=len(log.numbered("actor")[1]),
        gap=gap_seconds,
        batches=batches,
        raw=raw,
        protected=tuple(trials),
        leaks=tuple(find_leaks(log)),
        suspects=suspects,
        outside=float(np.sum(waits > gap_seconds)) / max(batches.steps, 1),
        outside_alone=float(np.mean(waits > gap_seconds)) if waits.size else 0.0,
        noon=noon_baseline(log, window=window_seconds, gap=gap_seconds, within=groups) if batches.steps else None,
        communities=missed_follow_ups(log, community=community, window=window_seconds) if community else None,
        has_replies=log.has_replies,
        several=bool((log.frame.group_by("actor").agg(pl.col("thread").n_unique())["thread"] > 1).any()),
        own_gap=gap is None,
    )
