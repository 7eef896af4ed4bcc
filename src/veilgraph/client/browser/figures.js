// What an epsilon means: how much more certain a guess can become, in figures that everyone knows.

import { $, element } from "./elements.js";
import { isWithinOdds, raised, roundedUp } from "./epsilons.js";
import { number, phrase, sentence } from "./wording.js";

/** Say how sure a guess can become for what a phrase names. */
export const level = (epsilon, key, values) =>
  element("li", {}, element("strong", {}, certainty(epsilon)), " ", ...phrase(key, values));

/** Say how sure a guess can become for what a phrase names, and from where, as the one figure of the page. */
export function showFigure(epsilon, key, values) {
  const times = raised(epsilon);
  const most = times === 100 ? sentence("chance.certain") : sentence("chance.from", { n: times });
  $("figure").replaceChildren(element("strong", {}, most), " ", ...phrase(key, values));
}

/** Say how many times in 100 a guess is right at most, if it was right 50 times before. */
export function certainty(epsilon) {
  const most = raised(epsilon);
  return most === 100 ? sentence("chance.certain") : sentence("chance", { n: most });
}

/** Say how likely it is that something true is named. */
export const likely = (share) =>
  share > 0.99 ? sentence("chance.high") : sentence("chance", { n: roundedUp(100 * share, 0) });

/** Write how many times as likely a report is at most: three digits, rounded up. */
export function factor(epsilon) {
  const times = Math.exp(epsilon);
  if (times >= 1e6) return `${number(10)}^${number(Math.ceil(epsilon / Math.LN10 + 1e-9))}`;
  const unit = 10 ** Math.max(0, 2 - Math.floor(Math.log10(times)));
  const least = Math.ceil(times * unit * (1 - 1e-12));
  return number((isWithinOdds(epsilon, least, unit) ? least : least + 1) / unit);
}

/** Privacy points are epsilons: written with two decimals, rounded up. */
export const points = (epsilon) => number(roundedUp(epsilon, 2));
