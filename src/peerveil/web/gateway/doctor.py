"""``peerveil gateway doctor``: is everything as it should be, and what to do if not."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import func, select, text

from peerveil.web.common.clock import SECOND, database_time
from peerveil.web.common.vault import VARIABLE, Vault
from peerveil.web.gateway.page import fit_verdict
from peerveil.web.gateway.pulse import PARTS, signs_of_life
from peerveil.web.gateway.tables import VERSION, clock, held, hooks, tokens
from peerveil.web.gateway.tally import BINS, read_tally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from peerveil.web.gateway.core import Gateway


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str
    ok: bool
    found: str
    do: str = ""
    fails: bool = True
    """Whether it is a fault, if it is not ok: what was not started is none."""


def examine(gateway: Gateway) -> list[Finding]:
    """Look at everything. Nothing here depends on how much is held."""
    with gateway.database.reading() as connection:
        return list(_findings(gateway, connection))


def _findings(gateway: Gateway, connection: Connection) -> Iterator[Finding]:
    yield Finding("tables", True, f"version {VERSION} at {gateway.database.shown}")
    where = "the environment" if os.environ.get(VARIABLE) else "a file"
    yield Finding("key", True, f"{gateway.vault.current!r} opens the gateway (from {where})")
    foreign = _foreign_keys(connection, gateway.vault)
    yield Finding(
        "sealed posts", not foreign, "all of a sample open" if not foreign else "some have a key that is missing",
        f"put the old key back into {VARIABLE}, behind the new one",
    )  # fmt: skip
    yield from _time(connection)
    signs = signs_of_life(connection, gateway.watch.source(connection))
    for part, command in PARTS.items():
        state, ago = signs.get(part, ("not started yet", 0))
        faulty = state in ("dead", "silent")
        found = f"{state}, {ago / SECOND:.0f} s ago" if part in signs else state
        yield Finding(
            f"{part} thread", state == "running", found, f"restart {command}" if faulty else command, fails=faulty
        )
    yield from _durability(connection)
    yield Finding("spaces", bool(gateway.spaces), ", ".join(sorted(gateway.spaces)) or "none", "peerveil gateway init")
    roles = set(connection.execute(select(tokens.c.role).where(tokens.c.state == "good").distinct()).scalars())
    yield Finding("tokens", bool(roles), ", ".join(sorted(roles)) or "none", "peerveil gateway token --space ...")
    failing = connection.execute(select(hooks.c.name).where(hooks.c.active == 1, hooks.c.attempts >= 5)).scalars().all()
    said = ", ".join(failing) or "none is failing"
    yield Finding("webhooks", not failing, said, "look at the receiver; nothing is lost, it is tried again")
    for name in sorted(gateway.spaces):
        counts = read_tally(connection, name)
        if any(counts.get(f"fit_{k}") for k in range(BINS)):
            yield Finding(f"delays in {name}", *fit_verdict(counts))


def _foreign_keys(connection: Connection, vault: Vault) -> bool:
    # the random keys of the table make this a sample that has nothing to do with arrival
    sample = connection.execute(select(held.c.id, held.c.body).order_by(held.c.id).limit(50)).all()
    for row in sample:
        try:
            vault.open(bytes(row.body), about=row.id)
        except Exception:
            return True
    return False


def _time(connection: Connection) -> Iterator[Finding]:
    row = connection.execute(select(clock)).one()
    halted = row.state != "running"
    yield Finding(
        "clock",
        not halted,
        "running" if not halted else f"halted: it moved by {row.step / SECOND:,.0f} s (a {row.state})",
        "look at the clock, then --confirm-clock step (it was moved) or --confirm-clock pause (time has passed)",
    )
    now = database_time(connection)
    apart = now / SECOND - time.time()
    yield Finding("this machine's clock", abs(apart) < 5, f"{apart:+.1f} s from the database's", "set the clocks (NTP)")


def _durability(connection: Connection) -> Iterator[Finding]:
    if connection.dialect.name == "sqlite":
        mode = connection.execute(text("PRAGMA journal_mode")).scalar()
        sync = connection.execute(text("PRAGMA synchronous")).scalar()
        yield Finding("durability", mode == "wal" and sync == 2, f"journal {mode}, synchronous {sync}", "a local disk")
        return
    off = [name for name in ("fsync", "full_page_writes") if connection.execute(text(f"SHOW {name}")).scalar() == "off"]
    said = "PostgreSQL syncs what it acknowledges" if not off else f"{', '.join(off)} off"
    yield Finding("durability", not off, said, "switch them on in postgresql.conf")
    fine = connection.execute(select(func.current_setting("server_encoding"))).scalar() == "UTF8"
    yield Finding("encoding", bool(fine), "UTF-8" if fine else "not UTF-8", "make the database with encoding UTF8")
