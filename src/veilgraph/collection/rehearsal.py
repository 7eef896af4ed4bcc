"""A rehearsal: simulated people answer a collection over HTTP on this machine, and nothing is kept."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit
from urllib.request import urlopen

import numpy as np

from veilgraph.campaign.tokens import read_keys, token_for
from veilgraph.client import Patience, answer, send
from veilgraph.collection.folder import Collection
from veilgraph.datasets import PrivateGraph
from veilgraph.datasets.csbm import draw_features
from veilgraph.deploy import TrainingOptions, open_source, train
from veilgraph.errors import RunError
from veilgraph.evaluation import accuracy
from veilgraph.experiments.label_fields import LabelFields, assortativity
from veilgraph.graph import Split
from veilgraph.models.structure_only import StructureOnly
from veilgraph.progress import Progress, no_progress

ANSWERING = 0.75
"""Share of the people who answer."""

_AT_ONCE = 8
_FEATURE_SIGNAL = 0.15
_STARTING_SECONDS = 60
_STOPPING_SECONDS = 3
_PARTS = re.compile(r'(?:src|href)="([^"#]+)"')


@dataclass(frozen=True, kw_only=True)
class Page:
    """What a phone loads before a person can answer.

    Attributes:
        requests: number of requests.
        size: number of bytes.
    """

    requests: int
    size: int


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """What a rehearsal found.

    Attributes:
        answered: number of people who answered.
        seconds: duration of all their answers together.
        page: what a phone loads.
        homophily: share of links that join two people with the same simulated answer; None without links.
        assortativity: the homophily above chance, from 0 to 1.
        accuracy: share of the silent people whose simulated answer is predicted right; None without links.
        control: the same of the structure-only control.
        largest_class: share of the silent people who have the most frequent answer among them: no constant is better.
        silent: number of people who did not answer.
    """

    answered: int
    seconds: float
    page: Page
    silent: int
    homophily: float | None = None
    assortativity: float | None = None
    accuracy: float | None = None
    control: float | None = None
    largest_class: float | None = None


@contextmanager
def serving(collection: Collection) -> Iterator[str]:
    """Run the collector of a collection as `veilgraph serve` does, on a free port of this machine.

    Yields:
        The address of the collector.
    """
    log = collection.folder / "collector.log"
    words = ["serve", str(collection.folder), "--port", "0", "--set", "rate=0"]
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 (this program, with a folder as its only value)
            [sys.executable, "-m", "veilgraph", *words],
            stdout=subprocess.DEVNULL,
            stderr=output,
            stdin=subprocess.DEVNULL,
            env=collection.store.process_environment,
        )
    try:
        ends = time.monotonic() + _STARTING_SECONDS
        while not (found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text(encoding="utf-8", errors="replace"))):
            if process.poll() is not None or time.monotonic() > ends:
                raise RunError(f"the collector did not start: {log.read_text(errors='replace').strip()[-500:]}")
            time.sleep(0.05)
        yield found[0]
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOPPING_SECONDS)
        process.kill()
        process.wait()


@contextmanager
def copy_of(collection: Collection) -> Iterator[Collection]:
    """Yield a copy of a collection in a temporary folder, without what its commands made of it; its store is a file."""
    with tempfile.TemporaryDirectory(prefix="veilgraph-rehearsal-") as name:
        folder = Path(name) / collection.folder.resolve().name
        made = shutil.ignore_patterns(
            "reports.db*", "models", "invitations", "review", "waves", "assessment.json", ".*"
        )
        shutil.copytree(collection.folder, folder, ignore=made)
        yield Collection(folder, environment={})


def rehearse(collection: Collection, *, address: str, seed: int = 0, progress: Progress = no_progress) -> Rehearsal:
    """Let simulated people answer a running collector, train on their reports, and compare with what they hold.

    Args:
        collection: a copy of the collection, whose store the collector writes.
        address: address of its collector.
        seed: seed of the simulated answers, and of who gives one.
        progress: called with the step, the number of people who answered, and of all who will.
    """
    campaign, page = collection.campaign, _load(address)
    rng = np.random.default_rng(seed)
    private = _simulated(collection, rng)
    names, key = private.graph.names, read_keys(collection.keys_file)[0]
    answering = np.sort(rng.permutation(len(names))[: round(ANSWERING * len(names))])
    document, columns = campaign.to_json(), campaign.schema.feature_names

    stopped = threading.Event()

    def pause(seconds: float) -> None:
        stopped.wait(seconds)

    def device(person: int) -> None:
        record: dict[str, Any] = dict(
            zip(
                columns,
                (codes[code] for codes, code in zip(campaign.schema.code_names, private.features[person], strict=True)),
                strict=True,
            )
        )
        record[campaign.label_name] = campaign.schema.classes[private.labels[person]]
        kept = collection.folder / "devices" / str(person)
        report = answer(document, record, node=names[person], store=kept, max_epsilon=float("inf"))
        send(address, report, token_for(key, campaign.series, names[person]), patience=Patience(sleep=pause))

    started = time.perf_counter()
    devices = ThreadPoolExecutor(_AT_ONCE)
    try:
        for done, _ in enumerate(devices.map(device, answering), start=1):
            progress("answers", done, len(answering))
    finally:  # Ctrl-C stops the collector too: nobody waits for it
        stopped.set()
        devices.shutdown(cancel_futures=True)
    seconds = time.perf_counter() - started
    found: dict[str, Any] = {
        "answered": len(answering),
        "seconds": seconds,
        "page": page,
        "silent": len(names) - len(answering),
    }
    return Rehearsal(**found, **(_learned(collection, private, answering) if private.graph.num_edges else {}))


def _simulated(collection: Collection, rng: np.random.Generator) -> PrivateGraph:
    """Draw answers that vary smoothly over the graph, half as much as it allows.

    They are about equally frequent: where nearly all are the same, nothing could be learned from a rehearsal.
    """
    graph, schema = collection.graph, collection.campaign.schema
    if graph.num_edges:
        fields = LabelFields(graph=graph, num_classes=schema.num_classes, seed=int(rng.integers(2**31)))
        equal = np.full(schema.num_classes, 1 / schema.num_classes)
        labels = fields.draw(rng, wanted=fields.largest_assortativity / 2, shares=equal)
    else:
        labels = rng.integers(schema.num_classes, size=graph.num_nodes)
    features = draw_features(labels, schema, _FEATURE_SIGNAL, rng)
    return PrivateGraph(name="simulated answers", graph=graph, schema=schema, features=features, labels=labels)


def _learned(collection: Collection, private: PrivateGraph, answering: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return what a model of the stored reports gets right, beside the control and the largest class."""
    _, people = collection.graph_files
    source = open_source(collection.campaign, private.graph, store=collection.store.url, nodes=people)
    perturbed = source.read().perturbed
    model = train(source, TrainingOptions(), out=collection.folder / "model")
    split = Split.random(len(private.labels), seed=0, train=2 / 3, validation=1 / 3, eligible=perturbed.has_label)
    silent = np.ones(len(private.labels), dtype=np.bool_)
    silent[answering] = False
    first, second = private.graph.edges
    return {
        "accuracy": accuracy(model.method.predict(), private, silent),
        "control": accuracy(StructureOnly().fit(perturbed, split).predict(), private, silent),
        "largest_class": float(np.bincount(private.labels[silent]).max() / silent.sum()),
        "homophily": float((private.labels[first] == private.labels[second]).mean()),
        "assortativity": assortativity(private.graph, private.labels),
    }


def _load(address: str) -> Page:
    """Load the participant's page and its parts, as a phone does."""
    page = _get(f"{address}/")
    parts = [part for part in dict.fromkeys(_PARTS.findall(page.decode())) if not urlsplit(part).scheme]
    return Page(
        requests=1 + len(parts), size=len(page) + sum(len(_get(urljoin(f"{address}/", each))) for each in parts)
    )


def _get(address: str) -> bytes:
    with urlopen(address) as reply:  # noqa: S310 (an address of this machine)
        content: bytes = reply.read()
    return content
