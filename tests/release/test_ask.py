"""A chair's own questions: shares of strict reviewers, groups, years; joint intervals and debits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peerveil import BadInput, BudgetExceeded, Ledger, Randomness
from peerveil.core.randomness import MaxNormNoise
from peerveil.data import Reviews, synthetic_conference
from peerveil.release import ask
from peerveil.release import ask as ask_function
from peerveil.release.ask import MOST_GROUPS, group_counts
from peerveil.release.family import counts_at
from peerveil.release.mechanism import count_bounds
from peerveil.release.public import reviewer_means
from peerveil.release.weights import review_weights
from peerveil.report import svg

REVIEWS = synthetic_conference(papers=60, reviewers=40, seed=4, bias=0.8).reviews
NEXT_YEAR = synthetic_conference(papers=50, reviewers=30, seed=5, bias=0.8).reviews
IDS = REVIEWS.numbered("reviewer")[1].to_list()
GROUPS = {name: "junior" if place % 3 else "senior" for place, name in enumerate(IDS)}


def means_by_reviewer(reviews: Reviews) -> dict[Any, float]:
    number, ids = reviews.numbered("reviewer")
    means = reviewer_means(review_weights(reviews, weight="miscalibration").values, number)
    return dict(zip(ids.to_list(), means.tolist(), strict=True))


def ask_without_noise(reviews: Any = REVIEWS, **arguments: Any) -> Any:
    return ask(reviews, epsilon=1000, stricter_than=1, randomness=Randomness.simulation(1), **arguments)


def test_without_noise_the_shares_are_those_of_the_data() -> None:
    (group,) = ask_without_noise().groups
    weights = review_weights(REVIEWS, weight="miscalibration").values
    means = np.array(list(means_by_reviewer(REVIEWS).values()))
    assert group.stricter.estimate == pytest.approx(np.mean(means <= weights.mean() - 1))
    assert group.more_lenient.estimate == pytest.approx(np.mean(means > weights.mean() + 1))
    assert group.stricter.lower == pytest.approx(group.stricter.upper)
    assert (group.name, group.reviewers) == ("", 40)


def test_groups_are_counted_by_their_own_members() -> None:
    """Loads differ, so reviewers are in another order inside: every group must get the means of its own people."""
    answer = ask_without_noise(groups=GROUPS)
    means, center = means_by_reviewer(REVIEWS), review_weights(REVIEWS, weight="miscalibration").values.mean()
    assert len(set(np.bincount(REVIEWS.numbered("reviewer")[0]).tolist())) > 1
    for group in answer.groups:
        own = np.array([mean for name, mean in means.items() if GROUPS[name] == group.name])
        assert group.reviewers == own.size
        assert group.stricter.estimate == pytest.approx(np.mean(own <= center - 1))
    (pair,) = answer.differences
    junior, senior = answer.groups
    assert (pair.group, pair.other) == ("junior", "senior")
    assert pair.stricter.estimate == pytest.approx(junior.stricter.estimate - senior.stricter.estimate)
    assert pair.stricter.lower <= pair.stricter.estimate <= pair.stricter.upper


def test_two_years_are_compared() -> None:
    answer = ask({"2025": REVIEWS, "2026": NEXT_YEAR}, epsilon=1, randomness=Randomness.simulation(2))
    assert [(group.name, group.reviewers) for group in answer.groups] == [("2025", 40), ("2026", 30)]
    assert len(answer.differences) == 1
    assert answer.guarantee.epsilon == 1
    assert answer.frame().height == 2
    assert "2025" in answer.summary()
    assert "simulation, not private" in svg(answer.plot(), alt="answer")
    assert json.loads(answer.to_json())["mark"] == "simulation, not private"


def test_two_years_of_groups() -> None:
    groups = {name: "all" for reviews in (REVIEWS, NEXT_YEAR) for name in reviews.numbered("reviewer")[1].to_list()}
    answer = ask({"a": REVIEWS, "b": NEXT_YEAR}, epsilon=1, groups=groups, randomness=Randomness.simulation(2))
    assert [group.name for group in answer.groups] == ["a all", "b all"]


@pytest.mark.parametrize("groups", [1, 4])
def test_joint_intervals_cover_all_groups_at_once(groups: int) -> None:
    releases, level = 3000, 0.95
    means = np.array(list(means_by_reviewer(REVIEWS).values()))
    at = np.array([-1.0, 1.0])
    parts = [(means[place::groups], at) for place in range(groups)]
    half = MaxNormNoise(2 * groups, 1).half_width(level)
    drawn = group_counts(parts, 1, Randomness.simulation(3), releases)
    assert drawn.shape == (releases, 2 * groups)
    inside = np.ones(releases, dtype=bool)
    for place, (own, _) in enumerate(parts):
        exact = counts_at(own, at)
        for row, counts in enumerate(drawn[:, 2 * place : 2 * place + 2]):
            low, high = count_bounds(counts, half, own.size)
            inside[row] &= bool(((low <= exact) & (exact <= high)).all())
    assert inside.mean() > level - 5 * np.sqrt(level * (1 - level) / releases)


def test_equal_seeds_give_equal_answers_and_the_row_order_does_not_matter() -> None:
    shuffled = Reviews.from_frame(REVIEWS.frame.sample(fraction=1, shuffle=True, seed=1))
    answers = {
        ask(table, epsilon=1, groups=GROUPS, randomness=Randomness.simulation(4)).to_json()
        for table in (REVIEWS, REVIEWS, shuffled)
    }
    assert len(answers) == 1


def test_a_table_with_other_column_names() -> None:
    frame = REVIEWS.frame.rename({"paper": "submission", "score": "points"})
    renamed = ask(
        frame,
        epsilon=1,
        columns={"paper": "submission", "score": "points"},
        randomness=Randomness.simulation(3),
    )
    assert renamed.to_json() == ask(REVIEWS, epsilon=1, randomness=Randomness.simulation(3)).to_json()


def test_every_conference_is_debited_once(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        account = ledger.account("conference", epsilon=1)
        ask(REVIEWS, epsilon=0.3, groups=GROUPS, account=account)
        assert account.remaining == 0.7  # all groups for one epsilon
        ask({"a": REVIEWS, "b": NEXT_YEAR}, epsilon="0.25", account=account)
        assert account.remaining == 0.2  # two conferences, one debit each
        assert len(account.entries()) == 3
        with pytest.raises(BudgetExceeded):
            ask(REVIEWS, epsilon=0.3, account=account)
        with pytest.raises(BadInput):
            ask(REVIEWS, epsilon=0.1, groups={IDS[0]: "junior"}, account=account)
        assert account.remaining == 0.2


def test_the_debit_stands_when_the_noise_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        account = ledger.account("conference", epsilon=1)

        def killed(*_: object) -> None:
            assert account.remaining == 0.3
            raise KeyboardInterrupt

        monkeypatch.setattr(MaxNormNoise, "draw", killed)
        with pytest.raises(KeyboardInterrupt):
            ask_function(REVIEWS, epsilon=0.7, account=account)
        assert account.remaining == 0.3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0}, "^epsilon"),
        ({"epsilon": 0.0001}, "^epsilon"),
        ({"epsilon": float("nan")}, "^epsilon"),
        ({"stricter_than": 0}, "^stricter_than"),
        ({"stricter_than": float("nan")}, "^stricter_than"),
        ({"level": 1}, "^level"),
        ({"weight": "beauty"}, "^weight"),
        ({"groups": {IDS[0]: "junior"}}, "^groups: got no group for"),
        ({"groups": ["junior"]}, "^groups"),
        ({"groups": dict.fromkeys(IDS, 1)}, "^groups"),
    ],
)
def test_bad_input(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        ask(REVIEWS, **{"epsilon": 1, **arguments})


def test_too_many_groups_and_reviewers_whose_means_are_public() -> None:
    many = synthetic_conference(papers=80, reviewers=MOST_GROUPS + 5, seed=1).reviews
    names = many.numbered("reviewer")[1].to_list()
    with pytest.raises(BadInput, match=f"at most {MOST_GROUPS}"):
        ask(many, epsilon=1, groups={name: str(name) for name in names})
    alone = Reviews(paper=[1, 1, 2, 2], reviewer=[1, 2, 3, 4], score=[1, 2, 3, 4])
    with pytest.raises(BadInput, match="means are public"):
        ask(alone, epsilon=1)
