"""Invitations as they are handed out."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from peerveil.core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence


def invitation_links(site: str, campaign: str, tokens: Sequence[str]) -> list[str]:
    """One link for each token, to the person's page on the site where the service can be reached.

    The token stands behind the ``#``: browsers do not send it, so that no server's log has it.

    >>> invitation_links("https://collect.example.org/", "lake", ["pv_1"])
    ['https://collect.example.org/c/lake#pv_1']
    """
    want = "the address where people reach the service, such as https://collect.example.org"
    try:
        parts = urlsplit(site.strip())
        port_fits = parts.port is None or parts.port > 0
    except ValueError:
        raise BadInput("site", got=site, want=want) from None
    whole = parts.scheme in ("http", "https") and parts.hostname and port_fits
    if (
        not whole
        or parts.query
        or parts.fragment
        or parts.username
        or not site.strip().isprintable()
        or " " in site.strip()
    ):
        raise BadInput("site", got=site, want=want)
    return [f"{site.strip().rstrip('/')}/c/{campaign}#{token}" for token in tokens]
