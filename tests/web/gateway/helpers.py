"""What the gateway's tests share."""

from __future__ import annotations

import json
import secrets
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.web.common import Journal, Vault
from peerveil.web.gateway import Gateway, GatewayWorker, Space
from peerveil.web.gateway.intake import Submit
from peerveil.web.gateway.posts import HELD, Post
from peerveil.web.gateway.watch import Stopwatch, Watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from peerveil.web.gateway.feed import Item

KEY = Vault.new_key("test")
SECOND = 1_000_000
START = 1_800_000_000 * SECOND
SETTINGS = {"epsilon": 1, "gap": "100s", "window": "10s", "grid": "1s"}


class FakeTime:
    """A database's clock and a stopwatch: both go on together, unless the clock is stepped."""

    def __init__(self) -> None:
        self.now = START
        self.watch = 0
        self.is_synchronized = True

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)
        self.watch += round(seconds * SECOND)

    def step(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)

    def watch_for(self, boot: str = "boot 1", **more: Any) -> Watch:
        stopwatch = Stopwatch()
        stopwatch.boot = boot
        stopwatch.read = lambda: self.watch  # type: ignore[method-assign]
        reference = lambda: self.now if self.is_synchronized else None  # noqa: E731
        return Watch(source=lambda _: self.now, stopwatch=stopwatch, reference=reference, **more)


def open_gateway(
    url: str, time: FakeTime, kind: type[Gateway] = Gateway, boot: str = "boot 1", **settings: Any
) -> Gateway:
    gateway = kind(url, Vault.read(KEY), create=True, watch=time.watch_for(boot))
    gateway.configure([Space.read("forum", SETTINGS | settings)], tick_ms=10)
    return gateway


def held(gateway: Gateway) -> dict[str, Post]:
    """What waits, by public id."""
    with gateway.leader.lock:
        return {name: post for name, post in gateway.leader.memory.held.items() if post.state == HELD}


def schedule(gateway: Gateway) -> dict[str, int]:
    """When what waits is due, by public id."""
    with gateway.leader.lock:
        return {name: post.due + gateway.leader.shift for name, post in held(gateway).items()}


def submit(
    gateway: Gateway,
    thread: str = "t",
    content: str = "text",
    *,
    actor: str = "kim",
    space: str = "forum",
    key: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Hand in one post, and read the answer."""
    answer: dict[str, Any] = json.loads(gateway.take(job(gateway, thread, content, actor, space, key, **more)))
    return answer


def job(
    gateway: Gateway,
    thread: str = "t",
    content: str = "text",
    actor: str = "kim",
    space: str = "forum",
    key: str | None = None,
    **more: Any,
) -> Submit:
    body = sha256(
        json.dumps([space, thread, content, more.get("reply_to"), more.get("batch", False)]).encode()
    ).hexdigest()
    return Submit(gateway.space(space), actor, key or secrets.token_hex(8), body, thread, content, **more)


def work(gateway: Gateway, batch: int = 2000) -> float:
    """Publisher what is due."""
    return GatewayWorker(gateway, Journal("test"), batch=batch).step()


def everything(gateway: Gateway, space: str = "forum", limit: int = 500) -> list[Item]:
    """The whole feed, page by page."""
    found: list[Item] = []
    cursor = None
    while True:
        items, cursor = gateway.read(space, cursor, limit)
        if not items:
            return found
        found += items


def rank_correlation(a: Sequence[Any], b: Sequence[Any]) -> float:
    """Spearman's, without ties."""
    first, second = (np.argsort(np.argsort(np.array(x))) for x in (a, b))
    return float(np.corrcoef(first, second)[0, 1])
