"""What a decided conference hands out: for everybody the decisions, for the chair alone who is protected how well."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.errors import BadInput
from peerveil.files import write_text
from peerveil.result import Pictured, Result

if TYPE_CHECKING:
    import os

    import polars as pl
    from matplotlib.axes import Axes

_CHAIR_NOTE = "Names reviewers: for the chair alone. What may be published is in ../public.\n"
_PUBLIC_NOTE = "May be published: decisions, and what is promised about them. Names no reviewer.\n"


@dataclass(frozen=True, kw_only=True)
class ConferenceDecision(Result):
    """Decisions for every paper. ``decisions`` may be published; ``chair`` must not.

    Attributes
    ----------
    decisions : polars.DataFrame
        ``paper``, ``accepted``: for everybody.
    chair : polars.DataFrame
        A row a review: ``group``, ``paper``, ``reviewer``, ``settled``, ``adversary_error``, ``from_scores``. It
        names reviewers: for the chair alone.
    conference_error, least_error : float
        The expected share of papers on the wrong side of the line, and what it would be without privacy.
    asked : float
        The adversary error that was asked for.
    line : float
        The quality from which papers are to be accepted.
    """

    decisions: pl.DataFrame
    chair: pl.DataFrame = field(repr=False)
    conference_error: float
    least_error: float
    asked: float
    line: float

    @property
    def named(self) -> float:
        """The share of writers that the adversary is expected to name right after the decisions."""
        return 1.0 - float(np.mean(self.chair["adversary_error"].to_numpy()))

    @property
    def named_from_scores(self) -> float:
        """The same from the published scores alone."""
        return 1.0 - float(np.mean(self.chair["from_scores"].to_numpy()))

    def summary(self) -> str:
        """How many are accepted, what is settled, what it costs, what an adversary can still guess."""
        accepted, papers = int(self.decisions["accepted"].sum()), self.decisions.height
        settled = self.chair.unique("paper")["settled"].sum()
        met = int((self.chair["adversary_error"] >= self.asked - 1e-9).sum())
        return (
            f"{accepted} of {papers} papers accepted, line at quality {self.line:.3g}; {settled} settled whoever "
            f"reviewed them; expected share of papers on the wrong side {self.conference_error:.4f} "
            f"(without privacy {self.least_error:.4f}); {met} of {self.chair.height} reviews protected as asked, the "
            f"others as far as their scores allow; the best adversary names {100 * self.named:.1f}% of the writers "
            f"({100 * self.named_from_scores:.1f}% from scores alone)"
        )

    def to_dict(self) -> dict[str, Any]:
        """What may be published, and nothing else: the chair's table is left out on purpose."""
        return {
            "may_be_published": True,
            "decisions": self.decisions.to_dicts(),
            "line": self.line,
            "conference_error": self.conference_error,
            "guarantee": self.guarantee.to_dict(),
            "guarantee_in_words": str(self.guarantee),
            "mark": self.mark,
        }

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """``public/`` may be published; ``chair/`` must stay with the chair (readable by its owner alone)."""
        where = Path(folder)
        if where.exists() and not where.is_dir():
            raise BadInput("folder", got=str(where), want="a folder, not a file")
        mark = f"# {self.mark}\n" if self.mark else ""
        write_text(where / "public" / "README", mark + _PUBLIC_NOTE)
        write_text(where / "public" / "decisions.csv", mark + self.decisions.write_csv())
        write_text(where / "public" / "decisions.json", json.dumps(self.to_dict(), indent=2, allow_nan=False))
        secret = where / "chair"
        secret.mkdir(parents=True, exist_ok=True, mode=0o700)
        secret.chmod(0o700)
        sheet = {"may_be_published": False, "summary": self.summary(), "reviews": self.chair.to_dicts()}
        for name, text in (
            ("README", _CHAIR_NOTE),
            ("sheet.csv", self.chair.write_csv()),
            ("sheet.json", json.dumps(sheet, indent=2, allow_nan=False)),
        ):
            write_text(secret / name, text, private=True)
        return where

    def draw(self, ax: Axes) -> None:
        """How well reviews are protected, sorted, against what the scores alone leave."""
        from peerveil.calibration.figures import draw_conference

        draw_conference(ax, self)


@dataclass(frozen=True, slots=True)
class Tradeoff(Pictured):
    """What protection costs a whole conference. Computed from what is public.

    Attributes
    ----------
    asked : array
        Adversary errors that are asked for.
    conference_error : array
        The expected share of papers on the wrong side of the line.
    adversary_error : array
        The share of writers that the best adversary is expected to miss.
    groups : int
        Over how many of the groups this was computed, and
    of : int
        of how many.
    """

    asked: np.ndarray[Any, np.dtype[np.float64]]
    conference_error: np.ndarray[Any, np.dtype[np.float64]]
    adversary_error: np.ndarray[Any, np.dtype[np.float64]]
    groups: int
    of: int

    def summary(self) -> str:
        """Both ends in one line."""
        if float(np.ptp(self.conference_error)) < 1e-9 and float(np.ptp(self.adversary_error)) < 1e-9:
            return (
                f"nothing to trade: conference error {self.conference_error[0]:.4f}, adversary misses "
                f"{100 * self.adversary_error[0]:.1f}% of writers whatever is asked"
            )
        sampled = "" if self.groups == self.of else f" (estimated from {self.groups} of {self.of} groups)"
        return (
            f"asking {self.asked[0]:g}: conference error {self.conference_error[0]:.4f}, adversary misses "
            f"{100 * self.adversary_error[0]:.1f}% of writers; asking {self.asked[-1]:g}: "
            f"{self.conference_error[-1]:.4f}, {100 * self.adversary_error[-1]:.1f}%{sampled}"
        )

    def __str__(self) -> str:
        return self.summary()

    def draw(self, ax: Axes) -> None:
        """Share of writers missed against the conference's error, a point for everything asked."""
        from peerveil.calibration.figures import draw_tradeoff

        draw_tradeoff(ax, self)
