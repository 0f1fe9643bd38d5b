"""What the JavaScript module really gives away, from answers made in a real Chromium; and a fault that must be found."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.web.collect.conftest import STATIC
from tests.web.collect.vectors import labels_campaign, rankings_campaign

from peerveil.audit import lower_bound

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from peerveil.web.collect import Campaign

ANSWERS = 20_000
# every answer on a task of its own: nothing is remembered from one to the next
MANY = """
({terms, answer, n}) => {
  const client = new peerveil.Client({...terms, answers: n});
  return Array.from({length: n}, (_, i) => JSON.parse(client.report(String(i), answer)).label);
}
"""
VOTES = """
({terms, sign, n}) => Array.from({length: n}, () =>
  JSON.parse(new peerveil.Client(terms).vote(0, sign)).bits)
"""
# a source that loses a bit: the highest of every word is always 0
CARELESS = """
({terms, answer, n}) => {
  const random = (target) => { crypto.getRandomValues(target); target[target.length - 1] >>= 1; return target; };
  const client = new peerveil.Client({...terms, answers: n}, { random });
  return Array.from({length: n}, (_, i) => JSON.parse(client.report(String(i), answer)).label);
}
"""


def check(campaign: Campaign, samples: dict[str, list[Any]], code_of: Callable[[Any], int]) -> float:
    """Frequencies within 5 standard errors of the exact probabilities; the largest certified loss over all pairs."""
    response = campaign.response
    for answer, (given, shown) in enumerate(samples.items()):
        counts = np.bincount([code_of(s) for s in shown], minlength=response.k)
        for code, probability in enumerate(float(p) for p in response.probabilities(answer)):
            error = (len(shown) * probability * (1 - probability)) ** 0.5
            assert abs(counts[code] - len(shown) * probability) <= 5 * error, (given, code)
    pairs = itertools.combinations(samples.values(), 2)
    return max(lower_bound(a, b, confidence=1 - 1e-7).epsilon for a, b in pairs)


@pytest.mark.parametrize(("epsilon", "k"), [("1/2", 2), ("1", 2), ("3", 2), ("1", 4), ("2", 10), ("1/100000", 2)])
def test_labels_made_in_chromium_keep_the_promise(module: Page, epsilon: str, k: int) -> None:
    campaign = labels_campaign({"epsilon": epsilon, "classes": [f"class {i}" for i in range(k)]})
    each = -(-ANSWERS // min(k, 4))
    samples = {
        answer: module.evaluate(MANY, {"terms": campaign.described(), "answer": answer, "n": each})
        for answer in campaign.classes[:4]
    }
    assert sum(len(s) for s in samples.values()) >= ANSWERS
    found = check(campaign, samples, campaign.classes.index)
    assert found <= float(campaign.each)
    if epsilon == "3":
        assert found > 2.5  # the audit sees nearly all that there is


def test_votes_made_in_chromium_keep_the_promise(module: Page) -> None:
    campaign = rankings_campaign({"items": 7, "method": "items", "questions": 3, "seed": 1, "epsilon": "1"})
    samples = {
        str(sign): module.evaluate(VOTES, {"terms": campaign.described(), "sign": sign, "n": ANSWERS // 2})
        for sign in (-1, 1)
    }
    assert check(campaign, samples, int) <= 1
    coins = module.evaluate(VOTES, {"terms": campaign.described(), "sign": 0, "n": ANSWERS // 2})
    assert abs(coins.count("1") - ANSWERS / 4) <= 5 * (ANSWERS / 8) ** 0.5


def test_a_planted_fault_is_found(module: Page) -> None:
    """The highest random bit is lost: the answer is kept far too often."""
    campaign = labels_campaign({"epsilon": "1", "classes": ["no", "yes"]})
    samples = {
        answer: module.evaluate(CARELESS, {"terms": campaign.described(), "answer": answer, "n": ANSWERS // 2})
        for answer in campaign.classes
    }
    assert lower_bound(samples["no"], samples["yes"], confidence=1 - 1e-7).epsilon > 1
    with pytest.raises(AssertionError):
        check(campaign, samples, campaign.classes.index)


def test_the_module_draws_from_web_crypto_alone() -> None:
    text = (STATIC / "peerveil-client.js").read_text(encoding="utf-8")
    assert text.count("crypto.getRandomValues") == 1
    assert "Math.random" not in text
