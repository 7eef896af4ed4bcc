"""Prediction on a folder of shards, in processes none of which holds more than its share."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from veilgraph.deploy.model_folder import Model
from veilgraph.deploy.prediction import (
    CERTAIN,
    COVERAGE,
    Predictions,
    calibrated_sets,
    count_set_sizes,
    sets_of_classes,
    unknown_people,
    write_prediction_shard,
    write_predictions_manifest,
)
from veilgraph.deploy.shard_reports import SharedReports, check_campaign
from veilgraph.deploy.sources import split_reports
from veilgraph.deploy.training import check_shared_method
from veilgraph.distributed.exchange import Exchange
from veilgraph.distributed.process_group import ProcessGroup, join_process_group
from veilgraph.errors import RunError
from veilgraph.graph import PerturbedGraph
from veilgraph.graph.shard_writer import drafted_folder
from veilgraph.graph.shards import ShardFolder
from veilgraph.models.engine.device import resolve_device
from veilgraph.privacy.frequency import estimate_frequencies
from veilgraph.progress import Watch, unwatched
from veilgraph.reconstruct.labels import project_to_simplex


def predict_shards(
    folder: Path,
    shards: Path,
    out: Path,
    *,
    device: str = "auto",
    coverage: float | None = None,
    certain: float = CERTAIN,
    watch: Watch = unwatched,
) -> tuple[Model, ShardAnswers] | None:
    """Predict the classes of all nodes of a folder of shards, and write them as shards.

    Under torchrun every process makes this call and predicts its share.

    Args:
        folder: folder of the model.
        shards: folder of the graph's shards, with reports.
        out: folder of the predictions.
        device: "auto", "cpu" or "cuda".
        coverage: probability with which a set holds the true class; default: 0.9, and no sets where the method gives
            none.
        certain: least probability of an answer that counts as certain enough.
        watch: shows the progress of the leader.

    Returns:
        The model and what it predicted in the process that leads, None in the others.
    """
    with join_process_group(resolve_device(device)) as processes:
        model, graph = Model.load(folder, device=device), ShardFolder.open(shards)
        with processes.leader_first():
            calibrated_sets(model, coverage)  # refused before anything is read
            check_campaign(model.campaign, graph)
            check_shared_method(model.method)
        if not processes.is_leader:
            draft = processes.broadcast(out)
            processes.gather(_predict(model, graph, processes, draft, coverage, certain))
            return None
        with watch("predict"), drafted_folder(out, graph.parts) as draft:
            found = processes.gather(_predict(model, graph, processes, processes.broadcast(draft), coverage, certain))
            described = [shard for shards_of_process, _ in found for shard in shards_of_process]
            write_predictions_manifest(draft, described, graph=graph.identity, campaign=model.campaign.id)
        sizes = [answers.set_sizes for _, answers in found if answers.set_sizes is not None]
        total = [sum(each) for each in zip(*sizes, strict=True)]
        return model, ShardAnswers(sum(answers.certain for _, answers in found), total or None)


class ShardAnswers(NamedTuple):
    """What was predicted for all nodes of some shards.

    Attributes:
        certain: number of answers that are certain enough.
        set_sizes: number of nodes with a set of each size, [classes + 1]; None if the method gives no sets.
    """

    certain: int
    set_sizes: list[int] | None


def _predict(
    model: Model, folder: ShardFolder, processes: ProcessGroup, draft: Path, coverage: float | None, certain: float
) -> tuple[list[dict[str, Any]], ShardAnswers]:
    """Write the predictions of this process's shards; return their descriptions, and what was predicted."""
    calibrated = calibrated_sets(model, coverage)
    exchange = Exchange(rank=processes.rank, world_size=processes.world_size)
    part = SharedReports.read(folder, model.campaign, exchange)
    seen = part.perturbed
    if model.facts.get("shards") == folder.digest:  # the reports of the training, without those that were held out
        _, seen = split_reports(seen, model.method, seed=model.facts["seed"], hold_out=model.facts["hold_out"])
    rows = model.method.predict_proba(seen)
    unknown = unknown_people(seen)
    rows[unknown] = _class_shares(seen, exchange)
    if not np.isfinite(rows).all():
        raise RunError("predictions are not finite numbers: the model is damaged; train it again")
    probabilities, reported = part.to_homes(rows), part.to_homes(seen.has_report)
    sets = None
    if calibrated is not None:
        sets = part.to_homes(
            sets_of_classes(calibrated, rows, seen, unknown, COVERAGE if coverage is None else coverage)
        )
    del rows
    described, sure, start = [], 0, 0
    for shard in part.homes.shards:
        ids = folder.nodes(shard).ids
        here = slice(start, start := start + len(ids))
        found = Predictions(
            nodes=tuple(map(str, ids.to_pylist())),
            classes=model.campaign.schema.classes,
            probabilities=probabilities[here],
            reported=reported[here],
            sets=None if sets is None else sets[here],
            certain_from=certain,
            epsilon_user_level=model.campaign.guarantee.total_user_level,
            campaign=model.campaign.id,
        )
        described.append(write_prediction_shard(found, ids, draft, shard))
        sure += int(found.certain.sum())
    return described, ShardAnswers(sure, count_set_sizes(sets))


def _class_shares(seen: PerturbedGraph, exchange: Exchange) -> NDArray[np.float32]:
    """Estimate the share of each class from the label reports of all processes, [1, classes]."""
    named = exchange.sum(seen.named_classes().sum(axis=0).astype(np.int64))
    count = exchange.sum(np.array([np.count_nonzero(seen.has_label)]))[0]
    shares = estimate_frequencies(torch.from_numpy(named / count), seen.label_mechanism.channel)
    return np.asarray(project_to_simplex(shares.to(torch.float32).unsqueeze(0)).numpy())
