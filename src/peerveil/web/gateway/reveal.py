"""Reading one held post: two operators, two steps, written down before anything is opened.

Nobody reads what is held. Where somebody must (a threat, a court), one operator asks and says why, and another one
approves. Both steps stand in a table that can only grow, sealed but for the time. Only then is the one post opened.
"""

import hmac
import json
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import Connection, Row, func, insert, select

from peerveil.core.errors import BadInput
from peerveil.core.text import on_one_line
from peerveil.web.common import Identity
from peerveil.web.common.errors import Forbidden, NotFound
from peerveil.web.common.tokens import EVERYWHERE
from peerveil.web.gateway.core import Gateway
from peerveil.web.gateway.feed import posted_words
from peerveil.web.gateway.posts import HELD, Post
from peerveil.web.gateway.tables import audit

_SHORTEST: Final = 10
_LONGEST: Final = 500
_BODY: Final = 16_384  # characters of every row, whoever asked why: more than name and reason can have


def request_reveal(gateway: Gateway, operator: Identity, receipt: str, reason: str) -> int:
    """The first step: an operator asks for the post of a receipt. Returns the number of the request."""
    operator.require(("operator",))
    check_reason(reason, "--reason")
    digest = sha256(receipt.encode()).hexdigest()
    with gateway.recording_halts(), gateway.database.writing("reveal", whole=True) as connection:
        _held(gateway, operator, digest)
        return write_audit(gateway, connection, operator, "request", digest, reason=reason)


def check_reason(reason: str, argument: str) -> None:
    """Refuse what is no reason."""
    if not _SHORTEST <= len(reason.strip()) <= _LONGEST or not on_one_line(reason):
        raise BadInput(argument, got=reason, want=f"the reason in {_SHORTEST} to {_LONGEST} characters on one line")


def approve_reveal(gateway: Gateway, operator: Identity, number: int) -> dict[str, Any]:
    """The second step, by another operator: thread and text of the post."""
    operator.require(("operator",))
    with gateway.recording_halts(), gateway.database.writing("reveal", whole=True) as connection:
        requests = select(audit).where(audit.c.number == number, audit.c.action == "request")
        row = connection.execute(requests).one_or_none()
        if row is None:
            raise NotFound("no such request")
        request = _opened(gateway, row)
        if hmac.compare_digest(request["operator"], operator.digest):
            raise Forbidden("another operator must approve: nobody reads a held post alone")
        approval = select(audit.c.number).where(audit.c.action == "approve", audit.c.request == number)
        if connection.execute(approval).first() is not None:
            raise Forbidden("this request was approved already; ask again")
        post = _held(gateway, operator, request["receipt"])
        write_audit(gateway, connection, operator, "approve", request["receipt"], request=number)
    # committed: the step is on record before the text is opened
    return {"space": post.space, "thread": post.thread, "content": post.content}


def _held(gateway: Gateway, operator: Identity, digest: str) -> Post:
    with gateway.leader.looking() as memory:
        for post in memory.held.values():
            if post.state == HELD and sha256(memory.receipts.write(post).encode()).hexdigest() == digest:
                operator.require(("operator",), post.space)
                return replace(post)
    raise NotFound("no held post has this receipt")


def read_audit(gateway: Gateway, operator: Identity) -> list[dict[str, Any]]:
    """What operators asked for and approved, oldest first, for an operator of all spaces."""
    operator.require(("operator",), EVERYWHERE)
    rows = gateway.database.rows(select(audit).order_by(audit.c.number))
    names = ("number", "at", "action", "request")
    return [
        {**dict(zip(names, row, strict=False)), "at": posted_words(row.at), **_opened(gateway, row)} for row in rows
    ]


def write_audit(
    gateway: Gateway,
    connection: Connection,
    operator: Identity,
    action: str,
    receipt: str,
    *,
    reason: str = "",
    request: int | None = None,
) -> int:
    """A row in the table of what operators did; who, which post and why are sealed."""
    number = int(connection.execute(select(func.coalesce(func.max(audit.c.number), 0))).scalar_one()) + 1
    content = {"operator": operator.digest, "name": operator.actor, "receipt": receipt, "reason": reason}
    values = {
        "number": number,
        "at": gateway.watch.now(connection),
        "action": action,
        "request": number if request is None else request,
        "body": gateway.names.seal_text(json.dumps(content).ljust(_BODY), about=f"audit {number}"),
    }
    connection.execute(insert(audit).values(**values))
    return number


def _opened(gateway: Gateway, row: Row[Any]) -> dict[str, str]:
    return dict(json.loads(gateway.names.open_text(bytes(row.body), about=f"audit {row.number}")))
