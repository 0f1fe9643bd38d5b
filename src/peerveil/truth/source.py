"""Inference from wherever answers are kept: a table, a file of reports, or files that a database reads."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peerveil.core.errors import BadInput
from peerveil.core.result import Outputs
from peerveil.data import Labels
from peerveil.truth.answers import read_classes
from peerveil.truth.doubt import NotRandomized
from peerveil.truth.estimate import PrivateDawidSkene
from peerveil.truth.majority import PrivateMajority
from peerveil.truth.tables import open_answers
from peerveil.truth.wire import is_answer_file, read_answers

if TYPE_CHECKING:
    from peerveil.core.exact import Number
    from peerveil.truth.randomize import CollectedAnswers
    from peerveil.truth.result import TruthResult, WorkerAbilities


def fit_source(
    source: Any,
    *,
    epsilon: Number | None = None,
    model: str = "auto",
    classes: Any = None,
    class_prior: str = "shrunk",
    engine: str = "auto",
) -> Outputs[TruthResult, WorkerAbilities]:
    """Infer labels and abilities; reports that do not look randomized are noted in the result, without a warning.

    Parameters
    ----------
    source : Labels or path
        A table; a file of reports, which states its own epsilon and classes; or a Parquet file or a pattern such as
        ``reports/*.parquet``, for a database.
    epsilon : number, optional
        Of the response that made the reports; by default answers were not randomized.
    model : str, optional
        A model of :class:`PrivateDawidSkene`, or ``"majority"``.
    classes : int or list, optional
        The classes, or how many there are, perhaps written as text; by default those in the data.
    class_prior, engine : str, optional
        As of :class:`PrivateDawidSkene`.
    """
    collected = stated_answers(source, epsilon=epsilon, classes=classes, model=model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotRandomized)
        if collected is not None and model != "majority":
            return collected.fit(model=model, class_prior=class_prior)
        guarantee = None
        if collected is not None:
            source, epsilon, guarantee = collected.answers, collected.response.exact_epsilon, collected.guarantee
            classes = collected.response.labels or collected.response.k
        in_memory = isinstance(source, Labels)
        classes = read_classes(classes, source if in_memory else None)
        if model == "majority":
            majority = PrivateMajority(epsilon=epsilon, classes=classes)
            result = majority.fit(source if in_memory else open_answers(source), guarantee=guarantee)
            return Outputs(result, majority.workers_)
        estimator = PrivateDawidSkene(epsilon=epsilon, model=model, classes=classes, class_prior=class_prior)
        return Outputs(estimator.fit(source, engine=engine), estimator.workers_)


def stated_answers(
    source: Any, *, epsilon: Number | None = None, classes: Any = None, model: str = "auto"
) -> CollectedAnswers | None:
    """The reports of a file that states its own terms, which must then not be given; None for any other source."""
    if not (isinstance(source, (str, Path)) and is_answer_file(source)):
        return None
    for name, value in (("epsilon", epsilon), ("classes", classes)):
        if value is not None:
            raise BadInput(name, got=value, want="nothing: the file of reports states it")
    collected = read_answers(source)
    if collected.missing is not None and model == "majority":
        want = "another model for reports that hide which tasks were answered"
        raise BadInput("model", got=model, want=want)
    return collected
