"""The step of the rankings room: is there any signal?"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from peerveil.errors import BadInput
from peerveil.rankings import uniformity_test
from peerveil.rankings.uniformity import PRIVATE, TAKE_PARTIAL, ranking_guarantee
from peerveil.study.outcome import Outcome
from peerveil.study.step import REQUIRED, Option, Step, epsilon, number, one_of

if TYPE_CHECKING:
    from peerveil.guarantee import Guarantee
    from peerveil.judgements import Rankings
    from peerveil.ledger import Account
    from peerveil.randomness import Randomness


class Test(Step):
    """Do rankings differ from chance?"""

    room, do = "rankings", "test"
    about = "test whether rankings differ from chance, with a p-value that may be published"
    output = "the noised statistic, its p-value and the answer"
    wants = "rankings"
    spends = True
    options: ClassVar = (
        Option("epsilon", epsilon, REQUIRED, "the privacy of one person's ranking"),
        Option("level", number(1e-9, 0.5), 0.05, "how often uniform rankings may be called different"),
        Option("method", one_of("auto", *PRIVATE), "auto", "which test"),
    )

    @classmethod
    def suggest(cls, data: str, table: Rankings) -> str | None:  # noqa: ARG003
        """For every table of rankings."""
        return f"""# Do these rankings carry any signal? The p-value may be published.
[[steps]]
room = "rankings"
do = "test"
data = "{data}"
account = "main"
epsilon = 1
level = 0.05
"""

    def promise(self, table: Rankings) -> Guarantee:
        """The test's own."""
        if not table.is_complete and self.method not in TAKE_PARTIAL:
            raise BadInput(
                "method", got=self.method, want=f"one of {', '.join(TAKE_PARTIAL)}: some rankings are incomplete"
            )
        return ranking_guarantee(self.epsilon, partial=self.method in TAKE_PARTIAL)

    def carry_out(self, table: Rankings, randomness: Randomness, account: Account | None) -> Outcome:
        """Test once."""
        found = uniformity_test(
            table,
            epsilon=self.epsilon,
            method=self.method,
            level=self.level,
            randomness=randomness,
            account=account,
        )
        outcome = Outcome("Do the rankings carry any signal, or could they be chance?")
        outcome.promises(found.guarantee)
        p = f"p-value {found.pvalue:.2g}" if found.pvalue >= 1e-6 else "p-value below 0.000001"
        if found.reject:
            outcome.answer = f"Yes, they carry a signal: chance would hardly give rankings that agree so well ({p})."
        else:
            outcome.answer = (
                f"No sign of any: chance could give such rankings ({p}, above the level of {self.level:g})."
            )
        outcome.protect("one person's ranking", found.guarantee)
        outcome.protect("everything one person gave (one ranking)", found.guarantee)
        outcome.found = [f"{found.summary()[0].upper()}{found.summary()[1:]}. {self.level:g} is how often chance alone may be "
                         "taken for a signal."]  # fmt: skip
        outcome.attack = [
            "Whoever knows everybody's ranking but one person's learns at most what the promise above says."
        ]
        outcome.picture(found.plot, f"The statistic of uniform rankings, and the observed one. {found.summary()}.",
                        "What chance would give (curve), where a signal is taken for one, and what was observed.",
                        public=True)  # fmt: skip
        outcome.file("test.json", found.to_json(indent=2) + "\n", public=True)
        outcome.results = {"reject": found.reject, "pvalue": found.pvalue, "method": found.method}
        return outcome


STEPS = (Test,)
