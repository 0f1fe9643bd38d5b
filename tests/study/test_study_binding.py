"""One data set, one account: a study is refused as a whole, before its first step spends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.study.helpers import DECIDE, PAST, means, write_past, write_study

from peerveil.core.errors import BadInput
from peerveil.ledger import DataBound, Ledger
from peerveil.study import run_study

if TYPE_CHECKING:
    from pathlib import Path

OTHER = """
[accounts.other]
epsilon = 3
"""


def other(step: str) -> str:
    return step.replace('account = "chairs"', 'account = "other"')


def test_the_same_data_from_two_accounts(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"steps.*account.*'other'.*account 'chairs'"):
        run_study(write_study(tmp_path, OTHER, means(), other(means(more='name = "again"'))), tmp_path / "one")
    run_study(write_study(tmp_path, means()), tmp_path / "out")
    copy = tmp_path / "data" / "copy.csv"
    copy.write_bytes((tmp_path / "data" / "reviews.csv").read_bytes())
    again = write_study(tmp_path, OTHER, other(means()), name="again.toml")
    again.write_text(again.read_text().replace("data/reviews.csv", "data/copy.csv"))
    with pytest.raises(DataBound, match="belong to account 'chairs'"):
        run_study(again, tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_second_decision_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    write_past(tmp_path)
    run_study(write_study(tmp_path, PAST, DECIDE), tmp_path / "out")
    run_study(tmp_path / "study.toml", tmp_path / "out")  # a run that is done may be opened again
    twice = write_study(tmp_path, PAST, means(), DECIDE, name="twice.toml")
    with pytest.raises(DataBound, match="these data were decided on"):
        run_study(twice, tmp_path / "twice")
    with Ledger.open(tmp_path / "peerveil-ledger.db") as book:
        assert [entry.debit for entry in book.account("chairs").entries()] == [0]
    both = write_study(tmp_path, PAST, DECIDE, DECIDE + '\nname = "once-more"\n', name="both.toml")
    with pytest.raises(BadInput, match="a second decision"):
        run_study(both, tmp_path / "both")
