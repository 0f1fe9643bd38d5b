"""The services' pages: campaigns made with their promise seen first, refusals, and who may come."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.web.console.operator_client import LABELS, RANKINGS, OperatorConsole

from peerveil.data import Labels
from peerveil.web.collect import Campaign, Store
from peerveil.web.collect.answers import RandomizedAnswer
from peerveil.web.collect.service import Inferrer
from peerveil.web.collect.store import Submission, hash_key
from peerveil.web.common import Journal
from peerveil.web.common.tokens import hash_token
from peerveil.web.console import jobs
from peerveil.web.console.worker import JobWorker

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

SCRIPT = "<script>alert(1)</script>"
ACTIONS = ("invite", "estimate", "close", "infer", "export", "truth")
HERE = "/services/collect/lake"
PAGES = ["/services", "/services/gateway", "/services/collect", "/services/new-campaign", HERE]
PAGES += [f"{HERE}/results.json", f"{HERE}/labels.csv"]
FORMS = ["/services/new-campaign", "/services/gateway/clock", *(f"{HERE}/{action}" for action in ACTIONS)]


def said(answer: httpx.Response) -> str:
    """What a page says, without its marks."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())


def report(operator: OperatorConsole, people: int = 6) -> list[str]:
    """People who answer all that they may; their invitations."""
    store = operator.app.services.store()
    known = store.known("lake")
    tokens = store.invite(known, people)
    for token in tokens:
        digest = hash_token(token)
        for question in range(2):
            job = Submission(known, digest, hash_key(digest, str(question)), RandomizedAnswer(question, question))
            with store.database.writing("take") as connection:
                assert store.take(connection, [job]) == [True]
    return tokens


def test_looking_makes_nothing_and_says_how_to_begin(operator: OperatorConsole, tmp_path: Path) -> None:
    for path in PAGES[:4]:
        assert operator.get(path).status_code == 200
    assert not (tmp_path / "console" / "collect.db").exists()
    page = said(operator.get("/services"))
    assert f"peerveil collect serve --db {tmp_path}/console/collect.db" in page
    assert "Not set up yet" in page
    assert "This console was started without one" in page
    assert "peerveil gateway init" in said(operator.get("/services/gateway"))


def test_a_password_of_a_database_is_on_no_page(tmp_path: Path) -> None:
    address = "postgresql://chair:swordfish@127.0.0.1:1/none"
    operator = OperatorConsole(tmp_path, collect=address, gateway=address)
    try:
        for path in PAGES[:4]:
            page = operator.get(path)
            assert page.status_code == 200
            assert "swordfish" not in page.text
            assert "chair" not in page.text
        assert said(operator.get("/services")).count("It cannot be opened") == 2
        assert "PEERVEIL_COLLECT_DB=... peerveil collect serve" in said(operator.get("/services"))
        made = operator.send("/services/new-campaign", {**LABELS, "step": "create"})
        assert made.status_code == 503
        assert "swordfish" not in made.text
    finally:
        operator.close()


def test_the_promise_is_seen_before_a_campaign_is_made(operator: OperatorConsole, tmp_path: Path) -> None:
    campaign = Campaign.from_dict(
        {
            **{name: LABELS[name] for name in ("id", "title", "question", "epsilon")},
            "classes": ["no", "yes"],
            "tasks": ["a", "b", "c"],
            "answers": 2,
            "accuracy": 0.8,
        }
    )
    preview = operator.send("/services/new-campaign", {**LABELS, "step": "preview"})
    assert preview.status_code == 200
    for words in (campaign.response, campaign.guarantee, campaign.person_guarantee, campaign.person_guarantee.verdict):
        assert str(words) in said(preview)
    assert not (tmp_path / "console" / "collect.db").exists()
    fields = dict(re.findall(r'<input type="hidden" name="([a-z_]+)" value="([^"]*)">', preview.text))
    fields = {name: html.unescape(value) for name, value in fields.items()}
    answer = operator.send("/services/new-campaign", {**fields, "step": "change"})
    assert 'value="Birds of the lake"' in answer.text
    operator.make(fields)  # what the page carries is what is made
    with Store(str(tmp_path / "console" / "collect.db")) as store:
        assert store.known("lake").campaign == campaign
    assert ("created a campaign", "lake") in operator.activity()
    page = operator.get(HERE)
    assert str(campaign.guarantee) in said(page)
    assert "Birds of the lake" in said(operator.get("/services/collect"))
    again = operator.send("/services/new-campaign", {**LABELS, "epsilon": "9", "step": "create"})
    assert again.status_code == 422
    assert "terms never change" in said(again)


def test_a_weak_promise_is_called_weak(operator: OperatorConsole) -> None:
    strong = operator.send("/services/new-campaign", {**LABELS, "unit": "person"})
    weak = operator.send("/services/new-campaign", {**LABELS, "epsilon": "4"})
    assert "are in effect not protected" not in said(strong)
    assert "It is split evenly: 1/2 for each of 2 answers" in said(strong)
    assert "are in effect not protected" in said(weak)


def test_a_campaign_of_rankings(operator: OperatorConsole) -> None:
    preview = operator.send("/services/new-campaign", RANKINGS)
    assert preview.status_code == 200
    operator.make(RANKINGS)
    known = operator.app.services.store().known("drinks")
    assert known.campaign.items == ("tea", "milk", "juice", "wine")
    first = known.campaign.asked()[0]
    assert f"{known.campaign.items[first[0]]} before {known.campaign.items[first[1]]}?" in said(preview)
    assert operator.get("/services/collect/drinks").status_code == 200


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("epsilon", value) for value in ("", "0", "-1", "nan", "inf", "much", "1/0", "9" * 400)),
        *(("id", value) for value in ("", "Lake", "a/b", "../x", "x" * 41, "new campaign")),
        ("title", ""),
        ("title", "two\nlines"),
        ("classes", "no"),
        ("classes", "no\nno"),
        ("tasks", ""),
        ("tasks", "a\na"),
        ("tasks", "x" * 101),
        ("answers", "0"),
        ("answers", "4"),
        ("answers", "two"),
        ("accuracy", "0.5"),
        ("accuracy", "nan"),
        ("accuracy", "high"),
        ("closes", "2020-01-01T00:00"),
        ("closes", "tomorrow"),
        ("unit", "nobody"),
        ("kind", "words"),
    ],
)
def test_what_is_wrong_is_named_and_what_was_typed_is_kept(
    operator: OperatorConsole, field: str, value: str, tmp_path: Path
) -> None:
    for step in ("preview", "make"):
        answer = operator.send("/services/new-campaign", {**LABELS, field: value, "step": step})
        assert answer.status_code == 422
        problem = re.search(r'role="alert">(.*?)</div>', answer.text, re.DOTALL)
        assert problem is not None
        assert re.search(rf"<p>{field}\b", problem[1]), problem[1]
        if field != "question" and field != "kind":
            assert ">Is there a bird?<" in answer.text or 'value="Is there a bird?"' in answer.text
    assert not (tmp_path / "console" / "collect.db").exists()


@pytest.mark.parametrize("form", [LABELS, RANKINGS], ids=["labels", "rankings"])
def test_a_script_in_any_field_is_shown_as_text(operator: OperatorConsole, form: dict[str, str]) -> None:
    for name in form:
        for step in ("preview", "change"):
            answer = operator.send("/services/new-campaign", {**form, name: f"{SCRIPT}\n{SCRIPT}2", "step": step})
            assert SCRIPT not in answer.text, (name, step)
            answer = operator.send("/services/new-campaign", {**form, name: f'"><img src=x {name}>', "step": step})
            assert "<img" not in answer.text, (name, step)
    texts: dict[str, str] = {
        name: f"{SCRIPT}1\n{SCRIPT}2\n{SCRIPT}3\n{SCRIPT}4" for name in ("classes", "tasks", "items") if name in form
    }
    operator.make({**form, "title": SCRIPT, "question": SCRIPT, **texts})
    if form is LABELS:
        report(operator)
    for path in ("/services", "/services/collect", f"/services/collect/{form['id']}", "/users"):
        page = operator.get(path)
        assert page.status_code == 200
        assert SCRIPT not in page.text
    assert html.escape(SCRIPT) in operator.get("/services/collect").text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tasks.csv", b'task,text\n1,Picture 1\n2,"Picture, 2"\n'),
        ("tasks.txt", "\ufeff1\tPicture 1\r\n\r\n2\tPicture, 2\r\n".encode()),
        ("tasks.jsonl", b'{"task": "1", "text": "Picture 1"}\n{"task": "2", "text": "Picture, 2"}\n'),
    ],
)
def test_tasks_come_from_a_file(operator: OperatorConsole, name: str, content: bytes) -> None:
    answer = operator.send("/services/new-campaign", LABELS, files={"file": (name, content)})
    assert answer.status_code == 200, said(answer)
    fields = dict(re.findall(r'<input type="hidden" name="([a-z_]+)" value="([^"]*)">', answer.text))
    operator.make({name: html.unescape(value) for name, value in fields.items()})
    assert operator.app.services.store().known("lake").campaign.tasks == (("1", "Picture 1"), ("2", "Picture, 2"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tasks.exe", b"task\n1\n"),
        ("tasks.csv", b"work\n1\n"),
        ("tasks.csv", b""),
        ("tasks.csv", b'task,text\n1,"two\nlines"\n'),
        ("tasks.csv", b"task,text\n,no id\n"),
        ("tasks.txt", b"\xff\xfe\x00"),
        ("tasks.parquet", b"no table"),
        ("tasks.txt", b"x" * 950_000),
    ],
)
def test_a_file_that_holds_no_tasks_is_refused(operator: OperatorConsole, name: str, content: bytes) -> None:
    answer = operator.send("/services/new-campaign", LABELS, files={"file": (name, content)})
    assert answer.status_code == 422
    assert "Please correct the form" in said(answer)


def test_operators_alone_come_in_and_forms_carry_their_token(operator: OperatorConsole) -> None:
    operator.make(LABELS)
    for path in FORMS:
        assert operator.client.post(path, data={**LABELS, "sure": "yes"}).status_code == 403
    assert operator.app.services.store().state(operator.app.services.store().known("lake")) == "open"
    for role in ("operator", "analyst", "reader"):
        operator.become(role)
        assert ("Services" in said(operator.get("/runs"))) is (role == "operator")
        for path in PAGES[:5]:
            assert operator.get(path).status_code == (200 if role == "operator" else 403), (role, path)
        if role != "operator":
            for path in [*PAGES[5:], *FORMS]:
                answer = operator.get(path) if path in PAGES[5:] else operator.send(path, {**LABELS, "sure": "yes"})
                assert answer.status_code == 403, (role, path)
                assert "this needs an operator" in said(answer)
    operator.carry("unknown")
    assert operator.get("/services").headers["location"].startswith("/sign-in")


def test_a_campaign_that_is_not_there(operator: OperatorConsole) -> None:
    for _ in range(2):  # without a database, and with one
        for path in ("none", "%2e%2e", "none/results.json", "none/labels.csv"):
            assert operator.get(f"/services/collect/{path}").status_code == 404
        for action in ACTIONS:
            assert operator.send(f"/services/collect/none/{action}", {"sure": "yes"}).status_code == 404
        operator.make(LABELS)


def test_invitations_are_shown_once_and_work(operator: OperatorConsole, tmp_path: Path) -> None:
    operator.make(LABELS)
    form = {"count": "3", "site": "https://collect.example.org/"}
    answer = operator.send(f"{HERE}/invite", form)
    assert answer.headers["content-disposition"] == 'attachment; filename="invitations-lake.txt"'
    assert answer.headers["cache-control"] == "no-store"
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    links, tokens = lines[:3], lines[3:]
    assert links == [f"https://collect.example.org/c/lake#{token}" for token in tokens]
    store = operator.app.services.store()
    for token in tokens:
        assert store.budget(store.known("lake"), hash_token(token)) == {"left": 2, "reported": []}
    assert ("made invitations", "3 for lake") in operator.activity()
    kept = b"".join(path.read_bytes() for path in (tmp_path / "console").iterdir() if path.is_file())
    assert not any(token.encode() in kept for token in tokens)
    wrong = [("0", "https://a.org"), ("-1", "https://a.org"), ("10001", "https://a.org"), ("many", "https://a.org")]
    wrong += [
        ("1", site) for site in ("", "a.org", "javascript:alert(1)", "https://", "https://a.org/#x", "https://a b.org")
    ]
    for count, site in wrong:
        assert operator.send(f"{HERE}/invite", {"count": count, "site": site}).status_code == 422, (count, site)
    assert store.participation(store.known("lake"))["invitations"] == 3
    operator.send(f"{HERE}/close", {"sure": "yes"})
    assert operator.send(f"{HERE}/invite", form).status_code == 409


def wait_for(inferrer: Inferrer) -> None:
    patience = time.monotonic() + 120
    while inferrer.state("lake") == "running" and time.monotonic() < patience:
        time.sleep(0.1)


@pytest.mark.slow
def test_from_reports_to_labels_and_into_truth(operator: OperatorConsole) -> None:
    operator.make(LABELS)
    for action, form in (("estimate", {}), ("infer", {}), ("export", {"format": ".csv"}), ("truth", {})):
        assert operator.send(f"{HERE}/{action}", form).status_code == 409, action  # there is nothing yet
    report(operator)
    assert operator.send(f"{HERE}/close", {}).status_code == 422  # the box was not ticked
    assert operator.send(f"{HERE}/infer", {}).status_code == 409  # it is open
    assert operator.get(f"{HERE}/results.json").status_code == 404
    store, inferrer = operator.app.services.store(), operator.app.services.inferrer()
    assert operator.send(f"{HERE}/estimate", {}).headers["location"] == f"{HERE}?done=estimating"
    assert "data-poll" in operator.get(HERE).text
    wait_for(inferrer)
    assert inferrer.state("lake") == "done"
    page = said(operator.get(HERE))
    assert "mean confidence of the labels" in page
    assert "data-poll" not in operator.get(HERE).text
    assert operator.send(f"{HERE}/close", {"sure": "yes"}).headers["location"] == f"{HERE}?done=closed"
    assert store.state(store.known("lake")) == "closed"
    assert operator.send(f"{HERE}/estimate", {}).status_code == 409
    assert operator.send(f"{HERE}/infer", {}).status_code == 303
    wait_for(inferrer)
    assert inferrer.state("lake") == "done"
    content = json.loads(operator.get(f"{HERE}/results.json").content)
    assert [(one["task"], one["label"]) for one in content["labels"]] == [("a", "no"), ("b", "yes")]
    table = list(csv.DictReader(io.StringIO(operator.get(f"{HERE}/labels.csv").text)))
    assert [(row["task"], row["label"], float(row["confidence"])) for row in table] == [
        (one["task"], one["label"], one["confidence"]) for one in content["labels"]
    ]
    assert "a no" in said(operator.get(HERE))
    check_reports(operator)
    done = [what for what, _ in operator.activity()]
    for what in (
        "started an estimate",
        "closed a campaign",
        "started an inference",
        "exported answers",
        "added answers of a campaign to the data",
    ):
        assert what in done


def check_reports(operator: OperatorConsole) -> None:
    """Exports are the reports, and a file for Truth is read as labels."""
    for suffix, first in ((".csv", b"task,worker,label"), (".parquet", b"PAR1"), (".jsonl", b'{"format"')):
        answer = operator.send(f"{HERE}/export", {"format": suffix})
        assert answer.content.startswith(first)
        assert answer.headers["content-disposition"] == f'attachment; filename="reports-lake{suffix}"'
    assert operator.send(f"{HERE}/export", {"format": ".exe"}).status_code == 422
    target = operator.send(f"{HERE}/truth", {}).headers["location"]
    worker = JobWorker(operator.app, "checks", Journal("console"))
    while jobs.waiting(operator.app, "checks"):
        worker.work()
    page = said(operator.get(target))
    assert "Read as labels" in page
    file: Any = target.split("?")[0].rsplit("/", 1)[1]
    assert f'href="/truth?data={file}"' in operator.get(target).text
    folder = operator.app.files_folder / file
    assert len(Labels.read(next(folder.iterdir()))) == 12
