"""Health: which background threads run where, and what ``peerveil gateway doctor`` checks.

Each process writes every few seconds which of its threads run. A thread that has died is named by ``/healthz`` of its own
process at once, and by ``peerveil gateway doctor`` from any machine. A process that was killed falls silent, and doctor
says so unless another one does the same work.

``/healthz`` says whether this process should be restarted; ``/readyz`` whether posts that it takes will be published: the
database answers, the clock is not in doubt, and publishing runs in some process. It answers from the memory of the last
heartbeat, without the database, so the time of the answer does not depend on what the database is doing.
"""

import json
import math
import os
import resource
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, delete, select, text

from peerveil.web.common import Journal
from peerveil.web.common.database import SECOND, database_time, insert_rows
from peerveil.web.common.vault import VARIABLE, Vault
from peerveil.web.gateway.core import Gateway
from peerveil.web.gateway.keys import keys_in_use
from peerveil.web.gateway.tables import VERSION, beats, frames, state, tokens
from peerveil.web.gateway.tally import BINS, fit_verdict
from peerveil.web.gateway.watch import RESTORED, Halted, Watch
from peerveil.web.gateway.webhooks import read_webhooks

_INTERVAL_SECONDS: Final = 5.0
_SILENT: Final = 60 * SECOND  # without a heartbeat for this long, a part counts as dead
_KEEP: Final = 3600 * SECOND
_STALE_SECONDS: Final = 3 * _INTERVAL_SECONDS
TICKS: Final = "ticks"
"""Under this name a heartbeat counts missed ticks; when nothing is committed, the journal shows it as well."""
_PARTS: Final = {  # what runs in the background, and how it is started
    "publishing": "peerveil gateway serve, or work",
    "webhooks": "peerveil gateway serve, or work",
    "intake": "peerveil gateway serve",
}


class Heartbeat(threading.Thread):
    """Writes which parts of one process are alive; ``parts`` says of each part whether its thread runs."""

    def __init__(self, gateway: Gateway, journal: Journal, parts: Callable[[], Mapping[str, bool]]) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._gateway = gateway
        self._journal = journal
        self._parts = parts
        self._process = secrets.token_hex(8)
        self._stopping = threading.Event()
        self._known_dead: set[str] = set()
        self._looked_at = -math.inf
        self._problems: list[str] = []

    def stop(self) -> None:
        """Record that this process ends on purpose. Call it while the threads still run."""
        self._stopping.set()
        self.join()

    def alive(self) -> dict[str, bool]:
        """Of each part of this process whether it runs."""
        return {**self._parts(), "heartbeat": self.is_alive()}

    def problems(self) -> list[str]:
        """Why posts that are taken here would not be published; nothing if they would."""
        dead = [f"{part} is dead in this process" for part, alive in self.alive().items() if not alive]
        if time.monotonic() - self._looked_at > _STALE_SECONDS:
            return [*dead, "the database does not answer"]
        return [*dead, *self._problems]

    def run(self) -> None:
        """Called by :meth:`start`."""
        stopping = False
        while not stopping:
            stopping = self._stopping.is_set()
            try:
                self._beat(stopping)
            except Exception as error:  # the database is away: others see that we are silent
                self._journal.error("heartbeat_failed", error)
            if not stopping:
                self._stopping.wait(_INTERVAL_SECONDS)

    def _beat(self, stopping: bool) -> None:
        parts = self._parts()
        newly_dead = {name for name, alive in parts.items() if not alive} - self._known_dead
        for name in sorted(newly_dead):
            self._journal.write("part_dead", level="error", reason=name)
        self._known_dead |= newly_dead
        state = "stopped" if stopping else "running"
        with self._gateway.database.writing("beat") as connection:
            now = self._gateway.watch.source(connection)
            rows = [
                {"part": name, "process": self._process, "state": state if alive else "dead", "at": now}
                for name, alive in parts.items()
            ]
            ticks = self._gateway.group
            if ticks.due:
                counted = json.dumps([ticks.missed, ticks.due])
                rows.append({"part": TICKS, "process": self._process, "state": counted, "at": now})
            insert_rows(connection, beats, rows, replace=True)
            connection.execute(delete(beats).where(beats.c.at < now - _KEEP))
            self._problems = list(_obstacles(connection, self._gateway.watch, now))
        self._looked_at = time.monotonic()


def read_heartbeats(connection: Connection, now: int) -> dict[str, tuple[str, int]]:
    """For each part that ever ran: ``running``, ``stopped``, ``dead`` or ``silent``, and the microseconds since."""
    states: dict[str, tuple[str, int]] = {}
    for part in _PARTS:
        rows = connection.execute(select(beats).where(beats.c.part == part).order_by(beats.c.at.desc())).all()
        fresh = [row for row in rows if now - row.at <= _SILENT and row.state != "stopped"]
        newest = next((row for row in fresh if row.state == "dead"), fresh[0] if fresh else rows[0] if rows else None)
        if newest is not None:
            silent = newest.state != "stopped" and now - newest.at > _SILENT
            states[part] = ("silent" if silent else newest.state, max(0, now - newest.at))
    return states


def _halted(connection: Connection, watch: Watch) -> Halted | None:
    """Why the time is not certain, if so."""
    try:
        watch.now(connection)
    except Halted as halted:
        return halted
    return None


def _obstacles(connection: Connection, watch: Watch, now: int) -> Iterator[str]:
    """What keeps posts from being published, wherever it is."""
    halted = _halted(connection, watch)
    if halted is not None:
        yield f"halted: {'a restored copy' if halted.kind == RESTORED else f'the clock is in doubt ({halted.kind})'}"
    states = read_heartbeats(connection, now)
    for part in _PARTS:
        state = states.get(part, ("not started", 0))[0]
        if state in ("dead", "silent") or (part == "publishing" and state != "running"):
            yield f"{part} is {state}"


@dataclass(frozen=True)
class HealthCheck:
    """One check of a gateway: its result, and what to do if it is not ok."""

    what: str
    ok: bool
    found: str
    do: str = ""
    fails: bool = True
    """Whether it is a fault, if it is not ok: what was not started or made yet is none."""

    @property
    def state(self) -> str:
        """``ok``, ``next`` (a step that is still to be taken) or ``WRONG``."""
        return "ok" if self.ok else "WRONG" if self.fails else "next"


def examine(gateway: Gateway) -> list[HealthCheck]:
    """Check everything. Nothing here depends on how much is held."""
    with gateway.database.reading() as connection:
        return list(_checks(gateway, connection))


def _checks(gateway: Gateway, connection: Connection) -> Iterator[HealthCheck]:
    yield HealthCheck("tables", True, f"version {VERSION} at {gateway.database.shown}")
    where = "the environment" if os.environ.get(VARIABLE) else "a file"
    yield HealthCheck("key", True, f"{gateway.vault.current!r} opens the gateway (from {where})")
    yield from _old_keys(connection, gateway.vault)
    foreign = _has_foreign_keys(connection, gateway.vault)
    result = "their key is missing" if foreign else "their key is here"
    yield HealthCheck("sealed posts", not foreign, result, f"put the old key back into {VARIABLE}, behind the new one")
    yield from _time(connection, gateway.watch)
    beats_by_part = read_heartbeats(connection, gateway.watch.source(connection))
    for part, command in _PARTS.items():
        state, ago = beats_by_part.get(part, ("not started yet", 0))
        faulty = state in ("dead", "silent")
        since = f"{state}, {ago / SECOND:.0f} s ago" if part in beats_by_part else state
        remedy = f"restart {command}" if faulty else command
        yield HealthCheck(f"{part} thread", state == "running", since, remedy, fails=faulty)
    yield from _missed_ticks(connection, gateway.watch.source(connection))
    yield from _durability(connection)
    yield from _traces(connection)
    names = ", ".join(sorted(gateway.spaces))
    yield HealthCheck("spaces", bool(names), names or "none", "peerveil gateway init")
    roles = set(connection.execute(select(tokens.c.role).where(tokens.c.state == "good").distinct()).scalars())
    remedy = "peerveil gateway token --space ..."
    yield HealthCheck("tokens", bool(roles), ", ".join(sorted(roles)) or "none yet", remedy, fails=False)
    for webhook in read_webhooks(connection, gateway.watch.source(connection)):
        remedy = "look at the receiver; then peerveil gateway webhooks replay, if there are dead letters"
        yield HealthCheck(f"webhook {webhook.name}", not webhook.is_failing, webhook.in_words(), remedy)
    for name, counts in sorted(gateway.tallies().items()):
        if any(counts[f"fit_{k}"] for k in range(BINS)):
            yield HealthCheck(f"delays in {name}", *fit_verdict(counts))


def _old_keys(connection: Connection, vault: Vault) -> Iterator[HealthCheck]:
    """Of each old key, whether it can be removed."""
    tables = keys_in_use(connection)
    for name in sorted(vault.names - {vault.current}):
        needed = ", ".join(sorted(tables.get(name, ())))
        result = f"still seals something in {needed}" if needed else "seals nothing any more"
        remedy = "restart what runs, and wait" if needed else f"peerveil gateway key rotate --drop {name}"
        yield HealthCheck(f"old key {name}", False, result, remedy, fails=False)


def _has_foreign_keys(connection: Connection, vault: Vault) -> bool:
    """Whether the newest frame or chunk is sealed with a key that is missing."""
    newest = (
        select(frames.c.body).order_by(frames.c.seq.desc()).limit(1),
        select(state.c.body).order_by(state.c.generation.desc()).limit(1),
    )
    sealed = [bytes(body) for query in newest for body in connection.execute(query).scalars()]
    return any(Vault.key_of(body) not in vault.names for body in sealed)


def _time(connection: Connection, watch: Watch) -> Iterator[HealthCheck]:
    halted = _halted(connection, watch)
    result = "running" if halted is None else halted.reason
    remedy = "look at the clock, then --confirm-clock step (it was moved) or --confirm-clock pause (time has passed)"
    if halted is not None and halted.kind == RESTORED:
        remedy = "--confirm-restore release, or discard if posts were withdrawn after the backup"
    yield HealthCheck("clock", halted is None, result, remedy)
    result = "by NTP, as the kernel says" if watch.reference() is not None else "the kernel knows of no NTP"
    remedy = "run NTP; without it, confirm the clock after each restart of the machine"
    yield HealthCheck("clock synchronized", watch.reference() is not None, result, remedy, fails=False)
    apart = database_time(connection) / SECOND - time.time()
    yield HealthCheck(
        "this machine's clock", abs(apart) < 5, f"{apart:+.1f} s from the database's", "set the clocks (NTP)"
    )


def _missed_ticks(connection: Connection, now: int) -> Iterator[HealthCheck]:
    query = select(beats).where(beats.c.part == TICKS, beats.c.at > now - _SILENT).order_by(beats.c.at.desc())
    row = connection.execute(query.limit(1)).first()
    if row is not None:
        missed, due = json.loads(row.state)
        remedy = "a faster machine, or a longer tick: missed ticks can tell when something came"
        yield HealthCheck("ticks", missed * 100 <= due, f"{missed} of {due} missed", remedy, fails=False)


def _traces(connection: Connection) -> Iterator[HealthCheck]:
    """What keeps more than one copy from one moment, or what memory holds: the proof leaves it out."""
    copies: list[str] = []
    if connection.dialect.name != "sqlite":
        settings = {name: text(f"SHOW {name}") for name in ("archive_mode", "track_commit_timestamp")}
        copies = [name for name, query in settings.items() if connection.execute(query).scalar() != "off"]
        queries = [text(f"SELECT count(*) FROM {name}") for name in ("pg_stat_replication", "pg_replication_slots")]  # noqa: S608
        if any(connection.execute(query).scalar() for query in queries):
            copies.append("replicas")
    remedy = "switch it off, or guard those copies as you guard the key"
    yield HealthCheck("log of the database", not copies, ", ".join(copies) or "not kept", remedy, fails=False)
    with suppress(OSError):
        swaps = len(Path("/proc/swaps").read_text(encoding="ascii").splitlines()) - 1
        limits = [resource.getrlimit(resource.RLIMIT_CORE)[0] != 0, swaps > 0]
        possible = [name for name, bad in zip(("core dumps", "swap"), limits, strict=True) if bad]
        remedy = "LimitCORE=0 and MemorySwapMax=0, as in packaging/systemd"
        words = f"{' and '.join(possible)} possible here" if possible else "neither swap nor core dumps"
        yield HealthCheck("memory on disk", not possible, words, remedy, fails=False)
    words = "if this gateway is older than version 4: destroy its backups from before, they link people"
    yield HealthCheck("old backups", True, words)


def _durability(connection: Connection) -> Iterator[HealthCheck]:
    def setting(query: str) -> object:
        return connection.execute(text(query)).scalar()

    if connection.dialect.name == "sqlite":
        mode, sync = setting("PRAGMA journal_mode"), setting("PRAGMA synchronous")
        result = f"journal {mode}, synchronous {sync}"
        yield HealthCheck("durability", mode == "wal" and sync == 2, result, "a local disk")
        return
    off = [name for name in ("fsync", "full_page_writes") if setting(f"SHOW {name}") == "off"]
    result = f"{', '.join(off)} off" if off else "PostgreSQL syncs what it acknowledges"
    yield HealthCheck("durability", not off, result, "switch them on in postgresql.conf")
    utf8 = setting("SHOW server_encoding") == "UTF8"
    yield HealthCheck("encoding", utf8, "UTF-8" if utf8 else "not UTF-8", "make the database with encoding UTF8")
