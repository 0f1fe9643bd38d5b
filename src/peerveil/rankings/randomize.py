"""Local reports of a whole table of rankings, as each person's device would make them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.files import write_text
from peerveil.core.result import Result
from peerveil.rankings.intake import Ballots
from peerveil.rankings.local import QUESTIONS, LocalProtocol, LocalReporter, Report
from peerveil.rankings.mallows import read_randomness

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    import polars as pl
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from peerveil.core.exact import Number
    from peerveil.core.randomness import Randomness
    from peerveil.ledger import Account

    Ints = NDArray[np.int64]

FORMAT: Final = "rankings reports 1"
"""First line of a file of reports: ``{"peerveil": FORMAT, "items": ..., ...}``."""
FILE_NAME: Final = "reports.jsonl"


@dataclass(frozen=True, kw_only=True)
class RandomizedRankings(Result):
    """One randomized report per person, in random order; every field may be published.

    Attributes
    ----------
    protocol
        What the reports answer, and with which epsilon.
    reports
        The reports; :func:`~peerveil.rankings.aggregate_reports` tests from them.
    """

    protocol: LocalProtocol
    reports: tuple[Report, ...] = field(repr=False)

    def summary(self) -> str:
        """The number of reports and the protocol in one line."""
        protocol = self.protocol
        return f"{len(self.reports):,} reports on rankings of {protocol.items:,} items (epsilon {protocol.epsilon:g})"

    def text(self) -> str:
        """The reports as a file: the protocol's line, then one line of JSON per report."""
        header = {"peerveil": FORMAT, **self.protocol.to_dict(), "simulated": self.simulated}
        return "\n".join([json.dumps(header), *(report.to_json() for report in self.reports)]) + "\n"

    def frame(self) -> pl.DataFrame:
        """One row per report, with the protocol in columns of its own."""
        import polars as pl

        columns = {name: pl.lit(value) for name, value in self.protocol.to_dict().items()}
        columns["protocol"], columns["answers"] = pl.lit(self.protocol.fingerprint), pl.lit(1)
        table = {"question": [r.question for r in self.reports], "bits": [r.bits for r in self.reports]}
        return pl.DataFrame(table).with_columns(**columns, simulated=pl.lit(self.simulated))

    def counts(self) -> tuple[Ints, Ints]:
        """How many reports answer each question, and how many of these say yes."""
        question = np.array([report.question for report in self.reports], dtype=np.int64)
        bits = np.array([report.bits for report in self.reports], dtype=np.int64)
        number = self.protocol.questions
        return np.bincount(question, minlength=number), np.bincount(question[bits == 1], minlength=number)

    def to_dict(self) -> dict[str, Any]:
        """Protocol, numbers of answers and guarantee as JSON values; the reports themselves are in :meth:`text`."""
        data = super().to_dict()
        answers, yes = self.counts()
        counts = {"answers": answers.tolist(), "yes": yes.tolist()}
        return {**data, "protocol": self.protocol.to_dict(), "reports": len(self.reports), "questions": counts}

    def save(self, folder: str | os.PathLike[str], *, force: bool = False) -> list[Path]:
        """Write ``reports.jsonl`` (see :meth:`text`), ``result.json``, ``figure.svg`` and ``table.csv`` into a folder."""
        path = Path(folder) / FILE_NAME
        if path.exists() and not force:
            got = Verbatim(f"{folder}, which holds {FILE_NAME}")
            raise BadInput("folder", got=got, want="a new or empty folder, or force=True to replace what is in it")
        return [*super().save(folder, force=force), write_text(path, self.text())]

    def draw(self, ax: Axes) -> None:
        """The share of randomized answers that say yes, by question."""
        from peerveil.rankings.figures import draw_reports

        draw_reports(self, ax)


def randomize_rankings(
    rankings: Any,
    *,
    epsilon: Number,
    ask: str = "items",
    questions: int = QUESTIONS,
    public_seed: int = 0,
    columns: Mapping[str, str] | None = None,
    layout: str | None = None,
    randomness: Randomness | None = None,
    account: Account | None = None,
) -> RandomizedRankings:
    """Turn complete rankings into one randomized report per person, as each person's device would; in random order.

    Parameters
    ----------
    rankings, columns, layout
        See :func:`~peerveil.rankings.uniformity_test`.
    epsilon : number
        Privacy budget for one person's ranking.
    ask : {"items", "pairs"}, optional
        What the questions are about: an item's place, or the order of two items. Default: ``"items"``.
    questions : int, optional
        How many questions all people share. Default: 3; see :func:`~peerveil.rankings.choose_questions`.
    public_seed : int, optional
        Fixes the shared questions; publish it beforehand. Default: 0.
    randomness : Randomness, optional
        Default: ``Randomness.secure()``.
    account : Account, optional
        An account of a ledger, debited before anything is drawn.

    Notes
    -----
    Each ranking passes through :class:`~peerveil.rankings.LocalReporter` by itself, and the order of the reports is
    drawn without looking at them: the guarantee is that of one report.

    Examples
    --------
    >>> from peerveil.core.randomness import Randomness
    >>> from peerveil.rankings import Mallows, aggregate_reports
    >>> votes = Mallows(20, 0.5).sample(500, seed=1)
    >>> randomized = randomize_rankings(votes, epsilon=1, randomness=Randomness.simulation(2))
    >>> print(randomized.summary())
    500 reports on rankings of 20 items (epsilon 1)
    >>> aggregate_reports(randomized).reject
    True
    """
    source = read_randomness(randomness)
    ballots = Ballots.of(rankings, columns=columns, layout=layout)
    reporter = LocalReporter(ballots.items, epsilon=epsilon, ask=ask, questions=questions, seed=public_seed)
    ballots.require_rows("a report")
    if account is not None:
        purpose = f"local reports on rankings of {ballots.items} items"
        account.spend(reporter.guarantee, purpose=purpose, data=ballots.data, randomness=source)
    reports = reporter.reports(ballots.rows("a report", source), randomness=source)
    return RandomizedRankings(
        guarantee=source.stamp(reporter.guarantee), protocol=reporter.protocol, reports=tuple(reports)
    )
