"""Several sittings that the same two pseudonyms share: how soon they are linked, and what helps.

**Composition.** Every shared sitting is one more neighboring step, so s of them multiply s likelihood ratios: the pair of
pseudonyms is protected with s epsilon. *How often can the right one of K suspects be ranked first?* Compare with the input
in which its posts stood alone as the others' did. There all suspects are alike, and any ranking has the right one first with
probability 1/K (ties are broken at random). The two inputs are s steps apart, so that

    P[the right one is first after s sittings] <= e^(s epsilon) / K,

whatever the attacker computes, where all pauses are at most the gap. Longer pauses are outside the guarantee.

**The attack** of :func:`ranked_first` is the most powerful one: the likelihood-ratio test of each suspect, summed over
sittings. The attacker knows the mechanism, when and in which order the first posts *arrived*, and how long people pause.
Whoever sees public times alone does worse.

**What helps.** A smaller epsilon; a smaller one for people who have posted much (:class:`Escalation`); a longer gap, as far
as pauses beyond the gap are what gives them away; a warning to the author before a follow-up is posted.
:func:`compare_policies` measures all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.arrays import Floats
from peerveil.core.errors import BadInput
from peerveil.core.exact import Number, exact_positive, number, whole
from peerveil.core.guarantee import Guarantee
from peerveil.timing.base import check_mechanism
from peerveil.timing.check import _cells, _masses, _separations
from peerveil.timing.delays import FollowUp
from peerveil.timing.durations import Duration, in_words, percent, read_duration

if TYPE_CHECKING:
    from peerveil.core.randomness import Randomness
    from peerveil.timing.base import DelayMechanism

SITTINGS: Final = 5
"""Over how many shared sittings an audit and a plan look."""
_TRIALS: Final = 2_000
_PAUSES: Final = 250  # equally likely quantiles stand for a longer history


def ranked_first(
    mechanisms: DelayMechanism | Sequence[DelayMechanism],
    pauses: Any,
    *,
    suspects: int = 10,
    sittings: int = SITTINGS,
    heeded: float = 0.0,
    trials: int = _TRIALS,
    seed: int = 0,
) -> tuple[float, ...]:
    """How often the best attacker ranks the right suspect first after 1, 2, ... shared sittings: a simulation.

    In every sitting the target posts, the right suspect follows at once, and every other suspect after one of the pauses.

    Parameters
    ----------
    mechanisms
        The mechanism, or that of each sitting.
    pauses
        Seconds between lone posts of one person, as in :func:`optimal_attack`.
    suspects
        The right one and all others.
    sittings
        How many, if one mechanism is given.
    heeded
        The share of sittings that the author gives up because of a warning: the second post is then written after a pause.
    trials, seed
        Size and seed of the simulation; its standard error is at most 0.5 / sqrt(trials).

    >>> ranked_first(FollowUp(epsilon=1, gap=2700, window=300), (300, 2700), trials=1000)[0] < 0.31
    True
    """
    chosen = [mechanisms] * whole(sittings, "sittings", 1, 1000) if not isinstance(mechanisms, Sequence) else mechanisms
    for mechanism in chosen:
        check_mechanism(mechanism)
    people, runs = whole(suspects, "suspects", 2, 100_000), whole(trials, "trials", 1, 10_000_000)
    heeded = number(heeded, "heeded", 0, 1)
    away, rng = _few(pauses), np.random.default_rng(seed)
    scores, shares = np.zeros((runs, people)), []
    tables: dict[Any, tuple[Floats, Floats, Floats]] = {}
    for mechanism in chosen:
        if mechanism not in tables:
            tables[mechanism] = _ratios(mechanism, away, heeded)
        ratio, together, apart = tables[mechanism]
        scores[:, 0] += ratio[_drawn(together, rng.random(runs))]
        scores[:, 1:] += ratio[_drawn(apart, rng.random((runs, people - 1)))]
        level = np.round(scores, 6)  # equal sums in another order are ties
        best = level[:, 1:].max(axis=1)
        ties = (level == level[:, :1]).sum(axis=1)
        shares.append(float(np.where(level[:, 0] >= best, 1 / ties, 0.0).mean()))
    return tuple(shares)


def _ratios(mechanism: DelayMechanism, away: Floats, heeded: float) -> tuple[Floats, Floats, Floats]:
    """The log-likelihood ratio of every cell of posting times, and the probability of each in both cases, cumulated.

    The second post appears after B if it was written at once, after a pause and U if it stood alone.
    """
    edges, points = _cells((mechanism.batched, mechanism.unbatched), away, 0.0, 160)
    apart = _masses(mechanism.unbatched, away, edges, points)
    together = _masses(mechanism.batched, np.zeros(1), edges, points)
    together = (1 - heeded) * together + heeded * apart
    with np.errstate(divide="ignore"):
        ratio = np.log(np.maximum(together, 1e-300)) - np.log(np.maximum(apart, 1e-300))
    # a cell that one case excludes decides; -1e6 and 1e6 stand for infinity, so that sums stay numbers
    ratio = np.where(together < 1e-15, -1e6, np.where(apart < 1e-15, 1e6, ratio))
    return ratio, np.cumsum(together / together.sum()), np.cumsum(apart / apart.sum())


def _few(pauses: Any) -> Floats:
    away = _separations(pauses)
    return away if away.size <= _PAUSES else np.quantile(away, (np.arange(_PAUSES) + 0.5) / _PAUSES)


def _drawn(cumulated: Floats, uniform: Floats) -> Any:
    return np.minimum(np.searchsorted(cumulated, uniform, side="right"), cumulated.size - 1)


def first_in_words(shares: Sequence[float], suspects: int) -> str:
    """How soon the right suspect is found, in words.

    >>> first_in_words((0.27, 0.5, 0.7), 10)
    'the right one of 10 suspects is ranked first 27%, 50%, 70% of the time after 1, 2, 3 shared sittings'
    """
    numbers = ", ".join(str(count) for count in range(1, len(shares) + 1))
    return (
        f"the right one of {suspects} suspects is ranked first {', '.join(map(percent, shares))} of the time after "
        f"{numbers} shared sittings"
    )


@dataclass(frozen=True)
class Escalation:
    """Delays that grow with the number of posts that a person has written before.

    A post with n earlier ones of the same person is delayed at level n // every, the last level for ever. Level k has epsilon
    ``epsilon_factor``^k times that of ``mechanism``, and ``gap_factor``^k times its gap. Nothing here keeps a count: whoever
    releases posts asks :meth:`at`.

    Notes
    -----
    **What may be counted, and what may not.** Earlier *posts*, not earlier sittings or follow-ups. If the level of a third
    post depended on whether c' was a follow-up, its delay would tell: the two supports differ, and the ratio is infinite.

    **Neighbors**: those of :class:`FollowUp`, and c' is the person's next post after c in both inputs. Where posts are
    counted anew at a public moment, such as the start of a week, it is outside both intervals from c to c'.

    **Proof.** c' moves between c and the person's next post, so that the order of the person's posts is the same in both
    inputs, and with it the number of earlier posts of every one of them: each has the same level in both. c and every third
    post have the same arrival, status and level, hence the same distribution. c' has level k in both, and waits B_k after
    t'' or U_k after t', a shift of 0 < t' - t'' <= g <= g_k; these are (epsilon_k, g_k)-indistinguishable (Theorem 4.3 (4)),
    so the ratio is at most e^(epsilon_k) <= e^epsilon. ∎

    **Budget.** n posts of one person have at most one loss each but the first: at most the sum of the epsilons of their
    levels (:meth:`budget`), however they were grouped into sittings.

    >>> policy = Escalation(FollowUp(epsilon=1, gap=2700, window=300), every=2)
    >>> [policy.at(earlier).epsilon for earlier in (0, 1, 2, 4, 40)], float(policy.budget(10))
    ([1.0, 1.0, 0.5, 0.25, 0.25], 3.5)
    """

    mechanism: FollowUp
    every: int = 2
    epsilon_factor: Number = "1/2"
    gap_factor: Number = 1
    levels: int = 3

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, FollowUp):
            want = "FollowUp: under the others, a later post can change an earlier one's status"
            raise BadInput("mechanism", got=self.mechanism, want=want)
        whole(self.every, "every", 1)
        whole(self.levels, "levels", 1, 20)
        shrink, grow = (
            exact_positive(self.epsilon_factor, "epsilon_factor"),
            exact_positive(self.gap_factor, "gap_factor"),
        )
        if shrink > 1:
            raise BadInput("epsilon_factor", got=self.epsilon_factor, want="a number above 0, at most 1")
        if grow < 1:
            raise BadInput("gap_factor", got=self.gap_factor, want="a number of at least 1")
        _ = self._mechanisms

    @cached_property
    def _mechanisms(self) -> tuple[FollowUp, ...]:
        shrink, grow = Fraction(exact_positive(self.epsilon_factor, "")), Fraction(exact_positive(self.gap_factor, ""))
        first = self.mechanism
        return tuple(
            first.replace(epsilon=first.exact_epsilon * shrink**k, gap=first.gap * float(grow**k))
            for k in range(self.levels)
        )

    def at(self, earlier: int) -> FollowUp:
        """The mechanism of a post with so many earlier ones of the same person."""
        return self._mechanisms[min(whole(earlier, "earlier", 0) // self.every, self.levels - 1)]

    def budget(self, posts: int) -> Fraction:
        """The most that so many posts of one person lose together: each but the first at most its level's epsilon."""
        count = whole(posts, "posts", 0)
        return sum((self.at(earlier).exact_epsilon for earlier in range(1, count)), Fraction(0))

    @property
    def guarantee(self) -> Guarantee:
        """What is guaranteed for a pair at the weakest level, the first."""
        first = self.mechanism.guarantee
        further = "the later is the person's next post after the earlier in both cases"
        return Guarantee.one_sided_dp(
            self.mechanism.exact_epsilon,
            gap=self.mechanism.gap,
            unit=first.unit,
            neighbors=f"{first.neighbors}; {further}",
        )


def needs_warning(since_last: Duration | None, mechanism: FollowUp) -> bool:
    """Whether the author should be warned before posting: this would be a follow-up, written in one sitting.

    ``since_last`` is how long ago the person's last post on another thread was written; None if there is none. Only the
    author may see the answer. It depends on the author's own posts alone, and whoever heeds it writes later: that is
    another input, to which the guarantee applies as to any.

    >>> mechanism = FollowUp(epsilon=1, gap=2700, window=300)
    >>> needs_warning(120, mechanism), needs_warning(301, mechanism), needs_warning(None, mechanism)
    (True, False, False)
    """
    return since_last is not None and read_duration(since_last, "since_last", zero=True) <= mechanism.window_ticks


@dataclass(frozen=True)
class SittingPolicy:
    """One way to treat several shared sittings, and what it gives and costs; delays in seconds."""

    name: str
    total_epsilon: float
    """What the shared sittings lose together where all pauses are within the gap."""
    covered_first: tuple[float, ...]
    """How often the right suspect is ranked first after 1, 2, ... sittings, where all pauses are within the first gap."""
    history_first: tuple[float, ...]
    """The same with all pauses of the history, those beyond the gap too."""
    mean_batched: float
    """Mean delay of a follow-up over these sittings."""
    mean_unbatched: float
    """Mean delay of any other post."""
    max_delay: float


def compare_policies(
    mechanism: FollowUp,
    pauses: Any,
    *,
    suspects: int = 10,
    sittings: int = SITTINGS,
    heeded: float = 0.5,
    trials: int = _TRIALS,
    seed: int = 0,
) -> tuple[SittingPolicy, ...]:
    """What several shared sittings give away under each policy, by simulation, and how long posts wait.

    Parameters are those of :func:`ranked_first`; ``heeded`` is the share of sittings given up after a warning. Sittings have
    two posts each.
    """
    if not isinstance(mechanism, FollowUp):
        raise BadInput("mechanism", got=mechanism, want="FollowUp")
    count = whole(sittings, "sittings", 1, 20)
    away = _few(pauses)
    near = away[away <= mechanism.gap] if (away <= mechanism.gap).any() else np.array([mechanism.gap])
    epsilon = mechanism.exact_epsilon
    smaller, longer = (
        Escalation(mechanism, levels=min(count, 3)),
        Escalation(mechanism, epsilon_factor=1, gap_factor=2, levels=min(count, 3)),
    )
    by_post = range(0, 2 * count, 2)
    policies: dict[str, tuple[list[FollowUp], float]] = {
        f"epsilon {mechanism.epsilon:g} always": ([mechanism] * count, 0.0),
        "half the epsilon": ([mechanism.replace(epsilon=epsilon / 2)] * count, 0.0),
        f"a budget of {mechanism.epsilon:g} for {count} sittings": (
            [mechanism.replace(epsilon=epsilon / count)] * count,
            0.0,
        ),
        "epsilon halved every 2 posts, twice": ([smaller.at(n) for n in by_post], 0.0),
        "gap doubled every 2 posts, twice": ([longer.at(n) for n in by_post], 0.0),
        f"a warning, heeded {percent(heeded)} of the time": ([mechanism] * count, heeded),
    }
    options = {"suspects": suspects, "trials": trials, "seed": seed}
    return tuple(
        SittingPolicy(
            name,
            float(sum(m.exact_epsilon for m in used)),
            ranked_first(used, near, heeded=given_up, **options),
            ranked_first(used, away, heeded=given_up, **options),
            float(np.mean([m.mean_batched for m in used])),
            float(np.mean([m.mean_unbatched for m in used])),
            max(m.max_delay for m in used),
        )
        for name, (used, given_up) in policies.items()
    )


def policy_table(policies: Sequence[SittingPolicy]) -> tuple[list[str], list[list[str]]]:
    """The policies in words: column heads, and one row per policy."""
    count = len(policies[0].covered_first) if policies else 0
    head = ["shared sittings", f"right suspect first after {_counts(count)}", "with all pauses", "follow-ups, mean"]
    rows = [
        [
            policy.name,
            ", ".join(map(percent, policy.covered_first[1:])),
            ", ".join(map(percent, policy.history_first[1:])),
            in_words(policy.mean_batched),
            in_words(policy.mean_unbatched),
            in_words(policy.max_delay),
        ]
        for policy in policies
    ]
    return [*head, "other posts, mean", "longest"], rows


def _counts(count: int) -> str:
    return ", ".join(str(number) for number in range(2, count + 1))


def escalated_posts(policy: Escalation, is_broken: bool, offset: float, count: int, randomness: Randomness) -> Floats:
    """Public times of c' and of a later third post under a policy, for many people: seconds since c, one row per person.

    c' follows c by ``offset`` seconds; the third post comes long after. Deliberately broken, the policy counts earlier
    follow-ups instead of posts.
    """
    follows = np.full(count, offset <= policy.mechanism.window)
    second = offset + policy.at(1).draw(follows, randomness)
    later = 4.0 * policy.mechanism.gap
    alone = np.zeros(count, dtype=np.bool_)
    levels = policy.at(policy.every * int(follows[0])) if is_broken else policy.at(2)
    return np.stack([second, later + levels.draw(alone, randomness)], axis=1)
