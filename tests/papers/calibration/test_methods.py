"""The calibration methods that Figure 3 compares, and its measures of error."""

from __future__ import annotations

import numpy as np
import pytest

from peerveil.calibration import Affine, fit_miscalibration
from peerveil.data import Reviews
from peerveil.papers.calibration.methods import (
    kendall_distance,
    least_squares,
    messy_middle_error,
    uncalibrated,
    with_fit,
    with_known,
    within_conference,
)


def test_methods_rank_as_they_should() -> None:
    rng = np.random.default_rng(1)
    papers, people, load = 120, 40, 3
    quality = rng.standard_normal(papers)
    scale, bias = np.exp(0.3 * rng.standard_normal(people)), 0.7 * rng.standard_normal(people)
    who = np.array([rng.choice(people, load, replace=False) for _ in range(papers)]).ravel()
    paper = np.repeat(np.arange(papers), load)
    score = scale[who] * quality[paper] + bias[who] + 0.5 * rng.standard_normal(papers * load)
    reviews = Reviews(paper=paper, reviewer=who, score=score)
    known = {j: Affine(float(scale[j]), float(bias[j])) for j in range(people)}
    estimates = {
        "none": uncalibrated(reviews),
        "within": within_conference(reviews),
        "known": with_known(reviews, known),
        "posterior": with_known(reviews, known, noise=0.5),
        "squares": least_squares(reviews),
        "fit": with_fit(reviews, fit_miscalibration(reviews, seed=2, progress=False)),
    }
    off = {name: kendall_distance(quality, estimate) for name, estimate in estimates.items()}
    assert off["known"] < off["none"]
    assert off["posterior"] < off["none"]
    assert off["fit"] < off["none"]
    assert off["squares"] < off["none"] + 0.02
    assert all(0 <= value < 0.5 for value in off.values())


def test_the_measures() -> None:
    truth = np.arange(100.0)
    assert kendall_distance(truth, truth) == 0
    assert kendall_distance(truth, -truth) == 1
    assert kendall_distance(truth, np.zeros(100)) == 0.5
    assert messy_middle_error(truth, truth) == 0
    assert messy_middle_error(truth, -truth) == 0.5  # ranks 26 to 40 are rejected either way
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 5, 30), rng.integers(0, 5, 30)
    slow = np.mean([0.5 * (1 - np.sign(x[i] - x[j]) * np.sign(y[i] - y[j])) for i in range(30) for j in range(i)])
    assert kendall_distance(x, y) == pytest.approx(float(slow))
