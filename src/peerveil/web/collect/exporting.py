"""Reports out of the database, piece by piece: straight into ``peerveil truth infer`` and ``peerveil rankings aggregate``.

However many reports there are, only one piece of them is in memory at a time.
"""

from __future__ import annotations

import io
import json
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any, Final

import polars as pl
from sqlalchemy import func, select

from peerveil.core.errors import BadInput
from peerveil.core.files import target_path, write_atomically
from peerveil.rankings import RandomizedRanking
from peerveil.rankings.local import FORMAT as RANKINGS_FORMAT
from peerveil.truth.wire import FORMAT
from peerveil.web.collect.schema import reports

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sqlalchemy import Connection

    from peerveil.web.collect.campaign import Campaign
    from peerveil.web.collect.store import Known, Store

PIECE: Final = 500_000
"""Reports in memory at a time."""
SUFFIXES: Final = (".csv", ".parquet", ".jsonl")
_RAW: Final = {"question": pl.Int32, "person": pl.Int64, "code": pl.Int16}
_QUERY: Final = "SELECT question, person, code FROM collect_reports WHERE campaign = {} ORDER BY question, person"


def count_reports(store: Store, known: Known) -> int:
    """How many reports a campaign has."""
    with store.database.reading() as connection:
        query = select(func.count()).select_from(reports).where(reports.c.campaign == known.number)
        return int(connection.execute(query).scalar_one())


def raw_pieces(store: Store, known: Known, piece: int = PIECE) -> Iterator[pl.DataFrame]:
    """A campaign's reports as numbers (question, person, code), in the order of questions and people, piece by piece."""
    with store.database.reading() as connection:
        made = _from_sqlite if store.database.is_sqlite else _from_postgresql
        yield from made(connection, known.number, piece)


def _from_sqlite(connection: Connection, number: int, piece: int) -> Iterator[pl.DataFrame]:
    cursor: Any = connection.exec_driver_sql(_QUERY.format(int(number))).cursor
    while rows := cursor.fetchmany(piece):
        yield pl.DataFrame(rows, schema=_RAW, orient="row")


def _from_postgresql(connection: Connection, number: int, piece: int) -> Iterator[pl.DataFrame]:
    """By COPY, which sends lines as fast as they can be read."""
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(f"COPY ({_QUERY.format(int(number))}) TO STDOUT (FORMAT csv)") as copy:
        held, lines = io.BytesIO(), 0
        for block in copy:  # whole lines
            held.write(block)
            lines += bytes(block).count(b"\n")
            if lines >= piece:
                yield _parsed(held)
                held, lines = io.BytesIO(), 0
        if lines:
            yield _parsed(held)


def _parsed(held: io.BytesIO) -> pl.DataFrame:
    held.seek(0)
    return pl.read_csv(held, has_header=False, schema=_RAW)


def table_of(campaign: Campaign, raw: pl.DataFrame) -> pl.DataFrame:
    """Numbers as the table that the campaign's room reads.

    Labels: task, worker, label. Rankings: question and bits, and the protocol in columns of its own, so that a file needs no
    companion.
    """
    if campaign.kind == "labels":
        tasks = pl.Series([task for task, _ in campaign.tasks])
        classes = pl.Series(list(campaign.classes))
        return pl.DataFrame(
            {
                "task": tasks.gather(raw["question"]),
                "worker": raw["person"],
                "label": classes.gather(raw["code"]),
            }
        )
    protocol = campaign.protocol
    constant = {**protocol.to_dict(), "protocol": protocol.fingerprint, "answers": campaign.answers}
    table = raw.select("question", pl.col("code").alias("bits"))
    return table.with_columns(**{name: pl.lit(value) for name, value in constant.items()})


def lines_of(campaign: Campaign, raw: pl.DataFrame) -> Iterator[str]:
    """Numbers as the lines that clients sent."""
    if campaign.kind == "labels":
        for task, worker, label in table_of(campaign, raw).iter_rows():
            yield json.dumps({"format": FORMAT, "task": task, "worker": worker, "label": label})
    else:
        name = campaign.protocol.fingerprint
        for question, _, code in raw.iter_rows():
            yield RandomizedRanking(name, question, code).to_json()


def head_of(campaign: Campaign) -> dict[str, Any]:
    """The first line of a file of lines: the terms under which they were made."""
    if campaign.kind == "rankings":
        head = {"peerveil": RANKINGS_FORMAT, **campaign.protocol.to_dict(), "simulated": False}
        return head if campaign.answers == 1 else {**head, "answers": campaign.answers}
    terms = campaign.described()
    kept = {name: terms[name] for name in ("format", "epsilon", "classes", "response", "promise")}
    return {**kept, "missing": None, "guarantee": campaign.guarantee.to_dict()}


def export(
    store: Store, known: Known, path: str | os.PathLike[str], *, advance: Callable[[int], None] = lambda _: None
) -> Path:
    """Write all reports of a campaign: CSV, Parquet or JSON lines, as the file's name says; whole or not at all."""
    target = target_path(path)
    if target.suffix not in SUFFIXES:
        raise BadInput("path", got=str(target), want=f"a file name that ends in {', '.join(SUFFIXES)}")
    fill = {".csv": _csv, ".parquet": _parquet, ".jsonl": _jsonl}[target.suffix]

    def pieces() -> Iterator[pl.DataFrame]:
        for raw in raw_pieces(store, known):
            yield raw
            advance(raw.height)

    return write_atomically(target, lambda handle: fill(known.campaign, pieces(), handle))


def _csv(campaign: Campaign, pieces: Iterator[pl.DataFrame], handle: IO[bytes]) -> None:
    table_of(campaign, pl.DataFrame(schema=_RAW)).write_csv(handle)
    for raw in pieces:
        table_of(campaign, raw).write_csv(handle, include_header=False)


def _parquet(campaign: Campaign, pieces: Iterator[pl.DataFrame], handle: IO[bytes]) -> None:
    write_parquet((table_of(campaign, raw) for raw in pieces), table_of(campaign, pl.DataFrame(schema=_RAW)), handle)


def write_parquet(pieces: Iterator[pl.DataFrame], empty: pl.DataFrame, handle: IO[bytes]) -> None:
    """Frames of one shape into one Parquet file."""
    parquet = import_module("pyarrow.parquet")
    schema = empty.to_arrow().schema
    with parquet.ParquetWriter(handle, schema, compression="zstd") as writer:
        for piece in pieces:
            writer.write_table(piece.to_arrow().cast(schema))


def _jsonl(campaign: Campaign, pieces: Iterator[pl.DataFrame], handle: IO[bytes]) -> None:
    handle.write((json.dumps(head_of(campaign)) + "\n").encode())
    for raw in pieces:
        handle.writelines(f"{line}\n".encode() for line in lines_of(campaign, raw))
