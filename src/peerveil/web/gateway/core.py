"""The gateway itself: its database, its keys, its spaces, and what it can do without a network."""

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from sqlalchemy import Connection, select, update

from peerveil.core.errors import BadInput, Verbatim
from peerveil.storage import Closable
from peerveil.web.common import Digests, Identity, ServiceDatabase, Tokens, Vault, open_database
from peerveil.web.common.database import update_or_insert
from peerveil.web.common.errors import NotFound
from peerveil.web.common.tokens import EVERYWHERE
from peerveil.web.common.vault import CannotOpen
from peerveil.web.gateway.compaction import INTERVAL_SECONDS
from peerveil.web.gateway.feed import Cursors, Item, read_items
from peerveil.web.gateway.fence import NotLeading
from peerveil.web.gateway.frames import Sealer
from peerveil.web.gateway.intake import AuthorRequest, Intake, Moment
from peerveil.web.gateway.keys import keys_in_use
from peerveil.web.gateway.leader import Leader
from peerveil.web.gateway.posts import HELD, LEAVING, WITHDRAWN
from peerveil.web.gateway.publish import Publisher
from peerveil.web.gateway.relay import RelayClient
from peerveil.web.gateway.space import Space
from peerveil.web.gateway.tables import SECRET, clock, hooks, schema, spaces, tokens, version
from peerveil.web.gateway.tally import Tally
from peerveil.web.gateway.ticks import Ticks
from peerveil.web.gateway.watch import RESTORED, Halted, Watch

ROLES: Final = ("author", "reader", "operator", "platform")
_PATIENCE_SECONDS: Final = 30.0  # for an answer of the process that leads
_REFRESH_SECONDS: Final = 5.0  # after which all processes see changed settings


@dataclass(frozen=True, slots=True)
class Clock:
    """The time as it was read, which goes on from there by the stopwatch until it is read again."""

    now: int
    shift: int
    _watch: Watch
    _read_at: int

    def moment(self) -> Moment:
        """The time now."""
        return Moment(self.now + max(0, self._watch.stopwatch.read() - self._read_at), self.shift)


class Gateway(Closable):
    """A gateway on a database. Safe to use from several threads; several may share a database.

    Parameters
    ----------
    url
        A path or ``sqlite:///path``, or ``postgresql://user@host/database``.
    vault
        The keys.
    create
        Whether to create the tables if there are none.
    watch
        How time is read; for tests.
    """

    def __init__(self, url: str, vault: Vault, *, create: bool = False, watch: Watch | None = None) -> None:
        self.url, self.vault = url, vault
        self.database: ServiceDatabase = open_database(url, schema(vault), create=create)
        try:
            with self.database.reading("open") as connection:
                row = connection.execute(select(version)).one()
            try:
                secret = vault.open(bytes(row.secret), about=SECRET)
            except CannotOpen as error:
                raise BadInput("PEERVEIL_KEY", got=Verbatim(str(error)), want="the key of this gateway") from None
        except BaseException:
            self.database.close()
            raise
        self.epoch = str(row.epoch)
        self.digests = Digests(secret)
        self.watch = Watch() if watch is None else watch
        # sealed with a key of its own: it stays when PEERVEIL_KEY is changed, for the secret is then sealed anew
        self.names = Vault({"names": self.digests.key("names")})
        self.tokens = Tokens(self.database, tokens, ROLES, self.names)
        self.cursors = Cursors(self.digests, self.epoch)
        self.sealer = Sealer(vault, secret)
        self.leader = Leader(self.database, self.sealer, self.digests, lambda: self.spaces)
        # whatever intake and publisher there are when they are needed: tests put in faulty ones
        self.intake = Intake(self.digests)
        self.publisher = Publisher()
        self.relay_host = "127.0.0.1"
        self.compaction_seconds = INTERVAL_SECONDS
        self.group = Ticks(self)
        self.relay = RelayClient(self.sealer.derive("relay"), self.leader.find)
        self._spaces: tuple[float, dict[str, Space]] = (0.0, {})

    def close(self) -> None:
        """Finish what is under way and give the connections back."""
        self.group.stop()
        self.leader.drop()
        self.relay.close()
        self.database.close()

    def __repr__(self) -> str:
        return f"<Gateway at {self.database.shown}>"

    # ---- spaces and tokens --------------------------------------------------------------------------------------

    def configure(self, wanted: Iterable[Space], *, tick_ms: int | None = None, frame_bytes: int | None = None) -> None:
        """Write the settings of spaces, and of the journal if they are given. Drawn delays stay.

        A process that leads uses a new tick and size of frames when it is started again.
        """
        listed = list(wanted)
        book = {
            name: value for name, value in (("tick_ms", tick_ms), ("frame_bytes", frame_bytes)) if value is not None
        }
        secrets_of = {h.url: _secret(h.secret_env, f"spaces.{s.name}.webhooks") for s in listed for h in s.webhooks}
        with self.database.writing("open") as connection:
            self._reseal_secrets(connection)
            if book:
                connection.execute(update(version).values(**book))
            for space in listed:
                update_or_insert(connection, spaces, {"name": space.name}, {"settings": space.to_json()}, last=0)
                self._configure_hooks(connection, space, secrets_of)
        self._spaces = (0.0, {})
        self._reseal_posts()

    def _reseal_secrets(self, connection: Connection) -> None:
        """Seal the gateway's secret and those of webhooks with the current key, so that an older one can be taken away."""
        sealed = bytes(connection.execute(select(version.c.secret).with_for_update()).scalar_one())
        if Vault.key_of(sealed) == self.vault.current:
            return
        secret = self.vault.open(sealed, about=SECRET)
        connection.execute(update(version).values(secret=self.vault.seal(secret, about=SECRET)))
        for row in connection.execute(select(hooks.c.name, hooks.c.secret)).all():
            sealed = self.vault.seal(self.vault.open(bytes(row.secret), about=row.name), about=row.name)
            connection.execute(update(hooks).where(hooks.c.name == row.name).values(secret=sealed))

    def _reseal_posts(self) -> None:
        """Seal journal and state with the current key; if another process leads, that does it by the clock."""
        old = self.vault.names - {self.vault.current}
        if old:
            with self.database.reading("open") as connection:
                in_use = keys_in_use(connection)
            if any(in_use.get(name) for name in old):
                with suppress(NotLeading):
                    self.leader.compact()

    def _configure_hooks(self, connection: Connection, space: Space, secrets_of: dict[str, str]) -> None:
        last = connection.execute(select(spaces.c.last).where(spaces.c.name == space.name)).scalar_one()
        fresh = {"space": space.name, "after": last, "attempts": 0, "next_try": 0, "since": 0, "problem": ""}
        connection.execute(update(hooks).where(hooks.c.space == space.name).values(active=0))
        for url in (hook.url for hook in space.webhooks):
            name = f"{space.name}-{sha256(url.encode()).hexdigest()[:8]}"
            values = {"secret": self.vault.seal(secrets_of[url].encode(), about=name), "active": 1}
            update_or_insert(connection, hooks, {"name": name}, values, url=url, **fresh)

    @property
    def spaces(self) -> dict[str, Space]:
        """The spaces by name."""
        read_at, by_name = self._spaces
        if time.monotonic() - read_at > _REFRESH_SECONDS or not by_name:
            rows = self.database.rows(select(spaces.c.name, spaces.c.settings))
            by_name = {row.name: Space.from_json(row.settings) for row in rows}
            self._spaces = (time.monotonic(), by_name)
        return by_name

    def space(self, name: str) -> Space:
        """One space."""
        space = self.spaces.get(name)
        if space is None:
            raise NotFound("no such space")
        return space

    def issue_token(self, *, role: str, space: str, actor: str = "") -> str:
        """A new token; authors need an actor, who is the person behind a pseudonym or an account of the platform."""
        return self.issue_tokens(role=role, space=space, actors=[actor])[0]

    def issue_tokens(self, *, role: str, space: str, actors: Sequence[str]) -> list[str]:
        """A new token for each actor, together: how many were issued when is all that a copy of the database shows."""
        for actor in actors:
            if role == "author" and not actor.strip():
                raise BadInput(
                    "--actor", got=actor, want="the author's account on your platform; it never leaves the gateway"
                )
            if role == "platform" and actor:
                raise BadInput("--actor", got=actor, want="none: a platform names the author of each request")
        if space == EVERYWHERE and role not in ("operator", "platform"):
            raise BadInput("--space", got=space, want="one space, for authors and readers")
        if space != EVERYWHERE and space not in self.spaces:
            listed = ", ".join(sorted(self.spaces)) or "none yet"
            raise BadInput("--space", got=space, want=f"a space of this gateway ({listed})")
        with self.database.writing("open") as connection:
            return self.tokens.issue_many(connection, role=role, scope=space, actors=actors)

    def revoke_token(self, name: str, scope: str = EVERYWHERE) -> bool:
        """Make the token of an id worthless; whether there is one. Other processes know within half a minute."""
        with self.database.writing("open") as connection:
            return self.tokens.revoke(connection, name, scope)

    # ---- posts --------------------------------------------------------------------------------------------------

    def take(self, request: AuthorRequest) -> bytes:
        """Take one request now. Servers use :attr:`group` instead, which writes by the clock."""
        (answer,) = self.take_all([request])
        if isinstance(answer, Exception):
            raise answer
        return answer

    def take_all(self, requests: Sequence[AuthorRequest]) -> list[bytes | Exception]:
        """Take requests now: an answer or a refusal for each. Nothing beside hides how much came."""
        if self.group.is_alive():
            futures = [self.group.put(request) for request in requests]
            return [future.exception() or future.result() for future in futures]  # type: ignore[misc]
        with self.recording_halts(), self.leader.lock:
            _ = self.leader.memory
            outcomes = self.leader.take(self.intake, requests, self.read_clock().moment())
            while self.leader.backlog:
                self.leader.write(self.leader.cut())
        return [outcome.answer for outcome in outcomes]

    def status(self, identity: Identity, receipt: str) -> str:
        """``held``, ``posted`` or ``withdrawn``, for the author alone; never when."""
        if self.group.passes_on:
            return str(self.relay.ask("status", identity.scope, identity.actor, receipt).result(_PATIENCE_SECONDS))
        with self.leader.lock:
            post = self.intake.find(self.leader.memory, receipt, identity.scope, identity.actor)
            return "withdrawn" if post.state == WITHDRAWN else "held" if post.state in (HELD, LEAVING) else "posted"

    def tallies(self) -> Mapping[str, Tally]:
        """The figures of what was published, by space: of the process that leads, or as of the last compaction."""
        counted: Mapping[str, Mapping[str, int]]
        if self.group.passes_on:
            counted = self.relay.ask("tallies").result(_PATIENCE_SECONDS)
        else:
            with self.leader.lock:
                leads = self.leader.is_leading
                counted = dict(self.leader.memory.tallies) if leads else self.leader.written_tallies()
        return {name: Tally(counted.get(name, {})) for name in self.spaces}

    def read_clock(self) -> Clock:
        """The trusted time, or :class:`Halted`."""
        with self.database.reading("take") as connection:
            now = self.watch.now(connection)
            return Clock(now, now - self.watch.unshifted(connection, now), self.watch, self.watch.stopwatch.read())

    def read(self, space: str, after: str | None = None, limit: int = 100) -> tuple[list[Item], str]:
        """Items of the feed behind a cursor, and the cursor behind them."""
        start = self.cursors.read(space, after)
        with self.database.reading() as connection:
            items, last = read_items(connection, space, start, limit)
        return items, self.cursors.write(space, last)

    def latest(self, space: str, limit: int = 50) -> list[Item]:
        """The newest items, newest first."""
        with self.database.reading() as connection:
            return read_items(connection, space, 0, limit, newest=True)[0]

    def in_doubt(self) -> Halted | None:
        """Why nothing is taken or published, if so: the clock moved, and nobody has looked yet."""
        row = self.database.first(select(clock))
        return None if row.state == "running" else Halted(row.state, row.step)

    def confirm_clock(self, what: str) -> int:
        """An operator has looked at the clock (:meth:`Watch.confirm`). Returns the microseconds that held posts moved."""
        with self.database.writing("confirm", whole=True) as connection:
            return self.watch.confirm(connection, what)

    def confirm_restore(self, what: str) -> int:
        """An operator has looked at a restored copy: its held posts are to ``release``, or to ``discard`` as if withdrawn.

        Returns how many were discarded.
        """
        if what not in {"release", "discard"}:
            raise BadInput("--confirm-restore", got=what, want="release or discard")
        if self.database.first(select(clock)).state != RESTORED:
            raise BadInput("--confirm-restore", got=what, want="nothing: this is no restored copy that waits")
        discarded = 0
        if what == "discard":
            try:
                discarded = self.leader.discard()
            except NotLeading:
                want = "servers and workers of this copy to be stopped first"
                raise BadInput("--confirm-restore", got=what, want=want) from None
        with self.database.writing("confirm", whole=True) as connection:
            connection.execute(update(clock).where(clock.c.state == RESTORED).values(state="running", step=0))
        return discarded

    @contextmanager
    def recording_halts(self) -> Iterator[None]:
        """Around anything that reads the time: a clock in doubt is made known to all processes."""
        try:
            yield
        except Halted as halted:
            self.watch.record(self.database, halted)
            raise

    @contextmanager
    def acting(self, action: str) -> Iterator[tuple[Connection, int]]:
        """A transaction at a trusted time, which is written down as the latest one acted on."""
        with self.recording_halts(), self.database.writing(action) as connection:
            now = self.watch.now(connection)
            yield connection, now
            self.watch.keep(connection, now)


def _secret(name: str, where: str) -> str:
    value = os.environ.get(name, "")
    if len(value) < 16:
        want = f"a secret of at least 16 characters in the environment variable {name}"
        raise BadInput(where, got=Verbatim("none, or a short one"), want=want)
    return value
