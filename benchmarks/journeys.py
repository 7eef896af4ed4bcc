"""Modules that a journey through the source runs: one cell of Veil, one of RGNN, a training with its card, a report.

python -m benchmarks.journeys

A module counts if one of its functions runs; that it is imported does not count. Each journey is a run of the command
line in this process, or what a command calls, on small simulated data.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import numpy as np

import veilgraph
from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import reports_of
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.notice import Notice
from veilgraph.cli import main as veilgraph_command
from veilgraph.collector.store import ReportStore
from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.experiments import simulate
from veilgraph.experiments.cells import fit_cells
from veilgraph.experiments.grid import Cell
from veilgraph.graph import Graph, Split
from veilgraph.privacy.budget import PrivacyBudget

PACKAGE = Path(veilgraph.__file__).parent
SAMPLED = 4
BUDGET = PrivacyBudget(epsilon_x=2.0, epsilon_y=2.0, sampled=SAMPLED)
BEFORE = {"a cell of Veil": 54, "a cell of RGNN": 48, "train with its card": 84, "a report on a device": 26}
"""Modules of each journey before the spine was made."""


class Trace:
    """The modules of the package that have run, as paths below it."""

    def __init__(self) -> None:
        self.modules: set[str] = set()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Take note of a function that begins; bodies of modules and classes are imports."""
        code = frame.f_code
        if event == "call" and code.co_flags & inspect.CO_OPTIMIZED and code.co_filename.startswith(str(PACKAGE)):
            self.modules.add(str(Path(code.co_filename).relative_to(PACKAGE)))

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Trace this thread and those that it starts."""
        before = sys.getprofile()
        sys.setprofile(self)
        threading.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(before)
            threading.setprofile(None)


def journeys(folder: Path) -> dict[str, set[str]]:
    """Return the modules of each journey; files of campaign and model are written to the folder."""
    private = csbm(300, num_features=8, num_classes=3, seed=0)
    campaign = write_collection(folder, private)
    (folder / "record.json").write_text(json.dumps(_record(campaign)), encoding="utf-8")
    files = {"graph": "edges.csv", "nodes": "nodes.csv", "out": "model"}
    train = [word for name, file in files.items() for word in (f"--{name}", str(folder / file))]
    device = [
        "--record",
        f"{folder}/record.json",
        "--out",
        f"{folder}/report.json",
        "--device-folder",
        f"{folder}/device",
    ]
    runs: dict[str, Callable[[], object]] = {
        "a cell of Veil": lambda: _cell(private, "veil"),
        "a cell of RGNN": lambda: _cell(private, "rgnn"),
        "train with its card": lambda: _command(
            "train", f"{folder}/campaign.json", "--store", f"sqlite:///{folder}/reports.db", *train, "--device", "cpu"
        ),
        "a report on a device": lambda: _command(
            "randomize", f"{folder}/campaign.json", "--node", "u0", "--limit", "100", *device
        ),
    }
    return {name: traced(run) for name, run in runs.items()}


def traced(run: Callable[[], object]) -> set[str]:
    """Return the modules that a call runs."""
    trace = Trace()
    with trace.running():
        run()
    return trace.modules


def write_collection(folder: Path, private: PrivateGraph) -> Campaign:
    """Write the campaign, the tables and a store with the reports of everybody."""
    names = [f"u{i}" for i in range(private.graph.num_nodes)]
    graph = Graph.from_edges(private.graph.edges, len(names), node_ids=names)
    campaign = Campaign.new(
        schema=private.schema,
        graph=graph,
        notice=Notice(purpose="p", contact="c", closes=datetime(2999, 1, 1, tzinfo=UTC)),
        budget=CampaignBudget(epsilon_x=BUDGET.epsilon_x, epsilon_y=BUDGET.epsilon_y, sampled=SAMPLED),
    )
    drawn = simulate(private, BUDGET, Split.random(len(names), seed=0), rng=np.random.default_rng(0))
    store = ReportStore.open(f"sqlite:///{folder}/reports.db")
    store.reports.put(list(reports_of(replace(drawn, graph=graph), campaign)), now=0)
    store.close()
    (folder / "campaign.json").write_text(campaign.to_json(), encoding="utf-8")
    (folder / "nodes.csv").write_text("\n".join(["id", *names]) + "\n", encoding="utf-8")
    edges = [f"{names[a]},{names[b]}" for a, b in private.graph.edges.T.tolist()]
    (folder / "edges.csv").write_text("\n".join(["a,b", *edges]) + "\n", encoding="utf-8")
    return campaign


def _record(campaign: Campaign) -> dict[str, str]:
    columns = {column.name: column.values[0] for column in campaign.schema.columns}
    return columns | {campaign.label_name: campaign.schema.classes[0]}


def _cell(private: PrivateGraph, method: str) -> None:
    cell = Cell(
        dataset=private.name,
        method=method,
        epsilon_x=BUDGET.epsilon_x,
        epsilon_y=BUDGET.epsilon_y,
        sampled=SAMPLED,
        seed=0,
        parameters={"epochs": 2} if method == "rgnn" else {},
    )
    list(fit_cells([cell], private, "cpu"))


def _command(*arguments: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        code = veilgraph_command(list(arguments))
    if code:
        raise RuntimeError(said.getvalue())


def main() -> None:
    """Print the number of modules of each journey."""
    with tempfile.TemporaryDirectory() as folder:
        found = journeys(Path(folder))
    print("| journey | modules | before the spine |\n|---|---:|---:|")
    for name, modules in found.items():
        print(f"| {name} | {len(modules)} | {BEFORE[name]} |")


if __name__ == "__main__":
    main()
