"""The mixed model against textbook formulas with dense matrices, and the models of scores that are chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from peerveil.calibration.mixed import Design, Equations, Variances, fit_variances, paper_draws, posterior
from peerveil.calibration.scoring import choose_model

TRUE = Variances(1.0, 0.49, 0.81)


def sample(
    papers: int = 60, reviewers: int = 40, each: int = 3, seed: int = 0, variances: Variances = TRUE
) -> tuple[Design, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    people = np.concatenate([rng.choice(reviewers, each, replace=False) for _ in range(papers)])
    paper = np.repeat(np.arange(papers), each)
    quality, bias, noise = (
        np.sqrt(v) * rng.standard_normal(n)
        for v, n in zip(variances.values, (papers, reviewers, len(paper)), strict=True)
    )
    return Design(paper, people, papers, reviewers), 5 + quality[paper] + bias[people] + noise, quality


def uneven(design: Design, seed: int = 1) -> Design:
    """The same with weights, loadings and prior weights of its own."""
    rng = np.random.default_rng(seed)
    weight, loading = rng.uniform(0.5, 2.0, (2, len(design.paper)))
    return replace(design, weight=weight, loading=loading, prior=rng.uniform(0.5, 2.0, design.reviewers))


def dense(design: Design, scores: np.ndarray, variances: Variances) -> dict[str, Any]:
    """Generalized least squares with the whole covariance matrix: predictions, their covariance, restricted likelihood."""
    papers, people = design.by_paper.toarray(), design.by_reviewer.toarray()[:, 1:]
    prior = variances.reviewer / design.prior
    v = variances.paper * papers @ papers.T + people * prior @ people.T + np.diag(variances.noise / design.weight)
    inverse, ones = np.linalg.inv(v), np.ones(len(scores))
    information = ones @ inverse @ ones
    mean = ones @ inverse @ scores / information
    p = inverse - np.outer(inverse @ ones, ones @ inverse) / information
    quality, bias = (
        variances.paper * papers.T @ inverse @ (scores - mean),
        (people * prior).T @ inverse @ (scores - mean),
    )
    # the error of mean + quality: e = (mean_hat - mean) + (q_hat - q), linear in scores and q
    linear = np.outer(np.ones(design.papers), inverse @ ones / information) + variances.paper * papers.T @ p
    cross = variances.paper * papers.T
    covariance = linear @ v @ linear.T - linear @ cross.T - cross @ linear.T + variances.paper * np.eye(design.papers)
    likelihood = -0.5 * (np.linalg.slogdet(v)[1] + np.log(information) + scores @ p @ scores)
    return {"paper": mean + quality, "reviewer": bias, "covariance": covariance, "likelihood": likelihood}


@pytest.mark.parametrize("largest", [400, 0], ids=["factored", "iterated"])
@pytest.mark.parametrize("weighted", [False, True])
def test_predictions_are_the_textbooks(largest: int, weighted: bool) -> None:
    design, scores, _ = sample()
    design = uneven(design) if weighted else design
    effects, textbook = Equations(design, TRUE, largest=largest).solve(scores), dense(design, scores, TRUE)
    np.testing.assert_allclose(effects.paper, textbook["paper"], atol=1e-7)
    np.testing.assert_allclose(effects.people[1:], textbook["reviewer"], atol=1e-7)


@pytest.mark.parametrize("weighted", [False, True])
def test_deviations_are_the_textbooks(weighted: bool) -> None:
    design, scores, _ = sample()
    design = uneven(design) if weighted else design
    exact = np.sqrt(np.diag(dense(design, scores, TRUE)["covariance"]))
    np.testing.assert_allclose(posterior(design, scores, TRUE, 5).deviation, exact, atol=1e-9)


def test_draws_have_the_posteriors_mean_and_covariance() -> None:
    design, scores, _ = sample(papers=20, reviewers=15)
    count, textbook = 40_000, dense(design, scores, TRUE)
    draws = paper_draws(design, scores, TRUE, count)
    covariance = textbook["covariance"]
    deviation = np.sqrt(np.diag(covariance))
    assert (np.abs(draws.mean(axis=1) - textbook["paper"]) < 5 * deviation / np.sqrt(count)).all()
    # the standard error of a covariance of normal draws
    error = np.sqrt((np.outer(deviation**2, deviation**2) + covariance**2) / count)
    assert (np.abs(np.cov(draws) - covariance) < 5 * error).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_variances_maximize_the_restricted_likelihood(weighted: bool) -> None:
    design, scores, _ = sample(papers=40, reviewers=25)
    design = uneven(design) if weighted else design
    estimate = fit_variances(design, scores)

    def loss(logs: np.ndarray) -> float:
        return -float(dense(design, scores, Variances(*np.exp(logs).tolist()))["likelihood"])

    best = minimize(loss, np.log(TRUE.values), method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-10})
    np.testing.assert_allclose(np.log(estimate.values), best.x, atol=1e-3)


def test_a_variance_of_zero_is_found() -> None:
    design, scores, _ = sample(papers=120, reviewers=60, seed=4, variances=Variances(1.0, 1e-12, 1.0))
    estimates = [fit_variances(design, scores).reviewer]
    for seed in range(5, 9):
        design, scores, _ = sample(papers=120, reviewers=60, seed=seed, variances=Variances(1.0, 1e-12, 1.0))
        estimates.append(fit_variances(design, scores).reviewer)
    assert min(estimates) < 1e-4  # REML is 0 about half of the time
    assert max(estimates) < 0.2


def test_estimated_traces_lead_to_the_same_variances(monkeypatch: pytest.MonkeyPatch) -> None:
    design, scores, _ = sample(papers=600, reviewers=400, each=4)
    exact = fit_variances(design, scores)
    monkeypatch.setattr(Equations.__init__, "__kwdefaults__", {"largest": 0})
    estimated = fit_variances(design, scores)
    errors = np.sqrt(np.diag(exact.covariance))
    assert (np.abs(np.log(estimated.values / exact.values)) < 0.2 * errors).all()
    assert (estimated.values != exact.values).any()
    sampled = posterior(design, scores, exact, 200).deviation  # from draws instead of the inverse
    monkeypatch.undo()
    np.testing.assert_allclose(sampled, posterior(design, scores, exact, 5).deviation, rtol=0.05)


# ---- which model -----------------------------------------------------------------------------------------------------


def taken(design: Design, scores: np.ndarray, confidence: np.ndarray | None = None) -> tuple[str, ...]:
    return choose_model(design, scores, confidence)[0].parts


def test_normal_scores_need_no_richer_model() -> None:
    assert sum(taken(*sample(200, 120, 4, seed)[:2]) == () for seed in range(6)) >= 5


def test_richer_models_are_taken_where_data_ask_for_them() -> None:
    design, scores, quality = sample(600, 300, 4)
    rng, people = np.random.default_rng(5), design.reviewer
    expected = scores - scores.mean()
    wild = quality[design.paper] + 0.5 * rng.standard_t(2, len(scores))
    assert "outliers" in taken(design, wild)
    few = 0.4 * rng.standard_t(2, design.reviewers)[people]
    assert "heavy" in taken(design, quality[design.paper] + few + 0.5 * rng.standard_normal(len(scores)))
    scales = np.exp(0.6 * rng.standard_normal(design.reviewers))[people]
    assert "affine" in taken(design, scales * quality[design.paper] + 0.5 * rng.standard_normal(len(scores)))
    steps = np.digitize(expected, [-2.5, -2, -1.8, -1.6, -1.4, 1.0]).astype(float)
    assert "ordinal" in taken(design, steps)
    stated = rng.integers(1, 5, len(scores)).astype(float)
    unsure = quality[design.paper] + np.array([0, 2.0, 1.5, 1.0, 0.4])[stated.astype(int)] * rng.standard_normal(
        len(scores)
    )
    model, table = choose_model(design, unsure, stated)
    assert "confidence" in model.parts
    weights = [model.design.weight[stated == level][0] for level in (1, 2, 3, 4)]
    assert weights == sorted(weights)
    assert weights[3] > 4 * weights[0]
    assert "confidence" in table.filter(table["taken"])["model"].to_list()
    # a confidence unrelated to the noise is not used
    assert "confidence" not in taken(design, scores, rng.integers(1, 5, len(scores)).astype(float))


def test_affine_scales_are_recovered() -> None:
    design, _, quality = sample(600, 200, 5)
    rng = np.random.default_rng(6)
    scales = np.exp(0.5 * rng.standard_normal(design.reviewers))
    scores = scales[design.reviewer] * quality[design.paper] + 0.5 * rng.standard_normal(len(design.paper))
    model, _ = choose_model(design, scores)
    assert model.fitted is not None
    fitted = np.ones(design.reviewers)
    fitted[design.reviewer] = model.fitted.loading
    assert np.corrcoef(fitted, scales)[0, 1] > 0.85


def test_an_ordinal_scale_leads_back_to_scores() -> None:
    design, scores, _ = sample(300, 150, 4)
    model, _ = choose_model(design, np.digitize(scores, [2, 3, 3.2, 3.4, 3.6, 6.5]).astype(float))
    assert "ordinal" in model.parts
    assert model.values is not None
    np.testing.assert_allclose(model.to_score(model.values), np.arange(7.0))
    wide = model.to_score(np.linspace(model.values[0] - 3, model.values[-1] + 3, 200))
    assert (np.diff(wide) > 0).all()
