"""Would a lie be noticed? Lower bounds on what a mechanism really gives away.

- **From samples of any output**: :func:`lower_bound` finds the event that tells two inputs apart best, and certifies
  the privacy loss that it shows: a :class:`LowerBound`.
- **In the last bits of floats**, where careless noise leaks: ``lower_bound(..., event=granularity)``.
- **From known probabilities**: :func:`exact_loss`, an :class:`ExactLoss`.
- **A whole mechanism over neighboring inputs, claimed against found**: :func:`check` with a list of :class:`Pair`;
  it returns a :class:`Report`, whose ``raise_if_violated`` raises :class:`PrivacyViolation`. :func:`repeated` makes a
  mechanism that answers one sample at a time one that answers many.
- **The house's own mechanisms, and planted faults that must be caught**: :mod:`peerveil.audit.cases`
  (``peerveil audit``).

An audit can convict, never acquit: a bound below the claim is consistent with it and proves nothing. The proofs are in
the mechanisms' docstrings.

>>> import numpy as np
>>> from peerveil.core.randomness import Randomness
>>> r = Randomness.simulation(0)
>>> bound = lower_bound(r.laplace(np.zeros(50_000), scale=1), r.laplace(np.ones(50_000), scale=1))
>>> 0.9 < bound.epsilon <= 1  # the true loss is 1
True
"""

from peerveil.audit.bound import LowerBound, lower_bound
from peerveil.audit.driver import Pair, PrivacyViolation, Report, check, repeated
from peerveil.audit.events import granularity
from peerveil.audit.exact import ExactLoss, exact_loss

__all__ = [
    "ExactLoss",
    "LowerBound",
    "Pair",
    "PrivacyViolation",
    "Report",
    "check",
    "exact_loss",
    "granularity",
    "lower_bound",
    "repeated",
]
