"""One file made of all files of the client: it is what they say, and runs alone."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import veilgraph.client
from tests.support.campaigns import BEFORE, CAMPAIGNS
from tests.support.forgeries import RECORD
from veilgraph.campaign.report import Report
from veilgraph.client import refusals
from veilgraph.client.one_file import FILES, main, one_file
from veilgraph.errors import CampaignError, VeilgraphError

FOLDER = Path(veilgraph.client.__file__).parent
BINARY = CAMPAIGNS["binary"]
VECTORS = json.loads(Path(__file__).with_name("vectors.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("one") / "participant.py"
    assert main([str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def participant(built: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("participant", built)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["participant"] = module  # which dataclasses look up
    spec.loader.exec_module(module)
    return module


def client_imports(path: Path) -> list[str]:
    """Return the files of the client that a file imports, wherever it does."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.ImportFrom)]
    return [node.module.rpartition(".")[2] for node in nodes if node.module and "veilgraph.client." in node.module]


def test_each_file_of_the_client_is_in_it_short_and_imports_earlier_ones_only() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == {*FILES, "one_file", "__init__"}
    for place, name in enumerate(FILES):
        assert set(client_imports(FOLDER / f"{name}.py")) <= set(FILES[:place]), name
        assert len((FOLDER / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= 600


def test_its_code_is_that_of_the_files_word_by_word() -> None:
    """Statement by statement: what is left out are imports between the files, and docstrings, which are comments."""
    left = [ast.dump(node) for node in ast.parse(one_file()).body if not isinstance(node, ast.Import | ast.ImportFrom)]
    said = [
        ast.dump(node)
        for name in FILES
        for node in ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8")).body[1:]
        if not isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert left[2:] == said, "after the docstring and __all__"
    assert one_file() == one_file()


def test_it_offers_what_the_package_offers(participant: ModuleType) -> None:
    assert participant.__all__ == veilgraph.client.__all__
    assert all(hasattr(participant, name) for name in participant.__all__)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_it_draws_the_reports_of_the_common_vectors(vector: dict[str, object], participant: ModuleType) -> None:
    question = participant.verify(vector["campaign"], max_epsilon=1e6, now=BEFORE)
    cases = vector["cases"]
    assert isinstance(cases, list)
    for case in cases:
        words = iter(case["words"])
        drawn = participant.randomize(
            question, *participant.encode(question, case["record"]), word=lambda words=words: next(words)
        )
        assert json.loads(json.dumps(drawn)) == [case["features"], case["label"]]
        assert not list(words)


def test_it_runs_alone(built: Path, tmp_path: Path) -> None:
    (tmp_path / "campaign.json").write_text(BINARY.to_json())
    program = (
        f"import sys; sys.path[:] = [{str(built.parent)!r}] + [p for p in sys.path if 'site-packages' not in p]; "
        "import participant, json; "
        f"report = participant.answer(open({str(tmp_path / 'campaign.json')!r}).read(), {RECORD!r}, node='u1', "
        f"store={str(tmp_path / 'store')!r}, max_epsilon=5); "
        "print(json.dumps(report)); "
        "assert not any(name.startswith('veilgraph') for name in sys.modules)\n"
        "try: participant.answer('{}', {}, node='u', store='s', max_epsilon=1)\n"
        "except participant.CampaignError: pass"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert Report.parse(json.loads(done.stdout), BINARY).node == "u1"


def test_the_command_says_what_it_wrote_and_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "participant.py")]) == 0
    assert "SHA-256" in capsys.readouterr().out
    for wrong in ([], ["a", "b"], ["--help"]):
        assert main(wrong) == 2
        assert "give the path" in capsys.readouterr().err


def test_the_client_loads_nothing_of_third_parties() -> None:
    program = (
        "import sys; before = set(sys.modules); from veilgraph.client import answer; "
        "new = {name.split('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new - set(sys.stdlib_module_names)), "
        "sorted(name for name in sys.modules if name.startswith('veilgraph.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    files = sorted(["veilgraph.client", "veilgraph.errors", *(f"veilgraph.client.{name}" for name in FILES)])
    assert done.stdout.strip() == f"['veilgraph'] {files}"


def test_every_error_of_the_client_is_the_packages() -> None:
    assert issubclass(refusals.CampaignError, VeilgraphError)
    assert refusals.CampaignError is CampaignError
