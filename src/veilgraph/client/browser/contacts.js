// The part of the page that asks about a person's contacts: a wave about private neighbours. Loaded for such
// surveys alone.

import { fetchPublished, hasContactNames, need } from "./delivery.js";
import {
  answerNeighbours,
  answered,
  isLimitLost,
  leavesListOpen,
  ledger,
  setEntryLimit,
  total,
} from "./device.js";
import { $, element, isolated, quoted } from "./elements.js";
import { add, within } from "./epsilons.js";
import { certainty, factor, level, likely, points, showFigure } from "./figures.js";
import { textsOf } from "./form.js";
import { forgetNames, load, named, searchField } from "./names.js";
import { readPublished, rowsIn, turnOf, unlistedIn, verifyWave } from "./neighbours.js";
import { number, phrase, say, sentence } from "./wording.js";

// A round asks for the list itself, changed by chance, or for what is published about those on it.
const OF_LISTS = {
  sure: "guarantee.list",
  weak: "weak.list",
  stay: "contacts.list.stay",
  help: "contacts.list.help",
  review: "review.list",
};
const OF_BELIEFS = {
  sure: "guarantee.contacts",
  weak: "weak.contacts",
  stay: "contacts.stay",
  help: "contacts.help",
  review: "review.single",
};
const words = ({ asked: { list } }) => (list ? OF_LISTS : OF_BELIEFS);

/** Return the texts of the question that contacts were asked first. */
const labelOf = (question) => textsOf(question, { name: question.name, values: question.classes });

/** Verify the document of a round, as a question that asks for nothing else. */
export async function verifyRound(text, now) {
  const question = await verifyWave(text, { maxEpsilon: Infinity, maxEntryEpsilon: Infinity, now });
  const { any_lists } = question.costs.wave;
  return {
    ...question,
    hasNames: await hasContactNames(),
    columns: [],
    group: 1,
    features: null,
    label: null,
    rounds: null,
    epsilon: any_lists < Infinity ? any_lists : 0,
  };
}

/** Return the round that is a person's, or null where everybody answers every round. */
export const roundOf = async ({ turns }, name) => (turns && name ? turnOf(name, turns) : null);

/** Say to a person who is not asked now which round is theirs. */
export const othersInWords = ({ wave, turns }, own) =>
  phrase(own > wave ? "turn.later" : "turn.over", { round: own, count: turns });

/**
 * Say what the answer can give away: about the whole list, one contact, and one whom both ends name.
 *
 * In turns, this round is all that a person answers, but the other end may have answered another one.
 */
export function explain(question) {
  const { text } = labelOf(question);
  const {
    costs: { wave, label, lists },
    wave: count,
    turns,
    table,
  } = question;
  const { sure, weak, stay } = words(question);
  const isProtected = wave.any_lists < Infinity;
  showFigure(isProtected ? wave.any_lists : wave.one_entry, isProtected ? "level.lists" : "level.contact");
  say($("how-sure"), sure);
  $("levels").replaceChildren(
    level(wave.any_lists, "level.lists"),
    level(wave.one_entry, "level.contact"),
    turns ? level(lists.one_relationship, "level.both.turns") : level(wave.one_relationship, "level.both"),
  );
  say($("exact"), "details.contacts", { factor: factor(wave.one_entry) });
  say($("unprotected"), "details.unprotected.contacts");
  $("weak").hidden = wave.any_lists < Math.log(99);
  say($("weak"), isProtected ? "weak" : weak);
  $("meaning").replaceChildren(...inWords(question));
  say($("stay"), stay);
  say($("once"), turns ? "draw.once" : "draw.round");
  say($("round"), "round.contacts", { round: count });
  $("round").hidden = false;
  // Without a table, nothing is published about anybody but that they take part.
  $("published").replaceChildren(...(table === null ? [] : phrase("guarantee.published")));
  $("published").hidden = table === null;
  $("rounds").hidden = false;
  const [all, contact, both] = [lists.any_lists, lists.one_entry, lists.one_relationship].map(certainty);
  const mine = turns ? wave : lists;
  const [whole, single] = [add(label, mine.any_lists), add(label, mine.one_entry)].map(certainty);
  const before = turns
    ? phrase("rounds.turns", { count: turns })
    : count > 1
      ? phrase("rounds.contacts", { count, all, contact, both })
      : [];
  $("rounds").replaceChildren(
    ...before,
    ...(before.length ? [" "] : []),
    ...phrase("rounds.first", { question: quoted(text), all: whole, contact: single }),
  );
}

/** Say what the answer costs, with what earlier ones have cost. */
export function explainCost({ id, costs: { wave }, epsilon }) {
  const contact = phrase("points.contact", {
    cost: points(wave.one_entry),
    spent: points(entrySpent(({ campaign }) => campaign !== id)),
  });
  $("cost").replaceChildren(
    ...(epsilon ? [...phrase("points.lists", { cost: points(epsilon) }), " "] : []),
    ...contact,
  );
  $("spent").hidden = !epsilon;
  $("sum").hidden ||= !epsilon;
}

const entrySpent = (counts = () => true) =>
  add(
    ...answered(localStorage)
      .filter(counts)
      .map(({ neighbours }) => neighbours?.one_entry ?? 0),
  );

/**
 * Say what the answers of all who share this device can give away together if they are one person.
 *
 * Where one of them protects no whole list, it is what they can give away about any one contact.
 */
export function explainShared(question) {
  const before = answersIn(question);
  const isOpen = !question.epsilon || before.some(leavesListOpen);
  const one = add(
    question.costs.wave.one_entry,
    entrySpent(({ neighbours }) => neighbours?.series === question.series),
  );
  say($("shared-cost"), isOpen ? "shared.person.contact" : "shared.person", {
    points: points(isOpen ? one : add(question.epsilon, total(before))),
  });
}

/** Return what this device has answered in the series, its first question included. */
export const answersIn = ({ series }) =>
  answered(localStorage).filter(({ campaign, neighbours }) =>
    [campaign, neighbours?.series].includes(series),
  );

/** Return the names as which this device has answered in the series. */
export const peopleOf = (question) => [...new Set(answersIn(question).map(({ node }) => node))];

/**
 * Return what this device answered for a person in their own round, where each person has one and this is
 * another.
 */
export const answerInTurn = (question, name) =>
  question.turns
    ? answersIn(question).find(
        ({ campaign, node, neighbours }) => neighbours && node === name && campaign !== question.id,
      )?.report
    : undefined;

// --- The form ----------------------------------------------------------------------------------------------

/**
 * Return the fields for contacts, and for a limit where whole lists are not protected or one was set. Where
 * there are names, contacts are searched for and chosen, or typed.
 */
export function fields(question, page) {
  const area = element("textarea", {
    id: "contacts",
    name: "contacts",
    rows: "8",
    dir: "auto",
    spellcheck: "false",
    autocapitalize: "none",
    autocomplete: "off",
    "aria-describedby": "contacts-help",
  });
  const file = element("input", { id: "contacts-file", type: "file", accept: "text/plain,.txt,.csv" });
  file.addEventListener("change", async () => {
    const read = await Promise.all([...file.files].map((each) => each.text()));
    area.value = [area.value.trimEnd(), ...read].filter(Boolean).join("\n");
    file.value = "";
    area.dispatchEvent(new Event("input"));
  });
  const typed = [
    element(
      "div",
      { class: "field" },
      element("label", { class: "question", for: "contacts" }, ...phrase("contacts")),
      element("p", { class: "quiet help", id: "contacts-help" }, ...phrase(words(question).help)),
      area,
    ),
    element(
      "div",
      { class: "field" },
      element("label", { class: "question", for: "contacts-file" }, ...phrase("contacts.file")),
      file,
    ),
  ];
  const limit = needsLimit(question) ? [limitField()] : [];
  if (!question.hasNames) return [...typed, ...limit];
  const summary = element("summary", {}, ...phrase("contacts.type"));
  return [searchField(area, page), element("details", {}, summary, ...typed), ...limit];
}

const needsLimit = ({ epsilon }) => !epsilon || keptLimit() !== null;
const keptLimit = () => (isLimitLost(localStorage) ? null : ledger(localStorage).entryLimit);

function limitField() {
  const input = element("input", {
    id: "contact-limit",
    name: "contact-limit",
    type: "number",
    min: "0",
    step: "any",
    inputmode: "decimal",
    required: "",
    "aria-describedby": "contact-limit-help",
  });
  return element(
    "div",
    { class: "field" },
    element("label", { class: "question", for: "contact-limit" }, ...phrase("contacts.limit")),
    element("p", { class: "quiet help", id: "contact-limit-help" }, ...phrase("contacts.limit.help")),
    input,
  );
}

/** Get the names to choose from, before anybody searches; who cannot have them is told when they search. */
export async function prepare({ hasNames }, node, code) {
  if (hasNames && node && code) await load(node, code).catch(() => null);
}

/** Forget who could be chosen: another person answers. */
export const forget = () => forgetNames();

/** Show whom the person chose, and the limit that they set before. */
export function refill() {
  $("contacts").dispatchEvent(new Event("input"));
  if ($("contact-limit")) $("contact-limit").value ||= keptLimit() ?? "";
}

/** Say what is sent: some people, some answers to the question, or a number for each answer. */
export function inWords(question) {
  const { sets, list, people } = question.asked;
  if (list) return listInWords(list, people);
  const { text } = labelOf(question);
  if (!sets) return phrase("contacts.counts", { question: quoted(text) });
  return phrase("contacts.names", {
    w: sets.setSize,
    k: question.classes.length,
    question: quoted(text),
    chance: likely(sets.yes / 2 ** 53),
  });
}

/** Say how likely contacts are named, and how many others; where these are none, a name is a contact. */
function listInWords({ yes, no }, count) {
  const strangers = (count * no) / 2 ** 53;
  const others = Number(strangers.toFixed(strangers < 1 ? 2 : 0));
  const named = phrase("contacts.list", { n: count, chance: likely(yes / 2 ** 53), others });
  return others ? [...named, " ", ...phrase("contacts.list.doubt")] : named;
}

/** Names in the form: one on each line; spaces around them do not count. */
export const readContacts = () => [
  ...new Set(
    $("contacts")
      .value.split(/[\r\n]+/)
      .map((line) => line.trim())
      .filter(Boolean),
  ),
];

// --- The answer --------------------------------------------------------------------------------------------

/** Get what is published, whole, and draw the answer; the names stay here. */
export async function draw(text, question, options) {
  const { one_entry } = question.costs.wave;
  if ($("contact-limit")) {
    const limit = Number($("contact-limit").value);
    const spent = entrySpent();
    need(limit > 0, "problem.limit.entry");
    setEntryLimit(localStorage, limit);
    if (
      !answered(localStorage).some(({ campaign, node }) => campaign === question.id && node === options.node)
    )
      need(within(add(spent, one_entry), limit), "problem.limit.contact", {
        cost: points(one_entry),
        spent: points(spent),
        limit: points(limit),
      });
  }
  const [people, table] = await Promise.all(
    [question.people, question.table].map((hash) => hash && published(hash)),
  );
  return answerNeighbours(text, { people, table, neighbours: readContacts() }, options);
}

const loaded = new Map(); // published files by their hashes, until the page is left

/** Return a published file, which is loaded once. */
async function published(hash) {
  if (!loaded.has(hash)) loaded.set(hash, await fetchPublished(hash));
  return loaded.get(hash);
}

/**
 * Name the contacts that count for nothing, to the person alone: everybody's device loads the same file of
 * people at this step, and nothing is refused, so that nobody else learns whom it looked up.
 */
export async function showUnlisted(question) {
  const people = await readPublished({ ...question, table: null }, await published(question.people), null);
  const names = await unlistedIn(people, readContacts());
  $("unlisted").hidden = !names.length;
  $("unlisted-names").replaceChildren(...names.map((name) => element("li", {}, quoted(name))));
}

/** Return the row of the check: the contacts, as they were entered. */
export const entries = () => [
  [
    sentence("contacts.own"),
    readContacts().length
      ? element("ul", { class: "set" }, ...readContacts().map((name) => element("li", {}, ...named(name))))
      : sentence("contacts.count", { count: 0 }),
  ],
];

/** Say how what is sent came about, and where it is shown. */
export const reviewInWords = (question) =>
  sentence(words(question).review, { exact: sentence("review.exact") });

/** Return the row of the review: how many contacts while it is known, and what is sent about them. */
export function row(question, { answer }, count) {
  const { sets, list, people, scale } = question.asked;
  const label = labelOf(question);
  const name = (code) => isolated(label.answer(question.classes[code]));
  const item = (units, code) =>
    element("li", {}, ...(sets ? [name(units)] : [name(code), ": ", number(units / scale, 2)]));
  return [
    sentence("contacts.own"),
    ...(count === null ? [] : [sentence("contacts.count", { count })]),
    list
      ? sentence("contacts.named", { count: rowsIn(answer, people).length })
      : element("ul", { class: "set" }, ...answer.map(item)),
  ];
}
