// The participant's page: builds the form from the campaign, draws the report on this device, shows it and sends it.

import { VeilgraphError, canonical, parse, sha256, verify, within } from "./client.js";
import { answer, answered, stored, total } from "./device.js";
import { LANGUAGES, isSpeaking, moment, number, phrase, preferred, say, sentence, speak } from "./wording.js";

const FEW = 6;
const $ = (id) => document.getElementById(id);
const LANGUAGE = "veilgraph:language", LIMIT = "veilgraph:limit", INVITATION = "veilgraph:invitation";
const DEFAULT_LIMIT = 4; // from even odds, at most 98.3 in 100: below what the page calls weak
const SKIP = "skip";

let text, question, report;
let invitation = null; // {node, code} of a link
let isSomeoneElse = false; // who is not the person that this device answered for
let isRefused = false; // the code, by the collector
let entered = null; // the record, until the page is left
let outcome = null; // of sending: "done.stored" or another phrase
let problem = null; // [key, values] of the phrase that is shown

/** A problem in the page's own words. */
class Problem extends Error {
  constructor(key, values) {
    super(key);
    this.shown = [key, values];
  }
}

attempt(start);

async function start() {
  readInvitation(); // first, so that a code does not stay in the address if anything fails
  await speak(preferred(kept(LANGUAGE)));
  offerLanguages();
  need(storageWorks(), "problem.storage");
  need(navigator.locks, "problem.old");
  say($("status"), "loading");
  text = await fetchCampaign();
  // No limit and no deadline yet, so that the page can explain them; both apply before a report is drawn.
  const notice = JSON.parse(text);
  question = { notice, guarantee: notice.guarantee, ...await verify(text, { maxEpsilon: Infinity, now: new Date(0) }) };
  $("limit").value = kept(LIMIT) ?? DEFAULT_LIMIT;
  listen();
  setStatus();
  render();
}

function listen() {
  $("form").addEventListener("submit", (event) => { event.preventDefault(); attempt(draw); });
  for (const button of [$("send"), $("again")]) button.addEventListener("click", () => attempt(deliver));
  for (const button of document.querySelectorAll(".someone")) button.addEventListener("click", changePerson);
  // A name alone hides nothing: the code is still to be typed.
  for (const field of [$("node"), $("code")])
    field.addEventListener("change", () => attempt(() => { if (!report && findReport()) render(); }));
  $("limit").addEventListener("change", () => attempt(() => { keepLimit(); explainPoints(); }));
  addEventListener("hashchange", () => attempt(() => { if (readInvitation()) { entered = null; $("form").reset(); render(); } }));
}

async function fetchCampaign() {
  const reply = await fetch("v1/campaign", { cache: "no-store" }).catch(() => null);
  need(reply?.ok, "problem.load");
  return reply.text();
}

// --- Who answers ----------------------------------------------------------------------------------------------------

/**
 * Read name and code from the part of the address after #, which browsers do not send, and remove them from it.
 *
 * The tab remembers them until it is closed, so that the page can be loaded again.
 */
function readInvitation() {
  const read = new URLSearchParams(location.hash.slice(1)), isGiven = read.has("node") && read.has("token");
  history.replaceState(null, "", location.pathname);
  try {
    if (isGiven) sessionStorage.setItem(INVITATION, JSON.stringify({ node: read.get("node"), code: read.get("token") }));
    invitation = JSON.parse(sessionStorage.getItem(INVITATION));
  } catch { /* a browser that keeps nothing is told about later */ }
  if (isGiven) [isSomeoneElse, isRefused, outcome, problem] = [false, false, null, null];
  return isGiven;
}

const node = () => invitation?.node ?? $("node").value.trim();
const code = () => $("code").value.trim() || (invitation?.code ?? "");

/** Find the report that this device drew for the person, or, where nobody is named yet, the only one. */
function findReport() {
  const reports = stored(question, localStorage), isNamed = invitation || ($("node").value.trim() && $("code").value.trim());
  if (isNamed) return reports.get(node());
  return reports.size === 1 && !isSomeoneElse ? [...reports.values()][0] : undefined;
}

function changePerson() {
  sessionStorage.removeItem(INVITATION);
  [invitation, isSomeoneElse, isRefused, outcome, problem, entered] = [null, true, false, null, null, null];
  $("form").reset();
  attempt(render).then(() => $("node").focus());
}

// --- The page -------------------------------------------------------------------------------------------------------

/** Show the page as it stands, in the chosen language. */
function render() {
  showProblem();
  if (!question) return;
  const isClosed = new Date() >= question.closes;
  report = findReport();
  const receipt = report && kept(sentKey());
  say($("title"), isClosed ? "title.closed" : "title");
  if (isClosed && !problem) setProblem("problem.closed");
  explain();
  buildForm();
  explainPoints();
  if (report && receipt === null) review();
  if (report && receipt !== null) confirm(parse(receipt));
  $("guarantee").hidden = $("organisers").hidden = false;
  $("form").hidden = Boolean(report) || isClosed;
  $("review").hidden = !report || receipt !== null;
  $("done").hidden = !report || receipt === null;
  $("send").hidden = $("again").hidden = $("again-why").hidden = isClosed;
  askForCode(isClosed);
}

/** Move the field for the code to the part that is shown; it is hidden where a link gave the code. */
function askForCode(isClosed) {
  const part = $("form").hidden ? ($("review").hidden ? "done" : "review") : "form";
  $(`${part}-code`).append($("code-field"));
  $("code-field").hidden = part !== "form" && (isClosed || (code() !== "" && !isRefused));
  $("code").required = part === "form" && !invitation;
  $("node").required = !invitation;
  $("identification").hidden = Boolean(invitation);
  $("invited").hidden = !invitation;
  if (invitation) say($("invited"), "as", { name: element("strong", {}, quoted(invitation.node)) });
}

function offerLanguages() {
  const choice = $("language");
  choice.append(...Object.entries(LANGUAGES).map(([tag, name]) => element("option", { value: tag, lang: tag }, name)));
  choice.value = document.documentElement.lang;
  choice.closest("label").hidden = false;
  choice.addEventListener("change", () => attempt(async () => {
    await speak(choice.value);
    if (storageWorks()) localStorage.setItem(LANGUAGE, choice.value);
    render();
  }));
  document.title = sentence("title");
}

// --- What is guaranteed ---------------------------------------------------------------------------------------------

function explain() {
  const { user_level: user, attribute_level: attribute } = question.guarantee, { features, label, closes, notice } = question;
  document.title = sentence("title");
  say($("open"), "open", { time: moment(closes) });
  $("purpose").replaceChildren(quoted(notice.purpose));
  say($("contact"), "organisers.contact", { contact: quoted(notice.contact) });
  const each = features && Math.max(...attribute.map(Number)), isSingle = asked().length === 1;
  $("levels").replaceChildren(level(user.total, isSingle ? "level.only" : "level.all"),
    ...(features && label ? [level(user.label, "level.last")] : []),
    ...(features && !isSingle ? [level(each, label ? "level.other" : "level.each")] : []));
  say($("exact"), "details.exact", { factor: factor(Number(user.total)) });
  say($("checked"), "details.checked", { id: element("code", { dir: "ltr" }, question.id) });
  $("weak").hidden = Number(user.total) < Math.log(99);
}

function level(epsilon, key) {
  const certainty = raised(Number(epsilon));
  const said = certainty > 99.9 ? sentence("chance.certain") : sentence("chance", { n: roundedUp(certainty, certainty > 99 ? 1 : 0) });
  return element("li", {}, element("strong", {}, said), " ", ...phrase(key));
}

/** Return how many times in 100 a guess is right at most, if it was right 50 times before. */
const raised = (epsilon) => 100 / (1 + Math.exp(-epsilon));

const roundedUp = (x, digits) => Math.ceil(x * 10 ** digits - 1e-5) / 10 ** digits + 0; // no negative zero

/** Write how many times as likely a report is at most: three digits, rounded up. */
function factor(epsilon) {
  const times = Math.exp(epsilon);
  if (times >= 1e6) return `${number(10)}^${number(Math.ceil(epsilon / Math.LN10))}`;
  return number(roundedUp(times, Math.max(0, 2 - Math.floor(Math.log10(times)))));
}

/** Privacy points are the user-level epsilon, for any two records: written with two decimals, rounded up. */
const points = (epsilon) => number(roundedUp(epsilon, 2));

function explainPoints() {
  const spent = total(answered(localStorage)), cost = question.epsilon, reports = stored(question, localStorage);
  const [one, two, four] = [1, 2, 4].map((epsilon) => roundedUp(raised(epsilon), 0));
  say($("points-meaning"), "points.meaning", { one, two, four });
  say($("cost"), "points.cost", { cost: points(cost) });
  say($("spent"), "points.used", { spent: points(spent), limit: points(limit()), sum: points(spent + cost) });
  $("shared").hidden = !reports.size;
  $("shared-person").required = Boolean(reports.size);
  say($("shared-cost"), "shared.person", { points: points((reports.size + 1) * cost) });
  $("shared-names").replaceChildren(...[...reports.keys()].map((name) => element("li", {}, quoted(name))));
}

const limit = () => Number($("limit").value || DEFAULT_LIMIT);

function keepLimit() {
  need(limit() > 0, "problem.limit.none");
  localStorage.setItem(LIMIT, limit());
}

// --- The form -------------------------------------------------------------------------------------------------------

function asked() {
  return [...(question.features ? question.columns : []), ...(question.label ? [question.label] : [])];
}

/** A question that the report may leave out. */
const canSkip = (column) => column === question.label && question.features;

/** Build the form, with what was chosen in it before. */
function buildForm() {
  const chosen = new FormData($("form"));
  $("questions").replaceChildren(...asked().map((column, i) => field(column, `q${i}`)));
  for (const input of $("questions").querySelectorAll("input, select")) {
    if (input.type === "radio") input.checked = chosen.get(input.name) === input.value;
    else input.value = chosen.get(input.name) ?? "";
  }
  if (question.label) $("questions").append(element("p", { class: "quiet", id: "meaning" }, ...labelInWords()));
  if (question.label && canSkip(question.label)) $("questions").append(element("p", { class: "quiet" }, ...phrase("skip.label")));
}

/** Say how many answers to the last question a report names, and how likely the own one is among them. */
function labelInWords() {
  const { k, w, yes } = question.label.table, chance = yes / 2 ** 53;
  const said = chance > 0.99 ? sentence("chance.high") : sentence("chance", { n: roundedUp(100 * chance, 0) });
  return phrase(w ? "names.set" : "names.one", { w, k, question: quoted(question.label.name), chance: said });
}

function field(column, id) {
  if (column.edges) return numberField(column, id);
  return column.values.length <= FEW ? radioField(column, id) : selectField(column, id);
}

function numberField({ name, edges }, id) {
  const [low, high] = [edges[0], edges.at(-1)], [isLow, isHigh] = [low, high].map(Number.isFinite);
  const range = phrase(isLow ? (isHigh ? "number.range" : "number.least") : (isHigh ? "number.most" : "number"), { low, high });
  const bounds = { ...(isLow && { min: low }), ...(isHigh && { max: high }) };
  return element("div", { class: "field" },
    element("label", { class: "question", for: id }, isolated(name), " ", element("span", { class: "quiet" }, ...range)),
    element("input", { id, name: id, type: "number", step: "any", inputmode: "decimal", required: "", ...bounds }));
}

/** The choices of a question: a number for each value, so that no value can be confused with another choice. */
function choices(column) {
  const values = column.values.map((value, i) => [`${i}`, isolated(shown(value, column.values))]);
  return canSkip(column) ? [...values, [SKIP, sentence("skip")]] : values;
}

function radioField(column, id) {
  const offered = choices(column).map(([value, name]) => element("label", { class: "choice" },
    element("input", { type: "radio", name: id, value, required: "" }), element("span", {}, name)));
  const isShort = column.values.every((value) => value.length < 8) && offered.length < 4;
  return element("fieldset", {}, element("legend", {}, isolated(column.name)),
    element("div", { class: `choices${isShort ? " short" : ""}` }, ...offered));
}

function selectField(column, id) {
  const options = choices(column).map(([value, name]) => element("option", { value, dir: "auto" }, name.textContent ?? name));
  return element("div", { class: "field" },
    element("label", { class: "question", for: id }, isolated(column.name)),
    element("select", { id, name: id, required: "" }, element("option", { value: "" }, ...phrase("choose")), ...options));
}

/** Return the person's answers as a record; one that was left out is null. */
function readRecord() {
  const data = new FormData($("form"));
  return Object.fromEntries(asked().map(({ name, values }, i) => {
    const given = data.get(`q${i}`);
    return [name, given === SKIP ? null : values ? values[given] : given];
  }));
}

/** Show the values 0 and 1 of a column as no and yes. */
function shown(value, values) {
  return values.length === 2 && values[0] === "0" && values[1] === "1" ? sentence(["no", "yes"][Number(value)]) : value;
}

// --- The report -----------------------------------------------------------------------------------------------------

async function draw() {
  clearProblem();
  keepLimit();
  const spent = total(answered(localStorage)), cost = question.epsilon, sharedDevice = $("shared-person").checked;
  if (!stored(question, localStorage).has(node()))
    need(within(spent + cost, limit()), "problem.limit", { cost: points(cost), spent: points(spent), limit: points(limit()) });
  const record = readRecord();
  await answer(text, record, { node: node(), storage: localStorage, maxEpsilon: limit(), sharedDevice });
  entered = record;
  render();
  $("review-heading").focus();
}

function review() {
  const { sizes, sampled: m, joint } = question.features ?? {}, d = sizes?.length ?? 0;
  const which = `${joint ? "review.chosen" : "review.some"}${question.label ? ".before" : ""}`;
  const parts = [sentence(d ? "review.each" : "review.single"), ...(d && (joint || m < d) ? [sentence(which, { m, d })] : [])];
  $("explained").textContent = parts.join(" ");
  say($("review-as"), "as", { name: element("strong", {}, quoted(report.node)) });
  $("explained-label").hidden = report.label === null;
  if (report.label !== null) $("explained-label").replaceChildren(...labelInWords());
  $("rows").replaceChildren(...rows().map(([name, before, after]) =>
    element("tr", { role: "row" }, element("th", { scope: "row", role: "rowheader" }, name),
      element("td", { role: "cell" }, ...[before].flat()), element("td", { role: "cell" }, after))));
  $("raw").textContent = canonical(report);
}

function rows() {
  const { columns, group, label } = question;
  const features = (report.features ?? []).map((code, i) => {
    const members = columns.slice(i * group, (i + 1) * group), [first] = members;
    if (members.length === 1) return [isolated(first.name), was(first), named(first, code)];
    const merged = entered && (members.some((column) => column.values.indexOf(entered[column.name]) > 0) ? "any" : "none");
    const name = element("span", {}, ...phrase("range", { low: isolated(first.name), high: isolated(members.at(-1).name) }));
    return [name, sentence(merged ? `review.${merged}` : "review.forgotten"), code === null ? sentence("review.out") : sentence(["review.none", "review.any"][code])];
  });
  if (!label) return features;
  if (report.label === null) return [...features, [isolated(label.name), was(label), sentence("review.out")]];
  if (!report.label.length) return [...features, [isolated(label.name), was(label), named(label, report.label)]];
  const isHeld = entered && report.label.includes(label.values.indexOf(entered[label.name]));
  const remark = element("span", { class: "quiet" }, ...phrase(isHeld ? "review.among" : "review.apart"));
  const set = element("ul", { class: "set" }, ...report.label.map((code) => element("li", {}, named(label, code))));
  return [...features, [isolated(label.name), [was(label), ...(entered ? [element("br", {}), remark] : [])], set]];
}

function was({ name, values }) {
  if (!entered) return sentence("review.forgotten");
  if (entered[name] === null) return sentence("review.skipped");
  return isolated(values ? shown(entered[name], values) : entered[name]);
}

function named({ values, edges }, code) {
  if (code === null) return sentence("review.out");
  if (!edges) return isolated(shown(values[code], values));
  const [low, high] = [edges[code], edges[code + 1]];
  return sentence(low === -Infinity ? "range.most" : high === Infinity ? "range.least" : "range", { low, high });
}

// --- Sending --------------------------------------------------------------------------------------------------------

const REFUSALS = {
  401: "problem.code", 403: "problem.code", 404: "problem.code", 409: "problem.conflict", 410: "problem.closed", 422: "problem.refused",
};

const sentKey = () => `veilgraph:sent:${report.campaign}:${report.node}`;

async function deliver() {
  clearProblem();
  need(code(), "problem.code.missing");
  $("send").disabled = $("again").disabled = true;
  say($("status"), "sending");
  try {
    const [isNew, receipt] = await send();
    localStorage.setItem(sentKey(), canonical(receipt));
    outcome = isNew ? "done.stored" : "done.before";
    isRefused = false;
    render();
    $("done-heading").focus();
  } finally {
    setStatus();
    $("send").disabled = $("again").disabled = false;
  }
}

/** Send the report; try a busy or unreachable collector again, because sending the same report twice is harmless. */
async function send(attempts = 6) {
  const headers = { Authorization: `Bearer ${code()}`, "Content-Type": "application/json" };
  for (let attempt = 0; attempt < attempts; attempt++) {
    const request = { method: "PUT", headers, body: canonical(report), redirect: "error" };
    const reply = await fetch(`v1/reports/${encodeURIComponent(report.node)}`, request).catch(() => null);
    if (reply?.ok) return [reply.status === 201, await readReceipt(reply)];
    if (reply && ![408, 429, 500, 502, 503, 504].includes(reply.status)) refuse(reply.status);
    if (attempt + 1 === attempts) break;
    const pause = Math.max(Math.min(Number(reply?.headers.get("Retry-After")) || 0, 60), 2 ** attempt * (1 - Math.random() / 2));
    say($("status"), "waiting", { count: Math.ceil(pause) });
    await new Promise((done) => setTimeout(done, 1000 * pause));
  }
  throw new Problem("problem.unreachable");
}

/** Say what a status means; a code that was refused can be typed again. */
function refuse(status) {
  isRefused = REFUSALS[status] === "problem.code";
  if (isRefused) {
    $("code").value = "";
    render();
    $("code").focus();
  }
  throw new Problem(REFUSALS[status] ?? "problem.status", { status: `${status}` });
}

/** Return the receipt if it is that of this report: the login page of a network answers everything, too. */
async function readReceipt(reply) {
  const { receipt } = (await reply.json().catch(() => null)) ?? {};
  need(receipt?.campaign === report.campaign && receipt.node === report.node
    && receipt.report_sha256 === await sha256(canonical(report)), "problem.unconfirmed");
  return receipt;
}

function confirm(receipt) {
  say($("done-as"), "as", { name: element("strong", {}, quoted(report.node)) });
  say($("receipt"), outcome ?? "done.earlier");
  $("signed").hidden = !receipt?.signature; // earlier versions kept none
  $("signed-receipt").textContent = canonical(receipt ?? null);
  $("save").href = `data:application/json;charset=utf-8,${encodeURIComponent(canonical(receipt ?? null))}`;
}

// --- Elements, storage, problems ------------------------------------------------------------------------------------

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** A text of the organisers inside our own: marked as a quotation, and in a direction of its own. */
const quoted = (text) => element("q", { dir: "auto" }, text);

/** A text of the organisers that stands alone, in a direction of its own. */
const isolated = (text) => element("bdi", {}, text);

/** Return what the browser keeps under a key, or null; some browsers refuse every access. */
function kept(key) {
  try { return localStorage.getItem(key); } catch { return null; }
}

function storageWorks() {
  try {
    return localStorage.length >= 0 && sessionStorage.length >= 0;
  } catch {
    return false;
  }
}

function setStatus() {
  $("status").textContent = "";
}

function clearProblem() {
  problem = null;
  showProblem();
}

function setProblem(key, values) {
  problem = [key, values];
  showProblem();
}

function showProblem() {
  $("problem").hidden = !problem;
  $("problem").replaceChildren(...(problem ? phrase(...problem) : []));
}

function need(condition, key, values) {
  if (!condition) throw new Problem(key, values);
}

async function attempt(work) {
  try { await work(); } catch (error) { fail(error); }
}

// What the modules that know no language say, in the page's words.
const TOLD = {
  "The campaign was altered.": "problem.altered",
  "The tables do not give the stated guarantee.": "problem.untrue",
  "This is not a campaign.": "problem.unreadable",
  "The campaign is closed.": "problem.closed",
  "A stored report is damaged, and a second one would reveal more.": "problem.damaged",
  "This browser is too old: two tabs could answer at once.": "problem.old",
  "Open this page over https.": "problem.insecure",
  "This device has answered the campaign before, and answers it once.": "problem.answered",
  "A node has 1 to 256 characters.": "problem.name",
};

function fail(error) {
  setStatus();
  $("incomplete").hidden = isSpeaking();
  if (!isSpeaking()) return;
  if (error instanceof Problem) setProblem(...error.shown);
  else if (error instanceof VeilgraphError) setProblem(TOLD[error.message] ?? "problem.answer");
  else setProblem(error?.name === "QuotaExceededError" ? "problem.full" : "problem.unexpected");
  if (!question) say($("title"), "title.refused");
  $("problem").scrollIntoView({ block: "center" });
}
