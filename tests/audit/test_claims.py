"""Every mechanism has a claim in the registry; every claim passes, and every deliberately broken mechanism is refuted."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from tests.test_contract import MORE, OTHERS, exported, is_mechanism

from peerveil import web
from peerveil.audit.claims import AnyClaim, registered, samples_needed
from peerveil.audit.randomness import response_losses
from peerveil.cli import audit as _services  # noqa: F401  (adds the claims of the services)
from peerveil.study.audit import load_claims

load_claims()
SOUND, BROKEN = registered(broken=False), registered(broken=True)
CONFIDENCE = 0.9999999  # one false alarm in ten million runs
SERVICES = {  # every file of the services that draws, and what stands for it in a claim
    "gateway/intake.py": "gateway.Gateway",
    "gateway/migration.py": "gateway.Gateway",
    "gateway/publish.py": "gateway.Gateway",
    "collect/client.py": "collect.Device",
}
DRAWS = {"secure", "randomize", "respond", "laplace", "discrete_laplace"}
FEWER = {
    "truth: answers, labels and abilities, epsilon 1": 1000,
    "truth: labels for publication, epsilon 1": 40,
    "collect: a question asked three times, epsilon 1": 60,
}


def test_the_registry_is_empty_until_modules_fill_it() -> None:
    code = "from peerveil.audit import registered; print(registered(broken=False), registered(broken=True))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] []"


def drawing_files() -> set[str]:
    """Files of the services that make secure randomness, or ask something to randomize."""
    root = Path(web.__file__).parent
    return {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if path.name != "adversary.py"
        and any(
            isinstance(node, ast.Attribute) and node.attr in DRAWS for node in ast.walk(ast.parse(path.read_text()))
        )
    }


def test_every_mechanism_has_a_claim_and_every_claim_a_mechanism() -> None:
    covered = {name for claim in SOUND for name in claim.covers}
    mechanisms = {name for name, value in exported().items() if is_mechanism(value)} - set(OTHERS) | set(MORE)
    assert drawing_files() == set(SERVICES)
    assert {name for name in covered if not name.startswith("randomness.")} == mechanisms | set(SERVICES.values())
    assert {"randomness.laplace", "randomness.discrete_laplace", "randomness.respond"} <= covered
    modules = {name.partition(".")[0] for name in covered}
    assert modules == {name.partition(".")[0] for claim in BROKEN for name in claim.covers}
    assert len({claim.name for claim in [*SOUND, *BROKEN]}) == len(SOUND) + len(BROKEN)


@pytest.mark.parametrize("claim", SOUND, ids=lambda claim: claim.name)
def test_every_claim_is_consistent_with_what_is_measured(claim: AnyClaim) -> None:
    audit = claim.audit(FEWER.get(claim.name, min(claim.samples, 2000)), confidence=CONFIDENCE)
    assert audit.passed, str(audit)


@pytest.mark.parametrize("claim", BROKEN, ids=lambda claim: claim.name)
def test_every_broken_mechanism_is_refuted(claim: AnyClaim) -> None:
    assert samples_needed(claim, start=100 if "collect" in claim.name else 1000, most=64_000) is not None
    assert claim.fault


@pytest.mark.slow
@pytest.mark.parametrize("claim", SOUND, ids=lambda claim: claim.name)
def test_every_claim_passes_with_all_its_samples(claim: AnyClaim) -> None:
    assert claim.audit().passed


def test_a_rare_input_is_found_only_if_it_is_named() -> None:
    claim = next(claim for claim in BROKEN if claim.name == "leak on one rare input")
    assert {row.pair: row.violated for row in claim.audit(5_000).pairs} == {"0 and 1": False, "6 and 7": True}


def test_too_few_samples_detect_nothing() -> None:
    claim = next(claim for claim in BROKEN if claim.name == "response off by 20%")
    assert samples_needed(claim, start=40, most=40) is None


def test_exact_losses_of_the_response() -> None:
    rows = list(response_losses())
    assert len(rows) == 28
    assert all(row.passed and row.loss <= row.claimed for row in rows)
