"""The step that audits the house itself: claimed against found, and planted faults that must be caught."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from peerveil.audit.cases import house_cases, planted_faults
from peerveil.release.adversary import audit_cases
from peerveil.report import COLOURS
from peerveil.study.outcome import Outcome
from peerveil.study.step import Option, Step, whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.audit import Report
    from peerveil.ledger import Account
    from peerveil.randomness import Randomness


class House(Step):
    """Audit the mechanisms themselves, on neighbouring inputs of our own."""

    room, do = "audit", "house"
    about = "audit the mechanisms themselves, and plant faults that must be caught"
    output = "claims and what was found; no data are read"
    options: ClassVar = (Option("samples", whole(200, 10_000_000), 20_000, "outputs a side for each mechanism"),)

    def promise(self, table: None) -> None:
        """None: no data are read."""

    def carry_out(self, table: None, randomness: Randomness, account: Account | None) -> Outcome:  # noqa: ARG002
        """Run every audit."""
        honest = [
            case.audit(min(case.samples, self.samples) // len(case.pairs), progress=False)
            for case in chain(house_cases(), audit_cases())
        ]
        faults = [
            (case, case.audit(min(case.samples, self.samples) // len(case.pairs), progress=False))
            for case in planted_faults()
        ]
        caught = sum(not report.passed for _, report in faults)
        outcome = Outcome("Would a lie be noticed?")
        outcome.promise = "No data are read: mechanisms are run on neighbouring inputs of our own."
        stand = sum(report.passed for report in honest)
        outcome.answer = (
            f"{'Yes' if caught == len(faults) else 'Not every one'}: {caught} of {len(faults)} faults that were planted on "
            f"purpose were caught, and {stand} of {len(honest)} honest claims stand."
        )
        outcome.found = [
            "Every mechanism was run many times on two neighbouring inputs, and what tells the two apart best was searched "
            "for: so much it certainly gives away. Honest mechanisms (blue) stay left of their claim; those broken on "
            "purpose (red) are found out.",
            f"{stand} of {len(honest)} honest claims stand; {caught} of {len(faults)} planted faults were caught.",
        ]
        reports = [*honest, *(report for _, report in faults)]
        outcome.picture(lambda ax: draw_audit(ax, reports), f"Found against claimed; {caught} planted faults above 1.",
                        "What each mechanism certainly gives away, against what it claims.", public=True,
                        height=0.9 + 0.32 * len(reports))  # fmt: skip
        outcome.table(
            ["planted fault", "what is wrong", "claimed", "found"],
            [[case.name, case.fault, f"{r.claimed:g}", f"at least {r.found:.2f}"] for case, r in faults],
            public=True,
        )
        rows: list[dict[str, Any]] = [
            {"name": report.name, "claimed": report.claimed, "found": report.found, "passed": report.passed}
            for report in reports
        ]
        outcome.results = {"audits": rows}
        return outcome


def draw_audit(ax: Axes, reports: list[Report]) -> None:
    """Bars of what was found, coloured by whether the claim stands; all of the reports claim 1."""
    colours = [COLOURS["private" if report.passed else "leak"] for report in reports]
    ax.barh([report.name for report in reports], [report.found for report in reports], color=colours)
    for name, label in (("private", "claim stands"), ("leak", "claim refuted")):
        ax.barh([reports[0].name], [0.0], color=COLOURS[name], label=label)
    ax.axvline(1, color=COLOURS["accent"], linestyle="--", label="claimed by all")
    ax.set_xlabel("certainly given away (epsilon)")
    ax.invert_yaxis()
    ax.legend(loc="lower center", bbox_to_anchor=(0.35, 1), ncols=3, fontsize=9)


STEPS = (House,)
