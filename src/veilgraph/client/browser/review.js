// The review of a report before it is sent: for each question what was entered, and what the report says.

import { element, isolated } from "./elements.js";
import { asText, questionsOf, textsOf } from "./form.js";
import { phrase, sentence } from "./wording.js";

/** Return the rows of a check: a question, and what the person has entered. */
export const entries = (question, entered) =>
  questionsOf(question).map((column) => [asText(question, column), was(question, column, entered)]);

/** Return the rows of the review: a question, the person's answer while it is known, and what is sent. */
export function rows(question, report, entered) {
  const { columns, group, label } = question;
  const known = (say) => (entered ? [say()] : []);
  const features = (report.features ?? []).map((code, i) => {
    const members = columns.slice(i * group, (i + 1) * group);
    const [first] = members;
    if (members.length === 1)
      return [
        asText(question, first),
        ...known(() => was(question, first, entered)),
        named(question, first, code),
      ];
    const low = asText(question, first);
    return [
      element("span", {}, ...phrase("range", { low, high: asText(question, members.at(-1)) })),
      ...known(() => sentence(`review.${mergedAnswer(members, entered)}`)),
      code === null ? sentence("review.out") : sentence(["review.none", "review.any"][code]),
    ];
  });
  return label ? [...features, labelRow(question, report.label, entered)] : features;
}

/** Return the row of the last question: of several answers, it says whether the own is among them. */
function labelRow(question, said, entered) {
  const { label } = question;
  const before = entered ? [was(question, label, entered)] : [];
  if (!said?.length) return [asText(question, label), ...before, named(question, label, said)];
  if (entered) {
    const isHeld = said.includes(label.values.indexOf(entered[label.name]));
    const remark = element("span", { class: "quiet" }, ...phrase(isHeld ? "review.among" : "review.apart"));
    before.push(element("br", {}), remark);
  }
  const set = said.map((code) => element("li", {}, named(question, label, code)));
  return [asText(question, label), ...(entered ? [before] : []), element("ul", { class: "set" }, ...set)];
}

/** Return what is known of columns that are merged: one that is left out leaves out all. */
function mergedAnswer(members, entered) {
  if (members.some(({ name }) => entered[name] === null)) return "skipped";
  return members.some(({ name, values }) => values.indexOf(entered[name]) > 0) ? "any" : "none";
}

function was(question, column, entered) {
  const given = entered[column.name];
  if (given === null) return sentence("review.skipped");
  return isolated(column.values ? textsOf(question, column).answer(given) : given);
}

function named(question, column, code) {
  if (code === null) return sentence("review.out");
  const { values, edges, whole } = column;
  if (!edges) return isolated(textsOf(question, column).answer(values[code]));
  const [low, high] = [edges[code], edges[code + 1]];
  const isLast = code === edges.length - 2;
  if (low === -Infinity && !isLast) return sentence("range.most", { high });
  if (high === Infinity) return sentence("range.least", { low });
  if (isLast) return sentence("range", { low, high });
  if (!whole) return sentence("range.below", { low, high });
  return high === low + 1 ? isolated(`${low}`) : sentence("range", { low, high: high - 1 });
}
