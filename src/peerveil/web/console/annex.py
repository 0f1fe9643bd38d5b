"""The two services beside a console: their databases, opened when they are first asked for, and how to start them."""

from __future__ import annotations

import os
import shlex
import threading
from typing import TYPE_CHECKING, Final

from peerveil.core.errors import BadInput, Verbatim
from peerveil.storage import Address

if TYPE_CHECKING:
    from peerveil.web.collect import Store
    from peerveil.web.collect.service import Inferrer
    from peerveil.web.console.house import Settings
    from peerveil.web.gateway import Gateway

_CONFIG: Final = "PEERVEIL_GATEWAY_CONFIG"


class Annex:
    """What a console knows of the gateway and of the collection. Safe to use from several threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store: Store | None = None
        self._gateway: Gateway | None = None
        self._inferrer: Inferrer | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Give the connections back. Inference that was started goes on: it is a process of its own."""
        with self._lock:
            if self._store is not None:
                self._store.close()
            if self._gateway is not None:
                self._gateway.close()
            self._store, self._gateway = None, None

    # ---- the collection ------------------------------------------------------------------------------------------

    @property
    def collect_url(self) -> str:
        """Where the collection's tables are, or will be."""
        assert self._settings.collect is not None  # Settings.make fills it in
        return self._settings.collect

    def collects(self) -> bool:
        """Whether there is a collection; a database on a server is asked when it is used."""
        path = Address.read(self.collect_url).path
        return path is None or path.exists()

    def store(self, *, create: bool = False) -> Store:
        """The collection; with ``create`` its tables are made if there are none."""
        from peerveil.web.collect import Store

        with self._lock:
            if self._store is None:
                self._store = Store(self.collect_url, create=create)
            return self._store

    def inferrer(self) -> Inferrer:
        """Starts inference in processes of their own, and knows what became of them."""
        from peerveil.web.collect.service import Inferrer

        with self._lock:
            if self._inferrer is None:
                self._inferrer = Inferrer(self.collect_url)
            return self._inferrer

    # ---- the gateway ---------------------------------------------------------------------------------------------

    @property
    def gateway_url(self) -> str | None:
        """Where the gateway's tables are, if this console was told."""
        return self._settings.gateway

    def gateway(self) -> Gateway:
        """The gateway, with the keys and the watch on time that its own commands would use."""
        from peerveil.web.gateway import Gateway, GatewaySettings

        if self.gateway_url is None:
            want = "the address of its database: start the console with --gateway"
            raise BadInput("gateway", got=Verbatim("nothing"), want=want)
        with self._lock:
            if self._gateway is None:
                settings = GatewaySettings.find(os.environ.get(_CONFIG), self.gateway_url)
                self._gateway = Gateway(settings.db, settings.vault(), watch=settings.watch())
            return self._gateway


def start_command(service: str, url: str) -> str:
    """How to start a service on a database, as it is typed; an address of a server never shows its user or password.

    >>> start_command("collect", "/srv/my data/collect.db")
    "peerveil collect serve --db '/srv/my data/collect.db'"
    >>> start_command("collect", "postgresql://chair:swordfish@db/collect")
    'PEERVEIL_COLLECT_DB=... peerveil collect serve'
    """
    address = Address.read(url)
    if address.path is None:
        return f"PEERVEIL_{service.upper()}_DB=... peerveil {service} serve"
    return f"peerveil {service} serve --db {shlex.quote(address.shown)}"
