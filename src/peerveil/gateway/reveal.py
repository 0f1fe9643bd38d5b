"""Reading one held post: two operators, two steps, written down before anything is opened.

Nobody reads what is held. Where somebody must (a threat, a court), one operator asks and says why, and another one
approves. Both steps stand in a table that can only grow. Only then is the one post opened.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import func, insert, select

from peerveil.errors import BadInput
from peerveil.gateway.tables import audit, held, receipts
from peerveil.services.errors import Forbidden, NotFound
from peerveil.texts import on_one_line

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from peerveil.gateway.core import Gateway
    from peerveil.services import Identity

_SHORTEST: Final = 10
_LONGEST: Final = 500


def request_reveal(gateway: Gateway, operator: Identity, receipt: str, reason: str) -> int:
    """The first step: an operator asks for the post of a receipt. Returns the number of the request."""
    operator.require(("operator",))
    if not _SHORTEST <= len(reason.strip()) <= _LONGEST or not on_one_line(reason):
        raise BadInput("--reason", got=reason, want=f"the reason in {_SHORTEST} to {_LONGEST} characters on one line")
    digest = sha256(receipt.encode()).hexdigest()
    with gateway.recording_halts(), gateway.database.writing("reveal", whole=True) as connection:
        _held(connection, operator, digest)
        return write_audit(connection, gateway.watch.now(connection), operator.digest, "request", digest, reason)


def approve_reveal(gateway: Gateway, operator: Identity, number: int) -> dict[str, Any]:
    """The second step, by another operator: thread and text of the post."""
    operator.require(("operator",))
    with gateway.recording_halts(), gateway.database.writing("reveal", whole=True) as connection:
        row = connection.execute(
            select(audit).where(audit.c.number == number, audit.c.action == "request")
        ).one_or_none()
        if row is None:
            raise NotFound("no such request")
        if row.operator == operator.digest:
            raise Forbidden("another operator must approve: nobody reads a held post alone")
        done = select(audit.c.number).where(audit.c.action == "approve", audit.c.reason == str(number))
        if connection.execute(done).first() is not None:
            raise Forbidden("this request was approved already; ask again")
        post = _held(connection, operator, row.subject)
        now = gateway.watch.now(connection)
        write_audit(connection, now, operator.digest, "approve", row.subject, str(number))
    # committed: the step is on record before the text is opened
    body = json.loads(gateway.vault.open(bytes(post.body), about=post.id))
    return {"space": post.space, "thread": body["t"], "content": body["c"]}


def _held(connection: Connection, operator: Identity, digest: str) -> Any:
    row = connection.execute(
        select(held, receipts.c.state)
        .join_from(held, receipts, held.c.receipt == receipts.c.receipt)
        .where(held.c.receipt == digest)
    ).one_or_none()
    if row is None:
        raise NotFound("no held post has this receipt")
    operator.require(("operator",), row.space)
    return row


def write_audit(connection: Connection, now: int, operator: str, action: str, subject: str, reason: str) -> int:
    """A line in the table of what operators did."""
    number = int(connection.execute(select(func.coalesce(func.max(audit.c.number), 0))).scalar_one()) + 1
    connection.execute(
        insert(audit).values(number=number, at=now, operator=operator, action=action, subject=subject, reason=reason)
    )
    return number
