"""Actions on data."""

from __future__ import annotations

ACTIONS = ()
