"""The linear mixed model of scores: papers and reviewers as random effects, solved sparsely.

Model: score = mu + a_r q_i + b_j + e, with q_i ~ N(0, s_q^2), b_j ~ N(0, s_b^2 / u_j), e ~ N(0, s^2 / w_r); loadings a, prior
weights u and weights w are 1 unless a caller changes them. Henderson's equations give the best linear unbiased predictions
(BLUP); papers are eliminated (their block is diagonal), and what is left, one unknown per reviewer and the mean, is factored
where it is small and solved by conjugate gradients where it is large.

Variances by REML: Newton steps on their logarithms with the average information. With P the matrix that takes scores to
weighted residuals (Py = W(y - fit)/s^2) the score of a variance is (|Z'Py|^2 - tr(Z'PZ))/2. Traces are exact where the system
is factored, and Hutchinson's estimates from fixed signs elsewhere (relative error about 1/sqrt(reviewers * signs)).

Posterior draws need no covariance matrix: draw effects and scores from the model, solve, and take the prediction's error. By
joint normality it has exactly the posterior's distribution.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.lazy import cho_factor, cho_solve, csr_array

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats

FACTORED: Final = 400
"""Up to so many reviewers the equations are factored."""
_SIGNS: Final = 24  # random signs per trace
_LEAST: Final = 1e-6  # a variance, as a share of the scores'


@dataclass(frozen=True)
class Design:
    """Who reviewed what (numbered from 0), and what each review, reviewer and score counts."""

    paper: Any
    reviewer: Any
    papers: int
    reviewers: int
    weight: Floats = None  # type: ignore[assignment]  # ones unless given, as the others
    loading: Floats = None  # type: ignore[assignment]
    prior: Floats = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        for name, size in (("weight", len(self.paper)), ("loading", len(self.paper)), ("prior", self.reviewers)):
            if getattr(self, name) is None:
                object.__setattr__(self, name, np.ones(size))

    def of(self, chosen: Any) -> Design:
        """The same with some of the reviews."""
        parts = {name: getattr(self, name)[chosen] for name in ("paper", "reviewer", "weight", "loading")}
        return replace(self, **parts)

    @cached_property
    def by_paper(self) -> Any:
        """One row per review, one column per paper, with its loading."""
        rows = np.arange(len(self.paper))
        return csr_array((self.loading, (rows, self.paper)), shape=(len(rows), self.papers))

    @cached_property
    def by_reviewer(self) -> Any:
        """One row per review; a column of ones for the mean, then one column per reviewer."""
        count = len(self.paper)
        columns = np.column_stack([np.zeros(count, dtype=int), 1 + np.asarray(self.reviewer)]).ravel()
        rows = np.arange(0, 2 * count + 1, 2)
        return csr_array((np.ones(2 * count), columns, rows), shape=(count, 1 + self.reviewers))


@dataclass(frozen=True)
class Variances:
    """Variances of papers, reviewers and noise, and the covariance of their logarithms."""

    paper: float
    reviewer: float
    noise: float
    covariance: Floats = field(default_factory=lambda: np.zeros((3, 3)), repr=False)

    @property
    def values(self) -> Floats:
        """The three of them."""
        return np.array([self.paper, self.reviewer, self.noise])


@dataclass(frozen=True)
class Effects:
    """Predictions for one or more columns of scores: papers (with the mean), the mean above the reviewers, each review."""

    paper: Floats
    people: Floats
    fit: Floats


class Equations:
    """Henderson's equations at given variances."""

    def __init__(self, design: Design, variances: Variances, *, largest: int = FACTORED) -> None:
        self.design, self.variances = design, variances
        self.factored = design.reviewers <= largest
        weight = design.weight[:, None]
        self.papers, self.people = design.by_paper, design.by_reviewer
        self._papers_weighted = (self.papers * weight).T.tocsr() * (1 / variances.noise)
        self._people_weighted = (self.people * weight).T.tocsr() * (1 / variances.noise)
        self.diagonal = np.asarray((self._papers_weighted * self.papers.T).sum(axis=1)) + 1 / variances.paper
        self.coupling = (self._papers_weighted @ self.people).tocsr()
        self._coupling_t = self.coupling.T.tocsr()
        self._block = (self._people_weighted @ self.people).tocsr()
        self._penalty = np.concatenate([[0.0], design.prior / variances.reviewer])
        squares = self._coupling_t.power(2) @ (1 / self.diagonal)
        self.jacobi = self._block.diagonal() + self._penalty - squares

    @cached_property
    def _factor(self) -> Any:
        inner = self._coupling_t @ (self.coupling * (1 / self.diagonal)[:, None])
        return cho_factor((self._block - inner).toarray() + np.diag(self._penalty))

    @cached_property
    def inverse(self) -> Floats:
        """The covariance of the mean and the reviewers' effects, given the scores."""
        return np.asarray(cho_solve(self._factor, np.eye(1 + self.design.reviewers)))

    def _times(self, x: Floats) -> Floats:
        down = (self.coupling @ x) / self.diagonal[:, None]
        return np.asarray(self._block @ x + self._penalty[:, None] * x - self._coupling_t @ down)

    def _conjugate(self, right: Floats, tolerance: float) -> Floats:
        """Conjugate gradients, one column per right side, scaled by the diagonal."""
        scale = 1 / self.jacobi[:, None]
        x = np.zeros_like(right)
        residual = right.copy()
        z = scale * residual
        direction = z.copy()
        rho = np.einsum("ij,ij->j", residual, z)
        goal = tolerance**2 * np.maximum(rho, 1e-300)
        for _ in range(2_000):
            image = self._times(direction)
            step = rho / np.maximum(np.einsum("ij,ij->j", direction, image), 1e-300)
            x += step * direction
            residual -= step * image
            z = scale * residual
            new = np.einsum("ij,ij->j", residual, z)
            if (new <= goal).all():
                break
            direction = z + (new / np.maximum(rho, 1e-300)) * direction
            rho = new
        return x

    def solve(self, scores: Floats, tolerance: float = 1e-9) -> Effects:
        """The predictions for columns of scores (or for one column)."""
        columns = scores[:, None] if scores.ndim == 1 else scores
        up = self._papers_weighted @ columns
        right = self._people_weighted @ columns - self._coupling_t @ (up / self.diagonal[:, None])
        people = cho_solve(self._factor, right) if self.factored else self._conjugate(right, tolerance)
        papers = (up - self.coupling @ people) / self.diagonal[:, None]
        fit = self.papers @ papers + self.people @ people
        parts = (papers + people[0], people, fit)
        return Effects(*(part[:, 0] if scores.ndim == 1 else part for part in parts))

    def residual(self, scores: Floats, tolerance: float = 1e-9) -> Floats:
        """Py: what is left of the scores, over its variance."""
        left = scores - self.solve(scores, tolerance).fit
        return np.asarray((left.T * self.design.weight).T / self.variances.noise)

    def spread(self, rows: Any, draws: Floats | None) -> Floats:
        """The variance of linear functions of mean and reviewers given the scores: exact, or from draws (columns)."""
        if draws is None:
            return np.asarray(((rows @ self.inverse) * rows.toarray()).sum(axis=1))
        return np.asarray((rows @ draws).var(axis=1))


def fit_variances(design: Design, scores: Floats, *, start: Variances | None = None, rounds: int = 60) -> Variances:
    """The three variances by REML, with the covariance of their logarithms (the average information's inverse)."""
    total = float(np.average(np.square(scores - np.average(scores, weights=design.weight)), weights=design.weight))
    total = max(total, 1e-12)
    logs = np.log((start or Variances(0.4 * total, 0.1 * total, 0.5 * total)).values)
    low, high = np.log(_LEAST * total), np.log(10 * total)
    signs = np.random.default_rng(0)
    probes = (
        design.by_paper @ signs.choice([-1.0, 1.0], (design.papers, _SIGNS)),
        design.by_reviewer[:, 1:]
        @ (signs.choice([-1.0, 1.0], (design.reviewers, _SIGNS)) / np.sqrt(design.prior)[:, None]),
    )
    information = np.eye(3)
    for _ in range(rounds):
        values = np.exp(logs)
        equations = Equations(design, Variances(*values.tolist()))
        gradient, information = _score(equations, scores, None if equations.factored else probes)
        gradient, information = gradient * values, information * np.outer(values, values)
        free = ~((logs <= low) & (gradient < 0))  # a variance of 0 stays there while the likelihood falls
        step = np.zeros(3)
        step[free] = np.linalg.solve(information[np.ix_(free, free)] + 1e-9 * np.eye(free.sum()), gradient[free])
        new = np.clip(logs + np.clip(step, -2.0, 2.0), low, high)
        moved, logs = float(np.abs(new - logs).max()), new
        if moved < (1e-5 if equations.factored else 1e-3):
            break
    covariance = np.asarray(np.linalg.pinv(information, hermitian=True), dtype=np.float64)
    paper, reviewer, noise = np.exp(logs).tolist()
    return Variances(paper, reviewer, noise, covariance)


def _score(equations: Equations, scores: Floats, probes: tuple[Floats, Floats] | None) -> tuple[Floats, Floats]:
    """The gradient of the restricted likelihood and its average information, by variance."""
    design, variances = equations.design, equations.variances
    papers, people = design.by_paper, design.by_reviewer[:, 1:]
    left = equations.residual(scores)  # Py
    pulls = papers.T @ left, people.T @ left
    working = np.column_stack(  # V_k P y for the three variances
        [papers @ pulls[0], people @ (pulls[1] / design.prior), left / design.weight]
    )
    squares = np.array([pulls[0] @ pulls[0], pulls[1] @ (pulls[1] / design.prior), left @ (left / design.weight)])
    if probes is None:
        inverse, coupling = equations.inverse, equations.coupling * (1 / equations.diagonal)[:, None]
        remaining = (1 / equations.diagonal).sum() + ((coupling @ inverse) * coupling.toarray()).sum()
        traces = np.array(
            [
                design.papers / variances.paper - remaining / variances.paper**2,
                design.reviewers / variances.reviewer
                - (design.prior * np.diag(inverse)[1:]).sum() / variances.reviewer**2,
            ]
        )
        images = equations.residual(working)
    else:
        both = equations.residual(np.hstack([working, *probes]), 1e-5)
        images = both[:, :3]
        estimates = (both[:, 3:] * np.hstack(probes)).sum(axis=0)
        traces = estimates.reshape(2, -1).mean(axis=1)
    # tr(PV) is the number of reviews but one: the third trace follows
    rest = (len(scores) - 1 - traces @ variances.values[:2]) / variances.noise
    return 0.5 * (squares - np.append(traces, rest)), 0.5 * (working.T @ images)


@dataclass(frozen=True)
class Posterior:
    """What the scores tell about papers and reviewers.

    Attributes
    ----------
    paper, deviation : array
        Posterior means (with the mean of all) and standard deviations.
    reviewer, reviewer_deviation : array
        The same of reviewers' effects.
    fit : array
        The expected score of every review.
    draws : array
        Joint draws of all papers, one column each.
    residuals : array
        Residuals of simulated scores: what the model leads to expect of the real ones.
    """

    paper: Floats
    deviation: Floats
    reviewer: Floats
    reviewer_deviation: Floats
    fit: Floats
    draws: Floats
    residuals: Floats


def posterior(design: Design, scores: Floats, variances: Variances, draws: int, seed: int = 0) -> Posterior:
    """Predictions at given variances, with their deviations and joint draws."""
    equations = Equations(design, variances)
    effects = equations.solve(scores)
    papers, people, simulated, predicted = _simulated(equations, draws, seed)
    sample = None if equations.factored else predicted.people - people
    # given mean and reviewers a paper's quality has the variance 1/diagonal; the rest comes through them
    share = (equations.coupling * (1 / equations.diagonal)[:, None]).tocsr()
    every = np.arange(design.papers)
    mean = csr_array((np.ones(design.papers), (every, 0 * every)), share.shape)
    spread = np.diag(equations.inverse) if sample is None else sample.var(axis=1)
    return Posterior(
        effects.paper,
        np.sqrt(1 / equations.diagonal + equations.spread((mean - share).tocsr(), sample)),
        effects.people[1:],
        np.sqrt(spread[1:]),
        effects.fit,
        effects.paper[:, None] + predicted.paper - papers,
        simulated - predicted.fit,
    )


def paper_draws(design: Design, scores: Floats, variances: Variances, draws: int, seed: int = 0) -> Floats:
    """Joint posterior draws of the papers alone, one column each."""
    equations = Equations(design, variances)
    papers, _, _, predicted = _simulated(equations, draws, seed)
    return np.asarray(equations.solve(scores).paper[:, None] + predicted.paper - papers)


def _simulated(equations: Equations, draws: int, seed: int) -> tuple[Floats, Floats, Floats, Effects]:
    """Effects of papers and of mean and reviewers, scores, and what is predicted from these, drawn from the model."""
    design, variances, rng = equations.design, equations.variances, np.random.default_rng(seed)
    papers = np.sqrt(variances.paper) * rng.standard_normal((design.papers, draws))
    deviation = np.concatenate([[0.0], np.sqrt(variances.reviewer / design.prior)])
    people = deviation[:, None] * rng.standard_normal((1 + design.reviewers, draws))
    noise = np.sqrt(variances.noise / design.weight)[:, None] * rng.standard_normal((len(design.paper), draws))
    simulated = equations.papers @ papers + equations.people @ people + noise
    return papers, people, simulated, equations.solve(simulated, 1e-4)
