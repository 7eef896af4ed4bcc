"""The folder tree is the trust boundary: imports go down only, and training cannot reach the truth."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import veilgraph

SOURCE = Path(veilgraph.__file__).parent

# Lower layers first. A part may import itself, its own row where that is harmless, and everything below.
LAYERS = [
    {"errors", "files", "progress"},
    {"apart", "processes"},
    {"tokens", "client"},
    {"schema", "budget"},
    {"mechanisms"},
    {"audit"},
    {"graph"},
    {"metis"},
    {"metis_workers"},
    {"campaign"},
    {"report"},
    {"collected", "screen"},
    {"frequency"},
    {"reconstruct"},
    {"learn"},
    {"training", "collector"},
    {"datasets"},
    {"evaluation"},
    {"experiments"},
    {"cli"},
    {"__main__"},
]
HEIGHT = {part: height for height, layer in enumerate(LAYERS) for part in layer}

FORBIDDEN = {
    "collector": {"client", "learn", "reconstruct", "datasets", "evaluation", "experiments"},
    "collected": {"client"},
    "training": {"client", "collector", "datasets", "evaluation", "experiments"},
    "learn": {"client", "datasets", "evaluation", "experiments"},
    "reconstruct": {"client", "datasets", "evaluation", "experiments"},
    "frequency": {"client", "datasets", "evaluation", "experiments"},
    "client": {"files", "tokens"},
    "datasets": {"learn", "reconstruct", "frequency"},
}

# Third-party libraries that only some parts may touch.
CONFINED = {
    "torch": {"processes", "frequency", "reconstruct", "learn", "training", "collector", "evaluation", "experiments"},
    "torch_geometric": {"learn"},
    "pymetis": {"metis"},
    "sklearn": {"datasets"},
    "matplotlib": {"experiments"},
    "jinja2": {"experiments", "collector"},
    "fastapi": {"collector"},
    "starlette": {"collector"},
    "uvicorn": {"collector"},
    "sqlalchemy": {"collector"},
    "alembic": {"collector"},
    "prometheus_client": {"collector"},
    "typer": {"cli"},
    "rich": {"cli"},
}


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> list[str]:
    """Every imported module, wherever in the file; `if TYPE_CHECKING` blocks count too."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
            names += [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return names


# The package's own __init__ names every part, lazily.
FILES = [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / "__init__.py"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_down_only(path: Path) -> None:
    part = part_of(path)
    for name in imports_of(path):
        if not name.startswith("veilgraph."):
            continue
        imported = name.split(".")[1]
        edge = f"{part} ({path.relative_to(SOURCE)}) imports {imported}"
        assert imported in HEIGHT, f"{edge}, which has no layer"
        assert imported == part or HEIGHT[imported] <= HEIGHT[part], f"{edge}, which is above it"
        assert imported not in FORBIDDEN.get(part, set()), f"{edge}, across the trust boundary"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_heavy_libraries_stay_in_their_parts(path: Path) -> None:
    part = part_of(path)
    for name in imports_of(path):
        allowed = CONFINED.get(name.split(".")[0], {part})
        assert part in allowed, f"{path.relative_to(SOURCE)} imports {name}, which belongs to {sorted(allowed)}"


def test_every_part_has_a_layer() -> None:
    assert {part_of(path) for path in FILES} <= set(HEIGHT)
