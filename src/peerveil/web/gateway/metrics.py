"""What monitoring systems read, in the text format of Prometheus. Nothing depends on what arrived and is still held.

Why each metric is a function of what readers have seen, of the receivers of webhooks, and of the machine:

- ``released``, ``late``, ``lateness_seconds``: counted when a post is published, from the moment at which it was due and
  the moment at which the worker ran. Both are known to readers up to the time grid; posts that are held do not count.
- ``webhook_waiting``, ``webhook_failures``, ``webhook_dead_letters``: positions of the public feed, less how far a
  receiver has come by its own answers.
- ``heartbeat_seconds``, ``part_up``: written every few seconds by a thread that takes no part in intake; whole seconds.
- ``clock_halted``, ``clock_step_seconds``: comparisons of clocks.

There is no count of requests, of accepted or held posts, of memory or of busy time: each would tell readers of the metrics
when somebody wrote.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, select

from peerveil.web.common.database import SECOND
from peerveil.web.gateway.health import read_heartbeats
from peerveil.web.gateway.tables import clock
from peerveil.web.gateway.tally import EDGES_SECONDS
from peerveil.web.gateway.webhooks import read_webhooks

if TYPE_CHECKING:
    from prometheus_client import Metric

_PREFIX = "peerveil_gateway"


def metrics(connection: Connection, tallies: Mapping[str, Mapping[str, int]], names: Sequence[str], now: int) -> str:
    """The metrics of some spaces, with the counts of what they published, at a time of the database's clock."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Reading(list(_families(connection, tallies, names, now))))
    return generate_latest(registry).decode()


class _Reading:
    """Families that were read already, as a collector."""

    def __init__(self, families: Sequence["Metric"]) -> None:
        self._families = families

    def collect(self) -> Iterator["Metric"]:
        """Called by the library."""
        yield from self._families


def _families(
    connection: Connection, tallies: Mapping[str, Mapping[str, int]], names: Sequence[str], now: int
) -> Iterator["Metric"]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    def gauge(name: str, words: str, label: str, values: dict[str, Any]) -> "Metric":
        family = GaugeMetricFamily(f"{_PREFIX}_{name}", words, labels=[label] if label else None)
        for key, value in values.items():
            family.add_metric([key] if label else [], float(value))
        return family

    counts = {name: Counter(tallies[name]) for name in names}
    for counter, words in (
        ("released", "Posts published."),
        ("late", "Posts published more than a second after they were due."),
    ):
        family = CounterMetricFamily(f"{_PREFIX}_{counter}", words, labels=["space"])
        for name, count in counts.items():
            family.add_metric([name], count[counter])
        yield family
    lateness = HistogramMetricFamily(
        f"{_PREFIX}_lateness_seconds", "Seconds between due and published.", labels=["space"]
    )
    for name, count in counts.items():
        buckets, running = [], 0
        for number, edge in enumerate((*EDGES_SECONDS, None)):
            running += count[f"lateness_{number}"]
            buckets.append(("+Inf" if edge is None else f"{edge:g}", running))
        lateness.add_metric([name], buckets, sum_value=count["lateness_sum"] / SECOND)
    yield lateness

    hooks = [state for state in read_webhooks(connection, now) if state.space in names]
    waiting = {state.name: state.waiting for state in hooks}
    yield gauge("webhook_waiting", "Published items that the receiver has not accepted yet.", "webhook", waiting)
    failures = {state.name: state.attempts for state in hooks}
    yield gauge("webhook_failures", "Attempts in a row that the receiver did not accept.", "webhook", failures)
    dead = {state.name: state.dead for state in hooks}
    yield gauge("webhook_dead_letters", "Items that were set aside after days of failures.", "webhook", dead)

    beats = read_heartbeats(connection, now)
    ages = {part: ago // SECOND for part, (_, ago) in beats.items()}
    yield gauge("heartbeat_seconds", "Seconds since a background part last said that it runs.", "part", ages)
    running_parts = {part: state == "running" for part, (state, _) in beats.items()}
    yield gauge("part_up", "Whether a background part runs in some process.", "part", running_parts)
    row = connection.execute(select(clock)).one()
    halted = {"": row.state != "running"}
    yield gauge("clock_halted", "Whether nothing is taken or published because the clock is in doubt.", "", halted)
    step = {"": row.step / SECOND}
    yield gauge("clock_step_seconds", "How far the clock moved when it came into doubt; 0 if it runs.", "", step)
