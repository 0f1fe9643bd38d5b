"""The operators' pages of the gateway and of the collection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.responses import Response

    from peerveil.console.web.visit import Visit


def overview(visit: Visit) -> Response:
    """Both services."""
    return visit.page("services.html")


def routes(page: Any, post: Any) -> list[Any]:
    """The addresses of these pages."""
    del post
    return [page("/services", overview, "operator")]
