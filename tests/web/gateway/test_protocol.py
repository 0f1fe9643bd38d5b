"""Posts are taken, edited, withdrawn and released as promised, on both databases."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select
from tests.web.gateway.helpers import (
    SECOND,
    SETTINGS,
    START,
    FakeTime,
    everything,
    held,
    job,
    open_gateway,
    schedule,
    submit,
    work,
)

from peerveil.core.errors import BadInput, PeerveilError
from peerveil.web.common import Identity
from peerveil.web.common.errors import Conflict, Gone, NotFound, Unprocessable
from peerveil.web.gateway import Gateway, Space
from peerveil.web.gateway.intake import Edit, Withdraw
from peerveil.web.gateway.publish import Publisher
from peerveil.web.gateway.tables import frames

if TYPE_CHECKING:
    from collections.abc import Callable

KIM = ("forum", "kim")


def spy_on_status(gateway: Gateway, drawn: list[bool]) -> None:
    """Note the status of every post whose delay is drawn."""
    original = gateway.intake.draw

    def spy(fresh: Any, moment: Any) -> None:
        drawn.extend(new.follows for new in fresh)
        original(fresh, moment)

    gateway.intake.draw = spy  # type: ignore[method-assign]


def state(gateway: Gateway, receipt: str, actor: str = "kim") -> str:
    return gateway.status(Identity("author", "forum", actor, ""), receipt)


def test_a_post_appears_once_within_the_longest_delay(url: str, make: Callable[..., Gateway], time: FakeTime) -> None:
    gateway = make(url)
    answer = submit(gateway, "paper 1", "hello\n<b>ünï</b> 🙂")
    assert set(answer) == {"receipt", "longest_delay"}
    assert len(answer["receipt"]) == 43
    assert state(gateway, answer["receipt"]) == "held"
    time.advance(answer["longest_delay"])
    for _ in range(2):
        work(gateway)
        (item,) = everything(gateway)
    assert (item.thread, item.content, item.reply_to) == ("paper 1", "hello\n<b>ünï</b> 🙂", None)
    assert state(gateway, answer["receipt"]) == "posted"
    assert held(gateway) == {}
    with pytest.raises(NotFound):
        state(gateway, answer["receipt"], actor="lee")


def test_nothing_is_early_and_nothing_is_longer_than_told(
    url: str, make: Callable[..., Gateway], time: FakeTime
) -> None:
    gateway = make(url)
    gateway.take_all([job(gateway, f"t{k}", actor=f"a{k % 7}") for k in range(60)])
    due = sorted(schedule(gateway).values())
    longest = gateway.space("forum").longest_delay("t") * SECOND
    assert len(due) == 60
    assert all(time.now <= moment <= time.now + longest and moment % SECOND == 0 for moment in due)
    for moment in due[::10]:
        time.advance((moment - time.now) / SECOND - 0.001)
        work(gateway)
        assert len(everything(gateway)) == sum(d < moment for d in due)
        time.advance(0.001)
        work(gateway)
        assert len(everything(gateway)) == sum(d <= moment for d in due)


def test_the_same_request_again_changes_nothing(url: str, make: Callable[..., Gateway], time: FakeTime) -> None:
    gateway = make(url)
    first = gateway.take(job(gateway, key="k"))
    before = schedule(gateway)
    time.advance(5)
    assert gateway.take(job(gateway, key="k")) == first
    assert schedule(gateway) == before
    with pytest.raises(Unprocessable, match="another body"):
        gateway.take(job(gateway, content="other", key="k"))
    # somebody else's key, and another space's, are other keys
    assert gateway.take(job(gateway, actor="lee", key="k")) != first
    # twice at once
    twice = [job(gateway, key="x"), job(gateway, key="x"), job(gateway, content="other", key="x")]
    one, two, three = gateway.take_all(twice)
    assert one == two
    assert isinstance(three, Unprocessable)
    time.advance(1000)
    work(gateway)
    assert gateway.take(job(gateway, key="k")) == first  # also after the release
    work(gateway)
    assert len(everything(gateway)) == 3


def test_a_follow_up_on_another_thread_within_the_window_waits_longer(
    url: str, make: Callable[..., Gateway], time: FakeTime
) -> None:
    gateway = make(url)
    drawn: list[bool] = []
    spy_on_status(gateway, drawn)
    steps = [(0, "a"), (1, "a"), (1, "b"), (10, "b"), (0.000001, "b"), (10, "c"), (10.000001, "d"), (0, "e")]
    for wait, thread in steps:
        time.advance(wait)
        submit(gateway, thread)
    # a: first; a again: same thread; b: follows a; b at +10 s after a's 2nd...: see each
    assert drawn == [False, False, True, False, False, True, False, True]
    submit(gateway, "z", actor="lee")
    assert drawn[-1] is False  # another person
    receipt = submit(gateway, "y", actor="pat")["receipt"]
    gateway.take(Withdraw("forum", "pat", receipt))
    submit(gateway, "x", actor="pat")
    assert drawn[-2:] == [False, True]  # a withdrawn post still counts
    time.advance(20)
    work(gateway)
    assert len(gateway.leader.memory.sittings) == 0  # arrivals are forgotten after a sitting


def test_two_posts_in_one_transaction_follow_each_other(url: str, make: Callable[..., Gateway]) -> None:
    gateway = make(url)
    flags: list[bool] = []
    spy_on_status(gateway, flags)
    gateway.take_all([job(gateway, "a"), job(gateway, "b"), job(gateway, "a", actor="lee")])
    assert flags == [False, True, False]


def test_symmetric_mechanisms_hold_and_then_use_the_other_draw(
    url: str, make: Callable[..., Gateway], time: FakeTime
) -> None:
    gateway = make(url, mechanism="zero-inflated", epsilon=4)
    hold = gateway.space("forum").hold
    assert hold == 10 * SECOND
    submit(gateway, "a")
    (row,) = held(gateway).values()
    other = row.batched_at
    assert other is not None
    assert min(row.due, other) >= time.now + hold
    time.advance(10)
    submit(gateway, "b")  # within the window after: now both are batched
    rows = held(gateway)
    assert rows[row.id].due == other
    assert all(r.batched_at is None for r in rows.values())
    time.advance(10.5)
    submit(gateway, "c")  # too late to change b
    (alone,) = (r.id for r in held(gateway).values() if r.batched_at is not None)
    assert alone not in rows


def test_declared_sittings_hold_nothing(url: str, make: Callable[..., Gateway], time: FakeTime) -> None:
    gateway = make(url, mechanism="uniform", declared=True)
    flags: list[bool] = []
    spy_on_status(gateway, flags)
    assert gateway.space("forum").hold == 0
    submit(gateway, "a")
    submit(gateway, "b")
    submit(gateway, "c", batch=True)
    submit(gateway, "d")
    time.advance(10.1)
    submit(gateway, "e")
    assert flags == [False, False, True, True, False]


def test_edit_and_withdraw_before_posting(url: str, make: Callable[..., Gateway], time: FakeTime) -> None:
    gateway = make(url)
    keep, drop = submit(gateway, "a")["receipt"], submit(gateway, "b")["receipt"]
    before = schedule(gateway)
    assert gateway.take(Edit(*KIM, keep, "new text")) == b'{"state": "held"}'
    assert schedule(gateway) == before  # never redrawn
    for _ in range(2):
        assert gateway.take(Withdraw(*KIM, drop)) == b'{"state": "withdrawn"}'
    assert state(gateway, drop) == "withdrawn"
    with pytest.raises(Conflict):
        gateway.take(Edit(*KIM, drop, "again"))
    for receipt, owner in [(keep, ("forum", "lee")), ("x" * 43, KIM), ("", KIM), ("\0", KIM)]:
        for change in (Edit(*owner, receipt, "mine"), Withdraw(*owner, receipt)):
            with pytest.raises(NotFound):
                gateway.take(change)
    time.advance(1000)
    work(gateway)
    assert [item.content for item in everything(gateway)] == ["new text"]
    for late in (Edit(*KIM, keep, "late"), Withdraw(*KIM, keep)):
        with pytest.raises(Conflict, match="posted"):
            gateway.take(late)


def test_replies_come_after_their_parents(url: str, make: Callable[..., Gateway], time: FakeTime) -> None:
    gateway = make(url)
    chain = [submit(gateway, "t", "0")["receipt"]]
    for k in range(1, 5):
        chain.append(submit(gateway, "t", str(k), reply_to=chain[-1])["receipt"])
    orphan_parent = submit(gateway, "u", "gone")["receipt"]
    submit(gateway, "u", "orphan", reply_to=orphan_parent)
    gateway.take(Withdraw(*KIM, orphan_parent))
    for wrong, actor in [(chain[0], "lee"), ("nothing", "kim"), ("0" * 32, "kim")]:
        with pytest.raises(Unprocessable, match="reply_to"):
            submit(gateway, "t", "bad", reply_to=wrong, actor=actor)
    told = json.loads(gateway.take(job(gateway, "v", "alone")))["longest_delay"]
    for _ in range(5 * told // 5):
        time.advance(5)
        work(gateway)
    items = everything(gateway)
    thread = [item for item in items if item.thread == "t"]
    moments = [item.posted_at for item in thread]
    assert moments == sorted(set(moments))  # never at the parent's own moment: nobody else could have answered by then
    assert [item.content for item in thread] == ["0", "1", "2", "3", "4"]
    assert [item.reply_to for item in thread] == [None, *(item.id for item in thread[:-1])]
    assert [item.reply_to for item in items if item.content == "orphan"] == [None]
    submit(gateway, "t", "later", reply_to=thread[2].id, actor="lee")
    for where, wrong in (("t", chain[0]), ("u", thread[2].id)):  # posted: its public id is to be used; another thread
        with pytest.raises(Unprocessable):
            submit(gateway, where, "bad", reply_to=wrong)
    time.advance(1000)
    work(gateway)
    assert everything(gateway)[-1].reply_to == thread[2].id


def test_no_reply_appears_with_its_parent_at_the_deadline(sqlite_url: str, make: Any, time: FakeTime) -> None:
    deadline = datetime.fromtimestamp(time.now / SECOND + 400, UTC).isoformat()
    gateway = make(sqlite_url, deadline=deadline)
    taken = 0
    for k in range(60):
        time.advance(6)
        parent = submit(gateway, "t", f"parent {k}", actor=f"a{k}")
        reply = job(gateway, "t", f"reply {k}", f"a{k}", reply_to=parent["receipt"])
        if 6 * (k + 1) + parent["longest_delay"] < 400:
            gateway.take(reply)
            taken += 1
        else:
            with pytest.raises(Conflict, match="deadline"):
                gateway.take(reply)
        work(gateway)
    while time.now < START + 402 * SECOND:
        time.advance(1)
        work(gateway)
    at = {item.content: item.posted_at for item in everything(gateway)}
    assert len(at) == 60 + taken
    assert 20 < taken < 60
    assert all(at[f"parent {k}"] < at[f"reply {k}"] for k in range(60) if f"reply {k}" in at)


def test_a_reply_to_a_post_that_is_being_published_is_refused(
    url: str, make: Callable[..., Gateway], time: FakeTime
) -> None:
    """It would wait forever for a parent that is not there any more."""
    gateway = make(url)
    parent = submit(gateway, "t", "parent")["receipt"]
    time.advance(1000)

    class Slow(Publisher):
        def publish(self, *args: Any) -> None:
            late: list[Any] = [
                job(gateway, "t", "reply", reply_to=parent),
                Edit(*KIM, parent, "late"),
                Withdraw(*KIM, parent),
            ]
            outcomes = gateway.leader.take(gateway.intake, late, gateway.read_clock().moment())
            refused.extend(type(outcome.answer) for outcome in outcomes)
            super().publish(*args)

    refused: list[type] = []
    gateway.publisher = Slow()
    work(gateway)
    assert refused == [Unprocessable, Conflict, Conflict]
    assert [item.content for item in everything(gateway)] == ["parent"]


def test_the_feed_is_read_by_a_cursor(url: str, make: Callable[..., Gateway], time: FakeTime) -> None:
    gateway = make(url)
    gateway.take_all([job(gateway, "t", str(k), actor=f"a{k}") for k in range(25)])
    time.advance(1000)
    work(gateway, batch=7)
    assert sorted(int(item.content) for item in everything(gateway, limit=4)) == list(range(25))
    items, cursor = gateway.read("forum", None, 10)
    again, _ = gateway.read("forum", None, 10)
    assert items == again
    rest, end = gateway.read("forum", cursor, 500)
    assert not {item.id for item in items} & {item.id for item in rest}
    assert gateway.read("forum", end, 5) == ([], end)
    for wrong in ("", "x", cursor[:-1], cursor[:-2] + "AA", "A" * 24, "é" * 24):
        with pytest.raises((Unprocessable, Gone)):
            gateway.read("forum", wrong, 5)
    with pytest.raises(Unprocessable):
        gateway.read("other", cursor, 5)


def test_the_deadline_posts_everything_and_takes_nothing_more(
    url: str, make: Callable[..., Gateway], time: FakeTime
) -> None:
    deadline = "2027-01-15T08:00:30Z"
    gateway = make(url, deadline=deadline, quiet={"start": "08:00", "end": "09:00"})
    assert time.now == 1_800_000_000 * SECOND  # 2027-01-15T08:00:00Z
    gateway.take_all([job(gateway, f"t{k}", actor=f"a{k}") for k in range(30)])
    time.advance(29.9)
    work(gateway)
    assert everything(gateway) == []  # quiet hours
    time.advance(0.1)
    work(gateway)
    assert len(everything(gateway)) == 30  # the deadline is stronger
    with pytest.raises(Conflict, match="deadline"):
        submit(gateway)


def test_quiet_hours_move_releases_to_their_end(url: str, make: Callable[..., Gateway], time: FakeTime) -> None:
    gateway = make(url, quiet={"start": "08:00", "end": "09:00"})
    submit(gateway)
    assert list(schedule(gateway).values()) == [time.now + 3600 * SECOND]
    time.advance(3599)
    work(gateway)
    assert everything(gateway) == []
    time.advance(1)
    work(gateway)
    assert len(everything(gateway)) == 1


def test_receipts_and_keys_are_forgotten_in_the_end(url: str, make: Callable[..., Gateway], time: FakeTime) -> None:
    gateway = make(url)
    submit(gateway)
    time.advance(1000)
    work(gateway)
    assert (len(gateway.leader.memory), len(gateway.leader.memory.by_key)) == (1, 1)
    time.advance(9 * 86_400)
    work(gateway)
    assert (len(gateway.leader.memory), len(gateway.leader.memory.by_key)) == (0, 0)
    assert len(everything(gateway)) == 1


def test_without_its_key_a_gateway_takes_and_publishes_nothing_and_loses_nothing(
    url: str, make: Callable[..., Gateway], time: FakeTime
) -> None:
    gateway = make(url)
    submit(gateway, "a")
    gateway.leader.drop()
    with gateway.database.writing("take") as connection:
        body = bytes(connection.execute(select(frames.c.body)).scalars().first() or b"")
        connection.execute(frames.update().where(frames.c.seq == 1).values(body=b"\x04othr" + body[5:]))
    time.advance(1000)
    for act in (lambda: submit(gateway, "b"), lambda: work(gateway)):
        with pytest.raises(PeerveilError, match="othr"):
            act()
    assert everything(gateway) == []
    with gateway.database.writing("take") as connection:
        connection.execute(frames.update().where(frames.c.seq == 1).values(body=body))
    work(gateway)
    assert [item.thread for item in everything(gateway)] == ["a"]


def test_settings_change_for_new_posts_only(url: str, make: Callable[..., Gateway], time: FakeTime) -> None:
    gateway = make(url)
    submit(gateway)
    before = schedule(gateway)
    gateway.leader.drop()
    again = open_gateway(url, time, gap="1000s")
    try:
        assert again.space("forum").gap == 1000
        assert schedule(again) == before
        assert json.loads(again.take(job(again, "b")))["longest_delay"] > 1000
    finally:
        again.close()


def test_zero_inflated_delays_are_what_their_name_says() -> None:
    """At the default weight they were the uniform ones."""
    table = {"gap": "100s", "window": "10s", "epsilon": 4}
    inflated, uniform = (Space.read("forum", table | {"mechanism": name}).base for name in ("zero-inflated", "uniform"))
    assert inflated.unbatched.atom > 0.3
    assert uniform.unbatched.atom == 0
    with pytest.raises(BadInput, match="uniform"):  # where no share of posts without delay pays, there is none
        Space.read("forum", table | {"mechanism": "zero-inflated", "epsilon": 1})


def test_a_sitting_may_span_spaces(url: str, make: Callable[..., Gateway], time: FakeTime) -> None:
    gateway = make(url)
    gateway.configure([Space.read("other", SETTINGS)])
    drawn: list[bool] = []
    spy_on_status(gateway, drawn)
    for space, thread, wait in (("forum", "a", 5), ("other", "a", 5), ("forum", "a", 11), ("other", "a", 0)):
        submit(gateway, thread, space=space)
        time.advance(wait)
    assert drawn == [False, True, True, False]
    due = schedule(gateway)
    assert sum(moment - time.now > 79 * SECOND for moment in due.values()) >= 2


def test_replies_in_one_transaction_are_checked_each_for_itself(
    url: str, make: Callable[..., Gateway], time: FakeTime
) -> None:
    """Parents of two communities at once: valid replies were refused, and replies across communities taken."""
    gateway = make(url)
    gateway.configure([Space.read("other", SETTINGS)])
    for space in ("forum", "other"):
        submit(gateway, "t", "parent", space=space)
    time.advance(1000)
    work(gateway)
    parents = {space: gateway.read(space)[0][0].id for space in ("forum", "other")}
    jobs = [
        job(gateway, "t", "reply", f"a{k}", space, reply_to=parents[to])
        for k, (space, to) in enumerate(product(("forum", "other"), repeat=2))
        for _ in range(10)
    ]
    answers = gateway.take_all(jobs)
    valid = [handed.reply_to == parents[handed.space.name] for handed in jobs]
    assert [isinstance(answer, bytes) for answer in answers] == valid
