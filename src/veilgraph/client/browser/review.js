// The review of a report before it is sent: for each question what was entered, and what the report says.

import { element, isolated } from "./elements.js";
import { asText, textsOf } from "./form.js";
import { phrase, sentence } from "./wording.js";

/** Return the rows of the review: a question, the person's answer, and what is sent in its place. */
export function rows(question, report, entered) {
  const { columns, group, label } = question;
  const features = (report.features ?? []).map((code, i) => {
    const members = columns.slice(i * group, (i + 1) * group);
    const [first] = members;
    if (members.length === 1)
      return [asText(question, first), was(question, first, entered), named(question, first, code)];
    const merged = entered && mergedAnswer(members, entered);
    const name = element(
      "span",
      {},
      ...phrase("range", { low: asText(question, first), high: asText(question, members.at(-1)) }),
    );
    return [
      name,
      sentence(merged ? `review.${merged}` : "review.forgotten"),
      code === null ? sentence("review.out") : sentence(["review.none", "review.any"][code]),
    ];
  });
  if (!label) return features;
  if (report.label === null)
    return [...features, [asText(question, label), was(question, label, entered), sentence("review.out")]];
  if (!report.label.length)
    return [
      ...features,
      [asText(question, label), was(question, label, entered), named(question, label, report.label)],
    ];
  const isHeld = entered && report.label.includes(label.values.indexOf(entered[label.name]));
  const remark = element("span", { class: "quiet" }, ...phrase(isHeld ? "review.among" : "review.apart"));
  const set = element(
    "ul",
    { class: "set" },
    ...report.label.map((code) => element("li", {}, named(question, label, code))),
  );
  return [
    ...features,
    [
      asText(question, label),
      [was(question, label, entered), ...(entered ? [element("br", {}), remark] : [])],
      set,
    ],
  ];
}

/** Return what is known of columns that are merged: one that is left out leaves out all. */
function mergedAnswer(members, entered) {
  if (members.some(({ name }) => entered[name] === null)) return "skipped";
  return members.some(({ name, values }) => values.indexOf(entered[name]) > 0) ? "any" : "none";
}

function was(question, column, entered) {
  if (!entered) return sentence("review.forgotten");
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
