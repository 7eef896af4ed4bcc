// Choosing contacts by name or number, from the list that the organisers show to everybody who is invited. It
// is loaded whole, and searched here.

import { contactNames } from "./delivery.js";
import { element, isolated } from "./elements.js";
import { phrase, say, sentence } from "./wording.js";

const LISTED = 8; // matches at once

let people = new Map(); // names by number; empty until they are loaded
let loading = null;

/** Forget the names: the next person of this device shows a code of their own. */
export function forgetNames() {
  people = new Map();
  loading = null;
}

/** Return somebody's name with the number, or what was typed alone. */
export const named = (number) => {
  const found = people.get(number);
  return found ? [isolated(found.name), " (", isolated(number), ")"] : [isolated(number)];
};

/** Accents, cases and forms of one letter are the same to who searches. */
const folded = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

/** Load the names once. Who can answer does, with contacts or without: so the request does not tell which. */
export async function load(node, code) {
  const mine = (loading ??= contactNames(node, code));
  try {
    const names = await mine;
    if (mine !== loading || people.size) return;
    people = new Map(
      names.map(([number, name]) => [number, { name, text: `${folded(name)} ${folded(number)}` }]),
    );
  } catch (error) {
    if (mine === loading) loading = null;
    throw error;
  }
}

/** Return the numbers of those whose name or number has every word of what was typed. */
function matching(typed) {
  const words = folded(typed).split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  return [...people].flatMap(([number, { text }]) =>
    words.every((word) => text.includes(word)) ? [number] : [],
  );
}

/**
 * Return a field to search, and those who were chosen; they are the lines of `area`, as if they were typed
 * there.
 *
 * `person` returns name and code of who answers, and `attempt` shows what goes wrong.
 */
export function searchField(area, { person, attempt }) {
  const search = element("input", {
    id: "contact-search",
    type: "search",
    dir: "auto",
    spellcheck: "false",
    autocapitalize: "none",
    autocomplete: "off",
    "aria-describedby": "contact-search-help",
  });
  const found = element("ul", { class: "found", id: "contact-found" });
  const status = element("p", { class: "quiet", id: "contact-status", role: "status" });
  const chosen = element("ul", { class: "set", id: "contact-chosen" });
  const lines = () => area.value.split(/[\r\n]+/).map((line) => line.trim());
  const write = (numbers) => {
    area.value = numbers.join("\n");
    area.dispatchEvent(new Event("input"));
  };
  const choose = (number) => {
    write([...new Set([...lines().filter(Boolean), number])]);
    search.value = "";
    show();
    search.focus();
  };
  const show = () => {
    const numbers = matching(search.value);
    const shown = numbers.slice(0, LISTED);
    found.replaceChildren(...shown.map((number) => button(named(number), () => choose(number))));
    if (!search.value.trim()) status.replaceChildren();
    else if (numbers.length) say(status, "contacts.found", { n: shown.length, count: numbers.length });
    else say(status, "contacts.nobody");
  };
  search.addEventListener("input", () =>
    attempt(async () => {
      await load(...person());
      show();
    }),
  );
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault(); // it would check the answers
    const numbers = matching(search.value);
    if (numbers.length === 1) choose(numbers[0]);
  });
  area.addEventListener("input", () => {
    const numbers = [...new Set(lines().filter(Boolean))];
    const remove = (number) => () => {
      write(lines().filter((line) => line && line !== number));
      search.focus();
    };
    chosen.replaceChildren(
      ...numbers.map((number) =>
        button(
          [...named(number), " ×"],
          remove(number),
          sentence("contacts.remove", { name: textOf(number) }),
        ),
      ),
    );
  });
  return element(
    "div",
    { class: "field" },
    element("label", { class: "question", for: "contact-search" }, ...phrase("contacts.search")),
    element("p", { class: "quiet help", id: "contact-search-help" }, ...phrase("contacts.search.help")),
    search,
    status,
    found,
    chosen,
  );
}

const textOf = (number) =>
  named(number)
    .map((part) => part.textContent ?? part)
    .join("");

function button(said, act, label = null) {
  const made = element(
    "button",
    { type: "button", class: "second", ...(label && { "aria-label": label }) },
    ...said,
  );
  made.addEventListener("click", act);
  return element("li", {}, made);
}
