// Answers a wave about a list of neighbours, which never leaves the device. The device looks them up in what
// is published for all. It adds their beliefs up and randomizes the sums, or it randomizes for everybody
// whether they are in the list. Whole numbers alone decide an answer.

import { add, epsilonOf, shown, within } from "./epsilons.js";
import { canonical, internals, need, parse, sha256 } from "./veilgraph.js";

const {
  WORDS,
  agree,
  below,
  cost,
  distinct,
  guarded,
  isName,
  keys,
  list,
  noticeKeys,
  number,
  part,
  readLabel,
  readNotice,
  readTable,
  respond,
  systemWord,
  whole,
} = internals;
const CODES = 2 ** 16;
const FINEST = 60;
const MOST_STEPS = 2 ** 17;
const MOST_WAVES = 36;
const MOST_PEOPLE = 50000;
const LARGEST_COUNT = 2 ** 15 - 1;
const LARGEST_CAP = 2 ** 31 - 1;
const PER_BUCKET = 16;
const PARTS = 8;
const HEAD = /^veilgraph-beliefs-1\n\{"num_classes": ([1-9]\d{0,4}), "people": ([1-9]\d{0,9})\}\n/;
const NO_WAVE = "This is not a wave about neighbours.";
const DAMAGED = "The published table cannot be used: get it again.";

// --- The document of a wave --------------------------------------------------------------------------------

/**
 * Refuse the document of a wave that is altered, closed, too revealing, or untrue.
 *
 * `maxEpsilon` limits what the answer reveals about any two lists, where these are protected.
 * `maxEntryEpsilon` limits what it reveals about one entry; without it, an answer that does not protect whole
 * lists is refused.
 */
export async function verifyWave(text, { maxEpsilon, maxEntryEpsilon = null, now = new Date() }) {
  need(maxEpsilon > 0 && (maxEntryEpsilon === null || maxEntryEpsilon > 0), "Your limit must be above 0.");
  const { id, bound, notice } = guarded(NO_WAVE, () => keys(parse(text), "bound format id notice"));
  need(id === (await sha256(canonical(bound))), "The campaign was altered.");
  const question = guarded(NO_WAVE, () => read(JSON.parse(text)));
  const { any_lists, one_entry } = question.costs.wave;
  need(now < question.closes, "The campaign is closed.");
  need(
    any_lists === Infinity || within(any_lists, maxEpsilon),
    `An answer costs epsilon ${shown(any_lists)} for any two lists, above your limit of ${maxEpsilon}.`,
  );
  need(
    maxEntryEpsilon !== null || any_lists < Infinity,
    "The answer protects single entries, and no whole lists: set your limit for one entry first.",
  );
  need(
    maxEntryEpsilon === null || within(one_entry, maxEntryEpsilon),
    `An answer costs epsilon ${shown(one_entry)} for one entry, above your limit of ${maxEntryEpsilon}.`,
  );
  return { ...question, id, notice: { ...notice, sha256: await sha256(canonical(notice)) } };
}

function read({ format, bound, notice }) {
  const { schema, graph, neighbours, guarantee } = keys(bound, "format graph guarantee neighbours schema");
  const { documents, label, answers, people, table, turns } = keys(
    neighbours,
    "answers documents label people table turns",
  );
  const { columns, group, label: asked } = keys(schema, "columns group label");
  const { name, classes } = keys(asked, "classes name");
  need(format === 4 && bound.format === 4 && list(columns).length === 0 && group === 1 && isName(name));
  need(whole(keys(graph, "nodes sha256").nodes) && [graph.sha256, people].every(isHash));
  distinct(documents, isHash, 1);
  need(turns === null || (whole(turns) && turns > 1 && turns <= MOST_WAVES));
  need(documents.length <= (turns ?? MOST_WAVES) && list(answers).length === documents.length);
  const classCount = distinct(classes, isName).length;
  const ofLabel = cost(readLabel(label, classCount));
  const waves = answers.map((each) => readAnswer(each, classCount, graph.nodes));
  const losses = waves.map(listLoss);
  need(
    waves.some((each) => each.list) ? waves.length === 1 && table === null && turns === null : isHash(table),
  ); // a list is asked once, and needs no beliefs
  const closes = readNotice(noticeKeys(notice), [{ name, values: classes }]);
  need(notice.round === null);
  // In turns, a person answers one.
  const together = (costs) => (turns === null ? add(...costs) : Math.max(...costs));
  const wave = losses.at(-1);
  const [any_lists, one_entry] = ["any_lists", "one_entry"].map((key) =>
    together(losses.map((loss) => loss[key])),
  );
  const costs = {
    wave,
    label: ofLabel,
    lists: { any_lists, one_entry, one_relationship: add(one_entry, one_entry) },
  };
  check(guarantee, costs);
  return {
    graph,
    closes,
    documents,
    series: documents[0],
    wave: documents.length,
    turns,
    name,
    classes,
    nodes: graph.nodes,
    people,
    table,
    asked: waves.at(-1),
    costs,
  };
}

/**
 * The wave that a person answers in a series in turns. Everybody can compute it, so that it tells nothing.
 */
export const turnOf = async (node, turns) => 1 + ((await hashOf(node)).getUint16(30) % turns);

const hashOf = async (name) =>
  new DataView(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(name)));
const isHash = (text) => /^[0-9a-f]{64}$/.test(text) && typeof text === "string";

function readAnswer(stated, classCount, nodes) {
  if (stated.mechanism === "neighbourhood_class") {
    part(stated, "epsilon mechanism size table", stated.mechanism);
    return { sets: readTable(stated.table, classCount, must(stated.size)) };
  }
  if (stated.mechanism === "randomized_neighbour_list") {
    part(stated, "epsilon mechanism people table", stated.mechanism);
    need(stated.people === nodes && nodes > 1 && nodes <= MOST_PEOPLE);
    return { list: readTable(stated.table, 2), people: nodes };
  }
  part(stated, "cap epsilon largest mechanism more scale", "neighbourhood_histogram");
  const { cap, largest, more, scale } = stated;
  need(
    [largest, more, scale, cap ?? 1].every(whole) &&
      scale === finestScale(classCount) &&
      largest >= scale &&
      largest <= LARGEST_COUNT &&
      cap <= LARGEST_CAP,
  );
  need(WORDS - more >= WORDS / MOST_STEPS); // otherwise a draw could take for ever
  return { classCount, more, scale, cap, largest };
}

const must = (value) => (need(whole(value)), value);

/** Every stated epsilon follows from the integers. */
function check(stated, { wave, label, lists }) {
  const relations = "any_lists one_entry one_relationship";
  const { series } = keys(stated, "series wave");
  keys(series, "label lists lists_and_record");
  const pairs = [
    [stated.wave, wave, relations],
    [series.lists, lists, relations],
    [
      series.lists_and_record,
      { any_lists: add(label, lists.any_lists), one_entry: add(label, lists.one_entry) },
      "any_lists one_entry",
    ],
  ];
  const all = pairs.flatMap(([said, exact, names]) =>
    names.split(" ").map((name) => [keys(said, names)[name], exact[name]]),
  );
  const finite = [[series.label, label], ...all].filter(
    ([text, exact]) => exact < Infinity || need(number(text) === Infinity),
  );
  agree(
    finite.map(([text]) => text),
    finite.map(([, exact]) => exact),
  );
}

/** Epsilons of one answer, by the relation between neighbour lists, from the integers that decide it. */
export function listLoss({ sets, list: bit, classCount, more, scale, cap = null }) {
  const times = (count) => epsilonOf(BigInt(WORDS), BigInt(more), count * BigInt(scale));
  const one = sets || bit ? cost(sets ?? bit) : times(1n);
  const any_lists = sets ? one : cap === null ? Infinity : times(BigInt(classCount) * BigInt(cap));
  return { any_lists, one_entry: one, one_relationship: add(one, one) };
}

// --- What is published -------------------------------------------------------------------------------------

/** Number of ways to give some units to k classes, as long as a code of 16 bits can hold it. */
function ways(units, classCount) {
  let found = 1;
  // The count is whole at each step.
  for (let i = 1; i <= units && found < CODES; i++) found = (found * (classCount - 1 + i)) / i;
  return found;
}

/** Units of a belief, s: the most, up to 60, so that every belief has a code of 16 bits. */
export function finestScale(classCount) {
  need(whole(classCount) && classCount > 1 && classCount < CODES, DAMAGED);
  let scale = FINEST;
  while (ways(scale, classCount) >= CODES) scale--;
  return scale;
}

/**
 * Read what is published for a wave, the file of people and the table, after comparing both with their
 * hashes. Where there is no table, it and its hash are null.
 *
 * All rows are checked, also about people who are no neighbours: a row that sums to more than `scale` would
 * make the guarantee false, and a device that refused because of its own neighbours alone would reveal them.
 */
export async function readPublished({ people, table, nodes, classes }, names, beliefs) {
  for (const [bytes, hash] of [
    [names, people],
    [beliefs, table],
  ])
    need(
      (bytes && (await sha256(bytes))) === hash,
      "This is another table than that of the wave: get it again.",
    );
  return guarded(DAMAGED, () => ({
    ...readPeople(names, nodes),
    ...(table !== null && readBeliefs(beliefs, nodes, classes.length)),
  }));
}

/**
 * Read the file of people, a hash table: an id belongs to a bucket, and has a fingerprint of 3 bytes in it.
 * Row i of the belief table is about fingerprint i. Whatever the fingerprints are, an id has one row or none.
 */
function readPeople(bytes, nodes) {
  const title = `veilgraph-people-1\n{"people": ${nodes}}\n`;
  const buckets = Math.ceil(nodes / PER_BUCKET);
  const fixed = title.length + 2 * buckets;
  need(
    bytes.length === fixed + 3 * nodes && String.fromCharCode(...bytes.subarray(0, title.length)) === title,
    DAMAGED,
  );
  const starts = new Uint32Array(buckets + 1);
  const parts = bytes.subarray(title.length + buckets, fixed);
  for (let i = 0; i < buckets; i++) starts[i + 1] = starts[i] + bytes[title.length + i];
  need(starts[buckets] === nodes && parts.every((part) => part < PARTS), DAMAGED);
  return { starts, parts, fingerprints: bytes.subarray(fixed) };
}

function readBeliefs(bytes, nodes, classes) {
  const [head, classCount, people] =
    HEAD.exec(String.fromCharCode(...bytes.subarray(0, 80))) ?? need(false, DAMAGED);
  need(+classCount === classes && +people === nodes && bytes.length === head.length + 2 * nodes, DAMAGED);
  const codes = new DataView(bytes.buffer, bytes.byteOffset + head.length);
  const scale = finestScale(classes);
  const most = ways(scale, classes);
  for (let i = 0; i < nodes; i++) if (codes.getUint16(2 * i, true) > most) need(false, DAMAGED);
  return { classCount: classes, scale, codes };
}

// --- The answer --------------------------------------------------------------------------------------------

/**
 * Look the neighbours up and randomize what was found, by what is asked; other sources of words are for
 * tests.
 */
export async function randomizeNeighbours(question, published, neighbours, word = systemWord) {
  return question.asked.list
    ? randomizeRows(question, await rowsOf(published, neighbours), word)
    : randomizeSums(question, await sumsOf(published, neighbours), word);
}

/** Read a list, whatever is published. */
export function namesIn(neighbours) {
  const names = guarded("The list of neighbours cannot be used.", () => [...neighbours]);
  return (
    need(
      names.every((name) => typeof name === "string"),
      "The list of neighbours holds something that is not a name.",
    ) ?? names
  );
}

/**
 * Rows of the neighbours in the file of people, in ascending order. One who is named twice counts once, and
 * one who is not there has none: a refusal would tell the organiser, who chooses the people, who is in the
 * list.
 */
export async function rowsOf(published, neighbours) {
  const rows = await Promise.all(namesIn(neighbours).map((name) => rowOf(name, published)));
  return [...new Set(rows)].filter((row) => row >= 0).sort((first, second) => first - second);
}

/** Names that are not among the people, each once: for the person alone, and after the draw. */
export async function unlistedIn(published, neighbours) {
  const names = [...new Set(namesIn(neighbours))];
  const rows = await Promise.all(names.map((name) => rowOf(name, published)));
  return names.filter((_, i) => rows[i] < 0);
}

/**
 * Add up what is believed about the neighbours, in units, one sum for each class; who is unknown adds
 * nothing.
 */
export async function sumsOf(published, neighbours) {
  const { classCount, scale, codes } = published;
  const rows = await rowsOf(published, neighbours);
  const sums = Array(classCount).fill(0);
  for (const row of rows)
    unitsOf(codes.getUint16(2 * row, true), classCount, scale).forEach(
      (units, position) => (sums[position] += units),
    );
  return sums;
}

/** Refuse a person who is not among the people: an answer would cost, and nobody takes it. */
export const checkPerson = async (name, published) =>
  need((await rowOf(name, published)) >= 0, "You are not among the people of this wave: correct your name.");

async function rowOf(name, { starts, parts, fingerprints }) {
  const hash = await hashOf(name);
  const bucket = (hash.getUint16(0) * 2 ** 32 + hash.getUint32(2)) % parts.length;
  const start = 6 + 3 * parts[bucket];
  for (let row = starts[bucket]; row < starts[bucket + 1]; row++)
    if ([0, 1, 2].every((i) => fingerprints[3 * row + i] === hash.getUint8(start + i))) return row;
  return -1;
}

/** Units of each class by code: 0 is "unknown", the others number all beliefs in lexicographic order. */
function unitsOf(code, classCount, scale) {
  const units = Array(classCount).fill(0);
  let left = code && scale;
  let before = code - 1;
  for (let position = 0; left && position < classCount - 1; position++)
    for (
      let fewer = ways(left, classCount - 1 - position);
      before >= fewer;
      fewer = ways(left, classCount - 1 - position)
    )
      ((before -= fewer), left--, units[position]++);
  units[classCount - 1] += left;
  return units;
}

/**
 * Name people: one word for each row, also for the person's own, decides whether what the list says of it is
 * kept. The answer is a bit for each row, as text: all lists have one length.
 */
export function randomizeRows({ asked: { list: bit, people } }, rows, word = systemWord) {
  const listed = new Set(rows);
  const bits = new Uint8Array(Math.ceil(people / 8));
  for (let row = 0; row < people; row++)
    bits[row >> 3] |= respond(Number(listed.has(row)), bit, word) << (row & 7);
  return textOf(bits);
}

const textOf = (bits) =>
  btoa(String.fromCharCode(...bits))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replace(/=+$/, "");

/** Rows of the people whom an answer names, in ascending order. */
export function rowsIn(text, people) {
  const bits = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return [...Array(people).keys()].filter((row) => (bits.charCodeAt(row >> 3) >> (row & 7)) & 1);
}

/** Randomize the sums of a list: a set of classes, or a count for each class. */
export function randomizeSums({ asked }, sums, word = systemWord) {
  const { sets, more, scale, cap, largest } = asked;
  const most = Math.max(...sums);
  if (sets) {
    const pointed = [...sums.keys()].filter((code) => sums[code] === most);
    return respond(pointed[below(pointed.length, word)], sets, word);
  }
  // The difference of two variables, each of which counts words, is discrete Laplace noise.
  const count = (words = 0) => {
    while (word() < more) words++;
    return words;
  };
  const counted = sums.map((sum) => Math.min(sum, cap === null ? sum : cap * scale));
  return counted.map((sum) => Math.max(-largest, Math.min(largest, sum + count() - count())));
}
