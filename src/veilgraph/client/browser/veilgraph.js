// Turns a private record into one randomized report, after verifying the campaign. Every decision compares a
// word, uniform below 2 ** 53, with integers; participant.py defines the order of the words.

const WORDS = 2 ** 53, NO_CAMPAIGN = "This is not a campaign.";
const NUMBER = /^(?=.{1,40}$)-?(Infinity|\d+(\.\d+)?(e[+-]\d+)?)$/;
const MISLEADING = /[\p{Cc}\p{Cs}\u2028\u2029\ufff9-\uffff]|(?![\u200c\u200d\ufe0e\ufe0f])\p{DI}|(^|[\0-\x7f])[\u200c\u200d\ufe0e\ufe0f]|[\u200c\u200d]([\0-\x7f]|$)/u;
const ENTERED = /^(?=.{1,400}$) *[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)? *$/i;

/** Holds no private value. */
export class VeilgraphError extends Error {}

/** Write four decimals, rounded up beyond a billionth. */
export const shown = (epsilon) => (Math.ceil(epsilon * 1e4 - 1e-5) / 1e4).toFixed(4);

export function need(condition, message = NO_CAMPAIGN) {
	if (!condition) throw new VeilgraphError(message);
}

/** Replace errors of others: they may quote a value. */
function guarded(message, work) {
	try { return work(); } catch (error) { throw error instanceof VeilgraphError ? error : new VeilgraphError(message); }
}

/** Return the codes [features, label] of a raw record; a label of null is left out. */
export function encode({ features, label, columns, group }, record) {
	return guarded("The record cannot be used.", () => {
		const codes = features && columns.map((column) => code(column, record));
		const merged = codes && features.map((_, i) => Math.max(...codes.slice(i * group, (i + 1) * group)));
		const answered = label && record[label.name] !== null ? code(label, record) : null;
		need(merged || answered !== null, "The record is empty.");
		return [merged, answered];
	});
}

function code({ name, values, edges }, record) {
	need(Object.hasOwn(record, name), `The record has no '${name}'.`);
	const value = record[name];
	if (edges) {
		const x = isText(value) && ENTERED.test(value) ? Number(value) : value, last = edges.length - 1;
		need(Number.isFinite(x) && x >= edges[0] && x <= edges[last],
			`'${name}' must be a number from ${edges[0]} to ${edges[last]}.`);
		return Math.min(edges.filter((edge) => edge <= x).length, last) - 1;
	}
	const index = isObject(value) ? -1 : values.indexOf(typeof value === "boolean" ? `${+value}` : `${value}`);
	need(index >= 0 && value != null, `'${name}' is not a declared value.`);
	return index;
}

/** Randomize codes; other sources of words are for tests. */
export function randomize(question, features, label, word = systemWord) {
	let toSample = question.sampled;
	const reported = features && features.map((value, i) => {
		const table = question.features[i];
		const sampled = below(features.length - i, word) < toSample;
		toSample -= sampled;
		return sampled ? respond(value, table, word) : below(table.domain_size, word);
	});
	return [reported, label === null ? null : respond(label, question.label.table, word)];
}

function systemWord() {
	const [high, low] = crypto.getRandomValues(new Uint32Array(2));
	return (high >>> 11) * 2 ** 32 + low;
}

function below(bound, word) {
	let drawn;
	do drawn = word(); while (drawn >= WORDS - (WORDS % bound));
	return drawn % bound;
}

function respond(value, { domain_size: k, true: yes, other }, word) {
	const surplus = word() - yes;
	// Exact without the remainder.
	return surplus < 0 ? value : (value + 1 + (surplus - (surplus % other)) / other) % k;
}

/** Refuse a campaign that is altered, closed, too revealing, or untrue. */
export async function verify(text, { maxEpsilon, now = new Date() }) {
	need(maxEpsilon > 0, "Your limit must be above 0.");
	const { id, ...content } = keys(parse(text), "closes contact features format graph guarantee id label purpose schema");
	need(id === (await sha256(canonical(content))), "The campaign was altered.");
	const question = { id, ...guarded(NO_CAMPAIGN, () => read(content)) };
	need(now < question.closes, "The campaign is closed.");
	need(within(question.epsilon, maxEpsilon),
		`A report costs epsilon ${shown(question.epsilon)}, above your limit of ${maxEpsilon}.`);
	return question;
}

function read({ format, purpose, contact, closes, graph, schema, features: asked, label: answered, guarantee }) {
	const { nodes, sha256 } = keys(graph, "nodes sha256"), { group, label, note } = keys(schema, "columns group label note");
	need(format === 1 && whole(nodes) && /^[0-9a-f]{64}$/.test(sha256) && isName(purpose) && isName(contact) && isClear(note));
	need(/^[1-9]/.test(closes) && JSON.stringify(new Date(closes)) === `"${closes.replace("Z", ".000Z")}"`);
	const columns = list(schema.columns).map(readColumn);
	const sizes = columns.map(({ values, edges }) => (edges ? edges.length - 1 : values.length));
	need(whole(group) && (group === 1 || sizes.every((size) => size === 2)));
	const { name, classes } = keys(label, "classes name");
	distinct([name, ...columns.map((column) => column.name)], isName);
	distinct(classes, isName);
	need(asked || answered);
	part(asked, "epsilon mechanism sampled tables", "grr_fs");
	part(answered, "epsilon mechanism table", "grr");
	const question = {
		closes: new Date(closes), columns, group, sampled: asked?.sampled ?? 0,
		features: asked && readFeatures(asked, sizes.filter((_, i) => i % group === 0)),
		label: answered && { name, values: classes, table: readTable(answered.table, classes.length) },
	};
	return { ...question, epsilon: checkGuarantee(guarantee, question) };
}

const part = (stated, names, mechanism) =>
	need(stated === null || (keys(stated, names).mechanism === mechanism && number(stated.epsilon) > 0));

function readColumn(column) {
	if (!column.edges) return distinct(keys(column, "name values").values, isClear) && column;
	const edges = keys(column, "edges name").edges.map(number);
	need(edges.length > 2 && edges.every((edge, i) => !i || edges[i - 1] < edge));
	return { name: column.name, edges };
}

function readFeatures({ sampled, tables }, sizes) {
	const d = sizes.length;
	need(list(tables).length === d && d <= 2 ** 14 && whole(sampled) && sampled <= d && sampled * (d - sampled) <= 1e6);
	return tables.map((table, i) => readTable(table, sizes[i]));
}

function readTable(table, size) {
	const { domain_size: k, true: yes, other } = keys(table, "domain_size other true");
	// A sum beyond 2 ** 53 could be rounded to it.
	need([k, yes, other].every(whole) && k === size && yes > other && WORDS - (k - 1) * other === yes);
	return table;
}

/** Check stated epsilons against the integers. */
function checkGuarantee(stated, { features, sampled, label }) {
	const { user_level: user, attribute_level: levels } = keys(stated, "attribute_level user_level");
	keys(user, "features label total");
	const cost = (table) => Math.log(table.true / table.other);
	const most = (features ?? []).map(cost).sort((a, b) => b - a).slice(0, sampled);
	const x = most.reduce((a, b) => a + b, 0), y = label ? cost(label.table) : 0;
	const texts = [user.features, user.label, user.total, ...list(levels, 0)];
	const exact = [x, y, x + y, ...attributeLevels(features ?? [], sampled)];
	need(texts.length === exact.length && exact.every((e, i) => Math.abs(number(texts[i]) - e) <= slack(e)),
		"The tables do not give the stated guarantee.");
	return x + y;
}

/** ln of the likelihood ratio if one feature matches and no other; `_attribute_levels` of participant.py explains it. */
function attributeLevels(tables, m) {
	const kinds = new Map(), others = [], after = [], levels = {}, d = tables.length, kind = canonical;
	for (const table of tables) kinds.has(kind(table)) ? others.push(table) : kinds.set(kind(table), table);
	const ordered = [...kinds.values(), ...others];
	const misses = ordered.map((table) => (table.domain_size * table.other) / WORDS);
	/** Call `step` for every possible number of features taken before i, with the odds to take and to skip it. */
	const steps = (i, step) => {
		for (let t = Math.max(0, m - d + i); t <= Math.min(i, m); t++) step(t, m - t, d - i - m + t);
	};
	let row = { [m]: 1 };
	for (let i = d - 1; i >= 0; i--) {
		const next = {};
		if (i < kinds.size) after[i] = row;
		steps(i, (t, take, skip) => (next[t] = take * misses[i] * (row[t + 1] ?? 0) + skip * (row[t] ?? 0)));
		row = scaled(next);
	}
	row = { 0: 1 };
	ordered.slice(0, kinds.size).forEach((table, i) => {
		let taking = 0, passing = 0;
		const next = {}, add = (t, mean) => (next[t] = (next[t] ?? 0) + mean);
		steps(i, (t, take, skip) => {
			taking += row[t] * take * (after[i][t + 1] ?? 0);
			passing += row[t] * skip * (after[i][t] ?? 0);
			add(t + 1, row[t] * take * misses[i]);
			add(t, row[t] * skip);
		});
		row = scaled(next);
		const more = (table.domain_size * (table.true - table.other)) / WORDS;
		levels[kind(table)] = Math.log1p((more * taking) / (passing + taking * misses[i]));
	});
	return tables.map((table) => levels[kind(table)]);
}

/** Scale against underflow. */
function scaled(row) {
	const top = Math.max(...Object.values(row));
	for (const taken in row) row[taken] /= top;
	return row;
}

const slack = (epsilon) => 1e-9 * Math.max(1, epsilon);
/** Compare with a limit, tolerating the last digits of doubles. */
export const within = (epsilon, limit) => epsilon <= limit + slack(limit);

/** Canonical JSON: sorted, no spaces, ASCII only. */
export function canonical(value) {
	if (Array.isArray(value)) return `[${value.map(canonical)}]`;
	if (isObject(value)) return `{${Object.keys(value).sort().map((k) => `${canonical(k)}:${canonical(value[k])}`)}}`;
	return JSON.stringify(value).replace(/[\x7f-\uffff]/g, (c) => `\\u${hex(c.charCodeAt(), 4)}`);
}

export async function sha256(text) {
	need(globalThis.crypto?.subtle, "Open this page over https.");
	const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
	return [...new Uint8Array(digest)].map((byte) => hex(byte, 2)).join("");
}

/** Return the value of canonical JSON; of any other text undefined, since two readers could understand it differently. */
export function parse(text) {
	try {
		const value = JSON.parse(text);
		return canonical(value) === text.replace(/\n$/, "") ? value : undefined;
	} catch { return undefined; }
}

const hex = (value, digits) => value.toString(16).padStart(digits, "0");
const isObject = (value) => Object(value) === value;
const isText = (value) => typeof value === "string";
const whole = (value) => Number.isSafeInteger(value) && value > 0;
const must = (value, condition) => need(condition) ?? value;
const keys = (value, names) => must(value, isObject(value) && Object.keys(value).sort().join(" ") === names);
const list = (value, least = 1) => must(value, Array.isArray(value) && value.length >= least);
const isClear = (text) => isText(text) && /^.{0,4000}$/u.test(text) && !MISLEADING.test(text);
const isName = (text) => isClear(text) && text !== "";
const distinct = (texts, are) => must(texts, list(texts, 2).every(are) && new Set(texts).size === texts.length);
const number = (text) => Number(must(text, isText(text) && NUMBER.test(text)));
