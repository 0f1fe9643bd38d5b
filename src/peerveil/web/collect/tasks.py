"""Tasks as people write them down: one per line, or a table with columns task and text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.files import regular_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SUFFIXES: Final = (".csv", ".jsonl", ".parquet", ".txt")
"""How the name of a file of tasks may end."""


def tasks_of_lines(text: str) -> list[dict[str, str]]:
    r"""One task per line: its text, or its id, a tab and its text (as spreadsheets copy two columns). Empty lines are skipped.

    >>> tasks_of_lines("Picture 1\n\n2\tPicture 2")
    [{'id': 'Picture 1'}, {'id': '2', 'text': 'Picture 2'}]
    """
    parts = [line.strip().partition("\t") for line in text.splitlines()]
    return [
        {"id": name.strip(), "text": shown.strip()} if tab else {"id": name.strip()}
        for name, tab, shown in parts
        if name.strip()
    ]


def lines_of_tasks(tasks: Iterable[tuple[str, str]]) -> str:
    r"""Ids and texts as lines that :func:`tasks_of_lines` reads back.

    >>> lines_of_tasks([("Picture 1", "Picture 1"), ("2", "Picture 2")])
    'Picture 1\n2\tPicture 2'
    """
    return "\n".join(name if name == shown else f"{name}\t{shown}" for name, shown in tasks)


def read_tasks(path: Path) -> list[dict[str, str]]:
    """Tasks from a table with columns task and text (CSV, JSON lines or Parquet), or from lines of text."""
    import polars as pl

    place = regular_file(path, "tasks")
    if place.suffix not in SUFFIXES:
        raise BadInput("tasks", got=place.name, want=f"a file that ends in {', '.join(SUFFIXES)}")
    try:
        if place.suffix == ".txt":
            return tasks_of_lines(place.read_text(encoding="utf-8-sig"))
        if place.suffix == ".csv":
            frame = pl.read_csv(place, infer_schema=False)
        else:
            frame = pl.read_parquet(place) if place.suffix == ".parquet" else pl.read_ndjson(place)
    except UnicodeDecodeError:
        raise BadInput("tasks", got=place.name, want="a text file in UTF-8") from None
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = " ".join(str(error).split())
        raise BadInput("tasks", got=place.name, want=f"a table with columns task and text ({reason})") from None
    if "task" not in frame.columns:
        raise BadInput("tasks", got=Verbatim(f"columns {', '.join(frame.columns)}"), want="columns task and text")
    texts = frame["text"] if "text" in frame.columns else frame["task"]
    rows = zip(frame["task"].cast(pl.String).to_list(), texts.cast(pl.String).to_list(), strict=True)
    return [{"id": task, "text": text} for task, text in rows]
