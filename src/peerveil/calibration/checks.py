"""Arguments of this module, checked once and in one wording."""

from __future__ import annotations

from typing import Final

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import LARGEST, number, probability

SLACK: Final = 1e-9
"""A demand this close to what can be reached is taken as reached: solvers are not more exact."""


def positive(argument: str, value: object) -> float:
    """A finite number above 0."""
    return number(value, argument, 1 / LARGEST, want="a finite number above 0")


def noise_level(value: object) -> float:
    """A standard deviation of 0 or more."""
    level = number(value, "noise", 0.0, want="a standard deviation: a finite number, 0 or more")
    if 0 < level < 1 / LARGEST:
        raise BadInput("noise", got=value, want="0 (no noise), or a standard deviation of at least 1e-100")
    return level


def quality_prior(prior: object) -> tuple[float, float]:
    """Mean and standard deviation of papers' qualities."""
    if not isinstance(prior, tuple | list) or len(prior) != 2:
        raise BadInput("prior", got=prior, want="the mean and the standard deviation of qualities, such as (0, 1)")
    return number(prior[0], "prior[0]"), positive("prior[1]", prior[1])


def one_demand(conference_error: object, adversary_error: object) -> None:
    """Require exactly one of the two errors."""
    if (conference_error is None) == (adversary_error is None):
        got = Verbatim("both" if conference_error is not None else "neither")
        raise BadInput("conference_error, adversary_error", got=got, want="exactly one of them")


def reachable_conference_error(value: object, least: float) -> float:
    """A conference error that some strategy reaches."""
    error = probability(value, "conference_error")
    if error < least - SLACK:
        want = f"a number from {least:.6g} to 1 (less is impossible even with full use of the assignment)"
        raise BadInput("conference_error", got=error, want=want)
    return error


def reachable_adversary_error(value: object, most: float) -> float:
    """An adversary error that some strategy reaches."""
    error = probability(value, "adversary_error")
    if error > most + SLACK:
        want = f"a number from 0 to {most:.6g} (the published scores alone already let the adversary guess that well)"
        raise BadInput("adversary_error", got=error, want=want)
    return error
