"""One file of all files of the client, to copy to a device that has Python and nothing else of veilgraph.

python -m veilgraph.client.one_file participant.py

It has the text of the files, word by word and in their order: what is read here is what runs there. Imports of the
standard library stand at its top, and imports between the files are left out.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections import Counter
from pathlib import Path

import veilgraph.client

FILES = (
    "refusals",
    "words",
    "epsilons",
    "reading",
    "mechanisms",
    "series",
    "lists",
    "schema",
    "record",
    "store",
    "published",
    "once",
    "rounds",
    "neighbours",
    "question",
    "campaign",
    "kept",
    "spending",
    "answering",
    "connection",
    "sending",
    "fetching",
)
"""Names of the files; each imports earlier ones only."""


def one_file() -> str:
    """Return the text of the file; refuse two files that call two things by one name."""
    imported: dict[str, set[str]] = {}
    parts: list[str] = []
    names: Counter[str] = Counter()
    for file in FILES:
        text = Path(__file__).with_name(f"{file}.py").read_text(encoding="utf-8")
        tree = ast.parse(text)
        end = 0
        for statement in tree.body:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                end = statement.end_lineno or end
                _collect(statement, imported)
            names.update(_names(statement))
        lines = [f"# --- {file}.py ".ljust(120, "-"), *(ast.get_docstring(tree) or "").splitlines()]
        heading = [lines[0], "#", *(f"# {line}".rstrip() for line in lines[1:])]
        parts.append("\n".join(heading) + "\n\n" + "\n".join(text.splitlines()[end:]).strip("\n") + "\n")
    if repeated := [name for name, times in names.items() if times > 1]:
        raise ValueError(f"two files of the client call different things {', '.join(repeated)}")
    return "\n\n".join([_head(imported), *parts])


def _collect(statement: ast.Import | ast.ImportFrom, imported: dict[str, set[str]]) -> None:
    """Add what a statement imports from the standard library, by module; a module as a whole is under its name."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            imported.setdefault(alias.name, set())
            imported[alias.name].add("")
    elif statement.module != "__future__" and not (statement.module or "").startswith("veilgraph.client"):
        imported.setdefault(statement.module or "", set()).update(alias.name for alias in statement.names)


def _names(statement: ast.stmt) -> list[str]:
    """Return the names that a statement at the top of a file defines."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _head(imported: dict[str, set[str]]) -> str:
    """Return the beginning of the file: what it is, its imports, and the names that it offers."""
    about = (veilgraph.client.__doc__ or "").split("\n\n")
    wholes = [f"import {module}" for module, names in sorted(imported.items()) if "" in names]
    parts = [(module, sorted(names - {""})) for module, names in sorted(imported.items()) if names - {""}]
    return "\n".join(
        [
            f'"""{about[0]}\n\n{about[1]}\n\nThis file was made of the files of `veilgraph.client`, word by word.\n"""',
            "",
            "from __future__ import annotations",
            "",
            *wholes,
            *(f"from {module} import {', '.join(names)}" for module, names in parts),
            "",
            "__all__ = [",
            *(f'    "{name}",' for name in veilgraph.client.__all__),
            "]",
            "",
        ]
    )


def main(arguments: list[str]) -> int:
    """Write the file to the path that is given."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.stderr.write("give the path of the file to write: python -m veilgraph.client.one_file participant.py\n")
        return 2
    text = one_file()
    Path(arguments[0]).write_text(text, encoding="utf-8")
    digest = hashlib.sha256(text.encode()).hexdigest()
    sys.stdout.write(f"{arguments[0]}: {len(text.splitlines())} lines, SHA-256 {digest}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
