"""Adapters: bring what the gateway has published to OpenReview, HotCRP or Discourse, each item once, and follow its edits.

:mod:`peerveil.web.gateway.posters` says how, and what the platform learns: nothing that the feed does not show.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

from peerveil.web.common.client import Refused
from peerveil.web.gateway.client import Undeliverable
from peerveil.web.gateway.posters import Answer, Body, Options, Posted, Poster

_NOTES_PER_PAGE: Final = 1000  # the most that OpenReview returns
_POSTS_PER_REQUEST: Final = 20  # Discourse's own pages


@dataclass(frozen=True, kw_only=True)
class OpenReviewPoster(Poster):
    """Posts items as notes (API 2), each by one note edit; an edit or removal is another one.

    OpenReview keeps the millisecond at which a note was created (``tcdate``), so a comment must reach it when it is
    published and not before. It deletes softly: organizers still see what was removed, and earlier edits.

    Parameters
    ----------
    url
        OpenReview's API 2, ``https://api2.openreview.net``.
    token
        Returns a token of an account that may use the invitation. Called at first and when a token is refused, as one is
        that has expired.
    invitation
        The invitation to post under, with a content field ``peerveil_id``; ``{thread}`` stands for the item's thread, as
        in ``"Venue/Submission{thread}/-/Public_Comment"``. For edits and removals it must allow ``note.id`` and
        ``note.ddate``.
    signature
        Whose name stands under the notes.
    forums
        The forum of each thread. Threads that it lacks are taken for forums themselves.
    readers
        Who may read the notes.
    text
        The content field for the text.
    """

    url: str = field(kw_only=False)
    token: Callable[[], str] = field(repr=False)
    invitation: str
    signature: str
    forums: Mapping[str, str] = field(default_factory=dict)
    readers: tuple[str, ...] = ("everyone",)
    text: str = "comment"
    _tokens: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    def _place(self, thread: str) -> tuple[str, str]:
        return self.forums.get(thread, thread), self.invitation.replace("{thread}", thread)

    def _account(self, options: Options) -> str:
        return options.signature or self.signature

    def _posted(self, place: tuple[str, str]) -> dict[str, list[Posted]]:
        # with notes that were deleted: those are not posted again
        query: dict[str, Any] = {"forum": place[0], "trash": "true", "sort": "id", "limit": _NOTES_PER_PAGE}
        notes = page = self._read("/notes?" + urlencode(query)).content["notes"]
        while len(page) == _NOTES_PER_PAGE:
            page = self._read("/notes?" + urlencode(query | {"after": page[-1]["id"]})).content["notes"]
            notes = notes + page
        posted: dict[str, list[Posted]] = {}
        for note in sorted(notes, key=lambda note: note.get("tcdate", 0)):
            mark = note.get("content", {}).get("peerveil_id", {}).get("value")
            is_gone = bool(note.get("ddate"))
            post = Posted(None if is_gone else note["id"], note["signatures"][0], note["id"], note, is_gone)
            posted.setdefault(mark, []).append(post)
        return posted

    def _body(self, item: Mapping[str, str], parent: Any, options: Options) -> dict[str, Any]:
        values = options.fields | {self.text: item["content"], "peerveil_id": item["id"]}
        content = {name: {"value": value} for name, value in values.items()}
        own = {"signatures": [self._account(options)], "readers": list(self.readers), "content": content}
        return own | ({} if parent is None else {"replyto": parent})

    def _is_same(self, post: Posted, body: Mapping[str, Any]) -> bool:
        stored = {name: {"value": entry.get("value")} for name, entry in post.stored["content"].items()}
        return all(stored.get(name) == entry for name, entry in body["content"].items())

    def _store(self, place: tuple[str, str], body: dict[str, Any], post: Posted | None) -> None:
        note = {"forum": place[0], "replyto": place[0]} | body
        self._edit(place, note if post is None else note | {"id": post.handle, "replyto": post.stored["replyto"]})

    def _delete(self, place: tuple[str, str], post: Posted) -> None:
        own = {name: post.stored[name] for name in ("id", "signatures", "content")}
        self._edit(place, own | {"ddate": time.time_ns() // 1_000_000})

    def _edit(self, place: tuple[str, str], note: Mapping[str, Any]) -> None:
        self._read("/notes/edits", {"invitation": place[1], "signatures": note["signatures"], "note": note})

    def _read(self, path: str, body: Body = None) -> Answer:
        try:
            return self._call(path, body)
        except Refused as refusal:
            if refusal.status != 401:
                raise
            self._tokens.clear()
            return self._call(path, body)

    def _headers(self) -> dict[str, str]:
        if not self._tokens:
            self._tokens.append(self.token())
        return {"Authorization": f"Bearer {self._tokens[0]}"}

    @property
    def _advice(self) -> str:
        return "`token` must sign in an account that may post under `invitation` in the name of `signature`"


@dataclass(frozen=True, kw_only=True)
class HotCRPPoster(Poster):
    """Posts items as comments. HotCRP has no replies: a reply names the comment that it answers.

    Parameters
    ----------
    url
        The site.
    token
        An API token of an administrator (``hct_...``) with the scopes ``comment:read`` and ``comment:write``; all comments
        are that account's. A signature in an item's metadata is written above its text.
    papers
        The paper of each thread. Threads that it lacks are taken for numbers of papers.
    visibility, topic
        Who may see the comments, ``au``, ``rev``, ``pc`` or ``admin``, and where, ``paper``, ``rev`` or ``dec``.
    notify
        Whether HotCRP sends mails to those who follow the paper, when a comment is published or edited.
    """

    url: str = field(kw_only=False)
    token: str = field(repr=False)
    papers: Mapping[str, int] = field(default_factory=dict)
    visibility: str = "au"
    topic: str = "paper"
    notify: bool = False
    _FORBIDDEN = frozenset({"cid", "delete", "docs", "draft", "response"})

    def _place(self, thread: str) -> int:
        return self.papers[thread] if thread in self.papers else _number(thread, "paper", "papers")

    def _account(self, options: Options) -> str:
        return options.signature or ""

    def _posted(self, place: int) -> dict[str, list[Posted]]:
        comments = self._call(f"/api/comments?p={place}").content["comments"]
        posted: dict[str, list[Posted]] = {}
        for comment in sorted(comments, key=lambda comment: comment["cid"]):
            for tag in comment.get("tags", ()) if comment.get("viewer_owned") else ():
                mark = tag.partition("#")[0].removeprefix("peerveil-")
                label = f"@{comment['ordinal']}" if "ordinal" in comment else str(comment["cid"])
                posted.setdefault(mark, []).append(Posted(label, None, comment["cid"], comment))
        return posted

    def _body(self, item: Mapping[str, str], parent: Any, options: Options) -> dict[str, Any]:
        lines = [f"{self._account(options)}:"] if options.signature else []
        lines += [] if parent is None else [f"Reply to comment {parent}"]
        body = {"visibility": self.visibility, "topic": self.topic} | options.fields
        return body | {"text": "\n\n".join([*lines, item["content"]]), "tags": f"peerveil-{item['id']}"}

    def _is_same(self, post: Posted, body: Mapping[str, Any]) -> bool:
        names = body.keys() & post.stored.keys() - {"tags", "text"}
        is_same = all(post.stored[name] == body[name] for name in names)
        return is_same and _plain(str(post.stored.get("text"))) == _plain(body["text"])

    def _store(self, place: int, body: dict[str, Any], post: Posted | None) -> None:
        if post is not None:
            del body["tags"]  # they stay, and those that chairs have added
        self._save(place, "new" if post is None else post.handle, body)

    def _delete(self, place: int, post: Posted) -> None:
        self._save(place, post.handle, {"delete": True})

    def _save(self, place: int, comment: Any, body: Mapping[str, Any]) -> None:
        answer = self._call(f"/api/{place}/comment?c={comment}&notify={int(self.notify)}", body).content
        if not answer.get("valid"):  # "ok" alone does not say that it was stored
            raise Undeliverable(200, f"{self.url} did not store the comment: {answer['message_list']}")

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    @property
    def _advice(self) -> str:
        return "`token` must be a valid API token of an administrator, with comment:read and comment:write"


@dataclass(frozen=True, kw_only=True)
class DiscoursePoster(Poster):
    """Posts items as posts in topics. It never sends ``created_at``. Edits and removals are made as ``username``.

    Parameters
    ----------
    url
        The forum.
    key
        An API key for all users, or for ``username`` alone.
    username
        In whose name items are posted whose metadata name nobody. To change what others posted it must be staff.
    topics
        The topic of each thread. Threads that it lacks are taken for a topic's number, or for its ``external_id``.
    skip_validations
        Whether Discourse takes what it would refuse from a person: fewer than 20 characters, or the same text again within
        five minutes. The author was told that the post will appear, so check before you hand it to the gateway.
    """

    url: str = field(kw_only=False)
    key: str = field(repr=False)
    username: str
    topics: Mapping[str, int] = field(default_factory=dict)
    skip_validations: bool = True
    _FORBIDDEN = frozenset({"created_at", "import_mode"})  # the first names another time than that of the release
    _known: dict[int, dict[int, tuple[str, Posted]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def _place(self, thread: str) -> int:
        if thread in self.topics or thread.isdecimal():
            return self.topics[thread] if thread in self.topics else int(thread)
        answer = self._call(f"/t/external_id/{quote(thread, safe='')}.json", may_redirect=True)
        return _number(answer.location.removesuffix(".json").rpartition("/")[2], "topic", "topics")

    def _account(self, options: Options) -> str:
        return (options.username or self.username).lower()

    def _posted(self, place: int) -> dict[str, list[Posted]]:
        """Posts that were read before are kept: a key may send 60 requests a minute."""
        stream = self._call(f"/t/{place}.json?include_raw=true").content["post_stream"]
        known = self._known.setdefault(place, {})
        posts = list(stream["posts"])
        missing = [number for number in stream["stream"] if number not in known.keys() | {post["id"] for post in posts}]
        for k in range(0, len(missing), _POSTS_PER_REQUEST):
            query = [("post_ids[]", number) for number in missing[k : k + _POSTS_PER_REQUEST]]
            path = f"/t/{place}/posts.json?{urlencode([*query, ('include_raw', 'true')])}"
            posts += self._call(path).content["post_stream"]["posts"]
        for post in posts:
            # everybody may write into a wiki, and the first post is the topic: a mark there proves nothing
            handle = None if post.get("wiki") or post["post_number"] == 1 else post["id"]
            own = Posted(post["post_number"], post["username"].lower(), handle, {"raw": post["raw"]})
            known[post["id"]] = post["raw"].rpartition("\n")[2], own
        posted: dict[str, list[Posted]] = {}
        for last_line, own in (known[number] for number in stream["stream"] if number in known):
            posted.setdefault(last_line.removeprefix("<!-- peerveil ").removesuffix(" -->"), []).append(own)
        return posted

    def _body(self, item: Mapping[str, str], parent: Any, options: Options) -> dict[str, Any]:
        # a comment in HTML, which readers do not see and which makes equal texts different
        body = options.fields | {"raw": f"{item['content']}\n\n<!-- peerveil {item['id']} -->"}
        body |= {} if parent is None else {"reply_to_post_number": parent}
        body |= {"skip_validations": True} if self.skip_validations else {}
        return body | {"username": options.username or self.username}

    def _is_same(self, post: Posted, body: Mapping[str, Any]) -> bool:
        return _plain(post.stored["raw"]) == _plain(body["raw"])

    def _store(self, place: int, body: dict[str, Any], post: Posted | None) -> None:
        if post is None:
            headers = self._headers() | {"Api-Username": body.pop("username")}
            self._call("/posts.json", body | {"topic_id": place}, headers)
        else:
            self._known[place].pop(post.handle, None)
            self._call(f"/posts/{post.handle}.json", {"post": {"raw": body["raw"]}}, method="PUT")

    def _delete(self, place: int, post: Posted) -> None:
        self._known[place].pop(post.handle, None)
        self._call(f"/posts/{post.handle}.json", method="DELETE")

    def _headers(self) -> dict[str, str]:
        return {"Api-Key": self.key, "Api-Username": self.username}

    @property
    def _advice(self) -> str:
        return (
            "`key` must be an API key that may read topics and write posts as `username`, who must be staff to change "
            "posts of others, and the topic must be open"
        )


def _plain(text: str) -> str:
    """A text without what platforms change when they store it: line ends, and space at the end."""
    return "\n".join(text.splitlines()).rstrip()


def _number(text: str, what: str, argument: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise Undeliverable(404, f"thread {text!r} is no number of a {what}; name its {what} in `{argument}`")
    return int(text)
