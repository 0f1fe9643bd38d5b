"""Makes clients/vectors.json: what both languages must make of given random bytes. Run: python tests/web/collect/vectors.py

Nothing here is computed by hand: labels come from the truth module's own client, one-bit reports from the rankings module's own
protocol, each fed with the given bytes in place of the operating system's.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from peerveil.core.randomness import Randomness, Response, SubsetResponse
from peerveil.truth.wire import Client, invitation
from peerveil.web.collect import Campaign

FILE = Path(__file__).parents[3] / "clients" / "vectors.json"


class GivenBytes(Randomness):
    """A lane whose bits are given; everything else is the house's own code."""

    lane: ClassVar[str] = "simulation"

    def __init__(self, given: bytes) -> None:
        self.left = given

    def take(self, count: int) -> bytes:
        assert len(self.left) >= count
        taken, self.left = self.left[:count], self.left[count:]
        return taken

    def word(self, bits: int) -> int:
        return int.from_bytes(self.take(bits // 8), "little")

    def _bits(self, count: int, bits: int) -> Any:
        return np.frombuffer(self.take(count * bits // 8), dtype=f"<u{bits // 8}")

    def _laplace(self, values: Any, scale: float) -> Any:
        raise AssertionError

    def _discrete_laplace(self, values: Any, scale: float) -> Any:
        raise AssertionError


def given(name: str, count: int) -> bytes:
    return hashlib.shake_256(f"peerveil collect {name}".encode()).digest(count)


LABELS: list[dict[str, Any]] = [
    {"epsilon": "1", "classes": ["no", "yes"]},
    {"epsilon": "1/3", "classes": ["cat", "dog", 'a "quoted" \\ one', "Vögel, 鳥 and 🐦"]},
    {"epsilon": "1/100000", "classes": ["no", "yes"]},  # 64 bits
    {"epsilon": "20", "classes": ["a", "b", "c"]},  # 64 bits
    {"epsilon": "5/2", "classes": [f"class {i}" for i in range(17)]},
]
SUBSETS: list[dict[str, Any]] = [
    {"epsilon": "1", "classes": [f"class {i}" for i in range(10)]},
    {"epsilon": "1/2", "classes": ["cat", "dog", 'a "quoted" \\ one', "Vögel, 鳥 and 🐦"]},
    {"epsilon": "1/100000", "classes": ["a", "b", "c", "d", "e"]},  # 64 bits
]
RANKINGS: list[dict[str, Any]] = [
    {"items": 6, "method": "pairs", "questions": 3, "seed": 7, "epsilon": "1"},
    {"items": 7, "method": "items", "questions": 3, "seed": 1, "epsilon": "1/3"},  # a middle place: coins decide
    {"items": 40, "method": "pairs", "questions": 12, "seed": 3, "epsilon": "2"},
    {"items": 5, "method": "items", "questions": 1, "seed": 0, "epsilon": "1/1000000"},
]


def labels_campaign(case: dict[str, Any]) -> Campaign:
    terms = {
        "id": "vectors",
        "title": "Vectors",
        "classes": case["classes"],
        "tasks": ["task 7"],
        "epsilon": case["epsilon"],
    }
    return Campaign.from_dict(terms)


def rankings_campaign(case: dict[str, Any]) -> Campaign:
    items = [f"item {i}" for i in range(case["items"])]
    return Campaign.from_dict(
        {"id": "vectors", "title": "Vectors", "kind": "rankings", "answers": 1, **case, "items": items}
    )


def label_vectors() -> list[dict[str, Any]]:
    found = []
    for case in LABELS:
        campaign = labels_campaign(case)
        terms, response = campaign.described(), campaign.response
        size, edges = response.bits // 8, []
        for u in (0, response.keep_below - 1, response.keep_below, response.keep_below + response.share - 1):
            edges += [u.to_bytes(size, "little")]
        edges += [(2**response.bits - 1).to_bytes(size, "little")]
        cases = []
        for number, answer in enumerate(campaign.classes):
            drawn = [given(f"{case['epsilon']} {number} {i}", size) for i in range(4)]
            for part in [*edges, *drawn]:
                lane = GivenBytes(part)
                line = Client(terms, bits=lane.word).randomize("task 7", answer)
                code = int(GivenBytes(part).respond(np.array([number]), Response(case["epsilon"], response.k))[0])
                assert json.loads(line)["label"] == campaign.classes[code]
                cases.append({"bytes": part.hex(), "answer": answer, "line": line})
        found.append({"terms": terms, "cases": cases})
    return found


def subset_vectors() -> list[dict[str, Any]]:
    """Terms as of a campaign, with the subset response that an invitation would have."""
    found = []
    for case in SUBSETS:
        asked = json.loads(invitation(epsilon=case["epsilon"], classes=case["classes"]))
        stated = asked["response"] | {"inside_below": str(asked["response"]["inside_below"])}
        terms, cases = labels_campaign(case).described() | {"response": stated}, []
        response = SubsetResponse(case["epsilon"], len(case["classes"]))
        assert asked["response"]["kind"] == "subset"
        for number, answer in enumerate(case["classes"]):
            for i in range(6):
                part = given(f"subset {case['epsilon']} {number} {i}", 400)
                lane, again = GivenBytes(part), GivenBytes(part)
                line = Client(terms, bits=lane.word).randomize("task 7", answer)
                codes = again.respond(np.array([number]), response)[0].tolist()
                assert json.loads(line)["label"] == [case["classes"][code] for code in codes]
                assert lane.left == again.left
                cases.append({"bytes": part[: 400 - len(lane.left)].hex(), "answer": answer, "line": line})
        found.append({"terms": terms, "cases": cases})
    return found


def ranking_vectors() -> list[dict[str, Any]]:
    found = []
    for case in RANKINGS:
        campaign = rankings_campaign(case)
        protocol = campaign.protocol
        cases = []
        for number in range(12):
            part = given(f"ranking {case} {number}", 400)
            order = np.frombuffer(given(f"order {number}", 8 * case["items"]), dtype="<u8")
            places = np.argsort(np.argsort(order, kind="stable"), kind="stable").tolist()
            lane = GivenBytes(part)
            line = protocol.randomize(places, randomness=lane).to_json()
            used = len(part) - len(lane.left)
            cases.append({"bytes": part[:used].hex(), "places": places, "line": line})
        found.append({"terms": campaign.described(), "cases": cases})
    return found


def below_vectors() -> list[dict[str, Any]]:
    found = []
    for n in (1, 2, 3, 7, 10, 1000, 2**31 + 1):
        for number in range(3):
            part = given(f"below {n} {number}", 400)
            lane = GivenBytes(part)
            value = int(lane.integers(0, n, 1)[0])
            found.append({"n": n, "bytes": part[: 400 - len(lane.left)].hex(), "value": value})
    return found


def vectors() -> dict[str, Any]:
    return {
        "labels": label_vectors(),
        "subsets": subset_vectors(),
        "rankings": ranking_vectors(),
        "below": below_vectors(),
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(vectors(), indent=1) + "\n", encoding="utf-8")
