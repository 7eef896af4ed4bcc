// Reads requests from standard input, one JSON document per line, and answers each with a line: what the
// browser's module makes of it.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const module = {
  ...(await load("epsilons.js")),
  ...(await load("veilgraph.js")),
  ...(await load("device.js")),
  ...(await load("neighbours.js")),
};
let now, maxEpsilon;

function load(name) {
  return import(pathToFileURL(`${process.argv[2]}/${name}`));
}

const bytes = (text) => text && Buffer.from(text, "base64");

async function attempt(work) {
  try {
    return { result: await work() };
  } catch (error) {
    return { error: error instanceof module.VeilgraphError ? error.message : `CRASH ${error.stack}` };
  }
}

/** A storage, and locks that are granted in order. */
function makeDevice(planted = {}) {
  const kept = new Map(Object.entries(planted));
  const storage = {
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, value) => kept.set(key, value),
    removeItem: (key) => kept.delete(key),
    key: (i) => [...kept.keys()][i],
    get length() {
      return kept.size;
    },
  };
  let last = Promise.resolve();
  const request = (_, work) => {
    const mine = last.then(work);
    last = mine.catch(() => null);
    return mine;
  };
  return { storage, locks: { request }, settle: 0, kept: () => Object.fromEntries(kept) };
}

function spent({ storage }) {
  try {
    return module.total(module.answered(storage));
  } catch {
    return null;
  }
}

const work = {
  vectors: ({ campaign, cases }) =>
    attempt(async () => {
      const question = await module.verify(campaign, { maxEpsilon, now });
      return cases.map(({ record, words }) => {
        let next = 0;
        const [features, label] = module.randomize(
          question,
          ...module.encode(question, record),
          () => words[next++],
        );
        return { features, label, consumed: next };
      });
    }),
  // All rounds of a series, one campaign for each, from one stream of words.
  rounds: ({ campaigns, values, features, words }) =>
    attempt(async () => {
      let next = 0,
        memory = module.UNANSWERED;
      for (const [i, value] of values.entries()) {
        const question = await module.verify(campaigns[i], { maxEpsilon, now });
        memory = module.randomizeRound(question, memory, features?.[i] ?? null, value, () => words[next++]);
      }
      const kept = Object.entries(memory.features ?? {}).map(([i, each]) => [i, Object.values(each.reports)]);
      return {
        reports: Object.values(memory.reports),
        consumed: next,
        ...(features && { features: Object.fromEntries(kept) }),
      };
    }),
  verify: (campaign) =>
    attempt(async () => {
      const { epsilon, id } = await module.verify(campaign, { maxEpsilon, now });
      return { epsilon, id };
    }),
  // Microseconds of the processor that a check takes.
  effort: (campaign) =>
    attempt(async () => {
      const before = process.cpuUsage();
      await module.verify(campaign, { maxEpsilon, now });
      return process.cpuUsage(before).user;
    }),
  costWithLost: ({ campaign, lost }) =>
    attempt(async () => module.costWithLost(await module.verify(campaign, { maxEpsilon, now }), lost)),
  parts: (campaign) => attempt(async () => Object.keys(await module.verify(campaign, { maxEpsilon, now }))),
  notice: (campaign) => attempt(async () => (await module.verify(campaign, { maxEpsilon, now })).notice),
  encode: ({ campaign, record }) =>
    attempt(async () => module.encode(await module.verify(campaign, { maxEpsilon, now }), record)),
  // Values that quote a secret in their errors; returns the messages of those that are refused.
  explode: ({ campaign, record, name, secret }) =>
    attempt(async () => {
      const question = await module.verify(campaign, { maxEpsilon, now });
      const explode = () => {
        throw new TypeError(secret);
      };
      const values = [
        { toString: explode, valueOf: explode },
        Symbol(secret),
        BigInt(secret),
        () => secret,
        [secret],
      ];
      const odd = [
        ...values.map((value) => ({ ...record, [name]: value })),
        null,
        undefined,
        secret,
        Object.defineProperty({ ...record }, name, { get: explode }),
        new Proxy(record, { get: explode, getOwnPropertyDescriptor: explode }),
      ];
      const messages = await Promise.all(odd.map((each) => attempt(() => module.encode(question, each))));
      return messages.filter(({ error }) => error).map(({ error }) => error);
    }),
  answer: async ({ campaign, record, node, times, planted }) =>
    attempt(async () => {
      const device = makeDevice(planted);
      const reports = [];
      for (let i = 0; i < times; i++)
        reports.push(await module.answer(campaign, record, { node, ...device, maxEpsilon, now }));
      return { reports, kept: device.kept() };
    }),
  // Requests to one device in turn, within the limit that it keeps; the last campaign but one is asked about
  // retention.
  ledger: ({ planted, limit, requests }) =>
    attempt(async () => {
      const device = makeDevice(planted),
        replies = [];
      if (limit !== null) module.setLimit(device.storage, limit);
      for (const { campaign, record, ...settings } of requests)
        replies.push(await attempt(() => module.answer(campaign, record, { ...device, now, ...settings })));
      const broken =
        requests.length > 1
          ? module.brokenRetention(
              await module.verify(requests.at(-2).campaign, { maxEpsilon, now }),
              device.storage,
            )
          : null;
      return { replies, broken, ledger: module.ledger(device.storage) };
    }),
  // Many requests to one device at once, each with its own campaign, node and limit. Any of them may come
  // first.
  at_once: ({ planted, requests }) => {
    const device = makeDevice(planted);
    const answered = requests.map(({ campaign, record, ...settings }) =>
      attempt(() => module.answer(campaign, record, { ...device, maxEpsilon, now, ...settings })),
    );
    return attempt(async () => ({
      replies: await Promise.all(answered),
      kept: device.kept(),
      spent: spent(device),
    }));
  },
  // Two tabs at once: each has a view of the storage of its own, and sees what the other wrote a moment later.
  tabs: ({ requests }) => {
    const tabs = requests.map(() => makeDevice()),
      write = tabs.map(({ storage }) => storage.setItem);
    for (const [mine, { storage }] of tabs.entries())
      storage.setItem = (...entry) =>
        write.forEach((set, i) => (i === mine ? set(...entry) : setTimeout(() => set(...entry), 10)));
    const answered = requests.map(({ campaign, record, ...settings }, i) =>
      attempt(() =>
        module.answer(campaign, record, {
          ...tabs[i],
          locks: tabs[0].locks,
          settle: 50,
          maxEpsilon,
          now,
          ...settings,
        }),
      ),
    );
    return attempt(() => Promise.all(answered));
  },
  // The same, one after the other.
  sequence: ({ planted, requests }) =>
    attempt(async () => {
      const device = makeDevice(planted),
        replies = [];
      for (const { campaign, record, ...settings } of requests)
        replies.push(
          await attempt(() => module.answer(campaign, record, { ...device, maxEpsilon, now, ...settings })),
        );
      return { replies, kept: device.kept(), spent: spent(device) };
    }),
  // The operating system's randomness, as it comes from the browser: pairs of 32 bits.
  system: ({ campaign, cases }) =>
    attempt(async () => {
      const question = await module.verify(campaign, { maxEpsilon, now });
      return cases.map(({ record, pairs }) => {
        const left = [...pairs];
        crypto.getRandomValues = (array) => (array.set(left.shift()), array);
        try {
          return module.randomize(question, ...module.encode(question, record));
        } finally {
          delete crypto.getRandomValues;
        }
      });
    }),
  // What lists of neighbours are in what is published, sums or rows, and the answers that words make of it.
  neighbours: ({ people, table, hashes, nodes, classes, mechanism, cases }) =>
    attempt(async () => {
      const wave = { people: hashes[0], table: hashes[1], nodes, classes: Array(classes).fill("") };
      const published = await module.readPublished(wave, bytes(people), bytes(table));
      return Promise.all(
        cases.map(async ({ list, words }) => {
          let next = 0;
          const found =
            table === null
              ? { rows: await module.rowsOf(published, list) }
              : { sums: await module.sumsOf(published, list) };
          const answer =
            words &&
            (await module.randomizeNeighbours({ asked: mechanism }, published, list, () => words[next++]));
          return { ...found, answer, consumed: next };
        }),
      );
    }),
  // How often each answer to the same sums or rows is drawn, with the system's randomness.
  draws: ({ mechanism, sums, rows, times }) =>
    attempt(() => {
      const seen = {},
        asked = mechanism,
        draw = () => (rows ? module.randomizeRows({ asked }, rows) : module.randomizeSums({ asked }, sums));
      for (let i = 0; i < times; i++) {
        const answer = String(draw());
        seen[answer] = (seen[answer] ?? 0) + 1;
      }
      return seen;
    }),
  verifyWave: (campaign) =>
    attempt(async () => {
      const { id, costs, wave, turns, series } = await module.verifyWave(campaign, {
        maxEpsilon,
        maxEntryEpsilon: maxEpsilon,
        now,
      });
      return { id, costs, wave, turns, series };
    }),
  // Campaigns and waves to one device, one after the other; says how often the list was looked at.
  waveDevice: ({ planted, limit, entryLimit, requests }) =>
    attempt(async () => {
      const device = makeDevice(planted),
        replies = [];
      if (limit) module.setLimit(device.storage, limit);
      if (entryLimit) module.setEntryLimit(device.storage, entryLimit);
      for (const { campaign, record, people, table, list, ...settings } of requests) {
        let looks = 0,
          unlisted = null;
        const neighbours = { [Symbol.iterator]: () => (looks++, list[Symbol.iterator]()) };
        const options = {
          ...device,
          now,
          unlisted: (names) => {
            unlisted = names;
          },
          ...settings,
        };
        const files = { people: bytes(people), table: bytes(table), neighbours };
        const reply = await attempt(() =>
          record
            ? module.answer(campaign, record, options)
            : module.answerNeighbours(campaign, files, options),
        );
        replies.push({ ...reply, looks, unlisted });
      }
      return { replies, kept: device.kept(), spent: spent(device) };
    }),
  // Reports as they are sent.
  sent: ({ campaign, reports }) =>
    attempt(async () => {
      const isWave = JSON.parse(campaign).format === 4,
        limits = { maxEpsilon, maxEntryEpsilon: maxEpsilon, now: new Date(0) };
      const question = await (isWave ? module.verifyWave : module.verify)(campaign, limits);
      return reports.map((report) => module.padded(question, report));
    }),
  look: (texts) => attempt(() => texts.map(module.internals.look)),
  add: (epsilons) => attempt(() => module.add(...epsilons)),
  total: (epsilons) => attempt(() => module.total(epsilons.map((epsilon) => ({ epsilon })))),
  shown: (epsilon) => attempt(() => module.shown(epsilon)),
  roundedUp: ([x, digits]) => attempt(() => module.roundedUp(x, digits)),
  raised: (epsilon) => attempt(() => module.raised(epsilon)),
  turnOf: ({ id, turns }) => attempt(() => module.turnOf(id, turns)),
  listLoss: (mechanism) => attempt(() => module.listLoss(mechanism)), // Infinity becomes null in JSON
  canonical: (value) => attempt(() => module.canonical(value)),
};

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  now = new Date(request.now ?? Date.now());
  maxEpsilon = request.maxEpsilon ?? 1e6;
  console.log(JSON.stringify(await Promise.all(request.items.map((item) => work[request.work](item)))));
}
