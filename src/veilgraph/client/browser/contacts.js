// The part of the page that asks about a person's contacts: a wave about private neighbours. Loaded for such surveys alone.

import { fetchPublished, need } from "./delivery.js";
import { answerNeighbours, answered, isLimitLost, ledger, setEntryLimit } from "./device.js";
import { $, element, isolated, quoted } from "./elements.js";
import { certainty, factor, level, points, roundedUp } from "./figures.js";
import { verifyWave } from "./neighbours.js";
import { number, phrase, say, sentence } from "./wording.js";
import { within } from "./veilgraph.js";

/** Verify the document of a round, as a question that asks for nothing else. */
export async function verifyRound(text, now) {
  const question = await verifyWave(text, { maxEpsilon: Infinity, maxEntryEpsilon: Infinity, now }), { any_lists } = question.costs.wave;
  return { ...question, columns: [], group: 1, features: null, label: null, waves: null, epsilon: any_lists < Infinity ? any_lists : 0 };
}

/** Say what the answer can give away: about the whole list, one contact, and one whom both ends name. */
export function explain({ costs: { wave, label, lists }, wave: count }, { text }) {
  say($("how-sure"), "guarantee.contacts");
  $("levels").replaceChildren(level(wave.any_lists, "level.lists"), level(wave.one_entry, "level.contact"), level(wave.one_relationship, "level.both"));
  say($("exact"), "details.contacts", { factor: factor(wave.one_entry) });
  say($("unprotected"), "details.unprotected.contacts");
  $("weak").hidden = wave.any_lists < Math.log(99);
  say($("weak"), wave.any_lists < Infinity ? "weak" : "weak.contacts");
  say($("stay"), "contacts.stay");
  say($("once"), "draw.round");
  say($("round"), "round.contacts", { wave: count });
  $("round").hidden = false;
  say($("published"), "guarantee.published");
  $("published").hidden = $("rounds").hidden = false;
  const [all, contact, both] = [lists.any_lists, lists.one_entry, lists.one_relationship].map(certainty);
  const [whole, single] = [label + lists.any_lists, label + lists.one_entry].map(certainty);
  $("rounds").replaceChildren(...(count > 1 ? [...phrase("rounds.contacts", { count, all, contact, both }), " "] : []),
    ...phrase("rounds.first", { question: quoted(text), all: whole, contact: single }));
}

/** Say what the answer costs, with what earlier ones have cost. */
export function explainCost({ id, costs: { wave }, epsilon }) {
  const contact = phrase("points.contact", { cost: points(wave.one_entry), spent: points(entrySpent(({ campaign }) => campaign !== id)) });
  $("cost").replaceChildren(...(epsilon ? [...phrase("points.lists", { cost: points(epsilon) }), " "] : []), ...contact);
  $("spent").hidden = !epsilon;
  $("sum").hidden ||= !epsilon;
}

const entrySpent = (counts = () => true) => answered(localStorage).filter(counts).reduce((sum, { neighbours }) => sum + Number(neighbours?.one_entry ?? 0), 0);

/** Return the names as which this device has answered in the series. */
export const peopleOf = ({ series }) => [...new Set(answered(localStorage)
  .filter(({ campaign, neighbours }) => [campaign, neighbours?.series].includes(series)).map(({ node }) => node))];

// --- The form -------------------------------------------------------------------------------------------------------

/** Return the fields for names of contacts, and for a limit where whole lists are not protected or one was set. */
export function fields(question, label) {
  const area = element("textarea", { id: "contacts", name: "contacts", rows: "8", dir: "auto", spellcheck: "false", autocapitalize: "none",
    autocomplete: "off", "aria-describedby": "contacts-help" });
  const file = element("input", { id: "contacts-file", type: "file", accept: "text/plain,.txt,.csv" });
  file.addEventListener("change", async () => {
    const read = await Promise.all([...file.files].map((each) => each.text()));
    area.value = [area.value.trimEnd(), ...read].filter(Boolean).join("\n");
    file.value = "";
  });
  return [
    element("div", { class: "field" }, element("label", { class: "question", for: "contacts" }, ...phrase("contacts")),
      element("p", { class: "quiet help", id: "contacts-help" }, ...phrase("contacts.help")), area),
    element("div", { class: "field" }, element("label", { class: "question", for: "contacts-file" }, ...phrase("contacts.file")), file),
    ...(needsLimit(question) ? [limitField()] : []),
    element("p", { class: "quiet", id: "meaning" }, ...inWords(question, label)),
  ];
}

const needsLimit = ({ epsilon }) => !epsilon || keptLimit() !== null;
const keptLimit = () => (isLimitLost(localStorage) ? null : ledger(localStorage).entryLimit);

function limitField() {
  const input = element("input", { id: "contact-limit", name: "contact-limit", type: "number", min: "0", step: "any", inputmode: "decimal", required: "",
    "aria-describedby": "contact-limit-help" });
  return element("div", { class: "field" }, element("label", { class: "question", for: "contact-limit" }, ...phrase("contacts.limit")),
    element("p", { class: "quiet help", id: "contact-limit-help" }, ...phrase("contacts.limit.help")), input);
}

/** Show the limit that the person set before. */
export function fillLimit() {
  if ($("contact-limit")) $("contact-limit").value ||= keptLimit() ?? "";
}

/** Say what is sent: some answers to the question, or a number for each. */
export function inWords({ asked: { sets }, classes }, label) {
  if (!sets) return phrase("contacts.counts", { question: quoted(label.text) });
  const likely = sets.yes / 2 ** 53, chance = likely > 0.99 ? sentence("chance.high") : sentence("chance", { n: roundedUp(100 * likely, 0) });
  return phrase("contacts.names", { w: sets.w, k: classes.length, question: quoted(label.text), chance });
}

/** Names in the form: one on each line; spaces around them do not count. */
export const readContacts = () => [...new Set($("contacts").value.split(/[\r\n]+/).map((line) => line.trim()).filter(Boolean))];

// --- The answer -----------------------------------------------------------------------------------------------------

/** Get what is published, whole, and draw the answer; the names stay here. */
export async function draw(text, question, options) {
  const { one_entry } = question.costs.wave;
  if ($("contact-limit")) {
    const limit = Number($("contact-limit").value), spent = entrySpent();
    need(limit > 0, "problem.limit.entry");
    setEntryLimit(localStorage, limit);
    if (!answered(localStorage).some(({ campaign, node }) => campaign === question.id && node === options.node))
      need(within(spent + one_entry, limit), "problem.limit.contact", { cost: points(one_entry), spent: points(spent), limit: points(limit) });
  }
  const [people, table] = await Promise.all([question.people, question.table].map(fetchPublished));
  return answerNeighbours(text, { people, table, neighbours: readContacts() }, options);
}

/** Return the row of the review: how many contacts, and what is sent about them. */
export function row({ asked: { sets, scale }, classes }, { answer }, count, label) {
  const name = (code) => isolated(label.answer(classes[code]));
  const said = sets ? answer.map((code) => [name(code)]) : answer.map((units, code) => [name(code), ": ", number(units / scale, 2)]);
  const entered = count === null ? sentence("review.forgotten") : sentence("contacts.count", { count });
  return [sentence("contacts.own"), entered, element("ul", { class: "set" }, ...said.map((parts) => element("li", {}, ...parts)))];
}
