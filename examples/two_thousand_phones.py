"""A collection in which nobody holds the graph: 2,000 phones answer over HTTP, first their label, then two waves.

Each phone keeps its list of contacts. Before a wave, all reports so far give a table of what is believed about
everyone, which is published whole. A phone adds up the rows of its own contacts, and sends a small noisy answer.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from veilgraph import FeatureSchema, Graph
from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign, CampaignBudget, Notice, new_key, token_for
from veilgraph.campaign.neighbours.next_wave import NextWave, begin_series
from veilgraph.client import answer, answer_neighbours, fetch, send
from veilgraph.collector.auth import Role, new_role_token
from veilgraph.datasets import csbm
from veilgraph.deploy import open_source, predict_nodes, train
from veilgraph.deploy.publish_wave import publish_wave
from veilgraph.privacy.belief_table import finest_scale
from veilgraph.privacy.mechanisms import NeighbourhoodHistogram

PHONES, AT_ONCE, EPSILON_Y, WAVES = int([*sys.argv, "2000"][1]), 16, 2.0, (1.0, 3.0)
CLOSES = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)


def serve(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Run the collector of the series on a free port and return its address. It takes up each wave by itself."""
    options = "label.json --graph people.csv --set tables=tables --store sqlite:///reports.db --port 0 --set rate=0"
    secrets = ["--keys-file", "keys.txt", "--admin-token-file", "admin.txt"]
    command, log = [sys.executable, "-m", "veilgraph", "serve", *options.split(), *secrets], folder / "collector.log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, cwd=folder, stderr=file)
    while not (found := re.search(r"http://127.0.0.1:\d+", log.read_text(encoding="utf-8"))):
        time.sleep(0.05)
    return process, found[0]


def collect(folder: Path, url: str, campaign: Campaign, phone: Callable[[int, str], Any]) -> None:
    """Wait until a document is open, and have every phone answer it."""
    while fetch(url, folder / "watching").question.id != campaign.id:
        time.sleep(0.2)
    started = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as phones:
        stored = sum(map(bool, phones.map(lambda i: phone(i, url), range(PHONES))))
    print(f"campaign {campaign.id[:8]}: {stored:,} phones answered in {time.perf_counter() - started:.0f} s")


def main() -> None:
    """Collect labels and two waves, train a model, and compare its predictions with the truth."""
    private, key = csbm(PHONES, seed=0), new_key()
    names, classes = [f"u{i:04}" for i in range(PHONES)], private.schema.classes
    ends, people = private.graph.edge_index, Graph.without_edges(PHONES, node_ids=names)
    first = begin_series(
        schema=FeatureSchema(classes=classes), people=people, budget=CampaignBudget(epsilon_y=EPSILON_Y),
        notice=Notice(purpose="An example", contact="nobody", closes=CLOSES),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        folder, campaign = Path(place), first
        files = {"label.json": first.to_json(), "people.csv": "\n".join(["id", *names]), "keys.txt": key}
        for name, content in (files | {"admin.txt": new_role_token(Role.OWNER)}).items():
            write_atomically(folder / name, content)

        def phone(i: int, url: str) -> Any:
            given: dict[str, Any] = {"node": names[i], "store": folder / names[i], "max_epsilon": EPSILON_Y}
            if not campaign.asked.answers:
                if i % 4 == 0:  # some do not know their class
                    return None
                report = answer(campaign.to_json(), {"label": classes[private.labels[i]]}, **given)
            else:
                wave = fetch(url, folder / f"{names[i]}-wave")  # whole files: nobody learns whom a phone looks up
                contacts = [names[j] for j in ends[0, ends[1] == i]]
                report = answer_neighbours(wave.read(), contacts, max_entry_epsilon=sum(WAVES), **given)
            return send(url, report, token_for(key, first.id, names[i]))

        (process, url), store, tables = serve(folder), f"sqlite:///{folder}/reports.db", folder / "tables"
        collect(folder, url, campaign, phone)
        for epsilon in WAVES:
            wave = NextWave(answer=NeighbourhoodHistogram(4, epsilon, finest_scale(4)), closes=CLOSES)
            campaign, _ = publish_wave(store, campaign, people, wave, tables=tables)
            collect(folder, url, campaign, phone)
        process.terminate()
        process.wait()
        model = train(open_source(folder / "label.json", people, store=store, tables=tables), out=folder / "model")
        right = predict_nodes(model, people).probabilities.argmax(axis=1) == private.labels
    print(f"{right[::4].mean():.1%} right on those who sent no label, one draw; guessing gives about 25 %")
    print(*first.guarantee.in_words()[:1], *campaign.asked.words.guarantee, sep="\n")


if __name__ == "__main__":
    main()
