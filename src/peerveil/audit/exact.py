"""The privacy loss between two known output distributions, exactly."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import Number, exact, exp_bounds, log_above

_SUM_TOLERANCE = Fraction(1, 10**9)


@dataclass(frozen=True, slots=True)
class ExactLoss:
    """The largest log-likelihood ratio between two distributions, and where it is reached.

    Attributes
    ----------
    epsilon : float
        The loss, rounded up; infinite if some outcome is possible on one side only.
    ratio : Fraction or None
        e^loss exactly; ``None`` if infinite. Floats were taken at their stored value.
    outcome
        The outcome at which it is reached.
    direction : str
        ``"p over q"`` or ``"q over p"``.
    """

    epsilon: float
    ratio: Fraction | None
    outcome: Hashable
    direction: str

    def within(self, epsilon: Number) -> bool:
        """Whether the loss is at most epsilon, decided without rounding.

        >>> exact_loss([Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]).within(1.1)
        True
        """
        if self.ratio is None:
            return False
        low, high = exp_bounds(exact(epsilon, "epsilon"))
        # no rational ratio but 1 is between the bounds; if another were, it would be refused
        return self.ratio <= low or self.ratio == 1 <= high

    def __str__(self) -> str:
        return f"privacy loss {self.epsilon:.6g} at outcome {self.outcome!r} ({self.direction})"


def exact_loss(
    p: Mapping[Any, Any] | Iterable[Any], q: Mapping[Any, Any] | Iterable[Any], *, one_sided: bool = False
) -> ExactLoss:
    """The privacy loss between two finite output distributions: max over outcomes of the log-likelihood ratio.

    Parameters
    ----------
    p, q
        Probabilities in the same order, or mappings from outcome to probability (an outcome that is missing has
        probability 0). Fractions are used exactly; floats at their stored value.
    one_sided
        Only ``p`` over ``q``.

    Notes
    -----
    For a finite output space this maximum *is* the privacy loss: the ratio of the probabilities of a set of outcomes
    is a weighted mean of the ratios of its members.

    Examples
    --------
    >>> print(exact_loss([0.75, 0.25], [0.25, 0.75]))
    privacy loss 1.09861 at outcome 0 (p over q)
    >>> exact_loss({"yes": 1.0}, {"yes": 0.5, "no": 0.5}, one_sided=True).epsilon <= math.log(2) + 1e-15
    True
    """
    if isinstance(p, Mapping) is not isinstance(q, Mapping):
        raise BadInput("q", got=q, want="the same kind as p: two mappings, or two sequences")
    first, second = _distribution(p, "p"), _distribution(q, "q")
    if not isinstance(p, Mapping) and len(first) != len(second):
        raise BadInput("q", got=Verbatim(f"{len(second)} probabilities"), want=f"{len(first)}, as many as p has")
    ratios: list[tuple[Fraction | float, Hashable, str]] = []
    for outcome in dict.fromkeys([*first, *second]):
        a, b = first.get(outcome, Fraction(0)), second.get(outcome, Fraction(0))
        sides = [(a, b, "p over q")] if one_sided else [(a, b, "p over q"), (b, a, "q over p")]
        ratios += [(x / y if y else math.inf, outcome, direction) for x, y, direction in sides if x]
    # probabilities add up to 1, so some outcome is possible
    ratio, outcome, direction = max(ratios, key=lambda entry: entry[0])
    if not isinstance(ratio, Fraction):
        return ExactLoss(math.inf, None, outcome, direction)
    return ExactLoss(max(0.0, log_above(ratio)), ratio, outcome, direction)


def _distribution(values: Mapping[Any, Any] | Iterable[Any], argument: str) -> dict[Hashable, Fraction]:
    want = "probabilities: finite, not negative, adding up to 1"
    if isinstance(values, (str, bytes)):
        raise BadInput(argument, got=values, want=want)
    try:
        pairs = list(values.items()) if isinstance(values, Mapping) else list(enumerate(values))
        result = {outcome: _stored(value, f"{argument}[{outcome!r}]", want) for outcome, value in pairs}
    except TypeError:
        raise BadInput(argument, got=values, want=want) from None
    total = sum(result.values(), Fraction(0))
    if abs(total - 1) > _SUM_TOLERANCE:
        raise BadInput(argument, got=Verbatim(f"probabilities adding up to {float(total):.12g}"), want=want)
    return result


def _stored(value: Any, argument: str, want: str) -> Fraction:
    if isinstance(value, (float, np.floating)) and math.isfinite(float(value)):
        number = Fraction(float(value))
    else:
        number = exact(value, argument, want=want)
    if number < 0:
        raise BadInput(argument, got=value, want=want)
    return number
