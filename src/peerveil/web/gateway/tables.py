"""The tables of a gateway. What arrives stands in two of them only, in sealed blocks of constant size.

========= ===================================================================== =====================================
table     holds                                                                 what a copy without the key shows
========= ===================================================================== =====================================
journal   one sealed frame per tick, whether anything came or not               how long the gateway has run
state     what the frames before it said, sealed, in a padded number of chunks  the size, to a factor of two
feed      what readers see                                                      the same
spaces    settings, and the feed's newest position                              the same
clock     the latest time acted on, and confirmed steps                         when something was last published
tokens    hashes of tokens, sealed actors                                       how many, for which space and role
audit     who asked to read a held post, or took one down, sealed               how many, when
hooks     how far each webhook has come, and its failures                       the same
letters   which parts of the feed the receiver of a webhook did not take        the same
beats     which background parts run in which process                           the same
========= ===================================================================== =====================================

:mod:`peerveil.web.gateway.frames` says why this is enough. Rows of a backup stand in the order of their keys.
``tests/web/gateway/test_linkage.py`` attacks every column, and ``test_thief.py`` files, logs and row versions.
"""

import secrets
from typing import Any, Final

from sqlalchemy import BigInteger, Column, Connection, Index, Integer, LargeBinary, MetaData, Table, Text

from peerveil.storage import Schema, guard, keys, required, version_table
from peerveil.web.common.tokens import token_table
from peerveil.web.common.vault import Vault

VERSION: Final = 4
SECRET: Final = "gateway secret"  # noqa: S105 - what the secret of the hashes is sealed about
TICK_MS: Final = 250
"""Milliseconds between two frames, unless ``peerveil gateway init`` says otherwise."""
FRAME_BYTES: Final = 16_384
"""Bytes that a frame holds, sealed or not, whatever came."""
metadata = MetaData()

version = version_table(
    "gateway_book",
    metadata,
    *required(
        epoch=Text,  # a random name; a restored copy gets another, so old cursors are refused
        secret=LargeBinary,  # sealed; all MAC keys, and with PEERVEIL_KEY all keys of blocks, are derived from it
        generation=Integer,  # of the state that holds
        fence=BigInteger,  # how often a process has begun to lead; writers check it
        leader=Text,  # where the process that leads listens to the others
        tick_ms=Integer,
        frame_bytes=Integer,
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
        shift=BigInteger,  # the sum of confirmed steps; all sealed times are in time minus shift
    ),
)
spaces = Table(
    "gateway_spaces",
    metadata,
    *keys(name=Text),
    *required(settings=Text, last=BigInteger),  # last: the feed's newest position; its lock orders workers
)
tokens = token_table("gateway_tokens", metadata)
frames = Table(
    "gateway_journal",
    metadata,
    *keys(seq=BigInteger),
    *required(body=LargeBinary),  # sealed, of constant length
)
state = Table(
    "gateway_state",
    metadata,
    *keys(generation=Integer, chunk=Integer),
    *required(body=LargeBinary),  # the same
)
feed = Table(
    "gateway_feed",
    metadata,
    *keys(space=Text, position=BigInteger),
    Column("id", Text, nullable=False, unique=True),  # drawn at intake: it cannot be published twice
    *required(thread=Text, content=Text, posted_at=BigInteger),
    Column("reply_to", Text),
    Column("metadata", Text),  # what the platform gave along with the post, as it is
    Column("kind", Text, nullable=False, server_default="post"),  # post, edit or removed
    Column("changes", Text),  # the id of the post that an edit or a removal changes
    sqlite_with_rowid=False,
)
_is_change = feed.c.changes.is_not(None)
Index("gateway_feed_changes", feed.c.changes, sqlite_where=_is_change, postgresql_where=_is_change)
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
audit = Table(
    "gateway_audit",
    metadata,
    *keys(number=Integer),
    *required(
        at=BigInteger,
        action=Text,  # request, approve or removal
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
        book = {"generation": 0, "fence": 0, "leader": "", "tick_ms": TICK_MS, "frame_bytes": FRAME_BYTES}
        return {version: {"epoch": secrets.token_hex(8), "secret": sealed, **book}, clock: began}

    # PostgreSQL would move a frame out of line and compress it: it cannot be compressed, and need not be tried
    external = [f"ALTER TABLE {table.name} ALTER COLUMN body SET STORAGE EXTERNAL" for table in (frames, state)]
    guards = (guard("gateway_audit", "peerveil: what operators did is append-only"), {"postgresql": external})

    def upgraded(connection: Connection) -> None:
        from peerveil.web.gateway.migration import upgrade

        upgrade(connection, vault)

    hint = " (run `peerveil gateway init`)"
    return Schema(VERSION, version, first_rows, guards, alone=False, upgrades={VERSION - 1: upgraded}, hint=hint)
