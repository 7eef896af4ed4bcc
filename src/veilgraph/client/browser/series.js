// What all rounds of a series reveal together about one question, under each relation between two histories.

import { lifted } from "./epsilons.js";

const WORDS = 2 ** 53;
const MOST_DIVISIONS = 4000; // of reports among the values of a history, enumerated; beyond it a bound counts

const sum = (all) => all.reduce((total, next) => total + next, 0);

const known = new Map(); // tables repeat

/** Return the epsilons of all rounds by relation. */
export function seriesCosts(first, table, count, values, optional = false) {
  const key = [first.domainSize, first.yes, table.yes, count, values, optional].join();
  if (!known.has(key)) known.set(key, computed(first, table, count, values, optional));
  return known.get(key);
}

/** With x = rho ** n - 1 for n equal reports, a value costs ln((1 + p x) / (1 + q x)). */
function computed(first, table, count, values, optional) {
  const groups = Math.min(values, count);
  const rate = Math.log(table.yes / table.no);
  const growth = Array.from({ length: count + 1 }, (_, equal) => Math.expm1(equal * rate));
  const single = (equal) =>
    Math.log1p((first.yes / WORDS) * growth[equal]) - Math.log1p((first.no / WORDS) * growth[equal]);
  const same_pattern = Math.max(...[...partitions(count, groups)].map((counts) => sum(counts.map(single))));
  const unchanged = lifted(single(count));
  return {
    any_histories: groups > 1 ? lifted(anyHistories(first, growth, groups, optional)) : unchanged,
    same_pattern: lifted(same_pattern),
    unchanged,
  };
}

/** The largest log-ratio of reports under any two histories: the most promising counts come first. */
function anyHistories({ domainSize, yes, no }, growth, groups, optional) {
  const [own, other] = [yes / WORDS, no / WORDS];
  const none = domainSize; // the code of an answer that is left out
  const factor = (value, counts) =>
    Math.log1p(
      sum(
        counts.map(
          (equal, i) => (value === none ? 1 / domainSize : i === value ? own : other) * growth[equal],
        ),
      ),
    );
  /** Least for values that no report names: even. */
  const even = (counts, groups) =>
    sum(
      [...Array(groups).keys()].map((i) =>
        factor(
          -1,
          counts.map((equal) => Math.floor((equal + i) / groups)),
        ),
      ),
    );
  const most = (counts) => {
    const terms = counts.map((equal, i) => (i < groups ? own : other) * growth[equal]);
    const apart = sum(terms.map(Math.log1p));
    if (counts.length <= groups) return apart;
    return Math.min(
      apart,
      groups * Math.log1p(sum(terms) / groups),
      sum(counts.slice(0, groups)) * Math.log1p(growth[1]),
    );
  };
  const least = (counts) => {
    const unnamed = Math.min(domainSize - counts.length, groups);
    const free = groups - Math.max(unnamed, 1);
    const known = {};
    if (counts.reduce((all, equal) => all * choose(equal + free, free), 1) > MOST_DIVISIONS)
      return even(counts, groups);
    const shared = (values, rest) => {
      if (!values.length) return even(rest, unnamed);
      const [value, ...others] = values;
      return !others.length && !unnamed
        ? factor(value, rest)
        : (known[[values, rest].join(";")] ??= Math.min(
            ...[...divisions(rest)].map(
              (taken) =>
                factor(value, taken) +
                shared(
                  others,
                  rest.map((equal, at) => equal - taken[at]),
                ),
            ),
          ));
    };
    const named = [...(optional ? [none] : []), ...counts.keys()];
    return Math.min(...[...choices(named, groups - unnamed)].map((values) => shared(values, counts)));
  };
  const bounds = [...partitions(growth.length - 1, domainSize)].map((counts) => ({
    counts,
    bound: most(counts) - even(counts, groups),
  }));
  let found = 0;
  for (const { counts, bound } of bounds.sort((first, second) => second.bound - first.bound)) {
    if (bound <= found) break;
    found = Math.max(found, most(counts) - least(counts));
  }
  return found;
}

const choose = (count, wanted) => (wanted ? (choose(count - 1, wanted - 1) * count) / wanted : 1);

/** What a value can have of these counts. */
function* divisions([most, ...more]) {
  if (most === undefined) yield [];
  else for (const rest of divisions(more)) for (let taken = 0; taken <= most; taken++) yield [taken, ...rest];
}

/** All ways to take m of these. */
function* choices([first, ...more], wanted) {
  if (!wanted) yield [];
  else if (first !== undefined) {
    for (const rest of choices(more, wanted - 1)) yield [first, ...rest];
    yield* choices(more, wanted);
  }
}

/** Falling sequences of at most `most` whole numbers with a given sum. */
function* partitions(total, most, largest = total) {
  if (!total) yield [];
  else if (most)
    for (let next = Math.min(total, largest); next; next--)
      for (const rest of partitions(total - next, most - 1, next)) yield [next, ...rest];
}
