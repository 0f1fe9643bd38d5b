"""``peerveil timing``: see how exposed people are by when they post, choose a delay, apply it."""

from __future__ import annotations

from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from peerveil.cli.base import (
    AsJson,
    Column,
    Debug,
    Force,
    check_new,
    columns_named,
    emit,
    example,
    new_group,
    print_table,
)
from peerveil.errors import BadInput

app = new_group("timing", "When people post: see what it gives away, choose a delay, apply it.")

File = Annotated[Path, typer.Argument(help="Events: CSV, Parquet, JSON lines, or an export of a platform.")]
Format = Annotated[str | None, typer.Option("--format", help="The file's format.", show_default="recognised")]
Zone = Annotated[str | None, typer.Option("--time-zone", help="The zone of times that name none.", show_default="UTC")]
Window = Annotated[str, typer.Option(help="Comments of one person this close are one sitting: 90s, 5m, 1h.")]
Gap = Annotated[str | None, typer.Option(help="How far apart lone comments may be and still be covered: 45m, 2h.")]


class Kind(StrEnum):
    """The mechanisms."""

    follow_up = "follow-up"
    zero_inflated = "zero-inflated"
    uniform = "uniform"
    exponential = "exponential"
    staircase = "staircase"
    queue = "queue"


class Engine(StrEnum):
    """Where an audit is counted."""

    memory = "memory"
    duckdb = "duckdb"
    spark = "spark"


@app.command(
    "audit",
    epilog=example(
        "peerveil timing audit events.csv --out audit.html",
        "peerveil timing audit 'log/*.parquet' --engine duckdb --memory 2GB",
    ),
)
def audit(
    file: File,
    window: Window = "5m",
    gap: Gap = None,
    percentile: Annotated[float, typer.Option(help="Without --gap: the percentile of the log's own intervals.")] = 50,
    epsilon: Annotated[list[str] | None, typer.Option(help="Strengths to try.", show_default="0.5, 1, 2")] = None,
    within: Annotated[str | None, typer.Option(help="Compare only posts with the same value of this column.")] = None,
    suspects: Annotated[int, typer.Option(help="How many people an observer suspects at first.")] = 10,
    engine: Annotated[
        Engine, typer.Option(help="Where to count: for logs beyond memory, a Parquet file.")
    ] = Engine.memory,
    memory: Annotated[str | None, typer.Option(help="With --engine: the most memory to use, such as 2GB.")] = None,
    posted: Annotated[
        str | None, typer.Option(help="With --engine: the column with posting times, to attack these.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the report as a page: audit.html.")] = None,
    force: Force = False,
    column: Column = None,
    format_: Format = None,
    time_zone: Zone = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Audit a log: the leak, the attack before and after, delays, other leaks, and what to do."""
    from peerveil.timing import audit_log
    from peerveil.timing.durations import parse_duration
    from peerveil.timing.exposure import as_typed
    from peerveil.timing.figures import audit_page

    if engine is not Engine.memory:
        if any((gap, epsilon, within, out, column, format_, time_zone)):
            want = "only --window, --memory, --posted and --json: a database counts, and draws no delays"
            raise BadInput("--engine", got=engine.value, want=want)
        _count(file, parse_duration(window, "--window"), engine.value, memory, posted, as_json)
        return
    if memory or posted:
        raise BadInput(
            "--memory" if memory else "--posted", got=memory or posted, want="--engine duckdb or spark with it"
        )
    check_new(out, force, name="--out")
    events = _read(file, column, format_, time_zone, within)
    found = audit_log(
        events,
        window=parse_duration(window, "--window"),
        gap=None if gap is None else parse_duration(gap, "--gap"),
        percentile=percentile,
        epsilons=epsilon or ["0.5", "1", "2"],
        within=within,
        suspects=suspects,
        progress=None,
    )
    found = replace(found, log=as_typed(file, columns_named(column) or {}, format_, time_zone))
    if out is not None:
        audit_page(found, events).write(out, private=True)

    def show() -> None:
        head, rows = found.comparison()
        typer.echo(f"{found.headline}\n{found.leak}\n")
        print_table(
            ["epsilon", *head[1:7], "best test wrong", "order known", "all history"],
            [row[:10] for row in rows],
            title="what delays would do",
        )
        typer.echo("\n" + "\n\n".join(text for line in found.advice for text in line.paragraphs()))
        typer.echo("\nFor the operator only: these are facts about the people in the log.")
        if out:
            typer.echo(f"written: {out}")

    emit({**found.to_dict(), "written": None if out is None else str(out)}, as_json, show)


def _count(file: Path, window: float, engine: str, memory: str | None, posted: str | None, as_json: bool) -> None:
    """The rates and the attack, counted in a database."""
    from peerveil.timing import audit_table

    found = audit_table(file, window=window, engine=engine, memory=memory, posted=posted)
    emit(
        {**found.to_dict(), "engine": engine},
        as_json,
        f"{found}\nFor the operator only: facts about the people in the log.",
    )


@app.command("choose", epilog=example("peerveil timing choose lastyear.csv --crossover 0.25 --epsilon 0.8"))
def choose(
    file: File,
    percentile: Annotated[float | None, typer.Option(help="Cover this percentage of history.")] = None,
    crossover: Annotated[float | None, typer.Option(help="Leave every test at least this cross-over error.")] = None,
    epsilon: Annotated[str, typer.Option(help="The guarantee for a pair of comments.")] = "1",
    window: Window = "5m",
    per: Annotated[
        str | None, typer.Option(help="Also a gap for each value of this column: thread, or a group.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="With --per: write these gaps, for `post --gaps`.")] = None,
    force: Force = False,
    column: Column = None,
    format_: Format = None,
    time_zone: Zone = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Choose a gap from history, and show what delays it would cost under each mechanism."""
    from peerveil.timing import plan_delays
    from peerveil.timing.durations import in_words, parse_duration

    if out is not None and per is None:
        raise BadInput("--out", got=str(out), want="--per with it: which groups get their own gap")
    check_new(out, force, name="--out")
    events = _read(file, column, format_, time_zone, per)
    plan = plan_delays(
        events,
        epsilon=epsilon,
        window=parse_duration(window, "--window"),
        percentile=percentile,
        crossover=crossover,
        per=per,
    )
    groups = {str(name): value for name, value in plan.gaps.items()}
    if out is not None:
        _write_gaps(out, str(per), groups)
    data = {
        "gap": plan.gap,
        "covered": plan.covered,
        "gaps": groups,
        "mechanisms": [asdict(cost) for cost in plan.mechanisms],
    }

    def table() -> None:
        typer.echo(
            f"gap: {in_words(plan.gap)} ({plan.gap:.0f} seconds), which covers {100 * plan.covered:.3g}% of history"
        )
        print_table(
            ("mechanism", "batched, mean", "others, mean", "longest"),
            [
                (cost.mechanism, *(in_words(x) for x in (cost.mean_batched, cost.mean_unbatched, cost.max_delay)))
                for cost in plan.mechanisms
            ],
            title=f"delays at epsilon {epsilon}, holds included",
        )
        if per:
            rows = sorted(groups.items(), key=lambda pair: pair[1])
            shown = rows if len(rows) <= 20 else [*rows[:10], *rows[-10:]]
            print_table((per, "gap"), [(name, in_words(value)) for name, value in shown], title=f"a gap for each {per}")
            if len(rows) > 20:
                typer.echo(f"the 10 shortest and the 10 longest of {len(rows):,}")
        if out is not None:
            typer.echo(f"written: {out}")

    emit(data, as_json, table)


@app.command(
    "post", epilog=example("peerveil timing post events.csv --gap 45m --epsilon 1 --out public.csv --schedule mine.csv")
)
def post_log(
    file: File,
    out: Annotated[Path, typer.Option(help="Where to write what the public sees: .csv, .jsonl or .parquet.")],
    gap: Gap = None,
    epsilon: Annotated[str, typer.Option(help="The guarantee for a pair of comments.")] = "1",
    window: Window = "5m",
    mechanism: Annotated[Kind, typer.Option(help="How to delay.")] = Kind.follow_up,
    weight: Annotated[float, typer.Option(help="Weight of batched comments in the mean delay to minimise.")] = 1.0,
    step: Annotated[str, typer.Option(help="For the queue: its clock.")] = "1m",
    gaps: Annotated[
        Path | None, typer.Option(help="A gap for each group, as `choose --per COLUMN --out` wrote it.")
    ] = None,
    causal: Annotated[bool, typer.Option(help="Replies never before what they answer.")] = True,
    schedule: Annotated[
        Path | None, typer.Option(help="Also write, for you alone: row, id, thread, public id, when to post.")
    ] = None,
    column: Column = None,
    format_: Format = None,
    time_zone: Zone = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Draw every delay once, with the operating system's randomness, and write what the public sees.

    With --schedule also what you need to post it: which post of yours gets which public id, and when.
    """
    from peerveil.judgements.writing import WRITABLE, write_frame
    from peerveil.timing import post
    from peerveil.timing.durations import parse_duration

    by, own = ("thread", None) if gaps is None else _read_gaps(gaps)
    events = _read(file, column, format_, time_zone, by)
    for name, target in (("--out", out), ("--schedule", schedule)):
        if target is not None and target.exists():
            want = "a new file: delays are drawn once, and never again for the same log"
            raise BadInput(name, got=str(target), want=want)
        if target is not None and not target.name.lower().removesuffix(".gz").endswith(
            (".csv", ".tsv", ".jsonl", ".parquet")
        ):
            raise BadInput(name, got=str(target), want=f"a file name ending in {WRITABLE}")
    if schedule is not None and schedule.resolve() == out.resolve():
        raise BadInput("--schedule", got=str(schedule), want="another file than --out: it links public ids to yours")
    beta = parse_duration(window, "--window")
    chosen = _mechanism(mechanism, epsilon, gap, beta, weight, parse_duration(step, "--step"))
    posted, delays = post(events, mechanism=chosen, causal=causal, gaps=own, by=by)
    if schedule is not None:
        write_frame(delays.frame(), schedule, private=True)
    write_frame(posted.frame(), out)
    data = {
        "written": str(out),
        "summary": posted.summary(),
        "guarantee": str(posted.guarantee),
        "mark": posted.mark,
        "for_the_operator_only": {
            "schedule": None if schedule is None else str(schedule),
            "delays": delays.summary(),
        },
    }
    promise = f"\n{chosen.promise}" if mechanism is Kind.queue else ""
    mine = "" if schedule is None else f"\nwritten, for the operator only: {schedule}"
    text = f"{posted}{promise}\nwritten, for the public: {out}{mine}\n\nFor the operator only: {delays}."
    emit(data, as_json, text)


def _write_gaps(out: Path, per: str, gaps: dict[str, float]) -> None:
    """A gap for each group, as `post --gaps` takes them."""
    import polars as pl

    from peerveil.judgements.writing import write_frame

    write_frame(pl.DataFrame({per: list(gaps), "gap": list(gaps.values())}), out)


def _read_gaps(path: Path) -> tuple[str, dict[Any, float]]:
    """The column and the gap of each of its values; whole numbers are numbers."""
    import polars as pl

    want = "a CSV file with two columns, a name and gap (seconds), as `peerveil timing choose --per` writes it"
    try:
        frame = pl.read_csv(path)
    except (OSError, pl.exceptions.PolarsError):
        raise BadInput("--gaps", got=str(path), want=want) from None
    if len(frame.columns) != 2 or frame.columns[1] != "gap" or not frame["gap"].dtype.is_numeric():
        raise BadInput("--gaps", got=frame.columns, want=want)
    return frame.columns[0], dict(zip(frame.to_series(0).to_list(), frame["gap"].to_list(), strict=True))


def _mechanism(kind: Kind, epsilon: str, gap: str | None, beta: float, weight: float, step: float) -> Any:
    from peerveil import timing
    from peerveil.timing.durations import parse_duration

    if kind is Kind.queue:
        return timing.Queue(step=step)
    if gap is None:
        raise BadInput(
            "--gap", got=None, want="a duration such as 45m; `peerveil timing choose` proposes one from history"
        )
    seconds = parse_duration(gap, "--gap")
    match kind:
        case Kind.follow_up:
            return timing.FollowUp(epsilon=epsilon, gap=seconds, beta=beta, weight=weight)
        case Kind.zero_inflated:
            return timing.ZeroInflatedUniform(epsilon=epsilon, gap=seconds, weight=weight, beta=beta)
        case _:
            return getattr(timing, kind.value.capitalize())(epsilon=epsilon, gap=seconds, beta=beta)


def _read(file: Path, column: list[str] | None, format_: str | None, zone: str | None, within: str | None) -> Any:
    from peerveil.judgements import Events
    from peerveil.judgements.events import ORDER_LEAKS

    options: dict[str, Any] = {"columns": columns_named(column), "time_zone": zone}
    if within and within not in ("actor", "thread"):
        # naming one further column must not drop those that can give an order away
        plain = Events.read(file, format_, **options)
        leaks = [name for name in plain.extra if name in ORDER_LEAKS]
        return Events.read(file, format_, extra=[*leaks, *({within} - set(leaks))], **options)
    return Events.read(file, format_, **options)
