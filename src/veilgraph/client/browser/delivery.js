// What a page asks the collector: whether there is a report, to store or delete one, and what it holds now.

import { canonical, padded, sha256 } from "./veilgraph.js";

/** A problem in the page's own words: the key of a phrase, and its values. */
export class Problem extends Error {
  constructor(key, values) {
    super(key);
    this.shown = [key, values];
  }
}

export function need(condition, key, values) {
  if (!condition) throw new Problem(key, values);
}

const REFUSALS = {
  401: "problem.code", 403: "problem.code", 404: "problem.code", 409: "problem.conflict", 410: "problem.closed", 422: "problem.refused",
};
// Statuses that mean several things have a word for each.
const REASONS = { earlier_wave: "problem.round", withdrawn: "problem.withdrawn", purged: "problem.purged" };
const STANDINGS = ["stored", "another", "missing", "withdrawn", "purged"];
const REPORTED = ["stored", "earlier", "missing", "withdrawn", "purged"];
const BUSY = [408, 429, 500, 502, 503, 504, 507];

/** Load the campaign as it is written. */
export async function fetchCampaign() {
  const reply = await fetch("v1/campaign", { cache: "no-store" }).catch(() => null);
  need(reply?.ok, "problem.load");
  return reply.text();
}

/** Load a published file, whole: nobody learns what of it is of interest here. */
export async function fetchPublished(hash) {
  const reply = await fetch(`v1/published/${hash}`).catch(() => null), content = await reply?.arrayBuffer().catch(() => null);
  need(reply?.ok && content, "problem.load");
  return new Uint8Array(content);
}

/** Ask whether a person has reported: "stored", "earlier" (in other rounds alone), "missing" or why not. */
export async function hasReported(node, code, options) {
  const [, { status }] = await request("GET", place({ node }), { code, ...options });
  need(REPORTED.includes(status), "problem.unasked");
  return status;
}

/** Send a report, as long as every other one of the campaign; return whether it is new to the collector, and the receipt. */
export async function submit(question, report, code, options) {
  const [status, { receipt }] = await request("PUT", place(report), { code, body: padded(question, report), ...options });
  // The login page of a network answers everything, too.
  need(isAbout(receipt, report) && receipt.report_sha256 === await sha256(canonical(report)), "problem.unconfirmed");
  return [status === 201, receipt];
}

/** Have a person's reports deleted, if there are any, and none stored again; return the receipt of it. */
export async function withdraw(report, code, options) {
  const [, { receipt }] = await request("DELETE", place(report), { code, ...options });
  need(isAbout(receipt, report) && receipt.withdrawn, "problem.unconfirmed");
  return receipt;
}

/** Ask what the collector holds of the person who has this receipt: "stored", "missing" or another word. */
export async function standing(receipt, options) {
  const [, { status }] = await request("POST", "v1/receipts", { body: canonical(receipt), ...options });
  need(STANDINGS.includes(status), "problem.unconfirmed");
  return status;
}

const place = ({ node }) => `v1/reports/${encodeURIComponent(node)}`;
const isAbout = (receipt, report) => receipt?.campaign === report.campaign && receipt.node === report.node;

/**
 * Ask the collector at an address, by default the page's own; ask a busy or unreachable one again.
 *
 * Doing any of this twice is harmless. `wait` is told the seconds of a pause.
 */
async function request(method, path, { code, body, wait = () => {}, at = "", attempts = 6 }) {
  need(code === undefined || /^[\x21-\x7e]+$/.test(code), "problem.code"); // what no header can hold is no code
  const headers = { ...(code && { Authorization: `Bearer ${code}` }), ...(body && { "Content-Type": "application/json" }) };
  for (let attempt = 1; ; attempt++) {
    const options = { method, headers, body, redirect: "error", cache: "no-store" };
    const reply = await fetch(`${at}${path}`, options).catch(() => null);
    const said = (await reply?.json().catch(() => null)) ?? {};
    if (reply?.ok) return [reply.status, said];
    if (reply && !BUSY.includes(reply.status))
      throw new Problem(REASONS[said.error] ?? REFUSALS[reply.status] ?? "problem.status", { status: `${reply.status}` });
    need(attempt < attempts, "problem.unreachable");
    const pause = Math.max(Math.min(Number(reply?.headers.get("Retry-After")) || 0, 60), 2 ** (attempt - 1) * (1 - Math.random() / 2));
    wait(Math.ceil(pause));
    await new Promise((done) => setTimeout(done, 1000 * pause));
  }
}
