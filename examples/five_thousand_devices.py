"""A whole collection on one machine: a campaign, a collector, 5,000 devices that answer over HTTP, and a model.

Every device verifies the campaign, randomizes its own record with the operating system's randomness, keeps its report
and sends it. The collector never sees a record; training reads the collector's store.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

from veilgraph import Graph, PrivateGraph, StructureOnly
from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign, CampaignBudget, Notice, new_key, token_for
from veilgraph.client import answer, send
from veilgraph.collector.auth import Role, new_role_token
from veilgraph.datasets import csbm
from veilgraph.deploy import TrainingOptions, open_source, train
from veilgraph.evaluation import accuracy
from veilgraph.graph import Split

DEVICES, AT_ONCE = int([*sys.argv, "5000"][1]), 16


def set_up(folder: Path) -> tuple[PrivateGraph, Campaign, str]:
    """Make invented people on a public graph, a campaign for them, and the files that `veilgraph serve` reads."""
    private = csbm(DEVICES, num_features=16, seed=0)
    names = [f"u{i}" for i in range(DEVICES)]
    graph = Graph.from_edges(private.graph.edges, DEVICES, node_ids=names)
    closes = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    campaign = Campaign.new(
        schema=private.schema, graph=graph, notice=Notice(purpose="An example", contact="nobody", closes=closes),
        budget=CampaignBudget(epsilon_x=1.0, sampled=4, epsilon_y=1.0),
    )  # fmt: skip
    key = new_key()
    lines = "".join(f"{names[u]},{names[v]}\n" for u, v in graph.edges.T)
    (folder / "edges.csv").write_text("from,to\n" + lines, encoding="utf-8")
    (folder / "nodes.csv").write_text("id\n" + "\n".join(names), encoding="utf-8")
    (folder / "campaign.json").write_text(campaign.to_json(), encoding="utf-8")
    write_atomically(folder / "keys.txt", key)
    write_atomically(folder / "admin.txt", new_role_token(Role.OWNER))
    return private, campaign, key


def serve(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Run a collector on a free port and yield its address."""
    files = {"graph": "edges.csv", "nodes": "nodes.csv", "keys-file": "keys.txt"}
    files |= {"admin-token-file": "admin.txt", "store": "sqlite:///reports.db"}
    options = [word for name, value in files.items() for word in (f"--{name}", value)]
    command = [sys.executable, "-m", "veilgraph", "serve", "campaign.json", "--port", "0", "--set", "rate=0", *options]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stderr=log)
    while not (found := re.search(r"http://127.0.0.1:\d+", (folder / "log").read_text(encoding="utf-8"))):
        if process.poll() is not None:
            raise SystemExit((folder / "log").read_text(encoding="utf-8"))
        time.sleep(0.05)
    return process, found[0]


def main() -> None:
    """Collect reports, train a model and compare it with the control."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        private, campaign, key = set_up(folder)
        text, columns, classes = campaign.to_json(), private.schema.feature_names, private.schema.classes
        process, url = serve(folder)

        def device(i: int) -> bool:
            record = dict(zip(columns, private.features[i].tolist(), strict=True))
            record["label"] = classes[private.labels[i]] if i % 4 else None  # some do not know
            report = answer(text, record, node=f"u{i}", store=folder / "devices" / f"u{i}", max_epsilon=6.0)
            return bool(send(url, report, token_for(key, campaign.id, f"u{i}")))

        started = time.perf_counter()
        with ThreadPoolExecutor(AT_ONCE) as devices:
            stored = sum(devices.map(device, range(DEVICES)))
        seconds = time.perf_counter() - started
        process.terminate()
        process.wait()
        store, nodes = f"sqlite:///{folder}/reports.db", folder / "nodes.csv"
        source = open_source(folder / "campaign.json", folder / "edges.csv", store=store, nodes=nodes)
        model = train(source, TrainingOptions(device="cpu"), out=folder / "model")
        perturbed = model.perturbed(Graph.from_files(folder / "edges.csv", nodes=folder / "nodes.csv"))
    print(f"{stored:,} devices answered in {seconds:.0f} s: {perturbed}")
    split = Split.random(DEVICES, seed=0, train=2 / 3, validation=1 / 3, eligible=perturbed.has_label)
    control = StructureOnly().fit(perturbed, split)
    for title, predicted in (("Veil", model.method.predict()), ("structure-only control", control.predict())):
        share = accuracy(predicted, private, ~perturbed.has_label)
        print(f"{title:22}  {share:.1%} on those who sent no label, one draw")
    print(*campaign.guarantee.in_words(), sep="\n")


if __name__ == "__main__":
    main()
