"""Campaigns, tokens and reports in the database; a report and the budget that it uses up are one transaction."""

from __future__ import annotations

import json
import secrets
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import func, insert, select, update

from peerveil.core.errors import BadInput
from peerveil.core.exact import whole
from peerveil.web.collect.campaign import Campaign
from peerveil.web.collect.reports import Intake, Received
from peerveil.web.collect.schema import SCHEMA, campaigns, people, reports, tokens
from peerveil.web.collect.statements import locked_people, taken_places, used_keys, write_reports
from peerveil.web.common import Tokens, database_time, open_database
from peerveil.web.common.errors import Conflict, Forbidden, NotFound, Unauthorized, Unprocessable
from peerveil.web.common.tokens import hash_token

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row

    from peerveil.web.common import ServiceDatabase
    from peerveil.web.common.errors import ServiceError

ROLES: Final = ("person", "operator")
ALL: Final = "*"
"""The scope of an operator of all campaigns."""
SILENT: Final = 60_000_000
"""Microseconds after which an inference that says nothing is taken for dead."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PERSONS: Final = 2**53  # numbers that every language can hold
_MOST_TOKENS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Known:
    """A campaign that this process has read; it never changes."""

    number: int
    campaign: Campaign
    intake: Intake
    described: str


@dataclass(frozen=True, slots=True)
class Job:
    """A report that waits to be written."""

    known: Known
    digest: str
    key: bytes
    received: Received


class Store:
    """The database of the service."""

    def __init__(self, url: str, *, create: bool = False) -> None:
        self.database: ServiceDatabase = open_database(url, SCHEMA, create=create)
        self.tokens = Tokens(self.database, tokens, ROLES)
        self._known: dict[str, Known] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Give all connections back."""
        self.database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- campaigns ----------------------------------------------------------------------------------------------

    def add(self, campaign: Campaign) -> None:
        """A new campaign. The same one again is no error; another one of the same id is."""
        spec = json.dumps(campaign.to_dict(), ensure_ascii=False)
        with self.database.writing("open", whole=True) as connection:
            found = connection.execute(
                select(campaigns.c.spec).where(campaigns.c.id == campaign.id)
            ).scalar_one_or_none()
            if found is not None and json.loads(found) != json.loads(spec):
                raise BadInput("id", got=campaign.id, want="another id: a campaign's terms never change once it exists")
            if found is None:
                idle = {"closed": 0, "job": "", "beat": 0, "stage": "", "done": 0, "total": 0}
                connection.execute(insert(campaigns).values(id=campaign.id, spec=spec, **idle))

    def known(self, name: str) -> Known:
        """A campaign by its id; read once, since it never changes."""
        found = self._known.get(name)
        if found is None:
            with self.database.reading() as connection:
                row = connection.execute(select(campaigns).where(campaigns.c.id == name)).one_or_none()
            if row is None:
                raise NotFound("there is no such campaign")
            campaign = Campaign.from_dict(json.loads(row.spec))
            found = Known(row.number, campaign, Intake(campaign), json.dumps(campaign.described(), ensure_ascii=False))
            with self._lock:
                self._known[name] = found
        return found

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
            # whoever closes the campaign waits for reports under way, and they for whoever closes it
            query = query.with_for_update(read=True)
        closed = bool(connection.execute(query).scalar_one())
        now = _EPOCH + timedelta(microseconds=database_time(connection))
        return known.campaign.state(now, closed=closed)

    def end(self, known: Known, *, now: bool) -> str:
        """Close a campaign for good: ``now``, or only if its time is over. Afterwards no report is ever taken.

        The row is locked: reports under way are in before this returns, so that what is inferred afterwards holds every
        report that was acknowledged.
        """
        with self.database.writing("open") as connection:
            state = self._state(connection, known)
            if now or state == "closed":
                connection.execute(update(campaigns).where(campaigns.c.number == known.number).values(closed=1))
                state = "closed"
        return state

    def listed(self) -> list[dict[str, Any]]:
        """All campaigns, with participation."""
        with self.database.reading() as connection:
            names = [row.id for row in connection.execute(select(campaigns.c.id).order_by(campaigns.c.number))]
        return [self.participation(self.known(name)) for name in names]

    def participation(self, known: Known) -> dict[str, Any]:
        """How many invitations there are, how many were used, how many reports came: counts, never single reports."""
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
        made = [f"pv_{secrets.token_urlsafe(32)}" for _ in range(count)]
        rows = [
            {
                "hash": hash_token(token),
                "campaign": known.number,
                "person": secrets.randbelow(_PERSONS),
                "left": known.campaign.answers,
            }
            for token in made
        ]
        rows.sort(key=lambda row: str(row["hash"]))  # the order of the table is not that of the list
        with self.database.writing("open") as connection:
            connection.execute(insert(people), rows)
        return made

    def appoint(self, scope: str) -> str:
        """A token for the operator of one campaign, or of all."""
        if scope != ALL:
            self.known(scope)
        with self.database.writing("open") as connection:
            return self.tokens.issue(connection, role="operator", scope=scope)

    def budget(self, known: Known, digest: str) -> dict[str, Any]:
        """What a token may still do: answers left, and the questions that were answered with it."""
        with self.database.reading() as connection:
            row = connection.execute(select(people).where(people.c.hash == digest)).one_or_none()
            check_person(row, known)
            assert row is not None
            asked = select(reports.c.question).where(reports.c.campaign == known.number, reports.c.person == row.person)
            return {"left": row.left, "reported": sorted(connection.execute(asked).scalars())}

    # ---- reports ------------------------------------------------------------------------------------------------

    def take(self, connection: Connection, jobs: Sequence[Job]) -> list[bool | ServiceError]:
        """Write reports with the budgets that they use up, in one transaction; refusals concern their own job alone.

        Rows of people are locked in the order of their hashes, so that two processes cannot wait for each other. A budget
        is read and lowered under that lock: neither repetition, nor parallel requests, nor a second device gets past it.
        """
        states = {job.known.number: job.known for job in jobs}
        open_now = {number: self._state(connection, states[number], lock=True) == "open" for number in sorted(states)}
        rows = locked_people(connection, sorted({job.digest for job in jobs}))
        used = used_keys(connection, [job.key for job in jobs])
        places = [(job, rows.get(job.digest)) for job in jobs]
        taken = taken_places(
            connection,
            {(job.known.number, int(row.person), job.received.question) for job, row in places if row is not None},
        )
        left = {digest: int(row.left) for digest, row in rows.items()}
        new: list[dict[str, Any]] = []
        answers: list[bool | ServiceError] = []
        for job, row in places:
            try:
                answers.append(self._decide(job, row, open_now, used, taken, left, new))
            except (Unauthorized, Forbidden, Conflict, Unprocessable) as refusal:
                answers.append(refusal)
        if new:
            write_reports(connection, new, {h: n for h, n in left.items() if n != rows[h].left})
        return answers

    def _decide(
        self,
        job: Job,
        row: Row[Any] | None,
        open_now: dict[int, bool],
        used: dict[bytes, tuple[int, int, int]],
        taken: set[tuple[int, int, int]],
        left: dict[str, int],
        new: list[dict[str, Any]],
    ) -> bool:
        check_person(row, job.known)
        assert row is not None
        number, said = job.known.number, job.received
        before = used.get(job.key)
        if before is not None:
            if before != (number, said.question, said.code):
                raise Unprocessable("Idempotency-Key: it was used with another report; take a new key for a new one")
            return True  # the same report again: the same answer, and nothing changes
        if not open_now[number]:
            raise Conflict("the campaign is not open; nothing was taken")
        place = (number, int(row.person), said.question)
        if place in taken:
            raise Conflict("this question was answered before with this token; nothing was taken")
        if left[job.digest] < 1:
            raise Forbidden("this token has given all its answers; nothing was taken")
        left[job.digest] -= 1
        taken.add(place)
        used[job.key] = (number, said.question, said.code)
        new.append(
            {
                "campaign": number,
                "person": int(row.person),
                "question": said.question,
                "code": said.code,
                "key": job.key,
            }
        )
        return True


def check_person(row: Row[Any] | None, known: Known) -> None:
    """Refuse a token that nobody was given, and one of another campaign."""
    if row is None:
        raise Unauthorized("an unknown token")
    if row.campaign != known.number:
        raise Forbidden("this token is for another campaign")


def report_key(digest: str, key: str) -> bytes:
    """What is kept of a token's ``Idempotency-Key``."""
    return sha256(f"{digest} {key}".encode()).digest()[:16]
