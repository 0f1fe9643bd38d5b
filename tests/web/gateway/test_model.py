"""The whole protocol against a simple model: whatever is done, in whatever order, the feed is what the model says."""

from __future__ import annotations

import json
import tempfile
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule
from tests.web.gateway.helpers import SECOND, FakeTime, everything, held, job, open_gateway, schedule, work

from peerveil.web.common import Identity
from peerveil.web.common.errors import Conflict, ServiceError, Unprocessable
from peerveil.web.gateway.intake import Edit, Withdraw
from peerveil.web.gateway.watch import Halted

if TYPE_CHECKING:
    from peerveil.web.gateway import Gateway

ACTORS = st.sampled_from(["kim", "lee"])
THREADS = st.sampled_from(["a", "b", "c"])


class Model:
    """A post as the model knows it."""

    def __init__(self, actor: str, thread: str, content: str, arrival: int, parent: str | None) -> None:
        self.actor, self.thread, self.content, self.arrival, self.parent = actor, thread, content, arrival, parent
        self.state = "held"
        self.id = ""
        self.due = 0
        self.pause = 0
        self.appeared = 0


class Protocol(RuleBasedStateMachine):
    """Submit, repeat, edit, withdraw, wait, release, restart, step the clock: in any order."""

    posts = Bundle("posts")

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.time = FakeTime()
        self.gateway: Gateway = self.open()
        self.model: dict[str, Model] = {}
        self.keys: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.order: list[str] = []
        self.number = 0
        self.cursor: str | None = None
        self.seen: list[str] = []

    def open(self) -> Gateway:
        return open_gateway(f"{self.folder.name}/gateway.db", self.time)

    def teardown(self) -> None:
        if hasattr(self, "gateway"):
            self.gateway.close()
            self.folder.cleanup()

    @rule(target=posts, actor=ACTORS, thread=THREADS, reply=st.none() | posts)
    def submit(self, actor: str, thread: str, reply: str | None) -> str:
        self.number += 1
        key, content = f"k{self.number}", f"text {self.number}"
        before = {p: m for p, m in self.model.items() if m.actor == actor}
        follows = any(m.thread != thread and self.time.now - m.arrival <= 10 * SECOND for m in before.values())
        handed = job(self.gateway, thread, content, actor, key=key, reply_to=reply)
        above = None if reply is None else self.model[reply]
        allowed = above is None or (above.actor == actor and above.state == "held" and above.thread == thread)
        try:
            answer = self.gateway.take(handed)
        except Unprocessable:
            assert not allowed
            return next(iter(self.model))
        assert allowed
        receipt: str = json.loads(answer)["receipt"]
        post = Model(actor, thread, content, self.time.now, reply)
        rows = schedule(self.gateway)
        (new,) = set(rows) - {m.id for m in self.model.values()}
        post.id, post.due, post.pause = new, rows[new], held(self.gateway)[new].pause
        wait = post.due - self.time.now
        assert (100 * SECOND if follows else 0) <= wait <= 160 * SECOND
        self.model[receipt] = post
        self.keys[actor, key] = (content, answer)
        return receipt

    @rule(actor=ACTORS, number=st.integers(1, 30), other=st.booleans())
    def repeat(self, actor: str, number: int, other: bool) -> None:
        known = self.keys.get((actor, f"k{number}"))
        if known is None:
            return
        content, answer = known
        post = self.model[json.loads(answer)["receipt"]]
        again = job(
            self.gateway,
            post.thread,
            "another text" if other else content,
            actor,
            key=f"k{number}",
            reply_to=post.parent,
        )
        try:
            assert self.gateway.take(again) == answer
            assert not other
        except Unprocessable:
            assert other

    @rule(receipt=posts, actor=ACTORS)
    def edit(self, receipt: str, actor: str) -> None:
        post = self.model[receipt]
        self.number += 1
        try:
            self.gateway.take(Edit("forum", actor, receipt, f"edit {self.number}"))
            assert post.actor == actor
            assert post.state == "held"
            post.content = f"edit {self.number}"
        except Conflict:
            assert post.state != "held"
        except ServiceError:
            assert post.actor != actor

    @rule(receipt=consumes(posts))
    def withdraw(self, receipt: str) -> None:
        post = self.model[receipt]
        try:
            self.gateway.take(Withdraw("forum", post.actor, receipt))
            assert post.state in ("held", "withdrawn")
            post.state = "withdrawn"
        except Conflict:
            assert post.state == "posted"

    @rule(seconds=st.sampled_from([0.5, 3, 9, 11, 40, 200]))
    def wait(self, seconds: float) -> None:
        self.time.advance(seconds)

    @rule()
    def release(self) -> None:
        work(self.gateway, batch=3)
        tick = self.time.now // SECOND * SECOND
        planned = {receipt: self.planned(post) for receipt, post in self.model.items() if post.state == "held"}
        for receipt, moment in planned.items():
            if moment is not None and moment <= tick:
                self.model[receipt].state, self.model[receipt].appeared = "posted", tick

    def planned(self, post: Model) -> int | None:
        """When a post is to appear, or would be if it had not been withdrawn; None while it waits for another."""
        above = None if post.parent is None else self.model[post.parent]
        if above is None:
            return post.due
        base = (
            above.appeared if above.state == "posted" else self.planned(above) if above.state == "withdrawn" else None
        )
        return None if base is None else max(post.due, self.gateway.space("forum").due_at(base + 1, post.pause))

    @rule()
    def compact(self) -> None:
        self.gateway.leader.compact()

    @rule()
    def crash(self) -> None:
        self.gateway.leader.drop()

    @rule()
    def restart(self) -> None:
        self.gateway.close()
        self.gateway = self.open()

    @rule(seconds=st.sampled_from([-500, 60, 5000]))
    def step_the_clock(self, seconds: int) -> None:
        work(self.gateway)  # so that the clock was seen before
        self.release()
        self.time.step(seconds)
        try:
            work(self.gateway)
            raise AssertionError("a step went unnoticed")
        except Halted:
            pass
        with self.gateway.database.writing("confirm", whole=True) as connection:
            self.gateway.watch.confirm(connection, "step")
        for post in self.model.values():
            post.due += seconds * SECOND
            post.arrival += seconds * SECOND
            post.appeared += seconds * SECOND

    @invariant()
    def the_feed_is_what_the_model_says(self) -> None:
        if not hasattr(self, "gateway"):
            return
        items = everything(self.gateway, limit=3)
        expected = sorted(p.content for p in self.model.values() if p.state == "posted")
        assert sorted(item.content for item in items) == expected
        assert [item.id for item in items][: len(self.order)] == self.order  # what was seen stays where it was
        self.order = [item.id for item in items]
        place = {item.id: k for k, item in enumerate(items)}
        assert all(place[item.reply_to] < place[item.id] for item in items if item.reply_to is not None)
        new, self.cursor = self.gateway.read("forum", self.cursor, 500)
        self.seen += [item.id for item in new]
        assert self.seen == self.order  # a reader who follows skips nothing and sees nothing twice

    @invariant()
    def authors_are_told_the_state(self) -> None:
        if not hasattr(self, "gateway"):
            return
        for receipt, post in list(self.model.items())[-3:]:
            assert self.gateway.status(Identity("author", "forum", post.actor, ""), receipt) == post.state


TestProtocol: Any = Protocol.TestCase
TestProtocol.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
