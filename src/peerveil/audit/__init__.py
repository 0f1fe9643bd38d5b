"""Privacy audit: certified lower bounds on what a mechanism really gives away.

- **From samples of any output**: :func:`lower_bound` finds the event that distinguishes two inputs best, and certifies
  the privacy loss that it shows: a :class:`LowerBound`.
- **In the last bits of floats**, where careless noise leaks: ``lower_bound(..., event=granularity)``.
- **From known probabilities**: :func:`exact_loss`, an :class:`ExactLoss`.
- **A whole mechanism over neighboring inputs, claimed against measured**: :func:`check` with a list of
  :class:`Neighbors`; it returns an :class:`AuditResult`, whose ``raise_if_violated`` raises :class:`PrivacyViolation`.
  :func:`repeated` adapts a mechanism that gives one output per call.
- **Every claim of the project, and deliberately broken mechanisms**: :class:`Claim` and :class:`GuessClaim` in the
  registry (:func:`register`, :func:`registered`), which the ``adversary.py`` of each module fills.

An audit can refute a claim, never prove it: a bound below the claim is consistent with it. The proofs are in the
mechanisms' docstrings.

>>> import numpy as np
>>> from peerveil.core.randomness import Randomness
>>> r = Randomness.simulation(0)
>>> bound = lower_bound(r.laplace(np.zeros(50_000), scale=1), r.laplace(np.ones(50_000), scale=1))
>>> 0.9 < bound.epsilon <= 1  # the true loss is 1
True
"""

from peerveil.audit.bound import LowerBound, lower_bound
from peerveil.audit.check import AuditResult, Neighbors, PrivacyViolation, check, repeated
from peerveil.audit.claims import Claim, GuessClaim, register, registered
from peerveil.audit.events import granularity
from peerveil.audit.exact import ExactLoss, exact_loss

__all__ = [
    "AuditResult",
    "Claim",
    "ExactLoss",
    "GuessClaim",
    "LowerBound",
    "Neighbors",
    "PrivacyViolation",
    "check",
    "exact_loss",
    "granularity",
    "lower_bound",
    "register",
    "registered",
    "repeated",
]
