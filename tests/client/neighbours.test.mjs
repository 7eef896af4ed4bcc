// Tests of answers about neighbours in Node: `node --test tests/client/`, or `npm test` in the module's folder.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { listLoss, randomizeSums, readPublished, sumsOf } from "../../src/veilgraph/client/browser/neighbours.js";
import { VeilgraphError } from "../../src/veilgraph/client/browser/veilgraph.js";

const vectors = JSON.parse(readFileSync(new URL("neighbour_vectors.json", import.meta.url), "utf-8"));
const bytes = (text) => new Uint8Array(Buffer.from(text, "base64"));
const open = ({ people, table, hashes, nodes, classes }) =>
	readPublished({ people: hashes[0], table: hashes[1], nodes, classes: Array(classes).fill("") }, bytes(people), bytes(table));

for (const vector of vectors) {
	const { name, mechanism, loss, cases } = vector;
	test(`the same words make the same answer: ${name}`, async () => {
		const published = await open(vector);
		for (const { list, sums, words, answer } of cases) {
			const left = [...words];
			assert.deepEqual(await sumsOf(published, list), sums);
			assert.deepEqual(randomizeSums({ asked: mechanism }, sums, () => left.shift()), answer);
			assert.equal(left.length, 0);
		}
	});

	test(`the integers give the epsilons: ${name}`, () => {
		for (const [relation, epsilon] of Object.entries(listLoss(mechanism)))
			assert.ok(loss[relation] === null ? epsilon === Infinity : Math.abs(epsilon / loss[relation] - 1) < 1e-12, relation);
	});

	test(`the order of a list and repeated names change nothing: ${name}`, async () => {
		const published = await open(vector);
		for (const { list, sums } of cases) assert.deepEqual(await sumsOf(published, [...list, ...list].reverse()), sums);
	});
}

test("an error names no neighbour", async () => {
	const published = await open(vectors[0]);
	for (const list of [["secret"], [{ toString: () => { throw new TypeError("secret"); } }], "secret", null])
		await assert.rejects(() => sumsOf(published, list), (error) => error instanceof VeilgraphError && !error.message.includes("secret"));
});
