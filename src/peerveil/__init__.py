"""peerveil: collect, post, decide, test and release human judgments without exposing the humans.

What you can do, and where it is:

- **Say what is guaranteed**: :class:`Guarantee`, a value that prints as one sentence and composes exactly.
- **Draw noise**: :class:`Randomness` secure for people, seeded for studies.
- **Keep a budget**: :class:`Ledger`; it debits before the noise is drawn, and raises :class:`BudgetExceeded`.
- **Check a claim**: :mod:`peerveil.audit`.
- **Read data**: :mod:`peerveil.data` (reviews, events, rankings, labels).
- **Publish how reviewers score**: :mod:`peerveil.release`.
- **Hide when people post**: :mod:`peerveil.timing`.
- **Decide without naming the reviewer**: :mod:`peerveil.calibration`.
- **Know whether rankings differ from chance**: :mod:`peerveil.rankings`.
- **Infer right answers from randomized ones**: :mod:`peerveil.truth`.

Bad input raises :class:`BadInput`, which is a :class:`ValueError` and says what would be right.

>>> import peerveil
>>> guarantee = peerveil.Guarantee.local_dp(1)
>>> guarantee.epsilon
1.0
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from peerveil import audit, calibration, data, rankings, release, timing, truth
    from peerveil.core.errors import BadInput, PeerveilError
    from peerveil.core.guarantee import Guarantee
    from peerveil.core.randomness import Randomness, Response, laplace_scale
    from peerveil.core.result import Result
    from peerveil.ledger import BudgetExceeded, Ledger

__version__: Final = "0.1.0"

__all__ = [
    "BadInput",
    "BudgetExceeded",
    "Guarantee",
    "Ledger",
    "PeerveilError",
    "Randomness",
    "Response",
    "Result",
    "__version__",
    "audit",
    "calibration",
    "data",
    "laplace_scale",
    "rankings",
    "release",
    "timing",
    "truth",
]

# where each public name that is no package lives; imported on first use, so that `import peerveil` stays quick
_HOMES: Final = {
    "BadInput": "peerveil.core.errors",
    "BudgetExceeded": "peerveil.ledger",
    "Guarantee": "peerveil.core.guarantee",
    "Ledger": "peerveil.ledger",
    "PeerveilError": "peerveil.core.errors",
    "Randomness": "peerveil.core.randomness",
    "Response": "peerveil.core.randomness",
    "Result": "peerveil.core.result",
    "laplace_scale": "peerveil.core.randomness",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'peerveil' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name) if name in _HOMES else import_module(f"peerveil.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
