// Replays the vectors that every client must reproduce: the same bytes from the same random bytes.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const { Client, Refused, below, readTerms } = await import("../../src/peerveil/web/collect/static/peerveil-client.js");
const vectors = JSON.parse(readFileSync(new URL("../vectors.json", import.meta.url)));

function given(hex) {
  const bytes = hex.match(/../g).map((pair) => parseInt(pair, 16));
  const random = (target) => { target.set(bytes.splice(0, target.length)); return target; };
  return { bytes, random };
}

for (const kind of ["labels", "subsets", "rankings"])
  test(`${kind}: the same lines, and no byte more`, () => {
    for (const { terms, cases } of vectors[kind])
      for (const { bytes: hex, answer, places, line } of cases) {
        const { bytes, random } = given(hex), client = new Client(terms, { random });
        assert.equal(places === undefined ? client.report("task 7", answer) : client.voteRanking(places), line);
        assert.equal(bytes.length, 0);
      }
  });

test("whole numbers below a limit", () => {
  for (const { n, bytes: hex, value } of vectors.below) assert.equal(below(n, given(hex).random), value);
});

test("terms that lose more than they state are refused", () => {
  const { terms } = vectors.labels[0];
  assert.throws(() => readTerms({ ...terms, epsilon: "1/2" }), Refused);
  const subset = vectors.subsets[0].terms, { response } = subset;
  assert.throws(() => readTerms({ ...subset, epsilon: "9/10" }), Refused);
  assert.throws(() => readTerms({ ...subset, response: { ...response, size: 2 } }), Refused);
  assert.throws(() => readTerms({ ...subset, response: { ...response, size: 10 } }), Refused);
  assert.throws(() => readTerms({ ...subset, response: { ...response, kind: "other" } }), Refused);
});
