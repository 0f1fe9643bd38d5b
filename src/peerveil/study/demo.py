"""What ``make demo`` does: a synthetic conference through every module, as a study, into one report.

Nobody in it exists, but everything else is real: the study file, the ledger, the noise, the folder with what may be
published. ``study/`` holds what a user would have (data, last year's data, the study), ``result/`` what `peerveil run`
makes of it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from peerveil.core.errors import BadInput
from peerveil.core.files import write_text
from peerveil.data import SyntheticConference, synthetic_conference
from peerveil.ledger import BudgetExceeded
from peerveil.study import run_study
from peerveil.study.report import make_page
from peerveil.timing import choose_gap

_MARKER: Final = "made-by-peerveil-demo.txt"
_WINDOW: Final = 300
_STUDY: Final = """# What `make demo` runs. Change it and run `peerveil run {file} --out somewhere-else`.

[study]
title = "A synthetic conference: {papers} papers, {reviewers} reviewers"

[accounts.chairs]
epsilon = 3                  # for the reviews, for good
[accounts.crowd]
epsilon = 3                  # for this year's rankings and crowd answers

[data.reviews]
path = "data/reviews.csv"
[data.events]
path = "data/events.csv"
[data.rankings]
path = "data/rankings.csv"
kind = "rankings"
[data.answers]
path = "data/labels.csv"
[data.last-year]
path = "last-year/reviews.csv"

# Publish how strict reviewers were last year, when each wrote more reviews, without saying who wrote what.
[[steps]]
action = "release.publish"
name = "how-strict"
data = "last-year"
account = "chairs"
epsilon = 2
weight = "miscalibration"
scale = [1, 10]

# How exposed are people by when they post? For the operator alone.
[[steps]]
action = "timing.audit"
name = "exposure"
data = "events"
percentile = 25

# What the public sees if posts are delayed; the gap was taken from last year's log.
[[steps]]
action = "timing.post"
name = "delayed-posts"
data = "events"
account = "chairs"
epsilon = 1
gap = "{gap:.0f}s"

# Accept the better quarter, correcting for strictness learned last year.
[[steps]]
action = "calibration.decide"
name = "decisions"
data = "reviews"
account = "chairs"
history = ["last-year"]
adversary_error = 0.4
capped = true                # where the scores of a review leave less, as far as they allow
accept = {accept}
group_size = 6               # papers whose committees could have been exchanged

# Every reviewer put the same ten papers in order: which ones do they prefer?
[[steps]]
action = "rankings.consensus"
name = "favorites"
data = "rankings"
account = "crowd"
epsilon = 0.5

# A question about every paper, each asked to fifteen people of a crowd; each answer is randomized before it is sent.
[[steps]]
action = "truth.randomize"
name = "crowd-answers"
data = "answers"
account = "crowd"
epsilon = 2
classes = [0, 1]

# Privacy audit: mechanisms against their claims, and deliberately broken mechanisms.
[[steps]]
action = "audit.run"
name = "privacy-audit"
samples = {samples}
"""


@dataclass(frozen=True)
class Demo:
    """Where the demo wrote what, what it spent, and what happened when it tried to spend more than there was."""

    report: Path
    study: Path
    result: Path
    spent: str
    refusal: str


def run_demo(
    folder: str | Path,
    *,
    papers: int = 600,
    reviewers: int = 1800,
    seed: int = 2026,
    samples: int = 500,
    on_step: Callable[[int, int, str], None] | None = None,
) -> Demo:
    """Create a synthetic conference, write a study about it, run it, and try to spend too much.

    ``on_step`` is called as by :func:`~peerveil.study.run_study`.
    """
    target = Path(folder)
    people: dict[str, Any] = {"reviews_per_paper": 6, "bias": 0.5, "stretch": 0.1, "noise": 1.0, "people_seed": seed}
    now = synthetic_conference(papers, reviewers, seed=seed, **people)
    past = synthetic_conference(papers * 2, reviewers, seed=seed + 1, **people)
    crowd = synthetic_conference(
        papers, max(20, papers // 4), 1, tasks=papers, answers_per_task=15, ability=(0.6, 0.95), seed=seed
    )
    home = _own_folder(target) / "study"
    now.write(home / "data")
    crowd.labels.write(home / "data" / "labels.csv")
    past.write(home / "last-year")
    file = write_text(home / "study.toml", _study(now, past, samples))
    done = run_study(file, target / "result", progress=False if on_step else None, on_step=on_step)
    page = make_page(done.checked, done.outcomes, done.costs, public=False, public_page="result/public/report.html")
    report = page.write(target / "report.html", private=True)
    try:
        run_study(file, target / "again")
        refusal = "nothing was refused"  # pragma: no cover
    except BudgetExceeded as error:
        refusal = str(error)
    spent = ", ".join(f"epsilon {cost.row()[3]} of {cost.row()[1]} from {cost.account}" for cost in done.costs)
    return Demo(report, file, done.folder, spent, refusal)


def _study(now: SyntheticConference, past: SyntheticConference, samples: int) -> str:
    papers = now.reviews.frame["paper"].n_unique()
    return _STUDY.format(
        file="study.toml",
        papers=f"{papers:,}",
        reviewers=f"{now.reviews.frame['reviewer'].n_unique():,}",
        gap=choose_gap(past.events, percentile=25, window=_WINDOW),
        accept=max(1, papers // 4),
        samples=samples,
    )


def _own_folder(target: Path) -> Path:
    """A folder that is the demo's to overwrite: new, empty, or left by an earlier demo. Anything else is refused."""
    marker = target / _MARKER
    if target.exists() and not (target.is_dir() and (marker.exists() or not any(target.iterdir()))):
        raise BadInput("--out", got=str(target), want="a new or empty folder, or one that an earlier demo wrote")
    write_text(marker, "Written by `peerveil demo`, which may overwrite everything in this folder.\n")
    for name in ("study", "result", "again"):  # the demo's own budget begins anew each time
        shutil.rmtree(target / name, ignore_errors=True)
    return target
