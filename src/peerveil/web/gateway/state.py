"""Reading memory back from disk.

**A state and the frames behind it are memory.** :func:`load` applies the entries of the state, then those of the frames in
order, and then strikes what the feed holds. An entry without its last byte is dropped: nobody was answered for it.

**Exactly once.** A post is published when its entry is on the disk, in a transaction that inserts its id into the feed, where
ids are unique. After a crash it is held if the feed does not have the id, and posted if it does: there is no third state. Its
key is in the same entry, so a repeated request finds it, or is new. No delay is ever drawn again: it stands in the entry.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, select

from peerveil.web.common import Digests
from peerveil.web.gateway.blocks import DamagedBlock, Unpacker
from peerveil.web.gateway.frames import Sealer, read_chunks, read_frames
from peerveil.web.gateway.memory import Memory, appears_at
from peerveil.web.gateway.posts import HEADER, Change, Post, other_entry, read_entry
from peerveil.web.gateway.space import Space
from peerveil.web.gateway.tables import clock, feed, spaces, version
from peerveil.web.gateway.tally import Tally


@dataclass
class Header:
    """What a state says of itself."""

    first: int = 1
    """The first frame that it does not cover."""
    tail: bytes = b""
    """The beginning of an entry that goes on in that frame."""
    feed: dict[str, int] = field(default_factory=dict)
    """For each space the position up to which the feed was looked at."""

    def entry(self) -> bytes:
        """The header as the first entry of a state."""
        return other_entry(HEADER, {"first": self.first, "tail": self.tail.hex(), "feed": self.feed})


def read_state(connection: Connection, sealer: Sealer, generation: int) -> tuple[Header, Iterator[Change]]:
    """The header of a state, and its other entries. Generation 0 is empty."""
    unpacker = Unpacker()
    chunks = read_chunks(connection, sealer, generation)
    changes = (read_entry(raw) for chunk in chunks for raw in unpacker.entries(chunk))
    if not generation:
        return Header(), changes
    first = next(changes, None)
    if first is None or first.values is None:
        raise DamagedBlock(f"the state of generation {generation} has no beginning: restore a backup")
    return Header(first.values["first"], bytes.fromhex(first.values["tail"]), first.values["feed"]), changes


def read_journal(connection: Connection, sealer: Sealer, header: Header) -> Iterator[Change]:
    """The entries behind a state. The header then covers what was read."""
    unpacker = Unpacker(header.tail)
    for seq, block in read_frames(connection, sealer, header.first):
        if seq != header.first:
            raise DamagedBlock(f"frame {header.first} of the journal is missing: restore a backup")
        yield from (read_entry(raw) for raw in unpacker.entries(block))
        header.first, header.tail = seq + 1, unpacker.tail


def read_posted(connection: Connection, header: Header) -> Iterator[tuple[str, int]]:
    """What was published since a state was written: public ids and moments, in order."""
    for name in connection.execute(select(spaces.c.name)).scalars().all():
        behind = (feed.c.space == name, feed.c.position > header.feed.get(name, 0))
        query = select(feed.c.id, feed.c.posted_at).where(*behind).order_by(feed.c.position)
        yield from ((row.id, int(row.posted_at)) for row in connection.execute(query))


def load(
    connection: Connection, sealer: Sealer, digests: Digests, every: Callable[[], Mapping[str, Space]]
) -> tuple[Memory, int]:
    """Memory as the disk has it, and the place of the next frame. ``every`` gives the spaces."""
    generation = int(connection.execute(select(version.c.generation)).scalar_one())
    shift = int(connection.execute(select(clock.c.shift)).scalar_one())
    memory = Memory(digests, every)
    header, changes = read_state(connection, sealer, generation)
    for change in changes:
        memory.apply(change, shift)
    for change in read_journal(connection, sealer, header):
        memory.apply(change, shift)
    for name, moment in read_posted(connection, header):
        post = memory.held.get(name)
        if post is not None:
            count_late(memory.tallies[post.space], post, every()[post.space], moment - shift, shift)
            memory.posted([post], moment - shift, shift)
    for post in list(memory.held.values()):
        if post.planned == -1:
            memory.schedule(post, shift)
    return memory, header.first


def count_late(tally: Tally, post: Post, space: Space, moment: int, shift: int) -> None:
    """Count a post of which only the moment of the feed is known: late by less than the grid counts as not late."""
    tally.add([max(0, moment - appears_at(post, space, shift))], post.fit[:1])
