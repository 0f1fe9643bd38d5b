"""What the gateway publishes, under audit: the times at which posts appear in the feed of a running gateway.

Every person posts twice on different threads, in one sitting or a gap apart, and the reader sees when the second post appears.
Posts go the whole way: intake, database, publisher, feed. Only the clock is moved by hand.
"""

import secrets
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from hashlib import sha256
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
from numpy.typing import NDArray

from peerveil.audit.check import Neighbors
from peerveil.audit.claims import Claim, register
from peerveil.core.randomness import Randomness
from peerveil.timing.base import DelayMechanism
from peerveil.timing.check import shortened
from peerveil.web.common import Journal, Vault
from peerveil.web.common.database import SECOND
from peerveil.web.gateway.core import Gateway
from peerveil.web.gateway.intake import Submit
from peerveil.web.gateway.publish import GatewayWorker
from peerveil.web.gateway.space import Space
from peerveil.web.gateway.watch import Stopwatch, Watch

_GAP_SECONDS: Final = 100
_START: Final = 1_800_000_000 * SECOND
_SPACE: Final = {"epsilon": 1, "gap": f"{_GAP_SECONDS}s", "window": "10s", "grid": "1s"}


class _Clock(Stopwatch):
    """The database's time and the stopwatch, moved together by hand."""

    now = 0

    def read(self) -> int:
        return self.now

    def watch(self) -> Watch:
        """A watch that reads this clock."""
        return Watch(source=lambda _: _START + self.now, stopwatch=self)


class _ShortSpace(Space):
    """A space whose delays are cut by half."""

    def mechanism_for(self, thread: str, earlier: int = 0) -> DelayMechanism:
        """The mechanism, broken."""
        return shortened(super().mechanism_for(thread, earlier), 0.5)


def second_posts(apart: bool, count: int, _: Randomness, *, kind: type[Space] = Space) -> NDArray[np.float64]:
    """When each person's second post appears, in seconds after the first. Gateways draw securely, always."""
    clock, vault = _Clock(), Vault.read(Vault.new_key("audit"))
    with (
        TemporaryDirectory() as folder,
        Gateway(f"{folder}/gateway.db", vault, create=True, watch=clock.watch()) as gateway,
    ):
        space = kind.read("forum", _SPACE)
        gateway.configure([space])
        worker = GatewayWorker(gateway, Journal("audit"), batch=5_000)

        def wait(seconds: int) -> None:
            for _ in range(seconds):
                clock.now += SECOND
                worker.step()

        def post(thread: str, person: int) -> Submit:
            text = f"{thread} {person}"
            digest = sha256(text.encode()).hexdigest()
            return Submit(space, f"person {person}", secrets.token_hex(8), digest, thread, text)

        for thread in ("a", "b"):
            gateway.take_all([post(thread, person) for person in range(count)])
            if thread == "a" and apart:
                wait(_GAP_SECONDS)
        wait(space.longest_delay("b") + 1)
        items = gateway.read("forum", limit=2 * count)[0]
        appeared = {item.content: datetime.fromisoformat(item.posted_at).timestamp() for item in items}
    return np.array([appeared[f"b {person}"] for person in range(count)]) - _START / SECOND


@register
def claims() -> Iterator[Claim]:
    """A running gateway, as it is and with delays that are too short."""
    claim = partial(
        Claim,
        covers=("gateway.Gateway",),
        pairs=(Neighbors("one sitting, or a gap apart", False, True),),
        guarantee=Space.read("forum", _SPACE).guarantee,
        samples=2_000,
    )
    yield claim(name="gateway: posts in the feed, epsilon 1", mechanism=second_posts)
    yield claim(
        name="gateway: delays cut by half",
        mechanism=partial(second_posts, kind=_ShortSpace),
        fault="every delay is cut by half",
    )
