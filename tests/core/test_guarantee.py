"""Guarantees: words, exactness, composition."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerveil import BadInput, Guarantee
from peerveil.core.exact import exp_bounds
from peerveil.core.guarantee import NOT_PRIVATE_MARK, SIMULATION_MARK, DoesNotCompose, Notion, odds_in_words

SWAP = {"unit": "one review", "neighbors": "two reviewers exchange one review each"}
epsilons = st.fractions(min_value=Fraction(1, 10**6), max_value=50)


def everything() -> list[Guarantee]:
    return [
        Guarantee.pure_dp("1/3", **SWAP),
        Guarantee.pure_dp(None, **SWAP),
        Guarantee.local_dp(0.1),
        Guarantee.local_attribute_dp(2),
        Guarantee.one_sided_dp(
            0.5, gap=11, gap_unit="minutes", unit="a pair of comments", neighbors="one sitting or two"
        ),
        Guarantee.map_error(0.4, unit="the reviewer of any one paper", neighbors="the candidate assignments"),
        Guarantee.pure_dp(1, **SWAP).as_simulated(),
        Guarantee.local_attribute_dp(1).assuming("the answers were randomized on the device"),
        Guarantee.local_attribute_dp(300),
    ]


@pytest.mark.parametrize("guarantee", everything(), ids=lambda g: g.notion.value)
def test_it_survives_repr_data_and_pickle(guarantee: Guarantee) -> None:
    assert eval(repr(guarantee)) == guarantee
    assert Guarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))) == guarantee
    assert pickle.loads(pickle.dumps(guarantee)) == guarantee
    assert hash(guarantee) == hash(eval(repr(guarantee)))


@pytest.mark.parametrize("guarantee", everything(), ids=lambda g: g.notion.value)
def test_it_is_frozen_and_prints_as_one_sentence(guarantee: Guarantee) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        guarantee.unit = "nothing"  # type: ignore[misc]
    text = str(guarantee)
    assert "\n" not in text
    assert text.endswith(".")
    assert guarantee.unit in text
    assert guarantee.neighbors in text or guarantee.exact_epsilon is None


def test_the_words_say_what_a_chair_needs() -> None:
    text = str(Guarantee.pure_dp(1, **SWAP))
    assert "epsilon 1 " in text
    assert "at most 2.72 times" in text
    assert "right at most 73.2% of the time" in text  # e/(1+e) = 0.73106, rounded up
    assert str(Guarantee.pure_dp(1, **SWAP).as_simulated()).startswith(f"[{SIMULATION_MARK}]")
    assert str(Guarantee.pure_dp(None, **SWAP)).startswith("No privacy")
    one_sided = str(everything()[4])
    assert "gap 11 minutes" in one_sided
    assert "nothing is guaranteed in the other direction" in one_sided
    assert "wrongly at least 33.3% of the time" in str(Guarantee.map_error("1/3", unit="it", neighbors="two cases"))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0, -1, -0.1, True, "many", 1j, [1]])
def test_impossible_epsilons_are_refused(bad: Any) -> None:
    with pytest.raises(BadInput, match="^epsilon: got "):
        Guarantee.pure_dp(bad, **SWAP)


@pytest.mark.parametrize("bad", [math.nan, 1, 1.5, -0.1, "x", None])
def test_impossible_errors_are_refused(bad: Any) -> None:
    with pytest.raises(BadInput, match="^error: got "):
        Guarantee.map_error(bad, unit="it", neighbors="two cases")


@pytest.mark.parametrize(
    ("argument", "arguments"),
    [
        ("notion", {"notion": "magic", "epsilon": 1}),
        ("gap", {"notion": "pure DP", "epsilon": 1, "gap": 3}),
        ("gap", {"notion": "one-sided DP", "epsilon": 1}),
        ("gap", {"notion": "one-sided DP", "epsilon": 1, "gap": -2}),
        ("error", {"notion": "pure DP", "epsilon": 1, "error": 0.1}),
        ("epsilon", {"notion": "MAP-adversary error", "epsilon": 1, "error": 0.1}),
        ("unit", {"notion": "pure DP", "epsilon": 1, "unit": " "}),
        ("neighbors", {"notion": "pure DP", "epsilon": 1, "neighbors": "two\nlines"}),
        ("neighbors", {"notion": "pure DP", "epsilon": 1, "neighbors": " . "}),
        ("unit", {"notion": "pure DP", "epsilon": 1, "unit": "a\r\x1b[31mb"}),
        ("epsilon", {"notion": "pure DP", "epsilon": "1e350"}),
        ("epsilon", {"notion": "pure DP", "epsilon": 10**5000}),
        ("epsilon", {"notion": "pure DP", "epsilon": -(10**5000)}),
        ("epsilon", {"notion": "pure DP", "epsilon": Fraction(1, 10**5000)}),
        ("gap", {"notion": "one-sided DP", "epsilon": 1, "gap": np.timedelta64(5, "m")}),
        ("simulated", {"notion": "pure DP", "epsilon": 1, "simulated": "no"}),
    ],
)
def test_parameters_that_do_not_fit_the_notion(argument: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=f"^{argument}: got "):
        Guarantee(**({"unit": "one review", "neighbors": "they differ"} | arguments))


def test_the_mark_cannot_be_left_out_of_the_data() -> None:
    data = Guarantee.pure_dp(1, **SWAP).as_simulated().to_dict()
    del data["simulated"]
    with pytest.raises(BadInput, match="^data: got "):
        Guarantee.from_dict(data)


def test_a_gap_is_never_shown_larger_than_it_is() -> None:
    third = Guarantee.one_sided_dp(1, gap=Fraction(1, 3_000_000), unit="a pair", neighbors="one sitting or two")
    assert "gap 3.333333333333333e-07 seconds" in str(third)
    assert Guarantee(
        "pure DP", epsilon=1, gap_unit="minutes", unit=SWAP["unit"], neighbors=SWAP["neighbors"]
    ) == Guarantee.pure_dp(1, **SWAP)


def test_parameters_as_floats_are_rounded_to_the_safe_side() -> None:
    """As printed: what is given away never too small, what is covered or left to the adversary never too large."""
    for value in (Fraction(1, 3), Fraction(2, 3)):
        pair = Guarantee.one_sided_dp(value, gap=value, unit="a pair", neighbors="one sitting or two")
        wrong = Guarantee.map_error(value, unit="a reviewer", neighbors="two cases")
        assert Fraction(repr(pair.epsilon)) > value
        assert Fraction(repr(pair.gap)) < value
        assert Fraction(repr(wrong.error)) < value


@pytest.mark.parametrize("bad", [None, {}, {"notion": "pure DP"}, {"notion": "pure DP", "other": 1}, 3])
def test_data_that_is_no_guarantee(bad: Any) -> None:
    with pytest.raises(BadInput, match="^data: got "):
        Guarantee.from_dict(bad)


# ---- composition ------------------------------------------------------------------------------------------------


def test_ten_tenths_are_one() -> None:
    total = sum([Guarantee.pure_dp(0.1, **SWAP)] * 10)
    assert isinstance(total, Guarantee)
    assert total.exact_epsilon == 1
    assert total.epsilon == 1.0


@given(st.lists(epsilons, min_size=1, max_size=8))
def test_composition_is_exact(parts: list[Fraction]) -> None:
    guarantees = [Guarantee.pure_dp(part, **SWAP) for part in parts]
    total = sum(guarantees[1:], guarantees[0])
    assert total.exact_epsilon == sum(parts)
    assert total.epsilon is not None
    assert Fraction(repr(total.epsilon)) >= sum(parts)
    assert Guarantee.parallel(*guarantees, touched=1).exact_epsilon == max(parts)
    assert Guarantee.parallel(*guarantees, touched=2).exact_epsilon == sum(sorted(parts)[-2:])
    assert guarantees[0].group(7).exact_epsilon == 7 * parts[0]


def test_a_group_says_what_it_covers() -> None:
    one = Guarantee.local_attribute_dp(0.5)
    assert one.group(1) is one
    five = one.group(5)
    assert five.unit == "any 5 of this: one answer of one person"
    assert "at most 5 steps" in five.neighbors
    assert one.group(5, unit="all five answers of one person").unit == "all five answers of one person"
    assert one.group(np.int64(5)) == five
    for bad in (0, -1, 2.0, True, "3"):
        with pytest.raises(BadInput, match="^size: got "):
            one.group(bad)  # type: ignore[arg-type]


def test_gaps_and_errors_take_the_weaker_side() -> None:
    a, b = (Guarantee.one_sided_dp(0.5, gap=gap, unit="a pair", neighbors="one sitting or two") for gap in (10, 20))
    assert (a + b).gap == 10
    assert (a + b).epsilon == 1
    assert Guarantee.parallel(a, b, touched=1).gap == 10
    errors = [Guarantee.map_error(e, unit="a reviewer", neighbors="two cases") for e in (0.3, 0.2)]
    assert Guarantee.parallel(errors[0], touched=1).error == 0.3
    with pytest.raises(DoesNotCompose, match="may depend on each other"):
        Guarantee.parallel(*errors, touched=1)
    with pytest.raises(DoesNotCompose, match="must be computed anew"):
        errors[0] + errors[1]
    with pytest.raises(DoesNotCompose, match="groups"):
        errors[0].group(2)


def test_different_promises_are_not_added() -> None:
    one = Guarantee.pure_dp(1, **SWAP)
    for other in (
        Guarantee.pure_dp(1, unit="one reviewer", neighbors=SWAP["neighbors"]),
        Guarantee.pure_dp(1, unit="one review", neighbors="something else"),
        Guarantee.local_dp(1, unit="one review", neighbors=SWAP["neighbors"]),
    ):
        with pytest.raises(DoesNotCompose, match="only for one"):
            one + other
        with pytest.raises(DoesNotCompose, match="only for one"):
            Guarantee.parallel(one, other, touched=1)
    with pytest.raises(TypeError):
        one + 1  # type: ignore[operator]
    wrongs: list[Any] = [(), ([one, one],), (1, 2)]
    for wrong in wrongs:
        with pytest.raises(BadInput, match="^guarantees: got"):
            Guarantee.parallel(*wrong, touched=1)
    with pytest.raises(BadInput, match="^touched: got 0"):
        Guarantee.parallel(one, one, touched=0)
    with pytest.raises(TypeError, match="touched"):
        Guarantee.parallel(one, one)  # type: ignore[call-arg]


def test_an_exchange_across_two_sets_costs_both() -> None:
    """Two disjoint sets, each released with epsilon 1; neighbors exchange a review across them."""
    from peerveil import Randomness, audit

    swap = Guarantee.pure_dp(1, unit="one review", neighbors="two reviewers exchange one review each")

    def totals(pair: tuple[float, float], count: int, randomness: Randomness) -> Any:
        return randomness.laplace(np.tile(pair, (count, 1)), scale=1.0)

    pairs = [("across the sets", (5.0, 5.0), (6.0, 4.0))]
    lane = Randomness.simulation(4)
    wrong = audit.check(totals, pairs, Guarantee.parallel(swap, swap, touched=1), samples=20_000, randomness=lane)
    right = audit.check(totals, pairs, Guarantee.parallel(swap, swap, touched=2), samples=20_000, randomness=lane)
    assert not wrong.passed
    assert right.passed


def test_no_privacy_and_simulation_are_contagious() -> None:
    private, none = Guarantee.pure_dp(1, **SWAP), Guarantee.pure_dp(None, **SWAP)
    assert private.mark is None
    assert private.private
    assert none.mark == NOT_PRIVATE_MARK
    assert (private + none).mark == NOT_PRIVATE_MARK
    assert Guarantee.parallel(private, none, touched=1).epsilon is None
    assert (private + private.as_simulated()).mark == SIMULATION_MARK
    assert not Guarantee.parallel(private, private.as_simulated(), touched=1).private


@given(epsilons)
def test_the_printed_factor_is_never_too_small(epsilon: Fraction) -> None:
    factor, guess = odds_in_words(epsilon)
    low, high = exp_bounds(epsilon)
    if factor.startswith("10^"):
        assert Fraction(10) ** int(factor[3:]) >= low
    else:
        assert Fraction(factor.replace(",", "")) >= low
    assert Fraction(guess) >= 100 * low / (1 + high)


def test_only_likelihood_ratios_both_ways_add_up() -> None:
    assert {n for n in Notion if n.adds_up} == {Notion.PURE_DP, Notion.LOCAL_DP, Notion.LOCAL_ATTRIBUTE_DP}


def test_an_assumption_is_never_lost() -> None:
    plain = Guarantee.local_attribute_dp(1)
    held = plain.assuming("devices randomized the answers.")
    assert str(held).startswith("If devices randomized the answers: local differential privacy with epsilon 1 for ")
    assert held != plain
    assert held.mark is None
    for composed in (
        held + plain,
        plain + held,
        held + held,
        held.group(3),
        held.as_simulated(),
        Guarantee.parallel(plain, held, touched=1),
    ):
        assert composed.assumption == "devices randomized the answers"
    both = held + plain.assuming("nobody answered twice")
    assert both.assumption == "devices randomized the answers, and if nobody answered twice"
    assert held.assuming("nobody answered twice") == plain._with(assumption=both.assumption)
    assert "assumption" not in plain.to_dict()
    assert held.to_dict()["assumption"] == "devices randomized the answers"
    for bad in ("", " . ", "two\nlines", 3):
        with pytest.raises(BadInput, match="^assumption: got "):
            plain.assuming(bad)  # type: ignore[arg-type]


def test_a_large_epsilon_is_called_worthless_and_not_a_large_number() -> None:
    whole = Guarantee.local_attribute_dp(2).group(94, unit="all 94 answers of one person")
    assert "epsilon 188 for all 94 answers of one person protects nothing in effect" in str(whole)
    assert "10^" not in str(whole)
    assert "no promise worth" not in str(Guarantee.pure_dp(10, **SWAP))
