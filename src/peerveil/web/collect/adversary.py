"""What leaves a device, under audit: the service asks the same question three times, and sees all lines.

The device stores its draw before it sends it, so later lines repeat the first, and together they lose epsilon, not three
times as much. The broken device forgets.
"""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from peerveil.audit.check import Neighbors
from peerveil.audit.claims import Claim, register
from peerveil.core.guarantee import Guarantee
from peerveil.core.randomness import Randomness
from peerveil.truth.wire import Client, invitation
from peerveil.web.collect.client import Device


def asked_again(answer: str, count: int, _: Randomness, *, forgets: bool = False) -> list[tuple[Any, ...]]:
    """The lines for ``count`` questions, asked three times each; devices draw from the operating system, always."""
    terms = json.loads(invitation(epsilon=1, classes=["no", "yes"])) | {"answers": 3 * count, "epsilon": "1"}
    with TemporaryDirectory() as folder:
        device = Device(Path(folder) / "device.db", "service", "campaign", terms)

        def line(question: str) -> Any:
            # a new client each time, as after a restart: only the device remembers
            return json.loads(device.draw(question, lambda: Client(terms).randomize(0, answer))[0])["label"]

        return [
            tuple(line(f"question {number}, {time if forgets else 0}") for time in range(3)) for number in range(count)
        ]


@register
def claims() -> Iterator[Claim]:
    """A device that is asked again, as it is and with a memory that fails."""
    claim = partial(
        Claim,
        covers=("collect.Device",),
        pairs=(Neighbors("no and yes", "no", "yes"),),
        guarantee=Guarantee.local_attribute_dp(1),
        samples=500,
    )
    yield claim(name="collect: a question asked three times, epsilon 1", mechanism=asked_again)
    yield claim(
        name="collect: a device that forgets",
        mechanism=partial(asked_again, forgets=True),
        fault="the answer is randomized anew each time: 3 epsilon",
    )
