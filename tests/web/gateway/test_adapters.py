"""Adapters against fakes of the platforms: every item is posted once, in the order of the feed, whatever fails."""

from __future__ import annotations

import json
import logging
import pickle
import re
import sqlite3
import sys
import types
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import pytest
from tests.web.gateway.fakes import FakeDiscourse, FakeHotCRP, FakeOpenReview, FakePlatform
from tests.web.gateway.helpers import SECOND, FakeTime, submit, work

from peerveil.core.errors import BadInput
from peerveil.web.common import Journal
from peerveil.web.gateway import DiscoursePoster, Follower, HotCRPPoster, OpenReviewPoster, Refused, client
from peerveil.web.gateway.client import Unavailable, Undeliverable
from peerveil.web.gateway.intake import Edit, Withdraw
from peerveil.web.gateway.webhooks import Deliveries, sign

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DOCS = Path(__file__).parents[3] / "docs" / "howto"
ORPHAN = "In reply to a comment that is not shown here."
FAKES: dict[str, type[FakePlatform]] = {"openreview": FakeOpenReview, "hotcrp": FakeHotCRP, "discourse": FakeDiscourse}


def poster_for(fake: Any, **more: Any) -> Any:
    """As an engineer would configure it; thread "1" is a paper, forum or topic of the fake."""
    if isinstance(fake, FakeOpenReview):
        forums = {"1": "forum1", "2": "forum2"}
        settings: dict[str, Any] = {"token": fake.sign_in, "signature": "V/Chairs", "forums": forums}
        return OpenReviewPoster(fake.url, invitation="V/Submission{thread}/-/Public_Comment", **settings | more)
    if isinstance(fake, FakeHotCRP):
        return HotCRPPoster(fake.url, **{"token": fake.TOKEN} | more)
    return DiscoursePoster(fake.url, **{"key": fake.KEY, "username": "system"} | more)


@pytest.fixture(params=FAKES)
def fake(request: pytest.FixtureRequest) -> Iterator[Any]:
    with FAKES[request.param]() as server:
        yield server


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long a follower paused; it does not in tests."""
    slept: list[float] = []
    monkeypatch.setattr("peerveil.web.gateway.client.time.sleep", slept.append)
    return slept


def item(number: int, content: str, thread: str = "1", reply_to: int | None = None, **more: Any) -> dict[str, Any]:
    parent = None if reply_to is None else f"{reply_to:032x}"
    moment = "2027-01-15T08:00:00Z"
    entry = {"id": f"{number:032x}", "thread": thread, "content": content, "reply_to": parent, "posted_at": moment}
    return entry | more


ITEMS = [
    item(7, "The proof of Lemma 2 lacks a case."),
    item(3, "+1"),
    item(5, "Which case?", reply_to=7),
    item(4, "+1", "2"),
]
TEXTS = [entry["content"] for entry in ITEMS]


def change(number: int, about: dict[str, Any], content: str | None, **more: Any) -> dict[str, Any]:
    """An edit of an item, or its removal, as the feed shows it."""
    kind = "removed" if content is None else "edit"
    metadata = None if content is None else about.get("metadata")
    entry = {"id": f"{number:032x}", "content": content or "", "kind": kind, "changes": about["id"]}
    return about | entry | {"metadata": metadata} | more


CHANGES = [
    *ITEMS[:3],
    change(11, ITEMS[0], "The proof of Lemma 2 lacks two cases."),
    change(12, ITEMS[2], "Which two cases?"),
    change(13, ITEMS[1], None),
]
CHANGED = ["The proof of Lemma 2 lacks two cases.", "Which two cases?"]


class Feed:
    """A gateway's client, as far as a follower uses it."""

    def __init__(self, items: list[dict[str, Any]], most: int = 3) -> None:
        self.items, self.most = items, most

    def page(self, space: str, after: str | None, limit: int) -> tuple[list[dict[str, Any]], str]:
        start = int(after or 0)
        items = self.items[start : start + min(limit, self.most)]
        return items, str(start + len(items))


def follow(feed: Any, poster: Callable[[Any], object], folder: Path) -> Follower:
    """Hand over all that is there, as ``run`` does."""
    follower = Follower(feed, "forum", poster, folder / "state.json")
    follower.run(1.0, stop=partial(is_at_end, follower, feed))
    return follower


def is_at_end(follower: Follower, feed: Feed) -> bool:
    return bool(follower._read()["cursor"] == str(len(feed.items)))


def plain(texts: list[str]) -> list[str]:
    """Without the line that names the parent."""
    return [text.removeprefix("Reply to comment @A1\n\n") for text in texts]


def parent_of(fake: Any, number: int) -> Any:
    """What the platform stores as the parent of a text."""
    if isinstance(fake, FakeOpenReview):
        return [note["replyto"] for note in fake.notes if "comment" in note["content"]][number]
    if isinstance(fake, FakeDiscourse):
        return fake.posts[len(fake.topics) + number]["reply_to_post_number"]
    return fake.texts()[number].startswith("Reply to comment @A1")


def parents(fake: Any) -> tuple[Any, Any]:
    """The parents of the reply and of another post in :data:`ITEMS`, as they should be."""
    if isinstance(fake, FakeOpenReview):
        return next(note["id"] for note in fake.notes if "comment" in note["content"]), "forum1"
    return (2, None) if isinstance(fake, FakeDiscourse) else (True, False)


# ---- what arrives -----------------------------------------------------------------------------------------------


def test_items_arrive_once_in_the_order_of_the_feed_with_their_parents(fake: Any, tmp_path: Path, naps: Any) -> None:
    follow(Feed(ITEMS), poster_for(fake), tmp_path)
    assert plain(fake.texts()) == TEXTS
    assert (parent_of(fake, 2), parent_of(fake, 1)) == parents(fake)
    # a follower that lost its state file hands everything over again
    (tmp_path / "state.json").unlink()
    follow(Feed(ITEMS), poster_for(fake), tmp_path)
    assert plain(fake.texts()) == TEXTS
    assert (tmp_path / "state.json").stat().st_mode & 0o077 == 0
    assert not any("created_at" in (body or {}) for _, _, body in fake.requests)


def test_what_is_sent_is_a_function_of_the_feed(tmp_path: Path, naps: Any) -> None:
    """Two platforms with the same feed get the same requests, at whatever pace the feed was read."""
    for kind in FAKES.values():
        sent = []
        for most in (1, 100):
            with kind() as fake:
                folder = tmp_path / f"{kind.__name__}{most}"
                folder.mkdir()
                follow(Feed(ITEMS, most), poster_for(fake), folder)
                sent.append(fake.requests)
        assert sent[0] == sent[1]


def test_nothing_reaches_a_platform_before_the_release(
    sqlite_url: str, make: Any, time: FakeTime, tmp_path: Path
) -> None:
    gateway = make(sqlite_url)

    class Direct:
        def page(self, space: str, after: str | None, limit: int) -> tuple[list[dict[str, Any]], str]:
            items, cursor = gateway.read(space, after, limit)
            return [vars(entry) for entry in items], cursor

    source: Any = Direct()
    for k in range(6):
        submit(gateway, str(1 + k % 2), f"Text number {k} of these posts", actor=f"person {k % 3}")
    expected: list[str] = []
    with FakeOpenReview() as fake:
        follower = Follower(source, "forum", poster_for(fake), tmp_path / "state.json")
        assert follower.step() == 0
        assert fake.requests == []
        for seconds in (1, 20, 20, 20, 20, 20, 1000):
            time.advance(seconds)
            work(gateway)
            follower.step()
            expected = [entry.content for entry in gateway.read("forum")[0]]
            assert fake.texts() == expected
    assert len(expected) == 6
    assert time.now > 100 * SECOND


def test_edits_and_removals_reach_a_platform_from_the_gateway(
    fake: Any, sqlite_url: str, make: Any, time: FakeTime, tmp_path: Path
) -> None:
    """With the name under which the post appeared, though only the post was given it; a reply stays one."""
    gateway, name = make(sqlite_url), {"signature": "V/Submission1/Reviewer_AbCd", "username": "reviewer7"}

    class Direct:
        def page(self, space: str, after: str | None, limit: int) -> tuple[list[dict[str, Any]], str]:
            items, cursor = gateway.read(space, after, limit)
            return [vars(entry) for entry in items], cursor

    source: Any = Direct()
    follower = Follower(source, "forum", poster_for(fake), tmp_path / "state.json")

    def release(count: int) -> list[str]:
        time.advance(1000)
        work(gateway)
        assert follower.step() == count
        return [text.removeprefix("V/Submission1/Reviewer_AbCd:\n\n") for text in plain(fake.texts())]

    first = submit(gateway, "1", "A first text.", actor="kim", metadata=json.dumps(name))
    assert release(1) == ["A first text."]
    reply = submit(gateway, "1", "An answer.", actor="lee", reply_to=gateway.read("forum")[0][0].id)
    assert release(1)[-1].endswith("An answer.")
    before = parent_of(fake, 1)
    gateway.take(Edit("forum", "kim", first["receipt"], "A better text.", key="e"))
    gateway.take(Edit("forum", "lee", reply["receipt"], "A better answer.", key="f"))
    texts = release(2)
    assert [texts[0], texts[1].rpartition("\n")[2]] == ["A better text.", "A better answer."]
    assert parent_of(fake, 1) == before
    if isinstance(fake, FakeOpenReview):
        assert [note["signatures"] for note in fake.notes[2:]] == [[name["signature"]], ["V/Chairs"]]
    gateway.take(Withdraw("forum", "kim", first["receipt"], key="g"))
    assert len(release(1)) == 1


def test_only_posts_of_our_own_account_count(fake: Any) -> None:
    """Whoever sees an id in the feed and posts its mark first does not keep the item from the platform."""
    first = ITEMS[0]
    if isinstance(fake, FakeOpenReview):
        content = {"comment": {"value": "forged"}, "peerveil_id": {"value": first["id"]}}
        note = {"id": "n", "forum": "forum1", "replyto": "forum1", "signatures": ["~Mallory1"], "content": content}
        fake.notes.append(note)
    elif isinstance(fake, FakeHotCRP):
        entry = {"pid": 1, "cid": 1, "ordinal": "A1", "text": "forged", "tags": [f"peerveil-{first['id']}#0"]}
        fake.comments.append(entry)
    else:
        fake.store(1, f"forged\n\n<!-- peerveil {first['id']} -->", "reviewer7")
    poster = poster_for(fake)
    poster(first)
    poster(first)
    assert fake.texts() == ["forged", first["content"]]


def test_a_reply_whose_parent_is_missing_says_so(fake: Any) -> None:
    poster_for(fake)(item(9, "I do not think so.", reply_to=8))
    assert fake.texts() == [f"{ORPHAN}\n\nI do not think so."]


def test_a_long_thread_is_read_to_its_end() -> None:
    with FakeDiscourse() as fake:
        for k in range(70):
            fake.store(1, f"A post of somebody else, number {k}", "reviewer7")
        poster_for(fake)(ITEMS[0])
        poster_for(fake)(ITEMS[0])
        poster = poster_for(fake)
        for _ in range(2):
            fake.requests.clear()
            poster(ITEMS[0])
        assert [path for _, path, _ in fake.requests] == [
            "/t/1.json?include_raw=true"
        ]  # what is known is not read again
        assert len(fake.texts()) == 71
    with FakeOpenReview() as fake:
        note = {"forum": "forum1", "replyto": "forum1", "signatures": ["~A1"], "content": {}}
        fake.notes += [note | {"id": f"a{k:05}"} for k in range(2300)]
        poster_for(fake)(ITEMS[0])
        poster_for(fake)(ITEMS[0])
        assert fake.texts() == TEXTS[:1]


# ---- edits and removals -----------------------------------------------------------------------------------------


def test_edits_and_removals_follow_and_are_done_once(fake: Any, tmp_path: Path, naps: Any) -> None:
    follow(Feed(CHANGES), poster_for(fake), tmp_path)
    assert plain(fake.texts()) == CHANGED
    assert fake.changes == 3
    if isinstance(fake, FakeHotCRP):
        assert fake.texts()[1].startswith("Reply to comment @A1\n\n")
        assert fake.comments[0]["tags"] == [f"peerveil-{ITEMS[0]['id']}#0"]
    for entry in CHANGES[3:]:  # once more, each
        poster_for(fake)(entry)
    (tmp_path / "state.json").unlink()  # and all of them, as the feed has them now
    follow(Feed([*now(CHANGES)]), poster_for(fake), tmp_path)
    assert plain(fake.texts()) == CHANGED
    assert fake.changes == 3
    poster = poster_for(fake)
    for text in ("one", "The proof of Lemma 2 lacks a case, though.", "one"):  # there and back by one process
        poster(change(14, ITEMS[0], text))
        assert plain(fake.texts())[0] == text


def now(items: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A feed as it is read later: earlier entries about a post have its newest text, or none."""
    for entry in items:
        name = entry.get("changes") or entry["id"]
        last = [other for other in items if (other.get("changes") or other["id"]) == name][-1]
        gone = {"kind": "removed", "metadata": None} if last.get("kind") == "removed" else {}
        yield entry | {"content": last["content"]} | gone


@pytest.mark.parametrize("kind", FAKES.values(), ids=FAKES)
def test_no_crash_at_any_step_loses_or_doubles_a_change(
    kind: type[FakePlatform], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = lambda fake: plain(fake.texts()) == CHANGED and fake.changes == 3  # noqa: E731
    steps, wrong = crash_everywhere(
        kind, lambda poster: poster, tmp_path, monkeypatch, items=CHANGES, first=15, is_right=right
    )
    assert wrong == 0
    assert steps >= 6 * 3 * 2

    def forgetful(poster: Any) -> Any:
        """A poster that changes what is changed already."""
        object.__setattr__(poster, "_is_same", lambda *_: False)
        return poster

    (tmp_path / "forgetful").mkdir()
    arguments = (kind, forgetful, tmp_path / "forgetful", monkeypatch, 3)
    assert crash_everywhere(*arguments, items=CHANGES, first=15, is_right=right)[1] >= 1


def test_a_change_keeps_the_name_and_takes_new_fields() -> None:
    metadata = {"signature": "V/Submission1/Reviewer_AbCd", "fields": {"rating": 7}}
    with FakeOpenReview() as fake:
        first = ITEMS[0] | {"metadata": metadata}
        poster_for(fake)(first)
        poster_for(fake)(change(2, first, "New.", metadata=metadata | {"fields": {"rating": 5}}))
        note = fake.notes[-1]
        assert (note["content"]["rating"]["value"], note["signatures"]) == (5, [metadata["signature"]])
        assert (fake.texts(), fake.changes) == (["New."], 1)
        poster_for(fake)(change(3, first, None))
        assert "ddate" in note
        assert fake.texts() == []
        with pytest.raises(Undeliverable, match="does not have the post"):  # what is deleted stays so
            poster_for(fake)(change(4, first, "Newer."))
    with FakeDiscourse() as fake:
        first = ITEMS[0] | {"metadata": {"username": "reviewer7"}}
        poster_for(fake)(first)
        poster_for(fake)(change(2, first, "New."))
        assert (fake.texts(), fake.posts[-1]["username"]) == (["New."], "reviewer7")
        poster_for(fake)(change(3, first, None))
        assert fake.texts() == []


def test_what_is_not_there_needs_no_removal_and_gets_no_edit(fake: Any) -> None:
    poster_for(fake)(change(2, ITEMS[0], None))
    with pytest.raises(Undeliverable, match="does not have the post"):
        poster_for(fake)(change(3, ITEMS[0], "New."))
    assert (fake.texts(), fake.changes) == ([], 0)


def test_a_forged_mark_neither_gets_an_edit_nor_stops_a_removal() -> None:
    first, edit, removal = ITEMS[0], change(2, ITEMS[0], "New."), change(3, ITEMS[0], None)
    with FakeOpenReview() as fake:
        content = {"comment": {"value": "forged"}, "peerveil_id": {"value": first["id"]}}
        note = {"id": "n", "forum": "forum1", "replyto": "forum1", "signatures": ["~Mallory1"], "content": content}
        fake.notes.append(note | {"invitations": ["V/Submission1/-/Public_Comment"]})
        for entry in (first, edit):
            poster_for(fake)(entry)
        assert fake.texts() == ["forged", "New."]
        poster_for(fake)(removal)
        poster_for(fake)(removal)
        assert fake.texts() == ["forged"]
    with FakeDiscourse() as fake:
        fake.posts[0]["raw"] += f"\n<!-- peerveil {first['id']} -->"  # of the topic: deleting it would delete all
        fake.store(1, f"a wiki\n\n<!-- peerveil {first['id']} -->", "system")["wiki"] = True
        with pytest.raises(Undeliverable, match="somebody must look"):
            poster_for(fake)(removal)
        poster_for(fake, username="reviewer7")(first)
        poster_for(fake)(removal)
        assert fake.texts() == ["a wiki"]
        fake.store(1, "of the administrator", "system")
        fake.posts[-1]["raw"] += f"\n\n<!-- peerveil {ITEMS[1]['id']} -->"
        with pytest.raises(Undeliverable, match="must be staff"):
            poster_for(fake, username="reviewer7")(change(4, ITEMS[1], None))


def test_what_was_set_aside_follows_edits_and_removals(tmp_path: Path, naps: Any) -> None:
    """An author's old text never comes back by :meth:`Follower.retry`."""
    lost = [item(20 + k, f"old text {k}", "99") for k in range(3)]
    feed = Feed([*lost, change(30, lost[0], "new text"), change(31, lost[1], None), *ITEMS[:1]])
    with FakeHotCRP() as fake:
        follower = follow(feed, poster_for(fake), tmp_path)
        assert [entry["item"]["content"] for entry in follower.undelivered()][:2] == ["new text", "old text 2"]
        mended = Follower(follower.client, "forum", poster_for(fake, papers={"99": 2}), follower.state)
        mended.retry()
        assert (fake.texts(), mended.undelivered()) == ([*TEXTS[:1], "new text", "old text 2"], [])


# ---- metadata ---------------------------------------------------------------------------------------------------


def test_metadata_name_the_signature_and_form_fields() -> None:
    with FakeOpenReview() as fake:
        metadata = {"signature": "V/Submission1/Reviewer_AbCd", "fields": {"rating": 7, "peerveil_id": "forged"}}
        for _ in range(2):
            poster_for(fake)(ITEMS[0] | {"metadata": metadata})
        note = fake.notes[-1]
        assert fake.texts() == TEXTS[:1]
        assert note["signatures"] == ["V/Submission1/Reviewer_AbCd"]
        assert note["content"]["rating"] == {"value": 7}
        assert note["content"]["peerveil_id"] == {"value": ITEMS[0]["id"]}
    with FakeHotCRP() as fake:
        metadata = {"signature": "Reviewer 2", "fields": {"visibility": "pc", "text": "other"}}
        for _ in range(2):
            poster_for(fake)(ITEMS[1] | {"metadata": metadata})
        assert fake.texts() == ["Reviewer 2:\n\n+1"]
        assert [fake.comments[0][name] for name in ("visibility", "topic")] == ["pc", "paper"]
        assert fake.mails == 0
        poster_for(fake, notify=True)(ITEMS[0])
        assert fake.mails == 1
    with FakeDiscourse() as fake:
        for _ in range(2):
            poster_for(fake)(ITEMS[0] | {"metadata": {"username": "reviewer7", "fields": {"locale": "en"}}})
        assert (fake.texts(), fake.posts[-1]["username"]) == (TEXTS[:1], "reviewer7")
        assert fake.requests[1][2]["locale"] == "en"


@pytest.mark.parametrize("metadata", [None, "sealed text", 3, ["a"], {"signature": 3, "username": None, "fields": "x"}])
def test_metadata_of_another_form_change_nothing(fake: Any, metadata: Any) -> None:
    poster_for(fake)(ITEMS[0] | {"metadata": metadata})
    assert fake.texts() == TEXTS[:1]


def test_metadata_cannot_date_or_delete_anything(tmp_path: Path, naps: Any) -> None:
    for kind, name in ((FakeDiscourse, "created_at"), (FakeHotCRP, "delete"), (FakeHotCRP, "cid")):
        with kind() as fake, pytest.raises(Undeliverable, match=name):
            poster_for(fake)(ITEMS[0] | {"metadata": {"fields": {name: "1"}}})


# ---- refusals ---------------------------------------------------------------------------------------------------


def test_a_thread_that_the_platform_does_not_have_is_set_aside_and_the_others_go_on(
    fake: Any, tmp_path: Path, naps: Any, caplog: pytest.LogCaptureFixture
) -> None:
    unknown = item(1, "to nowhere", "99")
    with caplog.at_level(logging.WARNING):
        follower = follow(Feed([*ITEMS[:2], unknown, *ITEMS[2:]]), poster_for(fake), tmp_path)
    assert plain(fake.texts()) == TEXTS
    (entry,) = follower.undelivered()
    assert entry["item"] == unknown
    assert re.search("404|not found", entry["reason"])
    assert unknown["id"] in caplog.text
    assert follower.retry() == 0
    names = {FakeOpenReview: "forums", FakeHotCRP: "papers", FakeDiscourse: "topics"}
    place = "forum2" if isinstance(fake, FakeOpenReview) else 2
    if isinstance(fake, FakeOpenReview):
        fake.invitations["V/Submission99/-/Public_Comment"] = fake.invitations["V/Submission1/-/Public_Comment"]
    mended = Follower(follower.client, "forum", poster_for(fake, **{names[type(fake)]: {"99": place}}), follower.state)
    assert (mended.retry(), mended.undelivered(), mended.step()) == (1, [], 0)
    assert plain(fake.texts()) == [*TEXTS, "to nowhere"]


def test_a_wrong_credential_stops_it_and_says_what_to_configure(fake: Any, tmp_path: Path, naps: Any) -> None:
    wrong = {FakeOpenReview: ("token", lambda: "x"), FakeHotCRP: ("token", "hct_x"), FakeDiscourse: ("key", "x")}
    name, value = wrong[type(fake)]
    with pytest.raises(Refused, match=f"`{name}` must") as refusal:
        follow(Feed(ITEMS), poster_for(fake, **{name: value}), tmp_path)
    assert refusal.value.status in (401, 403)
    assert not isinstance(refusal.value, (Unavailable, Undeliverable))
    follow(Feed(ITEMS), poster_for(fake), tmp_path)  # once it is mended, nothing is lost
    assert plain(fake.texts()) == TEXTS


def test_an_expired_token_of_openreview_is_replaced(tmp_path: Path, naps: Any) -> None:
    with FakeOpenReview() as fake:
        poster = poster_for(fake)
        for entry in ITEMS:
            poster(entry)
            fake.expired |= fake.tokens
        assert fake.texts() == TEXTS
        assert len(fake.tokens) == len(ITEMS)
        with pytest.raises(Refused, match="signatures"):
            poster_for(fake, signature="V/Nobody")(item(1, "x"))


@pytest.mark.parametrize("fault", [429, 500, 502, 503, "drop", "lose"])
def test_a_platform_that_is_down_or_busy_gets_the_same_item_again(
    fake: Any, fault: int | str, tmp_path: Path, naps: list[float]
) -> None:
    """Also when a post was stored and its answer was lost: then it is looked for first, after a while."""
    for before in (0, 1):  # the first request reads, the second posts
        feed = Feed([item(100 + before, f"A text that is number {before}")])
        fake.faults.clear()
        fake.faults.extend([*([None] * before), fault])
        folder = tmp_path / str(before)
        folder.mkdir()
        follow(feed, poster_for(fake), folder)
    assert fake.texts() == ["A text that is number 0", "A text that is number 1"]
    assert naps == [2.0, 2.0 if fault == 429 else 60.0]


def test_the_platform_says_how_long_to_wait(tmp_path: Path, naps: list[float]) -> None:
    with FakeDiscourse(most_requests=3) as fake:
        follow(Feed(ITEMS), poster_for(fake), tmp_path)
        assert fake.texts() == TEXTS
        assert 37.0 in naps
    with FakeHotCRP() as fake:
        fake.retry_after = "Wed, 21 Oct 2026 07:28:00 GMT"  # the other form: the usual pauses
        fake.faults.extend([503] * 12)
        naps.clear()
        (tmp_path / "state.json").unlink()
        follow(Feed(ITEMS), poster_for(fake), tmp_path)
        assert naps[:3] == [2.0, 4.0, 8.0]
        assert max(naps) == 600.0
        assert plain(fake.texts()) == TEXTS


def test_a_platform_that_cannot_be_reached(tmp_path: Path) -> None:
    with FakeHotCRP() as fake:
        poster = poster_for(fake)
    with pytest.raises(Unavailable, match="answered 0"):
        poster(ITEMS[0])


def test_answers_that_are_none_of_the_api_lose_nothing(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = fake.answer
    monkeypatch.setattr(fake, "answer", lambda *_: (200, {"welcome": "to this network"}, {}))
    with pytest.raises(Unavailable, match="another form"):
        poster_for(fake)(ITEMS[0])
    monkeypatch.setattr(fake, "answer", lambda *_: (301, {}, {"Location": "https://elsewhere"}))
    with pytest.raises(Refused, match="`url` must"):
        poster_for(fake)(ITEMS[0])
    monkeypatch.setattr(fake, "answer", answer)
    with pytest.raises(BadInput, match="url"):
        HotCRPPoster("nonsense", token="x")


def test_discourse_refuses_what_it_checks_and_finds_topics_by_external_id(tmp_path: Path, naps: Any) -> None:
    with FakeDiscourse() as fake:
        strict = poster_for(fake, skip_validations=False)
        with pytest.raises(Undeliverable, match="too short"):
            strict(ITEMS[1])
        strict(item(1, "A text that is long enough"))
        strict(item(2, "A text that is long enough"))  # the mark makes them different
        poster_for(fake)(item(3, "to a topic by name", "paper-2"))
        assert fake.posts[-1]["topic_id"] == 2
        fake.closed.add(2)
        with pytest.raises(Refused, match="topic must be open"):
            poster_for(fake)(item(4, "to a closed topic", "2"))
        with pytest.raises(Undeliverable, match="404"):
            poster_for(fake)(item(5, "to no topic", "paper-3"))
    with FakeHotCRP() as fake, pytest.raises(Undeliverable, match="`papers`"):
        poster_for(fake)(item(5, "to no paper", "paper-3"))


def test_errors_can_be_sent_between_processes() -> None:
    for error in (Unavailable(429, "busy", 7.0), Undeliverable(404, "gone")):
        copied = pickle.loads(pickle.dumps(error))
        assert (type(copied), vars(copied), str(copied)) == (type(error), vars(error), str(error))


# ---- crashes ----------------------------------------------------------------------------------------------------


class Crash(BaseException):
    """The process ends."""


class Crashing:
    """Ends the process before or after the k-th request or write."""

    def __init__(self, at: int) -> None:
        self.at, self.count = at, 0

    def __call__(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **more: Any) -> Any:
            self._pass()
            result = real(*arguments, **more)
            self._pass()
            return result

        return step

    def _pass(self) -> None:
        self.count += 1
        if self.count == self.at:
            raise Crash


def write_plainly(path: Path, text: str, **_: Any) -> None:
    """Without waiting for the disk, which is tested elsewhere."""
    path.write_text(text)


def is_all_there(fake: Any) -> bool:
    """Whether every item is there once, with its parent."""
    return plain(fake.texts()) == TEXTS and (parent_of(fake, 2), parent_of(fake, 1)) == parents(fake)


def crash_everywhere(
    kind: type[FakePlatform],
    change: Callable[[Any], Any],
    folder: Path,
    patch: Any,
    stride: int = 1,
    items: list[dict[str, Any]] = ITEMS,
    first: int = 1,
    is_right: Callable[[Any], bool] = is_all_there,
) -> tuple[int, int]:
    """The last step at which a process was ended, and at how many of them something was lost or doubled."""
    wrong, at = 0, first - stride
    while True:
        at += stride
        state = folder / f"{kind.__name__}{at}.json"
        crashing = Crashing(at)
        is_over = False
        with kind() as fake:
            for life in range(2):  # a process that crashes, and the next
                poster = change(poster_for(fake))
                if life == 0:
                    object.__setattr__(poster, "_send", crashing(poster._send))
                    patch.setattr("peerveil.web.gateway.client.write_text", crashing(write_plainly))
                else:
                    patch.setattr("peerveil.web.gateway.client.write_text", write_plainly)
                source: Any = Feed(items)
                follower = Follower(source, "forum", poster, state)
                try:
                    while not is_at_end(follower, source):
                        follower.step()
                    is_over = is_over or life == 0
                except Crash:
                    pass
            wrong += not is_right(fake)
        if is_over:
            return at - stride, wrong


@pytest.mark.parametrize("kind", FAKES.values(), ids=FAKES)
def test_no_crash_at_any_step_loses_or_doubles_an_item(
    kind: type[FakePlatform], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, wrong = crash_everywhere(kind, lambda poster: poster, tmp_path, monkeypatch)
    assert wrong == 0
    assert steps >= 4 * 3 * 2  # per item: read, post, write; before and after

    def blind(poster: Any) -> Any:
        """A poster that does not look for what it posted."""
        read = poster._posted
        hide = {entry["id"] for entry in ITEMS[1:]}
        look = lambda place: {mark: posts for mark, posts in read(place).items() if mark not in hide}  # noqa: E731
        object.__setattr__(poster, "_posted", look)
        return poster

    folder = tmp_path / "blind"
    folder.mkdir()
    assert crash_everywhere(kind, blind, folder, monkeypatch, stride=3)[1] >= 1


# ---- the pages --------------------------------------------------------------------------------------------------


def code_of(page: str) -> str:
    found = re.search(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    assert found
    assert len([line for line in found[1].splitlines() if line]) <= 14
    return found[1]


@pytest.mark.parametrize("name", FAKES)
def test_the_code_of_the_pages_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = code_of(f"adapters-{name}.md")
    thread = {"openreview": "1", "hotcrp": "paper 1", "discourse": "paper-1"}[name]
    feed = Feed([entry | {"thread": thread} for entry in ITEMS[:3]])
    monkeypatch.setattr(client.GatewayClient, "page", lambda _, *arguments: feed.page(*arguments))
    monkeypatch.setattr(Follower, "run", lambda self: [*iter(self.step, 0)])
    module: Any = types.ModuleType("openreview")

    class OpenReviewClient:
        """Signs in as openreview-py does."""

        def __init__(self, baseurl: str) -> None:
            body = json.dumps({"id": "chair@example.org", "password": "secret"}).encode()
            request = Request(baseurl + "/login", body, {"Content-Type": "application/json"})
            with urlopen(request) as answer:
                self.token = json.load(answer)["token"]

    module.api = types.SimpleNamespace(OpenReviewClient=OpenReviewClient)
    monkeypatch.setitem(sys.modules, "openreview", module)
    with FAKES[name]() as fake:
        addresses = r"https://(?:api2\.openreview\.net|conf\.hotcrp\.com/site|forum\.example\.org)"
        code, replaced = re.subn(addresses, fake.url, code)
        assert replaced == 1
        exec(compile(code, name, "exec"), {})
        assert plain(fake.texts()) == TEXTS[:3]


def test_the_receiver_of_the_webhook_page_stores_each_post_once(
    sqlite_url: str, make: Any, time: FakeTime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the gateway through the webhook into the platform's table, edits and removals too; a second delivery changes
    nothing."""
    monkeypatch.chdir(tmp_path)
    with sqlite3.connect("forum.db") as forum:
        forum.execute("CREATE TABLE comments (id TEXT PRIMARY KEY, thread TEXT, content TEXT, reply_to TEXT)")
    names: dict[str, Any] = {}
    exec(compile(code_of("adapters-webhook.md"), "webhook", "exec"), names)
    statuses: list[int] = []

    class Platform(FakePlatform):
        def answer(self, method: str, path: str, query: Any, body: Any, headers: Any) -> Any:
            # the fake parsed the body; the gateway writes it so
            content = json.dumps(body, ensure_ascii=False).encode()
            statuses.extend(names["receive"](content, headers) for _ in range(2))
            return statuses[-1], {}, {}

    monkeypatch.setenv("HOOK_SECRET", "a secret of the platform")
    with Platform() as platform:
        gateway = make(
            sqlite_url,
            webhooks=[{"url": platform.url + "/hook", "secret_env": "HOOK_SECRET", "allow": ["127.0.0.0/8"]}],
        )
        receipts = [submit(gateway, "paper 1", f"text {k}", actor=f"person {k}")["receipt"] for k in range(3)]
        time.advance(1000)
        work(gateway)
        assert Deliveries(gateway, Journal("test")).step() == 3
        with sqlite3.connect("forum.db") as forum:
            rows = forum.execute("SELECT id, content FROM comments ORDER BY rowid").fetchall()
        assert rows == [(entry.id, entry.content) for entry in gateway.read("forum")[0]]
        gateway.take(Edit("forum", "person 0", receipts[0], "new text", key="e"))
        gateway.take(Withdraw("forum", "person 1", receipts[1], key="w"))
        time.advance(1000)
        work(gateway)
        assert Deliveries(gateway, Journal("test")).step() == 2
    assert statuses == [204] * 4
    with sqlite3.connect("forum.db") as forum:
        assert sorted(text for (text,) in forum.execute("SELECT content FROM comments")) == ["new text", "text 2"]
    with pytest.raises(BadInput, match="signature"):
        names["receive"](b"{}", sign("another secret", b"{}"))
