"""``peerveil truth``: randomise answers, infer the truth from reports, and plan how many answers it takes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from peerveil.cli.base import (
    AsJson,
    Column,
    Debug,
    Force,
    check_folder,
    check_keeps,
    check_new,
    check_spending,
    columns_named,
    emit,
    example,
    new_group,
    write_picture,
)
from peerveil.cli.inferring import check_stated, infer_reports, infer_table, read_classes
from peerveil.errors import BadInput

if TYPE_CHECKING:
    from peerveil.truth import TruthResult
    from peerveil.truth.outcome import WorkerAbilities

_PUBLIC = ("labels.csv", "truth.json", "abilities.svg")
_WORKERS = "workers.csv"

app = new_group("truth", "Right answers from answers that were randomised on each person's device.")

_CLASSES = "The classes, separated by commas: yes,no. A number k stands for the labels 0 to k - 1."
Classes = Annotated[str | None, typer.Option(help=_CLASSES)]
Out = Annotated[Path, typer.Option(help="The folder to write to.")]
Unit = Annotated[str, typer.Option(help="What epsilon is for: answer, or person (all answers of one person together).")]
Seed = Annotated[int | None, typer.Option(help="Simulate instead: repeatable, marked, not private.")]


@app.command("simulate", epilog=example("peerveil truth simulate invented.csv --tasks 200 --kind spammers"))
def simulate(
    file: Annotated[Path, typer.Argument(help="A new file for invented answers: CSV, JSON lines or Parquet.")],
    tasks: Annotated[int, typer.Option(help="How many tasks.")] = 200,
    workers: Annotated[int, typer.Option(help="How many workers.")] = 30,
    answers: Annotated[int, typer.Option(help="How many workers answer each task.")] = 8,
    classes: Annotated[str, typer.Option(help="How many classes, or their names: yes,no.")] = "2",
    kind: Annotated[
        str, typer.Option(help="one-coin, two-coin, biased, confusion, spammers, experts or hard-tasks.")
    ] = "one-coin",
    seed: Annotated[int, typer.Option(help="Another seed, another crowd.")] = 0,
    force: Force = False,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Invent a crowd to try things on: answers with the truth beside them, not randomised."""
    import polars as pl

    from peerveil.judgements import Labels
    from peerveil.judgements.labels import check_classes
    from peerveil.truth import simulate_crowd

    check_new(file, force)
    names = check_classes(read_classes(classes, None))
    crowd = simulate_crowd(tasks, workers, answers, len(names), kind=kind, epsilon=None, seed=seed)
    frame = crowd.answers.frame
    truth = [names[crowd.truth[task]] for task in frame["task"].to_list()]
    said = [names[code] for code in frame["label"].to_list()]
    table = Labels.from_frame(frame.with_columns(pl.Series("label", said), pl.Series("truth", truth)))
    path = table.write(file)
    emit({"answers": len(table), "written": str(path)}, as_json, f"{table}\nwritten: {path}")


@app.command(
    "randomize",
    epilog=example(
        "peerveil truth randomize answers.csv --epsilon 1 --classes cat,dog",
        "peerveil truth randomize answers.csv --epsilon 4 --classes yes,no --unit person --ledger budget.db --account study",
    ),
)
def randomize(
    file: Annotated[Path, typer.Argument(help="Answers: a table with columns task, worker and label.")],
    epsilon: Annotated[str, typer.Option(help="The privacy of one answer (or person): 1, 0.5 or 1/3.")],
    classes: Annotated[str, typer.Option(help=_CLASSES)],
    unit: Unit = "answer",
    hide_tasks: Annotated[bool, typer.Option(help="Also hide which tasks a person answered.")] = False,
    tasks: Annotated[Path | None, typer.Option(help="With --hide-tasks: a file with all task ids, one a line.")] = None,
    ledger: Annotated[str | None, typer.Option(envvar="PEERVEIL_LEDGER", help="The ledger to debit.")] = None,
    account: Annotated[str | None, typer.Option(help="The account to debit; it must exist.")] = None,
    seed: Seed = None,
    column: Column = None,
    out: Out = Path("out/truth"),
    force: Force = False,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Randomise a table of answers as the persons' devices would; writes a file of reports with its promise."""
    from peerveil.judgements import Labels
    from peerveil.ledger import Ledger
    from peerveil.randomness import Randomness
    from peerveil.truth import randomize_answers, write_reports

    check_spending(ledger, account, seed)
    check_folder(out)
    cost = (
        f"; a second draw from the same answers costs another epsilon {epsilon}, so keep the first if you published it"
    )
    check_new(out / "reports.jsonl", force, cost=cost)
    labels = Labels.read(file, columns=columns_named(column))
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
        sent, collected = randomize_answers(labels, epsilon=epsilon, classes=read_classes(classes, labels), **settings)
    else:
        with Ledger.open(ledger, create=False) as book:
            sent, collected = randomize_answers(
                labels,
                epsilon=epsilon,
                classes=read_classes(classes, labels),
                account=book.account(account),
                **settings,
            )
    path = write_reports(collected, out / "reports.jsonl")
    text = f"{sent}\nwritten, for you alone since it holds the workers' ids: {path}"
    emit({**sent.to_dict(), "written": str(path)}, as_json, text)


@app.command(
    "infer",
    epilog=example(
        "peerveil truth infer out/truth/reports.jsonl",
        "peerveil truth infer reports.csv --randomized --epsilon 1",
        "peerveil truth infer answers.csv --epsilon none",
        "peerveil truth infer 'reports/*.parquet' --randomized --epsilon 1 --engine duckdb",
    ),
)
def infer(
    file: Annotated[str, typer.Argument(help="Reports: a file of reports, a table, or Parquet files.")],
    epsilon: Annotated[
        str | None,
        typer.Option(
            help="With which each answer was randomised; 'none' for answers that were not.",
            show_default="as the file of reports says",
        ),
    ] = None,
    randomized: Annotated[
        bool,
        typer.Option("--randomized", help="Each answer was randomized, with --epsilon, on the person's own device."),
    ] = False,
    model: Annotated[str, typer.Option(help="auto, one-coin, two-coin, confusion or majority.")] = "auto",
    classes: Classes = None,
    class_prior: Annotated[str, typer.Option(help="shrunk, uniform or estimated.")] = "shrunk",
    engine: Annotated[str, typer.Option(help="auto, memory, duckdb or spark.")] = "auto",
    column: Column = None,
    out: Out = Path("out/truth"),
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Infer labels and abilities. Files that may be published go to public/, those that name workers to private/."""
    from peerveil.judgements.readers.files import InputFile
    from peerveil.truth.estimate import MODELS
    from peerveil.truth.wire import is_report_file

    if model not in (*MODELS, "majority"):
        raise BadInput("--model", got=model, want=f"one of {', '.join(MODELS)}, majority")
    if "*" not in file:
        InputFile.open(file)  # says so if there is none, before anything else is asked
    folders = (out / "public", out / "private")
    check_keeps(file, *(folder / name for folder in folders for name in (*_PUBLIC, _WORKERS)))
    reported = is_report_file(file)
    if reported:
        if epsilon is not None:
            raise BadInput("--epsilon", got=epsilon, want="nothing: the file of reports says it")
        result, workers = infer_reports(file, model, class_prior)
        truth = None
    else:
        if epsilon is None:
            want = (
                "the epsilon with which each answer was randomised, or 'none' if these are answers as people gave them"
            )
            raise BadInput("--epsilon", got=epsilon, want=want)
        check_stated(epsilon, randomized)
        result, workers, truth = infer_table(file, epsilon, model, classes, class_prior, engine, column)
    written = _write_result(result, workers, out)
    scored = None if truth is None else result.accuracy(truth)
    lines = [str(result)]
    if result.evidence is not None:
        lines.append(result.evidence.in_words)
    if classes is None and not reported:
        seen = ", ".join(map(str, result.classes))
        lines.append(f"Classes seen: {seen}. If there are others, name all with --classes: the result depends on it.")
    if scored is not None:
        lines.append(f"Against known answers: accuracy {scored[0]:.3f}, balanced accuracy {scored[1]:.3f}.")
    lines += [f"written: {path}" for path in written]
    if result.mark is not None:
        lines.append(f"Nothing of this may be published: {result.mark}.")
    data = {
        **result.to_dict(),
        "accuracy": None if scored is None else scored[0],
        "balanced_accuracy": None if scored is None else scored[1],
        "written": [str(path) for path in written],
    }
    emit(data, as_json, "\n".join(lines))


@app.command(
    "compare",
    epilog=example(
        "peerveil truth compare answers.csv --epsilons 0.5,1,2,4",
        "peerveil truth compare answers.csv --unit person --epsilons 4,8",
    ),
)
def compare(
    file: Annotated[Path, typer.Argument(help="Answers, not randomised: columns task, worker, label, perhaps truth.")],
    epsilons: Annotated[str, typer.Option(help="Which to try, separated by commas.")] = "0.5,1,2,4",
    unit: Unit = "answer",
    classes: Classes = None,
    model: Annotated[str, typer.Option(help="auto, one-coin, two-coin or confusion.")] = "auto",
    draws: Annotated[int, typer.Option(help="How often the answers are randomised for each epsilon.")] = 10,
    seed: Annotated[int, typer.Option(help="Another seed, other draws.")] = 0,
    column: Column = None,
    out: Out = Path("out/truth"),
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """What would I lose on my own answers? Labels with and without privacy, by simulation; for you, not to publish."""
    from peerveil.files import write_text
    from peerveil.judgements import Labels
    from peerveil.truth import compare_truth

    check_keeps(file, out / "compare.json")
    labels = Labels.read(file, columns=columns_named(column))
    listed = None if classes is None else read_classes(classes, labels)
    found = compare_truth(
        labels, epsilons=_listed(epsilons), unit=unit, classes=listed, model=model, draws=draws, seed=seed
    )
    written = [
        write_text(out / "compare.json", found.to_json(indent=2) + "\n"),
        write_picture(found.plot, out / "compare.svg", found.summary()),
    ]
    lines = [str(found), *(f"written, not for publication: {path}" for path in written)]
    emit({**found.to_dict(), "written": [str(path) for path in written]}, as_json, "\n".join(lines))


@app.command(
    "plan",
    epilog=example(
        "peerveil truth plan --accuracy 0.9 --epsilons none,1,2",
        "peerveil truth plan --epsilons 1,2 --classes 4",
        "peerveil truth plan --like out/truth/private/workers.csv",
    ),
)
def plan(
    accuracy: Annotated[float, typer.Option(help="The share of right labels to reach.")] = 0.9,
    epsilons: Annotated[
        str, typer.Option(help="Which to try, separated by commas; none for no privacy.")
    ] = "0.5,1,2,4",
    classes: Annotated[int, typer.Option(help="How many classes there are.")] = 2,
    ability: Annotated[
        str,
        typer.Option(
            help="How able people are, two numbers a,b (a Beta distribution): on average a/(a+b) of a person's answers are "
            "right, here two thirds; people differ less the larger a+b is."
        ),
    ] = "4,2",
    like: Annotated[
        Path | None,
        typer.Option(help="Instead of --ability: people as able as these (private/workers.csv of an earlier infer)."),
    ] = None,
    tasks: Annotated[int, typer.Option(help="Tasks of a simulated crowd.")] = 300,
    trials: Annotated[int, typer.Option(help="Simulated crowds for each number of answers.")] = 3,
    out: Out = Path("out/truth"),
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """How many answers a task an accuracy takes at each epsilon, by simulation."""
    from peerveil.truth import abilities_like, plan_truth

    if like is not None and ability != "4,2":
        raise BadInput("--like", got=str(like), want="either --like or --ability")
    a, b = _pair(ability) if like is None else abilities_like(like)
    found = plan_truth(
        accuracy=accuracy, epsilons=_listed(epsilons), classes=classes, ability=(a, b), tasks=tasks, trials=trials
    )
    path = write_picture(found.plot, out / "plan.svg", found.recommendation)
    head = (
        "" if like is None else f"people like those of {like}: {100 * a / (a + b):.0f}% of answers right on average\n"
    )
    emit({**found.to_dict(), "written": [str(path)]}, as_json, f"{head}{found}\nwritten: {path}")


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _pair(ability: str) -> tuple[float, float]:
    want = "two numbers above 0, such as 4,2: on average 4/(4+2) of a person's answers are right"
    try:
        a, b = (float(part) for part in ability.split(","))
    except ValueError:
        raise BadInput("--ability", got=ability, want=want) from None
    if not (0 < a < math.inf and 0 < b < math.inf):
        raise BadInput("--ability", got=ability, want=want)
    return a, b


def _as_ids(listed: list[str] | None, labels: Any) -> list[Any] | None:
    if listed is None or str(labels.frame["task"].dtype) != "Int64":
        return listed
    try:
        return [int(value) for value in listed]
    except ValueError:
        raise BadInput("--tasks", got=listed[:3], want="whole numbers, like the ids in the answers") from None


def _write_result(result: TruthResult, workers: WorkerAbilities, out: Path) -> list[Path]:
    """Workers are private; so is everything of a result that carries a mark."""
    from peerveil.files import write_text
    from peerveil.judgements.writing import write_frame

    private = out / "private"
    private.mkdir(parents=True, exist_ok=True, mode=0o700)
    marked = result.mark is not None
    folder = private if marked else out / "public"
    labels, everything, picture = (folder / name for name in _PUBLIC)
    return [
        result.write(labels, private=marked),
        write_text(everything, result.to_json(indent=2) + "\n", private=marked),
        write_picture(result.plot, picture, result.summary(), private=marked),
        write_frame(workers.frame(), private / _WORKERS, private=True),
    ]
