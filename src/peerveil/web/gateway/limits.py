"""How much one person may hand in: a setting of a space, such as ``limit = "20/1h"``.

Posts and changes of published posts count when they are taken; repetitions and refusals do not. Arrivals are kept in the
memory of the process that leads. After a restart it knows those that stand in sealed entries still: all since the last
compaction, and those that a sitting needs.

**What the answer tells.** Whether and when the next post is taken is a function of this person's own arrivals in this space,
and is said to the bearer of this person's token, or to the platform that acts for the person: to nobody else. (An operator who
issues a token for somebody can act for that person, and see it too.) Nothing is written, so no copy of the database shows
a refusal. The guarantee is about the posts that were taken: a refused one has not come, and comes when its author sends it again.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping

from peerveil.web.common.database import SECOND
from peerveil.web.common.errors import TooMany
from peerveil.web.gateway.posts import Post
from peerveil.web.gateway.space import Space


class Limits:
    """The arrivals of each person in each space that has a limit."""

    def __init__(self, spaces: Callable[[], Mapping[str, Space]]) -> None:
        self._spaces = spaces
        self._arrivals = defaultdict[tuple[str, bytes], list[int]](list)

    def add(self, post: Post) -> None:
        """A post has been taken."""
        space = self._spaces().get(post.space)
        if space is not None and space.limit:
            self._arrivals[post.space, post.person].append(post.arrived)

    def discard(self, post: Post) -> None:
        """Take a post out again that has come last."""
        arrivals = self._arrivals.get((post.space, post.person))
        if arrivals:
            arrivals.pop()

    def check(self, person: bytes, space: Space, now: int) -> None:
        """Refuse one more post of a person, and say when it will be taken."""
        if not space.limit:
            return
        most, window = space.most, space.limit_micros
        recent = sorted(at for at in self._arrivals.get((space.name, person), ()) if now - at < window)
        if len(recent) >= most:
            wait = -(-(recent[-most] + window - now) // SECOND)
            raise TooMany(f"at most {space.limit} from one author; the next one is taken in {wait} s", wait)

    def forget(self, now: int) -> None:
        """Forget arrivals that no limit needs any more."""
        for (name, person), arrivals in list(self._arrivals.items()):
            space = self._spaces().get(name)
            window = 0 if space is None or not space.limit else space.limit_micros
            recent = [at for at in arrivals if now - at < window]
            if recent:
                self._arrivals[name, person] = recent
            else:
                del self._arrivals[name, person]
