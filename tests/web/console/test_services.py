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
from tests.web.console.office import LABELS, RANKINGS, Office

from peerveil.data import Labels
from peerveil.web.collect import Campaign, Store
from peerveil.web.collect.answers import RandomizedAnswer
from peerveil.web.collect.service import Inferrer
from peerveil.web.collect.store import Submission, hash_key
from peerveil.web.common import Journal
from peerveil.web.common.tokens import hash_token
from peerveil.web.console import jobs
from peerveil.web.console.pages.services import ACTS
from peerveil.web.console.work import Worker

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

SCRIPT = "<script>alert(1)</script>"
HERE = "/services/collect/lake"
PAGES = ["/services", "/services/gateway", "/services/collect", "/services/new-campaign", HERE]
PAGES += [f"{HERE}/results.json", f"{HERE}/labels.csv"]
FORMS = ["/services/new-campaign", "/services/gateway/clock", *(f"{HERE}/{act}" for act in ACTS)]


def said(answer: httpx.Response) -> str:
    """What a page says, without its marks."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())


def report(office: Office, people: int = 6) -> list[str]:
    """People who answer all that they may; their invitations."""
    store = office.console.annex.store()
    known = store.known("lake")
    tokens = store.invite(known, people)
    for token in tokens:
        digest = hash_token(token)
        for question in range(2):
            job = Submission(known, digest, hash_key(digest, str(question)), RandomizedAnswer(question, question))
            with store.database.writing("take") as connection:
                assert store.take(connection, [job]) == [True]
    return tokens


def test_looking_makes_nothing_and_says_how_to_begin(office: Office, tmp_path: Path) -> None:
    for path in PAGES[:4]:
        assert office.get(path).status_code == 200
    assert not (tmp_path / "console" / "collect.db").exists()
    page = said(office.get("/services"))
    assert f"peerveil collect serve --db {tmp_path}/console/collect.db" in page
    assert "Not set up yet" in page
    assert "Not set up here" in page
    assert "peerveil gateway init" in said(office.get("/services/gateway"))


def test_a_password_of_a_database_is_on_no_page(tmp_path: Path) -> None:
    address = "postgresql://chair:swordfish@127.0.0.1:1/none"
    office = Office(tmp_path, collect=address, gateway=address)
    try:
        for path in PAGES[:4]:
            page = office.get(path)
            assert page.status_code == 200
            assert "swordfish" not in page.text
            assert "chair" not in page.text
        assert said(office.get("/services")).count("It cannot be opened") == 2
        assert "PEERVEIL_COLLECT_DB=... peerveil collect serve" in said(office.get("/services"))
        made = office.send("/services/new-campaign", {**LABELS, "step": "make"})
        assert made.status_code == 503
        assert "swordfish" not in made.text
    finally:
        office.close()


def test_the_promise_is_seen_before_a_campaign_is_made(office: Office, tmp_path: Path) -> None:
    campaign = Campaign.from_dict(
        {
            **{name: LABELS[name] for name in ("id", "title", "question", "epsilon")},
            "classes": ["no", "yes"],
            "tasks": ["a", "b", "c"],
            "answers": 2,
            "accuracy": 0.8,
        }
    )
    preview = office.send("/services/new-campaign", {**LABELS, "step": "preview"})
    assert preview.status_code == 200
    for words in (campaign.response, campaign.guarantee, campaign.person_guarantee, campaign.person_guarantee.verdict):
        assert str(words) in said(preview)
    assert not (tmp_path / "console" / "collect.db").exists()
    fields = dict(re.findall(r'<input type="hidden" name="([a-z_]+)" value="([^"]*)">', preview.text))
    fields = {name: html.unescape(value) for name, value in fields.items()}
    answer = office.send("/services/new-campaign", {**fields, "step": "change"})
    assert 'value="Birds of the lake"' in answer.text
    office.make(fields)  # what the page carries is what is made
    with Store(str(tmp_path / "console" / "collect.db")) as store:
        assert store.known("lake").campaign == campaign
    assert ("made a campaign", "lake") in office.trail()
    page = office.get(HERE)
    assert str(campaign.guarantee) in said(page)
    assert "Birds of the lake" in said(office.get("/services/collect"))
    again = office.send("/services/new-campaign", {**LABELS, "epsilon": "9", "step": "make"})
    assert again.status_code == 422
    assert "terms never change" in said(again)


def test_a_weak_promise_is_called_weak(office: Office) -> None:
    strong = office.send("/services/new-campaign", {**LABELS, "unit": "person"})
    weak = office.send("/services/new-campaign", {**LABELS, "epsilon": "4"})
    assert "are in effect not protected" not in said(strong)
    assert "It is split evenly: 1/2 for each of 2 answers" in said(strong)
    assert "are in effect not protected" in said(weak)


def test_a_campaign_of_rankings(office: Office) -> None:
    preview = office.send("/services/new-campaign", RANKINGS)
    assert preview.status_code == 200
    office.make(RANKINGS)
    known = office.console.annex.store().known("drinks")
    assert known.campaign.items == ("tea", "milk", "juice", "wine")
    first = known.campaign.asked()[0]
    assert f"{known.campaign.items[first[0]]} before {known.campaign.items[first[1]]}?" in said(preview)
    assert office.get("/services/collect/drinks").status_code == 200


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
    office: Office, field: str, value: str, tmp_path: Path
) -> None:
    for step in ("preview", "make"):
        answer = office.send("/services/new-campaign", {**LABELS, field: value, "step": step})
        assert answer.status_code == 422
        problem = re.search(r'role="alert">(.*?)</div>', answer.text, re.DOTALL)
        assert problem is not None
        assert re.search(rf"<p>{field}\b", problem[1]), problem[1]
        if field != "question" and field != "kind":
            assert ">Is there a bird?<" in answer.text or 'value="Is there a bird?"' in answer.text
    assert not (tmp_path / "console" / "collect.db").exists()


@pytest.mark.parametrize("form", [LABELS, RANKINGS], ids=["labels", "rankings"])
def test_a_script_in_any_field_is_shown_as_text(office: Office, form: dict[str, str]) -> None:
    for name in form:
        for step in ("preview", "change"):
            answer = office.send("/services/new-campaign", {**form, name: f"{SCRIPT}\n{SCRIPT}2", "step": step})
            assert SCRIPT not in answer.text, (name, step)
            answer = office.send("/services/new-campaign", {**form, name: f'"><img src=x {name}>', "step": step})
            assert "<img" not in answer.text, (name, step)
    texts: dict[str, str] = {
        name: f"{SCRIPT}1\n{SCRIPT}2\n{SCRIPT}3\n{SCRIPT}4" for name in ("classes", "tasks", "items") if name in form
    }
    office.make({**form, "title": SCRIPT, "question": SCRIPT, **texts})
    if form is LABELS:
        report(office)
    for path in ("/services", "/services/collect", f"/services/collect/{form['id']}", "/people"):
        page = office.get(path)
        assert page.status_code == 200
        assert SCRIPT not in page.text
    assert html.escape(SCRIPT) in office.get("/services/collect").text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tasks.csv", b'task,text\n1,Picture 1\n2,"Picture, 2"\n'),
        ("tasks.txt", "\ufeff1\tPicture 1\r\n\r\n2\tPicture, 2\r\n".encode()),
        ("tasks.jsonl", b'{"task": "1", "text": "Picture 1"}\n{"task": "2", "text": "Picture, 2"}\n'),
    ],
)
def test_tasks_come_from_a_file(office: Office, name: str, content: bytes) -> None:
    answer = office.send("/services/new-campaign", LABELS, files={"file": (name, content)})
    assert answer.status_code == 200, said(answer)
    fields = dict(re.findall(r'<input type="hidden" name="([a-z_]+)" value="([^"]*)">', answer.text))
    office.make({name: html.unescape(value) for name, value in fields.items()})
    assert office.console.annex.store().known("lake").campaign.tasks == (("1", "Picture 1"), ("2", "Picture, 2"))


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
def test_a_file_that_holds_no_tasks_is_refused(office: Office, name: str, content: bytes) -> None:
    answer = office.send("/services/new-campaign", LABELS, files={"file": (name, content)})
    assert answer.status_code == 422
    assert "This cannot be made as it stands" in said(answer)


def test_operators_alone_come_in_and_forms_carry_their_token(office: Office) -> None:
    office.make(LABELS)
    for path in FORMS:
        assert office.client.post(path, data={**LABELS, "sure": "yes"}).status_code == 403
    assert office.console.annex.store().state(office.console.annex.store().known("lake")) == "open"
    for role in ("operator", "analyst", "reader"):
        office.become(role)
        assert ("Services" in said(office.get("/runs"))) is (role == "operator")
        for path in PAGES[:5]:
            assert office.get(path).status_code == (200 if role == "operator" else 403), (role, path)
        if role != "operator":
            for path in [*PAGES[5:], *FORMS]:
                answer = office.get(path) if path in PAGES[5:] else office.send(path, {**LABELS, "sure": "yes"})
                assert answer.status_code == 403, (role, path)
                assert "this is for an operator" in said(answer)
    office.carry("unknown")
    assert office.get("/services").headers["location"].startswith("/sign-in")


def test_a_campaign_that_is_not_there(office: Office) -> None:
    for _ in range(2):  # without a database, and with one
        for path in ("none", "%2e%2e", "none/results.json", "none/labels.csv"):
            assert office.get(f"/services/collect/{path}").status_code == 404
        for act in ACTS:
            assert office.send(f"/services/collect/none/{act}", {"sure": "yes"}).status_code == 404
        office.make(LABELS)


def test_invitations_are_shown_once_and_work(office: Office, tmp_path: Path) -> None:
    office.make(LABELS)
    form = {"count": "3", "site": "https://collect.example.org/"}
    answer = office.send(f"{HERE}/invite", form)
    assert answer.headers["content-disposition"] == 'attachment; filename="invitations-lake.txt"'
    assert answer.headers["cache-control"] == "no-store"
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    links, tokens = lines[:3], lines[3:]
    assert links == [f"https://collect.example.org/c/lake#{token}" for token in tokens]
    store = office.console.annex.store()
    for token in tokens:
        assert store.budget(store.known("lake"), hash_token(token)) == {"left": 2, "reported": []}
    assert ("made invitations", "3 for lake") in office.trail()
    kept = b"".join(path.read_bytes() for path in (tmp_path / "console").iterdir() if path.is_file())
    assert not any(token.encode() in kept for token in tokens)
    wrong = [("0", "https://a.org"), ("-1", "https://a.org"), ("10001", "https://a.org"), ("many", "https://a.org")]
    wrong += [
        ("1", site) for site in ("", "a.org", "javascript:alert(1)", "https://", "https://a.org/#x", "https://a b.org")
    ]
    for count, site in wrong:
        assert office.send(f"{HERE}/invite", {"count": count, "site": site}).status_code == 422, (count, site)
    assert store.participation(store.known("lake"))["invitations"] == 3
    office.send(f"{HERE}/close", {"sure": "yes"})
    assert office.send(f"{HERE}/invite", form).status_code == 409


def wait_for(inferrer: Inferrer) -> None:
    patience = time.monotonic() + 120
    while inferrer.state("lake") == "running" and time.monotonic() < patience:
        time.sleep(0.1)


@pytest.mark.slow
def test_from_reports_to_labels_and_into_truth(office: Office) -> None:
    office.make(LABELS)
    for act, form in (("estimate", {}), ("infer", {}), ("export", {"format": ".csv"}), ("truth", {})):
        assert office.send(f"{HERE}/{act}", form).status_code == 409, act  # there is nothing yet
    report(office)
    assert office.send(f"{HERE}/close", {}).status_code == 422  # the box was not ticked
    assert office.send(f"{HERE}/infer", {}).status_code == 409  # it is open
    assert office.get(f"{HERE}/results.json").status_code == 404
    store, inferrer = office.console.annex.store(), office.console.annex.inferrer()
    assert office.send(f"{HERE}/estimate", {}).headers["location"] == f"{HERE}?done=estimating"
    assert "data-poll" in office.get(HERE).text
    wait_for(inferrer)
    assert inferrer.state("lake") == "done"
    page = said(office.get(HERE))
    assert "mean confidence of the labels" in page
    assert "data-poll" not in office.get(HERE).text
    assert office.send(f"{HERE}/close", {"sure": "yes"}).headers["location"] == f"{HERE}?done=closed"
    assert store.state(store.known("lake")) == "closed"
    assert office.send(f"{HERE}/estimate", {}).status_code == 409
    assert office.send(f"{HERE}/infer", {}).status_code == 303
    wait_for(inferrer)
    assert inferrer.state("lake") == "done"
    content = json.loads(office.get(f"{HERE}/results.json").content)
    assert [(one["task"], one["label"]) for one in content["labels"]] == [("a", "no"), ("b", "yes")]
    table = list(csv.DictReader(io.StringIO(office.get(f"{HERE}/labels.csv").text)))
    assert [(row["task"], row["label"], float(row["confidence"])) for row in table] == [
        (one["task"], one["label"], one["confidence"]) for one in content["labels"]
    ]
    assert "a no" in said(office.get(HERE))
    check_reports(office)
    done = [what for what, _ in office.trail()]
    for what in (
        "began an estimate",
        "closed a campaign",
        "began an inference",
        "exported reports",
        "took reports to the data",
    ):
        assert what in done


def check_reports(office: Office) -> None:
    """Exports are the reports, and a file for Truth is read as labels."""
    for suffix, first in ((".csv", b"task,worker,label"), (".parquet", b"PAR1"), (".jsonl", b'{"format"')):
        answer = office.send(f"{HERE}/export", {"format": suffix})
        assert answer.content.startswith(first)
        assert answer.headers["content-disposition"] == f'attachment; filename="reports-lake{suffix}"'
    assert office.send(f"{HERE}/export", {"format": ".exe"}).status_code == 422
    target = office.send(f"{HERE}/truth", {}).headers["location"]
    worker = Worker(office.console.house, "desk", Journal("console"))
    while jobs.waiting(office.console.house, "desk"):
        worker.work()
    page = said(office.get(target))
    assert "Read as labels" in page
    file: Any = target.split("?")[0].rsplit("/", 1)[1]
    assert f'href="/truth?data={file}"' in office.get(target).text
    folder = office.console.house.files / file
    assert len(Labels.read(next(folder.iterdir()))) == 12
