"""The tables of a gateway. No column holds a name or a time of arrival in clear, and no value repeats for one person.

======== ====================================================================== =============================
table    holds                                                                  until
======== ====================================================================== =============================
held     one row per held post: sealed body, when it is due                     publication or withdrawal
recent   one row per person of the last sittings, sealed: for the next status   at most twice the window
receipts which receipts exist; a MAC of receipt, space and actor each           some days after the last delay
records  idempotency records                                                    the same
feed     what readers see                                                       forever
letters  dead letters: which parts of the feed a webhook's receiver did not take a replay that succeeds
beats    which background parts run in which process                            an hour after the last beat
======== ====================================================================== =============================

Rows of SQLite tables are stored in the order of their random keys, not of arrival; so do rows of a backup.
``tests/web/gateway/test_linkage.py`` attacks every column.
"""

import secrets
from typing import Any, Final

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, Table, Text

from peerveil.storage import Schema, guard, keys, required, version_table
from peerveil.web.common.records import record_table
from peerveil.web.common.tokens import token_table
from peerveil.web.common.vault import Vault

VERSION: Final = 3
SECRET: Final = "gateway secret"  # noqa: S105 - what the secret of the hashes is sealed about
metadata = MetaData()

version = version_table(
    "gateway_book",
    metadata,
    *required(
        epoch=Text,  # a random name; a restored copy gets another, so old cursors are refused
        secret=LargeBinary,  # sealed; all MAC keys are derived from it
    ),
)
clock = Table(
    "gateway_clock",
    metadata,
    *keys(id=Integer),
    *required(
        high=BigInteger,  # the latest time that was acted on
        boot=Text,  # the start of the machine on which that was
        stopwatch=BigInteger,  # of that start of the machine, at that time
        ahead=BigInteger,  # the gateway's time less the database's clock, then
        sure=Integer,  # whether NTP confirmed it, then
        state=Text,  # running, step or pause
        step=BigInteger,
        confirmed=Integer,  # how often an operator has confirmed the clock
        shift=BigInteger,  # the sum of confirmed steps; sealed arrivals are in time minus shift
    ),
)
spaces = Table(
    "gateway_spaces",
    metadata,
    *keys(name=Text),
    *required(settings=Text, last=BigInteger),  # last: the feed's newest position; its lock orders workers
)
tokens = token_table("gateway_tokens", metadata)
records = record_table("gateway_records", metadata)
held = Table(
    "gateway_held",
    metadata,
    *keys(id=Text),
    Column("receipt", Text, nullable=False, unique=True),  # its hash
    *required(
        space=Text,
        due_at=BigInteger,
        shuffle=BigInteger,
        waits=Integer,  # 1 while the post that it answers is held
        body=LargeBinary,  # thread, text, what it answers, and the held posts that answer it
    ),
    Column("batched_at", BigInteger),  # when it is due if a companion comes within the window (symmetric only)
    sqlite_with_rowid=False,
)
Index("gateway_held_due", held.c.space, held.c.due_at)
recent = Table(
    "gateway_recent",
    metadata,
    *keys(person=Text),  # a MAC of space, actor and day: another one every day
    *required(
        body=LargeBinary,  # thread, arrival, declaration and id of each post, sealed and padded
        forget=BigInteger,  # a multiple of the window, in time minus shift
    ),
    sqlite_with_rowid=False,
)
Index("gateway_recent_forget", recent.c.forget)
receipts = Table(
    "gateway_receipts",
    metadata,
    *keys(receipt=Text),
    *required(
        owner=Text, space=Text, state=Text, expires=BigInteger
    ),  # owner: a MAC, see above; state: taken or withdrawn
    sqlite_with_rowid=False,
)
feed = Table(
    "gateway_feed",
    metadata,
    *keys(space=Text, position=BigInteger),
    Column("id", Text, nullable=False, unique=True),  # made from the held post: it cannot be published twice
    *required(thread=Text, content=Text, posted_at=BigInteger),
    Column("reply_to", Text),
    sqlite_with_rowid=False,
)
hooks = Table(
    "gateway_hooks",
    metadata,
    *keys(name=Text),
    *required(space=Text, url=Text, secret=LargeBinary),
    *required(after=BigInteger, attempts=Integer, next_try=BigInteger, active=Integer),
    *required(since=BigInteger, problem=Text),  # of the failures in a row: the first one's time, the last one's kind
)
letters = Table(
    "gateway_letters",
    metadata,
    *keys(hook=Text, after=BigInteger),  # items behind this position of the feed were not delivered
    *required(sent=BigInteger, last=BigInteger, given_up_at=BigInteger, problem=Text),
    *required(state=Text),  # dead or replay; items up to ``sent`` were accepted in a replay
)
tally = Table("gateway_tally", metadata, *keys(space=Text, name=Text), *required(value=BigInteger))
audit = Table(
    "gateway_audit",
    metadata,
    *keys(number=Integer),
    *required(
        at=BigInteger,
        action=Text,  # request or approve
        request=Integer,  # the number of the request that is made or approved
        body=LargeBinary,  # operator, receipt and reason, sealed
    ),
)
beats = Table(
    "gateway_beats",
    metadata,
    *keys(part=Text, process=Text),  # publishing, webhooks or intake; a random name
    *required(state=Text, at=BigInteger),  # running, dead or stopped
)


def schema(vault: Vault) -> Schema:
    """The gateway's tables; the secret of the hashes is sealed from its first moment."""

    def first_rows() -> dict[Table, dict[str, Any]]:
        sealed = vault.seal(secrets.token_bytes(32), about=SECRET)
        zeros = ("high", "stopwatch", "ahead", "sure", "step", "confirmed", "shift")
        began = {"boot": "", "state": "running", **dict.fromkeys(zeros, 0)}
        return {version: {"epoch": secrets.token_hex(8), "secret": sealed}, clock: began}

    guards = (guard("gateway_audit", "peerveil: what operators did is append-only"),)
    return Schema(VERSION, version, first_rows, guards, alone=False)
