"""Whole conferences, fitting, figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from peerveil import calibration
from peerveil.calibration import (
    Affine,
    Conference,
    Threshold,
    Uncertain,
    fit_miscalibration,
    read_miscalibration,
)
from peerveil.calibration.fit import FitNotConverged, MiscalibrationFit
from peerveil.calibration.simulate import simulate_pairs
from peerveil.core.errors import BadInput
from peerveil.core.randomness import Randomness
from peerveil.data import Reviews
from peerveil.report.figures import new_axes


def conference(papers: int = 40, each: int = 1, seed: int = 0) -> tuple[Conference, np.ndarray]:
    rng = np.random.default_rng(seed)
    people = papers * each
    scale, bias = np.exp(0.3 * rng.normal(size=people)), 0.5 * rng.normal(size=people)
    quality = rng.normal(size=papers)
    paper = np.repeat(np.arange(papers), each)
    score = scale * quality[paper] + bias + 0.3 * rng.normal(size=people)
    names = rng.permutation(people)
    reviews = Reviews(paper=paper, reviewer=names, score=score)
    functions = {int(names[j]): Affine(float(scale[j]), float(bias[j])) for j in range(people)}
    return Conference(reviews, functions=functions, noise=0.3, accept=Threshold.share(0.3), group_size=4), quality


@pytest.mark.parametrize("each", [1, 2])
def test_every_review_is_protected_as_asked_or_as_its_scores_allow(each: int) -> None:
    meeting, quality = conference(24, each)
    made, sheet = meeting.decide(adversary_error=0.55, capped=True, randomness=Randomness.simulation(1))
    wanted = np.minimum(0.55, sheet.reviews["from_scores"].to_numpy())
    assert (
        sheet.reviews["adversary_error"].to_numpy() >= wanted - 1e-6
    ).all()  # at what the scores leave, solvers need room
    assert sheet.least_error <= made.conference_error < sheet.least_error + 0.2
    assert made.guarantee.error is not None
    assert made.guarantee.error <= sheet.reviews["adversary_error"].to_numpy().min()
    assert sheet.reviews["settled"].any()
    assert not sheet.reviews["settled"].all()
    accepted = made.decisions["accepted"].to_numpy()
    assert quality[accepted].mean() > quality[~accepted].mean() + 0.5


def test_the_order_of_candidates_does_not_tell_the_true_one() -> None:
    meeting, _ = conference(40)
    true = [group.true for group in meeting.groups()]
    assert len(set(true)) > 3
    for group in meeting.groups():
        assert list(group.panel.assignments) == sorted(group.panel.assignments)
        assert list(group.reviewers) == sorted(group.reviewers, key=str)


def test_bad_conferences_are_refused() -> None:
    reviews = Reviews(paper=[1, 2], reviewer=["ann", "bo"], score=[0.9, 0.4])
    with pytest.raises(BadInput, match="'bo'"):
        Conference(reviews, functions={"ann": Affine(1.0)}, noise=0.3, accept=Threshold(0.5))
    with pytest.raises(BadInput, match="without reviewers"):
        Conference(Reviews(paper=[1], score=[2.0]), functions={}, noise=0.3, accept=Threshold(0.5))


def history(seed: int, people: int = 40, papers: int = 60, each: int = 4) -> tuple[Reviews, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    scale, bias = np.abs(rng.normal(1.0, 0.3, people)), rng.normal(0.0, 0.7, people)
    quality = rng.normal(size=papers)
    who = np.concatenate([rng.permutation(people)[:each] for _ in range(papers)])
    paper = np.repeat(np.arange(papers), each)
    score = 5 + scale[who] * quality[paper] + bias[who] + 0.5 * rng.normal(size=len(who))
    return Reviews(paper=paper, reviewer=who, score=score), {"scale": scale, "bias": 5 + bias, "quality": quality}


@pytest.fixture(scope="module")
def fitted() -> tuple[MiscalibrationFit, dict[str, np.ndarray], Reviews]:
    reviews, truth = history(1)
    return fit_miscalibration(reviews, seed=2), truth, reviews


def test_intervals_cover_the_truth_and_shrink(fitted: tuple[MiscalibrationFit, dict[str, np.ndarray], Reviews]) -> None:
    fit, truth, _ = fitted
    assert abs(fit.noise - 0.5) < 0.15
    names = fit.table["reviewer"].to_list()
    inside = [
        (low <= truth["scale"][j] <= high, start <= truth["bias"][j] <= end)
        for j in names
        for (low, high), (start, end) in [fit.interval(j)]
    ]
    share = np.mean(inside, axis=0)
    assert (share > 0.9 - 5 * np.sqrt(0.09 / len(names))).all()
    found = fit.table["bias"].to_numpy()
    assert np.corrcoef(found, truth["bias"][names])[0, 1] > 0.8
    assert found.std() < 1.2 * truth["bias"].std()


def test_strangers_get_the_population_and_are_less_certain(
    fitted: tuple[MiscalibrationFit, dict[str, np.ndarray], Reviews],
) -> None:
    fit, _, _ = fitted
    (low, high), (start, end) = fit.interval("never seen")
    known = [fit.interval(j) for j in fit.table["reviewer"].to_list()]
    assert end - start > np.mean([b[1] - b[0] for _, b in known])
    assert high - low > np.mean([a[1] - a[0] for a, _ in known])
    assert low > 0
    drawn = fit.uncertain("never seen", 8)
    assert isinstance(drawn, Uncertain)
    assert len(drawn.draws) == 8
    assert fit.function("never seen") == fit.function("never seen")


def test_a_fit_that_disagrees_with_itself_is_refused() -> None:
    reviews, _ = history(3, people=30, papers=30, each=1)
    with pytest.raises(FitNotConverged, match="more than 60"):
        fit_miscalibration(reviews, iterations=60)


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_chains_move_however_small_the_noise(noise: float) -> None:
    """Without the steps along which no score changes these were refused, at four times the iterations too."""
    rng = np.random.default_rng(5)
    scale, bias, quality = np.abs(rng.normal(1, 0.3, 20)) + 0.1, rng.normal(0, 0.7, 20), rng.normal(size=40)
    who = np.concatenate([rng.permutation(20)[:4] for _ in range(40)])
    paper = np.repeat(np.arange(40), 4)
    score = 5 + scale[who] * quality[paper] + bias[who] + noise * rng.normal(size=160)
    fit = fit_miscalibration(Reviews(paper=paper, reviewer=who, score=score), iterations=600)
    assert fit.rhat < 1.05
    assert fit.noise < 0.12
    inside = [
        (lo <= scale[j] <= hi, x <= 5 + bias[j] <= y) for j in range(20) for (lo, hi), (x, y) in [fit.interval(j)]
    ]
    assert np.mean(inside) > 0.9 - 5 * np.sqrt(0.09 / 40)


def test_people_are_the_same_as_number_and_as_text_and_strangers_are_alike(
    fitted: tuple[MiscalibrationFit, dict[str, np.ndarray], Reviews],
) -> None:
    fit, _, _ = fitted
    name = fit.table["reviewer"][0]
    assert fit.knows(name)
    assert fit.function(str(name)) == fit.function(name)
    assert not fit.knows("ann")
    assert fit.function("ann") == fit.function("bo")  # nothing tells strangers apart
    assert fit.uncertain("ann", 5) != fit.uncertain("nan", 5)  # but what is not known of them is their own
    scales = [float(one.slope(0.0)) for one in fit.uncertain("ann", 2000).draws]
    assert abs(np.mean(scales) - fit.function("ann").scale) < 5 * np.std(scales) / np.sqrt(2000)


def test_readers(tmp_path: Path) -> None:
    reviews, _ = history(4, papers=10)
    reviews.write(tmp_path / "past.csv")
    given = (tmp_path / "past.csv", [str(tmp_path / "past.csv")], reviews, [reviews.frame])
    assert len({fit_miscalibration(one, iterations=600, progress=False).noise for one in given}) == 1
    renamed = reviews.frame.rename({"paper": "submission"})
    again = fit_miscalibration(renamed, iterations=600, columns={"paper": "submission"}, progress=False)
    assert again.noise == fit_miscalibration(reviews, iterations=600, progress=False).noise
    table = tmp_path / "people.csv"
    pl.DataFrame({"reviewer": ["ann", "bo"], "scale": [1.0, 0.5], "bias": [0.0, -1.0]}).write_csv(table)
    assert read_miscalibration(table)["bo"] == Affine(0.5, -1.0)
    assert list(read_miscalibration(table, reviewers=["bo"])) == ["bo"]
    with pytest.raises(BadInput, match="no row for 1 of 2 reviewers"):
        read_miscalibration(table, reviewers=["ann", "cy"])
    pl.DataFrame({"reviewer": ["ann"], "scale": [0.0], "bias": [0.0]}).write_csv(table)
    with pytest.raises(BadInput, match="row 1, scale"):
        read_miscalibration(table)
    pl.DataFrame({"reviewer": ["ann"], "scale": [1.0]}).write_csv(table)
    with pytest.raises(BadInput, match="a column bias"):
        read_miscalibration(table)
    with pytest.raises(BadInput, match="history"):
        fit_miscalibration([])


def test_histories_with_two_kinds_of_reviewer_ids_are_refused() -> None:
    reviews, _ = history(4, papers=10)
    texts = Reviews(
        paper=reviews.frame["paper"],
        reviewer=reviews.frame["reviewer"].cast(pl.String) + "@example.org",
        score=reviews.frame["score"],
    )
    with pytest.raises(BadInput, match="numbers in one conference and texts in another"):
        fit_miscalibration([reviews, texts], iterations=60, progress=False)


def test_everything_draws() -> None:
    meeting, _ = conference(8)
    pair = calibration.Pair((0.6, 0.5), (Affine(1, 0.5), Affine(1, -0.5)), 0.5)
    decision = pair.strategy(adversary_error=0.3).decide(0, randomness=Randomness.simulation(1))
    outputs = meeting.decide(adversary_error=0.5, capped=True, randomness=Randomness.simulation(1))
    (ax,) = new_axes()
    for thing in (
        pair.frontier(),
        decision,
        *outputs,
        simulate_pairs([Affine(1, 0.5), Affine(1, -0.5)], noise=0.3, share=0.5, draws=1000),
    ):
        thing.draw(ax)
    assert decision.plot().texts[0].get_text() == "simulation, not private"


def test_public_names_have_docstrings_and_stand_in_the_map() -> None:
    assert calibration.__all__ == sorted(calibration.__all__)
    for name in calibration.__all__:
        assert getattr(calibration, name).__doc__, name
        assert name in str(calibration.__doc__), name
