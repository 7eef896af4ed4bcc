// Turns a private record into one randomized report, after verifying the campaign. Every decision compares a
// word, uniform below 2 ** 53, with integers; participant.py defines the order of the words.

const WORDS = 2 ** 53;
const NUMBER = /^(?=.{1,40}$)-?(Infinity|\d+(\.\d+)?(e[+-]\d+)?)$/;
const ENTERED = /^(?=.{1,400}$) *[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)? *$/i;

/** Holds no private value. */
export class VeilgraphError extends Error {}

function need(condition, message = "This is not a campaign.") {
	if (!condition) throw new VeilgraphError(message);
}

/** Return a person's report. It is drawn once and stored; later calls return the same one. */
export async function answer(campaign, record, { node, storage, maxEpsilon, now, sharedDevice, locks = globalThis.navigator?.locks }) {
	const question = await verify(campaign, { maxEpsilon, now });
	need(/^(?!\.\.?$)[^\0-\x1f\x7f\ud800-\udfff]{1,256}$/u.test(node), "A node has 1 to 256 characters.");
	need(locks, "This browser is too old.");
	return locks.request("veilgraph", () => {
		const kept = stored(question, storage), spent = total(answered(storage)), epsilon = `${question.epsilon}`;
		if (kept.has(node)) return kept.get(node);
		need(!kept.size || sharedDevice === true, "This device has answered the campaign before, and answers it once.");
		need(within(spent + question.epsilon, maxEpsilon),
			`With ${spent.toFixed(4)} for earlier reports, epsilon ${question.epsilon.toFixed(4)} is above your limit of ${maxEpsilon}.`);
		const [features, label] = randomize(question, ...encode(question, record));
		storage.setItem(`veilgraph:${question.id}${kept.size ? `:${node}` : ""}`,
			canonical({ campaign: question.id, node, features, label, epsilon }));
		return stored(question, storage).get(node);
	});
}

/** Return this device's reports for a campaign, by node. */
export function stored({ id, features, label }, storage) {
	const fits = (codes, tables) => codes === null
		|| (codes.length === tables?.length && codes.every((code, i) => code >= 0 && code < tables[i].domain_size));
	return new Map(answered(storage).filter(({ campaign }) => campaign === id).map(({ node, report }) => {
		need(fits(report.features, features) && fits(report.label === null ? null : [report.label], label && [label.table]), DAMAGED);
		return [node, report];
	}));
}

/** List this device's reports; where an earlier version recorded no epsilon, with the largest possible one. */
export function answered(storage) {
	const places = Array.from({ length: storage.length }, (_, i) => storage.key(i));
	return places.filter((place) => /^veilgraph:[0-9a-f]{64}(:|$)/.test(place)).map((place) => {
		const { epsilon, ...report } = parse(storage.getItem(place)) ?? {}, { campaign, node, features, label } = report;
		const codes = [features ?? [], label ?? []].flat();
		need(Object.keys(report).sort().join() === "campaign,features,label,node" && place.slice(10, 74) === campaign
			&& isText(node) && codes.length && codes.every(Number.isSafeInteger)
			&& /^(undefined|\d+(\.\d+)?(e-\d+)?)$/.test(epsilon), DAMAGED);
		return { campaign, node, report, epsilon: Number(epsilon ?? codes.length * 36.74) };
	});
}

export const total = (reports) => reports.reduce((sum, { epsilon }) => sum + epsilon, 0);

const DAMAGED = "A stored report is damaged, and a second one would reveal more.";

/** Return the codes [features, label] of a raw record; a label of null is left out. */
export function encode({ features, label, columns, group }, record) {
	try {
		const codes = features && columns.map((column) => code(column, record));
		const merged = codes && features.map((_, i) => Math.max(...codes.slice(i * group, (i + 1) * group)));
		const answered = label && record[label.name] !== null ? code(label, record) : null;
		need(merged || answered !== null, "The record is empty.");
		return [merged, answered];
	} catch (error) { // another error may quote a value
		throw error instanceof VeilgraphError ? error : new VeilgraphError("The record cannot be used.");
	}
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
	const campaign = parse(text);
	keys(campaign, "closes contact features format graph guarantee id label purpose schema");
	const { id, ...content } = campaign;
	need(id === (await sha256(canonical(content))), "The campaign was altered.");
	const question = read(campaign);
	need(now < question.closes, "The campaign is closed.");
	need(within(question.epsilon, maxEpsilon),
		`A report costs epsilon ${question.epsilon.toFixed(4)}, above your limit of ${maxEpsilon}.`);
	return question;
}

function read({ id, format, closes, schema, features: asked, label: answered, guarantee }) {
	need(format === 1 && /^\d{4}(-\d\d){2}T\d\d(:\d\d){2}Z$/.test(closes) && Date.parse(closes));
	const { group, label } = keys(schema, "columns group label note");
	const columns = list(schema.columns).map(readColumn);
	const sizes = columns.map(({ values, edges }) => (edges ? edges.length - 1 : values.length));
	need(whole(group) && (group === 1 || sizes.every((size) => size === 2)));
	const { name, classes } = keys(label, "classes name");
	distinct([name, ...columns.map((column) => column.name)]);
	const features = asked && readFeatures(asked, sizes.filter((_, i) => i % group === 0));
	need(asked || answered);
	need(!answered || keys(answered, "epsilon mechanism table").mechanism === "grr");
	const question = {
		id, closes: new Date(closes), columns, group, features, sampled: asked?.sampled ?? 0,
		label: answered && { name, values: distinct(classes), table: readTable(answered.table, classes.length) },
	};
	return { ...question, epsilon: checkGuarantee(guarantee, question) };
}

function readColumn(column) {
	if (!column?.edges) return distinct(keys(column, "name values").values) && column;
	const edges = list(keys(column, "edges name").edges).map(number);
	need(edges.length > 2 && edges.every((edge, i) => !i || edges[i - 1] < edge));
	return { name: column.name, edges };
}

function readFeatures(stated, sizes) {
	const { mechanism, sampled, tables } = keys(stated, "epsilon mechanism sampled tables"), d = sizes.length;
	need(mechanism === "grr_fs" && list(tables).length === d && d <= 2 ** 14);
	need(whole(sampled) && sampled <= d && sampled * (d - sampled) <= 1e6);
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
	const exact = [x, y, x + y, ...attributeLevels(features ?? [], sampled)];
	const texts = [user.features, user.label, user.total, ...list(levels, 0)];
	need(texts.length === exact.length && exact.every((e, i) => Math.abs(number(texts[i]) - e) <= slack(e)),
		"The tables do not give the stated guarantee.");
	return x + y;
}

/** ln of the likelihood ratio if one feature matches and no other. */
function attributeLevels(tables, sampled) {
	const misses = tables.map((table) => (table.domain_size * table.other) / WORDS);
	const least = logMean(misses, sampled), levels = {};
	return tables.map(({ domain_size: k, true: yes }, i) =>
		(levels[[k, yes]] ??= logMean(misses.map((miss, j) => (j === i ? (k * yes) / WORDS : miss)), sampled) - least));
}

/** ln of the mean product of `sampled` factors, scaled against underflow. */
function logMean(factors, sampled) {
	let means = { 0: 1 }, log = 0; // by the number taken
	factors.forEach((factor, i) => {
		const left = factors.length - i, after = {};
		const add = (taken, mean) => (after[taken] = (after[taken] ?? 0) + mean / left);
		for (const taken in means) {
			const missing = sampled - taken;
			if (missing) add(+taken + 1, means[taken] * factor * missing);
			if (left > missing) add(taken, means[taken] * (left - missing));
		}
		const top = Math.max(...Object.values(after));
		for (const taken in after) after[taken] /= top;
		means = after;
		log += Math.log(top);
	});
	return log + Math.log(means[sampled]);
}

const slack = (epsilon) => 1e-9 * Math.max(1, epsilon);
const within = (epsilon, limit) => epsilon <= limit + slack(limit);

/** Canonical JSON: sorted, no spaces, ASCII only. */
export function canonical(value) {
	if (Array.isArray(value)) return `[${value.map(canonical)}]`;
	if (isObject(value)) return `{${Object.keys(value).sort().map((k) => `${canonical(k)}:${canonical(value[k])}`)}}`;
	return JSON.stringify(value).replace(/[\x7f-\uffff]/g, (c) => `\\u${hex(c.charCodeAt(), 4)}`);
}

async function sha256(text) {
	need(globalThis.crypto?.subtle, "Open this page over https.");
	const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
	return [...new Uint8Array(digest)].map((byte) => hex(byte, 2)).join("");
}

function parse(text) {
	try { return JSON.parse(text); } catch { return undefined; }
}

const hex = (value, digits) => value.toString(16).padStart(digits, "0");
const isObject = (value) => Object(value) === value;
const isText = (value) => typeof value === "string";
const whole = (value) => Number.isSafeInteger(value) && value > 0;
const must = (value, condition) => need(condition) ?? value;
const keys = (value, names) => must(value, isObject(value) && Object.keys(value).sort().join(" ") === names);
const list = (value, least = 1) => must(value, Array.isArray(value) && value.length >= least);
const distinct = (texts) => must(texts, list(texts, 2).every(isText) && new Set(texts).size === texts.length);
const number = (text) => Number(must(text, isText(text) && NUMBER.test(text)));
