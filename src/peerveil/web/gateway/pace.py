"""Answers leave on a grid of time, and work is done between its moments, so that no answer tells of others' requests.

**Adversary.** Sends any requests, also without a token or malformed, on any connections, and measures when they are answered.
Wants to know whether somebody else handed in a post just then: the process is busy for a moment with each.

**Rule.** Time is cut into slots of :data:`SLOT_SECONDS`. Around its beginning each has a *quiet* part, in which no request is
begun, and the process idles. A request that arrives in slot k is begun in the working part of a slot, and answered at the
beginning of slot k + 2 or, if it takes longer, of a later one. Answers about posts (a success of POST, PATCH or DELETE) leave in
working parts, behind all others.

**Why.** In which slot a request came is decided at the beginning of a slot, when the process is idle: a post that is being
worked on delays how soon a request is *read* within its slot, and this is not seen. When its answer leaves is decided at
the beginning of a slot too. So as long as the work of a slot ends in it, the answer is at a time that is a function
of when the request was sent, up to the milliseconds with which the operating system wakes a process. The share of a slot
that requests may use is bounded; whatever more comes waits for the next slots. ``tests/web/gateway/test_sensing.py``
measures what remains; so far no attack of ours found much even without this module, so it is a precaution, not a proven
protection.

**Outside**: whoever sends so much that slots are full learns that others send much, too; and the first bytes of requests are
read when they come, which takes the process a tenth of a millisecond each. A reverse proxy in front hides how
fast the process reads a body that is sent to it.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, Final

from peerveil.web.common.serving import serve

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from peerveil.web.common import Journal

SLOT_SECONDS: Final = 0.05
_WORK_BEGINS: Final = 0.1  # of a slot
_WORK_ENDS: Final = 0.85
_WRITES: Final = frozenset({"POST", "PATCH", "DELETE"})


class Pace:
    """The slots of an event loop's time."""

    def __init__(self, seconds: float = SLOT_SECONDS) -> None:
        self.seconds = seconds

    def slot(self) -> int:
        """The slot now."""
        return math.floor(asyncio.get_running_loop().time() / self.seconds)

    async def until(self, slot: int) -> None:
        """Wait for the beginning of a slot; if it is past, for that of the next one."""
        loop = asyncio.get_running_loop()
        moment = max(slot, self.slot() + 1) * self.seconds
        while (left := moment - loop.time()) > 0:
            await asyncio.sleep(left)

    async def until_work(self) -> None:
        """Wait for a working part with time left."""
        loop = asyncio.get_running_loop()
        while not _WORK_BEGINS <= (phase := loop.time() / self.seconds % 1) < _WORK_ENDS:
            await asyncio.sleep(((_WORK_BEGINS - phase) % 1) * self.seconds)


class Paced:
    """An application whose answers are paced."""

    def __init__(self, app: ASGIApp, pace: Pace) -> None:
        self._app, self._pace = app, pace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stand between the server and the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        came, pace = self._pace.slot(), self._pace
        expects = any(name == b"expect" for name, _ in scope["headers"])  # "100 Continue" would be sent at once

        async def receiving() -> Message:
            nonlocal expects
            if expects:
                expects = False
                await pace.until(came + 1)
            return await receive()

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                if scope["method"] in _WRITES and message["status"] < 400:
                    await pace.until_work()
                else:
                    await pace.until(came + 2)
            await send(message)

        await pace.until_work()
        await self._app(scope, receiving, sending)


def serve_paced(app: ASGIApp, host: str, port: int, journal: Journal, **options: Any) -> None:
    """Serve an application like :func:`peerveil.web.common.serving.serve`, with paced answers."""
    pace = Pace()
    serve(Paced(app, pace), host, port, journal, protocol=paced_protocol(pace), **options)


def paced_protocol(pace: Pace) -> type[asyncio.Protocol]:
    """The server's HTTP protocol; it answers malformed requests by itself, and does so on the grid too."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    parent: Any = AutoHTTPProtocol

    class PacedProtocol(parent):  # type: ignore[misc]
        """Of one connection."""

        def send_400_response(self, msg: str) -> None:
            """Refuse what is no HTTP, two slots later."""
            self.loop.call_at((pace.slot() + 2) * pace.seconds, self._refuse, msg)

        def _refuse(self, msg: str) -> None:
            if not self.transport.is_closing():
                super().send_400_response(msg)

    return PacedProtocol
