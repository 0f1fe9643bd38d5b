"""``python -m tests.golden [--write] [GROUP ...]``: compare outputs with the stored ones, or write them down anew."""

from __future__ import annotations

import argparse
import sys

from tests.golden.store import GROUPS, differences, outputs, write


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the outputs down, and list what changed")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"only these: {', '.join(GROUPS)}")
    given = parser.parse_args()
    code = 0
    for group in given.groups or GROUPS:
        now = outputs(group)
        if given.write:
            for name in write(group, now):
                print(f"changed: {group}: {name}")
        elif found := differences(group, now):
            print(f"{group}\n{found}\n")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
