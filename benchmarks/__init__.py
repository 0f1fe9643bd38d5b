"""Speed, as ratios against a peer in the same run: ``make bench``, or ``python -m benchmarks NAME``."""

import sys
from pathlib import Path
from types import ModuleType

# a peer installs a package named tests; our folder of that name, which holds the PostgreSQL server, would lose to it
_tests = ModuleType("tests")
_tests.__path__ = [str(Path(__file__).resolve().parents[1] / "tests")]
sys.modules.setdefault("tests", _tests)
