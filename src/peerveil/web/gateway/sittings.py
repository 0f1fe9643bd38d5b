"""Who wrote when within the last window: one sealed row per person, under a name that changes every day.

The next status of a person needs these arrivals, and nobody else does. A copy of the database shows that some people
wrote lately, as rows of equal length up to padding, and neither who they are nor which posts are theirs. Times are kept
without the clock steps that operators confirmed (:meth:`peerveil.web.gateway.watch.Watch.unshifted`), so that a confirmed
step needs to open nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass

from sqlalchemy import Connection, select

from peerveil.web.common import Digests, Vault
from peerveil.web.common.database import DAY, among, insert_rows
from peerveil.web.gateway.space import Space
from peerveil.web.gateway.tables import recent


@dataclass(frozen=True, slots=True)
class Arrival:
    """A post of a sitting."""

    thread: str
    at: int
    declared: bool
    post: str


@dataclass(frozen=True)
class Sittings:
    """Reads and writes the arrivals of people, who are named by a MAC of space and actor."""

    _vault: Vault
    _digests: Digests

    def read(self, connection: Connection, spaces: Mapping[str, Space], now: int) -> dict[str, list[Arrival]]:
        """The arrivals of each person, oldest first."""
        names = {self._name(person, space, now, ago): person for person, space in spaces.items() for ago in (0, 1)}
        arrivals_of: dict[str, set[Arrival]] = {}
        for row in connection.execute(select(recent).where(among(connection, recent.c.person, list(names)))):
            arrivals = json.loads(self._vault.open_text(bytes(row.body), about=row.person))
            arrivals_of.setdefault(names[row.person], set()).update(Arrival(*arrival) for arrival in arrivals)
        return {person: sorted(arrivals, key=lambda arrival: arrival.at) for person, arrivals in arrivals_of.items()}

    def write(
        self, connection: Connection, spaces: Mapping[str, Space], arrivals: Mapping[str, list[Arrival]], now: int
    ) -> None:
        """Keep what the next status needs: each post of a sitting, or the last on each thread where the past decides."""
        rows = []
        for person, space in spaces.items():
            needed = {
                arrival.thread if space.base.follow_ups_only else arrival.post: arrival
                for arrival in arrivals[person]
                if now - arrival.at <= space.window_micros
            }
            name = self._name(person, space, now)
            text = json.dumps([astuple(arrival) for arrival in needed.values()])
            # a multiple of the window: it says no more of the time of arrival than that the row is there
            forget = (now // space.window_micros + 2) * space.window_micros
            rows.append({"person": name, "body": self._vault.seal_text(text, about=name), "forget": forget})
        insert_rows(connection, recent, rows, replace=True)

    def _name(self, person: str, space: Space, now: int, ago: int = 0) -> str:
        """The name of a person's row on a day (or in a period of the window, if that is longer), or on the one before."""
        day = now // max(DAY, space.window_micros) - ago
        return self._digests("sitting", person, str(day))
