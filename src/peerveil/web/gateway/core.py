"""The gateway itself: its database, its keys, its spaces, and what it can do without a network."""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Final

from sqlalchemy import Connection, select, update

from peerveil.core.errors import BadInput, Verbatim
from peerveil.storage import Closable
from peerveil.web.common import Digests, GroupCommit, Identity, Records, ServiceDatabase, Tokens, Vault, open_database
from peerveil.web.common.database import update_or_insert
from peerveil.web.common.errors import NotFound
from peerveil.web.common.tokens import EVERYWHERE
from peerveil.web.common.vault import CannotOpen
from peerveil.web.gateway.feed import Cursors, Item, read_items
from peerveil.web.gateway.intake import AuthorRequest, Intake
from peerveil.web.gateway.publish import Publisher
from peerveil.web.gateway.space import Space
from peerveil.web.gateway.tables import SECRET, clock, held, hooks, records, schema, spaces, tokens, version
from peerveil.web.gateway.watch import Halted, Watch

ROLES: Final = ("author", "reader", "operator")
_REFRESH_SECONDS: Final = 5.0  # after which all processes see changed settings


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
        self.vault = vault
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
        self.records = Records(records, vault)
        self.cursors = Cursors(self.digests, self.epoch)
        self.intake = Intake(vault, self.digests, self.records, self.watch)
        self.publisher = Publisher(vault, self.digests, self.records)
        # whatever intake there is when requests come: tests put in faulty ones
        self.group: GroupCommit[AuthorRequest, bytes] = GroupCommit(
            self.database, lambda *batch: self.intake.take(*batch)
        )
        self._spaces: tuple[float, dict[str, Space]] = (0.0, {})

    def close(self) -> None:
        """Finish what is under way and give the connections back."""
        self.group.stop()
        self.database.close()

    def __repr__(self) -> str:
        return f"<Gateway at {self.database.shown}>"

    # ---- spaces and tokens --------------------------------------------------------------------------------------

    def configure(self, wanted: Iterable[Space]) -> None:
        """Write the settings of spaces. They hold for posts that are taken from now on; drawn delays stay."""
        listed = list(wanted)
        secrets_of = {h.url: _secret(h.secret_env, f"spaces.{s.name}.webhooks") for s in listed for h in s.webhooks}
        with self.database.writing("open") as connection:
            self._reseal_secret(connection)
            for space in listed:
                update_or_insert(connection, spaces, {"name": space.name}, {"settings": space.to_json()}, last=0)
                self._configure_hooks(connection, space, secrets_of)
        self._spaces = (0.0, {})

    def _reseal_secret(self, connection: Connection) -> None:
        """Seal the secret with the current key, so that an older one can be taken away."""
        sealed = bytes(connection.execute(select(version.c.secret).with_for_update()).scalar_one())
        if Vault.key_of(sealed) != self.vault.current:
            secret = self.vault.open(sealed, about=SECRET)
            connection.execute(update(version).values(secret=self.vault.seal(secret, about=SECRET)))

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
        if role == "author" and not actor.strip():
            raise BadInput(
                "--actor", got=actor, want="the author's account on your platform; it never leaves the gateway"
            )
        if space == EVERYWHERE and role != "operator":
            raise BadInput("--space", got=space, want="one space, for authors and readers")
        if space != EVERYWHERE and space not in self.spaces:
            listed = ", ".join(sorted(self.spaces)) or "none yet"
            raise BadInput("--space", got=space, want=f"a space of this gateway ({listed})")
        with self.database.writing("open") as connection:
            return self.tokens.issue(connection, role=role, scope=space, actor=actor)

    # ---- posts --------------------------------------------------------------------------------------------------

    def take(self, request: AuthorRequest) -> bytes:
        """Take one request now, in a transaction of its own. Servers use the group instead."""
        with self.recording_halts(), self.database.writing("take") as connection:
            (answer,) = self.intake.take(connection, [request])
            if isinstance(answer, Exception):
                raise answer
        return bytes(answer)

    def status(self, identity: Identity, receipt: str) -> str:
        """``held``, ``posted`` or ``withdrawn``, for the author alone; never when."""
        digest = sha256(receipt.encode()).hexdigest()
        with self.database.reading() as connection:
            row = self.intake.find_receipt(connection, digest, identity.scope, identity.actor)
            if row.state == "withdrawn":
                return "withdrawn"
            waits = connection.execute(select(held.c.id).where(held.c.receipt == digest)).first()
        return "posted" if waits is None else "held"

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
