"""The services at a glance, and the gateway's operator page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from peerveil.core.errors import BadInput, PeerveilError
from peerveil.storage import Address
from peerveil.web.common.errors import Conflict
from peerveil.web.console.annex import start_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response

    from peerveil.web.console.pages.visit import Visit
    from peerveil.web.gateway import Gateway

CLOCK: Final = {"step": "the clock was moved", "pause": "time has really passed"}
"""What may have happened to a clock."""
ACTS: Final = ("invite", "estimate", "close", "infer", "export", "truth")
"""What can be done with a campaign."""


def overview(visit: Visit) -> Response:
    """Both services."""
    annex = visit.console.annex
    gateway, refused = _gateway(visit)
    campaigns, problem = [], ""
    if annex.collects():
        try:
            campaigns = annex.store().listed()
        except PeerveilError as error:
            problem = str(error)
    return visit.page(
        "services.html",
        gateway={
            "there": gateway is not None,
            "named": annex.gateway_url is not None,
            "problem": refused,
            "spaces": [] if gateway is None else sorted(gateway.spaces),
            "halted": None if gateway is None else gateway.in_doubt(),
            "where": Address.read(annex.gateway_url).shown if annex.gateway_url else "",
            "command": start_command("gateway", annex.gateway_url or "gateway.db"),
        },
        collect={
            "there": annex.collects() and not problem,
            "problem": problem,
            "campaigns": campaigns,
            "where": Address.read(annex.collect_url).shown,
            "command": start_command("collect", annex.collect_url),
        },
    )


def _gateway(visit: Visit) -> tuple[Gateway | None, str]:
    """The gateway, or why it cannot be opened; nothing is said where none was named."""
    annex = visit.console.annex
    if annex.gateway_url is None:
        return None, ""
    try:
        return annex.gateway(), ""
    except PeerveilError as error:
        return None, str(error)


def gateway_page(visit: Visit) -> Response:
    """The gateway's own page; or how to set one up."""
    from peerveil.web.gateway import examine, operator_page

    annex = visit.console.annex
    gateway, problem = _gateway(visit)
    where = Address.read(annex.gateway_url).shown if annex.gateway_url else ""
    if gateway is None:
        command = start_command("gateway", annex.gateway_url or "gateway.db")
        return visit.page("services_no_gateway.html", problem=problem, where=where, command=command)
    return visit.page(
        "services_gateway.html",
        parts=operator_page(gateway, sorted(gateway.spaces)),
        halted=gateway.in_doubt(),
        findings=examine(gateway),
        where=where,
        command=start_command("gateway", str(annex.gateway_url)),
    )


def confirm_clock(visit: Visit) -> Response:
    """An operator has looked at the clock."""
    what = visit.form.get("what", "")
    if what not in CLOCK:
        raise BadInput("what", got=what, want="one of the two: the clock was moved, or time has really passed")
    gateway = visit.console.annex.gateway()
    if gateway.in_doubt() is None:
        raise Conflict("the clock is not in doubt; nothing was done")
    moved = gateway.confirm_clock(what)
    with visit.house.database.writing("take") as connection:
        about = f"{CLOCK[what]}; held posts moved by {moved / 1e6:,.0f} s"
        visit.house.note(connection, visit.asker.id, "confirmed the gateway's clock", about)
    return visit.go("/services/gateway", "clock")


def campaigns_page(name: str) -> Callable[[Visit], Response]:
    """A page of the campaigns, loaded on first use: it needs much that no other page needs."""

    def handler(visit: Visit) -> Response:
        from peerveil.web.console.pages import collect

        found: Callable[[Visit], Response] = getattr(collect, name)
        return found(visit)

    return handler


def routes(page: Any, post: Any) -> list[Any]:
    """The addresses of these pages; that of a new campaign is none that a campaign could have."""
    here = "/services/collect/{campaign}"
    return [
        page("/services", overview, "operator"),
        page("/services/gateway", gateway_page, "operator"),
        post("/services/gateway/clock", confirm_clock, "operator"),
        page("/services/collect", campaigns_page("everything"), "operator"),
        page("/services/new-campaign", campaigns_page("blank"), "operator"),
        post("/services/new-campaign", campaigns_page("new"), "operator"),
        page(here, campaigns_page("one"), "operator"),
        *(post(f"{here}/{act}", campaigns_page(act), "operator") for act in ACTS),
        page(f"{here}/results.json", campaigns_page("results"), "operator"),
        page(f"{here}/labels.csv", campaigns_page("labels"), "operator"),
    ]
