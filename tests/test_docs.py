"""The documentation is true: programs run, commands work, links and paths exist, and no option is left out."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import pkgutil
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from benchmarks.__main__ import app as benchmarks
from docs import cli

from tests.support.collection import Collection
from tests.support.health_folder import begun
from tests.test_layers import LAYERS
from veilgraph.campaign.plausibility import shift_per_liar
from veilgraph.campaign.screening import LEVEL, smallest_implausible_group
from veilgraph.cli import main
from veilgraph.cli.app import app, parser_of
from veilgraph.collection import Collection as CollectionFolder
from veilgraph.collection.rehearsal import serving
from veilgraph.collector.store import ReportStore
from veilgraph.datasets.registry import REGISTERED
from veilgraph.deploy.training_options import DEFAULT_METHOD
from veilgraph.models.registry import METHODS, methods_for_campaign
from veilgraph.privacy.mechanisms import GRR, GRRFS, SubsetSelection
from veilgraph.privacy.mechanisms.registry import MECHANISMS, best_label_mechanism

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "veilgraph"
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
LINKED = [*PAGES, *sorted((ROOT / "studies" / "results").glob("*.md")), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
# The changelog names modules as they were called at that release.
PRESENT = [page for page in LINKED if page.name.lower() != "changelog.md"]
FIRST_PAGES = [
    ROOT / "README.md",
    DOCS / "index.md",
    DOCS / "architecture.md",
    DOCS / "how-to" / "installation.md",
    DOCS / "explanation" / "privacy.md",
    *sorted((DOCS / "tutorials").glob("*.md")),
]
# Pages that guide through the source: everything in them that looks like a path is one.
GUIDES = [
    DOCS / "architecture.md",
    DOCS / "how-to" / "adding-a-method.md",
    DOCS / "reference" / "paper-map.md",
    ROOT / "CONTRIBUTING.md",
]
LONGEST_SENTENCE = 30
"""Words. The style asks for about 25; a number, a unit and a relation may come on top."""

OWN_GRAPH = "veilgraph run --graph knows.csv --nodes people.csv --schema schema.toml --label ill"
SERVE = (
    "veilgraph serve campaign.json --graph edges.csv --store sqlite:///reports.db "
    "--keys-file keys.txt --admin-token-file admin.txt"
)

# Commands that are parsed but not run, and why.
NOT_RUN = {
    OWN_GRAPH: "needs the reader's files; docs/tutorials/quickstart.md writes some and runs it",
    "veilgraph account --audit --features 53 --sampled 10 --epsilon-x 0.1 --set trials=4000000 --set claim=0.281": (
        "a minute; tests/privacy/test_audit.py and tests/cli refute with fewer trials"
    ),
    "veilgraph lab data cora citeseer --fetch": "needs the network",
    "veilgraph lab data --results runs/paper": "reads every data set that is there",
    "veilgraph fetch --url https://collect.example.org --out wave": (
        "needs a collector; tests/client/test_fetching.py runs it against one"
    ),
    "veilgraph randomize wave/campaign.json --neighbours friends.txt --node u1 --limit 5 --entry-limit 4 "
    "--device-folder phone --out answer.json": "the same",
    "veilgraph submit answer.json --url https://collect.example.org --token TOKEN": "the same",
    SERVE: "serves until it is stopped; tests/collector runs it",
    "veilgraph serve health": "the same",
    "veilgraph serve health mobility": "the same",
    "veilgraph serve campaigns.toml --store sqlite:///reports.db": "the same",
}
# Long runs, shortened by arguments that are added to the command.
SHORTENED = {
    f"{OWN_GRAPH} --out runs/people": ["--seeds", "1", "--set", "epochs=2", "--epsilon", "1"],
    "veilgraph run --set epsilon_x=1 --set epsilon_y=1 --seeds 2 --out runs/one-budget": ["--set", "epochs=2"],
}
# The page that assumes a finished collection: commands that read one run there, elsewhere they are only parsed.
COLLECTED = "docs/how-to/deployment.md"
_COLLECTED = ("train", "predict", "estimate", "open-round")
# A page that shows commands of another one, which runs them.
RUN_BY = {"README.md": "docs/tutorials/first-collection.md"}
SERVED = "http://127.0.0.1:8000"
"""Where `veilgraph serve` listens, as pages say."""
# Files that a page assumes.
ASSUMED = {
    "docs/explanation/rounds.md": {
        "schema.toml": 'classes = ["well", "ill", "unsure"]\n',
        "edges.csv": "from,to\n1,2\n2,3\n",
    },
}


def write_collection(folder: Path) -> None:
    """Write a folder health with an empty store, and the files of an owner alone with a report of every node."""
    ReportStore.open(begun(folder).store.url).close()
    collection = Collection.ring(60)
    collection.write(folder)
    shutil.copy(folder / "edges.csv", folder / "edges-now.csv")
    (folder / "whom.csv").write_text("id\nn0\nn7\n", encoding="utf-8")
    names = collection.graph.names
    store = ReportStore.open(f"sqlite:///{folder}/reports.db")
    reports = [
        collection.report(name, features=(i % 3, i % 2, i % 4), label=int(i < 30)) for i, name in enumerate(names)
    ]
    store.reports.put(reports, now=0)
    store.close()


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    follows: bool
    """Whether only blank lines separate it from the block before."""
    file: str | None = None
    """The file that the reader is told to write it to."""

    @property
    def commands(self) -> list[str]:
        return [line for line in self.lines if line.startswith("veilgraph ")]

    @property
    def programs(self) -> list[str]:
        """Python files that the reader has written and runs."""
        return [match[1] for line in self.lines if (match := re.fullmatch(r"python (\w+\.py)", line))]

    @property
    def lines(self) -> list[str]:
        lines = self.text.splitlines() if self.language in ("bash", "console") else []
        return [line.removeprefix("$ ") for line in lines]


def blocks_of(page: Path) -> Iterator[Block]:
    last_end = 0
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        between = text[last_end : match.start()]
        told = re.search(r"Write it to `([\w.-]+)`:\s*$", between)
        yield Block(match[1], match[2], follows=last_end > 0 and not between.strip(), file=told[1] if told else None)
        last_end = match.end()


def commands_of(name: str | None) -> list[str]:
    """Return the commands that a page shows; none of no page."""
    return [] if name is None else [command for block in blocks_of(ROOT / name) for command in block.commands]


@cache
def prose_of(page: Path) -> str:
    """Return the page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose_of(page), flags=re.MULTILINE)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}


def commands_below(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command of the program with the words that lead to it."""
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands_below(child, *path, name)


COMMANDS = list(commands_below(parser_of(app), "veilgraph"))


def parse(command: str) -> None:
    """Parse a command line without running it; a mistake raises."""
    words = shlex.split(command)[1:]
    if words[0] == "--import":
        words = words[2:]
    parser: Any = parser_of(app)
    context = parser.make_context("veilgraph", [], resilient_parsing=True)
    while hasattr(parser, "resolve_command"):
        name, parser, words = parser.resolve_command(context, words)
        context = parser.make_context(name, list(words), parent=context, resilient_parsing=hasattr(parser, "commands"))
    # Typer has consumed every word that it knows.
    assert not context.args, f"{command}: {context.args} is left over"


@pytest.fixture
def methods() -> Iterator[None]:
    """Forget methods and data sets that a page registers."""
    known, datasets = dict(METHODS), dict(REGISTERED)
    yield
    METHODS.clear()
    METHODS.update(known)
    REGISTERED.clear()
    REGISTERED.update(datasets)


def without_ids(text: str) -> str:
    """Return a text without the ids of campaigns, which are random."""
    return re.sub("Campaign [0-9a-f]{64}", "Campaign ID", text.strip())


class Reader:
    """Does what a page says, from top to bottom, in the present folder; an address of `serve` is one on a free port."""

    def __init__(self, page: Path, running: ExitStack, capsys: pytest.CaptureFixture[str]) -> None:
        self.page, self.running, self.capsys = page, running, capsys
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self.address = SERVED
        self.printed: str | None = None

    def follow(self, block: Block) -> None:
        text = block.text.replace(SERVED, self.address)
        if block.file is not None:
            Path(block.file).write_text(text, encoding="utf-8")
        elif block.language == "python":
            exec(compile(text, f"{name_of(self.page)}, a python block", "exec"), self.namespace)  # noqa: S102
        if block.language in ("text", "json") and block.follows and self.printed is not None:
            assert without_ids(text) == without_ids(self.printed), f"{name_of(self.page)} shows another output"
        self.printed = None
        for program in block.programs:
            runpy.run_path(program, run_name="__main__")
        for command in block.commands:
            if self.is_run(command):
                self.run(command)

    def is_run(self, command: str) -> bool:
        name, collected = name_of(self.page), " --store " in command or command.split()[1] in _COLLECTED
        if name in RUN_BY.values():
            return True
        run_elsewhere = command in NOT_RUN or command in commands_of(RUN_BY.get(name))
        return not run_elsewhere and (name == COLLECTED or not collected)

    def run(self, command: str) -> None:
        words = shlex.split(command.replace(SERVED, self.address))[1:]
        if words[0] == "serve":
            self.address = self.running.enter_context(serving(CollectionFolder.open(Path(words[1]))))
            return
        self.capsys.readouterr()
        assert main([*words, *SHORTENED.get(command, [])]) == 0, command
        self.printed = self.capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.usefixtures("methods")
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch_geometric uses it at its import
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_programs_and_commands_of_a_page_run_in_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    if name_of(page) == COLLECTED:
        write_collection(tmp_path)
    for name, content in ASSUMED.get(name_of(page), {}).items():
        Path(name).write_text(content, encoding="utf-8")
    with ExitStack() as running:
        reader = Reader(page, running, capsys)
        for block in blocks_of(page):
            reader.follow(block)


def test_the_readme_shows_six_commands_of_the_tutorial_which_runs_them() -> None:
    shown, run = (commands_of(page) for page in next(iter(RUN_BY.items())))
    verbs = [command.split()[1] for command in shown if command in run]
    assert verbs == ["init", "rehearse", "serve", "invite", "status", "train"]


@pytest.mark.parametrize("page", ["adding-a-method.md", "adding-a-dataset.md"])
def test_a_method_or_a_data_set_of_ones_own_takes_at_most_forty_lines_of_code(page: str) -> None:
    code = [block.text for block in blocks_of(DOCS / "how-to" / page) if block.language in ("python", "toml")]
    lines = [line for text in code for line in text.splitlines() if line.strip()]
    assert 10 < len(lines) <= 40


def test_every_command_of_the_documentation_parses() -> None:
    commands = [command for page in LINKED for block in blocks_of(page) for command in block.commands]
    for command in commands:
        parse(command)
    assert {*NOT_RUN, *SHORTENED} <= set(commands), "an exception names a command that no page shows"


def test_a_command_with_an_unknown_option_does_not_parse() -> None:
    with pytest.raises(Exception, match="No such option"):
        parse("veilgraph account --sampled 1 --epsilon-x 1 --epsilon 3")


def test_the_page_of_the_command_line_is_what_the_help_of_the_commands_says() -> None:
    written = cli.PAGE.read_text(encoding="utf-8")
    assert cli.page(written) == written, "write it again: python -m docs.cli"
    assert {line.removeprefix("## ") for line in written.splitlines() if line.startswith("## ")} == {
        " ".join(path) for path, command in COMMANDS if not hasattr(command, "commands")
    }


def test_every_option_of_the_benchmarks_is_documented() -> None:
    text = (DOCS / "reference" / "performance.md").read_text(encoding="utf-8")
    options = {option for parameter in typer.main.get_command(benchmarks).params for option in parameter.opts}
    assert {option for option in options if f"`{option}`" not in text} == set()


def test_relative_links_and_images_lead_somewhere() -> None:
    for page in LINKED:
        for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
            if target.startswith(("https://", "http://")):
                continue
            file, _, anchor = target.partition("#")
            found = (page.parent / file).resolve() if file else page
            assert found.exists(), f"{name_of(page)} links to {target}, which is not there"
            assert not anchor or anchor in anchors_of(found), f"{name_of(page)} links to {target}: no such heading"


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    navigation = re.findall(r"^ +- .+: (\S+\.md)$", text, flags=re.MULTILINE)
    assert sorted(navigation) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


def test_every_public_name_is_documented() -> None:
    import veilgraph

    assert "\n::: veilgraph\n" in (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    described = {name: getattr(veilgraph, name).__doc__ or "" for name in veilgraph.__all__}
    # A data class without a docstring has its signature instead.
    assert [name for name, text in described.items() if not text or text.startswith(f"{name}(")] == []


def test_every_part_of_the_package_is_in_the_reference() -> None:
    pages = [*(DOCS / "reference" / "python").glob("*.md"), DOCS / "reference" / "api.md"]
    found = [name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text(), flags=re.MULTILINE)]
    for name in found:
        pkgutil.resolve_name(name)
    parts = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    commands = {"__init__", "__main__", "cli"}  # the page of the command line has their options
    assert sorted(found) == sorted(["veilgraph", *(f"veilgraph.{part}" for part in parts - commands)])


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_finds_every_public_name(tmp_path: Path) -> None:
    import veilgraph

    if importlib.util.find_spec("mkdocstrings") is None:
        pytest.skip("mkdocstrings is not installed: make setup")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    build = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert build.returncode == 0, build.stderr
    index = json.loads((tmp_path / "search" / "search_index.json").read_text(encoding="utf-8"))
    places = {entry["location"] for entry in index["docs"]}
    assert {f"reference/api.html#veilgraph.{name}" for name in veilgraph.__all__} <= places
    texts = [entry["text"] for entry in index["docs"]]
    assert not [text for text in texts if ":math:" in text or ".. math::" in text], "an equation is not rendered"


def test_the_quick_start_names_the_sections_of_the_page() -> None:
    text = (DOCS / "tutorials" / "quickstart.md").read_text(encoding="utf-8").split("## Read the page")[1]
    named = re.findall(r"^[2-9]\. \*\*(.+?)\*\*", text.split("\n## ")[0], flags=re.MULTILINE)
    template = (SOURCE / "pages" / "curve_page.html").read_text(encoding="utf-8")
    headings = re.findall(r"<h2[^>]*>([^<]+)", template)
    assert named == headings[: len(named)]


def test_the_page_of_methods_follows_the_registries() -> None:
    text = (DOCS / "reference" / "methods.md").read_text(encoding="utf-8")
    methods = [f"| `{name}` | {entry.title} | {entry.description} |" for name, entry in METHODS.items()]
    mechanisms = [f"| `{name}` | {entry.title} |" for name, entry in MECHANISMS.items()]
    assert [row for row in [*methods, *mechanisms] if row not in text] == []
    always, with_features = (
        methods_for_campaign(mechanism) for mechanism in (None, GRRFS((2,), sampled=1, epsilon=1.0))
    )
    for name in METHODS:
        offered = "yes" if name in always else "with features" if name in with_features else ""
        (row,) = re.findall(rf"^\| `{name}` \|.*\| *([\w ]*?) *\|$", text, flags=re.MULTILINE)
        assert row == ("default" if name == DEFAULT_METHOD else offered)
    assert text.count("\n| `") == len(methods) + len(mechanisms)


def test_the_threat_model_has_the_figures_of_the_formula() -> None:
    text = (DOCS / "explanation" / "threat-model.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (\d+) \| ([\d.]+) \| (\d+) \| ([\d.]+) \| ([\d.]+) points \| (.+) \|$", text, flags=re.MULTILINE
    )
    settings = [(int(classes), float(epsilon), int(size)) for classes, epsilon, size, *_ in rows]
    for classes, epsilon in itertools.product((7, 18), (0.5, 1, 2, 3)):
        for mechanism in (best_label_mechanism(classes, epsilon), GRR(classes, epsilon)):
            assert settings.count((classes, epsilon, mechanism.set_size)) == 1
    for (classes, epsilon, size), (*_, counts_as, shift, shares) in zip(settings, rows, strict=True):
        channel = SubsetSelection(classes, epsilon, size).channel
        assert f"{float(1 / channel.gain):.1f}" == counts_as
        assert f"{shift_per_liar(channel):.2f}" == shift
        means = [(1 - liars) * 0.07 + liars * shift_per_liar(channel) for liars in (0, 0.05, 0.1, 0.2)]
        expected = [f"{100 * mean:.0f} %" for mean in means]
        assert shares.split(" | ") == expected
    sets = SubsetSelection(18, 1.0)
    too_many = smallest_implausible_group(sets, 5000, LEVEL)
    assert (
        f"among 5,000 reports of {sets.set_size} of 18 classes (epsilon_y = 1), {too_many:.0f} equal ones are too many"
    ) in text
    assert (
        f"with seven classes, 1 % of them move an estimated share by up to "
        f"{shift_per_liar(best_label_mechanism(7, 1.0).channel):.1f} points"
    ) in (DOCS / "how-to" / "deployment.md").read_text(encoding="utf-8")


def test_images_are_small_and_load_nothing() -> None:
    for image in (path for path in (DOCS / "images").rglob("*") if path.is_file()):
        assert image.stat().st_size < 200_000, image.name
    for drawing in (DOCS / "images").rglob("*.svg"):
        addresses = set(re.findall(r"https?://[^\"' ]+", drawing.read_text(encoding="utf-8")))
        namespaces = {address for address in addresses if address.startswith("http://www.w3.org/")}
        assert addresses == namespaces, f"{drawing.name} loads something"


def code_words_of(page: Path) -> list[str]:
    """Return everything that the page writes as `code` outside of fenced blocks."""
    return re.findall(r"`([^`\n]+)`", prose_of(page))


# Folders that commands write: they may be there or not.
RESULTS = {"runs", "site", "build", "dist"}


@cache
def is_path(word: str) -> bool:
    """Tell paths of this repository (`graph/io.py`, `tests/support/`) from commands, addresses and results."""
    first = word.split("/")[0]
    parts = {path.name for folder in (ROOT, SOURCE) for path in folder.iterdir() if path.is_dir()} - RESULTS
    return bool(re.fullmatch(r"[\w.*/-]+", word)) and ((first in parts and "/" in word) or word.endswith(".py"))


@cache
def found(path: str) -> list[Path]:
    """Return the files and folders that a path may mean: below the repository, or below the package."""
    return [match for folder in (ROOT, SOURCE) for match in folder.glob(path.rstrip("/"))]


def test_every_path_that_a_page_names_exists() -> None:
    for page in PRESENT:
        written = {block.file for block in blocks_of(page)}
        missing = [word for word in code_words_of(page) if is_path(word) and word not in written and not found(word)]
        assert missing == [], name_of(page)


def test_everything_that_looks_like_a_path_in_a_guide_is_one() -> None:
    for page in GUIDES:
        paths = [
            word for word in code_words_of(page) if re.fullmatch(r"[\w.*-]+(?:/[\w.*-]+)*/?", word) and "/" in word
        ]
        assert [path for path in paths if path.split("/")[0] not in RESULTS and not found(path)] == [], name_of(page)
        assert paths, name_of(page)


@cache
def importable(name: str) -> bool:
    """Return whether a dotted name is a module, or a name in one."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_every_module_and_name_in_a_page_can_be_imported() -> None:
    for page in PRESENT:
        code = [*code_words_of(page), *(block.text for block in blocks_of(page) if block.language == "bash")]
        dotted = {
            name
            for text in code
            for name in re.findall(r"(?<![\w./-])(?:veilgraph|benchmarks|studies)(?:\.\w+)+", text)
        }
        missing = [name for name in sorted(dotted) if not importable(name)]
        assert missing == [], name_of(page)


def test_names_that_follow_a_path_are_defined_in_that_file() -> None:
    """A page may write `path.py`: `name`, `other`."""
    for page in PRESENT:
        for path, names in re.findall(r"`([\w/]+\.py)`: (`[\w.]+`(?:(?:,| and) `[\w.]+`)*)", prose_of(page)):
            text = "".join(match.read_text(encoding="utf-8") for match in found(path))
            for name in re.findall(r"`([\w.]+)`", names):
                last = re.escape(name.split(".")[-1])
                defined = re.search(rf"^\s*(?:(?:def|class)\s+{last}\b|{last}\s*[:=])", text, flags=re.MULTILINE)
                assert defined, f"{name_of(page)}: {path} does not define {name}"


def test_every_command_in_the_prose_exists() -> None:
    for page in PRESENT:
        known = {" ".join(path[1:]) for path, _ in COMMANDS}
        for word in code_words_of(page):
            match = re.match(r"veilgraph ([a-z][a-z-]*)", word)
            assert not match or match[1] in known, f"{name_of(page)} names {word}"


def tree_of_the_architecture() -> dict[str, str]:
    """Return folders and root modules of the tree in docs/architecture.md with their descriptions."""
    block = next(block for block in blocks_of(DOCS / "architecture.md") if block.text.startswith("src/veilgraph/"))
    described: dict[str, str] = {}
    parents: list[str] = []
    for line in block.text.splitlines()[1:]:
        match = re.fullmatch(r"((?:  )+)([\w.]+/?)\s+(\S.*)", line)
        assert match, line
        assert len(line) <= 79, f"wraps in a browser: {line}"
        depth, name = len(match[1]) // 2 - 1, match[2]
        parents[depth:] = [name]
        described["".join(parents)] = match[3]
    return described


def test_every_folder_and_root_module_has_one_line_in_the_architecture() -> None:
    # An updated checkout can hold empty folders of before, with compiled files alone.
    files = [path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    parents = {parent for path in files for parent in path.parents if SOURCE in parent.parents}
    folders = {f"{parent.relative_to(SOURCE).as_posix()}/" for parent in parents}
    modules = {path.name for path in SOURCE.glob("*.py") if not path.name.startswith("__")}
    assert set(tree_of_the_architecture()) == folders | modules


def test_the_layers_of_the_architecture_are_those_of_the_layer_test() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8").split("## The layers")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([a-z ]+) \| (`.+?`) \|", text, flags=re.MULTILINE)
    written = {layer: re.findall(r"`(\w+)`", parts) for layer, parts in reversed(rows)}
    expected = {layer: [part for part in parts if part != "__main__"] for layer, parts in LAYERS.items()}
    assert list(written.items()) == list(expected.items())


def test_the_changelog_is_short_and_every_entry_is_one_short_line() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert len(text.encode()) <= 12_000
    assert "### Privacy" in text.split("\n## ")[1]
    entries = text.split("\n## ")[1].splitlines()
    assert [line for line in entries if line.startswith("- ") and len(line) > 240] == []
    assert [line for line in entries if line.startswith(" ")] == [], "an entry is one line"


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def sentences_of(page: Path) -> Iterator[str]:
    """Yield the sentences of the page's prose: no tables, headings or captions of images."""
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.|!!!) )", prose_of(page)):
        if not paragraph.lstrip().startswith(("|", "#", "![", "<!--")):
            text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", paragraph)
            yield from re.split(r"(?<=[.!?:;])\*?\s+", " ".join(text.split()))


def test_sentences_of_the_first_pages_are_short() -> None:
    for page in FIRST_PAGES:
        long = [sentence for sentence in sentences_of(page) if len(sentence.split()) > LONGEST_SENTENCE]
        assert long == [], name_of(page)


def test_every_location_of_the_nginx_recipe_says_who_asks_and_how() -> None:
    text = (ROOT / "docs" / "how-to" / "deployment.md").read_text(encoding="utf-8")
    recipe = "".join(re.findall(r"```nginx\n(.*?)```", text, flags=re.DOTALL))
    recipe += (ROOT / "deploy" / "oauth2-proxy.conf").read_text(encoding="utf-8")
    locations = re.findall(r"location \S+ \{(.*?)\}", recipe, flags=re.DOTALL)
    to_collector = [body for body in locations if ":8000" in body]
    assert len(to_collector) == 2
    # A location that sets one header inherits none.
    for body in to_collector:
        assert "proxy_set_header X-Forwarded-For $remote_addr;" in body
        assert "proxy_set_header X-Forwarded-Proto $scheme;" in body
    assert "access_log off;" in recipe
    assert "error_log /dev/null emerg;" in recipe
    # Whoever asks chooses the host that they name.
    assert "absolute_redirect off;" in recipe
    assert "$host" not in recipe
