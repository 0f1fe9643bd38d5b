"""The step of the calibration room: decide a conference without naming the reviewer."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from peerveil.calibration import Conference, Threshold, fit_miscalibration
from peerveil.errors import BadInput, Verbatim
from peerveil.judgements.writing import csv_text
from peerveil.study.outcome import Outcome
from peerveil.study.step import REQUIRED, Option, Step, number, text, whole

if TYPE_CHECKING:
    from peerveil.calibration.fit import Fit
    from peerveil.judgements import Reviews
    from peerveil.ledger import Account
    from peerveil.randomness import Randomness


class Decide(Step):
    """Accept the better papers, with what is known of reviewers' strictness."""

    room, do = "calibration", "decide"
    about = "accept the better papers, correcting for strictness, without the decisions naming the reviewer"
    output = "which papers are accepted"
    wants = "reviews"
    spends = once = True
    also: ClassVar = {"history": "reviews"}
    options: ClassVar = (
        Option(
            "history", text, REQUIRED, "the name under [data] of a past conference, from which strictness is learned"
        ),
        Option("adversary_error", number(0, 1), REQUIRED, "how often the best guess of a writer shall be wrong"),
        Option("accept", whole(1, 1_000_000), None, "how many papers to accept; or give accepted"),
        Option("accepted", number(0, 1), 0.25, "the share of papers to accept"),
        Option("group_size", whole(2, 6), 5, "papers whose committees could have been exchanged"),
        Option("draws", whole(1, 50), 8, "of what is not known of each reviewer; 1 takes the best guess for the truth"),
        Option("iterations", whole(60, 1_000_000), 1500, "of the fit of strictness"),
    )

    @cached_property
    def fit(self) -> Fit:
        """Strictness, learned from the past: not private, and not about this conference."""
        return fit_miscalibration(self.tables["history"], iterations=self.iterations)

    def _conference(self, table: Reviews) -> Conference:
        table.require_reviewers("calibration")
        self._known(table)
        papers = table.frame["paper"].n_unique()
        if self.accept is not None and self.accept > papers:
            raise BadInput("accept", got=self.accept, want=f"at most the {papers} papers that there are")
        functions = self.fit.functions(table.frame["reviewer"].unique().to_list(), draws=self.draws)
        line: int | Threshold = Threshold.share(self.accepted) if self.accept is None else self.accept
        return Conference(table, functions=functions, noise=self.fit.noise, accept=line, size=self.group_size)

    def _known(self, table: Reviews) -> int:
        """How many of the reviewers the past tells about; a past that tells nothing is refused."""
        past: Reviews = self.tables["history"]
        if past.fingerprint == table.fingerprint:
            raise BadInput(
                "history", got=Verbatim("the very reviews that are to be decided"), want="an earlier conference"
            )
        past.require_reviewers("history")
        known = set(past.frame["reviewer"].unique().to_list()) & set(table.frame["reviewer"].unique().to_list())
        if not known:
            want = "a past conference, in which at least some of these reviewers wrote under the same names"
            raise BadInput("history", got=Verbatim("reviews by other people"), want=want)
        return len(known)

    def cautions(self, table: Reviews) -> list[str]:
        """That it is done once, and how much the past tells."""
        reviewers = table.frame["reviewer"].n_unique()
        return [
            "Decide once: two decisions of the same reviews together say more about who wrote what than one does. The "
            "account records this one and refuses a second.",
            f"The past tells about {self._known(table)} of the {reviewers} reviewers; the others are taken for average.",
        ]

    @classmethod
    def suggest(cls, data: str, table: Reviews) -> str | None:
        """A commented step: it needs a past conference."""
        if not table.has_reviewers:
            return None
        return f"""# To decide with what past conferences tell of reviewers' strictness, name one under [data], then:
# [[steps]]
# room = "calibration"
# do = "decide"
# data = "{data}"
# account = "main"
# history = "past"
# adversary_error = 0.5      # the best guess of a review's writer is wrong at least this often
# accepted = 0.25
"""

    def promise(self, table: Reviews) -> None:
        """None to debit: the guarantee is recorded once it is known. All that can be refused is refused here."""
        self._conference(table)

    def carry_out(self, table: Reviews, randomness: Randomness, account: Account | None) -> Outcome:
        """Decide once."""
        decision, sheet = self._conference(table).decide(
            adversary_error=self.adversary_error, randomness=randomness, account=account
        )
        outcome = Outcome("Which papers should be accepted, if strict reviewers are corrected for?")
        outcome.promises(decision.guarantee)
        accepted, papers = int(decision.decisions["accepted"].sum()), decision.decisions.height
        promised = float(decision.guarantee.exact_error or 0)
        outcome.found = [
            f"Asked for: the best guess of a review's writer is wrong {100 * self.adversary_error:.3g} times in 100. Reached for "
            f"every review: {100 * promised:.3g} times in 100"
            f"{'.' if promised >= self.adversary_error else ', since the scores alone give some writers away.'}",
            f"{accepted} of {papers} papers are accepted. The expected share of papers on the wrong side of the line is "
            f"{decision.conference_error:.3f}.",
            "The promise names the review that can be guessed best. What scores alone give away, no decision can hide.",
        ]
        outcome.answer = (
            f"{accepted} of {papers} papers; the list is in decisions.csv. {100 * decision.conference_error:.1f} decisions in "
            "100 are expected to be wrong."
        )
        outcome.protect("the writer of one review", decision.guarantee)
        outcome.protect("all reviews of one person", "not promised: each review by itself")
        outcome.private_found = [f"{decision.summary()}; {sheet.summary()}.", str(self.fit)]
        outcome.attack = ["The promise is about one review, fixed before the decisions are known; who picks the review "
                          "afterwards, or holds other knowledge, can do better."]  # fmt: skip
        outcome.picture(sheet.plot, "How often the best guess of each review's writer is wrong, sorted.",
                        "How often the best adversary is wrong about each review's writer, against what the scores alone "
                        "leave.", public=False)  # fmt: skip
        outcome.file("decisions.csv", csv_text(decision.decisions), public=True)
        outcome.file("decisions.json", json.dumps(decision.to_dict(), indent=2, allow_nan=False) + "\n", public=True)
        outcome.file("sheet.csv", csv_text(sheet.reviews), public=False)
        outcome.results = {"accepted": accepted, "papers": papers, "conference_error": decision.conference_error}
        return outcome


STEPS = (Decide,)
