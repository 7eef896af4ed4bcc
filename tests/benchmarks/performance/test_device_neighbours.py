"""The benchmark of a device's work: it measures both clients on files that the package publishes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.performance.device_neighbours import ROOT, STAGES, in_node, in_python, make_files, table

from tests.support.browser_module import needs_node


@needs_node
def test_both_clients_answer_for_a_list_without_a_table(tmp_path: Path) -> None:
    make_files(600, tmp_path, "list")
    for found in (in_python(ROOT, tmp_path, 1), in_node(ROOT, tmp_path, 1)):
        assert all(found[stage] >= 0 for stage in STAGES)


@needs_node
def test_both_clients_answer_from_the_files_and_every_stage_is_timed(tmp_path: Path) -> None:
    make_files(600, tmp_path)
    sizes = {what: (tmp_path / what).stat().st_size for what in ("people", "table")}
    found: dict[str, Any] = {"bytes": sizes, "python": in_python(ROOT, tmp_path, 1), "node": in_node(ROOT, tmp_path, 1)}
    assert all(found[client][stage] >= 0 for client in ("python", "node") for stage in STAGES)
    assert found["python"]["report"] < 1000
    text = table([{"people": 600, "this": found, "against": found}], ["this", "against"])
    assert "| 600 | python, together |" in text
    assert "| 600 | bytes, people | 1,911 | 1,911 | 1.0 |" in text
