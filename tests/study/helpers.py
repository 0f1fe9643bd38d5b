"""Studies to try things on."""

from __future__ import annotations

from pathlib import Path

from peerveil.data import synthetic_conference

TITLE = "How strict are we?"
MEANS = """
[[steps]]
action = "release.publish"
data = "reviews"
account = "chairs"
epsilon = {epsilon}
weight = "{weight}"
scale = [1, 10]
{more}
"""
AUDIT = """
[[steps]]
action = "timing.audit"
data = "events"
percentile = 25
epsilons = [1]
"""


def means(epsilon: object = 1, weight: str = "rating", more: str = "") -> str:
    return MEANS.format(epsilon=epsilon, weight=weight, more=more)


def write_study(folder: Path, *steps: str, budget: object = 3, extra: str = "", name: str = "study.toml") -> Path:
    """A study beside a small conference."""
    if not (folder / "data").exists():
        synthetic_conference(30, 20, seed=4).write(folder / "data")
    head = f"""
[study]
title = "{TITLE}"
{extra}
[accounts.chairs]
epsilon = {budget}
[data.reviews]
path = "data/reviews.csv"
[data.events]
path = "data/events.csv"
kind = "events"
"""
    file = folder / name
    file.write_text(head + "".join(steps), encoding="utf-8")
    return file


PAST = """
[data.past]
path = "past/reviews.csv"
"""
DECIDE = """
[[steps]]
action = "calibration.decide"
data = "reviews"
account = "chairs"
history = ["past"]
adversary_error = 0.4
capped = true
accept = 8
iterations = 600
"""


def write_past(folder: Path) -> None:
    """Last year's conference of the same people."""
    synthetic_conference(60, 20, seed=5, people_seed=4).write(folder / "past")
