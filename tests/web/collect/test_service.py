"""The service through its interface: what is taken, what is refused, and that a refusal changes nothing."""

from __future__ import annotations

import io
import json
import secrets
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import func, select, text
from tests.web.common.client import Client as Http

from peerveil.data import Labels
from peerveil.rankings import aggregate_rankings
from peerveil.truth import PrivateDawidSkene
from peerveil.truth.wire import Client, read_answers
from peerveil.web.collect import Campaign, Store, export, infer
from peerveil.web.collect.service import build_app
from peerveil.web.collect.tables import answers, people
from peerveil.web.common import Journal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

TERMS: dict[str, Any] = {
    "id": "lake",
    "title": "Birds of the lake",
    "classes": ["no", "perhaps", "yes"],
    "tasks": [f"{i}" for i in range(12)],
    "epsilon": 2,
    "answers": 5,
}
VOTES: dict[str, Any] = {
    "id": "drinks",
    "title": "Drinks",
    "kind": "rankings",
    "items": ["tea", "milk", "juice", "water", "wine", "beer"],
    "epsilon": 1,
    "answers": 2,
}


Asked = tuple[str, str, dict[str, Any]]


class Bench:
    """A service with two campaigns, and the words to talk to it."""

    def __init__(self, url: str) -> None:
        self.store = Store(url, create=True)
        for terms in (TERMS, VOTES):
            self.store.add(Campaign.from_dict(terms))
        self.known = self.store.known("lake")
        self.log = io.StringIO()
        self.http = Http(build_app(self.store, Journal("collect", self.log)))

    def token(self) -> str:
        return self.store.invite(self.known, 1)[0]

    def line(self, task: int, answer: str = "yes") -> str:
        return Client(self.known.campaign.described()).randomize(str(task), answer)

    def request(
        self, token: str, body: str | bytes, key: str | None = None, campaign: str = "lake"
    ) -> tuple[str, str, dict[str, Any]]:
        headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": key or secrets.token_hex(16)}
        return "POST", f"/v1/campaigns/{campaign}/reports", {"content": body, "headers": headers}

    def send(self, token: str, body: str | bytes, key: str | None = None, campaign: str = "lake") -> httpx.Response:
        method, path, more = self.request(token, body, key, campaign)
        return self.http.request(method, path, **more)

    def budget(self, token: str) -> dict[str, Any]:
        answer = self.http.get("/v1/campaigns/lake/budget", headers={"Authorization": f"Bearer {token}"})
        found: dict[str, Any] = answer.json()
        return found

    def stored(self) -> tuple[int, int]:
        """How many reports there are, and how many answers are left in all."""
        with self.store.database.reading() as connection:
            return (
                connection.execute(select(func.count()).select_from(answers)).scalar_one(),
                int(connection.execute(select(func.coalesce(func.sum(people.c.left), 0))).scalar_one()),
            )

    def close(self) -> None:
        self.http.close()
        self.store.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    url = str(tmp_path / "collect.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    made = Bench(url)
    yield made
    made.close()


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(str(tmp_path / "collect.db"))
    yield made
    made.close()


def test_a_report_is_taken_once_however_often_it_comes(bench: Bench) -> None:
    token, key, line = bench.token(), "k1", bench.line(3)
    first = bench.send(token, line, key)
    assert (first.status_code, first.json()) == (202, {"accepted": True})
    before = bench.stored()
    again = bench.send(token, line, key)
    assert (again.status_code, again.content) == (202, first.content)
    other = bench.send(token, bench.line(4), key)
    assert (other.status_code, other.json()["error"]) == (422, "invalid")
    same_question = bench.send(token, line)
    assert same_question.status_code == 409
    assert bench.stored() == before == (1, 4)
    assert bench.budget(token) == {"left": 4, "reported": [3]}


def test_the_budget_cannot_be_exceeded_one_after_another(bench: Bench) -> None:
    token = bench.token()
    codes = [bench.send(token, bench.line(task)).status_code for task in range(12)]
    assert codes == [202] * 5 + [403] * 7
    assert bench.stored() == (5, 0)


def test_the_budget_cannot_be_exceeded_at_once_or_from_two_devices(bench: Bench) -> None:
    """Many requests in one moment through two servers on one database, for the same and for different questions."""
    second = Http(build_app(bench.store, Journal("collect", io.StringIO())))
    try:
        token = bench.token()
        ours = [bench.request(token, bench.line(task % 12)) for task in range(40)]
        answers = [*bench.http.together(ours[:20]), *second.together(ours[20:])]
    finally:
        second.close()
    assert sorted({answer.status_code for answer in answers}) in ([202, 403], [202, 403, 409])
    assert sum(answer.status_code == 202 for answer in answers) == 5
    assert bench.stored() == (5, 0)


def test_one_key_at_once_is_one_report(bench: Bench) -> None:
    token, line = bench.token(), bench.line(1)
    answers = bench.http.together([bench.request(token, line, "same") for _ in range(20)])
    assert {answer.status_code for answer in answers} == {202}
    assert bench.stored() == (1, 4)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"body": b"{"}, 422),
        ({"body": b""}, 422),
        ({"body": b"\xff" * 10}, 422),
        ({"body": b" " * 5000}, 422),
        ({"body": b" " * 20_000}, 413),
        ({"body": b'{"format": "peerveil-truth/1", "task": "99", "label": "yes"}'}, 422),
        ({"body": b'{"format": "peerveil-truth/1", "task": "1", "label": "my secret"}'}, 422),
        ({"campaign": "pond"}, 404),
        ({"campaign": "drinks"}, 422),
        ({"campaign": "L"}, 404),
        ({"token": "pv_" + "A" * 43}, 401),
        ({"token": "x"}, 401),
        ({"token": ""}, 401),
        ({"key": " "}, 400),
        ({"key": "k" * 201}, 400),
    ],
)
def test_what_is_refused_changes_nothing_and_is_not_repeated(lite: Bench, change: dict[str, Any], status: int) -> None:
    token = lite.token()
    given = {"token": token, "body": lite.line(1), "key": "k", **change}
    answer = lite.send(given["token"], given["body"], given["key"], given.get("campaign", "lake"))
    assert answer.status_code == status
    assert set(answer.json()) == {"error", "message"}
    assert "my secret" not in answer.text + lite.log.getvalue()
    assert lite.stored() == (0, 5)
    assert lite.send(token, lite.line(1), "k").status_code == 202  # the token and the key are as good as before


def test_a_token_of_another_campaign_opens_nothing(bench: Bench) -> None:
    other = bench.store.invite(bench.store.known("drinks"), 1)[0]
    answer = bench.send(other, bench.line(1))
    assert (answer.status_code, answer.json()["error"]) == (403, "forbidden")
    assert bench.stored()[0] == 0


def test_a_closed_campaign_takes_nothing_but_still_knows_what_it_took(bench: Bench) -> None:
    token, line = bench.token(), bench.line(1)
    assert bench.send(token, line, "k").status_code == 202
    bench.store.end(bench.known, now=True)
    assert bench.send(token, line, "k").status_code == 202  # a repetition of what was acknowledged
    refused = bench.send(token, bench.line(2))
    assert refused.status_code == 409
    assert bench.stored() == (1, 4)
    assert bench.http.get("/v1/campaigns/lake").json()["state"] == "closed"


def test_a_campaign_that_is_not_open_yet_takes_nothing(lite: Bench) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    lite.store.add(Campaign.from_dict({**TERMS, "id": "later", "opens": later.isoformat()}))
    token = lite.store.invite(lite.store.known("later"), 1)[0]
    assert lite.send(token, lite.line(1), campaign="later").status_code == 409
    assert lite.http.get("/v1/campaigns/later").json()["state"] == "not open yet"


def test_the_description_is_an_invitation_that_clients_accept(lite: Bench) -> None:
    terms = lite.http.get("/v1/campaigns/lake").json()
    assert terms["state"] == "open"
    assert Client(terms).classes == ["no", "perhaps", "yes"]
    assert "epsilon 2" in terms["promise"]
    assert "epsilon 10" in terms["person_promise"]


def test_nothing_is_published_while_the_campaign_is_open(lite: Bench) -> None:
    """Not even that there are reports: all that the public may read is the same before and after."""
    public = ["/v1/campaigns/lake", "/v1/campaigns/lake/results", "/c/lake", "/healthz", "/openapi.json"]
    before = [(lite.http.get(path).status_code, lite.http.get(path).content) for path in public]
    for _ in range(6):
        token = lite.token()
        for task in range(5):
            assert lite.send(token, lite.line(task)).status_code == 202
    infer(lite.store, lite.known, so_far=True)
    assert [(lite.http.get(path).status_code, lite.http.get(path).content) for path in public] == before
    for path in ("/v1/campaigns/lake/status", "/operate/lake"):
        assert lite.http.get(path).status_code == 401
        assert lite.http.get(path, headers={"Authorization": f"Bearer {lite.token()}"}).status_code == 401


def test_the_operator_sees_counts_and_estimates(bench: Bench) -> None:
    for _ in range(8):
        token = bench.token()
        for task in range(5):
            assert bench.send(token, bench.line(task)).status_code == 202
    operator = {"Authorization": f"Bearer {bench.store.appoint('lake')}"}
    found = bench.http.get("/v1/campaigns/lake/status", headers=operator).json()
    assert (found["invitations"], found["people"], found["reports"], found["so_far"]) == (8, 8, 40, None)
    infer(bench.store, bench.known, so_far=True)
    soon = bench.http.get("/v1/campaigns/lake/status", headers=operator).json()["so_far"]
    assert 0.5 <= soon["mean_confidence"] <= 1
    assert soon["needed"]["advice"].startswith("Answers per task")
    page = bench.http.get("/operate/lake", headers=operator)
    assert "mean confidence of the labels" in page.text
    assert "more answers needed" in page.text
    assert "<svg" in page.text
    assert bench.http.get("/v1/campaigns/drinks/status", headers=operator).status_code == 403
    everything = {"Authorization": f"Bearer {bench.store.appoint('*')}"}
    assert bench.http.get("/v1/campaigns/drinks/status", headers=everything).status_code == 200


def test_results_are_the_librarys_on_the_exported_reports(bench: Bench, tmp_path: Path) -> None:
    """In all three formats, labels, confidence and abilities equal to the last bit; and again after a second inference."""
    for person in range(10):
        token = bench.token()
        for task in range(5):
            thought = "yes" if (task + person) % 4 else "no"
            assert bench.send(token, bench.line((task + person) % 12, thought)).status_code == 202
    bench.store.end(bench.known, now=True)
    files = [
        export(bench.store, bench.known, tmp_path / f"reports{suffix}") for suffix in (".csv", ".parquet", ".jsonl")
    ]
    classes = list(bench.known.campaign.classes)
    estimators = [PrivateDawidSkene(epsilon=2, classes=classes) for _ in files[:2]]
    results = [one.fit(Labels.read(path)) for one, path in zip(estimators, files[:2], strict=True)]
    fits = [(result, one.workers_) for one, result in zip(estimators, results, strict=True)]
    fits.append(read_answers(files[2]).fit())
    assert fits[2][0].guarantee == bench.known.campaign.guarantee
    for _ in range(2):
        infer(bench.store, bench.known)
        answer = bench.http.get("/v1/campaigns/lake/results").json()
        for fit, workers in fits:
            library = {str(task): (label, p) for task, label, p in fit.frame().rows()}
            assert {one["task"]: (one["label"], one["confidence"]) for one in answer["labels"]} == library
            with bench.store.database.reading() as connection:
                rows = connection.execute(
                    text("SELECT person, reports, ability FROM collect_abilities ORDER BY person")
                )
                kept = [tuple(row) for row in rows]
            assert kept == workers.frame().select("worker", "answers", "ability").rows()
    short = bench.http.get("/v1/campaigns/lake/results?limit=5").json()
    assert [one["number"] for one in short["labels"]] == [0, 1, 2, 3, 4]
    rest = bench.http.get(f"/v1/campaigns/lake/results?after={short['next']}&limit=100").json()
    assert [*short["labels"], *rest["labels"]] == answer["labels"]


def test_a_campaign_that_is_not_to_be_published_is_not(lite: Bench) -> None:
    lite.store.add(Campaign.from_dict({**TERMS, "id": "own", "publish": False}))
    known = lite.store.known("own")
    for token in lite.store.invite(known, 4):
        assert lite.send(token, lite.line(1), campaign="own").status_code == 202
    lite.store.end(known, now=True)
    infer(lite.store, known)
    assert lite.http.get("/v1/campaigns/own/results").status_code == 404


def test_votes_go_all_the_way(bench: Bench, tmp_path: Path) -> None:
    known = bench.store.known("drinks")
    protocol = known.campaign.protocol
    for person, token in enumerate(bench.store.invite(known, 60)):
        for question in (person % 3, (person + 1) % 3):
            line = json.dumps({"protocol": protocol.fingerprint, "question": question, "bits": "1"})
            assert bench.send(token, line, campaign="drinks").status_code == 202
        over = json.dumps({"protocol": protocol.fingerprint, "question": (person + 2) % 3, "bits": "1"})
        assert bench.send(token, over, campaign="drinks").status_code == 403
    bench.store.end(known, now=True)
    found = infer(bench.store, known)
    assert found["reject"]
    assert found["reports"] == 120
    for suffix in (".csv", ".parquet"):
        test = aggregate_rankings(export(bench.store, known, tmp_path / f"votes{suffix}"))
        assert (test.pvalue, test.statistic) == (found["pvalue"], found["statistic"])
        assert test.guarantee.exact_epsilon == 2
    answer = bench.http.get("/v1/campaigns/drinks/results").json()
    assert answer["pvalue"] == found["pvalue"]
    assert [one["reports"] for one in answer["questions"]] == [40, 40, 40]
    operator = {"Authorization": f"Bearer {bench.store.appoint('drinks')}"}
    assert "before" in bench.http.get("/operate/drinks", headers=operator).text


def test_a_person_is_a_random_number_and_a_token_a_hash(lite: Bench, tmp_path: Path) -> None:
    made = lite.store.invite(lite.known, 50)
    assert lite.send(made[0], lite.line(1)).status_code == 202
    lite.store.database.close()
    content = b"".join(path.read_bytes() for path in tmp_path.glob("collect.db*"))
    for token in made:
        assert token.encode() not in content
        assert token[3:].encode() not in content


def test_headers_close_the_page_to_everything_foreign(lite: Bench) -> None:
    page = lite.http.get("/c/lake")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert policy.endswith("frame-ancestors 'none'")
    assert page.headers["referrer-policy"] == "no-referrer"
    for word in ("<script>", "onclick", "style=", "http://", "https://"):
        assert word not in page.text
    lite.store.add(Campaign.from_dict({**TERMS, "id": "shown", "embed": ["https://example.org"]}))
    assert lite.http.get("/c/shown").headers["content-security-policy"].endswith("frame-ancestors https://example.org")
    module = lite.http.get("/peerveil-client.js")
    assert module.headers["content-type"].startswith("text/javascript")
    assert lite.http.get("/embed.js").headers["cross-origin-resource-policy"] == "cross-origin"


def test_terms_never_change(lite: Bench) -> None:
    lite.store.add(Campaign.from_dict(TERMS))
    with pytest.raises(ValueError, match="never change"):
        lite.store.add(Campaign.from_dict({**TERMS, "epsilon": 3}))
