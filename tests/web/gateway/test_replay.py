"""Reading memory back from disk: whatever was cut off, the rest reproduces a state that some author was told of."""

from __future__ import annotations

import tempfile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, text
from tests.web.gateway.helpers import FakeTime, everything, held, open_gateway, submit, work

from peerveil.core.errors import PeerveilError
from peerveil.web.gateway.blocks import Packer, Unpacker
from peerveil.web.gateway.intake import Edit, Withdraw
from peerveil.web.gateway.tables import frames


@given(st.lists(st.binary(max_size=60), max_size=30), st.integers(6, 40), st.lists(st.integers(0, 5), max_size=30))
def test_entries_come_out_of_blocks_as_they_went_in(entries: list[bytes], size: int, pauses: list[int]) -> None:
    """Also with empty blocks between, and up to any block of them."""
    packer, blocks, ends = Packer(size), [], []
    for k, entry in enumerate(entries):
        ends.append(packer.put(entry))
        blocks += [packer.block() for _ in range(pauses[k] if k < len(pauses) else 0)]
    while packer.backlog:
        blocks.append(packer.block())
    assert {len(block) for block in blocks} <= {size}
    for count in range(len(blocks) + 1):
        unpacker = Unpacker()
        found = [entry for block in blocks[:count] for entry in unpacker.entries(block)]
        assert found == entries[: len(found)]
    assert not blocks or found == entries


def test_a_block_that_begins_anew_ends_what_was_not_finished() -> None:
    first, second, unpacker = Packer(32), Packer(32), Unpacker()
    first.put(b"x" * 100)
    second.put(b"whole")
    blocks = [first.block(), first.block(), second.block()]
    assert [entry for block in blocks for entry in unpacker.entries(block)] == [b"whole"]


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.data())
def test_any_prefix_of_the_journal_is_a_state_that_was(data: Any) -> None:
    """Frames that are lost at the end (nobody was answered for what they hold) leave the posts of the frames before."""
    with tempfile.TemporaryDirectory() as folder:
        time = FakeTime()
        gateway = open_gateway(f"{folder}/gateway.db", time)
        gateway.configure([], frame_bytes=600)  # entries run over several frames
        states: dict[int, Any] = {0: {}}
        receipts: list[str] = []
        actors: dict[str, str] = {}
        published: set[str] = set()
        for k in range(data.draw(st.integers(1, 8))):
            act = data.draw(st.sampled_from(["post", "edit", "withdraw", "compact", "publish"]))
            if act == "post" or (act in ("edit", "withdraw") and not receipts):
                long = "x" * data.draw(st.sampled_from([1, 900]))
                receipts.append(submit(gateway, f"t{k}", f"text {k} {long}", actor=f"a{k}")["receipt"])
                actors[receipts[-1]] = f"a{k}"
            elif act in ("edit", "withdraw"):
                receipt = data.draw(st.sampled_from(receipts))
                try:
                    change: Any = Edit("forum", actors[receipt], receipt, f"edit {k}")
                    gateway.take(change if act == "edit" else Withdraw("forum", actors[receipt], receipt))
                except PeerveilError:
                    continue
            elif act == "compact":
                gateway.leader.compact()
                states = {}  # what it covers is gone
            else:
                time.advance(data.draw(st.sampled_from([50, 200])))
                work(gateway)
                published = {item.id for item in everything(gateway)}
            states[gateway.leader._seq - 1] = {p.id: (p.content, p.due, p.shuffle) for p in held(gateway).values()}
        last = gateway.leader._seq - 1
        kept = data.draw(st.integers(min(states), last))
        gateway.leader.drop()
        with gateway.database.writing("x") as connection:
            connection.execute(delete(frames).where(frames.c.seq > kept))
        nearest = max(seq for seq in states if seq <= kept)
        found = {p.id: (p.content, p.due, p.shuffle) for p in held(gateway).values()}
        expected = {name: post for name, post in states[nearest].items() if name not in published}
        assert {name: post for name, post in found.items() if name not in published} == expected
        assert not set(found) & published
        gateway.close()


def test_a_gap_in_the_journal_is_noticed(url: str, make: Any) -> None:
    gateway = make(url)
    for k in range(3):
        submit(gateway, "t", str(k), actor=f"a{k}")
    gateway.leader.drop()
    with gateway.database.writing("x") as connection:
        connection.execute(text("DELETE FROM gateway_journal WHERE seq = 2"))
    with pytest.raises(PeerveilError, match="frame 2 of the journal is missing"):
        submit(gateway)
