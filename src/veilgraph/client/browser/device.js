// What a device remembers: it answers a campaign once, whatever node it is invited as, and adds its reports
// up.

import { add, shown, within } from "./epsilons.js";
import {
  UNANSWERED,
  canonical,
  costWithLost,
  encode,
  internals,
  need,
  parse,
  randomize,
  randomizeRound,
  verify,
  roundsOf,
} from "./veilgraph.js";

const { isCode, labelFits } = internals;
const DAMAGED = "A stored report is damaged, and a second one would reveal more.";
const LIMIT = "veilgraph:limit";
const ENTRY_LIMIT = "veilgraph:entry-limit";
const NOT_NOW = "Another wave is this person's turn.";
const NOT_THIS_MEMORY = "This file is not what a device remembered of this person in this survey.";
const WITHDRAWN = "This person has withdrawn.";
const ANOTHER = "This device has answered the campaign before, and answers it once.";

/**
 * Return a person's report. It is drawn once and stored; later calls return the same one.
 *
 * All reports of the storage together stay within the person's limit and `maxEpsilon`, one of which there
 * must be: user level, any two records. A notice that is older than one that the device has seen is refused.
 * `sharedDevice` lets another person answer a campaign that was answered before. `locks` and `settle`, in
 * milliseconds, are for tests. Of a series, the open round is answered, from permanent answers that are kept;
 * its first round counts for all. Where the memory of earlier rounds is `lost`, which lists them, permanent
 * answers are drawn anew, and count as `costWithLost` says.
 */
export async function answer(campaign, record, options) {
  const { node, storage, maxEpsilon, now, sharedDevice, lost = [] } = options;
  const question = await verify(campaign, { maxEpsilon: maxEpsilon ?? Infinity, now });
  const { id } = question;
  const epsilon = costWithLost(question, lost.length);
  return underLock(question, options, ({ seen, spent, limit }) => {
    need(storage.getItem(withdrawnKey(question, node)) === null, WITHDRAWN);
    const kept = drawn(question, storage);
    if (kept.has(node))
      return question.rounds ? reportOfRound(question, kept.get(node), storage, record) : kept.get(node);
    need(!kept.size || sharedDevice === true, ANOTHER);
    checkLimit(epsilon, spent, limit);
    const report = question.rounds
      ? reportOfRound(question, { campaign: id, node, features: null }, storage, record, true)
      : drawReport(question, node, record);
    storage.setItem(
      placeOf(id, node, kept.size),
      canonical({
        ...report,
        epsilon: `${epsilon}`,
        graph: question.graph,
        notices: [seen],
        ...(lost.length && { lost }),
      }),
    );
    return stored(question, storage).get(node);
  });
}

/**
 * Return a person's answer to a wave about their neighbours, whose list stays here. It is drawn once and
 * stored.
 *
 * `people` and `table` are the published files, as bytes, the second null for a wave without one;
 * `neighbours` are names of people. The document, the limits, the files and that `node` is among the people
 * are checked before the list is looked at, so that no refusal depends on it. Who is not among the people
 * adds nothing, and `unlisted` takes these names after the draw: show them to the person alone. In turns, a
 * person answers one wave of the series, and this device says nothing in another one. What the answers reveal
 * about any two lists counts against the limit of all reports. What they reveal about one entry stays within
 * the person's limit for that and `maxEntryEpsilon`; an answer that protects no whole lists needs one.
 */
export async function answerNeighbours(campaign, { people, table, neighbours }, options) {
  const { checkPerson, namesIn, randomizeNeighbours, readPublished, turnOf, unlistedIn, verifyWave } =
    await import("./neighbours.js"); // for such campaigns alone
  const { node, storage, maxEpsilon, maxEntryEpsilon, now, sharedDevice, unlisted = () => {} } = options;
  const question = await verifyWave(campaign, {
    maxEpsilon: maxEpsilon ?? Infinity,
    maxEntryEpsilon: maxEntryEpsilon ?? Infinity,
    now,
  });
  const { id, graph, series, wave, turns, costs } = question;
  const { any_lists, one_entry } = costs.wave;
  const epsilon = any_lists < Infinity ? any_lists : 0;
  return underLock(question, options, async ({ seen, spent, limit, entrySpent, entryLimit }) => {
    if (turns !== null && (await turnOf(node, turns)) !== wave) {
      // A mistyped name also has a turn: check that somebody has it.
      await checkPerson(node, await readPublished(question, people, table));
      need(false, NOT_NOW);
    }
    const kept = drawn(question, storage);
    if (kept.has(node)) return kept.get(node);
    checkSeries(question, node, storage, sharedDevice);
    checkLimit(epsilon, spent, limit);
    const mostForEntry = Math.min(
      maxEntryEpsilon ??
        entryLimit ??
        need(any_lists < Infinity, "Set your limit for one entry first.") ??
        Infinity,
      entryLimit ?? Infinity,
    );
    need(
      within(add(entrySpent, one_entry), mostForEntry),
      `An answer costs epsilon ${shown(one_entry)} for one entry. ` +
        `With ${shown(entrySpent)} for earlier answers this is above your limit of ${mostForEntry}: ` +
        "do not answer, or set a higher one.",
    );
    const published = await readPublished(question, people, table);
    await checkPerson(node, published);
    const names = namesIn(neighbours);
    const said = await randomizeNeighbours(question, published, names);
    const place = {
      series,
      wave,
      people: question.people,
      ...(turns && { turns }),
      any_lists: `${any_lists}`,
      one_entry: `${one_entry}`,
    };
    storage.setItem(
      placeOf(id, node, kept.size),
      canonical({
        answer: said,
        campaign: id,
        node,
        epsilon: `${epsilon}`,
        graph,
        neighbours: place,
        notices: [seen],
      }),
    );
    unlisted(await unlistedIn(published, names));
    return drawn(question, storage).get(node);
  });
}

/** Return this device's answers to a verified wave about neighbours, by node. */
function answersTo({ id, asked: { sets, list, people, classCount, largest } }, storage) {
  const counts = (said) => said.length === classCount && said.every((count) => Math.abs(count) <= largest);
  const codesFit = (said) => Array.isArray(said) && (sets ? labelFits(said, sets) : counts(said));
  const fit = (said) => (list ? isListOf(said, people) : codesFit(said));
  return new Map(
    answered(storage)
      .filter(({ campaign }) => campaign === id)
      .map(({ node, report, neighbours }) => {
        need(neighbours && fit(report.answer), DAMAGED);
        return [node, report];
      }),
  );
}

/**
 * Refuse a wave that does not continue what this device has answered: each wave of a series is answered once.
 *
 * None continues an answer in turns: it was promised to be the person's only one, whatever a later document
 * says. People and graph stay those of the first document that was answered.
 */
function checkSeries({ series, documents, turns, graph, people }, node, storage, sharedDevice) {
  for (const kept of answered(storage).filter((each) =>
    [each.neighbours?.series, each.campaign].includes(series),
  )) {
    need(
      canonical(kept.graph) === canonical(graph) && (kept.neighbours ?? { people }).people === people,
      "The people of this series were changed.",
    );
    need(kept.node === node || sharedDevice === true, ANOTHER);
    need(
      !kept.neighbours ||
        kept.node !== node ||
        (!turns && !kept.neighbours.turns && documents[kept.neighbours.wave] === kept.campaign),
      "This is not the wave that follows those which this device has answered.",
    );
  }
}

/** Do work while no other tab does, with what the device has spent and the person's limits. */
async function underLock(
  question,
  { node, storage, maxEpsilon, now, locks = navigator.locks, settle = 500 },
  work,
) {
  checkNode(node);
  need(locks, "This browser is too old: two tabs could answer at once.");
  return locks.request("veilgraph", async () => {
    // Local storage that another tab wrote under the lock arrives after milliseconds.
    await new Promise((done) => setTimeout(done, settle));
    const { limit: own, ...spent } = ledger(storage);
    const limit = Math.min(maxEpsilon ?? own ?? need(false, "Set your limit first."), own ?? Infinity);
    const seen = seenNow(question, now);
    see(question, seen, storage);
    return work({ ...spent, seen, limit });
  });
}

const checkLimit = (epsilon, spent, limit) =>
  need(
    within(add(spent, epsilon), limit),
    `A report costs epsilon ${shown(epsilon)}. ` +
      `With ${shown(spent)} for earlier reports this is above your limit of ${limit}: ` +
      "do not answer, or set a higher one.",
  );

const placeOf = (id, node, isShared) => `veilgraph:${id}${isShared ? `:${node}` : ""}`;

/**
 * Return everything that this device has answered, what it has spent together, and the person's limit or
 * null.
 *
 * Beside these, the same for one entry of a neighbour list: two lists, one with a neighbour more.
 */
export function ledger(storage) {
  need(!isLimitLost(storage), "Your limit cannot be read.");
  const entries = answered(storage);
  const limitOf = (place) => (storage.getItem(place) === null ? null : Number(storage.getItem(place)));
  const entrySpent = add(...entries.map(({ neighbours }) => neighbours?.one_entry ?? 0));
  return {
    entries,
    spent: total(entries),
    limit: limitOf(LIMIT),
    entrySpent,
    entryLimit: limitOf(ENTRY_LIMIT),
  };
}

/** Tell whether there is a limit that cannot be read: nothing is answered until the person sets one again. */
export const isLimitLost = (storage) =>
  [LIMIT, ENTRY_LIMIT].some((place) => !(Number(storage.getItem(place) ?? 1) > 0));

/** Keep the most that the person accepts for all reports together: user level, any two records. */
export const setLimit = (storage, limit) => keepLimit(storage, LIMIT, limit);

/** Keep the most that the person accepts for one entry of a neighbour list, over all waves ever answered. */
export const setEntryLimit = (storage, limit) => keepLimit(storage, ENTRY_LIMIT, limit);

function keepLimit(storage, place, limit) {
  need(limit > 0 && Number.isFinite(limit), "Your limit must be above 0.");
  storage.setItem(place, `${limit}`);
}

const seenNow = ({ notice: { version, sha256, purpose, retention } }, now = new Date()) => ({
  version,
  sha256,
  purpose,
  retention,
  seen: now.toISOString().slice(0, 10),
});

/** Return the date by which reports were to be deleted, if the notice now promises less; otherwise null. */
export function brokenRetention({ id, notice: { retention } }, storage) {
  const [agreed] = seenBefore(id, storage)
    .map((one) => one.retention)
    .filter(Boolean)
    .sort();
  return agreed && (retention === null || retention > agreed) ? agreed : null;
}

const seenBefore = (id, storage) =>
  answered(storage)
    .filter(({ campaign }) => campaign === id)
    .flatMap(({ notices }) => notices);

/** Refuse a notice that is older than one that the device has seen; remember a new one beside the report. */
function see({ id }, seen, storage) {
  const before = seenBefore(id, storage);
  need(
    before.every(({ version }) => version <= seen.version),
    "This device has seen a later notice of the campaign.",
  );
  need(
    before.every(({ version, sha256 }) => version < seen.version || sha256 === seen.sha256),
    "This device has seen another notice of this version.",
  );
  for (const { campaign, notices, place } of answered(storage)) {
    const isNew = notices.every(({ sha256 }) => sha256 !== seen.sha256);
    if (campaign === id && isNew)
      storage.setItem(place, canonical({ ...parse(storage.getItem(place)), notices: [...notices, seen] }));
  }
}

const checkNode = (node) =>
  need(/^(?!\.\.?$)[^\0-\x1f\x7f\ud800-\udfff]{1,256}$/u.test(node), "A node has 1 to 256 characters.");

function drawReport(question, node, record) {
  const [features, label] = randomize(question, ...encode(question, record));
  return { campaign: question.id, node, features, label };
}

/** Return this device's reports for a verified campaign, by node; of a series, those of the open round. */
export function stored(question, storage) {
  const kept = drawn(question, storage);
  const { rounds, notice } = question;
  if (!rounds) return kept;
  const memories = [...kept]
    .filter(([node]) => storage.getItem(withdrawnKey(question, node)) === null)
    .map(([node, report]) => [node, report, remembered(question, node, storage)]);
  const answered = memories.filter(([, , memory]) => roundsOf(memory).includes(notice.round));
  return new Map(answered.map(([node, report, memory]) => [node, saidInRound(question, report, memory)]));
}

/** Return the report of the open round, as the device remembers it. */
function saidInRound({ features, notice: { round } }, report, memory) {
  const codes = features && features.sizes.map((_, i) => memory.features[i]?.reports[round] ?? null);
  return { ...report, features: codes, label: memory.reports[round] ?? null, round };
}

/** Return the reports that were counted, by node; of a series, the first one. */
function drawn(question, storage) {
  if (question.asked) return answersTo(question, storage);
  const { id, features, label, rounds } = question;
  return new Map(
    answered(storage)
      .filter(({ campaign }) => campaign === id)
      .map(({ node, report }) => {
        need(
          fits(report.features, features, featuresFit) &&
            fits(report.label, label?.table, labelFits) &&
            Boolean(rounds) === Object.hasOwn(report, "round"),
          DAMAGED,
        );
        return [node, report];
      }),
  );
}

/** Return the report of the open round. It is drawn once, and what the device remembers is stored before. */
function reportOfRound(question, report, storage, record, isFirst) {
  const { node } = report;
  const { round } = question.notice;
  const before = remembered(question, node, storage, isFirst);
  if (!roundsOf(before).includes(round))
    storage.setItem(
      memoryOf(question, node),
      canonical(randomizeRound(question, before, ...encode(question, record))),
    );
  return saidInRound(question, report, remembered(question, node, storage));
}

/** Tell whether this device remembers these rounds of a person's series, or has counted that it does not. */
export function knowsRounds(question, node, rounds, storage) {
  const { lost } = answered(storage).find((one) => one.campaign === question.id && one.node === node);
  const known = [...roundsOf(remembered(question, node, storage)), ...lost];
  return rounds.every((round) => known.includes(round));
}

/** Where a device remembers a series of a person; private, because permanent answers are kept by value. */
const memoryOf = ({ id }, node) => `veilgraph-memory:${id}:${node}`;

/** Where a device keeps that a person has withdrawn: from all rounds together, and for ever. */
export const withdrawnKey = ({ id, series }, node) => `veilgraph:withdrawn:${series ?? id}:${node}`;

/** Forget the true answers of a person who has withdrawn; what was drawn first stays, and its cost counts. */
export const forget = (question, node, storage) => storage.removeItem(memoryOf(question, node));

/** Return what this device remembers of a person's series, to keep elsewhere: it holds the true answers. */
export function memoryText(question, node, storage) {
  const { place } = answered(storage).find((one) => one.campaign === question.id && one.node === node) ?? {};
  const memory = remembered(question, node, storage);
  return canonical({ counted: parse(storage.getItem(place)), memory });
}

/** Take up such a text where nothing of the person's series is remembered. */
export function loadMemory(question, text, { node, storage, locks = navigator.locks }) {
  return locks.request("veilgraph", async () => {
    const { counted = null, memory = null } = parse(text) ?? {};
    const kept = drawn(question, storage);
    // The memory first: it must be there once it counts.
    const entries = [
      [memoryOf(question, node), memory],
      [placeOf(question.id, node, kept.size), counted],
    ].map(([place, said]) => [place, canonical(said)]);
    need(counted?.node === node && !kept.has(node) && isRemembered(question, node, entries), NOT_THIS_MEMORY);
    for (const [place, said] of entries) storage.setItem(place, said);
  });
}

/** Tell whether entries of a storage are what a device remembers of a person's series, and counted. */
function isRemembered(question, node, entries) {
  const getItem = (wanted) => new Map(entries).get(wanted) ?? null;
  const storage = { length: entries.length, key: (i) => entries[i][0], getItem };
  try {
    return (
      drawn(question, storage).has(node) &&
      Boolean(remembered(question, node, storage)) &&
      within(question.epsilon, total(answered(storage)))
    );
  } catch {
    return false;
  }
}

/** Read what a device remembers; once a round was answered it must be there. */
function remembered({ id, features, label, rounds }, node, storage, isFirst) {
  const text = storage.getItem(memoryOf({ id }, node));
  if (text === null && isFirst) return UNANSWERED;
  const memory = parse(text ?? "") ?? {};
  const { features: kept = {}, ...said } = memory;
  const chosen = Object.entries(kept);
  const answered = Object.keys(said.reports ?? {}).length;
  const isWhole = (each) => Object.keys(each).sort().join() === "answers,current,reports";
  need(
    isWhole(said) &&
      (!answered || (label && remembers(said, label.table.domainSize, 0, rounds))) &&
      chosen.length === (features?.sampled ?? 0) &&
      chosen.every(
        ([i, each]) =>
          isCode(Number(i), features.sizes.length) &&
          isWhole(each) &&
          remembers(each, features.sizes[i], 1, rounds),
      ) &&
      roundsOf(memory).length &&
      chosen.every(([, each]) => Object.keys(each.reports).length === roundsOf(memory).length),
    DAMAGED,
  );
  return memory;
}

/**
 * Tell whether this is what a device remembers of a question with k answers; the code k stands for one left
 * out.
 */
function remembers({ answers, current, reports }, domainSize, isFeature, { count, values }) {
  const known = Object.keys(Object(answers)).map(Number);
  const codes = [...Object.values(Object(answers)), ...Object.values(Object(reports))];
  return (
    [...known, current].every((code) => isCode(code, domainSize + isFeature)) &&
    codes.every((code) => isCode(code, domainSize)) &&
    known.length <= values &&
    Object.hasOwn(Object(answers), current) &&
    Object.keys(Object(reports)).every((round) => isCode(round - 1, count))
  );
}

const fits = (reported, asked, compare) => reported === null || Boolean(asked && compare(reported, asked));

function featuresFit(codes, { sizes, sampled, joint, series }) {
  if (!Array.isArray(codes)) return false;
  const isAsked = (code, i) => isCode(code, sizes[i]);
  const asked = codes.filter(isAsked).length;
  return (
    codes.length === sizes.length &&
    asked === (joint || series ? sampled : sizes.length) &&
    codes.every((code, i) => isAsked(code, i) || code === null)
  );
}

/** Tell whether this is the text of a bit for each person. It has one way to be written: spare bits are 0. */
function isListOf(said, people) {
  const bytes = Math.ceil(people / 8);
  if (typeof said !== "string" || said.length !== Math.ceil((bytes * 4) / 3) || !/^[\w-]+$/.test(said))
    return false;
  const text = said.replaceAll("-", "+").replaceAll("_", "/");
  const bits = atob(text);
  return btoa(bits).startsWith(text) && bits.charCodeAt(bytes - 1) < 2 ** (people - 8 * (bytes - 1));
}

const isNotice = ({ version, sha256, purpose, retention, seen, ...more }) =>
  Number.isSafeInteger(version) &&
  !Object.keys(more).length &&
  [sha256, purpose, seen, retention ?? ""].every((text) => typeof text === "string");

const COST = /^\d+(\.\d+)?(e-\d+)?$/;

/** Tell whether this says of which wave an answer about neighbours is, and what it costs. */
const isPlaceInSeries = ({ series, wave, people, turns = 2, any_lists, one_entry, ...more }) =>
  [series, people].every((hash) => /^[0-9a-f]{64}$/.test(hash)) &&
  isCode(wave - 1, Infinity) &&
  isCode(turns - 2, Infinity) &&
  (any_lists === "Infinity" || COST.test(any_lists)) &&
  COST.test(one_entry) &&
  !Object.keys(more).length;

/** List all reports of this device, with their epsilons and the notices that the person saw. */
export function answered(storage) {
  const places = Array.from({ length: storage.length }, (_, i) => storage.key(i));
  return places
    .filter((place) => /^veilgraph:[0-9a-f]{64}(:|$)/.test(place))
    .map((place) => {
      const {
        epsilon,
        notices,
        neighbours,
        graph,
        lost = [],
        ...report
      } = parse(storage.getItem(place)) ?? {};
      const { campaign, node, features, label, answer } = report;
      const isText = typeof answer === "string";
      const codes = [features ?? [], label ?? [], isText ? [] : (answer ?? [])].flat();
      const isWhole = Number.isSafeInteger;
      need(
        /^(answer,campaign,node|campaign,features,label,node(,round)?)$/.test(
          Object.keys(report).sort().join(),
        ) &&
          place.slice(10, 74) === campaign &&
          typeof node === "string" &&
          (codes.length || answer) &&
          codes.every((code) => isWhole(code) || code === null),
        DAMAGED,
      );
      need(
        Array.isArray(notices) && notices.length && notices.every((one) => isNotice(Object(one))),
        DAMAGED,
      );
      need(Array.isArray(lost) && lost.every(isWhole), DAMAGED);
      need(
        answer || neighbours
          ? (isText || Array.isArray(answer)) && codes.every(isWhole) && isPlaceInSeries(Object(neighbours))
          : true,
        DAMAGED,
      );
      need(COST.test(epsilon) && Object(graph) === graph, DAMAGED);
      return { campaign, node, report, notices, neighbours, graph, lost, place, epsilon: Number(epsilon) };
    });
}

/** Tell whether an answer does not protect the whole list that it is about. */
export const leavesListOpen = ({ neighbours }) => neighbours?.any_lists === "Infinity";

/**
 * Return the sum of the epsilons of reports, rounded up: user level, any two records, and any two lists where
 * an answer protects these.
 */
export const total = (reports) => add(...reports.map(({ epsilon }) => epsilon));
