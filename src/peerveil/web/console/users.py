"""Users: one on their own machine without sign-in, or several who sign in with a name and a password.

Passwords are hashed with argon2id. A cookie is 256 random bits, of which the database holds the hash. Sign-in attempts are
counted by name and by address; an unknown name takes as much time as a wrong password. An invitation is a link that works
once, within three days.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy import Connection, delete, insert, select, update

from peerveil.core.errors import BadInput, Verbatim, one_of
from peerveil.core.text import on_one_line
from peerveil.web.common import database_time
from peerveil.web.common.database import DAY, SECOND
from peerveil.web.common.errors import Forbidden, NotFound, ServiceError
from peerveil.web.common.tokens import hash_token
from peerveil.web.console.app import LOCAL_USER, ConsoleApp, new_id
from peerveil.web.console.schema import attempts, invitations, sessions, users

ROLES: Final = {
    "reader": "sees the public part of shared runs, and the ledger",
    "analyst": "also adds data, explores, and runs studies from open accounts",
    "operator": "also opens accounts, invites users, and sees the services and everybody's runs",
}
"""From the least to the most: each may do what those before may."""
_MINUTE: Final = 60 * SECOND
IDLE: Final = 8 * 60 * _MINUTE
LONGEST_SESSION: Final = 7 * DAY
INVITATION_LIFETIME: Final = 3 * DAY
SHORTEST_PASSWORD: Final = 12
_LONGEST_PASSWORD: Final = 1000
_ATTEMPT_WINDOW: Final = 15 * _MINUTE
_ATTEMPTS_BY_NAME, _ATTEMPTS_BY_ADDRESS = 10, 50
_HASHER: Final = PasswordHasher()


class TooManyAttempts(ServiceError, status=429, name="too_many", retry_after=900):
    """Too many attempts to sign in."""


class WrongPassword(ServiceError, status=403, name="wrong_password"):
    """The name or the password is wrong; the answer does not reveal which."""


@dataclass(frozen=True)
class User:
    """Who sends a request; without an id nobody is signed in."""

    id: str
    name: str
    role: str
    token: str = ""

    @property
    def is_local(self) -> bool:
        """Whether this is the single user of a machine, who does not sign in."""
        return self.id == LOCAL_USER

    @property
    def sees_all(self) -> bool:
        """Whether other users' files and runs are shown."""
        return self.role == "operator"

    def may(self, role: str) -> bool:
        """Whether the user has a role, or one above it."""
        order = list(ROLES)
        return order.index(self.role) >= order.index(role)

    def require(self, role: str) -> None:
        """Refuse every user below a role."""
        if not self.may(role):
            raise Forbidden(f"this needs {with_article(role)}; you are signed in as {with_article(self.role)}")


def with_article(role: str) -> str:
    """A role in a sentence.

    >>> with_article("analyst"), with_article("reader")
    ('an analyst', 'a reader')
    """
    return f"{'an' if role[0] in 'ao' else 'a'} {role}"


def form_token(app: ConsoleApp, token: str) -> str:
    """The token in every form of a session, so that no other site can send one."""
    return hmac.new(app.secret.encode(), f"form:{token}".encode(), hashlib.sha256).hexdigest()


# ---- passwords -------------------------------------------------------------------------------------------------------


@cache
def _unknown_hash() -> str:
    """The hash of a password that nobody knows: checking it takes as long as checking a real one."""
    return _HASHER.hash(secrets.token_hex(32))


def _matches(stored: str, password: str) -> bool:
    try:
        return _HASHER.verify(stored, password[:_LONGEST_PASSWORD])
    except (VerificationError, InvalidHashError):
        return False


def _normalized(name: str) -> str:
    return " ".join(name.split()).lower()


def _check_new(name: str, password: str) -> str:
    normalized = _normalized(name)
    if not 1 <= len(normalized) <= 60 or not on_one_line(name):
        raise BadInput("name", got=Verbatim("another name"), want="a name of 1 to 60 characters on one line")
    if not SHORTEST_PASSWORD <= len(password) <= _LONGEST_PASSWORD:
        want = f"a password of at least {SHORTEST_PASSWORD} characters (a sentence is easy to remember)"
        raise BadInput("password", got=Verbatim(f"{len(password)} characters"), want=want)
    if normalized in password.lower() and len(normalized) > 3:
        raise BadInput("password", got=Verbatim("one that contains the name"), want="another one")
    return normalized


def change_password(app: ConsoleApp, user: User, old: str, new: str) -> None:
    """Change one's own password; all other sessions end."""
    if user.is_local:
        raise Forbidden("nobody signs in at this console, so there is no password to change")
    _check_new(user.name, new)
    own = users.c.id == user.id
    with app.logged(user.id, "changed their password") as connection:
        if not _matches(connection.execute(select(users.c.password).where(own)).scalar_one(), old):
            raise WrongPassword("the old password is wrong")
        connection.execute(update(users).where(own).values(password=_HASHER.hash(new)))
        others = (sessions.c.user_id == user.id) & (sessions.c.hash != hash_token(user.token))
        connection.execute(delete(sessions).where(others))


# ---- sessions --------------------------------------------------------------------------------------------------------


def sign_in(app: ConsoleApp, name: str, password: str, address: str) -> str:
    """The token of a new session."""
    normalized = _normalized(name)[:200]
    by_name, by_address = f"name:{hash_token(normalized)}", f"from:{hash_token(address)}"
    with app.writing() as connection:
        _count_attempt(connection, {by_name: _ATTEMPTS_BY_NAME, by_address: _ATTEMPTS_BY_ADDRESS})
        row = connection.execute(select(users).where(users.c.name == normalized)).first()
    correct = _matches(_unknown_hash() if row is None else row.password, password)
    if row is None or not correct or row.state != "good":
        with app.writing() as connection:
            app.log(connection, "", "failed to sign in")
        raise WrongPassword("the name or the password is wrong")
    with app.logged(row.id, "signed in") as connection:
        # successful attempts do not count; those against a name are deleted once its owner has signed in
        connection.execute(delete(attempts).where(attempts.c.bucket == by_name))
        connection.execute(update(attempts).where(attempts.c.bucket == by_address).values(tries=attempts.c.tries - 1))
        return new_session(connection, row.id)


def _count_attempt(connection: Connection, limits: dict[str, int]) -> None:
    """Count an attempt in every bucket, unless one of them is full."""
    now = database_time(connection)
    connection.execute(delete(attempts).where(attempts.c.since < now - _ATTEMPT_WINDOW))
    rows = connection.execute(select(attempts).where(attempts.c.bucket.in_(limits))).all()
    if any(row.tries >= limits[row.bucket] for row in rows):
        raise TooManyAttempts("too many attempts; try again in 15 minutes")
    for bucket in limits:
        counted = update(attempts).where(attempts.c.bucket == bucket).values(tries=attempts.c.tries + 1)
        if connection.execute(counted).rowcount == 0:
            connection.execute(insert(attempts).values(bucket=bucket, tries=1, since=now))


def new_session(connection: Connection, user: str) -> str:
    """The token of a new session, which only the user's browser receives."""
    now = database_time(connection)
    expired = (sessions.c.last_seen < now - IDLE) | (sessions.c.created < now - LONGEST_SESSION)
    connection.execute(delete(sessions).where(expired))
    token = secrets.token_urlsafe(32)
    connection.execute(insert(sessions).values(hash=hash_token(token), user_id=user, created=now, last_seen=now))
    return token


def session_user(app: ConsoleApp, token: str) -> User | None:
    """The user of a session; None if it is unknown or over, or its user is blocked."""
    if not token:
        return None
    own = sessions.c.hash == hash_token(token)
    query = select(users, sessions.c.created.label("begun"), sessions.c.last_seen)
    with app.database.reading() as connection:
        now = database_time(connection)
        row = connection.execute(query.join(sessions, users.c.id == sessions.c.user_id).where(own)).first()
    if row is None or row.state != "good" or row.last_seen < now - IDLE or row.begun < now - LONGEST_SESSION:
        return None
    if row.last_seen < now - _MINUTE:
        with app.writing() as connection:
            connection.execute(update(sessions).where(own).values(last_seen=now))
    return User(row.id, row.name, row.role, token)


def sign_out(app: ConsoleApp, user: User) -> None:
    """End a session, on the server too."""
    with app.logged(user.id, "signed out") as connection:
        connection.execute(delete(sessions).where(sessions.c.hash == hash_token(user.token)))


# ---- invitations and registration ------------------------------------------------------------------------------------


def invite(app: ConsoleApp, user: User, role: str) -> str:
    """The token of a new invitation: shown once, valid once."""
    one_of(role, "role", ROLES)
    token = secrets.token_urlsafe(32)
    with app.logged(user.id, f"invited {with_article(role)}") as connection:
        row = {"hash": hash_token(token), "id": new_id(), "role": role, "by": user.id}
        connection.execute(insert(invitations).values(**row, expires=database_time(connection) + INVITATION_LIFETIME))
    return token


def invitation(connection: Connection, token: str, *, claim: bool = False) -> Any:
    """An invitation that can still be used; with ``claim`` it is deleted, so that of two who come with it one gets it."""
    this = invitations.c.hash == hash_token(token)
    query = delete(invitations).where(this).returning(invitations) if claim else select(invitations).where(this)
    row = connection.execute(query).first()
    if row is None or row.expires < database_time(connection):
        raise NotFound("this invitation was used, withdrawn, or has expired; ask for a new one")
    return row


def withdraw(app: ConsoleApp, user: User, invitation_id: str) -> None:
    """Invalidate an invitation."""
    with app.logged(user.id, "withdrew an invitation") as connection:
        if connection.execute(delete(invitations).where(invitations.c.id == invitation_id)).rowcount == 0:
            raise NotFound("there is no such invitation")


def accept(app: ConsoleApp, token: str, name: str, password: str) -> str:
    """Register with an invitation, which is deleted; the token of a first session."""
    with app.writing() as connection:
        row = invitation(connection, token, claim=True)
        return _register(app, connection, name, password, row.role, by="")


def register_first(app: ConsoleApp, name: str, password: str) -> str:
    """The single user of a machine becomes the first operator, and everybody signs in from now on. A session's token."""
    with app.writing() as connection:
        if connection.execute(select(users.c.id)).first() is not None:
            raise Forbidden("somebody is registered already: ask an operator for an invitation")
        return _register(app, connection, name, password, "operator", by=LOCAL_USER)


def _register(app: ConsoleApp, connection: Connection, name: str, password: str, role: str, by: str) -> str:
    """A new user; the token of their first session."""
    normalized, user = _check_new(name, password), new_id()
    if connection.execute(select(users.c.id).where(users.c.name == normalized)).first() is not None:
        raise BadInput("name", got=Verbatim("a name that is taken"), want="another name")
    row = {"id": user, "name": normalized, "role": role, "password": _HASHER.hash(password), "state": "good"}
    connection.execute(insert(users).values(**row, created=database_time(connection)))
    app.log(connection, by, f"registered as {role}", normalized)
    return new_session(connection, user)


def listed(app: ConsoleApp) -> tuple[list[Any], list[Any]]:
    """All users, and invitations that can still be used."""
    with app.database.reading() as connection:
        rows = connection.execute(select(users).order_by(users.c.name)).all()
        usable = invitations.c.expires > database_time(connection)
        return list(rows), list(connection.execute(select(invitations).where(usable)).all())


def change(app: ConsoleApp, user: User, other: str, role: str, state: str) -> None:
    """Give another user another role; or, if it is empty, block them (their sessions end at once) or unblock them."""
    if other == user.id:
        raise Forbidden("nobody can change their own role or block themselves: another operator can")
    if role:
        one_of(role, "role", ROLES)
    else:
        one_of(state, "state", ("good", "off"))
    values = {"role": role} if role else {"state": state}
    what = f"gave a user the role {role}" if role else f"{'blocked' if state == 'off' else 'unblocked'} a user"
    with app.logged(user.id, what, other) as connection:
        if connection.execute(update(users).where(users.c.id == other).values(**values)).rowcount == 0:
            raise NotFound("there is no such user")
        if values.get("state") == "off":
            connection.execute(delete(sessions).where(sessions.c.user_id == other))
