"""Tables that outlive a process: where they are, transactions, and the way from one version of them to the next.

- where: :class:`Address`, a SQLite file or a PostgreSQL database;
- transactions: :class:`Database`, which a subclass makes the database of a ledger or of a service;
- versions: :class:`Schema`, and :func:`prepare`, which makes or migrates the tables once, however many come at a time.
"""

from peerveil.storage.address import Address
from peerveil.storage.schema import Schema, prepare, version_table
from peerveil.storage.transactions import Database

__all__ = ["Address", "Database", "Schema", "prepare", "version_table"]
