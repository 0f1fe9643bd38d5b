"""What the adapters of all platforms share: find an item at the platform or post it, follow its edits, take it down.

A poster is called with an item of the feed, by a :class:`~peerveil.web.gateway.client.Follower` or by the receiver of a
webhook. Both hand over an item at least once, so a poster first reads what is in the item's thread and finds its own posts
by a mark that holds the item's public id: the field ``peerveil_id`` of a note, a tag of a comment, the last line of a post.
The mapping from items to notes, comments or posts is kept there and nowhere else, so no crash can separate it from the
posts. Only posts of the poster's own account or signature count: nobody else makes it skip an item.

**An edit** changes the post that has the mark of what it ``changes``, unless that reads like it already. **A removal** deletes
every post with that mark that the platform lets us delete (a removal carries no metadata, so whose it was is not known). Both
say what is to be in the end, so they may be repeated. An edit of what is not there (any more) is set aside; what is not
there needs no removal.

A reply follows its parent in the feed. If the parent is not found at the platform, because it was refused or removed,
the reply is posted at the top level, with a line that says so.

**What an adapter adds to what the feed shows: nothing.** It reads the feed, which is public, and the platform's answers.
What it sends, in which order and when is a function of these two, of the network, and of when it is started: authors and
arrivals are inputs of none of them. Items are handled one at a time, in the order of the feed; no state is held by author.
So everything the platform stores or shows (creation times to the millisecond, numbers, revisions, mails) is post-processing of
the feed and of the moments at which items entered it. Two things are outside: what else the platform records about authors,
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any, ClassVar, Final, NamedTuple

from peerveil.web.common.client import NoRedirects, Refused, read_address
from peerveil.web.gateway.client import Unavailable, Undeliverable

Body = Mapping[str, Any] | None

_TIMEOUT_SECONDS: Final = 30.0
_LONGEST_BYTES: Final = 50_000_000
_SETTLE_SECONDS: Final = 60.0  # after a lost answer: the platform may still be storing what it was sent
_ORPHAN: Final = "In reply to a comment that is not shown here."


class Answer(NamedTuple):
    """What a platform answered."""

    status: int
    content: Any
    location: str = ""


class Posted(NamedTuple):
    """A post at the platform that has our mark."""

    reference: Any  # what a reply needs: an id, a label or a number; None if there can be no reply
    account: str | None  # None if it is ours for certain
    handle: Any  # what a change needs; None if it cannot be changed by us
    stored: Mapping[str, Any]  # what the platform has
    is_gone: bool = False  # deleted there already


class Options(NamedTuple):
    """What the platform chose for an item, as its metadata say."""

    signature: str | None
    username: str | None
    fields: dict[str, Any]

    @classmethod
    def read(cls, metadata: Any) -> Options:
        """Of metadata that may be anything."""
        entries = metadata if isinstance(metadata, Mapping) else {}
        names = [entries[key] if isinstance(entries.get(key), str) else None for key in ("signature", "username")]
        fields = entries.get("fields")
        return cls(names[0], names[1], dict(fields) if isinstance(fields, Mapping) else {})


@dataclass(frozen=True)
class Poster(ABC):
    """What all posters share. A platform says how its posts are read, posted, changed and deleted.

    Calling it returns when the platform is as the item says. It raises :class:`Unavailable` if the same item should be
    handed over again later, :class:`Undeliverable` if the platform will not take this item, and :class:`Refused` if the
    operator must change a setting first.
    """

    url: str
    _FORBIDDEN: ClassVar[frozenset[str]] = frozenset()  # fields that metadata may not name

    def __post_init__(self) -> None:
        read_address(self.url)

    def __call__(self, item: Mapping[str, Any]) -> None:
        """Post one item unless it is there, or change or delete the post that it is about."""
        kind, name = item.get("kind", "post"), item.get("changes") or item["id"]
        options = Options.read(item.get("metadata"))
        if self._FORBIDDEN & options.fields.keys():
            raise Undeliverable(0, f"metadata: fields without {', '.join(sorted(self._FORBIDDEN))}")
        place = self._place(item["thread"])
        try:
            posted = self._posted(place)
        except (KeyError, TypeError, AttributeError) as error:
            raise Unavailable(200, f"{self.url} answered in another form than its API's: {error!r}") from None
        about = posted.get(name, ())
        if kind == "removed":
            self._remove(place, about)
            return
        account = self._account(options)
        own = [post for post in about if post.account in (None, account)]
        if kind == "post" and own:
            return
        parents = () if item["reply_to"] is None else posted.get(item["reply_to"], ())
        parent = next((post.reference for post in parents if post.reference is not None), None)
        is_orphan = item["reply_to"] is not None and parent is None
        content = f"{_ORPHAN}\n\n{item['content']}" if is_orphan else item["content"]
        body = self._body({"id": name, "content": content}, parent, options)
        if kind == "post":
            self._store(place, body, None)
            return
        post = next((post for post in own if post.handle is not None and not post.is_gone), None)
        if post is None:
            raise Undeliverable(404, f"{self.url} does not have the post that this changes, or we may not change it")
        if not self._is_same(post, body):
            self._store(place, body, post)

    def _remove(self, place: Any, about: Sequence[Posted]) -> None:
        """Delete what has the mark; a forged one, which the platform does not let us delete, does not hold others back."""
        done, refusals = any(post.is_gone for post in about), list[str]()
        for post in about:
            if post.is_gone:
                continue
            if post.handle is None:
                refusals.append(f"{self.url}: anybody may have written the mark of {post.reference}, so it stays")
                continue
            try:
                self._delete(place, post)
                done = True
            except Refused as refusal:
                if refusal.status != 403:
                    raise
                refusals.append(str(refusal))
        if refusals and not done:
            raise Undeliverable(403, f"not removed, somebody must look: {refusals[0]}")

    @abstractmethod
    def _place(self, thread: str) -> Any:
        """Where a thread is at the platform."""

    @abstractmethod
    def _account(self, options: Options) -> str:
        """In whose name the platform stores an item."""

    @abstractmethod
    def _posted(self, place: Any) -> dict[str, list[Posted]]:
        """The posts of a thread that have a mark, oldest first, by item id."""

    @abstractmethod
    def _body(self, item: Mapping[str, str], parent: Any, options: Options) -> dict[str, Any]:
        """What the platform is to have of an item's id and content; ``parent`` is the reference of what it answers."""

    @abstractmethod
    def _is_same(self, post: Posted, body: Mapping[str, Any]) -> bool:
        """Whether it has that already."""

    @abstractmethod
    def _store(self, place: Any, body: dict[str, Any], post: Posted | None) -> None:
        """Post what is not there, or replace the content of a post."""

    @abstractmethod
    def _delete(self, place: Any, post: Posted) -> None:
        """Delete a post."""

    @abstractmethod
    def _headers(self) -> dict[str, str]:
        """What signs us in."""

    @property
    @abstractmethod
    def _advice(self) -> str:
        """What to set if the platform does not let us in."""

    def _call(
        self,
        path: str,
        body: Body = None,
        headers: Mapping[str, str] | None = None,
        *,
        method: str | None = None,
        may_redirect: bool = False,
    ) -> Answer:
        """One request; every answer that is no success is an exception."""
        method = method or ("GET" if body is None else "POST")
        answer, retry_after = self._send(method, path, body, headers or self._headers())
        status = answer.status
        content = answer.content
        text = content.decode(errors="replace") if isinstance(content, bytes) else str(content)
        reason = f"{self.url} answered {status} to {path}: {shorten(text, 300)}"
        # the platform may have stored what it did not acknowledge: look for it only when it must be done
        settle = _SETTLE_SECONDS if method != "GET" and (status == 0 or status >= 500) else 0.0
        if status in (0, 408, 425, 429) or status >= 500:
            raise Unavailable(status, reason, max(retry_after, settle))
        if status in (401, 403):
            raise Refused(status, "forbidden", f"{reason}. {self._advice}")
        if status >= 400:
            raise Undeliverable(status, reason)
        if status >= 300 and not may_redirect:
            raise Refused(status, "redirected", f"{reason}. `url` must be the address that {self.url} redirects to")
        return answer

    def _send(self, method: str, path: str, body: Body, headers: Mapping[str, str]) -> tuple[Answer, float]:
        data = None if body is None else json.dumps(body).encode()
        kind = {"Accept": "application/json"} | ({} if body is None else {"Content-Type": "application/json"})
        address = self.url.rstrip("/") + path
        request = urllib.request.Request(address, data, {**headers, **kind}, method=method)  # noqa: S310
        try:
            with urllib.request.build_opener(NoRedirects).open(request, timeout=_TIMEOUT_SECONDS) as response:
                content = response.read(_LONGEST_BYTES)
                if response.length:  # cut off, as by a server that was killed
                    raise http.client.IncompleteRead(content)
                return Answer(response.status, json.loads(content or b"null")), 0.0
        except urllib.error.HTTPError as error:
            with error:
                retry_after = error.headers.get("Retry-After", "")
                answer = Answer(error.code, error.read(_LONGEST_BYTES), error.headers.get("Location", ""))
            return answer, float(retry_after) if retry_after.isdecimal() else 0.0
        except (OSError, http.client.HTTPException, ValueError) as error:
            return Answer(0, str(error) or type(error).__name__), 0.0
