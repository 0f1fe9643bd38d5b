"""Actions of the audit: privacy claims against what can be measured, and deliberately broken mechanisms."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final

from peerveil.core.optional import missing_parts
from peerveil.study.actions import Action, Setting, common
from peerveil.study.outcome import Outcome, OutcomePart
from peerveil.study.spelling import Range

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.audit import AuditResult
    from peerveil.study.execute import Context, Inputs

MODULES: Final = ("release", "timing", "calibration", "rankings", "truth")
ADVERSARIES: Final = ("peerveil.audit.randomness", *(f"peerveil.{module}.adversary" for module in MODULES))
"""What registers claims with the audit."""
SERVICES: Final[list[str]] = []
"""What the layers above add to them."""


class AuditRun(Action[None]):
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
        Range(ge=40, le=10_000_000),
        common("Outputs per side for each claim; more finds more. By default 20,000 to 500,000 by mechanism."),
    ] = None
    broken: Annotated[
        bool, Setting("Also audit deliberately broken mechanisms, and count the samples needed to detect them.")
    ] = True

    def run(self, inputs: Inputs[None], context: Context) -> Outcome:  # noqa: ARG002
        """Run every audit."""
        from peerveil.audit.claims import registered, samples_needed
        from peerveil.audit.randomness import response_losses

        load_claims()
        claims, faults = registered(broken=False), registered(broken=True) if self.broken else []
        audits: list[AuditResult] = []
        needed: list[int | None] = []
        for number, claim in enumerate([*claims, *faults]):
            context.progress(number / (len(claims) + len(faults)), claim.name)
            if number < len(claims):
                audits.append(claim.audit(min(claim.samples, self.samples or claim.samples)))
            else:
                needed.append(samples_needed(claim))
        exact = list(response_losses())
        passed = sum(audit.passed for audit in audits)
        caught = sum(count is not None for count in needed)
        worst = max(exact, key=lambda row: row.loss / row.claimed)
        refuted = [row.name for row in exact if not row.passed]

        failed = passed < len(audits) or caught < len(faults) or bool(refuted)
        verdict = f"refuted for {', '.join(refuted)}" if refuted else "never above the claim"
        detected = [(claim.name, claim.fault or "", count) for claim, count in zip(faults, needed, strict=True)]
        part = OutcomePart(
            f"{passed} of {len(audits)} claims are consistent with what was measured"
            + (f"; {caught} of {len(faults)} deliberately broken mechanisms were detected." if faults else "."),
            [
                f"Randomized response, computed exactly for {len(exact)} pairs of epsilon and class count: {verdict} (closest: "
                f"{worst.name}, loss {worst.loss:.9g})."
            ],
            {
                "passed": not failed,
                "audits": [
                    {name: getattr(audit, name) for name in ("name", "claimed", "measured", "passed")}
                    for audit in audits
                ],
                "exact": [{"name": row.name, "claimed": row.claimed, "loss": row.loss} for row in exact],
                "broken": [{"name": name, "fault": fault, "samples_needed": count} for name, fault, count in detected],
            },
        )
        part.table(
            ["mechanism", "notion", "claimed", "measured at least", "verdict"],
            [
                (audit.name, audit.guarantee.notion.value, f"{audit.claimed:.3g}", f"{audit.measured:.3f}",
                 "consistent" if audit.passed else "REFUTED")
                for audit in audits
            ],
        )  # fmt: skip
        if faults:
            rows = [(*names, "NOT DETECTED" if count is None else f"{count:,}") for *names, count in detected]
            part.table(["broken mechanism", "what is wrong", "samples to detect it"], rows)
        reason = "No data are read: mechanisms are run on neighboring inputs of our own."
        outcome = Outcome("Do the privacy claims hold?", reason, public=part, failed=failed)
        outcome.figure(
            lambda ax: draw_audit(ax, [claim.module for claim in claims], audits),
            f"Measured privacy loss against the claim; {passed} of {len(audits)} stay below.",
            "What each mechanism certainly gives away, as a share of what it claims: one dot per claim, one row per module.",
            public=True,
            height=3,
        )
        return outcome


def load_claims() -> None:
    """Import what registers claims. The command line adds the services to the list; without their extra they are left out."""
    for name in [*ADVERSARIES, *([] if missing_parts("services") else SERVICES)]:
        import_module(name)


def draw_audit(ax: Axes, modules: list[str], audits: list[AuditResult]) -> None:
    """What was measured as a share of the claim, one dot per claim and one row per module."""
    from peerveil.report import COLORS

    rows = list(dict.fromkeys(modules))
    for name, label, passed in (("private", "claim stands", True), ("leak", "claim refuted", False)):
        pairs = [(module, audit) for module, audit in zip(modules, audits, strict=True) if audit.passed is passed]
        shares, places = [audit.measured / audit.claimed for _, audit in pairs], [rows.index(row) for row, _ in pairs]
        ax.scatter(shares, places, s=60, alpha=0.7, color=COLORS[name], label=label, clip_on=False)
    ax.axvline(1, color=COLORS["accent"], linestyle="--", label="the claim")
    ax.set(
        xlabel="certainly given away, as a share of the claim",
        xlim=(0, None),
        yticks=range(len(rows)),
        yticklabels=rows,
    )
    ax.invert_yaxis()
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, fontsize=9)


ACTIONS: Final[tuple[type[Action[Any]], ...]] = (AuditRun,)
