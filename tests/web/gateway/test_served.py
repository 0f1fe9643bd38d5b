"""Delays as a reader sees them: the mechanism's distribution, and no more loss than was promised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.web.gateway.helpers import SECOND, FakeTime, job, work

from peerveil.audit import lower_bound
from peerveil.timing.check import shortened
from peerveil.web.gateway import Gateway, Space

if TYPE_CHECKING:
    from numpy.typing import NDArray

PEOPLE = 10_000  # on each side: 20,000 posts whose delay is looked at
GAP, EPSILON = 100, 1


def serve(gateway: Gateway, time: FakeTime, sitting: bool, count: int) -> tuple[NDArray[np.float64], int]:
    """When each person's second comment appears, in seconds after the first; in one sitting, or a gap apart."""
    space, start = gateway.space("forum"), time.now
    names = [f"{'s' if sitting else 'h'}{k}" for k in range(count)]
    for thread in ("a", "b"):
        for first in range(0, count, 500):
            some = names[first : first + 500]
            gateway.take_all([job(gateway, thread, f"{thread} {name}", name) for name in some])
        if thread == "a" and not sitting:
            for _ in range(GAP):
                time.advance(1)
                work(gateway)
    for _ in range(space.longest_delay("b") + 1):
        time.advance(1)
        work(gateway)
    seen: dict[str, float] = {}
    cursor = None
    while True:
        items, cursor = gateway.read("forum", cursor, 500)
        if not items:
            break
        for item in items:
            moment = np.datetime64(item.posted_at.removesuffix("Z")).astype("datetime64[us]").astype(np.int64)
            seen[item.content] = (int(moment) - start) / SECOND
    return np.array([seen[f"b {name}"] for name in names]), start


def distance(delays: NDArray[np.float64], law: Any) -> float:
    """The largest distance between the distributions at the moments of the grid, where rounding up changes nothing."""
    points = np.arange(0, 400)
    return float(np.max(np.abs(np.mean(delays[:, None] <= points, axis=0) - law.below(points))))


@pytest.mark.slow
@pytest.mark.parametrize("fault", [False, True], ids=["as it is", "ten percent short"])
def test_served_delays_keep_the_promise(
    sqlite_url: str, make: Any, time: FakeTime, fault: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Space.read("forum", {"epsilon": EPSILON, "gap": f"{GAP}s", "window": "10s", "grid": "1s"}).base
    if fault:
        broken = shortened(honest)
        monkeypatch.setattr(Space, "mechanism_for", lambda *_: broken)
    gateway = make(sqlite_url, gap=f"{GAP}s", window="10s", grid="1s", epsilon=EPSILON)
    together, _ = serve(gateway, time, True, PEOPLE)
    apart, _ = serve(gateway, time, False, PEOPLE)
    worst = max(distance(together, honest.batched), distance(apart - GAP, honest.unbatched))
    # Dvoretzky-Kiefer-Wolfowitz: beyond this less than once in a million runs
    limit = float(np.sqrt(np.log(2 / 1e-6) / 2 / PEOPLE))
    assert bool(worst > limit) is fault
    found = lower_bound(together, apart, confidence=0.999999, one_sided=True)
    assert bool(found.epsilon > EPSILON) is fault
    assert found.epsilon > 0.8 * EPSILON  # the audit sees something
