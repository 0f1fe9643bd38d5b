"""The gateway itself: its database, its keys, its spaces, and what can be asked of it without a network."""

from __future__ import annotations

import os
import threading
import time
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Self

from sqlalchemy import insert, select, update

from peerveil.core.errors import BadInput, Verbatim
from peerveil.web.common import Digests, GroupCommit, Identity, Records, Tokens, Vault, open_database
from peerveil.web.common.errors import NotFound
from peerveil.web.common.tokens import EVERYWHERE
from peerveil.web.common.vault import CannotOpen
from peerveil.web.gateway.feed import Cursors, Item, latest_items, read_items
from peerveil.web.gateway.intake import Intake, Job
from peerveil.web.gateway.release import Release
from peerveil.web.gateway.space import Space
from peerveil.web.gateway.tables import book, clock, held, hooks, records, schema, spaces, tokens
from peerveil.web.gateway.watch import Halted, Watch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

    from peerveil.web.common import ServiceDatabase

ROLES: Final = ("author", "reader", "operator")
_REFRESHED: Final = 5.0  # seconds after which changed settings are seen by all processes


class Gateway:
    """A gateway on a database. Safe to use from several threads; several may share a database.

    Parameters
    ----------
    url
        A path or ``sqlite:///path``, or ``postgresql://user@host/database``.
    vault
        The keys.
    create
        Whether to make the tables if there are none.
    watch
        How time is read; for tests.
    """

    def __init__(self, url: str, vault: Vault, *, create: bool = False, watch: Watch | None = None) -> None:
        self.vault = vault
        self.database: ServiceDatabase = open_database(url, schema(vault), create=create)
        try:
            with self.database.reading("open") as connection:
                row = connection.execute(select(book)).one()
            try:
                secret = vault.open(bytes(row.secret), about="gateway secret")
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
        self.release = Release(vault, self.digests, self.records)
        self.group: GroupCommit[Job, bytes] = GroupCommit(self.database, self._take)
        self._spaces: tuple[float, dict[str, Space]] = (0.0, {})
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        secrets_of = {url: _secret(name, f"spaces.{s.name}.webhooks") for s in listed for url, name in s.webhooks}
        with self.database.writing("open") as connection:
            self._reseal_secret(connection)
            known = set(connection.execute(select(spaces.c.name)).scalars())
            for space in listed:
                if space.name in known:
                    row = update(spaces).where(spaces.c.name == space.name).values(settings=space.to_json())
                    connection.execute(row)
                else:
                    connection.execute(insert(spaces).values(name=space.name, settings=space.to_json(), last=0))
                self._configure_hooks(connection, space, secrets_of)
        self._spaces = (0.0, {})

    def _reseal_secret(self, connection: Connection) -> None:
        """Seal the secret with the current key, so that an older one can be taken away."""
        sealed = bytes(connection.execute(select(book.c.secret).with_for_update()).scalar_one())
        if Vault.key_of(sealed) != self.vault.current:
            secret = self.vault.open(sealed, about="gateway secret")
            connection.execute(update(book).values(secret=self.vault.seal(secret, about="gateway secret")))

    def _configure_hooks(self, connection: Connection, space: Space, secrets_of: dict[str, str]) -> None:
        known = set(connection.execute(select(hooks.c.name).where(hooks.c.space == space.name)).scalars())
        connection.execute(update(hooks).where(hooks.c.space == space.name).values(active=0))
        for url, _ in space.webhooks:
            name = f"{space.name}-{sha256(url.encode()).hexdigest()[:8]}"
            sealed = self.vault.seal(secrets_of[url].encode(), about=name)
            if name in known:
                connection.execute(update(hooks).where(hooks.c.name == name).values(secret=sealed, active=1))
            else:
                last = connection.execute(select(spaces.c.last).where(spaces.c.name == space.name)).scalar_one()
                connection.execute(
                    insert(hooks).values(
                        name=name,
                        space=space.name,
                        url=url,
                        secret=sealed,
                        after=last,
                        attempts=0,
                        next_try=0,
                        active=1,
                    )
                )

    @property
    def spaces(self) -> dict[str, Space]:
        """The spaces by name."""
        read, found = self._spaces
        if time.monotonic() - read > _REFRESHED or not found:
            with self.database.reading() as connection:
                rows = connection.execute(select(spaces.c.name, spaces.c.settings)).all()
            found = {row.name: Space.from_json(row.settings) for row in rows}
            self._spaces = (time.monotonic(), found)
        return found

    def space(self, name: str) -> Space:
        """One space."""
        found = self.spaces.get(name)
        if found is None:
            raise NotFound("no such space")
        return found

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

    def _take(self, connection: Connection, jobs: Sequence[Job]) -> list[Any]:
        return self.intake.take(connection, jobs)

    def take(self, job: Job) -> bytes:
        """Take one job now, in a transaction of its own. Servers use the group instead."""
        with self.recording_halts(), self.database.writing("take") as connection:
            (answer,) = self.intake.take(connection, [job])
            if isinstance(answer, Exception):
                raise answer
        return bytes(answer)

    def status(self, identity: Identity, receipt: str) -> str:
        """``held``, ``posted`` or ``withdrawn``, for the author alone; never when."""
        digest = sha256(receipt.encode()).hexdigest()
        with self.database.reading() as connection:
            row = self.intake.find_receipt(connection, digest, {identity.scope: identity.actor})
            if row.state == "withdrawn":
                return "withdrawn"
            waits = connection.execute(select(held.c.id).where(held.c.receipt == digest)).first()
        return "posted" if waits is None else "held"

    def read(self, space: str, after: str | None = None, limit: int = 100) -> tuple[list[Item], str]:
        """Items of the feed behind a cursor, and the cursor behind them."""
        start = self.cursors.read(space, after)
        with self.database.reading() as connection:
            items = read_items(connection, space, start, limit)
        return items, self.cursors.write(space, items[-1].position if items else start)

    def latest(self, space: str, limit: int = 50) -> list[Item]:
        """The newest items, newest first."""
        with self.database.reading() as connection:
            return latest_items(connection, space, limit)

    def in_doubt(self) -> Halted | None:
        """Why nothing is taken or released, if so: the clock moved, and nobody has looked yet."""
        with self.database.reading() as connection:
            row = connection.execute(select(clock)).one()
        return None if row.state == "running" else Halted(row.state, row.step)

    def confirm_clock(self, what: str) -> int:
        """An operator has looked at the clock (:meth:`Watch.confirm`). Returns the microseconds that held posts moved."""
        with self.database.writing("confirm", whole=True) as connection:
            return self.watch.confirm(connection, what)

    def recording_halts(self) -> _Recording:
        """Around anything that reads the time: a clock in doubt is told to all processes."""
        return _Recording(self)


class _Recording:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        if isinstance(error, Halted):
            self._gateway.watch.record(self._gateway.database, error)


def _secret(name: str, where: str) -> str:
    value = os.environ.get(name, "")
    if len(value) < 16:
        want = f"a secret of at least 16 characters in the environment variable {name}"
        raise BadInput(where, got=Verbatim("none, or a short one"), want=want)
    return value
