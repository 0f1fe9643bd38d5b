"""Random histories against a model that is one Fraction and a list."""

from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from peerveil.core.exact import exact
from peerveil.core.guarantee import Guarantee
from peerveil.core.randomness import Randomness
from peerveil.ledger import BudgetExceeded, Ledger, verify_export

EPSILONS = st.one_of(
    st.floats(1e-6, 2.0),
    st.sampled_from([0.1, 0.2, 0.3, 0.7, 1e-300, 1e-9]),
    st.fractions(Fraction(1, 50), 1, max_denominator=60),
)
STEPS = st.lists(st.tuples(EPSILONS, st.sampled_from(["debit", "record", "reopen"])), max_size=12)


def check_refusal(refusal: BudgetExceeded, debit: Fraction, left: Fraction) -> None:
    assert debit > left
    assert (refusal.exact_requested, refusal.exact_remaining) == (debit, left)
    assert Fraction(repr(refusal.remaining)) <= left < debit <= Fraction(repr(refusal.requested))


def play(url: str, budget: float | Fraction, steps: list[tuple[float | Fraction, str]]) -> None:
    left = exact(budget, "budget")
    kept: list[Fraction] = []
    ledger = Ledger.open(url)
    account = ledger.account("model", epsilon=budget)
    for epsilon, kind in steps:
        if kind == "reopen":
            ledger.close()
            ledger = Ledger.open(url)
            account = ledger.account("model")
        debit = Fraction(0) if kind == "record" else exact(epsilon, "epsilon")
        promise = (
            Guarantee.one_sided_dp(epsilon, gap=1, unit="a pair", neighbors="the other order")
            if kind == "record"
            else Guarantee.pure_dp(epsilon, unit="one review", neighbors="another score")
        )
        try:
            receipt = account.spend(promise, purpose=kind, data="model", randomness=Randomness.secure())
        except BudgetExceeded as refusal:
            check_refusal(refusal, debit, left)
        else:
            assert debit <= left
            left -= debit
            kept.append(debit)
            assert (receipt.serial, receipt.exact_debit) == (len(kept), debit)
        assert account.exact_remaining == left
    assert [entry.exact_debit for entry in account.entries()] == kept
    assert ledger.verify().ok
    assert verify_export(ledger.to_dict()).ok
    ledger.close()


@settings(max_examples=20, deadline=None)
@given(budget=EPSILONS, steps=STEPS)
def test_the_ledger_does_what_the_model_does(
    budget: float | Fraction, steps: list[tuple[float | Fraction, str]]
) -> None:
    if exact(budget, "budget") < Fraction(1, 10**300):
        budget = 1
    with tempfile.TemporaryDirectory() as folder:
        play(str(Path(folder) / "ledger.db"), budget, steps)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(budget=EPSILONS, steps=STEPS)
def test_the_ledger_does_what_the_model_does_for_long(
    budget: float | Fraction, steps: list[tuple[float | Fraction, str]]
) -> None:
    if exact(budget, "budget") < Fraction(1, 10**300):
        budget = 1
    with tempfile.TemporaryDirectory() as folder:
        play(str(Path(folder) / "ledger.db"), budget, steps)
