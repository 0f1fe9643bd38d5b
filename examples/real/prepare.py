"""Lay out the data of the example study of real data: ``python examples/real/prepare.py FOLDER``.

The repository holds three public sources (licenses in the README files beside them): review scores of one conference without
reviewers, one day of Wikipedia edits, and seven sets of crowd answers. ``--data`` takes another folder with files of the same
names.

What is synthetic: who wrote which review (drawn by lot, about 4 reviews each, since that is not public). Everything else is as
it was found.
"""

from __future__ import annotations

import argparse
import shutil
import tomllib
from datetime import timedelta
from pathlib import Path

import numpy as np
import polars as pl

from peerveil.data import Events
from peerveil.data.synthetic import balanced_assignment
from peerveil.timing import choose_gap

ROOT = Path(__file__).parents[2]
PLACES = (ROOT / "tests/release/data", ROOT / "tests/timing/data", ROOT / "src/peerveil/papers/reproduce/data")
CRITERIA = ("soundness", "presentation", "contribution")
HISTORY = 6  # hours, from which the gap is chosen
SEED = 2026


def find(name: str, places: tuple[Path, ...]) -> Path:
    """A file in the first folder that has it."""
    for place in places:
        if (place / name).is_file():
            return place / name
    raise SystemExit(f"{name} is in none of {', '.join(map(str, places))}")


def reviews(source: Path, out: Path, papers: int | None) -> None:
    """All reviews with synthetic reviewers; a part of them as "now" and "past" for the decisions; rankings of the criteria."""
    frame = pl.read_csv(source).rename({"rating": "score"})
    if papers is not None:
        frame = frame.filter(pl.col("paper") < papers)
    frame = frame.sort("paper")
    demand = frame["paper"].value_counts().sort("paper")["count"].to_numpy()
    rng = np.random.default_rng(SEED)
    _, person = balanced_assignment(demand, max(int(demand.max()), frame.height // 4), rng)
    frame.with_columns(reviewer=pl.Series(person)).select("paper", "reviewer", "score", *CRITERIA).write_csv(
        out / "reviews.csv"
    )
    known = frame["paper"].unique().sort()
    for name, chosen in (("past", known[:240]), ("now", known[240:320])):
        part = frame.filter(pl.col("paper").is_in(chosen.implode())).sort("paper")
        wanted = part["paper"].value_counts().sort("paper")["count"].to_numpy()
        _, who = balanced_assignment(wanted, 60, rng)
        part.with_columns(reviewer=pl.Series(who)).select("paper", "reviewer", "score").write_csv(out / f"{name}.csv")
    # every review puts three criteria in order, ties and all: rank 1 is the best
    ranked = frame.select(*CRITERIA).drop_nulls()
    marks = ranked.to_numpy()
    ranks = (marks[:, :, None] < marks[:, None, :]).sum(axis=2) + 1
    pl.DataFrame({name: ranks[:, i] for i, name in enumerate(CRITERIA)}).write_csv(out / "criteria-rankings.csv")


def edits(source: Path, out: Path) -> float:
    """The first hours as history, the rest as the log to be posted; the gap that covers a quarter of history, in seconds."""
    log = Events.read(source, columns={"actor": "user", "thread": "page"})
    frame = log.frame
    early = frame["time"] < frame["time"][0] + timedelta(hours=HISTORY)
    for name, part in (("edits-early", frame.filter(early)), ("edits", frame.filter(~early))):
        part.select("time", "actor", "thread").write_csv(out / f"{name}.csv")
    return choose_gap(Events.from_frame(frame.filter(early)), percentile=25, window=300)


def main() -> None:
    """Write everything into a folder, with the study beside it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, help="a folder with the nine files; the repository's own if left out")
    parser.add_argument("--papers", type=int, help="only the first papers, for a quick look")
    options = parser.parse_args()
    places = (options.data,) if options.data else PLACES
    out = options.folder / "data"
    out.mkdir(parents=True, exist_ok=True)
    reviews(find("iclr2026_review_scores.csv.gz", places), out, options.papers)
    gap = edits(find("wikipedia_edits_2015_09_12.csv.gz", places), out)
    study = Path(__file__).parent / "study.toml"
    for file in tomllib.loads(study.read_text(encoding="utf-8"))["data"].values():
        path = options.folder / file["path"]
        if not path.exists():
            shutil.copy(find(path.name, places), path)
    shutil.copy(study, options.folder / "study.toml")
    print(f"gap from the first {HISTORY} hours of edits: {gap / 60:.1f} minutes (study.toml says 11m)")
    print(f"now: peerveil run {options.folder / 'study.toml'}")


if __name__ == "__main__":
    main()
