"""``peerveil calibration``: decisions that use what is known of strictness, and do not name the reviewer."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from peerveil.cli.base import (
    AsJson,
    Column,
    Debug,
    check_folder,
    check_spending,
    columns_named,
    emit,
    example,
    new_group,
    print_table,
)
from peerveil.errors import BadInput

if TYPE_CHECKING:
    from peerveil.calibration import ChairSheet, Conference, ConferenceDecision, Tradeoff
    from peerveil.calibration.simulate import Simulation
    from peerveil.judgements import Reviews
    from peerveil.result import Outputs

app = new_group("calibration", "Decisions that use what is known of reviewers' strictness without naming the reviewer.")

ReviewsFile = Annotated[Path, typer.Argument(help="Reviews with paper, reviewer and score; stays with the chair.")]
Functions = Annotated[
    Path | None,
    typer.Option("--reviewers", help="A table with reviewer, scale and bias: score = scale * quality + bias."),
]
History = Annotated[
    list[Path] | None,
    typer.Option(help="Reviews of a past conference, to fit scales, biases and noise from; may be given often."),
]
Noise = Annotated[float | None, typer.Option(help="Standard deviation of scores; fitted if --history is given.")]
Draws = Annotated[
    int,
    typer.Option(help="With --history: how many credible functions of each reviewer to carry along; 1 for the mean."),
]
Seed = Annotated[int | None, typer.Option(help="Simulate, repeatably; leave out for secure randomness.")]
Picture = Annotated[Path | None, typer.Option(help="Where to write the picture, an .svg file.")]
GroupSize = Annotated[int, typer.Option(help="Papers whose committees could have been exchanged, 2 to 6.")]
Accept = Annotated[int | None, typer.Option(help="How many papers to accept, exactly.")]

Ledger = Annotated[str | None, typer.Option(envvar="PEERVEIL_LEDGER", help="The ledger that records the decision.")]
Account = Annotated[str | None, typer.Option(help="The account that records it; it must exist.")]

_NOT_RECORDED = (
    "no ledger was named, so nothing stops a second decision of these reviews, which would weaken this guarantee "
    "(--ledger FILE --account NAME; `peerveil ledger open` makes one)"
)


@app.command(
    "frontier",
    epilog=example(
        "peerveil calibration frontier reviews.csv --reviewers reviewers.csv --noise 0.5 --accept 1",
        "peerveil calibration frontier reviews.csv --history past.csv --accept 10 --figure frontier.svg",
    ),
)
def frontier(
    file: ReviewsFile,
    accept: Annotated[int, typer.Option(help="How many of the papers to accept.")],
    reviewers: Functions = None,
    history: History = None,
    noise: Noise = None,
    draws: Draws = 8,
    adversary: Annotated[str, typer.Option(help="paper: guesses the writer of one review; assignment: all.")] = "paper",
    group_size: GroupSize = 5,
    figure: Picture = None,
    column: Column = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Show what protection costs: exactly for a handful of papers, group by group for a conference.

    Nothing is decided. Up to six papers, each reviewer with equally many reviews, are solved as one panel; more are put
    into groups, as 'decide' does.
    """
    from peerveil.calibration import Frontier, plan_decisions

    _check_picture(figure)
    reviews = _read(file, column)
    functions, level = _known(reviews.frame["reviewer"].unique().to_list(), reviewers, history, noise, draws)
    found = plan_decisions(
        reviews, functions=functions, noise=level, accept=accept, adversary=adversary, group_size=group_size
    )
    if isinstance(found, Frontier):
        columns: tuple[str, ...] = ("conference error", "adversary error")
        shown = found.points if len(found.points) <= 12 else found.points[:: -(-len(found.points) // 12)]
        rows: list[tuple[str, ...]] = [(f"{c:.4f}", f"{a:.4f}") for c, a in dict.fromkeys([*shown, found.end])]
        data: dict[str, Any] = {
            "points": found.points,
            "start": found.start,
            "end": found.end,
            "gap": found.gap,
            "about": found.what,
        }
    else:
        columns, rows, data = _tradeoff_rows(found)
    if figure is not None:
        _write_picture(figure, found, f"Error of the adversary against error of the conference: {found.summary()}")

    def tables() -> None:
        typer.echo(found.summary())
        print_table(columns, rows)

    emit(data, as_json, tables)


@app.command(
    "decide",
    epilog=example(
        "peerveil calibration decide reviews.csv --history past.csv --accept 40 --adversary-error 0.6 --out decisions",
        "peerveil calibration decide reviews.csv --reviewers reviewers.csv --noise 0.5 --accepted 0.25 "
        "--adversary-error 0.6 --out decisions",
    ),
)
def decide(
    file: ReviewsFile,
    out: Annotated[Path, typer.Option(help="A folder: public/ may be published, chair/ must not.")],
    adversary_error: Annotated[
        float, typer.Option(help="How often the best guess of a review's writer shall be wrong.")
    ],
    accept: Accept = None,
    about: Annotated[
        bool, typer.Option("--about", help="With --accept: about so many, by the line alone; errs less.")
    ] = False,
    accepted: Annotated[
        float | None, typer.Option(help="Instead of --accept: the share of all papers expected above the line.")
    ] = None,
    reviewers: Functions = None,
    history: History = None,
    noise: Noise = None,
    draws: Draws = 8,
    group_size: GroupSize = 5,
    exchange: Annotated[
        str, typer.Option(help="committees: whole committees may be exchanged; reviews: within them too.")
    ] = "committees",
    pictures: Annotated[bool, typer.Option(help="Draw protection and trade-off into chair/.")] = True,
    ledger: Ledger = None,
    account: Account = None,
    seed: Seed = None,
    column: Column = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Decide a whole conference, and keep apart what may be published.

    Decide once: two decisions of the same reviews say more about who wrote what than one. With --ledger and --account
    the decision is recorded, and a second one is refused.
    """
    from peerveil.calibration import Conference, Threshold
    from peerveil.calibration.plan import plan_conference
    from peerveil.ledger import Ledger as LedgerBook
    from peerveil.randomness import Randomness

    check_spending(ledger, account, seed)
    check_folder(out)
    reviews = _read(file, column)
    if (accept is None) == (accepted is None):
        raise BadInput("--accept, --accepted", got=(accept, accepted), want="one of the two: a number, or a share")
    functions, level = _known(reviews.frame["reviewer"].unique().to_list(), reviewers, history, noise, draws)
    randomness = Randomness.secure() if seed is None else Randomness.simulation(seed)
    rule: int | Threshold = Threshold.share(accepted) if accepted is not None else accept  # type: ignore[assignment]
    conference = Conference(
        reviews,
        functions=functions,
        noise=level,
        accept=rule,
        size=group_size,
        exactly=not about,
        exchange=exchange,
    )
    with nullcontext() if ledger is None else LedgerBook.open(ledger, create=False) as book:
        recorded = None if book is None else book.account(str(account))
        outputs = conference.decide(adversary_error=adversary_error, randomness=randomness, account=recorded)
    decision, sheet = outputs
    folder = _write_outputs(out, outputs)
    data = {"folder": str(folder), "summary": decision.summary(), **decision.to_dict()}
    lines = [str(decision), sheet.summary(), *_warnings(conference)]
    if pictures:
        tried = plan_conference(conference, most_groups=40)
        for name, what in (("protection", sheet), ("tradeoff", tried)):
            _write_picture(folder / "chair" / f"{name}.svg", what, what.summary())
            (folder / "chair" / f"{name}.svg").chmod(0o600)
        data["tradeoff"] = tried.to_dict()
        lines.append(f"trade-off: {tried}")
    if ledger is None and seed is None:
        lines.append(_NOT_RECORDED)
    lines += [f"may be published: {folder / 'public'}", f"for the chair alone: {folder / 'chair'}"]
    emit(data, as_json, "\n".join(lines))


@app.command(
    "simulate",
    epilog=example(
        "peerveil calibration simulate --scale 1 --scale 0.7 --bias 0.5 --bias -0.5 --noise 0.4 --share 0.6",
        "peerveil calibration simulate --scale 1 --scale 0.7 --scale 1.2 --bias 0.5 --bias -0.5 --bias 0 --accept 1 "
        "--adversary-error 0.5 --draws 500",
    ),
)
def simulate(
    scale: Annotated[list[float], typer.Option(help="The scales of the reviewers, one option each.")] = [1.0, 0.7],  # noqa: B006
    bias: Annotated[list[float], typer.Option(help="Their biases.")] = [0.5, -0.5],  # noqa: B006
    noise: Annotated[float, typer.Option(help="Standard deviation of scores.")] = 0.4,
    share: Annotated[
        float, typer.Option(help="Two reviewers: how much of the protection to buy: 0 none, 1 all that scores leave.")
    ] = 0.5,
    accept: Annotated[int, typer.Option(help="More reviewers: how many papers to accept.")] = 1,
    adversary_error: Annotated[
        float, typer.Option(help="More reviewers: how often the guess of a review's writer shall be wrong.")
    ] = 0.5,
    draws: Annotated[
        int | None, typer.Option(help="How many pairs (100000 if left out) or panels (1000) of papers.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same papers.")] = 0,
    figure: Picture = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Play many pairs or panels of papers against the best adversary: promised errors against what happens."""
    from peerveil.calibration import Affine, simulate_pairs, simulate_panels

    _check_picture(figure)
    if len(scale) != len(bias) or len(scale) < 2:
        raise BadInput("--scale, --bias", got=(scale, bias), want="two or more, and as many of one as of the other")
    people = [Affine(a, b) for a, b in zip(scale, bias, strict=True)]
    found: Simulation
    if len(people) == 2:
        found = simulate_pairs(people, noise=noise, share=share, draws=100_000 if draws is None else draws, seed=seed)
    else:
        asked = {"adversary_error": adversary_error, "draws": 1000 if draws is None else draws, "seed": seed}
        found = simulate_panels(people, noise=noise, accept=accept, **asked)  # type: ignore[arg-type]
    data = {
        "draws": found.draws,
        "mark": "simulation, not private",
        **{
            name: {"promised": t.promised, "observed": t.observed, "standard_error": t.standard_error}
            for name, t in (("conference", found.conference), ("adversary", found.adversary))
        },
    }
    if figure is not None:
        _write_picture(figure, found, found.summary())
    emit(data, as_json, f"{found}\n[simulation, not private]")


def _read(file: Path, column: list[str] | None) -> Reviews:
    from peerveil.judgements import Reviews

    reviews = Reviews.read(file, columns=columns_named(column))
    reviews.require_reviewers("calibration")
    return reviews


def _write_outputs(folder: Path, outputs: Outputs[ConferenceDecision, ChairSheet]) -> Path:
    """``public/`` may be published; ``chair/`` must stay with the chair (readable by its owner alone)."""
    from peerveil.files import write_text

    decision, sheet = outputs
    mark = f"# {decision.mark}\n" if decision.mark else ""
    write_text(folder / "public" / "README", mark + "May be published. Names no reviewer.\n")
    write_text(folder / "public" / "decisions.csv", mark + decision.decisions.write_csv())
    write_text(folder / "public" / "decisions.json", decision.to_json(indent=2))
    secret = folder / "chair"
    secret.mkdir(parents=True, exist_ok=True, mode=0o700)
    secret.chmod(0o700)
    for name, text in (
        ("README", "Names reviewers: for the chair alone. What may be published is in ../public.\n"),
        ("sheet.csv", sheet.reviews.write_csv()),
        ("sheet.json", json.dumps({"summary": sheet.summary(), **sheet.to_dict()}, indent=2, allow_nan=False)),
    ):
        write_text(secret / name, text, private=True)
    return folder


def _tradeoff_rows(found: Tradeoff) -> tuple[tuple[str, ...], list[tuple[str, ...]], dict[str, Any]]:
    rows: list[tuple[str, ...]] = [
        (f"{asked:g}", f"{cost:.4f}", f"{missed:.4f}")
        for asked, cost, missed in zip(found.asked, found.conference_error, found.adversary_error, strict=True)
    ]
    return ("asked", "papers on the wrong side", "writers missed"), rows, found.to_dict()


def _warnings(conference: Conference) -> list[str]:
    """What the promise does not cover, where this conference has it."""
    said = []
    if conference.alone and conference.exchange == "committees":
        said.append(f"note: {conference.alone} papers share their number of reviews with no other; nothing hides them")
    if conference.linked:
        said.append(
            f"note: {conference.linked} reviewers sit in several groups, and their functions are uncertain: what one "
            "group's scores say of them in another is not covered"
        )
    return said


def _check_picture(path: Path | None) -> None:
    if path is not None and path.suffix != ".svg":
        raise BadInput("--figure", got=str(path), want="a file name that ends in .svg")


def _write_picture(path: Path, what: Any, alt: str) -> None:
    from peerveil.files import write_text
    from peerveil.report import new_axes, safe_svg

    write_text(path, safe_svg(lambda: what.plot(new_axes(6, 4)[0]), alt).alone())


def _known(
    people: list[Any], reviewers: Path | None, history: list[Path] | None, noise: float | None, draws: int
) -> tuple[dict[Any, Any], float]:
    """Functions and noise, from a table or from past conferences (then with what is not known of them)."""
    from peerveil.calibration import fit_miscalibration, read_miscalibration

    if (reviewers is None) == (not history):
        raise BadInput("--reviewers, --history", got=(reviewers, history), want="one of the two")
    if history:
        fit = fit_miscalibration(history)
        return fit.functions(people, draws=draws), fit.noise if noise is None else noise
    assert reviewers is not None
    if noise is None:
        raise BadInput("--noise", got=None, want="a standard deviation, or --history to fit it")
    functions = read_miscalibration(reviewers)
    by_text = {str(name): function for name, function in functions.items()}
    missing = [one for one in people if str(one) not in by_text]
    if missing:
        raise BadInput(str(reviewers), got=None, want=f"a row for reviewer {missing[0]!r}")
    return {one: by_text[str(one)] for one in people}, noise
