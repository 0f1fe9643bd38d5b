"""Blocks of constant size, filled from a stream of entries: what the journal's frames and the state's chunks hold.

A block says how many of its bytes are used; the rest is zeros. Entries are a length and as many bytes, and may run over
from one block into the next. A block that *begins anew* ends what the blocks before it left unfinished: nobody was
answered for that entry, since answers wait for the last byte.
"""

import struct
from collections import deque
from collections.abc import Iterator
from typing import Final

from peerveil.core.errors import PeerveilError

_HEAD: Final = struct.Struct(">BI")  # whether it begins anew; how many bytes are used
_LENGTH: Final = struct.Struct(">I")


class DamagedBlock(PeerveilError):
    """A block that opens, but does not follow the one before it."""


def capacity(size: int) -> int:
    """How many bytes of entries a block of a size holds."""
    return size - _HEAD.size


class Packer:
    """Cuts a stream of entries into blocks. Positions count the bytes of the whole stream.

    >>> packer, unpacker = Packer(16), Unpacker()
    >>> packer.put(b"twelve bytes"), len(packer.block())
    (16, 16)
    >>> packer.block() == packer.block()  # the rest of the entry, and then nothing
    False
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._waiting = deque[bytes]()
        self._is_new = True
        self.end = 0
        """The position behind the last entry."""
        self.cut = 0
        """The position behind the last block."""

    @property
    def backlog(self) -> int:
        """How many bytes wait for a block."""
        return self.end - self.cut

    def put(self, entry: bytes) -> int:
        """Add an entry; the position behind it."""
        self._waiting.append(_LENGTH.pack(len(entry)))
        self._waiting.append(entry)
        self.end += _LENGTH.size + len(entry)
        return self.end

    def block(self) -> bytes:
        """The next block, empty if nothing waits."""
        free = capacity(self._size)
        parts = []
        while free and self._waiting:
            part = self._waiting.popleft()
            if len(part) > free:
                self._waiting.appendleft(part[free:])
                part = part[:free]
            parts.append(part)
            free -= len(part)
        used = capacity(self._size) - free
        head = _HEAD.pack(self._is_new, used)
        self._is_new = False
        self.cut += used
        return b"".join((head, *parts, bytes(free)))


class Unpacker:
    """Reads entries from blocks, one block after the other; ``tail`` is what an entry that goes on has so far."""

    def __init__(self, tail: bytes = b"") -> None:
        self.tail = tail

    def entries(self, block: bytes) -> Iterator[bytes]:
        """The entries that end in a block."""
        is_new, used = _HEAD.unpack_from(block)
        if used > len(block) - _HEAD.size:
            raise DamagedBlock("a sealed block says that more of it is used than there is: restore a backup")
        stream = (b"" if is_new else self.tail) + block[_HEAD.size : _HEAD.size + used]
        start = 0
        while start + _LENGTH.size <= len(stream):
            end = start + _LENGTH.size + _LENGTH.unpack_from(stream, start)[0]
            if end > len(stream):
                break
            yield stream[start + _LENGTH.size : end]
            start = end
        self.tail = stream[start:]
