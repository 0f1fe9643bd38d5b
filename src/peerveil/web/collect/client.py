"""The person's side in Python: fetch a campaign, randomize here, store the draw, send it, and send the same bytes again if
that fails.

The guarantee to a person is about everything that leaves the device: at most ``answers`` draws in a campaign, and one draw
for a question. A service that breaks its own terms must not break that guarantee, so the count is kept on the device, in one
SQLite file that no service can change:

- the first terms of a campaign are pinned. Changed terms are refused until :meth:`Device.agree`; even then the number of
  answers is never above the first, and a larger epsilon is refused;
- a question is identified by what a person sees of it (:func:`peerveil.truth.client.visible_text`), not by an id. It is drawn
  once for a service, whatever the campaign or the invitation;
- a draw is stored before it is sent, so that whoever is interrupted sends the same bytes again.

A file that is deleted is forgotten: nothing on a device can prevent that.
"""

import hashlib
import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from numpy.typing import ArrayLike

from peerveil.core.errors import BadInput, PeerveilError, Verbatim
from peerveil.rankings import LocalProtocol
from peerveil.truth.client import visible_text
from peerveil.truth.wire import Client
from peerveil.web.collect.campaign import RANKINGS_FORMAT
from peerveil.web.common.client import ServiceClient, read_address

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
    """The record of one campaign, with its terms as they are now, for the person who uses this device now.

    Without a ``path`` the file is ``peerveil/device.db`` in the folder for state of this user (``XDG_STATE_HOME``).
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


class CollectClient(ServiceClient):
    """One person's side of a campaign.

    Parameters
    ----------
    url
        The service, such as ``"https://collect.example.org"``.
    campaign
        The campaign's id.
    token
        The person's invitation.
    timeout
        Seconds to wait for an answer of the service.
    device
        The file in which this device keeps what it sent; by default ``peerveil/device.db`` in the user's folder for state.
    new_person
        Say so if somebody else uses the device from now on. Otherwise a fresh invitation does not draw again.

    Notes
    -----
    The terms are checked before any answer is taken. The first answer pins them: changed terms raise :class:`TermsChanged`
    until :meth:`agree`. A question is randomized once: another object, another invitation or another id gets the first
    randomized answer again. See :class:`Device`.
    """

    def __init__(
        self,
        url: str,
        campaign: str,
        token: str,
        *,
        timeout: float = 30.0,
        device: str | os.PathLike[str] | None = None,
        new_person: bool = False,
    ) -> None:
        super().__init__(url, token, timeout)
        self._path = f"/v1/campaigns/{quote(campaign, safe='')}"
        self.terms: dict[str, Any] = self._call("GET", self._path)
        answers = self.terms.get("answers")
        if type(answers) is not int or answers < 1:
            raise BadInput("answers", got=answers, want="terms that say how many answers a person may give")
        ranking = self.terms.get("format") == RANKINGS_FORMAT
        self._labels = None if ranking else Client(self.terms)
        self._ranking = _protocol(self.terms) if ranking else None
        self._device = Device(device, _service_of(url), campaign, self.terms, new_person=new_person)

    @property
    def promise(self) -> str:
        """The guarantee, as the campaign puts it."""
        return str(self.terms["promise"])

    @property
    def tasks(self) -> list[tuple[str, str]]:
        """Ids and texts of the tasks."""
        return [(task["id"], task["text"]) for task in self.terms.get("tasks", [])]

    def agree(self) -> None:
        """The person read :attr:`terms` as they are now, and agrees. The number of answers stays at most the first."""
        self._device.agree()

    def budget(self) -> dict[str, Any]:
        """Answers left, and the numbers of the questions that were answered with this token.

        The service may say that fewer are left than this device allows, never more.
        """
        budget = self._call("GET", f"{self._path}/budget")
        left = budget.get("left")
        return {**budget, "left": min(left if type(left) is int else 0, self._device.left())}

    def answer(self, task: str, answer: str) -> str:
        """Randomize an answer to a task and send it; returns what was sent."""
        labels = self._labels
        if labels is None:
            raise BadInput("task", got=task, want="vote(ranking): this campaign is about rankings")
        if task not in dict(self.tasks):
            raise BadInput("task", got=task, want="the id of one of the campaign's tasks")
        return self._deliver(*self._device.draw(labels.question(task), lambda: labels.randomize(task, answer)))

    def vote(self, ranking: ArrayLike | Sequence[int]) -> str:
        """Randomize one answer about a ranking (the place of every item, from 0) and send it; returns what was sent."""
        protocol = self._ranking
        if protocol is None:
            raise BadInput(
                "ranking", got=Verbatim("a ranking"), want="answer(task, answer): this campaign is about labels"
            )
        question = visible_text(self.terms["question"], *sorted(visible_text(name) for name in self.terms["names"]))
        return self._deliver(*self._device.draw(question, lambda: protocol.randomize(ranking).to_json()))

    def _deliver(self, line: str, key: str) -> str:
        self._call("POST", f"{self._path}/reports", line.encode(), {"Idempotency-Key": key})
        return line


def _protocol(terms: dict[str, Any]) -> LocalProtocol:
    """The rankings module's own protocol for these terms; its thresholds follow from epsilon alone, not from the service."""
    names = ("items", "epsilon", "method", "questions", "seed")
    protocol = LocalProtocol.from_dict({name: terms.get(name) for name in names})
    if protocol.fingerprint != terms.get("protocol"):
        raise BadInput("protocol", got=terms.get("protocol"), want=f"{protocol.fingerprint}, as the terms imply")
    return protocol


def _service_of(url: str) -> str:
    """A service's address in one spelling, since the device counts answers per service.

    >>> _service_of("HTTP://Collect.Example.org/") == _service_of("http://collect.example.org:080")
    True
    """
    parts = read_address(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = (443 if parts.scheme == "https" else 80) if parts.port is None else parts.port
    return f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/')}"
