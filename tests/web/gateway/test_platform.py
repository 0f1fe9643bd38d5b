"""A platform posts for its users: the author header, tokens in bulk, limits, metadata, and changes of published posts."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select
from tests.web.gateway.helpers import SECOND, everything, held, job, submit, work
from tests.web.gateway.test_web import POSTS, Site

from peerveil.core.errors import BadInput
from peerveil.web.common.errors import Conflict, Forbidden, NotFound, TooMany, Unavailable, Unprocessable
from peerveil.web.gateway import Gateway, Space, atom, read_audit, rss
from peerveil.web.gateway.changes import take_down
from peerveil.web.gateway.intake import Edit, Withdraw
from peerveil.web.gateway.publish import Publisher
from peerveil.web.gateway.relay import written
from peerveil.web.gateway.tables import feed, tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection
    from tests.web.gateway.helpers import FakeTime


@pytest.fixture
def site(sqlite_url: str, make: Any) -> Iterator[Site]:
    found = Site(make(sqlite_url))
    for name, space in (("platform", "forum"), ("platform all", "*"), ("operator all", "*")):
        found.tokens[name] = found.gateway.issue_token(role=name.partition(" ")[0], space=space)
    yield found
    found.client.close()


def post_for(site: Site, author: bytes | str | None, key: str = "k", who: str = "platform", **body: Any) -> Any:
    headers: list[tuple[str, Any]] = [("Idempotency-Key", key), ("Authorization", f"Bearer {site.tokens[who]}")]
    headers += [] if author is None else [("Peerveil-Author", author)]
    return site.client.request("POST", POSTS, headers=headers, json={"thread": "t", "content": "text"} | body)


# ---- the author header ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["platform", "platform all"])
def test_a_platform_posts_for_its_users_whose_history_is_that_of_their_own_tokens(site: Site, who: str) -> None:
    first = site.post(thread="a")  # by the token of "author", an actor of this name
    second = post_for(site, "author", "k2", who, thread="b")
    assert first.status_code == second.status_code == 202
    posts = {post.thread: post for post in held(site.gateway).values()}
    assert posts["a"].person == posts["b"].person
    start = posts["b"].arrived  # a follow-up waits for the gap at least, a first post does not
    assert posts["b"].due - start >= 100 * SECOND
    where, own = f"/v1/posts/{second.json()['receipt']}", {"Peerveil-Author": "author"}
    assert site.call("GET", where, who, headers=own).json() == {"state": "held"}
    assert site.call("GET", where, "author").json() == {"state": "held"}
    assert site.call("GET", where, who, headers={"Peerveil-Author": "eve"}).status_code == 404
    assert site.call("PATCH", where, who, headers=own, json={"content": "new"}).json() == {"state": "held"}
    assert site.call("DELETE", where, who, headers=own).json() == {"state": "withdrawn"}
    assert site.call("GET", "/v1/spaces/forum/feed", who).status_code == 200


def test_the_header_is_refused_by_name_and_never_repeated(site: Site) -> None:
    missing = post_for(site, None)
    assert missing.status_code == 400
    assert "Peerveil-Author" in missing.json()["message"]
    for bad in (b"", b" ", b"x" * 201, b"evil\xff", "a\u0085b".encode(), "a\u2028b".encode(), "\u202eevil".encode()):
        answer = post_for(site, bad)
        assert answer.status_code == 400, bad
        assert "Peerveil-Author" in answer.json()["message"]
        assert "evil" not in answer.text
    twice = [("Peerveil-Author", "evil"), ("Peerveil-Author", "kim")]
    headers = [*twice, ("Idempotency-Key", "k"), ("Authorization", f"Bearer {site.tokens['platform']}")]
    assert site.client.request("POST", POSTS, headers=headers, json={"thread": "t", "content": "x"}).status_code == 400
    for who in ("author", "reader", "operator"):
        answer = post_for(site, "evil", who=who)
        assert answer.status_code == 403
    assert post_for(site, "Kim Åström, 金".encode(), "k3").status_code == 202
    for method in ("GET", "PATCH", "DELETE"):
        assert site.call(method, "/v1/posts/x", "platform", json={"content": "x"}).status_code == 400
    for secret in ("evil", "Åström", "kim"):
        assert secret not in site.log.getvalue()


# ---- tokens -----------------------------------------------------------------------------------------------------------


def test_tokens_are_issued_in_bulk_listed_and_revoked(site: Site) -> None:
    wanted = {"space": "forum", "role": "author", "actors": ["kim", "lee", "x" * 200]}
    answer = site.call("POST", "/v1/tokens", "operator", json=wanted)
    assert answer.status_code == 201
    issued = answer.json()["tokens"]
    assert [token["actor"] for token in issued] == wanted["actors"]
    assert len({token["token"] for token in issued}) == 3
    site.tokens["kim"] = issued[0]["token"]
    assert site.post("a", "kim").status_code == 202
    listed = site.call("GET", "/v1/tokens", "operator").json()["tokens"]
    assert {"id": issued[1]["id"], "role": "author", "space": "forum", "actor": "lee", "state": "good"} in listed
    assert not any(row["space"] == "*" for row in listed)  # those are for the operators of all spaces
    assert any(row["space"] == "*" for row in site.call("GET", "/v1/tokens", "operator all").json()["tokens"])
    for token in issued:
        assert token["token"] not in json.dumps(listed)
    where = f"/v1/tokens/{issued[0]['id']}"
    assert site.call("DELETE", where, "operator").json() == {"state": "withdrawn"}
    assert site.call("DELETE", where, "operator").status_code == 200
    assert site.post("b", "kim").status_code == 401


def test_who_may_issue_what(site: Site) -> None:
    wanted = {"space": "forum", "role": "author", "actors": ["kim"]}
    for who in ("author", "reader", "platform", None):
        for method in ("GET", "POST"):
            assert site.call(method, "/v1/tokens", who, json=wanted).status_code in (401, 403)
    bad: list[tuple[dict[str, Any], int]] = [
        ({"role": "operator", "actors": [""]}, 422),  # a second operator must be a second person
        ({"space": "*", "role": "platform", "actors": [""]}, 403),
        ({"space": "other"}, 403),
        ({"actors": []}, 422),
        ({"actors": [""]}, 422),
        ({"actors": ["a\nb"]}, 422),
        ({"actors": [" kim"]}, 422),
        ({"actors": ["x" * 201]}, 422),
        ({"actors": ["x"] * 1001}, 422),
        ({"role": "platform", "actors": ["kim"]}, 422),
        ({"more": 1}, 422),
    ]
    before = len(site.gateway.tokens.read_all())
    for change, status in bad:
        assert site.call("POST", "/v1/tokens", "operator", json=wanted | change).status_code == status, change
    assert len(site.gateway.tokens.read_all()) == before
    for name in ("%", "_" * 16, "0" * 16, "%25" * 16):
        assert site.call("DELETE", f"/v1/tokens/{name}", "operator").status_code in (404, 405)
    everywhere = site.gateway.tokens.check(f"Bearer {site.tokens['operator all']}").digest[:16]
    assert site.call("DELETE", f"/v1/tokens/{everywhere}", "operator").status_code == 404


def test_all_sealed_actors_have_one_length(site: Site) -> None:
    site.gateway.issue_tokens(role="author", space="forum", actors=["k", "é" * 200, "金" * 200])
    rows = site.gateway.database.rows(select(tokens.c.actor))
    assert len({len(base64.b64decode(row.actor)) for row in rows}) == 1


# ---- limits -----------------------------------------------------------------------------------------------------------


def test_a_limit_counts_one_person_in_one_space(make: Callable[..., Gateway], sqlite_url: str, time: FakeTime) -> None:
    gateway = make(sqlite_url, limit="3/1h")
    first = job(gateway, "t0", actor="kim", key="k0")
    answer = gateway.take(first)
    for k in (1, 2):
        time.advance(100)
        submit(gateway, f"t{k}", actor="kim")
    time.advance(100)
    with pytest.raises(TooMany, match="20|3/1h") as refused:
        submit(gateway, actor="kim")
    assert refused.value.retry_after == 3600 - 300
    assert gateway.take(first) == answer  # a repetition is no new post
    submit(gateway, actor="lee")
    gateway.leader.drop()  # as after a restart: the sealed entries are known
    with pytest.raises(TooMany):
        submit(gateway, actor="kim")
    time.advance(refused.value.retry_after)
    submit(gateway, actor="kim")
    with pytest.raises(TooMany):
        submit(gateway, actor="kim")
    outcomes = gateway.take_all([job(gateway, "t", f"{k}", actor="max") for k in range(5)])
    assert [isinstance(outcome, TooMany) for outcome in outcomes] == [False] * 3 + [True] * 2


def test_a_limit_is_answered_with_429_and_retry_after(sqlite_url: str, make: Any) -> None:
    site = Site(make(sqlite_url, limit="1/1h"))
    assert site.post("a").status_code == 202
    refused = site.post("b")
    assert (refused.status_code, refused.json()["error"]) == (429, "too_many")
    assert 0 < int(refused.headers["retry-after"]) <= 3600
    assert site.post("c", "author 2").status_code == 202
    site.client.close()


@pytest.mark.parametrize(
    "bad", ["20", "0/1h", "x/1h", "1/", "/1h", "-1/1h", "1/1", "5/8d", "9999999/1h", 20, None, "1/0s", "²/1h"]
)
def test_a_limit_that_cannot_be_is_refused(bad: Any) -> None:
    with pytest.raises(BadInput, match="limit"):
        Space.read("forum", {"gap": "45m", "limit": bad})


# ---- metadata ---------------------------------------------------------------------------------------------------------


def test_metadata_are_sealed_and_come_out_with_the_post(make: Callable[..., Gateway], url: str, time: FakeTime) -> None:
    gateway = make(url)
    fields = {"signature": "Reviewer 金", "fields": {"score": 1.5, "nested": [None, True]}}
    receipt = submit(gateway, metadata=json.dumps(fields))["receipt"]
    submit(gateway, "plain", actor="lee")
    gateway.take(Edit("forum", "kim", receipt, "better"))
    gateway.leader.compact()
    gateway.leader.drop()
    time.advance(1000)
    work(gateway)
    items = {item.thread: item for item in everything(gateway)}
    assert (items["t"].content, items["t"].metadata) == ("better", fields)
    assert items["plain"].metadata is None
    with gateway.database.writing("publish") as connection:  # a row that has something else is read as nothing
        connection.execute(feed.update().values(metadata="[1]"))
    assert everything(gateway)[0].metadata is None


def test_an_edit_replaces_metadata_if_it_has_any(make: Callable[..., Gateway], sqlite_url: str, time: FakeTime) -> None:
    gateway = make(sqlite_url)
    receipt = submit(gateway, metadata='{"a": 1}')["receipt"]
    gateway.take(Edit("forum", "kim", receipt, "x", '{"a": 2}'))
    time.advance(1000)
    work(gateway)
    assert everything(gateway)[0].metadata == {"a": 2}


@pytest.mark.parametrize(
    "bad",
    [[], "x", 1, {"a": "x" * 2000}, {"a": float("inf")}, {"a": float("nan")}, '{"metadata": {"a": 1e999}}',
     '{"metadata": {"a": "\\ud800"}}', '{"metadata": {"a": ' + "[" * 900 + "]" * 900 + "}}",
     '{"metadata": {"a": ' + "9" * 5000 + "}}"],
)  # fmt: skip
def test_hostile_metadata_are_refused(site: Site, bad: Any) -> None:
    body = {"thread": "t", "content": "x"}
    text = (
        json.dumps(body | {"metadata": bad})
        if not isinstance(bad, str) or bad[0] != "{"
        else (json.dumps(body)[:-1] + ", " + bad[1:])
    )
    headers = {"Idempotency-Key": "k", "Content-Type": "application/json"}
    answer = site.call("POST", POSTS, content=text.encode(), headers=headers)
    assert answer.status_code in (400, 422)


def test_the_same_key_with_other_metadata_is_another_request(site: Site) -> None:
    assert site.post(metadata={"a": 1}).status_code == 202
    assert site.post(metadata={"a": 1}).status_code == 202
    assert site.post(metadata={"a": 2}).status_code == 422
    assert site.post("k2", metadata={"a": "\0", "b": "x" * 1950}).status_code == 202


# ---- changes of published posts ---------------------------------------------------------------------------------------


def publish(gateway: Gateway, time: FakeTime, **post: Any) -> str:
    """A post that is in the feed; its receipt."""
    receipt: str = submit(gateway, **post)["receipt"]
    time.advance(1000)
    work(gateway)
    return receipt


def test_an_edit_after_publication_is_an_event_of_its_author(
    make: Callable[..., Gateway], url: str, time: FakeTime
) -> None:
    gateway = make(url)
    receipt = publish(gateway, time, metadata='{"a": 1}')
    with pytest.raises(Conflict, match="Idempotency-Key"):
        gateway.take(Edit("forum", "kim", receipt, "new"))
    with pytest.raises(NotFound):
        gateway.take(Edit("forum", "lee", receipt, "new", key="e1"))
    submit(gateway, "other", actor="kim")
    answer = gateway.take(Edit("forum", "kim", receipt, "new", key="e1"))
    assert set(json.loads(answer)) == {"receipt", "longest_delay"}
    assert gateway.take(Edit("forum", "kim", receipt, "new", key="e1")) == answer
    with pytest.raises(Unprocessable):
        gateway.take(Edit("forum", "kim", receipt, "other text", key="e1"))
    (event,) = [post for post in held(gateway).values() if post.changes]
    assert event.due - event.arrived >= 100 * SECOND  # a follow-up of the post on another thread: the gap at least
    work(gateway)
    assert len(everything(gateway)) == 1  # not before its delay is over
    gateway.leader.compact()
    gateway.leader.drop()
    time.advance(1000)
    work(gateway)
    items = everything(gateway)
    (edit,) = [item for item in items if item.kind == "edit"]
    assert (edit.changes, edit.content, edit.metadata, edit.id) == (items[0].id, "new", {"a": 1}, event.id)
    assert (items[0].content, items[0].metadata, items[0].kind) == ("new", {"a": 1}, "post")
    assert gateway.take(Edit("forum", "kim", receipt, "new", key="e1")) == answer  # also when it is long published
    work(gateway)
    assert len(everything(gateway)) == 3
    with pytest.raises(Conflict, match="change itself"):
        gateway.take(Edit("forum", "kim", json.loads(answer)["receipt"], "new", key="e9"))
    with pytest.raises(Unprocessable, match="reply_to"):
        submit(gateway, reply_to=edit.id)


def test_a_first_edit_is_delayed_like_a_first_post(
    make: Callable[..., Gateway], sqlite_url: str, time: FakeTime
) -> None:
    gateway = make(sqlite_url)
    receipts = [publish(gateway, time, actor=f"p{k}") for k in range(40)]
    for k, receipt in enumerate(receipts):
        gateway.take(Edit("forum", f"p{k}", receipt, "new", key="e"))
    waits = [(post.due - post.arrived) / SECOND for post in held(gateway).values()]
    assert min(waits) < 60  # not all of them wait for the gap of 100 s
    assert len(set(waits)) > 5


def test_changes_on_their_way_are_replaced_and_cancelled(
    make: Callable[..., Gateway], sqlite_url: str, time: FakeTime
) -> None:
    gateway = make(sqlite_url)
    receipt = publish(gateway, time)
    first = gateway.take(Edit("forum", "kim", receipt, "one", key="e1"))
    due = {name: post.due for name, post in held(gateway).items()}
    assert gateway.take(Edit("forum", "kim", receipt, "two", '{"b": 2}', key="e2")) == first  # it draws nothing
    assert gateway.take(Edit("forum", "kim", receipt, "one", key="e1")) == first  # the repetition changes nothing
    assert {name: post.due for name, post in held(gateway).items()} == due
    gateway.leader.drop()
    assert [post.content for post in held(gateway).values()] == ["two"]
    assert gateway.take(Withdraw("forum", "kim", json.loads(first)["receipt"])) == b'{"state": "withdrawn"}'
    time.advance(1000)
    work(gateway)
    assert [item.kind for item in everything(gateway)] == ["post"]
    gateway.take(Edit("forum", "kim", receipt, "three", key="e3"))
    removal = gateway.take(Withdraw("forum", "kim", receipt, key="w1"))
    gateway.leader.compact()
    gateway.leader.drop()
    assert gateway.take(Withdraw("forum", "kim", receipt, key="w1")) == removal
    assert gateway.take(Withdraw("forum", "kim", receipt, key="w2")) == removal
    with pytest.raises(Conflict, match="taken down"):
        gateway.take(Edit("forum", "kim", receipt, "four", key="e4"))
    time.advance(1000)
    work(gateway)
    post, event = everything(gateway)
    assert [post.kind, event.kind, event.changes] == ["removed", "removed", post.id]
    assert [post.content, event.content, post.metadata] == ["", "", None]
    for _ in range(2):  # also as the state has it
        with pytest.raises(Conflict, match="taken down"):
            gateway.take(Edit("forum", "kim", receipt, "four", key="e5"))
        gateway.leader.compact()
        gateway.leader.drop()


def test_an_edit_that_was_done_in_time_is_not_done_again(
    make: Callable[..., Gateway], sqlite_url: str, time: FakeTime
) -> None:
    gateway = make(sqlite_url)
    receipt = submit(gateway)["receipt"]
    answer = gateway.take(Edit("forum", "kim", receipt, "new", key="e1"))
    time.advance(1000)
    work(gateway)
    gateway.leader.compact()
    gateway.leader.drop()
    assert gateway.take(Edit("forum", "kim", receipt, "new", key="e1")) == answer
    assert not held(gateway)


class Interrupted(Publisher):
    """Takes a request to change a post while that is being published, and then dies."""

    request: Edit | None = None
    gateway: Gateway | None = None
    refusal: Exception | None = None

    def publish(self, connection: Connection, space: Space, posts: Any, moment: int) -> None:
        super().publish(connection, space, posts, moment)
        assert self.gateway is not None
        assert self.request is not None
        try:
            outcomes = self.gateway.leader.take(self.gateway.intake, [self.request], self.gateway.read_clock().moment())
            self.refusal = outcomes[0].answer if isinstance(outcomes[0].answer, Exception) else None
        finally:
            raise RuntimeError("killed")


def test_no_change_overtakes_the_post_that_it_changes(
    make: Callable[..., Gateway], sqlite_url: str, time: FakeTime
) -> None:
    gateway = make(sqlite_url)
    receipt = submit(gateway)["receipt"]
    time.advance(1000)
    dying = Interrupted()
    dying.gateway, dying.request = gateway, Edit("forum", "kim", receipt, "new", key="e1")
    gateway.publisher = dying
    with pytest.raises(RuntimeError, match="killed"):
        work(gateway)
    assert isinstance(dying.refusal, Unavailable)
    gateway.publisher = Publisher()
    assert gateway.take(dying.request) == b'{"state": "held"}'  # nothing was published: it is held still
    work(gateway)
    assert [(item.kind, item.content) for item in everything(gateway)] == [("post", "new")]


def test_an_operator_takes_a_post_down_at_once(make: Callable[..., Gateway], url: str, time: FakeTime) -> None:
    gateway = make(url)
    receipt = publish(gateway, time, metadata='{"a": 1}')
    (item,) = everything(gateway)
    _, cursor = gateway.read("forum")
    gateway.take(Edit("forum", "kim", receipt, "back again", key="e1"))
    operator = gateway.tokens.check(f"Bearer {gateway.issue_token(role='operator', space='*')}")
    reader = gateway.tokens.check(f"Bearer {gateway.issue_token(role='reader', space='forum')}")
    with pytest.raises(Forbidden):
        take_down(gateway, reader, "forum", item.id, "a court's order, 17")
    with pytest.raises(BadInput, match="reason"):
        take_down(gateway, operator, "forum", item.id, "short")
    with pytest.raises(NotFound):
        take_down(gateway, operator, "forum", "0" * 32, "a court's order, 17")
    for _ in range(2):
        take_down(gateway, operator, "forum", item.id, "a court's order, 17")
    removal = gateway.read("forum", cursor)[0]
    assert [(entry.kind, entry.changes) for entry in removal] == [("removed", item.id)]
    assert [row["action"] for row in read_audit(gateway, operator)] == ["removal"]
    with pytest.raises(Unprocessable, match="is a change"):
        take_down(gateway, operator, "forum", removal[0].id, "a court's order, 17")
    time.advance(1000)
    work(gateway)  # the edit that was on its way brings nothing back
    assert {(entry.kind, entry.content, entry.metadata) for entry in everything(gateway)} == {("removed", "", None)}
    assert len(everything(gateway)) == 3


def test_readers_of_atom_and_rss_see_the_latest_text_once(
    make: Callable[..., Gateway], sqlite_url: str, time: FakeTime
) -> None:
    gateway = make(sqlite_url)
    receipts = [publish(gateway, time, content=f"text {k}") for k in range(2)]
    gateway.take(Edit("forum", "kim", receipts[0], "better", key="e"))
    gateway.take(Withdraw("forum", "kim", receipts[1], key="w"))
    time.advance(1000)
    work(gateway)
    first, second = (item.id for item in everything(gateway)[:2])
    newest = gateway.latest("forum")
    for text in (atom("forum", newest), rss("forum", newest)):
        assert text.count(f"urn:peerveil:{first}") == text.count("better") == 1
        assert "text" not in text.replace('type="text"', "")
    assert f'<at:deleted-entry ref="urn:peerveil:{second}"' in atom("forum", newest)
    assert second not in rss("forum", newest)


def test_changes_over_http(site: Site, time: FakeTime) -> None:
    receipt = post_for(site, "kim").json()["receipt"]
    time.advance(1000)
    work(site.gateway)
    where, own = f"/v1/posts/{receipt}", {"Peerveil-Author": "kim"}
    assert site.call("PATCH", where, "platform", headers=own, json={"content": "x"}).status_code == 409
    keyed = own | {"Idempotency-Key": "e1"}
    assert site.call("PATCH", where, "platform", headers=keyed, json={"content": "x" * 20_001}).status_code == 422
    answer = site.call("PATCH", where, "platform", headers=keyed, json={"content": "x", "metadata": {"b": 1}})
    assert (answer.status_code, set(answer.json())) == (202, {"receipt", "longest_delay"})
    assert site.call("DELETE", where, "platform", headers=own | {"Idempotency-Key": "w"}).json() == answer.json()
    (item,) = site.call("GET", "/v1/spaces/forum/feed", "platform").json()["items"]
    removal = {"id": item["id"], "reason": "a court's order, 17"}
    assert site.call("POST", "/v1/spaces/forum/removals", "platform", json=removal).status_code == 403
    assert site.call("POST", "/v1/spaces/forum/removals", "operator", json=removal).json() == {"state": "removed"}
    for bad in ({"id": "x"}, {"reason": "short"}, {"more": 1}, {"reason": "a\nb" * 10}):
        answer = site.call("POST", "/v1/spaces/forum/removals", "operator", json=removal | bad)
        assert answer.status_code == 422


def test_other_processes_pass_everything_on(make: Callable[..., Gateway], sqlite_url: str) -> None:
    gateway = make(sqlite_url)
    whole = job(gateway, metadata='{"a": 1}')
    kind, space, *fields = written(whole)
    assert type(whole)(gateway.space(space), *fields) == whole
    for request in (Edit("forum", "kim", "r", "x", "{}", "k"), Withdraw("forum", "kim", "r", "k")):
        kind, *fields = json.loads(json.dumps(written(request)))
        passed = Edit(*fields) if kind == "edit" else Withdraw(*fields)
        assert passed == request
