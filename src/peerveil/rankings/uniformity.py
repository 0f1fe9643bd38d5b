"""Is there any signal in these rankings? One function, a few tests, one kind of answer."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.errors import BadInput
from peerveil.core.guarantee import Guarantee, read_epsilon
from peerveil.core.randomness import Randomness, laplace_scale
from peerveil.core.result import Result
from peerveil.rankings.central import ClippedBatches, ClippedNorm, PairsNorm, RankNorm, rank_length
from peerveil.rankings.choose import choose_batches, choose_central
from peerveil.rankings.intake import Ballots
from peerveil.rankings.mallows import read_randomness
from peerveil.rankings.noise import NoisyLaw
from peerveil.rankings.nulls import concordance_critical, concordance_null, concordance_tail, squares_null

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from matplotlib.axes import Axes

    from peerveil.core.exact import Number
    from peerveil.ledger import Account
    from peerveil.rankings.nulls import Law

PRIVATE: Final = ("rank-norm", "clipped-norm", "clipped-batches", "pairs-norm")
METHODS: Final = ("auto", "friedman", *PRIVATE)
WITHOUT_EPSILON: Final = ("auto", "friedman", "pairs-norm")
"""Methods that also run without an epsilon, or only so (Friedman's test)."""
TAKE_PARTIAL: Final = ("pairs-norm",)
"""Methods that take rankings with gaps and ties. Which test is used must not depend on whether there are any: that is
private. So ``auto`` refuses them, and the guarantee of these methods always covers them."""

_UNIT: Final = "one person's ranking"
_NEIGHBORS: Final = (
    "one ranking is replaced by any other ranking; how many rankings and how many items there are is public"
)
_PARTIAL: Final = (
    "one ranking, complete or not, is replaced by any other, complete or not; how many rankings and how many items there "
    "are is public"
)


@dataclass(frozen=True, kw_only=True)
class UniformityTest(Result):
    """Whether rankings differ from chance.

    Attributes
    ----------
    reject
        Whether they do, at the level asked for.
    statistic
        The (noised) statistic. With a guarantee it may be published.
    critical
        Where rejection begins.
    pvalue
        How often uniform rankings give a statistic at least as large.
    null
        The statistic's distribution for uniform rankings.
    """

    method: str
    reject: bool
    statistic: float
    critical: float
    pvalue: float
    level: float
    rankings: int
    items: int
    noise_scale: float | None = None
    null_kind: str = "exact"
    settings: dict[str, Any] = field(default_factory=dict)
    null: Law | NoisyLaw = field(repr=False)

    def summary(self) -> str:
        """The finding in one line."""
        size = f"{self.rankings:,} rankings of {self.items:,} items"
        p = f"p = {self.pvalue:.2g}" if self.pvalue >= 1e-6 else "p < 0.000001"
        if self.reject:
            return f"{size} differ from chance ({p}, {self.method}, level {self.level:g})"
        return f"no sign that {size} differ from chance ({p}, {self.method}, level {self.level:g})"

    def to_dict(self) -> dict[str, Any]:
        """Everything but the null's law, as JSON values."""
        data = super().to_dict()
        data.pop("null")
        data["summary"] = self.summary()
        return data

    def draw(self, ax: Axes) -> None:
        """The null with the observed statistic and where rejection begins."""
        from peerveil.rankings.figures import draw_test

        draw_test(self, ax)


def uniformity_test(
    rankings: Any,
    *,
    epsilon: Number | None = None,
    method: str = "auto",
    level: float = 0.05,
    columns: Mapping[str, str] | None = None,
    layout: str | None = None,
    randomness: Randomness | None = None,
    account: Account | None = None,
) -> UniformityTest:
    """Test whether rankings are uniformly random.

    Parameters
    ----------
    rankings
        A :class:`~peerveil.data.Rankings` table, a pandas or Polars frame, a file name, an array (one row per
        ranking, one column per item, ranks from 0), or an iterable of such pieces. Data too large for memory are read
        once, in pieces.
    epsilon : number, optional
        Privacy budget for one person's ranking. Default: ``None``, which is not private.
    method : str, optional
        ``"auto"`` (default) takes Friedman's test without epsilon; with epsilon the test that needs the least signal for
        the public numbers of rankings and items. Partial rankings need ``"pairs-norm"``, by name, with or without
        epsilon. See the page on rankings.
    level : float, optional
        Significance level: the probability that uniform rankings are rejected. Default: 0.05.
    columns : mapping, optional
        Our names for columns that a frame or file calls otherwise: ``{"item": "candidate"}``.
    layout : {"orders", "places"}, optional
        What the cells of a wide frame or file hold; by default seen from the column names.
    randomness : Randomness, optional
        Default: ``Randomness.secure()``.
    account : Account, optional
        An account of a ledger, debited before the noise is drawn.

    Examples
    --------
    >>> from peerveil.rankings import Mallows
    >>> votes = Mallows(100, 0.99).sample(1000, seed=1)
    >>> test = uniformity_test(votes, epsilon=0.5, randomness=Randomness.simulation(2))
    >>> test.reject, test.method, test.mark
    (True, 'clipped-norm', 'simulation, not private')
    """
    if method not in METHODS:
        raise BadInput("method", got=method, want=f"one of {', '.join(METHODS)}")
    read_level(level)
    exact = None if epsilon is None else read_epsilon(epsilon, or_none=True)
    check_epsilon(method, exact)
    source = read_randomness(randomness)
    if account is not None and exact is None:
        raise BadInput("account", got=account, want="None: what is not private cannot be entered in a ledger")
    ballots = Ballots.of(rankings, columns=columns, layout=layout)
    ballots.require_enough()
    if exact is not None:
        return _noised(ballots, method, exact, float(level), account, source)
    if method == "pairs-norm":
        return _pairs(ballots, float(level), source)
    return _friedman(ballots, float(level))


def _noised(
    ballots: Ballots, method: str, epsilon: Fraction, level: float, account: Account | None, source: Randomness
) -> UniformityTest:
    """Statistic, debit, noise; everything else is public or computed from the noised statistic."""
    test, value = _statistic(ballots, method, epsilon, source)
    scale = laplace_scale(sensitivity=test.sensitivity, epsilon=epsilon)
    law = NoisyLaw(test.null(), scale)
    critical = law.critical(level)
    promise = ranking_guarantee(epsilon, partial=method in TAKE_PARTIAL)
    if account is not None:
        purpose = f"whether rankings of {ballots.items} items differ from chance"
        account.spend(promise, purpose=purpose, data=ballots.data, randomness=source)
    noisy = float(source.laplace([value], scale=scale)[0])
    pvalue = law.tail(noisy)
    return UniformityTest(
        guarantee=source.stamp(promise),
        method=NAMES[type(test)],
        reject=pvalue <= level,
        statistic=noisy,
        critical=critical,
        pvalue=pvalue,
        level=level,
        rankings=ballots.total,
        items=ballots.items,
        noise_scale=scale,
        null_kind=law.law.kind,
        settings=_settings(test),
        null=law,
    )


NAMES: Final[dict[type[Any], str]] = {
    RankNorm: "rank-norm",
    ClippedNorm: "clipped-norm",
    PairsNorm: "pairs-norm",
    ClippedBatches: "clipped-batches",
}


def _statistic(ballots: Ballots, method: str, epsilon: Fraction, source: Randomness) -> tuple[Any, float]:
    """The test and its exact statistic. A stream is read to its end here, and only then is its length known."""
    m, size = ballots.items, float(epsilon)
    if method == "pairs-norm":
        sums = ballots.pair_sums(source.permutation(m), source)
        pairs_test = PairsNorm(ballots.total, m)
        return pairs_test, pairs_test.statistic(sums)
    if method == "rank-norm" or (method == "auto" and not ballots.held):
        sums = ballots.rank_sums()
        ballots.require_complete("rank-norm")
        plain_test = RankNorm(ballots.total, m)
        return plain_test, plain_test.statistic(sums)
    ballots.require_held(method)
    ballots.require_complete(method)
    test = central_test(method, ballots.total, m, size)
    if isinstance(test, RankNorm):
        return test, test.statistic(ballots.rank_sums())
    return test, test.statistic(ballots.rows(method, source))


def central_test(method: str, rankings: int, items: int, epsilon: float) -> Any:
    """A central test by name, its parameters chosen from public numbers."""
    match method:
        case "auto":
            return choose_central(rankings, items, epsilon)
        case "rank-norm":
            return RankNorm(rankings, items)
        case "clipped-norm":
            return ClippedNorm(rankings, items)
        case "pairs-norm":
            return PairsNorm(rankings, items)
        case "clipped-batches":
            return choose_batches(rankings, items, epsilon)
        case _:
            raise BadInput("method", got=method, want=f"one of auto, {', '.join(PRIVATE)}")


def _settings(test: Any) -> dict[str, Any]:
    if isinstance(test, ClippedBatches):
        return {"batch_size": test.size, "clip": test.clip, "batches": test.batches}
    if isinstance(test, ClippedNorm):
        return {"cap": test.cap}
    return {}


def _friedman(ballots: Ballots, level: float) -> UniformityTest:
    """Friedman's statistic k (m-1) W, W being Kendall's coefficient of concordance."""
    sums = ballots.rank_sums()
    ballots.require_complete("friedman")
    ballots.require_enough()
    k, m = ballots.total, ballots.items
    unit = k * (m - 1)
    w = (rank_length(sums, k, m) / k) ** 2
    law = concordance_null(k, m)
    pvalue = concordance_tail(k, m, w)
    return UniformityTest(
        guarantee=ranking_guarantee(None),
        method="friedman",
        reject=pvalue <= level,
        statistic=unit * w,
        critical=unit * concordance_critical(k, m, level),
        pvalue=pvalue,
        level=level,
        rankings=k,
        items=m,
        null_kind=law.kind,
        null=law.mapped(lambda v: v * unit),
    )


def _pairs(ballots: Ballots, level: float, source: Randomness) -> UniformityTest:
    """The length of the pair sums without noise. Its square is a sum of squares, whose law is exact."""
    sums = ballots.pair_sums(source.permutation(ballots.items), source)
    ballots.require_enough()
    test = PairsNorm(ballots.total, ballots.items)
    squares = squares_null((test.rankings,) * test.pairs)
    pvalue = squares.tail(float(sum(int(s) ** 2 for s in sums)))
    return UniformityTest(
        guarantee=ranking_guarantee(None, partial=True),
        method="pairs-norm",
        reject=pvalue <= level,
        statistic=test.statistic(sums),
        critical=math.sqrt(squares.critical(level)),
        pvalue=pvalue,
        level=level,
        rankings=ballots.total,
        items=ballots.items,
        null=test.null(),
    )


def ranking_guarantee(epsilon: Number | None, *, partial: bool = False) -> Guarantee:
    """What the central tests promise."""
    return Guarantee.pure_dp(epsilon, unit=_UNIT, neighbors=_PARTIAL if partial else _NEIGHBORS)


def read_level(level: float) -> float:
    """A level strictly between 0 and 1."""
    number = isinstance(level, (int, float, np.integer, np.floating)) and not isinstance(level, bool)
    if not number or not 0 < level < 1:
        raise BadInput("level", got=level, want="a probability between 0 and 1, such as 0.05")
    return float(level)


def check_epsilon(method: str, epsilon: Fraction | None) -> None:
    """Refuse a private method without an epsilon, and Friedman's test with one."""
    if epsilon is None and method not in WITHOUT_EPSILON:
        raise BadInput("epsilon", got=None, want=f"a number above 0 for {method}")
    if epsilon is not None and method == "friedman":
        raise BadInput("epsilon", got=str(epsilon), want=f"None: friedman is not private; {', '.join(PRIVATE)} are")
