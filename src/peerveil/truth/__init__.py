"""The truth module: correct labels from answers that were randomized on each person's device.

From Wang and Xu, *Inferring Ground Truth From Crowdsourced Data Under Local Attribute Differential Privacy* (2020), corrected and
improved.

- **Randomize** on the person's side: :func:`randomize` (arrays), :func:`randomize_answers` (tables; per answer or per person,
  hiding which tasks were answered), which gives :class:`RandomizedAnswers` to publish and :class:`CollectedAnswers` with the ids
  of workers for the operator.
- **Over the wire**: :mod:`peerveil.truth.wire` has the invitation, the client of a device and files of randomized answers.
- **Infer**: :class:`PrivateDawidSkene` and :class:`PrivateMajority` give a :class:`TruthResult` without ids of workers; the
  abilities by id are the estimator's ``workers_``. :class:`EMNotConverged` is raised if EM does not converge, and
  :class:`NotRandomized` warns that answers look raw. :func:`peerveil.truth.source.fit_source` takes a
  table, a file of randomized answers or files of a database alike.
- **Check it on gold tasks**: :func:`choose_gold` chooses tasks for an expert to answer; with ``gold=`` an estimator reports the
  accuracy of its labels with an interval, and calibrates confidences (:mod:`peerveil.truth.gold`).
- **Shares of a population**: :func:`estimate_shares`, for a poll; :mod:`peerveil.truth.shares_groups` compares groups,
  :mod:`peerveil.truth.shares_cross` joins two questions, :mod:`peerveil.truth.shares_regression` explains an answer.
  :func:`plan_shares` says how many people are needed.
- **Agreement** between people: :func:`agreement` gives alpha and kappa of what people think, with intervals,
  from their randomized answers.
- **Publish** labels per annotator, with a data card: :func:`publish_labels`; :mod:`peerveil.truth.publish` previews it.
- **Choose epsilon first**: :func:`plan_truth` gives a :class:`TruthPlan` (for a crowd like that of an earlier run:
  :func:`abilities_like`); :func:`compare_truth` gives a :class:`TruthComparison` on answers that you hold.
- **Attack it**: :mod:`peerveil.truth.adversary`. **Simulate**: :func:`simulate_crowd`.
- **If answers outgrow memory**: ``fit(..., engine="duckdb")`` or ``"spark"``, on a connection from
  :func:`peerveil.data.engines.connect` or of your own.

How it is built: a model turns expected counts into parameters (``m_step``), an engine turns parameters into posteriors and
expected counts (``e_step``). ``em`` holds both protocols and the loop; the models are in ``models``, ``grid`` and
``choose``, the engines in ``memory`` and ``tables`` (DuckDB, Spark).

>>> crowd = simulate_crowd(tasks=200, workers=30, answers=9, epsilon=2, seed=3)
>>> result = PrivateDawidSkene(epsilon=2).fit(crowd.randomized)
>>> majority = PrivateMajority(epsilon=2).fit(crowd.randomized)
>>> result.accuracy(crowd.truth)[0] >= majority.accuracy(crowd.truth)[0]
True
"""

from typing import TYPE_CHECKING, Any

from peerveil.core.lazy import import_on_first_use

if TYPE_CHECKING:
    from peerveil.truth.coefficients import agreement
    from peerveil.truth.em import EMNotConverged
    from peerveil.truth.estimate import PrivateDawidSkene, PrivateMajority
    from peerveil.truth.gold import choose_gold
    from peerveil.truth.guarantee import NotRandomized
    from peerveil.truth.plan import TruthComparison, TruthPlan, compare_truth, plan_truth
    from peerveil.truth.publish import publish_labels
    from peerveil.truth.randomize import CollectedAnswers, RandomizedAnswers, randomize, randomize_answers
    from peerveil.truth.result import TruthResult
    from peerveil.truth.shares import estimate_shares
    from peerveil.truth.shares_plan import plan_shares
    from peerveil.truth.simulate import abilities_like, simulate_crowd

__all__ = [
    "CollectedAnswers",
    "EMNotConverged",
    "NotRandomized",
    "PrivateDawidSkene",
    "PrivateMajority",
    "RandomizedAnswers",
    "TruthComparison",
    "TruthPlan",
    "TruthResult",
    "abilities_like",
    "agreement",
    "choose_gold",
    "compare_truth",
    "estimate_shares",
    "plan_shares",
    "plan_truth",
    "publish_labels",
    "randomize",
    "randomize_answers",
    "simulate_crowd",
]

_load = import_on_first_use(
    __name__,
    {
        "agreement": "coefficients",
        "EMNotConverged": "em",
        "PrivateDawidSkene": "estimate",
        "PrivateMajority": "estimate",
        "choose_gold": "gold",
        "NotRandomized": "guarantee",
        "TruthComparison": "plan",
        "TruthPlan": "plan",
        "compare_truth": "plan",
        "plan_truth": "plan",
        "publish_labels": "publish",
        "CollectedAnswers": "randomize",
        "RandomizedAnswers": "randomize",
        "randomize": "randomize",
        "randomize_answers": "randomize",
        "TruthResult": "result",
        "estimate_shares": "shares",
        "plan_shares": "shares_plan",
        "abilities_like": "simulate",
        "simulate_crowd": "simulate",
    },
)


def __getattr__(name: str) -> Any:
    return _load(name)


def __dir__() -> list[str]:
    return sorted(__all__)
