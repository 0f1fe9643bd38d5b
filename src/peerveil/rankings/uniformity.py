"""Testing whether rankings differ from chance: one function, a few tests, one kind of result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.errors import BadInput, one_of
from peerveil.core.guarantee import Guarantee, read_epsilon
from peerveil.core.randomness import Randomness
from peerveil.core.result import Result
from peerveil.rankings.ballots import Ballots
from peerveil.rankings.central import PRIVATE, PairsNorm, RankNorm, central_test
from peerveil.rankings.figures import draw_test
from peerveil.rankings.mallows import read_share

if TYPE_CHECKING:
    from peerveil.core.exact import Number
    from peerveil.ledger import Account
    from peerveil.rankings.laws import Law, NoisyLaw

METHODS: Final = ("auto", "friedman", *PRIVATE)
WITHOUT_EPSILON: Final = ("auto", "friedman", "pairs-norm")
"""Methods that also run without an epsilon, or only so (Friedman's test)."""
TAKE_WEIGHTS: Final = ("auto", "friedman", "rank-norm", "pairs-norm")

_REPLACED: Final = (
    "one person's ranking, complete or not, is replaced by any other; how many people and items there are"
)


@dataclass(frozen=True, kw_only=True)
class UniformityTest(Result):
    """Whether rankings differ from chance.

    Attributes
    ----------
    reject
        Whether they do, at this level.
    statistic
        The statistic, with noise if there is an epsilon; it may then be published.
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

    @classmethod
    def of(cls, law: Law, value: float, shown: Callable[[Any], Any], *, level: float, **fields: Any) -> UniformityTest:
        """The test of a value that has this law for uniform rankings; ``shown`` makes it the statistic."""
        pvalue = law.tail(value)
        return cls(
            pvalue=pvalue,
            level=level,
            reject=pvalue <= level,
            statistic=float(shown(value)),
            critical=float(shown(law.critical(level))),
            null_kind=law.kind,
            null=law.mapped(shown),
            **fields,
        )

    def summary(self) -> str:
        """The finding in one line."""
        size = f"{self.rankings:,} rankings of {self.items:,} items"
        p = f"p = {self.pvalue:.2g}" if self.pvalue >= 1e-6 else "p < 0.000001"
        sign = "" if self.reject else "no sign that "
        return f"{sign}{size} differ from chance ({p}, {self.method}, level {self.level:g})"

    def to_dict(self) -> dict[str, Any]:
        """Everything but the null's law, as JSON values."""
        fields = {name: value for name, value in super().to_dict().items() if name != "null"}
        return {**fields, "summary": self.summary()}

    draw = draw_test


def uniformity_test(
    rankings: Any,
    *,
    epsilon: Number | None = None,
    method: str = "auto",
    level: float = 0.05,
    columns: Mapping[str, str] | None = None,
    layout: str | None = None,
    unranked: str = "last",
    weight_cap: int | None = None,
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
        the public numbers of rankings and items. See the page on rankings.
    level : float, optional
        Significance level: the probability that uniform rankings are rejected. Default: 0.05.
    columns : mapping, optional
        Our names for columns that a frame or file calls otherwise: ``{"item": "candidate"}``.
    layout : {"orders", "places"}, optional
        What the cells of a wide frame or file hold; by default seen from the column names.
    unranked : {"last", "unknown"}, optional
        What leaving an item out says: that it comes after those ranked (default), or nothing. Every test takes partial and
        tied rankings: what a person leaves open is decided at random, which keeps level and guarantee.
    weight_cap : int, optional
        Every row is one person, whose ranking counts as often as the column ``count`` says, at most this often; who counts
        how often is public. Default: ``None``, a row stands for ``count`` people who count once.
    randomness : Randomness, optional
        Default: ``Randomness.secure()``.
    account : Account, optional
        An account of a ledger, debited before the noise is drawn.

    Examples
    --------
    >>> from peerveil import Randomness
    >>> from peerveil.rankings import Mallows
    >>> votes = Mallows(100, 0.99).sample(1000, seed=1)
    >>> test = uniformity_test(votes, epsilon=0.5, randomness=Randomness.simulation(2))
    >>> test.reject, test.method, test.mark
    (True, 'clipped-norm', 'simulation, not private')
    """
    one_of(method, "method", METHODS)
    level = read_level(level)
    exact = None if epsilon is None else read_epsilon(epsilon, or_none=True)
    check_epsilon(method, exact)
    source = Randomness.of(randomness)
    if account is not None and exact is None:
        raise BadInput("account", got=account, want="None: what is not private cannot be entered in a ledger")
    if weight_cap is not None and method not in TAKE_WEIGHTS:
        raise BadInput("method", got=method, want=f"one of {', '.join(TAKE_WEIGHTS)} with weights")
    reading: dict[str, Any] = {"unranked": unranked, "weight_cap": weight_cap, "identified": account is not None}
    ballots = Ballots.of(rankings, columns=columns, layout=layout, **reading)
    ballots.require_enough()
    test, value = _statistic(ballots, method, exact, source)
    ballots.require_enough()
    k, m = ballots.total, ballots.items
    guarantee = ranking_guarantee(exact, weighted=weight_cap is not None)
    shared: dict[str, Any] = {"rankings": k, "items": m, "level": level}
    if exact is None and isinstance(test, PairsNorm):  # the square is a sum of squares, whose law is exact
        shared |= {"method": test.name, "guarantee": guarantee}
        return UniformityTest.of(test.squares(), value**2, np.sqrt, **shared)
    if exact is None:  # Friedman's statistic k (m-1) W, W being Kendall's coefficient of concordance
        shared |= {"method": "friedman", "guarantee": guarantee}
        value /= test.total
        return UniformityTest.of(test.concordance(), value**2, lambda w: w * (k * (m - 1)), **shared)
    # debit, then noise; everything else is public or computed from the noisy statistic
    law = test.noisy_null(exact)
    critical = law.critical(level)
    if account is not None:
        purpose = f"whether rankings of {m} items differ from chance"
        account.spend(guarantee, purpose=purpose, data=ballots.data, randomness=source)
    noisy = float(source.laplace([value], scale=law.scale)[0])
    pvalue = law.tail(noisy)
    return UniformityTest(
        **shared,
        guarantee=source.stamp(guarantee),
        method=test.name,
        reject=pvalue <= level,
        statistic=noisy,
        critical=critical,
        pvalue=pvalue,
        noise_scale=law.scale,
        null_kind=law.law.kind,
        settings=test.settings,
        null=law,
    )


def _statistic(ballots: Ballots, method: str, epsilon: Fraction | None, source: Randomness) -> tuple[Any, float]:
    """The test and its exact statistic. A stream is read to its end here, and only then is its length known."""
    m, one_pass = ballots.items, "friedman" if epsilon is None else "rank-norm"
    weighted = ballots.weight_cap is not None
    if method == "pairs-norm":
        sums = ballots.pair_sums(source.permutation(m), source)
        pairs = PairsNorm(ballots.total, m, weights=ballots.weights if weighted else ())
        return pairs, pairs.statistic(sums)
    if epsilon is not None and ballots.held and method != "rank-norm" and not weighted:
        test = central_test(method, ballots.total, m, float(epsilon))
        if type(test) is not RankNorm:
            return test, test.from_rows(ballots.rows(method, source))
    elif method not in ("auto", one_pass):
        ballots.require_held(method)
    sums = ballots.rank_sums(source)
    norm = RankNorm(ballots.total, m, weights=ballots.weights if weighted else ())
    return norm, norm.statistic(sums)


def ranking_guarantee(epsilon: Number | None, *, weighted: bool = False) -> Guarantee:
    """The guarantee of the central tests and of the consensus."""
    public = ", and how much each person counts, is public" if weighted else " is public"
    return Guarantee.pure_dp(epsilon, unit="one person's ranking", neighbors=f"{_REPLACED}{public}")


def read_level(level: float) -> float:
    """A level strictly between 0 and 1."""
    return read_share(level, "level", "a probability between 0 and 1, such as 0.05")


def check_epsilon(method: str, epsilon: Fraction | None) -> None:
    """Refuse a private method without an epsilon, and Friedman's test with one."""
    if epsilon is None and method not in WITHOUT_EPSILON:
        raise BadInput("epsilon", got=None, want=f"a number above 0 for {method}")
    if epsilon is not None and method == "friedman":
        raise BadInput("epsilon", got=str(epsilon), want=f"None: friedman is not private; {', '.join(PRIVATE)} are")
