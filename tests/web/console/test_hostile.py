"""Hostile use: other sites, stolen and expired sessions, other people's ids, script in every field, paths, uploads."""

from __future__ import annotations

import io
import re
import threading
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from argon2 import Type, extract_parameters
from sqlalchemy import update
from tests.web.console.clients import ADDRESS, SENTENCE, Browser, LocalConsole, said, token_of, where

from peerveil.data import synthetic_conference
from peerveil.web.common.database import SECOND
from peerveil.web.console import users
from peerveil.web.console.schema import sessions
from peerveil.web.console.schema import users as users_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from argon2 import PasswordHasher

SCRIPT = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{ 7*7 }}"
RAW = re.compile(r"<script>alert|<img src=x|alert\(1\)(>|&gt;)49")  # markup as markup, or a template that was run


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[LocalConsole]:
    """A console at which people sign in."""
    made = LocalConsole(tmp_path, sign_in=True)
    yield made
    made.close()


def reviews() -> bytes:
    frame = synthetic_conference(30, 20, seed=1).reviews.frame.select("paper", "reviewer", "score")
    return frame.write_csv().encode()


def bring(console: LocalConsole, browser: Browser, name: str = "reviews.csv") -> str:
    file = where(browser.add(name, reviews())).rsplit("/", 1)[1]
    console.work("checks")
    return file


def finished(console: LocalConsole, browser: Browser, operator: Browser, title: str = "") -> str:
    """A run to its end; its path."""
    file = bring(console, browser)
    operator.send("/ledger", "/ledger/open", {"name": "main", "epsilon": "5"})
    fields = {"action": "release.publish", "data": file, "account": "main", "epsilon": "1", "title": title}
    fields["attack"] = "true"  # so that some of it is private
    run = where(browser.send("/release", "/release/prepare", fields))
    console.work("checks")
    browser.send(run, f"{run}/start")
    console.work("runs")
    assert "Results" in said(browser.get(run))
    return run


# ---- other sites ---------------------------------------------------------------------------------------------------


def test_forms_from_other_sites_are_refused(console: LocalConsole) -> None:
    me = console.browser()
    token = token_of(me.get("/ledger").text)
    fields = {"form_token": token, "name": "main", "epsilon": "1"}
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        assert me.post("/ledger/open", data=fields, headers=headers).status_code == 403, headers
    for wrong in ("", token[:-1] + ("0" if token[-1] != "0" else "1"), "é"):
        assert me.post("/ledger/open", data={**fields, "form_token": wrong}).status_code == 403
    other = console.browser()
    other.get("/")
    assert other.post("/ledger/open", data=fields).status_code == 403  # the token of another session
    assert "No account is open yet" in said(me.get("/ledger"))
    assert me.post("/ledger/open", data=fields, headers={"Origin": ADDRESS}).status_code == 303


def test_every_form_needs_its_token(console: LocalConsole) -> None:
    """No page that changes something takes a request without the token of the session."""
    me = console.browser()
    me.get("/")
    posts = [
        getattr(route, "path", "") for route in console.asgi.routes if "POST" in (getattr(route, "methods", None) or ())
    ]
    assert len(posts) > 20
    for path in posts:
        address = re.sub(r"\{[^}]+\}", "x", path)
        assert me.post(address, data={"name": "x"}).status_code == 403, path


def test_names_pointed_at_this_machine_are_refused(console: LocalConsole) -> None:
    """One person's console answers only at the machine's own names: a site whose name leads here gets nothing."""
    for address in ("http://evil.example:8000", "http://127.0.0.1.evil.example:8000"):
        assert console.browser(address).get("/").status_code == 403
    for address in ("http://localhost:8000", "http://[::1]:8000"):
        assert console.browser(address).get("/").status_code == 200


def test_answers_carry_a_strict_policy(console: LocalConsole) -> None:
    me = console.browser()
    for path in ("/", "/data", "/nothing", "/static/console.js", "/healthz"):
        headers = me.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
    cookie = me.get("/").headers.get("set-cookie") or console.browser().get("/").headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie.replace("Strict", "strict")


# ---- sessions ------------------------------------------------------------------------------------------------------


def test_everything_needs_a_session(shared: LocalConsole) -> None:
    """Where people sign in, no page but the door, the health check and the style answers a stranger."""
    stranger = shared.browser()
    for route in shared.asgi.routes:
        path = re.sub(r"\{[^}]+\}", "x", getattr(route, "path", ""))
        if path.startswith(("/healthz", "/static", "/sign-in", "/join", "/sign-out")):
            continue
        method = "POST" if "POST" in (getattr(route, "methods", None) or ()) else "GET"
        answer = stranger.request(method, path)
        assert answer.status_code == 303, path
        assert where(answer) == "/sign-in"


def test_sessions_end(shared: LocalConsole) -> None:
    """Signed out, idle too long, too old, shut out: the same cookie opens nothing any more."""
    boss = shared.joined("boss", "operator")

    def stolen(browser: Browser) -> Browser:
        thief = shared.browser()
        thief.http.cookies = browser.http.cookies
        return thief

    worker = shared.joined("ann", "analyst")
    thief = stolen(worker)
    assert thief.get("/").status_code == 200
    worker.send("/", "/sign-out")
    assert where(thief.get("/")) == "/sign-in"
    for column in ("last_seen", "created"):
        somebody = shared.joined(f"bob {column}", "analyst")
        assert somebody.get("/").status_code == 200
        past = users.IDLE + 60 * SECOND if column == "last_seen" else users.LONGEST_SESSION + 60 * SECOND
        with shared.app.writing() as connection:
            now = sessions.c[column] - past
            connection.execute(update(sessions).values({column: now}))
        assert where(somebody.get("/")) == "/sign-in"
        boss = shared.joined(f"boss {column}", "operator")
    cid = shared.joined("cid", "analyst")
    listed, _ = users.listed(shared.app)
    one = next(person.id for person in listed if person.name == "cid")
    assert boss.send("/users", f"/users/{one}", {"state": "off"}).status_code == 303
    assert where(cid.get("/")) == "/sign-in"
    assert shared.browser().send("/sign-in", "/sign-in", {"name": "cid", "password": SENTENCE}).status_code == 403


def test_invented_cookies_open_nothing(shared: LocalConsole) -> None:
    shared.joined("boss", "operator")
    for value in ("x" * 43, "", "local", "' OR 1=1 --", "é" * 10):
        thief = shared.browser()
        thief.http.headers["Cookie"] = f"peerveil_session={value}".encode("latin-1", "replace").decode("latin-1")
        assert where(thief.get("/data")) == "/sign-in"


def test_a_session_begins_anew_at_sign_in(shared: LocalConsole) -> None:
    """A cookie that somebody put into the browser beforehand is not the one that is signed in."""
    shared.joined("ann", "analyst")
    victim = shared.browser()
    victim.get("/sign-in")
    before = victim.http.cookies["peerveil_session"]
    assert victim.send("/sign-in", "/sign-in", {"name": "Ann ", "password": SENTENCE}).status_code == 303
    assert victim.http.cookies["peerveil_session"] != before
    assert victim.get("/data").status_code == 200


def test_guessing_passwords_is_slowed_down(shared: LocalConsole) -> None:
    shared.joined("ann", "analyst")
    guesser = shared.browser()
    codes = [
        guesser.send("/sign-in", "/sign-in", {"name": "ann", "password": f"guess {number}"}).status_code
        for number in range(11)
    ]
    assert codes == [403] * 10 + [429]
    assert guesser.send("/sign-in", "/sign-in", {"name": "ann", "password": SENTENCE}).status_code == 429
    with shared.app.database.reading() as connection:
        stored = connection.execute(users_table.select()).first()
    assert stored is not None
    assert stored.password.startswith("$argon2id$")
    assert SENTENCE not in shared.journal.getvalue()


def test_hashing_a_password_takes_time_and_memory(hasher: PasswordHasher) -> None:
    """At least what OWASP asks for; the other tests here hash with less."""
    found = extract_parameters(hasher.hash(SENTENCE))
    assert found.type is Type.ID
    assert found.time_cost >= 2
    assert found.memory_cost >= 19 * 1024


def test_signing_in_leads_nowhere_else(shared: LocalConsole) -> None:
    shared.joined("ann", "analyst")
    for target in ("https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)"):
        browser = shared.browser()
        answer = browser.send("/sign-in", "/sign-in", {"name": "ann", "password": SENTENCE, "next": target})
        assert answer.headers["location"] == "/"


def test_invitations_work_once(shared: LocalConsole) -> None:
    boss = shared.joined("boss", "operator")
    shown = boss.send("/users", "/users/invite", {"role": "reader"})
    link = re.search(r"/join/([A-Za-z0-9_-]{43})", shown.text)
    assert link is not None
    fields = {"name": "dan", "password": SENTENCE}
    for bad in (
        {"name": "dan", "password": "short"},
        {"name": "", "password": SENTENCE},
        {"name": "boss", "password": SENTENCE},
    ):
        assert shared.browser().send(link[0], link[0], bad).status_code == 422
    assert shared.browser().send(link[0], link[0], fields).status_code == 303
    assert shared.browser().get(link[0]).status_code == 404
    assert shared.browser().send("/sign-in", link[0], {"name": "eve", "password": SENTENCE}).status_code == 404
    assert boss.send("/users", "/users/invite", {"role": "king"}).status_code == 422
    assert link[1] not in boss.get("/users").text  # shown once


def test_only_the_first_person_registers_alone(console: LocalConsole) -> None:
    me, late = console.browser(), console.browser()
    token = token_of(late.get("/users").text)
    fields = {"name": "ann", "password": SENTENCE}
    assert me.send("/users", "/users/register", fields).status_code == 303
    assert me.get("/users").status_code == 200
    answer = late.post("/users/register", data={"form_token": token, "name": "eve", "password": SENTENCE})
    assert where(answer) == "/sign-in"


# ---- roles and other people's ids ----------------------------------------------------------------------------------


def test_roles(shared: LocalConsole) -> None:
    boss, ann, rea = (
        shared.joined(name, role) for name, role in (("boss", "operator"), ("ann", "analyst"), ("rea", "reader"))
    )
    run = finished(shared, ann, boss)
    assert ann.send("/", "/ledger/open", {"name": "mine", "epsilon": "100"}).status_code == 403
    for path in ("/users", "/services"):
        assert ann.get(path).status_code == 403
        assert rea.get(path).status_code == 403
    for path in ("/data", f"{run}/study.toml", f"{run}/private/release-publish/figure-1.svg", f"{run}/public.zip"):
        assert rea.get(path).status_code in (403, 404)
    assert rea.get(run).status_code == 404  # nobody has shown it yet
    assert rea.send("/", f"{run}/share", {"shared": "yes"}).status_code == 403
    assert where(ann.send(run, f"{run}/share", {"shared": "yes"})) == run
    shown = rea.get(run)
    assert "How strict are reviewers" in said(shown)
    assert "Must not be published" not in said(shown)
    assert "Must not be published" not in rea.get(f"{run}/report.html").text
    assert "Must not be published" in ann.get(f"{run}/report.html").text
    assert rea.get(f"{run}/public.zip").status_code == 200
    for path in ("/release/prepare", "/data/upload", "/data/synthetic", f"{run}/resume"):
        assert rea.send("/", path, {"action": "release.publish"}).status_code == 403
    listed, _ = users.listed(shared.app)
    own = next(person.id for person in listed if person.name == "boss")
    assert boss.send("/users", f"/users/{own}", {"role": "reader"}).status_code == 403
    assert boss.send("/users", "/users/0000", {"role": "reader"}).status_code == 404


def test_other_peoples_ids_are_not_there(shared: LocalConsole) -> None:
    boss, ann, bob = (
        shared.joined(name, role) for name, role in (("boss", "operator"), ("ann", "analyst"), ("bob", "analyst"))
    )
    file = bring(shared, ann)
    boss.send("/ledger", "/ledger/open", {"name": "main", "epsilon": "5"})
    fields = {"action": "release.publish", "data": file, "account": "main", "epsilon": "1"}
    run = where(ann.send("/release", "/release/prepare", fields))
    shared.work("checks")
    assert bob.get(f"/data/{file}").status_code == 404
    assert bob.get(f"/release?data={file}").status_code == 404
    assert bob.send("/data", f"/data/{file}/remove").status_code == 404
    assert bob.send("/data", f"/data/{file}/columns", {"kind": "labels"}).status_code == 404
    assert bob.send("/release", "/release/prepare", fields).status_code == 404
    for path in ("", "/study.toml", "/report.html", "/public.zip"):
        assert bob.get(f"{run}{path}").status_code == 404
    for path in ("/start", "/discard", "/check", "/resume"):
        assert bob.send("/runs", f"{run}{path}").status_code == 404
    assert "main" not in said(bob.get("/runs"))
    ann.send(run, f"{run}/start")
    shared.work("runs")
    assert bob.get(run).status_code == 404
    assert bob.send("/runs", f"{run}/share", {"shared": "yes"}).status_code == 404
    ann.send(run, f"{run}/share", {"shared": "yes"})
    assert "How strict are reviewers" in said(bob.get(run))
    assert "Must not be published" not in said(bob.get(run))
    assert bob.get(f"{run}/private/release-publish/figure-1.svg").status_code == 404
    assert boss.get(run).status_code == 200


# ---- texts and paths -----------------------------------------------------------------------------------------------


def test_script_in_every_field_stays_text(console: LocalConsole) -> None:
    """Names of files, columns, accounts, titles, settings, data themselves: nothing becomes a tag, nothing is computed."""
    me = console.browser()
    table = (
        f'paper,reviewer,score,"{SCRIPT.replace(chr(34), chr(34) * 2)}"\n'.encode()
        + b"1,a,3,x\n1,b,4,x\n2,a,5,x\n2,b,1,x\n"
    )
    odd = where(me.add(f"{SCRIPT}.csv", table)).rsplit("/", 1)[1]
    bad = where(me.add("reviews.csv", f"paper,reviewer,score\n1,a,{SCRIPT.replace(',', '')}\n".encode())).rsplit(
        "/", 1
    )[1]
    console.work("checks")
    me.send("/ledger", "/ledger/open", {"name": SCRIPT, "epsilon": "5"})
    run = finished(console, me, me, title=SCRIPT)
    refused = [
        me.send(
            "/release",
            "/release/prepare",
            {"action": "release.publish", "data": odd, "account": SCRIPT, "epsilon": SCRIPT},
        ),
        me.send("/release", "/release/prepare", {"action": SCRIPT}),
        me.send("/ledger", "/ledger/open", {"name": "x", "epsilon": SCRIPT}),
        me.send("/data", "/data/path", {"path": SCRIPT}),
        me.get("/release", params={"epsilon": SCRIPT}),
        me.get("/ledger/account", params={"name": SCRIPT}),
    ]
    pages = [f"/data/{odd}", f"/data/{bad}", "/data", "/", "/runs", run, f"{run}/report.html", "/ledger", "/users"]
    pages += [f"/release?data={odd}", f"/data/{odd}?kind={SCRIPT}", "/?done=<script>alert(1)</script>"]
    for answer in [*refused, *(me.get(page) for page in pages)]:
        assert answer.status_code in (200, 404, 422), answer.url
        assert not RAW.search(answer.text), answer.url


def test_paths_lead_nowhere(console: LocalConsole, tmp_path: Path) -> None:
    me = console.browser()
    run = finished(console, me, me)
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret")
    tricks = ("../../study.toml", "..%2f..%2fstudy.toml", "%2e%2e/%2e%2e/study.toml", "/etc/passwd", "..\\..\\study.toml",
              "journal.json", "release-publish/outcome.json", "lock", "a%00b")  # fmt: skip
    for kind in ("public", "private"):
        for trick in tricks:
            assert me.get(f"{run}/{kind}/{trick}").status_code in (404, 405), trick
    for path in (
        "/static/../schema.py",
        "/static/%2e%2e%2fschema.py",
        "/runs/../../etc/passwd",
        "/runs/..%2f..",
        "/data/..%2f..",
    ):
        assert me.get(path).status_code == 404, path
    kept = where(me.add("../../../escape.csv", reviews())).rsplit("/", 1)[1]
    assert [path.name for path in (console.app.files_folder / kept).iterdir()] == ["escape.csv"]
    assert not list(tmp_path.glob("**/../escape.csv"))


def test_files_of_the_machine_cannot_be_named_by_others(shared: LocalConsole, tmp_path: Path) -> None:
    """Where people sign in, only files inside the folder that was allowed can be named, links and dots notwithstanding."""
    ann = shared.joined("ann", "analyst")
    assert ann.send("/data", "/data/path", {"path": "/etc/passwd"}).status_code == 422
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (allowed / "reviews.csv").write_bytes(reviews())
    (allowed / "link.csv").symlink_to("/etc/passwd")
    other = LocalConsole(tmp_path / "other", sign_in=True, data_folder=allowed)
    ann = other.joined("ann", "analyst")
    for path in ("/etc/passwd", "../secret.txt", "link.csv", "", ".", "/dev/zero"):
        assert ann.send("/data", "/data/path", {"path": path}).status_code == 422, path
    assert ann.send("/data", "/data/path", {"path": "reviews.csv"}).status_code == 303
    other.close()


# ---- uploads -------------------------------------------------------------------------------------------------------


def test_uploads_have_a_limit(tmp_path: Path) -> None:
    console = LocalConsole(tmp_path, upload_limit=300_000)
    me = console.browser()
    token = token_of(me.get("/data").text)
    answer = me.post("/data/upload", data={"form_token": token}, files={"file": ("big.csv", b"x" * 500_000)})
    assert answer.status_code == 413
    assert "Too large" in said(answer)

    async def endless() -> Any:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="x.csv"\r\n\r\n'
        for _ in range(100):
            yield b"y" * 100_000

    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    assert me.post("/data/upload", content=endless(), headers=headers).status_code == 413
    assert me.post("/ledger/open", content=b"z" * 3_000_000).status_code == 413
    assert not list(console.app.files_folder.iterdir())
    console.close()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.csv", b""),
        ("noise.bin", bytes(range(256)) * 40),
        ("half.parquet", b"PAR1" + b"\0" * 100),
        ("deep.json", b"[" * 100_000),
        ("bad.jsonl", b'{"paper": 1\n'),
        ("nul.csv", b"paper,reviewer,score\n1,a\0,3\n"),
        ("one.csv", b"paper,reviewer,score\n1,a,3\n"),
        ("header.csv", b"paper,reviewer,score\n"),
        ("wide.csv", b",".join(b"c%d" % i for i in range(20_000)) + b"\n"),
        ("latin.csv", "paper,reviewer,score\n1,Jos\xe9,3\n2,b,4\n".encode("latin-1")),
        ("\u202egpj.csv", b"paper,reviewer,score\n1,a,3\n"),
        ("bomb.zip", None),
    ],
)
def test_malformed_uploads_are_explained(console: LocalConsole, name: str, content: bytes | None) -> None:
    if content is None:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("zeros", b"\0" * 5_000_000)
        content = buffer.getvalue()
    me = console.browser()
    answer = me.add(name, content)
    assert answer.status_code in (303, 422)
    console.work("checks")
    if answer.status_code == 303:
        page = me.get(where(answer))
        assert page.status_code == 200
        assert "Being read" not in said(page)
        assert "an error in peerveil itself" not in said(page)
    assert me.get("/data").status_code == 200


def test_forms_that_are_none(console: LocalConsole) -> None:
    me = console.browser()
    token = token_of(me.get("/data").text)
    multipart = {"Content-Type": "multipart/form-data; boundary=x"}
    for content, headers in (
        (b"{}", {"Content-Type": "application/json"}),
        (b"garbage", multipart),
        (b"--x\r\nContent-Disposition: form-data\r\n\r\n", multipart),
        (b"form_token=" + token.encode() + b"&" + b"&".join(b"f%d=1" % i for i in range(5000)), None),
        (b"form_token=" + token.encode() + b"&path=a%00b", {"Content-Type": "application/x-www-form-urlencoded"}),
    ):
        assert me.post("/data/path", content=content, headers=headers).status_code in (400, 403, 422)
    assert me.send("/data", "/data/upload", {"file": "text"}).status_code == 422
    assert me.request("DELETE", "/data").status_code == 405


def test_parallel_starts_of_one_draft(console: LocalConsole) -> None:
    """Eight tabs start one draft at the same moment: one starts it, seven are told."""
    me = console.browser()
    file = bring(console, me)
    me.send("/ledger", "/ledger/open", {"name": "main", "epsilon": "5"})
    fields = {"action": "release.publish", "data": file, "account": "main", "epsilon": "1"}
    run = where(me.send("/release", "/release/prepare", fields))
    console.work("checks")
    codes: list[int] = []
    tabs = [console.browser() for _ in range(8)]
    tokens = [token_of(tab.get(run).text) for tab in tabs]  # all show the draft before anybody starts it

    def start(tab: Browser, token: str) -> None:
        codes.append(tab.post(f"{run}/start", data={"form_token": token}).status_code)

    threads = [threading.Thread(target=start, args=pair) for pair in zip(tabs, tokens, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [303, *[409] * 7]
    console.work("runs")
    assert "1 of 5 spent" in said(me.get("/ledger/account?name=main"))


# ---- budgets -------------------------------------------------------------------------------------------------------


def test_the_same_bytes_under_another_account_are_refused(console: LocalConsole) -> None:
    """Upload a file again, under another name, choose a fresh account: the ledger knows the data."""
    me = console.browser()
    finished(console, me, me)
    me.send("/ledger", "/ledger/open", {"name": "fresh", "epsilon": "5"})
    file = bring(console, me, "something else.csv")
    fields = {"action": "release.publish", "data": file, "account": "fresh", "epsilon": "1"}
    run = where(me.send("/release", "/release/prepare", fields))
    console.work("checks")
    assert "belong to account &#39;main&#39;" in me.get(run).text
    with console.app.ledger() as book:
        assert {account.name: account.spent for account in book.accounts()} == {"main": 1.0, "fresh": 0.0}
    assert "1 data set belongs to this account" in said(me.get("/ledger/account?name=main"))


def test_a_conference_is_decided_once(console: LocalConsole) -> None:
    me = console.browser()
    me.send("/ledger", "/ledger/open", {"name": "main", "epsilon": "5"})
    file = bring(console, me)
    past = synthetic_conference(30, 20, seed=2).reviews.frame.select("paper", "reviewer", "score").write_csv()
    history = where(me.add("past.csv", past.encode())).rsplit("/", 1)[1]
    console.work("checks")
    fields = {
        "action": "calibration.decide",
        "history": history,
        "accepted": "0.25",
        "adversary_error": "0.4",
        "capped": "true",
        "draws": "1",
        "iterations": "600",
    }
    assert me.send("/calibration", "/calibration/prepare", {**fields, "data": file}).status_code == 422  # no account
    drafts = [
        where(me.send("/calibration", "/calibration/prepare", {**fields, "data": data, "account": "main"}))
        for data in (file, bring(console, me, "copy.csv"))
    ]
    console.work("checks")
    for run in drafts:
        me.send(run, f"{run}/start")
    console.work("runs")
    assert "Results" in said(me.get(drafts[0]))
    assert "these data were decided on" in said(me.get(drafts[1]))
    with console.app.ledger() as book:
        assert len(book.account("main")) == 1
