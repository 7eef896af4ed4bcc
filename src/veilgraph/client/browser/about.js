// Who asks, and why, in the organisers' words; and what the law wants people to be told about a survey: who
// is responsible, on what basis, and their rights.

import { brokenRetention } from "./device.js";
import { $, element, quoted } from "./elements.js";
import { theirWords } from "./form.js";
import { moment, phrase, say, sentence } from "./wording.js";

// Each part: its name, what is said in general, and the text of the organisers.
const PARTS = [
  ["about.controller", "", "controller"],
  ["about.officer", "", "data_protection_officer"],
  ["about.basis", "", "legal_basis"],
  ["about.recipients", "", "recipients"],
  ["about.rights", "about.rights.all", "rights"],
  ["about.complaint", "about.complaint.all", "supervisory_authority"],
];

// What a document says in English to be known about links.
const LINKS = {
  "how strong links are": "links.weight",
  "which way links go": "links.directed",
  "kinds of links": "links.kind",
};

/** Return the name of what is known without asking; of links in the page's language. */
const nameOf = ([name, kind]) =>
  kind === "link" && Object.hasOwn(LINKS, name) ? sentence(LINKS[name]) : name;

/** Say who asks and why, and until when they keep what is sent. */
export function showAbout(question) {
  const { texts, language, retention, public: known = {}, ...notice } = question.notice;
  const theirs = theirWords(question);
  const { purpose, contact } = { ...notice, ...theirs };
  $("purpose").replaceChildren(quoted(purpose));
  say($("contact"), "organisers.contact", { contact: quoted(contact) });
  promise("retention", retention);
  $("public").hidden = !Object.keys(known).length;
  say($("public"), "organisers.public", { columns: quoted(Object.entries(known).map(nameOf).join(", ")) });
  promise("broken", brokenRetention(question, localStorage));
  say($("checked"), "details.checked", { id: element("code", { dir: "ltr" }, question.id) });
  // In the page's language, or in the campaign's first one.
  const said = { ...texts[language], ...theirs };
  $("about").replaceChildren(...PARTS.flatMap((part) => inWords(part, said)));
}

/** Say by when what is sent is deleted, if there is such a promise. */
function promise(key, date) {
  $(key).hidden = !date;
  if (date) say($(key), `organisers.${key}`, { time: moment(new Date(date)) });
}

function inWords([name, general, key], { [key]: text }) {
  if (!general && !text) return [];
  const words = [...(general ? phrase(general) : []), ...(text ? [" ", quoted(text)] : [])];
  return [element("dt", {}, ...phrase(name)), element("dd", {}, ...words)];
}
