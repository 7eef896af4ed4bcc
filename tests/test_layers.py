"""The folder tree is the trust boundary: imports go down only, and training cannot reach the truth."""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import veilgraph

SOURCE = Path(veilgraph.__file__).parent

# Lower layers first. A module may import its own part, the parts before it in its layer, and every lower layer.
LAYERS: dict[str, list[str]] = {
    "base": ["errors", "atomic_files", "progress"],
    "contract": ["client", "privacy"],
    "graph": ["graph"],
    "processes": ["distributed"],
    "collection": ["campaign", "collector"],
    "reconstruction": ["reconstruct"],
    "learning": ["models", "deploy"],
    "laboratory": ["datasets", "evaluation", "experiments"],
    "pages": ["pages"],
    "folders": ["collection"],
    "command line": ["cli", "__main__"],
}
HEIGHT = {part: height for height, part in enumerate(part for layer in LAYERS.values() for part in layer)}

# The same order inside `models`, by module or folder.
MODELS = [
    "parameters",
    "saved_state",
    "checkpoint",
    "conformal",
    "unused_reports",
    "naive_bayes",
    "base",
    "node_classifier",
    "engine",
    "rgnn",
    "lpgnn",
    "baselines",
    "structure_only",
    "veil",
    "neighbour_waves",
    "registry",
    "plugins",
    "__init__",
]

# Where private neighbours live, and the few modules outside that name them: to delete private neighbours, delete the
# first, and these imports with the registry lines or the branch that they serve.
NEIGHBOURS = re.compile(
    r"(campaign|models)/neighbour(s|_waves)/|(client|cli|experiments|pages)/(\w+_)?neighbours?(_\w+)?\.py"
    r"|deploy/publish_wave\.py|experiments/(edge_knowledge|randomized_lists)\.py"
)
NAMING_NEIGHBOURS = {
    "campaign/document.py": 1,  # registry of what campaigns ask
    "models/registry.py": 1,
    "models/__init__.py": 1,
    "collection/begin.py": 1,
    "deploy/sources.py": 2,
    "deploy/model_folder.py": 1,
    "cli/open_round.py": 1,
    "cli/plan.py": 1,
    "cli/run.py": 1,
    "experiments/grid.py": 1,
}

LABORATORY = {"datasets", "evaluation", "experiments", "pages"}
FORBIDDEN = {
    "collector": {"client", "reconstruct", "models"},
    "campaign": {"client"},
    "deploy": {"client", *LABORATORY},
    "models": {"client", "campaign", "collector", *LABORATORY},
    "reconstruct": {"client", "campaign", "collector", *LABORATORY},
    "privacy": {"client"},
    "client": {"atomic_files", "progress"},
    "datasets": {"models", "reconstruct", "campaign", "collector"},
}

# Third-party libraries that only some parts may touch.
CONFINED = {
    "torch": {"graph", "distributed", "reconstruct", "models", "deploy", "evaluation", "experiments"},
    "torch_geometric": {"models"},
    "loky": {"graph"},
    "threadpoolctl": {"graph"},
    "pymetis": {"graph"},
    "sklearn": {"datasets", "models"},
    "matplotlib": {"pages"},
    "jinja2": {"pages", "collector", "collection"},
    "segno": {"collection"},
    "fastapi": {"collector"},
    "starlette": {"collector"},
    "uvicorn": {"collector"},
    "sqlalchemy": {"collector"},
    "alembic": {"collector"},
    "prometheus_client": {"collector"},
    "itsdangerous": {"collector"},
    "typer": {"cli"},
    "rich": {"cli"},
}


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@cache
def imports_of(path: Path) -> tuple[str, ...]:
    """Every imported module, wherever in the file; `if TYPE_CHECKING` blocks count too."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
            names += [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return tuple(names)


# The package's own __init__ names every part, lazily.
FILES = [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / "__init__.py"]


def test_imports_go_down_only() -> None:
    for path in FILES:
        part = part_of(path)
        for name in imports_of(path):
            if not name.startswith("veilgraph."):
                continue
            imported = name.split(".")[1]
            edge = f"{part} ({path.relative_to(SOURCE)}) imports {imported}"
            assert imported in HEIGHT, f"{edge}, which has no layer"
            assert imported == part or HEIGHT[imported] <= HEIGHT[part], f"{edge}, which is above it"
            assert imported not in FORBIDDEN.get(part, set()), f"{edge}, across the trust boundary"


def test_heavy_libraries_stay_in_their_parts() -> None:
    for path in FILES:
        part = part_of(path)
        for name in imports_of(path):
            allowed = CONFINED.get(name.split(".")[0], {part})
            assert part in allowed, f"{path.relative_to(SOURCE)} imports {name}, which belongs to {sorted(allowed)}"


def test_the_package_needs_nothing_that_lives_beside_it() -> None:
    beside = {"benchmarks", "studies", "tests"}
    assert [path for path in FILES if not {name.split(".")[0] for name in imports_of(path)}.isdisjoint(beside)] == []


def test_studies_use_public_names_of_the_package() -> None:
    for path in sorted((SOURCE.parents[1] / "studies").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("veilgraph"):
                names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
                assert not [name for name in names if name.startswith("_")], f"{path.name} imports {names}"


def test_every_part_has_a_layer() -> None:
    assert {part_of(path) for path in FILES} <= set(HEIGHT)


def models_part_of(name: str) -> str:
    """Return the module or folder inside `models` of a dotted name."""
    parts = name.split(".")[2:]
    return parts[0] if parts else "__init__"


def test_imports_inside_models_go_down_only() -> None:
    height = {part: place for place, part in enumerate(MODELS)}
    for path in [path for path in FILES if part_of(path) == "models"]:
        part = path.relative_to(SOURCE / "models").parts[0].removesuffix(".py")
        for name in imports_of(path):
            if name.startswith("veilgraph.models"):
                imported = models_part_of(name)
                assert height[imported] <= height[part], f"models/{part} ({path.name}) imports models/{imported}"


def module_of(path: Path) -> str:
    return ".".join(("veilgraph", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


def test_there_is_no_cycle_of_imports() -> None:
    graph = {module_of(path): set(imports_of(path)) for path in FILES}
    modules = {
        name: {other for other in imported if other in graph and other != name} for name, imported in graph.items()
    }
    try:
        TopologicalSorter(modules).prepare()
    except CycleError as error:
        cycle = error.args[1]
    else:
        cycle = []
    assert cycle == []


@pytest.mark.parametrize("start", ["cli.model", "pages.model_card", "pages.campaign_summary", "deploy.training"])
def test_a_deployed_training_and_what_it_writes_reach_nothing_of_the_laboratory(start: str) -> None:
    graph = {module_of(path): set(imports_of(path)) for path in FILES}
    # Shell completion reads the names of data sets when somebody presses Tab.
    del graph["veilgraph.cli.completion"]
    reached, waiting = set[str](), [f"veilgraph.{start}"]
    while waiting:
        module = waiting.pop()
        if module in graph and module not in reached:
            reached.add(module)
            waiting += graph[module]
    laboratory = {"datasets", "evaluation", "experiments"}
    assert len(reached) > 20
    assert sorted(name for name in reached if name.split(".")[1] in laboratory) == []


def test_no_module_changes_where_python_looks_for_modules() -> None:
    changing = [path for path in FILES if "sys.path" in path.read_text(encoding="utf-8")]
    assert not changing, "a command that appends to sys.path imports what is not installed"


def test_at_most_six_modules_are_at_the_root() -> None:
    assert len(list(SOURCE.glob("*.py"))) <= 6


def test_few_modules_name_private_neighbours() -> None:
    files = {path.relative_to(SOURCE).as_posix(): path for path in FILES}
    homes = {name for name in files if NEIGHBOURS.match(name)}
    named: dict[str, int] = {}
    for name in files.keys() - homes:
        # The clients are implementations of their own: each takes up its file about neighbours by itself.
        modules = [each.removeprefix("veilgraph.").replace(".", "/") for each in imports_of(files[name])]
        if count := sum(bool(NEIGHBOURS.match(f"{each}/") or NEIGHBOURS.match(f"{each}.py")) for each in modules):
            named |= {} if name.startswith("client/") else {name: count}
    assert {"campaign/neighbours/wave.py", "models/neighbour_waves/model.py"} < homes
    assert named == NAMING_NEIGHBOURS
