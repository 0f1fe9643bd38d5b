"""``peerveil audit``: the house's claims against what can be found."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from peerveil.cli.base import AsJson, Debug, emit, example, new_group, print_table, stop_with_failed_check
from peerveil.errors import BadInput

app = new_group("audit", "Privacy claims against what can be found, and planted faults that must be caught.")


@app.command("run", epilog=example("peerveil audit run", "peerveil audit run --samples 200000 --json"))
def run(
    samples: Annotated[
        int | None,
        typer.Option(help="Outputs a side for each claim; more finds more.", show_default="20,000 to 500,000"),
    ] = None,
    faults: Annotated[
        bool, typer.Option(help="Also plant faults, and count the samples it takes to catch them.")
    ] = True,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Audit every mechanism of the house; exit code 1 if a claim is refuted or a planted fault goes unnoticed."""
    from peerveil.audit.cases import house_cases, planted_faults, response_losses, samples_needed
    from peerveil.progress import progress_bar
    from peerveil.rankings import adversary as rankings
    from peerveil.release import adversary as release
    from peerveil.truth import adversary as truth

    if samples is not None and samples < 40:
        raise BadInput("--samples", got=samples, want="at least 40")
    cases = [*house_cases(), *release.audit_cases(), *rankings.audit_cases(), *truth.audit_cases()]
    broken = [*planted_faults(), *release.planted_faults(), *rankings.planted_faults(), *truth.planted_faults()]
    broken = broken if faults else []
    reports: list[Any] = []
    caught: list[tuple[str, str, int | None]] = []
    with progress_bar("auditing", total=len(cases) + len(broken)) as advance:
        for case in cases:
            reports.append(case.audit(samples, progress=False))
            advance(1)
        for case in broken:
            caught.append((case.name, case.fault or "", samples_needed(case)))
            advance(1)
    exact = list(response_losses())
    checks = [report.passed for report in reports] + [row.passed for row in exact]
    passed = all(checks) and all(needed for _, _, needed in caught)

    def tables() -> None:
        print_table(
            ("mechanism", "claimed", "found at least", "verdict"),
            [(r.name, f"{r.claimed:g}", f"{r.found:.3f}", "consistent" if r.passed else "REFUTED") for r in reports],
            title="Claims, audited by sampling (secure lane)",
        )
        worst = max(exact, key=lambda row: row.loss / row.claimed)
        refuted = [row.name for row in exact if not row.passed]
        verdict = f"REFUTED for {', '.join(refuted)}" if refuted else "never above the claim"
        typer.echo(
            f"Randomized response, computed exactly for {len(exact)} pairs of epsilon and class count: {verdict} "
            f"(closest: {worst.name}, loss {worst.loss:.9g})\n"
        )
        if caught:
            print_table(
                ("planted fault", "what is wrong", "samples to catch it"),
                [(name, fault, f"{needed:,}" if needed else "NOT CAUGHT") for name, fault, needed in caught],
                title="Faults planted on purpose (99% confidence)",
            )

    data = {
        "passed": passed,
        "reports": [report.to_dict() for report in reports],
        "exact": exact,
        "faults": [{"name": n, "fault": f, "samples_needed": needed} for n, f, needed in caught],
    }
    emit(data, as_json, tables)
    if not passed:
        stop_with_failed_check()
