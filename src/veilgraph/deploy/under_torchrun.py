"""Training and prediction under torchrun: the same call in every process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from veilgraph.deploy.fit_collected import DEFAULT_METHOD, train_on_store
from veilgraph.deploy.fit_shards import predict_shards, train_on_shards
from veilgraph.deploy.model_folder import Model
from veilgraph.deploy.prediction import CERTAIN
from veilgraph.distributed.process_group import join_process_group
from veilgraph.errors import RunError
from veilgraph.graph import Graph
from veilgraph.models.base import DEFAULT_MEMORY
from veilgraph.models.engine.device import resolve_device
from veilgraph.models.engine.distributed_fit import join_fit
from veilgraph.progress import Watch, unwatched

_ONE_PROCESS = {"nodes": "--nodes", "screened": "--screen", "plausible": "--plausible"}
"""Options that need the whole graph or all reports in one process."""


def train_under_torchrun(
    store: str | None,
    campaign: Path,
    graph: Path | Graph,
    *,
    out: Path,
    device: str = "auto",
    memory: int = DEFAULT_MEMORY,
    **options: Any,
) -> Model | None:
    """Call `train_on_store` in every process that torchrun started; each holds a part of the graph.

    Without torchrun there is one process, which holds all of it. From a folder of shards with reports, each process
    reads its own shards (`train_on_shards`), and no process ever holds more than its share.

    Returns:
        The model in the process that leads, None in the others.
    """
    with join_process_group(resolve_device(device)) as processes:
        if processes.world_size > 1 and isinstance(graph, Path) and graph.is_dir():
            return train_on_shards(
                processes, campaign, graph, out=out, device=device, memory=memory, **options_of_shards(store, options)
            )
        if not processes.is_leader:
            join_fit(processes, memory=memory)
            return None
        return train_on_store(
            store, campaign, graph, out=out, device=device, memory=memory, processes=processes, **options
        )


def predict_under_torchrun(
    folder: Path, shards: Path, out: Path, *, device: str = "auto", certain: float = CERTAIN, watch: Watch = unwatched
) -> tuple[Model, int] | None:
    """Call `predict_shards` in every process that torchrun started, or in one.

    Args:
        folder: folder of the model.
        shards: folder of the graph's shards, with reports.
        out: folder of the predictions.
        device: "auto", "cpu" or "cuda".
        certain: least probability of an answer that counts as certain enough.
        watch: shows the progress of the leader.

    Returns:
        The model and the number of certain answers in the process that leads, None in the others.
    """
    with join_process_group(resolve_device(device)) as processes:
        model = Model.load(folder, device=device)
        sure = predict_shards(processes, model, shards, out, certain=certain, watch=watch)
        return None if sure is None else (model, sure)


def options_of_shards(store: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of `train_on_shards`; refuse those that need one process."""
    if store is not None:
        raise RunError(
            "several processes read reports from the shards: write them with veilgraph graph shard --reports, and "
            "leave --store out"
        )
    for name, option in _ONE_PROCESS.items():
        if options.get(name):
            raise RunError(f"{option} needs one process: leave it out, or start without torchrun")
    others = {name: value for name, value in options.items() if name not in (*_ONE_PROCESS, "waves", "card")}
    return {"method": DEFAULT_METHOD} | others
