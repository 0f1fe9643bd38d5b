"""What a ledger shows: statement, JSON, table and CSV, and what it never shows."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import pytest

import peerveil.ledger
from peerveil.core.guarantee import Guarantee
from peerveil.core.randomness import Randomness
from peerveil.ledger import Account, Ledger

if TYPE_CHECKING:
    from collections.abc import Iterator

SCORE = "one review has another score"


def spend(account: Account, guarantee: Guarantee, purpose: str, data: str = "reviews") -> None:
    account.spend(guarantee, purpose=purpose, data=data, randomness=Randomness.secure())


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    with Ledger.open(ledger_url) as opened:
        account = opened.account("iclr", epsilon=1)
        review = Guarantee.pure_dp("0.1", unit="one review", neighbors=SCORE)
        person = Guarantee.local_dp("1/3")
        pair = Guarantee.one_sided_dp(1, gap=60, unit="a pair of posts", neighbors="the pair in the other order")
        spend(account, review, "=SUM(A1:A9)")
        spend(account, person, "answers, coded")
        spend(account, review, "means", data="reviews of 2027")
        spend(account, pair, "posting times")
        opened.account("kdd", epsilon=2)
        yield opened


def test_public_names() -> None:
    assert sorted(peerveil.ledger.__all__) == [
        "Account",
        "BudgetExceeded",
        "DataBound",
        "Entry",
        "Ledger",
        "LedgerError",
        "SimulationRefused",
        "Statement",
        "Subtotal",
        "Verification",
        "verify_export",
    ]


def test_a_statement_lists_each_unit_by_itself(ledger: Ledger) -> None:
    statement = ledger.account("iclr").statement()
    assert [(s.unit, s.releases, s.data_sets, s.epsilon) for s in statement.subtotals] == [
        ("one review", 2, 2, 0.2),
        ("everything one person reports", 1, 1, 0.33333333333333337),
        ("a pair of posts", 1, 1, None),
    ]
    assert statement.exact_spent == sum(s.exact_epsilon for s in statement.subtotals if s.exact_epsilon)
    lines = str(statement).splitlines()
    assert lines[0] == "Account 'iclr': epsilon 8/15 of 1 is spent, 7/15 remains."
    assert lines[1] == (f"- one review (pure DP; neighbors: {SCORE}): 2 releases, epsilon 0.2 together")
    assert "1 release, epsilon 1/3" in lines[2]
    assert "1 release recorded, nothing debited" in lines[3]
    assert "not bounded by it" in lines[4]
    assert str(ledger.account("kdd")) == "Account 'kdd': epsilon 0 of 2 is spent, 2 remains."
    assert json.dumps(statement.to_dict())


def test_json_is_exact_and_without_the_secret(ledger: Ledger) -> None:
    text = ledger.to_json(indent=2)
    data = json.loads(text)
    assert data == ledger.to_dict()
    assert data["ledger"] == ledger.id
    first, second = data["accounts"]
    assert (first["name"], first["epsilon"], first["spent"], first["remaining"]) == ("iclr", "1", "8/15", "7/15")
    assert [entry["debit"] for entry in first["entries"]] == ["1/10", "1/3", "1/10", "0"]
    assert Guarantee.from_dict(first["entries"][0]["guarantee"]).epsilon == 0.1
    assert second["entries"] == []
    assert ledger.account("iclr").to_dict() == first
    assert ledger._secret.hex() not in text.lower()
    assert "secret" not in text
    assert len(ledger._secret) == 32
    marks = [entry["fingerprint"] for entry in first["entries"]]
    assert marks[0] == marks[1] == marks[3] != marks[2]


def test_the_table(ledger: Ledger) -> None:
    rows = ledger.table()
    assert [row["entry"] for row in rows] == [1, 2, 3, 4]
    assert [row["remaining"] for row in rows] == ["0.9", "17/30", "7/15", "7/15"]
    assert [row["debited"] for row in rows] == ["0.1", "1/3", "0.1", "0"]
    assert [row["epsilon"] for row in rows] == ["0.1", "1/3", "0.1", "1"]
    assert ledger.table("kdd") == []
    assert ledger.table("iclr") == rows


def test_csv_cannot_be_run_by_a_spreadsheet(ledger: Ledger) -> None:
    rows = list(csv.DictReader(io.StringIO(ledger.to_csv())))
    assert [row["purpose"] for row in rows] == ["'=SUM(A1:A9)", "answers, coded", "means", "posting times"]
    assert list(rows[0]) == list(ledger.table()[0])
    assert ledger.to_csv("kdd").count("\n") == 1
