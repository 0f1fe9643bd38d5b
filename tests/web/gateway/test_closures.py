"""Every closure of the posting service, and for each a planted fault that the same look finds.

Each test has one detector. It is quiet on the gateway as it is, and speaks on a gateway from which the closure was
removed. That is how we know that it looks at the right thing.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
import time as real_time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import insert, select, text
from tests.web.common.client import Client
from tests.web.gateway.helpers import SECOND, FakeTime, everything, held, job, rank_correlation, schedule, submit, work

from peerveil.web.common import Journal
from peerveil.web.common.errors import Clash, Unprocessable
from peerveil.web.gateway import Gateway, create_app
from peerveil.web.gateway.frames import Sealer
from peerveil.web.gateway.intake import Edit, Intake
from peerveil.web.gateway.metrics import metrics
from peerveil.web.gateway.publish import Publisher
from peerveil.web.gateway.tables import beats, feed, metadata, spaces
from peerveil.web.gateway.tally import BINS, BLOCK

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection

Make = Any
MANY = 400


def with_publisher(kind: type[Publisher]) -> type[Gateway]:
    """A gateway with a fault in how it releases."""

    class Faulty(Gateway):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            self.publisher = kind()

    return Faulty


def with_intake(kind: type[Intake]) -> type[Gateway]:
    """A gateway with a fault in how it takes posts."""

    class Faulty(Gateway):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            self.intake = kind(self.digests)

    return Faulty


def take_many(gateway: Gateway, count: int, **more: Any) -> None:
    gateway.take_all([job(gateway, f"t{k % 9}", str(k), actor=f"a{k}", **more) for k in range(count)])


# ---- order ------------------------------------------------------------------------------------------------------


class InOrder(Publisher):
    """A queue: what came first goes first. (The text tells the order of arrival.)"""

    def shuffle(self, rows: list[Any]) -> list[Any]:
        return sorted(rows, key=lambda post: int(post.content))


class ByDueTime(Publisher):
    """A backlog in the order in which it was due."""

    def shuffle(self, rows: list[Any]) -> list[Any]:
        return sorted(rows, key=lambda post: post.due)


class Serial(Publisher):
    """Ids that grow."""

    def public_id(self, post: Any) -> str:
        self.last = getattr(self, "last", 0) + 1
        return f"{self.last:032x}"


@pytest.mark.parametrize(
    ("kind", "leaks"), [(Publisher, False), (InOrder, True), (ByDueTime, True)], ids=["as it is", "queue", "due time"]
)
def test_a_backlog_appears_in_random_order(
    sqlite_url: str, make: Make, time: FakeTime, kind: type[Publisher], leaks: bool
) -> None:
    gateway = make(sqlite_url, with_publisher(kind))
    take_many(gateway, MANY)
    due = schedule(gateway)
    time.advance(1000)
    work(gateway)
    items = everything(gateway)
    if kind is InOrder:
        found = rank_correlation([int(item.content) for item in items], range(MANY))
    else:
        found = max(
            abs(rank_correlation([int(item.content) for item in items], range(MANY))),
            abs(rank_correlation([due[item.id] + secrets.randbelow(1000) / 1e6 for item in items], range(MANY))),
        )
    # five standard errors of a rank correlation under random order
    assert (abs(found) > 5 / MANY**0.5) is leaks


@pytest.mark.parametrize(("kind", "leaks"), [(Publisher, False), (Serial, True)], ids=["as it is", "serial"])
def test_ids_say_nothing_of_the_order(
    sqlite_url: str, make: Make, time: FakeTime, kind: type[Publisher], leaks: bool
) -> None:
    gateway = make(sqlite_url, with_publisher(kind))
    take_many(gateway, MANY)
    time.advance(1000)
    work(gateway)
    ids = [int(item.id, 16) for item in everything(gateway)]
    assert (abs(rank_correlation(ids, range(MANY))) > 5 / MANY**0.5) is leaks


class ToTheMicrosecond(Publisher):
    """Published times as exact as the clock."""

    def items(self, space: Any, opened: list[Any], tick: int) -> list[dict[str, Any]]:
        return super().items(space, opened, tick + 123_456)


@pytest.mark.parametrize(("kind", "leaks"), [(Publisher, False), (ToTheMicrosecond, True)], ids=["as it is", "exact"])
def test_published_times_are_on_the_grid(
    sqlite_url: str, make: Make, time: FakeTime, kind: type[Publisher], leaks: bool
) -> None:
    gateway = make(sqlite_url, with_publisher(kind), grid="5s")
    take_many(gateway, 20)
    time.advance(60.7)
    work(gateway)
    with gateway.database.reading() as connection:
        times = set(connection.execute(select(feed.c.posted_at)).scalars())
    assert any(moment % (5 * SECOND) for moment in times) is leaks


# ---- once, and nobody skipped -----------------------------------------------------------------------------------


class AnotherIdEachTime(Publisher):
    """Public ids that are drawn at publication: nothing then stops a second publication of the same post."""

    def public_id(self, post: Any) -> str:
        return secrets.token_hex(16)


@pytest.mark.parametrize(
    ("kind", "doubles"), [(Publisher, False), (AnotherIdEachTime, True)], ids=["as it is", "drawn"]
)
def test_a_post_that_comes_back_is_not_released_twice(
    url: str, make: Make, time: FakeTime, kind: type[Publisher], doubles: bool
) -> None:
    gateway = make(url, with_publisher(kind))
    submit(gateway)
    time.advance(1000)
    with gateway.leader.lock:
        (before,) = (replace(post) for post in held(gateway).values())
    work(gateway)
    with gateway.leader.lock:  # what a publication that memory does not know of would do
        gateway.leader.memory.held[before.id] = before
        gateway.leader.memory.schedule(before, 0)
    if doubles:
        work(gateway)
    else:
        with pytest.raises(Clash):
            work(gateway)
        work(gateway)  # the disk was asked, and knows
    assert (len(everything(gateway)) == 2) is doubles


class WithoutLock(Publisher):
    """Positions from a sequence, as identity columns draw them: not ordered by commit."""

    def positions(self, connection: Connection, space: Any, count: int) -> int:
        last = 0
        for _ in range(count):
            last = int(connection.execute(text("SELECT nextval('planted')")).scalar_one())
        return last


@pytest.mark.parametrize(("kind", "skips"), [(Publisher, False), (WithoutLock, True)], ids=["as it is", "sequence"])
def test_a_reader_never_misses_what_is_committed_late(
    postgres_url: str, make: Make, time: FakeTime, kind: type[Publisher], skips: bool
) -> None:
    """Two workers at once: the one that drew its positions first commits last, while a reader reads."""
    gateway = make(postgres_url, with_publisher(kind))
    with gateway.database.writing("open") as connection:
        connection.execute(text("CREATE SEQUENCE planted"))
    take_many(gateway, 20)
    time.advance(1000)
    space = gateway.space("forum")
    seen: list[str] = []
    cursor = None

    def read() -> None:
        nonlocal cursor
        items, cursor = gateway.read("forum", cursor, 500)
        seen.extend(item.id for item in items)

    def some() -> list[Any]:
        with gateway.leader.lock:
            return list(gateway.publisher.claim(gateway.leader, space, time.now, 10))

    def second() -> None:
        with gateway.database.writing("publish") as connection:
            gateway.publisher.publish(connection, space, some(), time.now)

    other = threading.Thread(target=second)
    with gateway.database.writing("publish") as connection:
        gateway.publisher.publish(connection, space, some(), time.now)
        other.start()
        other.join(1.0)  # with the lock it waits; without, it is done before us
        read()
    other.join()
    read()
    read()
    assert len(seen) == len(set(seen))
    assert (len(seen) < 20) is skips


class Eager(Publisher):
    """Replies that do not wait for what they answer."""

    def claim(self, leader: Any, space: Any, moment: int, limit: int) -> Any:
        for post in held_by(leader):
            if post.waits:
                post.waits = False
                leader.memory.schedule(post, 0)
        return super().claim(leader, space, moment, limit)


def held_by(leader: Any) -> list[Any]:
    return list(leader.memory.held.values())


@pytest.mark.parametrize(("kind", "early"), [(Publisher, False), (Eager, True)], ids=["as it is", "eager"])
def test_no_reply_appears_before_its_parent(
    sqlite_url: str, make: Make, time: FakeTime, kind: type[Publisher], early: bool
) -> None:
    gateway = make(sqlite_url, with_publisher(kind))
    for k in range(30):
        parent = submit(gateway, "t", f"p{k}", actor=f"a{k}")["receipt"]
        submit(gateway, "t", f"r{k}", actor=f"a{k}", reply_to=parent)
    for _ in range(70):
        time.advance(5)
        work(gateway)
    order = [item.content for item in everything(gateway)]
    assert len(order) == 60
    assert any(order.index(f"r{k}") < order.index(f"p{k}") for k in range(30)) is early


# ---- drawn once -------------------------------------------------------------------------------------------------


class Redraws(Intake):
    """An edit that draws a new delay: editing again and again would average the noise away."""

    def _change(self, memory: Any, job: Any) -> Any:
        outcome: Any = super()._change(memory, job)
        outcome.post.due += (1 + secrets.randbelow(100)) * SECOND
        return outcome


@pytest.mark.parametrize(("kind", "redrawn"), [(Intake, False), (Redraws, True)], ids=["as it is", "redraws"])
def test_delays_are_drawn_once(url: str, make: Make, time: FakeTime, kind: type[Intake], redrawn: bool) -> None:
    gateway = make(url, with_intake(kind))
    receipt = submit(gateway, key="k")["receipt"]

    first = schedule(gateway)
    gateway.take(Edit("forum", "kim", receipt, "new"))
    submit(gateway, key="k")
    assert (schedule(gateway) != first) is redrawn
    gateway.leader.drop()
    again = make(url, with_intake(kind))
    submit(again, key="k")
    assert schedule(again) == first  # it stands in the entry


# ---- answers ----------------------------------------------------------------------------------------------------


class TellsTheDelay(Intake):
    """An acknowledgment with the time that was drawn."""

    def answer(self, memory: Any, post: Any) -> bytes:
        body = json.loads(super().answer(memory, post))
        return json.dumps(body | {"longest_delay": (post.due - post.arrived) // SECOND}).encode()


class TellsTheStatus(Intake):
    """A longest delay that depends on what the person did before."""

    def _status(self, *args: Any) -> Any:
        self.follows, joined = super()._status(*args)
        return self.follows, joined

    def answer(self, memory: Any, post: Any) -> bytes:
        body = json.loads(super().answer(memory, post))
        return json.dumps(body | {"longest_delay": body["longest_delay"] + 1000 * self.follows}).encode()


@pytest.mark.parametrize(
    ("kind", "leaks"),
    [(Intake, False), (TellsTheDelay, True), (TellsTheStatus, True)],
    ids=["as it is", "tells the delay", "tells the status"],
)
def test_acknowledgments_differ_in_the_receipt_alone(
    sqlite_url: str, make: Make, time: FakeTime, kind: type[Intake], leaks: bool
) -> None:
    gateway = make(sqlite_url, with_intake(kind))
    answers = []
    for k in range(40):
        time.advance(1)
        answers.append(gateway.take(job(gateway, f"t{k % 3}", "x" * (1 + 50 * k), actor=f"a{k % 4}")))
    without = {re.sub(rb'"receipt": "[\w-]{43}"', b"", answer) for answer in answers}
    assert (len(without) > 1) is leaks
    if not leaks:
        assert len({len(answer) for answer in answers}) == 1


class AnyBody(Intake):
    """Keys without a look at the body."""

    def check_body(self, post: Any, body: bytes) -> None:
        pass


@pytest.mark.parametrize("lax", [False, True], ids=["as it is", "lax"])
def test_a_key_stands_for_one_body(sqlite_url: str, make: Make, lax: bool) -> None:
    gateway = make(sqlite_url, with_intake(AnyBody if lax else Intake))
    submit(gateway, content="one", key="k")
    if lax:
        submit(gateway, content="two", key="k")  # taken for a repetition: the second text is lost
    else:
        with pytest.raises(Unprocessable):
            submit(gateway, content="two", key="k")


# ---- figures ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaks", [False, True], ids=["as it is", "backlog"])
def test_nothing_shown_depends_on_what_is_held(
    sqlite_url: str, make: Make, time: FakeTime, leaks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything that readers and operators can ask for, before and after fifty posts were taken."""
    gateway = make(sqlite_url)

    def with_backlog(*shown: Any) -> str:
        return metrics(*shown) + f"backlog {len(held(gateway))}\n"

    if leaks:
        monkeypatch.setattr("peerveil.web.gateway.app.metrics", with_backlog)
    operator = gateway.issue_token(role="operator", space="forum")
    with gateway.database.writing("beat") as connection:  # elsewhere, a worker runs
        connection.execute(insert(beats).values(part="publishing", process="p", state="running", at=time.now + 10**10))
    client = Client(create_app(gateway, Journal("test"), worker=False))
    headers = {"Authorization": f"Bearer {operator}"}
    paths = [
        "/metrics",
        "/healthz",
        "/readyz",
        "/operator",
        "/v1/spaces/forum/feed",
        "/v1/spaces/forum/feed.atom",
        "/openapi.json",
    ]

    def look() -> list[tuple[int, str, str]]:
        answers = [client.get(path, headers=headers) for path in paths]
        return [(a.status_code, a.text, str(sorted(a.headers.items()))) for a in answers]

    try:
        submit(gateway)
        time.advance(1000)
        work(gateway)
        end = real_time.monotonic() + 60
        while client.get("/readyz").status_code != 200 and real_time.monotonic() < end:  # the first heartbeat
            real_time.sleep(0.02)
        before = look()
        take_many(gateway, 50)
        assert (look() != before) is leaks
        assert all(status == 200 for status, _, _ in before)
    finally:
        client.close()


def test_the_picture_of_delays_is_updated_in_blocks(sqlite_url: str, make: Make, time: FakeTime) -> None:
    gateway = make(sqlite_url)

    def shown() -> int:
        return sum(gateway.tallies()["forum"][f"fit_{k}"] for k in range(BINS))

    totals = []
    for count in (1, BLOCK - 2, 1, 1, BLOCK):
        take_many(gateway, count)
        time.advance(1000)
        work(gateway)
        totals.append(shown())
    assert totals == [0, 0, BLOCK, BLOCK, 2 * BLOCK + 1]


# ---- at rest ----------------------------------------------------------------------------------------------------


class Plain(Sealer):
    """Frames without a lock."""

    def seal_frame(self, seq: int, plain: bytes) -> bytes:
        return plain


@pytest.mark.parametrize("closed", [True, False], ids=["as it is", "without encryption"])
def test_what_is_held_is_not_in_the_files(
    tmp_path: Path, sqlite_url: str, make: Make, time: FakeTime, closed: bool
) -> None:
    gateway = make(sqlite_url)
    if not closed:
        gateway.leader._sealer = Plain(gateway.vault, b"")
    secret = ("thread-SECRET", "content-SECRET", "actor-SECRET", "key-SECRET")
    receipt = submit(gateway, *secret[:2], actor=secret[2], key=secret[3])["receipt"]
    (post,) = held(gateway).values()
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    every = (*secret, receipt, post.id, post.person.hex(), post.key.hex())
    assert any(word.encode() in files for word in every) is not closed
    time.advance(1000)
    work(gateway)
    # after publication: nothing but the feed has changed, and it says nothing of arrival, receipt or author
    with gateway.database.reading() as connection:
        rows = {t.name: [dict(r) for r in connection.execute(select(t)).mappings()] for t in metadata.sorted_tables}
    arrival = str(time.now - 1000 * SECOND)
    shown = {name: json.dumps(some, default=str) for name, some in rows.items() if name != "gateway_journal"}
    assert [name for name, text in shown.items() if post.id in text] == ["gateway_feed"]
    assert all(arrival[:10] not in text for name, text in shown.items() if name != "gateway_spaces")


class Keeps(Publisher):
    """Arrivals that stay after a sitting."""

    def clean(self, leader: Any, now: int) -> None:
        pass


@pytest.mark.parametrize(("kind", "stays"), [(Publisher, False), (Keeps, True)], ids=["as it is", "keeps"])
def test_arrivals_are_forgotten(
    sqlite_url: str, make: Make, time: FakeTime, kind: type[Publisher], stays: bool
) -> None:
    gateway = make(sqlite_url, with_publisher(kind))
    take_many(gateway, 5)
    time.advance(1000)
    work(gateway)
    assert (len(gateway.leader.memory.sittings) > 0) is stays
    if not stays:  # and on disk with the next compaction
        gateway.leader.compact()
        gateway.leader.drop()
        known = [post.arrived for post in gateway.leader.memory.by_key.values()]
        assert known == [0] * 5


def test_the_space_row_is_locked_while_positions_are_given(sqlite_url: str, make: Make, time: FakeTime) -> None:
    gateway = make(sqlite_url)
    take_many(gateway, 10)
    time.advance(1000)
    work(gateway, batch=3)
    with gateway.database.reading() as connection:
        assert connection.execute(select(spaces.c.last)).scalar_one() == 10
        assert list(connection.execute(select(feed.c.position).order_by(feed.c.position)).scalars()) == list(
            range(1, 11)
        )
