"""Gateway: a posting service that hides when people wrote.

It takes a post, answers at once, and publishes it at a random later time, exactly once, surviving crashes.

- **Serve**: :class:`Gateway` (a database with its keys and spaces), :class:`Space`, :class:`GatewaySettings`,
  :func:`create_app`, :class:`GatewayWorker`.
- **Use**: :class:`GatewayClient`, which returns a :class:`Receipt` or raises
  :class:`Refused`.
- **Adapt**: :class:`Follower` with :class:`OpenReviewPoster`, :class:`HotCRPPoster` or :class:`DiscoursePoster`,
  :func:`check_signature` for receivers of webhooks, :func:`atom` and :func:`rss`.
- **Operate**: :func:`backup`, :func:`restore`, :func:`examine`, :func:`operator_page`, :func:`request_reveal`,
  :func:`approve_reveal` and :func:`read_audit`.

Names are imported on first use: a client needs no web server.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from peerveil.web.common.client import Refused
    from peerveil.web.gateway.adapters import DiscoursePoster, HotCRPPoster, OpenReviewPoster
    from peerveil.web.gateway.app import create_app
    from peerveil.web.gateway.backups import backup, restore
    from peerveil.web.gateway.client import Follower, GatewayClient, Receipt
    from peerveil.web.gateway.core import Gateway
    from peerveil.web.gateway.feed import atom, rss
    from peerveil.web.gateway.health import examine
    from peerveil.web.gateway.publish import GatewayWorker
    from peerveil.web.gateway.reveal import approve_reveal, read_audit, request_reveal
    from peerveil.web.gateway.settings import GatewaySettings
    from peerveil.web.gateway.space import Space
    from peerveil.web.gateway.tally import operator_page
    from peerveil.web.gateway.webhooks import check_signature

__all__ = [
    "DiscoursePoster",
    "Follower",
    "Gateway",
    "GatewayClient",
    "GatewaySettings",
    "GatewayWorker",
    "HotCRPPoster",
    "OpenReviewPoster",
    "Receipt",
    "Refused",
    "Space",
    "approve_reveal",
    "atom",
    "backup",
    "check_signature",
    "create_app",
    "examine",
    "operator_page",
    "read_audit",
    "request_reveal",
    "restore",
    "rss",
]

_MODULES: Final = {
    "adapters": ("DiscoursePoster", "HotCRPPoster", "OpenReviewPoster"),
    "app": ("create_app",),
    "backups": ("backup", "restore"),
    "client": ("Follower", "GatewayClient", "Receipt", "Refused"),
    "core": ("Gateway",),
    "feed": ("atom", "rss"),
    "health": ("examine",),
    "publish": ("GatewayWorker",),
    "reveal": ("approve_reveal", "read_audit", "request_reveal"),
    "settings": ("GatewaySettings",),
    "space": ("Space",),
    "tally": ("operator_page",),
    "webhooks": ("check_signature",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"peerveil.web.gateway.{module}"), name)
    raise AttributeError(f"module 'peerveil.web.gateway' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
