// Turns a private record into one randomized report, after verifying the campaign. Every decision compares a
// word, uniform below 2 ** 53, with integers; participant.py defines the order of the words.

const WORDS = 2 ** 53, NO_CAMPAIGN = "This is not a campaign.";
const LONGEST = 2 ** 26, DEEPEST = 16; // of JSON: characters, and levels of lists and objects
const MOST_DIVISIONS = 4000; // of reports among the values of a history, enumerated; beyond it a bound counts
const NUMBER = /^(?=.{1,40}$)-?(Infinity|\d+(\.\d+)?(e[+-]\d+)?)$/;
const MISLEADING = /[\p{Cc}\p{Cs}\u2028\u2029\ufff9-\uffff]|(?![\u200c\u200d\ufe0e\ufe0f])\p{DI}|(^|[\0-\x7f])[\u200c\u200d\ufe0e\ufe0f]|[\u200c\u200d]([\0-\x7f]|$)/u;
const ENTERED = /^(?=.{1,400}$) *[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)? *$/i;

/** Holds no private value. */
export class VeilgraphError extends Error {}

/** Write four decimals, rounded up. */
export const shown = (epsilon) => roundedUp(epsilon, 4).toFixed(4);

export function need(condition, message = NO_CAMPAIGN) {
	if (!condition) throw new VeilgraphError(message);
}

/** Replace others' errors: they may quote a value. */
function guarded(message, work) {
	try { return work(); } catch (error) { need(error instanceof VeilgraphError, message); throw error; }
}

/** Return the codes [features, label] of a raw record; null is left out, and so are columns that are merged with it. */
export function encode({ features, label, columns, group }, record) {
	return guarded("The record cannot be used.", () => {
		const merged = features && features.sizes.map((_, i) => {
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
		const x = isText(value) && ENTERED.test(value) ? Number(value) : value, last = edges.length - 1;
		need(Number.isFinite(x) && x >= edges[0] && x <= edges[last],
			`'${name}' must be a number from ${edges[0]} to ${edges[last]}.`);
		need(!isWhole || Number.isInteger(x), `'${name}' must be a whole number.`);
		return Math.min(edges.filter((edge) => edge <= x).length, last) - 1;
	}
	const index = isObject(value) ? -1 : values.indexOf(typeof value === "boolean" ? `${+value}` : `${value}`);
	need(index >= 0 && value !== undefined, `'${name}' is not a declared value.`);
	return index;
}

/** Randomize codes; other sources of words are for tests. */
export const randomize = (question, features, label, word = systemWord) =>
	[features && draw(question.features, features, word), label === null ? null : respond(label, question.label.table, word)];

/**
 * Return what a device remembers of a series, with the report of the open wave; an answered wave is never drawn again.
 * A value beyond those that the series answers counts as no change: refusing it would reveal the change.
 */
export function randomizeWave({ features, label, waves, notice: { wave } }, memory, codes, value, word = systemWord) {
	need(wave, "No wave is open.");
	const before = wavesOf(memory), { features: chosen } = memory;
	if (before.includes(wave)) return memory;
	need(before.every((each) => each < wave), "This wave is over.");
	const step = ({ answers, current, reports }, given, first, again) => {
		const hasRoom = Object.keys(answers).length < Math.min(waves.values, first.k), code = hasRoom || Object.hasOwn(answers, given) ? given : current;
		// What is left out has the code k, and pure chance as its permanent answer.
		const kept = { ...answers, [code]: answers[code] ?? (code === first.k ? below(code, word) : respond(code, first, word)) };
		return { answers: kept, current: code, reports: { ...reports, [wave]: respond(kept[code], again, word) } };
	};
	let kept = chosen ?? {};
	if (codes) {
		const taken = chooser(features.sampled, codes.length, word);
		if (!chosen) codes.forEach((_, i) => { if (taken()) kept[i] = UNANSWERED; });
		kept = Object.fromEntries(Object.entries(kept).map(([i, each]) => [i, step(each, codes[i] ?? features.sizes[i], features.tables[i], features.series[i])]));
	}
	return { ...(value === null ? memory : step(memory, value, label.table, waves.table)), ...(codes && { features: kept }) };
}

export const UNANSWERED = { answers: {}, current: null, reports: {} };

export const wavesOf = ({ reports, features = {} }) =>
	[...new Set([reports, ...Object.values(features).map((each) => each.reports)].flatMap(Object.keys))].map(Number);

function draw({ sizes, sampled, joint, tables }, given, word) {
	const values = given.map((code, i) => code ?? below(sizes[i], word)); // pure chance where an answer is left out
	const taken = chooser(sampled, sizes.length, word);
	if (!joint) return sizes.map((k, i) => (taken() ? respond(values[i], tables[i], word) : below(k, word)));
	let size = 1, value = 0;
	const asked = sizes.map(taken), each = (step) => sizes.map((k, i) => (asked[i] ? step(k, values[i]) : null));
	each((k, code) => (value += code * size, size *= k));
	value = respond(value, tables[size], word);
	return each((k, code) => (code = value % k, value = (value - code) / k, code));
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

/** Choose m of n things, one at each call. */
const chooser = (m, n, word) => () => {
	const taken = below(n--, word) < m;
	m -= taken;
	return taken;
};

function respond(value, { k, w, yes, no }, word) {
	const surplus = word() - yes, held = surplus < 0;
	// Exact without the remainder.
	if (!w) return held ? value : (value + 1 + (surplus - (surplus % no)) / no) % k;
	const taken = chooser(w - held, k - 1, word);
	return [...Array(k).keys()].filter((code) => (code === value ? held : taken()));
}

/** Refuse a campaign that is altered, closed, too revealing, or untrue. */
export async function verify(text, { maxEpsilon, now = new Date() }) {
	need(maxEpsilon > 0, "Your limit must be above 0.");
	const [content, notice, hash] = await parts(parse(text) ?? {});
	const question = guarded(NO_CAMPAIGN, () => read(content, notice));
	need(now < question.closes, "The campaign is closed.");
	need(within(question.epsilon, maxEpsilon),
		`A report costs epsilon ${shown(question.epsilon)}, above your limit of ${maxEpsilon}.`);
	return { ...question, notice: { ...notice, sha256: hash } };
}

/** Return what reports are bound to, which the id names, and the notice, which may change, with its hash. */
async function parts({ id, ...document }) {
	const { bound, notice, format } = keys(document, "bound format notice");
	need(format === 3 && keys(bound, "features format graph guarantee label nonce schema waves").format === 3);
	need(isText(bound.nonce) && /^[0-9a-f]{32}$/.test(bound.nonce));
	need(id === (await sha256(canonical(bound))), "The campaign was altered.");
	return [{ ...bound, id }, keys(notice, "closes contact language note purpose retention texts version wave"), await sha256(canonical(notice))];
}

function read({ id, waves, graph, schema, features: asked, label: answered, guarantee }, notice) {
	const { nodes, sha256 } = keys(graph, "nodes sha256"), { group, label } = keys(schema, "columns group label");
	need(whole(nodes) && /^[0-9a-f]{64}$/.test(sha256));
	const columns = list(schema.columns).map(readColumn), size = answered?.size;
	const sizes = columns.map(({ values, edges }) => (edges ? edges.length - 1 : values.length));
	need(whole(group) && (group === 1 || (sizes[0] && sizes.every((k) => k === 2))));
	const { name, classes } = keys(label, "classes name");
	distinct([name, ...columns.map((each) => each.name)], isName, 1);
	distinct(classes, isName);
	need(asked || answered);
	part(asked, "epsilon mechanism sampled tables", ...(waves ? ["grr"] : ["grr_fs", "joint_grr"]));
	part(answered, `epsilon mechanism ${size ? "size " : ""}table`, size ? "subset_selection" : "grr");
	const once = asked && readFeatures(asked, sizes.filter((_, i) => i % group === 0));
	const table = answered && readTable(answered.table, classes.length, size);
	const closes = readNotice(notice, [...columns, { name, values: classes }]);
	const [series, features] = waves ? readWaves(waves, once, table) : [null, once];
	need(notice.wave === null || (whole(notice.wave) && notice.wave <= series?.count));
	const question = { id, graph, closes, columns, group, features, label: answered && { name, values: classes, table }, waves: series };
	const parts = { features: features?.x ?? 0, label: series?.y ?? (table ? cost(table) : 0) };
	return { ...question, parts, epsilon: check(guarantee, parts, features?.levels ?? []) };
}

/** A series is by GRR; its epsilons follow from the permanent tables and those of the waves. */
function readWaves(stated, asked, label) {
	const { count, values, epsilon, table, guarantee, features } = keys(stated, `count epsilon ${asked ? "features " : ""}guarantee table values`);
	need(whole(count) && count <= 36 && whole(values) && (label ? !label.w && values <= label.k && number(epsilon) > 0 : epsilon === null && table === null));
	const again = label && readTable(table, label.k), own = label && seriesCosts(label, again, count, values);
	const series = asked && readSeries(features, asked, count, values), costs = totals([own, series?.costs].filter(Boolean));
	agree(Object.values(keys(guarantee, "any_histories same_pattern unchanged")), Object.values(costs));
	return [{ count, values, table: again, costs, y: own?.any_histories ?? 0 }, series];
}

/** The sampled features that cost most bound what all of them cost. */
function readSeries(stated, { sizes, sampled, tables }, count, values) {
	const { epsilon, tables: waves } = keys(stated, "epsilon tables"), known = new Map();
	need(number(epsilon) > 0 && list(waves).length === sizes.length);
	const series = sizes.map((k, i) => readTable(waves[i], k)), each = tables.map((first, i) => {
		const kind = canonical([first.k, first.yes, series[i].yes]);
		if (!known.has(kind)) known.set(kind, seriesCosts(first, series[i], count, Math.min(values, first.k), true));
		need(known.size <= 16); // each takes a moment
		return known.get(kind);
	});
	const costs = totals(each, sampled);
	return { sizes, sampled, tables, series, costs, x: costs.any_histories, levels: each.map((one) => one.any_histories) };
}

/** Sum the costs that are largest under each relation. */
const totals = (parts, most) => Object.fromEntries(Object.keys(parts[0]).map((name) =>
	[name, add(...parts.map((one) => one[name]).sort((a, b) => b - a).slice(0, most))]));

/** Epsilons of all waves; with x = rho ** n - 1 for n equal reports, a value costs ln((1 + p x) / (1 + q x)). */
function seriesCosts(first, table, count, values, optional) {
	const c = Math.min(values, count), rate = Math.log(table.yes / table.no);
	const x = Array.from({ length: count + 1 }, (_, n) => Math.expm1(n * rate));
	const single = (n) => Math.log1p((first.yes / WORDS) * x[n]) - Math.log1p((first.no / WORDS) * x[n]);
	const same_pattern = Math.max(...[...partitions(count, c)].map((counts) => sum(counts.map(single))));
	const unchanged = lifted(single(count));
	return { any_histories: c > 1 ? lifted(anyHistories(first, x, c, optional)) : unchanged, same_pattern: lifted(same_pattern), unchanged };
}

/** The largest log-ratio of reports under any two histories: the most promising counts of equal reports come first. */
function anyHistories({ k, yes, no }, x, c, optional) {
	const [p, q] = [yes / WORDS, no / WORDS], none = k; // the code of an answer that is left out
	const factor = (value, counts) =>
		Math.log1p(sum(counts.map((n, i) => (value === none ? 1 / k : i === value ? p : q) * x[n])));
	/** Least for values that no report names: even. */
	const even = (counts, groups) =>
		sum([...Array(groups).keys()].map((i) => factor(-1, counts.map((n) => Math.floor((n + i) / groups)))));
	const most = (counts) => {
		const terms = counts.map((n, i) => (i < c ? p : q) * x[n]), apart = sum(terms.map(Math.log1p));
		if (counts.length <= c) return apart;
		return Math.min(apart, c * Math.log1p(sum(terms) / c), sum(counts.slice(0, c)) * Math.log1p(x[1]));
	};
	const least = (counts) => {
		const unnamed = Math.min(k - counts.length, c), free = c - Math.max(unnamed, 1), known = {};
		if (counts.reduce((all, n) => all * choose(n + free, free), 1) > MOST_DIVISIONS) return even(counts, c);
		const shared = (values, rest) => {
			if (!values.length) return even(rest, unnamed);
			const [value, ...others] = values;
			return !others.length && !unnamed ? factor(value, rest) : known[[values, rest].join(";")] ??= Math.min(
				...[...divisions(rest)].map((taken) => factor(value, taken) + shared(others, rest.map((n, j) => n - taken[j]))));
		};
		const named = [...(optional ? [none] : []), ...counts.keys()];
		return Math.min(...[...choices(named, c - unnamed)].map((values) => shared(values, counts)));
	};
	const bounds = [...partitions(x.length - 1, k)].map((counts) => ({ counts, bound: most(counts) - even(counts, c) }));
	let found = 0;
	for (const { counts, bound } of bounds.sort((a, b) => b.bound - a.bound)) {
		if (bound <= found) break;
		found = Math.max(found, most(counts) - least(counts));
	}
	return found;
}

const choose = (n, m) => (m ? (choose(n - 1, m - 1) * n) / m : 1);

/** What a value can have of these counts. */
function* divisions([n, ...more]) {
	if (n === undefined) yield [];
	else for (const rest of divisions(more)) for (let m = 0; m <= n; m++) yield [m, ...rest];
}

/** All ways to take m of these. */
function* choices([first, ...more], m) {
	if (!m) yield [];
	else if (first !== undefined) {
		for (const rest of choices(more, m - 1)) yield [first, ...rest];
		yield* choices(more, m);
	}
}

/** Falling sequences of at most `most` whole numbers with a given sum. */
function* partitions(total, most, largest = total) {
	if (!total) yield [];
	else if (most) for (let n = Math.min(total, largest); n; n--) for (const rest of partitions(total - n, most - 1, n)) yield [n, ...rest];
}

function readNotice({ version, purpose, contact, note, closes, retention, texts, language }, questions) {
	need(whole(version) && isName(purpose) && isName(contact) && isClear(note));
	need(date(closes) && (retention === null || date(retention) >= date(closes)));
	need(entries(texts).length ? isText(language) && Object.hasOwn(texts, language) : language === null);
	for (const [tag, said] of entries(texts)) {
		need(/^[a-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}$/.test(tag));
		for (const [name, shown] of translated(said, ["contact", "note", "purpose"], "questions")) {
			const { values = [] } = questions.find((one) => one.name === name) ?? need(false);
			const labels = new Map(translated(shown, ["help", "text"], "answers"));
			need([...labels].every(([value, label]) => values.includes(value) && isName(label)));
			distinct(values.map((value) => labels.get(value) ?? value), isText, 0);
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
	const isWhole = column.whole === true, edges = keys(column, isWhole ? "edges name whole" : "edges name").edges.map(number);
	need(edges.length > 2 && edges.every((edge, i) => !i || edges[i - 1] < edge));
	need(!isWhole || edges.every((edge) => Math.abs(edge) === Infinity || Number.isInteger(edge)));
	return { name: column.name, edges, whole: isWhole };
}

function readFeatures({ mechanism, sampled: m, tables: stated }, sizes) {
	const d = sizes.length, joint = mechanism === "joint_grr";
	need(whole(m) && m <= d && d <= 2 ** 14 && m * (d - m) <= 1e6);
	const domains = joint ? products(sizes, m) : sizes;
	need(list(stated).length === domains.length);
	const read = domains.map((k, i) => readTable(stated[i], k)), costs = read.map(cost).sort((a, b) => b - a);
	const x = add(...costs.slice(0, joint ? 1 : m));
	if (!joint) return { sizes, sampled: m, tables: read, x, levels: mechanism === "grr" ? [] : levelsOf(read, m) };
	const tables = {}, found = {}, others = (i) => products(sizes.filter((_, j) => j !== i), m - 1);
	domains.forEach((k, i) => (tables[k] = read[i]));
	const levels = sizes.map((k, i) => (found[k] ??= Math.max(...others(i).map((rest) => cost(tables[rest * k])))));
	return { sizes, sampled: m, joint, tables, x, levels };
}

/** Products of m of the sizes, ascending. */
function products(sizes, m) {
	const found = [new Set([1])], few = [...sizes].sort().filter((k, i, all) => k !== all[i - m]);
	for (const k of few) for (let t = m; t; t--) found[t - 1]?.forEach((each) =>
		(found[t] ??= new Set()).add(must(each * k, each * k <= 2 ** 16)));
	return [...found[m]].sort((a, b) => a - b);
}

/** yes: words that name the truth; no: others; w: size of a set. */
function readTable(table, k, w) {
	keys(table, `domain_size ${w ? "inside outside size" : "other true"}`);
	const yes = table[w ? "inside" : "true"], no = table[w ? "outside" : "other"], read = { k, w, yes, no };
	// A sum beyond 2 ** 53 could be rounded to it.
	need(Object.values(table).every(whole) && table.domain_size === k && table.size === w && !(w >= k)
		&& WORDS - no * (w ? 1 : k - 1) === yes && isLarger(oddsOf(read)));
	return read;
}

const oddsOf = ({ k, w, yes, no }) => [BigInt(w ? k - w : 1) * BigInt(yes), BigInt(w ?? 1) * BigInt(no)];
const isLarger = ([a, b]) => a > b;
const known = new Map(); // tables repeat

function cost(table) {
	const odds = oddsOf(table), key = odds.join();
	if (!known.has(key)) known.set(key, epsilonOf(...odds));
	return known.get(key);
}

function check(stated, { features, label }, found) {
	const { user_level: user, attribute_level: levels } = keys(stated, "attribute_level user_level"), total = add(features, label);
	keys(user, "features label total");
	agree([user.features, user.label, user.total, ...list(levels)], [features, label, total, ...found]);
	return total;
}

const agree = (texts, exact) => need(texts.length === exact.length && exact.every((e, i) => Math.abs(number(texts[i]) - e) <= slack(e)),
	"The tables do not give the stated guarantee.");

/** ln of the likelihood ratio if one feature alone matches, from elementary symmetric polynomials. */
function levelsOf(tables, m) {
	const d = tables.length, misses = tables.map(({ k, no }) => k * no), scale = m / (d - m + 1) / Math.max(...misses);
	const x = misses.map((miss) => miss * scale);
	/** Of the first features, each row scaled. */
	const rows = (factors) => {
		const made = [{ 0: 1 }];
		factors.forEach((factor, i) => {
			const row = made[i], next = (made[++i] = {});
			for (let t = Math.max(0, m - d + i); t <= i && t <= m; t++) next[t] = (row[t] ?? 0) + factor * (row[t - 1] ?? 0);
			const top = Math.max(...Object.values(next));
			for (const t in next) next[t] /= top;
		});
		return made;
	};
	const before = rows(x), after = rows([...x].reverse()).reverse();
	return tables.map(({ k, yes, no }, i) => {
		const sum = (degree) => Object.keys(before[i]).reduce((all, t) => all + before[i][t] * (after[i + 1][degree - t] ?? 0), 0);
		const taking = sum(m - 1);
		need(taking > 1e-250); // underflow
		return lifted(Math.log1p((k * (yes - no) * scale * taking) / (sum(m) + x[i] * taking)));
	});
}

// Epsilons are numbers whose texts are not below them: they are added and rounded as texts, in units of 10 ** -40.
const PLACES = 40, UNIT = 10n ** BigInt(PLACES);

const dividedUp = (a, b) => (a > 0n ? (a + b - 1n) / b : a / b);

function unitsOf(x) {
	const [, sign, digits, more = "", power = 0] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(`${x}`);
	const shift = PLACES + Number(power) - more.length, all = BigInt(sign + digits + more);
	return shift < 0 ? dividedUp(all, 10n ** BigInt(-shift)) : all * 10n ** BigInt(shift);
}

/** Return the least number above 0 whose text is not below this many units. */
function numberOf(units) {
	const x = new Float64Array([Number(`${units}e-${PLACES}`)]), bits = new BigUint64Array(x.buffer);
	while (unitsOf(x[0]) < units) bits[0] += 1n;
	return x[0];
}

/** Return ln(a / b) in units, below the exact value by less than `ERROR`; a is not below b. */
function logOf(a, b) {
	let halved = 0n, half = b;
	while (a >= 2n * half) { half *= 2n; halved += 1n; }
	return halved * doubleArtanh(1n, 3n) + doubleArtanh(a - half, a + half);
}

const ERROR = 10n ** 10n;

function doubleArtanh(a, b) {
	let all = 0n, power = (UNIT * a) / b;
	for (let n = 1n, square = (power * power) / UNIT; power; n += 2n, power = (power * square) / UNIT) all += power / n;
	return 2n * all;
}

/** Return an epsilon: so many times ln(a / b), rounded up. */
const epsilonOf = (a, b, times = 1n) => numberOf(times * (logOf(a, b) + ERROR));

/** Add epsilons as they are written; the sum is rounded up. */
export const add = (...epsilons) =>
	(epsilons.includes(Infinity) ? Infinity : numberOf(epsilons.reduce((all, each) => all + unitsOf(each), 0n)));

/** Round a number up, as it is written, to so many decimals. */
export const roundedUp = (x, digits) =>
	(Number.isFinite(x) ? Number(`${dividedUp(unitsOf(x), 10n ** BigInt(PLACES - digits))}e-${digits}`) : x);

/** Tell whether an epsilon is at most ln(a / b), for whole numbers a and b. */
export const isWithinOdds = (epsilon, a, b) => Number.isFinite(epsilon) && unitsOf(epsilon) <= logOf(BigInt(a), BigInt(b));

/**
 * Return how many times in 100 a guess is right at most, if it was right 50 times before; 100 stands for near certainty.
 *
 * Rounded up: to whole numbers, above 99 to one decimal.
 */
export const raised = (epsilon) => (CHANCES.find((tenths) => isWithinOdds(epsilon, tenths, 1000 - tenths)) ?? 1000) / 10;

const CHANCES = [...Array(50).keys()].map((n) => 500 + 10 * n).concat([...Array(9).keys()].map((n) => 991 + n));

/** Return what floating point may have rounded off. */
const lifted = (epsilon) => epsilon + slack(epsilon) / 10;

const slack = (epsilon) => 1e-9 * Math.max(1, epsilon);
export const within = (epsilon, limit) => epsilon <= limit + slack(limit);

/** Canonical JSON: sorted, no spaces, ASCII. */
export function canonical(value) {
	if (Array.isArray(value)) return `[${value.map(canonical)}]`;
	if (isObject(value)) return `{${Object.keys(value).sort(byCodePoint).map((k) => `${canonical(k)}:${canonical(value[k])}`)}}`;
	return JSON.stringify(value).replace(/[\x7f-\uffff]/g, (c) => `\\u${hex(c.charCodeAt(), 4)}`);
}

/**
 * Write a report as it is sent: spaces give all reports of a campaign one length, whatever they say. The id counts as a
 * multiple of 256 bytes.
 */
export const padded = (question, report) =>
	canonical(report).padEnd(canonical(longest(question)).length + Math.ceil((canonical(report.node).length - 2) / 256) * 256);

/** No report of the campaign is longer, about a node without a name. */
function longest({ id: campaign, features, label, waves, asked }) {
	const longer = (...each) => each.sort((a, b) => canonical(b).length - canonical(a).length)[0];
	const last = ({ k, w }) => (w ? [...Array(k).keys()].slice(-w) : k - 1), said = { campaign, node: "" };
	if (asked) return { ...said, answer: asked.sets ? last(asked.sets) : asked.list
		? "A".repeat(Math.ceil(Math.ceil(asked.people / 8) * 4 / 3)) : Array(asked.k).fill(-asked.largest) };
	const codes = features?.sizes.map((k) => (features.joint || features.series ? longer(k - 1, null) : k - 1)) ?? null;
	return { ...said, features: codes, label: label ? longer(last(label.table), null) : null, ...(waves && { wave: waves.count }) };
}

/** Order as Python does: surrogates stand for the largest code points. */
const byCodePoint = (...names) => {
	const [a, b] = names.map((name) => name.replace(/[\ud800-\udfff]/g, "\uffff$&"));
	return a < b ? -1 : 1;
};

export async function sha256(text) {
	need(globalThis.crypto?.subtle, "Open this page over https.");
	const digest = await crypto.subtle.digest("SHA-256", isText(text) ? new TextEncoder().encode(text) : text);
	return [...new Uint8Array(digest)].map((byte) => hex(byte, 2)).join("");
}

/**
 * Parse canonical JSON; any other text is undefined, since two readers could understand it differently. So is one that
 * is too long or too deep.
 */
export function parse(text) {
	try {
		const value = text.length <= LONGEST ? JSON.parse(text) : undefined;
		return isWithin(value, DEEPEST) && canonical(value) === text.replace(/\n$/, "") ? value : undefined;
	} catch { return undefined; }
}

/** Tell whether a value has at most so many levels of lists and objects. */
const isWithin = (value, levels) => !isObject(value) || (levels > 0 && Object.values(value).every((each) => isWithin(each, levels - 1)));

const hex = (value, digits) => value.toString(16).padStart(digits, "0");
const sum = (all) => all.reduce((a, b) => a + b, 0);
const isObject = (value) => Object(value) === value;
const isText = (value) => typeof value === "string";
const whole = (value) => Number.isSafeInteger(value) && value > 0;
const must = (value, condition) => need(condition) ?? value;
const keys = (value, names) => must(value, isObject(value) && Object.keys(value).sort().join(" ") === names);
const entries = (value) => Object.entries(must(value, isObject(value) && !Array.isArray(value)));
const date = (text) => new Date(must(text, /^[1-9]/.test(text) && new Date(text).toISOString() === text.replace("Z", ".000Z")));
const list = (value, least = 0) => must(value, Array.isArray(value) && value.length >= least);
const isClear = (text) => isText(text) && /^.{0,4000}$/u.test(text) && !MISLEADING.test(text);
const isName = (text) => isClear(text) && text !== "";
const distinct = (texts, are, least = 2) => must(texts, list(texts, least).every(are) && new Set(texts.map(look)).size === texts.length);
/** Texts with the same normal form look alike. */
const look = (text) => text.replace(/[\u200c\u200d\ufe0e\ufe0f]/g, "").normalize("NFKC").replace(/[ \u1680]+/g, " ").replace(/^ | $/g, "");
const number = (text) => Number(must(text, isText(text) && NUMBER.test(text)));
/** For the module beside this one. */
export const internals = { WORDS, add, agree, below, cost, distinct, epsilonOf, guarded, isName, keys, list, look, number, part, readNotice, readTable, respond, systemWord, whole };
