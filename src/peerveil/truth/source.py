"""Inference from whatever holds answers: a table, a file that states its own terms, or files of a database."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from peerveil.core.result import Outputs
from peerveil.data import Labels
from peerveil.truth.answers import read_classes
from peerveil.truth.estimate import PrivateDawidSkene, PrivateMajority
from peerveil.truth.guarantee import NotRandomized
from peerveil.truth.tables import is_source, open_answers
from peerveil.truth.wire import stated_answers

if TYPE_CHECKING:
    from peerveil.core.exact import Number
    from peerveil.truth.result import TruthResult, WorkerAbilities


def fit_source(
    source: object,
    *,
    epsilon: Number | None = None,
    model: str = "auto",
    classes: int | Sequence[Hashable] | None = None,
    class_prior: str = "shrunk",
    engine: str = "auto",
    gold: object = None,
) -> Outputs[TruthResult, WorkerAbilities]:
    """Infer labels and abilities; answers that do not look randomized are noted in the result, without a warning.

    Parameters
    ----------
    source : Labels or path
        A table; a file of randomized answers, which states its own epsilon and classes; or a Parquet file or a pattern such as
        ``answers/*.parquet``, for a database.
    epsilon : number, optional
        Of the response for one answer; by default answers were not randomized.
    model : str, optional
        A model of :class:`PrivateDawidSkene`, or ``"majority"``.
    classes : int or list, optional
        The classes, or how many there are, perhaps written as text; by default those in the data.
    class_prior, engine, gold : optional
        As of :class:`PrivateDawidSkene`.
    """
    collected = stated_answers(source, epsilon=epsilon, classes=classes, model=model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotRandomized)
        if collected is not None and model != "majority":
            return collected.fit(model=model, class_prior=class_prior, gold=gold)
        guarantee = None
        if collected is not None:
            source, epsilon, guarantee = collected.answers, collected.response.exact_epsilon, collected.guarantee
            epsilon = "column" if collected.levels else epsilon
            classes = collected.response.labels or collected.response.k
        classes = read_classes(classes, source.members if isinstance(source, Labels) else None)
        if model == "majority":
            majority = PrivateMajority(epsilon=epsilon, classes=classes, gold=gold)
            labels = open_answers(source) if is_source(source) else source
            return Outputs(majority.fit(labels, guarantee=guarantee), majority.workers_)
        settings: dict[str, Any] = {"classes": classes, "class_prior": class_prior, "gold": gold}
        estimator = PrivateDawidSkene(epsilon=epsilon, model=model, **settings)
        return Outputs(estimator.fit(source, engine=engine), estimator.workers_)
