"""Labels from Amazon Mechanical Turk: the CSV that "Download CSV" gives for a batch, one row per assignment.

Its columns are facts about the HIT and the assignment, then ``Input.*`` (what was shown) and ``Answer.*`` (what was answered).
A select box, a text field or ``crowd-classifier`` fills one column (``Answer.category.label``). Radio buttons fill one column per
option with true or false: ``Answer.sentiment.positive`` where they share a name, ``Answer.yes.Yes`` where each has its own.
"""

from collections.abc import Callable, Sequence
from typing import Final

from peerveil.data.readers.files import InputFile
from peerveil.data.readers.platforms import Content, ExportRecord, Field, counted_note, csv_records, label_table
from peerveil.data.readers.tabular import csv_header
from peerveil.data.schema import RawTable, ReadOptions

MTURK: Final = ("HITId", "AssignmentId", "WorkerId")  # columns by which the file is recognized
_ANSWER: Final = "Answer."
_RADIO: Final = "Answer.*"  # how radio buttons without a common name are called, since no column can be named so
_CHECK_BOX: Final = ".on"  # the option of a check box: a question of its own
Reading = Callable[[Content], object]
"""How an answer is read from a record."""


def mturk_labels(file: InputFile, options: ReadOptions) -> RawTable:
    """Answers to HITs; ``columns`` may name the answer, and columns for task (else ``HITId``) and truth.

    Rejected assignments and assignments without an answer are left out, and noted.
    """
    csv_header(file, ",")  # refuses a header that names a column twice
    records = csv_records(file)
    valid = [record for record in records if not _is_rejected(record)]
    notes = counted_note(len(records) - len(valid), f"left out {{}} of {len(records):,} assignments: rejected")
    fields: dict[str, Field] = {"task": "HITId", "worker": "WorkerId"}
    # from all records, so that the questions of a batch do not depend on who was rejected
    return label_table(records[0], file.name, valid, fields, _answers(records), options, notes=notes)


def _is_rejected(record: ExportRecord) -> bool:
    """Whether the assignment was rejected, or is to be: a reason stands in the column for that."""
    cells = record.content
    return cells.get("AssignmentStatus", "").strip().lower() == "rejected" or bool(cells.get("Reject", "").strip())


def _answers(records: Sequence[ExportRecord]) -> dict[str, Reading]:
    """The answers that there are, by name, and how to read each."""
    names = [name for name in records[0].content if name.startswith(_ANSWER)]
    stems: dict[str, list[str]] = {}
    for name in names:
        if name.count(".") > 1 and _holds_flags(name, records):
            stems.setdefault(name.rpartition(".")[0], []).append(name)
    alone = [name for group in stems.values() if len(group) == 1 for name in group if not name.endswith(_CHECK_BOX)]
    groups = {stem: group for stem, group in stems.items() if len(group) > 1} | {_RADIO: alone}
    radios = {stem: group for stem, group in groups.items() if len(group) > 1 and _excludes(group, records)}
    options = {name for group in radios.values() for name in group}
    answers: dict[str, Reading] = {name: _cell(name) for name in names if name not in options}
    return answers | {stem: _chosen(group) for stem, group in radios.items()}


def _holds_flags(name: str, records: Sequence[ExportRecord]) -> bool:
    cells = {record.content[name].strip().lower() for record in records} - {""}
    return bool(cells) and cells <= {"true", "false"}


def _excludes(names: Sequence[str], records: Sequence[ExportRecord]) -> bool:
    """Whether at most one of the options is ever chosen; check boxes are questions of their own."""
    return all(len(_true(names, record.content)) <= 1 for record in records)


def _true(names: Sequence[str], cells: Content) -> list[str]:
    return [name for name in names if cells[name].strip().lower() == "true"]


def _cell(name: str) -> Reading:
    return lambda cells: cells[name].strip()


def _chosen(names: Sequence[str]) -> Reading:
    """The option that is true; nothing if none is."""
    return lambda cells: next((name.rpartition(".")[2] for name in _true(names, cells)), "")
