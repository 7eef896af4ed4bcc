"""The package as people install it: content of a wheel and an sdist, and what each extra can do by itself.

The extra of the collector is installed in `tests/test_containers.py`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.collection import Collection
from tests.support.lower_bounds import locked, lower_bounds
from tests.support.trained import train_files
from veilgraph.collector.store import ReportStore

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "veilgraph"
MAX_IMPORT_SECONDS = 0.15
"""Time in which the package, its accounting and its client are imported; numpy takes most of it."""

ANSWER = ["--record=record.json", "--node=n0", "--limit=4", "--device-folder=kept", "--out=report.json"]
RECORD = {"age": 35, "smoker": "yes", "region": "west", "health": "ill"}
NO_INDEX = re.compile(r"No matching distribution|Could not find a version|connection|Temporary failure", re.IGNORECASE)

pytestmark = pytest.mark.slow


def python(*arguments: str, cwd: Path) -> str:
    """Run this Python with arguments; return what it prints."""
    run = subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
    return run.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a copy of the project; return the folder of the wheel and the sdist. The wheel is made from the sdist."""
    if importlib.util.find_spec("build") is None:
        pytest.skip("build is not installed: make setup")
    folder = tmp_path_factory.mktemp("project")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(SOURCE, folder / "src" / "veilgraph", ignore=shutil.ignore_patterns("__pycache__"))
    python("-m", "build", "--no-isolation", "--outdir", "dist", cwd=folder)
    return folder / "dist"


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (path,) = built.glob("*.whl")
    return path


class Environment:
    """An environment in which nothing but the wheel, an extra and their dependencies is installed.

    Args:
        folder: where it is made.
        requirement: the wheel, with an extra or none.
    """

    def __init__(self, folder: Path, requirement: str) -> None:
        self.programs = folder / ("Scripts" if os.name == "nt" else "bin")
        python("-m", "venv", "--without-pip", str(folder), cwd=folder.parent)
        # Most of what is installed is never imported, and to compile it takes longer than to unpack it.
        constraints = folder / "constraints.txt"
        constraints.write_text("\n".join(locked(ROOT / "locks")), encoding="utf-8")
        done = self.pip("install", "--quiet", "--no-compile", "--constraint", str(constraints), requirement)
        if done.returncode and NO_INDEX.search(done.stderr):
            pytest.skip(f"no package index can be reached: {done.stderr.splitlines()[-1]}")
        assert done.returncode == 0, done.stderr

    def pip(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the installer of the tests on this environment."""
        command = [sys.executable, "-m", "pip", "--python", str(self.programs / "python"), *arguments]
        return subprocess.run(command, cwd=self.programs, capture_output=True, text=True, check=False)

    def run(self, program: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run one of its programs; nothing of the environment of the tests is visible to it."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VEILGRAPH"))}
        command = [str(self.programs / program), *arguments]
        return subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, check=False)

    def veilgraph(self, *arguments: str, cwd: Path) -> str:
        """Run a command that succeeds; return what it prints."""
        done = self.run("veilgraph", *arguments, cwd=cwd)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, *arguments: str, cwd: Path) -> str:
        """Run a command that fails; return its one sentence."""
        done = self.run("veilgraph", *arguments, cwd=cwd)
        (line,) = done.stderr.splitlines()
        assert done.returncode == 2
        return line

    @property
    def libraries(self) -> set[str]:
        """Names of what is installed."""
        listed = self.pip("list", "--format", "json").stdout
        return {entry["name"].lower().replace("_", "-") for entry in json.loads(listed)}


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Environment]]:
    """Return a function that installs the wheel with an extra, and removes every environment at the end."""
    folder = tmp_path_factory.mktemp("environments")

    def install(extra: str) -> Environment:
        return Environment(folder / (extra or "none"), f"{wheel}{f'[{extra}]' if extra else ''}")

    yield install
    shutil.rmtree(folder)


@pytest.fixture
def campaign(tmp_path: Path) -> Collection:
    """Write the files of a campaign owner and a private record into a folder."""
    collection = Collection.ring(60)
    collection.write(tmp_path)
    (tmp_path / "record.json").write_text(json.dumps(RECORD), encoding="utf-8")
    return collection


def test_wheel_and_sdist_hold_every_file_of_the_package(built: Path, wheel: Path) -> None:
    files = {path.relative_to(SOURCE.parent).as_posix() for path in SOURCE.rglob("*") if path.is_file()}
    expected = {name for name in files if "__pycache__" not in name}
    with zipfile.ZipFile(wheel) as archive:
        assert {name for name in archive.namelist() if ".dist-info/" not in name} == expected
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as source:
        names = {name.partition("/")[2] for name in source.getnames()}
    assert {f"src/{name}" for name in expected} <= names
    assert {"LICENSE", "README.md", "pyproject.toml"} <= names
    assert not [name for name in names if name.startswith(("tests", "docs", "benchmarks"))]


def test_without_extras_there_are_accounting_campaigns_and_the_client(
    installed: Callable[[str], Environment], campaign: Collection, tmp_path: Path
) -> None:
    environment = installed("")
    assert not environment.libraries & {"torch", "pandas", "matplotlib", "fastapi", "sqlalchemy", "scikit-learn"}
    assert "epsilon = 1.0000" in environment.veilgraph("account", "--epsilon-y", "1", cwd=tmp_path)
    assert campaign.campaign.id in environment.veilgraph("review", "campaign.json", cwd=tmp_path)
    assert campaign.campaign.id in environment.veilgraph("randomize", "campaign.json", *ANSWER, "--json", cwd=tmp_path)
    assert "not ready" in environment.veilgraph("doctor", cwd=tmp_path)
    for extra, command in (("lab", ["run"]), ("server", ["predict", "--model=m", "--graph=edges.csv", "--out=o.csv"])):
        assert f"pip install 'veilgraph[{extra}]'" in environment.refused(*command, cwd=tmp_path)
    for module in ("veilgraph", "veilgraph.privacy.accounting", "veilgraph.client"):
        assert import_seconds(environment, module) < MAX_IMPORT_SECONDS, module


def import_seconds(environment: Environment, module: str) -> float:
    """Return the CPU time of an import in a new process: the least of five, since other processes only add to it."""
    code = f"import time; start = time.process_time(); import {module}; print(time.process_time() - start)"
    return min(float(environment.run("python", "-c", code, cwd=environment.programs).stdout) for _ in range(5))


def test_the_server_predicts_from_a_model_folder(
    installed: Callable[[str], Environment], campaign: Collection, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/reports.db"
    store = ReportStore.open(url)
    answers = [(name, i // 30) for i, name in enumerate(campaign.graph.names)]
    store.reports.put([campaign.report(name, label=label) for name, label in answers], now=0)
    store.close()
    train_files(url, tmp_path / "campaign.json", tmp_path / "edges.csv", out=tmp_path / "model")
    environment = installed("server")
    assert not environment.libraries & {"fastapi", "sqlalchemy", "matplotlib", "optuna"}
    files = ["--graph", "edges.csv", "--out", "predictions.csv"]
    environment.veilgraph("predict", "--model", "model", *files, cwd=tmp_path)
    assert len((tmp_path / "predictions.csv").read_text(encoding="utf-8").splitlines()) == 61
    training = ["campaign.json", "--store", url, "--graph", "edges.csv", "--out", "again"]
    assert "pip install 'veilgraph[collector]'" in environment.refused("train", *training, cwd=tmp_path)


def test_every_run_time_dependency_has_a_lower_bound() -> None:
    pins = lower_bounds((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert len(pins) > 20
