"""Labels from Toloka: the assignments of a pool as tab-separated text, one row per task and person.

Columns are ``INPUT:*`` (what was shown), ``OUTPUT:*`` (what was answered), ``GOLDEN:*`` (the correct answer of control tasks) and
``ASSIGNMENT:*``. Blank lines between task suites carry nothing. The columns of ``get_assignments_df`` are the same.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from peerveil.data.problems import TableSource
from peerveil.data.readers.files import InputFile
from peerveil.data.readers.platforms import Content, Field, counted_note, csv_records, label_table
from peerveil.data.readers.tabular import csv_header, separator_of
from peerveil.data.schema import RawTable, ReadOptions, listed

TOLOKA: Final = ("ASSIGNMENT:worker_id",)  # columns by which the file is recognized
_TASK: Final = "ASSIGNMENT:task_id"
_NOT_GIVEN: Final = ("REJECTED", "SKIPPED", "EXPIRED", "ACTIVE")


def toloka_labels(file: InputFile, options: ReadOptions) -> RawTable:
    """Answers of accepted and submitted assignments; ``columns`` may name the answer, and columns for task and truth.

    The task is ``ASSIGNMENT:task_id``. Golden answers become the truth. Rejected and skipped assignments and tasks without an
    answer are left out, and noted.
    """
    separator = separator_of(file, "tsv" if file.suffix in (".tsv", ".tab") else "csv")
    names = csv_header(file, separator)
    if "task" not in options.columns and _TASK not in names:
        inputs = [name for name in names if name.startswith("INPUT:")]
        want = f"{_TASK}, or what a task is known by among {listed(inputs or names)}: to say so"
        suggestion = {"task": (inputs or ["..."])[0]}
        raise TableSource(file.name).refusal(f"no column {_TASK}", want, suggestion=suggestion)
    records = csv_records(file, separator)
    valid = [record for record in records if _status(record.content) not in _NOT_GIVEN]
    words = f"left out {{}} of {len(records):,} answers: rejected, skipped or unfinished"
    notes = counted_note(len(records) - len(valid), words)
    outputs = [name for name in names if name.startswith("OUTPUT:")]
    answers: dict[str, Callable[[Content], object]] = {name: partial(_cell, name) for name in outputs}
    fields: dict[str, Field] = {"task": _TASK, "worker": TOLOKA[0]}
    golden = {name: f"GOLDEN:{name.removeprefix('OUTPUT:')}" for name in outputs}
    golden = {name: truth for name, truth in golden.items() if truth in names}
    return label_table(records[0], file.name, valid, fields, answers, options, golden=golden, notes=notes)


def _cell(name: str, cells: Content) -> object:
    return cells[name].strip()


def _status(cells: Content) -> str:
    return str(cells.get("ASSIGNMENT:status", "").strip().upper())
