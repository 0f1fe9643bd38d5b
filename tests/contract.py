"""The contract's entries: for every public mechanism how to use it, its check, a fault that the check must find, its attack.

``tests/test_contract.py`` finds the mechanisms through the exports and fails for one that has no entry here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from peerveil import BadInput, Randomness, Response, Result, calibration, rankings, release, timing, truth
from peerveil.audit import exact_loss
from peerveil.calibration import Affine, MapAdversary
from peerveil.calibration.simulate import Simulation
from peerveil.data import Events, Reviews, synthetic_conference
from peerveil.rankings import adversary as rankings_adversary
from peerveil.release import adversary as release_adversary
from peerveil.timing.check import shortened
from peerveil.truth import adversary as truth_adversary
from peerveil.truth import wire

SEED = 20261116
TRIALS = 4000
SLACK = 5 * 0.5 / math.sqrt(TRIALS)  # five standard errors of a share

Attack = Callable[[], tuple[float, float]]


@dataclass(frozen=True)
class Entry:
    """How one mechanism meets the contract.

    ``make(lane)`` uses it; ``honest()`` is its exact check or audit, which must pass; ``broken()`` the same with a deliberate
    fault, which must not; ``attack()`` gives how often its adversary was right and how often it may be (slack included).
    What runs on people's own devices has no simulation lane (``has_lanes`` is false): there is nothing to mark.
    """

    make: Callable[[Randomness], Result]
    honest: Callable[[], bool]
    broken: Callable[[], bool]
    adversary: Any
    attack: Attack
    has_lanes: bool = True


def lane() -> Randomness:
    return Randomness.simulation(SEED)


# ---- release -----------------------------------------------------------------------------------------------------


def reviews() -> Reviews:
    return synthetic_conference(30, 20, seed=1).reviews


def sampled(claims: Any, name: str, samples: int = 10_000) -> bool:
    """One of a module's claims, by sampling; a false alarm is rarer than one in a million."""
    (claim,) = [claim for claim in claims if name in claim.name]
    return bool(claim.audit(min(claim.samples, samples), randomness=lane()).passed)


def swap() -> tuple[float, float]:
    rows = [(r, round(0.1 * (7 * r + 3 * p) % 1, 3), p) for r, p in enumerate((0, 1, 2, 3, 4, 5))]
    rows += [(r, round(0.1 * (5 * r + 1) % 1, 3), (r + 1) % 6) for r in range(6)]
    public = release_adversary.Assignment.of(rows).public
    found = release_adversary.swap_attack(public, rows, epsilon=1, trials=TRIALS, randomness=lane())
    return found.right, found.bound + SLACK


def released(make: Callable[[Randomness], Result], honest: str, broken: str) -> Entry:
    return Entry(
        make=make,
        honest=lambda: sampled(release_adversary.claims(), honest),
        broken=lambda: sampled(release_adversary.claims(), broken),
        adversary=release_adversary.swap_attack,
        attack=swap,
    )


RELEASE = released(
    lambda r: release.publish(reviews(), epsilon=1, scale=(1, 10), randomness=r),
    "publish, the whole function",
    "thresholds from the private means",
)
COUNTS = released(
    lambda r: release.publish(reviews(), epsilon=1, scale=(1, 10), thresholds=[-1, 1], randomness=r),
    "counts of reviewers",
    "noise of half size",
)
ASK = released(
    lambda r: release.ask(reviews(), epsilon=1, scale=(1, 10), randomness=r),
    "ask, two groups of reviewers",
    "noise for every group on its own",
)

# ---- timing ------------------------------------------------------------------------------------------------------


def log() -> Events:
    return synthetic_conference(30, 20, seed=1).events


def delay(mechanism: Any, check: Callable[[Any], Any] = timing.exact_check) -> Entry:
    """A delay mechanism: posts are made with it, its loss is computed, the best test is run on it."""

    def attack() -> tuple[float, float]:
        # the success of the best test at its cross-over, against what Proposition 5.1 leaves
        found = timing.optimal_attack(mechanism, (0, mechanism.gap), order="known", cells=80)
        return 1 - found.crossover, 1 - found.least_crossover + 1e-9

    return Entry(
        make=lambda r: timing.post(log(), mechanism=mechanism, randomness=r).public,
        honest=lambda: bool(check(mechanism).passed),
        broken=lambda: bool(check(shortened(mechanism)).passed),
        adversary=timing.optimal_attack,
        attack=attack,
    )


# ---- calibration -------------------------------------------------------------------------------------------------


def panel() -> calibration.Panel:
    people = [Affine(1.2, 0.3), Affine(0.8, -0.6), Affine(1.0, 0.4), Affine(0.9, 0.0)]
    return calibration.Panel([0.4, 0.1, 0.9, -0.2], people, noise=0.4, accept=2)


def pair() -> calibration.Pair:
    return calibration.Pair((0.6, 0.5), (Affine(1, 0.5), Affine(1, -0.5)), 0.5)


def conference() -> calibration.Conference:
    rng = np.random.default_rng(SEED)
    score = rng.normal(size=12)
    people = {j: Affine(float(np.exp(0.3 * rng.normal())), float(0.5 * rng.normal())) for j in range(12)}
    table = Reviews(paper=np.arange(12), reviewer=np.arange(12), score=score)
    return calibration.Conference(
        table, functions=people, noise=0.3, accept=calibration.Threshold.share(0.3), group_size=4
    )


def guessed(strategy: Any, table: Any = None) -> float:
    """The best guesser's error, by going through everything that can happen: written anew, without the module's code."""
    table = strategy.table if table is None else table
    columns = list(zip(*strategy.assignments, strict=True)) if strategy.adversary == "paper" else [
        tuple(range(len(strategy.assignments)))
    ]  # fmt: skip
    errors = []
    for column in columns:
        right = 0.0
        for d in range(len(strategy.decisions)):
            mass: dict[int, float] = {}
            for a, who in enumerate(column):
                mass[who] = mass.get(who, 0.0) + float(strategy.posterior[a] * table[a, d])
            right += max(mass.values())
        errors.append(1 - right)
    return min(errors)


def strategy_entry(strategy: Any, true: int = 0) -> Entry:
    def leaky() -> bool:
        sharp = np.eye(strategy.table.shape[1])[strategy.errors.argmin(axis=1)]  # the best decision, whoever it names
        return bool(guessed(strategy, sharp) >= strategy.guarantee.error)

    def attack() -> tuple[float, float]:
        rng = np.random.default_rng(SEED)
        row = rng.choice(len(strategy.assignments), size=TRIALS, p=strategy.posterior)
        drawn = np.array([rng.choice(strategy.table.shape[1], p=strategy.table[a]) for a in row])
        guesses = MapAdversary(strategy).attack(drawn, randomness=lane())
        true_ = np.array(strategy.assignments)[row] if strategy.adversary == "paper" else row[:, None]
        return float((guesses == true_).mean(axis=0).max()), 1 - strategy.guarantee.error + SLACK

    return Entry(
        make=lambda r: strategy.decide(true, randomness=r),
        honest=lambda: guessed(strategy) >= strategy.guarantee.error,
        broken=leaky,
        adversary=MapAdversary,
        attack=attack,
    )


def response_entry() -> Entry:
    response = calibration.respond_assignment(pair(), epsilon=1)

    def within(epsilon: str) -> bool:
        rows = [Response(epsilon, 2).probabilities(a) for a in range(2)]
        return exact_loss(*rows).within(1)

    return Entry(
        make=lambda r: response.decide(0, randomness=r),
        honest=lambda: within("1") and response.strategy.privacy_loss <= 1 + 1e-12,
        broken=lambda: within("1.2"),
        adversary=MapAdversary,
        attack=lambda: (1 - MapAdversary(response.strategy).error, 1 / (1 + math.exp(-1)) + 1e-9),
    )


def played(found: Simulation) -> tuple[float, float]:
    return 1 - found.adversary.observed, 1 - found.adversary.guaranteed + 5 * found.adversary.standard_error


def conference_entry() -> Entry:
    def honest(leak: bool) -> bool:
        made = conference().decide(adversary_error=0.5, capped=True, randomness=lane()).public
        groups = [group.panel.strategy(adversary_error=0.5, capped=True) for group in conference().groups()]
        sharp = [np.eye(s.table.shape[1])[s.errors.argmin(axis=1)] for s in groups]
        promised = made.guarantee.error
        assert promised is not None
        return min(guessed(s, t if leak else None) for s, t in zip(groups, sharp, strict=True)) >= promised

    return Entry(
        make=lambda r: conference().decide(adversary_error=0.5, capped=True, randomness=r).public,
        honest=lambda: honest(leak=False),
        broken=lambda: honest(leak=True),
        adversary=MapAdversary,
        attack=lambda: played(calibration.simulate_conference(conference(), adversary_error=0.5, draws=TRIALS)),
    )


# ---- rankings ----------------------------------------------------------------------------------------------------


def votes() -> Any:
    return rankings.Mallows(6, 0.9).sample(200, seed=SEED)


def guess_ranking() -> tuple[float, float]:
    known = np.array([np.random.default_rng(i).permutation(5) for i in range(9)])
    up = np.arange(5)
    settings: dict[str, Any] = {"epsilon": 1, "trials": TRIALS, "seed": SEED}
    right, most = rankings_adversary.guess_last_ranking("rank-norm", known, up, up[::-1], **settings)
    return right, most + SLACK


def local(r: Randomness) -> Result:
    protocol = rankings.LocalProtocol(6, epsilon=1, seed=7)
    sent = protocol.randomize_all(votes(), randomness=r)
    return rankings.aggregate_rankings(sent, protocol=protocol, simulated=not r.is_secure)


def guess_report() -> tuple[float, float]:
    """The best guess between a ranking and its reverse from one report: half plus half the total variation."""
    protocol = rankings.LocalProtocol(6, epsilon=1)
    laws = [rankings_adversary.local_distribution(protocol, row) for row in (np.arange(6), np.arange(6)[::-1])]
    apart = sum(abs(laws[0][key] - laws[1][key]) for key in laws[0])
    return float(Fraction(1, 2) + apart / 4), 1 / (1 + math.exp(-1))


CENTRAL = Entry(
    make=lambda r: rankings.uniformity_test(votes(), method="rank-norm", epsilon=1, randomness=r),
    honest=lambda: rankings_adversary.central_loss("rank-norm", 2, 3).passed,
    broken=lambda: rankings_adversary.central_loss("rank-norm", 2, 3, shrink=0.5).passed,
    adversary=rankings_adversary.guess_last_ranking,
    attack=guess_ranking,
)
LOCAL = Entry(
    make=local,
    honest=lambda: rankings_adversary.local_loss(rankings.LocalProtocol(4, epsilon=1)) <= 1,
    broken=lambda: rankings_adversary.local_loss(rankings.LocalProtocol(4, epsilon="1.2")) <= 1,
    adversary=rankings_adversary.local_loss,
    attack=guess_report,
)
CONSENSUS = Entry(
    make=lambda r: rankings.consensus(votes(), epsilon=1, randomness=r),
    honest=lambda: rankings_adversary.consensus_loss(3) <= 1,
    broken=lambda: rankings_adversary.consensus_loss(3, noise_epsilon=2) <= 1,
    adversary=rankings_adversary.consensus_loss,
    attack=guess_ranking,
)
COMPARED = replace(
    CONSENSUS,
    make=lambda r: rankings.compare(votes(), rankings.Mallows(6, 0.8).sample(150, seed=1), epsilon=1, randomness=r),
    honest=lambda: sampled(rankings_adversary.claims(), "two groups compared, epsilon 1", 4_000),
    broken=lambda: sampled(rankings_adversary.claims(), "a third of the noise", 4_000),
    adversary=rankings_adversary.guess_last_ranking,
)


def named(r: Randomness) -> Result:
    protocol = rankings.LocalProtocol(6, epsilon=1, ask="name")
    sent = protocol.randomize_all(votes(), randomness=r)
    return rankings.local_consensus(sent, protocol=protocol, simulated=not r.is_secure)


NAMED = replace(
    LOCAL,
    make=named,
    honest=lambda: rankings_adversary.local_loss(rankings.LocalProtocol(4, epsilon=1, ask="name")) <= 1,
    broken=lambda: rankings_adversary.local_loss(rankings.LocalProtocol(4, epsilon="1.2", ask="name")) <= 1,
)
RANDOMIZED = replace(LOCAL, make=lambda r: rankings.randomize_rankings(votes(), epsilon=1, randomness=r))

# ---- truth -------------------------------------------------------------------------------------------------------


def answers() -> Any:
    return truth.simulate_crowd(tasks=40, workers=10, answers=5, seed=3).answers


def guess_answer() -> tuple[float, float]:
    found = truth_adversary.answer_attack(epsilon=1, trials=TRIALS, randomness=lane())
    return found.right, found.bound + SLACK


def over_the_wire(_: Randomness) -> Result:
    """Clients draw from the operating system, always."""
    asked = wire.invitation(epsilon=2, classes=["no", "yes"])
    lines = [wire.Client(asked, worker=w).randomize(t, "yes") for w in range(6) for t in range(4)]
    return wire.collect(asked, lines).fit(model="one-coin").public


def accepts_terms(epsilon: str) -> bool:
    """Does a client accept an invitation that claims epsilon 1, with the thresholds of this epsilon?"""
    terms, other = (json.loads(wire.invitation(epsilon=e, classes=2)) for e in ("1", epsilon))
    try:
        wire.Client({**terms, "response": other["response"]})
    except BadInput:
        return False
    return True


def sheets(epsilon: str) -> bool:
    return truth_adversary.sheet_loss([0, 1, 1], [0, 0, 1], Response(epsilon, 2)).within(1)


ANSWERS = Entry(
    make=lambda r: truth.randomize_answers(answers(), epsilon=1, classes=2, randomness=r).public,
    honest=lambda: sheets("1"),
    broken=lambda: sheets("1.2"),
    adversary=truth_adversary.answer_attack,
    attack=guess_answer,
)
PUBLISHED = replace(ANSWERS, make=lambda r: truth.publish_labels(answers(), epsilon=1, classes=2, randomness=r))
CLIENT = Entry(
    make=over_the_wire,
    honest=lambda: accepts_terms("1"),
    broken=lambda: accepts_terms("1.2"),
    adversary=truth_adversary.answer_attack,
    attack=guess_answer,
    has_lanes=False,
)
FITTED = Entry(
    make=lambda r: truth.randomize_answers(answers(), epsilon=1, classes=2, randomness=r).public.fit(model="one-coin"),
    honest=ANSWERS.honest,
    broken=ANSWERS.broken,
    adversary=truth_adversary.answer_attack,
    attack=guess_answer,
)
