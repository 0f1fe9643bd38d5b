"""What a service refuses, with the status and the short name that go into its answer."""

from __future__ import annotations

from typing import ClassVar

from peerveil.core.errors import PeerveilError


class ServiceError(PeerveilError):
    """A request that is refused; nothing was written. The message never repeats what was sent."""

    status: ClassVar[int] = 400
    name: ClassVar[str] = "bad_request"
    retry_after: ClassVar[int | None] = None


class BadRequest(ServiceError):
    """A request that no server could read."""


class Unauthorized(ServiceError):
    """No token, or one that is unknown or was withdrawn."""

    status: ClassVar[int] = 401
    name: ClassVar[str] = "unauthorized"


class Forbidden(ServiceError):
    """A token that does not open this door."""

    status: ClassVar[int] = 403
    name: ClassVar[str] = "forbidden"


class NotFound(ServiceError):
    """Nothing of this name, or nothing that this token may know of."""

    status: ClassVar[int] = 404
    name: ClassVar[str] = "not_found"


class Conflict(ServiceError):
    """Too late, or already done."""

    status: ClassVar[int] = 409
    name: ClassVar[str] = "conflict"


class Gone(ServiceError):
    """It was there, and will not come back."""

    status: ClassVar[int] = 410
    name: ClassVar[str] = "gone"


class Unprocessable(ServiceError):
    """Readable, and wrong: a field, a length, a key that was used for something else."""

    status: ClassVar[int] = 422
    name: ClassVar[str] = "invalid"


class Unavailable(ServiceError):
    """The database cannot be used now, or the service waits for its operator. Nothing is lost; try again."""

    status: ClassVar[int] = 503
    name: ClassVar[str] = "unavailable"
    retry_after: ClassVar[int | None] = 5


class Clash(Unavailable):
    """Two writers met (one key twice at once, or a deadlock); nothing was written. It is tried again."""
