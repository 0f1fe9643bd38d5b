"""The action that simulates calibrated decisions: no data are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import peerveil
from peerveil.core.errors import Verbatim
from peerveil.study.actions import Action, Setting, common
from peerveil.study.outcome import Outcome, OutcomePart
from peerveil.study.spelling import Range, ScaleAndBias, Share, require

if TYPE_CHECKING:
    from peerveil.study.execute import Context, Inputs


class SimulateDecisions(Action[None]):
    """Guaranteed against observed errors."""

    name, title = "calibration.simulate", "Simulate decisions"
    about = "Simulate decisions on synthetic papers against the best adversary: guaranteed and observed errors."
    publishes = "guaranteed and observed errors; no data are read"
    examples = (
        "--function 1:0.5 --function 0.7:-0.5 --noise 0.4 --share 0.6 --draws 20000",
        "--function 1:0.5 --function 0.7:-0.5 --function 1.2:0 --accept 1 --adversary-error 0.5 --draws 200",
    )

    functions: Annotated[
        tuple[ScaleAndBias, ...],
        common(
            "How each reviewer scores: score = scale * quality + bias. Two reviewers are pairs, more are panels.",
            "Reviewers",
        ),
    ] = ((1.0, 0.5), (0.7, -0.5))
    noise: Annotated[float, Range(ge=0), common("Standard deviation of scores.", "Noise of scores")] = 0.4
    share: Annotated[
        Share,
        Setting("Pairs: how much of the possible protection to use, from none (0) to all (1).", "Share of protection"),
    ] = 0.5
    accept: Annotated[int, Range(ge=0, le=20), Setting("Panels: how many papers to accept.", "Papers to accept")] = 1
    adversary_error: Annotated[
        Share, Setting("Panels: how often the best guess of a review's writer shall be wrong.", "Error of the guess")
    ] = 0.5
    draws: Annotated[
        int | None,
        Range(ge=1, le=10_000_000),
        Setting("How many pairs or panels to simulate; by default 100,000 pairs or 1,000 panels.", "Simulations"),
    ] = None
    seed: Annotated[int, Range(ge=0), Setting("The same seed gives the same papers.")] = 0

    def __post_init__(self) -> None:
        count = len(self.functions)
        require(count >= 2, "functions", got=Verbatim(f"{count}"), want="at least two reviewers")

    def run(self, inputs: Inputs[None], context: Context) -> Outcome:  # noqa: ARG002
        """Simulate pairs or panels."""
        from peerveil.calibration.simulate import simulate_decisions

        people = [peerveil.calibration.Affine(scale, bias) for scale, bias in self.functions]
        if len(people) > 2:
            context.progress(0.0, "simulating panels")
        simulation = simulate_decisions(people, **self.arguments(but=("functions",)))
        failed = simulation.farthest >= 5
        answer = (
            f"Guaranteed and observed errors {'DISAGREE' if failed else 'agree'} over {simulation.draws:,} draws (at most "
            f"{simulation.farthest:.1f} standard errors apart)."
        )
        part = OutcomePart(answer, [f"{simulation.conference}.", f"{simulation.adversary}."], simulation.to_dict())
        reason = "No data are read: papers and reviewers are synthetic."
        outcome = Outcome("Do guaranteed and observed errors agree?", reason, simulation.mark, part, failed=failed)
        caption = "Guaranteed errors (lines) and observed ones (points, with five standard errors)."
        outcome.figure(simulation.plot, simulation.summary(), caption, public=True)
        return outcome
