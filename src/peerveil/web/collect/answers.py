"""Randomized answers on their way in and out: what is an answer to a campaign, and files of all its answers.

Only two whole numbers of an answer are ever kept: which question, and which class. Whatever else a client might hide in
the spelling of its JSON is gone after :meth:`AnswerReader.read`. Files are for ``peerveil truth infer`` and
``peerveil rankings aggregate``; however many answers there are, only one piece of them is in memory at a time.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import polars as pl
from sqlalchemy import func, select

from peerveil.core.errors import BadInput, Verbatim, one_of
from peerveil.core.files import target_path, write_atomically
from peerveil.rankings import RandomizedRanking
from peerveil.rankings.local import FORMAT as RANKINGS_FORMAT
from peerveil.truth.client import FORMAT
from peerveil.web.collect.tables import answers

if TYPE_CHECKING:
    from peerveil.web.collect.campaign import Campaign
    from peerveil.web.collect.store import Known, Store

LONGEST_BYTES: Final = 4096
"""The longest id and class fit in it."""
SUFFIXES: Final = (".csv", ".parquet", ".jsonl")
_PIECE: Final = 500_000  # answers in memory at a time
_QUERY: Final = "SELECT question, person, code FROM collect_reports WHERE campaign = {} ORDER BY question, person"


@dataclass(frozen=True, slots=True)
class RandomizedAnswer:
    """An answer as it is kept: the number of the task or question, and the code of the randomized class."""

    question: int
    code: int


class AnswerReader:
    """Reads the randomized answers of one campaign; its tables of ids are built once."""

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        self.tasks = {task: number for number, (task, _) in enumerate(campaign.tasks)}
        self.codes = {name: code for code, name in enumerate(campaign.classes)}
        self.fingerprint = campaign.protocol.fingerprint if campaign.kind == "rankings" else ""

    def read(self, body: bytes) -> RandomizedAnswer:
        """What an answer says; anything else than an answer to this campaign is refused.

        No error repeats a label: what people send must not stand in a log.
        """
        if len(body) > LONGEST_BYTES:
            raise BadInput("answer", got=Verbatim(f"{len(body):,} bytes"), want=f"at most {LONGEST_BYTES:,} bytes")
        try:
            content = json.loads(body.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise BadInput("answer", got=Verbatim("no JSON"), want="one JSON object in UTF-8") from None
        return self._label(content) if self.campaign.kind == "labels" else self._ranking(content)

    def _label(self, content: Any) -> RandomizedAnswer:
        if not isinstance(content, dict) or set(content) != {"format", "task", "label"} or content["format"] != FORMAT:
            want = f"an object with format {FORMAT}, task and label, and nothing else"
            raise BadInput("answer", got=_shape(content), want=want)
        task, label = content["task"], content["label"]
        if not isinstance(task, str) or task not in self.tasks:
            raise BadInput("task", got=Verbatim("something else"), want="the id of one of the campaign's tasks")
        if not isinstance(label, str) or label not in self.codes:
            raise BadInput("label", got=Verbatim("something else"), want="one of the campaign's classes")
        return RandomizedAnswer(self.tasks[task], self.codes[label])

    def _ranking(self, content: Any) -> RandomizedAnswer:
        try:
            ranking = RandomizedRanking.from_json(content)
        except BadInput:
            want = "an object with protocol, question and bits, and nothing else"
            raise BadInput("answer", got=_shape(content), want=want) from None
        if ranking.protocol != self.fingerprint:
            raise BadInput("protocol", got=ranking.protocol, want=f"{self.fingerprint}, that of this campaign")
        if ranking.question >= self.campaign.questions:
            raise BadInput("question", got=ranking.question, want=f"a question below {self.campaign.questions}")
        if ranking.bits > 1:
            raise BadInput("bits", got=Verbatim("more than one bit"), want="0 or 1")
        return RandomizedAnswer(ranking.question, ranking.bits)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names differ: two readers must not see two different answers in one text."""
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError
    return content


def _no_constant(_: str) -> Any:
    raise ValueError


def _shape(content: Any) -> Verbatim:
    """What came, by its names alone."""
    if isinstance(content, dict):
        return Verbatim("an object with " + (", ".join(sorted(content))[:60] or "nothing"))
    return Verbatim(f"a {type(content).__name__}")


# ---- out of the database, piece by piece ------------------------------------------------------------------------------


def count_answers(store: Store, known: Known) -> int:
    """How many randomized answers a campaign has."""
    query = select(func.count()).select_from(answers).where(answers.c.campaign == known.number)
    return int(store.database.first(query)[0])


def _raw_schema() -> dict[str, type[pl.DataType]]:
    return {"question": pl.Int32, "person": pl.Int64, "code": pl.Int16}


def raw_pieces(store: Store, known: Known) -> Iterator[pl.DataFrame]:
    """A campaign's answers as numbers (question, person, code), in the order of questions and people, piece by piece."""
    query = _QUERY.format(int(known.number))
    with store.database.reading() as connection:
        if store.database.is_sqlite:
            cursor: Any = connection.exec_driver_sql(query).cursor
            while rows := cursor.fetchmany(_PIECE):
                yield pl.DataFrame(rows, schema=_raw_schema(), orient="row")
            return
        driver: Any = connection.connection.driver_connection
        with driver.cursor() as cursor, cursor.copy(f"COPY ({query}) TO STDOUT (FORMAT csv)") as copy:
            piece, lines = io.BytesIO(), 0
            for block in copy:  # whole lines, sent as fast as they can be read
                piece.write(block)
                lines += bytes(block).count(b"\n")
                if lines >= _PIECE:
                    yield _parsed(piece)
                    piece, lines = io.BytesIO(), 0
            if lines:
                yield _parsed(piece)


def _parsed(piece: io.BytesIO) -> pl.DataFrame:
    piece.seek(0)
    return pl.read_csv(piece, has_header=False, schema=_raw_schema())


def table_of(campaign: Campaign, raw: pl.DataFrame) -> pl.DataFrame:
    """Numbers as the table that the campaign's module reads.

    Labels: task, worker, label. Rankings: question and bits, and the protocol in columns of its own, so that a file needs no
    companion.
    """
    if campaign.kind == "labels":
        task = pl.Series([task for task, _ in campaign.tasks]).gather(raw["question"])
        label = pl.Series(list(campaign.classes)).gather(raw["code"])
        return pl.DataFrame({"task": task, "worker": raw["person"], "label": label})
    protocol = campaign.protocol
    constant = {**protocol.to_dict(), "protocol": protocol.fingerprint, "answers": campaign.answers}
    table = raw.select("question", pl.col("code").alias("bits"))
    return table.with_columns(**{name: pl.lit(value) for name, value in constant.items()})


def _lines_of(campaign: Campaign, raw: pl.DataFrame) -> Iterator[str]:
    """Numbers as the lines that clients sent."""
    if campaign.kind == "labels":
        for row in table_of(campaign, raw).iter_rows(named=True):
            yield json.dumps({"format": FORMAT, **row})
    else:
        name = campaign.protocol.fingerprint
        for question, _, code in raw.iter_rows():
            yield RandomizedRanking(name, question, code).to_json()


def _head_of(campaign: Campaign) -> dict[str, Any]:
    """The first line of a file of lines: the terms under which they were randomized."""
    if campaign.kind == "rankings":
        head = {"peerveil": RANKINGS_FORMAT, **campaign.protocol.to_dict(), "simulated": False}
        return head if campaign.answers == 1 else {**head, "answers": campaign.answers}
    terms = campaign.described()
    public = {name: terms[name] for name in ("format", "epsilon", "classes", "response", "promise")}
    return {**public, "missing": None, "guarantee": campaign.guarantee.to_dict()}


def export(
    store: Store, known: Known, path: str | os.PathLike[str], *, advance: Callable[[int], None] = lambda _: None
) -> Path:
    """Write all answers of a campaign: CSV, Parquet or JSON lines, as the file's name says; whole or not at all."""
    target = target_path(path)
    one_of(target.suffix, "path", SUFFIXES)
    campaign = known.campaign
    empty = table_of(campaign, pl.DataFrame(schema=_raw_schema()))

    def pieces() -> Iterator[pl.DataFrame]:
        for raw in raw_pieces(store, known):
            yield raw
            advance(raw.height)

    def fill(handle: IO[bytes]) -> None:
        if target.suffix == ".parquet":
            write_parquet((table_of(campaign, raw) for raw in pieces()), empty, handle)
        elif target.suffix == ".csv":
            empty.write_csv(handle)
            for raw in pieces():
                table_of(campaign, raw).write_csv(handle, include_header=False)
        else:
            handle.write((json.dumps(_head_of(campaign)) + "\n").encode())
            for raw in pieces():
                handle.writelines(f"{line}\n".encode() for line in _lines_of(campaign, raw))

    return write_atomically(target, fill)


def write_parquet(pieces: Iterable[pl.DataFrame], empty: pl.DataFrame, handle: IO[bytes]) -> None:
    """Frames of one shape into one Parquet file."""
    parquet = import_module("pyarrow.parquet")
    schema = empty.to_arrow().schema
    with parquet.ParquetWriter(handle, schema, compression="zstd") as writer:
        for piece in pieces:
            writer.write_table(piece.to_arrow().cast(schema))
