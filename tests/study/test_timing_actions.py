"""The actions of the timing module in a study: what is entered, what is published, and what is refused beforehand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from peerveil.core.errors import BadInput
from peerveil.data import synthetic_conference
from peerveil.ledger import Ledger
from peerveil.study import Study, check_study, run_study
from peerveil.study.timing import AuditLog, PostLog

if TYPE_CHECKING:
    from pathlib import Path

LOG = synthetic_conference(30, 20, seed=4).events
HEAD = """
[study]
title = "Posts"
[accounts.main]
epsilon = 3
[data.log]
path = "log.csv"
"""
STEP = '[[steps]]\naction = "timing.{}"\ndata = "log"\n'
POST = STEP.format("post") + 'account = "main"\n'


def study(folder: Path, *steps: str) -> Path:
    LOG.write(folder / "log.csv")
    (folder / "study.toml").write_text(HEAD + "".join(steps), encoding="utf-8")
    return folder / "study.toml"


def test_posting_is_entered_and_only_posts_are_published(tmp_path: Path) -> None:
    audit = STEP.format("audit") + "percentile = 25\nepsilons = [1]\n"
    plan = STEP.format("plan") + 'percentile = 25\nper = "thread"\n'
    done = run_study(study(tmp_path, audit, plan, f'{POST}gap = "45m"\n'), tmp_path / "out", progress=False)
    with Ledger.open(tmp_path / "peerveil-ledger.db", create=False) as book:
        (entry,) = book.account("main").entries()
        assert entry.guarantee.epsilon == 1
        assert book.account("main").remaining == 3  # a pair's guarantee does not add up to a budget
    out = tmp_path / "out"
    public = {path.relative_to(out / "public").as_posix() for path in out.rglob("public/*/*")}
    assert public == {"timing-post/posted.csv", "timing-post/figure-1.svg"}
    private = {path.relative_to(out / "private").as_posix() for path in out.rglob("private/*/*")}
    assert {"timing-audit/audit.html", "timing-plan/gaps.csv", "timing-post/schedule.csv"} <= private
    posted = done.outcomes["timing-post"]
    assert "delay mean" not in " ".join(map(str, [posted.public.answer, *posted.public.findings, *posted.attack]))
    assert done.outcomes["timing-audit"].public.answer == ""


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (POST, r"steps\[1\].gap: got nothing"),
        (f"{POST}gap = 45\n", "with its unit"),
        (f'{POST}gap = "45m"\ngaps = "gaps.csv"\n', r"steps\[1\].gaps: .*a file that exists"),
        (STEP.format("post") + 'gap = "45m"\n', r"steps\[1\].account"),
        (STEP.format("audit") + 'engine = "duckdb"\npercentile = 25\n', "draws no delays"),
        (STEP.format("audit") + 'windows = "5m"\n', "'window'"),
        (STEP.format("plan") + "crossover = 0.4\n", "no gap does more"),
        (STEP.format("plan") + 'per = "track"\n', "track"),
    ],
)
def test_what_could_not_be_run_is_refused_before_anything_is_drawn(step: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=message):
        check_study(Study.read(study(tmp_path, step)))
    assert not (tmp_path / "peerveil-ledger.db").exists()


def test_a_new_study_proposes_an_audit_and_shows_how_to_post() -> None:
    audit, post = AuditLog.suggest(LOG), PostLog.suggest(LOG)
    assert not audit.commented
    assert AuditLog.check(dict(audit.settings), strict=True) == AuditLog()
    assert post.commented
    assert PostLog.check(dict(post.settings), strict=True).gap == 2700
