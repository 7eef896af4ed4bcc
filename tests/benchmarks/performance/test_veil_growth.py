"""Stages of Veil on growing graphs: each has its time and memory, and finished sizes are not measured again."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.performance.veil_growth import BYTES_PER_NODE, grow, measure, table


def test_every_stage_has_a_time_and_a_peak(tmp_path: Path) -> None:
    sizes = [measure(nodes, homophily=0.6, memory=BYTES_PER_NODE * nodes) for nodes in (200, 400)]
    for size in sizes:
        assert {"generate and randomize", "block model", "spectral", "PageRank", "communities"} <= set(size["stages"])
        assert all(stage["seconds"] >= 0 and stage["peak_bytes"] > 0 for stage in size["stages"].values())
        assert 0 <= size["accuracy"] <= 1
    (tmp_path / "veil_growth.json").write_text(json.dumps(sizes))
    assert grow([200, 400], tmp_path, []) == sizes
    assert "| all but communities | " in table(sizes)
