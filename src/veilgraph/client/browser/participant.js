// The participant's page: builds the form from the campaign, draws the report on this device, shows it and sends it.

import { VeilgraphError, canonical, parse, sha256, verify } from "./client.js";
import { answer, answered, stored, total } from "./device.js";

const FEW = 6;
const LEFT_OUT = "left out";
const $ = (id) => document.getElementById(id);
const LIMIT = "veilgraph:limit";
const DEFAULT_LIMIT = 4; // from even odds, at most 98.3 in 100: below what the page calls weak

let text, campaign, question, report;
let entered = null;

attempt(start);

async function start() {
  readInvitation(); // first, so that a token does not stay in the address if anything fails
  text = await fetchCampaign();
  // No limit yet, so that the page can explain the cost; the person's own limit applies before a report is drawn.
  question = await verify(text, { maxEpsilon: Infinity });
  campaign = JSON.parse(text);
  explain();
  buildForm();
  $("limit").value = localStorage.getItem(LIMIT) ?? DEFAULT_LIMIT;
  $("form").addEventListener("submit", (event) => { event.preventDefault(); attempt(draw); });
  $("send").addEventListener("click", () => attempt(deliver));
  $("node").addEventListener("change", () => attempt(resume));
  resume();
}

async function fetchCampaign() {
  const reply = await fetch("v1/campaign", { cache: "no-store" }).catch(() => null);
  if (!reply?.ok) throw new VeilgraphError("The campaign cannot be loaded. Open the link in your invitation again later.");
  return reply.text();
}

/** Read node and token from the part of the address after #, which browsers do not send, and remove them from it. */
function readInvitation() {
  const invitation = new URLSearchParams(location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
  if (!invitation.has("node") || !invitation.has("token")) return;
  $("node").value = invitation.get("node");
  $("token").value = invitation.get("token");
  $("identification").hidden = true;
  $("invited").hidden = false;
  $("invited").append("You answer as ", element("strong", {}, quoted(invitation.get("node"))), ".");
}

// --- What is guaranteed ---------------------------------------------------------------------------------------------

function explain() {
  const { user_level: user, attribute_level: attribute } = campaign.guarantee;
  $("title").textContent = "Answer with a randomized report";
  $("purpose").textContent = `“${campaign.purpose}”`;
  $("contact").textContent = campaign.contact;
  const closes = question.closes.toLocaleDateString("en-GB", { dateStyle: "long", timeZone: "UTC" });
  $("facts").textContent = `Your answers are randomized on this device. Only the randomized report leaves it. Open until ${closes}.`;
  const { features, label } = question;
  level(user.total, features ? "for all your answers together, whatever they are" : "for your answer, whatever it is");
  if (features) level(Math.max(...attribute.map(Number)), "for one answer, by someone who knows all your other answers");
  if (features && label) level(user.label, "for your answer to the last question alone");
  const epsilon = roundedUp(Number(user.total), 4);
  $("exact").textContent =
    `User level, any two records: epsilon = ${epsilon}. Whatever your true answers are, no report is more than `
    + `${odds(Number(user.total))} times as likely as it would be with any other answers. This factor is e to the power epsilon. `
    + "The figures above start from even odds: someone thinks that your answers and one other set of answers are equally likely.";
  $("identity").append("The campaign's id is ", element("code", {}, question.id), ".");
  const whole = features ? " for all answers together" : "";
  $("consent-text").textContent = `I have read what my report can give away (epsilon ${epsilon}${whole}), and I want to take part.`;
  $("weak").hidden = Number(user.total) < Math.log(99);
  $("guarantee").hidden = $("organisers").hidden = false;
}

function level(epsilon, message) {
  const certainty = 100 / (1 + Math.exp(-Number(epsilon)));
  const shown = certainty > 99.9 ? "near certainty" : `${roundedUp(certainty, certainty > 99 ? 1 : 0)} in 100`;
  $("levels").append(element("li", {}, element("strong", {}, shown), " ", message));
}

const roundedUp = (x, digits) => (Math.ceil(x * 10 ** digits - 1e-5) / 10 ** digits).toFixed(digits);

function odds(epsilon) {
  const factor = Math.exp(epsilon);
  if (factor >= 1e6) return factor.toExponential(2);
  const digits = Math.max(0, 2 - Math.floor(Math.log10(factor)));
  return Number(roundedUp(factor, digits)).toLocaleString("en-GB");
}

// --- The form -------------------------------------------------------------------------------------------------------

function asked() {
  return [...(question.features ? question.columns : []), ...(question.label ? [question.label] : [])];
}

function buildForm() {
  asked().forEach((column, i) => $("questions").append(field(column, `q${i}`)));
  if (question.label) $("questions").append(element("p", { class: "quiet", id: "meaning" }, ...labelInWords("Your report will name")));
}

const COUNTS = ["", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
const counted = (number) => COUNTS[number] ?? number;

/** Say how many answers to the last question a report names, and how likely the own one is among them. */
function labelInWords(itNames) {
  const { k, w, yes } = question.label.table, chance = yes / 2 ** 53;
  const probability = chance > 0.99 ? "above 0.99" : roundedUp(chance, 2);
  return [`${itNames} ${counted(w ?? 1)} of the ${counted(k)} possible answers to `, quoted(question.label.name),
    w ? `; yours is among them with probability ${probability}. The others are drawn at random: nobody can tell from it which one is yours, or whether one is.`
      : `; it is yours with probability ${probability}. Otherwise it is another one, drawn at random.`];
}

function field(column, id) {
  if (column.edges) return numberField(column, id);
  return column.values.length <= FEW ? radioField(column, id) : selectField(column, id);
}

function numberField({ name, edges }, id) {
  const [low, high] = [edges[0], edges.at(-1)];
  const range = Number.isFinite(low) && Number.isFinite(high) ? `a number from ${low} to ${high}` : "a number";
  const bounds = { ...(Number.isFinite(low) && { min: low }), ...(Number.isFinite(high) && { max: high }) };
  return element("div", { class: "field" },
    element("label", { class: "question", for: id }, `${name} `, element("span", { class: "quiet" }, range)),
    element("input", { id, name: id, type: "number", step: "any", inputmode: "decimal", required: "", ...bounds }));
}

function radioField({ name, values }, id) {
  const choices = values.map((value) => element("label", { class: "choice" },
    element("input", { type: "radio", name: id, value, required: "" }), element("span", {}, shown(value, values))));
  const short = values.every((value) => value.length < 8) && values.length < 4 ? " short" : "";
  return element("fieldset", {}, element("legend", {}, name), element("div", { class: `choices${short}` }, ...choices));
}

function selectField({ name, values }, id) {
  const options = values.map((value) => element("option", { value }, shown(value, values)));
  return element("div", { class: "field" },
    element("label", { class: "question", for: id }, name),
    element("select", { id, name: id, required: "" }, element("option", { value: "" }, "choose"), ...options));
}

/** Show the values 0 and 1 of a column as no and yes. */
function shown(value, values) {
  return values.length === 2 && values[0] === "0" && values[1] === "1" ? ["no", "yes"][Number(value)] : value;
}

// --- The report -----------------------------------------------------------------------------------------------------

/** Continue with a report that this device drew before: it can be shown and sent again, but never drawn again. */
function resume() {
  const kept = stored(question, localStorage), before = answered(localStorage);
  report = kept.get($("node").value);
  $("form").hidden = Boolean(report);
  $("review").hidden = $("done").hidden = true;
  $("spent").textContent = before.length === 0 ? "This device has sent no report from this site yet."
    : `This device drew ${before.length === 1 ? "one report" : `${before.length} reports`} on this site before: epsilon ${roundedUp(total(before), 4)} together. `
      + `With this one it would be ${roundedUp(total(before) + question.epsilon, 4)}.`;
  $("shared").hidden = !kept.size;
  $("shared-person").required = Boolean(kept.size);
  $("shared-cost").textContent = `I am another person, and I share this device. If both are the same person, the reports can give away epsilon `
    + `${roundedUp((kept.size + 1) * question.epsilon, 4)} together. It counts against this device's limit.`;
  $("shared-names").replaceChildren(...[...kept.keys()].map((name) => element("li", {}, quoted(name))));
  if (!report) return;
  if (localStorage.getItem(sentKey())) confirmed("This device has sent your report before.", parse(localStorage.getItem(sentKey())));
  else review();
}

async function draw() {
  setProblem("");
  const limit = $("limit").value || DEFAULT_LIMIT;
  localStorage.setItem(LIMIT, limit);
  const data = new FormData($("form"));
  const record = Object.fromEntries(asked().map((column, i) => [column.name, data.get(`q${i}`)]));
  const sharedDevice = $("shared-person").checked;
  report = await answer(text, record, { node: $("node").value, storage: localStorage, maxEpsilon: Number(limit), sharedDevice });
  entered = record;
  $("form").hidden = true;
  review();
  $("review-heading").focus();
  setStatus("");
}

function review() {
  const { sizes, sampled: m, joint } = question.features ?? {}, d = sizes?.length ?? 0;
  const which = question.label ? " to the questions before the last" : "";
  const padding = d === m ? "" : ` It uses only ${m} of your ${d} answers${which}; the other entries are pure chance.`;
  const chosen = ` It speaks of ${m} of your ${d} answers${which}, which were chosen at random, and leaves the others out.`;
  const drawn = d ? `: each entry may or may not be what you entered.${joint ? chosen : padding}` : ".";
  $("explained").textContent = `The report was drawn at random${drawn} Only the right-hand column is sent.`;
  $("explained-label").hidden = report.label === null;
  if (report.label !== null) $("explained-label").replaceChildren(...labelInWords("The report names"));
  $("rows").replaceChildren(...rows().map(([name, before, after]) =>
    element("tr", { role: "row" }, element("th", { scope: "row", role: "rowheader" }, name),
      element("td", { role: "cell" }, ...[before].flat()), element("td", { role: "cell" }, after))));
  $("raw").textContent = canonical(report);
  $("review").hidden = false;
}

function rows() {
  const { columns, group, label } = question;
  const features = (report.features ?? []).map((code, i) => {
    const members = columns.slice(i * group, (i + 1) * group), [first] = members;
    if (members.length === 1) return [first.name, was(first), named(first, code)];
    const merged = entered && (members.some((column) => column.values.indexOf(entered[column.name]) > 0) ? "any" : "none");
    return [`${first.name} to ${members.at(-1).name}`, merged ?? "not kept", ["none", "any"][code] ?? LEFT_OUT];
  });
  if (report.label === null) return features;
  if (!report.label.length) return [...features, [label.name, was(label), named(label, report.label)]];
  const names = report.label.map((code) => named(label, code)), isHeld = names.includes(was(label));
  const remark = entered ? [element("br", {}), element("span", { class: "quiet" }, isHeld ? "among those named" : "not among those named")] : [];
  const set = element("ul", { class: "set" }, ...names.map((name) => element("li", {}, name)));
  return [...features, [label.name, [was(label), ...remark], set]];
}

const was = ({ name, values }) => (entered ? (values ? shown(entered[name], values) : entered[name]) : "not kept");

function named({ values, edges }, code) {
  if (code === null) return LEFT_OUT;
  return edges ? `${edges[code]} to ${edges[code + 1]}` : shown(values[code], values);
}

// --- Sending --------------------------------------------------------------------------------------------------------

const REFUSALS = {
  401: "The token is not this participant's. Check your invitation.",
  403: "The token is not this participant's. Check your invitation.",
  409: "Another report of this participant was stored before, from another device. The first one counts.",
  410: "The campaign is closed: no report is accepted any more.",
  422: "The collector does not accept this report. Tell the campaign's contact.",
};

const sentKey = () => `veilgraph:sent:${report.campaign}:${report.node}`;

async function deliver() {
  setProblem("");
  if (!$("token").value) throw new VeilgraphError("Open this page by the link in your invitation: sending needs your token.");
  $("send").disabled = true;
  setStatus("Sending…");
  try {
    const [stored, receipt] = await send();
    localStorage.setItem(sentKey(), canonical(receipt));
    $("review").hidden = true;
    confirmed(stored ? "Your report was stored." : "Your report had been stored before; nothing was added.", receipt);
    $("done-heading").focus();
    setStatus("");
  } finally {
    $("send").disabled = false;
  }
}

/** Send the report; try a busy or unreachable collector again, because sending the same report twice is harmless. */
async function send(attempts = 6) {
  const headers = { Authorization: `Bearer ${$("token").value}`, "Content-Type": "application/json" };
  for (let attempt = 0; attempt < attempts; attempt++) {
    const request = { method: "PUT", headers, body: canonical(report), redirect: "error" };
    const reply = await fetch(`v1/reports/${encodeURIComponent(report.node)}`, request).catch(() => null);
    if (reply?.ok) return [reply.status === 201, await readReceipt(reply)];
    if (reply && ![408, 429, 500, 502, 503, 504].includes(reply.status))
      throw new VeilgraphError(REFUSALS[reply.status] ?? `The collector answered ${reply.status}. Try again later.`);
    if (attempt + 1 === attempts) break;
    const pause = Math.max(Math.min(Number(reply?.headers.get("Retry-After")) || 0, 60), 2 ** attempt * (1 - Math.random() / 2));
    setStatus(`The collector is busy or cannot be reached. Trying again in ${Math.ceil(pause)} seconds…`);
    await new Promise((done) => setTimeout(done, 1000 * pause));
  }
  throw new VeilgraphError("The collector cannot be reached. Your report is kept on this device: open this page again later to send it.");
}

/** Return the receipt if it is that of this report: the login page of a network answers everything, too. */
async function readReceipt(reply) {
  const { receipt } = (await reply.json().catch(() => null)) ?? {};
  if (receipt?.campaign !== report.campaign || receipt.node !== report.node || receipt.report_sha256 !== await sha256(canonical(report)))
    throw new VeilgraphError("What answered did not confirm your report. Your report is kept on this device: open this page again later to send it.");
  return receipt;
}

function confirmed(message, receipt) {
  $("signed").hidden = !receipt?.signature; // earlier versions kept none
  $("signed-receipt").textContent = canonical(receipt ?? null);
  $("receipt").textContent = `${message} This device keeps it and will never draw another one for this campaign.`;
  $("done").hidden = false;
}

// --- The page -------------------------------------------------------------------------------------------------------

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** A text of the organisers inside our own: marked as a quotation, and in a direction of its own. */
function quoted(text) {
  return element("q", { dir: "auto" }, text);
}

function setStatus(message) {
  $("status").textContent = message;
}

function setProblem(message) {
  $("problem").textContent = message;
  $("problem").hidden = !message;
  if (message) $("problem").scrollIntoView({ block: "center" });
}

async function attempt(work) {
  try { await work(); } catch (error) { fail(error); }
}

function fail(error) {
  setStatus("");
  setProblem(error instanceof VeilgraphError ? error.message : "Something went wrong on this page. Please load it again; if a report was drawn, it is kept.");
  if (!campaign) $("title").textContent = "This campaign cannot be answered";
}
