"""What the services share: the gateway, the collection of answers and the console.

- **Database**: :class:`ServiceDatabase` and :func:`open_database` (WAL and full sync on SQLite), :func:`database_time`.
- **Identity**: :class:`Tokens` (hashed bearer tokens with roles), :class:`Identity`.
- **Exactly once**: :class:`Records` and :class:`Record` (idempotency), :class:`GroupCommit` (many requests, one durable
  transaction).
- **At rest**: :class:`Vault` (AES-GCM, keys from the environment, rotation), :class:`Digests` (keyed hashes).
- **Running**: :class:`Journal` (logs from an allow-list); the parts of a web application are in
  :mod:`peerveil.web.common.app`, starting and stopping in :mod:`peerveil.web.common.serving`.
- **Refusals**: :class:`ServiceError` and its kinds, each with its HTTP status.
- **Clients**: :mod:`peerveil.web.common.client`.
"""

from peerveil.web.common.database import ServiceDatabase, database_time, open_database
from peerveil.web.common.errors import ServiceError
from peerveil.web.common.group_commit import GroupCommit
from peerveil.web.common.journal import Journal
from peerveil.web.common.records import Record, Records
from peerveil.web.common.tokens import Identity, Tokens
from peerveil.web.common.vault import Digests, Vault

__all__ = [
    "Digests",
    "GroupCommit",
    "Identity",
    "Journal",
    "Record",
    "Records",
    "ServiceDatabase",
    "ServiceError",
    "Tokens",
    "Vault",
    "database_time",
    "open_database",
]
