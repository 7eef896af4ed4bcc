"""Results become tables, a figure and a page, and name what was left out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from benchmarks.performance.figure import draw
from benchmarks.performance.summary import markdown, sentences, tables, write

from benchmarks.performance import docs
from tests.benchmarks.performance.test_machine import MACHINE


def report(**more: Any) -> dict[str, Any]:
    """Invented results: the tests check what is written, not what is measured."""

    def stage(name: str, literal: float | None) -> dict[str, Any]:
        return {
            "stage": name,
            "veilgraph_s": 0.002,
            "literal_s": literal,
            "ratio": literal and literal / 0.002,
            "floors_s": {"memory": 0.001, "cache": 0.0005, "peak": 0.0},
            "distance": {"memory": 2.0, "cache": 4.0, "peak": None},
            "note": "",
        }

    return {
        "date": "2026-01-02",
        "veilgraph": "0",
        "device": "cpu",
        "machine": vars(MACHINE) | {"in_words": MACHINE.in_words(), "busy": False},
        "workload": "a block model",
        "stages": [stage("features", 0.1), stage("clusters", None)],
        "hot_path": {
            "replicas": 8,
            "epochs": 20,
            "seconds": 1.0,
            "rows": [
                {"operation": "aten::bmm", "share": 0.75, "sum": 0.75},
                {"operation": "all others", "share": 0.25, "sum": 1.0},
            ],
        },
        **more,
    }


TABLE2 = {
    "jobs": 2,
    "rgnn_column": {"runs": 240, "veilgraph_s": 30.0, "literal_s_estimated": 3000.0, "ratio": 100.0},
    "whole_table": {"runs": 1000, "methods": ["rgnn"], "veilgraph_s": 100.0},
    "literal_runs": [{"dataset": "cora", "runs": 240, "literal_s": 12.5}],
}
GROWTH = {"rows": [{"nodes": 10_000, "seconds": 0.5}, {"nodes": 100_000, "seconds": 5.1}], "exponent": 1.01}


def test_a_stage_is_a_row_with_its_ratio_and_distances() -> None:
    stages, hot_path = tables(report())
    assert stages.rows[0] == ("features", "100 ms", "2.00 ms", "50×", "2.0×", "4.0×", "")
    assert stages.rows[1] == ("clusters", "", "2.00 ms", "", "2.0×", "4.0×", "")
    assert hot_path.rows[0] == ("aten::bmm", "75%", "75%")


def test_the_full_report_has_the_paper_s_table_and_growth() -> None:
    titles = {table.title: table for table in tables(report(table2=TABLE2, growth=GROWTH))}
    assert titles["Table 2 of the paper"].rows[0] == ("RGNN column", "240", "3000 s", "30.0 s", "100×")
    assert titles["Growth with size: time grows as nodes to the power 1.01"].rows[1] == ("100,000", "5.1")
    assert any("is an estimate" in sentence for sentence in sentences(report(table2=TABLE2)))


def test_what_is_left_out_says_why() -> None:
    left_out = report(table2={"left_out": "needs data sets that are not there"})
    assert "Left out, Table 2: needs data sets that are not there." in markdown(left_out)
    assert len(list(tables(left_out))) == 2


def test_a_busy_machine_is_named_beside_its_figures() -> None:
    busy = report()
    busy["machine"] |= {"busy": True, "load": 7.25}
    assert "Other work was running (a load of 7.2 on 2 cores)" in markdown(busy)
    assert "Other work" not in markdown(report())


def test_three_files_are_written(tmp_path: Path) -> None:
    write(report(table2=TABLE2), tmp_path / "new")
    assert json.loads((tmp_path / "new" / "bench.json").read_text()) == report(table2=TABLE2)
    assert "| features | 100 ms |" in (tmp_path / "new" / "bench.md").read_text()
    figure = (tmp_path / "new" / "bench.svg").read_text()
    assert set(re.findall(r"https?://[^\"' ]+", figure)) == {"http://www.w3.org/2000/svg"}


def test_the_page_is_rewritten_between_its_marks_only(tmp_path: Path) -> None:
    write(report(), tmp_path / "bench")
    (tmp_path / "docs" / "images").mkdir(parents=True)
    page = tmp_path / "studies" / "results" / "performance.md"
    page.parent.mkdir(parents=True)
    page.write_text(f"before\n{docs.BEGIN}\nold\n{docs.END}\nafter\n", encoding="utf-8")
    for _ in range(2):
        docs.update(tmp_path / "bench", root=tmp_path)
        text = page.read_text(encoding="utf-8")
        assert text.startswith(f"before\n{docs.BEGIN}\n")
        assert text.endswith(f"{docs.END}\nafter\n")
        assert text.count("| features | 100 ms |") == 1
        assert "old" not in text
    assert (tmp_path / "docs" / "images" / "performance.svg").read_text(encoding="utf-8") == draw(report())


def test_the_page_of_measurements_has_the_marks() -> None:
    text = (docs.ROOT / "studies" / "results" / "performance.md").read_text(encoding="utf-8")
    assert text.count(docs.BEGIN) == text.count(docs.END) == 1
    assert "](../../docs/images/performance.svg)" in text or "Nothing was measured yet" in text


def test_a_page_without_marks_is_refused(tmp_path: Path) -> None:
    write(report(), tmp_path)
    page = tmp_path / "studies" / "results" / "performance.md"
    page.parent.mkdir(parents=True)
    page.write_text("no marks", encoding="utf-8")
    with pytest.raises(ValueError, match="unpack"):
        docs.update(tmp_path, root=tmp_path)
