"""Random bad input causes no 5xx and no traceback, and no invalid report is stored."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.performance.collecting import Server
from studies.fuzz import fuzz

from tests.support.collection import SCHEMA, Collection
from veilgraph.privacy.schema import FeatureSchema

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("inputs", "classes"), [(4000, 4), (2000, 18)])
def test_thousands_of_mutated_reports_tokens_requests_and_campaigns(inputs: int, classes: int, tmp_path: Path) -> None:
    """`python -m studies.fuzz` sends a hundred thousand. With 18 classes, reports name sets of them."""
    answers = fuzz(inputs=inputs, seed=7, folder=tmp_path, classes=classes)
    # The mutations reach every stage of validation.
    for reached in (
        "report 201",
        "report 409",
        "report 422",
        "token 401",
        "batch 200",
        "batch 422",
        "campaign refused",
    ):
        assert answers[reached] > 0
    assert answers["stored"] > 0


@pytest.mark.parametrize("schema", [SCHEMA, FeatureSchema(classes=tuple(f"c{i}" for i in range(18)))])
def test_schemathesis_finds_no_answer_that_the_openapi_document_does_not_announce(
    schema: FeatureSchema, tmp_path: Path
) -> None:
    collection = Collection.ring(schema=schema)
    options = [*collection.write(tmp_path), "--store", f"sqlite:///{tmp_path}/reports.db"]
    schemathesis = shutil.which("st", path=str(Path(sys.executable).parent))
    assert schemathesis is not None
    # A batch is lines, which the tool would not know how to write.
    (tmp_path / "hooks.py").write_text(
        'import schemathesis\nschemathesis.serializer.alias("application/x-ndjson", "text/plain")\n', encoding="utf-8"
    )
    checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
    with Server(options, log=tmp_path / "log") as collector:
        command = [schemathesis, "run", f"{collector.url}/openapi.json", "--checks", checks, "--max-examples", "60"]
        command += [
            "--phases",
            "examples,coverage,fuzzing",
            "--seed",
            "1",
            "--generation-database",
            "none",
            "--no-color",
        ]
        environment = os.environ | {"SCHEMATHESIS_HOOKS": "hooks"}
        finished = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=240, env=environment
        )
        assert collector.process.poll() is None
    assert finished.returncode == 0, finished.stdout[-4000:]
    assert "Traceback" not in collector.text
    assert "unexpected" not in collector.text
