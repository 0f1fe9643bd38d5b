"""The services at a glance, and the gateway's operator page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from peerveil.core.errors import PeerveilError, one_of
from peerveil.storage import Address
from peerveil.web.common.errors import Conflict
from peerveil.web.console.app import start_command

if TYPE_CHECKING:
    from starlette.responses import Response

    from peerveil.web.console.pages.request import PageRequest
    from peerveil.web.gateway import Gateway

_T = TypeVar("_T")
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
    campaigns, state = _state(
        "collect", services.collect_url, services.has_collection(), lambda: services.store().listed()
    )
    return {"campaigns": campaigns or [], **state}


def _gateway(request: PageRequest) -> tuple[Gateway | None, dict[str, Any]]:
    """The gateway, if it can be opened; and why not, where it is, and the command that starts it."""
    services = request.app.services
    return _state("gateway", services.gateway_url, services.gateway_url is not None, services.gateway)


def _state(service: str, url: str | None, exists: bool, open_it: Callable[[], _T]) -> tuple[_T | None, dict[str, Any]]:
    """What was opened, if it exists and can be; and the state of a service for its page."""
    opened, problem = None, ""
    try:
        opened = open_it() if exists else None
    except PeerveilError as error:
        problem = str(error)
    where, command = Address.read(url).shown if url else "", start_command(service, url or f"{service}.db")
    return opened, {"open": exists and not problem, "problem": problem, "where": where, "command": command}


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
    what = one_of(request.field("what"), "what", CLOCK)
    gateway = request.app.services.gateway()
    if gateway.in_doubt() is None:
        raise Conflict("the clock is not in doubt; nothing was done")
    moved_seconds = gateway.confirm_clock(what) / 1e6
    request.log("confirmed the gateway's clock", f"{CLOCK[what]}; held posts moved by {moved_seconds:,.0f} s")
    return request.redirect("/services/gateway", "clock")
