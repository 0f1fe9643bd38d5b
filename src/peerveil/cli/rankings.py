"""``peerveil rankings``: is there any signal in rankings, how many people would show it, and local reports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from peerveil.cli.base import AsJson, Debug, Force, check_new, check_spending, emit, example, new_group

if TYPE_CHECKING:
    from peerveil.rankings import PowerCurve, UniformityTest
    from peerveil.rankings.intake import Ballots

_MOST_NAMES = 20

app = new_group("rankings", "Do rankings differ from chance? Privately, with a p-value that may be published.")

File = Annotated[Path, typer.Argument(help="Rankings: PrefLib (.soc .soi .toc .toi), or wide or long CSV or Parquet.")]
Layout = Annotated[
    str | None,
    typer.Option(
        help="What the cells of a wide table hold: orders (items; a column is a place) or places (a column is an item).",
        show_default="seen from the file",
    ),
]
Epsilon = Annotated[str | None, typer.Option(help="The privacy of one ranking: 1, 0.5 or 1/3.", show_default="none")]
Needed = Annotated[str, typer.Option(help="The privacy of one ranking: 1, 0.5 or 1/3.")]
Level = Annotated[float, typer.Option(help="How often uniform rankings may be called different.")]
Seed = Annotated[int | None, typer.Option(help="Simulate instead: repeatable, marked, not private.")]
Out = Annotated[Path, typer.Option(help="The folder to write to.")]
About = Annotated[str, typer.Option(help="What is asked: items or pairs.")]
Questions = Annotated[int, typer.Option(help="How many questions all people share.")]
Public = Annotated[int, typer.Option("--public-seed", help="Fixes the shared questions; publish it beforehand.")]


@app.command(
    "test",
    epilog=example(
        "peerveil rankings test votes.soc --epsilon 0.5",
        "peerveil rankings test votes.csv --epsilon 0.5 --ledger budget.db --account survey-2026",
        "peerveil rankings test votes.soc --method friedman",
    ),
)
def run_test(
    file: File,
    epsilon: Epsilon = None,
    method: Annotated[
        str,
        typer.Option(
            help="auto, friedman, rank-norm, clipped-norm, clipped-batches or pairs-norm (takes gaps and ties)."
        ),
    ] = "auto",
    level: Level = 0.05,
    ledger: Annotated[str | None, typer.Option(envvar="PEERVEIL_LEDGER", help="The ledger to debit.")] = None,
    account: Annotated[str | None, typer.Option(help="The account to debit; it must exist.")] = None,
    seed: Seed = None,
    layout: Layout = None,
    out: Out = Path("out/rankings"),
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Test whether rankings differ from chance: the finding with its guarantee, as JSON and as a figure."""
    from peerveil.ledger import Ledger
    from peerveil.randomness import Randomness
    from peerveil.rankings import uniformity_test
    from peerveil.rankings.intake import Ballots

    check_spending(ledger, account, seed)
    settings: dict[str, Any] = {
        "method": method,
        "epsilon": epsilon,
        "level": level,
        "randomness": None if seed is None else Randomness.simulation(seed),
    }
    ballots = Ballots.of(file, layout=layout)
    if account is None:
        found = uniformity_test(ballots, **settings)
    else:
        with Ledger.open(str(ledger), create=False) as book:
            found = uniformity_test(ballots, account=book.account(account), **settings)
    _finish(found, out / f"test-{found.method}", as_json, ballots)


@app.command(
    "power",
    epilog=example(
        "peerveil rankings power --items 100 --spread 0.99 --epsilon 0.5",
        "peerveil rankings power --items 20 --spread 0.95 --methods friedman,pairs-norm",
    ),
)
def power(
    items: Annotated[int, typer.Option(help="How many items are ranked.")],
    spread: Annotated[float, typer.Option(help="The signal to be found: Mallows' spread, 1 is uniform.")],
    epsilon: Epsilon = None,
    level: Level = 0.05,
    wanted: Annotated[float, typer.Option("--power", help="How often the signal shall be found.")] = 0.8,
    methods: Annotated[str, typer.Option(help="Tests, separated by commas; local and local-pairs too.")] = "",
    trials: Annotated[int, typer.Option(help="Simulated data sets for each number of people.")] = 100,
    out: Out = Path("out/rankings"),
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """How many people do I need? A number for each test, and a curve."""
    from peerveil.rankings import plan_rankings

    chosen = [name.strip() for name in methods.split(",")] if methods else None
    found = plan_rankings(
        items=items, spread=spread, epsilon=epsilon, level=level, power=wanted, methods=chosen, trials=trials
    )
    path = _write_curve(found, out)
    emit({**found.to_dict(), "written": [str(path)]}, as_json, f"{found}\nwritten: {path}")


@app.command(
    "report",
    epilog=example("peerveil rankings report votes.soc --epsilon 0.5 --public-seed 7 --to reports.jsonl"),
)
def report(
    file: File,
    epsilon: Needed,
    about: About = "items",
    questions: Questions = 3,
    public_seed: Public = 0,
    to: Annotated[Path, typer.Option(help="Where the reports go, one line of JSON a person.")] = Path("reports.jsonl"),
    seed: Seed = None,
    layout: Layout = None,
    force: Force = False,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Turn rankings into local reports, as each person's device would; in random order."""
    from peerveil.files import write_text
    from peerveil.randomness import Randomness
    from peerveil.rankings import randomize_rankings
    from peerveil.rankings.intake import Ballots

    check_new(to, force, name="--to", cost=f"; a second draw from the same rankings costs another epsilon {epsilon}")
    ballots = Ballots.of(file, layout=layout)
    source = None if seed is None else Randomness.simulation(seed)
    shared: dict[str, Any] = {"about": about, "questions": questions, "public_seed": public_seed}
    randomized = randomize_rankings(ballots, epsilon=epsilon, randomness=source, **shared)
    path = write_text(to, randomized.text())
    count, words = len(randomized.reports), str(randomized.guarantee)
    text = f"{_read_items(ballots)}\n{count:,} reports\n{words}\nwritten: {path}"
    data = {"reports": count, "protocol": randomized.protocol.to_dict(), "guarantee": words, "written": [str(path)]}
    emit({**data, "item_names": list(ballots.names)}, as_json, text)


@app.command(
    "aggregate",
    epilog=example("peerveil rankings aggregate reports.jsonl", "peerveil rankings aggregate collected.parquet"),
)
def aggregate(
    file: Annotated[
        Path, typer.Argument(help="Reports: the protocol's line, then one line of JSON a person; or a table of them.")
    ],
    level: Level = 0.05,
    out: Out = Path("out/rankings"),
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Test whether rankings differ from chance, from local reports alone."""
    from peerveil.rankings import aggregate_reports

    _finish(aggregate_reports(file, level=level), out / "aggregate", as_json)


def _read_items(ballots: Ballots) -> str:
    """The items that were read, by name, so that a misread table is noticed."""
    shown = ", ".join(ballots.names[:_MOST_NAMES])
    more = f", ... ({len(ballots.names):,} in all)" if len(ballots.names) > _MOST_NAMES else ""
    return f"read {ballots.total:,} rankings of the items {shown}{more}"


def _finish(found: UniformityTest, path: Path, as_json: bool, ballots: Ballots | None = None) -> None:
    """Write the finding as JSON and as a figure, and show it."""
    from peerveil.files import write_text
    from peerveil.report import new_axes, safe_svg

    def drawn() -> Any:
        (ax,) = new_axes(height=4)
        found.plot(ax)
        ax.set_title(found.summary(), fontsize=9, loc="left")
        return ax

    picture = safe_svg(drawn, found.summary())
    written = [
        write_text(path.with_name(f"{path.name}.json"), found.to_json(indent=2) + "\n"),
        write_text(path.with_name(f"{path.name}.svg"), picture.alone()),
    ]
    lines = [] if ballots is None else [_read_items(ballots)]
    lines += [str(found), *(f"written: {one}" for one in written)]
    names = {} if ballots is None else {"item_names": list(ballots.names)}
    emit({**found.to_dict(), **names, "written": [str(one) for one in written]}, as_json, "\n".join(lines))


def _write_curve(found: PowerCurve, out: Path) -> Path:
    from peerveil.files import write_text
    from peerveil.report import house_style, new_axes, svg

    (ax,) = new_axes(height=4)
    with house_style():
        found.plot(ax)
    return write_text(out / "power.svg", svg(ax, str(found)).alone())
