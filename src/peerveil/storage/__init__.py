"""Tables that outlive a process: where they are, how they are declared, and transactions.

- where: :class:`Address`, a SQLite file or a PostgreSQL database;
- transactions: :class:`Database`, which a subclass makes the database of a ledger or of a service;
- tables: :class:`Schema`, and :func:`open_tables`, which makes them once, however many come at a time.
"""

from peerveil.storage.address import Address
from peerveil.storage.schema import Schema, guard, keys, open_tables, required, version_table
from peerveil.storage.transactions import Closable, Database

__all__ = ["Address", "Closable", "Database", "Schema", "guard", "keys", "open_tables", "required", "version_table"]
