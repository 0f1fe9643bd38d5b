"""Large synthetic logs for measuring speed."""

from __future__ import annotations

import numpy as np

from peerveil.data import Events

_START = np.datetime64("2022-01-01T00:00:00", "us")


def many_events(events: int, *, days: float = 31.0, seed: int = 0) -> Events:
    """Half of the events in sittings of one editor, heavy-tailed editors and pages."""
    rng = np.random.default_rng(seed)
    editors = max(events // 8, 2)
    sittings = max(events * 2 // 3, 1)
    owner = np.sort(rng.integers(0, sittings, events))
    start = rng.random(sittings) * days * 86_400
    who = (editors * rng.random(sittings) ** 2).astype(np.int64)
    pause = rng.exponential(90, events)
    pause[np.concatenate([[True], owner[1:] != owner[:-1]])] = 0
    passed = np.cumsum(pause)
    opening = np.searchsorted(owner, owner)
    when = start[owner] + passed - passed[opening]
    page = (max(events // 3, 2) * rng.random(events) ** 2).astype(np.int64)
    return Events(actor=who[owner], thread=page, time=_START + (when * 1e6).astype(np.int64).astype("timedelta64[us]"))
