// Answers a wave about a list of neighbours, which never leaves the device. The device looks them up in the table that
// is published for all, adds their beliefs up, and randomizes the sums. Whole numbers alone decide an answer.

import { canonical, internals, need, parse, sha256, shown, within } from "./veilgraph.js";

const { WORDS, agree, below, cost, distinct, guarded, isName, keys, list, number, part, readNotice, readTable, respond, systemWord, whole } = internals;
const CODES = 2 ** 16, FINEST = 60, MOST_STEPS = 2 ** 17, MOST_WAVES = 36, LARGEST_COUNT = 2 ** 15 - 1, LARGEST_CAP = 2 ** 31 - 1;
const HEAD = /^veilgraph-beliefs-1\n\{"num_classes": ([1-9]\d{0,4}), "people": ([1-9]\d{0,9})\}\n/;
const NO_WAVE = "This is not a wave about neighbours.", DAMAGED = "The published table cannot be used: get it again.";

// --- The document of a wave -------------------------------------------------------------------------------------------

/**
 * Refuse the document of a wave that is altered, closed, too revealing, or untrue.
 *
 * `maxEpsilon` limits what the answer reveals about any two lists, where these are protected. `maxEntryEpsilon` limits
 * what it reveals about one entry; without it, an answer that does not protect whole lists is refused.
 */
export async function verifyWave(text, { maxEpsilon, maxEntryEpsilon = null, now = new Date() }) {
	need(maxEpsilon > 0 && (maxEntryEpsilon === null || maxEntryEpsilon > 0), "Your limit must be above 0.");
	const { id, bound, notice } = guarded(NO_WAVE, () => keys(parse(text), "bound format id notice"));
	need(id === (await sha256(canonical(bound))), "The campaign was altered.");
	const question = guarded(NO_WAVE, () => read(JSON.parse(text))), { any_lists, one_entry } = question.costs.wave;
	need(now < question.closes, "The campaign is closed.");
	need(any_lists === Infinity || within(any_lists, maxEpsilon),
		`An answer costs epsilon ${shown(any_lists)} for any two lists, above your limit of ${maxEpsilon}.`);
	need(maxEntryEpsilon !== null || any_lists < Infinity, "The answer protects single entries, and no whole lists: set your limit for one entry first.");
	need(maxEntryEpsilon === null || within(one_entry, maxEntryEpsilon),
		`An answer costs epsilon ${shown(one_entry)} for one entry, above your limit of ${maxEntryEpsilon}.`);
	return { ...question, id, notice: { ...notice, sha256: await sha256(canonical(notice)) } };
}

function read({ format, bound, notice }) {
	const { schema, graph, neighbours, guarantee } = keys(bound, "format graph guarantee neighbours schema");
	const { documents, label, answers, people, table } = keys(neighbours, "answers documents label people table");
	const { columns, group, label: asked } = keys(schema, "columns group label"), { name, classes } = keys(asked, "classes name");
	need(format === 4 && bound.format === 4 && list(columns).length === 0 && group === 1 && isName(name));
	need(whole(keys(graph, "nodes sha256").nodes) && [graph.sha256, people, table].every(isHash));
	distinct(documents, isHash, 1);
	need(documents.length <= MOST_WAVES && list(answers).length === documents.length);
	const k = distinct(classes, isName).length, { size } = label;
	part(label, `epsilon mechanism ${size ? "size " : ""}table`, size ? "subset_selection" : "grr");
	const y = cost(readTable(label.table, k, size)), waves = answers.map((each) => readAnswer(each, k)), losses = waves.map(listLoss);
	const closes = readNotice(keys(notice, "closes contact note purpose retention texts version wave"), [{ name, values: classes }]);
	need(notice.wave === null);
	const wave = losses.at(-1), [any_lists, one_entry] = ["any_lists", "one_entry"].map((key) => losses.reduce((sum, loss) => sum + loss[key], 0));
	const costs = { wave, label: y, lists: { any_lists, one_entry, one_relationship: 2 * one_entry } };
	check(guarantee, costs);
	return { closes, documents, series: documents[0], wave: documents.length, name, classes, nodes: graph.nodes, people, table, asked: waves.at(-1), costs, guarantee };
}

const isHash = (text) => /^[0-9a-f]{64}$/.test(text) && typeof text === "string";

function readAnswer(stated, k) {
	if (stated.mechanism === "neighbourhood_class") {
		part(stated, "epsilon mechanism size table", stated.mechanism);
		return { sets: readTable(stated.table, k, must(stated.size)) };
	}
	part(stated, "cap epsilon largest mechanism more scale", "neighbourhood_histogram");
	const { cap, largest, more, scale } = stated;
	need([largest, more, scale, cap ?? 1].every(whole) && scale === finestScale(k) && largest >= scale && largest <= LARGEST_COUNT && cap <= LARGEST_CAP);
	need(WORDS - more >= WORDS / MOST_STEPS); // otherwise a draw could take for ever
	return { k, more, scale, cap, largest };
}

const must = (value) => (need(whole(value)), value);

/** Every stated epsilon follows from the integers. */
function check(stated, { wave, label, lists }) {
	const relations = "any_lists one_entry one_relationship", { series } = keys(stated, "series wave");
	keys(series, "label lists lists_and_record");
	const pairs = [[stated.wave, wave, relations], [series.lists, lists, relations],
		[series.lists_and_record, { any_lists: label + lists.any_lists, one_entry: label + lists.one_entry }, "any_lists one_entry"]];
	const all = pairs.flatMap(([said, exact, names]) => names.split(" ").map((name) => [keys(said, names)[name], exact[name]]));
	const finite = [[series.label, label], ...all].filter(([text, exact]) => exact < Infinity || need(number(text) === Infinity));
	agree(finite.map(([text]) => text), finite.map(([, exact]) => exact));
}

/** Epsilons of one answer, by the relation between neighbour lists, from the integers that decide it. */
export function listLoss({ sets, k, more, scale, cap }) {
	const one = sets ? cost(sets) : -scale * Math.log1p((more - WORDS) / WORDS);
	return { any_lists: sets ? one : cap === null ? Infinity : k * cap * one, one_entry: one, one_relationship: 2 * one };
}

// --- What is published ------------------------------------------------------------------------------------------------

/** Number of ways to give some units to k classes, as long as a code of 16 bits can hold it. */
function ways(units, k) {
	let found = 1;
	for (let i = 1; i <= units && found < CODES; i++) found = (found * (k - 1 + i)) / i; // whole at each step
	return found;
}

/** Units of a belief, s: the most, up to 60, so that every belief has a code of 16 bits. */
export function finestScale(k) {
	need(whole(k) && k > 1 && k < CODES, DAMAGED);
	let s = FINEST;
	while (ways(s, k) >= CODES) s--;
	return s;
}

/**
 * Read what is published for a wave, the names of all people and the table, after comparing both with their hashes.
 *
 * All of it is checked, also about people who are no neighbours: a row that sums to more than `scale` would make the
 * guarantee false, and a device that refused because of its own neighbours alone would reveal them.
 */
export async function readPublished({ people, table, nodes, classes }, names, beliefs) {
	for (const [bytes, hash] of [[names, people], [beliefs, table]])
		need((await sha256(bytes)) === hash, "This is another table than that of the wave: get it again.");
	return guarded(DAMAGED, () => ({ names, starts: startsOf(names, nodes), ...readBeliefs(beliefs, nodes, classes.length) }));
}

/** Where each name begins; names are different and in the order of code points, which is that of UTF-8. */
function startsOf(names, nodes) {
	need(nodes <= names.length, DAMAGED);
	const starts = new Uint32Array(nodes + 1);
	for (let i = 0, start = 0, before = 0; i < nodes; i++) {
		const end = names.indexOf(10, start);
		if (end <= start || (i && order(names, before, start - 1, names, start, end) >= 0)) need(false, DAMAGED);
		[before, start] = [start, end + 1];
		starts[i + 1] = start;
	}
	need(starts[nodes] === names.length, DAMAGED);
	return starts;
}

/** Compare two names, each between two places: below, at or above 0. */
function order(one, i, end, other, j, last) {
	for (; i < end && j < last; i++, j++) if (one[i] !== other[j]) return one[i] - other[j];
	return end - i - (last - j);
}

function readBeliefs(bytes, nodes, classes) {
	const [head, k, people] = HEAD.exec(String.fromCharCode(...bytes.subarray(0, 80))) ?? need(false, DAMAGED);
	need(+k === classes && +people === nodes && bytes.length === head.length + 2 * nodes, DAMAGED);
	const codes = new DataView(bytes.buffer, bytes.byteOffset + head.length), scale = finestScale(classes), most = ways(scale, classes);
	for (let i = 0; i < nodes; i++) if (codes.getUint16(2 * i, true) > most) need(false, DAMAGED);
	return { k: classes, scale, codes };
}

// --- The answer -------------------------------------------------------------------------------------------------------

/**
 * Add up what is believed about the neighbours, in units, one sum for each class.
 *
 * One who is named twice counts once, and one of whom nothing is known adds nothing.
 */
export function sumsOf({ names, starts, k, scale, codes }, neighbours) {
	return guarded("The list of neighbours cannot be used.", () => {
		const sums = Array(k).fill(0), rows = new Set([...neighbours].map((name) => rowOf(name, names, starts)));
		for (const row of rows) unitsOf(codes.getUint16(2 * row, true), k, scale).forEach((units, c) => (sums[c] += units));
		return sums;
	});
}

function rowOf(neighbour, names, starts) {
	need(typeof neighbour === "string", "The list of neighbours holds something that is not a name.");
	const name = new TextEncoder().encode(neighbour);
	let low = 0, high = starts.length - 1;
	while (low < high) {
		const middle = (low + high) >> 1, found = order(name, 0, name.length, names, starts[middle], starts[middle + 1] - 1);
		if (!found) return middle;
		if (found < 0) high = middle; else low = middle + 1;
	}
	need(false, "A neighbour is not in the table of this wave: correct your list.");
}

/** Units of each class by code: 0 is "unknown", the others number all beliefs in lexicographic order. */
function unitsOf(code, k, scale) {
	const units = Array(k).fill(0);
	let left = code && scale, before = code - 1;
	for (let c = 0; left && c < k - 1; c++)
		for (let fewer = ways(left, k - 1 - c); before >= fewer; fewer = ways(left, k - 1 - c)) before -= fewer, left--, units[c]++;
	units[k - 1] += left;
	return units;
}

/** Randomize the sums of a list by what is asked; other sources of words are for tests. */
export function randomizeSums({ asked }, sums, word = systemWord) {
	const { sets, more, scale, cap, largest } = asked, most = Math.max(...sums);
	if (sets) {
		const pointed = [...sums.keys()].filter((c) => sums[c] === most);
		return respond(pointed[below(pointed.length, word)], sets, word);
	}
	// The difference of two variables, each of which counts words, is discrete Laplace noise.
	const count = (n = 0) => { while (word() < more) n++; return n; };
	const counted = sums.map((sum) => Math.min(sum, cap === null ? sum : cap * scale));
	return counted.map((sum) => Math.max(-largest, Math.min(largest, sum + count() - count())));
}
