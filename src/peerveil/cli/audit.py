"""``peerveil audit``: privacy guarantees against measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from peerveil.cli.base import CHECK_FAILED, Group, debug_option, emit, json_option, print_table, stop_with
from peerveil.errors import BadInput

if TYPE_CHECKING:
    from peerveil.audit.cases import Case


@click.group(cls=Group)
def audit() -> None:
    """Test privacy guarantees by sampling, and show that broken mechanisms are detected."""


@audit.command("run", examples=["peerveil audit run", "peerveil audit run --samples 200000 --json"])
@click.option(
    "--samples",
    type=int,
    show_default="2,000 to 500,000",
    help="Samples per input for each guarantee. More samples detect smaller violations.",
)
@click.option(
    "--faults/--no-faults",
    default=True,
    help="Also test deliberately broken mechanisms, and count the samples until each is detected.",
)
@json_option
@debug_option
def run(samples: int | None, faults: bool, as_json: bool) -> None:
    """Audit every mechanism; exit code 1 if a guarantee is refuted or a broken mechanism goes undetected."""
    from peerveil.audit.cases import response_losses, samples_needed
    from peerveil.progress import progress_bar

    if samples is not None and samples < 40:
        raise BadInput("--samples", got=samples, want="at least 40")
    cases = [case for _, case in _cases()]
    broken = [case for _, case in _broken_cases()] if faults else []
    reports: list[Any] = []
    detected: list[tuple[str, str, int | None]] = []
    with progress_bar("auditing", total=len(cases) + len(broken)) as advance:
        for case in cases:
            reports.append(case.audit(samples, progress=False))
            advance(1)
        for case in broken:
            detected.append((case.name, case.fault or "", samples_needed(case)))
            advance(1)
    exact = list(response_losses())
    checks = [report.passed for report in reports] + [row.passed for row in exact]
    passed = all(checks) and all(needed for _, _, needed in detected)

    def tables() -> None:
        print_table(
            ("mechanism", "claimed", "found at least", "verdict"),
            [(r.name, f"{r.claimed:g}", f"{r.found:.3f}", "consistent" if r.passed else "REFUTED") for r in reports],
            title="Guarantees, audited by sampling (secure randomness)",
        )
        worst = max(exact, key=lambda row: row.loss / row.claimed)
        refuted = [row.name for row in exact if not row.passed]
        verdict = f"REFUTED for {', '.join(refuted)}" if refuted else "never above the claim"
        click.echo(
            f"Randomized response, computed exactly for {len(exact)} pairs of epsilon and class count: {verdict} "
            f"(closest: {worst.name}, loss {worst.loss:.9g})\n"
        )
        if detected:
            print_table(
                ("broken mechanism", "what is wrong", "samples to detect it"),
                [(name, fault, f"{needed:,}" if needed else "NOT DETECTED") for name, fault, needed in detected],
                title="Deliberately broken mechanisms (99% confidence)",
            )

    result = {
        "passed": passed,
        "reports": [report.to_dict() for report in reports],
        "exact": exact,
        "faults": [{"name": n, "fault": f, "samples_needed": needed} for n, f, needed in detected],
    }
    emit(result, as_json, tables)
    if not passed:
        stop_with(CHECK_FAILED)


@audit.command("list", examples=["peerveil audit list", "peerveil audit list --json"])
@json_option
@debug_option
def list_(as_json: bool) -> None:
    """List every audit case: its name, its module and what is claimed. Nothing is sampled."""
    from peerveil.audit.cases import response_losses

    honest, broken = _cases(), _broken_cases()

    def claim(case: Case) -> str:
        return f"{case.guarantee.notion.value}, epsilon {case.guarantee.epsilon:g}, for {case.guarantee.unit}"

    def tables() -> None:
        columns = ("name", "module", "claimed")
        rows = [(case.name, module, claim(case)) for module, case in honest]
        print_table(columns, rows, title="Guarantees")
        print_table(
            (*columns, "what is wrong"),
            [(case.name, module, claim(case), case.fault) for module, case in broken],
            title="Deliberately broken mechanisms, which the audit must detect",
        )
        pairs = len(list(response_losses()))
        click.echo(f"Randomized response is also checked exactly, for {pairs} pairs of epsilon and class count.")

    rows = [
        {"name": case.name, "module": module, "claimed": case.guarantee.to_dict(), "fault": case.fault}
        for module, case in [*honest, *broken]
    ]
    emit(rows, as_json, tables)


def _cases() -> list[tuple[str, Case]]:
    """Every mechanism with its guarantee, and the module that it belongs to."""
    from peerveil.audit.cases import house_cases
    from peerveil.rankings import adversary as rankings
    from peerveil.release import adversary as release
    from peerveil.truth import adversary as truth

    modules = {"randomness": house_cases, "release": release.audit_cases, "rankings": rankings.audit_cases,
               "truth": truth.audit_cases}  # fmt: skip
    return [(module, case) for module, cases in modules.items() for case in cases()]


def _broken_cases() -> list[tuple[str, Case]]:
    """Every deliberately broken mechanism, and the module that it belongs to."""
    from peerveil.audit.cases import planted_faults
    from peerveil.rankings import adversary as rankings
    from peerveil.release import adversary as release
    from peerveil.truth import adversary as truth

    modules = {"randomness": planted_faults, "release": release.planted_faults, "rankings": rankings.planted_faults,
               "truth": truth.planted_faults}  # fmt: skip
    return [(module, case) for module, cases in modules.items() for case in cases()]
