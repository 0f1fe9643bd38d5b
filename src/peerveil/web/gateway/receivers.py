"""One request to a receiver of webhooks: to an address that was checked, with a deadline for the whole of it.

**Addresses.** Whoever can name a receiver, or changes what its name resolves to, must not reach services inside the
operator's network through the gateway. The name is resolved once for each connection, each address is checked, and the
connection is made to the checked address itself: a name that resolves to something else a moment later (DNS rebinding)
changes nothing. Only globally routed addresses are allowed, unless the endpoint's ``allow`` names the network. IPv4
addresses inside IPv6 ones (mapped, NAT64) are checked as IPv4 addresses. Redirects are not followed, and proxies of the
environment are not used: a proxy would resolve the name again.

**Deadline.** A time limit on single reads does not stop a receiver that sends one byte after the other. So the connection
itself is shut down when the time is over, or when the gateway stops: whatever the thread waits for then ends at once, be
it the TLS handshake, the upload or the answer. Of the answer only the status is read; headers have the limits of
``http.client``.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import SplitResult, urlsplit

from peerveil.core.errors import PeerveilError

_GLOBAL_IPV6: Final = ip_network("2000::/3")
_REFUSED: Final = tuple(
    ip_network(text)
    for text in (
        "168.63.129.16/32",  # metadata of virtual machines at Azure
        "192.0.0.0/24",  # metadata at Oracle Cloud, and other protocol assignments
        "2001::/32",  # Teredo and 6to4 hold IPv4 addresses, and serve no receiver
        "2002::/16",
    )
)
_NAT64: Final = ip_network("64:ff9b::/96")


class AddressRefused(PeerveilError):
    """A receiver's name resolves to addresses that the gateway does not call."""


def is_allowed(address: str, allowed: Sequence[str] = ()) -> bool:
    """Whether a receiver may have an address: it is globally routed, or in one of the ``allowed`` networks.

    >>> [is_allowed(a) for a in ("93.184.215.14", "10.0.0.1", "::ffff:127.0.0.1", "169.254.169.254", "100.64.0.1")]
    [True, False, False, False, False]
    >>> is_allowed("10.1.2.3", ["10.1.0.0/16"])
    True
    """
    ip: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv6Address):
        if ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        elif ip in _NAT64:
            ip = IPv4Address(int(ip) & 0xFFFFFFFF)
    if any(ip in ip_network(network) for network in allowed):
        return True
    routed = ip.is_global and not ip.is_multicast and not ip.is_reserved
    return routed and (ip.version == 4 or ip in _GLOBAL_IPV6) and not any(ip in network for network in _REFUSED)


class Attempt(threading.Thread):
    """One request, in a thread of its own.

    ``work`` may use :meth:`post`; ``accepted`` is what it returned.
    """

    def __init__(self, name: str, seconds: float, work: Callable[[Attempt], int]) -> None:
        super().__init__(name=f"webhook {name}", daemon=True)
        self.accepted = 0
        self.end = time.monotonic() + seconds
        self._work = work
        self._lock = threading.Lock()
        self._handle: socket.socket | None = None
        self._is_cut = False

    def run(self) -> None:
        """Called by :meth:`start`."""
        try:
            self.accepted = self._work(self)
        finally:
            self._hold(None)

    def cut(self) -> None:
        """End the request now."""
        with self._lock:
            self._is_cut = True
            if self._handle is not None:
                with suppress(OSError):
                    # the receiver is informed, and what it still sends is dropped
                    self._handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self._handle.shutdown(socket.SHUT_RDWR)

    def post(
        self, url: str, body: bytes, headers: Mapping[str, str], context: ssl.SSLContext, allowed: Sequence[str] = ()
    ) -> int:
        """Send a body; the status of the answer."""
        address = urlsplit(url)
        connection = (_Tls if address.scheme == "https" else _Plain)(self, address, allowed, context)
        target = (address.path or "/") + (f"?{address.query}" if address.query else "")
        try:
            connection.request("POST", target, body, {**headers, "Connection": "close"})
            status = connection.getresponse().status
            self._check_time()  # the library takes headers that were cut off for whole ones
            return status
        except (OSError, http.client.HTTPException):
            self._check_time()  # what was cut off looks as if the receiver had hung up
            raise
        finally:
            connection.close()

    def connect(self, host: str, port: int, allowed: Sequence[str]) -> socket.socket:
        """A connection to the first address of a name that is allowed and answers; it can be cut off at any moment."""
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        usable = [row for row in addresses if is_allowed(str(row[4][0]), allowed)]
        if not usable:
            raise AddressRefused(f"{host} is in a private or reserved network, which 'allow' does not name")
        problem: OSError | None = None
        for family, kind, protocol, _, place in usable:
            self._check_time()
            connection = socket.socket(family, kind, protocol)
            try:
                self._hold(connection)
                connection.settimeout(max(0.01, self.end - time.monotonic()))
                connection.connect(place)  # the address that was checked, not the name
                return connection
            except OSError as error:
                connection.close()
                problem = error
        raise problem or OSError

    def _hold(self, connection: socket.socket | None) -> None:
        """Keep a handle to a connection: TLS takes the socket itself over."""
        with self._lock:
            if self._handle is not None:
                self._handle.close()
            self._handle = None if connection is None else connection.dup()
        if connection is not None:
            self._check_time()

    def _check_time(self) -> None:
        if self._is_cut:
            raise TimeoutError("the time for this request is over")


class _Plain(http.client.HTTPConnection):
    """A connection of an attempt."""

    def __init__(self, attempt: Attempt, address: SplitResult, allowed: Sequence[str], _: ssl.SSLContext) -> None:
        super().__init__(address.hostname or "", address.port)
        self._attempt, self._allowed = attempt, allowed

    def connect(self) -> None:
        self.sock = self._attempt.connect(self.host, self.port, self._allowed)


class _Tls(_Plain):
    """The same over TLS; the certificate is checked for the receiver's name."""

    default_port = http.client.HTTPS_PORT

    def __init__(self, attempt: Attempt, address: SplitResult, allowed: Sequence[str], context: ssl.SSLContext) -> None:
        super().__init__(attempt, address, allowed, context)
        self._context = context

    def connect(self) -> None:
        super().connect()
        self.sock = self._context.wrap_socket(self.sock, server_hostname=self.host)
