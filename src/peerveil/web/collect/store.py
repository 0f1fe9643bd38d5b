"""Campaigns, tokens and randomized answers in the database; an answer and the budget that it uses up are one transaction."""

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import Connection, Row, func, insert, select, update

from peerveil.core.errors import BadInput
from peerveil.core.exact import whole
from peerveil.storage import Closable
from peerveil.web.collect import tables
from peerveil.web.collect.answers import AnswerReader, RandomizedAnswer
from peerveil.web.collect.campaign import Campaign
from peerveil.web.collect.tables import answers, campaigns, people, tokens
from peerveil.web.common import ServiceDatabase, Tokens, database_time, open_database
from peerveil.web.common.client import read_address
from peerveil.web.common.database import SECOND
from peerveil.web.common.errors import Conflict, Forbidden, NotFound, ServiceError, Unauthorized, Unprocessable
from peerveil.web.common.tokens import EVERYWHERE, hash_token, new_token

SILENT: Final = 60 * SECOND
"""An inference without a sign of life for this long counts as dead."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PERSONS: Final = 2**53  # numbers that every language can hold
_MOST_TOKENS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Known:
    """A campaign that this process has read; it never changes."""

    number: int
    campaign: Campaign
    reader: AnswerReader
    described: str


@dataclass(frozen=True, slots=True)
class Submission:
    """A randomized answer that waits to be written: its campaign, and the hashes of its token and of its key."""

    known: Known
    digest: str
    key: bytes
    answer: RandomizedAnswer


class Store(Closable):
    """The database of the service."""

    def __init__(self, url: str, *, create: bool = False) -> None:
        self.database: ServiceDatabase = open_database(url, tables.SCHEMA, create=create)
        self.tokens = Tokens(self.database, tokens, ("operator",))
        self._known: dict[str, Known] = {}

    def close(self) -> None:
        """Give all connections back."""
        self.database.close()

    # ---- campaigns ----------------------------------------------------------------------------------------------

    def add(self, campaign: Campaign) -> None:
        """A new campaign. The same one again is no error; another one of the same id is."""
        spec = json.dumps(campaign.to_dict(), ensure_ascii=False)
        with self.database.writing("open", whole=True) as connection:
            query = select(campaigns.c.spec).where(campaigns.c.id == campaign.id)
            before = connection.execute(query).scalar_one_or_none()
            if before is not None and json.loads(before) != json.loads(spec):
                raise BadInput("id", got=campaign.id, want="another id: a campaign's terms never change once it exists")
            if before is None:
                idle = {"closed": 0, "job": "", "beat": 0, "stage": "", "done": 0, "total": 0}
                connection.execute(insert(campaigns).values(id=campaign.id, spec=spec, **idle))

    def known(self, name: str) -> Known:
        """A campaign by its id; read once, since it never changes."""
        if name not in self._known:
            row = self.database.first(select(campaigns).where(campaigns.c.id == name))
            if row is None:
                raise NotFound("there is no such campaign")
            campaign = Campaign.from_dict(json.loads(row.spec))
            description = json.dumps(campaign.described(), ensure_ascii=False)
            self._known[name] = Known(row.number, campaign, AnswerReader(campaign), description)
        return self._known[name]

    def remembered(self, name: str) -> Known | None:
        """A campaign that was read before, without asking the database."""
        return self._known.get(name)

    def due(self) -> list[str]:
        """Campaigns that are closed and whose inference has not begun, or has fallen silent."""
        with self.database.reading() as connection:
            silent = database_time(connection) - SILENT
            idle = (campaigns.c.job == "") | ((campaigns.c.job == "running") & (campaigns.c.beat < silent))
            names = connection.execute(select(campaigns.c.id).where(idle)).scalars().all()
        return [name for name in names if self.state(self.known(name)) == "closed"]

    def state(self, known: Known) -> str:
        """Whether a campaign is open, by the database's clock."""
        with self.database.reading() as connection:
            return self._state(connection, known)

    def _state(self, connection: Connection, known: Known, *, lock: bool = False) -> str:
        query = select(campaigns.c.closed).where(campaigns.c.number == known.number)
        if lock:
            # closing the campaign waits for answers under way, and they for the closing
            query = query.with_for_update(read=True)
        closed = bool(connection.execute(query).scalar_one())
        now = _EPOCH + timedelta(microseconds=database_time(connection))
        return known.campaign.state(now, closed=closed)

    def end(self, known: Known, *, now: bool) -> str:
        """Close a campaign for good: ``now``, or only if its time is over. Afterwards no answer is ever taken.

        The row is locked: answers under way are in before this returns, so that what is inferred afterwards holds every
        answer that was acknowledged.
        """
        with self.database.writing("open") as connection:
            state = self._state(connection, known)
            if now or state == "closed":
                connection.execute(update(campaigns).where(campaigns.c.number == known.number).values(closed=1))
                state = "closed"
        return state

    def listed(self) -> list[dict[str, Any]]:
        """All campaigns, with participation."""
        rows = self.database.rows(select(campaigns.c.id).order_by(campaigns.c.number))
        return [self.participation(self.known(row.id)) for row in rows]

    def participation(self, known: Known) -> dict[str, Any]:
        """How many invitations there are, how many were used, how many answers came: counts, never single answers."""
        most = known.campaign.answers
        used = func.count().filter(people.c.left < most)
        query = select(func.count(), used, func.coalesce(func.sum(most - people.c.left), 0))
        with self.database.reading() as connection:
            invited, active, received = connection.execute(query.where(people.c.campaign == known.number)).one()
            row = connection.execute(select(campaigns).where(campaigns.c.number == known.number)).one()
            state = self._state(connection, known)
        return {
            "campaign": known.campaign.id,
            "title": known.campaign.title,
            "kind": known.campaign.kind,
            "state": state,
            "invitations": int(invited),
            "people": int(active),
            "reports": int(received),
            "most_reports": int(invited) * most,
            "inference": {"state": row.job or "not begun", "stage": row.stage, "done": row.done, "total": row.total},
        }

    # ---- tokens -------------------------------------------------------------------------------------------------

    def invite(self, known: Known, count: int) -> list[str]:
        """New invitations: random tokens, each good for the campaign's number of answers. They are shown once.

        The person's number is drawn at random too: it follows neither from the token nor from the order of the list.
        """
        whole(count, "count", 1, _MOST_TOKENS)
        invitations = [new_token() for _ in range(count)]
        shared = {"campaign": known.number, "left": known.campaign.answers}
        # the order of the table is not that of the list
        rows = [
            {"hash": digest, "person": secrets.randbelow(_PERSONS), **shared}
            for digest in sorted(map(hash_token, invitations))
        ]
        with self.database.writing("open") as connection:
            connection.execute(insert(people), rows)
        return invitations

    def appoint(self, scope: str) -> str:
        """A token for the operator of one campaign, or of all."""
        if scope != EVERYWHERE:
            self.known(scope)
        with self.database.writing("open") as connection:
            return self.tokens.issue(connection, role="operator", scope=scope)

    def budget(self, known: Known, digest: str) -> dict[str, Any]:
        """What a token may still do: answers left, and the questions that were answered with it."""
        with self.database.reading() as connection:
            row = connection.execute(select(people).where(people.c.hash == digest)).one_or_none()
            person = _person(row, known)
            mine = (answers.c.campaign == known.number) & (answers.c.person == person.person)
            query = select(answers.c.question).where(mine)
            return {"left": person.left, "reported": sorted(connection.execute(query).scalars())}

    # ---- answers ------------------------------------------------------------------------------------------------

    def take(self, connection: Connection, submissions: Sequence[Submission]) -> list[bool | ServiceError]:
        """Write answers with the budgets that they use up, in one transaction; refusals concern their own submission alone.

        Rows of people are locked in the order of their hashes, so that two processes cannot wait for each other. A budget
        is read and lowered under that lock: neither repetition, nor parallel requests, nor a second device gets past it.
        """
        numbered = {submission.known.number: submission.known for submission in submissions}
        is_open = {n: self._state(connection, numbered[n], lock=True) == "open" for n in sorted(numbered)}
        rows = tables.locked_people(connection, sorted({submission.digest for submission in submissions}))
        used = tables.used_keys(connection, [submission.key for submission in submissions])
        places = [
            (submission.known.number, int(rows[submission.digest].person), submission.answer.question)
            for submission in submissions
            if submission.digest in rows
        ]
        taken = tables.taken_places(connection, set(places))
        left = {digest: int(row.left) for digest, row in rows.items()}
        new: list[dict[str, Any]] = []

        def decide(submission: Submission) -> bool:
            number, answer, digest = submission.known.number, submission.answer, submission.digest
            person = int(_person(rows.get(digest), submission.known).person)
            content = (number, answer.question, answer.code)
            if used.get(submission.key, content) != content:
                raise Unprocessable("Idempotency-Key: it was used with another answer; take a new key for a new one")
            if submission.key in used:
                return True  # the same answer again: the same reply, and nothing changes
            if not is_open[number]:
                raise Conflict("the campaign is not open; nothing was taken")
            place = (number, person, answer.question)
            if place in taken:
                raise Conflict("this question was answered before with this token; nothing was taken")
            if left[digest] < 1:
                raise Forbidden("this token has given all its answers; nothing was taken")
            left[digest] -= 1
            taken.add(place)
            used[submission.key] = content
            row = {"campaign": number, "person": person, "question": answer.question}
            new.append({**row, "code": answer.code, "key": submission.key})
            return True

        replies: list[bool | ServiceError] = []
        for submission in submissions:
            try:
                replies.append(decide(submission))
            except ServiceError as refusal:
                replies.append(refusal)
        if new:
            tables.write_answers(connection, new, {h: n for h, n in left.items() if n != rows[h].left})
        return replies


def _person(row: Row[Any] | None, known: Known) -> Row[Any]:
    """The row of the person behind a token; unknown tokens and those of another campaign are refused."""
    if row is None:
        raise Unauthorized("an unknown token")
    if row.campaign != known.number:
        raise Forbidden("this token is for another campaign")
    return row


def hash_key(digest: str, key: str) -> bytes:
    """What is kept of a token's ``Idempotency-Key``."""
    return sha256(f"{digest} {key}".encode()).digest()[:16]


def invitation_links(site: str, campaign: str, invitations: Sequence[str]) -> list[str]:
    """One link for each invitation, to the person's page on the site where the service can be reached.

    The invitation stands behind the ``#``: browsers do not send it, so that no server's log has it.

    >>> invitation_links("https://collect.example.org/", "lake", ["pv_1"])
    ['https://collect.example.org/c/lake#pv_1']
    """
    address = site.strip()
    read_address(address, "site")
    return [f"{address.rstrip('/')}/c/{campaign}#{token}" for token in invitations]
