"""One line of a ledger, and the chain of digests that binds the lines together.

Each entry's digest covers all its fields and the digest of the entry before it; the first continues the
account's opening digest, which covers the ledger, the account's name and its budget. So nothing can be
changed, removed, reordered or inserted without every later digest telling of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from peerveil.core.exact import printed
from peerveil.core.guarantee import Guarantee, Notion


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A receipt: what was spent, on what, and the digest that seals it.

    Attributes
    ----------
    account : str
        The account's name.
    serial : int
        1, 2, 3, ... within the account.
    when : datetime.datetime
        UTC by this machine's clock; for people, nothing depends on it.
    purpose : str
        What the spend is for, in words for people.
    key : str or None
        What the spend is for, for programs: unique within the account, so that what has a key is debited once.
    guarantee : peerveil.Guarantee
        What was guaranteed, as data.
    exact_debit : fractions.Fraction
        What was taken from the budget: epsilon for notions that add up, 0 for those that are only recorded.
    words : str
        The guarantee in words, as they were when it was given.
    fingerprint : str
        The keyed fingerprint of the data set.
    lane : str
        Always ``"secure"``.
    library : str
        The version of peerveil that wrote the entry.
    previous, digest : str
        The seal of the entry before (or of the account's opening) and of this one: SHA-256 over
        :meth:`to_dict` without ``digest``, as JSON with sorted keys, no spaces, and ASCII only.
    """

    account: str
    serial: int
    when: datetime
    purpose: str
    key: str | None
    guarantee: Guarantee
    exact_debit: Fraction
    words: str
    fingerprint: str
    lane: str
    library: str
    previous: str
    digest: str

    @property
    def notion(self) -> Notion:
        """The kind of guarantee."""
        return self.guarantee.notion

    @property
    def exact_epsilon(self) -> Fraction | None:
        """The epsilon of the guarantee; ``None`` for a notion without one."""
        return self.guarantee.exact_epsilon

    @property
    def epsilon(self) -> float | None:
        """The epsilon of the guarantee as a float, rounded up."""
        return self.guarantee.epsilon

    @property
    def debited(self) -> bool:
        """Whether the budget was debited; otherwise the guarantee is only recorded."""
        return self.exact_debit > 0

    @property
    def debit(self) -> float:
        """What was taken from the budget as a float, rounded up."""
        return printed(self.exact_debit, "up")

    @property
    def head(self) -> str:
        """``serial:digest``, to be kept outside the ledger; :meth:`Ledger.verify` compares with it later."""
        return f"{self.serial}:{self.digest}"

    def to_dict(self) -> dict[str, Any]:
        """Every field, exactly, as JSON values."""
        return {**self._body(), "digest": self.digest}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Entry:
        """The entry that :meth:`to_dict` wrote."""
        return cls.read(data, Guarantee.from_dict(data["guarantee"]))

    @classmethod
    def read(cls, data: Mapping[str, Any], guarantee: Guarantee) -> Entry:
        """The entry with the values of :meth:`to_dict`, its guarantee read already."""
        values = {field.name: data[field.name] for field in fields(cls) if field.name in data}
        when, debit = datetime.fromisoformat(data["when"]), Fraction(data["debit"])
        return cls(**values | {"when": when, "guarantee": guarantee, "exact_debit": debit})

    @classmethod
    def sealed(cls, **values: Any) -> Entry:
        """An entry with its digest computed from all other fields."""
        unsealed = cls(**values, digest="")
        return cls(**values, digest=unsealed.true_digest())

    def true_digest(self) -> str:
        """The digest that belongs to the fields as they are now."""
        return seal(self._body())

    def _body(self) -> dict[str, Any]:
        epsilon = self.exact_epsilon
        plain = ("account", "serial", "purpose", "key", "words", "fingerprint", "lane", "library", "previous")
        return {name: getattr(self, name) for name in plain} | {
            "when": timestamp(self.when),
            "notion": self.notion.value,
            "epsilon": None if epsilon is None else str(epsilon),
            "debited": self.debited,
            "debit": str(self.exact_debit),
            "guarantee": self.guarantee.to_dict(),
        }

    def __str__(self) -> str:
        what = f"epsilon {self.debit!r} debited" if self.debited else "recorded, nothing debited"
        when = f"{self.when:%Y-%m-%d %H:%M:%S} UTC"
        return f"{self.account} #{self.serial}, {when}: {self.purpose} ({what}). {self.words}"


def canonical(value: object) -> str:
    r"""JSON in the one form that is hashed and stored.

    >>> canonical({"b": 1, "a": "é"})
    '{"a":"\\u00e9","b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def seal(body: Mapping[str, object]) -> str:
    """The SHA-256 of the canonical JSON of a record."""
    return hashlib.sha256(canonical(body).encode("ascii")).hexdigest()


def timestamp(moment: datetime) -> str:
    """A moment as it is stored and hashed."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")
