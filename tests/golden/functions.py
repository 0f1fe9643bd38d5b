"""Every public function of the five modules, of ``judgements``, ``audit`` and ``ledger``, on fixed seeds.

Classes need no case of their own where a function returns them: the test looks for their names in the outputs.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from tests.golden.data import Data, lane, promise
from tests.golden.normal import describe
from tests.golden.seeded import seeded

from peerveil import Randomness, audit, calibration, judgements, ledger, rankings, release, timing, truth
from peerveil.calibration import Affine
from peerveil.calibration.arrays import pair_frontiers
from peerveil.calibration.assignments import all_assignments, committees_exchanged
from peerveil.calibration.replay import simulate_panel
from peerveil.timing import check as timing_check
from peerveil.timing import choose as timing_choose
from peerveil.timing.adoption import partial_adoption
from peerveil.timing.batches import posterior
from peerveil.timing.leaks import find_leaks

MODULES: Final = ("release", "timing", "calibration", "rankings", "truth", "judgements", "audit", "ledger")


def noisy(value: float, count: int, randomness: Randomness) -> Any:
    return randomness.laplace(np.full(count, float(value)), scale=1)


def using(value: Any, then: Callable[[Any], Any]) -> Any:
    """What is made of a value that a case needs several times."""
    return then(value)


def refused(action: Callable[[], Any]) -> Any:
    """The error that an action ends with."""
    try:
        action()
    except Exception as error:
        return error
    raise AssertionError("nothing was refused")


def delays(mechanism: Any) -> dict[str, Any]:
    """What a delay mechanism says of itself, and what it draws."""
    names = ("gap", "beta", "hold", "epsilon", "mean_batched", "mean_unbatched", "max_delay")
    found = {name: getattr(mechanism, name) for name in names}
    found["guarantee"] = str(mechanism.guarantee)
    flags = np.arange(12) % 3 == 0
    return {**found, "drawn": mechanism.draw(flags, lane())}


Case = Callable[[Data], Any]
WINDOW: Final = 300
MECHANISM: Final = timing.FollowUp(epsilon=1, gap=2700, beta=300)

RELEASE: Final[dict[str, Case]] = {
    "publish": lambda d: {
        weight: release.publish(d.conference.reviews, epsilon=2, weight=weight, scale=(1, 10), randomness=lane())
        for weight in ("rating", "miscalibration", "normalised")
    },
    "LaplaceMeans": lambda d: release.publish(
        d.conference.reviews,
        scale=(1, 10),
        mechanism=release.LaplaceMeans(epsilon="1/3"),
        estimate="none",
        randomness=lane(),
    ),
    "PublicScores": lambda d: {"total": d.public.total, "sizes": d.public.sizes, "papers": d.public.papers},
    "feasible_region": lambda d: {
        bounds: release.feasible_region(
            release.PublicScores([[1, 4], [2, 2], [5, 3], [4, 1]], [3, 2, 2, 1], bounds=(1, 5)), bounds=bounds
        )
        for bounds in ("counting", "range")
    },
    "plan_release": lambda d: release.plan_release(d.public, epsilons=[1, 10], trials=2, progress=False),
    "public_expectation": lambda d: release.public_expectation(d.public),
    "review_weights": lambda d: {
        weight: release.review_weights(d.conference.reviews, weight=weight, scale=(1, 10))
        for weight in ("rating", "miscalibration", "normalised")
    },
    "swap_sensitivity": lambda d: release.swap_sensitivity(d.public),
}
TIMING: Final[dict[str, Case]] = {
    "FollowUp": lambda d: delays(MECHANISM),
    "ZeroInflatedUniform": lambda d: delays(timing.ZeroInflatedUniform(epsilon=1, gap=2700, beta=WINDOW)),
    "Uniform": lambda d: delays(timing.Uniform(epsilon=1, gap=2700, beta=WINDOW)),
    "Exponential": lambda d: delays(timing.Exponential(epsilon=1, gap=2700, beta=WINDOW)),
    "Staircase": lambda d: delays(timing.Staircase(epsilon=1, gap=2700, beta=WINDOW)),
    "Queue": lambda d: timing.post(d.conference.events, mechanism=timing.Queue(step=60), randomness=lane()).public,
    "post": lambda d: using(
        timing.post(d.conference.events, mechanism=MECHANISM, randomness=lane()),
        lambda made: {"result": made.public, "schedule": made.operator},
    ),
    "audit_log": lambda d: timing.audit_log(
        d.conference.events, window=WINDOW, percentile=25, epsilons=[1], randomness=lane()
    ),
    "audit_table": lambda d: timing.audit_table(d.conference.events.write(d.root / "events.parquet"), window=WINDOW),
    "choose_gap": lambda d: [
        timing.choose_gap(d.conference.events, percentile=25, beta=WINDOW),
        timing.choose_gap(d.conference.events, crossover=0.25, epsilon="0.8", beta=WINDOW),
        timing_choose.covered(d.conference.events, gap=2700, beta=WINDOW),
        timing_choose.intervals(d.conference.events, beta=WINDOW),
    ],
    "choose_gaps": lambda d: timing.choose_gaps(d.conference.events, percentile=25, beta=WINDOW, least=2),
    "exact_check": lambda d: {
        "exact": timing.exact_check(MECHANISM),
        "grid": timing_check.grid_check(timing.Staircase(epsilon=1, gap=2700, beta=WINDOW)),
        "sampled": timing_check.sampled_check(MECHANISM, samples=400, randomness=lane()),
    },
    "find_batches": lambda d: {
        "batches": timing.find_batches(d.conference.events, window=WINDOW),
        "posterior": posterior(0.2, 0.01, [2, 10]),
        "leaks": find_leaks(leaky(d)),
    },
    "linkage_attack": lambda d: {
        "attack": timing.linkage_attack(d.conference.events, window=WINDOW),
        "adoption": partial_adoption(d.conference.events, mechanism=MECHANISM, shares=[0.5], window=WINDOW),
    },
    "optimal_attack": lambda d: [
        timing.optimal_attack(MECHANISM, (0, 2700), order=order, cells=20) for order in ("unknown", "known")
    ],
    "plan_delays": lambda d: timing.plan_delays(d.conference.events, percentile=25, per="thread"),
}
CALIBRATION: Final[dict[str, Case]] = {
    "Affine": lambda d: [Affine(1.2, 0.3).score(0.5), Affine(1.2, 0.3).quality(0.5)],
    "Monotone": lambda d: calibration.Monotone(points=[(-2, -3), (0, 0.5), (2, 2)]).score([-1.0, 0.0, 1.0]),
    "Threshold": lambda d: calibration.Threshold.share(0.25),
    "Pair": lambda d: {
        "strategy": d.pair.strategy(adversary_error=0.3),
        "frontier": d.pair.frontier(),
        "frontiers": pair_frontiers([[0.6, 0.5], [0.1, 0.9]], scales=[1, 0.7], biases=[0.5, -0.5], noise=0.4),
    },
    "Panel": lambda d: {
        "strategy": d.panel.strategy(adversary_error=0.55),
        "frontier": d.panel.frontier(),
        "assignments": [all_assignments([1, 2], 3), committees_exchanged([[0, 1], [2, 3]])],
    },
    "Strategy": lambda d: [
        d.panel.strategy(adversary_error=0.55).decide(0, randomness=lane(seed)) for seed in range(3)
    ],
    "MapAdversary": lambda d: using(
        calibration.MapAdversary(d.pair.strategy(adversary_error=0.3)),
        lambda found: {"error": found.error, "guesses": found.attack(np.array([0, 1, 0]), randomness=lane())},
    ),
    "Conference": lambda d: d.small.decide(adversary_error=0.5, randomness=lane())._asdict(),
    "plan_decisions": lambda d: [
        calibration.plan_decisions(
            d.small.reviews.frame[:papers], functions=d.small.functions, noise=0.3, accept=accept, group_size=3
        )
        for papers, accept in ((4, 1), (12, d.small.accept))
    ],
    "fit_miscalibration": lambda d: {
        "summary": d.fit.summary(),
        "noise": d.fit.noise,
        "table": d.fit.table,
        "uncertain": d.fit.uncertain(d.fit.table["reviewer"][0], 3),
        "refused": refused(lambda: calibration.fit_miscalibration(d.past, iterations=60, progress=False)),
    },
    "read_miscalibration": lambda d: {str(name): str(found) for name, found in d.known.items()},
    "respond_assignment": lambda d: using(
        calibration.respond_assignment(d.pair, epsilon=1),
        lambda response: {
            "strategy": response.strategy,
            "guarantee": str(response.guarantee),
            "decision": response.decide(0, randomness=lane()),
        },
    ),
    "simulate_conference": lambda d: calibration.simulate_conference(
        d.small, adversary_error=0.5, draws=300, progress=False
    ),
    "simulate_pairs": lambda d: calibration.simulate_pairs(
        [Affine(1, 0.5), Affine(0.7, -0.5)], noise=0.4, share=0.5, draws=300
    ),
    "simulate_panels": lambda d: [
        calibration.simulate_panels(
            [Affine(1, 0.5), Affine(0.7, -0.5), Affine(1.2, 0)],
            noise=0.4,
            accept=1,
            adversary_error=0.5,
            draws=5,
            progress=False,
        ),
        simulate_panel(d.panel, strategy=d.panel.strategy(adversary_error=0.55), draws=300),
    ],
}
RANKINGS: Final[dict[str, Case]] = {
    "uniformity_test": lambda d: {
        f"{method}, {epsilon}": rankings.uniformity_test(d.votes, method=method, epsilon=epsilon, randomness=lane())
        for method, epsilon in (("auto", 1), ("auto", None), ("friedman", None), ("rank-norm", 1))
    },
    "LocalProtocol": lambda d: rankings.LocalProtocol(6, epsilon=1, seed=7),
    "LocalReporter": lambda d: rankings.LocalReporter(6, epsilon=1, seed=7).reports(d.votes, randomness=lane()),
    "aggregate_reports": lambda d: rankings.aggregate_reports(
        rankings.LocalReporter(6, epsilon=1, seed=7).reports(d.votes, randomness=lane()),
        protocol=rankings.LocalProtocol(6, epsilon=1, seed=7),
        simulated=True,
    ),
    "randomize_rankings": lambda d: rankings.randomize_rankings(d.votes, epsilon=1, public_seed=7, randomness=lane()),
    "Mallows": lambda d: using(
        rankings.Mallows(6, 0.8),
        lambda model: {
            "sample": model.sample(4, seed=1),
            "fit": rankings.Mallows.fit(d.votes).spread,
            "likelihood": model.log_likelihood(d.votes),
            "mean": model.mean_distance,
            "variance": model.distance_variance,
            "normaliser": model.log_normaliser,
        },
    ),
    "choose_questions": lambda d: [rankings.choose_questions(people, epsilon=1) for people in (10, 100, 10_000)],
    "kendall_distance": lambda d: rankings.kendall_distance([0, 1, 2, 3], [1, 0, 3, 2]),
    "mahonian": lambda d: rankings.mahonian(5),
    "people_needed": lambda d: rankings.people_needed("friedman", items=6, spread=0.6, trials=10),
    "plan_rankings": lambda d: rankings.plan_rankings(
        items=6, spread=0.7, epsilon=1, methods=["local"], trials=4, progress=False
    ),
    "power_of": lambda d: rankings.power_of("friedman", rankings=20, items=6, spread=0.8, trials=20),
    "spread_at": lambda d: rankings.spread_at(6, 0.2),
    "total_variation": lambda d: rankings.total_variation(6, 0.8),
}
TRUTH: Final[dict[str, Case]] = {
    "simulate_crowd": lambda d: {
        "crowd": d.crowd,
        "abilities": d.crowd.abilities,
        "truth": d.crowd.truth,
        "answers": d.crowd.answers,
        "reports": d.crowd.reports,
    },
    "randomize": lambda d: truth.randomize(["yes", "no"] * 10, epsilon=1, classes=["yes", "no"], randomness=lane()),
    "randomize_answers": lambda d: {
        "answer": d.sent.public,
        "reports": d.sent.operator.reports,
        "person": truth.randomize_answers(
            d.crowd.answers, epsilon=4, classes=2, unit="person", randomness=lane()
        ).public,
    },
    "PrivateDawidSkene": lambda d: {
        model: truth.PrivateDawidSkene(epsilon=2, model=model).fit(d.crowd.reports)
        for model in ("auto", "one-coin", "two-coin", "confusion")
    },
    "PrivateMajority": lambda d: truth.PrivateMajority(epsilon=2).fit(d.crowd.reports),
    "TruthResult": lambda d: {
        "labels": d.fitted.frame(),
        "workers": d.estimator.workers_.frame(),
        "accuracy": d.fitted.accuracy(d.crowd.truth),
        "person": str(d.fitted.person_guarantee),
    },
    "NotConverged": lambda d: refused(lambda: truth.PrivateDawidSkene(epsilon=2, iterations=1).fit(d.crowd.reports)),
    "invitation": lambda d: truth.invitation(epsilon=1, classes=["no", "yes"]),
    "Client": lambda d: using(
        truth.Client(truth.invitation(epsilon=1, classes=["no", "yes"]), worker=7),
        lambda client: [client.report(task, "yes") for task in range(6)],
    ),
    "collect": lambda d: using(
        truth.invitation(epsilon=2, classes=["no", "yes"]),
        lambda asked: truth.collect(
            asked, [truth.Client(asked, worker=w).report(t, "yes") for w in range(3) for t in range(4)]
        ),
    ),
    "write_reports": lambda d: truth.write_reports(d.sent.operator, d.root / "reports.jsonl").read_text(
        encoding="utf-8"
    )[:400],
    "read_reports": lambda d: truth.read_reports(truth.write_reports(d.sent.operator, d.root / "again.jsonl")),
    "compare_truth": lambda d: truth.compare_truth(d.crowd.answers, epsilons=[1, 4], draws=2, progress=False),
    "plan_truth": lambda d: truth.plan_truth(
        accuracy=0.7, epsilons=[None, 4], answers=(3, 5), tasks=20, trials=1, progress=False
    ),
    "abilities_like": lambda d: truth.abilities_like(d.fitted),
}
JUDGEMENTS: Final[dict[str, Case]] = {
    "synthetic_conference": lambda d: {
        name: getattr(d.conference, name) for name in ("reviews", "events", "rankings", "labels", "truth")
    },
    "Reviews": lambda d: {"fingerprint": d.conference.reviews.fingerprint, "identity": d.conference.reviews.identity},
    "SyntheticConference": lambda d: str(d.conference),
    "recognise": lambda d: {
        name: judgements.recognise(d.conference.write(d.root / "made") / f"{name}.csv")
        for name in ("reviews", "events", "rankings", "labels")
    },
    "describe": lambda d: {
        name: judgements.describe(getattr(d.conference, name)) for name in ("reviews", "events", "rankings", "labels")
    },
    "BadTable": lambda d: using(
        refused(lambda: judgements.Reviews.read(bad_file(d))),
        lambda error: {"type": type(error).__name__, "message": str(error), "problems": error.problems},
    ),
}
AUDIT: Final[dict[str, Case]] = {
    "check": lambda d: audit.check(
        noisy, [audit.Pair("10 and 11", 10, 11)], promise(), samples=400, randomness=lane(), progress=False
    ),
    "repeated": lambda d: audit.repeated(lambda value, randomness: float(value + randomness.uniform(1)[0]))(
        3, 4, lane()
    ),
    "Pair": lambda d: audit.Pair("10 and 11", 10, 11),
    "PrivacyViolation": lambda d: refused(
        audit.check(
            noisy, [("10 and 15", 10, 15)], promise(), samples=2000, randomness=lane(), progress=False
        ).raise_if_violated
    ),
    "exact_loss": lambda d: audit.exact_loss({"a": "3/4", "b": "1/4"}, {"a": "1/4", "b": "3/4"}),
    "granularity": lambda d: audit.granularity(np.array([0.5, 0.1, 3.0, 1 / 3])),
    "lower_bound": lambda d: audit.lower_bound(noisy(0, 2000, lane(1)), noisy(1, 2000, lane(2))),
}
LEDGER: Final[dict[str, Case]] = {
    "Account": lambda d: {
        name: value for name, value in d.book.account("chairs").to_dict().items() if name not in ("entries", "digest")
    },
    "Statement": lambda d: d.book.account("chairs").statement(),
    "Subtotal": lambda d: d.book.account("chairs").statement().subtotals,
    "Entry": lambda d: [
        {"serial": entry.serial, "purpose": entry.purpose, "guarantee": str(entry.guarantee)}
        for entry in d.book.account("chairs").entries()
    ],
    "Ledger": lambda d: d.book.to_csv().splitlines()[0],
    "Verification": lambda d: using(d.book.verify(), lambda found: {"ok": found.ok, "said": str(found)}),
    "verify_export": lambda d: str(ledger.verify_export(json.loads(d.book.to_json()))),
    "BudgetExceeded": lambda d: refused(
        lambda: d.book.account("chairs").spend(
            promise(1), purpose="too much", data="reviews", randomness=Randomness.secure()
        )
    ),
    "DataBound": lambda d: refused(
        lambda: d.book.account("others", epsilon=5).spend(
            promise(1), purpose="the same data", data="reviews", randomness=Randomness.secure()
        )
    ),
    "SimulationRefused": lambda d: refused(
        lambda: d.book.account("chairs").spend(promise("0.1"), purpose="seeded", data="reviews", randomness=lane())
    ),
    "LedgerError": lambda d: refused(lambda: ledger.Ledger.open(str(d.root / "missing.db"), create=False)),
}
CASES: Final[dict[str, dict[str, Case]]] = {
    "release": RELEASE, "timing": TIMING, "calibration": CALIBRATION, "rankings": RANKINGS, "truth": TRUTH,
    "judgements": JUDGEMENTS, "audit": AUDIT, "ledger": LEDGER,
}  # fmt: skip
WITHOUT: Final = {
    "release.Perturbation": "a protocol for mechanisms of others",
    "truth.NotRandomised": "a warning (tests/truth/test_doubt.py)",
}


def bad_file(data: Data) -> Path:
    """A file of reviews with a missing paper, a score that is no number and a review that stands there twice."""
    path = data.root / "bad.csv"
    path.write_text("paper,reviewer,score\n1,1,x\n,2,5\n2,2,3\n2,2,4\n", encoding="utf-8")
    return path


def leaky(data: Data) -> Any:
    """The log with ids in order of arrival."""
    frame = data.conference.events.frame.sort("time").with_row_index("post_id")
    return judgements.Events.from_frame(frame)


def run_module(name: str, root: Path) -> Iterator[tuple[str, str]]:
    """What every case of a module gives."""
    data = Data(root)
    for number, (case, run) in enumerate(CASES[name].items()):
        with seeded(number):
            yield case, describe(run(data), root)


def public_names() -> list[str]:
    """Everything that the modules export."""
    return [f"{name}.{own}" for name in MODULES for own in importlib.import_module(f"peerveil.{name}").__all__]
