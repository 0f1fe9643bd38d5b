"""Adapters: post what the gateway has published to OpenReview, HotCRP or Discourse, each item once.

A poster is called with an item of the feed, by a :class:`~peerveil.web.gateway.client.Follower` or by the receiver of a
webhook. Both hand over an item at least once, so a poster first reads what it has posted in the item's thread and finds
its own posts by a mark that holds the item's public id: the field ``peerveil_id`` of a note, a tag of a comment, the last
line of a post. The mapping from items to notes, comments or posts is kept there and nowhere else, so no crash can
separate it from the posts. Only posts of the poster's own account or signature count: nobody else makes it skip an item.

A reply follows its parent in the feed. If the parent is not found at the platform, because it was refused or removed,
the reply is posted at the top level, with a line that says so.

**What an adapter adds to what the feed shows: nothing.** It reads the feed, which is public, and the platform's answers.
What it sends, in which order and when is a function of these two, of the network, and of when it is started: authors and
arrivals are inputs of none of them. Items are posted one at a time, in the order of the feed; no state is held by author.
So everything the platform stores or shows (creation times to the millisecond, numbers, mails) is post-processing of the
feed and of the moments at which items entered it. Two things are outside: what else the platform records about authors,
such as a draft or a page view, and ``metadata``, which the platform chose for a post itself.

``metadata`` of an item, if it is a mapping, may have ``signature`` (OpenReview, HotCRP) or ``username`` (Discourse), which
replace the poster's, and ``fields``, which are sent along.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from textwrap import shorten
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import quote, urlencode

from peerveil.web.common.client import NoRedirects, Refused, read_address
from peerveil.web.gateway.client import Unavailable, Undeliverable

_Body = Mapping[str, Any] | None

_TIMEOUT_SECONDS: Final = 30.0
_LONGEST_BYTES: Final = 50_000_000
_SETTLE_SECONDS: Final = 60.0  # after a lost answer: the platform may still be storing what it was sent
_NOTES_PER_PAGE: Final = 1000  # the most that OpenReview returns
_POSTS_PER_REQUEST: Final = 20  # Discourse's own pages
_ORPHAN: Final = "In reply to a comment that is not shown here."


class _Answer(NamedTuple):
    status: int
    content: Any
    location: str = ""


class _Posted(NamedTuple):
    """A post at the platform that has our mark."""

    reference: Any  # what a reply needs: an id, a label or a number; None if there can be no reply
    account: str | None  # None if it is ours for certain


class _Options(NamedTuple):
    """What the platform chose for an item, as its metadata say."""

    signature: str | None
    username: str | None
    fields: dict[str, Any]

    @classmethod
    def read(cls, metadata: Any) -> _Options:
        """Of metadata that may be anything."""
        entries = metadata if isinstance(metadata, Mapping) else {}
        names = [entries[key] if isinstance(entries.get(key), str) else None for key in ("signature", "username")]
        fields = entries.get("fields")
        return cls(names[0], names[1], dict(fields) if isinstance(fields, Mapping) else {})


@dataclass(frozen=True)
class Poster(ABC):
    """What all posters share: find an item or post it.

    Calling it returns when the item is at the platform. It raises :class:`Unavailable` if the same item should be handed
    over again later, :class:`Undeliverable` if the platform will not take this item, and :class:`Refused` if the operator
    must change a setting first.
    """

    url: str
    _FORBIDDEN: ClassVar[frozenset[str]] = frozenset()  # fields that metadata may not name

    def __post_init__(self) -> None:
        read_address(self.url)

    def __call__(self, item: Mapping[str, Any]) -> None:
        """Post one item, unless it is there. Edits and removals are left to the platform."""
        if item.get("kind", "post") != "post":
            return
        options = _Options.read(item.get("metadata"))
        if self._FORBIDDEN & options.fields.keys():
            raise Undeliverable(0, f"metadata: fields without {', '.join(sorted(self._FORBIDDEN))}")
        place = self._place(item["thread"])
        try:
            posted = self._posted(place)
        except (KeyError, TypeError, AttributeError) as error:
            raise Unavailable(200, f"{self.url} answered in another form than its API's: {error!r}") from None
        account = self._account(options)
        if any(post.account in (None, account) for post in posted.get(item["id"], ())):
            return
        parents = () if item["reply_to"] is None else posted.get(item["reply_to"], ())
        parent = next((post.reference for post in parents if post.reference is not None), None)
        is_orphan = item["reply_to"] is not None and parent is None
        content = f"{_ORPHAN}\n\n{item['content']}" if is_orphan else item["content"]
        self._post(place, item, content, parent, options)

    @abstractmethod
    def _place(self, thread: str) -> Any:
        """Where a thread is at the platform."""

    @abstractmethod
    def _account(self, options: _Options) -> str:
        """In whose name the platform stores an item."""

    @abstractmethod
    def _posted(self, place: Any) -> dict[str, list[_Posted]]:
        """The posts of a thread that have a mark, oldest first, by item id."""

    @abstractmethod
    def _post(self, place: Any, item: Mapping[str, Any], content: str, parent: Any, options: _Options) -> None:
        """Post an item that is not there; ``parent`` is the reference of the post that it answers."""

    @abstractmethod
    def _headers(self) -> dict[str, str]:
        """What signs us in."""

    @property
    @abstractmethod
    def _advice(self) -> str:
        """What to set if the platform does not let us in."""

    def _call(
        self, path: str, body: _Body = None, headers: Mapping[str, str] | None = None, *, may_redirect: bool = False
    ) -> _Answer:
        """One request; every answer that is no success is an exception."""
        answer, retry_after = self._send(path, body, headers or self._headers())
        status = answer.status
        content = answer.content
        text = content.decode(errors="replace") if isinstance(content, bytes) else str(content)
        reason = f"{self.url} answered {status} to {path}: {shorten(text, 300)}"
        # the platform may have stored what it did not acknowledge: look for it only when it must be done
        settle = _SETTLE_SECONDS if body is not None and (status == 0 or status >= 500) else 0.0
        if status in (0, 408, 425, 429) or status >= 500:
            raise Unavailable(status, reason, max(retry_after, settle))
        if status in (401, 403):
            raise Refused(status, "forbidden", f"{reason}. {self._advice}")
        if status >= 400:
            raise Undeliverable(status, reason)
        if status >= 300 and not may_redirect:
            raise Refused(status, "redirected", f"{reason}. `url` must be the address that {self.url} redirects to")
        return answer

    def _send(self, path: str, body: _Body, headers: Mapping[str, str]) -> tuple[_Answer, float]:
        data = None if body is None else json.dumps(body).encode()
        kind = {"Accept": "application/json"} | ({} if body is None else {"Content-Type": "application/json"})
        request = urllib.request.Request(self.url.rstrip("/") + path, data, {**headers, **kind})  # noqa: S310
        try:
            with urllib.request.build_opener(NoRedirects).open(request, timeout=_TIMEOUT_SECONDS) as response:
                content = response.read(_LONGEST_BYTES)
                if response.length:  # cut off, as by a server that was killed
                    raise http.client.IncompleteRead(content)
                return _Answer(response.status, json.loads(content)), 0.0
        except urllib.error.HTTPError as error:
            with error:
                retry_after = error.headers.get("Retry-After", "")
                answer = _Answer(error.code, error.read(_LONGEST_BYTES), error.headers.get("Location", ""))
            return answer, float(retry_after) if retry_after.isdecimal() else 0.0
        except (OSError, http.client.HTTPException, ValueError) as error:
            return _Answer(0, str(error) or type(error).__name__), 0.0


@dataclass(frozen=True, kw_only=True)
class OpenReviewPoster(Poster):
    """Posts items as notes (API 2), each by one note edit.

    OpenReview keeps the millisecond at which a note was created (``tcdate``), so a comment must reach it when it is
    published and not before.

    Parameters
    ----------
    url
        OpenReview's API 2, ``https://api2.openreview.net``.
    token
        Returns a token of an account that may use the invitation. Called at first and when a token is refused, as one is
        that has expired.
    invitation
        The invitation to post under, with a content field ``peerveil_id``; ``{thread}`` stands for the item's thread, as
        in ``"Venue/Submission{thread}/-/Public_Comment"``.
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

    def _place(self, thread: str) -> str:
        return self.forums.get(thread, thread)

    def _account(self, options: _Options) -> str:
        return options.signature or self.signature

    def _posted(self, place: str) -> dict[str, list[_Posted]]:
        # with notes that were deleted: those are not posted again
        query: dict[str, Any] = {"forum": place, "trash": "true", "sort": "id", "limit": _NOTES_PER_PAGE}
        notes = page = self._read("/notes?" + urlencode(query)).content["notes"]
        while len(page) == _NOTES_PER_PAGE:
            page = self._read("/notes?" + urlencode(query | {"after": page[-1]["id"]})).content["notes"]
            notes = notes + page
        posted: dict[str, list[_Posted]] = {}
        for note in sorted(notes, key=lambda note: note.get("tcdate", 0)):
            mark = note.get("content", {}).get("peerveil_id", {}).get("value")
            reference = None if note.get("ddate") else note["id"]
            posted.setdefault(mark, []).append(_Posted(reference, note["signatures"][0]))
        return posted

    def _post(self, place: str, item: Mapping[str, Any], content: str, parent: Any, options: _Options) -> None:
        signature = self._account(options)
        values = options.fields | {self.text: content, "peerveil_id": item["id"]}
        note = {
            "forum": place,
            "replyto": place if parent is None else parent,
            "signatures": [signature],
            "readers": list(self.readers),
            "content": {name: {"value": value} for name, value in values.items()},
        }
        invitation = self.invitation.replace("{thread}", item["thread"])
        self._read("/notes/edits", {"invitation": invitation, "signatures": [signature], "note": note})

    def _read(self, path: str, body: _Body = None) -> _Answer:
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
        Whether HotCRP sends mails to those who follow the paper, when the comment is published.
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

    def _account(self, options: _Options) -> str:
        return options.signature or ""

    def _posted(self, place: int) -> dict[str, list[_Posted]]:
        comments = self._call(f"/api/comments?p={place}").content["comments"]
        posted: dict[str, list[_Posted]] = {}
        for comment in sorted(comments, key=lambda comment: comment["cid"]):
            for tag in comment.get("tags", ()) if comment.get("viewer_owned") else ():
                mark = tag.partition("#")[0].removeprefix("peerveil-")
                label = f"@{comment['ordinal']}" if "ordinal" in comment else str(comment["cid"])
                posted.setdefault(mark, []).append(_Posted(label, None))
        return posted

    def _post(self, place: int, item: Mapping[str, Any], content: str, parent: Any, options: _Options) -> None:
        lines = [f"{self._account(options)}:"] if options.signature else []
        lines += [] if parent is None else [f"Reply to comment {parent}"]
        text = "\n\n".join([*lines, content])
        body = {"visibility": self.visibility, "topic": self.topic} | options.fields
        body |= {"text": text, "tags": f"peerveil-{item['id']}"}
        answer = self._call(f"/api/{place}/comment?c=new&notify={int(self.notify)}", body).content
        if not answer.get("valid"):  # "ok" alone does not say that it was stored
            raise Undeliverable(200, f"{self.url} did not store the comment: {answer['message_list']}")

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    @property
    def _advice(self) -> str:
        return "`token` must be a valid API token of an administrator, with comment:read and comment:write"


@dataclass(frozen=True, kw_only=True)
class DiscoursePoster(Poster):
    """Posts items as posts in topics. It never sends ``created_at``.

    Parameters
    ----------
    url
        The forum.
    key
        An API key for all users, or for ``username`` alone.
    username
        In whose name items are posted whose metadata name nobody.
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
    _known: dict[int, dict[int, tuple[str, _Posted]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def _place(self, thread: str) -> int:
        if thread in self.topics or thread.isdecimal():
            return self.topics[thread] if thread in self.topics else int(thread)
        answer = self._call(f"/t/external_id/{quote(thread, safe='')}.json", may_redirect=True)
        return _number(answer.location.removesuffix(".json").rpartition("/")[2], "topic", "topics")

    def _account(self, options: _Options) -> str:
        return (options.username or self.username).lower()

    def _posted(self, place: int) -> dict[str, list[_Posted]]:
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
            last_line = post["raw"].rpartition("\n")[2]
            known[post["id"]] = last_line, _Posted(post["post_number"], post["username"].lower())
        posted: dict[str, list[_Posted]] = {}
        for last_line, post in (known[number] for number in stream["stream"] if number in known):
            posted.setdefault(last_line.removeprefix("<!-- peerveil ").removesuffix(" -->"), []).append(post)
        return posted

    def _post(self, place: int, item: Mapping[str, Any], content: str, parent: Any, options: _Options) -> None:
        # a comment in HTML, which readers do not see and which makes equal texts different
        body = options.fields | {"topic_id": place, "raw": f"{content}\n\n<!-- peerveil {item['id']} -->"}
        body |= {} if parent is None else {"reply_to_post_number": parent}
        body |= {"skip_validations": True} if self.skip_validations else {}
        self._call("/posts.json", body, self._headers() | {"Api-Username": options.username or self.username})

    def _headers(self) -> dict[str, str]:
        return {"Api-Key": self.key, "Api-Username": self.username}

    @property
    def _advice(self) -> str:
        return "`key` must be an API key that may read topics and write posts as `username`, and the topic must be open"


def _number(text: str, what: str, argument: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise Undeliverable(404, f"thread {text!r} is no number of a {what}; name its {what} in `{argument}`")
    return int(text)
