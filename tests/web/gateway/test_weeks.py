"""Posts of one person and week: longer delays, a budget, and advice before posting."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.web.gateway.helpers import SECOND, FakeTime, held, job, open_gateway, submit
from tests.web.gateway.test_platform import post_for, site  # noqa: F401

from peerveil.core.errors import BadInput
from peerveil.timing.sittings import ranked_first
from peerveil.web.common.database import DAY
from peerveil.web.common.errors import TooMany
from peerveil.web.gateway import Gateway, GatewayClient, Space
from peerveil.web.gateway.relay import written
from peerveil.web.gateway.weeks import Ask, Weeks, week_start

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.web.gateway.test_web import Site

GAP = 100
PEOPLE = 1000
ESCALATE = {"every": 2, "epsilon_factor": "1/2", "gap_factor": 2, "levels": 3}


def delays(gateway: Gateway, time: FakeTime, rounds: int) -> list[np.ndarray[Any, Any]]:
    """What lone posts wait, in seconds, round by round: posts of everybody, far apart."""
    found = []
    for number in range(rounds):
        gateway.take_all([job(gateway, "t", f"{number} {k}", actor=f"a{k}") for k in range(PEOPLE)])
        posts = [post for post in held(gateway).values() if post.content.startswith(f"{number} ")]
        found.append(np.array([(post.due - post.arrived) / SECOND for post in posts]))
        time.advance(30)
    return found


@pytest.mark.parametrize("fault", [False, True], ids=["as it is", "without counting"])
def test_the_third_and_the_fifth_post_of_a_week_wait_longer(
    sqlite_url: str, make: Any, time: FakeTime, fault: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault:
        monkeypatch.setattr(Weeks, "count", lambda *_: 0)
    gateway = make(sqlite_url, escalate=ESCALATE)
    space, points = gateway.space("forum"), np.arange(0, 700)
    distances = []
    for number, waits in enumerate(delays(gateway, time, 5)):
        law = space.mechanism_for("t", number).unbatched.below(points)
        distances.append(float(np.abs((waits[:, None] <= points).mean(0) - law).max()))
    bound = math.sqrt(math.log(2 * 5 / 1e-7) / (2 * PEOPLE))  # Dvoretzky, Kiefer, Wolfowitz
    assert (max(distances) > bound) is fault
    assert max(distances[:2]) < bound
    assert [space.mechanism_for("t", n).epsilon for n in range(6)] == [1, 1, 0.5, 0.5, 0.25, 0.25]


def test_counts_survive_compaction_and_restart_and_end_with_the_week(url: str, time: FakeTime) -> None:
    with open_gateway(url, time, escalate=ESCALATE) as gateway:
        gateway.configure([Space.read("other", {"gap": "100s", "window": "10s"})])
        for number in range(4):
            submit(gateway, f"t{number}", str(number), space=("forum", "other")[number % 2])
            time.advance(20)
        gateway.leader.compact()
    with open_gateway(url, time, boot="boot 1", escalate=ESCALATE) as gateway:
        assert ask(gateway)["posts_this_week"] == 4  # of both spaces
        later = gateway.space("forum").longest_delay("t", 4)
        assert submit(gateway)["longest_delay"] == later > gateway.space("forum").longest_delay("t")
        assert ask(gateway, "nobody")["posts_this_week"] == 0
        time.advance((week_start(time.now) + 7 * DAY - time.now) / SECOND)
        assert ask(gateway)["posts_this_week"] == 0
        gateway.leader.compact()
        gateway.leader.memory.forget(time.now)
        assert not gateway.leader.memory.weeks._arrivals


def ask(gateway: Gateway, actor: str = "kim", thread: str = "t") -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(gateway.take(Ask(gateway.space("forum"), actor, thread)))
    return answer


def test_a_budget_ends_for_a_week(sqlite_url: str, make: Any, time: FakeTime) -> None:
    gateway = make(sqlite_url, epsilon="1/2", weekly_budget="1")  # the first post is free: three in all
    assert [ask(gateway)["posts_left"] for _ in range(3) if submit(gateway)] == [2, 1, 0]
    frames = gateway.leader._seq
    assert ask(gateway)["follow_up"] is False
    assert (gateway.leader._seq, gateway.leader.backlog) == (frames, 0)  # a question writes nothing
    with pytest.raises(TooMany, match="at most 3 posts a week") as refusal:
        submit(gateway)
    submit(gateway, actor="eve")
    assert refusal.value.retry_after is not None
    time.advance(refusal.value.retry_after)
    submit(gateway)


@pytest.mark.usefixtures("site")
def test_an_author_is_warned_before_a_follow_up(
    site: Site,  # noqa: F811
    time: FakeTime,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def advice(who: str = "author", thread: str = "b", account: str | None = None) -> dict[str, Any]:
        return clients[who].advice("forum", thread, author=account)

    def client_of(who: str) -> GatewayClient:
        client = GatewayClient("http://127.0.0.1:8711")
        monkeypatch.setattr(
            client, "_call", lambda way, path, _, headers: site.call(way, path, who, headers=headers).json()
        )
        return client

    clients = {who: client_of(who) for who in ("author", "platform")}

    assert not advice()["follow_up"]
    site.post(thread="a")
    assert advice()["follow_up"]
    assert advice("platform", account="author") == advice()
    assert not advice("platform", account="eve")["follow_up"]
    assert not advice(thread="a")["follow_up"]  # the same thread: no pseudonym is linked with another
    time.advance(advice()["seconds"])
    assert not advice()["follow_up"]
    assert site.call("GET", "/v1/spaces/forum/advice?thread=b", "reader").status_code == 403
    assert post_for(site, "eve", thread="b").status_code == 202


def test_questions_reach_the_process_that_leads(sqlite_url: str, make: Any) -> None:
    gateway = make(sqlite_url)
    request = Ask(gateway.space("forum"), "kim", "t")
    from peerveil.web.gateway.relay import RelayServer

    kind, *fields = written(request)
    server = RelayServer(gateway, "127.0.0.1")
    assert server._request(kind, fields) == request
    server.stop()


@pytest.mark.parametrize(
    "wrong",
    [{"escalate": {"evry": 2}}, {"escalate": 2}, {"escalate": {"every": 0}}, {"weekly_budget": "x"},
     {"escalate": {}, "mechanism": "uniform"}, {"weekly_budget": "1000000"}],
)  # fmt: skip
def test_wrong_policies_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        Space.read("forum", {"gap": "100s", "window": "10s"} | wrong)


# ---- measured: how soon a person's two pseudonyms are linked -----------------------------------------------------------

SUSPECTS, SITTINGS, TRIALS = 10, 5, 300
POLICIES: dict[str, dict[str, Any]] = {
    "none": {},
    "epsilon halved every 2 posts, twice": {"escalate": {"every": 2, "levels": 3}},
    "epsilon quartered every 2 posts, twice": {"escalate": {"every": 2, "epsilon_factor": "1/4", "levels": 3}},
}


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_how_soon_a_gateway_links_two_pseudonyms(sqlite_url: str, make: Any, time: FakeTime, policy: str) -> None:
    """In each sitting the target posts, the right suspect at once, and nine others, who post elsewhere, after a gap.

    The attacker sees when each suspect's post appears, and ranks by likelihood. The best one: it knows when the target's arrived.
    """
    gateway = make(sqlite_url, **POLICIES[policy])
    space, grid = gateway.space("forum"), np.arange(0, 2000)
    scores = np.zeros((TRIALS, SUSPECTS))
    firsts = []
    people = [(trial, k) for trial in range(TRIALS) for k in range(SUSPECTS)]
    for sitting in range(SITTINGS):
        start = time.now
        right = [(trial, k) for trial, k in people if k == 0]
        others = [(trial, k) for trial, k in people if k]
        post_all(gateway, people, "a", sitting)
        post_all(gateway, right, "b", sitting)
        time.advance(GAP)
        post_all(gateway, others, "b", sitting)
        mechanism = space.mechanism_for("b", 2 * sitting + 1)
        together = np.diff(mechanism.batched.below(grid), prepend=0)
        apart = np.diff(mechanism.unbatched.below(grid - GAP), prepend=0)
        with np.errstate(divide="ignore"):
            ratio = np.clip(np.log(np.maximum(together, 1e-300)) - np.log(np.maximum(apart, 1e-300)), -1e6, 1e6)
        ratio[(together < 1e-15) & (apart < 1e-15)] = 0
        for post in held(gateway).values():
            kind, number, trial, k = post.content.split()
            if kind == "b" and int(number) == sitting:
                scores[int(trial), int(k)] += ratio[round((post.due - start) / SECOND)]
        best = scores[:, 1:].max(1)
        ties = (np.round(scores, 6) == np.round(scores[:, :1], 6)).sum(1)
        firsts.append(float(np.where(scores[:, 0] >= best - 1e-6, 1 / ties, 0).mean()))
        time.advance(1000)
    mechanisms = [space.mechanism_for("b", 2 * sitting + 1) for sitting in range(SITTINGS)]
    expected = ranked_first(mechanisms, [float(GAP)], suspects=SUSPECTS, trials=4000)
    print(
        f"{policy}: gateway {[round(share, 2) for share in firsts]}, by the laws {[round(share, 2) for share in expected]}"
    )
    assert np.abs(np.array(firsts) - np.array(expected)).max() < 5 * 0.5 / math.sqrt(TRIALS)


def post_all(gateway: Gateway, people: Sequence[tuple[int, int]], thread: str, sitting: int) -> None:
    for first in range(0, len(people), 500):
        some = people[first : first + 500]
        gateway.take_all([job(gateway, thread, f"{thread} {sitting} {t} {k}", actor=f"{t} {k}") for t, k in some])
