"""The sealed journal: constant-size frames, written at a constant rate whether anything came or not.

**Adversary.** Has one copy, from one moment, of the database or a backup of it, its write-ahead log, its statistics and the
logs of server and service; reads raw pages, dead rows, ``xmin``, ``ctid`` and commit times; knows the code, the settings and
the feed. Has no key, and sees neither memory nor network nor older copies.

**Claim.** About released posts this adversary learns nothing that the feed does not say, and about held posts a padded
count (the number of the state's chunks) and nothing else.

**Why.** Everything that requests cause to be written goes through :func:`write_frame`:

1. *Contents*: each frame is sealed with AES-256-GCM under a key that the database does not hold, and bound to its place.
   Its length is always the same. So the contents of two journals of the same length are indistinguishable.
2. *When*: one frame per tick is committed, at a random moment drawn before it, whether anything came or not. So number and order
   of these transactions do not depend on requests, and their times only by the bound that
   :mod:`peerveil.web.gateway.ticks` proves: the difference of latency over the window of that draw.
   Refusals, repetitions and questions write nothing. The clock is read once per tick, not once per request, so that
   statistics of the database do not count requests either.
3. *Publication* writes the feed, the space's newest position and the time, and nothing that intake has written: no
   transaction touches both journal and feed, and none deletes or marks what was sealed. A held post's time of publication is
   decided in memory. So what publication writes is a function of the feed's rows and of when they appeared, which are public.
4. *Compaction* rewrites the journal into the state by the clock (:mod:`peerveil.web.gateway.compaction`), in chunks of
   constant size, whose number is padded to a power of two, written at a steady pace.

What a copy shows is then a function of the feed, of the clock, of random draws and of that padded number, up to that
bound and to ticks that an overloaded machine misses. ``tests/web/gateway/test_thief.py`` measures the times, and attacks
all of the above. ∎

**Nonces** are random. A key seals at most 2^20 frames or one state: two of its nonces meet with a probability below 2^-56.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from sqlalchemy import Connection, insert, select

from peerveil.web.common import Vault
from peerveil.web.gateway.tables import frames, state

CHUNK_BYTES: Final = 65_536
"""Bytes of a chunk of the state, before it is sealed."""
_FRAMES_PER_KEY: Final = 2**20
_READ_AT_ONCE: Final = 64


class Sealer:
    """Seals frames and chunks, each under a key for few of them, bound to its table and place."""

    def __init__(self, vault: Vault, secret: bytes) -> None:
        self._vault = vault
        self.derive = lru_cache(maxsize=16)(lambda purpose: vault.derive(secret, purpose))

    @property
    def current(self) -> str:
        """The name of the key that seals."""
        return self._vault.current

    def seal_frame(self, seq: int, plain: bytes) -> bytes:
        """A frame for its place in the journal."""
        return self._frame_vault(seq).seal(plain, about=f"frame {seq}")

    def open_frame(self, seq: int, sealed: bytes) -> bytes:
        """What a frame holds."""
        return self._frame_vault(seq).open(sealed, about=f"frame {seq}")

    def seal_chunk(self, generation: int, number: int, plain: bytes) -> bytes:
        """A chunk for its place in the state."""
        return self.derive(f"state {generation}").seal(plain, about=f"chunk {generation} {number}")

    def open_chunk(self, generation: int, number: int, sealed: bytes) -> bytes:
        """What a chunk holds."""
        return self.derive(f"state {generation}").open(sealed, about=f"chunk {generation} {number}")

    def _frame_vault(self, seq: int) -> Vault:
        return self.derive(f"frames {seq // _FRAMES_PER_KEY}")


def write_frame(connection: Connection, seq: int, sealed: bytes) -> None:
    """The one statement by which anything about requests reaches the disk."""
    connection.execute(insert(frames).values(seq=seq, body=sealed))


def read_frames(connection: Connection, sealer: Sealer, first: int) -> Iterator[tuple[int, bytes]]:
    """The frames from a place on, opened, without a gap."""
    query = select(frames).where(frames.c.seq >= first).order_by(frames.c.seq)
    with connection.execution_options(yield_per=_READ_AT_ONCE).execute(query) as rows:
        for row in rows:
            yield row.seq, sealer.open_frame(row.seq, bytes(row.body))


def read_chunks(connection: Connection, sealer: Sealer, generation: int) -> Iterator[bytes]:
    """The chunks of a state, opened, in order."""
    query = select(state).where(state.c.generation == generation).order_by(state.c.chunk)
    with connection.execution_options(yield_per=_READ_AT_ONCE).execute(query) as rows:
        for row in rows:
            yield sealer.open_chunk(generation, row.chunk, bytes(row.body))
