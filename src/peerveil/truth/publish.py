"""A data set of labels per annotator that may be published: randomized labels, a data card, and agreement; and its preview.

**Guarantee.** The only step that looks at answers is :func:`peerveil.truth.randomize_answers`, whose proof holds for everything
here: numbers of annotators and the order of rows are drawn without looking at answers, and agreement, the card and every file are
computed from what was sent (post-processing). ∎ Of the source only the columns task, worker and label are read: times, further
columns and known correct answers never reach the output. What fails after the answers are drawn (an agreement that is not
defined) becomes a sentence of the card, so that nothing that was paid for is lost.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, one_of
from peerveil.core.exact import Number, whole
from peerveil.core.files import check_out, write_text
from peerveil.core.guarantee import Guarantee, read_epsilon
from peerveil.core.randomness import Randomness
from peerveil.core.result import Result
from peerveil.data import Labels
from peerveil.data.table import csv_text, plural, write_frame
from peerveil.truth.card import data_card
from peerveil.truth.coefficients import agreement, agreement_of
from peerveil.truth.figures import draw_preview
from peerveil.truth.guarantee import AnswersResult, largest_load, sum_of_answers, task_guarantee
from peerveil.truth.plan import EPSILONS, compare_truth
from peerveil.truth.randomize import RandomizedAnswers, randomize_answers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.ledger import Account
    from peerveil.truth.agreement_result import Agreement

FORMATS: Final = ("csv", "parquet")
_CARD: Final = "README.md"
_SEED_STEP: Final = 1_000_003  # between epsilons, so that their seeds do not meet


@dataclass(frozen=True, kw_only=True, eq=False)
class PublishedLabels(AnswersResult):
    """Randomized labels per annotator with a data card and agreement. It names no annotator.

    Attributes
    ----------
    sent
        The randomized answers, annotators numbered at random.
    agreement
        Agreement between annotators, corrected for the randomization; ``None`` if it is not defined.
    no_agreement
        Why it is not defined, in words.
    """

    sent: RandomizedAnswers
    agreement: Agreement | None
    no_agreement: str = ""

    @classmethod
    def of(cls, sent: RandomizedAnswers) -> PublishedLabels:
        """The data set of randomized answers: computed from them alone."""
        if sent.missing is not None:
            raise BadInput("sent", got=sent, want="answers without hidden tasks: their labels mean something else")
        measured, reason = None, ""
        try:
            measured = agreement_of(sent).public
        except BadInput as error:  # of the reports, which are public: the labels are drawn and paid for
            reason = str(error)
        return cls(guarantee=sent.guarantee, sent=sent, agreement=measured, no_agreement=reason)

    @property
    def _busiest(self) -> tuple[int, Fraction | None]:
        return self.sent.most, self.sent.response.exact_epsilon

    @property
    def agreement_sentence(self) -> str:
        """Agreement with its intervals, or why there is none."""
        if self.agreement is None:
            return f"Agreement cannot be estimated from these labels ({self.no_agreement})."
        return f"{self.agreement.summary()}. {self.agreement.about_intervals}"

    @property
    def tasks_of_one(self) -> int:
        """How many tasks have the labels of a single annotator."""
        people = self.sent.frame().group_by("task").agg(n=pl.col("worker").n_unique())
        return int((people["n"] == 1).sum())

    def summary(self) -> str:
        """The finding in one line."""
        frame = self.sent.frame()
        return (
            f"{plural(frame.height, 'randomized label')} of {plural(frame['worker'].n_unique(), 'annotator')} on "
            f"{plural(frame['task'].n_unique(), 'task')}, with data card"
        )

    def frame(self) -> pl.DataFrame:
        """The labels as a Polars table: task, worker (a random number) and label."""
        return self.sent.frame()

    def card(self, file: str = "labels.csv") -> str:
        """The data card in Markdown, for labels in a file of this name."""
        return data_card(self, file)

    def contents(self, file: str = "labels.csv") -> dict[str, str]:
        """Card, agreement and, as CSV, the labels: the text of each file by name."""
        texts = {_CARD: self.card(file)}
        if file.endswith(".csv"):
            texts = {file: csv_text(self.frame()), **texts}
        if self.agreement is not None:
            texts["agreement.json"] = self.agreement.to_json(indent=2) + "\n"
        return texts

    def write(self, folder: str | os.PathLike[str], *, format: str = "csv", force: bool = False) -> list[Path]:  # noqa: A002
        """Write labels, card and agreement into a folder; returns the paths.

        Parameters
        ----------
        format
            Of the labels: ``"csv"`` or ``"parquet"``.
        force
            Write into a folder that is not empty.
        """
        one_of(format, "format", FORMATS)
        target, file = Path(folder), f"labels.{format}"
        check_out(target, force, name="folder")
        paths = [write_text(target / name, text) for name, text in self.contents(file).items()]
        return paths if format == "csv" else [write_frame(self.frame(), target / file), *paths]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the labels, as JSON values."""
        measured = None if self.agreement is None else self.agreement.to_dict()
        return {**self.sent.to_dict(), "agreement": measured, "no_agreement": self.no_agreement}

    def draw(self, ax: Axes) -> None:
        """Draw the coefficients of agreement; the shares of the classes if there are none."""
        (self.sent if self.agreement is None else self.agreement).draw(ax)


def publish_labels(
    labels: Any,
    *,
    epsilon: Number,
    classes: int | Sequence[Hashable],
    unit: str = "answer",
    most: int | None = None,
    columns: Mapping[str, str] | None = None,
    randomness: Randomness | None = None,
    account: Account | None = None,
) -> PublishedLabels:
    """Randomize the labels of every annotator, for publication with a data card.

    Parameters
    ----------
    labels
        Who answered what: Labels, a pandas or Polars frame with columns task, worker and label, or a file name.
    epsilon
        Of one answer (``unit="answer"``) or of everything an annotator sends (``unit="person"``: few labels of each).
    classes
        The list of classes, or a count k for 0 to k - 1, from a public list: one that was read off the answers would tell that
        somebody gave a rare one.
    most
        With ``unit="person"``: how many answers an annotator gives at most, by public rule; by default as in the table.
    columns
        Names of the columns task, worker and label in a frame or file, where they differ: ``{"task": "item"}``.
    account
        An account of a ledger, debited before anything is drawn.

    Examples
    --------
    >>> from peerveil.truth import simulate_crowd
    >>> answers = simulate_crowd(tasks=300, workers=20, answers=6, epsilon=None, seed=1).answers
    >>> published = publish_labels(answers, epsilon=2, classes=2, randomness=Randomness.simulation(1))
    >>> published.frame().columns, list(published.contents())
    (['task', 'worker', 'label'], ['labels.csv', 'README.md', 'agreement.json'])
    """
    sent, _ = randomize_answers(
        labels,
        epsilon=epsilon,
        classes=classes,
        unit=unit,
        most=most,
        columns=columns,
        response="k-ary",  # one label in a cell, for whoever reads the table with other tools
        randomness=randomness,
        account=account,
    )
    return PublishedLabels.of(sent)


# ---- before anything is spent ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """What one epsilon would leave: means over the draws."""

    epsilon: float
    labels: int
    """How many labels would be published."""
    same: float
    """The share of tasks whose inferred label is that of the answers as given."""
    accuracy: float | None
    """Of tasks with a known correct answer, the share that is inferred correctly."""
    alpha: float | None
    """The mean estimate of alpha; ``None`` if it was defined in no draw."""
    alpha_width: float | None
    """The mean width of its 95% interval."""
    person: str
    """How strongly everything of the busiest annotator would be protected."""


@dataclass(frozen=True, kw_only=True)
class LabelsPreview(Result):
    """What would survive in published labels, by epsilon; computed from private answers, not for publication.

    Attributes
    ----------
    alpha
        Krippendorff's alpha of the answers as given; ``None`` if it is not defined.
    """

    rows: tuple[PreviewRow, ...]
    unit: str
    draws: int
    alpha: float | None
    base_accuracy: float | None

    def summary(self) -> str:
        """The finding in one line."""
        parts = []
        for row in dict.fromkeys([self.rows[0], self.rows[-1]]):
            width = "not defined" if row.alpha_width is None else f"± {row.alpha_width / 2:.2f}"
            parts.append(f"at epsilon {row.epsilon:g} {100 * row.same:.0f}% of the inferred labels stay, alpha {width}")
        alpha = "" if self.alpha is None else f" (alpha of the answers: {self.alpha:.2f})"
        return f"Published with epsilon for one {self.unit}: {'; '.join(parts)}{alpha}. For you, not for publication"

    def cells(self) -> list[list[str]]:
        """The rows as words: epsilon, labels, same label, correct label, alpha, width of its interval, annotator."""

        def percent(value: float | None) -> str:
            return "not known" if value is None else f"{100 * value:.1f}%"

        def two(value: float | None) -> str:
            return "not defined" if value is None else f"{value:.2f}"

        rows = [
            [
                f"{r.epsilon:g}",
                f"{r.labels:,}",
                percent(r.same),
                percent(r.accuracy),
                two(r.alpha),
                two(r.alpha_width),
                r.person,
            ]
            for r in self.rows
        ]
        return [*rows, ["none", "", "100.0%", percent(self.base_accuracy), two(self.alpha), "", "not protected"]]

    def frame(self) -> pl.DataFrame:
        """The rows as a Polars frame; ``.to_pandas()`` makes it one of pandas."""
        return pl.DataFrame([asdict(row) for row in self.rows], infer_schema_length=None)

    draw = draw_preview


def preview_labels(
    labels: Any,
    *,
    epsilons: Sequence[Number] = EPSILONS,
    unit: str = "answer",
    classes: int | Sequence[Hashable] | None = None,
    draws: int = 5,
    seed: int = 0,
    columns: Mapping[str, str] | None = None,
    progress: bool | None = None,
) -> LabelsPreview:
    """What would survive in published labels at each epsilon, by simulation on answers that you hold: spends nothing.

    It is computed from private answers without noise, to help choose: not for publication.

    Parameters
    ----------
    labels, unit, columns
        As of :func:`publish_labels`; a column truth with correct answers is used where there is one.
    classes
        The classes; by default those in the answers, since nothing here is published.
    draws
        How often the answers are randomized for each epsilon, at least 2.

    Examples
    --------
    >>> from peerveil.truth import simulate_crowd
    >>> answers = simulate_crowd(tasks=100, workers=20, answers=6, epsilon=None, seed=1).answers
    >>> preview = preview_labels(answers, epsilons=[1, 6], draws=2)
    >>> preview.rows[0].alpha_width > preview.rows[1].alpha_width, preview.mark
    (True, 'not private')
    """
    table = Labels.of(labels, "labels", columns=columns)
    class_list = table.frame["label"].unique().sort().to_list() if classes is None else classes
    settings: dict[str, Any] = {"classes": class_list, "unit": unit}
    compared = compare_truth(table, epsilons=epsilons, draws=draws, seed=seed, progress=progress, **settings)
    rows = []
    for place, (epsilon, row) in enumerate(zip(epsilons, compared.rows, strict=True)):
        estimates = []
        for draw in range(whole(draws, "draws", 2)):
            randomness = Randomness.simulation(seed + draw + _SEED_STEP * (place + 1))
            published = publish_labels(table, epsilon=epsilon, randomness=randomness, **settings)
            if published.agreement is not None:
                coefficient = published.agreement.krippendorff
                estimates.append((coefficient.value, coefficient.upper - coefficient.lower))
        alpha, width = (
            (float(np.mean(values)) for values in zip(*estimates, strict=True)) if estimates else (None, None)
        )
        verdict = _person_verdict(table, epsilon, unit)
        rows.append(PreviewRow(row.epsilon, row.answers, row.agreement, row.accuracy, alpha, width, verdict))
    return LabelsPreview(
        guarantee=Guarantee.local_attribute_dp(None),
        rows=tuple(rows),
        unit=unit,
        draws=int(draws),
        alpha=_alpha(table, class_list),
        base_accuracy=compared.base_accuracy,
    )


def _person_verdict(table: Labels, epsilon: Number, unit: str) -> str:
    """How strongly everything of the busiest annotator would be protected, in words."""
    single = task_guarantee(table.frame, epsilon, unit)
    return sum_of_answers(single, read_epsilon(epsilon), largest_load(table.frame)).verdict


def _alpha(table: Labels, classes: int | Sequence[Hashable]) -> float | None:
    """Alpha of answers as given, if it is defined."""
    try:
        return agreement(table, epsilon=None, classes=classes).alpha
    except BadInput:
        return None
