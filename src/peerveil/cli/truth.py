"""``peerveil truth``: randomise answers, infer the truth from reports, and plan how many answers it takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from peerveil.cli.base import AsJson, Debug, check_spending, emit, example, new_group
from peerveil.errors import BadInput

if TYPE_CHECKING:
    from peerveil.truth import TruthPlan, TruthResult

app = new_group("truth", "Right answers from answers that were randomised on each person's device.")

Classes = Annotated[str | None, typer.Option(help="The classes, separated by commas, or how many there are.")]
Out = Annotated[Path, typer.Option(help="The folder to write to.")]
Columns = Annotated[
    str | None,
    typer.Option(help="Names of the columns, such as task=item,label=answer.", show_default="task, worker, label"),
]
Seed = Annotated[int | None, typer.Option(help="Simulate instead: repeatable, marked, not private.")]


@app.command("simulate", epilog=example("peerveil truth simulate answers.csv --tasks 200 --kind spammers"))
def simulate(
    file: Annotated[Path, typer.Argument(help="Where to write the answers: CSV, JSON lines or Parquet.")],
    tasks: Annotated[int, typer.Option(help="How many tasks.")] = 200,
    workers: Annotated[int, typer.Option(help="How many workers.")] = 30,
    answers: Annotated[int, typer.Option(help="How many workers answer each task.")] = 8,
    classes: Annotated[int, typer.Option(help="How many classes.")] = 2,
    kind: Annotated[
        str, typer.Option(help="one-coin, two-coin, biased, confusion, spammers, experts or hard-tasks.")
    ] = "one-coin",
    seed: Annotated[int, typer.Option(help="Another seed, another crowd.")] = 0,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Invent a crowd to try things on: answers with the truth beside them, not randomised."""
    import polars as pl

    from peerveil.judgements import Labels
    from peerveil.truth import simulate_crowd

    crowd = simulate_crowd(tasks, workers, answers, classes, kind=kind, epsilon=None, seed=seed)
    frame = crowd.answers.frame
    truth = pl.Series("truth", [crowd.truth[task] for task in frame["task"].to_list()])
    table = Labels.from_frame(frame.with_columns(truth))
    path = table.write(file)
    emit({"answers": len(table), "written": str(path)}, as_json, f"{table}\nwritten: {path}")


@app.command(
    "randomize",
    epilog=example(
        "peerveil truth randomize answers.csv --epsilon 1 --classes cat,dog",
        "peerveil truth randomize answers.csv --epsilon 4 --classes 2 --unit person --ledger budget.db --account study",
    ),
)
def randomize(
    file: Annotated[Path, typer.Argument(help="Answers: a table with columns task, worker and label.")],
    epsilon: Annotated[str, typer.Option(help="The privacy of one answer (or person): 1, 0.5 or 1/3.")],
    classes: Annotated[str, typer.Option(help="The classes, separated by commas, or how many there are.")],
    unit: Annotated[str, typer.Option(help="What epsilon is for: answer or person.")] = "answer",
    hide_tasks: Annotated[bool, typer.Option(help="Also hide which tasks a person answered.")] = False,
    tasks: Annotated[Path | None, typer.Option(help="With --hide-tasks: a file with all task ids, one a line.")] = None,
    ledger: Annotated[str | None, typer.Option(envvar="PEERVEIL_LEDGER", help="The ledger to debit.")] = None,
    account: Annotated[str | None, typer.Option(help="The account to debit; it must exist.")] = None,
    seed: Seed = None,
    columns: Columns = None,
    out: Out = Path("out/truth"),
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Randomise a table of answers as the persons' devices would; writes a file of reports with its promise."""
    from peerveil.judgements import Labels
    from peerveil.ledger import Ledger
    from peerveil.randomness import Randomness
    from peerveil.truth import randomize_answers, write_reports

    check_spending(ledger, account, seed)
    labels = Labels.read(file, columns=_columns(columns))
    listed = (
        None
        if tasks is None
        else [line.strip() for line in tasks.read_text(encoding="utf-8").splitlines() if line.strip()]
    )
    settings: dict[str, Any] = {
        "unit": unit,
        "hide_tasks": hide_tasks,
        "tasks": _as_ids(listed, labels),
        "randomness": None if seed is None else Randomness.simulation(seed),
    }
    if account is None or ledger is None:
        sent = randomize_answers(labels, epsilon, _classes(classes, labels), **settings)
    else:
        with Ledger.open(ledger, create=False) as book:
            sent = randomize_answers(
                labels, epsilon, _classes(classes, labels), account=book.account(account), **settings
            )
    path = write_reports(sent, out / "reports.jsonl")
    emit({**sent.to_dict(), "written": str(path)}, as_json, f"{sent}\nwritten: {path}")


@app.command(
    "infer",
    epilog=example(
        "peerveil truth infer out/truth/reports.jsonl",
        "peerveil truth infer answers.csv --epsilon 1",
        "peerveil truth infer 'reports/*.parquet' --epsilon 1 --engine duckdb",
    ),
)
def infer(
    file: Annotated[str, typer.Argument(help="Reports: a file of reports, a table, or Parquet files.")],
    epsilon: Annotated[
        str | None,
        typer.Option(help="Of one report; 'none' if not randomised.", show_default="as the file of reports says"),
    ] = None,
    model: Annotated[str, typer.Option(help="auto, one-coin, two-coin, confusion, as-printed or majority.")] = "auto",
    classes: Classes = None,
    class_prior: Annotated[str, typer.Option(help="shrunk, uniform or estimated.")] = "shrunk",
    engine: Annotated[str, typer.Option(help="auto, memory, duckdb or spark.")] = "auto",
    columns: Columns = None,
    out: Out = Path("out/truth"),
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Infer labels and abilities; writes labels (CSV), workers (CSV), everything (JSON) and a figure."""
    from peerveil.truth.wire import is_report_file

    if is_report_file(file):
        if epsilon is not None:
            raise BadInput("--epsilon", got=epsilon, want="nothing: the file of reports says it")
        result = _infer_reports(file, model, class_prior)
        truth = None
    else:
        if epsilon is None:
            raise BadInput("--epsilon", got=epsilon, want="the epsilon of one report, or 'none'")
        result, truth = _infer_table(file, epsilon, model, classes, class_prior, engine, columns)
    written = _write_result(result, out)
    scored = None if truth is None else result.accuracy(truth)
    lines = [str(result)]
    if result.evidence is not None:
        chances = ", ".join(f"{name} {100 * p:.0f}%" for name, p in result.evidence.probabilities.items())
        lines.append(f"Do workers have biases of their own? By the reports: {chances}.")
    if scored is not None:
        lines.append(f"Against known answers: accuracy {scored[0]:.3f}, balanced accuracy {scored[1]:.3f}.")
    lines += [f"Theory: {str(result.theory()).splitlines()[-1]}", *(f"written: {path}" for path in written)]
    data = {
        **result.to_dict(),
        "theory": result.theory().to_dict(),
        "accuracy": None if scored is None else scored[0],
        "balanced_accuracy": None if scored is None else scored[1],
        "written": [str(path) for path in written],
    }
    emit(data, as_json, "\n".join(lines))


@app.command(
    "plan", epilog=example("peerveil truth plan --accuracy 0.9", "peerveil truth plan --epsilons 1,2 --classes 4")
)
def plan(
    accuracy: Annotated[float, typer.Option(help="The share of right labels to reach.")] = 0.9,
    epsilons: Annotated[str, typer.Option(help="Which to try, separated by commas.")] = "0.5,1,2,4",
    classes: Annotated[int, typer.Option(help="How many classes there are.")] = 2,
    ability: Annotated[str, typer.Option(help="The Beta distribution of abilities.")] = "4,2",
    tasks: Annotated[int, typer.Option(help="Tasks of a simulated crowd.")] = 300,
    trials: Annotated[int, typer.Option(help="Simulated crowds for each number of answers.")] = 3,
    out: Out = Path("out/truth"),
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """How many answers a task an accuracy takes at each epsilon, by simulation."""
    from peerveil.truth import plan_truth

    try:
        a, b = (float(part) for part in ability.split(","))
    except ValueError:
        raise BadInput("--ability", got=ability, want="two numbers, such as 4,2") from None
    wanted = [text.strip() for text in epsilons.split(",")]
    found = plan_truth(accuracy, wanted, classes=classes, ability=(a, b), tasks=tasks, trials=trials)
    path = _write_plan(found, out)
    emit({**found.to_dict(), "written": [str(path)]}, as_json, f"{found}\nwritten: {path}")


def _infer_reports(file: str, model: str, class_prior: str) -> TruthResult:
    from peerveil.truth import PrivateMajority, read_reports

    collected = read_reports(file)
    if model == "majority":
        if collected.missing is not None:
            raise BadInput("--model", got=model, want="another model for reports that hide which tasks were answered")
        listed = list(collected.response.labels or range(collected.response.k))
        estimator = PrivateMajority(collected.response.exact_epsilon, classes=listed)
        return estimator.fit(collected.reports, guarantee=collected.guarantee)
    return collected.fit(model, class_prior=class_prior)


def _infer_table(
    file: str, epsilon: str, model: str, classes: str | None, class_prior: str, engine: str, columns: str | None
) -> tuple[TruthResult, Any]:
    from peerveil.judgements import Labels
    from peerveil.truth import PrivateDawidSkene, PrivateMajority

    each = None if epsilon.strip().lower() == "none" else epsilon
    in_database = engine in ("duckdb", "spark") or "*" in file
    labels: Any = file if in_database else Labels.read(file, columns=_columns(columns))
    listed = None if classes is None else _classes(classes, None if in_database else labels)
    if model == "majority":
        result = PrivateMajority(each, classes=listed).fit(Labels.read(file) if in_database else labels)
    else:
        estimator = PrivateDawidSkene(each, model, classes=listed, class_prior=class_prior)
        result = estimator.fit(labels, engine=engine)
    truth = None if in_database or not labels.has_truth else labels.truths()
    return result, truth


def _classes(text: str, labels: Any) -> int | list[Any]:
    """A count, or a list of the kind that the table holds."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) == 1:
        if not parts[0].isdecimal():
            raise BadInput("--classes", got=text, want="classes separated by commas, or how many there are")
        return int(parts[0])
    kind = None if labels is None else labels.frame["label"].dtype
    if str(kind) == "Boolean":
        return [part.lower() in ("true", "yes", "1") for part in parts]
    if all(part.lstrip("-").isdecimal() for part in parts) and str(kind) in ("Int64", "None"):
        return [int(part) for part in parts]
    return list(parts)


def _as_ids(listed: list[str] | None, labels: Any) -> list[Any] | None:
    if listed is None or str(labels.frame["task"].dtype) != "Int64":
        return listed
    try:
        return [int(value) for value in listed]
    except ValueError:
        raise BadInput("--tasks", got=listed[:3], want="whole numbers, like the ids in the answers") from None


def _columns(text: str | None) -> dict[str, str] | None:
    if text is None:
        return None
    pairs = [part.split("=") for part in text.split(",")]
    if any(len(pair) != 2 for pair in pairs):
        raise BadInput("--columns", got=text, want="pairs such as task=item,label=answer")
    return {ours.strip(): theirs.strip() for ours, theirs in pairs}


def _write_result(result: TruthResult, out: Path) -> list[Path]:
    from peerveil.files import write_text
    from peerveil.judgements.writing import write_frame
    from peerveil.report import house_style, new_axes, svg

    (ax,) = new_axes(height=4)
    with house_style():
        result.plot(ax)
        picture = svg(ax, result.summary())
    return [
        result.write(out / "labels.csv"),
        write_frame(result.worker_frame(), out / "workers.csv"),
        write_text(out / "truth.json", result.to_json(indent=2) + "\n"),
        write_text(out / "abilities.svg", _alone(picture)),
    ]


def _write_plan(found: TruthPlan, out: Path) -> Path:
    from peerveil.files import write_text
    from peerveil.report import house_style, new_axes, svg

    (ax,) = new_axes(height=4)
    with house_style():
        found.plot(ax)
    return write_text(out / "plan.svg", _alone(svg(ax, found.advice())))


def _alone(picture: str) -> str:
    """A picture in a file of its own: on white, in dark ink."""
    return picture.replace("<svg ", '<svg style="color: #1b1f24; background: #ffffff" ', 1)
