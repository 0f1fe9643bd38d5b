"""What a service refuses, with the status and the short name that go into its answer."""

from typing import Any, ClassVar

from peerveil.core.errors import PeerveilError


class ServiceError(PeerveilError):
    """A refused request; nothing was written. The message never repeats what was sent.

    Subclasses give ``status``, ``name`` and ``retry_after`` (seconds) as class arguments.
    """

    status: ClassVar[int] = 400
    name: ClassVar[str] = "bad_request"
    retry_after: int | None = None
    shown: ClassVar[str | None] = None
    """What the answer says, if not the message: that is for the operator then."""

    def __init_subclass__(cls, **answer: Any) -> None:
        for field, value in answer.items():
            setattr(cls, field, value)


class BadRequest(ServiceError):
    """A request that no server could read."""


class Unauthorized(ServiceError, status=401, name="unauthorized"):
    """No token, or one that is unknown or was withdrawn."""


class Forbidden(ServiceError, status=403, name="forbidden"):
    """A token that does not allow this."""


class NotFound(ServiceError, status=404, name="not_found"):
    """Nothing of this name, or nothing that this token may know of."""


class Conflict(ServiceError, status=409, name="conflict"):
    """Too late, or already done."""


class Gone(ServiceError, status=410, name="gone"):
    """It was there, and will not come back."""


class Unprocessable(ServiceError, status=422, name="invalid"):
    """Readable, and wrong: a field, a length, a key that was used for something else."""


class TooMany(ServiceError, status=429, name="too_many"):
    """More than the limit of this author; :attr:`retry_after` says when the next one is taken."""

    def __init__(self, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        if retry_after is not None:
            self.retry_after = retry_after


class Unavailable(ServiceError, status=503, name="unavailable", retry_after=5):
    """The database cannot be used now, or the service waits for its operator. Nothing is lost; try again."""


class DatabaseFailed(Unavailable, shown="the database failed; send the same request again"):
    """It cannot be reached, or broke off; the message names its address."""


class Clash(Unavailable):
    """Two writers met (one key twice at once, or a deadlock); nothing was written. It is tried again."""
