"""The JavaScript module against the Python lane: the same bytes from the same random bytes, the same refusals."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.web.collect.conftest import STATIC
from tests.web.collect.vectors import FILE, labels_campaign, vectors

from peerveil.core.errors import BadInput
from peerveil.core.randomness import Response
from peerveil.truth.wire import Client, invitation

if TYPE_CHECKING:
    from playwright.sync_api import Page

# what the page's module makes of given bytes, and how many bytes it took
REPLAY = """
({terms, cases}) => cases.map(({bytes: part, answer, places}) => {
  const bytes = part.match(/../g).map((pair) => parseInt(pair, 16));
  let used = 0;
  const random = (target) => { target.set(bytes.slice(used, used + target.length)); used += target.length; return target; };
  const client = new peerveil.Client(terms, { random });
  const line = places === undefined ? client.report("task 7", answer) : client.voteRanking(places);
  return [line, used];
})
"""
BELOW = """
(cases) => cases.map(({n, bytes: part}) => {
  const bytes = part.match(/../g).map((pair) => parseInt(pair, 16));
  let used = 0;
  const random = (target) => { target.set(bytes.slice(used, used + target.length)); used += target.length; return target; };
  return [peerveil.below(n, random), used];
})
"""
REFUSAL = "(terms) => { try { peerveil.readTerms(terms); return null; } catch (error) { return error.message; } }"


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def test_the_stored_vectors_are_what_the_python_lane_makes(stored: dict[str, Any]) -> None:
    assert json.loads(json.dumps(vectors())) == stored
    assert {case["terms"]["response"]["bits"] for case in stored["labels"]} == {32, 64}
    assert {case["terms"]["response"]["bits"] for case in stored["rankings"]} == {32, 64}


def test_labels_in_javascript_are_the_same_bytes(module: Page, stored: dict[str, Any]) -> None:
    for group in [*stored["labels"], *stored["subsets"]]:
        made = module.evaluate(REPLAY, group)
        assert made == [[case["line"], len(case["bytes"]) // 2] for case in group["cases"]]


def test_rankings_in_javascript_are_the_same_bytes(module: Page, stored: dict[str, Any]) -> None:
    for group in stored["rankings"]:
        made = module.evaluate(REPLAY, group)
        assert made == [[case["line"], len(case["bytes"]) // 2] for case in group["cases"]]


def test_whole_numbers_below_a_limit_are_the_same(module: Page, stored: dict[str, Any]) -> None:
    made = module.evaluate(BELOW, stored["below"])
    assert made == [[case["value"], len(case["bytes"]) // 2] for case in stored["below"]]


def test_all_reports_of_a_task_have_one_length(stored: dict[str, Any]) -> None:
    for group in [*stored["labels"], *stored["subsets"]]:
        lengths = {len(case["line"].encode()) for case in group["cases"]}
        labels = {str(json.loads(case["line"])["label"]) for case in group["cases"]}
        assert len(lengths) == 1
        assert len(labels) > 1


def one_less(terms: dict[str, Any]) -> dict[str, Any]:
    """Thresholds that keep the answer a little more often than epsilon allows; they still fit together."""
    k, response = len(terms["classes"]), terms["response"]
    return {
        **response,
        "keep_below": str(int(response["keep_below"]) + (k - 1)),
        "share": str(int(response["share"]) - 1),
    }


@pytest.mark.parametrize("epsilon", ["1", "1/3", "1/100000", "20", "7/3", "64"])
@pytest.mark.parametrize("k", [2, 3, 17])
def test_the_honest_thresholds_pass_and_one_step_more_is_refused_in_both_languages(
    module: Page, epsilon: str, k: int
) -> None:
    terms = labels_campaign({"epsilon": epsilon, "classes": [str(i) for i in range(k)]}).described()
    assert module.evaluate(REFUSAL, terms) is None
    Client(terms)
    lying = {**terms, "response": one_less(terms)}
    assert "need thresholds" in module.evaluate(REFUSAL, lying)
    with pytest.raises(BadInput, match="invitation"):
        Client(lying)


@pytest.mark.parametrize(("epsilon", "k"), [("1", 5), ("1/2", 10), ("1/100000", 4)])
def test_a_subset_threshold_one_step_higher_is_refused_in_both_languages(module: Page, epsilon: str, k: int) -> None:
    classes = [str(i) for i in range(k)]
    honest = json.loads(invitation(epsilon=epsilon, classes=classes))["response"]
    terms = labels_campaign({"epsilon": epsilon, "classes": classes}).described()
    for step, size in ((0, honest["size"]), (1, honest["size"]), (0, honest["size"] - 1), (0, k)):
        stated = {**honest, "inside_below": str(honest["inside_below"] + step), "size": size}
        lying = {**terms, "response": stated}
        if stated["size"] == honest["size"] and step == 0:
            assert module.evaluate(REFUSAL, lying) is None
            assert Client(lying).size == honest["size"]
        else:
            assert "need" in module.evaluate(REFUSAL, lying)
            with pytest.raises(BadInput, match="invitation"):
                Client(lying)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"format": "other/1"}, "format"),
        ({"classes": ["a"]}, "classes"),
        ({"classes": ["a", "a"]}, "classes"),
        ({"classes": "ab"}, "classes"),
        ({"classes": [["a"], ["b"]]}, "classes"),
        ({"epsilon": "0"}, "epsilon"),
        ({"epsilon": "1e3"}, "epsilon"),
        ({"epsilon": "-1"}, "epsilon"),
        ({"epsilon": "1/0"}, "epsilon"),
        ({"epsilon": "65"}, "epsilon"),
        ({"epsilon": None}, "epsilon"),
        ({"response": None}, "bits"),
        ({"response": {"bits": 16, "keep_below": "3", "share": "1"}}, "bits"),
        ({"response": {"bits": 32, "keep_below": 2**60, "share": "1"}}, "keep_below"),
        ({"response": {"bits": 32, "keep_below": "x", "share": "1"}}, "keep_below"),
        ({"response": {"bits": 32, "keep_below": "4294967296", "share": "0"}}, "response"),
        ({"response": {"bits": 32, "keep_below": "2147483648", "share": "2147483648"}}, "response"),
        ({"answers": None}, "answers"),
        ({"answers": "50"}, "answers"),
        ({"answers": 0}, "answers"),
        ({"answers": 1.5}, "answers"),
        ({"answers": True}, "answers"),
    ],
)
def test_unusable_terms_are_refused_by_name(module: Page, change: dict[str, Any], word: str) -> None:
    terms = {**labels_campaign({"epsilon": "1", "classes": ["a", "b"]}).described(), **change}
    assert module.evaluate(REFUSAL, terms).startswith(word)


def test_an_unknown_answer_is_refused_without_repeating_it(module: Page) -> None:
    terms = labels_campaign({"epsilon": "1", "classes": ["a", "b"]}).described()
    code = """(terms) => { const client = new peerveil.Client(terms);
        try { client.report("t", "my secret"); return ""; } catch (error) { return error.message + error.stack; } }"""
    said = module.evaluate(code, terms)
    assert said.startswith("answer")
    assert "my secret" not in said


def test_an_answer_is_never_randomized_twice(module: Page) -> None:
    """With epsilon near 0 a second draw would differ in half of the cases."""
    terms = {**labels_campaign({"epsilon": "1/100", "classes": ["a", "b"]}).described(), "answers": 200}
    code = """(terms) => { const client = new peerveil.Client(terms);
        return Array.from({length: 200}, (_, i) => client.report(String(i), "a") === client.report(String(i), "b")); }"""
    assert all(module.evaluate(code, terms))


@pytest.mark.parametrize("listed", [["a picture"] * 3, ["picture 1", "picture 2", "picture 3"]])
def test_both_clients_keep_to_the_terms_in_memory_too(module: Page, listed: list[str]) -> None:
    """Three ids, one answer: the same question gets the same report, another question gets none."""
    terms = labels_campaign({"epsilon": "1/100", "classes": ["a", "b"]}).described()
    terms["tasks"] = [{"id": str(i), "text": text} for i, text in enumerate(listed)]
    code = """(terms) => { const client = new peerveil.Client(terms);
        const attempt = (task) => { try { return client.report(task, "a"); } catch (error) { return error.message; } };
        return ["0", "1", "2"].map(attempt); }"""
    client, made = Client(terms), []
    for task in ("0", "1", "2"):
        try:
            made.append(client.randomize(task, "a"))
        except BadInput as error:
            made.append(str(error))
    for lines in (module.evaluate(code, terms), made):
        assert [line.startswith("{") for line in lines] == [True, len(set(listed)) == 1, len(set(listed)) == 1]
        assert len({line for line in lines if line.startswith("{")}) == 1


def test_a_random_order_is_a_permutation_and_every_one_comes(module: Page) -> None:
    terms = labels_campaign({"epsilon": "1", "classes": ["a", "b"]}).described()
    code = """(terms) => { const client = new peerveil.Client(terms);
        return Array.from({length: 6000}, () => [...client.order(3)].join("")); }"""
    found = module.evaluate(code, terms)
    counts = {order: found.count(order) for order in set(found)}
    assert set(counts) == {"012", "021", "102", "120", "201", "210"}
    assert all(abs(n - 1000) < 5 * (6000 * 5 / 36) ** 0.5 for n in counts.values())


def test_the_words_are_rounded_to_the_safe_side(module: Page) -> None:
    code = "(terms) => new peerveil.Client(terms).inHundred"
    terms = labels_campaign({"epsilon": "1", "classes": ["a", "b"]}).described()
    assert module.evaluate(code, terms) == {"kept": 73.1, "guess": 73.2}
    five = labels_campaign({"epsilon": "1", "classes": list("abcde")}).described()
    assert str(Response(1, list("abcde"))).endswith("40.4% of the time")
    assert module.evaluate(code, five)["kept"] == 40.4


def test_the_module_is_small_and_reaches_for_nothing() -> None:
    text = (STATIC / "peerveil-client.js").read_text(encoding="utf-8")
    assert len(text.encode()) < 11_500
    for word in ("import ", "Math.random", "eval(", "http://", "https://", "innerHTML", "console."):
        assert word not in text
