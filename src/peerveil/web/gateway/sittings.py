"""Who wrote when within the last window: in memory, one history per person for all spaces of the gateway.

The next status of a person needs these arrivals, and nobody else does. On disk they stand in sealed entries alone, and
only for as long as the longest window: the next compaction drops them.

**Why one history.** Whether two comments of one person were written together is what the guarantee is about, wherever the
two were written. Were each space to know its own posts only, a second post of a sitting that spans two spaces would get the
short delay, and two posts within a minute of each other would be seen. The status of a post is decided by its own space's
window and delayed by its own space's mechanism, so between neighbors the same one comment differs as within one space, and
the guarantee of :mod:`peerveil.timing.base` holds with the parameters of the later comment's space.
"""

from collections import defaultdict
from collections.abc import Iterator

from peerveil.web.gateway.posts import Post


class Sittings:
    """The arrivals of each person, oldest first."""

    def __init__(self) -> None:
        self._posts_of = defaultdict[bytes, list[Post]](list)

    def add(self, post: Post) -> None:
        """A post has come."""
        self._posts_of[post.person].append(post)

    def discard(self, post: Post) -> None:
        """Take a post out again that has come last."""
        self._posts_of[post.person].remove(post)

    def near(self, person: bytes, now: int, window: int) -> Iterator[Post]:
        """The posts of a person that came at most a window ago."""
        for post in reversed(self._posts_of.get(person, ())):
            if now - post.arrived > window:
                return
            yield post

    def forget(self, now: int, window: int) -> None:
        """Forget what no status needs any more: what came more than the longest window ago."""
        for person in list(self._posts_of):
            recent = [post for post in self._posts_of[person] if now - post.arrived <= window]
            if recent:
                self._posts_of[person] = recent
            else:
                del self._posts_of[person]

    def __len__(self) -> int:
        return sum(len(posts) for posts in self._posts_of.values())
