"""Fakes of OpenReview, HotCRP and Discourse: HTTP servers that follow the published APIs as far as adapters use them.

Status codes, required fields, signing in and limits are those of the real services; what is not needed is not there.
``faults`` answers requests wrongly, once each: a status, ``"drop"`` (the connection ends before anything is done) or
``"lose"`` (it is done, and the answer is lost); None is no fault.
"""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

Reply = tuple[int, Any, dict[str, str]]


class FakePlatform:
    """A server on the loopback interface; use it as a context manager."""

    def __init__(self) -> None:
        self.faults: deque[int | str | None] = deque()
        self.retry_after: str | None = None
        self.requests: list[tuple[str, str, Any]] = []  # method, path with query, body
        self.changes = 0  # edits and removals that were done
        self.clock = 1_800_000_000_000
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                """Quiet."""

            def do_GET(self) -> None:
                self._handle(None)

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                kind = self.headers.get("Content-Type", "")
                self._handle(json.loads(content) if kind.startswith("application/json") else None)

            do_PUT = do_DELETE = do_POST  # noqa: N815 (names of the standard library)

            def _handle(self, body: Any) -> None:
                fault = outer.faults.popleft() if outer.faults else None
                if fault == "drop":
                    return
                outer.requests.append((self.command, self.path, body))
                parts, headers = urlsplit(self.path), {name.title(): value for name, value in self.headers.items()}
                status, answer, more = (
                    (fault, {"message": "a fault"}, {"Retry-After": outer.retry_after} if outer.retry_after else {})
                    if isinstance(fault, int)
                    else outer.answer(self.command, parts.path, parse_qs(parts.query), body, headers)
                )
                if fault == "lose":
                    return
                content = b"" if answer is None else json.dumps(answer).encode()
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **more}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                with suppress(ConnectionError):
                    self.wfile.write(content)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Any:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(
        self, method: str, path: str, query: dict[str, list[str]], body: Any, headers: Mapping[str, str]
    ) -> Reply:
        """The status, content and headers of an answer."""
        raise NotImplementedError

    def texts(self) -> list[str]:
        """What readers see, in order."""
        raise NotImplementedError

    def tick(self) -> int:
        """A millisecond later."""
        self.clock += 1
        return self.clock


class FakeOpenReview(FakePlatform):
    """API 2: ``/login``, ``/notes`` and ``/notes/edits``."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[dict[str, Any]] = [self._root("forum1"), self._root("forum2")]
        self.invitations = {f"V/Submission{n}/-/Public_Comment": {"comment", "peerveil_id", "rating"} for n in (1, 2)}
        self.signatures = {"V/Chairs", "V/Submission1/Reviewer_AbCd"}
        self.tokens: set[str] = set()
        self.expired: set[str] = set()

    def _root(self, forum: str) -> dict[str, Any]:
        content = {"title": {"value": "A paper"}}
        return {"id": forum, "forum": forum, "content": content, "signatures": ["V/Authors"], "tcdate": self.tick()}

    def sign_in(self) -> str:
        """As ``/login`` does."""
        token = f"token{len(self.tokens)}"
        self.tokens.add(token)
        return token

    def answer(
        self, method: str, path: str, query: dict[str, list[str]], body: Any, headers: Mapping[str, str]
    ) -> Reply:
        if (method, path) == ("POST", "/login"):
            if (body.get("id"), body.get("password")) != ("chair@example.org", "secret"):
                return _error(400, "LoginError", "Invalid username or password")
            return 200, {"token": self.sign_in(), "user": {"profile": {"id": "~A_Chair1"}}}, {}
        token = (headers.get("Authorization") or "").removeprefix("Bearer ")
        if token in self.expired:
            return _error(401, "TokenExpiredError", "Token has expired, please log in again")
        if token not in self.tokens:
            return _error(401, "UnauthorizedError", "Authentication is required")
        if (method, path) == ("GET", "/notes"):
            return self._list(query)
        if (method, path) == ("POST", "/notes/edits"):
            return self._edit(body)
        return _error(404, "NotFoundError", "The route was not found")

    def _list(self, query: dict[str, list[str]]) -> Reply:
        limit = int(query.get("limit", ["1000"])[0])
        if limit > 1000:
            return _error(400, "ValidationError", "limit must be at most 1000")
        is_trash = query.get("trash") == ["true"]
        notes = [note for note in self.notes if note["forum"] in query.get("forum", [note["forum"]])]
        notes = sorted((note for note in notes if is_trash or "ddate" not in note), key=lambda note: note["id"])
        if "after" in query:
            notes = [note for note in notes if note["id"] > query["after"][0]]
        return 200, {"notes": notes[:limit], "count": len(notes)}, {}

    def _edit(self, body: Any) -> Reply:
        if missing := {"invitation", "signatures", "note"} - body.keys():
            return _error(400, "MissingError", f"{min(missing)} is missing")
        note, ids = body["note"], {note["id"]: note for note in self.notes}
        if body["invitation"] not in self.invitations:
            return _error(404, "NotFoundError", f"The Invitation {body['invitation']} was not found")
        if not {*body["signatures"], *note["signatures"]} <= self.signatures:
            return _error(403, "ForbiddenError", "You don't have permission to use these signatures")
        if unknown := note["content"].keys() - self.invitations[body["invitation"]]:
            return _error(400, "ValidationError", f"The property {min(unknown)} must NOT be present")
        if any(set(value) != {"value"} for value in note["content"].values()):
            return _error(400, "ValidationError", "The property value must be present")
        if "id" in note:
            return self._change(ids.get(note["id"]), note, body["invitation"])
        if note["forum"] not in ids or ids.get(note["replyto"], {}).get("forum") != note["forum"]:
            return _error(400, "ValidationError", "The Note to reply to was not found")
        stored = note | {"id": f"n{len(self.notes) * 7919 % 1000:03}x{len(self.notes)}", "tcdate": self.tick()}
        self.notes.append(stored | {"invitations": [body["invitation"]]})
        return 200, {"id": f"e{len(self.notes)}", "note": {"id": stored["id"], "forum": note["forum"]}}, {}

    def _change(self, stored: dict[str, Any] | None, note: dict[str, Any], invitation: str) -> Reply:
        if stored is None or invitation not in stored.get("invitations", ()):
            return _error(404, "NotFoundError", "The Note was not found")
        if stored["signatures"] != note["signatures"]:
            return _error(403, "ForbiddenError", "You don't have permission to edit this note")
        if "comment" not in note["content"]:
            return _error(400, "MissingError", "The value comment in content is required")
        if "replyto" in note and note["replyto"] != stored["replyto"]:
            return _error(400, "ValidationError", "The property replyto must be equal to constant")
        self.changes += 1
        content = stored["content"] | note["content"]
        stored |= {name: note[name] for name in ("ddate", "readers") if name in note} | {"content": content}
        stored["tmdate"] = self.tick()
        return 200, {"id": f"e{self.tick()}", "note": {"id": stored["id"], "forum": stored["forum"]}}, {}

    def texts(self) -> list[str]:
        shown = [note["content"] for note in self.notes if "ddate" not in note]
        return [content["comment"]["value"] for content in shown if "comment" in content]


def _error(status: int, name: str, message: str) -> Reply:
    return status, {"name": name, "message": message, "status": status, "details": {}}, {}


class FakeHotCRP(FakePlatform):
    """``/api/comments`` and ``/api/{p}/comment``; answers as recorded from the real program."""

    TOKEN = "hct_administrator"

    def __init__(self) -> None:
        super().__init__()
        self.comments: list[dict[str, Any]] = []
        self.mails = 0

    def answer(
        self, method: str, path: str, query: dict[str, list[str]], body: Any, headers: Mapping[str, str]
    ) -> Reply:
        if headers.get("Authorization") != f"Bearer {self.TOKEN}":
            return _failure(401, "Unauthorized" if "Authorization" in headers else "Missing credentials")
        match = re.fullmatch(r"/api/(\d+)/comment", path)
        paper = int(match[1] if match else query.get("p", ["0"])[0])
        if paper not in (1, 2):
            return _failure(404, f"Submission #{paper} does not exist")
        if (method, path) == ("GET", "/api/comments"):
            return 200, {"ok": True, "comments": [entry for entry in self.comments if entry["pid"] == paper]}, {}
        if method == "POST" and match and query.get("c") == ["new"]:
            return self._save(paper, body, query)
        if method == "POST" and match:
            return self._change(paper, query.get("c", [""])[0], body)
        return _failure(404, "Function not found")

    def _change(self, paper: int, number: str, body: Any) -> Reply:
        comment = next((entry for entry in self.comments if (entry["pid"], str(entry["cid"])) == (paper, number)), None)
        if comment is None:
            return _failure(404, f"Comment {number} not found", valid=False, change_list=[])
        self.changes += 1
        if body.get("delete") or not body.get("text", "").strip():
            self.comments.remove(comment)
            messages = [{"status": -3, "message": "<0>Comment deleted", "landmark": 0}]
            return 200, {"ok": True, "message_list": messages, "valid": True, "change_list": ["delete"]}, {}
        if "tags" in body:
            comment["tags"] = [f"{tag}#0" for tag in body["tags"].split()]
        comment |= {name: body[name] for name in ("visibility", "topic") if name in body}
        comment |= {"text": body["text"].rstrip(), "modified_at": self.tick() // 1000}
        messages = [{"status": -3, "message": "<0>Comment saved", "landmark": 0}]
        content = {"ok": True, "message_list": messages, "valid": True, "change_list": ["text"], "comment": comment}
        return 200, content | {"cid": comment["cid"]}, {}

    def _save(self, paper: int, body: Any, query: dict[str, list[str]]) -> Reply:
        if not body.get("text", "").strip():
            return _failure(400, "Refusing to save empty comment", valid=False, change_list=[])
        tags = body.get("tags", "").split()
        count = sum(entry["pid"] == paper for entry in self.comments)
        comment = {
            "object": "comment",
            "pid": paper,
            "cid": self.comments[-1]["cid"] + 1 if self.comments else 1,
            "ordinal": f"A{count + 1}",
            "viewer_owned": True,
            "visibility": body.get("visibility", "rev"),
            "topic": body.get("topic", "rev"),
            "tags": [f"{tag}#0" for tag in tags if re.fullmatch(r"[a-zA-Z@*_:.][-+a-zA-Z0-9?!@*_:./]{0,79}", tag)],
            "modified_at": self.tick() // 1000,
            "text": body["text"].rstrip(),
        }
        self.comments.append(comment)
        self.mails += query.get("notify") not in (["0"], ["false"])
        messages = [{"status": -3, "message": "<0>Comment saved", "landmark": 0}]
        content = {"ok": True, "message_list": messages, "valid": True, "cid": comment["cid"], "comment": comment}
        return 200, content, {}

    def texts(self) -> list[str]:
        return [comment["text"] for comment in self.comments]


def _failure(status: int, message: str, **more: Any) -> Reply:
    return status, {"ok": False, "message_list": [{"status": 2, "message": f"<0>{message}"}], **more}, {}


class FakeDiscourse(FakePlatform):
    """``/posts.json``, ``/t/{id}.json``, ``/t/{id}/posts.json`` and ``/t/external_id/{id}.json``."""

    KEY = "discourse-key"

    def __init__(self, most_requests: int = 10_000) -> None:
        super().__init__()
        self.users = {"system", "reviewer7"}
        self.topics = {1: "paper-1", 2: "paper-2"}
        self.closed: set[int] = set()
        self.posts: list[dict[str, Any]] = []
        self.remaining = most_requests
        for topic in self.topics:
            self.store(topic, "The first post, which opens this topic.", "system")

    def store(self, topic: int, raw: str, username: str, reply_to: int | None = None) -> dict[str, Any]:
        """As a person or the API posts."""
        number = 1 + sum(post["topic_id"] == topic for post in self.posts)
        post = {"id": len(self.posts) + 100, "topic_id": topic, "post_number": number, "username": username}
        post |= {"raw": raw, "reply_to_post_number": reply_to, "created_at": self.tick(), "wiki": False}
        self.posts.append(post)
        return post

    def answer(
        self, method: str, path: str, query: dict[str, list[str]], body: Any, headers: Mapping[str, str]
    ) -> Reply:
        if headers.get("Api-Key") != self.KEY or headers.get("Api-Username") not in self.users:
            errors = ["You are not permitted to view the requested resource."]
            return 403, {"errors": errors, "error_type": "invalid_access"}, {}
        self.remaining -= 1
        if self.remaining < 0:
            self.remaining = 60
            extras = {"wait_seconds": 37}
            return 429, {"errors": ["too often"], "error_type": "rate_limit", "extras": extras}, {"Retry-After": "37"}
        if (method, path) == ("POST", "/posts.json"):
            return self._create(body, str(headers["Api-Username"]))
        if match := re.fullmatch(r"/posts/(\d+)\.json", path):
            return self._change(method, int(match[1]), body, str(headers["Api-Username"]))
        if match := re.fullmatch(r"/t/external_id/(.+)\.json", path):
            ids = [number for number, name in self.topics.items() if name == match[1]]
            return (301, {}, {"Location": f"{self.url}/t/slug/{ids[0]}.json"}) if ids else _missing()
        match = re.fullmatch(r"/t/(\d+)(/posts)?\.json", path)
        if not match or int(match[1]) not in self.topics:
            return _missing()
        posts = [post for post in self.posts if post["topic_id"] == int(match[1]) and "deleted_at" not in post]
        ids = [post["id"] for post in posts]
        if match[2]:
            posts = [post for post in posts if str(post["id"]) in query["post_ids[]"]]
        hidden = set() if query.get("include_raw") == ["true"] else {"raw"}
        shown = [{name: post[name] for name in post.keys() - hidden} for post in posts[:20]]
        return 200, {"post_stream": {"posts": shown, "stream": ids}}, {}

    def _change(self, method: str, number: int, body: Any, username: str) -> Reply:
        post = next((post for post in self.posts if post["id"] == number and "deleted_at" not in post), None)
        if post is None:
            return _missing()
        if username not in ("system", post["username"]):
            return 403, {"errors": ["not permitted"], "error_type": "invalid_access"}, {}
        self.changes += 1
        if method == "DELETE":
            post["deleted_at"] = self.tick()
            return 200, None, {}
        post["raw"] = body["post"]["raw"].rstrip()
        return 200, {"post": {name: value for name, value in post.items() if name != "raw"}}, {}

    def _create(self, body: Any, username: str) -> Reply:
        raw, topic = body.get("raw", ""), body.get("topic_id")
        if topic not in self.topics:
            return _missing()
        if topic in self.closed:
            return 403, {"errors": ["closed"], "error_type": "invalid_access"}, {}
        if not body.get("skip_validations"):
            if len(re.sub(r"<!--(.*?)-->", "", raw).strip()) < 20:
                return 422, {"action": "create_post", "errors": ["Body is too short (minimum is 20 characters)"]}, {}
            if any(_squeezed(post["raw"]) == _squeezed(raw) for post in self.posts if post["username"] == username):
                return 422, {"action": "create_post", "errors": ["Body is too similar to what you recently posted"]}, {}
        return 200, self.store(topic, raw, username, body.get("reply_to_post_number")), {}

    def texts(self) -> list[str]:
        posts = [post["raw"] for post in self.posts[len(self.topics) :] if "deleted_at" not in post]
        return [re.sub(r"<!--(.*?)-->", "", raw).strip() for raw in posts]


def _squeezed(raw: str) -> str:
    return re.sub(r"\s+", "", raw.lower())


def _missing() -> Reply:
    return 404, {"errors": ["The requested URL or resource could not be found."], "error_type": "not_found"}, {}
