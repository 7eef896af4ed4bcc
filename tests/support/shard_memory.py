"""Memory of a training on shards: under torchrun, each process writes by how much its memory grew with the graph.

The fixed cost of Python, torch, the process group and buffers of constant size is what a training on a small graph
takes. It is done first in the same process, and does not count.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from tests.support.trained import options_of
from veilgraph.deploy import open_source, train
from veilgraph.distributed.process_group import join_process_group


def peak() -> int:
    """Return the peak of the resident memory of this process in bytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def main(small: Path, large: Path, out: Path) -> None:
    """Train on the small graph, then on the large one, and write both peaks."""
    with join_process_group(torch.device("cpu")) as processes:
        peaks, size = [], processes.world_size
        for folder in (small, large):
            given: dict[str, Any] = {"method": "rgnn", "epochs": 3, "num_clusters": 4, "device": "cpu"}
            campaign, model = folder / "campaign.json", out / f"{folder.name}-{size}"
            train(open_source(campaign, folder), options_of(card=False, **given), out=model, processes=processes)
            peaks.append(peak())
        (out / f"memory-{size}-{processes.rank}.json").write_text(json.dumps(peaks), encoding="ascii")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
