"""Who asks: one person on their own machine, or people who sign in with a name and a password.

Passwords are hashed with argon2id. A cookie is 256 random bits, of which the database holds the hash. Attempts to sign in are
counted by name and by address; an unknown name costs as much time as a wrong password. An invitation is a link that
works once, within three days.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, func, insert, select, update

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.text import on_one_line
from peerveil.web.common import database_time
from peerveil.web.common.database import SECOND
from peerveil.web.common.errors import Forbidden, NotFound, ServiceError
from peerveil.web.common.tokens import hash_token
from peerveil.web.console.house import LOCAL, new_id
from peerveil.web.console.schema import attempts, invitations, people, sessions

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from peerveil.web.console.house import House

ROLES: Final = ("reader", "analyst", "operator")
"""From the least to the most: each may do what those before may."""
ROLES_IN_WORDS: Final = {
    "reader": "sees the public part of runs that were shown, and the ledger",
    "analyst": "also brings data, explores, and runs studies from accounts that exist",
    "operator": "also opens accounts, invites people, and sees the services and everybody's runs",
}
IDLE: Final = 8 * 3600 * SECOND
LONGEST: Final = 7 * 24 * 3600 * SECOND
INVITED: Final = 3 * 24 * 3600 * SECOND
SHORTEST_PASSWORD: Final = 12
_LONGEST_PASSWORD: Final = 1000
_WINDOW: Final = 15 * 60 * SECOND
_BY_NAME, _BY_ADDRESS = 10, 50


class TooMany(ServiceError):
    """Too many attempts to sign in."""

    status = 429
    name = "too_many"
    retry_after = 900


class WrongPassword(ServiceError):
    """The name or the password is wrong; which of them is not said."""

    status = 403
    name = "wrong_password"


@dataclass(frozen=True)
class Asker:
    """Whoever sends a request."""

    id: str
    name: str
    role: str
    token: str = ""

    @property
    def alone(self) -> bool:
        """Whether this is the one person of a machine, who need not sign in."""
        return self.id == LOCAL

    @property
    def sees_all(self) -> bool:
        """Whether other people's files and runs are shown."""
        return self.role == "operator"

    def may(self, role: str) -> bool:
        """Whether they hold a role, or one above it."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def require(self, role: str) -> None:
        """Refuse everybody below a role."""
        if not self.may(role):
            raise Forbidden(f"this is for {with_article(role)}; you are signed in as {with_article(self.role)}")


def with_article(role: str) -> str:
    """A role in a sentence.

    >>> with_article("analyst"), with_article("reader")
    ('an analyst', 'a reader')
    """
    return f"{'an' if role[0] in 'ao' else 'a'} {role}"


def form_token(house: House, token: str) -> str:
    """What every form of a session carries, so that no other site can send one."""
    return hmac.new(house.secret.encode(), f"form:{token}".encode(), hashlib.sha256).hexdigest()


def anybody(house: House) -> bool:
    """Whether anybody is registered; from then on everybody signs in."""
    with house.database.reading() as connection:
        return connection.execute(select(people.c.id)).first() is not None


def _hasher() -> Any:
    from argon2 import PasswordHasher

    return PasswordHasher()


def _check_new(name: str, password: str) -> str:
    kept = " ".join(name.split()).lower()
    if not 1 <= len(kept) <= 60 or not on_one_line(name):
        raise BadInput("name", got=Verbatim("another name"), want="a name of 1 to 60 characters on one line")
    if not SHORTEST_PASSWORD <= len(password) <= _LONGEST_PASSWORD:
        want = f"a password of at least {SHORTEST_PASSWORD} characters (a sentence is easy to remember)"
        raise BadInput("password", got=Verbatim(f"{len(password)} characters"), want=want)
    if kept in password.lower() and len(kept) > 3:
        raise BadInput("password", got=Verbatim("one that contains the name"), want="another one")
    return kept


def register(house: House, name: str, password: str, role: str, connection: Connection, by: str) -> str:
    """A new person; their id."""
    kept = _check_new(name, password)
    if connection.execute(select(people.c.id).where(people.c.name == kept)).first() is not None:
        raise BadInput("name", got=Verbatim("a name that is taken"), want="another name")
    row = {"id": new_id(), "name": kept, "role": role, "password": _hasher().hash(password), "state": "good"}
    connection.execute(insert(people).values(**row, made=database_time(connection)))
    house.note(connection, by, f"registered as {role}", kept)
    return str(row["id"])


def sign_in(house: House, name: str, password: str, address: str) -> str:
    """The token of a new session."""
    from argon2.exceptions import InvalidHashError, VerificationError

    kept = " ".join(name.split()).lower()[:200]
    buckets = {f"name:{hash_token(kept)}": _BY_NAME, f"from:{hash_token(address)}": _BY_ADDRESS}
    with house.database.writing("take") as connection:
        now = database_time(connection)
        connection.execute(delete(attempts).where(attempts.c.since < now - _WINDOW))
        for bucket, most in buckets.items():
            row = connection.execute(select(attempts.c.tries).where(attempts.c.bucket == bucket)).first()
            if row is not None and row.tries >= most:
                raise TooMany("too many attempts; try again in a quarter of an hour")
        for bucket in buckets:
            counted = update(attempts).where(attempts.c.bucket == bucket).values(tries=attempts.c.tries + 1)
            if connection.execute(counted).rowcount == 0:
                connection.execute(insert(attempts).values(bucket=bucket, tries=1, since=now))
        person = connection.execute(select(people).where(people.c.name == kept)).first()
    hasher = _hasher()
    stored = _worthless() if person is None else person.password
    try:
        right = hasher.verify(stored, password[:_LONGEST_PASSWORD])
    except (VerificationError, InvalidHashError):
        right = False
    if person is None or not right or person.state != "good":
        with house.database.writing("take") as connection:
            house.note(connection, "", "could not sign in")
        raise WrongPassword("the name or the password is wrong")
    with house.database.writing("take") as connection:
        # attempts that succeed do not count; those against a name are forgotten once its owner is in
        by_name, by_address = buckets
        connection.execute(delete(attempts).where(attempts.c.bucket == by_name))
        fewer = update(attempts).where(attempts.c.bucket == by_address).values(tries=attempts.c.tries - 1)
        connection.execute(fewer)
        house.note(connection, person.id, "signed in")
        return begin(connection, person.id)


def begin(connection: Connection, person: str) -> str:
    """A new session for somebody; its token, which is shown to their browser alone."""
    now = database_time(connection)
    connection.execute(delete(sessions).where((sessions.c.seen < now - IDLE) | (sessions.c.made < now - LONGEST)))
    token = secrets.token_urlsafe(32)
    connection.execute(insert(sessions).values(hash=hash_token(token), person=person, made=now, seen=now))
    return token


def recognize(house: House, token: str) -> Asker | None:
    """Who a session belongs to; None if it is unknown, over, or its person may no longer come."""
    if not token:
        return None
    digest = hash_token(token)
    with house.database.reading() as connection:
        now = database_time(connection)
        query = select(sessions.c.made, sessions.c.seen, people).join(people, people.c.id == sessions.c.person)
        row = connection.execute(query.where(sessions.c.hash == digest)).first()
    if row is None or row.state != "good" or row.seen < now - IDLE or row[0] < now - LONGEST:
        return None
    if row.seen < now - 60 * SECOND:
        with house.database.writing("take") as connection:
            connection.execute(update(sessions).where(sessions.c.hash == digest).values(seen=now))
    return Asker(row.id, row.name, row.role, token)


def sign_out(house: House, asker: Asker) -> None:
    """End a session, on the server too."""
    with house.database.writing("take") as connection:
        connection.execute(delete(sessions).where(sessions.c.hash == hash_token(asker.token)))
        house.note(connection, asker.id, "signed out")


def invite(house: House, asker: Asker, role: str) -> str:
    """The token of a new invitation: shown once, good once."""
    if role not in ROLES:
        raise BadInput("role", got=role, want=" or ".join(ROLES))
    token = secrets.token_urlsafe(32)
    with house.database.writing("take") as connection:
        row = {"hash": hash_token(token), "id": new_id(), "role": role, "by": asker.id, "used": 0}
        connection.execute(insert(invitations).values(**row, expires=database_time(connection) + INVITED))
        house.note(connection, asker.id, f"invited a {role}")
    return token


def invitation(connection: Connection, token: str) -> Any:
    """An invitation that can still be used."""
    row = connection.execute(select(invitations).where(invitations.c.hash == hash_token(token))).first()
    if row is None or row.used or row.expires < database_time(connection):
        raise NotFound("this invitation was used, withdrawn, or is over; ask for a new one")
    return row


def accept(house: House, token: str, name: str, password: str) -> str:
    """Register with an invitation; the token of a first session."""
    _check_new(name, password)
    with house.database.writing("take") as connection:
        row = invitation(connection, token)
        person = register(house, name, password, row.role, connection, by="")
        used = update(invitations).where(invitations.c.hash == row.hash, invitations.c.used == 0).values(used=1)
        if connection.execute(used).rowcount != 1:
            raise NotFound("this invitation was used, withdrawn, or is over; ask for a new one")
        return begin(connection, person)


def found(house: House, name: str, password: str) -> str:
    """The one person of a machine becomes its first operator; from now on everybody signs in. A session's token."""
    with house.database.writing("take") as connection:
        if connection.execute(select(func.count()).select_from(people)).scalar_one():
            raise Forbidden("somebody is registered already: ask an operator for an invitation")
        return begin(connection, register(house, name, password, "operator", connection, by=LOCAL))


def everybody(house: House) -> tuple[list[Any], list[Any]]:
    """People, and invitations that were not used yet."""
    with house.database.reading() as connection:
        now = database_time(connection)
        listed = connection.execute(select(people).order_by(people.c.name)).all()
        usable = (invitations.c.used == 0) & (invitations.c.expires > now)
        return list(listed), list(connection.execute(select(invitations).where(usable)).all())


def change(house: House, asker: Asker, person: str, *, role: str | None = None, state: str | None = None) -> None:
    """Give somebody another role, or shut them out (their sessions end at once) or let them in again."""
    if person == asker.id:
        raise Forbidden("nobody can change their own role or shut themselves out: another operator can")
    if role not in (None, *ROLES) or state not in (None, "good", "off"):
        raise BadInput("role", got=role, want=" or ".join(ROLES))
    values = {"role": role} if role is not None else {"state": state}
    with house.database.writing("take") as connection:
        if connection.execute(update(people).where(people.c.id == person).values(**values)).rowcount == 0:
            raise NotFound("there is no such person")
        if state == "off":
            connection.execute(delete(sessions).where(sessions.c.person == person))
        house.note(connection, asker.id, f"made somebody {role}" if role else f"turned somebody {state}", person)


def withdraw(house: House, asker: Asker, invitation_id: str) -> None:
    """Make an invitation worthless."""
    with house.database.writing("take") as connection:
        if connection.execute(delete(invitations).where(invitations.c.id == invitation_id)).rowcount == 0:
            raise NotFound("there is no such invitation")
        house.note(connection, asker.id, "withdrew an invitation")


def new_password(house: House, asker: Asker, old: str, new: str) -> None:
    """Change one's own password; all other sessions end."""
    from argon2.exceptions import VerificationError

    if asker.alone:
        raise Forbidden("nobody signs in at this console, so there is no password to change")
    _check_new(asker.name, new)
    with house.database.writing("take") as connection:
        stored = connection.execute(select(people.c.password).where(people.c.id == asker.id)).scalar_one()
        try:
            _hasher().verify(stored, old[:_LONGEST_PASSWORD])
        except VerificationError:
            raise WrongPassword("the old password is wrong") from None
        connection.execute(update(people).where(people.c.id == asker.id).values(password=_hasher().hash(new)))
        others = (sessions.c.person == asker.id) & (sessions.c.hash != hash_token(asker.token))
        connection.execute(delete(sessions).where(others))
        house.note(connection, asker.id, "changed their password")


@cache
def _worthless() -> str:
    """The hash of a password that nobody knows: checking it takes as long as checking a real one."""
    return str(_hasher().hash(secrets.token_hex(32)))
