"""What one person has written this week: later posts wait longer, a budget ends, and the author can ask before posting.

A space's ``escalate`` makes delays grow with the number of posts of the same person since Monday, 0:00 UTC, in all spaces
together: :class:`peerveil.timing.sittings.Escalation`, where the proof is. Its ``weekly_budget`` bounds the sum of the epsilons
of one person's posts of a week.

**Why a refusal for the budget tells nothing more.** Whether a post is taken is a function of the number of posts of its
author since Monday. Neighbors in the proof have the same posts in the same order and week, so in both the same are refused.

**The advice** says whether a post now would be a follow-up. It is a function of the asker's own posts, is given to nobody
else, and writes nothing; whoever heeds it posts later, which is another input, to which the guarantee applies as to any.

Arrivals of the week stay in the sealed state as long as a space needs them. Counting begins when a space is set so.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from peerveil.core.errors import BadInput
from peerveil.core.exact import exact_positive
from peerveil.study.spelling import only
from peerveil.timing.base import DelayMechanism
from peerveil.timing.delays import FollowUp
from peerveil.web.common.database import DAY, SECOND
from peerveil.web.common.errors import TooMany
from peerveil.web.gateway.posts import Post

if TYPE_CHECKING:
    from peerveil.timing.sittings import Escalation
    from peerveil.web.gateway.space import Space

_WEEK: Final = 7 * DAY
_MONDAY: Final = 4 * DAY  # the first one after the beginning of time, a Thursday
_FIELDS: Final = ("every", "epsilon_factor", "gap_factor", "levels")


def week_start(moment: int) -> int:
    """When the week of a moment began (microseconds)."""
    return (moment - _MONDAY) // _WEEK * _WEEK + _MONDAY


def read_escalation(value: Any, where: str) -> dict[str, Any]:
    """The settings of an escalation, as they are written."""
    if not isinstance(value, dict):
        raise BadInput(where, got=value, want='{ every = 2, epsilon_factor = "1/2", gap_factor = 1, levels = 3 }')
    only(value, _FIELDS, where)
    return dict(value)


def escalation(mechanism: DelayMechanism, settings: Mapping[str, Any] | None) -> "Escalation":
    """How the delays of a mechanism grow; without settings they do not."""
    return _escalation(mechanism, json.dumps({"levels": 1} if settings is None else settings))


@lru_cache(maxsize=10_000)
def _escalation(mechanism: DelayMechanism, settings: str) -> "Escalation":
    from peerveil.timing.sittings import Escalation  # slow: commands on tokens do not need it

    if not isinstance(mechanism, FollowUp):
        raise BadInput("escalate", got=mechanism, want="mechanism = follow-up: only its levels can depend on counts")
    return Escalation(mechanism, **json.loads(settings))


def most_posts(space: "Space") -> int | None:
    """How many posts of a person and week a space's budget of epsilon allows."""
    if not space.weekly_budget:
        return None
    where, policy = f"{space.name}.weekly_budget", escalation(space.base, space.escalate)
    limit, count = (
        Fraction(exact_positive(space.weekly_budget, where)),
        1,
    )  # the first loses nothing: there is nothing before it
    while (limit := limit - policy.at(count).exact_epsilon) >= 0:
        count += 1
        if count > 10_000:
            raise BadInput(
                where, got=space.weekly_budget, want="a budget that fewer than 10,000 posts of a week use up"
            )
    return count


@dataclass(frozen=True, slots=True)
class Ask:
    """A question of an author: what would become of a post now?"""

    space: "Space"
    actor: str
    thread: str


class Weeks:
    """The posts of each person in the present week, in all spaces."""

    def __init__(self, spaces: Callable[[], Mapping[str, "Space"]]) -> None:
        self._spaces = spaces
        self._arrivals = defaultdict[bytes, dict[str, int]](dict)

    def add(self, post: Post) -> None:
        """A post has come; it may be said twice."""
        if counts_weeks(self._spaces()):
            self._arrivals[post.person][post.id] = post.arrived

    def count(self, person: bytes, now: int) -> int:
        """How many posts of a person there were since the week began."""
        start = week_start(now)
        return sum(arrived >= start for arrived in self._arrivals.get(person, {}).values())

    def check(self, person: bytes, space: "Space", now: int) -> None:
        """Refuse a post for which the budget of the week has nothing left, and say when there is one again."""
        if space.most_per_week is not None and self.count(person, now) >= space.most_per_week:
            wait = -(-(week_start(now) + _WEEK - now) // SECOND)
            raise TooMany(
                f"at most {space.most_per_week} posts a week from one author, for the budget of epsilon "
                f"{space.weekly_budget}; the next one is taken in {wait} s",
                wait,
            )

    def forget(self, now: int) -> None:
        """Forget what came before the week."""
        start = week_start(now)
        for person in [p for p, arrivals in self._arrivals.items() if max(arrivals.values()) < start]:
            del self._arrivals[person]


def counts_weeks(spaces: Mapping[str, "Space"]) -> bool:
    """Whether a space needs to know how much its authors have written this week."""
    return any(space.escalate is not None or space.weekly_budget for space in spaces.values())


def weeks_in_words(space: "Space") -> Iterator[str]:
    """What a space does as its authors write more, for its guarantee."""
    if space.escalate is not None:
        yield "Delays grow with the number of posts of one person since Monday, 0:00 UTC."
    if space.most_per_week is not None:
        yield f"The posts of one person and week lose at most {space.weekly_budget} together: {space.most_per_week} posts."


def advice(space: "Space", thread: str, earlier: int, follow_up_seconds: int) -> bytes:
    """The answer to an author who asks before posting."""
    left = None if space.most_per_week is None else max(0, space.most_per_week - earlier)
    answer = {
        "follow_up": follow_up_seconds > 0,
        "seconds": follow_up_seconds,
        "longest_delay": space.longest_delay(thread, earlier),
        "posts_this_week": earlier,
        "posts_left": left,
    }
    return json.dumps(answer).encode()
