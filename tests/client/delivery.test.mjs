// What the page's sender believes and where it goes, in Node: `node --test tests/client/`.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { after, before, beforeEach, test } from "node:test";

import { standing, submit, withdraw } from "../../src/veilgraph/client/browser/delivery.js";
import { canonical, verify } from "../../src/veilgraph/client/browser/veilgraph.js";

const [{ campaign, cases }] = JSON.parse(readFileSync(new URL("vectors.json", import.meta.url), "utf-8"));
const question = await verify(campaign, { maxEpsilon: 1e6, now: new Date("2025-01-01T00:00:00Z") });
const report = { campaign: question.id, node: "u/1", features: cases[0].features, label: cases[0].label };
const digest = (text) => createHash("sha256").update(text).digest("hex");
const receipt = { campaign: report.campaign, node: report.node, report_sha256: digest(canonical(report)) };

let reply, seen;
const server = createServer((request, response) => {
  seen.push(`${request.method} ${request.url}`);
  request.resume();
  request.on("end", () => response.writeHead(reply.status, reply.headers).end(JSON.stringify(reply.said)));
});
const options = () => ({ at: `http://127.0.0.1:${server.address().port}/`, attempts: 1 });

before(() => new Promise((done) => server.listen(0, "127.0.0.1", done)));
after(() => server.close());
beforeEach(() => {
  [reply, seen] = [{ status: 201, headers: {}, said: { receipt } }, []];
});

test("a report is delivered if the receipt is of this very report", async () => {
  assert.deepEqual(await submit(question, report, "t0ken", options()), [true, receipt]);
  assert.deepEqual(seen, ["PUT /v1/reports/u%2F1"]);
});

for (const [what, changed] of Object.entries({
  "another report": { report_sha256: digest(canonical({ ...report, label: 1 - (report.label ?? 0) })) },
  "no report": { report_sha256: undefined },
  "another person": { node: "u/2" },
  "another campaign": { campaign: "0".repeat(64) },
})) {
  test(`a receipt of ${what} confirms nothing`, async () => {
    reply.said = { receipt: { ...receipt, ...changed } };
    await assert.rejects(submit(question, report, "t0ken", options()), { message: "problem.unconfirmed" });
  });
}

for (const status of [301, 302, 303, 307, 308]) {
  test(`a redirection (${status}) is not followed: it would lead token and report elsewhere`, async () => {
    reply = { status, headers: { Location: "/elsewhere" }, said: {} };
    for (const ask of [
      () => submit(question, report, "t0ken", options()),
      () => withdraw(report, "t0ken", options()),
      () => standing(receipt, options()),
    ])
      await assert.rejects(ask(), { message: "problem.unreachable" });
    assert.deepEqual(
      seen.filter((asked) => asked.includes("elsewhere")),
      [],
    );
  });
}
