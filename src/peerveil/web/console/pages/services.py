"""The services at a glance, and the gateway's operator page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from peerveil.core.errors import BadInput, PeerveilError
from peerveil.storage import Address
from peerveil.web.common.errors import Conflict
from peerveil.web.console.app import start_command

if TYPE_CHECKING:
    from starlette.responses import Response

    from peerveil.web.console.pages.request import PageRequest
    from peerveil.web.gateway import Gateway

CLOCK: Final = {"step": "the clock was moved", "pause": "time has really passed"}
"""What may have happened to a clock."""


def overview(request: PageRequest) -> Response:
    """Both services."""
    gateway, gateway_state = _gateway(request)
    if gateway is not None:
        gateway_state |= {"spaces": sorted(gateway.spaces), "halted": gateway.in_doubt()}
    return request.page("services.html", gateway=gateway_state, collect=collection(request))


def collection(request: PageRequest) -> dict[str, Any]:
    """The collection: its campaigns, or why it cannot be opened, where it is, and the command that starts it."""
    services = request.app.services
    campaigns, problem = [], ""
    try:
        campaigns = services.store().listed() if services.has_collection() else []
    except PeerveilError as error:
        problem = str(error)
    return {
        "open": services.has_collection() and not problem,
        "campaigns": campaigns,
        "problem": problem,
        "where": Address.read(services.collect_url).shown,
        "command": start_command("collect", services.collect_url),
    }


def _gateway(request: PageRequest) -> tuple[Gateway | None, dict[str, Any]]:
    """The gateway, if it can be opened; and why not, where it is, and the command that starts it."""
    services = request.app.services
    url = services.gateway_url
    gateway, problem = None, ""
    try:
        gateway = services.gateway() if url is not None else None
    except PeerveilError as error:
        problem = str(error)
    where, command = Address.read(url).shown if url else "", start_command("gateway", url or "gateway.db")
    return gateway, {"open": gateway is not None, "problem": problem, "where": where, "command": command}


def gateway_page(request: PageRequest) -> Response:
    """The gateway's own page, or how to set one up."""
    from peerveil.web.gateway import examine, operator_page

    gateway, state = _gateway(request)
    if gateway is None:
        return request.page("services_no_gateway.html", **state)
    parts = operator_page(gateway, sorted(gateway.spaces))
    findings, halted = examine(gateway), gateway.in_doubt()
    return request.page("services_gateway.html", parts=parts, halted=halted, findings=findings, **state)


def confirm_clock(request: PageRequest) -> Response:
    """An operator has checked the clock."""
    what = request.field("what")
    if what not in CLOCK:
        raise BadInput("what", got=what, want=f"one of the two: {', or '.join(CLOCK.values())}")
    gateway = request.app.services.gateway()
    if gateway.in_doubt() is None:
        raise Conflict("the clock is not in doubt; nothing was done")
    moved_seconds = gateway.confirm_clock(what) / 1e6
    request.log("confirmed the gateway's clock", f"{CLOCK[what]}; held posts moved by {moved_seconds:,.0f} s")
    return request.redirect("/services/gateway", "clock")
