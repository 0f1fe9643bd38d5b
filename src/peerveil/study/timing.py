"""Steps of the timing room: see how exposed people are, and post with delays."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from peerveil.judgements.writing import csv_text
from peerveil.study.outcome import Outcome
from peerveil.study.step import REQUIRED, Option, Step, epsilon, list_of, number, text, yes_or_no
from peerveil.timing import FollowUp, audit_log, linkage_attack, optimal_attack, post
from peerveil.timing.durations import in_words, parse_duration
from peerveil.timing.exposure import as_typed
from peerveil.timing.figures import draw_attacks, draw_curves, draw_waits

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.guarantee import Guarantee
    from peerveil.judgements import Events
    from peerveil.ledger import Account
    from peerveil.randomness import Randomness


def _duration(value: object) -> float:
    return parse_duration(text(value), "duration")


_WINDOW = Option("window", _duration, 300.0, "comments of one sitting are this close, such as '5m'")
_GAP = Option("gap", _duration, None, "how far apart two comments may be in the harmless case, such as '45m'")
_PERCENTILE = Option("percentile", number(0, 100), 50.0, "choose the gap that covers this share of history")


class Audit(Step):
    """How exposed people are by when they post. For the operator alone."""

    room, do = "timing", "audit"
    about = "show how exposed people are by when they post, and what delays would do about it"
    output = "nothing: the audit states facts about people"
    publishes = False
    wants = "events"
    options: ClassVar = (
        _WINDOW,
        _GAP,
        _PERCENTILE,
        Option("epsilons", list_of(epsilon), ["0.5", "1", "2"], "strengths to try"),
    )

    @classmethod
    def suggest(cls, data: str, table: Events) -> str | None:  # noqa: ARG003
        """An audit, for every log."""
        return f"""# How exposed are people by when they post? For you alone: nothing of it is published.
[[steps]]
room = "timing"
do = "audit"
data = "{data}"
window = "5m"                # comments of one sitting are this close

# To post with delays, take a gap from an earlier log and remove the signs in front:
# [[steps]]
# room = "timing"
# do = "post"
# data = "{data}"
# account = "main"
# epsilon = 1
# gap = "45m"
"""

    def promise(self, table: Events) -> None:
        """None: nothing is published."""

    def carry_out(self, table: Events, randomness: Randomness, account: Account | None) -> Outcome:  # noqa: ARG002
        """Audit the log."""
        found = audit_log(
            table,
            window=self.window,
            gap=self.gap,
            percentile=self.percentile,
            epsilons=self.epsilons,
            randomness=randomness,
        )
        outcome = Outcome("How exposed are people by when they post, and what would delays do about it?")
        outcome.promise = "Nothing is published by this step, and nothing of it may be: it states facts about people."
        assert self.file is not None
        found = replace(found, log=as_typed(self.file.path, self.file.columns, self.file.format))
        outcome.private_answer = found.summary()
        outcome.protect("everybody in the log", "nothing of this step is published")
        outcome.private_found = [
            f"{found.leak}", f"Without protection: {found.raw}.", *found.advice
        ]  # fmt: skip
        outcome.picture(lambda ax: draw_waits(ax, table, self.window, found.gap or None),
                        "Histogram of waits between posts of one person on different threads.",
                        "Waits between posts of one person on different threads; the left hump gives people away.",
                        public=False)  # fmt: skip
        if found.protected:

            def both(left: Axes, right: Axes) -> None:
                draw_attacks(left, found)
                draw_curves(right, found)

            outcome.picture(both,
                            "Left: how many pairs linked by time are right, and how many true pairs are found. Right: how "
                            "often the best test on a pair of comments sees through the delays.",
                            "Left: linking posts by time, before and after. Right: the best test on one pair of "
                            "comments (dashed: order known, pale: what the guarantee allows).",
                            public=False, columns=2)  # fmt: skip
        outcome.file("audit.json", _json(found.to_dict()), public=False)
        return outcome


class Post(Step):
    """Delay a log, and publish what the public then sees."""

    room, do = "timing", "post"
    about = "post a log with random delays, drawn once"
    output = "the posts' threads, new ids, delayed times, and authors numbered within each thread"
    wants = "events"
    spends = True
    options: ClassVar = (
        Option("epsilon", epsilon, "1", "the guarantee for a pair of comments"),
        Option(
            "gap",
            _duration,
            REQUIRED,
            "how far apart two comments may be in the harmless case, such as '45m'; take it "
            "from an earlier log, since a gap chosen from this one would tell about it",
        ),
        _WINDOW,
        Option("causal", yes_or_no, True, "replies never before what they answer"),
    )

    @property
    def mechanism(self) -> FollowUp:
        """Delays by what a post follows."""
        return FollowUp(epsilon=self.epsilon, gap=self.gap, beta=self.window)

    def promise(self, table: Events) -> Guarantee:  # noqa: ARG002
        """The mechanism's own."""
        return self.mechanism.guarantee

    def carry_out(self, table: Events, randomness: Randomness, account: Account | None) -> Outcome:
        """Debit, draw every delay once, and attack what the public sees."""
        mechanism = m = self.mechanism
        posted, schedule = post(table, mechanism=mechanism, causal=self.causal, account=account, randomness=randomness)
        outcome = Outcome("What does the public see if posts are delayed?")
        outcome.promises(posted.guarantee)
        outcome.found = [
            f"{len(posted):,} posts. Follow-ups wait {in_words(m.mean_batched)} on average, all others "
            f"{in_words(m.mean_unbatched)}, nobody longer than {in_words(m.max_delay)} (replies may wait for what they answer)."
        ]
        attacks = [optimal_attack(m, (0, m.gap), order=order) for order in ("unknown", "known")]
        outcome.attack = [
            f"The best possible test on a pair of comments errs {100 * attacks[0].crossover:.1f} times in 100 both ways "
            f"({100 * attacks[1].crossover:.1f} if the order of the two is known; a coin errs 50 times)."
        ]
        before, after = linkage_attack(table, window=self.window), linkage_attack(schedule)
        outcome.private_found = [
            f"Before: {before}.", f"After, in this draw of the delays: {after}.", f"{schedule}."
        ]  # fmt: skip
        outcome.answer = (
            f"{len(posted):,} posts with new ids, each delayed by chance, none longer than {in_words(m.max_delay)} (replies may "
            "wait for what they answer)."
        )
        outcome.protect("whether two posts of one person were written in one sitting", posted.guarantee)
        outcome.protect("everything one person posts", "not promised: each pair of posts by itself")
        outcome.picture(posted.plot, "Histogram of public posts over time.", "Public posts over time.", public=True)
        outcome.file("posted.csv", csv_text(posted.frame()), public=True)
        outcome.file("schedule.csv", csv_text(schedule.frame()), public=False)
        outcome.results = {"posts": len(posted), "mechanism": repr(mechanism)}
        return outcome


def _json(data: Any) -> str:
    import json

    return json.dumps(data, indent=2, allow_nan=False) + "\n"


STEPS = (Audit, Post)
