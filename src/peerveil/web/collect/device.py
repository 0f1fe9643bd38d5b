"""What a device keeps: the terms that were agreed to, and every draw. No service can change it.

The guarantee to a person is about everything that leaves the device: at most ``answers`` draws in a campaign, and one draw
for a question. A service that breaks its own terms must not break that guarantee, so the count is kept here, in one SQLite file:

- the first terms of a campaign are pinned. Changed terms are refused until :meth:`Device.agree`; even then the number of
  answers is never above the first, and a larger epsilon is refused;
- a question is identified by what a person sees of it (:func:`peerveil.truth.wire.visible_text`), not by an id. It is drawn
  once for a service, whatever the campaign or the invitation;
- a draw is stored before it is sent, so that whoever is interrupted sends the same bytes again.

A file that is deleted is forgotten: nothing on a device can prevent that.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from peerveil.core.errors import BadInput, PeerveilError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS people (person INTEGER PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS agreements (person INTEGER, service TEXT, campaign TEXT, digest TEXT, answers INTEGER,"
    " epsilon TEXT, PRIMARY KEY (person, service, campaign))",
    "CREATE TABLE IF NOT EXISTS draws (person INTEGER, service TEXT, question TEXT, campaign TEXT, line TEXT, key TEXT,"
    " PRIMARY KEY (person, service, question))",
)


class TermsChanged(PeerveilError):
    """The terms of a campaign are not those that were agreed to on this device. Nothing was drawn or sent."""


class Device:
    """The record of one campaign for the person who uses this device now.

    Parameters
    ----------
    path
        The file; by default ``peerveil/device.db`` in the folder for state of this user (``XDG_STATE_HOME``).
    service, campaign
        Where the campaign is, and its id.
    terms
        The campaign's terms as they are now.
    new_person
        Whether somebody else uses the device from now on.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        service: str,
        campaign: str,
        terms: dict[str, Any],
        *,
        new_person: bool = False,
    ) -> None:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        self._path = Path(state) / "peerveil" / "device.db" if path is None else Path(path)
        self._service, self._campaign = service, campaign
        content = json.dumps({name: value for name, value in terms.items() if name != "state"}, sort_keys=True)
        self._digest = hashlib.sha256(content.encode()).hexdigest()
        self._answers, self._epsilon = int(terms["answers"]), Fraction(terms["epsilon"])
        with self._changing() as db:
            (last,) = db.execute("SELECT max(person) FROM people").fetchone()
            self._person = last if last is not None and not new_person else (last or 0) + 1
            db.execute("INSERT OR IGNORE INTO people VALUES (?)", (self._person,))

    def agree(self) -> None:
        """Record that the person agreed to the terms as they are now."""
        with self._changing() as db:
            _, answers, epsilon = self._agreed(db) or ("", self._answers, self._epsilon)
            if self._epsilon > Fraction(epsilon):
                raise TermsChanged(f"epsilon is {self._epsilon} now, and the person agreed to {epsilon}")
            self._agree(db, min(answers, self._answers))

    def left(self) -> int:
        """How many answers this device may still give."""
        with self._changing() as db:
            _, answers, _ = self._agreed(db) or ("", self._answers, "")
            return max(0, min(self._answers, answers) - self._given(db))

    def draw(self, question: str, make: Callable[[], str]) -> tuple[str, str]:
        """The randomized answer to a question and its key: those of the first time, or those of ``make``, stored first."""
        with self._changing() as db:
            where = (self._person, self._service, question)
            query = "SELECT campaign, line, key FROM draws WHERE person = ? AND service = ? AND question = ?"
            draw = db.execute(query, where).fetchone()
            if draw is not None and draw[0] == self._campaign:
                return draw[1], draw[2]
            if draw is not None:
                want = f"a question that was not answered on this device before; this one was, for {draw[0]!r}"
                raise BadInput("campaign", got=self._campaign, want=want)
            agreed = self._agreed(db)
            if agreed is None:  # the first answer is the agreement
                agreed = self._agree(db, self._answers)
            digest, answers, _ = agreed
            if digest != self._digest:
                raise TermsChanged(
                    "the terms have changed since this device agreed to them; show them to the person, who may agree()"
                )
            if self._given(db) >= answers:
                raise BadInput("task", got=question, want=f"no further question: {answers} answers were agreed to")
            line, key = make(), secrets.token_hex(16)
            db.execute("INSERT INTO draws VALUES (?, ?, ?, ?, ?, ?)", (*where, self._campaign, line, key))
            return line, key

    @property
    def _place(self) -> tuple[int, str, str]:
        return self._person, self._service, self._campaign

    def _agreed(self, db: sqlite3.Connection) -> tuple[str, int, str] | None:
        query = "SELECT digest, answers, epsilon FROM agreements WHERE person = ? AND service = ? AND campaign = ?"
        agreement: tuple[str, int, str] | None = db.execute(query, self._place).fetchone()
        return agreement

    def _agree(self, db: sqlite3.Connection, answers: int) -> tuple[str, int, str]:
        agreement = (self._digest, answers, str(self._epsilon))
        db.execute("INSERT OR REPLACE INTO agreements VALUES (?, ?, ?, ?, ?, ?)", (*self._place, *agreement))
        return agreement

    def _given(self, db: sqlite3.Connection) -> int:
        query = "SELECT count(*) FROM draws WHERE person = ? AND service = ? AND campaign = ?"
        return int(db.execute(query, self._place).fetchone()[0])

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that no other process shares."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
            with closing(sqlite3.connect(self._path, timeout=60, isolation_level=None)) as db:
                db.execute("PRAGMA synchronous = FULL")
                db.execute("BEGIN IMMEDIATE")
                for table in _TABLES:
                    db.execute(table)
                yield db
                db.execute("COMMIT")  # left open by an error, it is rolled back
        except (OSError, sqlite3.Error) as error:
            raise BadInput("device", got=str(self._path), want=f"a file to keep draws in ({error})") from error
