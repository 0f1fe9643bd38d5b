"""kill -9 of servers, workers and the database under load: nothing lost, early, doubled, skipped or drawn again.

People post, and edit and take down what has appeared. One with the key looks at what the disk holds all the while: every delay
that was ever there must stay what it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.postgres import free_port
from tests.web.gateway.helpers import KEY

from peerveil.core.errors import PeerveilError
from peerveil.web.common import Vault
from peerveil.web.gateway import Gateway, GatewayClient, Refused, Space

if TYPE_CHECKING:
    from tests.postgres import Server

VICTIM = Path(__file__).with_name("victim.py")
BETA, GAP = 2.0, 3.0
SPACE = {"epsilon": 2, "gap": f"{GAP}s", "window": f"{BETA}s", "grid": "100ms"}
SITTINGS = 4  # clients at a time
KILLS = int(os.environ.get("PEERVEIL_KILLS", "100"))


class Sitting:
    """One person: posts on two threads, again and again; the second of each pair is certainly a follow-up.

    Then a post of this person that has appeared is edited or taken down. With the post of the pair on the other thread just
    before, that is a follow-up, too.
    """

    def __init__(self, client: GatewayClient, name: str, stop: threading.Event, reader: Reader) -> None:
        self.client, self.name, self.stop, self.reader = client, name, stop, reader
        self.receipts: dict[str, str] = {}
        """Of posts that were acknowledged, by text."""
        self.changed: dict[tuple[str, str], float] = {}
        """Acknowledged changes, by kind and the text of the post, each with the time before which it must not appear."""
        self.taken: dict[str, float] = {}
        """Acknowledged texts, each with the time before which it must not appear."""
        self.sent: set[str] = set()
        self.wrong: list[str] = []
        self.follow_ups = 0
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        number = 0
        while not self.stop.is_set():
            number += 1
            begun = time.time()
            first = self.submit(f"{self.name} {number} a", "a", begun)
            start = time.time()
            second = self.submit(f"{self.name} {number} b", "b", start)
            # arrivals lie between start and answer: if the whole pair took less than the window, the second waits for B > gap
            if first is not None and second is not None and second - begun < BETA:
                self.taken[f"{self.name} {number} b"] = start + GAP
                self.follow_ups += 1
                self.change(number, start)
            time.sleep(0.05)

    def submit(self, content: str, thread: str, start: float) -> float | None:
        self.sent.add(content)
        body = {"thread": thread, "content": content}
        answer = self.send("POST", "/v1/spaces/forum/posts", body, content)
        if answer is None:
            return None
        self.taken[content] = start
        self.receipts[content] = answer["receipt"]
        return time.time()

    def change(self, number: int, last: float) -> None:
        """Edit or take down a post of thread a that has appeared; ``last`` is when that on thread b was sent."""
        old = next((text for text in self.receipts if text.endswith("a") and text in self.reader.appeared), None)
        if old is None:
            return
        kind, start = ("edit", "removed")[number % 2], time.time()
        body = {"content": f"{old} edited"} if kind == "edit" else None
        receipt = self.receipts.pop(old)
        answer = self.send("PATCH" if body else "DELETE", f"/v1/posts/{receipt}", body, f"{kind} {old}")
        if answer is not None:
            follows = time.time() - last < BETA
            self.changed[kind, old] = start + GAP * follows

    def send(self, method: str, path: str, body: dict[str, str] | None, key: str) -> dict[str, Any] | None:
        while not self.stop.is_set():
            try:
                raw = None if body is None else json.dumps(body).encode()
                answer: dict[str, Any] = self.client._send(method, path, raw, {"Idempotency-Key": key})
            except Refused as refusal:
                if refusal.status not in (0, 503):
                    self.wrong.append(str(refusal))
                time.sleep(0.03)
            else:
                return answer
        return None


class Reader:
    """Follows the feed by its cursor from the beginning, through everything."""

    def __init__(self, url: str, stop: threading.Event) -> None:
        self.url, self.stop = url, stop
        self.seen: list[tuple[str, str, float]] = []
        self.appeared: dict[str, str] = {}
        """The ids of posts that were seen, by text."""
        self.posted: dict[str, int] = {}
        """Of each id the time that readers are told, in microseconds."""
        self.changes: list[tuple[str, str, float]] = []
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        gateway = patient(self.url)
        cursor = None
        while not self.stop.is_set():
            with contextlib.suppress(PeerveilError):
                items, cursor = gateway.read("forum", cursor, 500)
                now = time.time()
                self.seen += [(item.id, item.content, now) for item in items if item.changes is None]
                self.posted |= {
                    item.id: round(datetime.fromisoformat(item.posted_at).timestamp() * 1e6) for item in items
                }
                self.appeared |= {item.content: item.id for item in items if item.changes is None}
                self.changes += [(item.kind, item.changes, now) for item in items if item.changes is not None]
            time.sleep(0.02)
        gateway.close()


class Looker:
    """Has the key, and reads what the disk holds, again and again: which delays were drawn, and whether any is drawn anew."""

    def __init__(self, url: str, stop: threading.Event) -> None:
        self.url, self.stop = url, stop
        self.drawn: dict[bytes, set[tuple[Any, ...]]] = {}
        """By idempotency key: public id, due time, order and pause."""
        self.looks = 0
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        gateway = patient(self.url)
        gateway.leader.may_lead = False
        while not self.stop.is_set():
            with contextlib.suppress(PeerveilError), gateway.leader.looking() as memory:
                self.looks += 1
                for post in memory.held.values():
                    self.drawn.setdefault(post.key, set()).add((post.id, post.due, post.shuffle, post.pause))
            time.sleep(0.1)
        gateway.close()

    def redrawn(self, posted: dict[str, int]) -> int:
        """How many posts had two draws on the disk, or appeared before the time that was drawn for them."""
        return sum(
            len(draws) > 1 or any(posted.get(name, due) < due for name, due, *_ in draws)
            for draws in self.drawn.values()
        )


def patient(url: str) -> Gateway:
    while True:
        try:
            return Gateway(url, Vault.read(KEY))
        except PeerveilError:
            time.sleep(0.1)


class House:
    """Victims, people and a reader around one database."""

    def __init__(self, url: str) -> None:
        self.url, self.port = url, free_port()
        with Gateway(url, Vault.read(KEY), create=True) as gateway:
            gateway.configure([Space.read("forum", SPACE)], tick_ms=50)
            tokens = [gateway.issue_token(role="author", space="forum", actor=f"p{k}") for k in range(SITTINGS)]
        command = [sys.executable, str(VICTIM), url, str(self.port)]
        environment = os.environ | {"PEERVEIL_KEY": KEY}
        self.forks = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self.forks.stdout is not None
        self.forks.stdout.readline()
        self.stop, self.stop_reading = threading.Event(), threading.Event()
        self.reader, self.looker = Reader(url, self.stop_reading), Looker(url, self.stop_reading)
        self.people = [
            Sitting(GatewayClient(f"http://127.0.0.1:{self.port}", token, patience=5), f"p{k}", self.stop, self.reader)
            for k, token in enumerate(tokens)
        ]
        self.kills = 0

    def start(self, role: str) -> int:
        assert self.forks.stdin is not None
        assert self.forks.stdout is not None
        self.forks.stdin.write(f"{role}\n")
        self.forks.stdin.flush()
        return int(self.forks.stdout.readline())

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        self.kills += 1

    def begin(self) -> None:
        for person in self.people:
            person.thread.start()
        self.reader.thread.start()
        self.looker.thread.start()

    def wait_for_work(self, seconds: float) -> None:
        """Until something more was acknowledged (so that a kill hits a busy house), and a moment longer."""
        before, patience = self.acknowledged, time.monotonic() + 20
        while self.acknowledged == before and time.monotonic() < patience:
            time.sleep(0.01)
        time.sleep(seconds)

    @property
    def acknowledged(self) -> int:
        return sum(len(person.taken) for person in self.people)

    def finish(self, pids: list[int]) -> dict[str, Any]:
        """Let everything come out, and compare."""
        self.stop.set()
        for person in self.people:
            person.thread.join()
        deadline = time.monotonic() + 60
        wanted = {content for person in self.people for content in person.taken}
        changed = {
            (kind, self.reader.appeared[old]): moment
            for person in self.people
            for (kind, old), moment in person.changed.items()
        }
        while time.monotonic() < deadline and not (
            wanted <= {content for _, content, _ in self.reader.seen}
            and set(changed) <= {(kind, name) for kind, name, _ in self.reader.changes}
        ):
            time.sleep(0.2)
        time.sleep(GAP * 2)  # what should not come, would come now
        self.stop_reading.set()
        self.reader.thread.join()
        self.looker.thread.join()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert self.forks.stdin is not None
        assert self.forks.stdout is not None
        self.forks.stdin.close()
        self.forks.wait(60)
        self.forks.stdout.close()
        seen = self.reader.seen
        texts = [content for _, content, _ in seen]
        ids = [name for name, _, _ in seen]
        not_before = {content: moment for person in self.people for content, moment in person.taken.items()}
        with patient(self.url) as gateway:
            whole, cursor = [], None
            while True:
                items, cursor = gateway.read("forum", cursor, 500)
                if not items:
                    break
                whole += [item.id for item in items if item.changes is None]
        changes = [(kind, name) for kind, name, _ in self.reader.changes]
        return {
            "changes": len(changed),
            "changes lost": len(set(changed) - set(changes)),
            "changes doubled": len(changes) - len(set(changes)),
            "changes early": sum(moment < changed.get((kind, name), 0.0) for kind, name, moment in self.reader.changes),
            "drawn": len(self.looker.drawn),
            "redrawn": self.looker.redrawn(self.reader.posted),
            "looks": self.looker.looks,
            "kills": self.kills,
            "taken": len(wanted),
            "lost": len(wanted - set(texts)),
            "doubled": len(texts) - len(set(texts)),
            "unknown": len(set(texts) - {content for person in self.people for content in person.sent}),
            "early": sum(moment < not_before.get(content, 0.0) for _, content, moment in seen),
            "skipped": len(set(whole) - set(ids)),
            "repeated": len(ids) - len(set(ids)),
            "wrong": sum(len(person.wrong) for person in self.people),
            "follow_ups": sum(person.follow_ups for person in self.people),
        }


def check(found: dict[str, Any], kills: int) -> None:
    print(found)
    assert found["kills"] >= kills
    assert found["taken"] > kills  # there was something to lose
    assert found["follow_ups"] > 0  # and something that could have been early
    assert found["changes"] > kills / 5
    assert found["drawn"] > kills  # what was on the disk for less than a look was seen by nobody
    of_posts = ("lost", "doubled", "unknown", "early", "skipped", "repeated", "wrong", "redrawn")
    faults = (*of_posts, "changes lost", "changes doubled", "changes early")
    assert {name: found[name] for name in faults} == dict.fromkeys(faults, 0)


@pytest.mark.slow
def test_kills_on_sqlite(tmp_path: Path) -> None:
    house, rng = House(str(tmp_path / "gateway.db")), random.Random(1)
    pid = house.start("both")
    house.begin()
    for _ in range(KILLS):
        house.wait_for_work(rng.uniform(0.0, 0.4))
        house.kill(pid)
        pid = house.start("both")
    check(house.finish([pid]), KILLS)


@pytest.mark.slow
def test_a_gateway_that_draws_again_is_caught(tmp_path: Path) -> None:
    house = House(str(tmp_path / "gateway.db"))
    pid = house.start("redraws")
    house.begin()
    for _ in range(5):
        house.wait_for_work(0.3)
        house.kill(pid)
        pid = house.start("redraws")
    found = house.finish([pid])
    print(found)
    assert found["redrawn"] > 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # cursors whose server was killed
def test_kills_on_postgresql(postgres_server: Server) -> None:
    house, rng = House(postgres_server.fresh()), random.Random(2)
    roles = ["server", "server", "worker", "worker"]
    pids = [house.start(role) for role in roles]
    house.begin()
    for number in range(KILLS + 20):
        house.wait_for_work(rng.uniform(0.0, 0.3))
        if number % 12 == 11:
            if number % 24 == 11:
                postgres_server.kill()
            else:  # as if the machine had gone down, without a last checkpoint
                postgres_server.stop("immediate")
            house.kills += 1
            time.sleep(0.2)
            postgres_server.start()
        else:
            victim = rng.randrange(4)
            with contextlib.suppress(ProcessLookupError):  # it may have fallen with the database
                house.kill(pids[victim])
            pids[victim] = house.start(roles[victim])
    check(house.finish(pids), KILLS)


# ---- two machines -----------------------------------------------------------------------------------------------


POST = """
import json, os
from peerveil.web.gateway import GatewayClient, Refused
client, text = GatewayClient("http://127.0.0.1:8711", os.environ["TOKEN"], patience=60), os.environ["TEXT"]
body = json.dumps({"thread": "t", "content": text}).encode()
try:
    client._send("POST", "/v1/spaces/forum/posts", body, {"Idempotency-Key": text or "none"})
    print(202)
except Refused as refusal:
    print(refusal.status)
"""


class Machines:
    """Two network namespaces with a cable between them, and a server of the same gateway in each."""

    def __init__(self, url: str, folder: Path, addresses: tuple[str, str]) -> None:
        self.folder, self.names = folder, [f"pv{os.getpid()}{k}" for k in "ab"]
        key = Vault.read(KEY)
        with Gateway(url, key, create=True) as gateway:
            gateway.configure([Space.read("forum", SPACE)])
            self.token = gateway.issue_token(role="author", space="forum", actor="kim")
        for name in self.names:
            ip("netns", "add", name)
        ip("link", "add", "cable", "netns", self.names[0], "type", "veth", "peer", "cable", "netns", self.names[1])
        for name, address in zip(self.names, ("10.77.0.1/30", "10.77.0.2/30"), strict=True):
            ip("-n", name, "address", "add", address, "dev", "cable")
            for device in ("lo", "cable"):
                ip("-n", name, "link", "set", device, "up")
        command = [sys.executable, "-c", "from peerveil.cli import main; main()", "gateway", "serve", "--db", url]
        shared = os.environ | {"PEERVEIL_KEY": KEY, "PEERVEIL_GATEWAY_CLOCK_SYNCHRONIZED": "true"}
        self.servers = [
            subprocess.Popen(
                ["ip", "netns", "exec", name, *command], cwd=folder, env=shared | {"PEERVEIL_GATEWAY_RELAY_HOST": host}
            )
            for name, host in zip(self.names, addresses, strict=True)
        ]

    def post(self, machine: int, text: str) -> tuple[int, float]:
        """The status of a post to the server of a machine, and the seconds until it came."""
        environment = os.environ | {"TOKEN": self.token, "TEXT": text}
        command = ["ip", "netns", "exec", self.names[machine], sys.executable, "-c", POST]
        begun = time.monotonic()
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return int(said.stdout), time.monotonic() - begun

    def ready(self) -> None:
        patience = time.monotonic() + 60
        for machine in (0, 1):
            while self.post(machine, "")[0] != 422 and time.monotonic() < patience:  # an empty text is refused at once
                time.sleep(0.3)

    def close(self) -> None:
        for server in self.servers:
            server.kill()
            server.wait()
        for name in self.names:
            ip("netns", "delete", name)


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("addresses", [("10.77.0.1", "10.77.0.2"), ("127.0.0.1", "127.0.0.1")], ids=["own", "default"])
def test_two_machines_share_a_gateway_by_relay_host(
    addresses: tuple[str, str], postgres_server: Server, tmp_path: Path
) -> None:
    """Either takes posts if each has its own ``relay_host``; with the default, the one that does not lead refuses them.
    When the cable is cut, nobody waits for long.
    """
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs root and iproute2")
    machines = Machines(postgres_server.fresh(), tmp_path, addresses)
    try:
        machines.ready()
        taken = [machines.post(machine, f"text {machine}")[0] for machine in (0, 1)]
        if addresses[0] == "127.0.0.1":
            assert sorted(taken) == [202, 503]
            return
        assert taken == [202, 202]
        ip("-n", machines.names[0], "link", "set", "cable", "down")
        answers = [machines.post(machine, f"cut {machine}") for machine in (0, 1)]
        assert sorted(status for status, _ in answers) == [202, 503]
        assert max(seconds for _, seconds in answers) < 20
    finally:
        machines.close()
