// The page's words in the person's language: one table for each, in languages/, and numbers and dates of the
// locale.

export const LANGUAGES = { en: "English", de: "Deutsch", es: "Español", fr: "Français", ar: "العربية" };
const RIGHT_TO_LEFT = ["ar"];

let table, locale;

const base = (tag) => tag.split("-")[0].toLowerCase();

/**
 * Return the language to begin with: the one that was chosen before, or the first one that the browser
 * prefers.
 */
export function preferred(chosen) {
  const known = (tag) => tag in LANGUAGES;
  return known(chosen) ? chosen : (navigator.languages.map(base).find(known) ?? "en");
}

/** Return the best of some languages: the page's, another that the browser prefers, or the given one. */
export function matching(tags, first) {
  const wished = [locale, document.documentElement.lang, ...navigator.languages];
  const found = wished.map(
    (wish) => tags.find((tag) => tag === wish) ?? tags.find((tag) => base(tag) === base(wish)),
  );
  return found.find(Boolean) ?? first;
}

/** Load the table of a language, and write all that follows in it. */
export async function speak(language) {
  const reply = await fetch(`languages/${language}.json`, { cache: "no-cache" });
  table = await reply.json();
  locale = navigator.languages.find((tag) => base(tag) === language) ?? language;
  document.documentElement.lang = language;
  document.documentElement.dir = RIGHT_TO_LEFT.includes(language) ? "rtl" : "ltr";
  document.querySelectorAll("[data-text]").forEach((place) => say(place, place.dataset.text));
}

export const isSpeaking = () => Boolean(table);

/**
 * Return a phrase as a list of strings and nodes: `{name}` stands for a value, which can be a number, a text
 * or a node.
 *
 * A phrase with plural forms has one for each category of the language; the value `count` selects it.
 */
export function phrase(key, values = {}) {
  const entry = table[key];
  const forms = new Intl.PluralRules(locale);
  const words = typeof entry === "string" ? entry : (entry[forms.select(values.count)] ?? entry.other);
  return words
    .split(/\{(\w+)\}/)
    .map((part, i) =>
      i % 2 ? written(values[part]) : part.replace(/\d+/g, (digits) => number(Number(digits))),
    );
}

/** Write numbers in the digits of the locale. */
const written = (value) => (typeof value === "number" ? number(value) : value);

/** Return a phrase whose values are numbers and texts. */
export const sentence = (key, values) => phrase(key, values).join("");

/** Write a phrase into an element. */
export function say(place, key, values) {
  place.replaceChildren(...phrase(key, values));
}

/** Write a number; years have no separators. */
export const number = (value, digits = 20) =>
  new Intl.NumberFormat(locale, { maximumFractionDigits: digits, useGrouping: "min2" }).format(value);

/** Write a day, as it is where the device is. */
export const day = (time, more = {}) =>
  new Intl.DateTimeFormat(locale, { year: "numeric", month: "long", day: "numeric", ...more }).format(time);

/** Write a time with its zone, which is that of the device. */
export const moment = (time) => day(time, { hour: "2-digit", minute: "2-digit", timeZoneName: "short" });
