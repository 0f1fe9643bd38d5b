"""``peerveil calibration``: decisions that use what is known of strictness, and do not name the reviewer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from peerveil.cli.base import AsJson, Debug, emit, example, new_group, print_table
from peerveil.errors import BadInput

app = new_group("calibration", "Decisions that use what is known of reviewers' strictness without naming the reviewer.")

ReviewsFile = Annotated[Path, typer.Argument(help="Reviews with paper, reviewer and score; stays with the chair.")]
Functions = Annotated[
    Path | None,
    typer.Option("--reviewers", help="A table with reviewer, scale and bias: score = scale * quality + bias."),
]
History = Annotated[
    list[Path] | None, typer.Option(help="Reviews of a past conference, to fit scales, biases and noise from.")
]
Noise = Annotated[float | None, typer.Option(help="Standard deviation of scores; fitted if --history is given.")]
Seed = Annotated[int | None, typer.Option(help="Simulate, repeatably; leave out for secure randomness.")]


@app.command(
    "frontier",
    epilog=example(
        "peerveil calibration frontier reviews.csv --reviewers reviewers.csv --noise 0.5 --accept 1",
        "peerveil calibration frontier reviews.csv --history past.csv --accept 2 --figure frontier.svg",
    ),
)
def frontier(
    file: ReviewsFile,
    accept: Annotated[int, typer.Option(help="How many of the papers to accept.")],
    reviewers: Functions = None,
    history: History = None,
    noise: Noise = None,
    adversary: Annotated[str, typer.Option(help="paper: guesses the writer of one review; assignment: all.")] = "paper",
    figure: Annotated[Path | None, typer.Option(help="Where to write the picture, an .svg file.")] = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Show what protection costs for a handful of papers (up to six or seven, each reviewer equally often)."""
    from peerveil.calibration import Panel
    from peerveil.judgements import Reviews

    reviews = Reviews.read(file)
    reviews.require_reviewers("calibration")
    people = sorted(reviews.frame["reviewer"].unique().to_list(), key=str)
    functions, level = _known(people, reviewers, history, noise)
    table = reviews.frame.sort("paper", maintain_order=True).group_by("paper", maintain_order=True).agg("score")
    panel = Panel(table["score"].to_list(), [functions[one] for one in people], level, accept, adversary=adversary)
    found = panel.frontier()
    if figure is not None:
        from peerveil.files import write_text
        from peerveil.report.figures import house_style, new_axes, svg

        (ax,) = new_axes(6, 4)
        with house_style():
            found.draw(ax)
        write_text(figure, svg(ax, alt=f"Error of the adversary against error of the conference: {found.summary()}"))

    def tables() -> None:
        typer.echo(found.summary())
        shown = found.points if len(found.points) <= 12 else found.points[:: -(-len(found.points) // 12)]
        rows = [(f"{c:.4f}", f"{a:.4f}") for c, a in dict.fromkeys([*shown, found.end])]
        print_table(("conference error", "adversary error"), rows)

    emit(
        {"points": found.points, "start": found.start, "end": found.end, "gap": found.gap, "about": found.what},
        as_json,
        tables,
    )


@app.command(
    "decide",
    epilog=example("peerveil calibration decide reviews.csv --history past.csv --adversary-error 0.6 --out decisions"),
)
def decide(
    file: ReviewsFile,
    out: Annotated[Path, typer.Option(help="A folder: public/ may be published, chair/ must not.")],
    adversary_error: Annotated[
        float, typer.Option(help="How often the best guess of a review's writer shall be wrong.")
    ],
    accepted: Annotated[float, typer.Option(help="The share of papers expected above the line.")] = 0.25,
    reviewers: Functions = None,
    history: History = None,
    noise: Noise = None,
    group_size: Annotated[int, typer.Option(help="Papers whose committees could have been exchanged, 2 to 6.")] = 5,
    seed: Seed = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Decide a whole conference, and keep apart what may be published."""
    from peerveil.calibration import Conference, Threshold
    from peerveil.judgements import Reviews
    from peerveil.randomness import Randomness

    reviews = Reviews.read(file)
    reviews.require_reviewers("calibration")
    people = reviews.frame["reviewer"].unique().to_list()
    functions, level = _known(people, reviewers, history, noise)
    randomness = Randomness.secure() if seed is None else Randomness.simulation(seed)
    conference = Conference(reviews, functions, level, Threshold.share(accepted), size=group_size)
    decision = conference.decide(adversary_error=adversary_error, randomness=randomness)
    folder = decision.write(out)
    emit(
        {"folder": str(folder), "summary": decision.summary(), **decision.to_dict()},
        as_json,
        f"{decision}\nmay be published: {folder / 'public'}\nfor the chair alone: {folder / 'chair'}",
    )


@app.command(
    "simulate",
    epilog=example(
        "peerveil calibration simulate --scale 1 --scale 0.7 --bias 0.5 --bias -0.5 --noise 0.4 --share 0.6"
    ),
)
def simulate(
    scale: Annotated[list[float], typer.Option(help="The scales of the two reviewers.")] = [1.0, 0.7],  # noqa: B006
    bias: Annotated[list[float], typer.Option(help="Their biases.")] = [0.5, -0.5],  # noqa: B006
    noise: Annotated[float, typer.Option(help="Standard deviation of scores.")] = 0.4,
    share: Annotated[
        float, typer.Option(help="How much of the protection to buy: 0 none, 1 all that the scores leave.")
    ] = 0.5,
    draws: Annotated[int, typer.Option(help="How many pairs of papers.")] = 100_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same pairs.")] = 0,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Play many pairs of papers against the best adversary: promised errors against what happens."""
    from peerveil.calibration import Affine, simulate_pairs

    if len(scale) != 2 or len(bias) != 2:
        raise BadInput("--scale, --bias", got=(scale, bias), want="two of each")
    pair = [Affine(a, b) for a, b in zip(scale, bias, strict=True)]
    found = simulate_pairs(pair, noise, share, draws=draws, seed=seed)
    data = {
        "draws": found.draws,
        **{
            name: {"promised": t.promised, "observed": t.observed, "standard_error": t.standard_error}
            for name, t in (("conference", found.conference), ("adversary", found.adversary))
        },
    }
    emit(data, as_json, f"{found}\n[simulation, not private]")


def _known(
    people: list[Any], reviewers: Path | None, history: list[Path] | None, noise: float | None
) -> tuple[dict[Any, Any], float]:
    """Functions and noise, from a table or from past conferences."""
    from peerveil.calibration import fit_miscalibration, read_history, read_miscalibration

    if (reviewers is None) == (not history):
        raise BadInput("--reviewers, --history", got=(reviewers, history), want="one of the two")
    if history:
        fit = fit_miscalibration(read_history(*history))
        return {one: fit.function(one) for one in people}, fit.noise if noise is None else noise
    assert reviewers is not None
    if noise is None:
        raise BadInput("--noise", got=None, want="a standard deviation, or --history to fit it")
    functions = read_miscalibration(reviewers)
    by_text = {str(name): function for name, function in functions.items()}
    missing = [one for one in people if str(one) not in by_text]
    if missing:
        raise BadInput(str(reviewers), got=None, want=f"a row for reviewer {missing[0]!r}")
    return {one: by_text[str(one)] for one in people}, noise
