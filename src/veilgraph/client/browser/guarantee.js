// What the page says about privacy: what an answer can give away, what it costs, and what was spent.

import { answered, isLimitLost, leavesListOpen, total } from "./device.js";
import { $, element } from "./elements.js";
import { add, raised, within } from "./epsilons.js";
import { factor, level, points, showFigure } from "./figures.js";
import { labelInWords, questionsOf } from "./form.js";
import { phrase, say } from "./wording.js";

/** Say what the answers to a campaign can give away: one figure, and the rest below it. */
export function explainGuarantee(question, contacts) {
  explainRounds(question);
  if (contacts) return contacts.explain(question);
  const { epsilon, parts, features, label, rounds } = question;
  const isSingle = questionsOf(question).length === 1;
  const all = rounds ? "level.rounds" : isSingle ? "level.only" : "level.all";
  showFigure(epsilon, all, rounds ?? {});
  say($("how-sure"), "guarantee.limit");
  $("levels").replaceChildren(
    level(epsilon, all, rounds ?? {}),
    ...(rounds ? [level(rounds.costs.unchanged, isSingle ? "level.unchanged" : "level.unchanged.all")] : []),
    ...(features && label ? [level(parts.label, "level.last")] : []),
    ...(features && !isSingle
      ? [level(Math.max(...features.levels), label ? "level.other" : "level.each")]
      : []),
  );
  say($("exact"), "details.exact", { factor: factor(epsilon) });
  say($("unprotected"), "details.unprotected");
  say($("weak"), rounds ? "weak.rounds" : "weak", rounds ?? {});
  $("weak").hidden = epsilon < Math.log(99);
  $("meaning").replaceChildren(...(label ? labelInWords(question) : []));
  explainWhatFollows(question);
}

/** Say that questions about contacts follow, and what is published before them. */
function explainWhatFollows({ follows }) {
  $("published").hidden = !follows;
  $("published").replaceChildren(
    ...(follows ? phrase("follows") : []),
    ...(follows === "waves" ? [" ", ...phrase("guarantee.published")] : []),
  );
}

function explainRounds({ rounds, notice, features }) {
  say($("stay"), rounds ? "answers.rounds" : "answers.stay");
  say($("once"), rounds ? "draw.round" : "draw.once");
  $("rounds").hidden = !rounds;
  $("round").hidden = !rounds || notice.round === null;
  if (!rounds) return;
  const { count, values } = rounds;
  say($("round"), "round", { round: notice.round ?? 0, count });
  const { sampled = 0, sizes = [] } = features ?? {};
  $("rounds").replaceChildren(
    ...phrase("rounds", { count }),
    " ",
    ...(sizes.length > sampled ? [...phrase("rounds.chosen", { m: sampled, d: sizes.length }), " "] : []),
    ...phrase("rounds.values", { values }),
  );
}

/** Say what an answer costs, whether it is counted already, and how much of a limit is spent. */
export function explainPoints(question, { contacts, limit, isCounted, isDrawn }) {
  const entries = answered(localStorage);
  const spent = total(entries);
  const cost = question.epsilon;
  const [one, two, four] = [1, 2, 4].map(raised);
  say($("points-meaning"), "points.meaning", { one, two, four });
  say($("cost"), question.rounds ? "points.rounds" : "points.cost", { cost: points(cost) });
  const isLost = isLimitLost(localStorage);
  say($("spent"), isLost ? "points.spent" : "points.used", {
    spent: points(spent),
    limit: points(isLost ? 0 : limit),
  });
  if (entries.some(leavesListOpen)) $("spent").append(" ", ...phrase("points.unprotected"));
  $("sum").hidden = isDrawn;
  if (contacts) contacts.explainCost(question);
  say($("sum"), isCounted ? "points.counted" : "points.sum", { sum: points(add(spent, cost)) });
  $("above").hidden = isDrawn || isCounted || within(add(spent, cost), limit);
  // What stands in the way of an answer is in sight.
  for (const part of ["more", "points", "limit-part"]) $(part).open ||= isLost || !$("above").hidden;
  $("ledger").hidden = !entries.length;
  $("entries").replaceChildren(...entries.map((entry) => element("li", {}, ...entryInWords(entry))));
}

/** Say what an answer costs, and not whose it is; of one that protects no whole list, for any one contact. */
function entryInWords(entry) {
  const isOpen = leavesListOpen(entry);
  return phrase(isOpen ? "points.entry.contact" : "points.entry", {
    points: points(isOpen ? Number(entry.neighbours.one_entry) : entry.epsilon),
    id: element("code", { dir: "ltr" }, `${entry.campaign.slice(0, 8)}…`),
  });
}
