"""What a spend takes, refuses and returns, on both databases."""

from __future__ import annotations

import dataclasses
import pickle
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from peerveil.core.errors import BadInput
from peerveil.core.guarantee import Guarantee, Notion
from peerveil.core.randomness import Randomness
from peerveil.core.randomness.source import SecureRandomness
from peerveil.ledger import BudgetExceeded, Ledger, LedgerError, SimulationRefused, records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from peerveil.ledger import Account, Entry

SECURE = Randomness.secure()
SCORE = "one review has another score"


def pure(epsilon: Any, unit: str = "one review") -> Guarantee:
    return Guarantee.pure_dp(epsilon, unit=unit, neighbors=SCORE)


def spend(account: Account, epsilon: Any, purpose: str = "mean", data: Any = "reviews") -> Entry:
    return account.spend(pure(epsilon), purpose=purpose, data=data, randomness=SECURE)


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    with Ledger.open(ledger_url) as opened:
        yield opened


def test_ten_tenths_exhaust_one_exactly(ledger: Ledger) -> None:
    account = ledger.account("iclr", epsilon=1)
    for i in range(10):
        assert spend(account, 0.1).serial == i + 1
    assert (account.spent, account.remaining) == (1.0, 0.0)
    assert account.exact_remaining == 0
    with pytest.raises(BudgetExceeded) as refusal:
        spend(account, 1e-300)
    assert str(refusal.value) == "account 'iclr': requested 1e-300, remaining 0, 1e-300 too much; nothing was spent"
    assert len(account.entries()) == len(account) == 10
    assert ledger.verify().ok


def test_a_refusal_says_requested_remaining_and_difference_and_can_be_pickled(ledger: Ledger) -> None:
    account = ledger.account("iclr", epsilon=0.8)
    spend(account, 0.5)
    with pytest.raises(BudgetExceeded) as refusal:
        spend(account, 0.5)
    for error in (refusal.value, pickle.loads(pickle.dumps(refusal.value))):
        assert (error.account, error.requested, error.remaining, error.difference) == ("iclr", 0.5, 0.3, 0.2)
        assert error.exact_difference == Fraction(1, 5)
        assert str(error) == "account 'iclr': requested 0.5, remaining 0.3, 0.2 too much; nothing was spent"
    assert account.remaining == 0.3


def test_floats_are_rounded_to_the_safe_side(ledger: Ledger) -> None:
    account = ledger.account("thirds", epsilon=1)
    spend(account, "1/3")
    assert account.exact_spent == Fraction(1, 3)
    assert Fraction(repr(account.spent)) > Fraction(1, 3)
    assert Fraction(repr(account.remaining)) < Fraction(2, 3)
    with pytest.raises(BudgetExceeded) as refusal:
        spend(account, Fraction(2, 3) + Fraction(1, 10**30))
    assert Fraction(repr(refusal.value.remaining)) < Fraction(2, 3) < Fraction(repr(refusal.value.requested))
    spend(account, "2/3")
    assert account.exact_remaining == 0


def test_a_receipt_holds_everything_and_is_frozen(ledger: Ledger) -> None:
    account = ledger.account("iclr", epsilon=1)
    receipt = spend(account, 0.25, purpose="mean per area")
    assert (receipt.account, receipt.serial, receipt.purpose) == ("iclr", 1, "mean per area")
    assert (receipt.notion, receipt.epsilon, receipt.debit, receipt.debited) == (Notion.PURE_DP, 0.25, 0.25, True)
    assert receipt.guarantee == pure(0.25)
    assert receipt.words == str(pure(0.25))
    assert (receipt.lane, len(receipt.fingerprint), len(receipt.digest)) == ("secure", 64, 64)
    assert receipt.library
    offset = receipt.when.utcoffset()
    assert offset is not None
    assert offset.total_seconds() == 0
    assert account.entries() == [receipt]
    assert type(receipt).from_dict(receipt.to_dict()) == receipt
    assert "mean per area (epsilon 0.25 debited)" in str(receipt)
    with pytest.raises(dataclasses.FrozenInstanceError):
        receipt.serial = 2  # type: ignore[misc]
    assert account.head == receipt.head == f"1:{receipt.digest}"


def test_notions_that_do_not_add_up_are_recorded_without_debit(ledger: Ledger) -> None:
    account = ledger.account("iclr", epsilon=1)
    spend(account, 1)
    one_sided = Guarantee.one_sided_dp(5, gap=60, unit="a pair of posts", neighbors="the pair in the other order")
    guess = Guarantee.map_error(0.3, unit="the author", neighbors="any two authors")
    for promise in (one_sided, guess):
        receipt = account.spend(promise, purpose="posting times", data="events", randomness=SECURE)
        assert (receipt.debited, receipt.debit, receipt.exact_epsilon) == (False, 0.0, promise.exact_epsilon)
        assert "recorded, nothing debited" in str(receipt)
    assert account.exact_spent == 1
    assert [entry.notion for entry in account.entries()] == [Notion.PURE_DP, Notion.ONE_SIDED_DP, Notion.MAP_ERROR]
    assert ledger.verify().ok


@pytest.mark.parametrize("make", [Guarantee.local_dp, Guarantee.local_attribute_dp])
def test_local_notions_debit(ledger: Ledger, make: Any) -> None:
    account = ledger.account("crowd", epsilon=1)
    account.spend(make(0.75), purpose="answers", data="labels", randomness=SECURE)
    assert account.remaining == 0.25


class Fake(SecureRandomness):  # type: ignore[misc]
    """Calls itself secure."""


def test_simulations_can_never_be_entered(ledger: Ledger) -> None:
    account = ledger.account("iclr", epsilon=1)
    lane = Randomness.simulation(1)
    cases: list[tuple[Guarantee, Any]] = [
        (pure(0.1), lane),
        (lane.stamp(pure(0.1)), lane),
        (lane.stamp(pure(0.1)), SECURE),
        (pure(0.1), Fake()),
    ]
    for promise, randomness in cases:
        with pytest.raises(SimulationRefused, match="Nothing was spent"):
            account.spend(promise, purpose="study", data="reviews", randomness=randomness)
    for nothing in (None, "secure", SecureRandomness):
        with pytest.raises(BadInput, match="randomness"):
            account.spend(pure(0.1), purpose="study", data="reviews", randomness=nothing)  # type: ignore[arg-type]
    assert account.entries() == []
    assert account.remaining == 1


def test_a_release_without_privacy_is_refused(ledger: Ledger) -> None:
    account = ledger.account("iclr", epsilon=1)
    open_gap = Guarantee.one_sided_dp(None, gap=1, unit="a pair", neighbors="the other order")
    for promise in (pure(None), open_gap):
        with pytest.raises(BadInput, match="no budget can cover"):
            account.spend(promise, purpose="means", data="reviews", randomness=SECURE)
    with pytest.raises(BadInput, match="guarantee"):
        account.spend(0.5, purpose="means", data="reviews", randomness=SECURE)  # type: ignore[arg-type]
    assert account.entries() == []


HOSTILE = ["'; DROP TABLE peerveil_entries; --", "% %s :name $1 {0}", "Ünïcode 审稿 🎓", '"quoted" \\ backslash']


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_kept_as_they_are(ledger: Ledger, text: str) -> None:
    account = ledger.account(text, epsilon=1)
    account.spend(pure(0.5, unit=text), purpose=text, data=text, randomness=SECURE)
    assert [account.name for account in ledger.accounts()] == [text]
    (entry,) = ledger.account(text).entries()
    assert (entry.account, entry.purpose, entry.guarantee.unit) == (text, text, text)
    assert ledger.verify().ok


@pytest.mark.parametrize("text", ["", " ", "a\nb", "a\0b", "a\x1bb", "\ud800", "a\u2028b", "a\u202eb", 5, None, b"a"])
def test_unprintable_texts_are_refused(ledger: Ledger, text: Any) -> None:
    with pytest.raises(BadInput, match="name"):
        ledger.account(text, epsilon=1)
    account = ledger.account("iclr", epsilon=1)
    with pytest.raises(BadInput, match="purpose"):
        spend(account, 0.1, purpose=text)
    assert account.entries() == []


def test_lengths_and_forms_of_texts(ledger: Ledger) -> None:
    account = ledger.account("n" * 100, epsilon=1)
    spend(account, 0.1, purpose="p" * 500)
    spend(account, 0.1, purpose="می\u200cخواهم, a\u00a0b")  # Persian needs its joiner
    for name in ("n" * 101, " iclr", "iclr "):
        with pytest.raises(BadInput, match="name"):
            ledger.account(name, epsilon=1)
    with pytest.raises(BadInput, match="purpose"):
        spend(account, 0.1, purpose="p" * 501)
    with pytest.raises(BadInput, match="^unit: got"):
        account.spend(pure(0.1, unit="a\0b"), purpose="a", data="b", randomness=SECURE)
    accent = ledger.account("café", epsilon=1)
    assert ledger.account("cafe\u0301").name == accent.name  # the same letters, typed otherwise


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), "many", True, "1e350", "1e-350"])
def test_impossible_budgets_are_refused(ledger: Ledger, epsilon: Any) -> None:
    with pytest.raises(BadInput, match="epsilon"):
        ledger.account("iclr", epsilon=epsilon)
    assert ledger.accounts() == []


def test_opening_an_account_again(ledger: Ledger) -> None:
    with pytest.raises(BadInput, match="none yet"):
        ledger.account("iclr")
    spend(ledger.account("iclr", epsilon=0.3), 0.1)
    for same in (0.3, "3/10", None):
        assert ledger.account("iclr", epsilon=same).remaining == 0.2
    with pytest.raises(BadInput, match=r"got 0\.4, need 0\.3, with which account 'iclr' was opened"):
        ledger.account("iclr", epsilon=0.4)
    with pytest.raises(BadInput, match="'iclr'"):
        ledger.account("ICLR")
    assert (ledger.account("iclr").epsilon, ledger.account("iclr").exact_epsilon) == (0.3, Fraction(3, 10))


class Table:
    """Like the tables of judgments."""

    fingerprint = "ab" * 32


def test_equal_data_have_equal_fingerprints_within_one_ledger_only(ledger: Ledger, tmp_path: Any) -> None:
    account = ledger.account("iclr", epsilon=100)
    numbers = np.arange(6.0)
    groups: list[list[Any]] = [
        [Table(), Table.fingerprint],
        [b"abc", bytearray(b"abc")],
        ["abc"],
        [numbers, np.arange(6.0)[::-1][::-1]],
        [numbers.reshape(2, 3), np.asfortranarray(numbers.reshape(2, 3))],
        [numbers.astype(np.float32)],
        [numbers.astype(np.int64)],
    ]
    marks = [{spend(account, 1, data=data).fingerprint for data in group} for group in groups]
    assert [len(mark) for mark in marks] == [1] * len(groups)
    assert len(set.union(*marks)) == len(groups)
    assert Table.fingerprint not in ledger.to_json()
    with Ledger.open(tmp_path / "other.db") as other:
        elsewhere = spend(other.account("iclr", epsilon=1), 1, data=Table()).fingerprint
    assert {elsewhere} != marks[0]


def test_data_must_be_named_and_never_appear_in_an_error(ledger: Ledger, tmp_path: Any) -> None:
    account = ledger.account("iclr", epsilon=1)
    secret = ["the secret review"]
    for data in (None, "", " ", b"", np.array([]), np.array(secret, dtype=object), secret, tmp_path, 5, Table):
        if data is Table:
            continue
        with pytest.raises(BadInput, match="data") as refusal:
            spend(account, 0.1, data=data)
        assert "secret review" not in str(refusal.value)
    assert account.entries() == []


def test_a_total_that_no_longer_fits_is_refused_before_it_is_spent(ledger: Ledger) -> None:
    account = ledger.account("odd", epsilon=1)
    bases = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59]
    for base in bases:
        try:
            spend(account, Fraction(1, base ** int(290 / np.log10(base))))
        except BadInput as error:
            assert "digits" in str(error)  # noqa: PT017
            break
    count = len(account.entries())
    assert 5 < count < len(bases)
    spend(account, 0.5)  # the account itself goes on
    with pytest.raises(BadInput, match="1e-300"):
        spend(account, Fraction(1, 10**500 + 1))
    assert len(account.entries()) == count + 1
    assert ledger.verify().ok


def test_a_closed_ledger_says_so(ledger: Ledger) -> None:
    account = ledger.account("iclr", epsilon=1)
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerError, match="closed"):
        spend(account, 0.1)


def test_the_last_entries(ledger: Ledger) -> None:
    account = ledger.account("iclr", epsilon=1)
    for _ in range(4):
        spend(account, 0.1)
    assert [entry.serial for entry in account.entries(last=2)] == [3, 4]
    assert [entry.serial for entry in account.entries(last=9)] == [1, 2, 3, 4]
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(BadInput, match="last"):
            account.entries(last=wrong)  # type: ignore[arg-type]
    assert account
    assert "iclr" in repr(account)


# ---- keys ----------------------------------------------------------------------------------------------------------


def keyed(account: Account, key: Any, epsilon: Any = 0.25) -> Entry:
    return account.spend(pure(epsilon), purpose="mean", data=f"reviews of {account.name}", randomness=SECURE, key=key)


def test_a_key_is_spent_once_in_its_account(ledger: Ledger) -> None:
    account, other = ledger.account("iclr", epsilon=1), ledger.account("kdd", epsilon=1)
    assert account.find("run 1/means") is None
    first = keyed(account, "run 1/means")
    with pytest.raises(BadInput, match=r"key: got 'run 1/means', need .*entry 1 of account 'iclr'.*nothing was spent"):
        keyed(account, "run 1/means", epsilon=0.5)
    assert account.find("run 1/means") == first
    assert account.find("run 1/mean") is None  # no search in text: a part of a key is another key
    assert [keyed(account, "run 1").serial, keyed(other, "run 1/means").serial] == [2, 1]
    assert [spend(account, 0.1, data="reviews of iclr").key for _ in range(2)] == [None, None]
    assert account.exact_spent == Fraction("0.7")
    assert ledger.verify().ok


def test_of_many_who_spend_one_key_at_once_one_is_debited(ledger: Ledger) -> None:
    account = ledger.account("iclr", epsilon=9)

    def attempt(_: int) -> bool:
        try:
            keyed(account, "run 1/means")
        except BadInput:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(8))) == 1
    assert (len(account), account.spent) == (1, 0.25)


def test_the_database_itself_refuses_a_second_entry_with_the_same_key(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault: nobody looks for the key before the debit."""
    account = ledger.account("iclr", epsilon=1)
    keyed(account, "run 1/means")
    monkeypatch.setattr(records, "find_entry", lambda *_: None)
    with pytest.raises(LedgerError, match="nothing was spent"):
        keyed(account, "run 1/means")
    assert (len(account), account.spent) == (1, 0.25)


@pytest.mark.parametrize("key", ["", " x", "x\n", "x" * 201, 7, b"x"])
def test_keys_that_are_refused(ledger: Ledger, key: Any) -> None:
    account = ledger.account("iclr", epsilon=1)
    with pytest.raises(BadInput, match="key"):
        keyed(account, key)
    with pytest.raises(BadInput, match="key"):
        account.find(key)
    assert len(account) == 0
