"""What a ledger refuses: the errors, and the checks of what may enter it.

The checks run before the database is touched, so a refusal leaves no trace.
"""

from __future__ import annotations

import hashlib
import hmac
import unicodedata
from fractions import Fraction
from typing import Any, Final

import numpy as np

from peerveil.core.errors import BadInput, PeerveilError, Verbatim
from peerveil.core.exact import printed, words
from peerveil.core.guarantee import Guarantee
from peerveil.core.guarantee.notion import TAKES_EPSILON
from peerveil.core.randomness import Randomness
from peerveil.core.randomness.source import SecureRandomness
from peerveil.core.text import on_one_line

_MOST_BITS: Final = 13_000  # Python reads and prints whole numbers of up to 4300 digits
_LONGEST_NAME: Final = 100
_LONGEST_PURPOSE: Final = 500
_LONGEST_KEY: Final = 200


class LedgerError(PeerveilError):
    """The ledger could not be opened, read or written.

    Attributes
    ----------
    maybe_spent : bool
        False: nothing was spent, it is safe to try again. True: the connection broke while the debit was
        being committed, so it may stand in the ledger. Treat it as spent, and release nothing for it.
    """

    def __init__(self, message: str, *, maybe_spent: bool = False) -> None:
        self.maybe_spent = maybe_spent
        super().__init__(message)


class SimulationRefused(PeerveilError):
    """A simulated result can never be entered in a ledger; nothing was written."""


class BudgetExceeded(PeerveilError):
    """A spend that the account cannot cover; nothing was spent.

    Attributes
    ----------
    account : str
        The name of the account.
    requested, remaining, difference : float
        What was asked for (rounded up), what is left (rounded down), and how much is missing (rounded up).
    exact_requested, exact_remaining, exact_difference : fractions.Fraction
        The same, exactly.
    reason : str
        Why more was asked for than the caller may expect; mostly empty.
    """

    def __init__(self, account: str, *, requested: Fraction, remaining: Fraction, reason: str = "") -> None:
        self.account, self.reason = account, reason
        self.exact_requested, self.exact_remaining = requested, remaining
        self.exact_difference = requested - remaining
        self.requested, self.remaining = printed(requested, "up"), printed(remaining, "down")
        self.difference = printed(self.exact_difference, "up")
        super().__init__(
            f"account {account!r}: requested {words(requested, 'up')}, remaining {words(remaining, 'down')}, "
            f"{words(self.exact_difference, 'up')} too much; nothing was spent" + (f" ({reason})" if reason else "")
        )

    def because(self, reason: str) -> BudgetExceeded:
        """The same refusal with a reason."""
        return BudgetExceeded(
            self.account, requested=self.exact_requested, remaining=self.exact_remaining, reason=reason
        )


class DataBound(PeerveilError):
    """The data belong to another account, or were decided already; nothing was spent.

    Attributes
    ----------
    account : str
        The account that was asked to spend.
    owner : str
        The account that the data belong to.
    """

    def __init__(self, message: str, *, account: str, owner: str) -> None:
        self.account = account
        self.owner = owner
        super().__init__(message)

    @classmethod
    def elsewhere(cls, account: str, owner: str) -> DataBound:
        """Another account spent on these data first."""
        message = (
            f"account {account!r}: these data belong to account {owner!r}, which spent on them first; nothing was "
            f"spent. Spend from account {owner!r}: all releases about the same data add up in one budget"
        )
        return cls(message, account=account, owner=owner)

    @classmethod
    def decided(cls, account: str, serial: int, when: str) -> DataBound:
        """A guarantee that holds for one release only was given for these data before."""
        message = (
            f"account {account!r}: these data were decided on {when} (entry {serial}); nothing was drawn. Publish that "
            "decision: two decisions of the same reviews together say more about who wrote what than either "
            "guarantee allows"
        )
        return cls(message, account=account, owner=account)


# ---- what may enter ----------------------------------------------------------------------------------------------------


def refuse_overspending(account: str, debit: Fraction, *, spent: Fraction, remaining: Fraction) -> None:
    """Refuse what the account cannot cover, and a total that could no longer be written down exactly."""
    if debit > remaining:
        raise BudgetExceeded(account, requested=debit, remaining=remaining)
    total = spent + debit
    if max(total.numerator.bit_length(), total.denominator.bit_length()) > _MOST_BITS:
        raise BadInput(
            "guarantee",
            got=Verbatim("an epsilon after which the exact total has more than 3900 digits"),
            want="an epsilon with a denominator that fits the earlier ones, such as a decimal",
        )


def read_name(name: object) -> str:
    """An account's name: printable, on one line, the same however its accents were typed."""
    return _printable(unicodedata.normalize("NFC", name) if isinstance(name, str) else name, "name", _LONGEST_NAME)


def read_purpose(purpose: object) -> str:
    """What a spend is for, in words for people."""
    text = purpose.strip(" ") if isinstance(purpose, str) else ""
    if not 1 <= len(text) <= _LONGEST_PURPOSE or not text.strip() or not on_one_line(text):
        want = f"1 to {_LONGEST_PURPOSE} characters on one line, no control characters: what is released, for whom"
        raise BadInput("purpose", got=purpose, want=want)
    return text


def read_key(key: object) -> str:
    """A debit's key: printable, on one line."""
    return _printable(key, "key", _LONGEST_KEY)


def _printable(text: object, argument: str, longest: int) -> str:
    if not isinstance(text, str) or not 1 <= len(text) <= longest or not text.isprintable() or text != text.strip():
        raise BadInput(argument, got=text, want=f"1 to {longest} printable characters, with no space at either end")
    return text


def read_guarantee(guarantee: object) -> Guarantee:
    """A guarantee that a ledger can hold: a real one, not simulated, readable from its own record."""
    if type(guarantee) is not Guarantee:
        raise BadInput("guarantee", got=guarantee, want="a peerveil.Guarantee")
    if guarantee.simulated:
        raise SimulationRefused(
            "this guarantee is marked as a simulation, which protects nobody; a ledger takes only what "
            "secure randomness draws. Nothing was spent"
        )
    if guarantee.notion in TAKES_EPSILON and guarantee.exact_epsilon is None:
        raise BadInput(
            "guarantee",
            got=Verbatim("epsilon None: a release without privacy"),
            want="a release with an epsilon; no budget can cover one without, so it is not entered",
        )
    if guarantee.assumption is not None:
        raise BadInput(
            "guarantee",
            got=Verbatim(f"a guarantee that holds only if {guarantee.assumption}"),
            want="a guarantee without an assumption: a ledger enters what is drawn here and now",
        )
    return guarantee


def require_secure(randomness: object) -> str:
    """The name of the source; all but the secure one itself is refused, even a class derived from it."""
    if not isinstance(randomness, Randomness):
        raise BadInput("randomness", got=randomness, want="Randomness.secure(), the same that will draw the noise")
    if type(randomness) is not SecureRandomness:
        raise SimulationRefused(
            f"{type(randomness).__name__} is not secure; a ledger takes only Randomness.secure(). Nothing was spent"
        )
    return SecureRandomness.lane


def fingerprint(data: Any, secret: bytes) -> str:
    """A keyed fingerprint of a data set: equal data give equal fingerprints, within one ledger only.

    ``data`` is an object with an ``identity`` (every table of judgments has one) or a ``fingerprint``, bytes, an
    array of numbers, or a string that you chose to stand for the data set.

    A plain hash of private data would let a reader of an exported ledger confirm a guess: hash the data set
    as it would be with another score, and compare. Keyed with a secret that never leaves the ledger, the
    fingerprint is meaningless to those who do not hold it.

    >>> fingerprint("reviews of 2026", b"secret") == fingerprint("reviews of 2026", b"another")
    False
    """
    return hmac.new(secret, _content(data), hashlib.sha256).hexdigest()


def _content(data: Any) -> bytes:
    """What is fingerprinted, with a prefix that keeps the kinds apart. No error message shows the data."""
    want = "a table of judgments, bytes, an array of numbers, or a text that stands for the data set"
    if isinstance(data, np.ndarray):
        if data.dtype.kind not in "biufcSUmM" or data.size == 0:
            raise BadInput("data", got=Verbatim(f"an array of {data.size} x {data.dtype}"), want=want)
        head = f"array:{data.dtype.str}:{data.shape}:".encode()
        return head + np.ascontiguousarray(data).tobytes()
    binary = isinstance(data, (bytes, bytearray, memoryview))
    if binary and bytes(data):
        return b"bytes:" + bytes(data)
    text = data if isinstance(data, str) else getattr(data, "identity", None) or getattr(data, "fingerprint", None)
    if not isinstance(text, str) or not text.strip():
        kind = type(data).__name__
        got = f"an empty {kind}" if binary or isinstance(text, str) else f"a {kind}"
        raise BadInput("data", got=Verbatim(got), want=want)
    return b"text:" + text.encode("utf-8", "surrogatepass")
