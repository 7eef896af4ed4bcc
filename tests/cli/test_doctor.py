"""`veilgraph doctor` tells what is installed and what works, in one screen."""

from __future__ import annotations

import json
from importlib.metadata import version

import pytest

from tests.support.blocked_imports import run_without
from veilgraph.cli import main
from veilgraph.cli.doctor import PARTS, examine

Capture = pytest.CaptureFixture[str]

DECLARED = [
    "numpy>=1.26",
    'torch>=2.11; extra == "server"',
    'psycopg[binary]>=3.2.1; extra == "collector"',
    'veilgraph[server]; extra == "lab"',
    'matplotlib>=3.8; extra == "lab"',
]


def test_everything_is_on_one_screen(capsys: Capture) -> None:
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    starts = {line.split()[0] for line in lines if line}
    assert {"veilgraph", *PARTS, "GPU", "threads", "METIS", "databases", "data"} == starts


def test_the_same_as_json(capsys: Capture) -> None:
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parts"]["contract"]["libraries"]["numpy"] == version("numpy")
    assert found["parts"]["collector"]["install"] is None
    assert found["metis"] == {"works": True, "text": f"works: pymetis {version('pymetis')}"}


def test_what_cannot_be_imported_is_not_tried() -> None:
    code = "from veilgraph.cli import main\nsys.exit(main(['doctor']))"
    result = run_without({"torch", "pymetis", "sqlalchemy"}, code)
    assert result.returncode == 0, result.stderr
    assert "GPU        not tried: torch is not installed" in result.stdout
    assert "METIS      not tried: this needs pymetis, which is not installed: pip install" in result.stdout
    assert "databases  not tried: sqlalchemy is not installed" in result.stdout


def test_a_part_is_ready_with_all_its_libraries() -> None:
    installed = {"numpy": "1.26.0", "torch": "2.11.0+cpu", "matplotlib": "3.10"}
    for name, ready in (("contract", True), ("server", True), ("lab", True), ("collector", False)):
        part = examine(name, declared=DECLARED, installed=installed.get)
        assert part.in_words().startswith("ready: " if ready else "not ready ("), name
    missing = examine("collector", declared=DECLARED, installed=installed.get)
    assert missing.in_words().endswith("no psycopg. pip install --upgrade 'veilgraph[collector]'")


@pytest.mark.parametrize("found", ["2.9.1", "2.10", "1.26"])
def test_a_library_below_its_bound_is_too_old(found: str) -> None:
    part = examine("lab", declared=DECLARED, installed={"torch": found, "matplotlib": "3.8.0"}.get)
    assert part.too_old == ("torch",)
    assert part.in_words().endswith("too old: torch. pip install --upgrade 'veilgraph[lab]'")
