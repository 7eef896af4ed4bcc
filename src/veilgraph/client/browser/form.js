// The form: a field for each question of a campaign, in the organisers' words for them.

import { $, element, isolated, quoted } from "./elements.js";
import { likely } from "./figures.js";
import { matching, phrase, sentence } from "./wording.js";

const FEW = 6; // values that are shown side by side, and not in a list to open
const SKIP = "skip";

/** Return the questions of a campaign, in the order of the form. */
export function questionsOf(question) {
  return [...(question.features ? question.columns : []), ...(question.label ? [question.label] : [])];
}

/** Return what the organisers wrote in the page's language, or in another one that the person may read. */
export function theirWords(question) {
  const { texts, language } = question.notice;
  const tag = matching(Object.keys(texts), language);
  return tag ? { ...texts[tag], tag } : {};
}

/** Return the texts of a question: its own, or the name of the column and its values. */
export function textsOf(question, { name, values }) {
  const { questions = {}, tag } = theirWords(question);
  const { text = name, help = "", answers = {} } = own(questions, name) ?? {};
  return { text, help, tag, answer: (value) => own(answers, value) ?? shown(value, values) };
}

/** Return a property of an object itself: names are the organisers' choice. */
const own = (object, name) => (Object.hasOwn(object, name) ? object[name] : undefined);

/** A question that may be left out: its report is pure chance, or, for the label beside features, missing. */
const canSkip = (question, column) => column !== question.label || Boolean(question.features);

/** Say how many answers to the last question a report names, and how likely the own one is among them. */
export function labelInWords(question) {
  const { domainSize, setSize } = question.label.table;
  const chance = likely(chanceOfTruth(question));
  return phrase(setSize ? "names.set" : "names.one", {
    w: setSize,
    k: domainSize,
    question: quoted(textsOf(question, question.label).text),
    chance,
  });
}

/** Return how likely a report names the person's own answer; a series changes it twice. */
function chanceOfTruth(question) {
  const { label, rounds } = question;
  const { domainSize, yes } = label.table;
  const kept = yes / 2 ** 53;
  const again = (rounds?.table.yes ?? 2 ** 53) / 2 ** 53;
  return kept * again + ((1 - kept) * (1 - again)) / (domainSize - 1);
}

/** Return the field of a question. */
export function field(question, column, id) {
  if (column.edges) return numberField(question, column, id);
  return column.values.length <= FEW ? radioField(question, column, id) : selectField(question, column, id);
}

function numberField(question, column, id) {
  const { edges } = column;
  const [low, high] = [edges[0], edges.at(-1)];
  const [isLow, isHigh] = [low, high].map(Number.isFinite);
  const [any, most, least, both] = column.whole
    ? ["whole", "whole.most", "whole.least", "whole.range"]
    : ["number", "number.most", "number.least", "number.range"];
  const range = phrase(isLow ? (isHigh ? both : least) : isHigh ? most : any, { low, high });
  const bounds = { ...(isLow && { min: low }), ...(isHigh && { max: high }) };
  const steps = column.whole ? { step: "1", inputmode: "numeric" } : { step: "any", inputmode: "decimal" };
  const input = element("input", { id, name: id, type: "number", ...steps, required: "", ...bounds });
  return element(
    "div",
    { class: "field" },
    element(
      "label",
      { class: "question", for: id },
      asText(question, column),
      " ",
      element("span", { class: "quiet" }, ...range),
    ),
    ...helped(question, column, input, id),
    element("div", { class: "number" }, input, ...(canSkip(question, column) ? [skipBox(input)] : [])),
  );
}

/** A box beside a number that leaves it out. */
function skipBox(input) {
  const box = element("input", { type: "checkbox", name: `${input.id}-skip` });
  box.addEventListener("change", () => {
    input.disabled = box.checked;
  });
  return element("label", { class: "choice" }, box, element("span", {}, ...phrase("skip")));
}

/**
 * The choices of a question: a number for each value, so that no value can be confused with another choice.
 */
function choices(question, column) {
  const { answer: shownAs } = textsOf(question, column);
  const values = column.values.map((value, i) => [`${i}`, shownAs(value)]);
  return canSkip(question, column) ? [...values, [SKIP, sentence("skip")]] : values;
}

function radioField(question, column, id) {
  const offered = choices(question, column);
  const isShort = offered.length < 4 && offered.every(([, name]) => name.length < 8);
  const group = element("fieldset", {});
  const boxes = offered.map(([value, name]) =>
    element(
      "label",
      { class: "choice" },
      element("input", { type: "radio", name: id, value, required: "" }),
      element("span", {}, isolated(name)),
    ),
  );
  group.append(
    element("legend", {}, asText(question, column)),
    ...helped(question, column, group, id),
    element("div", { class: `choices${isShort ? " short" : ""}` }, ...boxes),
  );
  return group;
}

function selectField(question, column, id) {
  const options = choices(question, column).map(([value, name]) =>
    element("option", { value, dir: "auto" }, name),
  );
  const select = element(
    "select",
    { id, name: id, required: "" },
    element("option", { value: "" }, ...phrase("choose")),
    ...options,
  );
  return element(
    "div",
    { class: "field" },
    element("label", { class: "question", for: id }, asText(question, column)),
    ...helped(question, column, select, id),
    select,
  );
}

/** The text of a question, in a direction and a language of its own. */
export function asText(question, column) {
  const { text, tag } = textsOf(question, column);
  return element("bdi", tag ? { lang: tag } : {}, text);
}

/** The help of a question, if there is one, which describes its field. */
function helped(question, column, field, id) {
  const { help, tag } = textsOf(question, column);
  if (!help) return [];
  field.setAttribute("aria-describedby", `${id}-help`);
  return [
    element("p", { class: "quiet help", id: `${id}-help`, dir: "auto", ...(tag && { lang: tag }) }, help),
  ];
}

/** Return the person's answers as a record; one that was left out is null. */
export function readRecord(question) {
  const data = new FormData($("form"));
  return Object.fromEntries(
    questionsOf(question).map(({ name, values }, i) => {
      const given = data.get(`q${i}`);
      return [name, given === SKIP || given === null ? null : values ? values[given] : given];
    }),
  );
}

/** Show the values 0 and 1 of a column as no and yes. */
function shown(value, values) {
  return values.length === 2 && values[0] === "0" && values[1] === "1"
    ? sentence(["no", "yes"][Number(value)])
    : value;
}
