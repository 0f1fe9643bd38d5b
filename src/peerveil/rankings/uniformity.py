"""Is there any signal in these rankings? One function, many tests, one kind of answer."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.errors import BadInput
from peerveil.guarantee import Guarantee, read_epsilon
from peerveil.randomness import Randomness, laplace_scale
from peerveil.rankings import plain, printed
from peerveil.rankings.central import ClippedBatches, ClippedNorm, PairsNorm, RankNorm
from peerveil.rankings.choose import choose_batches, choose_central
from peerveil.rankings.intake import Ballots
from peerveil.rankings.noise import NoisyLaw
from peerveil.rankings.repaired import Bucket, LaplaceSquares, Trunc
from peerveil.result import Result

if TYPE_CHECKING:
    from fractions import Fraction

    from matplotlib.axes import Axes

    from peerveil.ledger import Account
    from peerveil.numerics.exact import Number
    from peerveil.rankings.nulls import Law
    from peerveil.rankings.plain import Outcome

NOT_PRIVATE: Final = ("two-sample", "unif", "friedman", "kendall-distance", "mallows")
PRIVATE: Final = ("rank-norm", "clipped-norm", "pairs-norm", "clipped-batches", "laplace", "bucket", "trunc")
AS_PRINTED: Final = (
    "two-sample-as-printed",
    "unif-as-printed",
    "mallows-as-printed",
    "laplace-as-printed",
    "bucket-as-printed",
    "trunc-as-printed",
)
METHODS: Final = ("auto", *NOT_PRIVATE, *PRIVATE, *AS_PRINTED)
TAKE_PARTIAL: Final = ("pairs-norm", "laplace", "trunc", "unif")
"""Methods that take rankings with gaps and ties. Which test is used must not depend on whether there are any: that is
private. So ``auto`` refuses them, and the guarantee of these methods always covers them."""

_UNIT: Final = "one person's ranking"
_NEIGHBOURS: Final = (
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
    p_value
        How often uniform rankings give a statistic at least as extreme. For a test that only says yes or no ("bucket",
        "trunc" and those as printed) it is the level or 1.
    null
        The statistic's law for uniform rankings, where there is one.
    """

    method: str
    reject: bool
    statistic: float
    critical: float
    p_value: float
    level: float
    rankings: int
    items: int
    upper: bool = True
    noise_scale: float | None = None
    null_kind: str = "exact"
    settings: dict[str, Any] = field(default_factory=dict)
    null: Law | NoisyLaw | None = field(default=None, repr=False)

    def summary(self) -> str:
        """The finding in one line."""
        size = f"{self.rankings:,} rankings of {self.items:,} items"
        p = f"p = {self.p_value:.2g}" if self.p_value >= 1e-6 else "p < 0.000001"
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
    method: str = "auto",
    epsilon: Number | None = None,
    level: float = 0.05,
    account: Account | None = None,
    randomness: Randomness | None = None,
    *,
    tolerance: float = 0.5,
) -> UniformityTest:
    """Test whether rankings are uniformly random.

    Parameters
    ----------
    rankings
        A :class:`~peerveil.judgements.Rankings` table, a pandas or Polars frame, an array (a row a ranking, a column an
        item, ranks from 0), a file name, or an iterable of such pieces. What is too long to hold is read once, in
        memory that does not grow.
    method
        ``"auto"`` takes Friedman's test without epsilon; with epsilon the test that needs the least signal for the public
        numbers of rankings and items. Partial rankings need ``"pairs-norm"`` or ``"unif"``, by name. See the room's page.
    epsilon
        The privacy of one person's ranking; ``None`` is not private.
    level
        How often uniform rankings may be called different.
    account
        An account of a ledger, debited before the noise is drawn.
    randomness
        The secure lane unless given.
    tolerance
        For ``"trunc"`` only: the paper's tolerance, a total variation distance.

    Examples
    --------
    >>> from peerveil.rankings import Mallows
    >>> votes = Mallows(100, 0.99).sample(1000, Randomness.simulation(1))
    >>> test = uniformity_test(votes, epsilon=0.5, randomness=Randomness.simulation(2))
    >>> test.reject, test.method, test.mark
    (True, 'clipped-norm', 'simulation, not private')
    """
    if method not in METHODS:
        raise BadInput("method", got=method, want=f"one of {', '.join(METHODS)}")
    read_level(level)
    exact = None if epsilon is None else read_epsilon(epsilon, or_none=True)
    _check_epsilon(method, exact)
    source = Randomness.secure() if randomness is None else randomness
    if not isinstance(source, Randomness):
        raise BadInput("randomness", got=randomness, want="Randomness.secure() or Randomness.simulation(seed)")
    if account is not None and (exact is None or method in AS_PRINTED):
        raise BadInput("account", got=account, want="None: what is not private cannot be entered in a ledger")
    ballots = Ballots.of(rankings)
    ballots.require_enough()
    if method in AS_PRINTED:
        return _as_printed(ballots, method, exact, float(level), source, tolerance)
    if exact is None:
        return _not_private(ballots, "friedman" if method == "auto" else method, float(level), source)
    if method in ("bucket", "trunc"):
        return _yes_or_no(ballots, method, exact, float(level), account, source, tolerance)
    return _noised(ballots, method, exact, float(level), account, source)


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
    p_value = law.tail(noisy)
    return UniformityTest(
        guarantee=source.stamp(promise),
        method=NAMES[type(test)],
        reject=p_value <= level,
        statistic=noisy,
        critical=critical,
        p_value=p_value,
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
    LaplaceSquares: "laplace",
}


def _statistic(ballots: Ballots, method: str, epsilon: Fraction, source: Randomness) -> tuple[Any, float]:
    """The test and its exact statistic. A stream is read to its end here, and only then is its length known."""
    m, size = ballots.items, float(epsilon)
    if method in ("pairs-norm", "laplace"):
        sums = ballots.pair_sums(source.permutation(m), source)
        pairs_test = PairsNorm(ballots.total, m) if method == "pairs-norm" else LaplaceSquares(ballots.total, m)
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
        case "laplace":
            return LaplaceSquares(rankings, items)
        case "clipped-batches":
            return choose_batches(rankings, items, epsilon)
        case _:
            raise BadInput(
                "method", got=method, want="auto, rank-norm, clipped-norm, pairs-norm, laplace or clipped-batches"
            )


def _settings(test: Any) -> dict[str, Any]:
    if isinstance(test, ClippedBatches):
        return {"batch_size": test.size, "clip": test.clip, "batches": test.batches}
    if isinstance(test, ClippedNorm):
        return {"cap": test.cap}
    return {}


def _yes_or_no(
    ballots: Ballots,
    method: str,
    epsilon: Fraction,
    level: float,
    account: Account | None,
    source: Randomness,
    tolerance: float,
) -> UniformityTest:
    """The repaired tests that publish one bit."""
    k, m = ballots.total, ballots.items
    settings: dict[str, Any]
    chance: float | Fraction
    if method == "bucket":
        plan = Bucket.plan(k, m, epsilon, level)
        rows = ballots.rows(method, source)
        one = int(source.integers(0, plan.batches, 1)[0])
        batch = Ballots.of(rows[one * plan.batch_size : (one + 1) * plan.batch_size])
        rejects = plan.batch_rejects(batch.pair_sums(source.permutation(m), source))
        chance = 1 - plan.coin if rejects else plan.coin  # exactly: this coin is the guarantee
        settings = {"batches": plan.batches, "coin": float(plan.coin), "batch_level": plan.batch_level}
    else:
        ballots.require_held(method)
        trunc = Trunc.plan(k, m, epsilon, level, tolerance)
        chance = trunc.reject_probability(ballots.pair_sums(source.permutation(m), source))
        settings = {"tolerance": tolerance, "coin": trunc.coin, "bias": trunc.bias}
    promise = ranking_guarantee(epsilon, partial=method in TAKE_PARTIAL)
    if account is not None:
        purpose = f"whether rankings of {m} items differ from chance"
        account.spend(promise, purpose=purpose, data=ballots.data, randomness=source)
    reject = bool(source.choose([1 - chance, chance])[0])
    return _decision(source.stamp(promise), method, reject, level, k, m, settings)


def _not_private(ballots: Ballots, method: str, level: float, source: Randomness) -> UniformityTest:
    outcome: Outcome
    match method:
        case "two-sample":
            outcome = plain.two_sample(ballots, level, source)
        case "unif":
            outcome = plain.unif(ballots, level, source)
        case "friedman":
            outcome = plain.friedman(ballots, level)
        case "kendall-distance":
            outcome = plain.mean_distance(ballots, level, source)
        case _:
            outcome = plain.mallows(ballots, level, source)
    return UniformityTest(
        guarantee=Guarantee.pure_dp(None, unit=_UNIT, neighbours=_NEIGHBOURS),
        method=method,
        reject=outcome.p_value <= level,
        statistic=outcome.statistic,
        critical=outcome.critical,
        p_value=outcome.p_value,
        level=level,
        rankings=ballots.total,
        items=ballots.items,
        upper=outcome.upper,
        null_kind=outcome.kind,
        null=outcome.null,
    )


def _as_printed(
    ballots: Ballots, method: str, epsilon: Fraction | None, level: float, source: Randomness, tolerance: float
) -> UniformityTest:
    k, m = ballots.total, ballots.items
    promise = Guarantee.pure_dp(None, unit=_UNIT, neighbours=_NEIGHBOURS)
    size = math.inf if epsilon is None else float(epsilon)
    rows = ballots.rows(method, source)
    if method in ("two-sample-as-printed", "mallows-as-printed"):
        test = printed.two_sample_as_printed if method == "two-sample-as-printed" else printed.mallows_as_printed
        value, bound, reject = test(rows, level)
        return _decision(promise, method, reject, level, k, m, {}, value, bound)
    if method == "bucket-as-printed":
        batches = printed.bucket_batches_as_printed(size)
        one = int(source.integers(0, batches, 1)[0])
        rows = rows[one * (k // batches) : (one + 1) * (k // batches)]
        if len(rows) < 1:
            raise BadInput("rankings", got=k, want=f"at least {batches}: one in each batch")
    sums = Ballots.of(rows).pair_sums(source.permutation(m), source)
    if method == "trunc-as-printed":
        bias = printed.bias_as_printed(m, tolerance)
        reject = printed.trunc_as_printed(sums, k, m, bias, size, level, source)
        return _decision(promise, method, reject, level, k, m, {"tolerance": tolerance})
    value, bound, reject = printed.unif_as_printed(sums, len(rows), m, level)
    if method == "laplace-as-printed":
        value = float(source.laplace([value], scale=2 * m / size)[0])
        bound = printed.laplace_threshold_as_printed(m, level, size)
        reject = value >= bound
    return _decision(promise, method, reject, level, k, m, {}, value, bound)


def _decision(
    promise: Guarantee,
    method: str,
    reject: bool,
    level: float,
    rankings: int,
    items: int,
    settings: dict[str, Any],
    statistic: float | None = None,
    critical: float = 0.5,
) -> UniformityTest:
    """A test that only says yes or no."""
    return UniformityTest(
        guarantee=promise,
        method=method,
        reject=reject,
        statistic=float(reject) if statistic is None else statistic,
        critical=critical,
        p_value=level if reject else 1.0,
        level=level,
        rankings=rankings,
        items=items,
        upper=method != "two-sample-as-printed",
        null_kind="decision only",
        settings=settings,
    )


def ranking_guarantee(epsilon: Number, *, partial: bool = False) -> Guarantee:
    """What the central tests promise."""
    return Guarantee.pure_dp(epsilon, unit=_UNIT, neighbours=_PARTIAL if partial else _NEIGHBOURS)


def read_level(level: float) -> float:
    """A level strictly between 0 and 1."""
    number = isinstance(level, (int, float, np.integer, np.floating)) and not isinstance(level, bool)
    if not number or not 0 < level < 1:
        raise BadInput("level", got=level, want="a probability between 0 and 1, such as 0.05")
    return float(level)


def _check_epsilon(method: str, epsilon: Fraction | None) -> None:
    needs = method in PRIVATE or method in ("laplace-as-printed", "bucket-as-printed", "trunc-as-printed")
    if needs and epsilon is None:
        raise BadInput("epsilon", got=None, want=f"a number above 0 for {method}")
    if epsilon is not None and not needs and method != "auto":
        raise BadInput("epsilon", got=str(epsilon), want=f"None: {method} is not private; {', '.join(PRIVATE)} are")
