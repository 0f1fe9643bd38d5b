"""Actions of the audit: privacy claims against what can be measured, and deliberately broken mechanisms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from annotated_types import Ge, Le

from peerveil.study.actions import Action, Setting

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.audit import Report
    from peerveil.audit.cases import Case
    from peerveil.study.actions import Context
    from peerveil.study.execute import Inputs
    from peerveil.study.outcome import Outcome


class Run(Action[None]):
    """Audit the mechanisms themselves, on neighboring inputs of our own."""

    name, title = "audit.run", "Privacy audit"
    about = "Audit every mechanism: measured privacy loss against the claim, and deliberately broken mechanisms."
    details = (
        "Each mechanism is run many times on two neighboring inputs, and the event that distinguishes the two best is searched "
        "for. The command ends with exit code 1 if a claim is refuted or a broken mechanism goes unnoticed."
    )
    publishes = "claims and measurements; no data are read"
    examples = ("", "--samples 20000 --no-broken")

    samples: Annotated[
        int | None,
        Ge(40),
        Le(10_000_000),
        Setting(
            "Outputs per side for each claim; more finds more. By default 20,000 to 500,000 by mechanism.", common=True
        ),
    ] = None
    broken: Annotated[
        bool, Setting("Also audit deliberately broken mechanisms, and count the samples needed to detect them.")
    ] = True

    def run(self, inputs: Inputs[None], context: Context) -> Outcome:  # noqa: ARG002
        """Run every audit."""
        from peerveil.audit.cases import response_losses, samples_needed
        from peerveil.study.outcome import Outcome

        cases = [case for _, case in audit_cases()]
        faults = [case for _, case in broken_cases()] if self.broken else []
        reports: list[Report] = []
        for number, case in enumerate(cases):
            context.progress(number / (len(cases) + len(faults)), case.name)
            reports.append(case.audit(min(case.samples, self.samples or case.samples), progress=False))
        needed: list[int | None] = []
        for number, case in enumerate(faults, start=len(cases)):
            context.progress(number / (len(cases) + len(faults)), case.name)
            needed.append(samples_needed(case))
        exact = list(response_losses())
        passed = sum(report.passed for report in reports)
        caught = sum(count is not None for count in needed)
        worst = max(exact, key=lambda row: row.loss / row.claimed)
        refuted = [row.name for row in exact if not row.passed]

        outcome = Outcome("Do the privacy claims hold?")
        outcome.promise = "No data are read: mechanisms are run on neighboring inputs of our own."
        outcome.failed = passed < len(reports) or caught < len(faults) or bool(refuted)
        outcome.answer = f"{passed} of {len(reports)} claims are consistent with what was measured" + (
            f"; {caught} of {len(faults)} deliberately broken mechanisms were detected." if faults else "."
        )
        verdict = f"refuted for {', '.join(refuted)}" if refuted else "never above the claim"
        outcome.found = [
            f"Randomized response, computed exactly for {len(exact)} pairs of epsilon and class count: {verdict} (closest: "
            f"{worst.name}, loss {worst.loss:.9g})."
        ]
        outcome.picture(
            lambda ax: draw_audit(ax, reports),
            f"Measured privacy loss against the claim; {passed} of {len(reports)} stay below.",
            "What each mechanism certainly gives away, as a share of what it claims.",
            public=True,
            height=0.9 + 0.32 * len(reports),
        )
        outcome.table(
            ["mechanism", "claimed", "found at least", "verdict"],
            [
                [
                    report.name,
                    f"{report.claimed:g}",
                    f"{report.found:.3f}",
                    "consistent" if report.passed else "REFUTED",
                ]
                for report in reports
            ],
            public=True,
        )
        if faults:
            outcome.table(
                ["broken mechanism", "what is wrong", "samples to detect it"],
                [
                    [case.name, case.fault or "", "NOT DETECTED" if count is None else f"{count:,}"]
                    for case, count in zip(faults, needed, strict=True)
                ],
                public=True,
            )
        outcome.results = {
            "passed": not outcome.failed,
            "audits": [{"name": r.name, "claimed": r.claimed, "found": r.found, "passed": r.passed} for r in reports],
            "exact": [{"name": row.name, "claimed": row.claimed, "loss": row.loss} for row in exact],
            "broken": [
                {"name": case.name, "fault": case.fault, "samples_needed": count}
                for case, count in zip(faults, needed, strict=True)
            ],
        }
        return outcome


def audit_cases() -> list[tuple[str, Case]]:
    """Every mechanism that is audited by sampling, and the module that it belongs to."""
    from peerveil.audit.cases import house_cases
    from peerveil.rankings import adversary as rankings
    from peerveil.release import adversary as release
    from peerveil.truth import adversary as truth

    modules = {
        "randomness": house_cases,
        "release": release.audit_cases,
        "rankings": rankings.audit_cases,
        "truth": truth.audit_cases,
    }
    return [(module, case) for module, cases in modules.items() for case in cases()]


def broken_cases() -> list[tuple[str, Case]]:
    """Every deliberately broken mechanism, and the module that it belongs to."""
    from peerveil.audit.cases import planted_faults
    from peerveil.rankings import adversary as rankings
    from peerveil.release import adversary as release
    from peerveil.truth import adversary as truth

    modules = {
        "randomness": planted_faults,
        "release": release.planted_faults,
        "rankings": rankings.planted_faults,
        "truth": truth.planted_faults,
    }
    return [(module, case) for module, cases in modules.items() for case in cases()]


def draw_audit(ax: Axes, reports: list[Report]) -> None:
    """Bars of what was found as a share of the claim, colored by whether the claim stands."""
    from peerveil.report import COLORS

    colors = [COLORS["private" if report.passed else "leak"] for report in reports]
    ax.barh([report.name for report in reports], [report.found / report.claimed for report in reports], color=colors)
    for name, label in (("private", "claim stands"), ("leak", "claim refuted")):
        ax.barh([reports[0].name], [0.0], color=COLORS[name], label=label)
    ax.axvline(1, color=COLORS["accent"], linestyle="--", label="the claim")
    ax.set_xlabel("certainly given away, as a share of the claimed epsilon")
    ax.invert_yaxis()
    ax.legend(loc="lower center", bbox_to_anchor=(0.35, 1), ncols=3, fontsize=9)


ACTIONS: Final[tuple[type[Action[Any]], ...]] = (Run,)
