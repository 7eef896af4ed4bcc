// The participant's page: builds the form from the campaign, draws the report on this device, shows it and
// sends it.

import { VeilgraphError, canonical, costWithLost, parse, verify } from "./veilgraph.js";
import { Problem, fetchCampaign, hasReported, need, standing, submit, withdraw } from "./delivery.js";
import { answer, answered, forget, isLimitLost, knowsRounds, ledger } from "./device.js";
import { loadMemory, memoryText, setLimit, stored, withdrawnKey } from "./device.js";
import { showAbout } from "./about.js";
import { $, element, fill, quoted } from "./elements.js";
import { add, within } from "./epsilons.js";
import { field, labelInWords, questionsOf, readRecord } from "./form.js";
import { points } from "./figures.js";
import { explainGuarantee, explainPoints } from "./guarantee.js";
import { TOLD } from "./problems.js";
import { entries, rows } from "./review.js";
import { LANGUAGES, day, isSpeaking, moment, phrase, preferred, say, sentence, speak } from "./wording.js";

// One server may have several surveys, each below a path: an invitation to one is none to another.
const LANGUAGE = "veilgraph:language";
const INVITATION = `veilgraph:invitation ${location.pathname}`;
const DEFAULT_LIMIT = 4; // from even odds, less than 99 in 100: below what the page calls weak
const CLOCKS_DIFFER = 5 * 60 * 1000; // milliseconds

let text, question, report;
let ahead = 0; // milliseconds of the collector's clock
let contacts = null; // the part of the page for a survey about contacts
let invitation = null; // {node, code} of a link
let isChecking = false; // the person looks at their answers again, before they are drawn
let isRefused = false; // the code, by the collector
let entered = null; // the record, until the page is left
let outcome = null; // of sending: "done.stored" or another phrase
let held = null; // by the collector: "stored" or another word, once it was asked
let turn = null; // the person's round, where each person answers one of them
let forgotten = null; // {name, rounds}: who answered earlier rounds of which this device remembers nothing
let problem = null; // [key, values] of the phrase that is shown
let acted = null; // "withdraw" where the person acted there, and not in the part that is shown

/** The time by the collector's clock, which decides whether the survey is open. */
const now = () => new Date(Date.now() + ahead);

attempt(start);

async function start() {
  readInvitation(); // first, so that a code does not stay in the address if anything fails
  await speak(preferred(kept(LANGUAGE)));
  $("incomplete").hidden = true;
  offerLanguages();
  need(storageWorks(), "problem.storage");
  need(navigator.locks, "problem.old");
  say($("status"), "loading");
  [text, ahead] = await fetchCampaign();
  // No limit and no deadline yet, so that the page can explain them; both apply before a report is drawn.
  contacts = parse(text)?.format === 4 ? await import("./contacts.js") : null;
  question = contacts
    ? await contacts.verifyRound(text, new Date(0))
    : await verify(text, { maxEpsilon: Infinity, now: new Date(0) });
  $("limit").value = isLimitLost(localStorage) ? "" : (ledger(localStorage).limit ?? DEFAULT_LIMIT);
  listen();
  setStatus();
  await findTurn();
  render();
}

function listen() {
  for (const [form, work] of [
    [$("form"), check],
    [$("checking"), draw],
  ])
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      attempt(work);
    });
  $("change").addEventListener("click", () => attempt(change));
  for (const button of [$("send"), $("again")]) button.addEventListener("click", () => attempt(deliver));
  $("withdraw").addEventListener("click", () => attempt(takeBack, "withdraw"));
  for (const [said, button] of [
    ["yes", $("sure-yes")],
    ["no", $("sure-no")],
  ])
    button.addEventListener("click", () => $("sure").close(said));
  $("memory-file").addEventListener("change", () => attempt(takeUpMemory));
  $("check").addEventListener("click", () => attempt(askStanding));
  for (const button of document.querySelectorAll(".someone")) button.addEventListener("click", changePerson);
  // A name alone hides nothing: the code is still to be typed.
  for (const field of [$("node"), $("code")])
    field.addEventListener("change", () =>
      attempt(async () => {
        const before = turn;
        await findTurn();
        if (!report && (turn !== before || findReport())) render();
        else showPoints();
        prepare();
      }),
    );
  $("limit").addEventListener("change", () =>
    attempt(() => {
      clearProblem();
      keepLimit();
      render();
    }),
  );
  addEventListener("hashchange", () =>
    attempt(async () => {
      if (!readInvitation()) return;
      [entered, isChecking] = [null, false];
      clearForms();
      await findTurn();
      render();
    }),
  );
}

// --- Who answers -------------------------------------------------------------------------------------------

/**
 * Read name and code from the part of the address after #, which browsers do not send, and remove them from
 * it.
 *
 * The tab remembers them until it is closed, so that the page can be loaded again.
 */
function readInvitation() {
  const read = new URLSearchParams(location.hash.slice(1));
  const isGiven = read.has("node") && read.has("token");
  history.replaceState(null, "", location.pathname);
  try {
    if (isGiven)
      sessionStorage.setItem(INVITATION, JSON.stringify({ node: read.get("node"), code: read.get("token") }));
    invitation = JSON.parse(sessionStorage.getItem(INVITATION));
  } catch {
    /* a browser that keeps nothing is told about later */
  }
  if (isGiven) [isRefused, forgotten, outcome, problem] = [false, null, null, null];
  return isGiven;
}

const node = () => invitation?.node ?? $("node").value.trim();
const code = () => $("code").value.trim() || (invitation?.code ?? "");

/** Find the report that this device drew for the person; none before their name and code are known. */
function findReport() {
  const reports = stored(question, localStorage);
  const isTyped = $("node").value.trim() && $("code").value.trim();
  const name = invitation?.node ?? report?.node ?? (isTyped ? node() : undefined);
  if (name === undefined) return undefined;
  // What was withdrawn in one round stays withdrawn in the next.
  return (
    reports.get(name) ??
    (keptWithdrawal(name) === null ? sentInTurn(name) : { campaign: question.id, node: name })
  );
}

/** Return what the person sent in their own round: it can still be withdrawn. */
function sentInTurn(name) {
  const said = contacts?.answerInTurn(question, name);
  return said && kept(sentKey(said)) !== null ? said : undefined;
}

/** Find out which round is the person's; who is not named yet has none. */
async function findTurn() {
  const name = node();
  const found = contacts ? await contacts.roundOf(question, name) : null;
  if (name === node()) turn = found; // another name may have been typed meanwhile
}

/** This round asks other people. */
const isForOthers = () => turn !== null && turn !== question.wave && report?.campaign !== question.id;

function changePerson() {
  sessionStorage.removeItem(INVITATION);
  [isChecking, isRefused, report] = [false, false, undefined];
  invitation = outcome = problem = entered = turn = forgotten = null;
  clearForms();
  attempt(render).then(() => $("node").focus());
}

/** Forget what a person has typed; name and code stand outside of the forms at times. */
function clearForms() {
  for (const form of [$("form"), $("checking")]) form.reset();
  for (const typed of [$("node"), $("code")]) typed.value = "";
  contacts?.forget();
  for (const place of ["entered", "rows", "raw", "unlisted-names"]) $(place).replaceChildren();
}

// --- The page ----------------------------------------------------------------------------------------------

/** Show the page as it stands, in the chosen language. */
function render() {
  if (!question) return showProblem();
  report = findReport();
  // Who is not asked in this round need not know that it is closed: their own may be open later.
  const isOthers = isForOthers();
  const isOver = !isOthers && now() >= question.closes;
  const isClosed = isOver || isPaused();
  const sent = report && kept(sentKey());
  const withdrawn = report && keptWithdrawal(report.node);
  const isSent = Boolean(report) && (sent ?? withdrawn) !== null;
  const isForm = !report && !isClosed && !(isOthers && invitation); // a name that was typed can be corrected
  isChecking &&= isForm && !isOthers;
  if (withdrawn) forgetAnswers(report.node);
  say($("title"), isOver ? "title.closed" : "title");
  $("clock").hidden = Math.abs(ahead) < CLOCKS_DIFFER;
  say($("clock"), "clock", { time: moment(now()) });
  if (isClosed) problem ??= [isOver ? "problem.closed" : "problem.paused"];
  else if (isLimitLost(localStorage) && !isOthers) problem ??= ["problem.limit.lost"];
  explain();
  buildForm();
  showPoints();
  const isDrawn = report?.campaign === question.id && withdrawn === null;
  $("drawn").hidden = !isDrawn;
  $(isSent ? "done-drawn" : "review-drawn").append($("drawn"));
  if (isDrawn) review();
  if (isChecking) showAnswers();
  if (isSent) confirm(withdrawn !== null, parse(withdrawn ?? sent));
  for (const part of ["guarantee", "points", "own-words", "asking"]) $(part).hidden = isOthers;
  $("next").disabled = isOthers;
  $("organisers").hidden = false;
  $("form").hidden = !isForm || isChecking;
  $("checking").hidden = !isChecking;
  $("review").hidden = !report || isSent;
  $("done").hidden = !isSent;
  $("send").hidden = isClosed;
  $("again-part").hidden = isClosed || isOthers || withdrawn !== null;
  $("withdraw-part").hidden = isSent && withdrawn !== null;
  say($("withdraw"), isForm ? "withdraw.object" : "withdraw");
  showMemory(isSent && withdrawn === null);
  askForCode();
  showTurn(isOthers);
  showProblem();
  prepare();
}

/** Get names to choose from before anybody searches, so that a search is no sign of contacts. */
function prepare() {
  if (contacts && !$("form").hidden) contacts.prepare(question, node(), code());
}

/** Say to a person whom this round does not ask which one does. */
function showTurn(isOthers) {
  $(invitation || report ? "top-turn" : "form-turn").append($("turn"));
  $("turn").hidden = !isOthers;
  $("turn").replaceChildren(...(isOthers ? contacts.othersInWords(question, turn) : []));
}

/** A series between two of its rounds. */
const isPaused = () => Boolean(question.rounds) && question.notice.round === null;

/** Return the part of the page in which the person acts. */
const shownPart = () => ["form", "checking", "review", "done"].find((part) => !$(part).hidden) ?? "top";

/** Move the fields for name and code to the part that is shown, or to the withdrawal. A link gives both. */
function askForCode() {
  const part = shownPart();
  const isGiven = Boolean(invitation);
  const isTop = part === "top";
  const place = $(`${isTop ? "withdraw" : part}-code`);
  // A field that is moved loses the focus.
  if ($("code-field").parentNode !== place) place.append($("name-field"), $("code-field"));
  const isAsked = part === "form" || (part === "checking" && isRefused);
  $("name-field").hidden = isGiven || !(isAsked || isTop);
  const isKnown = part === "form" ? isGiven : code() !== "" || $("withdraw-part").hidden;
  $("code-field").hidden = isKnown && !isRefused;
  $("code").required = isAsked && !isGiven;
  $("node").required = !isGiven;
  $("withdraw-more").open ||= isTop;
  $("invited").hidden = !isGiven;
  const name = () => element("strong", {}, quoted(node()));
  if (isGiven) say($("invited"), "as", { name: name() });
  if (isChecking) say($("checking-as"), "as", { name: name() });
}

function offerLanguages() {
  const choice = $("language");
  choice.append(
    ...Object.entries(LANGUAGES).map(([tag, name]) => element("option", { value: tag, lang: tag }, name)),
  );
  choice.value = document.documentElement.lang;
  choice.closest("label").hidden = false;
  choice.addEventListener("change", () =>
    attempt(async () => {
      await speak(choice.value);
      if (storageWorks()) localStorage.setItem(LANGUAGE, choice.value);
      render();
    }),
  );
  document.title = sentence("title");
}

// --- What is asked, and what is guaranteed -----------------------------------------------------------------

function explain() {
  document.title = sentence("title");
  say($("open"), "open", { time: moment(question.closes) });
  showAbout(question);
  explainGuarantee(question, contacts);
}

function showPoints() {
  const name = report?.node ?? node();
  const names = people();
  const isCounted = names.includes(name);
  $(isChecking ? "checking-points" : "more").append($("points"));
  explainPoints(question, { contacts, limit: limit(), isCounted, isDrawn: Boolean(report) });
  const others = contacts ? contacts.peopleOf(question) : names;
  const isShared = others.length > 0 && !others.includes(name);
  $("known").hidden = !isShared || Boolean(invitation);
  $("shared").hidden = !isShared;
  $("shared-person").required = isShared;
  if (contacts) contacts.explainShared(question);
  else
    say($("shared-cost"), "shared.person", {
      points: points(add(question.epsilon, ...names.map(() => question.epsilon))),
    });
}

/** Return the names as which this device has answered the survey, in any of its rounds. */
const people = () =>
  answered(localStorage)
    .filter(({ campaign }) => campaign === question.id)
    .map((each) => each.node);

/** The person's limit; one that cannot be read is no number, until the person sets it again. */
const limit = () => Number($("limit").value || (isLimitLost(localStorage) ? NaN : DEFAULT_LIMIT));

function keepLimit() {
  need(limit() > 0, isLimitLost(localStorage) ? "problem.limit.lost" : "problem.limit.none");
  setLimit(localStorage, limit());
}

// --- The form ------------------------------------------------------------------------------------------

/** Build the form, with what was chosen in it before. */
function buildForm() {
  const chosen = new FormData($("form"));
  $("questions").replaceChildren(
    ...(contacts
      ? contacts.fields(question, { person: () => [node(), code()], attempt })
      : questionsOf(question).map((column, i) => field(question, column, `q${i}`))),
  );
  for (const input of $("questions").querySelectorAll("input, select, textarea")) {
    if (input.type === "radio") input.checked = chosen.get(input.name) === input.value;
    else if (input.type === "checkbox") {
      if (chosen.has(input.name)) input.click();
    } else input.value = chosen.get(input.name) ?? "";
  }
  if (contacts) contacts.refill();
  $("questions").append(leaveOut());
}

/** Say what can be left out, and who sees it. */
function leaveOut() {
  if (!question.features) return element("p", { class: "quiet" }, ...phrase("skip.alone"));
  const after = question.label ? [" ", ...phrase("skip.label")] : [];
  return element(
    "details",
    {},
    element("summary", {}, ...phrase("skip.may")),
    element("p", { class: "quiet" }, ...phrase("skip.feature"), ...after),
  );
}

/** Let the person look at their answers again; nothing is drawn yet. */
async function check() {
  clearProblem();
  prepare();
  await findTurn();
  if (contacts && !isForOthers()) await contacts.showUnlisted(question);
  isChecking = true;
  render();
  (isChecking ? $("checking-heading") : $("form-heading")).focus();
}

const showAnswers = () =>
  fill($("entered"), contacts ? contacts.entries() : entries(question, readRecord(question)));

function change() {
  isChecking = false;
  clearProblem();
  render();
  $("form-heading").focus();
}

// --- The report --------------------------------------------------------------------------------------------

async function draw() {
  clearProblem();
  await findTurn();
  if (isForOthers()) return render();
  keepLimit();
  const name = node();
  const { spent } = ledger(localStorage);
  const cost = costWithLost(question, lostRounds().length);
  if (!people().includes(name))
    need(within(add(spent, cost), limit()), "problem.limit", {
      cost: points(cost),
      spent: points(spent),
      limit: points(limit()),
    });
  // A browser may refuse: so the person can keep a file.
  if (question.rounds) navigator.storage?.persist?.().catch(() => null);
  if (!stored(question, localStorage).has(name)) await checkUnanswered(name);
  const record = contacts ? contacts.readContacts().length : readRecord(question);
  const sharedDevice = $("shared-person").checked;
  const options = {
    node: name,
    storage: localStorage,
    maxEpsilon: limit(),
    sharedDevice,
    lost: lostRounds(),
    now: now(),
  };
  report = contacts ? await contacts.draw(text, question, options) : await answer(text, record, options);
  entered = record;
  isChecking = false;
  render();
  $("review-heading").focus();
}

// What the person is told who has answered, and where the collector does not say so: nothing was drawn.
const ANSWERED = {
  stored: "problem.reported",
  earlier: "problem.forgotten",
  withdrawn: "problem.withdrawn",
  purged: "problem.purged",
};
const UNASKED = { "problem.code": "problem.code.first", "problem.unreachable": "problem.unasked" };

/**
 * Draw nothing for a person who has answered, on another device or before this one forgot it.
 *
 * The collector is asked now, and not before: who only reads the page is not known by name, unless a list of
 * names is loaded (`prepare`).
 */
async function checkUnanswered(name) {
  $("draw").disabled = true;
  say($("status"), "asking");
  try {
    const wait = (count) => say($("status"), "waiting", { count });
    const [status, rounds] = await hasReported(name, code(), { wait });
    const isWarned = !question.rounds || isForgotten();
    isRefused = false;
    if (status === "earlier" && question.rounds) {
      if (people().includes(name))
        return need(knowsRounds(question, name, rounds, localStorage), "problem.stale");
      forgotten = { name, rounds };
    }
    if (status === "missing" || (status === "earlier" && isWarned)) return;
    if (status === "withdrawn") keepWithdrawal(name);
    render();
    throw new Problem(ANSWERED[status]);
  } catch (error) {
    const [key, values] = error.shown ?? [];
    if (key === "problem.code" && (isRefused = true)) render();
    if (key === "problem.code" || key === "problem.unreachable") throw new Problem(UNASKED[key], values);
    throw error;
  } finally {
    setStatus();
    $("draw").disabled = false;
  }
}

// --- What this device remembers of a series ----------------------------------------------------------------

/** Tell whether the person answered earlier rounds with a memory that is lost here. */
const isForgotten = () => forgotten?.name === node() && !people().includes(node());
const lostRounds = () => (isForgotten() ? forgotten.rounds : []);

/** Offer the memory of a series: to keep after each round, and to load where this device has none. */
function showMemory(isSent) {
  const isLost = isForgotten();
  $("memory-part").hidden = !(question.rounds && isSent && people().includes(report.node));
  const isKept = !$("memory-part").hidden;
  $("memory-save").href = isKept ? asFile(memoryText(question, report.node, localStorage)) : "";
  $("memory-load").hidden = !question.rounds || people().includes(node());
  $("memory-load").open ||= isLost;
  for (const part of ["forgotten", "forgotten-anew"]) $(part).hidden = !isLost;
  $("forgotten-accept").required = isLost;
  const cost = costWithLost(question, lostRounds().length);
  say($("forgotten-cost"), "forgotten.accept", { points: points(cost) });
}

const asFile = (text) => `data:application/json;charset=utf-8,${encodeURIComponent(text)}`;

async function takeUpMemory() {
  clearProblem();
  const text = await $("memory-file").files[0].text();
  $("memory-file").value = "";
  need(node(), "problem.code.missing");
  await loadMemory(question, text, { node: node(), storage: localStorage });
  render();
}

function review() {
  const { sizes = [], sampled = 0, joint, series } = question.features ?? {};
  const which = `${joint || series ? "review.chosen" : "review.some"}${question.label ? ".before" : ""}`;
  const parts = [
    contacts ? contacts.reviewInWords(question) : sentence(sizes.length ? "review.each" : "review.single"),
    ...(joint || sampled < sizes.length ? [sentence(which, { m: sampled, d: sizes.length })] : []),
  ];
  $("explained").textContent = parts.join(" ");
  say($("review-as"), "as", { name: element("strong", {}, quoted(report.node)) });
  $("explained-label").hidden = report.label === null;
  if (report.label !== null)
    $("explained-label").replaceChildren(...(contacts ?? { inWords: labelInWords }).inWords(question));
  $("entered-column").hidden = entered === null;
  fill($("rows"), contacts ? [contacts.row(question, report, entered)] : rows(question, report, entered));
  $("raw").textContent = canonical(report);
}

// --- Sending -----------------------------------------------------------------------------------------------

const sentKey = ({ campaign, node: name, round } = report) =>
  `veilgraph:sent:${campaign}:${name}${round ? `:${round}` : ""}`;
const keptWithdrawal = (name) => kept(withdrawnKey(question, name));
const keepWithdrawal = (name, receipt = null) =>
  localStorage.setItem(withdrawnKey(question, name), canonical(receipt));

/** Forget the true answers and the invitation of a person who has withdrawn. */
function forgetAnswers(name) {
  forget(question, name, localStorage);
  sessionStorage.removeItem(INVITATION);
  entered = null;
  clearForms();
}

async function deliver() {
  await ask("sending", async (wait) => {
    const [isNew, receipt] = await submit(question, report, code(), { wait });
    localStorage.setItem(sentKey(), canonical(receipt));
    outcome = isNew ? "done.stored" : "done.before";
  });
}

/** Withdraw, or object before there is an answer, with name and code. It is final: the person confirms it. */
async function takeBack() {
  const name = report?.node ?? node();
  const campaign = question.series ?? question.id; // of all rounds together
  clearProblem();
  need(name && code(), "problem.code.missing");
  if (!(await isSure(name))) return;
  await ask("withdrawing", async (wait) => {
    const receipt = await withdraw({ campaign, node: name }, code(), { wait });
    keepWithdrawal(name, receipt);
  });
}

/** Say whose withdrawal this is: who withdraws does not answer. */
const inName = (name) => [...phrase("name"), ": ", element("strong", {}, quoted(name))];

function isSure(name) {
  $("sure-as").replaceChildren(...inName(name));
  $("sure").returnValue = "";
  $("sure").showModal();
  return new Promise((done) => {
    $("sure").addEventListener("close", () => done($("sure").returnValue === "yes"), { once: true });
  });
}

/** Show what the collector holds now: after a restored backup it can be less than it confirmed. */
async function askStanding() {
  clearProblem();
  held = null;
  say($("standing"), "checking");
  const wait = (count) => say($("standing"), "waiting", { count });
  try {
    held = await standing(parse($("signed-receipt").textContent), { wait });
  } finally {
    render();
  }
}

/** Ask the collector for something; a code that it refuses can be typed again. */
async function ask(doing, work) {
  const buttons = [$("send"), $("again"), $("withdraw")];
  clearProblem();
  need(code(), "problem.code.missing");
  buttons.forEach((button) => {
    button.disabled = true;
  });
  say($("status"), doing);
  held = null;
  try {
    await work((count) => say($("status"), "waiting", { count }));
    isRefused = false;
    render();
    $("done-heading").focus();
  } catch (error) {
    const [key] = error.shown ?? [];
    // From another device.
    if (key === "problem.withdrawn") keepWithdrawal(report.node);
    if ((isRefused = key === "problem.code")) $("code").value = "";
    render();
    if (isRefused) $("code").focus();
    throw error;
  } finally {
    setStatus();
    buttons.forEach((button) => {
      button.disabled = false;
    });
  }
}

function confirm(isWithdrawn, receipt) {
  const stored = receipt?.stored && day(new Date(receipt.stored));
  say($("done-heading"), isWithdrawn ? "withdrawn" : outcome || !stored ? "done" : "done.day", {
    day: stored,
  });
  const name = element("strong", {}, quoted(report.node));
  $("done-as").replaceChildren(...(isWithdrawn ? inName(report.node) : phrase("as", { name })));
  say($("receipt"), isWithdrawn ? "withdrawn.now" : (outcome ?? "done.earlier"));
  say(
    $("kept"),
    isWithdrawn
      ? "withdrawn.kept"
      : question.rounds || (contacts && !question.turns)
        ? "done.round"
        : "done.kept",
  );
  say($("receipt-why"), isWithdrawn ? "withdrawn.receipt" : "receipt.why");
  $("standing").replaceChildren(...(held ? phrase(`standing.${held}`) : []));
  $("signed").hidden = !receipt?.signature; // earlier versions kept none
  $("signed-receipt").textContent = canonical(receipt ?? null);
  $("save").href = asFile(canonical(receipt ?? null));
}

// --- Storage, problems -------------------------------------------------------------------------------------

/** Return what the browser keeps under a key, or null; some browsers refuse every access. */
function kept(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
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
  $(`${acted ?? shownPart()}-problem`).append($("problem")); // where the person acted
  $("problem").hidden = !problem;
  $("problem").replaceChildren(...(problem ? phrase(...problem) : []));
}

async function attempt(work, place = null) {
  acted = place;
  try {
    await work();
  } catch (error) {
    fail(error);
  }
}

function fail(error) {
  setStatus();
  if (!isSpeaking()) return $("incomplete").classList.remove("late");
  if (error instanceof Problem) setProblem(...error.shown);
  else if (error instanceof VeilgraphError) setProblem(TOLD[error.message] ?? "problem.answer");
  else setProblem(error?.name === "QuotaExceededError" ? "problem.full" : "problem.unexpected");
  if (!question) say($("title"), "title.refused");
  $("problem").scrollIntoView({ block: "center" });
}
