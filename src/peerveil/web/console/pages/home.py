"""The first page: what can be done here, what was done last, what is left to spend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from peerveil.web.console import files, runs, simulations
from peerveil.web.console.pages.ledger import accounts_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from peerveil.web.console.pages.visit import Visit

ROOMS: Final = {
    "release": ("Release", "Publish how strict reviewers are, or how high they score, without saying who wrote what."),
    "timing": ("Timing", "See what posting times give away, and post with delays that hide it."),
    "calibration": ("Calibration", "Accept the better papers, correcting for strictness, without naming the reviewer."),
    "rankings": ("Rankings", "Find out whether rankings carry any signal, with a p-value that may be published."),
    "truth": ("Truth", "Find the right answers among answers that were randomized before they were sent."),
}
"""The rooms in words."""


def front(visit: Visit) -> Response:
    """The first page. Whoever opens it will soon open a room: what rooms show of invented data is made ready meanwhile."""
    for room in ROOMS:
        simulations.ready(visit.house, room, "")
    return visit.page(
        "front.html",
        rooms=ROOMS,
        files=files.listed(visit.house, visit.asker)[:5] if visit.asker.may("analyst") else [],
        runs=runs.listed(visit.house, visit.asker, 8),
        states=runs.STATES,
        accounts=accounts_of(visit.house),
    )
