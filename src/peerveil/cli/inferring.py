"""What ``peerveil truth infer`` reads: a file of reports, which states its own terms, or a table, for which somebody must."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from peerveil.cli.base import columns_named
from peerveil.errors import BadInput, Verbatim

if TYPE_CHECKING:
    from peerveil.result import Outputs
    from peerveil.truth import TruthResult
    from peerveil.truth.outcome import WorkerAbilities


def check_stated(epsilon: str, randomized: bool) -> None:
    """A table does not say whether it was randomized: somebody has to, and an epsilon alone is no statement."""
    raw = epsilon.strip().lower() == "none"
    if raw and randomized:
        raise BadInput("--randomized", got=Verbatim("--epsilon none"), want="the epsilon of the devices beside it")
    if not raw and not randomized:
        want = (
            f"--randomized beside it, if each answer was randomized with epsilon {epsilon} on the person's own device before it "
            "was collected. Answers as people gave them: 'peerveil truth randomize' first, or --epsilon none (for you alone)"
        )
        raise BadInput("--epsilon", got=Verbatim(f"{epsilon} alone"), want=want)


def infer_reports(file: str, model: str, class_prior: str) -> Outputs[TruthResult, WorkerAbilities]:
    """Infer from a file of reports, under the terms that it states itself."""
    from peerveil.result import Outputs
    from peerveil.truth import PrivateMajority, read_reports

    collected = read_reports(file)
    if model == "majority":
        if collected.missing is not None:
            raise BadInput("--model", got=model, want="another model for reports that hide which tasks were answered")
        listed = list(collected.response.labels or range(collected.response.k))
        estimator = PrivateMajority(epsilon=collected.response.exact_epsilon, classes=listed)
        result = estimator.fit(collected.reports, guarantee=collected.guarantee)
        return Outputs(result, estimator.workers_)
    return collected.fit(model=model, class_prior=class_prior)


def infer_table(
    file: str, epsilon: str, model: str, classes: str | None, class_prior: str, engine: str, column: list[str] | None
) -> tuple[TruthResult, WorkerAbilities, Any]:
    """Infer from a table, which says nothing of how it was made; also the right answers, where it has them."""
    from peerveil.judgements import Labels
    from peerveil.truth import PrivateDawidSkene, PrivateMajority

    each = None if epsilon.strip().lower() == "none" else epsilon
    import warnings

    from peerveil.truth import NotRandomised
    from peerveil.truth.tables import open_reports

    several = "*" in file
    if several and column:
        raise BadInput(
            "--column", got=column, want="nothing for several files: name their columns task, worker and label"
        )
    in_database = several or (engine in ("duckdb", "spark") and not column)
    labels: Any = file if in_database else Labels.read(file, columns=columns_named(column))
    listed = None if classes is None else read_classes(classes, None if in_database else labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotRandomised)  # the result says it, at its beginning
        if model == "majority":
            majority = PrivateMajority(epsilon=each, classes=listed)
            result = majority.fit(open_reports(file) if in_database else labels)
            workers = majority.workers_
        else:
            estimator = PrivateDawidSkene(epsilon=each, model=model, classes=listed, class_prior=class_prior)
            result = estimator.fit(labels, engine=engine)
            workers = estimator.workers_
    truth = None if in_database or not labels.has_truth else labels.truths()
    return result, workers, truth


def read_classes(text: str, labels: Any) -> int | list[Any]:
    """A count, or a list of the kind that the table holds."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 1 and not all(parts):
        raise BadInput("--classes", got=text, want="a class before and after every comma")
    if len(parts) == 1:
        if not parts[0].isdecimal():
            raise BadInput("--classes", got=text, want="classes separated by commas, or how many there are")
        return int(parts[0])
    kind = None if labels is None else labels.frame["label"].dtype
    if str(kind) == "Boolean":
        return [part.lower() in ("true", "yes", "1") for part in parts]
    if all(part.lstrip("-").isdecimal() for part in parts) and str(kind) in ("Int64", "None"):
        return [int(part) for part in parts]
    return list(parts)
