"""A space: a conference or a forum with its own mechanism, gap, time grid, quiet hours and final deadline.

**What the space guarantees, and why nothing below the delay weakens it.** A post that arrives at a is due at T = a + hold +
D, where D is the mechanism's delay for its status. The mechanism's guarantee (:mod:`peerveil.timing`) is about the vector
of all T. Readers see a function of that vector and of what is public:

- *time grid*: T is rounded up to the grid. A function of T.
- *quiet hours*: a T inside them moves to their end. A function of T and of the public hours.
- *final deadline*: min(T, deadline). A function of T and of a public time, so epsilon is what it was, however late a post
  came; posts whose delay would have gone on appear at the deadline, together and in random order. Posts that arrive after
  the deadline are refused, so the guarantee is for neighbors in which both comments arrived before it.
- *replies* to a post that is still held: max(T, P + D'), P being when the parent appears and D' a delay of their own, drawn
  independently. A function of the vector, the public reply tree and independent noise (:mod:`.memory`).
- *edits and removals* of published posts are events of their author, which count and are delayed like posts
  (:mod:`peerveil.web.gateway.changes`).
- *order* of what appears together, and of the whole backlog after downtime: random, independent of everything.
- *downtime*: the set published at a moment is a function of the vector and of the moments at which the worker ran, which
  do not depend on arrivals.

The post-processing property then gives every reader at most the mechanism's epsilon. ∎

**Gaps per thread** only change the distribution of the one comment that moves between neighbors, which is delayed by its
own thread's mechanism: the guarantee holds with that thread's gap.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, time, timedelta
from functools import cached_property, lru_cache, partial
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from peerveil.core.errors import BadInput, one_of
from peerveil.core.exact import whole
from peerveil.core.guarantee import Guarantee
from peerveil.study.spelling import only
from peerveil.timing.base import DelayMechanism
from peerveil.timing.delays import named_mechanism
from peerveil.timing.durations import in_words, parse_duration
from peerveil.web.common.database import DAY, SECOND
from peerveil.web.common.values import read_flag, read_time
from peerveil.web.gateway.rates import parse_limit, read_limit
from peerveil.web.gateway.weeks import escalation, most_posts, read_escalation, weeks_in_words

_MECHANISMS: Final = ("follow-up", "zero-inflated", "uniform")  # their longest delay is finite, so it can be stated
_WEIGHT: Final = (
    0.5  # of zero-inflated delays: the mean delays of both kinds of posts count alike. (1 would be uniform)
)
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,39}")
_MINUTE: Final = 60.0
NOT_PRIVATE: Final = "Demonstration, not private: minutes are seconds."
_FINEST_GRID: Final = SECOND // 1000
_LONGEST_POST: Final = 200_000  # characters


@dataclass(frozen=True)
class Quiet:
    """Hours of the day in which nothing appears; they may run over midnight."""

    start: str
    end: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        if _clock_time(self.start) == _clock_time(self.end):
            raise BadInput("quiet", got=self.start, want="hours that begin and end at different times")
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise BadInput("quiet.zone", got=self.zone, want="a time zone such as UTC or Europe/Zurich") from None

    def end_after(self, moment: int) -> int | None:
        """When the quiet hours end that contain a moment (microseconds); ``None`` outside them."""
        zone = ZoneInfo(self.zone)
        local = datetime.fromtimestamp(moment / SECOND, zone)
        begin, end = _clock_time(self.start), _clock_time(self.end)
        for day in (local.date() - timedelta(days=1), local.date()):
            first = _micros(datetime.combine(day, begin, zone))
            last = _micros(datetime.combine(day if end > begin else day + timedelta(days=1), end, zone))
            if first <= moment < last:
                return last
        return None

    @property
    def longest(self) -> int:
        """Their length in microseconds, with an hour more for the change of clocks."""
        begin, end = (t.hour * 3600 + t.minute * 60 for t in (_clock_time(self.start), _clock_time(self.end)))
        return ((end - begin) % 86_400 + (0 if self.zone == "UTC" else 3600)) * SECOND


@dataclass(frozen=True)
class Webhook:
    """A receiver: its address, the variable that holds its secret, and the private networks that it may be in."""

    url: str
    secret_env: str
    allow: tuple[str, ...] = ()


@dataclass(frozen=True)
class Space:
    """The settings of one space. Durations in seconds.

    >>> space = Space.read("iclr", {"epsilon": 1, "gap": "45m", "window": "5m"})
    >>> space.longest_delay("paper 7") // 60
    72
    >>> space.due_at(arrival=0, delay=61 * SECOND) // SECOND  # on the grid of one minute
    120
    """

    name: str
    gap: float
    gaps: dict[str, float]
    mechanism: str = "follow-up"
    epsilon: str = "1"
    window: float = 300.0
    grid: float = 60.0
    quiet: Quiet | None = None
    deadline: int | None = None
    declared: bool = False
    public: bool = False
    longest: int = 20_000
    escalate: dict[str, Any] | None = None
    weekly_budget: str = ""  # of epsilon; for both see peerveil.web.gateway.weeks
    limit: str = ""
    """How much one author may hand in, such as ``20/1h``; nothing for no limit."""
    webhooks: tuple[Webhook, ...] = ()
    demo: bool = False
    """Whether minutes are seconds, to show how it works; nobody is protected."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            want = "a name of small letters, digits and hyphens, such as iclr-2027"
            raise BadInput("space", got=self.name, want=want)
        one_of(self.mechanism, f"{self.name}.mechanism", _MECHANISMS)
        if self.declared and self.base.follow_ups_only:
            want = "false: with follow-up delays nothing is held, and a declaration would weaken the guarantee"
            raise BadInput(f"{self.name}.declared", got=True, want=want)
        if not _FINEST_GRID <= self.grid_micros <= DAY:
            raise BadInput(f"{self.name}.grid", got=self.grid, want="a grid from a millisecond to a day")
        for gap in {self.gap, *self.gaps.values()}:
            self._mechanism(gap)  # refuses what cannot be
        _ = self.most_per_week
        read_limit(self.limit, f"{self.name}.limit")

    # ---- reading ------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, name: str, table: Mapping[str, Any], folder: str = ".", *, demo: bool = False) -> Self:
        """A space from its table in the configuration file; for a demonstration, minutes become seconds."""
        where = f"spaces.{name}"
        only(table, (*_READERS, "gap", "gaps", "history", "percentile", "per"), where)
        values = {key: read(table[key], f"{where}.{key}") for key, read in _READERS.items() if key in table}
        if "history" in table:
            gap, gaps = _learn_gaps(table, values.get("window", cls.window), where, folder)
        elif "gap" in table:
            gap = read_seconds(table["gap"], f"{where}.gap")
            gaps = {str(k): read_seconds(v, f"{where}.gaps.{k}") for k, v in table.get("gaps", {}).items()}
        else:
            raise BadInput(f"{where}.gap", got=None, want="a gap such as 45m, or a history to learn it from")
        if demo:
            gap, gaps = gap / _MINUTE, {thread: length / _MINUTE for thread, length in gaps.items()}
            values |= {key: values.get(key, getattr(cls, key)) / _MINUTE for key in ("window", "grid")}
            values |= {"demo": True, "public": True}
        space = cls(name, gap, gaps, **values)
        if space.mechanism == "zero-inflated" and space.base.unbatched.atom == 0:
            # the best share of posts that wait is all of them: one that is called otherwise would promise what it is not
            want = (
                f"uniform, which it would be at epsilon {space.epsilon}; posts without delay pay above epsilon 2.2 only"
            )
            raise BadInput(f"{where}.mechanism", got=space.mechanism, want=want)
        return space

    def to_json(self) -> str:
        """The settings as the database keeps them."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The settings from the database."""
        values = json.loads(text)
        quiet, listed = values["quiet"], values["webhooks"]  # earlier versions wrote a list of address and variable
        named = [hook if isinstance(hook, dict) else {"url": hook[0], "secret_env": hook[1]} for hook in listed]
        hooks = tuple(Webhook(**hook | {"allow": tuple(hook.get("allow", ()))}) for hook in named)
        built = {"quiet": None if quiet is None else Quiet(**quiet), "webhooks": hooks}
        return cls(**values | built)

    # ---- delays -------------------------------------------------------------------------------------------------

    @property
    def base(self) -> DelayMechanism:
        """The mechanism with the space's own gap."""
        return self._mechanism(self.gap)

    def mechanism_for(self, thread: str, earlier: int = 0) -> DelayMechanism:
        """The mechanism for a post on a thread, of somebody with so many earlier ones this week."""
        return self._mechanism(self.gaps.get(thread, self.gap), earlier)

    def _mechanism(self, gap: float, earlier: int = 0) -> DelayMechanism:
        mechanism = _mechanism(self.mechanism, self.epsilon, gap, self.window)
        return mechanism if self.escalate is None else escalation(mechanism, self.escalate).at(earlier)

    @cached_property
    def most_per_week(self) -> int | None:
        """How many posts of a person and week the budget allows."""
        return most_posts(self)

    @property
    def hold(self) -> int:
        """Microseconds that every post is held until its status is known."""
        return 0 if self.declared else round(self.base.hold * SECOND)

    @cached_property
    def looks_back(self) -> bool:
        """Whether a post may become part of a sitting by what comes after it."""
        return not self.declared and not self.base.follow_ups_only

    @cached_property
    def window_micros(self) -> int:
        """Microseconds within which posts of one person are of one sitting."""
        return round(self.window * SECOND)

    @property
    def grid_micros(self) -> int:
        """Microseconds between two moments at which posts appear."""
        return round(self.grid * SECOND)

    @property
    def most(self) -> int:
        """How many posts of one author are taken within :attr:`limit_micros`."""
        return parse_limit(self.limit)[0]

    @property
    def limit_micros(self) -> int:
        """Microseconds for which the limit counts."""
        return parse_limit(self.limit)[1]

    def longest_delay(self, thread: str, earlier: int = 0) -> int:
        """Whole seconds within which a post on a thread appears, whatever was drawn: all that its author learns."""
        added = self.hold + self.grid_micros + (0 if self.quiet is None else self.quiet.longest + self.grid_micros)
        return -(-(added + math.ceil(self.mechanism_for(thread, earlier).max_delay * SECOND)) // SECOND)

    def due_at(self, arrival: int, delay: int) -> int:
        """When a post is due, in microseconds: a function of arrival + delay and of public settings."""
        moment = self._up(arrival + self.hold + delay)
        if self.quiet is not None:
            end = self.quiet.end_after(moment)
            moment = moment if end is None else self._up(end)
        return moment if self.deadline is None else min(moment, self._up(self.deadline))

    def grid_time(self, now: int) -> int:
        """The last moment of the grid; what is due by then may appear."""
        return now // self.grid_micros * self.grid_micros

    def is_quiet(self, now: int) -> bool:
        """Whether nothing may appear now. The deadline is stronger than quiet hours."""
        return self.quiet is not None and not self.is_closed(now) and self.quiet.end_after(now) is not None

    def is_closed(self, now: int) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and now >= self.deadline

    def _up(self, moment: int) -> int:
        return -(-moment // self.grid_micros) * self.grid_micros

    # ---- guarantee ----------------------------------------------------------------------------------------------

    @property
    def guarantee(self) -> Guarantee:
        """What readers of the space can learn at most."""
        return self.base.guarantee if self.escalate is None else escalation(self.base, self.escalate).guarantee

    def in_words(self) -> str:
        """The guarantee, and what the space adds to it, for its operator and its authors."""
        words = [*([NOT_PRIVATE] if self.demo else []), str(self.guarantee)]
        words.append("A person has one history for all spaces of this gateway.")
        if self.gaps:
            words.append(f"On {len(self.gaps)} threads the gap is the thread's own.")
        if self.declared:
            words.append("Sittings are declared: the guarantee rests on people's answers.")
        words += weeks_in_words(self)
        if self.deadline is not None:
            when = datetime.fromtimestamp(self.deadline / SECOND, UTC).isoformat(timespec="minutes")
            words.append(
                f"At {when} everything still held appears at once, in random order: the same guarantee, for comments that "
                "arrived before."
            )
        return " ".join(words)

    def __str__(self) -> str:
        marked = f"{self.name} ({NOT_PRIVATE[:-1]})" if self.demo else self.name
        return f"{marked}: {self.base}, on a grid of {in_words(self.grid)}"


@lru_cache(maxsize=10_000)
def _mechanism(name: str, epsilon: str, gap: float, window: float) -> DelayMechanism:
    weight = _WEIGHT if name == "zero-inflated" else 1.0
    return named_mechanism(name, epsilon=epsilon, gap=gap, window=window, weight=weight)


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * SECOND)


def _clock_time(text: str) -> time:
    try:
        return time.fromisoformat(text).replace(second=0, microsecond=0, tzinfo=None)
    except ValueError:
        raise BadInput("quiet", got=text, want="a time of day such as 22:00") from None


def read_seconds(value: Any, where: str) -> float:
    """Seconds from a duration of the configuration."""
    if not isinstance(value, str):
        want = 'a duration with its unit in quotation marks: "90s", "5m", "1.5h" or "2d"'
        raise BadInput(where, got=value, want=want)
    if value.endswith("ms"):
        return parse_duration(value[:-2] + "s", where) / 1000
    return parse_duration(value, where)


def _read_quiet(value: Any, where: str) -> Quiet:
    if not isinstance(value, dict) or not {"start", "end"} <= set(value) <= {"start", "end", "zone"}:
        raise BadInput(where, got=value, want='{ start = "22:00", end = "07:00", zone = "UTC" }')
    return Quiet(**{key: str(part) for key, part in value.items()})


def _read_webhooks(value: Any, where: str) -> tuple[Webhook, ...]:
    return tuple(_read_webhook(hook, where) for hook in (value if isinstance(value, list) else [value]))


def _read_webhook(hook: Any, where: str) -> Webhook:
    if not isinstance(hook, dict) or not {"url", "secret_env"} <= set(hook) <= {"url", "secret_env", "allow"}:
        raise BadInput(where, got=hook, want='[{ url = "https://...", secret_env = "NAME_OF_A_VARIABLE" }]')
    url, allow = str(hook["url"]), hook.get("allow", [])
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not parts.username
    except ValueError:
        usable = False
    if not usable or not url.isprintable() or " " in url:
        want = "an address that begins with https://, without a name and password"
        raise BadInput(f"{where}.url", got=url, want=want)
    for network in allow if isinstance(allow, list) else [None]:
        try:
            ip_network(str(network))
        except ValueError:
            raise BadInput(f"{where}.allow", got=allow, want='networks, such as ["10.1.2.0/24"]') from None
    return Webhook(url, str(hook["secret_env"]), tuple(str(network) for network in allow))


_READERS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "mechanism": lambda value, _: str(value),
    "epsilon": lambda value, _: str(value),
    "window": read_seconds,
    "grid": read_seconds,
    "quiet": _read_quiet,
    "deadline": lambda value, where: _micros(read_time(value, where)),
    "declared": read_flag,
    "public": read_flag,
    "longest": partial(whole, low=1, high=_LONGEST_POST),
    "escalate": read_escalation,
    "weekly_budget": lambda value, _: str(value),
    "limit": read_limit,
    "webhooks": _read_webhooks,
}
"""Of each key of a space's table, how it is read; defaults are those of :class:`Space`."""


def _learn_gaps(table: Mapping[str, Any], window: float, where: str, folder: str) -> tuple[float, dict[str, float]]:
    """The space's gap and the threads' gaps from ``history`` (a file), ``percentile`` and ``per`` (a column).

    History is public by assumption: give an earlier log, never the one that the gateway is to protect. Threads that it
    does not know get the space's gap. With ``per = "track"`` a thread has the gap of its track.
    """
    import polars as pl

    from peerveil.data import Events
    from peerveil.timing import choose_gap, choose_gaps

    percentile, per = table.get("percentile", 25), str(table.get("per", "none"))
    history = Events.read(Path(folder) / str(table["history"]))
    default = choose_gap(history, percentile=percentile, window=window)
    if per == "none":
        return default, {}
    if per != "thread" and per not in history.extra:
        raise BadInput(f"{where}.per", got=per, want="none, thread, or another column of the history")
    learned = choose_gaps(history, percentile=percentile, per=per, window=window, default=default)
    gaps: dict[str, float] = {}
    for thread, group in history.frame.select("thread", pl.col(per).alias("group")).unique().iter_rows():
        # a thread that stood in several tracks takes the longest gap: longer covers more
        gaps[str(thread)] = max(learned[group], gaps.get(str(thread), 0.0))
    return default, gaps
