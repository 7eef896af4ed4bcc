// Elements of the page.

export const $ = (id) => document.getElementById(id);

export function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** A text of the organisers inside our own: marked as a quotation, and in a direction of its own. */
export const quoted = (text) => element("q", { dir: "auto" }, text);

/** A text of the organisers that stands alone, in a direction of its own. */
export const isolated = (text) => element("bdi", {}, text);

/** Fill a table with rows: a name, and what is said of it. */
export function fill(place, rows) {
  const cell = (said) => element("td", { role: "cell" }, ...[said].flat());
  place.replaceChildren(
    ...rows.map(([name, ...said]) =>
      element(
        "tr",
        { role: "row" },
        element("th", { scope: "row", role: "rowheader" }, name),
        ...said.map(cell),
      ),
    ),
  );
}
