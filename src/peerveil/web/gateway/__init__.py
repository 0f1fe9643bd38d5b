"""Gateway: a posting service that hides when people wrote.

It takes a post, answers at once, and makes it visible at a random later time, exactly once, surviving crashes.

- **Serve**: :class:`Gateway` (a database with its keys and spaces), :class:`Space`, :class:`Settings`,
  :func:`create_app`, :class:`Worker`.
- **Use**: :class:`GatewayClient` (the standard library only), which returns a :class:`Receipt` or raises
  :class:`Refused`.
- **Adapt**: :class:`Follower`, :class:`OpenReviewPoster`, :func:`check_signature` for receivers of webhooks,
  :func:`atom` and :func:`rss`.
- **Operate**: :func:`backup`, :func:`restore`, :func:`examine`, :func:`operator_page`, :func:`request_reveal`,
  :func:`approve_reveal` and :func:`read_audit`.

Names are imported on first use: a client needs neither a web server nor a database.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from peerveil.web.gateway.adapters import Follower, OpenReviewPoster
    from peerveil.web.gateway.app import create_app
    from peerveil.web.gateway.client import GatewayClient, Receipt, Refused
    from peerveil.web.gateway.copies import backup, restore
    from peerveil.web.gateway.core import Gateway
    from peerveil.web.gateway.doctor import examine
    from peerveil.web.gateway.hooks import check_signature
    from peerveil.web.gateway.page import operator_page
    from peerveil.web.gateway.reveal import approve_reveal, read_audit, request_reveal
    from peerveil.web.gateway.settings import Settings
    from peerveil.web.gateway.space import Space
    from peerveil.web.gateway.syndication import atom, rss
    from peerveil.web.gateway.worker import Worker

__all__ = [
    "Follower",
    "Gateway",
    "GatewayClient",
    "OpenReviewPoster",
    "Receipt",
    "Refused",
    "Settings",
    "Space",
    "Worker",
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

_HOMES: Final = {
    "Follower": "adapters",
    "Gateway": "core",
    "GatewayClient": "client",
    "OpenReviewPoster": "adapters",
    "Receipt": "client",
    "Refused": "client",
    "Settings": "settings",
    "Space": "space",
    "Worker": "worker",
    "approve_reveal": "reveal",
    "atom": "syndication",
    "backup": "copies",
    "check_signature": "hooks",
    "create_app": "app",
    "examine": "doctor",
    "operator_page": "page",
    "read_audit": "reveal",
    "request_reveal": "reveal",
    "restore": "copies",
    "rss": "syndication",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'peerveil.web.gateway' has no attribute {name!r}")
    value = getattr(import_module(f"peerveil.web.gateway.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
