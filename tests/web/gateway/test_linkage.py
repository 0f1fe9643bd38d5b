"""What a copy of the database, or a backup, says about who wrote what. Every column of every table is attacked.

The attacker has the copy and the code, knows the texts, and has no key. The test knows which rows each post created or
changed: it looks at the whole database before and after each request.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import secrets
from collections import defaultdict
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sqlalchemy import MetaData, create_engine, select
from tests.postgres import free_port
from tests.web.common.process import Served
from tests.web.gateway.helpers import KEY, FakeTime, everything, job, open_gateway, rank_correlation, work

from peerveil.storage import Address
from peerveil.web.common.errors import Forbidden
from peerveil.web.gateway import Gateway, approve_reveal, backup, read_audit, request_reveal
from peerveil.web.gateway.frames import Sealer
from peerveil.web.gateway.tables import metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.postgres import Server

PEOPLE = 11
ROUNDS = 3  # posts of one person before the release, and as many after it
WINDOW = 16  # a piece of a value that is this long does not repeat by chance
PUBLIC = "gateway_feed"
Place = tuple[str, tuple[Any, ...]]  # a table and a primary key
Tables = dict[str, dict[tuple[Any, ...], dict[str, Any]]]


class Copier:
    """Every column of every table that the database really has, whatever the code says that it has."""

    def __init__(self, url: str) -> None:
        address = Address.read(url)
        self._engine = create_engine(f"sqlite:///{address.path}" if address.url is None else address.url)
        self._found = MetaData()
        self._found.reflect(self._engine)

    def rows(self) -> Tables:
        with self._engine.connect() as connection:
            return {
                t.name: {
                    tuple(r[c.name] for c in t.primary_key): dict(r) for r in connection.execute(select(t)).mappings()
                }
                for t in self._found.sorted_tables
            }

    def close(self) -> None:
        self._engine.dispose()


def backup_copy(gateway: Gateway, path: Path) -> Tables:
    """The same from a backup, in its order."""
    backup(gateway, path)
    tables: Tables = {name: {} for name in metadata.tables}
    for line in gzip.decompress(path.read_bytes()).splitlines():
        value = json.loads(line)
        if isinstance(value, list):
            table = metadata.tables[value[0]]
            cells = [base64.b64decode(cell["b"]) if isinstance(cell, dict) else cell for cell in value[1]]
            row = dict(zip((column.name for column in table.columns), cells, strict=True))
            tables[table.name][tuple(row[column.name] for column in table.primary_key)] = row
    return tables


@dataclass
class Scene:
    """A gateway in use, the copy that the attacker has, and the truth that the attacker wants."""

    gateway: Gateway
    url: str
    copier: Copier
    actors: list[str]
    person_of: dict[str, int] = field(default_factory=dict)  # text -> person
    bodies: dict[str, str] = field(default_factory=dict)  # text -> the request, as it is made canonical
    post_of: dict[Place, str] = field(default_factory=dict)  # row -> the text of the post that created it
    released: set[str] = field(default_factory=set)
    tables: Tables = field(default_factory=dict)

    def pairs(self) -> set[frozenset[str]]:
        """Pairs of posts of one person: what must not be found."""
        return {
            frozenset(pair) for pair in combinations(self.person_of, 2) if len({self.person_of[t] for t in pair}) == 1
        }


@contextmanager
def play(url: str, people: int, kind: type[Gateway] = Gateway) -> Iterator[Scene]:
    """Everybody posts on several threads and answers their own posts; all is released; everybody posts again."""
    time = FakeTime()
    gateway = open_gateway(url, time, kind)
    gateway.configure([], frame_bytes=1024)  # so that every piece of every frame is compared in a moment
    actors = [f"actor-{secrets.token_hex(8)}" for _ in range(people)]
    for actor in actors:
        gateway.issue_token(role="author", space="forum", actor=actor)
    copier = Copier(url)
    found = Scene(gateway, url, copier, actors)
    last: dict[tuple[int, str], str] = {}

    def post(person: int, number: int) -> None:
        text, thread = secrets.token_hex(20), f"paper {number % 2}"
        # the second and the third post of a round answer the first, which is still held
        answered = last.get((person, thread)) if number % ROUNDS else None
        before = {(name, key) for name, rows in copier.rows().items() for key in rows}
        handed = job(gateway, thread, text, actors[person], reply_to=answered)
        receipt = json.loads(gateway.take(handed))["receipt"]
        last.setdefault((person, thread), receipt)
        after = {(name, key) for name, rows in copier.rows().items() for key in rows}
        found.post_of |= dict.fromkeys(after - before, text)
        found.person_of[text] = person
        found.bodies[text] = json.dumps(["forum", thread, text, answered, False])
        time.advance(0.01)

    for number in range(ROUNDS):
        for person in range(people):
            post(person, number)
    for _ in range(3):
        time.advance(1000)
        work(gateway)
    last.clear()
    found.released = {item.content for item in everything(gateway)}
    for number in range(ROUNDS, 2 * ROUNDS):
        for person in range(people):
            post(person, number)
    found.tables = copier.rows()
    yield found
    copier.close()
    gateway.close()


@pytest.fixture(params=["sqlite", "postgresql"], scope="module")
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    if request.param == "sqlite":
        url = str(tmp_path_factory.mktemp("linkage") / "gateway.db")
    else:
        url = request.getfixturevalue("postgres_server").fresh()
    with play(url, PEOPLE) as found:
        yield found


def linked_pairs(scene: Scene, tables: Tables) -> dict[str, set[frozenset[str]]]:
    """For each column, the pairs of one person's posts that a value of it links, in rows of the copy.

    Texts and bytes: a piece of a value that occurs in rows of several posts, all of one person (in any column, so that
    references count too). Numbers: a column whose equal values are those of one person, more often than by chance.
    """
    places: dict[bytes, set[Place]] = defaultdict(set)
    columns: dict[bytes, set[str]] = defaultdict(set)
    numbers: dict[str, dict[int, set[Place]]] = defaultdict(lambda: defaultdict(set))
    for name, rows in tables.items():
        if name == PUBLIC:
            continue
        for key, row in rows.items():
            place = (name, key)
            for column, value in row.items():
                if isinstance(value, int):
                    numbers[f"{name}.{column}"][value].add(place)
                raw = value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else b""
                for start in range(len(raw) - WINDOW + 1):
                    piece = raw[start : start + WINDOW]
                    places[piece].add(place)
                    columns[piece].add(f"{name}.{column}")
    found: dict[str, set[frozenset[str]]] = defaultdict(set)
    for piece, where in places.items():
        for pair in _one_person(scene, where) or ():
            for column in columns[piece]:
                found[column].add(pair)
    for column, values in numbers.items():
        groups = [_one_person(scene, where) for where in values.values()]
        own = {pair for group in groups if group for pair in group}
        if len(own) >= 5 and not any(group is None for group in groups):
            found[column] |= own
    return found


def _one_person(scene: Scene, where: set[Place]) -> set[frozenset[str]] | None:
    """Pairs of posts that some rows link; ``None`` if they are of several people."""
    texts = {scene.post_of[place] for place in where if place in scene.post_of}
    if len({scene.person_of[text] for text in texts}) > 1:
        return None
    return {frozenset(pair) for pair in combinations(texts, 2)}


def guessed_texts(scene: Scene, tables: Tables) -> set[str]:
    """The texts that some cell confirms: an attacker who knows or guesses a text looks for its hash."""
    cells = {
        value.hex() if isinstance(value, bytes) else str(value)
        for name, rows in tables.items()
        if name != PUBLIC
        for row in rows.values()
        for value in row.values()
    }
    return {
        text
        for text, body in scene.bodies.items()
        for known in (text, body)
        for kind in ("sha256", "sha1", "md5", "sha512", "blake2b")
        if {hashlib.new(kind, known.encode()).hexdigest(), known} & cells
    }


@pytest.mark.parametrize("kind", ["database", "backup"])
def test_no_column_groups_the_posts_of_a_person_or_confirms_a_text(scene: Scene, kind: str, tmp_path: Path) -> None:
    assert len(scene.released) == PEOPLE * ROUNDS
    assert len(scene.pairs()) == PEOPLE * ROUNDS * (2 * ROUNDS - 1)
    tables = scene.tables if kind == "database" else backup_copy(scene.gateway, tmp_path / "b.backup")
    assert {name: len(rows) for name, rows in tables.items() if rows} == {
        name: len(rows) for name, rows in scene.tables.items() if rows
    }
    links = linked_pairs(scene, tables)
    guessed = guessed_texts(scene, tables)
    every = set().union(*links.values())
    print({"links": {c: len(p) for c, p in links.items()}, "pairs": len(every), "of": len(scene.pairs()),
           "texts": len(guessed), "of texts": len(scene.bodies)})  # fmt: skip
    assert every <= scene.pairs()
    assert (dict(links), guessed) == ({}, set())


class Unsealed(Sealer):
    """Frames that anybody can read: in them, a person is one value, and texts stand as they are."""

    def seal_frame(self, seq: int, plain: bytes) -> bytes:
        return plain.rstrip(b"\0")


def test_the_attack_succeeds_where_a_column_leaks(sqlite_url: str) -> None:
    class Leaking(Gateway):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            self.leader._sealer = Unsealed(self.vault, b"")

    with play(sqlite_url, 4, Leaking) as found:
        links = linked_pairs(found, found.tables)
        assert links["gateway_journal.body"] >= found.pairs()


def test_the_order_of_a_backup_is_not_that_of_arrival(scene: Scene, tmp_path: Path) -> None:
    tables = backup_copy(scene.gateway, tmp_path / "b.backup")
    arrival = {text: number for number, text in enumerate(scene.person_of)}
    order = [arrival[row["content"]] for row in tables[PUBLIC].values()]
    found = rank_correlation(range(len(order)), order)
    assert len(order) > 30
    assert abs(found) < 5 / np.sqrt(len(order) - 1)
    rows = {name: {key for (table, key) in scene.post_of if table == name} for name, _ in scene.post_of}
    assert set(rows) == {"gateway_journal"}  # which has a frame for every tick, in order, whether anything came or not


def test_no_actor_stands_in_the_files(scene: Scene, request: pytest.FixtureRequest) -> None:
    gateway = scene.gateway
    operators = [gateway.issue_token(role="operator", space="forum", actor=actor) for actor in scene.actors[:2]]
    one, two = (gateway.tokens.check(f"Bearer {token}") for token in operators)
    receipt = json.loads(gateway.take(job(gateway, actor=scene.actors[0])))["receipt"]
    reason = f"a threat by {scene.actors[0]}"
    number = request_reveal(gateway, one, receipt, reason)
    approve_reveal(gateway, two, number)
    if gateway.database.is_sqlite:
        folder = Path(scene.url).parent
    else:
        server: Server = request.getfixturevalue("postgres_server")
        with gateway.database.engine.connect() as connection:
            connection.exec_driver_sql("CHECKPOINT")
        folder = server.root
    files = []
    for path in sorted(folder.rglob("*")):
        with suppress(FileNotFoundError):  # a server at work renames and removes files
            files += [path.read_bytes()] if path.is_file() else []
    public = everything(gateway)[0].id
    assert any(public.encode() in raw for raw in files)  # the search sees what the tables hold
    (newest,) = (post for post in gateway.leader.memory.held.values() if post.content == "text")
    for secret in (newest.id, newest.person.hex(), receipt):
        assert not any(secret.encode() in raw for raw in files)
    named = [actor for actor in scene.actors if any(actor.encode() in raw for raw in files)]
    print({"named": len(named), "of": PEOPLE})
    assert named == []
    tables = scene.copier.rows()
    audit = tables.pop("gateway_audit")
    assert len(audit) == 2
    elsewhere = {str(value) for rows in tables.values() for row in rows.values() for value in row.values()}
    written = [value for row in audit.values() for value in row.values() if not isinstance(value, int)]  # moments aside
    assert not {str(value) for value in written if len(str(value)) >= WINDOW} & elsewhere
    whole = gateway.tokens.check(f"Bearer {gateway.issue_token(role='operator', space='*')}")
    assert [(row["action"], row["name"], row["reason"]) for row in read_audit(gateway, whole)] == [
        ("request", scene.actors[0], reason),
        ("approve", scene.actors[1], ""),
    ]
    with pytest.raises(Forbidden):
        read_audit(gateway, one)


def test_no_password_stands_among_the_arguments_of_a_process(postgres_server: Server, tmp_path: Path) -> None:
    """What ``ps`` shows to everybody on the machine, for a gateway with several processes."""
    password = f"password-{secrets.token_hex(8)}"
    url = postgres_server.fresh().replace("tester@", f"tester:{password}@")
    (tmp_path / "gateway.toml").write_text(f'db = "{url}"\n[spaces.forum]\ngap = "45m"\n')
    arguments = ["gateway", "serve", "--processes", "2", "--port", str(free_port())]
    served = Served(arguments, tmp_path, tmp_path, {"PEERVEIL_KEY": KEY})
    try:
        parent = served.process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        assert len(children) == 2
        shown = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in (str(parent), *children)}
    finally:
        served.stop()
    assert all(b"serve" in command for command in shown.values())
    assert [pid for pid, command in shown.items() if password.encode() in command] == []
    assert password not in served.said()
