// What an epsilon means: how much more certain a guess can become, in figures that everyone knows.

import { element } from "./elements.js";
import { number, phrase, sentence } from "./wording.js";

/** Say how sure a guess can become for what a phrase names. */
export const level = (epsilon, key, values) =>
  element("li", {}, element("strong", {}, certainty(epsilon)), " ", ...phrase(key, values));

/** Say how many times in 100 a guess is right at most, if it was right 50 times before. */
export function certainty(epsilon) {
  const most = raised(Number(epsilon));
  return most > 99.9 ? sentence("chance.certain") : sentence("chance", { n: roundedUp(most, most > 99 ? 1 : 0) });
}

/** Say how likely it is that something true is named. */
export const likely = (share) => (share > 0.99 ? sentence("chance.high") : sentence("chance", { n: roundedUp(100 * share, 0) }));

/** Return how many times in 100 a guess is right at most, if it was right 50 times before. */
export const raised = (epsilon) => 100 / (1 + Math.exp(-epsilon));

export const roundedUp = (x, digits) => Math.ceil(x * 10 ** digits - 1e-5) / 10 ** digits + 0; // no negative zero

/** Write how many times as likely a report is at most: three digits, rounded up. */
export function factor(epsilon) {
  const times = Math.exp(epsilon);
  if (times >= 1e6) return `${number(10)}^${number(Math.ceil(epsilon / Math.LN10))}`;
  return number(roundedUp(times, Math.max(0, 2 - Math.floor(Math.log10(times)))));
}

/** Privacy points are epsilons: written with two decimals, rounded up. */
export const points = (epsilon) => number(roundedUp(epsilon, 2));
