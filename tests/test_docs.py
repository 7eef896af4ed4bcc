"""The documentation is true: programs run, commands work, links lead somewhere, and no option is left out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from veilgraph.cli import main
from veilgraph.cli.app import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]

OWN_GRAPH = "veilgraph run --edges knows.csv --nodes people.csv --schema schema.toml --label ill"
SERVE = (
    "veilgraph serve --campaign campaign.json --graph edges.csv --store sqlite:///reports.db "
    "--keys-file keys.txt --admin-token-file admin.txt"
)
TRAIN = "veilgraph train --store sqlite:///reports.db --campaign campaign.json --graph edges.csv"
PREDICT = (
    "veilgraph predict --model model --graph edges-now.csv --nodes whom.csv "
    "--store sqlite:///reports.db --out predictions.csv"
)

# Commands that are parsed but not run, and why.
NOT_RUN = {
    "veilgraph run": "ten seconds; tests/experiments runs the same job with fewer epochs",
    OWN_GRAPH: "needs the reader's files; docs/quickstart.md writes some and runs it",
    "veilgraph audit --mechanism grr-fs --features 53 --sampled 10 --epsilon-x 0.1 --trials 4000000 --claim 0.281": (
        "20 seconds; tests/privacy/test_audit.py and tests/cli refute with fewer trials"
    ),
    "veilgraph tune csbm --epsilon-y 1 --trials 30 --out runs/tune": "minutes",
    "veilgraph paper run table2 --datasets cora --only rgnn --only structure_only --seeds 2": "needs the data sets",
    "veilgraph paper status table2": "needs the data sets",
    "veilgraph data fetch cora citeseer --data-dir data": "needs the network",
    "veilgraph data table": "reads every data set that is there",
    "veilgraph submit report.json --url https://collect.example.org --tokens tokens.csv": (
        "needs a collector; tests/cli/test_campaign.py runs it against one"
    ),
    SERVE: "serves until it is stopped; tests/collector runs it",
    SERVE.replace("sqlite:///reports.db", "postgresql://veilgraph:PASSWORD@db.example.org/reports"): "the same",
    f"{TRAIN} --method rgnn --out model": "needs a store; tests/deploy/test_fit_collected.py runs it",
    f"{TRAIN} --screen --out model": "needs a store; tests/deploy/test_fit_collected.py runs it",
    PREDICT: "needs a model; tests/deploy/test_fit_collected.py runs it",
}
# Long runs, shortened by arguments that are added to the command.
SHORTENED = {f"{OWN_GRAPH} --sampled 1 --out runs/people": ["--seeds", "1", "--epochs", "2"]}
# Files that a page takes for granted.
ASSUMED = {
    "cli.md": {
        "sample.csv": "id,age,smoker,ill\n1,20,no,n\n2,35,yes,y\n3,50,no,n\n4,65,no,y\n5,80,yes,y\n",
        "knows.csv": "from,to\n1,2\n2,3\n",
        "record.json": '{"age": 35, "smoker": "yes", "ill": "y"}',
    }
}


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    follows: bool
    """Whether nothing but blank lines stands between it and the block before."""

    @property
    def commands(self) -> list[str]:
        lines = self.text.splitlines() if self.language in ("bash", "console") else []
        return [line.removeprefix("$ ") for line in lines if line.removeprefix("$ ").startswith("veilgraph ")]


def blocks_of(page: Path) -> Iterator[Block]:
    last_end = 0
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        between = text[last_end : match.start()]
        yield Block(match[1], match[2], follows=last_end > 0 and not between.strip())
        last_end = match.end()


def prose_of(page: Path) -> str:
    """The page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose_of(page), flags=re.MULTILINE)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}


def commands_below(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command of the program with the words that lead to it."""
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands_below(child, *path, name)


COMMANDS = list(commands_below(typer.main.get_command(app), "veilgraph"))


def parse(command: str) -> None:
    """Parse as the program would, without running anything; a mistake raises."""
    words = shlex.split(command)[1:]
    parser: Any = typer.main.get_command(app)
    context = parser.make_context("veilgraph", [], resilient_parsing=True)
    while hasattr(parser, "resolve_command"):
        name, parser, words = parser.resolve_command(context, words)
        context = parser.make_context(name, list(words), parent=context, resilient_parsing=hasattr(parser, "commands"))
    # Typer's own parser has taken every word it knows; what is left is unknown.
    assert not context.args, f"{command}: {context.args} is left over"


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_programs_and_commands_of_a_page_run_in_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in ASSUMED.get(page.name, {}).items():
        Path(name).write_text(content, encoding="utf-8")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed: str | None = None
    for block in blocks_of(page):
        if block.language == "python":
            exec(compile(block.text, f"{page.name}, a python block", "exec"), namespace)  # noqa: S102
        if block.language in ("text", "json") and block.follows and printed is not None:
            assert block.text.strip() == printed.strip(), f"{page.name} shows another output"
        printed = None
        for command in block.commands:
            if command in NOT_RUN:
                continue
            capsys.readouterr()
            assert main([*shlex.split(command)[1:], *SHORTENED.get(command, [])]) == 0, command
            printed = capsys.readouterr().out


def test_every_command_of_the_documentation_parses() -> None:
    commands = [command for page in LINKED for block in blocks_of(page) for command in block.commands]
    for command in commands:
        parse(command)
    assert {*NOT_RUN, *SHORTENED} <= set(commands), "an exception names a command that no page shows"


def test_a_command_with_an_unknown_option_does_not_parse() -> None:
    with pytest.raises(Exception, match="No such option"):
        parse("veilgraph account --sampled 1 --epsilon-x 1 --epsilon 3")


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(path) for path, _ in COMMANDS])
def test_every_command_and_option_is_documented(path: tuple[str, ...], command: Any) -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    name = " ".join(path)
    assert name in text
    # An option belongs to the section of its command.
    section = text if hasattr(command, "commands") else text.split(f"\n## {name}\n")[1].split("\n## ")[0]
    for parameter in command.params:
        for option in parameter.opts:
            assert f"`{option}`" in section or f"{name} {option}" in section, f"{name}: {option} is not documented"


def test_every_documented_option_exists() -> None:
    known = {option for _, command in COMMANDS for p in command.params for option in p.opts}
    documented = set(re.findall(r"`(--[a-z-]+)", (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")))
    assert documented - known - {"--help"} == set()


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.name)
def test_relative_links_and_images_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if target.startswith(("https://", "http://")):
            continue
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        assert found.exists(), f"{page.name} links to {target}, which is not there"
        assert not anchor or anchor in anchors_of(found), f"{page.name} links to {target}: no such heading"


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    navigation = re.findall(r"^  - .+: (\S+\.md)$", text, flags=re.MULTILINE)
    assert sorted(navigation) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))


def test_every_public_name_is_documented() -> None:
    import veilgraph

    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert [name for name in veilgraph.__all__ if f"| `{name}` |" not in text] == []


def test_images_are_small_and_load_nothing() -> None:
    for image in (ROOT / "docs" / "images").iterdir():
        assert image.stat().st_size < 200_000, image.name
    drawing = (ROOT / "docs" / "images" / "run.svg").read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\"' ]+", drawing)) == {"http://www.w3.org/2000/svg"}
