// What a device remembers: it answers a campaign once, whatever node it is invited as, and adds its reports up.

import { canonical, encode, need, parse, randomize, shown, verify, within } from "./client.js";

const DAMAGED = "A stored report is damaged, and a second one would reveal more.";

/**
 * Return a person's report. It is drawn once and stored; later calls return the same one.
 *
 * All reports of the storage together stay within `maxEpsilon`: user level, any two records. `sharedDevice` lets
 * another person answer a campaign that was answered before. `locks` and `settle`, in milliseconds, are for tests.
 */
export async function answer(campaign, record, options) {
	const { node, storage, maxEpsilon, now, sharedDevice, locks = navigator.locks, settle = 500 } = options;
	const question = await verify(campaign, { maxEpsilon, now }), { id, epsilon } = question;
	need(/^(?!\.\.?$)[^\0-\x1f\x7f\ud800-\udfff]{1,256}$/u.test(node), "A node has 1 to 256 characters.");
	need(locks, "This browser is too old: two tabs could answer at once.");
	return locks.request("veilgraph", async () => {
		// Local storage that another tab wrote under the lock arrives after milliseconds.
		await new Promise((done) => setTimeout(done, settle));
		const kept = stored(question, storage), spent = total(answered(storage));
		if (kept.has(node)) return kept.get(node);
		need(!kept.size || sharedDevice === true, "This device has answered the campaign before, and answers it once.");
		need(within(spent + epsilon, maxEpsilon), `A report costs epsilon ${shown(epsilon)}. `
			+ `With ${shown(spent)} for earlier reports this is above your limit of ${maxEpsilon}.`);
		const [features, label] = randomize(question, ...encode(question, record));
		storage.setItem(`veilgraph:${id}${kept.size ? `:${node}` : ""}`,
			canonical({ campaign: id, node, features, label, epsilon: `${epsilon}` }));
		return stored(question, storage).get(node);
	});
}

/** Return this device's reports for a verified campaign, by node. */
export function stored({ id, features, label }, storage) {
	const fits = (codes, tables) => codes === null
		|| (codes.length === tables?.length && codes.every((code, i) => code >= 0 && code < tables[i].domain_size));
	return new Map(answered(storage).filter(({ campaign }) => campaign === id).map(({ node, report }) => {
		const said = report.label === null ? null : [report.label];
		need(fits(report.features, features) && fits(said, label && [label.table]), DAMAGED);
		return [node, report];
	}));
}

/** List all reports of this device, with their epsilons. */
export function answered(storage) {
	const places = Array.from({ length: storage.length }, (_, i) => storage.key(i));
	return places.filter((place) => /^veilgraph:[0-9a-f]{64}(:|$)/.test(place)).map((place) => {
		const { epsilon, ...report } = parse(storage.getItem(place)) ?? {}, { campaign, node, features, label } = report;
		const codes = [features ?? [], label ?? []].flat();
		need(Object.keys(report).sort().join() === "campaign,features,label,node" && place.slice(10, 74) === campaign
			&& typeof node === "string" && codes.length && codes.every(Number.isSafeInteger), DAMAGED);
		need(/^(undefined|\d+(\.\d+)?(e-\d+)?)$/.test(epsilon), DAMAGED);
		// Earlier versions recorded no epsilon: that of a table is below ln(2 ** 53) < 36.74.
		return { campaign, node, report, epsilon: Number(epsilon ?? codes.length * 36.74) };
	});
}

/** Return the sum of the epsilons of reports: user level, any two records. */
export const total = (reports) => reports.reduce((sum, { epsilon }) => sum + epsilon, 0);
