"""The attack: the same data once more, under another account. The first spend binds data to an account for good."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from sqlalchemy.exc import DatabaseError
from tests.ledger.test_ledger_processes import SPENDER
from tests.ledger.test_ledger_verify import tamper

from peerveil.core.guarantee import Guarantee
from peerveil.core.randomness import Randomness
from peerveil.data import Events, Labels, Rankings, Reviews, synthetic_conference
from peerveil.ledger import DataBound, Ledger, LedgerError, verify_export
from peerveil.rankings import uniformity_test
from peerveil.release import publish
from peerveil.timing import FollowUp, post
from peerveil.truth import randomize_answers

if TYPE_CHECKING:
    from pathlib import Path

CONFERENCE = synthetic_conference(40, 30, seed=3)
FRAME = CONFERENCE.reviews.frame.select("paper", "reviewer", "score")
SECURE = Randomness.secure()
PROMISE = Guarantee.pure_dp(1, unit="one review", neighbors="one review has another score")
DECISION = Guarantee.map_error(0.4, unit="the writer of one review", neighbors="every exchange of committees")


def spend(ledger: Ledger, account: str, data: Any, promise: Guarantee = PROMISE) -> None:
    ledger.account(account).spend(promise, purpose="a release", data=data, randomness=SECURE)


@pytest.fixture
def ledger(ledger_url: str) -> Any:
    with Ledger.open(ledger_url) as opened:
        for name in ("first", "second"):
            opened.account(name, epsilon=5)
        yield opened


def disguises(folder: Path) -> dict[str, Any]:
    """The same reviews in every form that a second upload could have."""
    shuffled = FRAME.sample(fraction=1, shuffle=True, seed=1)
    shuffled.write_csv(folder / "other name.csv")
    FRAME.write_parquet(folder / "reviews.parquet")
    FRAME.with_columns(pl.col("paper").cast(pl.String)).write_parquet(folder / "text.parquet")
    FRAME.with_columns(confidence=pl.int_range(pl.len()) % 5).write_csv(folder / "added.csv")
    FRAME.select("score", "reviewer", "paper").write_ndjson(folder / "reviews.jsonl")
    FRAME.rename({"paper": "submission"}).write_csv(folder / "renamed.csv")
    FRAME.write_csv(folder / "points.csv", separator=";", float_precision=3)
    names = {"task": "paper", "worker": "reviewer", "label": "score"}
    return {
        "rows in another order, file renamed": Reviews.read(folder / "other name.csv"),
        "parquet": Reviews.read(folder / "reviews.parquet"),
        "ids as text": Reviews.read(folder / "text.parquet"),
        "a column more": Reviews.read(folder / "added.csv"),
        "json lines, columns in another order": Reviews.read(folder / "reviews.jsonl"),
        "a column renamed": Reviews.read(folder / "renamed.csv", columns={"paper": "submission"}),
        "another separator, scores with decimals": Reviews.read(folder / "points.csv"),
        "read as labels": Labels.read(folder / "other name.csv", columns=names),
    }


def test_no_disguise_opens_a_second_account(ledger: Ledger, tmp_path: Path) -> None:
    publish(CONFERENCE.reviews, epsilon=2, scale=(1, 10), account=ledger.account("first"))
    for name, table in disguises(tmp_path).items():
        with pytest.raises(DataBound, match="belong to account 'first'.*Spend from account 'first'") as refusal:
            spend(ledger, "second", table)
        assert (refusal.value.account, refusal.value.owner) == ("second", "first"), name
        spend(ledger, "first", table, Guarantee.pure_dp("1/10", unit="one review", neighbors="another score"))
    assert ledger.account("second").entries() == []
    assert len({entry.fingerprint for entry in ledger.account("first").entries()}) == 1
    assert pickle.loads(pickle.dumps(refusal.value)).owner == "first"


def test_other_data_may_have_other_accounts(ledger: Ledger) -> None:
    """What binding cannot see, as the documentation says: one changed score is another data set."""
    spend(ledger, "first", CONFERENCE.reviews)
    spend(ledger, "second", CONFERENCE.labels)
    edited = FRAME.with_columns(
        score=pl.when(pl.int_range(pl.len()) == 0).then(11 - pl.col("score")).otherwise("score")
    )
    spend(ledger, "second", Reviews.from_frame(edited))
    assert ledger.verify().ok


@pytest.mark.parametrize("kind", ["release", "rankings", "truth", "timing"])
def test_every_kind_of_release_is_bound(ledger: Ledger, kind: str) -> None:
    ranks = np.argsort(np.random.default_rng(2).random((60, 4)), axis=1)

    def once(name: str, second: bool) -> None:
        account = ledger.account(name)
        if kind == "release":
            publish(CONFERENCE.reviews, epsilon=1, scale=(1, 10), account=account)
        elif kind == "rankings":
            # an array, and a table of the same rankings in another order
            uniformity_test(Rankings(ranks[::-1]) if second else ranks, epsilon=1, account=account)
        elif kind == "truth":
            randomize_answers(CONFERENCE.labels, epsilon=1, classes=[0, 1], account=account)
        else:
            events = CONFERENCE.events
            later = Events.from_frame(events.frame.sample(fraction=1, shuffle=True, seed=1)) if second else events
            post(later, mechanism=FollowUp(epsilon=1, gap=600, window=60), account=account)

    once("first", second=False)
    with pytest.raises(DataBound, match="'first'"):
        once("second", second=True)
    once("first", second=True)
    assert len({entry.fingerprint for entry in ledger.account("first").entries()}) == 1


def test_rankings_are_known_in_every_form(tmp_path: Path) -> None:
    ranks = np.argsort(np.random.default_rng(5).random((80, 5)), axis=1).astype(np.int16)
    items = ["tea", "milk", "juice", "wine", "water"]
    table = Rankings(ranks, items=items)
    order = [3, 1, 4, 0, 2]
    assert Rankings(ranks[::-1][:, order], items=[items[i] for i in order]).identity == table.identity
    doubled = Rankings(np.concatenate([ranks, ranks]), items=items)
    assert Rankings(ranks, counts=[2] * 80, items=items).identity == doubled.identity != table.identity
    table.write(tmp_path / "votes.soc")
    table.write(tmp_path / "votes.csv")
    with Ledger.open(tmp_path / "l.db") as ledger:
        account = ledger.account("a", epsilon=9)
        for path in ("votes.soc", "votes.csv"):
            uniformity_test(tmp_path / path, epsilon=1, account=account)
        marks = {entry.fingerprint for entry in account.entries()}
        pieces = iter([ranks[:30], ranks[30:]])
        uniformity_test(pieces, epsilon=1, account=account)
        uniformity_test(ranks[::-1], epsilon=1, account=account)
        assert len(marks) == 1
        assert len({entry.fingerprint for entry in account.entries()[2:]}) == 1
    swapped = ranks.copy()
    swapped[0, [0, 1]] = swapped[0, [1, 0]]
    assert Rankings(swapped, items=items).identity != table.identity


# ---- decisions -----------------------------------------------------------------------------------------------------


def test_a_second_decision_of_the_same_data_is_refused(ledger: Ledger) -> None:
    decided = ledger.account("first")
    decided.spend(DECISION, purpose="decisions", data=CONFERENCE.reviews, randomness=SECURE, key="run 1/decide")
    for account in ("first", "second"):
        with pytest.raises(DataBound, match="nothing was" if account == "first" else "belong to"):
            spend(ledger, account, CONFERENCE.reviews, DECISION)
    spend(ledger, "first", CONFERENCE.reviews)  # another kind of release is debited as ever
    assert [entry.debit for entry in ledger.account("first").entries()] == [0, 1]
    with pytest.raises(DataBound, match="decided"):
        ledger.require_free("first", CONFERENCE.reviews, once=True)
    ledger.require_free("first", CONFERENCE.reviews, once=True, key="run 1/decide")
    with pytest.raises(DataBound, match="decided"):
        ledger.require_free("first", CONFERENCE.reviews, once=True, key="run 1")
    ledger.require_free("third", CONFERENCE.labels, once=True)


# ---- the ledger itself ---------------------------------------------------------------------------------------------


def test_of_eight_processes_with_accounts_of_their_own_one_gets_the_data(ledger_url: str) -> None:
    with Ledger.open(ledger_url) as ledger:
        for number in range(8):
            ledger.account(f"account {number}", epsilon=20)
    command = [sys.executable, str(SPENDER), "claim", ledger_url, "12"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    owned = {one["name"]: one["owned"] for one in json.loads(done.stdout)}
    assert sorted(data for own in owned.values() for data in own) == list(range(12))
    with Ledger.open(ledger_url) as ledger:
        assert ledger.verify().ok
        assert {account.name: len(account) for account in ledger.accounts()} == {
            n: len(own) for n, own in owned.items()
        }


def test_a_moved_or_forgotten_binding_is_noticed(ledger: Ledger) -> None:
    spend(ledger, "first", "reviews")
    spend(ledger, "second", "answers")
    assert ledger.verify().ok
    with pytest.raises((LedgerError, DatabaseError)):
        tamper(ledger, "DELETE FROM peerveil_bindings", belt=True)
    for statement, noticed in (
        (
            "UPDATE peerveil_bindings SET account = 2 WHERE account = 1",
            "to account 'second', its entries to account 'first'",
        ),
        ("DELETE FROM peerveil_bindings WHERE account = 2", "its entries to account"),
        ("INSERT INTO peerveil_bindings VALUES ('00', 1)", "data 00..."),
    ):
        tamper(ledger, statement)
        assert noticed in str(ledger.verify()), statement
    mark = ledger.account("first").entries()[0].fingerprint
    tamper(ledger, "DELETE FROM peerveil_bindings", f"INSERT INTO peerveil_bindings VALUES ('{mark}', 2)")
    spend(ledger, "second", "reviews")  # whoever forges the binding can spend ...
    problems = "\n".join(ledger.verify().problems)
    assert "account 'second', entry 2 spends on data of account 'first'" in problems  # ... and is seen
    export = json.loads(ledger.to_json())
    assert any("data of account 'first'" in problem for problem in verify_export(export).problems)


def test_statement_and_export_show_the_binding(ledger: Ledger) -> None:
    spend(ledger, "first", "reviews")
    spend(ledger, "first", "answers")
    spend(ledger, "second", "votes")
    assert "2 data sets belong to this account" in str(ledger.account("first").statement())
    assert "1 data set belongs to this account" in str(ledger.account("second"))
    data = ledger.to_dict()
    assert [len(account["data"]) for account in data["accounts"]] == [2, 1]
    data["accounts"][0]["data"].pop()
    assert "data sets listed" in str(verify_export(data))
