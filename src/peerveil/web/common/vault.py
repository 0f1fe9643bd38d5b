"""Encryption at rest: AES-256-GCM under a key that the database never sees.

Keys come from an environment variable, as ``name:base64`` pairs with commas between them. The first seals; all open.
So a key is changed by putting a new one in front, and taken away when nothing sealed with it is left.

What is sealed is bound to what it is about (the associated data): a sealed text copied into another row does not open.
"""

import base64
import hmac
import os
import re
import secrets
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final, Self

from peerveil.core.errors import BadInput, PeerveilError, Verbatim

VARIABLE: Final = "PEERVEIL_KEY"
_NAME: Final = re.compile(r"[a-z0-9-]{1,16}")
_WANT: Final = "keys as name:base64 of 32 bytes, separated by commas, the newest first"
_NONCE_BYTES: Final = 12
_PADDED_BYTES: Final = 512  # sealed texts have a multiple of this length, so that their length tells little


class CannotOpen(PeerveilError):
    """Something sealed does not open: another key, another row, or it was changed."""


class Vault:
    """Seals and opens. The keys are never shown.

    >>> vault = Vault.read(Vault.new_key("k1"))
    >>> vault.open(vault.seal(b"held", about="post 7"), about="post 7")
    b'held'
    >>> vault.open(vault.seal(b"held", about="post 7"), about="post 8")
    Traceback (most recent call last):
        ...
    peerveil.web.common.vault.CannotOpen: sealed with key 'k1': it was changed, or belongs elsewhere
    """

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if not keys or any(len(key) != 32 for key in keys.values()):
            raise BadInput(VARIABLE, got=Verbatim("no key, or one of another length"), want=_WANT)
        self._keys = dict(keys)
        self._ciphers = {name: AESGCM(key) for name, key in keys.items()}
        self.current = next(iter(keys))
        self.names = frozenset(keys)
        self._prefix = bytes([len(self.current)]) + self.current.encode()

    @classmethod
    def read(cls, text: str) -> Self:
        """The vault of keys written as ``name:base64,name:base64``."""
        keys: dict[str, bytes] = {}
        for part in text.strip().split(","):
            name, _, code = part.strip().partition(":")
            try:
                key = base64.b64decode(code, altchars=b"-_", validate=True)
            except ValueError:
                key = b""
            if not _NAME.fullmatch(name) or name in keys or len(key) != 32:
                raise BadInput(VARIABLE, got=Verbatim("something that is not shown"), want=_WANT)
            keys[name] = key
        return cls(keys)

    @classmethod
    def find(cls, key_file: str | Path | None = None) -> Self:
        """The vault of the environment's keys, or else of a file that holds the same text."""
        text = os.environ.get(VARIABLE, "")
        if not text and key_file is not None and Path(key_file).is_file():
            text = Path(key_file).read_text(encoding="utf-8")
        if not text.strip():
            want = f"a key in {VARIABLE}, or in the key file of the configuration: run `peerveil gateway init`, which writes both"
            raise BadInput(VARIABLE, got=Verbatim("no key"), want=want)
        return cls.read(text)

    def text(self) -> str:
        """The keys as :meth:`read` takes them, for another process of this service."""
        return ",".join(f"{name}:{base64.urlsafe_b64encode(key).decode()}" for name, key in self._keys.items())

    @staticmethod
    def new_key(name: str | None = None) -> str:
        """A new key, written as the environment wants it."""
        chosen = f"k{secrets.token_hex(3)}" if name is None else name
        return f"{chosen}:{base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()}"

    def derive(self, salt: bytes, purpose: str) -> "Vault":
        """The vault of other keys, one from each of these (HKDF-SHA256): no key of one purpose reveals another."""
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        info = b"peerveil vault: " + purpose.encode()
        return Vault({name: HKDF(SHA256(), 32, salt, info).derive(key) for name, key in self._keys.items()})

    def seal(self, plain: bytes, *, about: str) -> bytes:
        """Encrypt under the current key."""
        nonce = os.urandom(_NONCE_BYTES)
        return self._prefix + nonce + self._ciphers[self.current].encrypt(nonce, plain, about.encode())

    def open(self, sealed: bytes, *, about: str) -> bytes:
        """Decrypt what any of the keys has sealed."""
        from cryptography.exceptions import InvalidTag

        name = self.key_of(sealed)
        cipher = self._ciphers.get(name)
        if cipher is None:
            raise CannotOpen(f"sealed with key {name!r}, which {VARIABLE} does not hold")
        start = 1 + sealed[0]
        try:
            return cipher.decrypt(sealed[start : start + _NONCE_BYTES], sealed[start + _NONCE_BYTES :], about.encode())
        except (InvalidTag, ValueError):
            raise CannotOpen(f"sealed with key {name!r}: it was changed, or belongs elsewhere") from None

    @staticmethod
    def key_of(sealed: bytes) -> str:
        """The name of the key that sealed it."""
        return sealed[1 : 1 + sealed[0]].decode("ascii", "replace") if sealed else ""

    def seal_text(self, text: str, *, about: str) -> bytes:
        """Encrypt a text without showing its length: it is padded to a multiple of 512 bytes."""
        raw = text.encode()
        return self.seal(raw + bytes(-len(raw) % _PADDED_BYTES or (0 if raw else _PADDED_BYTES)), about=about)

    def open_text(self, sealed: bytes, *, about: str) -> str:
        """Decrypt a text that :meth:`seal_text` sealed."""
        return self.open(sealed, about=about).rstrip(b"\0").decode()

    def __repr__(self) -> str:
        return f"<Vault of {len(self._ciphers)} keys, sealing with {self.current!r}>"


class Digests:
    """Keyed hashes: names of people and keys of requests, so that the database holds neither.

    >>> digests = Digests(b"0" * 32)
    >>> digests("actor", "iclr", "kim") == digests("actor", "icl", "rkim")
    False
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._keyed: dict[str, hmac.HMAC] = {}

    def key(self, purpose: str) -> bytes:
        """The 32-byte key of one purpose, derived from the secret; no key reveals another."""
        return hmac.digest(self._secret, b"peerveil key: " + purpose.encode(), sha256)

    def __call__(self, kind: str, *parts: str | bytes) -> str:
        """The MAC of some parts, as 64 hexadecimal digits, under the key of its kind; lengths keep the parts apart."""
        if kind not in self._keyed:
            self._keyed[kind] = hmac.new(self.key(kind), digestmod=sha256)
        mac = self._keyed[kind].copy()
        for part in parts:
            raw = part.encode() if isinstance(part, str) else part
            mac.update(len(raw).to_bytes(8, "big"))
            mac.update(raw)
        return mac.hexdigest()

    def __repr__(self) -> str:
        return "<Digests>"
