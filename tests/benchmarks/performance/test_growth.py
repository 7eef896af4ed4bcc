"""The benchmark of growth with size, and the memory that large graphs may take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.performance import growth

SIZES: list[dict[str, Any]] = [
    {
        "nodes": nodes,
        "seconds": dict.fromkeys(growth.STAGES, nodes / 1000),
        "peak_bytes": dict.fromkeys(growth.STAGES, nodes * 2**20),
        "seconds_per_epoch": nodes / 10_000,
    }
    for nodes in (1000, 10_000)
]

_ONE_SIZE = """
import json, sys
from benchmarks.performance import growth
nodes, memory = map(int, sys.argv[1:])
# Blocks and stream partition, as for larger graphs.
small = {"block_nodes": 2**12, "max_metis_edges": 0}
print(json.dumps(growth.measure(nodes, epochs=2, device="cpu", memory=memory, **small)))
"""


@pytest.mark.parametrize("power", [0.5, 1.0, 1.05, 2.0])
def test_the_exponent_of_a_power_is_that_power(power: float) -> None:
    nodes = [10**i for i in range(4, 8)]
    assert growth.exponent(nodes, [3 * count**power for count in nodes]) == pytest.approx(power)


def test_the_table_has_a_row_for_every_stage() -> None:
    lines = growth.table(SIZES).splitlines()
    rows = [line.split(" | ")[0].removeprefix("| ") for line in lines[2:]]
    assert rows == [*growth.STAGES, "all", "all but bags", "one epoch"]
    assert "| train | 1 s, 0.98 GiB | 10 s, 9.77 GiB | 1.00 | 1.00 |" in lines
    assert "| all | 8 s, 0.98 GiB | 80 s, 9.77 GiB | 1.00 | 1.00 |" in lines
    assert "| all but bags | 7 s, 0.98 GiB | 70 s, 9.77 GiB | 1.00 | 1.00 |" in lines


def test_sizes_are_kept_and_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "growth.json").write_text(json.dumps(SIZES[:1]))
    measured: list[list[str]] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        measured.append(command)
        return subprocess.CompletedProcess(command, 0, stdout=json.dumps(SIZES[1]).encode())

    monkeypatch.setattr(subprocess, "run", run)
    assert growth.grow([1000, 10_000], tmp_path, ["--epochs", "2"]) == SIZES
    assert [command[command.index("--one") + 1] for command in measured] == ["10000"]
    assert json.loads((tmp_path / "growth.json").read_text()) == SIZES
    assert (tmp_path / "growth.md").read_text() == growth.table(SIZES)
    assert (tmp_path / "growth.svg").read_text() == growth.figure(SIZES)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory of a stage is read from /proc")
def test_a_hundred_thousand_nodes_take_a_hundredth_of_20_gib() -> None:
    """Ten million such nodes must fit into 20 GiB, and no stage may take more than its proportion."""
    nodes, share = 100_000, 20 * 2**30 // 100
    # Train in blocks of nodes, as larger graphs are trained: the memory does not allow all nodes at once.
    enough_for_blocks = 4 * nodes * (3 * growth.FEATURES + 16 + 12 * 4)
    command = [sys.executable, "-c", _ONE_SIZE, str(nodes), str(enough_for_blocks)]
    # Arrays of this size would come from the heap, which keeps freed memory; larger ones do not.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": str(2**16)}
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment)
    found = json.loads(done.stdout)
    over = {stage: peak - found["bytes_before"] for stage, peak in found["peak_bytes"].items()}
    assert max(over.values()) < share, over
