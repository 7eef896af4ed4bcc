// Tests of the browser module in Node: `node --test tests/client/`, or `npm test` in its folder.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import * as veilgraph from "../../src/veilgraph/client/browser/veilgraph.js";

const vectors = JSON.parse(readFileSync(new URL("vectors.json", import.meta.url), "utf-8"));
const limits = { maxEpsilon: 1e6, now: new Date("2025-01-01T00:00:00Z") };

for (const { name, campaign, cases } of vectors) {
  test(`the same words make the same report: ${name}`, async () => {
    const question = await veilgraph.verify(campaign, limits);
    for (const { record, words, features, label } of cases) {
      const left = [...words];
      const drawn = veilgraph.randomize(question, ...veilgraph.encode(question, record), () => left.shift());
      assert.deepEqual(drawn, [features, label]);
      assert.equal(left.length, 0);
    }
  });
}

test("an altered campaign is refused", async () => {
  const altered = vectors[0].campaign.replace(/"nonce":"0/, '"nonce":"1');
  await assert.rejects(veilgraph.verify(altered, limits), veilgraph.VeilgraphError);
});

test("a column that is asked and public is refused", async () => {
  const { campaign } = vectors.find(({ name }) => name === "public columns beside the questions");
  assert.deepEqual((await veilgraph.verify(campaign, limits)).notice.public, {
    born: null,
    village: "category",
  });
  for (const name of ["age", "label"]) {
    const both = campaign.replace(`"born":null`, `${JSON.stringify(name)}:null`);
    await assert.rejects(veilgraph.verify(both, limits), veilgraph.VeilgraphError);
  }
  await assert.rejects(veilgraph.verify(campaign.replace('"category"', '"colour"'), limits));
});

test("a campaign above the limit is refused", async () => {
  const { epsilon } = await veilgraph.verify(vectors[0].campaign, limits);
  const below = { ...limits, maxEpsilon: epsilon / 2 };
  await assert.rejects(veilgraph.verify(vectors[0].campaign, below), /above your limit/);
});

test("an error does not quote a private value", async () => {
  const question = await veilgraph.verify(vectors[0].campaign, limits);
  const record = { ...vectors[0].cases[0].record };
  for (const name of Object.keys(record)) record[name] = "secret";
  assert.throws(
    () => veilgraph.encode(question, record),
    (error) => !error.message.includes("secret"),
  );
});
