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
  401: "problem.code",
  403: "problem.code",
  404: "problem.code",
  409: "problem.conflict",
  410: "problem.closed",
  422: "problem.refused",
};
// Statuses that mean several things have a word for each.
const REASONS = { earlier_wave: "problem.round", withdrawn: "problem.withdrawn", purged: "problem.purged" };
const STANDINGS = ["stored", "another", "missing", "withdrawn", "purged"];
const REPORTED = ["stored", "earlier", "missing", "withdrawn", "purged"];
const BUSY = [408, 429, 500, 502, 503, 504, 507];

/**
 * Load the campaign as it is written; return it, and by how many milliseconds the collector's clock is ahead.
 */
export async function fetchCampaign() {
  const reply = await patiently(() => fetch("v1/campaign", { cache: "no-store" }), {
    problem: "problem.load",
    attempts: 4,
  });
  need(reply.status !== 410, "problem.purged");
  need(reply.ok, "problem.load");
  // 0: it states no time.
  return [await reply.text(), Date.parse(reply.headers.get("Date")) - Date.now() || 0];
}

/**
 * Load a published file, whole: nobody learns what of it is of interest here. What broke off is gone on with.
 */
export async function fetchPublished(hash) {
  let pieces = [];
  let length = 0;
  const reply = await patiently(
    async () => {
      const headers = length ? { Range: `bytes=${length}-`, "If-Range": `"${hash}"` } : {};
      const found = await fetch(`v1/published/${hash}`, { headers });
      if (!found.ok) return found;
      if (!found.headers.get("Content-Range")?.startsWith(`bytes ${length}-`)) [pieces, length] = [[], 0];
      for (const reader = found.body.getReader(); ;) {
        const { done, value } = await reader.read();
        if (done) return found;
        pieces.push(value);
        length += value.length;
      }
    },
    { problem: "problem.load" },
  );
  need(reply.ok, "problem.load");
  return new Uint8Array(await new Blob(pieces).arrayBuffer());
}

/** Ask whether the organisers show names to choose contacts from; who asks says nothing about themselves. */
export async function hasContactNames() {
  const [, { people }] = await request("GET", "v1/contact-names", { problem: "problem.load" });
  return people > 0;
}

/** Load all names of contacts, each with its number; only a participant gets them. */
export async function contactNames(node, code) {
  need(node && code, "problem.code.missing");
  try {
    const [, { names }] = await request("GET", `v1/contact-names/${encodeURIComponent(node)}`, { code });
    return names;
  } catch (error) {
    throw error.shown?.[0] === "problem.code" ? new Problem("problem.code.first") : error;
  }
}

/**
 * Ask whether a person has reported: "stored", "earlier" (in other rounds alone), "missing" or why not; and
 * in which rounds.
 */
export async function hasReported(node, code, options) {
  const [, { status, rounds }] = await request("GET", place({ node }), { code, ...options });
  need(
    REPORTED.includes(status) && Array.isArray(rounds) && rounds.every(Number.isInteger),
    "problem.unasked",
  );
  return [status, rounds];
}

/**
 * Send a report, as long as every other one of the campaign; return whether it is new to the collector, and
 * the receipt.
 */
export async function submit(question, report, code, options) {
  const [status, { receipt }] = await request("PUT", place(report), {
    code,
    body: padded(question, report),
    ...options,
  });
  // The login page of a network answers everything, too.
  need(
    isAbout(receipt, report) && receipt.report_sha256 === (await sha256(canonical(report))),
    "problem.unconfirmed",
  );
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
async function request(method, path, { code, body, at = "", ...options }) {
  // What no header can hold is no code.
  need(code === undefined || /^[\x21-\x7e]+$/.test(code), "problem.code");
  const headers = {
    ...(code && { Authorization: `Bearer ${code}` }),
    ...(body && { "Content-Type": "application/json" }),
  };
  const asked = { method, headers, body, redirect: "error", cache: "no-store" };
  const reply = await patiently(() => fetch(`${at}${path}`, asked), options);
  const said = (await reply.json().catch(() => null)) ?? {};
  if (reply.ok) return [reply.status, said];
  throw new Problem(REASONS[said.error] ?? REFUSALS[reply.status] ?? "problem.status", {
    status: `${reply.status}`,
  });
}

/** Return the reply that `get` gets; get it again where the collector is busy or the connection broke off. */
async function patiently(get, { wait = () => {}, attempts = 6, problem = "problem.unreachable" }) {
  for (let attempt = 1; ; attempt++) {
    const reply = await get().catch(() => null);
    if (reply && !BUSY.includes(reply.status)) return reply;
    need(attempt < attempts, problem);
    const pause = Math.max(
      Math.min(Number(reply?.headers.get("Retry-After")) || 0, 60),
      2 ** (attempt - 1) * (1 - Math.random() / 2),
    );
    wait(Math.ceil(pause));
    await new Promise((done) => setTimeout(done, 1000 * pause));
  }
}
