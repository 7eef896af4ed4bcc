"""The public names of the package are complete and need no optional library to be imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

import veilgraph
from tests.support.blocked_imports import run_without

EXTRAS = {
    "alembic",
    "fastapi",
    "itsdangerous",
    "jinja2",
    "loky",
    "matplotlib",
    "pandas",
    "prometheus_client",
    "pyarrow",
    "pymetis",
    "sklearn",
    "sqlalchemy",
    "threadpoolctl",
    "torch",
    "torch_geometric",
    "uvicorn",
}
COMMAND_LINE = """
from veilgraph.cli import main
sys.exit(main(sys.argv[1:]))
"""


def without_extras(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_without(EXTRAS, COMMAND_LINE, *arguments)


def test_every_public_name_can_be_imported() -> None:
    assert [name for name in veilgraph.__all__ if getattr(veilgraph, name) is None] == []


def test_the_names_that_are_found_are_the_public_ones() -> None:
    assert set(dir(veilgraph)) == {*veilgraph.__all__, "__version__"}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = veilgraph.nonsense


def test_importing_the_package_loads_no_heavy_library() -> None:
    loaded = "import sys, veilgraph; print([m for m in ('torch', 'numpy', 'pandas') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_training_starts_without_slow_libraries_that_it_does_not_need() -> None:
    code = (
        "import sys, veilgraph.cli, veilgraph.deploy, veilgraph.collector.store\n"
        "slow = ('alembic', 'matplotlib', 'scipy.stats', 'scipy.optimize', 'torch_geometric')\n"
        "print([module for module in slow if module in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_accounting_needs_no_extras() -> None:
    result = without_extras("account", "--features", "53", "--sampled", "10", "--epsilon-x", "1")
    assert result.returncode == 0, result.stderr
    assert "epsilon = 10.0000" in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("run",),
        ("serve", "c.json", "--graph", "g", "--store", "s", "--keys-file", "k", "--admin-token-file", "a"),
        ("train", "c.json", "--store", "s", "--graph", "g", "--out", "o"),
        ("predict", "--model", "m", "--graph", "g", "--out", "o.csv"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_missing_extra_is_one_clear_sentence(arguments: tuple[str, ...]) -> None:
    result = without_extras(*arguments)
    assert result.returncode == 2
    assert len(result.stderr.strip().splitlines()) == 1
    assert "pip install 'veilgraph[" in result.stderr
