"""Tables of pages from stored results: what was measured, on what, and with which revision of each method.

A result is a file of `studies/results/data/`. A page shows it between two markers, which hold its name:

    <!-- result: frontier -->
    <!-- end of result -->

Below the table stand seeds, device, command and the revision of Veil, beside that of the package where the two differ.
So a new revision makes pages false until they are written again, and then they say that their figures are older.

python -m studies.pages             # write all tables into their pages
python -m studies.pages --check     # what pages show that is not so; exit code 1 if there is anything
python -m studies.pages --list      # every result, its revision, and the command that measures it again
COMMAND | python -m studies.pages --take NAME --command "COMMAND" --data "ten public graphs" \
    --seeds "100 to 119" --device CPU --methods veil_labels structure_only    # store the table that COMMAND prints

`--take NAME` of a stored result keeps what is not given. `--table 2` takes the second table of what is printed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from studies.methods import EQUAL_EPSILON, RIVALS
from veilgraph.errors import RunError
from veilgraph.models.registry import MethodEntry, find_method

ROOT = Path(__file__).parents[1]
DATA = ROOT / "studies" / "results" / "data"
_BLOCK = re.compile(r"<!-- result: ([\w-]+) -->\n.*?<!-- end of result -->", re.DOTALL)
_RULE = re.compile(r"\|[\s:|-]+\|")
_SPREAD = re.compile(r"[-−]?\d+(?:\.\d+)?(?: %)? ± \d+(?:\.\d+)?")
_REVISION = re.compile(r"\b[Rr]evisions? (?:\d|[^.]*not written down)")


@dataclass(frozen=True, kw_only=True)
class StoredResult:
    """A table of measured figures, and how to measure it again.

    Attributes:
        name: name of the file and of the markers.
        command: what measures it again; several lines where several commands do, empty where none does any more.
        data: data sets.
        seeds: seeds of the draws, in words; empty where nothing is drawn.
        device: CPU or GPU, and more where it matters; or that it was not written down.
        revisions: revision of each method by its name in the registry; None where nobody wrote it down.
        note: what else a reader must know.
        columns: heads of the columns.
        alignment: "l" or "r" for each column.
        rows: texts of the cells; a spread is written as "64.0 ± 1.9".
    """

    name: str
    command: str
    data: str
    seeds: str
    device: str
    revisions: Mapping[str, int | None]
    note: str = ""
    columns: Sequence[str]
    alignment: str
    rows: Sequence[Sequence[str]]

    @classmethod
    def load(cls, path: Path) -> StoredResult:
        """Read a stored result."""
        return cls(name=path.stem, **json.loads(path.read_text(encoding="utf-8")))

    def save(self, folder: Path = DATA) -> None:
        """Write the result, one line for each row."""
        document = asdict(self)
        del document["name"]
        rows = ",\n".join(f"    {json.dumps(row, ensure_ascii=False)}" for row in document.pop("rows"))
        head = "".join(f'  "{key}": {json.dumps(value, ensure_ascii=False)},\n' for key, value in document.items())
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.json").write_text(f'{{\n{head}  "rows": [\n{rows}\n  ]\n}}\n', encoding="utf-8")

    @property
    def current(self) -> bool:
        """Whether every method has the revision of the registry."""
        return all(revision == _method(name).revision for name, revision in self.revisions.items())

    @property
    def made(self) -> str:
        """How the result was measured, in sentences."""
        seeds = f"Seeds {self.seeds}. " if self.seeds else ""
        notes = "".join(f" {note}" for note in (*self._revisions(), self.note) if note)
        commands = " and ".join(f"`{line}`" for line in self.command.splitlines())
        repeated = f"Measured by* {commands}" if commands else "No command repeats it.*"
        return f"*{self.data}. {seeds}Device: {self.device}.{notes} {repeated}"

    def _revisions(self) -> Iterator[str]:
        for name, revision in self.revisions.items():
            entry = _method(name)
            if revision is None:
                yield f"The revision of {entry.title} was not written down; the package has {entry.revision}."
            elif revision != entry.revision:
                yield f"{entry.title} had revision {revision}; the package has {entry.revision}."
            elif revision:
                yield f"{entry.title} has revision {revision}, as in the package."

    def to_markdown(self) -> str:
        """Return the table, and below it how it was measured."""
        rules = ["---:" if side == "r" else "---" for side in self.alignment]
        lines = [f"| {' | '.join(cells)} |" for cells in (self.columns, rules, *self.rows)]
        return "\n".join([*lines, "", self.made])


def _method(name: str) -> MethodEntry:
    """Return a method of the package or of the studies."""
    own = RIVALS | EQUAL_EPSILON
    return own[name] if name in own else find_method(name)


def stored_results(folder: Path = DATA) -> dict[str, StoredResult]:
    """Return all stored results by name."""
    return {path.stem: StoredResult.load(path) for path in sorted(folder.glob("*.json"))}


def pages(root: Path = ROOT) -> list[Path]:
    """Return the pages that can show results."""
    return [
        root / "README.md",
        *sorted((root / "docs").rglob("*.md")),
        *sorted((root / "studies" / "results").glob("*.md")),
    ]


def written(text: str, results: Mapping[str, StoredResult]) -> str:
    """Return a page with the table of each result that it names; an unknown name is refused."""

    def block(match: re.Match[str]) -> str:
        if match[1] not in results:
            raise RunError(f"there is no stored result '{match[1]}': --list shows all names")
        return f"<!-- result: {match[1]} -->\n\n{results[match[1]].to_markdown()}\n\n<!-- end of result -->"

    return _BLOCK.sub(block, text)


def problems(text: str, results: Mapping[str, StoredResult]) -> list[str]:
    """Return in sentences what a page shows that its stored results do not say."""
    found = []
    if written(text, results) != text:
        found.append(
            "shows a table that is not its stored result, or says of an older revision that it is the package's: "
            "run `python -m studies.pages`, or measure again what `python -m studies.pages --list` names"
        )
    without_programs = re.sub(r"^```(?!text).*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    found += [
        f"has a table of measurements that is no stored result: store it with --take: {line[:60]}"
        for line in _BLOCK.sub("", text).splitlines()
        if line.startswith("|") and _figures(line)
    ]
    for section in re.split(r"^(?=#)", without_programs, flags=re.MULTILINE):
        found += _unfounded(section, results)
    return found


def _unfounded(section: str, results: Mapping[str, StoredResult]) -> Iterator[str]:
    """Yield the lines of a section whose figures have no known revision.

    A figure with its spread stands in a table of a current result, in a section with a table that says how old it is,
    or in a section that names the revision it was measured with.
    """
    prose = _BLOCK.sub("", section)
    if _REVISION.search(prose) or any(not results[name].current for name in _BLOCK.findall(section)):
        return
    known = {
        figure for each in results.values() if each.current for row in each.rows for figure in _figures(each.note, *row)
    }
    for line in prose.splitlines():
        if missing := _figures(line) - known:
            yield (
                f"quotes {', '.join(sorted(missing))}, which no result of today's revision has: "
                f"quote a stored result, or name the revision in that section: {line[:60]}"
            )


def _figures(*texts: str) -> set[str]:
    """Return all figures with a spread.

    >>> sorted(_figures("Veil has 64.0 % ± 1.9, and **−0.3 ± 0.1** more than the control."))
    ['-0.3 ± 0.1', '64.0 ± 1.9']
    """
    found = (figure for text in texts for figure in _SPREAD.findall(text.replace("\xa0", " ")))
    return {figure.replace(" %", "").replace("−", "-").lstrip("+") for figure in found}


def table_in(text: str, number: int = 1) -> tuple[list[str], str, list[list[str]]]:
    r"""Return heads, alignment and rows of a Markdown table in a text, the first or a later one; or of a printed box.

    >>> table_in("| graph | Veil |\n| --- | ---: |\n| Cora | 64.0 ± 1.9 |")
    (['graph', 'Veil'], 'lr', [['Cora', '64.0 ± 1.9']])
    """
    lines = _without_boxes(text.replace("\xa0", " ")).splitlines()
    rules = [place for place, line in enumerate(lines) if place and _RULE.fullmatch(line.strip())]
    if len(rules) < number:
        raise RunError(f"the text has {len(rules)} Markdown tables: there is no table {number}")
    start = rules[number - 1]
    cells = [_cells(lines[start - 1]), _cells(lines[start])]
    for line in lines[start + 1 :]:
        if not line.strip().startswith("|"):
            break
        cells.append(_cells(line))
    heads, rule, *rows = cells
    return heads, "".join("r" if mark.endswith(":") else "l" for mark in rule), rows


def _without_boxes(text: str) -> str:
    """Write tables that a command printed with frames as Markdown; figures are on the right."""
    lines, heads = [], list[list[str]]()
    for line in text.splitlines():
        if line.startswith("┃"):
            heads.append(_cells(line.replace("┃", "|")))
        elif line.startswith("┡"):
            names = [" ".join(filter(None, parts)) for parts in zip(*heads, strict=True)]
            lines += [f"| {' | '.join(names)} |", f"|{'---:|' * len(names)}"]
        else:
            lines.append(line.replace("│", "|"))
    return "\n".join(lines)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def take(name: str, text: str, given: Mapping[str, Any], *, number: int = 1, folder: Path = DATA) -> StoredResult:
    """Store the table of a text under a name; what is not given is as it was stored.

    Args:
        name: name of the result.
        text: what a study printed.
        given: `command`, `data`, `seeds`, `device`, `note` and `methods`; None for what stays. Revisions are those
            of the registry.
        number: which of the printed tables.
        folder: folder of the results.
    """
    path = folder / f"{name}.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"note": "", "seeds": ""}
    known = kept | {key: value for key, value in given.items() if value is not None}
    methods = known.pop("methods", None) or kept.get("revisions", {})
    if missing := {"command", "data", "device"} - known.keys():
        raise RunError(f"'{name}' is not stored yet: give {', '.join(f'--{each}' for each in sorted(missing))} too")
    columns, alignment, rows = table_in(text, number)
    known |= {"columns": columns, "alignment": alignment, "rows": rows}
    known["revisions"] = {each: _method(each).revision for each in methods}
    result = StoredResult(name=name, **known)
    result.save(folder)
    return result


def _list(results: Mapping[str, StoredResult]) -> Iterator[str]:
    for result in results.values():
        state = "current" if result.current else "older"
        yield f"{state:8}{result.name:36}{result.command}"


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="write nothing, and say what is not so")
    what.add_argument("--list", action="store_true", help="every result, and whether its revisions are the package's")
    what.add_argument("--take", metavar="NAME", help="store the table that comes on standard input")
    parser.add_argument("--command", help="what measures it again")
    parser.add_argument("--data", help="data sets, in words")
    parser.add_argument("--seeds", help='such as "100 to 119"')
    parser.add_argument("--device", help="CPU or GPU, and more where it matters")
    parser.add_argument("--methods", nargs="+", help="names in the registry whose revision decides the figures")
    parser.add_argument("--note", help="what else a reader must know, in sentences")
    parser.add_argument("--table", type=int, default=1, help="which of the printed tables")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Do what the command line says; a mistake is one line."""
    options = _arguments(words)
    try:
        if options.take:
            given = {key: vars(options)[key] for key in ("command", "data", "seeds", "device", "methods", "note")}
            take(options.take, sys.stdin.read(), given, number=options.table)
        results = stored_results()
        if options.list:
            print("\n".join(_list(results)))
            return 0
        if options.check:
            found = [
                f"{page.relative_to(ROOT)} {each}" for page in pages() for each in problems(page.read_text(), results)
            ]
            print("\n".join(found))
            return bool(found)
        for page in pages():
            if (text := written(before := page.read_text(encoding="utf-8"), results)) != before:
                page.write_text(text, encoding="utf-8")
                print(page.relative_to(ROOT))
    except RunError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
