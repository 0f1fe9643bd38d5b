"""The ground of the services: what the gateway, the collection of answers and the console share.

- **Database**: :class:`ServiceDatabase` and :func:`open_database` (WAL and full sync on SQLite), :func:`database_time`.
- **Who asks**: :class:`Tokens` (hashed bearer tokens with roles), :class:`Identity`.
- **Once**: :class:`Records` and :class:`Record` (idempotency), :class:`GroupCommit` (many requests, one durable
  transaction).
- **At rest**: :class:`Vault` (AES-GCM, keys from the environment, rotation), :class:`Digests` (keyed hashes).
- **Running**: :class:`Journal` (logs from an allow-list), :func:`read_config`; the web application's parts are in
  :mod:`peerveil.web.common.app`, starting and stopping in :mod:`peerveil.web.common.serving`.
- **Refusals**: :class:`ServiceError` and its kinds, each with its HTTP status.
"""

from peerveil.web.common.clock import Stopwatch, database_time
from peerveil.web.common.config import read_config
from peerveil.web.common.errors import ServiceError
from peerveil.web.common.group_commit import GroupCommit
from peerveil.web.common.journal import Journal
from peerveil.web.common.records import Record, Records
from peerveil.web.common.store import ServiceDatabase, open_database
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
    "Stopwatch",
    "Tokens",
    "Vault",
    "database_time",
    "open_database",
    "read_config",
]
