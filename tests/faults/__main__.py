"""``python -m tests.faults [NAME ...]``: put each fault into a copy of the source, and say which test catches it."""

from __future__ import annotations

import sys

from tests.faults.catalog import FAULTS
from tests.faults.runner import caught_by, run_tests


def main(names: list[str]) -> int:
    unknown = set(names) - {fault.name for fault in FAULTS}
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}; one of {', '.join(fault.name for fault in FAULTS)}")
        return 2
    missed = 0
    for fault in FAULTS:
        if names and fault.name not in names:
            continue
        done = run_tests(fault.tests, fault)
        found = caught_by(done)
        missed += found is None
        print(f"{fault.file}: {fault.name}: {found or 'NOT CAUGHT'}", flush=True)
        if found is None:
            print(done.stdout[-2000:] + done.stderr[-2000:])
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
