// Tests of answers about neighbours in Node: `node --test tests/client/`, or `npm test` in the module's
// folder.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import {
  listLoss,
  randomizeNeighbours,
  readPublished,
  rowsOf,
  sumsOf,
  turnOf,
  unlistedIn,
} from "../../src/veilgraph/client/browser/neighbours.js";
import { VeilgraphError } from "../../src/veilgraph/client/browser/veilgraph.js";

const vectors = JSON.parse(readFileSync(new URL("neighbour_vectors.json", import.meta.url), "utf-8"));
const bytes = (text) => text && new Uint8Array(Buffer.from(text, "base64"));
const open = ({ people, table, hashes, nodes, classes }) =>
  readPublished(
    { people: hashes[0], table: hashes[1], nodes, classes: Array(classes).fill("") },
    bytes(people),
    bytes(table),
  );
const lookUp = (published, list) => (published.codes ? sumsOf : rowsOf)(published, list);

for (const vector of vectors) {
  const { name, mechanism, loss, cases } = vector;
  test(`the same words make the same answer: ${name}`, async () => {
    const published = await open(vector);
    for (const { list, sums, rows, words, answer } of cases) {
      const left = [...words];
      assert.deepEqual(await lookUp(published, list), sums ?? rows);
      assert.deepEqual(
        await randomizeNeighbours({ asked: mechanism }, published, list, () => left.shift()),
        answer,
      );
      assert.equal(left.length, 0);
    }
  });

  test(`the integers give the epsilons: ${name}`, () => {
    for (const [relation, epsilon] of Object.entries(listLoss(mechanism)))
      assert.ok(
        loss[relation] === null ? epsilon === Infinity : Math.abs(epsilon / loss[relation] - 1) < 1e-12,
        relation,
      );
  });

  test(`the order of a list and repeated names change nothing: ${name}`, async () => {
    const published = await open(vector);
    for (const { list, sums, rows } of cases)
      assert.deepEqual(await lookUp(published, [...list, ...list].reverse()), sums ?? rows);
  });
}

test("a person has the same turn on every device", async () => {
  const turns = JSON.parse(readFileSync(new URL("turn_vectors.json", import.meta.url), "utf-8"));
  for (const { id, turns: of, wave } of turns) assert.equal(await turnOf(id, of), wave);
});

test("who is not among the people adds nothing, and is told to the person alone", async () => {
  for (const published of [await open(vectors[0]), await open(vectors.at(-1))]) {
    assert.deepEqual(await lookUp(published, ["secret", "secret"]), await lookUp(published, []));
    assert.deepEqual(await unlistedIn(published, ["secret", "secret"]), ["secret"]);
  }
});

test("an error names no neighbour", async () => {
  for (const published of [await open(vectors[0]), await open(vectors.at(-1))])
    for (const list of [
      [["secret"]],
      [
        {
          toString: () => {
            throw new TypeError("secret");
          },
        },
      ],
      7,
      null,
    ])
      await assert.rejects(
        () => lookUp(published, list),
        (error) => error instanceof VeilgraphError && !error.message.includes("secret"),
      );
});
