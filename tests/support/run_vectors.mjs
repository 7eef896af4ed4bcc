// Reads a JSON request from standard input, answers with what the browser's module makes of it.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const module = await import(pathToFileURL(process.argv[2]));
const request = JSON.parse(readFileSync(0, "utf-8"));
const now = new Date(request.now ?? Date.now());
const maxEpsilon = request.maxEpsilon ?? 1e6;

async function attempt(work) {
  try {
    return { result: await work() };
  } catch (error) {
    return { error: error instanceof module.VeilgraphError ? error.message : `CRASH ${error.stack}` };
  }
}

const work = {
  vectors: ({ campaign, cases }) => attempt(async () => {
    const question = await module.verify(campaign, { maxEpsilon, now });
    return cases.map(({ record, words }) => {
      let next = 0;
      const [features, label] = module.randomize(question, ...module.encode(question, record), () => words[next++]);
      return { features, label, consumed: next };
    });
  }),
  verify: (campaign) => attempt(async () => {
    const { epsilon, id } = await module.verify(campaign, { maxEpsilon, now });
    return { epsilon, id };
  }),
  encode: ({ campaign, record }) => attempt(async () =>
    module.encode(await module.verify(campaign, { maxEpsilon, now }), record)),
  answer: async ({ campaign, record, node, times, planted }) => attempt(async () => {
    const kept = new Map(Object.entries(planted ?? {}));
    const storage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value) };
    const reports = [];
    for (let i = 0; i < times; i++)
      reports.push(await module.answer(campaign, record, { node, storage, maxEpsilon, now }));
    return { reports, kept: Object.fromEntries(kept) };
  }),
  // The operating system's randomness, as it comes from the browser: pairs of 32 bits.
  system: ({ campaign, cases }) => attempt(async () => {
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
  canonical: (value) => attempt(() => module.canonical(value)),
};

console.log(JSON.stringify(await Promise.all(request.items.map((item) => work[request.work](item)))));
