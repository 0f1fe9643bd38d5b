"""Idempotency records: what was answered to a key, so that a repeated request changes nothing and gets the same answer.

A record holds a MAC of the key (with who used it and for what), a MAC of the body, the sealed answer, and the day on
which it may be forgotten. The service computes both MACs; the one of the body includes the key, so that no value
repeats, and nobody without the service's secret can test a guessed text. A record has no time of arrival, and its place
in the table is that of a random number.
"""

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import BigInteger, Connection, LargeBinary, MetaData, Table, Text, delete, select

from peerveil.storage import keys, required
from peerveil.web.common.database import end_of_day, insert_rows
from peerveil.web.common.errors import BadRequest, Unprocessable
from peerveil.web.common.vault import Vault

_LONGEST_KEY: Final = 200


def record_table(name: str, metadata: MetaData) -> Table:
    """The table of a service's idempotency records."""
    return Table(
        name,
        metadata,
        *keys(key=Text),
        *required(body=Text, answer=LargeBinary, expires=BigInteger),  # expires: microseconds, the start of a day
        sqlite_with_rowid=False,
    )


@dataclass(frozen=True, slots=True)
class Record:
    """A key that was used."""

    key: str
    body: str
    answer: bytes

    def answer_for(self, body: str) -> bytes:
        """The stored answer, if the body is the one that it was given for."""
        if not hmac.compare_digest(body, self.body):
            raise Unprocessable("Idempotency-Key: it was used with another body; take a new key for a new request")
        return self.answer


def read_key(header: str | None) -> str:
    """The ``Idempotency-Key`` header."""
    if header is None or not header.strip():
        raise BadRequest("Idempotency-Key: send a header with a new random key for every new request")
    if len(header) > _LONGEST_KEY or not header.isascii() or not header.isprintable():
        raise BadRequest(f"Idempotency-Key: at most {_LONGEST_KEY} printable ASCII characters")
    return header


@dataclass(frozen=True)
class Records:
    """The records of one service."""

    _table: Table
    _vault: Vault

    def find(self, connection: Connection, keys: Iterable[str]) -> dict[str, Record]:
        """Those of the keys that were used already."""
        rows = connection.execute(select(self._table).where(self._table.c.key.in_(sorted(set(keys))))).all()
        return {row.key: Record(row.key, row.body, self._vault.open(bytes(row.answer), about=row.key)) for row in rows}

    def keep(self, connection: Connection, records: Iterable[Record], *, until: Mapping[str, int]) -> None:
        """Store answers until the day after a time (microseconds) for each key. Two writers of one key: the second fails."""
        rows = [
            {
                "key": record.key,
                "body": record.body,
                "answer": self._vault.seal(record.answer, about=record.key),
                "expires": end_of_day(until[record.key]),
            }
            for record in records
        ]
        insert_rows(connection, self._table, rows)

    def forget(self, connection: Connection, now: int) -> None:
        """Remove what has expired."""
        connection.execute(delete(self._table).where(self._table.c.expires <= now))
