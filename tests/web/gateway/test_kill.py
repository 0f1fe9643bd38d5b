"""kill -9 of servers, workers and the database under load: nothing lost, early, doubled or skipped."""

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
    """One person: posts on two threads, again and again; the second of each pair is certainly a follow-up."""

    def __init__(self, client: GatewayClient, name: str, stop: threading.Event) -> None:
        self.client, self.name, self.stop = client, name, stop
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
            time.sleep(0.05)

    def submit(self, content: str, thread: str, start: float) -> float | None:
        self.sent.add(content)
        while not self.stop.is_set():
            try:
                self.client._send(
                    "POST",
                    "/v1/spaces/forum/posts",
                    json.dumps({"thread": thread, "content": content}).encode(),
                    {"Idempotency-Key": content},
                )
            except Refused as refusal:
                if refusal.status not in (0, 503):
                    self.wrong.append(str(refusal))
                time.sleep(0.03)
            else:
                self.taken[content] = start
                return time.time()
        return None


class Reader:
    """Follows the feed by its cursor from the beginning, through everything."""

    def __init__(self, url: str, stop: threading.Event) -> None:
        self.url, self.stop = url, stop
        self.seen: list[tuple[str, str, float]] = []
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        gateway = patient(self.url)
        cursor = None
        while not self.stop.is_set():
            with contextlib.suppress(PeerveilError):
                items, cursor = gateway.read("forum", cursor, 500)
                self.seen += [(item.id, item.content, time.time()) for item in items]
            time.sleep(0.02)
        gateway.close()


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
        self.people = [
            Sitting(GatewayClient(f"http://127.0.0.1:{self.port}", token, patience=5), f"p{k}", self.stop)
            for k, token in enumerate(tokens)
        ]
        self.reader = Reader(url, self.stop_reading)
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
        while time.monotonic() < deadline and not wanted <= {content for _, content, _ in self.reader.seen}:
            time.sleep(0.2)
        time.sleep(GAP * 2)  # what should not come, would come now
        self.stop_reading.set()
        self.reader.thread.join()
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
                whole += [item.id for item in items]
        return {
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
    faults = ("lost", "doubled", "unknown", "early", "skipped", "repeated", "wrong")
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
def test_kills_on_postgresql(postgres_server: Server) -> None:
    house, rng = House(postgres_server.fresh()), random.Random(2)
    roles = ["server", "server", "worker", "worker"]
    pids = [house.start(role) for role in roles]
    house.begin()
    for number in range(KILLS + 20):
        house.wait_for_work(rng.uniform(0.0, 0.3))
        if number % 12 == 11:
            postgres_server.kill()
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
