"""``peerveil release``: publish the distribution of reviewers' means, and choose its epsilon first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from peerveil.cli.base import (
    NOT_COUNTED,
    AsJson,
    Column,
    Debug,
    Force,
    check_folder,
    check_new,
    check_spending,
    columns_named,
    emit,
    example,
    new_group,
)
from peerveil.errors import BadInput

if TYPE_CHECKING:
    from peerveil.judgements import Reviews
    from peerveil.release import PublishedMeans, ReleasePlan

app = new_group("release", "Publish how reviewers score, without saying who wrote what.")

File = Annotated[Path, typer.Argument(help="Reviews: CSV, Parquet, JSON lines, or a platform's export.")]
Weight = Annotated[str, typer.Option(help="rating, miscalibration, normalised or subjectivity.")]
Scale = Annotated[
    str | None, typer.Option(help="The lowest and highest possible score, such as 1:10.", show_default="as seen")
]
Format = Annotated[str | None, typer.Option("--format", help="The file's format.", show_default="recognised")]
Out = Annotated[Path, typer.Option(help="The folder to write to.")]


@app.command(
    "means",
    epilog=example(
        "peerveil release means reviews.csv --epsilon 1 --scale 1:10",
        "peerveil release means reviews.csv --weight miscalibration --epsilon 1 --ledger budget.db --account iclr-2026",
    ),
)
def means(
    file: File,
    epsilon: Annotated[str, typer.Option(help="The privacy of one exchange of reviews: 1, 0.5 or 1/3.")],
    weight: Weight = "rating",
    scale: Scale = None,
    bounds: Annotated[str, typer.Option(help="How the feasible region is bounded: counting or range.")] = "counting",
    estimate: Annotated[str, typer.Option(help="auto (shrinkage), projection or none.")] = "auto",
    ledger: Annotated[str | None, typer.Option(envvar="PEERVEIL_LEDGER", help="The ledger to debit.")] = None,
    account: Annotated[str | None, typer.Option(help="The account to debit; it must exist.")] = None,
    seed: Annotated[int | None, typer.Option(help="Simulate instead: repeatable, marked, not private.")] = None,
    out: Out = Path("out/release"),
    force: Force = False,
    format_: Format = None,
    column: Column = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Publish the distribution of reviewers' mean weights: CSV, JSON and a figure, with its guarantee in words.

    It assumes that the scores of every paper and how many reviews each reviewer wrote are public. Miscalibration says how strict
    a reviewer is beside the others of the same papers: below 0 is stricter. What an epsilon buys: peerveil release plan.
    """
    from peerveil.judgements import Reviews
    from peerveil.ledger import Ledger
    from peerveil.randomness import Randomness
    from peerveil.release import publish

    check_spending(ledger, account, seed)
    check_folder(out)
    for path in _published_files(weight, out):
        check_new(path, force, cost="; another release costs its own epsilon")
    reviews = Reviews.read(file, format=format_, columns=columns_named(column))
    settings: dict[str, Any] = {
        "epsilon": epsilon,
        "weight": weight,
        "bounds": bounds,
        "estimate": estimate,
        "scale": _scale(scale),
        "randomness": None if seed is None else Randomness.simulation(seed),
    }
    if ledger is None:
        published = publish(reviews, **settings)
    else:
        with Ledger.open(ledger, create=False) as book:
            published = publish(reviews, account=book.account(str(account)), **settings)
    written = _write_published(published, out)
    lines = [str(published), *(f"written: {path}" for path in written)]
    if ledger is None and seed is None:
        lines.append(NOT_COUNTED)
    text = "\n".join(lines)
    emit({**published.to_dict(), "written": [str(path) for path in written]}, as_json, text)


@app.command("plan", epilog=example("peerveil release plan reviews.csv --weight miscalibration --scale 1:10"))
def plan(
    file: File,
    weight: Weight = "rating",
    scale: Scale = None,
    epsilons: Annotated[str, typer.Option(help="Which to try, separated by commas.")] = "0.1,0.3,1,3,10,30,100",
    trials: Annotated[int, typer.Option(help="Simulated releases for each epsilon.")] = 20,
    out: Out = Path("out/release"),
    format_: Format = None,
    column: Column = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Show what each epsilon would buy. Only public data are used, so that looking costs nothing."""
    from peerveil.judgements import Reviews
    from peerveil.release import plan_release

    reviews: Reviews = Reviews.read(file, format=format_, columns=columns_named(column))
    wanted = [text.strip() for text in epsilons.split(",")]
    found = plan_release(reviews, epsilons=wanted, weight=weight, scale=_scale(scale), trials=trials)
    path = _write_plan(found, out)
    emit({**found.to_dict(), "written": [str(path)]}, as_json, f"{found}\nwritten: {path}")


def _scale(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(":"))
    except ValueError:
        raise BadInput("--scale", got=text, want="the lowest and highest possible score, such as 1:10") from None
    return low, high


def _write_published(published: PublishedMeans, out: Path) -> list[Path]:
    """What may be published: the means and the region as CSV, everything as JSON, and the figure."""
    from peerveil.files import write_text
    from peerveil.release.figures import draw_release
    from peerveil.report import new_axes, safe_svg

    def drawn() -> Any:
        left, right = new_axes(width=8, height=4, columns=2)
        draw_release(published, left, right)
        left.get_figure(root=True).suptitle(  # type: ignore[union-attr]
            "\n".join(_wrap(published.guarantee.short)), fontsize=9, x=0.01, ha="left"
        )
        return left

    picture = safe_svg(drawn, f"{published.summary()}. {published.beyond_public()}")
    contents = (published.to_csv(), published.to_json(indent=2) + "\n", picture.alone())
    files = _published_files(published.weight, out)
    return [write_text(path, content) for path, content in zip(files, contents, strict=True)]


def _published_files(weight: str, out: Path) -> list[Path]:
    return [out / f"means-{weight}.{suffix}" for suffix in ("csv", "json", "svg")]


def _write_plan(found: ReleasePlan, out: Path) -> Path:
    from peerveil.files import write_text
    from peerveil.report import house_style, new_axes, svg

    (ax,) = new_axes(height=4)
    with house_style():
        found.plot(ax)
    return write_text(out / f"plan-{found.weight}.svg", svg(ax, found.recommendation).alone())


def _wrap(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, 100)
