// Turns a private record into one randomized report, after verifying the campaign. Every decision compares a
// word, uniform below 2 ** 53, with integers; client/words.py defines the order of the words.

import { add, epsilonOf, lifted, shown, slack, within } from "./epsilons.js";
import { seriesCosts } from "./series.js";

const WORDS = 2 ** 53;
const NO_CAMPAIGN = "This is not a campaign.";
const LONGEST = 2 ** 26;
const DEEPEST = 16; // of JSON: characters, and levels of lists and objects
const NUMBER = /^(?=.{1,40}$)-?(Infinity|\d+(\.\d+)?(e[+-]\d+)?)$/;
const JOINERS = "[\\u200c\\u200d\\ufe0e\\ufe0f]"; // fine between characters that are not ASCII
const MISLEADING = new RegExp(
  String.raw`[\p{Cc}\p{Cs}\u2028\u2029\ufff9-\uffff\u{13430}-\u{1343f}\u{1d159}]|(?!${JOINERS})\p{DI}` +
    String.raw`|(^|[\0-\x7f])${JOINERS}|[\u200c\u200d]([\0-\x7f]|$)`,
  "u",
);
const ENTERED = /^(?=.{1,400}$) *[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)? *$/i;

/** Holds no private value. */
export class VeilgraphError extends Error {}

export function need(condition, message = NO_CAMPAIGN) {
  if (!condition) throw new VeilgraphError(message);
}

/** Replace others' errors: they may quote a value. */
function guarded(message, work) {
  try {
    return work();
  } catch (error) {
    need(error instanceof VeilgraphError, message);
    throw error;
  }
}

/**
 * Return the codes [features, label] of a raw record; null is left out, and so are columns that are merged
 * with it.
 */
export function encode({ features, label, columns, group }, record) {
  return guarded("The record cannot be used.", () => {
    const merged =
      features &&
      features.sizes.map((_, i) => {
        const codes = columns.slice(i * group, (i + 1) * group).map((each) => code(each, record));
        return codes.includes(null) ? null : Math.max(...codes);
      });
    const answered = label && code(label, record);
    need(merged || answered !== null, "The record is empty.");
    return [merged, answered];
  });
}

function code({ name, values, edges, whole: isWhole }, record) {
  need(Object.hasOwn(record, name), `The record has no '${name}'.`);
  const value = record[name];
  if (value === null) return value;
  if (edges) {
    const entered = isText(value) && ENTERED.test(value) ? Number(value) : value;
    const last = edges.length - 1;
    need(
      Number.isFinite(entered) && entered >= edges[0] && entered <= edges[last],
      `'${name}' must be a number from ${edges[0]} to ${edges[last]}.`,
    );
    need(!isWhole || Number.isInteger(entered), `'${name}' must be a whole number.`);
    return Math.min(edges.filter((edge) => edge <= entered).length, last) - 1;
  }
  const index = isObject(value) ? -1 : values.indexOf(typeof value === "boolean" ? `${+value}` : `${value}`);
  need(index >= 0 && value !== undefined, `'${name}' is not a declared value.`);
  return index;
}

/** Randomize codes; other sources of words are for tests. */
export const randomize = (question, features, label, word = systemWord) => [
  features && draw(question.features, features, word),
  label === null ? null : respond(label, question.label.table, word),
];

/**
 * Return what a device remembers of a series, with the report of the open round; an answered round is never
 * drawn again. A value beyond those that the series answers counts as no change: refusing it would reveal the
 * change.
 */
export function randomizeRound(
  { features, label, rounds, notice: { round } },
  memory,
  codes,
  value,
  word = systemWord,
) {
  need(round, "No round is open.");
  const before = roundsOf(memory);
  const { features: chosen } = memory;
  if (before.includes(round)) return memory;
  need(
    before.every((each) => each < round),
    "This round is over.",
  );
  const step = ({ answers, current, reports }, given, first, again) => {
    const hasRoom = Object.keys(answers).length < Math.min(rounds.values, first.domainSize);
    const code = hasRoom || Object.hasOwn(answers, given) ? given : current;
    // What is left out has the code k, and pure chance as its permanent answer.
    const kept = {
      ...answers,
      [code]: answers[code] ?? (code === first.domainSize ? below(code, word) : respond(code, first, word)),
    };
    return {
      answers: kept,
      current: code,
      reports: { ...reports, [round]: respond(kept[code], again, word) },
    };
  };
  let kept = chosen ?? {};
  if (codes) {
    const taken = chooser(features.sampled, codes.length, word);
    if (!chosen)
      codes.forEach((_, i) => {
        if (taken()) kept[i] = UNANSWERED;
      });
    kept = Object.fromEntries(
      Object.entries(kept).map(([i, each]) => [
        i,
        step(each, codes[i] ?? features.sizes[i], features.tables[i], features.series[i]),
      ]),
    );
  }
  return {
    ...(value === null ? memory : step(memory, value, label.table, rounds.table)),
    ...(codes && { features: kept }),
  };
}

export const UNANSWERED = { answers: {}, current: null, reports: {} };

export const roundsOf = ({ reports, features = {} }) =>
  [...new Set([reports, ...Object.values(features).map((each) => each.reports)].flatMap(Object.keys))].map(
    Number,
  );

function draw({ sizes, sampled, joint, tables }, given, word) {
  // Pure chance where an answer is left out.
  const values = given.map((code, i) => code ?? below(sizes[i], word));
  const taken = chooser(sampled, sizes.length, word);
  if (!joint)
    return sizes.map((domainSize, i) =>
      taken() ? respond(values[i], tables[i], word) : below(domainSize, word),
    );
  let size = 1;
  let value = 0;
  const asked = sizes.map(taken);
  const each = (step) => sizes.map((domainSize, i) => (asked[i] ? step(domainSize, values[i]) : null));
  each((domainSize, code) => ((value += code * size), (size *= domainSize)));
  value = respond(value, tables[size], word);
  return each(
    (domainSize, code) => ((code = value % domainSize), (value = (value - code) / domainSize), code),
  );
}

function systemWord() {
  const [high, low] = crypto.getRandomValues(new Uint32Array(2));
  return (high >>> 11) * 2 ** 32 + low;
}

function below(bound, word) {
  let drawn;
  do drawn = word();
  while (drawn >= WORDS - (WORDS % bound));
  return drawn % bound;
}

/** Choose m of n things, one at each call. */
const chooser = (wanted, left, word) => () => {
  const taken = below(left--, word) < wanted;
  wanted -= taken;
  return taken;
};

function respond(value, { domainSize, setSize, yes, no }, word) {
  const surplus = word() - yes;
  const held = surplus < 0;
  // Exact without the remainder.
  if (!setSize) return held ? value : (value + 1 + (surplus - (surplus % no)) / no) % domainSize;
  const taken = chooser(setSize - held, domainSize - 1, word);
  return [...Array(domainSize).keys()].filter((code) => (code === value ? held : taken()));
}

/** Tell whether this is a report of a table: a code, or the w codes of a set in ascending order. */
const labelFits = (said, { domainSize, setSize }) =>
  setSize
    ? said.length === setSize && said.every((code, i) => isCode(code, domainSize) && !(said[i - 1] >= code))
    : isCode(said, domainSize);

/** No report of a table is longer. */
const longestLabel = ({ domainSize, setSize }) =>
  setSize ? [...Array(domainSize).keys()].slice(-setSize) : domainSize - 1;

/** Refuse a campaign that is altered, closed, too revealing, or untrue. */
export async function verify(text, { maxEpsilon, now = new Date() }) {
  need(maxEpsilon > 0, "Your limit must be above 0.");
  const [content, notice, hash] = await parts(parse(text) ?? {});
  const question = guarded(NO_CAMPAIGN, () => read(content, notice));
  need(now < question.closes, "The campaign is closed.");
  need(
    within(question.epsilon, maxEpsilon),
    `A report costs epsilon ${shown(question.epsilon)}, above your limit of ${maxEpsilon}.`,
  );
  return { ...question, notice: { ...notice, sha256: hash } };
}

/** Return what reports are bound to, which the id names, and the notice, which may change, with its hash. */
async function parts({ id, ...document }) {
  const { bound, notice, format } = keys(document, "bound format notice");
  const more = isObject(bound) && Object.hasOwn(bound, "neighbours") ? "neighbours " : "";
  need(
    format === 3 &&
      keys(bound, `features format graph guarantee label ${more}nonce rounds schema`).format === 3,
  );
  need(isText(bound.nonce) && /^[0-9a-f]{32}$/.test(bound.nonce));
  need(id === (await sha256(canonical(bound))), "The campaign was altered.");
  return [{ ...bound, id }, noticeKeys(notice), await sha256(canonical(notice))];
}

function read(
  { id, rounds, graph, schema, features: asked, label: answered, guarantee, neighbours },
  notice,
) {
  const { nodes, sha256 } = keys(graph, "nodes sha256");
  const { group, label } = keys(schema, "columns group label");
  need(whole(nodes) && /^[0-9a-f]{64}$/.test(sha256));
  const columns = list(schema.columns).map(readColumn);
  const sizes = columns.map(({ values, edges }) => (edges ? edges.length - 1 : values.length));
  need(whole(group) && (group === 1 || (sizes[0] && sizes.every((domainSize) => domainSize === 2))));
  const { name, classes } = keys(label, "classes name");
  distinct([name, ...columns.map((each) => each.name)], isName, 1);
  distinct(classes, isName);
  need(asked || answered);
  const follows = neighbours ?? null; // about neighbours, after a label that is asked once
  need(
    neighbours === undefined ||
      (["waves", "lists"].includes(neighbours) && !asked && !rounds && !columns.length),
  );
  part(asked, "epsilon mechanism sampled tables", ...(rounds ? ["grr"] : ["grr_fs", "joint_grr"]));
  const once =
    asked &&
    readFeatures(
      asked,
      sizes.filter((_, i) => i % group === 0),
    );
  const table = answered && readLabel(answered, classes.length);
  const closes = readNotice(notice, [...columns, { name, values: classes }]);
  const [series, features] = rounds ? readRounds(rounds, once, table) : [null, once];
  need(notice.round === null || (whole(notice.round) && notice.round <= series?.count));
  const question = {
    id,
    graph,
    closes,
    columns,
    group,
    features,
    label: answered && { name, values: classes, table },
    rounds: series,
    follows,
  };
  const parts = {
    features: features?.epsilon ?? 0,
    label: series?.labelEpsilon ?? (table ? cost(table) : 0),
  };
  return { ...question, parts, epsilon: check(guarantee, parts, features?.levels ?? []) };
}

/** A series is by GRR; its epsilons follow from the permanent tables and those of the rounds. */
function readRounds(stated, asked, label) {
  const { count, values, epsilon, table, guarantee, features } = keys(
    stated,
    `count epsilon ${asked ? "features " : ""}guarantee table values`,
  );
  need(
    whole(count) &&
      count <= 36 &&
      whole(values) &&
      (label
        ? !label.setSize && values <= label.domainSize && number(epsilon) > 0
        : epsilon === null && table === null),
  );
  const again = label && readTable(table, label.domainSize);
  const series = asked && readSeries(features, asked);
  const { own, each, ofFeatures, costs } = costsOf(label, again, series, count, values);
  agree(Object.values(keys(guarantee, "any_histories same_pattern unchanged")), Object.values(costs));
  const levels = each.map((one) => one.any_histories);
  return [
    { count, values, table: again, costs, labelEpsilon: own?.any_histories ?? 0 },
    series && { ...series, costs: ofFeatures, epsilon: ofFeatures.any_histories, levels },
  ];
}

function readSeries(stated, { sizes, sampled, tables }) {
  const { epsilon, tables: rounds } = keys(stated, "epsilon tables");
  need(number(epsilon) > 0 && list(rounds).length === sizes.length);
  const series = sizes.map((domainSize, i) => readTable(rounds[i], domainSize));
  const kinds = tables.map((first, i) => canonical([first.domainSize, first.yes, series[i].yes]));
  need(new Set(kinds).size <= 16); // each takes a moment
  return { sizes, sampled, tables, series };
}

/**
 * Return the epsilons of so many rounds by relation, of label and features: the sampled features that cost
 * most bound what all of them cost.
 */
function costsOf(label, table, features, count, values) {
  const own = label && seriesCosts(label, table, count, values);
  const each = (features?.tables ?? []).map((first, i) =>
    seriesCosts(first, features.series[i], count, Math.min(values, first.domainSize), true),
  );
  const ofFeatures = features && totals(each, features.sampled);
  return { own, each, ofFeatures, costs: totals([own, ofFeatures].filter(Boolean)) };
}

/**
 * Return the epsilon of a campaign, for any two histories, where a device does not remember some answered
 * rounds.
 *
 * Nobody knows how often permanent answers were drawn for these, so the dearest division among memories
 * counts, and all rounds again.
 */
export function costWithLost({ label, features, rounds, epsilon }, lost) {
  const cost = (count) =>
    costsOf(label?.table, rounds.table, features, count, rounds.values).costs.any_histories;
  const most = [0];
  while (most.length <= Math.min(lost, rounds?.count ?? 0))
    most.push(Math.max(...most.map((before, i) => add(before, cost(most.length - i)))));
  return add(epsilon, most.at(-1));
}

/** Sum the costs that are largest under each relation. */
const totals = (parts, most) =>
  Object.fromEntries(
    Object.keys(parts[0]).map((name) => [
      name,
      add(
        ...parts
          .map((one) => one[name])
          .sort((first, second) => second - first)
          .slice(0, most),
      ),
    ]),
  );

const TEXTS = [
  "purpose",
  "contact",
  "note",
  "controller",
  "data_protection_officer",
  "legal_basis",
  "recipients",
  "rights",
  "supervisory_authority",
];

const PUBLIC_KINDS = [null, "number", "category", "date", "embedding", "link"];

function readNotice(notice, questions) {
  const { version, purpose, contact, note, closes, retention, texts, language, public: known } = notice;
  need(whole(version) && isName(purpose) && isName(contact) && isClear(note));
  need(date(closes) && (retention === null || date(retention) >= date(closes)));
  if (known) {
    need(entries(known).length && entries(known).every(([, kind]) => PUBLIC_KINDS.includes(kind)));
    distinct([...questions.map(({ name }) => name), ...Object.keys(known)], isName, 0);
  }
  need(entries(texts).length ? isText(language) && Object.hasOwn(texts, language) : language === null);
  for (const [tag, said] of entries(texts)) {
    need(/^[a-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}$/.test(tag));
    for (const [name, shown] of translated(said, TEXTS, "questions")) {
      const { values = [] } = questions.find((one) => one.name === name) ?? need(false);
      const labels = new Map(translated(shown, ["help", "text"], "answers"));
      need([...labels].every(([value, label]) => values.includes(value) && isName(label)));
      distinct(
        values.map((value) => labels.get(value) ?? value),
        isText,
        0,
      );
    }
  }
  return date(closes);
}

/** Check optional texts, and return the entries of the one that holds more. */
function translated(said, names, more) {
  const { [more]: inside = {}, ...texts } = Object.fromEntries(entries(said));
  need(Object.entries(texts).every(([name, text]) => names.includes(name) && isName(text)));
  return entries(inside);
}

const part = (stated, names, ...known) =>
  need(stated === null || (known.includes(keys(stated, names).mechanism) && number(stated.epsilon) > 0));

function readColumn(column) {
  if (!column.edges) return distinct(keys(column, "name values").values, isClear) && column;
  const isWhole = column.whole === true;
  const edges = keys(column, isWhole ? "edges name whole" : "edges name").edges.map(number);
  need(edges.length > 2 && edges.every((edge, i) => !i || edges[i - 1] < edge));
  need(!isWhole || edges.every((edge) => Math.abs(edge) === Infinity || Number.isInteger(edge)));
  return { name: column.name, edges, whole: isWhole };
}

function readFeatures({ mechanism, sampled, tables: stated }, sizes) {
  const count = sizes.length;
  const joint = mechanism === "joint_grr";
  need(whole(sampled) && sampled <= count && count <= 2 ** 14 && sampled * (count - sampled) <= 1e6);
  const domains = joint ? products(sizes, sampled) : sizes;
  need(list(stated).length === domains.length);
  const read = domains.map((domainSize, i) => readTable(stated[i], domainSize));
  const costs = read.map(cost).sort((first, second) => second - first);
  const epsilon = add(...costs.slice(0, joint ? 1 : sampled));
  if (!joint)
    return {
      sizes,
      sampled,
      tables: read,
      epsilon,
      levels: mechanism === "grr" ? [] : levelsOf(read, sampled),
    };
  const tables = {};
  const found = {};
  const others = (i) =>
    products(
      sizes.filter((_, other) => other !== i),
      sampled - 1,
    );
  domains.forEach((domainSize, i) => (tables[domainSize] = read[i]));
  const levels = sizes.map(
    (domainSize, i) =>
      (found[domainSize] ??= Math.max(...others(i).map((rest) => cost(tables[rest * domainSize])))),
  );
  return { sizes, sampled, joint, tables, epsilon, levels };
}

/** Products of m of the sizes, ascending. */
function products(sizes, factors) {
  const found = [new Set([1])];
  const few = [...sizes].sort().filter((size, i, all) => size !== all[i - factors]);
  for (const size of few)
    for (let degree = factors; degree; degree--)
      found[degree - 1]?.forEach((each) =>
        (found[degree] ??= new Set()).add(must(each * size, each * size <= 2 ** 16)),
      );
  return [...found[factors]].sort((first, second) => first - second);
}

/** Read a document's part about a label that is asked once. */
function readLabel(stated, classCount) {
  const { size } = stated;
  part(stated, `epsilon mechanism ${size ? "size " : ""}table`, size ? "subset_selection" : "grr");
  return readTable(stated.table, classCount, size);
}

/** `yes` words name the truth, `no` words another value; `setSize` is that of a set. */
function readTable(table, domainSize, setSize) {
  keys(table, `domain_size ${setSize ? "inside outside size" : "other true"}`);
  const yes = table[setSize ? "inside" : "true"];
  const no = table[setSize ? "outside" : "other"];
  const read = { domainSize, setSize, yes, no };
  // A sum beyond 2 ** 53 could be rounded to it.
  need(
    Object.values(table).every(whole) &&
      table.domain_size === domainSize &&
      table.size === setSize &&
      !(setSize >= domainSize) &&
      WORDS - no * (setSize ? 1 : domainSize - 1) === yes &&
      isLarger(oddsOf(read)),
  );
  return read;
}

const oddsOf = ({ domainSize, setSize, yes, no }) => [
  BigInt(setSize ? domainSize - setSize : 1) * BigInt(yes),
  BigInt(setSize ?? 1) * BigInt(no),
];
const isLarger = ([first, second]) => first > second;
const known = new Map(); // tables repeat

function cost(table) {
  const odds = oddsOf(table);
  const key = odds.join();
  if (!known.has(key)) known.set(key, epsilonOf(...odds));
  return known.get(key);
}

function check(stated, { features, label }, found) {
  const { user_level: user, attribute_level: levels } = keys(stated, "attribute_level user_level");
  const total = add(features, label);
  keys(user, "features label total");
  agree([user.features, user.label, user.total, ...list(levels)], [features, label, total, ...found]);
  return total;
}

const agree = (texts, exact) =>
  need(
    texts.length === exact.length &&
      exact.every((epsilon, i) => Math.abs(number(texts[i]) - epsilon) <= slack(epsilon)),
    "The tables do not give the stated guarantee.",
  );

/** ln of the likelihood ratio if one feature alone matches, from elementary symmetric polynomials. */
function levelsOf(tables, sampled) {
  const count = tables.length;
  const misses = tables.map(({ domainSize, no }) => domainSize * no);
  const scale = sampled / (count - sampled + 1) / Math.max(...misses);
  const scaled = misses.map((miss) => miss * scale);
  /** Of the first features, each row scaled. */
  const rows = (factors) => {
    const made = [{ 0: 1 }];
    factors.forEach((factor, i) => {
      const row = made[i];
      const next = (made[++i] = {});
      for (let degree = Math.max(0, sampled - count + i); degree <= i && degree <= sampled; degree++)
        next[degree] = (row[degree] ?? 0) + factor * (row[degree - 1] ?? 0);
      const top = Math.max(...Object.values(next));
      for (const degree in next) next[degree] /= top;
    });
    return made;
  };
  const before = rows(scaled);
  const after = rows([...scaled].reverse()).reverse();
  return tables.map(({ domainSize, yes, no }, i) => {
    const sum = (degree) =>
      Object.keys(before[i]).reduce(
        (all, taken) => all + before[i][taken] * (after[i + 1][degree - taken] ?? 0),
        0,
      );
    const taking = sum(sampled - 1);
    need(taking > 1e-250); // underflow
    return lifted(
      Math.log1p((domainSize * (yes - no) * scale * taking) / (sum(sampled) + scaled[i] * taking)),
    );
  });
}

/** Canonical JSON: sorted, no spaces, ASCII. */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical)}]`;
  if (isObject(value))
    return `{${Object.keys(value)
      .sort(byCodePoint)
      .map((name) => `${canonical(name)}:${canonical(value[name])}`)}}`;
  return JSON.stringify(value).replace(
    /[\x7f-\uffff]/g,
    (character) => `\\u${hex(character.charCodeAt(), 4)}`,
  );
}

/**
 * Write a report as it is sent: spaces give all reports of a campaign one length, whatever they say. The id
 * counts as a multiple of 256 bytes.
 */
export const padded = (question, report) =>
  canonical(report).padEnd(
    canonical(longest(question)).length + Math.ceil((canonical(report.node).length - 2) / 256) * 256,
  );

/** No report of the campaign is longer, about a node without a name. */
function longest({ id: campaign, features, label, rounds, asked }) {
  const longer = (...each) =>
    each.sort((first, second) => canonical(second).length - canonical(first).length)[0];
  const said = { campaign, node: "" };
  if (asked)
    return {
      ...said,
      answer: asked.sets
        ? longestLabel(asked.sets)
        : asked.list
          ? "A".repeat(Math.ceil((Math.ceil(asked.people / 8) * 4) / 3))
          : Array(asked.classCount).fill(-asked.largest),
    };
  const codes =
    features?.sizes.map((domainSize) =>
      features.joint || features.series ? longer(domainSize - 1, null) : domainSize - 1,
    ) ?? null;
  return {
    ...said,
    features: codes,
    label: label ? longer(longestLabel(label.table), null) : null,
    ...(rounds && { round: rounds.count }),
  };
}

/** Order as Python does: surrogates stand for the largest code points. */
const byCodePoint = (...names) => {
  const [first, second] = names.map((name) => name.replace(/[\ud800-\udfff]/g, "\uffff$&"));
  return first < second ? -1 : 1;
};

export async function sha256(text) {
  need(globalThis.crypto?.subtle, "Open this page over https.");
  const digest = await crypto.subtle.digest("SHA-256", isText(text) ? new TextEncoder().encode(text) : text);
  return [...new Uint8Array(digest)].map((byte) => hex(byte, 2)).join("");
}

/**
 * Parse canonical JSON; any other text is undefined, since two readers could understand it differently. So is
 * one that is too long or too deep.
 */
export function parse(text) {
  try {
    const value = text.length <= LONGEST ? JSON.parse(text) : undefined;
    return isWithin(value, DEEPEST) && canonical(value) === text.replace(/\n$/, "") ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Tell whether a value has at most so many levels of lists and objects. */
const isWithin = (value, levels) =>
  !isObject(value) || (levels > 0 && Object.values(value).every((each) => isWithin(each, levels - 1)));

const hex = (value, digits) => value.toString(16).padStart(digits, "0");
const isObject = (value) => Object(value) === value;
const isText = (value) => typeof value === "string";
const isCode = (code, bound) => Number.isSafeInteger(code) && code >= 0 && code < bound;
const whole = (value) => Number.isSafeInteger(value) && value > 0;
const must = (value, condition) => need(condition) ?? value;
const keys = (value, names) => must(value, isObject(value) && Object.keys(value).sort().join(" ") === names);
/** What a notice has; columns that are known without asking only where there are some. */
const noticeKeys = (notice) =>
  keys(
    notice,
    `closes contact language note ${notice?.public ? "public " : ""}purpose retention round texts version`,
  );
const entries = (value) => Object.entries(must(value, isObject(value) && !Array.isArray(value)));
const date = (text) =>
  new Date(must(text, /^[1-9]/.test(text) && new Date(text).toISOString() === text.replace("Z", ".000Z")));
const list = (value, least = 0) => must(value, Array.isArray(value) && value.length >= least);
const isClear = (text) => isText(text) && /^.{0,4000}$/u.test(text) && !MISLEADING.test(text);
const isName = (text) => isClear(text) && text !== "";
const distinct = (texts, are, least = 2) =>
  must(texts, list(texts, least).every(are) && new Set(texts.map(look)).size === texts.length);
/** Texts with the same normal form look alike. */
const look = (text) =>
  text
    .replace(/[\u200c\u200d\ufe0e\ufe0f]/g, "")
    .normalize("NFKC")
    .replaceAll("\u0131\u0307", "i")
    .replace(/([ij])\u0307/g, "$1")
    .replace(/[ \u1680\u2800]+/g, " ")
    .replace(/^ | $/g, "");
const number = (text) => Number(must(text, isText(text) && NUMBER.test(text)));
/** For the module beside this one. */
export const internals = {
  WORDS,
  agree,
  below,
  cost,
  distinct,
  guarded,
  isCode,
  isName,
  keys,
  labelFits,
  list,
  look,
  noticeKeys,
  number,
  part,
  readLabel,
  readNotice,
  readTable,
  respond,
  systemWord,
  whole,
};
