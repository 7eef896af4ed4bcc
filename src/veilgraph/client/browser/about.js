// What the law wants people to be told about a survey: who is responsible, on what basis, and their rights.

import { $, element, quoted } from "./elements.js";
import { theirWords } from "./form.js";
import { phrase } from "./wording.js";

// Each part: its name, what is said in general, and the text of the organisers.
const PARTS = [
  ["about.controller", "", "controller"],
  ["about.officer", "", "data_protection_officer"],
  ["about.basis", "", "legal_basis"],
  ["about.recipients", "", "recipients"],
  ["about.rights", "about.rights.all", "rights"],
  ["about.complaint", "about.complaint.all", "supervisory_authority"],
];

/** Show each part that something is said about: in the page's language, or in the campaign's first one. */
export function showAbout(question) {
  const { texts, language } = question.notice;
  const said = { ...texts[language], ...theirWords(question) };
  $("about").replaceChildren(...PARTS.flatMap((part) => inWords(part, said)));
}

function inWords([name, general, key], { [key]: text }) {
  if (!general && !text) return [];
  const words = [...(general ? phrase(general) : []), ...(text ? [" ", quoted(text)] : [])];
  return [element("dt", {}, ...phrase(name)), element("dd", {}, ...words)];
}
