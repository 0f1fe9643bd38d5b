"""The command line: a thin layer over the library, one file per command group.

Exit codes: 0 done; 1 a check failed (an audit refuted a claim, a ledger was tampered with); 2 the input or the command
was wrong; 3 a budget would have been exceeded; 70 an error in peerveil itself; 130 interrupted.
"""

from peerveil.cli.base import main

__all__ = ["main"]
